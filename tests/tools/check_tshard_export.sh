#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tshard export: sorted by any modes as sort(1) sorts what is not, in little memory too; tables with names, which
# tshard build reads to the same tensor; refusals.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# same NAME NAME: every file of both tensors
same()
{
    for file in "$1".tsh/*; do
        case $file in */options) continue ;; esac # says what the source was
        cmp "$file" "$2.tsh/${file##*/}" || bad "$1 and $2: ${file##*/}"
    done
}

# ---- sorted: every order from 2 to 8, cells more than once ----
for order in 2 3 4 5 6 7 8; do
    awk -v order=$order 'BEGIN { srand(order); for (i = 0; i < 3000; i++) { line = ""; for (m = 1; m <= order; m++)
        line = line 1 + int((m % 3 == 0 ? 5 : 40 * m) * rand()) " "; print line int(9 * rand()) - 4.5; if (i % 10 == 0) print line 2 } }' > s.tns
    "$bin/tshard" build s.tns --force --duplicates keep --shard 64K > log
    "$bin/tshard" export s.tsh > plain
    keys=
    list=
    m=$order
    while [ $m -ge 1 ]; do
        keys="$keys -k$m,${m}n"
        list="$list${list:+,}$m"
        m=$((m - 1))
    done
    # shellcheck disable=SC2086
    LC_ALL=C sort -s $keys plain > want
    "$bin/tshard" export s.tsh --sort $list --threads 2 > got
    cmp got want || bad "order $order by $list"
    keys="-k2,2n -k1,1n"
    for m in $(seq 3 $order); do keys="$keys -k$m,${m}n"; done
    # shellcheck disable=SC2086
    LC_ALL=C sort -s $keys plain > want
    "$bin/tshard" export s.tsh --sort 2 --threads 1 -o got --force
    cmp got want || bad "order $order by 2"
done

# ---- in little memory: slices at a time, and through runs where a slice is too large ----
"$bin/tshard" gen --dims 3x2000x3000 --nnz 400K --seed 6 -o l.tsh --memory 64M -q > log
"$bin/tshard" export l.tsh > plain
LC_ALL=C sort -s -k1,1n -k2,2n -k3,3n plain > by1,2
LC_ALL=C sort -s -k1,1n -k3,3n -k2,2n plain > by1,3
LC_ALL=C sort -s -k3,3n -k1,1n -k2,2n plain > by3,1
LC_ALL=C sort -s -k3,3n -k2,2n -k1,1n plain > by3,2
least=1 list=1,2
for by in 3,1 3,2 1,2 1,3; do # one of each two is how a copy is stored, and needs less
    "$bin/tshard" export l.tsh --sort $by --memory 1G > got
    cmp got "by$by" || bad "sorted by $by"
    status=0
    "$bin/tshard" export l.tsh --sort $by --memory 500K > out 2> err || status=$?
    [ $status -eq 1 ] && [ ! -s out ] || bad "--memory 500K: status $status"
    need=$(sed -n 's/.*--memory must be at least \([0-9]*\)M to export l\.tsh.*/\1/p' err)
    "$bin/tshard" export l.tsh --sort $by --memory "${need:-0}M" --threads 2 > got
    cmp got "by$by" || bad "sorted by $by in ${need}M"
    if [ "${need:-0}" -ge "$least" ]; then least=$need list=$by; fi
done
"$bin/tshard" export l.tsh --sort $list --memory "$((least + 1))M" -o got.gz
gzip -dc got.gz | cmp - "by$list" || bad "sorted and compressed in ${least}M"

# ---- numbers in a table, with and without names of columns ----
printf '1 2 0.1\n3 1 -1e-30\n' > n.tns
"$bin/tshard" build n.tns > log
"$bin/tshard" export n.tsh --format csv > got
printf 'mode1,mode2,value\n1,2,0.1\n3,1,-1e-30\n' | cmp - got || bad "csv: $(cat got)"
"$bin/tshard" export n.tsh --format tsv --header no --base 0 > got
printf '0\t1\t0.1\n2\t0\t-1e-30\n' | cmp - got || bad "tsv: $(cat got)"

