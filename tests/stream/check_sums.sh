#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sums of nonzeros from the outside: a build whose temporary files give another bit back than was written fails and says that this is
# a bug, or has the right bytes; the file `sums` is what docs/format.md says, verify holds it against the copies and says where
# there is none, and the sums of the parts of a tensor add up.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
lib=$(cd "$bin/../tests" && pwd)/fliplib.so

# ---- the file, by an independent reader ----
awk 'function u() { state = state * 48271 % 2147483647; return state / 2147483647 }
    BEGIN { state = 5; for (i = 0; i < 60000; i++) printf "%d %d %d %d\n", 3 + 900 * u() ^ 2, 1 + 70 * u(), 1 + 5000 * u(), 5 * u() - 1 }' > x.tns
cat > sums.py << 'PY'
import struct, sys
M = (1 << 64) - 1
def mix(z):
    z = (z + 0x9e3779b97f4a7c15) & M
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & M
    z = (z ^ z >> 27) * 0x94d049bb133111eb & M
    return z ^ z >> 31
key = [mix(k + 1) | 1 for k in range(18)]
def total(cells):
    x = y = 0
    for index, value in cells:
        s = sum(i * k for i, k in zip(index, key)) + struct.unpack("<I", struct.pack("<f", value))[0] * key[16] & M
        a = (s ^ s >> 32) * (mix(101) | 1) & M
        a ^= a >> 29
        b = a * (mix(102) | 1) & M
        b ^= b >> 32
        x, y = x + a & M, y + b & M
    return len(cells), x, y
read, cells = [], {}
for line in open(sys.argv[1]):
    *index, value = line.split()
    index, value = tuple(int(i) - 1 for i in index), float(value)
    if value:
        read.append((index, value))
        cells[index] = cells.get(index, 0) + value
want = total(read) + total([(i, v) for i, v in cells.items() if v])
d = open(sys.argv[2] + "/sums", "rb").read()
index = open(sys.argv[2] + "/index", "rb").read()
assert len(d) == 80 and d[:8] == b"TSHSUMS1" and struct.unpack("<II", d[8:16]) == (1, 3), d
assert d[16:24] == index[-8:], "not the checksum of the index"
found = struct.unpack("<6Q", d[24:72])
assert found == want, (found, want)
PY
"$bin/tshard" build x.tns -o x.tsh --shard 64K > log 2>&1 || bad "$(cat log)"
if python=$(command -v python3); then "$python" sums.py x.tns x.tsh || bad "sums are not those of docs/format.md"; fi
sums() { od -An -tx1 -j 24 -N 48 "$1/sums"; }

# ---- any memory, threads and order of the lines, and a copy of it ----
sort -k 3,3n -s x.tns > sorted.tns
"$bin/tshard" build sorted.tns -o other.tsh --shard 128K -t 1 -m 32M > log 2>&1 || bad "$(cat log)"
[ "$(sums x.tsh)" = "$(sums other.tsh)" ] || bad "other sums with other options"
"$bin/tshard" select x.tsh --keep 2=1..70 -o all.tsh > log 2>&1 || bad "$(cat log)"
[ "$(od -An -tx1 -j 48 -N 24 x.tsh/sums)" = "$(od -An -tx1 -j 48 -N 24 all.tsh/sums)" ] || bad "other cells in a copy"

