/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads files one after another, decompressed, in pieces that end with a line. */
#include "source/text_input.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/decompress.h"
#include "format/file_read.h"

struct ts_text_input {
    const char *const *paths;
    uint32_t n_paths, next_path; /* next_path - 1 is open */
    size_t piece_bytes;
    uint64_t total_bytes, done_bytes; /* bytes on disk; done: of files that were closed */
    const volatile sig_atomic_t *stop;
    int fd, started;
    const char *name;                     /* name of the open file */
    const struct ts_decompressor *packed; /* NULL: plain */
    void *unpacker;
    uint64_t unpack_bytes; /* most memory for decompression */
    uint64_t plain_bytes;
    double share;  /* share of each file to read; 0: all */
    int after_gap; /* what is read next begins within a line */
    unsigned char head[TS_DECOMPRESS_HEAD];
    size_t n_head; /* bytes of head not given to a caller yet */
    char *carry;   /* the start of an incomplete line */
    size_t n_carry;
};

int ts_text_input_open(const char *const paths[], uint32_t n_paths, size_t piece_bytes,
                       const volatile sig_atomic_t *stop, struct ts_text_input **ret,
                       struct ts_err *err)
{
    struct ts_text_input *in = calloc(1, sizeof *in);
    if (in == NULL || (in->carry = malloc(piece_bytes)) == NULL) {
        free(in);
        return ts_fail(err, TS_ENOMEM, "out of memory for reading text");
    }
    in->paths = paths;
    in->n_paths = n_paths;
    in->piece_bytes = piece_bytes;
    in->stop = stop;
    in->unpack_bytes = TS_TEXT_INPUT_UNPACK;
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

/* Bytes of the open file that were read, as stored on disk. */
static uint64_t disk_bytes(const struct ts_text_input *in)
{
    return in->unpacker != NULL ? in->packed->position(in->unpacker) : in->plain_bytes;
}

static void close_file(struct ts_text_input *in)
{
    in->done_bytes += disk_bytes(in);
    if (in->unpacker != NULL)
        in->packed->close(in->unpacker);
    in->unpacker = NULL;
    in->packed = NULL;
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

void ts_text_input_sample(struct ts_text_input *in, double share)
{
    in->share = share;
}

void ts_text_input_unpack(struct ts_text_input *in, uint64_t bytes)
{
    in->unpack_bytes = bytes > TS_TEXT_INPUT_UNPACK ? bytes : TS_TEXT_INPUT_UNPACK;
}

uint64_t ts_text_input_unpack_need(const char *const paths[], uint32_t n_paths)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n_paths; i++) {
        unsigned char head[TS_DECOMPRESS_HEAD];
        struct stat st;
        ssize_t n = 0;
        int fd;
        if (strcmp(paths[i], "-") == 0 || stat(paths[i], &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0)
            n = read(fd, head, sizeof head);
        if (n > 0 && ts_decompress_memory(head, (size_t)n) > most)
            most = ts_decompress_memory(head, (size_t)n);
        if (fd >= 0)
            close(fd);
    }
    return most;
}

uint64_t ts_text_input_total(const struct ts_text_input *in)
{
    return in->total_bytes;
}

/* Reads `room` bytes, or fewer at the end of the file. */
static int read_fully(struct ts_text_input *in, char *buf, size_t room, size_t *ret,
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

/* Opens the decompressor of a compressed file, or says which program can decompress it. */
static int open_packed(struct ts_text_input *in, size_t n, struct ts_err *err)
{
    const struct ts_packed_file file = { .fd = in->fd,
                                         .name = in->name,
                                         .head = in->head,
                                         .n_head = n,
                                         .stop = in->stop,
                                         .memory = in->unpack_bytes };
    if (in->packed->open == NULL)
        return ts_fail(err, TS_EFORMAT,
                       "%s: these are %s data, which this build does not read; unpack them on the "
                       "way: %s FILE | tshard build -o NAME.tsh -",
                       in->name, in->packed->name, in->packed->tool);
    in->n_head = 0;
    return in->packed->open(&file, &in->unpacker, err);
}

static int open_file(struct ts_text_input *in, struct ts_err *err)
{
    const char *path = in->paths[in->next_path];
    size_t n = 0;
    int rc;
    in->next_path++;
    in->started = 0;
    in->n_carry = 0;
    in->after_gap = 0;
    if (strcmp(path, "-") == 0) {
        in->fd = STDIN_FILENO;
        in->name = "standard input";
    } else {
        in->fd = ts_file_read_open(path, err);
        in->name = path;
    }
    if (in->fd < 0)
        return in->fd;
    rc = read_fully(in, (char *)in->head, sizeof in->head, &n, err);
    if (rc < 0)
        return rc;
    in->n_head = n;
    in->packed = ts_decompress_find(in->head, n);
    if (in->packed != NULL)
        return open_packed(in, n, err);
    posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static int read_text(struct ts_text_input *in, char *buf, size_t room, size_t *ret,
                     struct ts_err *err)
{
    const size_t n_head = in->n_head;
    int rc;
    if (in->unpacker != NULL)
        return in->packed->read(in->unpacker, buf, room, ret, err);
    memcpy(buf, in->head, n_head); /* the bytes that told the kind of file */
    in->n_head = 0;
    rc = read_fully(in, buf + n_head, room - n_head, ret, err);
    if (rc < 0)
        return rc;
    *ret += n_head;
    in->plain_bytes += *ret;
    return 0;
}

/* After a piece of a sample: skips a gap, or goes to the next file. */
static void leave_out(struct ts_text_input *in, size_t piece)
{
    struct stat st;
    if (in->unpacker != NULL) {
        if (fstat(in->fd, &st) == 0 && (double)disk_bytes(in) >= in->share * (double)st.st_size)
            close_file(in);
    } else if (lseek(in->fd, (off_t)((double)piece * (1 / in->share - 1)), SEEK_CUR) >= 0) {
        in->plain_bytes -= in->n_carry;
        in->n_carry = 0;
        in->after_gap = 1;
    }
}

/* Drops the rest of a line that a gap has cut; returns the bytes left. */
static size_t drop_cut_line(struct ts_text_input *in, char *buf, size_t have)
{
    const char *end = memchr(buf, '\n', have);
    const size_t cut = end != NULL ? (size_t)(end + 1 - buf) : have;
    in->after_gap = 0;
    in->plain_bytes -= cut;
    memmove(buf, buf + cut, have - cut);
    return have - cut;
}

int ts_text_input_next(struct ts_text_input *in, char *buf, struct ts_text_piece *ret,
                       struct ts_err *err)
{
    memset(ret, 0, sizeof *ret);
    for (;;) {
        size_t have, got = 0;
        int at_end;
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
        at_end = have < in->piece_bytes - 1;
        if (in->after_gap && (at_end || memchr(buf, '\n', have) != NULL))
            have = drop_cut_line(in, buf, have);
        ret->file = in->next_path - 1;
        ret->first = !in->started;
        in->started = 1;
        if (at_end) {
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
        if (last == NULL) {
            ret->bad_line = 1;
            return ts_fail(
                err, TS_EFORMAT, "the line is longer than %zu bytes%s", in->piece_bytes - 2,
                memchr(buf, '\r', have) == NULL
                    ? ", the most that --memory leaves room for"
                    : ": it has carriage returns instead of line feeds (convert it, with tr "
                      "'\\r' '\\n')");
        }
        ret->bytes = (size_t)(last + 1 - buf);
        in->n_carry = have - ret->bytes;
        memcpy(in->carry, buf + ret->bytes, in->n_carry);
        ret->done_bytes = in->done_bytes + disk_bytes(in);
        if (in->share > 0 && in->share < 1)
            leave_out(in, ret->bytes);
        return 0;
    }
}
