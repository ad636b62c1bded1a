/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All decisions, and with them every type that crosses a border: what Rust is told of.
 *
 * What it makes of the pointers that they take: each is to one thing that is there. An array
 * says its size, and what need not be there is called so, as arguments of kfuncs are: with
 * __nullable at the end of its name.
 */
#ifndef AVXSPEC_DECISIONS_H
#define AVXSPEC_DECISIONS_H

#include "arithmetic.bpf.h"
#include "books.bpf.h"
#include "class.bpf.h"
#include "compensation.bpf.h"
#include "decode.bpf.h"
#include "elf.bpf.h"
#include "fairness.bpf.h"
#include "placement.bpf.h"
#include "preempt.bpf.h"
#include "queues.bpf.h"
#include "remigrate.bpf.h"
#include "share.bpf.h"
#include "sizing.bpf.h"

#endif /* AVXSPEC_DECISIONS_H */
