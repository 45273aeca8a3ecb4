/* SPDX-License-Identifier: BSD-3-Clause */
/* Controls a run: goes from product to product (passes over modes), updates each mode, and scales
 * its columns. After a sweep it asks the method for the fit, and decides when to stop. The method
 * (method.h) decides what is computed. */
#include "cpd/solver/solver.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stop.h"
#include "cpd/solver/accelerate.h"
#include "cpd/solver/solver_struct.h"
#include "cpd/solver/best.h"

/* Adds the times of a product, as means over devices, to those of the sweep. Time outside of the
 * backend counts as solve time. */
static void add_times(struct ts_solver *a, const struct ts_backend_times *t, uint64_t all_ns)
{
    uint32_t n_told;
    const struct ts_device_times *told = ts_backend_told(t, &n_told);
    const uint32_t n = n_told > 0 ? n_told : 1;
    struct ts_device_times sum = { 0 };
    uint64_t slowest_ns = 0;
    for (uint32_t i = 0; i < n_told; i++) {
        const struct ts_device_times *d = &told[i];
        sum.wait_ns += d->wait_ns;
        sum.copy_ns += d->copy_ns;
        sum.kernel_ns += d->kernel_ns;
        sum.solve_ns += d->solve_ns;
        sum.exposed_ns += d->exposed_ns;
        slowest_ns = d->kernel_ns > slowest_ns ? d->kernel_ns : slowest_ns;
    }
    a->now.wait_ns += sum.wait_ns / n;
    a->now.copy_ns += sum.copy_ns / n;
    a->now.kernel_ns += sum.kernel_ns / n;
    a->now.solve_ns += sum.solve_ns / n + (all_ns > t->total_ns ? all_ns - t->total_ns : 0);
    a->now.exposed_ns += sum.exposed_ns / n;
    a->slowest_ns += slowest_ns;
}

/* ---- one product (MTTKRP) of a mode ---- */

int ts_solver_multiply(struct ts_solver *a, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_request request;
    int rc = ts_solver_request(a, &request, err);
    if (rc == 0)
        rc = ts_solver_pass(a, &request, err);
    if (rc == 0)
        ts_solver_trace(a, request.name, start, a->product);
    return rc;
}

static struct ts_exchanged exchanged(const struct ts_solver *a)
{
    const struct ts_init_conf *c = &a->conf->init;
    return ts_backend_can(c->backend, TS_CAN_RANKS) ? c->backend->exchanged(c->be)
                                                    : (struct ts_exchanged){ 0 };
}

/* Sends the times of the mode to all other ranks (processes), if the caller wants the times of all
 * ranks. */
static int tell_ranks(struct ts_solver *a, int rc, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    if (!a->conf->all_ranks || a->now.sweep == 0 || !ts_backend_can(c->backend, TS_CAN_RANKS))
        return rc;
    return c->backend->tell_ranks(c->be, a->product, &a->times, rc, err);
}

/* Computes the rows of the mode from the product. Reports the mode to the caller, unless it was
 * solved before the first sweep. */
static int end_product(struct ts_solver *a, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_solver_mode done = {
        .sweep = a->now.sweep, .mode = a->product, .times = &a->times, .objective = NAN
    };
    uint64_t then;
    int rc = 0;
    if (!a->solved) {
        struct ts_device_times *d = &a->times.device[0];
        struct ts_exchanged e;
        uint64_t all_ns;
        (void)exchanged(a); /* discards the times of exchanges before the rows are computed */
        rc = a->method->rows(a, err);
        all_ns = ts_solver_trace(a, "rows", start, a->product) - start;
        e = exchanged(a);
        d->solve_ns = all_ns - e.ns;
        d->exchange_ns += e.ns;
        d->exposed_ns += e.ns;
        a->times.row_bytes += e.row_bytes;
        a->times.rows_to = e.row_bytes > 0 ? e.rows_to : a->times.rows_to;
        a->times.total_ns += all_ns;
    }
    if (rc < 0)
        return rc;
    then = ts_clock_ns();
    if (a->update.kind != TS_ROW_KEEP && a->method->norm != NULL)
        rc = a->method->norm(a, err);
    done.total_ns = ts_solver_trace(a, "scale", then, a->product) - a->begun_ns;
    a->last_singular = (uint32_t)a->singular;
    a->now.n_singular += a->last_singular;
    rc = tell_ranks(a, rc, err);
    add_times(a, &a->times, done.total_ns);
    if (rc == 0 && ts_solver_watches(a))
        done.objective = ts_solver_fit_watched(a, *a->sums.inner);
    if (rc == 0 && a->conf->mode != NULL && a->now.sweep > 0)
        a->conf->mode(a->conf->ctx, &done);
    return rc;
}

