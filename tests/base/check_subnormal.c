/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU backend reads and writes subnormal numbers as zero, in every thread, takes no longer
 * where they would arise, and leaves the mode of its caller as it was. */
#include <check.h>
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine/fpmode.h"
#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "tests/stream/memfeed.h"
#include "tests/support/run_suite.h"

#define RANK 24u

struct work {
    struct test_coo x;
    struct ts_feed *feed;
    enum ts_precision precision;
    void *be;
    double *out;
};

/* Rows of mode 0 of many partitions, so that heads are added, and rows of a few nonzeros; in shards
 * of one partition, so that threads share them. */
static struct work work_new(enum ts_precision precision, uint32_t nnz, uint32_t threads)
{
    static const uint64_t dim[] = { 300, 2000, 1000 };
    struct work w = { .precision = precision };
    struct ts_backend_conf conf = { .rank = RANK, .precision = precision, .threads = threads };
    struct ts_err err;
    w.x = test_coo_random(11, 3, dim, nnz, 7, 2);
    w.feed = memfeed_new(&w.x, TS_VALUE_INT, 1, 1);
    conf.tensor = &w.feed->tensor;
    ck_assert_msg(ts_backend_cpu.open(&conf, &w.be, &err) == 0, "%s", err.text);
    w.out = malloc(2000 * RANK * sizeof *w.out);
    return w;
}

static void work_free(struct work *w)
{
    ts_backend_cpu.close(w->be);
    memfeed_free(w->feed);
    test_coo_free(&w->x);
    free(w->out);
}

/* Entries of all factors in (scale, 2 scale). */
static void fill(struct work *w, double scale)
{
    struct ts_err err;
    double row[RANK];
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < w->x.dim[m]; i++) {
            for (uint32_t r = 0; r < RANK; r++)
                row[r] = scale * (1 + ts_init_entry(3, m, i, r));
            ck_assert_int_eq(ts_backend_cpu.put_rows(w->be, m, i, 1, row, &err), 0);
        }
}

static void multiply(struct work *w, uint32_t mode)
{
    struct ts_err err;
    w->feed->given = w->feed->given_back = 0;
    ck_assert_int_eq(
        ts_backend_cpu.pass(&(struct ts_request){ .be = w->be }, 1, mode, w->feed, NULL, &err), 0);
}

static void solve(struct work *w, uint32_t mode, double times, double *gram)
{
    double matrix[RANK * RANK] = { 0 }, inner;
    const struct ts_row_update how = { .matrix = matrix };
    const struct ts_row_sums sums = { .gram = gram, .inner = &inner };
    struct ts_err err;
    for (uint32_t r = 0; r < RANK; r++)
        matrix[r * RANK + r] = times;
    ck_assert_int_eq(ts_backend_cpu.solve(w->be, mode, &how, &sums, &err), 0);
}

static void scale_all(struct work *w, uint32_t mode, double times)
{
    struct ts_err err;
    double s[RANK];
    for (uint32_t r = 0; r < RANK; r++)
        s[r] = times;
    ck_assert_int_eq(ts_backend_cpu.scale(w->be, mode, s, &err), 0);
}

static const double *rows(struct work *w, uint32_t mode)
{
    struct ts_err err;
    ts_backend_cpu.get_rows(w->be, mode, 0, w->x.dim[mode], w->out, &err);
    return w->out;
}

static void check_zeros(struct work *w, uint32_t mode, const char *what)
{
    const double *out = rows(w, mode);
    for (uint64_t i = 0; i < w->x.dim[mode] * RANK; i++)
        if (out[i] != 0)
            ck_abort_msg("%s, mode %u, row %lu: %g", what, mode, (unsigned long)(i / RANK), out[i]);
}

/* The square of it is subnormal in the precision, and it alone is not. */
static double small_root(enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? 1e-21 : 1e-157;
}

