#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream cp --observed from the outside: ratings of a known model with noise are predicted to the noise where they were held
# out, held-out cells are those of tshard split, the same bytes for any threads and memory and after a stop, and every wrong wish
# gets a sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"

# last NAME: its value in the last event of `json`
last() { tail -n 1 json | sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p"; }
# most A B: A is no more than B
most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a <= b) }'; }

# Rank 2, some 7 % of the cells, noise of standard deviation 0.1: the sum of 12 uniform numbers, less 6
awk 'function u() { state = (state * 1103515245 + 12345) % 2147483648; return state / 2147483648 }
    BEGIN { state = 4242
        for (i = 1; i <= 80; i++) for (r = 1; r <= 2; r++) { a[i, r] = 0.5 + u(); b[i, r] = 0.5 + u(); c[i, r] = u() - 0.5 }
        for (i = 1; i <= 80; i++) for (j = 1; j <= 60; j++) for (k = 1; k <= 40; k++) {
            if (u() > 0.07) continue
            e = -6; for (n = 0; n < 12; n++) e += u()
            printf "%d %d %d %.6f\n", i, j, k, a[i, 1] * b[j, 1] * c[k, 1] + a[i, 2] * b[j, 2] * c[k, 2] + 0.1 * e
        } }' > x.tns
"$bin/tshard" build x.tns --shard 64K > log
cp="$bin/tstream cp x.tsh --observed --cpu -r 2 -f npy"
$cp --hold-out 10% -i 40 --tol 1e-7 -o a.cp --json > json 2> log
most "$(last held_out_rmse)" 0.11 || bad "held-out cells are off by $(last held_out_rmse), and the noise is 0.1"
most "$(last rmse)" 0.105 || bad "observed cells are off by $(last rmse)"
most 0.09 "$(last rmse)" || bad "noise is learnt: $(last rmse)"

# the held-out cells are those of tshard split, and the error is that of the model that was written
held=$(last held_out_rmse) kept=$(last rmse)
"$bin/tshard" split x.tsh --hold-out 10% > log
for part in "test $held" "train $kept"; do
    # shellcheck disable=SC2086
    set -- $part
    "$bin/tstream" score a.cp x.$1.tsh --json > json
    awk -v a="$(last rmse)" -v b="$2" 'BEGIN { d = a / b - 1; exit !(d < 1e-4 && d > -1e-4) }' ||
        bad "$1: the run says $2, tstream score $(last rmse)"
done

# ---- folds likewise: what the parts of all folds hold out is the tensor, and a fold is judged by its part ----
for fold in 1 2 3; do
    "$bin/tshard" split x.tsh --hold-out "fold $fold/3" -s 7 --train train.tsh --test test.tsh --force > log || bad "fold $fold: $(cat log)"
    $cp --hold-out "fold $fold/3" -s 7 -i 3 --tol 0 -o fold.cp --force --json > json 2> log || bad "fold $fold: $(cat log)"
    for part in "test $(last held_out_rmse)" "train $(last rmse)"; do
        # shellcheck disable=SC2086
        set -- $part
        "$bin/tstream" score fold.cp $1.tsh --json > json
        awk -v a="$(last rmse)" -v b="$2" 'BEGIN { d = a / b - 1; exit !(d < 1e-4 && d > -1e-4) }' ||
            bad "fold $fold, $1: the run says $2, tstream score $(last rmse)"
    done
    "$bin/tshard" export test.tsh -o - 2> log >> folds.tns
done
"$bin/tshard" export x.tsh -o - 2> log | sort > whole
sort folds.tns | cmp - whole || bad "three folds are not the tensor"
refused 2 'expected a fold like fold 2/5' "$bin/tshard" split x.tsh --hold-out 'fold 4/3' --force

