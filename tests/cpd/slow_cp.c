/* SPDX-License-Identifier: BSD-3-Clause */
/* CP decompositions from every nonzero, for tests. */
#include "tests/cpd/slow_cp.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/rows/symm.h"
#include "tests/support/run_suite.h"

void test_slow_new(struct test_slow *s, uint64_t seed)
{
    const struct test_coo *x = s->x;
    ck_assert_uint_le(s->rank, TEST_SLOW_RANK);
    s->size2 = 0;
    for (uint64_t n = 0; n < x->nnz; n++)
        s->size2 += x->val[n] * x->val[n];
    for (uint32_t r = 0; r < s->rank; r++)
        s->weight[r] = 1;
    s->balanced = ts_spec_lengths(s->spec, x->order);
    for (uint32_t m = 0; m < x->order; m++) {
        s->a[m] = malloc(x->dim[m] * s->rank * sizeof(double));
        for (uint64_t i = 0; i < x->dim[m] * s->rank; i++)
            s->a[m][i] = ts_init_entry(seed, m, i / s->rank, (uint32_t)(i % s->rank));
    }
}

void test_slow_free(struct test_slow *s)
{
    for (uint32_t m = 0; m < s->x->order; m++)
        free(s->a[m]);
}

static double entry(const struct test_slow *s, uint64_t n, uint32_t skip, uint32_t r)
{
    double p = 1;
    for (uint32_t m = 0; m < s->x->order; m++)
        p *= m == skip ? 1 : s->a[m][s->x->idx[m][n] * s->rank + r];
    return p;
}

void test_slow_product(const struct test_slow *s, uint32_t mode, double *out)
{
    memset(out, 0, s->x->dim[mode] * s->rank * sizeof *out);
    for (uint64_t n = 0; n < s->x->nnz; n++)
        for (uint32_t r = 0; r < s->rank; r++)
            out[s->x->idx[mode][n] * s->rank + r] += s->x->val[n] * entry(s, n, mode, r);
}

void test_slow_grams(const struct test_slow *s, uint32_t skip, double *v)
{
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t j = 0; j < s->rank; j++) {
            double p = 1;
            for (uint32_t m = 0; m < s->x->order; m++) {
                double g = 0;
                for (uint64_t k = 0; m != skip && k < s->x->dim[m]; k++)
                    g += s->a[m][k * s->rank + i] * s->a[m][k * s->rank + j];
                p *= m == skip ? 1 : g;
            }
            v[i * s->rank + j] = p;
        }
}

double test_slow_distance(const struct test_slow *s)
{
    double *v = malloc(s->rank * s->rank * sizeof *v), sum = s->size2;
    for (uint64_t n = 0; n < s->x->nnz; n++)
        for (uint32_t r = 0; r < s->rank; r++)
            sum -= 2 * s->x->val[n] * s->weight[r] * entry(s, n, TS_MAX_ORDER, r);
    test_slow_grams(s, TS_MAX_ORDER, v);
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t j = 0; j < s->rank; j++)
            sum += s->weight[i] * s->weight[j] * v[i * s->rank + j];
    free(v);
    return sum;
}

double test_slow_objective(const struct test_slow *s)
{
    double sum = 0.5 * test_slow_distance(s);
    for (uint32_t m = 0; m < s->x->order; m++) {
        const struct ts_constraint *c = &s->spec->mode[m];
        for (uint64_t i = 0; i < s->x->dim[m] * s->rank; i++)
            sum += c->l1 * fabs(s->a[m][i]) + 0.5 * c->l2 * s->a[m][i] * s->a[m][i];
        sum += 0.5 * c->smooth * s->rough[m];
    }
    return sum;
}

