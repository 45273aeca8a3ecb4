/* SPDX-License-Identifier: BSD-3-Clause */
/* name_generations.c - sorted names on disk, merged; numbers sorted twice for their indices. */
#include "source/name_generations.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stop.h"
#include "base/tempfile.h"
#include "source/string_sort.h"

#define COPY_BYTES (UINT64_C(256) << 10)

void ts_name_generations_open(struct ts_name_generations *s)
{
    memset(s, 0, sizeof *s);
    s->arena_fd = s->map_fd = -1;
}

void ts_name_generations_close(struct ts_name_generations *s)
{
    ts_string_sort_free(s->runs);
    if (s->arena_fd >= 0)
        close(s->arena_fd);
    if (s->map_fd >= 0)
        close(s->map_fd);
}

/* ------------------------------------------------------------------ a generation to disk */

/* Numbers from the start of a generation to those of the whole. */
static void renumber(struct ts_name_dictionary *d, uint64_t before)
{
    for (uint64_t at = 0; at < d->used;) {
        const uint64_t all = before + ts_string_number(d->arena + at);
        memcpy(d->arena + at, &all, sizeof all);
        at += TS_STRING_HEAD + ts_string_length(d->arena + at);
    }
}

int ts_name_generations_save(struct ts_name_generations *s, const struct ts_names_conf *conf,
                             struct ts_name_dictionary *d, struct ts_err *err)
{
    int rc = 0;
    renumber(d, s->before);
    if (s->runs == NULL)
        rc = ts_string_sort_new(conf->tmp, conf->bytes / 2, conf->stop, &s->runs, err);
    if (rc == 0 && !conf->sorted)
        ts_string_sort_by_hash(s->runs);
    if (rc == 0 && !conf->sorted && s->arena_fd < 0)
        rc = ts_tempfile_new(conf->tmp, &s->arena_fd, err);
    if (rc == 0 && !conf->sorted) /* as they came: labels will be told in this order */
        rc = ts_tempfile_write(s->arena_fd, conf->tmp, d->arena, d->used, s->arena_bytes, err);
    s->arena_bytes += d->used;
    if (rc == 0) {
        uint64_t *place = NULL;
        if (conf->sorted) {
            place = ts_name_dictionary_places(d);
            ts_string_sort_places(d->arena, place, d->n);
        } else {
            rc = ts_name_dictionary_by_hash(d, &place, err);
        }
        if (rc == 0)
            rc = ts_string_sort_run(s->runs, d->arena, place, d->n, err);
    }
    s->before += d->n;
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
static int merge_names(struct ts_name_generations *s, const struct ts_names_conf *conf, uint32_t m,
                       struct ts_string_sort *to, struct ts_err *err)
{
    char last[TS_STRING_MAX], key[16];
    uint32_t n_last = 0;
    uint64_t first = 0;
    int rc = ts_string_sort_finish(s->runs, err), any = 0;
    while (rc == 0) {
        const char *name;
        uint32_t n;
        uint64_t provisional;
        rc = ts_string_sort_next(s->runs, &name, &n, &provisional, err);
        if (rc <= 0)
            break;
        rc = 0;
        if (!any || n != n_last || memcmp(name, last, n) != 0) {
            if (conf->sorted)
                rc = conf->label(conf->label_arg, m, name, n, err);
            first = conf->sorted ? s->n_names : provisional;
            s->n_names++;
            memcpy(last, name, n);
            n_last = n;
            any = 1;
        }
        put_sortable(key, conf->sorted ? provisional : first);
        put_sortable(key + 8, provisional);
        if (rc == 0)
            rc = ts_string_sort_add(to, key, conf->sorted ? 8 : 16, first, err);
    }
    ts_string_sort_free(s->runs);
    s->runs = NULL;
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
static int write_map(struct ts_name_generations *s, const struct ts_names_conf *conf,
                     struct ts_string_sort *from, struct ts_err *err)
{
    struct stream to = { .tmp = conf->tmp, .buf = malloc(COPY_BYTES) };
    int rc = to.buf == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for names") : 0;
    uint64_t expected = 0;
    if (rc == 0)
        rc = ts_tempfile_new(conf->tmp, &s->map_fd, err);
    to.fd = s->map_fd;
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
                 ? stream_put(&to, index, 0, err)
                 : ts_fail(err, TS_EIO, "internal error: a name was lost; please report it");
    }
    if (rc == 0)
        rc = stream_put(&to, 0, 1, err);
    if (rc == 0 && expected != s->before)
        rc = ts_fail(err, TS_EIO, "internal error: names were lost; please report it");
    free(to.buf);
    return rc;
}

/* Tells the names in the order of their first numbers: those whose index is the next one. */
static int label_seen(const struct ts_name_generations *s, const struct ts_names_conf *conf,
                      uint32_t m, struct ts_err *err)
{
    const uint64_t room = COPY_BYTES / sizeof(uint64_t);
    uint64_t *map = malloc(COPY_BYTES), next = 0, at = 0, have = 0, used = 0;
    char *buf = malloc(COPY_BYTES);
    int rc = map == NULL || buf == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for names") : 0;
    for (uint64_t p = 0; p < s->before && rc == 0; p++) {
        if (p % room == 0) {
            const uint64_t n = s->before - p < room ? s->before - p : room;
            rc = ts_tempfile_read(s->map_fd, conf->tmp, map, n * sizeof *map, p * sizeof *map, err);
        }
        if (rc == 0 && have - used < TS_STRING_HEAD + TS_STRING_MAX && at < s->arena_bytes) {
            uint64_t n;
            memmove(buf, buf + used, have - used);
            have -= used;
            used = 0;
            n = s->arena_bytes - at < COPY_BYTES - have ? s->arena_bytes - at : COPY_BYTES - have;
            rc = ts_tempfile_read(s->arena_fd, conf->tmp, buf + have, n, at, err);
            have += n;
            at += n;
        }
        if (rc == 0 && map[p % room] == next) {
            rc = conf->label(conf->label_arg, m, ts_string_key(buf + used),
                             ts_string_length(buf + used), err);
            next++;
        }
        used += TS_STRING_HEAD + ts_string_length(buf + used);
        if (rc == 0 && (p & 65535) == 0)
            rc = ts_stop_check(conf->stop, err);
    }
    free(map);
    free(buf);
    return rc;
}

int ts_name_generations_end(struct ts_name_generations *s, const struct ts_names_conf *conf,
                            uint32_t m, struct ts_err *err)
{
    struct ts_string_sort *by_first = NULL, *by_number = NULL;
    int rc = ts_string_sort_new(conf->tmp, conf->bytes / 4, conf->stop, &by_number, err);
    if (rc == 0 && !conf->sorted)
        rc = ts_string_sort_new(conf->tmp, conf->bytes / 4, conf->stop, &by_first, err);
    if (rc == 0)
        rc = merge_names(s, conf, m, conf->sorted ? by_number : by_first, err);
    if (rc == 0 && !conf->sorted)
        rc = number_first(by_first, by_number, err);
    ts_string_sort_free(by_first);
    if (rc == 0)
        rc = write_map(s, conf, by_number, err);
    ts_string_sort_free(by_number);
    if (rc == 0 && !conf->sorted)
        rc = label_seen(s, conf, m, err);
    return rc;
}

int ts_name_generations_map(const struct ts_name_generations *s, const struct ts_names_conf *conf,
                            uint64_t first, uint64_t n, uint64_t *ret, struct ts_err *err)
{
    return ts_tempfile_read(s->map_fd, conf->tmp, ret, n * sizeof *ret, first * sizeof *ret, err);
}
