/* tensor.h - an opened .tsh directory: what `index` says, and the files beside it.
 *
 * Opening reads and checks `index` whole (it is small: 64 bytes a shard) and the sizes of the other
 * files; shards are read by whoever wants them (stream/feed.h, or ts_tensor_read_shard) and checked
 * against the hash in their entry before use.
 *
 *   owner    the tensor owns everything that it points to, until ts_tensor_close
 *   units    bytes, nonzeros; modes from 0
 *   threads  read-only after opening: any thread
 *   errors   0 or a negative ts_code with one sentence; on failure *ret is not touched
 */
#ifndef TS_FORMAT_TENSOR_H
#define TS_FORMAT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"

struct ts_mode {
    struct ts_disk_mode disk;
    struct ts_disk_shard *shard; /* disk.n_shards of them */
    char *shards_path, *rows_path, *labels_path;
};

struct ts_tensor {
    char *path; /* the directory, as the user named it */
    struct ts_disk_header header;
    uint32_t order;
    uint64_t nnz;
    double *dict; /* header.n_dict values */
    struct ts_mode mode[TS_MAX_ORDER];
};

int ts_tensor_open(const char *path, struct ts_tensor **ret, struct ts_err *err);
void ts_tensor_close(struct ts_tensor *t); /* NULL is fine */

/* The index in the input of each row of a mode, ascending: *ret is an array of n_rows to be freed,
 * or NULL when row i is index i. */
int ts_tensor_rows(const struct ts_tensor *t, uint32_t mode, uint64_t **ret, struct ts_err *err);

/* Names of `n` indices of a mode (ascending, in the input's numbering): ret[i] is malloc'ed, or NULL
 * when the mode has no labels or no such line. The file's hash is checked first. */
int ts_tensor_labels(const struct ts_tensor *t, uint32_t mode, uint64_t n, const uint64_t *index,
                     char **ret, struct ts_err *err);

/* Checks stored bytes (padded to TS_PAGE) of a shard against its hash, and undoes LZ4. `raw` has
 * room for raw_bytes + TS_SHARD_SLACK; without LZ4 it may be the same address as `stored`, and then
 * nothing is copied. Does not look into the blocks: ts_tensor_check_shard does, needed once per
 * content, because equal hashes mean equal bytes. */
int ts_tensor_unpack_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard,
                           const void *stored, void *raw, struct ts_err *err);
int ts_tensor_check_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                          struct ts_err *err);

/* Bytes of memory that any shard of the tensor fits into, as ts_tensor_read_shard wants it. */
size_t ts_tensor_raw_bytes(const struct ts_tensor *t);

/* Reads, unpacks and checks one shard into raw (ts_tensor_raw_bytes): the simple way, for tools and
 * tests. */
int ts_tensor_read_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, void *raw,
                         struct ts_err *err);

/* The value of a nonzero from its codes (code1 is used by TS_VALUE_F64 alone). */
double ts_tensor_value(const struct ts_tensor *t, uint32_t code0, uint32_t code1);

/* H: least bytes per nonzero for this shape, count and value distribution,
 * (log2 C(cells, nnz) + nnz * value_bits) / (8 nnz). 0 when nnz is 0. */
double ts_tensor_entropy_bound(const struct ts_tensor *t);

/* Bytes per nonzero of one mode copy: its shards, its rows file, and its share of the index (its own
 * tables and an equal part of what is common). Labels are no part of it. */
double ts_tensor_bytes_per_nnz(const struct ts_tensor *t, uint32_t mode);

#endif
