#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The start that tstream cp --save-init writes is the one that it computes from: a run from that file has the same bytes,
# also where slices are empty, and whoever goes on keeps it.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

"$bin/tshard" gen --dims 900x80x70 --nnz 9000 -s 3 -o x.tns > log 2>&1
awk '{ print 2 * $1, $2, 3 * $3, $4 }' x.tns > gaps.tns # modes 1 and 3 have empty slices
"$bin/tshard" build gaps.tns -o x.tsh > log 2>&1
cp="$bin/tstream cp x.tsh --cpu -q --tol 0"
same() { cmp -s "$1" "$2" || bad "$2: not the bytes of $1"; }

for run in '6 float32 1' '17 float64 3'; do
    # shellcheck disable=SC2086
    set -- $run
    $cp -r "$1" -p "$2" -t "$3" -i 3 -s 5 -o plain > log
    $cp -r "$1" -p "$2" -t "$3" -i 3 -s 5 -o drawn --save-init > log
    same plain/model.ktensor drawn/model.ktensor
    [ "$(sed -n '3p' drawn/init.ktensor)" = '1800 80 210' ] || bad "the start has other rows: $(sed -n 3p drawn/init.ktensor)"
    $cp -p "$2" -i 3 -o again --init drawn/init.ktensor --save-init > log
    same plain/model.ktensor again/model.ktensor
    same drawn/init.ktensor again/init.ktensor
    # a result that goes on keeps its start, though the file that it came from is another one now
    cp drawn/init.ktensor changing.ktensor
    $cp -p "$2" -i 1 -o short --init changing.ktensor --save-init > log
    sed '5s/1/2/' changing.ktensor > other.ktensor
    mv other.ktensor changing.ktensor
    "$bin/tstream" cp --cpu -q --resume short -i 3 > log
    same plain/model.ktensor short/model.ktensor
    same drawn/init.ktensor short/init.ktensor
    "$bin/tstream" cp --cpu -q --resume short -i 4 -o elsewhere > log
    same drawn/init.ktensor elsewhere/init.ktensor
    # one that saved none writes what it was given or drawn, where that is there
    $cp -r "$1" -p "$2" -i 1 -s 5 -o bare > log
    "$bin/tstream" cp --cpu -q --resume bare -i 3 --save-init > log
    same drawn/init.ktensor bare/init.ktensor
    $cp -p "$2" -i 1 -o bare --init changing.ktensor --force > log
    rm changing.ktensor
    refused 1 'changing.ktensor, which it was given, is not there' "$bin/tstream" cp --cpu -q --resume bare -i 3 --save-init
    cp drawn/init.ktensor changing.ktensor
    "$bin/tstream" cp --cpu -q --resume bare -i 3 --save-init > log
    same drawn/init.ktensor bare/init.ktensor
    rm -r plain drawn again short elsewhere bare
done

# the mean is a component of the model, not of the start
$cp -r 3 -i 3 --observed --mean -o plain > log
$cp -r 3 -i 3 --observed --mean -o drawn --save-init > log
$cp -i 3 --observed --mean -o again --init drawn/init.ktensor > log || bad "--init with --mean: $(cat log)"
same plain/model.ktensor drawn/model.ktensor
same plain/model.ktensor again/model.ktensor
"$bin/tstream" cp --cpu -q --resume drawn -i 4 > log 2>&1 || bad "--resume with --mean: $(cat log)"

# of a loss it is as it was scaled for it, and cannot be drawn again
"$bin/tshard" gen --dims 60x40x70 --value 1..5 -n 900 -s 4 -q -o counts.tsh > log
rm -r drawn plain again
for how in '--loss huber:1' '--loss poisson-log --observed --nonneg' '--loss gamma --observed --optimizer lbfgsb'; do
    # shellcheck disable=SC2086
    set -- "$bin/tstream" cp counts.tsh --cpu -q --tol 0 -i 2 -s 5 $how
    "$@" -r 4 -o drawn --save-init > log
    "$@" -r 4 -o plain > log
    "$@" -o again --init drawn/init.ktensor > log
    same plain/model.ktensor drawn/model.ktensor
    same plain/model.ktensor again/model.ktensor
    refused 1 'leave --save-init out' "$bin/tstream" cp --cpu --resume plain --save-init -i 3
    # an earlier version wrote it before it was scaled: here that of a run by least squares
    "$bin/tstream" cp counts.tsh --cpu -q -i 1 -s 5 -r 4 -o random --save-init > log
    cp drawn/init.ktensor scaled
    cp random/init.ktensor drawn/init.ktensor
    refused 1 'drawn/init.ktensor: an earlier version wrote it' "$bin/tstream" cp --cpu --resume drawn -i 3
    mv scaled drawn/init.ktensor
    "$bin/tstream" cp --cpu -q --resume drawn -i 3 > log 2>&1 || bad "$how, with its start: $(cat log)"
    rm -r drawn plain again random
