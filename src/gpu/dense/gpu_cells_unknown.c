/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of the known cells of a dense tensor: Gram matrices of rows from products of pairs of
 * columns, row updates, and errors.
 *
 * The sums of a row are its Gram matrix, its right side m and its number of known cells. They come
 * from two products. The product of ones (known cells) and zeros (unknown cells) gives the Gram
 * matrix by pairs of columns, and the number of known cells by a column of ones. The product of the
 * values gives the right side m of the row's equations. Every member (GPU) has the sums of all
 * rows, and solves all rows. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

#include "base/trace.h"
#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/pass/gpu_requests.h"
#include "gpu/team/gpu_team.h"
#include "gpu/observed/observed_kernel.h"

/* most column pairs of a group. Up to rank 32 one group has all pairs, so the cells are read once
 * for both products (of zeros and ones, and of values) */
#define MOST_COLUMNS 544u
/* cells of a unit (whose errors are summed together): so many that its sums take little memory
 * compared to them */
#define UNIT_CELLS (UINT64_C(1) << 16)
#define UNIT_COLS  1024u
#define FETCHED    4096u /* units (blocks of cells) whose errors are copied to the host at once */

static int fail(struct ts_err *err, ts_gpu_error e, const char *what)
{
    return ts_gpu_fail(err, e, what);
}

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- numbers of column pairs and units */

/* Returns the number of pairs of columns, plus 1 for the column of ones that counts cells. */
static uint32_t columns_of(uint32_t rank)
{
    return (uint32_t)ts_cells_pair_row(rank, rank) + 1;
}

static uint64_t in_tiles(uint64_t n)
{
    return ts_cells_ceil_div(n, TS_CELLS_ERROR_TILE) * TS_CELLS_ERROR_TILE;
}

/* Chooses units (blocks of cells whose errors are summed together) of UNIT_CELLS cells, or fewer if
 * a chunk has fewer. The cuts follow from the tensor alone. */
static void choose_units(struct ts_gpu_cells *c)
{
    const struct ts_cells_shape *s = &c->shape;
    const uint64_t cols = less(s->chunk_cols, UNIT_COLS);
    const uint64_t rows = less(in_tiles(ts_cells_ceil_div(UNIT_CELLS, cols)), s->chunk_rows);
    c->unit = ts_cells_cut_of(s->rows, s->chunk_rows, rows);
    c->unit_cols = in_tiles(more(cols, ts_cells_ceil_div(UNIT_CELLS, rows)));
    c->chunk_units = ts_cells_ceil_div(s->chunk_cols, c->unit_cols);
    c->unit_parts = ts_cells_ceil_div(s->cols, s->chunk_cols) * c->chunk_units;
}

static uint64_t count_units(const struct ts_gpu_cells *c)
{
    return ts_cells_step(&c->unit, c->shape.rows) * c->unit_parts;
}