/* a := m pinv(v), v as it is for columns of length 1 */
static void solve(const struct test_slow *s, const double *m, double *v, uint64_t n, double *a)
{
    const uint32_t rank = s->rank;
    double *w = malloc(rank * rank * sizeof *w), length[TEST_SLOW_RANK];
    for (uint32_t r = 0; r < rank; r++)
        length[r] = v[r * rank + r] > 0 ? sqrt(v[r * rank + r]) : 1;
    for (uint32_t i = 0; i < rank * rank; i++)
        v[i] /= length[i / rank] * length[i % rank];
    ck_assert_int_eq(ts_symm_pinv(rank, v, TS_SYMM_CUT, NULL, w, NULL, NULL), 0);
    memset(a, 0, n * rank * sizeof *a);
    for (uint64_t i = 0; i < n * rank; i++)
        for (uint32_t k = 0; k < rank; k++)
            a[i] +=
                m[i / rank * rank + k] * w[k * rank + i % rank] / (length[k] * length[i % rank]);
    free(w);
}

/* y := the nearest row of the simplex: entries of 0 or more with the sum 1. By sorting, which is
 * another way than that of the program. */
static void project(uint32_t rank, double *y)
{
    double sorted[2048], sum = 0, t = 0;
    ck_assert_uint_le(rank, 2048);
    for (uint32_t r = 0; r < rank; r++) {
        uint32_t at = r;
        for (; at > 0 && sorted[at - 1] < y[r]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = y[r];
    }
    for (uint32_t r = 0; r < rank; r++) {
        sum += sorted[r];
        if (sorted[r] > (sum - 1) / (r + 1))
            t = (sum - 1) / (r + 1);
    }
    for (uint32_t r = 0; r < rank; r++)
        y[r] = y[r] - t > TS_ROW_NONE ? y[r] - t : 0;
}

static double value(uint32_t rank, const double *g, const double *m, const double *a)
{
    double sum = 0;
    for (uint32_t i = 0; i < rank; i++) {
        double h = 0;
        for (uint32_t k = 0; k < rank; k++)
            h += g[i * rank + k] * a[k];
        sum += a[i] * (0.5 * h - m[i]);
    }
    return sum;
}

/* u of a row that would be the best one. */
static void dual(uint32_t rank, const double *g, const double *m, double rho, const double *a,
                 double *u)
{
    double t = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++) {
        u[i] = -m[i];
        for (uint32_t k = 0; k < rank; k++)
            u[i] += g[i * rank + k] * a[k];
        u[i] /= rho;
        t += a[i] > 0 ? u[i] : 0;
        n += a[i] > 0;
    }
    t /= n;
    for (uint32_t i = 0; i < rank; i++)
        u[i] = a[i] > 0 || u[i] < t ? t : u[i];
}

void test_slow_simplex(uint64_t n, uint32_t rank, const double *g, const double *m, uint32_t rounds,
                       double *a)
{
    enum { UNIT = 32 };
    double *p = malloc(rank * rank * sizeof *p), *w = malloc(rank * rank * sizeof *w), rho = 0;
    double *old = malloc(UNIT * rank * sizeof *old), *u = malloc(UNIT * rank * sizeof *u);
    double *x = malloc(rank * sizeof *x), *h = malloc(rank * sizeof *h);
    for (uint32_t r = 0; r < rank; r++)
        rho += g[r * rank + r] / rank;
    rho = rho > 0 ? rho : 1;
    memcpy(w, g, rank * rank * sizeof *w);
    for (uint32_t r = 0; r < rank; r++)
        w[r * rank + r] += rho;
    ck_assert_int_eq(ts_symm_pinv(rank, w, TS_SYMM_CUT, NULL, p, NULL, NULL), 0);
    for (uint64_t first = 0; first < n; first += UNIT) {
        const uint64_t k = n - first < UNIT ? n - first : UNIT;
        for (uint64_t i = 0; i < k; i++) {
            double *row = a + (first + i) * rank;
            project(rank, row);
            memcpy(old + i * rank, row, rank * sizeof *row);
            dual(rank, g, m + (first + i) * rank, rho, row, u + i * rank);
        }
        for (uint32_t round = 0; round < rounds; round++) {
            for (uint64_t i = 0; i < k; i++) {
                double *row = a + (first + i) * rank, *v = u + i * rank;
                for (uint32_t r = 0; r < rank; r++) {
                    h[r] = 0;
                    for (uint32_t s = 0; s < rank; s++)
                        h[r] +=
                            p[r * rank + s] * (m[(first + i) * rank + s] + rho * (row[s] + v[s]));
                    x[r] = h[r] - v[r];
                }
                project(rank, x);
                for (uint32_t r = 0; r < rank; r++) {
                    v[r] += x[r] - h[r];
                    row[r] = x[r];
                }
            }
        }
        for (uint64_t i = 0; i < k; i++) {
            double *row = a + (first + i) * rank;
            const double *of = m + (first + i) * rank;
            if (value(rank, g, of, row) > value(rank, g, of, old + i * rank))
                memcpy(row, old + i * rank, rank * sizeof *row);
        }
    }
    free(p);
    free(w);
    free(old);
    free(u);
    free(x);
    free(h);
}

