#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Dense tensors on GPUs from the outside: the fits of CPU cores; the same bytes for one GPU and several, resident and streamed,
# and after an interruption; with unknown cells and such that are held out, too; what works nonzero by nonzero is refused with one sentence. Skipped without a GPU.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
# shellcheck source=tests/gpu/outside_gpu.sh
. "$top/tests/gpu/outside_gpu.sh"
write_npy=$TOP_BUILDDIR/tests/write_npy

# fits FILE: those of its sweeps
fits() { sed -n 's/.*"event":"sweep".*"fit":\([-0-9.e+]*\).*/\1/p' "$1"; }

# same_fits A B BY: sweep by sweep
same_fits()
{
    fits "$1" > a.fits
    fits "$2" > b.fits
    [ -s a.fits ] || bad "$1: no fits"
    paste a.fits b.fits | while read -r a b; do
        within "$a" "$b" "$3" || echo "$a $b"
    done > apart
    [ ! -s apart ] || bad "$1 and $2: $(cat apart)"
}

# ---- as on CPU cores ----
"$write_npy" f8C 0.1 x.npy - 9 14 7 11
"$write_npy" f8F 0.1 xf.npy - 9 14 7 11
"$write_npy" f4C 0.1 x4.npy - 9 14 7 11
for how in "" "--nonneg" "--accelerate" "--init nvecs" "--l2 0.1" "--simplex 2" "--orthogonal 1 --smooth 3=0.5" "--nonneg --smooth 1=0.5,4 --l2 0.1"; do
    for x in x.npy xf.npy; do
        # shellcheck disable=SC2086
        beside "$x.cpu$how" "$bin/tstream" cp $x --cpu -r 4 -i 8 --tol 0 -p float64 -n --json $how
        # shellcheck disable=SC2086
        beside "$x.gpu$how" "$bin/tstream" cp $x --gpus 1 -r 4 -i 8 --tol 0 -p float64 -n --json $how
        echo "$x.cpu$how|$x.gpu$how" >> alike
    done
done
together
while IFS='|' read -r on_cpu on_gpu; do
    grep -q '"backend":"gpu"' "$on_gpu" || bad "not on the GPU: $on_gpu"
    same_fits "$on_cpu" "$on_gpu" 1e-9
done < alike
[ "$(wc -l < alike)" -eq 16 ] || bad "$(wc -l < alike) comparisons"
beside gpu4.json "$bin/tstream" cp x4.npy --gpus 1 -r 4 -i 8 --tol 0 -n --json
beside cpu4.json "$bin/tstream" cp x4.npy --cpu -r 4 -i 8 --tol 0 -n --json
for mode in 1 2 3 4; do
    for x in x.npy xf.npy x4.npy; do
        beside "mttkrp.$mode.$x" "$bin/tstream" mttkrp $x --gpus 1 --mode $mode -r 33 -p float64 --check
    done
done
beside mttkrp.2000 "$bin/tstream" mttkrp x.npy --gpus 1 -r 2000 --check
beside mttkrp.cpu "$bin/tstream" mttkrp x.npy --cpu -r 2000 --check
together
same_fits gpu4.json cpu4.json 1e-6
for on in --cpu "--gpus 1"; do
    # shellcheck disable=SC2086
    "$bin/tstream" mttkrp x.npy $on -r 2049 > log 2>&1 && bad "mttkrp $on -r 2049: not refused"
    grep -q -e '--rank must be 1 to 2048' log || bad "mttkrp $on -r 2049: $(cat log)"
done

# ---- ranks of some thousand ----
beside cpu.json "$bin/tstream" cp x.npy --cpu -r 2000 -i 1 --tol 0 --l2 10 -p float64 -n --json
beside gpu.json "$bin/tstream" cp x.npy --gpus 1 -r 2000 -i 1 --tol 0 --l2 10 -p float64 -n --json
"$bin/tshard" gen --dims 300x200x100 --nnz 40K -s 3 -o s.tsh > log 2>&1 || bad "gen: $(cat log)"
for how in "" "--nonneg" "--simplex 1"; do
    # shellcheck disable=SC2086
    beside "cpu$how" "$bin/tstream" cp s.tsh --cpu -r 1500 -i 1 --tol 0 --l2 10 -p float64 $how -n --json
    # shellcheck disable=SC2086
    beside "gpu$how" "$bin/tstream" cp s.tsh --gpus 1 -r 1500 -i 1 --tol 0 --l2 10 -p float64 $how -n --json
