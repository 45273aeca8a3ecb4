/* model_write.h - a decomposition as files: whole or not at all.
 *
 * Everything is written into DIR.partial, flushed to the disk, and then takes the name DIR in one
 * step. A DIR that holds an earlier decomposition is replaced; one that holds anything else is
 * refused before the work starts, and so is a result that the disk has no room for. What a killed
 * run left in DIR.partial the next one clears.
 *
 *   formats  ktensor: model.ktensor (Tensor Toolbox text); npy: modeK.npy and weights.npy (NumPy);
 *            splatt: modeK.mat and lambda.mat. K from 1
 *   columns  2-normed, sorted by weight, largest first. Of each column the entry of largest
 *            magnitude (the first of equals) is made positive where signs can be moved in pairs, as
 *            in Tensor Toolbox's fixsigns; of an odd number the last mode keeps its sign
 *   rows     one per index of the mode, zeros for empty slices; or used ones alone, and then the
 *            text file modeK.index names the index (from 1) of each row
 *   numbers  as many digits as bring the same bits back; .npy holds float32 or float64 by precision
 *
 *   owner    the caller owns tensor and backend; memory is a few MiB for any size
 *   threads  one calls; text is formatted by conf->threads
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_MODEL_WRITE_H
#define TS_CPD_MODEL_WRITE_H

#include <signal.h>
#include <stdint.h>

#include "stream/backend.h"

enum ts_model_format { TS_WRITE_KTENSOR = 1, TS_WRITE_NPY = 2, TS_WRITE_SPLATT = 4 };

struct ts_model_conf {
    const char *dir;
    unsigned formats; /* sum of ts_model_format */
    int used_rows;    /* 1: rows of used slices alone */
    const struct ts_tensor *tensor;
    const struct ts_backend *backend;
    uint32_t rank, threads; /* threads 0: all */
    enum ts_precision precision;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop */
};

struct ts_model_out;

/* "ktensor,npy,splatt" (any of them) as a sum of ts_model_format. */
int ts_model_formats(const char *list, unsigned *ret, struct ts_err *err);

/* Checks what can be checked before the work, and creates DIR.partial. */
int ts_model_begin(const struct ts_model_conf *conf, struct ts_model_out **ret, struct ts_err *err);

/* Writes the factors of `be` with `rank` weights (one per column of unit norm) and gives them the
 * name DIR. */
int ts_model_write(struct ts_model_out *out, void *be, const double *weight, struct ts_err *err);

/* Removes what was not finished. NULL is fine. */
void ts_model_end(struct ts_model_out *out);

#endif
