/* SPDX-License-Identifier: BSD-3-Clause */
/* Several models side by side in the CPU backend: each has the bits that it has alone, whoever else
 * takes part in a pass, with every instruction set, precision and row update. */
#include <check.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu_backend.h"
#include "cpu/cpu_state.h"
#include "cpu/ranks/needs.h"
#include "cpu/sparse/pass.h"
#include "base/rng.h"
#include "tests/stream/memfeed.h"
#include "tests/support/run_suite.h"

#define MOST 12

static const struct shape {
    uint32_t order, nnz, value_range;
    double skew;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 3000, 9, 0, { 310, 400 } },
    { 3, 20000, 5, 0, { 40, 30, 50 } },  /* rows longer than a block, long fibres */
    { 3, 20000, 0, 3, { 2, 900, 800 } }, /* rows longer than partitions */
    { 3, 5000, 7, 0, { 5000, 60, 5000 } },
    { 4, 20000, 1000, 3, { 51, 2, 116, 900 } },
    { 7, 3000, 2, 1, { 9, 8, 7, 11, 13, 17, 2 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const struct group {
    uint32_t n, rank[MOST];
} groups[] = {
    { 8, { 16, 16, 16, 16, 16, 16, 16, 16 } },
    { 4, { 1, 3, 8, 17 } },
    { 3, { 100, 4, 48 } },
    { 5, { 33, 8, 64, 25, 9 } },
    { 10, { 5, 5, 5, 5, 5, 5, 5, 5, 5, 5 } },
    { 2, { 1, 1 } },
};
#define N_GROUPS (int)(sizeof groups / sizeof groups[0])

static uint32_t columns(uint32_t rank, enum ts_precision precision)
{
    return precision == TS_FLOAT32 ? (rank + 15) / 16 * 16 : (rank + 7) / 8 * 8;
}

static void fill(struct ts_fmat *f, uint32_t model, uint32_t mode)
{
    double *rows = malloc(f->n_rows * f->rank * sizeof *rows);
    for (uint64_t i = 0; i < f->n_rows * f->rank; i++)
        rows[i] = ts_init_entry(model + 7, mode, i / f->rank, (uint32_t)(i % f->rank));
    ts_fmat_put(f, 0, f->n_rows, rows, 1);
    free(rows);
}

static double *rows_of(const struct ts_fmat *f)
{
    double *rows = malloc(f->n_rows * f->rank * sizeof *rows);
    ts_fmat_get(f, 0, f->n_rows, rows, 1);
    return rows;
}

static void new_matrix(struct ts_feed *f, uint32_t mode, uint32_t rank, enum ts_precision precision,
                       struct ts_fmat *ret)
{
    ck_assert_int_eq(
        ts_fmat_new(f->tensor.mode[mode].disk.n_rows, rank, precision, "test", ret, NULL), 0);
}

/* The product of one model alone, in float64, with its rest. */
static double *alone(struct ts_feed *f, uint32_t mode, enum ts_isa isa, enum ts_precision precision,
                     enum ts_precision summed, uint32_t k, uint32_t rank)
{
    struct ts_backend_conf conf = {
        .tensor = &f->tensor, .rank = rank, .precision = precision, .threads = 2
    };
    struct ts_fmat factor[TS_MAX_ORDER], rest = { 0 };
    struct ts_pass_model model = { .out = &factor[mode], .summed = summed };
    struct ts_pass *pass;
    double *ret;
    for (uint32_t m = 0; m < f->tensor.order; m++) {
        new_matrix(f, m, rank, precision, &factor[m]);
        fill(&factor[m], k, m);
    }
    if (summed != precision) {
        new_matrix(f, mode, rank, TS_FLOAT32, &rest);
        factor[mode].rest = rest.data;
    }
    ck_assert_int_eq(ts_pass_new(&conf, isa, 2, &pass, NULL), 0);
    f->given = f->given_back = 0;
    ck_assert_int_eq(ts_pass_run(pass, mode, factor, 1, &model, f, NULL, NULL), 0);
    ret = rows_of(&factor[mode]);
    ts_pass_free(pass);
    ts_fmat_free(&rest);
    for (uint32_t m = 0; m < f->tensor.order; m++)
        ts_fmat_free(&factor[m]);
    return ret;
}

/* Of a group the models in `who` (bit k: model k), of which those in `wide` are summed in float64.
 * The factors of the others stay. */
static void compare(struct ts_feed *f, uint32_t mode, enum ts_isa isa, enum ts_precision precision,
                    const struct group *g, uint32_t who, uint32_t wide, uint64_t spare)
{
    struct ts_backend_conf conf = { .tensor = &f->tensor, .precision = precision, .threads = 2 };
    struct ts_fmat all[TS_MAX_ORDER], rest, view[MOST];
    struct ts_pass_model model[MOST];
    uint32_t col[MOST], n = 0;
    struct ts_pass *pass;
    for (uint32_t k = 0; k < g->n; k++) {
        col[k] = conf.rank;
        conf.rank += columns(g->rank[k], precision);
    }
    new_matrix(f, mode, conf.rank, TS_FLOAT32, &rest);
    for (uint32_t m = 0; m < f->tensor.order; m++) {
        new_matrix(f, m, conf.rank, precision, &all[m]);
        for (uint32_t k = 0; k < g->n; k++) {
            struct ts_fmat v = ts_fmat_view(&all[m], col[k], g->rank[k]);
            fill(&v, k, m);
            if (m == mode)
                view[k] = v;
        }
    }
    for (uint32_t k = 0; k < g->n; k++) {
        const int is_wide = precision == TS_FLOAT32 && (wide >> k & 1) != 0;
        if ((who >> k & 1) == 0)
            continue;
        if (is_wide)
            view[k].rest = (float *)rest.data + col[k];
        model[n++] = (struct ts_pass_model){ .col = col[k],
                                             .out = &view[k],
                                             .summed = is_wide ? TS_FLOAT64 : precision };
    }
    conf.spare_bytes = spare;
    ck_assert_int_eq(ts_pass_new(&conf, isa, 2, &pass, NULL), 0);
    for (int run = 0; run < (spare > 0 ? 3 : 1); run++) { /* decoded; kept; as they were kept */
        f->given = f->given_back = 0;
        ck_assert_int_eq(ts_pass_run(pass, mode, all, n, model, f, NULL, NULL), 0);
        ck_assert_uint_eq(f->given, f->tensor.mode[mode].disk.n_shards); /* one pass for all */
        ck_assert_uint_eq(f->given_back, f->given);
    }
    for (uint32_t k = 0; k < g->n; k++) {
        const int is_wide = precision == TS_FLOAT32 && (wide >> k & 1) != 0;
        double *got = rows_of(&view[k]), *want;
        if ((who >> k & 1) != 0) {
            want = alone(f, mode, isa, precision, is_wide ? TS_FLOAT64 : precision, k, g->rank[k]);
        } else {
            struct ts_fmat was;
            new_matrix(f, mode, g->rank[k], precision, &was);
            fill(&was, k, mode);
            want = rows_of(&was);
            ts_fmat_free(&was);
        }
        ck_assert_msg(memcmp(got, want, view[k].n_rows * g->rank[k] * sizeof *got) == 0,
                      "mode %u, isa %d, model %u of rank %u: not the bits that it has alone", mode,
                      (int)isa, k, g->rank[k]);
        free(got);
        free(want);
    }
    ts_pass_free(pass);
    ts_fmat_free(&rest);
    for (uint32_t m = 0; m < f->tensor.order; m++)
        ts_fmat_free(&all[m]);
}

START_TEST(products_are_those_of_each_alone)
{
    const struct shape *s = &shapes[_i / N_GROUPS];
    const struct group *g = &groups[_i % N_GROUPS];
    struct test_coo x = test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
    struct ts_feed *f =
        memfeed_new(&x, s->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F32, 1 + (uint32_t)_i % 3, 1);
    const uint32_t last = s->order - 1, every = (1u << g->n) - 1, some = 0x2adu & every;
    for (enum ts_isa isa = 0; isa < TS_N_ISA; isa++) {
        if (!ts_isa_here(isa))
            continue;
        compare(f, (uint32_t)_i % s->order, isa, TS_FLOAT32, g, every, 0, 0);
        compare(f, last, isa, TS_FLOAT32, g, every, 0x1b2u, 0);
        compare(f, last, isa, TS_FLOAT32, g, some, every, ts_plain_bytes(&f->tensor, -1));
        compare(f, (uint32_t)_i % s->order, isa, TS_FLOAT64, g, some, 0, 0);
        compare(f, last, isa, TS_FLOAT64, g, 1, 0, 0);
    }
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* ---- rows: the models of a backend against backends of their own ---- */

/* What a step of ALS does to a mode: all results go to ret. */
static uint64_t work(void *be, struct ts_feed *f, uint32_t k, uint32_t rank, uint32_t mode,
                     enum ts_row_kind kind, double *ret)
{
    const uint64_t n = f->tensor.mode[mode].disk.n_rows;
    double *matrix = malloc((size_t)rank * rank * sizeof *matrix), *at = ret;
    struct ts_row_update how = {
        .kind = kind, .matrix = matrix, .upper = INFINITY, .rounds = 3, .inverse = matrix, .rho = 2
    };
    struct ts_row_sums sums = { .gram = at, .inner = at + (size_t)rank * rank };
    for (uint32_t i = 0; i < rank * rank; i++)
        matrix[i] = (i / rank == i % rank) + 0.1 * ts_init_entry(k, 9, i % rank * (i / rank), 0);
    at += (size_t)rank * rank + 1;
    ck_assert_int_eq(ts_backend_cpu.solve(be, mode, &how, &sums, NULL), 0);
    for (uint32_t r = 0; r < rank; r++)
        matrix[r] = 1 / (1.0 + r);
    ck_assert_int_eq(ts_backend_cpu.scale(be, mode, matrix, NULL), 0);
    ck_assert_int_eq(ts_backend_cpu.gram(be, mode, at, NULL), 0);
    at += (size_t)rank * rank;
    ck_assert_int_eq(ts_backend_cpu.get_rows(be, mode, 0, n, at, NULL), 0);
    free(matrix);
    return (uint64_t)(at - ret) + n * rank;
}

static void put_start(void *be, struct ts_feed *f, uint32_t k, uint32_t rank)
{
    for (uint32_t m = 0; m < f->tensor.order; m++) {
        const uint64_t n = f->tensor.mode[m].disk.n_rows;
        double *rows = malloc(n * rank * sizeof *rows);
        for (uint64_t i = 0; i < n * rank; i++)
            rows[i] = ts_init_entry(k + 7, m, i / rank, (uint32_t)(i % rank));
        ck_assert_int_eq(ts_backend_cpu.put_rows(be, m, 0, n, rows, NULL), 0);
        free(rows);
    }
}

START_TEST(rows_are_those_of_each_alone)
{
    static const enum ts_row_kind kinds[] = { TS_ROW_LEAST_SQUARES, TS_ROW_COORDINATE,
                                              TS_ROW_SIMPLEX, TS_ROW_KEEP };
    const struct shape *s = &shapes[4];
    const struct group *g = &groups[_i % N_GROUPS];
    const enum ts_precision precision = _i / N_GROUPS % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    const enum ts_row_kind kind = kinds[_i / N_GROUPS / 2];
    const uint32_t own = kind == TS_ROW_LEAST_SQUARES ? 0 : (1u << s->order) - 1;
    struct test_coo x = test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 2, 1);
    struct ts_backend_conf conf = { .tensor = &f->tensor,
                                    .precision = precision,
                                    .threads = 1 + (uint32_t)_i % 3,
                                    .only_mode = -1 };
    const uint64_t room = 116 * 1100 + 900 * 100 * 100;
    double *got = malloc(room * sizeof *got), *want = malloc(room * sizeof *want);
    void *all, *be[MOST];
    uint64_t factor_bytes, other_bytes;
    conf.n_models = g->n;
    conf.ranks = g->rank;
    conf.own_rows = own;
    ts_backend_cpu.need(&conf, &factor_bytes, &other_bytes);
    ck_assert_int_eq(ts_backend_cpu.open(&conf, &all, NULL), 0);
    for (uint32_t k = 0; k < g->n; k++) {
        be[k] = ts_backend_cpu.model(all, k);
        put_start(be[k], f, k, g->rank[k]);
        ck_assert_int_eq(ts_backend_cpu.own_rows(be[k], own, NULL), 0);
        if (k % 2 == 1)
            ts_backend_cpu.sum_in(be[k], TS_FLOAT64);
    }
    for (uint32_t m = s->order - 1; m < s->order; m--) {
        struct ts_backend_times times;
        struct ts_request of[MOST] = { 0 };
        for (uint32_t k = 0; k < g->n; k++)
            of[k].be = be[k];
        f->given = f->given_back = 0;
        ck_assert_int_eq(ts_backend_cpu.pass(of, g->n, m, f, &times, NULL), 0);
        for (uint32_t k = 0; k < g->n; k++) {
            struct ts_backend_conf one = conf;
            void *other;
            uint64_t n = work(be[k], f, k, g->rank[k], m, kind, got);
            one.n_models = 0;
            one.rank = g->rank[k];
            ck_assert_int_eq(ts_backend_cpu.open(&one, &other, NULL), 0);
            put_start(other, f, k, g->rank[k]);
            ck_assert_int_eq(ts_backend_cpu.own_rows(other, own, NULL), 0);
            if (k % 2 == 1)
                ts_backend_cpu.sum_in(other, TS_FLOAT64);
            f->given = f->given_back = 0;
            ck_assert_int_eq(
                ts_backend_cpu.pass(&(struct ts_request){ .be = other }, 1, m, f, &times, NULL), 0);
            ck_assert_uint_eq(work(other, f, k, g->rank[k], m, kind, want), n);
            ck_assert_msg(memcmp(got, want, n * sizeof *got) == 0,
                          "mode %u, model %u of rank %u: not the bits that it has alone", m, k,
                          g->rank[k]);
            ts_backend_cpu.close(other);
            put_start(be[k], f, k, g->rank[k]); /* the next mode from the same operands */
        }
    }
    ts_backend_cpu.close(all);
    free(got);
    free(want);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* An update whose matrix is there once somebody has asked for it. */
struct late {
    uint32_t k, rank;
    int fails;
    double *matrix;
    atomic_int calls;
};

static int make_matrix(void *ctx, struct ts_err *err)
{
    struct late *l = ctx;
    atomic_fetch_add(&l->calls, 1);
    if (l->fails)
        return ts_fail(err, TS_ESTOP, "model %u was stopped", l->k);
    for (uint32_t i = 0; i < l->rank * l->rank; i++)
        l->matrix[i] = ts_init_entry(l->k, 11, i, 0);
    return 0;
}

/* Products and rows in one call, of all models and of one, against calls one after the other; then
 * one of them fails. */
START_TEST(updates_make_themselves_ready)
{
    const struct shape *s = &shapes[4];
    const struct group *g = &groups[_i % N_GROUPS];
    const enum ts_precision precision = _i / N_GROUPS % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    struct test_coo x = test_coo_random(5, s->order, s->dim, s->nnz, s->value_range, s->skew);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 2, 1);
    struct ts_backend_conf conf = { .tensor = &f->tensor,
                                    .precision = precision,
                                    .threads = 1 + (uint32_t)_i % 3,
                                    .n_models = g->n,
                                    .ranks = g->rank,
                                    .only_mode = -1 };
    struct ts_row_update how[MOST];
    struct ts_row_sums sums[MOST] = { 0 };
    struct ts_request of[MOST];
    struct late late[MOST];
    struct ts_backend_times times;
    struct ts_err err;
    void *all;
    ck_assert_int_eq(ts_backend_cpu.open(&conf, &all, NULL), 0);
    for (uint32_t k = 0; k < g->n; k++) {
        const uint32_t rank = g->rank[k];
        late[k] = (struct late){ .k = k, .rank = rank };
        late[k].matrix = malloc((size_t)rank * rank * sizeof(double));
        sums[k].gram = malloc((size_t)rank * rank * sizeof(double));
        how[k] = (struct ts_row_update){ .kind = TS_ROW_LEAST_SQUARES,
                                         .matrix = late[k].matrix,
                                         .ready = make_matrix,
                                         .ctx = &late[k] };
        of[k] = (struct ts_request){ .be = ts_backend_cpu.model(all, k),
                                     .update = &how[k],
                                     .sums = &sums[k] };
        put_start(of[k].be, f, k, rank);
    }
    f->given = f->given_back = 0;
    ck_assert_int_eq(ts_backend_cpu.pass(of, g->n, 1, f, &times, NULL), 0);
    ck_assert_uint_ge(times.total_ns, times.device[0].solve_ns);
    for (uint32_t k = 0; k < g->n; k++) {
        const uint32_t rank = g->rank[k];
        const uint64_t n = f->tensor.mode[1].disk.n_rows;
        double *got = malloc(n * rank * sizeof *got), *want = malloc(n * rank * sizeof *want);
        double *gram = malloc((size_t)rank * rank * sizeof *gram);
        ck_assert_int_eq(atomic_load(&late[k].calls), 1);
        ck_assert_int_eq(ts_backend_cpu.get_rows(of[k].be, 1, 0, n, got, NULL), 0);
        put_start(of[k].be, f, k, rank);
        f->given = f->given_back = 0;
        ck_assert_int_eq(
            ts_backend_cpu.pass(&(struct ts_request){ .be = of[k].be }, 1, 1, f, &times, NULL), 0);
        ck_assert_int_eq(
            ts_backend_cpu.solve(of[k].be, 1, &how[k], &(struct ts_row_sums){ .gram = gram }, NULL),
            0);
        ck_assert_int_eq(ts_backend_cpu.get_rows(of[k].be, 1, 0, n, want, NULL), 0);
        ck_assert_int_eq(memcmp(got, want, n * rank * sizeof *got), 0);
        ck_assert_int_eq(memcmp(sums[k].gram, gram, (size_t)rank * rank * sizeof *gram), 0);
        free(got);
        free(want);
        free(gram);
    }
    late[g->n - 1].fails = 1;
    f->given = f->given_back = 0;
    ck_assert_int_eq(ts_backend_cpu.pass(of, g->n, 1, f, &times, &err), TS_ESTOP);
    ck_assert(strstr(err.text, "was stopped") != NULL);
    ck_assert_uint_eq(f->given, f->given_back);
    ts_backend_cpu.close(all);
    for (uint32_t k = 0; k < g->n; k++) {
        free(late[k].matrix);
        free(sums[k].gram);
    }
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* Of five models of rank 16: 64 bytes of a row each, in float64 128. */
START_TEST(models_that_go_well_together)
{
    static const uint32_t ranks[] = { 16, 16, 16, 16, 16 };
    const uint64_t dim[] = { 1000, 10, 10 };
    struct test_coo x = test_coo_random(5, 3, dim, 5000, 9, 0);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 2, 1);
    struct ts_backend_conf conf = { .tensor = &f->tensor,
                                    .n_models = 5,
                                    .ranks = ranks,
                                    .precision = TS_FLOAT32,
                                    .threads = 1,
                                    .only_mode = -1 };
    const uint64_t row = 64 * f->tensor.mode[0].disk.n_rows;
    ck_assert_uint_gt(row, 64 * 900);
    ck_assert_uint_eq(ts_cpu_together(&conf, 5 * row, 0), 5);
    ck_assert_uint_eq(ts_cpu_together(&conf, 5 * row - 1, 0), 4);
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 0), 4); /* 256 bytes of a row */
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 100 * row), 4);
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 4 * 4 * row), 4);
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 4 * 4 * row - 1), 3);
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 4 * 2 * row), 2);     /* three would not be near */
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 4 * 2 * row - 1), 4); /* nor are two */
    ck_assert_uint_eq(ts_cpu_together(&conf, 3 * row, 4 * 2 * row), 3);
    conf.precision = TS_FLOAT64;
    ck_assert_uint_eq(ts_cpu_together(&conf, 7 * row, 0), 3);
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 0), 2);
    conf.n_models = 2;
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 0), 2);
    conf.n_models = 1;
    ck_assert_uint_eq(ts_cpu_together(&conf, 1, 0), 1);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* To whom rows go several models do not ask: each sends all rows to all ranks. */
