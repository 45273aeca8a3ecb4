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

# ---- other files of the same cells ----
same_run()
{
    name=$1
    shift
    "$bin/tstream" cp "$@" --cpu -r 3 -i 3 --tol 0 -p float64 -n --json > "$name.json" 2> err || bad "cp $*: $(cat err)"
}
same_run npy x.npy
tail -c $((9 * 14 * 7 * 11 * 8)) x.npy > x.raw
tail -c $((9 * 14 * 7 * 11 * 8)) xf.npy > xf.raw
head -c 77615 x.raw > short.raw
same_run raw x.raw --dims 9x14x7x11 --dtype f8
same_run rawf xf.raw --dims 9x14x7x11 --dtype f8 --order F
same_run name xf.raw:f8:F:9x14x7x11
"$write_npy" f8F 0.1 xf.npy xf.tns 9 14 7 11
{ echo tensor; echo 4; echo 9 14 7 11; awk '{ print $NF }' xf.tns; } > x.txt
same_run text x.txt
for name in raw rawf name text; do
    same_fits npy.json $name.json 1e-12
done
"$bin/tstream" cp x.raw --dims 9x14x7x11 --dtype f8 --cpu -r 3 -i 2 --tol 0 -o raw.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp --resume raw.cp --iters 3 > log 2>&1 || bad "--resume of a raw file: $(cat log)"
"$bin/tstream" fit raw.cp x.raw --dims 9x14x7x11 --dtype f8 > log 2>&1 || bad "fit: $(cat log)"
"$bin/tstream" score raw.cp x.raw --dims 9x14x7x11 --dtype f8 > log 2>&1 || bad "score: $(cat log)"
"$bin/tstream" mttkrp x.raw --dims 9x14x7x11 --dtype f8 --cpu --check > log 2>&1 || bad "mttkrp: $(cat log)"
"$bin/tshard" info xf.raw --dims 9x14x7x11 --dtype f8 --order F | grep -q 'Fortran order' || bad "info of a raw file"
# tests/golden/dense.h5: /x, float64 of 2 x 3 x 4 from 1 on, /big, the same as float32 of the other order of bytes,
# /chunk, in chunks, /text
h5=$top/tests/golden/dense.h5
if grep -q '^#define HAVE_HDF5 1' "$TOP_BUILDDIR/config.h" && "$bin/tshard" info "$h5:/x" > info 2> err; then
    grep -q '2 x 3 x 4' info || bad "info $h5:/x: $(cat info)"
    { echo tensor; echo 3; echo 2 3 4; for k in 0 1 2 3; do for j in 0 1 2; do for i in 0 1; do
        echo $((12 * i + 4 * j + k + 1)); done; done; done; } > small.txt
    same_run small small.txt
    same_run x "$h5:/x"
    same_run big "$h5:/group/big"
    same_fits small.json x.json 1e-9
    same_fits small.json big.json 1e-9
fi

# ---- scores, products, plans ----
"$bin/tstream" cp x.npy --cpu -r 3 -i 4 --tol 0 -p float64 -o x.cp > log 2>&1 || bad "cp: $(cat log)"
# number NAME FILE: of a member of JSON
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$2"; }
for x in x.tsh x.npy xf.npy; do
    "$bin/tstream" score x.cp $x --threads 2 --json > score.$x 2> err || bad "score $x: $(cat err)"
    "$bin/tstream" score x.cp $x --by-slice --mode 3 -o - > slices.$x 2> err || bad "score $x --by-slice: $(cat err)"
    "$bin/tstream" score x.cp $x --top 5 -o - > top.$x 2> err || bad "score $x --top: $(cat err)"
    for k in 1 4; do
        "$bin/tstream" mttkrp $x --cpu --mode $k --rank 5 -n 1 --check -p float64 > log 2>&1 || bad "mttkrp $x: $(cat log)"
        "$bin/tstream" mttkrp $x --cpu --mode $k --rank 5 -n 1 --check > log 2>&1 || bad "mttkrp $x: $(cat log)"
    done
    for member in rmse mae mean_model gaussian_log_likelihood; do
        within "$(number $member score.x.tsh)" "$(number $member score.$x)" 1e-9 || bad "score $x: $member"
    done
    # indices of a list begin with 1, those of an array with 0
    for what in slices top; do
        awk -v base="$([ $x = x.tsh ] && echo 1 || echo 0)" -v n="$([ $what = top ] && echo 4 || echo 1)" \
            '{ for (i = 1; i <= NF; i++) printf "%.9g ", i <= n ? $i - base : $i; print "" }' $what.$x > $what.$x.plain
        cmp -s $what.x.tsh.plain $what.$x.plain || bad "score $x: other $what"
    done
