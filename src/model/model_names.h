/* SPDX-License-Identifier: BSD-3-Clause */
/* model_names.h - what the modes and rows of a model are called, and which tensor it is of.
 *
 * Names come from a tensor that is open, from the file `labels` of a model (labels_file.h), or from
 * a program. Those of a tensor keep its files of labels open, not the tensor: it may be closed, and
 * its directory removed. Models of one tensor share them.
 *
 *   owner    whoever makes or keeps names drops them; the last one frees them
 *   units    modes and indices from 0
 *   threads  any: names do not change once they are made
 *   errors   0 or a negative ts_code
 */
#ifndef TS_MODEL_MODEL_NAMES_H
#define TS_MODEL_MODEL_NAMES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/open_dir.h"
#include "format/tensor.h"
#include "model/labels_file.h"

/* The tensor that a model is of. */
struct ts_model_tensor {
    int known;
    uint64_t nnz;      /* nonzeros, or cells of a dense one */
    uint64_t checksum; /* of its index; of a dense one that of shape and cells, or 0 */
    int has_sum;
    uint64_t cell[2];  /* sum of its cells (format/cell_sum.h) */
    uint32_t segments; /* directories that it is in */
};

struct ts_model_names_conf;

struct ts_model_names {
    uint32_t order, base;         /* base: first index of the input, 0 or 1 */
    int float32;                  /* of a file: the factors beside it are of float32 */
    char *name[TS_MAX_ORDER + 1]; /* of modes, then of values; NULL: none */
    uint64_t dim[TS_MAX_ORDER];
    uint64_t n_labels[TS_MAX_ORDER]; /* of a tensor: lines, of indices 0 to n_labels - 1 */
    struct ts_model_tensor tensor;

    /* its own: where labels are, one of these */
    struct ts_tensor *from;
    struct ts_labels_file *file;
    const struct ts_model_names_conf *given; /* while they are packed */
    _Atomic uint32_t users;
    struct ts_model_names *next; /* of another tensor */
};

/* Those of a tensor. Where its sums cannot be read, they are not known. */
int ts_model_names_of_tensor(const struct ts_tensor *t, struct ts_model_names **ret,
                             struct ts_err *err);

/* Those of the file in the directory of a model; *ret is NULL where there is none. */
int ts_model_names_read(const struct ts_open_dir *dir, struct ts_model_names **ret,
                        struct ts_err *err);

/* Those of a program. name: order + 1, and each may be NULL, as may label[m]: n_labels[m] strings,
 * of which those that are NULL are none. They are copied. */
struct ts_model_names_conf {
    uint32_t order, base;
    const uint64_t *dim;
    const char *const *name;
    const uint64_t *n_labels;
    const char *const *const *label; /* of indices 0 to n_labels[m] - 1, or: */
    const uint64_t *const *index;    /* NULL, or of these, ascending; index[m] may be NULL */
    struct ts_model_tensor tensor;
};
int ts_model_names_new(const struct ts_model_names_conf *conf, struct ts_model_names **ret,
                       struct ts_err *err);

struct ts_model_names *ts_model_names_keep(struct ts_model_names *n); /* NULL is fine */
void ts_model_names_drop(struct ts_model_names *n);                   /* NULL is fine */

/* Labels of n indices of a mode, ascending: ret[i] is malloc'ed, or NULL where there is none. */
int ts_model_names_labels(const struct ts_model_names *names, uint32_t mode, uint64_t n,
                          const uint64_t *index, char **ret, struct ts_err *err);

/* All labels of a mode, by index; *text is NULL at the end, else n bytes until the next call. */
struct ts_names_walk;
int ts_names_walk_open(const struct ts_model_names *names, uint32_t mode,
                       struct ts_names_walk **ret, struct ts_err *err);
int ts_names_walk_next(struct ts_names_walk *w, uint64_t *index, const char **text, size_t *n,
                       struct ts_err *err);
void ts_names_walk_close(struct ts_names_walk *w); /* NULL is fine */

#endif
