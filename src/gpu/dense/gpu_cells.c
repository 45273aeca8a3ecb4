/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a pass over a mode of a dense tensor: it reuses results of earlier passes that are still
 * valid, computes the others from blocks of rows, and exchanges sums between members (GPUs).
 *
 * For an outer mode, Y (the cells times the inner factors) of each block is computed, except for
 * rows whose Y is kept and still valid. Sums over steps (ranges of its rows) are added to the sums
 * of shares (groups of chunks). For an inner mode, W (the cells times the outer factors) is
 * computed for one range of rows after another and added to the sums of shares, unless W is still
 * valid. Then the MTTKRP is gathered from W. Members send each other the sums of their shares, and
 * each member adds up all of them. Y and W are defined in cells_kernel.h. */
#include "gpu/dense/gpu_cells.h"

#include <cuda_runtime.h>
#include <string.h>

#include "base/trace.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_team.h"

static int fail(struct ts_err *err, ts_gpu_error e)
{
    return ts_gpu_fail(err, e, "MTTKRP");
}

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- the factors that a result was computed from */

void ts_gpu_cells_changed(struct ts_gpu *g, uint32_t mode)
{
    if (g->cells != NULL)
        g->cells->version[mode]++;
}

static int is_made(const struct ts_gpu_cells *c, int outer, const struct ts_gpu_cells_made *m)
{
    int same = m->there;
    for (uint32_t k = 0; k < c->shape.dense->array.order; k++)
        if (ts_cells_is_outer(&c->shape, k) == outer)
            same &= m->version[k] == c->version[k];
    return same;
}

static void note_made(const struct ts_gpu_cells *c, struct ts_gpu_cells_made *m)
{
    m->there = 1;
    memcpy(m->version, c->version, sizeof m->version);
}

/* ---- factors of a grid of modes */

/* Sets the factors of a grid of modes. If c is the object `pairs` (gpu_cells.h), they are the
 * products of pairs of columns of each factor, in float64. */
static void take_factors(const struct ts_gpu_pass *p, const struct ts_gpu_cells *c,
                         struct ts_cells_grid *g, const uint32_t *modes)
{
    const struct ts_gpu_product *r = &p->product[0];
    const int pairs = c != p->g->cells;
    g->precision = pairs ? TS_FLOAT64 : p->g->precision;
    g->factor_ld = pairs ? c->shape.ld : r->of->ld;
    for (uint32_t l = 0; l < g->n; l++)
        g->factor[l] =
            pairs ? (const void *)c->member[p->me->number].pair[modes[l]] : r->my->factor[modes[l]];
}

ts_gpu_error ts_gpu_cells_table(const struct ts_gpu_pass *p, const struct ts_gpu_cells *c,
                                uint32_t first, uint32_t end, double *out)
{
    struct ts_cells_grid grid;
    uint32_t modes[TS_MAX_ORDER];
    ts_cells_grid_of(&c->shape, first, end, &grid, modes);
    take_factors(p, c, &grid, modes);
    return ts_cells_products(&grid, out, p->me->dense);
}

struct ts_cells_target ts_gpu_cells_target(const struct ts_gpu_pass *p,
                                           const struct ts_gpu_cells *c)
{
    struct ts_cells_target t;
    uint32_t others[TS_MAX_ORDER];
    ts_cells_target_of(&c->shape, p->ask->mode, &t, others);
    take_factors(p, c, &t.others, others);
    return t;
}

/* ---- MTTKRPs of outer modes */

/* Adds the MTTKRP's sums over steps first .. end - 1 (ranges of rows of Y or W) to acc, the sums of
 * shares (groups of chunks). z: points to row z_row of Y or W. */
