#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream cp --hold-out on GPUs from the outside, where held-out cells are zeros to the model: chosen without being asked for; fits,
# likelihoods and errors of CPU cores; the same bytes for one GPU and two, resident and streamed, for several models, and for a
# run that was stopped; at high ranks. Skipped without a GPU.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
# shellcheck source=tests/gpu/outside_gpu.sh
. "$top/tests/gpu/outside_gpu.sh"

"$bin/tshard" gen --dims 20000x9000x300 --nnz 600K --law power:0.8 --value 1..5 --memory 512M --shard 256K -o x.tsh \
    > log 2>&1 || { cat log; exit 1; }

# run NAME OPTION...: three sweeps into NAME.cp, what it prints into json
run()
{
    name=$1
    shift
    run_cp "$name" -i 3 --hold-out 10% "$@"
}

# ---- what CPU cores tell, and the processor ----
for options in "-r 9" "-r 32 --nonneg" "-r 5 --init nvecs" "-r 16 --simplex 1 --patience 2" "-r 4 --orthogonal 3 --l2 1=0.1" "-r 9 --loss poisson" \
    "-r 33 --loss poisson --patience 2" "-r 129" "-r 70 --loss poisson"; do
    # shellcheck disable=SC2086 # several options
    run cpu --cpu --precision float64 $options
    fit=$(number sweep fit) held=$(number sweep held_out_rmse)$(number sweep held_out_loss)
    # shellcheck disable=SC2086
    run gpu --precision float64 $options
    grep -q '"backend":"gpu"' json || bad "cp --hold-out 10% $options: not on the GPU"
    within "$fit" "$(number sweep fit)" 1e-6 ||
        bad "cp --hold-out 10% $options: fit $(number sweep fit) on the GPU, $fit on CPU cores"
    within "$held" "$(number sweep held_out_rmse)$(number sweep held_out_loss)" 1e-6 ||
        bad "cp --hold-out 10% $options: $(number sweep held_out_rmse)$(number sweep held_out_loss) at held-out cells on the GPU, $held on CPU cores"
done
run cpu --cpu -r 9
held=$(number sweep held_out_rmse)
run gpu -r 9
within "$held" "$(number sweep held_out_rmse)" 1e-4 || bad "RMSE $(number sweep held_out_rmse) on the GPU, $held on CPU cores, in float32"

# ---- bytes ----
for options in "-r 9" "-r 9 --nonneg --patience 2" "-r 9 --loss poisson" "-r 70"; do
    # shellcheck disable=SC2086
    run one --gpus 1 $options
    for gpus in 1 2; do
        [ "$gpus" -le "$usable" ] || continue
        # shellcheck disable=SC2086
        for memory in '' --gpu-memory="$(little "$gpus" --hold-out 10% $options)"; do
            run more --gpus "$gpus" $options ${memory:+"$memory"}
            cmp -s one.cp/model.ktensor more.cp/model.ktensor ||
                bad "other bytes with --gpus $gpus $memory --hold-out 10% $options"
        done
    done
done

# ---- several models: bytes of their own runs ----
for options in "" "--loss poisson"; do
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh -r 4,9 --folds 3 -i 3 --tol 0 --gpus 1 --force -o many.cp $options > log 2>&1 || bad "cp --folds $options: $(cat log)"
    for model in 4.2 9.3; do
        # shellcheck disable=SC2086
        "$bin/tstream" cp x.tsh -r "${model%.*}" --hold-out "fold ${model#*.}/3" -i 3 --tol 0 --gpus 1 --force -o alone.cp $options > log 2>&1 ||
            bad "cp --hold-out fold: $(cat log)"
        cmp -s alone.cp/model.ktensor "many.cp/r${model%.*}.f${model#*.}/model.ktensor" || bad "other bytes with --folds $options, $model"
    done
done

# ---- stopped ----
for options in "" "--loss poisson"; do
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh -r 9 -i 6 --tol 0 --gpus 1 --hold-out 10% --force -o whole.cp $options > log 2>&1 || bad "cp: $(cat log)"
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh -r 9 -i 3 --tol 0 --gpus 1 --hold-out 10% --force -o part.cp $options > log 2>&1 || bad "cp: $(cat log)"
    "$bin/tstream" cp --resume part.cp -i 6 --gpus "$((usable > 1 ? 2 : 1))" > log 2>&1 || bad "cp --resume: $(cat log)"
    cmp -s whole.cp/model.ktensor part.cp/model.ktensor || bad "other bytes after a resume, $options"
done

# ---- shares that hold out nothing, or all ----
for options in "" "--loss poisson" "--loss huber:1" "--observed" "--observed --loss huber:1 --optimizer lbfgsb" "-r 2,3"; do
    # shellcheck disable=SC2086
    refused 1 'no nonzero is held out' "$bin/tstream" cp x.tsh -r 2 -i 3 --gpus 1 --hold-out 1e-15 -o none.cp $options
    # shellcheck disable=SC2086
    refused 1 'every nonzero is held out' "$bin/tstream" cp x.tsh -r 2 -i 3 --gpus 1 --hold-out 0.999999999999999 -o none.cp $options
done
exit $failed