done
"$bin/tstream" score x.cp x.npy --threads 1 -o one.tns 2> err > /dev/null || bad "score -o: $(cat err)"
"$bin/tstream" score x.cp x.npy --threads 3 -o three.tns --host-memory 1M 2> err > /dev/null || bad "score -o: $(cat err)"
[ "$(wc -l < one.tns)" -eq 9702 ] || bad "score -o: $(wc -l < one.tns) lines"
cmp -s one.tns three.tns || bad "score: other bytes with three threads"
"$bin/tstream" plan x.npy --cpu -r 4 --json > plan 2> err || bad "plan: $(cat err)"
[ "$(number disk_bytes plan)" -eq 0 ] || bad "plan: $(cat plan)"
"$bin/tstream" cp x.npy --cpu -r 2,3 -i 2 --tol 0 -o scan.cp > log 2>&1 || bad "cp -r 2,3: $(cat log)"
was=$(sed -n 's/.*"checksum": *"\([0-9a-f]*\)".*/\1/p' scan.cp/r2.s1/run.json)
grep -aq "checksum=$was" scan.cp/models.run && [ -n "$was" ] && [ "$was" != 0000000000000000 ] ||
    bad "models.run: another checksum than \"$was\""

# ---- an index: what is read is compared with it ----
"$write_npy" f8C 0.1 i.npy - 30 40 50
cp i.npy plain.npy
"$bin/tshard" index i.npy > log 2>&1 || bad "index: $(cat log)"
"$bin/tshard" index i.npy --check > log 2>&1 || bad "index --check: $(cat log)"
"$bin/tstream" cp plain.npy --cpu -r 3 -i 3 --tol 0 -p float64 -o plain.cp > log 2>&1
for memory in 1G 12M; do
    "$bin/tstream" cp i.npy --cpu -r 3 -i 3 --tol 0 -p float64 -o i.cp --force --host-memory $memory > log 2>&1 || bad "cp: $(cat log)"
    cmp -s plain.cp/model.ktensor i.cp/model.ktensor || bad "other bytes with an index"
done
sums() { sed -n 's/.*"checksum": *"\([0-9a-f]*\)".*/\1/p' "$1/run.json"; }
[ "$(sums plain.cp)" = "$(sums i.cp)" ] || bad "index: another checksum: $(sums plain.cp), $(sums i.cp)"
cp i.npy good.npy
{ head -c 300000 good.npy; printf '\001'; tail -c +300002 good.npy; } > i.npy
if "$bin/tstream" cp i.npy --cpu -r 3 -n > log 2>&1; then bad "damage was not seen"; fi
grep -q 'i.npy: byte 262[0-9]*: checksum of [0-9]* bytes is' log || bad "index: $(cat log)"
if "$bin/tshard" index i.npy --check > log 2>&1; then bad "damage was not seen"; fi
"$bin/tshard" index i.npy --force > log 2>&1 || bad "index --force: $(cat log)"
"$bin/tstream" cp i.npy --cpu -r 3 -i 1 -n > log 2>&1 || bad "cp: $(cat log)"
"$bin/tshard" index xf.raw --dims 9x14x7x11 --dtype f8 --order F > log 2>&1 || bad "index of a raw file: $(cat log)"
[ -s xf.raw.index ] || bad "index: no xf.raw.index"
rm -f xf.raw.index

# ---- unknown cells: as a tensor of the known ones ----
for share in 0.05 0.6; do
    "$write_npy" f8C:$share 0.1 u.npy u.tns 9 14 7 11
    "$write_npy" f8F:$share 0.1 uf.npy - 9 14 7 11
    "$bin/tshard" build u.tns --values float64 --dims 9x14x7x11 -o u.tsh --force > log 2>&1 || bad "build: $(cat log)"
    for how in "" "--nonneg --l2 0.3" "--l2 0.001 --l2-scale count" "--bounds 1=0:1.5"; do
        # shellcheck disable=SC2086
        for x in u.tsh u.npy uf.npy; do
            "$bin/tstream" cp $x --cpu -r 3 -i 5 --tol 0 -p float64 --observed -n --json $how > $x.json 2> err ||
                bad "cp --observed $x $how: $(cat err)"
        done
        same_fits u.tsh.json u.npy.json 1e-9
        same_fits u.tsh.json uf.npy.json 1e-9
    done
done
"$bin/tstream" cp u.npy --cpu -r 3 -i 3 --tol 0 --observed --threads 1 -o u1.cp > log 2>&1 || bad "cp --observed: $(cat log)"
"$bin/tstream" cp uf.npy --cpu -r 3 -i 3 --tol 0 --observed --threads 3 -o u3.cp > log 2>&1 || bad "cp --observed: $(cat log)"
"$bin/tstream" cp u.npy --cpu -r 3 -i 3 --tol 0 --observed --threads 3 --host-memory 8M -o u2.cp > log 2>&1 ||
    bad "cp --observed: $(cat log)"
cmp -s u1.cp/model.ktensor u2.cp/model.ktensor || bad "--observed: other bytes with three threads"
for x in u.tsh u.npy uf.npy; do
    "$bin/tstream" score u1.cp $x --json > score.$x 2> err || bad "score $x: $(cat err)"
    within "$(number rmse score.u.tsh)" "$(number rmse score.$x)" 1e-9 || bad "score of unknown cells: $x"
    [ "$(number nnz score.u.tsh)" = "$(number nnz score.$x)" ] || bad "score of unknown cells: $x"
