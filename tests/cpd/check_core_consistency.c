/* SPDX-License-Identifier: BSD-3-Clause */
/* The core consistency is that of the core summed cell by cell with pseudo-inverses by
 * elimination. */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/judge/core_consistency.h"
#include "format/arrays/dense.h"
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

static struct ts_core core_of(const struct ts_tensor *t, const struct ts_kruskal *k,
                              uint32_t threads)
{
    const struct ts_core_conf conf = { .tensor = t, .model = k, .threads = threads };
    struct ts_core ret;
    struct ts_err err = { 0 };
    ck_assert_msg(ts_core_run(&conf, &ret, &err) == 0, "%s", err.text);
    return ret;
}

/* ---- the obvious way ---- */

/* inverse := that of the positive definite n x n matrix a, by Gauss and Jordan. */
static void invert(uint32_t n, long double *a, long double *inverse)
{
    for (uint32_t i = 0; i < n * n; i++)
        inverse[i] = i / n == i % n;
    for (uint32_t k = 0; k < n; k++) {
        const long double pivot = a[k * n + k];
        for (uint32_t j = 0; j < n; j++) {
            a[k * n + j] /= pivot;
            inverse[k * n + j] /= pivot;
        }
        for (uint32_t i = 0; i < n; i++) {
            const long double by = a[i * n + k];
            for (uint32_t j = 0; j < n && i != k; j++) {
                a[i * n + j] -= by * a[k * n + j];
                inverse[i * n + j] -= by * inverse[k * n + j];
            }
        }
    }
}

static long double norm_of(const struct ts_kruskal *k, uint32_t mode, uint32_t r)
{
    const double *a = k->factor[mode];
    long double sum = 0;
    for (uint64_t i = 0; i < k->n_rows[mode]; i++)
        sum += (long double)a[i * k->rank + r] * a[i * k->rank + r];
    return sqrtl(sum);
}

/* rank x rows, for columns of which every mode has the same norm; the first takes the sign. */
static long double *pseudo_inverse(const struct ts_kruskal *k, uint32_t mode)
{
    const uint32_t rank = k->rank;
    const uint64_t rows = k->n_rows[mode];
    long double *a = malloc(rows * rank * sizeof *a), *p = calloc(rows * rank, sizeof *p);
    long double *gram = calloc(rank * rank, sizeof *gram), *w = malloc(rank * rank * sizeof *w);
    for (uint32_t r = 0; r < rank; r++) {
        long double size = fabs(k->weight[r]);
        for (uint32_t m = 0; m < k->order; m++)
            size *= norm_of(k, m, r);
        size = powl(size, 1.0L / k->order) / norm_of(k, mode, r);
        for (uint64_t i = 0; i < rows; i++)
            a[i * rank + r] = ((double *)k->factor[mode])[i * rank + r] *
                              (mode == 0 && k->weight[r] < 0 ? -size : size);
    }
    for (uint64_t i = 0; i < rows; i++)
        for (uint32_t q = 0; q < rank * rank; q++)
            gram[q] += a[i * rank + q / rank] * a[i * rank + q % rank];
    invert(rank, gram, w);
    for (uint32_t r = 0; r < rank; r++)
        for (uint64_t i = 0; i < rows; i++)
            for (uint32_t q = 0; q < rank; q++)
                p[r * rows + i] += w[r * rank + q] * a[i * rank + q];
    free(a);
    free(gram);
    free(w);
    return p;
}

static double twin(const struct test_coo *x, const struct test_tsh_conf *conf,
                   const struct ts_kruskal *k, double *normalised)
{
    long double *p[TS_MAX_ORDER], left = 0, all = 0;
    uint64_t entries = 1;
    for (uint32_t m = 0; m < k->order; m++) {
        p[m] = pseudo_inverse(k, m);
        entries *= k->rank;
    }
    for (uint64_t e = 0; e < entries; e++) {
        long double g = 0;
        uint64_t equal = 0, rest = e;
        uint32_t of[TS_MAX_ORDER];
        for (uint32_t m = 0; m < k->order; m++, rest /= k->rank) {
            of[m] = (uint32_t)(rest % k->rank);
            equal += of[m] == of[0];
        }
        for (uint64_t n = 0; n < x->nnz; n++) {
            long double term = x->val[n];
            for (uint32_t m = 0; m < k->order; m++)
                term *= p[m][of[m] * k->n_rows[m] + test_tsh_index(conf, m, x->idx[m][n])];
            g += term;
        }
        all += g * g;
        g -= equal == k->order;
        left += g * g;
    }
    for (uint32_t m = 0; m < k->order; m++)
        free(p[m]);
    *normalised = (double)(100 * (1 - left / all));
    return (double)(100 * (1 - left / k->rank));
}

/* ---- */

