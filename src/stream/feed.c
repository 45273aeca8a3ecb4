#include "stream/feed_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

void ts_feed_fail(struct ts_feed *f, int rc, const struct ts_err *err)
{
    if (f->failed == 0) {
        f->failed = rc;
        f->err = *err;
    }
    pthread_cond_broadcast(&f->moved);
}

static void set_ranges(struct ts_feed *f, uint32_t mode, const uint64_t *first)
{
    struct ts_feed_mode *m = &f->mode[mode];
    for (uint32_t c = 0; c <= f->n_consumers; c++) {
        m->first[c] = first != NULL ? first[c] : c == 0 ? 0 : m->n_shards;
        assert(m->first[c] <= m->n_shards && (c == 0 || m->first[c - 1] <= m->first[c]));
    }
    assert(m->first[0] == 0 && m->first[f->n_consumers] == m->n_shards);
}

static int make_modes(struct ts_feed *f, struct ts_err *err)
{
    for (uint32_t m = f->first_mode; m < f->first_mode + f->n_modes; m++) {
        struct ts_feed_mode *mode = &f->mode[m];
        mode->n_shards = f->tensor->mode[m].disk.n_shards;
        mode->known = calloc(mode->n_shards + 1, sizeof *mode->known);
        mode->loaded = calloc(mode->n_shards + 1, sizeof *mode->loaded);
        mode->keep = calloc(mode->n_shards + 1, 1);
        if (mode->known == NULL || mode->loaded == NULL || mode->keep == NULL)
            return ts_fail(err, TS_ENOMEM, "%s: out of memory", f->tensor->path);
        if (f->conf.deal.keep[m] != NULL)
            memcpy(mode->keep, f->conf.deal.keep[m], mode->n_shards);
        set_ranges(f, m, f->conf.deal.first[m]);
    }
    memset(f->conf.deal.keep, 0, sizeof f->conf.deal.keep); /* the caller's memory no longer */
    memset(f->conf.deal.first, 0, sizeof f->conf.deal.first);
    f->slot = calloc(f->plan.n_slots + 1, sizeof *f->slot);
    if (f->slot == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", f->tensor->path);
    for (uint32_t i = 0; i < f->plan.n_slots; i++)
        f->slot[i].base = (char *)f->memory.slots + i * f->plan.slot_bytes;
    return 0;
}

static int start_reader(struct ts_feed *f, struct ts_err *err)
{
    const char *path[TS_MAX_ORDER];
    const struct ts_reader_conf conf = {
        .n_files = f->n_modes,
        .path = path,
        .buffers = f->memory.slots,
        .buffer_bytes = f->plan.slot_bytes,
        .n_buffers = f->plan.n_slots,
        .avoid = f->conf.avoid,
        .next = ts_feed_read_next,
        .done = ts_feed_read_done,
        .ctx = f,
    };
    for (uint32_t m = 0; m < f->n_modes; m++)
        path[m] = f->tensor->mode[f->first_mode + m].shards_path;
    return ts_reader_new(&conf, &f->reader, err);
}

static int make(struct ts_feed *f, struct ts_err *err)
{
    const struct ts_feed_conf *c = &f->conf;
    struct ts_hostbuf_conf memory = { .pin = c->pin, .unpin = c->unpin, .pin_ctx = c->pin_ctx };
    int rc = ts_residency_plan(f->tensor, c->only_mode, c->deal.keep, c->host_bytes, &f->plan, err);
    if (rc < 0)
        return rc;
    memory.resident_bytes = f->plan.resident_bytes;
    memory.slot_bytes = f->plan.slot_bytes;
    memory.n_slots = f->plan.n_slots;
    rc = ts_hostbuf_new(&memory, &f->memory, err);
    if (rc == 0)
        rc = make_modes(f, err);
    if (rc < 0)
        return rc;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->moved, NULL);
    f->locks_up = 1;
    rc = start_reader(f, err);
    return rc == 0 ? ts_feed_check_start(f, err) : rc;
}

