#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Models by other losses from the command line: what is printed, written, recorded, resumed and refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"

# What is there and what is not, in two groups; and numbers above 0.
awk 'BEGIN { for (i = 0; i < 24; i++) for (j = 0; j < 20; j++) for (k = 0; k < 22; k++)
    if ((i * 31 + j * 17 + k * 7) % 11 < ((i < 12) == (j < 10) ? 5 : 1)) print i + 1, j + 1, k + 1, 1 }' > t.tns
awk '{ print $1, $2, $3, 0.5 + ($1 * $2 + $3) % 7 }' t.tns > g.tns
for t in t g; do "$bin/tshard" build $t.tns --shard 64K -q > build.out; done
cp_t() { "$bin/tstream" cp t.tsh --cpu --seed 4 --tol 0 -r 3 "$@"; }
cp_g() { "$bin/tstream" cp g.tsh --cpu --seed 4 --tol 0 -r 3 --observed "$@"; }
number() { sed -n "\$s/.*\"$1\":\\(-\\{0,1\\}[0-9][^,}]*\\).*/\\1/p" "$2"; }

# All losses that descend, with a number where they take one, as the sentences of the program name them.
"$bin/tstream" cp t.tsh --loss no-such-loss 2> log && bad "there is a loss no-such-loss"
losses=$(sed -n "s/.*there is no loss 'no-such-loss', only least-squares, poisson, //p" log | tr -d ,)
[ "$(echo "$losses" | wc -w)" -ge 5 ] || bad "few losses: $(cat log)"
numbered() {
    case $1 in *:*) "$bin/tstream" cp t.tsh --loss "${1%:*}:" 2>&1 | sed -n 's/.* takes .*, as \([^ ,]*\), not .*/\1/p' ;; *) echo "$1" ;; esac
}
"$bin/tstream" cp --help > help
# Each is in help, and in the table of docs/counts.md. It falls, more of it is explained than by one value everywhere, and it has the same
# bits streamed by one thread and of a run that goes on.
for name in $losses; do
    grep -q "|$name\\b" help || bad "--help has no loss $name"
    grep -q "^|.*\`--loss $name\( [^\`]*\)*\`" "$top/docs/counts.md" || bad "docs/counts.md: the table of losses has no $name"
    loss=$(numbered "$name")
    [ -n "$loss" ] || bad "no sentence offers a number for $name"
    how="t.tsh --loss $loss"
    "$bin/tstream" cp --cpu -i 1 -n -q $how > out 2>&1 || how="g.tsh --observed --loss $loss"
    for optimizer in adam lbfgsb; do
        run="--cpu --seed 4 --tol 0 -r 3 --optimizer $optimizer"
        # shellcheck disable=SC2086
        "$bin/tstream" cp $how $run -i 40 -n --json > json
        awk -v a="$(number fit json)" 'BEGIN { exit !(a > 0.01 && a < 1) }' || bad "$loss: $(tail -n 1 json)"
        grep -q '"loss":"'$loss'"' json || bad "$loss is not in the record: $(head -n 1 json)"
        # shellcheck disable=SC2086
        "$bin/tstream" cp $how $run -i 4 -f npy -o whole.cp -q > out
        # shellcheck disable=SC2086
        "$bin/tstream" cp $how $run -i 4 -f npy -o one.cp -q -t 1 --host-memory 3M > out
        # shellcheck disable=SC2086
        "$bin/tstream" cp $how $run -i 2 -f npy -o part.cp -q > out
        "$bin/tstream" cp --cpu --resume part.cp -i 4 --tol 0 -q > out
        for k in 1 2 3; do
            cmp whole.cp/mode$k.npy one.cp/mode$k.npy
            cmp whole.cp/mode$k.npy part.cp/mode$k.npy
        done
        rm -r whole.cp one.cp part.cp
    done
