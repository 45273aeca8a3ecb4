/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h - packs a nonzero into a string of bits, so that comparing records compares coordinates.
 *
 * A layout lists fields, the most significant first: indices in the order of sorting, then the
 * value. The bits of all fields follow one another from the top bit of word 0 down; unused bits at
 * the end are zero. So records are compared word by word from word 0 on, and a sort needs only the
 * first bits. Most tensors need one word, which makes sorting cheap.
 *
 *   owner    layouts are plain values; the caller owns arrays of records
 *   units    bits; a record is `words` 64-bit words
 *   threads  all functions are pure
 *   errors   none
 */
#ifndef TS_BUILD_RECORD_H
#define TS_BUILD_RECORD_H

#include <stdint.h>

#include "format/layout.h"

#define TS_RECORD_FIELDS (TS_MAX_ORDER + 1)
#define TS_RECORD_WORDS  12u /* (16 modes x 40 bits + a value of 64) / 64, rounded up */

struct ts_record_layout {
    uint32_t n_fields, words, bits;
    uint32_t width[TS_RECORD_FIELDS]; /* bits of each field: 0..64 */
    uint32_t start[TS_RECORD_FIELDS]; /* number of bits before the field */
};

/* Sets a layout of n_fields fields with these widths in bits. */
void ts_record_layout_set(struct ts_record_layout *l, uint32_t n_fields, const uint32_t width[]);

/* Returns the number of bits that the numbers 0..max need. */
static inline uint32_t ts_record_width(uint64_t max)
{
    return max == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(max);
}

static inline uint64_t ts_record_get(const struct ts_record_layout *l, const uint64_t *rec,
                                     uint32_t field)
{
    const uint32_t width = l->width[field], word = l->start[field] / 64, at = l->start[field] % 64;
    uint64_t x;
    if (width == 0)
        return 0;
    x = rec[word] << at;
    if (at + width > 64)
        x |= rec[word + 1] >> (64 - at);
    return x >> (64 - width);
}

/* Sets a field of a record, whose bits must be zero before. */
static inline void ts_record_put(const struct ts_record_layout *l, uint64_t *rec, uint32_t field,
                                 uint64_t value)
{
    const uint32_t width = l->width[field], word = l->start[field] / 64, at = l->start[field] % 64;
    uint64_t top;
    if (width == 0)
        return;
    top = value << (64 - width);
    rec[word] |= top >> at;
    if (at + width > 64)
        rec[word + 1] |= top << (64 - at);
}

static inline int ts_record_compare(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    for (uint32_t w = 0; w < words; w++)
        if (a[w] != b[w])
            return a[w] < b[w] ? -1 : 1;
    return 0;
}

/* column[i] = the field of record i, for n records: a loop without a branch. */
void ts_record_column(const struct ts_record_layout *l, const uint64_t *rec, uint64_t n,
                      uint32_t field, uint64_t *column);

/* Sets the field of record i, which must hold zero bits before, to column[i * stride]. */
void ts_record_put_column(const struct ts_record_layout *l, uint64_t *rec, uint64_t n,
                          uint32_t field, const uint64_t *column, uint32_t stride);

/* Copies n records to another layout: field f of the new record is field source[f] of the old one.
 * The fields of `to` are wide enough. The arrays are separate, or the same one if `to` has no more
 * words than `from`. */
void ts_record_convert(const struct ts_record_layout *from, const uint64_t *in,
                       const struct ts_record_layout *to, const uint8_t source[], uint64_t *out,
                       uint64_t n);

#endif