# ---- ratings beyond a mean, which may be below 0: it is a component of what is written, apart from constraints ----
for mean in 5 -5; do
    awk -v mean=$mean '{ $4 += mean; print }' x.tns > y.tns
    rm -rf y.tsh y.train.tsh y.test.tsh
    "$bin/tshard" build y.tns > log
    "$bin/tstream" cp y.tsh --observed --mean --cpu -r 2 -f npy --hold-out 10% -i 40 --tol 1e-7 --bounds 1=0:9 -o y.cp --force --json > json 2> log ||
        bad "--mean: $(cat log)"
    most "$(last held_out_rmse)" 0.11 || bad "--mean: held-out cells are off by $(last held_out_rmse), and the noise is 0.1"
    held=$(last held_out_rmse) said=$(last mean)
    "$bin/tshard" split y.tsh --hold-out 10% > log
    "$bin/tstream" score y.cp y.test.tsh --json > json
    awk -v a="$(last rmse)" -v b="$held" 'BEGIN { d = a / b - 1; exit !(d < 1e-4 && d > -1e-4) }' ||
        bad "--mean: the run says $held, tstream score $(last rmse)"
    "$bin/tshard" export y.train.tsh -o - 2> log | awk -v said="$said" '{ n++; s += $4 } END { d = said - s / n; exit !(d < 1e-6 && d > -1e-6) }' ||
        bad "the mean is not $said: $(cat log)"
    grep -q "\"mean\":$said" y.cp/run.json || bad "run.json does not have the mean $said"
done
refused 2 '--mean needs --observed and least squares' "$bin/tstream" cp y.tsh --cpu --mean -n
refused 2 'no other loss than least squares' "$bin/tstream" cp y.tsh --cpu --observed --mean --loss huber:1 -n

# ---- one percent of a model that tshard gen plants: what was planted is off by the noise, what is recovered by little more ----
"$bin/tshard" gen --ratings 3 --noise 0.3 --dims 300x200x100 -n 60000 -t 1 -o r.tsh --truth r.ktensor > log || bad "gen: $(cat log)"
grep -q 'read 60,000, merged 0 duplicates, dropped 0 zeros' log || bad "ratings of one cell: $(cat log)"
"$bin/tshard" gen --ratings 3 --noise 0.3 --dims 300x200x100 -n 60000 -t 3 -o r2.tsh > log
diff -r r.tsh r2.tsh > log || bad "gen: other bytes with three threads: $(cat log)"
"$bin/tstream" score r.ktensor r.tsh --json > json
most 0.295 "$(last rmse)" && most "$(last rmse)" 0.305 || bad "ratings are off the truth by $(last rmse), and the noise is 0.3"
best=9
for seed in 1 3 4; do # a start may need more sweeps than are given here
    "$bin/tstream" cp r.tsh --cpu --observed -r 3 --l2 0.1 --hold-out 10% -s $seed -i 30 -n -t 2 --json > json 2> log || bad "$(cat log)"
    most "$best" "$(last held_out_rmse)" || best=$(last held_out_rmse)
done
most "$best" 0.33 || bad "ratings that are held out are off by $best, and the noise is 0.3"
"$bin/tshard" gen --ratings 4 --dims 3x4x5 -n 60 -o r.tns --truth r4.ktensor --values float64 > log
[ "$(cut -d ' ' -f 1-3 r.tns | sort -u | wc -l)" -eq 60 ] || bad "60 ratings are not all 60 cells"
cut -d ' ' -f 1-3 r.tns | "$bin/tstream" predict r4.ktensor - 2> log | cut -d ' ' -f 4 | paste -d ' ' r.tns - |
    awk '{ d = $4 - $5; if (d * d > 1e-20) exit 1; s += $4 * $4 } END { exit !(s > 6 && s < 200) }' || bad "ratings are not those of the truth: $(cat log)"
refused 2 '61 ratings do not fit 60 cells' "$bin/tshard" gen --ratings 4 --dims 3x4x5 -n 61 -o no.tsh
refused 2 'from at most 2^62 cells' "$bin/tshard" gen --ratings 4 --dims 3000000000x3000000000 -n 61 -o no.tsh
refused 2 '--ratings and --planted exclude each other' "$bin/tshard" gen --ratings 4 --planted 2 -o no.tsh
refused 2 '--ratings and --law exclude each other' "$bin/tshard" gen --ratings 4 --law uniform -o no.tsh

