/* SPDX-License-Identifier: BSD-3-Clause */
/* extsort.h - sorts more records than memory holds.
 *
 * Sorted runs go to a temporary file. They are not merged record by record. Instead a range of keys
 * that fits in memory is read from all runs and sorted there by all threads; samples of each run
 * tell which range fits. So any number of runs takes one pass, and reads are long. There are at
 * most 65536 samples, a few megabytes. With so many runs that samples are too coarse, the end of a
 * range is searched for in the runs themselves.
 *
 *   owner    the caller owns the records and areas it gives
 *   units    records (record.h)
 *   threads  called from one, uses `threads`
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_EXTSORT_H
#define TS_BUILD_EXTSORT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "build/record.h"

struct ts_extsort;

#define TS_EXTSORT_BYTES (UINT64_C(5) << 20) /* memory it takes, beside the areas given */

/* tmp must stay; the file is made with the first run. Once *stop (may be NULL) is set, calls end
 * soon with TS_ESTOP. */
int ts_extsort_new(const char *tmp, uint32_t threads, const volatile sig_atomic_t *stop,
                   struct ts_extsort **ret, struct ts_err *err);

uint64_t ts_extsort_bytes(const struct ts_extsort *x); /* of the runs so far */

/* *work grows by up to 2 for each record while a range is sorted (record_sort.h). NULL: nobody
 * looks. */
void ts_extsort_count_work(struct ts_extsort *x, _Atomic uint64_t *work);
void ts_extsort_free(struct ts_extsort *x); /* NULL is fine */

/* Takes n records of this layout as a run, sorted by all their bits. Runs may differ in the
 * widths of their fields. */
int ts_extsort_spill(struct ts_extsort *x, const struct ts_record_layout *layout,
                     const uint64_t *rec, uint64_t n, struct ts_err *err);

uint64_t ts_extsort_runs(const struct ts_extsort *x);

/* To be called when all runs are there. Ranges will come in `layout`, sorted, in area[0] or area[1]
 * of area_words each; key_bits as in record_sort.h. */
int ts_extsort_begin(struct ts_extsort *x, const struct ts_record_layout *layout, uint32_t key_bits,
                     uint64_t *const area[2], uint64_t area_words, struct ts_err *err);

/* The next range: *n records at *rec, 0 at the end. */
int ts_extsort_next(struct ts_extsort *x, uint64_t **rec, uint64_t *n, struct ts_err *err);

/* Whether the range just returned was the last. */
int ts_extsort_at_end(const struct ts_extsort *x);

#endif
