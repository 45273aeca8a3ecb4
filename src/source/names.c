/* SPDX-License-Identifier: BSD-3-Clause */
#include "source/names.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/bigmem.h"
#include "base/stop.h"
#include "base/tempfile.h"

#define FIRST_SLOTS 1024u
#define TAG_SHIFT   44u /* of a slot: a tag above, a place + 1 below */
#define PLACE_MASK  ((UINT64_C(1) << TAG_SHIFT) - 1)
#define COPY_BYTES  (UINT64_C(256) << 10)

/* Open addressing. A larger one takes its place while readers are in the old one, which therefore stays:
 * what they miss there is looked for again in turn. */
struct slots {
    struct slots *older;
    uint64_t mask;
    uint64_t slot[]; /* atomic; 0: empty */
};

struct dictionary {
    char *arena; /* strings, in the order of their numbers; addresses for the most there can be */
    uint64_t used, n;
    struct slots *slots; /* atomic */
    uint64_t slots_bytes;

    /* of the generations before */
    struct ts_string_sort *runs;
    int arena_fd, map_fd; /* all arenas; the index of each provisional number */
    uint64_t arena_bytes; /* of the file */
    uint64_t before;      /* provisional numbers */

    uint64_t n_names; /* different ones, at the end */
    uint64_t *map;    /* the index of each number of the generation that is fed */
};

struct ts_names {
    struct ts_names_conf conf;
    struct dictionary mode[TS_MAX_ORDER];
    uint64_t arena_room, record_bytes;
    uint32_t width[TS_MAX_ORDER]; /* bytes of an index that waits */

    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t turn, generation;
    uint32_t readers;
    int emptying, failed, ended;

    /* nonzeros that wait: chunks, one behind the other, of a head and records */
    int fd;
    uint64_t bytes;

    /* after the end */
    uint64_t at;     /* the next chunk */
    uint64_t mapped; /* the generation in the maps */
    uint32_t feeding;

    uint64_t *first; /* provisional number of each generation, in each mode; one more at the end */
};

struct chunk {
    uint64_t generation, n;
};

/* ------------------------------------------------------------------ a dictionary */

static size_t slots_bytes(uint64_t n)
{
    return sizeof(struct slots) + n * sizeof(uint64_t);
}

