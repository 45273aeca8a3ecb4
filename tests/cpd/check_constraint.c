/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompositions with constraints are those of a slow, obvious program, never get worse, end where
 * their conditions of optimality hold, and have the same bits however they are run. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "cpd/rows/symm.h"
#include "cpu/rows/rowsolve.h"
#include "tests/cpd/als_case.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

#define UNIT 32u /* rows that end together, as in stream/row_update.h */

static double draw(uint64_t at)
{
    return ts_unit(ts_mix(at)) - 0.5;
}

/* ---- the update of rows ---- */

static double soft(double x, double k)
{
    return x > k ? x - k : x < -k ? x + k : 0;
}

/* a (n x rank) by coordinate descent from m, as row_update.h says. */
static void slow_descend(uint64_t n, uint32_t rank, const double *g, const double *m, double l1,
                         double lower, uint32_t rounds, double *a)
{
    for (uint64_t first = 0; first < n; first += UNIT)
        for (uint32_t round = 0; round < rounds; round++) {
            double moved = 0, size = 0;
            for (uint64_t i = first; i < n && i < first + UNIT; i++)
                for (uint32_t r = 0; r < rank; r++) {
                    const double old = a[i * rank + r], square = g[r * rank + r];
                    double t = m[i * rank + r];
                    for (uint32_t s = 0; s < rank; s++)
                        t -= a[i * rank + s] * g[r * rank + s];
                    if (square > 0)
                        t = soft(old + t / square, l1 / square);
                    else
                        t = l1 > 0 ? 0 : old;
                    t = t > lower ? t : lower;
                    moved += (t - old) * (t - old);
                    size += t * t;
                    a[i * rank + r] = t;
                }
            if (moved <= TS_ROW_TOL(rounds) * TS_ROW_TOL(rounds) * size)
                break;
        }
}

static const uint32_t ranks[] = { 1, 2, 3, 8, 10, 17, 32, 50, 130 };
static const uint64_t sizes[] = { 1, 31, 32, 33, 64, 100, 1003 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])
#define N_FEW   (N_RANKS / 2)
#define N_SIZES (int)(sizeof sizes / sizeof sizes[0])

/* Gram matrix of `rows` rows of positive numbers, so fewer than rank make it singular; column 2 is
 * zero. */
static void make_gram(uint32_t rank, uint32_t rows, double *g)
{
    double *x = malloc((rows + UINT64_C(1)) * rank * sizeof *x);
    for (uint32_t k = 0; k < rows; k++)
        for (uint32_t i = 0; i < rank; i++)
            x[k * rank + i] = i == 2 ? 0 : draw(k * 1000 + i) + 0.5;
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t j = 0; j < rank; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < rows; k++)
                sum += x[k * rank + i] * x[k * rank + j];
            g[i * rank + j] = sum;
        }
    free(x);
}

