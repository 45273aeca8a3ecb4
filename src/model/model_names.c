/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes names from a tensor, a file or the arrays of a library caller, and reads labels. */
#include "model/model_names.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "base/stop.h"
#include "format/label_lines.h"
#include "format/mode_names.h"
#include "format/tensor_sums.h"
#include "model/labels_pack.h"

/* ---- allocation of names ---- */

/* Protects of_tensors, the list of those names that come from tensors and are in use. Models of the
 * same tensor share them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ts_model_names *of_tensors;

static int copy_name(const char *from, char **to)
{
    *to = from == NULL || from[0] == '\0' ? NULL : strdup(from);
    return from == NULL || from[0] == '\0' || *to != NULL;
}

static void free_names(struct ts_model_names *n)
{
    for (uint32_t m = 0; m <= TS_MAX_ORDER; m++)
        free(n->name[m]);
    ts_tensor_close(n->from);
    ts_labels_file_close(n->file);
    free(n);
}

static struct ts_model_names *new_names(uint32_t order, uint32_t base, struct ts_err *err)
{
    struct ts_model_names *n = calloc(1, sizeof *n);
    if (n == NULL) {
        ts_fail(err, TS_ENOMEM, "out of memory for names");
        return NULL;
    }
    n->order = order;
    n->base = base;
    atomic_init(&n->users, 1);
    return n;
}

struct ts_model_names *ts_model_names_keep(struct ts_model_names *n)
{
    if (n != NULL)
        atomic_fetch_add(&n->users, 1);
    return n;
}

void ts_model_names_drop(struct ts_model_names *n)
{
    struct ts_model_names **at = &of_tensors;
    if (n == NULL)
        return;
    pthread_mutex_lock(&lock);
    if (atomic_fetch_sub(&n->users, 1) > 1) {
        pthread_mutex_unlock(&lock);
        return;
    }
    while (*at != NULL && *at != n)
        at = &(*at)->next;
    if (*at != NULL)
        *at = n->next;
    pthread_mutex_unlock(&lock);
    free_names(n);
}

/* ---- names from a tensor ---- */

