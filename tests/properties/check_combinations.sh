#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two or three properties at once, in random tensors, times random consumers, by tests/properties/combine_properties.py. TS_COMBINE_SECONDS
# (10; with TSTREAM_TEST_LARGE=1 300) says how long; the seed is 1, or the date where TS_COMBINE_SECONDS is given, or TS_COMBINE_SEED. A case that fails names its number, and
# TS_COMBINE_ONLY=NUMBER runs it again, by all consumers.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
. "$top/tests/properties/outside_properties.sh"

seed=1
if [ -n "${TS_COMBINE_SECONDS:-}" ]; then seed=$(date +%Y%m%d); fi
seconds=10
if [ "${TSTREAM_TEST_LARGE:-0}" = 1 ]; then seconds=300; fi
# shellcheck disable=SC2086
python3 "$top/tests/properties/combine_properties.py" "$bin" "$top/tests/properties/properties.tsv" "${TS_COMBINE_SECONDS:-$seconds}" \
    "${TS_COMBINE_SEED:-$seed}" ${TS_COMBINE_ONLY:-} || failed=1
exit $failed
