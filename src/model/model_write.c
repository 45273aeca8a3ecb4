/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the files of a decomposition, chunk by chunk, into a directory that appears at the end.
 * All formats stay in one file, because each of them writes the rows of the same chunk. */
#include "model/model_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/atomic_out.h"
#include "base/c_locale.h"
#include "base/setting.h"
#include "base/stop.h"
#include "model/labels_pack.h"
#include "model/model_files.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* bytes of float64 rows that are written at a time */
/* parts of a chunk of rows, each formatted as text by one thread */
#define PIECES 16u
/* labels that take fewer bytes get no note that the model is smaller without them */
#define NOTED_BYTES  (UINT64_C(1) << 20)
#define NUMBER_CHARS 26u /* most characters of a number: sign, 17 digits, point, exponent, blank */

struct ts_model_out {
    struct ts_model_conf conf;
    struct ts_atomic_dir *dir;
    ts_get_rows_fn *get_rows;
    void *rows_from;
    struct ts_canonical form;
    uint64_t chunk; /* number of rows that are written at a time (a chunk) */
    uint64_t bytes; /* total size of the files of the result so far */

    /* These members are NULL unless rows are being written: of several models that have begun, one
     * is written at a time. */
    uint64_t *used;     /* `chunk` numbers: indices of used rows */
    double *raw, *rows; /* `chunk` x rank each: rows as they were computed, and in canonical form */
    char *text;         /* `chunk` x (rank * NUMBER_CHARS + 1) bytes: rows formatted as text */
};

/* Writes n rows of a mode, which are in o->rows, to a file. */
typedef int (*row_sink)(struct ts_model_out *o, void *to, uint64_t n, struct ts_err *err);

static uint64_t rows_of(const struct ts_model_conf *c, uint32_t mode)
{
    return c->used_rows ? c->shape.n_rows[mode] : c->shape.dim[mode];
}

static struct ts_atomic_conf place_of(const struct ts_model_conf *conf)
{
    const struct ts_atomic_conf place = { .path = conf->dir,
                                          .suffix = ".partial",
                                          .place = TS_SET_OUT,
                                          .what = "decomposition",
                                          .force = conf->force,
                                          .resume = conf->resume,
                                          .resumable = 1,
                                          .kind = ts_model_kind_of };
    return place;
}

int ts_model_place(const struct ts_model_conf *conf, struct ts_err *err)
{
    const struct ts_atomic_conf place = place_of(conf);
    struct ts_atomic_dir *dir = NULL;
    int rc;
    /* the directory is not opened, because that would remove files in DIR.partial that may still be
     * needed */
    if (conf->force || conf->resume)
        return 0;
    rc = ts_atomic_dir_open(&place, &dir, err);
    ts_atomic_dir_close(dir);
    return rc;
}

int ts_model_begin(const struct ts_model_conf *conf, struct ts_model_out **ret, struct ts_err *err)
{
    const struct ts_atomic_conf place = place_of(conf);
    struct ts_model_out *o = calloc(1, sizeof *o);
    int rc;
    if (o == NULL)
        return ts_no_memory(err, conf->dir);
    o->conf = *conf;
    o->chunk = CHUNK_BYTES / (conf->rank * sizeof(double)) + 1;
    rc = ts_atomic_dir_open(&place, &o->dir, err);
    if (rc == 0)
        rc = ts_model_room(&o->conf, ts_atomic_dir_free(o->dir), err);
    o->conf.start_bytes = NULL;
    if (rc == 0)
        *ret = o;
    else
        ts_model_end(o);
    return rc;
}

const char *ts_model_partial(const struct ts_model_out *o)
{
    return ts_atomic_dir_partial(o->dir);
}

void ts_model_end(struct ts_model_out *o)
{
    if (o == NULL)
        return;
    ts_atomic_dir_close(o->dir);
    ts_canonical_free(&o->form);
    free(o);
}

/* ---- memory for rows ---- */

static void free_rows(struct ts_model_out *o)
{
    free(o->raw);
    free(o->rows);
    free(o->used);
    free(o->text);
    o->raw = o->rows = NULL;
    o->used = NULL;
    o->text = NULL;
}

