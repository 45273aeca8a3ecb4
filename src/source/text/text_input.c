/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads files one after another, decompressed, in pieces that end with a line. */
#include "source/text/text_input.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/setting.h"
#include "source/file_sample.h"
#include "source/packed/decompress.h"

struct ts_text_input {
    const char *const *paths;
    uint32_t n_paths, next_path; /* next_path - 1 is the number of the open file */
    size_t piece_bytes;
    /* bytes on disk of all files, and of the files that were closed */
    uint64_t total_bytes, done_bytes;
    const volatile sig_atomic_t *stop;
    struct ts_byte_input *first; /* paths[0] if it is open already; NULL: it is not, or was taken */
    struct ts_byte_input *open;  /* the open file; NULL: none */
    int started;
    uint64_t unpack_bytes; /* most bytes of memory that decompression may use */
    /* bytes of the open file that were read, but not returned: they are parts of lines that are
     * incomplete because a sample skips text */
    uint64_t cut_bytes;
    struct ts_file_sample sample;
    int after_gap; /* 1: text was skipped, so the next bytes may begin inside a line */
    char *carry;   /* the start of a line whose end was not read yet */
    size_t n_carry;

    /* this process reads part `part` of n_parts of each file; n_parts 0: whole files */
    uint32_t part, n_parts;
    /* byte positions in the open file: of the next text; of the start and end of the part */
    uint64_t at, begin, end;
    /* past: 1 if bytes before the part are not needed any more; jumped: 1 if they were skipped */
    int past, jumped;
    struct skip *skip; /* for each file, the bytes before the part that were skipped */
};

/* A range of bytes of a file that this process did not read. It consists of whole lines. */
struct skip {
    uint64_t from, to;
};

