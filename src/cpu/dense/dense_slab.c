/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_slab.c - computes what a slab (a range of cells that the feed lends) contributes to
 * products of a dense tensor: multiplies tiles of cells by panels, and sums rows for MTTKRPs. */
#include <omp.h>
#include <string.h>

#include "base/machine/fpmode.h"
#include "cpu/dense/dense_state.h"
#include "format/arrays/dense_held.h"

#define PART static inline __attribute__((always_inline))

/* most rows of a slab that a thread multiplies at a time: a tile of their cells stays in the
 * second-level cache */
#define GROUP_ROWS   48u
#define STRIP_COLS   48u
#define STRIP_STRIDE (STRIP_COLS + 8u)
#define RUN_ROWS     64u /* products of factor rows that a thread computes one after another */
/* with less work than this, one thread works alone: LONE_NUMBERS entries of products of factor
 * rows, or LONE_ADDS multiply-adds of cells */
#define LONE_NUMBERS 65536u
#define LONE_ADDS    524288u
/* most bytes of rows that are prefetched whole, because the present rows stay in the second-level
 * cache too */
#define GROUP_BYTES (UINT64_C(192) << 10)
#define WHOLE_COLS  (3 * TS_GEMM_DEPTH) /* rows with more columns are prefetched in parts */

struct gather_task {
    uint64_t row, row_end;
    uint32_t col, col_end;
};

struct scratch {
    void *tile, *out;
    double *row; /* memory for three products of factor rows */
};

const struct ts_gemm *ts_gemm_of(enum ts_isa isa, int wide)
{
#ifdef __x86_64__
    if (isa == TS_ISA_AVX512)
        return wide ? &ts_gemm_avx512_f64 : &ts_gemm_avx512_f32;
    if (isa == TS_ISA_AVX2)
        return wide ? &ts_gemm_avx2_f64 : &ts_gemm_avx2_f32;
#endif
    (void)isa;
    return wide ? &ts_gemm_portable_f64 : &ts_gemm_portable_f32;
}

uint64_t ts_dense_slab_scratch(uint32_t width)
{
    const uint64_t along = (uint64_t)GROUP_ROWS * TS_GEMM_STRIDE;
    const uint64_t across = (uint64_t)TS_GEMM_DEPTH * STRIP_STRIDE;
    return ((along > across ? along : across) + TS_GEMM_MOST + 3 * (uint64_t)width) *
           sizeof(double);
}

/* Whether cells enter products unchanged: none is unknown or held out, and no mean is
 * subtracted. */
static int takes_all(const struct ts_dense_product *p)
{
    return p->dense->n_unknown == 0 && p->hold_out.share == 0 && p->mean == 0;
}

/* A loop over columns. Their number is constant only in functions for few columns. clang warns if
 * it cannot unroll the other loops on request, and unrolls constant loops by itself. */
#ifdef __clang__
#define EACH_COL(i, n) for (uint32_t i = 0; i < (n); i++)
#else
#define EACH_COL(i, n) TS_EACH(i, n)
#endif

/* ---- products of factor rows ---- */

/* A position in a grid (all combinations of indices of some modes): for each mode, the address of
 * its factor row, and the number of later rows of this factor. A grid without modes has a row
 * product of ones. */
struct grid_walk {
    uint32_t n, col;
    const double *row[TS_DENSE_MAX_ORDER];
    uint64_t behind[TS_DENSE_MAX_ORDER];
};

/* Moves *w to row q of the grid (all combinations of indices of some modes), from column col on. */
PART void walk_from(const struct ts_dense_product *p, const struct ts_dense_grid *g, uint64_t q,
                    uint32_t col, struct grid_walk *w)
{
    w->n = g->n;
    w->col = col;
    for (uint32_t l = g->n; l-- > 0;) {
        const uint32_t m = g->mode[l];
        const uint64_t dim = p->dense->array.dim[m], at = l > 0 && q > 0 ? q % dim : q;
        w->row[l] = p->table[m] + at * p->stride[m] + col;
        w->behind[l] = dim - 1 - at;
        q = l > 0 && q > 0 ? q / dim : 0;
    }
}

