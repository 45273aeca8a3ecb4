/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of dense tensors: passes over slabs, and what is gathered from their results. */
#include "cpu/dense_product.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "base/fpmode.h"
#include "cpu/dense_gemm.h"
#include "format/dense_held.h"
#include "stream/slabs.h"

#define GROUP_ROWS   48u /* at most, of a slab by one thread: its tile stays in the second cache */
#define STRIP_COLS   48u
#define STRIP_STRIDE (STRIP_COLS + 8u)
#define GROUP_BYTES \
    (UINT64_C(192) << 10) /* of rows that are fetched whole: beside those before in that cache */
#define WHOLE_COLS (3 * TS_GEMM_DEPTH) /* longer rows are fetched in parts */
#define TASK_COLS  16u /* of a mode of few rows, whose columns are shared among threads */

/* Some modes whose sizes count the rows of a matrix, the last one fastest. */
struct grid {
    uint32_t n, mode[TS_DENSE_MAX_ORDER];
};

/* What is gathered: the rows of a mode, one of a grid. */
struct target {
    struct grid before, behind;
    uint64_t dim, after; /* of the mode; rows that those behind it count */
    uint32_t row_tasks, col_tasks;
};

struct gather_task {
    uint64_t row, row_end;
    uint32_t col, col_end;
};

struct scratch {
    void *tile, *out;
    double *row; /* 3 rows */
};

/* Of which factors a result was made. */
struct made {
    int there, wide;
    uint64_t version[TS_DENSE_MAX_ORDER];
};

struct ts_dense_product {
    struct ts_dense_product_conf conf;
    const struct ts_dense *dense;
    uint32_t rank, width; /* columns; with those that fill the last panel */
    uint32_t most_width;
    const struct ts_gemm *gemm;
    struct grid outer, inner;
    void *memory;
    uint64_t memory_bytes;
    void *b, *k, *y; /* y: of a slab */
    double *w, *sum, *copy[TS_DENSE_MAX_ORDER];
    char *scratch;
    void *all_y; /* NULL: there is no room for it */
    uint64_t all_bytes;
    uint64_t version[TS_DENSE_MAX_ORDER];
    struct made w_made, y_made;
    struct ts_hold_out hold_out;
    double mean;

