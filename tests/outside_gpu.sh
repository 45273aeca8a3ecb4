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
    "$bin/tstream" cp x.tsh --tol 0 --json --force --out "$name.cp" "$@" > json 2> err ||
        bad "cp $*: $(cat err)"
}

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
