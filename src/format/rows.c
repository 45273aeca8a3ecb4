/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads modeK.rows, the used indices of a mode, chunk by chunk. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "format/file_read.h"
#include "format/tensor.h"

#define MAX_WIDTH       40u
#define MAX_CHUNK_BYTES ((TS_ROWS_CHUNK * MAX_WIDTH + 63) / 64 * 8)

static int bad(const struct ts_mode *m, uint64_t row, const char *why, struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT, "%s: chunk of row %" PRIu64 ": %s", m->rows_path, row, why);
}

/* Called if bytes are missing: fails with a message that the read failed, or that the file ends
 * early. */
static int ends_at(FILE *in, const struct ts_mode *m, uint64_t row, struct ts_err *err)
{
    if (ferror(in))
        return ts_fail_errno(err, TS_EIO, "%s: cannot be read", m->rows_path);
    return bad(m, row, "the file ends there", err);
}

/* Reads the indices of one chunk into ret; its first row is `row`. *least: the smallest index
 * allowed; set to the last index + 1. */
static int read_chunk(FILE *in, const struct ts_mode *m, uint64_t row, uint64_t *least,
                      uint64_t *ret, struct ts_err *err)
{
    const uint64_t left = m->disk.n_rows - row;
    const uint32_t n = left < TS_ROWS_CHUNK ? (uint32_t)left : TS_ROWS_CHUNK;
    uint8_t gaps[MAX_CHUNK_BYTES + 8] = { 0 };
    uint64_t head[2], mask, index;
    size_t bytes;
    if (fread(head, sizeof head, 1, in) != 1)
        return ends_at(in, m, row, err);
    if (head[1] > MAX_WIDTH)
        return bad(m, row, "gaps of an impossible width", err);
    bytes = ((n - 1) * head[1] + 63) / 64 * 8;
    if (bytes > 0 && fread(gaps, bytes, 1, in) != 1)
        return ends_at(in, m, row, err);
    mask = (UINT64_C(1) << head[1]) - 1;
    index = head[0];
    if (index < *least || index >= m->disk.dim)
        return bad(m, row, "its first index does not ascend inside the mode", err);
    ret[0] = index;
    for (uint32_t i = 1; i < n; i++) {
        const uint64_t bit = (i - 1) * head[1];
        uint64_t word;
        memcpy(&word, gaps + bit / 8, sizeof word);
        index += (word >> bit % 8 & mask) + 1;
        ret[i] = index;
    }
    if (bytes > 0 && (n - 1) * head[1] % 64 > 0) {
        uint64_t last;
        memcpy(&last, gaps + bytes - 8, sizeof last);
        if (last >> (n - 1) * head[1] % 64 != 0)
            return bad(m, row, "bits behind its gaps are not zero", err);
    }
    if (index >= m->disk.dim)
        return bad(m, row, "its last index is beyond the mode", err);
    *least = index + 1;
    return 0;
}

static int check_header(FILE *in, const struct ts_mode *m, uint32_t mode, struct ts_err *err)
{
    struct ts_disk_rows h;
    const size_t n = fread(&h, sizeof h, 1, in);
    if (n != 1 && ferror(in))
        return ends_at(in, m, 0, err);
    if (n != 1 || memcmp(h.magic, TS_ROWS_MAGIC, sizeof h.magic) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not a rows file", m->rows_path);
    if (h.version != TS_FORMAT_VERSION)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32 ", but this program reads version %u",
                       m->rows_path, h.version, TS_FORMAT_VERSION);
    if (h.mode != mode || h.n_rows != m->disk.n_rows || h.dim != m->disk.dim)
        return ts_fail(err, TS_EFORMAT, "%s: its header does not match the index", m->rows_path);
    return 0;
}

/* A position in a file, with a descriptor that other threads may use to read as well. */
struct place {
    int fd;
    off_t at;
};

static ssize_t read_on(void *place, char *buf, size_t n)
{
    struct place *p = place;
    const ssize_t got = pread(p->fd, buf, n, p->at);
    p->at += got > 0 ? got : 0;
    return got;
}

struct ts_rows_reader {
    const struct ts_mode *m;
    struct place place;
    FILE *in;
    uint64_t row, least; /* row: the next row; least: the smallest index that it may have */
};

int ts_rows_reader_open(const struct ts_tensor *t, uint32_t mode, struct ts_rows_reader **ret,
                        struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    const uint64_t n_chunks = (m->disk.n_rows + TS_ROWS_CHUNK - 1) / TS_ROWS_CHUNK;
    struct ts_rows_reader *r;
    int rc;
    if (m->disk.rows_bytes == 0) {
        *ret = NULL;
        return 0;
    }
    if (n_chunks > m->disk.rows_bytes / 16) /* checked before memory is allocated for the rows */
        return ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " bytes cannot hold %" PRIu64 " rows",
                       m->rows_path, m->disk.rows_bytes, m->disk.n_rows);
    rc = ts_file_read_check(m->rows_fd, m->rows_path, m->disk.rows_bytes, m->disk.rows_hash, err);
    if (rc < 0)
        return rc;
    r = calloc(1, sizeof *r);
    if (r != NULL) {
        r->m = m;
        r->place.fd = m->rows_fd;
        r->in = fopencookie(&r->place, "rb", (cookie_io_functions_t){ .read = read_on });
    }
    rc = r == NULL || r->in == NULL ? ts_no_memory(err, m->rows_path)
                                    : check_header(r->in, m, mode, err);
    if (rc < 0)
        ts_rows_reader_close(r);
    else
        *ret = r;
    return rc;
}

void ts_rows_reader_close(struct ts_rows_reader *r)
{
    if (r == NULL)
        return;
    if (r->in != NULL)
        fclose(r->in);
    free(r);
}

int ts_rows_reader_next(struct ts_rows_reader *r, uint64_t ret[TS_ROWS_CHUNK], uint32_t *n,
                        struct ts_err *err)
{
    const uint64_t left = r->m->disk.n_rows - r->row;
    int rc;
    *n = 0;
    if (left == 0 && fgetc(r->in) != EOF)
        return ts_fail(err, TS_EFORMAT, "%s: bytes behind its last chunk", r->m->rows_path);
    if (left == 0)
        return ferror(r->in) ? ends_at(r->in, r->m, r->row, err) : 0;
    rc = read_chunk(r->in, r->m, r->row, &r->least, ret, err);
    if (rc < 0)
        return rc;
    *n = left < TS_ROWS_CHUNK ? (uint32_t)left : TS_ROWS_CHUNK;
    r->row += *n;
    return 0;
}

int ts_tensor_rows(const struct ts_tensor *t, uint32_t mode, uint64_t **ret, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    struct ts_rows_reader *r = NULL;
    uint64_t *rows, end[TS_ROWS_CHUNK], at = 0;
    uint32_t n = 1;
    int rc = ts_rows_reader_open(t, mode, &r, err);
    if (rc < 0 || r == NULL) {
        if (rc == 0)
            *ret = NULL;
        return rc;
    }
    rows = malloc(m->disk.n_rows * sizeof *rows);
    if (rows == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: no memory for %" PRIu64 " rows", m->rows_path,
                     m->disk.n_rows);
    for (; rc == 0 && n > 0; at += n)
        rc = ts_rows_reader_next(r, at < m->disk.n_rows ? rows + at : end, &n, err);
    ts_rows_reader_close(r);
    if (rc == 0)
        *ret = rows;
    else
        free(rows);
    return rc;
}