done

# where the loss multiplies with 1 they are the same numbers
awk 'BEGIN { for (i = 0; i < 700; i++) print i % 7 + 1, i % 10 + 1, int(i / 70) + 1, 1 }' > ones.tns
"$bin/tshard" build ones.tns -o ones.tsh > log 2>&1
"$bin/tstream" cp ones.tsh --cpu -q -p float64 -r 8 --loss huber:1 --observed -i 1 -o ones --save-init > log
"$bin/tstream" cp --cpu -q --resume ones -i 2 > log 2>&1 || bad "a start of ones: $(cat log)"

# stopped DIR OPTION...: a run that is stopped in its third sweep or later, $sweep
stopped()
{
    : > log # what is waited for is not that of a run before
    "$bin/tstream" cp x.tsh --cpu --tol 0 -i 100000000 -o "$@" > log 2> err &
    pid=$!
    while kill -0 $pid && ! grep -q '^ *2 ' log; do sleep 0.02; done
    kill -TERM $pid
    wait $pid || true
    sweep=$(sed -n 's/.*goes on from sweep \([0-9]*\), mode [123]$/\1/p' err)
}
resume() { "$bin/tstream" cp --cpu -q --resume "$@" > log 2>&1 || bad "--resume $*: $(cat log)"; }

# a run that is stopped keeps it beside its state
stopped long -r 6 -s 7 --save-init
cp long.partial/init.ktensor first
head -c 9000 first > long.partial/init.ktensor
refused 1 'ends too early; remove it' "$bin/tstream" cp --cpu --resume long -i $((sweep + 1))
"$bin/tstream" cp x.tsh --cpu -q -r 5 -i 1 --save-init -o five > log
cp five/init.ktensor long.partial/init.ktensor
refused 1 'its rank is 5, that of the run 6; remove it' "$bin/tstream" cp --cpu --resume long -i $((sweep + 1))
rm long.partial/init.ktensor # which writes it anew
resume long -i $((sweep + 1))
same first long/init.ktensor

# one that had none writes it when it goes on: whole, or none where the disk is full
stopped late -r 6 -s 7
got=0
(ulimit -f 200 && exec "$bin/tstream" cp --cpu -q --resume late -i $((sweep + 1)) --save-init) > log 2> err || got=$?
[ $got -eq 1 ] && grep -q 'init.ktensor.*File too large' err || bad "exit $got where the start does not fit: $(cat err)"
ls late.partial | grep 'init' && bad "a part of a start is left"
resume late -i $((sweep + 1)) --save-init
same first late/init.ktensor

# a user's file of that name is not replaced
mkdir mine
echo notes > mine/init.ktensor
refused 1 "init.ktensor" $cp -i 1 -o mine --force
refused 2 "--save-init and --no-output exclude each other" $cp -n --save-init
mkfifo pipe
timeout 20 sh -c 'cat first > pipe' &
refused 1 'name a file' timeout 20 $cp -i 1 -r 6 --init pipe --save-init -o piped
wait || true

# ---- a run that saved its start and goes on where it is gone ----

# a computed one is told of and left out; one that was drawn or given is written again, and the state remembers
told() { grep -q "$1" err || bad "no word on the start: $(cat err)"; }
go_on() { "$bin/tstream" cp --cpu --resume "$@" > log 2> err || bad "--resume $*: $(cat err)"; }
$cp -i 1 -r 6 --init nvecs --save-init -o gone > log
resume gone -i 2 -n
cp gone/init.ktensor vectors
resume gone -i 2
same vectors gone/init.ktensor
rm gone/init.ktensor
go_on gone -i 3
told 'gone: the start that --save-init wrote is gone'
[ ! -e gone/init.ktensor ] || bad "a start is written that cannot be known"
refused 1 'leave --save-init out' "$bin/tstream" cp --cpu --resume gone --save-init -i 4
for init in random ./vectors; do
    $cp -i 1 -r 6 -s 5 --init $init --save-init -o back --force > log
    for sweeps in 2 3; do
        mv back/init.ktensor first
        resume back -i $sweeps
        same first back/init.ktensor
    done
