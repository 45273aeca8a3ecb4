#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream score from the outside: value, model and residual of every nonzero are those of tstream predict, sums, slices and
# the largest residuals are those of the lines, likelihoods those of the formula; the same bytes for any threads and memory.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# number NAME FILE: its value in a line of JSON
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$2"; }
near() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { d = a - b; s = b < 0 ? -b : b; if (s < 1) s = 1; exit !(a != "" && b != "" && d <= most * s && -d <= most * s) }'; }
# alike FILE FILE TOLERANCE: the same numbers in the same lines
alike()
{
    paste -d ' ' "$1" "$2" | awk -v most="$3" '
        NF % 2 { bad = 1 }
        { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); s = $i < 0 ? -$i : $i; if (s < 1) s = 1
            if (d > most * s || -d > most * s) { bad = 1; if (shown++ < 2) print "line " NR ": " $i ", " $(i + NF / 2) } } }
        END { exit bad || NR == 0 }'
}

# ---- orders 2 to 8, ranks that fill no vector, one nonzero, one slice that has nearly all, empty slices ----
for shape in '40x30 900 1' '40x30x20 3000 7' '1x300x200 20000 17' '30x20x10x7 2000 33' '9x8x7x6x5 900 5' \
    '9x8x7x6x5x4 900 3' '5x4x3x3x2x2x3 500 12' '5x4x3x3x2x2x3x2 500 65' '1x1x1 1 2'; do
    # shellcheck disable=SC2086
    set -- $shape
    rm -rf t.tns t.tsh t.cp
    "$bin/tshard" gen --dims "$1" --nnz "$2" -o t.tns > log 2>&1
    [ "$1" = 40x30x20 ] && echo '70 60 50 3' >> t.tns
    "$bin/tshard" build t.tns > log
    "$bin/tstream" cp t.tsh --cpu -r "$3" -i 2 -p float64 -f npy > log 2>&1
    order=$(echo "$1" | tr -cd x | wc -c)
    order=$((order + 1))
    for mode in 1 $order; do
        "$bin/tstream" score t.cp t.tsh -k $mode -o - > lines
        "$bin/tshard" export t.tsh --mode $mode > stored
        cut -d ' ' -f 1-$((order + 1)) lines | cmp -s - stored || bad "$shape: other nonzeros, or another order"
        "$bin/tstream" predict t.cp stored > want
        alike lines want 1e-10 > why || bad "$shape, mode $mode: $(cat why)"
        "$bin/tstream" score t.cp t.tsh -k $mode -p float32 -o - > lines
        alike lines want 1e-5 > why || bad "$shape, mode $mode, float32: $(cat why)"
    done
done

# ---- a tensor of some partitions and shards; counts, and a model above 0 ----
"$bin/tshard" gen --dims 300x200x100 --nnz 60000 --law power:0.6 -o x.tns > log 2>&1
awk '{ $4 = 1 + (NR * 7) % 5; print }' x.tns > counts.tns
"$bin/tshard" build counts.tns -o x.tsh --shard 64K --modes 'user,item,week' > log
"$bin/tstream" cp x.tsh --cpu -r 5 -i 3 --nonneg -f npy -o x.cp > log 2>&1
for mode in 1 3; do
    "$bin/tstream" score x.cp x.tsh -k $mode -t 1 --json -o lines --force > json
    for how in '-t 2 -m 300K' '-t 5' '-t 3 -m 1M'; do
        # shellcheck disable=SC2086
        "$bin/tstream" score x.cp x.tsh -k $mode $how --json -o other --force > json2
        cmp -s lines other || bad "mode $mode, $how: other lines"
        for name in rmse mae mean_value mean_model gaussian_log_likelihood poisson_log_likelihood; do
            [ "$(number $name json)" = "$(number $name json2)" ] || bad "mode $mode, $how: another $name"
        done
    done
    awk '{ n++; s += $6 * $6; a += $6 < 0 ? -$6 : $6; x += $4; m += $5; bad += $5 <= 0 }
        END { pi = atan2(0, -1); printf "%.17g %.17g %.17g %.17g %.17g %d\n", sqrt(s / n), a / n, x / n, m / n, -n / 2 * (1 + log(2 * pi * s / n)), (bad > 0) }' lines > want
    read -r rmse mae value model gaussian wrong < want
    near "$(number rmse json)" "$rmse" 1e-10 && near "$(number mae json)" "$mae" 1e-10 || bad "mode $mode: $(cat json), not $(cat want)"
    near "$(number mean_value json)" "$value" 1e-10 && near "$(number mean_model json)" "$model" 1e-10 ||
        bad "mode $mode: $(cat json), not $(cat want)"
    near "$(number gaussian_log_likelihood json)" "$gaussian" 1e-10 || bad "mode $mode: $(cat json), not $(cat want)"
    [ "$wrong" = 0 ] || grep -q '"poisson_log_likelihood":null' json || bad "Poisson of a model that is 0: $(cat json)"

    # slices
    "$bin/tstream" score x.cp x.tsh -k $mode --by-slice > slices
    awk -v k=$mode '{ n[$k]++; x[$k] += $4; m[$k] += $5; s[$k] += $6 * $6; a[$k] += $6 < 0 ? -$6 : $6 }
        END { for (i = 1; i <= 300; i++) if (n[i]) printf "%d %d %.17g %.17g %.17g %.17g\n", i, n[i], x[i], m[i], sqrt(s[i] / n[i]), a[i] / n[i] }' lines > want
    alike slices want 1e-10 > why || bad "slices of mode $mode: $(cat why)"
    "$bin/tstream" score x.cp x.tsh -k $mode --by-slice -t 4 -m 500K | cmp -s - slices || bad "slices of mode $mode: other bytes"

    # the largest, those of equal size in the order of the file
    "$bin/tstream" score x.cp x.tsh -k $mode --top 50 -t 3 > top
    awk '{ printf "%.17g %d %s\n", $6 < 0 ? -$6 : $6, NR, $0 }' lines | sort -k 1,1gr -k 2,2n | head -n 50 | cut -d ' ' -f 3- | cmp -s - top ||
        bad "the largest of mode $mode: $(head -n 2 top)"
    "$bin/tstream" score x.cp x.tsh -k $mode --top 50 -t 1 | cmp -s - top || bad "the largest of mode $mode: one thread has others"
