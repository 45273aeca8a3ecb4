/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of observed cells is that of a slow, obvious program, never gets worse, leaves
 * held-out cells alone, and has the same bits however it is run. */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/cpd/cp_case.h"
#include "tests/support/run_suite.h"

#define L2 0.2

static void demand(uint32_t order, int which, struct ts_spec *spec)
{
    *spec =
        (struct ts_spec){ .observed = 1, .by_count = which == 1, .mean = which == 1 || which == 2 };
    for (uint32_t m = 0; m < order; m++)
        spec->mode[m] =
            (struct ts_constraint){ .l2 = L2, .nonneg = which == 2 || (which == 3 && m == 0) };
}
#define N_DEMANDS 4

/* ---- the slow program ---- */

struct slow {
    const struct test_coo *x;
    struct ts_hold_out hold_out;
    uint32_t rank;
    int by_count;
    double mean; /* of the cells that are not held out; 0: it is not subtracted */
    double *a[TS_MAX_ORDER];
};

static int is_held(const struct slow *b, uint64_t i)
{
    uint64_t hash = ts_hold_out_begin(&b->hold_out);
    for (uint32_t m = 0; m < b->x->order; m++)
        hash = ts_hold_out_add(hash, b->x->idx[m][i]);
    return b->hold_out.share > 0 && ts_hold_out_held(&b->hold_out, hash);
}

static double weight_of(const struct slow *b, uint64_t i)
{
    return b->x->weight == NULL ? 1 : (double)b->x->weight[i];
}

/* The products of the rows of all modes but one. */
static void products(const struct slow *b, uint64_t i, uint32_t but, double *p)
{
    for (uint32_t r = 0; r < b->rank; r++) {
        p[r] = 1;
        for (uint32_t m = 0; m < b->x->order; m++)
            p[r] *= m == but ? 1 : b->a[m][(size_t)b->x->idx[m][i] * b->rank + r];
    }
}

static double model(const struct slow *b, uint64_t i)
{
    double p[64], sum = 0;
    products(b, i, b->x->order, p);
    for (uint32_t r = 0; r < b->rank; r++)
        sum += p[r];
    return sum + b->mean;
}

static void solve_row(const struct slow *b, uint32_t mode, uint64_t row)
{
    const uint32_t n = b->rank;
    double s[64][65] = { { 0 } }, p[64], count = 0, *a = b->a[mode] + row * n;
    for (uint64_t i = 0; i < b->x->nnz; i++) {
        if (b->x->idx[mode][i] != row || is_held(b, i))
            continue;
        products(b, i, mode, p);
        count += weight_of(b, i);
        for (uint32_t j = 0; j < n; j++) {
            for (uint32_t k = 0; k < n; k++)
                s[j][k] += weight_of(b, i) * p[j] * p[k];
            s[j][n] += weight_of(b, i) * (b->x->val[i] - b->mean) * p[j];
        }
    }
    for (uint32_t k = 0; k < n; k++)
        s[k][k] += L2 * (!b->by_count ? 1 : count > 0 ? count : 1);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = k + 1; i < n; i++) {
            const double by = s[i][k] / s[k][k];
            for (uint32_t j = k; j <= n; j++)
                s[i][j] -= by * s[k][j];
        }
    for (uint32_t k = n; k-- > 0;) {
        a[k] = s[k][n];
        for (uint32_t j = k + 1; j < n; j++)
            a[k] -= s[k][j] * a[j];
        a[k] /= s[k][k];
    }
}

static double mean_of(const struct slow *b)
{
    double sum = 0, n = 0;
    for (uint64_t i = 0; i < b->x->nnz; i++) {
        sum += is_held(b, i) ? 0 : weight_of(b, i) * b->x->val[i];
        n += is_held(b, i) ? 0 : weight_of(b, i);
    }
    return sum / n;
}