/* Large ones lie on large pages: every look at them is at another place. */
static struct slots *slots_new(uint64_t n, struct ts_err *err)
{
    struct slots *s = NULL;
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

static void slots_free(struct slots *s)
{
    while (s != NULL) {
        struct slots *older = s->older;
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

static uint64_t find(const struct dictionary *d, const char *name, uint32_t n, uint64_t hash)
{
    const struct slots *s = __atomic_load_n(&d->slots, __ATOMIC_ACQUIRE);
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

static void put_slot(struct slots *s, uint64_t hash, uint64_t place)
{
    uint64_t i = hash & s->mask;
    while (s->slot[i] != 0)
        i = (i + 1) & s->mask;
    __atomic_store_n(&s->slot[i], slot_of(hash, place), __ATOMIC_RELEASE);
}

static int grow(struct dictionary *d, struct ts_err *err)
{
    struct slots *s = slots_new(2 * (d->slots->mask + 1), err);
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

/* The number of a name, a new one if need be. In turn. */
static int number(struct ts_names *g, struct dictionary *d, const char *name, uint32_t n,
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
    if (d->used + TS_STRING_HEAD + n > g->arena_room)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    *ret = d->n++;
    ts_string_put(d->arena + d->used, name, n, *ret);
    put_slot(d->slots, hash, d->used);
    d->used += TS_STRING_HEAD + n;
    return 0;
}

void ts_names_find(const struct ts_names *g, uint32_t mode, uint32_t n, const char *const name[],
                   const uint32_t len[], uint64_t ret[])
{
    const struct dictionary *d = &g->mode[mode];
    const struct slots *s = __atomic_load_n(&d->slots, __ATOMIC_ACQUIRE);
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

static uint64_t bytes_used(const struct ts_names *g)
{
    uint64_t bytes = 0;
    for (uint32_t m = 0; m < g->conf.order; m++)
        bytes += g->mode[m].used + g->mode[m].slots_bytes;
    return bytes;
}

/* ------------------------------------------------------------------ making */

int ts_names_new(const struct ts_names_conf *conf, struct ts_names **ret, struct ts_err *err)
{
    struct ts_names *g = calloc(1, sizeof *g);
    int rc = 0;
    if (g == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    g->conf = *conf;
    g->fd = -1;
    g->mapped = UINT64_MAX;
    g->arena_room = conf->bytes + (UINT64_C(64) << 20); /* addresses alone */
    g->record_bytes = conf->value_bytes;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->moved, NULL);
    for (uint32_t m = 0; m < conf->order; m++) {
        struct dictionary *d = &g->mode[m];
        d->arena_fd = d->map_fd = -1;
        g->width[m] = conf->named[m] ? 4 : 5;
        g->record_bytes += g->width[m];
        if (!conf->named[m] || rc < 0)
            continue;
        d->arena = mmap(NULL, g->arena_room, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (d->arena == MAP_FAILED) {
            d->arena = NULL;
            rc = ts_fail_errno(err, TS_ENOMEM, "no addresses for the names of mode %u", m + 1);
            continue;
        }
        madvise(d->arena, g->arena_room, MADV_HUGEPAGE);
        d->slots = slots_new(FIRST_SLOTS, err);
        if (d->slots == NULL)
            rc = TS_ENOMEM;
    }
    if (rc < 0) {
        ts_names_free(g);
        return rc;
    }
    *ret = g;
    return 0;
}

/* Gives the memory of the dictionaries back. */
static void drop_dictionaries(struct ts_names *g)
{
    for (uint32_t m = 0; m < g->conf.order; m++) {
        struct dictionary *d = &g->mode[m];
        if (d->arena != NULL)
            munmap(d->arena, g->arena_room);
        d->arena = NULL;
        slots_free(d->slots);
        d->slots = NULL;
    }
}

void ts_names_free(struct ts_names *g)
{
    if (g == NULL)
        return;
    drop_dictionaries(g);
    for (uint32_t m = 0; m < g->conf.order; m++) {
        struct dictionary *d = &g->mode[m];
        ts_string_sort_free(d->runs);
        free(d->map);
        if (d->arena_fd >= 0)
            close(d->arena_fd);
        if (d->map_fd >= 0)
            close(d->map_fd);
    }
    if (g->fd >= 0)
        close(g->fd);
    free(g->first);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->moved);
    free(g);
}

/* ------------------------------------------------------------------ generations */

/* The places of all strings, in the memory of the slots, which are not needed any more. */
static uint64_t *take_places(struct dictionary *d)
{
    uint64_t *place = d->slots->slot, at = 0;
    for (uint64_t i = 0; i < d->n; i++) {
        place[i] = at;
        at += TS_STRING_HEAD + ts_string_length(d->arena + at);
    }
    return place;
}

/* Numbers from the start of a generation to those of the whole. */
static void renumber(struct dictionary *d)
{
    for (uint64_t at = 0; at < d->used;) {
        const uint64_t all = d->before + ts_string_number(d->arena + at);
        memcpy(d->arena + at, &all, sizeof all);
        at += TS_STRING_HEAD + ts_string_length(d->arena + at);
    }
}

/* Puts a dictionary on disk: its strings as they came, if that order will be wanted, and sorted. */
static int save(struct ts_names *g, struct dictionary *d, struct ts_err *err)
{
    int rc = 0;
    renumber(d);
    if (d->runs == NULL)
        rc = ts_string_sort_new(g->conf.tmp, g->conf.bytes / 2, g->conf.stop, &d->runs, err);
    if (rc == 0 && !g->conf.sorted && d->arena_fd < 0)
        rc = ts_tempfile_new(g->conf.tmp, &d->arena_fd, err);
    if (rc == 0 && !g->conf.sorted)
        rc = ts_tempfile_write(d->arena_fd, g->conf.tmp, d->arena, d->used, d->arena_bytes, err);
    d->arena_bytes += d->used;
    if (rc == 0) {
        uint64_t *place = take_places(d);
        ts_string_sort_places(d->arena, place, d->n);
        rc = ts_string_sort_run(d->runs, d->arena, place, d->n, err);
    }
    d->before += d->n;
    return rc;
}

static int start_anew(struct ts_names *g, struct dictionary *d, struct ts_err *err)
{
    slots_free(d->slots);
    d->slots = slots_new(FIRST_SLOTS, err);
    d->slots_bytes = 0;
    madvise(d->arena, (d->used + 4095) / 4096 * 4096, MADV_DONTNEED);
    d->used = d->n = 0;
    (void)g;
    return d->slots == NULL ? TS_ENOMEM : 0;
}

/* Notes where the numbers of generation `which` begin, after those of the one before. */
static int note_first(struct ts_names *g, uint64_t which, struct ts_err *err)
{
    uint64_t *first = realloc(g->first, (which + 1) * g->conf.order * sizeof *first);
    if (first == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    g->first = first;
    for (uint32_t m = 0; m < g->conf.order; m++)
        first[which * g->conf.order + m] = g->mode[m].before;
    return 0;
}

/* In turn: all dictionaries to disk, once nobody reads them. */
static int empty(struct ts_names *g, struct ts_err *err)
{
    int rc = g->first == NULL ? note_first(g, 0, err) : 0;
    pthread_mutex_lock(&g->lock);
    g->emptying = 1;
    while (g->readers > 0)
        pthread_cond_wait(&g->moved, &g->lock);
    pthread_mutex_unlock(&g->lock);
    for (uint32_t m = 0; m < g->conf.order && rc == 0; m++)
        if (g->conf.named[m]) {
            rc = save(g, &g->mode[m], err);
            if (rc == 0)
                rc = start_anew(g, &g->mode[m], err);
        }
    if (rc == 0)
        rc = note_first(g, g->generation + 1, err);
    pthread_mutex_lock(&g->lock);
    g->emptying = 0;
    g->generation++;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

uint64_t ts_names_generations(const struct ts_names *g)
{
    return g->generation + 1;
}

/* ------------------------------------------------------------------ reading pieces */

uint64_t ts_names_enter(struct ts_names *g)
{
    uint64_t generation;
    pthread_mutex_lock(&g->lock);
    while (g->emptying)
        pthread_cond_wait(&g->moved, &g->lock);
    g->readers++;
    generation = g->generation;
    pthread_mutex_unlock(&g->lock);
    return generation;
}

void ts_names_leave(struct ts_names *g)
{
    pthread_mutex_lock(&g->lock);
    g->readers--;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

/* 0 when it is the piece's turn, -1 when there will be none. */
static int wait_turn(struct ts_names *g, uint64_t piece)
{
    int failed;
    pthread_mutex_lock(&g->lock);
    while (g->turn != piece && !g->failed)
        pthread_cond_wait(&g->moved, &g->lock);
    failed = g->failed;
    pthread_mutex_unlock(&g->lock);
    return failed ? -1 : 0;
}

static void pass_turn(struct ts_names *g, int failed)
{
    pthread_mutex_lock(&g->lock);
    g->turn++;
    g->failed |= failed;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

void ts_names_fail(struct ts_names *g, uint64_t piece)
{
    if (wait_turn(g, piece) == 0)
        pass_turn(g, 1);
}

/* Memory that the unknown names of a batch may come to: the strings, and slots as they are after growing. */
static uint64_t bytes_wanted(const struct ts_names *g, const struct ts_batch *b)
{
    uint64_t bytes = 0;
    for (uint32_t m = 0; m < b->order; m++) {
        uint64_t n = 0, slots;
        if (!g->conf.named[m])
            continue;
        for (uint64_t i = 0; i < b->n; i++) {
            const uint64_t index = b->index[i * b->order + m];
            if (index & TS_NAME_UNKNOWN) {
                bytes += TS_STRING_HEAD + ts_name_length(index);
                n++;
            }
        }
        slots = g->mode[m].slots->mask + 1;
        while (10 * (g->mode[m].n + n + 1) > 7 * slots) {
            slots *= 2;
            bytes += slots * sizeof(uint64_t);
        }
    }
    return bytes;
}

static int resolve(struct ts_names *g, struct ts_batch *b, const char *text, const char *side,
                   struct ts_err *err)
{
    for (uint64_t i = 0; i < b->n; i++)
        for (uint32_t m = 0; m < b->order; m++) {
            uint64_t *index = &b->index[i * b->order + m];
            int rc;
            if ((*index & TS_NAME_UNKNOWN) == 0)
                continue;
            rc = number(g, &g->mode[m], ts_name_text(*index, text, side), ts_name_length(*index),
                        index, err);
            if (rc < 0)
                return rc;
        }
    return 0;
}

static int take_turn(struct ts_names *g, uint64_t generation, struct ts_batch *b, const char *text,
                     const char *side, int (*again)(void *arg, struct ts_err *err), void *arg,
                     struct ts_err *err)
{
    int rc = generation != g->generation ? again(arg, err) : 0;
    if (rc == 0 && bytes_used(g) > 0 && bytes_used(g) + bytes_wanted(g, b) > g->conf.bytes) {
        rc = empty(g, err);
        if (rc == 0)
            rc = again(arg, err);
    }
    return rc < 0 ? rc : resolve(g, b, text, side, err);
}

int ts_names_turn(struct ts_names *g, uint64_t piece, uint64_t generation, struct ts_batch *b,
                  const char *text, const char *side, int (*again)(void *arg, struct ts_err *err),
                  void *arg, int64_t *wait, struct ts_err *err)
{
    int rc = wait_turn(g, piece);
    if (rc < 0)
        return ts_fail(err, TS_ESTOP, "stopped");
    rc = take_turn(g, generation, b, text, side, again, arg, err);
    *wait = -1;
    if (rc == 0 && b->n > 0 && (g->conf.sorted || g->generation > 0)) {
        if (g->fd < 0)
            rc = ts_tempfile_new(g->conf.tmp, &g->fd, err);
        *wait = (int64_t)g->bytes;
        g->bytes += sizeof(struct chunk) + b->n * g->record_bytes;
        if (rc == 0) {
            const struct chunk head = { .generation = g->generation, .n = b->n };
            rc = ts_tempfile_write(g->fd, g->conf.tmp, &head, sizeof head, (uint64_t)*wait, err);
        }
    }
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        if (g->conf.named[m])
            b->max[m] = g->mode[m].n > 0 ? g->mode[m].n - 1 : 0;
    pass_turn(g, rc < 0);
    return rc;
}

/* ------------------------------------------------------------------ nonzeros that wait */

static char *put_bytes(char *at, uint64_t x, uint32_t n)
{
    memcpy(at, &x, n); /* little-endian, as configure demands */
    return at + n;
}

static const char *get_bytes(const char *at, uint64_t *x, uint32_t n)
{
    *x = 0;
    memcpy(x, at, n);
    return at + n;
}

int ts_names_wait(struct ts_names *g, const struct ts_batch *b, int64_t at, struct ts_err *err)
{
    const uint64_t room = COPY_BYTES / g->record_bytes;
    uint64_t to = (uint64_t)at + sizeof(struct chunk);
    char *buf = malloc(COPY_BYTES);
    int rc = buf == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for names") : 0;
    for (uint64_t i = 0, n; i < b->n && rc == 0; i += n) {
        char *p = buf;
        n = b->n - i < room ? b->n - i : room;
        for (uint64_t k = i; k < i + n; k++) {
            for (uint32_t m = 0; m < b->order; m++)
                p = put_bytes(p, b->index[k * b->order + m], g->width[m]);
            p = put_bytes(p, b->value[k], g->conf.value_bytes);
        }
        rc = ts_tempfile_write(g->fd, g->conf.tmp, buf, (size_t)(p - buf), to, err);
        to += (uint64_t)(p - buf);
    }
    free(buf);
    return rc;
}

/* ------------------------------------------------------------------ the end */

/* A number in bytes that sort as it does. */
static void put_sortable(char key[8], uint64_t x)
{
    x = __builtin_bswap64(x);
    memcpy(key, &x, sizeof x);
}

static uint64_t get_sortable(const char *key)
{
    uint64_t x;
    memcpy(&x, key, sizeof x);
    return __builtin_bswap64(x);
}

/* Writes numbers one behind the other. */
struct stream {
    int fd;
    const char *tmp;
    uint64_t at, n, *buf;
};
#define STREAM_ROOM (COPY_BYTES / sizeof(uint64_t))

static int stream_put(struct stream *s, uint64_t x, int last, struct ts_err *err)
{
    int rc = 0;
    if (!last)
        s->buf[s->n++] = x;
    if (last || s->n == STREAM_ROOM) {
        rc = ts_tempfile_write(s->fd, s->tmp, s->buf, s->n * sizeof x, s->at, err);
        s->at += s->n * sizeof x;
        s->n = 0;
    }
    return rc;
}

/* The names of all generations in order; each provisional number to `to`: with its index where names are
 * sorted, with the first number of its name where not. */
static int merge_names(struct ts_names *g, uint32_t m, struct ts_string_sort *to,
                       struct ts_err *err)
{
    struct dictionary *d = &g->mode[m];
    char last[TS_STRING_MAX], key[16];
    uint32_t n_last = 0;
    uint64_t first = 0;
    int rc = ts_string_sort_finish(d->runs, err), any = 0;
    while (rc == 0) {
        const char *name;
        uint32_t n;
        uint64_t provisional;
        rc = ts_string_sort_next(d->runs, &name, &n, &provisional, err);
        if (rc <= 0)
            break;
        rc = 0;
        if (!any || n != n_last || memcmp(name, last, n) != 0) {
            if (g->conf.sorted)
                rc = g->conf.label(g->conf.label_arg, m, name, n, err);
            first = g->conf.sorted ? d->n_names : provisional;
            d->n_names++;
            memcpy(last, name, n);
            n_last = n;
            any = 1;
        }
        put_sortable(key, g->conf.sorted ? provisional : first);
        put_sortable(key + 8, provisional);
        if (rc == 0)
            rc = ts_string_sort_add(to, key, g->conf.sorted ? 8 : 16, first, err);
    }
    ts_string_sort_free(d->runs);
    d->runs = NULL;
    return rc;
}

/* By first number: indices in the order in which names were first seen. */
static int number_first(struct ts_string_sort *from, struct ts_string_sort *to, struct ts_err *err)
{
    uint64_t index = 0, last = 0;
    int rc = ts_string_sort_finish(from, err), any = 0;
    while (rc == 0) {
        const char *key;
        uint32_t n;
        uint64_t first;
        rc = ts_string_sort_next(from, &key, &n, &first, err);
        if (rc <= 0)
            break;
        index += any && first != last;
        last = first;
        any = 1;
        rc = ts_string_sort_add(to, key + 8, 8, index, err);
    }
    return rc;
}

/* Writes the index of each provisional number, in the order of these. */
static int write_map(struct ts_names *g, struct dictionary *d, struct ts_string_sort *from,
                     struct ts_err *err)
{
    struct stream s = { .tmp = g->conf.tmp, .buf = malloc(COPY_BYTES) };
    int rc = s.buf == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for names") : 0;
    uint64_t expected = 0;
    if (rc == 0)
        rc = ts_tempfile_new(g->conf.tmp, &d->map_fd, err);
    s.fd = d->map_fd;
    if (rc == 0)
        rc = ts_string_sort_finish(from, err);
    while (rc == 0) {
        const char *key;
        uint32_t n;
        uint64_t index;
        rc = ts_string_sort_next(from, &key, &n, &index, err);
        if (rc <= 0)
            break;
        rc = get_sortable(key) == expected++
                 ? stream_put(&s, index, 0, err)
                 : ts_fail(err, TS_EIO, "internal error: a name was lost; please report it");
    }
    if (rc == 0)
        rc = stream_put(&s, 0, 1, err);
    if (rc == 0 && expected != d->before)
        rc = ts_fail(err, TS_EIO, "internal error: names were lost; please report it");
    free(s.buf);
    return rc;
}

/* Tells the names in the order of their first numbers: those whose index is the next one. */
static int label_seen(struct ts_names *g, uint32_t m, struct ts_err *err)
{
    struct dictionary *d = &g->mode[m];
    const uint64_t room = COPY_BYTES / sizeof(uint64_t);
    uint64_t *map = malloc(COPY_BYTES), next = 0, at = 0, have = 0, used = 0;
    char *buf = malloc(COPY_BYTES);
    int rc = map == NULL || buf == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for names") : 0;
    for (uint64_t p = 0; p < d->before && rc == 0; p++) {
        if (p % room == 0) {
            const uint64_t n = d->before - p < room ? d->before - p : room;
            rc = ts_tempfile_read(d->map_fd, g->conf.tmp, map, n * sizeof *map, p * sizeof *map,
                                  err);
        }
        if (rc == 0 && have - used < TS_STRING_HEAD + TS_STRING_MAX && at < d->arena_bytes) {
            uint64_t n;
            memmove(buf, buf + used, have - used);
            have -= used;
            used = 0;
            n = d->arena_bytes - at < COPY_BYTES - have ? d->arena_bytes - at : COPY_BYTES - have;
            rc = ts_tempfile_read(d->arena_fd, g->conf.tmp, buf + have, n, at, err);
            have += n;
            at += n;
        }
        if (rc == 0 && map[p % room] == next) {
            rc = g->conf.label(g->conf.label_arg, m, ts_string_key(buf + used),
                               ts_string_length(buf + used), err);
            next++;
        }
        used += TS_STRING_HEAD + ts_string_length(buf + used);
        if (rc == 0 && (p & 65535) == 0)
            rc = ts_stop_check(g->conf.stop, err);
    }
    free(map);
    free(buf);
    return rc;
}

/* A mode of several generations. */
static int end_merged(struct ts_names *g, uint32_t m, struct ts_err *err)
{
    struct dictionary *d = &g->mode[m];
    struct ts_string_sort *by_first = NULL, *by_number = NULL;
    int rc = ts_string_sort_new(g->conf.tmp, g->conf.bytes / 4, g->conf.stop, &by_number, err);
    if (rc == 0 && !g->conf.sorted)
        rc = ts_string_sort_new(g->conf.tmp, g->conf.bytes / 4, g->conf.stop, &by_first, err);
    if (rc == 0)
        rc = merge_names(g, m, g->conf.sorted ? by_number : by_first, err);
    if (rc == 0 && !g->conf.sorted)
        rc = number_first(by_first, by_number, err);
    ts_string_sort_free(by_first);
    if (rc == 0)
        rc = write_map(g, d, by_number, err);
    ts_string_sort_free(by_number);
    if (rc == 0 && !g->conf.sorted)
        rc = label_seen(g, m, err);
    return rc;
}

/* A mode that is in memory. */
static int end_single(struct ts_names *g, uint32_t m, struct ts_err *err)
{
    struct dictionary *d = &g->mode[m];
    uint64_t *place;
    int rc = 0;
    slots_free(d->slots->older);
    d->slots->older = NULL;
    d->n_names = d->n;
    place = take_places(d);
    if (g->conf.sorted) {
        ts_string_sort_places(d->arena, place, d->n);
        d->map = malloc((d->n + 1) * sizeof *d->map);
        if (d->map == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " names", d->n);
    }
    for (uint64_t i = 0; i < d->n && rc == 0; i++) {
        const char *at = d->arena + place[i];
        if (d->map != NULL)
            d->map[ts_string_number(at)] = i;
        rc = g->conf.label(g->conf.label_arg, m, ts_string_key(at), ts_string_length(at), err);
    }
    return rc;
}

int ts_names_end(struct ts_names *g, struct ts_err *err)
{
    const int merged = g->generation > 0;
    int rc = 0;
    for (uint32_t m = 0; m < g->conf.order && rc == 0 && merged; m++)
        if (g->conf.named[m])
            rc = save(g, &g->mode[m], err);
    if (rc == 0 && merged)
        rc = note_first(g, g->generation + 1, err);
    if (merged)
        drop_dictionaries(g);
    for (uint32_t m = 0; m < g->conf.order && rc == 0; m++)
        if (g->conf.named[m])
            rc = merged ? end_merged(g, m, err) : end_single(g, m, err);
    if (!merged) {
        drop_dictionaries(g);
        g->mapped = 0;
    }
    g->ended = 1;
    return rc;
}

uint64_t ts_names_count(const struct ts_names *g, uint32_t mode)
{
    return g->mode[mode].n_names;
}

/* ------------------------------------------------------------------ what waited */

static int load_maps(struct ts_names *g, uint64_t generation, struct ts_err *err)
{
    const uint32_t order = g->conf.order;
    for (uint32_t m = 0; m < order; m++) {
        struct dictionary *d = &g->mode[m];
        const uint64_t first = g->first == NULL ? 0 : g->first[generation * order + m];
        const uint64_t n = g->first == NULL ? 0 : g->first[(generation + 1) * order + m] - first;
        int rc;
        if (!g->conf.named[m])
            continue;
        free(d->map);
        d->map = malloc((n + 1) * sizeof *d->map);
        if (d->map == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " names", n);
        rc = ts_tempfile_read(d->map_fd, g->conf.tmp, d->map, n * sizeof *d->map,
                              first * sizeof *d->map, err);
        if (rc < 0)
            return rc;
    }
    g->mapped = generation;
    return 0;
}

/* Takes the next chunk. 1, 0 when there is none. */
static int take_chunk(struct ts_names *g, struct chunk *head, uint64_t *at, struct ts_err *err)
{
    int rc = 1;
    pthread_mutex_lock(&g->lock);
    for (
        ;
        ;) { /* the maps may be of another generation than the chunk's: then those who use them end */
        if (g->at == g->bytes)
            rc = 0;
        else
            rc = ts_tempfile_read(g->fd, g->conf.tmp, head, sizeof *head, g->at, err) < 0 ? -1 : 1;
        if (rc <= 0 || head->generation == g->mapped)
            break;
        if (g->feeding == 0) {
            rc = load_maps(g, head->generation, err) < 0 ? -1 : 1;
            if (rc < 0)
                break;
        } else {
            pthread_cond_wait(&g->moved, &g->lock);
        }
    }
    if (rc > 0) {
        *at = g->at + sizeof *head;
        g->at += sizeof *head + head->n * g->record_bytes;
        g->feeding++;
    }
    pthread_mutex_unlock(&g->lock);
    return rc;
}

static int read_chunk(struct ts_names *g, const struct chunk *head, uint64_t at, char *buf,
                      size_t buf_bytes, struct ts_batch *b, struct ts_err *err)
{
    const uint64_t room = buf_bytes / g->record_bytes;
    for (uint64_t i = 0, n; i < head->n; i += n) {
        const char *p = buf;
        int rc;
        n = head->n - i < room ? head->n - i : room;
        rc = ts_tempfile_read(g->fd, g->conf.tmp, buf, n * g->record_bytes,
                              at + i * g->record_bytes, err);
        if (rc < 0)
            return rc;
        for (uint64_t k = i; k < i + n; k++) {
            for (uint32_t m = 0; m < b->order; m++) {
                uint64_t index;
                p = get_bytes(p, &index, g->width[m]);
                index = g->conf.named[m] ? g->mode[m].map[index] : index;
                b->index[k * b->order + m] = index;
                b->max[m] = index > b->max[m] ? index : b->max[m];
            }
            p = get_bytes(p, &b->value[k], g->conf.value_bytes);
        }
    }
    b->n = b->n_read = head->n;
    return 0;
}

int ts_names_next(struct ts_names *g, char *buf, size_t buf_bytes, struct ts_batch *b,
                  struct ts_err *err)
{
    struct chunk head;
    uint64_t at = 0;
    int rc = take_chunk(g, &head, &at, err);
    ts_batch_clear(b);
    if (rc <= 0)
        return rc < 0 ? (err != NULL ? err->code : TS_EIO) : 0;
    rc = read_chunk(g, &head, at, buf, buf_bytes, b, err);
    pthread_mutex_lock(&g->lock);
    g->feeding--;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
    return rc;
}
