/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU backend gives the obvious loop's sums, and the same bits however the work is shared. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "cpu/fmat.h"
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
    { 3, 50000, 5, 0, { 40, 30, 50 } },       /* rows longer than a block, long fibres */
    { 3, 60000, 5, 0, { 4000, 3000, 2000 } }, /* fibres of one nonzero */
    { 3, 60000, 0, 3, { 2, 9000, 8000 } },    /* rows longer than partitions */
    { 3, 60000, 4, 0, { 1, 300, 290 } },      /* one row */
    { 3, 9000, 7, 0, { 9000, 60, 9000 } },    /* rows of one nonzero */
    { 4, 60000, 1000, 3, { 51, 2, 116, 900 } },
    { 5, 33001, 3, 1, { 700, 900, 50, 24, 3 } },
    { 6, 5000, 0, 1, { 9, 8, 70, 11, 13, 17 } },
    { 7, 5000, 2, 1, { 9, 8, 7, 11, 13, 17, 2 } },
    { 8, 5000, 0, 1, { 3, 5, 7, 11, 13, 17, 19, 23 } },
    { 16, 1000, 70000, 0, { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 } },
};
static const uint32_t ranks[] = { 1, 3, 5, 8, 10, 16, 17, 25, 32, 33, 50, 64, 100 };
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])
#define N_RANKS  (int)(sizeof ranks / sizeof ranks[0])

static struct test_coo make(const struct shape *s)
{
    return test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
}

static void *open_backend(const struct ts_feed *f, uint32_t rank, enum ts_precision precision,
                          uint32_t threads, uint32_t spare, double **factor)
{
    struct ts_backend_conf conf = { .rank = rank, .precision = precision, .threads = threads };
    return memfeed_backend_new(&ts_backend_cpu, &conf, f, spare, factor);
}

/* The MTTKRP of a mode into out; the factor is put back. */
static void multiply(void *be, struct ts_feed *f, uint32_t mode, const double *factor, double *out)
{
    const uint64_t n_rows = f->tensor.mode[mode].disk.n_rows;
    struct ts_backend_times times;
    struct ts_err err;
    f->given = f->given_back = 0;
    ck_assert_msg(ts_backend_cpu.pass(&(struct ts_request){ .be = be }, 1, mode, f, &times, &err) ==
                      0,
                  "%s", err.text);
    ck_assert_uint_eq(f->given, f->tensor.mode[mode].disk.n_shards);
    ck_assert_uint_eq(f->given_back, f->given);
    ts_backend_cpu.get_rows(be, mode, 0, n_rows, out, &err);
    ts_backend_cpu.put_rows(be, mode, 0, n_rows, factor, &err);
}

/* In the last mode products of float32 rows may be those of float64, of which 48 bits are kept. */
static void check_wide(const struct test_coo *x, struct ts_feed *f, void *be, uint32_t rank,
                       double **factor)
{
    const uint32_t m = x->order - 1;
    const double limit = (double)(x->nnz + x->order + 1) * DBL_EPSILON + 0x1p-47;
    const uint64_t n = x->dim[m] * rank;
    double *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    test_mttkrp(x, m, rank, factor, want);
    ts_backend_cpu.sum_in(be, TS_FLOAT64);
    multiply(be, f, m, factor[m], got);
    multiply(be, f, m, factor[m], got); /* from blocks kept decoded, or decoded again */
    ts_backend_cpu.sum_in(be, TS_FLOAT32);
    for (uint64_t j = 0; j < n; j++)
        if (fabs(got[j] - want[j]) > limit * want[j])
            ck_abort_msg("wide, rank %u, row %lu: %.17g, expected %.17g", rank,
                         (unsigned long)(j / rank), got[j], want[j]);
    free(want);
    free(got);
}

/* Values and factors are positive, so a sum of n products of `order` numbers is off by at most
 * (n + order + 1) half-ulps of the precision, relatively; sums in blocks only make it less. */