/* Sends rows of factors to the first rank (process), which writes the state at the beginning of
 * `mode`; `mode` equal to the order means all rows. rc: 1 if this rank wants a state, or its error
 * code. Returns the same value on all ranks. */
static int collect(const struct ts_solver *a, uint32_t mode, int rc, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint32_t without = mode < a->order ? UINT32_C(1) << mode : 0;
    const uint32_t modes = ~without | ts_spec_stays(a->spec, a->order);
    return ts_backend_can(c->backend, TS_CAN_RANKS) ? c->backend->collect(c->be, modes, rc, err)
                                                    : rc;
}

/* After a stop in or before the computation of a product, saves the state at the beginning of the
 * product's mode, so that the run can be resumed there. All ranks (processes) call this. */
static int keep_place(struct ts_solver *a, int rc)
{
    const uint32_t mode = a->at == TS_SOLVER_AGAIN ? a->order - 1 : a->mode;
    struct ts_err err;
    if (rc != TS_ESTOP || (a->at != TS_SOLVER_MODE && a->at != TS_SOLVER_AGAIN))
        return rc;
    ts_fail(&err, TS_ESTOP, "stopped");
    if (collect(a, mode, rc, &err) == TS_ESTOP)
        ts_solver_state_save(a, a->now.sweep, mode);
    return rc;
}

/* ---- one sweep over all modes ---- */

/* Called between two modes: stops if the user wants to, or saves a state if one is due. */
static int between_modes(struct ts_solver *a, uint32_t sweep, uint32_t mode, struct ts_err *err)
{
    struct ts_checkpoint *c = a->conf->checkpoint;
    const uint64_t began_ns = ts_clock_ns();
    int rc;
    if (ts_stop_asked(a->conf->init.stop)) {
        ts_solver_state_save(a, sweep, mode);
        return mode > 0 ? ts_fail(err, TS_ESTOP, "stopped in sweep %u", sweep)
                        : ts_fail(err, TS_ESTOP, "stopped after sweep %u", sweep - 1);
    }
    rc = collect(a, mode, c != NULL && ts_checkpoint_due(c), err);
    if (rc == TS_ESTOP)
        ts_solver_state_save(a, sweep, mode);
    if (rc > 0 && c != NULL) {
        struct ts_state s = ts_solver_state_at(a, sweep, mode, 0);
        ts_checkpoint_take(c, &s, began_ns);
    }
    return rc < 0 ? rc : 0;
}

/* Sets the factors from which an accelerated sweep starts. */
static int take_step(struct ts_solver *a, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    const int rc = ts_accelerate_step(a->accelerate, a->gram, a->lambda, err);
    a->now.solve_ns += ts_solver_trace(a, "step", start, 0) - start;
    return rc;
}

/* Begins the next sweep. */
static int begin_sweep(struct ts_solver *a, struct ts_err *err)
{
    const uint32_t sweep = a->result.sweeps + 1;
    int rc = a->mode == 0 && sweep > 1 ? between_modes(a, sweep, 0, err) : 0;
    if (rc < 0)
        return rc;
    ts_solver_state_begin_sweep(a, sweep, a->mode);
    a->sweeping = 1;
    return a->accelerate != NULL && a->mode == 0 ? take_step(a, err) : 0;
}

/* Counts the sweeps since the one with the least error at held-out cells. If no cells are held out,
 * the last sweep counts as the best. */
static void note_held_out(struct ts_solver *a)
{
    const double error = isnan(a->now.held_out_loss) ? a->now.held_out : a->now.held_out_loss;
    a->held_since++;
    if (a->now.sweep == 1 || error < a->held_best || isnan(error)) {
        a->held_best = error;
        a->held_since = 0;
    }
}

/* Passes the reported figures of the sweep to the checkpoint. */
static int save_figures(const struct ts_solver *a, struct ts_err *err)
{
    const struct ts_disk_figures figures = { .objective = a->now.objective,
                                             .log_likelihood = a->now.log_likelihood,
                                             .violation = a->now.kkt,
                                             .rmse = a->now.rmse,
                                             .held_out = a->now.held_out,
                                             .held_out_loss = a->now.held_out_loss,
                                             .n_dead = a->now.n_dead };
    return ts_checkpoint_sweep(a->conf->checkpoint, a->now.fit, a->now.total_ns, &figures, err);
}

