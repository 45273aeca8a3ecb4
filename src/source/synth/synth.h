/* SPDX-License-Identifier: BSD-3-Clause */
/* synth.h - synthetic tensors: draw number i is a function of the seed and i alone, so any number
 * of threads makes the same nonzeros.
 *
 * Indices are uniform, or follow a power law a in each mode: popularity rank k (from 1) is drawn
 * with probability about proportional to k^-a, and ranks are scattered over the mode by a fixed
 * bijection. Or a planted model of a given rank R: R dense blocks without a common cell, each the
 * outer product of positive vectors, every value times 1 + noise * (a normal number). A
 * decomposition of rank R then reaches a fit of about 1 - noise. Blocks have no slice in common
 * either, but where the nonzeros ask for more room: then they have rows in common in the shortest
 * modes, never in the longest. Or ratings: each nonzero another cell, all cells as likely, with the
 * value there of a dense model of rank R, whose values have mean 0 and standard deviation 1, and
 * noise times a normal number.
 *
 *   owner    plain values, but for the tables of ts_synth_tables_new
 *   units    nonzeros are draws: those that fall on one cell are merged later
 *   threads  pure
 *   errors   TS_EARG for laws that make no sense; TS_ENOMEM
 */
#ifndef TS_SOURCE_SYNTH_H
#define TS_SOURCE_SYNTH_H

#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"
#include "format/layout.h"
#include "source/synth/power_law.h"

/* A bijection of 0..n-1 that scatters neighbours: a Feistel network on the next even number of
 * bits, repeated until the result is below n. */
struct ts_scatter {
    uint64_t n, round_key[4];
    uint32_t half; /* bits of one side */
};

struct ts_synth {
    uint32_t order;
    uint64_t dim[TS_MAX_ORDER];
    uint64_t nnz, seed;
    double power[TS_MAX_ORDER];       /* exponent of each mode; 0: uniform */
    uint64_t value_first, value_last; /* whole numbers, drawn uniformly; both 0: real, (0, 1] */
    uint32_t planted;                 /* rank of the model, 0: none */
    int ratings;                      /* the tensor is dense, and some of its cells are listed */
    double noise;
    uint32_t value_bytes;

    /* set by init */
    uint64_t side[TS_MAX_ORDER]; /* sides of the planted blocks */
    struct ts_power_law law[TS_MAX_ORDER];
    struct ts_scatter scatter[TS_MAX_ORDER];
    struct ts_scatter cell; /* scatters the cells of ratings */

    uint32_t *place[TS_MAX_ORDER]; /* the bijections as tables; NULL: computed */
};

/* Checks the law and completes it. With a planted model, nnz becomes what the blocks hold: at most
 * as many as asked for, and some percent fewer where blocks do not divide evenly. TS_EARG where
 * there is no room for that many. */
int ts_synth_init(struct ts_synth *s, struct ts_err *err);

/* Entry k (below planted * side[mode]) of the planted factor of a mode: its index and value. It
 * belongs to component k / side[mode]. */
uint64_t ts_synth_planted(const struct ts_synth *s, uint32_t mode, uint64_t k, double *value);

/* Makes tables of the bijections, of at most most_bytes together, for modes where they make drawing
 * faster. The draws stay the same. */
int ts_synth_tables_new(struct ts_synth *s, uint64_t most_bytes, uint32_t threads,
                        struct ts_err *err);
void ts_synth_tables_free(struct ts_synth *s);

/* Appends draws [first, first + n) to b, which has room. */
void ts_synth_draw(const struct ts_synth *s, uint64_t first, uint64_t n, struct ts_batch *b);

#endif
