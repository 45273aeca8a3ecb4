#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# CP sweeps of several processes with a GPU each, beside one process with as many GPUs: how much longer they take, and
# how much of the exchange of rows shows. Run by `make bench-gpu-processes`, or
#   bench/gpu-processes.sh DIR_OF_PROGRAMS [NNZ [RANK [PROCESSES [TIMES]]]]
# ONLY=NAME,... picks tensors, TENSOR=X.tsh measures that one alone, MPIRUN names the launcher.
# Needs MPI, as many GPUs as processes, and about 8 bytes of disk per nonzero and mode in $TMPDIR, and as much host memory.
#
# Runs in turn, TIMES rounds of them: one process; processes whose rows travel by NCCL as it finds the machine, by NCCL with
# neither peer access nor shared memory, which leaves sockets, and through host memory. Columns: seconds of a sweep, the median of sweeps
# 3 to the last; its ratio to one process in the same round; imbalance (slowest over mean kernel time); share of the sweep in which rows travel
# and nothing computes. Medians of the rounds.
set -eu
bin=$1
events=$(cat "$(dirname "$0")/events.awk")
nnz=${2:-600M}
rank=${3:-32}
processes=${4:-2}
times=${5:-3}
only=${ONLY:-}
sweeps=${SWEEPS:-9}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # mpirun of Open MPI asks for both

# name of the way, command: a line "name sweep imbalance exposed fit" into rounds
run()
{
    way=$1
    shift
    # shellcheck disable=SC2086 # options are words
    if ! "$@" cp "$tensor" -r "$rank" -i "$sweeps" --tol 0 -n --json $options > "$tmp/log" 2> "$tmp/err" < /dev/null; then
        echo "$way: $(tail -n 1 "$tmp/err")" >&2
        return 0
    fi
    awk -v way="$way" "$events"'
        /"event":"sweep"/ {
            if (value("sweep") >= 3) {
                n++
                sweep[n] = value("seconds")
                exposed[n] = value("exposed_seconds") / value("seconds")
                worst = value("imbalance") > worst ? value("imbalance") : worst
            }
            fit = value("fit")
        }
        END { printf "%s %.6f %.3f %.4f %.9f\n", way, median(sweep, n), worst, median(exposed, n), fit }' "$tmp/log" >> "$tmp/rounds"
}

several()
{
    way=$1
    shift
    run "$way" "$@" "${MPIRUN:-mpirun}" -n "$processes" --bind-to none "$bin/tools/tstream"
}

all()
{
    : > "$tmp/rounds"
    for _ in $(seq "$times"); do
        options="--gpus $processes"
        run one "$bin/tools/tstream"
        options="--gpus 1 --exchange nccl"
        several nccl env
        several sockets env NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
        options="--gpus 1 --exchange host"
        several host env
    done
    for way in one nccl sockets host; do
        awk -v name="$1" -v way="$way" "$events"'
            $1 == "one" { base = $2 }
            $1 == way { n++; sweep[n] = $2; ratio[n] = $2 / base; uneven[n] = $3; exposed[n] = $4; fit = $5 }
            END {
                if (n > 0)
                    printf "%-16s %-8s %8.4f %6.3f %6.3f  %5.1f %%  %.9f\n", name, way, median(sweep, n), median(ratio, n),
                        median(uneven, n), 100 * median(exposed, n), fit
            }' "$tmp/rounds"
    done
}

# name, shape, law
measure()
{
    case ",$only," in ,,|*",$1,"*) ;; *) return 0 ;; esac
    tensor=$tmp/t.tsh
    "$bin/tools/tshard" gen --dims "$2" --law "$3" -n "$nnz" -f -o "$tensor" > "$tmp/gen" 2>&1
    all "$1"
}

printf '%s nonzeros, rank %s, %s GPUs in one process, and in as many\n' "$nnz" "$rank" "$processes"
printf '%-16s %-8s %8s %6s %6s  %7s  %s\n' tensor way sweep ratio uneven exposed fit
if [ -n "${TENSOR:-}" ]; then
    tensor=$TENSOR
    all "$(basename "$TENSOR" .tsh)"
    exit 0
fi
measure wide-0.8 4800000x1800000x1800000 power:0.8
measure flat-0.8 46x239200x239200 power:0.8
measure wide 4800000x1800000x1800000 uniform
