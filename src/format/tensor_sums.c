/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes the file `sums` of a tensor, 80 bytes with checksums of its cells. */
#include "format/tensor_sums.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "format/file_read.h"

void ts_tensor_sums_make(const struct ts_tensor_sums *s, uint32_t order, uint64_t index_hash,
                         struct ts_disk_sums *ret)
{
    memset(ret, 0, sizeof *ret);
    memcpy(ret->magic, TS_SUMS_MAGIC, sizeof ret->magic);
    ret->version = TS_FORMAT_VERSION;
    ret->order = order;
    ret->index_hash = index_hash;
    ret->n_records = s->records.n;
    ret->n_cells = s->cells.n;
    memcpy(ret->record, s->records.word, sizeof ret->record);
    memcpy(ret->cell, s->cells.word, sizeof ret->cell);
    ret->hash = XXH3_64bits(ret, offsetof(struct ts_disk_sums, hash));
}

static int check_bytes(const struct ts_tensor *t, const struct ts_disk_sums *d, uint64_t bytes,
                       const char *path, struct ts_err *err)
{
    const uint64_t hash = XXH3_64bits(d, offsetof(struct ts_disk_sums, hash));
    if (bytes != sizeof *d)
        return ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " bytes, expected %zu", path, bytes,
                       sizeof *d);
    if (memcmp(d->magic, TS_SUMS_MAGIC, sizeof d->magic) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not a file of sums", path);
    if (d->version != TS_FORMAT_VERSION)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32 ", but this program reads version %u",
                       path, d->version, TS_FORMAT_VERSION);
    if (hash != d->hash)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the checksum is %016" PRIx64 ", expected %016" PRIx64
                       " (the file is damaged)",
                       path, hash, d->hash);
    if (d->order != t->order || d->index_hash != t->hash || d->n_cells != t->nnz)
        return ts_fail(err, TS_EFORMAT, "%s: it does not match the index", path);
    return 1;
}

int ts_tensor_sums_read(const struct ts_tensor *t, struct ts_tensor_sums *ret, struct ts_err *err)
{
    struct ts_disk_sums d = { .version = 0 };
    uint64_t bytes = 0;
    char *path = NULL;
    int rc;
    memset(ret, 0, sizeof *ret);
    if (asprintf(&path, "%s/" TS_SUMS_NAME, t->path) < 0)
        return ts_no_memory(err, t->path);
    rc = ts_file_read_small_in(t->dir, TS_SUMS_NAME, sizeof d, &d, &bytes, err);
    if (rc > 0)
        rc = check_bytes(t, &d, bytes, path, err);
    free(path);
    if (rc <= 0)
        return rc;
    ret->records = (struct ts_cell_sum){ d.n_records, { d.record[0], d.record[1] } };
    ret->cells = (struct ts_cell_sum){ d.n_cells, { d.cell[0], d.cell[1] } };
    return 1;
}

char *ts_cell_sum_text(const struct ts_cell_sum *s, char text[TS_CELL_SUM_CHARS])
{
    snprintf(text, TS_CELL_SUM_CHARS, "%016" PRIx64 "%016" PRIx64, s->word[1], s->word[0]);
    return text;
}
