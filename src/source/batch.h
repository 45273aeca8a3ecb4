/* SPDX-License-Identifier: BSD-3-Clause */
/* batch.h - holds a batch of nonzeros that a source (text, generator, program) gives to a build.
 *
 *   owner    the caller of ts_batch_new
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

/* A batch of n nonzeros, and counts of the input that it is from. */
struct ts_batch {
    uint32_t order;
    uint64_t n, room;
    uint64_t *index;            /* indices of the n nonzeros: n x order, row-major */
    uint64_t *value;            /* bits of the n values */
    uint64_t max[TS_MAX_ORDER]; /* largest index of each mode; dropped zeros count, too */
    uint32_t file;              /* number of the file that the batch is from */
    uint64_t n_lines;           /* number of lines of text that the batch is from */
    uint64_t n_read;            /* number of nonzeros read for the batch, zeros included */
    uint64_t n_zeros;           /* number of zeros that were dropped; n_read counts them */
    /* number of nonzeros that the text does not list: mirror images of others in a symmetric
     * matrix */
    uint64_t n_made;
    uint64_t n_rounded;    /* number of values that ts_value_keep has rounded to 0 */
    uint64_t rounded_line; /* for text: line of the first value so rounded, from 1; 0: none */
    uint64_t n_missing;    /* lines left out because a field of them is missing */
};

int ts_batch_new(uint32_t order, uint64_t room, struct ts_batch *ret, struct ts_err *err);
void ts_batch_free(struct ts_batch *b); /* b may be all zero */
void ts_batch_clear(struct ts_batch *b);

/* Returns the entry in `value` of a batch for a float32 value with a weight. */
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

/* Returns the bytes of a batch's entry for a value with or without a weight. value_bytes is 4 or 8.
 * Code that stores batches elsewhere takes the width from here. */
static inline uint32_t ts_batch_value_bytes(uint32_t value_bytes, int weights)
{
    return weights ? 8 : value_bytes;
}

/* Convert between a value and its bits. value_bytes: 4 or 8. */
double ts_value_of_bits(uint64_t bits, uint32_t value_bytes);
uint64_t ts_value_to_bits(double value, uint32_t value_bytes);

/* Returns the bits of a value as a tensor stores it. A value nearer to 0 than the least normal
 * number of its type becomes 0, and 1 is added to *n_rounded, because processors may treat
 * subnormal numbers as 0. -0 becomes 0. */
uint64_t ts_value_keep(double value, uint32_t value_bytes, uint64_t *n_rounded);

/* Like ts_value_keep, for a weight: a float32 that is not negative. */
float ts_weight_keep(double weight, uint64_t *n_rounded);

#endif
