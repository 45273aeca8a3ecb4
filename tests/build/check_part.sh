#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tshard part: a part has the index and the files of the tensor, and of the shards those of its process; whoever wants others is
# told which; runs on parts have the bytes of one process on the whole.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"

"$bin/tshard" gen --dims 3000x2000x70 --nnz 200000 --law power:1.1 -s 3 -o x.tns > log 2>&1
awk '{ print 2 * $1, $2, $3, $4 }' x.tns > gaps.tns # mode 1 has empty slices, and so a file of rows
i=0
while [ $i -lt 70 ]; do
    i=$((i + 1))
    echo "name $i"
done > gaps.mode3.map
"$bin/tshard" build gaps.tns -o x.tsh --shard 64K > log 2>&1

# ---- what is in a part ----
for k in 1 2 3; do
    "$bin/tshard" part x.tsh --part $k/3 -o p$k.tsh > log 2> err || bad "part $k: $(cat err)"
    grep -q "^p$k.tsh: part $k of 3: shards of .*, checked$" log || bad "part $k: $(cat log)"
    for file in x.tsh/*; do
        name=${file#x.tsh/}
        [ "$(wc -c < "$file")" -eq "$(wc -c < p$k.tsh/"$name")" ] || bad "part $k: $name: another size"
        case $name in
        *.shards) ! cmp -s "$file" p$k.tsh/"$name" || bad "part $k: $name: all of it" ;;
        *) cmp -s "$file" p$k.tsh/"$name" || bad "part $k: $name: other bytes" ;;
        esac
    done
    "$bin/tshard" verify p$k.tsh > log 2> err || bad "part $k: verify: $(cat err)"
    grep -q "sound: part $k of 3, [1-9][0-9]* of [1-9][0-9]* shards" log || bad "part $k: verify: $(cat log)"
done
[ "$(find x.tsh -name '*.rows' -o -name '*.labels' | wc -l)" -ge 2 ] || bad "the tensor has no rows or labels to copy"
# laid over one another the parts are the tensor: each shard is in one at least
cat > over.py << 'END'
import sys
for m in "123":
    whole = open(f"x.tsh/mode{m}.shards", "rb").read()
    parts = [open(f"p{k}.tsh/mode{m}.shards", "rb").read() for k in (1, 2, 3)]
    for at in range(0, len(whole), 4096):
        page = whole[at:at + 4096]
        if page not in [p[at:at + 4096] for p in parts]:
            sys.exit(f"mode {m}, byte {at}: in no part")
        if any(p[at:at + 4096] not in (page, bytes(len(page))) for p in parts):
            sys.exit(f"mode {m}, byte {at}: neither the shard nor a hole")
END
if command -v python3 > log; then python3 over.py || bad "parts are not the tensor"; fi

"$bin/tshard" part x.tsh --part 1/1 -o whole.tsh > log 2>&1
cmp -s x.tsh/mode1.shards whole.tsh/mode1.shards || bad "part 1 of 1 is not all"
"$bin/tstream" cp whole.tsh --cpu -r 4 -i 2 --tol 0 -o whole.cp > log 2>&1 || bad "part 1 of 1: $(cat log)"
"$bin/tshard" part x.tsh --part 2/3 > log 2>&1
"$bin/tshard" verify -q x.part2of3.tsh || bad "the default name"
"$bin/tshard" part x.tsh --part 2/3 -f -q -o p2.tsh || bad "--force"
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 "$bin/tshard" part x.tsh --parts 3 -o slurm.tsh > log 2>&1 || bad "--parts: $(cat log)"
cmp -s slurm.tsh/part p2.tsh/part || bad "--parts 3 of process 1 is not part 2"

# ---- what is refused ----
refused 1 'p2.tsh exists' "$bin/tshard" part x.tsh --part 2/3 -o p2.tsh
refused 1 'of mode 1 is not in it' "$bin/tshard" part p1.tsh --part 2/3 -o no.tsh
[ ! -e no.tsh ] && [ ! -e no.tsh.building ] || bad "a part that failed is left"
refused 2 'give --part K/N' "$bin/tshard" part x.tsh
for wrong in 0/3 4/3 2 a/b 2/3x 1/100000; do refused 2 'is not K/N' "$bin/tshard" part x.tsh --part $wrong; done
refused 2 'was not started by mpirun or srun' env -u PMI_RANK -u PMIX_RANK -u MV2_COMM_WORLD_RANK -u SLURM_PROCID \
    -u OMPI_COMM_WORLD_RANK "$bin/tshard" part x.tsh --parts 3
refused 1 'p1.tsh: is part 1 of 3 of a tensor, and shard' "$bin/tstream" cp p1.tsh --cpu -r 4 -o no.cp
refused 1 'of mode 1 is not in it; 3 processes read it' "$bin/tshard" export p2.tsh -o no.tns
refused 1 'is not in it' "$bin/tshard" split p1.tsh
refused 1 'is not in it' "$bin/tshard" select p1.tsh --keep 1=1 -o no.tsh
refused 1 'a plan is of the whole one' "$bin/tstream" plan p1.tsh --cpu
refused 1 'is not in it' "$bin/tstream" fit whole.cp p1.tsh
[ ! -e no.cp ] && [ ! -e no.tns ] || bad "what was refused left something"

# ---- the file that says so is not trusted ----
cp p1.tsh/part good
for edit in 's/TSHPART1/TSHPART2/' 's/part 1 of 3/part 4 of 3/' '$d' 's/to \([0-9]*\)$/to 9\1/' 's/^index ./index g/' '$a more'; do
    sed "$edit" good > p1.tsh/part
    refused 1 'does not say which shards of this tensor are here' "$bin/tshard" verify p1.tsh
done
head -c 100000 /dev/zero > p1.tsh/part
refused 1 'does not say which shards of this tensor are here' "$bin/tshard" verify p1.tsh
cp good p1.tsh/part

# ---- runs on parts ----
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # mpirun of Open MPI asks for both
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers forbid it
[ -x "$bin/tstream-mpi" ] || exit $failed
timeout 120 "${MPIRUN:-mpirun}" -n 2 "$bin/tstream-mpi" --version > log 2>&1 < /dev/null || exit $failed

# of_parts A B C ARGS...: three processes, each with a tensor of its own name
of_parts()
{
    a=$1 b=$2 c=$3
    shift 3
    timeout 300 "${MPIRUN:-mpirun}" -n 1 "$bin/tstream" cp $a "$@" : -n 1 "$bin/tstream" cp $b "$@" : \
        -n 1 "$bin/tstream" cp $c "$@" < /dev/null > log 2> err
}
"$bin/tstream" cp x.tsh --cpu -r 5 -i 4 --tol 0 -o one.cp > log 2>&1
of_parts p1.tsh p2.tsh p3.tsh -r 5 -i 2 --tol 0 -o of.cp || bad "a run on parts: $(cat err)"
of_parts p1.tsh p2.tsh p3.tsh --resume of.cp -i 4 || bad "a run on parts that goes on: $(cat err)"
cmp -s one.cp/model.ktensor of.cp/model.ktensor || bad "a run on parts: not the bytes of one process"
"$bin/tstream" cp x.tsh --cpu -r 5 -i 6 --tol 0 -o one6.cp > log 2>&1
"$bin/tstream" cp x.tsh --cpu --resume of.cp -i 6 > log 2>&1 || bad "one process goes on where parts were: $(cat log)"
cmp -s one6.cp/model.ktensor of.cp/model.ktensor || bad "after parts: not the bytes of one process"
if of_parts p1.tsh p3.tsh p2.tsh -r 5 -o no.cp; then bad "parts of other processes are not refused"; fi
grep -q 'rank 1 of 3, on .*: p3.tsh: is part 3 of 3 of a tensor, and shard .* of mode 1 is not in it' err || bad "parts of other processes: $(cat err)"
exit $failed