PART void walk_on(const struct ts_dense_product *p, const struct ts_dense_grid *g,
                  struct grid_walk *w)
{
    for (uint32_t l = w->n; l-- > 0;) {
        const uint32_t m = g->mode[l];
        if (w->behind[l] > 0) {
            w->behind[l]--;
            w->row[l] += p->stride[m];
            return;
        }
        w->row[l] = p->table[m] + w->col;
        w->behind[l] = p->dense->array.dim[m] - 1;
    }
}

/* Returns `cols` columns of the row product at position w of a grid: stored in ret or, for a single
 * mode, its factor row. */
PART const double *walk_row(const struct grid_walk *w, double *ret, uint32_t cols)
{
    if (w->n == 1)
        return w->row[0];
    for (uint32_t c = 0; c < cols; c++)
        ret[c] = w->n == 0 ? 1 : w->row[w->n - 1][c] * w->row[w->n - 2][c];
    for (uint32_t l = w->n; l > 2; l--)
        for (uint32_t c = 0; c < cols; c++)
            ret[c] *= w->row[l - 3][c];
    return ret;
}

/* Calls a function that is compiled for each small number of columns, so that they stay in
 * registers. */
#define FEW 8u
#define FEW_COLS(N, OF, OF_MORE) \
    switch (N) {                 \
    case 1:                      \
        OF(1);                   \
        break;                   \
    case 2:                      \
        OF(2);                   \
        break;                   \
    case 3:                      \
        OF(3);                   \
        break;                   \
    case 4:                      \
        OF(4);                   \
        break;                   \
    case 5:                      \
        OF(5);                   \
        break;                   \
    case 6:                      \
        OF(6);                   \
        break;                   \
    case 7:                      \
        OF(7);                   \
        break;                   \
    case 8:                      \
        OF(8);                   \
        break;                   \
    default:                     \
        OF_MORE;                 \
    }

static struct gather_task task_of(const struct ts_dense_target *t, uint32_t task, uint32_t rank)
{
    const uint32_t i = task / t->col_tasks, j = task % t->col_tasks;
    struct gather_task w = { .row = t->dim * i / t->row_tasks,
                             .row_end = t->dim * (i + UINT64_C(1)) / t->row_tasks,
                             .col_end = rank };
    if (t->col_tasks > 1) {
        w.col = j * TS_DENSE_TASK_COLS;
        w.col_end = w.col + TS_DENSE_TASK_COLS < rank ? w.col + TS_DENSE_TASK_COLS : rank;
    }
    return w;
}

/* ---- prefetching of cells ---- */

/* Returns the number of columns of the panel that begins with column r: two vectors, or one for the
 * last panel. */
static uint32_t panel_cols(const struct ts_dense_product *p, uint32_t r)
{
    return p->width - r < 2 * p->gemm->lanes ? p->gemm->lanes : 2 * p->gemm->lanes;
}

static uint32_t panels(const struct ts_dense_product *p)
{
    return (p->width + 2 * p->gemm->lanes - 1) / (2 * p->gemm->lanes);
}

static size_t row_bytes(const struct ts_dense_product *p, const struct ts_slab_view *v)
{
    return v->part.cols * p->dense->cell_bytes;
}

/* Returns the address of a cell of the slab. After the last row, it is in the slab that follows in
 * memory. */
static uintptr_t cell_at(const struct ts_dense_product *p, const struct ts_slab_view *v,
                         uint64_t row, uint64_t col)
{
    return (uintptr_t)v->cells + row * row_bytes(p, v) + col * p->dense->cell_bytes;
}

/* The group of rows that a thread takes next, and how much of it has been prefetched. */
struct wanted {
    uint64_t next;
    uintptr_t at, end;
    /* bytes to prefetch per step of a product; 0: rows are too long to be prefetched whole */
    size_t step;
};

