#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds of random tables through every door: text, tables, processes of MPI, the builder of the library in C, arrays and frames of the
# Python package, against cells that plain Python computes (differ_builds.py). The doors of pandas, pyarrow and polars are tried where the packages are there
# (TSTREAM_TEST_PEERS=1). TS_DIFFER_SECONDS (20; with peers 60) says how long, 7200 before a release. TSTREAM_TEST_LARGE=1 tries tables that do not fit their
# memory, too. The seed is 1, so that a change is judged by what it does and not by the day, or TS_DIFFER_SEED; where
# TS_DIFFER_SECONDS is given, it is the date. A case that fails names its seed and number.
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
. "$top/tests/python/python_venv.sh"

seed=1
if [ -n "${TS_DIFFER_SECONDS:-}" ]; then seed=$(date +%Y%m%d); fi
seconds=20
if [ "${TSTREAM_TEST_PEERS:-0}" = 1 ]; then seconds=60; fi
set -- --programs "$bin" --builder "$build/tests/differ_door" --seconds "${TS_DIFFER_SECONDS:-$seconds}" --seed "${TS_DIFFER_SEED:-$seed}" "$@"
if [ "${TSTREAM_TEST_LARGE:-0}" = 1 ]; then set -- --large "$@"; fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # mpirun of Open MPI asks for both
if [ -x "$bin/tshard-mpi" ] && mpirun --oversubscribe -n 2 true > mpi.log 2>&1 < /dev/null; then
    set -- "$@" --mpirun mpirun
else
    echo "without processes of MPI"
fi
PYTHONPATH=$top/python PYTHONDONTWRITEBYTECODE=1 TSTREAM_LIBRARY=$build/lib/libtstream.so.0 \
    "$python" "$top/tests/build/differ_builds.py" "$@" || failed=1

exit $failed
