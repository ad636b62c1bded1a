# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# raid.sh MODULE...: loads the modules of RAID 6 and has an array survive the loss
# of two disks, all the time beside programs that check their vector registers.
# What the oracle counted after the disks were lost is for the caller to ask.

# shellcheck source=/dev/null
. /lib.sh

SEED=$$
ARRAY=/dev/md0
MD=/sys/block/md0/md
DATA=/tmp/data
DISKS="/dev/loop0 /dev/loop1 /dev/loop2 /dev/loop3 /dev/loop4"
LOST="/dev/loop0 /dev/loop1"
SPARES="/dev/loop5 /dev/loop6"
DISK_KB=1536

# Their last words are in /tmp/vectors.
check_registers() {
	while [ ! -e /tmp/raid.done ]; do
		SEED=$((SEED + 1))
		vectors 60 2 $SEED >/tmp/vectors || return 1
	done
}

# is_still: whatever the array does on its own is done.
is_still() {
	[ "$(cat $MD/sync_action)" = idle ]
}

wait_for_array() {
	wait_until 120 is_still || fail "the array is not done: $(cat /proc/mdstat)"
}

# compare WHEN: nothing is read from memory.
compare() {
	sync
	blockdev --flushbufs $ARRAY
	[ "$(md5sum <$ARRAY)" = "$(cat /tmp/sum)" ] || fail "$1: the data are not what was written"
	echo "$1: the same" >&2
}

# fill: random bytes to the last one.
fill() {
	dd if=/dev/urandom of=$DATA bs=64k count=$(($(blockdev --getsize64 $ARRAY) / 65536)) 2>/dev/null
	dd if=$DATA of=$ARRAY bs=64k conv=fsync 2>/dev/null || fail "cannot write"
	md5sum <$DATA >/tmp/sum
}

is_removed() {
	mdadm --quiet $ARRAY --remove "$1"
}

check_registers &
checks=$!
for module in "$@"; do
	insmod "/modules/$module.ko" || exit 1
done

for number in 0 1 2 3 4 5 6; do
	truncate -s ${DISK_KB}k /tmp/disk$number
	losetup /dev/loop$number /tmp/disk$number || exit 1
done
# shellcheck disable=SC2086
mdadm --quiet --create $ARRAY --run --level=6 --raid-devices=5 --chunk=64 --metadata=1.0 $DISKS ||
	fail "no array"
# What is read is to come from the disks: the array remembers little.
echo 32 >$MD/stripe_cache_size
wait_for_array
fill
compare "whole"

command -v oraclectl >/dev/null && oraclectl reset
for disk in $LOST; do
	mdadm --quiet $ARRAY --fail "$disk" || fail "cannot fail $disk"
	compare "without $disk"
done
[ "$(cat $MD/degraded)" = 2 ] || fail "not degraded: $(cat /proc/mdstat)"
fill
compare "written without two disks"

for disk in $LOST; do
	wait_until 20 is_removed "$disk" || fail "cannot remove $disk"
done
# shellcheck disable=SC2086
mdadm --quiet $ARRAY --add $SPARES || fail "cannot add disks"
not_degraded() { [ "$(cat $MD/degraded)" = 0 ]; }
wait_until 120 not_degraded || fail "not rebuilt: $(cat /proc/mdstat)"
wait_for_array
compare "rebuilt"

mdadm --quiet --stop $ARRAY || fail "cannot stop"
# shellcheck disable=SC2086
mdadm --quiet --assemble $ARRAY /dev/loop2 /dev/loop3 /dev/loop4 $SPARES || fail "cannot assemble"
compare "assembled anew"
echo check >$MD/sync_action
wait_for_array
[ "$(cat $MD/mismatch_cnt)" = 0 ] || fail "mismatches: $(cat $MD/mismatch_cnt)"
mdadm --quiet --stop $ARRAY

touch /tmp/raid.done
wait $checks || fail "registers were lost"
cat /tmp/vectors
