/* SPDX-License-Identifier: BSD-3-Clause */
/* Packs labels in chunks, and keeps a table with the positions of chunks. If the table gets too
 * long, every second entry is dropped. */
#include "model/labels_pack.h"

#include <inttypes.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/setting.h"
#include "base/stop.h"

#define GAP_BYTES 6u

struct pack {
    const struct ts_labels_pack_conf *conf;
    FILE *to;
    const char *path;
    uint64_t at; /* number of bytes written */
    struct ts_disk_model_labels head;
    struct ts_disk_mode_labels mode[TS_MAX_ORDER];

    /* table of chunk positions, of the mode that is being written */
    struct ts_disk_label_place place[TS_LABELS_PLACES];
    struct ts_disk_label_chunk chunk; /* the chunk that is being filled */
    uint64_t last;                    /* index of the last label that was added */
    char *raw, *packed;
    size_t raw_room, packed_room;
};

static int put(struct pack *p, const void *bytes, size_t n, struct ts_err *err)
{
    if (n > 0 && fwrite(bytes, 1, n, p->to) != n)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be written", p->path);
    p->at += n;
    return 0;
}

static int go_to(struct pack *p, uint64_t at, struct ts_err *err)
{
    p->at = at;
    return fseeko(p->to, (off_t)at, SEEK_SET) == 0
               ? 0
               : ts_fail_errno(err, TS_EIO, "%s: cannot be written", p->path);
}

static int make_room(char **buf, size_t *room, size_t want, const char *path, struct ts_err *err)
{
    size_t more = *room == 0 ? 2 * TS_LABELS_CHUNK_BYTES : *room;
    char *larger;
    if (want <= *room)
        return 0;
    while (more < want)
        more *= 2;
    larger = realloc(*buf, more);
    if (larger == NULL)
        return ts_no_memory(err, path);
    *buf = larger;
    *room = more;
    return 0;
}

/* ---- the head of the labels file ---- */

static uint32_t names_bytes(const struct ts_model_names *names)
{
    size_t n = names->order + 1;
    for (uint32_t m = 0; m <= names->order; m++)
        n += names->name[m] == NULL ? 0 : strlen(names->name[m]);
    return (uint32_t)n;
}

static uint64_t head_bytes(const struct ts_model_names *names)
{
    return sizeof(struct ts_disk_model_labels) + names->order * sizeof(struct ts_disk_mode_labels) +
           names_bytes(names) + sizeof(uint64_t);
}

static void fill_head(struct pack *p)
{
    const struct ts_model_names *names = p->conf->names;
    const struct ts_model_tensor *t = &names->tensor;
    struct ts_disk_model_labels *h = &p->head;
    memcpy(h->magic, TS_LABELS_FILE_MAGIC, sizeof h->magic);
    h->version = TS_LABELS_FILE_VERSION;
    h->order = names->order;
    h->base = names->base;
    h->names_bytes = names_bytes(names);
    h->flags = p->conf->leave_out ? TS_LABELS_LEFT_OUT : 0;
    if (p->conf->open != NULL)
        h->flags |= TS_LABELS_USED;
    if (p->conf->float32)
        h->flags |= TS_LABELS_FLOAT32;
    if (!t->known)
        return;
    h->flags |= TS_LABELS_OF_TENSOR;
    h->nnz = t->nnz;
    h->checksum = t->checksum;
    h->segments = t->segments;
    if (t->has_sum) {
        h->flags |= TS_LABELS_SUMS;
        memcpy(h->cell, t->cell, sizeof h->cell);
    }
}

/* Writes the head at the start of the file, and seeks back to the end of the file. */
static int write_head(struct pack *p, uint64_t *bytes, struct ts_err *err)
{
    const struct ts_model_names *names = p->conf->names;
    const size_t n = (size_t)head_bytes(names);
    char *head = malloc(n), *at = head;
    uint64_t hash;
    int rc;
    if (head == NULL)
        return ts_no_memory(err, p->path);
    p->head.file_bytes = *bytes = p->at;
    memcpy(at, &p->head, sizeof p->head);
    at += sizeof p->head;
    memcpy(at, p->mode, names->order * sizeof *p->mode);
    at += names->order * sizeof *p->mode;
    for (uint32_t m = 0; m <= names->order; m++) {
        const size_t length = names->name[m] == NULL ? 0 : strlen(names->name[m]);
        if (length > 0)
            memcpy(at, names->name[m], length);
        at += length;
        *at++ = '\n';
    }
    hash = XXH3_64bits(head, n - sizeof hash);
    memcpy(at, &hash, sizeof hash);
    rc = go_to(p, 0, err);
    if (rc == 0)
        rc = put(p, head, n, err);
    free(head);
    return rc == 0 ? go_to(p, *bytes, err) : rc;
}

