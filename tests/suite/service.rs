// SPDX-License-Identifier: GPL-2.0-only
//! The unit of contrib/systemd, under systemd itself.

use anyhow::{Result, ensure};

use super::{scheduler_guest, script, with_refusals};
use crate::rig::guest::Guest;
use crate::rig::{Flavour, Qemu, in_repository};
use crate::suite::recovery::ERROR;

crate::tests! {
    service:
    systemd_starts_it_again_whatever_befalls_it(107),
}

/// A guest in which systemd can be started, as in a container: in namespaces of its own. What it
/// would start for a whole machine is taken away; of the unit only the log goes elsewhere.
fn guest_with_systemd() -> Result<Guest> {
    let unit = in_repository("contrib/systemd/scx_avxspec.service");
    Ok(scheduler_guest(Qemu::cpus(3), Flavour::Stock)?
        .package("systemd")
        .package("util-linux")
        .file("/usr/lib/systemd/system/scx_avxspec.service", &unit)
        .file("/systemd.sh", &in_repository("tests/guest/systemd.sh")))
}

fn systemd_starts_it_again_whatever_befalls_it() -> Result<()> {
    let outcome = with_refusals(guest_with_systemd()?, Flavour::Stock)?
        .command(&script(
            ". /systemd.sh
             start_systemd
             unit=/usr/lib/systemd/system/scx_avxspec.service
             inside systemd-analyze verify --man=no $unit || fail the unit is wrong
             inside systemd-analyze security --offline=true --threshold=25 $unit >/tmp/exposed ||
                 fail $(tail -n 1 /tmp/exposed)
             # Threads that say what their work is are all there is to hear in this machine.
             echo 'OPTIONS=\"--force\"' >/etc/default/scx_avxspec
             ctl start scx_avxspec || show_and_fail it does not start
             is_enabled || show_and_fail systemd was told too early
             ctl show scx_avxspec --property StatusText
             scx_avxspec status | head -n 1
             scx_avxspec check | grep 'runs already'
             inside grep CapEff /proc/$(main_process)/status | tr '\\t' ' '
             ls /sys/fs/bpf
             # Another scheduler has its statistics beside this one's.
             ls -d /run/scx/root/stats
             mkdir /run/scx/other

             # /proc hides others' processes from the agent, which may do little.
             inside setpriv --reuid=nobody --clear-groups \
                 sh -c 'echo $$; exec sleep 1000' >/tmp/hidden & launched=$!
             wait_until 30 test -s /tmp/hidden || fail nobody sleeps
             hidden=$(cat /tmp/hidden)
             inside mount -o remount,hidepid=1,gid=54321 /proc
             inside setpriv --bounding-set=-all --inh-caps=-all cat /proc/$hidden/status &&
                 fail /proc hides nothing
             scx_avxspec explain $hidden >&2 || show_and_fail no word of who is hidden
             inside mount -o remount,hidepid=0,gid=0 /proc
             inside kill $hidden
             wait $launched

             first=$(main_process)
             set_cpu 2 0
             wait_until 60 is_loaded_anew || show_and_fail not loaded anew
             echo restarts after a CPU went: $(restarts), same process: $([ \"$(main_process)\" = $first ] && echo yes)

             # Longer than the watchdog waits for a sign of life.
             sleep 35
             [ \"$(main_process)\" = $first ] || show_and_fail systemd takes it for dead

             inside kill -KILL $first
             wait_until 60 is_back_after $first || show_and_fail it does not come back
             echo restarts after SIGKILL: $(restarts)

             second=$(main_process)
             inside kill -STOP $second
             wait_until 120 is_back_after $second || show_and_fail nobody notices that it hangs
             echo restarts after SIGSTOP: $(restarts)

             echo S >/proc/sysrq-trigger
             wait_until 60 is_inactive || show_and_fail it comes back after SysRq S
             is_disabled || show_and_fail the kernel still has the scheduler
             echo after SysRq S: $(ctl is-active scx_avxspec)

             # There is no such node, and so there are no queues.
             insmod /second_argument.ko of=scx_bpf_create_dsq is=1000
             : >$unit_log
             ctl start scx_avxspec && show_and_fail systemd hears that a refused one schedules
             grep -q 'running on' $unit_log && show_and_fail so says the log
             ctl stop scx_avxspec
             rmmod second_argument
             ctl reset-failed scx_avxspec

             ctl start scx_avxspec || show_and_fail it does not start again
             ctl stop scx_avxspec || show_and_fail it does not stop
             is_disabled || show_and_fail the default scheduler is not back
             ctl show scx_avxspec --property Result
             [ ! -d /run/scx_avxspec ] || echo its directory is kept
             [ ! -d /run/scx/other ] || echo that of all schedulers is not",
        ))
        .tolerates(ERROR)
        .limit(600)
        .boot()?;
    let output = outcome.stdout(0)?;
    for sign in [
        "StatusText=schedules, tier hints: ",
        "tier hints",
        "ok       sched_ext scx_avxspec runs already",
        // CAP_PERFMON and CAP_BPF.
        "CapEff: 000000c000000000\n",
        "scx_avxspec_hints\n",
        "/run/scx/root/stats\n",
        "restarts after a CPU went: 0, same process: yes\n",
        "restarts after SIGKILL: 1\n",
        "restarts after SIGSTOP: 2\n",
        "after SysRq S: inactive\n",
        "Result=success\n",
        "its directory is kept\n",
        "that of all schedulers is not\n",
    ] {
        ensure!(output.contains(sign), "no {sign:?} in:\n{output}");
    }
    Ok(())
}
