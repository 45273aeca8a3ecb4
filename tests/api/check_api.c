/* SPDX-License-Identifier: BSD-3-Clause */
/* What include/tstream.h promises beside what examples/embed.c shows: failures, old and new
 * programs, stops, several sessions at once, and a locale with a comma. */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tstream.h>

#include "api/api_session.h"
#include "tests/api/api_case.h"
#include "tests/support/run_suite.h"

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

/* Of each of three cells two nonzeros, the second of twice the value: with weights, their mean by
 * them. */
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
    /* (1 + 2) / 2 and (3 * 2 + 4) / 4, twice and four times; the model is 1 and 8; the third cell
     * counts for nothing */
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

/* Columns give the tensor that rows give, with weights and without, and the same refusals. */
START_TEST(columns_are_rows)
{
    static const uint64_t first[] = { 0, 1, 2, 0, 3 }, second[] = { 4, 4, 0, 4, 1 };
    static const double value[] = { 1, -2, 3.5, 2, 0.25 }, weight[] = { 1, 2, 0.5, 3, 1 };
    const uint64_t *const column[2] = { first, second };
    const double *weights = _i == 1 ? weight : NULL;
    uint64_t rows[10], beyond[] = { 0, UINT64_MAX, 0, 0, 0 };
    const uint64_t *const wrong[2] = { first, beyond };
    ts_build_conf c = build_conf(other);
    double norm[2];
    ts_builder *b;
    c.order = 2;
    c.weights = _i;
    for (int k = 0; k < 5; k++) {
        rows[2 * k] = first[k];
        rows[2 * k + 1] = second[k];
    }
    for (int by_column = 0; by_column < 2; by_column++) {
        ts_tensor *t;
        b = ts_builder_new(&c, &err);
        ck_assert_int_eq(by_column ? ts_builder_add_columns(b, 5, column, value, weights, &err)
                         : _i == 1 ? ts_builder_add_weighted(b, 5, rows, value, weights, &err)
                                   : ts_builder_add(b, 5, rows, value, &err),
                         0);
        ck_assert_msg(ts_builder_finish(b, NULL, &err) == 0, "%s", err.text);
        ts_builder_free(b);
        t = ts_open(other, &err);
        ck_assert_uint_eq(ts_nnz(t), 4);
        ck_assert_uint_eq(ts_dim(t, 1), 5);
        norm[by_column] = ts_norm(t);
        ts_close(t);
        c.replace = 1;
    }
    ck_assert(norm[0] == norm[1] && norm[0] > 0);
    b = ts_builder_new(&c, &err);
    ck_assert_int_ne(ts_builder_add_columns(b, 5, wrong, value, weights, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "nonzero 1: index"));
    ts_builder_free(b);
    c.weights = 0;
    b = ts_builder_new(&c, &err);
    ck_assert_int_eq(ts_builder_add_columns(b, 5, column, value, weight, &err), TS_ERR_ARGUMENT);
    ts_builder_free(b);
}
END_TEST

