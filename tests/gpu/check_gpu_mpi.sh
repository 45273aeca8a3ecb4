#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpirun -n 2 tstream cp --gpus 1: the bytes of one process with one GPU, whether shards stay or pass through; stopped and gone
# on with by one process; what ends one rank ends all; what ranks with GPUs do not do is refused in a sentence. With one GPU
# two ranks share it, and rows pass through host memory, or by NCCL that takes the ranks for two hosts; with more GPUs they travel by
# NCCL, and once by its sockets alone.
# Skipped without a GPU or MPI.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
# shellcheck source=tests/gpu/outside_gpu.sh
. "$top/tests/gpu/outside_gpu.sh"

# shellcheck source=tests/support/outside_mpi.sh
. "$top/tests/support/outside_mpi.sh"
starts "$launcher" "$bin/tstream-mpi"

# mpi RANKS ARGS...: tstream cp on so many
mpi()
{
    n=$1
    shift
    timeout 100 "$launcher" -n "$n" "$bin/tstream" cp "$@" < /dev/null
}

"$bin/tshard" gen --dims 30000x20000x70 --nnz 2M --law power:0.8 --shard 512K -s 3 -o x.tsh > log 2>&1 || { cat log; exit 1; }
nccl=0 by='through host memory (processes share a GPU)'
if [ "$usable" -ge 2 ]; then
    mpi 2 x.tsh --gpus 1 -r 2 -i 1 -n > log 2> err || bad "2 ranks: $(cat err)"
    nccl=1 by='by NCCL within the machine'
    ! grep -q 'through host memory (.*NCCL' err || { nccl=0 by='through host memory ('; echo "no NCCL: $(cat err)"; }
fi

# ---- the bytes of one process ----
run=0
while read -r options; do
    run=$((run + 1))
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh --gpus 1 --tol 0 --rows all $options -o one.$run > log 2>&1 || bad "$options: $(cat log)"
    # shellcheck disable=SC2086
    mpi 2 x.tsh --gpus 1 --tol 0 --rows all --json --details $options -o two.$run > json 2> err || bad "2 ranks, $options: $(cat err)"
    cmp -s one.$run/model.ktensor two.$run/model.ktensor || bad "2 ranks, $options: not the bytes of one process"
    grep -qF "2 processes compute together, this one with 1 GPU; rows travel " err || bad "2 ranks: are not told of: $(cat err)"
    grep -qF "$by" err || bad "2 ranks: not $by: $(cat err)"
    grep -q '"event":"mode".*"rank":0.*"rank":1' json || bad "2 ranks: modes do not tell of both: $(cat json)"
done << 'END'
-r 9 -i 3
-r 5 -i 3 --precision float64 --nonneg
-r 6 -i 3 --loss poisson
-r 5 -i 3 --loss huber:1
-r 5 -i 3 --loss huber:0.5 --optimizer lbfgsb --observed --hold-out 10%
END
[ $run -eq 5 ] || bad "$run of 5 runs"

# ---- shards pass through: a budget that holds little more than a run cannot do without, as a refusal counts that ----
mpi 2 x.tsh --gpus 1 -r 9 --gpu-memory 1M -n > log 2> err && bad "1 MiB is enough"
grep -q 'rank [01] of 2, on .*: 1 MiB of GPU memory cannot work' err || bad "--gpu-memory 1M: $(cat err)"
for _ in 1 2 3; do # what the driver takes of a GPU is not the same for both ranks, nor at any time
    little=$(grep -o '[0-9]* MiB' err | awk 'NR > 1 { sum += $1 } END { print sum + 12 }')M
    mpi 2 x.tsh --gpus 1 --tol 0 --rows all -r 9 -i 3 --gpu-memory "$little" -o little > log 2> err && break
    grep -q 'of GPU memory cannot work' err || break
done
cmp -s one.1/model.ktensor little/model.ktensor || bad "--gpu-memory $little: not the bytes of one process: $(cat err)"

# ---- observed cells, with held-out ones ----
errors_of()
{
    grep -oE '"(held_out_)?rmse": *[0-9][^,}]*' "$1/run.json"
}
"$bin/tstream" cp x.tsh --gpus 1 --tol 0 --rows all -r 9 -i 3 --observed --hold-out 10% -o known > log 2>&1 || bad "--observed: $(cat log)"
for n in 2 3; do
    mpi $n x.tsh --gpus 1 --tol 0 --rows all -r 9 -i 3 --observed --hold-out 10% -o known$n > log 2> err || bad "--observed on $n ranks: $(cat err)"
    cmp -s known/model.ktensor known$n/model.ktensor || bad "--observed on $n ranks: not the bytes of one process"
    errors_of known > one.txt
    errors_of known$n | cmp -s - one.txt || bad "--observed on $n ranks: other errors than of one process"