START_TEST(models_that_are_apart_need_what_they_take)
{
    static const uint32_t ranks[] = { 16, 16, 16 };
    const uint64_t dim[] = { 1000, 10, 10 };
    const uint32_t machine[] = { 0, 1 };
    struct ts_comm comm = { .n = 2, .beside = 1, .machine = machine };
    struct test_coo x = test_coo_random(5, 3, dim, 5000, 9, 0);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 2, 1);
    struct ts_backend_conf one = { .tensor = &f->tensor,
                                   .rank = 16,
                                   .needs = 1u << TS_ROW_OBSERVED,
                                   .threads = 1,
                                   .comm = &comm,
                                   .only_mode = -1 };
    struct ts_backend_conf all = one;
    const uint64_t needs = ts_needs_bytes(&f->tensor, &comm, 16 * sizeof(float));
    uint64_t factors[2], others[2];
    all.n_models = 3;
    all.ranks = ranks;
    ts_backend_cpu.need(&one, &factors[0], &others[0]);
    ts_backend_cpu.need(&all, &factors[1], &others[1]);
    ck_assert_uint_eq(factors[1], 3 * factors[0]);
    ck_assert_uint_eq(others[1], 3 * (others[0] - needs));
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* Blocks that are kept decoded serve each of them, also when the first model is over. */
START_TEST(models_that_are_apart_share_blocks)
{
    static const uint32_t ranks[] = { 3, 5 };
    const uint64_t dim[] = { 1000, 10, 10 };
    struct test_coo x = test_coo_random(5, 3, dim, 5000, 9, 0);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 2, 1);
    const struct ts_backend_conf conf = { .tensor = &f->tensor,
                                          .n_models = 2,
                                          .ranks = ranks,
                                          .needs = 1u << TS_ROW_OBSERVED,
                                          .threads = 1,
                                          .spare_bytes = 1 << 20,
                                          .only_mode = -1 };
    const struct ts_cpu *second;
    void *be;
    ck_assert_int_eq(ts_backend_cpu.open(&conf, &be, NULL), 0);
    second = ts_backend_cpu.model(be, 1);
    ck_assert_ptr_nonnull(ts_pass_plain(second->shared->pass));
    ck_assert_ptr_eq(ts_pass_plain(second->shared->pass),
                     ts_pass_plain(((struct ts_cpu *)be)->shared->pass));
    ts_backend_cpu.close(be);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* A backend that lacks a capability is refused with its sentence, and calls that its bits promise
 * are there. */
