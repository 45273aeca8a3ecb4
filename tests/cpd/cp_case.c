/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs that tests of whole decompositions share. */
#include "tests/cpd/cp_case.h"
#include "tests/support/run_suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char test_case_dir[4096], test_case_states[4096], test_case_state[4200], test_case_model[4096];
static char *tmp;

const struct test_shape test_shapes[TEST_SHAPES] = {
    { 2, 300, 4, { 31, 40 }, 9 },
    { 3, 2000, 5, { 40, 30, 20 }, 0 },
    { 3, 500, 16, { 3, 50, 40 }, 1 }, /* rank above a mode's size: G is singular */
    { 3, 800, 6, { 1, 50, 40 }, 0 },  /* a mode of one index: columns are parallel */
    { 4, 3000, 8, { 20, 15, 10, 9 }, 0 },
    { 5, 2500, 3, { 12, 9, 8, 7, 6 }, 4 },
    { 6, 2000, 3, { 6, 5, 7, 4, 8, 3 }, 0 },
    { 7, 1500, 2, { 4, 5, 3, 4, 5, 3, 4 }, 3 },
    { 8, 1500, 2, { 3, 4, 3, 2, 5, 3, 4, 2 }, 0 },
};

void test_case_setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(test_case_dir, sizeof test_case_dir, "%s/x.tsh", tmp);
    snprintf(test_case_states, sizeof test_case_states, "%s/states", tmp);
    snprintf(test_case_state, sizeof test_case_state, "%s/" TS_STATE_NAME_1, test_case_states);
    snprintf(test_case_model, sizeof test_case_model, "%s/start.ktensor", tmp);
    ck_assert_int_eq(mkdir(test_case_states, 0777), 0);
}

void test_case_teardown(void)
{
    test_tsh_remove(test_case_dir);
    test_tsh_remove(test_case_states);
    test_tsh_remove(tmp);
    free(tmp);
}

struct test_cp test_case_run(const struct test_cp_conf *conf)
{
    struct test_cp a = test_cp_run(test_case_dir, conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    return a;
}

void test_case_write(uint64_t seed, const struct test_tsh_conf *conf)
{
    static const uint64_t dim[3] = { 90, 60, 30 };
    struct test_coo x = test_coo_random(seed, 3, dim, 50000, 0, 0.5);
    test_tsh_write(test_case_dir, &x, conf);
    test_coo_free(&x);
}

void test_case_same(const struct test_cp *a, const struct test_cp *b)
{
    ck_assert_uint_eq(a->sweeps, b->sweeps);
    ck_assert_mem_eq(a->weight, b->weight, a->rank * sizeof(double));
    for (uint32_t m = 0; m < a->order; m++)
        ck_assert_mem_eq(a->factor[m], b->factor[m], a->n_rows[m] * a->rank * sizeof(double));
    for (uint32_t k = 0; k < a->sweeps; k++)
        ck_assert_msg(b->fit[k] == 0 ||
                          (a->fit[k] == b->fit[k] &&
                           (a->objective[k] == b->objective[k] || isnan(a->objective[k]))),
                      "sweep %u: fit %.17g and %.17g, objective %.17g and %.17g", k + 1, a->fit[k],
                      b->fit[k], a->objective[k], b->objective[k]);
}

struct test_cp test_case_streamed(const struct test_cp_conf *conf)
{
    struct test_cp_conf other = *conf;
    struct test_cp one = test_case_run(conf), many;
    other.threads = 3;
    other.host_bytes = 200000;
    many = test_case_run(&other);
    ck_assert_uint_eq(one.n_slots, 0);
    ck_assert_uint_gt(many.n_slots, 0);
    test_case_same(&one, &many);
    for (uint32_t m = 0; m < one.order && conf->nvecs; m++)
        ck_assert_mem_eq(one.start[m], many.start[m], one.n_rows[m] * one.rank * sizeof(double));
    test_cp_free(&many);
    return one;
}

uint32_t test_case_stopped(const struct test_cp_conf *conf, uint32_t start)
{
    struct test_cp whole = test_case_run(conf), a;
    uint32_t more;
    ck_assert_uint_ge(whole.n_products, start + whole.sweeps * whole.order);
    for (uint32_t k = 1; k <= whole.n_products; k++) {
        struct test_cp_conf part = *conf;
        int saved;
        part.states = test_case_states;
        part.stop_product = k;
        part.threads = 1;
        a = test_cp_run(test_case_dir, &part);
        ck_assert_int_eq(a.rc, TS_ESTOP);
        saved = a.saved_sweep > 0;
        ck_assert_int_eq(saved, k > start);
        test_cp_free(&a);
        part.stop_product = 0;
        part.threads = 2;
        part.from = saved ? test_case_state : NULL;
        a = test_case_run(&part);
        test_case_same(&whole, &a);
        test_cp_free(&a);
    }
    more = whole.n_products - start - whole.sweeps * whole.order;
    test_cp_free(&whole);
    return more;
}