    /* of the call */
    int wide;
    const double *table[TS_DENSE_MAX_ORDER];
    uint32_t stride[TS_DENSE_MAX_ORDER];
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

static uint32_t round_up(uint32_t n, uint32_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- memory ---- */

static uint64_t scratch_bytes(uint32_t width)
{
    const uint64_t along = (uint64_t)GROUP_ROWS * TS_GEMM_STRIDE;
    const uint64_t across = (uint64_t)TS_GEMM_DEPTH * STRIP_STRIDE;
    return ((along > across ? along : across) + TS_GEMM_MOST + 3 * (uint64_t)width) *
           sizeof(double);
}

static int always_wide(const struct ts_dense_product_conf *conf)
{
    return conf->precision == TS_FLOAT64 || !ts_cell_is_narrow(conf->tensor->dense->array.type);
}

static uint32_t most_width(const struct ts_dense_product_conf *conf)
{
    const uint32_t a = round_up(conf->rank, ts_gemm_of(conf->isa, 0)->lanes);
    const uint32_t b = round_up(conf->rank, ts_gemm_of(conf->isa, 1)->lanes);
    return a > b ? a : b;
}

/* Places all arrays in the object's memory, or only counts. */
static uint64_t place(const struct ts_dense_product_conf *conf, struct ts_dense_product *p)
{
    const struct ts_dense *d = conf->tensor->dense;
    const uint64_t width = most_width(conf), row = width * sizeof(double);
    uint64_t longest = 0, at = 0;
    char *base = p == NULL ? NULL : p->memory;
    for (uint32_t m = 0; m < conf->tensor->order; m++)
        longest = d->array.dim[m] > longest ? d->array.dim[m] : longest;
#define PLACE(field, bytes)                 \
    do {                                    \
        if (p != NULL)                      \
            p->field = (void *)(base + at); \
        at += ((bytes) + 63) / 64 * 64;     \
    } while (0)
    PLACE(b, d->inner * row);
    PLACE(w, d->inner * row);
    PLACE(k, d->slab_rows * row);
    PLACE(y, d->slab_rows * row);
    PLACE(sum, longest * conf->rank * sizeof(double));
    for (uint32_t m = 0; m < conf->tensor->order && conf->precision == TS_FLOAT32; m++)
        PLACE(copy[m], d->array.dim[m] * row);
    PLACE(scratch, conf->threads * scratch_bytes((uint32_t)width));
#undef PLACE
    return at;
}

uint64_t ts_dense_product_bytes(const struct ts_dense_product_conf *conf)
{
    return sizeof(struct ts_dense_product) + ts_bigmem_cost(place(conf, NULL));
}

static uint64_t y_bytes(const struct ts_dense_product_conf *conf)
{
    const int wide = always_wide(conf);
    return conf->tensor->dense->outer * round_up(conf->rank, ts_gemm_of(conf->isa, wide)->lanes) *
           (wide ? sizeof(double) : sizeof(float));
}

uint64_t ts_dense_product_wish(const struct ts_dense_product_conf *conf)
{
    return conf->tensor->dense->n_outer > 1 ? ts_bigmem_cost(y_bytes(conf)) : 0;
}

int ts_dense_product_new(const struct ts_dense_product_conf *conf, struct ts_dense_product **ret,
                         struct ts_err *err)
{
    struct ts_dense_product *p = calloc(1, sizeof *p);
    const uint64_t wish = ts_dense_product_wish(conf);
    int rc;
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    p->conf = *conf;
    p->dense = conf->tensor->dense;
    p->rank = conf->rank;
    p->most_width = most_width(conf);
    for (uint32_t l = 0; l < conf->tensor->order; l++) {
        struct grid *g = l < p->dense->n_outer ? &p->outer : &p->inner;
        g->mode[g->n++] = p->dense->layout[l];
    }
    p->memory_bytes = place(conf, NULL);
    rc = ts_bigmem_new(p->memory_bytes, "products of the tensor's slabs", &p->memory, err);
    if (rc == 0)
        place(conf, p);
    if (rc == 0 && wish > 0 && wish <= conf->spare_bytes) {
        p->all_bytes = y_bytes(conf);
        rc = ts_bigmem_new(p->all_bytes, "products that several modes need", &p->all_y, err);
    }
    if (rc == 0)
        *ret = p;
    else
        ts_dense_product_free(p);
    return rc;
}

void ts_dense_product_free(struct ts_dense_product *p)
{
    if (p == NULL)
        return;
    if (p->all_y != NULL)
        ts_bigmem_free(p->all_y, p->all_bytes);
    if (p->memory != NULL)
        ts_bigmem_free(p->memory, p->memory_bytes);
    free(p);
}

void ts_dense_product_learn(struct ts_dense_product *p, const struct ts_hold_out *hold_out,
                            double mean)
{
    if (!ts_hold_out_same(&p->hold_out, hold_out) || p->mean != mean)
        p->w_made.there = p->y_made.there = 0;
    p->hold_out = *hold_out;
    p->mean = mean;
}

/* Whether the values that are multiplied are the cells. */
static int takes_all(const struct ts_dense_product *p)
{
    return p->dense->n_unknown == 0 && p->hold_out.share == 0 && p->mean == 0;
}

void ts_dense_product_changed(struct ts_dense_product *p, uint32_t mode)
{
    p->version[mode]++;
}

/* ---- rows of factors ---- */

/* Columns col .. col + n - 1 of the product of the rows that stand for row q of the grid: in ret, or where they lie. */
static const double *grid_part(const struct ts_dense_product *p, const struct grid *g, uint64_t q,
                               uint32_t col, uint32_t n, double *ret)
{
    if (g->n == 0)
        for (uint32_t c = 0; c < n; c++)
            ret[c] = 1;
    for (uint32_t l = g->n; l-- > 0;) {
        const uint32_t m = g->mode[l];
        const uint64_t dim = p->dense->array.dim[m];
        const double *x = p->table[m] + q % dim * p->stride[m] + col;
        q /= dim;
        if (l + 1 == g->n)
            memcpy(ret, x, n * sizeof *ret);
        else
            for (uint32_t c = 0; c < n; c++)
                ret[c] *= x[c];
    }
    return ret;
}

/* All columns, with zeros in those that fill the last panel. */
static void grid_row(const struct ts_dense_product *p, const struct grid *g, uint64_t q,
                     double *ret)
{
    grid_part(p, g, q, 0, p->rank, ret);
    for (uint32_t c = p->rank; c < p->width; c++)
        ret[c] = 0;
}

static struct gather_task task_of(const struct target *t, uint32_t task, uint32_t rank)
{
    const uint32_t i = task / t->col_tasks, j = task % t->col_tasks;
    struct gather_task w = { .row = t->dim * i / t->row_tasks,
                             .row_end = t->dim * (i + UINT64_C(1)) / t->row_tasks,
                             .col_end = rank };
    if (t->col_tasks > 1) {
        w.col = j * TASK_COLS;
        w.col_end = w.col + TASK_COLS < rank ? w.col + TASK_COLS : rank;
    }
    return w;
}

/* ---- what is wanted next ---- */

/* Columns of the panel that begins with column r: two vectors, or the last one. */
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

/* Where a cell of the slab lies; behind the last row, in the slab that comes next in memory. */
static uintptr_t cell_at(const struct ts_dense_product *p, const struct ts_slab_view *v,
                         uint64_t row, uint64_t col)
{
    return (uintptr_t)v->cells + row * row_bytes(p, v) + col * p->dense->cell_bytes;
}

/* The group of rows that a thread takes next, and how far it has been fetched. */
struct wanted {
    uint64_t next;
    uintptr_t at, end;
    size_t step; /* 0: rows are too long to be fetched whole */
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

/* What a product of k columns from c on fetches, of the tile at `row` and of the panel at r. Of long rows it is a share of the tile's next
 * columns. */
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

/* Of a strip, what its products fetch one after another: lines, or pairs, of each of its next rows. */
struct strip_wanted {
    uintptr_t at;
    size_t row_bytes, beside;
    uint64_t left; /* lines */
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

/* Whether parts of many rows can be in the second cache together: rows whose length is a multiple of a large power of 2 share few places. */
static int rows_spread(const struct ts_dense_product *p, const struct ts_slab_view *v)
{
    return row_bytes(p, v) % 1024 != 0;
}

#define REAL      float
#define NAME(x)   x##_f32
#define GET_CELLS ts_dense_get_f32
#include "cpu/dense_product_body.h"

#define REAL      double
#define NAME(x)   x##_f64
#define GET_CELLS ts_dense_get_f64
#include "cpu/dense_product_body.h"

static struct scratch scratch_of(const struct ts_dense_product *p)
{
    const uint64_t bytes = scratch_bytes(p->most_width);
    double *at = (double *)(p->scratch + (uint64_t)omp_get_thread_num() * bytes);
    struct scratch s = { .row = at };
    s.out = at + 3 * (size_t)p->most_width;
    s.tile = (double *)s.out + TS_GEMM_MOST;
    return s;
}

static void gather(const struct ts_dense_product *p, const struct target *t, const void *z,
                   int wide, uint64_t base, uint64_t first, uint64_t end, uint32_t task,
                   struct scratch *s)
{
    if (wide)
        gather_f64(p, t, z, base, first, end, task, s);
    else
        gather_f32(p, t, z, base, first, end, task, s);
}

/* ---- parallel regions ---- */

static void make_b(struct ts_dense_product *p)
{
    const uint64_t n = p->dense->inner;
#pragma omp parallel num_threads(p->conf.threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        const struct scratch s = scratch_of(p);
#pragma omp for schedule(static)
        for (uint64_t c = 0; c < n; c++)
            if (p->wide)
                put_products_f64(p, &p->inner, c, p->b, n, c, s.row);
            else
                put_products_f32(p, &p->inner, c, p->b, n, c, s.row);
        ts_fpmode_restore(mode);
    }
}

/* n rows or columns in tasks of whole tiles, as many for each thread and of at most `most`: task k begins with cut_at(c, k). */
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

/* Behind the last task come those of the next slab, which is taken for one like this. */
static uint64_t cut_at(const struct cut *c, uint64_t task)
{
    const uint64_t at = task % c->tasks * c->tiles / c->tasks * c->tile;
    return task / c->tasks * c->n + (at < c->n ? at : c->n);
}

/* The task after the thread's task: each takes one while it does the one before, so that it knows what it needs next. */
static uint64_t take_task(uint64_t *taken)
{
    uint64_t k;
#pragma omp atomic capture
    k = (*taken)++;
    return k + (uint64_t)omp_get_num_threads();
}

/* Where the thread's first task of the next slab begins, for one that has no further task. */
static uint64_t next_at(const struct cut *c, uint64_t task)
{
    return cut_at(c, task < c->tasks ? task : c->tasks + (uint64_t)omp_get_thread_num() % c->tasks);
}

/* Y of a slab; and where its rows are whole, what the mode gets of them. y: its row 0 is the slab's first. */
static void along_slab(struct ts_dense_product *p, const struct ts_slab_view *v,
                       const struct target *t, void *y)
{
    const uint64_t fit = GROUP_BYTES / row_bytes(p, v);
    const struct cut c =
        cut_of(p, v->part.rows, fit < GROUP_ROWS && v->part.cols <= WHOLE_COLS ? fit : GROUP_ROWS);
    const int whole = v->part.col + v->part.cols == p->dense->inner;
    const uint32_t tasks = t->row_tasks * t->col_tasks;
    uint64_t taken = 0;
#pragma omp parallel num_threads(p->conf.threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        struct scratch s = scratch_of(p);
        uint64_t next;
        for (uint64_t k = (uint64_t)omp_get_thread_num(); k < c.tasks; k = next) {
            const uint64_t row = cut_at(&c, k), n = cut_at(&c, k + 1) - row;
            next = take_task(&taken);
            if (p->wide)
                along_f64(p, v, row, n, next_at(&c, next), y, &s);
            else
                along_f32(p, v, row, n, next_at(&c, next), y, &s);
        }
        if (whole) {
#pragma omp barrier
#pragma omp for schedule(static)
            for (uint32_t k = 0; k < tasks; k++)
                gather(p, t, y, p->wide, v->part.row, v->part.row, v->part.row + v->part.rows, k,
                       &s);
        }
        ts_fpmode_restore(mode);
    }
}

/* What a slab adds to W. */
static void across_slab(struct ts_dense_product *p, const struct ts_slab_view *v)
{
    const struct cut c = cut_of(p, v->part.cols, STRIP_COLS);
    uint64_t taken = 0;
#pragma omp parallel num_threads(p->conf.threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        struct scratch s = scratch_of(p);
        uint64_t next;
#pragma omp for schedule(static)
        for (uint64_t i = 0; i < v->part.rows; i++)
            if (p->wide)
                put_products_f64(p, &p->outer, v->part.row + i, p->k, p->dense->slab_rows, i,
                                 s.row);
            else
                put_products_f32(p, &p->outer, v->part.row + i, p->k, p->dense->slab_rows, i,
                                 s.row);
        for (uint64_t k = (uint64_t)omp_get_thread_num(); k < c.tasks; k = next) {
            const uint64_t col = cut_at(&c, k), n = cut_at(&c, k + 1) - col;
            next = take_task(&taken);
            if (p->wide)
                across_f64(p, v, col, n, next_at(&c, next), &s);
            else
                across_f32(p, v, col, n, next_at(&c, next), &s);
        }
        ts_fpmode_restore(mode);
    }
}

/* From all rows of Y, cut as slabs cut them, or of W. */
static void gather_all(struct ts_dense_product *p, const struct target *t, const void *z, int wide,
                       uint64_t n, uint64_t step)
{
    const uint32_t tasks = t->row_tasks * t->col_tasks;
#pragma omp parallel num_threads(p->conf.threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        struct scratch s = scratch_of(p);
#pragma omp for schedule(dynamic)
        for (uint32_t k = 0; k < tasks; k++)
            for (uint64_t at = 0; at < n; at += step)
                gather(p, t, z, wide, 0, at, n - at < step ? n : at + step, k, &s);
        ts_fpmode_restore(mode);
    }
}

