/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives indices to a list of names. The names go to a struct ts_names as if they were pieces of a
 * table with one column, and the indices are read at the end. */
#include "source/names/name_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "source/names/string_sort.h"

#define TEXT_BYTES ((size_t)64 << 10)
#define READ_BYTES ((size_t)16 << 10)

struct ts_name_list {
    struct ts_names *names;
    const volatile sig_atomic_t *stop;
    struct ts_batch batch;
    uint64_t pieces, at; /* at: number of names of the batch whose indices were returned */
    size_t have;         /* number of bytes of names in `text` */
    size_t whole;        /* how many of these bytes belong to names that are complete */
    char read[READ_BYTES], text[TEXT_BYTES];
};

int ts_name_list_new(const struct ts_names_conf *conf, struct ts_name_list **ret,
                     struct ts_err *err)
{
    struct ts_name_list *l = calloc(1, sizeof *l);
    struct ts_names_conf one = *conf;
    int rc;
    if (l == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    one.order = 1;
    one.entry_bytes = 0;
    memset(one.named, 0, sizeof one.named);
    one.named[0] = one.waits = 1;
    one.told = 0;
    l->stop = conf->stop;
    rc = ts_batch_new(1, TEXT_BYTES / TS_STRING_HEAD, &l->batch, err);
    if (rc == 0)
        rc = ts_names_new(&one, &l->names, err);
    if (rc < 0) {
        ts_name_list_free(l);
        return rc;
    }
    *ret = l;
    return 0;
}

void ts_name_list_free(struct ts_name_list *l)
{
    if (l == NULL)
        return;
    ts_names_free(l->names);
    ts_batch_free(&l->batch);
    free(l);
}

static void find_names(struct ts_name_list *l, uint64_t first, uint64_t end)
{
    const char *name[TS_NAMES_FIND];
    uint32_t len[TS_NAMES_FIND];
    for (uint64_t i = first; i < end; i++) {
        name[i - first] = ts_name_text(l->batch.index[i], l->text, NULL);
        len[i - first] = ts_name_length(l->batch.index[i]);
    }
    ts_names_find(l->names, 0, (uint32_t)(end - first), name, len, l->batch.index + first);
}

/* Makes a batch of the whole names in `text`. */
static int fill(void *arg, struct ts_err *err)
{
    struct ts_name_list *l = arg;
    struct ts_batch *b = &l->batch;
    size_t at = 0;
    ts_batch_clear(b);
    while (l->have - at >= TS_STRING_HEAD) {
        const uint32_t n = ts_string_length(l->text + at);
        if (n > TS_STRING_MAX)
            return ts_fail(err, TS_EIO, "internal error: a name of %u bytes came; please report it",
                           n);
        if (l->have - at < TS_STRING_HEAD + n)
            break;
        b->index[b->n++] = ts_name_at(at + TS_STRING_HEAD, n);
        at += TS_STRING_HEAD + n;
    }
    for (uint64_t i = 0, n; i < b->n; i += n) {
        n = b->n - i < TS_NAMES_FIND ? b->n - i : TS_NAMES_FIND;
        find_names(l, i, i + n);
    }
    b->n_read = b->n;
    l->whole = at;
    return 0;
}

static int number_text(struct ts_name_list *l, struct ts_err *err)
{
    const uint64_t generation = ts_names_enter(l->names);
    int64_t wait = -1;
    int rc = fill(l, err);
    ts_names_leave(l->names);
    if (rc == 0)
        rc = ts_names_turn(l->names, l->pieces++, generation, &l->batch, l->text, NULL, fill, l,
                           &wait, err);
    if (rc == 0 && wait >= 0)
        rc = ts_names_wait(l->names, &l->batch, wait, err);
    memmove(l->text, l->text + l->whole, l->have - l->whole);
    l->have -= l->whole;
    return rc == 0 ? ts_stop_check(l->stop, err) : rc;
}

int ts_name_list_add(struct ts_name_list *l, const char *bytes, size_t n, struct ts_err *err)
{
    int rc = 0;
    while (n > 0 && rc == 0) {
        const size_t room = TEXT_BYTES - l->have, now = n < room ? n : room;
        memcpy(l->text + l->have, bytes, now);
        l->have += now;
        bytes += now;
        n -= now;
        if (l->have == TEXT_BYTES)
            rc = number_text(l, err);
    }
    return rc;
}

int ts_name_list_end(struct ts_name_list *l, struct ts_err *err)
{
    int rc = l->have > 0 ? number_text(l, err) : 0;
    if (rc == 0 && l->have > 0)
        rc = ts_fail(err, TS_EIO, "internal error: half a name came; please report it");
    ts_batch_clear(&l->batch);
    return rc == 0 ? ts_names_end(l->names, err) : rc;
}

int ts_name_list_next(struct ts_name_list *l, uint64_t *index, uint64_t n, struct ts_err *err)
{
    struct ts_batch *b = &l->batch;
    for (uint64_t i = 0, take; i < n; i += take) {
        if (l->at == b->n) {
            const int rc = ts_names_next(l->names, l->read, sizeof l->read, b, err);
            if (rc < 0)
                return rc;
            l->at = 0;
            if (b->n == 0)
                return ts_fail(err, TS_EIO,
                               "internal error: more names are requested than came; please "
                               "report it");
        }
        take = b->n - l->at < n - i ? b->n - l->at : n - i;
        memcpy(index + i, b->index + l->at, take * sizeof *index);
        l->at += take;
    }
    return 0;
}

uint64_t ts_name_list_count(const struct ts_name_list *l)
{
    return ts_names_count(l->names, 0);
}
