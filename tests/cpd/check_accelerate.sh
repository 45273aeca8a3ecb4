#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream cp --accelerate from the command line: what is written, told, planned, resumed and refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
cp_t() { "$bin/tstream" cp t.tsh --cpu -r 5 --seed 4 "$@"; }

"$bin/tshard" gen -o t.tsh --dims 60x50x40 -n 20000 -s 3 --shard 64K -q > gen.out

# The bits are those of any threads and memory; the first sweeps are plain.
cp_t --accelerate -i 25 --tol 0 -f npy -o all.cp --json > all.json
cp_t --accelerate -i 25 --tol 0 -f npy -o same.cp -t 1 --host-memory 900K > same.out
cp_t -i 25 --tol 0 -f npy -o plain.cp --json > plain.json
for k in 1 2 3; do
    cmp all.cp/mode$k.npy same.cp/mode$k.npy
    if cmp -s all.cp/mode$k.npy plain.cp/mode$k.npy; then bad "mode $k is that of a plain run"; fi
done
fits() { sed -n 's/.*"event":"sweep".*"fit":\([0-9.e+-]*\),.*/\1/p' "$1"; }
fits all.json > all.fits
fits plain.json > plain.fits
[ "$(wc -l < all.fits)" -eq 25 ] || bad "$(wc -l < all.fits) sweeps"
head -n 5 all.fits > all.first
head -n 5 plain.fits | cmp - all.first || bad "the first sweeps differ"
grep -q '"accelerate":true' all.cp/run.json || bad "run.json does not tell"
"$bin/tstream" info all.cp | grep -q -e '--accelerate' || bad "info does not tell"

# The printed fit is that of the factors written.
printed=$(sed -n 's/.*"event":"done","fit":\([0-9.e-]*\).*/\1/p' all.json)
exact=$("$bin/tstream" fit all.cp t.tsh --cpu --json | sed -n 's/.*"fit":\([0-9.e-]*\).*/\1/p')
awk -v a="$printed" -v b="$exact" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-6) }' ||
    bad "the printed fit is $printed, that of the factors $exact"

# A run that had ended goes on with the bits of one that had more sweeps; another kind of run does not.
cp_t --accelerate -i 9 --tol 0 -f npy -o part.cp > part.out
refused 1 'the run is not accelerated, so it cannot continue with it' \
    "$bin/tstream" cp --cpu --resume plain.cp --accelerate -i 30 -n
"$bin/tstream" cp --resume part.cp -i 17 --cpu > resumed.out
"$bin/tstream" cp --resume part.cp -i 25 --cpu --accelerate > resumed.out
for k in 1 2 3; do
    cmp all.cp/mode$k.npy part.cp/mode$k.npy
done

# Second factors of all modes but the first are planned for, in memory and in states.
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
"$bin/tstream" plan t.tsh --cpu -r 5 --json > plain.plan
"$bin/tstream" plan t.tsh --cpu -r 5 --accelerate --json > fast.plan
more=$(($(number factor_bytes < fast.plan) - $(number factor_bytes < plain.plan)))
[ "$more" -eq $(((50 + 40) * 5 * 4)) ] || bad "planned for factors: $more bytes more"
more=$(($(number state_bytes < fast.plan) - $(number state_bytes < plain.plan)))
[ "$more" -ge $(((50 + 40) * 5 * 4)) ] || bad "planned for a state: $more bytes more"
is=$(($(wc -c < all.cp/state) - $(wc -c < plain.cp/state)))
[ "$is" -le "$more" ] || bad "a state is $is bytes larger, $more were planned"
"$bin/tstream" plan t.tsh --cpu -r 5 --accelerate | grep -q 'with those of the sweep before' || bad "plan does not tell"

# It is pointed to where sweeps were used up or were many, and only there.
cp_t -i 2000 --tol 1e-7 -n > long.out 2> long.err
sweeps=$(sed -n 's/^fit .* after \([0-9]*\) sweeps (converged.*/\1/p' long.out)
[ "${sweeps:-0}" -ge 30 ] || bad "the long run: $(tail -n 1 long.out)"
grep -q "the fit took $sweeps sweeps to settle: a run with --accelerate may take fewer" long.err || bad "no hint: $(cat long.err)"
cp_t -i 20 --tol 1e-12 -n > slow.out 2> slow.err
grep -q 'after 20 sweeps: a run with --accelerate takes fewer' slow.err || bad "no hint: $(cat slow.err)"
for options in '-i 2000 --tol 1e-3' '-i 2000 --tol 1e-7 --accelerate' '-i 19 --tol 1e-12' '-i 20 --tol 0' '-i 20 --tol 1e-12 --accelerate' '-i 20 --tol 1e-12 --orthogonal 1'; do
    # shellcheck disable=SC2086
    cp_t $options -n > fast.out 2> fast.err
    grep -q 'a run with --accelerate' fast.err && bad "$options: $(cat fast.err)"
