/* SPDX-License-Identifier: BSD-3-Clause */
/* number_pairs.h - sorts pairs of a number below n and a value by ranges of numbers, without
 * comparisons: pairs are added in any order, and read back range after range.
 *
 * Each range has a buffer, and a full buffer is written to a temporary file as a chunk. A range is
 * small enough for an array with an entry for each of its numbers.
 *
 *   owner    the object owns buffers and file
 *   units    numbers; bytes of memory
 *   threads  one at a time
 *   errors   0 or a negative ts_code; TS_ESTOP when *stop is set
 */
#ifndef TS_SOURCE_NUMBER_PAIRS_H
#define TS_SOURCE_NUMBER_PAIRS_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"

struct ts_number_pair {
    uint64_t number, value;
};

struct ts_number_pairs;

/* Makes an empty set of pairs. `bytes`: memory for buffers. Ranges are so small that an array of 8
 * bytes for each number of a range takes at most `bytes` as well. */
int ts_number_pairs_new(const char *tmp, uint64_t n, uint64_t bytes,
                        const volatile sig_atomic_t *stop, struct ts_number_pairs **ret,
                        struct ts_err *err);
void ts_number_pairs_free(struct ts_number_pairs *p); /* p may be NULL */

/* Returns how many numbers are in a range. The first range begins at 0. */
uint64_t ts_number_pairs_range(const struct ts_number_pairs *p);

int ts_number_pairs_add(struct ts_number_pairs *p, struct ts_number_pair pair, struct ts_err *err);

/* To be called after the last pair is added: passes the pairs of a range to `take`, several at a
 * time and in any order. A range may be read several times. */
typedef int ts_number_pairs_fn(void *arg, const struct ts_number_pair *pair, uint64_t n,
                               struct ts_err *err);
int ts_number_pairs_read(struct ts_number_pairs *p, uint64_t range, ts_number_pairs_fn *take,
                         void *arg, struct ts_err *err);

#endif
