/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads selected labels from modeK.labels: one pass in pieces, which keeps only the wanted
 * lines. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/file_read.h"
#include "format/label_lines.h"
#include "base/num.h"
#include "format/tensor.h"

#define PIECE_BYTES ((size_t)1 << 18)

/* A line of the file of labels, joined from pieces of text. */
struct line {
    char *text;
    size_t n;
};

static int append(struct line *line, const char *text, size_t n, const char *path,
                  struct ts_err *err)
{
    char *longer = realloc(line->text, line->n + n + 1);
    if (longer == NULL)
        return ts_no_memory(err, path);
    line->text = longer;
    memcpy(line->text + line->n, text, n);
    line->n += n;
    line->text[line->n] = '\0';
    return 0;
}

/* Turns the line into a C string. */
static int make_string(struct line *line, const char *path, struct ts_err *err)
{
    char *text = ts_label_string(line->text, line->n);
    free(line->text);
    line->text = text;
    return text != NULL ? 0 : ts_no_memory(err, path);
}

/* Copies the wanted labels from a piece to ret. *at: number of the line that the piece starts in;
 * *next: position in index[] of the next wanted label. */
static int scan_piece(const char *piece, size_t n_bytes, uint64_t *at, uint64_t n,
                      const uint64_t *index, uint64_t *next, struct line *line, char **ret,
                      const char *path, struct ts_err *err)
{
    for (size_t from = 0; from < n_bytes && *next < n;) {
        const char *end = memchr(piece + from, '\n', n_bytes - from);
        const size_t len = end == NULL ? n_bytes - from : (size_t)(end - piece) - from;
        if (*at == index[*next]) {
            const int rc = append(line, piece + from, len, path, err);
            if (rc < 0)
                return rc;
        }
        from += len + 1;
        if (end == NULL)
            break;
        if (*at == index[*next]) {
            const int rc = make_string(line, path, err);
            if (rc < 0)
                return rc;
            ret[*next] = line->text;
            *line = (struct line){ 0 };
            (*next)++;
            while (*next < n && index[*next] == *at) { /* the same index may be wanted twice */
                ret[*next] = strdup(ret[*next - 1]);
                if (ret[(*next)++] == NULL)
                    return ts_no_memory(err, path);
            }
        }
        (*at)++;
    }
    return 0;
}

static int check_header(int fd, const struct ts_mode *m, uint32_t mode, struct ts_err *err)
{
    struct ts_disk_labels h;
    const int rc = ts_file_read_at(fd, m->labels_path, 0, sizeof h, &h, err);
    if (rc < 0)
        return rc;
    if (memcmp(h.magic, TS_LABELS_MAGIC, sizeof h.magic) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not a labels file", m->labels_path);
    if (h.version != TS_FORMAT_VERSION)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32 ", but this program reads version %u",
                       m->labels_path, h.version, TS_FORMAT_VERSION);
    if (h.mode != mode || h.n_labels != m->disk.n_labels ||
        h.text_bytes != m->disk.labels_bytes - sizeof h)
        return ts_fail(err, TS_EFORMAT, "%s: its header does not match the index", m->labels_path);
    return 0;
}

int ts_tensor_labels_check(const struct ts_tensor *t, uint32_t mode, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    const int rc = ts_file_read_check(m->labels_fd, m->labels_path, m->disk.labels_bytes,
                                      m->disk.labels_hash, err);
    return rc == 0 ? check_header(m->labels_fd, m, mode, err) : rc;
}

int ts_tensor_labels_lines(const struct ts_tensor *t, uint32_t mode, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    const uint64_t end = m->disk.labels_bytes;
    uint64_t n_lines = 0;
    char *piece = malloc(PIECE_BYTES), last = '\n';
    int rc =
        piece == NULL ? ts_no_memory(err, m->labels_path) : ts_tensor_labels_check(t, mode, err);
    for (uint64_t at = sizeof(struct ts_disk_labels); rc == 0 && at < end; at += PIECE_BYTES) {
        const size_t n = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        rc = ts_file_read_at(m->labels_fd, m->labels_path, at, n, piece, err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            n_lines += piece[i] == '\n';
        last = rc == 0 ? piece[n - 1] : last;
    }
    if (rc == 0 && (n_lines != m->disk.n_labels || last != '\n'))
        rc = ts_fail(err, TS_EFORMAT, "%s: it has not the %" PRIu64 " line%s that the index says",
                     m->labels_path, m->disk.n_labels, ts_num_plural(m->disk.n_labels));
    free(piece);
    return rc;
}

static int read_labels(int fd, const struct ts_mode *m, uint64_t n, const uint64_t *index,
                       char **ret, struct ts_err *err)
{
    const uint64_t end = m->disk.labels_bytes;
    uint64_t at = sizeof(struct ts_disk_labels), line_no = 0, next = 0;
    char *piece = malloc(PIECE_BYTES);
    struct line line = { 0 };
    int rc = piece == NULL ? ts_no_memory(err, m->labels_path) : 0;
    while (n > 0 && index[n - 1] >= m->disk.n_labels) /* skips indices without a line in the file */
        n--;
    while (rc == 0 && next < n && at < end) {
        const size_t want = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        rc = ts_file_read_at(fd, m->labels_path, at, want, piece, err);
        if (rc == 0)
            rc =
                scan_piece(piece, want, &line_no, n, index, &next, &line, ret, m->labels_path, err);
        at += want;
    }
    if (rc == 0 && next < n)
        rc = ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " line%s, expected %" PRIu64, m->labels_path,
                     line_no, ts_num_plural(line_no), m->disk.n_labels);
    free(line.text);
    free(piece);
    return rc;
}

int ts_tensor_labels(const struct ts_tensor *t, uint32_t mode, uint64_t n, const uint64_t *index,
                     char **ret, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    int rc;
    for (uint64_t i = 0; i < n; i++)
        ret[i] = NULL;
    if (m->disk.labels_bytes == 0)
        return 0;
    rc = ts_tensor_labels_check(t, mode, err);
    if (rc == 0)
        rc = read_labels(m->labels_fd, m, n, index, ret, err);
    for (uint64_t i = 0; rc < 0 && i < n; i++) {
        free(ret[i]);
        ret[i] = NULL;
    }
    return rc;
}
