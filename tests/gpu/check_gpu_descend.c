/* SPDX-License-Identifier: BSD-3-Clause */
/* Coordinate descent and ADMM on a GPU equal plain float64 loops, at every rank and number of rows,
 * with thresholds, bounds, weights and columns that do not matter; the bits do not depend on how
 * the units are divided. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/rng.h"
#include "cpd/rows/symm.h"
#include "gpu/rows/dense_kernel.h"
#include "gpu/rows/descend_kernel.h"
#include "gpu/rows/simplex_kernel.h"
#include "tests/gpu/on_gpu.h"
#include "tests/support/run_suite.h"
#include "tests/cpd/slow_cp.h"

static const uint32_t ranks[] = {
    1, 3, 8, 9, 17, 32, 33, 64, 100, 130, 257, 900, 1024, 1500, 2048
};
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])
static const uint64_t counts[] = { 1, 31, 32, 33, 100, 1000 };
#define N_COUNTS (int)(sizeof counts / sizeof counts[0])

/* What is asked of the rows. */
static const struct demand {
    double l1, lower, upper;
    uint32_t rounds;
    int dead; /* every 7th column and row of G is 0 */
} demands[] = {
    { 0, 0, INFINITY, 6, 0 },           { 0, 0, INFINITY, 1, 1 },
    { 0.3, 0, INFINITY, 4, 1 },         { 0, -INFINITY, INFINITY, 3, 0 },
    { 0.2, -INFINITY, INFINITY, 3, 1 }, { 0.1, 0.125, 0.75, 5, 1 },
};
#define N_DEMANDS (int)(sizeof demands / sizeof demands[0])

enum { N_TYPES = 3 }; /* float32; float32 with products in float64; float64 */

/* A case, in float64 and on the device. */
struct problem {
    struct demand demand;
    enum ts_precision precision;
    int wide;
    uint32_t rank, ld;
    uint64_t n, n_units;
    double *g, *weight, *table, *m, *a; /* ld apart */
    void *dev_g, *dev_table, *dev_m, *dev_a, *scratch;
    double *dev_inner, *dev_size;
};

static double random_at(uint64_t seed, uint64_t i)
{
    return (float)ts_unit(ts_mix(ts_mix(seed) + i));
}

/* G is the Gram matrix of rank + 3 rows, but for large ranks of 40 with more on the diagonal. */
static void make_gram(struct problem *p)
{
    const uint32_t n = p->rank < 40 ? p->rank + 3 : 40;
    double *x = malloc((size_t)n * p->rank * sizeof *x);
    for (uint32_t k = 0; k < n * p->rank; k++)
        x[k] = random_at(3, k);
    for (uint32_t r = 0; r < p->rank; r++)
        for (uint32_t s = r; s < p->rank; s++) {
            double sum = r == s ? 0.25 : 0;
            for (uint32_t k = 0; k < n; k++)
                sum += x[k * p->rank + r] * x[k * p->rank + s];
            if (p->demand.dead && (r % 7 == 4 || s % 7 == 4))
                sum = 0;
            p->g[(size_t)r * p->ld + s] = p->g[(size_t)s * p->ld + r] = sum;
        }
    free(x);
}

static void make_table(struct problem *p)
{
    for (uint32_t r = 0; r < p->rank; r++) {
        const double square = p->g[(size_t)r * p->ld + r];
        p->weight[r] = 0.5 * (r % 3 + 1);
        p->table[TS_DESCEND_INVERSE * p->ld + r] = square > 0 ? 1 / square : 0;
        p->table[TS_DESCEND_THRESHOLD * p->ld + r] = p->demand.l1 == 0 ? 0
                                                     : square > 0      ? p->demand.l1 / square
                                                                       : INFINITY;
        p->table[TS_DESCEND_LOWER * p->ld + r] = p->demand.lower;
        p->table[TS_DESCEND_UPPER * p->ld + r] = p->demand.upper;
        p->table[TS_DESCEND_WEIGHT * p->ld + r] = p->weight[r];
    }
}

/* Products of rows of either sign, so that bounds matter. */
static void make_rows(struct problem *p)
{
    double *x = malloc(p->rank * sizeof *x);
    for (uint64_t i = 0; i < p->n; i++) {
        for (uint32_t r = 0; r < p->rank; r++)
            x[r] = 1.5 * random_at(5, i * p->rank + r) - 0.5;
        for (uint32_t r = 0; r < p->rank; r++) {
            double sum = 0.1 * random_at(6, i * p->rank + r);
            for (uint32_t s = 0; s < p->rank && s < 64; s++)
                sum += x[s] * p->g[(size_t)s * p->ld + r];
            p->m[i * p->ld + r] = p->precision == TS_FLOAT64 || p->wide ? sum : (float)sum;
            p->a[i * p->ld + r] = random_at(7, i * p->rank + r);
        }
    }
    free(x);
}