# values come back with the same bits
for values in float32 float64; do
    "$bin/tshard" gen --dims 50x60x70 --nnz 5000 --value real --values $values -o v.tsh --force -q > log
    "$bin/tshard" export v.tsh --format csv --header no -o v.csv --force
    "$bin/tshard" build v.csv --values $values --dims 50x60x70 -o v2.tsh --force > log
    "$bin/tshard" export v.tsh > want
    "$bin/tshard" export v2.tsh | cmp - want || bad "$values"
done

# ---- names that need quotes, long ones, times; a name that is a number ----
awk 'BEGIN { srand(2); split("plain;with, comma;say \"no\";tab\there; lead;trail ;é;#hash", w, ";"); for (i = 0; i < 580; i++) long = long "abcdefg"
    print "who,\"what, \"\"which\"\"\",when,rating"
    for (i = 0; i < 4000; i++) { a = w[1 + int(8 * rand())] int(90 * rand()); gsub("\"", "\"\"", a); b = int(30 * rand()) == 0 ? long : "item " int(700 * rand())
        printf "\"%s\",%s,2024-%02d-%02d,%g\n", a, b, 1 + int(12 * rand()), 1 + int(28 * rand()), 1 + int(5 * rand()) } }' > t.csv
"$bin/tshard" build t.csv --bin when=7d --names sorted --duplicates keep > log
"$bin/tshard" export t.tsh --format csv -o a.csv
[ "$(head -n 1 a.csv)" = 'who,"what, ""which""",when,rating' ] || bad "header: $(head -n 1 a.csv)"
grep -q '^"say ""no""[0-9]*",item [0-9]*,2024-[0-9-]*,[1-5]$' a.csv || bad "quotes: $(grep -m 2 say a.csv | cut -c 1-80)"
grep -q '^" lead[0-9]*",' a.csv && grep -q '^"with, comma[0-9]*",' a.csv && grep -q '^#hash[0-9]*,' a.csv || bad "names: $(head -n 3 a.csv | cut -c 1-80)"
"$bin/tshard" build a.csv --bin when=7d --names sorted --duplicates keep > log
same t a
"$bin/tshard" export t.tsh --format tsv --sort when -o b.tsv
"$bin/tshard" build b.tsv --bin when=7d --names sorted --duplicates keep > log
same t b
awk -F '\t' 'NR > 1 { print $(NF - 1) }' b.tsv | LC_ALL=C sort -c || bad "--sort when"
"$bin/tshard" export t.tsh --format csv --sort 3,2 --memory "$((least + 4))M" > got # names through pages where they do not fit
"$bin/tshard" export t.tsh --format csv --sort 3,2 | cmp - got || bad "names in little memory"
"$bin/tshard" export t.tsh --format csv --numbers --header no | tr , ' ' > got
"$bin/tshard" export t.tsh | cmp - got || bad "--numbers"
# labels of a map, too few of them
printf 'one\n\nthree\n' > n.map
"$bin/tshard" build n.tns --map 1=n.map --map 2=n.map --allow-missing -o m.tsh > log
"$bin/tshard" export m.tsh --format csv --header no > got
printf 'one,2,0.1\nthree,one,-1e-30\n' | cmp - got || bad "an empty label: $(cat got)"

# what a reader would take for the mark of a file stays a part of the first name
printf '"\357\273\277ann",x,1\nbob,y,2\n' > mark.csv
"$bin/tshard" build mark.csv --header no > log
"$bin/tshard" export mark.tsh --format csv --header no | cmp - mark.csv || bad "a name that begins with EF BB BF"

# ---- refusals, and readers that go ----
refused 2 "'9' is neither a mode's number, 1 to 3, nor its name" "$bin/tshard" export l.tsh --sort 9
refused 2 "'1x' is neither" "$bin/tshard" export l.tsh --sort 1x
refused 2 "'' is neither" "$bin/tshard" export l.tsh --sort 1,
refused 2 "mode 2 is named twice" "$bin/tshard" export l.tsh --sort 2,1,2
refused 2 "--mode and --sort cannot be given together" "$bin/tshard" export l.tsh --sort 2 --mode 2
refused 1 "no/such: cannot create a temporary file" "$bin/tshard" export l.tsh --sort $list --memory "${least}M" --tmp no/such -o z
[ ! -e z ] || bad "z was made"
{ "$bin/tshard" export l.tsh --sort $list --memory "${least}M" 2> err || true; } | head -n 1 > out
[ ! -s err ] || bad "a closed pipe is said: $(cat err)"

exit $failed
