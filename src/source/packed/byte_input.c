/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a file, finds by its first bytes whether it is compressed, and returns its decompressed
 * content. */
#include "source/packed/byte_input.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/setting.h"
#include "format/file_read.h"
#include "source/packed/decompress.h"
#include "source/text/foreign_text.h"

struct ts_byte_input {
    int fd;
    /* 1: the bytes can be read at any position, because it is an uncompressed regular file that was
     * opened at its start */
    int anywhere;
    const char *name;
    const volatile sig_atomic_t *stop;
    const struct ts_decompressor *packed; /* how the file is compressed; NULL: it is not */
    void *unpacker;                       /* state of decompression; NULL: it has not begun */
    uint64_t unpack_bytes;
    uint64_t plain_bytes; /* number of bytes of an uncompressed file that were returned */
    unsigned char head[TS_BYTE_INPUT_HEAD];
    /* bytes of `head` that were returned; bytes in `head` */
    size_t head_at, n_head;
};

int ts_byte_input_look(const char *path, struct stat *st)
{
    int fd = -1;
    if (stat(path, st) == 0 && S_ISREG(st->st_mode))
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* after the call of stat, another file may have got this path */
    if (fd >= 0 && (fstat(fd, st) < 0 || !S_ISREG(st->st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

const char *ts_byte_input_name(const struct ts_byte_input *in)
{
    return in->name;
}

int ts_byte_input_packed(const struct ts_byte_input *in)
{
    return in->packed != NULL;
}

/* Reads until `buf` is full or the file ends. */
static int read_plain(struct ts_byte_input *in, char *buf, size_t room, size_t *ret,
                      struct ts_err *err)
{
    size_t n = 0, got = 1;
    while (n < room && got > 0) {
        const int rc = ts_file_read_next(in->fd, in->name, buf + n, room - n, in->stop, &got, err);
        if (rc < 0)
            return rc;
        n += got;
    }
    *ret = n;
    return 0;
}

/* Begins to decompress a file. If this build cannot, fails with the name of a program that can. */
static int open_packed(struct ts_byte_input *in, struct ts_err *err)
{
    const struct ts_packed_file file = { .fd = in->fd,
                                         .name = in->name,
                                         .head = in->head,
                                         .n_head = in->n_head,
                                         .stop = in->stop,
                                         .memory = in->unpack_bytes };
    if (in->packed->open == NULL && strcmp(in->packed->name, "zip") == 0) {
        size_t more = 0;
        int rc =
            read_plain(in, (char *)in->head + in->n_head, sizeof in->head - in->n_head, &more, err);
        if (rc == 0)
            rc = ts_foreign_zip_fails(in->name, in->head, in->n_head + more, err);
        if (rc < 0)
            return rc;
    }
    if (in->packed->open == NULL)
        return ts_fail(err, TS_EFORMAT,
                       "%s: these are %s data, which this build does not read; unpack them: "
                       "%s FILE > NEW-FILE",
                       in->name, in->packed->name, in->packed->tool);
    in->n_head = 0;
    return in->packed->open(&file, &in->unpacker, err);
}

static int begin(struct ts_byte_input *in, struct ts_err *err)
{
    return in->packed != NULL && in->unpacker == NULL ? open_packed(in, err) : 0;
}

static int read_on(struct ts_byte_input *in, char *buf, size_t room, size_t *ret,
                   struct ts_err *err)
{
    return in->unpacker != NULL ? in->packed->read(in->unpacker, buf, room, ret, err)
                                : read_plain(in, buf, room, ret, err);
}

int ts_byte_input_open(const char *path, uint64_t unpack_bytes, const volatile sig_atomic_t *stop,
                       struct ts_byte_input **ret, struct ts_err *err)
{
    struct ts_byte_input *in = calloc(1, sizeof *in);
    struct stat st;
    int rc = 0;
    if (in == NULL)
        return ts_no_memory(err, path);
    in->stop = stop;
    in->unpack_bytes = unpack_bytes > TS_BYTE_INPUT_UNPACK ? unpack_bytes : TS_BYTE_INPUT_UNPACK;
    in->name = strcmp(path, "-") == 0 ? "standard input" : path;
    in->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : ts_file_read_open(path, err);
    if (in->fd < 0) {
        rc = in->fd;
        goto fail;
    }
    in->anywhere =
        fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) && lseek(in->fd, 0, SEEK_CUR) == 0;
    rc = read_plain(in, (char *)in->head, TS_DECOMPRESS_HEAD, &in->n_head, err);
    if (rc < 0)
        goto fail;
    in->packed = ts_decompress_find(in->head, in->n_head);
    if (in->packed == NULL)
        posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *ret = in;
    return 0;
fail:
    ts_byte_input_close(in);
    return rc;
}

void ts_byte_input_close(struct ts_byte_input *in)
{
    if (in == NULL)
        return;
    if (in->unpacker != NULL)
        in->packed->close(in->unpacker);
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    free(in);
}

int ts_byte_input_peek(struct ts_byte_input *in, const unsigned char **ret, size_t *n,
                       struct ts_err *err)
{
    size_t got = 0;
    int rc = begin(in, err);
    if (rc == 0)
        rc = read_on(in, (char *)in->head + in->n_head, sizeof in->head - in->n_head, &got, err);
    if (rc < 0)
        return rc;
    in->n_head += got;
    *ret = in->head;
    *n = in->n_head;
    return 0;
}

int ts_byte_input_read(struct ts_byte_input *in, char *buf, size_t room, size_t *ret,
                       struct ts_err *err)
{
    size_t known = 0, got = 0;
    int rc = begin(in, err);
    if (rc == 0) {
        known = in->n_head - in->head_at < room ? in->n_head - in->head_at : room;
        memcpy(buf, in->head + in->head_at, known);
        in->head_at += known;
    }
    if (rc == 0 && known < room)
        rc = read_on(in, buf + known, room - known, &got, err);
    if (rc < 0)
        return rc;
    in->plain_bytes += known + got;
    *ret = known + got;
    return 0;
}

uint64_t ts_byte_input_position(const struct ts_byte_input *in)
{
    return in->unpacker != NULL ? in->packed->position(in->unpacker) : in->plain_bytes;
}

uint64_t ts_byte_input_size(const struct ts_byte_input *in)
{
    struct stat st;
    return fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

int ts_byte_input_skip(struct ts_byte_input *in, uint64_t bytes)
{
    return in->packed == NULL && in->head_at == in->n_head &&
           lseek(in->fd, (off_t)bytes, SEEK_CUR) >= 0;
}

int ts_byte_input_fd(const struct ts_byte_input *in)
{
    return in->anywhere && in->packed == NULL ? in->fd : -1;
}
