#include "format/block_codec.h"

#include <assert.h>
#include <string.h>

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

static uint32_t flag_count(const struct ts_flags *f)
{
    uint32_t count = 0;
    for (int k = 0; k < 4; k++)
        count += (uint32_t)__builtin_popcountll(f->bit[k]);
    return count;
}

/* The n lowest bits set. */
static struct ts_flags flag_full(uint32_t n)
{
    struct ts_flags f;
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t first = 64 * k;
        f.bit[k] = n >= first + 64 ? UINT64_MAX : n <= first ? 0 : (UINT64_C(1) << (n - first)) - 1;
    }
    return f;
}

/* ------------------------------------------------------------------ encoder */

/* Appends bit strings, lowest bit first. */
struct bit_writer {
    uint32_t *word;
    uint64_t pending;
    uint32_t n_pending;
};

static inline void put_bits(struct bit_writer *w, uint32_t value, uint32_t width)
{
    w->pending |= (uint64_t)value << w->n_pending;
    w->n_pending += width;
    if (w->n_pending >= 32) {
        *w->word++ = (uint32_t)w->pending;
        w->pending >>= 32;
        w->n_pending -= 32;
    }
}

static inline void flush_bits(struct bit_writer *w)
{
    if (w->n_pending > 0)
        *w->word++ = (uint32_t)w->pending;
    w->pending = 0;
    w->n_pending = 0;
}

/* How a stream will be stored. */
struct stream_plan {
    const uint32_t *value;
    uint32_t n, width, exc_width, n_exc, base;
};

static uint32_t plan_descriptor(const struct stream_plan *s)
{
    return s->width | s->exc_width << 6 | s->n_exc << 12 | bit_length(s->base) << 20;
}

/* Chooses the width that needs the fewest bits, entries that do not fit being exceptions. */
static struct stream_plan plan_stream(const uint32_t *value, uint32_t n)
{
    struct stream_plan s = { .value = value, .n = n };
    uint32_t lo = UINT32_MAX, hi = 0, longer = 0, max_width, best;
    uint32_t count[33] = { 0 };
    if (n == 0)
        return s;
    for (uint32_t i = 0; i < n; i++) {
        lo = value[i] < lo ? value[i] : lo;
        hi = value[i] > hi ? value[i] : hi;
    }
    s.base = lo;
    max_width = bit_length(hi - lo);
    s.width = max_width;
    if (max_width == 0)
        return s;
    for (uint32_t i = 0; i < n; i++)
        count[bit_length(value[i] - lo)]++;
    best = n * max_width;
    for (uint32_t w = max_width - 1; w < 32; w--) { /* wraps below 0 */
        uint32_t bits;
        longer += count[w + 1];
        if (longer > 255)
            break;
        bits = n * w + longer * (8 + max_width - w);
        if (bits < best) {
            best = bits;
            s.width = w;
            s.exc_width = max_width - w;
            s.n_exc = longer;
        }
    }
    return s;
}

static uint32_t *pack_stream(const struct stream_plan *s, uint32_t *out)
{
    struct bit_writer w = { .word = out };
    const uint32_t mask = low_mask(s->width);
    if (s->width == 0)
        return out;
    for (uint32_t i = 0; i < s->n; i++)
        put_bits(&w, (s->value[i] - s->base) & mask, s->width);
    flush_bits(&w);
    return w.word;
}

static void pack_side(const struct stream_plan *s, struct bit_writer *w)
{
    const uint32_t limit = low_mask(s->width);
    put_bits(w, s->base, bit_length(s->base));
    if (s->n_exc == 0)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->value[i] - s->base > limit)
            put_bits(w, i, 8);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->value[i] - s->base > limit)
            put_bits(w, (s->value[i] - s->base) >> s->width, s->exc_width);
}

/* Cheapest way to write the flags of a level; `full` are those of TS_FLAGS_ALL, `none` of
 * TS_FLAGS_NONE. A position costs 8 bits, the bitmap 256, so lists hold at most 31. */
static enum ts_flags_kind plan_flags(const struct ts_flags *f, const struct ts_flags *full,
                                     uint32_t implied, uint32_t *count)
{
    const uint32_t n_set = flag_count(f) - implied, n_clear = flag_count(full) - flag_count(f);
    *count = 0;
    if (n_set == 0)
        return TS_FLAGS_NONE;
    if (n_clear == 0)
        return TS_FLAGS_ALL;
    if (n_set > 31 && n_clear > 31)
        return TS_FLAGS_BITMAP;
    *count = n_set <= n_clear ? n_set : n_clear;
    return n_set <= n_clear ? TS_FLAGS_SET : TS_FLAGS_CLEAR;
}

