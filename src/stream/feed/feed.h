/* SPDX-License-Identifier: BSD-3-Clause */
/* feed.h - lends the shards of a tensor to backends: mode after mode, in host memory, after
 * checking them.
 *
 * A feed serves sweeps: modes 0, 1, ..., order-1, 0, 1, ... (or one mode over and over). Shards
 * that fit the budget of memory are read once and stay (a fixed set, since a cyclic scan is the
 * worst case of a cache that evicts by LRU). The others are read in every pass into a fixed number
 * of slots (buffers of one shard), by io_uring with O_DIRECT. The reader reads ahead of the
 * consumers, also for the next mode: its first shards arrive while rows of this mode are updated.
 * Within a mode shards come in any order, each exactly once.
 *
 * Several consumers (devices) share a feed, so each shard is read only once. A consumer gets the
 * shards of its own range. The reader treats all consumers that keep up alike, and a slow one takes
 * no slots from the others. A consumer whose own range is finished gets shards that the others have
 * left, unless ranges are fixed. Consumers go through a pass together: none asks for the next pass
 * before all have got the end of this one.
 *
 * Every byte read from disk is checked against its hash before it is lent, and the structure of
 * every shard is checked once: by `checkers` threads ahead of the consumers, or in ts_feed_next if
 * a shard is due before they reach it.
 *
 *   owner    the feed owns all shard memory; a view is lent from ts_feed_next until ts_feed_done.
 *            Deadlock rule: in a feed with slots (ts_feed_stats), threads that call ts_feed_next
 *            while they hold views may together hold at most n_slots - 1 views, or the call never
 *            returns. There are at least n_consumers + 1 slots, so one view per consumer is safe
 *   units    bytes; host memory stays below the budget given, slots and resident shards together
 *   threads  ts_feed_next and ts_feed_done from any thread; new, free and rewind from one thread
 *   errors   0/1 or a negative ts_code; after a failure every further call returns the same code
 */
#ifndef TS_STREAM_FEED_H
#define TS_STREAM_FEED_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/tensor.h"

struct ts_slabs;
struct ts_feed;
struct ts_trace;

#define TS_FEED_MAX_CONSUMERS 16

enum ts_deal { TS_DEAL_LEND, TS_DEAL_KEEP, TS_DEAL_LEAVE };

/* Which consumer gets which shards. Consumers are numbered from 0. Each is a device that computes
 * the rows of a contiguous range of shards. */
struct ts_feed_deal {
    uint32_t n_consumers; /* 0: one */
    /* For each mode n_consumers + 1 numbers: consumer c's range is first[c] .. first[c + 1] - 1.
     * NULL: all shards go to consumer 0. */
    const uint64_t *first[TS_MAX_ORDER];
    /* For each mode a byte per shard. TS_DEAL_KEEP: the consumer keeps it (in device memory). Such
     * a shard is lent once, to the consumer of its range, never again, and takes no memory here
     * afterwards. TS_DEAL_LEAVE: the feed neither reads nor lends the shard. NULL: TS_DEAL_LEND for
     * all shards. */
    const unsigned char *keep[TS_MAX_ORDER];
    int fixed; /* 1: consumers get shards of their own ranges alone */
    /* For a dense tensor a byte per slab, not 0 if a device keeps the slab. Such slabs are lent
     * until ts_slabs_leave is called. NULL: all slabs are lent in each pass. */
    const unsigned char *slab;
};

struct ts_feed_conf {
    const struct ts_tensor *tensor; /* must stay open while the feed exists */
    uint64_t host_bytes;            /* budget for slots and for shards that stay */
    /* most slots (buffers of a shard); 0: as many as make reading faster */
    uint32_t most_slots;
    /* the only mode whose shards are lent, over and over; -1: all modes in turn */
    int only_mode;
    struct ts_feed_deal deal; /* which consumer gets which shards; its arrays are copied */
    uint32_t checkers;        /* threads that check shards after reading; 0: ts_feed_next checks */
    unsigned avoid;           /* ways to read that are not used (ts_reader_avoid); 0: none */
    /* NULL, or not 0 when the user wants to stop; calls then fail with TS_ESTOP */
    const volatile sig_atomic_t *stop;
    /* Page-locks (or unlocks) memory for a device; NULL: no device. Called from ts_feed_new and
     * ts_feed_free for the feed's memory, in pieces; each shard is inside one piece. */
    int (*pin)(void *ctx, void *addr, size_t bytes, struct ts_err *err);
    void (*unpin)(void *ctx, void *addr);
    void *pin_ctx;
    /* most bytes that one call of `pin` locks, unless a shard is larger; 0: 1 GiB */
    uint64_t pin_bytes;
    /* Called with the number of nonzeros of each view that ts_feed_done gives back, from any
     * thread; or NULL. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    struct ts_trace *trace; /* gets records of reads and waits with their times; or NULL */
};

