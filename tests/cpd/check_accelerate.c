/* SPDX-License-Identifier: BSD-3-Clause */
/* Accelerated runs do what accelerate.h says, sweep by sweep, wherever they are interrupted, and
 * need fewer sweeps. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "cpd/solver/accelerate.h"
#include "cpd/solver/init.h"
#include "cpd/rows/symm.h"
#include "tests/cpd/cp_case.h"
#include "tests/support/run_suite.h"
#include "tests/cpd/slow_cp.h"
#include "tests/format/tsh_writer.h"

/* ---- the twin: whole matrices of columns of norm 1, and weights ---- */

struct twin {
    const struct test_coo *x;
    uint32_t rank;
    double *a[TS_MAX_ORDER], *before[TS_MAX_ORDER]; /* dim x rank */
    double *weight;
    double best, step;
    uint32_t streak, n_falls, n_steps;
};

static size_t items(const struct twin *t, uint32_t mode)
{
    return t->x->dim[mode] * t->rank;
}

static void twin_new(struct twin *t, uint64_t seed)
{
    t->weight = calloc(t->rank, sizeof *t->weight);
    for (uint32_t m = 0; m < t->x->order; m++) {
        t->a[m] = calloc(items(t, m), sizeof(double));
        t->before[m] = calloc(items(t, m), sizeof(double));
        for (uint64_t i = 0; i < t->x->dim[m]; i++)
            for (uint32_t r = 0; r < t->rank; r++)
                t->a[m][i * t->rank + r] = ts_init_entry(seed, m, i, r);
    }
}

static void twin_free(struct twin *t)
{
    for (uint32_t m = 0; m < t->x->order; m++) {
        free(t->a[m]);
        free(t->before[m]);
    }
    free(t->weight);
}

/* Columns get norm 1; the norms go where they are wanted. */
static void twin_norm(struct twin *t, uint32_t mode, double *norms)
{
    for (uint32_t r = 0; r < t->rank; r++) {
        double s = 0;
        for (size_t i = r; i < items(t, mode); i += t->rank)
            s += t->a[mode][i] * t->a[mode][i];
        s = sqrt(s);
        for (size_t i = r; i < items(t, mode); i += t->rank)
            t->a[mode][i] /= s > 0 ? s : 1;
        if (norms != NULL)
            norms[r] = s;
    }
}

/* v := elementwise product of the Gram matrices of all modes but `skip` */
static void twin_grams(const struct twin *t, uint32_t skip, double *v)
{
    for (uint32_t i = 0; i < t->rank; i++)
        for (uint32_t j = 0; j < t->rank; j++) {
            double p = 1;
            for (uint32_t m = 0; m < t->x->order; m++) {
                double g = 0;
                for (size_t k = 0; m != skip && k < items(t, m); k += t->rank)
                    g += t->a[m][k + i] * t->a[m][k + j];
                p *= m == skip ? 1 : g;
            }
            v[i * t->rank + j] = p;
        }
}

static void twin_solve(struct twin *t, uint32_t mode)
{
    const uint32_t rank = t->rank;
    double *v = malloc(rank * rank * sizeof *v), *w = malloc(rank * rank * sizeof *w);
    double *m = calloc(items(t, mode), sizeof *m);
    test_mttkrp(t->x, mode, rank, t->a, m);
    twin_grams(t, mode, v);
    ck_assert_int_eq(ts_symm_pinv(rank, v, TS_SYMM_CUT, NULL, w, NULL, NULL), 0);
    for (size_t i = 0; i < items(t, mode); i += rank)
        for (uint32_t r = 0; r < rank; r++) {
            double s = 0;
            for (uint32_t k = 0; k < rank; k++)
                s += m[i + k] * w[k * rank + r];
            t->a[mode][i + r] = s;
        }
    twin_norm(t, mode, t->weight);
    free(v);
    free(w);
    free(m);
}

