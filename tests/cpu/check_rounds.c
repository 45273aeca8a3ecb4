/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows are multiplied as by the obvious loop, several rounds for one read; columns get sums of 1,
 * and zeros that would grow a mark; with the same bits however the work is shared. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "stream/loss.h"
#include "stream/loss_functions.h"
#include "tests/stream/memfeed.h"
#include "tests/support/run_suite.h"

#define GROW 0.01

static const struct shape {
    uint32_t order, nnz, value_range;
    double skew;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 1, 1, 0, { 1, 1 } },
    { 2, 9000, 9, 0, { 310, 400 } },
    { 3, 20000, 5, 0, { 40, 30, 50 } },    /* rows longer than a block */
    { 3, 34000, 0, 3, { 2, 4000, 3000 } }, /* rows longer than partitions */
    { 3, 33000, 4, 0, { 1, 300, 290 } },   /* one row */
    { 3, 9000, 7, 0, { 9000, 60, 9000 } }, /* rows of one nonzero */
    { 4, 9000, 1000, 3, { 51, 2, 116, 900 } },
    { 5, 9000, 3, 1, { 700, 900, 50, 24, 3 } },
    { 6, 2000, 0, 1, { 9, 8, 70, 11, 13, 17 } },
    { 7, 2000, 2, 1, { 9, 8, 7, 11, 13, 17, 2 } },
    { 8, 2000, 3, 1, { 3, 5, 7, 11, 13, 17, 19, 23 } },
    { 16, 300, 70000, 0, { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 } },
};
static const uint32_t ranks[] = { 1, 3, 8, 10, 16, 25, 32, 33, 65 };
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])
#define N_RANKS  (sizeof ranks / sizeof ranks[0])

struct sums {
    double *column, kkt, loss, inner;
    double size; /* sum of the magnitudes of what is added for the loss */
};

/* Entries in (0, 1), of which some are zeros, and some zeros that would grow. */
static double some_zeros(double u)
{
    return u < 0.02 ? 0.0 : u < 0.04 ? -0.0 : u;
}

static void fill_factors(const struct test_coo *x, uint32_t rank, enum ts_precision precision,
                         double **factor)
{
    memfeed_factors_new(x, rank, precision, rank > 1 ? some_zeros : NULL, factor);
}

static void *open_backend(const struct test_coo *x, const struct ts_feed *f, uint32_t rank,
                          enum ts_precision precision, uint32_t threads, uint32_t spare,
                          double **factor)
{
    struct ts_backend_conf conf = { .rank = rank,
                                    .precision = precision,
                                    .threads = threads,
                                    .needs = 1u << TS_ROW_MULTIPLY,
                                    .own_rows = (1u << x->order) - 1 };
    return memfeed_backend_new(&ts_backend_cpu, &conf, f, spare, factor);
}

/* A row that goes on in another shard takes one round. */
static int spans(const struct ts_mode *m, uint64_t row)
{
    for (uint64_t s = 1; s < m->disk.n_shards; s++)
        if (m->shard[s - 1].row_last == row && m->shard[s].row_first == row)
            return 1;
    return 0;
}

/* p of nonzero n, and the model there. */
static double terms(const struct test_coo *x, uint32_t mode, uint32_t rank, double **factor,
                    uint64_t n, const double *b, double *p)
{
    double model = 0;
    for (uint32_t r = 0; r < rank; r++) {
        p[r] = 1;
        for (uint32_t m = 0; m < x->order; m++)
            if (m != mode)
                p[r] *= fabs(factor[m][x->idx[m][n] * (uint64_t)rank + r]);
        model += p[r] * b[x->idx[mode][n] * (uint64_t)rank + r];
    }
    return model;
}

/* The mode's factor := the new one, with a mark of its zeros. phi: of the last round of each
 * row. */
