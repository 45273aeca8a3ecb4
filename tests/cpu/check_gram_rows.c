/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows solved for with Gram matrices of their own, against dense normal equations in float64: every
 * instruction set and precision, orders 2 to 8, rows of one nonzero and of nearly all, bounds,
 * held-out nonzeros, weights; and the same bits for any threads and shards. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/sparse/pass.h"
#include "cpu/sparse/plain.h"
#include "cpu/rows/rowblock.h"
#include "tests/stream/memfeed.h"
#include "tests/support/run_suite.h"

#define MOST_RANK 131

static const struct shape {
    uint32_t order, nnz, value_range, rank;
    double skew;
    uint64_t dim[TS_MAX_ORDER];
} shapes[] = {
    { 2, 3000, 9, 7, 0, { 310, 400 } },
    { 3, 20000, 5, 16, 0, { 40, 30, 50 } }, /* rows longer than a block */
    { 3, 40000, 0, 9, 3, { 2, 900, 800 } }, /* rows longer than partitions */
    { 3, 5000, 7, 33, 0, { 2500, 60, 2500 } },
    { 3, 3000, 0, 1, 0, { 1, 300, 300 } },
    { 4, 20000, 1000, 12, 3, { 51, 2, 116, 900 } },
    { 5, 3000, 4, 5, 1, { 9, 8, 17, 11, 13 } },
    { 6, 3000, 4, 17, 1, { 9, 8, 7, 11, 3, 4 } },
    { 7, 3000, 2, 3, 1, { 9, 8, 7, 11, 13, 17, 2 } },
    { 8, 3000, 2, 20, 1, { 5, 4, 3, 6, 4, 3, 2, 5 } },
    { 3, 3000, 0, 65, 1, { 40, 50, 30 } }, /* rows that do not wait for others */
    { 4, 3000, 7, 70, 0, { 9, 20, 30, 5 } },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const struct ts_row_update ways[] = {
    { .kind = TS_ROW_OBSERVED, .l2 = 0.5, .lower = -INFINITY, .upper = INFINITY },
    { .kind = TS_ROW_OBSERVED,
      .l2 = 0.1,
      .by_count = 1,
      .lower = -INFINITY,
      .upper = INFINITY,
      .hold_out = { .share = 0.3, .seed = 5 } },
    { .kind = TS_ROW_OBSERVED, .l2 = 0.5, .lower = 0, .upper = INFINITY },
    { .kind = TS_ROW_OBSERVED,
      .l2 = 0.5,
      .lower = -0.2,
      .upper = 0.4,
      .hold_out = { .share = 0.9, .seed = 2 } },
};
#define N_WAYS (int)(sizeof ways / sizeof ways[0])

static double entry(uint32_t mode, uint64_t row, uint32_t col, enum ts_precision precision)
{
    const double x = ts_init_entry(3, mode, row, col) - 0.3;
    return precision == TS_FLOAT32 ? (double)(float)x : x;
}

/* s := sum of p p', m := sum of x p, terms := that of magnitudes, of all nonzeros of the row that
 * are not held out, with their weights; returns how many there are, or the sum of the weights. */
static double sum_row(const struct test_coo *x, const struct ts_row_update *how, uint32_t mode,
                      uint64_t row, uint32_t rank, enum ts_precision precision, double *s,
                      double *m, double *terms)
{
    double p[MOST_RANK], count = 0;
    *terms = 0;
    memset(s, 0, (size_t)rank * rank * sizeof *s);
    memset(m, 0, rank * sizeof *m);
    for (uint64_t i = 0; i < x->nnz; i++) {
        uint64_t hash = ts_hold_out_begin(&how->hold_out);
        if (x->idx[mode][i] != row)
            continue;
        for (uint32_t r = 0; r < rank; r++)
            p[r] = 1;
        for (uint32_t n = 0; n < x->order; n++) {
            hash = ts_hold_out_add(hash, x->idx[n][i]);
            for (uint32_t r = 0; r < rank && n != mode; r++)
                p[r] *= entry(n, x->idx[n][i], r, precision);
        }
        if (ts_hold_out_held(&how->hold_out, hash))
            continue;
        const double w = x->weight == NULL ? 1 : (double)x->weight[i];
        count += w;
        for (uint32_t a = 0; a < rank; a++) {
            m[a] += w * ((double)(float)x->val[i] - how->mean) * p[a];
            *terms += w * fabs(((double)(float)x->val[i] - how->mean) * p[a]);
            for (uint32_t c = 0; c < rank; c++)
                s[a * rank + c] += w * p[a] * p[c];
        }
    }
    return count;
}

/* Gaussian elimination; the matrix is positive definite. */
static void solve_dense(uint32_t n, const double *s, const double *m, double *a)
{
    double x[MOST_RANK][MOST_RANK + 1];
    for (uint32_t i = 0; i < n; i++) {
        memcpy(x[i], s + (size_t)i * n, n * sizeof(double));
        x[i][n] = m[i];
    }
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = k + 1; i < n; i++) {
            const double by = x[i][k] / x[k][k];
            for (uint32_t j = k; j <= n; j++)
                x[i][j] -= by * x[k][j];
        }
    for (uint32_t k = n; k-- > 0;) {
        a[k] = x[k][n];
        for (uint32_t j = k + 1; j < n; j++)
            a[k] -= x[k][j] * a[j];
        a[k] /= x[k][k];
    }
}

