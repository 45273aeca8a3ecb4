/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes blocks (block_codec.h): finds the parts of a block, checks them, and unpacks its streams
 * of index differences and values. */
#include "format/blocks/block_codec.h"

#include <assert.h>
#include <string.h>

#include "format/blocks/block_bits.h"

uint32_t ts_bits_get(const uint32_t *word, uint64_t at, uint32_t width)
{
    const uint32_t *w = word + (at >> 5);
    const uint32_t shift = at & 31;
    uint64_t two;
    if (width == 0)
        return 0;
    two = w[0];
    if (shift + width > 32) /* the next word may be outside the block: it is read only if needed */
        two |= (uint64_t)w[1] << 32;
    return (uint32_t)(two >> shift) & low_mask(width);
}

/* A block while it is parsed. Sizes are found first, so that nothing outside the block is read. The
 * positions of flags (marks of nonzeros at which an index changes) come after the streams in a
 * block. The lengths of the streams follow from the number of flags at each level alone. */
struct parse {
    const uint32_t *word, *desc, *bitmap; /* the block, its stream descriptors, its bitmaps */
    uint32_t n_words, leaf, n_streams, n;
    uint32_t n_set[TS_MAX_ORDER]; /* number of flags of each level, the implied one included */
    uint64_t at;                  /* words parsed so far */
    uint64_t side_bits;           /* bits of the side bits (block_codec.h) parsed so far */
};

static inline uint32_t kind_of(const struct parse *b, uint32_t level)
{
    return b->word[level / 4] >> 8 * (level % 4) & 7;
}

static inline uint32_t listed_at(const struct parse *b, uint32_t level)
{
    return b->word[level / 4] >> 8 * (level % 4) >> 3 & 31;
}

/* Sets n_set[l], the number of flags of level l, for every level. */
static int count_flags(struct parse *b, struct ts_err *err)
{
    for (uint32_t l = 0; l < b->leaf; l++) {
        const uint32_t kind = kind_of(b, l), count = listed_at(b, l), implied = l > 0;
        const int is_list = kind == TS_FLAGS_SET || kind == TS_FLAGS_CLEAR;
        if (kind > TS_FLAGS_BITMAP)
            return ts_fail(err, TS_EFORMAT, "flags of unknown kind %u", kind);
        if (is_list ? count >= b->n : count != 0)
            return ts_fail(err, TS_EFORMAT, "a wrong number of flags, %u", count);
        b->side_bits += is_list ? 8 * count : 0;
        b->n_set[l] = implied + (kind == TS_FLAGS_ALL || kind == TS_FLAGS_CLEAR ? b->n - 1 : 0);
        b->n_set[l] += kind == TS_FLAGS_SET ? count : 0;
        b->n_set[l] -= kind == TS_FLAGS_CLEAR ? count : 0;
        if (kind != TS_FLAGS_BITMAP)
            continue;
        if (b->at + 8 > b->n_words)
            return ts_fail(err, TS_EFORMAT, "a bitmap beyond the end of the block");
        b->n_set[l] = 0;
        for (uint32_t k = 0; k < 8; k++)
            b->n_set[l] += (uint32_t)__builtin_popcount(b->word[b->at + k]);
        b->at += 8;
    }
    b->n_set[b->leaf] = b->n;
    return 0;
}

/* Sets the first word and the width of each stream (of index differences or values), from the
 * stream descriptors. */