done
together
same_fits gpu.json cpu.json 1e-6
for how in "" "--nonneg" "--simplex 1"; do
    grep -q '"backend":"gpu"' "gpu$how" || bad "not on the GPU: $how"
    same_fits "gpu$how" "cpu$how" 1e-6
done

# find_host FILE GPUS OPTION...: sets $host to a budget of host memory that holds what driver and libraries take there with so
# many GPUs, as a refusal tells it, and 100 MiB; less than a run's own buffers is refused before they are counted
find_host()
{
    file=$1 gpus=$2
    shift 2
    for budget in ${counted:-32} 64 128 256; do # what was counted before first
        "$bin/tstream" cp "$file" -r 9 --gpus "$gpus" -n --host-memory ${budget}M "$@" > log 2> refused && bad "--host-memory ${budget}M is enough"
        host=$(sed -n 's/.*libraries take \([0-9.]*\) \([MG]\)iB of it.*/\1 \2/p' refused |
            awk '{ printf "%dM\n", $1 * ($2 == "G" ? 1024 : 1) + 100 }')
        counted=$budget
        [ -z "$host" ] || return 0
    done
    bad "--host-memory ${budget}M: $(cat refused)"
}

# ---- bytes: several chunks of cells ----
"$write_npy" f4C 0.1 big.npy - 400 250 400
run_big()
{
    name=$1
    shift
    "$bin/tstream" cp big.npy -r 9 -i 4 --tol 0 --json -f ktensor --force -o "$name.cp" "$@" > json 2> err ||
        bad "cp $*: $(cat err)"
}
run_big one --gpus 1
"$bin/tstream" cp big.npy -r 9 --gpus 1 --gpu-memory 1M -n > log 2> refused && bad "1 MiB is enough"
grep -q 'two chunks of cells' refused || bad "--gpu-memory 1M: $(cat refused)"
little=$(grep -o '[0-9]* MiB' refused | awk 'NR > 1 { sum += $1 } END { print sum + 12 "M" }')
for gpus in $(some_gpus); do
    find_host big.npy "$gpus" "--gpu-memory=$little"
    for memory in '' "--gpu-memory=$little" "--gpu-memory=$little --host-memory=$host"; do
        # shellcheck disable=SC2086
        run_big more --gpus "$gpus" $memory
        cmp -s one.cp/model.ktensor more.cp/model.ktensor || bad "other bytes with --gpus $gpus $memory"
    done
done
"$bin/tstream" cp big.npy -r 9 -i 2 --tol 0 --gpus 1 -f ktensor -o half.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp --resume half.cp --iters 4 --gpus 1 > log 2>&1 || bad "resume: $(cat log)"
cmp -s one.cp/model.ktensor half.cp/model.ktensor || bad "other bytes after a resume"
beside gpu.fit "$bin/tstream" fit one.cp big.npy --gpus 1 --json
beside cpu.fit "$bin/tstream" fit one.cp big.npy --cpu --json
together
of() { sed 's/.*"fit":\([-0-9.e+]*\).*/\1/' "$1"; }
within "$(of gpu.fit)" "$(of cpu.fit)" 1e-12 || bad "fit: $(of gpu.fit), on CPU cores $(of cpu.fit)"
"$bin/tstream" plan big.npy -r 9 --gpus 1 > plan 2> err || bad "plan: $(cat err)"
grep -q 'cells that stay' plan || bad "plan: $(cat plan)"
"$bin/tstream" plan big.npy -r 9 --gpus 1 --gpu-memory "$little" --json > plan 2> err || bad "plan: $(cat err)"
grep -q '"shared_bytes":' plan || bad "plan: $(cat plan)"

# ---- unknown cells ----
# told NAME FILE: a number of each sweep
told() { sed -n 's/.*"event":"sweep".*"'"$1"'":\([-0-9.e+][-0-9.e+]*\).*/\1/p' "$2"; }
"$write_npy" f8C:0.2 0.1 gaps.npy - 9 14 7 11
"$write_npy" f8F:0.2 0.1 gapsf.npy - 9 14 7 11
"$write_npy" f4C:0.2 0.1 gaps4.npy - 9 14 7 11
for how in "--observed" "--observed --hold-out 10%" "--observed --mean --l2-scale count" "--observed --nonneg" "--observed --hold-out 20% --mean" \
    "--observed --init nvecs" "--observed --bounds 1=0:1"; do
    for x in gaps.npy gapsf.npy; do
        # shellcheck disable=SC2086
        beside "$x.cpu$how" "$bin/tstream" cp $x --cpu -r 4 -i 8 --tol 0 -p float64 -n --json $how
        # shellcheck disable=SC2086
        beside "$x.gpu$how" "$bin/tstream" cp $x --gpus 1 -r 4 -i 8 --tol 0 -p float64 -n --json $how
        echo "$x.cpu$how|$x.gpu$how" >> gaps.alike
    done
