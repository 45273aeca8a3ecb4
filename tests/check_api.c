/* SPDX-License-Identifier: BSD-3-Clause */
/* What include/tstream.h promises beside what examples/embed.c shows: failures, old and new programs, stops,
 * several sessions at once, and a locale with a comma. */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tstream.h>

#include "api/api_session.h"
#include "base/rng.h"
#include "tests/run_suite.h"
#include "tests/tsh_writer.h"

#define N 20000u

static char *tmp, tensor[4200], other[4200], files[4200];
static uint64_t index_of[N * 3];
static double value_of[N];
static ts_error err;

static ts_build_conf build_conf(const char *out)
{
    ts_build_conf c = { .size = sizeof c,
                        .out = out,
                        .memory = UINT64_C(64) << 20,
                        .shard_bytes = 65536,
                        .threads = 2,
                        .order = 3 };
    return c;
}

static void build(const char *out)
{
    const ts_build_conf c = build_conf(out);
    ts_build_result r = { .size = sizeof r };
    ts_builder *b = ts_builder_new(&c, &err);
    ck_assert_msg(b != NULL, "%s", err.text);
    ck_assert_msg(ts_builder_add(b, N, index_of, value_of, &err) == 0, "%s", err.text);
    ck_assert_msg(ts_builder_finish(b, &r, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(r.read, N);
    ts_builder_free(b);
}

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(tensor, sizeof tensor, "%s/x.tsh", tmp);
    snprintf(other, sizeof other, "%s/y.tsh", tmp);
    snprintf(files, sizeof files, "%s/x.cp", tmp);
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t key = ts_mix(i);
        index_of[3 * i] = 3 * (key % 200); /* two of three slices are empty */
        index_of[3 * i + 1] = key / 1000 % 50;
        index_of[3 * i + 2] = key / 1000000 % 20;
        value_of[i] = 0.125 * (double)(1 + (key >> 40 & 63)) + 0.1;
    }
    build(tensor);
}

static void teardown(void)
{
    test_tsh_remove(tensor);
    test_tsh_remove(other);
    test_tsh_remove(files);
    test_tsh_remove(tmp);
    free(tmp);
}

static ts_tensor *open_tensor(void)
{
    ts_tensor *t = ts_open(tensor, &err);
    ck_assert_msg(t != NULL, "%s", err.text);
    return t;
}

static ts_session *open_session(const ts_tensor *t, uint32_t threads, volatile int *stop)
{
    const ts_session_conf c = {
        .size = sizeof c, .rank = 4, .threads = threads, .cpu = 1, .stop = stop
    };
    ts_session *s = ts_session_open(t, &c, &err);
    ck_assert_msg(s != NULL, "%s", err.text);
    return s;
}

static int equal(const ts_cpd *a, const ts_cpd *b)
{
    int same = ts_cpd_rank(a) == ts_cpd_rank(b) &&
               memcmp(ts_cpd_weights(a), ts_cpd_weights(b), ts_cpd_rank(a) * sizeof(double)) == 0;
    for (uint32_t m = 0; m < 3 && same; m++)
        same = ts_cpd_held(a, m) == ts_cpd_held(b, m) &&
               memcmp(ts_cpd_factor(a, m), ts_cpd_factor(b, m),
                      ts_cpd_held(a, m) * ts_cpd_rank(a) * sizeof(float)) == 0;
    return same;
}

static int near(double a, double b, double most)
{
    return fabs(a - b) <= most * (1 + fabs(b));
}

/* With replace, too: by any name of the tensor, and in it. */
START_TEST(no_output_is_the_tensor)
{
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 1, NULL);
    ts_session_conf traced = { .size = sizeof traced, .rank = 2, .cpu = 1, .replace = 1 };
    ts_build_conf build = build_conf(other);
    char path[3][9000];
    snprintf(path[0], sizeof path[0], "%s", tensor);
    snprintf(path[1], sizeof path[1], "%s/../%s", tensor, strrchr(tensor, '/') + 1);
    snprintf(path[2], sizeof path[2], "%s/new", tensor);
    for (int i = 0; i < 3; i++) {
        const ts_cp_conf c = { .size = sizeof c, .sweeps = 1, .out = path[i], .replace = 1 };
        const uint32_t ranks[2] = { 2, 3 };
        const ts_several_conf several = {
            .size = sizeof several, .run = &c, .rank = ranks, .n_ranks = 2
        };
        const ts_select_conf all = { .size = sizeof all };
        ts_cpd *two[2];
        ck_assert_ptr_null(ts_cp(s, &c, NULL, &err));
        ck_assert_ptr_nonnull(strstr(err.text, "name another place with out"));
        ck_assert_int_lt(ts_cp_several(t, NULL, &several, two, NULL, &err), 0);
        ck_assert_ptr_nonnull(strstr(err.text, "name another place with out"));
        build.out = path[i];
        build.replace = 1;
        ck_assert_int_lt(ts_build_copy(&build, t, NULL, &err), 0);
        ck_assert_int_lt(ts_build_select(&build, t, &all, NULL, &err), 0);
        ck_assert_ptr_nonnull(strstr(err.text, "name another place with out"));
        traced.trace = path[i];
        ck_assert_ptr_null(ts_session_open(t, &traced, &err));
        ck_assert_ptr_nonnull(strstr(err.text, "name another place with trace"));
    }
    ts_session_close(s);
    ts_close(t);
    ts_close(open_tensor()); /* it is whole */
}
END_TEST

