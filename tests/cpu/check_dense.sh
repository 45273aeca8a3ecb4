#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Dense tensors from the outside: the fits of the same cells as a tensor of nonzeros, the same bytes for any threads, memory and
# interruptions; C and Fortran order; what is not possible is refused with one sentence.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
write_npy=$TOP_BUILDDIR/tests/write_npy

# number NAME FILE: of a member of JSON
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$2"; }

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
for how in "" "--nonneg" "--accelerate" "--init nvecs" "--l2 0.1" "--simplex 2" "--orthogonal 1 --smooth 3=0.5" "--nonneg --smooth 1=0.5,4 --l2 0.1"; do
    # shellcheck disable=SC2086
    for x in x.tsh x.npy xf.npy; do
        "$bin/tstream" cp $x --cpu -r 4 -i 8 --tol 0 -p float64 -n --json $how > $x.json 2> err ||
            bad "cp $x $how: $(cat err)"
    done
    same_fits x.tsh.json x.npy.json 1e-11
    same_fits x.tsh.json xf.npy.json 1e-11
done
"$bin/tstream" cp x4.npy --cpu -r 4 -i 8 --tol 0 -n --json > x4.json
"$bin/tstream" cp x.tsh --cpu -r 4 -i 8 --tol 0 -n --json > x32.json
same_fits x4.json x32.json 1e-6

# ---- a high rank, of nonzeros and of cells, written and read again ----
for x in x.tsh x.npy; do
    "$bin/tstream" cp $x --cpu -r 1030 -i 1 --tol 0 --l2 1 -p float64 -o high.cp --force --json > $x.json 2> err || bad "cp $x: $(cat err)"
    "$bin/tstream" fit high.cp $x --cpu --json > $x.fit 2> err || bad "fit $x: $(cat err)"
    within "$(number fit $x.fit)" "$(fits $x.json)" 1e-9 || bad "fit of rank 1030: $(cat $x.fit), not $(fits $x.json)"
done
same_fits x.tsh.json x.npy.json 1e-10

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
{ printf '\n# by hand\n//\n'; awk '{ print $0, NR % 3 ? "" : NR % 2 ? "#" NR : "// " NR }' x.txt; echo '# end'; } > comments.txt
same_run comments comments.txt
for name in raw rawf name text; do
    same_fits npy.json $name.json 1e-12
done
"$bin/tstream" cp x.raw --dims 9x14x7x11 --dtype f8 --cpu -r 3 -i 2 --tol 0 -o raw.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp --resume raw.cp --cpu --iters 3 > log 2>&1 || bad "--resume of a raw file: $(cat log)"
"$bin/tstream" fit raw.cp x.raw --cpu --dims 9x14x7x11 --dtype f8 > log 2>&1 || bad "fit: $(cat log)"
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
    # tests/golden/userblock.h5: behind a block of 512 bytes, as MATLAB writes it, /x, and /none, which was never written
    same_run block "${h5%/*}/userblock.h5:/x"
    same_fits small.json block.json 1e-9
fi

# ---- scores, products, plans ----
"$bin/tstream" cp x.npy --cpu -r 3 -i 4 --tol 0 -p float64 -o x.cp > log 2>&1 || bad "cp: $(cat log)"
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

# ---- names of indices beside an array ----
"$write_npy" f8C 0.1 named.npy - 3 4 5
printf 'ann\r\nben\ncy' > named.mode1.map
seq 2001 2005 > named.mode3.map
"$bin/tstream" cp named.npy --cpu -r 2 -i 3 --tol 0 -o named.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" top named.cp named.npy > top 2> err || bad "top: $(cat err)"
for name in ann ben cy 2001 2005; do
    grep -qw "$name" top || bad "top: no $name: $(cat top)"
