/* SPDX-License-Identifier: BSD-3-Clause */
/* unpack.h - decodes blocks for the kernels: faster than ts_block_decode, with values as numbers
 * and indices by nonzero or by fibre.
 *
 * A *fibre* is a node of the level above the leaf: a group of nonzeros that differ only in the
 * leaf index. If fibres are long, kernels compute the product of the rows above the leaf once per
 * fibre (the block is `shared`), otherwise once per nonzero. The choice depends only on the block.
 *
 *   owner    the caller owns the struct ts_unpacked; one per thread
 *   units    positions in the block, 0..255; arrays have TS_UNPACK_SLACK extra entries that vector
 *            code may write
 *   threads  all functions are pure
 *   errors   none: blocks are trusted, because ts_shard_check has checked them
 */
#ifndef TS_FORMAT_UNPACK_H
#define TS_FORMAT_UNPACK_H

#include <stdint.h>

#include "format/blocks/block_codec.h"
#include "format/shard.h"

/* Properties that all blocks of a tensor share. */
struct ts_unpack_conf {
    uint32_t order, n_codes;
    uint32_t value_kind;
    int weights;   /* nonzeros have weights: the second code of each is its weight */
    int as_double; /* values are decoded to float64, else to float32 */
    int small;     /* 1: values are of kind TS_VALUE_INT, and float32 holds all exactly */
    double value_base;
    const double *dict; /* the dictionary of TS_VALUE_DICT */
};

#define TS_UNPACK_SLACK 32u

struct ts_unpacked {
    uint32_t n;        /* nonzeros */
    uint32_t row;      /* row of the first nonzero */
    uint32_t n_starts; /* number of rows that start after the first nonzero */
    int shared;        /* 1: idx has an entry per fibre (see idx); only for orders above 3 */
    uint32_t n_fibres; /* number of fibres; set if `shared` is */
    /* positions of the first nonzeros of these n_starts rows: ascending, never 0 */
    uint16_t start[TS_BLOCK_NNZ + TS_UNPACK_SLACK];
    union {
        float f[TS_BLOCK_NNZ + TS_UNPACK_SLACK];
        double d[TS_BLOCK_NNZ + TS_UNPACK_SLACK];
    } value;
    /* Indices at level l: idx[leaf][p] of nonzero p. For 1 <= l < leaf, idx[l][p] of nonzero p, or,
     * when shared, idx[l][k] of fibre k, and idx[0][p] is the fibre of nonzero p. */
    uint32_t idx[TS_MAX_ORDER][TS_BLOCK_NNZ + TS_UNPACK_SLACK];
    float weight[TS_BLOCK_NNZ + TS_UNPACK_SLACK]; /* set if nonzeros have weights */
};

/* Whether kernels save time if they compute the product of the rows above the leaf once per fibre.
 * It costs a store and a load of a row for each fibre, and saves this product for all nonzeros of
 * the fibre but one. */
static inline int ts_unpack_shares(uint32_t order, uint32_t n, uint32_t n_fibres)
{
    return order > 3 && 3 * n_fibres <= 2 * n;
}

typedef void ts_unpack_fn(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                          struct ts_unpacked *ret);

ts_unpack_fn ts_unpack_portable, ts_unpack_avx2, ts_unpack_avx512;

#endif
