#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Python package as who installs it finds it: a wheel is made of the library and programs of this build and
# installed in a virtual environment of its own, and python/tests run against that, pyttb and TensorLy where they
# are there (TSTREAM_TEST_PEERS=1 fetches them where that is possible). Left out where there is no Python 3.10 or no package index.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
build=$(cd "${TOP_BUILDDIR:-$top}" && pwd)
. "$top/tests/support/outside.sh"

left_out()
{
    echo "left out: $*"
    exit 77
}
if grep -q '^AM_CFLAGS =.*-fsanitize' "$build/Makefile"; then
    left_out "a library with sanitizers cannot be loaded into Python"
fi
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2> /dev/null ||
    left_out "no Python 3.10 with venv (Debian: python3-venv)"
. "$top/tests/python/python_venv.sh"

mkdir tree tree/docs
mkdir -p tree/scripts tree/src/base
cp -R "$top/pyproject.toml" "$top/setup.py" "$top/configure.ac" "$top/python" tree
cp "$top/scripts/python_settings" tree/scripts
cp "$top/src/base/settings.def" tree/src/base
chmod u+w tree/python/tstream/_settings.py
echo 'raise ImportError("the package does not make its settings")' > tree/python/tstream/_settings.py
cp "$top/docs/python.md" tree/docs
chmod -R u+w tree
TSTREAM_BUILD=$build $pip wheel --no-build-isolation --no-deps -w wheels ./tree > pip.log 2>&1 ||
    { cat pip.log; exit 1; }
ls wheels
$pip install --no-deps --force-reinstall wheels/*.whl > pip.log 2>&1 || { cat pip.log; exit 1; }

# From source, what is missing is named before anything starts, for three kinds of systems
while read -r given names; do
    if (cd tree && TSTREAM_CONFIGURE=$given "$python" setup.py -q build_py) > missing.log 2>&1; then
        bad "setup.py builds with $given"
    fi
    for name in $names apt-get dnf conda; do
        grep -q -e "$name" missing.log || bad "setup.py with $given does not name $name: $(cat missing.log)"
    done
    if grep -q Traceback missing.log; then bad "setup.py with $given: $(cat missing.log)"; fi
done << end
CC=no-compiler gcc libc6-dev c-compiler
PKG_CONFIG=no-program pkg-config pkgconf-pkg-config
PKG_CONFIG=false liburing-dev lz4-devel zlib1g-dev xxhash
end

unset PYTHONPATH TSTREAM_LIBRARY
TSTREAM_PROGRAM=$bin/tstream TSTREAM_HEADER=$top/include/tstream.h TSTREAM_EXAMPLES=$top/examples \
    timeout 1200 "$python" -m pytest -q -p no:cacheprovider --import-mode=importlib "$tmp/tree/python/tests" --rootdir "$tmp" || failed=1
for command in "$python -m tstream" "$python -m tstream tshard" "$venv/bin/tstream" "$venv/bin/tshard"; do
    $command --version > version 2>&1 || bad "$command: $(cat version)"
done
grep -q '^tshard' version || bad "tshard is another program: $(cat version)"

# Models of counts beside those of pyttb
if [ "${TSTREAM_TEST_PEERS:-0}" = 1 ] && "$python" -c 'import pyttb' 2> /dev/null; then
    "$bin/tshard" gen --dims 12x9x7 --law power:0.8 --value 1..5 -n 400 -s 1 -q -o counts.tsh > log 2>&1
    "$bin/tshard" export -q counts.tsh -o counts.tns
    "$python" "$top/tests/cpd/apr_against_pyttb.py" --rank 3 --iters 4 "$bin" counts.tns > apr.out 2>&1 || bad "apr_against_pyttb.py: $(cat apr.out)"
fi

# What it reads is replaced meanwhile
if [ -f "$build/tests/replacelib.so" ]; then
    TSTREAM_PYTHON=$python TOP_BUILDDIR=$build "$top/tests/format/check_replaced.sh" python-tensor python-cp python-several \
        python-model-ktensor python-model-npy || failed=1
fi

# The example of docs/python.md
sed -n '/^```python run$/,/^```$/p' "$top/docs/python.md" | sed '/^```/d' > example.py
[ -s example.py ] || bad "docs/python.md has no example"
"$python" example.py > example.out 2>&1 || bad "the example of docs/python.md: $(cat example.out)"

exit $failed
