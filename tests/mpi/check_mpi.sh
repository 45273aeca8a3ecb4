#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpirun -n 4 tstream cp: the bytes of one process for every number of ranks, stopped and gone on with by other
# numbers; what ends one rank ends all; ranks that are not the same are refused. Skipped where there is no MPI.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

# shellcheck source=tests/support/outside_mpi.sh
. "$top/tests/support/outside_mpi.sh"
starts "$launcher" "$bin/tstream-mpi"

# mpi RANKS ARGS...: tstream cp on so many
mpi()
{
    n=$1
    shift
    timeout 300 "$launcher" -n "$n" "$bin/tstream" cp "$@" < /dev/null
}

# ---- meanwhile: a rank that is stopped before it has started, for which the others wait in MPI ----
# shellcheck disable=SC2016
TSTREAM_RANK_TIMEOUT=1 timeout -k 5 200 "$launcher" -n 1 "$bin/tstream" cp absent.tsh : \
    -n 1 sh -c 'echo $$ > late.pid; kill -STOP $$; exec "$0" cp absent.tsh' "$bin/tstream" \
    > late.log 2> late.err < /dev/null &
late=$!

"$bin/tshard" gen --dims 3000x2000x70 --nnz 150000 --law power:1.1 --shard 64K -s 3 -o x.tsh > log 2>&1
"$bin/tshard" gen --dims 3000x2000x70 --nnz 150000 -s 4 -o other.tsh > log 2>&1
"$bin/tshard" gen --dims 3000x2000x70 --nnz 20000 -s 5 -o small.tsh > log 2>&1

# ---- what ranks of a machine take together is what plan tells, with one copy of the factors and with one each ----
# together ARGS...: sets $most to what four ranks had resident together at most, in KiB; what several have counts once
together()
{
    mpi 4 tall.tsh -r 32 -i 12 --tol 0 -t 1 -m 32M -n "$@" > log 2> err &
    pid=$! most=0
    # The four are looked for until they are there, and asked all at once: to read what a process has takes its own time, too.
    set --
    while kill -0 $pid 2> /dev/null; do
        if [ $# -lt 4 ]; then
            set --
            for process in /proc/[0-9]*; do
                [ "$(readlink "$process/cwd" 2> /dev/null)" = "$tmp" ] || continue
                case $(readlink "$process/exe" 2> /dev/null) in
                */tstream-mpi) set -- "$@" "$process/smaps_rollup" ;;
                esac
            done
        fi
        sum=$(cat "$@" 2> /dev/null < /dev/null | awk '/^Pss:/ { n += $2 } END { print n + 0 }')
        [ "$sum" -le $most ] || most=$sum
        sleep 0.1
    done
    wait $pid || bad "four ranks of a tall tensor: $(cat err)"
}
# planned ARGS...: the same as plan has it
planned()
{
    "$bin/tstream" plan tall.tsh -r 32 -t 1 -m 32M --ranks 4 --ranks-per-host 4 "$@" --json > json 2> err || bad "plan --ranks 4: $(cat err)"
    sed 's/.*"machine_total_bytes":\([0-9]*\).*/\1/' json
}
if [ -r /proc/self/smaps_rollup ]; then
    "$bin/tshard" gen --dims 300000x200000x200000 --nnz 600000 -s 3 -o tall.tsh > log 2>&1
    for own in 0 1; do
        export TSTREAM_OWN_FACTORS=$own
        together
        plan=$(($(planned) / 1024))
        # less: shards are decoded one by one, and a look now and then misses the last pages; more: what MPI takes of each rank
        if [ $most -lt $((plan * 3 / 4)) ] || [ $most -gt $((plan + 4 * 32768)) ]; then bad "four ranks took $most KiB together, TSTREAM_OWN_FACTORS=$own, and plan tells $plan"; fi
        echo "four ranks, TSTREAM_OWN_FACTORS=$own: $most KiB together, planned $plan"
    done
    unset TSTREAM_OWN_FACTORS
    rm -r tall.tsh
fi

# ---- the bytes of one process ----
run=0
while read -r options; do
    run=$((run + 1))
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh --cpu --tol 0 --rows all $options -o one.$run > log 2>&1 || bad "$options: $(cat log)"
    for n in 1 2 3 4 7; do
        [ $n -le 3 ] || [ $run -eq 1 ] || continue
        # shellcheck disable=SC2086
        mpi $n x.tsh --ranks $n --tol 0 --rows all $options -t $((n % 2 + 1)) -o m$n.$run > log 2> err || bad "$n ranks, $options: $(cat err)"
        cmp -s one.$run/model.ktensor m$n.$run/model.ktensor || bad "$n ranks, $options: not the bytes of one process"
        [ $n -eq 1 ] || grep -q "$n processes compute together" err || bad "$n ranks: are not told of"
    done
done << 'END'
-r 9 -i 4
-r 4 -i 3 --precision float64 -m 4M
-r 5 -i 4 --nonneg --l1 3=0.1
-r 3 -i 9 --accelerate
-r 4 -i 3 --simplex 1 --l2 0.1
-r 4 -i 3 --orthogonal 2 --init nvecs
-r 4 -i 3 --smooth 1=2,3 --l2 2=0.1
-r 4 -i 3 --smooth 1=2,3 --nonneg 1,2 --l1 3=0.05 --l2 2=0.1
-r 4 -i 3 --observed --l2 0.1 --hold-out 10%
-r 4 -i 2 --loss poisson
-r 4 -i 3 --loss gamma --observed --hold-out 10%
-r 9 -i 3 --init one.1/model.ktensor --fix 2
END
[ $run -eq 12 ] || bad "$run of 12 runs"