/* Roundings of sums of `rank` terms, some rounds long, the size of entries being up to 100. */
START_TEST(rows_descend_as_the_slow_way_has_them)
{
    const enum ts_isa isa = (enum ts_isa)(_i % TS_N_ISA);
    const uint32_t rank = ranks[_i / TS_N_ISA % N_RANKS];
    const enum ts_precision precision = _i / TS_N_ISA / N_RANKS ? TS_FLOAT32 : TS_FLOAT64;
    double *g, weight[130];
    struct ts_rowsolve *s;
    if (!ts_isa_here(isa))
        return;
    g = malloc(rank * rank * sizeof *g);
    for (uint32_t r = 0; r < rank; r++)
        weight[r] = r % 3 == 0 ? 1 : 0.5;
    ck_assert_int_eq(ts_rowsolve_new(1003, rank, isa, 2, &s, NULL), 0);
    ck_assert_int_eq(ts_rowsolve_own(s, NULL), 0);
    for (int k = 0; k < 4 * N_SIZES; k++) {
        /* as many rows of a high rank only take longer */
        const uint64_t n = rank > 32 && sizes[k / 4] > 300 ? 323 : sizes[k / 4];
        if (n * rank > 4000 && k % 4 != _i % 4) /* large ones take turns */
            continue;
        const double l1 = k % 4 < 2 ? 0 : 0.3, lower = k % 2 == 0 ? 0 : -INFINITY;
        double *m = malloc(n * rank * sizeof *m), *a = malloc(n * rank * sizeof *a);
        double *gram = malloc(rank * rank * sizeof *gram), inner, size, want_inner = 0, want = 0;
        double *got = malloc(n * rank * sizeof *got);
        struct ts_fmat f, product;
        const struct ts_row_update how = { .kind = TS_ROW_COORDINATE,
                                           .matrix = g,
                                           .weight = weight,
                                           .l1 = l1,
                                           .lower = lower,
                                           .upper = INFINITY,
                                           .rounds = 3 + (uint32_t)k % 4 };
        const struct ts_row_sums sums = { .gram = gram, .inner = &inner, .size = &size };
        make_gram(rank, k % 3 == 0 ? rank / 2 + 1 : rank + 3, g);
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &f, NULL), 0);
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &product, NULL), 0);
        for (uint64_t i = 0; i < n * rank; i++) {
            a[i] = fabs(draw(i + 77));
            m[i] = 3 * draw(i + 1000000);
            if (precision == TS_FLOAT32) {
                a[i] = (float)a[i];
                m[i] = (float)m[i];
            }
        }
        ts_fmat_put(&f, 0, n, a, 1);
        ts_fmat_put(&product, 0, n, m, 1);
        for (uint64_t i = 0; i < n * rank; i++)
            a[i] *= weight[i % rank];
        slow_descend(n, rank, g, m, l1, lower, 3 + (uint32_t)k % 4, a);
        ts_rowsolve_run(s, &f, &product, &how, &sums, NULL, NULL);
        ts_fmat_get(&f, 0, n, got, 1);
        for (uint64_t i = 0; i < n * rank; i++) {
            ck_assert_double_eq_tol(
                got[i], a[i], precision == TS_FLOAT64 ? 1e-10 : fabs(a[i]) * FLT_EPSILON + 1e-10);
            want_inner += m[i] * got[i];
            want += fabs(got[i]);
        }
        ck_assert_double_eq_tol(inner, want_inner, 1e-10 * (1 + fabs(want)));
        ck_assert_double_eq_tol(size, want, 1e-12 * (1 + want));
        for (uint32_t i = 0; i < rank; i++)
            for (uint32_t j = 0; j < rank; j++) {
                double sum = 0;
                for (uint64_t x = 0; x < n; x++)
                    sum += got[x * rank + i] * got[x * rank + j];
                ck_assert_double_eq_tol(gram[i * rank + j], sum, 1e-10 * (1 + fabs(sum)));
            }
        ts_fmat_free(&f);
        ts_fmat_free(&product);
        free(m);
        free(a);
        free(got);
        free(gram);
    }
    ts_rowsolve_free(s);
    free(g);
}
END_TEST

/* Groups whole, and in two steps; kept rows, too. */
START_TEST(bits_of_rows_do_not_depend_on_threads)
{
    static const uint32_t threads[] = { 1, 2, 5 };
    static const uint64_t n_rows[] = { 2503, 230, 4096 };
    const uint32_t rank = ranks[2 * (_i / 2 % N_FEW)];
    const enum ts_isa isa = (enum ts_isa)(_i / 2 / N_FEW);
    const uint64_t n = n_rows[_i % 3], square = (uint64_t)rank * rank;
    double *g, *m, *old, *gram[3], *a[3], inner[3], kept[3], size[3];
    if (!ts_isa_here(isa))
        return;
    g = malloc(square * sizeof *g);
    m = malloc(n * rank * sizeof *m);
    old = malloc(n * rank * sizeof *old);
    make_gram(rank, rank + 1, g);
    for (uint64_t i = 0; i < n * rank; i++) {
        m[i] = 3 * draw(i);
        old[i] = fabs(draw(i + 5));
    }
    for (int t = 0; t < 3; t++) {
        const struct ts_row_update how = {
            .kind = TS_ROW_COORDINATE, .matrix = g, .upper = 0.9, .rounds = 3
        };
        const struct ts_row_update keep = { .kind = TS_ROW_KEEP };
        struct ts_fmat f, product;
        struct ts_rowsolve *s;
        double *unused = malloc(square * sizeof *unused);
        gram[t] = malloc(square * sizeof(double));
        a[t] = malloc(n * rank * sizeof(double));
        ck_assert_int_eq(ts_fmat_new(n, rank, (enum ts_precision)(_i % 2), "test", &f, NULL), 0);
        ck_assert_int_eq(ts_fmat_new(n, rank, (enum ts_precision)(_i % 2), "test", &product, NULL),
                         0);
        ts_fmat_put(&f, 0, n, old, 1);
        ts_fmat_put(&product, 0, n, m, 1);
        ck_assert_int_eq(ts_rowsolve_new(n + 1000 * (unsigned)t, rank, isa, threads[t], &s, NULL),
                         0);
        ck_assert_int_eq(ts_rowsolve_own(s, NULL), 0);
        ts_rowsolve_run(s, &f, &product, &how,
                        &(struct ts_row_sums){ gram[t], &inner[t], &size[t] }, NULL, NULL);
        ts_fmat_get(&f, 0, n, a[t], 1);
        ts_rowsolve_run(s, &f, &product, &keep,
                        &(struct ts_row_sums){ .gram = unused, .inner = &kept[t] }, NULL, NULL);
        ck_assert_mem_eq(unused, gram[t], square * sizeof *unused);
        ck_assert(kept[t] == inner[t]);
        ck_assert(inner[t] == inner[0] && size[t] == size[0]);
        ck_assert_mem_eq(gram[t], gram[0], square * sizeof(double));
        ck_assert_mem_eq(a[t], a[0], n * rank * sizeof(double));
        for (uint64_t i = 0; i < n * rank; i++)
            ck_assert(a[t][i] >= 0 && a[t][i] <= 0.9 + FLT_EPSILON);
        ts_fmat_free(&f);
        ts_fmat_free(&product);
        ts_rowsolve_free(s);
        free(unused);
    }
    for (int t = 0; t < 3; t++) {
        free(gram[t]);
        free(a[t]);
    }
    free(g);
    free(m);
    free(old);
}
END_TEST