uint32_t ts_block_encode(uint32_t order, uint32_t n, const uint32_t *const level[],
                         uint32_t n_codes, const uint32_t *const code[], uint32_t *out)
{
    const uint32_t leaf = order - 1, n_streams = 2 * leaf + n_codes;
    uint32_t entry[2 * (TS_MAX_ORDER - 1)][TS_BLOCK_NNZ];
    struct stream_plan plan[TS_BLOCK_MAX_STREAMS];
    struct ts_flags flags[TS_MAX_ORDER], up;
    enum ts_flags_kind kind[TS_MAX_ORDER];
    uint32_t count[TS_MAX_ORDER], *word = out;
    struct bit_writer side = { 0 };

    assert(order >= TS_MIN_ORDER && order <= TS_MAX_ORDER && n >= 1 && n <= TS_BLOCK_NNZ);
    memset(flags, 0, sizeof flags);
    for (uint32_t p = 1; p < n; p++) {
        const uint32_t step = level[0][p] - level[0][p - 1];
        assert(step <= 1);
        flags[0].bit[p >> 6] |= (uint64_t)step << (p & 63);
    }
    up = flags[0]; /* flags of the level above, the first nonzero included */
    flag_set(&up, 0);
    for (uint32_t l = 1; l <= leaf; l++) {
        uint32_t *abs = entry[2 * l - 2], *delta = entry[2 * l - 1], n_abs = 1, n_delta = 0;
        const uint32_t *idx = level[l];
        abs[0] = idx[0];
        flag_set(&flags[l], 0);
        for (uint32_t p = 1; p < n; p++) { /* without branches: both are written, one is kept */
            const uint32_t above = (uint32_t)flag_at(&up, p), step = idx[p] - idx[p - 1];
            const uint32_t set = above | (step != 0) | (l == leaf);
            abs[n_abs] = idx[p];
            n_abs += above;
            delta[n_delta] = step;
            n_delta += set & ~above;
            flags[l].bit[p >> 6] |= (uint64_t)set << (p & 63);
        }
        plan[2 * l - 2] = plan_stream(abs, n_abs);
        plan[2 * l - 1] = plan_stream(delta, n_delta);
        up = flags[l];
    }
    for (uint32_t c = 0; c < n_codes; c++)
        plan[2 * leaf + c] = plan_stream(code[c], n);

    memset(word, 0, (leaf + 3) / 4 * sizeof *word);
    for (uint32_t l = 0; l < leaf; l++) {
        struct ts_flags full = flag_full(n);
        full.bit[0] &= l == 0 ? ~UINT64_C(1) : UINT64_MAX;
        kind[l] = plan_flags(&flags[l], &full, l > 0, &count[l]);
        word[l / 4] |= ((uint32_t)kind[l] | count[l] << 3) << 8 * (l % 4);
    }
    word += (leaf + 3) / 4;
    for (uint32_t s = 0; s < n_streams; s++)
        *word++ = plan_descriptor(&plan[s]);
    for (uint32_t l = 0; l < leaf; l++) {
        if (kind[l] != TS_FLAGS_BITMAP)
            continue;
        for (uint32_t k = 0; k < 8; k++)
            *word++ = (uint32_t)(flags[l].bit[k / 2] >> 32 * (k % 2));
    }
    for (uint32_t s = 0; s < n_streams; s++)
        word = pack_stream(&plan[s], word);
    side.word = word;
    for (uint32_t l = 0; l < leaf; l++) {
        const int want = kind[l] == TS_FLAGS_SET;
        if (kind[l] != TS_FLAGS_SET && kind[l] != TS_FLAGS_CLEAR)
            continue;
        for (uint32_t p = 1; p < n; p++)
            if (flag_at(&flags[l], p) == want)
                put_bits(&side, p, 8);
    }
    for (uint32_t s = 0; s < n_streams; s++)
        pack_side(&plan[s], &side);
    flush_bits(&side);
    return (uint32_t)(side.word - out);
}

/* ------------------------------------------------------------------ decoder */

uint32_t ts_bits_get(const uint32_t *word, uint64_t at, uint32_t width)
{
    const uint32_t *w = word + (at >> 5);
    const uint32_t shift = at & 31;
    uint64_t two;
    if (width == 0)
        return 0;
    two = w[0];
    if (shift + width > 32) /* the next word may lie outside: touch it only when it is needed */
        two |= (uint64_t)w[1] << 32;
    return (uint32_t)(two >> shift) & low_mask(width);
}

