#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The scripts of examples/slurm, run as Slurm runs them, by an srun and an scontrol made here of mpirun: stopped by their time, put
# back in the queue and gone on with, until they end with the bytes of one process that nobody stopped. Nodes are folders, which
# have disks of their own where a script names one. Skipped where there is no MPI, the one for GPUs where there is none.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
# shellcheck source=tests/support/outside_mpi.sh
. "$top/tests/support/outside_mpi.sh"
starts "$launcher" "$bin/tstream-mpi"
scripts=$top/examples/slurm

mkdir path node0 node1
# srun OPTION... COMMAND...: tasks of the job, block by block on its nodes; with --mpi=none each by itself
cat > path/srun << 'END'
#!/bin/sh
set -eu
tasks=$SLURM_NTASKS each=$((SLURM_NTASKS / SLURM_NNODES)) mpi=
while :; do
    case $1 in
    --mpi=*) mpi=${1#*=} ;;
    --ntasks=*) tasks=${1#*=} ;;
    --ntasks-per-node=*) each=${1#*=} ;;
    --nodes="$SLURM_NNODES" | --cpus-per-task="$SLURM_CPUS_PER_TASK" | --distribution=block | --gpu-bind=none) ;;
    -*) echo "srun: what is $1?" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
if [ "$mpi" = none ]; then
    export SLURM_STEP_NUM_TASKS="$tasks"
    for SLURM_PROCID in $(seq 0 $((tasks - 1))); do
        export SLURM_PROCID
        (cd "$NODES/node$((SLURM_PROCID / each))" && "$@")
    done
    exit
fi
[ "$mpi" = pmix ]
# mpirun takes the tasks of a node as a command of their own
nodes=$((tasks / each)) all=$#
for node in $(seq 0 $((nodes - 1))); do
    [ "$node" -eq 0 ] || set -- "$@" :
    set -- "$@" -n "$each" -wdir "$NODES/node$node"
    n=0 # the command is what "$@" begins with
    for word in "$@"; do
        n=$((n + 1))
        [ $n -gt "$all" ] || set -- "$@" "$word"
    done
done
shift "$all"
exec timeout 100 "$LAUNCHER" "$@"
END
# scontrol requeue JOB: is noted, and ends the job as Slurm does
cat > path/scontrol << 'END'
#!/bin/sh
[ $# -eq 2 ] && [ "$1" = requeue ] && echo "$2" > "$NODES/requeued" && kill -TERM "$JOB_SHELL"
END
# the shell of a job
cat > path/run_job << 'END'
#!/bin/sh
JOB_SHELL=$$
export JOB_SHELL
exec sh "$@"
END
chmod +x path/*
NODES=$PWD LAUNCHER=$launcher PATH=$PWD/path:$bin:$PATH
export NODES LAUNCHER PATH

# of NAME SCRIPT: what it asks Slurm for
of() { sed -n "s/^#SBATCH.*--$1=\([^ ]*\).*/\1/p" "$2"; }

# submit SCRIPT MS: submits it with so little time for a run, and queues it as often as it wants to; more time each turn, as
# this machine may be busy. $queued is how often.
submit()
{
    script=$scripts/$1 ms=$2 queued=0
    export SLURM_JOB_ID=77 SLURM_CPUS_PER_TASK=1
    SLURM_NNODES=$(of nodes "$script")
    [ "$SLURM_NNODES" -le 2 ] || SLURM_NNODES=2
    SLURM_NTASKS_PER_NODE=$(of ntasks-per-node "$script")
    [ -n "$SLURM_NTASKS_PER_NODE" ] || SLURM_NTASKS_PER_NODE=1
    SLURM_NTASKS=$((SLURM_NNODES * SLURM_NTASKS_PER_NODE))
    export SLURM_NNODES SLURM_NTASKS SLURM_NTASKS_PER_NODE
    unset SLURM_RESTART_COUNT
    for turn in $(seq 20); do
        rm -f requeued
        export MAX_TIME=${ms}ms
        got=0
        (cd node0 && { run_job "$script" || exit $?; }) > log 2> err < /dev/null || got=$?
        if [ -e requeued ]; then
            [ "$(cat requeued)" = "${WANTED:-77}" ] || bad "$1: requeues $(cat requeued)"
            queued=$((queued + 1))
            export SLURM_RESTART_COUNT=$queued
        elif grep -q 'nothing was saved' err; then
            [ $got -ne 0 ] || bad "$1: nothing was saved, and the exit status is 0"
        else
            [ $got -eq 0 ] || bad "$1: exit status $got: $(cat err)"
            return 0
        fi
        ms=$((ms + 100 * turn * turn))
    done
    bad "$1: does not come to its end: $(cat err)"
}

for script in "$scripts"/*.sh; do
    sh -n "$script" || bad "$script"
    [ -x "$script" ] || bad "$script cannot be run"
    [ "$(sed -n '2,/^set /s/^#SBATCH --/&/p' "$script" | wc -l)" -eq "$(grep -c '^#SBATCH' "$script")" ] || bad "$script: Slurm reads no option behind the first command"
    grep -q '^#SBATCH.*--requeue' "$script" || bad "$script: may not be queued again"
    grep -qF "${script##*/}" "$top/docs/clusters.md" || bad "docs/clusters.md does not tell of $script"
