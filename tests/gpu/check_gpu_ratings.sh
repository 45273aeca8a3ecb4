#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream cp --observed on GPUs from the outside: chosen without being asked for; errors of CPU cores, at listed cells, weighted or not, and at
# held-out ones; the same bytes for one GPU and two, resident and streamed, and for a run that was stopped; ranks that are too
# high. Skipped without a GPU.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
# shellcheck source=tests/gpu/outside_gpu.sh
. "$top/tests/gpu/outside_gpu.sh"

"$bin/tshard" gen --dims 20000x9000x300 --nnz 1M --law power:0.8 --memory 512M --shard 256K -o x.tsh \
    > log 2>&1 || { cat log; exit 1; }

# run NAME OPTION...: three sweeps into NAME.cp, what it prints into json
run()
{
    name=$1
    shift
    run_cp "$name" -r 9 -i 3 --observed "$@"
}

# ---- errors of CPU cores, and the processor ----
for options in "" "--l2 0.3 --l2-scale count --mean --hold-out 10%" "--nonneg" "--bounds 1=0:1 --hold-out 20%" "--hold-out 10% --init nvecs" "-r 32" "-r 40 -i 2"; do
    # shellcheck disable=SC2086 # several options
    run cpu --cpu --precision float64 $options
    want=$(number sweep rmse) held=$(number sweep held_out_rmse) objective=$(number "done" objective)
    # shellcheck disable=SC2086
    run gpu --precision float64 $options
    grep -q '"backend":"gpu"' json || bad "cp --observed $options: not on the GPU"
    within "$want" "$(number sweep rmse)" 1e-6 ||
        bad "cp --observed $options: RMSE $(number sweep rmse) on the GPU, $want on the CPU"
    if [ -n "$held" ]; then
        within "$held" "$(number sweep held_out_rmse)" 1e-6 ||
            bad "cp --observed $options: $(number sweep held_out_rmse) at held-out cells on the GPU, $held on the CPU"
    fi
    if [ -n "$objective" ]; then
        within 1 "$(awk -v a="$objective" -v b="$(number "done" objective)" 'BEGIN { print a / b }')" 1e-6 ||
            bad "cp --observed $options: objective $(number "done" objective) on the GPU, $objective on the CPU"
    fi
done
run narrow --hold-out 10%
want=$(number sweep rmse)
run cpu --cpu --hold-out 10%
within "$want" "$(number sweep rmse)" 1e-4 || bad "RMSE $want on the GPU, $(number sweep rmse) on the CPU, in float32"

# ---- bytes ----
for options in "" "--mean --hold-out 10% --patience 2" "--nonneg --l2-scale count" "-r 70 -i 2"; do
    # shellcheck disable=SC2086
    run one --gpus 1 $options
    for gpus in 1 2; do
        [ "$gpus" -le "$usable" ] || continue
        # shellcheck disable=SC2086
        for memory in '' --gpu-memory="$(little "$gpus" -r 9 --observed $options)"; do
            run more --gpus "$gpus" $options ${memory:+"$memory"}
            cmp -s one.cp/model.ktensor more.cp/model.ktensor ||
                bad "other bytes with --gpus $gpus $memory --observed $options"
        done
    done
done

