/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor.h - an opened .tsh directory: the contents of its file `index`, and its other files.
 *
 * Opening reads and checks all of `index` (it is small: 64 bytes a shard) and the sizes of the
 * other files. Shards are read later (by stream/feed/feed.h or ts_tensor_read_shard) and checked
 * against the hash in their entry before use.
 *
 *   owner    the tensor owns everything that it points to, until ts_tensor_close
 *   units    bytes, nonzeros; modes from 0
 *   threads  read-only after opening: any thread
 *   errors   0 or a negative ts_code with one sentence; on failure *ret is not touched
 */
#ifndef TS_FORMAT_TENSOR_H
#define TS_FORMAT_TENSOR_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/open_dir.h"
#include "format/layout.h"

struct ts_block;    /* block_codec.h */
struct ts_dense;    /* dense.h */
struct ts_temp_dir; /* base/files/temp_dir.h */

struct ts_mode {
    struct ts_disk_mode disk;
    struct ts_disk_shard *shard; /* disk.n_shards entries */
    char *shards_path, *rows_path, *labels_path;
    /* Files that are opened together with the tensor, so that they still belong to it if the
     * directory is moved or built again. labels_fd is -1 if the file does not exist. */
    int rows_fd, labels_fd;
    int shards_fd; /* -1: opened when needed (ts_tensor_shards_open), because this process has too
                    * many files open */
    struct ts_file_id shards_id;
};

/* The shards of a tensor that are on this machine (format/part.h): first .. end - 1 of each
 * mode. */
struct ts_part {
    /* number of this part, from 1, and of all parts; n 0: the tensor is complete */
    uint32_t part, n;
    uint64_t first[TS_MAX_ORDER], end[TS_MAX_ORDER];
};

struct ts_tensor {
    char *path;              /* path of the directory, as the user named it */
    struct ts_open_dir *dir; /* handle by which its files are opened; NULL: no directory */
    struct ts_disk_header header;
    uint32_t order;
    uint64_t nnz;
    /* checksum of the index. It has checksums of the other files, so equal hashes mean equal
     * tensors */
    uint64_t hash;
    double *dict;                 /* header.n_dict values */
    uint32_t base;                /* first index of the input, 0 or 1; use ts_tensor_base */
    char *name[TS_MAX_ORDER + 1]; /* names of modes, then of the values; use ts_tensor_mode_name */
    struct ts_mode mode[TS_MAX_ORDER];
    struct ts_part part;
    /* For cells that hold several nonzeros. cells_summed 1: header.norm was computed from the sums
     * of their nonzeros (stream/cells_norm.h). listed_norm is then the norm that the index has, for
     * which each nonzero is squared alone. */
    int cells_summed;
    int listed; /* 1: its index lists segments; set only while it is opened */
    double listed_norm;
    struct ts_temp_dir *temp; /* directory of a temporary tensor, removed by close; NULL: none */
    /* an array of cells, which has no shards; NULL: a directory of shards */
    struct ts_dense *dense;
};

/* Opens the tensor in a directory. If it has several segments (appended parts), opens the tensor of
 * all of them (ts_segments_open_whole). */
int ts_tensor_open(const char *path, struct ts_tensor **ret, struct ts_err *err);

/* Opens the tensor in the directory `name` of the open directory `parent`. Messages call it
 * `path`. */
int ts_tensor_open_inside(const struct ts_open_dir *parent, const char *name, const char *path,
                          struct ts_tensor **ret, struct ts_err *err);
void ts_tensor_close(struct ts_tensor *t); /* NULL is fine */

/* Sets *ret to an array with the input index of each row of a mode, ascending. It has n_rows
 * entries and is to be freed. *ret is NULL if row i is index i. */
int ts_tensor_rows(const struct ts_tensor *t, uint32_t mode, uint64_t **ret, struct ts_err *err);

/* Like ts_tensor_rows, in pieces, for callers that have no memory for all rows. open sets *ret to
 * NULL if row i is index i, and checks the file's hash. next writes the next *n indices (at most
 * TS_ROWS_CHUNK) to ret; *n is 0 at the end. */
struct ts_rows_reader;
int ts_rows_reader_open(const struct ts_tensor *t, uint32_t mode, struct ts_rows_reader **ret,
                        struct ts_err *err);
int ts_rows_reader_next(struct ts_rows_reader *r, uint64_t ret[TS_ROWS_CHUNK], uint32_t *n,
                        struct ts_err *err);
