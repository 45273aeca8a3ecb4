#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Names of modes and indices in what commands print of a decomposition, and tstream export, whose table holds the factors.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

awk 'BEGIN { srand(5); for (i = 1; i <= 900; i++) print 1 + int(12 * rand()), 1 + int(9 * rand()), 1 + int(30 * rand()), 1 + i % 7 }' > x.tns
{ echo 'a, b'; echo 'say "no"'; seq -f 'user %g' 3 12; } > users.map
"$bin/tshard" build x.tns --modes 'user,<b>item</b>,week' --map 1=users.map > log
"$bin/tstream" cp x.tsh --cpu -r 3 -i 5 -f ktensor,npy > log

# ---- names of modes ----
"$bin/tshard" info x.tsh > log
grep -q '^ *1 *user *12 ' log && grep -q '^ *2 *<b>item</b> ' log || bad "info: $(cat log)"
"$bin/tshard" info --json x.tsh | grep -q '"mode":2,"name":"<b>item</b>",' || bad "info --json"
"$bin/tstream" top x.cp -n 2 -c 1 > log
grep -q '^  *user  *<b>item</b>  *week *$' log || bad "top: $(cat log)"
"$bin/tstream" top x.cp -n 2 -c 1 -k 3 --json | grep -q '"mode_names":\["week"\],' || bad "top --json"
for command in 'tstream top x.cp --csv' 'tstream export x.cp' 'tshard export x.tsh' 'tstream score x.cp x.tsh --by-slice -o -'; do
    "$bin"/$command --mode 3 > number.out && "$bin"/$command --mode week > name.out && cmp number.out name.out ||
        bad "$command --mode week"
done
"$bin/tstream" compare x.cp x.cp > log
head -n 1 log | grep -q ' user <b>item</b>    week$' || bad "compare: $(cat log)"
"$bin/tstream" compare x.cp x.cp --skip week,1 --json | grep -q '"skip":\[3,1\]' || bad "compare --skip"
refused 1 "--mode: 'weak' is neither a mode's number, 1 to 3, nor its name: " "$bin/tstream" top x.cp -k weak
"$bin/tstream" top x.cp -n 1 -c 1 --csv > csv
[ "$(sed -n 's/^1,[^,]*,\([0-9],[^,]*\),1,.*/\1/p' csv | tr '\n' ' ')" = '1,user 2,<b>item</b> 3,week ' ] || bad "top --csv: $(cat csv)"
"$bin/tstream" info x.cp | grep -q '^modes    user, <b>item</b>, week$' || bad "tstream info: $("$bin/tstream" info x.cp)"
grep -q '"modes":\["user","<b>item</b>","week"\]' x.cp/run.json || bad "run.json: $(cat x.cp/run.json)"
"$bin/tstream" report x.cp > log
grep -q '<h4><bdi>&lt;b&gt;item&lt;/b&gt;</bdi>' x.html || bad "report: $(grep h4 x.html | head -2)"
mkdir away # where the tensor is gone the model has them, and a record without labels too
"$bin/tstream" export x.cp > with.csv
"$bin/tstream" top x.cp --csv > with.top
"$bin/tstream" report x.cp --json | sed 's/"names":"[^"]*"//' > with.json
mv x.tsh away
"$bin/tstream" export x.cp | cmp - with.csv || bad "export: another table without the tensor"
"$bin/tstream" top x.cp --csv | cmp - with.top || bad "top: other names without the tensor"
"$bin/tstream" report x.cp --json | sed 's/"names":"[^"]*"//' | cmp - with.json ||
    bad "report: other figures without the tensor"
grep -q ',label,' with.csv && grep -q ',user 3,' with.csv || bad "export: no labels: $(head -3 with.csv)"
cp -r x.cp bare.cp
rm bare.cp/labels
for model in x bare; do
    "$bin/tstream" top $model.cp -n 2 -c 1 > log
    grep -q '^  *user  *<b>item</b>  *week *$' log || bad "top $model.cp without the tensor: $(cat log)"
done
grep -q 'user 3' log && bad "labels of nowhere: $(cat log)"
rm -r bare.cp
mv away/x.tsh .
"$bin/tstream" cp x.tsh --cpu -r 1 -i 2 --no-labels -o less.cp > log
"$bin/tstream" top less.cp --csv | grep -q 'user [0-9]' || bad "--no-labels: the tensor has them all the same"
mv x.tsh away
"$bin/tstream" top less.cp --csv | grep -q 'user [0-9]' && bad "--no-labels: there are labels"
"$bin/tstream" top less.cp --csv | grep -q '<b>item</b>' || bad "--no-labels: no names of modes"
"$bin/tstream" top less.cp away/x.tsh --csv | grep -q 'user [0-9]' || bad "labels of a tensor that is named"
mv away/x.tsh .
rm -r less.cp
sed 's/"modes":\[[^]]*\]/"modes":[1,{}]/; s/"path":"[^"]*"/"path":"gone"/; s/,"file_version".*/}/' x.cp/run.json > other.json
cp -r x.cp odd.cp
cp other.json odd.cp/run.json
mkdir elsewhere
(cd elsewhere && "$bin/tstream" top ../odd.cp -n 1 -c 1 > ../log) || bad "top: an odd record beside labels"
grep -q '^  *user  *<b>item</b>  *week *$' log || bad "top: names of the file of labels: $(cat log)"
rm odd.cp/labels # as a model of an older version
(cd elsewhere && "$bin/tstream" top ../odd.cp -n 1 -c 1 > ../log) || bad "top: an odd record"
grep -q 'mode 1' log || bad "top: an odd record: $(cat log)"

