/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds the tables of used indices and labels, and looks up entries in memory or in cached
 * pages. */
#include "format/row_names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/stop.h"
#include "base/files/tempfile.h"
#include "format/file_read.h"

#define PAGE_BYTES ((size_t)4096)
/* fewest pages of a cache: to look up a label, it reads a page of positions, then pages of text */
#define LEAST_PAGES 4u
#define STRIDE      16u /* every 16th label has a position; a lookup scans the labels after it */
#define PIECE_BYTES ((size_t)1 << 18)
#define MAX_TABLES  (3 * TS_MAX_ORDER)

struct ts_name_page {
    uint64_t number; /* number of the page + 1; 0: no page */
    char data[PAGE_BYTES];
};

/* ------------------------------------------------------------------ sizes of tables and caches */

/* Sets ret to the sizes of a mode's three tables (used indices, label positions, label text); 0
 * for a table that is not needed. */
static void table_sizes(const struct ts_row_names_conf *conf, uint32_t mode, uint64_t ret[3])
{
    const struct ts_disk_mode *d = &conf->tensor->mode[mode].disk;
    memset(ret, 0, 3 * sizeof *ret);
    if (d->rows_bytes > 0)
        ret[0] = d->n_rows * (d->dim <= UINT64_C(1) << 32 ? 4 : 8);
    if (conf->labels && d->labels_bytes > 0 && d->n_labels > 0) {
        ret[1] = (d->n_labels + STRIDE - 1) / STRIDE * sizeof(uint64_t);
        ret[2] = d->labels_bytes - sizeof(struct ts_disk_labels);
    }
}

static uint64_t cache_bytes(const struct ts_row_names_conf *conf, uint32_t n_pages)
{
    return (uint64_t)conf->threads * n_pages * sizeof(struct ts_name_page);
}

uint64_t ts_row_names_least(const struct ts_row_names_conf *conf)
{
    const uint64_t cache = cache_bytes(conf, LEAST_PAGES);
    uint64_t sum = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++) {
        uint64_t size[3];
        table_sizes(conf, m, size);
        for (int i = 0; i < 3; i++)
            sum += size[i] < cache ? size[i] : cache;
    }
    return sum;
}

uint64_t ts_row_names_most(const struct ts_row_names_conf *conf)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++) {
        uint64_t size[3];
        table_sizes(conf, m, size);
        sum += size[0] + size[1] + size[2];
    }
    return sum;
}

static int compare_tables(const void *a, const void *b)
{
    const struct ts_name_table *const *x = a, *const *y = b;
    return (*x)->bytes < (*y)->bytes ? -1 : (*x)->bytes > (*y)->bytes;
}

/* Divides the memory among the tables, the smallest first. A table is held in memory if it needs no
 * more than an equal part of the remaining memory; otherwise it gets a cache of that size. Sets
 * n_pages of each table, 0 for one in memory. */
static void share_memory(const struct ts_row_names_conf *conf, struct ts_row_names *r)
{
    struct ts_name_table *table[MAX_TABLES];
    uint64_t left = conf->bytes;
    uint32_t n = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++) {
        struct ts_name_table *of[3] = { &r->mode[m].index, &r->mode[m].place, &r->mode[m].text };
        for (int i = 0; i < 3; i++)
            if (of[i]->bytes > 0)
                table[n++] = of[i];
    }
    qsort(table, n, sizeof *table, compare_tables);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t share = left / (n - i);
        uint64_t used = table[i]->bytes;
        if (used > share) {
            uint32_t pages = LEAST_PAGES;
            while (cache_bytes(conf, 2 * pages) <= share && pages < UINT32_C(1) << 20)
                pages *= 2;
            table[i]->n_pages = pages;
            used = cache_bytes(conf, pages);
        }
        left -= used < left ? used : left;
    }
}

/* ------------------------------------------------------------------ filling the tables */

/* A table that is being written from its start. */
struct fill {
    struct ts_name_table *table;
    uint64_t done;
    char *buffer; /* PIECE_BYTES bytes to be written, if the table is a file */
    size_t held;
};

static int flush(struct fill *f, const char *tmp, struct ts_err *err)
{
    const int rc = ts_tempfile_write(f->table->fd, tmp, f->buffer, f->held, f->done, err);
    f->done += f->held;
    f->held = 0;
    return rc;
}

