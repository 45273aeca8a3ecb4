/* feed_check.c - nothing is lent that was not checked: hash, unpacking, and structure once. */
#include <stdlib.h>

#include "stream/feed_impl.h"
#include "stream/reader_impl.h"

int ts_feed_check(struct ts_feed *f, uint32_t mode, uint64_t shard, char *base, struct ts_err *err)
{
    const struct ts_disk_shard *s = &f->tensor->mode[mode].shard[shard];
    atomic_uchar *known = &f->mode[mode].known[shard];
    int rc = ts_tensor_unpack_shard(f->tensor, mode, shard, base + ts_residency_read_at(s), base,
                                    err);
    if (rc == 0 && (atomic_load(known) & TS_SHARD_SOUND) == 0) { /* equal hashes mean equal bytes: once */
        rc = ts_tensor_check_shard(f->tensor, mode, shard, base, err);
        if (rc == 0)
            atomic_fetch_or(known, TS_SHARD_SOUND);
    }
    return rc;
}

/* The slot that will be wanted first, of those read and not checked. */
static struct ts_slot *next_slot(struct ts_feed *f)
{
    struct ts_slot *first = NULL;
    for (uint32_t i = 0; i < f->plan.n_slots; i++) {
        struct ts_slot *s = &f->slot[i];
        if (s->state == TS_SLOT_READ &&
            (first == NULL || s->pass < first->pass ||
             (s->pass == first->pass && s->shard < first->shard)))
            first = s;
    }
    return first;
}

/* Checks one slot; the lock is held before and after. */
static void check_slot(struct ts_feed *f, struct ts_slot *s)
{
    struct ts_err err;
    int rc;
    s->state = TS_SLOT_CHECKING;
    pthread_mutex_unlock(&f->lock);
    rc = ts_feed_check(f, s->mode, s->shard, s->base, &err);
    pthread_mutex_lock(&f->lock);
    if (rc < 0)
        ts_feed_fail(f, rc, &err);
    if (rc == 0 && s->pass >= f->now)
        s->state = TS_SLOT_READY;
    else {
        ts_feed_drop(f, s);
        ts_reader_kick(f->reader);
    }
    pthread_cond_broadcast(&f->moved);
}

/* Checks one resident shard: 0 when there was none to check. */
static int check_resident(struct ts_feed *f)
{
    const uint32_t first = ts_feed_mode_of(f, f->now); /* wanted soonest */
    for (uint32_t k = 0; k < f->n_modes; k++) {
        const uint32_t mode = f->first_mode + (first - f->first_mode + k) % f->n_modes;
        struct ts_feed_mode *m = &f->mode[mode];
        while (m->settled < m->n_loaded) {
            const uint64_t shard = m->loaded[m->settled++];
            struct ts_err err;
            int rc;
            if ((atomic_load(&m->known[shard]) & (TS_SHARD_WHOLE | TS_SHARD_BUSY)) != 0)
                continue;
            atomic_fetch_or(&m->known[shard], TS_SHARD_BUSY);
            pthread_mutex_unlock(&f->lock);
            rc = ts_feed_check(f, mode, shard,
                               (char *)f->memory.resident + f->plan.place[mode][shard], &err);
            pthread_mutex_lock(&f->lock);
            if (rc < 0)
                ts_feed_fail(f, rc, &err);
            else
                ts_feed_whole(f, mode, shard);
            pthread_cond_broadcast(&f->moved);
            return 1;
        }
    }
    return 0;
}

static void *run(void *arg)
{
    struct ts_feed *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!f->stop && f->failed == 0) {
        struct ts_slot *s = next_slot(f);
        if (s != NULL)
            check_slot(f, s);
        else if (!check_resident(f))
            pthread_cond_wait(&f->moved, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

int ts_feed_check_start(struct ts_feed *f, struct ts_err *err)
{
    const uint32_t want = f->conf.checkers;
    if (want == 0)
        return 0;
    f->checker = calloc(want, sizeof *f->checker);
    if (f->checker == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", f->tensor->path);
    for (; f->n_checkers < want; f->n_checkers++)
        if (ts_reader_thread(&f->checker[f->n_checkers], run, f) != 0)
            break; /* fewer do too: ts_feed_next checks what they do not */
    return 0;
}

void ts_feed_check_stop(struct ts_feed *f)
{
    if (f->n_checkers > 0) {
        pthread_mutex_lock(&f->lock);
        f->stop = 1;
        pthread_cond_broadcast(&f->moved);
        pthread_mutex_unlock(&f->lock);
    }
    for (uint32_t i = 0; i < f->n_checkers; i++)
        pthread_join(f->checker[i], NULL);
    f->n_checkers = 0;
    free(f->checker);
    f->checker = NULL;
}
