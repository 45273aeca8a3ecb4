#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Scores and weights on one GPU. First `tstream score`: for each synthetic tensor G nonzeros/s of the one pass that it makes, shards
# sent included, on CPU cores and on a GPU, sums alone and those of slices, beside the MTTKRP's rate there, resident. Then rows of
# `tstream cp --observed` of the same cells without weights, and with weights: seconds of a sweep, of its modes. Run as
#   bench/gpu-scores.sh DIR_OF_PROGRAMS [NNZ [RANK [NNZ_OF_WEIGHTS]]]
# ONLY=NAME,... picks tensors. Needs about 8 bytes of disk per nonzero and mode in $TMPDIR, and as much host memory.
set -eu
bin=$1/tools
events=$(cat "$(dirname "$0")/events.awk")
nnz=${2:-60M}
rank=${3:-32}
few=${4:-3M}
only=${ONLY:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# rate OPTION...: of the pass, best of 3
rate()
{
    for _ in 1 2 3; do
        "$bin/tstream" score "$tmp/t.cp" "$tmp/t.tsh" --json "$@" 2> "$tmp/log" || { cat "$tmp/log" >&2; exit 1; }
    done | awk "$events"'
        /"event":"score"/ && (best == 0 || value("pass_seconds") < best) { best = value("pass_seconds"); nnz = value("nnz") }
        END { printf "%.3f", nnz / best * 1e-9 }'
}

# name, shape, law
measure()
{
    case ",$only," in ,,|*",$1,"*) ;; *) return 0 ;; esac
    "$bin/tshard" gen --dims "$2" --law "$3" -n "$nnz" -f -o "$tmp/t.tsh" > "$tmp/log" 2>&1
    "$bin/tstream" cp "$tmp/t.tsh" -r "$rank" --gpus 1 -i 1 --tol 0 --force -f npy -o "$tmp/t.cp" > "$tmp/log" 2>&1 ||
        { cat "$tmp/log"; exit 1; }
    mttkrp=$("$bin/tstream" mttkrp "$tmp/t.tsh" -r "$rank" --gpus 1 -n 7 --json | awk "$events"'
        /"event":"mttkrp"/ && (best == 0 || value("seconds") < best) { best = value("seconds"); nnz = value("nnz_per_s") * best }
        END { printf "%.3f", nnz / best * 1e-9 }')
    printf '%-12s %-24s %7s %8s %8s %8s %8s %8s\n' "$1" "$2" "$mttkrp" "$(rate -p float32)" "$(rate -p float32 --gpus 1)" \
        "$(rate -p float32 --gpus 1 --by-slice -o "$tmp/slices" --force)" "$(rate -p float64)" "$(rate -p float64 --gpus 1)"
}

printf '%s nonzeros, rank %s, G nonzeros/s of a pass\n' "$nnz" "$rank"
printf '%-12s %-24s %7s %8s %8s %8s %8s %8s\n' tensor shape MTTKRP "CPU 32" "GPU 32" "slices" "CPU 64" "GPU 64"
measure uniform 30000x40000x50000 uniform
measure medium-0.8 600000x225000x225000 power:0.8
measure four-0.8 60000x22000x22000x900 power:0.8

# seconds TENSOR: of a sweep of modes, the best
seconds()
{
    "$bin/tstream" cp "$1" --observed --l2 0.1 -r "$rank" --gpus 1 -i 6 --tol 0 --force --json -o "$tmp/t.cp" 2> "$tmp/log" |
        awk "$events"'/"event":"mode"/ { s[value("sweep")] += value("seconds") }
            END { for (k in s) if (k > 1 && (best == 0 || s[k] < best)) best = s[k]; printf "%.5f", best }'
}

"$bin/tshard" gen --dims 60000x22000x900 --law power:0.6 -n "$few" -o "$tmp/few.tns" > "$tmp/log" 2>&1
{ echo a,b,c,x,w; awk -v OFS=, '{ print $1, $2, $3, $4, 1 + NR % 8 / 4 }' "$tmp/few.tns"; } > "$tmp/few.csv"
"$bin/tshard" build "$tmp/few.csv" --modes a,b,c --value x --weights w -o "$tmp/weighted.tsh" > "$tmp/log" 2>&1
"$bin/tshard" build "$tmp/few.csv" --modes a,b,c --value x -o "$tmp/plain.tsh" > "$tmp/log" 2>&1
printf '\n%s draws, observed, rank %s, float32, seconds of a sweep: without weights %s, with weights %s\n' "$few" "$rank" \
    "$(seconds "$tmp/plain.tsh")" "$(seconds "$tmp/weighted.tsh")"