/* Cuts the file off after the last byte written: if labels were dropped, older bytes follow. A
 * stream in memory has no file to cut. */
static int cut_off(const struct pack *p, struct ts_err *err)
{
    const int fd = fileno(p->to);
    return fflush(p->to) == 0 && (fd < 0 || ftruncate(fd, (off_t)p->at) == 0)
               ? 0
               : ts_fail_errno(err, TS_EIO, "%s: cannot be written", p->path);
}

/* ---- chunks of labels ---- */

/* Records where chunk number d->n_chunks begins, if the table has an entry for it: chunks whose
 * number is a multiple of d->stride have one. */
static void note_place(struct pack *p, struct ts_disk_mode_labels *d, uint64_t index)
{
    if (d->n_chunks % d->stride != 0)
        return;
    /* a full table keeps only every second entry */
    if (d->n_places == TS_LABELS_PLACES) {
        d->n_places /= 2;
        d->stride *= 2;
        for (uint32_t i = 0; i < d->n_places; i++)
            p->place[i] = p->place[2 * i];
        if (d->n_chunks % d->stride != 0)
            return;
    }
    p->place[d->n_places++] = (struct ts_disk_label_place){ index, p->at };
}

static int flush(struct pack *p, struct ts_disk_mode_labels *d, struct ts_err *err)
{
    const size_t head = offsetof(struct ts_disk_label_chunk, hash);
    struct ts_disk_label_chunk *c = &p->chunk;
    const int bound = LZ4_compressBound((int)c->raw_bytes);
    int n, rc;
    if (c->n_labels == 0)
        return 0;
    rc = make_room(&p->packed, &p->packed_room, head + (size_t)bound, p->path, err);
    if (rc < 0)
        return rc;
    n = LZ4_compress_default(p->raw, p->packed + head, (int)c->raw_bytes, bound);
    c->flags = n > 0 && (uint32_t)n < c->raw_bytes;
    c->stored_bytes = c->flags ? (uint32_t)n : c->raw_bytes;
    if (!c->flags)
        memcpy(p->packed + head, p->raw, c->raw_bytes);
    memcpy(p->packed, c, head);
    c->hash = XXH3_64bits(p->packed, head + c->stored_bytes);
    note_place(p, d, c->index);
    d->n_chunks++;
    rc = put(p, c, sizeof *c, err);
    if (rc == 0)
        rc = put(p, p->packed + head, c->stored_bytes, err);
    memset(c, 0, sizeof *c);
    return rc == 0 ? ts_stop_check(p->conf->stop, err) : rc;
}

static int add(struct pack *p, struct ts_disk_mode_labels *d, uint64_t index, const char *text,
               size_t n, struct ts_err *err)
{
    struct ts_disk_label_chunk *c = &p->chunk;
    uint64_t gap = c->n_labels == 0 ? 0 : index - p->last - 1;
    int rc = make_room(&p->raw, &p->raw_room, c->raw_bytes + GAP_BYTES + n + 1, p->path, err);
    if (rc < 0)
        return rc;
    if (c->n_labels == 0)
        c->index = index;
    for (; gap >= 128; gap >>= 7)
        p->raw[c->raw_bytes++] = (char)(gap | 128);
    p->raw[c->raw_bytes++] = (char)gap;
    memcpy(p->raw + c->raw_bytes, text, n);
    c->raw_bytes += (uint32_t)n;
    p->raw[c->raw_bytes++] = '\n';
    c->n_labels++;
    d->n_labels++;
    p->last = index;
    return c->raw_bytes >= TS_LABELS_CHUNK_BYTES ? flush(p, d, err) : 0;
}

/* ---- the labels of a mode ---- */

/* The rows of a mode that are written. */
struct rows {
    ts_labels_row_fn *next;
    void *from; /* argument of `next`; NULL: all rows */
    uint64_t index;
    int there; /* 1: `index` is the index of the next row; 0: no row is left */
};

