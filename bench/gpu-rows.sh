#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Row updates on one GPU: ms a sweep at rank 32, in float32, of least squares and with rows on the simplex in one mode and
# in two; ms of a round of all modes of a model of counts, from sweeps of 11 rounds and of one, and its rate beside that of
# the sweep of least squares; and what four sweeps in float64 end with on a GPU and on CPU cores. Run by
# `make bench-gpu-rows`, or
#   bench/gpu-rows.sh DIR_OF_PROGRAMS
# 300 MB in $TMPDIR, 60 s on an H200 with 16 cores.
set -eu
bin=$1/tools
here=$(dirname "$0")
events=$(cat "$here/events.awk")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# median FILE FROM: of the sweeps of a run.json, in ms, from that one on
median()
{
    sed 's/{"sweep":/\n&/g' "$1" | awk -v from="$2" "$events"'
        /^{"sweep":/ && value("sweep") >= from { all[++n] = value("seconds") }
        END { printf "%.3f", 1e3 * median(all, n) }'
}

# run NAME OPTION...: into NAME.cp
run()
{
    name=$1
    shift
    "$bin/tstream" cp "$tmp/x.tsh" --tol 0 --force --format npy -o "$tmp/$name.cp" "$@" > "$tmp/log" 2>&1 ||
        { cat "$tmp/log"; exit 1; }
}

# last NAME KEY: of the last sweep
last() { sed "s/.*\"$2\":\([0-9.e+-]*\).*/\1/" "$tmp/$1.cp/run.json" | tail -n 1; }

# name, shape, law, draws, sweeps
measure()
{
    "$bin/tshard" gen --dims "$2" --law "$3" -n "$4" -o "$tmp/x.tsh" > "$tmp/log" 2>&1
    run plain --gpus 1 -r 32 -i "$5"
    run some --gpus 1 -r 32 -i "$5" --simplex 1
    run all --gpus 1 -r 32 -i "$5" --simplex 1,2
    run once --gpus 1 -r 32 -i "$5" --loss poisson --inner 1
    run often --gpus 1 -r 32 -i "$5" --loss poisson --inner 11
    plain=$(median "$tmp/plain.cp/run.json" 3)
    some=$(median "$tmp/some.cp/run.json" 3)
    all=$(median "$tmp/all.cp/run.json" 3)
    once=$(median "$tmp/once.cp/run.json" 3)
    often=$(median "$tmp/often.cp/run.json" 3)
    awk -v name="$1" -v plain="$plain" -v some="$some" -v all="$all" -v once="$once" -v often="$often" 'BEGIN {
        round = (often - once) / 10
        printf "%-12s %9.3f %9.3f %9.3f %6.2f %6.2f %9.3f %9.3f %6.2f\n",
               name, plain, some, all, some / plain, all / plain, once, round, plain / round }'
    rm -rf "$tmp/x.tsh"
}

printf 'ms a sweep, R = 32, float32, resident\n%-12s %9s %9s %9s %6s %6s %9s %9s %6s\n' tensor plain mode1 modes1+2 ratio ratio count1 round rate
measure uber-like 91x24x887x1410 power:0.8 2M 40
measure icews-like 7127x230x7128x365 power:0.8 100K 100
measure uniform20M 30000x40000x50000 uniform 20M 20
measure power20M 600000x225000x225000 power:0.8 20M 20
"$bin/tshard" gen --dims 3000x4000x300 --law power:0.8 -n 1M -o "$tmp/x.tsh" > "$tmp/log" 2>&1
for options in "-r 10" "-r 40"; do
    # shellcheck disable=SC2086 # several options
    run gpu --gpus 1 -i 4 --precision float64 --simplex 1,3 $options
    # shellcheck disable=SC2086
    run cpu --cpu -i 4 --precision float64 --simplex 1,3 $options
    printf 'fit, %s --simplex 1,3: %s on the GPU, %s on CPU cores\n' "$options" "$(last gpu fit)" "$(last cpu fit)"
    # shellcheck disable=SC2086
    run gpu --gpus 1 -i 4 --precision float64 --loss poisson --inner 5 $options
    # shellcheck disable=SC2086
    run cpu --cpu -i 4 --precision float64 --loss poisson --inner 5 $options
    printf 'log-likelihood, %s: %s on the GPU, %s on CPU cores\n' "$options" "$(last gpu log_likelihood)" \
        "$(last cpu log_likelihood)"
done