static int put_entry(struct fill *f, const void *entry, size_t bytes, const char *tmp,
                     struct ts_err *err)
{
    int rc = 0;
    if (f->table->mem != NULL) {
        memcpy((char *)f->table->mem + f->done, entry, bytes);
        f->done += bytes;
        return 0;
    }
    if (f->held + bytes > PIECE_BYTES)
        rc = flush(f, tmp, err);
    memcpy(f->buffer + f->held, entry, bytes);
    f->held += bytes;
    return rc;
}

/* Allocates the memory of a table, or creates its temporary file and caches. */
static int table_begin(const struct ts_row_names_conf *conf, struct ts_name_table *t, int file,
                       struct ts_err *err)
{
    if (t->n_pages == 0)
        t->mem = malloc(t->bytes);
    else
        t->page = calloc((size_t)conf->threads * t->n_pages, sizeof *t->page);
    if (t->mem == NULL && t->page == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: no memory for %" PRIu64 " bytes of names",
                       conf->tensor->path, t->bytes);
    if (t->mem != NULL || !file)
        return 0;
    t->path = conf->tmp;
    t->own_fd = 1;
    t->fd = -1;
    return ts_tempfile_new(conf->tmp, &t->fd, err);
}

static int fill_begin(const struct ts_row_names_conf *conf, struct ts_name_table *t,
                      struct fill *ret, struct ts_err *err)
{
    const int rc = table_begin(conf, t, 1, err);
    *ret = (struct fill){ .table = t };
    if (rc == 0 && t->mem == NULL) {
        ret->buffer = malloc(PIECE_BYTES);
        if (ret->buffer == NULL)
            return ts_no_memory(err, conf->tensor->path);
    }
    return rc;
}

static int fill_end(struct fill *f, int rc, const char *tmp, struct ts_err *err)
{
    if (rc == 0 && f->held > 0)
        rc = flush(f, tmp, err);
    free(f->buffer);
    return rc;
}

static int fill_index(const struct ts_row_names_conf *conf, struct ts_row_names *r, uint32_t mode,
                      struct ts_err *err)
{
    const uint32_t bytes = r->mode[mode].index_bytes;
    struct ts_rows_reader *in = NULL;
    struct fill f;
    int rc = fill_begin(conf, &r->mode[mode].index, &f, err);
    if (rc == 0)
        rc = ts_rows_reader_open(conf->tensor, mode, &in, err);
    while (rc == 0) {
        uint64_t index[TS_ROWS_CHUNK];
        uint32_t n = 0;
        rc = ts_stop_check(conf->stop, err);
        if (rc == 0)
            rc = ts_rows_reader_next(in, index, &n, err);
        if (rc < 0 || n == 0)
            break;
        for (uint32_t i = 0; i < n && rc == 0; i++) {
            const uint32_t small = (uint32_t)index[i];
            rc =
                put_entry(&f, bytes == 4 ? (const void *)&small : &index[i], bytes, conf->tmp, err);
        }
    }
    ts_rows_reader_close(in);
    return fill_end(&f, rc, conf->tmp, err);
}

/* State of the search for line starts in the text of labels, which arrives in pieces. */
struct lines {
    uint64_t n, start; /* number of lines begun, and position of the start of the current one */
    uint64_t most;     /* number of positions that the table has room for */
    size_t longest;
};

static int note_places(struct lines *l, const char *piece, size_t bytes, uint64_t at,
                       struct fill *f, const char *tmp, struct ts_err *err)
{
    int rc = 0;
    for (const char *p = piece, *end = piece + bytes; p < end && rc == 0;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const uint64_t place = at + (uint64_t)((stop == NULL ? end : stop) - piece);
        if (place - l->start > l->longest)
            l->longest = (size_t)(place - l->start);
        if (stop == NULL)
            break;
        if (l->n % STRIDE == 0 && l->n < l->most)
            rc = put_entry(f, &l->start, sizeof l->start, tmp, err);
        l->start = place + 1;
        l->n++;
        p = stop + 1;
    }
    return rc;
}

/* Reads the text of a mode's labels and fills its tables. Fails unless the text has as many lines
 * as the index says, each with its newline. */
