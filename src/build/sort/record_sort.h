/* SPDX-License-Identifier: BSD-3-Clause */
/* record_sort.h - sorts records (record.h) in memory, with all threads.
 *
 * Records are first distributed by their leading bits into pieces of the array that fit in the
 * second-level cache. Then each piece is sorted by one thread, least significant digit first. So a
 * record is moved through memory three times, whatever its number of bits.
 *
 *   owner    both arrays are the caller's; the result is in one of them
 *   units    records of `words` 64-bit words
 *   threads  called from one; uses `threads` (OpenMP)
 *   errors   none: if memory for large tables is missing, one thread sorts with small tables on the
 *            stack
 *
 * Both sorts end soon after *stop is set; stop may be NULL. The records are then undefined, so the
 * caller must check *stop and discard them.
 */
#ifndef TS_BUILD_RECORD_SORT_H
#define TS_BUILD_RECORD_SORT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "build/sort/record.h"

/* Bytes of memory that a sort needs besides the arrays: for the sort as a whole, and for each
 * thread. */
#define TS_RECORD_SORT_BYTES        (UINT64_C(1) << 20)
#define TS_RECORD_SORT_THREAD_BYTES (UINT64_C(640) << 10)

/* Sorts n records by their first `bits` bits; all later bits must be zero. Sorts by the first
 * key_bits bits first, and by later bits only records that are equal in these. So key_bits should
 * be the bits that decide most comparisons. scratch must have space for n records. Returns the
 * array with the sorted records, a or scratch. *work grows by up to 2 for each record: by 1 when it
 * is distributed, and by 1 when its piece is sorted. work may be NULL. */
uint64_t *ts_record_sort(uint64_t *a, uint64_t *scratch, uint64_t n, uint32_t words,
                         uint32_t key_bits, uint32_t bits, uint32_t threads,
                         const volatile sig_atomic_t *stop, _Atomic uint64_t *work);

/* Whether n records are in ascending order. */
int ts_record_is_sorted(const uint64_t *a, uint64_t n, uint32_t words, uint32_t threads);

/* Converts n records at `in` (ts_record_convert) and sorts them into `out`. Doing both at the same
 * time saves reading and writing all records once. The scratch of scratch_words words can be far
 * smaller than the records. After the first distribution, each small piece is sorted by one thread
 * in part of the scratch, and each larger piece by all threads in all of it. Pieces larger than the
 * scratch are distributed in place. */
struct ts_record_move {
    const struct ts_record_layout *from, *to;
    const uint64_t *in;
    const uint8_t *source;
};
void ts_record_sort_moved(const struct ts_record_move *v, uint64_t n, uint64_t *out,
                          uint64_t *scratch, uint64_t scratch_words, uint32_t key_bits,
                          uint32_t bits, uint32_t threads, const volatile sig_atomic_t *stop,
                          _Atomic uint64_t *work);

#endif
