#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tshard split and tshard select from the outside: their nonzeros are those that awk picks from the text, sizes, names and labels
# follow, the same bytes for any threads and memory, and every wrong wish gets a sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
# shellcheck source=tests/outside.sh
. "$top/tests/outside.sh"

# same NAME.tsh FILE: its nonzeros are the lines of the file, in any order
same()
{
    "$bin/tshard" export "$1" | sort > have
    sort "$2" > want
    cmp -s have want || bad "$1: $(diff have want | head -n 3)"
    "$bin/tshard" verify -q "$1" > log 2>&1 || bad "$1: $(cat log)"
}

# ---- split: every nonzero in one of two, about the share that was asked for, at every order ----
for shape in '400x300 4000' '300x200x100 60000' '30x20x10x7 3000' '9x8x7x6x5x4x3x2 4000'; do
    # shellcheck disable=SC2086
    set -- $shape
    rm -rf x.* ./*.train.tsh ./*.test.tsh
    "$bin/tshard" gen --dims "$1" --nnz "$2" --law power:0.6 -o x.tns --value real > log 2>&1
    "$bin/tshard" build x.tns --shard 64K --values float64 > log
    "$bin/tshard" export x.tsh | sort > all
    "$bin/tshard" split x.tsh --hold-out 20% -t 1 > log || bad "split: $(cat log)"
    "$bin/tshard" export x.train.tsh > train
    "$bin/tshard" export x.test.tsh > test
    sort train test | cmp -s - all || bad "$1: the two are not the whole"
    awk -v all="$(wc -l < all)" -v held="$(wc -l < test)" \
        'BEGIN { d = held - 0.2 * all; exit !(d * d < 25 * 0.16 * all) }' || bad "$1: $(wc -l < test) of $(wc -l < all) held out"
    for one in train test; do
        "$bin/tshard" info x.$one.tsh --json > json
        "$bin/tshard" verify -q x.$one.tsh > log 2>&1 || bad "$1, $one: $(cat log)"
        grep -q "\"shape\":\[$(echo "$1" | tr x ,)\]" json || bad "$1, $one: $(cat json)"
    done
    "$bin/tshard" split x.tsh --hold-out 0.2 -t 3 -m 33M --train a.tsh --test b.tsh -f > log
    diff -r x.train.tsh a.tsh > log && diff -r x.test.tsh b.tsh > log || bad "$1: other bytes with three threads: $(cat log)"
    "$bin/tshard" split x.tsh -s 2 --train a.tsh --test b.tsh -f > log
    diff -rq x.test.tsh b.tsh > log && bad "$1: another seed holds out the same"
done
"$bin/tshard" split x.tsh --hold-out 1% --train a.tsh --test b.tsh -f --json > log
[ "$(grep -c '^{"tensor":"[ab].tsh",' log)" = 2 ] || bad "json: $(cat log)"

# ---- select by number ----
rm -f x.tns
"$bin/tshard" gen --dims 300x200x100 --nnz 60000 --law power:0.6 -o x.tns > log 2>&1
"$bin/tshard" build x.tns --shard 64K -o x.tsh -f > log
"$bin/tshard" export x.tsh > all
"$bin/tshard" select x.tsh --keep 1=5..40,77 --keep 1=90..91,38..45 -k 3=1,100 -o y.tsh > log
awk '($1 >= 5 && $1 <= 45 || $1 == 77 || $1 == 90 || $1 == 91) && ($3 == 1 || $3 == 100)' all > want1
same y.tsh want1
"$bin/tshard" info y.tsh --json | grep -q '"shape":\[300,200,100\]' || bad "sizes changed"
"$bin/tshard" select x.tsh --keep 2=1..150 --at-least 2=300 --at-least 3=500 -t 2 -o y.tsh -f > log
awk 'NR == FNR { n2[$2]++; n3[$3]++; next } $2 <= 150 && n2[$2] >= 300 && n3[$3] >= 500' all all > want1
[ -s want1 ] || bad "the test picks nothing"
same y.tsh want1
"$bin/tshard" select x.tsh --at-least 700 -t 1 -o y.tsh -f > log
awk 'NR == FNR { n1[$1]++; n2[$2]++; n3[$3]++; next } n1[$1] >= 700 && n2[$2] >= 700 && n3[$3] >= 700' all all > want1
[ -s want1 ] || bad "the test picks nothing"
same y.tsh want1
"$bin/tshard" select x.tsh --at-least 700 -t 4 -m 32M -o z.tsh > log
diff -r y.tsh z.tsh > log || bad "other bytes with four threads: $(cat log)"
"$bin/tshard" select x.tsh --sum 2 -o y.tsh -f > log
awk '{ s[$1 " " $3] += $4 } END { for (k in s) print k, s[k] }' all > want1
same y.tsh want1
cp all all.tns
"$bin/tshard" build all.tns --dims 300x200x100 -o z.tsh -f > log
"$bin/tshard" select x.tsh -o y.tsh -f > log
diff -r z.tsh y.tsh > log || bad "all of a tensor is not that tensor: $(cat log)"

# ---- names, the first index, empty slices, several nonzeros of a cell ----
printf '%s\n' user,item,week,stars ann,lamp,2026-01-05,4 ben,lamp,2026-01-13,2 ann,rug,2026-01-20,5 'c d,7,2026-01-20,-5' \
    ben,rug,2026-02-20,1 > r.csv
"$bin/tshard" build r.csv --modes user,item,week --value stars --text item > log
table() { "$bin/tshard" export "$1" --format csv | sed 1d | sort; }
"$bin/tshard" select r.tsh --keep user=ben,'c d' -o y.tsh -f > log
table y.tsh > have
grep -v ann r.csv | sed 1d | sort | cmp -s - have || bad "names: $(cat have)"
"$bin/tshard" export y.tsh --format csv | head -n 1 | grep -qx user,item,week,stars || bad "names of the modes are gone"
"$bin/tshard" select r.tsh --keep item=7,rug --sum week -o y.tsh -f > log
printf '%s\n' ann,rug,5 ben,rug,1 'c d,7,-5' > want1
table y.tsh | cmp -s - want1 || bad "names and a sum: $(table y.tsh)"
"$bin/tshard" export y.tsh --format csv | head -n 1 | grep -qx user,item,stars || bad "names of the modes that are left"
"$bin/tshard" verify -q y.tsh > log 2>&1 || bad "$(cat log)"
printf '0 3 9 1\n0 3 9 2\n5 0 0 4\n' > d.tns
"$bin/tshard" build d.tns --base 0 --dims 7x8x11 --duplicates keep > log
"$bin/tshard" select d.tsh --keep 1=0..4 -o y.tsh -f > log
[ "$("$bin/tshard" export y.tsh | sort | tr '\n' ,)" = '0 3 9 1,0 3 9 2,' ] || bad "several of a cell: $("$bin/tshard" export y.tsh)"
"$bin/tshard" select d.tsh --sum 3 -o y.tsh -f > log
[ "$("$bin/tshard" export y.tsh | sort | tr '\n' ,)" = '0 3 3,5 0 4,' ] || bad "a sum of them: $("$bin/tshard" export y.tsh)"

# ---- refusals ----
rm -rf y.tsh z.tsh
refused 2 'expected a share like 20% or 0.2' "$bin/tshard" split x.tsh --hold-out 1
refused 2 'expected a share like 20% or 0.2' "$bin/tshard" split x.tsh --hold-out 20%%
refused 1 'exists; --force replaces it' "$bin/tshard" split x.tsh --train a.tsh --test b.tsh
refused 2 'have two names' "$bin/tshard" split x.tsh --train a.tsh --test a.tsh
refused 2 'lies in the tensor' "$bin/tshard" split x.tsh --train x.tsh/a.tsh
refused 2 '-o NAME.tsh is needed' "$bin/tshard" select x.tsh
refused 2 "'4' is neither a mode's number" "$bin/tshard" select x.tsh --keep 4=1 -o y.tsh
refused 2 "'301' is not within the indices of mode 1, 1 to 300" "$bin/tshard" select x.tsh --keep 1=301 -o y.tsh
refused 2 "'0' is not within" "$bin/tshard" select x.tsh --keep 1=0 -o y.tsh
refused 2 "'b' is no index of mode 1" "$bin/tshard" select x.tsh --keep 1=b -o y.tsh
refused 2 'expected MODE=INDEX' "$bin/tshard" select x.tsh --keep 1 -o y.tsh
refused 2 'an index is missing' "$bin/tshard" select x.tsh --keep 1=1,,2 -o y.tsh
refused 2 "'eve' is no name of mode 1" "$bin/tshard" select r.tsh --keep user=eve -o y.tsh
refused 2 'expected N or MODE=N' "$bin/tshard" select x.tsh --at-least 1=x -o y.tsh
refused 2 '1 modes would be left of 3' "$bin/tshard" select x.tsh --sum 1,2 -o y.tsh
refused 1 'no nonzeros to build' "$bin/tshard" select x.tsh --at-least 70000 -o y.tsh

exit $failed