/* Reads the flags of a level. *side_bit is where its positions start, and moves past them. */
static int parse_flags(uint32_t kind, uint32_t count, uint32_t n, int is_row,
                       const uint32_t *bitmap, const uint32_t *side, uint64_t *side_bit,
                       struct ts_flags *ret, struct ts_err *err)
{
    const struct ts_flags full = flag_full(n);
    uint32_t last = 0;
    struct ts_flags f = { { is_row ? 0 : 1, 0, 0, 0 } };
    if (kind == TS_FLAGS_ALL || kind == TS_FLAGS_CLEAR) {
        f = full;
        f.bit[0] &= is_row ? ~UINT64_C(1) : UINT64_MAX;
    }
    if (kind == TS_FLAGS_BITMAP) {
        for (uint32_t k = 0; k < 4; k++)
            f.bit[k] = bitmap[2 * k] | (uint64_t)bitmap[2 * k + 1] << 32;
        for (uint32_t k = 0; k < 4; k++)
            if ((f.bit[k] & ~full.bit[k]) != 0)
                return ts_fail(err, TS_EFORMAT, "flags beyond the block's %u nonzeros", n);
        if ((f.bit[0] & 1) != !is_row)
            return ts_fail(err, TS_EFORMAT, "the flag of the first nonzero is wrong");
    }
    if (kind == TS_FLAGS_SET || kind == TS_FLAGS_CLEAR) {
        for (uint32_t i = 0; i < count; i++, *side_bit += 8) {
            const uint32_t p = ts_bits_get(side, *side_bit, 8);
            if (p <= last || p >= n)
                return ts_fail(err, TS_EFORMAT, "flag positions do not ascend inside the block");
            f.bit[p >> 6] ^= UINT64_C(1) << (p & 63);
            last = p;
        }
    }
    *ret = f;
    return 0;
}

int ts_block_parse(const uint32_t *word, uint32_t n_words, uint32_t order, uint32_t n,
                   uint32_t n_codes, struct ts_block_parts *ret, struct ts_err *err)
{
    const uint32_t leaf = order - 1, n_streams = 2 * leaf + n_codes;
    const uint32_t n_head = (leaf + 3) / 4 + n_streams, *desc = word + (leaf + 3) / 4;
    uint64_t at = n_head, side_bits = 0, end_bit;
    const uint32_t *bitmap;
    struct ts_flags up;

    assert(order >= TS_MIN_ORDER && order <= TS_MAX_ORDER && n >= 1 && n <= TS_BLOCK_NNZ);
    if (n_words < n_head)
        return ts_fail(err, TS_EFORMAT, "a block of %u words is shorter than its header", n_words);
    ret->n = n;
    ret->n_levels = order;
    ret->n_streams = n_streams;
    ret->n_words = n_words;
    bitmap = word + n_head;

    /* Sizes first, so that nothing outside the block is touched. Stream lengths follow from the
     * flags, and lists of flags lie behind the streams, whose place follows from the lengths: the
     * number of flags, not their place, settles the lengths. */
    uint32_t n_set[TS_MAX_ORDER];
    for (uint32_t l = 0; l < leaf; l++) {
        const uint32_t d = word[l / 4] >> 8 * (l % 4), kind = d & 7, count = d >> 3 & 31;
        const uint32_t implied = l > 0;
        if (kind > TS_FLAGS_BITMAP)
            return ts_fail(err, TS_EFORMAT, "flags of unknown kind %u", kind);
        if ((kind == TS_FLAGS_SET || kind == TS_FLAGS_CLEAR) ? count >= n : count != 0)
            return ts_fail(err, TS_EFORMAT, "a wrong number of flags, %u", count);
        switch (kind) {
        case TS_FLAGS_NONE:
            n_set[l] = implied;
            break;
        case TS_FLAGS_ALL:
            n_set[l] = n - 1 + implied;
            break;
        case TS_FLAGS_SET:
            n_set[l] = count + implied;
            side_bits += 8 * count;
            break;
        case TS_FLAGS_CLEAR:
            n_set[l] = n - 1 - count + implied;
            side_bits += 8 * count;
            break;
        default:
            if (at + 8 > n_words)
                return ts_fail(err, TS_EFORMAT, "a bitmap beyond the end of the block");
            n_set[l] = 0;
            for (uint32_t k = 0; k < 8; k++)
                n_set[l] += (uint32_t)__builtin_popcount(word[at + k]);
            at += 8;
        }
    }
    n_set[leaf] = n;
    for (uint32_t s = 0; s < n_streams; s++) {
        struct ts_packed *p = &ret->stream[s];
        const uint32_t l = s / 2 + 1;
        const uint32_t above = s >= 2 * leaf ? 0 : l == 1 ? n_set[0] + 1 : n_set[l - 1];
        p->n = s >= 2 * leaf ? n : s % 2 == 0 ? above : n_set[l] - above;
        p->width = desc[s] & 63;
        p->exc_width = desc[s] >> 6 & 63;
        p->n_exc = desc[s] >> 12 & 255;
        if (s < 2 * leaf && n_set[l] < above)
            return ts_fail(err, TS_EFORMAT, "level %u has fewer nodes than the level above", l);
        if (p->width + p->exc_width > 32 || (desc[s] >> 20 & 63) > 32 || desc[s] >> 26 != 0)
            return ts_fail(err, TS_EFORMAT, "stream %u has an impossible width", s);
        if (p->n_exc > p->n || (p->n_exc > 0) != (p->exc_width > 0))
            return ts_fail(err, TS_EFORMAT, "stream %u has an impossible number of exceptions", s);
        p->word = word + at;
        at += ((uint64_t)p->n * p->width + 31) / 32;
        if (at > n_words)
            return ts_fail(err, TS_EFORMAT, "stream %u ends beyond the block", s);
    }
    ret->side = word + at;
    for (uint32_t s = 0; s < n_streams; s++) {
        struct ts_packed *p = &ret->stream[s];
        const uint32_t base_width = desc[s] >> 20 & 63;
        end_bit = side_bits + base_width + (uint64_t)p->n_exc * (8 + p->exc_width);
        if (at + (end_bit + 31) / 32 > n_words)
            return ts_fail(err, TS_EFORMAT, "exceptions of stream %u end beyond the block", s);
        p->base = ts_bits_get(ret->side, side_bits, base_width);
        p->pos_bit = (uint32_t)side_bits + base_width;
        p->high_bit = p->pos_bit + 8 * p->n_exc;
        side_bits = end_bit;
        for (uint32_t i = 0, last = 0; i < p->n_exc; i++) {
            const uint32_t pos = ts_bits_get(ret->side, p->pos_bit + 8 * i, 8);
            if (pos >= p->n || (i > 0 && pos <= last))
                return ts_fail(err, TS_EFORMAT, "exceptions of stream %u do not ascend inside it", s);
            last = pos;
        }
    }
    if (at + (side_bits + 31) / 32 != n_words)
        return ts_fail(err, TS_EFORMAT, "the block has %u words, its parts need %u", n_words,
                       (uint32_t)(at + (side_bits + 31) / 32));

    side_bits = 0;
    for (uint32_t l = 0; l < leaf; l++) {
        const uint32_t d = word[l / 4] >> 8 * (l % 4), kind = d & 7, count = d >> 3 & 31;
        const int rc = parse_flags(kind, count, n, l == 0, bitmap, ret->side, &side_bits,
                                   &ret->flags[l], err);
        if (rc < 0)
            return rc;
        bitmap += kind == TS_FLAGS_BITMAP ? 8 : 0;
    }
    ret->flags[leaf] = flag_full(n);
    up = ret->flags[0];
    for (uint32_t l = 1; l <= leaf; l++) {
        for (uint32_t k = 0; k < 4; k++)
            if ((up.bit[k] & ~ret->flags[l].bit[k]) != 0)
                return ts_fail(err, TS_EFORMAT, "flags of level %u lack one of the level above", l);
        up = ret->flags[l];
    }
    return 0;
}

