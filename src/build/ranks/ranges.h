/* SPDX-License-Identifier: BSD-3-Clause */
/* ranges.h - finds which of several ranges each record is in, and groups records by range.
 *
 *   owner    the caller owns all arrays; the array `split` must stay
 *   units    records of `words` words; ranges count from 0; the first record of range r > 0 is
 *            split[r - 1]
 *   threads  pure: several threads may find and move different records at the same time
 *   errors   none
 */
#ifndef TS_BUILD_RANGES_H
#define TS_BUILD_RANGES_H

#include <stdint.h>

/* most ranges for which the first word of a record is compared with that of every split, without
 * branches */
#define TS_RANGES_FEW 6u

/* n ranges of records in sorted order. */
struct ts_ranges {
    uint32_t n, words;
    const uint64_t *split;             /* first records of ranges 1 .. n - 1, ascending */
    uint64_t first[TS_RANGES_FEW - 1]; /* first word of each split, if there are few ranges */
};

void ts_ranges_set(struct ts_ranges *r, const uint64_t *split, uint32_t n, uint32_t words);

/* Sets range[i] to the range of record i. Adds to count[k] the number of records in range k. */
void ts_ranges_find(const struct ts_ranges *r, const uint64_t *rec, uint64_t n, uint32_t *range,
                    uint64_t *count);

/* Groups records by range: copies record i to record place[range[i]] of `out`, and adds 1 to
 * place[range[i]]. */
void ts_ranges_move(const struct ts_ranges *r, const uint64_t *rec, uint64_t n,
                    const uint32_t *range, uint64_t *place, uint64_t *out);

#endif
