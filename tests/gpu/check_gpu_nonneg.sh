#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Constraints, starts, fixed factors and acceleration on GPUs from the outside: chosen without being asked for; the fit and
# factors of CPU cores; the same bytes for one GPU and two, resident and streamed, and for a run that was stopped. Skipped
# without a GPU.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
# shellcheck source=tests/gpu/outside_gpu.sh
. "$top/tests/gpu/outside_gpu.sh"

"$bin/tshard" gen --dims 20000x30000x300 --nnz 3M --law power:0.8 --memory 512M --shard 256K -o x.tsh \
    > log 2>&1 || { cat log; exit 1; }

# run NAME OPTION...: four sweeps into NAME.cp, what it prints into json
run()
{
    name=$1
    shift
    run_cp "$name" -r 9 -i 4 "$@"
}

# factors_alike NAME1 NAME2 MOST: their models are, each entry (columns have norm 1) and, relatively, each weight
factors_alike()
{
    paste -d ' ' "$1.cp/model.ktensor" "$2.cp/model.ktensor" | awk -v most="$3" '
        NF % 2 { exit wrong = 1 }
        {
            for (i = 1; i <= NF / 2; i++) {
                a = $i
                b = $(i + NF / 2)
                d = a > b ? a - b : b - a
                if (a != b && !(d <= most * (a > 1 ? a : 1))) exit wrong = 1
            }
        }
        END { exit wrong || NR == 0 }'
}

# ---- the fit and factors of CPU cores, and the processor ----
"$bin/tstream" cp x.tsh -r 9 -i 2 --tol 0 --cpu -o start.cp > log 2>&1 || bad "cp: $(cat log)"
for options in "--nonneg" "--nonneg --l1 1=0.2 --l2 2=0.1,3=0.1" "--nonneg 2,3" "--orthogonal 3" \
    "--orthogonal 1 --nonneg 3" "--smooth 3=0.5" "--smooth 1,3=0.5 --nonneg --l2 0.01" "--smooth 2=0.1 --l1 2=0.1 --l2 1=0.1,3=0.1" \
    "--smooth 3 --bounds 3=-0.1:0.2 --l2 1=0.1,2=0.1" "--simplex 1" "--simplex 2,3 --nonneg 1" \
    "--bounds 1=0:1" "--bounds 2=-0.01:0.02 --nonneg 3" "--init start.cp --fix 3" "--init start.cp --fix 1 --nonneg 2,3" \
    "--accelerate -i 9" "--accelerate --nonneg -i 9" "--init nvecs" "--init nvecs --nonneg" \
    "--simplex 1 --accelerate -i 8" "--bounds 2=0:1 --l2 0.1 --accelerate -i 8"; do
    # shellcheck disable=SC2086 # several options
    run cpu --cpu --precision float64 $options
    want=$(number "done" fit) objective=$(number "done" objective)
    # shellcheck disable=SC2086
    run gpu --precision float64 $options
    grep -q '"backend":"gpu"' json || bad "cp $options: not on the GPU"
    within "$want" "$(number "done" fit)" 1e-6 ||
        bad "cp $options: fit $(number "done" fit) on the GPU, $want on the CPU"
    factors_alike cpu gpu 1e-6 || bad "cp $options: other factors on the GPU"
    if [ -n "$objective" ]; then
        within 1 "$(awk -v a="$objective" -v b="$(number "done" objective)" 'BEGIN { print a / b }')" 1e-6 ||
            bad "cp $options: objective $(number "done" objective) on the GPU, $objective on the CPU"
    fi
done
run narrow --nonneg
want=$(number "done" fit)
run cpu --cpu --nonneg
within "$want" "$(number "done" fit)" 2e-5 ||
    bad "fit $want on the GPU, $(number "done" fit) on the CPU, in float32"

# ---- bytes ----
for options in "--nonneg" "--nonneg --l1 0.1" "--nonneg 3 -r 70 -i 2" "--simplex 1" "--simplex 3 -r 70 -i 2" "--simplex 1 --accelerate -i 8"; do
    # shellcheck disable=SC2086
    run one --gpus 1 $options
    if [ "$options" = --nonneg ] && grep -v '^[a-z]' one.cp/model.ktensor | grep -q -e '^-\| -'; then
        bad "entries below 0"
    fi
    for gpus in 1 2; do
        [ "$gpus" -le "$usable" ] || continue
        # shellcheck disable=SC2086
        for memory in '' --gpu-memory="$(little "$gpus" -r 9 $options)"; do
            run more --gpus "$gpus" $options ${memory:+"$memory"}
            cmp -s one.cp/model.ktensor more.cp/model.ktensor ||
                bad "other bytes with --gpus $gpus $memory $options"
        done
    done
done