static void *narrowed(const double *x, uint64_t n, int narrow)
{
    float *y = malloc(n * sizeof *y);
    void *p;
    for (uint64_t i = 0; i < n; i++)
        y[i] = (float)x[i];
    p = narrow ? to_device(y, n * sizeof *y) : to_device(x, n * sizeof *x);
    free(y);
    return p;
}

static struct problem make(uint32_t rank, uint64_t n, int type, const struct demand *demand)
{
    struct problem p = { .demand = *demand,
                         .precision = type == 2 ? TS_FLOAT64 : TS_FLOAT32,
                         .wide = type == 1,
                         .rank = rank,
                         .ld = (rank + 3) / 4 * 4,
                         .n = n,
                         .n_units = ts_descend_units(n) };
    const uint64_t square = (uint64_t)p.ld * p.ld;
    p.g = calloc(square, sizeof *p.g);
    p.weight = calloc(p.ld, sizeof *p.weight);
    p.table = calloc((size_t)TS_DESCEND_TABLE * p.ld, sizeof *p.table);
    p.m = calloc(n * p.ld, sizeof *p.m);
    p.a = calloc(n * p.ld, sizeof *p.a);
    make_gram(&p);
    make_table(&p);
    make_rows(&p);
    p.dev_g = to_device(p.g, square * sizeof *p.g);
    p.dev_table = to_device(p.table, (size_t)TS_DESCEND_TABLE * p.ld * sizeof *p.table);
    p.dev_m = narrowed(p.m, n * p.ld, type == 0);
    p.dev_a = narrowed(p.a, n * p.ld, type != 2);
    p.scratch = nan_on_device(8 * ts_dense_scratch(p.ld));
    p.dev_inner = nan_on_device(8 * p.n_units);
    p.dev_size = nan_on_device(8 * p.n_units);
    return p;
}

static void unmake(struct problem *p)
{
    double *const here[] = { p->g, p->weight, p->table, p->m, p->a };
    void *const there[] = { p->dev_g,   p->dev_table, p->dev_m,   p->dev_a,
                            p->scratch, p->dev_inner, p->dev_size };
    for (int i = 0; i < 5; i++)
        free(here[i]);
    for (int i = 0; i < 7; i++)
        cudaFree(there[i]);
}

static struct ts_descend descend_of(const struct problem *p)
{
    return (struct ts_descend){ .precision = p->precision,
                                .wide = p->wide,
                                .m = p->dev_m,
                                .a = p->dev_a,
                                .n_rows = p->n,
                                .ld = p->ld,
                                .n_units = p->n_units,
                                .g = p->dev_g,
                                .table = p->dev_table,
                                .simple = p->demand.l1 == 0 && p->demand.upper == INFINITY,
                                .rounds = p->demand.rounds,
                                .inner = p->dev_inner,
                                .size = p->dev_size,
                                .scratch = p->scratch };
}

static double soft(double x, double k)
{
    return x > k ? x - k : x < -k ? x + k : 0;
}

/* One entry, as stream/row_update.h says. */
static double entry(const struct problem *p, const double *a, const double *m, uint32_t r)
{
    const double square = p->g[(size_t)r * p->ld + r];
    double x = m[r];
    if (square == 0)
        x = p->demand.l1 > 0 ? 0 : a[r];
    else {
        for (uint32_t s = 0; s < p->rank; s++)
            x -= a[s] * p->g[(size_t)r * p->ld + s];
        x = soft(a[r] + x / square, p->demand.l1 / square);
    }
    return fmin(fmax(x, p->demand.lower), p->demand.upper);
}

/* p->a := the new rows, before they are rounded. Rows that a unit has not are 0 and move to the
 * bounds, too. */
