/* feed_read.c - what a feed has its reader read: the shards of pass after pass, as slots fall free. */
#include "stream/feed_impl.h"

/* A job's tag: the slot's number + 1 (0: resident), and the shard. */
#define TAG_SHARD_BITS 44

static struct ts_slot *free_slot(struct ts_feed *f)
{
    for (uint32_t i = 0; i < f->plan.n_slots; i++)
        if (f->slot[i].state == TS_SLOT_FREE)
            return &f->slot[i];
    return NULL;
}

/* Fills in the job for the shard at the cursor: 1, or 0 when it has to wait for a slot. */
static int make_job(struct ts_feed *f, uint32_t mode, uint64_t shard, struct ts_read_job *ret)
{
    const struct ts_disk_shard *s = &f->tensor->mode[mode].shard[shard];
    const uint64_t place = f->plan.place[mode][shard];
    struct ts_slot *slot = NULL;
    char *base;
    if (place != TS_NOT_RESIDENT) {
        base = (char *)f->memory.resident + place;
    } else {
        slot = free_slot(f);
        if (slot == NULL)
            return 0;
        slot->state = TS_SLOT_READING;
        slot->mode = mode;
        slot->shard = shard;
        slot->pass = f->ahead;
        base = slot->base;
    }
    if (slot == NULL || f->mode[mode].keep[shard] != 0)
        atomic_fetch_or(&f->mode[mode].known[shard], TS_SHARD_LOADING);
    ret->file = mode - f->first_mode;
    ret->offset = s->offset;
    ret->bytes = ts_residency_stored(s);
    ret->addr = base + ts_residency_read_at(s);
    ret->tag = shard | (slot == NULL ? 0 : (uint64_t)(slot - f->slot + 1)) << TAG_SHARD_BITS;
    return 1;
}

/* Nothing to read for it: it is there, on its way, or with the consumer. */
static int settled(const struct ts_feed *f, uint32_t mode, uint64_t shard)
{
    return (atomic_load(&f->mode[mode].known[shard]) & (TS_SHARD_LOADING | TS_SHARD_GONE)) != 0;
}

/* A round of all modes is the farthest that the cursor goes ahead. Slots bound it too, but not when
 * nothing streams. */
int ts_feed_read_next(void *feed, struct ts_read_job *ret)
{
    struct ts_feed *f = feed;
    int rc = 0;
    pthread_mutex_lock(&f->lock);
    while (rc == 0 && f->failed == 0 && f->ahead <= f->now + f->n_modes) {
        const uint32_t mode = ts_feed_mode_of(f, f->ahead);
        if (f->ahead_shard == f->mode[mode].n_shards) {
            f->ahead++;
            f->ahead_shard = 0;
        } else if (settled(f, mode, f->ahead_shard))
            f->ahead_shard++;
        else if (make_job(f, mode, f->ahead_shard, ret)) {
            f->ahead_shard++;
            rc = 1;
        } else
            break;
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

void ts_feed_read_done(void *feed, const struct ts_read_job *job, int rc, const struct ts_err *err)
{
    struct ts_feed *f = feed;
    const uint32_t mode = job->file + f->first_mode;
    const uint64_t shard = job->tag & ((UINT64_C(1) << TAG_SHARD_BITS) - 1);
    const uint64_t number = job->tag >> TAG_SHARD_BITS;
    pthread_mutex_lock(&f->lock);
    if (rc < 0)
        ts_feed_fail(f, rc, err);
    else
        f->bytes_read += job->bytes;
    if (number > 0) {
        struct ts_slot *slot = &f->slot[number - 1];
        if (rc < 0 || slot->pass < f->now)
            ts_feed_drop(f, slot);
        else
            slot->state = TS_SLOT_READ;
    } else if (rc == 0)
        f->mode[mode].loaded[f->mode[mode].n_loaded++] = shard;
    pthread_cond_broadcast(&f->moved);
    pthread_mutex_unlock(&f->lock);
}