/* Ends a sweep whose fit is known. */
static int end_sweep(struct ts_solver *a, struct ts_err *err)
{
    const uint32_t sweep = a->now.sweep;
    const int finite = ts_solver_tell(a) && isfinite(a->now.fit);
    int rc = ts_solver_check_cells(a, err);
    if (rc < 0)
        return rc;
    a->exact = a->method->exact != NULL && a->method->exact(a);
    note_held_out(a);
    a->now.objective = a->method->objective(a);
    a->now.n_dead = ts_solver_fit_count_dead(a);
    a->now.change = a->now.fit - a->result.fit;
    if (!finite)
        return ts_solver_not_finite(a, err);
    if (a->best != NULL && a->held_since == 0)
        rc = ts_best_take(a->best, &a->now, a->lambda, a->gram, err);
    if (rc < 0)
        return rc;
    if (a->accelerate != NULL)
        ts_accelerate_fit(a->accelerate, sweep, ts_solver_fit_with_penalty(a));
    ts_solver_state_count_read(a);
    a->now.imbalance = a->now.kernel_ns > 0 ? (double)a->slowest_ns / (double)a->now.kernel_ns : 1;
    a->now.total_ns = ts_clock_ns() - a->start_ns;
    if (a->conf->sweep != NULL)
        a->conf->sweep(a->conf->ctx, &a->now);
    if (a->conf->checkpoint != NULL)
        rc = save_figures(a, err);
    if (rc == 0)
        ts_solver_take_result(a, sweep, a->now.fit, a->now.change, &a->result);
    a->sweeping = 0;
    a->mode = 0;
    return rc;
}

/* Ends the current mode, which is solved. */
static int end_mode(struct ts_solver *a, struct ts_err *err)
{
    a->mode++;
    return a->mode < a->order ? between_modes(a, a->now.sweep, a->mode, err) : 0;
}

/* Begins the product (MTTKRP) of the current mode or, after the last mode, the product for the fit.
 * Returns TS_SOLVER_WANTED, or 0 if nothing is to be computed. */
static int step(struct ts_solver *a, struct ts_err *err)
{
    int rc;
    if (a->mode < a->order && !a->pending) {
        a->at = TS_SOLVER_MODE;
        rc = ts_solver_begin_product(a, a->mode, ts_solver_kind(a, a->mode), err);
        if (rc != 0)
            return keep_place(a, rc);
        if (a->conf->mode != NULL)
            a->conf->mode(a->conf->ctx, &(struct ts_solver_mode){ .sweep = a->now.sweep,
                                                                  .mode = a->mode,
                                                                  .times = &a->times,
                                                                  .objective = NAN });
        return end_mode(a, err);
    }
    a->at = TS_SOLVER_AGAIN;
    rc = a->method->judge(a, err);
    return rc == 0 ? end_sweep(a, err) : keep_place(a, rc);
}

/* ---- the run from start to end ---- */

/* Makes or restores the factors. Returns TS_SOLVER_WANTED if a mode is solved before the first
 * sweep. */
static int begin(struct ts_solver *a, struct ts_err *err)
{
    int rc;
    /* an earlier run with this backend may have left another precision of sums */
    ts_solver_sum_in(a, TS_FLOAT32);
    rc = a->conf->from == NULL ? ts_solver_start(a, err) : ts_solver_state_restore(a, err);
    if (rc == 0 && a->conf->from != NULL) {
        ts_solver_state_recall(a, &a->result);
        a->mode = ts_state_get(a->conf->from)->mode;
    }
    return rc;
}

/* Whether the run is over. It does not end with a sweep that lowered the fit: a sweep without
 * extrapolation follows, one more than requested. */
static int is_over(const struct ts_solver *a)
{
    const int enough = a->conf->enough != NULL && *a->conf->enough;
    const int made = a->result.sweeps >= a->conf->iters || (enough && a->result.sweeps > 0);
    return (made && !ts_accelerate_fell(a->accelerate)) || a->result.converged || a->result.exact ||
           a->result.overfits;
}

/* Continues the run until the next product is needed, and returns TS_SOLVER_WANTED. Returns 0 at
 * the end of the run. */