/* From <X, model> summed over the nonzeros. */
static double twin_fit(const struct twin *t)
{
    double *v = malloc(t->rank * t->rank * sizeof *v), norm2 = 0, inner = 0, model = 0, left;
    for (uint64_t n = 0; n < t->x->nnz; n++) {
        norm2 += t->x->val[n] * t->x->val[n];
        for (uint32_t r = 0; r < t->rank; r++) {
            double term = t->x->val[n] * t->weight[r];
            for (uint32_t m = 0; m < t->x->order; m++)
                term *= t->a[m][t->x->idx[m][n] * t->rank + r];
            inner += term;
        }
    }
    twin_grams(t, TS_MAX_ORDER, v);
    for (uint32_t i = 0; i < t->rank; i++)
        for (uint32_t j = 0; j < t->rank; j++)
            model += t->weight[i] * t->weight[j] * v[i * t->rank + j];
    free(v);
    left = norm2 + model - 2 * inner;
    return 1 - sqrt(left > 0 ? left : 0) / sqrt(norm2);
}

/* Where the sweep after `sweep` starts. The fit is that of the run, so that both take the same turn
 * where fits are equal but for rounding. */
static void twin_step(struct twin *t, uint32_t sweep, double fit)
{
    if (sweep > 1 && t->step > 0 && fit < t->best) {
        t->n_falls++;
        t->step = 0;
        t->streak = 0;
        for (uint32_t m = 0; m < t->x->order; m++)
            memcpy(t->a[m], t->before[m], items(t, m) * sizeof(double));
        return;
    }
    t->best = fit;
    t->streak++;
    t->step = sweep < 5 ? 0 : (t->streak - 1.0) / (t->streak + 5.0);
    t->n_steps += t->step > 0;
    for (uint32_t m = 0; m < t->x->order; m++) {
        for (size_t i = 0; i < items(t, m); i++) {
            const double now = t->a[m][i];
            t->a[m][i] += t->step * (now - t->before[m][i]);
            t->before[m][i] = now;
        }
        twin_norm(t, m, NULL);
    }
}

static const struct shape {
    uint32_t order, nnz, rank;
    uint64_t dim[8];
} shapes[] = {
    { 2, 300, 4, { 31, 40 } },
    { 3, 2000, 5, { 40, 30, 20 } },
    { 3, 900, 3, { 1, 50, 40 } }, /* a mode of one index */
    { 4, 3000, 6, { 20, 15, 10, 9 } },
    { 5, 2500, 3, { 12, 9, 8, 7, 6 } },
    { 6, 2000, 3, { 6, 5, 7, 4, 8, 3 } },
    { 7, 1500, 2, { 4, 5, 3, 4, 5, 3, 4 } },
    { 8, 1500, 2, { 3, 4, 3, 2, 5, 3, 4, 2 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])
#define SWEEPS   30

START_TEST(sweeps_are_those_of_the_twin)
{
    const struct shape *s = &shapes[_i];
    const struct test_cp_conf conf = { .rank = s->rank,
                                       .iters = SWEEPS,
                                       .seed = 3,
                                       .threads = 1,
                                       .precision = TS_FLOAT64,
                                       .accelerate = 1 };
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, 0, 0.5);
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    struct twin t = { .x = &x, .rank = s->rank };
    struct test_cp a;
    for (uint64_t n = 0; n < x.nnz; n++) /* as they are kept */
        x.val[n] = (float)x.val[n];
    test_tsh_write(test_case_dir, &x, &tc);
    twin_new(&t, conf.seed);
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    for (uint32_t k = 0; k < SWEEPS; k++) {
        double want;
        for (uint32_t m = 0; m < x.order; m++)
            twin_solve(&t, m);
        want = twin_fit(&t);
        ck_assert_msg(fabs(a.fit[k] - want) < 1e-7, "sweep %u: %.12f, expected %.12f", k + 1,
                      a.fit[k], want);
        if (k + 1 < SWEEPS)
            twin_step(&t, k + 1, a.fit[k]);
    }
    ck_assert_uint_ge(t.n_steps, 5);
    for (uint32_t m = 0; m < x.order; m++) /* what is held at the end is the last sweep's */
        for (size_t i = 0; i < items(&t, m); i++)
            ck_assert_double_eq_tol(a.factor[m][i], t.a[m][i], 1e-4);
    /* no pass more, but for a sweep behind a last one that was given up */
    ck_assert_uint_eq(a.n_products % x.order, 0);
    ck_assert_uint_le(a.n_products, (SWEEPS + 1) * x.order);
    ck_assert(a.n_products == SWEEPS * x.order ||
              (a.n_products == (SWEEPS + 1) * x.order && a.fit[SWEEPS - 1] < a.fit[SWEEPS - 2]));
    test_cp_free(&a);
    twin_free(&t);
    test_coo_free(&x);
}
END_TEST

