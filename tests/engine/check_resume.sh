#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A run of tstream cp that was stopped, again and again, ends with the bytes of one that was not; what is no
# state of it is refused, and nothing changes then.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

"$bin/tshard" gen --dims 900x800x700 --nnz 60000 -s 3 -o x.tns > log 2>&1
awk '{ print 2 * $1, $2, $3, $4 }' x.tns > gaps.tns # mode 1 has empty slices
"$bin/tshard" build gaps.tns -o x.tsh --shard 64K > log 2>&1
cp -r x.tsh kept.tsh
"$bin/tshard" gen --dims 900x800x700 --nnz 60000 -s 4 -o other.tsh > log 2>&1

cp_cpu() { "$bin/tstream" cp --cpu "$@"; }

# in_time MS OPTION...: a run that is stopped after so much time, or, where the machine was too busy to begin in it, after
# 100 ms more, and so on: with twice as much a machine that is busy no longer would end it
in_time()
{
    ms=$1
    shift
    until cp_cpu "$@" --max-time "${ms}ms" > told 2> err; do
        grep -q 'nothing was saved' err && [ "$ms" -lt 20000 ] || { bad "--max-time: $(cat err)"; break; }
        ms=$((ms + 100))
    done
}

# same A B: the models are the same bytes
same() { cmp -s "$1/model.ktensor" "$2/model.ktensor" || bad "$2: not the bytes of $1"; }

# The fit of each sweep, from the record.
record_fits() { grep -o '"sweep":[0-9]*,"fit":[0-9.e+-]*' "$1/run.json"; }

# As many as take this machine a while, so that runs can be stopped.
sweeps=400
while :; do
    began=$(date +%s%N)
    cp_cpu x.tsh -r 6 -i $sweeps --tol 0 -n -q > log 2>&1 || bad "$(cat log)"
    [ $((($(date +%s%N) - began) / 1000000)) -ge 1000 ] || [ $sweeps -ge 100000 ] && break
    sweeps=$((sweeps * 2))
done

# ---- stopped by its time, over and over, with other threads and memory each time ----
for precision in float32 float64; do
    cp_cpu x.tsh -r 6 -i $sweeps --tol 0 -p $precision -o whole.$precision > log
    in_time 100 x.tsh -r 6 -i $sweeps --tol 0 -p $precision -o part.$precision --checkpoint 20ms
    cp told sweeps
    n=0
    while [ ! -e part.$precision ] && [ $n -lt 40 ]; do
        n=$((n + 1))
        grep -q -e '--resume part' err || { bad "does not say how to go on: $(cat err)"; break; }
        memory=400K
        [ $((n % 2)) -eq 0 ] && memory=64M
        cp_cpu --resume part.$precision -t $((n % 3 + 1)) -m $memory --max-time $((300 + 50 * n))ms \
            >> sweeps 2> err || { bad "--resume: exit $?: $(cat err)"; break; }
    done
    [ $n -ge 1 ] || bad "$precision: never stopped"
    same whole.$precision part.$precision
    if [ -e part.$precision.partial ]; then bad "part.$precision.partial is left"; fi
    # each sweep was told once, and the record of the last part tells of all
    [ "$(grep -o '{"sweep":' part.$precision/run.json | wc -l)" -eq $sweeps ] || bad "run.json: not $sweeps sweeps"
    grep -q '"sweeps_before":[1-9].*"ended":"iterations"' part.$precision/run.json || bad "run.json: sweeps_before"
    record_fits whole.$precision > fits
    record_fits part.$precision | cmp - fits || bad "run.json: other fits"
    [ "$(grep -c '^ *[0-9]* *0[.]' sweeps)" -eq $sweeps ] || bad "not $sweeps sweeps: $(cat sweeps)"
done

# ---- stopped by signals, which it dies by; the state is saved without --checkpoint, too ----
for signal in $(deadly_signals); do
    : > log # what is waited for is not that of a run before
    "$bin/tstream" cp --cpu x.tsh -r 6 -i 100000000 --tol 0 -o sig --checkpoint 0 > log 2> err &
    pid=$!
    while kill -0 $pid && ! grep -q '^ *2 ' log; do sleep 0.02; done
    kill -"${signal%:*}" $pid
    got=0
    wait $pid || got=$?
    [ "$got" -eq "${signal#*:}" ] || bad "exit $got after $signal: $(cat err)"
    sweep=$(sed -n 's/.*goes on from sweep \([0-9]*\), mode [123]$/\1/p' err)
    [ "${sweep:-0}" -ge 3 ] || bad "after $signal: $(cat err)"
    grep -q "\"ended\":\"stopped by SIG${signal%:*}\",\"fit\":[0-9]" sig.partial/run.json || bad "run.json after $signal"
    grep -q '"state":"stopped","sentence":"stopped.*--resume sig.*"saved":"20' sig.partial/status.json ||
        bad "after $signal: $(cat sig.partial/status.json)"
    "$bin/tstream" status sig > log || bad "status after $signal"
    grep -q '^sig: stopped$' log && grep -q -e '--resume sig$' log || bad "status after $signal: $(cat log)"
    "$bin/tstream" info sig.partial > log || bad "info after $signal"
    grep -q "stopped by SIG${signal%:*}" log || bad "info after $signal: $(cat log)"
    sweep=$((sweep + 2))
    cp_cpu x.tsh -r 6 -i $sweep --tol 0 -o sig.whole > log
    cp_cpu --resume sig -i $sweep > log || bad "--resume after $signal"
    same sig.whole sig
    if [ -e sig/state ]; then bad "--checkpoint 0: a state in the result"; fi
    rm -r sig sig.whole
