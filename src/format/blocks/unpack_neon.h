/* SPDX-License-Identifier: BSD-3-Clause */
/* unpack_neon.h - unpacks the entries of a stream with NEON, for unpack_scalar.h.
 *
 * Eight entries take `width` bytes. A table lookup in 16 bytes gives four entries at a time: the
 * four bytes that contain each, then shifted to the right. Four bytes contain an entry of up to 25
 * bits, whichever bit of the first byte it begins at. */
#ifndef TS_FORMAT_UNPACK_NEON_H
#define TS_FORMAT_UNPACK_NEON_H

#include <arm_neon.h>

#include "format/blocks/unpack_parse.h"

#define NEON_WIDTH 25u

/* The byte positions of four entries, and the left shift of each: zero or negative, to shift
 * right. */
struct neon_four {
    uint8x16_t byte;
    int32x4_t shift;
};

/* Returns byte positions and shifts of four entries, the first of which begins at bit `bit`
 * (0..7). */
static inline struct neon_four neon_four_at(uint32_t bit, uint32_t width)
{
    static const uint32_t iota[] = { 0, 1, 2, 3 };
    const uint32x4_t at = vmlaq_n_u32(vdupq_n_u32(bit), vld1q_u32(iota), width);
    const uint32x4_t byte = vmlaq_n_u32(vdupq_n_u32(0x03020100), vshrq_n_u32(at, 3), 0x01010101);
    const uint32x4_t shift = vandq_u32(at, vdupq_n_u32(7));
    return (struct neon_four){ vreinterpretq_u8_u32(byte),
                               vnegq_s32(vreinterpretq_s32_u32(shift)) };
}

static inline uint32x4_t neon_four_from(const uint8_t *from, const struct neon_four *four)
{
    const uint8x16_t bytes = vqtbl1q_u8(vld1q_u8(from), four->byte);
    return vshlq_u32(vreinterpretq_u32_u8(bytes), four->shift);
}

/* Sets out[i] to the base of the stream plus its entry i. Up to 7 entries after the last are
 * written as well. */
static inline void unpack_entries(const struct ts_packed *s, uint32_t *out)
{
    const uint8_t *from = (const uint8_t *)s->word;
    const uint32_t width = s->width;
    const uint32x4_t base = vdupq_n_u32(s->base);
    if (width > NEON_WIDTH) {
        for (uint32_t i = 0, bit = 0; i < s->n; i++, bit += width)
            out[i] = s->base + parse_bits(from, bit, width);
        return;
    }
    const uint32x4_t mask = vdupq_n_u32((UINT32_C(1) << width) - 1);
    const struct neon_four first = neon_four_at(0, width);
    const struct neon_four next = neon_four_at(width * 4 & 7, width);
    for (uint32_t i = 0; i < s->n; i += 8, from += width) {
        const uint32x4_t low = neon_four_from(from, &first);
        const uint32x4_t high = neon_four_from(from + width / 2, &next);
        vst1q_u32(out + i, vaddq_u32(vandq_u32(low, mask), base));
        vst1q_u32(out + i + 4, vaddq_u32(vandq_u32(high, mask), base));
    }
}

#endif
