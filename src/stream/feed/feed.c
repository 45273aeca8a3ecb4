/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and frees a feed: budget, memory, reader, checkers and queues. */
#include "base/setting.h"
#include "format/part.h"
#include "stream/feed/slabs.h"
#include "stream/feed/feed_state.h"
#include "stream/feed/waits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* bytes that one call page-locks by default, which takes some 35 ms */
#define PIN_BYTES (UINT64_C(1) << 30)

void ts_feed_fail(struct ts_feed *f, int rc, const struct ts_err *err)
{
    if (f->failed == 0) {
        f->failed = rc;
        f->err = *err;
    }
    for (uint32_t c = 0; c < f->n_consumers; c++)
        pthread_cond_broadcast(&f->consumer[c].ready);
    pthread_cond_broadcast(&f->work);
}

static void set_ranges(struct ts_feed *f, uint32_t mode, const uint64_t *first)
{
    struct ts_feed_mode *m = &f->mode[mode];
    for (uint32_t c = 0; c <= f->n_consumers; c++) {
        m->first[c] = first != NULL ? first[c] : c == 0 ? 0 : m->n_shards;
        assert(m->first[c] <= m->n_shards && (c == 0 || m->first[c - 1] <= m->first[c]));
    }
    assert(m->first[0] == 0 && m->first[f->n_consumers] == m->n_shards);
    for (uint32_t c = 0; c < f->n_consumers; c++)
        for (uint64_t i = m->first[c]; i < m->first[c + 1]; i++)
            m->item[i].owner = (unsigned char)c;
}