void ts_rows_reader_close(struct ts_rows_reader *r); /* NULL is fine */

/* Sets ret[i] to the name of input index index[i] of a mode, for n ascending indices. ret[i] is
 * malloc'ed, or NULL if the mode has no labels or no line for the index. The file's hash is checked
 * first. */
int ts_tensor_labels(const struct ts_tensor *t, uint32_t mode, uint64_t n, const uint64_t *index,
                     char **ret, struct ts_err *err);

/* Checks the hash and the header of a mode's file of labels, which must exist. */
int ts_tensor_labels_check(const struct ts_tensor *t, uint32_t mode, struct ts_err *err);

/* Like ts_tensor_labels_check. Also checks that the file has as many lines as the index says, each
 * with a newline. */
int ts_tensor_labels_lines(const struct ts_tensor *t, uint32_t mode, struct ts_err *err);

/* Return the name of a mode, and the name of the values. NULL: there is none. A name may have any
 * bytes but '\n' and '\0'. */
const char *ts_tensor_mode_name(const struct ts_tensor *t, uint32_t mode);
const char *ts_tensor_value_name(const struct ts_tensor *t);

/* Returns the number from which the input counts indices: 0 or 1. */
uint32_t ts_tensor_base(const struct ts_tensor *t);

/* Checks the stored bytes (padded to TS_PAGE) of a shard against its hash and decompresses LZ4.
 * `raw` has room for raw_bytes + TS_SHARD_SLACK; without LZ4 it may be the same address as
 * `stored`, and then nothing is copied. It does not check the blocks. ts_tensor_check_shard does,
 * once for all reads of a shard, because equal hashes mean equal bytes. */
int ts_tensor_unpack_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard,
                           const void *stored, void *raw, struct ts_err *err);
int ts_tensor_check_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                          struct ts_err *err);

/* Opens a mode's file of shards once more, with O_RDONLY and `flags`. Returns the descriptor, or a
 * negative ts_code, also if the file is not that of the opened tensor any more. */
int ts_tensor_shards_open(const struct ts_tensor *t, uint32_t mode, int flags, struct ts_err *err);

/* Returns the bytes of memory that ts_tensor_read_shard needs for any shard of the tensor. */
size_t ts_tensor_raw_bytes(const struct ts_tensor *t);

/* Reads one shard into raw (ts_tensor_raw_bytes), decompresses it there and checks it. For tools
 * and tests; backends use stream/feed/feed.h. */
int ts_tensor_read_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, void *raw,
                         struct ts_err *err);

/* Decodes block b of a shard that ts_tensor_read_shard has read. Returns TS_EFORMAT if a value in
 * it is not finite. */
int ts_tensor_block(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                    uint32_t b, struct ts_block *ret, struct ts_err *err);

/* Reads all shards of all modes and looks for a value that is not finite. Builds write no such
 * value, and a correct hash does not exclude it. To be called if a result is not finite: it takes
 * as long as a sweep, in one thread, with memory for one shard. TS_EFORMAT names the shard;
 * TS_ESTOP once *stop (may be NULL) is not 0; or what reading finds. */
int ts_tensor_check_values(const struct ts_tensor *t, const volatile sig_atomic_t *stop,
                           struct ts_err *err);

/* Whether each nonzero has a weight: its second code (ts_weight_of_code). */
static inline int ts_tensor_weighted(const struct ts_tensor *t)
{
    return (t->header.flags & TS_TENSOR_WEIGHTS) != 0;
}

/* Returns the root of the sum of squares of the nonzeros, even if some cell has several. */
static inline double ts_tensor_listed_norm(const struct ts_tensor *t)
{
    return t->cells_summed ? t->listed_norm : t->header.norm;
}

/* Returns the value of a nonzero with these codes (code1 is used by TS_VALUE_F64 alone). */
double ts_tensor_value(const struct ts_tensor *t, uint32_t code0, uint32_t code1);

/* Returns the lower bound of bytes per nonzero for this shape, number of nonzeros and distribution
 * of values: (log2 C(cells, nnz) + nnz * value_bits) / (8 nnz). 0 when nnz is 0. */
double ts_tensor_entropy_bound(const struct ts_tensor *t);

/* Returns the bytes per nonzero of one mode copy: its shards, its rows file, and its share of the
 * index (its own tables and an equal part of the tables of all modes). Labels are not counted. */
double ts_tensor_bytes_per_nnz(const struct ts_tensor *t, uint32_t mode);

#endif
