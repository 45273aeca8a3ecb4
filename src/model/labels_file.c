/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the labels file of a model, and reads labels from its chunks. */
#include "model/labels_file.h"

#include <inttypes.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/files/fd.h"
#include "base/setting.h"
#include "format/file_read.h"
#include "format/label_lines.h"
#include "format/mode_names.h"

#define HELD_BYTES  (UINT64_C(1) << 20) /* a file of at most this size is read into memory */
#define NAMES_BYTES ((TS_MAX_ORDER + 1) * (TS_MODE_NAME_MAX + 1))
#define HEAD_BYTES                                                                             \
    (sizeof(struct ts_disk_model_labels) + TS_MAX_ORDER * sizeof(struct ts_disk_mode_labels) + \
     NAMES_BYTES + sizeof(uint64_t))
#define LZ4_MOST 255u /* most bytes that one byte can stand for in text packed by LZ4 */
/* most bytes of the number before a label, its distance to the index of the label before: 40 bits,
 * with 7 bits in each byte */
#define GAP_BYTES 6u

static int read_at(const struct ts_labels_file *f, uint64_t at, size_t n, void *ret,
                   struct ts_err *err)
{
    if (at > f->bytes || n > f->bytes - at)
        return ts_fail(err, TS_EFORMAT, "%s: the file ends at byte %" PRIu64 ", expected %" PRIu64,
                       f->path, f->bytes, at + n);
    if (f->memory == NULL)
        return ts_file_read_at(f->fd, f->path, at, n, ret, err);
    memcpy(ret, f->memory + at, n);
    return 0;
}

static int fail_hash(const struct ts_labels_file *f, uint64_t at, uint64_t found, uint64_t stored,
                     struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT,
                   "%s: byte %" PRIu64 ": the checksum is %016" PRIx64 ", expected %016" PRIx64
                   " (the file is damaged)",
                   f->path, at, found, stored);
}

/* ---- opening the labels file ---- */

static int fail_head(const struct ts_labels_file *f, uint64_t at, const char *what,
                     struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT, "%s: byte %" PRIu64 ": %s", f->path, at, what);
}

static int check_fields(const struct ts_labels_file *f, struct ts_err *err)
{
    const struct ts_disk_model_labels *h = &f->head;
    const int named = (h->flags & TS_LABELS_OF_TENSOR) != 0;
    const int sums = (h->flags & TS_LABELS_SUMS) != 0;
    uint64_t reserved = 0;
    for (size_t i = 0; i < sizeof h->reserved / sizeof h->reserved[0]; i++)
        reserved |= h->reserved[i];
    if (h->base > 1)
        return fail_head(f, 24, "the first index is neither 0 nor 1", err);
    if ((h->flags & ~TS_LABELS_FLAGS) != 0 || (sums && !named))
        return fail_head(f, 28, "unknown flags", err);
    if (named ? h->segments == 0 : (h->segments | h->nnz | h->checksum) != 0)
        return fail_head(f, 32, "what is said of the tensor makes no sense", err);
    if (!sums && (h->cell[0] | h->cell[1]) != 0)
        return fail_head(f, 48, "a sum of cells that is not known", err);
    return reserved == 0 ? 0 : fail_head(f, 72, "reserved bytes are not 0", err);
}

/* Checks that each mode's chunks and table of chunk positions follow those of the mode before, from
 * byte `at` to the end of the file. */
static int check_modes(const struct ts_labels_file *f, uint64_t at, struct ts_err *err)
{
    for (uint32_t m = 0; m < f->head.order; m++) {
        const struct ts_disk_mode_labels *d = &f->mode[m];
        const uint64_t entry = sizeof f->head + m * sizeof *d;
        const uint64_t places = d->n_places * sizeof(struct ts_disk_label_place);
        if (d->dim == 0 || d->dim > TS_MAX_DIM || d->n_labels > d->dim ||
            d->n_chunks > d->n_labels || (d->n_chunks == 0) != (d->n_labels == 0) ||
            (d->n_chunks == 0) != (d->bytes == 0) || d->reserved != 0)
            return fail_head(f, entry, "sizes that make no sense", err);
        if (d->stride == 0 || d->n_places > TS_LABELS_PLACES ||
            d->n_places != d->n_chunks / d->stride + (d->n_chunks % d->stride > 0))
            return fail_head(f, entry + 40, "a table of places that makes no sense", err);
        if (d->at != at || d->bytes > f->bytes - at || places > f->bytes - at - d->bytes)
            return fail_head(f, entry + 24, "its labels are not where they should be", err);
        at += d->bytes + places;
    }
    return at == f->bytes ? 0 : fail_head(f, at, "bytes behind the last label", err);
}

