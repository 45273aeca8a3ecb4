#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Constraints from the command line: what is written, printed, recorded, resumed, planned and refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
cp_t() { "$bin/tstream" cp t.tsh --cpu -r 5 --seed 4 "$@"; }

"$bin/tshard" gen -o t.tsh --dims 60x50x40 -n 20000 -s 3 --shard 64K -q > gen.out

# No entry below 0 where that was asked for; elsewhere there are some.
cp_t --nonneg 1,2 -i 6 --tol 0 -f npy,splatt -o some.cp > some.out
for k in 1 2; do
    grep -q '^-\| -' some.cp/mode$k.mat && bad "mode $k has entries below 0"
done
cp_t --nonneg -i 6 --tol 0 -f npy -o all.cp --json > all.json
cp_t --nonneg=all -i 6 --tol 0 -f npy -o same.cp -t 1 --host-memory 700K > same.out
cp_t -i 6 --tol 0 --nonneg 1,2,3 -f npy -o three.cp -t 3 > three.out
for k in 1 2 3; do
    cmp all.cp/mode$k.npy same.cp/mode$k.npy
    cmp all.cp/mode$k.npy three.cp/mode$k.npy
done
grep -q '"objective":null' all.json || bad "an objective without a penalty"
grep -q '"nonneg":"all"' all.cp/run.json
"$bin/tstream" info all.cp | grep -q -e '--nonneg' || bad "info does not tell"

# The printed fit is that of the factors written.
printed=$(sed -n 's/.*"event":"done","fit":\([0-9.e-]*\).*/\1/p' all.json)
exact=$("$bin/tstream" fit all.cp t.tsh --cpu --json | sed -n 's/.*"fit":\([0-9.e-]*\).*/\1/p')
awk -v a="$printed" -v b="$exact" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-6) }' ||
    bad "the printed fit is $printed, that of the factors $exact"

# With a penalty the objective is told, and never rises.
cp_t --nonneg --l1 1=0.3 --l2 2=0.1,3=0.1 -i 12 --tol 0 -o pen.cp --json > pen.json
sed -n 's/.*"event":"sweep".*"objective":\([0-9.e+-]*\).*/\1/p' pen.json > objective
[ "$(wc -l < objective)" -eq 12 ]
awk 'NR > 1 && $1 > before * (1 + 1e-6) { exit 1 } { before = $1 }' objective || bad "the objective rises"
cp_t --nonneg --l1 0.3 -i 2 --tol 0 -n | grep -q objective || bad "no column of the objective"
cp_t --l1 1=0.3 -i 1 -n 2>&1 | grep -q "without a penalty on modes 2, 3" || bad "no word on fading"
cp_t --nonneg --l1 1e9 -i 5 -n 2>&1 | grep -q "nothing is left of the model.*give smaller penalties" || bad "no word on the end"
# On the way to the end columns have entries whose squares vanish: what is written of them is zeros, which fit takes.
for sweeps in 3 4; do
    cp_t --l2 3e4 -i $sweeps --tol 0 -p float64 --force -o end.cp > end.out 2>&1
    "$bin/tstream" fit end.cp t.tsh --cpu > end.out 2>&1 || bad "a model of which nothing is left: $(cat end.out)"
done
# Columns within bounds stay as they are, however small, and fit takes them, too, as it takes those that carry the model.
for bounds in 0:1e-170 1=0:1e-130; do
    cp_t --bounds $bounds -i 2 --tol 0 -p float64 --force -o end.cp > end.out 2>&1
    printed=$(sed -n 's/^fit \([^ ]*\) .*/\1/p' end.out)
    "$bin/tstream" fit end.cp t.tsh --cpu > end.out 2>&1 || bad "columns within bounds of $bounds: $(cat end.out)"
    grep -q "^fit $printed " end.out || bad "bounds of $bounds: not $printed, but $(cat end.out)"
done
for bounds in 0:0 2=0:0 2=-1:0; do
    cp_t --nonneg --bounds $bounds -i 3 -n > zero.out 2> zero.err || bad "--bounds $bounds: $(cat zero.err)"
    grep -q 'nothing is left of the model: .*the bounds of mode [12] let no entry be anything but 0' zero.err ||
        bad "--bounds $bounds: $(cat zero.err)"
    grep -q -e --seed -e 'positive part' zero.err && bad "--bounds $bounds: a sentence that is not so: $(cat zero.err)"
done

