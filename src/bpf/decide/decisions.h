/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All decisions, and with them every type that crosses a border. The Rust bindings are
 * generated from this header.
 *
 * In Rust each pointer that a decision takes is a reference to one thing that is there. An
 * array states its size. The name of a pointer that may be NULL ends with __nullable, like
 * those of the arguments of kfuncs.
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
