/* SPDX-License-Identifier: BSD-3-Clause */
/* als_case.h - a tensor in an empty folder, and runs of ALS on it that have to have the same bits.
 *
 *   errors   none: it asserts
 */
#ifndef TS_TESTS_ALS_CASE_H
#define TS_TESTS_ALS_CASE_H

#include "tests/cpd/run_als.h"
#include "tests/format/tsh_writer.h"

/* Of the test that runs. */
extern char test_case_dir[4096];    /* the tensor's */
extern char test_case_states[4096]; /* a folder that is there */
extern char test_case_state[4200];  /* the state that a run leaves there first */
extern char test_case_model[4096];  /* a file that is not there */

/* A fixture. */
void test_case_setup(void);
void test_case_teardown(void);

/* The run must not fail. */
struct test_als test_case_run(const struct test_als_conf *conf);

/* 90 x 60 x 30 with up to 50000 nonzeros. */
void test_case_write(uint64_t seed, const struct test_tsh_conf *conf);

/* Weights, factors, fits and objectives of two runs (of the second those of sweeps that it
 * computed) are the same. */
void test_case_same(const struct test_als *a, const struct test_als *b);

/* The run of conf, and with three threads and the tensor streamed, have the same bits. Returns the
 * first. */
struct test_als test_case_streamed(const struct test_als_conf *conf);

/* The run of conf is given up once in every product, and goes on with the same bits. `start`
 * products are those of its start, which leave no state. */
void test_case_stopped(const struct test_als_conf *conf, uint32_t start);

struct test_shape {
    uint32_t order, nnz, rank;
    uint64_t dim[8];
};

#define TEST_SHAPES 9
extern const struct test_shape test_shapes[TEST_SHAPES]; /* orders 2 to 8 */

#endif
