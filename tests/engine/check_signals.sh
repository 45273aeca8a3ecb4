#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A command that a signal stops says so, leaves nothing half-made and dies by that signal, so that a loop
# in a shell ends; what nohup started does not hear of a hangup.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

"$bin/tshard" gen --dims 600x500x400 --nnz 30000 -o x.tsh > log 2>&1

# endless OUT: cp in the background, in its second sweep at least; $pid
endless()
{
    : > log # or the last one's would be looked at until this one begins its own
    "$bin/tstream" cp x.tsh --cpu -r 2 --iters 100000000 --tol 0 --output "$1" > log 2>&1 &
    pid=$!
    while kill -0 $pid && ! grep -q '^ *2 ' log; do sleep 0.05; done
}

for signal in $(deadly_signals); do
    endless stopped
    kill -"${signal%:*}" $pid
    got=0
    wait $pid || got=$?
    [ "$got" -eq "${signal#*:}" ] || bad "cp: exit $got after ${signal%:*}"
    [ "$(grep -c '^tstream cp: ' log)" -eq 1 ] || bad "cp: not one sentence: $(cat log)"
    if [ -e stopped ]; then bad "cp: a result after ${signal%:*}"; fi
    rm -r stopped.partial # the state to go on from
done

# ---- building, from a text that does not end ----
mkfifo text
for signal in $(deadly_signals); do
    yes '1 2 3 4' > text 2> /dev/null &
    "$bin/tshard" build text -o y.tsh --memory 32M > log 2>&1 &
    pid=$!
    while kill -0 $pid && [ ! -e y.tsh.building ]; do sleep 0.05; done
    kill -"${signal%:*}" $pid
    got=0
    wait $pid || got=$?
    [ "$got" -eq "${signal#*:}" ] || bad "build: exit $got after ${signal%:*}: $(cat log)"
    grep -q '^tshard build: .*stopped' log || bad "build: $(cat log)"
    if [ -e y.tsh ] || [ -e y.tsh.building ]; then bad "build: left something after ${signal%:*}"; fi
done

# ---- nohup ----
: > log
(trap '' HUP; exec "$bin/tstream" cp x.tsh --cpu -r 2 --iters 100000000 --tol 0 -n > log 2>&1) &
pid=$!
while kill -0 $pid && ! grep -q '^ *2 ' log; do sleep 0.05; done
kill -HUP $pid
before=$(wc -l < log)
n=0
while [ "$(wc -l < log)" -lt $((before + 3)) ] && [ $n -lt 400 ]; do sleep 0.05; n=$((n + 1)); done
kill -0 $pid || bad "cp: a hangup that was ignored ends it"
kill -TERM $pid
wait $pid || true

# ---- a loop ends: the shell, which gets the signal too, learns that its command died by it ----
if command -v bash > which && command -v setsid > which &&
   env --default-signal=INT env kill -l > which 2>&1; then
    rm -f log
    # shellcheck disable=SC2016
    setsid env --default-signal=INT bash -c 'for i in 1 2 3; do
            echo $i >> runs
            "$0" cp x.tsh --cpu -r 2 --iters 100000000 --tol 0 -n > log 2>&1
        done' "$bin/tstream" &
    pid=$!
    n=0
    while ! grep -q '^ *2 ' log 2> which && [ $n -lt 400 ]; do sleep 0.05; n=$((n + 1)); done
    env kill -s INT -- -$pid
    wait $pid || true
    [ "$(wc -l < runs)" -eq 1 ] || bad "a loop went on: $(cat runs)"
fi
exit $failed
