#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A job for each of several models, on a node each: of one rank after another here. Models of one tensor that fit into one
# node's memory together take fewer passes as one run: tstream cp --rank 8,16,32,64.
#
#   TENSOR=/shared/amazon.tsh OUT=/shared/models sbatch array.sh
#
#SBATCH --array=0-3
#SBATCH --nodes=1 --ntasks=1 --cpus-per-task=64 --exclusive
#SBATCH --time=04:00:00
#SBATCH --requeue --open-mode=append
set -eu
tensor=${TENSOR:-/shared/amazon.tsh}
options=${OPTIONS:---iters 500}
max_time=${MAX_TIME:-3h45m}
most=20
# shellcheck disable=SC2086
set -- ${RANKS:-8 16 32 64} # of the models; for seeds: --seed "$SLURM_ARRAY_TASK_ID" below
shift "$SLURM_ARRAY_TASK_ID"
rank=$1
out=${OUT:-/shared/models}/r$rank.cp
mkdir -p "$(dirname "$out")"

# shellcheck disable=SC2086 # $options is several words
case $(tstream status "$out" --json 2> /dev/null || true) in
*'"found":"ended"'*) exit 0 ;;
*'"resumable":true'*) set -- --resume "$out" ;;
*) set -- "$tensor" --rank "$rank" $options --output "$out" ;;
esac
srun --mpi=none --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" tstream cp "$@" --max-time "$max_time"

# The last job of an array has the number of the array for its own, by which all of them would be queued again.
case $(tstream status "$out" --json) in
*'"found":"stopped"'*)
    [ "${SLURM_RESTART_COUNT:-0}" -ge $most ] || scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" ;;
esac
