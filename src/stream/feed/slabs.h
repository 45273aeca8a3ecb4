/* SPDX-License-Identifier: BSD-3-Clause */
/* slabs.h - lends the slabs of a dense tensor (format/arrays/dense.h), one after another in the
 * order of the array.
 *
 * As many slabs as fit the budget of memory are read once and stay, evenly spread over the file.
 * The others are read in every pass into slots (buffers of one slab) by the reader of shards
 * (reader.h), which reads ahead, also for the next pass. An array in memory is lent from where it
 * is. Sums over slabs are added in the same order for any budget, so they have the same bits.
 *
 * With devices, the memory is page-locked, and several slabs are lent at a time. Slabs that a
 * device keeps are lent until the device has all of them, and take no memory here.
 *
 *   owner    struct ts_slabs owns the slots and the memory. A slab is lent until the next call of
 *            next, rewind or free; with `hold`, until `hold` further calls of next
 *   units    bytes; host memory stays below the budget given
 *   threads  called by one thread
 *   errors   0/1 or a negative ts_code; after a failure every further call of next returns the same
 *            code
 */
#ifndef TS_STREAM_SLABS_H
#define TS_STREAM_SLABS_H

#include <signal.h>

#include "base/err.h"
#include "format/arrays/dense.h"

struct ts_slabs;

struct ts_slabs_conf {
    const struct ts_tensor *tensor; /* a dense tensor, which must stay open */
    uint64_t host_bytes;            /* budget for slots and for slabs that stay */
    unsigned avoid; /* ways to read that are not used (ts_reader_avoid): 0 except in tests */
    /* NULL, or not 0 when the user wants to stop; calls then fail with TS_ESTOP */
    const volatile sig_atomic_t *stop;
    uint32_t hold; /* most slabs that are lent at the same time, the newest included; 0: 1 */
    /* For each slab, not 0 if a device keeps it. The array is copied. NULL: devices keep none. */
    const unsigned char *keep;
    /* Page-locks (or unlocks) memory, so that devices can read it; or NULL. Memory of an array that
     * was given in memory is not page-locked. */
    int (*pin)(void *ctx, void *addr, size_t bytes, struct ts_err *err);
    void (*unpin)(void *ctx, void *addr);
    void *pin_ctx;
};

#define TS_SLABS_HOLD 4u /* the largest allowed `hold`; devices need no more */

struct ts_slab_view {
    uint64_t number;
    struct ts_dense_part part;
    const void *cells; /* the cells of the slab, at an address of any alignment */
};

struct ts_feed_stats;

int ts_slabs_new(const struct ts_slabs_conf *conf, struct ts_slabs **ret, struct ts_err *err);
void ts_slabs_free(struct ts_slabs *b); /* b may be NULL */

/* Lends the next slab and returns 1. Returns 0 after the last slab; the next call then lends the
 * first slab again. */
int ts_slabs_next(struct ts_slabs *b, struct ts_slab_view *ret, struct ts_err *err);

/* Makes ts_slabs_next lend the first slab next. */
void ts_slabs_rewind(struct ts_slabs *b);

/* left 1: slabs that a device keeps are not lent any more. left 0: they are lent again. To be
 * called between passes. */
void ts_slabs_leave(struct ts_slabs *b, int left);

void ts_slabs_stats(struct ts_slabs *b, struct ts_feed_stats *ret);

/* How a budget of memory is divided. ts_slabs_plan returns TS_ELIMIT if the budget is too small for
 * the slots. It reads only tensor, host_bytes, hold and keep of conf. */
struct ts_slabs_plan {
    uint64_t resident_bytes, slot_bytes;
    uint64_t n_stay;  /* number of slabs that stay in host memory, of those that no device keeps */
    uint32_t n_slots; /* 0: all slabs stay, or the array is in memory */
};
int ts_slabs_plan(const struct ts_slabs_conf *conf, struct ts_slabs_plan *ret, struct ts_err *err);

#endif
