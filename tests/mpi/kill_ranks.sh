#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kill_ranks.sh [-n KILLS] [-s SEED] [-r RANKS] FOLDER_OF_PROGRAMS - kills one of several ranks of tshard build and of
# tstream cp with SIGKILL at random instants, and looks at what is left.
#
# After each kill all ranks must be gone within 10 seconds. Of a build the tensor must be absent or whole, and the next
# one makes the bytes of one process. A decomposition goes on with --resume where there is a state, by another number of
# ranks, and is killed again, until it ends: with the bytes of one process that nobody killed.
#
#   KILLS    20 unless told, a quarter of them of builds and at least a quarter of runs that go on; runs that ended before their
#            kill are not counted
#   SEED     1 unless told: of the instants
#   RANKS    4 unless told
#   MPIRUN   in the environment: the launcher, mpirun unless told
#
# Prints how many kills hit what, and the longest time until all ranks were gone. Exit status: 0 when all was right, 1
# when not, 2 for wrong usage.
#
#   tests/mpi/kill_ranks.sh -n 20 -s 7 build/tools
set -eu

kills=20 seed=1 ranks=4 failed=0
usage()
{
    sed -n '3s/^# \(.*\) - .*/usage: \1/p' "$0" >&2
    exit 2
}
while getopts n:s:r: option; do
    case $option in
    n) kills=$OPTARG ;;
    s) seed=$OPTARG ;;
    r) ranks=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] && [ -x "$1/tstream-mpi" ] && [ -x "$1/tshard-mpi" ] || usage
bin=$(cd "$1" && pwd)

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
tmp=$(cd "$(mktemp -d)" && pwd -P)
pid=
trap '[ -z "$pid" ] || kill $pid 2> /dev/null || true; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
cd "$tmp"

done_kills=0 of_build=0 of_start=0 of_resume=0 too_late=0 ended=0 longest=0
bad()
{
    echo "FAILED after $done_kills kills: $*"
    failed=1
}

# random N: sets $r to 0 .. N-1
state=$seed
random()
{
    state=$(((state * 1103515245 + 12345) % 2147483648))
    r=$((state / 8192 % $1))
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

pause() { sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }

# The ranks that are there: sets $found to their numbers, $n_found to how many.
find_ranks()
{
    found='' n_found=0
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/cwd" 2> /dev/null)" = "$tmp" ] || continue
        case $( (tr '\0' ' ' < "$process/cmdline") 2> /dev/null) in
        *mpirun* | *mpiexec* | *hydra* | *prte*) ;;
        *tshard*" build "* | *tstream*" cp "*) found="$found ${process#/proc/}" n_found=$((n_found + 1)) ;;
        esac
    done
}

# killed MS N COMMAND...: N ranks of it, one of which is killed after so long; sets $got to 1 where that was in time.
killed()
{
    ms=$1 n=$2
    shift 2
    "${MPIRUN:-mpirun}" -n "$n" "$@" > out 2>&1 < /dev/null &
    pid=$!
    pause "$ms"
    find_ranks
    got=0 status=0
    if [ "$n_found" -gt 0 ]; then
        random "$n_found"
        # shellcheck disable=SC2086
        set -- $found
        shift "$r"
        kill -KILL "$1" 2> /dev/null && got=1
    fi
    began=$(now_ms)
    wait $pid || status=$?
    pid=
    find_ranks
    while [ "$n_found" -gt 0 ] && [ $(($(now_ms) - began)) -lt 60000 ]; do
        pause 50
        find_ranks
    done
    took=$(($(now_ms) - began))
    if [ $got -eq 1 ] && [ $status -eq 0 ]; then # it was at its end
        got=0
    fi
    if [ $got -eq 0 ]; then
        too_late=$((too_late + 1))
        [ $status -eq 0 ] || bad "exit status $status: $(cat out)"
        return
    fi
    done_kills=$((done_kills + 1))
    [ $took -le $longest ] || longest=$took
    [ $took -le 10000 ] || bad "$n_found ranks are there $took ms after the kill"
}

"$bin/tshard" gen --dims 8000x6000x2000 --nnz 300000 -s "$seed" -o x.tns > log 2>&1
"$bin/tshard" build x.tns --shard 512K -o whole.tsh > log 2>&1
"$bin/tstream" cp whole.tsh --cpu -r 8 -i 1500 --tol 0 -o whole.cp > log 2>&1

began=$(now_ms)
"${MPIRUN:-mpirun}" -n "$ranks" "$bin/tshard" build x.tns --shard 512K -o x.tsh > log 2>&1 < /dev/null || bad "build: $(cat log)"
build_ms=$(($(now_ms) - began))
rm -rf x.tsh
while [ $of_build -lt $((kills / 4)) ] && [ $failed -eq 0 ]; do
    random "$build_ms"
    killed "$r" "$ranks" "$bin/tshard" build x.tns --shard 512K -o x.tsh
    of_build=$((of_build + got))
    if [ -e x.tsh ]; then
        diff -r whole.tsh x.tsh > log || bad "a tensor is not whole: $(cat log)"
        rm -rf x.tsh
    fi
    random 3
    "${MPIRUN:-mpirun}" -n $((r + 1)) "$bin/tshard" build x.tns --shard 512K -o x.tsh > log 2>&1 < /dev/null || bad "build after a kill: $(cat log)"
    diff -r whole.tsh x.tsh > log || bad "another tensor after a kill: $(cat log)"
    ls -d x.tsh?* > log 2> /dev/null && bad "left: $(cat log)"
    rm -rf x.tsh
done

# Of a run that takes seconds, so that most instants lie behind its first state.
began=$(now_ms)
"${MPIRUN:-mpirun}" -n "$ranks" "$bin/tstream" cp whole.tsh -r 8 -i 1500 --tol 0 --checkpoint 1ms -o x.cp > log 2>&1 < /dev/null || bad "cp: $(cat log)"
cp_ms=$(($(now_ms) - began))
rm -rf x.cp
n=$ranks
while { [ $((of_start + of_resume)) -lt $((kills - kills / 4)) ] || [ $of_resume -lt $((kills / 4)) ]; } && [ $failed -eq 0 ]; do
    random "$cp_ms"
    if [ -e x.cp.partial/state.0 ] || [ -e x.cp.partial/state.1 ]; then
        n=$((n % ranks + 1))
        killed "$r" $n "$bin/tstream" cp --resume x.cp --checkpoint 1ms
        of_resume=$((of_resume + got))
    else
        n=$ranks
        killed "$r" $n "$bin/tstream" cp whole.tsh -r 8 -i 1500 --tol 0 --checkpoint 1ms -o x.cp
        of_start=$((of_start + got))
    fi
    if [ -e x.cp ]; then
        cmp whole.cp/model.ktensor x.cp/model.ktensor > log 2>&1 || bad "not the bytes of the whole run: $(cat log)"
        ended=$((ended + 1))
        rm -rf x.cp x.cp.partial
    fi
done
if [ $failed -eq 0 ] && [ -e x.cp.partial/state.0 -o -e x.cp.partial/state.1 ]; then
    "$bin/tstream" cp --resume x.cp > log 2>&1 || bad "cp --resume by one process: $(cat log)"
    cmp whole.cp/model.ktensor x.cp/model.ktensor > log 2>&1 || bad "not the bytes of the whole run: $(cat log)"
    ended=$((ended + 1))
fi
echo "$done_kills kills of a rank, seed $seed: $of_build of build, $of_start of cp, $of_resume of cp --resume; $too_late came too" \
    "late; all ranks were gone after $longest ms at most; $ended runs ended, each with the bytes of one process"
exit $failed
