/* SPDX-License-Identifier: BSD-3-Clause */
/* feed_lend.c - begins passes and lends shards to consumers. */
#include "stream/feed/feed_state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "stream/feed/waits.h"

void ts_feed_push(struct ts_feed_mode *m, struct ts_feed_queue *q, uint64_t shard)
{
    m->item[shard].next = TS_FEED_NONE;
    if (q->head == TS_FEED_NONE)
        q->head = shard;
    else
        m->item[q->tail].next = shard;
    q->tail = shard;
}

uint64_t ts_feed_pop(struct ts_feed_mode *m, struct ts_feed_queue *q)
{
    const uint64_t shard = q->head;
    if (shard != TS_FEED_NONE)
        q->head = m->item[shard].next;
    return shard;
}

/* ---- queues of shards that can be lent ---- */

/* To be called when one more shard can be lent. Wakes waiting threads: one of the consumer `owner`
 * and, unless a device keeps the shard, one of each consumer with nothing left in its own range. */
static void wake(struct ts_feed *f, uint32_t owner, int keep)
{
    pthread_cond_signal(&f->consumer[owner].ready);
    for (uint32_t c = 0; !keep && c < f->n_consumers; c++)
        if (c != owner && f->consumer[c].waiting > 0 && f->consumer[c].left == 0)
            pthread_cond_signal(&f->consumer[c].ready);
}

static void queue_slot(struct ts_feed *f, struct ts_slot *slot)
{
    struct ts_feed_mode *m = &f->mode[slot->mode];
    struct ts_feed_item *item = &m->item[slot->shard];
    enum ts_feed_kind kind = slot->state == TS_SLOT_READY ? TS_READY_SLOT : TS_RAW_SLOT;
    if (item->keep)
        kind = kind == TS_READY_SLOT ? TS_READY_KEEP : TS_RAW_KEEP;
    item->slot = (uint32_t)(slot - f->slot);
    ts_feed_push(m, &m->queue[item->owner][kind], slot->shard);
}

void ts_feed_offer_slot(struct ts_feed *f, struct ts_slot *slot)
{
    const struct ts_feed_item *item = &f->mode[slot->mode].item[slot->shard];
    queue_slot(f, slot);
    wake(f, item->owner, item->keep);
}

void ts_feed_offer_stay(struct ts_feed *f, uint32_t mode, uint64_t shard, int raw)
{
    struct ts_feed_mode *m = &f->mode[mode];
    const uint32_t owner = m->item[shard].owner;
    ts_feed_push(m, &m->queue[owner][raw ? TS_RAW_STAY : TS_READY_STAY], shard);
    if (ts_feed_mode_of(f, f->now) == mode)
        wake(f, owner, 0);
}

/* ---- beginning a pass ---- */

/* Empties all queues of a mode except that of unchecked resident shards, which lasts from pass to
 * pass. */
static void empty_queues(struct ts_feed *f, uint32_t mode)
{
    for (uint32_t c = 0; c < f->n_consumers; c++)
        for (int k = 0; k < TS_N_KINDS; k++)
            if (k != TS_RAW_STAY)
                f->mode[mode].queue[c][k].head = TS_FEED_NONE;
}

void ts_feed_begin_number(struct ts_feed *f, uint64_t pass)
{
    f->now = pass;
    if (f->ahead < pass)
        ts_feed_read_from(f, pass);
    empty_queues(f, ts_feed_mode_of(f, pass));
    for (uint32_t i = 0; i < f->plan.n_slots; i++) {
        struct ts_slot *s = &f->slot[i];
        struct ts_feed_item *item;
        if (s->state == TS_SLOT_FREE || s->state == TS_SLOT_LENT || s->pass > pass)
            continue;
        item = &f->mode[s->mode].item[s->shard];
        if (s->pass == pass) {
            item->slot = i;
            continue;
        }
        if (item->keep && item->read_for == s->pass && /* no job to read it again was given since */
            (atomic_fetch_and(&f->mode[s->mode].known[s->shard], (unsigned char)~TS_SHARD_LOADING) &
             TS_SHARD_LOADING) != 0)
            f->n_unread++;
        if (s->state == TS_SLOT_READ || s->state == TS_SLOT_READY)
            ts_feed_free_slot(f, s);
    }
}

