#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream cp --loss on GPUs from the outside: chosen without being asked for; losses of CPU cores, by Adam and by L-BFGS-B, of
# listed cells and of all, at held-out ones too; the same bytes for one GPU and two, resident and streamed, and for a run
# that was stopped; ranks that are too high. Skipped without a GPU.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
# shellcheck source=tests/gpu/outside_gpu.sh
. "$top/tests/gpu/outside_gpu.sh"

# run NAME OPTION...: three sweeps into NAME.cp, what it prints into json
run()
{
    name=$1
    shift
    run_cp "$name" -i 3 "$@"
}

# ---- losses of CPU cores, and the processor ----
# alike OPTION...: rounding that a line search or a rate's halving would see grows, so few sweeps, in float64
alike()
{
    beside "cpu$*" "$bin/tstream" cp x.tsh --tol 0 --json -n -i 3 --cpu --precision float64 "$@"
    beside "gpu$*" "$bin/tstream" cp x.tsh --tol 0 --json -n -i 3 --precision float64 "$@"
    echo "$*" >> alike
}

# compare N: what alike was told of, N times
compare()
{
    together
    while read -r options; do
        cp "cpu$options" json
        want=$(number sweep objective) held=$(number sweep held_out_loss)
        cp "gpu$options" json
        grep -q '"backend":"gpu"' json || bad "cp $options: not on the GPU"
        within 1 "$(awk -v a="$(number sweep objective)" -v b="$want" 'BEGIN { print a / b }')" 1e-6 ||
            bad "cp $options: loss $(number sweep objective) on the GPU, $want on CPU cores"
        [ -z "$held" ] || within "$held" "$(number sweep held_out_loss)" 1e-6 ||
            bad "cp $options: $(number sweep held_out_loss) at held-out cells on the GPU, $held on CPU cores"
    done < alike
    [ "$(wc -l < alike)" -eq "$1" ] || bad "$(wc -l < alike) comparisons"
    : > alike
}
"$bin/tshard" gen --dims 6000x4000x300 --nnz 100K --law power:0.8 --value 1..1 -o x.tns > log 2>&1 || { cat log; exit 1; }
awk '!seen[$1, $2, $3]++ { print $1, $2, $3, 1 }' x.tns > ones.tns
"$bin/tshard" build ones.tns --shard 256K -o x.tsh > log 2>&1 || { cat log; exit 1; }
for options in "-r 9" "-r 16 --hold-out 10%" "-r 5 --optimizer lbfgsb" "-r 32 --l2 0.1 --seed 3"; do
    for loss in bernoulli bernoulli-logit; do
        # shellcheck disable=SC2086 # several options
        alike --loss $loss $options
    done
done
compare 8
"$bin/tshard" gen --dims 6000x4000x300 --nnz 300K --law power:0.8 --shard 256K --force -o x.tsh > log 2>&1 || { cat log; exit 1; }
for options in "-r 9 --loss gamma --observed" "-r 7 --loss gamma --observed --hold-out 20% --optimizer lbfgsb" "-r 25 --loss poisson-log" \
    "-r 9 --loss huber:0.5" "-r 9 --loss huber:0.5 --nonneg --observed" "-r 40 --loss huber:0.2 --optimizer lbfgsb"; do
    # shellcheck disable=SC2086
    alike $options
done
compare 6

# ---- bytes ----
for options in "-r 9 --loss poisson-log" "-r 9 --loss gamma --observed --hold-out 10% --patience 2" "-r 12 --loss huber:0.5 --optimizer lbfgsb"; do
    # shellcheck disable=SC2086
    run one --gpus 1 $options
    for gpus in 1 2; do
        [ "$gpus" -le "$usable" ] || continue
        # shellcheck disable=SC2086
        for memory in '' --gpu-memory="$(little "$gpus" $options)"; do
            run more --gpus "$gpus" $options ${memory:+"$memory"}
            cmp -s one.cp/model.ktensor more.cp/model.ktensor || bad "other bytes with --gpus $gpus $memory $options"
        done
    done
done

# ---- stopped ----
for optimizer in adam lbfgsb; do
    beside log.$optimizer "$bin/tstream" cp x.tsh -r 9 -i 6 --tol 0 --gpus 1 --loss huber:0.5 --optimizer $optimizer -o whole.$optimizer
    beside log.part.$optimizer "$bin/tstream" cp x.tsh -r 9 -i 3 --tol 0 --gpus 1 --loss huber:0.5 --optimizer $optimizer -o part.$optimizer
done
together
for optimizer in adam lbfgsb; do
    beside log.$optimizer "$bin/tstream" cp --resume part.$optimizer -i 6 --gpus "$((usable > 1 ? 2 : 1))"
done
together
for optimizer in adam lbfgsb; do
    cmp -s whole.$optimizer/model.ktensor part.$optimizer/model.ktensor || bad "other bytes after a resume, by $optimizer"
done

# ---- the plan, and rows of more columns than a warp holds ----
"$bin/tstream" plan x.tsh -r 9 --gpus 1 --loss huber:0.5 > table 2> err || bad "plan --loss: $(cat err)"
grep -q 'gradients of the loss' table || bad "plan --loss: $(cat table)"
for options in "-r 129" "-r 65 -p float64"; do
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh $options -i 2 --tol 0 --gpus 1 --loss huber:0.5 --force -o one.cp > log 2>&1 || bad "cp $options: $(cat log)"
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh $options -i 2 --tol 0 --gpus "$((usable > 1 ? 2 : 1))" --gpu-memory 1500M --loss huber:0.5 --force -o more.cp > log 2>&1 ||
        bad "cp $options: $(cat log)"
    cmp -s one.cp/model.ktensor more.cp/model.ktensor || bad "other bytes within a budget $options"
done

# ---- several models, whose moments libraries of the GPU leave no room for at once ----
"$bin/tshard" gen --dims 60000x30x60000 --nnz 200K -o long.tsh > log 2>&1 || { cat log; exit 1; }
"$bin/tstream" cp long.tsh -r 16 -i 1 --gpus 1 --loss huber:0.5 -n --host-memory 64M > log 2>&1 && bad "64M are enough"
taken=$(sed -n 's/.*libraries take \([0-9]*\).* MiB of it.*/\1/p' log)
[ -n "$taken" ] || bad "no word of libraries: $(cat log)"
"$bin/tstream" cp long.tsh -r 16 -i 1 --gpus 1 --loss huber:0.5 --force -o one.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp long.tsh -r 16 -i 1 --gpus 1 --loss huber:0.5 --restarts 8 --host-memory "$((taken + 40))M" -o several.cp > log 2>&1 ||
    bad "cp --restarts 8: $(cat log)"
cmp -s one.cp/model.ktensor several.cp/r16.s1/model.ktensor || bad "other bytes of the first of eight models"
exit $failed