static void check_rank(const struct test_coo *x, struct ts_feed *f, uint32_t rank,
                       enum ts_precision precision, uint32_t spare)
{
    const double eps = precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    double *factor[TS_MAX_ORDER];
    void *be;
    memfeed_factors_new(x, rank, precision, NULL, factor);
    be = open_backend(f, rank, precision, 2, spare, factor);
    for (uint32_t m = 0; m < x->order; m++) {
        const uint64_t n = x->dim[m] * rank;
        double *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
        test_mttkrp(x, m, rank, factor, want);
        multiply(be, f, m, factor[m], got);
        for (uint64_t j = 0; j < n; j++)
            if (fabs(got[j] - want[j]) > (double)(x->nnz + x->order + 1) * eps * want[j])
                ck_abort_msg("order %u rank %u mode %u row %lu: %.9g, expected %.9g", x->order,
                             rank, m, (unsigned long)(j / rank), got[j], want[j]);
        free(want);
        free(got);
    }
    if (precision == TS_FLOAT32)
        check_wide(x, f, be, rank, factor);
    ts_backend_cpu.close(be);
    for (uint32_t m = 0; m < x->order; m++)
        free(factor[m]);
}

START_TEST(mttkrp_equals_reference)
{
    const struct shape *s = &shapes[_i / 2];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const uint32_t kinds[] = { s->value_range == 1  ? TS_VALUE_CONST
                               : s->value_range > 0 ? TS_VALUE_INT
                                                    : TS_VALUE_F32,
                               s->value_range > 0 ? TS_VALUE_DICT : TS_VALUE_F64 };
    struct test_coo x = make(s);
    for (int k = 0; k < 2; k++) {
        struct ts_feed *f = memfeed_new(&x, kinds[k], 1 + (uint32_t)_i % 3, 1);
        for (int i = 0; i < N_RANKS; i++) {
            const uint32_t rank = ranks[i];
            if ((i + _i / 2 + k) % 3 != 0) /* a third of the ranks for each shape and kind */
                continue;
            check_rank(&x, f, rank, precision, (uint32_t)i % 2 * 4);
        }
        memfeed_free(f);
    }
    test_coo_free(&x);
}
END_TEST

/* Up to the highest one: the tensors are small, so that the slow product of so many columns is. */
START_TEST(high_ranks_equal_the_reference)
{
    static const struct shape tensor[] = { { 3, 2000, 9, 0, { 30, 20, 25 } },
                                           { 5, 1500, 0, 1, { 9, 8, 7, 6, 5 } } };
    struct test_coo x = make(&tensor[_i / 2]);
    struct ts_feed *f = memfeed_new(&x, _i / 2 == 0 ? TS_VALUE_INT : TS_VALUE_F32, 1, 1);
    check_rank(&x, f, 1500, _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64, 0);
    check_rank(&x, f, TS_FMAT_MAX_RANK, _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64, 4);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* Nor on memory: quarters of what would be needed to keep all blocks decoded; the second pass
 * decodes them for that, and the third computes on what was kept. */
START_TEST(bits_do_not_depend_on_threads_shards_delivery_or_memory)
{
    static const uint32_t threads[] = { 1, 2, 3, 7, 2 }, shard[] = { 64, 1, 2, 1, 3 };
    static const uint32_t spare[] = { 0, 4, 1, 3, 0 };
    const struct shape *s = &shapes[_i / 2];
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const uint32_t rank = 10 + 7 * ((uint32_t)_i % 4);
    struct test_coo x = make(s);
    double *factor[TS_MAX_ORDER], *first[TS_MAX_ORDER];
    memfeed_factors_new(&x, rank, precision, NULL, factor);
    for (int k = 0; k < 5; k++) {
        struct ts_feed *f = memfeed_new(&x, s->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F32,
                                        shard[k], (uint64_t)k);
        void *be = open_backend(f, rank, precision, threads[k], spare[k], factor);
        for (uint32_t m = 0; m < x.order; m++) {
            const uint64_t bytes = x.dim[m] * rank * sizeof(double);
            double *got = malloc(bytes);
            for (int pass = 0; pass < (spare[k] > 0 ? 3 : 1); pass++) {
                multiply(be, f, m, factor[m], got);
                if (k > 0 && memcmp(first[m], got, bytes) != 0)
                    ck_abort_msg("shape %d, mode %u, %u threads, pass %d", _i / 2, m, threads[k],
                                 pass);
            }
            if (k == 0)
                first[m] = got;
            else
                free(got);
        }
        ts_backend_cpu.close(be);
        memfeed_free(f);
    }
    for (uint32_t m = 0; m < x.order; m++) {
        free(first[m]);
        free(factor[m]);
    }
    test_coo_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu_mttkrp");
    TCase *t = tcase_create("cpu_mttkrp");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, mttkrp_equals_reference, 0, 2 * N_SHAPES);
    tcase_add_loop_test(t, high_ranks_equal_the_reference, 0, 4);
    tcase_add_loop_test(t, bits_do_not_depend_on_threads_shards_delivery_or_memory, 0,
                        2 * N_SHAPES);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
