/* SPDX-License-Identifier: BSD-3-Clause */
/* ranges.h - which of several ranges each of many records is in, and the records brought together
 * by range.
 *
 *   owner    the caller owns all; what is given to set must stay
 *   units    records of some words; ranges from 0, range r > 0 begins with record split[r - 1],
 *            which is in it
 *   threads  pure; several may find and move other records at a time
 *   errors   none
 */
#ifndef TS_BUILD_RANGES_H
#define TS_BUILD_RANGES_H

#include <stdint.h>

/* up to so many ranges are found by comparing first words, without branches */
#define TS_RANGES_FEW 6u

struct ts_ranges {
    uint32_t n, words;
    const uint64_t *split;             /* n - 1 records, ascending */
    uint64_t first[TS_RANGES_FEW - 1]; /* first words of the split records, if they are few */
};

void ts_ranges_set(struct ts_ranges *r, const uint64_t *split, uint32_t n, uint32_t words);

/* Sets range[i] to the range of record i. Adds to count[k] the number of records in range k. */
void ts_ranges_find(const struct ts_ranges *r, const uint64_t *rec, uint64_t n, uint32_t *range,
                    uint64_t *count);

/* Copies each record to the end of the records of its range: record i to record place[range[i]] of
 * `out`, which then grows by 1. */
void ts_ranges_move(const struct ts_ranges *r, const uint64_t *rec, uint64_t n,
                    const uint32_t *range, uint64_t *place, uint64_t *out);

#endif
