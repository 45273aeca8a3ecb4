/* SPDX-License-Identifier: BSD-3-Clause */
/* name_dictionary.c - finds names in an arena (one memory with all strings) by a hash table with
 * open addressing. */
#include "source/names/name_dictionary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/machine/bigmem.h"
#include "base/setting.h"
#include "source/names/string_sort.h"

#define FIRST_SLOTS 1024u
/* a slot holds the lowest bits of the name's hash from this bit on, and below them the name's
 * offset in the arena + 1 */
#define TAG_SHIFT  44u
#define PLACE_MASK ((UINT64_C(1) << TAG_SHIFT) - 1)

struct ts_name_slots {
    struct ts_name_slots *older;
    uint64_t mask;
    uint32_t shift;  /* hash >> shift is the first slot in which a name is looked for */
    uint64_t slot[]; /* the table; slots are read atomically; 0: an empty slot */
};

/* ------------------------------------------------------------------ the hash table */

static size_t slots_bytes(uint64_t n)
{
    return sizeof(struct ts_name_slots) + n * sizeof(uint64_t);
}

/* Allocates a table of n slots, on large pages if it is large, as each look-up is at a random
 * place. */
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
        *s = (struct ts_name_slots){ .mask = n - 1, .shift = 64 - (uint32_t)__builtin_ctzll(n) };
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

static inline uint64_t home(const struct ts_name_slots *s, uint64_t hash)
{
    return hash >> s->shift;
}

static inline uint64_t slot_of(uint64_t hash, uint64_t place)
{
    return hash << TAG_SHIFT | (place + 1);
}

static inline uint64_t hash_at(const struct ts_name_dictionary *d, uint64_t place)
{
    const char *at = d->arena + place;
    return ts_string_hash(ts_string_key(at), ts_string_length(at));
}

