#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Several models of tstream cp (--rank 4,6 --restarts 3): each has the bytes of its own run, whatever stopped the
# run in between; the table says what the models say; what is no run of several models is refused.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

"$bin/tshard" gen --dims 90x80x70 --nnz 6000 -s 3 -o x.tsh > log 2>&1
"$bin/tshard" gen --dims 90x80x70 --nnz 6000 -s 4 -o other.tsh > log 2>&1
"$bin/tshard" gen --dims 900x800x700 --nnz 60000 -s 3 -o y.tsh > log 2>&1
cp_cpu() { "$bin/tstream" cp --cpu "$@"; }

# column NAME FILE: that column of a table with a head
column()
{
    awk -F '\t' -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print $at }' "$2"
}

# ---- each model is that of its own run, and the table says so ----
cp_cpu x.tsh --rank 4,6 --restarts 3 --seed 5 --format ktensor,npy --save-init --diagnose -m 100K -o x.cp > out 2> err ||
    bad "exit $?: $(cat err)"
for rank in 4 6; do
    for seed in 5 6 7; do
        name=r$rank.s$seed
        cp_cpu x.tsh --rank $rank --seed $seed --format ktensor,npy --save-init -t 1 -o alone.$name > log 2>&1
        for file in alone."$name"/*; do
            file=${file##*/}
            case $file in
            run.json | state) [ -e x.cp/$name/"$file" ] || bad "$name: no $file" ;;
            *) cmp -s "alone.$name/$file" "x.cp/$name/$file" || bad "$name/$file: not the bytes of its own run" ;;
            esac
        done
        fit=$(sed 's/.*"fit":\([^,}]*\).*/\1/' alone.$name/run.json)
        grep -q "^$name	$rank	$seed	$fit	" x.cp/models.tsv || bad "$name: another fit than $fit in the table"
        grep -q "\"rank\":$rank,\"restarts\":1" x.cp/$name/run.json || bad "$name: options in run.json"
    done
    best=$(readlink x.cp/best.r$rank)
    top_fit=$(awk -F '\t' -v rank=$rank '$2 == rank { print $4 }' x.cp/models.tsv | sort -g | tail -n 1)
    [ "$(awk -F '\t' -v name="$best" '$1 == name { print $4, $11 }' x.cp/models.tsv)" = "$top_fit 1" ] ||
        bad "best.r$rank is $best"
    # the score is that of tstream compare, the core consistency that of tstream fit
    for seed in 5 6 7; do
        "$bin/tstream" compare --json x.cp/best.r$rank x.cp/r$rank.s$seed > compared
        score=$(sed 's/.*"weights":true,"score":\([^,]*\),.*/\1/' compared)
        told=$(awk -F '\t' -v name=r$rank.s$seed '$1 == name { print $10 }' x.cp/models.tsv)
        awk -v a="$score" -v b="$told" 'BEGIN { exit !(a - b < 1e-12 && b - a < 1e-12) }' ||
            bad "r$rank.s$seed: score $told, tstream compare says $score"
    done
    "$bin/tstream" fit --cpu --diagnose --json x.cp/best.r$rank x.tsh > fit
    core=$(sed 's/.*"core_consistency":\([^,]*\),.*/\1/' fit)
    told=$(awk -F '\t' -v name="$best" '$1 == name { print $12 }' x.cp/models.tsv)
    awk -v a="$core" -v b="$told" 'BEGIN { exit !(a - b < 1e-9 && b - a < 1e-9) }' ||
        bad "best.r$rank: core consistency $told, tstream fit says $core"
done
# from singular vectors, which other passes find before those of all
cp_cpu x.tsh --rank 4 --restarts 2 --seed 5 --iters 4 --init nvecs --format npy --save-init -o vectors.cp > out.vectors 2>&1 ||
    bad "--init nvecs: $(cat out.vectors)"
for seed in 5 6; do
    cp_cpu x.tsh --rank 4 --seed $seed --iters 4 --init nvecs --format npy --save-init -t 1 -o vectors.$seed > log 2>&1
    for file in mode1.npy mode2.npy mode3.npy weights.npy init.ktensor; do
        cmp -s vectors.$seed/$file vectors.cp/r4.s$seed/$file || bad "nvecs, seed $seed: $file is not that of its own run"
    done