/* ---- a product ---- */

static struct target target_of(const struct ts_dense_product *p, const struct grid *g,
                               uint32_t mode)
{
    struct target t = { .dim = p->dense->array.dim[mode], .after = 1 };
    const uint32_t threads = p->conf.threads;
    uint32_t at = 0;
    while (g->mode[at] != mode)
        at++;
    for (uint32_t l = 0; l < g->n; l++) {
        struct grid *to = l < at ? &t.before : &t.behind;
        if (l == at)
            continue;
        to->mode[to->n++] = g->mode[l];
        if (l > at)
            t.after *= p->dense->array.dim[g->mode[l]];
    }
    if (t.dim >= 4 * (uint64_t)threads) {
        t.row_tasks = 4 * threads;
        t.col_tasks = 1;
    } else {
        t.row_tasks = (uint32_t)t.dim;
        t.col_tasks = (p->rank + TASK_COLS - 1) / TASK_COLS;
    }
    return t;
}

/* Whether it was made of these factors as they are, in this precision; it will be then. */
static int is_made(struct ts_dense_product *p, const struct grid *of, struct made *m)
{
    int same = m->there && m->wide == p->wide;
    for (uint32_t l = 0; l < of->n; l++)
        same &= m->version[of->mode[l]] == p->version[of->mode[l]];
    return same;
}

