/* SPDX-License-Identifier: BSD-3-Clause */
/* dense.h - tensors whose cells are all there: an array in a file or in memory, opened as a struct
 * ts_tensor.
 *
 * Such a tensor has `dense`, and no shards: mode[m].disk has its size alone, every index is a used
 * one, and nnz is the number of cells. What needs nonzeros one by one (format/walk.h) is not for
 * it. Norm, least and greatest value and the hash of the cells are not known before all of them
 * were read once (cpu/dense/dense_scan.h).
 *
 * The array is a matrix of `outer` rows of `inner` columns, one row after another: `inner` is what
 * the modes count whose cells lie next to each other, from layout[n_outer] on, `outer` what those
 * before count. layout[] names the modes from the one whose index changes most slowly to the one
 * whose index changes with each cell. Slabs are what is read and computed on at a time: whole rows,
 * or parts of one row. They are cut by the tensor alone, and sums over cells are over slabs in
 * their order.
 *
 *   owner    the tensor owns its `dense`, as all else; memory of an array is lent until it is
 *            closed
 *   units    bytes; cells
 *   threads  read-only after opening: any thread
 *   errors   0 or a negative ts_code with one sentence; on failure *ret is not touched
 */
#ifndef TS_FORMAT_DENSE_H
#define TS_FORMAT_DENSE_H

#include <sys/stat.h>

#include "format/tensor.h"

#define TS_DENSE_MAX_ORDER 8u

/* What is said of a run of a dense tensor by another loss: of its path. */
#define TS_DENSE_BY_SQUARES                                                   \
    "%s: a dense tensor is decomposed by least squares: other losses need a " \
    "tensor that lists the cells"

/* Numbers that cells may be. */
enum ts_cell_type {
    TS_CELL_F32,
    TS_CELL_F64,
    TS_CELL_I8,
    TS_CELL_U8,
    TS_CELL_I16,
    TS_CELL_U16,
    TS_CELL_I32,
    TS_CELL_U32,
    TS_CELL_I64,
    TS_CELL_U64,
    TS_N_CELLS,
};

/* An array, as somebody describes it. */
struct ts_dense_array {
    /* name of the array: the file, a name with its shape, or a name for an array in memory */
    const char *path;
    const char *file;   /* the file with the cells; NULL: `path` */
    const void *memory; /* the cells; NULL: they are in the file */
    uint64_t offset;    /* position of the first cell in the file */
    int exact;          /* the file must end with the last cell */
    int raw;            /* the file has no header */
    enum ts_cell_type type;
    int swapped; /* the bytes of a cell are in the other order than those of this machine */
    int fortran; /* the first index changes with each cell; else the last one does */
    uint32_t order;
    uint64_t dim[TS_DENSE_MAX_ORDER];
    uint64_t slab_bytes; /* for tests: the size of slabs; 0: 4 MiB */
    uint32_t n_outer;    /* for samples: number of outer levels; 0: the best number */
};

struct ts_dense {
    struct ts_tensor *tensor;    /* the tensor that this array is part of */
    struct ts_dense_array array; /* its file is never NULL */
    void *own;                   /* memory that goes with the tensor, or NULL */
    uint64_t own_bytes;
    uint32_t cell_bytes;
    uint64_t cells;
    uint32_t n_outer;
    uint64_t outer, inner;
    uint32_t layout[TS_DENSE_MAX_ORDER];
    uint64_t slab_rows, slab_cols; /* size of a slab; slab_rows is 1, or slab_cols is `inner` */
    uint64_t n_slabs;
    /* the tensor's norm, hash, least and greatest value, and the members below are set */
    int scanned;
    /* Checksums of chunks (array_index.h), which cells are compared with when they are read; or
     * NULL. */
    uint64_t *sum;
    int summing; /* the checksums are being computed */
    int fd; /* descriptor of the file, open as long as the tensor; -1: the array is in memory */
    struct stat opened;                /* the file as it was then; st_nlink 0: not looked at */
    uint64_t n_unknown, first_unknown; /* number of NaN cells; position of the first of them */
};

/* A part of the array: `rows` rows from `row` on, and `cols` of their columns from `col` on. */
struct ts_dense_part {
    uint64_t row, col, rows, cols;
};

int ts_dense_open(const struct ts_dense_array *array, struct ts_tensor **ret, struct ts_err *err);