/* Root mean squares over the cells that are held out, or that are not; *size: of the values. */
static double error(const struct slow *b, int held, double *size)
{
    double left = 0, squares = 0, n = 0;
    for (uint64_t i = 0; i < b->x->nnz; i++) {
        const double d = b->x->val[i] - model(b, i);
        if (is_held(b, i) != held)
            continue;
        n += weight_of(b, i);
        left += weight_of(b, i) * d * d;
        squares += weight_of(b, i) * b->x->val[i] * b->x->val[i];
    }
    *size = sqrt(squares / n);
    return sqrt(left / n);
}

/* The run of conf, which has the constraints of `which`, of the cells of x. */
static void compare_run(const struct test_coo *x, const struct test_cp_conf *conf, int which)
{
    struct slow b = {
        .x = x, .hold_out = conf->hold_out, .rank = conf->rank, .by_count = which == 1
    };
    struct test_cp a = test_case_run(conf);
    const uint32_t rank = conf->rank;
    double size;
    if (conf->spec->mean) {
        b.mean = mean_of(&b);
        ck_assert_double_eq_tol(a.last.mean, b.mean, 1e-13 * fabs(b.mean));
        ck_assert_uint_eq(a.rank, rank + 1);
    } else {
        ck_assert(isnan(a.last.mean));
    }
    for (uint32_t m = 0; m < x->order; m++) {
        b.a[m] = malloc(x->dim[m] * rank * sizeof(double));
        for (uint64_t i = 0; i < x->dim[m] * rank; i++)
            b.a[m][i] = ts_init_entry(conf->seed, m, i / rank, (uint32_t)(i % rank));
    }
    for (uint32_t k = 0; k < conf->iters; k++) {
        double rmse;
        for (uint32_t m = 0; m < x->order; m++)
            for (uint64_t row = 0; row < x->dim[m]; row++)
                solve_row(&b, m, row);
        rmse = error(&b, 0, &size);
        ck_assert_double_le(fabs(a.fit[k] - (1 - rmse / size)), 1e-10);
    }
    if (conf->hold_out.share > 0)
        ck_assert_double_le(fabs(a.last.held_out - error(&b, 1, &size)), 1e-9 * size);
    else
        ck_assert(isnan(a.last.held_out));
    for (uint32_t m = 0; m < x->order; m++) {
        double off = 0, all = 0;
        for (uint64_t i = 0; i < x->dim[m] * rank; i++) {
            const uint64_t row = i / rank, r = i % rank;
            const double d = a.factor[m][row * a.rank + r] * a.norm[m * a.rank + r] - b.a[m][i];
            off += d * d;
            all += b.a[m][i] * b.a[m][i];
        }
        ck_assert_msg(off <= 1e-18 * all, "mode %u is off by %g", m + 1, sqrt(off / all));
        free(b.a[m]);
    }
    test_cp_free(&a);
}

START_TEST(runs_are_those_of_the_slow_program)
{
    const struct test_shape *s = &test_shapes[_i % TEST_SHAPES];
    const int which = _i % 2, held = _i / 2 % 2, weigh = _i >= TEST_SHAPES;
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, 9, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT, .shard_partitions = 1 };
    struct ts_spec spec;
    const struct test_cp_conf conf = { .rank = s->rank,
                                       .iters = 3,
                                       .seed = 3,
                                       .threads = 2,
                                       .precision = TS_FLOAT64,
                                       .spec = &spec,
                                       .hold_out = { .share = held ? 0.2 : 0, .seed = 7 } };
    demand(s->order, which, &spec);
    for (uint64_t i = 0; i < x.nnz; i += 5) /* cells that are known to hold 0 */
        x.val[i] = 0;
    if (weigh)
        test_coo_weigh(&x, (uint64_t)_i, 0);
    test_tsh_write(test_case_dir, &x, &tc);
    compare_run(&x, &conf, which);
    test_coo_free(&x);
}
END_TEST

/* ---- dense tensors ---- */