/* ---- the same with constraints, beside the slow program ---- */

/* What is asked of the three modes; the first: nothing. */
static const struct ts_spec demands[] = {
    { .mode = { { .nonneg = 0 } } },
    { .mode = { { .nonneg = 1 }, { .nonneg = 1 }, { .nonneg = 1 } } },
    { .mode = { { .l2 = 0.05 }, { .l2 = 0.05 }, { .l2 = 0.05 } } },
    { .mode = { { .nonneg = 1, .l1 = 0.02 },
                { .nonneg = 1, .l2 = 0.05 },
                { .nonneg = 1, .l1 = 0.02 } } },
    { .mode = { { .simplex = 1 }, { .nonneg = 1 }, { .nonneg = 1 } } },
    { .mode = { { .nonneg = 1 }, { .simplex = 1, .l2 = 0.1 }, { .l2 = 0.1 } } },
    { .mode = { { .bounded = 1, .upper = 0.6 },
                { .bounded = 1, .lower = -0.2, .upper = 0.9 },
                { .l2 = 0 } } },
    { .mode = { { .l2 = 0.1 }, { .smooth = 0.3 }, { .smooth = 0.3, .l2 = 0.1 } } },
};
#define N_DEMANDS (int)(sizeof demands / sizeof demands[0])

/* Where the sweep after one of objective f starts; so far as lengths matter, which is from the
 * third of the demands on. */
struct pace {
    double best, step, *before[3];
    uint32_t streak, n_steps, n_falls;
};

static void pace_step(struct pace *p, struct test_slow *s, uint32_t sweep, double f)
{
    const int fell = sweep > 1 && p->step > 0 && f > p->best;
    p->n_falls += (uint32_t)fell;
    p->streak = fell ? 0 : p->streak + 1;
    p->step = fell || sweep < 5 ? 0 : (p->streak - 1.0) / (p->streak + 5.0);
    p->n_steps += p->step > 0;
    if (!fell)
        p->best = f;
    for (uint32_t m = 0; m < 3; m++) {
        const struct ts_constraint *c = &s->spec->mode[m];
        for (uint64_t i = 0; i < s->x->dim[m]; i++) {
            double *now = s->a[m] + i * s->rank, *was = p->before[m] + i * s->rank, sum = 0;
            for (uint32_t r = 0; r < s->rank; r++) {
                const double x = now[r];
                if (fell) {
                    now[r] = was[r];
                    continue;
                }
                now[r] += p->step * (x - was[r]);
                was[r] = x;
                if (p->step > 0 && (c->nonneg || c->simplex))
                    now[r] = fmax(now[r], 0);
                if (p->step > 0 && c->bounded)
                    now[r] = fmin(fmax(now[r], c->lower), c->upper);
                sum += now[r];
            }
            for (uint32_t r = 0; r < s->rank && c->simplex && p->step > 0; r++)
                now[r] /= sum;
        }
    }
}

