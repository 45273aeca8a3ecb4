#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What of tests/properties.tsv a GPU computes, on one.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
. "$top/tests/outside.sh"
. "$top/tests/outside_gpu.sh"
command -v python3 > log || exit 77
timeout 600 python3 "$top/tests/check_properties.py" "$bin" "$top/tests/properties.tsv" gpu > out 2>&1 || failed=1
cat out
exit $failed
