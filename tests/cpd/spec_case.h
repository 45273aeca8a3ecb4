/* SPDX-License-Identifier: BSD-3-Clause */
/* spec_case.h - specifications of runs, for tests.
 *
 *   owner    plain values
 *   errors   none
 */
#ifndef TS_TESTS_SPEC_CASE_H
#define TS_TESTS_SPEC_CASE_H

#include "cpd/spec/spec.h"

/* The same with the constraint of the first mode in all modes. */
static inline struct ts_spec test_spec_each(struct ts_spec spec)
{
    for (uint32_t m = 1; m < TS_MAX_ORDER; m++)
        spec.mode[m] = spec.mode[0];
    return spec;
}

#endif
