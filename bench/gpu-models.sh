#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Several models in one pass on one GPU: ms a sweep of one start of rank 16 and of eight at once, resident, streamed
# from host memory and from disk, and whether the factors of a start are those of its own run. Run by `make bench-gpu-models`, or
#   bench/gpu-models.sh DIR_OF_PROGRAMS [DIR_OF_OTHERS]
# METHOD='--observed --l2 1' or '--loss poisson' takes models of another kind than least squares.
# With a second directory first sweeps of one model at rank 32 by both programs in turn, three times: what a change
# costs those who compute one model. Tensors of shapes as in docs/performance.md, ONLY=NAME,... of
# them; 1.2 GB in $TMPDIR, 100 s on an H200 with 16 cores.
set -eu
bin=$1/tools
other=${2:+$2/tools}
here=$(dirname "$0")
METHOD=${METHOD:-}
events=$(cat "$here/events.awk")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tensor=$tmp/x.tsh
# shellcheck source=bench/streamed.sh
. "$here/streamed.sh"

# median FILE FROM [KEY]: of the sweeps of a run.json from that one on, in ms, or a thousand times what KEY has
median()
{
    sed 's/{"sweep":/\n&/g' "$1" | awk -v from="$2" -v key="${3:-seconds}" "$events"'
        /^{"sweep":/ && value("sweep") >= from { all[++n] = value(key) }
        END { printf "%.3f", 1e3 * median(all, n) }'
}

# cp PROGRAMS NAME SWEEPS OPTION...: into NAME.cp
cp_gpu()
{
    programs=$1 to=$2 sweeps=$3
    shift 3
    # shellcheck disable=SC2086
    "$programs/tstream" cp "$tensor" --gpus 1 -i "$sweeps" --tol 0 --force --format npy -o "$tmp/$to.cp" $METHOD "$@" \
        > "$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
}

# little MODELS: a budget with which so many fit and only part of the shards stays, the same for any number: that of one, and
# what a refusal counts for its factors and sums as many times more.
little()
{
    # shellcheck disable=SC2086
    one=$(device_budget -r 16 $METHOD)
    # shellcheck disable=SC2086
    "$bin/tstream" cp "$tensor" -r 16 $METHOD --gpus 1 --gpu-memory 1M > "$tmp/log" 2>&1 && exit 1
    grep -o '[0-9]* MiB' "$tmp/log" | awk -v more=$(($1 - 1)) -v one="${one%M}" '
        NR == 2 || NR == 3 { own += $1 + 1 }
        END { printf "%dM", one + more * own }'
}

# budgets LABEL MODELS OPTION...: of memory, by where shards are to come from
budgets()
{
    label=$1 models=$2
    shift 2
    [ "$label" != resident ] || return 0
    device="--gpu-memory $(little "$models")"
    # shellcheck disable=SC2086
    [ "$label" != disk ] || device="$device --host-memory $(host_budget $device $METHOD "$@")"
    echo "$device"
}

# label: where the shards are
compare()
{
    label=$1
    # shellcheck disable=SC2046
    cp_gpu "$bin" one "$sweeps" -r 16 -s 1 $(budgets "$label" 1 -r 16 -s 1)
    # shellcheck disable=SC2046
    cp_gpu "$bin" eight "$sweeps" -r 16 -s 1 --restarts 8 $(budgets "$label" 8 -r 16 -s 1 --restarts 8)
    same=same
    for mode in 1 2; do
        cmp -s "$tmp/one.cp/mode$mode.npy" "$tmp/eight.cp/r16.s1/mode$mode.npy" || same=OTHER
    done
    one=$(median "$tmp/one.cp/run.json" 3)
    eight=$(median "$tmp/eight.cp/r16.s1/run.json" 3)
    awk -v name="$name" -v label="$label" -v one="$one" -v eight="$eight" -v same=$same \
        -v read_one="$(median "$tmp/one.cp/run.json" 3 bytes_read)" \
        -v read_eight="$(median "$tmp/eight.cp/r16.s1/run.json" 3 bytes_read)" '
        BEGIN {
            printf "%-12s %-9s %9.3f %9.3f %6.2f  %-6s", name, label, one, eight, eight / one, same
            if (read_one > 0) printf "  %.0f and %.0f MB read", read_one * 1e-9, read_eight * 1e-9
            printf "\n"
        }'
}

# name, shape, law, draws, sweeps
measure()
{
    name=$1 sweeps=$5
    case ",${ONLY:-$name}," in *",$name,"*) ;; *) return 0 ;; esac
    "$bin/tshard" gen --dims "$2" --law "$3" -n "$4" -o "$tensor" > "$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
    for _ in ${other:+1 2 3}; do
        cp_gpu "$other" old "$sweeps" -r 32
        cp_gpu "$bin" new "$sweeps" -r 32
        printf '%-12s one, R = 32: %s before, %s now\n' "$name" "$(median "$tmp/old.cp/run.json" 3)" \
            "$(median "$tmp/new.cp/run.json" 3)"
    done
    rows="$rows$(compare resident)
"
    if [ "$4" = 60M ] || [ "$4" = 20M ]; then
        rows="$rows$(compare streamed)
$(compare disk)
"
    fi
    rm -rf "$tensor"
}

rows=
measure uber-like 91x24x887x1410 power:0.8 2M 60
measure icews-like 7127x230x7128x365 power:0.8 100K 200
measure uniform20M 30000x40000x50000 uniform 20M 20
measure power60M 600000x225000x225000 power:0.8 60M 10
printf 'float32, R = 16%s, ms a sweep\n%-12s %-9s %9s %9s %6s  %s\n%s' "${METHOD:+, $METHOD}" tensor shards one eight times factors "$rows"