static double lower_of(const struct ts_constraint *c)
{
    return c->nonneg ? fmax(c->bounded ? c->lower : 0, 0) : c->bounded ? c->lower : -INFINITY;
}

void test_slow_descend(uint64_t n, uint32_t rank, const double *g, const double *m,
                       const struct ts_constraint *c, uint32_t rounds, double *a)
{
    const double lower = lower_of(c);
    const double upper = c->bounded ? c->upper : INFINITY;
    for (uint64_t first = 0; first < n; first += 32)
        for (uint32_t round = 0; round < rounds; round++) {
            double moved = 0, size = 0;
            for (uint64_t i = first; i < n && i < first + 32; i++)
                for (uint32_t r = 0; r < rank; r++) {
                    double t = m[i * rank + r], *entry = &a[i * rank + r];
                    const double old = *entry, square = g[r * rank + r];
                    for (uint32_t s = 0; s < rank; s++)
                        t -= a[i * rank + s] * g[r * rank + s];
                    t = square > 0 ? old + t / square : old;
                    if (c->l1 > 0) /* its magnitude less l1 / square, 0 where that is less */
                        t = square > 0 && fabs(t) > c->l1 / square ? t - copysign(c->l1 / square, t)
                                                                   : 0;
                    t = fmin(fmax(t, lower), upper);
                    moved += (t - old) * (t - old);
                    size += t * t;
                    *entry = t;
                }
            if (moved <= TS_ROW_TOL(rounds) * TS_ROW_TOL(rounds) * size)
                break;
        }
}

/* a := the orthonormal columns nearest to m's: singular values of a step to 1, and none is
 * above. */
static void polar(uint64_t n, uint32_t rank, const double *m, double *a)
{
    double *g = malloc(rank * rank * sizeof *g), *row = malloc(rank * sizeof *row), size = 0;
    for (uint64_t i = 0; i < n * rank; i++)
        size += m[i] * m[i];
    for (uint64_t i = 0; i < n * rank; i++)
        a[i] = m[i] / sqrt(size);
    for (int round = 0; round < 200; round++) {
        memset(g, 0, rank * rank * sizeof *g);
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t p = 0; p < rank; p++)
                for (uint32_t q = 0; q < rank; q++)
                    g[p * rank + q] += a[i * rank + p] * a[i * rank + q];
        for (uint64_t i = 0; i < n; i++) {
            for (uint32_t p = 0; p < rank; p++) {
                row[p] = 1.5 * a[i * rank + p];
                for (uint32_t q = 0; q < rank; q++)
                    row[p] -= 0.5 * a[i * rank + q] * g[q * rank + p];
            }
            memcpy(a + i * rank, row, rank * sizeof *row);
        }
    }
    free(g);
    free(row);
}

