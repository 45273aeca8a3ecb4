/* SPDX-License-Identifier: BSD-3-Clause */
/* model_names.h - the names of a model's modes, the labels of its rows, and the identity of its
 * tensor.
 *
 * Names come from an open tensor, from the file `labels` of a model (labels_file.h), or from a
 * library caller. Names from a tensor keep its label files open, but not the tensor, which may be
 * closed, and its directory removed. Models of the same tensor share them.
 *
 *   owner    each user keeps names, and drops them after use; the last drop frees them
 *   units    modes and indices from 0
 *   threads  any: names do not change once they are made
 *   errors   0 or a negative ts_code
 */
#ifndef TS_MODEL_MODEL_NAMES_H
#define TS_MODEL_MODEL_NAMES_H

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/open_dir.h"
#include "format/tensor.h"
#include "model/labels_file.h"

/* The identity of the tensor that a model was computed from. */
struct ts_model_tensor {
    int known;
    uint64_t nnz; /* number of nonzeros, or of cells of a dense tensor */
    /* checksum of the tensor's index; for a dense tensor that of shape and cells, or 0 */
    uint64_t checksum;
    int has_sum;
    uint64_t cell[2];  /* sum of the tensor's cells (format/cell_sum.h) */
    uint32_t segments; /* number of directories that the tensor consists of */
};

struct ts_model_names_conf;

struct ts_model_names {
    uint32_t order, base; /* base: number of the first index in the input, 0 or 1 */
    int float32;          /* 1: the factors in the directory of the labels file are float32 */
    char *name[TS_MAX_ORDER + 1]; /* names of modes, then of values; NULL: no name */
    uint64_t dim[TS_MAX_ORDER];
    /* for names from a tensor: number of lines of its label file, the labels of indices 0 to
     * n_labels - 1 */
    uint64_t n_labels[TS_MAX_ORDER];
    struct ts_model_tensor tensor;

    /* labels are read from one of these, which the names own; the others are NULL */
    struct ts_tensor *from;
    struct ts_labels_file *file;
    /* set while the labels of a library caller are being packed */
    const struct ts_model_names_conf *given;
    _Atomic uint32_t users;
    struct ts_model_names *next; /* the next names in the list of those that come from tensors */
};

/* Makes names from a tensor. If the sum of its cells cannot be read, has_sum is 0. */
int ts_model_names_of_tensor(const struct ts_tensor *t, struct ts_model_names **ret,
                             struct ts_err *err);

/* Reads names from the labels file in a model's directory. *ret is NULL if there is none. */
int ts_model_names_read(const struct ts_open_dir *dir, struct ts_model_names **ret,
                        struct ts_err *err);

/* Names from a library caller. name: order + 1 names (of the modes, then of the values), each of
 * which may be NULL, as may label[m]. label[m]: n_labels[m] strings, which may be NULL. All are
 * copied. */
struct ts_model_names_conf {
    uint32_t order, base;
    const uint64_t *dim;
    const char *const *name;
    const uint64_t *n_labels;
    const char *const *const *label; /* labels of indices 0 to n_labels[m] - 1, or of `index` */
    /* the index of each label, ascending; index or index[m] NULL: 0, 1, 2, ... */
    const uint64_t *const *index;
    struct ts_model_tensor tensor;
};
int ts_model_names_new(const struct ts_model_names_conf *conf, struct ts_model_names **ret,
                       struct ts_err *err);

struct ts_model_names *ts_model_names_keep(struct ts_model_names *n); /* NULL is fine */
void ts_model_names_drop(struct ts_model_names *n);                   /* NULL is fine */

/* Sets ret[i] to the label of index[i], malloc'ed, or NULL if it has none. The n indices must be
 * ascending. */
int ts_model_names_labels(const struct ts_model_names *names, uint32_t mode, uint64_t n,
                          const uint64_t *index, char **ret, struct ts_err *err);

/* Walks all labels of a mode, in ascending order of index. *text is NULL at the end. Otherwise it
 * has n bytes, valid until the next call. */
struct ts_names_walk;
int ts_names_walk_open(const struct ts_model_names *names, uint32_t mode,
                       struct ts_names_walk **ret, struct ts_err *err);
int ts_names_walk_next(struct ts_names_walk *w, uint64_t *index, const char **text, size_t *n,
                       struct ts_err *err);
void ts_names_walk_close(struct ts_names_walk *w); /* NULL is fine */

/* Fails with TS_EARG if an index has one label in a model and another one in a tensor, as the rows
 * of the model then belong to other names. Modes whose bit in `modes` is 0, and labels that only
 * the model or only the tensor has, are left out. Reads no labels if the model was computed from
 * this tensor: the checksums are equal. path: the model, in messages. own: its names, NULL is
 * fine. */
int ts_model_names_check(const char *path, const struct ts_model_names *own,
                         const struct ts_tensor *t, uint32_t modes,
                         const volatile sig_atomic_t *stop, struct ts_err *err);

#endif