void ts_packed_decode(const struct ts_packed *s, const uint32_t *side, uint32_t *out)
{
    for (uint32_t i = 0; i < s->n; i++)
        out[i] = s->base + ts_bits_get(s->word, (uint64_t)i * s->width, s->width);
    for (uint32_t i = 0; i < s->n_exc; i++) {
        const uint32_t pos = ts_bits_get(side, s->pos_bit + 8 * i, 8);
        out[pos] += ts_bits_get(side, s->high_bit + i * s->exc_width, s->exc_width) << s->width;
    }
}

void ts_block_decode(const struct ts_block_parts *parts, uint32_t first_row, struct ts_block *ret)
{
    const uint32_t leaf = parts->n_levels - 1, n = parts->n;
    uint32_t abs[TS_BLOCK_NNZ], delta[TS_BLOCK_NNZ];
    ret->n = n;
    for (uint32_t p = 0, row = first_row; p < n; p++) {
        row += (uint32_t)flag_at(&parts->flags[0], p);
        ret->level[0][p] = row;
    }
    for (uint32_t l = 1; l <= leaf; l++) {
        uint32_t i = 0, d = 0, index = 0;
        ts_packed_decode(&parts->stream[2 * l - 2], parts->side, abs);
        ts_packed_decode(&parts->stream[2 * l - 1], parts->side, delta);
        for (uint32_t p = 0; p < n; p++) {
            if (p == 0 || flag_at(&parts->flags[l - 1], p))
                index = abs[i++];
            else if (flag_at(&parts->flags[l], p))
                index += delta[d++];
            ret->level[l][p] = index;
        }
    }
    for (uint32_t c = 0; c < parts->n_streams - 2 * leaf; c++)
        ts_packed_decode(&parts->stream[2 * leaf + c], parts->side, ret->code[c]);
}
