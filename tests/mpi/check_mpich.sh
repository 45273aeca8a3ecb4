#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpirun.mpich -n 3 tstream cp: the bytes of one process with the other MPI of the distribution, and what ends one rank ends
# all. Skipped where MPICH is not installed beside the MPI that the programs are for (scripts/packages ci does that).
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
# shellcheck source=tests/support/outside_mpi.sh
. "$top/tests/support/outside_mpi.sh"
mpich=${bin%/tools}/tests/tstream-mpich
starts mpirun.mpich "$mpich"

"$bin/tshard" gen --dims 3000x2000x70 --nnz 150000 --law power:1.1 --shard 64K -s 3 -o x.tsh > log 2>&1
"$bin/tstream" cp x.tsh --cpu --tol 0 --rows all -r 9 -i 4 -o one > log 2>&1 || bad "$(cat log)"
timeout 300 mpirun.mpich -n 3 "$mpich" cp x.tsh --ranks 3 --tol 0 --rows all -r 9 -i 4 -o three < /dev/null > log 2> err || bad "3 ranks: $(cat err)"
cmp -s one/model.ktensor three/model.ktensor || bad "3 ranks: not the bytes of one process"
grep -q '3 processes compute together' err || bad "3 ranks: are not told of"

# A launcher of another MPI starts processes each of which is alone to its own one: nothing is computed, three times.
status=0
timeout 300 "$launcher" -n 3 "$mpich" cp x.tsh -r 9 -i 4 -o alone < /dev/null > log 2> err || status=$?
[ $status -eq 1 ] || bad "by the launcher of another MPI: exit status $status: $(cat log err)"
[ "$(grep -c 'started as 3 processes by the launcher of another MPI than that of tstream-mpi, MPICH' err)" -eq 1 ] ||
    bad "by the launcher of another MPI: $(cat err)"
[ ! -e alone ] && [ ! -e alone.partial ] || bad "by the launcher of another MPI: there is a result"

# What the launcher knows of, and what it does not.
for signal in KILL STOP; do
    rm -rf kill.cp kill.cp.partial
    timeout 300 mpirun.mpich -n 3 "$mpich" cp x.tsh -r 9 -i 1000000 --tol 0 --checkpoint 20ms -o kill.cp < /dev/null > log 2> err &
    pid=$! within=10
    [ $signal = KILL ] || within=30 # 7 seconds of silence, and what a busy machine takes
    signal_one $signal kill.cp
    [ $signal = KILL ] || grep -q 'tstream: rank [0-2] of 3, on .*: has said nothing for 7 seconds' err ||
        bad "does not say that a rank says nothing (exit status $status): $(cat err; tail -n 5 log)"
    "$bin/tstream" cp --resume kill.cp --max-time 200ms > log 2> err || bad "--resume after SIG$signal: $(cat err)"
    grep -q 'goes on from sweep' err || bad "--resume after SIG$signal: $(cat err)"
done

exit $failed
