/* SPDX-License-Identifier: BSD-3-Clause */
/* collect.h - gathers the batches that the threads of a source put into one array of records.
 * Batches with numbers are stored in the order of their numbers.
 *
 * The sizes of the modes are known only at the end, so the layout of the records grows while they
 * arrive. Each batch is stored in the current layout, and converted at the end if the layout has
 * grown since. When the array is full, the caller of ts_collect_wait empties it (sorts it and
 * writes it to disk).
 *
 *   owner    the caller owns the array and the batches
 *   units    records; the fields are the indices in the order of the modes, then the value's bits
 *   threads  put: any thread, one call for each batch number; other functions: one thread
 *   errors   0 or a negative ts_code; the first failure stops all threads
 */
#ifndef TS_BUILD_COLLECT_H
#define TS_BUILD_COLLECT_H

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"
#include "format/cell_sum.h"
#include "source/source.h"
#include "build/sort/record.h"

/* A range of the array whose records have one layout. */
struct ts_collect_segment {
    uint64_t at;       /* position in the array, in words */
    uint64_t first, n; /* number of records before the range; number of records in it */
    struct ts_record_layout layout;
};

/* The array, and the counts and the state of the threads that fill it. */
struct ts_collect {
    uint32_t order, value_bits;
    int weights; /* 0, or set to 1 by the caller: nonzeros have weights */
    uint64_t *array;
    /* the array: its words, its words in use, and the records in it */
    uint64_t room_words, used_words, n;
    struct ts_record_layout layout; /* layout for all records so far */
    /* largest index of each mode so far, dropped zeros included */
    uint64_t max[TS_MAX_ORDER];
    uint64_t n_read, n_zeros;
    /* number of values rounded to 0; for text, the line and file of the first one */
    uint64_t n_rounded, rounded_line;
    uint32_t rounded_file;
    uint64_t n_missing;         /* lines left out because a field of them is missing */
    struct ts_cell_sum records; /* checksum over all nonzeros so far */
    /* number of the file of the last batch; n_lines: lines of it so far */
    uint32_t file;
    uint64_t n_lines;
    struct ts_collect_segment *segment;
    uint32_t n_segments, segment_room;

    pthread_mutex_t lock;
    /* signalled when a batch has got its place, when the array was emptied, and after a failure */
    pthread_cond_t moved;
    pthread_cond_t wanted; /* signalled when ts_collect_wait must check again */
    uint64_t turn;         /* number of the batch that may enter next */
    uint32_t packing;      /* number of batches being packed */
    uint32_t sources;      /* number of threads that may still call put */
    int full, failed;
    struct ts_err err; /* message of the first failure */
};

int ts_collect_init(struct ts_collect *c, uint32_t order, uint32_t value_bits, uint64_t *array,
                    uint64_t room_words, uint32_t sources, struct ts_err *err);
void ts_collect_fini(struct ts_collect *c);

/* Returns the sink to start a source with (source.h). Records are sorted later, so the order of
 * batches decides only which failure is reported. `put` waits for batches with lower numbers, and
 * for space in the array. */
struct ts_sink ts_collect_sink(struct ts_collect *c);

/* Waits until the array is full (returns TS_COLLECT_FULL), all threads of the source are done (0),
 * one of them has failed (its code), or a tenth of a second has passed (TS_COLLECT_BUSY). In the
 * first two cases no thread is packing, and after ts_collect_settle all records are in
 * c->layout. */
#define TS_COLLECT_FULL 1
#define TS_COLLECT_BUSY 2
int ts_collect_wait(struct ts_collect *c, struct ts_err *err);

/* Makes all threads of the source end, with the failure *why. */
void ts_collect_cancel(struct ts_collect *c, const struct ts_err *why);

/* Converts all records to c->layout. Returns the array that then holds them: c->array, or scratch
 * (as large), which then becomes c->array. */
uint64_t *ts_collect_settle(struct ts_collect *c, uint64_t *scratch, uint32_t threads);

/* To be called after ts_collect_wait returned 0: lets `sources` threads put batches again, which
 * must have the number TS_SINK_ANY. */
void ts_collect_again(struct ts_collect *c, uint32_t sources);

/* To be called after ts_collect_wait returned TS_COLLECT_FULL: lets the threads put batches into
 * `array`, which counts as empty. */
void ts_collect_resume(struct ts_collect *c, uint64_t *array);

#endif