/* All rows together, those of empty slices between, as one system of equations, by elimination. */
static void smooth(struct test_slow *s, uint32_t mode, const double *m, const double *v)
{
    const uint64_t n = s->x->dim[mode];
    const uint64_t first = s->conf == NULL ? 0 : test_tsh_index(s->conf, mode, 0);
    const uint64_t last = s->conf == NULL ? n - 1 : test_tsh_index(s->conf, mode, n - 1);
    const uint64_t span = last - first + 1, size = span * s->rank;
    const double mu = s->spec->mode[mode].smooth;
    double *t = calloc(size * size, sizeof *t), *x = calloc(size, sizeof *x);
    for (uint64_t row = 0; row < n; row++) {
        const uint64_t at = (s->conf == NULL ? row : test_tsh_index(s->conf, mode, row)) - first;
        for (uint32_t p = 0; p < s->rank; p++) {
            x[at * s->rank + p] = m[row * s->rank + p];
            for (uint32_t q = 0; q < s->rank; q++)
                t[(at * s->rank + p) * size + at * s->rank + q] = v[p * s->rank + q];
        }
    }
    for (uint64_t i = 0; i + 2 < span; i++)
        for (uint32_t r = 0; r < s->rank; r++) {
            static const double of[3] = { 1, -2, 1 };
            for (uint64_t p = 0; p < 3; p++)
                for (uint64_t q = 0; q < 3; q++)
                    t[((i + p) * s->rank + r) * size + (i + q) * s->rank + r] += mu * of[p] * of[q];
        }
    for (uint64_t i = 0; i < size; i++) /* positive definite: no pivots */
        for (uint64_t k = i + 1; k < size; k++) {
            const double by = t[k * size + i] / t[i * size + i];
            for (uint64_t j = i; j < size && by != 0; j++)
                t[k * size + j] -= by * t[i * size + j];
            x[k] -= by * x[i];
        }
    for (uint64_t i = size; i-- > 0;) {
        for (uint64_t j = i + 1; j < size; j++)
            x[i] -= t[i * size + j] * x[j];
        x[i] /= t[i * size + i];
    }
    s->rough[mode] = 0;
    for (uint64_t i = 2 * s->rank; i < size; i++) {
        const double bend = x[i] - 2 * x[i - s->rank] + x[i - 2 * s->rank];
        s->rough[mode] += bend * bend;
    }
    for (uint64_t row = 0; row < n; row++) {
        const uint64_t at = (s->conf == NULL ? row : test_tsh_index(s->conf, mode, row)) - first;
        memcpy(s->a[mode] + row * s->rank, x + at * s->rank, s->rank * sizeof *x);
    }
    free(t);
    free(x);
}

/* Of a mode that is smooth within bounds: columns with entries of empty slices. */
struct columns {
    uint64_t span;
    unsigned char *is_row; /* span */
    double *x;             /* rank x span */
};

static uint64_t place(const struct test_slow *s, uint32_t mode, uint64_t row)
{
    return s->conf == NULL ? row
                           : test_tsh_index(s->conf, mode, row) - test_tsh_index(s->conf, mode, 0);
}

static double bend(const double *x, uint64_t i)
{
    return x[i] - 2 * x[i - 1] + x[i - 2];
}

#define MOST_ROUNDS 1000000

/* Entry after entry of a column, to the end or `most` rounds: with `rows`, of all, else of those of
 * empty slices. c is 0 at these. */
static void end_column(const struct columns *k, const struct ts_constraint *of, double g,
                       const double *c, int rows, uint32_t most, double *x)
{
    const double lower = lower_of(of);
    const double upper = of->bounded ? of->upper : INFINITY;
    double moved = 1, size = 1;
    for (uint32_t round = 0; round < most && moved > 2e-16 * size; round++) {
        moved = size = 0;
        for (uint64_t i = 0; i < k->span; i++) {
            double slope, q, to;
            if (k->is_row[i] && !rows) /* c is NULL then */
                continue;
            slope = k->is_row[i] ? g * x[i] - c[i] : 0;
            q = k->is_row[i] ? g : 0;
            for (uint64_t d = i; d < i + 3; d++) /* second differences that it is a part of */
                if (d > 1 && d < k->span) {
                    slope += of->smooth * bend(x, d) * (d == i + 1 ? -2 : 1);
                    q += of->smooth * (d == i + 1 ? 4 : 1);
                }
            to = x[i] - slope / q;
            if (k->is_row[i]) {
                to = fabs(to) > of->l1 / q ? to - copysign(of->l1 / q, to) : 0;
                to = fmin(fmax(to, lower), upper);
            }
            moved = fmax(moved, fabs(to - x[i]));
            size = fmax(size, fabs(to));
            x[i] = to;
        }
    }
}

