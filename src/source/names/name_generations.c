/* SPDX-License-Identifier: BSD-3-Clause */
/* name_generations.c - merges the sorted names of all generations (full dictionaries) on disk, and
 * gives each name an index, by two sorts of numbers. */
#include "source/names/name_generations.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/stop.h"
#include "base/files/tempfile.h"
#include "source/names/number_pairs.h"
#include "source/names/string_sort.h"

#define COPY_BYTES (UINT64_C(256) << 10)
#define NONE       UINT64_MAX

void ts_name_generations_open(struct ts_name_generations *s)
{
    memset(s, 0, sizeof *s);
    s->arena_fd = s->map_fd = -1;
}

void ts_name_generations_close(struct ts_name_generations *s)
{
    ts_string_sort_free(s->runs);
    ts_fd_close(s->arena_fd);
    ts_fd_close(s->map_fd);
}

/* ------------------------------------------------------------------ saving one generation */

/* Adds `before`, the count of numbers of earlier generations, to the numbers of this generation's
 * names, so that they are unique. */
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
    if (s->runs == NULL && !conf->told)
        rc = ts_string_sort_new(conf->tmp, conf->bytes / 2, conf->stop, &s->runs, err);
    if (rc == 0 && !conf->sorted && !conf->told)
        ts_string_sort_by_hash(s->runs);
    if (rc == 0 && !conf->sorted && s->arena_fd < 0)
        rc = ts_tempfile_new(conf->tmp, &s->arena_fd, err);
    if (rc == 0 && !conf->sorted) /* label_seen reads the names in the order of their numbers */
        rc = ts_tempfile_write(s->arena_fd, conf->tmp, d->arena, d->used, s->arena_bytes, err);
    s->arena_bytes += d->used;
    if (rc == 0 && !conf->told) {
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

/* ------------------------------------------------------------------ merging all generations */

/* Merges the names of all generations. If names are sorted, gives each provisional number its
 * index. Otherwise pairs the first number of each name with all numbers of the name. */
static int merge_names(struct ts_name_generations *s, const struct ts_names_conf *conf, uint32_t m,
                       struct ts_number_pairs *to, struct ts_err *err)
{
    char last[TS_STRING_MAX];
    uint32_t n_last = 0;
    uint64_t first = 0;
    int rc = ts_string_sort_end(s->runs, err);
    while (rc == 0) {
        const char *name;
        uint32_t n;
        uint64_t provisional;
        rc = ts_string_sort_next(s->runs, &name, &n, &provisional, err);
        if (rc <= 0)
            break;
        rc = 0;
        if (s->n_names == 0 || n != n_last || memcmp(name, last, n) != 0) {
            if (conf->sorted)
                rc = conf->label(conf->label_arg, m, name, n, err);
            first = provisional;
            s->n_names++;
            memcpy(last, name, n);
            n_last = n;
        }
        if (rc == 0)
            rc = ts_number_pairs_add(to,
                                     conf->sorted
                                         ? (struct ts_number_pair){ provisional, s->n_names - 1 }
                                         : (struct ts_number_pair){ first, provisional },
                                     err);
    }
    ts_string_sort_free(s->runs);
    s->runs = NULL;
    return rc;
}

/* A range of provisional numbers of names, from `base` on. `of` has for each number the value that
 * it is paired with, or NONE. */
struct range {
    uint64_t base, n, *of;
    struct ts_number_pairs *to;
};

static int range_new(const struct ts_number_pairs *from, struct range *r, struct ts_err *err)
{
    r->of = malloc(ts_number_pairs_range(from) * sizeof *r->of);
    return r->of == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for numbering names") : 0;
}

/* Sets *r to range number `which` of the numbers below `end`. Returns 0 if there is none. */
static int range_next(const struct ts_number_pairs *from, uint64_t which, uint64_t end,
                      struct range *r)
{
    const uint64_t most = ts_number_pairs_range(from);
    r->base = which * most;
    r->n = r->base >= end ? 0 : end - r->base < most ? end - r->base : most;
    memset(r->of, 0xff, r->n * sizeof *r->of);
    return r->n > 0;
}

static int take_values(void *arg, const struct ts_number_pair *pair, uint64_t n, struct ts_err *err)
{
    struct range *r = arg;
    (void)err;
    for (uint64_t i = 0; i < n; i++)
        r->of[pair[i].number - r->base] = pair[i].value;
    return 0;
}

/* Passes the index of a name's first number on to all numbers of the name, which are the values of
 * the pairs. */
static int pass_on(void *arg, const struct ts_number_pair *pair, uint64_t n, struct ts_err *err)
{
    struct range *r = arg;
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        const struct ts_number_pair p = { pair[i].value, r->of[pair[i].number - r->base] };
        rc = ts_number_pairs_add(r->to, p, err);
    }
    return rc;
}