done
"$bin/tstream" report named.cp named.npy -o named.html > log 2>&1 || bad "report: $(cat log)"
grep -q ben named.html || bad "report: no names"
# names_refused WHAT SENTENCE: of a file of names
names_refused()
{
    if "$bin/tshard" info named.npy > log 2>&1; then bad "$1 is taken"; fi
    grep -q "$2" log || bad "$1: $(cat log)"
}
printf 'ann\nben\nann\n' > named.mode1.map
names_refused "a name twice" 'named.mode1.map:3: the name of line 1 again'
printf 'name\nann\nben\ncy\n' > named.mode1.map
names_refused "a header" '4 names for the 3 indices of mode 1 (is the first line a header?'
printf 'ann\n\000\ncy\n' > named.mode1.map
names_refused "a NUL" 'named.mode1.map:2: a name with a NUL byte'
rm named.mode1.map
"$bin/tshard" info named.npy > log 2>&1 || bad "info: $(cat log)"

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
for top in 0 100000; do # an array has a row for each known cell, as its header says
    "$bin/tstream" score u1.cp u.npy --top $top -f npy -o rows.npy --force > log 2> err || bad "score -f npy: $(cat err)"
    rows=$(head -c 128 rows.npy | tail -c 118 | sed -n "s/.*'shape': (\([0-9]*\), [0-9]*).*/\1/p")
    [ "$(wc -c < rows.npy)" -eq $((128 + rows * 8 * 7)) ] || bad "score -f npy --top $top: $(wc -c < rows.npy) bytes of $rows rows"
done

# ---- held-out cells, unknown to the model: as of the tensor that lists them all ----
# same_members A B BY MEMBER...: of sweep after sweep
same_members()
{
    one=$1 two=$2 by=$3
    shift 3
    for member in "$@"; do
        sed -n "s/.*\"event\":\"sweep\".*\"$member\":\([-0-9.e+]*\).*/\1/p" "$one" > a.members
        sed -n "s/.*\"event\":\"sweep\".*\"$member\":\([-0-9.e+]*\).*/\1/p" "$two" > b.members
        [ -s a.members ] && [ "$(wc -l < a.members)" -eq "$(wc -l < b.members)" ] || bad "$one and $two: no $member"
        paste a.members b.members | while read -r a b; do
            within "$a" "$b" "$by" || echo "$a $b"
        done > apart
        [ ! -s apart ] || bad "$one and $two, $member: $(cat apart)"
    done
}
"$write_npy" f8C 2 n.npy n.tns 9 14 7 11
"$write_npy" f8F 2 nf.npy - 9 14 7 11
"$bin/tshard" build n.tns --values float64 --zeros keep -o n.tsh > log 2>&1 || bad "build: $(cat log)"
for how in "--hold-out 10%" "--hold-out 10% --mean --patience 3" "--hold-out 0.6 --nonneg --l2 0.3" "--hold-out 'fold 2/5' --l2 0.0001 --l2-scale count"; do
    for x in n.tsh n.npy nf.npy; do
        # that --observed is meant is known of arrays alone
        observed=$([ $x = n.tsh ] && echo --observed || true)
        eval "\"$bin/tstream\" cp $x --cpu -r 4 -i 6 --tol 0 -p float64 --seed 3 $observed $how -o held.$x --force --json" > $x.json 2> err ||
            bad "cp $x $how: $(cat err)"
    done
    for x in n.npy nf.npy; do
        same_members n.tsh.json $x.json 1e-9 fit rmse held_out_rmse
        "$bin/tstream" compare held.n.tsh held.$x --json > compare.json 2> err || bad "compare: $(cat err)"
        within 1 "$(number score compare.json)" 1e-9 || bad "cp $x $how: other factors: $(cat compare.json)"
        [ "$(number best_sweep n.tsh.json)" = "$(number best_sweep $x.json)" ] || bad "cp $x $how: another best sweep"
    done
