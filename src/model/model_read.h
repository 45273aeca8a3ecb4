/* SPDX-License-Identifier: BSD-3-Clause */
/* model_read.h - reads a decomposition: weights and factor matrices, from a file or directory.
 *
 * Possible are a Tensor Toolbox `ktensor` text file, and a directory with model.ktensor, with
 * weights.npy and modeK.npy, or with lambda.mat and modeK.mat (tried in this order). A directory
 * may also have several such directories (model/model_files.h): then the best one is read, if all
 * have one rank. Rows are read from front to back, mode after mode, so memory is a few buffers for
 * any size. All files are opened at the start, through their directory. So if a model is replaced
 * meanwhile, the old one is read (base/files/open_dir.h).
 *
 *   owner    the model owns what it points to, until ts_model_close
 *   units    rows; row 0 of a mode is index 0, or the first used index, depending on n_rows
 *   threads  one at a time
 *   errors   0 or a negative ts_code; the text is untrusted, and messages name file and line or
 *            byte
 */
#ifndef TS_MODEL_MODEL_READ_H
#define TS_MODEL_MODEL_READ_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/files/open_dir.h"
#include "format/layout.h"
#include "model/model_names.h"

/* at this rank a Gram matrix and its inverse have 32 MiB each, and take some seconds to compute */
#define TS_MAX_RANK 2048u

enum ts_model_kind { TS_MODEL_KTENSOR, TS_MODEL_NPY, TS_MODEL_SPLATT, TS_MODEL_MEMORY };

/* A model in memory, which can be read like a file. */
struct ts_model_memory {
    uint32_t order, rank;
    const uint64_t *n_rows; /* number of rows of each mode */
    const double *weight;
    int (*get_rows)(void *from, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err);
    /* returns the index of each row of a mode; NULL: row i is index i */
    const uint64_t *(*index)(void *from, uint32_t mode);
    void (*close)(void *from);
    void *from;
};

struct ts_model {
    char *path;              /* file or directory */
    struct ts_open_dir *dir; /* NULL: a single file, or memory */
    enum ts_model_kind kind;
    uint32_t order, rank;
    uint64_t n_rows[TS_MAX_ORDER];
    double *weight; /* rank weights */

    uint32_t mode; /* the mode that is being read */
    uint64_t row;  /* the next row of this mode */
    uint64_t line;
    uint64_t mode_line; /* in a ktensor: the line where the rows of `mode` begin */
    long mode_at; /* in a ktensor: the byte where the rows of `mode` begin; negative in a pipe */
    char *name;   /* name of the open file, for messages */
    FILE *file;
    FILE *part[TS_MAX_ORDER];   /* open files, in a directory with a file for each mode */
    int index_fd[TS_MAX_ORDER]; /* open modeK.index files; -1: the mode has none */
    uint32_t item_bytes;        /* in an .npy file: bytes of a number, 4 or 8 */
    /* largest item_bytes of all modes; 0: the model has no .npy files */
    uint32_t widest;
    struct ts_model_memory memory;
    struct ts_model_names *names; /* names and labels from the file `labels`; NULL: there is none */
};

int ts_model_open(const char *path, struct ts_model **ret, struct ts_err *err);

/* Like ts_model_open, but in a directory, format `first` is tried before the others: .npy files
 * keep float32. */
int ts_model_open_first(const char *path, enum ts_model_kind first, struct ts_model **ret,
                        struct ts_err *err);

/* Opens the model in directory `name` of an open directory. name NULL: the model in the open
 * directory itself, or the best of several in it. */
int ts_model_open_inside(const struct ts_open_dir *parent, const char *name, struct ts_model **ret,
                         struct ts_err *err);

/* Opens the file NAME of an open directory, which must be a ktensor, and returns 1. Returns 0 if
 * there is none, or a negative ts_code. */
int ts_model_open_file_in(const struct ts_open_dir *dir, const char *name, struct ts_model **ret,
                          struct ts_err *err);
void ts_model_close(struct ts_model *m); /* NULL is fine */

/* Opens the same model again, to read it from the start. */
int ts_model_open_again(const struct ts_model *m, enum ts_model_kind first, struct ts_model **ret,
                        struct ts_err *err);

/* Returns a signature of the model: a hash of the sizes, beginnings and ends of its files, by which
 * models with different numbers differ. 0: the model is a pipe, or in memory. */
uint64_t ts_model_sign(const struct ts_model *m);

/* Opens a model in memory, which must stay valid until ts_model_close calls `close`. */
int ts_model_open_memory(const struct ts_model_memory *in, struct ts_model **ret,
                         struct ts_err *err);

/* Whether all numbers of the model are float32, which only .npy files can have. */
int ts_model_is_float32(const struct ts_model *m);

/* Reads the next n rows of `mode`, n x rank. Modes must be requested in ascending order, and rows
 * in order. The last rows of a mode may be skipped. Otherwise returns TS_EARG: to read a model
 * twice, open it twice. */
int ts_model_rows(struct ts_model *m, uint32_t mode, uint64_t n, double *ret, struct ts_err *err);

/* Returns to the first row of the mode that was read last. Returns 0, 1 if this is not possible (a
 * pipe), or a negative ts_code. */
int ts_model_again(struct ts_model *m, struct ts_err *err);

/* Maps the .npy file of the mode that was read last: numbers of item_bytes each, from byte `at` on.
 * memory is NULL if the model is in another format, or its numbers are not aligned. The file must
 * not change. */
struct ts_model_map {
    void *memory;
    size_t bytes, at;
};
int ts_model_map(const struct ts_model *m, struct ts_model_map *ret, struct ts_err *err);
void ts_model_unmap(struct ts_model_map *map); /* a struct of zeros is fine */

/* Sets *ret to the index (from 0) of each row of `mode`, n_rows of them in ascending order, from
 * modeK.index or from memory. The caller frees it. *ret is NULL if no indices are given. */
int ts_model_index(const struct ts_model *m, uint32_t mode, uint64_t **ret, struct ts_err *err);

#endif
