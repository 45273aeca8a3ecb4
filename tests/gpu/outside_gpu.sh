# SPDX-License-Identifier: BSD-3-Clause
# outside_gpu.sh - what tests of tstream cp on GPUs begin with, after outside.sh: they are skipped without one;
# $usable is their number.
"$bin/tstream" devices --json > there
usable=$(grep -o '"usable":true' there | wc -l)
[ "$usable" -gt 0 ] || { echo "skipped: there is no GPU that can be used"; exit 77; }
if grep -q __asan_init "$bin/tstream"; then echo "skipped: built with AddressSanitizer"; exit 77; fi # it reserves what CUDA needs of address space

# number EVENT NAME: its value in the last such event of the file json
number() { sed -n "s/.*\"event\":\"$1\".*\"$2\":\([0-9.e+-]*\).*/\1/p" json | tail -n 1; }

# run_cp NAME OPTION...: x.tsh into NAME.cp, what is printed into json
run_cp()
{
    name=$1
    shift
    "$bin/tstream" cp x.tsh --tol 0 --json --force --output "$name.cp" "$@" > json 2> err ||
        bad "cp $*: $(cat err)"
}

# beside OUT COMMAND...: starts a command that prints to OUT, beside up to seven others; together waits for them, and finds fault
# with those that failed. A command on a GPU takes seconds to start, and waits for most of them.
n_beside=0
beside()
{
    [ "$n_beside" -lt 8 ] || together
    n_beside=$((n_beside + 1))
    to=$1
    shift
    {
        got=0
        "$@" > "$to" 2> "beside.$n_beside.err" || got=$?
        echo "$got $*" > "beside.$n_beside.rc"
    } &
}
together()
{
    wait
    while [ "$n_beside" -gt 0 ]; do
        read -r got what < "beside.$n_beside.rc" || got=none what=nothing
        [ "$got" = 0 ] || bad "$what: exit $got: $(cat "beside.$n_beside.err")"
        rm -f "beside.$n_beside.rc"
        n_beside=$((n_beside - 1))
    done
}

# counts of GPUs to try: 1, 2 and all
some_gpus() { printf '%s\n' 1 2 "$usable" | sort -nu | awk -v most="$usable" '$1 <= most && $1 <= 16'; }

# little GPUS OPTION...: a budget that holds little more than what such a run cannot do without, as refusals of
# 1 MiB count that (what the driver takes is not always the same)
little()
{
    gpus=$1
    shift
    for _ in 1 2 3; do
        "$bin/tstream" cp x.tsh --gpus "$gpus" --gpu-memory 1M "$@" > log 2> refused && bad "1 MiB is enough"
        grep -q 'cannot work' refused || bad "--gpu-memory 1M: $(cat refused)"
        grep -o '[0-9]* MiB' refused | awk 'NR > 1 { sum += $1 } END { print sum + 12 }'
    done | sort -n | sed -n '$s/$/M/p'
}
