/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_case.h - a tensor in an empty folder, and decompositions of it that must have the same bits.
 *
 *   errors   none: it asserts
 */
#ifndef TS_TESTS_CP_CASE_H
#define TS_TESTS_CP_CASE_H

#include "tests/cpd/run_cp.h"
#include "tests/format/tsh_writer.h"

/* Paths for the test that runs. */
extern char test_case_dir[4096];    /* the tensor */
extern char test_case_states[4096]; /* an empty folder for states */
extern char test_case_state[4200];  /* the first state that a run saves there */
extern char test_case_model[4096];  /* a file that does not exist */

/* A fixture. */
void test_case_setup(void);
void test_case_teardown(void);

/* The run must not fail. */
struct test_cp test_case_run(const struct test_cp_conf *conf);

/* 90 x 60 x 30 with up to 50000 nonzeros. */
void test_case_write(uint64_t seed, const struct test_tsh_conf *conf);

/* Weights, factors, fits and objectives of two runs (of the second those of sweeps that it
 * computed) are the same. */
void test_case_same(const struct test_cp *a, const struct test_cp *b);

/* The run of conf, and with three threads and the tensor streamed, have the same bits. Returns the
 * first. */
struct test_cp test_case_streamed(const struct test_cp_conf *conf);

/* The run of conf is given up once in every product, and goes on with the same bits. `start`
 * products are those of its start, which leave no state. Returns how many products the run makes
 * besides these and one for each mode and sweep. */
uint32_t test_case_stopped(const struct test_cp_conf *conf, uint32_t start);

struct test_shape {
    uint32_t order, nnz, rank;
    uint64_t dim[8];
    uint32_t value_range; /* values are integers up to this, for test_coo_random; 0: they are not */
};

#define TEST_SHAPES 9
extern const struct test_shape test_shapes[TEST_SHAPES]; /* orders 2 to 8 */

#endif
