#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream predict from the outside: values of cells from files and pipes of any length, in every format, the same
# for any threads; what is wrong in a line is told with its number, and then no file is left.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

awk 'BEGIN { srand(5); for (i = 1; i <= 900; i++) print 1 + int(12 * rand()), 1 + int(9 * rand()), 1 + int(30 * rand()), 1 + i % 7 }' > x.tns
{ echo 'a, b'; echo 'say "no"'; seq -f 'user %g' 3 12; } > users.map
"$bin/tshard" build x.tns --modes 'user,item,week' --map 1=users.map > log
"$bin/tstream" cp x.tsh --cpu -r 3 -i 5 -p float64 -f ktensor,npy > log 2>&1
"$bin/tshard" export x.tsh > all.tns

# near FILE: the obvious sum over the components of model.ktensor is the number in the last field of each line
cat > twin.awk << 'AWK'
FNR == NR {
    if ($1 == "matrix") { mode++; skip = 2; row = 0; next }
    if (skip > 0) { skip--; next }
    if (mode > 0) { row++; for (r = 1; r <= NF; r++) a[mode, row, r] = $r }
    else if (FNR == 5) { rank = NF; for (r = 1; r <= NF; r++) weight[r] = $r }
    next
}
{
    sum = 0
    for (r = 1; r <= rank; r++) sum += weight[r] * a[1, $1, r] * a[2, $2, r] * a[3, $3, r]
    d = sum - $at
    if (d > 1e-12 || d < -1e-12) { print "line " FNR ": " $at ", not " sum; bad = 1 }
    n++
}
END { exit bad || n == 0 || rank != 3 }
AWK
near() { awk -v at="$2" -f twin.awk x.cp/model.ktensor "$1" > why || bad "$1: $(head -n 2 why)"; }

# ---- lines without values, with blanks and comments, and zeros; a few of them, and many pieces ----
awk '{ print $1, $2, $3 }' all.tns > cells.tns
"$bin/tstream" predict x.cp cells.tns > got
[ "$(wc -l < got)" -eq "$(wc -l < cells.tns)" ] || bad "$(wc -l < got) lines"
cut -d ' ' -f 1-3 got | cmp -s - cells.tns || bad "the cells are others"
near got 4
printf '# cells\n\n 1\t2 3 # one\r\n// none\n12 9 30' | "$bin/tstream" predict x.cp - > odd
[ "$(cut -d ' ' -f 1-3 odd | tr '\n' ';')" = '1 2 3;12 9 30;' ] || bad "odd lines: $(cat odd)"
near odd 4
awk '{ for (i = 0; i < 200; i++) print $0 }' all.tns > many.tns # more than a megabyte
"$bin/tstream" predict x.cp many.tns --threads 1 > many.1
near many.1 5
for threads in 2 5; do
    "$bin/tstream" predict x.cp - --threads $threads < many.tns > many.$threads
    cmp -s many.1 many.$threads || bad "other bytes with $threads threads"
done
gzip -k many.tns
"$bin/tstream" predict x.cp many.tns.gz -o many.out.gz > log
gunzip -c many.out.gz | cmp -s - many.1 || bad "compressed: other lines"
grep -q '^[0-9,]* cells: RMSE [0-9.e-]*, MAE [0-9.e-]*, ' log || bad "prints $(cat log)"

# ---- values: what is printed, and the sums; zeros are values ----
{ cat all.tns; echo '1 1 1 0'; } > valued.tns
"$bin/tstream" predict x.cp valued.tns > got
[ "$(wc -l < got)" -eq "$(wc -l < valued.tns)" ] || bad "a zero is left out"
cut -d ' ' -f 1-4 got | cmp -s - valued.tns || bad "values are others"
near got 5
awk '{ d = $4 - $5 - $6; if (d > 1e-12 || d < -1e-12) exit 1 }' got || bad "residuals are no differences"
"$bin/tstream" predict x.cp valued.tns --json > json
[ "$(wc -l < json)" -eq 1 ] || bad "--json prints cells: $(head -c 300 json)"
"$bin/tstream" predict x.cp - --json < valued.tns | sed 's/,"seconds.*//' > json2
sed 's/,"seconds.*//' json | cmp -s - json2 || bad "other sums from a pipe: $(cat json json2)"
sed 's/.*"cells":\([0-9]*\),"rmse":\([^,]*\),"mae":\([^,]*\),.*/\1 \2 \3/' json > have
awk '{ n++; s += $6 * $6; m += $6 < 0 ? -$6 : $6 } END { printf "%d %.17g %.17g\n", n, sqrt(s / n), m / n }' got > want
paste -d ' ' have want | awk '{ a = $2 - $5; b = $3 - $6 } END { exit !($1 == $4 && a * a < 1e-20 && b * b < 1e-20) }' ||
    bad "sums: $(cat have), not $(cat want)"