static void note_made(const struct ts_dense_product *p, const struct grid *of, struct made *m)
{
    m->there = 1;
    m->wide = p->wide;
    for (uint32_t l = 0; l < of->n; l++)
        m->version[of->mode[l]] = p->version[of->mode[l]];
}

static void count(const struct ts_dense_product *p, uint64_t cells)
{
    if (p->conf.done != NULL)
        p->conf.done(p->conf.done_ctx, cells);
}

/* Over all slabs: Y and the mode's part of it, where y is not NULL; else W. */
static int pass(struct ts_dense_product *p, const struct target *t, int keep, struct ts_feed *feed,
                uint64_t *wait_ns, struct ts_err *err)
{
    struct ts_slabs *slabs = ts_feed_slabs(feed);
    struct ts_slab_view v;
    int rc;
    ts_slabs_rewind(slabs);
    for (;;) {
        const uint64_t start = ts_clock_ns();
        rc = ts_slabs_next(slabs, &v, err);
        *wait_ns += ts_clock_ns() - start;
        if (rc <= 0)
            return rc;
        if (t == NULL)
            across_slab(p, &v);
        else
            along_slab(p, &v, t,
                       keep ? (char *)p->all_y +
                                  v.part.row * p->width * (p->wide ? sizeof(double) : sizeof(float))
                            : p->y);
        count(p, v.part.rows * v.part.cols);
    }
}