# ---- any threads and memory, and after a stop ----
same() { for f in "$1"/*.npy; do cmp -s "$f" "$2/${f##*/}" || bad "$3: $f differs"; done; }
for how in '--nonneg 1,2 --precision float64' '--l2 0.02 --l2-scale count --hold-out 5% --seed 3 --mean'; do
    # shellcheck disable=SC2086
    $cp $how -i 6 --tol 0 -t 1 -o one.cp --force > log 2>&1
    # shellcheck disable=SC2086
    $cp $how -i 6 --tol 0 -t 4 -m 300K -o four.cp --force > log 2>&1
    same one.cp four.cp "$how, four threads"
    # shellcheck disable=SC2086
    $cp $how -i 2 --tol 0 -t 3 -o part.cp --force > log 2>&1
    "$bin/tstream" cp --resume part.cp -i 6 > log 2>&1 || bad "resume: $(cat log)"
    same one.cp part.cp "$how, after a stop"
done
refused 1 'it cannot continue with --hold-out 6%' "$bin/tstream" cp --resume part.cp --hold-out 6% -i 9

# ---- a penalty in whose shape it is, patience, plan, what is printed ----
$cp --hold-out 20% -r 30 --l2 0.001 --patience 2 -i 60 -o best.cp > log 2>&1
grep -q "of sweep [0-9]*, the best of [0-9]* (held-out error no longer falls)" log || bad "patience: $(cat log)"
best=$(sed -n 's/.*of sweep \([0-9]*\), the best of.*/\1/p' log)
$cp --hold-out 20% -r 30 --l2 0.001 -i "$best" --tol 0 -o early.cp > early.log 2>&1
same best.cp early.cp "patience: the best sweep"
grep -q "\"best_sweep\":$best," best.cp/run.json || bad "run.json does not name sweep $best"
head -n 1 log | grep -q 'fit .*RMSE  *held out' || bad "columns: $(head -n 1 log)"
"$bin/tstream" plan x.tsh --cpu --rank 2 > log 2>&1
"$bin/tstream" plan x.tsh --cpu --rank 2 --observed --json > json 2> log || bad "plan: $(cat log)"