"$bin/tstream" predict x.cp cells.tns --json | grep -q '"rmse":null,"mae":null' || bad "--json without values"

# ---- weights: what tshard export writes of cells that have them, and the sums of score ----
awk '{ print $0, NR % 5 / 2 }' all.tns > w.tns # a fifth of them does not count
"$bin/tshard" build w.tns --weights 5 -o w.tsh > log
"$bin/tstream" cp w.tsh --cpu -r 2 -i 4 -p float64 --observed --l2 0.1 -f npy > log 2>&1 || bad "weighted: $(cat log)"
"$bin/tshard" export w.tsh > weighted.tns
[ "$(awk 'NF != 5' weighted.tns | wc -l)" -eq 0 ] || bad "no weights: $(head -n 2 weighted.tns)"
cut -d ' ' -f 1-4 weighted.tns > unweighted.tns
"$bin/tstream" predict w.cp unweighted.tns > want
{ echo '# i j k value weight'; echo; sed 's/$/ # w/; 2s/ /  /g; 3s/ /\t/g' weighted.tns; } | "$bin/tstream" predict w.cp - --threads 3 | cmp -s - want ||
    bad "other lines with weights"
"$bin/tstream" predict w.cp weighted.tns --json > json
"$bin/tstream" score w.cp w.tsh --json > score.json
for sum in rmse mae; do
    value() { sed "s/.*\"$sum\":\([^,]*\),.*/\1/" "$1"; }
    within "$(value json)" "$(value score.json)" 1e-12 || bad "weighted $sum: $(value json), by score $(value score.json)"
done
for i in $(seq 60); do cat weighted.tns; done > long.tns # more than a megabyte
"$bin/tstream" predict w.cp long.tns --threads 1 > want
"$bin/tstream" predict w.cp long.tns --threads 3 | cmp -s - want || bad "weights of several pieces"
for line in '1 1 1 2 -1' '1 1 1 2 nan' '1 1 1 2 inf' '1 1 1 2 x' '1 1 1 2' '1 1 1 2 1 1'; do
    { head -n 3 weighted.tns; echo "$line"; } > wrong
    refused 1 'wrong: line 4: ' "$bin/tstream" predict w.cp wrong
done
refused 1 'wrong: line 4: found 6 fields, expected 5' "$bin/tstream" predict w.cp wrong
echo '1 1 1 2 0' | "$bin/tstream" predict w.cp - --json | grep -q '"rmse":0,"mae":0' || bad "nothing that counts"

# ---- tables of names, as export writes them ----
"$bin/tstream" predict x.cp all.tns > want
for format in csv tsv; do
    "$bin/tshard" export x.tsh --format $format > names.$format
    "$bin/tstream" predict x.cp names.$format --cells $format | cmp -s - want || bad "$format: other lines"
    sed 1d names.$format | "$bin/tstream" predict x.cp - --cells $format | cmp -s - want || bad "$format without a head"
    sed 's/$/\r/; 3s/^/ /; 4s/.*/&\n\r/' names.$format | "$bin/tstream" predict x.cp - --cells $format | cmp -s - want || bad "$format: CRLF and blank lines"
    "$bin/tstream" predict x.cp all.tns --format $format > want.$format
    "$bin/tstream" predict x.cp names.$format --cells $format --format $format | cmp -s - want.$format || bad "$format to $format"
