#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_replaced.sh [COMMAND...] - another process replaces a tensor, a model, several of them or what a run
# has saved at each moment at which a command looks at it (tests/format/replacelib.c): at $TS_REPLACE_POINTS of them
# (default 2, and all with TSTREAM_TEST_LARGE=1; 0: all), spread evenly.
#
# The outcome is that of the old one, or that of the new one, or exit status 1 with the sentence that it
# was replaced: never a mixture, and never a sentence that a file is damaged, missing or of another size. Once a run
# has locked its own directory, who takes that away heeds no lock: then the sentence is of what it could not write, and what
# took the place of the directory is as it was.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
built=$(cd "${TOP_BUILDDIR:-$top}" && pwd)
lib=$built/tests/replacelib.so
points=${TS_REPLACE_POINTS:-$([ "${TSTREAM_TEST_LARGE:-0}" = 1 ] && echo 0 || echo 2)}
only=" $* "
if [ ! -f "$lib" ]; then
    echo "skipped: there is no $lib here"
    exit 77
fi
. "$top/tests/support/outside.sh"

# ---- old and new: of one shape, so that parts of one fit the other ----
tensors()
(
    set -e
    "$bin/tshard" gen --dims 60x50x40 --nnz 4000 --seed "$2" -o "$1.text.tns"
    awk '{ print 2 * $1, $2, $3, $4 }' "$1.text.tns" > "$1.tns" # mode 1 has empty slices: a file of rows
    for i in $(seq 40); do echo "$1 $i"; done > "$1.mode3.map"
    "$bin/tshard" build "$1.tns" -o "$1.tsh" --shard 64K
    for f in ktensor npy splatt; do
        "$bin/tstream" cp "$1.tsh" --cpu --threads 1 -r 3 -i 2 --tol 0 --format $f -o "$1.$f"
    done
    "$bin/tstream" cp "$1.tsh" --cpu --threads 1 -r 2,3 --restarts "$3" -i 2 --tol 0 -o "$1.two"
    "$bin/tstream" cp "$1.tsh" --cpu --threads 1 -r 3 --restarts 2 -i 2 --tol 0 -o "$1.best"
)
# What runs of one and of several models have saved, as a kill leaves it: the last of several was under way.
saved()
(
    set -e
    "$bin/tstream" cp "$1.tsh" --cpu --threads 1 -r 3 -i 2 --tol 0 --save-init -o "$1.saved"
    cp -r "$1.two" "$1.some"
    rm -r "$1.some"/models.json "$1.some"/models.tsv "$1.some"/best.*
    mv "$1.some/r3.s2" "$1.some/r3.s2.partial"
)
tensors old 1 2 > log 2>&1
tensors new 2 3 > log 2>&1
for i in old new; do saved $i > log 2>&1; done
# what models are of, and other operands: without labels, as those of old and new differ, and a model is refused beside other labels
cp new.tns of.tns
"$bin/tshard" build of.tns -o of.tsh --shard 64K > log 2>&1
cp -r new.ktensor other.cp
rm other.cp/labels
awk '{ print $1, $2, $3 }' new.tns | head -n 50 > cells
if command -v python3 > /dev/null; then
    for name in old new; do
        python3 -c "
import array, random
random.seed('$name')
head = str({'descr': '<f8', 'fortran_order': False, 'shape': (12, 11, 10)}).ljust(117) + '\\n'
with open('$name.array', 'wb') as f:
    f.write(b'\\x93NUMPY\\x01\\x00' + len(head).to_bytes(2, 'little') + head.encode())
    f.write(array.array('d', [random.random() for _ in range(1320)]).tobytes())"
        mkdir $name.indexed
        cp $name.array $name.indexed/a.npy
        "$bin/tshard" index $name.indexed/a.npy > log
    done
    python3 -c "
import struct
whole = open('$top/tests/golden/dense.h5', 'rb').read()
cells = struct.pack('<24d', *range(1, 25))
assert cells in whole
open('old.h5', 'wb').write(whole)
open('new.h5', 'wb').write(whole.replace(cells, struct.pack('<24d', *range(2, 49, 2)[::-1])))"
fi