START_TEST(failures_are_codes_and_sentences)
{
    const double weight[1] = { 1 }, bad[4] = { 1, NAN, 1, 1 };
    const double *const factor[2] = { bad, bad };
    const uint64_t dim[2] = { 4, 4 };
    ts_build_conf c = build_conf(other);
    ts_tensor *t = open_tensor();
    uint64_t n;
    char *label[1];
    ck_assert_ptr_null(ts_open(other, &err));
    ck_assert_int_eq(err.code, TS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, other));
    ck_assert_ptr_null(ts_open(other, NULL));
    ck_assert_ptr_null(ts_session_open(t, NULL, &err)); /* a rank of 0 */
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ck_assert_ptr_null(ts_cpd_new(2, dim, 1, TS_REAL_FLOAT64, weight, factor, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "mode 1, row 1, column 0"));
    ck_assert_ptr_null(ts_cursor_open(t, 3, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ck_assert_int_eq(ts_labels(t, 7, 1, dim, label, &err), TS_ERR_ARGUMENT);
    ck_assert_uint_eq(ts_dim(t, 3), 0);
    c.out = tensor; /* which is there */
    ck_assert_int_eq(ts_build_copy(&c, t, NULL, &err), TS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(err.text, "exists"));
    c.out = other;
    c.order = 1;
    ck_assert_ptr_null(ts_builder_new(&c, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    n = 1;
    c.order = 3;
    c.memory = 1;
    ck_assert_ptr_null(ts_builder_new(&c, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    (void)n;
    ts_close(t);
    ts_close(NULL);
    ts_session_close(NULL);
    ts_builder_free(NULL);
    ts_cursor_close(NULL);
    ts_cpd_free(NULL);
}
END_TEST

/* A program of an older header has shorter structs, one of a newer longer ones. */
START_TEST(structs_may_grow)
{
    struct {
        ts_cp_conf conf;
        uint64_t later;
    } newer = { .conf = { .sweeps = 2, .seed = 1 } };
    struct {
        size_t size;
        double fit, beyond;
    } older = { .size = offsetof(ts_cp_result, sweeps), .beyond = 7 };
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 2, NULL);
    ts_cpd *c;
    newer.conf.size = sizeof newer;
    c = ts_cp(s, &newer.conf, (ts_cp_result *)(void *)&older, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert(older.fit > 0 && older.beyond == 7);
    ts_cpd_free(c);
    newer.later = 1; /* what this library knows nothing of */
    ck_assert_ptr_null(ts_cp(s, &newer.conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "newer"));
    newer.conf.size = 0;
    ck_assert_ptr_null(ts_cp(s, &newer.conf, NULL, &err));
    newer.later = 0;
    newer.conf.size = offsetof(ts_cp_conf, seed); /* without seed: 0 */
    c = ts_cp(s, &newer.conf, NULL,
              &err); /* and the session goes on after a request that made no sense */
    ck_assert_msg(c != NULL, "%s", err.text);
    ts_cpd_free(c);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

struct runner {
    const ts_tensor *t;
    uint32_t threads;
    ts_cpd *cpd;
    pthread_t thread;
};

static void *run(void *arg)
{
    struct runner *r = arg;
    const ts_cp_conf conf = { .size = sizeof conf, .sweeps = 4, .seed = 3 };
    const ts_session_conf sc = { .size = sizeof sc, .rank = 4, .threads = r->threads, .cpu = 1 };
    ts_session *s = ts_session_open(r->t, &sc, NULL);
    r->cpd = s == NULL ? NULL : ts_cp(s, &conf, NULL, NULL);
    ts_session_close(s);
    return NULL;
}

START_TEST(sessions_side_by_side)
{
    struct runner r[3];
    ts_tensor *t = open_tensor();
    for (uint32_t i = 0; i < 3; i++) {
        r[i] = (struct runner){ .t = t, .threads = i + 1 };
        ck_assert_int_eq(pthread_create(&r[i].thread, NULL, run, &r[i]), 0);
    }
    for (uint32_t i = 0; i < 3; i++)
        pthread_join(r[i].thread, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(r[i].cpd);
        ck_assert(equal(r[0].cpd, r[i].cpd));
    }
    for (uint32_t i = 0; i < 3; i++)
        ts_cpd_free(r[i].cpd);
    ts_close(t);
}
END_TEST

START_TEST(a_session_serves_many_runs)
{
    const ts_cp_conf four = { .size = sizeof four, .sweeps = 4, .seed = 3 };
    const ts_cp_conf two = { .size = sizeof two, .sweeps = 2, .seed = 9 };
    ts_cp_conf on = two;
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 2, NULL);
    ts_session_info info = { .size = sizeof info };
    ts_cp_result first = { .size = sizeof first }, second = { .size = sizeof second };
    ts_cpd *a = ts_cp(s, &four, &first, &err), *b = ts_cp(s, &two, NULL, &err), *c, *d;
    ts_session_describe(s, &info);
    ck_assert(info.threads == 2 && info.n_gpus == 0 && info.host_bytes > 0);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert(!equal(a, b));
    c = ts_cp(s, &four, &second, &err);
    ck_assert_ptr_nonnull(c);
    ck_assert(equal(a, c) && first.fit == second.fit);
    on.start = b; /* goes on from there: no worse */
    d = ts_cp(s, &on, &second, &err);
    ck_assert_msg(d != NULL, "%s", err.text);
    ck_assert(second.fit > first.fit - 0.1);
    on.start = NULL;
    ts_cpd_free(a);
    ts_cpd_free(b);
    ts_cpd_free(c);
    ts_cpd_free(d);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

static int stop_at_two(void *ctx, const ts_sweep *s)
{
    *(uint32_t *)ctx = s->sweep;
    return s->sweep == 2;
}

START_TEST(a_callback_stops_a_run)
{
    uint32_t sweep = 0;
    const ts_cp_conf conf = {
        .size = sizeof conf, .sweeps = 40, .seed = 3, .sweep = stop_at_two, .ctx = &sweep
    };
    ts_tensor *t = open_tensor();
    volatile int stop = 0;
    ts_session *s = open_session(t, 2, _i == 0 ? NULL : &stop);
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_STOPPED);
    ck_assert_uint_eq(sweep, 2);
    ck_assert(_i == 0 || stop != 0);
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err)); /* it is over */
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

START_TEST(a_flag_stops_everything)
{
    volatile int stop = 1;
    ts_build_conf c = build_conf(other);
    ts_tensor *t = open_tensor();
    const ts_session_conf sc = { .size = sizeof sc, .rank = 2, .cpu = 1, .stop = &stop };
    const ts_cp_conf conf = { .size = sizeof conf, .sweeps = 3 };
    ts_session *s = ts_session_open(t, &sc, &err);
    ck_assert(s == NULL || ts_cp(s, &conf, NULL, &err) == NULL);
    ck_assert_int_eq(err.code, TS_ERR_STOPPED);
    c.stop = &stop;
    ck_assert_int_eq(ts_build_copy(&c, t, NULL, &err), TS_ERR_STOPPED);
    ck_assert(access(other, F_OK) != 0);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

START_TEST(a_builder_that_is_given_up_leaves_nothing)
{
    const ts_build_conf c = build_conf(other);
    ts_builder *b = ts_builder_new(&c, &err);
    ck_assert_ptr_nonnull(b);
    if (_i > 0)
        ck_assert_int_eq(ts_builder_add(b, N, index_of, value_of, &err), 0);
    ts_builder_free(b);
    ck_assert(access(other, F_OK) != 0);
}
END_TEST

/* Values of cells, of indices without a row too; an index beyond is refused. */
static void check_cells(const ts_cpd *c)
{
    const uint64_t cell[] = { 3, 49, 0, 597, 0, 19, 4, 4, 4 }, beyond[] = { 0, 0, 0, 3, 50, 0 };
    const double *weight = ts_cpd_weights(c);
    double got[3], row[3][4];
    ck_assert_int_eq(ts_cpd_predict(c, 3, cell, got, &err), 0);
    for (uint32_t i = 0; i < 3; i++) {
        double want = 0, size = 0;
        for (uint32_t m = 0; m < 3; m++)
            ck_assert_int_eq(ts_cpd_rows(c, m, cell[3 * i + m], 1, row[m], &err), 0);
        for (uint32_t r = 0; r < 4; r++) {
            want += weight[r] * row[0][r] * row[1][r] * row[2][r];
            size += fabs(weight[r] * row[0][r] * row[1][r] * row[2][r]);
        }
        ck_assert(fabs(got[i] - want) <= 1e-14 * size);
    }
    ck_assert(got[2] == 0); /* index 4 of mode 0 is an empty slice */
    ck_assert_int_eq(ts_cpd_predict(c, 2, beyond, got, &err), TS_ERR_ARGUMENT);
    ck_assert_str_eq(err.text, "cell 1: index 50 of mode 2: there are 50");
}

static uint64_t nnz_of(const char *path)
{
    ts_tensor *t = ts_open(path, &err);
    uint64_t n;
    ck_assert_ptr_nonnull(t);
    n = ts_nnz(t);
    ts_close(t);
    return n;
}

/* Of each of three cells two nonzeros, the second of twice the value: with weights, their mean by them. */
START_TEST(cells_have_weights)
{
    static const uint64_t index[18] = { 0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0, 1, 1, 1, 2, 2, 2 };
    static const double value[6] = { 1, 2, 3, 2, 4, 6 }, weight[6] = { 1, 3, 0, 1, 1, 0 };
    static const double negative[6] = { 1, 3, 0, 1, -1, 0 };
    const double *const factor[3] = { value, value, value }, one[1] = { 1 };
    const uint64_t dim[3] = { 3, 3, 3 };
    ts_build_conf c = build_conf(other);
    ts_cpd_score_result r = { .size = sizeof r };
    ts_builder *b;
    ts_cpd *model = ts_cpd_new(3, dim, 1, TS_REAL_FLOAT64, one, factor, &err);
    ts_tensor *t;
    c.weights = 1;
    c.dim = dim;
    ck_assert_int_eq(ts_build_files(&c, 1, (const char *const[]){ tensor }, NULL, &err),
                     TS_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "tshard build --weights"));
    b = ts_builder_new(&c, &err);
    ck_assert_int_eq(ts_builder_add_weighted(b, 6, index, value, negative, &err), TS_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "nonzero 4: weight -1"));
    ts_builder_free(b);
    b = ts_builder_new(&c, &err);
    ck_assert_int_eq(ts_builder_add_weighted(b, 6, index, value, weight, &err), 0);
    ck_assert_int_eq(ts_builder_finish(b, NULL, &err), 0);
    ts_builder_free(b);
    t = ts_open(other, &err);
    ck_assert_msg(ts_cpd_score(model, t, NULL, NULL, &r, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(r.nnz, 3);
    ck_assert(r.weight == 6);
    /* (1 + 2) / 2 and (3 * 2 + 4) / 4, twice and four times; the model is 1 and 8; the third cell counts for nothing */
    ck_assert(near(r.mean_value, (2 * 1.5 + 4 * 2.5) / 6, 1e-15));
    ck_assert(near(r.mae, (2 * 0.5 + 4 * 5.5) / 6, 1e-15));
    c.float64 = 1;
    ck_assert_ptr_null(ts_builder_new(&c, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    c.weights = c.float64 = 0;
    b = ts_builder_new(&c, &err);
    ck_assert_int_eq(ts_builder_add_weighted(b, 6, index, value, weight, &err), TS_ERR_ARGUMENT);
    ts_builder_free(b);
    ts_close(t);
    ts_cpd_free(model);
}
END_TEST

START_TEST(parts_of_a_tensor)
{
    ts_build_conf c = build_conf(other);
    const uint64_t first[] = { 6, 0, 6, 3 }, beyond[] = { 1000000 };
    const uint64_t *keep[3] = { first, NULL, NULL };
    const uint64_t n_keep[3] = { 4, 0, 0 }, n_beyond[3] = { 1, 0, 0 }, least[3] = { 0, 3, 0 };
    ts_select_conf part = { .size = sizeof part, .hold_out = 0.25, .seed = 5 };
    ts_tensor *t = open_tensor();
    uint64_t train, test, row = 0, all = 0, n = 1;
    ts_build_result result = { .size = sizeof result };
    c.replace = 1;
    ck_assert_msg(ts_build_select(&c, t, &part, &result, &err) == 0, "%s", err.text);
    train = nnz_of(other);
    ck_assert_uint_eq(result.nnz, train);
    part.held = 1;
    ck_assert_msg(ts_build_select(&c, t, &part, NULL, &err) == 0, "%s", err.text);
    test = nnz_of(other);
    ck_assert_uint_eq(train + test, ts_nnz(t));
    ck_assert(test > 0.2 * (double)ts_nnz(t) && test < 0.3 * (double)ts_nnz(t));
    part = (ts_select_conf){ .size = sizeof part, .keep = keep, .n_keep = n_keep };
    ck_assert_msg(ts_build_select(&c, t, &part, NULL, &err) == 0, "%s", err.text);
    for (ts_cursor *cursor = ts_cursor_open(t, 0, &err); n > 0 || (ts_cursor_close(cursor), 0);) {
        uint64_t index[256 * 3];
        double value[256];
        ck_assert_int_eq(ts_cursor_next(cursor, 256, index, value, &n, &err), 0);
        for (uint64_t i = 0; i < n; i++, all++)
            row += index[3 * i] <= 6; /* 0, 3, 6 */
    }
    ck_assert_uint_eq(all, ts_nnz(t));
    ck_assert_uint_eq(nnz_of(other), row);
    part = (ts_select_conf){ .size = sizeof part, .at_least = least, .sum_modes = 1 };
    ck_assert_msg(ts_build_select(&c, t, &part, NULL, &err) == 0, "%s", err.text);
    ck_assert_uint_le(nnz_of(other), ts_nnz(t));
    part.sum_modes = 8;
    ck_assert_int_eq(ts_build_select(&c, t, &part, NULL, &err), TS_ERR_ARGUMENT);
    part = (ts_select_conf){ .size = sizeof part, .hold_out = 1 };
    ck_assert_int_eq(ts_build_select(&c, t, &part, NULL, &err), TS_ERR_ARGUMENT);
    part = (ts_select_conf){ .size = sizeof part, .held = 1 };
    ck_assert_int_eq(ts_build_select(&c, t, &part, NULL, &err), TS_ERR_ARGUMENT);
    keep[0] = beyond;
    part = (ts_select_conf){ .size = sizeof part, .keep = keep, .n_keep = n_beyond };
    ck_assert_int_eq(ts_build_select(&c, t, &part, NULL, &err), TS_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "index 1000000 of mode 1 is beyond"));
    keep[0] = NULL;
    c.replace = 0;
    part = (ts_select_conf){ .size = sizeof part };
    ck_assert_int_eq(ts_build_select(&c, t, &part, NULL, &err), TS_ERR_BUSY);
    ts_close(t);
}
END_TEST

START_TEST(copies_cursors_and_rows)
{
    const ts_build_conf c = build_conf(other);
    uint64_t *index = malloc(1000 * 3 * sizeof *index), n = 1, total = 0;
    double *value = malloc(1000 * sizeof *value), norm = 0, rows[200 * 4];
    const ts_cp_conf conf = { .size = sizeof conf, .sweeps = 3, .seed = 3 };
    uint64_t top[5], used[200];
    double strongest[5];
    uint32_t found;
    ts_tensor *t = open_tensor(), *copy;
    ts_session *s;
    ts_cpd *d;
    char command[9000];
    ck_assert_msg(ts_build_copy(&c, t, NULL, &err) == 0, "%s", err.text);
    snprintf(command, sizeof command, "diff -r -x index -x modes -x sums %s %s", tensor,
             other); /* the index tells of duplicates, which were merged before */
    ck_assert_int_eq(system(command), 0);
    copy = ts_open(other, &err);
    ts_cursor *cursor = ts_cursor_open(copy, 2, &err);
    ck_assert_int_eq(ts_cursor_next(cursor, 255, index, value, &n, &err), TS_ERR_ARGUMENT);
    while (ts_cursor_next(cursor, 1000, index, value, &n, &err) == 0 && n > 0) {
        total += n;
        for (uint64_t i = 0; i < n; i++) {
            norm += value[i] * value[i];
            ck_assert(index[3 * i] % 3 == 0 && index[3 * i + 1] < 50 && index[3 * i + 2] < 20);
        }
    }
    ck_assert_uint_eq(total, ts_nnz(t));
    ck_assert(fabs(sqrt(norm) - ts_norm(t)) < 1e-9 * ts_norm(t));
    ts_cursor_close(cursor);
    ts_close(copy);
    s = open_session(t, 2, NULL);
    d = ts_cp(s, &conf, NULL, &err);
    ck_assert_uint_eq(ts_cpd_dim(d, 0), 598);
    ck_assert_uint_eq(ts_cpd_held(d, 0), 200);
    ck_assert_int_eq(ts_used_indices(t, 0, used, &err), 0);
    ck_assert_mem_eq(used, ts_cpd_index(d, 0), sizeof used);
    ck_assert_int_eq(ts_cpd_rows(d, 0, 0, 200, rows, &err), 0);
    for (uint32_t r = 0; r < 4; r++) {
        ck_assert(rows[4 * 3 + r] == (double)((const float *)ts_cpd_factor(d, 0))[4 + r]);
        ck_assert(rows[4 * 4 + r] == 0);
    }
    ck_assert_int_eq(ts_cpd_rows(d, 0, 500, 99, rows, &err), TS_ERR_ARGUMENT);
    ck_assert_int_eq(ts_cpd_top(d, 0, 1, 5, top, strongest, &found, &err), 0);
    ck_assert_uint_eq(found, 5);
    for (uint32_t i = 1; i < 5; i++)
        ck_assert(fabs(strongest[i]) <= fabs(strongest[i - 1]) && top[i] % 3 == 0);
    ck_assert_int_eq(ts_cpd_top(d, 0, 4, 5, top, strongest, &found, &err), TS_ERR_ARGUMENT);
    check_cells(d);
    ts_cpd_free(d);
    ts_session_close(s);
    ts_close(t);
    free(index);
    free(value);
}
END_TEST

/* ---- what a run keeps ---- */

static int after_two(void *ctx, const ts_sweep *s)
{
    ts_progress p = { .size = sizeof p };
    ts_session_progress(ctx, &p);
    ck_assert_uint_eq(p.sweep, s->sweep + 1);
    ck_assert(p.mode == 0 && p.done == 0 && p.total > 0);
    return s->sweep == 2;
}

/* All nonzeros of the tensor, and the model's values there. Returns how many. */
static uint64_t all_cells(const ts_tensor *t, const ts_cpd *c, uint64_t **index, double **value,
                          double **model)
{
    ts_cursor *cursor = ts_cursor_open(t, 0, &err);
    uint64_t n = 0, got = 1;
    *index = malloc((ts_nnz(t) + 256) * 3 * sizeof **index);
    *value = malloc((ts_nnz(t) + 256) * sizeof **value);
    *model = malloc((ts_nnz(t) + 256) * sizeof **model);
    for (; got > 0; n += got)
        ck_assert_msg(ts_cursor_next(cursor, 256, *index + 3 * n, *value + n, &got, &err) == 0,
                      "%s", err.text);
    ts_cursor_close(cursor);
    ck_assert_uint_eq(n, ts_nnz(t));
    ck_assert_int_eq(ts_cpd_predict(c, n, *index, *model, &err), 0);
    return n;
}

/* Sums over all nonzeros and by slice of each mode, and the largest residuals, against the obvious loop. Terms are of one sign or few,
 * in float64: 1e-12; in float32 1e-5. */
START_TEST(scores_are_those_of_the_obvious_loop)
{
    enum { MODE = 1, SLICES = 200, TOP = 7 };
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 2, NULL);
    ts_cp_conf run = { .size = sizeof run, .sweeps = 2, .seed = 3 };
    ts_cpd *c = ts_cp(s, &run, NULL, &err);
    uint64_t *index, top_index[TOP * 3], slice_nnz[SLICES], used[SLICES];
    double *value, *model, top_value[TOP], top_model[TOP], of[5][SLICES];
    const double most = _i % 2 == 1 ? 1e-5 : 1e-12;
    const uint32_t mode = _i / 2;
    double squares = 0, magnitudes = 0, sum = 0, sum_model = 0, last = INFINITY;
    uint64_t n, larger = 0;
    ts_session_conf sc = { .size = sizeof sc, .threads = 3 };
    ts_cpd_score_result r = { .size = sizeof r };
    ts_cpd_score_conf conf = { .size = sizeof conf,
                               .mode = mode,
                               .float32 = _i % 2 == 1,
                               .n_top = TOP,
                               .top_index = top_index,
                               .top_value = top_value,
                               .top_model = top_model,
                               .slice_nnz = slice_nnz,
                               .slice_weight = of[0],
                               .slice_value = of[1],
                               .slice_model = of[2],
                               .slice_rmse = of[3],
                               .slice_mae = of[4] };
    ck_assert_msg(c != NULL, "%s", err.text);
    n = all_cells(t, c, &index, &value, &model);
    ck_assert_msg(ts_cpd_score(c, t, &conf, &sc, &r, &err) == 0, "%s", err.text);
    for (uint64_t i = 0; i < n; i++) {
        const double left = value[i] - model[i];
        squares += left * left;
        magnitudes += fabs(left);
        sum += value[i];
        sum_model += model[i];
    }
    ck_assert_uint_eq(r.nnz, n);
    ck_assert(r.weight == (double)n);
    ck_assert(near(r.rmse, sqrt(squares / (double)n), most) &&
              near(r.mae, magnitudes / (double)n, most) &&
              near(r.mean_value, sum / (double)n, most) &&
              near(r.mean_model, sum_model / (double)n, most));
    ck_assert(
        near(r.gaussian, -0.5 * (double)n * (1 + log(2 * acos(-1) * squares / (double)n)), most));
    ck_assert(isnan(r.poisson)); /* values are no counts */
    ck_assert_uint_le(ts_used(t, mode), SLICES);
    ck_assert_int_eq(ts_used_indices(t, mode, used, &err), 0);
    for (uint64_t k = 0; k < ts_used(t, mode); k++) {
        uint64_t here = 0;
        double own[4] = { 0 };
        for (uint64_t i = 0; i < n; i++)
            if (index[3 * i + mode] == used[k]) {
                const double left = value[i] - model[i];
                here++;
                own[0] += value[i];
                own[1] += model[i];
                own[2] += left * left;
                own[3] += fabs(left);
            }
        ck_assert_uint_eq(slice_nnz[k], here);
        ck_assert(of[0][k] == (double)here);
        ck_assert(near(of[1][k], own[0], most) && near(of[2][k], own[1], most) &&
                  near(of[3][k], sqrt(own[2] / (double)here), most) &&
                  near(of[4][k], own[3] / (double)here, most));
    }
    ck_assert_uint_eq(r.n_top, TOP);
    for (uint32_t k = 0; k < TOP; k++) {
        double there;
        ck_assert_int_eq(ts_cpd_predict(c, 1, top_index + 3 * (size_t)k, &there, &err), 0);
        ck_assert(near(top_model[k], there, most));
        ck_assert(fabs(top_value[k] - top_model[k]) <= last);
        last = fabs(top_value[k] - top_model[k]);
    }
    for (uint64_t i = 0; i < n; i++)
        larger += fabs(value[i] - model[i]) > last * (1 + 1e-4);
    ck_assert_uint_lt(larger, TOP);
    free(index);
    free(value);
    free(model);
    ts_cpd_free(c);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

/* Of counts, the likelihood of all cells; what is not asked for is not needed; what cannot be. */
START_TEST(scores_of_counts_and_of_dense_arrays)
{
    const double cells[6] = { 1, 0, 2, 3, NAN, 1 }, weight[1] = { 2 };
    const double a[2] = { 1, 0.5 }, b[3] = { 0.5, 1, 1.5 };
    const double *const factor[2] = { a, b };
    const uint64_t dim[2] = { 2, 3 };
    const ts_array_conf array = {
        .size = sizeof array, .cells = cells, .type = "float64", .order = 2, .dim = dim
    };
    ts_tensor *t = ts_open_array(&array, &err), *sparse = open_tensor();
    ts_cpd *c = ts_cpd_new(2, dim, 1, TS_REAL_FLOAT64, weight, factor, &err);
    ts_cpd_score_result r = { .size = sizeof r };
    ts_cpd_score_conf conf = { .size = sizeof conf, .mode = 2 };
    volatile int stop = 1;
    const ts_session_conf stopped = { .size = sizeof stopped, .stop = &stop };
    double likelihood = 0, squares = 0;
    ck_assert_msg(t != NULL && c != NULL, "%s", err.text);
    ck_assert_msg(ts_cpd_score(c, t, NULL, NULL, &r, &err) == 0, "%s", err.text);
    for (int i = 0; i < 6; i++) {
        const double m = 2 * a[i / 3] * b[i % 3];
        likelihood += (isnan(cells[i]) ? 0 : cells[i] * log(m)) - m;
        squares += isnan(cells[i]) ? 0 : (cells[i] - m) * (cells[i] - m);
    }
    ck_assert_uint_eq(r.nnz, 5);
    ck_assert(near(r.rmse, sqrt(squares / 5), 1e-14));
    ck_assert(near(r.poisson, likelihood, 1e-14));
    ck_assert_uint_eq(r.n_top, 0);
    ck_assert_int_eq(ts_cpd_score(c, t, &conf, NULL, &r, &err), TS_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "there is no mode 3"));
    ck_assert_int_eq(ts_cpd_score(c, sparse, NULL, NULL, &r, &err), TS_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "the model has 2 modes"));
    ck_assert_int_eq(ts_cpd_score(c, t, NULL, &stopped, NULL, &err), TS_ERR_STOPPED);
    ck_assert_int_eq(ts_cpd_core(c, t, NULL, NULL, &err), TS_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(
        strstr(err.text, "a core consistency is not possible with a dense tensor"));
    ck_assert_int_eq(ts_cpd_core(c, sparse, NULL, NULL, &err), TS_ERR_ARGUMENT);
    ts_cpd_free(c);
    ts_close(t);
    ts_close(sparse);
}
END_TEST

static ts_cp_conf kept_run(void)
{
    return (ts_cp_conf){ .size = sizeof(ts_cp_conf),
                         .sweeps = 6,
                         .seed = 3,
                         .out = files,
                         .formats = TS_FILE_KTENSOR | TS_FILE_NPY };
}

/* A run that ends after two sweeps. */
static void stop_one(const ts_tensor *t)
{
    ts_session *s = open_session(t, 2, NULL);
    ts_cp_conf conf = kept_run();
    conf.sweep = after_two;
    conf.ctx = s;
    conf.checkpoint_seconds = 1e-9;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_STOPPED);
    ck_assert_msg(strstr(err.text, "the state before sweep 3, mode 1 is in") != NULL, "%s",
                  err.text);
    ck_assert_int_ne(access(files, F_OK), 0);
    ts_session_close(s);
}

static ts_cpd *run_kept(const ts_tensor *t, int resume, ts_cp_result *result)
{
    ts_session *s = open_session(t, 1, NULL);
    ts_cp_conf conf = kept_run();
    ts_cpd *c;
    conf.resume = resume;
    c = ts_cp(s, &conf, result, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ts_session_close(s);
    return c;
}

static void program(const char *what)
{
    const char *build_dir = getenv("TOP_BUILDDIR");
    char command[10000];
    snprintf(command, sizeof command, "%s/tools/tstream cp -q --cpu %s > %s/log",
             build_dir != NULL ? build_dir : ".", what, tmp);
    ck_assert_msg(system(command) == 0, "%s", command);
    snprintf(command, sizeof command, "%s/log", tmp);
    unlink(command);
}

/* The library and the program go on from each other's states, to the same bits. */
START_TEST(a_run_goes_on)
{
    ts_tensor *t = open_tensor();
    ts_cp_conf conf = kept_run();
    ts_session *s = open_session(t, 2, NULL);
    ts_cp_result result = { .size = sizeof result };
    char arguments[9000];
    ts_cpd *whole, *c;
    conf.out = NULL;
    whole = ts_cp(s, &conf, NULL, &err);
    ck_assert_msg(whole != NULL, "%s", err.text);
    conf = kept_run();
    conf.resume = TS_RESUME; /* there is none */
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    conf.resume = 3;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    conf.resume = TS_RESUME;
    conf.out = NULL;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));

    stop_one(t);
    conf = kept_run();
    conf.resume = TS_RESUME_IF_ANY;
    conf.seed = 4;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err)); /* another run */
    ck_assert_msg(strstr(err.text, "the run has seed 3") != NULL, "%s", err.text);
    c = run_kept(t, TS_RESUME, &result);
    ck_assert(equal(whole, c) && result.sweeps == 6 && result.sweeps_before == 2);
    ts_cpd_free(c);
    c = ts_cpd_load(files, NULL, &err);
    ck_assert_mem_eq(ts_cpd_weights(whole), ts_cpd_weights(c), 4 * sizeof(double));
    ts_cpd_free(c);
    conf = kept_run();
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err)); /* which is there */
    ck_assert_int_eq(err.code, TS_ERR_BUSY);
    conf.replace = 1; /* and the session goes on */
    c = ts_cp(s, &conf, &result, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert(equal(whole, c) && result.sweeps_before == 0);
    ts_cpd_free(c);
    ts_session_close(s);
    test_tsh_remove(files);

    stop_one(t);
    snprintf(arguments, sizeof arguments, "--resume %s", files);
    program(arguments);
    c = ts_cpd_load(files, NULL, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_mem_eq(ts_cpd_weights(whole), ts_cpd_weights(c), 4 * sizeof(double));
    ts_cpd_free(c);
    test_tsh_remove(files);

    snprintf(arguments, sizeof arguments, "%s -r 4 -s 3 -i 2 --tol 0 -o %s", tensor, files);
    program(arguments);
    c = run_kept(t, TS_RESUME_IF_ANY, &result);
    ck_assert(equal(whole, c) && result.sweeps_before == 2);
    ts_cpd_free(c);
    ts_cpd_free(whole);
    ts_close(t);
}
END_TEST

static int is_mapped(const char *name)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[5000];
    int found = 0;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
        found = strstr(line, name) != NULL;
    ck_assert_ptr_nonnull(f);
    fclose(f);
    return found;
}