static int find_streams(struct parse *b, struct ts_packed *stream, struct ts_err *err)
{
    for (uint32_t s = 0; s < b->n_streams; s++) {
        struct ts_packed *p = &stream[s];
        const uint32_t l = s / 2 + 1, d = b->desc[s];
        p->n = b->n;
        if (s < 2 * b->leaf) {
            const uint32_t above = l == 1 ? b->n_set[0] + 1 : b->n_set[l - 1];
            if (b->n_set[l] < above)
                return ts_fail(err, TS_EFORMAT, "level %u has fewer nodes than the level above", l);
            p->n = s % 2 == 0 ? above : b->n_set[l] - above;
        }
        p->width = d & 63;
        p->exc_width = d >> 6 & 63;
        p->n_exc = d >> 12 & 255;
        if (p->width + p->exc_width > 32 || (d >> 20 & 63) > 32 || d >> 26 != 0)
            return ts_fail(err, TS_EFORMAT, "stream %u has an impossible width", s);
        if (p->n_exc > p->n || (p->n_exc > 0) != (p->exc_width > 0))
            return ts_fail(err, TS_EFORMAT, "stream %u has an impossible number of exceptions", s);
        p->word = b->word + b->at;
        b->at += ((uint64_t)p->n * p->width + 31) / 32;
        if (b->at > b->n_words)
            return ts_fail(err, TS_EFORMAT, "stream %u ends beyond the block", s);
    }
    return 0;
}

/* Sets the base and the exceptions (entries wider than the others) of every stream from the side
 * bits, the last part of a block. */
static int find_exceptions(struct parse *b, const uint32_t *side, struct ts_packed *stream,
                           struct ts_err *err)
{
    for (uint32_t s = 0; s < b->n_streams; s++) {
        struct ts_packed *p = &stream[s];
        const uint32_t base_width = b->desc[s] >> 20 & 63;
        const uint64_t end = b->side_bits + base_width + (uint64_t)p->n_exc * (8 + p->exc_width);
        if (b->at + (end + 31) / 32 > b->n_words)
            return ts_fail(err, TS_EFORMAT, "exceptions of stream %u end beyond the block", s);
        p->base = ts_bits_get(side, b->side_bits, base_width);
        p->pos_bit = (uint32_t)b->side_bits + base_width;
        p->high_bit = p->pos_bit + 8 * p->n_exc;
        b->side_bits = end;
        for (uint32_t i = 0, last = 0; i < p->n_exc; i++) {
            const uint32_t pos = ts_bits_get(side, p->pos_bit + 8 * i, 8);
            if (pos >= p->n || (i > 0 && pos <= last))
                return ts_fail(err, TS_EFORMAT, "exceptions of stream %u do not ascend inside it",
                               s);
            last = pos;
        }
    }
    return 0;
}

/* Reads the flags of a level, which say where a new index begins, into *ret. *side_bit: the first
 * of the side bits that hold positions of these flags; on return the bit after them. */
static int read_flags(const struct parse *b, uint32_t level, const uint32_t *bitmap,
                      const uint32_t *side, uint64_t *side_bit, struct ts_flags *ret,
                      struct ts_err *err)
{
    const uint32_t kind = kind_of(b, level), count = listed_at(b, level), is_row = level == 0;
    const struct ts_flags full = flag_full(b->n);
    struct ts_flags f = { { !is_row, 0, 0, 0 } };
    uint32_t last = 0;
    if (kind == TS_FLAGS_ALL || kind == TS_FLAGS_CLEAR) {
        f = full;
        f.bit[0] &= is_row ? ~UINT64_C(1) : UINT64_MAX;
    }
    if (kind == TS_FLAGS_BITMAP) {
        for (uint32_t k = 0; k < 4; k++)
            f.bit[k] = bitmap[2 * k] | (uint64_t)bitmap[2 * k + 1] << 32;
        for (uint32_t k = 0; k < 4; k++)
            if ((f.bit[k] & ~full.bit[k]) != 0)
                return ts_fail(err, TS_EFORMAT, "flags beyond the block's %u nonzeros", b->n);
        if ((f.bit[0] & 1) != !is_row)
            return ts_fail(err, TS_EFORMAT, "the flag of the first nonzero is wrong");
    }
    for (uint32_t i = 0; i < count; i++, *side_bit += 8) { /* count 0: no positions are listed */
        const uint32_t p = ts_bits_get(side, *side_bit, 8);
        if (p <= last || p >= b->n)
            return ts_fail(err, TS_EFORMAT, "flag positions do not ascend inside the block");
        f.bit[p >> 6] ^= UINT64_C(1) << (p & 63);
        last = p;
    }
    *ret = f;
    return 0;
}