static double *rows_of(const struct ts_fmat *f)
{
    double *rows = malloc(f->n_rows * f->rank * sizeof *rows);
    ts_fmat_get(f, 0, f->n_rows, rows, 1);
    return rows;
}

/* The rows by what is to be tested. */
static double *complete(struct ts_feed *f, uint32_t mode, uint32_t rank, enum ts_isa isa,
                        enum ts_precision precision, uint32_t threads,
                        const struct ts_row_update *how, int plain, double *size)
{
    struct ts_backend_conf conf = { .tensor = &f->tensor,
                                    .rank = rank,
                                    .precision = precision,
                                    .threads = threads,
                                    .only_mode = -1,
                                    .spare_bytes = plain ? ts_plain_bytes(&f->tensor, -1) : 0 };
    struct ts_fmat factor[TS_MAX_ORDER];
    struct ts_pass *pass;
    struct ts_pass_rows rows_of_pass;
    double *ret;
    for (uint32_t m = 0; m < f->tensor.order; m++) {
        const uint64_t n = f->tensor.mode[m].disk.n_rows;
        double *rows = malloc(n * rank * sizeof *rows);
        for (uint64_t i = 0; i < n * rank; i++)
            rows[i] = entry(m, i / rank, (uint32_t)(i % rank), TS_FLOAT64);
        ck_assert_int_eq(ts_fmat_new(n, rank, precision, "test", &factor[m], NULL), 0);
        ts_fmat_put(&factor[m], 0, n, rows, 1);
        free(rows);
    }
    ck_assert_int_eq(ts_pass_new(&conf, isa, threads, &pass, NULL), 0);
    for (int run = 0; run < (plain ? 3 : 1); run++) {
        f->given = f->given_back = 0;
        rows_of_pass = (struct ts_pass_rows){ pass, factor, how, size };
        ck_assert_int_eq(ts_pass_complete(mode, 1, &rows_of_pass, f, NULL, NULL), 0);
        ck_assert_uint_eq(f->given_back, f->tensor.mode[mode].disk.n_shards);
    }
    ret = rows_of(&factor[mode]);
    ts_pass_free(pass);
    for (uint32_t m = 0; m < f->tensor.order; m++)
        ts_fmat_free(&factor[m]);
    return ret;
}

/* Without bounds the row is that of the normal equations. Within bounds no entry can be moved to
 * the better: at each, the slope is 0, or leads out of the bound that it is at. */
