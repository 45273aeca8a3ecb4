/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the slabs of a dense tensor: some stay in memory, the others are read into slots (buffers
 * of one slab) in every pass.
 *
 * Slabs of successive passes are numbered in one sequence: slab k of pass p has the number p *
 * n_slabs + k. `want` is the number of the next slab to be lent, `ahead` that of the next slab to
 * be read. */
#include "stream/feed/slabs.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/setting.h"
#include "base/stop.h"
#include "format/arrays/array_index.h"
#include "stream/feed/feed_state.h"
#include "stream/feed/hostbuf.h"
#include "stream/feed/reader.h"
#include "stream/feed/waits.h"

#define MOST_SLOTS 8u
#define PIN_BYTES  (UINT64_C(1) << 30)

enum slot_state { FREE, READING, READY };

struct slot {
    enum slot_state state;
    uint64_t number; /* number of the slab in the slot, in the sequence of all passes */
    int stale;       /* 1: the slab in the slot will not be lent again, so the slot can be reused */
    char *base;
};

enum { UNREAD, ASKED, HERE, CHECKED };

struct ts_slabs {
    struct ts_slabs_conf conf;
    const struct ts_dense *dense;
    struct ts_slabs_plan plan;
    struct ts_hostbuf memory;
    uint64_t *place;      /* offset of each slab that stays in `memory`, or NOWHERE */
    unsigned char *known; /* for each slab that stays: UNREAD, ASKED, HERE or CHECKED */
    struct slot slot[MOST_SLOTS];
    struct ts_reader *reader;

    pthread_mutex_t lock;
    pthread_cond_t arrived;
    uint64_t want, ahead;
    /* slots of the slabs lent last; NULL: that slab stays in memory, without a slot */
    struct slot *lent[TS_SLABS_HOLD];
    uint32_t n_lent;
    unsigned char *keep; /* for each slab, not 0 if a device keeps it; NULL: devices keep none */
    int left;            /* 1: slabs that a device keeps are not lent any more */
    int begun;           /* 1: a slab of the current pass was lent */
    uint64_t n_unread;   /* slabs that stay for which the reader has no job yet */
    int failed;
    struct ts_err err;
    uint64_t bytes_read, wait_ns;
};

#define NOWHERE UINT64_MAX

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
}

/* Returns the offset in the file of the first page of a slab; file_bytes returns the bytes of its
 * pages. */
static uint64_t file_at(const struct ts_dense *d, uint64_t k)
{
    return (d->array.offset + ts_dense_slab_at(d, k)) / TS_PAGE * TS_PAGE;
}

static uint64_t file_bytes(const struct ts_dense *d, uint64_t k)
{
    const uint64_t end = d->array.offset + ts_dense_slab_at(d, k) + ts_dense_slab_bytes(d, k);
    return round_up(end) - file_at(d, k);
}

/* Whether the k-th of the n slabs that no device keeps stays in host memory. p->n_stay of them do,
 * evenly spread over the array. */
static int stays(const struct ts_slabs_plan *p, uint64_t n, uint64_t k)
{
    return (__uint128_t)(k + 1) * p->n_stay / n > (__uint128_t)k * p->n_stay / n;
}

static int is_kept(const unsigned char *keep, uint64_t k)
{
    return keep != NULL && keep[k] != 0;
}

static uint64_t count_rest(const struct ts_dense *d, const unsigned char *keep)
{
    uint64_t n = 0;
    for (uint64_t k = 0; k < d->n_slabs; k++)
        n += !is_kept(keep, k);
    return n;
}