# A run that was stopped goes on with the same bits, and with no other constraints.
cp_t --nonneg --l2 0.1 -i 9 --tol 0 -f npy -o whole.cp > whole.out
cp_t --nonneg --l2 0.1 -i 4 --tol 0 -f npy -o part.cp > part.out
refused 1 'has no --l1' "$bin/tstream" cp --cpu --resume part.cp --l1 0.5 -i 9 -n
refused 1 'these constraints: nonnegative, l2 0.1; it cannot continue with: nonnegative, l2 0.2' \
    "$bin/tstream" cp --cpu --resume part.cp --l2 0.2 -i 9 -n
refused 1 'mode 2 of the run has these constraints' "$bin/tstream" cp --cpu --resume part.cp --nonneg 1,3 -i 9 -n
"$bin/tstream" cp --resume part.cp -i 7 --cpu > resumed.out
"$bin/tstream" cp --resume part.cp -i 9 --cpu --nonneg 1,2,3 --l2 0.10 > resumed.out # the same in other words
for k in 1 2 3; do
    cmp whole.cp/mode$k.npy part.cp/mode$k.npy
done
cp_t -i 2 --tol 0 -o plain.cp > plain.out

# A run that has no sweep left still tells its objective.
cp_t --l2 0.1 -i 2 --tol 0 -o ridge.cp --json > ridge.json
"$bin/tstream" cp --resume ridge.cp --cpu --json -n > again.json
for f in ridge again; do
    sed -n 's/.*"event":"done".*"objective":\([0-9.e+-]*\).*/\1/p' $f.json > $f.objective
done
paste ridge.objective again.objective | awk '
    { d = $1 - $2; if (d < 0) d = -d; n += $1 > 0 && d <= 1e-9 * $1 } END { exit n != 1 }' ||
    bad "the objective is $(cat ridge.objective), and then $(cat again.objective)"
refused 1 'has no --nonneg' "$bin/tstream" cp --cpu --resume plain.cp --nonneg -i 9 -n

# The product that lies beside the largest factor is planned for: 60 rows of 5 float32.
bytes() { sed -n 's/.*"host_memory":{[^}]*"factor_bytes":\([0-9]*\).*/\1/p'; }
plain=$("$bin/tstream" plan t.tsh --cpu -r 5 --json | bytes)
own=$("$bin/tstream" plan t.tsh --cpu -r 5 --nonneg --json | bytes)
[ $((own - plain)) -eq $((60 * 5 * 4)) ] || bad "planned for factors: $plain bytes, with --nonneg $own"

refused 1 'there is no mode 4, only 3' cp_t --nonneg 2,4 -n
refused 2 "modes are numbers from 1 to 16, not '0'" cp_t --nonneg=0 -n
refused 2 "'x' is neither a mode's number, 1 to 3, nor its name" cp_t --nonneg=x -n
for list in ,1 1, 1,,2; do
    refused 2 "option '--nonneg': a mode is missing before or after a comma" cp_t --nonneg=$list -n
done
refused 2 "'-1' is not a number of 0 or more" cp_t --l1=-1 -n
refused 2 "expected MODE=X after mode 3" cp_t --l2 2=1,3 -n
refused 2 "option '--l1': mode 1 is named twice" cp_t --l1 1=0.1,1=0.5 -n
refused 2 "option '--nonneg': mode 1 is named twice" cp_t --nonneg=1,1 -n
refused 2 "option '--simplex': mode 2 is named twice" cp_t --simplex 2,1,2 -n

# Modes go by their names as well. The run keeps their numbers, for a resumed run and other ranks.
awk 'BEGIN { srand(5); print "user,item,week,value"
    for (i = 0; i < 300; i++)
        printf "u%d,i%d,%d,%d\n", 9 * rand(), 7 * rand(), 1 + 8 * rand(), 1 + 4 * rand() }' > named.csv
"$bin/tshard" build named.csv -o named.tsh -q > named.out
cp_n() { "$bin/tstream" cp "$@" --cpu -r 2 -i 3 -q > named.out 2> named.err; }
cp_n named.tsh --nonneg 1,2 --smooth 3=0.5 --l2 2=0.1 -o numbers.cp
cp_n --nonneg user,item named.tsh --smooth week=0.5 --l2 item=0.1 -o names.cp
cmp numbers.cp/model.ktensor names.cp/model.ktensor || bad "other factors by names of modes"
refused 2 "unexpected operand 'user'; to give it as modes, write --nonneg=user" \
    "$bin/tstream" cp --nonneg named.tsh user
