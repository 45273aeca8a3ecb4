#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tstream plan: what it says is what tstream cp then does, and what it refuses cp refuses with the same
# sentence. How long things take is looked at only where it cannot vary.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
command -v python3 > log || { echo "skipped: there is no python3"; exit 77; }

"$bin/tshard" gen --dims 3000x4000x5000 --nnz 1M --value real -o x.tsh --shard 256K > log 2>&1

# ---- numbers: compared by python3, cp's last sweep and its end with the plan ----
cat > compare.py << 'EOF'
import json, sys
plan = json.load(open(sys.argv[1]))
events = [json.loads(line) for line in open(sys.argv[2])]
start, done = events[0], events[-1]
sweep = [e for e in events if e["event"] == "sweep"][-1]
host, bad = plan["host_memory"], []
def same(what, a, b):
    if a != b:
        bad.append(f"{what}: planned {a}, was {b}")
if abs(plan["disk_bytes"] - sweep["bytes_read"]) > host["slot_bytes"]: # some are read ahead
    bad.append(f"read: planned {plan['disk_bytes']}, was {sweep['bytes_read']}")
same("factors", host["factor_bytes"], start["factor_bytes"])
if plan["options"]["host-memory"] > 0: # else what is free just then
    same("budget", host["budget_bytes"], start["host_bytes"])
same("options", plan["options"], start["options"])
same("modes", [m["mode"] for m in plan["modes"]], [1, 2, 3])
parts = sum(host[k + "_bytes"] for k in
            ("factor", "other", "resident_shard", "slot", "decoded", "state_copy", "library", "program"))
if not 0 <= host["total_bytes"] - parts < 24576: # slack of three blocks
    bad.append(f"total {host['total_bytes']}, parts {parts}")
if sys.argv[3] == "memory" and abs(host["total_bytes"] / done["peak_bytes"] - 1) > 0.25:
    bad.append(f"memory: planned {host['total_bytes']}, was {done['peak_bytes']}")
sweeps = plan["options"]["iters"]
want = plan["first_sweep_seconds"] + (sweeps - 1) * plan["sweep_seconds"]
if not 0 < plan["sweep_seconds"] <= plan["first_sweep_seconds"] or abs(plan["run_seconds"] - want) > 1e-9 * want:
    bad.append("seconds do not add up")
if plan["measured"]["share_of_shards"] != 1 or plan["measured"]["sweeps"] < 1 or plan["measured"]["disk_bytes_per_s"] <= 0:
    bad.append(f"measured: {plan['measured']}")
sys.exit("; ".join(bad) if bad else 0)
EOF
memory=memory # sanitizers take memory of their own
if grep -q __asan_init "$bin/tstream"; then memory=any; fi
for options in '-r 8' '-r 8 -m 3M' '-r 20 -m 5M -p float64'; do
    # shellcheck disable=SC2086 # words
    {
        "$bin/tstream" plan x.tsh --cpu -t 2 $options -i 3 --tol 0 -n --json > plan.json || bad "plan $options"
        "$bin/tstream" cp x.tsh --cpu -t 2 $options -i 3 --tol 0 -n --json > cp.json
    }
    python3 compare.py plan.json cp.json $memory || bad "plan $options"
done

# ---- the table fits a terminal, and a plan leaves nothing behind ----
"$bin/tstream" plan x.tsh --cpu -r 8 -m 3M > table
awk 'length($0) > 80 { print; bad = 1 } END { exit bad }' table || bad "plan: lines of more than 80 columns"
for line in 'factor matrices  *375 KiB' 'slots for the others  *[1-9].* of ' 'in all  *.* free$' \
    'from disk  *[1-9]' '50 sweeps  *.* at most$' 'results  *.* are free$' '[1-9][0-9]* sweeps over 100 % of the shards$'; do
    grep -q "^  $line" table || bad "plan: no '$line' in: $(cat table)"
done
if ls -d x.cp* > left 2> log; then bad "plan: left $(cat left)"; fi

# ---- the states of the run: a copy in memory, and what they take of disk ----
"$bin/tstream" plan x.tsh --cpu -r 8 -m 64M --json > plan.json
"$bin/tstream" cp x.tsh --cpu -r 8 -m 64M -i 2 -o states > log
member() { sed "s/.*\"$1\":\([0-9]*\),.*/\1/" plan.json; }
more=$(($(wc -c < states/state) - $(member state_bytes))) # options and fits
if [ $more -lt 0 ] || [ $more -gt 4096 ]; then bad "plan: a state takes $more bytes more than planned"; fi
if [ "$(member state_copy_bytes)" -le 250000 ]; then bad "plan: no copy of the state: $(cat plan.json)"; fi
"$bin/tstream" plan x.tsh --cpu -r 8 -m 64M > table
grep -q '^  copy of the state .* for --checkpoint$' table || bad "plan: no copy: $(cat table)"
grep -q '^  states to go on from .* 3 of .*, at most$' table || bad "plan: no states: $(cat table)"
"$bin/tstream" plan x.tsh --cpu -r 8 -m 64M --checkpoint 0 > table
grep -q '^  states to go on from .* if it is stopped$' table || bad "plan: no state: $(cat table)"
if grep -q 'copy of the state' table; then bad "plan: a copy for no states"; fi
rm -r states