/* Queues the shards of a mode that are in memory already, in the order of the file. */
static void sort_shards(struct ts_feed *f, uint32_t mode)
{
    struct ts_feed_mode *m = &f->mode[mode];
    for (uint32_t c = 0; c < f->n_consumers; c++)
        f->consumer[c].left = f->consumer[c].loose = 0;
    f->left = f->loose = 0;
    for (uint64_t i = 0; i < m->n_shards; i++) {
        const unsigned char known = atomic_load(&m->known[i]);
        struct ts_feed_item *item = &m->item[i];
        struct ts_feed_consumer *c = &f->consumer[item->owner];
        struct ts_slot *s = &f->slot[item->slot];
        if ((known & TS_SHARD_GONE) != 0)
            continue;
        c->left++;
        c->loose += !item->keep;
        if ((known & TS_SHARD_WHOLE) != 0)
            ts_feed_push(m, &m->queue[item->owner][TS_READY_STAY], i);
        else if (s->pass == f->now && s->mode == mode && s->shard == i &&
                 (s->state == TS_SLOT_READ || s->state == TS_SLOT_READY))
            queue_slot(f, s);
    }
    for (uint32_t c = 0; c < f->n_consumers; c++) {
        f->left += f->consumer[c].left;
        f->loose += f->consumer[c].loose;
    }
}

/* Begins a pass over `mode`: the next pass in turn, for which shards were read ahead, if it is over
 * that mode, otherwise a new one. */
static void begin_pass(struct ts_feed *f, uint32_t mode)
{
    uint64_t pass = f->now + 1;
    if (f->left != 0 || ts_feed_mode_of(f, pass) != mode) {
        uint32_t at = 0;
        while (at < f->n_turns && f->turn[at] != mode)
            at++;
        /* the mode is one of those left out (ts_feed_skip): lends shards of all modes again */
        if (at == f->n_turns) {
            ts_feed_take_turns(f, 0);
            at = mode - f->first_mode;
        }
        pass = f->ahead + 1; /* a number after those of all passes for which shards were read */
        f->shift = (at + f->n_turns - (uint32_t)(pass % f->n_turns)) % f->n_turns;
    }
    ts_feed_begin_number(f, pass);
    sort_shards(f, mode);
    f->open = 1;
    if (f->n_unread > 0)
        ts_reader_kick(f->reader);
}

/* ---- lending a shard ---- */

/* A shard that is being lent. */
struct pick {
    struct ts_slot *slot; /* the slot of the shard; NULL: the shard is resident */
    uint64_t shard, pass;
    char *base;
    int check; /* 1: the shard must be checked before it is lent */
};

/* Returns the queue to take a shard from: one of the consumer's own range or, when that is
 * finished, of the range with most shards left. NULL: no shard has arrived yet. */
static struct ts_feed_queue *find(struct ts_feed *f, struct ts_feed_mode *m, uint32_t consumer,
                                  enum ts_feed_kind *kind)
{
    struct ts_feed_queue *found = NULL;
    uint64_t most = 0;
    for (int k = 0; k < TS_N_KINDS; k++)
        if (m->queue[consumer][k].head != TS_FEED_NONE) {
            *kind = (enum ts_feed_kind)k;
            return &m->queue[consumer][k];
        }
    if (f->consumer[consumer].left > 0 || f->conf.deal.fixed)
        return NULL;
    for (uint32_t c = 0; c < f->n_consumers; c++)
        for (int k = 0; k < TS_N_KINDS && f->consumer[c].loose > most; k++)
            if (k != TS_READY_KEEP && k != TS_RAW_KEEP && m->queue[c][k].head != TS_FEED_NONE) {
                *kind = (enum ts_feed_kind)k;
                most = f->consumer[c].loose;
                found = &m->queue[c][k];
            }
    return found;
}