static int make_rows(struct ts_model_out *o, struct ts_err *err)
{
    const size_t rank = o->conf.rank;
    o->raw = malloc(o->chunk * rank * sizeof(double));
    o->rows = malloc(o->chunk * rank * sizeof(double));
    o->used = malloc(o->chunk * sizeof *o->used);
    o->text = malloc(o->chunk * (rank * NUMBER_CHARS + 1));
    if (o->raw != NULL && o->rows != NULL && o->used != NULL && o->text != NULL)
        return 0;
    free_rows(o);
    return ts_no_memory(err, o->conf.dir);
}

/* The indices of the used rows of a mode, from the tensor's file or from memory. */
struct used_rows {
    struct ts_rows_reader *in; /* reader of the index file; or NULL */
    const uint64_t *index;     /* next index in memory; or NULL */
    uint64_t left;             /* number of indices left in memory */
    uint64_t piece[TS_ROWS_CHUNK];
    uint32_t n, at; /* number of indices in `piece`, and the position of the next one */
};

/* Whether there is a list of used rows. Otherwise row i is index i. */
static int has_used(const struct used_rows *u)
{
    return u->in != NULL || u->index != NULL;
}

static int open_used(const struct ts_model_shape *shape, uint32_t mode, struct used_rows *u,
                     struct ts_err *err)
{
    memset(u, 0, sizeof *u);
    if (shape->tensor != NULL)
        return ts_rows_reader_open(shape->tensor, mode, &u->in, err);
    u->index = shape->index[mode];
    u->left = shape->n_rows[mode];
    return 0;
}

/* Reads the next piece of indices. At the end, its n is 0. */
static int next_used(struct used_rows *u, struct ts_err *err)
{
    u->at = 0;
    if (u->in != NULL)
        return ts_rows_reader_next(u->in, u->piece, &u->n, err);
    u->n = u->left < TS_ROWS_CHUNK ? (uint32_t)u->left : TS_ROWS_CHUNK;
    memcpy(u->piece, u->index, u->n * sizeof *u->piece);
    u->index += u->n;
    u->left -= u->n;
    return 0;
}

/* Sets o->used to the used indices below `end` that were not taken yet, and *k to their number.
 * They fit, because each of them is the index of a row in this chunk. */
static int take_used(struct ts_model_out *o, struct used_rows *u, uint64_t end, uint64_t *k,
                     struct ts_err *err)
{
    for (*k = 0;; u->at++) {
        if (u->at == u->n) {
            const int rc = next_used(u, err);
            if (rc < 0 || u->n == 0)
                return rc;
        }
        if (u->piece[u->at] >= end)
            return 0;
        o->used[(*k)++] = u->piece[u->at];
    }
}

/* The first k rows of o->rows belong to used indices among the n indices from `row` on. Moves them
 * to the places of these indices, and fills the other rows with zeros. */
static void spread_rows(struct ts_model_out *o, uint64_t row, uint64_t k, uint64_t n)
{
    const uint32_t rank = o->conf.rank;
    uint64_t end = n; /* rows from `end` on are in place */
    while (k > 0) {
        const uint64_t at = o->used[--k] - row;
        memset(o->rows + (at + 1) * rank, 0, (end - at - 1) * rank * sizeof *o->rows);
        memmove(o->rows + at * rank, o->rows + k * rank, rank * sizeof *o->rows);
        end = at;
    }
    memset(o->rows, 0, end * rank * sizeof *o->rows);
}

/* Calls sink for all rows of a mode in order, a chunk at a time in o->rows. */
static int walk_rows(struct ts_model_out *o, uint32_t mode, struct used_rows *u, row_sink sink,
                     void *to, struct ts_err *err)
{
    const uint64_t n_out = rows_of(&o->conf, mode);
    const int gaps = has_used(u);
    uint64_t used = 0;
    for (uint64_t row = 0; row < n_out; row += o->chunk) {
        const uint64_t n = n_out - row < o->chunk ? n_out - row : o->chunk;
        uint64_t k = n;
        int rc = gaps ? take_used(o, u, row + n, &k, err) : 0;
        if (rc < 0)
            return rc;
        rc = k > 0 ? o->get_rows(o->rows_from, mode, used, k, o->raw, err) : 0;
        if (rc < 0)
            return rc;
        ts_canonical_rows(&o->form, mode, k, o->raw, o->conf.precision, o->rows);
        if (k < n)
            spread_rows(o, row, k, n);
        used += k;
        rc = sink(o, to, n, err);
        if (rc < 0)
            return rc;
        if (ts_stop_asked(o->conf.stop))
            return ts_fail(err, TS_ESTOP, "stopped while writing factors");
    }
    return 0;
}