int ts_gpu_cells_pairs_new(struct ts_gpu *g, struct ts_err *err)
{
    struct ts_gpu_cells *c = g->cells, *pairs;
    const uint32_t columns = columns_of(g->model[0].rank);
    choose_units(c);
    if (!g->observes || g->model[0].rank > ts_observed_most(g->precision))
        /* the run has no models of observed cells, or does not support their rank and only
         * estimates memory */
        return 0;
    pairs = c->pairs = calloc(1, sizeof *pairs);
    if (pairs == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", g->tensor->path);
    pairs->n_groups = (uint32_t)ts_cells_ceil_div(columns, MOST_COLUMNS);
    ts_cells_shape_new(c->shape.dense, (uint32_t)ts_cells_ceil_div(columns, pairs->n_groups),
                       &pairs->shape);
    for (uint32_t i = 0; i < g->n_members; i++) {
        pairs->member[i].row = c->member[i].row;
        pairs->member[i].end = c->member[i].end;
    }
    ts_gpu_cells_choose(pairs);
    return 0;
}

static void *take_bytes(char *base, uint64_t *used, uint64_t bytes)
{
    char *at = base == NULL ? NULL : base + *used;
    *used += (bytes + 255) / 256 * 256;
    return at;
}

void ts_gpu_cells_pairs_take(const struct ts_gpu *g, struct ts_gpu_member *me, char *base,
                             uint64_t *used)
{
    struct ts_gpu_cells *c = g->cells, *pairs = c->pairs;
    struct ts_gpu_cells_member none, *m = base == NULL ? &none : &c->member[me->number];
    const struct ts_cells_shape *s = &c->shape;
    uint64_t most = 0;
    if (!ts_gpu_cells_may_mark(g))
        return;
    m->marked =
        take_bytes(base, used, s->chunk_rows * ts_cells_mark_pitch(s->chunk_cols) * s->cell_bytes);
    m->errors = take_bytes(base, used, 8 * TS_CELLS_ERRORS * count_units(c));
    if (pairs == NULL)
        return;
    ts_gpu_cells_take(g, pairs, me, base, used);
    for (uint32_t k = 0; k < g->tensor->order; k++) {
        double *at = take_bytes(base, used, 8 * g->mode[k].n_rows * pairs->shape.ld);
        most = more(most, g->mode[k].n_rows);
        if (base != NULL)
            pairs->member[me->number].pair[k] = at;
    }
    m->part = take_bytes(base, used, 8 * most * ts_observed_part(g->model[0].rank));
    m->part_row = take_bytes(base, used, 4 * (most + 1));
}

/* ---- cells that are held out */

struct ts_cells_places ts_gpu_cells_places(const struct ts_gpu *g)
{
    const struct ts_dense *d = g->cells->shape.dense;
    struct ts_cells_places p = { .order = d->array.order, .n_outer = d->n_outer };
    for (uint32_t l = 0; l < p.order; l++) {
        p.layout[l] = d->layout[l];
        p.dim[l] = d->array.dim[d->layout[l]];
    }
    return p;
}

ts_gpu_error ts_gpu_cells_mark(const struct ts_gpu *g, struct ts_gpu_member *me,
                               struct ts_cells_x *x)
{
    const struct ts_cells_places places = ts_gpu_cells_places(g);
    void *to = g->cells->member[me->number].marked;
    const ts_gpu_error e = ts_cells_mark(x, &places, &g->cells->hold_out, to, me->dense);
    x->cell = to;
    x->pitch = ts_cells_mark_pitch(x->n_cols);
    return e;
}

/* ---- sums and solutions of rows */

/* Computes the products of n column pairs, from pair `first` on, of the factors of all other
 * modes. */
static ts_gpu_error make_pairs(struct ts_gpu_pass *p, uint32_t first, uint32_t n)
{
    const struct ts_gpu *g = p->g;
    const struct ts_gpu_cells *pairs = g->cells->pairs;
    const struct ts_gpu_product *r = &p->product[0];
    ts_gpu_error e = cudaSuccess;
    for (uint32_t m = 0; m < g->tensor->order && e == cudaSuccess; m++)
        if (m != p->ask->mode)
            e = ts_cells_pairs(g->precision, r->my->factor[m], g->mode[m].n_rows, r->of->ld,
                               r->of->rank, first, n, pairs->member[p->me->number].pair[m],
                               pairs->shape.ld, p->me->dense);
    return e;
}

/* Copies columns first .. first + n - 1 of a product to the sums of rows (Gram matrices and right
 * sides), from column `to` on. */
static ts_gpu_error put_columns(struct ts_gpu_pass *p, const struct ts_gpu_cells *c, uint32_t to,
                                uint32_t first, uint32_t n)
{
    const uint32_t number = p->me->number;
    struct ts_cells_target t = ts_gpu_cells_target(p, c);
    t.others.rank = n;
    return ts_cells_part(&t, c->member[number].acc + first, to,
                         ts_observed_part(p->product[0].of->rank), p->g->cells->member[number].part,
                         p->me->dense);
}

/* Copies the sums over column pairs first .. first + n - 1 to the sums of rows. In the sums of a
 * row, the right side m follows the last pair, and then the count of cells. */
static ts_gpu_error put_pairs(struct ts_gpu_pass *p, uint32_t first, uint32_t n)
{
    const struct ts_gpu_cells *pairs = p->g->cells->pairs;
    const uint32_t rank = p->product[0].of->rank, n_pairs = columns_of(rank) - 1;
    const uint32_t k = (uint32_t)less(n, n_pairs - first);
    ts_gpu_error e = cudaSuccess;
    if (k > 0)
        e = put_columns(p, pairs, first, 0, k);
    if (k < n)
        TRY(e, put_columns(p, pairs, n_pairs + rank, k, 1));
    return e;
}

/* Waits until all members (GPUs) have finished a group of column pairs, whose memory the next group
 * overwrites. */
static int end_group(struct ts_gpu_pass *p, struct ts_err *err)
{
    const ts_gpu_error e = cudaEventRecord(p->me->over, p->me->dense);
    const int rc = e == cudaSuccess ? ts_gpu_team_wait(p->g, p->me, p->me->over, err)
                                    : fail(err, e, "sums of rows");
    return rc == 0 ? ts_gpu_team_barrier(p->g, err) : rc;
}

/* Computes the sums of rows for a group of column pairs and, with the first group, for the cells'
 * values. */
static int add_group(struct ts_gpu_pass *p, struct ts_gpu_pass *all, uint32_t group,
                     struct ts_err *err)
{
    struct ts_gpu_cells *c = p->g->cells, *pairs = c->pairs;
    const struct ts_gpu_cells_work work[2] = {
        { .cells = pairs, .as = { .kind = TS_CELLS_KNOWN } },
        { .cells = c, .as = { .kind = TS_CELLS_VALUES, .mean = c->mean } },
    };
    const uint32_t rank = p->product[0].of->rank, columns = columns_of(rank);
    const uint32_t first = group * pairs->shape.rank;
    const uint32_t n = (uint32_t)less(pairs->shape.rank, columns - first);
    ts_gpu_error e = make_pairs(p, first, n);
    int rc = e == cudaSuccess ? 0 : fail(err, e, "pairs of columns");
    if (rc == 0)
        rc = ts_gpu_cells_multiply(p, all, work, group == 0 ? 2 : 1, err);
    if (rc < 0)
        return rc;
    e = put_pairs(p, first, n);
    if (group == 0)
        TRY(e, put_columns(p, c, columns - 1, 0, rank));
    if (e != cudaSuccess)
        return fail(err, e, "sums of rows");
    return group + 1 < pairs->n_groups ? end_group(p, err) : 0;
}

int ts_gpu_cells_complete(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err)
{
    struct ts_gpu_member *me = p->me;
    const struct ts_gpu_cells_member *m = &p->g->cells->member[me->number];
    const uint64_t n_rows = p->mode->n_rows;
    ts_gpu_error e = ts_cells_number(m->part_row, n_rows, (n_rows + 1) / 2 * 2, me->dense);
    int rc = e == cudaSuccess ? 0 : fail(err, e, "sums of rows");
    for (uint32_t k = 0; k < p->g->cells->pairs->n_groups && rc == 0; k++)
        rc = add_group(p, all, k, err);
    if (rc < 0)
        return rc;
    e = ts_gpu_log_start(&me->log, TS_GPU_SOLVE, "rows", TS_TRACE_SOLVE, me->dense);
    TRY(e, ts_gpu_observed_solve(&p->product[0], m->part, m->part_row));
    TRY(e, ts_gpu_log_stop(&me->log, me->dense, TS_TRACE_NO_SHARD, 0));
    return e == cudaSuccess ? 0 : fail(err, e, "rows of observed cells");
}

/* ---- errors of a model */

/* Computes the errors of a block, which has all columns of its rows or those of a chunk. */
static ts_gpu_error judge_block(struct ts_gpu_cells_job *j, struct ts_gpu_member *me,
                                const struct ts_gpu_cells_block *b)
{
    const struct ts_gpu_cells *c = j->g->cells;
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_gpu_cells_member *m = &c->member[me->number];
    const struct ts_error_sums *ask = j->pass[me->number]->ask->of[0].errors;
    struct ts_cells_errors what = { .b = m->b,
                                    .u = m->u,
                                    .v = m->v,
                                    .n_v = s->n_v,
                                    .ld = s->ld,
                                    .mean = ask->mean,
                                    .hold_out = ask->hold_out,
                                    .places = ts_gpu_cells_places(j->g),
                                    .cut = c->unit,
                                    .unit_cols = c->unit_cols,
                                    .n_parts = c->unit_parts,
                                    .sums = m->errors };
    ts_gpu_error e = cudaSuccess;
    for (uint64_t col = b->col; col < b->col + b->n_cols && e == cudaSuccess;
         col += s->chunk_cols) {
        const uint64_t n = less(b->col + b->n_cols - col, s->chunk_cols);
        const struct ts_cells_x x = ts_gpu_cells_part_of(s, b, b->row, b->row + b->n_rows, col, n);
        what.first_part = col / s->chunk_cols * c->chunk_units;
        e = ts_cells_judge(&x, &what, me->dense);
    }
    return e;
}

int ts_gpu_cells_judge(struct ts_gpu_pass *p, struct ts_gpu_pass *all, struct ts_err *err)
{
    struct ts_gpu_cells *c = p->g->cells;
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_gpu_cells_member *m = &c->member[p->me->number];
    struct ts_gpu_cells_job j = { .compute = judge_block };
    ts_gpu_error e = ts_gpu_cells_table(p, c, s->dense->n_outer, s->dense->array.order, m->b);
    TRY(e, ts_gpu_cells_table(p, c, 0, s->n_slow, m->u));
    TRY(e, ts_gpu_cells_table(p, c, s->n_slow, s->dense->n_outer, m->v));
    TRY(e, cudaMemsetAsync(m->errors, 0, 8 * TS_CELLS_ERRORS * count_units(c), p->me->dense));
    return e == cudaSuccess ? ts_gpu_cells_enqueue(p, all, &j, err)
                            : fail(err, e, "errors of a model");
}

static void add(struct ts_cell_errors *to, const double *from)
{
    to->n += from[0];
    to->sum += from[1];
    to->squares += from[2];
    to->inner += from[3];
    to->left += from[4];
}

/* Adds the errors of a member's units (blocks of cells) first .. end - 1, which are copied through
 * `room`. */
static ts_gpu_error add_units(struct ts_gpu_member *me, const double *from, uint64_t first,
                              uint64_t end, double *room, struct ts_error_sums *sums)
{
    ts_gpu_error e = cudaSetDevice(me->device);
    for (uint64_t at = first; at < end && e == cudaSuccess; at += FETCHED) {
        const uint64_t n = less(end - at, FETCHED);
        e = cudaMemcpyAsync(room, from + at * TS_CELLS_ERRORS, 8 * TS_CELLS_ERRORS * n,
                            cudaMemcpyDeviceToHost, me->dense);
        TRY(e, cudaStreamSynchronize(me->dense));
        for (uint64_t k = 0; k < n && e == cudaSuccess; k++) {
            add(&sums->kept, room + TS_CELLS_ERRORS * k);
            add(&sums->held, room + TS_CELLS_ERRORS * k + TS_CELLS_ERRORS / 2);
        }
    }
    return e;
}

/* Adds up the errors of all units (blocks of cells), in the order of the array for any number of
 * members (GPUs). */
int ts_gpu_cells_add_errors(struct ts_gpu *g, struct ts_error_sums *sums, struct ts_err *err)
{
    const struct ts_gpu_cells *c = g->cells;
    double *room = malloc(8 * TS_CELLS_ERRORS * FETCHED);
    ts_gpu_error e = cudaSuccess;
    if (room == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for errors of a model");
    sums->kept = sums->held = (struct ts_cell_errors){ 0 };
    for (uint32_t i = 0; i < g->n_members && e == cudaSuccess; i++)
        e = add_units(&g->member[i], c->member[i].errors,
                      ts_cells_step(&c->unit, c->member[i].row) * c->unit_parts,
                      ts_cells_step(&c->unit, c->member[i].end) * c->unit_parts, room, sums);
    free(room);
    TRY(e, cudaSetDevice(g->member[0].device));
    return e == cudaSuccess ? 0 : fail(err, e, "errors of a model");
}

/* ---- first launches of kernels */

/* Launches the kernels on one cell, so that their code is loaded. The member's factors are not set
 * yet. */
ts_gpu_error ts_gpu_cells_pairs_warm(struct ts_gpu *g, struct ts_gpu_member *me)
{
    struct ts_gpu_cells *c = g->cells;
    const struct ts_gpu_cells_member *m = &c->member[me->number];
    const struct ts_cells_shape *s = &c->shape;
    const struct ts_cells_cut one = ts_cells_cut_of(1, 1, 1);
    const struct ts_hold_out hold_out = { .share = 0.5 };
    const struct ts_cells_errors errors = { .b = m->b,
                                            .u = m->u,
                                            .v = m->v,
                                            .n_v = 1,
                                            .ld = s->ld,
                                            .places = ts_gpu_cells_places(g),
                                            .cut = one,
                                            .unit_cols = 1,
                                            .n_parts = 1,
                                            .sums = m->errors };
    struct ts_cells_x x = { .cell = m->b,
                            .as = { .kind = TS_CELLS_VALUES },
                            .narrow = s->narrow,
                            .pitch = s->cols,
                            .n_rows = 1,
                            .n_cols = 1 };
    ts_gpu_error e = cudaSuccess;
    if (!ts_gpu_cells_may_mark(g))
        return e;
    e = ts_cells_mark(&x, &errors.places, &hold_out, m->marked, me->dense);
    TRY(e, ts_cells_judge(&x, &errors, me->dense));
    TRY(e, ts_cells_along(&x, m->b, s->rank, s->ld, 32, m->scratch, 0, me->dense));
    TRY(e, ts_cells_across(&x, &one, m->u, m->v, 1, s->rank, s->ld, m->scratch, me->dense));
    if (c->pairs == NULL)
        return e;
    TRY(e, ts_cells_number(m->part_row, 1, 2, me->dense));
    TRY(e, ts_gpu_observed_solve_warm(&g->model[0], me, m->part, m->part_row));
    s = &c->pairs->shape;
    m = &c->pairs->member[me->number];
    x.as.kind = TS_CELLS_KNOWN;
    TRY(e, ts_cells_along(&x, m->b, s->rank, s->ld, 32, m->scratch, 0, me->dense));
    TRY(e, ts_cells_across(&x, &one, m->u, m->v, 1, s->rank, s->ld, m->scratch, me->dense));
    return e;
}
