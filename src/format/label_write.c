#include "format/label_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "format/layout.h"
#include "format/tempfile.h"
#include "format/text_input.h"

#define PIECE_BYTES ((size_t)1 << 20)

struct copy {
    struct ts_text_input *in;
    char *buf;
    int fd;
    const char *to;
    struct ts_disk_labels head;
};

/* Drops the carriage return in front of each line end; returns the bytes left. */
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

static int write_at(struct copy *c, const void *data, size_t bytes, uint64_t at,
                    struct ts_err *err)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = pwrite(c->fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot write", c->to);
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* The header comes first but is known last: so the hash reads the file again. */
static int hash_file(struct copy *c, uint64_t bytes, uint64_t *hash, struct ts_err *err)
{
    XXH3_state_t *state = XXH3_createState();
    int rc = state == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", c->to) : 0;
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

/* A byte order mark is no part of the first label. */
static size_t drop_mark(char *text, size_t bytes)
{
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    memmove(text, text + mark, bytes - mark);
    return bytes - mark;
}

static int copy_lines(struct copy *c, struct ts_err *err)
{
    for (;;) {
        struct ts_text_piece piece;
        size_t n;
        int rc = ts_text_input_next(c->in, c->buf, &piece, err);
        if (rc < 0 || piece.bytes == 0)
            return rc;
        n = piece.first ? drop_mark(c->buf, piece.bytes) : piece.bytes;
        n = drop_returns(c->buf, n, &c->head.n_labels);
        rc = write_at(c, c->buf, n, sizeof c->head + c->head.text_bytes, err);
        if (rc < 0)
            return rc;
        c->head.text_bytes += n;
    }
}

int ts_label_write(const char *from, const char *to, uint32_t mode, uint64_t *n_labels,
                   uint64_t *bytes, uint64_t *hash, struct ts_err *err)
{
    struct copy c = { .fd = -1, .to = to };
    int rc = ts_text_input_open(&from, 1, PIECE_BYTES, &c.in, err);
    if (rc < 0)
        return rc;
    memcpy(c.head.magic, TS_LABELS_MAGIC, sizeof c.head.magic);
    c.head.version = TS_FORMAT_VERSION;
    c.head.mode = mode;
    c.buf = malloc(PIECE_BYTES);
    c.fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (c.buf == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", to);
    else if (c.fd < 0)
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot create", to);
    else
        rc = copy_lines(&c, err);
    if (rc == 0)
        rc = write_at(&c, &c.head, sizeof c.head, 0, err);
    *n_labels = c.head.n_labels;
    *bytes = sizeof c.head + c.head.text_bytes;
    if (rc == 0)
        rc = hash_file(&c, *bytes, hash, err);
    ts_text_input_close(c.in);
    free(c.buf);
    if (c.fd >= 0)
        close(c.fd);
    return rc;
}