/* A factor of 1 MiB and more, in a file, is mapped; another result may take the place of its files meanwhile. */
START_TEST(large_factors_are_mapped)
{
    const uint64_t dim[2] = { 70000, 10 };
    const double weight[2] = { 3, 2 };
    double *big = malloc(dim[0] * 2 * sizeof *big), rows[4];
    const double *const factor[2] = { big, big };
    const ts_save_conf save = { .size = sizeof save,
                                .formats = TS_FILE_NPY | TS_FILE_KTENSOR,
                                .replace = 1 };
    char name[4300];
    FILE *f;
    ts_cpd *c, *again;
    for (uint64_t i = 0; i < 2 * dim[0]; i++)
        big[i] = (double)ts_mix(i) * 0x1p-64;
    c = ts_cpd_new(2, dim, 2, TS_REAL_FLOAT64, weight, factor, &err);
    ck_assert_int_eq(ts_cpd_save(c, files, &save, &err), 0);
    ts_cpd_free(c);
    snprintf(name, sizeof name, "%s/mode1.npy", files);
    ck_assert_int_eq(is_mapped(name), 0);
    c = ts_cpd_load(files, NULL, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_int_eq(ts_cpd_precision(c), TS_REAL_FLOAT64);
    ck_assert_int_eq(is_mapped(name), 1);
    ck_assert_mem_eq(ts_cpd_factor(c, 0), big, 2 * dim[0] * sizeof *big);
    ck_assert_int_eq(ts_cpd_save(c, files, &save, &err), 0); /* from there to there */
    again = ts_cpd_load(files, NULL, &err);
    ck_assert_int_eq(ts_cpd_rows(c, 0, 69998, 2, rows, &err), 0);
    ck_assert_mem_eq(rows, big + 2 * 69998, sizeof rows);
    ck_assert_mem_eq(ts_cpd_factor(again, 0), big, 2 * dim[0] * sizeof *big);
    ts_cpd_free(c);
    ts_cpd_free(again);
    ck_assert_int_eq(is_mapped(name), 0);
    f = fopen(name, "r+b"); /* and what is mapped was looked at */
    ck_assert_int_eq(fseek(f, -8, SEEK_END), 0);
    fwrite("\0\0\0\0\0\0\xf0\x7f", 1, 8, f);
    fclose(f);
    ck_assert_ptr_null(ts_cpd_load(files, NULL, &err));
    ck_assert_msg(strstr(err.text, "not finite") != NULL, "%s", err.text);
    ck_assert_int_eq(is_mapped(name), 0);
    free(big);
}
END_TEST

START_TEST(a_run_ends_in_time)
{
    const ts_cp_conf conf = {
        .size = sizeof conf, .sweeps = 1000000000, .seed = 3, .max_seconds = 0.05
    };
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 2, NULL);
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_STOPPED);
    ck_assert_msg(strstr(err.text, "the time is over") != NULL, "%s", err.text);
    ts_session_close(s);
    s = open_session(t, 2, NULL);
    ck_assert_ptr_null(
        ts_cp(s, &(ts_cp_conf){ .size = sizeof(ts_cp_conf), .max_seconds = -1 }, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

/* ---- several models ---- */

static int count_sweeps(void *ctx, uint32_t model, const ts_sweep *s)
{
    uint32_t *sweeps = ctx;
    ck_assert_uint_lt(model, 4);
    ck_assert_uint_eq(s->sweep, ++sweeps[model]);
    return sweeps[0] + sweeps[1] == 3 && sweeps[2] == 1000; /* never, where 2 is 0 */
}

static void count_work(void *ctx, uint64_t nnz)
{
    atomic_fetch_add((atomic_uint_fast64_t *)ctx, nnz);
}

/* Plain, with a constraint, and from singular vectors. */
START_TEST(several_models_are_those_of_their_own_runs)
{
    const uint32_t ranks[2] = { 4, 2 };
    const ts_cp_conf run = {
        .size = sizeof run, .sweeps = 5, .seed = 7, .nonneg = _i == 1 ? 7 : 0, .nvecs = _i == 2
    };
    ts_session_conf sc = { .size = sizeof sc, .threads = 2, .cpu = 1, .own_rows = 7 };
    uint32_t sweeps[4] = { 0 };
    const ts_several_conf conf = { .size = sizeof conf,
                                   .n_ranks = 2,
                                   .rank = ranks,
                                   .restarts = 2,
                                   .run = &run,
                                   .sweep = count_sweeps,
                                   .ctx = sweeps };
    ts_several_result result[4] = { { .size = sizeof *result } };
    ts_tensor *t = open_tensor();
    ts_cpd *all[4], *again[4], *none[1] = { NULL };
    ck_assert_msg(ts_cp_several(t, &sc, &conf, all, result, &err) == 0, "%s", err.text);
    for (uint32_t k = 0; k < 4; k++) {
        ts_cp_conf own = run;
        ts_cp_result r = { .size = sizeof r };
        ts_session *s;
        ts_cpd *alone;
        own.seed += k % 2;
        sc.rank = ranks[k / 2];
        s = ts_session_open(t, &sc, &err);
        ck_assert_msg(s != NULL, "%s", err.text);
        alone = ts_cp(s, &own, &r, &err);
        ck_assert_msg(alone != NULL, "%s", err.text);
        ck_assert(equal(all[k], alone));
        ck_assert(result[k].rank == sc.rank && result[k].seed == own.seed && sweeps[k] == 5);
        ck_assert(result[k].fit == r.fit && result[k].sweeps == r.sweeps && result[k].seconds > 0);
        ck_assert_int_eq(result[k].best, result[k].fit > result[k ^ 1].fit);
        ck_assert(result[k].best ? result[k].score == 1 : result[k].score < 1);
        ts_cpd_free(alone);
        ts_session_close(s);
    }
    if (_i == 0) { /* and from starts that are given */
        ts_cp_conf more = { .size = sizeof more, .sweeps = 2 };
        ts_several_conf from = conf;
        from.run = &more;
        from.sweep = NULL;
        from.start = (const ts_cpd *const *)all;
        ck_assert_msg(ts_cp_several(t, &sc, &from, again, NULL, &err) == 0, "%s", err.text);
        for (uint32_t k = 0; k < 4; k++) {
            ck_assert(!equal(again[k], all[k]));
            ts_cpd_free(again[k]);
        }
        ck_assert_msg(ts_cp_several(t, &sc, &from, again, NULL, &err) == 0, "%s", err.text);
        for (uint32_t k = 0; k < 4; k++)
            ts_cpd_free(again[k]);
        from.start = (const ts_cpd *const *)none;
        from.n_ranks = from.restarts = 1;
        ck_assert_int_eq(ts_cp_several(t, &sc, &from, again, NULL, &err), TS_ERR_ARGUMENT);
    }
    for (uint32_t k = 0; k < 4; k++)
        ts_cpd_free(all[k]);
    ts_close(t);
}
END_TEST

/* Two at once take the passes of one. */
START_TEST(several_models_share_their_passes)
{
    const uint32_t rank = 3;
    const ts_cp_conf run = { .size = sizeof run, .sweeps = 6, .seed = 7 };
    uint64_t total[2];
    ts_tensor *t = open_tensor();
    for (uint32_t n = 1; n <= 2; n++) {
        atomic_uint_fast64_t nnz = 0;
        const ts_session_conf sc = {
            .size = sizeof sc, .threads = 2, .cpu = 1, .work = count_work, .ctx = &nnz
        };
        const ts_several_conf conf = {
            .size = sizeof conf, .n_ranks = 1, .rank = &rank, .restarts = n, .run = &run
        };
        ts_cpd *all[2];
        ck_assert_msg(ts_cp_several(t, &sc, &conf, all, NULL, &err) == 0, "%s", err.text);
        total[n - 1] = atomic_load(&nnz);
        for (uint32_t k = 0; k < n; k++)
            ts_cpd_free(all[k]);
    }
    ck_assert_uint_ge(total[0], 6 * 3 * ts_nnz(t));
    ck_assert_uint_lt(total[1], total[0] + total[0] / 2);
    ts_close(t);
}
END_TEST

/* None of few cells, or all of them. */
START_TEST(a_share_that_holds_out_nothing_or_all_is_refused)
{
    static const double share[] = { 1e-12, 0.999999999999 };
    ts_tensor *t = open_tensor();
    for (int i = 0; i < 2; i++) {
        ts_session *s = open_session(t, 2, NULL);
        ts_cp_conf conf = { .size = sizeof conf, .sweeps = 3, .hold_out = share[i] };
        ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
        ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
        ck_assert_ptr_nonnull(
            strstr(err.text, i == 0 ? "no nonzero is held out" : "every nonzero is held out"));
        ts_session_close(s);
    }
    ts_close(t);
}
END_TEST

/* So do those of several ranks that leave the same cells out, and starts leave out their own; on a GPU, where there is one, their
 * errors are summed one after the other. */
START_TEST(models_that_hold_out_share_their_passes)
{
    const uint32_t ranks[3] = { 3, 5, 2 };
    const ts_cp_conf run = { .size = sizeof run,
                             .sweeps = 6,
                             .seed = 7,
                             .hold_out = 0.2,
                             .hold_out_from = _i == 1 ? 0.4 : 0,
                             .patience = _i == 2 ? 2 : 0 };
    uint64_t total[2];
    ts_tensor *t = open_tensor();
    for (uint32_t n = 1; n <= 3; n += 2) {
        atomic_uint_fast64_t nnz = 0;
        ts_session_conf sc = { .size = sizeof sc,
                               .threads = 2,
                               .cpu = _i < 3,
                               .work = count_work,
                               .ctx = &nnz,
                               .patience = _i == 2,
                               .hold_out = _i == 3 };
        const ts_several_conf conf = {
            .size = sizeof conf, .n_ranks = n, .rank = ranks, .restarts = 2, .run = &run
        };
        ts_several_result result[6] = { { .size = sizeof *result } };
        ts_cpd *all[6];
        ck_assert_msg(ts_cp_several(t, &sc, &conf, all, result, &err) == 0, "%s", err.text);
        total[n / 2] = atomic_load(&nnz);
        for (uint32_t k = 0; k < 2 * n; k++) {
            ts_cp_conf own = run;
            ts_cp_result r = { .size = sizeof r };
            ts_session *s;
            ts_cpd *alone;
            own.seed += k % 2;
            sc.rank = ranks[k / 2];
            s = ts_session_open(t, &sc, &err);
            alone = ts_cp(s, &own, &r, &err);
            ck_assert_msg(alone != NULL, "%s", err.text);
            ck_assert(equal(all[k], alone));
            ck_assert(result[k].held_out_rmse == r.held_out_rmse && r.held_out_rmse > 0);
            ts_cpd_free(alone);
            ts_session_close(s);
            ts_cpd_free(all[k]);
        }
    }
    if (run.patience == 0 && _i < 3) {                      /* all make as many sweeps */
        ck_assert_uint_ge(total[0], 2 * 6 * 4 * ts_nnz(t)); /* each start alone */
        ck_assert_uint_lt(total[1], total[0] + total[0] / 2);
    }
    ts_close(t);
}
END_TEST

/* As tstream cp --rank 4,2 --restarts 2 -s 3 -i 4 has it. */
static const uint32_t kept_ranks[2] = { 4, 2 };
static ts_cp_conf several_run(void)
{
    return (ts_cp_conf){
        .size = sizeof(ts_cp_conf), .sweeps = 4, .seed = 3, .out = files, .checkpoint_seconds = -1
    };
}

static int run_several(const ts_tensor *t, const ts_cp_conf *run, ts_several_sweep_fn *sweep,
                       ts_cpd *ret[4], ts_several_result result[4])
{
    const ts_session_conf sc = {
        .size = sizeof sc, .threads = 2, .cpu = 1, .checkpoints = 1, .own_rows = run->nonneg
    };
    const ts_several_conf conf = { .size = sizeof conf,
                                   .n_ranks = 2,
                                   .rank = kept_ranks,
                                   .restarts = 2,
                                   .run = run,
                                   .sweep = sweep };
    if (result != NULL)
        result[0].size = sizeof *result;
    return ts_cp_several(t, &sc, &conf, ret, result, &err);
}

/* While the second sweep of the models is under way. */
static int stop_second(void *ctx, uint32_t model, const ts_sweep *s)
{
    (void)ctx;
    return model == 3 && s->sweep == 1;
}

static void free_all(ts_cpd *all[4])
{
    for (uint32_t k = 0; k < 4; k++)
        ts_cpd_free(all[k]);
}

/* The files hold these models. */
static void hold_files(ts_cpd *const all[4])
{
    for (uint32_t k = 0; k < 4; k++) {
        char path[4300];
        ts_cpd *c;
        snprintf(path, sizeof path, "%s/r%u.s%u", files, kept_ranks[k / 2], 3 + k % 2);
        c = ts_cpd_load(path, NULL, &err);
        ck_assert_msg(c != NULL, "%s", err.text);
        ck_assert_mem_eq(ts_cpd_weights(all[k]), ts_cpd_weights(c),
                         kept_ranks[k / 2] * sizeof(double));
        ts_cpd_free(c);
    }
}

/* What a kill leaves of a run whose last model was not done. */
static void kill_last(void)
{
    char command[20000];
    snprintf(command, sizeof command,
             "mv '%s' '%s.partial' && cd '%s.partial' && rm -r models.json models.tsv best.* r2.s4",
             files, files, files);
    ck_assert_int_eq(system(command), 0);
}

/* Stopped by the library, and gone on by it; by the command; and the other way round: always the models of a run
 * that keeps nothing. */
START_TEST(several_models_are_kept_and_go_on)
{
    ts_cp_conf run = several_run();
    ts_several_result whole_row[4], row[4];
    ts_tensor *t = open_tensor();
    ts_cpd *whole[4], *all[4];
    char arguments[9000];
    run.out = NULL;
    ck_assert_msg(run_several(t, &run, NULL, whole, whole_row) == 0, "%s", err.text);
    run = several_run();
    run.resume = TS_RESUME;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "no run of several models") != NULL, "%s", err.text);

    run.resume = TS_RESUME_IF_ANY; /* stopped, and gone on */
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    ck_assert_msg(strstr(err.text, "states of the others, are in") != NULL, "%s", err.text);
    run.resume = TS_RESUME_NEVER;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_BUSY);
    run.resume = TS_RESUME;
    run.seed = 4;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "the run has seed 3") != NULL, "%s", err.text);
    run.seed = 3;
    ck_assert_msg(run_several(t, &run, NULL, all, row) == 0, "%s", err.text);
    hold_files(whole);
    for (uint32_t k = 0; k < 4; k++) {
        ck_assert(equal(whole[k], all[k]));
        ck_assert(row[k].fit == whole_row[k].fit && row[k].score == whole_row[k].score);
        ck_assert(row[k].best == whole_row[k].best && row[k].sweeps == 4);
    }
    free_all(all);
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT); /* all are done */
    ck_assert_msg(strstr(err.text, "all its models are done") != NULL, "%s", err.text);

    run.resume = TS_RESUME_NEVER; /* by the command */
    run.replace = 1;
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    snprintf(arguments, sizeof arguments, "--resume %s", files);
    program(arguments);
    hold_files(whole);

    snprintf(arguments, sizeof arguments, "%s -r 4,2 --restarts 2 -s 3 -i 4 --tol 0 --force -o %s",
             tensor, files);
    program(arguments);
    hold_files(whole);
    kill_last();
    run.replace = 0;
    run.resume = TS_RESUME;
    ck_assert_msg(run_several(t, &run, NULL, all, row) == 0, "%s", err.text);
    hold_files(whole);
    for (uint32_t k = 0; k < 4; k++) {
        ck_assert(equal(whole[k], all[k]));
        ck_assert(row[k].fit == whole_row[k].fit && row[k].best == whole_row[k].best);
        ck_assert(fabs(row[k].score - whole_row[k].score) < 1e-12 && row[k].sweeps == 4);
    }
    kill_last();
    run.nonneg = 1; /* models that are done have other constraints */
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    run.nonneg = 0;
    run.save_init = 1; /* and no start beside them */
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "cannot go on with save-init 1") != NULL, "%s", err.text);
    free_all(all);
    free_all(whole);
    ts_close(t);
}
END_TEST

