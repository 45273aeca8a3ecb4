/* SPDX-License-Identifier: BSD-3-Clause */
/* Gram matrices of the rows of a dense tensor, over the cells that are rarer in them: the known or the unknown ones. */
#include "cpu/dense_rows.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "cpu/gram_rows.h"
#include "format/dense_held.h"
#include "stream/slabs.h"

#define MOST_BYTES (UINT64_C(64) << 20) /* of matrices at a time; one row has them in any case */
#define CHUNK      16384u               /* cells that a thread looks at */
#define PIECE      512u

struct ts_dense_rows {
    const struct ts_tensor *tensor;
    uint32_t rank, threads;
    struct ts_gram_rows *solver;
    struct ts_hold_out hold_out;           /* of the call */
    int counted;                           /* with the cells that it holds out: */
    uint64_t *unknown[TS_DENSE_MAX_ORDER]; /* of each row: how many cells */
    double *table[TS_DENSE_MAX_ORDER];     /* rows of the factors, float64 */
    double *packed;                        /* matrices of a group of rows */
    uint64_t packed_bytes;
    double *w;      /* threads x rank */
    double *part;   /* threads x what ts_gram_rows_solve takes */
    double *size;   /* of rows */
    uint64_t *cell; /* of a slab: those that count, in order; its chunks have CHUNK places each */
    uint32_t *n_of_chunk;
    double *memory;
    uint64_t memory_bytes;
};

static uint64_t triangle(uint32_t rank)
{
    return rank * (rank + UINT64_C(1)) / 2;
}

static uint64_t longest(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        most = t->dense->array.dim[m] > most ? t->dense->array.dim[m] : most;
    return most;
}

/* Rows whose matrices are summed at a time. */
static uint64_t group_rows(const struct ts_tensor *t, uint32_t rank)
{
    const uint64_t n = MOST_BYTES / (triangle(rank) * sizeof(double)), most = longest(t);
    return n == 0 ? 1 : n < most ? n : most;
}

static uint64_t slab_cells(const struct ts_dense *d)
{
    return (ts_dense_most_bytes(d) / d->cell_bytes + CHUNK - 1) / CHUNK * CHUNK;
}

/* Places all arrays, or only counts: in float64. */
static uint64_t place(const struct ts_tensor *t, uint32_t rank, uint32_t threads,
                      struct ts_dense_rows *d)
{
    const uint64_t slab = slab_cells(t->dense);
    uint64_t at = 0;
#define PLACE(field, n)                          \
    do {                                         \
        if (d != NULL)                           \
            d->field = (void *)(d->memory + at); \
        at += ((n) + 7) / 8 * 8;                 \
    } while (0)
    for (uint32_t m = 0; m < t->order; m++) {
        PLACE(unknown[m], t->dense->array.dim[m]);
        PLACE(table[m], t->dense->array.dim[m] * rank);
    }
    PLACE(w, (rank + UINT64_C(8)) * threads);
    PLACE(part, (triangle(rank) + rank + 8) * threads);
    PLACE(size, longest(t));
    PLACE(cell, slab);
    PLACE(n_of_chunk, slab / CHUNK);
#undef PLACE
    return at;
}

uint64_t ts_dense_rows_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             uint32_t threads)
{
    return sizeof(struct ts_dense_rows) +
           ts_bigmem_cost(place(t, rank, threads, NULL) * sizeof(double)) +
           ts_bigmem_cost(group_rows(t, rank) * triangle(rank) * sizeof(double)) +
           ts_gram_rows_bytes(1, rank, precision, threads);
}

