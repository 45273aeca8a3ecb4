/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes, reads and applies the index file of a dense array, which holds checksums of its cells. */
#include "format/arrays/array_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/files/atomic_out.h"
#include "base/files/fd.h"
#include "base/files/out_name.h"
#include "format/file_read.h"

#define MAGIC "TSARRAY1"

/* Header of an index file. The checksums of the chunks follow, then a checksum of all bytes before
 * it. Numbers are little-endian. */
struct head {
    char magic[8];
    uint64_t offset, cells, dim[TS_DENSE_MAX_ORDER];
    uint32_t type, swapped, fortran, order;
    uint64_t slab_rows, slab_cols, inner, n_chunks;
    double norm, least, most;
    uint64_t n_unknown, first_unknown, hash;
};
_Static_assert(sizeof(struct head) == 184, "no padding");

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Computes the position of slab k's first checksum from the number of chunks in a row of slabs. All
 * slabs of such a row have slab_cols columns except the last, and all rows of slabs have slab_rows
 * rows except the last. */
uint64_t ts_array_index_first(const struct ts_dense *d, uint64_t k)
{
    const uint64_t a_row = ceil_div(d->inner, d->slab_cols), row = k / a_row, at = k % a_row;
    const uint64_t left = d->outer - row * d->slab_rows;
    const uint64_t rows = left < d->slab_rows ? left : d->slab_rows;
    const uint64_t last = d->inner - (a_row - 1) * d->slab_cols;
    const uint64_t of_row = (a_row - 1) * ceil_div(d->slab_rows * d->slab_cols, TS_ARRAY_CHUNK) +
                            ceil_div(d->slab_rows * last, TS_ARRAY_CHUNK);
    return row * of_row + at * ceil_div(rows * d->slab_cols, TS_ARRAY_CHUNK);
}

static uint64_t chunks_of(const struct ts_dense *d, uint64_t k)
{
    return ceil_div(ts_dense_slab_bytes(d, k) / d->cell_bytes, TS_ARRAY_CHUNK);
}

static uint64_t count_chunks(const struct ts_dense *d)
{
    return ts_array_index_first(d, d->n_slabs - 1) + chunks_of(d, d->n_slabs - 1);
}

char *ts_array_index_path(const struct ts_dense *d)
{
    const size_t n = strlen(d->array.file);
    const char *set = strncmp(d->array.path, d->array.file, n) == 0 ? d->array.path + n : "";
    char *ret;
    if (strncmp(set, ":/", 2) != 0)
        set = "";
    if (asprintf(&ret, "%s%s.index", d->array.file, *set != '\0' ? set + 1 : "") < 0)
        return NULL;
    for (char *at = ret + n; *at != '\0'; at++)
        *at = *at == '/' ? '.' : *at;
    return ret;
}

int ts_array_index_new(struct ts_dense *d, struct ts_err *err)
{
    free(d->sum);
    d->sum = calloc(count_chunks(d), sizeof *d->sum);
    return d->sum != NULL
               ? 0
               : ts_fail(err, TS_ENOMEM, "%s: out of memory for checksums", d->array.path);
}

static struct head head_of(const struct ts_dense *d)
{
    const struct ts_tensor *t = d->tensor;
    struct head h = { .magic = MAGIC,
                      .offset = d->array.offset,
                      .cells = d->cells,
                      .type = d->array.type,
                      .swapped = d->array.swapped != 0,
                      .fortran = d->array.fortran != 0,
                      .order = d->array.order,
                      .slab_rows = d->slab_rows,
                      .slab_cols = d->slab_cols,
                      .inner = d->inner,
                      .n_chunks = count_chunks(d),
                      .norm = t->header.norm,
                      .least = t->header.value_min,
                      .most = t->header.value_max,
                      .n_unknown = d->n_unknown,
                      .first_unknown = d->first_unknown,
                      .hash = t->hash };
    memcpy(h.magic, MAGIC, sizeof h.magic);
    memcpy(h.dim, d->array.dim, d->array.order * sizeof *h.dim);
    return h;
}

static int may_replace(const char *path, struct ts_err *err)
{
    char magic[sizeof MAGIC - 1];
    struct stat st;
    ssize_t n = -1;
    int fd;
    if (stat(path, &st) != 0 && errno == ENOENT)
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be opened", path);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = pread(fd, magic, sizeof magic, 0);
    close(fd);
    if (n == 0) /* an empty file, so replacing it loses nothing */
        return 0;
    return n == sizeof magic && memcmp(magic, MAGIC, sizeof magic) == 0
               ? 0
               : ts_fail(err, TS_EBUSY,
                         "%s: exists and is not the index of an array, so it is not replaced: move "
                         "it elsewhere",
                         path);
}

int ts_array_index_may_replace(const char *path, struct ts_err *err)
{
    char *first;
    int rc = may_replace(path, err);
    if (rc < 0)
        return rc;
    /* the index is written under this name first (base/files/atomic_out.h) */
    if (asprintf(&first, "%s.new", path) < 0)
        return ts_no_memory(err, path);
    rc = may_replace(first, err);
    free(first);
    return rc;
}