int ts_text_input_open(const char *const paths[], uint32_t n_paths, size_t piece_bytes,
                       const volatile sig_atomic_t *stop, struct ts_text_input **ret,
                       struct ts_err *err)
{
    struct ts_text_input *in = calloc(1, sizeof *in);
    if (in == NULL || (in->carry = malloc(piece_bytes)) == NULL ||
        (in->skip = calloc(n_paths, sizeof *in->skip)) == NULL) {
        free(in != NULL ? in->carry : NULL);
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

/* Returns the bytes on disk, before decompression, of the open file that were read. */
static uint64_t disk_bytes(const struct ts_text_input *in)
{
    return ts_byte_input_position(in->open) - in->cut_bytes;
}

static void close_file(struct ts_text_input *in)
{
    if (in->open == NULL)
        return;
    ts_file_sample_count(&in->sample, disk_bytes(in), ts_byte_input_size(in->open));
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
    free(in->skip);
    free(in->carry);
    free(in);
}

void ts_text_input_sample(struct ts_text_input *in, double share)
{
    in->sample.share = share;
}

void ts_text_input_begun(struct ts_text_input *in, struct ts_byte_input *first)
{
    in->first = first;
}

void ts_text_input_part(struct ts_text_input *in, uint32_t k, uint32_t n)
{
    in->part = k;
    in->n_parts = n;
    in->total_bytes /= n;
}

void ts_text_input_past(struct ts_text_input *in)
{
    in->past = 1;
}

uint64_t ts_text_input_lines_skipped(const struct ts_text_input *in, uint32_t file)
{
    const struct skip *s = &in->skip[file];
    const int fd = open(in->paths[file], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint64_t lines = 0;
    char buf[65536];
    for (uint64_t at = s->from; fd >= 0 && at < s->to;) {
        const size_t want = s->to - at < sizeof buf ? (size_t)(s->to - at) : sizeof buf;
        const ssize_t n = pread(fd, buf, want, (off_t)at);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            lines += buf[i] == '\n';
        at += (uint64_t)n;
    }
    ts_fd_close(fd);
    return lines;
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
        if (strcmp(paths[i], "-") == 0)
            continue;
        fd = ts_byte_input_look(paths[i], &st);
        if (fd >= 0)
            n = read(fd, head, sizeof head);
        if (n > 0 && ts_decompress_memory(head, (size_t)n) > most)
            most = ts_decompress_memory(head, (size_t)n);
        ts_fd_close(fd);
    }
    return most;
}

uint64_t ts_text_input_total(const struct ts_text_input *in)
{
    return in->total_bytes;
}

/* Sets the range of the open file that this process reads (its part). Of a compressed file it is
 * the whole file or nothing. */
static void begin_part(struct ts_text_input *in)
{
    const uint64_t size = ts_byte_input_size(in->open), n = in->n_parts, k = in->part;
    in->at = 0;
    in->past = in->jumped = 0;
    in->begin = size / n * k + size % n * k / n;
    in->end = k + 1 == n ? UINT64_MAX : size / n * (k + 1) + size % n * (k + 1) / n;
    if (ts_byte_input_packed(in->open) || size == 0) {
        const int mine = (in->next_path - 1) % n == k;
        in->begin = mine ? 0 : UINT64_MAX;
        in->end = UINT64_MAX;
    }
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
    if (in->open == NULL) {
        const int rc = ts_byte_input_open(path, in->unpack_bytes, in->stop, &in->open, err);
        if (rc < 0)
            return rc;
    }
    if (in->n_parts > 0)
        begin_part(in);
    return 0;
}

/* Skips the bytes before the part of the file that this process reads. Reading continues one byte
 * before the part, because its first line follows the first line feed from there on. */
static void jump(struct ts_text_input *in)
{
    const uint64_t read = in->at + in->n_carry;
    in->jumped = 1;
    if (in->begin <= read + 1 || in->begin == UINT64_MAX ||
        !ts_byte_input_skip(in->open, in->begin - 1 - read))
        return;
    in->skip[in->next_path - 1] = (struct skip){ in->at, in->begin - 1 };
    in->at = in->begin - 1;
    in->n_carry = 0;
    in->after_gap = 1;
}

/* Returns the offset in `text` of the first line that begins at byte `limit` of the file or later.
 * The text begins at byte `at` of the file. */
static size_t first_line(const char *text, size_t bytes, uint64_t at, uint64_t limit)
{
    const char *end;
    if (limit <= at)
        return 0;
    if (limit - at > bytes)
        return bytes;
    end = memchr(text + (limit - at) - 1, '\n', bytes - (size_t)(limit - at) + 1);
    return end == NULL ? bytes : (size_t)(end + 1 - text);
}

/* Sets `own` and `own_end` of a piece of text: its bytes in the part of the file that this process
 * reads. */
static void own_lines(struct ts_text_input *in, const char *text, struct ts_text_piece *piece)
{
    piece->own = 0;
    piece->own_end = piece->bytes;
    if (in->n_parts == 0)
        return;
    piece->own = first_line(text, piece->bytes, in->at, in->begin);
    piece->own_end = first_line(text, piece->bytes, in->at, in->end);
    in->at += piece->bytes;
}

/* After a piece of a sample: skips the bytes up to its next piece, or closes a compressed file of
 * which enough was read. */
static void leave_out(struct ts_text_input *in, size_t piece)
{
    if (ts_byte_input_packed(in->open)) {
        if ((double)disk_bytes(in) >= in->sample.share * (double)ts_byte_input_size(in->open))
            close_file(in);
    } else if (ts_byte_input_skip(in->open,
                                  (uint64_t)((double)piece * (1 / in->sample.share - 1)))) {
        in->cut_bytes += in->n_carry;
        in->n_carry = 0;
        in->after_gap = 1;
    }
}

/* Drops from the text in buf the end of a line whose start was skipped. Returns the number of bytes
 * left. */
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
            in->next_path = ts_file_sample_next(&in->sample, in->paths, in->n_paths, in->next_path);
            if (in->next_path == in->n_paths)
                return 0;
            rc = open_file(in, err);
            if (rc < 0)
                return rc;
        }
        if (in->past && !in->jumped)
            jump(in);
        if (in->past && (in->at >= in->end || in->begin == UINT64_MAX)) {
            close_file(in);
            continue;
        }
        memcpy(buf, in->carry, in->n_carry);
        have = in->n_carry;
        in->n_carry = 0;
        rc = ts_byte_input_read(in->open, buf + have, in->piece_bytes - 1 - have, &got, err);
        if (rc < 0)
            return rc;
        have += got;
        at_end = have < in->piece_bytes - 1;
        if (in->after_gap && (at_end || memchr(buf, '\n', have) != NULL)) {
            const size_t all = have;
            have = drop_cut_line(in, buf, have);
            in->at += all - have;
            if (in->n_parts > 0)
                in->skip[in->next_path - 1].to = in->at;
        }
        ret->skipped = in->n_parts > 0 && in->skip[in->next_path - 1].to > 0;
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
            own_lines(in, buf, ret);
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
        own_lines(in, buf, ret);
        if (ts_file_sample_is_on(&in->sample))
            leave_out(in, ret->bytes);
        return 0;
    }
}

uint64_t ts_text_lines(const char *text, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += text[i] == '\n';
    return n;
}

/* Removes from a piece of text the lines that another process reads. */