/* ---- whole runs beside a slow program ---- */

struct book {
    const struct test_coo *x;
    const struct ts_spec *spec;
    uint32_t rank, sweep; /* sweep: from 1; 0: before the first */
    int penalty;
    double *a[TS_MAX_ORDER]; /* dim x rank, columns as the engine has them */
    double weight[32];       /* of the columns */
    double size2;            /* sum of squares of the tensor */
};

static void book_new(struct book *b, uint64_t seed)
{
    b->penalty = 0;
    b->size2 = 0;
    for (uint64_t n = 0; n < b->x->nnz; n++)
        b->size2 += b->x->val[n] * b->x->val[n];
    for (uint32_t r = 0; r < b->rank; r++)
        b->weight[r] = 1;
    for (uint32_t m = 0; m < b->x->order; m++) {
        b->penalty |= b->spec->mode[m].l1 > 0 || b->spec->mode[m].l2 > 0;
        b->a[m] = malloc(b->x->dim[m] * b->rank * sizeof(double));
        for (uint64_t i = 0; i < b->x->dim[m] * b->rank; i++)
            b->a[m][i] = ts_init_entry(seed, m, i / b->rank, (uint32_t)(i % b->rank));
    }
}

static void book_free(struct book *b)
{
    for (uint32_t m = 0; m < b->x->order; m++)
        free(b->a[m]);
}

static double entry(const struct book *b, const uint32_t *const *at, uint64_t n, uint32_t skip,
                    uint32_t r)
{
    double p = 1;
    for (uint32_t m = 0; m < b->x->order; m++)
        p *= m == skip ? 1 : b->a[m][at[m][n] * b->rank + r];
    return p;
}

static void book_grams(const struct book *b, uint32_t skip, double *v)
{
    for (uint32_t i = 0; i < b->rank; i++)
        for (uint32_t j = 0; j < b->rank; j++) {
            double p = 1;
            for (uint32_t m = 0; m < b->x->order; m++) {
                double g = 0;
                for (uint64_t k = 0; m != skip && k < b->x->dim[m]; k++)
                    g += b->a[m][k * b->rank + i] * b->a[m][k * b->rank + j];
                p *= m == skip ? 1 : g;
            }
            v[i * b->rank + j] = p;
        }
}

static void book_product(const struct book *b, uint32_t mode, double *out)
{
    memset(out, 0, b->x->dim[mode] * b->rank * sizeof *out);
    for (uint64_t n = 0; n < b->x->nnz; n++)
        for (uint32_t r = 0; r < b->rank; r++)
            out[b->x->idx[mode][n] * b->rank + r] +=
                b->x->val[n] * entry(b, (const uint32_t *const *)b->x->idx, n, mode, r);
}