/* The mode is one of the outer ones. */
static int outer_product(struct ts_dense_product *p, uint32_t mode, struct ts_feed *feed,
                         uint64_t *wait_ns, struct ts_err *err)
{
    const struct target t = target_of(p, &p->outer, mode);
    const int keep = p->all_y != NULL && p->wide == always_wide(&p->conf);
    int rc;
    if (keep && is_made(p, &p->inner, &p->y_made)) {
        gather_all(p, &t, p->all_y, p->wide, p->dense->outer, p->dense->slab_rows);
        count(p, p->dense->cells);
        return 0;
    }
    make_b(p);
    if (keep)
        p->y_made.there = 0;
    rc = pass(p, &t, keep, feed, wait_ns, err);
    if (rc == 0 && keep)
        note_made(p, &p->inner, &p->y_made);
    return rc;
}

static int inner_product(struct ts_dense_product *p, uint32_t mode, struct ts_feed *feed,
                         uint64_t *wait_ns, struct ts_err *err)
{
    const struct target t = target_of(p, &p->inner, mode);
    int rc = 0;
    if (is_made(p, &p->outer, &p->w_made)) {
        count(p, p->dense->cells);
    } else {
        memset(p->w, 0, p->dense->inner * p->width * sizeof *p->w);
        p->w_made.there = 0;
        rc = pass(p, NULL, 0, feed, wait_ns, err);
        if (rc == 0)
            note_made(p, &p->outer, &p->w_made);
    }
    if (rc == 0)
        gather_all(p, &t, p->w, 1, p->dense->inner, p->dense->inner);
    return rc;
}

/* Rows of the factors as float64. */
static void take_factors(struct ts_dense_product *p, uint32_t mode, const struct ts_fmat *factor)
{
    for (uint32_t m = 0; m < p->dense->array.order; m++) {
        if (factor[m].precision == TS_FLOAT64) {
            p->table[m] = factor[m].data;
            p->stride[m] = factor[m].stride;
            continue;
        }
        p->table[m] = p->copy[m];
        p->stride[m] = p->rank;
        if (m != mode)
            ts_fmat_get(&factor[m], 0, factor[m].n_rows, p->copy[m], p->conf.threads);
    }
}

int ts_dense_product_run(struct ts_dense_product *p, uint32_t mode, const struct ts_fmat *factor,
                         struct ts_fmat *out, enum ts_precision summed, struct ts_feed *feed,
                         struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    const struct ts_dense *d = p->dense;
    uint64_t wait_ns = 0, total_ns;
    int rc, is_outer = 0;
    for (uint32_t l = 0; l < d->n_outer; l++)
        is_outer |= d->layout[l] == mode;
    p->wide = always_wide(&p->conf) || summed == TS_FLOAT64;
    p->gemm = ts_gemm_of(p->conf.isa, p->wide);
    p->width = round_up(p->rank, p->gemm->lanes);
    take_factors(p, mode, factor);
    memset(p->sum, 0, d->array.dim[mode] * p->rank * sizeof *p->sum);
    rc = is_outer ? outer_product(p, mode, feed, &wait_ns, err)
                  : inner_product(p, mode, feed, &wait_ns, err);
    if (rc == 0)
        ts_fmat_put(out, 0, d->array.dim[mode], p->sum, p->conf.threads);
    total_ns = ts_clock_ns() - start;
    if (times != NULL)
        *times = (struct ts_backend_times){ .total_ns = total_ns,
                                            .n_devices = 1,
                                            .device[0] = { .number = -1,
                                                           .nnz = d->cells,
                                                           .wait_ns = wait_ns,
                                                           .kernel_ns = total_ns - wait_ns,
                                                           .share = 1 } };
    return rc;
}

const double *ts_dense_product_sums(const struct ts_dense_product *p)
{
    return p->sum;
}
