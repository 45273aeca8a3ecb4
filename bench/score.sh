#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Scores and predictions beside the MTTKRP, on one thread: ns a nonzero, each the least of runs in turn. Run by `make bench-score`, or
#   bench/score.sh DIR_OF_PROGRAMS [TENSOR.tsh...]
# Without tensors: a uniform one, one of a power law and, where their files are, real ones. One to five minutes.
#   TS_BENCH_DIR   where tensors and models lie (default: a temporary folder; 1 GB)
#   TS_BENCH_DATA  directory of FROSTT files (default: ../shared/data beside the sources)
#   TS_BENCH_RUNS  how often (default: 5)
# *first*: the first pass of tstream mttkrp, which reads and checks as that of tstream score does; *later*: its passes over blocks
# that are there, decoded. *rate*: kernel seconds of the first pass over those of the score, which is to be 0.75. The second table has
# CPU time, user's, of whole commands, of tensors of a million nonzeros and more.
set -eu
export LC_ALL=C
bin=$1
shift
runs=${TS_BENCH_RUNS:-5}
data=${TS_BENCH_DATA:-${TOP_SRCDIR:-$(dirname "$0")/..}/../shared/data}
dir=${TS_BENCH_DIR:-}
rank=32
if [ -z "$dir" ]; then
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir"
export TMPDIR="$dir"

make_tensor()
{
    name=$1
    shift
    [ -d "$dir/$name.tsh" ] || "$bin/tools/tshard" gen -q -o "$dir/$name.tsh" "$@" > /dev/null
}
if [ $# -eq 0 ]; then
    make_tensor uniform --dims 30000x40000x50000 -n 5M
    make_tensor power3 --dims 480000x180000x180000 -n 5M --law power:1.1
    set -- "$dir/uniform.tsh" "$dir/power3.tsh"
    for name in uber-apr-jun14 names-us-state git-history-5d fb15k-237; do
        [ -f "$data/$name.tns.gz" ] || continue
        [ -d "$dir/$name.tsh" ] ||
            "$bin/tools/tshard" build -q "$data/$name.tns.gz" -o "$dir/$name.tsh" > /dev/null
        set -- "$@" "$dir/$name.tsh"
    done
fi

# The least of the numbers of a field, in ns a nonzero; with a second one, of lines where "rep" is it.
least()
{
    awk -v field="\"$2\":" -v rep="${3:-}" -v nnz="$nnz" '
        rep != "" && index($0, "\"rep\":" rep ",") == 0 { next }
        { at = index($0, field); if (at == 0) next
          x = substr($0, at + length(field)) + 0; if (n++ == 0 || x < least) least = x }
        END { printf "%.1f", least * 1e9 / nnz }' "$1"
}

# CPU time of a command in ns a nonzero, the least of runs.
cpu()
{
    i=0
    : > "$dir/cpu"
    while [ $i -lt "$runs" ]; do
        (
            "$@" > /dev/null
            times
        ) | awk 'NR == 2 { split($1, t, /[ms]/); print t[1] * 60 + t[2] }' >> "$dir/cpu"
        i=$((i + 1))
    done
    awk -v nnz="$nnz" 'NR == 1 || $1 < x { x = $1 } END { printf "%.0f", x * 1e9 / nnz }' "$dir/cpu"
}

model_of()
{
    model=$dir/$(basename "$1" .tsh).cp
    [ -d "$model" ] || "$bin/tools/tstream" cp "$1" -q -r $rank -i 2 --nonneg --format npy -o "$model" \
        > /dev/null 2>&1
    nnz=$("$bin/tools/tshard" info "$1" --json | sed 's/.*"nnz":\([0-9]*\).*/\1/;q')
}

score()
{
    "$bin/tools/tstream" score "$model" "$tensor" -q -t 1 -p "$precision" --json "$@"
}

lscpu 2> /dev/null | sed -n '/^Model name/p'
echo "load: $(cut -d' ' -f1 /proc/loadavg 2> /dev/null || echo unknown)"
echo
echo "| tensor | precision | MTTKRP: first pass | its kernel | later | score: pass | kernel | rate | --by-slice | --top 1000 |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for tensor in "$@"; do
    model_of "$tensor"
    for precision in float32 float64; do
        rm -f "$dir/mttkrp" "$dir/sums" "$dir/slices" "$dir/top"
        i=0
        while [ $i -lt "$runs" ]; do
            "$bin/tools/tstream" mttkrp "$tensor" -q -r $rank -n 4 -t 1 -p "$precision" --json >> "$dir/mttkrp"
            score >> "$dir/sums"
            score --by-slice -o "$dir/lines" --force >> "$dir/slices"
            score --top 1000 -o "$dir/lines" --force >> "$dir/top"
            i=$((i + 1))
        done
        first=$(least "$dir/mttkrp" kernel_seconds 1)
        kernel=$(least "$dir/sums" kernel_seconds)
        echo "| $(basename "$tensor" .tsh) | $precision | $(least "$dir/mttkrp" seconds 1) | $first |" \
            "$(least "$dir/mttkrp" kernel_seconds 4) | $(least "$dir/sums" pass_seconds) | $kernel |" \
            "$(echo "$first $kernel" | awk '{ printf "%.2f", $1 / $2 }') |" \
            "$(least "$dir/slices" kernel_seconds) | $(least "$dir/top" kernel_seconds) |"
    done
done

echo
echo "| tensor | score | -o X.tns | -f csv | -f npy | predict, to .tns | predict --json |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
precision=float64
for tensor in "$@"; do
    model_of "$tensor"
    [ "$nnz" -ge 1000000 ] || continue # that time is told in hundredths of a second
    score -o "$dir/lines.tns" --force > /dev/null
    order=$(awk 'NR == 1 { print NF - 3; exit }' "$dir/lines.tns")
    cut -d' ' -f1-"$order" "$dir/lines.tns" > "$dir/cells.tns"
    echo "| $(basename "$tensor" .tsh) | $(cpu score) | $(cpu score -o "$dir/lines" --force) |" \
        "$(cpu score -o "$dir/lines" --force -f csv) | $(cpu score -o "$dir/lines" --force -f npy) |" \
        "$(cpu "$bin/tools/tstream" predict "$model" "$dir/cells.tns" -q -t 1 -o "$dir/lines" --force) |" \
        "$(cpu "$bin/tools/tstream" predict "$model" "$dir/cells.tns" -q -t 1 --json) |"
done