# ---- what is not finished is called so ----
mkdir -p sub
if [ "$only" = "  " ]; then
    cp -r old.tsh sub/u.tsh.building
    rm sub/u.tsh.building/index
    cp -r old.saved sub/u.cp.partial
    for i in "tshard info" "tshard verify" "tshard export" "tstream cp" "tstream plan"; do
        # shellcheck disable=SC2086 # words of a command
        set -- $i
        refused 1 "sub/u.tsh.building is there: a build that still runs, or was killed" "$bin/$1" "$2" sub/u.tsh
        refused 1 "sub/u.tsh.building: not finished" "$bin/$1" "$2" sub/u.tsh.building
    done
    refused 1 "but no file named lock" "$bin/tshard" build old.tns -o sub/u.tsh
    for i in "top" "report" "export" "fit" "score"; do
        refused 1 "sub/u.cp.partial is there: its run is not finished" "$bin/tstream" $i sub/u.cp of.tsh
    done
fi

# ---- commands: what they print and write to o does not change from run to run. x is replaced ----
run='--cpu --threads 1'
cp="tstream cp -q $run --tol 0 -o o"
declare -A command kind
add() # NAME KIND COMMAND
{
    kind[$1]=$2
    command[$1]=$3
}
add info tsh "tshard info x"
add verify tsh "tshard verify x -q --threads 1"
add export tsh "tshard export x -o o --threads 1"
add export-labels tsh "tshard export x -o o --threads 1 --format csv"
add part tsh "tshard part x --part 1/2 -o o"
add select tsh "tshard select x --keep 2=1..20 -o o --threads 1"
add split tsh "tshard split x --train o --test o.test -f --threads 1"
add plan tsh "tstream plan x $run -r 2"
add cp tsh "$cp x -r 2 -i 2"
add cp-streamed tsh "$cp x -r 2 -i 2 --host-memory 100K"
add fit-tensor tsh "tstream fit other.cp x $run"
add score-tensor tsh "tstream score other.cp x --threads 1 -o o"
add top-tensor tsh "tstream top other.cp x"
for f in ktensor npy splatt; do
    add predict-$f $f "tstream predict x cells of.tsh -o o --threads 1"
    add top-$f $f "tstream top x of.tsh"
    add model-export-$f $f "tstream export x of.tsh -o o"
    add compare-$f $f "tstream compare x other.cp --threads 1"
    add fit-$f $f "tstream fit x of.tsh $run"
    add score-$f $f "tstream score x of.tsh --threads 1 -o o"
    add init-$f $f "$cp of.tsh -r 3 -i 1 --init x"
    add info-$f $f "tstream info x --json"
    add report-$f $f "tstream report x of.tsh -o o"
done
add top-best best "tstream top x of.tsh"
add predict-best best "tstream predict x cells of.tsh -o o --threads 1"
resume="tstream cp -q $run --resume"
add resume saved "$resume xx.cp -i 4 -o o"
add resume-here saved "$resume xx.cp -i 4"
add resume-ended saved-result "$resume x -i 4 -o o"
add resume-ended-here saved-result "$resume x -i 4"
add resume-several some "$resume xx.cp"
add init-save ktensor "$cp of.tsh -r 3 -i 1 --save-init --init x"
add init-best best "$cp of.tsh -i 1 --init x"
add init-several two "$cp of.tsh -r 2,3 --restarts 2 -i 1 --init x"
add plan-init-several two "tstream plan of.tsh $run -r 2,3 --restarts 2 --init x"
add status ktensor "tstream status x"
add status-several two "tstream status x"
add status-saved saved "tstream status xx.cp"
add status-some some "tstream status xx.cp --json"
add report-one two "tstream report x/r3.s1 of.tsh -o o"
add report-best best "tstream report x of.tsh -o o"
add info-several two "tstream info x --json"
add info-several-text two "tstream info x"
if [ -f old.array ]; then
    add dense-cp array "$cp x -r 2 -i 2"
    add dense-indexed indexed "$cp x/a.npy -r 2 -i 2"
    if "$bin/tshard" info old.h5:/x > log 2>&1; then add dense-hdf5 h5 "$cp x:/x -r 2 -i 2"; fi
