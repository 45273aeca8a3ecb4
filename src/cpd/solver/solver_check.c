/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that a run is possible: before it begins, and when the held-out cells are known. */
#include <float.h>
#include <math.h>

#include "base/setting.h"
#include "cpd/solver/accelerate.h"
#include "cpd/solver/solver_struct.h"
#include "cpd/rows/row_maker.h"
#include "format/tensor_kind.h"

/* If squares of values underflow, the norm is 0 or has few digits, and the fit is meaningless. If
 * values are below the range of float32, factors become zeros. */
static int check_values(const struct ts_solver_conf *conf, struct ts_err *err)
{
    const struct ts_disk_header *h = &conf->init.tensor->header;
    const double norm = ts_tensor_listed_norm(conf->init.tensor);
    const int squares_vanish = norm * norm < DBL_MIN;
    const int values_vanish = conf->precision == TS_FLOAT32 && ts_solver_largest_value(h) < FLT_MIN;
    if (h->nnz == 0 || (!squares_vanish && !values_vanish))
        return 0;
    if (ts_solver_largest_value(h) == 0)
        return ts_fail(err, TS_EARG, "all values are 0, so there is nothing to decompose");
    return ts_fail(err, TS_ELIMIT,
                   "the values (up to %g) are too small to be computed with: scale them up so that "
                   "the largest is near 1%s",
                   ts_solver_largest_value(h),
                   squares_vanish ? "" : ", or take " TS_SET_PRECISION " float64");
}

/* Refuses a tensor whose cells are all 0, if the method computes its fit from the sum of the
 * nonzeros of each cell. These nonzeros may cancel. */
static int check_sums(const struct ts_solver *a, struct ts_err *err)
{
    const struct ts_tensor *t = a->conf->init.tensor;
    if (!a->method->judged_by_cells || !t->cells_summed ||
        t->header.norm > 8 * DBL_EPSILON * t->listed_norm)
        return 0;
    return ts_fail(err, TS_EARG,
                   "%s: the nonzeros of each cell add up to 0, so there is nothing to decompose",
                   t->path);
}

int ts_solver_check_cells(const struct ts_solver *a, struct ts_err *err)
{
    const struct ts_tensor *t = a->conf->init.tensor;
    const char *cell = t->dense != NULL                      ? "known cell"
                       : t->header.flags & TS_TENSOR_WEIGHTS ? "nonzero with a weight above 0"
                                                             : "nonzero";
    if (a->conf->hold_out.share == 0 && a->kept_sum == 0)
        return a->kept > 0
                   ? ts_fail(err, TS_EARG, "%s: every %s is 0, so there is nothing to decompose",
                             t->path, cell)
                   : ts_fail(err, TS_EARG,
                             "%s: all weights are 0, so there is nothing to learn from", t->path);
    if (a->conf->hold_out.share == 0 || (a->kept > 0 && a->n_held > 0))
        return 0;
    return a->kept > 0
               ? ts_fail(err, TS_EARG,
                         "%s: no %s is held out, so there is no error to tell: hold out a larger "
                         "share (fewer folds), or take another seed",
                         t->path, cell)
               : ts_fail(err, TS_EARG,
                         "%s: every %s is held out, so there is nothing to learn from: hold out a "
                         "smaller share, or take another seed",
                         t->path, cell);
}

static int holds_out_cells(const struct ts_solver *a)
{
    return a->method->holds_out || (a->method->holds_out_asked && a->spec->held);
}

/* Returns the capabilities (stream/capability.h) that the backend must have, one bit each. */
static uint32_t needs_of(const struct ts_solver *a)
{
    return ts_spec_updates(a->spec, a->order) | (a->spec->mean ? TS_CAN(MEANS) : 0) |
           (ts_tensor_weighted(a->conf->init.tensor) ? TS_CAN(WEIGHTS) : 0);
}

/* Checks that the constraints make sense, and that the backend supports them. */
static int take_constraints(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint32_t own = ts_spec_own(c->spec, a->order);
    int rc;
    a->constrained = ts_spec_any(c->spec, a->order);
    a->spec = ts_spec_of(c->spec); /* constraints only, without settings of a method */
    if (a->constrained) {
        a->penalty = ts_spec_penalty(a->spec, a->order);
        a->balanced = ts_spec_lengths(a->spec, a->order);
    }
    rc = ts_spec_check(a->spec, a->order, err);
    if (rc == 0)
        rc = ts_backend_check(c->backend, needs_of(a), err);
    if (rc == 0)
        rc = ts_row_makers_check(c->tensor, a->rank, a->spec, err);
    a->method = ts_method_of(a->spec);
    if (rc == 0 && !holds_out_cells(a) && (a->conf->hold_out.share > 0 || a->conf->patience > 0))
        rc = ts_fail(err, TS_EARG, "cells are held out of models whose constraints say so");
    if (rc == 0 && !a->method->takes_weights)
        rc = ts_tensor_is_unweighted(c->tensor,
                                     a->spec->observed ? "another loss than least squares"
                                                       : "a run without " TS_SET_OBSERVED,
                                     err);
    /* clears held-out cells of an earlier run, which would also affect the MTTKRPs for starting
     * factors */
    if (rc == 0 && ts_backend_can(c->backend, TS_CAN_HELD_OUT))
        c->backend->hold_out(c->be, &a->conf->hold_out);
    return rc == 0 ? c->backend->own_rows(c->be, own, err) : rc;
}

int ts_solver_check(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_solver_conf *conf = a->conf;
    int rc = ts_init_check(&conf->init, err);
    if (rc == 0)
        rc = check_values(conf, err);
    if (rc == 0)
        rc = take_constraints(a, err);
    if (rc == 0)
        rc = check_sums(a, err);
    if (rc == 0 && a->method->check != NULL)
        rc = a->method->check(a, err);
    if (rc == 0 && !a->spec->best != (conf->patience == 0))
        rc = ts_fail(err, TS_EARG, "patience keeps the best factors, and nothing else does");
    if (rc == 0 && conf->accelerate)
        rc = ts_accelerate_check(a->spec, a->order, err);
    if (rc == 0 && conf->from != NULL)
        rc = ts_solver_check_from(conf, err);
    if (rc == 0 && a->rank == TS_MAX_RANK && a->spec->mean)
        rc = ts_fail(err, TS_EARG, "the mean is a component of its own: the rank must be 1 to %u",
                     TS_MAX_RANK - 1);
    if (rc == 0 && (a->rank == 0 || a->rank > TS_MAX_RANK || conf->iters == 0))
        rc = ts_fail(err, TS_EARG, "rank must be 1 to %u and there must be at least one sweep",
                     TS_MAX_RANK);
    return rc;
}