/* Makes a struct ts_tensor with nothing but the open label files, which ts_tensor_labels reads. */
static int keep_files(const struct ts_tensor *t, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_tensor *own = calloc(1, sizeof *own);
    if (own == NULL)
        return ts_no_memory(err, t->path);
    own->order = t->order;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        own->mode[m].rows_fd = own->mode[m].labels_fd = own->mode[m].shards_fd = -1;
    *ret = own;
    own->path = strdup(t->path);
    if (own->path == NULL)
        return ts_no_memory(err, t->path);
    for (uint32_t m = 0; m < t->order; m++) {
        const struct ts_mode *from = &t->mode[m];
        struct ts_mode *to = &own->mode[m];
        to->disk = from->disk;
        if (from->labels_fd < 0)
            continue;
        to->labels_path = strdup(from->labels_path);
        if (to->labels_path == NULL)
            return ts_no_memory(err, t->path);
        to->labels_fd = fcntl(from->labels_fd, F_DUPFD_CLOEXEC, 0);
        if (to->labels_fd < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot be kept open", from->labels_path);
    }
    return 0;
}

static struct ts_model_tensor tensor_of(const struct ts_tensor *t)
{
    struct ts_model_tensor ret = { .known = 1, .nnz = t->nnz, .checksum = t->hash, .segments = 1 };
    struct ts_tensor_sums sums;
    struct ts_err none;
    if (t->dir != NULL && t->dense == NULL && ts_tensor_sums_read(t, &sums, &none) > 0) {
        ret.has_sum = 1;
        memcpy(ret.cell, sums.cells.word, sizeof ret.cell);
    }
    return ret;
}

static int make_of_tensor(const struct ts_tensor *t, struct ts_model_names **ret,
                          struct ts_err *err)
{
    struct ts_model_names *n = new_names(t->order, ts_tensor_base(t), err);
    int rc;
    if (n == NULL)
        return TS_ENOMEM;
    rc = keep_files(t, &n->from, err);
    for (uint32_t m = 0; m <= t->order && rc == 0; m++)
        if (!copy_name(t->name[m], &n->name[m]))
            rc = ts_no_memory(err, t->path);
    for (uint32_t m = 0; m < t->order; m++) {
        n->dim[m] = t->mode[m].disk.dim;
        n->n_labels[m] = t->mode[m].disk.labels_bytes > 0 ? t->mode[m].disk.n_labels : 0;
    }
    n->tensor = tensor_of(t);
    if (rc == 0)
        *ret = n;
    else
        free_names(n);
    return rc;
}

static int same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Whether names n belong to tensor t. The checksum identifies its labels; names of modes are
 * compared. Names of a dense tensor are never shared, because its checksum does not cover them. */
static int are_of(const struct ts_model_names *n, const struct ts_tensor *t)
{
    int same = t->dense == NULL && n->tensor.checksum == t->hash && n->order == t->order &&
               n->tensor.nnz == t->nnz && n->base == ts_tensor_base(t) &&
               strcmp(n->from->path, t->path) == 0;
    for (uint32_t m = 0; m <= t->order && same; m++)
        same = same_text(n->name[m], t->name[m]) &&
               (m == t->order || n->dim[m] == t->mode[m].disk.dim);
    return same;
}

int ts_model_names_of_tensor(const struct ts_tensor *t, struct ts_model_names **ret,
                             struct ts_err *err)
{
    struct ts_model_names *n;
    int rc = 0;
    pthread_mutex_lock(&lock);
    for (n = of_tensors; n != NULL && !are_of(n, t); n = n->next)
        continue;
    if (n != NULL) {
        *ret = ts_model_names_keep(n);
    } else {
        rc = make_of_tensor(t, &n, err);
        if (rc == 0) {
            n->next = of_tensors;
            of_tensors = n;
            *ret = n;
        }
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

/* ---- names from a file ---- */

/* Makes names from the labels file f. Takes f over, even if it fails. */
static int make_of_file(struct ts_labels_file *f, struct ts_model_names **ret, struct ts_err *err)
{
    const struct ts_disk_model_labels *h = &f->head;
    struct ts_model_names *n = new_names(h->order, h->base, err);
    int rc = 0;
    if (n == NULL) {
        ts_labels_file_close(f);
        return TS_ENOMEM;
    }
    n->file = f;
    n->float32 = (h->flags & TS_LABELS_FLOAT32) != 0;
    for (uint32_t m = 0; m <= h->order && rc == 0; m++)
        if (!copy_name(f->name[m], &n->name[m]))
            rc = ts_no_memory(err, f->path);
    for (uint32_t m = 0; m < h->order; m++) {
        n->dim[m] = f->mode[m].dim;
        n->n_labels[m] = f->mode[m].n_labels;
    }
    n->tensor = (struct ts_model_tensor){ .known = (h->flags & TS_LABELS_OF_TENSOR) != 0,
                                          .nnz = h->nnz,
                                          .checksum = h->checksum,
                                          .has_sum = (h->flags & TS_LABELS_SUMS) != 0,
                                          .cell = { h->cell[0], h->cell[1] },
                                          .segments = h->segments };
    if (rc == 0)
        *ret = n;
    else
        free_names(n);
    return rc;
}

int ts_model_names_read(const struct ts_open_dir *dir, struct ts_model_names **ret,
                        struct ts_err *err)
{
    struct ts_labels_file *f = NULL;
    const int rc = ts_labels_file_open(dir, &f, err);
    *ret = NULL;
    return rc <= 0 ? rc : make_of_file(f, ret, err);
}

/* ---- walks over labels ---- */

/* A walk over labels in the arrays of a library caller. */
struct given {
    const struct ts_model_names_conf *conf;
    uint32_t mode;
    uint64_t at;
};

struct ts_names_walk {
    struct ts_labels_walk *file;
    struct ts_label_lines *lines;
    uint64_t line; /* number of the next line of the label file */
    struct given given;
};

int ts_names_walk_open(const struct ts_model_names *names, uint32_t mode,
                       struct ts_names_walk **ret, struct ts_err *err)
{
    struct ts_names_walk *w = calloc(1, sizeof *w);
    int rc = 0;
    if (w == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    if (names->given != NULL)
        w->given = (struct given){ names->given, mode, 0 };
    else if (names->file != NULL)
        rc = ts_labels_walk_open(names->file, mode, &w->file, err);
    else
        rc = ts_label_lines_open(names->from, mode, &w->lines, err);
    if (rc == 0)
        *ret = w;
    else
        ts_names_walk_close(w);
    return rc;
}

static int next_given(struct given *g, uint64_t *index, const char **text, size_t *n,
                      struct ts_err *err)
{
    const struct ts_model_names_conf *c = g->conf;
    const uint64_t *map = c->index == NULL ? NULL : c->index[g->mode];
    while (g->at < c->n_labels[g->mode] && c->label[g->mode][g->at] == NULL)
        g->at++;
    *text = NULL;
    if (g->at == c->n_labels[g->mode])
        return 0;
    *index = map == NULL ? g->at : map[g->at];
    *text = c->label[g->mode][g->at++];
    *n = strlen(*text);
    return memchr(*text, '\n', *n) == NULL
               ? 0
               : ts_fail(err, TS_EARG, "a label of two lines is not possible");
}

int ts_names_walk_next(struct ts_names_walk *w, uint64_t *index, const char **text, size_t *n,
                       struct ts_err *err)
{
    *text = NULL;
    *n = 0;
    if (w->given.conf != NULL)
        return next_given(&w->given, index, text, n, err);
    if (w->file != NULL)
        return ts_labels_walk_next(w->file, index, text, n, err);
    if (w->lines == NULL)
        return 0;
    *index = w->line++;
    return ts_label_lines_next(w->lines, text, n, err);
}

void ts_names_walk_close(struct ts_names_walk *w)
{
    if (w == NULL)
        return;
    ts_labels_walk_close(w->file);
    ts_label_lines_close(w->lines);
    free(w);
}

/* ---- names from a library caller ---- */

static int check_given(const struct ts_model_names_conf *c, struct ts_err *err)
{
    for (uint32_t m = 0; m < c->order; m++) {
        const uint64_t n = c->label == NULL || c->label[m] == NULL ? 0 : c->n_labels[m];
        const uint64_t *index = c->index == NULL ? NULL : c->index[m];
        for (uint64_t i = 1; i < n && index != NULL; i++)
            if (index[i] <= index[i - 1])
                return ts_fail(err, TS_EARG, "the indices of labels must ascend");
        if (n > 0 && (index == NULL ? n : index[n - 1] + 1) > c->dim[m])
            return ts_fail(err, TS_EARG, "there are labels beyond the last index of a mode");
    }
    for (uint32_t m = 0; m <= c->order && c->name != NULL; m++)
        if (c->name[m] != NULL &&
            (strlen(c->name[m]) > TS_MODE_NAME_MAX || strchr(c->name[m], '\n') != NULL))
            return ts_fail(err, TS_EARG, "the name of a mode is one line of at most %u bytes",
                           TS_MODE_NAME_MAX);
    return 0;
}

/* Packs the labels of a library caller into a labels file in memory. */
static int pack_given(const struct ts_model_names *n, struct ts_labels_file **ret,
                      struct ts_err *err)
{
    const struct ts_labels_pack_conf conf = { .names = n };
    struct ts_err warn = { 0 };
    char *bytes = NULL;
    size_t room = 0;
    uint64_t used = 0;
    FILE *f = open_memstream(&bytes, &room);
    int rc;
    if (f == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for names");
    rc = ts_labels_pack(&conf, f, "labels in memory", &used, &warn, err);
    if (fclose(f) != 0 && rc == 0)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for names");
    if (rc == 0 && warn.code != 0) {
        rc = warn.code;
        if (err != NULL)
            *err = warn;
    }
    if (rc == 0)
        return ts_labels_file_take(bytes, (size_t)used, ret, err);
    free(bytes);
    return rc;
}

int ts_model_names_new(const struct ts_model_names_conf *conf, struct ts_model_names **ret,
                       struct ts_err *err)
{
    struct ts_model_names *n = NULL;
    struct ts_labels_file *f = NULL;
    int rc = check_given(conf, err);
    if (rc < 0)
        return rc;
    n = new_names(conf->order, conf->base, err);
    if (n == NULL)
        return TS_ENOMEM;
    n->given = conf;
    n->tensor = conf->tensor;
    for (uint32_t m = 0; m < conf->order; m++) {
        n->dim[m] = conf->dim[m];
        n->n_labels[m] = conf->label == NULL || conf->label[m] == NULL ? 0 : conf->n_labels[m];
    }
    for (uint32_t m = 0; m <= conf->order && rc == 0; m++)
        if (conf->name != NULL && !copy_name(conf->name[m], &n->name[m]))
            rc = ts_fail(err, TS_ENOMEM, "out of memory for names");
    if (rc == 0)
        rc = pack_given(n, &f, err);
    free_names(n);
    return rc == 0 ? make_of_file(f, ret, err) : rc;
}

/* ---- labels of given indices ---- */

int ts_model_names_labels(const struct ts_model_names *names, uint32_t mode, uint64_t n,
                          const uint64_t *index, char **ret, struct ts_err *err)
{
    if (names->file != NULL)
        return ts_labels_file_get(names->file, mode, n, index, ret, err);
    return ts_tensor_labels(names->from, mode, n, index, ret, err);
}

/* ---- whether a model and a tensor have the same labels ---- */

#define LOOKS       4096 /* number of labels between two checks of the stop flag */
#define SHOWN_BYTES 64   /* most bytes of a label that a message shows */

/* A label of the model or of the tensor, and its index. */
struct label_at {
    uint64_t index;
    const char *text; /* NULL: there are no more labels */
    size_t n;
};

static int step(struct ts_names_walk *w, struct label_at *l, struct ts_err *err)
{
    return ts_names_walk_next(w, &l->index, &l->text, &l->n, err);
}

static int shown(const struct label_at *l)
{
    size_t n = l->n < SHOWN_BYTES ? l->n : SHOWN_BYTES;
    while (n > 0 && n < l->n && ((unsigned char)l->text[n] & 0xc0) == 0x80)
        n--; /* does not end in the middle of a UTF-8 character */
    return (int)n;
}

/* Moves both walks to the first index to which they give different labels. An empty label counts as
 * none. */
static int compare_walks(struct ts_names_walk *wa, struct ts_names_walk *wb, struct label_at *a,
                         struct label_at *b, const volatile sig_atomic_t *stop, struct ts_err *err)
{
    int rc = step(wa, a, err);
    if (rc == 0)
        rc = step(wb, b, err);
    for (uint64_t i = 0; rc == 0 && a->text != NULL && b->text != NULL; i++) {
        const int first = a->index <= b->index, second = b->index <= a->index;
        if (first && second && a->n > 0 && b->n > 0 &&
            (a->n != b->n || memcmp(a->text, b->text, a->n) != 0))
            return 1;
        if (first)
            rc = step(wa, a, err);
        if (rc == 0 && second)
            rc = step(wb, b, err);
        if (rc == 0 && i % LOOKS == 0)
            rc = ts_stop_check(stop, err);
    }
    return rc;
}

static int compare_mode(const char *path, const struct ts_model_names *own,
                        const struct ts_model_names *other, const struct ts_tensor *t,
                        uint32_t mode, const volatile sig_atomic_t *stop, struct ts_err *err)
{
    struct ts_names_walk *wa = NULL, *wb = NULL;
    struct label_at a = { 0 }, b = { 0 };
    int rc = ts_names_walk_open(own, mode, &wa, err);
    if (rc == 0)
        rc = ts_names_walk_open(other, mode, &wb, err);
    if (rc == 0)
        rc = compare_walks(wa, wb, &a, &b, stop, err);
    if (rc > 0)
        rc = ts_fail(err, TS_EARG,
                     TS_NTH_MODE
                     ": index %" PRIu64 " is '%.*s' in %s and '%.*s' in %s: the rows "
                     "of the model have the names of another tensor; name that one, or compute "
                     "a model of this one",
                     mode + 1, a.index + ts_tensor_base(t), shown(&a), a.text, path, shown(&b),
                     b.text, t->path);
    ts_names_walk_close(wa);
    ts_names_walk_close(wb);
    return rc;
}

int ts_model_names_check(const char *path, const struct ts_model_names *own,
                         const struct ts_tensor *t, uint32_t modes,
                         const volatile sig_atomic_t *stop, struct ts_err *err)
{
    struct ts_model_names *other = NULL;
    int rc;
    if (own == NULL || own->order != t->order ||
        (own->tensor.known && t->hash != 0 && own->tensor.checksum == t->hash))
        return 0;
    rc = ts_model_names_of_tensor(t, &other, err);
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        if ((modes >> m & 1) != 0 && own->n_labels[m] > 0 && other->n_labels[m] > 0)
            rc = compare_mode(path, own, other, t, m, stop, err);
    ts_model_names_drop(other);
    return rc;
}
