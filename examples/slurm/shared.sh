#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One decomposition on the CPU cores of several nodes, a rank a socket. Tensor and result lie on a file system that all nodes see.
# What takes longer than the time limit stops before it, and the job goes back to the queue until the run has ended:
#
#   TENSOR=/shared/amazon.tsh OUT=/shared/amazon.cp sbatch shared.sh
#
#SBATCH --nodes=4 --ntasks-per-node=2 --cpus-per-task=32 --exclusive
#SBATCH --time=04:00:00
#SBATCH --requeue --open-mode=append
set -eu
tensor=${TENSOR:-/shared/amazon.tsh} out=${OUT:-/shared/amazon.cp}
options=${OPTIONS:---rank 32 --iters 500}
max_time=${MAX_TIME:-3h45m} # less than --time by a mode and by what a state takes to be written
most=20                     # times in the queue: a run that comes no further does not stay in it for ever

# What Slurm starts again begins at the first line: a state that is there is gone on with.
# shellcheck disable=SC2086 # $options is several words
case $(tstream status "$out" --json 2> /dev/null || true) in
*'"found":"ended"'*) exit 0 ;;
*'"resumable":true'*) set -- --resume "$out" ;;
*) set -- "$tensor" $options --output "$out" ;;
esac
# srun takes --cpus-per-task from the job no more, since Slurm 22.05; --mpi=list tells what it speaks: pmix for Open MPI
srun --mpi="${MPI:-pmix}" --cpus-per-task="$SLURM_CPUS_PER_TASK" tstream cp "$@" --max-time "$max_time" --ranks "$SLURM_NTASKS"

# Here are runs that ended, and those that --max-time stopped: exit status 0. Any other has ended the script, as nothing would
# be better the next time.
case $(tstream status "$out" --json) in
*'"found":"stopped"'*) [ "${SLURM_RESTART_COUNT:-0}" -ge $most ] || scontrol requeue "$SLURM_JOB_ID" ;;
esac