done

# ---- several models, three ranks on whatever GPUs there are ----
"$bin/tstream" cp x.tsh --gpus 1 --tol 0 -r 4,7 -i 3 -o models > log 2>&1 || bad "several models: $(cat log)"
mpi 3 x.tsh --gpus 1 --exchange host --tol 0 -r 4,7 -i 3 -o models3 > log 2> err || bad "several models on 3 ranks: $(cat err)"
for model in models/r*; do
    cmp -s "$model/model.ktensor" "models3/${model#models/}/model.ktensor" || bad "3 ranks: $model: not the bytes of one process"
done

# ---- NCCL, within the machine and by sockets alone; ranks with several GPUs ----
if [ $nccl -eq 1 ]; then
    mpi 2 x.tsh --gpus 1 --exchange nccl --tol 0 --rows all -r 9 -i 3 -o nccl > log 2> err || bad "NCCL: $(cat err)"
    cmp -s one.1/model.ktensor nccl/model.ktensor || bad "NCCL: not the bytes of one process"
    NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_SOCKET_IFNAME=lo mpi 2 x.tsh --gpus 1 --exchange nccl --tol 0 --rows all -r 9 -i 3 -o sockets > log 2> err || bad "NCCL by sockets: $(cat err)"
    cmp -s one.1/model.ktensor sockets/model.ktensor || bad "NCCL by sockets: not the bytes of one process"
    grep -qF 'rows travel by NCCL over the network' err || bad "NCCL by sockets: is not told of: $(cat err)"
fi
if [ "$usable" -ge 4 ]; then
    mpi 2 x.tsh --gpus 2 --tol 0 --rows all -r 9 -i 3 -o twice > log 2> err || bad "2 ranks with 2 GPUs each: $(cat err)"
    cmp -s one.1/model.ktensor twice/model.ktensor || bad "2 ranks with 2 GPUs each: not the bytes of one process"
fi

# ---- NCCL between two processes that share a GPU: with a host id each, it takes them for two hosts, between which are its sockets ----
# apart ARGS...: tstream cp on two such ranks
apart()
{
    # shellcheck disable=SC2016
    NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo timeout 100 "$launcher" -n 2 \
        sh -c 'export NCCL_HOSTID=host${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$@"' rank "$bin/tstream" cp "$@" < /dev/null
}
sockets=0
if apart x.tsh --gpus 0, --exchange nccl -r 2 -i 1 -n > log 2> err; then
    sockets=1
elif grep -q NCCL err; then # which may come to see through it
    echo "skipped: NCCL between processes that share a GPU: $(grep -m 1 NCCL err)"
else
    bad "two ranks with a host id each: $(cat err)"
fi
run=0
while [ $sockets -eq 1 ] && read -r options; do
    run=$((run + 1))
    # shellcheck disable=SC2086
    apart x.tsh --gpus 0, --exchange nccl --tol 0 --rows all $options -o apart.$run > log 2> err || bad "NCCL with a host id each, $options: $(cat err)"
    cmp -s one.$run/model.ktensor apart.$run/model.ktensor || bad "NCCL with a host id each, $options: not the bytes of one process"
    grep -qF 'rows travel by NCCL over the network' err || bad "NCCL with a host id each, $options: is not told of: $(cat err)"
done << 'END'
-r 9 -i 3
-r 5 -i 3 --precision float64 --nonneg
-r 6 -i 3 --loss poisson
END

# ---- other commands: figures of one process, of which the last digits of times are none; and a product, compared on each rank ----
"$bin/tstream" fit one.1 x.tsh --gpus 1 --json > json 2> log || bad "fit: $(cat log)"
grep -oE '"(fit|residual_norm|model_norm)":[^,]*' json > one.txt || bad "fit: $(cat json)"
for n in 2 3; do
    timeout 100 "$launcher" -n $n "$bin/tstream" fit one.1 x.tsh --gpus 1 --json < /dev/null > json 2> err || bad "fit on $n ranks: $(cat err)"
    grep -oE '"(fit|residual_norm|model_norm)":[^,]*' json | cmp -s - one.txt || bad "fit on $n ranks: other digits than of one process: $(cat json)"
    grep -qF "$n processes compute together, this one with 1 GPU" err || bad "fit on $n ranks: is not told of: $(cat err)"
    for mode in 1 3; do
        timeout 100 "$launcher" -n $n "$bin/tstream" mttkrp x.tsh --gpus 1 --rank 9 --mode $mode --reps 3 --check < /dev/null > log 2> err || bad "mttkrp on $n ranks: $(cat err)"
        grep -q '^check: off by at most' log || bad "mttkrp on $n ranks: is not compared: $(cat log)"
    done
