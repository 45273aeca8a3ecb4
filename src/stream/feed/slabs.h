/* SPDX-License-Identifier: BSD-3-Clause */
/* slabs.h - lends the slabs of a dense tensor (format/arrays/dense.h), one after another in the
 * order of the array.
 *
 * Slabs that fit the budget are read once and stay, evenly spread over the file; the others are
 * streamed through slots by the reader of shards (reader.h), which reads ahead, into the next pass,
 * too. An array in memory is lent from where it is. Sums over slabs have the same order for any
 * budget, so they have the same bits.
 *
 * For devices the memory is page-locked, a slab holds longer than until the next one, and those
 * that a device keeps are lent until all are there and take no memory here.
 *
 *   owner    the slabs own slots and memory; a slab that is lent holds until the next call of next
 *            (`hold`: the next but so many), rewind or free
 *   units    bytes; host memory stays below the budget given
 *   threads  one calls
 *   errors   0/1 or a negative ts_code; after a failure every further call of next returns it
 */
#ifndef TS_STREAM_SLABS_H
#define TS_STREAM_SLABS_H

#include <signal.h>

#include "base/err.h"
#include "format/arrays/dense.h"

struct ts_slabs;

struct ts_slabs_conf {
    const struct ts_tensor *tensor; /* a dense one, which stays open */
    uint64_t host_bytes;            /* for slots and slabs that stay */
    unsigned avoid; /* sum of ts_reader_avoid (stream/feed/reader.h): 0 but in tests */
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
    uint32_t hold;                     /* most slabs that hold, the one lent last included; 0: 1 */
    /* for each slab: not 0 where a device keeps it; copied; NULL: none is */
    const unsigned char *keep;
    /* Page-locks (or unlocks) memory for devices; NULL: none. An array in memory stays as it is. */
    int (*pin)(void *ctx, void *addr, size_t bytes, struct ts_err *err);
    void (*unpin)(void *ctx, void *addr);
    void *pin_ctx;
};

#define TS_SLABS_HOLD 4u /* most; as many as devices want */

struct ts_slab_view {
    uint64_t number;
    struct ts_dense_part part;
    const void *cells; /* of any alignment */
};

struct ts_feed_stats;

int ts_slabs_new(const struct ts_slabs_conf *conf, struct ts_slabs **ret, struct ts_err *err);
void ts_slabs_free(struct ts_slabs *b); /* NULL is fine */

/* The next slab: 1; 0 at the end of the array, after which the first one is next. */
int ts_slabs_next(struct ts_slabs *b, struct ts_slab_view *ret, struct ts_err *err);

/* The first one is next. */
void ts_slabs_rewind(struct ts_slabs *b);

/* Those that a device keeps are lent no more; or with 0 they are again, as at first. To be called
 * between passes. */
void ts_slabs_leave(struct ts_slabs *b, int left);

void ts_slabs_stats(struct ts_slabs *b, struct ts_feed_stats *ret);

/* How a budget is used: TS_ELIMIT where it does not hold the slots. Tensor, host_bytes, hold and
 * keep count. */
struct ts_slabs_plan {
    uint64_t resident_bytes, slot_bytes;
    uint64_t n_stay;  /* slabs; of those that no device keeps */
    uint32_t n_slots; /* 0 when all stay, or the array is in memory */
};
int ts_slabs_plan(const struct ts_slabs_conf *conf, struct ts_slabs_plan *ret, struct ts_err *err);

#endif
