#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# --memory and --host-memory bound memory: the peak of tshard build stays below the budget and 24 MiB, that
# of tstream cp below the budget, the factor matrices and 24 MiB, also for shards that are larger than that;
# under a limit on address space it works too.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
bin=${TOP_BUILDDIR:-$top}/tools
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if grep -qE '__[at]san_init' "$bin/tstream"; then exit 77; fi # their own memory is far more

"$top/tests/stream/memory-table.sh"

"$bin/tshard" gen --dims 30000x40000x50000 --nnz 6M --value real --memory 512M -o "$tmp/x.tsh" \
    > "$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
shards=$(cat "$tmp"/x.tsh/*.shards | wc -c)

number() { sed -n "s/.*\"event\":\"$1\".*\"$2\":\([0-9]*\).*/\1/p" "$tmp/json"; }

cp_in()
{
    "$bin/tstream" cp "$tmp/x.tsh" --cpu --threads 2 --rank 8 --iters 2 --tol 0 --json --force --output "$tmp/out" \
        --host-memory "$1" > "$tmp/json"
}

for mib in 12 32; do
    cp_in ${mib}M
    budget=$((mib << 20)) factors=$(number start factor_bytes) peak=$(number "done" peak_bytes)
    echo "shards $shards, budget $budget, factors $factors, peak $peak"
    [ "$shards" -gt $((budget + factors + (64 << 20))) ]
    [ "$peak" -le $((budget + factors + (24 << 20))) ]
done
# Nor does what models that are done took stay: sixteen, some at once, each of which writes its files.
"$bin/tshard" gen --dims 20000x30000x400 --nnz 50k -o "$tmp/y.tsh" > "$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
"$bin/tstream" cp "$tmp/y.tsh" --cpu --threads 2 --observed --rank 6,3 --restarts 8 --iters 1 --json --output "$tmp/models" \
    --host-memory 8M > "$tmp/json"
largest=$((50400 * 6 * 4)) peak=$(number "done" peak_bytes | tail -1)
echo "models: budget $((8 << 20)), factors of the largest $largest, peak $peak"
[ "$peak" -le $(((8 << 20) + largest + (24 << 20))) ]

# Address space counts the stacks of threads and libraries, CUDA's among them, too, and the program itself, whose kernels are 60 MB
# for each architecture. dash and bash have -v.
program=$(size "$bin/tstream" | awk 'NR == 2 { print $4 }')
# shellcheck disable=SC3045
(ulimit -v $((((32 << 20) + factors + program + (80 << 20)) / 1024)) && cp_in 32M)
[ "$(number "done" sweeps)" -eq 2 ]
