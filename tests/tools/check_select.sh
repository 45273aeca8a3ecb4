#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tshard split and tshard select from the outside: their nonzeros are those that awk picks from the text, sizes, names and labels
# follow, the same bytes for any threads and memory, and every wrong wish gets a sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"

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
diff -r -x options z.tsh y.tsh > log || bad "all of a tensor is not that tensor: $(cat log)"

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

# ---- zeros: dropped, or kept as cells, by every kind of input, and by what is made of the tensor ----
printf '%s\n' '1 1 1 5' '1 2 1 0' '2 1 1 -0' '2 2 1 3' '2 2 1 -3' '3 1 2 2' '4 4 4 0.0' > zero.tns
printf '%s\n' '1 1 1 5' '1 2 1 0' '2 1 1 0' '2 2 1 0' '3 1 2 2' '4 4 4 0' > zero.all
"$bin/tshard" build zero.tns --zeros keep -o z.tsh -f > log
grep -q 'dropped 0 zeros' log || bad "zeros are dropped: $(cat log)"
same z.tsh zero.all
"$bin/tshard" info z.tsh | tr -s ' \n' '  ' | grep -q 'cells of value 0 kept' || bad "info does not tell of zeros"
"$bin/tshard" info z.tsh --json | grep -q '"format_version":2,.*"keeps_zeros":true' || bad "info --json: zeros"
awk 'BEGIN { print "a,b,c,x" } { print $1 "," $2 "," $3 "," $4 }' zero.tns > zero.csv
"$bin/tshard" build zero.csv --zeros keep -o y.tsh -f > log
same y.tsh zero.all
{ printf 'sptensor\n3\n4 4 4\n7\n'; cat zero.tns; } > zero.sp
"$bin/tshard" build zero.sp --zeros keep -o y.tsh -f > log
diff -r y.tsh z.tsh > log || bad "other bytes of a file with a header: $(cat log)"
"$bin/../tests/write_binary" splatt 8 8 little 3 < zero.tns > zero.bin
"$bin/tshard" build zero.bin --zeros keep -o y.tsh -f > log
awk '{ print $1 - 1, $2 - 1, $3 - 1, $4 }' zero.all > want1
same y.tsh want1
printf '%%%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n2 1 0\n3 1 4\n' > zero.mtx
"$bin/tshard" build zero.mtx --zeros keep -o y.tsh -f > log
printf '%s\n' '1 2 0' '1 3 -4' '2 1 0' '3 1 4' > want1
same y.tsh want1
"$bin/tshard" build zero.tns --zeros keep --duplicates keep --transform scale=-2 --values float64 -o y.tsh -f > log
awk '{ print $1, $2, $3, $4 == 0 ? 0 : -2 * $4 }' zero.tns > want1
same y.tsh want1
"$bin/tshard" build zero.tns -o y.tsh -f > log
awk '$4 != 0' zero.all > want1
same y.tsh want1
"$bin/tshard" info y.tsh --json | grep -q '"format_version":1,.*"keeps_zeros":false' || bad "zeros are kept by themselves"
refused 1 'd2.tns:2: a second nonzero at 1 2 1' sh -c 'cp zero.all d1.tns; printf "9 9 9 1\n1 2 1 0\n" > d2.tns; "$0" build d1.tns d2.tns --zeros keep --duplicates error -o no.tsh' "$bin/tshard"
refused 1 '2 read, 2 of them zero' sh -c 'printf "1 1 0\n2 2 0\n" | "$0" build - -o no.tsh' "$bin/tshard"
printf '1 1 0\n2 2 0\n' | "$bin/tshard" build - --zeros keep -q -o only.tsh > log 2>&1 || bad "kept zeros alone: $(cat log)"
refused 1 'all values are 0, so there is nothing to decompose' "$bin/tstream" cp only.tsh --cpu -n
"$bin/tshard" select z.tsh --sum 3 -o y.tsh -f > log
printf '%s\n' '1 1 5' '1 2 0' '2 1 0' '2 2 0' '3 1 2' '4 4 0' > want1
same y.tsh want1
"$bin/tshard" gen --dims 60x50x40 --nnz 3000 --value 0..4 -o zeros.tns > log
"$bin/tshard" build zeros.tns --zeros keep --duplicates keep -o z.tsh -f > log
"$bin/tshard" split z.tsh -f --train a.tsh --test b.tsh > log
{ "$bin/tshard" export a.tsh; "$bin/tshard" export b.tsh; } | sort > have
sort zeros.tns | cmp -s - have || bad "split loses zeros"
"$bin/tshard" info b.tsh --json | grep -q '"keeps_zeros":true' || bad "split forgets that zeros are kept"
for value in 0 1e-170; do # one part would have such values alone: neither is built
    awk -v x=$value 'BEGIN { for (i = 1; i < 9; i++) print i, i, x; print 9, 9, 1 }' > mostly.tns
    "$bin/tshard" build mostly.tns --zeros keep --values float64 -o y.tsh -f > log
    refused 1 '.tsh would have no values whose squares are above 0' "$bin/tshard" split y.tsh --train one.tsh --test two.tsh