static inline uint64_t eight(const char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint32_t four(const char *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Whether two strings of n bytes are equal: memcmp without a call, for short names. The last bytes
 * may be compared twice. */
static inline int same(const char *a, const char *b, uint32_t n)
{
    if (n >= 8) {
        for (uint32_t i = 0; i + 8 < n; i += 8)
            if (eight(a + i) != eight(b + i))
                return 0;
        return eight(a + n - 8) == eight(b + n - 8);
    }
    if (n >= 4)
        return four(a) == four(b) && four(a + n - 4) == four(b + n - 4);
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

static inline uint64_t find(const struct ts_name_dictionary *d, const char *name, uint32_t n,
                            uint64_t hash)
{
    const struct ts_name_slots *s = __atomic_load_n(&d->slots, __ATOMIC_ACQUIRE);
    for (uint64_t i = home(s, hash);; i = (i + 1) & s->mask) {
        const uint64_t slot = __atomic_load_n(&s->slot[i], __ATOMIC_ACQUIRE);
        const char *at;
        if (slot == 0)
            return TS_NAME_UNKNOWN;
        if (((slot ^ (hash << TAG_SHIFT)) >> TAG_SHIFT) != 0)
            continue;
        at = d->arena + (slot & PLACE_MASK) - 1;
        if (ts_string_length(at) == n && same(ts_string_key(at), name, n))
            return ts_string_number(at);
    }
}

static void put_slot(struct ts_name_slots *s, uint64_t hash, uint64_t place)
{
    uint64_t i = home(s, hash);
    while (s->slot[i] != 0)
        i = (i + 1) & s->mask;
    __atomic_store_n(&s->slot[i], slot_of(hash, place), __ATOMIC_RELEASE);
}

/* Adds n strings of the arena (at most TS_NAMES_FIND) to the table, the first of them at offset
 * `place`. Returns the offset after the last. */
static uint64_t put_some(const struct ts_name_dictionary *d, struct ts_name_slots *s,
                         uint64_t place, uint64_t n)
{
    uint64_t hash[TS_NAMES_FIND], at = place;
    for (uint64_t i = 0; i < n; i++) {
        hash[i] = hash_at(d, at);
        __builtin_prefetch(&s->slot[home(s, hash[i])], 1);
        at += TS_STRING_HEAD + ts_string_length(d->arena + at);
    }
    for (uint64_t i = 0; i < n; i++) {
        put_slot(s, hash[i], place);
        place += TS_STRING_HEAD + ts_string_length(d->arena + place);
    }
    return place;
}

static int grow(struct ts_name_dictionary *d, struct ts_err *err)
{
    struct ts_name_slots *s = slots_new(2 * (d->slots->mask + 1), err);
    uint64_t place = 0;
    if (s == NULL)
        return TS_ENOMEM;
    for (uint64_t i = 0, n; i < d->n; i += n) {
        n = d->n - i < TS_NAMES_FIND ? d->n - i : TS_NAMES_FIND;
        place = put_some(d, s, place, n);
    }
    s->older = d->slots;
    d->slots_bytes += (s->mask + 1) * sizeof *s->slot;
    __atomic_store_n(&d->slots, s, __ATOMIC_RELEASE);
    return 0;
}

/* Hashes names, and prefetches their slots and the strings that those point to. */
static inline void look_ahead(const struct ts_name_dictionary *d, uint32_t n,
                              const char *const name[], const uint32_t len[], uint64_t hash[])
{
    const struct ts_name_slots *s = __atomic_load_n(&d->slots, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n; i++) {
        hash[i] = ts_string_hash(name[i], len[i]);
        __builtin_prefetch(&s->slot[home(s, hash[i])]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t slot = __atomic_load_n(&s->slot[home(s, hash[i])], __ATOMIC_RELAXED);
        if (slot != 0)
            __builtin_prefetch(d->arena + (slot & PLACE_MASK) - 1);
    }
}

void ts_name_dictionary_find(const struct ts_name_dictionary *d, uint32_t n,
                             const char *const name[], const uint32_t len[], uint64_t ret[])
{
    uint64_t hash[TS_NAMES_FIND];
    look_ahead(d, n, name, len, hash);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t index = find(d, name[i], len[i], hash[i]);
        ret[i] = index != TS_NAME_UNKNOWN ? index : ret[i];
    }
}

static int add_name(struct ts_name_dictionary *d, const char *name, uint32_t n, uint64_t hash,
                    struct ts_err *err)
{
    if (10 * (d->n + 1) > 7 * d->slots->mask) {
        const int rc = grow(d, err);
        if (rc < 0)
            return rc;
    }
    if (d->used + TS_STRING_HEAD + n > d->room)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    ts_string_put(d->arena + d->used, name, n, d->n++);
    put_slot(d->slots, hash, d->used);
    d->used += TS_STRING_HEAD + n;
    return 0;
}

int ts_name_dictionary_number(struct ts_name_dictionary *d, uint32_t n, const char *const name[],
                              const uint32_t len[], uint64_t *const ret[], struct ts_err *err)
{
    uint64_t hash[TS_NAMES_FIND];
    look_ahead(d, n, name, len, hash);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t number = find(d, name[i], len[i], hash[i]);
        if (number == TS_NAME_UNKNOWN) {
            const int rc = add_name(d, name[i], len[i], hash[i], err);
            if (rc < 0)
                return rc;
            number = d->n - 1;
        }
        *ret[i] = number;
    }
    return 0;
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

/* ------------------------------------------------------------------ the whole dictionary */

int ts_name_dictionary_open(struct ts_name_dictionary *d, uint64_t room, uint32_t mode,
                            struct ts_err *err)
{
    d->room = room;
    d->arena = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (d->arena == MAP_FAILED) {
        d->arena = NULL;
        return ts_fail_errno(err, TS_ENOMEM, "no addresses for the names of " TS_NTH_MODE,
                             mode + 1);
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

/* ------------------------------------------------------------------ lists of all names */

static uint64_t *places_memory(struct ts_name_dictionary *d)
{
    slots_free(d->slots->older);
    d->slots->older = NULL;
    return d->slots->slot;
}

uint64_t *ts_name_dictionary_places(struct ts_name_dictionary *d)
{
    uint64_t *place = places_memory(d), at = 0;
    for (uint64_t i = 0; i < d->n; i++) {
        place[i] = at;
        at += TS_STRING_HEAD + ts_string_length(d->arena + at);
    }
    return place;
}

/* A cluster: names in successive slots of the table, without an empty slot between them. All hashes
 * of a cluster are smaller than those of the next cluster, so sorting each cluster sorts the
 * table. */
struct cluster {
    struct hashed {
        uint64_t hash, place;
    } * name;
    uint64_t n, room;
};

static int cluster_add(struct cluster *c, struct hashed name, struct ts_err *err)
{
    if (c->n == c->room) {
        const uint64_t room = 2 * c->room + 64;
        struct hashed *more = realloc(c->name, room * sizeof *more);
        if (more == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for names");
        c->name = more;
        c->room = room;
    }
    c->name[c->n++] = name;
    return 0;
}

static int comes_after(const struct ts_name_dictionary *d, struct hashed a, struct hashed b)
{
    return a.hash != b.hash ? a.hash > b.hash
                            : ts_string_compare(d->arena + a.place, d->arena + b.place, 0) > 0;
}

/* Sorts the cluster by hash, writes the offsets of its names in the arena to `place`, and empties
 * it. */
static uint64_t *put_cluster(const struct ts_name_dictionary *d, struct cluster *c, uint64_t *place)
{
    for (uint64_t i = 1; i < c->n; i++) {
        const struct hashed name = c->name[i];
        uint64_t k = i;
        for (; k > 0 && comes_after(d, c->name[k - 1], name); k--)
            c->name[k] = c->name[k - 1];
        c->name[k] = name;
    }
    for (uint64_t i = 0; i < c->n; i++)
        *place++ = c->name[i].place;
    c->n = 0;
    return place;
}

#define AHEAD 16u /* number of slots ahead of the current one whose strings are prefetched */

int ts_name_dictionary_by_hash(struct ts_name_dictionary *d, uint64_t **ret, struct ts_err *err)
{
    const struct ts_name_slots *s = d->slots;
    const uint64_t n_slots = s->mask + 1;
    struct cluster cluster = { 0 }, wrapped = { 0 };
    /* the sorted offsets are written over slots that were read already */
    uint64_t *place = places_memory(d);
    int rc = 0, at_start = 1;
    *ret = place;
    for (uint64_t i = 0; i <= n_slots && rc == 0; i++) {
        const uint64_t slot = i < n_slots ? s->slot[i] : 0;
        if (i + AHEAD < n_slots && s->slot[i + AHEAD] != 0)
            __builtin_prefetch(d->arena + (s->slot[i + AHEAD] & PLACE_MASK) - 1);
        if (slot != 0) {
            struct hashed name = { .place = (slot & PLACE_MASK) - 1 };
            name.hash = hash_at(d, name.place);
            /* names at the start whose first slot is at the end of the table come last in the order
             * of hashes */
            rc = cluster_add(at_start && home(s, name.hash) > i ? &wrapped : &cluster, name, err);
            continue;
        }
        at_start = 0;
        for (uint64_t k = 0; k < wrapped.n && i == n_slots && rc == 0; k++)
            rc = cluster_add(&cluster, wrapped.name[k], err);
        place = put_cluster(d, &cluster, place);
    }
    free(cluster.name);
    free(wrapped.name);
    return rc;
}
