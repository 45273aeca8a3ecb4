/* SPDX-License-Identifier: BSD-3-Clause */
/* slow_cp.h - CP decompositions in float64 by an obvious program, from whole matrices and every
 * nonzero, for tests of modes that are fixed, or updated by least squares, within bounds, on the
 * simplex, with orthonormal columns or neighbours alike, within bounds or not.
 *
 *   owner    the caller owns tensor and constraints
 *   errors   none: it asserts
 */
#ifndef TS_TESTS_SLOW_CP_H
#define TS_TESTS_SLOW_CP_H

#include "cpd/spec/spec.h"
#include "tests/support/support.h"
#include "tests/format/tsh_writer.h"

#define TEST_SLOW_RANK 32

struct test_slow {
    const struct test_coo *x;
    const struct ts_spec *spec;
    uint32_t rank;
    uint32_t sweeps[TS_MAX_ORDER]; /* in which the mode was solved */
    int balanced;                  /* columns keep their lengths between modes */
    double *a[TS_MAX_ORDER];       /* dim x rank, of used slices alone */
    double weight[TEST_SLOW_RANK]; /* of the columns */
    double size2;                  /* sum of squares of the tensor */
    /* that it was written with; NULL: row i is index i. Matters to smooth alone */
    const struct test_tsh_conf *conf;
    double rough[TS_MAX_ORDER]; /* sum of squares of second differences, where smooth is not 0 */
    int to_the_end;             /* smooth within bounds: rounds are made until nothing changes */
};

/* Starts from the random factors of a seed. */
void test_slow_new(struct test_slow *s, uint64_t seed);
void test_slow_free(struct test_slow *s);

/* out (dim x rank) := MTTKRP; v (rank x rank) := product of the Gram matrices of all modes but
 * skip. */
void test_slow_product(const struct test_slow *s, uint32_t mode, double *out);
void test_slow_grams(const struct test_slow *s, uint32_t skip, double *v);

void test_slow_solve(struct test_slow *s, uint32_t mode); /* a mode of a sweep */

/* Before the first sweep: where the first mode must not be negative, the last that may be takes the
 * signs. */
void test_slow_signs(struct test_slow *s);

/* Updates n rows a from their products m by coordinate descent, 32 rows together: TS_ROW_COORDINATE
 * of stream/row_update.h, with bounds, nonneg and l1 of c. */
void test_slow_descend(uint64_t n, uint32_t rank, const double *g, const double *m,
                       const struct ts_constraint *c, uint32_t rounds, double *a);

/* Updates n rows a from their products m by ADMM: TS_ROW_SIMPLEX of stream/row_update.h. */
void test_slow_simplex(uint64_t n, uint32_t rank, const double *g, const double *m, uint32_t rounds,
                       double *a);

double test_slow_distance(const struct test_slow *s);  /* |X - model|^2 */
double test_slow_objective(const struct test_slow *s); /* half of it, and the penalties */

/* Writes the factors as a model of weights 1 and of the shape that the tensor was written with;
 * rows of empty slices are 7.5 where the mode is fixed, which must not matter, and else 0. */
void test_slow_write(const struct test_slow *s, const struct test_tsh_conf *conf, const char *path);

#endif
