#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Fixed factors from the command line: what is written, recorded, resumed, planned and refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
cp_t() { "$bin/tstream" cp t.tsh --cpu --seed 4 "$@"; }

"$bin/tshard" gen -o t.tsh --dims 60x50x40 -n 20000 -s 3 --shard 64K -q > gen.out
cp_t -r 5 -i 6 --tol 0 -f ktensor,splatt -o start.cp > start.out

# What is fixed is written as it was given, to a rounding of float32, signs, and the order of the components.
fit_of() { sed -n 's/.*"event":"done","fit":\([0-9.e-]*\).*/\1/p' "$1"; }
columns() { # FILE: the magnitudes of each column in a line, columns sorted
    awk '{ for (r = 1; r <= NF; r++) c[r] = c[r] sprintf(" %.5f", $r < 0 ? -$r : $r) }
         END { for (r = 1; r in c; r++) print c[r] }' "$1" | sort
}
cp_t --init start.cp --fix 1,3 -i 4 --tol 0 -f npy,splatt -o two.cp --json > two.json
cp_t --init start.cp --fix 2 --nonneg --l2 0.01 -i 4 --tol 0 -f npy,splatt -o one.cp --json > one.json
for k in 1 3; do
    columns start.cp/mode$k.mat > given
    columns two.cp/mode$k.mat > written
    cmp -s given written || bad "mode $k is not as it was given"
done
for k in 1 3; do
    grep -q '^-\| -' one.cp/mode$k.mat && bad "mode $k has entries below 0"
done
grep -q '^-\| -' one.cp/mode2.mat || bad "mode 2, which is fixed, was cut"
grep -q '"mode":1,"seconds":0,' two.json || bad "time went into a mode that is fixed"
grep -q '"fix":"1,3"' two.cp/run.json || bad "run.json does not tell"
"$bin/tstream" info two.cp | tr -s ' \n' ' ' | grep -q -e '--fix 1,3' || bad "info does not tell"

# The printed fit is that of the factors written.
for name in two one; do
    exact=$("$bin/tstream" fit $name.cp t.tsh --cpu --json | sed -n 's/.*"fit":\([0-9.e-]*\).*/\1/p')
    awk -v a="$(fit_of $name.json)" -v b="$exact" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-6) }' ||
        bad "$name: the printed fit is $(fit_of $name.json), that of the factors $exact"
done

# By least squares one sweep over the only free mode is all there is to do.
[ "$(grep -c '"event":"sweep"' two.json)" -eq 4 ]
grep '"event":"sweep"' two.json | tail -3 | grep -vq '"change":\(0\|-\{0,1\}[0-9.]*e-\(0[789]\|[1-9][0-9]\)\),' &&
    bad "the fit of a solved mode changes"

# Resumed bits, in other words, streamed, and nothing else.
cp_t --init start.cp --fix 2 --nonneg -i 7 --tol 0 -f npy -o whole.cp > whole.out
cp_t --init start.cp --fix 2 --nonneg -i 3 --tol 0 -f npy -o part.cp -t 1 --host-memory 700K > part.out
refused 1 'has no --l1' "$bin/tstream" cp --cpu --resume part.cp --l1 0.5 -i 9 -n
refused 1 'it cannot continue with: fixed' "$bin/tstream" cp --cpu --resume part.cp --fix 2,3 --nonneg 1 -i 9 -n
mv start.cp elsewhere.cp # the state has what is fixed
"$bin/tstream" cp --resume part.cp -i 7 --cpu --nonneg 1,3 > resumed.out
mv elsewhere.cp start.cp
for k in 1 2 3; do
    cmp whole.cp/mode$k.npy part.cp/mode$k.npy
done

# Its product takes no memory, nor time, nor reading, unless it is that of the last mode.
plan() { "$bin/tstream" plan t.tsh --cpu --init start.cp --json "$@" > plan.json; }
bytes() { sed -n 's/.*"host_memory":{[^}]*"factor_bytes":\([0-9]*\).*/\1/p' plan.json; }
plan
plain=$(bytes)
plan --fix 1
[ "$(bytes)" -eq "$plain" ] || bad "planned $(bytes) bytes for factors with mode 1 fixed, $plain without"
plan --fix 3
[ "$(bytes)" -eq $((plain + 40 * 5 * 4)) ] || bad "planned $(bytes) bytes for factors with mode 3 fixed, $plain without"

# A free mode may have other slices than the model. Its rows begin at random, and one sweep solves them.
"$bin/tshard" gen -o new.tsh --dims 60x50x7 -n 3000 -s 8 --shard 64K -q > gen.out
fold() { "$bin/tstream" cp new.tsh --cpu --init start.cp --fix 1,2 --tol 0 --precision float64 "$@"; }
fold -i 1 --seed 1 -o fold1.cp --json > fold1.json
fold -i 3 --seed 2 -o fold2.cp --json --save-init > fold2.json
awk -v a="$(fit_of fold1.json)" -v b="$(fit_of fold2.json)" \
    'BEGIN { d = a - b; exit !(d * d <= 1e-24 && a > 0) }' || bad "new rows depend on the start"
fold -i 3 --seed 2 --init fold2.cp/init.ktensor -f npy -o fold3.cp > fold3.out
fold -i 3 --seed 2 -f npy -o fold4.cp > fold4.out
for k in 1 2 3; do
    cmp fold3.cp/mode$k.npy fold4.cp/mode$k.npy || bad "the start that was saved gives other bits"
done
refused 1 'mode 3 of the model has 40 rows, of the tensor 7' "$bin/tstream" cp new.tsh --cpu --init start.cp -n
refused 1 'mode 3 of the model has 40 rows, of the tensor 7' \
    "$bin/tstream" cp new.tsh --cpu --init start.cp --fix 1,3 -n

refused 2 "--fix keeps factors of --init FILE, and no file is given" cp_t --fix 1 -n
refused 2 "'x' is neither a mode's number, 1 to 3, nor its name" cp_t --init start.cp --fix x -n
refused 1 "there is no mode 4, only 3" cp_t --init start.cp --fix 4 -n
refused 1 "all modes are fixed, so there is nothing to compute: tstream fit tells the fit" \
    cp_t --init start.cp --fix 1,2,3 -n
refused 1 "mode 1: its factor is fixed, so nothing else can be asked of it" \
    cp_t --init start.cp --fix 1 --nonneg 1,2 -n

exit $failed
