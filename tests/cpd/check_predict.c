/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of cells are those of the obvious sum, for any order, rank and precision, and with rows of
 * some indices alone. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "model/predict.h"
#include "tests/support/run_suite.h"

#define CELLS 200u

static struct ts_kruskal *model;
static struct ts_err err;

static void teardown(void)
{
    ts_kruskal_free(model);
    model = NULL;
}

/* In (-1, 1). */
static double draw(uint64_t *seed)
{
    return 2 * ts_unit(ts_mix((*seed)++)) - 1;
}

static void make(uint32_t order, uint32_t rank, enum ts_precision precision, int some)
{
    uint64_t dim[TS_MAX_ORDER], held[TS_MAX_ORDER], seed = 100 * order + rank;
    for (uint32_t m = 0; m < order; m++) {
        dim[m] = 3 + 5 * m;
        held[m] = some ? (dim[m] + 1) / 2 : dim[m];
    }
    ck_assert_int_eq(ts_kruskal_new(order, rank, precision, dim, held, &model, &err), 0);
    for (uint32_t r = 0; r < rank; r++)
        model->weight[r] = 10 * draw(&seed);
    for (uint32_t m = 0; m < order; m++) {
        for (uint64_t i = 0; i < held[m] * rank; i++) {
            if (precision == TS_FLOAT32)
                ((float *)model->factor[m])[i] = (float)draw(&seed);
            else
                ((double *)model->factor[m])[i] = draw(&seed);
        }
        if (!some)
            continue;
        model->index[m] = malloc(held[m] * sizeof *model->index[m]);
        for (uint64_t i = 0; i < held[m]; i++)
            model->index[m][i] = 2 * i;
    }
}

/* By rows as float64; *size: the sum of the terms' magnitudes. */
static double obvious(const uint64_t *index, double *size)
{
    double sum = 0;
    *size = 0;
    for (uint32_t r = 0; r < model->rank; r++) {
        double term = model->weight[r];
        for (uint32_t m = 0; m < model->order; m++) {
            double row[300];
            ts_kruskal_rows(model, m, index[m], 1, row);
            term *= row[r];
        }
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

START_TEST(values_are_those_of_the_obvious_sum) /* loop test: _i is the order */
{
    static const uint32_t ranks[] = { 1, 3, 4, 63, 64, 65, 129, 299 };
    for (uint32_t kind = 0; kind < 4 * sizeof ranks / sizeof *ranks; kind++) {
        uint64_t index[CELLS * TS_MAX_ORDER], seed = 7;
        double got[CELLS], alone, size;
        make((uint32_t)_i, ranks[kind / 4], kind & 1 ? TS_FLOAT64 : TS_FLOAT32,
             (int)(kind >> 1 & 1));
        for (uint32_t i = 0; i < CELLS; i++)
            for (uint32_t m = 0; m < model->order; m++)
                index[i * model->order + m] = ts_mix(seed++) % model->dim[m];
        ts_predict(model, CELLS, index, got);
        for (uint32_t i = 0; i < CELLS; i++) {
            const double want = obvious(index + i * model->order, &size);
            /* each term has order + 1 roundings, its place in the sum at most rank */
            ck_assert(fabs(got[i] - want) <= DBL_EPSILON * size * (model->order + 1 + model->rank));
            ts_predict(model, 1, index + i * model->order, &alone);
            ck_assert(alone == got[i]);
        }
        teardown();
    }
}
END_TEST

START_TEST(an_index_beyond_is_found)
{
    uint64_t index[] = { 0, 1, 2, 2, 7, 12, 1, 8, 3, 3, 9, 9 };
    uint32_t mode = 99;
    make(3, 2, TS_FLOAT64, 1);
    ck_assert_uint_eq(ts_predict_beyond(model, 2, index, &mode), 2);
    ck_assert_uint_eq(mode, 99);
    ck_assert_uint_eq(ts_predict_beyond(model, 4, index, &mode), 2);
    ck_assert_uint_eq(mode, 1);
    ck_assert_uint_eq(ts_predict_beyond(model, 0, index, &mode), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("predict");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_loop_test(tc, values_are_those_of_the_obvious_sum, 2, 9);
    tcase_add_test(tc, an_index_beyond_is_found);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
