/* SPDX-License-Identifier: BSD-3-Clause */
/* labels_pack.h - writes the file `labels` of a model (labels_file.h), front to back.
 *
 * Labels are taken one after another and packed in chunks, so memory does not grow with them.
 *
 *   owner    the caller owns all that the conf points to
 *   threads  one
 *   errors   0 or a negative ts_code. Labels that cannot be read are left out, and *warn says so: a
 *            model is not lost because of them
 */
#ifndef TS_MODEL_LABELS_PACK_H
#define TS_MODEL_LABELS_PACK_H

#include <signal.h>
#include <stdio.h>

#include "model/model_names.h"

/* The next of the ascending indices that have a row: 1, 0 at the end, or a negative ts_code. */
typedef int ts_labels_row_fn(void *from, uint64_t *index, struct ts_err *err);

struct ts_labels_pack_conf {
    const struct ts_model_names *names;
    int leave_out; /* no labels of rows */
    int float32;   /* the factors are */
    /* Rows that are written; open NULL: all. It begins a mode: *from is NULL where all are. */
    int (*open)(void *ctx, uint32_t mode, void **from, struct ts_err *err);
    ts_labels_row_fn *row;
    void (*close)(void *from);
    void *ctx;
    const volatile sig_atomic_t *stop; /* may be NULL */
};

/* Writes to a file that is empty and can seek; `path` is for sentences. *bytes: its size. */
int ts_labels_pack(const struct ts_labels_pack_conf *conf, FILE *to, const char *path,
                   uint64_t *bytes, struct ts_err *warn, struct ts_err *err);

#endif
