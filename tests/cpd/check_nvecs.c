/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts of singular vectors are those of a slow, obvious program, span what they should, and have
 * the same bits however they are computed. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/solver/nvecs.h"
#include "cpd/rows/symm.h"
#include "tests/cpd/cp_case.h"
#include "tests/support/run_suite.h"

/* ---- beside a slow program ---- */

struct slow {
    const struct test_coo *x;
    const struct test_tsh_conf *conf;
    uint64_t seed;
    uint32_t rank;
    double *b[TS_MAX_ORDER], *u[TS_MAX_ORDER]; /* dim x rank: mixed; as they are in the end */
    uint32_t kept[TS_MAX_ORDER];
};

/* u := left singular vectors of the sketch, b := u O */
static void slow_mode(struct slow *s, uint32_t mode)
{
    const struct test_coo *x = s->x;
    const uint32_t rank = s->rank;
    const uint64_t n = x->dim[mode];
    double *y = calloc(n * rank, sizeof *y), *h = calloc(rank * rank, sizeof *h);
    double *d = malloc(rank * sizeof *d), *z = malloc(rank * rank * sizeof *z), *u = s->u[mode];
    double most = 0;
    for (uint64_t k = 0; k < x->nnz; k++)
        for (uint32_t r = 0; r < rank; r++) {
            double p = x->val[k];
            for (uint32_t m = 0; m < x->order; m++)
                p *= m == mode ? 1 : s->b[m][x->idx[m][k] * rank + r];
            y[x->idx[mode][k] * rank + r] += p;
        }
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t j = 0; j < rank; j++)
            for (uint64_t k = 0; k < n; k++)
                h[i * rank + j] += y[k * rank + i] * y[k * rank + j];
    ck_assert_int_eq(ts_symm_eigen(rank, h, d, z, NULL), 0);
    for (uint32_t r = 0; r < rank; r++)
        most = fmax(most, d[r]);
    memset(u, 0, n * rank * sizeof *u);
    for (s->kept[mode] = 0; s->kept[mode] < rank && s->kept[mode] < n; s->kept[mode]++) {
        const uint32_t to = s->kept[mode];
        uint32_t at = 0;
        double sum = 0;
        for (uint32_t r = 1; r < rank; r++)
            at = d[r] > d[at] ? r : at;
        if (!(d[at] > TS_NVECS_NONE * most))
            break;
        for (uint64_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < rank; k++)
                u[i * rank + to] += y[i * rank + k] * z[at * rank + k] / sqrt(d[at]);
            sum += u[i * rank + to];
        }
        for (uint64_t i = 0; i < n && sum < 0; i++)
            u[i * rank + to] = -u[i * rank + to];
        d[at] = -1;
    }
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = s->kept[mode]; r < rank; r++)
            u[i * rank + r] =
                ts_init_entry(s->seed, mode, test_tsh_index(s->conf, mode, i), r) / sqrt((double)n);
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < rank; r++) {
            double *to = &s->b[mode][i * rank + r];
            *to = 0;
            for (uint32_t j = 0; j < rank; j++)
                *to += u[i * rank + j] * ts_nvecs_mix(s->seed, mode, rank, j, r);
        }
    free(y);
    free(h);
    free(d);
    free(z);
}

static void slow_start(struct slow *s)
{
    for (uint32_t m = 0; m < s->x->order; m++) {
        s->b[m] = malloc(s->x->dim[m] * s->rank * sizeof(double));
        s->u[m] = malloc(s->x->dim[m] * s->rank * sizeof(double));
        for (uint64_t i = 0; i < s->x->dim[m] * s->rank; i++)
            s->b[m][i] = 2 * ts_init_entry(s->seed, m, test_tsh_index(s->conf, m, i / s->rank),
                                           (uint32_t)(i % s->rank)) -
                         1;
    }
    for (uint32_t round = 0; round < TS_NVECS_ROUNDS; round++)
        for (uint32_t m = 1; m < s->x->order; m++)
            slow_mode(s, m);
    slow_mode(s, 0);
}

static void slow_free(struct slow *s)
{
    for (uint32_t m = 0; m < s->x->order; m++) {
        free(s->b[m]);
        free(s->u[m]);
    }
}

