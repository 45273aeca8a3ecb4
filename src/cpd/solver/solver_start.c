/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the factors and weights from which the first sweep starts. */
#include <math.h>

#include "base/setting.h"
#include "cpd/solver/solver_struct.h"
#include "cpd/solver/nvecs.h"

/* Returns the mode to be solved before the first sweep, or the order for none. Starts are positive.
 * If the first mode that is solved must be nonnegative, it would become 0 where the tensor is
 * negative, and those zeros would stay. So the last mode that may take negative entries is solved
 * before it. */
static uint32_t sign_mode(const struct ts_solver *a)
{
    uint32_t first = 0, ret = a->order;
    /* methods that descend by a loss choose signs when they scale the starting factors */
    if (ts_solver_kind(a, 0) == TS_ROW_DESCEND)
        return ret;
    while (first < a->order && ts_solver_kind(a, first) == TS_ROW_KEEP)
        first++;
    if (first == a->order || !ts_spec_positive(a->spec, first))
        return a->order;
    for (uint32_t m = 0; m < a->order; m++)
        if (!ts_spec_positive(a->spec, m) && !a->spec->mode[m].fixed)
            ret = m;
    return ret;
}

/* Returns the first mode whose columns may have any length, or the order if there is none. */
static uint32_t free_mode(const struct ts_solver *a)
{
    uint32_t m = 0;
    while (m < a->order && (a->spec->mode[m].fixed || ts_constraint_rigid(&a->spec->mode[m])))
        m++;
    return m;
}

/* Multiplies the weights of the starting factors into the factor of a mode. The weights matter if
 * an update reads old rows. Modes whose column lengths must stay are avoided. */
static int start_weights(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    uint32_t to = a->order;
    for (uint32_t m = 0; m < a->order; m++)
        if (ts_constraint_rigid(&a->spec->mode[m]))
            to = free_mode(a);
    to = ts_solver_kind(a, 0) == TS_ROW_DESCEND ? 0 : to;
    for (uint32_t r = 0; r < a->rank && a->constrained; r++) {
        a->scale[r] = c->model == NULL ? 1 : fabs(c->model->weight[r]);
        a->lambda[r] = to < a->order ? 1 : a->scale[r];
    }
    if (to == a->order || c->model == NULL)
        return 0;
    ts_solver_scale_both(a, a->gram + to * a->square);
    return c->backend->scale(c->be, to, a->scale, err);
}

/* Refuses given starting factors whose model would stay 0. Negative entries become 0 in nonnegative
 * modes; the model is 0 if each component is then 0 in one of these modes. */
static int check_given(const struct ts_solver *a, uint32_t first, struct ts_err *err)
{
    uint32_t n_zero = 0, mode = a->order;
    if (a->conf->init.model == NULL || !a->constrained)
        return 0;
    for (uint32_t r = 0; r < a->rank; r++) {
        uint32_t m = first;
        while (m < a->order && (a->spec->mode[m].fixed || !ts_spec_positive(a->spec, m) ||
                                a->gram[m * a->square + (size_t)r * a->rank + r] > 0))
            m++;
        n_zero += m < a->order;
        mode = m < a->order ? m : mode;
    }
    if (n_zero < a->rank)
        return 0;
    return ts_fail(
        err, TS_EARG,
        "%s: every component is zero to begin with, as " TS_NTH_MODE
        " must be nonnegative and has no positive entries: change the signs of its columns",
        a->conf->init.model->path, mode + 1);
}

/* Returns how many components of given starting factors have weight 0, or are zero in a mode whose
 * starting factor is read. */
static uint32_t count_dead(const struct ts_solver *a, uint32_t first)
{
    const struct ts_model *given = a->conf->init.model;
    uint32_t n = 0;
    for (uint32_t r = 0; r < a->rank && given != NULL; r++) {
        uint32_t m = first;
        while (m < a->order && a->gram[m * a->square + (size_t)r * a->rank + r] > 0)
            m++;
        n += m < a->order || given->weight[r] == 0;
    }
    return n;
}

int ts_solver_start(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint32_t sign = sign_mode(a);
    /* no MTTKRP reads the starting factor of the first mode, because this mode is solved first */
    const int unused = sign == a->order && ts_solver_kind(a, 0) != TS_ROW_KEEP;
    /* the row update of the first mode does not read this starting factor either */
    const int unseen = unused && !ts_row_reads_old(ts_solver_kind(a, 0));
    const struct ts_nvecs_conf nvecs = {
        .init = c,
        .feed = a->conf->feed,
        .first = !unseen || a->conf->whole_start,
        .gram = a->gram,
        .scratch = a->v, /* 2 rank^2 numbers: w follows v in memory */
    };
    int rc = c->nvecs ? ts_nvecs_start(&nvecs, err) : 0;
    for (uint32_t m = 0; m < a->order && !c->nvecs && rc == 0; m++)
        rc = ts_init_mode(c, m, m == 0 && unseen ? NULL : a->gram + m * a->square, err);
    rc = rc == 0 ? check_given(a, unseen, err) : rc;
    if (rc == 0)
        a->n_dead_start = count_dead(a, unseen);
    if (rc == 0 && a->conf->started != NULL && c->nvecs)
        rc = a->conf->started(a->conf->ctx, err);
    if (rc == 0)
        rc = start_weights(a, err);
    if (rc == 0 && a->method->start != NULL)
        rc = a->method->start(a, err);
    /* random starting factors are complete only now: the method may have scaled them */
    if (rc == 0 && a->conf->started != NULL && !c->nvecs)
        rc = a->conf->started(a->conf->ctx, err);
    a->at = TS_SOLVER_SIGN;
    return rc == 0 && sign < a->order
               ? ts_solver_begin_product(a, sign, ts_solver_kind(a, sign), err)
               : rc;
}
