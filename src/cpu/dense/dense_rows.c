/* SPDX-License-Identifier: BSD-3-Clause */
/* Solves rows of dense tensors: Gram matrices are summed over the known or the unknown cells of a
 * row, whichever are fewer. */
#include "cpu/dense/dense_rows.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "cpu/dense/dense_unknown.h"
#include "cpu/extent.h"
#include "cpu/rows/gram_rows.h"
#include "cpu/sparse/kernel.h"
#include "format/arrays/dense.h"

/* most memory for Gram matrices at a time; there is always memory for one row */
#define MOST_BYTES (UINT64_C(64) << 20)
/* most memory for the bits of unknown cells, which is enough for 512 M cells */
#define BIT_BYTES (UINT64_C(64) << 20)
/* in a mode with fewer rows, the cells of each row are divided into parts */
#define PARTS_ROWS 64u
#define PART_CELLS 4096u /* fewest cells of a part, known and unknown ones together */

/* Memory of a thread. */
struct thread {
    struct ts_gram sum; /* Gram matrix of a row, summed over its cells in one slab */
    double *product;    /* products of the other factors' rows at these cells */
    double *part;       /* memory for ts_gram_rows_solve */
    /* for each mode: the factor rows at up to TS_BLOCK_NNZ cells */
    const void *row[TS_DENSE_MAX_ORDER][TS_BLOCK_NNZ];
};

struct ts_dense_rows {
    const struct ts_tensor *tensor;
    uint32_t rank, stride, threads;
    const struct ts_gram_ops *ops;
    struct ts_gram_rows *solver;
    struct ts_dense_unknown *unknown;
    struct thread *thread;
    struct ts_unpacked *no_values;     /* a block of cells whose values are all 0 */
    uint16_t every[TS_BLOCK_NNZ];      /* the positions 0, 1, ... of a block */
    double *table[TS_DENSE_MAX_ORDER]; /* for each mode: the factor as float64 */
    double *ones;                      /* a row of ones: the product of no factor rows */
    /* one for each row of the mode. 1: the Gram matrix is summed over known cells; 0: over unknown
     * ones */
    unsigned char *direct;
    double *packed; /* upper triangles of Gram matrices, for a group of rows */
    uint64_t packed_bytes;
    double *size; /* what each row adds to *size of ts_dense_rows_run */
    char *memory;
    uint64_t memory_bytes;
};

static uint64_t triangle(uint32_t rank)
{
    return rank * (rank + UINT64_C(1)) / 2;
}

static uint64_t matrices(uint32_t rank)
{
    const uint64_t n = MOST_BYTES / (triangle(rank) * sizeof(double));
    return n > 0 ? n : 1;
}

static uint64_t cells_of_row(const struct ts_tensor *t, uint32_t mode)
{
    return t->dense->cells / t->dense->array.dim[mode];
}

/* Returns the number of parts into which the cells of a row are divided, each with a Gram matrix of
 * its own, so that there are enough parts for all threads. It depends on the tensor and the rank
 * alone. */
static uint32_t parts_of(const struct ts_tensor *t, uint32_t rank, uint32_t mode)
{
    const uint64_t dim = t->dense->array.dim[mode], cells = cells_of_row(t, mode) / PART_CELLS;
    uint64_t n = (PARTS_ROWS + dim - 1) / dim;
    n = n < cells ? n : cells;
    n = n < matrices(rank) / dim ? n : matrices(rank) / dim;
    return n > 0 ? (uint32_t)n : 1;
}

/* Returns the number of rows whose Gram matrices are summed at a time. */
static uint64_t group_rows(const struct ts_tensor *t, uint32_t rank, uint32_t mode)
{
    const uint64_t n = matrices(rank), dim = t->dense->array.dim[mode];
    return n < dim ? n : dim;
}

static uint64_t most_keys(const struct ts_tensor *t, uint32_t rank)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        const uint64_t n = group_rows(t, rank, m) * parts_of(t, rank, m);
        most = n > most ? n : most;
    }
    return most;
}

static uint32_t square_rows(uint32_t rank)
{
    return (rank + TS_GRAM_TURNED - 1) / TS_GRAM_TURNED * TS_GRAM_TURNED;
}

