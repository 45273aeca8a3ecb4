/* SPDX-License-Identifier: BSD-3-Clause */
/* Evaluates a model at the cells of a dense tensor. */
#include "cpu/dense/dense_cells.h"

#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "cpu/dense/dense_gemm.h"
#include "cpu/pass_loop.h"

/* least number of columns if the array is treated as a matrix */
#define LEAST_COLS 64u
#define MOST_PANEL 32u /* most columns of a panel (columns that are evaluated together) */
#define GIVEN      TS_BLOCK_NNZ

/* Cells that a thread has evaluated and not passed to the caller's function `take` yet, with space
 * for as many more. */
struct block {
    /* n: number of cells; first: number of cells of the partition that `take` got before */
    uint32_t n, first;
    double value[2 * GIVEN], model[2 * GIVEN];
    uint32_t row[TS_DENSE_MAX_ORDER][2 * GIVEN];
};

struct cells {
    const struct ts_tensor *tensor;
    const struct ts_dense *dense;
    const struct ts_weighted *what;
    const struct ts_gemm *gemm;
    uint32_t rank, threads;
    uint32_t level; /* indices of the modes from this level on form the column of a cell */
    uint64_t cols;  /* number of cells of a row */
    uint32_t panel; /* columns of a panel */
    double *memory; /* memory of all arrays below */
    double *table[TS_DENSE_MAX_ORDER]; /* for each mode: the factor as float64 */
    /* the products of the factor rows of each column (B of dense_cells.h), in panels */
    double *b;
    /* threads x rank: the product of the factor rows of a row of cells (k of dense_cells.h) */
    double *row;
    uint64_t done;       /* number of partitions in earlier slabs */
    struct block *block; /* for each thread: the cells that it has evaluated */
    atomic_int failed;   /* 1: the caller's `take` has failed for a partition */
};

/* Returns the level of the layout from which on the modes' indices form the column of a cell, with
 * the array as a matrix. *cols: number of columns. */
static uint32_t level_of(const struct ts_dense *d, uint64_t *cols)
{
    uint32_t l = d->array.order - 1;
    *cols = d->array.dim[d->layout[l]];
    while (l > 0 && *cols < LEAST_COLS)
        *cols *= d->array.dim[d->layout[--l]];
    return l;
}

static uint64_t row_doubles(uint32_t rank)
{
    return (rank + UINT64_C(7)) / 8 * 8;
}

static uint64_t count_doubles(const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    uint64_t rows = threads, cols;
    level_of(t->dense, &cols);
    for (uint32_t m = 0; m < t->order; m++)
        rows += t->dense->array.dim[m];
    return rows * row_doubles(rank) + (cols + MOST_PANEL) * rank;
}

uint64_t ts_dense_cells_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    return ts_bigmem_cost(count_doubles(t, rank, threads) * sizeof(double));
}

/* ---- products of factor rows ---- */

static void take_factors(struct cells *s, const struct ts_fmat *factor)
{
    for (uint32_t m = 0; m < s->tensor->order; m++)
        ts_fmat_get(&factor[m], 0, factor[m].n_rows, s->table[m], s->threads);
}

/* ret := the elementwise product of the factor rows of the modes at levels first .. end - 1 of the
 * layout. q is the number of a combination of their indices. */
static void put_row(const struct cells *s, uint32_t first, uint32_t end, uint64_t q, double *ret)
{
    const struct ts_dense *d = s->dense;
    for (uint32_t r = 0; r < s->rank; r++)
        ret[r] = 1;
    for (uint32_t l = end; l-- > first;) {
        const uint32_t m = d->layout[l];
        const double *x = s->table[m] + q % d->array.dim[m] * s->rank;
        q /= d->array.dim[m];
        for (uint32_t r = 0; r < s->rank; r++)
            ret[r] *= x[r];
    }
}

/* Computes b, the products of the factor rows of all columns. The columns that fill up the last
 * panel are zeros, and are not used. */