done
{ head -n 1 names.csv; for i in $(seq 200); do sed 1d names.csv; done; } > long.csv # more than a megabyte
[ "$(wc -c < long.csv)" -gt 1500000 ] || bad "long.csv is short"
for i in $(seq 200); do cat want; done > want.long
"$bin/tstream" predict x.cp long.csv --cells csv --threads 3 | cmp -s - want.long || bad "a long table: other lines"
cut -d , -f 1-3 want.csv | sed '2,$s/^"a, b"/12/' > tricky.csv # the field of the first name is cut in two
refused 1 'tricky.csv: line ' "$bin/tstream" predict x.cp tricky.csv --cells csv
"$bin/tshard" export x.tsh --format csv --header no | head -n 2 > names.csv
for line in 'user 13,1,1,1' '2,1,1,1' 'user 3,10,1,1' 'user 3,x,1,1' ',1,1,1' 'user 3,1,1' 'user 3,1,1,' 'user 3,1,1,x' '"user 3,1,1,1'; do
    { cat names.csv; echo "$line"; } > wrong
    refused 1 'wrong: line 3: ' "$bin/tstream" predict x.cp wrong --cells csv
done
printf 'user,item,week\n2,1,1\n' > wrong
refused 1 "wrong: line 2: '2' is no name of mode 1; the index has the name 'say \"no\"'" "$bin/tstream" predict x.cp wrong --cells csv
printf 'user,item,week\nuser 3,9,30\n' > head
[ "$("$bin/tstream" predict x.cp head --cells csv | cut -d ' ' -f 1-3)" = '3 9 30' ] || bad "cells without values in a table"
printf 'user,item,week\n' | "$bin/tstream" predict x.cp - --cells csv > out
[ ! -s out ] || bad "of a head alone: $(cat out)"
"$bin/tshard" export w.tsh --format csv > weighted.csv
grep -q weight weighted.csv || bad "no weights in a table"
"$bin/tstream" predict w.cp weighted.csv --cells csv --json | sed 's/,"seconds.*//' > json2
"$bin/tstream" predict w.cp weighted.tns --json | sed 's/,"seconds.*//' | cmp -s - json2 || bad "weights in a table: $(cat json2)"
printf 'twice\ntwice\nonce\n' > twice.map
printf '1 1 1\n2 2 1\n3 1 2\n' > twice.tns
if "$bin/tshard" build twice.tns --map 1=twice.map > log 2>&1; then
    "$bin/tstream" cp twice.tsh --cpu -q -r 1 -i 2 > log 2>&1
    printf 'once,1\ntwice,1\n' > wrong
    refused 1 "wrong: line 2: two indices of mode 1 have the name 'twice'" "$bin/tstream" predict twice.cp wrong --cells csv
fi

# ---- tables, NumPy ----
printf '2 1 1 4\n1 9 30 5\n' > two.tns
"$bin/tstream" predict x.cp two.tns --format csv > table
[ "$(sed -n 1p table)" = user,item,week,value,model,residual ] || bad "csv: $(sed -n 1p table)"
grep -q '^"say ""no""",1,1,4,' table && grep -q '^"a, b",9,30,5,' table || bad "csv: $(cat table)"
"$bin/tstream" predict x.cp two.tns --format tsv --numbers | sed -n 2p | grep -q "^2	1	1	4	" || bad "tsv --numbers"
"$bin/tstream" predict x.cp two.tns ./x.tsh --format csv | cmp -s - table || bad "csv with the tensor named"
"$bin/tstream" predict x.cp valued.tns --format npy -o values.npy > log
[ "$(wc -c < values.npy)" -eq $((128 + 8 * $(wc -l < valued.tns))) ] || bad "npy: $(wc -c < values.npy) bytes"
head -c 128 values.npy | grep -aq "'shape': ($(wc -l < valued.tns),), }" || bad "npy: $(head -c 128 values.npy)"
if python3 -c 'import numpy' 2> /dev/null; then
    python3 -c 'import numpy; [print(repr(float(x))) for x in numpy.load("values.npy")]' > have
    paste -d ' ' got have | awk '$5 + 0 != $7 + 0 { exit 1 }' || bad "npy: other values"
fi

