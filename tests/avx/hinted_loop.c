// SPDX-License-Identifier: GPL-2.0-only
/* hinted_loop: says that its work is AVX work, and works. */
#include <stdio.h>

#include "../../contrib/hints/scx_avxspec_hints.h"

int main(void)
{
	struct scx_avxspec_hints hints;

	if (scx_avxspec_open_hints(&hints) || scx_avxspec_hint(&hints, SCX_AVXSPEC_AVX512)) {
		perror("hints");
		return 1;
	}
	for (;;)
		__asm__ volatile("pause");
}