done
mv vectors elsewhere
rm back/init.ktensor
go_on back -i 4
told 'back: the start that --save-init wrote is gone'
refused 1 'vectors, which it was given, is not there' "$bin/tstream" cp --cpu --resume back --save-init -i 5

# several models: each for itself
$cp -i 100000000 -r 6 -s 5 --restarts 2 --init nvecs --save-init --checkpoint 1ms -o several > log 2> err &
pid=$!
while kill -0 $pid && ! { ls several.partial/r6.s5.partial/state* && ls several.partial/r6.s6.partial/state*; } > log 2>&1; do sleep 0.02; done
kill -TERM $pid
wait $pid || true
rm several.partial/r6.s5.partial/init.ktensor
go_on several --max-time 1s
told 'several.partial/r6.s5: the start that --save-init wrote is gone'
[ -e several.partial/r6.s6.partial/init.ktensor ] || bad "the other start is gone, too"
refused 1 'leave --save-init out' "$bin/tstream" cp --cpu --resume several --save-init
"$TOP_BUILDDIR/tests/reseal" models several.partial/models.run -save-init # as the library of an earlier version left it
rm -r several.partial/r6.s5.partial
go_on several --save-init --max-time 1s
[ -e several.partial/r6.s5.partial/init.ktensor ] || bad "--save-init of models that did not say"
# ---- a component of the start that is zero, and stays so, is named with any method ----
printf '1 1 1 2\n1 2 1 1\n2 1 2 3\n2 2 2 1\n1 1 2 4\n' > small.tns
"$bin/tshard" build small.tns -o small.tsh > log
start() { printf 'ktensor\n3\n2 2 2\n2\n1 1\nmatrix\n2\n2 2\n1 %s\n2 %s\nmatrix\n2\n2 2\n1 %s\n1 %s\nmatrix\n2\n2 2\n3 1\n1 2\n' "$1" "$1" "$2" "$2"; }
start 0 0 > zero.ktensor
start 0 1 > first.ktensor
start 1 1 > whole.ktensor
sed '6,$s/[1-9] [01]$/0 0/' zero.ktensor > zeros.ktensor
for how in '' '--accelerate' '--nonneg' '--observed' '--loss poisson' '--loss huber:1' '--loss huber:1 --optimizer lbfgsb'; do
    # shellcheck disable=SC2086
    "$bin/tstream" cp small.tsh --cpu -i 3 -n --init zero.ktensor $how > log 2> err || bad "$how: $(cat err)"
    grep -q '^tstream cp: zero.ktensor: 1 of 2 components is zero in a mode of this start, and stayed zero' err ||
        bad "$how: no word on a component of zeros: $(cat err)"
    [ "$(wc -l < err)" -eq 1 ] || bad "$how: two sentences: $(cat err)"
    # shellcheck disable=SC2086
    "$bin/tstream" cp small.tsh --cpu -i 3 -n --init whole.ktensor $how > log 2> err || bad "$how: $(cat err)"
    grep -q 'this start' err && bad "$how: a start without zeros: $(cat err)"
done
"$bin/tstream" cp small.tsh --cpu -i 3 -n --init first.ktensor > log 2> err || bad "$(cat err)"
[ ! -s err ] || bad "the first mode of a start is not read: $(cat err)"
"$bin/tstream" cp small.tsh --cpu -i 3 -n --init zeros.ktensor > log 2> err || bad "$(cat err)"
grep -q 'zeros.ktensor: [12] of 2 component.* zero in a mode of this start' err || bad "a start of zeros: $(cat err)"

# ---- a count of 1 has a noun for one ----
printf '1 1 2\n' > one.tns
"$bin/tshard" build one.tns -o one.tsh > log
refused 1 'mode 1 has 1 used index, so' "$bin/tstream" cp one.tsh --cpu -r 2 --orthogonal 1 -n
printf 'ktensor\n3\n1 2 2\n1\n1\nmatrix\n2\n1 1\n1\nmatrix\n2\n2 1\n1\n1\nmatrix\n2\n2 1\n1\n1\n' > row.ktensor
refused 1 'mode 1 of the model has 1 row, of' "$bin/tstream" cp small.tsh --cpu --init row.ktensor -n
refused 1 'mode 1 has 1 row, but' "$bin/tstream" score row.ktensor small.tsh
refused 1 'mode 1 of the model has 1 row, of' "$bin/tstream" fit row.ktensor small.tsh
refused 2 '1 nonzero is too few for 2 planted blocks' "$bin/tshard" gen --dims 5x5 -n 1 --planted 2 -o no.tsh

exit $failed