static void check_row(const struct ts_row_update *how, uint32_t rank, double *s, const double *m,
                      double terms, double count, const double *a, double tol)
{
    double want[MOST_RANK], size = 0, off = 0, scale = 0;
    if (count == 0) {
        for (uint32_t r = 0; r < rank; r++)
            ck_assert_double_eq(a[r], 0);
        return;
    }
    for (uint32_t r = 0; r < rank; r++) {
        s[r * rank + r] += how->l2 * (how->by_count ? count : 1);
        scale += s[r * rank + r];
    }
    if (isinf(how->lower) && isinf(how->upper)) {
        solve_dense(rank, s, m, want);
        for (uint32_t r = 0; r < rank; r++) {
            size += want[r] * want[r];
            off += (want[r] - a[r]) * (want[r] - a[r]);
        }
        ck_assert_msg(sqrt(off) <= tol * (sqrt(size) + terms / scale), "off by %g of %g", sqrt(off),
                      sqrt(size));
        return;
    }
    for (uint32_t r = 0; r < rank; r++)
        size += fabs(m[r]);
    for (uint32_t r = 0; r < rank; r++) {
        double slope = -m[r];
        for (uint32_t c = 0; c < rank; c++)
            slope += s[r * rank + c] * a[c];
        ck_assert_double_ge(a[r], how->lower - 1e-7 * fabs(how->lower));
        ck_assert_double_le(a[r], how->upper * (1 + 1e-7));
        if (a[r] > how->lower + 1e-7 && slope > 0)
            ck_assert_msg(slope <= 100 * tol * (size + scale), "slope %g of %g", slope, size);
        if (a[r] < how->upper - 1e-7 && slope < 0)
            ck_assert_msg(-slope <= 100 * tol * (size + scale), "slope %g of %g", slope, size);
    }
}