static ts_gpu_error gather(const struct ts_gpu_cells *c, struct ts_gpu_member *me,
                           const struct ts_cells_target *t, const double *z, uint64_t z_row,
                           double *part, uint64_t first, uint64_t end)
{
    const uint64_t most = ts_gpu_cells_steps(c, t);
    ts_gpu_error e = cudaSuccess;
    for (uint64_t s = first; s < end && e == cudaSuccess; s += most) {
        const uint64_t n = less(end - s, most);
        e = ts_cells_gather(t, z, z_row, s, n, part, me->dense);
        TRY(e, ts_cells_fold(t, part, s, n, c->member[me->number].acc, me->dense));
    }
    return e;
}

struct ts_cells_x ts_gpu_cells_part_of(const struct ts_cells_shape *s,
                                       const struct ts_gpu_cells_block *b, uint64_t row,
                                       uint64_t end, uint64_t col, uint64_t n)
{
    const uint64_t at = (row - b->row) * b->pitch + (col - b->col);
    return (struct ts_cells_x){ .cell = (const char *)b->cell + at * s->cell_bytes,
                                .narrow = s->narrow,
                                .pitch = b->pitch,
                                .row = row,
                                .n_rows = end - row,
                                .col = col,
                                .n_cols = n };
}

/* Sets *ret to the cells of a block for a product, in a copy if some are held out. */
static ts_gpu_error take_cells(const struct ts_gpu *g, const struct ts_gpu_cells_work *w,
                               struct ts_gpu_member *me, const struct ts_gpu_cells_block *b,
                               uint64_t row, uint64_t end, uint64_t col, uint64_t n,
                               struct ts_cells_x *ret)
{
    *ret = ts_gpu_cells_part_of(&w->cells->shape, b, row, end, col, n);
    ret->as = w->as;
    return g->cells->hold_out.share > 0 ? ts_gpu_cells_mark(g, me, ret) : cudaSuccess;
}

/* Returns `rows`, or the rows of a chunk if they are fewer and cells must be copied, because some
 * cells are held out. */
static uint64_t most_rows(const struct ts_gpu *g, uint64_t rows)
{
    return g->cells->hold_out.share > 0 ? less(rows, g->cells->shape.chunk_rows) : rows;
}

/* Whether Y (the cells times the inner factors) is a sum over parts of the columns. */
static int in_parts(const struct ts_cells_shape *s)
{
    return s->n_parts > 1 || s->chunk_cols < s->cols;
}

/* Computes Y (the cells times the inner factors) of rows of a block over all its columns, one chunk
 * of columns after another. */
static ts_gpu_error add_y(const struct ts_gpu *g, const struct ts_gpu_cells_work *w,
                          struct ts_gpu_member *me, const struct ts_gpu_cells_block *b,
                          uint64_t row, uint64_t end, double *y)
{
    const struct ts_cells_shape *s = &w->cells->shape;
    const struct ts_gpu_cells_member *m = &w->cells->member[me->number];
    const int whole = !in_parts(s);
    const uint64_t elements = (end - row) * s->ld;
    /* partial sums of Y: in scratch after the room for Y, even if y points elsewhere */
    double *parts = m->scratch + w->cells->y_rows * s->ld;
    ts_gpu_error e = cudaSuccess;
    for (uint64_t col = b->col; col < b->col + b->n_cols && e == cudaSuccess;
         col += s->chunk_cols) {
        const uint64_t n = less(b->col + b->n_cols - col, s->chunk_cols);
        struct ts_cells_x x;
        e = take_cells(g, w, me, b, row, end, col, n, &x);
        TRY(e, ts_cells_along(&x, m->b, s->rank, s->ld, s->part_cols, whole ? y : parts, elements,
                              me->dense));
        if (!whole)
            TRY(e, ts_cells_add(y, parts, elements, elements, (n + s->part_cols - 1) / s->part_cols,
                                col == 0, me->dense));
    }
    return e;
}

/* Returns the memory for the sums of steps (ranges of rows), which follows Y and its parts in
 * scratch. */
static double *gather_place(const struct ts_gpu_cells *c, const struct ts_gpu_cells_member *m)
{
    const struct ts_cells_shape *s = &c->shape;
    return m->scratch + c->y_rows * s->ld * (in_parts(s) ? 1 + s->n_parts : 1);
}