/* sh, in the partial directory of the models. */
static void in_partial(const char *what)
{
    char command[9000];
    snprintf(command, sizeof command, "cd '%s.partial' && %s", files, what);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static int is_there(const char *name)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/%s", files, name);
    return access(path, F_OK) == 0;
}

START_TEST(several_models_go_on_without_starts)
{
    ts_cp_conf run = several_run();
    ts_tensor *t = open_tensor();
    ts_cpd *all[4];
    run.nvecs = run.save_init = run.replace = 1;
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    in_partial("rm r4.s3.partial/init.ktensor");
    run.resume = TS_RESUME;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "leave save_init out") != NULL, "%s", err.text);
    run.save_init = 0;
    ck_assert_msg(run_several(t, &run, NULL, all, NULL) == 0, "%s", err.text);
    free_all(all);
    ck_assert(!is_there("r4.s3/init.ktensor") && is_there("r4.s4/init.ktensor"));

    run.resume = TS_RESUME_NEVER; /* models that are done may have none */
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    run.resume = TS_RESUME;
    run.save_init = 1;
    ck_assert_int_eq(run_several(t, &run, NULL, all, NULL), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "cannot go on with save-init 1") != NULL, "%s", err.text);

    run.resume = TS_RESUME_NEVER; /* an earlier version did not say */
    ck_assert_int_eq(run_several(t, &run, stop_second, all, NULL), TS_ERR_STOPPED);
    in_partial("sed -zi '/^save-init=/d; /^version=/d; /^xxh3=/d' models.run");
    run.resume = TS_RESUME;
    ck_assert_msg(run_several(t, &run, NULL, all, NULL) == 0, "%s", err.text);
    free_all(all);
    ck_assert(is_there("r4.s3/init.ktensor") && is_there("r2.s4/init.ktensor"));
    ts_close(t);
}
END_TEST