# ---- several models, in one pass or, where each has passes of its own, one after another: bytes of their own runs ----
for options in "" "--nonneg" "--orthogonal 3" "--observed" "--loss poisson" "--loss huber:0.5"; do
    for gpus in 1 2; do
        [ "$gpus" -le "$usable" ] || continue
        # shellcheck disable=SC2086
        "$bin/tstream" cp x.tsh -r 4,9 --restarts 3 -i 3 --tol 0 --force -o many.cp --gpus "$gpus" $options > log 2>&1 ||
            bad "cp --restarts $options: $(cat log)"
        for name in r4.s2 r9.s1 r9.s3; do
            # shellcheck disable=SC2086
            "$bin/tstream" cp x.tsh -r "$(expr "$name" : 'r\([0-9]*\)')" -s "${name#*.s}" -i 3 --tol 0 --force -o own.cp \
                --gpus 1 $options > log 2>&1 || bad "cp $options: $(cat log)"
            cmp -s own.cp/model.ktensor "many.cp/$name/model.ktensor" ||
                bad "model $name: other bytes side by side, --gpus $gpus $options"
        done
    done
done

# ---- stopped, between sweeps and within one ----
memory=--gpu-memory=$(little 1 -r 9 --nonneg)
"$bin/tstream" cp x.tsh -r 9 -i 9 --tol 0 --gpus 1 --nonneg -o whole.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp x.tsh -r 9 -i 4 --tol 0 --gpus 1 --nonneg -o part.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp --resume part.cp -i 9 --gpus 1 "$memory" > log 2>&1 || bad "cp --resume: $(cat log)"
cmp -s whole.cp/model.ktensor part.cp/model.ktensor || bad "other bytes after a resume"

# stopped OPTION...: within a sweep, on as many GPUs as there are and streamed, goes on on one, which it fills
stopped()
{
    memory=--gpu-memory=$(little "$most" -r 9 "$@")
    : > log # not that of the run before
    "$bin/tstream" cp x.tsh -r 9 -i 100000000 --tol 0 --gpus "$most" "$memory" "$@" --force -o stopped.cp > log 2>&1 &
    pid=$!
    while kill -0 $pid && ! grep -q '^ *2 ' log; do sleep 0.05; done
    kill -INT $pid
    got=0
    wait $pid || got=$?
    [ "$got" -eq 130 ] || bad "cp $*: exit $got after SIGINT: $(cat log)"
    sweeps=$(sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p' log | tail -n 1)
    sweeps=$((sweeps + 2))
    "$bin/tstream" cp --resume stopped.cp -i "$sweeps" --gpus 1 > log 2>&1 || bad "cp $* --resume: $(cat log)"
    "$bin/tstream" cp x.tsh -r 9 -i "$sweeps" --tol 0 --gpus 1 "$@" --force -o whole.cp > log 2>&1 ||
        bad "cp $*: $(cat log)"
    cmp -s whole.cp/model.ktensor stopped.cp/model.ktensor ||
        bad "cp $*: other bytes after a stop in sweep $sweeps with $memory"
}
most=$((usable > 1 ? 2 : 1))
for options in "--nonneg" "--init start.cp --fix 3 --nonneg 1" "--accelerate --nonneg" "--bounds 1=0:1" "--init nvecs"; do
    # shellcheck disable=SC2086 # several options
    stopped $options
done

# ---- a fit of 1, where the last product is summed in float64 and old rows are weighted ----
awk 'BEGIN { for (i = 1; i <= 30; i++) for (j = 1; j <= 40; j++) for (k = 1; k <= 50; k++) print i, j, k, i * j + k % 7 + 1 }' > one.tns
"$bin/tshard" build one.tns -o one.tsh -q > log 2>&1 || bad "build: $(cat log)"
for where in --cpu "--gpus=1"; do
    "$bin/tstream" cp one.tsh -r 4 -i 200 --tol 1e-9 --nonneg -n --json "$where" > json 2> err ||
        bad "cp one.tsh $where: $(cat err)"
    number "done" fit
done > fits
awk 'NR == 1 { a = $1 } NR == 2 { d = a - $1; exit !(a > 0.99 && d < 1e-4 && -d < 1e-4) }' fits ||
    bad "fits of nearly 1: $(cat fits)"
"$bin/tstream" cp one.tsh -r 4 -i 5 --tol 0 --nonneg -o near.cp --gpus 1 --json --force > json 2> err || bad "cp: $(cat err)"
exact=$("$bin/tstream" fit near.cp one.tsh --cpu --json | sed -n 's/.*"fit":\([0-9.e-]*\).*/\1/p')
within "$(number "done" fit)" "$exact" 1e-6 || bad "the printed fit is $(number "done" fit), that of the factors $exact"
exit $failed
