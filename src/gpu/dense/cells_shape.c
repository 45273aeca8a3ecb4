/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts a dense tensor for GPUs into chunks (sent to a device at once), shares (groups of chunks),
 * and steps (ranges of rows that are summed together). */
#include "gpu/dense/cells_shape.h"

/* most cells of a chunk: 128 MiB of float64, so that two chunks fit in a small --gpu-memory */
#define CHUNK_CELLS (UINT64_C(1) << 24)
#define CHUNK_SLABS 32u
/* most rows of a piece (rows summed into one W, the cells times the outer factors): each piece
 * writes and reads its W once */
#define PIECE_ROWS 2048u
/* a piece has a multiple of this many rows, which are multiplied at once */
#define PIECE_UNIT 16u
#define PART_UNIT  32u
/* fewest columns of a part (columns summed into one Y, the cells times the inner factors): each
 * part writes and reads its Y once */
#define PART_COLS 1536u
/* number of thread blocks from which on the multiprocessors that are idle at the end of a launch do
 * not matter */
#define BLOCKS 4096u
/* usual rows of a step (rows summed together); one thread adds the rows with one index */
#define STEP_ROWS 512u
#define MOST_STEP 8192u

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return ts_cells_ceil_div(n, to) * to;
}

/* Returns the product of the sizes of the modes after position l of the layout (the order of modes
 * in memory), within the outer or the inner modes. */
static uint64_t behind(const struct ts_dense *d, uint32_t l)
{
    const uint32_t end = l < d->n_outer ? d->n_outer : d->array.order;
    uint64_t n = 1;
    for (uint32_t k = l + 1; k < end; k++)
        n *= d->array.dim[d->layout[k]];
    return n;
}

static void choose_chunks(struct ts_cells_shape *s)
{
    const struct ts_dense *d = s->dense;
    const uint64_t most = CHUNK_CELLS / (d->slab_rows * d->slab_cols);
    s->chunk_cols = d->slab_cols;
    s->chunk_slabs = d->slab_cols < d->inner || most == 0 ? 1 : less(most, CHUNK_SLABS);
    s->chunk_rows = less(d->slab_rows * s->chunk_slabs, s->rows);
    s->n_chunks = ts_cells_ceil_div(s->rows, s->chunk_rows);
}

/* Returns the rows of the largest of n shares (groups of chunks). */
static uint64_t share_rows(const struct ts_cells_shape *s, uint32_t n)
{
    return ts_cells_ceil_div(s->n_chunks, n) * s->chunk_rows;
}

/* Whether n shares (groups of chunks) are too many: for some outer mode, the sums of all shares
 * would have more rows than the factor, and more than a quarter of the array's rows. */
static int are_too_many(const struct ts_cells_shape *s, uint32_t n)
{
    const struct ts_dense *d = s->dense;
    for (uint32_t l = 0; l < d->n_outer; l++) {
        const uint64_t dim = d->array.dim[d->layout[l]];
        const uint64_t all = n * ts_cells_slots(dim, behind(d, l), share_rows(s, n));
        if (all > dim + 4 * (uint64_t)n && all > s->rows / 4)
            return 1;
    }
    return 0;
}

static void choose_shares(struct ts_cells_shape *s)
{
    uint32_t n = TS_CELLS_SHARES;
    while (n > 1 && (n > s->n_chunks || are_too_many(s, n)))
        n /= 2;
    s->n_shares = n;
    for (uint32_t k = 0; k <= n; k++)
        s->share[k] = s->n_chunks * k / n;
}

static void choose_steps(struct ts_cells_shape *s)
{
    const uint64_t tiles = ts_cells_ceil_div(s->rows, TS_CELLS_TILE) *
                           ts_cells_ceil_div(s->ld, ts_cells_width(s->rank));
    const uint64_t pieces = ts_cells_ceil_div(s->chunk_rows, PIECE_ROWS);
    uint64_t parts = less(ts_cells_ceil_div(BLOCKS, tiles), s->chunk_cols / PART_COLS);
    parts = tiles >= BLOCKS || parts == 0 ? 1 : parts;
    s->piece = ts_cells_cut_of(s->rows, s->chunk_rows,
                               round_up(ts_cells_ceil_div(s->chunk_rows, pieces), PIECE_UNIT));
    s->part_cols = round_up(ts_cells_ceil_div(s->chunk_cols, parts), PART_UNIT);
    s->n_parts = ts_cells_ceil_div(s->chunk_cols, s->part_cols);
}

/* Chooses the outer modes whose factor rows are multiplied into the table U. The table V takes the
 * other outer modes, and U and V together have fewest rows. Of two equal choices it takes the one
 * with fewer rows of V, which are read in turn. */
