# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Read, after lib.sh, by the scripts of the tests of the kernel patch.

module=/sys/module/hiding_test/parameters

# start_forcing ARGUMENTS...: hides from everybody in the background, in
# $forcing, until stop_forcing; what it says is in /tmp/forcing.
start_forcing() {
	rm -f /tmp/forcing.command
	rig force "$@" -- sh -c 'echo $$ >/tmp/forcing.command; exec sleep 100000' \
		>/tmp/forcing 2>&1 &
	forcing=$!
	await_start is_enabled || {
		cat /tmp/forcing >&2
		fail "the scheduler of the tests did not come up"
	}
	wait_until 60 test -s /tmp/forcing.command || fail "its command does not start"
}

stop_forcing() {
	kill "$(cat /tmp/forcing.command)"
	wait "$forcing"
	wait_until 30 is_disabled || fail "the kernel still has the scheduler of the tests"
}

# each_cpu_is FILE PATTERN: it has one line for each CPU, and all of them match.
each_cpu_is() {
	[ "$(wc -l <"$1")" -eq "$(nproc --all)" ] && [ "$(grep -c "$2" "$1")" -eq "$(nproc --all)" ]
}

# spinners_see XCR0: all spinners run, and read this now.
spinners_see() {
	spinners show >/tmp/seen && each_cpu_is /tmp/seen "=$1\$"
}

# spinner_sees CPU XCR0: all spinners run, and that of this CPU reads this now.
spinner_sees() {
	spinners show >/tmp/seen && grep -q "^cpu$1=$2\$" /tmp/seen
}

# look_at_cpus: what is missing of each CPU's XCR0 now, for what follows.
look_at_cpus() {
	cat $module/cpus >/tmp/cpus
}

# Each CPU's XCR0 lacks what the kernel believes it to lack, and nothing else.
cpus_are_consistent() {
	look_at_cpus
	each_cpu_is /tmp/cpus ' xcr0=0x.* hidden=0x' || return 1
	sed 's/.*xcr0=\(.*\) hidden=\(.*\)/\1 \2/' /tmp/cpus >/tmp/views
	while read -r xcr0 hidden; do
		[ $((xcr0)) -eq $((0x2e7 & ~hidden)) ] || return 1
	done </tmp/views
}

# No CPU lacks anything.
cpus_are_full() {
	look_at_cpus
	each_cpu_is /tmp/cpus 'xcr0=0x2e7 hidden=0x0$'
}
