/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_product.c - computes MTTKRPs of dense tensors: makes passes over slabs, and reuses
 * intermediate results. */
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "cpu/dense/dense_state.h"
#include "cpu/extent.h"
#include "cpu/pass_loop.h"

static uint32_t round_up(uint32_t n, uint32_t to)
{
    return (n + to - 1) / to * to;
}

static int always_wide(const struct ts_dense_product_conf *conf)
{
    return conf->precision == TS_FLOAT64 || !ts_cell_is_narrow(conf->tensor->dense->array.type);
}

/* Chooses the kernels of tile products. If a vector of AVX2 holds a row, it chooses AVX2, because
 * vectors of AVX-512 would be half empty. Both give the same bits. */
static const struct ts_gemm *gemm_of(const struct ts_dense_product_conf *conf, int wide)
{
    const struct ts_gemm *half = ts_gemm_of(TS_ISA_AVX2, wide);
    return conf->isa == TS_ISA_AVX512 && conf->rank <= half->lanes ? half
                                                                   : ts_gemm_of(conf->isa, wide);
}

static uint32_t most_width(const struct ts_dense_product_conf *conf)
{
    const uint32_t a = round_up(conf->rank, gemm_of(conf, 0)->lanes);
    const uint32_t b = round_up(conf->rank, gemm_of(conf, 1)->lanes);
    return a > b ? a : b;
}

/* Places all arrays of the object in the memory at `base`, or only counts their bytes if that is
 * NULL. Returns the bytes. */
static uint64_t lay_out(const struct ts_dense_product_conf *conf, struct ts_dense_product *p,
                        char *base)
{
    const struct ts_dense *d = conf->tensor->dense;
    const uint64_t width = most_width(conf), row = width * sizeof(double);
    uint64_t at = 0;
    p->b = ts_place(base, &at, d->inner * row);
    p->w = ts_place(base, &at, d->inner * row);
    p->k = ts_place(base, &at, d->slab_rows * row);
    p->y = ts_place(base, &at, d->slab_rows * row);
    p->sum =
        ts_place(base, &at, ts_most_rows(conf->tensor, TS_ALL_MODES) * conf->rank * sizeof(double));
    for (uint32_t m = 0; m < conf->tensor->order && conf->precision == TS_FLOAT32; m++)
        p->copy[m] = ts_place(base, &at, d->array.dim[m] * row);
    p->scratch = ts_place(base, &at, conf->threads * ts_dense_slab_scratch((uint32_t)width));
    return at;
}

uint64_t ts_dense_product_bytes(const struct ts_dense_product_conf *conf)
{
    struct ts_dense_product shape;
    return sizeof shape + ts_bigmem_cost(lay_out(conf, &shape, NULL));
}

static uint64_t y_bytes(const struct ts_dense_product_conf *conf)
{
    const int wide = always_wide(conf);
    return conf->tensor->dense->outer * round_up(conf->rank, gemm_of(conf, wide)->lanes) *
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
        struct ts_dense_grid *g = l < p->dense->n_outer ? &p->outer : &p->inner;
        g->mode[g->n++] = p->dense->layout[l];
    }
    p->memory_bytes = lay_out(conf, p, NULL);
    rc = ts_bigmem_new(p->memory_bytes, "products of the tensor's slabs", &p->memory, err);
    if (rc == 0)
        lay_out(conf, p, p->memory);
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

void ts_dense_product_changed(struct ts_dense_product *p, uint32_t mode)
{
    p->version[mode]++;
}

/* ---- the product of a mode ---- */

static struct ts_dense_target target_of(const struct ts_dense_product *p,
                                        const struct ts_dense_grid *g, uint32_t mode)
{
    struct ts_dense_target t = { .dim = p->dense->array.dim[mode], .after = 1 };
    const uint32_t threads = p->conf.threads;
    uint32_t at = 0;
    while (g->mode[at] != mode)
        at++;
    for (uint32_t l = 0; l < g->n; l++) {
        struct ts_dense_grid *to = l < at ? &t.before : &t.behind;
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
        t.col_tasks = (p->rank + TS_DENSE_TASK_COLS - 1) / TS_DENSE_TASK_COLS;
    }
    return t;
}

/* Returns whether the result *m (Y or W, the cells times the inner or the outer factors) was
 * computed from the present factors in this precision. */
