/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the fit of a model from one MTTKRP, and from Gram matrices in twice the precision of
 * float64. */
#include "cpd/judge/exact_fit.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/num.h"
#include "base/setting.h"
#include "base/stop.h"
#include "format/tensor_kind.h"
#include "stream/comm.h"

/* bytes of float64 rows that are copied at a time to or from the backend */
#define CHUNK_BYTES (UINT64_C(1) << 20)
/* largest rounding error of one operation, relative to its result */
#define ROUNDING (DBL_EPSILON / 2)
/* With the tensor X and the model M: |X - M|^2 below -CONTRADICTION times its expected error is
 * impossible, even if all roundings had the same sign. */
#define CONTRADICTION 16384.0
/* most terms of an entry of the MTTKRP that are added one by one; longer sums are sums of partial
 * sums of this length */
#define LONGEST_SUM 16384.0
/* Numbers between these limits have squares in the range of float64, and so have the rounding
 * errors of these squares. */
#define LEAST_LARGEST 1e-120
#define MOST_LARGEST  1e140
#define MOST_SHIFT    1000 /* limit of exponents of scales: 2^1000 and 2^-1000 fit in float64 */

/* ---- twice the precision: a number is the sum hi + lo ---- */

struct twice {
    double hi, lo;
};

static struct twice two_sum(double a, double b)
{
    const double s = a + b, z = s - a;
    return (struct twice){ s, (a - (s - z)) + (b - z) };
}

static struct twice two_product(double a, double b)
{
    const double p = a * b;
    return (struct twice){ p, fma(a, b, -p) };
}

static struct twice add(struct twice a, struct twice b)
{
    const struct twice s = two_sum(a.hi, b.hi);
    return two_sum(s.hi, s.lo + (a.lo + b.lo));
}

static struct twice multiply(struct twice a, struct twice b)
{
    const struct twice p = two_product(a.hi, b.hi);
    return two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

/* ---- Gram matrices and other sums over the model's rows ---- */

struct sums {
    const struct ts_exact_fit_conf *conf;
    uint32_t rank, mode; /* mode: the mode whose MTTKRP is computed */
    size_t square;       /* rank * rank */
    uint64_t step;       /* rows of the model or of the MTTKRP that are read at a time (a chunk) */
    double *chunk;       /* step x rank: rows of the model, or of the MTTKRP */
    double *split; /* 2 x step x rank: high and low halves of the bits of the chunk's entries */
    /* step x rank: rows of a factor in the backend's order, to be copied to it */
    double *ready;
    double *own; /* n_rows x rank: the model's factor of `mode` */
    size_t own_bytes;
    /* rank x rank, upper triangles: Gram matrix of the mode that is being read */
    double *gram_hi, *gram_lo;
    /* rank x rank, upper triangles: elementwise product of the Gram matrices of the modes read so
     * far */
    double *all_hi, *all_lo;
    /* rank: largest magnitude in each column of the mode that is being read */
    double *largest;
    double *scale; /* rank: power of 2 that scales the column's norm to about 1 */
    /* rank: power of 2 by which a column's entries are multiplied as they are read; NULL: all 1 */
    double *before;
    double *shift; /* rank: the scales of all modes read so far multiply a column by 2^-shift */
    /* rank: weights of the model; after the last mode, divided by the scales of all modes */
    double *weight;
};

static uint64_t chunk_rows(uint32_t rank)
{
    const uint64_t n = CHUNK_BYTES / (rank * sizeof(double));
    return n > 0 ? n : 1;
}

#ifdef __clang__
#pragma clang diagnostic ignored \
    "-Wpass-failed" /* with sanitizers, the loops marked below are not vectorized */
#endif

/* For each j below n, adds a * b(j) to the sum s(j) + c(j), of which c(j) has the rounding errors.
 * a = ah + al and b = bh + bl, and these halves are so short that their products are exact (Dekker,
 * Numer. Math. 18, 1971). Any processor has vector code for this, but not for fma(). */
static void add_products(uint32_t n, double a, double ah, double al, const double *restrict b,
                         const double *restrict bh, const double *restrict bl, double *restrict s,
                         double *restrict c)
{
#pragma omp simd
    for (uint32_t j = 0; j < n; j++) {
        const double p = a * b[j];
        const double off = al * bl[j] - (((p - ah * bh[j]) - al * bh[j]) - ah * bl[j]);
        const double sum = s[j] + p, z = sum - s[j];
        c[j] += ((s[j] - (sum - z)) + (p - z)) + off;
        s[j] = sum;
    }
}

static void split_rows(const double *x, size_t n, double *high, double *low)
{
    for (size_t i = 0; i < n; i++) {
        const double t = 134217729.0 * x[i]; /* 2^27 + 1 */
        high[i] = t - (t - x[i]);
        low[i] = x[i] - high[i];
    }
}

/* Adds the Gram matrix of n rows to the upper triangle of gram. One thread computes a whole row of
 * the triangle, so each entry is summed in the order of the model's rows. */
static void add_gram(struct sums *s, uint64_t n)
{
    const struct ts_exact_fit_conf *c = s->conf;
    const int threads = c->threads > 0 ? (int)c->threads : omp_get_max_threads();
    const uint32_t rank = s->rank;
    const double *x = s->chunk, *high = s->split, *low = s->split + s->step * rank;
    split_rows(x, n * rank, s->split, s->split + s->step * rank);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (n * rank > 4096)
    for (uint32_t i = 0; i < rank; i++) {
        double *hi = s->gram_hi + (size_t)i * rank, *lo = s->gram_lo + (size_t)i * rank;
        for (uint64_t k = 0; k < n; k++) {
            const size_t at = k * rank + i;
            add_products(rank - i, x[at], high[at], low[at], x + at, high + at, low + at, hi + i,
                         lo + i);
        }
    }
}

static int in_range(double largest)
{
    return largest > LEAST_LARGEST && largest < MOST_LARGEST;
}

static void note_largest(struct sums *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < s->rank; r++)
            s->largest[r] = fmax(s->largest[r], fabs(s->chunk[i * s->rank + r]));
}