fi
# Two processes: the input is replaced before a look of the second one. mpirun says more of a rank that fails.
cat > ranks << 'END'
#!/bin/sh
# ranks PROGRAM ARGUMENT...
if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 1 ]; then export LD_PRELOAD="$TS_REPLACE_LIB"; fi
exec "$@"
END
chmod +x ranks
. "$top/tests/support/outside_mpi.sh"
if [ -x "$bin/tstream-mpi" ] && timeout 120 "$launcher" -n 2 "$bin/tstream-mpi" --version > log 2>&1 < /dev/null; then
    add mpi-cp tsh "mpi -q $run --tol 0 -o o x -r 2 -i 2"
    add mpi-init ktensor "mpi -q $run --tol 0 -o o of.tsh -r 3 -i 1 --init x"
fi
# The Python package (of $TSTREAM_PYTHON, or else python3): all nonzeros of a tensor with its labels, all numbers of a decomposition, and a run.
cat > reader.py << 'END'
import sys
import numpy as np
import tstream as ts

def tensor(path):
    with ts.open(path) as t:
        for block in t.blocks(0):
            for numbers in block:
                print(np.asarray(numbers).tolist())
        print(t.shape, t.nnz, t.norm, [t.labels(m, range(40)) for m in range(3)])

def model(path):
    m = ts.load(path)
    for one in m.models.values() if isinstance(m, ts.Collection) else [m]:
        print(one.weights.tolist(), [f.tolist() for f in one.factors])

def cp(path):
    m = ts.cp(path, 2, sweeps=2, tol=0, cpu=True, threads=1, progress=False)
    print(m.weights.tolist(), [f.tolist() for f in m.factors])

try:
    {"tensor": tensor, "model": model, "cp": cp}[sys.argv[1]](sys.argv[2])
except ts.Error as e:
    print(e, file=sys.stderr)
    sys.exit(1)
END
python=${TSTREAM_PYTHON:-python3}
if "$python" -c 'import numpy' 2> log && [ -f "$built/lib/libtstream.so" ] && ! grep -q '^AM_CFLAGS =.*-fsanitize' "$built/Makefile"; then
    export TSTREAM_LIBRARY=$built/lib/libtstream.so PYTHONPATH=$top/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
    add python-tensor tsh "python tensor x"
    add python-cp tsh "python cp x"
    add python-several two "python model x"
    for f in ktensor npy; do add python-model-$f $f "python model x"; done
fi

# ---- running ----
# The outcomes of old and new are the same: a plan is measured as a whole, so that only its sentences are
# checked; verify says "sound" of both; and of a run that was saved at the same sweep the same is told.
alike=" verify plan plan-init-several status-saved status-some "

# What a run has made: its output without what is measured, and its files without their record.
outcome()
{
    case $name in *-here | resume-several) rm -rf o; [ ! -d xx.cp ] || mv xx.cp o ;; esac
    [ -d o ] || [[ "$alike" == *" $name "* ]] || sed -E 's/[0-9.,]+ (us|ms|s)$//' out
    for i in o o.test; do
        if [ -d $i ]; then
            (cd $i && find . -type f ! -name run.json ! -name state ! -name 'models.*' | sort | xargs cksum)
        elif [ -f $i ]; then
            cksum < $i
        fi
    done
}