# ---- a tensor whose indices count from 0: so do those that are shown, with it and without ----
awk '{ print $1 - 1, $2 - 1, $3 - 1, $4 }' x.tns > zero.tns
"$bin/tshard" build zero.tns --base 0 > log
"$bin/tstream" cp zero.tsh --cpu -r 1 -i 2 > log
grep -q '"base":0,' zero.cp/run.json || bad "run.json: no base of 0"
grep -q '"base":1,' x.cp/run.json || bad "run.json: no base of 1"
mkdir zero
mv zero.tsh zero.cp zero
cd zero
for where in with without; do
    "$bin/tstream" top zero.cp -n 100 --csv > csv
    [ "$(sed 1d csv | awk -F , '$3 == 3 { print $6 }' | sort -n | sed -n '1p;$p' | tr '\n' ' ')" = '0 29 ' ] || bad "top --csv $where it: $(head -n 3 csv)"
    "$bin/tstream" top zero.cp -n 100 -k 1 --json | grep -q '"index":0,' || bad "top --json $where it"
    ! "$bin/tstream" top zero.cp -n 100 -k 1 --json | grep -q '"index":12,' || bad "top --json $where it: index 12"
    [ "$("$bin/tstream" export zero.cp -k 3 | sed 1,2d | cut -d , -f 3 | sed -n '1p;$p' | tr '\n' ' ')" = '0 29 ' ] || bad "export $where it"
    "$bin/tstream" report zero.cp -n 12 --force > log
    grep -q '<li><bdi>0</bdi>' zero.html || bad "report $where it: no index 0"
    [ $where = without ] || mv zero.tsh ../away
done
cd ..

# ---- the table ----
"$bin/tstream" export x.cp -o x.csv > log
[ ! -s log ] || bad "export: prints $(cat log)"
[ "$(head -1 x.csv)" = mode,mode_name,index,label,component_1,component_2,component_3 ] || bad "export: $(head -1 x.csv)"
[ "$(wc -l < x.csv)" -eq $((2 + 12 + 9 + 30)) ] || bad "export: $(wc -l < x.csv) lines"
grep -q '^1,user,1,"a, b",' x.csv && grep -q '^1,user,2,"say ""no""",' x.csv && grep -q '^1,user,12,user 12,' x.csv ||
    bad "export: labels: $(sed -n 3,5p x.csv)"
grep -q '^3,week,30,,' x.csv || bad "export: an index without a label: $(tail -1 x.csv)"
# the numbers are those of model.ktensor: weights in its fourth line of text, rows behind "matrix", "2", "rows rank"
sed -n 's/^0,weight,,,//p' x.csv | tr ',' '\n' > have
sed -n 5p x.cp/model.ktensor | tr -s ' ' '\n' | sed '/^$/d' > want
awk 'FNR == NR { w[NR] = $1; next } $1 != w[FNR] + 0 && ($1 - w[FNR]) ^ 2 > 1e-20 { bad = 1 } END { exit bad || FNR != 3 }' want have ||
    bad "export: weights $(cat have), not $(cat want)"
awk '/^matrix/ { skip = 3 } skip > 0 { skip--; next } NR > 5' x.cp/model.ktensor | tr -s ' ' | sed 's/^ //; s/ $//' > want
sed '1,2d; s/"[^"]*""[^"]*""[^"]*"/q/; s/"[^"]*"/q/' x.csv | cut -d, -f5- | tr ',' ' ' > have
[ "$(wc -l < want)" -eq 51 ] || bad "model.ktensor is not understood: $(wc -l < want) rows"
paste -d ' ' want have | awk 'NF != 6 { bad = 1 } { for (i = 1; i <= 3; i++) if (($i - $(i + 3)) ^ 2 > 1e-18) bad = 1 } END { exit bad }' ||
    bad "export: other factors: $(paste want have | head -2)"
# of NumPy's float32 the shortest digits; one mode, fewer components; compressed; used rows
mkdir npy
cp x.cp/*.npy npy
"$bin/tstream" export npy x.tsh -k 2 -c 1 > two.csv
[ "$(wc -l < two.csv)" -eq 11 ] && [ "$(sed -n 3p two.csv | tr -cd , | wc -c)" -eq 4 ] || bad "export -k 2 -c 1: $(cat two.csv)"
[ "$(sed 1,2d two.csv | sed 's/.*,-*0*[.]*0*//; s/e.*//' | awk '{ if (length($0) > n) n = length($0) } END { print n }')" -le 9 ] ||
    bad "export: too many digits: $(cat two.csv)"
"$bin/tstream" export x.cp -o x.csv.gz
gunzip -c x.csv.gz | cmp - x.csv || bad "export: .gz is another table"
printf '1 1 1 1\n77 1 2 3\n500 2 1 4\n' > used.tns
"$bin/tshard" build used.tns > log
"$bin/tstream" cp used.tsh --cpu -r 1 -i 2 --rows used > log
[ "$("$bin/tstream" export used.cp -k 1 | sed 1,2d | cut -d, -f3 | tr '\n' ' ')" = '1 77 500 ' ] || bad "export: used rows"
refused 1 "x.csv exists" "$bin/tstream" export x.cp -o x.csv
refused 1 "there is no mode 4, only 3" "$bin/tstream" export x.cp -k 4
refused 1 "lies in the tensor" "$bin/tstream" export x.cp x.tsh -o x.tsh/factors.csv
{ "$bin/tstream" export x.cp 2> err || true; } | true
[ ! -s err ] || bad "export: a closed pipe is said: $(cat err)"

exit $failed