/* Reads the flags of every level. A flag of a level is also a flag of all deeper levels. */
static int find_flags(const struct parse *b, const uint32_t *side, struct ts_flags *flags,
                      struct ts_err *err)
{
    const uint32_t *bitmap = b->bitmap;
    uint64_t side_bit = 0;
    for (uint32_t l = 0; l < b->leaf; l++) {
        const int rc = read_flags(b, l, bitmap, side, &side_bit, &flags[l], err);
        if (rc < 0)
            return rc;
        bitmap += kind_of(b, l) == TS_FLAGS_BITMAP ? 8 : 0;
    }
    flags[b->leaf] = flag_full(b->n);
    for (uint32_t l = 1; l <= b->leaf; l++)
        for (uint32_t k = 0; k < 4; k++)
            if ((flags[l - 1].bit[k] & ~flags[l].bit[k]) != 0)
                return ts_fail(err, TS_EFORMAT, "flags of level %u lack one of the level above", l);
    return 0;
}

int ts_block_parse(const uint32_t *word, uint32_t n_words, uint32_t order, uint32_t n,
                   uint32_t n_codes, struct ts_block_parts *ret, struct ts_err *err)
{
    const uint32_t leaf = order - 1, n_streams = 2 * leaf + n_codes;
    const uint32_t n_head = (leaf + 3) / 4 + n_streams;
    struct parse b = { .word = word,
                       .desc = word + (leaf + 3) / 4,
                       .bitmap = word + n_head,
                       .n_words = n_words,
                       .leaf = leaf,
                       .n_streams = n_streams,
                       .n = n,
                       .at = n_head };
    int rc;
    assert(order >= TS_MIN_ORDER && order <= TS_MAX_ORDER && n >= 1 && n <= TS_BLOCK_NNZ);
    if (n_words < n_head)
        return ts_fail(err, TS_EFORMAT, "a block of %u words is shorter than its header", n_words);
    ret->n = n;
    ret->n_levels = order;
    ret->n_streams = n_streams;
    ret->n_words = n_words;
    rc = count_flags(&b, err);
    if (rc == 0)
        rc = find_streams(&b, ret->stream, err);
    if (rc < 0)
        return rc;
    ret->side = word + b.at;
    rc = find_exceptions(&b, ret->side, ret->stream, err);
    if (rc == 0 && b.at + (b.side_bits + 31) / 32 != n_words)
        rc = ts_fail(err, TS_EFORMAT, "the block has %u words, its parts need %u", n_words,
                     (uint32_t)(b.at + (b.side_bits + 31) / 32));
    return rc < 0 ? rc : find_flags(&b, ret->side, ret->flags, err);
}

/* Whether the bits after the first `bits` in their last word are zero. */
static int ends_in_zeros(const uint32_t *word, uint64_t bits)
{
    return bits % 32 == 0 || word[bits / 32] >> bits % 32 == 0;
}

int ts_block_check_padding(const uint32_t *word, const struct ts_block_parts *parts,
                           struct ts_err *err)
{
    const uint32_t leaf = parts->n_levels - 1;
    const uint32_t *desc = word + (leaf + 3) / 4;
    const struct ts_packed *last = &parts->stream[parts->n_streams - 1];
    int zeros = ends_in_zeros(word, 8 * (uint64_t)leaf);
    for (uint32_t s = 0; s < parts->n_streams; s++) {
        const struct ts_packed *p = &parts->stream[s];
        zeros &= ends_in_zeros(p->word, (uint64_t)p->n * p->width);
        zeros &= p->n > 0 || desc[s] == 0;
    }
    zeros &= ends_in_zeros(parts->side, last->high_bit + (uint64_t)last->n_exc * last->exc_width);
    return zeros ? 0 : ts_fail(err, TS_EFORMAT, "bits that must be zero are not");
}