done

# ---- bytes, within memory that holds a part ----
"$write_npy" f4C 0 big.npy - 150 120 210
"$bin/tstream" cp big.npy -r 5 -i 6 --tol 0 --threads 1 -o one.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp big.npy -r 5 -i 6 --tol 0 --threads 3 --host-memory 14M -o three.cp --json > json 2> err ||
    bad "cp: $(cat err)"
cmp -s one.cp/model.ktensor three.cp/model.ktensor || bad "other bytes with three threads and little memory"
"$bin/tstream" cp big.npy -r 5 -i 3 --tol 0 --host-memory 14M -o two.cp > log 2>&1
"$bin/tstream" cp --resume two.cp --iters 6 > log 2>&1 || bad "resume: $(cat log)"
"$bin/tstream" plan big.npy --cpu -r 5 --host-memory 14M --json > plan 2> err || bad "plan: $(cat err)"
[ "$(number disk_bytes plan)" -gt 1000000 ] || bad "plan: $(cat plan)"
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
refused "mean of a dense tensor's cells is not subtracted" "$bin/tstream" cp x.npy --cpu --observed --mean -n
refused 'decomposed by least squares' "$bin/tstream" cp x.npy --cpu --loss poisson -n
refused 'are not held out' "$bin/tstream" cp u.npy --cpu --observed --hold-out 10% -n
refused 'is NaN, the first of .*: unknown cells go with --observed alone' "$bin/tstream" cp u.npy --cpu -n
refused 'is NaN, the first of' "$bin/tstream" fit u1.cp u.npy
refused 'is NaN, the first of' "$bin/tstream" mttkrp u.npy --cpu
refused 'a core consistency is not possible' "$bin/tstream" fit --diagnose one.cp x.npy
refused 'the file ends; by its sizes it has 77616 bytes' "$bin/tshard" info short.raw:f8:9x14x7x11
refused 'by its sizes the file ends here' "$bin/tshard" info x.raw:f8:9x14x7x10
refused 'cells may be f4' "$bin/tshard" info x.raw:f3:9x14x7x11
refused 'more than 8 sizes' "$bin/tshard" info x.raw:f8:1x1x1x1x1x1x1x1x9702
refused 'given together' "$bin/tshard" info x.raw --dims 9x14
refused 'takes sizes like' "$bin/tshard" info x.raw --dims 9by14 --dtype f8
head -n 100 x.txt > short.txt
refused 'line 101: the file ends after 97 of 9702 cells' "$bin/tshard" info short.txt
{ cat x.txt; echo 3; } > long.txt
refused "all cells are read, but there is '3'" "$bin/tshard" info long.txt
sed '50s/.*/1,5/' x.txt > comma.txt
refused "line 50: not a number: '1,5'" "$bin/tshard" info comma.txt
printf 'tensor\n3\n1000000 1000000 1000000\n' > huge.txt
refused 'more than 2^40 cells' "$bin/tshard" info huge.txt
if grep -q '^#define HAVE_HDF5 1' "$TOP_BUILDDIR/config.h" && "$bin/tshard" info "$h5:/x" > info 2> err; then
    refused 'is not contiguous' "$bin/tshard" info "$h5:/chunk"
    refused 'are no numbers of float32' "$bin/tshard" info "$h5:/text"
    refused 'has no dataset /none' "$bin/tshard" info "$h5:/none"
    refused 'name the dataset, too' "$bin/tshard" info "$h5"
else
    refused 'HDF5' "$bin/tshard" info "$h5:/x"
fi
refused 'is there already; --force' "$bin/tshard" index i.npy
refused 'there is none to compare with' "$bin/tshard" index --check x.npy
refused 'needs no index' "$bin/tshard" index x.txt
refused 'not an array of cells' "$bin/tshard" index x.tns
cp i.npy.index x.npy.index
refused 'is of another array than x.npy' "$bin/tstream" cp x.npy --cpu -n
"$bin/tshard" index x.npy --force > log 2>&1 || bad "index --force: $(cat log)"
cp x.npy.index x.index
{ head -c 100 x.index; printf x; tail -c +102 x.index; } > x.npy.index
refused 'x.npy.index: is damaged' "$bin/tstream" cp x.npy --cpu -n
rm -f x.npy.index
head -c 3000 x.npy > short.npy
refused 'byte 3000: the file ends' "$bin/tstream" cp short.npy -n
printf 'nan' > text.npy
refused 'not a tensor directory but a file' "$bin/tstream" cp text.npy -n
{ head -c 6000 x.npy; printf '\377\377\377\377\377\377\377\177'; tail -c +6009 x.npy; } > nan.npy
refused 'cell \[[0-9, ]*\] (counted from 0) is NaN' "$bin/tstream" cp nan.npy -n

exit $failed
