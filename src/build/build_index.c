/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills in the header of the index (the file that describes the tensor), and writes the file with
 * its checksum. */
#include "build/build_index.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static char *append(char *at, const void *data, size_t bytes)
{
    if (bytes > 0)
        memcpy(at, data, bytes);
    return at + bytes;
}

int ts_build_index_write(const struct ts_build_dir *dir, struct ts_disk_header *h,
                         const struct ts_disk_mode mode[], const double *dict,
                         struct ts_disk_shard *const shard[], uint64_t *ret_hash,
                         struct ts_err *err)
{
    size_t bytes = sizeof *h + h->order * sizeof *mode + h->n_dict * sizeof *dict + 8;
    char *buf, *at;
    uint64_t hash;
    int rc;
    for (uint32_t m = 0; m < h->order; m++)
        bytes += mode[m].n_shards * sizeof **shard;
    memcpy(h->magic, TS_INDEX_MAGIC, sizeof h->magic);
    h->version = (h->flags & TS_TENSOR_WEIGHTS) != 0 ? TS_FORMAT_WEIGHTS
                 : (h->flags & TS_TENSOR_ZEROS) != 0 ? TS_FORMAT_ZEROS
                                                     : TS_FORMAT_VERSION;
    h->block_nnz = TS_BLOCK_NNZ;
    h->partition_blocks = TS_PARTITION_BLOCKS;
    h->index_bytes = bytes;
    buf = malloc(bytes);
    if (buf == NULL)
        return ts_fail(err, TS_ENOMEM, "%s/index: out of memory", ts_build_dir_path(dir));
    at = append(buf, h, sizeof *h);
    at = append(at, mode, h->order * sizeof *mode);
    at = append(at, dict, h->n_dict * sizeof *dict);
    for (uint32_t m = 0; m < h->order; m++)
        at = append(at, shard[m], mode[m].n_shards * sizeof **shard);
    hash = XXH3_64bits(buf, bytes - sizeof hash);
    append(at, &hash, sizeof hash);
    *ret_hash = hash;
    rc = ts_build_dir_write(dir, "index", buf, bytes, err);
    free(buf);
    return rc;
}
