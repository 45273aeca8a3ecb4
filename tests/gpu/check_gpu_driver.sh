#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A driver that is missing, too old or broken, and a machine without GPUs: tstream says so in one
# sentence and exits 1 where a GPU was asked for, and computes on the CPU where none was. The driver is
# a fake (fake_driver.c), which the CUDA runtime loads in place of the real one.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

if "$bin/tstream" devices | grep -q 'is not installed'; then echo 'skipped: built without CUDA'; exit 77; fi
${CC:-cc} -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 "$top/tests/gpu/fake_driver.c" -ldl ||
    { echo 'skipped: no library that stands for the driver can be linked'; exit 77; }
printf '%s\n' '1 1 1 2' '1 2 3 4' '2 3 2 1' > x.tns
"$bin/tshard" build x.tns > log 2>&1 || bad "build: $(cat log)"

# with VERSION INIT COMMAND...: under a driver of that version whose start gives that error
with()
{
    FAKE_CUDA_VERSION=$1 FAKE_CUDA_INIT=$2
    export FAKE_CUDA_VERSION FAKE_CUDA_INIT
    shift 2
    LD_LIBRARY_PATH=$tmp "$@"
}

# says QUIET TEXT VERSION INIT: devices, cp with and without --gpus, and a budget; quiet: by default
# the CPU computes without a word
says()
{
    quiet=$1 text=$2 version=$3 init=$4
    with "$version" "$init" "$bin/tstream" devices > log
    tr -s ' \n' ' ' < log | grep -q "^no GPU: .*$text" || bad "devices ($version, $init): $(cat log)"
    with "$version" "$init" "$bin/tstream" devices --json > log
    grep -q "^{\"gpus\":\[\],\"no_gpu\":\"$text" log || bad "devices ($version, $init): $(cat log)"
    for option in --gpus=1 --gpus=0,1 --gpu-memory=1G; do
        got=0
        with "$version" "$init" "$bin/tstream" cp x.tsh "$option" > log 2> err || got=$?
        [ "$got" -eq 1 ] || bad "cp $option ($version, $init): exit $got: $(cat err)"
        grep -q -e "${option%=*}.*: .*$text" err || bad "cp $option ($version, $init): $(cat err)"
        [ "$(wc -l < err)" -eq 1 ] || bad "cp $option: more than a sentence: $(cat err)"
        if [ -e x.cp ] || [ -e x.cp.partial ]; then bad "cp $option: left x.cp"; fi
    done
    with "$version" "$init" "$bin/tstream" cp x.tsh -r 1 -i 1 --no-output --json > log 2> err ||
        bad "cp ($version, $init): does not fall back to the CPU"
    grep -q '"backend":"cpu"' log || bad "cp ($version, $init): $(cat log)"
    if [ "$quiet" = yes ]; then
        [ ! -s err ] || bad "cp ($version, $init): $(cat err)"
    else
        grep -q "^tstream cp: computing on the CPU: .*$text" err ||
            bad "cp ($version, $init): no word of the driver: $(cat err)"
        with "$version" "$init" "$bin/tstream" cp x.tsh -r 1 -i 1 --no-output --cpu > log 2> err ||
            bad "cp --cpu ($version, $init)"
        [ ! -s err ] || bad "cp --cpu ($version, $init): $(cat err)"
    fi
}

says yes 'no NVIDIA driver is installed' 0 0
says no 'the NVIDIA driver is of CUDA 11.2, too old for CUDA 1[0-9.]*, which.*update it, or use --cpu' 11020 0
says yes 'no NVIDIA GPU is there, or CUDA_VISIBLE_DEVICES hides all' 99000 100
says no 'the GPUs are not set up yet: start nvidia-fabricmanager' 99000 802
says no 'the NVIDIA driver does not work: unknown error' 99000 999
exit $failed
