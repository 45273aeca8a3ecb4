/* SPDX-License-Identifier: BSD-3-Clause */
/* cells_shape.h - cuts the work on a dense tensor for GPUs. The cuts follow from the tensor and the
 * rank alone, so sums have the same order for any number of devices and any amount of memory.
 *
 * Rows of the array (format/arrays/dense.h) are cut into chunks, which are sent to a device and
 * computed on at once. A chunk consists of some slabs, which are the pieces that the feed lends. If
 * slabs are parts of rows, a chunk is a slab. The chunks form up to 16 shares, and each device has
 * some of the shares. The sums of shares are added in their order.
 *
 *   units    rows and columns of the array; elements
 *   threads  pure */
#ifndef TS_GPU_CELLS_SHAPE_H
#define TS_GPU_CELLS_SHAPE_H

#include "format/arrays/dense.h"
#include "gpu/dense/cells_kernel.h"

#define TS_CELLS_SHARES 16u

struct ts_cells_shape {
    const struct ts_dense *dense;
    uint32_t rank, ld;   /* rank, and elements between rows of tables (products of factor rows) */
    int narrow;          /* cells are float32 on the device */
    uint32_t cell_bytes; /* bytes of a cell on the device */
    uint64_t rows, cols;
    uint64_t chunk_rows, chunk_cols, chunk_slabs; /* sizes of a whole chunk */
    uint64_t n_chunks;                            /* chunks along the rows */
    uint32_t n_shares;
    uint64_t share[TS_CELLS_SHARES + 1]; /* first chunk of each share, followed by n_chunks */
    /* division of the rows into pieces, each summed into one W (cells times outer factors); a piece
     * is a step of a chunk */
    struct ts_cells_cut piece;
    /* columns of a part of a chunk; each part is summed into one Y (cells times inner factors) */
    uint64_t part_cols;
    uint64_t n_parts; /* number of these parts in a whole chunk */
    /* number of outer modes, from the first on, whose factor rows are multiplied into the table
     * U */
    uint32_t n_slow;
    uint64_t n_u, n_v;
};

void ts_cells_shape_new(const struct ts_dense *d, uint32_t rank, struct ts_cells_shape *ret);

int ts_cells_is_outer(const struct ts_cells_shape *s, uint32_t mode);

/* Returns the first row of a share (a group of chunks). For share n_shares, returns the number of
 * rows. */
uint64_t ts_cells_share_row(const struct ts_cells_shape *s, uint32_t share);

/* Describes the MTTKRP of a mode, except the factors of the other modes. Sets others[l] to the mode
 * whose factor belongs at factor[l]. */
void ts_cells_target_of(const struct ts_cells_shape *s, uint32_t mode, struct ts_cells_target *ret,
                        uint32_t others[TS_MAX_ORDER]);

/* Describes the grid of the modes first .. end - 1 of the layout, without their factors. Sets
 * modes[l] to the mode whose factor belongs at factor[l]. */
void ts_cells_grid_of(const struct ts_cells_shape *s, uint32_t first, uint32_t end,
                      struct ts_cells_grid *ret, uint32_t modes[TS_MAX_ORDER]);

#endif