static ts_gpu_error compute_outer(const struct ts_gpu *g, const struct ts_gpu_cells_work *w,
                                  struct ts_gpu_member *me, const struct ts_gpu_cells_block *b)
{
    const struct ts_gpu_cells *c = w->cells;
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_gpu_cells_member *m = &c->member[me->number];
    const struct ts_cells_target *t = &w->target[me->number];
    const uint64_t end = ts_cells_step(&t->cut, b->row + b->n_rows);
    const uint64_t kept_end = less(ts_cells_step(&t->cut, m->y_end), end);
    const uint64_t begin = ts_cells_step(&t->cut, b->row);
    ts_gpu_error e = cudaSuccess;
    for (uint64_t at = w->rest ? more(begin, kept_end) : begin, next; at < end && e == cudaSuccess;
         at = next) {
        const uint64_t row = ts_cells_first(&t->cut, at);
        const int kept = row < m->y_end;
        const uint64_t most = most_rows(g, kept && !in_parts(s) ? s->rows : c->y_rows);
        const uint64_t stop = kept ? kept_end : end;
        double *y = kept ? m->all_y + (row - m->row) * s->ld : m->scratch;
        uint64_t row_end;
        next = ts_cells_step(&t->cut, row + most);
        next = next > stop ? stop : next > at ? next : at + 1;
        row_end = ts_cells_end(&t->cut, next - 1);
        e = add_y(g, w, me, b, row, row_end, y);
        if (b->col + b->n_cols == s->cols)
            TRY(e, gather(c, me, t, y, row, gather_place(c, m), at, next));
    }
    return e;
}

static ts_gpu_error compute_outers(struct ts_gpu_cells_job *j, struct ts_gpu_member *me,
                                   const struct ts_gpu_cells_block *b)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t k = 0; k < j->n_works && e == cudaSuccess; k++)
        e = compute_outer(j->g, &j->work[k], me, b);
    return e;
}

/* ---- MTTKRPs of inner modes */

/* Adds the sums W of pieces (ranges of rows) first .. end - 1, which are in scratch, for columns
 * col .. col + n - 1, to the sums of their shares. A team of one member has the sum of one share at
 * a time. Once it is complete, it is added to W. */
static ts_gpu_error add_pieces(const struct ts_gpu *g, const struct ts_gpu_cells *c,
                               struct ts_gpu_member *me, uint64_t first, uint64_t end, uint64_t col,
                               uint64_t n)
{
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_gpu_cells_member *m = &c->member[me->number];
    const uint64_t elements = n * s->ld;
    const int alone = g->n_members == 1;
    struct ts_cells_shares to = { .to = alone ? m->w + col * s->ld : NULL,
                                  .sum_apart = alone ? 0 : s->cols * s->ld };
    for (uint32_t k = 0; k < s->n_shares; k++) {
        const uint64_t top = ts_cells_step(&s->piece, ts_cells_share_row(s, k));
        const uint64_t bottom = ts_cells_step(&s->piece, ts_cells_share_row(s, k + 1));
        const uint64_t from = top > first ? top : first, stop = less(bottom, end);
        if (from >= stop)
            continue;
        if (to.n == 0) {
            to.sum = m->share_sum + k * to.sum_apart + col * s->ld;
            to.fresh = k == 0;
        }
        to.part[to.n++] = (struct ts_cells_part){ .first = from - first,
                                                  .end = stop - first,
                                                  .begins = from == top,
                                                  .ends = stop == bottom };
    }
    return ts_cells_add_shares(&to, m->scratch, elements, elements, me->dense);
}