done
"$bin/tstream" cp n.npy --cpu -r 9 -i 60 --tol 0 -p float64 --l2 0.001 --hold-out 10% --patience 3 -n > log 2>&1 || bad "cp --patience: $(cat log)"
grep -q 'held-out error no longer falls' log || bad "cp --patience: $(cat log)"
"$bin/tstream" cp n.npy --cpu -r 1,3 -i 6 --tol 0 -p float64 --folds 3 --json > folds.npy.json 2> err || bad "cp --folds: $(cat err)"
"$bin/tstream" cp n.tsh --cpu -r 1,3 -i 6 --tol 0 -p float64 --folds 3 --observed --json > folds.tsh.json 2> err || bad "cp --folds: $(cat err)"
for x in npy tsh; do sed -n 's/.*"event":"fold".*"held_out_rmse":\([-0-9.e+]*\).*/\1/p' folds.$x.json > folds.$x; done
[ "$(wc -l < folds.npy)" -eq 6 ] || bad "cp --folds: $(cat folds.npy.json)"
paste folds.npy folds.tsh | while read -r a b; do within "$a" "$b" 1e-9 || echo "$a $b"; done > apart
[ ! -s apart ] || bad "cp --folds: $(cat apart)"
"$bin/tstream" cp n.npy --cpu -r 1,3 -i 200 --threads 1 --tol 0 --folds 3 -o whole.cp > log 2>&1 || bad "cp --folds: $(cat log)"
ms=30 # a busy machine takes longer than that to begin, and saves nothing: until a run was stopped that had something to save
while [ ! -d part.cp.partial ] && [ $ms -lt 30000 ]; do
    rm -rf part.cp
    "$bin/tstream" cp n.npy --cpu -r 1,3 -i 200 --threads 1 --tol 0 --folds 3 -o part.cp --max-time ${ms}ms > log 2>&1 ||
        grep -q 'nothing was saved' log || bad "cp --folds: $(cat log)"
    ms=$((ms * 3 / 2))
done
[ -d part.cp.partial ] || bad "cp --folds was never stopped: $(cat log)"
"$bin/tstream" cp --resume part.cp --threads 2 > log 2>&1 || bad "cp --folds --resume: $(cat log)"
"$bin/tstream" cp n.npy --cpu -r 3 -i 200 --tol 0 --hold-out 'fold 2/3' -o alone.cp > log 2>&1 || bad "cp --hold-out: $(cat log)"
for x in r1.f1 r3.f2; do
    cmp -s whole.cp/$x/model.ktensor part.cp/$x/model.ktensor || bad "$x: other bytes of a run that went on"
done
cmp -s whole.cp/r3.f2/model.ktensor alone.cp/model.ktensor || bad "other bytes of a fold alone"
"$bin/tstream" plan n.npy --cpu -r 4 --folds 3 --json > plan 2> err || bad "plan: $(cat err)"
[ "$(number judge_seconds plan)" != 0 ] && [ -n "$(number judge_seconds plan)" ] || bad "plan --folds: $(cat plan)"

# ---- bytes, within memory that holds a part ----
"$write_npy" f4C 0 big.npy - 150 120 210
# ---- time that is over while the cells are read: a run that was stopped stays, and goes on ----
for ranks in 3 3,4; do
    "$bin/tstream" cp big.npy --cpu -r $ranks -i 100000 --tol 0 --checkpoint 20ms -o opened.cp > log 2>&1 &
    pid=$!
    until find opened.cp.partial -name 'state.*' 2> err | grep -q .; do
        kill -0 $pid || break
        sleep 0.05
    done
    kill -INT $pid
    wait $pid || true
    "$bin/tstream" cp --resume opened.cp --max-time 1ms --json > json 2> err || bad "-r $ranks --resume for 1 ms: $(cat err)"
    grep -q 'the time of --max-time is over: .*--resume opened.cp" goes on' err || bad "-r $ranks --resume for 1 ms: $(cat err)"
    grep -q '"event":"stopped","by":"--max-time",.*"resume":"opened.cp"' json || bad "-r $ranks --resume for 1 ms: $(cat json)"
    "$bin/tstream" cp --resume opened.cp --max-time 1s > log 2>&1 || bad "-r $ranks --resume: $(cat log)"
    rm -r opened.cp.partial