# ---- one of several processes: its own shards, and all factors; alone it is as without ----
"$bin/tstream" plan x.tsh --cpu -t 1 -r 8 -m 64M --json > one.json 2> err
[ ! -s err ] || bad "plan -t 1: $(cat err)"
"$bin/tstream" plan x.tsh --cpu -t 1000 -r 2 > log 2> err || bad "plan -t 1000: $(cat err)"
grep -q '1000 threads share the [0-9]* CPUs* of this machine .*no rate is known' err || bad "plan -t 1000: $(cat err)"
whole=$(sed 's/.*"resident_shard_bytes":\([0-9]*\),.*/\1/' one.json)
for n in 1 2 5 64; do
    "$bin/tstream" plan x.tsh --cpu -t 1 -r 8 -m 64M --ranks $n --json > plan.json || bad "plan --ranks $n"
    [ "$(member processes)" -eq $n ] || bad "plan --ranks $n: $(cat plan.json)"
    [ "$(member factor_bytes)" -eq $((8 * 4 * 12000)) ] || bad "plan --ranks $n: factors $(member factor_bytes)"
    own=$(member resident_shard_bytes) most=$((whole / n + 2 * 3 * 262144)) # a shard at both ends of each mode
    [ "$(member disk_bytes)" -eq 0 ] || bad "plan --ranks $n: streams, with memory left"
    if [ "$own" -gt $most ] || [ "$own" -lt $((whole / n)) ]; then bad "plan --ranks $n: shards of $own bytes"; fi
    exchange=0
    [ $n -eq 1 ] || exchange=$((8 * 4 * 12000 + 3 * 64 * 8 * 8 * 8))
    [ "$(member exchange_bytes)" -eq $exchange ] || bad "plan --ranks $n: $(member exchange_bytes) bytes travel"
done
# rows travel with their padding: columns of one in whole 64 bytes, 8 at least, of numbers of so many bytes
while read -r rank bytes columns options; do
    # shellcheck disable=SC2086
    "$bin/tstream" plan x.tsh --cpu -t 1 -r $rank -m 64M --ranks 3 $options --json > plan.json || bad "plan --ranks 3 -r $rank"
    [ "$(member exchange_bytes)" -eq $((columns * bytes * 12000 + 3 * 64 * 8 * rank * rank)) ] || bad "plan --ranks 3 -r $rank $options: $(member exchange_bytes) bytes travel"
done << 'END'
1 4 8
9 4 16
17 4 32
9 8 16 --precision float64
17 8 24 --precision float64
END
"$bin/tstream" plan x.tsh -t 1 -r 8 -m 64M --ranks 4 > table
awk 'length($0) > 80 { print; bad = 1 } END { exit bad }' table || bad "plan --ranks: lines of more than 80 columns"
grep -q 'one of 4 processes' table || bad "plan --ranks: $(cat table)"
grep -q '^  rows from other processes .* at 10 GB/s, assumed$' table || bad "plan --ranks: $(cat table)"
number()
{
    sed "s/.*\"$1\":\([0-9]*\).*/\1/" plan.json
}
"$bin/tstream" plan x.tsh -t 1 -r 8 -m 64M --ranks 8 --ranks-per-host 4 --json > plan.json
shared=$(number shared_factor_bytes) each=$(number total_bytes) rows=$(member exchange_bytes)
if [ "$shared" -lt $((8 * 4 * 12000)) ] || [ "$shared" -gt $((8 * 4 * 12000 + 65536)) ]; then bad "plan --ranks-per-host: $shared bytes are shared"; fi
[ "$(number machine_total_bytes)" -eq $((4 * each - 3 * shared)) ] || bad "plan --ranks-per-host: $(cat plan.json)"
[ $((2 * rows)) -le $((exchange + 2)) ] || bad "plan --ranks-per-host: $rows bytes come from another machine"
for own in --observed --accelerate '--init nvecs' '--loss poisson' '--rank 4,8'; do
    # shellcheck disable=SC2086
    "$bin/tstream" plan x.tsh -t 1 -r 8 -m 64M --ranks 8 --ranks-per-host 4 $own --json > plan.json 2> err || bad "plan --ranks-per-host $own: $(cat err)"
    [ "$(number shared_factor_bytes)" -eq 0 ] || bad "plan --ranks-per-host $own: factors are shared"
    [ "$(number machine_total_bytes)" -eq $((4 * $(number total_bytes))) ] || bad "plan --ranks-per-host $own: $(cat plan.json)"
