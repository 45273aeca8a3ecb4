/* SPDX-License-Identifier: BSD-3-Clause */
/* A weighted pass gives every nonzero once, with its rows, its value and the model's by the obvious
 * loop; the same bits however the work is shared; and ends when whoever takes them wants no
 * more. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "tests/stream/memfeed.h"
#include "tests/support/run_suite.h"

static const struct shape {
    uint32_t order, nnz, value_range;
    double skew;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 1, 1, 0, { 1, 1 } },
    { 3, 1, 3, 0, { 1, 1, 1 } },
    { 2, 9000, 9, 0, { 310, 400 } },
    { 3, 20000, 5, 0, { 40, 30, 50 } },    /* rows longer than a block */
    { 3, 34000, 0, 3, { 2, 4000, 3000 } }, /* rows longer than partitions */
    { 3, 34000, 4, 0, { 1, 300, 290 } },   /* one row */
    { 3, 9000, 7, 0, { 9000, 60, 9000 } }, /* rows of one nonzero */
    { 4, 9000, 1000, 3, { 51, 2, 116, 900 } },
    { 5, 16385, 3, 1, { 700, 900, 50, 24, 3 } },
    { 6, 2000, 0, 1, { 9, 8, 70, 11, 13, 17 } },
    { 7, 2000, 2, 1, { 9, 8, 7, 11, 13, 17, 2 } },
    { 8, 2000, 0, 1, { 3, 5, 7, 11, 13, 17, 19, 23 } },
    { 16, 300, 70000, 0, { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 } },
};
static const uint32_t ranks[] = { 1, 3, 5, 8, 10, 16, 17, 25, 32, 33, 50, 64, 65, 100, 129 };
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])
#define N_RANKS  (int)(sizeof ranks / sizeof ranks[0])

static double signed_entry(double u)
{
    return 2 * u - 1;
}

static void fill_factors(const struct test_coo *x, uint32_t rank, enum ts_precision precision,
                         double **factor)
{
    memfeed_factors_new(x, rank, precision, signed_entry, factor);
}

static void *open_backend(const struct ts_feed *f, uint32_t rank, enum ts_precision precision,
                          uint32_t threads, uint32_t spare, double **factor)
{
    struct ts_backend_conf conf = { .rank = rank, .precision = precision, .threads = threads };
    return memfeed_backend_new(&ts_backend_cpu, &conf, f, spare, factor);
}

/* What was taken, each nonzero at its place in the file. */
struct taken {
    uint32_t order, rows; /* that are wanted */
    double *value, *model;
    uint32_t *row[TS_MAX_ORDER];
    unsigned char *times, *ended; /* a nonzero was taken; a partition's end */
    uint64_t nnz;
    uint64_t most, calls; /* of take before it fails; 0: never */
};

static struct taken new_taken(const struct test_coo *x, uint32_t rows)
{
    struct taken t = { .order = x->order, .rows = rows, .nnz = x->nnz };
    t.value = calloc(x->nnz, sizeof *t.value);
    t.model = calloc(x->nnz, sizeof *t.model);
    t.times = calloc(x->nnz, 1);
    t.ended = calloc(x->nnz / TS_PARTITION_NNZ + 1, 1);
    for (uint32_t m = 0; m < x->order; m++)
        t.row[m] = calloc(x->nnz, sizeof *t.row[m]);
    return t;
}

static void free_taken(struct taken *t)
{
    for (uint32_t m = 0; m < t->order; m++)
        free(t->row[m]);
    free(t->value);
    free(t->model);
    free(t->times);
    free(t->ended);
}

