#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rows of shares and bounds from the command line: what is written, recorded, resumed and refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
cp_t() { "$bin/tstream" cp t.tsh --cpu -r 5 --seed 4 "$@"; }

"$bin/tshard" gen -o t.tsh --dims 60x50x40 -n 20000 -s 3 --shard 64K -q > gen.out

# Whether all rows of FILE sum to 1 and have no entry below 0; or all entries are between two numbers.
shares() { awk '{ s = 0; for (r = 1; r <= NF; r++) { s += $r; if ($r < 0) exit 1 } if (s < 0.99999 || s > 1.00001) exit 1 }' "$1"; }
between() { awk -v a="$2" -v b="$3" '{ for (r = 1; r <= NF; r++) if ($r < a - 1e-6 || $r > b + 1e-6) exit 1 }' "$1"; }

cp_t --simplex 1 --bounds 2=-0.2:0.3,3=0:inf -i 6 --tol 0 -f npy,splatt -o some.cp --json > some.json
shares some.cp/mode1.mat || bad "rows of mode 1 are no shares"
between some.cp/mode2.mat -0.2 0.3 || bad "mode 2 leaves its bounds"
between some.cp/mode2.mat -0.2 0.29 && bad "nothing in mode 2 is at its bound, so it was not held to it"
between some.cp/mode3.mat 0 1e30 || bad "mode 3 leaves its bound"
grep -q '"simplex":"1"' some.cp/run.json || bad "run.json does not tell"
"$bin/tstream" info some.cp | tr -s ' \n' ' ' | grep -q -e '--simplex 1 --bounds 2=-0.2:0.3,3=0:inf' || bad "info does not tell"
cp_t --simplex 1 --bounds 2=-0.2:0.3,3=0:inf -i 6 --tol 0 -f npy -o same.cp -t 1 --host-memory 700K > same.out
for k in 1 2 3; do
    cmp some.cp/mode$k.npy same.cp/mode$k.npy
done

# The printed fit is that of the factors written, and never falls once all factors keep to what is asked.
printed=$(sed -n 's/.*"event":"done","fit":\([0-9.e-]*\).*/\1/p' some.json)
exact=$("$bin/tstream" fit some.cp t.tsh --cpu --json | sed -n 's/.*"fit":\([0-9.e-]*\).*/\1/p')
awk -v a="$printed" -v b="$exact" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-6) }' ||
    bad "the printed fit is $printed, that of the factors $exact"
sed -n 's/.*"event":"sweep".*"fit":\([0-9.e-]*\).*/\1/p' some.json > fits
[ "$(wc -l < fits)" -eq 6 ]
awk 'NR > 2 && $1 < before - 1e-6 { exit 1 } { before = $1 }' fits || bad "the fit falls: $(cat fits)"

# Components die in a mode of shares; in float32 the run goes on with finite numbers, and they can come back.
"$bin/tshard" gen -o dense.tsh --dims 20x10x30x40 --law power:0.8 -n 20000 -s 1 -q > gen.out
for seed in 1 2 4; do
    "$bin/tstream" cp dense.tsh --cpu -r 32 --seed $seed --simplex 1 -i 12 --tol 0 -f splatt -o died.cp --force > died.out 2>&1 ||
        bad "a run in which components die does not end: $(cat died.out)"
    shares died.cp/mode1.mat || bad "rows of mode 1 are no shares where components die"
done

# Resumed bits, also of a result that is started from, and nothing else.
cp_t --simplex 1 --nonneg -i 7 --tol 0 -f npy -o whole.cp > whole.out
cp_t --simplex 1 --nonneg -i 3 --tol 0 -f npy -o part.cp > part.out
refused 1 'it cannot continue with: nonnegative' "$bin/tstream" cp --cpu --resume part.cp --simplex 2 -i 9 -n
refused 1 'has no --bounds' "$bin/tstream" cp --cpu --resume part.cp --bounds 0:1 -i 9 -n
"$bin/tstream" cp --resume part.cp -i 7 --cpu > resumed.out
for k in 1 2 3; do
    cmp whole.cp/mode$k.npy part.cp/mode$k.npy
done