START_TEST(the_table_says_what_it_can_do)
{
    struct ts_backend b = ts_backend_cpu;
    ck_assert_uint_eq(b.version, TS_BACKEND_VERSION);
    ck_assert_uint_eq(b.bytes, sizeof b);
    ck_assert(b.pass != NULL && b.solve != NULL && b.divide_columns != NULL && b.zeros != NULL);
    ck_assert(ts_backend_can(&b, TS_CAN_HELD_OUT) && b.hold_out != NULL);
    ck_assert(ts_backend_can(&b, TS_CAN_RANKS) && b.spread != NULL && b.shares != NULL &&
              b.collect != NULL && b.agree != NULL && b.given_up != NULL && b.tell_ranks != NULL &&
              b.exchanged != NULL);
    ck_assert(!ts_backend_can(&b, TS_CAN_OWN_MEMORY) && b.memory == NULL && b.pin == NULL);
    for (enum ts_capability one = 0; one < TS_N_CAPABILITIES; one++) {
        struct ts_err err = { 0 };
        b.can = UINT32_MAX & ~(UINT32_C(1) << one);
        ck_assert_int_eq(ts_backend_check(&b, UINT32_C(1) << one, &err), TS_EARG);
        ck_assert_uint_gt(strlen(err.text), 0);
        b.can = UINT32_C(1) << one;
        ck_assert_int_eq(ts_backend_check(&b, UINT32_C(1) << one, &err), 0);
    }
}
END_TEST

