/* modeK.rows, read for ts_tensor_rows. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/file_read.h"
#include "format/tensor.h"

#define MAX_WIDTH 40u
#define MAX_CHUNK_BYTES ((TS_ROWS_CHUNK * MAX_WIDTH + 63) / 64 * 8)

static int bad(const struct ts_mode *m, uint64_t row, const char *why, struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT, "%s: chunk of row %" PRIu64 ": %s", m->rows_path, row, why);
}

/* Reads the n_rows of one chunk, the first of which is row `row`. *least is the smallest index that
 * may come, and moves behind the last one. */
static int read_chunk(FILE *in, const struct ts_mode *m, uint64_t row, uint64_t *least,
                      uint64_t *ret, struct ts_err *err)
{
    const uint64_t left = m->disk.n_rows - row;
    const uint32_t n = left < TS_ROWS_CHUNK ? (uint32_t)left : TS_ROWS_CHUNK;
    uint8_t gaps[MAX_CHUNK_BYTES + 8] = { 0 };
    uint64_t head[2], mask, index;
    size_t bytes;
    if (fread(head, sizeof head, 1, in) != 1)
        return bad(m, row, "the file ends there", err);
    if (head[1] > MAX_WIDTH)
        return bad(m, row, "gaps of an impossible width", err);
    bytes = ((n - 1) * head[1] + 63) / 64 * 8;
    if (bytes > 0 && fread(gaps, bytes, 1, in) != 1)
        return bad(m, row, "the file ends there", err);
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
    if (index >= m->disk.dim)
        return bad(m, row, "its last index is beyond the mode", err);
    *least = index + 1;
    return 0;
}

static int check_header(FILE *in, const struct ts_mode *m, uint32_t mode, struct ts_err *err)
{
    struct ts_disk_rows h;
    if (fread(&h, sizeof h, 1, in) != 1 || memcmp(h.magic, TS_ROWS_MAGIC, sizeof h.magic) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not a rows file", m->rows_path);
    if (h.version != TS_FORMAT_VERSION)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32 ", but this program reads version %u",
                       m->rows_path, h.version, TS_FORMAT_VERSION);
    if (h.mode != mode || h.n_rows != m->disk.n_rows || h.dim != m->disk.dim)
        return ts_fail(err, TS_EFORMAT, "%s: its header does not go with the index", m->rows_path);
    return 0;
}

static int read_rows(FILE *in, const struct ts_mode *m, uint32_t mode, uint64_t *rows,
                     struct ts_err *err)
{
    uint64_t least = 0;
    int rc = check_header(in, m, mode, err);
    for (uint64_t row = 0; rc == 0 && row < m->disk.n_rows; row += TS_ROWS_CHUNK)
        rc = read_chunk(in, m, row, &least, rows + row, err);
    if (rc == 0 && fgetc(in) != EOF)
        rc = ts_fail(err, TS_EFORMAT, "%s: bytes behind its last chunk", m->rows_path);
    return rc;
}

int ts_tensor_rows(const struct ts_tensor *t, uint32_t mode, uint64_t **ret, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    const uint64_t n_chunks = (m->disk.n_rows + TS_ROWS_CHUNK - 1) / TS_ROWS_CHUNK;
    uint64_t *rows = NULL;
    FILE *in = NULL;
    int fd, rc;
    if (m->disk.rows_bytes == 0) {
        *ret = NULL;
        return 0;
    }
    if (n_chunks > m->disk.rows_bytes / 16) /* before memory is taken for them */
        return ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " bytes cannot hold %" PRIu64 " rows",
                       m->rows_path, m->disk.rows_bytes, m->disk.n_rows);
    fd = open(m->rows_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s", m->rows_path);
    rc = ts_file_read_check(fd, m->rows_path, m->disk.rows_bytes, m->disk.rows_hash, err);
    if (rc < 0)
        goto done;
    rows = malloc(m->disk.n_rows * sizeof *rows);
    in = fdopen(fd, "rb");
    if (rows == NULL || in == NULL) {
        rc = ts_fail(err, TS_ENOMEM, "%s: no memory for %" PRIu64 " rows", m->rows_path,
                     m->disk.n_rows);
        goto done;
    }
    rc = read_rows(in, m, mode, rows, err);
    if (rc < 0)
        goto done;
    *ret = rows;
    rows = NULL;
done:
    free(rows);
    if (in != NULL)
        fclose(in);
    else
        close(fd);
    return rc;
}