# ---- verify ----
"$bin/tshard" verify x.tsh > log 2>&1 || bad "$(cat log)"
! grep -q missing log || bad "sums are missing: $(cat log)"
cell=$("$bin/tshard" info x.tsh --json | sed 's/.*"cell_sum":"\([0-9a-f]*\)".*/\1/')
"$bin/tshard" verify x.tsh --json | grep -q "\"has_sums\":true,\"cell_sums\":\[\"$cell\",\"$cell\",\"$cell\"\]" || bad "verify --json: not $cell"
cp -r x.tsh none.tsh
rm none.tsh/sums
"$bin/tshard" verify none.tsh > log 2>&1 || bad "a tensor without sums is not sound: $(cat log)"
grep -q 'the file sums is missing' log || bad "nothing is said of missing sums: $(cat log)"
"$bin/tshard" info none.tsh --json | grep -q '"record_sum":null,"cell_sum":null' || bad "info --json of a tensor without sums"
cp -r x.tsh bad.tsh
printf 'x' | dd of=bad.tsh/sums bs=1 seek=60 conv=notrunc 2> /dev/null
refused 1 'bad.tsh/sums: the checksum is' "$bin/tshard" verify bad.tsh
cp none.tsh/index bad.tsh/index
"$bin/tshard" build sorted.tns --duplicates keep -o keep.tsh > log 2>&1
cp keep.tsh/sums bad.tsh/sums
refused 1 'bad.tsh/sums: it does not match the index' "$bin/tshard" verify bad.tsh

# ---- parts of a split add up ----
"$bin/tshard" split x.tsh --hold-out 30% > log 2>&1 || bad "$(cat log)"
for t in x x.train x.test; do "$bin/tshard" info $t.tsh --json | sed 's/.*"cell_sum":"\([0-9a-f]*\)".*/\1/'; done > three
if [ -n "$python" ]; then
    "$python" -c '
a, b, c = ([int(l[:16], 16), int(l[16:32], 16)] for l in open("three"))
assert all((y + z - x) % 2**64 == 0 for x, y, z in zip(a, b, c)), (a, b, c)' || bad "sums of a split do not add up"
fi

# ---- a bit that comes back another one, from sorted runs and spools ----
[ -e "$lib" ] || exit $failed
awk 'function u() { state = state * 48271 % 2147483647; return state / 2147483647 }
    BEGIN { state = 9; for (i = 0; i < 700000; i++) printf "%d %d %d %.3f\n", 1 + 90000 * u(), 1 + 900 * u(), 1 + 70000 * u(), u() - 0.5 }' > large.tns

# flips WANTED COMMAND...: of its reads of temporary files, as many as WANTED, spread over all
flips()
{
    most=$1
    shift
    "$@" -o right.tsh --force > log 2>&1 || bad "$*: $(cat log)"
    reads=1
    while rm -f mark; TS_FLIP=$((2 * reads)) TS_FLIP_MARK=mark LD_PRELOAD=$lib "$@" -o flipped.tsh > log 2>&1 || :; [ -e mark ]; do
        reads=$((2 * reads))
        rm -rf flipped.tsh
    done
    rm -rf flipped.tsh
    failures=0
    for k in $(seq "$most"); do
        rm -rf mark flipped.tsh
        status=0
        TS_FLIP=$(((k * reads + most - 1) / most)) TS_FLIP_MARK=mark LD_PRELOAD=$lib "$@" -o flipped.tsh > log 2>&1 || status=$?
        [ -e mark ] || continue
        if [ $status -eq 0 ]; then
            diff -r right.tsh flipped.tsh > log 2>&1 || bad "$*: a bit of read $k of $most changed the tensor, without an error"
        else
            [ $status -eq 1 ] || bad "$*: exit status $status: $(cat log)"
            [ ! -e flipped.tsh ] && [ ! -e flipped.tsh.building ] || bad "$*: something was written"
            ! grep -q 'this is a bug in tstream, please report it; nothing was written' log || failures=$((failures + 1))
        fi
    done
    [ $failures -gt 0 ] || bad "$*: no bit was seen: $(cat log)"
}

flips 8 "$bin/tshard" build large.tns -m 32M -t 2
flips 5 "$bin/tshard" build large.tns -m 32M -t 2 --values float64
# A weighted mean that rounds to 0 counts as often as its weight in the sums of values.
printf 'a,b,v,w\n1,1,2e-38,1e10\n1,1,-1.95e-38,1e10\n2,2,1e-37,1\n' > tw.csv
"$bin/tshard" build tw.csv --modes a,b --value v --weights w -o tw.tsh > log 2>&1 || bad "a mean that rounds to 0: $(cat log)"

exit $failed
