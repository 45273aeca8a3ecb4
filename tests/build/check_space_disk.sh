#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A disk of 64 MiB with a file system of its own, on a loop device: what certainly does not fit is refused
# before reading, by build, generator and plan alike; what is tried all the same ends with what was needed;
# and what fits is built, though the disk is nearly full then.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
unset TMPDIR # temporary files lie beside the result, on the small disk
PATH=$PATH:/usr/sbin:/sbin
skip()
{
    echo "skipped: $1"
    exit 77
}
command -v mkfs.ext4 > log || skip "there is no mkfs.ext4"
mkdir small
truncate -s 64M disk
mkfs.ext4 -q -m 0 disk
unshare -m mount -o loop disk small > log 2>&1 || skip "a loop device cannot be mounted here: $(head -n 1 log)"

on() # COMMAND...: with the disk, new, in small
{
    mkfs.ext4 -q -F -m 0 disk
    rc=0
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare -m sh -c 'mount -o loop disk small && "$@"; rc=$?; ls small | grep -v lost+found > left; umount small; exit $rc' \
        sh "$@" > out 2> err || rc=$?
    return $rc
}

is_refused() # WHAT TEXT
{
    grep -q -e "$2" err || bad "$1: no '$2' in: $(cat err)"
    [ "$(wc -l < err)" -eq 1 ] || bad "$1: $(cat err)"
    if [ -s left ]; then bad "$1: left $(cat left)"; fi
}
free='small/ has 5[0-9]\.[0-9] MiB free'

if on "$bin/tshard" gen -q --dims 30000x40000x50000 -n 8M -m 32M -o small/x.tsh; then bad gen; fi
is_refused gen "nothing was read: the result and its temporary files take at least .* $free"
if on "$bin/tshard" gen -q --dims 30000x40000x50000 -n 20M -m 4G -o small/x.tsh --tmp .; then bad "gen in memory"; fi
is_refused "gen in memory" "nothing was read: the result takes at least .* $free"
if on "$bin/tshard" gen -q --dims 30000x40000x50000 -n 8M -m 32M -o small/x.tsh --no-space-check; then bad tried; fi
is_refused tried "No space left on device, while .*; the build takes at least .* had 5.* MiB free"

"$bin/tshard" gen -q --dims 9x9x9 -n 9M -o big.tns # a word each, in sorted runs
if on "$bin/tshard" build -q -m 32M -o small/x.tsh big.tns; then bad build; fi
is_refused build "nothing was read: .* at least .* $free"
if on "$bin/tshard" plan -m 32M -o small/x.tsh big.tns; then bad plan; fi
is_refused plan "nothing was read: .* at least .* $free"

"$bin/tshard" gen -q --dims 30000x40000x50000 -n 900K -o some.tns
on "$bin/tshard" build -q -m 1G --tmp . -o small/x.tsh some.tns || bad "fits: $(cat err)"
[ "$(cat left)" = x.tsh ] || bad "fits: left $(cat left)"
exit $failed