static void solve_columns(struct test_slow *s, uint32_t mode, const double *m, const double *v,
                          uint32_t rounds, const struct columns *k)
{
    double *c = calloc(k->span, sizeof *c);
    for (uint32_t round = 0; round < rounds || s->to_the_end; round++) {
        const double tol = s->to_the_end ? 1e-15 : TS_ROW_TOL(rounds);
        double moved = 0, size = 0;
        for (uint32_t r = 0; r < s->rank; r++) {
            double *x = k->x + r * k->span, *old = malloc(k->span * sizeof *old);
            for (uint64_t row = 0; row < s->x->dim[mode]; row++) {
                double *to = &c[place(s, mode, row)];
                *to = m[row * s->rank + r];
                for (uint32_t q = 0; q < s->rank; q++)
                    *to -=
                        q == r ? 0 : k->x[q * k->span + place(s, mode, row)] * v[q * s->rank + r];
            }
            memcpy(old, x, k->span * sizeof *old);
            end_column(k, &s->spec->mode[mode], v[r * s->rank + r], c, 1,
                       s->to_the_end ? 20 : MOST_ROUNDS, x);
            for (uint64_t i = 0; i < k->span; i++) {
                moved += k->is_row[i] ? (x[i] - old[i]) * (x[i] - old[i]) : 0;
                size += k->is_row[i] ? x[i] * x[i] : 0;
            }
            free(old);
        }
        if (moved <= tol * tol * size)
            break;
    }
    free(c);
}

/* Column after column, each with the others as they are. */
static void smooth_within(struct test_slow *s, uint32_t mode, const double *m, const double *v,
                          uint32_t rounds)
{
    const uint64_t n = s->x->dim[mode];
    struct columns k = { .span = place(s, mode, n - 1) + 1 };
    k.is_row = calloc(k.span, 1);
    k.x = calloc(k.span * s->rank, sizeof *k.x);
    for (uint64_t row = 0; row < n; row++)
        k.is_row[place(s, mode, row)] = 1;
    for (uint32_t r = 0; r < s->rank; r++) {
        double *x = k.x + r * k.span;
        for (uint64_t row = 0; row < n; row++)
            x[place(s, mode, row)] =
                fmin(fmax(s->a[mode][row * s->rank + r], lower_of(&s->spec->mode[mode])),
                     s->spec->mode[mode].bounded ? s->spec->mode[mode].upper : INFINITY);
        end_column(&k, &s->spec->mode[mode], 0, NULL, 0, MOST_ROUNDS, x);
    }
    solve_columns(s, mode, m, v, rounds, &k);
    s->rough[mode] = 0;
    for (uint32_t r = 0; r < s->rank; r++) {
        for (uint64_t i = 2; i < k.span; i++)
            s->rough[mode] += bend(k.x + r * k.span, i) * bend(k.x + r * k.span, i);
        for (uint64_t row = 0; row < n; row++)
            s->a[mode][row * s->rank + r] = k.x[r * k.span + place(s, mode, row)];
    }
    free(k.is_row);
    free(k.x);
}

void test_slow_signs(struct test_slow *s)
{
    uint32_t first = 0, last = s->x->order;
    while (s->spec->mode[first].fixed)
        first++;
    for (uint32_t m = 0; m < s->x->order; m++)
        if (!ts_spec_positive(s->spec, m) && !s->spec->mode[m].fixed)
            last = m;
    if (ts_spec_positive(s->spec, first) && last < s->x->order)
        test_slow_solve(s, last);
    s->sweeps[last] = 0; /* of which this is none */
}

