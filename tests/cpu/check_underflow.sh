#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Values nearer to 0 than float32, or float64, holds as normal numbers become 0 by every way into a tensor: they are counted and
# told of, dropped as zeros are or kept as 0, and norm, scores and exports see the same.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"

# Five values: 0 in float32, subnormal twice, the least normal number, 1
printf '1 1 1 1e-46\n1 1 2 3e-39\n2 1 1 -5e-39\n2 2 1 1.17549435e-38\n2 2 2 1\n' > x.tns
member() { sed "s/.*\"$1\":\([^,}]*\).*/\1/" json; }

# rounds COUNT CELLS PLACE COMMAND...: COUNT values are rounded, CELLS are left, and the note names PLACE
rounds()
{
    count=$1 cells=$2 place=$3
    shift 3
    "$@" -o out.tsh --force --json > json 2> note || bad "$*: $(cat note)"
    [ "$(member rounded_to_zero)" = "$count" ] || bad "$*: $(member rounded_to_zero) are rounded, expected $count"
    [ "$(member nnz)" = "$cells" ] || bad "$*: $(member nnz) cells, expected $cells"
    if [ "$count" -gt 0 ]; then
        grep -q "^tshard [a-z]*: $count values*\\( or weights*\\)* nearer to 0 than float.* became 0$place; " note || bad "$*: $(cat note)"
    elif [ -s note ]; then
        bad "$*: a note without a reason: $(cat note)"
    fi
    "$bin/tshard" verify out.tsh --quiet || bad "$*: not sound"
}
b="$bin/tshard build"

rounds 3 2 ', the first in x.tns:1' $b x.tns
[ "$(member zeros)" = 3 ] || bad "zeros: $(cat json)"
cp -r out.tsh want.tsh
"$bin/tshard" export out.tsh > got
printf '2 2 1 1.1754944e-38\n2 2 2 1\n' | cmp -s - got || bad "export: $(cat got)"
rounds 3 5 ', the first in x.tns:1' $b x.tns --zeros keep
[ "$("$bin/tshard" export out.tsh | grep -c ' 0$')" = 3 ] || bad "kept as 0: $("$bin/tshard" export out.tsh)"
cp -r out.tsh kept.tsh
rounds 0 5 '' $b x.tns --values float64
printf '# c\n1 1 1 5e-324\n1 1 2 1\n2 2 2 2.3e-308\n' > wide.tns
rounds 1 2 ', the first in wide.tns:2' $b wide.tns --values float64

# tables: numbers, names in memory, names that wait, weights
{ echo a,b,c,v; tr ' ' , < x.tns; } > x.csv
rounds 3 2 ', the first in x.csv:2' $b x.csv --modes a,b,c --value v
{ echo a,b,c,v; awk -v OFS=, '{ print "n" $1, "n" $2, "n" $3, $4 }' x.tns; } > names.csv
rounds 3 2 ', the first in names.csv:2' $b names.csv
rounds 3 2 ', the first in names.csv:2' $b names.csv --names sorted
{ echo a,b,c,v,w; awk -v OFS=, '{ print $0, 2 }' x.tns | tr ' ' ,; } > w.csv
rounds 3 2 ', the first in w.csv:2' $b w.csv --modes a,b,c --value v --weights w
rounds 3 5 ', the first in w.csv:2' $b w.csv --modes a,b,c --value v --weights w --zeros keep

# weights: by the same rule, and then the cell counts for nothing, as with a weight of 0
printf 'a,b,c,v,w\n1,1,1,5,1\n1,2,1,7,1e-40\n2,1,1,3,2e-46\n2,2,2,4,1.17549435e-38\n2,2,1,2,0\n' > tiny.csv
rounds 2 5 ', the first in tiny.csv:3' $b tiny.csv --modes a,b,c --value v --weights w
[ "$("$bin/tshard" export out.tsh | sed 's/.* //' | sort | tr '\n' ' ')" = '0 0 0 1 1.1754944e-38 ' ] || bad "weights: $("$bin/tshard" export out.tsh)"
cp -r out.tsh tiny.tsh
rounds 0 2 '' "$bin/tshard" select tiny.tsh --keep 1=1
printf 'a,b,c,v,w\n1,1,1,5,1\n1,2,1,7,0\n2,1,1,3,0\n2,2,2,4,1.17549435e-38\n2,2,1,2,0\n' > none.csv
rounds 0 5 '' $b none.csv --modes a,b,c --value v --weights w
diff -r -x modes -x index -x sums tiny.tsh out.tsh > log || bad "weights that became 0: $(cat log)"
printf 'a,b,c,v,w\n1,1,1,5,1e-39\n1,1,1,9,3\n1,2,1,7,1\n' > twice.csv # a mean by weights, one of which is 0
rounds 1 2 ', the first in twice.csv:2' $b twice.csv --modes a,b,c --value v --weights w
[ "$("$bin/tshard" export out.tsh | head -n 1)" = '1 1 1 9 3' ] || bad "a mean by weights: $("$bin/tshard" export out.tsh)"

# other texts, several files, standard input, binary files
{ printf '%%%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1e-46\n2 1 1e-44\n3 2 7\n'; } > m.mtx
rounds 2 2 ', the first in m.mtx:3' $b m.mtx
printf '3 3 3 1\n' > first.tns
rounds 3 3 ', the first in x.tns:1' $b first.tns x.tns
rounds 3 2 ', the first in standard input:1' sh -c "\"\$0\" build - \"\$@\" < x.tns" "$bin/tshard"
for kind in splatt genten; do
    "$bin/../tests/write_binary" $kind 8 8 little 3 < x.tns > x.bin
    rounds 3 2 '' $b x.bin
    rounds 0 5 '' $b x.bin --values float64
    "$bin/../tests/write_binary" $kind 8 4 little 3 < x.tns > x.bin
    rounds 2 2 '' $b x.bin # float32 in the file holds 1e-46 as 0
done

# sums, transforms and draws
printf '1 1 2e-38\n1 1 -1.9e-38\n2 2 1\n1 2 1e-20\n' > s.tns
rounds 1 2 '' $b s.tns
rounds 2 1 '' $b s.tns --transform scale=1e-25
rounds 0 4 '' $b s.tns --duplicates keep

# a part of it, and what is computed from it
rounds 0 1 '' "$bin/tshard" select want.tsh --keep 3=2
norm() { "$bin/tshard" info "$1" --json | sed 's/.*"norm":\([^,]*\),.*/\1/'; }
within "$(norm want.tsh)" 1 1e-12 || bad "the norm is $(norm want.tsh)"
"$bin/tstream" cp kept.tsh --cpu -r 1 -i 3 --observed -o m.cp > log 2>&1 || bad "$(cat log)"
"$bin/tstream" score m.cp kept.tsh -o lines --force > log 2>&1 || bad "$(cat log)"
awk '{ print $4 + 0 }' lines | sort -g > scored
"$bin/tshard" export kept.tsh | awk '{ print $4 + 0 }' | sort -g | cmp -s - scored || bad "scores of other values than the export's: $(cat lines)"

# all of them: nothing is left
printf '1 1 1e-46\n2 2 1e-45\n' > none.tns
refused 1 'no nonzeros to build no.tsh from: 2 read, 2 of them zero' "$bin/tshard" build none.tns -o no.tsh
exit $failed