# ---- one copy of the factors, or one for each ----
mpi 3 x.tsh -r 9 -i 4 --tol 0 --rows all -o shared.cp > log 2> err || bad "factors are shared: $(cat err)"
grep -q 'rows travel through memory that the ranks of a machine share' err || bad "that factors are shared is not told: $(cat err)"
TSTREAM_OWN_FACTORS=1 mpi 3 x.tsh -r 9 -i 4 --tol 0 --rows all -o own.cp > log 2> err || bad "own factors: $(cat err)"
! grep -q 'rows travel' err || bad "TSTREAM_OWN_FACTORS=1: $(cat err)"
for how in shared own; do
    cmp -s one.1/model.ktensor $how.cp/model.ktensor || bad "$how factors: not the bytes of one process"
done
[ ! -e m3.1.partial ] || bad "m3.1.partial is left"

# ---- rows to those ranks that need them: the same bytes, and what is told of it ----
# needing RANKS ARGS...: ranks with factors of their own, of which each gets the rows that it needs alone
needing()
{
    ( export TSTREAM_OWN_FACTORS=1 TSTREAM_ROWS_TO=needing; mpi "$@" )
}
"$bin/tshard" gen --dims 20000x3000x9000 --nnz 30000 --law uniform --shard 64K -s 3 -o few.tsh > log 2>&1
"$bin/tshard" gen --dims 40000x3000x7x20000x11 --nnz 40000 --law uniform --shard 64K -s 4 -o five.tsh > log 2>&1
run=0
while read -r tensor options; do
    run=$((run + 1))
    # shellcheck disable=SC2086
    "$bin/tstream" cp "$tensor" --cpu --tol 0 --rows all $options -o few.one > log 2>&1 || bad "$tensor $options: $(cat log)"
    for n in 2 3 4 7; do
        [ $n -ne 7 ] || [ $run -le 2 ] || continue
        # shellcheck disable=SC2086
        needing $n "$tensor" --tol 0 --rows all $options -t $((n % 2 + 1)) --json -o few.$n > log 2> err || bad "rows to $n ranks, $tensor $options: $(cat err)"
        cmp -s few.one/model.ktensor few.$n/model.ktensor || bad "rows to $n ranks, $tensor $options: not the bytes of one process"
        grep -q '"rows_to":"needing"' log || bad "rows to $n ranks, $tensor $options: went to all"
    done
    rm -rf few.one few.[0-9]
done << 'END'
few.tsh -r 9 -i 4
five.tsh -r 5 -i 4 --precision float64
few.tsh -r 5 -i 4 --nonneg --l1 3=0.1
few.tsh -r 4 -i 3 --simplex 1 --l2 0.1 --init nvecs
few.tsh -r 4 -i 3 --orthogonal 2
five.tsh -r 4 -i 3 --smooth 1=2 --l2 2=0.1
few.tsh -r 4 -i 3 --observed --l2 0.1 --hold-out 10%
five.tsh -r 4 -i 4 --hold-out 10% --nonneg
x.tsh -r 4 -i 3 --bounds -0.5:0.5
END
[ $run -eq 9 ] || bad "$run of 9 runs with rows to those who need them"
for options in '-r 4 -i 2 --loss poisson' '-r 4 -i 2 --loss gamma --observed' '-r 3 -i 4 --accelerate' '-r 3 -i 4 --hold-out 10% --patience 2' '-r 3,4 -i 3'; do
    # shellcheck disable=SC2086
    "$bin/tstream" cp few.tsh --cpu --tol 0 $options -o few.one > log 2>&1 || bad "$options: $(cat log)"
    # shellcheck disable=SC2086
    needing 3 few.tsh --tol 0 $options --json -o few.3 > log 2> err || bad "rows to 3 ranks, $options: $(cat err)"
    ! grep -q '"rows_to":"needing"' log || bad "$options: rows do not go to all"
    for model in $(cd few.one && find . -name 'model.ktensor*'); do
        cmp -s "few.one/$model" "few.3/$model" || bad "rows to 3 ranks, $options: not the bytes of one process"
    done
    rm -rf few.one few.3
done
"$bin/tstream" cp few.tsh --cpu -r 9 -i 5 --tol 0 -o few.one > log 2>&1
needing 3 few.tsh -r 9 -i 2 --tol 0 --details -o few.cp > log 2> err || bad "rows to 3 ranks: $(cat err)"
grep -q ' to *$' log && grep -q ' needing *$' log || bad "--details does not tell to whom rows go: $(cat log)"
mpi 2 --resume few.cp -i 3 > log 2> err || bad "rows to 3 ranks, gone on with by 2: $(cat err)"
needing 4 --resume few.cp -i 5 > log 2> err || bad "rows to 4 ranks, gone on with: $(cat err)"
cmp -s few.one/model.ktensor few.cp/model.ktensor || bad "rows to ranks, gone on with: not the bytes of one process"