/* A share of the cells of the shape, listed in the order of the array, with numbers that float32
 * has. */
static struct test_coo cells_of(const struct test_shape *s, double share)
{
    struct test_coo x = { .order = s->order };
    uint64_t cells = 1;
    for (uint32_t m = 0; m < s->order; m++)
        cells *= x.dim[m] = s->dim[m];
    x.val = malloc(cells * sizeof *x.val);
    for (uint32_t m = 0; m < s->order; m++)
        x.idx[m] = malloc(cells * sizeof *x.idx[m]);
    for (uint64_t i = 0; i < cells; i++) {
        uint64_t rest = i;
        if (ts_unit(ts_mix(i)) >= share)
            continue;
        for (uint32_t m = s->order; m-- > 0; rest /= s->dim[m])
            x.idx[m][x.nnz] = (uint32_t)(rest % s->dim[m]);
        x.val[x.nnz++] = (float)(3 * ts_unit(ts_mix(i + 77)) - 1);
    }
    return x;
}

/* Writes them as an array that is NaN elsewhere, which becomes the tensor of the test. */
static void write_array(const struct test_coo *x, int narrow, int fortran)
{
    const int folder = (int)strlen(test_case_dir) - (int)strlen("/x.tsh");
    char file[4096], dims[100] = "";
    uint64_t cells = 1;
    double *all;
    FILE *f;
    for (uint32_t m = 0; m < x->order; m++) {
        const size_t at = strlen(dims);
        cells *= x->dim[m];
        snprintf(dims + at, sizeof dims - at, "%s%" PRIu64, m == 0 ? "" : "x", x->dim[m]);
    }
    all = malloc(cells * sizeof *all);
    for (uint64_t i = 0; i < cells; i++)
        all[i] = NAN;
    for (uint64_t i = 0; i < x->nnz; i++) {
        uint64_t at = 0;
        for (uint32_t l = 0; l < x->order; l++) {
            const uint32_t m = fortran ? x->order - 1 - l : l;
            at = at * x->dim[m] + x->idx[m][i];
        }
        all[at] = x->val[i];
    }
    snprintf(file, sizeof file, "%.*s/x.raw", folder, test_case_dir);
    f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    for (uint64_t i = 0; i < cells; i++) {
        const float y = (float)all[i];
        fwrite(narrow ? (const void *)&y : &all[i], narrow ? sizeof y : sizeof *all, 1, f);
    }
    ck_assert_int_eq(fclose(f), 0);
    free(all);
    snprintf(test_case_dir, sizeof test_case_dir, "%.3000s:%s%s:%s", file, narrow ? "f4" : "f8",
             fortran ? ":F" : "", dims);
}

/* Of all cells, most and few; with and without a mean; and parts that begin anywhere. */
START_TEST(dense_runs_are_those_of_the_slow_program)
{
    static const double share[] = { 1, 0.9, 0.3 };
    const struct test_shape *s = &test_shapes[_i % TEST_SHAPES];
    const int kind = _i / TEST_SHAPES, which = (_i + kind) % 2;
    struct test_coo x = cells_of(s, share[kind]);
    struct ts_spec spec;
    const struct test_cp_conf conf = {
        .rank = s->rank,
        .iters = 3,
        .seed = 3,
        .threads = 2,
        .precision = TS_FLOAT64,
        .spec = &spec,
        .hold_out = { .share = _i % 5 == 4 ? 0 : 0.2, .seed = 7, .from = _i % 3 == 0 ? 0.4 : 0 }
    };
    demand(s->order, which, &spec);
    write_array(&x, _i % 2, _i / 2 % 2);
    compare_run(&x, &conf, which);
    test_coo_free(&x);
}
END_TEST

