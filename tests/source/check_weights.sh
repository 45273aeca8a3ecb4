#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tshard build --weights from the outside: the same bytes however it is built, out again as it came in, merged as it should be,
# scores against awk, every command either uses weights or says that it does not, and wrong columns get a sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"

# same A B WHAT: all files of two tensors
same() { diff -r -x modes -x options "$1" "$2" > log 2>&1 || bad "$3: $(cat log)"; }

# Ratings with weights, some of them 0, and a line for most cells
awk 'function u() { state = (state * 1103515245 + 12345) % 2147483648; return state / 2147483648 }
    BEGIN { state = 7
        for (i = 1; i <= 60; i++) for (j = 1; j <= 50; j++) for (k = 1; k <= 30; k++) {
            if (u() > 0.3) continue
            printf "%d %d %d %d %s\n", i, j, k, int(6 * u()), u() < 0.2 ? "0" : sprintf("%.3f", 4 * u())
        } }' | tr -d '\r' > x.tns
n=$(wc -l < x.tns)

# ---- a table of each kind, and out again ----
"$bin/tshard" build x.tns --weights 5 --zeros keep -o x.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" verify x.tsh > log 2>&1 || bad "verify: $(cat log)"
"$bin/tshard" info x.tsh | grep -q 'each with a weight' || bad "info does not tell of weights"
"$bin/tshard" info x.tsh --json | grep -q '"has_weights":true' || bad "info --json does not tell of weights"
{ echo user,conf,item,week,stars; awk -v OFS=, '{ print $1, $5, $2, $3, $4 }' x.tns; } > x.csv
"$bin/tshard" build x.csv --modes user,item,week --value stars --weights conf --zeros keep -o csv.tsh > log 2>&1 || bad "$(cat log)"
same x.tsh csv.tsh "a table with a header"
"$bin/tshard" build x.csv --columns 1,3,4 --value 5 --weights 2 --zeros keep -o csv2.tsh > log 2>&1 || bad "$(cat log)"
same x.tsh csv2.tsh "columns by number"
tail -n +2 x.csv > bare.csv
"$bin/tshard" build bare.csv --weights 2 --zeros keep -o bare.tsh > log 2>&1 || bad "$(cat log)"
same x.tsh bare.tsh "the last column is the value where nothing else is said"
sort x.tns > want
for how in '' '--mode 2' '--sort 3,1' '--sort 2,3,1 --memory 32M'; do
    # shellcheck disable=SC2086
    "$bin/tshard" export x.tsh $how > got 2> log || bad "export $how: $(cat log)"
    sed 's/\(\.[0-9]*[1-9]\)0*$/\1/; s/\.000$//' want > short
    sort got > sorted
    awk 'NR == FNR { w[$1, $2, $3] = $5 + 0; v[$1, $2, $3] = $4; next }
        { if (v[$1, $2, $3] != $4 || w[$1, $2, $3] != $5 + 0) exit 1; n++ } END { exit n != NR / 2 }' want sorted || bad "export $how: not what was built"
done
"$bin/tshard" export x.tsh --format csv > out.csv
[ "$(head -n 1 out.csv)" = mode1,mode2,mode3,value,weight ] || bad "columns of csv: $(head -n 1 out.csv)"
"$bin/tshard" build out.csv --modes mode1,mode2,mode3 --value value --weights weight --zeros keep -o again.tsh > log 2>&1 || bad "$(cat log)"
same x.tsh again.tsh "built again from its own table"

# ---- names that are sorted, or outgrow their memory, keep values and weights ----
awk 'BEGIN { print "user,item,stars,votes"
    for (k = 0; k < 30000; k++) printf "n%0400d,i%d,%d.5,%d\n", k, k % 7, 1 + k % 5, 1 + k % 3 }' > names.csv
named="$bin/tshard build names.csv --modes user,item --value stars --weights votes"
$named --memory 1G -o names.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" info names.tsh --json | sed 's/.*"norm":\([0-9.]*\).*/\1/' > norm
awk 'BEGIN { for (k = 0; k < 30000; k++) s += (1.5 + k % 5) ^ 2; getline said < "norm"; d = said / sqrt(s) - 1; exit !(d < 1e-9 && d > -1e-9) }' ||
    bad "values of names: the norm is $(cat norm)"
for how in '--memory 32M' '--names sorted' '--names sorted --memory 32M'; do
    # shellcheck disable=SC2086
    $named $how -o other.tsh --force > log 2>&1 || bad "names, $how: $(cat log)"
    same names.tsh other.tsh "names, $how"
