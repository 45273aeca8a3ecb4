/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes modeK.rows, which has the indices of the nonempty slices of a mode, in chunks. */
#include "build/write/rows_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "format/layout.h"

struct ts_rows_writer {
    const char *path;
    FILE *file;
    struct ts_disk_rows head;
    uint64_t index[TS_ROWS_CHUNK], bytes;
    uint32_t n;
};

int ts_rows_write_new(const char *path, uint32_t mode, uint64_t dim, struct ts_rows_writer **ret,
                      struct ts_err *err)
{
    struct ts_rows_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return ts_no_memory(err, path);
    w->path = path;
    memcpy(w->head.magic, TS_ROWS_MAGIC, sizeof w->head.magic);
    w->head.version = TS_FORMAT_VERSION;
    w->head.mode = mode;
    w->head.dim = dim;
    w->file = fopen(path, "w+bxe");
    if (w->file == NULL || fwrite(&w->head, sizeof w->head, 1, w->file) != 1) {
        const int rc = ts_fail_errno(err, TS_EIO, "%s: cannot create", path);
        ts_rows_write_free(w);
        return rc;
    }
    w->bytes = sizeof w->head;
    *ret = w;
    return 0;
}

void ts_rows_write_free(struct ts_rows_writer *w)
{
    if (w == NULL)
        return;
    if (w->file != NULL)
        fclose(w->file);
    free(w);
}

static int write_chunk(struct ts_rows_writer *w, struct ts_err *err)
{
    uint64_t word[2 + TS_ROWS_CHUNK] = { 0 }, longest = 0, bit = 0;
    uint32_t width = 0;
    size_t n_words;
    for (uint32_t i = 1; i < w->n; i++)
        longest |= w->index[i] - w->index[i - 1] - 1;
    while (width < 40 && longest >> width != 0)
        width++;
    word[0] = w->index[0];
    word[1] = width;
    for (uint32_t i = 1; i < w->n; i++, bit += width) {
        const uint64_t gap = w->index[i] - w->index[i - 1] - 1;
        word[2 + bit / 64] |= gap << bit % 64;
        if (bit % 64 + width > 64)
            word[3 + bit / 64] |= gap >> (64 - bit % 64);
    }
    n_words = 2 + (size_t)(bit + 63) / 64;
    if (fwrite(word, 8, n_words, w->file) != n_words)
        return ts_fail_errno(err, TS_EIO, "%s: cannot write", w->path);
    w->bytes += 8 * n_words;
    w->n = 0;
    return 0;
}

int ts_rows_write_add(struct ts_rows_writer *w, uint64_t index, struct ts_err *err)
{
    w->index[w->n++] = index;
    w->head.n_rows++;
    return w->n == TS_ROWS_CHUNK ? write_chunk(w, err) : 0;
}

/* Computes the hash of the file of rows by reading it again, because its header comes first but is
 * written last. */
static int hash_file(struct ts_rows_writer *w, uint64_t *hash)
{
    XXH3_state_t *state = XXH3_createState();
    char buf[65536];
    size_t n;
    int ok = state != NULL && XXH3_64bits_reset(state) == XXH_OK;
    rewind(w->file);
    while (ok && (n = fread(buf, 1, sizeof buf, w->file)) > 0)
        XXH3_64bits_update(state, buf, n);
    if (ok)
        *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return ok && !ferror(w->file) ? 0 : -1;
}

int ts_rows_write_finish(struct ts_rows_writer *w, uint64_t *n_rows, uint64_t *bytes,
                         uint64_t *hash, struct ts_err *err)
{
    int rc = w->n > 0 ? write_chunk(w, err) : 0;
    if (rc == 0 &&
        (fseek(w->file, 0, SEEK_SET) < 0 || fwrite(&w->head, sizeof w->head, 1, w->file) != 1 ||
         fflush(w->file) != 0 || fsync(fileno(w->file)) < 0 || hash_file(w, hash) < 0))
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot write", w->path);
    *n_rows = w->head.n_rows;
    *bytes = w->bytes;
    ts_rows_write_free(w);
    return rc;
}