static const struct shape {
    uint32_t order, nnz, rank, stretch;
    uint64_t dim[8];
} shapes[] = {
    { 2, 300, 4, 0, { 31, 40 } },
    { 3, 2000, 5, 3, { 40, 30, 20 } },
    { 3, 500, 16, 0, { 3, 50, 40 } }, /* rank above a mode's size */
    { 3, 800, 6, 2, { 1, 50, 40 } },
    { 3, 900, 1, 0, { 15, 50, 40 } },
    { 4, 3000, 8, 0, { 20, 15, 10, 9 } },
    { 5, 2500, 3, 2, { 12, 9, 8, 7, 6 } },
    { 8, 1500, 2, 0, { 3, 4, 3, 2, 5, 3, 4, 2 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

/* Near eigenvalues of a sketch, and small ones, multiply roundings: by 1e5 at most for these seeds.
 * Where factors are not to be negative, of least squares or of counts, it is their positive
 * part. */
START_TEST(starts_are_those_of_the_slow_program)
{
    const struct shape *s = &shapes[_i % N_SHAPES];
    const int positive = _i / N_SHAPES > 0;
    struct ts_spec spec = { .poisson = _i / N_SHAPES == 2 };
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, 0, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .stretch = s->stretch };
    struct slow b = { .x = &x, .conf = &tc, .seed = 3, .rank = s->rank };
    struct test_cp a;
    for (uint32_t m = 0; m < s->order; m++)
        spec.mode[m].nonneg = _i / N_SHAPES == 1;
    test_tsh_write(test_case_dir, &x, &tc);
    slow_start(&b);
    a = test_case_run(&(struct test_cp_conf){ .rank = s->rank,
                                              .iters = 1,
                                              .inner = 1,
                                              .spec = positive ? &spec : NULL,
                                              .seed = 3,
                                              .threads = 2,
                                              .precision = TS_FLOAT64,
                                              .nvecs = 1 });
    for (uint32_t m = 0; m < x.order; m++) {
        ck_assert_uint_eq(b.kept[m], s->rank < x.dim[m] ? s->rank : x.dim[m]);
        for (uint64_t i = 0; i < x.dim[m] * s->rank; i++) {
            const double want = positive ? fmax(b.u[m][i], 0) : b.u[m][i];
            ck_assert_msg(fabs(a.start[m][i] - want) <= 1e-10,
                          "mode %u, entry %u: %.17g, not %.17g", m + 1, (unsigned)i, a.start[m][i],
                          want);
        }
        for (uint32_t p = 0; p < b.kept[m] && !positive; p++)
            for (uint32_t q = 0; q <= p; q++) {
                double sum = 0;
                for (uint64_t i = 0; i < x.dim[m]; i++)
                    sum += a.start[m][i * s->rank + p] * a.start[m][i * s->rank + q];
                ck_assert_double_eq_tol(sum, p == q, 1e-10);
            }
    }
    test_cp_free(&a);
    slow_free(&b);
    test_coo_free(&x);
}
END_TEST

/* ---- what they span ---- */

#define N_PARTS 3u

/* Every cell: a sum of N_PARTS components, and, where `noise` is not 0, something on top. */
static struct test_coo make_low_rank(const uint64_t dim[3], double noise)
{
    struct test_coo x = { .order = 3, .nnz = dim[0] * dim[1] * dim[2] };
    x.val = malloc(x.nnz * sizeof *x.val);
    for (uint32_t m = 0; m < 3; m++) {
        x.dim[m] = dim[m];
        x.idx[m] = malloc(x.nnz * sizeof *x.idx[m]);
    }
    for (uint64_t k = 0; k < x.nnz; k++) {
        const uint64_t at[3] = { k / dim[2] / dim[1], k / dim[2] % dim[1], k % dim[2] };
        x.val[k] = noise * (ts_unit(ts_mix(k + 991)) - 0.5);
        for (uint32_t c = 0; c < N_PARTS; c++) {
            double p = 3.0 / (1 + c);
            for (uint32_t m = 0; m < 3; m++)
                p *= ts_unit(ts_mix(ts_mix(m * 100 + c) + at[m])) - 0.3;
            x.val[k] += p;
        }
        for (uint32_t m = 0; m < 3; m++)
            x.idx[m][k] = (uint32_t)at[m];
    }
    return x;
}

/* The squares of what projection on the columns of u (n x rank, orthonormal) takes away of
 * X_(mode), over |X|^2. */
static double missed(const struct test_coo *x, uint32_t mode, uint32_t rank, const double *u)
{
    const uint32_t p = mode == 0 ? 1 : 0, q = mode == 2 ? 1 : 2;
    const uint64_t columns = x->dim[p] * x->dim[q];
    double *y = calloc(rank * columns, sizeof *y), all = 0, kept = 0;
    for (uint64_t k = 0; k < x->nnz; k++) {
        all += x->val[k] * x->val[k];
        for (uint32_t r = 0; r < rank; r++)
            y[(x->idx[p][k] * x->dim[q] + x->idx[q][k]) * rank + r] +=
                u[x->idx[mode][k] * rank + r] * x->val[k];
    }
    for (uint64_t i = 0; i < rank * columns; i++)
        kept += y[i] * y[i];
    free(y);
    return (all - kept) / all;
}

/* Of a tensor of 3 components all; and where there is noise, not much less than the best 3 vectors
 * would, which are those of the components but for the noise. In float32 to its roundings. */
START_TEST(the_range_is_found)
{
    static const uint64_t dim[3] = { 25, 20, 15 };
    const double noise = _i / 2 ? 0.02 : 0;
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64 };
    struct test_coo x = make_low_rank(dim, noise);
    struct test_cp a;
    double size = 0;
    for (uint64_t k = 0; k < x.nnz; k++)
        size += x.val[k] * x.val[k];
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_case_run(&(struct test_cp_conf){ .rank = N_PARTS,
                                              .iters = 1,
                                              .seed = 5,
                                              .precision = (enum ts_precision)(_i % 2),
                                              .nvecs = 1 });
    for (uint32_t m = 0; m < 3; m++) {
        const double none = (double)x.nnz * noise * noise / 12 / size; /* the noise's share */
        const double lost = missed(&x, m, N_PARTS, a.start[m]);
        ck_assert_msg(fabs(lost) <= 4 * none + (_i % 2 == TS_FLOAT64 ? 1e-12 : 1e-6), "mode %u: %g",
                      m + 1, lost);
    }
    test_cp_free(&a);
    test_coo_free(&x);
}
END_TEST

/* ---- the same bits ---- */

START_TEST(threads_and_memory_do_not_matter)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .stretch = 2, .shard_partitions = 1 };
    const struct ts_spec spec = { .mode = { { .nonneg = _i / 2 }, { .nonneg = _i / 2 }, { 0 } } };
    struct test_cp a;
    test_case_write(41, &tc);
    a = test_case_streamed(&(struct test_cp_conf){ .rank = 7,
                                                   .iters = 3,
                                                   .seed = 3,
                                                   .threads = 1,
                                                   .precision = (enum ts_precision)(_i % 2),
                                                   .spec = &spec,
                                                   .nvecs = 1 });
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < a.n_rows[m] * 7; i++)
            ck_assert(!spec.mode[m].nonneg || a.start[m][i] >= 0);
    test_cp_free(&a);
}
END_TEST

/* The start is three products, of which two are made twice. */
START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    test_case_write(42, &tc);
    test_case_stopped(&(struct test_cp_conf){ .rank = 3,
                                              .iters = 2,
                                              .seed = 1,
                                              .threads = 1,
                                              .precision = (enum ts_precision)_i,
                                              .nvecs = 1 },
                      5);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("nvecs");
    TCase *c = tcase_create("nvecs");
    tcase_add_checked_fixture(c, test_case_setup, test_case_teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, starts_are_those_of_the_slow_program, 0, 3 * N_SHAPES);
    tcase_add_loop_test(c, the_range_is_found, 0, 4);
    tcase_add_loop_test(c, threads_and_memory_do_not_matter, 0, 4);
    tcase_add_loop_test(c, a_run_that_was_stopped_has_the_same_bits, 0, 2);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