static double slow_objective(const struct test_slow *s)
{
    double sum = 0.5 * test_slow_distance(s);
    for (uint32_t m = 0; m < 3; m++) {
        sum += 0.5 * s->spec->mode[m].smooth * s->rough[m];
        for (uint64_t i = 0; i < s->x->dim[m] * s->rank; i++)
            sum += 0.5 * s->spec->mode[m].l2 * s->a[m][i] * s->a[m][i] +
                   s->spec->mode[m].l1 * fabs(s->a[m][i]);
    }
    return sum;
}

/* 1e-9: roundings of float64, thirty sweeps long; 1e-14 was seen. */
START_TEST(constrained_sweeps_are_those_of_the_slow_program)
{
    static const uint64_t dim[3] = { 40, 30, 20 };
    const struct test_cp_conf conf = { .rank = 4,
                                       .iters = SWEEPS,
                                       .seed = 3,
                                       .threads = 2,
                                       .precision = TS_FLOAT64,
                                       .spec = &demands[_i],
                                       .accelerate = 1 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    struct test_coo x = test_coo_random(17, 3, dim, 6000, 0, 0.5);
    struct test_slow s = { .x = &x, .spec = &demands[_i], .rank = 4 };
    struct pace p = { .best = INFINITY };
    struct test_cp a;
    for (uint64_t n = 0; n < x.nnz; n++) /* as they are kept */
        x.val[n] = (float)x.val[n];
    test_tsh_write(test_case_dir, &x, &tc);
    test_slow_new(&s, conf.seed);
    for (uint32_t m = 0; m < 3; m++)
        p.before[m] = calloc(dim[m] * 4, sizeof(double));
    a = test_cp_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    test_slow_signs(&s);
    for (uint32_t k = 0; k < SWEEPS; k++) {
        for (uint32_t m = 0; m < 3; m++)
            test_slow_solve(&s, m);
        ck_assert_double_eq_tol(a.fit[k], 1 - sqrt(test_slow_distance(&s) / s.size2), 1e-9);
        ck_assert(isnan(a.objective[k]) ||
                  fabs(a.objective[k] - slow_objective(&s)) <= 1e-9 * s.size2);
        /* that of the run, so that both take the same turn where these are equal but for
         * rounding */
        pace_step(&p, &s, k + 1, isnan(a.objective[k]) ? -a.fit[k] : a.objective[k]);
    }
    ck_assert_uint_ge(p.n_steps, 5);
    for (uint32_t m = 0; m < 3; m++)
        free(p.before[m]);
    test_cp_free(&a);
    test_slow_free(&s);
    test_coo_free(&x);
}
END_TEST

/* ---- runs ---- */

/* Columns that lie close together, with noise: plain sweeps creep. */
static void write_slow(void)
{
    static const uint64_t dim[3] = { 30, 25, 20 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32, .shard_partitions = 1 };
    struct test_coo x = test_coo_random(3, 3, dim, 9000, 9, 0);
    for (uint64_t n = 0; n < x.nnz; n++) {
        double sum = 0.02 * ts_unit(ts_mix(n));
        for (uint32_t r = 0; r < 4; r++) {
            double term = 1;
            for (uint32_t m = 0; m < 3; m++)
                term *= 0.6 + 0.4 * ts_unit(ts_mix(7000 * r + 1000 * m + x.idx[m][n]));
            sum += term;
        }
        x.val[n] = (float)sum;
    }
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
}

static void same_runs(const struct test_cp *a, const struct test_cp *b)
{
    ck_assert_msg(a->rc == 0, "%s", a->err.text);
    ck_assert_msg(b->rc == 0, "%s", b->err.text);
    ck_assert_uint_eq(a->sweeps, b->sweeps);
    ck_assert_double_eq(a->fit[a->sweeps - 1], b->fit[b->sweeps - 1]);
    for (uint32_t m = 0; m < a->order; m++)
        ck_assert_mem_eq(a->factor[m], b->factor[m], a->n_rows[m] * a->rank * sizeof *a->factor[m]);
    ck_assert_mem_eq(a->weight, b->weight, a->rank * sizeof *a->weight);
}

START_TEST(bits_do_not_depend_on_threads_memory_or_calls)
{
    struct test_cp_conf c = { .rank = 5, .iters = 20, .seed = 1, .threads = 1, .accelerate = 1 };
    struct test_cp one, other;
    c.precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    c.spec = _i < 2 ? NULL : &demands[_i / 2];
    write_slow();
    one = test_cp_run(test_case_dir, &c);
    c.threads = 3;
    c.host_bytes = 400 << 10;
    c.one_call = 1;
    other = test_cp_run(test_case_dir, &c);
    same_runs(&one, &other);
    test_cp_free(&one);
    test_cp_free(&other);
}
END_TEST

/* Sweeps until the fit is so near to the best. */
static uint32_t sweeps_to(const struct test_cp *a, double fit)
{
    uint32_t k = 0;
    while (k < a->sweeps && a->fit[k] < fit)
        k++;
    return k + 1;
}

START_TEST(fewer_sweeps_are_needed)
{
    struct test_cp_conf c = {
        .rank = 5, .iters = 100, .seed = 1, .threads = 1, .precision = TS_FLOAT64
    };
    struct test_cp plain, fast;
    double least;
    write_slow();
    plain = test_cp_run(test_case_dir, &c);
    c.accelerate = 1;
    fast = test_cp_run(test_case_dir, &c);
    ck_assert_msg(plain.rc == 0, "%s", plain.err.text);
    ck_assert_msg(fast.rc == 0, "%s", fast.err.text);
    least = plain.fit[99] < fast.fit[99] ? plain.fit[99] : fast.fit[99];
    ck_assert_uint_lt(5 * sweeps_to(&fast, least), 4 * sweeps_to(&plain, least));
    test_cp_free(&plain);
    test_cp_free(&fast);
}
END_TEST

START_TEST(it_settles_in_two_sweeps)
{
    const double tol = 1e-6;
    const struct test_cp_conf c = { .rank = 5,
                                    .iters = 100,
                                    .seed = 1,
                                    .threads = 1,
                                    .tol = tol,
                                    .precision = TS_FLOAT64,
                                    .accelerate = 1 };
    struct test_cp a;
    uint32_t n;
    write_slow();
    a = test_cp_run(test_case_dir, &c);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    n = a.sweeps;
    ck_assert_int_eq(a.converged, 1);
    ck_assert_uint_gt(n, 6);
    ck_assert_uint_lt(n, 100);
    ck_assert_double_lt(fabs(a.fit[n - 2] - a.fit[n - 3]), 2 * tol); /* or from one before a fall */
    ck_assert_double_lt(fabs(a.fit[n - 1] - a.fit[n - 2]), 2 * tol);
    test_cp_free(&a);
}
END_TEST

START_TEST(nonnegative_rows_stay_so)
{
    const struct ts_spec nonneg = { .mode = {
                                        { .nonneg = 1 }, { .nonneg = _i }, { .nonneg = 1 } } };
    struct test_cp_conf c = {
        .rank = 5, .iters = 40, .seed = 1, .threads = 1, .precision = TS_FLOAT64
    };
    struct test_cp plain, fast;
    write_slow();
    c.spec = &nonneg;
    plain = test_cp_run(test_case_dir, &c);
    c.accelerate = 1;
    fast = test_cp_run(test_case_dir, &c);
    ck_assert_msg(plain.rc == 0, "%s", plain.err.text);
    ck_assert_msg(fast.rc == 0, "%s", fast.err.text);
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < fast.n_rows[m] * 5 && nonneg.mode[m].nonneg; i++)
            ck_assert_double_ge(fast.factor[m][i], 0);
    ck_assert_double_gt(fast.fit[39], plain.fit[39] - 1e-4);
    ck_assert(memcmp(fast.fit, plain.fit, 5 * sizeof *fast.fit) == 0); /* the first are plain */
    ck_assert_double_ne(fast.fit[5], plain.fit[5]);
    test_cp_free(&plain);
    test_cp_free(&fast);
}
END_TEST

