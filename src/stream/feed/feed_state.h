/* SPDX-License-Identifier: BSD-3-Clause */
/* feed_state.h - the inside of a feed: lending (feed_lend.c), reading (feed_read.c), checking
 * (feed_check.c), creating and freeing (feed.c).
 *
 * Passes over modes are numbered. The consumers compute pass `now`; the reader reads shards of pass
 * `ahead`, the same or a later one. When a consumer asks for another mode than the sequence says,
 * its pass gets a new number, after all numbers for which shards were read. Slots of older passes
 * become free.
 *
 * Shards that can be lent without reading are in queues, one set for each mode and consumer, so
 * that no thread searches for a shard. The queues hold shards of the pass `now` in slots and
 * resident shards that are checked; both are queued when the pass begins, or when they are read or
 * checked later. They also hold resident shards that were never checked, which stay queued from
 * pass to pass until they are.
 *
 *   threads  everything is under `lock`, except the bytes of a shard. These belong to the thread
 *            that put its slot into the state READING, CHECKING or LENT, or took it out of its
 *            queue
 */
#ifndef TS_STREAM_FEED_STATE_H
#define TS_STREAM_FEED_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/trace.h"
#include "stream/feed/feed.h"
#include "stream/feed/hostbuf.h"
#include "stream/feed/reader.h"
#include "stream/feed/residency.h"

enum ts_slot_state {
    TS_SLOT_FREE,
    TS_SLOT_READING,  /* the reader is filling it */
    TS_SLOT_READ,     /* read, but not checked */
    TS_SLOT_CHECKING, /* a checker is checking it */
    TS_SLOT_READY,
    TS_SLOT_LENT,
};

struct ts_slot {
    enum ts_slot_state state;
    uint32_t mode;
    uint64_t shard, pass;
    char *base;
    struct ts_slot *next; /* the next slot in the list of free slots */
};

/* What is known about a shard, as bits that last from pass to pass. */
enum ts_shard_known {
    /* it is not to be read: it is resident, is being read to stay, or was read for the device that
     * keeps it */
    TS_SHARD_LOADING = 1,
    TS_SHARD_SOUND = 2, /* its structure was checked */
    TS_SHARD_WHOLE = 4, /* it is resident, its hash was checked, and it is decompressed */
    TS_SHARD_GONE = 8,  /* its consumer keeps it, and the feed no longer has it */
};

/* The kinds of queues, in the order in which a consumer takes from them. Slots come first, because
 * further reads wait for free slots. Shards that will be kept have separate queues, because only
 * their own consumer may get them. */
enum ts_feed_kind {
    TS_READY_SLOT,
    TS_READY_KEEP,
    TS_RAW_SLOT, /* RAW: the shard was not checked yet */
    TS_RAW_KEEP,
    TS_READY_STAY, /* STAY: the shard stays in host memory */
    TS_RAW_STAY,
    TS_N_KINDS,
};

#define TS_FEED_NONE UINT64_MAX

struct ts_feed_queue {
    /* first and last shard of the queue; head is TS_FEED_NONE if it is empty */
    uint64_t head, tail;
};

struct ts_feed_item {
    uint64_t next;       /* next shard in the same queue */
    uint64_t read_for;   /* the last pass for which the reader got a job for this shard */
    uint32_t slot;       /* number of its slot, while the shard is in a queue of slots */
    unsigned char owner; /* the consumer whose range the shard is in */
    unsigned char keep;  /* enum ts_deal: lent each time, kept by its device, or left out */
};

struct ts_feed_mode {
    uint64_t n_shards, n_gone;
    /* for each shard, bits of enum ts_shard_known; atomic, because TS_SHARD_SOUND (the structure is
     * checked) is set without the lock */
    atomic_uchar *known;
    struct ts_feed_item *item;                 /* an item for each shard */
    uint64_t first[TS_FEED_MAX_CONSUMERS + 1]; /* first shard of each consumer's range */
    struct ts_feed_queue queue[TS_FEED_MAX_CONSUMERS][TS_N_KINDS];
};

struct ts_feed_consumer {
    pthread_cond_t ready;
    uint32_t waiting; /* number of threads that wait for the condition `ready` */
    uint64_t left;    /* shards of its range that are still to be lent in the pass `now` */
    /* how many of `left` other consumers may take, because no device keeps them */
    uint64_t loose;
    /* the next shard of its range to be read for pass `ahead`; earlier shards of the range need no
     * read */
    uint64_t cursor;
    uint32_t slots; /* slots with shards of its range for pass `ahead` that were not lent yet */
};

#define TS_FEED_LANES (TS_TRACE_CHECK - TS_TRACE_READ)