static void make_b(struct cells *s)
{
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (uint64_t c = 0; c < s->cols; c++) {
        double *row = s->row + (size_t)omp_get_thread_num() * row_doubles(s->rank);
        double *to = s->b + c / s->panel * s->panel * s->rank + c % s->panel;
        put_row(s, s->level, s->tensor->order, c, row);
        for (uint32_t r = 0; r < s->rank; r++)
            to[(size_t)r * s->panel] = row[r];
    }
}

/* ---- cells of a partition ---- */

/* Passes the first n cells of the block to the caller's function `take`, and moves the others to
 * the front. */
static int give(const struct cells *s, uint32_t thread, uint64_t partition, uint32_t n, int last,
                struct block *b, struct ts_err *err)
{
    const uint32_t left = b->n - n;
    int rc;
    struct ts_cells c = { .partition = partition,
                          .first = b->first,
                          .n = n,
                          .last = last,
                          .value = b->value,
                          .model = b->model };
    for (uint32_t m = 0; m < s->tensor->order; m++)
        c.row[m] = (s->what->rows >> m & 1) != 0 ? b->row[m] : NULL;
    rc = s->what->take(s->what->ctx, thread, &c, err);
    b->first += n;
    b->n = left;
    memmove(b->value, b->value + n, left * sizeof *b->value);
    memmove(b->model, b->model + n, left * sizeof *b->model);
    for (uint32_t m = 0; s->what->rows != 0 && m < s->tensor->order; m++)
        memmove(b->row[m], b->row[m] + n, left * sizeof *b->row[m]);
    return rc;
}

/* Sets `index`, the indices of a cell, to those of the next cell in the order of the array. */
static void step(const struct ts_dense *d, uint64_t index[TS_DENSE_MAX_ORDER])
{
    for (uint32_t l = d->array.order; l-- > 0;) {
        const uint32_t m = d->layout[l];
        if (++index[m] < d->array.dim[m])
            return;
        index[m] = 0;
    }
}

/* Sets the indices of n cells from `at` on. Cells whose value in x is NaN are left out. */
static void put_index(const struct cells *s, const double *x, uint64_t at, uint32_t n,
                      struct block *b)
{
    uint64_t index[TS_DENSE_MAX_ORDER];
    uint32_t to = b->n;
    ts_dense_index(s->dense, at, index);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t m = 0; m < s->tensor->order; m++)
            b->row[m][to] = (uint32_t)index[m];
        to += x[i] == x[i];
        step(s->dense, index);
    }
}

/* Evaluates the model at n cells x, which begin at column col of a row of cells. row: the product
 * of the other levels' factor rows for this row of cells. */
static void put_cells(const struct cells *s, const double *x, uint64_t at, uint64_t col, uint32_t n,
                      const double *row, struct block *b)
{
    double model[GIVEN + 2 * MOST_PANEL];
    const uint64_t first = col / s->panel;
    const uint32_t skip = (uint32_t)(col % s->panel);
    uint32_t to = b->n;
    s->gemm->row(s->rank, row, s->b + first * s->panel * s->rank,
                 (skip + n + s->panel - 1) / s->panel, model);
    if (s->what->rows != 0)
        put_index(s, x, at, n, b);
    for (uint32_t i = 0; i < n; i++) { /* a cell that is left out is overwritten by the next one */
        b->value[to] = x[i];
        b->model[to] = model[skip + i];
        to += x[i] == x[i];
    }
    b->n = to;
}

/* Evaluates the model at cells first .. end - 1 of the array, which are a partition. base: number
 * of the slab's first cell. */
