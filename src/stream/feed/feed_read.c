/* SPDX-License-Identifier: BSD-3-Clause */
/* feed_read.c - gives jobs to the reader: the shards of each pass in turn, as slots become free.
 *
 * Each consumer's range is read from its start. The next shard is for the consumer with the fewest
 * slots in use that were not lent to it yet. Of several such consumers it is the one with the
 * largest share of its range left to read. So all ranges are read at the same speed while all
 * consumers keep up. A consumer that falls behind takes no slots from the others, which continue at
 * their own speed.
 */
#include "base/clock.h"
#include "stream/feed/feed_state.h"

#include <stdio.h>

/* The tag of a job of the reader holds three numbers: that of the shard, that of the slot + 1 (0:
 * resident), and that of the lane of the trace (a row of its timeline) + 1 (0: none). */
#define TAG_SHARD_BITS 44
#define TAG_SLOT_BITS  12

static uint64_t tag_part(uint64_t tag, int at, int bits)
{
    return tag >> at & ((UINT64_C(1) << bits) - 1);
}

/* Takes a free lane of the trace for a read that starts now. Returns its number + 1, or 0 without a
 * trace or a free lane. */
static uint32_t take_lane(struct ts_feed *f)
{
    uint32_t lane = 0;
    if (f->conf.trace == NULL)
        return 0;
    while (lane < TS_FEED_LANES && f->lane_used[lane])
        lane++;
    if (lane == TS_FEED_LANES)
        return 0;
    if (lane == f->n_lanes) {
        char name[40];
        snprintf(name, sizeof name, "disk, read %u", lane + 1);
        ts_trace_lane(f->conf.trace, TS_TRACE_READ + lane, name);
        f->n_lanes++;
    }
    f->lane_used[lane] = 1;
    f->lane_start_ns[lane] = ts_clock_ns();
    return lane + 1;
}

void ts_feed_read_from(struct ts_feed *f, uint64_t pass)
{
    f->ahead = pass;
    for (uint32_t c = 0; c < f->n_consumers; c++) {
        f->consumer[c].cursor = f->mode[ts_feed_mode_of(f, pass)].first[c];
        f->consumer[c].slots = 0;
    }
}

void ts_feed_read_again(struct ts_feed *f)
{
    const struct ts_feed_mode *m = &f->mode[ts_feed_mode_of(f, f->ahead)];
    ts_feed_read_from(f, f->ahead);
    for (uint32_t i = 0; i < f->plan.n_slots; i++) {
        const struct ts_slot *s = &f->slot[i];
        if (s->pass == f->ahead && s->state != TS_SLOT_FREE && s->state != TS_SLOT_LENT)
            f->consumer[m->item[s->shard].owner].slots++;
    }
}

/* Whether a shard need not be read for pass `ahead`, because it is in memory to stay, its read was
 * given to the reader already, or its consumer's device keeps it. */
static int settled(const struct ts_feed *f, const struct ts_feed_mode *m, uint64_t shard)
{
    return m->item[shard].read_for == f->ahead ||
           (atomic_load(&m->known[shard]) & (TS_SHARD_LOADING | TS_SHARD_GONE)) != 0;
}

/* Whether consumer a has a larger part of its range left to read than consumer b. */
static int less_done(const struct ts_feed *f, const struct ts_feed_mode *m, uint32_t a, uint32_t b)
{
    const uint64_t left_a = m->first[a + 1] - f->consumer[a].cursor;
    const uint64_t left_b = m->first[b + 1] - f->consumer[b].cursor;
    return left_a * (m->first[b + 1] - m->first[b]) > left_b * (m->first[a + 1] - m->first[a]);
}

/* Returns the consumer for which the next shard is read; n_consumers: no shard of the pass is left
 * to read. */
static uint32_t hungriest(struct ts_feed *f, const struct ts_feed_mode *m)
{
    uint32_t best = f->n_consumers;
    for (uint32_t i = 0; i < f->n_consumers; i++) {
        struct ts_feed_consumer *c = &f->consumer[i];
        while (c->cursor < m->first[i + 1] && settled(f, m, c->cursor))
            c->cursor++;
        if (c->cursor == m->first[i + 1])
            continue;
        if (best == f->n_consumers || c->slots < f->consumer[best].slots ||
            (c->slots == f->consumer[best].slots && less_done(f, m, i, best)))
            best = i;
    }
    return best;
}

