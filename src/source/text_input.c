/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads files one after another, decompressed, in pieces that end with a line. */
#include "source/text_input.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/setting.h"
#include "source/decompress.h"

struct ts_text_input {
    const char *const *paths;
    uint32_t n_paths, next_path; /* next_path - 1 is open */
    size_t piece_bytes;
    uint64_t total_bytes, done_bytes; /* bytes on disk; done: of files that were closed */
    const volatile sig_atomic_t *stop;
    struct ts_byte_input *first; /* paths[0], open already; NULL: it is not, or was taken */
    struct ts_byte_input *open;  /* NULL: no file is open */
    int started;
    uint64_t unpack_bytes; /* most memory for decompression */
    uint64_t cut_bytes;    /* bytes of the open file read but not given: a gap cut their line */
    double share;          /* share of each file to read; 0: all */
    int after_gap;         /* what is read next begins within a line */
    char *carry;           /* the start of an incomplete line */
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
    return ts_byte_input_position(in->open) - in->cut_bytes;
}

static void close_file(struct ts_text_input *in)
{
    if (in->open == NULL)
        return;
    in->done_bytes += disk_bytes(in);
    in->cut_bytes = 0;
    ts_byte_input_close(in->open);
    in->open = NULL;
}

void ts_text_input_close(struct ts_text_input *in)
{
    if (in == NULL)
        return;
    close_file(in);
    ts_byte_input_close(in->first);
    free(in->carry);
    free(in);
}

void ts_text_input_sample(struct ts_text_input *in, double share)
{
    in->share = share;
}

void ts_text_input_begun(struct ts_text_input *in, struct ts_byte_input *first)
{
    in->first = first;
}

void ts_text_input_unpack(struct ts_text_input *in, uint64_t bytes)
{
    in->unpack_bytes = bytes;
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

static int open_file(struct ts_text_input *in, struct ts_err *err)
{
    const char *path = in->paths[in->next_path];
    in->next_path++;
    in->started = 0;
    in->n_carry = 0;
    in->after_gap = 0;
    in->open = in->first;
    in->first = NULL;
    return in->open != NULL ? 0
                            : ts_byte_input_open(path, in->unpack_bytes, in->stop, &in->open, err);
}

/* After a piece of a sample: skips a gap, or goes to the next file. */
static void leave_out(struct ts_text_input *in, size_t piece)
{
    if (ts_byte_input_packed(in->open)) {
        if ((double)disk_bytes(in) >= in->share * (double)ts_byte_input_size(in->open))
            close_file(in);
    } else if (ts_byte_input_skip(in->open, (uint64_t)((double)piece * (1 / in->share - 1)))) {
        in->cut_bytes += in->n_carry;
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
    in->cut_bytes += cut;
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
        if (in->open == NULL) {
            if (in->next_path == in->n_paths)
                return 0;
            rc = open_file(in, err);
            if (rc < 0)
                return rc;
        }
        memcpy(buf, in->carry, in->n_carry);
        have = in->n_carry;
        in->n_carry = 0;
        rc = ts_byte_input_read(in->open, buf + have, in->piece_bytes - 1 - have, &got, err);
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
                    ? ", the most that " TS_SET_MEMORY " leaves room for"
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
