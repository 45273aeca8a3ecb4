/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves fields between layouts of records, as loops that compilers vectorise. */
#include "build/sort/record.h"

#include <string.h>

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

/* Converts records of one word to records of one word. Each field is a shift and a mask, and the
 * loop over records is a vector loop. Fields are converted one after another over a piece that
 * stays in the first-level cache. */
static void convert_words(const struct ts_record_layout *from, const uint64_t *in,
                          const struct ts_record_layout *to, const uint8_t source[], uint64_t *out,
                          uint64_t n)
{
    enum { PIECE = 512 };
    uint64_t sum[PIECE];
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint32_t count = n - first < PIECE ? (uint32_t)(n - first) : PIECE;
        memset(sum, 0, sizeof sum);
        for (uint32_t f = 0; f < to->n_fields; f++) {
            const uint32_t width = from->width[source[f]];
            const uint32_t left = from->start[source[f]], right = 64 - width;
            /* two shifts align the field on the right; then it is placed so that its low bits stay
             * low in a wider field */
            const uint32_t place = 64 - to->start[f] - to->width[f];
            if (width == 0)
                continue;
            for (uint32_t i = 0; i < count; i++)
                sum[i] |= in[first + i] << left >> right << place;
        }
        memcpy(out + first, sum, count * sizeof *sum);
    }
}

/* Reads a field of many records of `words` words into a column. */
static inline __attribute__((always_inline)) void get_column(const uint64_t *rec, uint64_t n,
                                                             uint32_t words, uint32_t at,
                                                             uint32_t width, uint64_t *column)
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
    rec += l->start[field] / 64;
    if (width == 0)
        memset(column, 0, n * sizeof *column);
    else if (l->words == 1)
        get_column(rec, n, 1, at, width, column);
    else if (l->words == 2)
        get_column(rec, n, 2, at, width, column);
    else
        get_column(rec, n, l->words, at, width, column);
}

static inline __attribute__((always_inline)) void put_column(uint64_t *rec, uint64_t n,
                                                             uint32_t words, uint32_t at,
                                                             uint32_t width, const uint64_t *column,
                                                             uint32_t stride)
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
    rec += l->start[field] / 64;
    if (width == 0)
        return;
    if (l->words == 1 && stride == 1)
        put_column(rec, n, 1, at, width, column, 1);
    else if (l->words == 2 && stride == 1)
        put_column(rec, n, 2, at, width, column, 1);
    else
        put_column(rec, n, l->words, at, width, column, stride);
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
