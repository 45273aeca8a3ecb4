/* feed_impl.h - the inside of a feed: delivery (feed.c), reading (feed_read.c), checking (feed_check.c).
 *
 * Passes over modes are numbered. The consumer is in pass `now`; the reader's cursor is in pass
 * `ahead`, the same or a later one. When the consumer asks for something else than the sequence says,
 * it gets a new number beyond all that was read for, and slots of older passes fall free.
 *
 *   threads  everything is under `lock`, but for the bytes of a shard, which belong to whoever put
 *            its slot (or resident shard) into the state READING, CHECKING or LENT
 */
#ifndef TS_STREAM_FEED_IMPL_H
#define TS_STREAM_FEED_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "stream/feed.h"
#include "stream/hostbuf.h"
#include "stream/reader.h"
#include "stream/residency.h"

enum ts_slot_state {
    TS_SLOT_FREE,
    TS_SLOT_READING,  /* the reader has it */
    TS_SLOT_READ,     /* not checked yet */
    TS_SLOT_CHECKING, /* a checker has it */
    TS_SLOT_READY,
    TS_SLOT_LENT,
};

struct ts_slot {
    enum ts_slot_state state;
    uint32_t mode;
    uint64_t shard, pass;
    char *base;
};

/* What is known of a shard, from pass to pass. */
enum ts_shard_known {
    TS_SHARD_LOADING = 1, /* it need not be read again: resident, or on its way to who keeps it */
    TS_SHARD_SOUND = 2,   /* its structure was checked */
    TS_SHARD_WHOLE = 4,   /* resident: its hash was checked, and it is unpacked */
    TS_SHARD_GONE = 8,    /* the consumer keeps it */
    TS_SHARD_BUSY = 16,   /* resident: somebody checks it for the first time */
};

struct ts_feed_mode {
    uint64_t n_shards;
    unsigned char *keep;  /* n_shards, as in struct ts_feed_deal */
    uint64_t first[TS_FEED_MAX_CONSUMERS + 1]; /* ranges of the consumers */
    atomic_uchar *known; /* n_shards, sums of ts_shard_known; set by a shard's holder too */
    /* Resident shards in the order in which they came. Those before `settled` are whole or busy;
     * a pass that finds a busy one swaps it with a later one. */
    uint64_t *loaded;
    uint64_t n_loaded, settled, n_gone;
};

struct ts_feed {
    struct ts_feed_conf conf;
    const struct ts_tensor *tensor;
    uint32_t first_mode, n_modes; /* served: the only one, or all from 0 */
    uint32_t n_consumers;
    struct ts_residency plan;
    struct ts_hostbuf memory;
    struct ts_reader *reader;
    struct ts_slot *slot;
    struct ts_feed_mode mode[TS_MAX_ORDER];

    pthread_mutex_t lock;
    pthread_cond_t moved; /* something was read or checked, or failed */
    int locks_up;
    int failed; /* 0, or the code that every call returns */
    struct ts_err err;

    uint64_t now;     /* number of the consumer's pass, 0 before the first */
    int open;         /* it has begun and was not rewound */
    uint64_t given;   /* shards lent in it */
    uint64_t target;  /* to be lent in it */
    uint64_t next_loaded; /* in mode[].loaded, of this pass */
    uint64_t shift;   /* mode of pass p: first_mode + (p + shift) % n_modes */
    uint64_t ahead, ahead_shard; /* the reader's cursor */

    uint64_t bytes_read, wait_ns, n_lent;
    pthread_t *checker;
    uint32_t n_checkers;
    int stop; /* of the checkers */
};

static inline uint32_t ts_feed_mode_of(const struct ts_feed *f, uint64_t pass)
{
    return f->first_mode + (uint32_t)((pass + f->shift) % f->n_modes);
}

/* feed_read.c: the reader's two questions. */
int ts_feed_read_next(void *feed, struct ts_read_job *ret);
void ts_feed_read_done(void *feed, const struct ts_read_job *job, int rc, const struct ts_err *err);

/* A slot whose shard nobody will take. The caller holds the lock. */
static inline void ts_feed_drop(struct ts_feed *f, struct ts_slot *slot)
{
    slot->state = TS_SLOT_FREE;
    if (f->mode[slot->mode].keep[slot->shard] != 0) /* to be lent once, and was not */
        atomic_fetch_and(&f->mode[slot->mode].known[slot->shard],
                         (unsigned char)~TS_SHARD_LOADING);
}

/* A resident shard whose first check ended well. The caller holds the lock. */
static inline void ts_feed_whole(struct ts_feed *f, uint32_t mode, uint64_t shard)
{
    atomic_fetch_or(&f->mode[mode].known[shard], TS_SHARD_WHOLE);
    atomic_fetch_and(&f->mode[mode].known[shard], (unsigned char)~TS_SHARD_BUSY);
}

/* feed_check.c. Checks and unpacks the shard at base; the caller holds it, and not the lock. */
int ts_feed_check(struct ts_feed *f, uint32_t mode, uint64_t shard, char *base, struct ts_err *err);
int ts_feed_check_start(struct ts_feed *f, struct ts_err *err);
void ts_feed_check_stop(struct ts_feed *f);

/* The first failure stays; wakes everybody. The caller holds the lock. */
void ts_feed_fail(struct ts_feed *f, int rc, const struct ts_err *err);

#endif
