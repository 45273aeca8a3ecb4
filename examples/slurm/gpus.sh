#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One decomposition on the GPUs of several nodes: a rank a node with all of its GPUs, or, by the second line, a rank a GPU.
#
#   TENSOR=/shared/amazon.tsh OUT=/shared/amazon.cp sbatch gpus.sh
#   TENSOR=/shared/amazon.tsh OUT=/shared/amazon.cp sbatch --ntasks-per-node=4 --cpus-per-task=8 gpus.sh
#
#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=32 --gpus-per-node=4 --exclusive
#SBATCH --time=04:00:00
#SBATCH --requeue --open-mode=append
set -eu
tensor=${TENSOR:-/shared/amazon.tsh} out=${OUT:-/shared/amazon.cp}
options=${OPTIONS:---rank 32 --iters 500}
max_time=${MAX_TIME:-3h45m}
most=20
gpus=$((SLURM_GPUS_ON_NODE / SLURM_NTASKS_PER_NODE)) # of a rank

# shellcheck disable=SC2086 # $options is several words
case $(tstream status "$out" --json 2> /dev/null || true) in
*'"found":"ended"'*) exit 0 ;;
*'"resumable":true'*) set -- --resume "$out" ;;
*) set -- "$tensor" $options --output "$out" ;;
esac
# Each rank is to see all GPUs of its node, of which they take theirs in turn: GPUs reach each other's memory then.
srun --mpi="${MPI:-pmix}" --cpus-per-task="$SLURM_CPUS_PER_TASK" --gpu-bind=none tstream cp "$@" --gpus "$gpus" \
    --max-time "$max_time" --ranks "$SLURM_NTASKS"

case $(tstream status "$out" --json) in
*'"found":"stopped"'*) [ "${SLURM_RESTART_COUNT:-0}" -ge $most ] || scontrol requeue "$SLURM_JOB_ID" ;;
esac
