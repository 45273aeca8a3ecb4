/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts binary files into pieces, which threads read and decode in turn. */
#include "source/binary/binary_source.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/num.h"
#include "base/setting.h"
#include "base/stop.h"
#include "source/binary/binary_decode.h"
#include "source/binary/binary_kind.h"
#include "source/file_sample.h"
#include "source/source_threads.h"

/* An open file. Its users are the source while it gives out pieces, and each reading thread. */
struct file {
    struct ts_byte_input *in;
    struct ts_binary_form form;
    int fd;         /* -1: bytes can only be read in order */
    uint32_t users; /* the last user closes the file */
    /* number of the next piece to read; of all pieces; of those to read (fewer in a sample) */
    uint64_t piece, n_pieces, n_taken;
    uint64_t end;     /* this process reads only pieces below this number */
    uint64_t counted; /* bytes on disk that done_bytes includes */
};

struct worker {
    struct ts_source_thread thread;
    struct ts_binary_source *source;
    struct ts_batch batch;
    unsigned char *raw;
};

struct ts_binary_source {
    struct ts_files_plan plan;
    uint32_t order;
    uint64_t dim[TS_MAX_ORDER];
    uint64_t piece_nnz; /* number of nonzeros in a piece */
    uint64_t total_bytes;
    struct ts_sink to;
    struct worker *worker;
    uint32_t threads;

    pthread_mutex_t lock; /* protects all members below, and the files */
    struct file *file;    /* the file whose pieces are given out; NULL: none is open */
    uint32_t next_path;   /* number of the path that is opened after `file` */
    uint64_t next_number;
    int ended;
    struct ts_file_sample sample;
    /* bytes on disk that were read or skipped; atomic: progress reads it without the lock */
    uint64_t done_bytes;
};

/* A piece of a file, which a thread reads: its nonzeros [first, first + n). */
struct job {
    struct worker *w;
    struct file *file;
    uint64_t number, first, n;
};

/* ------------------------------------------------------------------ opening and closing files */

static const char *name_of(const struct ts_binary_source *s, uint32_t i)
{
    return strcmp(s->plan.paths[i], "-") == 0 ? "standard input" : s->plan.paths[i];
}

static void file_free(struct file *f)
{
    if (f == NULL)
        return;
    ts_byte_input_close(f->in);
    free(f);
}

/* Closes the file after its last user. Called under the lock, or before there are threads. */
static void file_put(struct file *f)
{
    f->users--;
    if (f->users == 0)
        file_free(f);
}

/* Checks that the file has the order and the sizes of the first file, and the length that its
 * header states. known: the first file's name, for messages. */
static int check_form(const struct ts_binary_source *s, const struct file *f, const char *known,
                      struct ts_err *err)
{
    const char *name = ts_byte_input_name(f->in);
    const uint64_t expected = ts_binary_size(&f->form), found = ts_byte_input_size(f->in);
    if (s->order > 0 && s->order != f->form.order)
        return ts_fail(err, TS_EFORMAT, "%s: its header has %" PRIu32 " mode%s, but %s %" PRIu32,
                       name, f->form.order, ts_num_plural(f->form.order), known, s->order);
    for (uint32_t m = 0; s->order > 0 && m < s->order; m++)
        if (s->dim[m] != f->form.dim[m])
            return ts_fail(err, TS_EFORMAT,
                           "%s: its header makes " TS_NTH_MODE " %" PRIu64 " long, but %s %" PRIu64,
                           name, m + 1, f->form.dim[m], known, s->dim[m]);
    if (f->fd < 0 && f->form.columns)
        return ts_fail(err, TS_EFORMAT,
                       "%s: a SPLATT binary file holds the indices of one mode after those of "
                       "another, so it cannot be read from a pipe or packed: unpack it into a file",
                       name);
    if (f->fd >= 0 && found != expected)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the file ends at byte %" PRIu64 ", expected %" PRIu64
                       " by its header (%" PRIu64 " nonzero%s of %" PRIu64 " bytes)",
                       name, found, expected, f->form.nnz, ts_num_plural(f->form.nnz),
                       f->form.nonzero_bytes);
    return 0;
}