START_TEST(a_dense_run_that_was_stopped_has_the_same_bits)
{
    struct test_coo x = cells_of(&test_shapes[4], _i % 2 ? 1 : 0.9);
    struct ts_spec spec;
    const struct test_cp_conf conf = { .rank = 3,
                                       .iters = 3,
                                       .seed = 1,
                                       .threads = 1,
                                       .precision = (enum ts_precision)(_i / 2),
                                       .hold_out = { .share = 0.15, .seed = 3 },
                                       .patience = 2,
                                       .spec = &spec };
    demand(4, 2, &spec);
    spec.best = 1;
    write_array(&x, _i % 2, _i / 2);
    test_coo_free(&x);
    test_case_stopped(&conf, 1); /* the pass for the mean leaves no state */
}
END_TEST

/* Not as zeros, as those of a sparse tensor: its cells are all there. */
START_TEST(what_is_held_out_of_a_dense_tensor_is_not_zero)
{
    struct test_coo x = cells_of(&test_shapes[1], 1);
    const struct ts_spec spec = { .held = 1 };
    const struct test_cp_conf conf = {
        .rank = 3, .iters = 2, .threads = 1, .hold_out = { .share = 0.1 }, .spec = &spec
    };
    struct test_cp a;
    write_array(&x, 0, 0);
    test_coo_free(&x);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_ptr_nonnull(strstr(a.err.text, "are unknown to a model, not zeros"));
}
END_TEST

/* Runs of the tensor as it is written now. */
static struct test_cp run_of(struct test_coo *x, struct test_cp_conf *conf)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT, .shard_partitions = 1 };
    test_tsh_remove(test_case_dir);
    test_tsh_write(test_case_dir, x, &tc);
    return test_case_run(conf);
}

START_TEST(weights_of_1_change_no_bit)
{
    static const uint64_t dim[3] = { 90, 60, 30 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 5,
                                 .iters = 4,
                                 .seed = 3,
                                 .threads = 2,
                                 .precision = (enum ts_precision)(_i % 2),
                                 .hold_out = { .share = 0.1, .seed = 3 },
                                 .spec = &spec };
    struct test_coo x = test_coo_random(40, 3, dim, 40000, 9, 0.5);
    struct test_cp a, b;
    demand(3, _i, &spec);
    a = run_of(&x, &conf);
    test_coo_weigh(&x, 1, 1);
    b = run_of(&x, &conf);
    test_case_same(&a, &b);
    ck_assert(a.last.held_out == b.last.held_out && a.last.rmse == b.last.rmse);
    test_cp_free(&a);
    test_cp_free(&b);
    test_coo_free(&x);
}
END_TEST

/* To the rounding of what is summed: the partitions differ. */
START_TEST(a_weight_of_0_is_a_cell_that_is_not_listed)
{
    static const uint64_t dim[3] = { 90, 60, 30 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 5,
                                 .iters = 3,
                                 .seed = 3,
                                 .threads = 2,
                                 .precision = TS_FLOAT64,
                                 .hold_out = { .share = 0.1, .seed = 3 },
                                 .spec = &spec };
    struct test_coo x = test_coo_random(40, 3, dim, 40000, 9, 0.5);
    struct test_cp a, b;
    demand(3, _i, &spec);
    test_coo_weigh(&x, 1, 0);
    for (uint64_t i = 0; i < x.nnz; i++)
        x.weight[i] = x.weight[i] == 0 ? 0 : 1;
    a = run_of(&x, &conf);
    test_coo_drop_weightless(&x);
    b = run_of(&x, &conf);
    ck_assert_uint_eq(a.sweeps, b.sweeps);
    for (uint32_t k = 0; k < conf.iters; k++)
        ck_assert_double_eq_tol(a.fit[k], b.fit[k], 1e-10);
    ck_assert_double_eq_tol(a.last.rmse, b.last.rmse, 1e-10 * b.last.rmse);
    ck_assert_double_eq_tol(a.last.held_out, b.last.held_out, 1e-10 * b.last.held_out);
    test_cp_free(&a);
    test_cp_free(&b);
    test_coo_free(&x);
}
END_TEST