# ---- rows of used slices alone, by the model's file of indices or by the tensor; indices from 0 ----
printf '1 1 1 1\n77 1 2 3\n500 2 1 4\n' > used.tns
"$bin/tshard" build used.tns > log
"$bin/tstream" cp used.tsh --cpu -r 1 -i 2 --rows used > log
printf '77 1 2\n78 1 2\n500 2 2\n' | "$bin/tstream" predict used.cp - > got
[ "$(sed -n 's/^78 1 2 //p' got)" = 0 ] || bad "an empty slice: $(cat got)"
rm used.cp/mode1.index
printf '77 1 2\n78 1 2\n500 2 2\n' | "$bin/tstream" predict used.cp - used.tsh | cmp -s - got || bad "rows of used slices"
awk '{ print $1 - 1, $2 - 1, $3 - 1 }' cells.tns > zero.tns
"$bin/tstream" predict x.cp zero.tns --base 0 | awk '{ print $4 }' > have
"$bin/tstream" predict x.cp cells.tns | awk '{ print $4 }' | cmp -s - have || bad "--base 0"

# ---- nothing at all ----
: > none
"$bin/tstream" predict x.cp none > out
[ ! -s out ] || bad "of no cells: $(cat out)"
"$bin/tstream" predict x.cp none --format csv | grep -qx 'user,item,week,model' || bad "a table of no cells"

# ---- refusals: file and line; no file is left, and one that is there stays ----
printf '1 1 1\n\n1 10 1\n' > wrong
refused 1 'wrong: line 3: index 10 in mode 2 is beyond 9, its size by the model' "$bin/tstream" predict x.cp wrong -o new.tns
[ ! -e new.tns ] || bad "a file of half the cells"
{ cat many.tns; echo '1 1 x 2'; } > wrong
refused 1 "wrong: line $(wc -l < wrong): " "$bin/tstream" predict x.cp wrong --threads 3 -o new.tns
printf '1 1\n' > wrong
refused 1 'wrong: line 1: found 2 fields, expected 3' "$bin/tstream" predict x.cp wrong
printf '1 1 1 5\n1 1 1\n' > wrong
refused 1 'wrong: line 2: found 3 fields, expected 4' "$bin/tstream" predict x.cp wrong
awk 'BEGIN { print "1 1 1"; for (i = 0; i < 600000; i++) printf "1"; print "" }' > wrong
refused 1 'wrong: line 2: the line is longer' "$bin/tstream" predict x.cp wrong
echo keep > new.tns
refused 1 'new.tns exists' "$bin/tstream" predict x.cp cells.tns -o new.tns
[ "$(cat new.tns)" = keep ] || bad "a file was replaced"
refused 1 'nothing shows that it is as this program wrote it' "$bin/tstream" predict x.cp cells.tns -o new.tns --force
[ "$(cat new.tns)" = keep ] || bad "a file of the user was replaced"
rm new.tns
"$bin/tstream" predict x.cp many.tns -o new.tns > log
"$bin/tstream" predict x.cp cells.tns -o new.tns --force > log
near new.tns 4
refused 1 'lies in the tensor' "$bin/tstream" predict x.cp cells.tns -o x.tsh/new.tns
refused 1 'nowhere: ' "$bin/tstream" predict x.cp nowhere
refused 2 'needs --output FILE' "$bin/tstream" predict x.cp cells.tns --format npy
refused 2 'needs --output FILE' "$bin/tstream" predict x.cp cells.tns --format npy -o x.npy.gz
# the option that takes names and commas is named
echo 'user,item,week' > wrong
refused 1 'there are commas in the line, and --cells csv reads such a file' "$bin/tstream" predict x.cp wrong
! grep -q -e '--format' err || bad "$(cat err)"
echo '1 b 1' > wrong
refused 1 "index 'b' in mode 2 is not a whole number (cells are listed by numbers of their indices; --cells csv reads names)" "$bin/tstream" predict x.cp wrong
echo '1 1 1,5' > wrong
refused 1 "'1,5' in mode 3 is not a whole number (fields are divided by blanks; --cells csv reads commas)" "$bin/tstream" predict x.cp wrong