"$bin/tstream" mttkrp named.tsh --cpu -n 1 --mode item --check > named.out || bad "mttkrp by a name"
refused 1 "--mode: 'weak' is neither a mode's number, 1 to 3, nor its name" \
    "$bin/tstream" mttkrp named.tsh --cpu --mode weak
grep -q '"nonneg":"1,2"' names.cp/run.json && grep -q '"smooth":"3=0.5"' names.cp/run.json ||
    bad "run.json by names: $(cat names.cp/run.json)"
"$bin/tstream" cp --cpu --resume names.cp --smooth week=0.5 -i 4 > named.out 2>&1 || bad "resumed by names"
"$bin/tstream" cp --cpu --resume names.cp --smooth item=0.5 -i 5 > named.out 2>&1 && bad "resumed with another mode"
grep -q 'mode 2 of the run has .*; it cannot continue with: nonnegative, smooth 0.5' named.out || bad "$(cat named.out)"
"$bin/tstream" plan named.tsh --cpu --nonneg=week --bounds user=0:1,item=-1:inf > named.out || bad "plan by names"
refused 2 "--smooth: 'weak' is neither a mode's number, 1 to 3, nor its name: user, item, week" "$bin/tstream" cp named.tsh --smooth weak
refused 1 'none.tsh: No such file' "$bin/tstream" cp none.tsh --smooth week
printf 'a,b,c\n1,2,3\n2,1,1\n' > twice.csv
"$bin/tshard" build twice.csv --modes x,x,y --columns a,b,c --value none -q > twice.log 2>&1
refused 2 "modes 1 and 2 are both called 'x'" "$bin/tstream" cp twice.tsh --nonneg=x -n

# Of a tensor that is negative nothing is left, which is no matter of penalties or of --tol.
printf '%s\n' '1 1 1 -1' '2 1 2 -3' '2 2 2 -2' '1 2 1 -1' > minus.tns
"$bin/tshard" build minus.tns -o minus.tsh -q > minus.out
"$bin/tstream" cp minus.tsh --cpu -r 2 --nonneg -n > minus.out 2> minus.err
grep -q 'nothing is left of the model: .* another --seed or --init may' minus.err || bad "no word on the end: $(cat minus.err)"
grep -q -e penalt -e --tol minus.err && bad "a sentence that is not so: $(cat minus.err)"

"$bin/tstream" cp minus.tsh --cpu -r 2 --bounds 0:1 -n > minus.out 2> minus.err
grep -q 'no part of the tensor within the bounds is left' minus.err || bad "no word on bounds: $(cat minus.err)"

# A component that is zero in two modes stays so, and where it came from a file no other seed helps.
{
    printf '%s\n' ktensor 3 '2 2 2' 2 '1 1' matrix 2 '2 2' '1 1' '1 1'
    printf '%s\n' matrix 2 '2 2' '1 0' '1 0' matrix 2 '2 2' '1 0' '1 0'
} > dies.ktensor
sed 's/-//' minus.tns > plus.tns
"$bin/tshard" build plus.tns -o plus.tsh -q > plus.out
"$bin/tstream" cp plus.tsh --cpu -r 2 --nonneg --init dies.ktensor -n > plus.out 2> plus.err
grep -q 'dies.ktensor: 1 of 2 components is zero in a mode of this start, and stayed zero' plus.err ||
    bad "no word on what died: $(cat plus.err)"

"$bin/tstream" cp --help | tr -s " \n" " " | grep -q "negative weights of --init start as their magnitudes" || bad "no word on weights of a start"

# A start without positive entries would be a model of zeros.
awk 'BEGIN { for (i = 1; i <= 4; i++) for (j = 1; j <= 5; j++) for (k = 1; k <= 3; k++) print i, j, k, 2 }' > two.tns
"$bin/tshard" build two.tns -q > log 2>&1
{ printf 'ktensor\n3\n4 5 3\n2\n1 1\n'; for n in 4 5 3; do printf 'matrix\n2\n%s 2\n' $n; seq $n | sed 's/.*/-0.& -0.7/'; done; } > minus.ktensor
refused 1 "must be nonnegative and has no positive entries" "$bin/tstream" cp two.tsh --cpu -r 2 --nonneg --init minus.ktensor -n
refused 1 "mode 3 must be nonnegative" "$bin/tstream" cp two.tsh --cpu -r 2 --nonneg 3 --init minus.ktensor -n

exit $failed
