#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# From nothing to factors of a tensor with the shape of Amazon's reviews, 1.74 G draws of power law 0.8:
# drawn and built, then decomposed with shards in GPU memory, in host memory and on disk, beside what the
# disk gives. Run by `make bench-amazon`, or
#   bench/amazon.sh DIR_OF_PROGRAMS [NNZ [GPUS [RANK]]]
# GPUS: as for --gpus; all that can be used, if it is left out. Needs 25 GB in $TMPDIR, 64 GB of memory (or
# MEMORY, for building) and, on four GPUs, three minutes.
set -eu
bin=$1
events=$(cat "$(dirname "$0")/events.awk")
nnz=${2:-1740M}
gpus=${3:-$("$bin/tools/tstream" devices --json | grep -o '"usable":true' | wc -l)}
rank=${4:-32}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
t=$tmp/amazon.tsh

# name, sweeps, budget of a GPU in MiB (0: none), option...: medians of the sweeps from the third on, and
# the most memory that any GPU had in use
sweeps()
{
    name=$1 count=$2 budget=$3
    shift 3
    [ "$budget" -eq 0 ] || set -- "$@" --gpu-memory "${budget}M"
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 200 > "$tmp/used" &
    watch=$!
    "$bin/tools/tstream" cp "$t" -r "$rank" -i "$count" --tol 0 -n --gpus "$gpus" --json "$@" > "$tmp/log"
    kill "$watch"
    awk -v name="$name" -v budget="$budget" -v used="$tmp/used" "$events"'
        /"event":"mode"/ { products += over("kernel_seconds", 0); sent += over("bytes", 1) }
        /"event":"sweep"/ {
            fit = value("fit")
            if (value("sweep") >= 3) {
                n++
                seconds[n] = value("seconds")
                product[n] = products
                bytes[n] = sent
                disk[n] = value("bytes_read")
                if (value("imbalance") > uneven) uneven = value("imbalance")
            }
            products = sent = 0
        }
        /"event":"done"/ { peak = value("peak_bytes") }
        END {
            while ((getline < used) > 0)
                if ($1 > most) most = $1
            s = median(seconds, n); p = median(product, n); b = median(bytes, n)
            printf "%-8s %9.4f %9.4f %8.2f %8.1f %8.2f %7.2f %7.3f %8.2f %6d %s  %.9f\n", name, s, p,
                b * 1e-9, b / s * 1e-9, median(disk, n) * 1e-9, median(disk, n) / s * 1e-9, uneven,
                peak * 1e-9, most, (budget > 0 ? sprintf("of %5d", budget) : "        "), fit
        }' "$tmp/log"
}

"$bin/tools/tshard" gen --dims 4821207x1774269x1805187 --law power:0.8 -n "$nnz" --memory "${MEMORY:-64G}" -o "$t"
printf '%s GPUs, rank %s, float32; sweeps of 3 and later, MTTKRPs in them, what was sent and read in a sweep\n' \
    "$gpus" "$rank"
printf '%-8s %9s %9s %8s %8s %8s %7s %7s %8s %15s  %s\n' shards sweep MTTKRPs 'sent GB' GB/s \
    'read GB' GB/s uneven 'host GB' 'MiB of a GPU' fit
sweeps resident 7 0
sweeps host 7 4096 --host-memory 60G
[ "$gpus" = 1 ] || sweeps disk 5 4096 --host-memory 4G
printf 'the shards read and nothing else: '
"$bin/bench/read_limit" -n 1 "$t"/*.shards
# ten times the memory of the GPU and four times that of the host
gpus=1
sweeps 'one GPU' 4 2200 --host-memory 5500M