/* ---- interruptions ---- */

/* The state that was saved last. */
static const char *newest(char path[8192])
{
    uint64_t serial = 0;
    path[0] = '\0';
    for (int k = 0; k < 2; k++) {
        char name[4200];
        struct ts_state_file *f;
        snprintf(name, sizeof name, "%s/%s", test_case_states,
                 k == 0 ? TS_STATE_NAME_0 : TS_STATE_NAME_1);
        if (ts_state_open(name, &f, NULL) < 0)
            continue;
        if (ts_state_get(f)->serial > serial) {
            serial = ts_state_get(f)->serial;
            snprintf(path, 8192, "%s", name);
        }
        ts_state_close(f);
    }
    return path;
}

/* Wherever a run is stopped, between two modes or in one of them, it goes on with the same bits;
 * also where it is stopped twice. */
START_TEST(a_stop_changes_nothing)
{
    struct test_cp_conf c = { .rank = 5, .iters = 14, .seed = 1, .threads = 1, .accelerate = 1 };
    struct test_cp whole;
    char path[8192];
    c.precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    c.spec = _i / 4 == 0 ? NULL : &demands[_i / 4];
    c.stop_inside = _i / 2 % 2;
    write_slow();
    whole = test_cp_run(test_case_dir, &c);
    ck_assert_msg(whole.rc == 0, "%s", whole.err.text);
    c.states = test_case_states;
    for (uint32_t sweep = 1; sweep <= 9; sweep += 2)
        for (uint32_t mode = 0; mode < 3; mode++) {
            struct test_cp part;
            c.from = NULL;
            c.stop_sweep = sweep;
            c.stop_mode = mode;
            part = test_cp_run(test_case_dir, &c);
            ck_assert_int_eq(part.rc, TS_ESTOP);
            test_cp_free(&part);
            c.from = newest(path);
            if (sweep == 1 && mode == 0 && c.stop_inside && path[0] == '\0')
                continue; /* stopped before the first sweep, which has no state */
            c.stop_sweep = sweep + 3;
            part = test_cp_run(test_case_dir, &c);
            ck_assert_int_eq(part.rc, TS_ESTOP);
            test_cp_free(&part);
            c.from = newest(path);
            c.stop_sweep = 0;
            {
                const int inside = c.stop_inside;
                c.stop_inside = 0;
                part = test_cp_run(test_case_dir, &c);
                c.stop_inside = inside;
            }
            same_runs(&whole, &part);
            test_cp_free(&part);
        }
    test_cp_free(&whole);
}
END_TEST

