/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_sum.h - an order-independent checksum of cells: sums of hashes of their indices, value and
 * weight. Two sets of cells with equal sums are the same except with a probability of about 2^-64;
 * a cell that is lost, doubled or changed changes the sum. The checksum guards against mistakes,
 * not against somebody who forges a tensor.
 *
 * All arithmetic is modulo 2^64. The hash of a cell begins with
 *
 *     s = sum over the modes of index * key(mode) + value * key(16) + weight * key(17)
 *
 * where index counts from 0, value is the bit pattern of a float32 or float64, weight that of a
 * float32 or 0 without weights, and key(k) = ts_mix(k + 1) | 1. Then
 *
 *     x = (s ^ s >> 32) * ts_mix(101);  x ^= x >> 29;  word[0] = x
 *     y = x * ts_mix(102);              y ^= y >> 32;  word[1] = y      (both factors | 1)
 *
 * The sum over two sets of cells is the sum of their two sums, so threads and processes can compute
 * sums of their cells separately.
 *
 *   units    cells
 *   threads  all functions are pure
 *   errors   TS_EFORMAT for blocks that cannot be decoded, with a reason and no position
 */
#ifndef TS_FORMAT_CELL_SUM_H
#define TS_FORMAT_CELL_SUM_H

#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "format/layout.h"

struct ts_cell_sum {
    uint64_t n, word[2];
};

#define TS_CELL_VALUE  16u
#define TS_CELL_WEIGHT 17u

static inline uint64_t ts_cell_key(uint32_t field)
{
    return ts_mix(field + 1) | 1;
}

/* Adds to each of s[0..n) the product of one field of a cell (x: index or value) and its key. s
 * starts as zeros. */
void ts_cell_sum_term(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key);

/* Like ts_cell_sum_term, for x with a value in the high and a weight in the low 32 bits. */
void ts_cell_sum_weighted(uint64_t *s, const uint64_t *x, uint32_t n);

/* Adds n cells to *sum. The hash of cell i begins with s[i] + more, the number s in the header of
 * this file. */
void ts_cell_sum_mix(const uint64_t *s, uint32_t n, uint64_t more, struct ts_cell_sum *sum);

/* Adds one cell to *sum. Its hash begins with s, which the header of this file explains. */
static inline void ts_cell_sum_add(struct ts_cell_sum *sum, uint64_t s)
{
    const uint64_t x = (s ^ s >> 32) * (ts_mix(101) | 1), x2 = x ^ x >> 29;
    const uint64_t y = x2 * (ts_mix(102) | 1);
    sum->n++;
    sum->word[0] += x2;
    sum->word[1] += y ^ y >> 32;
}

static inline void ts_cell_sum_join(struct ts_cell_sum *sum, const struct ts_cell_sum *more)
{
    sum->n += more->n;
    sum->word[0] += more->word[0];
    sum->word[1] += more->word[1];
}

/* Subtracts from *sum the sum of some of its cells, `less`: the sum of its other cells is left. */
static inline void ts_cell_sum_part(struct ts_cell_sum *sum, const struct ts_cell_sum *less)
{
    sum->n -= less->n;
    sum->word[0] -= less->word[0];
    sum->word[1] -= less->word[1];
}

static inline int ts_cell_sum_same(const struct ts_cell_sum *a, const struct ts_cell_sum *b)
{
    return a->n == b->n && a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/* Adds n cells, each with `order` indices and a value. weights 1: the low 32 bits of a value are
 * the cell's weight. */
void ts_cell_sum_rows(uint32_t order, const uint64_t *index, const uint64_t *value, uint64_t n,
                      int weights, struct ts_cell_sum *sum);

/* Decodes all blocks of a newly packed shard, checks that they are valid, and adds their cells.
 * Uses compact rows as indices, code 0 as the value and code 1 as the weight. raw has
 * TS_SHARD_SLACK more bytes. */
int ts_cell_sum_shard(const struct ts_disk_shard *shard, const void *raw, uint32_t order,
                      uint32_t n_codes, const uint8_t level[], struct ts_cell_sum *sum,
                      struct ts_err *err);

#endif
