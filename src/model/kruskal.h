/* SPDX-License-Identifier: BSD-3-Clause */
/* kruskal.h - a decomposition in memory: weights and factor matrices.
 *
 * What cp computed comes in canonical form (model/canonical.h); what was read, or made of arrays,
 * stays as it was. Of a mode with empty slices the rows of used ones alone are held, with their
 * indices; rows of all other indices are zeros.
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
    uint64_t dim[TS_MAX_ORDER];    /* indices of a mode */
    uint64_t n_rows[TS_MAX_ORDER]; /* rows held */
    uint64_t *index[TS_MAX_ORDER]; /* of each row held, ascending; NULL: row i is index i */
    double *weight;
    void *factor[TS_MAX_ORDER];
    size_t bytes[TS_MAX_ORDER];            /* of each factor */
    struct ts_model_map map[TS_MAX_ORDER]; /* memory not NULL: the factor lies in this file */
    struct ts_model_names *names;          /* NULL: it has none */
};

/* A model of zeros, without indices. */
int ts_kruskal_new(uint32_t order, uint32_t rank, enum ts_precision precision, const uint64_t dim[],
                   const uint64_t n_rows[], struct ts_kruskal **ret, struct ts_err *err);
void ts_kruskal_free(struct ts_kruskal *k); /* NULL is fine */

/* The factors that a decomposition left, with weights and norms of its result, in canonical
 * form. */
int ts_kruskal_take(const struct ts_tensor *t, const struct ts_factors *f,
                    enum ts_precision precision, const double *weight, const double *norm,
                    const volatile sig_atomic_t *stop, struct ts_kruskal **ret, struct ts_err *err);

/* Takes what model_read.h reads. The model must be freshly opened, and is read to its end. The
 * result is float32 where all numbers are. Factors of 1 MiB and more in .npy files are mapped,
 * read-only: these files must stay as they are, under any name. */
int ts_kruskal_read(struct ts_model *m, const volatile sig_atomic_t *stop, struct ts_kruskal **ret,
                    struct ts_err *err);

/* Rows that are held, from `row` on, as float64: a ts_get_rows_fn of a struct ts_kruskal. */
int ts_kruskal_held(void *kruskal, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err);

/* n rows of indices from `first` on, zeros included. */
void ts_kruskal_rows(const struct ts_kruskal *k, uint32_t mode, uint64_t first, uint64_t n,
                     double *rows);

/* The first row held whose index is `index` or more; n_rows when there is none. */
uint64_t ts_kruskal_find(const struct ts_kruskal *k, uint32_t mode, uint64_t index);

/* A model that functions for models of files can read, once. The kruskal must stay until it is
 * closed. every: it has a row for each index; otherwise only for the rows held. */
int ts_kruskal_model(const struct ts_kruskal *k, int every, struct ts_model **ret,
                     struct ts_err *err);

/* Which files of a model are written, and how. */
struct ts_kruskal_files {
    unsigned formats;                /* sum of ts_model_format */
    int used_rows, no_labels, force; /* as in model_write.h */
    const char *history; /* the object of TS_MODEL_HISTORY (model_files.h); NULL: no such file */
    uint32_t threads;    /* 0: all */
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop */
};

/* Writes files like those of `tstream cp`. warn->code is not 0 when something failed after they
 * were in place. */
int ts_kruskal_write(const struct ts_kruskal *k, const char *dir,
                     const struct ts_kruskal_files *files, struct ts_err *warn, struct ts_err *err);

#endif