/* Fills in the job that reads the shard at a consumer's cursor. Returns 1, or 0 if the shard has to
 * wait for a free slot. */
static int make_job(struct ts_feed *f, uint32_t mode, struct ts_feed_consumer *c,
                    struct ts_read_job *ret)
{
    const uint64_t shard = c->cursor;
    const struct ts_disk_shard *s = &f->tensor->mode[mode].shard[shard];
    const uint64_t place = f->plan.place[mode][shard];
    struct ts_feed_item *item = &f->mode[mode].item[shard];
    struct ts_slot *slot = NULL;
    char *base;
    if (place != TS_NOT_RESIDENT) {
        base = (char *)f->memory.resident + place;
    } else {
        slot = f->free;
        if (slot == NULL)
            return 0;
        f->free = slot->next;
        c->slots++;
        slot->state = TS_SLOT_READING;
        slot->mode = mode;
        slot->shard = shard;
        slot->pass = f->ahead;
        base = slot->base;
    }
    if (slot == NULL || item->keep) {
        atomic_fetch_or(&f->mode[mode].known[shard], TS_SHARD_LOADING);
        f->n_unread--; /* make_job has tested by settled() that this bit was not set */
    }
    item->read_for = f->ahead;
    c->cursor++;
    *ret = (struct ts_read_job){
        .file = mode - f->first_mode,
        .offset = s->offset,
        .bytes = ts_residency_stored(s),
        .addr = base + ts_residency_read_at(s),
        .tag = shard | (slot == NULL ? 0 : (uint64_t)(slot - f->slot + 1)) << TAG_SHARD_BITS |
               (uint64_t)take_lane(f) << (TAG_SHARD_BITS + TAG_SLOT_BITS),
    };
    return 1;
}

/* Gives the next job to the reader: returns 1 and sets *ret, or returns 0 if there is none now. The
 * cursors run ahead of the consumers by at most one pass of each mode. The number of slots limits
 * them too, unless all shards are resident. */
int ts_feed_read_next(void *feed, struct ts_read_job *ret)
{
    struct ts_feed *f = feed;
    int rc = 0;
    pthread_mutex_lock(&f->lock);
    while (f->failed == 0 && f->ahead <= f->now + f->n_turns) {
        const uint32_t mode = ts_feed_mode_of(f, f->ahead);
        const uint32_t c = hungriest(f, &f->mode[mode]);
        if (c == f->n_consumers) {
            ts_feed_read_from(f, f->ahead + 1);
            continue;
        }
        rc = make_job(f, mode, &f->consumer[c], ret);
        break;
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static void slot_arrived(struct ts_feed *f, struct ts_slot *slot, int rc)
{
    if (rc < 0 || slot->pass < f->now) {
        ts_feed_free_slot(f, slot);
        return;
    }
    slot->state = TS_SLOT_READ;
    if (slot->pass == f->now)
        ts_feed_offer_slot(f, slot);
}

void ts_feed_read_done(void *feed, const struct ts_read_job *job, int rc, const struct ts_err *err)
{
    struct ts_feed *f = feed;
    const uint32_t mode = job->file + f->first_mode;
    const uint64_t shard = tag_part(job->tag, 0, TAG_SHARD_BITS);
    const uint64_t slot = tag_part(job->tag, TAG_SHARD_BITS, TAG_SLOT_BITS);
    const uint32_t lane = (uint32_t)(job->tag >> (TAG_SHARD_BITS + TAG_SLOT_BITS));
    pthread_mutex_lock(&f->lock);
    /* adds the record of the read to the trace before another read can take its lane */
    if (lane > 0) {
        ts_trace_add(f->conf.trace, TS_TRACE_READ + lane - 1, "read", f->lane_start_ns[lane - 1],
                     ts_clock_ns(), mode, shard, job->bytes);
        f->lane_used[lane - 1] = 0;
    }
    if (rc < 0)
        ts_feed_fail(f, rc, err);
    else
        f->bytes_read += job->bytes;
    if (slot > 0)
        slot_arrived(f, &f->slot[slot - 1], rc);
    else if (rc == 0)
        ts_feed_offer_stay(f, mode, shard, 1);
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
}