START_TEST(weighted_runs_have_the_same_bits)
{
    static const uint64_t dim[3] = { 200, 100, 60 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT, .stretch = 2, .shard_partitions = 1 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 7,
                                 .iters = 4,
                                 .seed = 3,
                                 .threads = 1,
                                 .precision = (enum ts_precision)(_i % 2),
                                 .hold_out = { .share = 0.1, .seed = 3 },
                                 .spec = &spec };
    struct test_coo x = test_coo_random(44, 3, dim, 50000, 99, 0.5);
    struct test_cp a;
    test_coo_weigh(&x, 2, 0);
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
    demand(3, _i, &spec);
    a = test_case_streamed(&conf);
    test_cp_free(&a);
    conf.iters = 2;
    test_case_stopped(&conf, _i > 0);
}
END_TEST

START_TEST(weights_are_used_or_refused)
{
    static const uint64_t dim[3] = { 20, 20, 20 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 3, .iters = 2, .seed = 1, .threads = 1 };
    struct test_coo x = test_coo_random(44, 3, dim, 500, 9, 0);
    test_coo_weigh(&x, 2, 0);
    test_tsh_write(test_case_dir, &x, &tc);
    for (int k = 0; k < 4; k++) {
        struct test_cp a;
        spec = (struct ts_spec){ .poisson = k == 2, .held = k == 3 };
        for (uint32_t m = 0; m < 3; m++)
            spec.mode[m].nonneg = k == 1;
        conf.hold_out.share = k == 3 ? 0.1 : 0;
        conf.spec = k == 0 ? NULL : &spec;
        a = test_cp_run(test_case_dir, &conf);
        ck_assert_int_eq(a.rc, TS_EARG);
        ck_assert_msg(strstr(a.err.text, "its cells have weights, which a run without") != NULL,
                      "%s", a.err.text);
    }
    test_coo_free(&x);
}
END_TEST

START_TEST(what_is_minimised_never_rises)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec;
    struct test_cp a;
    demand(3, _i, &spec);
    test_case_write(40, &tc);
    a = test_case_run(&(struct test_cp_conf){
        .rank = 6, .iters = 12, .seed = 2, .threads = 2, .precision = TS_FLOAT64, .spec = &spec });
    for (uint32_t k = 1; k < a.sweeps; k++)
        ck_assert_msg(a.objective[k] <= a.objective[k - 1] * (1 + 1e-9),
                      "sweep %u: %.15g after %.15g", k + 1, a.objective[k], a.objective[k - 1]);
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < a.n_rows[m] * 6 && spec.mode[m].nonneg; i++)
            ck_assert_double_ge(a.factor[m][i], 0);
    test_cp_free(&a);
}
END_TEST

START_TEST(threads_and_memory_do_not_matter)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .stretch = 2, .shard_partitions = 1 };
    struct ts_spec spec;
    struct test_cp a;
    demand(3, _i, &spec);
    test_case_write(41, &tc);
    a = test_case_streamed(&(struct test_cp_conf){ .rank = 7,
                                                   .iters = 4,
                                                   .seed = 3,
                                                   .threads = 1,
                                                   .precision = (enum ts_precision)(_i % 2),
                                                   .hold_out = { .share = 0.1, .seed = 3 },
                                                   .spec = &spec });
    test_cp_free(&a);
}
END_TEST

START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec;
    demand(3, _i, &spec);
    spec.best = 1;
    test_case_write(42, &tc);
    test_case_stopped(&(struct test_cp_conf){ .rank = 3,
                                              .iters = 2,
                                              .seed = 1,
                                              .threads = 1,
                                              .precision = (enum ts_precision)(_i % 2),
                                              .hold_out = { .share = 0.1, .seed = 3 },
                                              .patience = 2,
                                              .spec = &spec },
                      _i > 0); /* the mean, or the mode that takes the signs */
}
END_TEST