static int is_made(struct ts_dense_product *p, const struct ts_dense_grid *grid,
                   struct ts_dense_made *m)
{
    int same = m->there && m->wide == p->wide;
    for (uint32_t l = 0; l < grid->n; l++)
        same &= m->version[grid->mode[l]] == p->version[grid->mode[l]];
    return same;
}

static void note_made(const struct ts_dense_product *p, const struct ts_dense_grid *grid,
                      struct ts_dense_made *m)
{
    m->there = 1;
    m->wide = p->wide;
    for (uint32_t l = 0; l < grid->n; l++)
        m->version[grid->mode[l]] = p->version[grid->mode[l]];
}

static void count(const struct ts_dense_product *p, uint64_t cells)
{
    if (p->conf.done != NULL)
        p->conf.done(p->conf.done_ctx, cells);
}

/* A pass over all slabs. With a target it computes Y (the cells times the inner factors), and
 * from Y the MTTKRP of the target's mode. Otherwise it computes W (the cells times the outer
 * factors). */
struct over_slabs {
    struct ts_dense_product *p;
    const struct ts_dense_target *target;
    int keep; /* 1: Y (cells times inner factors) of all slabs is kept */
};

static int visit(void *ctx, const struct ts_loan *loan, struct ts_err *err)
{
    const struct over_slabs *o = ctx;
    struct ts_dense_product *p = o->p;
    const struct ts_slab_view *v = &loan->slab;
    const size_t row = p->width * (p->wide ? sizeof(double) : sizeof(float));
    (void)err;
    if (o->target == NULL)
        ts_dense_across_slab(p, v);
    else
        ts_dense_along_slab(p, v, o->target, o->keep ? (char *)p->all_y + v->part.row * row : p->y);
    count(p, v->part.rows * v->part.cols);
    return 0;
}

static int pass(struct ts_dense_product *p, const struct ts_dense_target *t, int keep,
                struct ts_feed *feed, uint64_t *wait_ns, struct ts_err *err)
{
    struct over_slabs o = { p, t, keep };
    struct ts_loan loan;
    struct ts_pass_loop loop = {
        .feed = feed, .loan = &loan, .shard = visit, .ctx = &o, .err = err
    };
    const int rc = ts_pass_loop_run(&loop);
    *wait_ns = loop.wait_ns;
    return rc;
}

/* Computes the MTTKRP of one of the outer modes. */
static int outer_product(struct ts_dense_product *p, uint32_t mode, struct ts_feed *feed,
                         uint64_t *wait_ns, struct ts_err *err)
{
    const struct ts_dense_target t = target_of(p, &p->outer, mode);
    const int keep = p->all_y != NULL && p->wide == always_wide(&p->conf);
    int rc;
    if (keep && is_made(p, &p->inner, &p->y_made)) {
        ts_dense_gather_all(p, &t, p->all_y, p->wide, p->dense->outer, p->dense->slab_rows);
        count(p, p->dense->cells);
        return 0;
    }
    ts_dense_make_b(p);
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
    const struct ts_dense_target t = target_of(p, &p->inner, mode);
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
        ts_dense_gather_all(p, &t, p->w, 1, p->dense->inner, p->dense->inner);
    return rc;
}

/* Converts the factors to float64, except those that are in float64 already. */
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
    uint64_t wait_ns = 0;
    int rc, is_outer = 0;
    for (uint32_t l = 0; l < d->n_outer; l++)
        is_outer |= d->layout[l] == mode;
    p->wide = always_wide(&p->conf) || summed == TS_FLOAT64;
    p->gemm = gemm_of(&p->conf, p->wide);
    p->width = round_up(p->rank, p->gemm->lanes);
    take_factors(p, mode, factor);
    memset(p->sum, 0, d->array.dim[mode] * p->rank * sizeof *p->sum);
    rc = is_outer ? outer_product(p, mode, feed, &wait_ns, err)
                  : inner_product(p, mode, feed, &wait_ns, err);
    if (rc == 0)
        ts_fmat_put(out, 0, d->array.dim[mode], p->sum, p->conf.threads);
    if (times != NULL)
        *times = ts_pass_times(ts_clock_ns() - start, d->cells, wait_ns, 0, 0);
    return rc;
}

const double *ts_dense_product_sums(const struct ts_dense_product *p)
{
    return p->sum;
}