static struct ts_kruskal *random_model(const struct ts_tensor *t, uint32_t rank, uint64_t seed)
{
    struct ts_kruskal *k = NULL;
    uint64_t dim[TS_MAX_ORDER];
    for (uint32_t m = 0; m < t->order; m++)
        dim[m] = t->mode[m].disk.dim;
    ck_assert_int_eq(ts_kruskal_new(t->order, rank, TS_FLOAT64, dim, dim, &k, NULL), 0);
    for (uint32_t r = 0; r < rank; r++)
        k->weight[r] = (r % 2 == 0 ? 3 : -2) * (1 + r);
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t i = 0; i < dim[m]; i++)
            for (uint32_t r = 0; r < rank; r++)
                ((double *)k->factor[m])[i * rank + r] = 2 * ts_init_entry(seed, m, i, r) - 0.7;
    return k;
}

static const struct shape {
    uint32_t order, nnz, rank, stretch;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 300, 4, 0, { 31, 40 } },           { 3, 2000, 5, 0, { 40, 30, 20 } },
    { 3, 700, 3, 3, { 21, 15, 11 } }, /* empty slices */
    { 3, 800, 1, 0, { 1, 50, 40 } },        { 3, 1, 1, 2, { 1, 1, 1 } },
    { 4, 900, 4, 2, { 9, 8, 7, 5 } },       { 5, 900, 3, 0, { 12, 9, 8, 7, 6 } },
    { 6, 700, 3, 0, { 6, 5, 7, 4, 5, 3 } }, { 8, 500, 2, 0, { 3, 4, 3, 2, 5, 3, 4, 2 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

START_TEST(cores_are_those_of_all_cells)
{
    const struct shape *s = &shapes[_i];
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64,
                                        .stretch = s->stretch,
                                        .shard_partitions = 1 };
    struct test_coo x = test_coo_random(41, s->order, s->dim, s->nnz, 0, 0.5);
    struct ts_tensor *t = NULL;
    struct ts_kruskal *k;
    struct ts_core one, three;
    double want, normalised;
    test_tsh_write(dir, &x, &conf);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    k = random_model(t, s->rank, 5);
    want = twin(&x, &conf, k, &normalised);
    one = core_of(t, k, 1);
    three = core_of(t, k, 3);
    ck_assert_double_eq_tol(one.consistency, want, 1e-10 * (100 + fabs(want)));
    ck_assert_double_eq_tol(one.normalised, normalised, 1e-9 * (100 + fabs(normalised)));
    ck_assert_int_eq(memcmp(&one.consistency, &three.consistency, sizeof(double)), 0);
    ck_assert_uint_eq(one.n_singular, 0);
    /* norms may be anywhere */
    for (uint32_t r = 0; r < s->rank; r++)
        for (uint64_t i = 0; i < k->n_rows[0]; i++) {
            ((double *)k->factor[0])[i * s->rank + r] *= 16;
            if (i == 0)
                k->weight[r] /= 16;
        }
    for (uint32_t m = 0; m < 2; m++) /* also such that squares leave the range */
        for (uint64_t i = 0; i < k->n_rows[m] * s->rank; i++)
            ((double *)k->factor[m])[i] *= m == 0 ? 0x1p600 : 0x1p-600;
    ck_assert_double_eq_tol(core_of(t, k, 2).consistency, want, 1e-10 * (100 + fabs(want)));
    ts_kruskal_free(k);
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

/* A nonzero of 1 in each. */
static struct test_coo every_cell(const uint64_t dim[3])
{
    struct test_coo x = { .order = 3, .nnz = dim[0] * dim[1] * dim[2] };
    x.val = malloc(x.nnz * sizeof *x.val);
    for (uint32_t m = 0; m < 3; m++) {
        x.dim[m] = dim[m];
        x.idx[m] = malloc(x.nnz * sizeof *x.idx[m]);
    }
    for (uint64_t n = 0; n < x.nnz; n++) {
        x.idx[0][n] = (uint32_t)(n / dim[2] / dim[1]);
        x.idx[1][n] = (uint32_t)(n / dim[2] % dim[1]);
        x.idx[2][n] = (uint32_t)(n % dim[2]);
        x.val[n] = 1;
    }
    return x;
}

/* A dense tensor of all cells, in both orders of the array. An unknown cell is refused. */
START_TEST(cores_of_arrays)
{
    static const uint64_t dim[3] = { 9, 8, 7 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64 };
    struct test_coo x = every_cell(dim);
    double *cells = malloc(x.nnz * sizeof *cells);
    struct ts_dense_array array = { .path = "x",
                                    .memory = cells,
                                    .type = TS_CELL_F64,
                                    .fortran = _i,
                                    .order = 3,
                                    .dim = { 9, 8, 7 },
                                    .slab_bytes = 1000 };
    const uint64_t step[2][3] = { { 56, 7, 1 }, { 1, 9, 72 } };
    struct ts_core_conf c = { .threads = 1 };
    struct ts_tensor *t = NULL;
    struct ts_kruskal *k;
    struct ts_core found;
    struct ts_err err;
    double want, normalised;
    for (uint64_t n = 0; n < x.nnz; n++) {
        uint64_t at = 0;
        for (uint32_t m = 0; m < 3; m++)
            at += x.idx[m][n] * step[_i][m];
        cells[at] = x.val[n] = n % 5 == 0 ? 0 : ts_init_entry(3, 0, n, 0) - 0.3;
    }
    ck_assert_int_eq(ts_dense_open(&array, &t, NULL), 0);
    k = random_model(t, 4, 6);
    want = twin(&x, &conf, k, &normalised);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        found = core_of(t, k, threads);
        ck_assert_double_eq_tol(found.consistency, want, 1e-10 * (100 + fabs(want)));
        ck_assert_double_eq_tol(found.normalised, normalised, 1e-9 * (100 + fabs(normalised)));
    }
    cells[step[_i][0] + 2 * step[_i][2]] = NAN;
    c.tensor = t;
    c.model = k;
    ck_assert_int_eq(ts_core_run(&c, &found, &err), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "x: cell [1, 0, 2] (counted from 0) is NaN"));
    ts_kruskal_free(k);
    ts_tensor_close(t);
    test_coo_free(&x);
    free(cells);
}
END_TEST

