/* SPDX-License-Identifier: BSD-3-Clause */
/* Nonzeros that a program pushes make the same bytes as a text of them, and a walk gives them
 * back. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "build/build.h"
#include "source/push_source.h"
#include "format/walk.h"
#include "tests/support/run_suite.h"
#include "tests/support/support.h"
#include "tests/format/tsh_writer.h"

#define N 60000u

static char *tmp, text[4200], from_text[4200], pushed[4200];
static uint64_t index_of[N * 3];
static double value_of[N];

static void setup(void)
{
    FILE *f;
    tmp = test_tsh_tmp();
    snprintf(text, sizeof text, "%s/x.tns", tmp);
    snprintf(from_text, sizeof from_text, "%s/text.tsh", tmp);
    snprintf(pushed, sizeof pushed, "%s/push.tsh", tmp);
    f = fopen(text, "w");
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t key = ts_mix(i);
        index_of[3 * i] = 2 * (key % 500); /* every other slice is empty, cells come twice */
        index_of[3 * i + 1] = key / 1000 % 40;
        index_of[3 * i + 2] = key / 1000000 % 30;
        value_of[i] = (double)(key >> 40 & 15) / 4; /* some are zero */
        fprintf(f, "%llu %llu %llu %g\n", (unsigned long long)index_of[3 * i] + 1,
                (unsigned long long)index_of[3 * i + 1] + 1,
                (unsigned long long)index_of[3 * i + 2] + 1, value_of[i]);
    }
    fclose(f);
}

static void teardown(void)
{
    test_tsh_remove(from_text);
    test_tsh_remove(pushed);
    remove(text);
    test_tsh_remove(tmp);
    free(tmp);
}

static struct ts_build_options options(const char *out, uint64_t area_words)
{
    return (struct ts_build_options){ .out = out,
                                      .memory = UINT64_C(64) << 20,
                                      .threads = 2,
                                      .shard_bytes = TS_BUILD_MIN_SHARD,
                                      .value_bytes = 4,
                                      .base = 1,
                                      .area_words = area_words };
}

struct push {
    struct ts_build_options o;
    struct ts_push_source *source;
    struct ts_build_report report;
    struct ts_err err;
    pthread_t thread;
    int rc;
};

static void *build(void *arg)
{
    struct push *p = arg;
    const struct ts_source source = ts_push_source_as_source(p->source);
    p->rc = ts_build_source(&p->o, ts_push_source_order(p->source), &source, &p->report, &p->err);
    return NULL;
}

static void push_start(struct push *p, struct ts_build_options o)
{
    memset(p, 0, sizeof *p);
    p->o = o;
    ck_assert_int_eq(
        ts_push_source_new(3, o.value_bytes, o.zeros, 0, o.n_dims, o.dim, &p->source, &p->err), 0);
    ck_assert_int_eq(pthread_create(&p->thread, NULL, build, p), 0);
}

static int push_end(struct push *p)
{
    ts_push_source_end(p->source);
    pthread_join(p->thread, NULL);
    ts_push_source_free(p->source);
    return p->rc;
}

/* Adds every second piece of 777, from `first` on. */
struct adder {
    struct push *p;
    uint64_t first;
    pthread_t thread;
};

static void *add_half(void *arg)
{
    const struct adder *a = arg;
    struct ts_err err;
    for (uint64_t i = a->first * 777; i < N; i += 2 * 777) {
        const uint64_t n = N - i < 777 ? N - i : 777;
        if (ts_push_source_add(a->p->source, n, index_of + 3 * i, value_of + i, NULL, &err) < 0)
            break;
    }
    return NULL;
}

