// SPDX-License-Identifier: GPL-2.0-only
/* Has the name of OpenZFS's module, and does nothing. */
#include <linux/module.h>

MODULE_DESCRIPTION("Looks like OpenZFS");
MODULE_LICENSE("GPL");
