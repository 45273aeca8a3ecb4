#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream cp on GPUs from the outside: the same bytes for one GPU and several, resident and streamed; the
# fit of the CPU; budgets of host memory that hold with what driver and libraries take; an end when
# interrupted; refusals with what there is. Skipped without a GPU.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
# shellcheck source=tests/gpu/outside_gpu.sh
. "$top/tests/gpu/outside_gpu.sh"

"$bin/tshard" gen --dims 30000x40000x500 --nnz 6M --law power:0.8 --memory 512M --shard 512K -o x.tsh \
    > log 2>&1 || { cat log; exit 1; }

# run NAME OPTION...: three sweeps into NAME.cp, what it prints into json
run()
{
    name=$1
    shift
    run_cp "$name" -r 8 -i 3 "$@"
}

# ---- bytes ----
run one --gpus 1
grep -q '"backend":"gpu"' json || bad "not on the GPU: $(cat json)"
fit=$(number "done" fit) nnz=$(number start nnz)
for gpus in 1 2 "$usable"; do
    [ "$gpus" -le "$usable" ] || continue
    [ "$gpus" -le 16 ] || continue
    for memory in '' --gpu-memory=$(little "$gpus" -r 8); do
        run more --gpus "$gpus" ${memory:+"$memory"}
        cmp -s one.cp/model.ktensor more.cp/model.ktensor ||
            bad "other bytes with --gpus $gpus $memory"
        [ "$(grep -c '^{"event":"mode".*"devices":\[{"gpu":0,' json)" -eq 9 ] ||
            bad "no nine modes: $(cat json)"
        # every nonzero is some GPU's
        grep '^{"event":"mode"' json | while read -r line; do
            echo "$line" | grep -o '"nnz":[0-9]*' | cut -d: -f2 |
                awk -v nnz="$nnz" '{ n += $1 } END { exit n != nnz }' || echo "$line"
        done > wrong
        [ ! -s wrong ] || bad "nonzeros of the GPUs are not $nnz: $(head -n 1 wrong)"
    done
done
run cpu --cpu
awk -v a="$fit" -v b="$(number "done" fit)" 'BEGIN { d = a - b; exit !(d < 2e-5 && d > -2e-5) }' ||
    bad "fit $fit on the GPU, $(number "done" fit) on the CPU"

# ---- host memory ----
run small --gpus 1 --gpu-memory "$(little 1 -r 8)" --host-memory 1G
budget=$((1 << 30)) factors=$(number start factor_bytes) peak=$(number "done" peak_bytes)
echo "budget $budget, factors $factors, libraries $(number start library_bytes), peak $peak"
[ "$peak" -le $((budget + factors + (64 << 20))) ] || bad "peak $peak of a budget of $budget"
got=0
"$bin/tstream" cp x.tsh --gpus 1 --host-memory 8M > log 2> err || got=$?
[ "$got" -eq 1 ] || bad "cp --host-memory 8M: exit $got"
grep -q 'driver and libraries' err || bad "cp --host-memory 8M: $(cat err)"

# ---- interrupted, with shards on the GPU and in host memory: it ends, and goes on ----
for memory in '' --gpu-memory=$(little 1 -r 8); do
    : > log # not that of the run before
    "$bin/tstream" cp x.tsh -r 8 --gpus 1 -i 100000000 --tol 0 --output stopped ${memory:+"$memory"} > log 2>&1 &
    pid=$!
    while kill -0 $pid && ! grep -q '^ *2 ' log; do sleep 0.05; done
    kill -INT $pid
    got=0
    wait $pid || got=$?
    [ "$got" -eq 130 ] || bad "cp $memory: exit $got after SIGINT: $(cat log)"
    if [ -e stopped ]; then bad "cp $memory: a result after SIGINT"; fi
    "$bin/tstream" cp --resume stopped --gpus 1 --max-time 2s ${memory:+"$memory"} > log 2>&1 ||
        bad "cp $memory --resume: $(cat log)"
    rm -r stopped.partial
done

# ---- trace, lists ----
run traced --gpus "0," --gpu-memory "$(little 0, -r 8)" --trace trace.json
grep -q '"ph":"X","pid":2,' trace.json || bad "the trace has nothing of the GPU"
if command -v python3 > python; then
    python3 -m json.tool trace.json > parsed || bad "the trace is no JSON"
fi
for gpus in $((usable + 1)) "0,999"; do
    got=0
    "$bin/tstream" cp x.tsh --gpus "$gpus" > log 2> err || got=$?
    [ "$got" -eq 1 ] || [ "$got" -eq 2 ] || bad "cp --gpus $gpus: exit $got"
    grep -q -e "--gpus $gpus: " err || bad "cp --gpus $gpus: $(cat err)"
done
CUDA_VISIBLE_DEVICES='' "$bin/tstream" devices > log
grep -q 'CUDA_VISIBLE_DEVICES hides all' log || bad "CUDA_VISIBLE_DEVICES='': $(cat log)"
exit $failed
