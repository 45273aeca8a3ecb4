/* SPDX-License-Identifier: BSD-3-Clause */
/* batch.h - a batch of nonzeros from a source (text, generator, program) to the sort.
 *
 *   owner    the caller of new
 *   units    indices from 0; a value is its float32 bits (high half zero) or float64 bits; where
 *            cells have weights, the float32 bits of the value are the high half, and those of the
 *            weight the low one
 *   threads  a batch belongs to one thread at a time
 *   errors   0 or TS_ENOMEM
 */
#ifndef TS_SOURCE_BATCH_H
#define TS_SOURCE_BATCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "format/layout.h"

struct ts_batch {
    uint32_t order;
    uint64_t n, room;
    uint64_t *index;            /* n x order, row-major */
    uint64_t *value;            /* n */
    uint64_t max[TS_MAX_ORDER]; /* largest index, zeros included */
    uint32_t file;              /* the file that it is from */
    uint64_t n_lines;           /* lines of text read */
    uint64_t n_read;            /* nonzeros read, zeros included */
    uint64_t n_zeros;           /* part of `n`: zeros that were dropped */
    uint64_t n_made;            /* nonzeros that are not in the text, but derived from it */
    uint64_t n_rounded;         /* values that ts_value_keep has rounded to 0 */
    uint64_t rounded_line;      /* for text: line of the first such value, from 1; 0: none */
    uint64_t n_missing;         /* lines left out because a field of them is missing */
};

int ts_batch_new(uint32_t order, uint64_t room, struct ts_batch *ret, struct ts_err *err);
void ts_batch_free(struct ts_batch *b); /* one of zeros is fine */
void ts_batch_clear(struct ts_batch *b);

/* A value of float32 with its weight. */
static inline uint64_t ts_weighted_bits(uint64_t value_bits, float weight)
{
    uint32_t low;
    memcpy(&low, &weight, sizeof low);
    return value_bits << 32 | low;
}

static inline float ts_weight_of_bits(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float weight;
    memcpy(&weight, &low, sizeof weight);
    return weight;
}

/* Bytes of a batch's entry for the value: value_bytes is that of the values, 4 or 8. Whoever stores
 * batches elsewhere takes the width from here. */
static inline uint32_t ts_batch_value_bytes(uint32_t value_bytes, int weights)
{
    return weights ? 8 : value_bytes;
}

/* A value and its bits; value_bytes: 4 or 8. */
double ts_value_of_bits(uint64_t bits, uint32_t value_bytes);
uint64_t ts_value_to_bits(double value, uint32_t value_bytes);

/* The bits of a value as a tensor keeps it. What is nearer to 0 than the least normal number of the
 * type becomes 0, and *n_rounded counts it unless it was 0: processors compute with subnormal
 * numbers as with 0. -0 is 0. */
uint64_t ts_value_keep(double value, uint32_t value_bytes, uint64_t *n_rounded);

/* Like ts_value_keep, for a weight, which is a float32 and not negative. */
float ts_weight_keep(double weight, uint64_t *n_rounded);

#endif
