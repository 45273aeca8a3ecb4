/* SPDX-License-Identifier: BSD-3-Clause */
/* record_sort.h - sorts records (record.h) in memory, with all threads.
 *
 * Records are first dealt out by their leading bits (most significant digit first) into pieces that
 * fit the second-level cache, each of which one thread then sorts by least significant digits. So a
 * record crosses memory three times, whatever its length in bits.
 *
 *   owner    both arrays are the caller's; the result lies in one of them
 *   units    records of `words` 64-bit words
 *   threads  called from one; uses `threads` (OpenMP)
 *   errors   none: small tables are on the stack, and without memory for larger ones it sorts with
 *            one thread
 *
 * Both sorts end soon after *stop (may be NULL) is set. Then the records are undefined, some twice and
 * some missing: the caller checks *stop and discards them.
 */
#ifndef TS_BUILD_RECORD_SORT_H
#define TS_BUILD_RECORD_SORT_H

#include <signal.h>
#include <stdint.h>

#include "build/record.h"

/* Memory that a sort takes beside the arrays: in all, and for each thread. */
#define TS_RECORD_SORT_BYTES        (UINT64_C(1) << 20)
#define TS_RECORD_SORT_THREAD_BYTES (UINT64_C(640) << 10)

/* Sorts n records by their first `bits` bits; the rest of each record is zero. Of these, the first
 * key_bits are sorted directly, the others only where those are equal: give the bits that mostly
 * decide. scratch has room for n records. Returns where the sorted records are: a or scratch. */
uint64_t *ts_record_sort(uint64_t *a, uint64_t *scratch, uint64_t n, uint32_t words,
                         uint32_t key_bits, uint32_t bits, uint32_t threads,
                         const volatile sig_atomic_t *stop);

/* Whether the records are in order. */
int ts_record_is_sorted(const uint64_t *a, uint64_t n, uint32_t words, uint32_t threads);

/* Sorts records that are converted on the way (ts_record_convert), which saves writing them once more:
 * the n records at `in` end up sorted in `out`. The scratch of scratch_words words can be far smaller
 * than they are: pieces that the first deal leaves are sorted in it by one thread each, larger ones
 * by all threads one after another, and those that do not fit at all change places where they lie. */
struct ts_record_move {
    const struct ts_record_layout *from, *to;
    const uint64_t *in;
    const uint8_t *source;
};
void ts_record_sort_moved(const struct ts_record_move *v, uint64_t n, uint64_t *out,
                          uint64_t *scratch, uint64_t scratch_words, uint32_t key_bits,
                          uint32_t bits, uint32_t threads, const volatile sig_atomic_t *stop);

#endif