/* Like ts_dense_open, for a file that is open as `fd`, and must be long enough. Takes over fd,
 * also on failure. */
int ts_dense_file(const struct ts_dense_array *array, int fd, struct ts_tensor **ret,
                  struct ts_err *err);

/* Opens the file that an array is in; a pipe does not block. Returns the descriptor. */
int ts_dense_open_file(const char *file, struct ts_err *err);

/* Reads from that open file, which stays the caller's. */
int ts_dense_hold(struct ts_dense *d, int fd, struct ts_err *err);

/* Whether the name of the file is another file's by now, or nobody's. */
int ts_dense_replaced(const struct ts_dense *d);

/* The kinds of arrays (tensor_kind.c): a file of NumPy, of formats 1.0 to 3.0; cells alone, which a
 * name describes (array_name.h); text of Tensor Toolbox, which becomes an array in memory; a
 * dataset of HDF5. */
int ts_dense_npy(const char *path, struct ts_tensor **ret, struct ts_err *err);
int ts_dense_raw(const char *path, struct ts_tensor **ret, struct ts_err *err);
int ts_dense_text(const char *path, struct ts_tensor **ret, struct ts_err *err);
int ts_dense_hdf5(const char *path, struct ts_tensor **ret, struct ts_err *err);

/* Reads the header of an open file. On failure *ret may have changed. Its path is `path`. */
int ts_npy_header(int fd, const char *path, struct ts_dense_array *ret, struct ts_err *err);

uint32_t ts_cell_bytes(enum ts_cell_type type);
const char *ts_cell_name(enum ts_cell_type type); /* float32 ... */
int ts_cell_named(const char *name,
                  enum ts_cell_type *ret); /* whether a type with this name exists */
/* whether a type with this code exists: f4 ... */
int ts_cell_coded(const char *code, enum ts_cell_type *ret);

/* Whether float32 has all values of the type. */
int ts_cell_is_narrow(enum ts_cell_type type);

/* Passes over the cells that the MTTKRPs of a sweep take (cpu/dense/dense_product.h): one for all
 * inner modes, and one for each outer mode, or for all where what they share is kept. skipped: bit
 * m: mode m has none. */
uint32_t ts_dense_passes(const struct ts_dense *d, int kept, uint32_t skipped);

/* Slab k, and where it begins in the array. Its cells lie next to each other. */
void ts_dense_slab(const struct ts_dense *d, uint64_t k, struct ts_dense_part *ret);
uint64_t ts_dense_slab_at(const struct ts_dense *d, uint64_t k); /* in bytes, from the first cell */
uint64_t ts_dense_slab_bytes(const struct ts_dense *d, uint64_t k);
uint64_t ts_dense_most_bytes(const struct ts_dense *d); /* bytes of the largest slab */

/* The number of partitions: runs of TS_PARTITION_NNZ cells, and the rest of each slab, for all
 * slabs. */
uint64_t ts_dense_partitions(const struct ts_dense *d);

/* n cells from cells[at] on as numbers; cells may be anywhere in memory. */
void ts_dense_get_f64(const struct ts_dense *d, const void *cells, uint64_t at, uint64_t n,
                      double *ret);
void ts_dense_get_f32(const struct ts_dense *d, const void *cells, uint64_t at, uint64_t n,
                      float *ret);

/* The first n cells, by so many threads: float32 where `narrow`, else float64. */
void ts_dense_get_all(const struct ts_dense *d, const void *cells, uint64_t n, int narrow,
                      uint32_t threads, void *ret);

/* 0; or TS_EARG where cells are unknown (NaN), which names the first one. Cells were looked at. */
int ts_dense_check_known(const struct ts_dense *d, struct ts_err *err);

/* 0; or TS_EFORMAT where the file was written to after it was opened. */
int ts_dense_check_same(const struct ts_dense *d, struct ts_err *err);

/* [3, 0, 7]: the indices of a cell, counted from 0. */
#define TS_DENSE_INDEX_CHARS (TS_DENSE_MAX_ORDER * 24)
void ts_dense_index_text(const struct ts_dense *d, uint64_t cell, char ret[TS_DENSE_INDEX_CHARS]);

/* The indices, from 0 and in the order of the modes, of a cell of the array. */
void ts_dense_index(const struct ts_dense *d, uint64_t cell, uint64_t ret[TS_DENSE_MAX_ORDER]);

#endif