/* Takes the names from lines of text: one for each mode, then one for the values. */
static int take_names(struct ts_labels_file *f, const char *text, struct ts_err *err)
{
    const char *end = text + f->head.names_bytes;
    for (uint32_t i = 0; i <= f->head.order; i++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const size_t n = stop == NULL ? 0 : (size_t)(stop - text);
        if (stop == NULL || memchr(text, '\0', n) != NULL || n > TS_MODE_NAME_MAX)
            return ts_fail(err, TS_EFORMAT, "%s: not the names of %" PRIu32 " modes", f->path,
                           f->head.order);
        f->name[i] = n == 0 ? NULL : strndup(text, n);
        if (n > 0 && f->name[i] == NULL)
            return ts_no_memory(err, f->path);
        text = stop + 1;
    }
    return text == end ? 0
                       : ts_fail(err, TS_EFORMAT, "%s: not the names of %" PRIu32 " modes", f->path,
                                 f->head.order);
}

static int read_places(struct ts_labels_file *f, uint32_t mode, struct ts_err *err)
{
    const struct ts_disk_mode_labels *d = &f->mode[mode];
    const size_t bytes = d->n_places * sizeof *f->place[mode];
    const uint64_t at = d->at + d->bytes;
    struct ts_disk_label_place *p = malloc(bytes + 1);
    uint64_t hash;
    int rc = p == NULL ? ts_no_memory(err, f->path) : read_at(f, at, bytes, p, err);
    f->place[mode] = p;
    if (rc < 0)
        return rc;
    hash = XXH3_64bits(p, bytes);
    if (hash != d->places_hash)
        return fail_hash(f, at, hash, d->places_hash, err);
    for (uint32_t i = 0; i < d->n_places; i++)
        if (p[i].index >= d->dim || p[i].at >= d->at + d->bytes ||
            (i == 0 ? p[i].at != d->at : p[i].at <= p[i - 1].at || p[i].index <= p[i - 1].index))
            return fail_head(f, at + i * sizeof *p, "a place that makes no sense", err);
    return 0;
}

/* Checks magic, version and order, on which the layout of the file depends. */
static int check_start(const struct ts_labels_file *f, struct ts_err *err)
{
    const struct ts_disk_model_labels *h = &f->head;
    if (h->version != TS_LABELS_FILE_VERSION)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32 ", but this program reads version %u",
                       f->path, h->version, TS_LABELS_FILE_VERSION);
    if (h->order < TS_MIN_ORDER || h->order > TS_MAX_ORDER)
        return fail_head(f, 12, "an order that is not possible", err);
    if (h->file_bytes != f->bytes)
        return ts_fail(err, TS_EFORMAT, "%s: it has %" PRIu64 " bytes, expected %" PRIu64, f->path,
                       f->bytes, h->file_bytes);
    return h->names_bytes <= NAMES_BYTES ? 0 : fail_head(f, 68, "names that are too long", err);
}

static int read_head(struct ts_labels_file *f, struct ts_err *err)
{
    const size_t start = sizeof f->head;
    size_t modes, bytes;
    uint64_t stored, hash;
    char head[HEAD_BYTES];
    int rc = read_at(f, 0, start, &f->head, err);
    if (rc == 0)
        rc = check_start(f, err);
    if (rc < 0)
        return rc;
    modes = f->head.order * sizeof f->mode[0];
    bytes = start + modes + f->head.names_bytes;
    rc = read_at(f, 0, bytes + sizeof stored, head, err);
    if (rc < 0)
        return rc;
    memcpy(&stored, head + bytes, sizeof stored);
    hash = XXH3_64bits(head, bytes);
    if (hash != stored)
        return fail_hash(f, bytes, hash, stored, err);
    memcpy(&f->head, head, start);
    memcpy(f->mode, head + start, modes);
    rc = check_fields(f, err);
    if (rc == 0)
        rc = check_modes(f, bytes + sizeof stored, err);
    return rc == 0 ? take_names(f, head + start + modes, err) : rc;
}

static int read_all(struct ts_labels_file *f, struct ts_err *err)
{
    int rc = read_head(f, err);
    for (uint32_t m = 0; rc == 0 && m < f->head.order; m++)
        rc = read_places(f, m, err);
    return rc;
}