int ts_slabs_plan(const struct ts_slabs_conf *conf, struct ts_slabs_plan *ret, struct ts_err *err)
{
    const struct ts_dense *d = conf->tensor->dense;
    const uint64_t slot = round_up(ts_dense_most_bytes(d)) + TS_PAGE, host_bytes = conf->host_bytes;
    const uint64_t rest = count_rest(d, conf->keep);
    const uint32_t least = 1 + (conf->hold > 0 ? conf->hold : 1);
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    uint64_t all = 0;
    struct ts_slabs_plan p = { .slot_bytes = slot };
    if (d->array.memory != NULL) {
        *ret = (struct ts_slabs_plan){ .n_stay = d->n_slabs };
        return 0;
    }
    for (uint64_t k = 0; k < d->n_slabs; k++)
        all += file_bytes(d, k);
    if (rest == d->n_slabs && ts_bigmem_cost(all) <= host_bytes) {
        *ret = (struct ts_slabs_plan){ .resident_bytes = all, .n_stay = d->n_slabs };
        return 0;
    }
    p.n_slots = d->n_slabs < MOST_SLOTS ? (uint32_t)d->n_slabs : MOST_SLOTS;
    while (p.n_slots > least && ts_bigmem_cost(p.n_slots * slot) > host_bytes / 2)
        p.n_slots--;
    if (p.n_slots < least)
        p.n_slots = least;
    if (ts_bigmem_cost(p.n_slots * slot) > host_bytes)
        return ts_fail(err, TS_ELIMIT,
                       "%s: " TS_SET_HOST_MEMORY
                       ": %s are left for slabs of the tensor, and %u of them take %s",
                       conf->tensor->path, ts_num_bytes(a, host_bytes), least,
                       ts_num_bytes(b, ts_bigmem_cost(p.n_slots * slot)));
    p.n_stay = (host_bytes - ts_bigmem_cost(p.n_slots * slot)) / slot;
    p.n_stay = p.n_stay >= d->n_slabs ? d->n_slabs - 1 : p.n_stay;
    p.n_stay = p.n_stay < rest ? p.n_stay : rest;
    for (; p.n_stay > 0 &&
           ts_bigmem_cost(p.n_stay * slot) + ts_bigmem_cost(p.n_slots * slot) > host_bytes;)
        p.n_stay--;
    p.resident_bytes = p.n_stay * slot;
    *ret = p;
    return 0;
}

/* ---- functions that the reader calls ---- */

static int is_lent(const struct ts_slabs *b, const struct slot *s)
{
    for (uint32_t i = 0; i < b->n_lent; i++)
        if (b->lent[i] == s)
            return 1;
    return 0;
}

/* Whether a slab is not lent any more because a device keeps it. */
static int is_left(const struct ts_slabs *b, uint64_t k)
{
    return b->left && is_kept(b->keep, k);
}

static struct slot *free_slot(struct ts_slabs *b)
{
    for (uint32_t i = 0; i < b->plan.n_slots; i++) {
        struct slot *s = &b->slot[i];
        if (s->state == READY && !is_lent(b, s) &&
            (s->number < b->want || s->stale || is_left(b, s->number % b->dense->n_slabs)))
            s->state = FREE; /* the slab in this slot will not be lent */
        if (s->state == FREE)
            return s;
    }
    return NULL;
}

/* Gives the next job to the reader, which reads at most one pass ahead of the next slab to be lent
 * (`want`). Returns 1, or 0 if there is none now. */
