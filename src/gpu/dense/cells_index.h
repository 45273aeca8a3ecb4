/* SPDX-License-Identifier: BSD-3-Clause */
/* cells_index.h - indices and addresses for the kernels for dense tensors (cells_kernel.h). All
 * functions are plain arithmetic, so they also run on the host.
 *
 * The rows of a matrix are cut into chunks, and chunks into steps. A sum over rows is computed for
 * each step, and the sums of steps are added in their order. The cuts follow from the tensor alone,
 * and so do the bits of the sum.
 *
 * The rows of a grid of modes are numbered with the last mode fastest. In a mode of size `dim`, row
 * p has the index p / after % dim, where `after` is the product of the sizes of the faster modes. A
 * run is a maximal sequence of rows with the same index. ts_cells_other numbers the rows with the
 * same index from 0.
 *
 *   units    rows; bytes in the functions that end in _place
 *   threads  pure
 */
#ifndef TS_GPU_CELLS_INDEX_H
#define TS_GPU_CELLS_INDEX_H

#include <stdint.h>

#ifdef __CUDACC__
#define TS_CELLS_HD static __host__ __device__ inline
#else
#define TS_CELLS_HD static inline
#endif

/* ---- cuts of rows into chunks and steps ---- */

struct ts_cells_cut {
    uint64_t rows; /* number of all rows of the matrix */
    /* rows of a chunk (rows that are on a device at once); the last chunk may have fewer */
    uint64_t chunk;
    /* rows of a step (rows that are summed together), at most a chunk; the last step of a chunk may
     * have fewer */
    uint64_t step;
    uint64_t per_chunk; /* steps of a whole chunk */
};

TS_CELLS_HD struct ts_cells_cut ts_cells_cut_of(uint64_t rows, uint64_t chunk, uint64_t step)
{
    struct ts_cells_cut c;
    c.rows = rows;
    c.chunk = chunk;
    c.step = step < chunk ? step : chunk;
    c.per_chunk = (chunk + c.step - 1) / c.step;
    return c;
}

TS_CELLS_HD uint64_t ts_cells_first(const struct ts_cells_cut *c, uint64_t step)
{
    return step / c->per_chunk * c->chunk + step % c->per_chunk * c->step;
}

TS_CELLS_HD uint64_t ts_cells_end(const struct ts_cells_cut *c, uint64_t step)
{
    const uint64_t chunk_end = (step / c->per_chunk + 1) * c->chunk;
    uint64_t end = ts_cells_first(c, step) + c->step;
    end = end < chunk_end ? end : chunk_end;
    return end < c->rows ? end : c->rows;
}

/* Returns the number of the step (range of rows summed together) that a row belongs to. For the row
 * after the last one, returns the number of steps. */
TS_CELLS_HD uint64_t ts_cells_step(const struct ts_cells_cut *c, uint64_t row)
{
    const uint64_t in = row % c->chunk;
    if (row >= c->rows)
        return c->rows == 0 ? 0 : ts_cells_step(c, c->rows - 1) + 1;
    return row / c->chunk * c->per_chunk + in / c->step;
}

/* ---- indices of rows in one mode of a grid ---- */

/* Returns an upper bound of the number of different indices in a mode that n rows in sequence have.
 * Each of these indices has a slot, in which the rows with that index are summed. */
TS_CELLS_HD uint64_t ts_cells_slots(uint64_t dim, uint64_t after, uint64_t n)
{
    const uint64_t runs = n / after + 2;
    return runs < dim ? runs : dim;
}

/* Returns the index in the mode that a slot (the sum of rows with one index) belongs to, for rows
 * from `first` on. If there are fewer slots than indices, slots are numbered by the runs (sequences
 * of rows with one index) from the first one on. */
TS_CELLS_HD uint64_t ts_cells_index_of(uint64_t dim, uint64_t after, uint64_t slots, uint64_t first,
                                       uint64_t slot)
{
    return slots == dim ? slot : (first / after + slot) % dim;
}

/* Returns the slot (the sum of rows with one index) of an index of the mode. If the result is not
 * below `slots`, the index has no slot. */
