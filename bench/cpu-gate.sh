#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What is asked of the CPU backend, measured in turns: bench/limits, then bench/cpu_gate on generated
# tensors and, where their files are, on real ones. Run by `make bench-cpu-gate`, or
#   bench/cpu-gate.sh DIR_OF_PROGRAMS [THREADS]
# THREADS: numbers divided by commas, like 1,16,32; by default 1, half of the CPUs and all of them.
# Two and a half minutes on 32 CPUs.
#   TS_BENCH_DIR   where the tensors lie (default: a temporary folder; 600 MB)
#   TS_BENCH_DATA  directory of FROSTT files (default: ../shared/data beside the sources)
set -eu
bin=$1
cpus=$(getconf _NPROCESSORS_ONLN)
half=$((cpus / 2))
threads=${2:-$([ $half -gt 1 ] && echo "1,$half,$cpus" || echo "1,$cpus")}
data=${TS_BENCH_DATA:-${TOP_SRCDIR:-$(dirname "$0")/..}/../shared/data}
dir=${TS_BENCH_DIR:-}
if [ -z "$dir" ]; then
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir"

make_tensor()
{
    name=$1
    shift
    [ -d "$dir/$name.tsh" ] || "$bin/tools/tshard" gen -o "$dir/$name.tsh" "$@" > /dev/null
}
make_tensor uniform --dims 30000x40000x50000 -n 10M
make_tensor power3 --dims 480000x180000x180000 -n 10M --law power:1.1
make_tensor power5 --dims 155000x62000x7800x6100x6100 -n 5M --law power:1.1
make_tensor wide --dims 8400000x2000000x2000000 -n 10M --law power:0.8
set --
for name in uber-apr-jun14 names-us-state git-history-5d fb15k-237 icews14; do
    [ -f "$data/$name.tns.gz" ] || continue
    [ -d "$dir/$name.tsh" ] ||
        "$bin/tools/tshard" build "$data/$name.tns.gz" -o "$dir/$name.tsh" > /dev/null
    set -- "$@" "$dir/$name.tsh"
done

lscpu 2> /dev/null | sed -n '/^Model name\|^Thread(s)\|^Core(s)\|^Socket(s)\|^NUMA node(s)\|^L[23] cache/p'
"$bin/bench/limits"
"$bin/bench/cpu_gate" -j "$threads" -s 0.2 -p threads,precision "$dir/uniform.tsh" \
    "$dir/power3.tsh" "$dir/power5.tsh" "$dir/wide.tsh"
[ $# -eq 0 ] || "$bin/bench/cpu_gate" -j "$threads" -s 0.1 --sweep "$bin/tools/tstream" \
    -p threads,precision,code,sweep "$@"
"$bin/bench/cpu_gate" -j "$threads" -r 32 -s 0.1 -p code "$dir/uniform.tsh" "$dir/power3.tsh"
# few nonzeros: what a rank adds shows most where rows lie in the caches
small=$dir/fb15k-237.tsh
if [ ! -d "$small" ]; then
    make_tensor small --dims 14541x237x14540 -n 400K --law power:0.8
    small=$dir/small.tsh
fi
"$bin/bench/cpu_gate" -j "$threads" -s 0.02 -p odd "$small"
