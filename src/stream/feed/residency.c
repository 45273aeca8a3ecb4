/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses which shards stay in host memory, at which offsets, and how many slots there are for the
 * other shards. */
#include "stream/feed/residency.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/num.h"
#include "format/shard.h"
#include "stream/feed/feed.h"

/* bytes of slots for reading ahead, which a disk of 5 GB/s reads in 12 ms */
#define AHEAD_BYTES (UINT64_C(64) << 20)
/* slots for each consumer, which it may hold while other slots are filled */
#define LENT_SLOTS 4u
#define MOST_SLOTS 1024u

static uint64_t pages(uint64_t bytes)
{
    return (bytes + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
}

uint64_t ts_residency_stored(const struct ts_disk_shard *s)
{
    return pages(s->stored_bytes);
}

uint64_t ts_residency_read_at(const struct ts_disk_shard *s)
{
    /* lz4.h, "In-place decompression": in the shard's memory, the compressed bytes must end at this
     * offset or later */
    const uint64_t end = (uint64_t)s->raw_bytes + (s->raw_bytes >> 8) + 32;
    if ((s->flags & TS_SHARD_LZ4) == 0 || end <= s->stored_bytes)
        return 0;
    return pages(end - s->stored_bytes);
}

uint64_t ts_residency_bytes(const struct ts_disk_shard *s)
{
    const uint64_t read = ts_residency_read_at(s) + ts_residency_stored(s);
    const uint64_t raw = pages((uint64_t)s->raw_bytes + TS_SHARD_SLACK);
    return read > raw ? read : raw;
}

static int served(int only_mode, uint32_t mode)
{
    return only_mode < 0 || (uint32_t)only_mode == mode;
}

/* Whether a consumer (a device) keeps the shard in its own memory. */
static int kept(const unsigned char *const *keep, uint32_t mode, uint64_t shard)
{
    return keep[mode] != NULL && keep[mode][shard] == TS_DEAL_KEEP;
}

static int left(const unsigned char *const *keep, uint32_t mode, uint64_t shard)
{
    return keep[mode] != NULL && keep[mode][shard] == TS_DEAL_LEAVE;
}

/* Sums over the shards of the modes that the feed lends. */
struct sums {
    uint64_t total;   /* bytes that all shards which no device keeps take in memory */
    uint64_t largest; /* bytes that the largest shard takes in memory */
    uint64_t n;
    int passing; /* 1: some shards only pass through slots, because a device keeps them */
};

static struct sums add_up(const struct ts_tensor *t, int only_mode,
                          const unsigned char *const *keep)
{
    struct sums s = { 0 };
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t i = 0; served(only_mode, m) && i < t->mode[m].disk.n_shards; i++) {
            const uint64_t bytes = ts_residency_bytes(&t->mode[m].shard[i]);
            if (left(keep, m, i))
                continue;
            s.total += kept(keep, m, i) ? 0 : bytes;
            s.largest = bytes > s.largest ? bytes : s.largest;
            s.passing |= kept(keep, m, i);
            s.n++;
        }
    return s;
}

static int plan_slots(const struct ts_tensor *t, const struct sums *s, uint32_t n_consumers,
                      uint32_t most_slots, uint64_t host_bytes, struct ts_residency *r,
                      struct ts_err *err)
{
    const uint64_t slot = s->largest, least = n_consumers + 1;
    uint64_t want = AHEAD_BYTES / slot + LENT_SLOTS * n_consumers;
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], c[TS_NUM_CHARS], count[40];
    want = want > s->n ? s->n : want;
    want = want > MOST_SLOTS ? MOST_SLOTS : want;
    want = most_slots > 0 && want > most_slots ? most_slots : want;
    if (want > host_bytes / 2 / slot)
        want = host_bytes / 2 / slot;
    /* then there is one slot more than the least number, if that fits the budget */
    if (want < least + 1)
        want = least + 1;
    while (want >= least && ts_bigmem_cost(want * slot) > host_bytes)
        want--;
    if (want < least) {
        snprintf(count, sizeof count, "for %u devices %u", n_consumers, n_consumers + 1);
        return ts_fail(err, TS_ELIMIT,
                       "%s: %s of memory for shards is too little: the largest takes %s, and %s of "
                       "them must fit, which is %s",
                       t->path, ts_num_bytes(a, host_bytes), ts_num_bytes(b, slot),
                       n_consumers == 1 ? "two" : count,
                       ts_num_bytes(c, ts_bigmem_cost(least * slot)));
    }
    r->slot_bytes = slot;
    r->n_slots = (uint32_t)want;
    return 0;
}