/* Every cell of a tensor that is the model: 100; with a component that is twice there, or dead,
 * less. */
START_TEST(right_and_wrong_models)
{
    static const uint64_t dim[3] = { 9, 8, 7 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64 };
    struct test_coo x = every_cell(dim);
    struct ts_tensor *t = NULL;
    struct ts_kruskal *k, *wide;
    struct ts_core core;
    test_tsh_write(dir, &x, &conf);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    k = random_model(t, 3, 8);
    wide = random_model(t, 4, 8);
    ts_tensor_close(t);
    test_tsh_remove(dir);
    for (uint64_t n = 0; n < x.nnz; n++) {
        x.val[n] = 0;
        for (uint32_t r = 0; r < 3; r++) {
            double term = k->weight[r];
            for (uint32_t m = 0; m < 3; m++)
                term *= ((double *)k->factor[m])[x.idx[m][n] * 3 + r];
            x.val[n] += term;
        }
    }
    test_tsh_write(dir, &x, &conf);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    ck_assert_double_eq_tol(core_of(t, k, 1).consistency, 100, 1e-9);
    for (uint32_t m = 0; m < 3; m++) /* the last one is the first again */
        for (uint64_t i = 0; i < dim[m]; i++) {
            double *row = (double *)wide->factor[m] + i * 4;
            memcpy(row, (double *)k->factor[m] + i * 3, 3 * sizeof *row);
            row[3] = row[0];
        }
    memcpy(wide->weight, k->weight, 3 * sizeof *k->weight);
    core = core_of(t, wide, 1);
    ck_assert_double_lt(core.consistency, 80);
    ck_assert_uint_eq(core.n_singular, 3);
    k->weight[1] = 0;
    core = core_of(t, k, 1);
    ck_assert(isfinite(core.consistency) && core.consistency < 70);
    ts_kruskal_free(k);
    ts_kruskal_free(wide);
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

START_TEST(what_is_refused)
{
    static const uint64_t dim[3] = { 5, 4, 3 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F64 };
    struct test_coo x = test_coo_random(4, 3, dim, 20, 0, 0);
    struct ts_core_conf c = { .threads = 1 };
    struct ts_kruskal *k = NULL;
    struct ts_tensor *t = NULL;
    struct ts_core core;
    struct ts_err err;
    const uint64_t other[3] = { 5, 7, 3 };
    ck_assert_int_eq(ts_core_check(3, 256, &err), 0);
    ck_assert_int_eq(ts_core_check(3, 257, &err), TS_ELIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 256"));
    ck_assert_int_eq(ts_core_check(8, 8, &err), 0);
    ck_assert_int_eq(ts_core_check(8, 9, &err), TS_ELIMIT);
    test_tsh_write(dir, &x, &conf);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    ck_assert_int_eq(ts_kruskal_new(3, 2, TS_FLOAT64, other, other, &k, NULL), 0);
    c.tensor = t;
    c.model = k;
    ck_assert_int_eq(ts_core_run(&c, &core, &err), TS_EARG);
    ck_assert_str_eq(err.text, "mode 2 of the model has 7 rows, of the tensor 4");
    ts_kruskal_free(k);
    ts_tensor_close(t);
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core consistency");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, cores_are_those_of_all_cells, 0, N_SHAPES);
    tcase_add_loop_test(tc, cores_of_arrays, 0, 2);
    tcase_add_test(tc, right_and_wrong_models);
    tcase_add_test(tc, what_is_refused);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