/* Gives indices to names in the ascending order of their first numbers, which is the order in which
 * names were first seen. */
static int number_first(const struct ts_name_generations *s, struct ts_number_pairs *from,
                        struct ts_number_pairs *to, struct ts_err *err)
{
    struct range r = { .to = to };
    uint64_t index = 0;
    int rc = range_new(from, &r, err);
    for (uint64_t k = 0; rc == 0 && range_next(from, k, s->before, &r); k++) {
        rc = ts_number_pairs_read(from, k, take_values, &r, err);
        for (uint64_t i = 0; i < r.n; i++)
            if (r.of[i] != NONE)
                r.of[i] = index++;
        if (rc == 0)
            rc = ts_number_pairs_read(from, k, pass_on, &r, err);
    }
    free(r.of);
    return rc;
}

/* Writes a file with the index of the name that each provisional number stands for, in the order of
 * the numbers. */
static int write_map(struct ts_name_generations *s, const struct ts_names_conf *conf,
                     struct ts_number_pairs *from, struct ts_err *err)
{
    struct range r = { 0 };
    int rc = range_new(from, &r, err);
    if (rc == 0)
        rc = ts_tempfile_new(conf->tmp, &s->map_fd, err);
    for (uint64_t k = 0; rc == 0 && range_next(from, k, s->before, &r); k++) {
        rc = ts_number_pairs_read(from, k, take_values, &r, err);
        for (uint64_t i = 0; i < r.n && rc == 0; i++)
            if (r.of[i] == NONE)
                rc = ts_fail(err, TS_EIO, "internal error: a name was lost; please report it");
        if (rc == 0)
            rc = ts_tempfile_write(s->map_fd, conf->tmp, r.of, r.n * sizeof *r.of,
                                   r.base * sizeof *r.of, err);
    }
    free(r.of);
    return rc;
}

/* Passes each name once to conf->label, in the order of the indices. The arena file has the names
 * in the order of their numbers; a name is new if its index is the next one. */
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
    const uint64_t bytes = conf->bytes / 4;
    struct ts_number_pairs *by_first = NULL, *by_number = NULL;
    int rc = ts_number_pairs_new(conf->tmp, s->before, bytes, conf->stop, &by_number, err);
    if (rc == 0 && !conf->sorted)
        rc = ts_number_pairs_new(conf->tmp, s->before, bytes, conf->stop, &by_first, err);
    if (rc == 0)
        rc = merge_names(s, conf, m, conf->sorted ? by_number : by_first, err);
    if (rc == 0 && !conf->sorted)
        rc = number_first(s, by_first, by_number, err);
    ts_number_pairs_free(by_first);
    if (rc == 0)
        rc = write_map(s, conf, by_number, err);
    ts_number_pairs_free(by_number);
    if (rc == 0 && !conf->sorted)
        rc = label_seen(s, conf, m, err);
    return rc;
}

int ts_name_generations_tell(struct ts_name_generations *s, const struct ts_names_conf *conf,
                             uint64_t first, const uint64_t *index, uint64_t n, struct ts_err *err)
{
    const int rc = s->map_fd < 0 ? ts_tempfile_new(conf->tmp, &s->map_fd, err) : 0;
    return rc < 0 ? rc
                  : ts_tempfile_write(s->map_fd, conf->tmp, index, n * sizeof *index,
                                      first * sizeof *index, err);
}

int ts_name_generations_map(const struct ts_name_generations *s, const struct ts_names_conf *conf,
                            uint64_t first, uint64_t n, uint64_t *ret, struct ts_err *err)
{
    return ts_tempfile_read(s->map_fd, conf->tmp, ret, n * sizeof *ret, first * sizeof *ret, err);
}
