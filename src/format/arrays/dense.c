/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens dense arrays as tensors. Chooses how an array is treated as a matrix and which parts of it
 * are slabs (read at once), and converts cells to numbers. */
#include "format/arrays/dense.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine/bigmem.h"
#include "base/files/fd.h"
#include "base/num.h"
#include "base/setting.h"
#include "format/arrays/array_name.h"

/* Limits for the number of columns of the matrix (dense.h). With fewer columns, a matrix product
 * does not reach the speed of the processor; with more, rows do not stay in its caches. */
#define LEAST_INNER 64u
#define MOST_INNER  8192u

/* A slab (part of the matrix that is read at once) has SLAB_BYTES bytes. Where that is less than
 * SLAB_ROWS rows, it has SLAB_ROWS rows if they fit in MOST_SLAB_BYTES. */
#define SLAB_BYTES      (UINT64_C(4) << 20)
#define SLAB_ROWS       64u
#define MOST_SLAB_ROWS  4096u /* a product needs memory for each row of a slab */
#define MOST_SLAB_BYTES (UINT64_C(16) << 20)

/* ---- the shape of an array ---- */

static int check_shape(const struct ts_dense_array *a, uint64_t *cells, struct ts_err *err)
{
    *cells = 1;
    if (a->order < 2 || a->order > TS_DENSE_MAX_ORDER)
        return ts_fail(err, TS_EFORMAT,
                       "%s: an array of %u dimension%s; a dense tensor has 2 to %u", a->path,
                       a->order, ts_num_plural(a->order), TS_DENSE_MAX_ORDER);
    for (uint32_t m = 0; m < a->order; m++) {
        if (a->dim[m] == 0)
            return ts_fail(err, TS_EFORMAT, "%s: " TS_NTH_MODE " has size 0, so there is no cell",
                           a->path, m + 1);
        if (a->dim[m] > UINT32_MAX)
            return ts_fail(err, TS_ELIMIT,
                           "%s: " TS_NTH_MODE " has size %" PRIu64 "; at most 2^32 - 1 is possible",
                           a->path, m + 1, a->dim[m]);
        if (a->dim[m] > TS_MAX_NNZ / *cells)
            return ts_fail(err, TS_ELIMIT,
                           "%s: its shape has more than 2^40 cells, the most that are possible",
                           a->path);
        *cells *= a->dim[m];
    }
    return 0;
}

/* Chooses which modes form the rows of the matrix as which the array is treated, and which its
 * columns. The modes whose indices change fastest are merged until there are at least LEAST_INNER
 * columns. Of several choices, it takes the one with the smallest sum of rows and columns. */
