#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every property of a tensor times everything that reads it: the table tests/properties.tsv, by tests/check_properties.py. Of the
# cells, those of duplicates and a tenth of the others, which PROPERTIES_SEED draws; TSTREAM_TEST_LARGE=1
# looks at all, and PROPERTIES_ONLY='fit of' at those whose names it matches.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
. "$top/tests/outside.sh"
command -v python3 > log || exit 77

# two processes and numpy where they are
. "$top/tests/outside_mpi.sh"
if [ -x "$bin/tstream-mpi" ] && timeout 120 "$launcher" -n 2 "$bin/tstream-mpi" --version > log 2>&1 < /dev/null; then
    export PROPERTIES_LAUNCHER="$launcher -n 2"
fi
for python in python3 /usr/bin/python3; do
    if ! grep -q __asan_init "$bin/tstream" && "$python" -c 'import numpy' 2> log; then
        export PROPERTIES_PYTHON="$python"
        break
    fi
done
export PYTHONPATH="$top/python"
for library in "$bin"/../lib/.libs/libtstream.so.0 "$bin"/../lib/libtstream.so.0; do
    [ ! -e "$library" ] || export TSTREAM_LIBRARY="$library"
done
[ -n "${TSTREAM_LIBRARY:-}" ] || unset PROPERTIES_PYTHON
timeout 600 python3 "$top/tests/check_properties.py" "$bin" "$top/tests/properties.tsv" > out 2>&1 || failed=1
cat out
exit $failed