int ts_feed_new(const struct ts_feed_conf *conf, struct ts_feed **ret, struct ts_err *err)
{
    struct ts_feed *f = calloc(1, sizeof *f);
    int rc;
    if (f == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    f->conf = *conf;
    f->tensor = conf->tensor;
    f->n_consumers = conf->deal.n_consumers > 0 ? conf->deal.n_consumers : 1;
    assert(f->n_consumers <= TS_FEED_MAX_CONSUMERS);
    if (conf->only_mode >= (int)f->tensor->order)
        rc = ts_fail(err, TS_EARG, "%s: there is no mode %d, only %u", f->tensor->path,
                     conf->only_mode + 1, f->tensor->order);
    else {
        f->first_mode = conf->only_mode < 0 ? 0 : (uint32_t)conf->only_mode;
        f->n_modes = conf->only_mode < 0 ? f->tensor->order : 1;
        f->shift = f->n_modes - 1; /* pass 1 is over the first mode */
        f->ahead = 1;
        rc = make(f, err);
    }
    if (rc == 0)
        *ret = f;
    else
        ts_feed_free(f);
    return rc;
}

void ts_feed_free(struct ts_feed *f)
{
    if (f == NULL)
        return;
    assert(f->n_lent == 0);
    if (f->locks_up)
        ts_feed_check_stop(f);
    ts_reader_free(f->reader);
    ts_hostbuf_free(&f->memory);
    ts_residency_free(&f->plan);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        free(f->mode[m].known);
        free(f->mode[m].loaded);
        free(f->mode[m].keep);
    }
    free(f->slot);
    if (f->locks_up) {
        pthread_cond_destroy(&f->moved);
        pthread_mutex_destroy(&f->lock);
    }
    free(f);
}

/* Begins a pass over `mode`: the one that was read ahead for if that is it, else another. */
static void begin_pass(struct ts_feed *f, uint32_t mode)
{
    const int over = f->now == 0 || f->given == f->target;
    if (over && ts_feed_mode_of(f, f->now + 1) == mode)
        f->now++;
    else {
        f->now = f->ahead + 1; /* beyond all that was asked for */
        f->shift = (mode - f->first_mode + f->n_modes - (uint32_t)(f->now % f->n_modes)) % f->n_modes;
        f->ahead = f->now;
        f->ahead_shard = 0;
    }
    if (f->ahead < f->now) {
        f->ahead = f->now;
        f->ahead_shard = 0;
    }
    for (uint32_t i = 0; i < f->plan.n_slots; i++)
        if (f->slot[i].pass < f->now &&
            (f->slot[i].state == TS_SLOT_READ || f->slot[i].state == TS_SLOT_READY))
            ts_feed_drop(f, &f->slot[i]);
    f->open = 1;
    f->given = 0;
    f->target = f->mode[mode].n_shards - f->mode[mode].n_gone;
    f->next_loaded = 0;
    ts_reader_kick(f->reader);
}

/* A shard of the pass that can be lent at once: streamed ones first, because they hold slots up. */
struct pick {
    struct ts_slot *slot; /* NULL: resident */
    uint64_t shard;
    char *base;
    int check; /* it still has to be */
};

static int pick_slot(struct ts_feed *f, enum ts_slot_state state, struct pick *ret)
{
    for (uint32_t i = 0; i < f->plan.n_slots; i++) {
        struct ts_slot *s = &f->slot[i];
        if (s->pass != f->now || s->state != state)
            continue;
        ret->slot = s;
        ret->shard = s->shard;
        ret->base = s->base;
        ret->check = state == TS_SLOT_READ;
        s->state = TS_SLOT_LENT;
        return 1;
    }
    return 0;
}

static int pick_resident(struct ts_feed *f, uint32_t mode, struct pick *ret)
{
    struct ts_feed_mode *m = &f->mode[mode];
    uint64_t at = f->next_loaded, shard;
    while (at < m->n_loaded && (atomic_load(&m->known[m->loaded[at]]) & TS_SHARD_BUSY) != 0)
        at++;
    if (at == m->n_loaded)
        return 0;
    shard = m->loaded[at];
    m->loaded[at] = m->loaded[f->next_loaded];
    m->loaded[f->next_loaded++] = shard;
    ret->slot = NULL;
    ret->shard = shard;
    ret->base = (char *)f->memory.resident + f->plan.place[mode][shard];
    ret->check = (atomic_load(&m->known[shard]) & TS_SHARD_WHOLE) == 0;
    if (ret->check)
        atomic_fetch_or(&m->known[shard], TS_SHARD_BUSY);
    return 1;
}

static int pick_one(struct ts_feed *f, uint32_t mode, struct pick *ret)
{
    return pick_slot(f, TS_SLOT_READY, ret) || pick_slot(f, TS_SLOT_READ, ret) ||
           pick_resident(f, mode, ret);
}

