/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of copies as they are told from what else is known, and sums over spans. Needs no GPU. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/team/gpu_log.h"
#include "tests/support/run_suite.h"

static struct ts_gpu_log log_;

static void set(enum ts_gpu_work work, size_t n, const struct ts_gpu_span *span)
{
    struct ts_gpu_spans *s = &log_.spans[work];
    s->at = realloc(s->at, n * sizeof *span);
    memcpy(s->at, span, n * sizeof *span);
    s->n = s->room = n;
}

static void forget(void)
{
    for (int i = 0; i < TS_GPU_WORKS; i++)
        free(log_.spans[i].at);
    memset(&log_, 0, sizeof log_);
}

static void expect(size_t i, uint64_t shard, uint64_t start_ns, uint64_t end_ns)
{
    const struct ts_gpu_span *s = &log_.spans[TS_GPU_COPY].at[i];
    ck_assert_uint_eq(s->shard, shard);
    ck_assert_uint_eq(s->start_ns, start_ns);
    ck_assert_uint_eq(s->end_ns, end_ns);
}

START_TEST(copies_run_one_after_another)
{
    const struct ts_gpu_span copy[] = {
        { .shard = 2, .start_ns = 120, .end_ns = 300 }, /* given while the one before runs */
        { .shard = 1, .start_ns = 100, .end_ns = 200 },
        { .shard = 3, .start_ns = 130, .end_ns = 900 }, /* its kernel had to wait */
        { .shard = 4, .start_ns = 400, .end_ns = 500 },
        { .shard = 5, .start_ns = 410, .free_ns = 650, .end_ns = 700 }, /* as its place had to */
        { .shard = 6, .start_ns = 1000, .end_ns = 1100 },               /* after a pause */
        { .shard = 7, .start_ns = 1203, .end_ns = 1201 },               /* the clocks differ */
    };
    set(TS_GPU_COPY, 7, copy);
    ts_gpu_spans_line_up(&log_.spans[TS_GPU_COPY]);
    expect(0, 1, 100, 200);
    expect(1, 2, 200, 300);
    expect(2, 3, 300, 500);
    expect(3, 4, 500, 500);
    expect(4, 5, 650, 700);
    expect(5, 6, 1000, 1100);
    expect(6, 7, 1201, 1201);
    ck_assert_uint_eq(ts_gpu_log_busy(&log_, 1u << TS_GPU_COPY), 550);
    forget();
}
END_TEST

START_TEST(copies_before_the_pass_are_cut_off)
{
    const struct ts_gpu_span copy[] = {
        { .shard = 1, .start_ns = 100, .end_ns = 200 },
        { .shard = 2, .start_ns = 200, .end_ns = 300 },
        { .shard = 3, .start_ns = 300, .end_ns = 400 },
    };
    set(TS_GPU_COPY, 3, copy);
    ts_gpu_log_clip(&log_, 50);
    expect(0, 1, 100, 200);
    ts_gpu_log_clip(&log_, 260);
    expect(0, 1, 260, 260);
    expect(1, 2, 260, 300);
    expect(2, 3, 300, 400);
    ck_assert_uint_eq(ts_gpu_log_busy(&log_, 1u << TS_GPU_COPY), 140);
    forget();
}
END_TEST

START_TEST(no_copies)
{
    ts_gpu_spans_line_up(&log_.spans[TS_GPU_COPY]);
    ck_assert_uint_eq(ts_gpu_log_busy(&log_, (1u << TS_GPU_WORKS) - 1), 0);
}
END_TEST

START_TEST(work_side_by_side_counts_once)
{
    const struct ts_gpu_span kernel[] = { { .start_ns = 0, .end_ns = 100 },
                                          { .start_ns = 50, .end_ns = 80 },
                                          { .start_ns = 90, .end_ns = 150 },
                                          { .start_ns = 400, .end_ns = 450 } };
    const struct ts_gpu_span exchange[] = { { .start_ns = 140, .end_ns = 200 },
                                            { .start_ns = 410, .end_ns = 500 } };
    const unsigned both = 1u << TS_GPU_KERNEL | 1u << TS_GPU_EXCHANGE;
    set(TS_GPU_KERNEL, 4, kernel);
    set(TS_GPU_EXCHANGE, 2, exchange);
    ck_assert_uint_eq(ts_gpu_log_busy(&log_, 1u << TS_GPU_KERNEL), 200);
    ck_assert_uint_eq(ts_gpu_log_busy(&log_, both), 300);
    ck_assert_uint_eq(ts_gpu_log_alone(&log_, TS_GPU_EXCHANGE, 1u << TS_GPU_KERNEL), 100);
    forget();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_log");
    TCase *tc = tcase_create("spans");
    tcase_add_test(tc, copies_run_one_after_another);
    tcase_add_test(tc, copies_before_the_pass_are_cut_off);
    tcase_add_test(tc, no_copies);
    tcase_add_test(tc, work_side_by_side_counts_once);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_FORK);
}