/* Places all arrays in the memory at `base`, or only counts their bytes if that is NULL. Returns
 * the bytes. */
static uint64_t lay_out(const struct ts_tensor *t, uint32_t rank, uint32_t threads,
                        struct ts_dense_rows *d, char *base)
{
    const uint64_t row = ts_fmat_stride(rank, TS_FLOAT64) * sizeof(double);
    const uint64_t longest = ts_most_rows(t, TS_ALL_MODES);
    struct thread counted;
    uint64_t at = 0;
    d->thread = ts_place(base, &at, threads * sizeof *d->thread);
    d->no_values = ts_place(base, &at, sizeof *d->no_values);
    d->ones = ts_place(base, &at, row);
    d->direct = ts_place(base, &at, longest);
    d->size = ts_place(base, &at, longest * sizeof *d->size);
    for (uint32_t m = 0; m < t->order; m++)
        d->table[m] = ts_place(base, &at, t->dense->array.dim[m] * row);
    for (uint32_t i = 0; i < threads; i++) {
        struct thread *own = base == NULL ? &counted : &d->thread[i];
        own->sum.s = ts_place(base, &at, square_rows(rank) * row);
        own->sum.m = ts_place(base, &at, row);
        own->product = ts_place(base, &at, TS_BLOCK_NNZ * row);
        own->part = ts_place(base, &at, (triangle(rank) + rank + 1) * sizeof *own->part);
    }
    return at;
}

static struct ts_dense_unknown_conf unknown_conf(const struct ts_tensor *t, uint32_t rank,
                                                 uint32_t threads)
{
    return (struct ts_dense_unknown_conf){
        .tensor = t, .most_keys = most_keys(t, rank), .bit_bytes = BIT_BYTES, .threads = threads
    };
}

uint64_t ts_dense_rows_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             uint32_t threads)
{
    const struct ts_dense_unknown_conf unknown = unknown_conf(t, rank, threads);
    struct ts_dense_rows shape;
    return sizeof shape + ts_bigmem_cost(lay_out(t, rank, threads, &shape, NULL)) +
           ts_bigmem_cost(most_keys(t, rank) * triangle(rank) * sizeof(double)) +
           ts_dense_unknown_bytes(&unknown) + ts_gram_rows_bytes(1, rank, precision, threads);
}

int ts_dense_rows_new(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                      enum ts_isa isa, uint32_t threads, struct ts_dense_rows **ret,
                      struct ts_err *err)
{
    const struct ts_dense_unknown_conf unknown = unknown_conf(t, rank, threads);
    struct ts_dense_rows *d = calloc(1, sizeof *d);
    int rc;
    if (d == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    d->tensor = t;
    d->rank = rank;
    d->stride = ts_fmat_stride(rank, TS_FLOAT64);
    d->threads = threads;
    d->ops = ts_gram_get(isa, TS_FLOAT64, d->stride);
    d->memory_bytes = lay_out(t, rank, threads, d, NULL);
    d->packed_bytes = most_keys(t, rank) * triangle(rank) * sizeof(double);
    rc = ts_bigmem_new(d->memory_bytes, "rows of unknown cells", (void **)&d->memory, err);
    if (rc == 0) {
        lay_out(t, rank, threads, d, d->memory);
        rc = ts_bigmem_new(d->packed_bytes, "Gram matrices of rows", (void **)&d->packed, err);
    }
    for (uint32_t i = 0; i < threads && rc == 0; i++) {
        d->thread[i].sum.rank = rank;
        d->thread[i].sum.stride = d->stride;
    }
    for (uint32_t i = 0; i < d->stride && rc == 0; i++)
        d->ones[i] = 1;
    for (uint32_t i = 0; i < TS_BLOCK_NNZ; i++)
        d->every[i] = (uint16_t)i;
    if (rc == 0)
        rc = ts_dense_unknown_new(&unknown, &d->unknown, err);
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
    ts_dense_unknown_free(d->unknown);
    if (d->packed != NULL)
        ts_bigmem_free(d->packed, d->packed_bytes);
    if (d->memory != NULL)
        ts_bigmem_free(d->memory, d->memory_bytes);
    free(d);
}

/* ---- Gram matrices summed over cells ---- */

/* A group of rows of a mode whose Gram matrices are summed together. */
struct group {
    struct ts_dense_rows *rows;
    struct ts_dense_wanted wanted;
    /* the other modes than the group's, in the order of the layout */
    uint32_t other[TS_DENSE_MAX_ORDER], n_other;
    /* for the last of the modes in `other`: cells from one index to the next, and cells of all its
     * indices */
    uint64_t step, span;
};

static void choose_others(struct group *g)
{
    const struct ts_dense *a = g->rows->tensor->dense;
    g->n_other = 0;
    g->step = 1;
    for (uint32_t l = 0; l < a->array.order; l++)
        if (a->layout[l] != g->wanted.mode)
            g->other[g->n_other++] = a->layout[l];
    if (a->layout[a->array.order - 1] == g->wanted.mode)
        g->step = a->array.dim[g->wanted.mode];
    g->span = g->step * a->array.dim[g->other[g->n_other - 1]];
}

/* Finds the factor rows of the other modes for n cells. Cells of a fibre follow each other, and
 * differ only in the index of the last mode. */
static void find_rows(const struct group *g, uint64_t base, const uint32_t *cell, uint32_t n,
                      struct thread *t)
{
    const struct ts_dense_rows *d = g->rows;
    const uint32_t last = g->n_other - 1;
    const double *table = d->table[g->other[last]], *of[TS_DENSE_MAX_ORDER];
    uint64_t fibre = UINT64_MAX;
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t at = base + cell[k];
        if (at - fibre >= g->span || k == 0) {
            uint64_t index[TS_DENSE_MAX_ORDER];
            ts_dense_index(d->tensor->dense, at, index);
            fibre = at / g->span * g->span;
            for (uint32_t i = 0; i < last; i++)
                of[i] = d->table[g->other[i]] + index[g->other[i]] * d->stride;
        }
        for (uint32_t i = 0; i < last; i++)
            t->row[i][k] = of[i];
        t->row[last][k] = table + (at - fibre) / g->step * d->stride;
    }
}