# ---- --details by rank: every mode tells of each, whose nonzeros are all of the mode; sweeps are means over ranks ----
nnz=$("$bin/tshard" info x.tsh --json | sed -n 's/.*"nnz":\([0-9]*\).*/\1/p' | head -n 1)
while read -r n options; do
    # shellcheck disable=SC2086
    mpi $n x.tsh -i 2 --tol 0 -t 1 $options --json --force -o told.cp > log 2> err || bad "$n ranks tell of $options: $(cat err)"
    grep '"event":"mode"' log > modes
    [ "$(wc -l < modes)" -ge 6 ] || bad "$n ranks, $options: modes do not tell"
    while read -r mode; do
        printf '%s\n' "$mode" | tr '{' '\n' | sed -n 's/^"gpu":null,"rank":\([0-9]*\),"nnz":\([0-9]*\),.*"kernel_seconds":\([0-9.e-]*\),.*/\1 \2 \3/p' > each
        awk -v n="$n" -v nnz="$nnz" '$1 != NR - 1 || $2 == 0 || $3 <= 0 { wrong = 1 } { sum += $2 } END { exit wrong || NR != n || sum != nnz }' each ||
            bad "$n ranks, $options: $(cat each) of $nnz in $mode"
    done < modes
    rm -r told.cp
done << 'END'
2 -r 5
3 -r 4 --nonneg --hold-out 10%
3 -r 4 --observed
2 -r 4 --loss gamma --observed
3 -r 3,4
END
"$bin/tshard" gen --dims 3000x2000x70 --nnz 150000 -s 6 -o even.tsh > log 2>&1
mpi 2 even.tsh -r 4 -i 2 --loss poisson -t 1 --json -n > log 2> err || bad "2 ranks tell of Poisson: $(cat err)"
grep -q '"event":"mode".*"rank":0,.*"rank":1,' log || bad "2 ranks tell of Poisson: $(cat log)"
mpi 3 x.tsh -r 4 -i 2 --tol 0 -t 1 --details -n > log 2> err || bad "3 ranks, --details: $(cat err)"
for rank in 0 1 2; do
    [ "$(grep -c "^ *[123] $rank:CPU " log)" -eq 6 ] || bad "3 ranks, --details: not six lines of rank $rank: $(cat log)"
done
rm -r even.tsh

# ---- stopped by its time, gone on with by other numbers of ranks ----
"$bin/tstream" cp x.tsh --cpu -r 9 -i 40 --tol 0 -o whole.cp > log 2>&1
for to in mpi needing; do
    n=3 ms=200
    $to $n x.tsh -r 9 -i 40 --tol 0 --checkpoint 20ms --max-time ${ms}ms -o part.cp > log 2> err || true # before anything was saved
    turns=0
    while [ ! -e part.cp ] && [ $turns -lt 40 ]; do
        turns=$((turns + 1)) n=$((n % 4 + 1)) ms=$((ms + 50 * turns * turns))
        if [ -e part.cp.partial ]; then
            $to $n --resume part.cp --max-time ${ms}ms > log 2> err || bad "--resume: $(cat err)"
        else
            $to $n x.tsh -r 9 -i 40 --tol 0 --checkpoint 20ms --max-time ${ms}ms -o part.cp > log 2> err || true
        fi
    done
    cmp -s whole.cp/model.ktensor part.cp/model.ktensor || bad "after stops, $to: not the bytes of one process"
    rm -rf part.cp
done

# ---- stopped, by its time or by a signal to one rank, while the columns of a smooth mode are solved; gone on with by others ----
# stops_in_columns OPTIONS: the state is that of the mode's beginning then; most of a sweep is columns
stops_in_columns()
{
    "$bin/tstream" cp tall.tsh --cpu -r 3 -i 8 --tol 0 -t 1 "$@" -o whole.smooth > log 2>&1 || bad "$*: $(cat log)"
    for n in 2 3; do
        ms=500
        while [ ! -e smooth.cp ] && [ ! -e smooth.cp.partial ] && [ $ms -lt 20000 ]; do # before anything was saved
            mpi $n tall.tsh -r 3 -i 8 --tol 0 -t 1 "$@" --checkpoint 20ms --max-time ${ms}ms -o smooth.cp > log 2> err || true
            ms=$((2 * ms))
        done
        if [ -e smooth.cp.partial ]; then
            ! grep -q 'goes on from sweep [1-8], mode 1$' err || echo "$n ranks, $*: by --max-time" >> in_columns
            timeout 300 "$launcher" -n $n "$bin/tstream" cp --resume smooth.cp < /dev/null > log 2> err &
            pid=$!
            sleep 0.5
            find_ranks smooth.cp --resume
            [ -z "$rank" ] || kill -TERM "$rank" 2> killed || true # it may have come to its end meanwhile
            status=0
            wait $pid || status=$?
            [ $status -eq 0 ] || [ $status -eq 143 ] || bad "$n ranks, $*, SIGTERM to one: exit $status: $(cat err)"
            ! grep -q 'goes on from sweep [1-8], mode 1$' err || echo "$n ranks, $*: by a signal" >> in_columns
            [ -e smooth.cp ] || mpi $((5 - n)) --resume smooth.cp > log 2> err || bad "$((5 - n)) ranks, $*, gone on with: $(cat err)"
        fi
        cmp -s whole.smooth/model.ktensor smooth.cp/model.ktensor || bad "$n ranks, $*, after stops in columns: not the bytes of one process"
        rm -rf smooth.cp
    done
    rm -r whole.smooth
}
"$bin/tshard" gen --dims 100000x60x50 --nnz 100000 -s 6 -o tall.tsh > log 2>&1
: > in_columns
stops_in_columns --smooth 1=100
stops_in_columns --smooth 1=100 --nonneg 1
cat in_columns
grep -q nonneg in_columns || bad "columns of a smooth mode are not stopped"
rm -r tall.tsh