struct ts_shard_view {
    uint32_t mode;
    uint64_t shard;           /* number in its mode copy */
    uint64_t first_partition; /* number of partitions in the shards before this one */
    const struct ts_disk_shard *entry;
    const void *raw; /* bytes of the shard, then TS_SHARD_SLACK readable bytes */
    void *lease;     /* the slot of the shard, for ts_feed_done */
};

struct ts_feed_stats {
    uint64_t bytes_read; /* bytes read from disk since the last call of ts_feed_stats */
    uint64_t wait_ns;    /* sum of the times that callers of ts_feed_next were blocked */
    /* bytes of the shards that stay in memory; bytes of a slot; number of slots */
    uint64_t resident_bytes, slot_bytes, n_slots;
    /* whether O_DIRECT is in use; whether io_uring is in use; whether files and buffers are
     * registered with io_uring */
    int direct, uring, registered;
    const char *fallback; /* NULL, or a message about what the kernel refused, to be shown once */
};

/* For a dense tensor (format/arrays/dense.h), returns the object that lends its slabs (slabs.h) to
 * the one consumer: the feed then has no shards, ts_feed_next returns 0, and the functions below do
 * nothing. NULL: the feed has shards. */
struct ts_slabs *ts_feed_slabs(struct ts_feed *feed);

int ts_feed_new(const struct ts_feed_conf *conf, struct ts_feed **ret, struct ts_err *err);
/* feed may be NULL; all shards that were lent must be given back before */
void ts_feed_free(struct ts_feed *feed);

/* Lends the next shard of `mode` to a consumer. Returns 1 and sets *ret, or 0 when the consumer
 * gets no more shards in this pass. After all shards were lent, the feed reads the next mode.
 * Shards of the consumer's own range come first. Then come shards of other consumers' ranges,
 * except those that a device will keep, from the range with most shards left. Blocks until a shard
 * is ready. A pass over a mode starts with the first call that names another mode than the call
 * before, or that follows ts_feed_rewind; after its end every further call returns 0. Consumers may
 * give up a pass in the middle, if all do. */
int ts_feed_next(struct ts_feed *feed, uint32_t mode, uint32_t consumer, struct ts_shard_view *ret,
                 struct ts_err *err);
void ts_feed_done(struct ts_feed *feed, const struct ts_shard_view *view);

/* In a pass over `mode`: returns 1 if the next call of ts_feed_next would wait for a shard or check
 * one itself. Returns 0 if a checked shard is ready (unless another consumer takes it first) or the
 * pass is over. */
int ts_feed_waits(struct ts_feed *feed, uint32_t mode, uint32_t consumer);

/* Writes to ret the shards that a consumer will get first in the next pass, if that pass is over
 * the next mode in turn: up to `most` shards of its range, in that order. Returns their number.
 * Returns 0 if some shard of its range is not in memory to stay, since the pass then waits for the
 * disk anyway. Nothing is lent: another consumer may get these shards in the end, but their memory
 * stays unchanged until ts_feed_free. */
uint32_t ts_feed_expect(struct ts_feed *feed, uint32_t consumer, struct ts_shard_view *ret,
                        uint32_t most);

/* Makes the next call of ts_feed_next start a new pass, even over the same mode. */
void ts_feed_rewind(struct ts_feed *feed);

/* Leaves modes out of later passes (bit m: mode m). Passes are over the other modes in turn, from
 * the first of them, and nothing is read ahead for a mode that is left out. Not to be called during
 * a pass. */
void ts_feed_skip(struct ts_feed *feed, uint32_t modes);

/* Sets the ranges of later passes over `mode`: consumer c gets shards first[c] .. first[c + 1] - 1.
 * Not to be called during a pass over the mode (between its first ts_feed_next and its end or
 * ts_feed_rewind). Shards that were read ahead are lent to the consumer of the new range. Shards
 * that a device keeps stay there. */
void ts_feed_deal(struct ts_feed *feed, uint32_t mode, const uint64_t *first);

/* To be called when a consumer has failed: all waiting and later calls return rc (negative) and
 * *err. */
void ts_feed_fail_with(struct ts_feed *feed, int rc, const struct ts_err *err);

void ts_feed_stats(struct ts_feed *feed, struct ts_feed_stats *ret);

#endif
