/* SPDX-License-Identifier: BSD-3-Clause */
/* feed_check.c - checks shards before they are lent: hash and decompression each time, structure
 * once. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/machine/thread.h"
#include "stream/feed/feed_state.h"
#include "stream/feed/reader_engine.h"

int ts_feed_check(struct ts_feed *f, uint32_t mode, uint64_t shard, char *base, struct ts_err *err)
{
    const struct ts_disk_shard *s = &f->tensor->mode[mode].shard[shard];
    atomic_uchar *known = &f->mode[mode].known[shard];
    int rc =
        ts_tensor_unpack_shard(f->tensor, mode, shard, base + ts_residency_read_at(s), base, err);
    /* the structure is checked once: later reads with the same hash have the same bytes */
    if (rc == 0 && (atomic_load(known) & TS_SHARD_SOUND) == 0) {
        rc = ts_tensor_check_shard(f->tensor, mode, shard, base, err);
        if (rc == 0)
            atomic_fetch_or(known, TS_SHARD_SOUND);
    }
    return rc;
}

/* Takes the next shard out of the consumers' queues of this kind, each time beginning with the
 * queue of another consumer. Returns TS_FEED_NONE if all are empty. */
static uint64_t next_queued(struct ts_feed *f, struct ts_feed_mode *m, enum ts_feed_kind kind)
{
    uint64_t shard = TS_FEED_NONE;
    for (uint32_t c = 0; c < f->n_consumers && shard == TS_FEED_NONE; c++)
        shard = ts_feed_pop(m, &m->queue[f->check_turn++ % f->n_consumers][kind]);
    return shard;
}

/* Takes an unchecked slot of the consumers' current pass out of its queue. Returns NULL if there is
 * none. */
static struct ts_slot *slot_now(struct ts_feed *f)
{
    struct ts_feed_mode *m = &f->mode[ts_feed_mode_of(f, f->now)];
    uint64_t shard = next_queued(f, m, TS_RAW_SLOT);
    if (shard == TS_FEED_NONE)
        shard = next_queued(f, m, TS_RAW_KEEP);
    return shard == TS_FEED_NONE ? NULL : &f->slot[m->item[shard].slot];
}

/* Returns, of the slots with unchecked shards that were read ahead for later passes, the one that
 * will be needed first; or NULL. */
static struct ts_slot *slot_ahead(struct ts_feed *f)
{
    struct ts_slot *first = NULL;
    for (uint32_t i = 0; i < f->plan.n_slots; i++) {
        struct ts_slot *s = &f->slot[i];
        if (s->state == TS_SLOT_READ && s->pass > f->now &&
            (first == NULL || s->pass < first->pass ||
             (s->pass == first->pass && s->shard < first->shard)))
            first = s;
    }
    return first;
}

/* Checks a shard with the lock released. The caller holds the lock before and after the call. */
static int check_unlocked(struct ts_feed *f, uint32_t lane, uint32_t mode, uint64_t shard,
                          char *base)
{
    const uint64_t start = ts_clock_ns();
    struct ts_err err;
    int rc;
    pthread_mutex_unlock(&f->lock);
    rc = ts_feed_check(f, mode, shard, base, &err);
    ts_trace_add(f->conf.trace, lane, "check", start, ts_clock_ns(), mode, shard,
                 f->tensor->mode[mode].shard[shard].raw_bytes);
    pthread_mutex_lock(&f->lock);
    if (rc < 0)
        ts_feed_fail(f, rc, &err);
    return rc;
}

static int check_slot(struct ts_feed *f, uint32_t lane, struct ts_slot *s)
{
    int rc;
    if (s == NULL)
        return 0;
    s->state = TS_SLOT_CHECKING;
    rc = check_unlocked(f, lane, s->mode, s->shard, s->base);
    if (rc == 0 && s->pass >= f->now) {
        s->state = TS_SLOT_READY;
        if (s->pass == f->now)
            ts_feed_offer_slot(f, s);
    } else {
        ts_feed_free_slot(f, s);
        ts_reader_kick(f->reader);
    }
    return 1;
}

/* Checks one unchecked resident shard of a mode. Returns 0 if there is none. */
static int check_stay(struct ts_feed *f, uint32_t lane, uint32_t mode)
{
    struct ts_feed_mode *m = &f->mode[mode];
    const uint64_t shard = next_queued(f, m, TS_RAW_STAY);
    if (shard == TS_FEED_NONE)
        return 0;
    if (check_unlocked(f, lane, mode, shard,
                       (char *)f->memory.resident + f->plan.place[mode][shard]) == 0) {
        atomic_fetch_or(&m->known[shard], TS_SHARD_WHOLE);
        if (ts_feed_mode_of(f, f->now) == mode)
            ts_feed_offer_stay(f, mode, shard, 0);
    }
    return 1;
}

/* Checks the unchecked shard that is needed soonest. Returns 0 if there is none. */
static int check_one(struct ts_feed *f, uint32_t lane)
{
    const uint32_t first = ts_feed_mode_of(f, f->now) - f->first_mode;
    if (check_slot(f, lane, slot_now(f)) || check_stay(f, lane, f->first_mode + first) ||
        check_slot(f, lane, slot_ahead(f)))
        return 1;
    for (uint32_t k = 1; k < f->n_modes; k++)
        if (check_stay(f, lane, f->first_mode + (first + k) % f->n_modes))
            return 1;
    return 0;
}

static void *check_shards(void *arg)
{
    struct ts_feed *f = arg;
    uint32_t lane;
    char name[40];
    pthread_mutex_lock(&f->lock);
    snprintf(name, sizeof name, "check %u", f->n_checking + 1);
    lane = TS_TRACE_CHECK + f->n_checking++;
    ts_trace_lane(f->conf.trace, lane, name);
    while (!f->stop && f->failed == 0)
        if (!check_one(f, lane))
            pthread_cond_wait(&f->work, &f->lock);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

int ts_feed_check_start(struct ts_feed *f, struct ts_err *err)
{
    /* number of rows that the trace has for threads that check */
    const uint32_t most = TS_TRACE_GPU(0) - TS_TRACE_CHECK;
    const uint32_t want = f->conf.checkers < most ? f->conf.checkers : most;
    if (want == 0)
        return 0;
    f->checker = calloc(want, sizeof *f->checker);
    if (f->checker == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", f->tensor->path);
    for (; f->n_checkers < want; f->n_checkers++)
        if (ts_thread_new(&f->checker[f->n_checkers], check_shards, f) != 0)
            break; /* fewer threads are enough: ts_feed_next checks the rest */
    return 0;
}

void ts_feed_check_stop(struct ts_feed *f)
{
    if (f->n_checkers > 0) {
        pthread_mutex_lock(&f->lock);
        f->stop = 1;
        pthread_cond_broadcast(&f->work);
        pthread_mutex_unlock(&f->lock);
    }
    for (uint32_t i = 0; i < f->n_checkers; i++)
        pthread_join(f->checker[i], NULL);
    f->n_checkers = 0;
    free(f->checker);
    f->checker = NULL;
}
