#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# CP sweeps on 1, 2, 4 ... GPUs of one host: how much faster, how evenly, and how much of the exchange
# of rows shows. Run by `make bench-gpus`, or
#   bench/gpus.sh DIR_OF_PROGRAMS [NNZ [RANK [COUNTS]]]
# COUNTS: numbers of GPUs, in quotes. ONLY=NAME,... picks tensors, TENSOR=X.tsh measures that one alone.
# Needs about 8 bytes of disk per nonzero and mode in $TMPDIR, and as much host memory.
#
# Columns: seconds of a sweep and of its MTTKRPs (of each mode the GPU that took longest), both with
# their ratio to the first count; imbalance (slowest over mean kernel time) and share of the sweep in
# which rows travel and nothing computes. Medians of sweeps 3 to the last; the largest imbalance.
set -eu
bin=$1
events=$(cat "$(dirname "$0")/events.awk")
nnz=${2:-200M}
rank=${3:-32}
counts=${4:-1 2 4}
only=${ONLY:-}
sweeps=${SWEEPS:-9}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# name, count, options: a line of the table, from the events of one run
row()
{
    name=$1 count=$2
    shift 2
    "$bin/tools/tstream" cp "$tensor" -r "$rank" -i "$sweeps" --tol 0 -n --gpus "$count" --json "$@" > "$tmp/log"
    awk -v name="$name" -v count="$count" -v first_file="$tmp/first" "$events"'
        /"event":"mode"/ { kernels += over("kernel_seconds", 0) }
        /"event":"sweep"/ {
            if (value("sweep") >= 3) {
                n++
                sweep[n] = value("seconds"); product[n] = kernels
                hidden[n] = value("exposed_seconds") / value("seconds")
                worst = value("imbalance") > worst ? value("imbalance") : worst
                bytes = value("bytes_read")
            }
            kernels = 0
            fit = value("fit")
        }
        END {
            s = median(sweep, n); p = median(product, n)
            if ((getline line < first_file) > 0) { split(line, f, " ") } else { f[1] = s; f[2] = p; print s, p > first_file }
            printf "%-16s %4d  %8.4f %5.2f  %8.4f %5.2f  %6.3f  %5.1f %%  %6.2f  %.9f\n", name, count, s,
                f[1] / s, p, f[2] / p, worst, 100 * median(hidden, n), bytes * 1e-9 / s, fit
        }' "$tmp/log"
}

# name, shape, law
measure()
{
    case ",$only," in ,,|*",$1,"*) ;; *) return 0 ;; esac
    tensor=$tmp/t.tsh
    "$bin/tools/tshard" gen --dims "$2" --law "$3" -n "$nnz" -f -o "$tensor" > "$tmp/gen" 2>&1
    all "$1"
}

all()
{
    rm -f "$tmp/first"
    for count in $counts; do
        row "$1" "$count"
    done
}

printf '%s nonzeros, rank %s\n' "$nnz" "$rank"
printf '%-16s %4s  %8s %5s  %8s %5s  %6s  %7s  %6s  %s\n' tensor GPUs sweep x MTTKRPs x uneven exposed GB/s fit
if [ -n "${TENSOR:-}" ]; then
    tensor=$TENSOR
    all "$(basename "$TENSOR" .tsh)"
    exit 0
fi
measure wide-0.8 4800000x1800000x1800000 power:0.8
measure wide-1.1 4800000x1800000x1800000 power:1.1
measure flat-0.8 46x239200x239200 power:0.8
measure wide 4800000x1800000x1800000 uniform
