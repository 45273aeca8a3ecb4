/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the fit of a finished run in float64, with an engine of its own on CPU cores. */
#include "engine/run_fit.h"

#include "cpd/judge/exact_fit.h"
#include "model/kruskal.h"
#include "stream/comm.h"

/* Returns the part of the memory budget that the engine's feed has not taken. */
static uint64_t left_bytes(const struct ts_engine *e)
{
    const uint64_t all = e->memory.feed_bytes + e->memory.spare_bytes;
    struct ts_feed_stats stats;
    uint64_t taken;
    ts_feed_stats(e->feed, &stats);
    taken = stats.resident_bytes + stats.slot_bytes;
    return all > taken ? all - taken : 1;
}

/* Computes the fit of `copy`, the result's factors in host memory; `model` reads its rows. */
static int fit_of(const struct ts_engine *e, const struct ts_solver_conf *conf,
                  struct ts_solver_result *result, const struct ts_kruskal *copy,
                  struct ts_model *model, struct ts_err *err)
{
    const int holds_out = conf->hold_out.share > 0;
    uint64_t copied = ts_exact_fit_bytes(e->tensor, model);
    struct ts_engine_conf ec = { .path = e->tensor->path,
                                 .tensor = e->tensor,
                                 .rank = model->rank,
                                 .threads = e->threads,
                                 .precision = TS_FLOAT64,
                                 .host_bytes = left_bytes(e),
                                 .processor = { .cpu = 1 },
                                 .only_mode = (int)ts_exact_fit_mode(e->tensor),
                                 .needs = holds_out ? TS_CAN(HELD_OUT) : 0,
                                 .stop = conf->init.stop };
    struct ts_engine own;
    struct ts_exact_fit fit;
    int rc;
    for (uint32_t m = 0; m < copy->order; m++)
        copied += copy->bytes[m];
    ec.own_bytes = copied;
    rc = ts_engine_open(&ec, &own, err);
    if (rc < 0)
        return rc;
    if (holds_out)
        own.backend->hold_out(own.be, &conf->hold_out);
    rc = ts_exact_fit_run(&(struct ts_exact_fit_conf){ .tensor = e->tensor,
                                                       .backend = own.backend,
                                                       .be = own.be,
                                                       .feed = own.feed,
                                                       .model = model,
                                                       .norm = result->fit_norm,
                                                       .threads = own.threads,
                                                       .stop = conf->init.stop },
                          &fit, err);
    ts_engine_close(&own);
    if (rc == 0)
        result->fit = fit.fit;
    return rc;
}

static int compute(const struct ts_engine *e, const struct ts_solver_conf *conf,
                   struct ts_solver_result *result, struct ts_err *err)
{
    struct ts_factors f =
        ts_factors_of(e->tensor, result->rank, result->rows.backend, result->rows.be);
    struct ts_kruskal *copy = NULL;
    struct ts_model *model = NULL;
    int rc;
    f.get_rows = ts_solver_rows;
    f.from = &result->rows;
    rc = ts_kruskal_take(e->tensor, &f, conf->precision, result->weight, result->norm,
                         conf->init.stop, &copy, err);
    if (rc == 0)
        rc = ts_kruskal_model(copy, 0, &model, err);
    if (rc == 0)
        rc = fit_of(e, conf, result, copy, model, err);
    ts_model_close(model);
    ts_kruskal_free(copy);
    return rc;
}

void ts_run_fit(const struct ts_engine *e, const struct ts_solver_conf *conf,
                struct ts_solver_result *result, struct ts_err *warn)
{
    if (result->fit_error == 0)
        return;
    if (!ts_comm_many(e->comm) && compute(e, conf, result, warn) == 0) {
        result->fit_error = 0;
        return;
    }
    ts_fail(warn, TS_ELIMIT,
            "this fit may be off by about %.1g, because this method rounds its sums: tstream fit "
            "computes it exactly",
            result->fit_error);
}
