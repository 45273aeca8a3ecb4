/* SPDX-License-Identifier: BSD-3-Clause */
/* model_write.h - a decomposition as files: whole or not at all.
 *
 * Everything is written into DIR.partial, flushed to disk, and then renamed to DIR in one step
 * (base/files/atomic_out.h). An earlier decomposition in DIR is replaced if conf->force or
 * conf->resume says so. A DIR that holds anything else is refused before the work starts, and so is
 * a result for which the disk has no room. The next run clears what a killed run left in
 * DIR.partial, except its state (state.0, state.1), which only conf->force drops.
 *
 *   formats  ktensor: model.ktensor (Tensor Toolbox text); npy: modeK.npy and weights.npy (NumPy);
 *            splatt: modeK.mat and lambda.mat. K from 1
 *   columns  in canonical form (model/canonical.h), or as they are where that is wanted
 *   names    of modes and rows in the file `labels` (model/labels_file.h)
 *   rows     one per index of the mode, zeros for empty slices; or used ones alone, and then the
 *            text file modeK.index names the index (from 1) of each row
 *   numbers  as many digits as bring the same bits back; .npy holds float32 or float64 by precision
 *
 *   owner    the caller owns tensor and factors; memory is a few MiB for any size
 *   threads  one calls; text is formatted by conf->threads
 *   errors   0 or a negative ts_code
 */
#ifndef TS_MODEL_MODEL_WRITE_H
#define TS_MODEL_MODEL_WRITE_H

#include <signal.h>
#include <stdint.h>

#include "model/canonical.h"
#include "model/model_names.h"

enum ts_model_format { TS_WRITE_KTENSOR = 1, TS_WRITE_NPY = 2, TS_WRITE_SPLATT = 4 };

/* How many rows there are, and of which indices: those that a tensor names, or arrays. */
struct ts_model_shape {
    uint32_t order;
    uint64_t dim[TS_MAX_ORDER];
    uint64_t n_rows[TS_MAX_ORDER]; /* that have an entry: of used slices */
    const struct ts_tensor *tensor;
    /* without a tensor: n_rows ascending ones, or NULL: row i is index i */
    const uint64_t *index[TS_MAX_ORDER];
};
struct ts_model_shape ts_model_shape_of(const struct ts_tensor *t);

struct ts_model_conf {
    const char *dir;
    unsigned formats; /* sum of ts_model_format */
    int used_rows;    /* 1: rows of used slices alone */
    struct ts_model_shape shape;
    uint32_t rank, threads; /* threads 0: all */
    int force;  /* an existing result may be replaced, and the state of an unfinished run dropped */
    int resume; /* an existing result may be replaced; a state stays */
    enum ts_precision precision;
    /* The file `labels` (labels_file.h); NULL: none is written. no_labels: without labels of
     * rows. */
    const struct ts_model_names *names;
    int no_labels;
    /* NULL, or of each mode: what the start takes, which is written, too; read by ts_model_begin,
     * and what tells how long files are */
    const double *start_bytes;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop */
};

struct ts_model_out;

/* Bytes that the files take, at least; and TS_ELIMIT where `free_bytes` do not hold them, with a
 * sentence about the largest mode. Of conf, what says how long they are. */
double ts_model_bytes(const struct ts_model_conf *conf);
int ts_model_room(const struct ts_model_conf *conf, uint64_t free_bytes, struct ts_err *err);

/* "ktensor,npy,splatt" (any of them) as a sum of ts_model_format. */
int ts_model_formats(const char *list, unsigned *ret, struct ts_err *err);

/* Whether ts_model_begin would refuse conf->dir for what is there: asked before anything is
 * opened. Of conf what says where, and what may be replaced. Changes nothing that is a result or
 * a state. */
int ts_model_place(const struct ts_model_conf *conf, struct ts_err *err);

/* Checks what can be checked before the work, and creates DIR.partial. */
int ts_model_begin(const struct ts_model_conf *conf, struct ts_model_out **ret, struct ts_err *err);

/* Writes factors, whose columns have the norms of `norm` (order x rank), as columns of norm 1
 * with `rank` weights, and gives them the name DIR; norm NULL: as they are. warn->code is not 0
 * when something failed after that, or of a note about labels. */
int ts_model_write(struct ts_model_out *out, ts_get_rows_fn *get_rows, void *from,
                   const double *weight, const double *norm, struct ts_err *warn,
                   struct ts_err *err);

/* The path of the directory that is written; it stays until the end. */
const char *ts_model_partial(const struct ts_model_out *out);

/* A small file beside the factors, `bytes` at data, by a name that belongs to a decomposition;
 * before ts_model_write, which puts it in place with them. */
int ts_model_add(struct ts_model_out *out, const char *name, const void *data, size_t bytes,
                 struct ts_err *err);

#define TS_MODEL_START "init.ktensor"

/* The start that the model was computed from, as it is, in all digits of float64: TS_MODEL_START
 * beside the factors; before ts_model_write. weight NULL: all 1. */
int ts_model_add_start(struct ts_model_out *out, const struct ts_factors *start,
                       const double *weight, struct ts_err *err);

/* The directory of the run's files until then: open, and its path. */
int ts_model_dir(const struct ts_model_out *out, const char **path);

/* Removes what was not finished, except a state from which a later run can go on. NULL is fine. */
void ts_model_end(struct ts_model_out *out);

#endif