done
refused 1 'stopped; nothing was saved' "$bin/tstream" cp big.npy --cpu -r 3 --max-time 1ms -o opened.cp

"$bin/tstream" cp big.npy --cpu -r 5 -i 6 --tol 0 --threads 1 -o one.cp > log 2>&1 || bad "cp: $(cat log)"
"$bin/tstream" cp big.npy --cpu -r 5 -i 6 --tol 0 --threads 3 --host-memory 14M -o three.cp --json > json 2> err ||
    bad "cp: $(cat err)"
cmp -s one.cp/model.ktensor three.cp/model.ktensor || bad "other bytes with three threads and little memory"
"$bin/tstream" cp big.npy --cpu -r 5 -i 3 --tol 0 --host-memory 14M -o two.cp > log 2>&1
"$bin/tstream" cp --resume two.cp --cpu --iters 6 > log 2>&1 || bad "resume: $(cat log)"
"$bin/tstream" plan big.npy --cpu -r 5 --host-memory 14M --json > plan 2> err || bad "plan: $(cat err)"
[ "$(number disk_bytes plan)" -gt 1000000 ] || bad "plan: $(cat plan)"
"$bin/tstream" plan big.npy --cpu -r 5 --host-memory 14M --observed --json > observed 2> err || bad "plan --observed: $(cat err)"
[ $((2 * $(number disk_bytes observed))) -eq $((3 * $(number disk_bytes plan))) ] || bad "no pass for errors: $(cat observed)"
cmp -s one.cp/model.ktensor two.cp/model.ktensor || bad "other bytes of a run that went on"
"$bin/tstream" fit one.cp big.npy --cpu --json > fit.json 2> err || bad "fit: $(cat err)"
"$bin/tstream" cp big.npy --cpu -r 5 --host-memory 1M -n 2> err && bad "cp: 1M are enough"
grep -q 'are left for slabs' err || grep -q 'budget of' err || bad "1M: $(cat err)"
"$bin/tshard" info big.npy > info || bad "info: $(cat info)"
grep -q '150 x 120 x 210' info || bad "info: $(cat info)"
"$bin/tshard" info --json xf.npy | grep -q '"values":"float64".*"fortran_order":true' || bad "info --json"

how='--hold-out 20% --mean --patience 2 --tol 0'
# shellcheck disable=SC2086
{
    "$bin/tstream" cp big.npy --cpu -r 5 -i 4 $how --threads 1 -o held1.cp > log 2>&1 || bad "cp $how: $(cat log)"
    "$bin/tstream" cp big.npy --cpu -r 5 -i 4 $how --threads 3 --host-memory 14M -o held3.cp > log 2>&1 || bad "cp $how: $(cat log)"
    "$bin/tstream" cp big.npy --cpu -r 5 -i 2 $how --host-memory 14M -o held2.cp > log 2>&1 || bad "cp $how: $(cat log)"
}
cmp -s held1.cp/model.ktensor held3.cp/model.ktensor || bad "$how: other bytes with three threads and little memory"
"$bin/tstream" cp --resume held2.cp --cpu --iters 4 > log 2>&1 || bad "resume: $(cat log)"
cmp -s held1.cp/model.ktensor held2.cp/model.ktensor || bad "$how: other bytes of a run that went on"

# ---- what is refused ----
# Another loss has one cause, whatever else is asked for.
for loss in poisson poisson-log bernoulli bernoulli-logit gamma huber:1; do
    for more in "" --observed "--smooth 1=2" "--hold-out 0.1"; do
        if "$bin/tstream" cp x.npy --cpu -r 2 --loss $loss $more -n > log 2>&1; then bad "$loss $more: not refused"; fi
        grep -q 'x.npy: a dense tensor is decomposed by least squares: other losses need a tensor that lists' log ||
            bad "$loss $more: $(cat log)"
    done