# Neighbours alike: recorded, resumed, the objective told and never rising.
bends() { awk '{ if (NR > 2) { d = $1 - 2 * b + a; s += d * d } a = b; b = $1 } END { print s }' "$1"; }
cp_t --smooth 1=50,3 --l2 2=0.1 -i 6 --tol 0 -f npy,splatt -o even.cp --json > even.json
cp_t --l2 0.1 -i 6 --tol 0 -f splatt -o uneven.cp > uneven.out
awk -v a="$(bends even.cp/mode1.mat)" -v b="$(bends uneven.cp/mode1.mat)" 'BEGIN { exit !(a < b / 2) }' ||
    bad "mode 1 is not smooth: $(bends even.cp/mode1.mat), without $(bends uneven.cp/mode1.mat)"
sed -n 's/.*"event":"sweep".*"objective":\([0-9.e+-]*\).*/\1/p' even.json > objectives
[ "$(wc -l < objectives)" -eq 6 ] || bad "there are no objectives: $(head -3 even.json)"
awk 'NR > 1 && $1 > before * (1 + 1e-6) { exit 1 } { before = $1 }' objectives || bad "the objective rises: $(cat objectives)"
grep -q '"smooth":"1=50,3"' even.cp/run.json || bad "run.json does not tell of smooth modes"
cp_t --smooth 1=50,3 --l2 2=0.1 -i 4 --tol 0 -f npy -o half.cp > half.out
"$bin/tstream" cp --resume half.cp -i 6 --cpu > resumed.out
cp_t --smooth 1=50,3=1 --l2 2=0.1 -i 6 --tol 0 -f npy -o alone.cp -t 1 --host-memory 700K > alone.out
for k in 1 2 3; do
    cmp even.cp/mode$k.npy half.cp/mode$k.npy
    cmp even.cp/mode$k.npy alone.cp/mode$k.npy
done
rm -r half.cp
# Penalties that are far above what a line costs: all else is one, with empty slices between or without, and nothing is lost in rounding.
"$bin/tshard" gen -o few.tsh --dims 60x50x900 -n 2000 -s 3 -q > gen.out
for tensor in t.tsh few.tsh; do
    for options in "--smooth 3=1e19 --l2 1=0.1,2=0.1" "--smooth 1=1e18,3=1e20 --l2 2=0.1"; do
        # shellcheck disable=SC2086 # several options
        "$bin/tstream" cp $tensor --cpu -r 5 --seed 4 $options -i 6 --tol 0 -p float64 -n --json > lines.json
        sed -n 's/.*"event":"sweep".*"objective":\([0-9.e+-]*\).*/\1/p' lines.json > objectives
        [ "$(wc -l < objectives)" -eq 6 ] || bad "$tensor $options: there are no objectives: $(head -3 lines.json)"
        awk 'NR > 1 && $1 > before * (1 + 1e-10) { exit 1 } { before = $1 }' objectives || bad "$tensor $options: the objective rises: $(cat objectives)"
    done
done
# And within bounds, which hold in what is written, too: the mode is as it is where they are others than 0.
within() { awk -v low="$2" -v high="$3" '{ for (i = 1; i <= NF; i++) if ($i < low || $i > high) exit 1 }' "$1"; }
cp_t --smooth 1=50,3 --nonneg 1 --bounds 3=-0.25:0.5 --l2 2=0.1 -i 6 --tol 0 -p float64 -f npy,splatt -o curves.cp --json > curves.json
within curves.cp/mode1.mat 0 1 || bad "mode 1 has entries below 0"
within curves.cp/mode3.mat -0.25 0.5 || bad "mode 3 leaves its bounds"
grep -q '"dead_components":0' curves.json || bad "a component is dead"
sed -n 's/.*"event":"sweep".*"objective":\([0-9.e+-]*\).*/\1/p' curves.json > objectives
[ "$(wc -l < objectives)" -eq 6 ] || bad "there are no objectives: $(head -3 curves.json)"
awk 'NR > 1 && $1 > before * (1 + 1e-12) { exit 1 } { before = $1 }' objectives || bad "the objective rises: $(cat objectives)"
cp_t --smooth 1=50,3 --nonneg 1 --bounds 3=-0.25:0.5 --l2 2=0.1 -i 4 --tol 0 -p float64 -f npy -o half.cp > half.out
"$bin/tstream" cp --resume half.cp -i 6 --cpu > resumed.out
cp_t --smooth 1=50,3 --nonneg 1 --bounds 3=-0.25:0.5 --l2 2=0.1 -i 6 --tol 0 -p float64 -f npy -o alone.cp -t 1 --host-memory 700K --force > alone.out
for k in 1 2 3; do
    cmp curves.cp/mode$k.npy half.cp/mode$k.npy
    cmp curves.cp/mode$k.npy alone.cp/mode$k.npy
