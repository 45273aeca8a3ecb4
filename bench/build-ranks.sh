#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A build by several processes beside one with as many threads: seconds in all, of its steps, and whether the bytes are the same.
# Run by `make bench-build-ranks`, or
#   bench/build-ranks.sh DIR_OF_PROGRAMS [NNZ [RANKS [THREADS [TIMES]]]]
# RANKS processes have THREADS threads each, and one process as many as these together. MPIRUN names the launcher.
# Needs MPI, and about 60 bytes of disk a nonzero in $TMPDIR, of which the text, 24, should stay in the page cache.
#
# Two texts: what `tshard export` writes, which is sorted, and what `tshard gen` draws, which is not. In turn, TIMES times: one process; processes;
# the launcher with a program that does nothing but start MPI and end it. Steps of processes are those of rank 0. Exchange: in which
# rank 0 gave records away, took some, or waited for others.
set -eu
bin=$(cd "$1/tools" && pwd)
nnz=${2:-100M}
ranks=${3:-4}
threads=${4:-4}
times=${5:-3}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # mpirun of Open MPI asks for both
all=$((ranks * threads))
start="${MPIRUN:-mpirun} -n $ranks"
"${MPIRUN:-mpirun}" --version 2> /dev/null | grep -q 'Open MPI' && start="$start --bind-to none --oversubscribe"

now()
{
    date +%s.%N
}

# name, command: its seconds, and those of its steps
run()
{
    name=$1
    shift
    rm -rf "$tmp/$name.tsh"
    began=$(now)
    if ! "$@" > "$tmp/out" 2> "$tmp/err" < /dev/null; then
        tail -n 3 "$tmp/err" >&2
        exit 1
    fi
    awk -v name="$name" -v text="$text" -v began="$began" -v ended="$(now)" '
        function value(key) { return match($0, "\"" key "\": *[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "-" }
        { line = line $0 }
        END {
            $0 = line
            printf "%-7s %-9s %7.2f", text, name, ended - began
            n = split("read_seconds merge_seconds pack_seconds sync_seconds exchange_seconds", key, " ")
            for (i = 1; i <= n; i++)
                printf value(key[i]) == "-" ? " %8s" : " %8.2f", value(key[i])
            print ""
        }' "$tmp/out" | tee -a "$tmp/table"
}

echo "$(nproc) CPUs, $ranks processes of $threads threads, $nnz draws"
"$bin/tshard" gen --dims 4800000x1800000x1800000 --law power:0.8 -n "$nnz" -s 1 -q -o "$tmp/x.tsh" > /dev/null
"$bin/tshard" export -q "$tmp/x.tsh" -o "$tmp/sorted.tns" > /dev/null
rm -rf "$tmp/x.tsh"
printf '%-7s %-9s %7s %8s %8s %8s %8s %8s\n' text what s read merge pack sync exchange
for text in sorted drawn; do
    if [ $text = drawn ]; then
        rm -f "$tmp/sorted.tns"
        "$bin/tshard" gen --dims 4800000x1800000x1800000 --law power:0.8 -n "$nnz" -s 1 -q -o "$tmp/drawn.tns" > /dev/null
    fi
    cat "$tmp/$text.tns" > /dev/null
    for _ in $(seq "$times"); do
        run one "$bin/tshard" build "$tmp/$text.tns" -o "$tmp/one.tsh" -t "$all" -m "$((4 * ranks))G" --json
        # shellcheck disable=SC2086 # words
        run ranks $start "$bin/tshard" build "$tmp/$text.tns" -o "$tmp/ranks.tsh" -t "$threads" -m 4G --json
        # shellcheck disable=SC2086
        run launcher $start "$bin/tshard-mpi" --version
    done
    for file in "$tmp/one.tsh"/*; do
        cmp "$file" "$tmp/ranks.tsh/${file##*/}" || exit 1
    done
    awk -v text="$text" '
        function median(n, v,   i, j, x) {
            for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j - 1]; j--) { x = v[j]; v[j] = v[j - 1]; v[j - 1] = x }
            return v[int((n + 1) / 2)]
        }
        $1 == text && $2 == "one" { one[++n] = $3 }
        $1 == text && $2 == "ranks" { ranks[++m] = $3 }
        END { printf "%s: the same bytes; %.2f x the time of one process (medians)\n", text, median(m, ranks) / median(n, one) }' "$tmp/table"
done
