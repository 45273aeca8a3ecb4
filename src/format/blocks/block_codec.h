/* SPDX-License-Identifier: BSD-3-Clause */
/* block_codec.h - packs and unpacks a block: up to 256 nonzeros of one mode copy in 32-bit words.
 *
 * The nonzeros of a mode copy are sorted by level 0 (the row), then level 1, up to the leaf, which
 * is level L = order - 1. They form a compressed sparse fibre tree (Smith and Karypis,
 * "Tensor-Matrix Products with a Compressed Sparse Tensor", IA^3 2015). They are cut into blocks
 * that are decoded on their own.
 *
 * A *flag* of level l at a nonzero says that it starts a new node of the tree there: its index at
 * level l, or at a level above, differs from the nonzero before. At the first nonzero of a block
 * all flags of levels 1..L are set and that of level 0 is clear (the shard's block_row gives the
 * row); at level L all flags are set. Flags of level l-1 are a subset of those of level l.
 *
 *   row(p)      = row of the block + number of level-0 flags up to and including p
 *   index(l, p) = flag(l-1, p):       the next entry of stream ABS(l)
 *                 else flag(l, p):    index(l, p-1) + the next entry of stream DELTA(l)
 *                 else                index(l, p-1)
 * where flag(0, first) counts as set for ABS(1): every level is absolute at the start of a block.
 *
 * Words of a block, in order:
 *   ceil(L / 4)     flag descriptors, 8 bits for each level 0..L-1: kind in bits 0-2, count in 3-7
 *   2 L + n_codes   stream descriptors: ABS(1) DELTA(1) ... ABS(L) DELTA(L) CODE(0) [CODE(1)]:
 *                   width in bits 0-5, exc_width in 6-11, n_exc in 12-19, base_width in 20-25
 *   8 each          the bitmap of every level whose flags are TS_FLAGS_BITMAP
 *   ceil(n w / 32)  for each stream its entries' low `width` bits, lowest bit first
 *   the side bits   one bit string, lowest bit first, padded to a word: positions (8 bits each) of
 *                   the TS_FLAGS_SET / _CLEAR levels, then for each stream: base (base_width),
 *                   positions of its exceptions (8 bits each), high parts of them (exc_width each)
 * An entry of a stream is base + low + (high << width), modulo 2^32; high is 0 but for exceptions
 * (Zukowski et al., "Super-Scalar RAM-CPU Cache Compression", ICDE 2006). Lengths follow from the
 * flags: ABS(l) has an entry per flag of level l-1 (the first nonzero included), DELTA(l) one per
 * flag of level l that is not one of level l-1, CODE one per nonzero.
 *
 *   units    words of 32 bits; positions 0..255 in the block
 *   threads  all functions are pure
 *   errors   only ts_block_parse can fail: it takes untrusted words
 */
#ifndef TS_FORMAT_BLOCK_CODEC_H
#define TS_FORMAT_BLOCK_CODEC_H

#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "format/layout.h"

enum ts_flags_kind {
    TS_FLAGS_NONE = 0, /* no flag except the implied one of the first nonzero */
    TS_FLAGS_ALL = 1,  /* set at every nonzero (level 0: except the first) */
    TS_FLAGS_SET = 2, /* `count` ascending positions of set flags; the first nonzero's is implied */
    TS_FLAGS_CLEAR = 3,  /* `count` positions of clear flags (level 0: except the first) */
    TS_FLAGS_BITMAP = 4, /* 8 words, bit p of word p / 32; position 0 holds the implied flag */
};

#define TS_BLOCK_MAX_STREAMS (2 * (TS_MAX_ORDER - 1) + 2)
#define TS_BLOCK_MAX_WORDS   6144u /* more than any block needs, including slack for the encoder */

/* Flags of the up to 256 nonzeros of a block. That of nonzero p is bit p % 64 of word p / 64. */
struct ts_flags {
    uint64_t bit[4];
};

/* A stream of packed numbers (index differences or value codes), as ts_block_parse finds it. */
struct ts_packed {
    const uint32_t *word; /* n entries of `width` bits each */
    uint32_t n, width, base;
    uint32_t n_exc, exc_width;
    /* where positions and high parts of the exceptions start, in bits of struct
     * ts_block_parts.side */
    uint32_t pos_bit, high_bit;
};