once() # K COMMAND: puts the exit status into got
{
    rm -rf o o.test
    got=0
    # shellcheck disable=SC2086 # words of a command
    set -- "$1" $2
    program=$2
    k=$1
    shift 2
    preload=${ASAN_RUNTIME:+$ASAN_RUNTIME:}$lib
    case $program in
    mpi) set -- TS_REPLACE_LIB="$preload" "$launcher" -n 2 ./ranks "$bin/tstream-mpi" cp "$@" ;;
    python) set -- LD_PRELOAD="$preload" "$python" reader.py "$@" ;;
    *) set -- LD_PRELOAD="$preload" "$bin/$program" "$@" ;;
    esac
    # shellcheck disable=SC2086
    env TS_REPLACE=$k TS_REPLACE_PATH=$x TS_REPLACE_WITH=w TS_REPLACE_MARK="$tmp/mark" "$@" > out 2> err < /dev/null || got=$?
    if [ "$program" = mpi ]; then
        grep '^tstream' err > err.own || true
        mv err.own err
    fi
}

fresh() # SOURCE: x is that one
{
    rm -rf "$x" w xx.cp xx.cp.partial
    cp -r "$1" "$x"
}

total=0 olds=0 news=0 said=0
for name in $(printf '%s\n' "${!command[@]}" | sort); do
    if [ "$only" != "  " ] && [[ "$only" != *" $name "* ]]; then continue; fi
    case ${kind[$name]} in
    tsh) x=xx.tsh ;;
    array) x=xx.npy ;;
    indexed) x=xx.dir ;;
    h5) x=xx.h5 ;;
    saved | some) x=xx.cp.partial ;;
    *) x=xx.cp ;;
    esac
    words=" ${command[$name]} "
    words=${words// x / $x } words=${words// x\// $x/} words=${words// x:/ $x:}
    source=${kind[$name]%-result}
    old=old.$source new=new.$source
    fresh "$new"
    once 0 "$words"
    [ $got -eq 0 ] || { bad "$name: exit $got: $(cat err)"; continue; }
    outcome > is-new
    fresh "$old"
    once 0 "$words"
    [ $got -eq 0 ] || { bad "$name: exit $got: $(cat err)"; continue; }
    outcome > is-old
    [[ "$alike" == *" $name "* ]] || ! cmp -s is-old is-new || bad "$name: the outcomes are the same"
    read -r looks alone < mark
    [ "$looks" -ge 3 ] || bad "$name: looks at what it reads $looks times"
    step=1 strays=
    if [ "$points" -gt 0 ] && [ "$looks" -gt "$points" ]; then step=$(((looks + points - 1) / points)); fi
    for ((k = 1 + looks % step; k <= looks; k += step)); do
        fresh "$old"
        cp -r "$new" w
        once $k "$words"
        total=$((total + 1))
        if [ $got -eq 0 ]; then
            outcome > is
            if cmp -s is is-old; then
                # before its lock what it replaces is what it has read
                [[ "$name" != *-here ]] || [ "$k" -gt "$alone" ] || bad "$name: look $k of $looks: what was put there is lost"
                olds=$((olds + 1))
            elif cmp -s is is-new; then
                news=$((news + 1))
            elif [ "$k" -gt "$alone" ] && [ -d o ] && diff -r "$new" o > out; then
                news=$((news + 1)) # it was put in the place of what the run had made
            else
                bad "$name: look $k of $looks: neither the old outcome nor the new one"
            fi
        elif [ $got -eq 1 ] && [ "$(wc -l < err)" -eq 1 ] &&
            grep -qE "was replaced or removed while it was being read|another process took its name" err; then
            said=$((said + 1))
        elif [ $got -eq 1 ] && [ "$k" -gt "$alone" ] && ! grep -qv "^tstream cp: $x" err && diff -r -x status.json "$new" "$x" > out; then
            said=$((said + 1))
            [ ! -e "$x/status.json" ] || strays="$strays $k"
        elif [ $got -eq 99 ]; then
            echo "skipped: $(cat err)"
            exit 77
        else
            bad "$name: look $k of $looks, $alone before a lock: exit $got: $(cat err out)"
        fi
    done
    # The status is of the directory that the run has open, also where a model of several begins later.
    [ -z "$strays" ] || bad "$name: looks$strays: the status of the run in what took its place"
done
echo "$total replacements: $olds with the old outcome, $news with the new one, $said said so"
exit $failed
