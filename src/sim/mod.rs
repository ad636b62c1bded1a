// SPDX-License-Identifier: GPL-2.0-only
//! The proving ground: the scheduler's own BPF code, run natively on a modelled machine. So far
//! it serves tests: models of hardware and of workloads are to come.

mod engine;
mod kernel;