static int read_header(struct file *f, const char *other, struct ts_err *err)
{
    const char *name = ts_byte_input_name(f->in);
    const struct ts_binary_kind *kind;
    const unsigned char *head;
    struct ts_err why;
    uint64_t at = 0;
    size_t n = 0;
    int rc = ts_byte_input_peek(f->in, &head, &n, err);
    if (rc < 0)
        return rc;
    kind = ts_binary_kind_find(head, n);
    if (kind == NULL)
        return ts_fail(err, TS_EFORMAT,
                       "%s: not a binary file, but %s is; text and binary files do not go into one "
                       "tensor",
                       name, other);
    rc = kind->header(head, n, &f->form, &at, &why);
    if (rc < 0)
        return ts_fail(err, rc, "%s: byte %" PRIu64 ": %s", name, at, why.text);
    return 0;
}

/* Opens paths[i], reads its header, and checks it against the sizes of the first file. known: name
 * of the first file, for messages. */
static int file_open(struct ts_binary_source *s, uint32_t i, const char *known, struct file **ret,
                     struct ts_err *err)
{
    struct file *f = calloc(1, sizeof *f);
    char header[TS_BYTE_INPUT_HEAD];
    size_t got;
    int rc = 0;
    if (f == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for reading files");
    f->users = 1;
    if (i == 0 && s->plan.first != NULL) {
        f->in = s->plan.first;
        s->plan.first = NULL;
    } else {
        rc = ts_byte_input_open(s->plan.paths[i], s->plan.unpack_bytes, s->plan.stop, &f->in, err);
    }
    if (rc == 0) {
        f->fd = ts_byte_input_fd(f->in);
        rc = read_header(f, name_of(s, 0), err);
    }
    if (rc == 0)
        rc = check_form(s, f, known, err);
    if (rc == 0 && f->fd < 0)
        rc = ts_byte_input_read(f->in, header, f->form.header_bytes, &got, err);
    if (rc < 0) {
        file_free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

static void count_done(struct ts_binary_source *s, uint64_t bytes)
{
    __atomic_fetch_add(&s->done_bytes, bytes, __ATOMIC_RELAXED);
}

/* Returns the number of nonzeros in the file before a piece. */
static uint64_t pieces_nnz(const struct ts_binary_source *s, const struct file *f, uint64_t piece)
{
    return piece < f->n_pieces ? piece * s->piece_nnz : f->form.nnz;
}

/* Cuts the file paths[i] into pieces, and chooses those that this source reads if several processes
 * read parts of the file. */
static void file_cut(struct ts_binary_source *s, struct file *f, uint32_t i)
{
    const uint64_t part = s->plan.part, n_parts = s->plan.n_parts;
    f->n_pieces = (f->form.nnz + s->piece_nnz - 1) / s->piece_nnz;
    f->n_taken = f->n_pieces;
    if (ts_file_sample_is_on(&s->sample) && f->fd >= 0)
        f->n_taken = (uint64_t)ceil(s->sample.share * (double)f->n_pieces);
    f->end = f->n_taken;
    if (n_parts < 2)
        return;
    if (f->fd < 0) { /* the file can only be read from its start, so one process reads all of it */
        f->end = i % n_parts == part ? f->n_taken : 0;
        return;
    }
    f->piece = f->n_taken / n_parts * part + f->n_taken % n_parts * part / n_parts;
    f->end = f->n_taken / n_parts * (part + 1) + f->n_taken % n_parts * (part + 1) / n_parts;
    count_done(s, (f->form.nnz - pieces_nnz(s, f, f->end) + pieces_nnz(s, f, f->piece)) *
                      f->form.nonzero_bytes); /* what other processes read counts as done */
}

static int is_plain_file(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Checks the headers of all files after the first that are regular and not compressed. */
static int check_others(struct ts_binary_source *s, struct ts_err *err)
{
    for (uint32_t i = 1; i < s->plan.n_paths; i++) {
        struct ts_byte_input *in = NULL;
        struct file *f = NULL;
        int rc, packed;
        if (!is_plain_file(s->plan.paths[i]))
            continue;
        rc = ts_byte_input_open(s->plan.paths[i], 0, s->plan.stop, &in, err);
        packed = rc == 0 && ts_byte_input_packed(in);
        ts_byte_input_close(in);
        if (rc == 0 && !packed)
            rc = file_open(s, i, name_of(s, 0), &f, err);
        file_free(f);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ------------------------------------------------------------------ opening the source */

static int check_dims(const struct ts_binary_source *s, const struct ts_binary_form *form,
                      struct ts_err *err)
{
    if (s->plan.n_dims > 0 && s->plan.n_dims != form->order)
        return ts_fail(err, TS_EARG,
                       TS_SET_SIZES " has %" PRIu32 " size%s, but %s has %" PRIu32 " modes",
                       s->plan.n_dims, ts_num_plural(s->plan.n_dims), name_of(s, 0), form->order);
    for (uint32_t m = 0; m < s->plan.n_dims; m++)
        if (s->plan.dim[m] != form->dim[m])
            return ts_fail(err, TS_EFORMAT,
                           "%s: its header makes " TS_NTH_MODE " %" PRIu64
                           " long, but " TS_SET_SIZES " %" PRIu64,
                           name_of(s, 0), m + 1, form->dim[m], s->plan.dim[m]);
    return 0;
}

static void count_bytes(struct ts_binary_source *s)
{
    for (uint32_t i = 0; i < s->plan.n_paths; i++) {
        struct stat st;
        if (!is_plain_file(s->plan.paths[i]) || stat(s->plan.paths[i], &st) < 0) {
            s->total_bytes = 0;
            break;
        }
        s->total_bytes += (uint64_t)st.st_size;
    }
}

/* Makes as many workers as memory allows, each with a batch and a buffer for raw bytes. */
static int new_workers(struct ts_binary_source *s, struct ts_err *err)
{
    const uint64_t bytes = s->piece_nnz * (s->order + 1) * sizeof(uint64_t);
    const uint64_t n = s->plan.read_bytes / (2 * bytes);
    int rc = 0;
    s->threads = n < 1 ? 1 : n < s->plan.threads ? (uint32_t)n : s->plan.threads;
    s->worker = calloc(s->threads, sizeof *s->worker);
    if (s->worker == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for reading files");
    for (uint32_t t = 0; t < s->threads && rc == 0; t++) {
        s->worker[t].source = s;
        s->worker[t].raw = malloc(bytes);
        rc = s->worker[t].raw == NULL
                 ? ts_fail(err, TS_ENOMEM, "out of memory for reading files")
                 : ts_batch_new(s->order, s->piece_nnz, &s->worker[t].batch, err);
    }
    return rc;
}

int ts_binary_source_open(const struct ts_files_plan *plan, struct ts_binary_source **ret,
                          struct ts_err *err)
{
    struct ts_binary_source *s = calloc(1, sizeof *s);
    int rc;
    if (s == NULL) {
        ts_byte_input_close(plan->first);
        return ts_fail(err, TS_ENOMEM, "out of memory for reading files");
    }
    s->plan = *plan;
    pthread_mutex_init(&s->lock, NULL);
    count_bytes(s);
    rc = file_open(s, 0, NULL, &s->file, err);
    if (rc == 0)
        rc = check_dims(s, &s->file->form, err);
    if (rc < 0)
        goto fail;
    s->next_path = 1;
    s->sample.share = plan->share;
    s->order = s->file->form.order;
    memcpy(s->dim, s->file->form.dim, sizeof s->dim);
    s->piece_nnz = plan->piece_bytes / (2 * (s->order + 1));
    s->piece_nnz = s->piece_nnz > 0 ? s->piece_nnz : 1;
    file_cut(s, s->file, 0);
    rc = check_others(s, err);
    if (rc == 0)
        rc = new_workers(s, err);
    if (rc < 0)
        goto fail;
    *ret = s;
    return 0;
fail:
    ts_binary_source_close(s);
    return rc;
}

void ts_binary_source_close(struct ts_binary_source *s)
{
    if (s == NULL)
        return;
    for (uint32_t t = 0; s->worker != NULL && t < s->threads; t++) {
        free(s->worker[t].raw);
        ts_batch_free(&s->worker[t].batch);
    }
    free(s->worker);
    file_free(s->file);
    ts_byte_input_close(s->plan.first);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

uint32_t ts_binary_source_order(const struct ts_binary_source *s)
{
    return s->order;
}

const uint64_t *ts_binary_source_dims(const struct ts_binary_source *s)
{
    return s->dim;
}

/* ------------------------------------------------------------------ taking pieces of files */

/* For a file that is read in order: adds the bytes read since the last call to the progress. */
static void count_stream(struct ts_binary_source *s, struct file *f)
{
    const uint64_t at = ts_byte_input_position(f->in);
    count_done(s, at - f->counted);
    f->counted = at;
}

/* Leaves the current file after its last piece, and checks that the file ends there. The last
 * thread that uses the file closes it. */
static int leave_file(struct ts_binary_source *s, int whole, struct ts_err *err)
{
    struct file *f = s->file;
    const uint64_t end = ts_binary_size(&f->form);
    char more;
    size_t got = 0;
    int rc = 0;
    if (f->fd < 0 && whole)
        rc = ts_byte_input_read(f->in, &more, 1, &got, err);
    if (rc == 0 && got > 0)
        rc = ts_fail(err, TS_EFORMAT,
                     "%s: byte %" PRIu64 ": there is more behind the %" PRIu64
                     " nonzero%s that its header promises",
                     ts_byte_input_name(f->in), end, f->form.nnz, ts_num_plural(f->form.nnz));
    if (rc == 0)
        count_done(s, f->fd < 0 ? 0 : f->form.header_bytes);
    if (rc == 0 && f->fd < 0)
        count_stream(s, f);
    s->file = NULL;
    file_put(f);
    return rc;
}

/* Whether a sample has enough bytes of a file that is read in order. The sample of such a file is
 * its start. */
static int sample_ended(const struct ts_binary_source *s, const struct file *f)
{
    return ts_file_sample_is_on(&s->sample) && f->fd < 0 && f->piece > 0 &&
           (double)ts_byte_input_position(f->in) >=
               s->sample.share * (double)ts_byte_input_size(f->in);
}

/* Returns the number of the next piece to read. The pieces of a sample are spread over the file. */
static uint64_t place_of(const struct file *f)
{
    const uint64_t each = f->n_pieces / f->n_taken, rest = f->n_pieces % f->n_taken;
    return f->piece * each + (f->piece < rest ? f->piece : rest);
}

/* Reads the bytes of the next piece of a file that is read in order. */
static int read_stream(struct ts_binary_source *s, struct job *j, struct ts_err *err)
{
    struct file *f = j->file;
    const uint64_t bytes = j->n * f->form.nonzero_bytes;
    size_t got = 0;
    const int rc = ts_byte_input_read(f->in, (char *)j->w->raw, bytes, &got, err);
    if (rc < 0)
        return rc;
    count_stream(s, f);
    if (got < bytes)
        return ts_fail(
            err, TS_EFORMAT,
            "%s: %s ends at byte %" PRIu64 ", expected %" PRIu64 " by the header (%" PRIu64
            " nonzero%s of %" PRIu64 " bytes)",
            ts_byte_input_name(f->in), ts_byte_input_packed(f->in) ? "what was packed" : "it",
            f->form.header_bytes + j->first * f->form.nonzero_bytes + got, ts_binary_size(&f->form),
            f->form.nnz, ts_num_plural(f->form.nnz), f->form.nonzero_bytes);
    return 0;
}

static uint64_t bytes_read(const struct ts_binary_source *s, const struct file *f)
{
    return f->fd < 0 ? ts_byte_input_position(f->in)
                     : pieces_nnz(s, f, f->piece) * f->form.nonzero_bytes;
}

/* Takes the next piece, under the lock. Returns 1, 0 at the end, or a failure. */
static int take_piece(struct ts_binary_source *s, struct job *j, struct ts_err *err)
{
    uint64_t piece;
    int rc = 0;
    if (s->ended)
        return 0;
    j->number = s->next_number++;
    while (rc == 0) {
        if (s->file == NULL)
            s->next_path =
                ts_file_sample_next(&s->sample, s->plan.paths, s->plan.n_paths, s->next_path);
        if (s->file == NULL && s->next_path == s->plan.n_paths) {
            s->ended = 1;
            return 0;
        }
        if (s->file == NULL) {
            rc = file_open(s, s->next_path, name_of(s, 0), &s->file, err);
            s->next_path++;
            if (rc == 0)
                file_cut(s, s->file, s->next_path - 1);
        } else if (s->file->piece == s->file->end || sample_ended(s, s->file)) {
            ts_file_sample_count(&s->sample, bytes_read(s, s->file),
                                 ts_byte_input_size(s->file->in));
            rc = leave_file(s, s->file->piece == s->file->n_pieces, err);
        } else {
            break;
        }
    }
    if (rc == 0) {
        j->file = s->file;
        j->file->users++;
        piece = place_of(j->file);
        j->file->piece++;
        j->first = piece * s->piece_nnz;
        j->n = j->file->form.nnz - j->first;
        j->n = j->n < s->piece_nnz ? j->n : s->piece_nnz;
        if (j->file->fd < 0)
            rc = read_stream(s, j, err);
    }
    s->ended = rc < 0;
    return rc < 0 ? rc : 1;
}

/* ------------------------------------------------------------------ the reading threads */

static int decode_piece(const struct job *j, struct ts_err *err)
{
    struct ts_binary_source *s = j->w->source;
    const struct file *f = j->file;
    const struct ts_binary_piece piece = {
        &s->plan, s->dim,    &f->form,    ts_byte_input_name(f->in), f->fd, j->first,
        j->n,     j->w->raw, &j->w->batch
    };
    if (f->fd >= 0)
        count_done(s, j->n * f->form.nonzero_bytes);
    return ts_binary_decode(&piece, err);
}

/* Reads the next piece of the files. Returns 1, 0 at the end, or a failure that the sink knows
 * already. */
static int read_piece(struct worker *w)
{
    struct ts_binary_source *s = w->source;
    struct job j = { .w = w };
    struct ts_err why;
    int rc;
    ts_batch_clear(&w->batch);
    pthread_mutex_lock(&s->lock);
    rc = take_piece(s, &j, &why);
    pthread_mutex_unlock(&s->lock);
    if (rc > 0)
        rc = decode_piece(&j, &why) < 0 ? why.code : 1;
    if (rc > 0)
        ts_binary_drop_zeros(&w->batch, s->plan.value_bytes, s->plan.zeros);
    if (j.file != NULL) {
        pthread_mutex_lock(&s->lock);
        s->ended |= rc < 0;
        file_put(j.file);
        pthread_mutex_unlock(&s->lock);
    }
    if (rc < 0)
        s->to.fail(s->to.self, j.number, &why, NULL, 0, 0);
    if (rc <= 0)
        return rc;
    return s->to.put(s->to.self, j.number, &w->batch) < 0 ? -1 : 1;
}

static void *read_and_put(void *arg)
{
    struct worker *w = arg;
    int rc;
    do
        rc = read_piece(w);
    while (rc > 0);
    w->source->to.done(w->source->to.self);
    return NULL;
}

static int start(void *self, const struct ts_sink *to, struct ts_err *err)
{
    struct ts_binary_source *s = self;
    int n;
    s->to = *to;
    n = ts_source_threads_start(s->worker, sizeof *s->worker, s->threads, read_and_put, to, err);
    return n < 0 ? n : 0;
}

static void stop(void *self)
{
    struct ts_binary_source *s = self;
    ts_source_threads_stop(s->worker, sizeof *s->worker, s->threads);
}

/* Adds the nonzeros of a decoded piece whose indices are `index` to ret. */
static void find_in_piece(const struct job *j, const uint64_t *index, struct ts_binary_found ret[2],
                          uint32_t *n)
{
    const struct ts_binary_source *s = j->w->source;
    const struct ts_batch *b = &j->w->batch;
    for (uint64_t i = 0; i < b->n && *n < 2; i++)
        if (memcmp(b->index + i * s->order, index, s->order * sizeof *index) == 0 &&
            (s->plan.zeros || ts_value_of_bits(b->value[i], s->plan.value_bytes) != 0))
            ret[(*n)++] =
                (struct ts_binary_found){ s->next_path - 1, j->first + i + 1,
                                          ts_binary_place(&j->file->form, j->first + i, 0) };
}

int ts_binary_source_find(const struct ts_files_plan *plan, const uint64_t *index,
                          struct ts_binary_found ret[2], uint32_t *n, struct ts_err *err)
{
    struct ts_files_plan alone = *plan;
    struct ts_binary_source *s = NULL;
    int rc;
    alone.threads = 1;
    alone.n_parts = 0;
    *n = 0;
    rc = ts_binary_source_open(&alone, &s, err);
    while (rc == 0 && *n < 2) {
        struct job j = { .w = &s->worker[0] };
        rc = ts_stop_check(plan->stop, err);
        if (rc == 0)
            rc = take_piece(s, &j, err);
        if (rc > 0)
            rc = decode_piece(&j, err) < 0 ? TS_EFORMAT : 1;
        if (rc > 0)
            find_in_piece(&j, index, ret, n);
        if (j.file != NULL)
            file_put(j.file);
        if (rc == 0)
            break;
        rc = rc > 0 ? 0 : rc;
    }
    ts_binary_source_close(s);
    return rc;
}

static void progress(const void *self, uint64_t *done, uint64_t *total)
{
    const struct ts_binary_source *s = self;
    *done = __atomic_load_n(&s->done_bytes, __ATOMIC_RELAXED);
    *total = s->total_bytes;
}

struct ts_source ts_binary_source_as_source(struct ts_binary_source *s)
{
    return (struct ts_source){
        .self = s,
        .unit = "bytes",
        .threads = s->threads,
        .start = start,
        .stop = stop,
        .progress = progress,
    };
}
