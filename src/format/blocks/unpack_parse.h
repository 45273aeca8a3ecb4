/* SPDX-License-Identifier: BSD-3-Clause */
/* unpack_parse.h - parses a block without checks, for the decoders of every instruction set.
 *
 * ts_block_parse does the same for untrusted blocks with checks. Checks take as long as a kernel's
 * computation with the block. */
#ifndef TS_FORMAT_UNPACK_PARSE_H
#define TS_FORMAT_UNPACK_PARSE_H

#include <string.h>

#include "format/blocks/unpack.h"

/* The parts of a block (block_codec.h). stream[2l - 2] and [2l - 1] are the `abs` and `delta`
 * streams of level l; the streams of codes follow. n_set[l] counts the flags of level l (nonzeros
 * at which an index at level l or above changes), including position 0 at every level. */
struct parse {
    /* the side bits (block_codec.h); the flag positions of all levels come first, a byte each */
    const uint8_t *side;
    uint32_t n_set[TS_MAX_ORDER];
    struct ts_flags flags[TS_MAX_ORDER]; /* position 0 is set at every level */
    struct ts_packed stream[TS_BLOCK_MAX_STREAMS];
};

/* Returns `width` (0..32) bits from bit `at`. May load 8 bytes from the last one on
 * (TS_SHARD_SLACK). */
static inline uint32_t parse_bits(const uint8_t *bytes, uint32_t at, uint32_t width)
{
    uint64_t w;
    memcpy(&w, bytes + (at >> 3), sizeof w);
    return (uint32_t)(w >> (at & 7) & ((UINT64_C(1) << width) - 1));
}

static inline struct ts_flags parse_full(uint32_t n)
{
    struct ts_flags f = { { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } };
    if (n < TS_BLOCK_NNZ) {
        f.bit[n >> 6] = (UINT64_C(1) << (n & 63)) - 1;
        for (uint32_t k = (n >> 6) + 1; k < 4; k++)
            f.bit[k] = 0;
    }
    return f;
}

static inline void parse_block(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                               struct parse *ret)
{
    const uint32_t leaf = conf->order - 1, n = at->nnz, n_streams = 2 * leaf + conf->n_codes;
    const uint32_t *word = at->word, *desc = word + (leaf + 3) / 4, *bitmap = desc + n_streams;
    const uint32_t *data = bitmap;
    const struct ts_flags full = parse_full(n);
    const uint8_t *position;
    uint32_t side_bit = 0, above; /* above: number of flags of the level above */

    for (uint32_t l = 0; l < leaf; l++) {
        const uint32_t d = word[l / 4] >> 8 * (l % 4), kind = d & 7, count = d >> 3 & 31;
        switch (kind) {
        case TS_FLAGS_BITMAP:
            memcpy(ret->flags[l].bit, data, 32);
            ret->flags[l].bit[0] |= 1;
            ret->n_set[l] = 0;
            for (int k = 0; k < 4; k++)
                ret->n_set[l] += (uint32_t)__builtin_popcountll(ret->flags[l].bit[k]);
            data += 8;
            break;
        case TS_FLAGS_ALL:
        case TS_FLAGS_CLEAR:
            ret->flags[l] = full;
            ret->n_set[l] = n - count;
            side_bit += 8 * count;
            break;
        default:
            ret->flags[l] = (struct ts_flags){ { 1, 0, 0, 0 } };
            ret->n_set[l] = 1 + count;
            side_bit += 8 * count;
        }
    }
    ret->flags[leaf] = full;
    ret->n_set[leaf] = n;
    above = ret->n_set[0];
    for (uint32_t s = 0; s < n_streams; s++) {
        struct ts_packed *p = &ret->stream[s];
        const uint32_t l = s / 2 + 1;
        p->n = s >= 2 * leaf ? n : s % 2 == 0 ? above : ret->n_set[l] - above;
        above = s % 2 == 0 || s >= 2 * leaf ? above : ret->n_set[l];
        p->width = desc[s] & 63;
        p->word = data;
        data += (p->n * p->width + 31) / 32;
    }
    ret->side = position = (const uint8_t *)data;
    for (uint32_t s = 0; s < n_streams; s++) {
        struct ts_packed *p = &ret->stream[s];
        const uint32_t base_width = desc[s] >> 20 & 63;
        p->exc_width = desc[s] >> 6 & 63;
        p->n_exc = desc[s] >> 12 & 255;
        p->base = parse_bits(position, side_bit, base_width);
        p->pos_bit = side_bit + base_width;
        p->high_bit = p->pos_bit + 8 * p->n_exc;
        side_bit = p->high_bit + p->n_exc * p->exc_width;
    }
    for (uint32_t l = 0; l < leaf; l++) {
        const uint32_t d = word[l / 4] >> 8 * (l % 4), kind = d & 7, count = d >> 3 & 31;
        if (kind != TS_FLAGS_SET && kind != TS_FLAGS_CLEAR)
            continue;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t p = *position++;
            ret->flags[l].bit[p >> 6] ^= UINT64_C(1) << (p & 63);
        }
    }
}

#endif
