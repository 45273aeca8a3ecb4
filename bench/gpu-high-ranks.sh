#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sweeps of one GPU at ranks from 128 on, where rows have more columns than a warp holds and Gram matrices of rows lie in device memory,
# and of CPU cores beside: seconds of the second sweep, float32, of a tensor of 20000 x 9000 x 300 with NNZ nonzeros. Run by
# `make bench-gpu-high-ranks`, or
#   bench/gpu-high-ranks.sh DIR_OF_PROGRAMS [NNZ [RANKS [RANKS_OF_CPU_CORES]]]
# ONLY=NAME,... picks columns, such as observed,observed-nonneg; RANKS_OF_CPU_CORES may be empty.
set -eu
bin=$1/tools
events=$(cat "$(dirname "$0")/events.awk")
nnz=${2:-1M}
ranks=${3:-128 129 200 300 512}
of_cpu=${4-128 200}
columns=$(echo "${ONLY:-least-squares,observed,observed-nonneg,poisson,huber:1}" | tr , ' ')
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

options_of()
{
    case $1 in
        least-squares) ;;
        observed) echo --observed ;;
        observed-nonneg) echo --observed --nonneg ;;
        poisson) echo --loss poisson --inner 3 ;;
        huber:1) echo --loss huber:1 ;;
        *) echo "--no-such-column=$1" ;;
    esac
}

# Seconds of a sweep with the options.
sweep()
{
    "$bin/tstream" cp "$tmp/t.tsh" -i 2 --tol 0 -n --json "$@" 2> "$tmp/log" |
        awk "$events"'
            /"event":"sweep"/ { x = value("seconds") }
            END { printf(" %15s", (x > 0 ? sprintf("%.3f", x) : "failed")) }'
}

"$bin/tshard" gen --dims 20000x9000x300 --law power:0.8 --value 1..5 -n "$nnz" -o "$tmp/t.tsh" > "$tmp/log" 2>&1
printf '%s nonzeros, s a sweep\n%-12s %5s' "$nnz" processor rank
# shellcheck disable=SC2086 # several columns
printf ' %15s' $columns
echo
for on in "--gpus 1" --cpu; do
    for rank in $([ "$on" = --cpu ] && echo "$of_cpu" || echo "$ranks"); do
        printf '%-12s %5s' "$on" "$rank"
        for column in $columns; do
            # shellcheck disable=SC2046,SC2086 # several options
            sweep $on -r "$rank" $(options_of "$column")
        done
        echo
    done
done