static int go_on(struct ts_solver *a, struct ts_err *err)
{
    int rc = 0;
    while (rc == 0 && (a->sweeping || !is_over(a))) {
        rc = a->sweeping ? 0 : begin_sweep(a, err);
        if (rc == 0)
            rc = step(a, err);
    }
    if (rc == 0) {
        rc = collect(a, a->order, 1, err);
        rc = rc > 0 ? 0 : rc;
    }
    if (rc == 0 && a->conf->checkpoint != NULL) {
        struct ts_state end = ts_solver_state_at(a, a->result.sweeps + 1, 0, TS_STATE_ENDED);
        ts_checkpoint_end(a->conf->checkpoint, &end);
    }
    if (rc == 0 && a->best != NULL && ts_best_sweep(a->best) > 0)
        rc = ts_best_swap(a->best, ts_best_sweep(a->best) < a->result.sweeps, err);
    return rc;
}

/* Takes the product that was computed, and ends its mode or, if it was the product for the fit, its
 * sweep. */
static int take_product(struct ts_solver *a, struct ts_err *err)
{
    int rc = keep_place(a, end_product(a, err));
    if (rc < 0 || a->at == TS_SOLVER_SIGN)
        return rc;
    if (a->at == TS_SOLVER_MODE)
        return end_mode(a, err);
    rc = a->method->judged(a, err);
    return rc == 0 ? end_sweep(a, err) : keep_place(a, rc);
}

static int make(struct ts_solver *a, struct ts_err *err)
{
    a->square = (size_t)a->rank * a->rank;
    a->kept_squares = -1;
    a->memory = calloc((a->order + 2) * a->square + 2 * (size_t)a->rank, sizeof *a->memory);
    a->own = calloc(1, a->method->own_bytes + 1);
    if (a->memory == NULL || a->own == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u Gram matrices", a->order);
    a->gram = a->memory;
    a->v = a->gram + a->order * a->square;
    a->w = a->v + a->square;
    a->scale = a->w + a->square;
    a->lambda = a->scale + a->rank;
    if (a->spec->best) {
        const int rc = ts_best_new(&a->conf->init, a->conf->precision, &a->best, err);
        if (rc < 0)
            return rc;
    }
    return a->conf->accelerate
               ? ts_accelerate_new(&a->conf->init, a->conf->precision, &a->accelerate, err)
               : 0;
}

int ts_solver_new(const struct ts_solver_conf *conf, struct ts_solver **ret, struct ts_err *err)
{
    struct ts_solver *a = calloc(1, sizeof *a);
    int rc;
    if (a == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a run");
    a->conf = conf;
    a->order = conf->init.tensor->order;
    a->rank = conf->init.rank;
    a->now.objective = NAN; /* for a run that has no sweep left */
    rc = ts_solver_check(a, err);
    if (rc == 0)
        rc = make(a, err);
    if (rc < 0) {
        ts_solver_free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void ts_solver_free(struct ts_solver *a)
{
    if (a == NULL)
        return;
    if (a->conf->checkpoint != NULL) {
        ts_checkpoint_keep(a->conf->checkpoint, a->accelerate);
        ts_checkpoint_keep_best(a->conf->checkpoint, a->best);
    } else {
        ts_accelerate_free(a->accelerate);
        ts_best_free(a->best);
    }
    if (a->own != NULL && a->method->end != NULL)
        a->method->end(a);
    free(a->own);
    free(a->memory);
    free(a);
}

int ts_solver_next(struct ts_solver *a, struct ts_err *err)
{
    const int starts = a->at == TS_SOLVER_START || a->at == TS_SOLVER_SIGN;
    int rc = a->at == TS_SOLVER_START ? begin(a, err) : take_product(a, err);
    if (rc == 0 && starts)
        ts_feed_skip(a->conf->feed, ts_spec_skipped(a->spec, a->order));
    return rc == 0 ? go_on(a, err) : rc;
}

void ts_solver_fail(struct ts_solver *a, int rc)
{
    (void)keep_place(a, rc);
}

int ts_solver_run(const struct ts_solver_conf *conf, struct ts_solver_result *ret,
                  struct ts_err *err)
{
    struct ts_solver *a;
    int rc = ts_solver_new(conf, &a, err);
    if (rc < 0)
        return rc;
    while ((rc = ts_solver_next(a, err)) > 0) {
        rc = ts_solver_multiply(a, err);
        if (rc < 0) {
            ts_solver_fail(a, rc);
            break;
        }
    }
    if (rc == 0)
        rc = ts_solver_result(a, ret, err);
    ts_solver_free(a);
    return rc;
}