int ts_array_index_write(const struct ts_dense *d, struct ts_err *err)
{
    const struct head h = head_of(d);
    const size_t bytes = sizeof h + h.n_chunks * sizeof *d->sum;
    char *named = ts_array_index_path(d), *data = malloc(bytes + sizeof(uint64_t)), *slash;
    char *path = NULL; /* the file that `named` leads to when it is a link */
    int rc = ts_dense_replaced(d) ? ts_open_dir_fail(d->array.file, err)
             : named == NULL || data == NULL
                 ? ts_fail(err, TS_ENOMEM, "%s: out of memory for checksums", d->array.path)
                 : ts_out_name(named, &path, err);
    if (rc == 0 && path == NULL)
        rc = ts_fail(err, TS_EBUSY, "%s: not a file", named);
    if (rc == 0) {
        const char *name = path, *dir = ".";
        int fd;
        memcpy(data, &h, sizeof h);
        memcpy(data + sizeof h, d->sum, h.n_chunks * sizeof *d->sum);
        *(uint64_t *)(void *)(data + bytes) = XXH3_64bits(data, bytes);
        slash = strrchr(path, '/');
        if (slash != NULL) {
            *slash = '\0';
            name = slash + 1;
            dir = slash == path ? "/" : path;
        }
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rc = fd < 0 ? ts_fail_errno(err, TS_EIO, "%s", dir)
                    : ts_atomic_put(fd, dir, name, data, bytes + sizeof(uint64_t),
                                    TS_ATOMIC_DURABLE, err);
        ts_fd_close(fd);
    }
    free(path);
    free(named);
    free(data);
    return rc;
}

/* Whether the header of an index file describes this array, cut into the same slabs. */
static int is_of(const struct head *h, const struct ts_dense *d)
{
    struct head own = head_of(d);
    own.norm = h->norm;
    own.least = h->least;
    own.most = h->most;
    own.n_unknown = h->n_unknown;
    own.first_unknown = h->first_unknown;
    own.hash = h->hash;
    return memcmp(&own, h, sizeof own) == 0;
}

static int refuse_other(const char *path, const struct ts_dense *d, struct ts_err *err)
{
    return ts_fail(
        err, TS_EFORMAT,
        "%s: is of another array than %s, or of another version of tstream (tshard index "
        "makes it anew)",
        path, d->array.path);
}

/* Whether the statistics in the header (norm, least and greatest value, number of NaN) are possible
 * results of a scan of all cells. */
static int is_possible(const struct head *h)
{
    return isfinite(h->norm) && h->norm >= 0 && isfinite(h->least) && isfinite(h->most) &&
           h->least <= h->most && h->n_unknown < h->cells &&
           (h->n_unknown == 0 || h->first_unknown < h->cells);
}

static int take_index(const char *path, const char *data, uint64_t bytes, struct ts_dense *d,
                      struct ts_err *err)
{
    struct head h;
    uint64_t sum;
    if (bytes > sizeof h + (count_chunks(d) + 1) * sizeof sum)
        return refuse_other(path, d, err);
    if (bytes < sizeof h + sizeof sum || memcmp(data, MAGIC, sizeof h.magic) != 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s: not the index of an array (tshard index makes one; remove this)", path);
    memcpy(&h, data, sizeof h);
    memcpy(&sum, data + bytes - sizeof sum, sizeof sum);
    if (XXH3_64bits(data, bytes - sizeof sum) != sum)
        return ts_fail(err, TS_EFORMAT, "%s: is damaged (tshard index makes it anew)", path);
    if (!is_of(&h, d) || bytes != sizeof h + (h.n_chunks + 1) * sizeof sum)
        return refuse_other(path, d, err);
    if (!is_possible(&h))
        return ts_fail(err, TS_EFORMAT,
                       "%s: says of the cells what no cells have (tshard index makes it anew)",
                       path);
    memcpy(d->sum, data + sizeof h, h.n_chunks * sizeof *d->sum);
    d->tensor->header.norm = h.norm;
    d->tensor->header.value_min = h.least;
    d->tensor->header.value_max = h.most;
    d->tensor->hash = h.hash;
    d->n_unknown = h.n_unknown;
    d->first_unknown = h.first_unknown;
    d->scanned = 1;
    return 0;
}

int ts_array_index_read(struct ts_dense *d, struct ts_err *err)
{
    const size_t room = sizeof(struct head) + (count_chunks(d) + 1) * sizeof(uint64_t);
    char *path, *data;
    uint64_t bytes = 0;
    int rc;
    if (d->array.memory != NULL)
        return 0;
    path = ts_array_index_path(d);
    if (path == NULL || access(path, F_OK) != 0) {
        free(path);
        return 0;
    }
    data = malloc(room);
    rc = data == NULL ? ts_no_memory(err, path) : ts_array_index_new(d, err);
    if (rc == 0)
        rc = ts_file_read_small(path, room, data, &bytes, err);
    if (rc == 1)
        rc = take_index(path, data, bytes, d, err);
    if (ts_dense_replaced(d)) /* the index may belong to the file that replaced this one */
        rc = ts_open_dir_fail(d->array.file, err);
    if (rc < 0) {
        free(d->sum);
        d->sum = NULL;
    }
    free(data);
    free(path);
    return rc < 0 ? rc : 0;
}

uint64_t ts_array_index_sum(const void *cells, uint64_t bytes)
{
    return XXH3_64bits(cells, bytes);
}

int ts_array_index_check(const struct ts_dense *d, uint64_t k, const void *cells,
                         struct ts_err *err)
{
    const uint64_t first = ts_array_index_first(d, k), n = chunks_of(d, k);
    const uint64_t bytes = ts_dense_slab_bytes(d, k), step = TS_ARRAY_CHUNK * d->cell_bytes;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = i * step, size = bytes - at < step ? bytes - at : step;
        const uint64_t sum = ts_array_index_sum((const char *)cells + at, size);
        if (sum != d->sum[first + i])
            return ts_fail(err, TS_EFORMAT,
                           "%s: byte %" PRIu64 ": checksum of %" PRIu64 " bytes is %016" PRIx64
                           ", expected %016" PRIx64
                           ": damaged, or changed since tshard index made it",
                           d->array.file, d->array.offset + ts_dense_slab_at(d, k) + at, size, sum,
                           d->sum[first + i]);
    }
    return 0;
}
