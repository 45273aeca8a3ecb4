/* SPDX-License-Identifier: BSD-3-Clause */
/* cells_shape.h - how the work on a dense tensor is cut for GPUs. All of it follows from the tensor
 * and the rank, so that sums have the same order for any number of devices and any memory.
 *
 * Rows of the array (format/arrays/dense.h) are cut into chunks, some slabs each: what is sent to a
 * device and computed on at a time. Where slabs are parts of rows, a chunk is a slab. The chunks
 * are dealt out to up to 16 shares, of which each device has some; what shares sum up is added in
 * their order.
 *
 *   units    rows and columns of the array; elements
 *   threads  pure
 */
#ifndef TS_GPU_CELLS_SHAPE_H
#define TS_GPU_CELLS_SHAPE_H

#include "format/arrays/dense.h"
#include "gpu/dense/cells_kernel.h"

#define TS_CELLS_SHARES 16u

struct ts_cells_shape {
    const struct ts_dense *dense;
    uint32_t rank, ld;   /* rank and stride of tables */
    int narrow;          /* cells are float32 on the device */
    uint32_t cell_bytes; /* there */
    uint64_t rows, cols;
    uint64_t chunk_rows, chunk_cols, chunk_slabs; /* sizes of a whole chunk */
    uint64_t n_chunks;                            /* parts of the rows */
    uint32_t n_shares;
    uint64_t share[TS_CELLS_SHARES + 1]; /* first chunk of each share; and the number of shares */
    struct ts_cells_cut piece; /* division of the rows into pieces for W: steps of chunks */
    uint64_t part_cols;        /* columns of a part of a chunk, for Y */
    uint64_t n_parts;          /* number of these parts in a whole chunk */
    uint32_t n_slow;           /* the first outer modes, whose rows make U */
    uint64_t n_u, n_v;
};

void ts_cells_shape_new(const struct ts_dense *d, uint32_t rank, struct ts_cells_shape *ret);

int ts_cells_is_outer(const struct ts_cells_shape *s, uint32_t mode);

/* The first row of a share; of n_shares: the number of rows. */
uint64_t ts_cells_share_row(const struct ts_cells_shape *s, uint32_t share);

/* Everything of a mode's product but the factors of `others`, of which mode[] says whose they
 * are. */
void ts_cells_target_of(const struct ts_cells_shape *s, uint32_t mode, struct ts_cells_target *ret,
                        uint32_t others[TS_MAX_ORDER]);

/* Modes first .. end - 1 of the layout, without their factors. */
void ts_cells_grid_of(const struct ts_cells_shape *s, uint32_t first, uint32_t end,
                      struct ts_cells_grid *ret, uint32_t modes[TS_MAX_ORDER]);

#endif