done

"$bin/tshard" gen --dims 3000x2000x70 --nnz 100000 --law power:1.1 --shard 64K -s 3 -o x.tsh > log 2>&1
TENSOR=$PWD/x.tsh OPTIONS="--rank 9 --iters 1500 --tol 0 --checkpoint 20ms --threads 1"
export TENSOR OPTIONS
# shellcheck disable=SC2086
"$bin/tstream" cp x.tsh --cpu $OPTIONS -o whole > log 2>&1 || bad "$(cat log)"

# ---- ranks on several nodes, and a tensor that all see; the job of a run that has ended does nothing ----
export OUT=$PWD/shared.cp
submit shared.sh 300
cmp -s whole/model.ktensor shared.cp/model.ktensor || bad "shared.sh: not the bytes of one process"
[ $queued -gt 0 ] || bad "shared.sh: was never stopped"
submit shared.sh 300
[ $queued -eq 0 ] && [ ! -s log ] || bad "shared.sh: runs again: $(cat log)"

# ---- one that cannot succeed is not queued again; nor is one that has been too often ----
export OUT=$PWD/none.cp
(cd node0 && TENSOR=$PWD/none.tsh run_job "$scripts/shared.sh") > log 2> err < /dev/null && bad "shared.sh: no tensor, and the exit status is 0"
[ ! -e requeued ] || bad "shared.sh: is queued for ever"
export OUT=$PWD/long.cp
(cd node0 && MAX_TIME=2s OPTIONS='--rank 9 --iters 1000000 --tol 0 --checkpoint 20ms' SLURM_RESTART_COUNT=20 run_job "$scripts/shared.sh") > log 2> err < /dev/null ||
    bad "shared.sh: is stopped: $(cat err)"
[ ! -e requeued ] || bad "shared.sh: is queued for the 21st time"

# ---- a signal stops a run as its time does, but the script does not queue it: its user has ended it, or Slurm queues it ----
(cd node0 && MAX_TIME=100s SLURM_RESTART_COUNT=1 timeout 100 run_job "$scripts/shared.sh") > log 2> err < /dev/null &
pid=$!
for i in $(seq 300); do
    "$bin/tstream" status long.cp --json > now 2> none || true
    ! grep -q '"found":"running"' now || break
    sleep 0.1
done
rank=$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' now)
[ -n "$rank" ] || bad "shared.sh: does not go on: $(cat now err)"
[ -z "$rank" ] || kill -TERM "$rank"
wait $pid && bad "shared.sh: is ended by a signal, and the exit status is 0"
"$bin/tstream" status long.cp --json | grep -q '"found":"stopped"' || bad "shared.sh: a signal saves no state: $("$bin/tstream" status long.cp)"
[ ! -e requeued ] || bad "shared.sh: is queued again after a signal"

# ---- disks of the nodes: each has its part, and nothing stays there ----
export OUT=$PWD/scratch.cp SCRATCH=disk
submit scratch.sh 300
cmp -s whole/model.ktensor scratch.cp/model.ktensor || bad "scratch.sh: not the bytes of one process"
[ $queued -gt 0 ] || bad "scratch.sh: was never stopped"
grep -q 'part 2 of 2' log || bad "scratch.sh: the second node has not its part: $(cat log)"
for node in node0 node1; do
    [ -d $node/disk ] && [ -z "$(ls $node/disk)" ] || bad "scratch.sh: left on $node: $(ls $node/disk)"
done

# ---- an array: each of its jobs is queued by its own number ----
export OUT=$PWD/models RANKS="3 9" SLURM_ARRAY_JOB_ID=77
for SLURM_ARRAY_TASK_ID in 0 1; do
    export SLURM_ARRAY_TASK_ID WANTED=77_$SLURM_ARRAY_TASK_ID
    OPTIONS="--iters 1500 --tol 0 --checkpoint 20ms --threads 1" submit array.sh 150
done
unset WANTED
cmp -s whole/model.ktensor models/r9.cp/model.ktensor || bad "array.sh: not the bytes of one process"
[ $queued -gt 0 ] || bad "array.sh: was never stopped"
[ -e models/r3.cp/model.ktensor ] || bad "array.sh: no model of rank 3"

# ---- GPUs: two ranks, and a rank a GPU ----
usable=$("$bin/tstream" devices --json | grep -o '"usable":true' | wc -l)
if [ "$usable" -gt 0 ] && ! grep -q __asan_init "$bin/tstream"; then
    OPTIONS="--rank 9 --iters 3000 --tol 0 --checkpoint 20ms"
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh --gpus 1 $OPTIONS -o whole.gpu > log 2>&1 || bad "$(cat log)"
    export OUT=$PWD/gpus.cp SLURM_GPUS_ON_NODE=1
    submit gpus.sh 1500
    cmp -s whole.gpu/model.ktensor gpus.cp/model.ktensor || bad "gpus.sh: not the bytes of one process"
else
    echo "skipped: gpus.sh, as there is no GPU"
fi

exit $failed
