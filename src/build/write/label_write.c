/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks files of labels, and writes modeK.labels from such a file, from another tensor, or label
 * by label. */
#include "build/write/label_write.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "format/file_read.h"
#include "format/layout.h"
#include "format/tensor.h"
#include "source/names/string_sort.h"
#include "base/num.h"
#include "base/setting.h"
#include "base/stop.h"
#include "base/files/tempfile.h"
#include "base/files/fd.h"
#include "source/text/text_input.h"

#define PIECE_BYTES ((size_t)1 << 20)

struct copy {
    struct ts_text_input *in;
    char *buf;
    int fd;
    const char *from, *to;
    struct ts_disk_labels head;
};

/* Drops the carriage return before each line feed of a text. Returns the number of bytes left. */
static size_t drop_returns(char *text, size_t bytes, uint64_t *n_lines)
{
    size_t out = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n')
            continue;
        *n_lines += text[i] == '\n';
        text[out++] = text[i];
    }
    return out;
}

static int write_at(struct copy *c, const void *data, size_t bytes, uint64_t at, struct ts_err *err)
{
    return ts_fd_write(c->fd, data, bytes, at) < 0
               ? ts_fail_errno(err, TS_EIO, "%s: cannot write", c->to)
               : 0;
}

/* Computes the hash of a file of labels by reading it again, because its header comes first but is
 * written last. */
static int hash_file(struct copy *c, uint64_t bytes, uint64_t *hash, struct ts_err *err)
{
    XXH3_state_t *state = XXH3_createState();
    int rc = state == NULL ? ts_no_memory(err, c->to) : 0;
    if (rc == 0)
        XXH3_64bits_reset(state);
    for (uint64_t at = 0; at < bytes && rc == 0; at += PIECE_BYTES) {
        const size_t n = bytes - at < PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
        rc = ts_tempfile_read(c->fd, c->to, c->buf, n, at, err);
        if (rc == 0)
            XXH3_64bits_update(state, c->buf, n);
    }
    if (rc == 0)
        *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return rc;
}

/* Drops a byte order mark at the start of a text, because it is not part of the first label.
 * Returns the number of bytes left. */
static size_t drop_mark(char *text, size_t bytes)
{
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    memmove(text, text + mark, bytes - mark);
    return bytes - mark;
}

/* Fails if a label has a NUL byte, because the label would end there for users of the library.
 * line: number of lines before `text`. */
static int check_bytes(const char *from, const char *text, size_t bytes, uint64_t line,
                       struct ts_err *err)
{
    const char *nul = memchr(text, '\0', bytes);
    if (nul == NULL)
        return 0;
    for (line++; text < nul; text++)
        line += *text == '\n';
    return ts_fail(err, TS_EFORMAT, "%s:%" PRIu64 ": a name with a NUL byte", from, line);
}

static int copy_lines(struct copy *c, struct ts_err *err)
{
    for (;;) {
        struct ts_text_piece piece;
        struct ts_err why = { 0 };
        size_t n;
        int rc = ts_text_input_next(c->in, c->buf, &piece, &why);
        if (rc < 0 && piece.bad_line)
            return ts_fail(err, rc, "%s:%" PRIu64 ": %s", c->from, c->head.n_labels + 1, why.text);
        if (rc < 0 && err != NULL)
            *err = why;
        if (rc < 0 || piece.bytes == 0)
            return rc;
        n = piece.first ? drop_mark(c->buf, piece.bytes) : piece.bytes;
        rc = check_bytes(c->from, c->buf, n, c->head.n_labels, err);
        if (rc < 0)
            return rc;
        n = drop_returns(c->buf, n, &c->head.n_labels);
        rc = write_at(c, c->buf, n, sizeof c->head + c->head.text_bytes, err);
        if (rc < 0)
            return rc;
        c->head.text_bytes += n;
    }
}

/* ------------------------------------------------------------------ checks of labels */

#define CHECK_BYTES (UINT64_C(4) << 20)
#define QUOTE_CHARS 60

int ts_label_check_count(const char *from, uint32_t mode, uint64_t dim, uint64_t n_labels,
                         struct ts_err *err)
{
    if (n_labels == dim || n_labels == 0)
        return 0;
    return ts_fail(err, TS_EFORMAT,
                   "%s: %" PRIu64 " name%s for the %" PRIu64 " %s of " TS_NTH_MODE
                   "%s; " TS_SET_PARTIAL_MAP " takes them as they are",
                   from, n_labels, ts_num_plural(n_labels), dim, dim == 1 ? "index" : "indices",
                   mode + 1,
                   n_labels == dim + 1 ? " (is the first line a header? Then take it out)"
                   : n_labels > dim    ? " (" TS_SET_SIZES " says how many indices there are)"
                                       : "");
}

