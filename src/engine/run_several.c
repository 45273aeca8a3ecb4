/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes several models of a tensor, at the same time or one after another. */
#include "engine/run_several.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/stop.h"
#include "cpd/solver/solver_group.h"

/* ---- the directory of the models ---- */

int ts_run_several_open(struct ts_run_several *s, const char *out, int force,
                        const struct ts_models_run *from, const char *options, uint64_t bytes,
                        struct ts_err *err)
{
    int rc = ts_models_dir_open(out, force, from, 1, &s->dir, err);
    if (rc == 0)
        rc = ts_open_dir_at(ts_atomic_dir_fd(s->dir), ts_atomic_dir_partial(s->dir), &s->in, err);
    if (rc == 0)
        rc = ts_models_run_write(s->dir, options, bytes, s->tensor->hash, err);
    return rc;
}

int ts_run_several_has(const struct ts_run_several *s, uint32_t row)
{
    return s->dir != NULL &&
           faccessat(ts_atomic_dir_fd(s->dir), s->table->row[row].name, F_OK, 0) == 0;
}

int ts_run_several_take(struct ts_run_several *s, uint32_t row, struct ts_err *err)
{
    s->table->row[row].done = 1;
    return s->dir == NULL ? 0 : ts_models_table_read(s->table, row, s->in, err);
}

void ts_run_several_close(struct ts_run_several *s)
{
    ts_open_dir_close(s->in);
    s->in = NULL;
    ts_atomic_dir_close(s->dir);
    s->dir = NULL;
}

/* ---- the models that are computed at the same time ---- */

/* Chooses the rows of the table whose models are computed next, and sets their ranks. Returns their
 * number; 0: all are done. */
static uint32_t choose_rows(struct ts_run_several *s, uint32_t *ranks)
{
    uint32_t n = 0;
    for (uint32_t row = 0; row < s->table->n && n < TS_RUN_AT_ONCE; row++)
        if (!s->table->row[row].done &&
            (n == 0 || !s->holds_out || ts_models_table_same_cells(s->table, s->row[0], row))) {
            ranks[n] = s->table->row[row].rank;
            s->run[n] = NULL;
            s->row[n++] = row;
        }
    return n;
}

/* Opens an engine for n models of these ranks, unless the open one has the same ranks. */
static int open_engine(struct ts_run_several *s, const uint32_t *ranks, uint32_t n,
                       struct ts_err *err)
{
    int rc;
    s->is_new = s->room == 0;
    for (uint32_t k = 0; k < n && k < s->room; k++)
        s->is_new |= ranks[k] != s->open_ranks[k];
    if (!s->is_new)
        return 0;
    s->room = 0;
    rc = s->front.open(s->front.ctx, ranks, n, &s->room, err);
    if (rc == 0)
        memcpy(s->open_ranks, ranks, n * sizeof *ranks);
    return rc;
}

static int is_under_way(const struct ts_run_several *s, uint32_t k)
{
    return s->run[k] != NULL && ts_run_is_under_way(s->run[k]);
}

/* Makes the first unfinished model of those that are computed now the leading one, which
 * status.json describes. */
static void choose_lead(struct ts_run_several *s)
{
    uint32_t first = 0, n = 0;
    for (uint32_t k = s->n; k-- > 0;)
        if (is_under_way(s, k)) {
            first = k;
            n++;
        }
    if (n == 0)
        return;
    s->lead = first;
    s->front.lead(s->front.ctx, first, s->n > 1 ? n : 0);
}

/* Called by ts_solver_group_run: ends model k, whose sweeps are done. */
static int end_one(void *ctx, uint32_t k, struct ts_err *err)
{
    struct ts_run_several *s = ctx;
    const int rc = s->front.end(s->front.ctx, k, 0, err);
    if (rc == 0)
        choose_lead(s);
    return rc;
}

/* Ends all unfinished models because of the error rc. failed: the model that failed, or n if the
 * pass for all models did. */
static void end_all(struct ts_run_several *s, uint32_t failed, int rc, struct ts_err *err)
{
    struct ts_err why, own;
    int saved = 0;
    for (uint32_t k = 0; k < s->n; k++)
        saved |= s->run[k] != NULL && ts_run_has_saved(s->run[k]);
    if (failed < s->n && rc != TS_ESTOP)
        s->lead = failed;
    s->front.failing(s->front.ctx, rc, saved, err);
    why = *err;
    for (uint32_t k = 0; k < s->n; k++) {
        own = why;
        if (is_under_way(s, k))
            (void)s->front.end(s->front.ctx, k, rc, &own);
        if (s->tells_one && k == s->lead)
            *err = own;
    }
}

static int run_at_once(struct ts_run_several *s, struct ts_err *err)
{
    struct ts_solver *solver[TS_RUN_AT_ONCE];
    uint32_t failed = s->n;
    int rc = 0;
    for (uint32_t k = 0; k < s->n && rc == 0; k++) {
        rc = s->front.begin(s->front.ctx, k, &s->run[k], err);
        if (rc < 0)
            failed = k;
        else
            solver[k] = s->run[k]->solver;
    }
    choose_lead(s);
    if (rc == 0 && s->n > 1) {
        rc = ts_solver_group_run(solver, s->n, end_one, s, &failed, err);
    } else if (rc == 0) {
        failed = 0;
        rc = ts_run_alone(s->run[0], err);
        rc = rc == 0 ? end_one(s, 0, err) : rc;
    }
    if (rc < 0)
        end_all(s, failed, rc, err);
    for (uint32_t k = 0; k < s->n && s->front.close != NULL; k++)
        s->front.close(s->front.ctx, k);
    return rc;
}

int ts_run_several_all(struct ts_run_several *s, struct ts_err *err)
{
    uint32_t ranks[TS_RUN_AT_ONCE], n;
    int rc = 0;
    while (rc == 0 && (n = choose_rows(s, ranks)) > 0) {
        s->n = n;
        s->lead = 0;
        if (s->front.chosen != NULL)
            s->front.chosen(s->front.ctx);
        rc = ts_stop_check(s->stop, err);
        if (rc == 0)
            rc = open_engine(s, ranks, n, err);
        if (rc < 0)
            break;
        s->n = n < s->room ? n : s->room;
        rc = run_at_once(s, err);
    }
    return rc;
}
