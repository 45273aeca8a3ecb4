/* SPDX-License-Identifier: BSD-3-Clause */
/* sorted_runs.h - what memory does not hold of a sort: sorted runs, one behind the other in a
 * temporary file.
 *
 * A sort of this tree takes records in any order, and returns them in order:
 *
 *   records   of fixed length (build/sort/extsort.h: nonzeros, also of an export), or strings with
 *             a number each (source/names/string_sort.h: names)
 *   order     the bits of a record; the bytes of a string, or its hash and then its bytes
 *   budget    memory that the caller names once: records fill it and are sorted in it, and later it
 *             holds what is read back
 *   runs      when the budget is full, its records are a run of this file; a sort without a run
 *             never touches the disk
 *   merge     once: records of fixed length range by range, a range being what fits in the budget,
 *             as all threads can sort a range; strings one by one, by a heap of the runs
 *   calls     new, add, end, next until nothing comes, free
 *
 * Pairs of a number (source/names/number_pairs.h) are dealt to ranges before they go to disk. Their
 * chunks are the runs here, and are not sorted.
 *
 *   owner    the object owns the file and the list of runs; an entry of the list is the sort's
 *   units    bytes
 *   threads  one at a time
 *   errors   0 or a negative ts_code; TS_ESTOP when *stop is set
 */
#ifndef TS_BASE_SORTED_RUNS_H
#define TS_BASE_SORTED_RUNS_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"

struct ts_sorted_runs {
    const char *tmp;                   /* directory of the file */
    const char *purpose;               /* in messages, for "out of memory for ..." */
    const volatile sig_atomic_t *stop; /* may be NULL */
    int fd;                            /* -1: there is no run yet */
    uint64_t bytes;                    /* size of the file */
    uint32_t n, room;                  /* runs; entries that the list has room for */
    void *list;                        /* an entry of the sort's own for each run */
};

/* Initialize the struct with { tmp, purpose, stop, .fd = -1 }. */
void ts_sorted_runs_close(struct ts_sorted_runs *r);

/* Makes the file before the first run, and room in the list for one more entry of entry_bytes. The
 * caller fills entry r->n and increments r->n. */
int ts_sorted_runs_room(struct ts_sorted_runs *r, size_t entry_bytes, struct ts_err *err);

/* Appends bytes to the file. */
int ts_sorted_runs_append(struct ts_sorted_runs *r, const void *data, uint64_t bytes,
                          struct ts_err *err);

#endif