START_TEST(a_tensor_grows)
{
    static const char *const told[] = { "value=births", "column.1=state", "column.2=name" };
    const uint64_t first[] = { 0, 1, 1, 0 }, second[] = { 4, 1, 0, 1 };
    const double value[] = { 1, 2 };
    char text[64];
    ts_build_conf c = {
        .size = sizeof c, .out = other, .memory = 64 << 20, .threads = 1, .order = 2
    };
    ts_build_result result = { .size = sizeof result };
    ts_builder *b;
    ts_tensor *t;
    c.replace = 1;
    c.told = told;
    c.n_told = 3;
    b = ts_builder_new(&c, &err);
    ck_assert_int_eq(ts_builder_add(b, 2, first, value, &err), 0);
    ck_assert_int_eq(ts_builder_finish(b, &result, &err), 0);
    ck_assert_uint_eq(result.segments, 1);
    ts_builder_free(b);
    /* it would replace, or be of another kind */
    ck_assert_ptr_null(ts_builder_append(&c, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "replaces nothing"));
    c = (ts_build_conf){ .size = sizeof c, .out = other, .threads = 1, .float64 = 1 };
    ck_assert_ptr_null(ts_builder_append(&c, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "float64"));
    c.float64 = 0;
    ck_assert_int_eq(ts_undo(other, NULL, &err), TS_ERR_ARGUMENT);
    b = ts_builder_append(&c, &err);
    ck_assert_int_eq(ts_builder_add(b, 2, second, value, &err), 0);
    ck_assert_msg(ts_builder_finish(b, &result, &err) == 0, "%s", err.text);
    ts_builder_free(b);
    ck_assert_uint_eq(result.segments, 2);
    ck_assert_uint_eq(result.nnz, 2);
    /* the same once more, and a program that ends before the tensor is read */
    b = ts_builder_append(&c, &err);
    ck_assert_int_eq(ts_builder_add(b, 2, second, value, &err), 0);
    ck_assert_int_eq(ts_builder_finish(b, NULL, &err), TS_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "those of segment 2"));
    ck_assert_ptr_nonnull(strstr(err.text, "repeat"));
    ts_builder_free(b);
    ts_builder_free(ts_builder_append(&c, &err));
    t = ts_open_segment(other, UINT32_MAX, &err);
    ck_assert_uint_eq(ts_nnz(t), 2);
    ck_assert_uint_eq(ts_dim(t, 0), 5);
    ts_close(t);
    ck_assert_ptr_null(ts_open_segment(other, 2, &err));
    t = ts_open(other, &err);
    ck_assert_uint_eq(ts_nnz(t), 3); /* a cell of both, too */
    ck_assert_int_eq(ts_built_with(t, "column", 1, sizeof text, text, &err), 1);
    ck_assert_str_eq(text, "name");
    ck_assert_int_eq(ts_built_with(t, "bin", 1, sizeof text, text, &err), 0);
    ck_assert_int_eq(ts_built_with(t, "nothing", 0, sizeof text, text, &err), 0);
    ts_close(t);
    ck_assert_int_eq(ts_undo(other, &result, &err), 0);
    ck_assert_uint_eq(result.segments, 1);
    b = ts_builder_append(&c, &err);
    ck_assert_int_eq(ts_builder_add(b, 2, second, value, &err), 0);
    ck_assert_int_eq(ts_builder_finish(b, NULL, &err), 0);
    ts_builder_free(b);
    ck_assert_int_eq(ts_compact(&c, &result, &err), 0);
    ck_assert_uint_eq(nnz_of(other), 3);
    ck_assert_int_eq(ts_undo(other, NULL, &err), TS_ERR_ARGUMENT);
    c.out = "no-such.tsh";
    ck_assert_ptr_null(ts_builder_append(&c, &err));
    ck_assert_int_eq(ts_compact(&c, NULL, &err), TS_ERR_IO);
    ck_assert_int_eq(ts_append_files(&c, NULL, 0, NULL, NULL, &err), TS_ERR_ARGUMENT);
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
    snprintf(command, sizeof command, "diff -r -x index -x modes -x sums -x options %s %s", tensor,
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

/* Sums over all nonzeros and by slice of each mode, and the largest residuals, against the obvious
 * loop. Terms are of one sign or few, in float64: 1e-12; in float32 1e-5. */
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
    ck_assert_ptr_nonnull(strstr(err.text, "cell [1, 1] (counted from 0) is NaN"));
    ck_assert_int_eq(ts_cpd_core(c, sparse, NULL, NULL, &err), TS_ERR_ARGUMENT);
    ts_cpd_free(c);
    ts_close(t);
    ts_close(sparse);
}
END_TEST

/* Names of modes and indices that a program gives are read as those of a directory are. */
START_TEST(arrays_have_names)
{
    const float cells[6] = { 1, 2, 3, 4, 5, 6 };
    const uint64_t dim[2] = { 2, 3 }, index[3] = { 1, 0, 1 }, beyond[1] = { 7 };
    const char *const mode_name[2] = { "who", NULL };
    const char *const who[2] = { "ann", "ben" }, *const wrong[2] = { "ann", "b\nn" };
    const char *const *const label[2] = { who, NULL };
    const char *const *const wrong_label[2] = { wrong, NULL };
    const char *const twice[2] = { "who", "who" };
    ts_array_conf array = { .size = sizeof array,
                            .cells = cells,
                            .type = "float32",
                            .order = 2,
                            .dim = dim,
                            .mode_name = mode_name,
                            .label = label };
    ts_tensor *t = ts_open_array(&array, &err);
    char *got[3];
    ck_assert_msg(t != NULL, "%s", err.text);
    ck_assert_str_eq(ts_name(t, 0), "who");
    ck_assert_ptr_null(ts_name(t, 1));
    ck_assert_int_eq(ts_labels(t, 0, 3, index, got, &err), 0);
    ck_assert_str_eq(got[0], "ben");
    ck_assert_str_eq(got[1], "ann");
    ck_assert_str_eq(got[2], "ben");
    ts_labels_free(3, got);
    ck_assert_int_eq(ts_labels(t, 1, 1, index, got, &err), 0);
    ck_assert_ptr_null(got[0]);
    ck_assert_int_eq(ts_labels(t, 0, 1, beyond, got, &err), 0);
    ck_assert_ptr_null(got[0]);
    ts_close(t);
    array.label = wrong_label;
    ck_assert_ptr_null(ts_open_array(&array, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "label 1 of mode 1 has a line end"));
    array.label = NULL;
    array.mode_name = twice;
    ck_assert_ptr_null(ts_open_array(&array, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "two modes are called who"));
    array.size = offsetof(ts_array_conf, mode_name); /* of a program that knows no names */
    t = ts_open_array(&array, &err);
    ck_assert_msg(t != NULL && ts_name(t, 0) == NULL, "%s", err.text);
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
    tcase_add_loop_test(c, columns_are_rows, 0, 2);
    tcase_add_test(c, a_tensor_grows);
    tcase_add_test(c, parts_of_a_tensor);
    tcase_add_loop_test(c, scores_are_those_of_the_obvious_loop, 0, 6);
    tcase_add_test(c, scores_of_counts_and_of_dense_arrays);
    tcase_add_test(c, arrays_have_names);
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
