/* SPDX-License-Identifier: BSD-3-Clause */
/* Packs nonzeros into blocks, whose layout block_codec.h describes. */
#include <assert.h>
#include <string.h>

#include "format/blocks/block_bits.h"
#include "format/blocks/block_codec.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Functions are inlined into one copy of the encoder per instruction set. */
#define INLINE static inline __attribute__((always_inline))

/* A bit string that is being written, lowest bit first. */
struct bit_writer {
    uint32_t *word;
    uint64_t pending;
    uint32_t n_pending;
};

/* Appends `width` bits. Always stores a word instead of branching: whether a word is full is
 * unpredictable. */
static inline void put_bits(struct bit_writer *w, uint32_t value, uint32_t width)
{
    w->pending |= (uint64_t)value << w->n_pending;
    w->n_pending += width;
    *w->word = (uint32_t)w->pending;
    w->word += w->n_pending >> 5;
    w->pending >>= w->n_pending & 32;
    w->n_pending &= 31;
}

static inline void flush_bits(struct bit_writer *w)
{
    if (w->n_pending > 0)
        *w->word++ = (uint32_t)w->pending;
    w->pending = 0;
    w->n_pending = 0;
}

/* The steps that take most of the encoder's time, for 16 entries at once. The portable functions
 * below have the same names without `_avx512`; their comments say what both do. Reads beyond entry
 * n are masked. */
#if defined(__x86_64__)
#define AVX512    "avx512f,avx512bw,avx512cd,avx512vl,avx512dq"
#define AVX512_FN __attribute__((target(AVX512 ",popcnt"))) static

AVX512_FN inline __mmask16 lanes_left(uint32_t n, uint32_t i)
{
    return n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
}

AVX512_FN void find_range_avx512(const uint32_t *value, uint32_t n, uint32_t *lo, uint32_t *hi)
{
    __m512i least = _mm512_set1_epi32(-1), most = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 in = lanes_left(n, i);
        const __m512i v = _mm512_maskz_loadu_epi32(in, value + i);
        least = _mm512_mask_min_epu32(least, in, least, v);
        most = _mm512_max_epu32(most, v);
    }
    *lo = _mm512_reduce_min_epu32(least);
    *hi = _mm512_reduce_max_epu32(most);
}

AVX512_FN void count_longer_avx512(const uint32_t *value, uint32_t n, uint32_t base,
                                   uint32_t max_width, uint32_t *longer)
{
    uint8_t length[TS_BLOCK_NNZ] __attribute__((aligned(64)));
    const uint32_t n_vectors = (n + 63) / 64;
    for (uint32_t i = 0; i < 64 * n_vectors; i += 16) {
        const __mmask16 in = i < n ? lanes_left(n, i) : 0;
        const __m512i v = _mm512_maskz_loadu_epi32(in, value + i);
        const __m512i clz = _mm512_lzcnt_epi32(_mm512_sub_epi32(v, _mm512_set1_epi32((int)base)));
        const __m512i bits = _mm512_maskz_sub_epi32(in, _mm512_set1_epi32(32), clz);
        _mm_store_si128((__m128i *)(length + i), _mm512_cvtepi32_epi8(bits));
    }
    for (uint32_t w = max_width; w-- > 0;) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < n_vectors; k++)
            sum += (uint32_t)__builtin_popcountll(_mm512_cmpgt_epu8_mask(
                _mm512_load_si512(length + 64 * k), _mm512_set1_epi8((char)w)));
        longer[w] = sum;
    }
}

AVX512_FN struct ts_flags row_flags_avx512(const uint32_t *row, uint32_t n)
{
    struct ts_flags flags = { { 0 } };
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 in = lanes_left(n, i);
        in &= i == 0 ? 0xfffe : 0xffff;
        const __m512i now = _mm512_maskz_loadu_epi32(in, row + i);
        const __m512i before = _mm512_maskz_loadu_epi32(in, row + i - 1);
        flags.bit[i >> 6] |= (uint64_t)_mm512_cmpneq_epi32_mask(now, before) << (i & 63);
    }
    return flags;
}

