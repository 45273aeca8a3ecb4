#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The fits of CP-ALS on real tensors are those that an independent program computed in float64 from
# the same start: within 1e-7 in float64 and 2e-4 in float32, over the first five sweeps. On a GPU,
# where there is one, too, and there within 2e-5 of the CPU's.
# The tensors and fits are not part of the project: TS_SHARED names the folder that holds data/ and
# reference/fits.jsonl (default: shared beside the source); without it the test is skipped.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
bin=${TOP_BUILDDIR:-$top}/tools
shared=${TS_SHARED:-$top/../shared}
[ -r "$shared/reference/fits.jsonl" ] || { echo "skipped: there is no $shared/reference/fits.jsonl"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The first five numbers of "fits", one a line.
expected() { sed 's/.*"fits": \[//; s/\].*//' "$1" | tr ',' '\n' | head -n 5; }
field() { sed "s/.*\"$1\": *\"\{0,1\}//; s/[\",}].*//" "$2"; }
found() { sed -n 's/^{"event":"sweep".*"fit":\([^,}]*\).*/\1/p' "$1"; }

# compare WHAT A B MOST: five numbers a file
compare()
{
    paste "$tmp/$2" "$tmp/$3" | awk -v what="$1" -v most="$4" '
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; if (NF != 2) short = 1 }
        END {
            printf "%s: off by %.2g in %d sweeps, at most %s is allowed\n", what, worst, NR, most
            exit !(NR == 5 && !short && worst <= most)
        }'
}

processors=--cpu
"$bin/tstream" devices --json > "$tmp/devices"
if grep -q '"usable":true' "$tmp/devices"; then processors="--cpu --gpus=1"; fi

while read -r line; do
    printf '%s\n' "$line" > "$tmp/line"
    file=$(field tensor "$tmp/line")
    name=${file%.tns.gz}
    [ -r "$shared/data/$file" ] || continue
    [ -d "$tmp/$name.tsh" ] ||
        "$bin/tshard" build "$shared/data/$file" -o "$tmp/$name.tsh" > "$tmp/build" 2>&1 ||
        { cat "$tmp/build"; exit 1; }
    expected "$tmp/line" > "$tmp/expected"
    for precision in float64 float32; do
        case $precision in float64) most=1e-7 ;; *) most=2e-4 ;; esac
        for processor in $processors; do
            "$bin/tstream" cp "$tmp/$name.tsh" $processor --json --no-output --iters 5 --tol 0 \
                --rank "$(field rank "$tmp/line")" --seed "$(field seed "$tmp/line")" \
                --precision $precision > "$tmp/json"
            found "$tmp/json" > "$tmp/found$processor"
            compare "$name $precision $processor" expected "found$processor" $most
        done
        [ "$processors" = --cpu ] ||
            compare "$name $precision both" found--cpu found--gpus=1 2e-5
    done
done < "$shared/reference/fits.jsonl"
