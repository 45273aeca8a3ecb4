/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes and checks a piece of a binary file, and makes a batch of it. */
#include "source/binary/binary_decode.h"

#include <endian.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/setting.h"
#include "format/file_read.h"

static inline __attribute__((always_inline)) uint64_t number_at(const unsigned char *p,
                                                                uint32_t bytes, int big)
{
    uint16_t half;
    uint32_t word;
    uint64_t pair;
    switch (bytes) {
    case 1:
        return *p;
    case 2:
        memcpy(&half, p, 2);
        return big ? be16toh(half) : le16toh(half);
    case 4:
        memcpy(&word, p, 4);
        return big ? be32toh(word) : le32toh(word);
    default:
        memcpy(&pair, p, 8);
        return big ? be64toh(pair) : le64toh(pair);
    }
}

/* Decodes n numbers (indices or values) that are `stride` bytes apart, subtracts `base`, and stores
 * them in every `step`th word of out. Returns the largest. */
static inline __attribute__((always_inline)) uint64_t
decode_numbers(const unsigned char *p, uint64_t stride, uint32_t bytes, int big, uint64_t n,
               uint32_t base, uint64_t *out, uint32_t step)
{
    uint64_t max = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t x = number_at(p + i * stride, bytes, big) - base;
        out[i * step] = x;
        max = x > max ? x : max;
    }
    return max;
}

/* Calls decode_numbers with constant widths, for which the compiler makes faster loops. */
static uint64_t decode(const unsigned char *p, uint64_t stride, uint32_t bytes, int big, uint64_t n,
                       uint32_t base, uint64_t *out, uint32_t step)
{
    if (bytes == 4 && !big && stride == 4)
        return decode_numbers(p, 4, 4, 0, n, base, out, step);
    if (bytes == 4 && !big)
        return decode_numbers(p, stride, 4, 0, n, base, out, step);
    if (bytes == 8 && !big)
        return decode_numbers(p, stride, 8, 0, n, base, out, step);
    if (bytes == 2 && !big)
        return decode_numbers(p, stride, 2, 0, n, base, out, step);
    return decode_numbers(p, stride, bytes, big, n, base, out, step);
}

/* Fails with a message about the index x of nonzero i in mode m or, if m is the order, about its
 * value. */
static int refuse(const struct ts_binary_piece *j, uint64_t i, uint32_t m, uint64_t x,
                  struct ts_err *err)
{
    const struct ts_binary_form *f = j->form;
    char place[300];
    snprintf(place, sizeof place, "%s: byte %" PRIu64, j->name,
             ts_binary_place(f, j->first + i, m));
    if (m == j->form->order) {
        const double value = ts_value_of_bits(x, f->value_bytes);
        return ts_fail(err, TS_EFORMAT, "%s: the value of nonzero %" PRIu64 ", %g, is %s", place,
                       j->first + i + 1, value,
                       isfinite(value) ? "beyond the range of float32 (use " TS_SET_FLOAT64 ")"
                                       : "not a finite number");
    }
    if (j->plan->base == 1 && x == 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s: index 0 of nonzero %" PRIu64 " in " TS_NTH_MODE
                       ", but with " TS_SET_BASE " 1 they start at 1",
                       place, j->first + i + 1, m + 1);
    return ts_fail(err, TS_EFORMAT,
                   "%s: index %" PRIu64 " of nonzero %" PRIu64 " in " TS_NTH_MODE
                   " is beyond its size of %" PRIu64 " (indices start at %" PRIu32 "%s)",
                   place, x, j->first + i + 1, m + 1, f->dim[m], j->plan->base,
                   x == f->dim[m] ? "; " TS_SET_BASE " 1 if they start at 1" : "");
}

/* Fails with a message about the first wrong nonzero of the batch. */
static int find_fault(const struct ts_binary_piece *j, struct ts_err *err)
{
    const struct ts_batch *b = j->batch;
    for (uint64_t i = 0; i < j->n; i++) {
        double value;
        for (uint32_t m = 0; m < j->form->order; m++)
            if (b->index[i * j->form->order + m] >= j->dim[m])
                return refuse(j, i, m, b->index[i * j->form->order + m] + j->plan->base, err);
        value = ts_value_of_bits(b->value[i], j->form->value_bytes);
        if (!isfinite(j->plan->value_bytes == 4 ? (double)(float)value : value))
            return refuse(j, i, j->form->order, b->value[i], err);
    }
    return ts_fail(err, TS_EFORMAT, "%s: cannot be read", j->name);
}