/* Threads write to places of their own. */
static int take(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err)
{
    struct taken *t = ctx;
    const uint64_t at = c->partition * TS_PARTITION_NNZ + c->first;
    (void)thread;
    if (t->most > 0 && __atomic_fetch_add(&t->calls, 1, __ATOMIC_RELAXED) >= t->most)
        return ts_fail(err, TS_ELIMIT, "enough");
    if (c->n == 0 || c->n > TS_BLOCK_NNZ || at + c->n > t->nnz)
        return ts_fail(err, TS_EARG, "%u nonzeros at %lu", c->n, (unsigned long)at);
    for (uint32_t i = 0; i < c->n; i++) {
        t->value[at + i] = c->value[i];
        t->model[at + i] = c->model[i];
        t->times[at + i]++;
        for (uint32_t m = 0; m < t->order; m++)
            if ((t->rows >> m & 1) != 0)
                t->row[m][at + i] = c->row[m][i];
            else if (c->row[m] != NULL)
                return ts_fail(err, TS_EARG, "rows that nobody wants");
    }
    t->ended[c->partition] = (unsigned char)(t->ended[c->partition] + (c->last != 0));
    return 0;
}

static void run(void *be, struct ts_feed *f, uint32_t mode, struct taken *t)
{
    const struct ts_weighted what = { .take = take, .ctx = t, .rows = t->rows };
    struct ts_backend_times times;
    struct ts_err err;
    f->given = f->given_back = 0;
    memset(t->times, 0, t->nnz);
    memset(t->ended, 0, t->nnz / TS_PARTITION_NNZ + 1);
    ck_assert_msg(ts_backend_cpu.pass(
                      &(struct ts_request){ .be = be, .kind = TS_REQUEST_CELLS, .cells = &what }, 1,
                      mode, f, &times, &err) == 0,
                  "%s", err.text);
    ck_assert_uint_eq(f->given_back, f->tensor.mode[mode].disk.n_shards);
}

/* x as the copy of `mode` has it (tests/stream/memfeed.h). */
static void sort_as_copy(struct test_coo *x, uint32_t mode)
{
    uint8_t level[TS_MAX_ORDER];
    for (uint32_t l = 0; l < x->order; l++)
        level[l] = (uint8_t)((mode + l) % x->order);
    test_coo_sort(x, level);
}

/* Each m is a sum of `rank` terms of order factors: at most order + rank roundings of half an ulp
 * of the sum of the terms' magnitudes. */
static void compare(const struct test_coo *x, const struct taken *t, uint32_t rank, double eps,
                    double **factor)
{
    for (uint64_t n = 0; n < x->nnz; n++) {
        const double *row[TS_MAX_ORDER];
        double want = 0, size = 0;
        for (uint32_t m = 0; m < x->order; m++)
            row[m] = factor[m] + x->idx[m][n] * (uint64_t)rank;
        ck_assert_uint_eq(t->times[n], 1);
        ck_assert(t->value[n] == x->val[n]);
        for (uint32_t m = 0; m < x->order; m++)
            ck_assert((t->rows >> m & 1) == 0 || t->row[m][n] == x->idx[m][n]);
        for (uint32_t r = 0; r < rank; r++) {
            double term = 1;
            for (uint32_t m = 0; m < x->order; m++)
                term *= row[m][r];
            want += term;
            size += fabs(term);
        }
        if (fabs(t->model[n] - want) > (x->order + rank) * eps * size)
            ck_abort_msg("rank %u nonzero %lu: %.9g, expected %.9g", rank, (unsigned long)n,
                         t->model[n], want);
    }
    for (uint64_t p = 0; p <= (x->nnz - 1) / TS_PARTITION_NNZ; p++)
        ck_assert_uint_eq(t->ended[p], 1);
}