/* Adds the lines of a piece of a file of labels to a sort, which finds equal labels. */
static int add_lines(struct ts_string_sort *sort, const char *from, const char *text, size_t bytes,
                     uint64_t *n_lines, struct ts_err *err)
{
    const char *end = text + bytes, *stop;
    int rc = check_bytes(from, text, bytes, *n_lines, err);
    for (const char *p = text; p < end && rc == 0; p = stop + 1) {
        size_t n;
        stop = memchr(p, '\n', (size_t)(end - p));
        n = (size_t)(stop - p) - (stop > p && stop[-1] == '\r');
        ++*n_lines;
        if (n > 0) /* names longer than TS_STRING_MAX are compared by their first bytes */
            rc = ts_string_sort_add(sort, p, n < TS_STRING_MAX ? (uint32_t)n : TS_STRING_MAX,
                                    *n_lines, err);
    }
    return rc;
}

static int find_doubled(struct ts_string_sort *sort, const char *from, struct ts_err *err)
{
    char last[TS_STRING_MAX], shown[QUOTE_CHARS + 1];
    uint64_t line = 0, number;
    uint32_t n_last = 0, n;
    const char *key;
    int rc = ts_string_sort_end(sort, err);
    while (rc == 0) {
        rc = ts_string_sort_next(sort, &key, &n, &number, err);
        if (rc <= 0)
            break;
        rc = 0;
        if (line > 0 && n == n_last && n < TS_STRING_MAX && memcmp(key, last, n) == 0) {
            const uint32_t kept = n < QUOTE_CHARS ? n : QUOTE_CHARS;
            memcpy(shown, key, kept);
            shown[kept] = '\0';
            return ts_fail(err, TS_EFORMAT,
                           "%s: lines %" PRIu64 " and %" PRIu64
                           " are the same name, '%s': each index needs its own",
                           from, line < number ? line : number, line < number ? number : line,
                           shown);
        }
        memcpy(last, key, n);
        n_last = n;
        line = number;
    }
    return rc;
}

