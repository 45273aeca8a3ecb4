#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tshard-mpi build and tstream-mpi cp on two hosts, which tests/mpi/two_hosts.sh makes of
# namespaces, with 1 Gbit/s of TCP between them. A build has the bytes of one process. Every method
# has the bits of one process, on parts of a tensor on disks of the hosts. A host that is gone ends
# all within 10 seconds, with a sentence, and the run goes on on the other one. Skipped without
# namespaces.
#
#   HOSTS_ALL=1    in the environment: also a host that is switched off, both with MPICH where it
#                  is there beside the MPI that the programs are for, and the rate of rows, which
#                  is 0.8 of that of iperf3 at least, where that is installed
#   HOSTS_MBIT     1000 unless told: the rate
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
# shellcheck source=tests/support/outside.sh
. "$top/tests/support/outside.sh"
# shellcheck source=tests/support/outside_mpi.sh
. "$top/tests/support/outside_mpi.sh"
# shellcheck source=tests/mpi/two_hosts.sh
. "$top/tests/mpi/two_hosts.sh"
if grep -q __asan_init "$bin/tstream"; then skip_hosts "sanitizers look at one host"; fi
starts "$launcher" "$bin/tstream-mpi"
trap 'hosts_down; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
hosts_up "${HOSTS_MBIT:-1000}"

# Open MPI and MPICH. Both hosts have the same kernel, which lets UCX read the memory of the other
# one, past the cable.
open="$launcher --mca pml ob1 --mca btl tcp,self --mca plm_rsh_agent $agent
    --host tshost0,tshost1 -n 2"
hydra="-launcher ssh -launcher-exec $agent.ends -hosts tshost0,tshost1 -n 2"
case $("$launcher" --version 2>&1) in
*"Open MPI"*) ranks=$open ;;
*HYDRA*) ranks="env UCX_TLS=tcp,self $launcher $hydra" ;;
*) skip_hosts "no way is known to tell $launcher of two hosts" ;;
esac
program=$bin/tstream

# two COMMAND...: a rank of it on each host
two()
{
    # shellcheck disable=SC2086
    on 0 timeout -k 5 120 $ranks "$@" < /dev/null
}

# ---- a build into a folder that both see ----
"$bin/tshard" gen --dims 3000x2000x70 --nnz 60000 --law power:1.1 -s 3 -o x.tns > log 2>&1
"$bin/tshard" build x.tns --shard 64K -o x.tsh > log 2>&1 || bad "$(cat log)"
cp x.tns disk.0
cp x.tns disk.1
two "$bin/tshard" build x.tns --shard 64K -o shared/x.tsh > log 2> err || bad "build: $(cat err)"
grep -q '2 processes build together' err || bad "build: not by two: $(cat err)"
diff -r x.tsh shared/x.tsh > log || bad "build: not the bytes of one process: $(cat log)"

# ---- parts on disks of the hosts; nobody sees the whole tensor any more ----
for part in 1 2; do
    on $((part - 1)) "$bin/tshard" part shared/x.tsh --part $part/2 -o x.tsh > log 2>&1 ||
        bad "part $part: $(cat log)"
done
rm -rf shared/x.tsh disk.?/x.tns

# methods: the bits of one process
run=0
methods()
{
    run=0
    while read -r options; do
        run=$((run + 1))
        # shellcheck disable=SC2086
        [ -e one.$run ] || "$bin/tstream" cp x.tsh --cpu --tol 0 $options -o one.$run > log 2>&1 ||
            bad "$options: $(cat log)"
        # shellcheck disable=SC2086
        two "$program" cp x.tsh --ranks 2 --tol 0 $options -t 1 -o two.$run > log 2> err ||
            bad "$options: $(cat err)"
        cmp one.$run/model.ktensor disk.0/two.$run/model.ktensor > log 2>&1 ||
            bad "$options: not the bytes of one process: $(cat log)"
        [ ! -e disk.1/two.$run ] || bad "$options: rank 1 has written a result"
        rm -rf disk.0/two.$run
    done << 'END'
-r 9 -i 3
-r 4 -i 3 --precision float64 -m 4M
-r 5 -i 3 --nonneg --l1 3=0.1
-r 3 -i 6 --accelerate
-r 4 -i 2 --simplex 1 --l2 0.1
-r 4 -i 2 --orthogonal 2 --init nvecs
-r 4 -i 2 --smooth 1=2,3 --l2 2=0.1
-r 4 -i 2 --observed --l2 0.1 --hold-out 10%
-r 4 -i 2 --loss poisson
-r 4 -i 2 --loss gamma --observed
-r 4 -i 2 --loss poisson-log
-r 4 -i 2 --bounds -0.5:0.5
END
    [ $run -eq 12 ] || bad "$run of 12 methods"
}
methods
two "$program" cp x.tsh -r 4 -i 1 --tol 0 -t 1 -n > log 2> err || bad "$(cat err)"
! grep -q 'through memory' err || bad "two hosts share memory: $(cat err)"

