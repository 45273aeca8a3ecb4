/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads, unpacks and checks shards (tensor.h). */
#include <inttypes.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/stop.h"
#include "format/arrays/dense.h"
#include "format/file_read.h"
#include "format/part.h"
#include "format/shard.h"
#include "format/tensor.h"

static size_t padded(uint32_t bytes)
{
    return ((size_t)bytes + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
}

int ts_tensor_unpack_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard,
                           const void *stored, void *raw, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    const struct ts_disk_shard *s = &m->shard[shard];
    const uint64_t found = XXH3_64bits(stored, padded(s->stored_bytes));
    if (found != s->hash)
        return ts_fail(err, TS_EFORMAT,
                       "%s: shard %" PRIu64 " at byte %" PRIu64 ": the checksum is %016" PRIx64
                       ", expected %016" PRIx64 " (the file is damaged)",
                       m->shards_path, shard, s->offset, found, s->hash);
    if ((s->flags & TS_SHARD_LZ4) == 0) {
        if (stored != raw)
            memcpy(raw, stored, s->raw_bytes);
        return 0;
    }
    /* both sizes are below 2^31, as opening the tensor checked */
    if (LZ4_decompress_safe(stored, raw, (int)s->stored_bytes, (int)s->raw_bytes) !=
        (int)s->raw_bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: shard %" PRIu64 " at byte %" PRIu64
                       ": its LZ4 does not give the %" PRIu32 " bytes expected",
                       m->shards_path, shard, s->offset, s->raw_bytes);
    return 0;
}

/* Checks that the bytes after a shard, up to the next page, are zero. */
static int check_padding(const struct ts_mode *m, uint64_t shard, const void *stored,
                         struct ts_err *err)
{
    const struct ts_disk_shard *s = &m->shard[shard];
    const char *byte = stored;
    for (size_t i = s->stored_bytes; i < padded(s->stored_bytes); i++)
        if (byte[i] != 0)
            return ts_fail(err, TS_EFORMAT, "%s: shard %" PRIu64 ": byte %zu behind it is not zero",
                           m->shards_path, shard, i - s->stored_bytes);
    return 0;
}

int ts_tensor_check_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                          struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    uint64_t n_rows[TS_MAX_ORDER];
    char where[400];
    snprintf(where, sizeof where, "%s: shard %" PRIu64, m->shards_path, shard);
    for (uint32_t l = 0; l < t->order; l++)
        n_rows[l] = t->mode[m->disk.level[l]].disk.n_rows;
    return ts_shard_check(&m->shard[shard], raw, t->order, ts_header_codes(&t->header), n_rows,
                          t->header.n_dict, where, err);
}

size_t ts_tensor_raw_bytes(const struct ts_tensor *t)
{
    return (t->header.max_shard_bytes + (size_t)TS_SHARD_SLACK + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
}

int ts_tensor_read_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, void *raw,
                         struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    const struct ts_disk_shard *s = &m->shard[shard];
    void *stored = raw;
    const int held = t->dir != NULL && m->shards_fd >= 0;
    int fd = m->shards_fd, rc = ts_part_check(t, mode, shard, err);
    if (rc == 0 && !held)
        rc = fd = ts_tensor_shards_open(t, mode, 0, err);
    if (rc < 0)
        return rc;
    if ((s->flags & TS_SHARD_LZ4) != 0)
        stored = malloc(padded(s->stored_bytes));
    if (stored == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: no memory for a shard of %" PRIu32 " bytes",
                     m->shards_path, s->stored_bytes);
    else
        rc = ts_file_read_at(fd, m->shards_path, s->offset, padded(s->stored_bytes), stored, err);
    if (rc == 0)
        rc = ts_tensor_unpack_shard(t, mode, shard, stored, raw, err);
    /* the padding is checked after the hash, so that a damaged file is reported as damaged */
    if (rc == 0)
        rc = check_padding(m, shard, stored, err);
    if (rc == 0)
        rc = ts_tensor_check_shard(t, mode, shard, raw, err);
    if (stored != raw)
        free(stored);
    if (!held)
        close(fd);
    return rc;
}

int ts_tensor_block(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                    uint32_t b, struct ts_block *ret, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    const uint32_t kind = t->header.value_kind;
    struct ts_block_parts parts;
    const int rc = ts_shard_decode(&m->shard[shard], raw, b, t->order, ts_header_codes(&t->header),
                                   &parts, ret, err);
    if (rc == 0 && !ts_block_finite(ret, kind))
        return ts_fail(err, TS_EFORMAT,
                       "%s: shard %" PRIu64 ", block %" PRIu32 ": a value is not finite",
                       m->shards_path, shard, b);
    if (rc == 0 && ts_tensor_weighted(t) && !ts_block_weights(ret))
        return ts_fail(err, TS_EFORMAT,
                       "%s: shard %" PRIu64 ", block %" PRIu32
                       ": a weight is negative or not finite",
                       m->shards_path, shard, b);
    return rc;
}

static int check_values(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                        struct ts_err *err)
{
    const uint32_t n_blocks = t->mode[mode].shard[shard].n_blocks;
    struct ts_block block;
    int rc = 0;
    for (uint32_t b = 0; b < n_blocks && rc == 0; b++)
        rc = ts_tensor_block(t, mode, shard, raw, b, &block, err);
    return rc;
}

int ts_tensor_check_values(const struct ts_tensor *t, const volatile sig_atomic_t *stop,
                           struct ts_err *err)
{
    void *raw;
    int rc = 0;
    if (t->dense != NULL) /* its cells were checked by the first scan */
        return ts_dense_check_same(t->dense, err);
    if (t->header.value_kind != TS_VALUE_F32 && t->header.value_kind != TS_VALUE_F64 &&
        !ts_tensor_weighted(t))
        return 0;
    raw = malloc(ts_tensor_raw_bytes(t));
    if (raw == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: no memory for a shard", t->path);
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        for (uint64_t s = 0; s < t->mode[m].disk.n_shards && rc == 0; s++) {
            rc = ts_stop_check(stop, err);
            if (rc == 0)
                rc = ts_tensor_read_shard(t, m, s, raw, err);
            if (rc == 0)
                rc = check_values(t, m, s, raw, err);
        }
    free(raw);
    return rc;
}
