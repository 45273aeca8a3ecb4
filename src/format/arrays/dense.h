/* SPDX-License-Identifier: BSD-3-Clause */
/* dense.h - dense tensors: an array in a file or in memory, opened as a struct ts_tensor.
 *
 * Such a tensor has the member `dense` and no shards: mode[m].disk holds only the size, every
 * index is used, and nnz is the number of cells. Functions that visit single nonzeros
 * (format/walk.h) do not accept it. Norm, least and greatest value and the hash of the cells are
 * unknown until all cells were read once (cpu/dense/dense_scan.h).
 *
 * The array is read as a row-major matrix of `outer` rows and `inner` columns. `inner` is the
 * product of the sizes of modes layout[n_outer] and later, whose cells are adjacent in memory;
 * `outer` is the product of the sizes of the modes before. layout[] names the modes from the one
 * whose index changes most slowly to the one whose index changes with each cell. A slab is the
 * unit of reading and computing: whole rows, or part of one row. Slabs depend on the tensor alone,
 * and sums over cells add the slabs in their order.
 *
 *   owner    the tensor owns `dense`; the caller's array in memory must stay until the tensor is
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

/* Message for a dense tensor if the loss is not least squares; %s is the tensor's path. */
#define TS_DENSE_BY_SQUARES                                                   \
    "%s: a dense tensor is decomposed by least squares: other losses need a " \
    "tensor that lists the cells"

/* The types of cells. */
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

/* Description of an array, from a file's header, a name or a caller of the library. */
struct ts_dense_array {
    /* name of the array in messages: its file, a file's name with type and sizes, or a name for an
     * array in memory */
    const char *path;
    const char *file;   /* the file with the cells; NULL: `path` */
    const void *memory; /* the cells; NULL: they are in the file */
    uint64_t offset;    /* position of the first cell in the file */
    int exact;          /* 1: the file must end with the last cell */
    int raw;            /* 1: the file has no header */
    enum ts_cell_type type;
    int swapped; /* 1: the byte order of the cells is not that of this machine */
    int fortran; /* Fortran order: the first index changes fastest; else the last one does */
    uint32_t order;
    uint64_t dim[TS_DENSE_MAX_ORDER];
    uint64_t slab_bytes; /* for tests: the size of slabs; 0: 4 MiB */
    /* for samples of a tensor: number of modes that form the rows of the matrix; 0: the best
     * number */
    uint32_t n_outer;
};

struct ts_dense {
    struct ts_tensor *tensor;    /* the tensor that this array is part of */
    struct ts_dense_array array; /* its member `file` is never NULL */
    void *own; /* memory of the cells that the tensor frees (own_bytes bytes), or NULL */
    uint64_t own_bytes;
    uint32_t cell_bytes;
    uint64_t cells;
    uint32_t n_outer;
    uint64_t outer, inner;
    uint32_t layout[TS_DENSE_MAX_ORDER];
    /* size of a slab in rows and columns; either slab_rows is 1, or slab_cols is `inner` */
    uint64_t slab_rows, slab_cols;
    uint64_t n_slabs;
    /* 1: all cells were read, so norm, hash, least and greatest value and n_unknown are set */
    int scanned;
    /* Checksums of chunks (array_index.h), with which cells are compared when they are read; or
     * NULL. */
    uint64_t *sum;
    int summing; /* 1: the checksums are being computed, so cells are not compared with them */
    int fd; /* descriptor of the file, open as long as the tensor; -1: the array is in memory */
    struct stat opened; /* status of the file at opening; st_nlink 0: not checked */
    /* number of NaN (unknown) cells, and the position of the first one in the array */
    uint64_t n_unknown, first_unknown;
};

/* A rectangle of the array as a matrix: `rows` rows from row `row` on, and `cols` of their columns
 * from `col` on. */
struct ts_dense_part {
    uint64_t row, col, rows, cols;
};

int ts_dense_open(const struct ts_dense_array *array, struct ts_tensor **ret, struct ts_err *err);

/* Like ts_dense_open, for a file that is open as `fd`. Fails if the file is too small for the
 * cells. Takes over fd, also on failure. */
int ts_dense_file(const struct ts_dense_array *array, int fd, struct ts_tensor **ret,
                  struct ts_err *err);

/* Opens the file of an array without blocking on a pipe. Returns the descriptor. */
int ts_dense_open_file(const char *file, struct ts_err *err);

