/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves fields between layouts of records. Loops over records of one or two words are vectorized,
 * and compiled for several instruction sets. */
#include "build/sort/record.h"

#include <string.h>

#include "base/machine/isa.h"

#define INLINE static inline __attribute__((always_inline))
#define SIMD   _Pragma("omp simd") /* vectorizes the loop at lower optimization levels, too */

void ts_record_layout_set(struct ts_record_layout *l, uint32_t n_fields, const uint32_t width[])
{
    uint32_t at = 0;
    memset(l, 0, sizeof *l);
    l->n_fields = n_fields;
    for (uint32_t f = 0; f < n_fields; f++) {
        l->width[f] = width[f];
        l->start[f] = at;
        at += width[f];
    }
    l->bits = at;
    l->words = at == 0 ? 1 : (at + 63) / 64;
}

/* ------------------------------------------------------------------ records of one or two words */

/* How a field is moved from one word to another: the word is rotated left by `turn` bits, then
 * masked. */
struct move {
    uint32_t turn; /* bits, 0..63 */
    uint64_t mask;
};

/* Returns the move of a field of `width` bits at bit `start` of a word to a field of `to_width`
 * bits at bit `to_start`. The low bits are kept. */
static struct move move_of(uint32_t start, uint32_t width, uint32_t to_start, uint32_t to_width)
{
    const uint32_t place = 64 - to_start - to_width;
    struct move ret = { 0 };
    if (width == 0)
        return ret;
    ret.turn = (start + width + place) % 64;
    ret.mask = UINT64_MAX >> (64 - width) << place;
    return ret;
}

INLINE uint64_t moved(uint64_t x, struct move m)
{
    return (x << m.turn | x >> (-m.turn & 63)) & m.mask;
}

/* Sets out[i] to the field of record in[i], moved to its new place. */
INLINE void move_words(const uint64_t *in, uint64_t n, struct move m, uint64_t *out)
{
    SIMD for (uint64_t i = 0; i < n; i++) out[i] = moved(in[i], m);
}

/* Adds to out[i] the field of record in[i], moved to its new place, whose bits must be zero
 * before. */
INLINE void join_words(const uint64_t *in, uint64_t n, struct move m, uint64_t *out)
{
    SIMD for (uint64_t i = 0; i < n; i++) out[i] |= moved(in[i], m);
}

/* How a field is moved between a column and records of two words: a move for each of the two
 * words. */
struct pair {
    struct move word[2];
};

/* Returns the moves of a field of records to a column (out 1) or from a column (out 0). A column
 * holds the field in the low bits of a word. */
static struct pair pair_of(uint32_t start, uint32_t width, int out)
{
    const uint32_t end = start + width;
    struct pair ret = { 0 };
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t first = start > 64 * k ? start : 64 * k;
        const uint32_t last = end < 64 * k + 64 ? end : 64 * k + 64;
        const uint32_t here = first - 64 * k, n = last - first, there = 64 - (end - first);
        if (first < last)
            ret.word[k] = out ? move_of(here, n, there, n) : move_of(there, n, here, n);
    }
    return ret;
}

/* Sets out[i] to the field of record i, which has two words. */
INLINE void move_pairs(const uint64_t *in, uint64_t n, struct pair p, uint64_t *out)
{
    SIMD for (uint64_t i = 0; i < n; i++) out[i] =
        moved(in[2 * i], p.word[0]) | moved(in[2 * i + 1], p.word[1]);
}

/* Sets the field of record i, which has two words, to in[i]. The bits of the field must be zero
 * before. */
INLINE void join_pairs(const uint64_t *in, uint64_t n, struct pair p, uint64_t *out)
{
    SIMD for (uint64_t i = 0; i < n; i++)
    {
        out[2 * i] |= moved(in[i], p.word[0]);
        out[2 * i + 1] |= moved(in[i], p.word[1]);
    }
}

#define FUNCTIONS(set)                                                                       \
    static void move_##set(const uint64_t *in, uint64_t n, struct move m, uint64_t *out)     \
    {                                                                                        \
        move_words(in, n, m, out);                                                           \
    }                                                                                        \
    static void join_##set(const uint64_t *in, uint64_t n, struct move m, uint64_t *out)     \
    {                                                                                        \
        join_words(in, n, m, out);                                                           \
    }                                                                                        \
    static void move_two_##set(const uint64_t *in, uint64_t n, struct pair p, uint64_t *out) \
    {                                                                                        \
        move_pairs(in, n, p, out);                                                           \
    }                                                                                        \
    static void join_two_##set(const uint64_t *in, uint64_t n, struct pair p, uint64_t *out) \
    {                                                                                        \
        join_pairs(in, n, p, out);                                                           \
    }

FUNCTIONS(any)

#ifdef __x86_64__
#include "base/machine/target_avx2.h"
FUNCTIONS(avx2)
#include "base/machine/target_pop.h"
#include "base/machine/target_avx512.h"
FUNCTIONS(avx512)
#include "base/machine/target_pop.h"
#endif

