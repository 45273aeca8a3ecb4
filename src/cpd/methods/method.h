/* SPDX-License-Identifier: BSD-3-Clause */
/* method.h - the table of methods. A method computes each mode and, after a sweep, its fit.
 *
 * The run (solver.c) goes from mode to mode and from sweep to sweep, stops, saves states and
 * informs the caller. What is computed for a mode is up to the method, which is one entry of this
 * table:
 *
 *   least squares   an MTTKRP, then rows by Gram matrices, with all constraints (least_squares.c)
 *   held out        least squares with held-out nonzeros: another pass computes errors (held_out.c)
 *   observed        each row is solved with a Gram matrix of its own; another pass computes errors
 *                   (observed.c)
 *   poisson         rows are multiplied (apr.c)
 *   gcp             rows descend by the gradient of a loss of losses.def (gcp_adam.c)
 *   lbfgsb          all factors descend at once, by the gradient of a loss of losses.def (lbfgsb.c)
 *
 * For each mode, the run calls `begin`, `request`, `rows` and `norm`, in this order. The pass comes
 * after `request`: it serves this run alone, or several runs together. After the last mode of a
 * sweep, the run calls `judge`. This computes the fit, or begins one more product
 * (ts_solver_begin_product) and returns TS_SOLVER_WANTED. After `request` and `rows` of that
 * product the run calls `judged`, which may begin another product. If a method takes one step with
 * all modes at once, `rows` keeps the results of the passes. `judge` takes the step, and `judged`
 * tests whether it was a good one. Then the run calls `exact`, `tell`, `objective` and `settled`.
 *
 *   owner    `own` of struct ts_solver is a struct of own_bytes, all zero at first. The method owns
 *            what the members of this struct point to, until `end`
 *   threads  one thread calls
 *   errors   0, TS_SOLVER_WANTED where that is named, or a negative ts_code; after a failure only
 *            `end` is called
 */
#ifndef TS_CPD_METHOD_H
#define TS_CPD_METHOD_H

#include <stddef.h>

#include "cpd/spec/spec.h"
#include "stream/backend.h"

struct ts_solver;
struct ts_init_conf;
struct ts_state;

/* The memory of a method, in bytes. Factors, and what every run takes (ts_solver_bytes), are not
 * included. */
struct ts_method_bytes {
    /* held from the start of the run to its end; a copy of the state takes the same amount again */
    uint64_t kept;
    uint64_t work; /* held while a mode is updated */
    uint64_t sums; /* held after the last mode, if the backend computes in host memory */
};

struct ts_method {
    const char *name;
    size_t own_bytes;
    /* 1: `judge` computes the fit in a pass of its own. So a fixed last mode needs no product, and
     * a state does not contain the errors at cells */
    int fit_apart;

    /* 1: on request, the inner product of model and tensor is computed after each mode */
    int sums_of_modes;

    /* 1: the method supports weights of cells. 0: tensors with weights are refused */
    int takes_weights;

    int holds_out; /* 1: the method supports held-out cells: it computes the error at them */

    int holds_out_asked; /* 1: cells are held out only if the specification asks for it */

    /* 1: the fit uses the sum of the nonzeros of each cell, which may be 0 although they are not */
    int judged_by_cells;

    /* Returns the memory for a tensor and a rank. spec: a specification that asks for this method.
     * NULL: the method takes none. */
    struct ts_method_bytes (*bytes)(const struct ts_tensor *t, uint32_t rank,
                                    enum ts_precision precision, const struct ts_spec *spec);

    /* Whether `start` leaves random factors as they were drawn. NULL: yes. */
    int (*start_is_drawn)(const struct ts_init_conf *c);

    /* Returns the sign of the average value, or of its logarithm, if the constraints exclude models
     * of this sign, and sets *mean to about that average. Otherwise returns 0. NULL: always 0. */
    int (*lost_sign)(const struct ts_tensor *t, const struct ts_spec *spec, double *mean);

