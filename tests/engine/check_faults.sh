#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_faults.sh [SECONDS [SEED [COMMAND...]]] - every system call and allocation that a command makes
# fails once, and from then on (tests/engine/faultlib.c), for as many of them as SECONDS allow (default 20, or
# $TS_FAULT_SECONDS; 0: all of them, which takes the better part of an hour), in an order drawn by SEED.
#
# A command whose k-th call fails ends with exit status 1 and a sentence that names the cause, or goes on
# to the same bytes as ever with status 0. Either way what it leaves is whole: the result or nothing,
# and nothing half-made beside it. It never hangs, crashes, or says 0 with less than was asked for.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
built=$(cd "${TOP_BUILDDIR:-$top}" && pwd)
lib=$built/tests/faultlib.so
seconds=${1:-${TS_FAULT_SECONDS:-20}}
seed=${2:-${TS_FAULT_SEED:-1}}
if [ $# -gt 2 ]; then shift 2; else set --; fi
only=" $* "
if [ ! -f "$lib" ]; then
    echo "skipped: there is no $lib here"
    exit 77
fi
if ldd "$built/tools/tshard" 2> /dev/null | grep -q libomp; then
    echo "skipped: LLVM's OpenMP aborts when a call of its own fails"
    exit 77
fi
. "$top/tests/support/outside.sh"
unremoved=

# ---- inputs ----
"$bin/tshard" gen --planted 2 --dims 30x20x10 --nnz 3000 --seed 5 -o x.tns > log 2>&1
for i in $(seq 30); do echo "thing $i"; done > x.mode1.map
"$bin/tshard" build x.tns > log 2>&1
"$bin/tshard" gen --dims 3x2000x3000 --nnz 400K --seed 6 -o l.tsh > log 2>&1
"$bin/tshard" gen --dims 200x100x50x60x70x80x90x100 --nnz 600K --seed 6 -o h.tns > log 2>&1
# names that are long, so that few of them fill the memory for names and go to disk
awk 'BEGIN { for (i = 0; i < 50000; i++) printf "%0240d,thing %d,1\n", i * 7919 % 40009, i % 50 }' > names.csv
"$bin/tstream" cp x.tsh --cpu -r 2 -i 2 --format ktensor -o k.cp > log 2>&1
"$bin/tstream" cp x.tsh --cpu -r 2 -i 2 --format npy -o n.cp > log 2>&1
"$bin/tstream" cp x.tsh --cpu -r 2 -i 2 --format splatt -o s.cp > log 2>&1
if ! TS_FAULT=open:0 LD_PRELOAD=$lib "$bin/tshard" info x.tsh > log 2>&1; then
    echo "skipped: $(tail -n 1 log)"
    exit 77
fi

# ---- commands: each writes o/r, or prints what does not change ----
has() # PROGRAM COMMAND [OPTION]
{
    "$bin/$1" "$2" --help > log 2>&1 && grep -q -- "${3:-}" log
}
export OMP_WAIT_POLICY=passive # or the program executes itself again, where the library's own calls are no longer spared
cp_args='--cpu --threads 2 -r 2 -i 3 --tol 0'
declare -A command=(
    [build]="tshard build x.tns -o o/r --threads 2 --memory 32M"
    [build-spill]="tshard build h.tns -o o/r --threads 2 --memory 32M" # through runs on disk
    [build-names]="tshard build names.csv -o o/r --text 1 --threads 2 --memory 32M"
    [build-sorted]="tshard build names.csv -o o/r --text 1 --names sorted --threads 2 --memory 32M"
    [export]="tshard export x.tsh -o o/r --threads 2"
    [export-gz]="tshard export x.tsh -o o/r.gz --threads 2"
    [export-csv]="tshard export x.tsh -o o/r --threads 2 --format csv --sort 3,2"
    [export-runs]="tshard export l.tsh -o o/r --threads 2 --sort 1,2 --memory 12M" # through runs on disk
    [verify]="tshard verify x.tsh -q --threads 2"
    [info]="tshard info x.tsh"
    [cp]="tstream cp x.tsh $cp_args -o o/r --format ktensor,npy,splatt"
    [cp-streamed]="tstream cp x.tsh $cp_args -o o/r --host-memory 100K"
    [several]="tstream cp x.tsh --cpu --threads 2 --rank 1,2 --restarts 2 -i 2 --tol 0 -o o/r --diagnose"
    [several-observed]="tstream cp x.tsh --cpu --threads 2 --observed --rank 1,2 --hold-out 10% -i 2 --tol 0 -o o/r"
    [cp-trace]="tstream cp x.tsh $cp_args -n --trace o/t"
    [init-k]="tstream cp x.tsh $cp_args -o o/r --init k.cp"
    [init-n]="tstream cp x.tsh $cp_args -o o/r --init n.cp"
    [init-s]="tstream cp x.tsh $cp_args -o o/r --init s.cp"
    [mttkrp]="tstream mttkrp x.tsh --cpu --threads 2 -r 2 -n 1 --check --host-memory 100K"
    [compare]="tstream compare k.cp n.cp --threads 2 --json"
    [top]="tstream top k.cp x.tsh"
    [top-n]="tstream top n.cp x.tsh"
)
if has tstream fit; then command[fit]="tstream fit k.cp x.tsh --cpu --threads 2 --json --diagnose"; fi
if has tstream cp --resume; then
    "$bin/tstream" cp x.tsh --cpu --threads 2 -r 2 -i 1 --tol 0 -o begun > log 2>&1
    command[resume]="tstream cp --resume o/r --iters 3 --threads 2 --cpu"
fi
started=$(date +%s)
printed=" info compare top top-n fit mttkrp " # commands whose output is their result

# Kinds of calls, with what they fail with: errno, once or on.
faults='open EMFILE once|open EMFILE on|read EIO once|read EIO on|read EINTR once|pread EIO once
pread EINTR once|pread EIO on|write ENOSPC once|write ENOSPC on|write EINTR once|pwrite ENOSPC once
pwrite EIO on|pwrite EINTR once|fsync EIO once|fsync EIO on|rename EIO once|close EIO once|close EIO on
ftruncate ENOSPC once|ftruncate ENOSPC on|mkdir EACCES on|unlink EACCES once|unlink EACCES on
stat EACCES once|stat EIO on|list EIO once|list EIO on|lock ENOLCK on|mmap ENOMEM once|mmap ENOMEM on
io_uring_setup ENOMEM on|io_uring_register ENOMEM once|io_uring_register ENOMEM on
io_uring_enter EAGAIN once|io_uring_enter EAGAIN on|io_uring_enter EBUSY once|io_uring_enter EINTR once
io_uring_enter EIO once|malloc ENOMEM once|malloc ENOMEM on|pthread_create EAGAIN once
pthread_create EAGAIN on'

cause() # ERRNO: what a sentence may call it
{
    case $1 in
    EIO) echo 'Input/output error' ;;
    ENOSPC) echo 'No space left on device' ;;
    ENOMEM) echo 'memory|thread' ;; # of a stack: EAGAIN
    EACCES) echo 'Permission denied' ;;
    EMFILE) echo 'Too many open files' ;;
    EINTR) echo 'Interrupted system call' ;;
    EAGAIN) echo 'Resource temporarily unavailable|thread' ;;
    EBUSY) echo 'Device or resource busy' ;;
    ENOLCK) echo 'No locks available' ;;
    esac
}

