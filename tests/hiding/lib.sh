# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Read, after lib.sh, by the scripts of the tests of the kernel patch.

module=/sys/module/hiding_test/parameters

# start_forcing ARGUMENTS...: hides from everybody in the background, in
# $forcing, until stop_forcing; what it says is in /tmp/forcing.
start_forcing() {
	rig force "$@" -- sh -c 'echo $$ >/tmp/forcing.command; exec sleep 100000' \
		>/tmp/forcing 2>&1 &
	forcing=$!
	wait_until 60 is_enabled || {
		cat /tmp/forcing >&2
		fail "the scheduler of the tests did not come up"
	}
}

stop_forcing() {
	kill "$(cat /tmp/forcing.command)"
	wait "$forcing"
	wait_until 30 is_disabled || fail "the kernel still has the scheduler of the tests"
}

# spinners_see XCR0: all spinners that run read this now.
spinners_see() {
	! spinners show | grep -qv "=$1\$"
}

# spinner_sees CPU XCR0: the spinner of that CPU reads this now.
spinner_sees() {
	spinners show | grep -q "^cpu$1=$2\$"
}

# look_at_cpus: what is missing of each CPU's XCR0 now, for what follows.
look_at_cpus() {
	cat $module/cpus >/tmp/cpus
}

# Each CPU's XCR0 lacks what the kernel believes it to lack, and nothing else.
cpus_are_consistent() {
	look_at_cpus
	sed 's/.*xcr0=\(.*\) hidden=\(.*\)/\1 \2/' /tmp/cpus | while read -r xcr0 hidden; do
		[ $((xcr0)) -eq $((0xe7 & ~hidden)) ] || echo wrong
	done | grep -q wrong && return 1
	return 0
}

# No CPU lacks anything.
cpus_are_full() {
	look_at_cpus
	! grep -qv 'xcr0=0xe7 hidden=0x0$' /tmp/cpus
}
