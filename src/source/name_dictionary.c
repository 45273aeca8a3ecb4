/* SPDX-License-Identifier: BSD-3-Clause */
/* name_dictionary.c - open addressing over an arena of strings. */
#include "source/name_dictionary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "base/bigmem.h"
#include "source/string_sort.h"

#define FIRST_SLOTS 1024u
#define TAG_SHIFT   44u /* of a slot: a tag above, a place + 1 below */
#define PLACE_MASK  ((UINT64_C(1) << TAG_SHIFT) - 1)

struct ts_name_slots {
    struct ts_name_slots *older;
    uint64_t mask;
    uint64_t slot[]; /* atomic; 0: empty */
};

/* ------------------------------------------------------------------ the table */

static size_t slots_bytes(uint64_t n)
{
    return sizeof(struct ts_name_slots) + n * sizeof(uint64_t);
}

/* Large ones lie on large pages: every look at them is at another place. */
static struct ts_name_slots *slots_new(uint64_t n, struct ts_err *err)
{
    struct ts_name_slots *s = NULL;
    void *mem = NULL;
    if (slots_bytes(n) < TS_BIGMEM_HUGE)
        s = calloc(1, slots_bytes(n));
    else if (ts_bigmem_new(slots_bytes(n), "names", &mem, NULL) == 0)
        s = mem;
    if (s == NULL)
        ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " names", n);
    else
        s->mask = n - 1;
    return s;
}

static void slots_free(struct ts_name_slots *s)
{
    while (s != NULL) {
        struct ts_name_slots *older = s->older;
        if (slots_bytes(s->mask + 1) < TS_BIGMEM_HUGE)
            free(s);
        else
            ts_bigmem_free(s, slots_bytes(s->mask + 1));
        s = older;
    }
}

static inline uint64_t slot_of(uint64_t hash, uint64_t place)
{
    return hash >> TAG_SHIFT << TAG_SHIFT | (place + 1);
}

static uint64_t find(const struct ts_name_dictionary *d, const char *name, uint32_t n,
                     uint64_t hash)
{
    const struct ts_name_slots *s = __atomic_load_n(&d->slots, __ATOMIC_ACQUIRE);
    for (uint64_t i = hash & s->mask;; i = (i + 1) & s->mask) {
        const uint64_t slot = __atomic_load_n(&s->slot[i], __ATOMIC_ACQUIRE);
        const char *at;
        if (slot == 0)
            return TS_NAME_UNKNOWN;
        if (((slot ^ hash) >> TAG_SHIFT) != 0)
            continue;
        at = d->arena + (slot & PLACE_MASK) - 1;
        if (ts_string_length(at) == n && memcmp(ts_string_key(at), name, n) == 0)
            return ts_string_number(at);
    }
}

static void put_slot(struct ts_name_slots *s, uint64_t hash, uint64_t place)
{
    uint64_t i = hash & s->mask;
    while (s->slot[i] != 0)
        i = (i + 1) & s->mask;
    __atomic_store_n(&s->slot[i], slot_of(hash, place), __ATOMIC_RELEASE);
}

static int grow(struct ts_name_dictionary *d, struct ts_err *err)
{
    struct ts_name_slots *s = slots_new(2 * (d->slots->mask + 1), err);
    uint64_t place = 0;
    if (s == NULL)
        return TS_ENOMEM;
    while (place < d->used) {
        const char *at = d->arena + place;
        const uint32_t n = ts_string_length(at);
        put_slot(s, XXH3_64bits(ts_string_key(at), n), place);
        place += TS_STRING_HEAD + n;
    }
    s->older = d->slots;
    d->slots_bytes += (s->mask + 1) * sizeof *s->slot;
    __atomic_store_n(&d->slots, s, __ATOMIC_RELEASE);
    return 0;
}

int ts_name_dictionary_number(struct ts_name_dictionary *d, const char *name, uint32_t n,
                              uint64_t *ret, struct ts_err *err)
{
    const uint64_t hash = XXH3_64bits(name, n);
    *ret = find(d, name, n, hash);
    if (*ret != TS_NAME_UNKNOWN)
        return 0;
    if (10 * (d->n + 1) > 7 * d->slots->mask) {
        const int rc = grow(d, err);
        if (rc < 0)
            return rc;
    }
    if (d->used + TS_STRING_HEAD + n > d->room)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    *ret = d->n++;
    ts_string_put(d->arena + d->used, name, n, *ret);
    put_slot(d->slots, hash, d->used);
    d->used += TS_STRING_HEAD + n;
    return 0;
}

void ts_name_dictionary_find(const struct ts_name_dictionary *d, uint32_t n,
                             const char *const name[], const uint32_t len[], uint64_t ret[])
{
    const struct ts_name_slots *s = __atomic_load_n(&d->slots, __ATOMIC_ACQUIRE);
    uint64_t hash[TS_NAMES_FIND];
    for (uint32_t i = 0; i < n; i++) {
        hash[i] = XXH3_64bits(name[i], len[i]);
        __builtin_prefetch(&s->slot[hash[i] & s->mask]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t slot = __atomic_load_n(&s->slot[hash[i] & s->mask], __ATOMIC_RELAXED);
        if (slot != 0)
            __builtin_prefetch(d->arena + (slot & PLACE_MASK) - 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t index = find(d, name[i], len[i], hash[i]);
        ret[i] = index != TS_NAME_UNKNOWN ? index : ret[i];
    }
}

uint64_t ts_name_dictionary_growth(const struct ts_name_dictionary *d, uint64_t n)
{
    uint64_t slots = d->slots->mask + 1, bytes = 0;
    while (10 * (d->n + n + 1) > 7 * slots) {
        slots *= 2;
        bytes += slots * sizeof(uint64_t);
    }
    return bytes;
}

/* ------------------------------------------------------------------ from first to last */

int ts_name_dictionary_open(struct ts_name_dictionary *d, uint64_t room, uint32_t mode,
                            struct ts_err *err)
{
    d->room = room;
    d->arena = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (d->arena == MAP_FAILED) {
        d->arena = NULL;
        return ts_fail_errno(err, TS_ENOMEM, "no addresses for the names of mode %u", mode + 1);
    }
    madvise(d->arena, room, MADV_HUGEPAGE);
    d->slots = slots_new(FIRST_SLOTS, err);
    return d->slots == NULL ? TS_ENOMEM : 0;
}

void ts_name_dictionary_close(struct ts_name_dictionary *d)
{
    if (d->arena != NULL)
        munmap(d->arena, d->room);
    d->arena = NULL;
    slots_free(d->slots);
    d->slots = NULL;
}

int ts_name_dictionary_clear(struct ts_name_dictionary *d, struct ts_err *err)
{
    slots_free(d->slots);
    d->slots = slots_new(FIRST_SLOTS, err);
    d->slots_bytes = 0;
    madvise(d->arena, (d->used + 4095) / 4096 * 4096, MADV_DONTNEED);
    d->used = d->n = 0;
    return d->slots == NULL ? TS_ENOMEM : 0;
}

uint64_t *ts_name_dictionary_places(struct ts_name_dictionary *d)
{
    uint64_t *place, at = 0;
    slots_free(d->slots->older);
    d->slots->older = NULL;
    place = d->slots->slot;
    for (uint64_t i = 0; i < d->n; i++) {
        place[i] = at;
        at += TS_STRING_HEAD + ts_string_length(d->arena + at);
    }
    return place;
}
