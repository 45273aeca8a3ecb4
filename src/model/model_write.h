/* SPDX-License-Identifier: BSD-3-Clause */
/* model_write.h - writes a decomposition as files, completely or not at all.
 *
 * Everything is written into DIR.partial, flushed to disk, and then renamed to DIR in one step
 * (base/files/atomic_out.h). An earlier decomposition in DIR is replaced if conf->force or
 * conf->resume says so. A DIR that holds anything else is refused before the work starts, and so is
 * a result for which the disk has no room. The next run removes what a killed run left in
 * DIR.partial, except its states (state.0, state.1), which only conf->force removes.
 *
 *   formats  ktensor: model.ktensor (Tensor Toolbox text); npy: modeK.npy and weights.npy (NumPy);
 *            splatt: modeK.mat and lambda.mat. K from 1
 *   columns  in canonical form (model/canonical.h), or unchanged on request
 *   names    of modes and rows in the file `labels` (model/labels_file.h)
 *   rows     one for each index of the mode, zeros for empty slices; or used ones alone, and then
 *            the text file modeK.index has the index (from 1) of each row
 *   numbers  as many digits as reproduce the bits; .npy holds float32 or float64 by precision
 *
 *   owner    the caller owns tensor and factors; memory is a few MiB for any size
 *   threads  one thread calls; conf->threads threads format text
 *   errors   0 or a negative ts_code
 */
#ifndef TS_MODEL_MODEL_WRITE_H
#define TS_MODEL_MODEL_WRITE_H

#include <signal.h>
#include <stdint.h>

#include "model/canonical.h"
#include "model/model_names.h"

enum ts_model_format { TS_WRITE_KTENSOR = 1, TS_WRITE_NPY = 2, TS_WRITE_SPLATT = 4 };

/* The number of rows of each mode of a model, and their indices, from a tensor or from arrays. */
struct ts_model_shape {
    uint32_t order;
    uint64_t dim[TS_MAX_ORDER];
    uint64_t n_rows[TS_MAX_ORDER]; /* number of rows that have entries: those of used slices */
    const struct ts_tensor *tensor;
    /* without a tensor, for each mode: n_rows ascending indices; NULL: row i is index i */
    const uint64_t *index[TS_MAX_ORDER];
};
struct ts_model_shape ts_model_shape_of(const struct ts_tensor *t);

struct ts_model_conf {
    const char *dir;
    unsigned formats; /* sum of values of enum ts_model_format */
    int used_rows;    /* 1: only rows of used slices are written */
    struct ts_model_shape shape;
    uint32_t rank, threads; /* threads that format text; 0: all CPUs */
    /* 1: an existing result may be replaced, and the state of an unfinished run removed */
    int force;
    /* 1: an existing result may be replaced, but the state of an unfinished run stays */
    int resume;
    enum ts_precision precision;
    /* Names and labels for the file `labels` (labels_file.h); NULL: the file is not written.
     * no_labels: it has no labels of rows. */
    const struct ts_model_names *names;
    int no_labels;
    /* By mode: bytes of the starting factors, if they are written too; otherwise NULL.
     * ts_model_begin and the functions that estimate sizes read it. */
    const double *start_bytes;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop */
};

struct ts_model_out;

/* ts_model_bytes: the fewest bytes that the files take. ts_model_room: TS_ELIMIT if this is more
 * than free_bytes; the message names the largest mode. Both read only those members of conf that
 * determine sizes. */
double ts_model_bytes(const struct ts_model_conf *conf);
int ts_model_room(const struct ts_model_conf *conf, uint64_t free_bytes, struct ts_err *err);

/* Parses a list like "ktensor,npy,splatt" to a sum of ts_model_format. */
int ts_model_formats(const char *list, unsigned *ret, struct ts_err *err);

/* Whether ts_model_begin would refuse conf->dir because of the files in it. To be called before the
 * work starts. Reads only those members of conf that name the directory and say what may be
 * replaced. Does not change results or states. */
int ts_model_place(const struct ts_model_conf *conf, struct ts_err *err);

/* Checks conf, the directory conf->dir and the disk space before the work starts, and creates
 * DIR.partial. */
int ts_model_begin(const struct ts_model_conf *conf, struct ts_model_out **ret, struct ts_err *err);

/* Writes factors, and gives them the name DIR. norm: order x rank column norms, by which columns
 * are divided; `weight` has `rank` weights for columns of norm 1. norm NULL: columns stay as they
 * are. warn->code is not 0 if something failed after DIR had its name, or for a note about
 * labels. */
int ts_model_write(struct ts_model_out *out, ts_get_rows_fn *get_rows, void *from,
                   const double *weight, const double *norm, struct ts_err *warn,
                   struct ts_err *err);

/* Returns the path of the directory that is being written, DIR.partial; valid until
 * ts_model_end. */
const char *ts_model_partial(const struct ts_model_out *out);

/* Adds a small file of `bytes` bytes. Its name must be one that belongs to a decomposition. To be
 * called before ts_model_write, which puts all files in place. */
int ts_model_add(struct ts_model_out *out, const char *name, const void *data, size_t bytes,
                 struct ts_err *err);

#define TS_MODEL_START "init.ktensor"

/* Adds a file with the starting factors from which the model was computed, unchanged, with all
 * digits of float64: TS_MODEL_START in the same directory. To be called before ts_model_write.
 * weight NULL: all weights are 1. */
int ts_model_add_start(struct ts_model_out *out, const struct ts_factors *start,
                       const double *weight, struct ts_err *err);

/* The directory to which the run writes until the result is in place: returns its descriptor, and
 * sets *path. */
int ts_model_dir(const struct ts_model_out *out, const char **path);

/* Removes unfinished files, except a state from which a later run can be resumed. out may be
 * NULL. */
void ts_model_end(struct ts_model_out *out);

#endif
