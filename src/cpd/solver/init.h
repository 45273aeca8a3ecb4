/* SPDX-License-Identifier: BSD-3-Clause */
/* init.h - fills and saves the factor matrices from which a decomposition starts.
 *
 * Random entries are functions of seed, mode, index in the input and column (base/rng.h), so they
 * depend neither on threads nor on how the tensor was built. Backends store rows of used slices
 * alone. The initial Gram matrices count every index of a mode, like programs that store whole
 * matrices: rows of empty slices are drawn, counted and discarded. Modes of more than
 * TS_INIT_GRAM_ROWS indices that have empty slices are an exception, because drawing would take
 * minutes: there only rows of used slices count. This changes the scaling of the first sweep, not
 * what it converges to.
 *
 * Negative entries of a given model become 0 in nonnegative modes, and weights count by magnitude.
 * In a fixed mode only rows of used slices count, as the backend stores them, because the fit is
 * that of this matrix. If some mode is fixed, another mode whose size the model does not have
 * starts from random entries: the tensor has other slices there.
 *
 *   owner    the caller owns gram: rank x rank, row-major
 *   threads  one thread calls; conf->threads threads share the rows, in pieces that do not
 *            depend on the number of threads
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_INIT_H
#define TS_CPD_INIT_H

#include <signal.h>

#include "model/model_read.h"
#include "cpd/spec/spec.h"
#include "stream/backend.h"

struct ts_model_out;

#define TS_INIT_GRAM_ROWS (UINT64_C(1) << 28)

struct ts_init_conf {
    const struct ts_tensor *tensor;
    const struct ts_backend *backend;
    void *be;
    uint32_t rank, threads; /* threads: 0 for all CPUs */
    uint64_t seed;
    /* NULL: random starting factors; otherwise a freshly opened model that ts_init_check accepts */
    struct ts_model *model;
    int nvecs; /* 1 with model NULL: start from the leading left singular vectors (nvecs.h) */
    int held;  /* for ts_init_save: 1 if starting factors were computed, and are in the backend */
    const struct ts_spec *spec;        /* NULL: least squares of all cells */
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
    /* a stop flag of this rank (process) alone, for work after which all ranks agree on an error;
     * or NULL */
    const volatile sig_atomic_t *own_stop;
};

/* Returns TS_EARG if the starting factors cannot be used. A model must have the tensor's order, the
 * rank, and in each mode as many rows as the mode has indices or used indices. If some mode is
 * fixed, its rows matter in fixed modes alone. nvecs cannot be combined with a loss of losses.def.
 * Reads only tensor, rank, model, nvecs and spec of conf. */
int ts_init_check(const struct ts_init_conf *conf, struct ts_err *err);

/* Returns the most bytes that ts_init_mode allocates while it runs. */
uint64_t ts_init_bytes(const struct ts_tensor *t, uint32_t rank);

/* Returns the number of rows in the random starting factor of a mode: one for each index, or for
 * each used slice if only used slices count. */
uint64_t ts_init_rows(const struct ts_tensor *t, uint32_t mode);

/* Writes the starting factors, as float64, to init.ktensor beside the result. Rows are those of
 * ts_init_rows or of the given model. A run that starts from this file has the bits of this run. If
 * `held` is set, rows come from the backend, and empty slices get zeros. Otherwise the backend is
 * not used. */
int ts_init_save(const struct ts_init_conf *conf, struct ts_model_out *out, struct ts_err *err);

/* Whether starting factors are known only after a computation: they are singular vectors, or random
 * numbers that a loss has scaled. */
int ts_init_is_computed(const struct ts_init_conf *conf);

/* Returns the fewest bytes that a mode can take in the file of ts_init_save. */
double ts_init_save_bytes(const struct ts_init_conf *conf, uint32_t mode);

/* Sets *gram to the Gram matrix of the rows in the backend. Its bits are the same if a run reads
 * these rows from a file. chunk: memory for `most` rows. */
int ts_init_gram(const struct ts_init_conf *conf, uint32_t mode, double *chunk, uint64_t most,
                 double *gram, struct ts_err *err);

/* Fills the backend's factor of `mode` with its starting values, unless nvecs is set. Sets *gram
 * (may be NULL) to its Gram matrix. With a model, calls must be in ascending order of the modes,
 * because the rows of a model can be read only once. */
int ts_init_mode(const struct ts_init_conf *conf, uint32_t mode, double *gram, struct ts_err *err);

#endif