done

# ---- the plan of one of them: what it then takes ----
for n in 2 5; do
    "$bin/tstream" plan x.tsh --ranks $n --gpus 1 -r 9 --json > json 2> err || bad "plan --ranks $n --gpus 1: $(cat err)"
    grep -q "\"processes\":$n,\"process\":[0-4],\"processes_per_host\":1,\"exchange_bytes\":[1-9]" json || bad "plan --ranks $n --gpus 1: $(cat json)"
    grep -qE '"gpus":\[\{"gpu":[0-9]*,"factor_bytes":[1-9][0-9]*,"other_bytes":[1-9][0-9]*,"resident_shard_bytes":[1-9]' json || bad "plan --ranks $n --gpus 1: no GPU: $(cat json)"
done

# ---- stopped by its time, gone on with by one process, and by two ----
"$bin/tstream" cp x.tsh --gpus 1 -r 9 -i 800 --tol 0 -o whole.cp > log 2>&1
turns=0
while [ ! -e part.cp ] && [ $turns -lt 12 ]; do
    turns=$((turns + 1)) ms=$((1000 + 500 * turns * turns))
    if [ ! -e part.cp.partial ]; then
        mpi 2 x.tsh --gpus 1 -r 9 -i 800 --tol 0 --checkpoint 20ms --max-time ${ms}ms -o part.cp > log 2> err || true # before anything was saved
    elif [ $((turns % 2)) -eq 0 ]; then
        "$bin/tstream" cp --resume part.cp --gpus 1 --max-time ${ms}ms > log 2>&1 || bad "--resume: $(cat log)"
    else
        mpi 2 --resume part.cp --gpus 1 --max-time ${ms}ms > log 2>&1 || bad "--resume by 2: $(cat log)"
    fi
done
cmp -s whole.cp/model.ktensor part.cp/model.ktensor || bad "after a stop: not the bytes of one process"

# ---- a rank that is killed ends all within 10 seconds; the state stays ----
# gone_on_with RESULT
gone_on_with()
{
    "$bin/tstream" cp --resume "$1" --gpus 1 --max-time 2s > log 2> err || bad "--resume after a kill: $(cat err)"
    grep -q 'goes on from sweep' err || bad "--resume after a kill: $(cat err)"
}
mpi 2 x.tsh --gpus 1 -r 9 -i 1000000 --tol 0 --checkpoint 20ms -o kill.cp > log 2> err &
pid=$! within=10
signal_one KILL kill.cp
gone_on_with kill.cp
if [ $sockets -eq 1 ]; then
    apart x.tsh --gpus 0, --exchange nccl -r 9 -i 1000000 --tol 0 --checkpoint 20ms -o apart.cp > log 2> err &
    pid=$!
    signal_one KILL apart.cp
    gone_on_with apart.cp
fi

# ---- what cannot be is refused, by one sentence of all ----
# ranks_refused TEXT ARGS...: of tstream cp on two ranks
ranks_refused()
{
    text=$1
    shift
    if mpi 2 "$@" -n > log 2> err; then bad "$*: is not refused"; fi
    grep -qF -- "$text" err || bad "$*: no \"$text\" in: $(cat err)"
    [ "$(grep -c '^tstream cp: rank' err)" -eq 1 ] || bad "$*: not one sentence: $(cat err)"
}
ranks_refused 'NCCL cannot exchange between processes that share a GPU' x.tsh -r 4 --gpus 0, --exchange nccl
ranks_refused 'copies from GPU to GPU are of one process' x.tsh -r 4 --gpus 1 --exchange copy
ranks_refused 'there is no GPU 99' x.tsh -r 4 --gpus 99,
"$bin/tshard" gen --dims 3000x2000x70 --nnz 200000 -s 5 --shard 64K -o small.tsh > log 2>&1
size=$(wc -c < small.tsh/mode2.shards)
printf 'XXXXXXXX' | dd of=small.tsh/mode2.shards bs=1 seek=$((size / 2)) conv=notrunc 2> log
ranks_refused 'mode2.shards' small.tsh -r 4 --gpus 1

exit $failed
