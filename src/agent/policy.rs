// SPDX-License-Identifier: GPL-2.0-only
//! The policy: every knob of the scheduler, and what it is unless somebody turns it.

use crate::bpf::intf;

const US: u64 = 1000;
const MS: u64 = 1000 * US;

/// What suits most machines.
pub fn standard() -> intf::avx_policy {
    intf::avx_policy {
        sizing: intf::avx_sizing_method_SIZING_CONTROLLER,
        avx_cpus: 2,
        share_alpha: 32,
        grow_fill: 768,
        shrink_fill: 512,
        window_ns: 50 * MS,
        wait_target_ns: 200 * US,
        grow_dwell_ns: 20 * MS,
        shrink_dwell_ns: 200 * MS,
        placement: intf::avx_placement_method_PLACEMENT_PACK,
        return_method: intf::avx_return_method_RETURN_ADAPTIVE,
        return_timeout_ns: 20 * MS,
        worthwhile_ns: 100 * US,
        retry_max_ns: 1000 * MS,
        backoff_min_ns: MS,
        backoff_max_ns: 100 * MS,
        mixed_memory_ns: 200 * MS,
        detection_grace_ns: 100 * MS,
    }
}