done

# ---- the same bytes in any order of the lines, with any threads and memory ----
sort -k 3,3n -k 1,1n -s x.tns > shuffled.tns
"$bin/tshard" build shuffled.tns --weights 5 --zeros keep -t 1 -o other.tsh --force > log 2>&1
same x.tsh other.tsh "lines in another order, one thread"
awk 'function u() { state = (state * 1103515245 + 12345) % 2147483648; return state / 2147483648 }
    BEGIN { state = 11; for (i = 0; i < 700000; i++)
        printf "%d %d %d %d %.2f\n", 1 + 90 * u(), 1 + 90 * u(), 1 + 90 * u(), 1 + 5 * u(), 3 * u() }' > big.tns
"$bin/tshard" build big.tns --weights 5 -o big.tsh > log 2>&1 || bad "$(cat log)"
grep -q 'merged [1-9]' log || bad "nothing was merged: $(cat log)"
"$bin/tshard" build big.tns --weights 5 --memory 32M -t 2 -o runs.tsh --json > log 2>&1 || bad "$(cat log)"
grep -q '"sorted_runs":[1-9]\|"runs":[1-9]' log || bad "no runs were written: $(cat log)"
same big.tsh runs.tsh "through sorted runs"
sort -k 2,2n -s big.tns > big2.tns
"$bin/tshard" build big2.tns --weights 5 --memory 48M -o runs.tsh --force > log 2>&1
same big.tsh runs.tsh "through sorted runs, in another order"
"$bin/tshard" verify big.tsh > log 2>&1 || bad "$(cat log)"

# ---- cells of several lines: the mean by weights, and the sum of these ----
awk '{ k = $1 " " $2 " " $3; if (!(k in n)) list[m++] = k; n[k]++; v[k] += $4; w[k] += $5; p[k] += $4 * $5 }
    END { for (i = 0; i < m; i++) { k = list[i]; print k, (w[k] > 0 ? p[k] / w[k] : v[k] / n[k]), w[k] } }' big.tns | sort > want
"$bin/tshard" export big.tsh | sort > got
paste -d ' ' want got | awk '{ if ($1 != $6 || $2 != $7 || $3 != $8) exit 1
        d = $4 - $9; e = $5 - $10; if (d * d > 1e-9 || e * e > 1e-9) exit 1 }' || bad "merged cells are not means by weights"
[ "$(wc -l < want)" -eq "$(wc -l < got)" ] || bad "other cells than those of the text"
printf '1 1 4 0\n1 1 2 0\n2 2 1 1\n' > none.tns
"$bin/tshard" build none.tns --weights 4 -o none.tsh > log 2>&1 || bad "$(cat log)"
[ "$("$bin/tshard" export none.tsh | head -n 1)" = '1 1 3 0' ] || bad "without weight the mean is not plain: $("$bin/tshard" export none.tsh)"
"$bin/tshard" build none.tns --weights 4 --duplicates keep -o keep.tsh > log 2>&1 || bad "$(cat log)"
[ "$("$bin/tshard" export keep.tsh | wc -l)" -eq 3 ] || bad "duplicates were not kept"
refused 1 'none.tns:2: a second nonzero at 1 1' "$bin/tshard" build none.tns --weights 4 --duplicates error -o no.tsh
"$bin/tshard" build none.tns --weights 4 --transform log1p -o log.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tshard" export log.tsh | head -n 1 | awk '{ d = $3 - log(4); exit !(d < 1e-6 && d > -1e-6) }' || bad "--transform: $("$bin/tshard" export log.tsh)"

# ---- weights are kept by what makes tensors of tensors ----
"$bin/tshard" split x.tsh --hold-out 20% > log 2>&1 || bad "split: $(cat log)"
for part in train test; do "$bin/tshard" verify x.$part.tsh > log 2>&1 || bad "$part: $(cat log)"; done
{ "$bin/tshard" export x.train.tsh; "$bin/tshard" export x.test.tsh; } | sort > got
"$bin/tshard" export x.tsh | sort | cmp -s - got || bad "split loses something"
"$bin/tshard" select x.tsh --keep 1=1..20 -o some.tsh > log 2>&1 || bad "select: $(cat log)"
"$bin/tshard" export x.tsh | awk '$1 <= 20' | sort > want
"$bin/tshard" export some.tsh | sort | cmp -s - want || bad "select changes something"
refused 2 'its cells have weights, so those that differ in a mode alone are not added up' "$bin/tshard" select x.tsh --sum 3 -o no.tsh

