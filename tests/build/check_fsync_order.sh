#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a power cut could undo: no result gets its name before its data are on disk, and no command ends
# before the directory that holds the name is. Read from a trace of system calls.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
real=$(pwd -P)
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # the search for leaks cannot be traced
export ASAN_OPTIONS

command -v strace > which || { echo "skipped: there is no strace"; exit 77; }
strace -f -y -e trace=fsync -o probe true 2> err || exit 77 # not allowed here

calls=fsync,fdatasync,syncfs,rename,renameat,renameat2

# last PATTERN: number of the line in the trace, "" when there is none
last() { grep -n -- "$1" trace | tail -n 1 | cut -d: -f1; }

# synced PATH from FIRST to LAST: an fsync that succeeded lies between these lines
synced()
{
    awk -v from="$2" -v to="$3" -v what="<$1>)" '
        NR > from && NR < to && / fsync\(/ && index($0, what) && / = 0$/ { found = 1 }
        END { exit !found }' trace || bad "$name: no fsync of $1 between lines $2 and $3 of: $(cat trace)"
}

# ordered NAME PARTIAL RESULT COMMAND...: what it makes is synced, renamed, and its directory synced
ordered()
{
    name=$1 partial=$2 result=$3
    shift 3
    strace -f -y -s 256 -e trace=$calls -o trace "$@" > out 2> err || bad "$*: $(cat err)"
    # a line of a thread that was interrupted ends on another: joined again
    awk '/<unfinished/ { pid = $1; sub(/ *<unfinished.*/, ""); open[pid] = $0; next }
         /resumed>/ { pid = $1; sub(/.*resumed>/, ""); print open[pid] $0; next } { print }' \
        trace > joined
    mv joined trace
    at=$(last "rename.*\"[^\"]*$partial\",.*\"[^\"]*$result\"")
    end=$(($(wc -l < trace) + 1))
    if [ -z "$at" ]; then
        bad "$name: no rename of $partial to $result in: $(cat trace)"
        return 0
    fi
    if [ -d "$result" ]; then
        for file in "$result"/*; do synced "$real/$partial/${file##*/}" 0 "$at"; done
        synced "$real/$partial" 0 "$at"
        synced "$real/$result" "$at" "$end"
    else
        synced "$real/$partial" 0 "$at"
    fi
    synced "$real" "$at" "$end"
}

"$bin/tshard" gen --nnz 3000 --dims 30x20x10 -o x.tns
for i in $(seq 30); do echo "thing $i"; done > x.mode1.map

ordered build x.tsh.building x.tsh "$bin/tshard" build x.tns
ordered "build --force" x.tsh.building x.tsh "$bin/tshard" build --force x.tns
"$bin/tshard" gen --nnz 300 --dims 30x20x10 --seed 2 -o y.tns
cp -r x.tsh s.tsh
ordered append s.tsh.building s.tsh "$bin/tshard" append s.tsh y.tns
ordered "the segment of append" s.tsh.building/segment3.building s.tsh.building/segment3 "$bin/tshard" append s.tsh x.tns --repeat --compact-at never
ordered undo s.tsh.building s.tsh "$bin/tshard" undo s.tsh
ordered compact s.tsh.building s.tsh "$bin/tshard" compact s.tsh
ordered drop s.tsh.building s.tsh "$bin/tshard" drop s.tsh --before 2=5
ordered gen g.tsh.building g.tsh "$bin/tshard" gen --nnz 3000 --dims 300x20x10 -o g.tsh
ordered "gen to text" g.tns.partial g.tns "$bin/tshard" gen --nnz 3000 -o g.tns
ordered export e.tns.partial e.tns "$bin/tshard" export x.tsh -o e.tns
ordered "export .gz" e.tns.gz.partial e.tns.gz "$bin/tshard" export x.tsh -o e.tns.gz
ordered cp x.cp.partial x.cp "$bin/tstream" cp x.tsh --cpu -r 3 -i 2 --format ktensor,npy,splatt
ordered "cp --force" x.cp.partial x.cp "$bin/tstream" cp x.tsh --cpu -r 3 -i 2 --force
ordered "cp --trace" t.json.partial t.json "$bin/tstream" cp x.tsh --cpu -r 3 -i 2 -n --trace t.json

# the check itself can fail: a trace without the fsync of a file is found fault with
grep -v 'fsync(.*t.json.partial' trace > less
mv less trace
(failed=0 name=self; synced "$real/t.json.partial" 0 "$(last rename)" > out; exit $failed) &&
    bad "the check finds no fault where there is one"
exit $failed