/* Chooses powers of 2 that scale a mode's columns to norms of about 1. This does not round, and
 * keeps the products of all modes in the range of float64. */
static void choose_scales(struct sums *s)
{
    for (uint32_t r = 0; r < s->rank; r++) {
        int exponent = 0;
        if (s->largest[r] > 0)
            frexp(sqrt(s->gram_hi[(size_t)r * s->rank + r]), &exponent);
        s->scale[r] = ldexp(1, -exponent);
        s->shift[r] += exponent;
    }
}

/* Clears the sums of the mode that is being read. */
static void forget_mode(struct sums *s)
{
    memset(s->gram_hi, 0, s->square * sizeof *s->gram_hi);
    memset(s->gram_lo, 0, s->square * sizeof *s->gram_lo);
    memset(s->largest, 0, s->rank * sizeof *s->largest);
}

/* Multiplies the product of the Gram matrices of the modes read before (all_hi + all_lo), entry by
 * entry, by the Gram matrix of this mode's scaled columns. Clears the sums of this mode. */
static void take_gram(struct sums *s)
{
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t j = i; j < s->rank; j++) {
            const size_t at = (size_t)i * s->rank + j;
            const double scale = s->scale[i] * s->scale[j];
            const struct twice g = two_sum(s->gram_hi[at] * scale, s->gram_lo[at] * scale);
            const struct twice p = multiply((struct twice){ s->all_hi[at], s->all_lo[at] }, g);
            s->all_hi[at] = p.hi;
            s->all_lo[at] = p.lo;
        }
    forget_mode(s);
}

/* Returns |M|^2 for the model M. *size := the sum of the magnitudes of its terms. */
static struct twice model_square(const struct sums *s, double *size)
{
    const double *weight = s->weight;
    struct twice sum = { 0, 0 };
    *size = 0;
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t j = i; j < s->rank; j++) {
            const size_t at = (size_t)i * s->rank + j;
            const double both = i == j ? weight[i] : 2 * weight[i];
            const struct twice term = multiply(two_product(both, weight[j]),
                                               (struct twice){ s->all_hi[at], s->all_lo[at] });
            sum = add(sum, term);
            *size += fabs(term.hi);
        }
    return sum;
}