done
# refused WORDS COMMAND...: with one line that has these words
refused()
{
    words=$1
    shift
    "$@" > out 2> err && bad "$*: not refused"
    [ "$(wc -l < err)" -eq 1 ] || bad "$*: $(cat err)"
    grep -q -e "$words" err || bad "$*: $(cat err)"
}
for wrong in "--hold-out 10% --l1 1" --mean; do
    # shellcheck disable=SC2086
    if "$bin/tstream" cp x.npy --cpu $wrong -n > log 2>&1; then bad "$wrong: not refused"; fi
    grep -q 'of observed cells alone no l1\|--mean needs --observed' log || bad "$wrong: $(cat log)"
done
refused 'decomposed by least squares' "$bin/tstream" cp x.npy --cpu --loss poisson --hold-out 10% -n
refused 'decomposed by least squares' "$bin/tstream" cp x.npy --cpu --loss poisson -n
refused 'is NaN, the first of .*: unknown cells need --observed' "$bin/tstream" cp u.npy --cpu -n --orthogonal 1
"$bin/tstream" cp u.npy --cpu -r 3 -i 3 --tol 0 --threads 1 -o given.cp --json > done.json 2> err || bad "cp of unknown cells: $(cat err)"
grep -q 'u.npy: [0-9]* cells are unknown (NaN), so --observed is taken for given$' err || bad "no note: $(cat err)"
cmp -s u1.cp/model.ktensor given.cp/model.ktensor || bad "--observed for given is another than --observed"
"$bin/tstream" fit given.cp u.npy --cpu --json > json 2> err || bad "fit of unknown cells: $(cat err)"
within "$(sed -n 's/.*"fit":\([^,]*\).*/\1/p' json)" "$(sed -n 's/.*"event":"done","fit":\([^,]*\).*/\1/p' done.json)" 1e-6 ||
    bad "the fit of known cells: $(cat json)"
refused 'is NaN, the first of' "$bin/tstream" mttkrp u.npy --cpu
refused 'is NaN: a core consistency here is of arrays whose cells are all known' "$bin/tstream" fit --diagnose --cpu given.cp u.npy
"$bin/tstream" cp u.npy --cpu --rank 2,3 --diagnose -o no.cp > log 2>&1 && bad "cp --diagnose of unknown cells"
grep -q 'diagnose is for arrays whose cells are all known' log || bad "cp --diagnose of unknown cells: $(cat log)"
"$bin/tstream" cp x.npy --cpu --rank 2,3 -i 2 --diagnose -q -o core.cp --json > json || bad "cp --diagnose: $(cat json)"
[ "$(grep -o '"core_consistency":-*[0-9]' core.cp/models.json | wc -l)" -eq 2 ] || bad "cp --diagnose: $(cat core.cp/models.json)"
"$bin/tstream" fit --diagnose --cpu --json core.cp/best.r2 x.npy > json || bad "fit --diagnose: $(cat json)"
grep -q "$(grep -o '"core_consistency":[^,]*' json)" core.cp/models.json || bad "fit --diagnose: $(cat json core.cp/models.json)"
refused 'the file ends; by its sizes it has 77616 bytes' "$bin/tshard" info short.raw:f8:9x14x7x11
refused 'by its sizes the file ends here' "$bin/tshard" info x.raw:f8:9x14x7x10
refused 'cells may be f4' "$bin/tshard" info x.raw:f3:9x14x7x11
refused 'more than 8 sizes' "$bin/tshard" info x.raw:f8:1x1x1x1x1x1x1x1x9702
for command in "tshard info" "tshard index" "tstream mttkrp"; do
    for wrong in 9x14 '9by14 --dtype f8'; do
        status=0
        # shellcheck disable=SC2086
        "$bin"/$command x.raw --dims $wrong > log 2>&1 || status=$?
        [ $status -eq 2 ] || bad "$command --dims $wrong: exit status $status"
        grep -q -e 'given together' -e 'takes sizes like' log || bad "$command --dims $wrong: $(cat log)"
    done