# ---- an error of a run is that of the model it wrote, and of awk; the parts of a split are what is held out ----
cp="$bin/tstream cp --observed --cpu -r 3 --l2 0.5 -f npy --precision float64"
$cp x.tsh --hold-out 20% --mean -i 6 --tol 0 -t 1 -o a.cp --json > json 2> log || bad "$(cat log)"
last() { tail -n 1 json | sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p"; }
held=$(last held_out_rmse) kept=$(last rmse) mean=$(last mean)
"$bin/tshard" export x.train.tsh | awk -v said="$mean" '{ s += $5 * $4; n += $5 } END { d = said - s / n; exit !(d < 1e-6 && d > -1e-6) }' ||
    bad "the mean $mean is not by weights"
for part in "test $held" "train $kept"; do
    # shellcheck disable=SC2086
    set -- $part
    "$bin/tstream" score a.cp x.$1.tsh --precision float64 --json > json
    within "$(last rmse)" "$2" 1e-6 || bad "$1: the run says $2, tstream score $(last rmse)"
    "$bin/tshard" export x.$1.tsh > cells
    "$bin/tstream" score a.cp x.$1.tsh --precision float64 -o - > lines 2> log || bad "$(cat log)"
    awk -v said="$2" 'NR == FNR { w[$1, $2, $3] = $5; next }
        { s += w[$1, $2, $3] * $6 * $6; n += w[$1, $2, $3] } END { d = sqrt(s / n) - said; exit !(d < 1e-6 && d > -1e-6) }' cells lines || bad "$1: not the error by weights"
done
$cp x.tsh --hold-out 20% --mean -i 6 --tol 0 -t 4 -m 300K -o b.cp > log 2>&1 || bad "$(cat log)"
for f in a.cp/*.npy; do cmp -s "$f" "b.cp/${f##*/}" || bad "four threads, little memory: $f differs"; done
"$bin/tstream" score a.cp x.tsh --by-slice --mode 1 -o slices --precision float64 > log 2>&1 || bad "$(cat log)"
"$bin/tstream" score a.cp x.tsh --precision float64 -o - > lines
"$bin/tshard" export x.tsh > cells
awk 'FILENAME == "cells" { w[$1, $2, $3] = $5; next }
    FILENAME == "lines" { s[$1] += w[$1, $2, $3] * $6 * $6; n[$1] += w[$1, $2, $3]; next }
    { d = $5 - sqrt(s[$1] / n[$1]); if (d > 1e-6 || d < -1e-6) exit 1 }' cells lines slices || bad "slices: not the error by weights"

# ---- cells that do not count: rows are within their bounds, and there is no error and no fit ----
# Slice 3 of mode 1 has no cell that counts: by weights, as what is held out, or as unknown cells of an array
awk 'BEGIN { for (i = 1; i <= 4; i++) for (j = 1; j <= 6; j++) print i, j, i + j, i == 3 ? 0 : 2 }' > quiet.tns
"$bin/tshard" build quiet.tns --weights 4 -o quiet.tsh > log 2>&1 || bad "$(cat log)"
awk 'BEGIN { for (i = 1; i <= 40; i++) print i, i % 4 + 1, i % 5 + 1 }' > few.tns
"$bin/tshard" build few.tns -o few.tsh > log 2>&1 || bad "$(cat log)"
{
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 2), }"
    for value in 2 3 nan 2; do
        for cell in 1 2; do
            case $value in
            2) printf '\0\0\0\0\0\0\0\100' ;;
            3) printf '\0\0\0\0\0\0\010\100' ;;
            *) printf '\0\0\0\0\0\0\370\177' ;;
            esac
        done
    done
} > quiet.npy
for t in quiet.tsh few.tsh quiet.npy; do
    held=
    [ $t != few.tsh ] || held='--hold-out 30%'
    for bounds in 1:2 -3:-1 0.5:inf 0:1; do
        # shellcheck disable=SC2086
        "$bin/tstream" cp $t --cpu --observed -r 2 -i 4 $held --bounds=$bounds -f ktensor -o within.cp --force > log 2>&1 ||
            bad "$t, --bounds=$bounds: $(cat log)"
        awk -v bounds=$bounds 'BEGIN { split(bounds, at, ":"); most = at[2] == "inf" ? 1e300 : at[2] + 1e-6 }
            /^matrix/ { skip = 3 } skip > 0 { skip--; next } NR < 6 { next }
            { for (r = 1; r <= NF; r++) { n++; if ($r < at[1] - 1e-6 || $r > most) exit bad = 1 } }
            END { exit bad || n < 8 }' within.cp/model.ktensor || bad "$t: an entry is not within bounds of $bounds: $(cat within.cp/model.ktensor)"
    done
    [ $t != few.tsh ] || continue
    "$bin/tstream" score within.cp $t --by-slice > slices 2> log || bad "$t: $(cat log)"
    [ "$(wc -l < slices)" -eq 3 ] || bad "$t: a slice without a cell that counts has an error: $(cat slices)"
    "$bin/tstream" score within.cp $t --by-slice -f npy -o slices.npy --force > log 2>&1 || bad "$t: $(cat log)"
    [ "$(wc -c < slices.npy)" -eq $((128 + 3 * 48)) ] || bad "$t: npy of slices has $(wc -c < slices.npy) bytes"