static ts_gpu_error compute_inner(const struct ts_gpu *g, const struct ts_gpu_cells_work *w,
                                  struct ts_gpu_member *me, const struct ts_gpu_cells_block *b)
{
    const struct ts_gpu_cells *c = w->cells;
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_gpu_cells_member *m = &c->member[me->number];
    const uint64_t pieces = c->piece_elements / (s->chunk_cols * s->ld);
    /* pieces multiplied at once: if some cells are held out, at most those of a chunk, because the
     * copy without held-out cells has room for a chunk */
    const uint64_t most = g->cells->hold_out.share > 0 ? less(pieces, s->piece.per_chunk) : pieces;
    const uint64_t end = ts_cells_step(&s->piece, b->row + b->n_rows);
    ts_gpu_error e = cudaSuccess;
    for (uint64_t at = ts_cells_step(&s->piece, b->row); at < end && e == cudaSuccess; at += most) {
        const uint64_t next = less(at + most, end), row = ts_cells_first(&s->piece, at);
        const uint64_t row_end = ts_cells_end(&s->piece, next - 1);
        for (uint64_t col = b->col; col < b->col + b->n_cols && e == cudaSuccess;
             col += s->chunk_cols) {
            const uint64_t n = less(b->col + b->n_cols - col, s->chunk_cols);
            struct ts_cells_x x;
            e = take_cells(g, w, me, b, row, row_end, col, n, &x);
            TRY(e, ts_cells_across(&x, &s->piece, m->u, m->v, s->n_v, s->rank, s->ld, m->scratch,
                                   me->dense));
            TRY(e, add_pieces(g, c, me, at, next, col, n));
        }
    }
    return e;
}

static ts_gpu_error compute_inners(struct ts_gpu_cells_job *j, struct ts_gpu_member *me,
                                   const struct ts_gpu_cells_block *b)
{
    ts_gpu_error e = cudaSuccess;
    for (uint32_t k = 0; k < j->n_works && e == cudaSuccess; k++)
        e = compute_inner(j->g, &j->work[k], me, b);
    return e;
}

/* ---- sums that members send each other */

/* Gathers the sums of all shares (groups of chunks), `apart` bytes each, in every member's memory.
 * at[i]: the sums in member i's memory. */
static int exchange(struct ts_gpu_pass *p, double *const at[], uint64_t apart, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    struct ts_gpu_member *me = p->me;
    const uint32_t n = g->n_members, shares = g->cells->shape.n_shares;
    struct ts_exchange_span span[TS_MAX_DEVICES];
    struct ts_exchange_part part[TS_MAX_DEVICES];
    void *base[TS_MAX_DEVICES];
    ts_gpu_error e;
    int rc;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t first = shares * i / n, end = shares * (i + 1) / n;
        span[i] = (struct ts_exchange_span){ first * apart, (end - first) * apart };
        part[i] = (struct ts_exchange_part){ &span[i], end > first };
        base[i] = at[i];
    }
    e = cudaEventRecord(me->ready, me->dense);
    TRY(e, cudaStreamWaitEvent(me->send, me->ready, 0));
    TRY(e, ts_gpu_log_start(&me->log, TS_GPU_EXCHANGE, "exchange", TS_TRACE_EXCHANGE, me->send));
    if (e != cudaSuccess)
        return fail(err, e);
    rc = ts_exchange_gather(g->exchange, me->number, base, part, me->send, err);
    if (rc < 0)
        return rc;
    e = ts_gpu_log_stop(&me->log, me->send, p->n_exchanges++, span[me->number].bytes);
    return e == cudaSuccess ? ts_gpu_rows_receive(p, err) : fail(err, e);
}

/* ---- the pass over a mode */

int ts_gpu_cells_enqueue(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_gpu_cells_job *j,
                         struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    /* all members (GPUs) have enqueued their tables of factor row products, and begun their logs of
     * times */
    int rc = ts_gpu_team_barrier(g, err);
    j->g = g;
    j->feed = p->ask->feed;
    if (rc == 0 && p->me->number == 0) {
        for (uint32_t i = 0; i < g->n_members; i++) {
            j->pass[i] = &all[i];
            for (uint32_t k = 0; k < j->n_works; k++)
                j->work[k].target[i] = ts_gpu_cells_target(&all[i], j->work[k].cells);
        }
        rc = ts_gpu_cells_walk(j, err);
    }
    return rc == 0 ? ts_gpu_team_barrier(g, err) : rc;
}

