/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocates batches, and converts values from and to their bits. */
#include "source/batch.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int ts_batch_new(uint32_t order, uint64_t room, struct ts_batch *ret, struct ts_err *err)
{
    struct ts_batch b = { .order = order, .room = room };
    b.index = malloc(room * order * sizeof *b.index);
    b.value = malloc(room * sizeof *b.value);
    if (b.index == NULL || b.value == NULL) {
        ts_batch_free(&b);
        return ts_fail(err, TS_ENOMEM, "out of memory for %llu nonzeros being read",
                       (unsigned long long)room);
    }
    *ret = b;
    return 0;
}

void ts_batch_free(struct ts_batch *b)
{
    free(b->index);
    free(b->value);
    memset(b, 0, sizeof *b);
}

void ts_batch_clear(struct ts_batch *b)
{
    b->n = b->n_lines = b->n_read = b->n_zeros = b->n_made = 0;
    b->n_rounded = b->rounded_line = b->n_missing = 0;
    memset(b->max, 0, sizeof b->max);
}

double ts_value_of_bits(uint64_t bits, uint32_t value_bytes)
{
    const uint32_t low = (uint32_t)bits;
    float narrow;
    double wide;
    memcpy(&narrow, &low, 4);
    memcpy(&wide, &bits, 8);
    return value_bytes == 4 ? (double)narrow : wide;
}

uint64_t ts_value_to_bits(double value, uint32_t value_bytes)
{
    const float narrow = (float)value;
    uint32_t low;
    uint64_t bits;
    memcpy(&low, &narrow, 4);
    memcpy(&bits, &value, 8);
    return value_bytes == 4 ? low : bits;
}

uint64_t ts_value_keep(double value, uint32_t value_bytes, uint64_t *n_rounded)
{
    const double kept = value_bytes == 4 ? (double)(float)value : value;
    if (fabs(kept) < (value_bytes == 4 ? FLT_MIN : DBL_MIN)) {
        *n_rounded += value != 0;
        return 0;
    }
    return ts_value_to_bits(value, value_bytes);
}

float ts_weight_keep(double weight, uint64_t *n_rounded)
{
    const uint32_t low = (uint32_t)ts_value_keep(weight, sizeof(float), n_rounded);
    float kept;
    memcpy(&kept, &low, sizeof kept);
    return kept;
}
