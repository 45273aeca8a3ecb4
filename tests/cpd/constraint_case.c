/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of constraints that tests of decompositions share. */
#include "tests/cpd/constraint_case.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "tests/support/run_suite.h"

/* The modes that a part of a case is for. */
enum modes { NO_MODE, ALL, FIRST, SECOND, LAST, EVEN };

/* A mode gets the constraint of the first part that is for it. */
struct part {
    enum modes modes;
    struct ts_constraint c;
};

static const struct {
    enum test_constraint_kind kind;
    const char *name;
    struct part part[3];
} cases[] = {
    { TEST_DESCEND, "nonnegative", { { ALL, { .nonneg = 1 } } } },
    { TEST_DESCEND, "every second mode nonnegative", { { EVEN, { .nonneg = 1 } } } },
    { TEST_DESCEND, "the last mode nonnegative", { { LAST, { .nonneg = 1 } } } },
    { TEST_DESCEND,
      "nonnegative, with l1 in the first mode and l2 in others",
      { { FIRST, { .nonneg = 1, .l1 = 0.05 } }, { ALL, { .nonneg = 1, .l2 = 0.2 } } } },
    { TEST_DESCEND,
      "l1 with either sign in the second mode, l2 in all",
      { { SECOND, { .l1 = 0.05, .l2 = 0.02 } }, { ALL, { .l2 = 0.1 } } } },
    { TEST_DESCEND, "l2, by least squares", { { ALL, { .l2 = 0.1 } } } },

    { TEST_BOUNDS, "the first mode on the simplex", { { FIRST, { .simplex = 1 } } } },
    { TEST_BOUNDS,
      "the last mode on the simplex, others nonnegative",
      { { LAST, { .simplex = 1 } }, { ALL, { .nonneg = 1 } } } },
    { TEST_BOUNDS,
      "l2, all modes but the second on the simplex",
      { { SECOND, { .l2 = 0.1 } }, { ALL, { .simplex = 1, .l2 = 0.02 } } } },
    { TEST_BOUNDS,
      "all modes but the last within 0 and 1",
      { { LAST, { 0 } }, { ALL, { .bounded = 1, .upper = 1 } } } },
    { TEST_BOUNDS,
      "bounds with either sign",
      { { FIRST, { .bounded = 1, .lower = -INFINITY, .upper = 0.2 } },
        { ALL, { .bounded = 1, .lower = -0.3, .upper = 0.4 } } } },

    { TEST_COLUMNS, "the first mode orthonormal", { { FIRST, { .orthogonal = 1 } } } },
    { TEST_COLUMNS,
      "the last mode orthonormal, others nonnegative",
      { { LAST, { .orthogonal = 1 } }, { ALL, { .nonneg = 1 } } } },
    { TEST_COLUMNS,
      "the second mode orthonormal, l2 in others",
      { { SECOND, { .orthogonal = 1 } }, { ALL, { .l2 = 0.02 } } } },
    { TEST_COLUMNS,
      "all modes but the second orthonormal",
      { { SECOND, { 0 } }, { ALL, { .orthogonal = 1 } } } },
    { TEST_COLUMNS,
      "the first mode smooth, l2 in others",
      { { FIRST, { .smooth = 5 } }, { ALL, { .l2 = 0.01 } } } },
    { TEST_COLUMNS,
      "the last mode smooth with l2, others nonnegative",
      { { LAST, { .smooth = 100, .l2 = 0.1 } }, { ALL, { .nonneg = 1 } } } },
    { TEST_COLUMNS,
      "the first and last mode smooth, the second between orthonormal",
      { { FIRST, { .smooth = 1e-3 } },
        { LAST, { .smooth = 1e-3 } },
        { SECOND, { .orthogonal = 1 } } } },
    { TEST_COLUMNS,
      "nonnegative with l2, the first mode smooth",
      { { FIRST, { .smooth = 5, .l2 = 0.01, .nonneg = 1 } },
        { ALL, { .l2 = 0.01, .nonneg = 1 } } } },
    { TEST_COLUMNS,
      "the first mode smooth with l1, the last one too and nonnegative",
      { { FIRST, { .smooth = 0.5, .l1 = 0.05 } },
        { LAST, { .smooth = 0.5, .l1 = 0.05, .l2 = 0.02, .nonneg = 1 } },
        { ALL, { .l2 = 0.02 } } } },
    { TEST_COLUMNS,
      "the first mode smooth and negative, the last one within positive bounds",
      { { FIRST, { .smooth = 20, .l2 = 0.01, .bounded = 1, .lower = -INFINITY, .upper = -0.02 } },
        { LAST, { .smooth = 20, .l2 = 0.01, .bounded = 1, .lower = 0.05, .upper = 0.8 } },
        { ALL, { .l2 = 0.01 } } } },
};

static int is_for(enum modes modes, uint32_t mode, uint32_t order)
{
    switch (modes) {
    case ALL:
        return 1;
    case FIRST:
        return mode == 0;
    case SECOND:
        return mode == 1;
    case LAST:
        return mode + 1 == order;
    case EVEN:
        return mode % 2 == 0;
    case NO_MODE:
        break;
    }
    return 0;
}

const char *test_constraints(enum test_constraint_kind kind, int i, uint32_t order,
                             struct ts_spec *spec)
{
    size_t k = 0;
    for (; cases[k].kind != kind || i > 0; k++) {
        i -= cases[k].kind == kind;
        ck_assert_uint_lt(k + 1, sizeof cases / sizeof cases[0]);
    }
    *spec = ts_spec_plain;
    for (uint32_t m = 0; m < order; m++)
        for (int p = 3; p-- > 0;)
            if (is_for(cases[k].part[p].modes, m, order))
                spec->mode[m] = cases[k].part[p].c;
    return cases[k].name;
}

double test_draw(uint64_t at)
{
    return ts_unit(ts_mix(at)) - 0.5;
}

void test_make_gram(uint32_t rank, uint32_t rows, double *g)
{
    double *x = malloc((rows + UINT64_C(1)) * rank * sizeof *x);
    for (uint32_t k = 0; k < rows; k++)
        for (uint32_t i = 0; i < rank; i++)
            x[k * rank + i] = i == 2 ? 0 : test_draw(k * 1000 + i) + 0.5;
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t j = 0; j < rank; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < rows; k++)
                sum += x[k * rank + i] * x[k * rank + j];
            g[i * rank + j] = sum;
        }
    free(x);
}
