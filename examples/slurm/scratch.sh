#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The same from disks of the nodes: each gets the shards of its own ranks before the run. The result, and states, go to a file
# system that all nodes see, as a state on the disk of a node that fails would be lost with it: nothing is to be copied back.
#
#   TENSOR=/shared/amazon.tsh OUT=/shared/amazon.cp SCRATCH=/local sbatch scratch.sh
#
#SBATCH --nodes=4 --ntasks-per-node=2 --cpus-per-task=32 --exclusive
#SBATCH --time=04:00:00
#SBATCH --requeue --open-mode=append
set -eu
tensor=${TENSOR:-/shared/amazon.tsh} out=${OUT:-/shared/amazon.cp}
options=${OPTIONS:---rank 32 --iters 500}
max_time=${MAX_TIME:-3h15m} # less than --time by what the copies take, too
most=20
scratch=${SCRATCH:-/local}/tstream.$SLURM_JOB_ID # a job has one number, however often it is queued
copy=$scratch/$(basename "$tensor")

# shellcheck disable=SC2086 # $options is several words
case $(tstream status "$out" --json 2> /dev/null || true) in
*'"found":"ended"'*) exit 0 ;;
*'"resumable":true'*) set -- "$copy" --resume "$out" ;;
*) set -- "$copy" $options --output "$out" ;;
esac

# on_nodes COMMAND...: once on each, in the order of ranks
on_nodes()
{
    srun --mpi=none --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --distribution=block "$@"
}
trap 'on_nodes rm -rf "$scratch"' EXIT
trap 'exit 143' TERM
on_nodes mkdir -p "$scratch"
on_nodes tshard part "$tensor" --parts "$SLURM_NNODES" --force --output "$copy"
# Ranks are numbered node by node, as the parts are.
srun --mpi="${MPI:-pmix}" --cpus-per-task="$SLURM_CPUS_PER_TASK" --distribution=block tstream cp "$@" --max-time "$max_time" \
    --ranks "$SLURM_NTASKS"

case $(tstream status "$out" --json) in
*'"found":"stopped"'*) again=$((${SLURM_RESTART_COUNT:-0} < most)) ;;
*) again=0 ;;
esac
trap - EXIT TERM
on_nodes rm -rf "$scratch" # before the job ends, which scontrol does at once
[ $again -eq 0 ] || scontrol requeue "$SLURM_JOB_ID"