int ts_dense_rows_new(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                      enum ts_isa isa, uint32_t threads, struct ts_dense_rows **ret,
                      struct ts_err *err)
{
    struct ts_dense_rows *d = calloc(1, sizeof *d);
    int rc;
    if (d == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    d->tensor = t;
    d->rank = rank;
    d->threads = threads;
    d->memory_bytes = place(t, rank, threads, NULL) * sizeof(double);
    d->packed_bytes = group_rows(t, rank) * triangle(rank) * sizeof(double);
    rc = ts_bigmem_new(d->memory_bytes, "rows of unknown cells", (void **)&d->memory, err);
    if (rc == 0) {
        place(t, rank, threads, d);
        rc = ts_bigmem_new(d->packed_bytes, "Gram matrices of rows", (void **)&d->packed, err);
    }
    if (rc == 0)
        rc = ts_gram_rows_new(1, t->order, rank, precision, isa, threads, &d->solver, err);
    if (rc == 0)
        *ret = d;
    else
        ts_dense_rows_free(d);
    return rc;
}

void ts_dense_rows_free(struct ts_dense_rows *d)
{
    if (d == NULL)
        return;
    ts_gram_rows_free(d->solver);
    if (d->packed != NULL)
        ts_bigmem_free(d->packed, d->packed_bytes);
    if (d->memory != NULL)
        ts_bigmem_free(d->memory, d->memory_bytes);
    free(d);
}

/* ---- which cells ---- */

/* Cells behind one index of the mode in the array: how many before the index changes. */
static uint64_t cells_behind(const struct ts_dense *d, uint32_t mode)
{
    uint64_t n = 1;
    for (uint32_t l = d->array.order; l-- > 0 && d->layout[l] != mode;)
        n *= d->array.dim[d->layout[l]];
    return n;
}

static uint64_t cells_of_row(const struct ts_dense_rows *d, uint32_t mode)
{
    return d->tensor->dense->cells / d->tensor->dense->array.dim[mode];
}

/* Of these its known cells are added up. */
static int is_direct(const struct ts_dense_rows *d, uint32_t mode, uint64_t row)
{
    return d->unknown[mode][row] > cells_of_row(d, mode) / 2;
}

/* What is looked for in a pass: cells of rows first .. end - 1 of the mode that count; all unknown ones where all is 1. */
struct wanted {
    uint32_t mode;
    uint64_t first, end, behind;
    int all, direct; /* of some of these rows the known cells count */
};

static int counts(const struct ts_dense_rows *d, const struct wanted *w, uint64_t cell, double x)
{
    const int known = x == x;
    uint64_t row;
    if (w->all || (known && !w->direct))
        return !known;
    row = cell / w->behind % d->tensor->dense->array.dim[w->mode];
    return row >= w->first && row < w->end && known == is_direct(d, w->mode, row);
}

/* Cells that are held out are NaN, too. */
static void hide(const struct ts_dense_rows *d, uint64_t at, uint32_t n, double *x)
{
    unsigned char held[PIECE];
    ts_dense_held(d->tensor->dense, &d->hold_out, at, n, held);
    for (uint32_t i = 0; i < n; i++)
        x[i] = held[i] ? NAN : x[i];
}

/* Lists those of a chunk of the slab, whose cells begin with `base`. */
static uint32_t look(const struct ts_dense_rows *d, const struct wanted *w, const void *slab,
                     uint64_t base, uint64_t first, uint64_t end, uint64_t *ret)
{
    double x[PIECE];
    uint32_t n = 0;
    for (uint64_t at = first; at < end; at += PIECE) {
        const uint32_t k = end - at < PIECE ? (uint32_t)(end - at) : PIECE;
        ts_dense_get_f64(d->tensor->dense, slab, at - base, k, x);
        if (d->hold_out.share > 0)
            hide(d, at, k, x);
        for (uint32_t i = 0; i < k; i++)
            if (counts(d, w, at + i, x[i]))
                ret[n++] = at + i;
    }
    return n;
}

static uint64_t look_through(struct ts_dense_rows *d, const struct wanted *w,
                             const struct ts_slab_view *v)
{
    const uint64_t base = v->part.row * d->tensor->dense->inner + v->part.col;
    const uint64_t cells = v->part.rows * v->part.cols, n = (cells + CHUNK - 1) / CHUNK;
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (uint64_t i = 0; i < n; i++)
        d->n_of_chunk[i] = look(d, w, v->cells, base, base + i * CHUNK,
                                base + (i + 1 < n ? (i + 1) * CHUNK : cells), d->cell + i * CHUNK);
    return n;
}

/* ---- what becomes of them ---- */

static void count_cells(struct ts_dense_rows *d, uint64_t n_chunks)
{
    const struct ts_dense *a = d->tensor->dense;
#pragma omp parallel for num_threads(d->threads) schedule(dynamic)
    for (uint32_t m = 0; m < a->array.order; m++) {
        const uint64_t behind = cells_behind(a, m), dim = a->array.dim[m];
        for (uint64_t i = 0; i < n_chunks; i++)
            for (uint32_t k = 0; k < d->n_of_chunk[i]; k++)
                d->unknown[m][d->cell[i * CHUNK + k] / behind % dim]++;
    }
}

/* S += w w', the upper triangle, row after row. */
static void add_square(double *restrict s, const double *restrict w, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; s += rank - i, i++) {
        const double x = w[i];
        for (uint32_t j = i; j < rank; j++)
            s[j - i] += x * w[j];
    }
}

