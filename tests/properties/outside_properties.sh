# SPDX-License-Identifier: BSD-3-Clause
# outside_properties.sh - what tests of properties of a tensor begin with, after outside.sh: two processes of MPI and a Python
# with numpy, where they are there.
command -v python3 > log || exit 77
. "$top/tests/support/outside_mpi.sh"
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
export PYTHONDONTWRITEBYTECODE=1
[ ! -x "$bin/../tests/library_cells" ] || export PROPERTIES_LIBRARY_CELLS="$bin/../tests/library_cells"