static int run_partition(const struct cells *s, uint32_t thread, const void *slab, uint64_t base,
                         uint64_t first, uint64_t end, uint64_t partition, struct block *b,
                         struct ts_err *err)
{
    double *row = s->row + (size_t)thread * row_doubles(s->rank), x[GIVEN];
    uint64_t known = UINT64_MAX; /* the row of cells whose product of factor rows is in `row` */
    int rc = 0;
    b->n = b->first = 0;
    for (uint64_t at = first; at < end && rc == 0;) {
        const uint64_t p = at / s->cols, col = at % s->cols;
        uint64_t n = s->cols - col < end - at ? s->cols - col : end - at;
        n = n < GIVEN ? n : GIVEN;
        if (p != known)
            put_row(s, 0, s->level, p, row);
        known = p;
        ts_dense_get_f64(s->dense, slab, at - base, n, x);
        put_cells(s, x, at, col, (uint32_t)n, row, b);
        at += n;
        if (b->n > GIVEN || (b->n == GIVEN && at < end))
            rc = give(s, thread, partition, GIVEN, 0, b, err);
    }
    return rc == 0 ? give(s, thread, partition, b->n, 1, b, err) : rc;
}

/* Evaluates the model at the cells of a slab. Each thread of the team takes some of its
 * partitions. */
static int visit(void *ctx, const struct ts_loan *loan, struct ts_err *err)
{
    struct cells *s = ctx;
    const struct ts_slab_view *v = &loan->slab;
    const uint64_t cells = v->part.rows * v->part.cols;
    const uint64_t base = v->part.row * s->dense->inner + v->part.col;
    const uint64_t n = (cells + TS_PARTITION_NNZ - 1) / TS_PARTITION_NNZ;
    const uint32_t thread = (uint32_t)omp_get_thread_num();
    int rc = 0;
#pragma omp for schedule(dynamic)
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t first = base + k * TS_PARTITION_NNZ;
        const uint64_t end = k + 1 < n ? first + TS_PARTITION_NNZ : base + cells;
        if (atomic_load(&s->failed))
            continue;
        rc = run_partition(s, thread, v->cells, base, first, end, s->done + k, &s->block[thread],
                           err);
        if (rc < 0)
            atomic_store(&s->failed, 1);
    }
#pragma omp single
    {
        if (!atomic_load(&s->failed) && s->what->settle != NULL)
            s->what->settle(s->what->ctx, s->done, s->done + n);
        s->done += n;
    }
    return rc;
}

/* ---- the pass over all slabs ---- */

static int run_slabs(struct cells *s, struct ts_feed *feed, uint64_t *wait_ns, struct ts_err *err)
{
    struct ts_loan loan;
    struct ts_pass_loop loop = {
        .feed = feed, .threads = s->threads, .loan = &loan, .shard = visit, .ctx = s, .err = err
    };
    int rc;
    s->block = malloc(s->threads * sizeof *s->block);
    rc = s->block == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", s->tensor->path)
                          : ts_pass_loop_run(&loop);
    *wait_ns = loop.wait_ns;
    free(s->block);
    return rc;
}

static void place(struct cells *s)
{
    double *at = s->memory;
    for (uint32_t m = 0; m < s->tensor->order; m++) {
        s->table[m] = at;
        at += s->dense->array.dim[m] * s->rank;
    }
    s->row = at;
    s->b = at + s->threads * row_doubles(s->rank);
}

int ts_dense_cells_run(const struct ts_tensor *t, uint32_t rank, uint32_t threads,
                       const struct ts_fmat *factor, const struct ts_weighted *weighted,
                       struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns(), bytes = count_doubles(t, rank, threads) * sizeof(double);
    struct cells s = { .tensor = t,
                       .dense = t->dense,
                       .what = weighted,
                       .gemm = ts_gemm_of(ts_isa_best(), 1),
                       .rank = rank,
                       .threads = threads };
    uint64_t wait_ns = 0;
    int rc = ts_bigmem_new(bytes, "products of rows of the model", (void **)&s.memory, err);
    if (rc < 0)
        return rc;
    s.level = level_of(t->dense, &s.cols);
    s.panel = 2 * s.gemm->lanes;
    place(&s);
    take_factors(&s, factor);
    make_b(&s);
    rc = run_slabs(&s, feed, &wait_ns, err);
    ts_bigmem_free(s.memory, bytes);
    if (times != NULL)
        *times = ts_pass_times(ts_clock_ns() - start, t->nnz, wait_ns, 0, 0);
    return rc;
}
