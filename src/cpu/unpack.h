/* unpack.h - decoding blocks for computing: the same entries as ts_block_decode gives, fast, and
 * values as numbers.
 *
 *   owner    the caller owns the struct ts_unpacked; one per thread
 *   units    positions in the block, 0..255
 *   threads  all functions are pure
 *   errors   none: blocks are trusted, ts_shard_check saw them before
 */
#ifndef TS_CPU_UNPACK_H
#define TS_CPU_UNPACK_H

#include <stdint.h>

#include "format/block_codec.h"
#include "format/shard.h"

#define TS_MAX_RANK_PADDED 1024u

/* What all blocks of a tensor share. */
struct ts_unpack_conf {
    uint32_t order, n_codes;
    uint32_t value_kind;
    int as_double;       /* values are wanted as float64, else float32 */
    double value_base;
    const double *dict;  /* of TS_VALUE_DICT */
};

struct ts_unpacked {
    uint32_t n;         /* nonzeros */
    uint32_t row;       /* of the first nonzero */
    uint32_t n_starts;  /* rows that start inside: level-0 flags */
    uint16_t start[TS_BLOCK_NNZ]; /* their positions, ascending, never 0 */
    union {
        float f[TS_BLOCK_NNZ];
        double d[TS_BLOCK_NNZ];
    } value;
    uint32_t idx[TS_MAX_ORDER][TS_BLOCK_NNZ]; /* index at level l >= 1 of each nonzero */
    uint32_t code[2][TS_BLOCK_NNZ];
};

void ts_unpack_block(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                     struct ts_unpacked *ret);

#endif