struct ts_feed {
    struct ts_feed_conf conf;
    /* for a dense tensor, which uses none of the members below; otherwise NULL */
    struct ts_slabs *slabs;
    const struct ts_tensor *tensor;
    uint32_t first_mode, n_modes; /* modes whose shards can be lent: the only mode, or all from 0 */
    /* modes in the order of passes, without those left out (ts_feed_skip) */
    uint32_t turn[TS_MAX_ORDER];
    uint32_t n_turns;
    uint32_t n_consumers;
    struct ts_residency plan;
    struct ts_hostbuf memory;
    struct ts_reader *reader;
    struct ts_slot *slot, *free;
    struct ts_feed_mode mode[TS_MAX_ORDER];

    pthread_mutex_t lock;
    pthread_cond_t work; /* for checkers: signalled when a shard was read or the feed has failed */
    int locks_up;
    int failed; /* 0, or the code of the failure, which every call then returns */
    struct ts_err err;

    uint64_t now;   /* number of the pass that the consumers compute; 0 before the first */
    int open;       /* 1: pass `now` has begun, and ts_feed_rewind was not called since */
    uint64_t left;  /* shards still to be lent in the pass `now` */
    uint64_t loose; /* how many of `left` any consumer may take */
    uint64_t shift; /* pass number p is over mode turn[(p + shift) % n_turns] */
    uint64_t ahead; /* number of the pass whose shards the reader reads */
    /* Number of shards without the bit TS_SHARD_LOADING. 0: nothing is left to read, and the reader
     * is not woken, because waking it in each mode would take a core from the threads that
     * compute. */
    uint64_t n_unread;
    struct ts_feed_consumer consumer[TS_FEED_MAX_CONSUMERS];

    uint64_t bytes_read, wait_ns, n_lent;
    pthread_t *checker;
    uint32_t n_checkers, n_checking; /* number of checker threads, and of those that have started */
    uint32_t check_turn;             /* the consumer from whose queue a checker takes first */
    int stop;                        /* 1: ends the checkers */

    unsigned char lane_used[TS_FEED_LANES]; /* 1: this lane (row) of the trace shows a read */
    uint64_t lane_start_ns[TS_FEED_LANES];
    uint32_t n_lanes; /* number of lanes that have a name in the trace */
};

static inline uint32_t ts_feed_mode_of(const struct ts_feed *f, uint64_t pass)
{
    return f->turn[(pass + f->shift) % f->n_turns];
}

/* ---- callers of all functions below hold the lock, unless a comment says otherwise ---- */

/* Makes later passes be over all modes except those of `skip` (bit m: mode m). The mode of every
 * pass number changes. */
void ts_feed_take_turns(struct ts_feed *f, uint32_t skip);

static inline void ts_feed_free_slot(struct ts_feed *f, struct ts_slot *slot)
{
    slot->state = TS_SLOT_FREE;
    slot->next = f->free;
    f->free = slot;
}

/* feed_lend.c. Queues a shard of the pass `now` that has arrived or was checked, in a slot of the
 * state READ or READY, or in its resident place. Wakes the consumers that may get it. */
void ts_feed_offer_slot(struct ts_feed *f, struct ts_slot *slot);
void ts_feed_offer_stay(struct ts_feed *f, uint32_t mode, uint64_t shard, int raw);
/* Takes the first shard out of the queue, or returns TS_FEED_NONE. */
uint64_t ts_feed_pop(struct ts_feed_mode *m, struct ts_feed_queue *q);
void ts_feed_push(struct ts_feed_mode *m, struct ts_feed_queue *q, uint64_t shard);

/* Moves the consumers to pass number `pass`, of which no shard is queued yet. Slots of older passes
 * become free, at once or when the thread that uses them is done. Shards in these slots that were
 * read for a device to keep will be read again. The item of each shard in a slot of the new pass
 * gets the number of that slot. */
void ts_feed_begin_number(struct ts_feed *f, uint64_t pass);

/* feed_read.c. The reader's two callbacks (called without the lock), and a function that moves the
 * reader's cursors to the start of a pass. */
int ts_feed_read_next(void *feed, struct ts_read_job *ret);
void ts_feed_read_done(void *feed, const struct ts_read_job *job, int rc, const struct ts_err *err);
void ts_feed_read_from(struct ts_feed *f, uint64_t pass);
/* Moves the reader's cursors to the start of pass `ahead` again. To be called when the ranges of
 * its mode have changed. */
void ts_feed_read_again(struct ts_feed *f);

/* feed_check.c. Checks and decompresses the shard at base, whose bytes belong to the calling
 * thread. It does not hold the lock. */
int ts_feed_check(struct ts_feed *f, uint32_t mode, uint64_t shard, char *base, struct ts_err *err);
int ts_feed_check_start(struct ts_feed *f, struct ts_err *err); /* called without the lock */
void ts_feed_check_stop(struct ts_feed *f);                     /* called without the lock */

/* Records the first failure and wakes all threads. */
void ts_feed_fail(struct ts_feed *f, int rc, const struct ts_err *err);

#endif