/* Subtracts a lent shard from the counts of shards that are still to be lent in this pass. */
static void count_lent(struct ts_feed *f, struct ts_feed_mode *m, uint64_t shard)
{
    const struct ts_feed_item *item = &m->item[shard];
    struct ts_feed_consumer *owner = &f->consumer[item->owner];
    f->n_lent++;
    f->left--;
    owner->left--;
    if (item->keep) {
        atomic_fetch_or(&m->known[shard], TS_SHARD_GONE);
        m->n_gone++;
    } else {
        owner->loose--;
        f->loose--;
    }
    if (owner->left == 0) /* other threads of this consumer may now take shards of other ranges */
        pthread_cond_broadcast(&owner->ready);
    if (f->loose == 0)
        /* wakes consumers whose own range is finished, because they get no more shards */
        for (uint32_t c = 0; c < f->n_consumers; c++)
            pthread_cond_broadcast(&f->consumer[c].ready);
}

static char *resident(const struct ts_feed *f, uint32_t mode, uint64_t shard)
{
    return (char *)f->memory.resident + f->plan.place[mode][shard];
}

/* Whether the shards in queues of this kind are still to be checked. */
static int is_raw(enum ts_feed_kind kind)
{
    return kind == TS_RAW_SLOT || kind == TS_RAW_KEEP || kind == TS_RAW_STAY;
}

/* Whether the consumer gets no more shards in this pass. */
static int is_over(const struct ts_feed *f, uint32_t consumer)
{
    return f->consumer[consumer].left == 0 && (f->loose == 0 || f->conf.deal.fixed);
}

static int pick_one(struct ts_feed *f, uint32_t mode, uint32_t consumer, struct pick *ret)
{
    struct ts_feed_mode *m = &f->mode[mode];
    enum ts_feed_kind kind = TS_N_KINDS;
    struct ts_feed_queue *q = find(f, m, consumer, &kind);
    if (q == NULL)
        return 0;
    ret->shard = ts_feed_pop(m, q);
    ret->pass = f->now;
    ret->check = is_raw(kind);
    if (kind == TS_READY_STAY || kind == TS_RAW_STAY) {
        ret->slot = NULL;
        ret->base = resident(f, mode, ret->shard);
    } else {
        ret->slot = &f->slot[m->item[ret->shard].slot];
        ret->slot->state = TS_SLOT_LENT;
        if (f->ahead == f->now)
            f->consumer[m->item[ret->shard].owner].slots--;
        ret->base = ret->slot->base;
    }
    count_lent(f, m, ret->shard);
    return 1;
}

/* Sleeps until a shard has arrived, or until the next check whether the user wants to stop. */
static void wait_ready(struct ts_feed *f, struct ts_feed_consumer *c)
{
    c->waiting++;
    if (f->conf.stop == NULL)
        pthread_cond_wait(&c->ready, &f->lock);
    else
        ts_wait_some(&c->ready, &f->lock);
    c->waiting--;
}

/* Waits for a shard of the pass. Returns 1, 0 if the consumer gets no more shards, or a negative
 * code. Sets *since to the time at which it began to wait; 0: it did not wait. The caller holds the
 * lock. */
static int wait_for_shard(struct ts_feed *f, uint32_t mode, uint32_t consumer, struct pick *ret,
                          uint64_t *since, struct ts_err *err)
{
    if (f->failed == 0 && (!f->open || ts_feed_mode_of(f, f->now) != mode))
        begin_pass(f, mode);
    while (f->failed == 0) {
        const int rc = ts_stop_check(f->conf.stop, err);
        if (rc < 0)
            return rc;
        if (pick_one(f, mode, consumer, ret))
            return 1;
        if (is_over(f, consumer))
            return 0;
        if (*since == 0)
            *since = ts_clock_ns();
        wait_ready(f, &f->consumer[consumer]);
    }
    if (err != NULL)
        *err = f->err;
    return f->failed;
}

/* Checks a shard that is about to be lent and that no checker has checked. If the pass was given up
 * meanwhile, a resident shard is queued again for the new pass. */