done
# Of a tensor that a model has exactly, rounding explains no more than all, and the loss is not below its least.
awk 'BEGIN { for (i = 1; i <= 4; i++) for (j = 1; j <= 4; j++) for (k = 1; k <= 4; k++) print i, j, k, 1 }' > o.tns
"$bin/tshard" build o.tns -q > build.out
for name in $losses; do
    loss=$(numbered "$name")
    how="--loss $loss"
    # shellcheck disable=SC2086
    "$bin/tstream" cp o.tsh --cpu -i 1 -n -q $how > out 2>&1 || how="--observed $how"
    for more in '-r 1' '-r 3' '-r 1 -p float64' '-r 1 --optimizer adam'; do
        # shellcheck disable=SC2086
        "$bin/tstream" cp o.tsh --cpu --optimizer lbfgsb $how $more -i 60 --tol 0 -n --json > json
        awk -v a="$(number fit json)" 'BEGIN { exit !(a != "" && a <= 1) }' || bad "$how $more: $(tail -n 1 json)"
        [ "$name" != bernoulli ] || awk -v a="$(number objective json)" 'BEGIN { exit !(a >= 0) }' ||
            bad "$how $more: $(tail -n 1 json)"
    done
done
# Cells of several nonzeros count as their sum, also for what a model can explain.
awk '{ print; print $1, $2, $3, $1 + $2 }' o.tns > several.tns
"$bin/tshard" build several.tns --duplicates keep -q > build.out
"$bin/tstream" cp several.tsh --cpu --loss poisson-log --optimizer lbfgsb -r 2 -i 200 -n --json > json
awk -v a="$(number fit json)" 'BEGIN { exit !(a > 0.98 && a <= 1) }' || bad "several nonzeros: $(tail -n 1 json)"
# An exact model explains all of the deviance: values a_i b_j c_k, and values that differ by the first index alone.
awk 'BEGIN { for (i = 0; i < 6; i++) for (j = 0; j < 5; j++) for (k = 0; k < 4; k++) print i + 1, j + 1, k + 1, (1 + i) * (2 + j) * (1 + k) }' > e.tns
awk '{ print $1, $2, $3, 3 * $1 }' e.tns > f.tns
{ printf 'ktensor\n3\n6 5 4\n1\n1\nmatrix\n2\n6 1\n'; seq 1 6; printf 'matrix\n2\n5 1\n'; seq 2 6; printf 'matrix\n2\n4 1\n'; seq 1 4; } > e.ktensor
{ printf '// written by hand\n# as lists have\nktensor // GenTen has such comments\n3\n6 5 4\n1\n1\nfacmatrix\n2\n6 1\n'
    awk 'BEGIN { for (i = 1; i <= 6; i++) printf "%.17g\n", log(3 * i) }'; printf 'facmatrix\n2\n5 1\n1\n1\n1\n1\n1\n\n//\nfacmatrix\n2\n4 1\n1\n1\n1\n1\n'; } > f.ktensor
for t in e f; do "$bin/tshard" build $t.tns --shard 64K -q > build.out; done
for how in 'e gamma --observed' 'f poisson-log' 'f poisson-log --observed'; do
    # shellcheck disable=SC2086
    set -- $how
    t=$1 loss=$2
    shift 2
    for optimizer in adam lbfgsb; do
        "$bin/tstream" cp $t.tsh --cpu --loss "$loss" --optimizer $optimizer -r 1 --init $t.ktensor -i 2 --tol 0 -p float64 -n --json "$@" > json 2> log ||
            bad "$how: $(cat log)"
        awk -v a="$(number fit json)" 'BEGIN { exit !(a > 0.95 && a <= 1.000001) }' || bad "$how, $optimizer: an exact model: $(tail -n 1 json)"
    done
done
# A mean below 1 has a logarithm below 0, which another mode takes where the first may not.
cp_t --loss poisson-log --nonneg 1 -i 40 -n --json > json 2> log
awk -v a="$(number fit json)" 'BEGIN { exit !(a > 0.01 && a < 1) }' || bad "--nonneg 1: $(tail -n 1 json)"
if grep -q died log; then bad "a component died: $(cat log)"; fi
# Starts have the signs that bounds leave, and that of values that are all below 0; where the logarithm of the mean is 0 (values 0 and 2,
# a quarter of them 2) no component begins with zeros.
awk '{ print $1, $2, $3, -$4 }' g.tns > n.tns
awk 'BEGIN { for (i = 0; i < 12; i++) for (j = 0; j < 10; j++) for (k = 0; k < 8; k++)
    print i + 1, j + 1, k + 1, 2 * (k % 4 == (i < 5) + 2 * (j < 6)) }' > z.tns