/* Sets *ret to the first index in mode m of the piece's nonzeros or, if m is the order, to the
 * first value. If each mode has an array of its own in the file, reads that part of the array
 * first. The numbers are *stride bytes apart. */
static int bring(const struct ts_binary_piece *j, uint32_t m, const unsigned char **ret,
                 uint64_t *stride, struct ts_err *err)
{
    const struct ts_binary_form *f = j->form;
    const uint32_t width = m < f->order ? f->index_bytes[m] : f->value_bytes;
    *ret = j->raw;
    *stride = width;
    if (f->columns)
        return ts_file_read_at(j->fd, j->name, ts_binary_place(f, j->first, m), j->n * width,
                               j->raw, err);
    *ret += ts_binary_place(f, 0, m) - f->header_bytes;
    *stride = f->nonzero_bytes;
    if (m == 0 && j->fd >= 0)
        return ts_file_read_at(j->fd, j->name, ts_binary_place(f, j->first, 0),
                               j->n * f->nonzero_bytes, j->raw, err);
    return 0;
}

/* Whether all values of the piece are finite in the type that the tensor stores. *tiny: whether
 * some are so near to 0 that they are rounded to 0. */
static int all_finite(const struct ts_binary_piece *j, int *tiny)
{
    const uint32_t from = j->form->value_bytes, to = j->plan->value_bytes;
    const double least = to == 4 ? FLT_MIN : DBL_MIN;
    const uint64_t *value = j->batch->value;
    int finite = 1, below = 0;
    for (uint64_t i = 0; i < j->n; i++) {
        const double x = ts_value_of_bits(value[i], from), kept = to == 4 ? (double)(float)x : x;
        finite &= isfinite(kept) != 0;
        below |= (fabs(kept) < least) & (x != 0);
    }
    *tiny = below;
    return finite;
}

static void round_values(struct ts_batch *b, uint32_t from, uint32_t to, int tiny)
{
    for (uint64_t i = 0; i < b->n && (from != to || tiny); i++)
        b->value[i] = ts_value_keep(ts_value_of_bits(b->value[i], from), to, &b->n_rounded);
}

void ts_binary_drop_zeros(struct ts_batch *b, uint32_t value_bytes, int keep)
{
    const uint64_t sign = UINT64_C(1) << (8 * value_bytes - 1);
    uint64_t n = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        if ((b->value[i] & ~sign) == 0) {
            if (!keep)
                continue;
            b->value[i] = 0;
        }
        if (n < i) {
            memcpy(b->index + n * b->order, b->index + i * b->order, b->order * sizeof *b->index);
            b->value[n] = b->value[i];
        }
        n++;
    }
    b->n_zeros = b->n - n;
    b->n = n;
}

int ts_binary_decode(const struct ts_binary_piece *j, struct ts_err *err)
{
    const struct ts_binary_form *f = j->form;
    struct ts_batch *b = j->batch;
    const unsigned char *raw;
    uint64_t stride;
    int right = 1, tiny = 0;
    for (uint32_t m = 0; m <= j->form->order; m++) {
        const int rc = bring(j, m, &raw, &stride, err);
        if (rc < 0)
            return rc;
        if (m == j->form->order) {
            decode(raw, stride, f->value_bytes, f->big_endian, j->n, 0, b->value, 1);
            break;
        }
        b->max[m] = decode(raw, stride, f->index_bytes[m], f->big_endian, j->n, j->plan->base,
                           b->index + m, j->form->order);
        right &= b->max[m] < j->dim[m];
    }
    b->n = b->n_read = j->n;
    if (!right || !all_finite(j, &tiny))
        return find_fault(j, err);
    round_values(b, f->value_bytes, j->plan->value_bytes, tiny);
    return 0;
}