/* Makes an empty object that owns `path`. path NULL: fails with TS_ENOMEM. */
static struct ts_labels_file *new_file(char *path, struct ts_err *err)
{
    struct ts_labels_file *f = path == NULL ? NULL : calloc(1, sizeof *f);
    if (f == NULL) {
        free(path);
        ts_no_memory(err, TS_LABELS_FILE);
        return NULL;
    }
    f->path = path;
    f->fd = -1;
    return f;
}

/* Whether the file begins with the magic bytes of a labels file: a user may have another file of
 * this name. */
static int is_ours(int fd)
{
    char magic[8];
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
           memcmp(magic, TS_LABELS_FILE_MAGIC, sizeof magic) == 0;
}

/* Reads a small file into memory, and closes its descriptor. */
static int hold(struct ts_labels_file *f, struct ts_err *err)
{
    char *memory;
    int rc;
    if (f->bytes > HELD_BYTES)
        return 0;
    memory = malloc((size_t)f->bytes + 1);
    rc = memory == NULL ? ts_no_memory(err, f->path)
                        : ts_file_read_at(f->fd, f->path, 0, (size_t)f->bytes, memory, err);
    if (rc < 0) {
        free(memory);
        return rc;
    }
    f->memory = memory;
    ts_fd_close(f->fd);
    f->fd = -1;
    return 0;
}

int ts_labels_file_open(const struct ts_open_dir *dir, struct ts_labels_file **ret,
                        struct ts_err *err)
{
    struct ts_labels_file *f;
    char *path = NULL;
    int fd, rc = ts_open_dir_named(dir, TS_LABELS_FILE, &fd, &path, err);
    if (rc <= 0)
        return rc;
    if (!is_ours(fd)) {
        ts_fd_close(fd);
        free(path);
        return 0;
    }
    f = new_file(path, err);
    if (f == NULL) {
        ts_fd_close(fd);
        return TS_ENOMEM;
    }
    f->fd = fd;
    rc = ts_file_read_size(fd, f->path, &f->bytes, err);
    if (rc == 0)
        rc = hold(f, err);
    if (rc == 0)
        rc = read_all(f, err);
    if (rc == 0)
        *ret = f;
    else
        ts_labels_file_close(f);
    return rc < 0 ? rc : 1;
}

int ts_labels_file_take(char *bytes, size_t n, struct ts_labels_file **ret, struct ts_err *err)
{
    struct ts_labels_file *f = new_file(strdup("labels in memory"), err);
    int rc;
    if (f == NULL) {
        free(bytes);
        return TS_ENOMEM;
    }
    f->memory = bytes;
    f->bytes = n;
    rc = n < sizeof f->head || memcmp(bytes, TS_LABELS_FILE_MAGIC, 8) != 0
             ? fail_head(f, 0, "not a file of labels", err)
             : read_all(f, err);
    if (rc == 0)
        *ret = f;
    else
        ts_labels_file_close(f);
    return rc;
}

void ts_labels_file_close(struct ts_labels_file *f)
{
    if (f == NULL)
        return;
    for (uint32_t m = 0; m <= TS_MAX_ORDER; m++)
        free(f->name[m]);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(f->place[m]);
    ts_fd_close(f->fd);
    free(f->memory);
    free(f->path);
    free(f);
}

/* ---- chunks of labels ---- */

struct ts_labels_walk {
    const struct ts_labels_file *file;
    uint32_t mode;
    uint64_t next;           /* file position of the next chunk */
    uint64_t chunks, labels; /* number of chunks and labels read so far */
    char *stored, *raw;
    size_t stored_room, raw_room;
    /* p .. end: unread part of the chunk in raw */
    const char *p, *end;
    /* at: position in the file of the chunk that raw has; index: index of the label taken last;
     * n_left: number of labels left in the chunk */
    uint64_t at, index, n_left;
    int loaded, fresh; /* loaded: raw has a chunk; fresh: no label of it was taken yet */
};

static uint64_t end_of(const struct ts_labels_walk *w)
{
    return w->file->mode[w->mode].at + w->file->mode[w->mode].bytes;
}

static int fail_chunk(const struct ts_labels_walk *w, uint64_t at, struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT, "%s: byte %" PRIu64 ": not the labels of " TS_NTH_MODE,
                   w->file->path, at, w->mode + 1);
}