# gone HOW: the cable of host 1 is pulled in a run, or its power cord; everything ends meanwhile
most=10000
if awk -v n="$(nproc)" '{ exit !($1 > n) }' /proc/loadavg; then most=20000; fi # a busy machine
gone()
{
    rm -rf disk.0/gone.cp disk.0/gone.cp.partial again.cp
    two "$program" cp x.tsh -r 9 -i 1000000 --tol 0 -t 1 --checkpoint 100ms -o gone.cp \
        > log 2> err &
    pid=$! tries=0
    while ! { [ -e disk.0/gone.cp.partial/state.1 ] &&
        grep -q '"sweep":[0-9][0-9]' disk.0/gone.cp.partial/status.json; } && [ $tries -lt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ $tries -lt 300 ] || bad "$1: nothing is saved: $(cat err)"
    began=$(date +%s%N) took=0 there=some
    cable down
    [ "$1" = cable ] || power_off 1
    while [ -n "$there" ] && [ $took -lt 40000 ]; do
        on_host 0
        left=$there
        on_host 1
        there=$left$there took=$((($(date +%s%N) - began) / 1000000))
        sleep 0.1
    done
    [ $took -le $most ] || bad "$1: something runs $took ms later; the limit is $most"
    power_off 0
    power_off 1
    wait $pid && bad "$1: the exit status is 0"
    echo "$1: all had ended after $took ms: $(grep '^tstream: rank' err)"
    grep -q '^tstream: rank [01] of 2, on tshost[01]: .* machine or the network is gone' err ||
        bad "$1: no sentence: $(cat err)"
    cable up

    # on one host, which gets the whole tensor
    mv disk.0/x.tsh disk.0/part.tsh
    cp -R x.tsh disk.0
    sweep=$("$bin/tstream" status disk.0/gone.cp --json | sed 's/.*"sweep":\([0-9]*\).*/\1/')
    on 0 "$bin/tstream" cp --cpu --resume gone.cp -i $((sweep + 3)) > log 2> err ||
        bad "$1: --resume on one host: $(cat err)"
    ! grep -q '^ *1 ' log || bad "$1: begins again: $(cat log)"
    rm -rf disk.0/x.tsh
    mv disk.0/part.tsh disk.0/x.tsh
    "$bin/tstream" cp x.tsh --cpu -r 9 -i $((sweep + 3)) --tol 0 -o again.cp > log 2>&1
    cmp again.cp/model.ktensor disk.0/gone.cp/model.ktensor > log 2>&1 ||
        bad "$1: gone on with by one host: not the bits of an uninterrupted run: $(cat log)"
}
gone cable

# wire: sets $wire to the rate of iperf3
wire()
{
    on 1 timeout -k 5 60 iperf3 -s -1 -B $address1 > server 2>&1 &
    pid=$!
    sleep 1
    on 0 timeout -k 5 60 iperf3 -c $address1 -n 200M -l 1M --json > iperf 2>&1 || bad "$(cat iperf)"
    wait $pid || bad "$(cat server)"
    wire=$(sed -n '/"sum_received"/,/}/s/.*"bits_per_second":[^0-9]*\([0-9.e+]*\).*/\1/p' iperf)
}

# rates PROGRAM: rows of two long modes travel both ways at once, in messages of 24 MB; the rank that
# waits for none has the time. iperf3, MPI itself and rows take turns; the median of their ratio
# counts. PROGRAM says what MPI alone does.
rates()
{
    for host in 0 1; do
        on $host "$bin/tshard" gen --dims 1000000x900000x70 --nnz 1500000 --law uniform -s 3 \
            -o long.tsh --force > log 2>&1
    done
    : > ratios
    for turn in 1 2 3; do
        wire
        alone=$(two "${bin%/tools}/tests/$1" 24000000 5 2> err) || bad "rates of MPI: $(cat err)"
        two "$program" cp long.tsh -r 16 -i 4 --tol 0 -t 1 --rows all --json --details -n \
            > log 2> err ||
            bad "rates: $(cat err)"
        grep '"event":"mode"' log | tr '{' '\n' | awk -v wire="$wire" -v alone="$alone" '
            /"row_bytes"/ { sub(/.*"row_bytes":/, ""); bytes = $0 + 0; least = 0 }
            /"exchange_seconds"/ {
                sub(/.*"exchange_seconds":/, "")
                s = $0 + 0
                if (least > 0 && bytes > 8e6) {
                    s = s < least ? s : least
                    all += 4 * bytes
                    time += s
                }
                least = s
            }
            END {
                rows = all / time
                print rows / wire >> "ratios"
                printf "rows: %.0f Mbit/s each way, iperf3: %.0f, MPI alone: %.0f, ", rows / 1e6,
                    wire / 1e6, alone / 1e6
                printf "ratios %.2f and %.2f\n", rows / wire, rows / alone
            }'
    done
    sort -g ratios | awk 'NR == 2 { exit !($1 >= 0.8) }' || [ $most -gt 10000 ] ||
        bad "rows travel slower than 0.8 of what iperf3 gets"
    rm -rf disk.?/long.tsh
}

if [ "${HOSTS_ALL:-0}" != 0 ]; then
    gone power
    if command -v iperf3 > log; then
        rates exchange_rate
    else
        echo "no rates: there is no iperf3"
    fi
    program=${bin%/tools}/tests/tstream-mpich
    if [ "$ranks" = "$open" ] && [ -x "$program" ] && command -v mpirun.mpich > log; then
        echo "MPICH, which at times does not come back from MPI_Finalize between two hosts:"
        ranks="env UCX_TLS=tcp,self mpirun.mpich $hydra"
        gone cable
        gone power
    fi
fi
exit $failed
