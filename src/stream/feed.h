/* SPDX-License-Identifier: BSD-3-Clause */
/* feed.h - shards of a tensor, mode after mode, in memory and checked, to whoever computes.
 *
 * A feed serves sweeps: modes 0, 1, ..., order-1, 0, 1, ... (or one mode over and over). What fits
 * the budget is read once and kept (a fixed set: a sweep is a cyclic scan, the worst case of LRU);
 * the rest is streamed through a fixed number of slots by io_uring with O_DIRECT, reading ahead of
 * the consumers, across the end of a mode too: while factors are solved, the next mode's first
 * shards arrive. Order of delivery within a mode is free; every shard comes exactly once.
 *
 * Several consumers (devices) share a feed, so that a shard is read once whoever computes on it. Each
 * gets the shards of its own range; the reader serves those alike who keep up, and a slow one takes
 * no slots from the others. A consumer whose range was handed out gets what the others have left.
 * They go through a pass together: nobody asks for the next before all have got the end of this one.
 *
 * Every byte read from disk is checked against its hash before it is lent, and the structure of every
 * shard once: by `checkers` threads ahead of the consumers, and by the consumer that is faster than
 * they are.
 *
 *   owner    the feed owns all shard memory; a view is lent from ts_feed_next until ts_feed_done.
 *            Deadlock rule: of a feed with slots (ts_feed_stats), threads that call ts_feed_next
 *            while they hold views may hold at most n_slots - 1 together, or the call never returns.
 *            There are always enough slots for one view with each consumer
 *   units    bytes; host memory stays below the budget given, slots and resident shards together
 *   threads  ts_feed_next and ts_feed_done from any thread; new, free and rewind from one
 *   errors   0/1 or a negative ts_code; after a failure every further call returns it too
 */
#ifndef TS_STREAM_FEED_H
#define TS_STREAM_FEED_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/tensor.h"

struct ts_feed;
struct ts_trace;

#define TS_FEED_MAX_CONSUMERS 16

/* Who gets which shards. Consumers are numbered from 0: devices that compute, each for the rows of a
 * contiguous range of shards. */
struct ts_feed_deal {
    uint32_t n_consumers; /* 0: one */
    /* Of each mode, n_consumers + 1 numbers: consumer c's range is first[c] .. first[c + 1] - 1.
     * NULL: everything to consumer 0. */
    const uint64_t *first[TS_MAX_ORDER];
    /* Of each mode a byte per shard, 1: it stays with its consumer (in device memory). Such a shard
     * is lent once, to the consumer of its range, never again, and takes no memory here afterwards.
     * NULL: none. */
    const unsigned char *keep[TS_MAX_ORDER];
};

struct ts_feed_conf {
    const struct ts_tensor *tensor; /* stays open while the feed lives */
    uint64_t host_bytes;            /* budget for slots and resident shards */
    uint32_t most_slots;            /* 0: as many as help */
    int only_mode;                  /* -1: all modes in turn; else this mode, over and over */
    struct ts_feed_deal deal;       /* copied */
    uint32_t checkers; /* threads that check what was read; 0 leaves it to ts_feed_next */
    unsigned avoid;    /* sum of ts_reader_avoid (stream/reader.h): 0 but in tests */
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
    /* Page-locks (or unlocks) memory for a device; NULL without one. Called from new and free, for
     * one piece after the other: no shard lies in two. */
    int (*pin)(void *ctx, void *addr, size_t bytes, struct ts_err *err);
    void (*unpin)(void *ctx, void *addr);
    void *pin_ctx;
    uint64_t pin_bytes; /* of a piece, at most, if a shard is not more; 0: 1 GiB */
    /* Told the nonzeros of each view that comes back, from any thread; NULL: nobody asks. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    struct ts_trace *trace; /* reads and waits are told to it; NULL: nobody asks */
};

struct ts_shard_view {
    uint32_t mode;
    uint64_t shard;           /* number in its mode copy */
    uint64_t first_partition; /* partitions of the mode copy before this shard */
    const struct ts_disk_shard *entry;
    const void *raw; /* TS_SHARD_SLACK readable bytes behind its end */
    void *lease;     /* the feed's own */
};

struct ts_feed_stats {
    uint64_t bytes_read; /* from disk, since the last call of ts_feed_stats */
    uint64_t wait_ns;    /* that callers of ts_feed_next were blocked, summed over them */
    uint64_t resident_bytes, slot_bytes, n_slots; /* as planned */
    int direct, uring, registered;                /* what the kernel granted */
    const char *fallback; /* NULL, or a sentence on what was refused, to be said once */
};

int ts_feed_new(const struct ts_feed_conf *conf, struct ts_feed **ret, struct ts_err *err);
void ts_feed_free(struct ts_feed *feed); /* NULL is fine; asserts that every view is back */

/* Lends the next shard of `mode` to a consumer: 1 and *ret; 0 when all that it may get were handed out
 * (once all were, the feed moves on to read the next mode). Shards of its own range come first, then
 * those that others have left and will not keep, from the range that has most of them. Blocks until
 * one is ready. A pass over a mode starts with the first call that names another mode than the call
 * before, or that follows ts_feed_rewind; once it is over, every further call returns 0. A pass may
 * be given up in the middle, by all consumers. */
int ts_feed_next(struct ts_feed *feed, uint32_t mode, uint32_t consumer, struct ts_shard_view *ret,
                 struct ts_err *err);
void ts_feed_done(struct ts_feed *feed, const struct ts_shard_view *view);

/* What a consumer will be lent first in the pass after this one, if that is over the next mode in
 * turn: up to `most` shards of its range, in that order. 0 as long as a part of its range comes from
 * disk, which then is what the pass has to wait for. Nothing is lent: the shards may come to another
 * consumer in the end, but their memory stays as it is until ts_feed_free. */
uint32_t ts_feed_expect(struct ts_feed *feed, uint32_t consumer, struct ts_shard_view *ret,
                        uint32_t most);

/* The next call of ts_feed_next starts a new pass, even over the same mode. */
void ts_feed_rewind(struct ts_feed *feed);

/* New ranges (as in struct ts_feed_deal) for the passes over `mode` to come; not to be called inside of
 * one (between its first ts_feed_next and its end or ts_feed_rewind). What was read ahead stays, whose
 * ever it is now; what is kept stays where it is, and what was not lent yet goes to its new owner. */
void ts_feed_deal(struct ts_feed *feed, uint32_t mode, const uint64_t *first);

/* A consumer failed: every further call, and those that wait, return rc (negative) and *err. */
void ts_feed_fail_with(struct ts_feed *feed, int rc, const struct ts_err *err);

void ts_feed_stats(struct ts_feed *feed, struct ts_feed_stats *ret);

#endif
