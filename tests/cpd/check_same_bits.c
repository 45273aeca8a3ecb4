/* SPDX-License-Identifier: BSD-3-Clause */
/* Factors, weights and fits are the same bits for any number of threads, any memory, streamed or
 * resident, by any way of reading. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream/feed/reader.h"
#include "tests/cpd/run_cp.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

static char *tmp, dir[4096];

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
}

static void teardown(void)
{
    test_tsh_remove(dir);
    test_tsh_remove(tmp);
    free(tmp);
}

static void ck_same(const struct test_cp *a, const struct test_cp *b)
{
    ck_assert_msg(b->rc == 0, "%s", b->err.text);
    ck_assert_uint_eq(a->sweeps, b->sweeps);
    ck_assert_mem_eq(a->fit, b->fit, sizeof a->fit);
    ck_assert_mem_eq(a->weight, b->weight, a->rank * sizeof(double));
    for (uint32_t m = 0; m < a->order; m++)
        ck_assert_mem_eq(a->factor[m], b->factor[m], a->n_rows[m] * a->rank * sizeof(double));
}

/* Heavy rows, so that rows span partitions and shards. */
static void write_skewed(uint32_t order, int lz4)
{
    static const uint64_t dim[4] = { 50, 700, 300, 12 };
    const struct test_tsh_conf conf = { .kind = lz4 ? TS_VALUE_F64 : TS_VALUE_F32,
                                        .shard_partitions = 1,
                                        .lz4 = lz4,
                                        .stretch = lz4 ? 2 : 0 };
    struct test_coo x = test_coo_random(23, order, dim, 120000, lz4 ? 5 : 0, 2);
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
}

START_TEST(bits_do_not_depend_on_resources)
{
    static const uint32_t threads[] = { 1, 2, 3, 7 };
    static const unsigned avoid[] = { 0, TS_AVOID_URING, TS_AVOID_DIRECT, TS_AVOID_REGISTER };
    struct test_cp_conf conf = { .rank = _i % 2 == 0 ? 8 : 13,
                                 .iters = 3,
                                 .seed = 9,
                                 .threads = 1,
                                 .precision = _i / 2 % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64 };
    struct test_cp first, other;
    int streamed = 0;
    write_skewed(_i < 4 ? 3 : 4, _i >= 4);
    first = test_cp_run(dir, &conf);
    ck_assert_msg(first.rc == 0, "%s", first.err.text);
    ck_assert_uint_eq(first.n_slots, 0);
    for (int k = 0; k < 8; k++) {
        conf.threads = threads[k % 4];
        conf.avoid = avoid[(k + k / 4) % 4];
        conf.host_bytes = k < 2 ? 0 : (uint64_t)k * 300000 + 300000;
        other = test_cp_run(dir, &conf);
        ck_same(&first, &other);
        streamed += other.n_slots > 0;
        test_cp_free(&other);
    }
    ck_assert_int_gt(streamed, 0);
    test_cp_free(&first);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("same bits");
    TCase *c = tcase_create("same bits");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, bits_do_not_depend_on_resources, 0, 8);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
