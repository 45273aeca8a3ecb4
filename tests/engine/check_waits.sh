#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads of the programs on machines that are shared or limited: how long they spin while they wait, how many there are
# where the user or the environment says so, and stacks that are too small. Times are measured by bench/busy.py.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME OMP_NUM_THREADS OMP_THREAD_LIMIT OMP_STACKSIZE
"$bin/tshard" gen --dims 60x50x40 -n 20000 -s 1 -q -o x.tsh > log 2>&1 || bad "gen: $(cat log)"

# The environment of a command that waits for its input, once it is tshard and not the shell before it
environment_of()
{
    mkfifo pipe
    exec 3<> pipe
    : > environment
    "$@" build - -o pipe.tsh -q < pipe > log 2>&1 3>&- &
    for _ in $(seq 100); do
        [ ! "/proc/$!/exe" -ef "$bin/tshard" ] ||
            tr '\0' '\n' < "/proc/$!/environ" | grep -E '^(GOMP_SPINCOUNT|KMP_BLOCKTIME|OMP_WAIT_POLICY)=' | sort > environment || true
        [ ! -s environment ] || break
        sleep 0.1
    done
    echo "1 1 1 1" >&3
    exec 3>&-
    wait "$!" || bad "$*: $(cat log)"
    rm -rf pipe pipe.tsh
}
environment_of "$bin/tshard"
printf 'GOMP_SPINCOUNT=1000\nKMP_BLOCKTIME=0\n' | cmp -s - environment || bad "waits of tshard: $(cat environment)"
environment_of env GOMP_SPINCOUNT=77 "$bin/tshard"
echo 'GOMP_SPINCOUNT=77' | cmp -s - environment || bad "waits that were chosen: $(cat environment)"
environment_of env OMP_WAIT_POLICY=active "$bin/tshard"
echo 'OMP_WAIT_POLICY=active' | cmp -s - environment || bad "a policy that was chosen: $(cat environment)"

# threads_of NAME=VALUE... : how many threads a run has
threads_of()
{
    env "$@" "$bin/tstream" cp x.tsh -r 16 -i 1 --cpu -o x.cp --force > log 2>&1 || bad "$*: $(cat log)"
    sed -n 's/.*"threads": *\([0-9]*\).*/\1/p' x.cp/run.json | head -n 1
}
[ "$(threads_of OMP_NUM_THREADS=3)" = 3 ] || bad "OMP_NUM_THREADS=3: $(threads_of OMP_NUM_THREADS=3)"
[ "$(threads_of OMP_NUM_THREADS=5 OMP_THREAD_LIMIT=2)" = 2 ] || bad "OMP_THREAD_LIMIT=2"
[ "$(threads_of OMP_THREAD_LIMIT=1)" = 1 ] || bad "OMP_THREAD_LIMIT=1"
"$bin/tstream" cp x.tsh -r 16 -i 1 --cpu -o x.cp --force -t 4 > log 2>&1 || bad "-t 4: $(cat log)"
grep -q '"threads": *4\b' x.cp/run.json || bad "-t 4 has other threads"
"$bin/tshard" gen --dims 9x8x7 -n 100 -s 1 -q -o few.tsh > log 2>&1
"$bin/tstream" cp few.tsh -r 4 -i 1 --cpu -o few.cp > log 2>&1 || bad "few: $(cat log)"
grep -q '"threads": *1\b' few.cp/run.json || bad "100 nonzeros have more than one thread"
# what takes longer for each nonzero takes more threads
"$bin/tshard" gen --dims 60x50x40 -n 2400 -s 1 -q -o some.tsh > log 2>&1
for case in "1:" "2:--loss poisson" "2:--loss huber:1"; do
    "$bin/tstream" cp some.tsh -r 16 -i 1 --cpu -o some.cp --force ${case#*:} > log 2>&1 || bad "some, $case: $(cat log)"
    n=$(sed -n 's/.*"threads": *\([0-9]*\).*/\1/p' some.cp/run.json | head -n 1)
    [ "$n" -ge "${case%%:*}" ] || [ "$(nproc)" -lt 2 ] || bad "2400 nonzeros, $case: $n threads"
    [ "$n" = 1 ] || [ "$case" != "1:" ] || bad "2400 nonzeros: $n threads"
done

# Small stacks: what can be raised is; what cannot is refused, and nothing crashes
if grep -q '^AM_CFLAGS =.*-fsanitize' "${TOP_BUILDDIR:-.}/Makefile"; then exit $failed; fi # instrumented code takes larger stacks
for size in 16K 64K 255K; do
    status=0
    OMP_STACKSIZE=$size "$bin/tstream" cp x.tsh -t 2 -i 1 --cpu -o x.cp --force > log 2>&1 || status=$?
    [ "$status" -eq 1 ] && grep -q 'OMP_STACKSIZE gives each thread a stack of' log || bad "OMP_STACKSIZE=$size: $status, $(cat log)"
    status=0
    OMP_STACKSIZE=$size "$bin/tshard" gen --dims 9x8x7 -n 100 -q -o small.tsh > log 2>&1 || status=$?
    [ "$status" -eq 1 ] && grep -q 'OMP_STACKSIZE gives each thread a stack of' log || bad "gen, OMP_STACKSIZE=$size: $status, $(cat log)"
    [ ! -e small.tsh ] || bad "gen left a tensor"
done
for loss in least-squares poisson huber:2; do
    OMP_STACKSIZE=256K "$bin/tstream" cp x.tsh -t 2 -r 40 -i 2 --cpu --loss "$loss" -o x.cp --force > log 2>&1 ||
        bad "OMP_STACKSIZE=256K, $loss: $? $(cat log)"
done
for limit in 64 128 512; do
    (ulimit -S -s "$limit" && exec "$bin/tstream" cp x.tsh -t 2 -i 2 --cpu -o x.cp --force) > log 2>&1 ||
        bad "ulimit -S -s $limit: $? $(cat log)"
    (ulimit -S -s "$limit" && exec "$bin/tshard" gen --dims 9x8x7 -n 100 -q -o "limit$limit.tsh") > log 2>&1 ||
        bad "gen, ulimit -S -s $limit: $? $(cat log)"
done
status=0
(ulimit -s 128 && exec "$bin/tstream" cp x.tsh -t 2 -i 2 --cpu -o x.cp --force) > log 2>&1 || status=$?
[ "$status" -eq 1 ] && grep -q 'raise ulimit -s' log || bad "ulimit -s 128: $status, $(cat log)"
(ulimit -s 768 && exec "$bin/tstream" cp x.tsh -t 2 -i 2 --cpu -o x.cp --force) > log 2>&1 || bad "ulimit -s 768: $? $(cat log)"

# the loader as the program, which has the real one as its operand
loader=$(ldd "$bin/tstream" 2> /dev/null | sed -n 's|^[[:space:]]*\(/[^ ]*/ld[^ ]*\) (.*|\1|p')
if [ -x "$loader" ]; then
    "$loader" "$bin/tstream" cp x.tsh -t 2 -i 2 --cpu -o x.cp --force > log 2>&1 || bad "tstream by $loader: $? $(cat log)"
fi

exit $failed
