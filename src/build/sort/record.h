/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h - packs a nonzero into a string of bits, its record. Records compare as the coordinates
 * of the nonzeros do.
 *
 * A layout lists the fields of a record, the most significant first: indices in the order of
 * sorting, then the value. The bits of all fields follow one another, from the top bit of word 0
 * on. Unused bits at the end are zero. So records are compared word by word from word 0 on, and a
 * sort needs only their first bits. Records of most tensors have one word, which makes sorting
 * fast.
 *
 *   owner    a layout owns no memory; the caller owns arrays of records
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

/* Where each field is in the bits of a record. */
struct ts_record_layout {
    uint32_t n_fields, words, bits;
    uint32_t width[TS_RECORD_FIELDS]; /* bits of each field: 0..64 */
    uint32_t start[TS_RECORD_FIELDS]; /* number of bits before the field */
};

/* Sets a layout of n_fields fields. width: the bits of each field. */
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

/* Sets column[i] to the field of record i, for n records. */
void ts_record_column(const struct ts_record_layout *l, const uint64_t *rec, uint64_t n,
                      uint32_t field, uint64_t *column);

/* Sets the field of record i to column[i * stride], for n records. The bits of the field must be
 * zero before. */
void ts_record_put_column(const struct ts_record_layout *l, uint64_t *rec, uint64_t n,
                          uint32_t field, const uint64_t *column, uint32_t stride);

/* Copies n records to another layout: field f of the new record is field source[f] of the old one.
 * The fields of `to` must be wide enough. `in` and `out` must not overlap, or be the same array if
 * `to` has no more words than `from`. */
void ts_record_convert(const struct ts_record_layout *from, const uint64_t *in,
                       const struct ts_record_layout *to, const uint8_t source[], uint64_t *out,
                       uint64_t n);

#endif