static int read_next(void *ctx, struct ts_read_job *ret)
{
    struct ts_slabs *b = ctx;
    const struct ts_dense *d = b->dense;
    int rc = 0;
    pthread_mutex_lock(&b->lock);
    b->ahead = b->ahead < b->want ? b->want : b->ahead;
    while (b->failed == 0 && b->ahead < b->want + d->n_slabs &&
           (b->n_unread > 0 || b->plan.n_slots > 0)) {
        const uint64_t k = b->ahead % d->n_slabs;
        struct slot *s = NULL;
        uint64_t file_end;
        if (is_left(b, k) || (b->place[k] != NOWHERE && b->known[k] != UNREAD)) {
            b->ahead++;
            continue;
        }
        if (b->place[k] == NOWHERE && (s = free_slot(b)) == NULL)
            break;
        if (s != NULL) {
            s->state = READING;
            s->number = b->ahead;
            s->stale = 0;
        } else {
            b->known[k] = ASKED;
            b->n_unread--;
        }
        b->ahead++;
        file_end = d->array.offset + d->cells * d->cell_bytes;
        *ret = (struct ts_read_job){ .offset = file_at(d, k),
                                     .bytes = file_bytes(d, k),
                                     .addr = s != NULL ? s->base
                                                       : (char *)b->memory.resident + b->place[k],
                                     .tag = s != NULL ? (uint64_t)(s - b->slot) : MOST_SLOTS + k };
        ret->spare = ret->offset + ret->bytes > file_end ? ret->offset + ret->bytes - file_end : 0;
        rc = 1;
        break;
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

static void read_done(void *ctx, const struct ts_read_job *job, int rc, const struct ts_err *err)
{
    struct ts_slabs *b = ctx;
    pthread_mutex_lock(&b->lock);
    if (rc < 0 && b->failed == 0) {
        b->failed = rc;
        b->err = *err;
    }
    b->bytes_read += rc == 0 ? job->bytes - job->spare : 0;
    if (job->tag >= MOST_SLOTS)
        b->known[job->tag - MOST_SLOTS] = rc == 0 ? HERE : ASKED;
    else
        b->slot[job->tag].state = rc == 0 ? READY : FREE;
    pthread_cond_broadcast(&b->arrived);
    pthread_mutex_unlock(&b->lock);
}

/* ---- functions for the thread that slabs are lent to ---- */

/* Allocates the memory for slabs. It is page-locked in pieces of whole slabs, because locking all
 * at once would take long. */
static int make_memory(struct ts_slabs *b, struct ts_err *err)
{
    const struct ts_slabs_conf *c = &b->conf;
    struct ts_hostbuf_conf conf = { .name = "slabs of the tensor",
                                    .resident_bytes = b->plan.resident_bytes,
                                    .slot_bytes = b->plan.slot_bytes,
                                    .n_slots = b->plan.n_slots,
                                    .pin = c->pin,
                                    .unpin = c->unpin,
                                    .pin_ctx = c->pin_ctx,
                                    .stop = c->stop };
    uint64_t *cut = malloc((conf.resident_bytes / PIN_BYTES + 2) * sizeof *cut), first = 0, end;
    int rc;
    if (cut == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", b->dense->array.file);
    conf.cut = cut;
    for (uint64_t k = 0; k < b->dense->n_slabs; k++) {
        if (b->place[k] == NOWHERE)
            continue;
        end = b->place[k] + file_bytes(b->dense, k);
        if (end - first >= PIN_BYTES)
            first = cut[conf.n_cuts++] = end;
    }
    if (first < conf.resident_bytes)
        cut[conf.n_cuts++] = conf.resident_bytes;
    rc = ts_hostbuf_new(&conf, &b->memory, err);
    free(cut);
    return rc;
}

static int make(struct ts_slabs *b, struct ts_err *err)
{
    const struct ts_dense *d = b->dense;
    const char *path = d->array.file;
    struct ts_reader_conf conf = { .n_files = 1,
                                   .path = &path,
                                   .fd = &d->fd,
                                   .buffer_bytes = b->plan.slot_bytes,
                                   .n_buffers = b->plan.n_slots,
                                   .avoid = b->conf.avoid,
                                   .next = read_next,
                                   .done = read_done,
                                   .ctx = b };
    const uint64_t rest = count_rest(d, b->conf.keep);
    uint64_t at = 0, n = 0;
    int rc = 0;
    if (b->conf.keep != NULL && (b->keep = malloc(d->n_slabs)) == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    if (b->keep != NULL)
        memcpy(b->keep, b->conf.keep, d->n_slabs);
    if (d->array.memory != NULL)
        return 0;
    b->place = malloc(d->n_slabs * sizeof *b->place);
    b->known = calloc(d->n_slabs, 1);
    if (b->place == NULL || b->known == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    for (uint64_t k = 0; k < d->n_slabs; k++) {
        b->place[k] = NOWHERE;
        if (is_kept(b->keep, k) || !stays(&b->plan, rest, n++))
            continue;
        b->place[k] = at;
        at += file_bytes(d, k);
        b->n_unread++;
    }
    rc = make_memory(b, err);
    for (uint32_t i = 0; i < b->plan.n_slots && rc == 0; i++)
        b->slot[i].base = (char *)b->memory.slots + i * b->plan.slot_bytes;
    conf.buffers = b->memory.slots;
    return rc == 0 ? ts_reader_new(&conf, &b->reader, err) : rc;
}

int ts_slabs_new(const struct ts_slabs_conf *conf, struct ts_slabs **ret, struct ts_err *err)
{
    struct ts_slabs *b = calloc(1, sizeof *b);
    int rc;
    if (b == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    b->conf = *conf;
    b->dense = conf->tensor->dense;
    pthread_mutex_init(&b->lock, NULL);
    ts_wait_init(&b->arrived);
    b->conf.hold = conf->hold > 0 ? conf->hold : 1;
    assert(b->conf.hold <= TS_SLABS_HOLD);
    rc = ts_slabs_plan(&b->conf, &b->plan, err);
    if (rc == 0)
        rc = make(b, err);
    if (rc == 0)
        *ret = b;
    else
        ts_slabs_free(b);
    return rc;
}

void ts_slabs_free(struct ts_slabs *b)
{
    if (b == NULL)
        return;
    ts_reader_free(b->reader);
    ts_hostbuf_free(&b->memory);
    pthread_cond_destroy(&b->arrived);
    pthread_mutex_destroy(&b->lock);
    free(b->keep);
    free(b->place);
    free(b->known);
    free(b);
}

/* Frees the slots of all lent slabs except the last `hold`. The caller then wakes the reader, which
 * may be waiting for a free slot. */
static void give_back(struct ts_slabs *b, uint32_t hold)
{
    while (b->n_lent > hold) {
        if (b->lent[0] != NULL)
            b->lent[0]->state = FREE;
        memmove(b->lent, b->lent + 1, --b->n_lent * sizeof *b->lent);
    }
}

static void lend(struct ts_slabs *b, struct slot *s)
{
    b->lent[b->n_lent++] = s;
}

/* Returns the address of slab k, or NULL if it was not read yet. */
static const char *find(struct ts_slabs *b, uint64_t k)
{
    if (b->place[k] != NOWHERE && b->known[k] >= HERE) {
        lend(b, NULL);
        return (char *)b->memory.resident + b->place[k];
    }
    for (uint32_t i = 0; i < b->plan.n_slots && b->place[k] == NOWHERE; i++)
        if (b->slot[i].state == READY && !b->slot[i].stale && b->slot[i].number == b->want) {
            lend(b, &b->slot[i]);
            return b->slot[i].base;
        }
    return NULL;
}

/* Checks the bytes of a slab against the index of the array, if one exists: once for slabs that
 * stay, after each read for the others. */
static int check(struct ts_slabs *b, uint64_t k, const char *cells, struct ts_err *err)
{
    const int in_place = b->place[k] != NOWHERE;
    struct ts_err why;
    int known, rc;
    if (b->dense->sum == NULL || b->dense->summing)
        return 0;
    pthread_mutex_lock(&b->lock);
    known = in_place && b->known[k] == CHECKED;
    pthread_mutex_unlock(&b->lock);
    if (known)
        return 0;
    rc = ts_array_index_check(b->dense, k, cells, &why);
    pthread_mutex_lock(&b->lock);
    if (rc < 0 && b->failed == 0) {
        b->failed = rc;
        b->err = why;
    }
    if (rc == 0 && in_place)
        b->known[k] = CHECKED;
    pthread_mutex_unlock(&b->lock);
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

/* Waits for slab k, the one with number `want`, checks it, and sets *ret to its cells. */
static int fetch(struct ts_slabs *b, uint64_t k, const char **ret, struct ts_err *err)
{
    const struct ts_dense *d = b->dense;
    const uint64_t start = ts_clock_ns();
    const char *base = NULL;
    int rc = 0, kick;
    pthread_mutex_lock(&b->lock);
    give_back(b, b->conf.hold - 1);
    kick = b->plan.n_slots > 0 || b->n_unread > 0;
    pthread_mutex_unlock(&b->lock);
    if (kick)
        ts_reader_kick(b->reader);
    pthread_mutex_lock(&b->lock);
    while (rc == 0 && b->failed == 0 && (base = find(b, k)) == NULL) {
        ts_wait_some(&b->arrived, &b->lock);
        rc = ts_stop_check(b->conf.stop, err);
    }
    if (b->failed != 0) {
        rc = b->failed;
        if (err != NULL)
            *err = b->err;
    }
    b->want += rc == 0;
    b->wait_ns += ts_clock_ns() - start;
    pthread_mutex_unlock(&b->lock);
    if (rc < 0)
        return rc;
    base += d->array.offset + ts_dense_slab_at(d, k) - file_at(d, k);
    rc = check(b, k, base, err);
    *ret = base;
    return rc;
}

/* Skips slab `want`, which a device keeps, and returns the number of the next slab. */
static uint64_t pass_by(struct ts_slabs *b)
{
    uint64_t k;
    pthread_mutex_lock(&b->lock);
    k = ++b->want % b->dense->n_slabs;
    pthread_mutex_unlock(&b->lock);
    return k;
}

/* Makes the first slab the next one. The last `hold` lent slabs are not given back. */
static void start_again(struct ts_slabs *b, uint32_t hold)
{
    const uint64_t n = b->dense->n_slabs;
    int kick;
    pthread_mutex_lock(&b->lock);
    give_back(b, hold);
    b->want = (b->want + n - 1) / n * n;
    b->begun = 0;
    kick = b->reader != NULL && (b->plan.n_slots > 0 || b->n_unread > 0);
    pthread_mutex_unlock(&b->lock);
    if (kick)
        ts_reader_kick(b->reader);
}

int ts_slabs_next(struct ts_slabs *b, struct ts_slab_view *ret, struct ts_err *err)
{
    const struct ts_dense *d = b->dense;
    uint64_t k = b->want % d->n_slabs;
    const char *cells = NULL;
    int rc;
    while (is_left(b, k) && !(b->begun && k == 0)) {
        k = pass_by(b);
        b->begun = 1;
    }
    if (b->begun && k == 0) { /* devices may still read the last slabs, so these stay lent */
        start_again(b, b->conf.hold - 1);
        return 0;
    }
    rc = ts_stop_check(b->conf.stop, err);
    if (rc < 0)
        return rc;
    if (d->array.memory != NULL) {
        cells = (const char *)d->array.memory + ts_dense_slab_at(d, k);
        b->want++;
    } else {
        rc = fetch(b, k, &cells, err);
        if (rc < 0)
            return rc;
    }
    b->begun = 1;
    ret->number = k;
    ts_dense_slab(d, k, &ret->part);
    ret->cells = cells;
    return 1;
}

void ts_slabs_rewind(struct ts_slabs *b)
{
    start_again(b, 0);
}

/* Makes the reader read again from the next slab on, including slabs that it has skipped, since
 * slots may be full of later slabs. */
void ts_slabs_leave(struct ts_slabs *b, int left)
{
    pthread_mutex_lock(&b->lock);
    if (b->left && !left) {
        b->ahead = b->want;
        for (uint32_t i = 0; i < b->plan.n_slots; i++)
            b->slot[i].stale = b->slot[i].state != FREE;
    }
    b->left = left;
    pthread_mutex_unlock(&b->lock);
}

void ts_slabs_stats(struct ts_slabs *b, struct ts_feed_stats *ret)
{
    struct ts_reader_facts facts = { 0 };
    if (b->reader != NULL)
        ts_reader_facts(b->reader, &facts);
    pthread_mutex_lock(&b->lock);
    *ret = (struct ts_feed_stats){ .bytes_read = b->bytes_read,
                                   .wait_ns = b->wait_ns,
                                   .resident_bytes = b->plan.resident_bytes,
                                   .slot_bytes = b->plan.slot_bytes,
                                   .n_slots = b->plan.n_slots,
                                   .direct = facts.direct,
                                   .uring = facts.uring,
                                   .registered = facts.registered,
                                   .fallback = facts.fallback };
    b->bytes_read = b->wait_ns = 0;
    pthread_mutex_unlock(&b->lock);
}

struct ts_slabs *ts_feed_slabs(struct ts_feed *f)
{
    return f->slabs;
}