done
rm -r half.cp
refused 1 "alike cannot have a sum of 1, too" cp_t --smooth 1 --simplex 1 -n
refused 1 "there is no mode 4, only 3" cp_t --smooth 4 -n
refused 2 "mode 1 is named twice" cp_t --smooth 1,1=2 -n
refused 2 "expected MODE or MODE=X" cp_t --smooth 1=-1 -n
refused 2 "expected MODE or MODE=X" cp_t --smooth 1=2x -n
refused 2 "'x' is neither a mode's number, 1 to 3, nor its name" cp_t --smooth x -n
"$bin/tshard" gen -o long.tsh --dims 5000000x50x40 -n 2000 -s 3 -q > long.out
refused 1 "build the tensor with coarser bins of time" "$bin/tstream" cp long.tsh --cpu -r 2 --smooth 1 --l2 2=1,3=1 -n

printf '1 1 1 2\n30000 2 2 3\n90000 1 1 1\n' > gaps.tns
"$bin/tshard" build gaps.tns > long.out 2>&1
refused 1 "mode 1 has no nonzero between indices 30000 and 90000" "$bin/tstream" cp gaps.tsh --cpu -r 2 --smooth 1 --l2 0.1 -n

# Orthonormal columns: as they are written, and after a resume.
orthonormal() { awk '{ for (p = 1; p <= NF; p++) for (q = 1; q <= p; q++) g[p, q] += $p * $q; n = NF }
    END { for (p = 1; p <= n; p++) for (q = 1; q <= p; q++) { d = g[p, q] - (p == q); if (d * d > 1e-10) exit 1 } }' "$1"; }
cp_t --orthogonal 1,3 -i 6 --tol 0 -f npy,splatt -o turned.cp > turned.out
orthonormal turned.cp/mode1.mat || bad "columns of mode 1 are not orthonormal"
orthonormal turned.cp/mode3.mat || bad "columns of mode 3 are not orthonormal"
orthonormal turned.cp/mode2.mat && bad "columns of mode 2 are orthonormal by chance"
grep -q '"orthogonal":"1,3"' turned.cp/run.json || bad "run.json does not tell of orthogonal modes"
cp_t --orthogonal 1,3 -i 4 --tol 0 -f npy -o half.cp > half.out
"$bin/tstream" cp --resume half.cp -i 6 --cpu > resumed.out
for k in 1 2 3; do
    cmp turned.cp/mode$k.npy half.cp/mode$k.npy
done
refused 1 'it cannot continue with: ' "$bin/tstream" cp --cpu --resume half.cp --orthogonal 1 -i 9 -n
refused 1 "mode 2: its columns are to be orthonormal, so nothing else" cp_t --orthogonal 2 --nonneg -n
refused 1 "another mode must be free to carry the scale" cp_t --orthogonal all -n
refused 1 "mode 3 has 40 used indices" cp_t -r 41 --orthogonal 3 -n
refused 1 "there is no mode 4, only 3" cp_t --orthogonal 4 -n
refused 2 "needs least squares of all cells" cp_t --orthogonal 1 --accelerate -n

refused 1 "mode 1: rows that sum to 1 cannot have an l1" cp_t --simplex 1 --l1 0.1 -n
refused 1 "mode 2: rows that sum to 1 cannot have bounds" cp_t --simplex 2 --bounds 0:1 -n
refused 1 "there is no mode 4, only 3" cp_t --simplex 4 -n
refused 1 "there is no mode 4, only 3" cp_t --bounds 4=0:1 -n
refused 2 "'x' is neither a mode's number, 1 to 3, nor its name" cp_t --simplex x -n
refused 2 "'1:0' are not a lower and an upper number" cp_t --bounds 1:0 -n
refused 2 "'0' are not a lower and an upper number" cp_t --bounds 2=0 -n
refused 2 "'-inf:inf' are not a lower and an upper number" cp_t --bounds 1=0:1,2=-inf:inf -n
refused 2 "option '--bounds': mode 1 is named twice" cp_t --bounds 1=0:1,1=0:2 -n
refused 2 "expected MODE=LOWER:UPPER after mode 3" cp_t --bounds 2=0:1,3 -n

exit $failed