/* |X - model|^2 from every cell's sum: no Gram matrix in it; cells that are not listed by
 * |model|^2. */
static double book_distance(const struct book *b)
{
    double *v = malloc(b->rank * b->rank * sizeof *v), sum = b->size2;
    for (uint64_t n = 0; n < b->x->nnz; n++)
        for (uint32_t r = 0; r < b->rank; r++)
            sum -= 2 * b->x->val[n] * b->weight[r] *
                   entry(b, (const uint32_t *const *)b->x->idx, n, TS_MAX_ORDER, r);
    book_grams(b, TS_MAX_ORDER, v);
    for (uint32_t i = 0; i < b->rank; i++)
        for (uint32_t j = 0; j < b->rank; j++)
            sum += b->weight[i] * b->weight[j] * v[i * b->rank + j];
    free(v);
    return sum;
}

/* In the last mode solved the weights are of its columns; where there is a penalty they are all
 * 1. */
static double book_objective(const struct book *b)
{
    double sum = 0.5 * book_distance(b);
    for (uint32_t m = 0; m < b->x->order; m++)
        for (uint64_t i = 0; i < b->x->dim[m] * b->rank; i++)
            sum += b->spec->mode[m].l1 * fabs(b->a[m][i]) +
                   0.5 * b->spec->mode[m].l2 * b->a[m][i] * b->a[m][i];
    return sum;
}

static int starts_too_large(const struct book *b)
{
    double *v = malloc(b->rank * b->rank * sizeof *v), cells = 1, square = 0;
    book_grams(b, TS_MAX_ORDER, v);
    for (uint32_t i = 0; i < b->rank * b->rank; i++)
        square += b->weight[i / b->rank] * b->weight[i % b->rank] * v[i];
    for (uint32_t m = 0; m < b->x->order; m++)
        cells *= (double)b->x->dim[m];
    free(v);
    return b->sweep <= 1 && ts_constraint_too_large(sqrt(b->size2), b->x->nnz, cells, square);
}

static void book_solve(struct book *b, uint32_t mode)
{
    const uint32_t rank = b->rank;
    const uint64_t n = b->x->dim[mode];
    const struct ts_constraint *c = &b->spec->mode[mode];
    double *v = malloc(rank * rank * sizeof *v), *w = malloc(rank * rank * sizeof *w);
    double *m = malloc(n * rank * sizeof *m), *a = b->a[mode];
    book_product(b, mode, m);
    book_grams(b, mode, v);
    for (uint32_t r = 0; r < rank; r++)
        v[r * rank + r] += c->l2;
    if (c->nonneg || c->l1 > 0) {
        for (uint64_t i = 0; i < n * rank; i++)
            a[i] *= b->weight[i % rank];
        slow_descend(n, rank, v, m, c->l1, c->nonneg ? 0 : -INFINITY,
                     ts_constraint_rounds(starts_too_large(b), b->x->order, b->x->nnz, n, rank), a);
    } else {
        /* as for columns of norm 1: which are dependent is no matter of length */
        double length[32];
        for (uint32_t r = 0; r < rank; r++)
            length[r] = v[r * rank + r] > 0 ? sqrt(v[r * rank + r]) : 1;
        for (uint32_t i = 0; i < rank * rank; i++)
            v[i] /= length[i / rank] * length[i % rank];
        ck_assert_int_eq(ts_symm_pinv(rank, v, TS_SYMM_CUT, NULL, w, NULL, NULL), 0);
        for (uint32_t i = 0; i < rank * rank; i++)
            w[i] /= length[i / rank] * length[i % rank];
        memset(a, 0, n * rank * sizeof *a);
        for (uint64_t i = 0; i < n * rank; i++)
            for (uint32_t k = 0; k < rank; k++)
                a[i] += m[i / rank * rank + k] * w[k * rank + i % rank];
    }
    for (uint32_t r = 0; r < rank; r++) {
        double s = 0;
        for (uint64_t i = 0; i < n && !b->penalty; i++)
            s += a[i * rank + r] * a[i * rank + r];
        b->weight[r] = s > 0 ? exp2(rint(log2(sqrt(s)))) : 1;
        for (uint64_t i = 0; i < n; i++)
            a[i * rank + r] /= b->weight[r];
    }
    free(v);
    free(w);
    free(m);
}