void ts_packed_decode(const struct ts_packed *s, const uint32_t *side, uint32_t *out)
{
    const uint8_t *byte = (const uint8_t *)s->word;
    const uint32_t n = s->n, width = s->width, base = s->base, mask = low_mask(width);
    const uint32_t n_bytes = (n * width + 31) / 32 * 4;
    /* The first loop reads 8 bytes from the first byte of an entry on. For the last entries, these
     * 8 bytes may extend beyond the stream, so another loop reads them. */
    const uint32_t whole = width == 0 || n_bytes < 8 ? 0 : 8 * (n_bytes - 8) / width;
    const uint32_t n_fast = whole < n ? whole : n;
    for (uint32_t i = 0, bit = 0; i < n_fast; i++, bit += width) {
        uint64_t eight;
        memcpy(&eight, byte + bit / 8, sizeof eight);
        out[i] = base + ((uint32_t)(eight >> bit % 8) & mask);
    }
    for (uint32_t i = n_fast; i < n; i++)
        out[i] = base + ts_bits_get(s->word, (uint64_t)i * width, width);
    for (uint32_t i = 0; i < s->n_exc; i++) {
        const uint32_t pos = ts_bits_get(side, s->pos_bit + 8 * i, 8);
        out[pos] += ts_bits_get(side, s->high_bit + i * s->exc_width, s->exc_width) << s->width;
    }
}

/* Computes the indices of a level. up: flags of the level above, including that of the first
 * nonzero; own: flags of this level. There are no branches, because flags are unpredictable: an
 * entry of each stream is read even if it is not used, so each stream has one entry more than it
 * needs. */
static void decode_level(const struct ts_flags *up, const struct ts_flags *own, uint32_t n,
                         const uint32_t *abs, const uint32_t *delta, uint32_t *ret)
{
    uint32_t index = 0;
    for (uint32_t k = 0; 64 * k < n; k++) {
        const uint32_t end = n - 64 * k < 64 ? n - 64 * k : 64;
        const uint64_t is_abs = up->bit[k], is_delta = own->bit[k] & ~is_abs;
        for (uint32_t j = 0; j < end; j++) {
            const uint32_t a = is_abs >> j & 1, d = is_delta >> j & 1;
            index = (index & (a - 1)) + (*abs & -a) + (*delta & -d);
            abs += a;
            delta += d;
            ret[64 * k + j] = index;
        }
    }
}

void ts_block_decode(const struct ts_block_parts *parts, uint32_t first_row, struct ts_block *ret)
{
    const uint32_t leaf = parts->n_levels - 1, n = parts->n;
    uint32_t abs[TS_BLOCK_NNZ + 1], delta[TS_BLOCK_NNZ + 1];
    struct ts_flags up = parts->flags[0];
    ret->n = n;
    for (uint32_t p = 0, row = first_row; p < n; p++) {
        row += (uint32_t)flag_at(&parts->flags[0], p);
        ret->level[0][p] = row;
    }
    flag_set(&up, 0);
    for (uint32_t l = 1; l <= leaf; l++) {
        const struct ts_packed *s = &parts->stream[2 * l - 2];
        ts_packed_decode(&s[0], parts->side, abs);
        ts_packed_decode(&s[1], parts->side, delta);
        abs[s[0].n] = delta[s[1].n] = 0;
        decode_level(&up, &parts->flags[l], n, abs, delta, ret->level[l]);
        up = parts->flags[l];
    }
    for (uint32_t c = 0; c < parts->n_streams - 2 * leaf; c++)
        ts_packed_decode(&parts->stream[2 * leaf + c], parts->side, ret->code[c]);
}

int ts_block_finite(const struct ts_block *b, uint32_t value_kind)
{
    const uint32_t exponent =
        value_kind == TS_VALUE_F64 ? UINT32_C(0x7ff00000) : UINT32_C(0x7f800000);
    uint32_t bad = 0;
    if (value_kind != TS_VALUE_F32 && value_kind != TS_VALUE_F64)
        return 1;
    for (uint32_t p = 0; p < b->n; p++)
        bad |= (b->code[0][p] & exponent) == exponent;
    return !bad;
}

int ts_block_weights(const struct ts_block *b)
{
    int good = 1;
    for (uint32_t p = 0; p < b->n; p++) /* weights are finite and not negative */
        good &= b->code[1][p] < UINT32_C(0x7f800000);
    return good;
}
