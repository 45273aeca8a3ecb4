/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of a model at the cells of a dense tensor. */
#include "cpu/dense_cells.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "stream/slabs.h"

#define LANES 8u

struct cells {
    const struct ts_tensor *tensor;
    const struct ts_dense *dense;
    const struct ts_weighted *what;
    uint32_t rank, stride, threads;
    double *memory;                    /* all that follows: */
    double *table[TS_DENSE_MAX_ORDER]; /* rows of the factors, `stride` apart, zeros behind them */
    double *b;                         /* inner x stride */
    double *k;                         /* threads x stride */
    uint64_t done;                     /* partitions of the slabs before */
};

/* Of a thread. */
struct block {
    uint32_t n, first; /* cells in it; of the partition before them */
    double value[TS_BLOCK_NNZ], model[TS_BLOCK_NNZ];
    uint32_t row[TS_DENSE_MAX_ORDER][TS_BLOCK_NNZ];
};

static uint32_t stride_of(uint32_t rank)
{
    return (rank + LANES - 1) / LANES * LANES;
}

static uint64_t count_doubles(const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    uint64_t rows = t->dense->inner + threads;
    for (uint32_t m = 0; m < t->order; m++)
        rows += t->dense->array.dim[m];
    return rows * stride_of(rank);
}

uint64_t ts_dense_cells_bytes(const struct ts_tensor *t, uint32_t rank, uint32_t threads)
{
    return ts_bigmem_cost(count_doubles(t, rank, threads) * sizeof(double));
}

/* ---- rows ---- */

static void take_factors(struct cells *s, const struct ts_fmat *factor)
{
    const uint32_t rank = s->rank, stride = s->stride;
    for (uint32_t m = 0; m < s->tensor->order; m++)
#pragma omp parallel for num_threads(s->threads) schedule(static)
        for (uint64_t i = 0; i < factor[m].n_rows; i++) {
            double *to = s->table[m] + i * stride;
            ts_fmat_get(&factor[m], i, 1, to, 1);
            memset(to + rank, 0, (stride - rank) * sizeof *to);
        }
}

/* The product of the rows that stand for row q of levels first .. end - 1 of the layout. */
static void put_row(const struct cells *s, uint32_t first, uint32_t end, uint64_t q, double *ret)
{
    const struct ts_dense *d = s->dense;
    for (uint32_t l = end; l-- > first;) {
        const uint32_t m = d->layout[l];
        const double *x = s->table[m] + q % d->array.dim[m] * s->stride;
        q /= d->array.dim[m];
        if (l + 1 == end)
            memcpy(ret, x, s->stride * sizeof *ret);
        else
            for (uint32_t r = 0; r < s->stride; r++)
                ret[r] *= x[r];
    }
}

static void make_b(struct cells *s)
{
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (uint64_t c = 0; c < s->dense->inner; c++)
        put_row(s, s->dense->n_outer, s->tensor->order, c, s->b + c * s->stride);
}