fresh()
{
    rm -rf o
    mkdir o
    if [ "$1" = resume ]; then cp -r begun o/r; fi
}

run() # NAME [FAULT]: its status in $got
{
    local words
    read -ra words <<< "${command[$1]}"
    words[0]=$bin/${words[0]}
    rm -f mark
    got=0
    if [ $# -gt 1 ]; then
        timeout -k 5 120 env TS_FAULT="$2" TS_FAULT_MARK=mark LD_PRELOAD="$lib" "${words[@]}" \
            > out 2> err || got=$?
    else
        timeout -k 5 120 "${words[@]}" > out 2> err || got=$?
    fi
    case $1 in # how long it took
    fit) sed -i 's/"seconds":[^,]*,//' out ;;
    mttkrp) sed -i '/^check:/!d' out ;;
    esac
}

# What stands in o besides the result, and records and states, which hold times.
same() # NAME: o/ is what the undisturbed run left
{
    # shellcheck disable=SC2086
    diff -r -x run.json -x state -x t -x models.json -x models.tsv $unremoved "want.$1" o > differs 2>&1 || return 1
    if [ -e "want.$1/t" ]; then tail -n 1 o/t 2> log | grep -q '\]' || return 1; fi
    case $printed in *" $1 "*) cmp -s "want.$1.out" out ;; esac
}

nothing() # NAME: o/ is as before
{
    if [ "$1" = resume ]; then diff -r begun o/r > differs 2>&1; else [ -z "$(ls -A o)" ]; fi
}

goes_on() # NAME: o/r.partial holds a state, or models of several, from which the run comes to its result
{
    [[ $1 = several* ]] && [ -e o/r.partial/models.run ] || ls o/r.partial/state* > log 2>&1 || return 1
    if [ "$1" = resume ]; then
        run "$1"
    else
        got=0
        timeout -k 5 120 "$bin/tstream" cp --resume o/r --cpu --threads 2 > out 2> err || got=$?
    fi
    [ "$got" -eq 0 ] && same "$1"
}

