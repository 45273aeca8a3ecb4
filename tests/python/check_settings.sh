#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# docs/options.md is what settings.def says; what sentences call a setting is there: each option of src/base/setting.c in the help of a command, each field
# in tstream.h, each keyword in the Python package; every mark has a row; and the same mistake, made by the
# three ways, is told in the words of each.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
build=$(cd "${TOP_BUILDDIR:-$top}" && pwd)
. "$top/tests/support/outside.sh"

# ---- the names ----
# a row over all its lines: MARK field|keyword|option
tr '\n' ' ' < "$top/src/base/setting.c" | sed 's/.*settings\[\] = {//; s/ };.*//; s/} },/}\n/g' |
    sed -n 's/.*{ *\(TS_SET_[A-Z0-9_]*\), *{ *"\([^"]*\)", *"\([^"]*\)", *"\([^"]*\)".*/\1 \2|\3|\4/p' > rows
sed -n 's/^#define \(TS_SET_[A-Z0-9_]*\) .*TS_SET_(.*/\1/p' "$top/src/base/setting.h" | LC_ALL=C sort > marks
cut -d ' ' -f 1 rows | LC_ALL=C sort > rowed
[ "$(wc -l < marks)" -gt 30 ] || bad "the marks are not found"
diff marks rowed || bad "src/base/setting.c has not a row for every mark"
{
    for c in build append gen; do "$bin/tshard" $c --help; done
    for c in cp plan fit mttkrp predict; do "$bin/tstream" $c --help; done
} > help
word() { printf '%s' "$1" | sed 's/^tshard build //; s/[= ].*//'; }
while IFS='|' read -r first keyword option; do
    mark=${first%% *} field=${first#* }
    grep -qE -e "$(word "$option")([][,= ]|\$)" help || bad "$mark: no command has $option"
    case $field in
    'tshard build '*) [ "$field" = "tshard build $option" ] || bad "$mark: $field" ;;
    *) grep -qw "$(word "$field")" "$top/include/tstream.h" || bad "$mark: tstream.h has no $field" ;;
    esac
    case $keyword in
    *--* | tshard* | tstream*) bad "$mark: '$keyword' is for a shell" ;;
    *) grep -qE "[( ]$(word "$keyword"): [A-Za-z\"]" "$top"/python/tstream/_build.py "$top"/python/tstream/_frame.py "$top"/python/tstream/_tensor.py "$top"/python/tstream/_model.py "$top"/python/tstream/_settings.py ||
        bad "$mark: the package has no $keyword" ;;
    esac
done < rows

# ---- shell words that no mark has ----
# Sentences of src reach programs and Python as well. Options in them are marks, or of programs of others. The
# parser of command lines speaks to a shell alone.
"$top/scripts/messages" | grep '^src/' | grep -v '^src/base/opt\.c' > sentences
[ "$(wc -l < sentences)" -gt 500 ] || bad "the sentences of src are not found"
grep -E '[ (`"]--?[a-z]|tshard build [^m]|tshard [a-z]* -' sentences |
    grep -vE 'ulimit -[a-z]|h5ls -r|h5repack|nvidia-smi -q|iconv -f|splatt convert|--with-[a-z-]* of configure|<option>' > shell || true
[ ! -s shell ] || bad "words of a shell without a mark: $(cat shell)"

# ---- the page of settings ----
"$bin/tstream" --help-options > options.md
cmp options.md "$top/docs/options.md" ||
    bad "docs/options.md is not made of src/base/settings.def: tstream --help-options > docs/options.md"

if command -v python3 > /dev/null; then
    python3 "$top/tests/python/settings_names.py" "$top" options.md || bad "settings have other names elsewhere"
fi

sed -n 's/^| .*--.*`, `--\([a-z-]*\)` |.*/\1/p' options.md > second
[ "$(wc -l < second)" -ge 3 ] || bad "no second names in options.md"
while read -r name; do
    "$bin/tstream" cp "--$name" 1 --help > help 2>&1 || bad "cp --$name: $(cat help)"
    ! grep -q -e "--$name" help || bad "help shows the second name --$name"