static struct wanted wanted_rows(const struct ts_dense_product *p, const struct ts_slab_view *v,
                                 uint64_t n, uint64_t next)
{
    const uint64_t tiles = (n + p->gemm->rows - 1) / p->gemm->rows;
    const uint64_t bytes = n * row_bytes(p, v), steps = v->part.cols * tiles * panels(p);
    struct wanted w = { .next = next, .at = cell_at(p, v, next, 0) };
    w.end = w.at + bytes;
    if (v->part.cols <= WHOLE_COLS)
        w.step = bytes / steps + 1 < 128 ? bytes / steps + 1 : 128;
    return w;
}

/* Returns the cache lines that a product of k columns from c on prefetches, for the tile at `row`
 * and the panel at r. If rows are long, they are a part of the tile's next columns. */
static struct ts_gemm_ahead next_wanted(struct wanted *w, const struct ts_dense_product *p,
                                        const struct ts_slab_view *v, uint64_t row, uint64_t c,
                                        uint32_t r, uint32_t k)
{
    struct ts_gemm_ahead a = { .at = w->at };
    if (w->step == 0) {
        const uint32_t tile = p->gemm->rows, n = (tile + panels(p) - 1) / panels(p);
        const uint32_t first = r / (2 * p->gemm->lanes) * n;
        const int two = n > TS_GEMM_DEPTH / TS_GEMM_BLOCK;
        const int more = c + TS_GEMM_DEPTH < v->part.cols;
        if (first < tile)
            a = (struct ts_gemm_ahead){
                .at = cell_at(p, v, first + (more ? row : w->next), more ? c + TS_GEMM_DEPTH : 0),
                .hop = (two ? 2 : 1) * row_bytes(p, v),
                .step = TS_GEMM_DEPTH / TS_GEMM_BLOCK * p->dense->cell_bytes,
                .beside = two ? row_bytes(p, v) : 0
            };
        if (first < tile && !more)
            w->next += r + panel_cols(p, r) == p->width ? tile : 0;
    } else if (w->at < w->end) {
        a.step = w->step;
        a.hop = TS_GEMM_BLOCK * w->step;
        a.beside = w->step / 2;
        w->at += k * w->step;
    }
    return a;
}

/* The cache lines that the products of a strip of columns prefetch one after another: one or two
 * cache lines of each of the rows that follow. */
struct strip_wanted {
    uintptr_t at;
    size_t row_bytes, beside;
    uint64_t left; /* number of cache lines that are not prefetched yet */
};

static struct strip_wanted wanted_strip(const struct ts_dense_product *p,
                                        const struct ts_slab_view *v, uint64_t row, uint64_t col,
                                        uint64_t n, uint64_t next)
{
    const uint64_t tiles = (n + p->gemm->rows - 1) / p->gemm->rows;
    const uint64_t lines = n * p->dense->cell_bytes / 64 + 1;
    const int more = row + TS_GEMM_DEPTH < v->part.rows;
    struct strip_wanted w = { .row_bytes = row_bytes(p, v), .left = lines };
    w.at = next >= v->part.cols && !more ? cell_at(p, v, v->part.rows, next - v->part.cols)
           : more                        ? cell_at(p, v, row + TS_GEMM_DEPTH, col)
                                         : cell_at(p, v, 0, next);
    w.beside = tiles * panels(p) < lines ? 64 : 0;
    return w;
}

static struct ts_gemm_ahead next_of_strip(struct strip_wanted *w)
{
    const struct ts_gemm_ahead a = { .at = w->at,
                                     .step = w->left > 0 ? w->row_bytes : 0,
                                     .hop = w->left > 0 ? TS_GEMM_BLOCK * w->row_bytes : 0,
                                     .beside = w->left > 0 ? w->beside : 0 };
    const uint32_t n = w->beside > 0 ? 2 : 1;
    if (w->left > 0)
        w->at += 64 * n;
    w->left -= w->left < n ? w->left : n;
    return a;
}

/* Whether parts of many rows fit into the second-level cache together. If the length of rows is a
 * multiple of a large power of 2, they compete for few places of the cache. */
static int rows_spread(const struct ts_dense_product *p, const struct ts_slab_view *v)
{
    return row_bytes(p, v) % 1024 != 0;
}