/* Adds w w' at each of n cells to t->sum, where w is the product of the other factors' rows. */
static void add_block(const struct group *g, uint64_t base, const uint32_t *cell, uint32_t n,
                      struct thread *t)
{
    const struct ts_dense_rows *d = g->rows;
    find_rows(g, base, cell, n, t);
    if (g->n_other == 1)
        for (uint32_t k = 0; k < n; k++)
            t->row[1][k] = d->ones;
    d->ops->multiply(d->stride, t->row[0], t->row[1], n, t->product);
    for (uint32_t i = 2; i < g->n_other; i++) {
        for (uint32_t k = 0; k < n && i == 2; k++)
            t->row[0][k] = t->product + (size_t)k * d->stride;
        d->ops->multiply(d->stride, t->row[0], t->row[i], n, t->product);
    }
    d->ops->add(&t->sum, t->product, d->no_values, d->every, n);
    t->sum.more = 1;
}

/* Adds the upper triangle of a sum to a packed triangle, row by row. */
static void add_triangle(const struct ts_gram *sum, double *restrict to)
{
    for (uint32_t i = 0; i < sum->rank; to += sum->rank - i, i++) {
        const double *restrict from = sum->s + (size_t)i * sum->stride + i;
        for (uint32_t j = 0; j < sum->rank - i; j++)
            to[j] += from[j];
    }
}

static void add_cells(void *ctx, const struct ts_dense_list *list)
{
    const struct group *g = ctx;
    const struct ts_dense_rows *d = g->rows;
    const uint64_t size = triangle(d->rank);
    double *packed = d->packed + (list->row - g->wanted.first) * g->wanted.parts * size;
#pragma omp parallel for num_threads(d->threads) schedule(dynamic, 4)
    for (uint64_t k = 0; k < list->keys; k++) {
        struct thread *t = &d->thread[omp_get_thread_num()];
        t->sum.more = 0;
        for (uint32_t i = list->start[k]; i < list->start[k + 1]; i += TS_BLOCK_NNZ) {
            const uint32_t left = list->start[k + 1] - i;
            add_block(g, list->base, list->cell + i, left < TS_BLOCK_NNZ ? left : TS_BLOCK_NNZ, t);
        }
        if (!t->sum.more)
            continue;
        ts_gram_straighten(&t->sum, d->ops->turned);
        add_triangle(&t->sum, packed + k * size);
    }
}