done
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
    refused 'nothing was written to the dataset' "$bin/tshard" info "${h5%/*}/userblock.h5:/none"
    refused 'nothing was written to the dataset' "$bin/tstream" cp "${h5%/*}/userblock.h5:/none" --cpu -o no.cp
    refused 'name its dataset as well' "$bin/tshard" info "$h5"
    cp "$h5" some.h5
    refused 'from the root: like some.h5:/group/big' "$bin/tstream" cp some.h5:group/big --cpu -o no.cp
    refused 'from the root: like some.h5:/data' "$bin/tshard" info some.h5:
else
    refused 'HDF5' "$bin/tshard" info "$h5:/x"
fi
refused 'is there already; --force' "$bin/tshard" index i.npy
refused 'there is none to compare with' "$bin/tshard" index --check x.npy
refused 'needs no index' "$bin/tshard" index x.txt
refused 'not an array of cells' "$bin/tshard" index x.tns
refused 'nosuch.npy: cannot open: No such file' "$bin/tshard" index nosuch.npy
cp i.npy.index x.npy.index
refused 'is of another array than x.npy' "$bin/tstream" cp x.npy --cpu -n
"$bin/tshard" index x.npy --force > log 2>&1 || bad "index --force: $(cat log)"
cp x.npy.index x.index
mkdir elsewhere && mv x.npy.index elsewhere/kept && ln -s elsewhere/kept x.npy.index
"$bin/tshard" index x.npy --force > log 2>&1 || bad "index --force, over a link: $(cat log)"
[ -L x.npy.index ] && cmp -s elsewhere/kept x.index || bad "index: the link was replaced"
rm x.npy.index && echo mine > x.npy.index
refused 'is not the index of an array, so it is not replaced' "$bin/tshard" index x.npy --force
[ "$(cat x.npy.index)" = mine ] || bad "index: a file of another kind was replaced"
{ head -c 100 x.index; printf x; tail -c +102 x.index; } > x.npy.index
refused 'x.npy.index: is damaged' "$bin/tstream" cp x.npy --cpu -n
rm -f x.npy.index
head -c 3000 x.npy > short.npy
refused 'byte 3000: the file ends; by its header it has' "$bin/tstream" cp short.npy --cpu -n
{ cat x.npy; printf x; } > long.npy
refused 'byte [0-9]*: by its header the file ends here, and it has' "$bin/tstream" cp long.npy --cpu -n
cat x.npy x4.npy > two.npy # as two calls of numpy.save leave them
refused 'by its header the file ends here' "$bin/tshard" info two.npy
printf 'nan' > text.npy
refused 'not a tensor directory but a file' "$bin/tstream" cp text.npy --cpu -n
: > empty.npy
refused 'but an empty file' "$bin/tstream" cp empty.npy --cpu -n
refused 'but a pipe or a device' "$bin/tstream" cp /dev/zero --cpu -n
refused 'tshard index --check compares these' "$bin/tshard" verify x.npy
refused 'but a dense array, which this is not possible with' "$bin/tshard" select x.npy -k 1=1 -o none.tsh
refused 'x.npy: an array of NumPy, and no decomposition' "$bin/tstream" info x.npy
{ head -c $(($(wc -c < x.npy) - 77616)) x.npy; head -c 77616 /dev/zero; } > zero.npy
refused 'all values are 0, so there is nothing to decompose' "$bin/tstream" cp zero.npy --cpu -n
{ head -c 6000 x.npy; printf '\377\377\377\377\377\377\377\177'; tail -c +6009 x.npy; } > nan.npy
refused 'cell \[[0-9, ]*\] (counted from 0) is NaN' "$bin/tstream" mttkrp nan.npy --cpu
"$bin/tstream" cp nan.npy --cpu -n > log 2> err || bad "a cell that is NaN: $(cat err)"
grep -q 'nan.npy: 1 cell is unknown (NaN), so --observed is taken for given$' err || bad "a cell that is NaN: $(cat err)"

exit $failed
