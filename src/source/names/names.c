/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets pieces of text add their names in turn, starts new generations of the dictionaries, and
 * keeps the file of nonzeros that wait for indices. */
#include "source/names/names.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/tempfile.h"
#include "base/setting.h"
#include "format/cell_sum.h"
#include "source/names/name_dictionary.h"
#include "source/names/name_generations.h"
#include "source/names/waiting.h"

/* Bytes of addresses, not of memory, that an arena of strings reserves beyond its budget. */
#define SPARE_ROOM (UINT64_C(64) << 20)

struct mode {
    struct ts_name_dictionary dictionary;
    struct ts_name_generations saved;
    /* after ts_names_end: the index of each name of a generation; NULL: its number is the index */
    uint64_t *map;
    uint64_t told; /* number of provisional numbers whose indices were set by ts_names_tell */
};

/* Number and bytes of the names of a mode that were seen before a file of the input. */
struct mark {
    uint64_t n, bytes;
};

struct ts_names {
    struct ts_names_conf conf;
    struct mode mode[TS_MAX_ORDER];
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t turn, generation;
    uint32_t readers;
    int emptying, failed, ended;

    /* file of nonzeros that wait for indices, in chunks: each a struct chunk, then its records */
    struct ts_waiting waiting;
    struct ts_cell_sum written, read; /* checksums of the nonzeros of that file */

    /* members used after ts_names_end */
    uint64_t at;     /* position of the next chunk in the file */
    uint64_t mapped; /* number of the generation whose indices `map` of each mode has */
    uint32_t feeding;

    /* for each generation and mode, and for the next generation: the first provisional number */
    uint64_t *first;

    /* members used if another process chooses the indices (conf.told) */
    struct mark *mark; /* for each file and mode: n_marks x order, row-major */
    uint32_t n_marks, mark_room;
    int told;
};

struct chunk {
    uint64_t generation, n;
};

void ts_names_find(const struct ts_names *g, uint32_t mode, uint32_t n, const char *const name[],
                   const uint32_t len[], uint64_t ret[])
{
    ts_name_dictionary_find(&g->mode[mode].dictionary, n, name, len, ret);
}

/* Returns the bytes that a name takes in the map from numbers to indices of ts_names_end. */
static uint64_t map_bytes(const struct ts_names *g)
{
    return g->conf.sorted || g->conf.told ? sizeof *g->mode[0].map : 0;
}

static uint64_t bytes_used(const struct ts_names *g)
{
    uint64_t bytes = 0;
    for (uint32_t m = 0; m < g->conf.order; m++) {
        const struct ts_name_dictionary *d = &g->mode[m].dictionary;
        bytes += d->used + d->slots_bytes + d->n * map_bytes(g);
    }
    return bytes;
}

/* ------------------------------------------------------------------ making the dictionaries */

int ts_names_new(const struct ts_names_conf *conf, struct ts_names **ret, struct ts_err *err)
{
    struct ts_names *g = calloc(1, sizeof *g);
    int rc = 0;
    if (g == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    g->conf = *conf;
    g->conf.sorted = conf->sorted && !conf->told;
    g->waiting = (struct ts_waiting){ .tmp = conf->tmp,
                                      .fd = -1,
                                      .entry_bytes = conf->entry_bytes,
                                      .record_bytes = conf->entry_bytes };
    g->mapped = UINT64_MAX;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->moved, NULL);
    for (uint32_t m = 0; m < conf->order; m++) {
        ts_name_generations_open(&g->mode[m].saved);
        g->waiting.width[m] = conf->named[m] ? 4 : 5;
        g->waiting.record_bytes += g->waiting.width[m];
        if (conf->named[m] && rc == 0)
            rc = ts_name_dictionary_open(&g->mode[m].dictionary, conf->bytes + SPARE_ROOM, m, err);
    }
    if (rc < 0) {
        ts_names_free(g);
        return rc;
    }
    *ret = g;
    return 0;
}

void ts_names_free(struct ts_names *g)
{
    if (g == NULL)
        return;
    for (uint32_t m = 0; m < g->conf.order; m++) {
        ts_name_dictionary_close(&g->mode[m].dictionary);
        ts_name_generations_close(&g->mode[m].saved);
        free(g->mode[m].map);
    }
    ts_fd_close(g->waiting.fd);
    free(g->first);
    free(g->mark);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->moved);
    free(g);
}

/* ------------------------------------------------------------------ starting a new generation */

