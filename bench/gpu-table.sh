#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The MTTKRP on one GPU: for each synthetic tensor and mode, nonzeros per second with shards resident
# in device memory, and streamed from page-locked host memory. Run by `make bench-gpu`, or
#   bench/gpu-table.sh DIR_OF_PROGRAMS [NNZ [RANK [PRECISION]]]
# ONLY=NAME,... picks tensors. Needs about 8 bytes of disk per nonzero and mode in $TMPDIR, and as much
# host memory.
#
# Streamed: with the least device memory that works and 80 MiB for shards, half of them under way. Its
# GB/s are what went over the link, and its share what did not, because it stays.
set -eu
bin=$1
events=$(cat "$(dirname "$0")/events.awk")
nnz=${2:-200M}
rank=${3:-32}
precision=${4:-float32}
only=${ONLY:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# MTTKRPs of mode $1
mttkrp()
{
    "$bin/tools/tstream" mttkrp "$tmp/t.tsh" -r "$rank" -p "$precision" --gpus 1 -k "$@"
}

# What a refusal of $2 MiB for mode $1 counts as needed, in MiB.
needed()
{
    mttkrp "$1" --gpu-memory "$2M" 2>&1 | grep -o '[0-9]* MiB' |
        awk 'NR > 1 { sum += $1 } END { print sum + 0 }' # the first is the budget
}

# Mode $1, best of 7 runs: G nonzeros/s and GB/s of packed shards. With a budget of device memory, where a run
# may begin with shards that came while the one before ended: all runs but the first together, GB/s of what
# was sent, and the share that was not.
rate()
{
    mttkrp "$1" -n 7 --host-memory 40G --json ${2:+--gpu-memory "${2}M"} |
        awk -v streamed="${2:-}" "$events"'
        /"event":"mttkrp"/ {
            s = value("seconds")
            if (streamed == "" && (best == 0 || s < best)) {
                best = seconds = s
                nnz = value("nnz_per_s") * s
                bytes = value("packed_bytes_per_s") * s
            } else if (streamed != "" && value("rep") > 1) {
                seconds += s
                nnz += value("nnz_per_s") * s
                bytes += over("bytes", 1)
                packed += value("packed_bytes_per_s") * s
            }
        }
        END {
            printf "%6.2f %6.1f", nnz / seconds * 1e-9, bytes / seconds * 1e-9
            if (streamed != "") printf " %4.0f %%", 100 * (1 - bytes / packed)
        }'
}

# name, shape, law, order
measure()
{
    case ",$only," in ,,|*",$1,"*) ;; *) return 0 ;; esac
    "$bin/tools/tshard" gen --dims "$2" --law "$3" -n "$nnz" -f -o "$tmp/t.tsh" > "$tmp/log" 2>&1
    for mode in $(seq "$4"); do
        resident=$(rate "$mode")
        # the driver is taken to need 640 MiB, until a budget that holds all else has it measured
        least=$(needed "$mode" 1)
        least=$(needed "$mode" $((least - 600)))
        streamed=$(rate "$mode" $((least + 80)))
        printf '%-14s %-30s %4d  %s   %s\n' "$1" "$2" "$mode" "$resident" "$streamed"
    done
}

printf '%s nonzeros, rank %s, %s\n' "$nnz" "$rank" "$precision"
printf '%-14s %-30s %4s  %s   %s\n' tensor shape mode 'resident: Gnnz/s, GB/s' \
    'streamed: Gnnz/s, GB/s, kept'
measure uniform 30000x40000x50000 uniform 3
measure wide 4800000x1800000x1800000 uniform 3
measure wide-0.8 4800000x1800000x1800000 power:0.8 3
measure wide-1.1 4800000x1800000x1800000 power:1.1 3
measure flat-0.8 46x239200x239200 power:0.8 3
measure five-1.1 15500000x6200000x783900x6100x6100 power:1.1 5