# ---- moments of rows, which rank 0 alone has whole, are saved, and dealt to another number of ranks ----
loss='-r 4 --loss poisson-log --tol 0'
"$bin/tstream" cp x.tsh --cpu $loss -i 4 -o whole.loss > log 2>&1 || bad "a loss: $(cat log)"
mpi 3 x.tsh $loss -i 2 -o loss.cp > log 2> err || bad "a loss on 3 ranks: $(cat err)"
mpi 2 --resume loss.cp -i 4 > log 2> err || bad "a loss, gone on with by 2: $(cat err)"
cmp -s whole.loss/model.ktensor loss.cp/model.ktensor || bad "a loss, gone on with by 2 ranks: not the bytes of one process"

# ---- folds: of all ranks at once, or of one; the errors of one process, and its models ----
for how in '' '--observed --l2 0.1'; do
    folds="$how -r 3,9 --folds 3 -i 3 --tol 0"
    # shellcheck disable=SC2086
    "$bin/tstream" cp x.tsh --cpu $folds --json -o folds > one 2> err || bad "folds: $(cat err)"
    # shellcheck disable=SC2086
    mpi 3 x.tsh $folds --json > log 2> err || bad "folds on 3 ranks: $(cat err)"
    [ "$(grep '"event":"fold"' one)" = "$(grep '"event":"fold"' log)" ] || bad "folds on 3 ranks, $how: other errors: $(cat log)"
    # shellcheck disable=SC2086
    mpi 2 x.tsh $folds --max-time 200ms -o folds2 > log 2> err || true
    [ ! -d folds2.partial ] || mpi 3 --resume folds2 > log 2> err || bad "folds on 3 ranks: $(cat err)"
    # shellcheck disable=SC2086
    [ -d folds2 ] || mpi 2 x.tsh $folds -o folds2 > log 2> err || bad "folds on 2 ranks: $(cat err)"
    for model in r3.f1 r9.f3; do
        cmp -s folds/$model/model.ktensor folds2/$model/model.ktensor || bad "folds on ranks, $how: $model has not the bytes of one process"
    done
    rm -rf folds folds2
done

# ---- several models at once, or in turns; all as of their own runs; stopped, too ----
several='-r 3,9,17 --restarts 2 -i 4 --tol 0 --rows all'
"$bin/tstream" cp x.tsh --cpu $several -o models > log 2>&1 || bad "several models: $(cat log)"
# same_models DIR WHAT
same_models()
{
    for model in models/r*; do
        cmp -s "$model/model.ktensor" "$1/${model#models/}/model.ktensor" || bad "$2: $model: not the bytes of one process"
    done
    [ "$(readlink "$1/best.r9")" = "$(readlink models/best.r9)" ] || bad "$2: another one is the best"
}
mpi 3 x.tsh $several -t 2 -o models3 > log 2> err || bad "several models on 3 ranks: $(cat err)"
same_models models3 "3 ranks"
grep -q '^6 models, ' log || bad "several models on 3 ranks: no table: $(cat log)"
[ "$(grep -c '3 processes compute together' err)" -eq 1 ] || bad "several models on 3 ranks: are not told of once: $(cat err)"
mpi 2 x.tsh $several -m 1100K -o models2 > log 2> err || bad "several models in turns: $(cat err)"
same_models models2 "2 ranks, in turns"
n=2 turns=0
mpi 3 x.tsh $several --max-time 100ms -o models4 > log 2> err || true # before anything was saved
while [ ! -e models4 ] && [ $turns -lt 40 ]; do
    turns=$((turns + 1)) n=$((n % 3 + 1))
    if [ -e models4.partial/models.run ]; then
        mpi $n --resume models4 --max-time $((100 + 50 * turns * turns))ms > log 2> err || true # nothing was saved
    else
        mpi $n x.tsh $several --max-time $((100 + 50 * turns * turns))ms -o models4 > log 2> err || true
    fi
done
same_models models4 "after stops"

# ---- a rank that is killed ends all within 10 seconds; the state stays ----
needing 3 x.tsh -r 9 -i 1000000 --tol 0 --checkpoint 20ms -o kill.cp > log 2> err &
pid=$! within=10
signal_one KILL kill.cp
grep -q 'signal 9\|KILLED' err log || bad "does not say that a rank was killed: $(cat err)"
"$bin/tstream" cp --resume kill.cp --max-time 200ms > log 2> err || bad "--resume after a kill: $(cat err)"
grep -q 'goes on from sweep' err || bad "--resume after a kill: $(cat err)"