one() # NAME KIND ERRNO MODE K
{
    local what="$1, $2 number $5 fails with $3 ($4)"
    fresh "$1"
    run "$1" "$2:$5:$3:$4"
    unremoved=
    # Who cannot open or remove what was replaced leaves it beside the result that is in place.
    case $2 in unlink | open | list) unremoved='-x lock -x status.json -x r.partial' ;; esac
    if [ ! -s mark ]; then
        bad "$what: no orderly end, exit $got: $(tail -n 3 err)"
        return
    fi
    hit=1
    grep -q hit mark || hit=0
    case $got in
    0)
        if grep -q 'is in place, but what it replaced could not be removed' err; then
            unremoved='-x lock -x status.json -x r.partial'
        fi
        same "$1" || bad "$what: exit 0 without the result: $(head -n 3 err differs)" ;;
    1)
        if [ $hit -eq 0 ]; then
            bad "$what: fails undisturbed: $(cat err)"
        elif [ "$2" = stat ]; then # which files are whose is not known then, whatever is said of it
            tail -n 1 err | grep -qE '^(tshard|tstream)( [a-z]+)?: ' || bad "$what: $(cat err)"
        elif ! tail -n 1 err | grep -qE '^(tshard|tstream)( [a-z]+)?: ' ||
            ! grep -qE "$(cause "$3")" err; then
            bad "$what: does not name the cause: $(tail -n 1 err)"
        fi
        if same "$1" || nothing "$1" || goes_on "$1"; then return; fi
        case $1/$2/$4 in
        # Who cannot look or remove leaves it; the next run must clear it.
        */unlink/* | */list/* | */open/on | */pread/on | */stat/* | */malloc/on)
            run "$1"
            if [ "$got" -ne 0 ] || ! same "$1"; then
                bad "$what: the next run ends with $got: $(cat err)"
            fi
            ;;
        *) bad "$what: left $(ls -A o): $(tail -n 1 err)" ;;
        esac
        ;;
    *) bad "$what: exit $got: $(tail -n 3 err)" ;;
    esac
}

# What an undisturbed run leaves, and how many calls of a kind it makes: found when it is first asked for.
declare -A known
prepare() # NAME KIND: $total
{
    local calls=0
    if [ -z "${known[$1]-}" ]; then
        fresh "$1"
        run "$1"
        [ "$got" -eq 0 ] || bad "$1: $(cat err)"
        rm -rf "want.$1"
        cp -r o "want.$1"
        cp out "want.$1.out"
        known[$1]=yes
    fi
    if [ -z "${known[$1 $2]-}" ]; then
        fresh "$1"
        run "$1" "$2:0"
        [ "$got" -eq 0 ] || bad "$1: exit $got while calls of $2 are counted: $(tail -n 3 err)"
        read -r calls < mark || true
        known[$1 $2]=$calls
    fi
    total=${known[$1 $2]}
}

# ---- all of them, or some for as long as there is time ----
names=()
for name in $(printf '%s\n' "${!command[@]}" | sort); do
    case $only in "  " | *" $name "*) names+=("$name") ;; esac
done
# NVIDIA's runtime, where it is linked in, takes memory before main() and dies where there is none.
dead=none
! grep -q 'define HAVE_CUDA 1' "$built/config.h" || dead=malloc
mapfile -t fault < <(tr '|' '\n' <<< "$faults" | grep -v "^$dead ")
tried=0
hits=0
try() # NAME KIND ERRNO MODE K
{
    one "$@"
    tried=$((tried + 1)) hits=$((hits + hit))
}
if [ "$seconds" -eq 0 ]; then
    for name in "${names[@]}"; do
        for f in "${fault[@]}"; do
            read -r kind errno mode <<< "$f"
            prepare "$name" "$kind"
            for ((k = 1; k <= total + (total > 0); k++)); do try "$name" "$kind" "$errno" "$mode" $k; done
        done
    done
else
    RANDOM=$seed
    while [ $(($(date +%s) - started)) -lt "$seconds" ]; do
        name=${names[$((RANDOM % ${#names[@]}))]}
        read -r kind errno mode <<< "${fault[$((RANDOM % ${#fault[@]}))]}"
        k=$RANDOM
        prepare "$name" "$kind"
        if [ "$total" -gt 0 ]; then try "$name" "$kind" "$errno" "$mode" $((k % total + 1)); fi
    done
fi
"$bin/tshard" verify -q x.tsh > log 2>&1 || bad "an input was changed: $(cat log)"
echo "$tried faults tried with seed $seed, $hits of them met ($(($(date +%s) - started)) s)"
exit $failed
