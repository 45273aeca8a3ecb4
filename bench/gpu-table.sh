#!/bin/sh
# The MTTKRP on one GPU: for each synthetic tensor and mode, nonzeros per second with shards resident
# in device memory, and streamed from page-locked host memory. Run by `make bench-gpu`, or
#   bench/gpu-table.sh DIR_OF_PROGRAMS [NNZ [RANK [PRECISION]]]
# Needs about 8 bytes of disk per nonzero and mode in $TMPDIR, and as much host memory.
set -eu
bin=$1
nnz=${2:-200M}
rank=${3:-32}
precision=${4:-float32}
only=${ONLY:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# best of reps: G nonzeros/s and packed GB/s of `tstream mttkrp ...`
best()
{
    "$bin/tools/tstream" mttkrp "$tmp/t.tsh" -r "$rank" -n 7 -p "$precision" --gpus 1 --json "$@" |
    awk -F'[:,}]' '/"event":"mttkrp"/ {
            for (i = 1; i < NF; i++) {
                if ($i == "\"nnz_per_s\"" && $(i + 1) > n) n = $(i + 1)
                if ($i == "\"packed_bytes_per_s\"" && $(i + 1) > b) b = $(i + 1)
            }
        }
        END { printf "%6.2f %6.1f", n * 1e-9, b * 1e-9 }'
}

# name, shape, law, order, MiB of device memory that factors and work take at rank 32
measure()
{
    case ",$only," in ,,|*",$1,"*) ;; *) return 0 ;; esac
    "$bin/tools/tshard" gen --dims "$2" --law "$3" -n "$nnz" -f -o "$tmp/t.tsh" > "$tmp/log" 2>&1
    mib=$(($5 * rank / 32 + 90))
    test "$precision" = float32 || mib=$((2 * mib))
    for mode in $(seq "$4"); do
        resident=$(best -k "$mode")
        streamed=$(best -k "$mode" --gpu-memory "${mib}M" --host-memory 40G)
        printf '%-14s %-30s %4d  %s   %s\n' "$1" "$2" "$mode" "$resident" "$streamed"
    done
}

printf '%s nonzeros, rank %s, %s\n' "$nnz" "$rank" "$precision"
printf '%-14s %-30s %4s  %s   %s\n' tensor shape mode 'resident: Gnnz/s, GB/s' 'streamed: Gnnz/s, GB/s'
measure uniform 30000x40000x50000 uniform 3 15
measure wide 4800000x1800000x1800000 uniform 3 1030
measure wide-0.8 4800000x1800000x1800000 power:0.8 3 1030
measure wide-1.1 4800000x1800000x1800000 power:1.1 3 1030
measure flat-0.8 46x239200x239200 power:0.8 3 60
measure five-1.1 15500000x6200000x783900x6100x6100 power:1.1 5 2760