static const struct shape {
    uint32_t order, nnz, value_range, rank;
    uint64_t dim[8];
} shapes[] = {
    { 2, 300, 9, 4, { 31, 40 } },
    { 3, 2000, 0, 5, { 40, 30, 20 } },
    { 3, 500, 1, 16, { 3, 50, 40 } }, /* rank above a mode's size: G is singular */
    { 3, 800, 0, 6, { 1, 50, 40 } },  /* a mode of one index: columns are parallel */
    { 4, 3000, 0, 8, { 20, 15, 10, 9 } },
    { 5, 2500, 4, 3, { 12, 9, 8, 7, 6 } },
    { 6, 2000, 0, 3, { 6, 5, 7, 4, 8, 3 } },
    { 7, 1500, 3, 2, { 4, 5, 3, 4, 5, 3, 4 } },
    { 8, 1500, 0, 2, { 3, 4, 3, 2, 5, 3, 4, 2 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

/* What is asked of mode m. */
static void demand(int which, uint32_t order, struct ts_spec *spec)
{
    struct ts_constraint *c = spec->mode;
    *spec = ts_spec_plain;
    for (uint32_t m = 0; m < order; m++)
        switch (which) {
        case 0: /* all nonnegative */
            c[m].nonneg = 1;
            break;
        case 1: /* some are */
            c[m].nonneg = m % 2 == 0;
            break;
        case 2: /* the last alone is */
            c[m].nonneg = m + 1 == order;
            break;
        case 3: /* sparse and nonnegative, bounded in length elsewhere */
            c[m] = (struct ts_constraint){ .nonneg = 1,
                                           .l1 = m == 0 ? 0.05 : 0,
                                           .l2 = m > 0 ? 0.2 : 0 };
            break;
        case 4: /* sparse of either sign, ridge */
            c[m] = (struct ts_constraint){ .l1 = m == 1 ? 0.05 : 0, .l2 = m != 1 ? 0.1 : 0.02 };
            break;
        default: /* ridge alone: least squares */
            c[m].l2 = 0.1;
        }
}
#define N_DEMANDS 6

/* Entries have a size of 1 or so; roundings of 1e-16 grow by the condition of G and with the
 * sweeps. */
START_TEST(runs_are_those_of_the_slow_program)
{
    const struct shape *s = &shapes[_i / N_DEMANDS];
    struct test_coo x = test_coo_random(17, s->order, s->dim, s->nnz, s->value_range, 0.5);
    const struct test_tsh_conf tc = { .kind = s->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F32,
                                      .shard_partitions = 1 };
    struct ts_spec spec;
    struct test_als_conf conf = { .rank = s->rank,
                                  .iters = 4,
                                  .seed = 3,
                                  .threads = 2,
                                  .precision = TS_FLOAT64,
                                  .each_mode = 1,
                                  .spec = &spec };
    struct book b = { .x = &x, .spec = &spec, .rank = s->rank };
    struct test_als a;
    double before;
    demand(_i % N_DEMANDS, s->order, &spec);
    if (s->rank > s->dim[0] && s->dim[0] > 1 && _i % N_DEMANDS == 1) {
        test_coo_free(&x); /* G is singular but for rounding, which chooses among solutions */
        return;
    }
    test_tsh_write(test_case_dir, &x, &tc);
    book_new(&b, conf.seed);
    a = test_als_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    if (_i % N_DEMANDS ==
        1) /* the first mode has no signs: the last one that has is solved first */
        book_solve(&b, (s->order - 2) / 2 * 2 + 1);
    before = book_objective(&b);
    for (uint32_t k = 0; k < 4; k++) {
        double fit;
        for (uint32_t m = 0; m < x.order; m++) {
            double now;
            b.sweep = k + 1;
            book_solve(&b, m);
            now = book_objective(&b);
            ck_assert_msg(now <= before * (1 + 1e-9), "sweep %u, mode %u: %.15g after %.15g", k + 1,
                          m + 1, now, before);
            if (k > 0 || m >= 1 || spec.mode[1].l1 == 0) /* the start's sum is not known */
                ck_assert_double_eq_tol(a.each_mode[k * x.order + m], now, 1e-10 * b.size2);
            else
                ck_assert(isnan(a.each_mode[m]));
            before = now;
        }
        fit = 1 - sqrt(book_distance(&b) / b.size2);
        ck_assert_double_eq_tol(a.fit[k], fit, 1e-10);
        if (b.penalty)
            ck_assert_double_eq_tol(a.objective[k], before, 1e-10 * b.size2);
        else
            ck_assert(isnan(a.objective[k]));
    }
    for (uint32_t m = 0; m < x.order; m++)
        for (uint32_t r = 0; r < s->rank; r++) {
            double norm = 0, sign = 1;
            for (uint64_t i = 0; i < x.dim[m]; i++)
                norm += b.a[m][i * s->rank + r] * b.a[m][i * s->rank + r];
            norm = norm > 0 ? sqrt(norm) : 1;
            for (uint64_t i = 0; i < x.dim[m]; i++) {
                ck_assert(!spec.mode[m].nonneg || a.factor[m][i * s->rank + r] >= 0);
                if (_i / N_DEMANDS != 2 && _i / N_DEMANDS != 3) /* whose solutions are not unique */
                    ck_assert_double_eq_tol(a.factor[m][i * s->rank + r],
                                            sign * b.a[m][i * s->rank + r] / norm, 1e-8);
            }
        }
    test_als_free(&a);
    book_free(&b);
    test_coo_free(&x);
}
END_TEST

/* ---- where it ends ---- */

static void write_tensor(uint64_t seed)
{
    static const uint64_t dim[3] = { 90, 60, 30 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32, .stretch = 2, .shard_partitions = 1 };
    struct test_coo x = test_coo_random(seed, 3, dim, 50000, 0, 0.5);
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = (float)(x.val[n] - 0.1);
    test_tsh_write(test_case_dir, &x, &conf);
    test_coo_free(&x);
}

/* Every mode: with g the gradient, g >= 0 where the entry is 0, and 0 elsewhere, to 1e-4 of its
 * parts. */
START_TEST(the_end_is_optimal)
{
    static const uint64_t dim[3] = { 24, 18, 12 };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct test_coo x = test_coo_random(5, 3, dim, 2500, 0, 0.3);
    struct ts_spec spec = { .mode = { { .nonneg = 1 }, { .nonneg = 1 }, { .nonneg = 1 } } };
    struct test_als_conf conf = {
        .rank = 4, .iters = 3000, .seed = 2, .tol = 1e-13, .precision = TS_FLOAT64, .spec = &spec
    };
    struct book b = { .x = &x, .spec = &spec, .rank = 4 };
    struct test_als a;
    for (uint32_t m = 0; m < 3; m++)
        spec.mode[m].l1 = _i == 0 ? 0 : 0.2;
    test_tsh_write(test_case_dir, &x, &tc);
    a = test_als_run(test_case_dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    ck_assert_int_eq(a.converged, 1);
    book_new(&b, 1);
    for (uint32_t m = 0; m < 3; m++) {
        double m_[24 * 4], v[16], worst = 0, scale = 0;
        for (uint32_t k = 0; k < 3; k++) /* lengths in balance, as they are with penalties */
            for (uint64_t i = 0; i < dim[k] * 4; i++)
                b.a[k][i] = a.factor[k][i];
        for (uint32_t k = 0; k < 3; k++)
            for (uint64_t i = 0; i < dim[k] * 4 && k != m; i++)
                b.a[k][i] *= _i == 0 ? 1 : a.norm[k * 4 + i % 4];
        for (uint64_t i = 0; i < dim[m] * 4; i++)
            b.a[m][i] *= _i == 0 ? a.weight[i % 4] : a.norm[m * 4 + i % 4];
        book_product(&b, m, m_);
        book_grams(&b, m, v);
        for (uint64_t i = 0; i < dim[m] * 4; i++) {
            double g = spec.mode[m].l1 - m_[i];
            for (uint32_t s = 0; s < 4; s++)
                g += b.a[m][i / 4 * 4 + s] * v[s * 4 + i % 4];
            scale = fmax(scale, fabs(m_[i]));
            worst = fmax(worst, b.a[m][i] > 0 ? fabs(g) : -g);
        }
        ck_assert_msg(worst <= 1e-4 * scale, "mode %u: %g of %g", m + 1, worst, scale);
    }
    book_free(&b);
    test_als_free(&a);
    test_coo_free(&x);
}
END_TEST

/* ---- the same bits ---- */

START_TEST(threads_and_memory_do_not_matter)
{
    struct ts_spec spec;
    struct test_als_conf conf = { .rank = 7, .iters = 4, .seed = 3, .threads = 1, .spec = &spec };
    struct test_als one, many;
    demand(_i / 2, 3, &spec);
    conf.precision = _i % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    write_tensor(41);
    one = test_case_run(&conf);
    conf.threads = 3;
    conf.host_bytes = 500000;
    many = test_case_run(&conf);
    ck_assert_uint_eq(one.n_slots, 0);
    ck_assert_uint_gt(many.n_slots, 0);
    test_case_same(&one, &many);
    test_als_free(&one);
    test_als_free(&many);
}
END_TEST

/* Every product of a run is given up once, and the run goes on from the state with other threads.
 * Values near rank 2 make float32's sums too coarse for the fit, so that the last mode's product is
 * taken twice. */
START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct ts_spec spec;
    struct test_als_conf conf = {
        .rank = 2, .iters = 6, .seed = 1, .threads = 1, .states = test_case_states, .spec = &spec
    };
    struct test_coo x = { .order = 3, .nnz = 12 * 11 * 10, .dim = { 12, 11, 10 } };
    struct test_als whole, a;
    char from[4200];
    int saved;
    snprintf(from, sizeof from, "%s/" TS_STATE_NAME_1, test_case_states);
    demand(_i / 2, 3, &spec);
    conf.precision = _i % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
    for (uint32_t m = 0; m < 3; m++)
        x.idx[m] = malloc(x.nnz * sizeof(uint32_t));
    x.val = calloc(x.nnz, sizeof(double));
    for (uint64_t n = 0; n < x.nnz; n++) {
        x.idx[0][n] = (uint32_t)(n / 110);
        x.idx[1][n] = (uint32_t)(n / 10 % 11);
        x.idx[2][n] = (uint32_t)(n % 10);
        x.val[n] = (float)((double)(n / 110 + 1) * (double)(n % 10 + 1) +
                           0.01 * (double)(n / 10 % 11) * (double)(n % 7));
    }
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
    whole = test_case_run(&conf);
    if (conf.precision == TS_FLOAT32)
        ck_assert_uint_gt(whole.n_products, 3 * whole.sweeps);
    for (uint32_t k = 1; k <= whole.n_products; k++) {
        conf.stop_product = k;
        conf.threads = 1;
        a = test_als_run(test_case_dir, &conf);
        ck_assert_int_eq(a.rc, TS_ESTOP);
        saved = a.saved_sweep > 0;
        ck_assert_int_eq(saved, k > 1 || _i / 2 != 1); /* but before the first sweep */
        test_als_free(&a);
        conf.stop_product = 0;
        if (!saved)
            continue;
        conf.threads = 2;
        conf.from = from;
        a = test_case_run(&conf);
        test_case_same(&whole, &a);
        conf.from = NULL;
        test_als_free(&a);
    }
    test_als_free(&whole);
}
END_TEST

START_TEST(a_state_with_other_constraints_is_refused)
{
    struct ts_spec spec = { .mode = { { 0 }, { .nonneg = 1, .l1 = 0.5 }, { 0 } } };
    struct test_als_conf conf = {
        .rank = 3, .iters = 3, .seed = 1, .states = test_case_states, .stop_sweep = 2, .spec = &spec
    };
    struct test_als a;
    char from[4200];
    snprintf(from, sizeof from, "%s/" TS_STATE_NAME_1, test_case_states);
    write_tensor(43);
    a = test_als_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_ESTOP);
    test_als_free(&a);
    conf.from = from;
    conf.spec = NULL;
    a = test_als_run(test_case_dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text,
                         "mode 2 of the run has these constraints: nonnegative, l1 0.5; "
                         "it cannot go on with: none") != NULL,
                  "%s", a.err.text);
    test_als_free(&a);
}
END_TEST

/* ---- what cannot be, and what dies ---- */

START_TEST(a_penalty_that_leaves_nothing_ends_well)
{
    struct ts_spec spec;
    struct test_als_conf conf = { .rank = 3, .iters = 9, .tol = 1e-6, .seed = 1, .spec = &spec };
    struct test_als a;
    demand(3, 3, &spec);
    spec.mode[0].l1 = 1e9;
    conf.precision = (enum ts_precision)_i;
    write_tensor(44);
    a = test_case_run(&conf);
    ck_assert_uint_eq(a.last.n_dead, 3);
    ck_assert_double_eq(a.fit[a.sweeps - 1], 0);
    ck_assert_uint_lt(a.sweeps, 9);
    for (uint32_t r = 0; r < 3; r++)
        ck_assert(a.weight[r] == 0);
    test_als_free(&a);
}
END_TEST

/* Factors of two modes are positive, those of the third negative, or of both signs: a mode that may
 * be negative has to take the signs before the others become zeros. */
START_TEST(a_free_mode_takes_the_signs)
{
    static const struct ts_spec some[4] = {
        { .mode = { { .nonneg = 1 }, { .nonneg = 1 } } },
        { .mode = { { .nonneg = 1 }, { .nonneg = 1 }, { .l1 = 1e-6 } } },
        { .mode = { { .nonneg = 1, .l2 = 1e-6 }, { .nonneg = 1, .l2 = 1e-6 }, { .l2 = 1e-6 } } },
        { .mode = { { .nonneg = 1 } } },
    };
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F64 };
    struct test_als_conf conf = { .rank = 2, .iters = 90, .precision = TS_FLOAT64 };
    struct test_coo x = { .order = 3, .nnz = 4000, .dim = { 20, 20, 10 } };
    for (uint32_t m = 0; m < 3; m++)
        x.idx[m] = malloc(x.nnz * sizeof(uint32_t));
    x.val = calloc(x.nnz, sizeof(double));
    for (uint64_t n = 0; n < x.nnz; n++) {
        const uint64_t at[3] = { n / 200, n / 10 % 20, n % 10 };
        for (uint32_t r = 0; r < 2; r++) {
            double p = _i % 2 == 0 || at[2] % 3 == r ? -1 : 1;
            for (uint32_t m = 0; m < 3; m++)
                p *= draw(1000 * m + 100 * r + at[m]) + 0.5;
            x.val[n] += p;
        }
        for (uint32_t m = 0; m < 3; m++)
            x.idx[m][n] = (uint32_t)at[m];
    }
    test_tsh_write(test_case_dir, &x, &tc);
    test_coo_free(&x);
    conf.spec = &some[_i / 2];
    for (conf.seed = 1; conf.seed <= 5; conf.seed++) {
        struct test_als a = test_case_run(&conf);
        ck_assert_uint_eq(a.last.n_dead, 0);
        ck_assert_msg(a.fit[a.sweeps - 1] > 0.999, "seed %d: %.9g", (int)conf.seed,
                      a.fit[a.sweeps - 1]);
        test_als_free(&a);
    }
}
END_TEST