/* ---- copying rows of the model into the backend ---- */

/* The rows of a mode in the tensor's order, which are copied to the backend one after another. */
struct target {
    struct sums *s;
    uint32_t mode;
    uint64_t n_rows;
    uint64_t *index; /* index of each row of the tensor; NULL: row i is index i */
    uint64_t next;   /* the first row of the tensor that has no entries yet */
    uint64_t held;   /* number of rows before `next` that the backend does not have yet */
};

static int flush(struct target *t, struct ts_err *err)
{
    const struct ts_exact_fit_conf *c = t->s->conf;
    const uint64_t n = t->held;
    t->held = 0;
    if (n == 0)
        return 0;
    if (t->mode != t->s->mode)
        return c->backend->put_rows(c->be, t->mode, t->next - n, n, t->s->ready, err);
    memcpy(t->s->own + (t->next - n) * t->s->rank, t->s->ready, n * t->s->rank * sizeof(double));
    return 0;
}

/* Sets the entries of the tensor's next row to `row`, or to zeros if that is NULL. */
static int give_row(struct target *t, const double *row, struct ts_err *err)
{
    double *to = t->s->ready + t->held * t->s->rank;
    if (row != NULL)
        memcpy(to, row, t->s->rank * sizeof *to);
    else
        memset(to, 0, t->s->rank * sizeof *to);
    t->next++;
    t->held++;
    return t->held == t->s->step ? flush(t, err) : 0;
}

static uint64_t index_of(const struct target *t, uint64_t row)
{
    return t->index == NULL ? row : t->index[row];
}

/* Sets the tensor's row with this index, if it exists, to `row` of the model. Rows of the tensor
 * with smaller indices, which the model lacks, become zeros. */
static int give_index(struct target *t, uint64_t index, const double *row, struct ts_err *err)
{
    int rc = 0;
    while (rc == 0 && t->next < t->n_rows && index_of(t, t->next) < index)
        rc = give_row(t, NULL, err);
    if (rc == 0 && t->next < t->n_rows && index_of(t, t->next) == index)
        rc = give_row(t, row, err);
    return rc;
}

/* ret := the index of each row of the model, NULL if row i is index i. *used := 1 if the model's
 * rows are the tensor's used slices in order. Returns TS_EARG if the shapes differ. */
static int model_index(const struct sums *s, uint32_t mode, uint64_t **ret, int *used,
                       struct ts_err *err)
{
    const struct ts_model *m = s->conf->model;
    const struct ts_disk_mode *disk = &s->conf->tensor->mode[mode].disk;
    const uint64_t n = m->n_rows[mode];
    int rc = ts_model_index(m, mode, ret, err);
    *used = 0;
    if (rc < 0)
        return rc;
    if (*ret != NULL && (*ret)[n - 1] >= disk->dim) {
        rc = ts_fail(err, TS_EARG,
                     "%s: " TS_NTH_MODE " of the model has index " TS_NTH_INDEX
                     ", of the tensor %" PRIu64,
                     m->path, mode + 1, (*ret)[n - 1] + 1, disk->dim);
        free(*ret);
        *ret = NULL;
        return rc;
    }
    *used = *ret == NULL && n != disk->dim;
    if (*ret == NULL && n != disk->dim && n != disk->n_rows)
        return ts_fail(err, TS_EARG,
                       "%s: " TS_NTH_MODE " of the model has %" PRIu64
                       " row%s, of the tensor %" PRIu64,
                       m->path, mode + 1, n, ts_num_plural(n), disk->dim);
    return 0;
}