/* ---- solving the rows of a mode ---- */

static void solve_rows(const struct group *g, struct ts_fmat *out, const double *product,
                       const double *gram, const struct ts_row_update *update)
{
    const struct ts_dense_rows *d = g->rows;
    const struct ts_dense_wanted *w = &g->wanted;
    const uint32_t rank = d->rank;
    const uint64_t size = triangle(rank), all = cells_of_row(d->tensor, w->mode);
    const uint64_t *unknown = ts_dense_unknown_counts(d->unknown, w->mode);
    ts_gram_rows_begin(d->solver, update, NULL, 0, out);
#pragma omp parallel for num_threads(d->threads) schedule(dynamic, 8)
    for (uint64_t row = w->first; row < w->end; row++) {
        const uint32_t thread = (uint32_t)omp_get_thread_num();
        double *part = d->thread[thread].part, *to = part;
        double *s = d->packed + (row - w->first) * w->parts * size;
        for (uint32_t p = 1; p < w->parts; p++)
            for (uint64_t i = 0; i < size; i++)
                s[i] += s[p * size + i];
        for (uint32_t i = 0; i < rank; i++)
            for (uint32_t j = i; j < rank; j++, s++)
                *to++ = d->direct[row] ? *s : gram[(size_t)i * rank + j] - *s;
        memcpy(to, product + row * rank, rank * sizeof *to);
        to[rank] = (double)(all - unknown[row]);
        d->size[row] = ts_gram_rows_solve(d->solver, thread, (uint32_t)row, part,
                                          d->direct[row] ? NULL : gram, rank);
    }
}

/* Converts the other factors to float64, with rows padded with zeros. */
static void take_factors(struct ts_dense_rows *d, uint32_t mode, const struct ts_fmat *factor)
{
    for (uint32_t m = 0; m < d->tensor->order; m++) {
        const uint64_t n = factor[m].n_rows;
        if (m == mode)
            continue;
        ts_fmat_get(&factor[m], 0, n, d->table[m], d->threads);
        for (uint64_t i = n; i-- > 0 && d->stride > d->rank;) {
            double *to = d->table[m] + i * d->stride;
            memmove(to, d->table[m] + i * d->rank, d->rank * sizeof *to);
            memset(to + d->rank, 0, (d->stride - d->rank) * sizeof *to);
        }
    }
}

int ts_dense_rows_run(struct ts_dense_rows *d, uint32_t mode, struct ts_fmat *factor,
                      const double *product, const double *gram, const struct ts_row_update *update,
                      double *size, struct ts_feed *feed, struct ts_err *err)
{
    const uint64_t n_rows = d->tensor->dense->array.dim[mode];
    const uint64_t step = group_rows(d->tensor, d->rank, mode);
    const uint64_t *unknown = ts_dense_unknown_counts(d->unknown, mode);
    struct group g = {
        .rows = d,
        .wanted = { .mode = mode, .parts = parts_of(d->tensor, d->rank, mode), .known = d->direct }
    };
    struct ts_dense_wanted *w = &g.wanted;
    int rc = ts_dense_unknown_find(d->unknown, &update->hold_out, feed, err);
    for (uint64_t i = 0; i < n_rows; i++)
        d->direct[i] = unknown[i] > cells_of_row(d->tensor, mode) / 2;
    choose_others(&g);
    take_factors(d, mode, factor);
    for (uint64_t row = 0; row < n_rows && rc == 0; row += step) {
        w->first = row;
        w->end = n_rows - row < step ? n_rows : row + step;
        w->some_known = memchr(d->direct + w->first, 1, w->end - w->first) != NULL;
        memset(d->packed, 0,
               (w->end - w->first) * w->parts * triangle(d->rank) * sizeof *d->packed);
        rc = ts_dense_unknown_list(d->unknown, w, add_cells, &g, feed, err);
        if (rc == 0)
            solve_rows(&g, &factor[mode], product, gram, update);
    }
    if (size != NULL)
        *size = 0;
    for (uint64_t row = 0; size != NULL && rc == 0 && row < n_rows; row++)
        *size += d->size[row];
    return rc;
}
