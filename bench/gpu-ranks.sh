#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The MTTKRP on one GPU at many ranks, shards in device memory, beside what the device's memory allows:
# a 3-mode tensor reads two rows a nonzero, so half of the random rows that bench/gpu_limits reads in a
# second, from a table that fits the second-level cache for `uniform`, from one that does not for `wide`.
# Rows of the limit have no padding: where those of a rank are padded and lie in cache, it can be passed.
# Run by `make bench-gpu-ranks`, or
#   bench/gpu-ranks.sh DIR_OF_PROGRAMS [NNZ]
# First mode; best of 7. Needs about 8 bytes of disk per nonzero and mode in $TMPDIR.
set -eu
bin=$1
events=$(cat "$(dirname "$0")/events.awk")
nnz=${2:-200M}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

"$bin/bench/gpu_limits" > "$tmp/limits"
cat "$tmp/limits"
ranks=$(sed -n 's/^random rows.*rank *//p' "$tmp/limits")

# name, shape, limits of its table by rank
measure()
{
    "$bin/tools/tshard" gen --dims "$2" --law uniform -n "$nnz" -f -o "$tmp/t.tsh" > "$tmp/log" 2>&1
    n=0
    for rank in $ranks; do
        n=$((n + 1))
        limit=$(echo "$3" | awk -v n="$n" '{ print $n }')
        "$bin/tools/tstream" mttkrp "$tmp/t.tsh" -r "$rank" --gpus 1 -k 1 -n 7 --json |
            awk -v name="$1" -v rank="$rank" -v limit="$limit" "$events"'
                /"event":"mttkrp"/ && value("nnz_per_s") > best { best = value("nnz_per_s") }
                END {
                    printf "%-8s %4d %8.2f %8.2f %5.0f %%\n", name, rank, best * 1e-9, limit / 2,
                        200 * best * 1e-9 / limit
                }'
    done
}

printf '%s nonzeros, float32\n%-8s %4s %8s %8s %7s\n' "$nnz" tensor rank Gnnz/s limit 'of it'
measure uniform 30000x40000x50000 "$(sed -n 's/^table of 90000 rows *//p' "$tmp/limits")"
measure wide 4800000x1800000x1800000 "$(sed -n 's/^table of 3600000 rows *//p' "$tmp/limits")"