/* A parsed block whose streams are still packed. Pointers point into the block. */
struct ts_block_parts {
    uint32_t n;        /* nonzeros, 1..256 */
    uint32_t n_levels; /* L + 1 = order */
    uint32_t n_streams;
    uint32_t n_words;
    const uint32_t *side;
    struct ts_flags flags[TS_MAX_ORDER];           /* flags of levels 0..L; bits from n on are 0 */
    struct ts_packed stream[TS_BLOCK_MAX_STREAMS]; /* ABS(l) is 2l-2, DELTA(l) 2l-1, CODE(c) 2L+c */
};

/* A decoded block, one entry per nonzero. Decoders do not write levels from `order` on, nor codes
 * from n_codes on. */
struct ts_block {
    uint32_t n;
    /* level[0]: row in the block plus first_row of ts_block_decode */
    uint32_t level[TS_MAX_ORDER][TS_BLOCK_NNZ];
    uint32_t code[2][TS_BLOCK_NNZ];
};

/* Returns how many 32-bit codes (0, 1 or 2) a value of this ts_value_kind has. ts_header_codes also
 * counts the code of a weight. */
static inline uint32_t ts_value_codes(uint32_t kind)
{
    return kind == TS_VALUE_CONST ? 0 : kind == TS_VALUE_F64 ? 2 : 1;
}

/* Packs n (1..256) nonzeros into a block. level[l] (l < order) holds n compact indices (rows),
 * sorted by level 0, then level 1, and so on. level[0] increases by at most 1 from one nonzero to
 * the next. code[c] (c < n_codes) holds n codes. out has room for TS_BLOCK_MAX_WORDS. Returns the
 * number of words written. */
uint32_t ts_block_encode(uint32_t order, uint32_t n, const uint32_t *const level[],
                         uint32_t n_codes, const uint32_t *const code[], uint32_t *out);

/* Like ts_block_encode, without vector instructions. For tests. */
uint32_t ts_block_encode_plain(uint32_t order, uint32_t n, const uint32_t *const level[],
                               uint32_t n_codes, const uint32_t *const code[], uint32_t *out);

/* Parses a block of n_words words. n is the number of nonzeros that the block must hold. Checks
 * that all parts are inside the block and fill it; returns 0 or TS_EFORMAT, with a message that
 * gives a reason but no position. */
int ts_block_parse(const uint32_t *word, uint32_t n_words, uint32_t order, uint32_t n,
                   uint32_t n_codes, struct ts_block_parts *ret, struct ts_err *err);

/* Checks the padding of a parsed block: bits that no part uses must be zero, and a stream without
 * entries must have a descriptor of zeros. No result depends on these bits. Returns 0 or
 * TS_EFORMAT. */
int ts_block_check_padding(const uint32_t *word, const struct ts_block_parts *parts,
                           struct ts_err *err);

/* Writes the n entries of a stream to out, one by one: the simple decoder with which faster ones
 * are compared. */
void ts_packed_decode(const struct ts_packed *s, const uint32_t *side, uint32_t *out);

/* Decodes a whole block with the simple decoder of ts_packed_decode. first_row is added to level
 * 0. */
void ts_block_decode(const struct ts_block_parts *parts, uint32_t first_row, struct ts_block *ret);

/* Whether every value of a decoded block is finite; value_kind is a ts_value_kind. Builds write
 * finite values only, but a file from elsewhere may have others and a correct hash. */
int ts_block_finite(const struct ts_block *b, uint32_t value_kind);

/* ts_weight_of_code returns the weight that a nonzero's second code holds. ts_block_weights
 * returns whether all weights of a block are finite and nonnegative. */
static inline float ts_weight_of_code(uint32_t code)
{
    float w;
    memcpy(&w, &code, sizeof w);
    return w;
}
int ts_block_weights(const struct ts_block *b);

/* Returns `width` (0..32) bits from bit `at` of a bit string in 32-bit words. */
uint32_t ts_bits_get(const uint32_t *word, uint64_t at, uint32_t width);

#endif