TS_CELLS_HD uint64_t ts_cells_slot_of(uint64_t dim, uint64_t after, uint64_t slots, uint64_t first,
                                      uint64_t index)
{
    const uint64_t run = slots == dim ? 0 : first / after % dim;
    return index >= run ? index - run : index + dim - run;
}

/* Numbers the rows with this index from 0, and returns the smallest number whose row is not before
 * `row`. */
TS_CELLS_HD uint64_t ts_cells_other(uint64_t dim, uint64_t after, uint64_t row, uint64_t index)
{
    const uint64_t turn = row / (dim * after), rest = row % (dim * after), at = rest / after;
    return index > at    ? turn * after
           : index == at ? turn * after + rest % after
                         : (turn + 1) * after;
}

TS_CELLS_HD uint64_t ts_cells_row(uint64_t dim, uint64_t after, uint64_t other, uint64_t index)
{
    return (other / after * dim + index) * after + other % after;
}

/* ---- pairs of columns ---- */

/* Pairs (r, s) with r <= s of `rank` columns are numbered as the upper triangle of a matrix, row
 * after row. Returns the number of the first pair in row r. */
TS_CELLS_HD uint64_t ts_cells_pair_row(uint32_t rank, uint32_t r)
{
    return (uint64_t)r * (2 * (uint64_t)rank - r + 1) / 2;
}

TS_CELLS_HD void ts_cells_pair(uint32_t rank, uint32_t pair, uint32_t *r, uint32_t *s)
{
    uint32_t low = 0, high = rank - 1; /* the row r is in low .. high */
    while (low < high) {
        const uint32_t middle = (low + high + 1) / 2;
        if (ts_cells_pair_row(rank, middle) <= pair)
            low = middle;
        else
            high = middle - 1;
    }
    *r = low;
    *s = low + (uint32_t)(pair - ts_cells_pair_row(rank, low));
}

/* ---- tiles of cells in shared memory ----
 *
 * Lane L of a warp is at (g, t) = (L / 4, L % 4). A product on tensor cores has a left operand of
 * 16 x 8, of which the lane supplies the elements (g, t), (g + 8, t), (g, t + 4) and (g + 8, t +
 * 4). The right operand has 8 x 8 elements, of which it supplies (t, g) and (t + 4, g). The order
 * of the summation index k is free: k = t and k = t + 4 are the cells 2 t and 2 t + 1 of a group of
 * 8 cells, which a lane loads at once. Groups are stored so that lanes which load at the same time
 * use different banks. */

/* rows of Y = X B, or of W = X' K, that a thread block computes (X: the matrix of cells; B and K:
 * products of factor rows) */
#define TS_CELLS_TILE 128u

/* Bytes of a row of a tile of X for Y = X B: 16 cells of float64 or 32 of float32. A tile for W =
 * X' K has 16 rows of X, of TILE cells each. */
#define TS_CELLS_LINE 128u

/* Returns the address in shared memory of byte `byte` of row `row`, in a tile of X (the matrix of
 * cells) that has TILE rows of LINE bytes. A lane loads 2 cells of one row at once. */
TS_CELLS_HD uint32_t ts_cells_along_place(uint32_t cell_bytes, uint32_t row, uint32_t byte)
{
    const uint32_t turn = cell_bytes == 8 ? (row & 1) << 2 : (row & 3) << 1;
    return row * TS_CELLS_LINE + (((byte >> 4) ^ turn) << 4) + (byte & 15);
}

/* Returns the address in shared memory of byte `byte` of row `row`, in a tile of X (the matrix of
 * cells) whose rows have TILE cells. A lane loads 2 cells of row 2 t and 2 of row 2 t + 1, where t
 * = lane % 4. */
TS_CELLS_HD uint32_t ts_cells_across_place(uint32_t cell_bytes, uint32_t row, uint32_t byte)
{
    const uint32_t turn = ((row >> 1) & 3) << 1;
    return row * TS_CELLS_TILE * cell_bytes + (((byte >> 4) ^ turn) << 4) + (byte & 15);
}

/* Returns the doubles between the starts of neighbouring rows of the right operand of a product on
 * tensor cores, which has `columns` columns. */
TS_CELLS_HD uint32_t ts_cells_right_stride(uint32_t columns)
{
    return columns + 2;
}

#endif