int ts_label_check(const char *from, uint32_t mode, uint64_t dim, int partial, const char *tmp,
                   const volatile sig_atomic_t *stop, struct ts_err *err)
{
    struct ts_text_input *in = NULL;
    struct ts_string_sort *sort = NULL;
    struct ts_text_piece piece;
    uint64_t n_lines = 0;
    struct stat st;
    char *buf;
    int rc;
    if (strcmp(from, "-") == 0 || stat(from, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    buf = malloc(PIECE_BYTES);
    rc = buf == NULL ? ts_no_memory(err, from)
                     : ts_text_input_open(&from, 1, PIECE_BYTES, stop, &in, err);
    if (rc == 0)
        rc = ts_string_sort_new(tmp, CHECK_BYTES, stop, &sort, err);
    while (rc == 0) {
        size_t n;
        rc = ts_text_input_next(in, buf, &piece, err);
        if (rc < 0 && piece.bad_line)
            rc = 0; /* not reported here, because ts_label_write reports the error of the line */
        if (rc < 0 || piece.bytes == 0)
            break;
        n = piece.first ? drop_mark(buf, piece.bytes) : piece.bytes;
        rc = add_lines(sort, from, buf, n, &n_lines, err);
    }
    if (rc == 0 && !partial)
        rc = ts_label_check_count(from, mode, dim, n_lines, err);
    if (rc == 0)
        rc = find_doubled(sort, from, err);
    ts_string_sort_free(sort);
    ts_text_input_close(in);
    free(buf);
    return rc;
}

/* ------------------------------------------------------------------ writing label by label */

struct ts_label_writer {
    struct copy copy;
    char *path;
    size_t n; /* number of bytes in copy.buf that are not written yet */
};

int ts_label_writer_new(const char *path, uint32_t mode, struct ts_label_writer **ret,
                        struct ts_err *err)
{
    struct ts_label_writer *w = calloc(1, sizeof *w);
    if (w == NULL || (w->path = strdup(path)) == NULL ||
        (w->copy.buf = malloc(PIECE_BYTES)) == NULL) {
        if (w != NULL)
            free(w->path);
        free(w);
        return ts_no_memory(err, path);
    }
    w->copy.to = w->path;
    memcpy(w->copy.head.magic, TS_LABELS_MAGIC, sizeof w->copy.head.magic);
    w->copy.head.version = TS_FORMAT_VERSION;
    w->copy.head.mode = mode;
    w->copy.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->copy.fd < 0) {
        const int rc = ts_fail_errno(err, TS_EIO, "%s: cannot create", path);
        ts_label_writer_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

static int flush_names(struct ts_label_writer *w, struct ts_err *err)
{
    const int rc =
        write_at(&w->copy, w->copy.buf, w->n, sizeof w->copy.head + w->copy.head.text_bytes, err);
    w->copy.head.text_bytes += w->n;
    w->n = 0;
    return rc;
}

int ts_label_writer_add(struct ts_label_writer *w, const char *name, size_t n, struct ts_err *err)
{
    int rc = w->n + n + 1 > PIECE_BYTES ? flush_names(w, err) : 0;
    memcpy(w->copy.buf + w->n, name, n);
    w->n += n;
    w->copy.buf[w->n++] = '\n';
    w->copy.head.n_labels++;
    return rc;
}

int ts_label_writer_get(struct ts_label_writer *w, uint64_t i, char *ret, size_t room, size_t *n,
                        struct ts_err *err)
{
    uint64_t at = 0, line = 0;
    int rc = flush_names(w, err);
    *n = 0;
    while (rc == 0 && line <= i && at < w->copy.head.text_bytes) {
        const uint64_t left = w->copy.head.text_bytes - at;
        const size_t piece = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        rc =
            ts_file_read_at(w->copy.fd, w->path, sizeof w->copy.head + at, piece, w->copy.buf, err);
        for (size_t k = 0; k < piece && rc == 0 && line <= i; k++) {
            if (w->copy.buf[k] == '\n')
                line++;
            else if (line == i && *n < room)
                ret[(*n)++] = w->copy.buf[k];
        }
        at += piece;
    }
    return rc;
}

int ts_label_writer_finish(struct ts_label_writer *w, uint64_t *n_labels, uint64_t *bytes,
                           uint64_t *hash, struct ts_err *err)
{
    int rc = flush_names(w, err);
    if (rc == 0)
        rc = write_at(&w->copy, &w->copy.head, sizeof w->copy.head, 0, err);
    *n_labels = w->copy.head.n_labels;
    *bytes = sizeof w->copy.head + w->copy.head.text_bytes;
    return rc < 0 ? rc : hash_file(&w->copy, *bytes, hash, err);
}

int ts_label_writer_sync(const struct ts_label_writer *w, struct ts_err *err)
{
    return fsync(w->copy.fd) == 0
               ? 0
               : ts_fail_errno(err, TS_EIO, "%s: cannot be flushed to the disk", w->path);
}

void ts_label_writer_free(struct ts_label_writer *w)
{
    if (w == NULL)
        return;
    ts_fd_close(w->copy.fd);
    free(w->copy.buf);
    free(w->path);
    free(w);
}

/* ------------------------------------------------------------------ copying a file of labels */

/* Creates a file of labels. end_labels writes its header. */
static int begin_labels(struct copy *c, uint32_t mode, struct ts_err *err)
{
    memcpy(c->head.magic, TS_LABELS_MAGIC, sizeof c->head.magic);
    c->head.version = TS_FORMAT_VERSION;
    c->head.mode = mode;
    c->buf = malloc(PIECE_BYTES);
    c->fd = open(c->to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (c->buf == NULL)
        return ts_no_memory(err, c->to);
    return c->fd < 0 ? ts_fail_errno(err, TS_EIO, "%s: cannot create", c->to) : 0;
}

/* If rc is 0, writes the header of a file of labels and computes its hash. Closes the file also
 * after a failure. Returns rc or a new failure. */
static int end_labels(struct copy *c, int rc, uint64_t *bytes, uint64_t *hash, struct ts_err *err)
{
    if (rc == 0)
        rc = write_at(c, &c->head, sizeof c->head, 0, err);
    *bytes = sizeof c->head + c->head.text_bytes;
    if (rc == 0)
        rc = hash_file(c, *bytes, hash, err);
    free(c->buf);
    ts_fd_close(c->fd);
    return rc;
}

int ts_label_write(const char *from, const char *to, uint32_t mode,
                   const volatile sig_atomic_t *stop, uint64_t *n_labels, uint64_t *bytes,
                   uint64_t *hash, struct ts_err *err)
{
    struct copy c = { .fd = -1, .from = from, .to = to };
    int rc = ts_text_input_open(&from, 1, PIECE_BYTES, stop, &c.in, err);
    if (rc < 0)
        return rc;
    rc = begin_labels(&c, mode, err);
    if (rc == 0)
        rc = copy_lines(&c, err);
    *n_labels = c.head.n_labels;
    rc = end_labels(&c, rc, bytes, hash, err);
    ts_text_input_close(c.in);
    return rc;
}

static int copy_text(struct copy *c, int fd, const volatile sig_atomic_t *stop, struct ts_err *err)
{
    const uint64_t begin = sizeof c->head;
    int rc = 0;
    for (uint64_t at = 0; at < c->head.text_bytes && rc == 0; at += PIECE_BYTES) {
        const uint64_t left = c->head.text_bytes - at;
        const size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        rc = ts_stop_check(stop, err);
        if (rc == 0)
            rc = ts_tempfile_read(fd, c->from, c->buf, n, begin + at, err);
        if (rc == 0)
            rc = write_at(c, c->buf, n, begin + at, err);
    }
    return rc;
}

int ts_label_copy(const struct ts_tensor *t, uint32_t from, const char *to, uint32_t mode,
                  const volatile sig_atomic_t *stop, uint64_t *n_labels, uint64_t *bytes,
                  uint64_t *hash, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[from];
    struct copy c = { .fd = -1, .from = m->labels_path, .to = to };
    int rc = ts_tensor_labels_check(t, from, err);
    if (rc < 0)
        return rc;
    c.head.n_labels = *n_labels = m->disk.n_labels;
    c.head.text_bytes = m->disk.labels_bytes - sizeof c.head;
    rc = begin_labels(&c, mode, err);
    if (rc == 0)
        rc = copy_text(&c, m->labels_fd, stop, err);
    return end_labels(&c, rc, bytes, hash, err);
}