/* Makes the tensor read its cells from the open file `fd`. The caller still owns fd. */
int ts_dense_hold(struct ts_dense *d, int fd, struct ts_err *err);

/* Whether the file's name now leads to another file, or to none. */
int ts_dense_replaced(const struct ts_dense *d);

/* Open arrays of each kind (tensor_kind.c): NumPy files of versions 1.0 to 3.0; files of cells
 * without a header, which the name describes (array_name.h); text of Tensor Toolbox, which becomes
 * an array in memory; HDF5 datasets. */
int ts_dense_npy(const char *path, struct ts_tensor **ret, struct ts_err *err);
int ts_dense_raw(const char *path, struct ts_tensor **ret, struct ts_err *err);
int ts_dense_text(const char *path, struct ts_tensor **ret, struct ts_err *err);
int ts_dense_hdf5(const char *path, struct ts_tensor **ret, struct ts_err *err);

/* Reads the NumPy header of an open file; `path` is its name in messages. On failure *ret may have
 * changed. */
int ts_npy_header(int fd, const char *path, struct ts_dense_array *ret, struct ts_err *err);

uint32_t ts_cell_bytes(enum ts_cell_type type);
const char *ts_cell_name(enum ts_cell_type type); /* "float32" and so on */
int ts_cell_named(const char *name,
                  enum ts_cell_type *ret); /* whether a type with this name exists */
/* Whether a type with this code, such as f4, exists. */
int ts_cell_coded(const char *code, enum ts_cell_type *ret);

/* Whether float32 represents all values of the type exactly. */
int ts_cell_is_narrow(enum ts_cell_type type);

/* Returns how many times the MTTKRPs of a sweep read the cells (cpu/dense/dense_product.h): once
 * for all inner modes (of the matrix columns), and once for each outer mode (of the rows). With
 * `kept`, the products that outer modes have in common are in memory, and the cells are read once
 * for all outer modes. skipped: bit m is set if mode m needs no MTTKRP. */
uint32_t ts_dense_passes(const struct ts_dense *d, int kept, uint32_t skipped);

/* Sets *ret to slab k, whose cells are consecutive in memory. ts_dense_slab_at returns its
 * position. */
void ts_dense_slab(const struct ts_dense *d, uint64_t k, struct ts_dense_part *ret);
uint64_t ts_dense_slab_at(const struct ts_dense *d, uint64_t k); /* in bytes, from the first cell */
uint64_t ts_dense_slab_bytes(const struct ts_dense *d, uint64_t k);
uint64_t ts_dense_most_bytes(const struct ts_dense *d); /* bytes of the largest slab */

/* Returns the number of partitions of all slabs: a slab is cut into runs of TS_PARTITION_NNZ
 * cells, the last of which may be shorter. */
uint64_t ts_dense_partitions(const struct ts_dense *d);

/* Converts n cells from cells[at] on to numbers. cells needs no alignment. */
void ts_dense_get_f64(const struct ts_dense *d, const void *cells, uint64_t at, uint64_t n,
                      double *ret);
void ts_dense_get_f32(const struct ts_dense *d, const void *cells, uint64_t at, uint64_t n,
                      float *ret);

/* Converts the first n cells of an array to numbers with `threads` threads: to float32 if `narrow`,
 * else to float64. */
void ts_dense_get_all(const struct ts_dense *d, const void *cells, uint64_t n, int narrow,
                      uint32_t threads, void *ret);

/* Returns 0, or TS_EARG with the indices of the first unknown (NaN) cell. The cells must have been
 * scanned. */
int ts_dense_check_known(const struct ts_dense *d, struct ts_err *err);

/* Returns 0, or TS_EFORMAT if the file was modified after it was opened. */
int ts_dense_check_same(const struct ts_dense *d, struct ts_err *err);

/* Writes the indices of a cell, from 0, as text: [3, 0, 7]. */
#define TS_DENSE_INDEX_CHARS (TS_DENSE_MAX_ORDER * 24)
void ts_dense_index_text(const struct ts_dense *d, uint64_t cell, char ret[TS_DENSE_INDEX_CHARS]);

/* Sets ret to the indices of a cell, from 0 and in the order of the modes. */
void ts_dense_index(const struct ts_dense *d, uint64_t cell, uint64_t ret[TS_DENSE_MAX_ORDER]);

#endif