done
[ "$(column best x.cp/models.tsv | grep -c 1)" -eq 2 ] || bad "not one best model of each rank"
[ "$(grep -c '^r[46][.]s[567] ' out)" -eq 6 ] || bad "not a line for each model: $(cat out)"
if ls -d x.cp.partial x.cp/status.json x.cp/*.partial > left 2> /dev/null; then bad "left: $(cat left)"; fi

# ---- nothing of one start is left in the next one: near a fit of 1 float32 sums in another way; with constraints ----
"$bin/tshard" gen --planted 2 --dims 30x20x10 --nnz 3000 -s 5 -o planted.tsh > log 2>&1
for more in '' '--precision float64' '--nonneg --l1 0.1' '-i 2 --tol 0' '--nonneg 2 -m 100K'; do
    rm -rf near.cp
    # shellcheck disable=SC2086
    cp_cpu planted.tsh --rank 2,3 --restarts 3 $more -o near.cp > log 2>&1 || bad "planted $more: $(cat log)"
    for name in r2.s1 r2.s2 r2.s3 r3.s1 r3.s2 r3.s3; do
        rank=${name%.*}
        # shellcheck disable=SC2086
        cp_cpu planted.tsh --rank ${rank#r} --seed ${name#*s} $more -o near.one --force > log 2>&1
        cmp -s near.one/model.ktensor near.cp/$name/model.ktensor || bad "planted $more: $name is not that of its own run"
    done
done

# ---- side by side: different ranks, threads, constraints, fewer sweeps; in turns where memory is small ----
"$bin/tshard" gen --planted 3 --dims 40x30x20 --nnz 2000 -s 6 -o mixed.tsh > log 2>&1
at_once() { "$bin/tstream" plan --cpu -t 2 --json "$@" | sed 's/.*"side_by_side":\([0-9]*\),.*/\1/'; }
for more in '' '--accelerate -t 3' '--nonneg -t 3' '--simplex 2 -i 5' '--orthogonal 1' '--smooth 1=0.5' '--smooth 1=0.5,3 --nonneg 1,2 --l1 3=0.1' '--bounds 2=0:1 --l2 0.1' '--precision float64' '-m 300K -t 2' '-m 200K --l1 1=0.1 -t 2'; do
    rm -rf mixed.cp
    # shellcheck disable=SC2086
    cp_cpu mixed.tsh --rank 3,1,17,8 -i 12 $more -o mixed.cp > log 2>&1 || bad "mixed ranks $more: $(cat log)"
    for rank in 1 3 8 17; do
        # shellcheck disable=SC2086
        cp_cpu mixed.tsh --rank $rank -i 12 $more -t 1 -o mixed.one --force > log 2>&1
        cmp -s mixed.one/model.ktensor mixed.cp/r$rank.s1/model.ktensor || bad "mixed ranks $more: r$rank.s1 is not that of its own run"
    done
done
[ "$(at_once mixed.tsh --rank 3,1,17,8)" -eq 4 ] || bad "not all four side by side"
few=$(at_once mixed.tsh --rank 3,1,17,8 --restarts 40 -m 300K)
[ "$few" -ge 1 ] && [ "$few" -lt 64 ] || bad "300K is enough for $few models at once"
[ "$(at_once mixed.tsh --rank 3)" -eq 1 ] || bad "one model, side by side"

# ---- factors that no cache of a core holds: two at once, or up to 256 bytes of a row, where all shards stay, as many as may be where they are read ----
"$bin/tshard" gen --dims 600000x30x20 --nnz 400000 -s 8 -o long.tsh > log 2>&1
[ "$(at_once long.tsh --rank 33 --restarts 8)" -eq 2 ] || bad "factors of 330 MB for three: more than two at once"
[ "$(at_once long.tsh --rank 16 --restarts 8)" -le 4 ] || bad "rows of 64 bytes: more than four at once"
[ "$(at_once x.tsh --rank 4 --restarts 8)" -eq 8 ] || bad "factors of 20 KB, not all at once"

# ---- what is read for one is read for all ----
"$bin/tshard" gen --dims 300x300x300 --nnz 800000 -s 7 -o large.tsh > log 2>&1
[ "$(at_once large.tsh --rank 4 --restarts 4 -m 3M)" -eq 4 ] || bad "3M is too little for 4 models at once"
read_bytes() { sed -n 's/^{"event":"sweep".*"bytes_read":\([0-9]*\),.*/\1/p' "$1" | awk '{ sum += $1 } END { printf "%d\n", sum }'; }
cp_cpu large.tsh -t 2 --rank 4 -i 6 --tol 0 -m 3M --json -n > told
one=$(read_bytes told)
cp_cpu large.tsh -t 2 --rank 4 --restarts 4 -i 6 --tol 0 -m 3M --json -o large.cp > told
four=$(read_bytes told)
[ "$one" -gt 5000000 ] || bad "$one bytes are read: nothing is streamed"
[ "$four" -lt $((one * 3 / 2)) ] || bad "$four bytes are read for four models, $one for one"

