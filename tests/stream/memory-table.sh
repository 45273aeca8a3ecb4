#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# memory-table.sh [--full]: what tshard build, tshard export and tstream cp take of memory beside what they are given.
#
# Prints a line for each command with the budget and the peak of resident memory, and fails when a peak is
# more than 24 MiB above the budget (and the factors, for cp). Without --full tensors are small enough for
# `make check` (seconds); with it they have up to 50 M nonzeros (a quarter of an hour, 2 GB of disk).
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
bin=${TOP_BUILDDIR:-$top}/tools
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if grep -qE '__[at]san_init' "$bin/tshard"; then echo "skipped: built with sanitizers"; exit 77; fi # their own memory is far more
slack=$((24 << 20)) failed=0

# verdict BUDGET PEAK WORDS...: both in bytes
verdict()
{
    limit=$1 peak=$2 word=ok
    shift 2
    if [ "$peak" -gt $((limit + slack)) ] || [ "$peak" -eq 0 ]; then
        word="TOO MUCH" failed=1
    fi
    printf '%5d MiB  peak %6d KiB  %s  %s\n' $((limit >> 20)) $((peak >> 10)) "$word" "$*"
}

figure() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$tmp/json"; }

# build MIB WORDS...: of tshard, by itself
build()
{
    mib=$1
    shift
    "$bin/tshard" "$@" --force --json --memory "${mib}M" > "$tmp/json"
    verdict $((mib << 20)) "$(figure peak_bytes)" "tshard $* --memory ${mib}M"
}

# gen MIB DIMS NNZ THREADS WORDS...
gen()
{
    mib=$1 dims=$2 nnz=$3 threads=$4
    shift 4
    build "$mib" gen -o "$tmp/x.tsh" --dims "$dims" --nnz "$nnz" --threads "$threads" --value real "$@"
}

# names MIB LINES WORDS...: of a table made of the first lines of x.tns, with names in two of three modes
names()
{
    mib=$1 lines=$2
    shift 2
    sed -n "s/^\\([0-9]*\\) \\([0-9]*\\) \\([0-9]*\\) /user\\1,item\\2,\\3,/p; ${lines}q" "$tmp/x.tns" > "$tmp/x.csv"
    build "$mib" build "$tmp/x.csv" -o "$tmp/x.tsh" "$@"
}

# cp MIB: of the tensor last built
cp_in()
{
    "$bin/tstream" cp "$tmp/x.tsh" --cpu --threads 2 --rank 8 --iters 2 --tol 0 --json --output "$tmp/out" \
        --host-memory "$1M" > "$tmp/json"
    rm -rf "$tmp/out"
    verdict $((($1 << 20) + $(sed -n 's/.*"factor_bytes":\([0-9]*\).*/\1/p' "$tmp/json"))) \
        "$(sed -n 's/.*"event":"done".*"peak_bytes":\([0-9]*\).*/\1/p' "$tmp/json")" \
        "tstream cp --host-memory $1M, of that"
}

# export_in MIB WORDS...: of the tensor last built, measured by python3 where there is one
export_in()
{
    mib=$1
    shift
    command -v python3 > "$tmp/log" || return 0
    peak=$(python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)' "$bin/tshard" export "$tmp/x.tsh" --memory "${mib}M" --tmp "$tmp" "$@")
    verdict $((mib << 20)) "$peak" "tshard export --memory ${mib}M $*, of that"
}

# binary MIB THREADS: of $tmp/x.tns as the files of SPLATT and GenTen
binary()
{
    for kind in splatt genten; do
        "${TOP_BUILDDIR:-$top}/tests/write_binary" $kind 4 4 little 3 < "$tmp/x.tns" > "$tmp/x.bin"
        build "$1" build "$tmp/x.bin" -o "$tmp/x.tsh" --threads "$2"
    done
}

huge=100000000000 nine=9x9x9x9
huge=${huge}x$huge nine=${nine}x${nine}x${nine}x$nine
if [ "${1:-}" = --full ]; then
    gen 64 2000000x300000x50000 50M 2
    cp_in 64
    gen 64 300x400x500x600x700 20M 2
    for nnz in 2M 6M 20M; do gen 64 1000x1000x1000 $nnz 2; done
    cp_in 64
    for by in 1,2 1,3 3; do export_in 64 --sort $by --threads 2; done
    for nnz in 2M 6M; do gen 64 5000000x5000000x5000000 $nnz 2; done
    cp_in 64
    export_in 64 --sort 2
    for threads in 1 8 64; do gen 64 5000000x5000000x5000000 3M $threads; done
    for threads in 1 8 64; do gen 32 2000000x300000x50000 700K $threads; done
    gen 256 1000x1000x1000 20M 64
    gen 256 1000x1000x1000 20M 64 --shard 32M --values float64
    gen 32 $nine 1M 16
    gen 32 ${huge}x${huge}x$huge 1M 16
    "$bin/tshard" gen -o "$tmp/x.tns.gz" --dims 2000000x300000x50000 --nnz 20M --value real
    for threads in 1 8 64; do build 64 build "$tmp/x.tns.gz" -o "$tmp/x.tsh" --threads $threads; done
    "$bin/tshard" gen -o "$tmp/x.tns" --dims 2000000x300000x50000 --nnz 20M --value real
    for threads in 1 8 64; do names 64 6000000 --threads $threads; done
    names 256 20000000 --threads 2
    names 256 20000000 --threads 2 --names sorted
    names 1024 20000000 --threads 2 --names sorted
    for threads in 1 8 64; do binary 64 $threads; done
else
    gen 64 1000x1000x1000 1500K 64
    gen 64 5000000x5000000x5000000 1M 2
    cp_in 64
    export_in 32 --sort 1,2 --threads 2
    export_in 32 --sort 1,3 --threads 16 --format csv
    gen 32 2000000x300000x50000 700K 2
    cp_in 32
    gen 32 $nine 100K 16
    gen 32 ${huge}x${huge}x$huge 100K 64
    gen 128 1000x1000x1000 1500K 64 --shard 16M --values float64
    "$bin/tshard" gen -o "$tmp/x.tns" --dims 2000000x300000x50000 --nnz 1M --value real
    build 32 build "$tmp/x.tns" -o "$tmp/x.tsh" --threads 16
    names 32 200000 --threads 16
    names 32 200000 --threads 2 --names sorted
    binary 32 16
fi
exit $failed