done < second

# ---- numbers of modes ----
# A sentence prints the number of a mode or component through TS_NTH alone; this is the source with strings that the
# compiler joins as one. The lines of a part's file are no sentence.
unmarked() { # FILE: its strings with such a number
    tr '\n' ' ' < "$1" | sed 's/" *"//g' | grep -oE '"[^"]*(mode|component|matrix) (%|" PRI)[^"]*"' || true
}
printf '%s\n' 'ts_fail(err, "a size of "' '  "mode %u", m + 1);' 'ts_fail(err, "no " TS_NTH_MODE, m + 1);' > unmarked.c
[ "$(unmarked unmarked.c)" = '"a size of mode %u"' ] || bad "a number without the mark is not found"
grep -c TS_NTH_MODE "$top/src/cpd/spec/spec_pairs.def" > /dev/null || bad "the sentences about modes are elsewhere"
find "$top/src" -name '*.[ch]' -o -name '*.def' -o -name '*.cu' | while read -r file; do
    unmarked "$file" | grep -vE '^"(\\n)?mode %"$' | sed "s|^|$file: |"
done > unmarked
[ ! -s unmarked ] || bad "numbers of modes without TS_NTH: $(cat unmarked)"

# ---- the same mistake, three ways ----
cat > t.tns << 'END'
1 1 1 1
2 2 2 1
END
"$bin/tshard" build -q -o t.tsh t.tns > /dev/null || bad "no tensor"
"$bin/tshard" build -q -o t.tsh t.tns 2> told && bad "it was replaced"
expect() { grep -qF -e "$1" told || bad "not '$1', but: $(cat told)"; ! LC_ALL=C grep -q "$(printf '\037')" told || bad "a raw mark: $1"; }
expect "t.tsh exists; use --force to replace it, or --output to name another"
printf '3 3 3 1e300\n' > large.tns
"$bin/tshard" build -q -o u.tsh large.tns 2> told && bad "a value beyond float32"
expect "is beyond the range of float32 (use --values float64)"
"$bin/tstream" cp -q t.tsh --cpu --rank 2 --host-memory 1000T --no-output 2> told && bad "1000T were there"
expect "--host-memory: "
"$bin/tstream" cp -q t.tsh --cpu --rank 2 --l2 2=1 --simplex 2 --l1 2=1 --no-output 2> told && bad "l1 of rows that sum to 1"
expect "mode 2: rows that sum to 1"

python=
! python3 -c 'import numpy' 2> /dev/null || python=python3
case $(sed -n 's/^AM_CFLAGS = //p' "$build/Makefile") in
*-fsanitize*) python= ;; # a program that was built without cannot load such a library
esac
if [ -n "$python" ]; then
    cat > three.py << 'END'
import ctypes, sys
import tstream as ts

words = sys.argv[1]
if words == "c":
    from tstream._lib import lib
    lib.ts_words(0)

def told(call, *args, **named):
    try:
        call(*args, **named)
    except ts.Error as e:
        print(e)

told(ts.build, "t.tns", "t.tsh")
told(ts.build, "large.tns", "u.tsh")
told(ts.cp, "t.tsh", 2, cpu=True, host_memory="1000T", progress=False)
told(ts.cp, "t.tsh", 2, cpu=True, l2={1: float("nan")}, progress=False)
END
    TSTREAM_LIBRARY=$build/lib/libtstream.so PYTHONPATH=$top/python PYTHONDONTWRITEBYTECODE=1
    export TSTREAM_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE
    $python three.py python > told 2>&1 || bad "python: $(cat told)"
    expect "t.tsh exists; use replace=True to replace it, or out to name another"
    expect "is beyond the range of float32 (use dtype='float64')"
    expect "host_memory: "
    expect "mode 1: a penalty must be"
    $python three.py c > told 2>&1 || bad "c: $(cat told)"
    expect "is beyond the range of float32 (use float64)"
    expect "mode 2: a penalty must be"
fi

exit $failed