# ---- a file that is called a table and is none ----
for out in n.csv n.tsv.gz; do
    "$bin/tstream" predict -q x.cp cells.tns -o $out > log 2>&1
    "$bin/tshard" export -q x.tsh -o x$out >> log 2>&1
    "$bin/tstream" score -q x.cp x.tsh -o s$out >> log 2>&1
    [ "$(grep -c ": lines of indices and numbers.*; --format [ct]sv writes" log)" -eq 3 ] || bad "$out: $(cat log)"
    "$bin/tstream" predict -q x.cp cells.tns -o $out --force --format csv > log 2>&1
    ! grep -q -e '--format' log || bad "$out: $(cat log)"
done

# ---- indices that were never seen: their 0 is no prediction, whatever loss the model has ----
printf '1 1 1 1\n1 2 2 1\n3 1 2 0\n3 2 1 1\n3 2 2 0\n1 1 2 0\n' > seen.tns
"$bin/tshard" build seen.tns --zeros keep --dims 4x2x3 -o seen.tsh > log 2>&1
printf '1 1 1\n2 1 1\n3 2 2\n4 1 1\n1 1 3\n2 2 3\n' > ask.tns # of six cells four
printf '1 1 1\n3 2 2\n' > known.tns
for how in '--loss bernoulli-logit --observed' '--loss poisson-log' '--observed --l2 0.01' ''; do
    for rows in all used; do
        # shellcheck disable=SC2086
        "$bin/tstream" cp seen.tsh --cpu -q -r 2 -i 5 $how --rows $rows -f npy -o seen.cp --force > log 2>&1 || bad "cp $how: $(cat log)"
        "$bin/tstream" predict seen.cp ask.tns seen.tsh > out 2> err || bad "predict, $how: $(cat err)"
        grep -q '4 of 6 cells have an index whose row in the model is zeros' err || bad "$how, rows $rows: $(cat err)"
        [ "$(wc -l < err)" -eq 1 ] && [ "$(wc -l < out)" -eq 6 ] || bad "predict, $how: $(cat err out)"
        "$bin/tstream" predict seen.cp ask.tns seen.tsh --json 2> err | grep -q '"unseen_cells":4,' || bad "predict --json, $how"
        "$bin/tstream" predict seen.cp known.tns seen.tsh > out 2> err
        [ ! -s err ] || bad "predict, $how: $(cat err)"
    done
done
sed 's/$/ 1/' ask.tns > test.tns
"$bin/tshard" build test.tns --dims 4x2x3 -o test.tsh > log 2>&1
for threads in 1 3; do
    "$bin/tstream" score seen.cp test.tsh --threads $threads --json > json 2> err
    grep -q '"unseen_cells":4,' json || bad "score: $(cat json err)"
    grep -q '4 of 6 nonzeros have an index whose row in the model is zeros' err || bad "score: $(cat err)"
done
"$bin/tstream" score seen.cp seen.tsh --json > json 2> err
grep -q '"unseen_cells":0,' json && [ ! -s err ] || bad "score: $(cat json err)"
# An index that has a component without weight alone was seen, to both commands.
cat > dead.ktensor << 'END'
ktensor
3
4 2 3
2
1 0
END
for rows in 4 2 3; do
    printf 'matrix\n2\n%d 2\n0 5\n' $rows
    for i in $(seq 2 $rows); do echo '1 1'; done
done >> dead.ktensor
"$bin/tstream" score dead.ktensor test.tsh --json > json 2> err
grep -q '"unseen_cells":0,' json && [ ! -s err ] || bad "score: $(cat json err)"
"$bin/tstream" predict dead.ktensor ask.tns test.tsh --json > json 2> err
grep -q '"unseen_cells":0,' json && [ ! -s err ] || bad "predict: $(cat json err)"

# A name whose index has no row in the model: refused by its line, not predicted as the cell before.
printf '1 1 2\n3 2 1\n3 1 4\n1 2 5\n' > named.tns
printf '%s\n' zed amy bob cat > who.txt
"$bin/tshard" build named.tns --map 1=who.txt --partial-map -q > log 2>&1
"$bin/tstream" cp named.tsh --cpu -r 1 -q > log 2>&1
printf 'zed,1\ncat,1\n' > ask.csv
"$bin/tstream" predict named.cp ask.csv --cells csv > out 2> err && bad "a name without a row: $(cat out)"
grep -q "ask.csv: line 2: 'cat' is a name of mode 1 without a row in the model" err || bad "a name without a row: $(cat err)"

exit $failed