static int check_lent(struct ts_feed *f, uint32_t mode, const struct pick *p, struct ts_err *err)
{
    const int rc = ts_feed_check(f, mode, p->shard, p->base, err);
    if (rc == 0 && p->slot != NULL)
        return 0;
    pthread_mutex_lock(&f->lock);
    if (rc < 0)
        ts_feed_fail(f, rc, err);
    else {
        atomic_fetch_or(&f->mode[mode].known[p->shard], TS_SHARD_WHOLE);
        if (p->pass != f->now && ts_feed_mode_of(f, f->now) == mode)
            ts_feed_offer_stay(f, mode, p->shard, 0);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static struct ts_shard_view view_of(const struct ts_feed *f, uint32_t mode, uint64_t shard,
                                    const char *base, struct ts_slot *slot)
{
    return (struct ts_shard_view){
        .mode = mode,
        .shard = shard,
        .first_partition = f->plan.first_partition[mode][shard],
        .entry = &f->tensor->mode[mode].shard[shard],
        .raw = base,
        .lease = slot,
    };
}

int ts_feed_next(struct ts_feed *f, uint32_t mode, uint32_t consumer, struct ts_shard_view *ret,
                 struct ts_err *err)
{
    struct ts_err found;
    struct pick p = { 0 };
    uint64_t since = 0, until;
    int rc;
    if (f->slabs != NULL)
        return 0;
    assert(mode >= f->first_mode && mode < f->first_mode + f->n_modes);
    assert(consumer < f->n_consumers);
    pthread_mutex_lock(&f->lock);
    rc = wait_for_shard(f, mode, consumer, &p, &since, err);
    until = since > 0 ? ts_clock_ns() : 0;
    f->wait_ns += until - since;
    pthread_mutex_unlock(&f->lock);
    if (since > 0)
        ts_trace_add(f->conf.trace, TS_TRACE_GPU(consumer) + TS_TRACE_WAIT, "wait", since, until,
                     mode, rc > 0 ? p.shard : TS_TRACE_NO_SHARD, 0);
    if (rc <= 0)
        return rc;
    *ret = view_of(f, mode, p.shard, p.base, p.slot);
    rc = p.check ? check_lent(f, mode, &p, &found) : 0;
    if (rc == 0)
        return 1;
    ts_feed_done(f, ret);
    if (err != NULL)
        *err = found;
    return rc;
}

int ts_feed_waits(struct ts_feed *f, uint32_t mode, uint32_t consumer)
{
    enum ts_feed_kind kind = TS_N_KINDS;
    int waits;
    if (f->slabs != NULL)
        return 0;
    pthread_mutex_lock(&f->lock);
    assert(f->failed != 0 || (f->open && ts_feed_mode_of(f, f->now) == mode));
    waits = f->failed == 0 && !is_over(f, consumer) &&
            (find(f, &f->mode[mode], consumer, &kind) == NULL || is_raw(kind));
    pthread_mutex_unlock(&f->lock);
    return waits;
}

void ts_feed_done(struct ts_feed *f, const struct ts_shard_view *view)
{
    struct ts_slot *slot = view->lease;
    int kick;
    pthread_mutex_lock(&f->lock);
    assert(f->n_lent > 0);
    f->n_lent--;
    if (slot != NULL)
        ts_feed_free_slot(f, slot);
    kick = slot != NULL && f->n_unread > 0;
    pthread_mutex_unlock(&f->lock);
    if (kick)
        ts_reader_kick(f->reader);
    if (f->conf.done != NULL)
        f->conf.done(f->conf.done_ctx, view->entry->nnz);
}

uint32_t ts_feed_expect(struct ts_feed *f, uint32_t consumer, struct ts_shard_view *ret,
                        uint32_t most)
{
    const struct ts_feed_mode *m;
    uint32_t mode, n = 0;
    if (f->slabs != NULL)
        return 0;
    assert(consumer < f->n_consumers);
    pthread_mutex_lock(&f->lock);
    mode = ts_feed_mode_of(f, f->now + 1);
    m = &f->mode[mode];
    for (uint64_t i = m->first[consumer]; i < m->first[consumer + 1]; i++) {
        const unsigned char known = atomic_load(&m->known[i]);
        if ((known & TS_SHARD_GONE) != 0)
            continue;
        if ((known & TS_SHARD_WHOLE) == 0) {
            n = 0;
            break;
        }
        if (n < most)
            ret[n++] = view_of(f, mode, i, resident(f, mode, i), NULL);
    }
    pthread_mutex_unlock(&f->lock);
    return n;
}
