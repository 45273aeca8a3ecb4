/* SPDX-License-Identifier: BSD-3-Clause */
/* method.h - what a run (solver.h) does with a mode, and what its sweeps are judged by: a table.
 *
 * The run (solver.c) goes from mode to mode and from sweep to sweep, stops, saves states and tells
 * the caller; it does not know what is computed. A method does, and is one entry here:
 *
 *   least squares   an MTTKRP and the rows' update by Gram matrices (least_squares.c); constraints
 *                   are its, too
 *   held out        the same where nonzeros are held out: a pass for the errors, too (held_out.c)
 *   observed        rows with Gram matrices of their own, and a pass for the errors (observed.c)
 *   poisson         rows are multiplied (apr.c)
 *   gcp             rows descend by the gradient of another loss (gcp_adam.c)
 *   lbfgsb          the same, all modes at once (lbfgsb.c)
 *
 * Of a mode, the run asks for `begin`, `request`, `rows` and `norm`, in this order; the pass
 * itself, of this run alone or of several that share it, comes after `request`. When all modes of a
 * sweep have been through, it asks for `judge`: it says what the fit is, or begins one more product
 * (ts_solver_begin_product) and returns TS_SOLVER_WANTED; after `request` and `rows` of that
 * product the run asks for `judged`, which may begin another one. So a method that takes one step
 * with all modes at once keeps what the passes gave in `rows`, takes the step in `judge`, and looks
 * in `judged` whether it was a good one. At last come `exact`, `tell`, `objective` and `settled`.
 *
 *   owner    `own` of the run: own_bytes, of zeros at first; the method owns what it points to
 *            until `end`
 *   threads  one calls
 *   errors   0, TS_SOLVER_WANTED where that is named, or a negative ts_code; after a failure only
 *            `end` comes
 */
#ifndef TS_CPD_METHOD_H
#define TS_CPD_METHOD_H

#include <stddef.h>

#include "cpd/spec/spec.h"
#include "stream/backend.h"

struct ts_solver;
struct ts_init_conf;
struct ts_state;

/* Memory of a method, beside the factors and what every run takes (ts_solver_bytes). */
struct ts_method_bytes {
    /* from the start of the run to its end; a copy of its state takes as much again */
    uint64_t kept;
    uint64_t work; /* while a mode is updated */
    uint64_t sums; /* after the last mode, of a backend in host memory */
};

struct ts_method {
    const char *name;
    size_t own_bytes;
    /* `judge` knows nothing without a pass: a fixed last mode takes no product before, and a state
     * has no errors */
    int fit_apart;

    /* the inner product with the tensor is known after each mode, where it is asked for */
    int sums_of_modes;

    int takes_weights; /* of cells; where it does not, a tensor that has them is refused */

    int holds_out; /* cells can be held out: the method computes the error there */

    int holds_out_asked; /* they can be where the specification says so, and only there */

    int judged_by_cells; /* by sums of cells, which may be 0 although the nonzeros are not */

    /* What it takes for a tensor and a model, whose specification asks for this method. NULL:
     * nothing. */
    struct ts_method_bytes (*bytes)(const struct ts_tensor *t, uint32_t rank,
                                    enum ts_precision precision, const struct ts_spec *spec);

    /* Whether `start` leaves random factors as they were drawn. NULL: it does. */
    int (*start_is_drawn)(const struct ts_init_conf *c);

    /* The sign of what values are on average (*mean: about that), or of its logarithm, if
     * constraints leave the model no such sign; else 0. NULL: 0. */
    int (*lost_sign)(const struct ts_tensor *t, const struct ts_spec *spec, double *mean);

    /* Whether the specification asks for it. The last entry is always asked for. */
    int (*is_asked)(const struct ts_spec *spec);

    /* Everything that can be refused is, but for what specifications refuse themselves. NULL:
     * nothing. */
    int (*check)(const struct ts_solver *a, struct ts_err *err);

    /* The start's factors are in the backend, and their Gram matrices in a->gram. NULL: they will
     * do. */
    int (*start)(struct ts_solver *a, struct ts_err *err);

    /* a->product is the mode, a->update.kind its update, which is not TS_ROW_KEEP: the rest of
     * a->update, and what else than Gram matrix and inner product is wanted in a->sums. NULL:
     * nothing is to be prepared. */
    int (*begin)(struct ts_solver *a, struct ts_err *err);

    /* What the pass over a->product is to compute, into *ret, which is zeros; what that points to
     * stays until `rows`. Sets a->solved where rows and sums are done with the pass. */
    int (*request)(struct ts_solver *a, struct ts_request *ret, struct ts_err *err);

    /* The pass is over: the rows of the product, and their Gram matrix. Not called when
     * a->solved. */
    int (*rows)(struct ts_solver *a, struct ts_err *err);

    /* The factor is new: its columns get their lengths, and a->lambda the rest. NULL: they have
     * them. */
    int (*norm)(struct ts_solver *a, struct ts_err *err);

    /* All modes have been through: a->now.fit, or TS_SOLVER_WANTED. When the run went on from a
     * state that was saved while a->pending was set, that is set here. `judged` is NULL where
     * nothing is ever wanted. */
    int (*judge)(struct ts_solver *a, struct ts_err *err);
    int (*judged)(struct ts_solver *a, struct ts_err *err);

    /* Nothing but rounding is left of what is minimised. NULL: nobody can tell. */
    int (*exact)(const struct ts_solver *a);

    /* What a->now says of the method's own numbers; those of others are NaN before. 0 where one of
     * them is not finite that should be. NULL: there are none. */
    int (*tell)(struct ts_solver *a);

    /* What is minimised, or NaN where that is the distance alone. */
    double (*objective)(const struct ts_solver *a);

    /* The run has converged: of a sweep after the first, whose fit changed so much. NULL: when that
     * is less than the tolerance. */
    int (*settled)(const struct ts_solver *a, double change);

    /* To and from a state, and the end. NULL: nothing. */
    void (*save)(const struct ts_solver *a, struct ts_state *s);
    int (*restore)(struct ts_solver *a, const struct ts_state *s, struct ts_err *err);
    void (*end)(struct ts_solver *a);
};

/* The table, in the order in which methods are asked whether a specification is theirs. The last
 * one takes any. A method is a file that defines ts_NAME, and NAME here. */
#define TS_METHODS(METHOD) \
    METHOD(gcp)            \
    METHOD(lbfgsb)         \
    METHOD(apr)            \
    METHOD(observed)       \
    METHOD(held_out)       \
    METHOD(least_squares)

#define TS_METHOD_DECLARE(name) extern const struct ts_method ts_##name;
TS_METHODS(TS_METHOD_DECLARE)

/* That of a specification, which may be NULL here and below. */
const struct ts_method *ts_method_of(const struct ts_spec *spec);

/* Its lost_sign. *mean is set if the result is not 0. */
int ts_method_lost_sign(const struct ts_tensor *t, const struct ts_spec *spec, double *mean);

/* What that method takes. */
struct ts_method_bytes ts_method_bytes_of(const struct ts_tensor *t, uint32_t rank,
                                          enum ts_precision precision, const struct ts_spec *spec);

#endif
