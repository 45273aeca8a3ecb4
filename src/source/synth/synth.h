/* SPDX-License-Identifier: BSD-3-Clause */
/* synth.h - makes synthetic tensors. Draw number i depends only on the seed and i, so any number of
 * threads makes the same nonzeros.
 *
 * There are three kinds. Independent indices: uniform, or with a power law of exponent a in each
 * mode. Popularity rank k (from 1) is drawn with probability about proportional to k^-a, and ranks
 * are scattered over the mode by a fixed bijection. A planted model of rank R: R dense blocks
 * without a common cell. Each is the outer product of positive vectors, and every value is
 * multiplied by 1 + noise * (a normal number). A decomposition of rank R then reaches a fit of
 * about 1 - noise. Blocks share no slices, unless they need more room for the nonzeros: then they
 * share rows in the shortest modes, never in the longest. Ratings: different cells, all equally
 * likely. Values are those of a dense model of rank R, with mean 0 and standard deviation 1, plus
 * noise * (a normal number).
 *
 *   owner    plain values, except the tables of ts_synth_tables_new
 *   units    nonzeros are draws: those that fall on one cell are merged later
 *   threads  pure
 *   errors   TS_EARG for invalid parameters; TS_ENOMEM
 */
#ifndef TS_SOURCE_SYNTH_H
#define TS_SOURCE_SYNTH_H

#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"
#include "format/layout.h"
#include "source/synth/power_law.h"

/* A bijection of the numbers 0..n-1 that takes neighbours far apart: a Feistel network on numbers
 * of an even number of bits, repeated until the result is below n. */
struct ts_scatter {
    uint64_t n, round_key[4];
    uint32_t half; /* bits of each of the two halves of a number in the network */
};

struct ts_synth {
    uint32_t order;
    uint64_t dim[TS_MAX_ORDER];
    uint64_t nnz, seed;
    double power[TS_MAX_ORDER]; /* exponent of the power law of each mode; 0: uniform */
    /* values are whole numbers in this range, drawn uniformly; both 0: real numbers in (0, 1] */
    uint64_t value_first, value_last;
    uint32_t planted; /* number of blocks (components) of the planted model; 0: there is none */
    int ratings;      /* 1: the nonzeros are ratings: values of some cells of a dense model */
    double noise;
    uint32_t value_bytes;

    /* members that ts_synth_init sets */
    uint64_t side[TS_MAX_ORDER]; /* number of rows of a planted block in each mode */
    struct ts_power_law law[TS_MAX_ORDER];
    struct ts_scatter scatter[TS_MAX_ORDER];
    struct ts_scatter cell; /* the bijection that scatters ratings over all cells */

    uint32_t *place[TS_MAX_ORDER]; /* `scatter` as a table; NULL: it is computed in each draw */
};

/* Checks the parameters and computes the other members. With a planted model, nnz becomes the
 * number of cells of the blocks: at most as many as asked for, and a few percent fewer if they
 * cannot be divided evenly. TS_EARG if there is no room for so many. */
int ts_synth_init(struct ts_synth *s, struct ts_err *err);

/* Returns the index in the mode of entry k (below planted * side[mode]) of the planted factor, and
 * sets *value to its value. The entry belongs to component k / side[mode]. */
uint64_t ts_synth_planted(const struct ts_synth *s, uint32_t mode, uint64_t k, double *value);

/* Makes tables of the bijections `scatter`, of at most most_bytes in total, for the modes where
 * they make drawing faster. The draws stay the same. */
int ts_synth_tables_new(struct ts_synth *s, uint64_t most_bytes, uint32_t threads,
                        struct ts_err *err);
void ts_synth_tables_free(struct ts_synth *s);

/* Appends draws [first, first + n) to b, which must have space for them. */
void ts_synth_draw(const struct ts_synth *s, uint64_t first, uint64_t n, struct ts_batch *b);

#endif
