#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files that a run left are not trusted by the next one: options in them pass the checks of typed ones, a changed byte of models.run
# and of JSON is noticed, and files of 0.2.0, which have no checksum, serve on with a note. TS_EVERY_BYTE=1 changes every byte.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
reseal=$TOP_BUILDDIR/tests/reseal

cp_cpu() { "$bin/tstream" cp --cpu -t 1 "$@"; }
all_files() { find . ! -name out ! -name err ! -name log ! -name 'files.*' | sort; }

"$bin/tshard" gen --dims 9x8x7 --nnz 120 -s 3 -o x.tsh > log 2>&1
cp_cpu x.tsh -r 3 -i 4 --tol 0 -o one > log 2>&1
cp_cpu x.tsh -r 2,3 -i 4 --tol 0 -o several > log 2>&1
cp -r one kept.one
mkdir kept.several
cp -r several/models.run several/r2.s1 kept.several

# damaged TEXT FILE RESULT...: --resume refuses it by the name of the file, in a sentence, and nothing changes
damaged()
{
    text=$1 file=$2
    shift 2
    all_files > files.before
    cp "$file" files.was
    got=0
    cp_cpu --resume "$@" > out 2> err || got=$?
    [ $got -eq 1 ] || bad "$text: exit $got: $(cat err)"
    [ "$(wc -l < err)" -eq 1 ] || bad "$text: more than a sentence: $(cat err)"
    grep -qF "$file: " err || bad "$text: no name of the file: $(cat err)"
    all_files | cmp -s files.before - || bad "$text: other files are there"
    cmp -s "$file" files.was || bad "$text: $file is another"
}

# ---- options of a file are refused as typed ones are ----
begin_several() { rm -rf several several.partial; cp -r kept.several several.partial; }
begin_several
while read -r options; do
    # shellcheck disable=SC2086
    set -- $options
    rm -rf one
    cp -r kept.one one
    "$reseal" state one/state "$@"
    damaged "state: $options" one/state one
    case $options in
    restarts=2* | folds=3* | diagnose=* | rank=*,*) continue ;; # of several models they may be
    esac
    begin_several
    "$reseal" models several.partial/models.run "$@"
    damaged "models.run: $options" several.partial/models.run several
    begin_several
    "$reseal" old several.partial/models.run "$@"
    damaged "models.run of 0.2.0: $options" several.partial/models.run several
    typed=''
    case $options in
    [+-]* | out=* | resume=* | trace=* | force=* | observed=* | *twice* | Rank=* | x) continue ;;
    esac
    for option in "$@"; do
        case $option in
        *=1) typed="$typed --${option%=1}" ;;
        *) typed="$typed --$option" ;;
        esac
    done
    # shellcheck disable=SC2086
    ! cp_cpu x.tsh -n $typed > out 2> err || bad "typed: $typed is taken"
done << 'END'
rank=3,4
rank=0
rank=2049
rank=three
rank=3,3
restarts=2
restarts=0
restarts=1001
folds=3
folds=1
folds=21
folds=3 hold-out=10%
diagnose=1
iters=0
iters=4294967296
iters=many
tol=-1
tol=nan
tol=1e999
seed=-1
precision=float16
format=csv
rows=some
checkpoint=soon
loss=gauss
optimizer=newton
inner=0
l1=-1
l1=x
l2=inf
bounds=2:1
nonneg=none
nonneg=0
simplex=x
smooth=1=-1
patience=2
hold-out=100%
hold-out=fold
observed=yes
l2-scale=count
mean=1
fix=1
accelerate=1 orthogonal=1
observed=1 orthogonal=1
observed=1 l1=1
loss=poisson observed=1 mean=1
simplex=1 bounds=0:1
+rank=3
+seed=7
out=elsewhere
resume=elsewhere
trace=t.json
force=1
Rank=3
x
rank=
END
begin_several
for name in rank seed init tensor checksum; do
    begin_several
    "$reseal" models several.partial/models.run "-$name"
    damaged "models.run without $name" several.partial/models.run several
