/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts rows to float64 in chunks, and sums them on several threads. */
#include "model/kruskal_sums.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"

/* bytes of float64 rows that are processed at a time (a chunk) */
#define CHUNK_BYTES (UINT64_C(1) << 20)
/* a loop with fewer additions than this runs on one thread */
#define LONE_ADDS 65536
/* columns that one thread sums, whose numbers fill a cache line */
#define GROUP 8u

struct sums {
    const struct ts_kruskal *k;
    const volatile sig_atomic_t *stop;
    int threads;
    uint64_t step; /* number of rows of a chunk */
    double *chunk; /* step x rank: the rows of a chunk */
    double *scale; /* rank: numbers by which the columns of a mode are multiplied */
    double *own;   /* threads x rank: the largest magnitudes that each thread has found */
};

static int sums_new(const struct ts_kruskal *k, uint32_t threads, const volatile sig_atomic_t *stop,
                    struct sums *ret, struct ts_err *err)
{
    *ret = (struct sums){ .k = k, .stop = stop };
    ret->threads = threads > 0 ? (int)threads : omp_get_max_threads();
    ret->step = CHUNK_BYTES / (k->rank * sizeof(double)) + 1;
    ret->chunk = malloc((ret->step + 1 + (uint64_t)ret->threads) * k->rank * sizeof *ret->chunk);
    if (ret->chunk == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for sums of a model's rows");
    ret->scale = ret->chunk + ret->step * k->rank;
    ret->own = ret->scale + k->rank;
    return 0;
}

static void load_row(const struct ts_kruskal *k, uint32_t mode, uint64_t row, double *to)
{
    (void)ts_kruskal_held((void *)(uintptr_t)k, mode, row, 1, to, NULL);
}

/* Type of a function that processes rows row .. row + n - 1 of a mode, and adds what they
 * contribute to the result at `to`. */
typedef void chunk_fn(struct sums *s, uint32_t mode, uint64_t row, uint64_t n, double *to);

static int each_chunk(struct sums *s, uint32_t mode, chunk_fn *take, double *to, struct ts_err *err)
{
    const uint64_t rows = s->k->n_rows[mode];
    int rc = ts_stop_check(s->stop, err);
    for (uint64_t row = 0; row < rows && rc == 0; row += s->step) {
        take(s, mode, row, rows - row < s->step ? rows - row : s->step, to);
        rc = ts_stop_check(s->stop, err);
    }
    return rc;
}

/* ---- the Gram matrix of a mode ---- */

/* largest[r] := the larger of largest[r] and the magnitudes in column r of n rows */
static void note_largest(struct sums *s, uint32_t mode, uint64_t row, uint64_t n, double *largest)
{
    const uint32_t rank = s->k->rank;
    memset(s->own, 0, (size_t)s->threads * rank * sizeof *s->own);
#pragma omp parallel for num_threads(s->threads) if (n * rank > LONE_ADDS)
    for (uint64_t i = 0; i < n; i++) {
        double *own = s->own + (size_t)omp_get_thread_num() * rank, *x = s->chunk + i * rank;
        load_row(s->k, mode, row + i, x);
        for (uint32_t r = 0; r < rank; r++)
            own[r] = fabs(x[r]) > own[r] ? fabs(x[r]) : own[r];
    }
    for (int t = 0; t < s->threads; t++) /* the order of threads does not affect a maximum */
        for (uint32_t r = 0; r < rank; r++)
            largest[r] = fmax(largest[r], s->own[(size_t)t * rank + r]);
}

/* Adds the Gram matrix of scaled rows to the upper triangle of gram. One thread sums a whole row of
 * the triangle. */
static void add_gram(struct sums *s, uint32_t mode, uint64_t row, uint64_t n, double *gram)
{
    const uint32_t rank = s->k->rank;
#pragma omp parallel num_threads(s->threads) if (n * rank * rank > LONE_ADDS)
    {
#pragma omp for
        for (uint64_t i = 0; i < n; i++) {
            double *x = s->chunk + i * rank;
            load_row(s->k, mode, row + i, x);
            for (uint32_t r = 0; r < rank; r++)
                x[r] *= s->scale[r];
        }
#pragma omp for schedule(dynamic, 1)
        for (uint32_t p = 0; p < rank; p++) {
            double *restrict to = gram + (size_t)p * rank;
            for (uint64_t i = 0; i < n; i++) {
                const double *restrict x = s->chunk + i * rank;
                for (uint32_t q = p; q < rank; q++)
                    to[q] += x[p] * x[q];
            }
        }
    }
}

static int gram_of(struct sums *s, uint32_t mode, double *gram, int *exponent, struct ts_err *err)
{
    const uint32_t rank = s->k->rank;
    double largest[TS_MAX_RANK] = { 0 };
    int rc = each_chunk(s, mode, note_largest, largest, err);
    if (rc < 0)
        return rc;
    for (uint32_t r = 0; r < rank; r++) {
        frexp(largest[r], &exponent[r]); /* sets the exponent 0 for a column of zeros */
        exponent[r] = exponent[r] < -1000 ? -1000 : exponent[r];
        s->scale[r] = ldexp(1, -exponent[r]);
    }
    memset(gram, 0, (size_t)rank * rank * sizeof *gram);
    rc = each_chunk(s, mode, add_gram, gram, err);
    for (uint32_t p = 0; p < rank; p++)
        for (uint32_t q = 0; q < p; q++)
            gram[(size_t)p * rank + q] = gram[(size_t)q * rank + p];
    return rc;
}

int ts_kruskal_gram(const struct ts_kruskal *k, uint32_t mode, uint32_t threads,
                    const volatile sig_atomic_t *stop, double *gram, int *exponent,
                    struct ts_err *err)
{
    struct sums s;
    int rc = sums_new(k, threads, stop, &s, err);
    if (rc == 0)
        rc = gram_of(&s, mode, gram, exponent, err);
    free(s.chunk);
    return rc;
}

/* ---- the norm |M| of a model M ---- */

/* product[r][s] := w_r w_s times the entries (r, s) of all Gram matrices, for the weights w of the
 * components. Component r is scaled by 2^-shift[r]. */
static int multiply_grams(struct sums *s, double *product, double *gram, int *shift,
                          struct ts_err *err)
{
    const struct ts_kruskal *k = s->k;
    const uint32_t rank = k->rank;
    int exponent[TS_MAX_RANK], rc = 0;
    for (uint32_t p = 0; p < rank; p++)
        frexp(k->weight[p], &shift[p]);
    for (uint32_t p = 0; p < rank; p++)
        for (uint32_t q = 0; q < rank; q++)
            product[(size_t)p * rank + q] =
                ldexp(k->weight[p], -shift[p]) * ldexp(k->weight[q], -shift[q]);
    for (uint32_t m = 0; m < k->order && rc == 0; m++) {
        rc = gram_of(s, m, gram, exponent, err);
        for (size_t i = 0; i < (size_t)rank * rank && rc == 0; i++)
            product[i] *= gram[i];
        for (uint32_t p = 0; p < rank && rc == 0; p++)
            shift[p] += exponent[p];
    }
    return rc;
}

/* Returns the largest shift (binary exponent) of the components that are not zero. |M| is computed
 * in units of 2 to this power. */
static int common_shift(uint32_t rank, const double *product, const int *shift)
{
    int ret = 0, found = 0;
    for (uint32_t p = 0; p < rank; p++)
        if (product[(size_t)p * rank + p] > 0 && (!found || shift[p] > ret)) {
            ret = shift[p];
            found = 1;
        }
    return ret;
}

int ts_kruskal_norm(const struct ts_kruskal *k, uint32_t threads, const volatile sig_atomic_t *stop,
                    double *ret, struct ts_err *err)
{
    const size_t square = (size_t)k->rank * k->rank;
    double *product = malloc(2 * square * sizeof *product), sum = 0;
    int shift[TS_MAX_RANK], common;
    struct sums s = { .chunk = NULL };
    int rc = product == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for Gram matrices") : 0;
    if (rc == 0)
        rc = sums_new(k, threads, stop, &s, err);
    if (rc == 0)
        rc = multiply_grams(&s, product, product + square, shift, err);
    if (rc == 0) {
        common = common_shift(k->rank, product, shift);
        for (uint32_t p = 0; p < k->rank; p++)
            for (uint32_t q = 0; q < k->rank; q++)
                sum += ldexp(product[(size_t)p * k->rank + q], shift[p] + shift[q] - 2 * common);
        /* components that cancel may leave a negative rounding error; NaN stays */
        sum = sum < 0 ? 0 : sum;
        *ret = ldexp(sqrt(sum), common);
        if (!isfinite(*ret))
            rc = ts_fail(err, TS_ELIMIT,
                         "the norm of the model leaves the range of float64: scale its weights");
    }
    free(s.chunk);
    free(product);
    return rc;
}

/* ---- the sum of a model over all cells ---- */

/* sum[r] += the sum of column r over n rows. One thread sums whole columns. */
static void add_columns(struct sums *s, uint32_t mode, uint64_t row, uint64_t n, double *sum)
{
    const struct ts_kruskal *k = s->k;
    const uint32_t rank = k->rank;
#pragma omp parallel for num_threads(s->threads) if (n * rank > LONE_ADDS)
    for (uint32_t first = 0; first < rank; first += GROUP) {
        const uint32_t width = rank - first < GROUP ? rank - first : GROUP;
        for (uint64_t i = row; i < row + n; i++)
            for (uint32_t r = first; r < first + width; r++)
                sum[r] += k->precision == TS_FLOAT32
                              ? (double)((const float *)k->factor[mode])[i * rank + r]
                              : ((const double *)k->factor[mode])[i * rank + r];
    }
}

int ts_kruskal_total(const struct ts_kruskal *k, uint32_t threads,
                     const volatile sig_atomic_t *stop, double *ret, struct ts_err *err)
{
    double term[TS_MAX_RANK], total = 0;
    int shift[TS_MAX_RANK], exponent;
    struct sums s;
    int rc = sums_new(k, threads, stop, &s, err);
    for (uint32_t r = 0; r < k->rank && rc == 0; r++)
        term[r] = frexp(k->weight[r], &shift[r]);
    for (uint32_t m = 0; m < k->order && rc == 0; m++) {
        double sum[TS_MAX_RANK] = { 0 };
        rc = each_chunk(&s, m, add_columns, sum, err);
        for (uint32_t r = 0; r < k->rank && rc == 0; r++) {
            term[r] *= frexp(sum[r], &exponent);
            shift[r] += exponent;
        }
    }
    for (uint32_t r = 0; r < k->rank && rc == 0; r++)
        total += ldexp(term[r], shift[r]);
    free(s.chunk);
    if (rc == 0)
        *ret = total;
    return rc;
}