static double dot(const double *x, const double *y, uint32_t n)
{
    double lane[LANES] = { 0 };
    for (uint32_t r = 0; r < n; r += LANES)
        for (uint32_t l = 0; l < LANES; l++)
            lane[l] += x[r + l] * y[r + l];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* ---- a partition ---- */

static int give(const struct cells *s, uint32_t thread, uint64_t partition, int last,
                struct block *b, struct ts_err *err)
{
    struct ts_cells c = { .partition = partition,
                          .first = b->first,
                          .n = b->n,
                          .last = last,
                          .value = b->value,
                          .model = b->model };
    for (uint32_t m = 0; m < s->tensor->order; m++)
        c.row[m] = (s->what->rows >> m & 1) != 0 ? b->row[m] : NULL;
    b->first += b->n;
    b->n = 0;
    return s->what->take(s->what->ctx, thread, &c, err);
}

/* The index of the cell behind that of `index`. */
static void step(const struct ts_dense *d, uint64_t index[TS_DENSE_MAX_ORDER])
{
    for (uint32_t l = d->array.order; l-- > 0;) {
        const uint32_t m = d->layout[l];
        if (++index[m] < d->array.dim[m])
            return;
        index[m] = 0;
    }
}

/* n cells of the row of the array that k stands for, from column col on. */
static void put_cells(const struct cells *s, const double *x, uint64_t at, uint64_t col, uint32_t n,
                      const double *k, struct block *b)
{
    uint64_t index[TS_DENSE_MAX_ORDER];
    if (s->what->rows != 0)
        ts_dense_index(s->dense, at, index);
    for (uint32_t i = 0; i < n; i++) {
        if (x[i] == x[i]) {
            b->value[b->n] = x[i];
            b->model[b->n] = dot(s->b + (col + i) * s->stride, k, s->stride);
            for (uint32_t m = 0; s->what->rows != 0 && m < s->tensor->order; m++)
                b->row[m][b->n] = (uint32_t)index[m];
            b->n++;
        }
        if (s->what->rows != 0)
            step(s->dense, index);
    }
}

/* Cells first .. end - 1 of the array, which are a partition; those of the slab begin with `base`. */
static int run_partition(const struct cells *s, uint32_t thread, const void *slab, uint64_t base,
                         uint64_t first, uint64_t end, uint64_t partition, struct block *b,
                         struct ts_err *err)
{
    const uint64_t inner = s->dense->inner;
    double *k = s->k + (size_t)thread * s->stride, x[TS_BLOCK_NNZ];
    uint64_t known = UINT64_MAX; /* the row of the array that k is of */
    int rc = 0;
    b->n = b->first = 0;
    for (uint64_t at = first; at < end && rc == 0;) {
        const uint64_t p = at / inner, col = at % inner;
        uint64_t n = inner - col < end - at ? inner - col : end - at;
        n = n < TS_BLOCK_NNZ - b->n ? n : TS_BLOCK_NNZ - b->n;
        if (p != known)
            put_row(s, 0, s->dense->n_outer, p, k);
        known = p;
        ts_dense_get_f64(s->dense, slab, at - base, n, x);
        put_cells(s, x, at, col, (uint32_t)n, k, b);
        at += n;
        if (b->n == TS_BLOCK_NNZ && at < end)
            rc = give(s, thread, partition, 0, b, err);
    }
    return rc == 0 ? give(s, thread, partition, 1, b, err) : rc;
}

static int run_slab(struct cells *s, const struct ts_slab_view *v, struct block *block,
                    struct ts_err *err)
{
    const uint64_t cells = v->part.rows * v->part.cols;
    const uint64_t base = v->part.row * s->dense->inner + v->part.col;
    const uint64_t n = (cells + TS_PARTITION_NNZ - 1) / TS_PARTITION_NNZ;
    _Atomic int failed = 0;
    int rc = 0;
#pragma omp parallel for num_threads(s->threads) schedule(dynamic)
    for (uint64_t k = 0; k < n; k++) {
        const uint32_t thread = (uint32_t)omp_get_thread_num();
        const uint64_t first = base + k * TS_PARTITION_NNZ;
        const uint64_t end = k + 1 < n ? first + TS_PARTITION_NNZ : base + cells;
        struct ts_err why;
        int own;
        if (atomic_load(&failed))
            continue;
        own =
            run_partition(s, thread, v->cells, base, first, end, s->done + k, &block[thread], &why);
        if (own < 0 && atomic_exchange(&failed, 1) == 0) {
            rc = own;
            if (err != NULL)
                *err = why;
        }
    }
    if (rc == 0 && s->what->settle != NULL)
        s->what->settle(s->what->ctx, s->done, s->done + n);
    s->done += n;
    return rc;
}

/* ---- all of them ---- */

static int run_slabs(struct cells *s, struct ts_feed *feed, uint64_t *wait_ns, struct ts_err *err)
{
    struct ts_slabs *slabs = ts_feed_slabs(feed);
    struct block *block = malloc(s->threads * sizeof *block);
    struct ts_slab_view v;
    int rc = block == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", s->tensor->path) : 0;
    ts_slabs_rewind(slabs);
    while (rc == 0) {
        const uint64_t start = ts_clock_ns();
        rc = ts_slabs_next(slabs, &v, err);
        *wait_ns += ts_clock_ns() - start;
        if (rc <= 0)
            break;
        rc = run_slab(s, &v, block, err);
    }
    free(block);
    return rc;
}

static void place(struct cells *s)
{
    double *at = s->memory;
    for (uint32_t m = 0; m < s->tensor->order; m++) {
        s->table[m] = at;
        at += s->dense->array.dim[m] * s->stride;
    }
    s->b = at;
    s->k = at + s->dense->inner * s->stride;
}

int ts_dense_cells_run(const struct ts_tensor *t, uint32_t rank, uint32_t threads,
                       const struct ts_fmat *factor, const struct ts_weighted *what,
                       struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns(), bytes = count_doubles(t, rank, threads) * sizeof(double);
    struct cells s = { .tensor = t,
                       .dense = t->dense,
                       .what = what,
                       .rank = rank,
                       .stride = stride_of(rank),
                       .threads = threads };
    uint64_t wait_ns = 0, total_ns;
    int rc = ts_bigmem_new(bytes, "products of rows of the model", (void **)&s.memory, err);
    if (rc < 0)
        return rc;
    place(&s);
    take_factors(&s, factor);
    make_b(&s);
    rc = run_slabs(&s, feed, &wait_ns, err);
    ts_bigmem_free(s.memory, bytes);
    total_ns = ts_clock_ns() - start;
    if (times != NULL)
        *times = (struct ts_backend_times){ .total_ns = total_ns,
                                            .n_devices = 1,
                                            .device[0] = { .number = -1,
                                                           .nnz = t->nnz,
                                                           .wait_ns = wait_ns,
                                                           .kernel_ns = total_ns - wait_ns,
                                                           .share = 1 } };
    return rc;
}