done
"$bin/tstream" plan x.tsh -t 1 -r 8 -m 64M --ranks 8 --ranks-per-host 4 > table
awk 'length($0) > 80 { print; bad = 1 } END { exit bad }' table || bad "plan --ranks-per-host: lines of more than 80 columns"
grep -q '^  the 4 processes of a machine .* with one copy of ' table || bad "plan --ranks-per-host: $(cat table)"
refused 2 "--ranks is not given" "$bin/tstream" plan x.tsh --ranks-per-host 4
refused 1 "--ranks must be at most" "$bin/tstream" plan x.tsh --ranks 100000
refused 1 "40 processes have more than 64 GPUs together" "$bin/tstream" plan x.tsh --ranks 40 --gpus 2
refused 1 "--gpus 4000000,: " "$bin/tstream" plan x.tsh --ranks 2 --gpus 4000000,
"$bin/tstream" plan x.tsh -t 1 -r 8 -m 64M --ranks 2 --observed --l2 0.1 > table
grep -q 'one of 2 processes' table || bad "plan --ranks --observed: $(cat table)"
refused 1 "--ranks 2: started as 1 process; mpirun -n 2" "$bin/tstream" cp x.tsh --ranks 2 -o no.cp

# ---- other methods by their names, and the pass that a sweep is judged by ----
"$bin/tstream" plan x.tsh -t 1 -r 8 -m 500K --cpu --json > plan.json
plain=$(member disk_bytes)
[ "$(member judge_seconds)" = 0 ] || bad "plan: least squares take no pass more: $(cat plan.json)"
for how in 'completion --observed --patience 2 --hold-out 10%' 'products --hold-out 10%' 'gradients --loss huber:1'; do
    # shellcheck disable=SC2086
    set -- $how
    word=$1
    shift
    "$bin/tstream" plan x.tsh -t 1 -r 8 -m 500K --cpu "$@" > table || bad "plan $*: $(cat table)"
    grep -q "^  $word" table && grep -q 'another pass, last mode' table || bad "plan $*: $(cat table)"
    awk 'length($0) > 80 { print; bad = 1 } END { exit bad }' table || bad "plan $*: lines of more than 80 columns"
    "$bin/tstream" plan x.tsh -t 1 -r 8 -m 500K --cpu "$@" --json > plan.json
    [ "$plain" -eq 0 ] || [ "$(member disk_bytes)" -gt "$plain" ] || bad "plan $*: no pass more is read: $(cat plan.json)"
done

# ---- refused alike ----
alike() # TEXT OPTION...: by plan and by cp, before any sweep
{
    text=$1
    shift
    for command in plan cp; do
        refused 1 "$text" "$bin/tstream" $command "$@"
        sed "s/^tstream $command: //; s/[0-9.]* .iB are free/N are free/; s/and [0-9.e+]* are free/and N are free/" err > said.$command
    done
    cmp -s said.plan said.cp || bad "plan $*: $(cat said.plan said.cp)"
}
alike "two of them must fit" x.tsh --cpu -m 8K
alike "is more than there is" x.tsh --cpu -m 1024T
"$bin/tshard" gen --dims 1000000000000x10x10 --nnz 1K -o wide.tsh > log 2>&1
alike "takes at least" wide.tsh --cpu -r 16 --rows all
alike "--gpus 4000000,: " x.tsh --gpus 4000000,
"$bin/tshard" gen --dims 9x8x7 --nnz 99 --value 0..1 -o few.tsh > log 2>&1
"$bin/tstream" cp few.tsh --cpu -r 2 -i 1 > log 2>&1
alike "not from singular vectors" few.tsh --cpu --loss bernoulli --init nvecs -o no.cp
alike "the model has rank 2, but --rank is 3" few.tsh --cpu --init few.cp -r 3 -o no.cp
alike "none of the models starts from it" few.tsh --cpu --init few.cp -r 3,4 -o no.cp
alike "mode 1 of the model has 9 rows, of the tensor 3000" x.tsh --cpu --init few.cp -r 2 -o no.cp
"$bin/tstream" plan few.tsh --cpu --init few.cp -r 2,3 > log 2>&1 || bad "plan from a model of one rank: $(cat log)"
[ ! -e no.cp ] || bad "something was made of what is refused"

# ---- a run that goes on: what lies there counts no more ----
results() { "$bin/tstream" plan --cpu --json "$@" 2> err | tr ',' '\n' | grep -E '^"(out|result_bytes)":' | head -2 | tr '\n' ' '; }
same() { [ "$1" = "$2" ] || bad "plan: $1, expected $2 $(cat err)"; }
"$bin/tstream" cp few.tsh --cpu -r 2 -i 1 --init few.cp --save-init -o kept.cp > log 2>&1
mv kept.cp kept.cp.partial # as a run that is stopped before its end leaves it
same "$(results --resume kept.cp)" "$(results few.tsh -r 2 -o kept.cp)"
same "$(results --resume kept.cp -o new.cp)" "$(results few.tsh --init few.cp --save-init -o new.cp)"
rm kept.cp.partial/init.ktensor
same "$(results --resume kept.cp)" "$(results few.tsh --init few.cp --save-init -o kept.cp)"
: > kept.cp.partial/init.ktensor
alike "remove it" --cpu --resume kept.cp
rm -r kept.cp.partial
refused 2 "--rank must be 1 to" "$bin/tstream" plan x.tsh -r 0
refused 2 "did you mean '--rank'" "$bin/tstream" plan x.tsh --rnak 3
exit $failed