done

# ---- stopped by its time, said in JSON ----
in_time 300 x.tsh -r 6 -i 100000000 --tol 0 -o js --json
tail -n 1 told > log
grep -qE '^\{"event":"stopped","by":"--max-time","sweeps":[0-9]+,"seconds":[0-9]+[.][0-9]+,"resume":"js","sweep":[0-9]+,"mode":[123]\}$' \
    log || bad "--json: $(cat log)"
grep -q '"ended":"stopped by --max-time"' js.partial/run.json || bad "run.json after --max-time"
grep -q '"state":"stopped"' js.partial/status.json || bad "status.json after --max-time"
rm -r js.partial
cp_cpu x.tsh -r 6 -i 100000000 --tol 0 -n --max-time 300ms --json > json 2> err || bad "-n --json --max-time: $?"
tail -n 1 json | grep -q '"resume":null}$' || bad "--json: $(tail -n 1 json)"

# ---- a run that had ended goes on, by its name or that of its unfinished directory ----
cp_cpu x.tsh -r 6 -i 5 --tol 0 -o more > log
[ -s more/state ] || bad "no state in the result"
cp -r more older
cp_cpu --resume more/ -i $sweeps > log || bad "--resume of an ended run"
same whole.float32 more
cp -r more later
cp -r older later.partial # as a kill leaves it that comes when the old result is to be removed
printf '4194305 elsewhere\nreplaces\n' > later/lock
cp_cpu --resume later -i $((sweeps + 1)) > log || bad "--resume of an ended run: $?"
[ "$(grep -c '^ *[0-9]* *[0-9][.]' log)" -eq 1 ] || bad "--resume took the older state: $(cat log)"
if [ -e later/lock ] || [ -e later.partial ]; then bad "what was replaced is left"; fi
cp_cpu --resume more.partial -i $sweeps --format npy,ktensor > log
[ -s more/mode2.npy ] || bad "--resume with another --format: $(ls more)"
same whole.float32 more

# ---- what was told of a sweep beside its fit is known of those before the stop, too, and at the end ----
# figures X: of all sweeps; of the "done" of --json
figures() { grep -oE '"sweep":[0-9]+,|"(objective|log_likelihood|violation|rmse|held_out_rmse|held_out_loss|dead_components)":[^,}]*' "$1"; }
told_of=0
for options in '--observed --l2 0.1 --hold-out 10%' '--nonneg --l1 0.1' '--loss poisson --hold-out 10%' '--loss huber:1 --hold-out 10%' \
    '--observed --l2 0.1 --hold-out 10% --patience 9'; do
    for precision in float32 float64; do
        # shellcheck disable=SC2086 # several words
        set -- $options -p $precision -r 3 --tol 0
        cp_cpu x.tsh "$@" -i 6 --json -o six > all.json 2> err || bad "$options: $(cat err)"
        cp_cpu x.tsh "$@" -i 3 -o three > log 2> err || bad "$options: $(cat err)"
        cp_cpu --resume three -i 6 --json > json 2> err || bad "$options: $(cat err)"
        same six three
        figures six/run.json > want
        figures three/run.json | cmp -s - want || bad "$options: run.json tells less of what was resumed: $(cat three/run.json)"
        tail -n 1 all.json | sed 's/,"seconds".*//' > want
        tail -n 1 json | sed 's/,"seconds".*//' | cmp -s - want || bad "$options: $(tail -n 1 json)"
        cp_cpu --resume three --json > json 2> err || bad "$options: $(cat err)" # there is nothing left to do
        sed 's/,"seconds".*//' json | tail -n 1 | cmp -s - want || bad "$options, of a run that had ended: $(cat json)"
        figures six/run.json > want
        figures three/run.json | cmp -s - want || bad "$options, run.json of a run that had ended: $(cat three/run.json)"
        "$bin/tstream" info three > log || bad "info: $(cat log)"
        case $options in
            *hold-out*) grep -q '^sweep  *fit  *change  *held out ' log && grep -qE '^ *2 +[0-9.-]+ +[0-9.e+-]+ +[0-9.e+-]+ +[0-9.]+$' log ;;
            *) grep -q '^sweep  *fit  *change  *seconds ' log ;;
        esac || bad "$options: info tells other columns: $(cat log)"
        rm -r six three
        told_of=$((told_of + 1))
    done