done

# With constraints, whatever the threads, the memory and interruptions.
for constraint in '--l2 0.01' '--nonneg --l1 0.001' '--simplex 1' '--simplex 1,2 --nonneg 3' '--bounds 2=0:1' '--smooth 3=0.1 --l2 0.01' '--smooth 1,3=0.1 --nonneg 1,2 --l1 3=0.01 --l2 0.01'; do
    rm -rf fast.cp half.cp half.cp.partial
    # shellcheck disable=SC2086
    cp_t $constraint --accelerate -i 12 --tol 0 -f npy -t 1 -o fast.cp > fast.out 2>&1 || bad "$constraint: $(cat fast.out)"
    # shellcheck disable=SC2086
    cp_t $constraint --accelerate -i 7 --tol 0 -f npy -t 3 -m 200K -o half.cp > fast.out 2>&1 || bad "$constraint: $(cat fast.out)"
    "$bin/tstream" cp --resume half.cp -i 12 -t 2 > fast.out 2>&1 || bad "$constraint: $(cat fast.out)"
    for k in 1 2 3; do
        cmp fast.cp/mode$k.npy half.cp/mode$k.npy || bad "$constraint: other bits when it goes on"
    done
done

# Wherever the limit on sweeps falls, the model is at least as good as that of the sweep before.
last=-1
for i in 9 10 11 12 13 14 15 16 17 18 19 20; do
    cp_t --accelerate -i $i --tol 0 -p float64 -n --json > fast.out 2>&1 || bad "-i $i: $(cat fast.out)"
    fit=$(sed -n '$s/.*"fit":\([^,}]*\).*/\1/p' fast.out)
    awk -v a="$fit" -v b="$last" 'BEGIN { exit !(a >= b - 1e-12) }' || bad "-i $i ends with fit $fit, fewer sweeps with $last"
    last=$fit
done
# In these the last sweep of the middle one of three limits makes the fit fall.
cat > dense.awk << 'AWK'
function r() { x = (x * 16807) % 2147483647; return x / 2147483647 }
BEGIN {
    x = seed; d[1] = 8; d[2] = 7; d[3] = 6; d[4] = 5
    print "tensor\n4\n8 7 6 5"
    for (m = 1; m <= 4; m++) for (i = 0; i < d[m]; i++) for (k = 0; k < 5; k++) a[m, i, k] = r()
    for (l = 0; l < 5; l++) for (h = 0; h < 6; h++) for (j = 0; j < 7; j++) for (i = 0; i < 8; i++) {
        s = 0.05 * r()
        for (k = 0; k < 5; k++) s += a[1, i, k] * a[2, j, k] * a[3, h, k] * a[4, l, k]
        printf "%.9g\n", s
    }
}
AWK
for run in '2 3 26' '5 3 24' '6 4 26'; do
    # shellcheck disable=SC2086
    set -- $run
    awk -v seed="$1" -f dense.awk > dense.txt
    last=-1
    for i in $(($3 - 1)) "$3" $(($3 + 1)); do
        "$bin/tstream" cp dense.txt --cpu -r "$2" --accelerate -i "$i" --tol 0 -p float64 -n --json > fast.out 2>&1 || bad "$(cat fast.out)"
        fit=$(sed -n '$s/.*"fit":\([^,}]*\).*/\1/p' fast.out)
        awk -v a="$fit" -v b="$last" 'BEGIN { exit !(a >= b - 1e-12) }' || bad "seed $1, -i $i ends with fit $fit, fewer sweeps with $last"
        last=$fit
    done
done

refused 2 'mode 1 (orthogonal): --accelerate needs least squares of all cells, without' cp_t --accelerate --orthogonal 1 -n
refused 2 'mode 1 (observed cells, l2 0.1): --accelerate needs' cp_t --accelerate --observed -n

exit $failed
