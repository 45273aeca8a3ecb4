/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the settings of a run against each other, against the tensor, and against the session in
 * which it runs. */
#include <math.h>

#include "api/api_run.h"
#include "base/setting.h"
#include "cpd/solver/accelerate.h"
#include "cpd/spec/run_values.h"

#define SWEEPS 50u
#define INNER  10u

static int check_needs(const ts_cp_conf *c, struct ts_err *err)
{
    const struct ts_run_needs needs = {
        .by_count = c->l2_by_count,
        .mean = c->mean,
        .patience = c->patience > 0,
        .observed = c->observed,
        .hold_out = c->hold_out != 0,
        .least_squares = c->loss == TS_LOSS_LEAST_SQUARES,
        .by_count_is = "l2_by_count",
        .mean_is = "mean",
        .patience_is = "patience",
        .observed_is = "observed",
        .hold_out_is = "hold_out",
    };
    return ts_run_needs_check(&needs, err);
}

int ts_api_run_conf(const ts_cp_conf *given, const struct ts_tensor *t, ts_cp_conf *c,
                    struct ts_err *err)
{
    double from;
    int rc = TS_API_CONF(c, given, err);
    if (rc < 0)
        return rc;
    if ((t->dense != NULL && c->hold_out > 0 && c->loss == TS_LOSS_LEAST_SQUARES) ||
        ts_takes_observed(t, c->loss))
        c->observed = 1; /* held-out cells are unknown, like NaN cells */
    from = c->hold_out_from;
    rc = TS_API_REFUSE(
        err, { !(c->tol >= 0), "the tolerance must not be negative" },
        { !(c->hold_out >= 0 && c->hold_out < 1),
          "what is held out is a share from 0 to less than 1" },
        { !(from >= 0 && from < 1) || (from > 0 && c->hold_out == 0),
          "where the share that is held out begins is 0 to less than 1" },
        { from > 0 && c->out != NULL, "models of folds are not kept on disk: leave out away" },
        { c->save_init && c->out == NULL,
          "save_init writes the start beside the result: give out, too" },
        { !(c->max_seconds >= 0) || isnan(c->checkpoint_seconds),
          "the time that a run may take must not be negative" },
        { c->formats > (TS_FILE_KTENSOR | TS_FILE_NPY | TS_FILE_SPLATT),
          "formats of files are ktensor, npy and splatt" },
        { c->resume < TS_RESUME_NEVER || c->resume > TS_RESUME_IF_ANY,
          "a run goes on never, always, or if there is a state" },
        { c->resume != TS_RESUME_NEVER && c->out == NULL,
          "a run goes on from the state of a directory: none is named" });
    if (rc == 0)
        rc = check_needs(c, err);
    if (rc == 0)
        rc = ts_api_check_loss(c->loss, c->optimizer, err);
    if (rc < 0)
        return rc;
    if (c->sweeps == 0)
        c->sweeps = SWEEPS;
    if (c->inner == 0)
        c->inner = INNER;
    if (c->formats == 0)
        c->formats = TS_FILE_KTENSOR;
    return 0;
}

int ts_api_run_spec(const ts_cp_conf *conf, const struct ts_tensor *t, struct ts_spec *ret,
                    struct ts_err *err)
{
    /* the rows of base/settings.def use the name `run` for the settings */
    const ts_cp_conf *run = conf;
    const int rc = TS_API_REFUSE(
        err,
        { conf->nvecs && conf->start != NULL,
          "a run starts from factors that are given or from nvecs, not from both" },
        { conf->nvecs && conf->fix != 0,
          "fix keeps factors of a start that is given, and with nvecs there is none" },
        { (conf->lower == NULL) != (conf->upper == NULL),
          "lower and upper bounds are given together, or neither" });
    if (rc < 0)
        return rc;
    ts_spec_defaults(ret);
#define SET(member, ...) __VA_OPT__(ret->member = __VA_ARGS__;)
#define SETTING(...)
#define SETTING_OF_METHOD(member, option, letter, kind, def, arg, section, resume, keyword, field, \
                          value, help)                                                             \
    SET(member, value)