done
refused 1 'two.tsh would have no nonzeros' "$bin/tshard" split y.tsh --hold-out 0.01% --train one.tsh --test two.tsh
[ ! -e one.tsh ] && [ ! -e two.tsh ] || bad "split: one part was made of two that are refused"
# of these a model of rank 1 has no error, unless it has to be 0 somewhere
awk 'BEGIN { for (i = 1; i <= 9; i++) for (j = 1; j <= 9; j++) if ((i + j) % 3) print i, j, (i + 2 * j) % 5 ? 4 : 0 }' > four.tns
for zeros in drop keep; do
    "$bin/tshard" build four.tns --zeros $zeros -o y.tsh -f > log
    "$bin/tstream" cp y.tsh --cpu --observed --rank 1 --l2 1e-6 --iters 30 --json --no-output > log 2> err || bad "$(cat err)"
    sed -n 's/.*"event":"done".*"rmse":\([-0-9.e]*\),.*/\1/p' log > $zeros.rmse
done
awk -v d="$(cat drop.rmse)" -v k="$(cat keep.rmse)" 'BEGIN { exit !(d < 1e-3 && k > 0.5) }' || bad "zeros are not fitted: $(cat drop.rmse keep.rmse)"

# ---- refusals ----
rm -rf y.tsh z.tsh
refused 2 'expected a share like 20% or 0.2' "$bin/tshard" split x.tsh --hold-out 1
refused 2 'expected a share like 20% or 0.2' "$bin/tshard" split x.tsh --hold-out 20%%
refused 1 'exists; --force replaces it' "$bin/tshard" split x.tsh --train a.tsh --test b.tsh
refused 2 'have two names' "$bin/tshard" split x.tsh --train a.tsh --test a.tsh
refused 2 'have two names' "$bin/tshard" split x.tsh --train new.tsh --test ./new.tsh
# It was replaced by its first part, and the second part was lost.
cp -r x.tsh kept.tsh
ln -s kept.tsh link.tsh
for name in kept.tsh ./kept.tsh/ link.tsh; do
    refused 2 'is the tensor itself' "$bin/tshard" split kept.tsh -f --train "$name" --test other.tsh
    refused 2 'is the tensor itself' "$bin/tshard" split kept.tsh -f --train other.tsh --test "$name"
done
diff -r x.tsh kept.tsh > log || bad "split: its own tensor was changed"
[ ! -e other.tsh ] || bad "split: something was made of what is refused"
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
refused 2 '1 mode would be left of 3' "$bin/tshard" select x.tsh --sum 1,2 -o y.tsh
refused 1 'no nonzeros to build' "$bin/tshard" select x.tsh --at-least 70000 -o y.tsh

# ---- damage behind the first shard is told of, and ends the command ----
"$bin/tshard" gen --dims 300x200x100 --nnz 60000 --shard 64K -o damaged.tsh > log 2>&1
printf 'XXXXXXXX' | dd of=damaged.tsh/mode1.shards bs=1 seek=$(($(wc -c < damaged.tsh/mode1.shards) - 6000)) conv=notrunc 2> /dev/null
for threads in 1 3; do
    refused 1 'the file is damaged' timeout 30 "$bin/tshard" select damaged.tsh --keep 2=1..50 -t $threads -o y.tsh
    refused 1 'the file is damaged' timeout 30 "$bin/tshard" split damaged.tsh -t $threads
done

exit $failed