static int make_mode(struct ts_feed *f, uint32_t mode, struct ts_err *err)
{
    struct ts_feed_mode *m = &f->mode[mode];
    const unsigned char *keep = f->conf.deal.keep[mode];
    m->n_shards = f->tensor->mode[mode].disk.n_shards;
    m->known = calloc(m->n_shards + 1, sizeof *m->known);
    m->item = calloc(m->n_shards + 1, sizeof *m->item);
    if (m->known == NULL || m->item == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", f->tensor->path);
    f->n_unread += m->n_shards;
    for (uint64_t i = 0; keep != NULL && i < m->n_shards; i++) {
        m->item[i].keep = keep[i] == TS_DEAL_KEEP;
        if (keep[i] != TS_DEAL_LEAVE)
            continue;
        atomic_store(&m->known[i], TS_SHARD_LOADING | TS_SHARD_GONE);
        m->n_gone++;
        f->n_unread--;
    }
    for (uint32_t c = 0; c < f->n_consumers; c++)
        for (int k = 0; k < TS_N_KINDS; k++)
            m->queue[c][k].head = TS_FEED_NONE;
    set_ranges(f, mode, f->conf.deal.first[mode]);
    return 0;
}

static int make_slots(struct ts_feed *f, struct ts_err *err)
{
    f->slot = calloc(f->plan.n_slots + 1, sizeof *f->slot);
    if (f->slot == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", f->tensor->path);
    for (uint32_t i = f->plan.n_slots; i-- > 0;) {
        f->slot[i].base = (char *)f->memory.slots + i * f->plan.slot_bytes;
        ts_feed_free_slot(f, &f->slot[i]);
    }
    return 0;
}

static void make_locks(struct ts_feed *f)
{
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    for (uint32_t c = 0; c < f->n_consumers; c++)
        ts_wait_init(&f->consumer[c].ready);
    f->locks_up = 1;
}

static int start_reader(struct ts_feed *f, struct ts_err *err)
{
    const char *path[TS_MAX_ORDER];
    int fd[TS_MAX_ORDER], rc = 0;
    uint32_t n = 0;
    const struct ts_reader_conf conf = {
        .n_files = f->n_modes,
        .path = path,
        .fd = fd,
        .buffers = f->memory.slots,
        .buffer_bytes = f->plan.slot_bytes,
        .n_buffers = f->plan.n_slots,
        .avoid = f->conf.avoid,
        .next = ts_feed_read_next,
        .done = ts_feed_read_done,
        .ctx = f,
    };
    for (; n < f->n_modes && rc == 0; n++) {
        path[n] = f->tensor->mode[f->first_mode + n].shards_path;
        fd[n] = ts_tensor_shards_open(f->tensor, f->first_mode + n, 0, err);
        rc = fd[n] < 0 ? fd[n] : 0;
    }
    if (rc == 0)
        rc = ts_reader_new(&conf, &f->reader, err);
    while (n-- > 0)
        if (fd[n] >= 0)
            close(fd[n]);
    return rc;
}

static int make(struct ts_feed *f, struct ts_err *err)
{
    const struct ts_feed_conf *c = &f->conf;
    struct ts_hostbuf_conf memory = {
        .pin = c->pin, .unpin = c->unpin, .pin_ctx = c->pin_ctx, .stop = c->stop
    };
    int rc = ts_residency_plan(f->tensor, c->only_mode, c->deal.keep, f->n_consumers, c->most_slots,
                               c->host_bytes, &f->plan, err);
    if (rc == 0 && c->pin != NULL)
        rc =
            ts_residency_cut(f->tensor, c->pin_bytes > 0 ? c->pin_bytes : PIN_BYTES, &f->plan, err);
    if (rc < 0)
        return rc;
    memory.resident_bytes = f->plan.resident_bytes;
    memory.slot_bytes = f->plan.slot_bytes;
    memory.n_slots = f->plan.n_slots;
    memory.cut = f->plan.cut;
    memory.n_cuts = f->plan.n_cuts;
    memory.spread = c->pin == NULL || f->n_consumers > 1;
    rc = ts_hostbuf_new(&memory, &f->memory, err);
    for (uint32_t m = 0; m < f->n_modes && rc == 0; m++)
        rc = make_mode(f, f->first_mode + m, err);
    if (rc == 0)
        rc = make_slots(f, err);
    if (rc < 0)
        return rc;
    /* clears pointers to the caller's arrays, which were copied */
    memset(f->conf.deal.keep, 0, sizeof f->conf.deal.keep);
    memset(f->conf.deal.first, 0, sizeof f->conf.deal.first);
    make_locks(f);
    for (uint32_t i = 0; i < f->n_consumers; i++)
        ts_trace_lane(c->trace, TS_TRACE_GPU(i) + TS_TRACE_WAIT, "wait");
    ts_feed_read_from(f, 1);
    rc = start_reader(f, err);
    return rc == 0 ? ts_feed_check_start(f, err) : rc;
}

/* Checks that this part of the tensor (format/part.h) has all shards that the feed serves. */
static int check_part(const struct ts_feed_conf *conf, struct ts_err *err)
{
    const struct ts_tensor *t = conf->tensor;
    int rc = 0;
    for (uint32_t m = 0; m < t->order && t->part.n > 0; m++)
        for (uint64_t i = 0; i < t->mode[m].disk.n_shards && rc == 0; i++)
            if ((conf->only_mode < 0 || m == (uint32_t)conf->only_mode) &&
                (conf->deal.keep[m] == NULL || conf->deal.keep[m][i] != TS_DEAL_LEAVE))
                rc = ts_part_check(t, m, i, err);
    return rc;
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
    if (f->tensor->dense != NULL)
        rc = ts_slabs_new(&(struct ts_slabs_conf){ .tensor = f->tensor,
                                                   .host_bytes = conf->host_bytes,
                                                   .avoid = conf->avoid,
                                                   .stop = conf->stop,
                                                   .hold = conf->pin != NULL ? TS_SLABS_HOLD : 1,
                                                   .keep = conf->deal.slab,
                                                   .pin = conf->pin,
                                                   .unpin = conf->unpin,
                                                   .pin_ctx = conf->pin_ctx },
                          &f->slabs, err);
    else if (conf->only_mode >= (int)f->tensor->order)
        rc = ts_fail(err, TS_EARG, "%s: there is no " TS_NTH_MODE ", only %u", f->tensor->path,
                     (unsigned)conf->only_mode + 1, f->tensor->order);
    else if ((rc = check_part(conf, err)) == 0) {
        f->first_mode = conf->only_mode < 0 ? 0 : (uint32_t)conf->only_mode;
        f->n_modes = conf->only_mode < 0 ? f->tensor->order : 1;
        ts_feed_take_turns(f, 0);
        f->shift = f->n_turns - 1; /* so that pass 1 is over the first mode */
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
    ts_slabs_free(f->slabs);
    if (f->locks_up)
        ts_feed_check_stop(f);
    ts_reader_free(f->reader);
    ts_hostbuf_free(&f->memory);
    ts_residency_free(&f->plan);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        free(f->mode[m].known);
        free(f->mode[m].item);
    }
    free(f->slot);
    if (f->locks_up) {
        for (uint32_t c = 0; c < f->n_consumers; c++)
            pthread_cond_destroy(&f->consumer[c].ready);
        pthread_cond_destroy(&f->work);
        pthread_mutex_destroy(&f->lock);
    }
    free(f);
}

void ts_feed_take_turns(struct ts_feed *f, uint32_t skip)
{
    f->n_turns = 0;
    for (uint32_t m = f->first_mode; m < f->first_mode + f->n_modes; m++)
        if ((skip >> m & 1) == 0)
            f->turn[f->n_turns++] = m;
    assert(f->n_turns > 0);
}

void ts_feed_skip(struct ts_feed *f, uint32_t modes)
{
    uint32_t skipped = 0;
    if (f->slabs != NULL)
        return;
    pthread_mutex_lock(&f->lock);
    assert(!f->open || f->left == 0);
    for (uint32_t m = f->first_mode, k = 0; m < f->first_mode + f->n_modes; m++) {
        const int taken = k < f->n_turns && f->turn[k] == m;
        skipped |= (uint32_t)!taken << m;
        k += (uint32_t)taken;
    }
    /* drops shards that were read ahead, because they may be of modes that are now left out */
    if (skipped != modes) {
        const uint64_t none = f->ahead + 1;
        f->open = 0;
        f->left = 0;
        ts_feed_take_turns(f, modes);
        f->shift = (f->n_turns - (uint32_t)((none + 1) % f->n_turns)) % f->n_turns;
        ts_feed_begin_number(f, none);
        ts_feed_read_from(f, none + 1);
    }
    pthread_mutex_unlock(&f->lock);
}

void ts_feed_rewind(struct ts_feed *f)
{
    if (f->slabs != NULL) {
        ts_slabs_rewind(f->slabs);
        return;
    }
    pthread_mutex_lock(&f->lock);
    f->open = 0;
    pthread_mutex_unlock(&f->lock);
}

void ts_feed_deal(struct ts_feed *f, uint32_t mode, const uint64_t *first)
{
    struct ts_feed_mode *m = &f->mode[mode];
    struct ts_feed_queue raw[TS_FEED_MAX_CONSUMERS];
    if (f->slabs != NULL)
        return;
    assert(mode >= f->first_mode && mode < f->first_mode + f->n_modes);
    pthread_mutex_lock(&f->lock);
    assert(!f->open || f->left == 0 || ts_feed_mode_of(f, f->now) != mode);
    set_ranges(f, mode, first);
    /* only the queues of unchecked resident shards outlast a pass: moves these shards to the queues
     * of the consumers of their new ranges */
    for (uint32_t c = 0; c < f->n_consumers; c++) {
        raw[c] = m->queue[c][TS_RAW_STAY];
        m->queue[c][TS_RAW_STAY].head = TS_FEED_NONE;
    }
    for (uint32_t c = 0; c < f->n_consumers; c++)
        for (uint64_t i; (i = ts_feed_pop(m, &raw[c])) != TS_FEED_NONE;)
            ts_feed_push(m, &m->queue[m->item[i].owner][TS_RAW_STAY], i);
    if (ts_feed_mode_of(f, f->ahead) == mode)
        ts_feed_read_again(f);
    pthread_mutex_unlock(&f->lock);
}

void ts_feed_fail_with(struct ts_feed *f, int rc, const struct ts_err *err)
{
    assert(rc < 0);
    if (f->slabs != NULL)
        return;
    pthread_mutex_lock(&f->lock);
    ts_feed_fail(f, rc, err);
    pthread_mutex_unlock(&f->lock);
}

void ts_feed_stats(struct ts_feed *f, struct ts_feed_stats *ret)
{
    struct ts_reader_facts facts;
    if (f->slabs != NULL) {
        ts_slabs_stats(f->slabs, ret);
        return;
    }
    ts_reader_facts(f->reader, &facts);
    pthread_mutex_lock(&f->lock);
    *ret = (struct ts_feed_stats){ .bytes_read = f->bytes_read,
                                   .wait_ns = f->wait_ns,
                                   .resident_bytes = f->plan.resident_bytes,
                                   .slot_bytes = f->plan.slot_bytes,
                                   .n_slots = f->plan.n_slots,
                                   .direct = facts.direct,
                                   .uring = facts.uring,
                                   .registered = facts.registered,
                                   .fallback = facts.fallback };
    f->bytes_read = f->wait_ns = 0;
    pthread_mutex_unlock(&f->lock);
}