done
awk '{ $4 = 0; print }' quiet.tns > nil.tns
"$bin/tshard" build nil.tns --weights 4 -o nil.tsh > log 2>&1 || bad "$(cat log)"
"$bin/tstream" cp quiet.tsh --cpu -r 1 -i 2 -o some.cp > log 2>&1 || bad "$(cat log)"
"$bin/tstream" score some.cp nil.tsh --json | grep -q '"rmse":null,"mae":null,"mean_value":null,"mean_model":null,' || bad "a score of cells of weight 0"
"$bin/tstream" score some.cp nil.tsh 2>&1 | grep -q '^nonzeros .*all of weight 0: there is no error' || bad "no word on weights of 0"
[ -z "$("$bin/tstream" score some.cp nil.tsh --by-slice)" ] || bad "slices of weight 0 have lines"
refused 1 'all weights are 0, so there is no fit' "$bin/tstream" fit some.cp nil.tsh

# ---- weights that are all 1 change nothing; more weight draws the model nearer ----
awk '{ $5 = 1; print }' x.tns > one.tns
cut -d ' ' -f 1-4 x.tns > plain.tns
"$bin/tshard" build one.tns --weights 5 --zeros keep -o one.tsh > log 2>&1
"$bin/tshard" build plain.tns --zeros keep -o plain.tsh > log 2>&1
$cp one.tsh -i 4 --tol 0 -o one.cp > log 2>&1 || bad "$(cat log)"
$cp plain.tsh -i 4 --tol 0 -o plain.cp > log 2>&1 || bad "$(cat log)"
for f in one.cp/*.npy; do cmp -s "$f" "plain.cp/${f##*/}" || bad "weights of 1: $f differs"; done
for t in one plain; do "$bin/tstream" score one.cp $t.tsh --json | sed 's/"tensor":[^,]*,//; s/"[a-z_]*seconds":[^,]*,//g; s/"bytes_read":[0-9]*//; s/"poisson[^,]*,//' > $t.json; done
cmp -s one.json plain.json || bad "scores by weights of 1 differ: $(cat one.json plain.json)"
"$bin/tshard" info plain.tsh --json | grep -q '"has_weights":false' || bad "weights that nobody gave"
od -An -tu4 -j 8 -N 4 plain.tsh/index | grep -q '^ *2$' || bad "without weights the version is not the old one"
od -An -tu4 -j 8 -N 4 one.tsh/index | grep -q '^ *3$' || bad "with weights the version is not 3"

# ---- what does not use weights says so ----
for how in '--orthogonal 1' '--accelerate' '--loss poisson' '--loss huber:1'; do
    # shellcheck disable=SC2086
    refused 1 'x.tsh: its cells have weights, which a run without --observed does not use' "$bin/tstream" cp x.tsh --cpu -r 2 $how
done
# nothing counts: no model is a good one of it
printf '1 1 3 0\n2 2 4 0\n' > w0.tns
printf '1 1 3 0\n2 2 0 1\n' > w1.tns
for w in w0 w1; do "$bin/tshard" build $w.tns --weights 4 --zeros keep -o $w.tsh > log 2>&1 || bad "$w: $(cat log)"; done
for how in '' '--mean' '--nonneg' '--rank 1,2' '--restarts 2' '--init nvecs'; do
    # shellcheck disable=SC2086
    refused 1 'w0.tsh: all weights are 0, so there is nothing to learn from' "$bin/tstream" cp w0.tsh --cpu --observed -r 1 $how -o w.cp
    # shellcheck disable=SC2086
    refused 1 'w1.tsh: every nonzero with a weight above 0 is 0, so there is nothing to decompose' "$bin/tstream" cp w1.tsh --cpu --observed -r 1 $how -o w.cp