AVX512_FN uint32_t split_level_avx512(const uint32_t *idx, uint32_t n, int is_leaf,
                                      struct ts_flags *flags, uint32_t *abs, uint32_t *delta,
                                      uint32_t *n_delta)
{
    uint32_t n_abs = 0, n_gaps = 0;
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 in = lanes_left(n, i), above = (__mmask16)(flags->bit[i >> 6] >> (i & 63));
        const __m512i now = _mm512_maskz_loadu_epi32(in, idx + i);
        const __m512i before = _mm512_maskz_loadu_epi32(i == 0 ? in & 0xfffe : in, idx + i - 1);
        const __m512i step = _mm512_sub_epi32(now, before);
        const __mmask16 set =
            in & (above | (is_leaf ? 0xffff : _mm512_test_epi32_mask(step, step)));
        const __mmask16 gap = set & (__mmask16)~above;
        _mm512_storeu_si512(abs + n_abs, _mm512_maskz_compress_epi32(above, now));
        n_abs += (uint32_t)__builtin_popcount(above);
        _mm512_storeu_si512(delta + n_gaps, _mm512_maskz_compress_epi32(gap, step));
        n_gaps += (uint32_t)__builtin_popcount(gap);
        flags->bit[i >> 6] |= (uint64_t)set << (i & 63);
    }
    *n_delta = n_gaps;
    return n_abs;
}
#else
#define find_range_avx512   find_range
#define count_longer_avx512 count_longer
#define row_flags_avx512    row_flags
#define split_level_avx512  split_level
#endif

/* The encoding chosen for a stream of index differences or codes. */
struct stream_plan {
    const uint32_t *value;
    uint32_t n, width, exc_width, n_exc, base;
};

static uint32_t plan_descriptor(const struct stream_plan *s)
{
    return s->width | s->exc_width << 6 | s->n_exc << 12 | bit_length(s->base) << 20;
}

/* Sets longer[w], w < 32, to the number of a stream's entries that need more than w bits after the
 * smallest entry is subtracted. Four tables are used in turn, because counting in one would wait
 * for its own stores. */
INLINE void count_longer(const uint32_t *value, uint32_t n, uint32_t base, uint32_t max_width,
                         uint32_t *longer)
{
    uint32_t count[4][33] = { { 0 } }, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        count[i & 3][bit_length(value[i] - base)]++;
    for (uint32_t w = max_width; w-- > 0;) {
        sum += count[0][w + 1] + count[1][w + 1] + count[2][w + 1] + count[3][w + 1];
        longer[w] = sum;
    }
}

INLINE void find_range(const uint32_t *value, uint32_t n, uint32_t *lo, uint32_t *hi)
{
    *lo = UINT32_MAX;
    *hi = 0;
    for (uint32_t i = 0; i < n; i++) {
        *lo = value[i] < *lo ? value[i] : *lo;
        *hi = value[i] > *hi ? value[i] : *hi;
    }
}

/* Chooses the width of a stream's entries that needs the fewest bits in all. Entries that do not
 * fit are exceptions. */
INLINE struct stream_plan plan_stream(const uint32_t *value, uint32_t n, int avx512)
{
    struct stream_plan s = { .value = value, .n = n };
    uint32_t hi, max_width, best, longer[32];
    if (n == 0)
        return s;
    if (avx512)
        find_range_avx512(value, n, &s.base, &hi);
    else
        find_range(value, n, &s.base, &hi);
    max_width = bit_length(hi - s.base);
    s.width = max_width;
    if (max_width == 0)
        return s;
    if (avx512)
        count_longer_avx512(value, n, s.base, max_width, longer);
    else
        count_longer(value, n, s.base, max_width, longer);
    best = n * max_width;
    for (uint32_t w = max_width; w-- > 0 && longer[w] < 256;) {
        const uint32_t bits = n * w + longer[w] * (8 + max_width - w);
        if (bits < best) {
            best = bits;
            s.width = w;
            s.exc_width = max_width - w;
            s.n_exc = longer[w];
        }
    }
    return s;
}

/* Writes n strings of `width` (<= 56) bits each, one after another, as a bit string at out. Each
 * store writes 8 bytes, so up to 8 bytes after the string are overwritten. */