done
# a mode that the tensor does not have
begin_several
"$reseal" models several.partial/models.run l1=4=1
cp several.partial/models.run files.was
refused=0
cp_cpu --resume several > out 2> err || refused=$?
[ $refused -eq 1 ] && cmp -s several.partial/models.run files.was || bad "a mode that is not there: exit $refused: $(cat err)"
# an option that is typed makes one state no run of several models
rm -rf one
cp -r kept.one one
for typed in '--rank 3,4' '--restarts 2' '--folds 3'; do
    # shellcheck disable=SC2086
    ! cp_cpu --resume one $typed > out 2> err || bad "$typed of one model is taken"
    [ "$(wc -l < err)" -le 2 ] || bad "$typed: $(cat err)"
done

# ---- a changed byte of models.run ----
begin_several
cp several.partial/models.run whole.run
bytes=$(wc -c < whole.run)
at=0
while [ "$at" -lt "$bytes" ]; do
    begin_several
    for byte in '\001' '9'; do
        was=$(od -An -tx1 -j "$at" -N 1 whole.run | tr -d ' ')
        [ "$was" != 01 ] && [ "$was" != 39 ] || continue
        cp whole.run several.partial/models.run
        # shellcheck disable=SC2059
        printf "$byte" | dd of=several.partial/models.run bs=1 seek="$at" conv=notrunc 2> log
        damaged "byte $at" several.partial/models.run several
    done
    at=$((at + ${TS_EVERY_BYTE:-17}))
done
begin_several
head -c $((bytes - 30)) whole.run > several.partial/models.run
damaged "models.run that is cut short" several.partial/models.run several

# ---- a changed byte of JSON ----
# changed FILE COMMAND...: one that reads it refuses it by name, or its directory where the first bytes are no longer ours
changed()
{
    file=$1
    shift
    cp "$file" whole.json
    "$@" > out 2> err || bad "$*: $(cat err)"
    bytes=$(wc -c < whole.json)
    at=0
    while [ "$at" -lt "$bytes" ]; do
        was=$(od -An -tx1 -j "$at" -N 1 whole.json | tr -d ' ')
        byte=7
        [ "$was" != 37 ] || byte=3
        cp whole.json "$file"
        printf $byte | dd of="$file" bs=1 seek="$at" conv=notrunc 2> log
        got=0
        "$@" > out 2> err || got=$?
        [ $got -eq 1 ] && [ "$(wc -l < err)" -eq 1 ] && grep -qF "${file%/*}" err || bad "byte $at of $file: $*: exit $got: $(cat err)"
        at=$((at + ${TS_EVERY_BYTE:-97}))
    done
    head -c $((bytes - 1)) whole.json > "$file"
    ! "$@" > out 2> err || bad "$*: $file is cut short"
    cp whole.json "$file"
}
rm -rf one several several.partial
cp -r kept.one one
cp_cpu x.tsh -r 2,3 -i 4 --tol 0 -o several > log 2>&1
changed one/run.json "$bin/tstream" info one
changed one/run.json "$bin/tstream" report one -o page.html --force
changed one/run.json "$bin/tstream" status one
changed several/models.json "$bin/tstream" info several
changed several/models.json "$bin/tstream" info --json several
changed several/models.json "$bin/tstream" status several
cp_cpu x.tsh -r 3 -i 1000000 --tol 0 --max-time 300ms -o under > log 2>&1 || bad "--max-time: $(cat log)"
[ -e under.partial/status.json ] || bad "no status of a run that was stopped"
# of up to a thousand sweeps the first and the last: what is tried byte by byte is every kind of member
sed -i 's/"sweeps":\[\({[^}]*}\).*,\({[^}]*}\)\]/"sweeps":[\1,\2]/' under.partial/status.json
"$reseal" json under.partial/status.json || bad "reseal"
[ "$(wc -c < under.partial/status.json)" -lt 4000 ] || bad "the status is long: $(head -c 300 under.partial/status.json)"
changed under.partial/status.json "$bin/tstream" status under
begin_several
"$reseal" json several.partial/r2.s1/run.json || bad "reseal"
cp_cpu --resume several > out 2> err || bad "--resume several: $(cat err)"
begin_several
sed -i 's/"fit":0/"fit":1/' several.partial/r2.s1/run.json
! cp_cpu --resume several > out 2> err || bad "--resume of a model whose record was changed"
grep -q 'r2.s1/run.json: the checksum is' err || bad "a record that was changed: $(cat err)"
# what no run writes, with the checksum right
for change in 's/"model":"r2.s1"/"model":"..\/one"/' 's/"rank":3/"rank":4000000000/' 's/"best":true/"best":false/' 's/"sweeps":4/"sweeps":-1e300/' \
    's/"ranks":\[/"ranks":[{},/'; do
    rm -rf several several.partial
    cp_cpu x.tsh -r 2,3 -i 4 --tol 0 -o several > log 2>&1
    sed -i "$change" several/models.json
    "$reseal" json several/models.json
    got=0
    "$bin/tstream" info several > out 2> err || got=$?
    case $change in
    *sweeps*) [ $got -eq 0 ] || bad "$change: $(cat err)" ;;
    *) [ $got -eq 1 ] && grep -q 'several/models.json: ' err || bad "$change: exit $got: $(cat err)" ;;
    esac