static void choose_rows(struct ts_dense *d)
{
    const uint32_t n = d->array.order;
    uint64_t inner = 1;
    d->inner = 0;
    if (d->array.n_outer > 0) {
        for (uint32_t k = d->array.n_outer; k < n; k++)
            inner *= d->array.dim[d->layout[k]];
        d->inner = inner;
        d->outer = d->cells / inner;
        d->n_outer = d->array.n_outer;
        return;
    }
    for (uint32_t k = n - 1; k > 0; k--) {
        uint64_t sum;
        inner *= d->array.dim[d->layout[k]];
        sum = inner + d->cells / inner;
        if (d->inner >= LEAST_INNER && (inner > MOST_INNER || sum >= d->inner + d->outer))
            break;
        d->inner = inner;
        d->outer = d->cells / inner;
        d->n_outer = k;
    }
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static void choose_slabs(struct ts_dense *d)
{
    const uint64_t row_bytes = d->inner * d->cell_bytes;
    const uint64_t own = d->array.slab_bytes;
    const uint64_t size = own > 0 ? own : SLAB_BYTES, most = own > 0 ? 4 * own : MOST_SLAB_BYTES;
    d->slab_cols = d->inner;
    d->slab_rows = size / row_bytes;
    if (d->slab_rows < SLAB_ROWS)
        d->slab_rows = most / row_bytes < SLAB_ROWS ? most / row_bytes : SLAB_ROWS;
    if (d->slab_rows == 0) {
        d->slab_rows = 1;
        d->slab_cols = most / d->cell_bytes;
    }
    if (d->slab_rows > MOST_SLAB_ROWS)
        d->slab_rows = MOST_SLAB_ROWS;
    if (d->slab_rows > d->outer)
        d->slab_rows = d->outer;
    d->n_slabs = ceil_div(d->outer, d->slab_rows) * ceil_div(d->inner, d->slab_cols);
}

uint32_t ts_dense_passes(const struct ts_dense *d, int kept, uint32_t skipped)
{
    uint32_t outer = 0, inner = 0;
    for (uint32_t l = 0; l < d->array.order; l++)
        if ((skipped >> d->layout[l] & 1) == 0)
            l < d->n_outer ? outer++ : inner++;
    return (kept && outer > 0 ? 1 : outer) + (inner > 0);
}

void ts_dense_slab(const struct ts_dense *d, uint64_t k, struct ts_dense_part *ret)
{
    const uint64_t a_row = ceil_div(d->inner, d->slab_cols);
    ret->row = k / a_row * d->slab_rows;
    ret->col = k % a_row * d->slab_cols;
    ret->rows = d->outer - ret->row < d->slab_rows ? d->outer - ret->row : d->slab_rows;
    ret->cols = d->inner - ret->col < d->slab_cols ? d->inner - ret->col : d->slab_cols;
}

uint64_t ts_dense_slab_at(const struct ts_dense *d, uint64_t k)
{
    struct ts_dense_part p;
    ts_dense_slab(d, k, &p);
    return (p.row * d->inner + p.col) * d->cell_bytes;
}

uint64_t ts_dense_slab_bytes(const struct ts_dense *d, uint64_t k)
{
    struct ts_dense_part p;
    ts_dense_slab(d, k, &p);
    return p.rows * p.cols * d->cell_bytes;
}

uint64_t ts_dense_partitions(const struct ts_dense *d)
{
    uint64_t n = 0;
    for (uint64_t k = 0; k < d->n_slabs; k++)
        n += ceil_div(ts_dense_slab_bytes(d, k) / d->cell_bytes, TS_PARTITION_NNZ);
    return n;
}

uint64_t ts_dense_most_bytes(const struct ts_dense *d)
{
    return ts_dense_slab_bytes(d, 0);
}

void ts_dense_index(const struct ts_dense *d, uint64_t cell, uint64_t ret[TS_DENSE_MAX_ORDER])
{
    for (uint32_t l = d->array.order; l-- > 0;) {
        const uint64_t dim = d->array.dim[d->layout[l]];
        ret[d->layout[l]] = cell % dim;
        cell /= dim;
    }
}

void ts_dense_index_text(const struct ts_dense *d, uint64_t cell, char ret[TS_DENSE_INDEX_CHARS])
{
    uint64_t index[TS_DENSE_MAX_ORDER];
    size_t at = 0;
    ts_dense_index(d, cell, index);
    for (uint32_t m = 0; m < d->array.order; m++)
        at += (size_t)snprintf(ret + at, TS_DENSE_INDEX_CHARS - at, "%s%" PRIu64,
                               m == 0 ? "[" : ", ", index[m]);
    snprintf(ret + at, TS_DENSE_INDEX_CHARS - at, "]");
}

int ts_dense_check_known(const struct ts_dense *d, struct ts_err *err)
{
    char text[TS_DENSE_INDEX_CHARS];
    if (d->n_unknown == 0)
        return 0;
    ts_dense_index_text(d, d->first_unknown, text);
    return ts_fail(err, TS_EARG,
                   "%s: cell %s (counted from 0) is NaN, the first of %" PRIu64
                   ": unknown cells need " TS_SET_OBSERVED
                   "; tstream score compares a model with the others",
                   d->array.path, text, d->n_unknown);
}

int ts_dense_check_same(const struct ts_dense *d, struct ts_err *err)
{
    const struct stat *was = &d->opened;
    struct stat st;
    if (was->st_nlink == 0 || fstat(d->fd, &st) < 0)
        return 0;
    if (st.st_size == was->st_size && st.st_mtim.tv_sec == was->st_mtim.tv_sec &&
        st.st_mtim.tv_nsec == was->st_mtim.tv_nsec)
        return 0;
    return ts_fail(err, TS_EFORMAT,
                   "%s: the file was written to while it was read; begin anew once it is as it is "
                   "to be (tshard index makes checksums of it)",
                   d->array.path);
}

/* ---- opening an array ---- */

int ts_dense_open(const struct ts_dense_array *array, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_tensor *t;
    struct ts_dense *d;
    const char *file;
    uint64_t cells;
    const int rc = check_shape(array, &cells, err);
    if (rc < 0)
        return rc;
    t = calloc(1, sizeof *t);
    d = calloc(1, sizeof *d);
    for (uint32_t m = 0; t != NULL && m < TS_MAX_ORDER; m++)
        t->mode[m].rows_fd = t->mode[m].labels_fd = t->mode[m].shards_fd = -1;
    if (t == NULL || d == NULL || (t->path = strdup(array->path)) == NULL ||
        (d->array.file = strdup(array->file != NULL ? array->file : array->path)) == NULL) {
        free(t != NULL ? t->path : NULL);
        free(t);
        free(d);
        return ts_no_memory(err, array->path);
    }
    t->dense = d;
    d->fd = -1;
    d->tensor = t;
    file = d->array.file;
    d->array = *array;
    d->array.path = t->path;
    d->array.file = file;
    d->cell_bytes = ts_cell_bytes(array->type);
    d->cells = cells;
    for (uint32_t l = 0; l < array->order; l++)
        d->layout[l] = array->fortran ? array->order - 1 - l : l;
    choose_rows(d);
    choose_slabs(d);
    t->order = t->header.order = array->order;
    /* the norm and both extreme values are not known until all cells were read */
    t->header.norm = t->header.value_min = t->header.value_max = NAN;
    t->nnz = t->header.nnz = t->header.input_nnz = cells;
    t->header.value_kind = d->cell_bytes == 8 ? TS_VALUE_F64 : TS_VALUE_F32;
    t->header.value_bytes = ts_cell_is_narrow(array->type) ? 4 : 8;
    for (uint32_t m = 0; m < array->order; m++) {
        struct ts_disk_mode *disk = &t->mode[m].disk;
        disk->dim = disk->n_rows = array->dim[m];
        disk->largest_slice = cells / array->dim[m];
        disk->level[0] = (uint8_t)m;
    }
    *ret = t;
    return 0;
}

static int little_endian(void)
{
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 1;
}

int ts_dense_open_file(const char *file, struct ts_err *err)
{
    const int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? ts_fail_errno(err, TS_EIO, "%s", file) : fd;
}

int ts_dense_hold(struct ts_dense *d, int fd, struct ts_err *err)
{
    d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return d->fd < 0 ? ts_fail_errno(err, TS_EIO, "%s", d->array.path) : 0;
}

int ts_dense_replaced(const struct ts_dense *d)
{
    struct ts_file_id own, now;
    if (d->fd < 0 || !ts_file_id_open(d->fd, &own))
        return 0;
    return ts_file_id_of(d->array.file, &now) ? !ts_file_id_same(&own, &now)
                                              : errno == ENOENT || errno == ENOTDIR;
}

int ts_dense_file(const struct ts_dense_array *array, int fd, struct ts_tensor **ret,
                  struct ts_err *err)
{
    struct ts_tensor *t = NULL;
    struct stat st;
    uint64_t end;
    int rc = ts_dense_open(array, &t, err);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    t->dense->fd = fd;
    if (fstat(fd, &st) < 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s", t->path);
    } else {
        t->dense->opened = st;
        end = array->offset + t->dense->cells * t->dense->cell_bytes;
        if (!S_ISREG(st.st_mode))
            rc = ts_fail(err, TS_EFORMAT, "%s: not a file", t->path);
        else if ((uint64_t)st.st_size < end)
            rc =
                ts_fail(err, TS_EFORMAT,
                        "%s: byte %" PRIu64 ": the file ends; by its %s it has %" PRIu64 " bytes%s",
                        t->path, (uint64_t)st.st_size, array->raw ? "sizes" : "header", end,
                        array->raw ? "" : " (it was cut short)");
        else if (array->exact && (uint64_t)st.st_size > end)
            rc = ts_fail(err, TS_EFORMAT,
                         "%s: byte %" PRIu64 ": by its %s the file ends here, and it has %" PRIu64
                         " bytes",
                         t->path, end, array->raw ? "sizes" : "header", (uint64_t)st.st_size);
    }
    if (rc == 0)
        *ret = t;
    else
        ts_tensor_close(t);
    return rc;
}

int ts_dense_npy(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_dense_array a;
    const int fd = ts_dense_open_file(path, err);
    const int rc = fd < 0 ? fd : ts_npy_header(fd, path, &a, err);
    a.exact = 1; /* bytes after the cells may be a second array, which must not be ignored */
    if (rc == 0)
        return ts_dense_file(&a, fd, ret, err);
    ts_fd_close(fd);
    return rc;
}

int ts_dense_raw(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    struct ts_dense_array a = { .path = path, .exact = 1, .raw = 1 };
    char *file = strndup(path, ts_array_name_cells(path));
    int fd = -1, rc = file == NULL ? ts_no_memory(err, path) : 0;
    if (rc == 0)
        rc = ts_array_name_parse(path, &a, err);
    a.file = file;
    if (rc == 0)
        rc = fd = ts_dense_open_file(file, err);
    if (rc >= 0)
        rc = ts_dense_file(&a, fd, ret, err);
    free(file);
    return rc;
}

/* ---- cells as numbers ---- */

static uint64_t swap_bytes(uint64_t x, uint32_t bytes)
{
    return bytes == 8   ? __builtin_bswap64(x)
           : bytes == 4 ? __builtin_bswap32((uint32_t)x)
           : bytes == 2 ? __builtin_bswap16((uint16_t)x)
                        : x;
}

static double number(const struct ts_dense *d, const uint8_t *cell)
{
    uint64_t x = 0;
    double wide;
    float narrow;
    uint32_t low;
    memcpy((uint8_t *)&x + (little_endian() ? 0 : 8 - d->cell_bytes), cell, d->cell_bytes);
    if (d->array.swapped)
        x = swap_bytes(x, d->cell_bytes);
    low = (uint32_t)x;
    switch (d->array.type) {
    case TS_CELL_F32:
        memcpy(&narrow, &low, sizeof narrow);
        return narrow;
    case TS_CELL_F64:
        memcpy(&wide, &x, sizeof wide);
        return wide;
    case TS_CELL_I8:
        return (int8_t)x;
    case TS_CELL_I16:
        return (int16_t)x;
    case TS_CELL_I32:
        return (int32_t)x;
    case TS_CELL_I64:
        return (double)(int64_t)x;
    case TS_CELL_U8:
    case TS_CELL_U16:
    case TS_CELL_U32:
    case TS_CELL_U64:
    case TS_N_CELLS:
        break;
    }
    return (double)x;
}

void ts_dense_get_f64(const struct ts_dense *d, const void *cells, uint64_t at, uint64_t n,
                      double *ret)
{
    const uint8_t *from = (const uint8_t *)cells + at * d->cell_bytes;
    if (d->array.type == TS_CELL_F64 && !d->array.swapped) {
        memcpy(ret, from, n * sizeof *ret);
    } else if (d->array.type == TS_CELL_F32 && !d->array.swapped) {
        for (uint64_t i = 0; i < n; i++) {
            float x;
            memcpy(&x, from + i * sizeof x, sizeof x);
            ret[i] = x;
        }
    } else {
        for (uint64_t i = 0; i < n; i++)
            ret[i] = number(d, from + i * d->cell_bytes);
    }
}

void ts_dense_get_f32(const struct ts_dense *d, const void *cells, uint64_t at, uint64_t n,
                      float *ret)
{
    const uint8_t *from = (const uint8_t *)cells + at * d->cell_bytes;
    assert(ts_cell_is_narrow(d->array.type));
    if (d->array.type == TS_CELL_F32 && !d->array.swapped)
        memcpy(ret, from, n * sizeof *ret);
    else
        for (uint64_t i = 0; i < n; i++)
            ret[i] = (float)number(d, from + i * d->cell_bytes);
}

void ts_dense_get_all(const struct ts_dense *d, const void *cells, uint64_t n, int narrow,
                      uint32_t threads, void *ret)
{
    const uint64_t piece = 1 << 16;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint64_t at = 0; at < n; at += piece) {
        const uint64_t k = n - at < piece ? n - at : piece;
        if (narrow)
            ts_dense_get_f32(d, cells, at, k, (float *)ret + at);
        else
            ts_dense_get_f64(d, cells, at, k, (double *)ret + at);
    }
}
