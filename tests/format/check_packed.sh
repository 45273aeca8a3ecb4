#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packed text builds the same bytes as the text it was made of; damaged, cut short, or packed so that
# unpacking takes more memory than there is, it is refused with a sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

awk 'BEGIN { for (i = 0; i < 60000; i++) print i * 7919 % 5003 + 1, i * 31 % 211 + 1, i % 17 + 1, i % 5 + 1 }' > a.tns
"$bin/tshard" build a.tns -o want.tsh > log

same()
{
    "$bin/tshard" build --force "$1" -o got.tsh --memory 32M > log 2>&1 || bad "$1: $(cat log)"
    diff -r want.tsh got.tsh > log || bad "$1: other bytes: $(cat log)"
}

try()
{
    kind=$1 end=$2 tool=$3
    "$bin/tshard" --version | grep -q "^packed text:.*$kind" || return 0
    command -v "$tool" > /dev/null || return 0
    "$tool" -c < a.tns > "a.tns.$end"
    same "a.tns.$end"
    head -n 30000 a.tns | "$tool" -c > "two.tns.$end"
    tail -n 30000 a.tns | "$tool" -c >> "two.tns.$end" # a stream behind the other
    same "two.tns.$end"
    head -c 20000 /dev/zero >> "two.tns.$end"
    same "two.tns.$end"
    "$bin/tshard" build --force -o got.tsh - < "a.tns.$end" > log 2>&1 || bad "$kind: pipe: $(cat log)"
    size=$(wc -c < "a.tns.$end")
    for n in 5 7 20 $((size / 2)) $((size - 3)); do
        head -c "$n" "a.tns.$end" > "cut.tns.$end"
        refused 1 "cut.tns.$end" "$bin/tshard" build "cut.tns.$end" -o cut.tsh
    done
    { head -c $((size / 2)) "a.tns.$end"; printf 'xxxxxxxxxxxx'
        tail -c $((size - size / 2 - 12)) "a.tns.$end"; } > "bad.tns.$end"
    refused 1 "bad.tns.$end" "$bin/tshard" build "bad.tns.$end" -o bad.tsh
    { cat "a.tns.$end"; printf 'rest'; } > "bad.tns.$end"
    refused 1 "bad.tns.$end" "$bin/tshard" build "bad.tns.$end" -o bad.tsh
    echo "$kind: tried"
}
try gzip gz gzip
try zstd zst zstd
try xz xz xz
try bzip2 bz2 bzip2

# a window that does not fit
if "$bin/tshard" --version | grep -q "^packed text:.*xz" && command -v xz > /dev/null; then
    xz -9 -c < a.tns > large.tns.xz
    refused 1 "unpacking these xz data takes more than" "$bin/tshard" build large.tns.xz --memory 32M -o no.tsh
    "$bin/tshard" build --force large.tns.xz -o got.tsh --memory 512M > log 2>&1 || bad "xz -9: $(cat log)"
fi
if "$bin/tshard" --version | grep -q "^packed text:.*zstd" && command -v zstd > /dev/null; then
    zstd -q --ultra -22 --long=27 -c < a.tns > large.tns.zst 2> log || true
    cat a.tns a.tns a.tns | zstd -q --long=27 -c > large.tns.zst # of unknown size: the window is told
    refused 1 "unpacking these zstd data takes more than" "$bin/tshard" build large.tns.zst --memory 32M -o no.tsh
fi

# names of indices may be packed too, and are found beside the input
awk 'BEGIN { for (i = 1; i <= 17; i++) print "n" i }' > a.mode3.map
if command -v xz > /dev/null && "$bin/tshard" --version | grep -q "^packed text:.*xz"; then
    xz a.mode3.map
    "$bin/tshard" build --force a.tns.xz -o got.tsh > log 2>&1 || bad "names: $(cat log)"
    "$bin/tshard" info got.tsh --json | grep -q '"labels":17' || bad "no names: $("$bin/tshard" info got.tsh --json)"
fi
exit $failed