INLINE void append_bits(const uint64_t *part, uint32_t n, uint32_t width, uint32_t *out)
{
    uint8_t *byte = (uint8_t *)out;
    uint64_t pending = 0;
    uint32_t n_pending = 0;
    for (uint32_t i = 0; i < n; i++) {
        pending |= part[i] << n_pending;
        memcpy(byte, &pending, 8);
        n_pending += width;
        byte += n_pending >> 3;
        pending >>= n_pending & 56; /* removes the whole bytes, which are stored */
        n_pending &= 7;
    }
    memcpy(byte, &pending, 8);
}

/* Writes the low `width` bits of every entry of a stream. Two or four neighbours are first joined
 * to a part of 64 bits: compilers vectorise that loop, and fewer parts are left for the appending
 * loop, in which each step waits for the one before. */
INLINE uint32_t *pack_stream(const struct stream_plan *s, uint32_t *out)
{
    const uint32_t mask = low_mask(s->width), w = s->width, base = s->base;
    uint32_t low[TS_BLOCK_NNZ + 4];
    uint64_t part[TS_BLOCK_NNZ];
    if (w == 0)
        return out;
    for (uint32_t i = 0; i < s->n; i++)
        low[i] = (s->value[i] - base) & mask;
    for (uint32_t i = 0; i < 4; i++)
        low[s->n + i] = 0;
    if (w <= 14) {
        const uint32_t n = (s->n + 3) / 4;
        for (uint32_t i = 0; i < n; i++)
            part[i] = (low[4 * i] | (uint64_t)low[4 * i + 1] << w) |
                      (low[4 * i + 2] | (uint64_t)low[4 * i + 3] << w) << 2 * w;
        append_bits(part, n, 4 * w, out);
    } else if (w <= 28) {
        const uint32_t n = (s->n + 1) / 2;
        for (uint32_t i = 0; i < n; i++)
            part[i] = low[2 * i] | (uint64_t)low[2 * i + 1] << w;
        append_bits(part, n, 2 * w, out);
    } else {
        for (uint32_t i = 0; i < s->n; i++)
            part[i] = low[i];
        append_bits(part, s->n, w, out);
    }
    return out + (s->n * w + 31) / 32;
}

INLINE void pack_side(const struct stream_plan *s, struct bit_writer *w)
{
    const uint32_t limit = low_mask(s->width);
    uint32_t pos[TS_BLOCK_NNZ + 1], n = 0;
    put_bits(w, s->base, bit_length(s->base));
    if (s->n_exc == 0)
        return;
    for (uint32_t i = 0; n < s->n_exc; i++) { /* no branch, as exceptions are unpredictable */
        pos[n] = i;
        n += s->value[i] - s->base > limit;
    }
    for (uint32_t i = 0; i < n; i++)
        put_bits(w, pos[i], 8);
    for (uint32_t i = 0; i < n; i++)
        put_bits(w, (s->value[pos[i]] - s->base) >> s->width, s->exc_width);
}

/* Chooses the cheapest way to write the flags of a level: returns it and sets *count to the number
 * of listed positions. full: the flags that TS_FLAGS_ALL means; implied: 1 if the first flag is
 * not written. A position costs 8 bits, the bitmap 256, so lists hold at most 31. */
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

/* Divides the indices of a level into absolute ones and deltas (differences to the nonzero before).
 * *flags: on entry the flags of the level above, including that of the first nonzero; on return
 * those of this level. abs and delta have room for n numbers. Returns the number of absolute
 * entries. There are no branches: both entries are written, and one is kept. */
INLINE uint32_t split_level(const uint32_t *idx, uint32_t n, int is_leaf, struct ts_flags *flags,
                            uint32_t *abs, uint32_t *delta, uint32_t *n_delta)
{
    uint32_t n_abs = 0, n_gaps = 0, before = idx[0];
    for (uint32_t k = 0; 64 * k < n; k++) {
        const uint32_t end = n - 64 * k < 64 ? n - 64 * k : 64;
        const uint64_t above = flags->bit[k];
        uint64_t mine = 0;
        for (uint32_t j = 0; j < end; j++) {
            const uint32_t index = idx[64 * k + j], step = index - before;
            const uint32_t up = above >> j & 1, set = up | (step != 0) | (uint32_t)is_leaf;
            abs[n_abs] = index;
            n_abs += up;
            delta[n_gaps] = step;
            n_gaps += set & ~up;
            mine |= (uint64_t)set << j;
            before = index;
        }
        flags->bit[k] = mine;
    }
    *n_delta = n_gaps;
    return n_abs;
}