done
"$bin/tstream" score x.cp x.tsh --top 1000000 | wc -l | grep -qx " *$(wc -l < lines)" || bad "--top of more than there are"

# ---- a model that is above 0 everywhere has a likelihood of counts; other values have none ----
"$bin/tshard" gen --dims 12x10x8 --nnz 300 --planted 2 -o p.tns --truth truth.ktensor > log 2>&1
awk '{ $4 = 1 + NR % 4; print }' p.tns > pc.tns
"$bin/tshard" build pc.tns > log
sed '/^matrix/,$s/-//g' truth.ktensor | awk '/^matrix/ { skip = 3 } { if (skip > 0) { skip--; print; next } if (NR > 5) { for (i = 1; i <= NF; i++) $i += 0.01 } print }' > above.ktensor
"$bin/tstream" score above.ktensor pc.tsh --json > json
"$bin/tstream" score above.ktensor pc.tsh -o - | awk '{ l += $4 * log($5) } END { printf "%.17g\n", l }' > logs
awk 'BEGIN { for (i = 1; i <= 12; i++) for (j = 1; j <= 10; j++) for (k = 1; k <= 8; k++) print i, j, k }' |
    "$bin/tstream" predict above.ktensor - pc.tsh | awk -v l="$(cat logs)" '{ s += $4 } END { printf "%.17g\n", l - s }' > want
near "$(number poisson_log_likelihood json)" "$(cat want)" 1e-10 || bad "Poisson: $(cat json), not $(cat want)"
"$bin/tshard" build p.tns > log
"$bin/tstream" score above.ktensor p.tsh --json | grep -q '"poisson_log_likelihood":null' || bad "Poisson of values that are no counts"
"$bin/tstream" score above.ktensor pc.tsh > out
tr -s '\n ' ' ' < out | grep -Eq '^nonzeros [0-9]+: RMSE [0-9.e-]+, MAE [0-9.e-]+, .* mean of values [0-9.]+, of the model there [0-9.]+ log-likelihood Gaussian [-0-9.e+]+, Poisson [-0-9.e+]+ $' ||
    bad "prints $(cat out)"

# ---- tables, compressed, NumPy ----
"$bin/tstream" score x.cp x.tsh --format csv -o all.csv > log
[ "$(head -n 1 all.csv)" = user,item,week,value,model,residual ] || bad "csv: $(head -n 1 all.csv)"
"$bin/tstream" score x.cp x.tsh -o - > lines
sed 1d all.csv | tr , ' ' | cmp -s - lines || bad "csv: other lines"
grep -q '^nonzeros ' log || bad "no summary beside a file: $(cat log)"
"$bin/tstream" score x.cp x.tsh -t 3 -o all.tns.gz > log
gunzip -c all.tns.gz | cmp -s - lines || bad "compressed: other lines"
"$bin/tstream" score x.cp x.tsh --by-slice -k 3 --format tsv | head -n 1 | grep -qx 'week	nonzeros	value	model	rmse	mae' || bad "tsv of slices"
"$bin/tstream" score x.cp x.tsh --format npy -o all.npy > log
[ "$(wc -c < all.npy)" -eq $((128 + 48 * $(wc -l < lines))) ] || bad "npy: $(wc -c < all.npy) bytes"
head -c 128 all.npy | grep -aq "'shape': ($(wc -l < lines), 6), }" || bad "npy: $(head -c 128 all.npy)"
if python3 -c 'import numpy' 2> /dev/null; then
    python3 -c 'import numpy; [print(*(repr(float(y)) for y in x)) for x in numpy.load("all.npy")]' > have
    alike have lines 1e-15 > why || bad "npy: $(cat why)"
fi

# ---- refusals ----
refused 1 'nosuch.npy: cannot open: No such file' "$bin/tstream" score x.cp nosuch.npy
refused 1 'there is no mode 4, only 3' "$bin/tstream" score x.cp x.tsh -k 4
refused 1 'exists' "$bin/tstream" score x.cp x.tsh -o all.csv
refused 1 'lies in the tensor' "$bin/tstream" score x.cp x.tsh -o x.tsh/lines
refused 1 'indices there' "$bin/tstream" score x.cp pc.tsh
refused 1 'one tensor are wanted' "$bin/tstream" score x.cp x.cp
refused 2 'cannot be given together' "$bin/tstream" score x.cp x.tsh --top 3 --by-slice
refused 2 'name a file' "$bin/tstream" score x.cp x.tsh --json -o -
{ "$bin/tstream" score x.cp x.tsh -o - 2> err || true; } | head -n 1 > log
[ ! -s err ] || bad "a closed pipe is said: $(cat err)"

exit $failed
