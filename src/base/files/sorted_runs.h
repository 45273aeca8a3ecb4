/* SPDX-License-Identifier: BSD-3-Clause */
/* sorted_runs.h - the sorted runs of a sort that does not fit in memory, one after another in a
 * temporary file.
 *
 * All sorts of this project take records in any order, and return them sorted:
 *
 *   records   records of fixed length (build/sort/extsort.h: nonzeros, also for exports), or
 *             strings with a number each (source/names/string_sort.h: names)
 *   order     that of the bits of a record; of the bytes of a string, or of its hash and then its
 *             bytes
 *   budget    memory whose size the caller sets once: records are collected and sorted in it, and
 *             later it holds records that are read back
 *   runs      when the budget is full, its records are written to the file as a run; a sort without
 *             runs uses no disk
 *   merge     runs are merged once. Records of fixed length are merged in ranges that fit in the
 *             budget, since all threads can sort a range. Strings are merged one by one, by a heap
 *             of the runs
 *   calls     new, add, end, next until no record is left, free
 *
 * Pairs of a number and a value (source/names/number_pairs.h) are distributed to ranges of numbers
 * before they are written to disk. Their chunks take the place of runs, and are not sorted.
 *
 *   owner    the object owns the file and the list of runs; the sort fills the entries of the list
 *   units    bytes
 *   threads  one thread at a time
 *   errors   0 or a negative ts_code; TS_ESTOP if *stop is set
 */
#ifndef TS_BASE_SORTED_RUNS_H
#define TS_BASE_SORTED_RUNS_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"

/* A file of sorted runs, and the list of these runs. */
struct ts_sorted_runs {
    const char *tmp;                   /* directory of the file */
    const char *purpose;               /* in messages, for "out of memory for ..." */
    const volatile sig_atomic_t *stop; /* may be NULL */
    int fd;                            /* -1: no run exists yet */
    uint64_t bytes;                    /* size of the file */
    uint32_t n, room;                  /* number of runs; number of entries that fit in the list */
    void *list;                        /* an entry for each run, of the sort's type */
};

/* Closes the file and frees the list. A new struct is { tmp, purpose, stop, .fd = -1 }. */
void ts_sorted_runs_close(struct ts_sorted_runs *r);

/* Makes the file before the first run, and room in the list for one more entry of entry_bytes. The
 * caller then fills entry r->n and increments r->n. */
int ts_sorted_runs_room(struct ts_sorted_runs *r, size_t entry_bytes, struct ts_err *err);

/* Appends bytes to the file. */
int ts_sorted_runs_append(struct ts_sorted_runs *r, const void *data, uint64_t bytes,
                          struct ts_err *err);

#endif
