#include "format/text_input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/gunzip.h"

struct ts_text_input {
    const char *const *paths;
    uint32_t n_paths, next_path; /* next_path - 1 is open */
    size_t piece_bytes;
    uint64_t total_bytes, done_bytes; /* on disk; done: of files closed */
    int fd, started;
    const char *name; /* of the open file */
    struct ts_gunzip *gzip; /* NULL: plain */
    uint64_t plain_bytes;
    unsigned char head[2];
    size_t n_head;  /* bytes of head not handed out yet */
    char *carry;    /* the start of a line whose end was not read yet */
    size_t n_carry;
};

int ts_text_input_open(const char *const paths[], uint32_t n_paths, size_t piece_bytes,
                       struct ts_text_input **ret, struct ts_err *err)
{
    struct ts_text_input *in = calloc(1, sizeof *in);
    if (in == NULL || (in->carry = malloc(piece_bytes)) == NULL) {
        free(in);
        return ts_fail(err, TS_ENOMEM, "out of memory for reading text");
    }
    in->paths = paths;
    in->n_paths = n_paths;
    in->piece_bytes = piece_bytes;
    in->fd = -1;
    for (uint32_t i = 0; i < n_paths; i++) {
        struct stat st;
        if (strcmp(paths[i], "-") == 0 || stat(paths[i], &st) < 0 || !S_ISREG(st.st_mode)) {
            in->total_bytes = 0;
            break;
        }
        in->total_bytes += (uint64_t)st.st_size;
    }
    *ret = in;
    return 0;
}

static void close_file(struct ts_text_input *in)
{
    in->done_bytes += in->gzip != NULL ? ts_gunzip_position(in->gzip) : in->plain_bytes;
    ts_gunzip_free(in->gzip);
    in->gzip = NULL;
    in->plain_bytes = 0;
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    in->fd = -1;
}

void ts_text_input_close(struct ts_text_input *in)
{
    if (in == NULL)
        return;
    close_file(in);
    free(in->carry);
    free(in);
}

uint64_t ts_text_input_total(const struct ts_text_input *in)
{
    return in->total_bytes;
}

/* Reads until `room` bytes are there or the file ends. */
static int read_fully(struct ts_text_input *in, char *buf, size_t room, size_t *ret,
                      struct ts_err *err)
{
    size_t n = 0;
    while (n < room) {
        const ssize_t got = read(in->fd, buf + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot read", in->name);
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *ret = n;
    return 0;
}

static int open_file(struct ts_text_input *in, struct ts_err *err)
{
    const char *path = in->paths[in->next_path];
    size_t n = 0;
    int rc;
    in->next_path++;
    in->started = 0;
    in->n_carry = 0;
    if (strcmp(path, "-") == 0) {
        in->fd = STDIN_FILENO;
        in->name = "standard input";
    } else {
        in->fd = open(path, O_RDONLY | O_CLOEXEC);
        in->name = path;
    }
    if (in->fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot open", path);
    rc = read_fully(in, (char *)in->head, sizeof in->head, &n, err);
    if (rc < 0)
        return rc;
    in->n_head = n;
    if (n == 2 && in->head[0] == 0x1f && in->head[1] == 0x8b) {
        in->n_head = 0;
        return ts_gunzip_new(in->fd, in->name, in->head, n, &in->gzip, err);
    }
    posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static int read_text(struct ts_text_input *in, char *buf, size_t room, size_t *ret,
                     struct ts_err *err)
{
    const size_t n_head = in->n_head;
    int rc;
    if (in->gzip != NULL)
        return ts_gunzip_read(in->gzip, buf, room, ret, err);
    memcpy(buf, in->head, n_head); /* the two bytes that told the kind of file */
    in->n_head = 0;
    rc = read_fully(in, buf + n_head, room - n_head, ret, err);
    if (rc < 0)
        return rc;
    *ret += n_head;
    in->plain_bytes += *ret;
    return 0;
}

int ts_text_input_next(struct ts_text_input *in, char *buf, struct ts_text_piece *ret,
                       struct ts_err *err)
{
    memset(ret, 0, sizeof *ret);
    for (;;) {
        size_t have, got = 0;
        const char *last;
        int rc = 0;
        if (in->fd < 0) {
            if (in->next_path == in->n_paths)
                return 0;
            rc = open_file(in, err);
            if (rc < 0)
                return rc;
        }
        memcpy(buf, in->carry, in->n_carry);
        have = in->n_carry;
        in->n_carry = 0;
        rc = read_text(in, buf + have, in->piece_bytes - 1 - have, &got, err);
        if (rc < 0)
            return rc;
        have += got;
        ret->file = in->next_path - 1;
        ret->first = !in->started;
        in->started = 1;
        if (have < in->piece_bytes - 1) { /* the end of the file */
            close_file(in);
            if (have > 0 && buf[have - 1] != '\n')
                buf[have++] = '\n';
            if (have == 0)
                continue;
            ret->bytes = have;
            ret->done_bytes = in->done_bytes;
            return 0;
        }
        last = memrchr(buf, '\n', have);
        if (last == NULL)
            return ts_fail(err, TS_EFORMAT, "%s: a line is longer than %zu bytes", in->name,
                           in->piece_bytes - 2);
        ret->bytes = (size_t)(last + 1 - buf);
        in->n_carry = have - ret->bytes;
        memcpy(in->carry, buf + ret->bytes, in->n_carry);
        ret->done_bytes = in->done_bytes +
            (in->gzip != NULL ? ts_gunzip_position(in->gzip) : in->plain_bytes);
        return 0;
    }
}