done
[ ! -e w.cp ] || bad "w.cp was written"
refused 1 'x.tsh: its cells have weights, which another loss than least squares does not use' "$bin/tstream" cp x.tsh --cpu -r 2 --loss huber:1 --observed
# and where --observed is all that is possible, it is taken for given
for how in '' --nonneg '--hold-out 10%' '--restarts 2'; do
    for given in '' --observed; do
        # shellcheck disable=SC2086
        "$bin/tstream" cp x.tsh --cpu -r 2 -i 3 --tol 0 --force -o "given$given.cp" $how $given > log 2> err || bad "cp $how $given: $(cat err)"
        [ -n "$given" ] || grep -q 'x.tsh: its cells have weights, so --observed is taken for given$' err || bad "cp $how: no note: $(cat err)"
    done
    for f in $(cd given.cp && find . -name model.ktensor); do cmp -s "given.cp/$f" "given--observed.cp/$f" || bad "cp $how: --observed changes it"; done
    rm -r given.cp given--observed.cp
done
"$bin/tstream" plan x.tsh --cpu > log 2> err || bad "plan: $(cat err)"
grep -q 'its cells have weights, so --observed is taken for given' err || bad "plan: $(cat err)"
"$bin/tstream" plan x.tsh --cpu --observed > log 2>&1 || bad "plan: $(cat log)"
refused 1 'x.tsh: its cells have weights, which a core consistency does not use' "$bin/tstream" fit --diagnose a.cp x.tsh
refused 2 'which an sptensor has no place for' "$bin/tshard" export x.tsh --format sptensor

# ---- columns that are none ----
printf 'a,b,v,w\n1,1,2,1\n1,2,3,-0.5\n' > bad.csv
refused 1 'bad.csv:3: column 4 (w): weight -0.5 is negative' "$bin/tshard" build bad.csv --modes a,b --value v --weights w -o no.tsh
printf 'a,b,v,w\n1,1,2,1\n\n1,2,3,nan\n' > bad.csv
refused 1 "bad.csv:4: column 4 (w): weight 'nan' is not a finite number" "$bin/tshard" build bad.csv --modes a,b --value v --weights w -o no.tsh
printf 'a,b,v,w\n1,1,2,1\n1,2,3,1e300\n' > bad.csv
refused 1 "bad.csv:3: column 4 (w): weight '1e300' is not a number that float32 holds" "$bin/tshard" build bad.csv --modes a,b --value v --weights w -o no.tsh
printf 'a,b,v,w\n1,1,2,1\n1,2,3,\n' > bad.csv
refused 1 'bad.csv:3: column 4 (w): the weight is empty' "$bin/tshard" build bad.csv --modes a,b --value v --weights w -o no.tsh
printf 'a,b,v,w\n1,1,2,1\n1,2,3\n' > bad.csv
refused 1 'bad.csv:3: found 3 fields, expected 4' "$bin/tshard" build bad.csv --modes a,b --value v --weights w -o no.tsh
refused 1 "--weights names column 'conf'; there are 4: a, b, v, w" "$bin/tshard" build bad.csv --modes a,b --value v --weights conf -o no.tsh
refused 1 "--weights names column 'v', which is that of the values" "$bin/tshard" build bad.csv --modes a,b --value v --weights v -o no.tsh
refused 1 'column 2 is named twice' "$bin/tshard" build bad.csv --modes a,b --value v --weights b -o no.tsh
refused 2 '--weights and --values float64 cannot be given together' "$bin/tshard" build bad.csv --weights w --values float64 -o no.tsh
refused 2 '--columns, --value, --weights, --text, --bin, --time-unit, --quote and --decimal are of tables' "$bin/tshard" build x.tns --format list --weights 5 -o no.tsh
printf 'a,b,v,w\n1,1,2,3e38\n1,1,2,3e38\n1,2,3,1\n' > bad.csv
refused 1 'the sum of the weights at (1, 1), counted from 1, is 6e+38' "$bin/tshard" build bad.csv --modes a,b --value v --weights w -o no.tsh

[ "$n" -gt 20000 ] || bad "only $n cells"
exit $failed