/* Returns the flags of level 0, set where the row increases. It increases by at most 1. */
INLINE struct ts_flags row_flags(const uint32_t *row, uint32_t n)
{
    struct ts_flags flags = { { 0 } };
    uint32_t before = row[0];
    for (uint32_t k = 0; 64 * k < n; k++) {
        const uint32_t end = n - 64 * k < 64 ? n - 64 * k : 64;
        uint64_t mine = 0;
        for (uint32_t j = 0; j < end; j++) {
            const uint32_t r = row[64 * k + j];
            assert(r - before <= 1);
            mine |= (uint64_t)(r != before) << j;
            before = r;
        }
        flags.bit[k] = mine;
    }
    return flags;
}

INLINE uint32_t encode(uint32_t order, uint32_t n, const uint32_t *const level[], uint32_t n_codes,
                       const uint32_t *const code[], uint32_t *out, int avx512)
{
    const uint32_t leaf = order - 1, n_streams = 2 * leaf + n_codes;
    uint32_t entry[2 * (TS_MAX_ORDER - 1)][TS_BLOCK_NNZ + 16]; /* 16: slack for vector stores */
    struct stream_plan plan[TS_BLOCK_MAX_STREAMS];
    struct ts_flags flags[TS_MAX_ORDER], up;
    enum ts_flags_kind kind[TS_MAX_ORDER];
    uint32_t count[TS_MAX_ORDER], *word = out;
    struct bit_writer side = { 0 };

    assert(order >= TS_MIN_ORDER && order <= TS_MAX_ORDER && n >= 1 && n <= TS_BLOCK_NNZ);
    flags[0] = avx512 ? row_flags_avx512(level[0], n) : row_flags(level[0], n);
    up = flags[0]; /* flags of the level above, including the first nonzero's */
    flag_set(&up, 0);
    for (uint32_t l = 1; l <= leaf; l++) {
        uint32_t *abs = entry[2 * l - 2], *delta = entry[2 * l - 1], n_abs, n_delta;
        if (avx512)
            n_abs = split_level_avx512(level[l], n, l == leaf, &up, abs, delta, &n_delta);
        else
            n_abs = split_level(level[l], n, l == leaf, &up, abs, delta, &n_delta);
        plan[2 * l - 2] = plan_stream(abs, n_abs, avx512);
        plan[2 * l - 1] = plan_stream(delta, n_delta, avx512);
        flags[l] = up;
    }
    for (uint32_t c = 0; c < n_codes; c++)
        plan[2 * leaf + c] = plan_stream(code[c], n, avx512);

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

uint32_t ts_block_encode_plain(uint32_t order, uint32_t n, const uint32_t *const level[],
                               uint32_t n_codes, const uint32_t *const code[], uint32_t *out)
{
    return encode(order, n, level, n_codes, code, out, 0);
}

#if defined(__x86_64__)
/* The encoder for AVX2 and BMI2. Without BMI2 a shift by a variable takes three instructions; AVX2
 * makes the loops faster that find minimum and maximum, and that join neighbours. */
__attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"))) static uint32_t
encode_avx2(uint32_t order, uint32_t n, const uint32_t *const level[], uint32_t n_codes,
            const uint32_t *const code[], uint32_t *out)
{
    return encode(order, n, level, n_codes, code, out, 0);
}

__attribute__((target(AVX512 ",bmi,bmi2,lzcnt,popcnt"))) static uint32_t
encode_avx512(uint32_t order, uint32_t n, const uint32_t *const level[], uint32_t n_codes,
              const uint32_t *const code[], uint32_t *out)
{
    return encode(order, n, level, n_codes, code, out, 1);
}
#endif

uint32_t ts_block_encode(uint32_t order, uint32_t n, const uint32_t *const level[],
                         uint32_t n_codes, const uint32_t *const code[], uint32_t *out)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("bmi2"))
        return encode_avx512(order, n, level, n_codes, code, out);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
        return encode_avx2(order, n, level, n_codes, code, out);
#endif
    return ts_block_encode_plain(order, n, level, n_codes, code, out);
}
