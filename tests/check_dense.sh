#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Dense tensors from the outside: the fits of the same cells as a tensor of nonzeros, the same bytes for any threads, memory and
# interruptions; C and Fortran order; what is not possible is refused with one sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
. "$top/tests/outside.sh"
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

# ---- as a tensor of nonzeros ----
"$write_npy" f8C 0.1 x.npy x.tns 9 14 7 11
"$write_npy" f8F 0.1 xf.npy - 9 14 7 11
"$write_npy" f4C 0.1 x4.npy - 9 14 7 11
"$bin/tshard" build x.tns --values float64 -o x.tsh > log 2>&1 || bad "build: $(cat log)"
for how in "" "--nonneg" "--accelerate" "--init nvecs" "--l2 0.1" "--simplex 2" "--orthogonal 1 --smooth 3=0.5"; do
    # shellcheck disable=SC2086
    for x in x.tsh x.npy xf.npy; do
        "$bin/tstream" cp $x --cpu -r 4 -i 8 --tol 0 -p float64 -n --json $how > $x.json 2> err ||
            bad "cp $x $how: $(cat err)"
    done
    same_fits x.tsh.json x.npy.json 1e-11
    same_fits x.tsh.json xf.npy.json 1e-11
done
"$bin/tstream" cp x4.npy -r 4 -i 8 --tol 0 -n --json > x4.json
"$bin/tstream" cp x.tsh --cpu -r 4 -i 8 --tol 0 -n --json > x32.json
same_fits x4.json x32.json 1e-6

# ---- bytes, within memory that holds a part ----
"$write_npy" f4C 0 big.npy - 150 120 210
"$bin/tstream" cp big.npy -r 5 -i 6 --tol 0 --threads 1 -o one.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp big.npy -r 5 -i 6 --tol 0 --threads 3 --host-memory 14M -o three.cp --json > json 2> err ||
    bad "cp: $(cat err)"
cmp -s one.cp/model.ktensor three.cp/model.ktensor || bad "other bytes with three threads and little memory"
"$bin/tstream" cp big.npy -r 5 -i 3 --tol 0 --host-memory 14M -o two.cp > log 2>&1
"$bin/tstream" cp --resume two.cp --iters 6 > log 2>&1 || bad "resume: $(cat log)"
cmp -s one.cp/model.ktensor two.cp/model.ktensor || bad "other bytes of a run that went on"
"$bin/tstream" fit one.cp big.npy --json > fit.json 2> err || bad "fit: $(cat err)"
"$bin/tstream" cp big.npy -r 5 --host-memory 1M -n 2> err && bad "cp: 1M are enough"
grep -q 'are left for slabs' err || grep -q 'budget of' err || bad "1M: $(cat err)"
"$bin/tshard" info big.npy > info || bad "info: $(cat info)"
grep -q '150 x 120 x 210' info || bad "info: $(cat info)"
"$bin/tshard" info --json xf.npy | grep -q '"values":"float64".*"fortran_order":true' || bad "info --json"

# ---- what is refused ----
# refused WORDS COMMAND...: with one line that has these words
refused()
{
    words=$1
    shift
    "$@" > out 2> err && bad "$*: not refused"
    [ "$(wc -l < err)" -eq 1 ] || bad "$*: $(cat err)"
    grep -q -e "$words" err || bad "$*: $(cat err)"
}
refused '--gpus 1: a dense tensor is decomposed on CPU cores only' "$bin/tstream" cp x.npy --gpus 1 -n
refused 'decomposed by least squares' "$bin/tstream" cp x.npy --cpu --loss poisson -n
refused 'decomposed by least squares' "$bin/tstream" cp x.npy --cpu --observed -n
refused 'a core consistency is not possible' "$bin/tstream" fit --diagnose one.cp x.npy
head -c 3000 x.npy > short.npy
refused 'byte 3000: the file ends' "$bin/tstream" cp short.npy -n
printf 'nan' > text.npy
refused 'not a tensor directory but a file' "$bin/tstream" cp text.npy -n
{ head -c 6000 x.npy; printf '\377\377\377\377\377\377\377\177'; tail -c +6009 x.npy; } > nan.npy
refused 'cell \[[0-9, ]*\] (counted from 0) is NaN' "$bin/tstream" cp nan.npy -n