typedef void move_fn(const uint64_t *in, uint64_t n, struct move m, uint64_t *out);
typedef void pair_fn(const uint64_t *in, uint64_t n, struct pair p, uint64_t *out);

static const struct functions {
    move_fn *move, *join;
    pair_fn *move_two, *join_two;
} functions[TS_N_ISA] = {
    [TS_ISA_PORTABLE] = { move_any, join_any, move_two_any, join_two_any },
#ifdef __x86_64__
    [TS_ISA_AVX2] = { move_avx2, join_avx2, move_two_avx2, join_two_avx2 },
    [TS_ISA_AVX512] = { move_avx512, join_avx512, move_two_avx512, join_two_avx512 },
#endif
};

static const struct functions *here(void)
{
    return &functions[ts_isa_best()];
}

/* Converts PIECE records at a time, which stay in the first-level cache, and in these one field
 * after another. */
static void convert_words(const struct ts_record_layout *from, const uint64_t *in,
                          const struct ts_record_layout *to, const uint8_t source[], uint64_t *out,
                          uint64_t n)
{
    enum { PIECE = 512 };
    const struct functions *with = here();
    uint64_t sum[PIECE];
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint32_t count = n - first < PIECE ? (uint32_t)(n - first) : PIECE;
        for (uint32_t f = 0; f < to->n_fields; f++) {
            const struct move m =
                move_of(from->start[source[f]], from->width[source[f]], to->start[f], to->width[f]);
            (f == 0 ? with->move : with->join)(in + first, count, m, sum);
        }
        memcpy(out + first, sum, count * sizeof *sum);
    }
}

/* ------------------------------------------------------------------ records of any length */

/* Reads a field of many records of `words` words into a column. */
INLINE void get_column(const uint64_t *rec, uint64_t n, uint32_t words, uint32_t at, uint32_t width,
                       uint64_t *column)
{
    if (at + width <= 64)
        for (uint64_t i = 0; i < n; i++)
            column[i] = rec[i * words] << at >> (64 - width);
    else
        for (uint64_t i = 0; i < n; i++)
            column[i] = (rec[i * words] << at | rec[i * words + 1] >> (64 - at)) >> (64 - width);
}

void ts_record_column(const struct ts_record_layout *l, const uint64_t *rec, uint64_t n,
                      uint32_t field, uint64_t *column)
{
    const uint32_t width = l->width[field], at = l->start[field] % 64;
    if (width == 0)
        memset(column, 0, n * sizeof *column);
    else if (l->words == 1)
        here()->move(rec, n, move_of(at, width, 64 - width, width), column);
    else if (l->words == 2)
        here()->move_two(rec, n, pair_of(l->start[field], width, 1), column);
    else
        get_column(rec + l->start[field] / 64, n, l->words, at, width, column);
}

INLINE void put_column(uint64_t *rec, uint64_t n, uint32_t words, uint32_t at, uint32_t width,
                       const uint64_t *column, uint32_t stride)
{
    if (at + width <= 64) {
        for (uint64_t i = 0; i < n; i++)
            rec[i * words] |= column[i * stride] << (64 - width) >> at;
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t top = column[i * stride] << (64 - width);
        rec[i * words] |= top >> at;
        rec[i * words + 1] |= top << (64 - at);
    }
}

void ts_record_put_column(const struct ts_record_layout *l, uint64_t *rec, uint64_t n,
                          uint32_t field, const uint64_t *column, uint32_t stride)
{
    const uint32_t width = l->width[field], at = l->start[field] % 64;
    if (width == 0)
        return;
    if (l->words == 1 && stride == 1)
        here()->join(column, n, move_of(64 - width, width, at, width), rec);
    else if (l->words == 2 && stride == 1)
        here()->join_two(column, n, pair_of(l->start[field], width, 0), rec);
    else
        put_column(rec + l->start[field] / 64, n, l->words, at, width, column, stride);
}

void ts_record_convert(const struct ts_record_layout *from, const uint64_t *in,
                       const struct ts_record_layout *to, const uint8_t source[], uint64_t *out,
                       uint64_t n)
{
    enum { PIECE = 256 };
    uint64_t column[PIECE], rec[PIECE * TS_RECORD_WORDS];
    if (from->words == 1 && to->words == 1) {
        convert_words(from, in, to, source, out, n);
        return;
    }
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint64_t count = n - first < PIECE ? n - first : PIECE;
        memset(rec, 0, count * to->words * sizeof *rec);
        for (uint32_t f = 0; f < to->n_fields; f++) {
            if (from->width[source[f]] == 0)
                continue;
            ts_record_column(from, in + first * from->words, count, source[f], column);
            ts_record_put_column(to, rec, count, f, column, 1);
        }
        memcpy(out + first * to->words, rec, count * to->words * sizeof *rec);
    }
}