static void multiply(const struct test_coo *x, const struct ts_feed *f, uint32_t mode,
                     uint32_t rank, uint32_t rounds, const double *weight, double **factor,
                     double *phi, struct sums *ret)
{
    const uint64_t n_rows = x->dim[mode];
    double *b = malloc(n_rows * rank * sizeof *b), *next = malloc(n_rows * rank * sizeof *next);
    double *p = malloc(rank * sizeof *p);
    char *one = calloc(n_rows, 1);
    memset(ret->column, 0, rank * sizeof(double));
    ret->kkt = ret->loss = ret->inner = ret->size = 0;
    for (uint64_t i = 0; i < n_rows; i++)
        one[i] = (char)spans(&f->tensor.mode[mode], i);
    for (uint64_t i = 0; i < n_rows * rank; i++)
        b[i] = (signbit(factor[mode][i]) ? GROW : factor[mode][i]) * weight[i % rank];
    for (uint32_t k = 0; k < rounds; k++) {
        memset(next, 0, n_rows * rank * sizeof *next);
        for (uint64_t n = 0; n < x->nnz; n++) {
            const double m = fmax(terms(x, mode, rank, factor, n, b, p), TS_LOSS_LEAST);
            for (uint32_t r = 0; r < rank; r++)
                next[x->idx[mode][n] * (uint64_t)rank + r] += x->val[n] / m * p[r];
        }
        for (uint64_t i = 0; i < n_rows * rank; i++) {
            if (k == 0)
                ret->kkt = fmax(ret->kkt, fabs(fmin(b[i], 1 - next[i])));
            if (k == 0 || !one[i / rank]) {
                phi[i] = next[i];
                b[i] *= next[i];
            }
        }
    }
    for (uint64_t n = 0; n < x->nnz; n++) {
        const double m = terms(x, mode, rank, factor, n, b, p);
        ret->loss += x->val[n] * log(fmax(m, TS_LOSS_LEAST));
        ret->size += fabs(x->val[n] * log(fmax(m, TS_LOSS_LEAST)));
        ret->inner += x->val[n] * m;
    }
    for (uint64_t i = 0; i < n_rows * rank; i++)
        ret->column[i % rank] += b[i];
    for (uint64_t i = 0; i < n_rows * rank; i++)
        factor[mode][i] = ret->column[i % rank] > 0 ? b[i] / ret->column[i % rank] : 0;
    free(one);
    free(p);
    free(next);
    free(b);
}

