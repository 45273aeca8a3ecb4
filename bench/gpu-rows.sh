#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Row updates on one GPU: ms a sweep at rank 32, in float32, of least squares and with rows on the simplex in one mode and
# in two; ms of a round of all modes of a model of counts, from sweeps of 11 rounds and of one, and its rate beside that of
# the sweep of least squares; what four sweeps in float64 end with on a GPU and on CPU cores; and on the tensors of
# gpu-table.sh ms a sweep with --nonneg beside the plain one, in turn, with shards in device memory, streamed from host
# memory and, of one tensor, from disk. Run by `make bench-gpu-rows`, or
#   bench/gpu-rows.sh DIR_OF_PROGRAMS [NNZ [NNZ_OF_FIVE_MODES]]
# NNZ, the draws of the last table, is 200M, and 100M of five modes. ONLY=NAME,... picks tensors, or tables: rows, fits, nonneg;
# TIMES is how often the two of the last table are run in turn, 2 if it is not set. The first two need 300 MB in $TMPDIR and 60 s on an
# H200 with 16 cores, the last 8 bytes per draw and mode there, and as much host memory.
set -eu
bin=$1/tools
here=$(dirname "$0")
events=$(cat "$here/events.awk")
nnz=${2:-200M}
nnz5=${3:-${2:-100M}}
only=${ONLY:-}
times=${TIMES:-2}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tensor=$tmp/x.tsh
# shellcheck source=bench/streamed.sh
. "$here/streamed.sh"

# picked TABLE [NAME]: whether the table is wanted, or its tensor of this name
picked()
{
    case ",$only," in ,,|*",$1,"*|*",${2:-$1},"*) ;; *) return 1 ;; esac
}

# heading TEXT: once, above the first row of a table
heading()
{
    [ "$headed" = "$1" ] || printf '%s\n' "$1"
    headed=$1
}
headed=

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
    "$bin/tstream" cp "$tensor" --tol 0 --force --format npy -o "$tmp/$name.cp" "$@" > "$tmp/log" 2>&1 ||
        { cat "$tmp/log"; exit 1; }
}

# last NAME KEY: of the last sweep
last() { sed "s/.*\"$2\":\([0-9.e+-]*\).*/\1/" "$tmp/$1.cp/run.json" | tail -n 1; }

# name, shape, law, draws, sweeps
measure()
{
    picked rows "$1" || return 0
    "$bin/tshard" gen --dims "$2" --law "$3" -n "$4" -o "$tensor" > "$tmp/log" 2>&1
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
    heading "ms a sweep, R = 32, float32, resident
tensor           plain     mode1  modes1+2  ratio  ratio    count1     round   rate"
    awk -v name="$1" -v plain="$plain" -v some="$some" -v all="$all" -v once="$once" -v often="$often" 'BEGIN {
        round = (often - once) / 10
        printf "%-12s %9.3f %9.3f %9.3f %6.2f %6.2f %9.3f %9.3f %6.2f\n",
               name, plain, some, all, some / plain, all / plain, once, round, plain / round }'
    rm -rf "$tensor"
}

measure uber-like 91x24x887x1410 power:0.8 2M 40
measure icews-like 7127x230x7128x365 power:0.8 100K 100
measure uniform20M 30000x40000x50000 uniform 20M 20
measure power20M 600000x225000x225000 power:0.8 20M 20

# What four sweeps in float64 end with.
fits()
{
    picked fits || return 0
    "$bin/tshard" gen --dims 3000x4000x300 --law power:0.8 -n 1M -o "$tensor" > "$tmp/log" 2>&1
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
    rm -rf "$tensor"
}
fits

# beside NAME SHARDS SWEEPS: a row of the last table; budgets of the two runs are in $for_plain and $for_nonneg
beside()
{
    rm -f "$tmp/plain" "$tmp/nonneg"
    for _ in $(seq "$times"); do
        # shellcheck disable=SC2086 # several options
        sweeps "$tmp/plain" "$3" -r 32 $for_plain
        # shellcheck disable=SC2086
        sweeps "$tmp/nonneg" "$3" -r 32 --nonneg $for_nonneg
    done
    heading "ms a sweep, R = 32, float32, and of it ms of rows; GB sent to the GPU and read in a sweep
tensor       shards       plain    nonneg  ratio      rows    nonneg  sent GB   nonneg  read GB   nonneg"
    echo "$(told "$tmp/plain") $(told "$tmp/nonneg")" | awk -v name="$1" -v shards="$2" '{
        printf "%-12s %-8s %9.3f %9.3f %6.3f %9.3f %9.3f %8.3f %8.3f %8.3f %8.3f\n",
               name, shards, $1, $6, $6 / $1, $3, $8, $4, $9, $5, $10 }'
}

# name, shape, law, draws; with a fifth argument from disk, too
nonneg()
{
    picked nonneg "$1" || return 0
    "$bin/tshard" gen --dims "$2" --law "$3" -n "$4" -o "$tensor" > "$tmp/log" 2>&1
    for_plain="" for_nonneg=""
    beside "$1" resident 20
    for_plain="--gpu-memory $(device_budget -r 32)"
    for_nonneg="--gpu-memory $(device_budget -r 32 --nonneg)"
    beside "$1" host 20
    if [ $# -gt 4 ]; then
        # shellcheck disable=SC2086
        for_plain="$for_plain --host-memory $(host_budget -r 32 $for_plain)"
        # shellcheck disable=SC2086
        for_nonneg="$for_nonneg --host-memory $(host_budget -r 32 --nonneg $for_nonneg)"
        beside "$1" disk 7
    fi
    rm -rf "$tensor"
}
nonneg uniform 30000x40000x50000 uniform "$nnz"
nonneg wide 4800000x1800000x1800000 uniform "$nnz"
nonneg wide-0.8 4800000x1800000x1800000 power:0.8 "$nnz" disk
nonneg wide-1.1 4800000x1800000x1800000 power:1.1 "$nnz"
nonneg flat-0.8 46x239200x239200 power:0.8 "$nnz"
nonneg five-1.1 15500000x6200000x783900x6100x6100 power:1.1 "$nnz5"