/* Of noise every sweep learns what is of no use elsewhere. */
START_TEST(a_run_ends_when_the_error_on_held_out_cells_does_not_fall)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec, plain;
    struct test_cp a, b;
    struct test_cp_conf best, conf = { .rank = 20,
                                       .iters = 60,
                                       .seed = 1,
                                       .threads = 2,
                                       .hold_out = { .share = 0.2, .seed = 3 },
                                       .patience = 3,
                                       .spec = &spec };
    demand(3, 0, &spec);
    demand(3, 0, &plain);
    spec.best = 1;
    test_case_write(43, &tc);
    a = test_case_run(&conf);
    ck_assert(a.overfits && !a.converged);
    ck_assert_uint_ge(a.sweeps, 4);
    ck_assert_uint_lt(a.sweeps, 60);
    ck_assert_uint_eq(a.best_sweep, a.sweeps - 3);

    /* it is the model that a run of so many sweeps ends with, also where it goes on from a state
     * after that */
    best = conf;
    best.iters = a.best_sweep;
    best.patience = 0;
    best.spec = &plain;
    b = test_case_run(&best);
    ck_assert_mem_eq(a.weight, b.weight, a.rank * sizeof(double));
    for (uint32_t m = 0; m < 3; m++)
        ck_assert_mem_eq(a.factor[m], b.factor[m], a.n_rows[m] * a.rank * sizeof(double));
    test_cp_free(&b);
    conf.states = test_case_states;
    conf.stop_sweep = a.sweeps;
    conf.stop_mode = 1;
    b = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(b.rc, TS_ESTOP);
    test_cp_free(&b);
    conf.stop_sweep = 0;
    conf.from = test_case_state;
    b = test_case_run(&conf);
    ck_assert_uint_eq(b.best_sweep, a.best_sweep);
    test_case_same(&a, &b);
    test_cp_free(&b);
    test_cp_free(&a);
}
END_TEST

/* Held-out nonzeros are zeros to least squares and to models of counts: the model is that of a
 * tensor with zeros there. */
START_TEST(what_is_held_out_of_other_models_is_zero_to_them)
{
    const struct test_shape *s = &test_shapes[_i / 2];
    const int counts = _i % 2;
    struct test_coo x = test_coo_random(19, s->order, s->dim, s->nnz, 9, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT, .shard_partitions = 1 };
    const struct ts_spec spec = { .held = 1, .poisson = counts }, plain = { .poisson = counts };
    struct test_cp_conf conf = { .rank = s->rank,
                                 .iters = 3,
                                 .inner = 3,
                                 .seed = 5,
                                 .threads = 1, /* rounds of several wait for each other */
                                 .precision = TS_FLOAT64,
                                 .spec = &spec,
                                 .hold_out = { .share = 0.2, .seed = 7 } };
    struct slow b = { .x = &x, .hold_out = conf.hold_out, .rank = s->rank };
    struct test_cp a, z;
    double n = 0, squares = 0, loss = 0;
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_case_run(&conf);
    for (uint32_t m = 0; m < x.order; m++) {
        b.a[m] = malloc(x.dim[m] * s->rank * sizeof(double));
        for (uint64_t i = 0; i < x.dim[m] * s->rank; i++)
            b.a[m][i] = a.factor[m][i] * (m == 0 ? a.weight[i % s->rank] : 1);
    }
    for (uint64_t i = 0; i < x.nnz; i++) {
        const double m = model(&b, i), at = m > 1e-10 ? m : 1e-10;
        if (!is_held(&b, i))
            continue;
        n++;
        squares += (x.val[i] - m) * (x.val[i] - m);
        loss += m - x.val[i] * log(at);
    }
    if (counts)
        ck_assert_double_eq_tol(a.last.held_out_loss, loss / n, 1e-9 * (1 + fabs(loss / n)));
    else
        ck_assert_double_eq_tol(a.last.held_out, sqrt(squares / n), 1e-9 * sqrt(squares / n));
    for (uint64_t i = 0; i < x.nnz; i++)
        x.val[i] = is_held(&b, i) ? 0 : x.val[i];
    test_tsh_remove(test_case_dir);
    test_tsh_write(test_case_dir, &x, &tc);
    conf.hold_out.share = 0;
    conf.spec = counts ? &plain : NULL;
    z = test_case_run(&conf);
    for (uint32_t k = 0; k < conf.iters; k++)
        ck_assert_double_eq_tol(a.fit[k], z.fit[k], 1e-9);
    if (counts)
        ck_assert_double_eq_tol(a.last.log_likelihood, z.last.log_likelihood,
                                1e-9 * fabs(z.last.log_likelihood));
    for (uint32_t m = 0; m < x.order; m++)
        free(b.a[m]);
    test_cp_free(&a);
    test_cp_free(&z);
    test_coo_free(&x);
}
END_TEST