# ---- ranks and starts, one after another: the files of their own runs, and the best is the one with the least error at held-out cells ----
several="$bin/tstream cp x.tsh --observed --cpu -f npy --hold-out 10% -i 5 --tol 0"
$several -r 2,20 --restarts 2 --l2 1e-4 -o several.cp > log 2>&1 || bad "several: $(cat log)"
for model in 2.1 2.2 20.1; do
    $several -r ${model%.*} -s ${model#*.} --l2 1e-4 -o own.cp --force > own.log 2>&1 || bad "$(cat own.log)"
    same own.cp several.cp/r${model%.*}.s${model#*.} "rank ${model%.*}, seed ${model#*.}"
done
head -n 1 log | grep -q 'held out' || bad "several: no column of held-out errors: $(head -n 1 log)"
awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { r = $at["rank"]; e = $at["held_out_rmse"]; if (!(r in least) || e < least[r]) { least[r] = e; best[r] = $at["model"] }
      if ($at["best"] == 1) said[r] = $at["model"]; n += e > 0 }
    END { for (r in best) if (best[r] != said[r]) exit 1; exit n != 4 }' several.cp/models.tsv ||
    bad "the best are not those with the least error: $(cat several.cp/models.tsv)"

# ---- folds: the first is what is held out, no cell is in two, and the table tells their mean ----
for how in '--observed --l2 0.1' '--loss huber:1' '' '--observed --patience 1'; do
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh --cpu $how -r 1,2 --folds 5 -i 3 --tol 0 -s 3 --json > json 2> log || bad "--folds: $(cat log)"
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh --cpu $how -r 2 --hold-out 20% -i 3 --tol 0 -s 3 -n --json 2> log | tail -n 1 > one
    said=$(sed -n 's/.*\("held_out_rmse":[^,]*,"held_out_loss":[^,]*\),.*/\1/p' one)
    grep '"rank":2,"fold":1,' json | grep -qF "$said" || bad "--folds $how: the first fold is not $said: $(cat json)"
    [ "$(grep -c '"event":"fold"' json)" -eq 10 ] || bad "--folds $how: $(cat json)"
    grep '"event":"fold"' json | sed 's/.*"rank":\([0-9]*\).*"held_out_rmse":\([^,]*\),"held_out_loss":\([^,]*\),.*/\1 \2 \3/; s/null//' |
        awk -v all="$(tail -n 1 json)" '{ s[$1] += $2 / 5; if (seen[$2]++) exit 1 }
            END { for (r in s) { t = all; sub(".*\"rank\":" r ",\"held_out\":", "", t); d = (t + 0) / s[r] - 1; if (d > 1e-9 || d < -1e-9) exit 1 } }' ||
        bad "--folds $how: the means are not those of the folds: $(cat json)"
done
"$bin/tstream" cp x.tsh --cpu --observed -r 1,2 --folds 3 -i 2 > log 2>&1 || bad "$(cat log)"
head -n 1 log | grep -q 'rank  *held out std error  *fold 1  *fold 2  *fold 3' || bad "--folds: $(cat log)"

# ---- kept: each is the model of its own run, whether it is computed beside others or alone, and whatever ends the run before ----
held() { sed 's/.*\("held_out_rmse":[^,]*,"held_out_loss":[^,}]*\).*/\1/' "$1/run.json"; }
for how in '' '-p float64' '--observed --l2 0.1' '--loss huber:1'; do
    # shellcheck disable=SC2086
    folds="$bin/tstream cp x.tsh --cpu $how -f npy -i 4 --tol 0 -s 3"
    rm -rf folds.cp
    began=$(date +%s%N)
    $folds -r 2,20,9 --folds 3 -o folds.cp > log 2>&1 || bad "--folds $how --out: $(cat log)"
    step=$((($(date +%s%N) - began) / 30000000)) # a thirtieth of it, so that a slow build is stopped as often as a fast one
    [ $step -ge 4 ] || step=4
    for model in 2.1 20.2 9.3; do
        $folds -r ${model%.*} --hold-out "fold ${model#*.}/3" -o own.cp --force > own.log 2>&1 || bad "$(cat own.log)"
        same own.cp folds.cp/r${model%.*}.f${model#*.} "$how rank ${model%.*}, fold ${model#*.}"
        [ "$(held own.cp)" = "$(held folds.cp/r${model%.*}.f${model#*.})" ] || bad "$how rank ${model%.*}: errors of fold ${model#*.}"
    done
    refused 1 'nothing to continue' "$bin/tstream" cp --cpu --resume folds.cp
    mv folds.cp whole.cp
    $folds -r 2,20,9 --folds 3 --max-time 1ms -o folds.cp > log 2>&1 || true
    rounds=0
    while [ ! -d folds.cp ] && [ $rounds -lt 60 ]; do
        rounds=$((rounds + 1))
        if [ -d folds.cp.partial ]; then
            "$bin/tstream" cp --cpu --resume folds.cp --max-time $((rounds * step))ms > log 2>&1 || true
        else
            $folds -r 2,20,9 --folds 3 --max-time $((rounds * step))ms -o folds.cp > log 2>&1 || true
        fi
    done
    [ -d folds.cp ] || bad "--folds $how: not done: $(cat log)"
    for model in folds.cp/r*; do
        same "whole.cp/${model#*/}" "$model" "$how $model after stops"
    done
    rm -rf whole.cp
done
[ "$(ls -d folds.cp/r*.f* | wc -l)" -eq 9 ] || bad "folds.cp: $(ls folds.cp)"
rm -rf folds.cp
"$bin/tstream" cp x.tsh --cpu -r 2,9 --folds 3 -i 600 --tol 0 -o folds.cp > log 2>&1 &
pid=$!
while kill -0 $pid 2> log && [ ! -d folds.cp.partial/r2.f1 ]; do sleep 0.02; done
kill -KILL $pid 2> log || true
wait $pid || true
if [ ! -d folds.cp ]; then
    done=$(ls -di folds.cp.partial/r2.f1)
    "$bin/tstream" cp --cpu --resume folds.cp > log 2>&1 || bad "killed: $(cat log)"
    [ "$done" = "$(ls -di folds.cp/r2.f1 | sed 's/folds.cp/&.partial/')" ] || bad "killed: the fold that was done was computed again"
fi
"$bin/tstream" cp x.tsh --cpu -r 9 --hold-out 'fold 3/3' -i 600 --tol 0 -o own.cp --force > log 2>&1
cmp -s own.cp/model.ktensor folds.cp/r9.f3/model.ktensor || bad "killed: other factors"
"$bin/tstream" info folds.cp > log 2>&1 || bad "info: $(cat log)"
refused 2 'expected a fold like fold 2/5' "$bin/tstream" cp x.tsh --hold-out 'fold 6/5'
for fold in fold fold2/5 'fold 2' 'fold  2/5' 'fold -1/5'; do
    refused 2 'expected a fold like fold 2/5' "$bin/tstream" cp x.tsh --hold-out "$fold"
done
refused 2 'cannot be combined with --max-time without --output' "$bin/tstream" cp x.tsh --folds 3 --max-time 1s
refused 2 '--folds must be 2 to 20' "$bin/tstream" cp x.tsh --observed --folds 1
refused 2 'it cannot be combined with --hold-out' "$bin/tstream" cp x.tsh --observed --folds 3 --hold-out 10%

# ---- of few nonzeros a share may be none, or all: nothing is written ----
printf '1 1 1 2\n2 2 2 3\n' > few.tns
"$bin/tshard" build few.tns > log
printf '1 1 1 1\n2 2 2 1\n3 3 3 1\n' > odd.tns # the square of the norm's root is less than 3
"$bin/tshard" build odd.tns > log
none='no nonzero is held out, so there is no error to tell' all='every nonzero is held out, so there is nothing to learn from'
refused 1 "few.tsh: $none: hold out a larger share" "$bin/tstream" cp few.tsh --cpu -r 1 -i 2 --folds 20
for how in '' '--loss poisson' '--loss huber:1' '--observed --loss huber:1' '--nonneg' '--observed' '--observed --mean --patience 3' '--loss huber:1 --optimizer lbfgsb' '-r 1,2'; do
    # shellcheck disable=SC2086
    refused 1 "odd.tsh: $all: hold out a smaller share" "$bin/tstream" cp odd.tsh --cpu -r 1 -i 9 $how --hold-out 0.999999999
    # shellcheck disable=SC2086
    refused 1 "odd.tsh: $none: hold out a larger share" "$bin/tstream" cp odd.tsh --cpu -r 1 -i 9 $how --hold-out 1e-9
done
for left in odd.cp odd.cp.partial few.cp; do [ ! -e $left ] || bad "$left was written"; done
"$bin/tstream" cp x.tsh --cpu -r 1 -i 2 -n --observed --hold-out 10% > log 2>&1
grep -q 'held out, so' log && bad "a tenth held out: $(cat log)"

# ---- refusals ----
refused 2 '--inner needs --loss poisson' "$bin/tstream" cp x.tsh --inner 3 -n
refused 2 '--l2-scale needs --observed' "$bin/tstream" cp x.tsh --l2-scale count
refused 2 '--patience needs --hold-out' "$bin/tstream" cp x.tsh --observed --patience 2
refused 2 'expected a share like 20% or 0.2' "$bin/tstream" cp x.tsh --observed --hold-out 120%
refused 2 'of observed cells alone no l1 is computed' "$bin/tstream" cp x.tsh --observed --l1 1
refused 2 'of observed cells alone no smooth is computed' "$bin/tstream" cp x.tsh --observed --smooth 3
refused 2 '--accelerate' "$bin/tstream" cp x.tsh --observed --accelerate

exit $failed
