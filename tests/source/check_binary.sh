#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The binary files of SPLATT and GenTen from the outside: whatever their name, from disk, a pipe or packed, they
# come to the tensor that text comes to; what cannot be read gets a sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
write=$(cd "${TOP_BUILDDIR:-$top}/tests" && pwd)/write_binary

awk 'BEGIN { for (i = 0; i < 40000; i++) print i * 7919 % 503 + 1, i * 31 % 211 + 1, i % 17 + 1, i % 5 / 4 }' > a.tns
awk '{ print $1 - 1, $2 - 1, $3 - 1, $4 }' a.tns > zero.tns
"$bin/tshard" build zero.tns --base 0 -o want.tsh > want 2>&1 || bad "text: $(cat want)"
"$write" splatt 4 4 little 3 < a.tns > a.bin
"$write" splatt 8 8 big 3 < a.tns > wide.tns
"$write" genten 2 8 little 3 < a.tns > a.sptn
"$write" genten 4 4 big 3 < a.tns > big.csv.gz

same()
{
    diff -r -x options want.tsh got.tsh > log || bad "$1: other bytes: $(cat log)"
    grep -q '503 x 211 x 17, 32,000 nonzeros' got || bad "$1: $(cat got)"
    grep -q 'dropped 8,000 zeros' got || bad "$1: $(cat got)"
    rm -rf got.tsh
}

# built OPERANDS...: the same tensor
built()
{
    "$bin/tshard" build "$@" -o got.tsh --memory 32M > got 2>&1 || bad "$*: $(cat got)"
    same "$*"
}
built a.bin
built wide.tns
built a.sptn
built big.csv.gz
built a.bin --threads 3 --dims 503x211x17
built - < a.bin
built - < a.sptn
"$bin/tshard" build - -o got.tsh --memory 32M < a.sptn > got 2>&1 || bad "standard input: $(cat got)"
same "standard input"
# shellcheck disable=SC2002
cat a.sptn | "$bin/tshard" build - -o got.tsh > got 2>&1 || bad "pipe: $(cat got)"
same pipe
mkfifo fifo
cat a.sptn > fifo &
built fifo
wait
gzip -c a.sptn > packed
built packed
gzip -c a.sptn | "$bin/tshard" build - -o got.tsh > got 2>&1 || bad "packed pipe: $(cat got)"
same "packed pipe"
if "$bin/tshard" --version | grep -q '^packed text:.*zstd' && command -v zstd > /dev/null; then
    zstd -q -c a.sptn > a.sptn.zst
    built a.sptn.zst
fi

# duplicates that are forbidden: where they are
printf '1 1 1 1\n2 2 2 0\n3 3 3 3\n2 2 2 4\n' > d.tns # a zero is no nonzero
"$write" splatt 4 8 little 3 < d.tns > d.bin
"$write" genten 2 4 little 3 < d.tns > d.sptn
"$bin/tshard" build d.bin --duplicates error > log 2>&1 || bad "a zero counts as a nonzero: $(cat log)"
refused 1 "d.sptn: byte 68: nonzero 1 is a second one at 0 0 0, which --duplicates error forbids; the first is nonzero 1, at byte 40 of d.bin" \
    "$bin/tshard" build d.bin d.sptn -o no.tsh --duplicates error
gzip -c d.sptn > d.gz
refused 1 "the first is nonzero 1, at byte 68 of d.sptn" "$bin/tshard" build d.sptn d.gz -o no.tsh --duplicates error
printf '3 3 3 3\n2 2 2 4\n3 3 3 1\n' | "$write" genten 4 8 big 3 > e.sptn
refused 1 "e.sptn: byte 108: nonzero 3 is a second one at 2 2 2, which" "$bin/tshard" build e.sptn -o no.tsh --duplicates error
refused 1 "more than one nonzero at (3, 3, 3)" sh -c '"$0" build - -o no.tsh --duplicates error < e.sptn' "$bin/tshard"