/* The functions of dense_product_body.h, which are compiled for float32 and for float64. */
struct slab_ops {
    void (*put_products)(const struct ts_dense_product *p, const struct ts_dense_grid *g,
                         uint64_t first, uint64_t end, void *panels, uint64_t n, uint64_t place,
                         double *row);
    void (*along)(const struct ts_dense_product *p, const struct ts_slab_view *v, uint64_t row,
                  uint64_t n, uint64_t next, void *y, struct scratch *s);
    void (*across)(const struct ts_dense_product *p, const struct ts_slab_view *v, uint64_t col,
                   uint64_t n, uint64_t next, struct scratch *s);
    void (*gather)(const struct ts_dense_product *p, const struct ts_dense_target *t, const void *z,
                   uint64_t base, uint64_t first, uint64_t end, uint32_t task, struct scratch *s);
};

#define REAL      float
#define NAME(x)   x##_f32
#define GET_CELLS ts_dense_get_f32
#include "cpu/dense/dense_product_body.h"

#define REAL      double
#define NAME(x)   x##_f64
#define GET_CELLS ts_dense_get_f64
#include "cpu/dense/dense_product_body.h"

static const struct slab_ops *ops_of(int wide)
{
    return wide ? &ops_f64 : &ops_f32;
}

static struct scratch scratch_of(const struct ts_dense_product *p)
{
    const uint64_t bytes = ts_dense_slab_scratch(p->most_width);
    double *at = (double *)(p->scratch + (uint64_t)omp_get_thread_num() * bytes);
    struct scratch s = { .row = at };
    s.out = at + 3 * (size_t)p->most_width;
    s.tile = (double *)s.out + TS_GEMM_MOST;
    return s;
}

/* ---- work of all threads on a slab ---- */

/* Computes the products of factor rows for rows first .. first + n - 1 of the grid of modes, in
 * panels of `room` rows. All threads of a team call this. */
static void put_all(const struct ts_dense_product *p, const struct ts_dense_grid *g, uint64_t first,
                    uint64_t n, void *panels, uint64_t room, struct scratch *s)
{
#pragma omp for schedule(static)
    for (uint64_t k = 0; k < (n + RUN_ROWS - 1) / RUN_ROWS; k++) {
        const uint64_t at = k * RUN_ROWS, end = n - at < RUN_ROWS ? n : at + RUN_ROWS;
        ops_of(p->wide)->put_products(p, g, first + at, first + end, panels, room, at, s->row);
    }
}

void ts_dense_make_b(struct ts_dense_product *p)
{
    const uint64_t n = p->dense->inner;
#pragma omp parallel num_threads(p->conf.threads) if (n * p->width > LONE_NUMBERS)
    {
        const uint64_t mode = ts_fpmode_flush();
        struct scratch s = scratch_of(p);
        put_all(p, &p->inner, 0, n, p->b, n, &s);
        ts_fpmode_restore(mode);
    }
}

/* Divides n rows or columns into tasks of whole tiles, with at most `most` rows or columns each,
 * and about the same number of tasks for each thread. Task k begins at cut_at(c, k). */
struct cut {
    uint64_t n, tiles, tasks;
    uint32_t tile;
};

static struct cut cut_of(const struct ts_dense_product *p, uint64_t n, uint64_t most)
{
    struct cut c = { .n = n, .tile = p->gemm->rows };
    const uint64_t tiles = most < c.tile ? 1 : most / c.tile, threads = p->conf.threads;
    c.tiles = (n + c.tile - 1) / c.tile;
    c.tasks = (c.tiles + threads * tiles - 1) / (threads * tiles) * threads;
    if (c.tasks > c.tiles)
        c.tasks = c.tiles;
    return c;
}

/* Returns the row or column with which a task begins. Tasks after the last one are in the next
 * slab, which is taken to have the same size. */
static uint64_t cut_at(const struct cut *c, uint64_t task)
{
    const uint64_t at = task % c->tasks * c->tiles / c->tasks * c->tile;
    return task / c->tasks * c->n + (at < c->n ? at : c->n);
}

