/* SPDX-License-Identifier: BSD-3-Clause */
/* extsort.h - sorts records of fixed length, in memory or through sorted runs in a file
 * (base/files/sorted_runs.h).
 *
 * The caller fills an area with records. A full area is sorted and becomes a run. Runs are not
 * merged record by record. Instead, all records in a range of keys are read from the runs and
 * sorted in memory by all threads. Samples of each run show how large a range may be to fit in
 * memory. So each run is read once, in long reads, however many runs there are. There are at most
 * 65536 samples, which take a few megabytes. If there are so many runs that samples are too coarse,
 * the end of a range is searched for in the runs themselves.
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
#include "build/sort/record.h"

struct ts_extsort;

/* bytes of memory that a sort needs besides the caller's areas */
#define TS_EXTSORT_BYTES (UINT64_C(5) << 20)

/* Makes a sort. `tmp` is the directory of the file of runs, and the string must stay. The file is
 * made with the first run. After *stop is set, calls soon return TS_ESTOP. *work grows by up to 2
 * for each record that is sorted (record_sort.h). stop and work may be NULL. */
int ts_extsort_new(const char *tmp, uint32_t threads, const volatile sig_atomic_t *stop,
                   _Atomic uint64_t *work, struct ts_extsort **ret, struct ts_err *err);

uint64_t ts_extsort_bytes(const struct ts_extsort *x); /* bytes of the runs so far */

void ts_extsort_free(struct ts_extsort *x); /* x may be NULL */

/* Two areas of memory, and the records that fill the first of them. */
struct ts_extsort_area {
    const struct ts_record_layout *layout;
    uint32_t key_bits; /* number of first bits that decide most comparisons */
    uint64_t *mem[2];  /* the two areas */
    uint64_t words;    /* words of each area */
    uint64_t n;        /* number of records in mem[0] */
};

/* Sorts the records of the first area and stores them as a run. The caller may then use both areas
 * again. Runs may differ in the widths of their fields. */
int ts_extsort_add(struct ts_extsort *x, const struct ts_extsort_area *a, struct ts_err *err);

/* Adds the last records, which are in the first area. If there is no run, they are only sorted in
 * memory. ts_extsort_next returns records in the layout of this area. */
int ts_extsort_end(struct ts_extsort *x, const struct ts_extsort_area *a, struct ts_err *err);

/* Stores n records as a run. They must be sorted by all their bits. */
int ts_extsort_spill(struct ts_extsort *x, const struct ts_record_layout *layout,
                     const uint64_t *rec, uint64_t n, struct ts_err *err);

uint64_t ts_extsort_runs(const struct ts_extsort *x);

/* Returns the next records in order: *n of them at *rec; *n is 0 at the end. */
int ts_extsort_next(struct ts_extsort *x, uint64_t **rec, uint64_t *n, struct ts_err *err);

/* Whether the last call of ts_extsort_next returned the last records. */
int ts_extsort_at_end(const struct ts_extsort *x);

#endif
