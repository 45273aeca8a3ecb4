#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream bench refuses what it does not know with exit 2, and says in one sentence, with exit 1, that
# there is no GPU. (What it measures is tested by check_gpu_exchange.)
set -eu

tstream=${TOP_BUILDDIR:?}/tools/tstream
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# refused STATUS TEXT ARGS...
refused()
{
    status=$1 text=$2
    shift 2
    got=0
    CUDA_VISIBLE_DEVICES='' "$tstream" bench "$@" > "$tmp/out" 2> "$tmp/err" || got=$?
    if [ "$got" -ne "$status" ] || [ -s "$tmp/out" ] || ! grep -qF -e "$text" "$tmp/err" ||
        { [ "$status" -eq 1 ] && [ "$(wc -l < "$tmp/err")" -ne 1 ]; }; then
        echo "tstream bench $*: exit $got, expected $status with \"$text\": $(cat "$tmp/err")" >&2
        failed=1
    fi
}

refused 2 "an operand is missing; usage: tstream bench"
refused 2 "named 'exchagne'; did you mean 'exchange'?" exchagne
refused 2 "unexpected operand 'more'" exchange more
refused 2 "'nvlink' is none of auto|nccl|copy|host" exchange --kind nvlink
refused 2 "'many' is not a size" exchange --bytes many
refused 2 "GPU 1 is named twice" exchange --gpus 1,1
refused 1 "no GPU can be used: " exchange
refused 1 "no GPU can be used: " exchange --json --kind copy --bytes 1M
refused 1 "--gpus 2: " exchange --gpus 2
exit "$failed"
