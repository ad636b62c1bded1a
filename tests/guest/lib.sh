# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Read by the scripts that tests run in a guest.

sched_ext=/sys/kernel/sched_ext

fail() {
	echo "$*" >&2
	exit 1
}

# wait_until SECONDS CONDITION...: polls until the condition holds.
wait_until() {
	patience=$(($1 * 10))
	shift
	until "$@"; do
		patience=$((patience - 1))
		[ $patience -gt 0 ] || return 1
		sleep 0.1
	done
}

# await_start CONDITION...: of a scheduler. In Bochs, whose clock counts instructions, the
# kernel verifies ours for a minute where somebody else wants the CPU as well.
await_start() {
	wait_until 180 "$@"
}

is_enabled() {
	[ "$(cat $sched_ext/state)" = enabled ]
}

is_disabled() {
	[ "$(cat $sched_ext/state)" = disabled ]
}

# start_scheduler ARGUMENTS...: its process is $scheduler, its words are in
# /tmp/scheduler.out and /tmp/scheduler.err.
start_scheduler() {
	loads_before=$(loads)
	scx_avxspec "$@" >/tmp/scheduler.out 2>/tmp/scheduler.err &
	scheduler=$!
	# The kernel uses it before it counts it.
	await_start is_loaded_since "$loads_before" || fail_with_its_words "the scheduler did not come up"
}

# loads: how many times the kernel has got a scheduler.
loads() {
	cat $sched_ext/enable_seq
}

# is_loaded_since LOADS: it has got one again, and uses it.
is_loaded_since() {
	is_enabled && [ "$(loads)" -gt "$1" ]
}

# most_verified: how many instructions the kernel went through to verify that one of its programs
# for which they were the most.
most_verified() {
	# A file that is closed meanwhile would end awk.
	cat "/proc/$scheduler/fdinfo/"* 2>/dev/null |
		awk '/^verified_insns/ && $2 > most { most = $2 } END { print most }'
}

# stop_scheduler: asks as systemd does, for a job in the background ignores ^C. Until then
# the kernel must have used it, and it has to end without an error: its status is in $status.
stop_scheduler() {
	is_enabled || fail_with_its_words "it was ejected"
	kill -TERM "$scheduler"
	wait "$scheduler"
	status=$?
	[ $status = 0 ] || fail_with_its_words "it ended with status $status"
	wait_until 30 is_disabled || fail "the kernel still has the scheduler"
}

# What it said is nowhere if a test started it in its own way.
fail_with_its_words() {
	cat /tmp/scheduler.out /tmp/scheduler.err >&2
	fail "$*"
}

# set_cpu N 0|1: takes a CPU offline, or brings it back.
set_cpu() {
	online=/sys/devices/system/cpu/cpu$1/online
	echo "$2" >"$online" || fail "CPU $1 cannot be set to $2"
	[ "$(cat "$online")" = "$2" ] || fail "CPU $1 is not at $2"
}

# has_counters N: so many counters of the module fake_clocks are open. The kernel closes them when it
# has time.
has_counters() {
	[ "$(cat /sys/module/fake_clocks/refcnt)" = "$1" ]
}

# tell_counters WHEN: how many there are then.
tell_counters() {
	echo "$1=$(cat /sys/module/fake_clocks/refcnt)"
}

# busy_loops N: N processes that never sleep, their ids in $loops.
busy_loops() {
	loops=
	for _ in $(seq "$1"); do
		sh -c 'while :; do :; done' &
		loops="$loops $!"
	done
}

# unread: descriptor 9 is a pipe that nobody reads, as full as a terminal that was stopped.
unread() {
	mkfifo /tmp/unread
	exec 9<>/tmp/unread
	head -c 65536 /dev/zero >&9
}

# has_tier NAME: the scheduler finds out about AVX work in this way.
has_tier() {
	scx_avxspec status | grep -q "tier $1"
}

# is_avx THREAD: the scheduler takes its work for AVX work.
is_avx() {
	scx_avxspec explain "$1" | grep -q "thread $1 is avx"
}

# now: the hundredths of a second since the boot are in $now, and no other process was needed.
now() {
	read -r now _ </proc/uptime
	now=${now%.*}${now#*.}
}

# cpu_ns PID: the time that the kernel says the process has run.
cpu_ns() {
	awk '/^se.sum_exec_runtime/ { printf "%.0f\n", $3 * 1e6 }' "/proc/$1/sched"
}

# all_progress PIDS...: each of the processes runs while we watch.
all_progress() {
	for pid in "$@"; do
		before=$(cpu_ns "$pid") || fail "process $pid is gone"
		wait_until 20 ran_since "$pid" "$before" || fail "process $pid does not run any more"
	done
}

ran_since() {
	[ "$(cpu_ns "$1")" -gt "$2" ]
}
