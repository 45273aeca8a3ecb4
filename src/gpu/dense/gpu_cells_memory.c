/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a GPU backend for a dense tensor: the sizes of its buffers, and how much of the tensor
 * stays on the devices. */
#include <cuda_runtime.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/dense/gpu_cells.h"
#include "gpu/team/gpu_device.h"
#include "gpu/team/gpu_fail.h"
#include "gpu/team/gpu_plan.h"

/* Most bytes of each of the buffers by which one kernel passes results to the next, unless one row
 * or step needs more. With smaller buffers, launches have too few thread blocks for a large GPU. */
#define Y_BYTES     (UINT64_C(128) << 20)
#define PART_BYTES  (UINT64_C(32) << 20)
#define PIECE_BYTES (UINT64_C(128) << 20)

/* Without --gpu-memory, what stays of Y (the tensor times the factors of the inner modes) takes at
 * most BESIDE_BYTES + twice the factors - other work memory, or 1 / BESIDE_PART of the cells,
 * whichever is more. */
#define BESIDE_BYTES (UINT64_C(1) << 30)
#define BESIDE_PART  16u

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t place_of(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

int ts_gpu_cells_direct(const struct ts_dense *d)
{
    return d->array.memory == NULL && !d->array.swapped &&
           (d->array.type == TS_CELL_F32 || d->array.type == TS_CELL_F64);
}

static uint64_t slab_cells(const struct ts_dense *d)
{
    return ts_dense_most_bytes(d) / d->cell_bytes;
}

static uint64_t stage_bytes(const struct ts_dense *d)
{
    const uint64_t cell_bytes = ts_cell_is_narrow(d->array.type) ? 4 : 8;
    return ts_gpu_cells_direct(d) ? 0 : place_of(slab_cells(d) * cell_bytes);
}

uint64_t ts_gpu_cells_host_bytes(const struct ts_backend_conf *conf)
{
    const struct ts_dense *d = conf->tensor->dense;
    return d == NULL ? 0 : TS_GPU_CELLS_HOLD * stage_bytes(d) + d->n_slabs;
}

uint64_t ts_gpu_cells_chunk_bytes(const struct ts_gpu *g)
{
    const struct ts_cells_shape *s = &g->cells->shape;
    return place_of(s->chunk_rows * s->chunk_cols * s->cell_bytes);
}

uint64_t ts_gpu_cells_y_bytes(const struct ts_gpu *g)
{
    const struct ts_gpu_cells *c = g->cells;
    return place_of(c->y_kept * c->shape.ld * sizeof(double));
}

double ts_gpu_cells_y_part(const struct ts_gpu *g)
{
    return (double)g->cells->y_kept / (double)g->cells->most_rows;
}

uint64_t ts_gpu_cells_steps(const struct ts_gpu_cells *c, const struct ts_cells_target *t)
{
    const uint64_t n = c->part_elements / ((uint64_t)t->slots * c->shape.ld);
    return n > 0 ? n : 1;
}

/* Returns the elements that a row of Y (cells times inner factors) and its partial sums take in
 * scratch memory. */
static uint64_t y_elements(const struct ts_cells_shape *s)
{
    const int parts = s->n_parts > 1 || s->chunk_cols < s->cols;
    return s->ld * (parts ? 1 + s->n_parts : 1);
}

void ts_gpu_cells_choose(struct ts_gpu_cells *c)
{
    const struct ts_cells_shape *s = &c->shape;
    const uint64_t piece = s->chunk_cols * s->ld, pieces = PIECE_BYTES / (8 * piece);
    c->part_elements = PART_BYTES / 8;
    c->y_rows = Y_BYTES / (8 * y_elements(s));
    for (uint32_t m = 0; m < s->dense->array.order; m++) {
        struct ts_cells_target t;
        uint32_t others[TS_MAX_ORDER];
        ts_cells_target_of(s, m, &t, others);
        c->acc_elements = more(c->acc_elements, t.n_shares * t.share_slots * s->ld);
        c->part_elements = more(c->part_elements, (uint64_t)t.slots * s->ld);
        if (ts_cells_is_outer(s, m))
            c->y_rows = more(c->y_rows, t.cut.step);
    }
    c->y_rows = less(c->y_rows, s->rows);
    /* not more than the sums of all steps, and W of all pieces (both ranges of rows), need */
    c->part_elements = less(c->part_elements, more(s->rows, s->cols) * 3 * s->ld);
    c->piece_elements = piece * less(more(pieces, 1), ts_cells_step(&s->piece, s->rows));
}

int ts_gpu_cells_new(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err)
{
    const struct ts_dense *d = conf->tensor->dense;
    struct ts_gpu_cells *c = calloc(1, sizeof *c);
    if (c == NULL || (c->keep = calloc(d->n_slabs, 1)) == NULL) {
        free(c);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    }
    g->cells = c;
    c->threads = conf->threads > 0 ? conf->threads : 1;
    c->asked = conf->device_bytes;
    ts_cells_shape_new(d, conf->rank, &c->shape);
    for (uint32_t i = 0; i < g->n_members; i++) {
        struct ts_gpu_cells_member *m = &c->member[i];
        m->row = ts_cells_share_row(&c->shape, c->shape.n_shares * i / g->n_members);
        m->end = ts_cells_share_row(&c->shape, c->shape.n_shares * (i + 1) / g->n_members);
        m->kept_end = m->row;
        c->most_rows = more(c->most_rows, m->end - m->row);
    }
    ts_gpu_cells_choose(c);
    return ts_gpu_cells_pairs_new(g, err);
}

/* Frees g->cells. To be called when the devices are idle. */
void ts_gpu_cells_free(struct ts_gpu *g)
{
    if (g->cells == NULL)
        return;
    for (int i = 0; i < TS_GPU_CELLS_HOLD; i++)
        if (g->cells->stage[i] != NULL)
            cudaFreeHost(g->cells->stage[i]);
    free(g->cells->pairs);
    free(g->cells->keep);
    free(g->cells);
}

static void *take_elements(char *base, uint64_t *used, uint64_t elements)
{
    char *at = base == NULL ? NULL : base + *used;
    *used += place_of(elements * sizeof(double));
    return at;
}

void ts_gpu_cells_take(const struct ts_gpu *g, struct ts_gpu_cells *c, struct ts_gpu_member *me,
                       char *base, uint64_t *used)
{
    const struct ts_cells_shape *s = &c->shape;
    struct ts_gpu_cells_member none, *m = base == NULL ? &none : &c->member[me->number];
    const uint64_t w = s->cols * s->ld;
    m->b = take_elements(base, used, w);
    m->u = take_elements(base, used, s->n_u * s->ld);
    m->v = take_elements(base, used, s->n_v * s->ld);
    m->w = take_elements(base, used, w);
    m->share_sum = g->n_members > 1 ? take_elements(base, used, w * s->n_shares) : m->b;
    m->acc = take_elements(base, used, c->acc_elements);
    m->scratch = take_elements(
        base, used, more(c->y_rows * y_elements(s) + c->part_elements, c->piece_elements));
}

void ts_gpu_cells_lay_out(const struct ts_gpu *g, struct ts_gpu_member *me, char *base,
                          uint64_t *used)
{
    ts_gpu_cells_take(g, g->cells, me, base, used);
    ts_gpu_cells_pairs_take(g, me, base, used);
}

/* Returns how many rows of Y (cells times inner factors), in whole chunks, a member (GPU) can keep
 * in `bytes` bytes. */
static uint64_t y_rows_in(const struct ts_gpu_cells *c, uint64_t bytes)
{
    const struct ts_cells_shape *s = &c->shape;
    const uint64_t rows = bytes / (s->ld * sizeof(double));
    return rows >= c->most_rows ? c->most_rows : rows / s->chunk_rows * s->chunk_rows;
}

/* Returns the most bytes of Y (cells times inner factors) that are kept, if all cells (`all` bytes)
 * stay on the device and leave `left` bytes free. */
static uint64_t y_room(const struct ts_gpu *g, uint64_t all, uint64_t left)
{
    const uint64_t work = ts_gpu_device_work_bytes(g);
    const uint64_t beside = BESIDE_BYTES + 2 * ts_gpu_plan_factors(g);
    const uint64_t room = more(beside > work ? beside - work : 0, all / BESIDE_PART);
    return g->cells->asked > 0 ? left : less(left, room);
}

/* Keeps all cells on the devices if they fit into `left` bytes, and as much of Y (the cells times
 * the inner factors) as fits then. If cells have to be sent in each pass, Y comes first, because it
 * saves passes. */
void ts_gpu_cells_plan(struct ts_gpu *g, uint64_t left)
{
    struct ts_gpu_cells *c = g->cells;
    const struct ts_cells_shape *s = &c->shape;
    const uint64_t row_bytes = s->cols * s->cell_bytes, all = place_of(c->most_rows * row_bytes);
    const uint64_t y = place_of(c->most_rows * s->ld * sizeof(double));
    uint64_t kept = c->most_rows;
    if (s->dense->n_outer > 1 && all <= left)
        c->y_kept = y_rows_in(c, y_room(g, all, left - all));
    else if (s->dense->n_outer > 1 && y <= left / 2)
        c->y_kept = c->most_rows;
    if (all > left) {
        g->slot_bytes = ts_gpu_cells_chunk_bytes(g);
        if (left < ts_gpu_cells_y_bytes(g) + 2 * g->slot_bytes) /* streamed cells need two slots */
            c->y_kept = 0;
        left -= ts_gpu_cells_y_bytes(g);
        g->n_slots = 3 * g->slot_bytes <= left / 2 ? 3 : 2;
        left -= g->n_slots * g->slot_bytes;
        kept = left / row_bytes / s->chunk_rows * s->chunk_rows;
        if (s->chunk_cols < s->cols)
            kept = left / row_bytes;
    }
    for (uint32_t i = 0; i < g->n_members; i++) {
        struct ts_gpu_cells_member *m = &c->member[i];
        m->kept_end = less(m->row + kept, m->end);
        m->y_end = less(m->row + c->y_kept, m->end);
    }
    for (uint64_t k = 0; k < s->dense->n_slabs; k++) {
        struct ts_dense_part part;
        ts_dense_slab(s->dense, k, &part);
        for (uint32_t i = 0; i < g->n_members; i++)
            if (part.row >= c->member[i].row && part.row < c->member[i].kept_end)
                c->keep[k] = 1;
    }
    g->store_bytes = ts_gpu_cells_y_bytes(g) + g->n_slots * g->slot_bytes +
                     place_of(less(kept, c->most_rows) * row_bytes);
}

void ts_gpu_cells_store(struct ts_gpu *g, struct ts_gpu_member *me)
{
    struct ts_gpu_cells_member *m = &g->cells->member[me->number];
    m->kept = me->store + g->n_slots * g->slot_bytes;
    m->all_y = (double *)(me->store + g->store_bytes - ts_gpu_cells_y_bytes(g));
}