static uint32_t stopped_at; /* a model, whose second sweep is over */
static int stop_there(void *ctx, uint32_t model, const ts_sweep *s)
{
    (void)ctx;
    return model == stopped_at && s->sweep == 2;
}

/* Where rows are solved from the old ones: models that come behind the one that stops have made the pass, too. */
START_TEST(several_models_go_on_from_where_each_is)
{
    ts_cp_conf run = several_run();
    ts_tensor *t = open_tensor();
    ts_cpd *whole[4], *all[4];
    run.nonneg = 7;
    run.out = NULL;
    ck_assert_msg(run_several(t, &run, NULL, whole, NULL) == 0, "%s", err.text);
    for (stopped_at = 0; stopped_at < 4; stopped_at++) {
        run.out = files;
        run.resume = TS_RESUME_NEVER;
        run.replace = 1;
        ck_assert_int_eq(run_several(t, &run, stop_there, all, NULL), TS_ERR_STOPPED);
        run.resume = TS_RESUME;
        ck_assert_msg(run_several(t, &run, NULL, all, NULL) == 0, "%s", err.text);
        for (uint32_t k = 0; k < 4; k++)
            ck_assert_msg(equal(whole[k], all[k]), "model %u, stopped at %u", k, stopped_at);
        free_all(all);
    }
    free_all(whole);
    ts_close(t);
}
END_TEST