/* Least squares, with a bound, with the mode that takes the signs, and of counts. */
START_TEST(held_out_cells_have_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_INT, .stretch = 2, .shard_partitions = 1 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 3,
                                 .iters = 2,
                                 .inner = 2,
                                 .seed = 1,
                                 .threads = 1,
                                 .precision = (enum ts_precision)(_i % 2),
                                 .hold_out = { .share = 0.1, .seed = 3 },
                                 .patience = 2,
                                 .spec = &spec };
    static const uint64_t dim[3] = { 400, 300, 200 };
    struct test_coo x;
    struct test_cp a;
    spec = (struct ts_spec){ .held = 1, .best = 1, .poisson = _i == 3 };
    for (uint32_t m = 0; m < 3; m++)
        spec.mode[m].nonneg = _i == 1 || (_i == 2 && m == 0);
    x = test_coo_random(44, 3, dim, 50000, 99, 0.5);
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
    a = test_case_streamed(&conf);
    test_cp_free(&a);
    test_case_stopped(&conf, _i == 2);
}
END_TEST

/* Whatever is held out has no part in the model, nor in what it starts from: of observed cells, of
 * a dense tensor, of least squares and of counts. */
START_TEST(nothing_is_learnt_from_what_is_held_out)
{
    const struct test_shape *s = &test_shapes[4];
    const int dense = _i / 2 == 1;
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64, .shard_partitions = 1 };
    struct ts_spec spec;
    const struct test_cp_conf conf = { .rank = 3,
                                       .iters = 2,
                                       .inner = 2,
                                       .seed = 1,
                                       .threads = 2,
                                       .nvecs = _i % 2,
                                       .precision = TS_FLOAT64,
                                       .hold_out = { .share = 0.2, .seed = 9, .from = 0.1 },
                                       .spec = &spec };
    struct test_coo x = cells_of(s, dense ? 1 : 0.3);
    struct slow b = { .x = &x, .hold_out = conf.hold_out };
    struct test_cp one, other;
    demand(s->order, 0, &spec);
    if (_i / 2 >= 2)
        spec = (struct ts_spec){ .held = 1, .poisson = _i / 2 == 3 };
    for (uint64_t i = 0; i < x.nnz; i++)
        x.val[i] += 2;
    if (dense)
        write_array(&x, 0, 0);
    else
        test_tsh_write(test_case_dir, &x, &tc);
    one = test_case_run(&conf);
    for (uint64_t i = 0; i < x.nnz; i++)
        x.val[i] = is_held(&b, i) ? 9 - 2 * x.val[i] : x.val[i];
    if (dense) {
        snprintf(strrchr(test_case_dir, '/'), sizeof "/x.tsh", "/x.tsh");
        write_array(&x, 0, 0);
    } else {
        test_tsh_remove(test_case_dir);
        test_tsh_write(test_case_dir, &x, &tc);
    }
    other = test_case_run(&conf);
    ck_assert(_i / 2 == 3 ? one.last.held_out_loss != other.last.held_out_loss
                          : one.last.held_out != other.last.held_out);
    for (uint32_t m = 0; m < one.order; m++)
        ck_assert_mem_eq(one.factor[m], other.factor[m], one.n_rows[m] * one.rank * sizeof(double));
    test_cp_free(&one);
    test_cp_free(&other);
    test_coo_free(&x);
}
END_TEST

