#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The suites of the GPU part under compute-sanitizer. By hand (`make sanitize-gpu`, on a machine with a
# GPU) and no part of `make check`: kernels run ten to a thousand times slower.
#   tests/gpu/sanitize-gpu.sh [TOOL...]     memcheck racecheck initcheck synccheck, if none is named
# JOBS=N runs so many at once (8), over the GPUs in turn; LIMIT=S ends one after S seconds (1800).
#
# A line for each tool and case, as it ends; exit 1 if one of them failed, or did not end.
set -eu
bin=${TOP_BUILDDIR:-.}/tests
jobs=${JOBS:-8}
limit=${LIMIT:-1800}
[ "${1:-}" = --one ] || [ $# -gt 0 ] || set -- memcheck racecheck initcheck synccheck
# Suites, and their cases (CK_RUN_CASE); the longest first.
cases="backend:chunks of two
backend:chunks of four
backend:budgets in float64
backend:budgets in float32
cells:products
cells:updates
cells:factors
unknown:rows
unknown:changes
losses:gradients
losses:steps
losses:bits
observed:rows
observed:bits
counts:rows
counts:bits
held:products
held:bits
held:models
models:alone
models:float64
models:old rows
models:shares
backend:order 6
backend:early
backend:order 4
backend:one row
backend:one shard
backend:order 2
backend:dense
mttkrp:shapes
mttkrp:large
mttkrp:ranks
mttkrp:values
mttkrp:highest
descend:rows
descend:launches
descend:keep
backend:old rows
backend:old rows in chunks
dense:solve
dense:pieces
dense:gram
dense:list
dense:sum
dense:rows
dense:fetch
backend:eight nonzeros
backend:one mode
backend:stop
backend:stop in open
exchange:all
edge:fold"

# one NUMBER TOOL SUITE:CASE: in a process of its own
one()
{
    suite=${3%%:*} log=$tmp/$2.$1.log start=$(date +%s) rc=0
    CK_RUN_CASE=${3#*:} CUDA_VISIBLE_DEVICES=$(($1 % gpus)) timeout "$limit" \
        compute-sanitizer --tool "$2" --error-exitcode 9 --print-limit 5 \
        "$bin/check_gpu_$suite" > "$log" 2>&1 || rc=$?
    took="$(($(date +%s) - start)) s"
    ran=$(sed -n 's/^100%: Checks: \([0-9]*\),.*/\1/p' "$log" | tail -n 1)
    if [ "$rc" -eq 0 ] && [ "${ran:-0}" -gt 0 ]; then
        echo "$2 $suite, ${3#*:}: $ran checks, clean ($took)"
        return
    fi
    : > "$tmp/failed"
    if [ "$rc" -eq 124 ]; then
        echo "$2 $suite, ${3#*:}: not over after $took"
    else
        printf '%s\n' "$2 $suite, ${3#*:}: FAILED (exit $rc, $took); the end of what it said:" \
            "$(tail -n 20 "$log")"
    fi
}

if [ "${1:-}" = --one ]; then
    tmp=$2 gpus=$3
    shift 3
    one "$@"
    exit
fi

command -v compute-sanitizer > /dev/null || {
    echo "sanitize-gpu.sh: there is no compute-sanitizer; it is part of the CUDA toolkit" >&2
    exit 1
}
gpus=$(nvidia-smi --list-gpus | wc -l)
[ "$gpus" -gt 0 ] || {
    echo "sanitize-gpu.sh: there is no GPU" >&2
    exit 1
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
for tool; do
    n=0
    echo "$cases" | while read -r case; do
        n=$((n + 1))
        printf '%s\0%s\0%s\0' "$n" "$tool" "$case"
    done
done | xargs -0 -n 3 -P "$jobs" sh "$0" --one "$tmp" "$gpus"
[ ! -e "$tmp/failed" ]