# ---- a rank that is stopped, of which a launcher knows nothing, ends all, within 7 seconds and what a busy machine takes ----
rm -rf kill.cp kill.cp.partial
mpi 3 x.tsh -r 9 -i 1000000 --tol 0 --checkpoint 20ms -o kill.cp > log 2> err &
pid=$! within=30
signal_one STOP kill.cp
grep -q 'tstream: rank [0-2] of 3, on .*: has said nothing for 7 seconds' err || bad "does not say that a rank says nothing (exit status $status): $(cat err; tail -n 5 log)"
"$bin/tstream" cp --resume kill.cp --max-time 200ms > log 2> err || bad "--resume after a stop: $(cat err)"
grep -q 'goes on from sweep' err || bad "--resume after a stop: $(cat err)"

# ---- a rank that runs out of disk ends all, and what was there stays ----
# Neither MPI nor its launcher have files in this test that a limit of their size would end them by.
# full KIB COMMAND...: two ranks, and one that may write no file of more than that
full()
{
    kib=$1 who=$2
    shift 2
    ( # what follows a signal is an error: EFBIG
        export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo PMIX_MCA_gds=hash PRTE_MCA_gds=hash MPIR_CVAR_NO_LOCAL=1
        if [ "$who" -eq 0 ]; then
            timeout 300 "$launcher" -n 1 sh -c "ulimit -f $((2 * kib)); exec \"\$@\"" rank "$@" : -n 2 "$@"
        else
            timeout 300 "$launcher" -n 1 "$@" : -n 1 sh -c "ulimit -f $((2 * kib)); exec \"\$@\"" rank "$@" : -n 1 "$@"
        fi
    ) < /dev/null > log 2> err
}
limits=1 # whether MPI itself gets by within them
full 50 1 "$bin/tstream-mpi" --version || { limits=0; echo "no disk is full here: $(tail -n 1 err)"; }
if [ $limits -eq 1 ]; then
    mpi 3 x.tsh -r 9 -i 3 --tol 0 -o full.cp > log 2>&1 || bad "before the disk is full: $(cat log)"
    cat full.cp/* > before
    start=$(date +%s)
    full 50 0 "$bin/tstream" cp --resume full.cp -i 8 && bad "rank 0's disk is full, and the exit status is 0"
    [ $(($(date +%s) - start)) -le 10 ] || bad "rank 0's disk is full: takes $(($(date +%s) - start)) seconds"
    grep -q 'rank 0 of 3, on .*: full.cp.partial/.*: cannot be written: File too large' err || bad "rank 0's disk is full: $(cat err)"
    [ "$(grep -c '^tstream cp: rank' err)" -eq 1 ] || bad "rank 0's disk is full: not one sentence: $(cat err)"
    cat full.cp/* | cmp -s - before || bad "rank 0's disk is full: what was there has changed"
    "$bin/tstream" cp x.tsh --cpu -r 9 -i 8 --tol 0 -o whole8.cp > log 2>&1
    mpi 2 --resume full.cp -i 8 > log 2> err || bad "once there is room: $(cat err)"
    cmp -s whole8.cp/model.ktensor full.cp/model.ktensor || bad "once there is room: not the bytes of one process"
    full 50 0 "$bin/tstream" cp x.tsh -r 9 -i 4 --restarts 2 -o full2.cp && bad "rank 0's disk is full, of two models, and the exit status is 0"
    grep -q 'rank 0 of 3, on .*: full2.cp.partial/.*: cannot be written: File too large' err || bad "rank 0's disk is full, of two models: $(cat err)"
fi

# ---- what is not the same is refused, by its name ----
# ranks_refused TEXT ARGS...: of mpirun
ranks_refused()
{
    text=$1
    shift
    if timeout 300 "$launcher" "$@" < /dev/null > log 2> err; then bad "$*: is not refused"; fi
    grep -qF -- "$text" err || bad "$*: no \"$text\" in: $(cat err)"
    [ ! -e no.cp ] && [ ! -e no.cp.partial ] || bad "$*: something is left"
}
t=$bin/tstream
ranks_refused 'its options differs from that of rank 0' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 "$t" cp x.tsh -r 5 -o no.cp
ranks_refused 'its options differs from that of rank 0' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 "$t" cp x.tsh -r 4 --details -o no.cp
ranks_refused 'its tensor differs from that of rank 0' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 "$t" cp other.tsh -r 4 -o no.cp
ranks_refused 'rank 1 of 2' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 "$t" cp none.tsh -r 4 -o no.cp
ranks_refused 'rank 1 of 2' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 "$t" cp --resume none.cp
ranks_refused 'rank 1 of 2' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 "$t" cp x.tsh --rank 0
ranks_refused '--ranks 3: started as 2 processes' -n 2 "$t" cp x.tsh -r 4 --ranks 3 -o no.cp
ranks_refused '--ranks-per-host 1: 2 processes are on this machine' -n 2 "$t" cp x.tsh -r 4 --ranks-per-host 1 -o no.cp
ranks_refused 'its options differs from that of rank 0' -n 1 "$t" cp x.tsh -r 4 --restarts 2 -o no.cp : -n 1 "$t" cp x.tsh -r 4 --restarts 3 -o no.cp
ranks_refused 'its options differs from that of rank 0' -n 1 "$t" cp x.tsh -r 4,5 -o no.cp : -n 1 "$t" cp x.tsh -r 4,6 -o no.cp
ranks_refused 'whole.cp exists' -n 2 "$t" cp x.tsh -r 4,5 -o whole.cp
ranks_refused 'its TSTREAM_ROWS_TO differs from that of rank 0' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 env TSTREAM_ROWS_TO=all "$t" cp x.tsh -r 4 -o no.cp
ranks_refused '--gpus 999,: ' -n 2 "$t" cp x.tsh -r 4 --gpus 999, -o no.cp
ranks_refused 'its processor differs from that of rank 0' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 "$t" cp x.tsh -r 4 --gpus 1 -o no.cp
ranks_refused 'whole.cp exists' -n 2 "$t" cp x.tsh -r 4 -o whole.cp
other=${bin%/tools}/tests # programs of another commit
ranks_refused 'its version of tstream differs from that of rank 0' -n 1 "$t" cp x.tsh -r 4 -o no.cp : -n 1 "$other/tstream-other" cp x.tsh -r 4 -o no.cp
ranks_refused 'its version of tstream differs from that of rank 0' -n 1 "$other/tstream-other" fit whole.cp x.tsh : -n 1 "$t" fit whole.cp x.tsh
timeout 300 "$launcher" -n 2 "$other/tstream-other" cp x.tsh -r 4 -i 1 -n < /dev/null > log 2> err || bad "two of one other commit: $(cat err)"

# ---- score and fit: the figures of one process, all of their digits, and the same lines ----
# figures COMMAND...: what it prints, without times and what is read
figures()
{
    "$@" < /dev/null 2> err | sed 's/"[a-z_]*seconds":[^,}]*,*//g; s/"bytes_read":[^,}]*//; s/, [0-9.]* [mu]*s$//'
}
run=0
while read -r command; do
    run=$((run + 1))
    # shellcheck disable=SC2086
    figures "$bin/tstream" $command > one.figures
    [ -s one.figures ] || bad "tstream $command: $(cat err)"
    for n in 2 3 5; do
        # shellcheck disable=SC2086
        figures timeout 300 "$launcher" -n $n "$bin/tstream" $command -t $((n % 2 + 1)) > figures
        cmp -s one.figures figures || bad "tstream $command on $n ranks: $(cat figures err), not $(cat one.figures)"
        grep -q "$n processes compute together" err || bad "tstream $command on $n ranks: are not told of"
    done