/* States that a thread writes from a copy, while the run goes on. */
START_TEST(states_beside_the_run_are_whole)
{
    struct test_cp_conf c = { .rank = 5, .iters = 14, .seed = 1, .threads = 2, .accelerate = 1 };
    struct test_cp whole, part;
    char path[8192];
    write_slow();
    whole = test_cp_run(test_case_dir, &c);
    c.states = test_case_states;
    c.every_ns = 1;
    c.patient = 1;
    c.copy = _i;
    part = test_cp_run(test_case_dir, &c);
    ck_assert_str_eq(part.warning, "");
    same_runs(&whole, &part);
    test_cp_free(&part);
    c.states = NULL;
    c.patient = 0;
    c.from = newest(path);
    ck_assert_str_ne(c.from, "");
    part = test_cp_run(test_case_dir, &c);
    same_runs(&whole, &part);
    test_cp_free(&part);
    test_cp_free(&whole);
}
END_TEST

/* More sweeps than a run had are those of a run that had them from its start. */
START_TEST(a_run_that_had_ended_goes_on)
{
    struct test_cp_conf c = { .rank = 5, .iters = 14, .seed = 1, .threads = 1, .accelerate = 1 };
    struct test_cp whole, part;
    char path[4200];
    write_slow();
    whole = test_cp_run(test_case_dir, &c);
    c.states = test_case_states;
    c.every_ns = 3600000000000;
    c.iters = 4 + (uint32_t)_i;
    part = test_cp_run(test_case_dir, &c);
    ck_assert_msg(part.rc == 0, "%s", part.err.text);
    test_cp_free(&part);
    snprintf(path, sizeof path, "%s/%s", test_case_states, TS_STATE_NAME);
    c.states = NULL;
    c.from = path;
    c.iters = 14;
    part = test_cp_run(test_case_dir, &c);
    same_runs(&whole, &part);
    test_cp_free(&part);
    test_cp_free(&whole);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    const struct ts_spec apart = { .mode = { { .nonneg = 1 }, { .orthogonal = 1 } } };
    struct test_cp_conf c = { .rank = 3, .iters = 3, .accelerate = 1, .spec = &apart };
    struct test_cp a;
    char path[4200];
    write_slow();
    a = test_cp_run(test_case_dir, &c);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text, "mode 2 (orthogonal): accelerate needs least squares") != NULL,
                  "%s", a.err.text);
    test_cp_free(&a);
    c.spec = NULL;
    c.states = test_case_states;
    c.every_ns = 3600000000000;
    c.accelerate = _i;
    a = test_cp_run(test_case_dir, &c);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    test_cp_free(&a);
    snprintf(path, sizeof path, "%s/%s", test_case_states, TS_STATE_NAME);
    c.states = NULL;
    c.from = path;
    c.accelerate = !_i;
    c.iters = 5;
    a = test_cp_run(test_case_dir, &c);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text, _i ? "is accelerated, so it cannot continue without it"
                                        : "is not accelerated, so it cannot continue with it") !=
                      NULL,
                  "%s", a.err.text);
    test_cp_free(&a);
}
END_TEST

