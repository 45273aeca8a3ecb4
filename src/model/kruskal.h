/* SPDX-License-Identifier: BSD-3-Clause */
/* kruskal.h - a decomposition in memory: weights and factor matrices.
 *
 * The result of a run is in canonical form (model/canonical.h). A model from a file or from arrays
 * is unchanged. For a mode with empty slices, only the rows of used slices are held, with their
 * indices; the rows of all other indices are zeros.
 *
 *   owner    the kruskal owns what it points to, until ts_kruskal_free
 *   units    rows of `rank` numbers, float32 or float64 by precision; modes and indices from 0
 *   threads  read-only once made: any thread
 *   errors   0 or a negative ts_code; on failure *ret is not touched
 */
#ifndef TS_MODEL_KRUSKAL_H
#define TS_MODEL_KRUSKAL_H

#include <signal.h>

#include "model/canonical.h"
#include "model/model_read.h"

struct ts_kruskal {
    uint32_t order, rank;
    enum ts_precision precision;
    uint64_t dim[TS_MAX_ORDER];    /* number of indices of each mode */
    uint64_t n_rows[TS_MAX_ORDER]; /* number of rows of the factor that are held */
    uint64_t *index[TS_MAX_ORDER]; /* index of each held row, ascending; NULL: row i is index i */
    double *weight;
    void *factor[TS_MAX_ORDER];
    size_t bytes[TS_MAX_ORDER]; /* bytes of the factor */
    /* if map[m].memory is not NULL, the factor of mode m is in this mapped file */
    struct ts_model_map map[TS_MAX_ORDER];
    struct ts_model_names *names; /* names and labels; NULL: there are none */
};

/* Makes a model of zeros, in which no mode has a list of indices. */
int ts_kruskal_new(uint32_t order, uint32_t rank, enum ts_precision precision, const uint64_t dim[],
                   const uint64_t n_rows[], struct ts_kruskal **ret, struct ts_err *err);
void ts_kruskal_free(struct ts_kruskal *k); /* NULL is fine */

/* Copies the factors f of a finished decomposition, with its weights and column norms, in canonical
 * form. */
int ts_kruskal_take(const struct ts_tensor *t, const struct ts_factors *f,
                    enum ts_precision precision, const double *weight, const double *norm,
                    const volatile sig_atomic_t *stop, struct ts_kruskal **ret, struct ts_err *err);

/* Reads a model opened by model_read.h to its end. It must be freshly opened. The result is float32
 * if all numbers are. Factors of 1 MiB and more in .npy files are mapped read-only: these files
 * must not change, but may be renamed. */
int ts_kruskal_read(struct ts_model *m, const volatile sig_atomic_t *stop, struct ts_kruskal **ret,
                    struct ts_err *err);

/* Copies n held rows from `row` on as float64: a ts_get_rows_fn for a struct ts_kruskal. */
int ts_kruskal_held(void *kruskal, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err);

/* Copies the rows of n indices from `first` on, zeros for rows that are not held. */
void ts_kruskal_rows(const struct ts_kruskal *k, uint32_t mode, uint64_t first, uint64_t n,
                     double *rows);

/* Returns the number of the first held row whose index is `index` or more, or n_rows if there is
 * none. */
uint64_t ts_kruskal_find(const struct ts_kruskal *k, uint32_t mode, uint64_t index);

/* Wraps the decomposition as a model that can be read once, like one from a file. The kruskal must
 * not be freed before the model is closed. every: the model has a row for each index; 0: for held
 * rows only. */
int ts_kruskal_model(const struct ts_kruskal *k, int every, struct ts_model **ret,
                     struct ts_err *err);

/* Which files of a decomposition are written, and how. */
struct ts_kruskal_files {
    unsigned formats;                /* sum of values of enum ts_model_format */
    int used_rows, no_labels, force; /* as in struct ts_model_conf of model_write.h */
    const char *history; /* JSON object for TS_MODEL_HISTORY (model_files.h); NULL: no such file */
    uint32_t threads;    /* threads that format text; 0: all CPUs */
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop */
};

/* Writes the decomposition as files like those of `tstream cp`. warn->code is not 0 if something
 * failed after the files were in place. */
int ts_kruskal_write(const struct ts_kruskal *k, const char *dir,
                     const struct ts_kruskal_files *files, struct ts_err *warn, struct ts_err *err);

#endif
