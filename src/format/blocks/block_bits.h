/* SPDX-License-Identifier: BSD-3-Clause */
/* block_bits.h - operations on bits and flags for the encoder and the decoder of blocks.
 *
 *   threads  all functions are pure
 */
#ifndef TS_FORMAT_BLOCK_BITS_H
#define TS_FORMAT_BLOCK_BITS_H

#include <stdint.h>

#include "format/blocks/block_codec.h"

static inline uint32_t low_mask(uint32_t width)
{
    return width >= 32 ? UINT32_MAX : (UINT32_C(1) << width) - 1;
}

static inline uint32_t bit_length(uint32_t x)
{
    return x == 0 ? 0 : 32 - (uint32_t)__builtin_clz(x);
}

static inline int flag_at(const struct ts_flags *f, uint32_t p)
{
    return (int)(f->bit[p >> 6] >> (p & 63) & 1);
}

static inline void flag_set(struct ts_flags *f, uint32_t p)
{
    f->bit[p >> 6] |= UINT64_C(1) << (p & 63);
}

static inline uint32_t flag_count(const struct ts_flags *f)
{
    uint32_t count = 0;
    for (int k = 0; k < 4; k++)
        count += (uint32_t)__builtin_popcountll(f->bit[k]);
    return count;
}

/* Returns flags of which the first n are set. */
static inline struct ts_flags flag_full(uint32_t n)
{
    struct ts_flags f;
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t first = 64 * k;
        f.bit[k] = n >= first + 64 ? UINT64_MAX : n <= first ? 0 : (UINT64_C(1) << (n - first)) - 1;
    }
    return f;
}

#endif
