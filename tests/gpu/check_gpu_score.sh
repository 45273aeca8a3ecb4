#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream score on GPUs from the outside: sums, slices and likelihoods are those of CPU cores to rounding, at orders 2 to 8, with
# ranks that fill no vector, weights, empty slices and one slice that has nearly all; the same bytes for any memory and GPUs; and
# what GPUs do not tell is refused. Skipped without a GPU.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
# shellcheck source=tests/gpu/outside_gpu.sh
. "$top/tests/gpu/outside_gpu.sh"

sums='rmse mae mean_value mean_model gaussian_log_likelihood poisson_log_likelihood nnz'
# member NAME FILE: its value in a line of JSON, null included
member() { sed -n "s/.*\"$1\":\([-0-9.e+a-z]*\).*/\1/p" "$2"; }
near() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { if (a == b) exit 0; d = a - b; s = b < 0 ? -b : b; if (s < 1) s = 1; exit !(a != "" && b != "" && d <= most * s && -d <= most * s) }'; }
# alike FILE FILE TOLERANCE: the same numbers in the same lines
alike()
{
    paste -d ' ' "$1" "$2" | awk -v most="$3" '
        NF % 2 { bad = 1 }
        { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); s = $i < 0 ? -$i : $i; if (s < 1) s = 1
            if (d > most * s || -d > most * s) { bad = 1; if (shown++ < 2) print "line " NR ": " $i ", " $(i + NF / 2) } } }
        END { exit bad || NR == 0 }'
}
# exact FILE: the model is the tensor but for rounding, which a likelihood of the residuals would be the logarithm of
exact() { awk -v e="$(member rmse "$1")" -v x="$(member mean_value "$1")" 'BEGIN { exit !(e <= 1e-12 * (x < 0 ? -x : x)) }'; }
# as_cpu MODEL TENSOR MODE WHAT: in both precisions
as_cpu()
{
    for precision in float64 float32; do
        most=1e-10
        [ $precision = float64 ] || most=2e-5
        "$bin/tstream" score "$1" "$2" -k "$3" -p $precision --json > want
        "$bin/tstream" score "$1" "$2" -k "$3" -p $precision --json --gpus 1 > got 2> err || bad "$4, mode $3: $(cat err)"
        grep -q '"backend":"gpu"' got || bad "$4, mode $3: not on the GPU"
        for name in $sums; do
            [ "$name" != gaussian_log_likelihood ] || ! exact want || continue
            near "$(member $name got)" "$(member $name want)" $most ||
                bad "$4, mode $3, $precision: $name $(member $name got) on the GPU, $(member $name want) on the CPU"
        done
        rm -f want got
        "$bin/tstream" score "$1" "$2" -k "$3" -p $precision --by-slice -o want > log
        "$bin/tstream" score "$1" "$2" -k "$3" -p $precision --by-slice -o got --force --gpus 1 > log 2> err ||
            bad "$4, slices of mode $3: $(cat err)"
        alike got want $most > why || bad "$4, slices of mode $3, $precision: $(cat why)"
    done
}

# ---- orders 2 to 8 ----
for shape in '40x30 900 1' '40x30x20 3000 7' '1x300x200 20000 17' '30x20x10x7 2000 33' '9x8x7x6x5 900 5' \
    '9x8x7x6x5x4 900 3' '5x4x3x3x2x2x3 500 12' '5x4x3x3x2x2x3x2 500 64' '1x1x1 1 2' '300x200x100 70000 32'; do
    # shellcheck disable=SC2086
    set -- $shape
    rm -rf t.tns t.tsh t.cp
    "$bin/tshard" gen --dims "$1" --nnz "$2" -o t.tns > log 2>&1
    [ "$1" = 40x30x20 ] && echo '70 60 50 3' >> t.tns
    "$bin/tshard" build t.tns --shard 64K > log
    "$bin/tstream" cp t.tsh --cpu -r "$3" -i 2 -p float64 -f npy > log 2>&1
    order=$(echo "$1" | tr -cd x | wc -c)
    as_cpu t.cp t.tsh 1 "$1"
    as_cpu t.cp t.tsh "$((order + 1))" "$1"
