#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cores that programs count on, and so their threads, follow the CPU quota of a container: a
# cgroup of version 1 or 2 with each quota of the table. Skipped where no cgroup can be made, which
# needs root.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"

skip_quota()
{
    echo "quota: $1"
    exit 77
}
# quota of MICROSECONDS in each 100000, or none for -1
if [ -w /sys/fs/cgroup/cpu/cgroup.procs ]; then
    group=/sys/fs/cgroup/cpu$(sed -n 's/^[0-9]*:[^:]*\<cpu\>[^:]*:\(.*\)/\1/p' /proc/self/cgroup)
    quota()
    {
        echo 100000 > "$group/cpu.cfs_period_us" && echo "$1" > "$group/cpu.cfs_quota_us"
    }
elif grep -qw cpu /sys/fs/cgroup/cgroup.subtree_control 2> log; then
    group=/sys/fs/cgroup
    quota()
    {
        if [ "$1" -lt 0 ]; then set -- max; fi
        echo "$1 100000" > "$group/cpu.max"
    }
else
    skip_quota "there is no controller of CPUs"
fi
group=${group%/}/tstream-quota-$$
mkdir "$group" 2> log || skip_quota "no cgroup can be made: $(cat log)"
trap 'rmdir "$group"; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# what there is without a group of its own: another quota may be above it
cpus=$("$bin/tstream" devices --json | sed 's/.*"cpus":\([0-9]*\),.*/\1/') rows=0
while read -r us most; do
    rows=$((rows + 1))
    quota "$us" 2> log || skip_quota "no quota can be set: $(cat log)"
    expected=$most
    [ "$cpus" -ge "$most" ] && [ "$most" -gt 0 ] || expected=$cpus
    sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group" "$bin/tstream" devices --json \
        > log 2> err || bad "$us: $(cat err)"
    got=$(sed -n 's/.*"cpus":\([0-9]*\),.*/\1/p' log)
    [ "$got" = "$expected" ] || bad "a quota of $us: $got cores, expected $expected"
done << 'END'
-1 0
1000 1
50000 1
100000 1
100001 2
150000 2
200000 2
250000 3
800000 8
END
[ $rows -eq 9 ] || bad "$rows of 9 quotas"
exit $failed
