#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Suites of GPUs compute their cases on CPU cores as well (tests/gpu/gpu_rig.h), so a build with CUDA tries them without a GPU: some
# cases of each suite pass there, and all of them fail where the first backend of a test has a wrong entry in each factor.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
suites=${TOP_BUILDDIR:-$top}/tests
[ -x "$suites/check_gpu_held" ] || { echo "skipped: built without CUDA"; exit 77; }
export TS_TEST_PROCESSOR=cpu

# number WHAT: of the sum that the suite printed last
number() { sed -n "s/^[0-9]*%:.*$1: \([0-9]*\).*/\1/p" log; }

while IFS=: read -r suite case; do
    CK_RUN_CASE=$case "$suites/check_gpu_$suite" > log 2>&1 || bad "$suite, $case: $(cat log)"
    [ "$(number Checks)" -gt 0 ] || bad "$suite, $case: no test ran"
    ! TS_TEST_WRONG=1 CK_RUN_CASE=$case "$suites/check_gpu_$suite" > log 2>&1 || bad "$suite, $case: wrong factors are not noticed"
    [ "$(number Checks)" -eq "$(number Failures)" ] || bad "$suite, $case: wrong factors are not noticed: $(cat log)"
done << END
backend:one mode
cells:updates
observed:flat rows
score:bits
unknown:changes
END
exit $failed