done

# ---- counts with a model above 0, and weights ----
"$bin/tshard" gen --dims 3000x2000x100 --nnz 300000 --law power:0.7 -o all.tsh > log 2>&1
"$bin/tshard" export all.tsh > x.tns # each cell once
awk '{ $4 = 1 + (NR * 7) % 5; print }' x.tns > counts.tns
{ echo user,item,week,stars,one,weight; awk -v OFS=, '{ print $1, $2, $3, $4, 1, NR % 4 / 2 }' counts.tns; } > weights.csv
"$bin/tshard" build counts.tns -o x.tsh --shard 64K > log
"$bin/tshard" build weights.csv --modes user,item,week --value stars --weights weight -o weighted.tsh --shard 64K > log
"$bin/tshard" build weights.csv --modes user,item,week --value stars --weights one -o ones.tsh --shard 64K > log
"$bin/tstream" cp x.tsh --cpu --loss poisson -r 5 -i 3 -f npy -o x.cp > log 2>&1
"$bin/tstream" score x.cp x.tsh --json --gpus 1 > got
[ "$(member poisson_log_likelihood got)" != null ] || bad "no likelihood of counts: $(cat got)"
for mode in 1 2 3; do
    as_cpu x.cp x.tsh $mode counts
    as_cpu x.cp weighted.tsh $mode weights
done
"$bin/tstream" score x.cp ones.tsh --json --gpus 1 > ones
"$bin/tstream" score x.cp x.tsh --json --gpus 1 > plain
for name in rmse mae mean_value mean_model gaussian_log_likelihood; do
    [ "$(member $name plain)" = "$(member $name ones)" ] || bad "weights of 1 change $name"
done

# ---- bytes: GPUs, and memory that holds little more than factors ----
for precision in float32 float64; do
    "$bin/tstream" score x.cp x.tsh -p $precision --json --gpus 1 > json
    "$bin/tstream" score x.cp x.tsh -p $precision --by-slice --gpus 1 > slices
    for gpus in 1 2; do
        [ "$gpus" -le "$usable" ] || continue
        for slices in '' --by-slice; do
            "$bin/tstream" score x.cp x.tsh -p $precision --gpus "$gpus" --gpu-memory 1M $slices > log 2> refused && bad "1 MiB is enough"
            least=$(grep -o '[0-9]* MiB' refused | awk 'NR > 1 { sum += $1 } END { print sum + 12 }')
            for memory in "" "--gpu-memory ${least}M"; do
                # shellcheck disable=SC2086
                "$bin/tstream" score x.cp x.tsh -p $precision --gpus "$gpus" $memory --json \
                    ${slices:+--by-slice -o other --force} > json2 2> err ||
                    bad "$precision, $gpus GPUs, $memory $slices: $(cat err)"
                [ -z "$slices" ] || cmp -s slices other || bad "$precision, $gpus GPUs, $memory: other slices"
                for name in $sums; do
                    [ "$(member $name json)" = "$(member $name json2)" ] || bad "$precision, $gpus GPUs, $memory $slices: another $name"
                done
            done
        done
    done
done

# ---- what GPUs do not tell, and high ranks ----
refused 2 'GPUs compute sums' "$bin/tstream" score x.cp x.tsh --top 5 --gpus 1
refused 2 'GPUs compute sums' "$bin/tstream" score x.cp x.tsh -o lines --gpus 1
for rank in 65 129; do
    "$bin/tstream" cp ones.tsh --observed --cpu -r $rank -i 1 -f npy -o high.cp --force > log 2>&1
    precision=float64
    [ $rank = 65 ] || precision=float32
    "$bin/tstream" score high.cp x.tsh -p $precision --gpus 1 --json > json 2> err || bad "rank $rank: $(cat err)"
    "$bin/tstream" score high.cp x.tsh -p float64 --json > json2 2> err || bad "rank $rank: $(cat err)"
    near "$(member rmse json)" "$(member rmse json2)" 1e-5 || bad "rank $rank: another RMSE"
done
exit $failed