START_TEST(what_cannot_be_asked_is_refused)
{
    static const struct {
        struct ts_spec spec;
        const char *says;
    } cases[] = {
        { { .mode = { { .l1 = -1 } } }, "mode 1: a penalty must be a number of 0 or more" },
        { { .mode = { { 0 }, { .l2 = INFINITY } } }, "mode 2: a penalty must be" },
        { { .mode = { { .fixed = 1, .l1 = 1 } } }, "mode 1: its factor is fixed" },
        { { .mode = { { .fixed = 1 }, { .fixed = 1 }, { .fixed = 1 } } }, "nothing to compute" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ts_err err;
        ck_assert_int_eq(ts_spec_check(&cases[i].spec, 3, &err), TS_EARG);
        ck_assert_msg(strstr(err.text, cases[i].says) != NULL, "%s", err.text);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("constraint");
    TCase *c = tcase_create("constraint");
    tcase_add_checked_fixture(c, test_case_setup, test_case_teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, rows_descend_as_the_slow_way_has_them, 0, 2 * N_RANKS * TS_N_ISA);
    tcase_add_loop_test(c, bits_of_rows_do_not_depend_on_threads, 0, 2 * N_FEW * TS_N_ISA);
    tcase_add_loop_test(c, runs_are_those_of_the_slow_program, 0, N_SHAPES * N_DEMANDS);
    tcase_add_loop_test(c, the_end_is_optimal, 0, 2);
    tcase_add_loop_test(c, threads_and_memory_do_not_matter, 0, 2 * N_DEMANDS);
    tcase_add_loop_test(c, a_run_that_was_stopped_has_the_same_bits, 0, 2 * N_DEMANDS);
    tcase_add_test(c, a_state_with_other_constraints_is_refused);
    tcase_add_loop_test(c, a_penalty_that_leaves_nothing_ends_well, 0, 2);
    tcase_add_loop_test(c, a_free_mode_takes_the_signs, 0, 8);
    tcase_add_test(c, what_cannot_be_asked_is_refused);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