/* Whether the model has a row for an index. Indices must be passed in ascending order. */
static int has_row(struct rows *r, uint64_t index, struct ts_err *err)
{
    if (r->from == NULL)
        return 1;
    while (r->there > 0 && r->index < index) {
        r->there = r->next(r->from, &r->index, err);
        if (r->there < 0)
            return r->there;
    }
    return r->there > 0 && r->index == index;
}

/* Adds all labels of a mode. *source := 1 if reading labels failed; 0 otherwise, also if writing
 * them failed. */
static int add_labels(struct pack *p, struct ts_disk_mode_labels *d, struct ts_names_walk *w,
                      struct rows *r, int *source, struct ts_err *err)
{
    const char *text;
    uint64_t index = 0;
    size_t n;
    for (;;) {
        int rc = ts_names_walk_next(w, &index, &text, &n, err);
        *source = rc < 0;
        if (rc < 0 || text == NULL || index >= d->dim)
            return rc;
        if (n > TS_LABELS_MOST_BYTES) /* a label that is longer than a chunk can be is left out */
            continue;
        rc = has_row(r, index, err);
        *source = rc < 0;
        if (rc > 0)
            rc = add(p, d, index, text, n, err);
        if (rc < 0)
            return rc;
        if (r->from != NULL && r->there == 0)
            return 0;
    }
}

static int fill_mode(struct pack *p, uint32_t mode, int *source, struct ts_err *err)
{
    const struct ts_labels_pack_conf *conf = p->conf;
    struct rows rows = { .next = conf->row, .there = 1 };
    struct ts_names_walk *w = NULL;
    int rc = ts_names_walk_open(conf->names, mode, &w, err);
    if (rc == 0 && conf->open != NULL)
        rc = conf->open(conf->ctx, mode, &rows.from, err);
    *source = rc < 0;
    if (rc == 0 && rows.from != NULL)
        rows.there = rc = conf->row(rows.from, &rows.index, err);
    if (rc >= 0)
        rc = add_labels(p, &p->mode[mode], w, &rows, source, err);
    if (rc == 0)
        rc = flush(p, &p->mode[mode], err);
    if (rows.from != NULL)
        conf->close(rows.from);
    ts_names_walk_close(w);
    return rc;
}

static void start_mode(struct pack *p, uint32_t mode)
{
    p->mode[mode] =
        (struct ts_disk_mode_labels){ .dim = p->conf->names->dim[mode], .at = p->at, .stride = 1 };
    memset(&p->chunk, 0, sizeof p->chunk);
}

static int put_mode(struct pack *p, uint32_t mode, struct ts_err *warn, struct ts_err *err)
{
    struct ts_disk_mode_labels *d = &p->mode[mode];
    struct ts_err why = { 0 };
    int source = 0, rc = 0;
    start_mode(p, mode);
    if (!p->conf->leave_out && p->conf->names->n_labels[mode] > 0)
        rc = fill_mode(p, mode, &source, &why);
    if (rc < 0 && source && rc != TS_ENOMEM) {
        ts_fail(warn, rc, "%s; labels of " TS_NTH_MODE " are left out of the model", why.text,
                mode + 1);
        rc = go_to(p, d->at, err);
        start_mode(p, mode);
    } else if (rc < 0 && err != NULL) {
        *err = why;
    }
    d->bytes = p->at - d->at;
    d->places_hash = XXH3_64bits(p->place, d->n_places * sizeof *p->place);
    return rc == 0 ? put(p, p->place, d->n_places * sizeof *p->place, err) : rc;
}

int ts_labels_pack(const struct ts_labels_pack_conf *conf, FILE *to, const char *path,
                   uint64_t *bytes, struct ts_err *warn, struct ts_err *err)
{
    struct pack *p = calloc(1, sizeof *p);
    int rc;
    if (p == NULL)
        return ts_no_memory(err, path);
    p->conf = conf;
    p->to = to;
    p->path = path;
    fill_head(p);
    rc = go_to(p, head_bytes(conf->names), err);
    for (uint32_t m = 0; m < conf->names->order && rc == 0; m++)
        rc = put_mode(p, m, warn, err);
    if (rc == 0)
        rc = write_head(p, bytes, err);
    if (rc == 0)
        rc = cut_off(p, err);
    free(p->raw);
    free(p->packed);
    free(p);
    return rc;
}