done
beside gpu4.json "$bin/tstream" cp gaps4.npy --gpus 1 -r 4 -i 8 --tol 0 -n --json --observed
beside cpu4.json "$bin/tstream" cp gaps4.npy --cpu -r 4 -i 8 --tol 0 -n --json --observed
beside log "$bin/tstream" cp gaps.npy --observed -r 4 -i 2 -n --json
beside folds "$bin/tstream" cp gaps.npy --rank 2,4 --folds 3 --gpus 1 -i 3 --tol 0
together
while IFS='|' read -r on_cpu on_gpu; do
    grep -q '"backend":"gpu"' "$on_gpu" || bad "not on the GPU: $on_gpu"
    same_fits "$on_cpu" "$on_gpu" 1e-8
    for name in rmse held_out_rmse; do
        told $name "$on_cpu" > a.told
        told $name "$on_gpu" > b.told
        paste a.told b.told | while read -r a b; do
            within "$a" "$b" 1e-8 || echo "$a $b"
        done > apart
        [ ! -s apart ] || bad "$on_gpu, $name: $(cat apart)"
    done
done < gaps.alike
[ "$(wc -l < gaps.alike)" -eq 14 ] || bad "$(wc -l < gaps.alike) comparisons of unknown cells"
same_fits gpu4.json cpu4.json 1e-5
grep -q '"backend":"gpu"' gpu4.json || bad "not on the GPU"
grep -q '"backend":"gpu"' log || bad "--observed without --gpus: not on the GPU"

"$write_npy" f4C:0.05 0.1 biggaps.npy - 400 250 400
run_gaps()
{
    name=$1
    shift
    "$bin/tstream" cp biggaps.npy --hold-out 10% -r 9 -i 3 --tol 0 --json -f ktensor --force -o "$name.cp" "$@" > json 2> err ||
        bad "cp $*: $(cat err)"
}
run_gaps gone --gpus 1
"$bin/tstream" cp biggaps.npy --hold-out 10% -r 9 --gpus 1 --gpu-memory 1M -n > log 2> refused && bad "1 MiB is enough"
grep -q 'two chunks of cells' refused || bad "--gpu-memory 1M: $(cat refused)"
little=$(grep -o '[0-9]* MiB' refused | awk 'NR > 1 { sum += $1 } END { print sum + 12 "M" }')
for gpus in $(some_gpus); do
    find_host biggaps.npy "$gpus" --hold-out 10% "--gpu-memory=$little"
    for memory in '' "--gpu-memory=$little" "--gpu-memory=$little --host-memory=$host"; do
        # shellcheck disable=SC2086
        run_gaps gmore --gpus "$gpus" $memory
        cmp -s gone.cp/model.ktensor gmore.cp/model.ktensor || bad "other bytes of unknown cells with --gpus $gpus $memory"
    done
done
"$bin/tstream" plan biggaps.npy --observed -r 40 --gpus 1 --gpu-memory 3G > plan 2> err || bad "plan --observed: $(cat err)"
"$bin/tstream" cp gaps.npy --observed -r 65 --gpus 1 -p float64 -n > out 2> err && bad "rank 65 in float64: not refused"
[ "$(wc -l < err)" -eq 1 ] || bad "rank 65: $(cat err)"

# ---- refusals ----
refused()
{
    words=$1
    shift
    "$@" > out 2> err && bad "$*: not refused"
    [ "$(wc -l < err)" -eq 1 ] || bad "$*: $(cat err)"
    grep -q -e "$words" err || bad "$*: $(cat err)"
}
refused 'decomposed by least squares' "$bin/tstream" cp x.npy --gpus 1 --loss poisson -n
refused 'decomposed by least squares' "$bin/tstream" cp x.npy --gpus 1 --loss huber:1 -n
exit $failed