struct sink_file {
    FILE *file;
    char *path;
    uint64_t *total; /* total size of all files of the result so far */
};

static int write_bytes(const struct sink_file *to, const void *bytes, size_t n, struct ts_err *err)
{
    return n == 0 || fwrite(bytes, 1, n, to->file) == n
               ? 0
               : ts_fail_errno(err, TS_EIO, "%s: cannot be written", to->path);
}

static int put_text(struct ts_model_out *o, const struct sink_file *sink, uint32_t rank, int digits,
                    uint64_t n, struct ts_err *err)
{
    const size_t room = (size_t)rank * NUMBER_CHARS + 1;
    const int threads = o->conf.threads > 0 ? (int)o->conf.threads : omp_get_max_threads();
    size_t length[PIECES];
    int rc = 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (uint32_t p = 0; p < PIECES; p++) {
        char *start = o->text + n * p / PIECES * room, *at = start;
        const locale_t before = ts_c_locale_enter();
        for (uint64_t i = n * p / PIECES; i < n * (p + 1) / PIECES; i++)
            for (uint32_t r = 0; r < rank; r++) {
                const double x = o->rows[i * rank + r];
                if (x == 0)
                    *at++ = '0';
                else
                    at += snprintf(at, NUMBER_CHARS, "%.*g", digits, x);
                *at++ = r + 1 < rank ? ' ' : '\n';
            }
        length[p] = (size_t)(at - start);
        ts_c_locale_leave(before);
    }
    for (uint32_t p = 0; p < PIECES && rc == 0; p++)
        rc = write_bytes(sink, o->text + n * p / PIECES * room, length[p], err);
    return rc;
}

static int sink_text(struct ts_model_out *o, void *sink, uint64_t n, struct ts_err *err)
{
    return put_text(o, sink, o->conf.rank, o->conf.precision == TS_FLOAT32 ? 9 : 17, n, err);
}

static int sink_binary(struct ts_model_out *o, void *sink, uint64_t n, struct ts_err *err)
{
    /* the numbers fit, because text has NUMBER_CHARS bytes for each */
    float *narrow = (float *)(void *)o->text;
    if (o->conf.precision == TS_FLOAT64)
        return write_bytes(sink, o->rows, n * o->conf.rank * sizeof(double), err);
    for (uint64_t i = 0; i < n * o->conf.rank; i++)
        narrow[i] = (float)o->rows[i];
    return write_bytes(sink, narrow, n * o->conf.rank * sizeof(float), err);
}

/* Writes the header of NumPy's format 1.0, padded so that the data start at a multiple of 64. */
static int npy_header(const struct sink_file *to, const char *type, uint64_t rows, uint32_t columns,
                      struct ts_err *err)
{
    char dict[160], head[256];
    int n, total;
    n = columns > 0
            ? snprintf(dict, sizeof dict,
                       "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ", %u), }",
                       type, rows, columns)
            : snprintf(dict, sizeof dict,
                       "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",), }", type,
                       rows);
    total = (10 + n + 1 + 63) / 64 * 64;
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((total - 10) & 255);
    head[9] = (char)((total - 10) >> 8);
    memcpy(head + 10, dict, (size_t)n);
    head[total - 1] = '\n';
    return write_bytes(to, head, (size_t)total, err);
}

static int open_sink(struct ts_model_out *o, const char *name, struct sink_file *to,
                     struct ts_err *err)
{
    to->total = &o->bytes;
    return ts_atomic_dir_create(o->dir, name, &to->file, &to->path, err);
}

