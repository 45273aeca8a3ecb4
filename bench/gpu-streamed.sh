#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Methods on one GPU by where shards are: for least squares, observed cells, a loss and a model of counts with 1 and 10
# inner rounds, ms a sweep with shards in device memory, streamed from host memory, and from disk, and what of it is the
# link's or the disk's own time. Run by `make bench-gpu-streamed`, or
#   bench/gpu-streamed.sh DIR_OF_PROGRAMS [NNZ [SHAPE [LAW [RANK [PRECISION]]]]]
# ONLY=NAME,... picks places (resident, host, disk) or methods (plain, observed, huber, inner1, inner10); TIMES is how often all methods are run in turn
# at a place, 2 if it is not set. Needs about 8 bytes of disk per nonzero and mode in $TMPDIR, and as much host memory.
#
# Columns: ms a sweep, the median of sweeps from the third on; ms of kernels; GB sent to the GPU and read from disk in a sweep;
# GB/s over what the place is bound by, the link or the disk, and what that gives: copies of bench/gpu_limits, or where that was not built the
# sweeps of least squares; bare reads of the same files in turn with the runs (bench/read_limit). Then the sweep beside
# the time in which its bytes go over at that rate, 1 at best, and beside the sweep of least squares at the same place.
set -eu
top=$1
bin=$top/tools
here=$(dirname "$0")
events=$(cat "$here/events.awk")
nnz=${2:-60M}
shape=${3:-4800000x1800000x1800000}
law=${4:-power:0.8}
rank=${5:-32}
precision=${6:-float32}
only=${ONLY:-}
times=${TIMES:-2}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tensor=$tmp/t.tsh
# shellcheck source=bench/streamed.sh
. "$here/streamed.sh"

# picked NAME: of a place or a method; where none of its kind is named, all are
picked()
{
    case $1 in resident|host|disk) kind=resident,host,disk ;; *) kind=plain,observed,huber,inner1,inner10 ;; esac
    echo "$only" | tr , '\n' | grep -qx -e "$(echo "$kind" | sed 's/,/\\|/g')" || return 0
    case ",$only," in *",$1,"*) ;; *) return 1 ;; esac
}

options_of()
{
    case $1 in
    plain) ;;
    observed) echo --observed --l2 0.1 ;;
    huber) echo --loss huber:1 --observed ;;
    inner1) echo --loss poisson --inner 1 ;;
    inner10) echo --loss poisson --inner 10 ;;
    esac
}

# GB/s of copies from page-locked host memory; 0 where that is not known
link()
{
    [ -x "$top/bench/gpu_limits" ] || { echo 0; return 0; }
    "$top/bench/gpu_limits" | awk '/^copy from page-locked/ { rate = $(NF - 1) } END { print rate + 0 }'
}

# place, sweeps
measure()
{
    picked "$1" || return 0
    rm -f "$tmp"/told.* "$tmp/disk"
    for method in $methods; do
        budgets=
        # shellcheck disable=SC2046,SC2086 # several options
        [ "$1" = resident ] || budgets="--gpu-memory $(device_budget $common $(options_of "$method"))"
        # shellcheck disable=SC2046,SC2086
        [ "$1" != disk ] || budgets="$budgets --host-memory $(host_budget $common $(options_of "$method") $budgets)"
        echo "$budgets" > "$tmp/budgets.$method"
    done
    for _ in $(seq "$times"); do
        for method in $methods; do
            [ "$1" != disk ] || "$top/bench/read_limit" -n 1 "$tensor"/*.shards >> "$tmp/disk"
            # shellcheck disable=SC2046,SC2086
            sweeps "$tmp/told.$method" "$2" $common $(options_of "$method") $(cat "$tmp/budgets.$method")
        done
    done
    limit=0
    case $1 in
    host) limit=$link ;;
    disk) limit=$(awk "$events"'{ rate[++n] = $1 } END { printf "%.3f", median(rate, n) }' "$tmp/disk") ;;
    esac
    for method in $methods; do
        echo "$method $(told "$tmp/told.$method") $(cat "$tmp/budgets.$method")"
    done | awk -v place="$1" -v limit="$limit" '{
            moved = place == "disk" ? $6 : place == "host" ? $5 : 0
            rate = $2 > 0 ? 1e3 * moved / $2 : 0
            if ($1 == "plain") {
                plain = $2
                if (limit == 0) limit = rate
            }
            if ($1 == "inner1") once = $2
            if ($1 == "inner10") often = $2
            printf "%-9s %-9s %9.3f %9.3f %8.3f %8.3f", place, $1, $2, $3, $5, $6
            if (moved > 0 && limit > 0)
                printf " %7.2f %7.2f %6.2f", rate, limit, limit / rate
            else
                printf " %7s %7s %6s", "-", "-", "-"
            if (plain > 0) printf " %6.2f", $2 / plain; else printf " %6s", "-"
            for (i = 7; i <= NF; i++) printf " %s", $i
            printf "\n"
        }
        END { if (once > 0 && often > 0) printf "%-9s inner 10 takes %.3f times inner 1\n", place, often / once }'
}

common="-r $rank -p $precision"
methods=
for method in plain observed huber inner1 inner10; do
    if picked $method; then methods="$methods $method"; fi
done
link=0
if picked host; then link=$(link); fi
"$bin/tshard" gen --dims "$shape" --law "$law" --value 1..5 -n "$nnz" -o "$tensor" > "$tmp/log" 2>&1
printf '%s draws of %s, %s, rank %s, %s\n' "$nnz" "$shape" "$law" "$rank" "$precision"
printf '%-9s %-9s %9s %9s %8s %8s %7s %7s %6s %6s  %s\n' shards method sweep kernels 'sent GB' 'read GB' GB/s limit \
    times plain budgets
measure resident 9
measure host 9
measure disk 6