done
[ $told_of -eq 10 ] || bad "$told_of of 10 runs were resumed"

# ---- a tensor that is moved, or built anew, while the run is under way ----
cp_cpu x.tsh -r 6 -i $sweeps --tol 0 -o still > log
: > log
"$bin/tstream" cp --cpu x.tsh -r 6 -i $sweeps --tol 0 -o moved > log 2> err &
pid=$!
while kill -0 $pid && ! grep -q '^ *2 ' log; do sleep 0.01; done
mv x.tsh y.tsh
wait $pid || bad "moved: $(cat err)"
same still moved
mv y.tsh x.tsh
: > log
"$bin/tstream" cp --cpu x.tsh -r 6 -i $sweeps --tol 0 -o moved --force > log 2> err &
pid=$!
while kill -0 $pid && ! grep -q '^ *2 ' log; do sleep 0.01; done
"$bin/tshard" build --force x.tns -o x.tsh > built 2>&1
wait $pid || bad "built anew: $(cat err)"
same still moved

# ---- what is refused ----
refused 1 "is not the tensor of the run in more/state" "$bin/tstream" cp --cpu --resume more -i $((sweeps + 70)) x.tsh
refused 1 "is not the tensor of the run in more/state" "$bin/tstream" cp --cpu --resume more -i $((sweeps + 70)) other.tsh
rm -r x.tsh
cp -r kept.tsh x.tsh
refused 1 "the run has --rank 6, so it cannot continue with --rank 7" "$bin/tstream" cp --resume more -r 7
refused 1 "the run has --precision float32, so" "$bin/tstream" cp --resume more -p float64
refused 1 "the run has --seed 1, so" "$bin/tstream" cp --resume more -s 2
refused 1 "the run is in sweep $sweeps already, and --iters is 3" "$bin/tstream" cp --cpu --resume more -i 3
refused 1 "there is no run of this name" "$bin/tstream" cp --resume none
refused 1 "holds no state of a run" "$bin/tstream" cp --resume x.tsh
refused 2 "is not a duration" "$bin/tstream" cp x.tsh --checkpoint 5
same whole.float32 more

# ---- a state is not lost by a new run; the older one serves when the newer is damaged ----
: > log
"$bin/tstream" cp --cpu x.tsh -r 6 -i 100000 --tol 0 -o two --checkpoint 1ms > log 2> err &
pid=$!
while kill -0 $pid && { [ ! -e two.partial/state.0 ] || [ ! -e two.partial/state.1 ]; }; do sleep 0.02; done
kill -9 $pid
wait $pid 2> log || true
got=0
cp_cpu x.tsh -r 6 -o two > log 2> err || got=$?
[ $got -eq 1 ] || bad "a new run beside a state: exit $got"
grep -q -e '--resume two' err || bad "a new run beside a state: $(cat err)"
cp -r two.partial saved
for k in 0 1; do
    rm -rf two two.partial
    cp -r saved two.partial
    printf 'XXXX' | dd of=two.partial/state.$k bs=1 seek=300 conv=notrunc 2> dd.log
    cp_cpu --resume two -i 100000 --max-time 1s > log 2> err || bad "--resume with a damaged state: $(cat err)"
    grep -q "two.partial/state.$k.*damaged.*going on from the state before it" err || bad "$(cat err)"
    rm -rf two.partial
done
cp -r saved two.partial
for k in 0 1; do : > two.partial/state.$k; done
got=0
cp_cpu --resume two > log 2> err || got=$?
[ $got -eq 1 ] || bad "two damaged states: exit $got"
grep -q "too short for the state of a run" err || bad "two damaged states: $(cat err)"
rm -r two.partial

# ---- without output there is nothing to go on from, and --max-time says so ----
# ---- too few files may be open: the cause, not that something was replaced ----
cp_cpu x.tsh -r 3 -i 2 --tol 0 -o few.cp > log 2>&1 || bad "few.cp: $(cat log)"
cp -r few.cp few2.cp.partial
rm -f few2.cp.partial/run.json
for operand in few.cp few2.cp; do
    for files in 4 5 6 7 8 9 10 12 14 16; do
        for command in "cp --cpu -q -i 3 -o few3.cp --resume" status; do
            # shellcheck disable=SC2086
            (ulimit -n $files && exec "$bin/tstream" $command $operand) > out 2> err || true
            if grep 'was replaced' err > log; then bad "$command with $files files: $(cat err)"; fi
            rm -rf few3.cp few3.cp.partial
        done
    done
    (ulimit -n 4 && exec "$bin/tstream" cp --cpu -q -i 3 --resume $operand) > out 2> err && bad "--resume with 4 files"
    grep -q 'Too many open files' err || bad "--resume $operand with 4 files: $(cat err)"
done
rm -rf few.cp few2.cp.partial
cp_cpu x.tsh -r 6 -i 100000000 --tol 0 -n --max-time 200ms > log 2> err || bad "-n --max-time: exit $?"
grep -q 'nothing was saved' err || bad "-n --max-time: $(cat err)"
exit $failed