# ---- which model is meant ----
refused 1 'name one of them, as x.cp/best.r4' "$bin/tstream" top x.cp x.tsh
refused 1 'name one of them' "$bin/tstream" fit x.cp x.tsh
"$bin/tstream" info x.cp > told || bad "info"
grep -q '^r6[.]s7 ' told || bad "info: $(cat told)"
"$bin/tstream" info --json x.cp | cmp -s - x.cp/models.json || bad "info --json is not models.json"
"$bin/tstream" status x.cp | grep -q '6 models' || bad "status of models that are done"
cp_cpu x.tsh --rank 3 --restarts 2 -o one.cp > log 2>&1
"$bin/tstream" export one.cp -o a.csv > log 2>&1 || bad "export: $(cat log)"
"$bin/tstream" export one.cp/best.r3 -o b.csv > log 2>&1
cmp -s a.csv b.csv || bad "the only rank is not that of X.cp"
cp_cpu x.tsh --init one.cp --iters 2 -o from.cp > log 2>&1 || bad "--init of several models: $(cat log)"

# ---- starts that are given: to the first model of the rank, and to each of a directory of several ----
"$bin/tstream" cp --cpu x.tsh --rank 4,3 --restarts 2 --init x.cp/best.r4 -i 3 --tol 0 -o given.cp > log 2>&1 || bad "--init FILE: $(cat log)"
grep -q '1 of 4 models starts from x.cp/best.r4, the others from random numbers' log || bad "--init FILE: $(cat log)"
cp_cpu x.tsh --init x.cp/best.r4 -i 3 --tol 0 -o given.1 > log 2>&1
cp_cpu x.tsh --rank 4 --seed 2 -i 3 --tol 0 -o given.2 > log 2>&1
cp_cpu x.tsh --rank 3 -i 3 --tol 0 -o given.3 > log 2>&1
for pair in 1:r4.s1 2:r4.s2 3:r3.s1; do
    cmp -s given.${pair%:*}/model.ktensor given.cp/${pair#*:}/model.ktensor || bad "--init FILE: ${pair#*:} has another start"
done
cp_cpu x.tsh --rank 4,6 --restarts 3 --seed 6 --init x.cp -i 3 --tol 0 --fix 2 -o no.cp > log 2>&1 && bad "--fix of models without a start"
grep -q 'none for model r4.s8 of 6' log || bad "--fix: $(cat log)"
cp_cpu x.tsh --rank 4,6 --restarts 2 --seed 6 --init x.cp -i 3 --tol 0 --fix 2 -o each.cp > log 2>&1 || bad "--init DIR: $(cat log)"
cp_cpu x.tsh --init x.cp/r6.s7 -i 3 --tol 0 --fix 2 -o given.4 > log 2>&1
cmp -s given.4/model.ktensor each.cp/r6.s7/model.ktensor || bad "--init DIR: r6.s7 has another start"
cp_cpu x.tsh --rank 5,7 --init x.cp -o no.cp > log 2>&1 && bad "--init without a model of that rank"
grep -q 'none of the models starts from it' log || bad "--init DIR: $(cat log)"


# ---- the page of one of them has the table ----
"$bin/tstream" report x.cp/best.r4 x.tsh > log 2>&1 || bad "report: $(cat log)"
[ -e x.best.r4.html ] || bad "the page is not called x.best.r4.html: $(ls ./*.html)"
[ "$(grep -c '<tr><td>r[46][.]s[567]' x.best.r4.html)" -eq 6 ] || bad "the page has no table of 6 models"
[ "$(grep -c ' (best)</td>' x.best.r4.html)" -eq 2 ] || bad "the page does not name the best models"
"$bin/tstream" report alone.r4.s5 x.tsh -o alone.html > log 2>&1
grep -q 'Ranks and starts' alone.html && bad "the page of a model that is alone has a table of models"

# ---- what is refused ----
refused 2 'must be 1 to 2048' cp_cpu x.tsh --rank 4,0
refused 2 '4 twice' cp_cpu x.tsh --rank 4,6,4
refused 2 'neither a whole number nor several' cp_cpu x.tsh --rank 4,,6
refused 2 'must be 1 to 1000' cp_cpu x.tsh --restarts 0
refused 2 '--no-output needs one' cp_cpu x.tsh --restarts 2 -n
refused 2 '--trace needs one' cp_cpu x.tsh --restarts 2 --trace t.json
refused 2 'tstream fit --diagnose' cp_cpu x.tsh --diagnose
refused 1 'x.cp exists' cp_cpu x.tsh --rank 4,6
refused 1 'for more --iters of one of them, --resume x.cp/NAME' cp_cpu --resume x.cp
# what a kill at the last moment leaves: X.cp.partial is what X.cp has replaced
cp_cpu x.tsh --rank 2,3 -i 2 -o newer.cp > log 2>&1
cp -r newer.cp before.cp
cp_cpu x.tsh --rank 3,2 -i 3 -o newer.cp --force > log 2>&1
mv before.cp newer.cp.partial
printf '4194305 elsewhere\nreplaces\n' > newer.cp/lock
refused 1 'all its models are done' cp_cpu --resume newer.cp
rm newer.cp.partial/models.json # it was killed while that was removed
refused 1 'all its models are done' cp_cpu --resume newer.cp
"$bin/tstream" status newer.cp | grep -q 'ended' || bad "status takes what was replaced for a run"
rm newer.cp/lock # so it is a run beside an old result
cp_cpu --resume newer.cp > log 2>&1 || bad "a run beside an old result does not go on: $(cat log)"
cp newer.cp/models.tsv before.tsv
cp_cpu --resume newer.cp/best.r2 -i 5 > log 2>&1 || bad "one of several goes on: $(cat log)"
grep -q 'newer.cp/best.r2 is one of several models: models.tsv, models.json and the links' log || bad "no word on the table: $(cat log)"
cmp -s before.tsv newer.cp/models.tsv || bad "the table is another one"
cp -r newer.cp/r2.s1 beside.partial # a file of the name of its result is no result, and none that was replaced
echo mine > beside
cp_cpu --resume beside -i 6 -o went.on > log 2>&1 || bad "a run beside a file does not go on: $(cat log)"
rm -r beside.partial
refused 1 'beside: holds no state of a run that could go on' cp_cpu --resume beside
cp -r newer.cp copied.cp
rm copied.cp/r*/run.json
refused 1 'neither a record of a run nor a mark shows that this program wrote it (copies' cp_cpu x.tsh --rank 4 -o copied.cp --force
mkdir foreign.cp foreign.cp/r4.s1
echo mine > foreign.cp/r4.s1/notes
refused 1 'which is not a file of a decomposition' cp_cpu x.tsh --rank 4,6 -o foreign.cp --force
[ "$(cat foreign.cp/r4.s1/notes)" = mine ] || bad "a foreign file is gone"

# ---- --force puts several models in the place of one, and the other way round ----
cp_cpu x.tsh --rank 2 -o turn.cp > log 2>&1
cp_cpu x.tsh --rank 2,3 -o turn.cp --force > log 2>&1 || bad "several in the place of one: $(cat log)"
[ "$(cd turn.cp && echo *)" = 'best.r2 best.r3 models.json models.run models.tsv r2.s1 r3.s1' ] ||
    bad "in turn.cp are $(cd turn.cp && echo *)"
cp_cpu x.tsh --rank 3,2 --restarts 2 -o turn.cp --force > log 2>&1 || bad "several in the place of several: $(cat log)"
cp_cpu x.tsh --rank 2 -o turn.cp --force > log 2>&1 || bad "one in the place of several: $(cat log)"
[ "$(cd turn.cp && echo *)" = 'labels model.ktensor run.json state' ] || bad "in turn.cp are $(cd turn.cp && echo *)"
[ ! -e turn.cp.partial ] || bad "turn.cp.partial is left"

# ---- stopped by its time, over and over, in a model and between two ----
run="y.tsh --rank 4,6 --restarts 2 -i 60 --tol 0"
# shellcheck disable=SC2086
cp_cpu $run -o whole.cp > log 2>&1
ms=100
# shellcheck disable=SC2086
until cp_cpu $run -o part.cp --checkpoint 20ms --max-time ${ms}ms > log 2> err && [ ! -e part.cp ]; do
    if [ -e part.cp ]; then # a fast machine: it was done in that time
        rm -r part.cp
        ms=$((ms / 2))
    else
        grep -q 'nothing was saved' err && [ $ms -lt 60000 ] || { bad "--max-time: $(cat err)"; break; }
        ms=$((2 * ms))
    fi
    [ $ms -gt 0 ] || { bad "is never stopped"; break; }
done
grep -q -e '--resume part.cp" goes on with model [1-4] of 4' err || bad "does not say how to go on: $(cat err)"
"$bin/tstream" status part.cp > told || bad "status of a run that was stopped"
grep -q 'stopped' told && grep -q 'model   [1-4] of 4' told && grep -q -e '--resume part.cp' told ||
    bad "status: $(cat told)"
refused_kept()
{
    got=0
    "$@" > out 2> err || got=$?
    [ $got -ne 0 ] || bad "$*: is not refused"
}
# shellcheck disable=SC2086
refused_kept cp_cpu $run -o part.cp
grep -q 'holds the state of a run that did not end' err || bad "a second run: $(cat err)"
refused_kept cp_cpu y.tsh -o part.cp
refused_kept cp_cpu --resume part.cp --rank 4,8
grep -q 'the run has --rank 4,6' err || bad "another rank: $(cat err)"
refused_kept cp_cpu --resume part.cp --iters 61
refused_kept cp_cpu --resume part.cp x.tsh
grep -q 'of another tensor' err || bad "another tensor: $(cat err)"
refused_kept "$bin/tstream" info part.cp
grep -q 'not all of its models are done' err || bad "info: $(cat err)"
n=0
while [ ! -e part.cp ] && [ $n -lt 60 ]; do
    n=$((n + 1))
    cp_cpu --resume part.cp -t $((n % 3 + 1)) --max-time $((ms + 20 * n * n))ms --json > told 2> err ||
        { bad "--resume: exit $?: $(cat err)"; break; }
done
[ $n -ge 1 ] || bad "never stopped"
for name in r4.s1 r4.s2 r6.s1 r6.s2; do
    cmp -s whole.cp/$name/model.ktensor part.cp/$name/model.ktensor || bad "$name: not the bytes of a run without a stop"
done
[ "$(readlink whole.cp/best.r4)" = "$(readlink part.cp/best.r4)" ] || bad "another one is the best"
cut -f 1-7,9-12 whole.cp/models.tsv > a
cut -f 1-7,9-12 part.cp/models.tsv | cmp -s - a || bad "the table differs: $(cat part.cp/models.tsv)"
[ ! -e part.cp.partial ] && [ ! -e part.cp/status.json ] || bad "something is left of the stops"

# ---- a model that is done is kept: here the first, as a stop between two models leaves it ----
mkdir between.cp.partial
cp -r whole.cp/models.run whole.cp/r4.s1 between.cp.partial
cp between.cp.partial/r4.s1/run.json kept.json
cp_cpu --resume between.cp --max-time 1ms > told 2> err || bad "--resume for 1 ms: $(cat err)"
grep -q -e '--resume between.cp" goes on with model [234] of 4' err || bad "does not say how to go on: $(cat err)"
"$bin/tstream" status between.cp > told || bad "status of a run that was stopped between two models"
grep -q 'stopped' told && grep -q 'model   [234] of 4, rank [46], seed [12]$' told && grep -q 'on   *tstream cp --resume' told ||
    bad "status between two models: $(cat told)"
rm -rf between.cp.partial/r[46].s[12].partial between.cp.partial/r4.s2 between.cp.partial/r6.s[12]
cp_cpu --resume between.cp --json > told 2> err || bad "--resume between two models: $(cat err)"
cmp -s kept.json between.cp/r4.s1/run.json || bad "a model that was done is computed again"
grep -q '"event":"start","rank":4,"seed":1' told && bad "a model that was done is told of again"
for name in r4.s1 r4.s2 r6.s1 r6.s2; do
    cmp -s whole.cp/$name/model.ktensor between.cp/$name/model.ktensor || bad "$name: not the same bytes after a stop between"
done

# ---- killed: what there is goes on, or is dropped ----
for signal in $(deadly_signals) KILL:137; do
    rm -rf dead.cp dead.cp.partial
    "$bin/tstream" cp --cpu y.tsh --rank 4,6 --restarts 2 -i 1000000 --tol 0 --checkpoint 10ms -q -o dead.cp > log 2> err &
    pid=$!
    while kill -0 $pid && [ ! -e dead.cp.partial/r4.s1.partial/state.1 ]; do sleep 0.05; done
    kill -"${signal%:*}" $pid
    got=0
    wait $pid 2> /dev/null || got=$?
    [ $got -eq "${signal#*:}" ] || bad "$signal: exit $got: $(cat err)"
    "$bin/tstream" status --json dead.cp | grep -q '"resumable":true' || bad "$signal: cannot be resumed"
done
refused_kept cp_cpu y.tsh --rank 2 -o dead.cp
cp_cpu x.tsh --rank 2 -o dead.cp --force > log 2>&1 || bad "--force over a run that was killed: $(cat log)"
[ ! -e dead.cp.partial ] || bad "dead.cp.partial is left: $(find dead.cp.partial)"

# ---- nothing is left of a run that saved nothing ----
refused 1 'rank' cp_cpu x.tsh --rank 300,301 --diagnose -o none.cp
refused 1 'with --observed they are not' cp_cpu x.tsh --observed --rank 2,3 --diagnose -o none.cp
printf 'a,b,v,w\n1,1,1,2\n2,2,1,3\n' | "$bin/tshard" build --format csv --modes a,b --value v --weights w -o w.tsh - > log 2>&1 || bad "$(cat log)"
refused 1 'its cells have weights, which a core consistency does not use' cp_cpu w.tsh --observed --rank 1,2 --diagnose -o none.cp

# ---- for programs ----
cp_cpu x.tsh --rank 2,3 --restarts 2 --json -o j.cp > told
for event in start done; do
    grep "\"event\":\"$event\"" told | sed 's/.*"rank":\([0-9]*\),"seed":\([0-9]*\),.*/\1 \2/' > ids
    [ "$(grep "\"event\":\"$event\"" told | grep -c '^{"event":"[a-z]*","rank":[23],"seed":[12],')" -eq 4 ] ||
        bad "$event without rank and seed"
done
[ "$(tail -n 1 told | grep -c '^{"event":"models","out":"j.cp",.*"ranks":\[{"rank":2,')" -eq 1 ] || bad "no last event models"
"$bin/tstream" plan --cpu x.tsh --rank 2,3 --restarts 2 --json > planned
grep -q '"models":4' planned || bad "plan: $(cat planned)"
"$bin/tstream" plan --cpu x.tsh --rank 2,3 --restarts 2 | grep -q '4 models' || bad "plan does not tell of 4 models"

# ---- of which nothing is left, or components died ----
cp_cpu x.tsh --rank 2,3 --l1 1e9 -i 4 -o none.cp > log 2> err || bad "--l1 1e9: $(cat err)"
grep -q 'nothing is left of 2 of 2 models: their components are zeros; give smaller penalties' err || bad "no word on the end: $(cat err)"
[ "$(column dead_components none.cp/models.tsv | tr '\n' ' ')" = '2 3 ' ] || bad "$(cat none.cp/models.tsv)"
cp_cpu x.tsh --rank 2 --restarts 2 --bounds 1=0:0 -i 3 -o zero.cp > log 2> err || bad "--bounds 1=0:0: $(cat err)"
grep -q 'nothing is left of 2 of 2 models: .*the bounds of mode 1 let no entry be anything but 0' err || bad "no word on bounds: $(cat err)"
{
    printf '%s\n' ktensor 3 '2 2 2' 2 '1 1' matrix 2 '2 2' '1 1' '1 1'
    printf '%s\n' matrix 2 '2 2' '1 0' '1 0' matrix 2 '2 2' '1 0' '1 0'
} > dies.ktensor
printf '%s\n' '1 1 1 1' '2 1 2 3' '2 2 2 2' '1 2 1 1' > plus.tns
"$bin/tshard" build plus.tns -o plus.tsh -q > log
cp_cpu plus.tsh --rank 1,2 --nonneg --init dies.ktensor -o died.cp > log 2> err || bad "--init dies.ktensor: $(cat err)"
grep -q 'components died in 1 of 2 models, as dead_components of models.tsv tells: .* or another start than that of --init may be better' err ||
    bad "no word on what died: $(cat err)"
cp_cpu x.tsh --rank 2,3 -i 3 -o lives.cp > log 2> err
grep -q -e 'is left of' -e died err && bad "a sentence that is not so: $(cat err)"

# ---- the best is that of the lowest objective where there are penalties ----
cp_cpu x.tsh --rank 3 --restarts 3 --nonneg --l1 0.01 -o pen.cp > log 2>&1 || bad "with penalties: $(cat log)"
best=$(readlink pen.cp/best.r3)
low=$(column objective pen.cp/models.tsv | sort -g | head -n 1)
[ "$(awk -F '\t' -v name="$best" '$1 == name { print $5 }' pen.cp/models.tsv)" = "$low" ] || bad "not the lowest objective"
exit "$failed"
