#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kill_campaign.sh [-n KILLS] [-s SEED] FOLDER_OF_PROGRAMS [OPTION_OF_CP...] - kills tshard build and tstream cp
# with SIGKILL at random instants, and looks at what is left.
#
# After each kill of build the tensor must be absent or whole, and a build must make the bytes of one that nobody
# killed. After each kill of cp, a state that was there must still be; the run goes on with --resume where
# there is one, else it starts again with --force, and is killed again, until it ends: with the bytes of one that
# nobody killed. Every other run replaces an old result, which must be there until the new one is. A third of the
# kills of cp wait until a state is being written.
#
#   KILLS    12 unless told; the programs that ended before their kill are not counted
#   SEED     1 unless told: of the instants. What a program does at an instant no seed decides
#   OPTION   for each tstream cp, such as --gpus 1; without one --cpu. With --restarts 3, or several ranks in a
#            second --rank, each of the models must have the bytes of one that nobody killed. --init may name
#            start.cp, a model of the tensor that is there
#
# Prints how many kills hit what. Exit status: 0 when all was right, 1 when not, 2 for wrong usage.
#
#   tests/engine/kill_campaign.sh -n 200 -s 7 build/tools
#   tests/engine/kill_campaign.sh -n 200 build/tools --gpus 1
#   tests/engine/kill_campaign.sh -n 40 build/tools --cpu --nonneg --restarts 3
#   tests/engine/kill_campaign.sh -n 40 build/tools --cpu --init start.cp --fix 1
set -eu

kills=12 seed=1 failed=0
usage()
{
    sed -n '2s/^# \(.*\) - .*/usage: \1/p' "$0" >&2
    exit 2
}
while getopts n:s: option; do
    case $option in
    n) kills=$OPTARG ;;
    s) seed=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] && [ -x "$1/tstream" ] && [ -x "$1/tshard" ] || usage
bin=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- --cpu

tmp=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2> /dev/null || true; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
cd "$tmp"

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

# any FILE...: whether one of them is there; what a pattern without a file leaves is not
any()
{
    for file; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

pause() { sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }

done_kills=0 of_build=0 of_start=0 of_resume=0 in_write=0 too_late=0 ended=0

# killed HOW MS COMMAND...: runs it, and kills it after so long, or, HOW being "write", then as soon as it writes a
# state; sets $got to its exit status, which is 137 when it was killed.
killed()
{
    how=$1 ms=$2
    shift 2
    "$@" > out 2>&1 &
    pid=$!
    pause "$ms"
    if [ "$how" = write ]; then
        while kill -0 $pid 2> /dev/null && ! any x.cp.partial/state*.new x.cp.partial/r*.partial/state*.new; do :; done
    fi
    kill -9 $pid 2> /dev/null || true
    got=0
    wait $pid 2> /dev/null || got=$?
    pid=
    case $got in
    137) done_kills=$((done_kills + 1)) ;;
    0) too_late=$((too_late + 1)) ;;
    *) bad "exit $got: $(cat out)" ;;
    esac
}

# same_models A B: whether model, or each of several, has the same bytes in both
same_models()
{
    set -- "$1" "$2" "$1"/model.ktensor "$1"/r*/model.ktensor
    n_models=0
    for file; do
        case $file in
        "$1"/*model.ktensor) [ -e "$file" ] || continue ;;
        *) continue ;;
        esac
        n_models=$((n_models + 1))
        cmp "$file" "$2${file#"$1"}" > log 2>&1 || return 1
    done
    [ $n_models -gt 0 ]
}

# ---- what nobody killed ----
"$bin/tshard" gen --dims 8000x6000x2000 --nnz 100000 -s "$seed" -o x.tns > log 2>&1
build() { "$bin/tshard" build x.tns --shard 512K "$@" > log 2>&1; }
began=$(now_ms)
build -o whole.tsh
build_ms=$(($(now_ms) - began))
iters=20
"$bin/tstream" cp whole.tsh --cpu -r 8 -i 2 --seed 9 -o start.cp > log
"$bin/tstream" cp whole.tsh -r 8 -i $iters --tol 0 -o whole.cp --checkpoint 0 "$@" > log 2>&1 ||
    { cat log; exit 1; }
# --init start.cp is of rank 8; else another rank tells it from the result, even where nothing is left of both
"$bin/tstream" cp whole.tsh -r 2 -i 2 -o old.cp "$@" > log 2>&1 || "$bin/tstream" cp whole.tsh -r 8 -i 2 -o old.cp "$@" > log
began=$(now_ms)
"$bin/tstream" cp whole.tsh -r 8 -i $iters --tol 0 -o again.cp --checkpoint 1ms "$@" > log
cp_ms=$(($(now_ms) - began))
same_models whole.cp again.cp || bad "states change the result: $(cat log)"
rm -r again.cp

# ---- build ----
while [ $of_build -lt $((kills / 4)) ] && [ $failed -eq 0 ]; do
    random $((build_ms + 1))
    killed time "$r" "$bin/tshard" build x.tns --shard 512K -o x.tsh
    [ "$got" -ne 137 ] || of_build=$((of_build + 1))
    if [ -e x.tsh ]; then
        diff -r whole.tsh x.tsh > log || bad "a tensor is not whole: $(cat log)"
        [ ! -e x.tsh.building ] || build --force -o x.tsh || bad "build --force: $(cat log)"
    else
        random 2
        [ "$r" -eq 0 ] || continue # the next one finds what this one left
        build -o x.tsh || bad "build after a kill: $(cat log)"
    fi
    diff -r whole.tsh x.tsh > log || bad "another tensor after a kill: $(cat log)"
    ls -d x.tsh?* > log 2> /dev/null && bad "left: $(cat log)"
    rm -rf x.tsh
done

# ---- cp ----
# Of several models those that are done count, too.
has_state()
{
    [ ! -e x.cp ] || is_old || return 1 # x.cp.partial may be what it replaced
    any x.cp.partial/state.0 x.cp.partial/state.1 x.cp.partial/state x.cp.partial/r*.partial/state.[01] \
        x.cp.partial/r*.partial/state x.cp.partial/r*/model.ktensor
}