done << 'END'
fit whole.cp x.tsh --json
fit one.2 x.tsh --json -m 1M
score whole.cp x.tsh --json
score one.9 x.tsh --json --precision float32
score whole.cp x.tsh --by-slice --mode 1
score whole.cp x.tsh --by-slice --mode 3 --format csv -m 1M
score whole.cp x.tsh --top 500
END
[ $run -eq 7 ] || bad "$run of 7 figures"
timeout 300 "$launcher" -n 3 "$bin/tstream" score whole.cp x.tsh --by-slice -o slices.tns < /dev/null > log 2> err || bad "score to a file: $(cat err)"
"$bin/tstream" score whole.cp x.tsh --by-slice -o slices1.tns > log 2>&1
cmp -s slices1.tns slices.tns || bad "score to a file: not the bytes of one process"
timeout 300 "$launcher" -n 3 "$bin/tstream" mttkrp x.tsh --rank 5 --mode 2 --reps 2 --check < /dev/null > log 2> err || bad "mttkrp: $(cat err)"
grep -q '^check: off by at most' log || bad "mttkrp: is not compared: $(cat log)"
ranks_refused 'its options differs from that of rank 0' -n 1 "$t" fit whole.cp x.tsh : -n 1 "$t" fit one.1 x.tsh
ranks_refused 'its tensor differs from that of rank 0' -n 1 "$t" score whole.cp x.tsh : -n 1 "$t" score whole.cp other.tsh
ranks_refused 'write no line of every nonzero' -n 2 "$t" score whole.cp x.tsh -o no.cp
ranks_refused '--diagnose is computed by one process' -n 2 "$t" fit whole.cp x.tsh --diagnose
timeout 300 "$launcher" -n 3 "$bin/tstream" mttkrp x.tsh --rank 5 --mode 2 --reps 2 --details -t 1 < /dev/null > log 2> err || bad "mttkrp --details: $(cat err)"
[ "$(grep -c '^ *2 [012]:CPU ' log)" -eq 6 ] || bad "mttkrp --details: not of each rank: $(cat log)"
ranks_refused 'its processor differs from that of rank 0' -n 1 "$t" mttkrp x.tsh --rank 4 --gpus 1 : -n 1 "$t" mttkrp x.tsh --rank 4
ranks_refused '--gpus 4000000,: ' -n 2 "$t" fit whole.cp x.tsh --gpus 4000000,
ranks_refused 'none.cp' -n 1 "$t" fit whole.cp x.tsh : -n 1 "$t" fit none.cp x.tsh

# ---- other commands are one process's: a sentence of rank 0, and nothing computed ----
while read -r program command; do
    got=0
    # shellcheck disable=SC2086
    timeout 300 "$launcher" -n 3 "$bin/$program" $command < /dev/null > log 2> err || got=$?
    [ $got -ne 0 ] && [ $got -ne 124 ] || bad "$program $command on 3 ranks: exit $got: $(cat log err)"
    [ "$(grep -c "^${program%-mpi} ${command%% *}: started as 3 processes" err)" -eq 1 ] ||
        bad "$program $command on 3 ranks: not one sentence: $(cat err)"
    [ ! -e no.tns ] && [ ! -e no.tsh ] && [ ! -e no.csv ] || bad "$program $command on 3 ranks: something is left"
    grep -q 'fit\|rmse\|Wrote' log && bad "$program $command on 3 ranks: is computed: $(cat log)"
