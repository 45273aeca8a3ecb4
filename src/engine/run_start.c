/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the starting factors that a run writes with its result. */
#include "engine/run_start.h"

/* Opens the starting factors that the caller gave. Returns a value of enum ts_resume_start, or a
 * negative ts_code. */
static int open_given(const struct ts_run_start_conf *c, struct ts_model **ret, struct ts_err *err)
{
    const int rc = c->given.open(c->given.ctx, c->from, ret, err);
    return rc > 0 ? TS_START_GIVEN : rc == 0 ? TS_START_LOST : rc;
}

int ts_run_start_find(const struct ts_run_start_conf *c, struct ts_init_conf *ret, int *saves,
                      struct ts_err *err)
{
    int rc = c->given.is_given ? TS_START_GIVEN : TS_START_KNOWN;
    *ret = c->init;
    ret->nvecs = c->init.nvecs && c->from == NULL;
    *saves = 0;
    /* starting factors that are saved in this directory stay there, and this run must start from
     * them */
    if (!c->save && !(c->from != NULL && c->stays))
        return 0;
    if (c->from != NULL)
        rc = ts_resume_start(c->from, c->stays, ret, err);
    if (!c->save)
        return rc < 0 ? rc : 0;
    if (rc == TS_START_GIVEN)
        rc = open_given(c, &ret->model, err);
    if (rc == TS_START_LOST)
        return c->given.lost != NULL ? c->given.lost(c->given.ctx, err) : err->code;
    *saves = rc == TS_START_GIVEN || rc == TS_START_KNOWN;
    return rc < 0 ? rc : 0;
}
