#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The fits and weights of CP-ALS on drawn tensors are those of tests/reference/reference.py, an independent
# program, from the same start: within 1e-8 in float64 and 1e-5 in float32, at every sweep; weights within
# 1e-6 of the largest in float64. tests/reference/fits.jsonl has its results, one JSON object a line with the
# options of `tshard gen` that draw the tensor; where NumPy is installed they are computed again.
#
#   check_reference_drawn.sh --write    computes them and writes the file (needs NumPy)
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
bin=${TOP_BUILDDIR:-$top}/tools
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fits=$top/tests/reference/fits.jsonl
failed=0
field() { sed "s/.*\"$1\": *\"\{0,1\}//; s/[\",}].*//" "$2"; }
numbers() { sed "s/.*\"$1\": \[//; s/\].*//" "$2" | tr ',' '\n'; }

# again GEN RANK SWEEPS SEED: what the independent program finds, as a line of the file
again()
{
    # shellcheck disable=SC2086
    "$bin/tshard" gen $1 --values float64 -o "$tmp/x.tsh" --force > "$tmp/out"
    "$bin/tshard" export "$tmp/x.tsh" -o "$tmp/x.tns" --force
    python3 "$top/tests/reference/reference.py" "$tmp/x.tns" "$2" "$3" "$4" | sed "s/^{/{\"gen\": \"$1\", /"
}
if [ "${1:-}" = --write ]; then
    {
        again '--dims 40x30x20 -n 2K --seed 1' 4 12 1
        again '--dims 300x200x100 -n 5K --law power:1.1 --value real --seed 2' 8 10 7
        again '--dims 7x500x12x60 -n 4K --law power:0.8 --seed 3' 5 10 2
        again '--dims 25x20x15x10x5 -n 3K --value real --seed 4' 6 10 3
        again '--dims 2000x1500 -n 6K --law power:1.2 --seed 5' 3 10 4
        again '--dims 6x5x4 -n 2K --value real --seed 6' 3 12 5
    } > "$tmp/fits"
    cp "$tmp/fits" "$fits"
    exit
fi

# compare WHAT MOST: the numbers of expected and found
compare()
{
    paste "$tmp/expected" "$tmp/found" | awk -v what="$1" -v most="$2" '
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; if (NF != 2) short = 1
          if ($1 > largest) largest = $1 }
        END {
            if (what ~ /weights/) worst /= largest
            printf "%s: off by %.2g in %d, at most %s is allowed\n", what, worst, NR, most
            exit !(NR > 1 && !short && worst <= most)
        }' || failed=1
}

lines=0
while read -r line; do
    printf '%s\n' "$line" > "$tmp/line"
    gen=$(field gen "$tmp/line") rank=$(field rank "$tmp/line") seed=$(field seed "$tmp/line")
    sweeps=$(numbers fits "$tmp/line" | wc -l)
    lines=$((lines + 1))
    # shellcheck disable=SC2086
    "$bin/tshard" gen $gen --values float64 -o "$tmp/x.tsh" --force > "$tmp/out"
    for precision in float64 float32; do
        case $precision in float64) most=1e-8 ;; *) most=1e-5 ;; esac
        "$bin/tstream" cp "$tmp/x.tsh" --cpu --json --iters "$sweeps" --tol 0 --rank "$rank" \
            --seed "$seed" --precision $precision --format splatt -o "$tmp/x.cp" --force > "$tmp/json"
        numbers fits "$tmp/line" > "$tmp/expected"
        sed -n 's/^{"event":"sweep".*"fit":\([^,}]*\).*/\1/p' "$tmp/json" > "$tmp/found"
        compare "$gen, $precision" $most
        [ $precision = float64 ] || continue
        numbers weights "$tmp/line" > "$tmp/expected"
        cp "$tmp/x.cp/lambda.mat" "$tmp/found"
        compare "$gen, weights" 1e-6
    done
    if python3 -c 'import numpy' 2> /dev/null; then
        again "$gen" "$rank" "$sweeps" "$seed" > "$tmp/again"
        numbers fits "$tmp/line" > "$tmp/expected"
        numbers fits "$tmp/again" > "$tmp/found"
        compare "$gen, computed again" 1e-9
    fi
done < "$fits"
[ "$lines" -ge 6 ] || { echo "$fits has $lines lines"; failed=1; }
exit "$failed"