/* Stores the first provisional number of generation `which` in each mode. */
static int note_first(struct ts_names *g, uint64_t which, struct ts_err *err)
{
    uint64_t *first = realloc(g->first, (which + 1) * g->conf.order * sizeof *first);
    if (first == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    g->first = first;
    for (uint32_t m = 0; m < g->conf.order; m++)
        first[which * g->conf.order + m] = g->mode[m].saved.before;
    return 0;
}

/* Waits until no thread reads the dictionaries, writes all of them to disk and clears them. Called
 * in the turn of a piece. */
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
            struct ts_name_dictionary *d = &g->mode[m].dictionary;
            rc = ts_name_generations_save(&g->mode[m].saved, &g->conf, d, err);
            if (rc == 0)
                rc = ts_name_dictionary_clear(d, err);
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

int ts_names_seed(struct ts_names *g, uint32_t m, uint32_t n_names, const char *const name[],
                  const uint32_t len[], struct ts_err *err)
{
    struct ts_name_dictionary *d = &g->mode[m].dictionary;
    uint64_t number[TS_NAMES_FIND], *to[TS_NAMES_FIND];
    uint64_t bytes = ts_name_dictionary_growth(d, n_names), n;
    int rc = 0;
    for (uint32_t i = 0; i < n_names; i++) {
        bytes += TS_STRING_HEAD + len[i] + map_bytes(g);
        to[i] = &number[i];
    }
    if (bytes_used(g) > 0 && bytes_used(g) + bytes > g->conf.bytes)
        rc = empty(g, err);
    n = d->n;
    if (rc == 0)
        rc = ts_name_dictionary_number(d, n_names, name, len, to, err);
    if (rc == 0 && d->n != n + n_names)
        rc = ts_fail(err, TS_EFORMAT, "two labels of " TS_NTH_MODE " are the same", m + 1);
    return rc;
}

/* ------------------------------------------------------------------ reading pieces of text */

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

/* Waits until all earlier pieces have added their names. Returns -1 if one of them failed, or 0. */
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

/* Returns the most memory that the new names of a batch need: for strings, entries of the map
 * from numbers to indices, and a larger hash table. */
static uint64_t bytes_wanted(const struct ts_names *g, const struct ts_batch *b)
{
    uint64_t bytes = 0;
    for (uint32_t m = 0; m < b->order; m++) {
        uint64_t n = 0;
        if (!g->conf.named[m])
            continue;
        for (uint64_t i = 0; i < b->n; i++) {
            const uint64_t index = b->index[i * b->order + m];
            if (index & TS_NAME_UNKNOWN) {
                bytes += TS_STRING_HEAD + ts_name_length(index) + map_bytes(g);
                n++;
            }
        }
        bytes += ts_name_dictionary_growth(&g->mode[m].dictionary, n);
    }
    return bytes;
}

/* Gives numbers to the names of a mode that have none yet, in the order of the batch. */
static int number_mode(struct ts_name_dictionary *d, struct ts_batch *b, uint32_t m,
                       const char *text, const char *side, struct ts_err *err)
{
    const char *name[TS_NAMES_FIND];
    uint32_t len[TS_NAMES_FIND], n = 0;
    uint64_t *to[TS_NAMES_FIND];
    int rc = 0;
    for (uint64_t i = 0; i < b->n && rc == 0; i++) {
        uint64_t *index = &b->index[i * b->order + m];
        if ((*index & TS_NAME_UNKNOWN) == 0)
            continue;
        name[n] = ts_name_text(*index, text, side);
        len[n] = ts_name_length(*index);
        to[n++] = index;
        if (n == TS_NAMES_FIND) {
            rc = ts_name_dictionary_number(d, n, name, len, to, err);
            n = 0;
        }
    }
    return rc < 0 ? rc : ts_name_dictionary_number(d, n, name, len, to, err);
}

static int resolve(struct ts_names *g, struct ts_batch *b, const char *text, const char *side,
                   struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        if (g->conf.named[m])
            rc = number_mode(&g->mode[m].dictionary, b, m, text, side, err);
    return rc;
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

/* Stores how many names were seen before each file up to `file`. */
static int note_files(struct ts_names *g, uint32_t file, struct ts_err *err)
{
    const uint32_t order = g->conf.order;
    while (g->n_marks <= file) {
        if (g->n_marks == g->mark_room) {
            const uint32_t room = 2 * g->mark_room + 64;
            struct mark *more = realloc(g->mark, (uint64_t)room * order * sizeof *more);
            if (more == NULL)
                return ts_fail(err, TS_ENOMEM, "out of memory for names");
            g->mark = more;
            g->mark_room = room;
        }
        for (uint32_t m = 0; m < order; m++) {
            const struct ts_name_dictionary *d = &g->mode[m].dictionary;
            const struct ts_name_generations *s = &g->mode[m].saved;
            g->mark[(uint64_t)g->n_marks * order + m] =
                (struct mark){ s->before + d->n, s->arena_bytes + d->used };
        }
        g->n_marks++;
    }
    return 0;
}

int ts_names_turn(struct ts_names *g, uint64_t piece, uint64_t generation, struct ts_batch *b,
                  const char *text, const char *side, int (*again)(void *arg, struct ts_err *err),
                  void *arg, int64_t *wait, struct ts_err *err)
{
    int rc = wait_turn(g, piece);
    if (rc < 0)
        return ts_fail(err, TS_ESTOP, "stopped");
    rc = g->conf.told ? note_files(g, b->file, err) : 0;
    if (rc == 0)
        rc = take_turn(g, generation, b, text, side, again, arg, err);
    *wait = -1;
    if (rc == 0 && b->n > 0 &&
        (g->conf.sorted || g->conf.waits || g->conf.told || g->generation > 0)) {
        if (g->waiting.fd < 0)
            rc = ts_tempfile_new(g->conf.tmp, &g->waiting.fd, err);
        *wait = (int64_t)g->waiting.bytes;
        g->waiting.bytes += sizeof(struct chunk) + b->n * g->waiting.record_bytes;
        if (rc == 0) {
            const struct chunk head = { .generation = g->generation, .n = b->n };
            rc = ts_tempfile_write(g->waiting.fd, g->conf.tmp, &head, sizeof head, (uint64_t)*wait,
                                   err);
        }
    }
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        if (g->conf.named[m]) {
            const uint64_t n = g->mode[m].dictionary.n;
            b->max[m] = n > 0 ? n - 1 : 0;
        }
    pass_turn(g, rc < 0);
    return rc;
}

/* ------------------------------------------------------------------ storing waiting nonzeros */

/* Adds n nonzeros of a batch, from `first` on, to a checksum. */
static void add_sum(struct ts_names *g, struct ts_cell_sum *to, const struct ts_batch *b,
                    uint64_t first, uint64_t n)
{
    struct ts_cell_sum sum = { 0 };
    if (g->conf.entry_bytes > 0)
        ts_cell_sum_rows(b->order, b->index + first * b->order, b->value + first, n, 0, &sum);
    pthread_mutex_lock(&g->lock);
    ts_cell_sum_join(to, &sum);
    pthread_mutex_unlock(&g->lock);
}

int ts_names_wait(struct ts_names *g, const struct ts_batch *b, int64_t at, struct ts_err *err)
{
    const int rc = ts_waiting_put(&g->waiting, b, (uint64_t)at + sizeof(struct chunk), err);
    add_sum(g, &g->written, b, 0, b->n);
    return rc;
}

int ts_names_check(const struct ts_names *g, struct ts_err *err)
{
    if (ts_cell_sum_same(&g->written, &g->read))
        return 0;
    return ts_fail(err, TS_EIO,
                   "%" PRIu64 " nonzeros waited for the indices of their names, and %" PRIu64
                   " came back, or others: this is a bug in tstream, please report it; nothing was "
                   "written",
                   g->written.n, g->read.n);
}

/* ------------------------------------------------------------------ the end of the input */

/* Gives indices to the names of a mode if all of them fit in memory, so that no name is on disk. */
static int end_single(struct ts_names *g, uint32_t m, struct ts_err *err)
{
    struct mode *mode = &g->mode[m];
    const struct ts_name_dictionary *d = &mode->dictionary;
    uint64_t *place = ts_name_dictionary_places(&mode->dictionary);
    int rc = 0;
    mode->saved.n_names = d->n;
    if (g->conf.sorted) {
        ts_string_sort_places(d->arena, place, d->n);
        mode->map = malloc((d->n + 1) * sizeof *mode->map);
        if (mode->map == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " names", d->n);
    }
    for (uint64_t i = 0; i < d->n && rc == 0; i++) {
        const char *at = d->arena + place[i];
        if (mode->map != NULL)
            mode->map[ts_string_number(at)] = i;
        rc = g->conf.label(g->conf.label_arg, m, ts_string_key(at), ts_string_length(at), err);
    }
    return rc;
}

int ts_names_end(struct ts_names *g, struct ts_err *err)
{
    const int merged = g->generation > 0 || g->conf.told;
    int rc = g->conf.told && g->first == NULL ? note_first(g, 0, err) : 0;
    for (uint32_t m = 0; m < g->conf.order && rc == 0 && merged; m++)
        if (g->conf.named[m])
            rc = ts_name_generations_save(&g->mode[m].saved, &g->conf, &g->mode[m].dictionary, err);
    if (rc == 0 && merged)
        rc = note_first(g, g->generation + 1, err);
    for (uint32_t m = 0; m < g->conf.order && merged; m++)
        ts_name_dictionary_close(&g->mode[m].dictionary);
    for (uint32_t m = 0; m < g->conf.order && rc == 0; m++)
        if (g->conf.named[m] && !g->conf.told)
            rc = merged ? ts_name_generations_end(&g->mode[m].saved, &g->conf, m, err)
                        : end_single(g, m, err);
    for (uint32_t m = 0; m < g->conf.order; m++)
        ts_name_dictionary_close(&g->mode[m].dictionary);
    g->mapped = merged ? g->mapped : 0;
    g->ended = 1;
    return rc;
}

uint64_t ts_names_count(const struct ts_names *g, uint32_t mode)
{
    return g->mode[mode].saved.n_names;
}

/* ------------------------------------------------------------------ indices of another process */

uint64_t ts_names_seen(const struct ts_names *g, uint32_t m, uint32_t file, uint64_t *bytes)
{
    const struct mark all = { g->mode[m].saved.before, g->mode[m].saved.arena_bytes };
    const struct mark at = file < g->n_marks ? g->mark[(uint64_t)file * g->conf.order + m] : all;
    *bytes = at.bytes;
    return at.n;
}

int ts_names_read(const struct ts_names *g, uint32_t m, uint64_t at, void *buf, size_t bytes,
                  struct ts_err *err)
{
    return ts_tempfile_read(g->mode[m].saved.arena_fd, g->conf.tmp, buf, bytes, at, err);
}

int ts_names_tell(struct ts_names *g, uint32_t m, const uint64_t *index, uint64_t count,
                  struct ts_err *err)
{
    struct mode *mode = &g->mode[m];
    const int rc = ts_name_generations_tell(&mode->saved, &g->conf, mode->told, index, count, err);
    mode->told += rc == 0 ? count : 0;
    return rc;
}

int ts_names_told(struct ts_names *g, const uint64_t n_names[], struct ts_err *err)
{
    for (uint32_t m = 0; m < g->conf.order; m++) {
        if (g->conf.named[m] && g->mode[m].told != g->mode[m].saved.before)
            return ts_fail(err, TS_EIO, "internal error: a name was lost; please report it");
        g->mode[m].saved.n_names = n_names[m];
    }
    g->told = 1;
    return 0;
}

/* ------------------------------------------------------------------ reading waiting nonzeros */

static int load_maps(struct ts_names *g, uint64_t generation, struct ts_err *err)
{
    const uint32_t order = g->conf.order;
    for (uint32_t m = 0; m < order; m++) {
        struct mode *d = &g->mode[m];
        const uint64_t first = g->first == NULL ? 0 : g->first[generation * order + m];
        const uint64_t n = g->first == NULL ? 0 : g->first[(generation + 1) * order + m] - first;
        int rc;
        if (!g->conf.named[m])
            continue;
        free(d->map);
        d->map = malloc((n + 1) * sizeof *d->map);
        if (d->map == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " names", n);
        rc = ts_name_generations_map(&d->saved, &g->conf, first, n, d->map, err);
        if (rc < 0)
            return rc;
    }
    g->mapped = generation;
    return 0;
}

/* Takes the next chunk of nonzeros that waited. Returns 1, 0 at the end, or -1 after a failure. */
static int take_chunk(struct ts_names *g, struct chunk *head, uint64_t *at, struct ts_err *err)
{
    int rc = 1;
    pthread_mutex_lock(&g->lock);
    for (;;) {
        /* the maps of a generation are replaced only when no thread uses them */
        if (g->at == g->waiting.bytes || (g->conf.told && !g->told))
            rc = 0;
        else
            rc = ts_tempfile_read(g->waiting.fd, g->conf.tmp, head, sizeof *head, g->at, err) < 0
                     ? -1
                     : 1;
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
        g->at += sizeof *head + head->n * g->waiting.record_bytes;
        g->feeding++;
    }
    pthread_mutex_unlock(&g->lock);
    return rc;
}

/* Replaces numbers by indices in mode m of n nonzeros from `first` on. This loop is separate from
 * the decoding of records, so that the processor loads many entries of the map at the same time. */
static void map_indices(const uint64_t *map, struct ts_batch *b, uint64_t first, uint64_t n,
                        uint32_t m)
{
    uint64_t most = b->max[m];
    for (uint64_t k = first; k < first + n; k++) {
        uint64_t *index = &b->index[k * b->order + m];
        *index = map != NULL ? map[*index] : *index;
        most = *index > most ? *index : most;
    }
    b->max[m] = most;
}

static int read_chunk(struct ts_names *g, const struct chunk *head, uint64_t at, char *buf,
                      size_t buf_bytes, struct ts_batch *b, struct ts_err *err)
{
    const uint64_t room = buf_bytes / g->waiting.record_bytes;
    for (uint64_t i = 0, n; i < head->n; i += n) {
        int rc;
        n = head->n - i < room ? head->n - i : room;
        rc = ts_waiting_get(&g->waiting, at + i * g->waiting.record_bytes, n, buf, b, i, err);
        if (rc < 0)
            return rc;
        add_sum(g, &g->read, b, i, n);
        for (uint32_t m = 0; m < b->order; m++)
            map_indices(g->mode[m].map, b, i, n, m);
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
