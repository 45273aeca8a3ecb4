/* SPDX-License-Identifier: BSD-3-Clause */
/* What the run (als.c) and its methods need of one product: its update, how it is summed, what is to be told of it. */
#include "base/clock.h"
#include "base/trace.h"
#include "cpd/als_impl.h"

enum ts_row_kind ts_als_kind(const struct ts_als *a, uint32_t mode)
{
    return ts_spec_row_kind(a->spec, mode);
}

/* From `start` to now, on the trace's lane of modes. Returns now. */
uint64_t ts_als_trace(const struct ts_als *a, const char *what, uint64_t start, uint32_t mode)
{
    const uint64_t now = ts_clock_ns();
    ts_trace_add(a->conf->trace, TS_TRACE_MODES, what, start, now, mode, TS_TRACE_NO_SHARD, 0);
    return now;
}

int ts_als_watches(const struct ts_als *a)
{
    return a->conf->each_mode && a->conf->mode != NULL && a->method->sums_of_modes;
}

/* What is needed before the pass, and how rows are to be updated, are the method's. */
int ts_als_begin_product(struct ts_als *a, uint32_t mode, enum ts_row_kind kind, struct ts_err *err)
{
    int rc = 0;
    a->begun_ns = ts_clock_ns();
    a->product = mode;
    a->times = (struct ts_backend_times){ 0 };
    if (kind == TS_ROW_KEEP && a->at != TS_ALS_AGAIN &&
        (mode + 1 < a->order || a->method->fit_apart)) /* the fit is computed elsewhere */
        return 0;
    a->how = (struct ts_row_update){ .kind = kind, .weight = a->lambda };
    a->sums = (struct ts_row_sums){
        .gram = kind == TS_ROW_KEEP ? a->w : a->gram + mode * a->square, /* w: of no use */
        .inner = mode + 1 == a->order ? &a->inner
                 : ts_als_watches(a)  ? &a->watched
                                      : NULL,
    };
    a->singular = 0;
    a->solved = 0;
    if (kind != TS_ROW_KEEP && a->method->begin != NULL)
        rc = a->method->begin(a, err);
    ts_als_trace(a, "inverse", a->begun_ns, mode);
    return rc < 0 ? rc : TS_ALS_WANTED;
}

int ts_als_request(struct ts_als *a, struct ts_request *ret, struct ts_err *err)
{
    *ret = (struct ts_request){ .be = a->conf->init.be };
    return a->method->request(a, ret, err);
}

void ts_als_sum_in(const struct ts_als *a, enum ts_precision precision)
{
    const struct ts_init_conf *c = &a->conf->init;
    if (a->conf->precision == TS_FLOAT32)
        c->backend->sum_in(c->be, precision);
}

int ts_als_pass(struct ts_als *a, const struct ts_request *request, struct ts_err *err)
{
    ts_feed_rewind(a->conf->feed);
    return a->conf->init.backend->pass(request, 1, a->product, a->conf->feed, &a->times, err);
}

void ts_als_request_errors(const struct ts_als *a, double mean, struct ts_error_sums *sums,
                           struct ts_request *ret)
{
    *sums = (struct ts_error_sums){ .hold_out = a->conf->hold_out, .mean = mean };
    ret->kind = TS_REQUEST_ERRORS;
    ret->errors = sums;
    ret->name = "errors";
}
