/* SPDX-License-Identifier: BSD-3-Clause */
/* Saves the state of a run between two modes, and resumes the run from it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/setting.h"
#include "base/stop.h"
#include "cpd/solver/accelerate.h"
#include "cpd/solver/best.h"
#include "cpd/solver/solver_struct.h"

/* bytes of float64 rows that are copied at a time to the backend */
#define RESTORE_BYTES (UINT64_C(1) << 20)

void ts_solver_state_count_read(struct ts_solver *a)
{
    struct ts_feed_stats stats;
    ts_feed_stats(a->conf->feed, &stats);
    a->now.bytes_read += stats.bytes_read;
}

/* Returns the state of the run at the beginning of `mode` of `sweep`. */
struct ts_state ts_solver_state_at(struct ts_solver *a, uint32_t sweep, uint32_t mode,
                                   unsigned flags)
{
    struct ts_state s = { .sweep = sweep,
                          .mode = mode,
                          .gram = a->gram,
                          .lambda = a->lambda,
                          .flags = flags | (a->wide ? TS_STATE_WIDE : 0u) |
                                   (a->exact ? TS_STATE_EXACT : 0u) |
                                   (a->pending ? TS_STATE_FIT : 0u) };
    memcpy(s.size, a->size, sizeof s.size);
    if (a->method->save != NULL)
        a->method->save(a, &s);
    if (a->conf->patience > 0) {
        memcpy(&s.part[TS_PART_HELD_BEST], &a->held_best, sizeof a->held_best);
        s.part[TS_PART_HELD_SINCE] = a->held_since;
    }
    if (a->accelerate != NULL)
        ts_accelerate_tell(a->accelerate, &s);
    if (a->best != NULL)
        ts_best_save(a->best, &s);
    if (mode == 0) /* at the beginning of a sweep there are no figures of finished modes yet */
        return s;
    ts_solver_state_count_read(a);
    s.part[TS_PART_TOTAL_NS] = ts_clock_ns() - a->start_ns;
    s.part[TS_PART_WAIT_NS] = a->now.wait_ns;
    s.part[TS_PART_COPY_NS] = a->now.copy_ns;
    s.part[TS_PART_KERNEL_NS] = a->now.kernel_ns;
    s.part[TS_PART_SOLVE_NS] = a->now.solve_ns;
    s.part[TS_PART_EXPOSED_NS] = a->now.exposed_ns;
    s.part[TS_PART_SLOWEST_NS] = a->slowest_ns;
    s.part[TS_PART_BYTES_READ] = a->now.bytes_read;
    s.part[TS_PART_N_SINGULAR] = a->now.n_singular;
    return s;
}

void ts_solver_state_save(struct ts_solver *a, uint32_t sweep, uint32_t mode)
{
    struct ts_state s;
    if (a->conf->checkpoint == NULL)
        return;
    s = ts_solver_state_at(a, sweep, mode, 0);
    ts_checkpoint_save(a->conf->checkpoint, &s);
}

/* Begins a sweep at `mode`, and takes the figures of the modes before it from the state. */
void ts_solver_state_begin_sweep(struct ts_solver *a, uint32_t sweep, uint32_t mode)
{
    memset(&a->now, 0, sizeof a->now);
    a->now.sweep = sweep;
    a->start_ns = ts_clock_ns();
    a->slowest_ns = 0;
    if (mode > 0) {
        const uint64_t *part = ts_state_get(a->conf->from)->part;
        a->start_ns -= part[TS_PART_TOTAL_NS];
        a->now.wait_ns = part[TS_PART_WAIT_NS];
        a->now.copy_ns = part[TS_PART_COPY_NS];
        a->now.kernel_ns = part[TS_PART_KERNEL_NS];
        a->now.solve_ns = part[TS_PART_SOLVE_NS];
        a->now.exposed_ns = part[TS_PART_EXPOSED_NS];
        a->slowest_ns = part[TS_PART_SLOWEST_NS];
        a->now.bytes_read = part[TS_PART_BYTES_READ];
        a->now.n_singular = (uint32_t)part[TS_PART_N_SINGULAR];
    }
}

/* Copies the rows of a factor from the state to the backend. */
static int restore_factor(const struct ts_solver *a, uint32_t mode, double *rows, uint64_t step,
                          struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t n_rows = ts_state_get(a->conf->from)->n_rows[mode];
    int rc = 0;
    for (uint64_t row = 0; row < n_rows && rc == 0; row += step) {
        const uint64_t n = n_rows - row < step ? n_rows - row : step;
        rc = ts_state_rows(a->conf->from, mode, row, n, rows, err);
        if (rc == 0)
            rc = c->backend->put_rows(c->be, mode, row, n, rows, err);
        if (rc == 0)
            rc = ts_stop_check(c->stop, err);
    }
    return rc;
}

