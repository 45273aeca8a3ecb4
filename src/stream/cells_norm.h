/* SPDX-License-Identifier: BSD-3-Clause */
/* cells_norm.h - computes the norm of a tensor some of whose cells hold several nonzeros (tshard
 * build --duplicates keep).
 *
 * Such a tensor is the sum of its nonzeros: the value of a cell is the sum of its nonzeros. The
 * index holds the root of the sum of squares of single nonzeros, but |X| needs the squares of the
 * cells' values. The file has a copy of the nonzeros for each mode. In each copy the nonzeros of a
 * cell follow one another, so one pass over one copy computes the values.
 *
 *   owner    the caller owns the tensor, whose header.norm ts_cells_norm replaces
 *   units    sums are in the unit of the values, squared
 *   threads  called by one thread; shards are divided among threads, and among ranks
 *   errors   0 or a negative ts_code: a read error, TS_EFORMAT if a shard is in no rank's part,
 *            TS_ELIMIT if squares exceed the range of float64; on failure *ret is not touched
 *   bits     sums of shards are added in the order of the file, so results do not depend on threads
 *            and ranks
 */
#ifndef TS_STREAM_CELLS_NORM_H
#define TS_STREAM_CELLS_NORM_H

#include <signal.h>
#include <stdint.h>

#include "format/hold_out.h"
#include "format/tensor.h"
#include "stream/comm.h"
#include "stream/loss.h"

struct ts_cells_conf {
    const struct ts_tensor *tensor;
    const struct ts_hold_out *hold_out; /* NULL: no nonzero is held out */
    /* NULL: squares of the cells' values are summed; otherwise their least losses
     * (ts_loss_reference) under this loss */
    const struct ts_loss *loss;
    double at; /* the parameter of the loss, if it has one */
    uint32_t threads;
    uint64_t bytes;       /* bytes of memory to use, but at least those of one shard; 0: 64 MiB */
    struct ts_comm *comm; /* NULL: this process alone */
    const volatile sig_atomic_t *stop;
};

struct ts_cells_squares {
    /* sums of squares of the cells' values: cells that are not held out, and held-out cells */
    double kept, held;
    uint64_t n; /* number of cells with a nonzero, held out or not */
};

/* Reads the copy of the nonzeros for one mode once. Memory: a shard for each thread, with as many
 * threads as `bytes` allow, and 200 bytes for each shard of the copy. */
int ts_cells_squares(const struct ts_cells_conf *conf, struct ts_cells_squares *ret,
                     struct ts_err *err);

/* Sets header.norm to |X|, and ts_tensor_listed_norm to its old value. Does nothing if no cell
 * holds several nonzeros, or if header.norm is |X| already. */
int ts_cells_norm(const struct ts_cells_conf *conf, struct ts_err *err);

#endif
