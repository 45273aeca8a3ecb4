#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What the recipe builds: programs, library and manual pages by make, then the Python package with a
# link to that library.
set -euo pipefail

mkdir -p build
cd build
../configure --prefix="$PREFIX" --with-cuda=no --with-mpi=no
make -j"$CPU_COUNT"
make install
rm "$PREFIX/lib/libtstream.a" # conda-forge has no static libraries
"$PYTHON" ../scripts/python_package "$SP_DIR" "$PREFIX/lib/libtstream.so.0"
