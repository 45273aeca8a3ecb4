/* SPDX-License-Identifier: BSD-3-Clause */
/* model_read.h - reads a decomposition back: weights and factor matrices, from a file or directory.
 *
 * Taken are a Tensor Toolbox `ktensor` text file, and a directory that holds model.ktensor, or
 * weights.npy and modeK.npy, or lambda.mat and modeK.mat (looked for in this order); and one of
 * several such directories (model/model_files.h), whose best one is taken where all have one rank.
 * Rows are read front to back, mode after mode, so memory is a few buffers for any size. All files
 * are opened at the start, through their directory: a model that is replaced meanwhile is still the
 * one that was opened (base/files/open_dir.h).
 *
 *   owner    the model owns what it points to, until ts_model_close
 *   units    rows; row 0 of a mode is its index 0, or its first used one (model->n_rows tells)
 *   threads  one at a time
 *   errors   0 or a negative ts_code; the text is untrusted, sentences name file and line or byte
 */
#ifndef TS_MODEL_MODEL_READ_H
#define TS_MODEL_MODEL_READ_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/files/open_dir.h"
#include "format/layout.h"
#include "model/model_names.h"

/* a Gram matrix and its inverse, of 32 MiB each, are some seconds of work here */
#define TS_MAX_RANK 2048u

enum ts_model_kind { TS_MODEL_KTENSOR, TS_MODEL_NPY, TS_MODEL_SPLATT, TS_MODEL_MEMORY };

/* A model that lies in memory, read like those of files. */
struct ts_model_memory {
    uint32_t order, rank;
    const uint64_t *n_rows; /* order of them */
    const double *weight;
    int (*get_rows)(void *from, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err);
    const uint64_t *(*index)(void *from, uint32_t mode); /* of each row, or NULL */
    void (*close)(void *from);
    void *from;
};

struct ts_model {
    char *path;              /* file or directory */
    struct ts_open_dir *dir; /* NULL: a file of its own, or memory */
    enum ts_model_kind kind;
    uint32_t order, rank;
    uint64_t n_rows[TS_MAX_ORDER];
    double *weight; /* rank of them */

    uint32_t mode; /* being read */
    uint64_t row;  /* next one */
    uint64_t line;
    uint64_t mode_line; /* of a ktensor: where the rows of `mode` begin, */
    long mode_at;       /* and their first byte; negative in a pipe */
    char *name;         /* of the open file */
    FILE *file;
    FILE *part[TS_MAX_ORDER];   /* of a directory with a file for each mode */
    int index_fd[TS_MAX_ORDER]; /* modeK.index; -1: there is none */
    uint32_t item_bytes;        /* of an .npy: 4 or 8 */
    uint32_t widest;            /* of those of the modes; 0: no .npy */
    struct ts_model_memory memory;
    struct ts_model_names *names; /* of the file `labels`; NULL: there is none */
};

int ts_model_open(const char *path, struct ts_model **ret, struct ts_err *err);

/* The same, and of a directory `first` is looked for before the others: .npy files hold float32 as
 * such. */
int ts_model_open_first(const char *path, enum ts_model_kind first, struct ts_model **ret,
                        struct ts_err *err);

/* A directory of a model in an open directory; NULL: this one, or the best of several in it. */
int ts_model_open_inside(const struct ts_open_dir *parent, const char *name, struct ts_model **ret,
                         struct ts_err *err);

/* The file NAME of an open directory, a ktensor: 1, 0 where there is none, or a negative
 * ts_code. */
int ts_model_open_file_in(const struct ts_open_dir *dir, const char *name, struct ts_model **ret,
                          struct ts_err *err);
void ts_model_close(struct ts_model *m); /* NULL is fine */

/* Opens the same model once more, to read it from the start. */
int ts_model_open_again(const struct ts_model *m, enum ts_model_kind first, struct ts_model **ret,
                        struct ts_err *err);

/* Tells files with other numbers: a hash of their sizes, beginnings and ends. 0: a pipe, or
 * memory. */
uint64_t ts_model_sign(const struct ts_model *m);

/* The same over memory, which must stay until `close`, that ts_model_close calls. */
int ts_model_open_memory(const struct ts_model_memory *in, struct ts_model **ret,
                         struct ts_err *err);

/* Whether all numbers are float32: those of .npy files may be. */
int ts_model_is_float32(const struct ts_model *m);

/* The next n rows of `mode`, n x rank. Modes are asked for in ascending order, rows in order; the
 * rest of a mode may be left unread. TS_EARG for others: a model that is to be read twice is opened
 * twice. */
int ts_model_rows(struct ts_model *m, uint32_t mode, uint64_t n, double *ret, struct ts_err *err);

/* Goes back to the first row of the mode whose rows were asked for last: 0, 1 where that cannot be,
 * in a pipe, or a failure. */
int ts_model_again(struct ts_model *m, struct ts_err *err);

/* The .npy of the mode whose rows were asked for last, in memory: item_bytes a number, from `at`
 * on. memory NULL: it is another kind of model, or lies badly. The file must stay as it is. */
struct ts_model_map {
    void *memory;
    size_t bytes, at;
};
int ts_model_map(const struct ts_model *m, struct ts_model_map *ret, struct ts_err *err);
void ts_model_unmap(struct ts_model_map *map); /* one of zeros is fine */

/* The index (from 0) of each row of `mode`, n_rows of them in ascending order, by the modeK.index
 * of a directory; *ret is to be freed, or NULL where there is no such file and nobody has said. */
int ts_model_index(const struct ts_model *m, uint32_t mode, uint64_t **ret, struct ts_err *err);

#endif