static int read_rows(struct sums *s, struct target *t, const uint64_t *index, struct ts_err *err)
{
    struct ts_model *m = s->conf->model;
    const uint64_t rows = m->n_rows[t->mode];
    int rc = 0;
    for (uint64_t row = 0; row < rows && rc == 0; row += s->step) {
        const uint64_t n = rows - row < s->step ? rows - row : s->step;
        rc = ts_model_rows(m, t->mode, n, s->chunk, err);
        if (rc == 0) {
            for (uint64_t i = 0; s->before != NULL && i < n * s->rank; i++)
                s->chunk[i] *= s->before[i % s->rank];
            add_gram(s, n);
            note_largest(s, n);
        }
        for (uint64_t i = 0; i < n && rc == 0; i++)
            rc = give_index(t, index == NULL ? row + i : index[row + i], s->chunk + i * s->rank,
                            err);
        if (rc == 0)
            rc = ts_stop_check(s->conf->stop, err);
    }
    while (rc == 0 && t->next < t->n_rows)
        rc = give_row(t, NULL, err);
    return rc == 0 ? flush(t, err) : rc;
}

/* Reads the mode's factor from the model again if some column has numbers whose squares leave the
 * range of float64. Entries of such columns are scaled by a power of 2 as they are read. */
static int read_again(struct sums *s, struct target *t, const uint64_t *index, struct ts_err *err)
{
    double before[TS_MAX_RANK];
    uint32_t out = s->rank;
    int rc;
    for (uint32_t r = 0; r < s->rank; r++) {
        int exponent = 0;
        if (s->largest[r] > 0 && !in_range(s->largest[r])) {
            out = out < s->rank ? out : r;
            frexp(s->largest[r], &exponent);
            exponent = exponent > MOST_SHIFT    ? MOST_SHIFT
                       : exponent < -MOST_SHIFT ? -MOST_SHIFT
                                                : exponent;
        }
        before[r] = ldexp(1, -exponent);
        s->shift[r] += exponent;
    }
    if (out == s->rank)
        return 0;
    rc = ts_model_again(s->conf->model, err);
    if (rc > 0)
        return ts_fail(err, TS_ELIMIT,
                       "%s: " TS_NTH_MODE ", " TS_NTH_COLUMN
                       ": numbers up to %g have squares out of the range of "
                       "float64, and what is read once cannot be scaled: name a file",
                       s->conf->model->path, t->mode + 1, out + 1, s->largest[out]);
    forget_mode(s);
    t->next = 0;
    s->before = before;
    if (rc == 0)
        rc = read_rows(s, t, index, err);
    s->before = NULL;
    return rc;
}

static int load_mode(struct sums *s, uint32_t mode, struct ts_err *err)
{
    struct target t = { .s = s, .mode = mode, .n_rows = s->conf->tensor->mode[mode].disk.n_rows };
    uint64_t *index = NULL;
    int used, rc = model_index(s, mode, &index, &used, err);
    if (rc == 0 && !used) /* otherwise the model's rows are the backend's rows, in the same order */
        rc = ts_tensor_rows(s->conf->tensor, mode, &t.index, err);
    if (rc == 0)
        rc = read_rows(s, &t, index, err);
    if (rc == 0)
        rc = read_again(s, &t, index, err);
    free(t.index);
    free(index);
    if (rc < 0)
        return rc;
    choose_scales(s);
    take_gram(s);
    if (mode != s->mode)
        return s->conf->backend->scale(s->conf->be, mode, s->scale, err);
    for (uint64_t i = 0; i < t.n_rows; i++)
        for (uint32_t r = 0; r < s->rank; r++)
            s->own[i * s->rank + r] *= s->scale[r];
    return 0;
}

/* ---- the MTTKRP of one mode ---- */