static int fill_text(const struct ts_row_names_conf *conf, struct ts_row_names *r, uint32_t mode,
                     struct ts_err *err)
{
    const struct ts_mode *m = &conf->tensor->mode[mode];
    struct ts_name_table *text = &r->mode[mode].text;
    char *piece = malloc(PIECE_BYTES);
    struct lines l = { .most = m->disk.n_labels };
    struct fill f = { 0 };
    int rc = piece == NULL ? ts_no_memory(err, m->labels_path)
                           : ts_tensor_labels_check(conf->tensor, mode, err);
    text->path = m->labels_path;
    text->fd = m->labels_fd;
    text->at = sizeof(struct ts_disk_labels);
    if (rc == 0)
        rc = table_begin(conf, text, 0, err);
    if (rc == 0)
        rc = fill_begin(conf, &r->mode[mode].place, &f, err);
    for (uint64_t at = 0; at < text->bytes && rc == 0; at += PIECE_BYTES) {
        const size_t n = text->bytes - at < PIECE_BYTES ? (size_t)(text->bytes - at) : PIECE_BYTES;
        rc = ts_stop_check(conf->stop, err);
        if (rc == 0)
            rc = ts_file_read_at(text->fd, text->path, text->at + at, n, piece, err);
        if (rc == 0 && text->mem != NULL)
            memcpy((char *)text->mem + at, piece, n);
        if (rc == 0)
            rc = note_places(&l, piece, n, at, &f, conf->tmp, err);
        if (rc == 0 && l.n > m->disk.n_labels)
            break;
    }
    if (rc == 0 && (l.n != m->disk.n_labels || l.start != text->bytes))
        rc = ts_fail(err, TS_EFORMAT, "%s: it has not the %" PRIu64 " line%s that the index says",
                     m->labels_path, m->disk.n_labels, ts_num_plural(m->disk.n_labels));
    rc = fill_end(&f, rc, conf->tmp, err);
    r->mode[mode].longest = l.longest;
    r->mode[mode].n_labels = m->disk.n_labels;
    free(piece);
    return rc;
}

int ts_row_names_open(const struct ts_row_names_conf *conf, struct ts_row_names **ret,
                      struct ts_err *err)
{
    struct ts_row_names *r = calloc(1, sizeof *r);
    int rc = 0;
    if (r == NULL)
        return ts_no_memory(err, conf->tensor->path);
    r->tensor = conf->tensor;
    r->threads = conf->threads;
    for (uint32_t m = 0; m < conf->tensor->order; m++) {
        uint64_t size[3];
        table_sizes(conf, m, size);
        r->mode[m].index.bytes = size[0];
        r->mode[m].place.bytes = size[1];
        r->mode[m].text.bytes = size[2];
        r->mode[m].index_bytes =
            size[0] > 0 ? (uint32_t)(size[0] / conf->tensor->mode[m].disk.n_rows) : 0;
        r->mode[m].line = calloc(conf->threads, sizeof *r->mode[m].line);
        r->mode[m].line_room = calloc(conf->threads, sizeof *r->mode[m].line_room);
        if (r->mode[m].line == NULL || r->mode[m].line_room == NULL)
            rc = ts_no_memory(err, conf->tensor->path);
    }
    share_memory(conf, r);
    for (uint32_t m = 0; m < conf->tensor->order && rc == 0; m++) {
        if (r->mode[m].index.bytes > 0)
            rc = fill_index(conf, r, m, err);
        if (rc == 0 && r->mode[m].text.bytes > 0)
            rc = fill_text(conf, r, m, err);
    }
    if (rc == 0)
        *ret = r;
    else
        ts_row_names_close(r);
    return rc;
}

static void table_free(struct ts_name_table *t)
{
    free(t->mem);
    free(t->page);
    if (t->own_fd && t->fd >= 0)
        close(t->fd);
}

void ts_row_names_close(struct ts_row_names *r)
{
    if (r == NULL)
        return;
    for (uint32_t m = 0; m < r->tensor->order; m++) {
        table_free(&r->mode[m].index);
        table_free(&r->mode[m].place);
        table_free(&r->mode[m].text);
        for (uint32_t i = 0; r->mode[m].line != NULL && i < r->threads; i++)
            free(r->mode[m].line[i]);
        free(r->mode[m].line);
        free(r->mode[m].line_room);
    }
    free(r);
}