START_TEST(each_cell_is_in_one_fold)
{
    for (uint32_t folds = 2; folds <= 20; folds++)
        for (uint64_t cell = 0; cell < 2000; cell++) {
            uint32_t n = 0;
            for (uint32_t k = 0; k < folds; k++) {
                const struct ts_hold_out h = { .share = 1.0 / folds,
                                               .seed = folds,
                                               .from = (double)k / folds };
                n += (uint32_t)ts_hold_out_held(&h, ts_hold_out_add(ts_hold_out_begin(&h), cell));
            }
            ck_assert_uint_eq(n, 1);
        }
}
END_TEST

START_TEST(what_cannot_be_asked_is_refused)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec;
    struct test_cp_conf conf = { .rank = 3, .iters = 2, .seed = 1, .threads = 1, .spec = &spec };
    struct test_cp a;
    test_case_write(43, &tc);
    demand(3, 0, &spec);
    spec.mode[1].l1 = 1;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_ptr_nonnull(strstr(a.err.text, "mode 2: of observed cells alone no l1"));
    demand(3, 0, &spec);
    spec.observed = 0;
    spec.mean = 1;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_ptr_nonnull(strstr(a.err.text, "subtracted from all observed cells"));
    demand(3, 1, &spec);
    spec.observed = 0;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_ptr_nonnull(strstr(a.err.text, "in all modes or in none"));
    conf.spec = NULL;
    conf.hold_out.share = 0.1;
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_ptr_nonnull(strstr(a.err.text, "whose constraints say so"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("observed");
    TCase *t = tcase_create("observed");
    tcase_set_timeout(t, 600);
    tcase_add_checked_fixture(t, test_case_setup, test_case_teardown);
    tcase_add_loop_test(t, runs_are_those_of_the_slow_program, 0, 2 * TEST_SHAPES);
    tcase_add_loop_test(t, dense_runs_are_those_of_the_slow_program, 0, 3 * TEST_SHAPES);
    tcase_add_loop_test(t, a_dense_run_that_was_stopped_has_the_same_bits, 0, 4);
    tcase_add_test(t, what_is_held_out_of_a_dense_tensor_is_not_zero);
    tcase_add_loop_test(t, weights_of_1_change_no_bit, 0, N_DEMANDS);
    tcase_add_loop_test(t, a_weight_of_0_is_a_cell_that_is_not_listed, 0, N_DEMANDS);
    tcase_add_loop_test(t, weighted_runs_have_the_same_bits, 0, N_DEMANDS);
    tcase_add_test(t, weights_are_used_or_refused);
    tcase_add_loop_test(t, what_is_minimised_never_rises, 0, N_DEMANDS);
    tcase_add_loop_test(t, threads_and_memory_do_not_matter, 0, N_DEMANDS);
    tcase_add_loop_test(t, a_run_that_was_stopped_has_the_same_bits, 0, N_DEMANDS);
    tcase_add_test(t, a_run_ends_when_the_error_on_held_out_cells_does_not_fall);
    tcase_add_loop_test(t, what_is_held_out_of_other_models_is_zero_to_them, 0, 2 * TEST_SHAPES);
    tcase_add_loop_test(t, held_out_cells_have_the_same_bits, 0, 4);
    tcase_add_loop_test(t, nothing_is_learnt_from_what_is_held_out, 0, 8);
    tcase_add_test(t, each_cell_is_in_one_fold);
    tcase_add_test(t, what_cannot_be_asked_is_refused);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_FORK_GETENV);
}
