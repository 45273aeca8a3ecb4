#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sweeps of small tensors on one GPU, in ms: those of docs/performance.md whose time is mostly that of launches and
# of what is done between them. Run by `make bench-gpu-small`, or
#   bench/gpu-small.sh DIR_OF_PROGRAMS [RANK...]
#   TS_BENCH_DATA  directory of FROSTT files; those named below are used when they are there, else tensors of
#                  their shapes
# Median and least of sweeps 11 to 200, and of these the median times of kernels that compute products, and of
# solving for rows, which counts what the host does between passes. Needs some 30 MB in $TMPDIR.
set -eu
bin=$1
shift
[ $# -gt 0 ] || set -- 16 32
here=$(dirname "$0")
events=$(cat "$here/events.awk")
data=${TS_BENCH_DATA:-$here/../../shared/data}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The tensor $1 at rank $2: times from run.json, whose sweeps are put on lines of their own. Nothing is printed
# meanwhile.
sweeps()
{
    "$bin/tools/tstream" cp "$tmp/$1.tsh" -r "$2" --gpus 1 --iters 200 --tol 0 --force -o "$tmp/x.cp" \
        > "$tmp/log" 2>&1
    sed 's/{"sweep":/\n&/g' "$tmp/x.cp/run.json" |
        awk -v name="$1" -v rank="$2" "$events"'
            /^{"sweep":/ && value("sweep") > 10 {
                all[++n] = value("seconds")
                kernels[n] = value("kernel_seconds")
                solves[n] = value("solve_seconds")
                if (n == 1 || all[n] < least) least = all[n]
            }
            END {
                printf "%-22s %4d %8.3f %8.3f %9.3f %8.3f\n", name, rank, 1e3 * median(all, n), 1e3 * least,
                    1e3 * median(kernels, n), 1e3 * median(solves, n)
            }'
}

# name, shape, draws of a tensor like it
measure()
{
    name=$1
    if [ -f "$data/$name.tns.gz" ]; then
        "$bin/tools/tshard" build "$data/$name.tns.gz" -o "$tmp/$name.tsh" > "$tmp/log" 2>&1
    else
        name=like-$1
        "$bin/tools/tshard" gen --dims "$2" --law power:0.8 -n "$3" -o "$tmp/$name.tsh" > "$tmp/log" 2>&1
    fi
    for rank in $ranks; do
        sweeps "$name" "$rank"
    done
    rm -rf "$tmp/$name.tsh"
}

ranks=$*
printf 'float32, ms\n%-22s %4s %8s %8s %9s %8s\n' tensor rank sweep least products rows
measure uber-apr-jun14 91x24x887x1410 2M
measure git-history-5d 10854x99546x1135x24x3 700K
measure fb15k-237 14541x237x14540 400K
measure icews14 7127x230x7128x365 100K
