/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares one product (MTTKRP) for the run (solver.c) and its methods: the row update, the sums
 * over rows, and the span of time in the trace. */
#include "base/clock.h"
#include "base/trace.h"
#include "cpd/solver/solver_struct.h"

enum ts_row_kind ts_solver_kind(const struct ts_solver *a, uint32_t mode)
{
    return ts_spec_row_kind(a->spec, mode);
}

/* Adds a span of time, from `start` to now, to the trace, in its row for modes. Returns now. */
uint64_t ts_solver_trace(const struct ts_solver *a, const char *what, uint64_t start, uint32_t mode)
{
    const uint64_t now = ts_clock_ns();
    ts_trace_add(a->conf->trace, TS_TRACE_MODES, what, start, now, mode, TS_TRACE_NO_SHARD, 0);
    return now;
}

int ts_solver_watches(const struct ts_solver *a)
{
    return a->conf->each_mode && a->conf->mode != NULL && a->method->sums_of_modes;
}

/* Begins a product. The method has prepared the pass and chosen how rows are updated. */
int ts_solver_begin_product(struct ts_solver *a, uint32_t mode, enum ts_row_kind kind,
                            struct ts_err *err)
{
    int rc = 0;
    a->begun_ns = ts_clock_ns();
    a->product = mode;
    a->times = (struct ts_backend_times){ 0 };
    if (kind == TS_ROW_KEEP && a->at != TS_SOLVER_AGAIN &&
        (mode + 1 < a->order || a->method->fit_apart)) /* the method computes the fit elsewhere */
        return 0;
    a->update = (struct ts_row_update){ .kind = kind, .weight = a->lambda };
    a->sums = (struct ts_row_sums){
        /* a->w is free memory: this Gram matrix is not used */
        .gram = kind == TS_ROW_KEEP ? a->w : a->gram + mode * a->square,
        .inner = mode + 1 == a->order   ? &a->inner
                 : ts_solver_watches(a) ? &a->watched
                                        : NULL,
    };
    a->singular = 0;
    a->solved = 0;
    if (kind != TS_ROW_KEEP && a->method->begin != NULL)
        rc = a->method->begin(a, err);
    ts_solver_trace(a, "inverse", a->begun_ns, mode);
    return rc < 0 ? rc : TS_SOLVER_WANTED;
}

int ts_solver_pass_again(struct ts_solver *a, struct ts_err *err)
{
    a->pending = 1;
    return ts_solver_begin_product(a, a->order - 1, TS_ROW_KEEP, err);
}

int ts_solver_request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err)
{
    *ret = (struct ts_request){ .be = a->conf->init.be };
    return a->method->request(a, ret, err);
}

void ts_solver_sum_in(const struct ts_solver *a, enum ts_precision precision)
{
    const struct ts_init_conf *c = &a->conf->init;
    if (a->conf->precision == TS_FLOAT32)
        c->backend->sum_in(c->be, precision);
}

int ts_solver_pass(struct ts_solver *a, const struct ts_request *request, struct ts_err *err)
{
    ts_feed_rewind(a->conf->feed);
    return a->conf->init.backend->pass(request, 1, a->product, a->conf->feed, &a->times, err);
}

void ts_solver_request_errors(const struct ts_solver *a, double mean, struct ts_error_sums *sums,
                              struct ts_request *ret)
{
    *sums = (struct ts_error_sums){ .hold_out = a->conf->hold_out, .mean = mean };
    ret->kind = TS_REQUEST_ERRORS;
    ret->errors = sums;
    ret->name = "errors";
}