START_TEST(several_models_are_stopped_and_refused)
{
    const uint32_t same[2] = { 3, 3 }, one[1] = { 3 };
    uint32_t sweeps[4] = { 0, 0, 1000 };
    ts_cp_conf run = { .size = sizeof run, .sweeps = 1000000000, .out = files };
    ts_session_conf sc = { .size = sizeof sc, .threads = 2, .cpu = 1 };
    ts_several_conf conf = { .size = sizeof conf,
                             .n_ranks = 2,
                             .rank = same,
                             .restarts = 2,
                             .run = &run,
                             .sweep = count_sweeps,
                             .ctx = sweeps };
    ts_tensor *t = open_tensor();
    ts_cpd *all[4];
    ck_assert_int_eq(ts_cp_several(t, &sc, NULL, all, NULL, &err), TS_ERR_ARGUMENT);
    ck_assert_int_eq(ts_cp_several(t, &sc, &conf, all, NULL, &err), TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "rank 3 is given twice") != NULL, "%s", err.text);
    conf.n_ranks = 1;
    conf.rank = one;
    run.out = NULL;
    run.nonneg = 1; /* which the session was not asked for */
    ck_assert_int_eq(ts_cp_several(t, &sc, &conf, all, NULL, &err), TS_ERR_ARGUMENT);
    run.nonneg = 0;
    ck_assert_int_eq(ts_cp_several(t, &sc, &conf, all, NULL, &err), TS_ERR_STOPPED);
    ck_assert_uint_eq(sweeps[0] + sweeps[1], 3); /* the callback's word holds at once */
    conf.sweep = NULL;
    run.max_seconds = 0.05;
    ck_assert_int_eq(ts_cp_several(t, &sc, &conf, all, NULL, &err), TS_ERR_STOPPED);
    ck_assert_msg(strstr(err.text, "the time is over") != NULL, "%s", err.text);
    ts_close(t);
}
END_TEST