static void descend(struct problem *p)
{
    double *a = calloc((size_t)TS_DESCEND_UNIT * p->ld, sizeof *a);
    double *m = calloc((size_t)TS_DESCEND_UNIT * p->ld, sizeof *m);
    for (uint64_t unit = 0; unit < p->n_units; unit++) {
        const uint64_t top = unit * TS_DESCEND_UNIT, left = p->n - top;
        const uint64_t n = left < TS_DESCEND_UNIT ? left : TS_DESCEND_UNIT;
        memset(a, 0, (size_t)TS_DESCEND_UNIT * p->ld * sizeof *a);
        memset(m, 0, (size_t)TS_DESCEND_UNIT * p->ld * sizeof *m);
        memcpy(m, p->m + top * p->ld, n * p->ld * sizeof *m);
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t r = 0; r < p->rank; r++)
                a[i * p->ld + r] = p->a[(top + i) * p->ld + r] * p->weight[r];
        for (uint32_t round = 0; round < p->demand.rounds; round++) {
            double moved = 0, size = 0;
            for (uint64_t i = 0; i < TS_DESCEND_UNIT; i++)
                for (uint32_t r = 0; r < p->rank; r++) {
                    double *x = &a[i * p->ld + r];
                    const double now = entry(p, a + i * p->ld, m + i * p->ld, r);
                    moved += (now - *x) * (now - *x);
                    size += now * now;
                    *x = now;
                }
            if (moved <= TS_ROW_TOL(p->demand.rounds) * TS_ROW_TOL(p->demand.rounds) * size)
                break;
        }
        memcpy(p->a + top * p->ld, a, n * p->ld * sizeof *a);
    }
    free(a);
    free(m);
}

static double got_at(const struct problem *p, const void *raw, uint64_t i)
{
    return p->precision == TS_FLOAT32 ? (double)((const float *)raw)[i] : ((const double *)raw)[i];
}

static size_t bytes_of(const struct problem *p)
{
    return p->n * p->ld * (p->precision == TS_FLOAT32 ? 4 : 8);
}

/* The sums of each unit are those of the rows `raw`, times weights where there are any. */
static void check_sums(const struct problem *p, const void *raw, const double *weight)
{
    double *inner = from_device(p->dev_inner, 8 * p->n_units);
    double *size = from_device(p->dev_size, 8 * p->n_units);
    for (uint64_t unit = 0; unit < p->n_units; unit++) {
        double want_inner = 0, magnitude = 0, want_size = 0;
        for (uint64_t i = unit * TS_DESCEND_UNIT; i < (unit + 1) * TS_DESCEND_UNIT && i < p->n; i++)
            for (uint32_t r = 0; r < p->rank; r++) {
                const double x = got_at(p, raw, i * p->ld + r) * (weight == NULL ? 1 : weight[r]);
                want_inner += p->m[i * p->ld + r] * x;
                magnitude += fabs(p->m[i * p->ld + r] * x);
                want_size += fabs(x);
            }
        ck_assert_msg(fabs(inner[unit] - want_inner) <= 1e-12 * magnitude,
                      "unit %llu: m .* a is %.17g, expected %.17g", (unsigned long long)unit,
                      inner[unit], want_inner);
        ck_assert_msg(fabs(size[unit] - want_size) <= 1e-12 * want_size,
                      "unit %llu: |a| is %.17g, expected %.17g", (unsigned long long)unit,
                      size[unit], want_size);
    }
    free(inner);
    free(size);
}

/* Case i of a loop test. Large ranks have few rows. */
static int pick(int i, struct problem *p)
{
    const uint32_t rank = ranks[i % N_RANKS];
    const uint64_t n = counts[i / N_RANKS % N_COUNTS];
    const int type = i / N_RANKS / N_COUNTS % N_TYPES;
    if (n * rank > 40000)
        return 0;
    *p = make(rank, n, type, &demands[(i / 5 + type) % N_DEMANDS]);
    return 1;
}
#define N_CASES (N_RANKS * N_COUNTS * N_TYPES)

static void check_rows(const struct problem *p, const void *got)
{
    const double eps = p->precision == TS_FLOAT32 ? FLT_EPSILON : 0;
    for (uint64_t i = 0; i < p->n * p->ld; i++) {
        const double x = got_at(p, got, i), want = p->a[i];
        ck_assert_msg(fabs(x - want) <= eps * fabs(want) + 1e-10,
                      "rank %u, row %llu of %llu, column %llu: %.17g, expected %.17g", p->rank,
                      (unsigned long long)(i / p->ld), (unsigned long long)p->n,
                      (unsigned long long)(i % p->ld), x, want);
    }
}

START_TEST(rows_equal_loop)
{
    struct problem p;
    struct ts_descend d;
    void *got;
    if (!pick(_i, &p))
        return;
    d = descend_of(&p);
    CUDA(ts_descend_rows(&d, NULL));
    got = from_device(p.dev_a, bytes_of(&p));
    check_sums(&p, got, NULL);
    descend(&p);
    check_rows(&p, got);
    free(got);
    unmake(&p);
}
END_TEST