# what it says of them, and what a plan does
"$bin/tshard" build a.bin -o j.tsh --json > json 2> log || bad "--json: $(cat log)"
grep -q '"nnz":32000' json || bad "--json: $(cat json)"
"$bin/tshard" export j.tsh > exported 2> log || bad "export: $(cat log)"
LC_ALL=C sort exported > got
awk '$4 != 0' zero.tns | LC_ALL=C sort | cmp - got || bad "export counts otherwise than the input"
"$bin/tshard" plan a.bin > plan 2>&1 || bad "plan: $(cat plan)"
grep -q 'nonzeros  *32.0 k  all were read' plan || bad "plan: $(cat plan)"
ls -d ./a.tsh* > left 2> /dev/null && bad "a plan left $(cat left)"

# counted from 1, as somebody's own program may write them
awk '{ print $1 + 1, $2 + 1, $3 + 1, $4 }' a.tns | "$write" splatt 4 4 little 3 > one.bin
"$bin/tshard" build one.bin -o one.tsh > got 2>&1 || bad "one.bin: $(cat got)"
grep -q 'index 0 does not occur in any mode' got || bad "no word of --base 1: $(cat got)"
grep -q 'give --base 1' got || bad "no word of --base 1: $(cat got)"

# names of modes and indices
seq 503 > names
"$bin/tshard" build a.bin -o n.tsh --modes x,y,z --map 1=names > got 2>&1 || bad "names: $(cat got)"
refused 1 "503 names for the 211 indices of mode 2" "$bin/tshard" build a.bin -o no.tsh --map 2=names
"$bin/tshard" build a.bin -o some.tsh --map 2=names --partial-map > got 2>&1 || bad "--partial-map: $(cat got)"

# what is not read
refused 1 "a SPLATT binary file, which is not a table" "$bin/tshard" build a.bin -o no.tsh --columns 1,2
refused 1 "but --dims 504" "$bin/tshard" build a.bin -o no.tsh --dims 504x211x17
refused 1 "--dims has 2 sizes, but a.bin has 3 modes" "$bin/tshard" build a.bin -o no.tsh --dims 503x211
refused 1 "--modes names 2 modes, but a.sptn has 3" "$bin/tshard" build a.sptn -o no.tsh --modes x,y
refused 1 "packed.bin: a SPLATT binary file holds the indices of one mode after" \
    sh -c 'gzip -c a.bin > packed.bin; "$0" build packed.bin -o no.tsh' "$bin/tshard"
refused 1 "standard input: a SPLATT binary file holds the indices of one mode after" \
    sh -c 'cat a.bin | "$0" build - -o no.tsh' "$bin/tshard"
refused 1 "fifo: a SPLATT binary file" sh -c 'cat a.bin > fifo 2> /dev/null & "$0" build fifo -o no.tsh' "$bin/tshard"
refused 1 "a.bin: a SPLATT binary file, but a.tns is text" "$bin/tshard" build a.tns a.bin -o no.tsh
refused 1 "packed: a GenTen binary file, but a.tns is text" "$bin/tshard" build a.tns packed -o no.tsh
refused 1 "a.tns: not a binary file, but a.bin is" "$bin/tshard" build a.bin a.tns -o no.tsh
refused 2 "--base" "$bin/tshard" build a.bin -o no.tsh --base 2
printf '\001\000\000\000\004\000\000\000' > csf.bin
refused 1 "csf.bin: byte 0: these are SPLATT's compressed fibres" "$bin/tshard" build csf.bin -o no.tsh
printf 'dntn\003\000\000\000' > d.dntn
refused 1 "d.dntn: byte 0: this is a dense tensor of GenTen" "$bin/tshard" build d.dntn -o no.tsh
printf '\223NUMPY\001\000v\000' > d.npy
refused 1 "d.npy: byte 0: this is an array of NumPy, which lists every cell: tstream cp takes it" "$bin/tshard" build d.npy -o no.tsh
printf '\211HDF\r\n\032\n' > d.h5
refused 1 "d.h5: byte 0: this is a file of HDF5" "$bin/tshard" build d.h5 -o no.tsh
printf 'tensor\n3\n2 2 2\n1 1 1 1 1 1 1 1\n' > d.tns
refused 1 "this is a dense tensor" "$bin/tshard" build d.tns -o no.tsh
head -c 5000 a.sptn > short.sptn
refused 1 "short.sptn: the file ends at byte 5000, expected 560068" "$bin/tshard" build short.sptn -o no.tsh
gzip -c short.sptn > short.gz
refused 1 "short.gz: what was packed ends at byte 5000, expected 560068" "$bin/tshard" build short.gz -o no.tsh

exit $failed