static int starts_too_large(const struct test_slow *s, uint32_t mode)
{
    double *v = malloc(s->rank * s->rank * sizeof *v), cells = 1, square = 0;
    test_slow_grams(s, TS_MAX_ORDER, v);
    for (uint32_t i = 0; i < s->rank * s->rank; i++)
        square += s->weight[i / s->rank] * s->weight[i % s->rank] * v[i];
    for (uint32_t m = 0; m < s->x->order; m++)
        cells *= (double)s->x->dim[m];
    free(v);
    return s->sweeps[mode] == 0 &&
           ts_constraint_too_large(sqrt(s->size2), s->x->nnz, cells, square);
}

void test_slow_solve(struct test_slow *s, uint32_t mode)
{
    const struct ts_constraint *c = &s->spec->mode[mode];
    const uint64_t n = s->x->dim[mode];
    const uint32_t rank = s->rank;
    const uint32_t rounds =
        ts_constraint_rounds(starts_too_large(s, mode), s->x->order, s->x->nnz, n, rank);
    double *m, *v;
    if (c->fixed)
        return;
    s->sweeps[mode]++;
    m = malloc(n * rank * sizeof *m);
    v = malloc(rank * rank * sizeof *v);
    test_slow_product(s, mode, m);
    test_slow_grams(s, mode, v);
    for (uint32_t r = 0; r < rank; r++)
        v[r * rank + r] += c->l2;
    for (uint64_t i = 0; i < n * rank; i++)
        s->a[mode][i] *= s->weight[i % rank];
    if (c->simplex)
        test_slow_simplex(n, rank, v, m, 2 * rounds, s->a[mode]);
    else if (c->orthogonal)
        polar(n, rank, m, s->a[mode]);
    else if (c->smooth > 0 && (c->bounded || c->nonneg || c->l1 > 0))
        smooth_within(s, mode, m, v, rounds);
    else if (c->smooth > 0)
        smooth(s, mode, m, v);
    else if (c->bounded || c->nonneg || c->l1 > 0)
        test_slow_descend(n, rank, v, m, c, rounds, s->a[mode]);
    else
        solve(s, m, v, n, s->a[mode]);
    for (uint32_t r = 0; r < rank; r++) {
        double square = 0;
        for (uint64_t i = 0; i < n && !s->balanced; i++)
            square += s->a[mode][i * rank + r] * s->a[mode][i * rank + r];
        s->weight[r] = square > 0 ? exp2(rint(log2(sqrt(square)))) : 1;
        for (uint64_t i = 0; i < n; i++)
            s->a[mode][i * rank + r] /= s->weight[r];
    }
    free(m);
    free(v);
}

void test_slow_write(const struct test_slow *s, const struct test_tsh_conf *conf, const char *path)
{
    const uint64_t stretch = conf->stretch > 0 ? conf->stretch : 1;
    const uint64_t more = conf->stretch > 0 ? 1 : 0; /* one empty slice at the end */
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "ktensor\n%" PRIu32 "\n", s->x->order);
    for (uint32_t m = 0; m < s->x->order; m++)
        fprintf(f, "%" PRIu64 " ", s->x->dim[m] * stretch + more);
    fprintf(f, "\n%" PRIu32 "\n", s->rank);
    for (uint32_t r = 0; r < s->rank; r++)
        fprintf(f, "1 ");
    for (uint32_t m = 0; m < s->x->order; m++) {
        fprintf(f, "\nmatrix\n2\n%" PRIu64 " %" PRIu32 "\n", s->x->dim[m] * stretch + more,
                s->rank);
        for (uint64_t i = 0; i < s->x->dim[m] * stretch + more; i++) {
            const uint64_t row = i / stretch;
            const int used = row < s->x->dim[m] && test_tsh_index(conf, m, row) == i;
            for (uint32_t r = 0; r < s->rank; r++)
                fprintf(f, "%.17g%c",
                        used                     ? s->a[m][row * s->rank + r]
                        : s->spec->mode[m].fixed ? 7.5
                                                 : 0,
                        r + 1 == s->rank ? '\n' : ' ');
        }
    }
    ck_assert_int_eq(fclose(f), 0);
}