/* One factor of three is no operand of the first solve, and is not kept. */
START_TEST(memory_is_that_of_two_factors)
{
    struct ts_spec spec = { .mode = { { .nonneg = 0 } } };
    struct ts_tensor *t;
    write_slow();
    ck_assert_int_eq(ts_tensor_open(test_case_dir, &t, NULL), 0);
    ck_assert_uint_eq(ts_accelerate_bytes(t, 7, TS_FLOAT32, NULL), (25 + 20) * 7 * 4);
    ck_assert_uint_eq(ts_accelerate_bytes(t, 7, TS_FLOAT64, NULL), (25 + 20) * 7 * 8);
    spec.mode[0].fixed = 1;
    ck_assert_uint_eq(ts_accelerate_bytes(t, 7, TS_FLOAT32, &spec), 20 * 7 * 4);
    spec.mode[0] = (struct ts_constraint){ .nonneg = 1 };
    ck_assert_uint_eq(ts_accelerate_bytes(t, 7, TS_FLOAT32, &spec), (30 + 25 + 20) * 7 * 4);
    ts_tensor_close(t);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("accelerate");
    TCase *c = tcase_create("accelerate");
    tcase_add_checked_fixture(c, test_case_setup, test_case_teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, sweeps_are_those_of_the_twin, 0, N_SHAPES);
    tcase_add_loop_test(c, constrained_sweeps_are_those_of_the_slow_program, 2, N_DEMANDS);
    tcase_add_loop_test(c, bits_do_not_depend_on_threads_memory_or_calls, 0, 2 * N_DEMANDS);
    tcase_add_test(c, fewer_sweeps_are_needed);
    tcase_add_test(c, it_settles_in_two_sweeps);
    tcase_add_loop_test(c, nonnegative_rows_stay_so, 0, 2);
    tcase_add_loop_test(c, a_stop_changes_nothing, 0, 4 * N_DEMANDS);
    tcase_add_loop_test(c, states_beside_the_run_are_whole, 0, 2);
    tcase_add_loop_test(c, a_run_that_had_ended_goes_on, 0, 6);
    tcase_add_loop_test(c, what_cannot_be_is_refused, 0, 2);
    tcase_add_test(c, memory_is_that_of_two_factors);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