#include "base/settings.def"
#undef SET
    ret->poisson = conf->loss == TS_LOSS_POISSON;
    ret->loss = ts_api_gcp(conf->loss);
    ret->loss_at = ts_loss_takes_number(ret->loss) ? conf->loss_at : 0;
    ret->lbfgsb = conf->optimizer == TS_OPTIMIZER_LBFGSB;
    ret->held = conf->hold_out > 0 && !conf->observed && conf->loss <= TS_LOSS_POISSON;
    ret->best = conf->patience > 0;
    ret->by_count = conf->observed && conf->l2_by_count;
    for (uint32_t m = 0; m < t->order; m++) {
        struct ts_constraint *to = &ret->mode[m];
        to->nonneg = (conf->nonneg >> m & 1) != 0;
        to->fixed = (conf->fix >> m & 1) != 0;
        to->simplex = (conf->simplex >> m & 1) != 0;
        to->orthogonal = (conf->orthogonal >> m & 1) != 0;
        to->l1 = conf->l1 == NULL ? 0 : conf->l1[m];
        to->l2 = conf->l2 == NULL ? 0 : conf->l2[m];
        to->smooth = conf->smooth == NULL ? 0 : conf->smooth[m];
        to->bounded =
            conf->lower != NULL && !(conf->lower[m] == -INFINITY && conf->upper[m] == INFINITY);
        to->lower = to->bounded ? conf->lower[m] : 0;
        to->upper = to->bounded ? conf->upper[m] : 0;
    }
    if ((conf->nonneg | conf->fix | conf->simplex | conf->orthogonal) >> t->order != 0)
        return ts_fail(err, TS_EARG, "%s: a mode beyond the last one is to be %s", t->path,
                       conf->nonneg >> t->order != 0    ? "nonnegative"
                       : conf->fix >> t->order != 0     ? "fixed"
                       : conf->simplex >> t->order != 0 ? "on the simplex"
                                                        : "orthogonal");
    return ts_spec_check(ret, t->order, err);
}

/* Checks that the session was opened with what the run needs, such as its loss and its
 * optimizer. */
int ts_api_run_allowed(struct ts_api_run *c, struct ts_err *err)
{
    const struct ts_engine *e = c->session->engine;
    const struct ts_tensor *t = e->tensor;
    const ts_session_conf *session = &c->session->conf;
    const ts_cp_conf *conf = &c->conf;
    const int by_squares = conf->loss == TS_LOSS_LEAST_SQUARES;
    uint32_t smooth = 0;
    int rc = ts_api_run_spec(conf, t, &c->spec, err);
    if (rc == 0)
        rc = TS_API_REFUSE(
            err,
            { !by_squares && conf->loss != session->loss,
              "a run with a loss takes a session that was opened with the same loss" },
            { conf->optimizer != TS_OPTIMIZER_ADAM && conf->optimizer != session->optimizer,
              "a run by L-BFGS-B takes a session that was opened with this optimizer" });
    if (rc == 0 && ts_backend_check(e->backend, ts_spec_updates(&c->spec, t->order), err) < 0)
        rc = TS_EARG;
    if (rc < 0)
        return rc;
    for (uint32_t m = 0; m < t->order; m++)
        smooth |= (uint32_t)(c->spec.mode[m].smooth > 0) << m;
    rc = TS_API_REFUSE(
        err,
        { by_squares && (ts_spec_own(&c->spec, t->order) & ~session->own_rows) != 0,
          "a run with nonneg, l1, simplex, bounds or fix of the last mode takes a session that "
          "was opened with the bits of these modes in own_rows" },
        { (smooth & ~session->smooth) != 0,
          "a run with smooth takes a session that was opened with the bits of these modes in smooth" },
        { conf->observed && !session->observed,
          t->dense != NULL && conf->hold_out > 0
              ? "a run with observed, as with hold_out of a dense tensor, takes a session that was "
                "opened with observed"
              : "a run with observed takes a session that was opened with observed" },
        { c->spec.held && by_squares && e->n_devices > 0 && !session->hold_out,
          "a run with hold_out takes on GPUs a session that was opened with hold_out" },
        { conf->patience > 0 && !session->patience,
          "a run with patience takes a session that was opened with patience" },
        { conf->accelerate && !session->accelerate,
          "a run with accelerate takes a session that was opened with accelerate" });
    return rc == 0 && conf->accelerate ? ts_accelerate_check(&c->spec, t->order, err) : rc;
}
