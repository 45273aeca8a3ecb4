/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the ranges of records. With few ranges, each record is compared with the start of every
 * range, in loops that compilers vectorize. With many ranges, the range is found by bisection. */
#include "build/ranks/ranges.h"

#include <string.h>

#include "build/sort/record.h"

#define PIECE 512u /* records handled at a time, so that their words stay in the cache */

void ts_ranges_set(struct ts_ranges *r, const uint64_t *split, uint32_t n, uint32_t words)
{
    *r = (struct ts_ranges){ .n = n, .words = words, .split = split };
    for (uint32_t k = 0; k + 1 < n && n <= TS_RANGES_FEW; k++)
        r->first[k] = split[(uint64_t)k * words];
}

static uint32_t bisect(const struct ts_ranges *r, const uint64_t *rec)
{
    uint32_t low = 0, high = r->n - 1;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (ts_record_compare(r->split + (uint64_t)mid * r->words, rec, r->words) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Finds ranges by the first words of records. Returns 1 if a record has the same first word as a
 * split, because it may belong before that split all the same. */
static inline __attribute__((always_inline)) int count_words(const struct ts_ranges *r,
                                                             const uint64_t *rec, uint32_t words,
                                                             uint32_t splits, uint64_t n,
                                                             uint32_t *range)
{
    uint64_t equal = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t word = rec[i * words];
        uint64_t in = 0;
        for (uint32_t k = 0; k < splits; k++) {
            in += r->first[k] <= word;
            equal |= r->first[k] == word;
        }
        range[i] = (uint32_t)in;
    }
    return equal != 0;
}

static inline __attribute__((always_inline)) int find_few(const struct ts_ranges *r,
                                                          const uint64_t *rec, uint32_t words,
                                                          uint64_t n, uint32_t *range)
{
    switch (r->n) {
    case 2:
        return count_words(r, rec, words, 1, n, range);
    case 3:
        return count_words(r, rec, words, 2, n, range);
    case 4:
        return count_words(r, rec, words, 3, n, range);
    default:
        return count_words(r, rec, words, r->n - 1, n, range);
    }
}

static void find_piece(const struct ts_ranges *r, const uint64_t *rec, uint64_t n, uint32_t *range)
{
    int equal = 1;
    if (r->n <= TS_RANGES_FEW && r->words == 1) {
        (void)find_few(r, rec, 1, n, range);
        return; /* a record of one word has no later words, so its range is certain */
    }
    if (r->n <= TS_RANGES_FEW)
        equal =
            r->words == 2 ? find_few(r, rec, 2, n, range) : find_few(r, rec, r->words, n, range);
    for (uint64_t i = 0; i < n && equal; i++)
        range[i] = bisect(r, rec + i * r->words);
}

void ts_ranges_find(const struct ts_ranges *r, const uint64_t *rec, uint64_t n, uint32_t *range,
                    uint64_t *count)
{
    for (uint64_t at = 0; at < n; at += PIECE) {
        const uint64_t now = n - at < PIECE ? n - at : PIECE;
        find_piece(r, rec + at * r->words, now, range + at);
        if (r->n > TS_RANGES_FEW) {
            for (uint64_t i = at; i < at + now; i++)
                count[range[i]]++;
            continue;
        }
        /* with few ranges: one sum over `range` for each, which is faster than a counter in
         * memory */
        for (uint32_t k = 0; k < r->n; k++) {
            uint32_t sum = 0;
            for (uint64_t i = at; i < at + now; i++)
                sum += range[i] == k;
            count[k] += sum;
        }
    }
}

static inline __attribute__((always_inline)) void move(const uint64_t *rec, uint64_t n,
                                                       uint32_t words, const uint32_t *range,
                                                       uint64_t *place, uint64_t *out)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *to = out + words * place[range[i]]++;
        for (uint32_t w = 0; w < words; w++)
            to[w] = rec[i * words + w];
    }
}

void ts_ranges_move(const struct ts_ranges *r, const uint64_t *rec, uint64_t n,
                    const uint32_t *range, uint64_t *place, uint64_t *out)
{
    if (r->words == 1)
        move(rec, n, 1, range, place, out);
    else if (r->words == 2)
        move(rec, n, 2, range, place, out);
    else
        move(rec, n, r->words, range, place, out);
}
