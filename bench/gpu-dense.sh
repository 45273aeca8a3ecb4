#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Dense tensors on one GPU, 401 x 201 x 12 x 501 of float64 (3.9 GB) where it says no other: right, how fast, how much memory, and
# sweeps streamed from host memory and from disk beside what the link and the disk give in the same run. Run by
# `make bench-gpu-dense-all`, in some 5 minutes, or
#   bench/gpu-dense.sh DIR_OF_PROGRAMS [PART...]
#   PART    tests, kernels, memory, link, disk: those named alone
#   TIMES   how often reads and sweeps from disk are run in turn, 3 if it is not set
#   TMPDIR  on a disk that is read with O_DIRECT, with 4 GB free
set -u
bin=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- tests kernels memory link disk
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
events=$(cat "$here/events.awk")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
shape=401x201x12x501
bytes=$((401 * 201 * 12 * 501 * 8))
x=$tmp/a.raw:f8:$shape

# ---- tests: alone, and four at a time, when the link is busy ----
# run NAME COMMAND...: what it ends with
run()
{
    name=$1
    shift
    "$@" > "$tmp/$name.log" 2>&1
    code=$?
    case $code in
    0) echo "$name: passes" ;;
    77) echo "$name: skipped" ;;
    *)
        echo "$name: FAILS with $code"
        tail -n 5 "$tmp/$name.log"
        ;;
    esac
}
run_tests()
{
    for t in check_gpu_cells check_gpu_dense check_gpu_descend check_gpu_mttkrp; do
        run $t "$bin/tests/$t"
    done
    for k in 1 2 3 4; do
        run "check_gpu_cells.$k" "$bin/tests/check_gpu_cells" &
    done
    wait
    TOP_BUILDDIR=$bin TOP_SRCDIR=$here/.. run check_gpu_arrays.sh "$top/tests/gpu/check_gpu_arrays.sh"
}

# A piece of 17 MB again and again: what the cells are does not matter here.
make_array()
{
    [ ! -f "$tmp/a.raw" ] || return 0
    "$bin/tests/write_npy" f8C 0.1 "$tmp/piece.npy" - 401 201 26
    tail -c $((401 * 201 * 26 * 8)) "$tmp/piece.npy" > "$tmp/piece"
    while :; do cat "$tmp/piece" 2> "$tmp/log" || break; done | head -c $bytes > "$tmp/a.raw"
    sync
}

cp_a() { "$bin/tools/tstream" cp "$x" --gpus 1 --tol 0 -n --details --json "$@" 2> "$tmp/err" || cat "$tmp/err" >&2; }

# Of all sweeps but the first: seconds of each, and bytes that went over the link and came from the disk.
sweeps()
{
    awk "$events"'
    /"event":"mode"/ && value("sweep") > 1 { sent += over("bytes", 1) }
    /"event":"sweep"/ && value("sweep") > 1 { s[++n] = value("seconds"); read += value("bytes_read") }
    END { printf "%.9g %.9g %.9g\n", median(s, n), sent / n, read / n }'
}

# ---- memory of rank 2000: planned, and the most that the driver says ----
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; }
memory()
{
    make_array
    for budget in "" "--gpu-memory=12G"; do
        # shellcheck disable=SC2086
        "$bin/tools/tstream" plan "$x" --gpus 1 -r 2000 $budget > "$tmp/plan" 2>&1 || cat "$tmp/plan"
        sed -n '/memory of GPU/,/in all/p' "$tmp/plan"
        sed -n '/sweep/p' "$tmp/plan" | head -n 3
        before=$(used)
        # shellcheck disable=SC2086
        cp_a -r 2000 -i 3 $budget > "$tmp/json" &
        pid=$!
        most=0
        while kill -0 $pid 2> "$tmp/log"; do
            now=$(used)
            [ "$now" -le "$most" ] || most=$now
            sleep 0.1
        done
        wait $pid
        sweeps < "$tmp/json" | awk -v most=$((most - before)) -v b="${budget:-no budget}" '
            { printf "rank 2000, %s: at most %d MiB of the GPU taken (the cells have 3698, twice the factors and 1 GiB 1058), a sweep %.3f s\n", b, most, $1 }'
        awk "$events"'/"event":"mode"/ && value("sweep") == 3 {
            printf "  mode %d: %.1f ms, kernels %.1f\n", value("mode"), 1e3 * value("seconds"), 1e3 * over("kernel_seconds", 0) }' "$tmp/json"
    done
}

# ---- streamed from host memory: all slabs there, 2 GB on the device ----
link()
{
    make_array
    "$bin/bench/gpu_limits" | grep 'page-locked' | tee "$tmp/limit"
    for rank in 8 32; do
        cp_a -r $rank -i 6 --gpu-memory 2G --host-memory 6G | sweeps | awk -v rank=$rank -v all=$bytes \
            -v limit="$(sed -n 's/.*: \([0-9.]*\) GB.*/\1/p' "$tmp/limit")" '
            { printf "rank %d, from host memory: a sweep %.3f s, %.2f of the cells sent, %.1f GB/s, %.2f of the link\n",
                rank, $1, $2 / all, $2 / $1 / 1e9, $2 / $1 / 1e9 / limit }'
    done
}

# ---- from disk: read_limit and sweeps in turn, medians ----
disk()
{
    make_array
    for _ in $(seq "${TIMES:-3}"); do
        "$bin/bench/read_limit" -n 1 "$tmp/a.raw" | sed -n 's/^\([0-9.]*\) GB.*/\1/p' | head -n 1 >> "$tmp/limits"
        cp_a -r 32 -i 3 --gpu-memory 2G --host-memory 2G | sweeps >> "$tmp/turns"
    done
    paste "$tmp/limits" "$tmp/turns" | awk -v all=$bytes "$events"'
        { limit[NR] = $1; rate[NR] = $4 / $2 / 1e9; ratio[NR] = rate[NR] / $1; part = $4 / all }
        END { printf "rank 32, from disk: %.2f GB/s read, read_limit %.2f, in turn %.2f of it; %.2f of the file a sweep (2.1 are asked for)\n",
            median(rate, NR), median(limit, NR), median(ratio, NR), part }'
}

for part; do
    case $part in
    tests) run_tests ;;
    kernels)
        "$bin/bench/gpu_dense"
        "$bin/bench/gpu_dense" $shape 2000 float64 16384
        ;;
    memory | link | disk) $part ;;
    *) echo "gpu-dense.sh: no part $part" >&2; exit 2 ;;
    esac
done