/* Waits for a shard of the pass: 1, 0 at its end, or a failure. The caller holds the lock. */
static int take(struct ts_feed *f, uint32_t mode, struct pick *ret, struct ts_err *err)
{
    if (f->failed == 0 && (!f->open || ts_feed_mode_of(f, f->now) != mode))
        begin_pass(f, mode);
    while (f->failed == 0) {
        uint64_t start;
        if (f->conf.stop != NULL && *f->conf.stop != 0)
            return ts_fail(err, TS_ESTOP, "stopped");
        if (f->given == f->target)
            return 0;
        if (pick_one(f, mode, ret)) {
            f->given++;
            f->n_lent++;
            return 1;
        }
        start = ts_clock_ns();
        pthread_cond_wait(&f->moved, &f->lock);
        f->wait_ns += ts_clock_ns() - start;
    }
    if (err != NULL)
        *err = f->err;
    return f->failed;
}

static void fill_view(const struct ts_feed *f, uint32_t mode, const struct pick *p,
                      struct ts_shard_view *ret)
{
    ret->mode = mode;
    ret->shard = p->shard;
    ret->first_partition = f->plan.first_partition[mode][p->shard];
    ret->entry = &f->tensor->mode[mode].shard[p->shard];
    ret->raw = p->base;
    ret->lease = p->slot;
}

int ts_feed_next(struct ts_feed *f, uint32_t mode, uint32_t consumer, struct ts_shard_view *ret,
                 struct ts_err *err)
{
    struct ts_err found;
    struct pick p = { 0 };
    int rc;
    assert(mode >= f->first_mode && mode < f->first_mode + f->n_modes);
    assert(consumer < f->n_consumers);
    pthread_mutex_lock(&f->lock);
    rc = take(f, mode, &p, err);
    pthread_mutex_unlock(&f->lock);
    if (rc <= 0)
        return rc;
    fill_view(f, mode, &p, ret);
    rc = p.check ? ts_feed_check(f, mode, p.shard, p.base, &found) : 0;
    if (rc == 0 && ((p.check && p.slot == NULL) || f->mode[mode].keep[p.shard] != 0)) {
        pthread_mutex_lock(&f->lock);
        if (p.slot == NULL)
            ts_feed_whole(f, mode, p.shard);
        else {
            atomic_fetch_or(&f->mode[mode].known[p.shard], TS_SHARD_GONE);
            f->mode[mode].n_gone++;
        }
        pthread_mutex_unlock(&f->lock);
    }
    if (rc == 0)
        return 1;
    pthread_mutex_lock(&f->lock);
    ts_feed_fail(f, rc, &found);
    pthread_mutex_unlock(&f->lock);
    ts_feed_done(f, ret);
    if (err != NULL)
        *err = found;
    return rc;
}

void ts_feed_done(struct ts_feed *f, const struct ts_shard_view *view)
{
    struct ts_slot *slot = view->lease;
    pthread_mutex_lock(&f->lock);
    assert(f->n_lent > 0);
    f->n_lent--;
    if (slot != NULL)
        slot->state = TS_SLOT_FREE;
    pthread_mutex_unlock(&f->lock);
    if (slot != NULL)
        ts_reader_kick(f->reader);
    if (f->conf.done != NULL)
        f->conf.done(f->conf.done_ctx, view->entry->nnz);
}

void ts_feed_rewind(struct ts_feed *f)
{
    pthread_mutex_lock(&f->lock);
    f->open = 0;
    pthread_mutex_unlock(&f->lock);
}

void ts_feed_deal(struct ts_feed *f, uint32_t mode, const uint64_t *first)
{
    pthread_mutex_lock(&f->lock);
    set_ranges(f, mode, first);
    pthread_mutex_unlock(&f->lock);
}

void ts_feed_fail_with(struct ts_feed *f, int rc, const struct ts_err *err)
{
    assert(rc < 0);
    pthread_mutex_lock(&f->lock);
    ts_feed_fail(f, rc, err);
    pthread_mutex_unlock(&f->lock);
}

void ts_feed_stats(struct ts_feed *f, struct ts_feed_stats *ret)
{
    struct ts_reader_facts facts;
    ts_reader_facts(f->reader, &facts);
    pthread_mutex_lock(&f->lock);
    memset(ret, 0, sizeof *ret);
    ret->bytes_read = f->bytes_read;
    ret->wait_ns = f->wait_ns;
    f->bytes_read = f->wait_ns = 0;
    ret->resident_bytes = f->plan.resident_bytes;
    ret->slot_bytes = f->plan.slot_bytes;
    ret->n_slots = f->plan.n_slots;
    pthread_mutex_unlock(&f->lock);
    ret->direct = facts.direct;
    ret->uring = facts.uring;
    ret->registered = facts.registered;
    ret->fallback = facts.fallback;
}