/* Returns the record of the factors from which Y (cells times inner factors, for an outer mode) or
 * W (cells times outer factors) was computed. */
static struct ts_gpu_cells_made *made_of(struct ts_gpu_cells *c, int outer)
{
    return outer ? &c->y_made : &c->w_made;
}

/* Clears the sums of the member's own shares (groups of chunks) in its memory. Sums of other shares
 * are left alone: other members (GPUs) write them, perhaps before this is done. */
static ts_gpu_error clear_shares(const struct ts_gpu_pass *p, const struct ts_gpu_cells *c,
                                 const struct ts_cells_target *t)
{
    const uint32_t n = p->g->n_members, i = p->me->number;
    const uint64_t first = t->n_shares * i / n, end = t->n_shares * (i + 1) / n;
    const uint64_t elements = t->share_slots * t->others.ld;
    return cudaMemsetAsync(c->member[i].acc + first * elements, 0, 8 * (end - first) * elements,
                           p->me->dense);
}

/* Adds the rows whose Y (cells times inner factors) is kept from an earlier pass to the sums of
 * shares (groups of chunks). */
static ts_gpu_error gather_kept(struct ts_gpu_pass *p, const struct ts_gpu_cells *c,
                                const struct ts_cells_target *t)
{
    const struct ts_gpu_cells_member *m = &c->member[p->me->number];
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e =
        ts_gpu_log_start(&me->log, TS_GPU_KERNEL, "kept products", TS_TRACE_KERNEL, me->dense);
    TRY(e, gather(c, me, t, m->all_y, m->row, gather_place(c, m), ts_cells_step(&t->cut, m->row),
                  ts_cells_step(&t->cut, m->y_end)));
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e;
}

/* Whether some member (GPU) has rows whose Y (cells times inner factors) is not kept. */
static int has_rest(const struct ts_gpu_cells *c)
{
    return c->y_kept < c->most_rows;
}

/* Prepares the product of an outer mode: clears the sums, adds the rows whose Y (cells times inner
 * factors) is kept, and computes the table of inner factors for the other rows. */
static ts_gpu_error prepare_outer(struct ts_gpu_pass *p, struct ts_gpu_cells *c, int made)
{
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_cells_target t = ts_gpu_cells_target(p, c);
    ts_gpu_error e = clear_shares(p, c, &t);
    if (made)
        TRY(e, gather_kept(p, c, &t));
    if (!made || has_rest(c))
        TRY(e, ts_gpu_cells_table(p, c, s->dense->n_outer, s->dense->array.order,
                                  c->member[p->me->number].b));
    return e;
}

static ts_gpu_error prepare_inner(struct ts_gpu_pass *p, struct ts_gpu_cells *c, int made)
{
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_gpu_cells_member *m = &c->member[p->me->number];
    ts_gpu_error e = cudaSuccess;
    if (made)
        return e;
    e = ts_gpu_cells_table(p, c, 0, s->n_slow, m->u);
    TRY(e, ts_gpu_cells_table(p, c, s->n_slow, s->dense->n_outer, m->v));
    return e;
}

static int exchange_y(struct ts_gpu_pass *p, struct ts_gpu_cells *c, struct ts_err *err)
{
    const struct ts_cells_target t = ts_gpu_cells_target(p, c);
    double *base[TS_MAX_DEVICES];
    for (uint32_t i = 0; i < p->g->n_members; i++)
        base[i] = c->member[i].acc;
    return p->g->n_members == 1 ? 0 : exchange(p, base, 8 * t.share_slots * t.others.ld, err);
}