static int close_sink(struct sink_file *to, int rc, struct ts_err *err)
{
    const off_t bytes = ftello(to->file);
    *to->total += bytes > 0 ? (uint64_t)bytes : 0;
    if (rc == 0)
        rc = ts_atomic_dir_finish(to->file, to->path, err);
    else
        fclose(to->file);
    free(to->path);
    return rc;
}

/* Writes the weights of a model. weight NULL: all 1. */
static int put_weights(uint32_t rank, const double *weight, const struct sink_file *to,
                       char divider, struct ts_err *err)
{
    for (uint32_t r = 0; r < rank; r++)
        if (fprintf(to->file, "%.17g%c", weight == NULL ? 1 : weight[r],
                    r + 1 < rank ? divider : '\n') < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot be written", to->path);
    return 0;
}

/* Writes the rows of a mode. If conf.used_rows is 0, empty slices get rows of zeros. */
static int put_mode(struct ts_model_out *o, uint32_t mode, row_sink sink, struct sink_file *to,
                    struct ts_err *err)
{
    struct used_rows u = { .in = NULL };
    int rc = o->conf.used_rows ? 0 : open_used(&o->conf.shape, mode, &u, err);
    if (rc == 0)
        rc = walk_rows(o, mode, &u, sink, to, err);
    ts_rows_reader_close(u.in);
    return rc;
}

static int put_ktensor_head(const struct sink_file *to, uint32_t order, const uint64_t n_rows[],
                            uint32_t rank, const double *weight, struct ts_err *err)
{
    fprintf(to->file, "ktensor\n%u\n", order);
    for (uint32_t m = 0; m < order; m++)
        fprintf(to->file, "%" PRIu64 "%c", n_rows[m], m + 1 < order ? ' ' : '\n');
    fprintf(to->file, "%u\n", rank);
    return put_weights(rank, weight, to, ' ', err);
}

static int write_ktensor(struct ts_model_out *o, struct ts_err *err)
{
    const uint32_t order = o->conf.shape.order, rank = o->conf.rank;
    uint64_t n_rows[TS_MAX_ORDER] = { 0 };
    struct sink_file to;
    int rc = open_sink(o, "model.ktensor", &to, err);
    if (rc < 0)
        return rc;
    for (uint32_t m = 0; m < order; m++)
        n_rows[m] = rows_of(&o->conf, m);
    rc = put_ktensor_head(&to, order, n_rows, rank, o->form.weight, err);
    for (uint32_t m = 0; m < order && rc == 0; m++) {
        fprintf(to.file, "matrix\n2\n%" PRIu64 " %u\n", n_rows[m], rank);
        rc = put_mode(o, m, sink_text, &to, err);
    }
    return close_sink(&to, rc, err);
}

/* Writes n rows of the starting factors, from `row` on. */
static int put_start_rows(struct ts_model_out *o, const struct ts_factors *start, uint32_t mode,
                          uint64_t row, uint64_t n, const struct sink_file *to, struct ts_err *err)
{
    int rc = ts_stop_check(o->conf.stop, err);
    if (rc == 0)
        rc = start->get_rows(start->from, mode, row, n, o->rows, err);
    return rc == 0 ? put_text(o, to, start->rank, 17, n, err) : rc;
}

/* Writes the file with the starting factors of the run, under another name until it is complete. If
 * the directory has a state, the complete file stays even if the run fails. */
static int write_start(struct ts_model_out *o, const struct ts_factors *start, const double *weight,
                       struct ts_err *err)
{
    const int dir = ts_atomic_dir_fd(o->dir);
    struct sink_file to;
    int rc = open_sink(o, TS_MODEL_START ".new", &to, err);
    if (rc < 0)
        return rc;
    rc = put_ktensor_head(&to, start->order, start->n_rows, start->rank, weight, err);
    for (uint32_t m = 0; m < start->order && rc == 0; m++) {
        fprintf(to.file, "matrix\n2\n%" PRIu64 " %u\n", start->n_rows[m], start->rank);
        for (uint64_t row = 0; row < start->n_rows[m] && rc == 0; row += o->chunk) {
            const uint64_t left = start->n_rows[m] - row;
            rc = put_start_rows(o, start, m, row, left < o->chunk ? left : o->chunk, &to, err);
        }
    }
    rc = close_sink(&to, rc, err);
    if (rc == 0 && renameat(dir, TS_MODEL_START ".new", dir, TS_MODEL_START) != 0)
        rc = ts_fail_errno(err, TS_EIO, "%s/" TS_MODEL_START ": cannot be put in place",
                           ts_atomic_dir_partial(o->dir));
    if (rc < 0)
        (void)unlinkat(dir, TS_MODEL_START ".new", 0);
    return rc;
}

int ts_model_add_start(struct ts_model_out *o, const struct ts_factors *start, const double *weight,
                       struct ts_err *err)
{
    int rc = make_rows(o, err);
    if (rc == 0) {
        const locale_t before = ts_c_locale_enter();
        rc = write_start(o, start, weight, err);
        ts_c_locale_leave(before);
    }
    free_rows(o);
    return rc;
}

static int write_npy(struct ts_model_out *o, struct ts_err *err)
{
    struct sink_file to;
    char name[32];
    int rc = open_sink(o, "weights.npy", &to, err);
    if (rc < 0)
        return rc;
    rc = npy_header(&to, "<f8", o->conf.rank, 0, err);
    if (rc == 0)
        rc = write_bytes(&to, o->form.weight, o->conf.rank * sizeof(double), err);
    rc = close_sink(&to, rc, err);
    for (uint32_t m = 0; m < o->conf.shape.order && rc == 0; m++) {
        snprintf(name, sizeof name, "mode%u.npy", m + 1);
        rc = open_sink(o, name, &to, err);
        if (rc < 0)
            return rc;
        rc = npy_header(&to, o->conf.precision == TS_FLOAT32 ? "<f4" : "<f8", rows_of(&o->conf, m),
                        o->conf.rank, err);
        if (rc == 0)
            rc = put_mode(o, m, sink_binary, &to, err);
        rc = close_sink(&to, rc, err);
    }
    return rc;
}

static int write_splatt(struct ts_model_out *o, struct ts_err *err)
{
    struct sink_file to;
    char name[32];
    int rc = open_sink(o, "lambda.mat", &to, err);
    if (rc < 0)
        return rc;
    rc = close_sink(&to, put_weights(o->conf.rank, o->form.weight, &to, '\n', err), err);
    for (uint32_t m = 0; m < o->conf.shape.order && rc == 0; m++) {
        snprintf(name, sizeof name, "mode%u.mat", m + 1);
        rc = open_sink(o, name, &to, err);
        if (rc == 0)
            rc = close_sink(&to, put_mode(o, m, sink_text, &to, err), err);
    }
    return rc;
}

/* Writes modeK.index for modes whose rows are not simply 1, 2, 3, ... */
static int write_index(struct ts_model_out *o, struct ts_err *err)
{
    for (uint32_t m = 0; m < o->conf.shape.order; m++) {
        struct sink_file to;
        struct used_rows u;
        char name[32];
        int rc = open_used(&o->conf.shape, m, &u, err);
        if (rc < 0)
            return rc;
        if (!has_used(&u))
            continue;
        snprintf(name, sizeof name, "mode%u.index", m + 1);
        rc = open_sink(o, name, &to, err);
        if (rc == 0) {
            for (u.n = 1; rc == 0 && u.n > 0;) {
                rc = next_used(&u, err);
                for (uint32_t i = 0; rc == 0 && i < u.n; i++)
                    fprintf(to.file, "%" PRIu64 "\n", u.piece[i] + 1);
            }
            rc = close_sink(&to, rc, err);
        }
        ts_rows_reader_close(u.in);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int ts_model_add(struct ts_model_out *o, const char *name, const void *data, size_t bytes,
                 struct ts_err *err)
{
    return ts_atomic_put(ts_atomic_dir_fd(o->dir), ts_atomic_dir_partial(o->dir), name, data, bytes,
                         TS_ATOMIC_FAST, err);
}

int ts_model_dir(const struct ts_model_out *o, const char **path)
{
    *path = ts_atomic_dir_partial(o->dir);
    return ts_atomic_dir_fd(o->dir);
}

/* ---- the file `labels` ---- */

/* Begins a mode for ts_labels_pack: *from := the used rows of the mode, NULL if every index has a
 * row. */
static int open_rows(void *out, uint32_t mode, void **from, struct ts_err *err)
{
    const struct ts_model_out *o = out;
    struct used_rows *u = malloc(sizeof *u);
    int rc = u == NULL ? ts_no_memory(err, o->conf.dir) : open_used(&o->conf.shape, mode, u, err);
    *from = rc == 0 && has_used(u) ? u : NULL;
    if (*from == NULL)
        free(u);
    return rc;
}

static int next_row(void *from, uint64_t *index, struct ts_err *err)
{
    struct used_rows *u = from;
    const int rc = u->at == u->n ? next_used(u, err) : 0;
    if (rc < 0 || u->n == 0)
        return rc;
    *index = u->piece[u->at++];
    return 1;
}

static void close_rows(void *from)
{
    struct used_rows *u = from;
    ts_rows_reader_close(u->in);
    free(u);
}

/* Writes the file `labels`. *note gets a message if labels cannot be read, or take much space. */
static int write_labels(struct ts_model_out *o, struct ts_err *note, struct ts_err *err)
{
    const uint64_t factors = o->bytes;
    const struct ts_labels_pack_conf conf = { .names = o->conf.names,
                                              .leave_out = o->conf.no_labels,
                                              .float32 = o->conf.precision == TS_FLOAT32,
                                              .open = o->conf.used_rows ? open_rows : NULL,
                                              .row = next_row,
                                              .close = close_rows,
                                              .ctx = o,
                                              .stop = o->conf.stop };
    struct sink_file to;
    uint64_t bytes = 0;
    int rc = open_sink(o, TS_LABELS_FILE, &to, err);
    if (rc < 0)
        return rc;
    rc = close_sink(&to, ts_labels_pack(&conf, to.file, to.path, &bytes, note, err), err);
    if (rc == 0 && note->code == 0 && bytes > NOTED_BYTES && bytes > factors / 4)
        ts_fail(note, TS_ELIMIT,
                "%s: labels of rows take %.3g bytes, and the factors %.3g; without labels "
                "(" TS_SET_NO_LABELS ") the model is smaller",
                o->conf.dir, (double)bytes, (double)factors);
    return rc;
}

static int write_files(struct ts_model_out *o, struct ts_err *note, struct ts_err *err)
{
    const locale_t before = ts_c_locale_enter();
    int rc = 0;
    o->bytes = 0;
    if (o->conf.formats & TS_WRITE_KTENSOR)
        rc = write_ktensor(o, err);
    if (rc == 0 && (o->conf.formats & TS_WRITE_NPY))
        rc = write_npy(o, err);
    if (rc == 0 && (o->conf.formats & TS_WRITE_SPLATT))
        rc = write_splatt(o, err);
    if (rc == 0 && o->conf.used_rows)
        rc = write_index(o, err);
    if (rc == 0 && o->conf.names != NULL)
        rc = write_labels(o, note, err);
    ts_c_locale_leave(before);
    return rc;
}

int ts_model_write(struct ts_model_out *o, ts_get_rows_fn *get_rows, void *from,
                   const double *weight, const double *norm, struct ts_err *warn,
                   struct ts_err *err)
{
    struct ts_factors f = {
        .order = o->conf.shape.order, .rank = o->conf.rank, .get_rows = get_rows, .from = from
    };
    struct ts_err note = { 0 };
    int rc;
    o->get_rows = get_rows;
    o->rows_from = from;
    memcpy(f.n_rows, o->conf.shape.n_rows, sizeof f.n_rows);
    rc = ts_canonical_new(&f, weight, norm, &o->form, err);
    if (rc == 0)
        rc = make_rows(o, err);
    if (rc == 0)
        rc = write_files(o, &note, err);
    free_rows(o);
    if (rc == 0)
        rc = ts_atomic_dir_commit(o->dir, warn, err);
    if (rc < 0)
        return rc;
    if (warn->code == 0 && note.code != 0)
        *warn = note;
    /* removes the run's states, which were needed until its result was in place */
    (void)unlinkat(ts_atomic_dir_fd(o->dir), "state.0", 0);
    (void)unlinkat(ts_atomic_dir_fd(o->dir), "state.1", 0);
    return 0;
}