static int read_chunk_head(const struct ts_labels_walk *w, uint64_t at,
                           struct ts_disk_label_chunk *ret, struct ts_err *err)
{
    const uint64_t end = end_of(w);
    int rc;
    if (at > end || end - at < sizeof *ret)
        return fail_chunk(w, at, err);
    rc = read_at(w->file, at, sizeof *ret, ret, err);
    if (rc < 0)
        return rc;
    if (ret->stored_bytes == 0 || ret->stored_bytes > end - at - sizeof *ret || ret->flags > 1 ||
        ret->n_labels == 0 || ret->n_labels > ret->raw_bytes / 2 || ret->raw_bytes > INT32_MAX ||
        (ret->flags == 0 ? ret->stored_bytes != ret->raw_bytes
                         : ret->stored_bytes >= ret->raw_bytes ||
                               ret->raw_bytes / LZ4_MOST > ret->stored_bytes) ||
        ret->index >= w->file->mode[w->mode].dim)
        return fail_chunk(w, at, err);
    return 0;
}

static int make_room(char **buf, size_t *room, size_t want, const char *path, struct ts_err *err)
{
    if (*room >= want)
        return 0;
    free(*buf);
    *room = 0;
    *buf = malloc(want);
    if (*buf == NULL)
        return ts_no_memory(err, path);
    *room = want;
    return 0;
}

/* Reads and unpacks the chunk at byte `at` of the file. */
static int load(struct ts_labels_walk *w, uint64_t at, struct ts_err *err)
{
    const size_t head = offsetof(struct ts_disk_label_chunk, hash);
    struct ts_disk_label_chunk c;
    uint64_t hash;
    int rc = read_chunk_head(w, at, &c, err);
    w->n_left = 0;
    w->loaded = 0;
    if (rc == 0)
        rc = make_room(&w->stored, &w->stored_room, head + c.stored_bytes, w->file->path, err);
    if (rc == 0)
        rc = read_at(w->file, at + sizeof c, c.stored_bytes, w->stored + head, err);
    if (rc < 0)
        return rc;
    memcpy(w->stored, &c, head);
    hash = XXH3_64bits(w->stored, head + c.stored_bytes);
    if (hash != c.hash)
        return fail_hash(w->file, at, hash, c.hash, err);
    w->p = w->stored + head;
    if (c.flags & 1) {
        rc = make_room(&w->raw, &w->raw_room, c.raw_bytes, w->file->path, err);
        if (rc < 0)
            return rc;
        if (LZ4_decompress_safe(w->p, w->raw, (int)c.stored_bytes, (int)c.raw_bytes) !=
            (int)c.raw_bytes)
            return fail_chunk(w, at, err);
        w->p = w->raw;
    }
    w->end = w->p + c.raw_bytes;
    w->at = at;
    w->next = at + sizeof c + c.stored_bytes;
    w->index = c.index;
    w->n_left = c.n_labels;
    w->loaded = w->fresh = 1;
    return 0;
}

/* Reads the number that precedes a label in its chunk: its index minus the index of the label
 * before it, minus 1. Returns 0 if it is damaged. */
static int get_gap(struct ts_labels_walk *w, uint64_t *ret)
{
    *ret = 0;
    for (uint32_t i = 0; i < GAP_BYTES && w->p < w->end; i++) {
        const unsigned char byte = (unsigned char)*w->p++;
        *ret |= (uint64_t)(byte & 127) << 7 * i;
        if (byte < 128)
            return 1;
    }
    return 0;
}

/* Takes the next label of the loaded chunk, which must have one left. */
static int take_label(struct ts_labels_walk *w, const char **text, size_t *n, struct ts_err *err)
{
    const uint64_t dim = w->file->mode[w->mode].dim;
    const char *stop;
    uint64_t gap;
    if (!get_gap(w, &gap) || (w->fresh ? gap > 0 : gap >= dim - w->index - 1))
        return fail_chunk(w, w->at, err);
    w->index += w->fresh ? 0 : gap + 1;
    w->fresh = 0;
    stop = memchr(w->p, '\n', (size_t)(w->end - w->p));
    if (stop == NULL || (--w->n_left == 0) != (stop + 1 == w->end))
        return fail_chunk(w, w->at, err);
    *text = w->p;
    *n = (size_t)(stop - w->p);
    w->p = stop + 1;
    return 0;
}

int ts_labels_walk_open(const struct ts_labels_file *f, uint32_t mode, struct ts_labels_walk **ret,
                        struct ts_err *err)
{
    struct ts_labels_walk *w = calloc(1, sizeof *w);
    if (w == NULL)
        return ts_no_memory(err, f->path);
    w->file = f;
    w->mode = mode;
    w->next = f->mode[mode].at;
    *ret = w;
    return 0;
}