# The run has ended, with the right result and nothing beside it.
check_end()
{
    ended=$((ended + 1))
    same_models whole.cp x.cp || bad "not the bytes of the whole run: $(cat log)"
    if [ "$got" -eq 137 ] && [ -e x.cp.partial ]; then # killed while it removed what it had replaced
        [ -z "$(ls x.cp.partial | grep -vx lock)" ] || grep -q '^replaces$' x.cp/lock ||
            bad "x.cp.partial is left, and x.cp does not say that it was replaced: $(ls x.cp.partial)"
        rm -rf x.cp.partial
    fi
    [ ! -e x.cp.partial ] || bad "x.cp.partial is left: $(ls x.cp.partial)"
    for file in x.cp/run.json x.cp/r*/run.json; do
        [ ! -e "$file" ] || [ "$(grep -o '{"sweep":' "$file" | wc -l)" -eq $iters ] || bad "$file: not $iters sweeps"
    done
    rm -rf x.cp
}

# A run begins: with nothing there, or an old result.
begin()
{
    goes_on=0 old=$((ended % 2))
    [ $old -eq 0 ] || cp -r old.cp x.cp
}

is_old() { same_models old.cp x.cp; }

begin
while [ $done_kills -lt "$kills" ] && [ $failed -eq 0 ]; do
    random 3
    how=time
    [ "$r" -gt 0 ] || how=write
    random $((cp_ms * (3 - goes_on) / 3 + 1)) # less of it is left once it goes on
    if [ $goes_on -eq 1 ]; then
        killed $how "$r" "$bin/tstream" cp --resume x.cp --checkpoint 1ms "$@"
        [ "$got" -ne 137 ] || of_resume=$((of_resume + 1))
    else
        killed $how "$r" "$bin/tstream" cp whole.tsh -r 8 -i $iters --tol 0 -o x.cp --checkpoint 1ms --force "$@"
        [ "$got" -ne 137 ] || of_start=$((of_start + 1))
    fi
    if any x.cp.partial/state*.new x.cp.partial/r*.partial/state*.new; then in_write=$((in_write + 1)); fi
    if [ -e x.cp.partial ]; then
        "$bin/tstream" status x.cp > log 2>&1 || bad "status after a kill: $(cat log)"
    fi
    if has_state; then
        goes_on=1
    elif [ -e x.cp ] && ! is_old; then
        check_end
        begin
    elif [ $goes_on -eq 1 ]; then
        bad "the state was lost: $(ls x.cp.partial)"
    fi
    [ $old -eq 0 ] || [ -e x.cp ] || ls -d x.cp.old.* > log 2>&1 || bad "the old result was lost"
done
if [ $failed -eq 0 ] && [ $goes_on -eq 1 ]; then
    "$bin/tstream" cp --resume x.cp "$@" > log 2>&1 || bad "cp --resume: $(cat log)"
    check_end
fi
echo "$done_kills kills, seed $seed: $of_build of build, $of_start of cp, $of_resume of cp --resume ($in_write while a" \
    "state was written); $too_late came too late; $ended runs ended, each with the bytes of one that nobody killed"
exit $failed
