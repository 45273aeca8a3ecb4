# SPDX-License-Identifier: BSD-3-Clause
# outside.sh - what tests of the programs from the outside begin with, once $top is set: $bin, an empty
# folder to be in, and two ways to find fault. They end with `exit $failed`.
bin=$(cd "${TOP_BUILDDIR:-$top}/tools" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
failed=0

bad()
{
    echo "FAILED: $*"
    failed=1
}

# refused STATUS TEXT COMMAND...: it exits so, says so in one line on standard error, and leaves nothing
refused()
{
    status=$1 text=$2
    shift 2
    got=0
    "$@" > out 2> err || got=$?
    [ "$got" -eq "$status" ] || bad "$*: exit $got, expected $status: $(cat err)"
    grep -qF -- "$text" err || bad "$*: no \"$text\" in: $(cat err)"
    [ "$status" -eq 2 ] || [ "$(wc -l < err)" -eq 1 ] || bad "$*: more than a sentence: $(cat err)"
    if ls -d ./*.building ./*.tmp-* ./*.partial > left 2> /dev/null; then bad "$*: left $(cat left)"; fi
}

# within A B MOST: they differ by no more
within() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { d = a - b; exit !(d <= most && -d <= most) }'; }

# Signals that a command dies by, with its exit status. A caller under nohup ignores SIGHUP, and so do all that it
# starts: the command goes on then, as it should, and nothing would end it.
deadly_signals()
{
    echo INT:130 TERM:143
    awk '/^SigIgn:/ { if ($2 ~ /[02468aceACE]$/) print "HUP:129" }' /proc/self/status
}