/* ------------------------------------------------------------------ looking up entries */

/* Points *ret to byte `at` of the table, and sets *n to the number of bytes available there: at
 * least one, and for a table in a file at most to the end of the page. */
static int look(struct ts_name_table *t, uint32_t thread, uint64_t at, const char **ret, size_t *n,
                struct ts_err *err)
{
    const uint64_t number = at / PAGE_BYTES, from = number * PAGE_BYTES;
    struct ts_name_page *page;
    size_t bytes;
    if (at >= t->bytes)
        return ts_fail(err, TS_EFORMAT, "%s: it ends in a name (did it change?)", t->path);
    if (t->mem != NULL) {
        *ret = (const char *)t->mem + at;
        *n = (size_t)(t->bytes - at);
        return 0;
    }
    page = &t->page[(uint64_t)thread * t->n_pages + (number & (t->n_pages - 1))];
    bytes = t->bytes - from < PAGE_BYTES ? (size_t)(t->bytes - from) : PAGE_BYTES;
    if (page->number != number + 1) {
        const int rc = ts_file_read_at(t->fd, t->path, t->at + from, bytes, page->data, err);
        page->number = rc == 0 ? number + 1 : 0;
        if (rc < 0)
            return rc;
    }
    *ret = page->data + (at - from);
    *n = bytes - (size_t)(at - from);
    return 0;
}

int ts_row_names_index(struct ts_row_names *r, uint32_t thread, uint32_t mode, uint64_t row,
                       uint64_t *ret, struct ts_err *err)
{
    const uint32_t bytes = r->mode[mode].index_bytes;
    const char *at = NULL;
    size_t n = 0;
    const int rc = look(&r->mode[mode].index, thread, row * bytes, &at, &n, err);
    *ret = 0;
    if (rc == 0)
        memcpy(ret, at, bytes); /* numbers are little-endian */
    return rc;
}

/* Appends text to the thread's buffer for a label. */
static int append(struct ts_row_names *r, uint32_t thread, uint32_t mode, size_t held,
                  const char *text, size_t n, struct ts_err *err)
{
    char **line = &r->mode[mode].line[thread];
    size_t *room = &r->mode[mode].line_room[thread];
    if (held + n > r->mode[mode].longest)
        return ts_fail(err, TS_EFORMAT, "%s: it changed while it was read",
                       r->mode[mode].text.path);
    if (*room < r->mode[mode].longest) {
        free(*line);
        *room = 0;
        *line = malloc(r->mode[mode].longest);
        if (*line == NULL)
            return ts_no_memory(err, r->mode[mode].text.path);
        *room = r->mode[mode].longest;
    }
    memcpy(*line + held, text, n);
    return 0;
}

int ts_row_label(struct ts_row_names *r, uint32_t thread, uint32_t mode, uint64_t index,
                 const char **ret, size_t *ret_n, struct ts_err *err)
{
    struct ts_name_table *text = &r->mode[mode].text;
    uint64_t at = 0, skip = index % STRIDE;
    const char *p = NULL;
    size_t n, held = 0;
    int rc;
    *ret = NULL;
    *ret_n = 0;
    if (index >= r->mode[mode].n_labels)
        return 0;
    rc = look(&r->mode[mode].place, thread, index / STRIDE * sizeof at, &p, &n, err);
    if (rc < 0)
        return rc;
    memcpy(&at, p, sizeof at);
    for (;;) {
        rc = look(text, thread, at, &p, &n, err);
        if (rc < 0)
            return rc;
        at += n;
        for (const char *end = p + n; p < end;) {
            const char *stop = memchr(p, '\n', (size_t)(end - p));
            const size_t piece = (size_t)((stop == NULL ? end : stop) - p);
            /* the usual case: the whole label is in one page */
            if (skip == 0 && stop != NULL && held == 0) {
                *ret = p;
                *ret_n = piece;
                return 0;
            }
            if (skip == 0) {
                rc = append(r, thread, mode, held, p, piece, err);
                if (rc < 0)
                    return rc;
                held += piece;
            }
            if (skip == 0 && stop != NULL) {
                *ret = r->mode[mode].line[thread];
                *ret_n = held;
                return 0;
            }
            skip -= stop != NULL;
            p += piece + (stop != NULL);
        }
    }
}
