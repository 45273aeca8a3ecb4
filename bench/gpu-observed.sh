#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Observed cells on one GPU: for each synthetic tensor and mode, G nonzeros/s of the MTTKRP and of the rows of
# `tstream cp --observed`, their solution included, and the ratio; resident. Run by `make bench-gpu-observed`, or
#   bench/gpu-observed.sh DIR_OF_PROGRAMS [NNZ [RANK [PRECISION]]]
# ONLY=NAME,... picks tensors. Needs about 8 bytes of disk per nonzero and mode in $TMPDIR, and as much host memory. Then what
# three sweeps in float64 end with on a GPU and on CPU cores.
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

# name, shape, law, order
measure()
{
    case ",$only," in ,,|*",$1,"*) ;; *) return 0 ;; esac
    "$bin/tshard" gen --dims "$2" --law "$3" -n "$nnz" -f -o "$tmp/t.tsh" > "$tmp/log" 2>&1
    "$bin/tstream" cp "$tmp/t.tsh" --observed --l2 0.1 -r "$rank" -p "$precision" --gpus 1 -i 6 --tol 0 --force \
        --json -o "$tmp/t.cp" > "$tmp/events" 2> "$tmp/log" || { cat "$tmp/log"; exit 1; }
    for mode in $(seq "$4"); do
        awk -v name="$1" -v shape="$2" -v mode="$mode" -v mttkrp="$(mttkrp_rate "$mode")" "$events"'
            /"event":"mode"/ && value("mode") == mode && value("sweep") > 1 &&
            !told[value("sweep")]++ { # of the last mode the pass for errors follows
                s = value("seconds") - over("solve_seconds", 0) # that is the Gram matrix of the factor
                if (best == 0 || s < best) {
                    best = s
                    nnz = over("nnz", 1)
                }
            }
            END { rows = nnz / best * 1e-9
                  printf "%-14s %-30s %4d %8.2f %8.2f %6.2f\n", name, shape, mode, mttkrp, rows, rows / mttkrp }' \
            "$tmp/events"
    done
}

printf '%s nonzeros, rank %s, %s, resident\n' "$nnz" "$rank" "$precision"
printf '%-14s %-30s %4s %8s %8s %6s\n' tensor shape mode MTTKRP rows ratio
measure uniform 30000x40000x50000 uniform 3
measure medium 600000x225000x225000 uniform 3
measure medium-0.8 600000x225000x225000 power:0.8 3
measure wide-0.8 4800000x1800000x1800000 power:0.8 3
measure wide-1.1 4800000x1800000x1800000 power:1.1 3
measure flat-0.8 46x239200x239200 power:0.8 3
measure five-1.1 15500000x6200000x783900x6100x6100 power:1.1 5

# last NAME KEY: of the last sweep
last() { sed "s/.*\"$2\":\([0-9.e+-]*\).*/\1/" "$tmp/$1.cp/run.json" | tail -n 1; }

"$bin/tshard" gen --ratings 3 --noise 0.3 --dims 3000x4000x50 -n 2M -f -o "$tmp/t.tsh" > "$tmp/log" 2>&1
for options in "" "--mean --l2-scale count" "--nonneg"; do
    for processor in "--gpus 1" "--cpu"; do
        # shellcheck disable=SC2086 # several options
        "$bin/tstream" cp "$tmp/t.tsh" --observed --hold-out 10% -r 8 -i 3 --tol 0 -p float64 --force $options $processor \
            -o "$tmp/${processor% *}.cp" > "$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
    done
    printf 'RMSE, %s: %s on the GPU, %s on CPU cores\n' "${options:-as it is}" "$(last --gpus rmse)" "$(last --cpu rmse)"
done