static void run(void *be, struct ts_feed *f, uint32_t mode, uint32_t rounds, const double *weight,
                int judge, struct sums *ret)
{
    const struct ts_multiply how = {
        .loss = &ts_loss_poisson, .weight = weight, .grow = GROW, .rounds = rounds, .judge = judge
    };
    struct ts_multiply_sums sums = { .column = ret->column };
    const struct ts_request request = {
        .be = be, .kind = TS_REQUEST_MULTIPLY, .multiply = &how, .multiplied = &sums
    };
    struct ts_backend_times times;
    struct ts_err err;
    int rc;
    ts_feed_rewind(f);
    if (rounds > 0)
        rc = ts_backend_cpu.pass(&request, 1, mode, f, &times, &err);
    else
        rc = ts_backend_cpu.divide_columns(be, mode, &how, &sums, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_uint_eq(f->given_back, f->given);
    ret->kkt = sums.kkt;
    ret->loss = sums.loss;
    ret->inner = sums.inner;
}

static void near(double got, double want, double tol, const char *what)
{
    if (!(fabs(got - want) <= tol * (1 + fabs(want))))
        ck_abort_msg("%s: %.17g, expected %.17g", what, got, want);
}

/* All terms are positive: a round's phi is right to as many roundings as a model has terms,
 * nonzeros being added in float64 or 256 at a time, and rounds multiply them. */
START_TEST(rows_are_those_of_the_obvious_loop)
{
    const struct shape *s = &shapes[_i / 2];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const uint32_t rank = ranks[(uint32_t)(_i * 3 / 2) % N_RANKS], rounds = 1 + (uint32_t)_i % 4;
    const double tol = precision == TS_FLOAT64 ? 1e-10 : 1e-5 * rounds;
    struct test_coo x = test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
    const uint32_t kind = s->value_range == 0   ? TS_VALUE_F64
                          : s->value_range == 1 ? TS_VALUE_CONST
                                                : TS_VALUE_INT;
    struct ts_feed *f = memfeed_new(&x, kind, 1 + (uint32_t)_i % 3, 1);
    double *factor[TS_MAX_ORDER], weight[200], got_column[200], want_column[200];
    void *be;
    fill_factors(&x, rank, precision, factor);
    be = open_backend(&x, f, rank, precision, 2, 0, factor);
    for (uint32_t r = 0; r < rank; r++)
        weight[r] = 1 + 0.01 * r;
    for (uint32_t m = 0; m < x.order; m++) {
        const uint64_t n = x.dim[m] * rank;
        double *got = malloc(n * sizeof *got), *phi = malloc(n * sizeof *phi);
        struct sums a = { .column = got_column }, b = { .column = want_column };
        struct ts_err err;
        run(be, f, m, rounds, weight, 1, &a);
        multiply(&x, f, m, rank, rounds, weight, factor, phi, &b);
        ck_assert_int_eq(ts_backend_cpu.get_rows(be, m, 0, x.dim[m], got, &err), 0);
        for (uint64_t i = 0; i < n; i++) {
            near(got[i], factor[m][i], tol, "entry");
            if (signbit(got[i]))
                ck_assert(got[i] == 0);
            if (factor[m][i] == 0 && fabs(phi[i] - 1) > 100 * tol)
                ck_assert_int_eq(signbit(got[i]) != 0, phi[i] > 1);
            factor[m][i] = got[i]; /* the next mode starts from the same rows */
        }
        for (uint32_t r = 0; r < rank; r++)
            near(got_column[r], want_column[r], tol, "column");
        near(a.kkt, b.kkt, tol, "violation");
        near((a.loss - b.loss) / (1 + b.size), 0, tol, "loss");
        near(a.inner, b.inner, tol, "inner product");
        free(phi);
        free(got);
    }
    ts_backend_cpu.close(be);
    memfeed_factors_free(&x, factor);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* Blocks are kept decoded from the second pass on: none, some or all of them. */
START_TEST(bits_do_not_depend_on_threads_delivery_or_blocks_that_are_kept)
{
    static const uint32_t threads[] = { 1, 2, 3 };
    const struct shape *s = &shapes[_i / 2];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const uint32_t rank = 5 + 4 * ((uint32_t)_i % 4);
    struct test_coo x = test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
    double *factor[TS_MAX_ORDER], *first[TS_MAX_ORDER], weight[200];
    struct sums sums[TS_MAX_ORDER];
    fill_factors(&x, rank, precision, factor);
    for (uint32_t r = 0; r < rank; r++)
        weight[r] = 1 + 0.01 * r;
    for (int k = 0; k < 3; k++) {
        struct ts_feed *f =
            memfeed_new(&x, s->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F32, 1, (uint64_t)k);
        void *be = open_backend(&x, f, rank, precision, threads[k], 2 * (uint32_t)k, factor);
        for (uint32_t m = 0; m < x.order; m++) {
            const uint64_t bytes = x.dim[m] * rank * sizeof(double);
            double *got = malloc(bytes), column[200];
            struct sums now = { .column = column };
            struct ts_err err;
            for (int pass = 0; pass < 3; pass++)
                run(be, f, m, 3, weight, m % 2 == 0, &now);
            ck_assert_int_eq(ts_backend_cpu.get_rows(be, m, 0, x.dim[m], got, &err), 0);
            now.column = NULL;
            if (k == 0) {
                first[m] = got;
                sums[m] = now;
                continue;
            }
            if (memcmp(first[m], got, bytes) != 0 || memcmp(&sums[m], &now, sizeof now) != 0)
                ck_abort_msg("shape %d, mode %u, %u threads", _i / 2, m, threads[k]);
            free(got);
        }
        ts_backend_cpu.close(be);
        memfeed_free(f);
    }
    for (uint32_t m = 0; m < x.order; m++)
        free(first[m]);
    memfeed_factors_free(&x, factor);
    test_coo_free(&x);
}
END_TEST

START_TEST(without_a_round_columns_get_sums_of_1)
{
    const uint64_t dim[] = { 300, 20, 9000 };
    const uint32_t rank = 5;
    struct test_coo x = test_coo_random(5, 3, dim, 20000, 5, 0);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 1, 1);
    const double weight[] = { 1, 2, 3, 4, 5 };
    double *factor[TS_MAX_ORDER], column[5];
    struct sums sums = { .column = column };
    struct ts_err err;
    void *be;
    fill_factors(&x, rank, TS_FLOAT64, factor);
    be = open_backend(&x, f, rank, TS_FLOAT64, 3, 0, factor);
    for (uint32_t m = 0; m < 3; m++) {
        double *got = malloc(dim[m] * rank * sizeof *got), want[5] = { 0 };
        run(be, f, m, 0, weight, 0, &sums);
        ck_assert_int_eq(ts_backend_cpu.get_rows(be, m, 0, dim[m], got, &err), 0);
        for (uint64_t i = 0; i < dim[m] * rank; i++)
            want[i % rank] += weight[i % rank] * (signbit(factor[m][i]) ? GROW : factor[m][i]);
        for (uint32_t r = 0; r < rank; r++)
            near(column[r], want[r], 1e-12, "column");
        for (uint64_t i = 0; i < dim[m] * rank; i++)
            near(got[i],
                 weight[i % rank] * (signbit(factor[m][i]) ? GROW : factor[m][i]) / want[i % rank],
                 1e-12, "entry");
        free(got);
    }
    ts_backend_cpu.close(be);
    memfeed_factors_free(&x, factor);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rounds");
    TCase *t = tcase_create("rounds");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, rows_are_those_of_the_obvious_loop, 0, 2 * N_SHAPES);
    tcase_add_loop_test(t, bits_do_not_depend_on_threads_delivery_or_blocks_that_are_kept, 0,
                        2 * N_SHAPES);
    tcase_add_test(t, without_a_round_columns_get_sums_of_1);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