START_TEST(rows_are_those_of_normal_equations)
{
    const int weigh = _i >= N_SHAPES * N_WAYS;
    const struct shape *sh = &shapes[_i / N_WAYS % N_SHAPES];
    const struct ts_row_update *how = &ways[_i % N_WAYS];
    struct test_coo x = test_coo_random(5, sh->order, sh->dim, sh->nnz, sh->value_range, sh->skew);
    const enum ts_value_kind kind = sh->value_range == 0            ? TS_VALUE_F32
                                    : weigh && sh->value_range == 7 ? TS_VALUE_DICT
                                                                    : TS_VALUE_INT;
    struct ts_feed *f;
    if (weigh)
        test_coo_weigh(&x, 11, 0);
    f = memfeed_new(&x, kind, 1 + (uint32_t)_i % 3, 1);
    const uint32_t mode = (uint32_t)_i % sh->order, rank = sh->rank;
    const uint64_t n = f->tensor.mode[mode].disk.n_rows, step = n / 25 + 1;
    double *s = malloc((size_t)rank * rank * sizeof *s), m[MOST_RANK], terms;
    for (enum ts_isa isa = 0; isa < TS_N_ISA; isa++)
        for (enum ts_precision precision = TS_FLOAT32; precision <= TS_FLOAT64; precision++) {
            double size, size2, sum = 0;
            double *a, *b;
            if (!ts_isa_here(isa))
                continue;
            a = complete(f, mode, rank, isa, precision, 1, how, 0, &size);
            for (uint64_t row = 0; row < n; row += step) {
                const double count = sum_row(&x, how, mode, row, rank, precision, s, m, &terms);
                check_row(how, rank, s, m, terms, count, a + row * rank,
                          precision == TS_FLOAT32 ? 1e-5 : 1e-10);
            }
            if (!how->by_count) {
                for (uint64_t i = 0; i < n * rank; i++)
                    sum += a[i] * a[i];
                ck_assert_double_le(fabs(size - sum), 1e-10 * sum);
            }
            b = complete(f, mode, rank, isa, precision, 4, how, 1, &size2);
            ck_assert_msg(memcmp(a, b, n * rank * sizeof *a) == 0, "other bits with 4 threads");
            ck_assert_double_eq(size, size2);
            free(a);
            free(b);
        }
    free(s);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

START_TEST(weights_of_1_change_no_bit)
{
    const struct shape *sh = &shapes[_i];
    struct test_coo x = test_coo_random(5, sh->order, sh->dim, sh->nnz, sh->value_range, sh->skew);
    const uint32_t kind = sh->value_range > 0 ? TS_VALUE_INT : TS_VALUE_F32;
    struct ts_feed *plain = memfeed_new(&x, kind, 1, 1), *weighted;
    test_coo_weigh(&x, 1, 1);
    weighted = memfeed_new(&x, kind, 1, 1);
    for (enum ts_isa isa = 0; isa < TS_N_ISA; isa++)
        for (enum ts_precision precision = TS_FLOAT32; precision <= TS_FLOAT64; precision++)
            for (uint32_t way = 0; way < N_WAYS && ts_isa_here(isa); way++) {
                double size, size2;
                double *a = complete(plain, 0, sh->rank, isa, precision, 2, &ways[way], 0, &size);
                double *b =
                    complete(weighted, 0, sh->rank, isa, precision, 2, &ways[way], 1, &size2);
                ck_assert_mem_eq(a, b, x.dim[0] * sh->rank * sizeof *a);
                ck_assert_double_eq(size, size2);
                free(a);
                free(b);
            }
    memfeed_free(plain);
    memfeed_free(weighted);
    test_coo_free(&x);
}
END_TEST

/* Most rows have fewer nonzeros than columns, in all modes: these are solved for by as many
 * unknowns. */
static const struct shape few[] = {
    { 2, 3000, 9, 13, 0, { 900, 1000 } },
    { 3, 9000, 0, 27, 0, { 1500, 700, 900 } },
    { 3, 4000, 7, 32, 2, { 1000, 900, 800 } },
    { 4, 3000, 5, 41, 1, { 700, 300, 500, 900 } },
    { 5, 3000, 0, 67, 0, { 400, 500, 600, 300, 700 } },
    { 6, 2000, 4, 9, 1, { 300, 200, 400, 500, 600, 350 } },
    { 7, 2000, 2, 31, 0, { 300, 200, 400, 500, 600, 350, 100 } },
    { 8, 1000, 9, 131, 0, { 30, 35, 40, 45, 30, 35, 40, 45 } },
};
#define N_FEW (int)(sizeof few / sizeof few[0])

static const struct ts_row_update few_ways[] = {
    { .kind = TS_ROW_OBSERVED, .l2 = 0.5, .lower = -INFINITY, .upper = INFINITY },
    { .kind = TS_ROW_OBSERVED,
      .l2 = 0.05,
      .by_count = 1,
      .mean = 0.75,
      .lower = -INFINITY,
      .upper = INFINITY,
      .hold_out = { .share = 0.3, .seed = 5 } },
    /* not above rounding in most rows: these are solved for by normal equations, as without */
    { .kind = TS_ROW_OBSERVED, .l2 = 1e-9, .lower = -INFINITY, .upper = INFINITY },
};
#define N_FEW_WAYS (int)(sizeof few_ways / sizeof few_ways[0])

START_TEST(rows_of_few_nonzeros_are_those_of_normal_equations)
{
    const struct shape *sh = &few[_i / N_FEW_WAYS % N_FEW];
    const struct ts_row_update *how = &few_ways[_i % N_FEW_WAYS];
    struct test_coo x = test_coo_random(7, sh->order, sh->dim, sh->nnz, sh->value_range, sh->skew);
    struct ts_feed *f;
    double *s = malloc((size_t)sh->rank * sh->rank * sizeof *s), m[MOST_RANK], terms;
    if (_i >= N_FEW * N_FEW_WAYS)
        test_coo_weigh(&x, 11, 0);
    f = memfeed_new(&x, sh->value_range == 0 ? TS_VALUE_F32 : TS_VALUE_INT, 1 + (uint32_t)_i % 3,
                    1);
    for (uint32_t k = 0; k < 2 * sh->order; k++)
        for (enum ts_isa isa = 0; isa < TS_N_ISA; isa++) {
            const enum ts_precision precision = k % 2 == 0 ? TS_FLOAT32 : TS_FLOAT64;
            const uint32_t mode = k / 2, rank = sh->rank;
            const uint64_t n = f->tensor.mode[mode].disk.n_rows;
            double size, size2, *a, *b;
            if (!ts_isa_here(isa))
                continue;
            a = complete(f, mode, rank, isa, precision, 1, how, 0, &size);
            b = complete(f, mode, rank, isa, precision, 3, how, 1, &size2);
            ck_assert_mem_eq(a, b, n * rank * sizeof *a);
            ck_assert_double_eq(size, size2);
            for (uint64_t row = 0; row < n && how->l2 > 1e-6; row += n / 20 + 1) {
                const double count = sum_row(&x, how, mode, row, rank, precision, s, m, &terms);
                check_row(how, rank, s, m, terms, count, a + row * rank,
                          precision == TS_FLOAT32 ? 1e-5 : 1e-10);
            }
            for (uint64_t i = 0; i < n * rank; i++)
                ck_assert(isfinite(a[i]));
            free(a);
            free(b);
        }
    free(s);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* K and the row from y are those of the obvious loops, for any number of nonzeros. */
START_TEST(few_products_are_multiplied_with_each_other)
{
    static const uint32_t ranks[] = { 5, 8, 16, 24, 32, 40, 64, 100 };
    const uint32_t rank = ranks[_i];
    for (enum ts_isa isa = 0; isa < TS_N_ISA; isa++)
        for (enum ts_precision precision = TS_FLOAT32; precision <= TS_FLOAT64 && ts_isa_here(isa);
             precision++) {
            const uint32_t stride = ts_fmat_stride(rank, precision);
            const size_t size = precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
            const double tol = precision == TS_FLOAT32 ? 1e-5 : 1e-13;
            const struct ts_gram_ops *ops;
            struct ts_unpacked *b = aligned_alloc(64, (sizeof *b + 63) / 64 * 64);
            char *product = aligned_alloc(64, TS_BLOCK_NNZ * (size_t)stride * size);
            char *out = aligned_alloc(64, stride * sizeof(double)); /* 64 or a multiple */
            double *k = aligned_alloc(64, 136 * TS_GRAM_TILE * sizeof *k), *want;
            double m[TS_GRAM_SHORT], y[2 * TS_GRAM_SHORT];
            uint16_t at[TS_GRAM_SHORT];
            ops = ts_gram_get(isa, precision, stride);
            want = malloc(TS_BLOCK_NNZ * (size_t)stride * sizeof *want);
            for (size_t i = 0; i < TS_BLOCK_NNZ * (size_t)stride; i++) {
                const double e = i % stride < rank ? ts_unit(ts_mix(i + 1)) - 0.5 : 0;
                want[i] = precision == TS_FLOAT32 ? (double)(float)e : e;
                if (precision == TS_FLOAT32)
                    ((float *)product)[i] = (float)e;
                else
                    ((double *)product)[i] = e;
            }
            for (uint32_t i = 0; i < TS_BLOCK_NNZ; i++)
                if (precision == TS_FLOAT32)
                    b->value.f[i] = (float)i;
                else
                    b->value.d[i] = i;
            for (uint32_t n = 1; n <= TS_GRAM_SHORT; n++) {
                double square = 0, sum;
                for (uint32_t i = 0; i < n; i++) {
                    at[i] = (uint16_t)(3 * i + n % 5);
                    y[2 * i] = ts_unit(ts_mix(i)) - 0.5;
                }
                ops->cross(stride, product, b, at, n, k, m);
                for (uint32_t i = 0; i < (n + 3) / 4 * 4; i++)
                    for (uint32_t j = i; j < (n + 3) / 4 * 4; j++) {
                        const uint32_t p = j / 4, q = i / 4, c = j % 4, r = i % 4;
                        const double *tile = k + (p * (p + 1) / 2 + q) * TS_GRAM_TILE;
                        sum = 0;
                        for (uint32_t v = 0; v < rank && j < n; v++)
                            sum += want[at[i] * stride + v] * want[at[j] * stride + v];
                        ck_assert_double_le(
                            fabs(tile[q < p ? c * 4 + r : c * (c + 1) / 2 + r] - sum), tol * rank);
                    }
                for (uint32_t i = 0; i < n; i++)
                    ck_assert_double_eq(m[i], at[i]);
                sum = ops->combine(stride, product, at, n, y, 2, out);
                for (uint32_t v = 0; v < stride; v++) {
                    double left =
                        precision == TS_FLOAT32 ? (double)((float *)out)[v] : ((double *)out)[v];
                    square += left * left;
                    for (uint32_t i = 0; i < n; i++)
                        left -= y[2 * i] * want[at[i] * stride + v];
                    ck_assert_double_le(fabs(left), tol * n);
                }
                ck_assert_double_le(fabs(sum - square), 1e-12 * square);
            }
            free(b);
            free(product);
            free(out);
            free(k);
            free(want);
        }
}
END_TEST

/* Without a penalty a row of fewer nonzeros than columns has many solutions: the one that is taken
 * is finite and meets all of its cells. */
START_TEST(short_rows_without_a_penalty_meet_their_cells)
{
    static const uint64_t dim[TS_MAX_ORDER] = { 400, 50, 60 };
    const struct ts_row_update how = { .kind = TS_ROW_OBSERVED,
                                       .lower = -INFINITY,
                                       .upper = INFINITY };
    const uint32_t rank = 12;
    struct test_coo x = test_coo_random(5, 3, dim, 1500, 9, 0);
    struct ts_feed *f = memfeed_new(&x, TS_VALUE_INT, 2, 1);
    double *a = complete(f, 0, rank, ts_isa_best(), TS_FLOAT64, 2, &how, 0, NULL);
    double s[12 * 12], m[12], terms;
    for (uint64_t row = 0; row < f->tensor.mode[0].disk.n_rows; row += 7) {
        double size = 0;
        (void)sum_row(&x, &how, 0, row, rank, TS_FLOAT64, s, m, &terms);
        for (uint32_t r = 0; r < rank; r++)
            size += fabs(m[r]);
        for (uint32_t r = 0; r < rank; r++) {
            double left = m[r];
            for (uint32_t c = 0; c < rank; c++)
                left -= s[r * rank + c] * a[row * rank + c];
            ck_assert_double_le(fabs(left), 1e-5 * size);
        }
    }
    free(a);
    memfeed_free(f);
    test_coo_free(&x);
}
END_TEST

/* Rows that are solved together, any number of them, have what each has on its own, also where
 * columns depend on others. */
START_TEST(together_is_one_by_one)
{
    static const uint32_t ranks[] = { 1, 2, 3, 4, 5, 7, 8, 9, 16, 23, 31, 32, 33, 64 };
    const uint32_t rank = ranks[_i], stride = ts_fmat_stride(rank, TS_FLOAT64),
                   n = rank / 8 * 8 + 8;
    const size_t square = (size_t)n * stride;
    double *s = aligned_alloc(64, (TS_ROWBLOCK_SYSTEMS + 1) * square * sizeof *s);
    double *m = aligned_alloc(64, TS_ROWBLOCK_SYSTEMS * stride * sizeof *m);
    double *work = aligned_alloc(64, ts_rowblock_systems_size(rank) * sizeof *work);
    double *a = aligned_alloc(64, (rank + 1) * TS_ROWBLOCK_SYSTEMS * sizeof *a);
    uint64_t draw = 0;
    for (uint32_t k = 0; k < TS_ROWBLOCK_SYSTEMS; k++) {
        double *to = s + k * square;
        memset(to, 0, square * sizeof *to);
        memset(m + (size_t)k * stride, 0, stride * sizeof *m);
        for (uint32_t p = 0; p < rank + 5 && k < 7; p++) { /* the last has none */
            double x[64];
            for (uint32_t i = 0; i < rank; i++) /* of odd ones the third column is as the first */
                x[i] = k % 2 == 1 && i == 2 ? x[0] : ts_unit(ts_mix(draw++)) - 0.5;
            for (uint32_t i = 0; i < rank; i++) {
                m[(size_t)k * stride + i] += x[i] * (p % 3);
                for (uint32_t j = 0; j < rank; j++)
                    to[(size_t)i * stride + j] += x[i] * x[j];
            }
        }
    }
    for (enum ts_isa isa = 0; isa < TS_N_ISA; isa++)
        for (uint32_t count = 1; count <= TS_ROWBLOCK_SYSTEMS && ts_isa_here(isa); count += 7) {
            struct ts_rowsystems x = { .n = count,
                                       .rank = rank,
                                       .stride = stride,
                                       .more = a + (size_t)rank * TS_ROWBLOCK_SYSTEMS,
                                       .cut = 1e-12,
                                       .work = work,
                                       .a = a };
            for (uint32_t k = 0; k < TS_ROWBLOCK_SYSTEMS; k++) {
                x.s[k] = s + (k < count ? k : 0) * square;
                x.m[k] = m + (k < count ? k : 0) * (size_t)stride;
                x.more[k] = k % 3 == 0 ? 0 : 0.25 * k;
            }
            ts_rowblock_get(isa)->systems(&x);
            for (uint32_t k = 0; k < count; k++) {
                double *own = s + TS_ROWBLOCK_SYSTEMS * square, want[64], diagonal[64], size = 0;
                struct ts_gram g = { rank, stride, own, m + k * (size_t)stride, 1 };
                memcpy(own, s + k * square, square * sizeof *own);
                for (uint32_t i = 0; i < rank; i++)
                    diagonal[i] = own[(size_t)i * stride + i] += x.more[k];
                ts_gram_get(isa, TS_FLOAT64, stride)->solve(&g, own, diagonal, x.cut, want);
                for (uint32_t i = 0; i < rank; i++)
                    size += fabs(want[i]);
                for (uint32_t i = 0; i < rank; i++)
                    ck_assert_double_le(fabs(a[(size_t)i * TS_ROWBLOCK_SYSTEMS + k] - want[i]),
                                        1e-10 * size);
                if (k == 3 && rank > 2 && x.more[k] == 0)
                    ck_assert_double_eq(a[2 * TS_ROWBLOCK_SYSTEMS + k], 0);
            }
        }
    free(s);
    free(m);
    free(work);
    free(a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gram_rows");
    TCase *t = tcase_create("gram_rows");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, rows_are_those_of_normal_equations, 0, 2 * N_SHAPES * N_WAYS);
    tcase_add_loop_test(t, rows_of_few_nonzeros_are_those_of_normal_equations, 0,
                        2 * N_FEW * N_FEW_WAYS);
    tcase_add_loop_test(t, few_products_are_multiplied_with_each_other, 0, 8);
    tcase_add_loop_test(t, weights_of_1_change_no_bit, 0, N_SHAPES);
    tcase_add_test(t, short_rows_without_a_penalty_meet_their_cells);
    tcase_add_loop_test(t, together_is_one_by_one, 0, 14);
    suite_add_tcase(suite, t);
    return test_run_suite(suite, CK_NOFORK);
}