/* In pieces, the last first, and without sums. */
START_TEST(units_have_same_bits_in_any_launch)
{
    struct problem p;
    struct ts_descend d;
    void *again;
    double *inner, *size;
    if (!pick(_i, &p))
        return;
    again = narrowed(p.a, p.n * p.ld, p.precision == TS_FLOAT32);
    inner = nan_on_device(8 * p.n_units);
    size = nan_on_device(8 * p.n_units);
    d = descend_of(&p);
    CUDA(ts_descend_rows(&d, NULL));
    d.inner = inner;
    d.size = size;
    d.a = again;
    for (uint64_t end = p.n_units, n; end > 0; end -= n) {
        n = 1 + end % 3 < end ? 1 + end % 3 : end;
        d.first_unit = end - n;
        d.n_units = n;
        CUDA(ts_descend_rows(&d, NULL));
    }
    ck_assert(same_on_device(again, p.dev_a, bytes_of(&p)));
    ck_assert(same_on_device(inner, p.dev_inner, 8 * p.n_units));
    ck_assert(same_on_device(size, p.dev_size, 8 * p.n_units));
    cudaFree(again);
    again = narrowed(p.a, p.n * p.ld, p.precision == TS_FLOAT32);
    d = descend_of(&p);
    d.a = again;
    d.inner = d.size = NULL;
    CUDA(ts_descend_rows(&d, NULL));
    ck_assert(same_on_device(again, p.dev_a, bytes_of(&p)));
    cudaFree(again);
    cudaFree(inner);
    cudaFree(size);
    unmake(&p);
}
END_TEST

START_TEST(rows_that_stay_are_summed)
{
    struct problem p;
    struct ts_descend d;
    void *before, *after;
    if (!pick(_i, &p))
        return;
    d = descend_of(&p);
    before = from_device(p.dev_a, bytes_of(&p));
    CUDA(ts_descend_keep(&d, NULL));
    after = from_device(p.dev_a, bytes_of(&p));
    ck_assert(memcmp(before, after, bytes_of(&p)) == 0);
    check_sums(&p, after, p.weight);
    free(before);
    free(after);
    unmake(&p);
}
END_TEST

/* More units than thread blocks are launched for. */
START_TEST(many_units)
{
    struct problem p = make(_i == 0 ? 5 : 40, 300007, 0, &demands[0]);
    struct ts_descend d = descend_of(&p);
    void *got;
    CUDA(ts_descend_rows(&d, NULL));
    got = from_device(p.dev_a, bytes_of(&p));
    check_sums(&p, got, NULL);
    descend(&p);
    check_rows(&p, got);
    free(got);
    unmake(&p);
}
END_TEST

START_TEST(nothing_to_do)
{
    struct problem p = make(3, 40, 0, &demands[0]);
    struct ts_descend d = descend_of(&p);
    void *before = from_device(p.dev_a, bytes_of(&p)), *after;
    d.n_units = 0;
    CUDA(ts_descend_rows(&d, NULL));
    CUDA(ts_descend_keep(&d, NULL));
    after = from_device(p.dev_a, bytes_of(&p));
    ck_assert(memcmp(before, after, bytes_of(&p)) == 0);
    free(before);
    free(after);
    unmake(&p);
}
END_TEST

/* ---- rows on the simplex */

static const uint32_t simplex_ranks[] = { 1, 2, 3, 8, 9, 17, 32, 33, 64, 100, 257, 520, 1500 };
#define N_SIMPLEX_RANKS (int)(sizeof simplex_ranks / sizeof simplex_ranks[0])
#define N_SIMPLEX       (N_SIMPLEX_RANKS * N_COUNTS * N_TYPES)

struct simplex {
    struct problem p;
    struct ts_descend d;
    double *g, *inverse, *dev_inverse; /* rank x rank on the host */
};

