/* SPDX-License-Identifier: BSD-3-Clause */
/* init.h - the factor matrices that a decomposition starts from.
 *
 * Random entries are functions of seed, mode, index in the input and column (base/rng.h), so they
 * depend neither on threads nor on how the tensor was built. Backends hold rows of used slices
 * alone, but the initial Gram matrices count every index of a mode, as programs that keep whole
 * matrices do: rows of empty slices are drawn for them and forgotten. Only in modes of more than
 * TS_INIT_GRAM_ROWS indices that have empty slices, where drawing would take minutes, are the rows
 * of used slices counted alone; this changes the first sweep's scaling, not what it converges to.
 * Where a mode is to be nonnegative, entries of a model that are not start as 0. Of its weights
 * magnitudes count. Of a fixed mode rows of used slices alone count, as the backend holds them: the
 * fit is that of this matrix. Where some mode is fixed, another one of a size that the model does
 * not have starts from random entries: the tensor has other slices of it.
 *
 *   owner    the caller owns gram: rank x rank, row-major
 *   threads  one calls; work is spread over conf->threads, in pieces that do not depend on it
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
    uint32_t rank, threads; /* threads 0: all */
    uint64_t seed;
    /* NULL: a random start; otherwise a freshly opened model that ts_init_check accepts */
    struct ts_model *model;
    int nvecs; /* 1 with model NULL: the start has the leading left singular vectors (nvecs.h) */
    int held;  /* for ts_init_save: 1 if the start was computed, and the backend has its factors */
    const struct ts_spec *spec;        /* NULL: least squares of all cells */
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
    /* a stop flag of this rank alone, for work after which the ranks agree; or NULL */
    const volatile sig_atomic_t *own_stop;
};

/* TS_EARG if the start cannot be used. A model must have the tensor's order, the rank, and in each
 * mode as many rows as the mode has indices or used indices; if some mode is fixed, this holds for
 * fixed modes alone. nvecs cannot be combined with a loss of losses.def. Reads tensor,
 * rank, model, nvecs and spec alone. */
int ts_init_check(const struct ts_init_conf *conf, struct ts_err *err);

/* The most bytes that ts_init_mode allocates while it runs. */
uint64_t ts_init_bytes(const struct ts_tensor *t, uint32_t rank);

/* Rows of the random start of a mode: one for each index, or for each used slice in modes where
 * used slices alone are counted. */
uint64_t ts_init_rows(const struct ts_tensor *t, uint32_t mode);

/* Writes the start, as float64, to init.ktensor beside the result. Rows are those of ts_init_rows
 * or of the given model. A run that starts from this file has the bits of this run. If `held` is
 * set, rows come from the backend, and empty slices get zeros. Otherwise the backend is not
 * used. */
int ts_init_save(const struct ts_init_conf *conf, struct ts_model_out *out, struct ts_err *err);

/* Whether the start is known only after a computation: it consists of singular vectors, or of
 * random numbers that a loss has scaled. */
int ts_init_is_computed(const struct ts_init_conf *conf);

/* The least bytes that a mode takes in this file. */
double ts_init_save_bytes(const struct ts_init_conf *conf, uint32_t mode);

/* Sets *gram to the Gram matrix of the rows in the backend. It has the bits of a start that is read
 * from a file with these rows. chunk: memory for `most` rows. */
int ts_init_gram(const struct ts_init_conf *conf, uint32_t mode, double *chunk, uint64_t most,
                 double *gram, struct ts_err *err);

/* Fills factor[mode] of the backend, except for a start by nvecs. Sets *gram (may be NULL) to its
 * Gram matrix. With a model, modes must be passed in ascending order. */
int ts_init_mode(const struct ts_init_conf *conf, uint32_t mode, double *gram, struct ts_err *err);

#endif
