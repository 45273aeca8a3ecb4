/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads modeK.labels line by line, through a buffer that holds at least one line. */
#include "format/label_lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "format/file_read.h"

#define PIECE_BYTES ((size_t)1 << 18)

struct ts_label_lines {
    const struct ts_mode *mode;
    char *buf;
    size_t room, from, n; /* room: size of buf; from: start of the next line; n: bytes in buf */
    uint64_t at, line;    /* at: next byte of the file to read; line: number of lines returned */
};

int ts_label_lines_open(const struct ts_tensor *t, uint32_t mode, struct ts_label_lines **ret,
                        struct ts_err *err)
{
    struct ts_label_lines *l;
    int rc;
    *ret = NULL;
    if (t->mode[mode].disk.labels_bytes == 0)
        return 0;
    rc = ts_tensor_labels_check(t, mode, err);
    if (rc < 0)
        return rc;
    l = calloc(1, sizeof *l);
    if (l == NULL || (l->buf = malloc(PIECE_BYTES)) == NULL) {
        free(l);
        return ts_no_memory(err, t->mode[mode].labels_path);
    }
    l->mode = &t->mode[mode];
    l->room = PIECE_BYTES;
    l->at = sizeof(struct ts_disk_labels);
    *ret = l;
    return 0;
}

/* Moves the bytes of the unfinished line to the start of the buffer, and reads more of the file
 * after them. */
static int fill(struct ts_label_lines *l, struct ts_err *err)
{
    const uint64_t left = l->mode->disk.labels_bytes - l->at;
    size_t want;
    int rc;
    memmove(l->buf, l->buf + l->from, l->n - l->from);
    l->n -= l->from;
    l->from = 0;
    if (l->n > l->room / 2) {
        char *larger = realloc(l->buf, 2 * l->room);
        if (larger == NULL)
            return ts_no_memory(err, l->mode->labels_path);
        l->buf = larger;
        l->room *= 2;
    }
    want = left < l->room - l->n ? (size_t)left : l->room - l->n;
    rc = ts_file_read_at(l->mode->labels_fd, l->mode->labels_path, l->at, want, l->buf + l->n, err);
    if (rc == 0) {
        l->n += want;
        l->at += want;
    }
    return rc;
}

int ts_label_lines_next(struct ts_label_lines *l, const char **ret, size_t *n, struct ts_err *err)
{
    size_t looked = 0; /* bytes of the line already searched for its end */
    *ret = NULL;
    *n = 0;
    if (l->line == l->mode->disk.n_labels)
        return 0;
    for (;;) {
        const char *start = l->buf + l->from;
        const char *end = memchr(start + looked, '\n', l->n - l->from - looked);
        int rc;
        if (end != NULL) {
            *ret = start;
            *n = (size_t)(end - start);
            l->from += *n + 1;
            l->line++;
            return 0;
        }
        if (l->at == l->mode->disk.labels_bytes)
            return ts_fail(err, TS_EFORMAT,
                           "%s: it has not the %" PRIu64 " line%s that the index says",
                           l->mode->labels_path, l->mode->disk.n_labels,
                           ts_num_plural(l->mode->disk.n_labels));
        looked = l->n - l->from;
        rc = fill(l, err);
        if (rc < 0)
            return rc;
    }
}

void ts_label_lines_close(struct ts_label_lines *l)
{
    if (l == NULL)
        return;
    free(l->buf);
    free(l);
}

char *ts_label_string(const char *text, size_t n)
{
    static const char instead[] = { '\xef', '\xbf', '\xbd' };
    size_t zeros = 0;
    char *ret, *to;
    for (size_t i = 0; i < n; i++)
        zeros += text[i] == '\0';
    ret = to = malloc(n + zeros * (sizeof instead - 1) + 1);
    if (ret == NULL)
        return NULL;
    for (size_t i = 0; i < n && zeros > 0; i++)
        if (text[i] == '\0') {
            memcpy(to, instead, sizeof instead);
            to += sizeof instead;
        } else {
            *to++ = text[i];
        }
    if (zeros == 0) {
        memcpy(to, text, n);
        to += n;
    }
    *to = '\0';
    return ret;
}