/* Of high ranks one number of rows and one type: the inverse takes long. */
static int pick_simplex(int i, struct simplex *s)
{
    const uint32_t rank = simplex_ranks[i % N_SIMPLEX_RANKS];
    const uint64_t n = counts[i / N_SIMPLEX_RANKS % N_COUNTS];
    const int type = i / N_SIMPLEX_RANKS / N_COUNTS;
    struct problem *p = &s->p;
    double *padded, rho = 0;
    if (rank > 100 && (n != 33 || type != (rank > 300 ? 0 : 2)))
        return 0;
    *p = make(rank, n, type, &demands[i % 2]);
    s->g = calloc((size_t)rank * rank, sizeof *s->g);
    s->inverse = calloc((size_t)rank * rank, sizeof *s->inverse);
    padded = calloc((size_t)p->ld * p->ld, sizeof *padded);
    for (uint32_t r = 0; r < rank; r++) {
        rho += p->g[(size_t)r * p->ld + r] / rank;
        memcpy(s->g + (size_t)r * rank, p->g + (size_t)r * p->ld, rank * sizeof *s->g);
    }
    for (uint32_t r = 0; r < rank; r++)
        s->g[(size_t)r * rank + r] += rho;
    ck_assert_int_eq(ts_symm_pinv(rank, s->g, TS_SYMM_CUT, NULL, s->inverse, NULL, NULL), 0);
    for (uint32_t r = 0; r < rank; r++) {
        s->g[(size_t)r * rank + r] = p->g[(size_t)r * p->ld + r];
        memcpy(padded + (size_t)r * p->ld, s->inverse + (size_t)r * rank, rank * sizeof *padded);
    }
    s->dev_inverse = to_device(padded, (size_t)p->ld * p->ld * sizeof *padded);
    free(padded);
    s->d = descend_of(p);
    s->d.rank = rank;
    s->d.inverse = s->dev_inverse;
    s->d.rho = rho;
    s->d.rounds = 1 + 4 * (uint32_t)(i % 3);
    return 1;
}

static void unmake_simplex(struct simplex *s)
{
    free(s->g);
    free(s->inverse);
    cudaFree(s->dev_inverse);
    unmake(&s->p);
}

/* p->a := the new rows. */
static void slow_simplex(struct simplex *s)
{
    const struct problem *p = &s->p;
    double *m = malloc(p->n * p->rank * sizeof *m), *a = malloc(p->n * p->rank * sizeof *a);
    for (uint64_t i = 0; i < p->n * p->rank; i++) {
        const uint64_t at = i / p->rank * p->ld + i % p->rank;
        m[i] = p->m[at];
        a[i] = p->a[at] * p->weight[i % p->rank];
    }
    test_slow_simplex(p->n, p->rank, s->g, m, s->d.rounds, a);
    for (uint64_t i = 0; i < p->n * p->rank; i++)
        p->a[i / p->rank * p->ld + i % p->rank] = a[i];
    free(m);
    free(a);
}

START_TEST(simplex_equals_slow_way)
{
    struct simplex s;
    void *got;
    if (!pick_simplex(_i, &s))
        return;
    CUDA(ts_simplex_rows(&s.d, NULL));
    got = from_device(s.p.dev_a, bytes_of(&s.p));
    check_sums(&s.p, got, NULL);
    slow_simplex(&s);
    check_rows(&s.p, got);
    free(got);
    unmake_simplex(&s);
}
END_TEST

START_TEST(simplex_has_same_bits_in_any_launch)
{
    struct simplex s;
    struct ts_descend d;
    double *inner, *size;
    void *again;
    if (!pick_simplex(_i, &s))
        return;
    again = narrowed(s.p.a, s.p.n * s.p.ld, s.p.precision == TS_FLOAT32);
    inner = nan_on_device(8 * s.p.n_units);
    size = nan_on_device(8 * s.p.n_units);
    CUDA(ts_simplex_rows(&s.d, NULL));
    d = s.d;
    d.a = again;
    d.inner = inner;
    d.size = size;
    for (uint64_t end = s.p.n_units, n; end > 0; end -= n) {
        n = 1 + end % 3 < end ? 1 + end % 3 : end;
        d.first_unit = end - n;
        d.n_units = n;
        CUDA(ts_simplex_rows(&d, NULL));
    }
    ck_assert(same_on_device(again, s.p.dev_a, bytes_of(&s.p)));
    ck_assert(same_on_device(inner, s.p.dev_inner, 8 * s.p.n_units));
    ck_assert(same_on_device(size, s.p.dev_size, 8 * s.p.n_units));
    cudaFree(again);
    cudaFree(inner);
    cudaFree(size);
    unmake_simplex(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu/descend");
    if (!have_gpu())
        return 77;
    test_add(suite, "rows", rows_equal_loop, N_CASES);
    test_add(suite, "launches", units_have_same_bits_in_any_launch, N_CASES);
    test_add(suite, "keep", rows_that_stay_are_summed, N_CASES);
    test_add(suite, "many", many_units, 2);
    test_add(suite, "nothing", nothing_to_do, 1);
    test_add(suite, "simplex", simplex_equals_slow_way, N_SIMPLEX);
    test_add(suite, "simplex launches", simplex_has_same_bits_in_any_launch, N_SIMPLEX);
    return test_run_suite(suite, CK_NOFORK);
}
