#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Four methods, each in both precisions, give the same bytes on one thread with all shards in memory, and on three
# threads with shards that are read again in each pass.
set -eu
top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

"$bin/tshard" gen --dims 400x90x40 --law power:0.8 --law uniform --law uniform --nnz 24000 --value real --values float64 --shard 64K -q -o x.tsh > log
compare()
{
    name=$1
    shift
    for precision in float32 float64; do
        "$bin/tstream" cp x.tsh --cpu -r 7 -i 3 --tol 0 -p $precision -t 1 -q -o "$name.1.$precision" "$@" > log 2> err ||
            bad "$name: $(cat err)"
        "$bin/tstream" cp x.tsh --cpu -r 7 -i 3 --tol 0 -p $precision -t 3 -m 360K -q -o "$name.2.$precision" "$@" > log 2> err ||
            bad "$name, streamed: $(cat err)"
        cmp "$name.1.$precision/model.ktensor" "$name.2.$precision/model.ktensor" || bad "$name in $precision"
    done
    cmp -s "$name.1.float32/model.ktensor" "$name.1.float64/model.ktensor" && bad "$name: one precision is the other"
    grep -q '"bytes_read":0,' "$name.2.float32/run.json" && bad "$name: nothing was streamed"
    grep -q '"bytes_read":0,' "$name.1.float32/run.json" || bad "$name: all was streamed"
}
compare least-squares
compare observed --observed
compare poisson --loss poisson --inner 3
compare huber --loss huber:1.5 --optimizer lbfgsb
exit $failed