/* The facts of each update, in words of their own: the list of row_update.h has them as numbers. */
START_TEST(updates_have_their_facts)
{
    const uint32_t from_old = TS_CAN(COORDINATE) | TS_CAN(KEEP) | TS_CAN(SIMPLEX) |
                              TS_CAN(SMOOTH_WITHIN) | TS_CAN(MULTIPLY) | TS_CAN(DESCEND);
    const uint32_t by_method = TS_CAN(POLAR) | TS_CAN(SMOOTH) | TS_CAN(SMOOTH_WITHIN);
    for (enum ts_row_kind kind = 0; kind < TS_N_ROW_KINDS; kind++) {
        ck_assert_int_eq(ts_row_reads_old(kind), (int)(from_old >> kind & 1));
        ck_assert_int_eq(ts_row_by_backend(kind), !(by_method >> kind & 1));
    }
    ck_assert_int_eq(TS_ROWS_BY_GRAMS, (int)TS_CAN(OBSERVED));
    ck_assert_int_eq(TS_ROWS_BY_LOSS, (int)(TS_CAN(MULTIPLY) | TS_CAN(DESCEND)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu_models");
    TCase *t = tcase_create("cpu_models");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, products_are_those_of_each_alone, 0, N_SHAPES * N_GROUPS);
    tcase_add_loop_test(t, rows_are_those_of_each_alone, 0, 8 * N_GROUPS);
    tcase_add_loop_test(t, updates_make_themselves_ready, 0, 2 * N_GROUPS);
    tcase_add_test(t, models_that_go_well_together);
    tcase_add_test(t, models_that_are_apart_need_what_they_take);
    tcase_add_test(t, models_that_are_apart_share_blocks);
    tcase_add_test(t, the_table_says_what_it_can_do);
    tcase_add_test(t, updates_have_their_facts);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