    /* Whether the specification asks for this method. For the last entry the answer is always
     * yes. */
    int (*is_asked)(const struct ts_spec *spec);

    /* Refuses a run that this method cannot compute. Settings that exclude each other were refused
     * before. NULL: it refuses nothing. */
    int (*check)(const struct ts_solver *a, struct ts_err *err);

    /* Called when the backend has the starting factors, and a->gram their Gram matrices. The method
     * may change both. NULL: they stay as they are. */
    int (*start)(struct ts_solver *a, struct ts_err *err);

    /* Prepares the update of mode a->product. a->update.kind is set, and is not TS_ROW_KEEP. The
     * method sets the other members of a->update, and requests further sums in a->sums besides the
     * Gram matrix and the inner product. NULL: nothing is to be prepared. */
    int (*begin)(struct ts_solver *a, struct ts_err *err);

    /* Fills *ret, which is all zero, with the request for the pass over a->product. What *ret
     * points to stays valid until `rows`. Sets a->solved if the pass also makes the rows and their
     * sums. */
    int (*request)(struct ts_solver *a, struct ts_request *ret, struct ts_err *err);

    /* Called after the pass: computes the rows of the mode from the product, and their Gram matrix.
     * Not called if a->solved. */
    int (*rows)(struct ts_solver *a, struct ts_err *err);

    /* Called when a factor is computed: scales its columns, and stores the divisors in a->lambda.
     * NULL: columns are not scaled. */
    int (*norm)(struct ts_solver *a, struct ts_err *err);

    /* Called after the last mode: sets a->now.fit, or returns TS_SOLVER_WANTED. a->pending is 1 on
     * entry if the run was resumed from a state that had it set. `judged` is NULL if the method
     * never returns TS_SOLVER_WANTED. */
    int (*judge)(struct ts_solver *a, struct ts_err *err);
    int (*judged)(struct ts_solver *a, struct ts_err *err);

    /* Whether the residual consists of rounding errors alone, so that the run can end. NULL: the
     * method cannot tell. */
    int (*exact)(const struct ts_solver *a);

    /* Sets the reported figures of this method in a->now, where all figures of methods are NaN
     * before. Returns 0 if one of them should be finite and is not. NULL: the method has none. */
    int (*tell)(struct ts_solver *a);

    /* Returns the objective, or NaN if it consists of the residual alone, without penalties. */
    double (*objective)(const struct ts_solver *a);

    /* Whether the run has converged after a sweep that changed the fit by `change`. It is not
     * called after the first sweep. NULL: it has, if the change is less than the tolerance. */
    int (*settled)(const struct ts_solver *a, double change);

    /* Write the method's data to a state, read it from one, and free it. NULL: the method has no
     * such data. */
    void (*save)(const struct ts_solver *a, struct ts_state *s);
    int (*restore)(struct ts_solver *a, const struct ts_state *s, struct ts_err *err);
    void (*end)(struct ts_solver *a);
};

/* The table: a specification belongs to the first method whose is_asked accepts it, and the last
 * one accepts any. METHOD(NAME): a file defines the struct ts_NAME. */
#define TS_METHODS(METHOD) \
    METHOD(gcp)            \
    METHOD(lbfgsb)         \
    METHOD(apr)            \
    METHOD(observed)       \
    METHOD(held_out)       \
    METHOD(least_squares)

#define TS_METHOD_DECLARE(name) extern const struct ts_method ts_##name;
TS_METHODS(TS_METHOD_DECLARE)

/* Returns the method of a specification, which may be NULL here and below. */
const struct ts_method *ts_method_of(const struct ts_spec *spec);

/* Returns what lost_sign (struct ts_method) of the specification's method returns. *mean is set if
 * that is not 0. */
int ts_method_lost_sign(const struct ts_tensor *t, const struct ts_spec *spec, double *mean);

/* Calls `bytes` of the method that the specification asks for. */
struct ts_method_bytes ts_method_bytes_of(const struct ts_tensor *t, uint32_t rank,
                                          enum ts_precision precision, const struct ts_spec *spec);

#endif
