/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes alternating least squares with held-out nonzeros. The backend's MTTKRPs leave these
 * nonzeros out, so they count as zeros, like unlisted cells. A pass after the last mode computes
 * the errors at held-out cells and at the other cells, from factors that include the weights. So
 * columns keep their lengths between modes.
 *
 *   bits     sums are made by partition and added in the order of the file: they do not depend on
 *            threads
 */
#include <math.h>

#include "cpd/solver/solver_struct.h"

struct held_out {
    /* errors after the last mode, at fitted and at held-out cells */
    struct ts_cell_errors kept, held;
    struct ts_error_sums sums; /* sums of the pass that computes `kept` and `held` */
};

static struct ts_method_bytes bytes(const struct ts_tensor *t, uint32_t rank,
                                    enum ts_precision precision, const struct ts_spec *spec)
{
    struct ts_method_bytes ret = ts_least_squares.bytes(t, rank, precision, spec);
    ret.sums = ts_fit_sums_bytes(t);
    return ret;
}

static int check(const struct ts_solver *a, struct ts_err *err)
{
    return a->conf->init.tensor->dense == NULL
               ? 0
               : ts_fail(
                     err, TS_EARG,
                     "%s: held-out cells of a dense tensor are unknown to a model, not zeros: take observed cells",
                     a->conf->init.tensor->path);
}

static int begin(struct ts_solver *a, struct ts_err *err)
{
    return ts_least_squares.begin(a, err);
}

static int request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err)
{
    struct held_out *own = a->own;
    if (a->at != TS_SOLVER_AGAIN)
        return ts_least_squares.request(a, ret, err);
    ts_solver_request_errors(a, 0, &own->sums, ret);
    return 0;
}

static int rows(struct ts_solver *a, struct ts_err *err)
{
    struct held_out *own = a->own;
    if (a->at != TS_SOLVER_AGAIN)
        return ts_least_squares.rows(a, err);
    own->kept = own->sums.kept;
    own->held = own->sums.held;
    return 0;
}

static int judged(struct ts_solver *a, struct ts_err *err)
{
    const struct held_out *own = a->own;
    int rc;
    a->pending = 0;
    a->inner = own->kept.inner;
    rc = ts_solver_fit_of_kept(a, own->kept.squares, &a->now.fit, err);
    return rc == 0 ? ts_solver_fit_check(a, err) : rc;
}

static int tell(struct ts_solver *a)
{
    const struct held_out *own = a->own;
    a->kept = own->kept.n;
    a->n_held = own->held.n;
    if (own->held.n > 0)
        a->now.held_out = sqrt(own->held.left / own->held.n);
    return 1;
}

static int is_asked(const struct ts_spec *spec)
{
    return spec->held && !spec->poisson;
}

const struct ts_method ts_held_out = {
    .name = "held out",
    .own_bytes = sizeof(struct held_out),
    .judged_by_cells = 1,
    .bytes = bytes,
    .fit_apart = 1,
    .holds_out = 1,
    .is_asked = is_asked,
    .check = check,
    .begin = begin,
    .request = request,
    .rows = rows,
    .norm = ts_solver_norm,
    .judge = ts_solver_pass_again,
    .judged = judged,
    .tell = tell,
    .objective = ts_solver_fit_objective,
};
