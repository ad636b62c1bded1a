# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# systemd in a guest that has another first process: in namespaces of its own, as in a
# container. Read after lib.sh.

unit_log=/run/unit.log

# start_systemd: its process is $manager, as seen from outside.
start_systemd() {
	# What a whole machine would start, and a log that the unit can write to.
	rm -rf /usr/lib/systemd/system/*.target.wants /etc/systemd/system/*
	mkdir -p /etc/systemd/system/scx_avxspec.service.d /etc/default /var/tmp
	printf '[Service]\nStandardOutput=append:%s\nStandardError=append:%s\n' \
		$unit_log $unit_log >/etc/systemd/system/scx_avxspec.service.d/log.conf
	[ -e /var/run ] || ln -s /run /var/run
	: >/etc/machine-id

	mkdir /sys/fs/cgroup/systemd
	sh -c 'echo $$ >/sys/fs/cgroup/systemd/cgroup.procs
		exec /usr/bin/unshare --pid --fork --mount --cgroup --uts --ipc sh -c "
			mount -t proc proc /proc
			umount /sys/fs/cgroup
			mount -t cgroup2 cgroup2 /sys/fs/cgroup
			exec env -i container=rig PATH=$PATH /lib/systemd/systemd --system \
				--unit=basic.target --log-target=kmsg --log-level=info"' \
		>/tmp/systemd.log 2>&1 &
	launcher=$!
	wait_until 60 test -S /run/systemd/private || {
		cat /tmp/systemd.log >&2
		fail systemd does not start
	}
	manager=$(cat /proc/$launcher/task/$launcher/children)
	manager=${manager% }
	wait_until 60 ctl is-active --quiet basic.target || fail systemd does not answer
}

# inside COMMAND...: where systemd is.
inside() {
	/usr/bin/nsenter --target "$manager" --mount --pid --cgroup --root --wd -- "$@"
}

ctl() {
	inside systemctl --no-pager "$@"
}

main_process() {
	ctl show scx_avxspec --property MainPID --value
}

restarts() {
	ctl show scx_avxspec --property NRestarts --value
}

is_inactive() {
	[ "$(ctl is-active scx_avxspec)" = inactive ]
}

is_loaded_anew() {
	grep -q 'starting again' $unit_log && is_enabled &&
		[ "$(ctl is-active scx_avxspec)" = active ]
}

# is_back_after PROCESS: another one schedules.
is_back_after() {
	[ "$(main_process)" != "$1" ] && is_enabled &&
		[ "$(ctl is-active scx_avxspec)" = active ]
}

show_and_fail() {
	cat $unit_log >&2
	ctl status scx_avxspec >&2
	fail "$@"
}