/* ---- constraints ---- */

static ts_session *open_for(const ts_tensor *t, uint32_t own_rows, uint64_t *factor_bytes)
{
    const ts_session_conf c = {
        .size = sizeof c, .rank = 4, .threads = 2, .cpu = 1, .own_rows = own_rows
    };
    ts_session_info info = { .size = sizeof info };
    ts_session *s = ts_session_open(t, &c, &err);
    ck_assert_msg(s != NULL, "%s", err.text);
    ts_session_describe(s, &info);
    *factor_bytes = info.factor_bytes;
    return s;
}

static void run_well(ts_session *s, const ts_cp_conf *conf)
{
    ts_cpd *c = ts_cp(s, conf, NULL, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ts_cpd_free(c);
}

static void run_refused(ts_session *s, const ts_cp_conf *conf, const char *why)
{
    char partial[4300];
    ck_assert_ptr_null(ts_cp(s, conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, why) != NULL, "%s", err.text);
    snprintf(partial, sizeof partial, "%s.partial", files);
    ck_assert_int_ne(access(partial, F_OK), 0);
}

/* A session has the memory of the constraints that it was opened for; others leave it and the disk as they
 * were. */
START_TEST(a_session_knows_of_constraints)
{
    const double l1[3] = { 0, 0.5, 0 }, l2[3] = { 1, 1, 1 };
    ts_cp_conf conf = kept_run();
    uint64_t plain, one, all, rows[3], most = 0;
    ts_tensor *t = open_tensor();
    ts_session *s = open_for(t, 0, &plain);
    for (uint32_t m = 0; m < 3; m++) {
        rows[m] = ts_used(t, m);
        most = rows[m] > most ? rows[m] : most;
    }
    conf.sweeps = 1;
    conf.nonneg = 1;
    run_refused(s, &conf, "own_rows");
    conf.nonneg = 0;
    conf.l1 = l1;
    run_refused(s, &conf, "own_rows");
    conf.l1 = NULL;
    conf.l2 = l2;
    run_well(s, &conf);
    test_tsh_remove(files);
    ts_session_close(s);

    s = open_for(t, 2, &one);
    ck_assert_uint_eq(one - plain, rows[1] * 4 * sizeof(float));
    conf.nonneg = 4;
    run_refused(s, &conf, "own_rows");
    conf.nonneg = 0;
    conf.l1 = l1;
    run_well(s, &conf);
    test_tsh_remove(files);
    ts_session_close(s);

    s = open_for(t, 7, &all);
    ck_assert_uint_eq(all - plain, most * 4 * sizeof(float));
    conf.nonneg = 7;
    run_well(s, &conf);
    test_tsh_remove(files);
    ts_session_close(s);
    ck_assert_ptr_null(ts_session_open(
        t,
        &(ts_session_conf){ .size = sizeof(ts_session_conf), .rank = 4, .cpu = 1, .own_rows = 8 },
        &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ts_close(t);
}
END_TEST

/* Then what takes it is refused, and other runs are not. */
START_TEST(a_backend_may_lack_updates)
{
    ts_cp_conf conf = kept_run();
    ts_tensor *t = open_tensor();
    uint64_t bytes;
    ts_session *s = open_for(t, 7, &bytes);
    struct ts_backend lacks = *s->engine->backend;
    lacks.can &= ~(uint32_t)TS_ROWS_ALL | TS_CAN(LEAST_SQUARES);
    s->engine->backend = &lacks;
    conf.nonneg = 1;
    run_refused(s, &conf, "these constraints are computed on CPU cores only");
    conf.nonneg = 0;
    run_well(s, &conf);
    ts_session_close(s);
    test_tsh_remove(files);
    ts_close(t);
}
END_TEST

/* ---- the start beside the result ---- */

/* init.ktensor of the result; to be freed. NULL: there is none. */
static char *saved_start(void)
{
    char path[4300], *text = NULL;
    size_t n = 0;
    FILE *f, *to;
    int byte;
    snprintf(path, sizeof path, "%s/init.ktensor", files);
    f = fopen(path, "r");
    if (f == NULL)
        return NULL;
    to = open_memstream(&text, &n);
    while ((byte = getc(f)) != EOF)
        putc(byte, to);
    fclose(f);
    fclose(to);
    return text;
}

/* The start that a run of so many sweeps leaves; to be freed. says: NULL, or why it is refused. */
static char *start_of(ts_session *s, ts_cp_conf conf, uint32_t sweeps, int resume, const char *says)
{
    ts_cpd *c;
    conf.sweeps = sweeps;
    conf.resume = resume;
    conf.save_init = 1;
    c = ts_cp(s, &conf, NULL, &err);
    ck_assert_int_eq(c == NULL, says != NULL);
    ck_assert_msg(says == NULL || strstr(err.text, says) != NULL, "%s", err.text);
    ts_cpd_free(c);
    return c != NULL ? saved_start() : NULL;
}

/* 0: it is drawn; 1: given; 2: computed. */
START_TEST(a_start_is_saved_also_where_a_run_goes_on)
{
    ts_cp_conf conf = kept_run();
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 2, NULL), *stops;
    ts_cpd *given = NULL;
    char *whole, *text, arguments[9000];
    conf.nvecs = _i == 2;
    if (_i == 1) {
        ts_cp_conf before = { .size = sizeof before, .sweeps = 1, .seed = 5 };
        given = ts_cp(s, &before, NULL, &err);
        ck_assert_msg(given != NULL, "%s", err.text);
        conf.start = given;
    }
    whole = start_of(s, conf, 2, TS_RESUME_NEVER, NULL);
    ck_assert_ptr_nonnull(whole);
    text = start_of(s, conf, 3, TS_RESUME, NULL); /* of a result */
    ck_assert_str_eq(whole, text);
    free(text);
    snprintf(arguments, sizeof arguments, "--resume %s -i 4", files);
    program(arguments); /* which is told of it */
    text = saved_start();
    ck_assert_str_eq(whole, text);
    free(text);
    test_tsh_remove(files);

    conf.checkpoint_seconds = 1e-9; /* of a run that was stopped, and saved none */
    conf.sweep = after_two;
    conf.ctx = stops = open_session(t, 2, NULL);
    ck_assert_ptr_null(ts_cp(stops, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_STOPPED);
    ts_session_close(stops);
    conf.sweep = NULL;
    if (_i == 2) {
        ck_assert_ptr_null(start_of(s, conf, 6, TS_RESUME, "leave save_init out"));
        conf.resume = TS_RESUME;
        ts_cpd_free(ts_cp(s, &conf, NULL, &err));
        ck_assert_ptr_null(saved_start());
    } else {
        conf.start = NULL;
        if (_i == 1)
            ck_assert_ptr_null(start_of(s, conf, 6, TS_RESUME, "give them again"));
        conf.start = given;
        text = start_of(s, conf, 6, TS_RESUME, NULL);
        ck_assert_str_eq(whole, text);
        free(text);
    }
    free(whole);
    ts_cpd_free(given);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

/* What a run cannot go on with is found before anything is written, and the session serves other runs. */
START_TEST(a_run_goes_on_with_its_constraints)
{
    ts_cp_conf conf = kept_run();
    ts_tensor *t = open_tensor();
    ts_cp_result result = { .size = sizeof result };
    uint64_t bytes;
    ts_session *s;
    ts_cpd *c;
    stop_one(t);
    s = open_for(t, 1, &bytes);
    conf.resume = TS_RESUME;
    conf.nonneg = 1;
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ck_assert_msg(strstr(err.text, "it cannot go on with: nonnegative") != NULL, "%s", err.text);
    conf.nonneg = 0;
    conf.sweeps = 1; /* it is beyond that */
    ck_assert_ptr_null(ts_cp(s, &conf, NULL, &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    conf.sweeps = 6;
    c = ts_cp(s, &conf, &result, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_uint_eq(result.sweeps_before, 2);
    ts_cpd_free(c);
    ts_session_close(s);
    test_tsh_remove(files);
    ts_close(t);
}
END_TEST

/* 0: of a run that ends well; 1: of one that is stopped. */
START_TEST(a_trace_of_a_run)
{
    const ts_session_conf sc = {
        .size = sizeof sc, .rank = 4, .threads = 1, .cpu = 1, .trace = files, .checkpoints = 1
    };
    ts_cp_conf conf = { .size = sizeof conf, .sweeps = 3, .seed = 3 };
    ts_tensor *t = open_tensor();
    ts_session *s = ts_session_open(t, &sc, &err);
    static char text[1 << 20]; /* a few hundred events */
    size_t n;
    FILE *f;
    ck_assert_msg(s != NULL, "%s", err.text);
    if (_i == 1) {
        conf.sweep = after_two;
        conf.ctx = s;
    }
    ts_cpd_free(ts_cp(s, &conf, NULL, NULL));
    ts_session_close(s);
    f = fopen(files, "r");
    ck_assert_int_eq(f != NULL, _i == 0);
    if (f != NULL) {
        n = fread(text, 1, sizeof text - 1, f);
        text[n] = '\0';
        fclose(f);
        ck_assert_ptr_nonnull(strstr(text, "\"product\""));
        ck_assert_ptr_null(ts_session_open(t, &sc, &err)); /* it is there */
        ck_assert_int_eq(err.code, TS_ERR_BUSY);
        unlink(files);
    }
    ts_close(t);
}
END_TEST

START_TEST(times_have_bins)
{
    static const char *const days[] = { "20240131", "20240207", "2024-03-01" };
    static const char *const mixed[] = { "20240208", "86400" };
    char label[TS_BINS_LABEL];
    uint64_t bin[3], n = 9;
    ts_bins *b = ts_bins_new("7d", NULL, "week", &err);
    ck_assert_ptr_nonnull(b);
    ts_bins_look(b, 3, days);
    ck_assert_int_eq(ts_bins_of(b, 3, days, bin, &n, &err), 0);
    ck_assert(n == 3 && bin[1] == bin[0] + 1 && bin[2] == bin[0] + 4);
    ts_bins_label(b, bin[1], label);
    ck_assert_str_eq(label, "2024-02-05");
    ck_assert_int_eq(ts_bins_of(b, 2, mixed, bin, &n, &err), TS_ERR_FORMAT);
    ck_assert(n == 1 && bin[0] == bin[1]);
    ck_assert_ptr_nonnull(strstr(err.text, "1970-01-02T00:00:00 in seconds since 1970"));
    ts_bins_free(b);
    b = ts_bins_new("7d", "s", "week", &err);
    ck_assert_int_eq(ts_bins_of(b, 2, mixed, bin, &n, &err), 0);
    ts_bins_free(b);
    ck_assert_ptr_null(ts_bins_new("7 days", NULL, "week", &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ck_assert_ptr_null(ts_bins_new("7d", "weeks", "week", &err));
    ck_assert_int_eq(err.code, TS_ERR_ARGUMENT);
    ts_bins_free(NULL);
}
END_TEST

/* In a locale of commas texts are written and read as anywhere. */
START_TEST(numbers_have_points_everywhere)
{
    const char *text = "1 1 1 0.5\n2 2 2 1.2345678901234567890e-3\n1 2 1 2.5e0\n";
    const char *paths[1];
    char tns[4300], line[200] = "";
    const ts_save_conf save = { .size = sizeof save, .formats = TS_FILE_KTENSOR | TS_FILE_SPLATT };
    const ts_cp_conf conf = { .size = sizeof conf, .sweeps = 2, .seed = 3 };
    ts_build_conf c = build_conf(other);
    ts_tensor *t = open_tensor();
    ts_session *s = open_session(t, 2, NULL);
    ts_cpd *d = ts_cp(s, &conf, NULL, &err), *again;
    FILE *f;
    if (localeconv()->decimal_point[0] != ',') { /* there is none: main says so */
        ts_cpd_free(d);
        ts_session_close(s);
        ts_close(t);
        return;
    }
    ck_assert_msg(ts_cpd_save(d, files, &save, &err) == 0, "%s", err.text);
    snprintf(tns, sizeof tns, "%s/model.ktensor", files);
    f = fopen(tns, "r");
    for (int i = 0; i < 5; i++)
        ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    fclose(f);
    ck_assert_ptr_nonnull(strchr(line, '.'));
    ck_assert_ptr_null(strchr(line, ','));
    again = ts_cpd_load(files, NULL, &err);
    ck_assert_msg(again != NULL, "%s", err.text);
    ck_assert_mem_eq(ts_cpd_weights(d), ts_cpd_weights(again), 4 * sizeof(double));
    snprintf(tns, sizeof tns, "%s/model.ktensor", files);
    f = fopen(tns, "w");
    fputs(text, f);
    fclose(f);
    paths[0] = tns;
    c.first_index = 1;
    c.float64 = 1;
    ck_assert_msg(ts_build_files(&c, 1, paths, NULL, &err) == 0, "%s", err.text);
    ts_close(t);
    t = ts_open(other, &err);
    ck_assert(fabs(ts_norm(t) - sqrt(0.25 + 6.25 + 1.2345678901234567e-3 * 1.2345678901234567e-3)) <
              1e-12);
    ck_assert_ptr_null(ts_session_open(t,
                                       &(ts_session_conf){ .size = sizeof(ts_session_conf),
                                                           .rank = 1,
                                                           .cpu = 1,
                                                           .host_memory = UINT64_C(1) << 60 },
                                       &err));
    ck_assert_msg(strstr(err.text, "1.00 EiB") != NULL, "%s", err.text);
    ts_cpd_free(again);
    ts_cpd_free(d);
    ts_session_close(s);
    ts_close(t);
}
END_TEST

/* Each loss has a name, which gives its number again; those that tstream.h knows have theirs. */
START_TEST(losses_have_names)
{
    double at = 7;
    int loss = 7, n = 0;
    for (const char *name; (name = ts_loss_name(n)) != NULL; n++) {
        char text[64];
        const char *letter = ts_loss_number(n);
        const double number = ts_loss_some_number(ts_api_gcp(n));
        if (letter != NULL)
            snprintf(text, sizeof text, "%s:%s", name, ts_loss_of(ts_api_gcp(n))->number_like);
        else
            snprintf(text, sizeof text, "%s", name);
        ck_assert_int_eq(ts_loss_named(text, &loss, &at, &err), 0);
        ck_assert_int_eq(loss, n);
        ck_assert(at == number);
    }
    ck_assert_int_gt(n, TS_LOSS_HUBER);
    ck_assert_str_eq(ts_loss_name(TS_LOSS_LEAST_SQUARES), "least-squares");
    ck_assert_str_eq(ts_loss_name(TS_LOSS_POISSON), "poisson");
    ck_assert_str_eq(ts_loss_name(TS_LOSS_BERNOULLI), "bernoulli");
    ck_assert_str_eq(ts_loss_name(TS_LOSS_BERNOULLI_LOGIT), "bernoulli-logit");
    ck_assert_str_eq(ts_loss_name(TS_LOSS_GAMMA), "gamma");
    ck_assert_str_eq(ts_loss_name(TS_LOSS_POISSON_LOG), "poisson-log");
    ck_assert_str_eq(ts_loss_name(TS_LOSS_HUBER), "huber");
    ck_assert_str_eq(ts_loss_number(TS_LOSS_HUBER), "D");
    ck_assert_ptr_null(ts_loss_name(-1));
    ck_assert_ptr_null(ts_loss_number(n));
    loss = 7;
    at = 7;
    ck_assert_int_eq(ts_loss_named("poisson:1", &loss, &at, &err), TS_ERR_ARGUMENT);
    ck_assert_int_eq(ts_loss_named("", &loss, &at, &err), TS_ERR_ARGUMENT);
    ck_assert_int_eq(loss, 7);
    ck_assert(at == 7);
}
END_TEST

int main(void)
{
    char dir[] = "/tmp/api_locale.XXXXXX", command[256];
    Suite *suite = suite_create("api");
    TCase *c = tcase_create("api");
    int status, made;
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, no_output_is_the_tensor);
    tcase_add_test(c, failures_are_codes_and_sentences);
    tcase_add_test(c, structs_may_grow);
    tcase_add_test(c, sessions_side_by_side);
    tcase_add_test(c, a_session_serves_many_runs);
    tcase_add_loop_test(c, a_callback_stops_a_run, 0, 2);
    tcase_add_test(c, a_flag_stops_everything);
    tcase_add_loop_test(c, a_builder_that_is_given_up_leaves_nothing, 0, 2);
    tcase_add_test(c, copies_cursors_and_rows);
    tcase_add_test(c, cells_have_weights);
    tcase_add_test(c, parts_of_a_tensor);
    tcase_add_loop_test(c, scores_are_those_of_the_obvious_loop, 0, 6);
    tcase_add_test(c, scores_of_counts_and_of_dense_arrays);
    tcase_add_test(c, a_run_goes_on);
    tcase_add_test(c, large_factors_are_mapped);
    tcase_add_test(c, a_run_ends_in_time);
    tcase_add_loop_test(c, several_models_are_those_of_their_own_runs, 0, 3);
    tcase_add_test(c, several_models_share_their_passes);
    tcase_add_test(c, a_share_that_holds_out_nothing_or_all_is_refused);
    tcase_add_loop_test(c, models_that_hold_out_share_their_passes, 0, 4);
    tcase_add_test(c, several_models_are_kept_and_go_on);
    tcase_add_test(c, several_models_go_on_from_where_each_is);
    tcase_add_test(c, several_models_go_on_without_starts);
    tcase_add_test(c, several_models_are_stopped_and_refused);
    tcase_add_test(c, a_session_knows_of_constraints);
    tcase_add_test(c, a_backend_may_lack_updates);
    tcase_add_test(c, a_run_goes_on_with_its_constraints);
    tcase_add_loop_test(c, a_start_is_saved_also_where_a_run_goes_on, 0, 3);
    tcase_add_loop_test(c, a_trace_of_a_run, 0, 2);
    tcase_add_test(c, losses_have_names);
    tcase_add_test(c, times_have_bins);
    tcase_add_test(c, numbers_have_points_everywhere);
    suite_add_tcase(suite, c);
    if (mkdtemp(dir) == NULL)
        return 1;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2> /dev/null",
             dir);
    made = system(command); /* which warns of this or that */
    setenv("LOCPATH", dir, 1);
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL)
        printf("no locale with a comma can be made: that test is left out\n");
    status = test_run_suite(suite, CK_NOFORK);
    snprintf(command, sizeof command, "rm -r %s", dir);
    made = system(command);
    (void)made;
    return status;
}