START_TEST(subnormal_numbers_are_zero)
{
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const double root = small_root(precision);
    struct work w = work_new(precision, 60000, 1 + (uint32_t)_i / 2);
    double gram[RANK * RANK];
#if !defined __x86_64__ && !defined __aarch64__
    work_free(&w);
    return;
#endif
    for (uint32_t m = 0; m < 3; m++) {
        fill(&w, root);
        multiply(&w, m);
        check_zeros(&w, m, "product");
        fill(&w, root);
        solve(&w, m, root, gram);
        check_zeros(&w, m, "solve");
        fill(&w, root);
        scale_all(&w, m, root);
        check_zeros(&w, m, "scale");
        fill(&w, precision == TS_FLOAT32 ? 0x1p-140 : 0x1p-1040);
        solve(&w, m, 0x1p120, gram);
        check_zeros(&w, m, "solve from subnormal numbers");
        for (uint32_t i = 0; i < RANK * RANK; i++)
            ck_assert_double_eq(gram[i], 0);
    }
    work_free(&w);
}
END_TEST

/* What is rounded how and trapped, without the flags of what has happened, which OpenMP's library
 * may clear. */
static uint64_t control(void)
{
#ifdef __x86_64__
    return ts_fpmode_get() & ~UINT64_C(0x3f);
#else
    return ts_fpmode_get();
#endif
}

/* Rounding downwards: it does not change, and no bit of the results is other for it. */
START_TEST(mode_of_the_caller_stays_and_does_not_count)
{
    struct work w = work_new(TS_FLOAT32, 60000, 1 + (uint32_t)_i);
    double *usual = malloc(2000 * RANK * sizeof *usual), gram[2][RANK * RANK];
    uint64_t mode;
    fill(&w, 0.7);
    multiply(&w, 1);
    solve(&w, 1, 0.3, gram[0]);
    scale_all(&w, 1, 1 / 3.0);
    memcpy(usual, rows(&w, 1), 2000 * RANK * sizeof *usual);
    fill(&w, 0.7);
    fesetround(FE_DOWNWARD);
    mode = control();
    multiply(&w, 1);
    ck_assert_uint_eq(control(), mode);
    solve(&w, 1, 0.3, gram[1]);
    ck_assert_uint_eq(control(), mode);
    scale_all(&w, 1, 1 / 3.0);
    ck_assert_uint_eq(control(), mode);
    fesetround(FE_TONEAREST);
#if defined __x86_64__ || defined __aarch64__
    ck_assert_mem_eq(rows(&w, 1), usual, 2000 * RANK * sizeof *usual);
    ck_assert_mem_eq(gram[1], gram[0], sizeof gram[0]);
#endif
    free(usual);
    work_free(&w);
}
END_TEST

/* The shortest of some runs in turn. Processors that compute subnormal numbers in microcode take 3
 * to 100 times as long when they do; others the same. Twice as long is far from both. */
START_TEST(subnormal_products_take_no_longer)
{
    const enum ts_precision precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const double scale[] = { 0.5, small_root(precision) };
    uint64_t product[2] = { UINT64_MAX, UINT64_MAX }, solved[2] = { UINT64_MAX, UINT64_MAX };
    struct work w = work_new(precision, 60000, 1);
    double gram[RANK * RANK];
    for (int rep = 0; rep < 20; rep++)
        for (int k = 0; k < 2; k++) {
            uint64_t begin, ns;
            fill(&w, scale[k]);
            begin = ts_clock_thread_ns();
            multiply(&w, 1);
            ns = ts_clock_thread_ns() - begin;
            product[k] = ns < product[k] ? ns : product[k];
            fill(&w, scale[k]);
            begin = ts_clock_thread_ns();
            solve(&w, 1, scale[k], gram);
            scale_all(&w, 1, scale[k]);
            ns = ts_clock_thread_ns() - begin;
            solved[k] = ns < solved[k] ? ns : solved[k];
        }
    ck_assert_msg(product[1] < 2 * product[0], "products: %lu ns, of normal numbers %lu",
                  (unsigned long)product[1], (unsigned long)product[0]);
    ck_assert_msg(solved[1] < 2 * solved[0], "solve: %lu ns, of normal numbers %lu",
                  (unsigned long)solved[1], (unsigned long)solved[0]);
    work_free(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("subnormal");
    TCase *t = tcase_create("subnormal");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, subnormal_numbers_are_zero, 0, 6);
    tcase_add_loop_test(t, mode_of_the_caller_stays_and_does_not_count, 0, 3);
    tcase_add_loop_test(t, subnormal_products_take_no_longer, 0, 2);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