# ---- weights of cells: errors of CPU cores, the same bytes, and none that change where all are 1 ----
awk 'function u() { state = state * 16807 % 2147483647; return state / 2147483647 }
    BEGIN { state = 7; for (i = 0; i < 200000; i++)
        printf "%d,%d,%d,%d,%s,1\n", 1 + 3000 * u(), 1 + 900 * u(), 1 + 40 * u(), 1 + 5 * u(), u() < 0.2 ? "0" : sprintf("%.3f", 4 * u()) }' |
    sort -u -t , -k 1,3 > ratings.lines
{ echo user,item,week,stars,weight,one; cat ratings.lines; } > ratings.csv
"$bin/tshard" build ratings.csv --modes user,item,week --value stars --weights weight --shard 256K -o weighted.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" build ratings.csv --modes user,item,week --value stars --weights one --shard 256K -o ones.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" build ratings.csv --modes user,item,week --value stars --shard 256K -o none.tsh > log 2>&1 || bad "$(cat log)"
mv x.tsh plain.tsh
mv weighted.tsh x.tsh
for options in "" "--l2 0.3 --l2-scale count --mean --hold-out 10%" "--nonneg" "-r 32" "-r 40 -i 2"; do
    # shellcheck disable=SC2086
    run cpu --cpu --precision float64 $options
    want=$(number sweep rmse) held=$(number sweep held_out_rmse) objective=$(number "done" objective)
    # shellcheck disable=SC2086
    run gpu --precision float64 $options
    grep -q '"backend":"gpu"' json || bad "weights, cp --observed $options: not on the GPU"
    within "$want" "$(number sweep rmse)" 1e-6 ||
        bad "weights, cp --observed $options: RMSE $(number sweep rmse) on the GPU, $want on the CPU"
    if [ -n "$held" ]; then
        within "$held" "$(number sweep held_out_rmse)" 1e-6 ||
            bad "weights, cp --observed $options: $(number sweep held_out_rmse) at held-out cells on the GPU, $held on the CPU"
    fi
    if [ -n "$objective" ]; then
        within 1 "$(awk -v a="$objective" -v b="$(number "done" objective)" 'BEGIN { print a / b }')" 1e-6 ||
            bad "weights, cp --observed $options: objective $(number "done" objective) on the GPU, $objective on the CPU"
    fi
done
run one --gpus 1 --mean --hold-out 10%
for gpus in 1 2; do
    [ "$gpus" -le "$usable" ] || continue
    for memory in '' --gpu-memory="$(little "$gpus" -r 9 --observed --mean --hold-out 10%)"; do
        run more --gpus "$gpus" --mean --hold-out 10% ${memory:+"$memory"}
        cmp -s one.cp/model.ktensor more.cp/model.ktensor || bad "other bytes with --gpus $gpus $memory and weights"
    done
done
for options in "" "--mean --hold-out 10% --l2-scale count" "-r 40 -i 2"; do
    for tensor in none ones; do
        rm -r x.tsh
        cp -r $tensor.tsh x.tsh
        # shellcheck disable=SC2086
        run $tensor --gpus 1 $options
    done
    cmp -s none.cp/model.ktensor ones.cp/model.ktensor || bad "weights of 1 change bytes: $options"
done
"$bin/tstream" mttkrp ones.tsh -r 8 --mode 1 --gpus 1 --check > log 2>&1 || bad "mttkrp of a tensor with weights: $(cat log)"
rm -r x.tsh
mv plain.tsh x.tsh

# ---- stopped ----
"$bin/tstream" cp x.tsh -r 9 -i 6 --tol 0 --gpus 1 --observed --mean -o whole.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp x.tsh -r 9 -i 3 --tol 0 --gpus 1 --observed --mean -o part.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp --resume part.cp -i 6 --gpus "$((usable > 1 ? 2 : 1))" > log 2>&1 || bad "cp --resume: $(cat log)"
cmp -s whole.cp/model.ktensor part.cp/model.ktensor || bad "other bytes after a resume"

# ---- the plan, and rows whose Gram matrices lie in device memory ----
"$bin/tstream" plan x.tsh -r 9 --gpus 1 --observed > table 2> err || bad "plan --observed: $(cat err)"
grep -q 'a Gram matrix a row' table || bad "plan --observed: $(cat table)"
for options in "-r 129" "-r 65 -p float64"; do
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh $options -i 2 --tol 0 --gpus 1 --observed --force -o one.cp > log 2>&1 || bad "cp $options: $(cat log)"
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh $options -i 2 --tol 0 --gpus "$((usable > 1 ? 2 : 1))" --gpu-memory 1500M --observed --force -o more.cp > log 2>&1 ||
        bad "cp $options: $(cat log)"
    cmp -s one.cp/model.ktensor more.cp/model.ktensor || bad "other bytes within a budget $options"
done
exit $failed