int ts_solver_state_restore(struct ts_solver *a, struct ts_err *err)
{
    const struct ts_state *s = ts_state_get(a->conf->from);
    const uint64_t step = RESTORE_BYTES / (a->rank * sizeof(double));
    double *rows = malloc(RESTORE_BYTES);
    int rc = rows == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows of factors") : 0;
    for (uint32_t m = 0; m < a->order && rc == 0; m++)
        if ((s->factors >> m & 1) != 0)
            rc = restore_factor(a, m, rows, step, err);
    free(rows);
    memcpy(a->gram, s->gram, a->order * a->square * sizeof *a->gram);
    memcpy(a->lambda, s->lambda, a->rank * sizeof *a->lambda);
    a->wide = (s->flags & TS_STATE_WIDE) != 0;
    a->exact = (s->flags & TS_STATE_EXACT) != 0;
    a->pending = (s->flags & TS_STATE_FIT) != 0;
    memcpy(a->size, s->size, sizeof a->size);
    if (rc == 0 && a->method->restore != NULL)
        rc = a->method->restore(a, s, err);
    memcpy(&a->held_best, &s->part[TS_PART_HELD_BEST], sizeof a->held_best);
    a->held_since = s->part[TS_PART_HELD_SINCE];
    if (rc == 0 && a->best != NULL)
        rc = ts_best_restore(a->best, a->conf->from, err);
    ts_solver_sum_in(a, a->wide ? TS_FLOAT64 : TS_FLOAT32);
    return rc == 0 && a->accelerate != NULL
               ? ts_accelerate_restore(a->accelerate, a->conf->from, err)
               : rc;
}

int ts_solver_check_from(const struct ts_solver_conf *conf, struct ts_err *err)
{
    static const char *const name[] = { "float32", "float64" };
    const struct ts_state *s = ts_state_get(conf->from);
    const char *path = ts_state_path(conf->from);
    /* the last sweep that has begun; in a state with TS_STATE_ENDED, s->sweep is the one after
     * it */
    const uint32_t last = s->sweep - ((s->flags & TS_STATE_ENDED) != 0);
    /* an accelerated run may have one sweep more than asked for */
    const uint32_t least = conf->accelerate && last > 1 ? last - 1 : last;
    if (s->rank != conf->init.rank)
        return ts_fail(err, TS_EARG, "%s: the run has rank %u, but " TS_SET_RANK " is %u", path,
                       s->rank, conf->init.rank);
    if (s->precision != conf->precision)
        return ts_fail(err, TS_EARG, "%s: the run has precision %s, but " TS_SET_PRECISION " is %s",
                       path, name[s->precision], name[conf->precision]);
    for (uint32_t m = 0; m < s->order && s->order == conf->init.tensor->order; m++) {
        char was[160], is[160];
        ts_spec_text(&s->spec, m, was, sizeof was);
        ts_spec_text(conf->init.spec, m, is, sizeof is);
        if (!ts_spec_same_state(&s->spec, conf->init.spec, m))
            return ts_fail(err, TS_EARG,
                           "%s: " TS_NTH_MODE
                           " of the run has these constraints: %s; it cannot continue with: %s",
                           path, m + 1, was, is);
    }
    if (!s->accelerated != !conf->accelerate)
        return ts_fail(err, TS_EARG, "%s: the run is %saccelerated, so it cannot continue %s it",
                       path, s->accelerated ? "" : "not ", s->accelerated ? "without" : "with");
    if (conf->iters < least)
        return ts_fail(err, TS_EARG,
                       "%s: the run is in sweep %u already, and " TS_SET_SWEEPS " is %u", path,
                       least, conf->iters);
    return ts_state_check_tensor(conf->from, conf->init.tensor, err);
}

/* Sets the results after the last whole sweep of a state. */
void ts_solver_state_recall(struct ts_solver *a, struct ts_solver_result *ret)
{
    const struct ts_state *s = ts_state_get(a->conf->from);
    const struct ts_state_past *last = s->past + s->sweep - 2;
    if (s->sweep == 1)
        return;
    (void)ts_solver_tell(a);
    if (s->mode == 0) {
        const double distance = (1 - last->fit) * a->conf->init.tensor->header.norm;
        a->left = distance * distance;
        a->now.objective = a->method->fit_apart ? NAN : a->method->objective(a);
    }
    if (s->figured) {
        const struct ts_disk_figures *f = s->figures + s->sweep - 2;
        a->now.objective = f->objective;
        a->now.log_likelihood = f->log_likelihood;
        a->now.kkt = f->violation;
        a->now.rmse = f->rmse;
        a->now.held_out = f->held_out;
        a->now.held_out_loss = f->held_out_loss;
    }
    ts_solver_take_result(a, s->sweep - 1, last->fit,
                          s->sweep > 2 ? last->fit - last[-1].fit : last->fit, ret);
    if (s->mode > 0) /* a run does not end in the middle of a sweep */
        ret->exact = ret->converged = 0;
}
