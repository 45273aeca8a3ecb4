/* SPDX-License-Identifier: BSD-3-Clause */
/* record_sort.h - sorts records (record.h) in memory, with all threads.
 *
 * Records are first distributed by their leading bits (most significant digit first) into pieces
 * that fit the second-level cache. Then one thread sorts each piece by least significant digits. So
 * a record is moved through memory three times, whatever its length in bits.
 *
 *   owner    both arrays are the caller's; the result lies in one of them
 *   units    records of `words` 64-bit words
 *   threads  called from one; uses `threads` (OpenMP)
 *   errors   none: small tables are on the stack, and without memory for larger ones it sorts with
 *            one thread
 *
 * Both sorts end soon after *stop (may be NULL) is set. Then the records are undefined, some twice
 * and some missing: the caller checks *stop and discards them.
 */
#ifndef TS_BUILD_RECORD_SORT_H
#define TS_BUILD_RECORD_SORT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "build/sort/record.h"

/* Memory that a sort needs besides the arrays: in total, and for each thread. */
#define TS_RECORD_SORT_BYTES        (UINT64_C(1) << 20)
#define TS_RECORD_SORT_THREAD_BYTES (UINT64_C(640) << 10)

/* Sorts n records by their first `bits` bits; the rest of each record is zero. The first
 * key_bits are sorted directly, the others only where those are equal: choose the bits that
 * decide most comparisons. scratch has room for n records. Returns the array with the sorted
 * records: a or scratch. *work (may be NULL) grows by up to 2 for each record: by 1 when it is
 * distributed, and by 1 when its piece is sorted. */
uint64_t *ts_record_sort(uint64_t *a, uint64_t *scratch, uint64_t n, uint32_t words,
                         uint32_t key_bits, uint32_t bits, uint32_t threads,
                         const volatile sig_atomic_t *stop, _Atomic uint64_t *work);

/* Whether the records are in order. */
int ts_record_is_sorted(const uint64_t *a, uint64_t n, uint32_t words, uint32_t threads);

/* Sorts records and converts them at the same time (ts_record_convert), which saves a pass over
 * them: the n records at `in` end up sorted in `out`. The scratch of scratch_words words can be
 * far smaller than the records. After the first distribution, each small piece is sorted there
 * by one thread, and larger ones by all threads, one after another. Pieces too large for it are
 * distributed in place. */
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