int ts_labels_walk_next(struct ts_labels_walk *w, uint64_t *index, const char **text, size_t *n,
                        struct ts_err *err)
{
    const struct ts_disk_mode_labels *d = &w->file->mode[w->mode];
    int rc;
    *text = NULL;
    *n = 0;
    if (w->n_left == 0 && w->next == end_of(w))
        return w->labels == d->n_labels && w->chunks == d->n_chunks
                   ? 0
                   : fail_chunk(w, w->file->mode[w->mode].at, err);
    if (w->n_left == 0) {
        const uint64_t last = w->index;
        rc = load(w, w->next, err);
        if (rc == 0 && w->chunks++ > 0 && w->index <= last)
            rc = fail_chunk(w, w->at, err);
        if (rc < 0)
            return rc;
    }
    rc = take_label(w, text, n, err);
    w->labels++;
    *index = w->index;
    return rc;
}

void ts_labels_walk_close(struct ts_labels_walk *w)
{
    if (w == NULL)
        return;
    free(w->stored);
    free(w->raw);
    free(w);
}

/* ---- labels of given indices ---- */

/* Loads the chunk that may have the label of an index: the last chunk that begins at or before the
 * index. *found := whether there is one. */
static int find_chunk(struct ts_labels_walk *w, uint64_t index, int *found, struct ts_err *err)
{
    const struct ts_disk_mode_labels *d = &w->file->mode[w->mode];
    const struct ts_disk_label_place *place = w->file->place[w->mode];
    struct ts_disk_label_chunk c;
    uint32_t low = 0, high = d->n_places;
    uint64_t at, next, first;
    while (low < high) { /* finds the first entry of the table whose index is larger */
        const uint32_t middle = low + (high - low) / 2;
        if (place[middle].index <= index)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low > 0;
    if (low == 0)
        return 0;
    at = next = place[low - 1].at;
    first = place[low - 1].index;
    for (uint64_t steps = 0; steps <= d->stride && next < end_of(w); steps++) {
        const int rc = read_chunk_head(w, next, &c, err);
        if (rc < 0)
            return rc;
        if (steps == 0 ? c.index != first : c.index <= first)
            return fail_chunk(w, next, err);
        if (c.index > index)
            break;
        first = c.index;
        at = next;
        next += sizeof c + c.stored_bytes;
    }
    return w->loaded && w->at == at && (w->index < index || w->fresh) ? 0 : load(w, at, err);
}

/* Finds the label of an index. Indices must be passed in ascending order. *text := NULL if the
 * index has no label. */
static int look(struct ts_labels_walk *w, uint64_t index, const char **text, size_t *n,
                struct ts_err *err)
{
    int found, rc = find_chunk(w, index, &found, err);
    *text = NULL;
    while (rc == 0 && found && w->n_left > 0) {
        const char *at = w->p;
        const uint64_t last = w->index, n_left = w->n_left;
        const int fresh = w->fresh;
        rc = take_label(w, text, n, err);
        if (rc == 0 && w->index >= index) {
            if (w->index > index) { /* puts the label back: the caller may ask for its index next */
                w->p = at;
                w->index = last;
                w->n_left = n_left;
                w->fresh = fresh;
                *text = NULL;
            }
            return 0;
        }
        *text = NULL;
    }
    return rc;
}

static int get_labels(struct ts_labels_walk *w, uint64_t n, const uint64_t *index, char **ret,
                      struct ts_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        const char *text = NULL;
        size_t bytes = 0;
        if (i > 0 && index[i] == index[i - 1]) { /* an index may be passed twice */
            ret[i] = ret[i - 1] == NULL ? NULL : strdup(ret[i - 1]);
            if (ret[i] == NULL && ret[i - 1] != NULL)
                rc = ts_no_memory(err, w->file->path);
            continue;
        }
        rc = look(w, index[i], &text, &bytes, err);
        if (rc == 0 && text != NULL && (ret[i] = ts_label_string(text, bytes)) == NULL)
            rc = ts_no_memory(err, w->file->path);
    }
    return rc;
}

int ts_labels_file_get(const struct ts_labels_file *f, uint32_t mode, uint64_t n,
                       const uint64_t *index, char **ret, struct ts_err *err)
{
    struct ts_labels_walk *w = NULL;
    int rc;
    for (uint64_t i = 0; i < n; i++)
        ret[i] = NULL;
    if (f->mode[mode].n_labels == 0)
        return 0;
    rc = ts_labels_walk_open(f, mode, &w, err);
    if (rc == 0)
        rc = get_labels(w, n, index, ret, err);
    ts_labels_walk_close(w);
    for (uint64_t i = 0; rc < 0 && i < n; i++) {
        free(ret[i]);
        ret[i] = NULL;
    }
    return rc;
}
