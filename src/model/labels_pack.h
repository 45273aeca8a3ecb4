/* SPDX-License-Identifier: BSD-3-Clause */
/* labels_pack.h - writes the file `labels` of a model (labels_file.h), front to back.
 *
 * Labels are read one after another and packed in chunks, so memory does not grow with their
 * number.
 *
 *   owner    the caller owns all that the conf points to
 *   threads  one
 *   errors   0 or a negative ts_code. Labels that cannot be read are left out, and *warn has the
 *            reason: the model is written without them
 */
#ifndef TS_MODEL_LABELS_PACK_H
#define TS_MODEL_LABELS_PACK_H

#include <signal.h>
#include <stdio.h>

#include "model/model_names.h"

/* Sets *index to the next index that has a row, in ascending order, and returns 1. Returns 0 at the
 * end, or a negative ts_code. */
typedef int ts_labels_row_fn(void *from, uint64_t *index, struct ts_err *err);

struct ts_labels_pack_conf {
    const struct ts_model_names *names;
    int leave_out; /* 1: labels of rows are not written */
    int float32;   /* 1: the factors are float32 */
    /* Which rows of the model are written; open NULL: all. `open` begins a mode, and sets *from to
     * NULL if the mode has a row for each index. */
    int (*open)(void *ctx, uint32_t mode, void **from, struct ts_err *err);
    ts_labels_row_fn *row;
    void (*close)(void *from);
    void *ctx;
    const volatile sig_atomic_t *stop; /* not 0 when the user wants to stop; or NULL */
};

/* Writes the labels to an empty file, in which the stream can seek. path: name of the file for
 * messages. *bytes := size of the file. */
int ts_labels_pack(const struct ts_labels_pack_conf *conf, FILE *to, const char *path,
                   uint64_t *bytes, struct ts_err *warn, struct ts_err *err);

#endif