START_TEST(values_are_those_of_the_obvious_loop)
{
    const struct shape *s = &shapes[_i / 2];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const double eps = precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    const uint32_t kinds[] = { s->value_range == 1  ? TS_VALUE_CONST
                               : s->value_range > 0 ? TS_VALUE_INT
                                                    : TS_VALUE_F32,
                               s->value_range > 0 ? TS_VALUE_DICT : TS_VALUE_F64 };
    struct test_coo x = test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
    for (int k = 0; k < 2; k++) {
        struct ts_feed *f;
        if (kinds[k] == TS_VALUE_F32) /* its values are such */
            for (uint64_t n = 0; n < x.nnz; n++)
                x.val[n] = (float)x.val[n];
        f = memfeed_new(&x, kinds[k], 1 + (uint32_t)_i % 3, 1);
        for (int i = (_i + 7 * k) % 13; i < N_RANKS; i += 13) { /* all of them, over the shapes */
            double *factor[TS_MAX_ORDER];
            void *be;
            fill_factors(&x, ranks[i], precision, factor);
            be = open_backend(f, ranks[i], precision, 2, (uint32_t)i % 2 * 4, factor);
            for (uint32_t m = 0; m < x.order; m++) {
                struct taken t = new_taken(&x, i % 2 == 0 ? (1u << x.order) - 1 : 1u << m);
                sort_as_copy(&x, m);
                run(be, f, m, &t);
                run(be, f, m, &t); /* from blocks kept decoded, or decoded again */
                compare(&x, &t, ranks[i], eps, factor);
                free_taken(&t);
            }
            ts_backend_cpu.close(be);
            memfeed_factors_free(&x, factor);
        }
        memfeed_free(f);
    }
    test_coo_free(&x);
}
END_TEST

START_TEST(bits_do_not_depend_on_threads_shards_delivery_or_memory)
{
    static const uint32_t threads[] = { 1, 2, 5 }, shard[] = { 64, 1, 2 }, spare[] = { 0, 4, 2 };
    const struct shape *s = &shapes[_i / 2];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const uint32_t rank = 10 + 7 * ((uint32_t)_i % 4);
    struct test_coo x = test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
    double *factor[TS_MAX_ORDER], *first[TS_MAX_ORDER];
    fill_factors(&x, rank, precision, factor);
    for (int k = 0; k < 3; k++) {
        struct ts_feed *f = memfeed_new(&x, s->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F32,
                                        shard[k], (uint64_t)k);
        void *be = open_backend(f, rank, precision, threads[k], spare[k], factor);
        for (uint32_t m = 0; m < x.order; m++) {
            struct taken t = new_taken(&x, 0);
            for (int pass = 0; pass < (spare[k] > 0 ? 3 : 1); pass++) {
                run(be, f, m, &t);
                if (k > 0 && memcmp(first[m], t.model, x.nnz * sizeof *t.model) != 0)
                    ck_abort_msg("shape %d, mode %u, %u threads, pass %d", _i / 2, m, threads[k],
                                 pass);
            }
            if (k == 0) {
                first[m] = t.model;
                t.model = NULL;
            }
            free_taken(&t);
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

START_TEST(a_failure_of_the_taker_ends_the_pass) /* loop test: _i calls are taken */
{
    const uint64_t dim[] = { 300, 200, 100 };
    struct test_coo x = test_coo_random(5, 3, dim, 50000, 5, 0);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 2, 1);
    struct taken t = new_taken(&x, 7);
    const struct ts_weighted what = { .take = take, .ctx = &t, .rows = 7 };
    const uint64_t blocks = (x.nnz + TS_BLOCK_NNZ - 1) / TS_BLOCK_NNZ;
    struct ts_backend_times times;
    double *factor[TS_MAX_ORDER];
    struct ts_err err;
    void *be;
    fill_factors(&x, 4, TS_FLOAT64, factor);
    be = open_backend(f, 4, TS_FLOAT64, 3, 0, factor);
    t.most = _i == 0 ? 1 : _i == 1 ? blocks / 2 : blocks - 1;
    ck_assert_int_eq(ts_backend_cpu.pass(
                         &(struct ts_request){ .be = be, .kind = TS_REQUEST_CELLS, .cells = &what },
                         1, 0, f, &times, &err),
                     TS_ELIMIT);
    ck_assert_str_eq(err.text, "enough");
    ck_assert_uint_eq(f->given_back, f->given);
    ts_backend_cpu.close(be);
    memfeed_factors_free(&x, factor);
    free_taken(&t);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weighted");
    TCase *t = tcase_create("weighted");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, values_are_those_of_the_obvious_loop, 0, 2 * N_SHAPES);
    tcase_add_loop_test(t, bits_do_not_depend_on_threads_shards_delivery_or_memory, 0,
                        2 * N_SHAPES);
    tcase_add_loop_test(t, a_failure_of_the_taker_ends_the_pass, 0, 3);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