/* Distributes `room` bytes evenly over the shards: a shard stays if the bytes of the shards chosen
 * so far, with its own, are at most the part of `room` that belongs to the shards seen so far. */
static void choose(const struct ts_tensor *t, int only_mode, const unsigned char *const *keep,
                   uint64_t total, uint64_t room, struct ts_residency *r)
{
    uint64_t seen = 0;
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t i = 0; served(only_mode, m) && i < t->mode[m].disk.n_shards; i++) {
            const uint64_t bytes = ts_residency_bytes(&t->mode[m].shard[i]);
            r->place[m][i] = TS_NOT_RESIDENT;
            if (kept(keep, m, i) || left(keep, m, i))
                continue;
            seen += bytes;
            if (room < total &&
                (double)(r->resident_bytes + bytes) > (double)room * ((double)seen / (double)total))
                continue;
            if (r->resident_bytes + bytes > room)
                /* the condition above is rounded, so the sum of bytes may exceed `room` */
                continue;
            r->place[m][i] = r->resident_bytes;
            r->resident_bytes += bytes;
        }
}

static int allocate(const struct ts_tensor *t, int only_mode, struct ts_residency *r,
                    struct ts_err *err)
{
    for (uint32_t m = 0; m < t->order; m++) {
        const uint64_t n = t->mode[m].disk.n_shards;
        uint64_t partitions = 0;
        if (!served(only_mode, m))
            continue;
        r->place[m] = malloc((n + 1) * sizeof *r->place[m]);
        r->first_partition[m] = malloc((n + 1) * sizeof *r->first_partition[m]);
        if (r->place[m] == NULL || r->first_partition[m] == NULL)
            return ts_fail(err, TS_ENOMEM, "%s: out of memory for %" PRIu64 " shards", t->path, n);
        for (uint64_t i = 0; i < n; i++) {
            r->first_partition[m][i] = partitions;
            partitions += ts_shard_partitions(&t->mode[m].shard[i]);
        }
    }
    return 0;
}

int ts_residency_plan(const struct ts_tensor *t, int only_mode,
                      const unsigned char *const keep[TS_MAX_ORDER], uint32_t n_consumers,
                      uint32_t most_slots, uint64_t host_bytes, struct ts_residency *ret,
                      struct ts_err *err)
{
    const struct sums s = add_up(t, only_mode, keep);
    const uint64_t least = ts_bigmem_cost(0); /* the overhead of large memory without any bytes */
    struct ts_residency r = { 0 };
    uint64_t room = s.total;
    int rc = allocate(t, only_mode, &r, err);
    if (rc == 0 && s.n > 0 && (s.passing || ts_bigmem_cost(s.total) > host_bytes)) {
        rc = plan_slots(t, &s, n_consumers, most_slots, host_bytes, &r, err);
        if (rc == 0) {
            room = host_bytes - ts_bigmem_cost(r.n_slots * r.slot_bytes);
            room = room > least ? room - least : 0;
        }
    }
    if (rc < 0) {
        ts_residency_free(&r);
        return rc;
    }
    choose(t, only_mode, keep, s.total, room, &r);
    *ret = r;
    return 0;
}

int ts_residency_cut(const struct ts_tensor *t, uint64_t most, struct ts_residency *r,
                     struct ts_err *err)
{
    /* start of the piece of memory that one call page-locks; any two adjacent pieces have more than
     * `most` bytes, which limits their number */
    uint64_t first = 0;
    r->cut = malloc((2 * (r->resident_bytes / most) + 2) * sizeof *r->cut);
    if (r->cut == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t i = 0; r->place[m] != NULL && i < t->mode[m].disk.n_shards; i++) {
            const uint64_t place = r->place[m][i];
            if (place == TS_NOT_RESIDENT || place == first ||
                place + ts_residency_bytes(&t->mode[m].shard[i]) - first <= most)
                continue;
            r->cut[r->n_cuts++] = place;
            first = place;
        }
    if (r->resident_bytes > 0)
        r->cut[r->n_cuts++] = r->resident_bytes;
    return 0;
}

void ts_residency_free(struct ts_residency *r)
{
    free(r->cut);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        free(r->place[m]);
        free(r->first_partition[m]);
    }
    memset(r, 0, sizeof *r);
}
