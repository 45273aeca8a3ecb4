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
    struct ts_model *model; /* NULL: random; else freshly opened, as ts_init_check wants it */
    int nvecs;              /* leading left singular vectors (nvecs.h), with model NULL: 0 or 1 */
    int held; /* of ts_init_save: the backend has the start, which was computed: 0 or 1 */
    const struct ts_spec *spec;        /* NULL: least squares of all cells */
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
    /* the same of this rank alone, for work whose end ranks agree on; or NULL */
    const volatile sig_atomic_t *own_stop;
};

/* TS_EARG unless the model has the tensor's order, the rank, and for each mode as many rows as the
 * mode has indices, or used indices; if some mode is fixed, for each fixed one. And for nvecs with
 * a loss of its own. Uses tensor, rank, model, nvecs and spec. */
int ts_init_check(const struct ts_init_conf *conf, struct ts_err *err);

/* Most memory that ts_init_mode takes while it runs. */
uint64_t ts_init_bytes(const struct ts_tensor *t, uint32_t rank);

/* Rows of the random start of a mode: one per index, or of used slices alone where those are
 * counted alone. */
uint64_t ts_init_rows(const struct ts_tensor *t, uint32_t mode);

/* Writes the start, as float64, beside the factors that are going to be written: init.ktensor,
 * whose rows are those of ts_init_rows, or of the model. The run that starts from that file has the
 * bits of this one. Where it is `held`, rows are those that the backend has, with zeros for empty
 * slices; else the conf's backend is not used. */
int ts_init_save(const struct ts_init_conf *conf, struct ts_model_out *out, struct ts_err *err);

/* Whether the start is known once it was computed: singular vectors, or random numbers that a loss
 * has scaled. */
int ts_init_is_computed(const struct ts_init_conf *conf);

/* What a mode takes of that file, at least. */
double ts_init_save_bytes(const struct ts_init_conf *conf, uint32_t mode);

/* *gram := that of the rows that the backend holds, in the bits of a start that is read from a file
 * which has them. chunk: memory for `most` rows. */
int ts_init_gram(const struct ts_init_conf *conf, uint32_t mode, double *chunk, uint64_t most,
                 double *gram, struct ts_err *err);

/* Without nvecs. Fills factor[mode] of the backend. *gram (NULL: not wanted) := its Gram matrix.
 * With a model, modes are asked for in ascending order. */
int ts_init_mode(const struct ts_init_conf *conf, uint32_t mode, double *gram, struct ts_err *err);

#endif