/* Returns the task that this thread does next. A thread takes it while it does the one before,
 * because it prefetches for it. */
static uint64_t take_task(uint64_t *taken)
{
    uint64_t k;
#pragma omp atomic capture
    k = (*taken)++;
    return k + (uint64_t)omp_get_num_threads();
}

/* Returns the beginning of a task, or that of this thread's first task in the next slab if no task
 * is left. */
static uint64_t next_at(const struct cut *c, uint64_t task)
{
    return cut_at(c, task < c->tasks ? task : c->tasks + (uint64_t)omp_get_thread_num() % c->tasks);
}

static uint64_t slab_adds(const struct ts_dense_product *p, const struct ts_slab_view *v)
{
    return v->part.rows * v->part.cols * p->width;
}

void ts_dense_along_slab(struct ts_dense_product *p, const struct ts_slab_view *v,
                         const struct ts_dense_target *t, void *y)
{
    const uint64_t fit = GROUP_BYTES / row_bytes(p, v);
    const struct cut c =
        cut_of(p, v->part.rows, fit < GROUP_ROWS && v->part.cols <= WHOLE_COLS ? fit : GROUP_ROWS);
    const int whole = v->part.col + v->part.cols == p->dense->inner;
    const uint32_t tasks = t->row_tasks * t->col_tasks;
    uint64_t taken = 0;
#pragma omp parallel num_threads(p->conf.threads) if (slab_adds(p, v) > LONE_ADDS)
    {
        const uint64_t mode = ts_fpmode_flush();
        struct scratch s = scratch_of(p);
        uint64_t next;
        for (uint64_t k = (uint64_t)omp_get_thread_num(); k < c.tasks; k = next) {
            const uint64_t row = cut_at(&c, k), n = cut_at(&c, k + 1) - row;
            next = take_task(&taken);
            ops_of(p->wide)->along(p, v, row, n, next_at(&c, next), y, &s);
        }
        if (whole) {
#pragma omp barrier
#pragma omp for schedule(static)
            for (uint32_t k = 0; k < tasks; k++)
                ops_of(p->wide)->gather(p, t, y, v->part.row, v->part.row,
                                        v->part.row + v->part.rows, k, &s);
        }
        ts_fpmode_restore(mode);
    }
}

void ts_dense_across_slab(struct ts_dense_product *p, const struct ts_slab_view *v)
{
    const struct cut c = cut_of(p, v->part.cols, STRIP_COLS);
    uint64_t taken = 0;
#pragma omp parallel num_threads(p->conf.threads) if (slab_adds(p, v) > LONE_ADDS)
    {
        const uint64_t mode = ts_fpmode_flush();
        struct scratch s = scratch_of(p);
        uint64_t next;
        put_all(p, &p->outer, v->part.row, v->part.rows, p->k, p->dense->slab_rows, &s);
        for (uint64_t k = (uint64_t)omp_get_thread_num(); k < c.tasks; k = next) {
            const uint64_t col = cut_at(&c, k), n = cut_at(&c, k + 1) - col;
            next = take_task(&taken);
            ops_of(p->wide)->across(p, v, col, n, next_at(&c, next), &s);
        }
        ts_fpmode_restore(mode);
    }
}

void ts_dense_gather_all(struct ts_dense_product *p, const struct ts_dense_target *t, const void *z,
                         int wide, uint64_t n, uint64_t step)
{
    const uint32_t tasks = t->row_tasks * t->col_tasks;
#pragma omp parallel num_threads(p->conf.threads) if (n * p->width > LONE_NUMBERS)
    {
        const uint64_t mode = ts_fpmode_flush();
        struct scratch s = scratch_of(p);
#pragma omp for schedule(dynamic)
        for (uint32_t k = 0; k < tasks; k++)
            for (uint64_t at = 0; at < n; at += step)
                ops_of(wide)->gather(p, t, z, 0, at, n - at < step ? n : at + step, k, &s);
        ts_fpmode_restore(mode);
    }
}
