#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Losses on one GPU: for each synthetic tensor and mode, G nonzeros/s of the MTTKRP and of the gradient of a loss over the nonzeros
# (`tstream cp --loss poisson-log`, huber:1), the ratio, and milliseconds of the rows' steps, with cells that are not
# listed and without; resident. Run by `make bench-gpu-losses`, or
#   bench/gpu-losses.sh DIR_OF_PROGRAMS [NNZ [RANK [PRECISION]]]
# ONLY=NAME,... picks tensors. Needs about 8 bytes of disk per nonzero and mode in $TMPDIR, and as much host memory.
set -eu
bin=$1/tools
events=$(cat "$(dirname "$0")/events.awk")
nnz=${2:-60M}
rank=${3:-32}
precision=${4:-float32}
only=${ONLY:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Of mode $1, best of 7 runs.
mttkrp_rate()
{
    "$bin/tstream" mttkrp "$tmp/t.tsh" -r "$rank" -p "$precision" --gpus 1 -k "$1" -n 7 --json |
        awk "$events"'
        /"event":"mttkrp"/ && (best == 0 || value("seconds") < best) {
            best = value("seconds")
            nnz = value("nnz_per_s") * best
        }
        END { printf "%.3f", nnz / best * 1e-9 }'
}

# Of mode $1 in the events of file $2: G nonzeros/s of the kernels, and ms of the rows, where they were least.
gradient()
{
    awk -v mode="$1" "$events"'
        /"event":"mode"/ && value("mode") == mode && value("sweep") > 1 {
            s = over("kernel_seconds", 0)
            r = over("solve_seconds", 0)
            if (best == 0 || s < best) { best = s; nnz = over("nnz", 1) }
            if (rows == 0 || r < rows) rows = r
        }
        END { printf "%.3f %.2f", nnz / best * 1e-9, rows * 1e3 }' "$2"
}

# name, shape, law, order
measure()
{
    case ",$only," in ,,|*",$1,"*) ;; *) return 0 ;; esac
    "$bin/tshard" gen --dims "$2" --law "$3" --value 1..5 -n "$nnz" -f -o "$tmp/t.tsh" > "$tmp/log" 2>&1
    for mode in $(seq "$4"); do mttkrp_rate "$mode" > "$tmp/mttkrp.$mode"; done
    for loss in "poisson-log --observed" "huber:1 --observed" "poisson-log"; do
        # shellcheck disable=SC2086 # several options
        "$bin/tstream" cp "$tmp/t.tsh" --loss $loss -r "$rank" -p "$precision" --gpus 1 -i 4 --tol 0 --force \
            --json -o "$tmp/t.cp" > "$tmp/events" 2> "$tmp/log" || { cat "$tmp/log"; exit 1; }
        for mode in $(seq "$4"); do
            # shellcheck disable=SC2046 # two numbers
            printf '%-10s %-24s %4d %8.2f %8.2f %8.2f\n' "$1" "$loss" "$mode" "$(cat "$tmp/mttkrp.$mode")" $(gradient "$mode" "$tmp/events") |
                awk '{ printf "%s %6.2f\n", $0, $(NF - 1) / $(NF - 2) }'
        done
    done
}

printf '%s nonzeros, rank %s, %s, resident\n' "$nnz" "$rank" "$precision"
printf '%-10s %-24s %4s %8s %8s %8s %6s\n' tensor loss mode MTTKRP gradient "rows ms" ratio
measure uniform 30000x40000x50000 uniform 3
measure medium-0.8 600000x225000x225000 power:0.8 3
measure five-1.1 1550000x620000x78390x6100x6100 power:1.1 5