START_TEST(pushed_nonzeros_make_the_bytes_of_a_text)
{
    const uint64_t area_words = _i == 0 ? 0 : 20000; /* in memory, and through runs on disk */
    const char *const paths[] = { text };
    struct ts_build_options o = options(from_text, 0);
    struct ts_build_report report;
    struct adder a[2];
    struct push p;
    struct ts_err err = { 0 };
    char command[9000];
    ck_assert_msg(ts_build_paths(&o, paths, 1, &report, &err) == 0, "%s", err.text);
    push_start(&p, options(pushed, area_words));
    for (int i = 0; i < 2; i++) {
        a[i] = (struct adder){ .p = &p, .first = (uint64_t)i };
        ck_assert_int_eq(pthread_create(&a[i].thread, NULL, add_half, &a[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(a[i].thread, NULL);
    ck_assert_msg(push_end(&p) == 0, "%s", p.err.text);
    ck_assert(_i == 0 ? p.report.n_runs == 0 : p.report.n_runs > 1);
    ck_assert_uint_eq(p.report.input_nnz, N);
    ck_assert_uint_eq(p.report.nnz, report.nnz);
    snprintf(command, sizeof command, "diff -r -x options %s %s", from_text, pushed);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* What float32 holds as 0 or a subnormal number is 0, dropped or kept, and counted. */
START_TEST(values_next_to_zero_are_rounded)
{
    static const uint64_t index[] = { 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1 };
    static const double value[] = { 1e-46, -3e-39, 0, 1.2e-38, 5 };
    struct ts_build_options o = options(pushed, 0);
    struct ts_err err;
    struct push p;
    o.zeros = _i;
    o.force = 1;
    push_start(&p, o);
    ck_assert_int_eq(ts_push_source_add(p.source, 5, index, value, NULL, &err), 0);
    ck_assert_msg(push_end(&p) == 0, "%s", p.err.text);
    ck_assert_uint_eq(p.report.n_rounded, 2);
    ck_assert_uint_eq(p.report.nnz, _i == 0 ? 2 : 5);
    ck_assert_uint_eq(p.report.n_zeros, _i == 0 ? 3 : 0);
    ck_assert_ptr_nonnull(strstr(p.report.rounded.text, "2 values nearer to 0 than float32 holds"));
}
END_TEST

struct sums {
    uint64_t nnz[4], before[3];
    double value[4];
    int ordered;
};

static int take(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index, const double *value,
                struct ts_err *err)
{
    struct sums *s = ctx;
    (void)err;
    for (uint64_t i = 0; i < n; i++) {
        s->nnz[thread]++;
        s->value[thread] +=
            value[i] * (double)(1 + index[3 * i] + 7 * index[3 * i + 1] + 301 * index[3 * i + 2]);
        s->ordered &= s->before[1] <= index[3 * i + 1]; /* of mode 1, which is walked */
        s->before[1] = index[3 * i + 1];
    }
    return 0;
}

START_TEST(a_walk_gives_every_nonzero)
{
    struct sums one = { .ordered = 1 }, four = { .nnz = { 0 } };
    double all = 0, found = 0;
    uint64_t nnz = 0;
    struct ts_tensor *t = NULL;
    struct ts_walk w = { 0 };
    struct push p;
    struct ts_err err = { 0 };
    push_start(&p, options(pushed, 0));
    ck_assert_int_eq(ts_push_source_add(p.source, N, index_of, value_of, NULL, &err), 0);
    ck_assert_int_eq(push_end(&p), 0);
    for (uint64_t i = 0; i < N; i++)
        all += value_of[i] *
               (double)(1 + index_of[3 * i] + 7 * index_of[3 * i + 1] + 301 * index_of[3 * i + 2]);
    ck_assert_int_eq(ts_tensor_open(pushed, &t, &err), 0);
    ck_assert_int_eq(ts_walk_open(t, 3, &w, &err), TS_EARG);
    ck_assert_int_eq(ts_walk_open(t, 1, &w, &err), 0);
    ck_assert_int_eq(ts_walk_all(&w, 1, take, &one, NULL, &err), 0);
    ck_assert_int_eq(ts_walk_all(&w, 4, take, &four, NULL, &err), 0);
    for (int i = 0; i < 4; i++) {
        nnz += four.nnz[i];
        found += four.value[i];
    }
    ck_assert_uint_eq(one.nnz[0], t->nnz);
    ck_assert_uint_eq(nnz, t->nnz);
    ck_assert(one.ordered);
    ck_assert(one.value[0] == all && found == all); /* quarters: no rounding */
    ts_walk_close(&w);
    ts_tensor_close(t);
}
END_TEST

START_TEST(a_walk_ends_at_a_failure)
{
    const volatile sig_atomic_t stop = 1;
    struct sums s = { .ordered = 1 };
    struct ts_tensor *t = NULL;
    struct ts_walk w = { 0 };
    struct push p;
    struct ts_err err = { 0 };
    push_start(&p, options(pushed, 0));
    ck_assert_int_eq(ts_push_source_add(p.source, N, index_of, value_of, NULL, &err), 0);
    ck_assert_int_eq(push_end(&p), 0);
    ck_assert_int_eq(ts_tensor_open(pushed, &t, &err), 0);
    ck_assert_int_eq(ts_walk_open(t, 0, &w, &err), 0);
    ck_assert_int_eq(ts_walk_all(&w, 2, take, &s, &stop, &err), TS_ESTOP);
    ck_assert_uint_eq(s.nnz[0] + s.nnz[1], 0);
    ts_walk_close(&w);
    ts_tensor_close(t);
}
END_TEST

START_TEST(what_is_no_nonzero_is_refused)
{
    static const struct {
        uint64_t index[3];
        double value;
        const char *says;
    } bad[] = { { { 0, 40, 0 }, 1, "index 40 of mode 2 is beyond its size of 40" },
                { { 0, 0, 0 }, NAN, "value nan is not finite" },
                { { 0, 0, 0 }, 1e300, "is beyond the range of float32" } };
    struct ts_build_options o = options(pushed, 0);
    struct push p;
    struct ts_err err = { 0 };
    o.n_dims = 3;
    o.dim[0] = 1000;
    o.dim[1] = 40;
    o.dim[2] = 30;
    push_start(&p, o);
    ck_assert_int_eq(ts_push_source_add(p.source, 100, index_of, value_of, NULL, &err), 0);
    ck_assert_int_eq(ts_push_source_add(p.source, 1, bad[_i].index, &bad[_i].value, NULL, &err),
                     TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, bad[_i].says));
    ck_assert_ptr_nonnull(strstr(err.text, "nonzero 100"));
    ck_assert_int_eq(ts_push_source_add(p.source, 1, index_of, value_of, NULL, &err), TS_EARG);
    ck_assert_int_eq(push_end(&p), TS_EARG);
    ck_assert_ptr_nonnull(strstr(p.err.text, bad[_i].says));
    ck_assert(access(pushed, F_OK) != 0);
}
END_TEST

START_TEST(a_build_can_be_stopped)
{
    static volatile sig_atomic_t stop;
    struct ts_build_options o = options(pushed, 0);
    struct push p;
    struct ts_err err = { 0 };
    o.stop = &stop;
    stop = 0;
    push_start(&p, o);
    ck_assert_int_eq(ts_push_source_add(p.source, N, index_of, value_of, NULL, &err), 0);
    stop = 1;
    ck_assert_int_eq(push_end(&p), TS_ESTOP);
    ck_assert(access(pushed, F_OK) != 0);
    stop = 0;
    push_start(&p, o); /* and one without nonzeros has nothing to build */
    ck_assert_int_eq(push_end(&p), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(p.err.text, "no nonzeros"));
}
END_TEST

START_TEST(a_build_without_memory_takes_nothing)
{
    struct ts_build_options o = options(pushed, 0);
    struct push p;
    struct ts_err err = { 0 };
    o.memory = UINT64_C(1) << 62;
    push_start(&p, o);
    ck_assert_int_eq(ts_push_source_add(p.source, 100, index_of, value_of, NULL, &err), TS_EARG);
    ck_assert_int_eq(push_end(&p), TS_ENOMEM);
    ck_assert_ptr_nonnull(strstr(p.err.text, "no memory for"));
    ck_assert(access(pushed, F_OK) != 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("push");
    TCase *c = tcase_create("push");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, values_next_to_zero_are_rounded, 0, 2);
    tcase_add_loop_test(c, pushed_nonzeros_make_the_bytes_of_a_text, 0, 2);
    tcase_add_test(c, a_walk_gives_every_nonzero);
    tcase_add_test(c, a_walk_ends_at_a_failure);
    tcase_add_loop_test(c, what_is_no_nonzero_is_refused, 0, 3);
    tcase_add_test(c, a_build_can_be_stopped);
    tcase_add_test(c, a_build_without_memory_takes_nothing);
    suite_add_tcase(suite, c);
    return test_run_suite(suite, CK_NOFORK);
}