done
rm -rf several several.partial one

# ---- what 0.2.0 left ----
begin_several
"$reseal" old several.partial/models.run
cp_cpu --resume several > out 2> err || bad "models.run of 0.2.0: $(cat err)"
grep -q 'models.run: version 0.2.0 or before wrote it without a checksum' err || bad "no word on a file without a checksum: $(cat err)"
cp_cpu x.tsh -r 2,3 -i 4 --tol 0 -o again > log 2>&1
for model in r2.s1 r3.s1; do
    cmp -s again/$model/model.ktensor several/$model/model.ktensor || bad "$model: another model"
done
golden=$top/tests/golden
cp -r "$golden/v1-f64-order3.tsh" old.tsh
cp -r "$golden/run-0.2.0/one" old.one
mkdir old.several.partial
cp -r "$golden/run-0.2.0/several/models.run" "$golden/run-0.2.0/several/r2.s1" old.several.partial
chmod -R u+w old.*
cp_cpu old.tsh -r 2 -i 5 --tol 0 -o longer > log 2>&1
cp_cpu --resume old.one old.tsh -i 5 > out 2> err || bad "a state of 0.2.0: $(cat err)"
# another processor than that of the golden state may round otherwise
fit_of() { sed 's/.*"ended":"iterations","fit":\([^,]*\),.*/\1/' "$1/run.json"; }
within "$(fit_of longer)" "$(fit_of old.one)" 1e-5 || bad "a state of 0.2.0: fit $(fit_of old.one), a whole run has $(fit_of longer)"
cp_cpu --resume old.several old.tsh > out 2> err || bad "several models of 0.2.0: $(cat err)"
grep -q 'wrote it without a checksum' err || bad "several models of 0.2.0: no note: $(cat err)"
cmp -s "$golden/run-0.2.0/several/r2.s1/model.ktensor" old.several/r2.s1/model.ktensor || bad "r2.s1 of 0.2.0: other bytes"
within "$(fit_of "$golden/run-0.2.0/several/r3.s1")" "$(fit_of old.several/r3.s1)" 1e-5 || bad "r3.s1 of 0.2.0: another fit"
"$bin/tstream" info "$golden/run-0.2.0/one" > out 2> err || bad "a record of 0.2.0: $(cat err)"
"$bin/tstream" info "$golden/run-0.2.0/several" > out 2> err || bad "a table of 0.2.0: $(cat err)"
begin_several
cp_cpu --resume several > out 2> err || bad "--resume several: $(cat err)"
[ ! -s err ] || bad "a note on a file that has a checksum: $(cat err)"
rm -rf one
cp -r kept.one one
cp_cpu --resume one --iters 6 > out 2> err || bad "--resume one: $(cat err)"
exit $failed
