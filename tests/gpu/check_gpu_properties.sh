#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What of tests/properties/properties.tsv a GPU computes, on one: some 230 cells in 300 commands, of which PROPERTIES_WORKERS (8, and no more than
# CPUs) run at once, since each takes a second to start; a line tells of each cell and how long the rest takes, some two
# minutes in all. PROPERTIES_ONLY='fit of' looks at the cells whose names it matches; PROPERTIES_GPUS=no computes the same cells on CPU
# cores, where there is no GPU.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
[ "${PROPERTIES_GPUS:-}" = no ] || . "$top/tests/gpu/outside_gpu.sh"
. "$top/tests/properties/outside_properties.sh"
timeout 600 python3 "$top/tests/properties/check_properties.py" "$bin" "$top/tests/properties/properties.tsv" gpu || failed=1
exit $failed
