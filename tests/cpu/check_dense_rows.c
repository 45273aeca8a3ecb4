/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of dense tensors with unknown cells against the obvious sums over known cells and
 * elimination, in float64. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "cpu/dense/dense_scan.h"
#include "format/arrays/dense.h"
#include "tests/support/run_suite.h"

#define L2 0.1

/* Rows with more cells than are multiplied at once, modes whose rows are divided into parts, and
 * such with one cell in a row. */
static const struct shape {
    uint32_t order, rank;
    uint64_t dim[TS_DENSE_MAX_ORDER], slab_bytes;
} shapes[] = {
    { 2, 3, { 2, 40000 }, 0 },
    { 2, 9, { 150, 33 }, 4096 },
    { 3, 8, { 5, 90, 200 }, 65536 },
    { 3, 16, { 60, 3, 700 }, 0 },
    { 3, 17, { 130, 90, 4 }, 65536 },
    { 3, 70, { 20, 24, 31 }, 0 },
    { 4, 5, { 20, 21, 12, 13 }, 65536 },
    { 5, 33, { 4, 5, 6, 7, 8 }, 4096 },
    { 8, 2, { 3, 2, 3, 2, 3, 2, 3, 5 }, 0 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

struct cells {
    struct ts_tensor *t;
    double *value;
    double *factor[TS_DENSE_MAX_ORDER];
};

static struct cells cells_new(const struct shape *s, int fortran, double share)
{
    struct ts_dense_array a = { .path = "cells",
                                .type = TS_CELL_F64,
                                .fortran = fortran,
                                .order = s->order,
                                .slab_bytes = s->slab_bytes };
    struct cells x = { 0 };
    struct ts_err err;
    uint64_t n = 1;
    memcpy(a.dim, s->dim, sizeof a.dim);
    for (uint32_t m = 0; m < s->order; m++) {
        n *= s->dim[m];
        x.factor[m] = malloc(s->dim[m] * s->rank * sizeof(double));
        for (uint64_t i = 0; i < s->dim[m] * s->rank; i++)
            x.factor[m][i] = ts_unit(ts_mix(100 * i + m)) - 0.3;
    }
    a.memory = x.value = malloc(n * sizeof *x.value);
    ck_assert_msg(ts_dense_open(&a, &x.t, &err) == 0, "%s", err.text);
    for (uint64_t i = 0; i < n; i++) { /* in slice 1 of the first mode most are unknown */
        uint64_t index[TS_DENSE_MAX_ORDER];
        ts_dense_index(x.t->dense, i, index);
        x.value[i] = ts_unit(ts_mix(i + 77)) < (index[0] == 1 ? 0.9 : share)
                         ? NAN
                         : 2 * ts_unit(ts_mix(i + 5)) - 1;
    }
    ck_assert_msg(ts_dense_scan_alone(x.t, 1, NULL, &err) == 0, "%s", err.text);
    return x;
}

static void cells_free(struct cells *x)
{
    for (uint32_t m = 0; m < x->t->order; m++)
        free(x->factor[m]);
    ts_tensor_close(x->t);
    free(x->value);
}

/* ---- the slow twin ---- */

static void add_cell(const struct cells *x, uint32_t mode, uint32_t rank, uint64_t cell, double *s)
{
    uint64_t index[TS_DENSE_MAX_ORDER];
    double w[128];
    ts_dense_index(x->t->dense, cell, index);
    s += index[mode] * rank * (rank + 1);
    for (uint32_t r = 0; r < rank; r++) {
        w[r] = 1;
        for (uint32_t m = 0; m < x->t->order; m++)
            w[r] *= m == mode ? 1 : x->factor[m][index[m] * rank + r];
    }
    for (uint32_t i = 0; i < rank; i++, s += rank + 1) {
        for (uint32_t j = 0; j < rank; j++)
            s[j] += w[i] * w[j];
        s[rank] += w[i] * x->value[cell];
    }
}

/* a := S^-1 m of a system of `rank` rows of rank + 1. */
static void eliminate(double *s, uint32_t rank, double *a)
{
    const uint32_t n = rank + 1;
    for (uint32_t i = 0; i < rank; i++)
        s[i * n + i] += L2;
    for (uint32_t k = 0; k < rank; k++)
        for (uint32_t i = k + 1; i < rank; i++) {
            const double f = s[i * n + k] / s[k * n + k];
            for (uint32_t j = k; j < n; j++)
                s[i * n + j] -= f * s[k * n + j];
        }
    for (uint32_t k = rank; k-- > 0;) {
        a[k] = s[k * n + rank];
        for (uint32_t j = k + 1; j < rank; j++)
            a[k] -= s[k * n + j] * a[j];
        a[k] /= s[k * n + k];
    }
}

static double *slow_rows(const struct cells *x, uint32_t mode, uint32_t rank)
{
    const uint64_t n = x->t->dense->array.dim[mode];
    double *s = calloc(n * rank * (rank + 1), sizeof *s), *a = malloc(n * rank * sizeof *a);
    for (uint64_t i = 0; i < x->t->dense->cells; i++)
        if (!isnan(x->value[i]))
            add_cell(x, mode, rank, i, s);
    for (uint64_t i = 0; i < n; i++)
        eliminate(s + i * rank * (rank + 1), rank, a + i * rank);
    free(s);
    return a;
}

/* ---- the rows ---- */

static double *fast_rows(const struct cells *x, uint32_t mode, uint32_t rank,
                         enum ts_precision precision, uint32_t threads)
{
    const struct ts_backend_conf conf = {
        .tensor = x->t, .rank = rank, .precision = precision, .threads = threads, .only_mode = -1
    };
    const struct ts_feed_conf fc = { .tensor = x->t, .host_bytes = 1 << 30, .only_mode = -1 };
    const struct ts_row_update how = {
        .kind = TS_ROW_OBSERVED, .l2 = L2, .lower = -INFINITY, .upper = INFINITY
    };
    const uint64_t n = x->t->dense->array.dim[mode];
    double *ret = malloc(n * rank * sizeof *ret), size;
    struct ts_feed *feed;
    struct ts_err err;
    void *be;
    ck_assert_msg(ts_feed_new(&fc, &feed, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_backend_cpu.open(&conf, &be, &err) == 0, "%s", err.text);
    for (uint32_t m = 0; m < x->t->order; m++)
        ts_backend_cpu.put_rows(be, m, 0, x->t->dense->array.dim[m], x->factor[m], &err);
    ck_assert_msg(
        ts_backend_cpu.pass(&(struct ts_request){ .be = be,
                                                  .kind = TS_REQUEST_ROWS,
                                                  .update = &how,
                                                  .sums = &(struct ts_row_sums){ .size = &size } },
                            1, mode, feed, NULL, &err) == 0,
        "%s", err.text);
    ts_backend_cpu.get_rows(be, mode, 0, n, ret, &err);
    ts_backend_cpu.close(be);
    ts_feed_free(feed);
    return ret;
}

/* Tolerances: what the sums lose of their terms, times some hundreds for the condition of the
 * systems. */
START_TEST(rows_equal_the_slow_ones)
{
    static const double share[] = { 0.01, 0.1, 0.5, 0.95 };
    const struct shape *s = &shapes[_i / 4];
    struct cells x = cells_new(s, _i % 2, share[_i % 4]);
    for (uint32_t m = 0; m < s->order; m++) {
        const uint64_t n = s->dim[m] * s->rank;
        double *want = slow_rows(&x, m, s->rank), most = 0;
        for (uint64_t i = 0; i < n; i++)
            most = fabs(want[i]) > most ? fabs(want[i]) : most;
        for (int narrow = 0; narrow < 2; narrow++) {
            const enum ts_precision precision = narrow ? TS_FLOAT32 : TS_FLOAT64;
            double *got = fast_rows(&x, m, s->rank, precision, 1);
            double *same = fast_rows(&x, m, s->rank, precision, 3);
            ck_assert_mem_eq(got, same, n * sizeof *got);
            for (uint64_t i = 0; i < n; i++)
                ck_assert_double_eq_tol(got[i], want[i], (narrow ? 1e-4 : 1e-11) * most);
            free(got);
            free(same);
        }
        free(want);
    }
    cells_free(&x);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dense_rows");
    TCase *c = tcase_create("dense_rows");
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, rows_equal_the_slow_ones, 0, 4 * N_SHAPES);
    suite_add_tcase(s, c);
    return test_run_suite(s, CK_NOFORK);
}