/* *ret := the inner product of tensor and model, from the MTTKRP that the backend holds. */
static int inner_product(struct sums *s, struct twice *ret, struct ts_err *err)
{
    const struct ts_exact_fit_conf *c = s->conf;
    const uint64_t rows = c->tensor->mode[s->mode].disk.n_rows;
    struct twice *column = calloc(s->rank, sizeof *column), sum = { 0, 0 };
    int rc = column == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for %u sums", s->rank) : 0;
    for (uint64_t row = 0; row < rows && rc == 0; row += s->step) {
        const uint64_t n = rows - row < s->step ? rows - row : s->step;
        rc = c->backend->get_rows(c->be, s->mode, row, n, s->chunk, err);
        for (uint64_t i = 0; i < n && rc == 0; i++)
            for (uint32_t r = 0; r < s->rank; r++)
                column[r] = add(column[r], two_product(s->own[(row + i) * s->rank + r],
                                                       s->chunk[i * s->rank + r]));
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    for (uint32_t r = 0; r < s->rank && rc == 0; r++)
        sum = add(sum, multiply((struct twice){ s->weight[r], 0 }, column[r]));
    free(column);
    *ret = sum;
    return rc;
}

/* ---- the fit and its error ---- */

/* Returns the expected rounding error of a sum of n terms, in units of one rounding, if the signs
 * of roundings are random. Groups of at most LONGEST_SUM terms are added term by term, and then the
 * sums of the groups. */
static double sum_roundings(double n)
{
    return sqrt(fmin(n, LONGEST_SUM)) + sqrt(n / LONGEST_SUM);
}

/* Returns the expected relative rounding error of |X|^2 in the header of the tensor X. */
static double norm_error(const struct sums *s)
{
    return ROUNDING * (4 + sum_roundings((double)s->conf->tensor->nnz));
}

/* Returns the expected rounding error of |X - M|^2, for the tensor X and the model M. */
static double square_error(const struct sums *s, double norm, double model_size)
{
    const struct ts_tensor *t = s->conf->tensor;
    const double longest = (double)t->mode[s->mode].disk.largest_slice;
    double size = 0, rows = 0;
    for (uint32_t r = 0; r < s->rank; r++)
        size += fabs(s->weight[r]) * sqrt(fmax(s->all_hi[(size_t)r * s->rank + r], 0));
    for (uint32_t m = 0; m < t->order; m++)
        rows = fmax(rows, (double)s->conf->model->n_rows[m]);
    return norm * norm * norm_error(s) +
           ROUNDING * 2 * norm * size * (t->order + sum_roundings(longest)) +
           ROUNDING * ROUNDING * model_size * (8 * t->order + rows + s->square);
}

static int conclude(const struct sums *s, struct twice inner, struct ts_exact_fit *ret,
                    struct ts_err *err)
{
    const double norm = s->conf->norm > 0 ? s->conf->norm : s->conf->tensor->header.norm;
    double size, most, left, error;
    const struct twice model = model_square(s, &size);
    const struct twice twice_inner = { -2 * inner.hi, -2 * inner.lo };
    const struct twice sum = add(add(two_product(norm, norm), model), twice_inner);
    most = sum.hi;
    error = square_error(s, fmax(norm, ts_tensor_listed_norm(s->conf->tensor)), size);
    if (!isfinite(most) || !isfinite(error)) {
        const int rc = ts_tensor_check_values(s->conf->tensor, s->conf->stop, err);
        return rc < 0 ? rc
                      : ts_fail(err, TS_ELIMIT,
                                "%s: components of the model leave the range of float64: scale its "
                                "weights",
                                s->conf->model->path);
    }
    if (most < -CONTRADICTION * error)
        return ts_fail(
            err, TS_EFORMAT,
            "%s: its norm (%.9g) and its cells disagree: |X - M|^2 would be %.3g, which is "
            "below 0; tshard verify says whether the tensor is damaged",
            s->conf->tensor->path, norm, most);
    left = fmax(most, 0);
    ret->norm = norm;
    ret->model_norm = sqrt(fmax(model.hi, 0));
    ret->residual = sqrt(left);
    if (norm == 0) {
        ret->residual = ret->model_norm;
        ret->fit = ret->model_norm == 0 ? 1 : -INFINITY;
        ret->error = 0;
        return 0;
    }
    ret->fit = 1 - ret->residual / norm;
    ret->error =
        fmax(ret->residual - sqrt(fmax(left - error, 0)), sqrt(left + error) - ret->residual) /
            norm +
        ret->residual / norm * norm_error(s);
    return 0;
}

uint32_t ts_exact_fit_mode(const struct ts_tensor *t)
{
    uint32_t mode = 0;
    for (uint32_t m = 1; m < t->order; m++)
        if (t->mode[m].disk.n_rows < t->mode[mode].disk.n_rows)
            mode = m;
    return mode;
}

uint64_t ts_exact_fit_bytes(const struct ts_tensor *t, const struct ts_model *model)
{
    const uint64_t rank = model->rank;
    /* number of row indices that are held for one mode, those of tensor and model together */
    uint64_t index = 0;
    for (uint32_t m = 0; m < t->order && m < model->order; m++) {
        const struct ts_disk_mode *disk = &t->mode[m].disk;
        const uint64_t n = (disk->rows_bytes > 0 ? disk->n_rows : 0) +
                           (model->n_rows[m] != disk->dim ? model->n_rows[m] : 0);
        index = n > index ? n : index;
    }
    return 8 * (t->mode[ts_exact_fit_mode(t)].disk.n_rows * rank + index +
                4 * chunk_rows(model->rank) * rank + 4 * rank * rank);
}

static int sums_new(struct sums *s, struct ts_err *err)
{
    const uint64_t numbers = 4 * s->step * s->rank + 4 * s->square + 4 * s->rank;
    int rc;
    s->own_bytes = s->conf->tensor->mode[s->mode].disk.n_rows * s->rank * sizeof(double);
    rc = ts_bigmem_new(s->own_bytes, "the rows of a mode", (void **)&s->own, err);
    if (rc < 0)
        return rc;
    s->chunk = calloc(numbers, sizeof *s->chunk);
    if (s->chunk == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " sums", numbers);
    s->split = s->chunk + s->step * s->rank;
    s->ready = s->split + 2 * s->step * s->rank;
    s->gram_hi = s->ready + s->step * s->rank;
    s->gram_lo = s->gram_hi + s->square;
    s->all_hi = s->gram_lo + s->square;
    s->all_lo = s->all_hi + s->square;
    s->largest = s->all_lo + s->square;
    s->scale = s->largest + s->rank;
    s->shift = s->scale + s->rank;
    s->weight = s->shift + s->rank;
    memcpy(s->weight, s->conf->model->weight, s->rank * sizeof *s->weight);
    for (size_t i = 0; i < s->square; i++)
        s->all_hi[i] = 1;
    return 0;
}

static int compute(struct sums *s, struct ts_exact_fit *ret, struct ts_err *err)
{
    const struct ts_exact_fit_conf *c = s->conf;
    struct ts_backend_times times = { 0 };
    struct twice inner;
    int rc = sums_new(s, err);
    for (uint32_t m = 0; m < c->tensor->order && rc == 0; m++)
        rc = load_mode(s, m, err);
    if (rc < 0)
        return rc;
    for (uint32_t r = 0; r < s->rank; r++)
        s->weight[r] = ldexp(s->weight[r], (int)s->shift[r]);
    ts_feed_rewind(c->feed);
    rc = c->backend->pass(&(struct ts_request){ .be = c->be }, 1, s->mode, c->feed, &times, err);
    /* `gram` also sends the rows of the MTTKRP to all ranks (processes) */
    if (rc == 0 && ts_comm_many(c->comm))
        rc = c->backend->gram(c->be, s->mode, s->gram_hi, err);
    if (rc == 0)
        rc = ts_stop_check(c->stop, err);
    if (rc == 0)
        rc = inner_product(s, &inner, err);
    return rc == 0 ? conclude(s, inner, ret, err) : rc;
}

int ts_exact_fit_run(const struct ts_exact_fit_conf *conf, struct ts_exact_fit *ret,
                     struct ts_err *err)
{
    struct sums s = { .conf = conf,
                      .rank = conf->model->rank,
                      .mode = ts_exact_fit_mode(conf->tensor) };
    int rc;
    if (conf->model->order != conf->tensor->order)
        return ts_fail(err, TS_EARG, "%s: the model has %u modes, the tensor %u", conf->model->path,
                       conf->model->order, conf->tensor->order);
    rc = ts_tensor_is_unweighted(conf->tensor, "a fit", err);
    if (rc < 0)
        return rc;
    s.square = (size_t)s.rank * s.rank;
    s.step = chunk_rows(s.rank);
    rc = compute(&s, ret, err);
    ts_bigmem_free(s.own, s.own_bytes);
    free(s.chunk);
    return rc;
}