/* Each thread adds the cells of its own rows. */
static void add_cells(struct ts_dense_rows *d, const struct wanted *w, uint64_t n_chunks)
{
    const struct ts_dense *a = d->tensor->dense;
    const uint64_t size = triangle(d->rank);
#pragma omp parallel num_threads(d->threads)
    {
        const uint64_t me = (uint64_t)omp_get_thread_num(), team = (uint64_t)omp_get_num_threads();
        double *p = d->w + me * (d->rank + UINT64_C(8));
        for (uint64_t i = 0; i < n_chunks; i++)
            for (uint32_t k = 0; k < d->n_of_chunk[i]; k++) {
                const uint64_t cell = d->cell[i * CHUNK + k];
                const uint64_t row = cell / w->behind % a->array.dim[w->mode];
                uint64_t index[TS_DENSE_MAX_ORDER];
                if (row % team != me)
                    continue;
                ts_dense_index(a, cell, index);
                for (uint32_t r = 0; r < d->rank; r++)
                    p[r] = 1;
                for (uint32_t m = 0; m < a->array.order; m++) {
                    const double *x = d->table[m] + index[m] * d->rank;
                    for (uint32_t r = 0; m != w->mode && r < d->rank; r++)
                        p[r] *= x[r];
                }
                add_square(d->packed + (row - w->first) * size, p, d->rank);
            }
    }
}

static int pass(struct ts_dense_rows *d, const struct wanted *w, struct ts_feed *feed,
                struct ts_err *err)
{
    struct ts_slabs *slabs = ts_feed_slabs(feed);
    struct ts_slab_view v;
    int rc;
    ts_slabs_rewind(slabs);
    while ((rc = ts_slabs_next(slabs, &v, err)) > 0) {
        const uint64_t n = look_through(d, w, &v);
        if (w->all)
            count_cells(d, n);
        else
            add_cells(d, w, n);
    }
    return rc;
}

/* ---- rows ---- */

static void solve_rows(struct ts_dense_rows *d, const struct wanted *w, struct ts_fmat *out,
                       const double *product, const double *gram, const struct ts_row_update *how)
{
    const uint32_t rank = d->rank;
    const uint64_t size = triangle(rank);
    ts_gram_rows_begin(d->solver, how, NULL, 0, out);
#pragma omp parallel for num_threads(d->threads) schedule(dynamic, 8)
    for (uint64_t row = w->first; row < w->end; row++) {
        const uint32_t thread = (uint32_t)omp_get_thread_num();
        double *part = d->part + thread * (size + rank + 8), *to = part;
        const double *s = d->packed + (row - w->first) * size;
        const int direct = is_direct(d, w->mode, row);
        for (uint32_t i = 0; i < rank; i++)
            for (uint32_t j = i; j < rank; j++, s++)
                *to++ = direct ? *s : gram[(size_t)i * rank + j] - *s;
        memcpy(to, product + row * rank, rank * sizeof *to);
        to[rank] = (double)(cells_of_row(d, w->mode) - d->unknown[w->mode][row]);
        d->size[row] =
            ts_gram_rows_solve(d->solver, thread, (uint32_t)row, part, direct ? NULL : gram, rank);
    }
}

static void take_factors(struct ts_dense_rows *d, uint32_t mode, const struct ts_fmat *factor)
{
    for (uint32_t m = 0; m < d->tensor->order; m++)
        if (m != mode)
            ts_fmat_get(&factor[m], 0, factor[m].n_rows, d->table[m], d->threads);
}

int ts_dense_rows_run(struct ts_dense_rows *d, uint32_t mode, struct ts_fmat *factor,
                      const double *product, const double *gram, const struct ts_row_update *how,
                      double *size, struct ts_feed *feed, struct ts_err *err)
{
    const uint64_t n_rows = d->tensor->dense->array.dim[mode];
    const uint64_t step = group_rows(d->tensor, d->rank);
    const int some = d->tensor->dense->n_unknown > 0 || how->hold_out.share > 0;
    struct wanted w = { .mode = mode, .behind = cells_behind(d->tensor->dense, mode) };
    int rc = 0;
    d->counted &= ts_hold_out_same(&d->hold_out, &how->hold_out);
    d->hold_out = how->hold_out;
    if (!d->counted) {
        for (uint32_t m = 0; m < d->tensor->order; m++)
            memset(d->unknown[m], 0, d->tensor->dense->array.dim[m] * sizeof *d->unknown[m]);
        w.all = 1;
        rc = some ? pass(d, &w, feed, err) : 0;
        w.all = 0;
        d->counted = rc == 0;
    }
    take_factors(d, mode, factor);
    for (uint64_t row = 0; row < n_rows && rc == 0; row += step) {
        w.first = row;
        w.end = n_rows - row < step ? n_rows : row + step;
        w.direct = 0;
        for (uint64_t i = w.first; i < w.end; i++)
            w.direct |= is_direct(d, mode, i);
        memset(d->packed, 0, (w.end - w.first) * triangle(d->rank) * sizeof *d->packed);
        rc = some ? pass(d, &w, feed, err) : 0;
        if (rc == 0)
            solve_rows(d, &w, &factor[mode], product, gram, how);
    }
    if (size != NULL)
        *size = 0;
    for (uint64_t row = 0; size != NULL && rc == 0 && row < n_rows; row++)
        *size += d->size[row];
    return rc;
}