static int exchange_w(struct ts_gpu_pass *p, struct ts_gpu_cells *c, struct ts_err *err)
{
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_gpu_cells_member *m = &c->member[p->me->number];
    const uint64_t w = s->cols * s->ld;
    double *base[TS_MAX_DEVICES];
    ts_gpu_error e;
    int rc;
    if (p->g->n_members == 1)
        return 0;
    for (uint32_t i = 0; i < p->g->n_members; i++)
        base[i] = c->member[i].share_sum;
    rc = exchange(p, base, 8 * w, err);
    if (rc < 0)
        return rc;
    e = ts_cells_add(m->w, m->share_sum, w, w, s->n_shares, 1, p->me->dense);
    return e == cudaSuccess ? 0 : fail(err, e);
}

/* Gathers the MTTKRP of an inner mode from W (the cells times the outer factors). Every member
 * (GPU) computes all of it. */
static ts_gpu_error gather_w(struct ts_gpu_pass *p, const struct ts_gpu_cells *c)
{
    const struct ts_gpu_cells_member *m = &c->member[p->me->number];
    const struct ts_cells_target t = ts_gpu_cells_target(p, c);
    struct ts_gpu_member *me = p->me;
    ts_gpu_error e = cudaMemsetAsync(m->acc, 0, 8 * c->acc_elements, me->dense);
    TRY(e, ts_gpu_log_start(&me->log, TS_GPU_KERNEL, "inner modes", TS_TRACE_KERNEL, me->dense));
    TRY(e, gather(c, me, &t, m->w, 0, gather_place(c, m), 0, ts_cells_step(&t.cut, t.cut.rows)));
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e;
}

/* Whether Y or W (cells times factors) of an earlier pass may be reused. They may not if column
 * pairs are computed in groups, or if no Y is kept. */
static int may_be_made(const struct ts_gpu_cells *c, int outer)
{
    return c->n_groups <= 1 && (!outer || c->y_kept > 0);
}

/* Makes passes over the cells for those products (Y or W) that are not valid any more. */
static int compute(struct ts_gpu_pass *p, struct ts_gpu_pass *all,
                   const struct ts_gpu_cells_work *work, uint32_t n, int outer, const int made[],
                   struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    struct ts_gpu_cells_job j = { .compute = outer ? compute_outers : compute_inners, .rest = 1 };
    ts_gpu_error e = cudaSuccess;
    int rc = 0;
    for (uint32_t k = 0; k < n && e == cudaSuccess; k++) {
        struct ts_gpu_cells *c = work[k].cells;
        const int rest = outer && made[k];
        e = outer ? prepare_outer(p, c, made[k]) : prepare_inner(p, c, made[k]);
        if (made[k] && !(rest && has_rest(c)))
            continue;
        if (p->me->number == 0 && !rest)
            made_of(c, outer)->there = 0;
        j.work[j.n_works] = work[k];
        j.work[j.n_works++].rest = rest;
        j.rest &= rest;
    }
    if (e != cudaSuccess)
        return fail(err, e);
    if (j.n_works > 0)
        rc = ts_gpu_cells_enqueue(p, all, &j, err);
    for (uint32_t k = 0; k < j.n_works && rc == 0 && p->me->number == 0; k++)
        if (may_be_made(j.work[k].cells, outer))
            note_made(g->cells, made_of(j.work[k].cells, outer));
    return rc;
}

int ts_gpu_cells_multiply(struct ts_gpu_pass *p, struct ts_gpu_pass *all,
                          const struct ts_gpu_cells_work *work, uint32_t n, struct ts_err *err)
{
    struct ts_gpu_cells *c = p->g->cells;
    const struct ts_gpu_cells_member *m = &c->member[p->me->number];
    const int outer = ts_cells_is_outer(&c->shape, p->ask->mode);
    int made[2] = { 0, 0 }, rc;
    /* members (GPUs) agree on which products are still valid, as all of them test before one
     * changes the records of Y and W */
    for (uint32_t k = 0; k < n; k++)
        made[k] = is_made(c, !outer, made_of(work[k].cells, outer));
    /* all members (GPUs) have tested whether Y and W (products of cells and factors) are still
     * valid */
    rc = ts_gpu_team_barrier(p->g, err);
    if (rc == 0)
        rc = compute(p, all, work, n, outer, made, err);
    p->nnz = (m->end - m->row) * c->shape.cols;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        ts_gpu_error e;
        if (outer) {
            rc = exchange_y(p, work[k].cells, err);
            continue;
        }
        if (!made[k])
            rc = exchange_w(p, work[k].cells, err);
        e = rc == 0 ? gather_w(p, work[k].cells) : cudaSuccess;
        rc = e == cudaSuccess ? rc : fail(err, e);
    }
    return rc;
}