static void choose_tables(struct ts_cells_shape *s)
{
    const struct ts_dense *d = s->dense;
    uint64_t slow = 1;
    s->n_slow = 0;
    s->n_u = 1;
    s->n_v = s->rows;
    for (uint32_t l = 0; l < d->n_outer; l++) {
        slow *= d->array.dim[d->layout[l]];
        if (slow + s->rows / slow > s->n_u + s->n_v)
            continue;
        s->n_slow = l + 1;
        s->n_u = slow;
        s->n_v = s->rows / slow;
    }
}

void ts_cells_shape_new(const struct ts_dense *d, uint32_t rank, struct ts_cells_shape *ret)
{
    *ret = (struct ts_cells_shape){ .dense = d,
                                    .rank = rank,
                                    .ld = (rank + 7) / 8 * 8,
                                    .narrow = ts_cell_is_narrow(d->array.type),
                                    .rows = d->outer,
                                    .cols = d->inner };
    ret->cell_bytes = ret->narrow ? 4 : 8;
    choose_chunks(ret);
    choose_shares(ret);
    choose_steps(ret);
    choose_tables(ret);
}

int ts_cells_is_outer(const struct ts_cells_shape *s, uint32_t mode)
{
    for (uint32_t l = 0; l < s->dense->n_outer; l++)
        if (s->dense->layout[l] == mode)
            return 1;
    return 0;
}

uint64_t ts_cells_share_row(const struct ts_cells_shape *s, uint32_t share)
{
    return less(s->share[share] * s->chunk_rows, s->rows);
}

static void add_mode(const struct ts_cells_shape *s, uint32_t mode, struct ts_cells_grid *g,
                     uint32_t *modes)
{
    g->dim[g->n] = s->dense->array.dim[mode];
    modes[g->n++] = mode;
}

void ts_cells_grid_of(const struct ts_cells_shape *s, uint32_t first, uint32_t end,
                      struct ts_cells_grid *ret, uint32_t modes[TS_MAX_ORDER])
{
    *ret = (struct ts_cells_grid){ .rank = s->rank, .ld = s->ld };
    for (uint32_t l = first; l < end; l++)
        add_mode(s, s->dense->layout[l], ret, modes);
}

/* Returns the number of rows of a step: so large that the slots of its sums (one for each index)
 * are few compared to its rows. */
static uint64_t step_rows(uint64_t dim, uint64_t after)
{
    if (8 * ts_cells_slots(dim, after, STEP_ROWS) <= STEP_ROWS)
        return STEP_ROWS;
    return dim >= MOST_STEP / 16 ? MOST_STEP : dim < STEP_ROWS / 16 ? STEP_ROWS : 16 * dim;
}

/* Describes the MTTKRP of a mode (the target). Modes of size 1 come first in `others` (the other
 * modes of the target), so that the last one, whose index varies fastest, has several indices. A
 * thread can loop over these. */
void ts_cells_target_of(const struct ts_cells_shape *s, uint32_t mode, struct ts_cells_target *ret,
                        uint32_t others[TS_MAX_ORDER])
{
    const struct ts_dense *d = s->dense;
    const int outer = ts_cells_is_outer(s, mode);
    const uint32_t first = outer ? 0 : d->n_outer, end = outer ? d->n_outer : d->array.order;
    const uint64_t rows = outer ? s->rows : s->cols, chunk = outer ? s->chunk_rows : s->cols;
    uint32_t at = first;
    uint64_t most = 0;
    *ret = (struct ts_cells_target){ .others = { .rank = s->rank, .ld = s->ld },
                                     .dim = d->array.dim[mode] };
    while (d->layout[at] != mode)
        at++;
    for (int longer = 0; longer < 2; longer++)
        for (uint32_t l = first; l < end; l++)
            if (l != at && (d->array.dim[d->layout[l]] > 1) == longer)
                add_mode(s, d->layout[l], &ret->others, others);
    ret->after = behind(d, at);
    ret->cut = ts_cells_cut_of(rows, chunk, step_rows(ret->dim, ret->after));
    ret->slots = (uint32_t)ts_cells_slots(ret->dim, ret->after, ret->cut.step);
    ret->n_shares = outer ? s->n_shares : 1;
    for (uint32_t k = 0; k <= ret->n_shares; k++) {
        const uint64_t row = outer ? ts_cells_share_row(s, k) : k * s->cols;
        ret->share[k] = ts_cells_step(&ret->cut, row);
        if (k > 0) {
            const uint64_t before = outer ? ts_cells_share_row(s, k - 1) : 0;
            most = row - before > most ? row - before : most;
        }
    }
    ret->share_slots = ts_cells_slots(ret->dim, ret->after, most);
}