done << 'END'
tstream predict whole.cp x.tsh -o no.csv
tstream-mpi bench
tshard export x.tsh -o no.tns
tshard gen --dims 10x20 --nnz 50 -o no.tsh
END
timeout 300 "$launcher" -n 3 "$bin/tstream" predict --help < /dev/null > log 2>&1 || bad "predict --help on 3 ranks: $(cat log)"
[ "$(grep -c 'tstream predict' log)" -gt 0 ] || bad "predict --help on 3 ranks: $(cat log)"
timeout 300 "$launcher" -n 3 "$bin/tshard" verify x.tsh < /dev/null > log 2>&1 || bad "verify on 3 ranks, each by itself: $(cat log)"

# ---- a damaged shard, seen by the rank that reads it, is told by all in one sentence ----
size=$(wc -c < small.tsh/mode2.shards)
printf 'XXXXXXXX' | dd of=small.tsh/mode2.shards bs=1 seek=$((size / 2)) conv=notrunc 2> log
ranks_refused 'mode2.shards' -n 3 "$t" cp small.tsh -r 4 -o no.cp
[ "$(grep -c '^tstream cp: rank' err)" -eq 1 ] || bad "a damaged shard: not one sentence: $(cat err)"

# ---- one that is damaged in a run, which only the last rank reads: the state stays, and a run goes on once it is whole ----
cp -R x.tsh hurt.tsh
mpi 3 hurt.tsh -r 5 -i 3 --tol 0 -o damage.cp > log 2>&1 || bad "before a shard is damaged: $(cat log)"
cat damage.cp/* > before
"$bin/tstream" cp x.tsh --cpu -r 5 -i 6 --tol 0 -o undamaged.cp > log 2>&1
size=$(wc -c < hurt.tsh/mode1.shards)
printf 'XXXXXXXX' | dd of=hurt.tsh/mode1.shards bs=1 seek=$((size - 20000)) conv=notrunc 2> log
start=$(date +%s)
mpi 3 --resume damage.cp -i 6 > log 2> err && bad "a shard is damaged, and the exit status is 0"
[ $(($(date +%s) - start)) -le 10 ] || bad "a damaged shard: takes $(($(date +%s) - start)) seconds"
grep -q '^tstream cp: rank 2 of 3, on .*: .*hurt.tsh/mode1.shards: ' err || bad "a damaged shard: is not named: $(cat err)"
[ "$(grep -c '^tstream cp: rank' err)" -eq 1 ] || bad "a damaged shard: not one sentence: $(cat err)"
cat damage.cp/* | cmp -s - before || bad "a damaged shard: what was there has changed"
cp x.tsh/mode1.shards hurt.tsh/mode1.shards
mpi 2 --resume damage.cp -i 6 > log 2> err || bad "once the shard is whole: $(cat err)"
cmp -s undamaged.cp/model.ktensor damage.cp/model.ktensor || bad "once the shard is whole: not the bytes of one process"

# ---- a tensor that several build has the bytes of one ----
"$bin/tshard" export x.tsh -o x.tns > log 2>&1
"$bin/tshard" build x.tns -o built.tsh --shard 64K > log 2>&1
gzip -c x.tns > again.tns.gz
for n in 1 2 3 4; do
    rm -rf by.tsh
    timeout 300 "$launcher" -n $n "$bin/tshard" build x.tns -o by.tsh --shard 64K -m 32M -t $((n % 2 + 1)) < /dev/null > log 2> err || bad "build on $n ranks: $(cat err)"
    diff -r built.tsh by.tsh > log || bad "build on $n ranks: not the bytes of one process: $(cat log)"
done
awk '{ print $0, (7 * NR) % 13 / 4 }' x.tns > weights.tns
"$bin/tshard" build weights.tns --weights 5 -o weights.tsh --shard 64K > log 2>&1 || bad "$(cat log)"
"$bin/tstream" cp weights.tsh --cpu --tol 0 --rows all -r 4 -i 3 --observed --l2 0.1 --hold-out 10% --mean -o weights.cp > log 2>&1 || bad "$(cat log)"
for n in 2 3; do
    rm -rf by.tsh
    timeout 300 "$launcher" -n $n "$bin/tshard" build weights.tns --weights 5 -o by.tsh --shard 64K -m 32M < /dev/null > log 2> err || bad "build of weights on $n ranks: $(cat err)"
    diff -r weights.tsh by.tsh > log || bad "build of weights on $n ranks: not the bytes of one process: $(cat log)"
    mpi $n weights.tsh --ranks $n --tol 0 --rows all -r 4 -i 3 --observed --l2 0.1 --hold-out 10% --mean -o mw.$n > log 2> err || bad "weights on $n ranks: $(cat err)"
    cmp -s weights.cp/model.ktensor mw.$n/model.ktensor || bad "weights on $n ranks: not the bytes of one process"
done
"$bin/tshard" build x.tns -o by.tsh --shard 64K --force > log 2>&1
timeout 300 "$launcher" -n 4 "$bin/tshard" build x.tns -o by.tsh --shard 64K --force < /dev/null > log 2> err || bad "$(cat err)"
grep -q '4 processes build together' err || bad "build on 4 ranks: are not told of: $(cat err)"
"$bin/tshard" build x.tns again.tns.gz -o built.tsh --force > log 2>&1
timeout 300 "$launcher" -n 3 "$bin/tshard" build x.tns again.tns.gz -o by.tsh --force < /dev/null > log 2> err || bad "build of two files: $(cat err)"
diff -r built.tsh by.tsh > log || bad "build of two files: not the bytes of one process: $(cat log)"
write=${bin%/tools}/tests/write_binary
"$write" splatt 4 4 little 3 < x.tns > x.bin
"$write" genten 4 4 big 3 < x.tns | gzip -c > x.sptn.gz
"$bin/tshard" build x.bin x.sptn.gz x.bin -o built.tsh --force > log 2>&1 || bad "binary files: $(cat log)"
timeout 300 "$launcher" -n 3 "$bin/tshard" build x.bin x.sptn.gz x.bin -o by.tsh --force < /dev/null > log 2> err || bad "build of binary files: $(cat err)"
diff -r built.tsh by.tsh > log || bad "build of binary files: not the bytes of one process: $(cat log)"
ranks_refused 'its options differs from that of rank 0' -n 1 "$bin/tshard" build x.tns -o no.cp : -n 1 "$bin/tshard" build x.tns -o no.cp --base 0
ranks_refused 'its input differs from that of rank 0' -n 1 "$bin/tshard" build x.tns -o no.cp : -n 1 "$bin/tshard" build again.tns.gz -o no.cp
ranks_refused 'its version of tshard differs from that of rank 0' -n 1 "$bin/tshard" build x.tns -o no.cp : -n 1 "$other/tshard-other" build x.tns -o no.cp
mkdir node # as on a disk of another node: other bytes of the same size, and the same
first=$(head -c 1 x.tns)
sed "1s/^./$((first % 9 + 1))/" x.tns > node/x.tns
ranks_refused 'its input differs from that of rank 0' -n 1 "$bin/tshard" build x.tns -o "$PWD/no.cp" : -n 1 -wdir "$PWD/node" "$bin/tshard" build x.tns -o "$PWD/no.cp"
cp x.tns node/x.tns
rm -rf by.tsh
timeout 300 "$launcher" -n 1 "$bin/tshard" build x.tns -o "$PWD/by.tsh" --shard 64K : -n 1 -wdir "$PWD/node" "$bin/tshard" build x.tns -o "$PWD/by.tsh" --shard 64K < /dev/null > log 2> err || bad "copies of the text: $(cat err)"
"$bin/tshard" build x.tns -o built.tsh --shard 64K --force > log 2>&1
diff -r built.tsh by.tsh > log || bad "copies of the text: not the bytes of one process: $(cat log)"
ranks_refused 'by.tsh exists' -n 2 "$bin/tshard" build x.tns -o by.tsh
ranks_refused 'standard input: several processes' -n 2 "$bin/tshard" build - -o no.cp
awk 'BEGIN { print "user,item,stars" } { print "u" $1 ",\"an item, " $2 "\"," $4 }' x.tns > names.csv
tail -n +2 names.csv | tac | gzip -c > names2.csv.gz
for sort in seen sorted; do
    "$bin/tshard" build names.csv names2.csv.gz -o names.tsh --shard 64K --names $sort --force > log 2>&1 || bad "names: $(cat log)"
    for n in 2 3; do
        timeout 300 "$launcher" -n $n "$bin/tshard" build names.csv names2.csv.gz -o by.tsh --shard 64K -m 32M --names $sort --force < /dev/null > log 2> err || bad "names on $n ranks: $(cat err)"
        diff -r names.tsh by.tsh > log || bad "names on $n ranks: not the bytes of one process: $(cat log)"
    done
done
sed '90000s/.*/1 x 3 4/' x.tns > wrong.tns
ranks_refused "wrong.tns:90000: index 'x'" -n 3 "$bin/tshard" build wrong.tns -o no.cp
[ "$(grep -c '^tshard build: rank' err)" -eq 1 ] || bad "a bad line: not one sentence: $(cat err)"
[ ! -e no.cp.building ] || bad "no.cp.building is left"
if [ $limits -eq 1 ]; then
    full 50 1 "$bin/tshard" build x.tns -o no.cp -m 32M && bad "the disk of a rank that builds is full, and the exit status is 0"
    grep -q 'rank 1 of 3, on .*: File too large' err || bad "the disk of a rank that builds is full: $(cat err)"
    [ "$(grep -c '^tshard build: rank' err)" -eq 1 ] || bad "the disk of a rank that builds is full: not one sentence: $(cat err)"
    [ ! -e no.cp ] && [ ! -e no.cp.building ] || bad "the disk of a rank that builds is full: something is left"
fi

# ---- the rank that was stopped before it has started ----
wait $late && bad "a rank has not started, and the exit status is 0"
grep -q 'tstream: on .*: not all ranks have started for 30 seconds: one was stopped' late.err ||
    bad "a rank has not started: $(cat late.err)"
if grep -q State /proc/"$(cat late.pid)"/status 2> log; then bad "a rank that was stopped stays"; fi

exit $failed
