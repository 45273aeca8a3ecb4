#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Histories of appends, undos and compactions against a dict of cells and against a build of all files at once, kills, two writers, and
# what is refused, by tests/tools/append_histories.py. TSTREAM_TEST_LARGE=1: 300 histories and 200 kills.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
command -v python3 > log || exit 77
histories=8 kills=8
if [ "${TSTREAM_TEST_LARGE:-0}" = 1 ]; then histories=300 kills=200; fi
PYTHONDONTWRITEBYTECODE=1 python3 "$top/tests/tools/append_histories.py" "$bin" \
    "${TS_APPEND_HISTORIES:-$histories}" "${TS_APPEND_KILLS:-$kills}" "${TS_APPEND_SEED:-1}" || failed=1
exit $failed