/* Whether a product of the values uses all cells unchanged: none is unknown or held out, and the
 * mean is 0. */
static int learns_all(const struct ts_gpu_cells *c)
{
    return c->shape.dense->n_unknown == 0 && c->hold_out.share == 0 && c->mean == 0;
}

/* Sets the held-out cells and the mean of a pass. If they differ from those of the pass before, Y
 * and W (cells times factors) are not valid any more. Passes that compute the errors of a model use
 * the cells unchanged. */
void ts_gpu_cells_begin(struct ts_gpu *g, const struct ts_gpu_request *ask)
{
    const struct ts_gpu_model *of = ask->of[0].be;
    const struct ts_row_update *update = ask->of[0].update;
    const int observed = ask->kind == TS_REQUEST_ROWS;
    struct ts_hold_out hold_out = observed ? update->hold_out : of->hold_out;
    const double mean = observed ? update->mean : 0;
    struct ts_gpu_cells *c = g->cells;
    if (c == NULL || ask->kind == TS_REQUEST_ERRORS)
        return;
    if (!ts_gpu_cells_may_mark(g))
        hold_out.share = 0;
    if (!ts_hold_out_same(&c->hold_out, &hold_out) || c->mean != mean) {
        c->y_made.there = c->w_made.there = 0;
        if (c->pairs != NULL)
            c->pairs->y_made.there = c->pairs->w_made.there = 0;
    }
    c->hold_out = hold_out;
    c->mean = mean;
}

/* Describes the product of the cells' values, as opposed to that of ones for known cells. */
static struct ts_gpu_cells_work values_of(struct ts_gpu_cells *c)
{
    return (struct ts_gpu_cells_work){
        .cells = c,
        .as = { .kind = learns_all(c) ? TS_CELLS_ALL : TS_CELLS_VALUES, .mean = c->mean }
    };
}

static int run_product(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err)
{
    struct ts_gpu *g = p->g;
    const struct ts_gpu_product *r = &p->product[0];
    const struct ts_gpu_cells_work values = values_of(g->cells);
    const struct ts_cells_target t = ts_gpu_cells_target(p, g->cells);
    const int rc = ts_gpu_cells_multiply(p, all, &values, 1, err);
    ts_gpu_error e;
    if (rc < 0)
        return rc;
    e = ts_cells_finish(&t, g->cells->member[p->me->number].acc,
                        r->out == TS_GPU_PRODUCT ? TS_FLOAT64 : g->precision, r->of->ld,
                        r->args.out, p->me->dense);
    return e == cudaSuccess ? 0 : fail(err, e);
}

int ts_gpu_cells_run(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err)
{
    const ts_gpu_error e = ts_gpu_log_begin(&p->me->log, p->me->dense);
    const int rc = e != cudaSuccess                         ? fail(err, e)
                   : p->ask->kind == TS_REQUEST_ERRORS      ? ts_gpu_cells_judge(p, all, err)
                   : ts_gpu_solves_observed(&p->product[0]) ? ts_gpu_cells_complete(p, all, err)
                                                            : run_product(p, all, err);
    if (rc < 0)
        return rc;
    p->kept_nnz = p->nnz; /* the feed, which lends slabs of cells, does not count nonzeros */
    return ts_gpu_rows_finish(p, err);
}
