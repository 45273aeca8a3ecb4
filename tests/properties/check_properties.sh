#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every property of a tensor times everything that reads it: the table tests/properties/properties.tsv, by tests/properties/check_properties.py. Of the
# cells, those of duplicates and a tenth of the others, which PROPERTIES_SEED draws; TSTREAM_TEST_LARGE=1
# looks at all, and PROPERTIES_ONLY='fit of' at those whose names it matches.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
. "$top/tests/properties/outside_properties.sh"
timeout 600 python3 "$top/tests/properties/check_properties.py" "$bin" "$top/tests/properties/properties.tsv" > out 2>&1 || failed=1
cat out
exit $failed