for t in n z; do "$bin/tshard" build $t.tns --zeros keep -q > build.out; done
for how in 't --loss poisson-log --bounds=-2:0' 'g --observed --loss huber:2 --bounds=1=-2:0' 'n --observed --loss huber:2 --bounds=-2:0' \
    'n --observed --loss huber:2' 'z --observed --loss poisson-log'; do
    # shellcheck disable=SC2086
    "$bin/tstream" cp ${how%% *}.tsh --cpu --seed 4 --tol 0 -r 3 -i 30 -n --json ${how#* } > json 2> log
    awk -v a="$(number fit json)" 'BEGIN { exit !(a > 0.03 && a < 1) }' || bad "$how: $(tail -n 1 json)"
    if grep -q 'died\|nothing is left' log; then bad "$how: $(cat log)"; fi
done
head -n 1 json | grep -q '"event":"start"' || bad "no start: $(head -n 1 json)"

# Of observed cells the objective is the sum of the loss at what is written, l2 of the factors apart.
cp_g --loss gamma -i 30 -p float64 -f npy -o gamma.cp --json > json
"$bin/tstream" predict gamma.cp g.tns 2> log | awk '{ m = $5 + 1e-10; sum += $4 / m + log(m) } END { printf "%.12g\n", sum }' > want
awk -v a="$(number objective json)" -v b="$(cat want)" 'BEGIN { d = a - b; exit !(d < 1e-8 * b && d > -1e-8 * b) }' ||
    bad "the objective is $(number objective json), not $(cat want)"

# A run goes on with its own loss.
cp_t --loss bernoulli -i 2 -f npy -o part.cp -q > out
refused 1 'cannot continue with' "$bin/tstream" cp --cpu --resume part.cp --loss poisson-log -i 6 -n
rm -r part.cp

# Cells that are held out are those of tshard split, zeros to the model; their loss is that of the model written.
"$bin/tshard" split t.tsh --hold-out 20% --seed 4 --train train.tsh --test test.tsh -q > out
"$bin/tshard" export test.tsh -o test.tns -q > out
cp_t --loss bernoulli-logit -i 10 --hold-out 20% -p float64 -f npy -o held.cp --json > json
"$bin/tstream" predict held.cp test.tns 2> log |
    awk '{ sum += log(1 + exp($5)) - $4 * $5 } END { printf "%.12g\n", sum / NR }' > want
awk -v a="$(number held_out_loss json)" -v b="$(cat want)" 'BEGIN { d = a - b; exit !(d < 1e-8 && d > -1e-8) }' ||
    bad "the held-out loss is $(number held_out_loss json), not $(cat want)"
rm -r held.cp

# By L-BFGS-B nothing rises.
for loss in bernoulli huber:0.5; do
    cp_t --loss $loss -i 30 --optimizer lbfgsb -n --json > json
    sed -n 's/.*"event":"sweep".*"objective":\([^,}]*\).*/\1/p' json > fell
    awk 'NR > 1 && $1 > last * (1 + 1e-6) { bad = 1 } { last = $1 } END { exit bad || NR != 30 }' fell ||
        bad "$loss by L-BFGS-B: $(cat fell)"
    cp_t --loss $loss -i 2 --optimizer lbfgsb -f npy -o part.cp -q > out
    refused 1 'cannot continue with --optimizer adam' "$bin/tstream" cp --cpu --resume part.cp --optimizer adam -i 6 -n
    rm -r part.cp
done
refused 2 'L-BFGS-B descends by a loss' cp_t --optimizer lbfgsb -n
cp_g --loss huber:2 -i 5 --hold-out 20% --nonneg --l2 0.1 -f npy -o whole.cp > out
head -n 1 out | grep -q 'held out' || bad "held-out cells have no loss: $(cat out)"
cp_g --loss huber:2 -i 3 --hold-out 20% --nonneg --l2 0.1 -f npy -o part.cp -q > out
"$bin/tstream" cp --cpu --resume part.cp -i 5 --tol 0 -q > out
for k in 1 2 3; do cmp whole.cp/mode$k.npy part.cp/mode$k.npy; done
"$bin/tstream" plan t.tsh --cpu --loss bernoulli -r 3 > plan.out

# A run ends ten sweeps after the last one in which the loss fell by --tol of its whole fall, also where it was stopped in between.
ends() { # the sweep, by the objectives in `fell`
    awk -v tol="$1" 'NR == 1 { first = last = $1; next } { idle = last - $1 > tol * (first - $1) ? 0 : idle + 1; last = $1 }
        idle >= 10 { print NR; exit }' fell
}
for how in '--loss huber:0.5' '--loss bernoulli --optimizer lbfgsb' '--observed --loss huber:0.5'; do
    # shellcheck disable=SC2086
    cp_t $how --tol 0.01 --force -i 400 -f npy -o whole.cp --json > json
    sed -n 's/.*"event":"sweep".*"objective":\([^,}]*\).*/\1/p' json > fell
    [ "$(ends 0.01)" = "$(wc -l < fell)" ] || bad "$how: ended after $(wc -l < fell) sweeps, and not after $(ends 0.01)"
    grep -q '"converged":true' json || bad "$how: $(tail -n 1 json)"
    # shellcheck disable=SC2086
    cp_t $how --tol 0.01 --force -i 4 -f npy -o part.cp -q > out
    "$bin/tstream" cp --cpu --resume part.cp -i 400 --json > json2
    [ "$(number sweeps json2)" = "$(wc -l < fell)" ] || bad "$how: resumed, ended after $(number sweeps json2) sweeps, not $(wc -l < fell)"
    for k in 1 2 3; do cmp whole.cp/mode$k.npy part.cp/mode$k.npy; done
    rm -r whole.cp part.cp
done
# Without entries below 0 no mean is below 1.
cp_t --loss poisson-log --nonneg -i 1 -n > out 2> log
grep -q 'no model below 0, so that it tells of each cell a mean of 1 or more, and values are about 0.27' log || bad "no note: $(cat log)"
cp_t --loss poisson-log --nonneg 1,2 -i 1 -n > out 2> log
if grep -q 'no model below' log; then bad "a note: $(cat log)"; fi
# From a start near zeros a sweep hardly changes the fit.
"$bin/tstream" cp t.tsh --cpu --loss huber:0.5 --seed 4 -r 3 -i 25 -n --json > json 2> log
[ "$(number sweeps json)" -eq 25 ] || bad "huber: ended after $(number sweeps json) sweeps"
grep -q 'the loss still falls after 25 sweeps: a run with a larger --iters' log || bad "huber: $(cat log)"

# What cannot be.
for bounds in -3:-1 -1:1 1=0:1,3=-0.5:inf -inf:-1; do
    refused 2 'with loss bernoulli entries of factors are 0 or more' cp_t --loss bernoulli --bounds=$bounds -n
    refused 2 'like 0:1' cp_g --loss gamma --bounds=$bounds -n
done
cp_t --loss bernoulli --bounds=-inf:0.9 -i 2 -n -q > out
cp_t --loss bernoulli-logit --bounds=-3:-1 -i 2 -n -q > out
refused 1 'is 2.5: loss bernoulli is for zeros and ones' "$bin/tstream" cp g.tsh --cpu --loss bernoulli -n
sed '5s/ [^ ]*$/ -3/' g.tns > wrong.tns
"$bin/tshard" build wrong.tns -q > build.out
refused 1 "the value at ($(awk 'NR == 5 { print $1 ", " $2 ", " $3 }' g.tns)) is -3: loss gamma is for numbers above 0" \
    "$bin/tstream" cp wrong.tsh --cpu --observed --loss gamma -n
refused 2 'with observed they are unknown' cp_t --loss gamma -n
refused 1 'all listed values are 1' cp_t --loss bernoulli --observed -n
refused 2 'there is no loss' cp_t --loss no-such-loss -n
refused 2 'huber takes a width above 0' cp_t --loss huber -n
refused 2 'no l1 is computed' cp_t --loss bernoulli --l1 1 -n
refused 2 'needs least squares of all cells' cp_t --loss bernoulli --accelerate -n
refused 1 'not from singular vectors' cp_t --loss bernoulli --init nvecs -n
exit $failed
