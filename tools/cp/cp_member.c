/* SPDX-License-Identifier: BSD-3-Clause */
/* Begins one of several models: from its state, from a file, or from random numbers. */
#include "tools/cp/cp_member.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cp/cp_starts.h"
#include "tools/common/tool_ranks.h"

struct cp_member *cp_member_lead(const struct cp_group *s)
{
    return &s->one[s->all.lead];
}

int cp_member_kept(const struct cp_group *s)
{
    return tstream_cp_writes(s->args) && (s->n_done > 0 || s->args->models_from != NULL);
}

/* Returns the options with which a run that computes only the model of `row` would have the same
 * result. */
static struct cp_args options_of(const struct cp_group *s, const struct ts_models_row *row)
{
    const uint32_t i = (uint32_t)(row - s->models.row);
    struct cp_args own = *s->args;
    if (s->start[i] != NULL) {
        own.init = s->start[i];
        own.start_name = cp_starts_name(s->args, row);
    } else if (tstream_cp_init_is_file(&own) && !cp_starts_given(&own))
        own.init = "random";
    own.rank = row->rank;
    own.ranks = (struct ts_opt_numbers){ .n = 1, .at = { row->rank } };
    own.restarts = 1;
    own.folds = 0;
    own.diagnose = 0;
    own.seed = row->seed;
    return own;
}

/* Whether the state of a finished model lacks its error at held-out cells. Earlier versions wrote
 * such states; a run stopped between the last sweep and the result leaves one. */
static int lacks_error(const struct cp_group *s, const struct cp_member *o)
{
    return o->own.held_share > 0 && !cp_starts_given(s->args) &&
           (ts_state_get(o->own.from->file)->flags & TS_STATE_ENDED) != 0 &&
           !ts_state_get(o->own.from->file)->figured;
}

/* Opens the state of a model if it exists. A state that cannot be read is ignored with a note, so
 * that the other models can be computed. */
static int find_state(struct cp_group *s, struct cp_member *o, struct ts_err *err)
{
    const int rc = ts_resume_open(o->dir, &o->state, err);
    if (rc == TS_ENOMEM || ts_models_run_check_place(s->args->models_from, err) < 0)
        return err->code;
    if (rc == TS_EARG) /* the model has no state */
        return 0;
    if (rc < 0) {
        tool_note(s->cmd, "%s; the model is computed from its start", err->text);
        o->mc.force = 1;
        return 0;
    }
    o->own.from = &o->state;
    /* computes it again from its starting factors, which gives the same bits */
    if (lacks_error(s, o)) {
        o->own.from = NULL;
        ts_resume_close(&o->state);
        o->mc.force = 1;
        return 0;
    }
    if (o->own.from->damaged.code != 0)
        tool_note(s->cmd, "%s; going on from the state before it", o->own.from->damaged.text);
    o->report.sweeps_done = ts_state_get(o->own.from->file)->sweep - 1;
    o->mc.resume = 1;
    return 0;
}

/* Checks that all ranks (processes) read the same state and starting factors, before rank 0 writes
 * files. */
static int check_state(const struct cp_member *o, int rc, struct ts_err *err)
{
    char text[24] = "none";
    rc = tool_ranks_agree(rc, err);
    if (rc == 0 && o->start != NULL)
        snprintf(text, sizeof text, "%016" PRIx64, ts_model_sign(o->start));
    if (rc == 0 && o->own.from != NULL)
        snprintf(text, sizeof text, "%016" PRIx64, ts_state_sign(o->own.from->file));
    return rc == 0 ? tool_ranks_same("state or model to start from", text, err) : rc;
}

void cp_member_name(struct cp_group *s, struct cp_member *o, uint32_t row)
{
    const struct ts_models_row *r = &s->models.row[row];
    *o = (struct cp_member){ .row = row, .own = options_of(s, r) };
    o->model = (struct cp_model){
        .place = { .out = s->named, .partial = s->partial, .number = row + 1, .n = s->models.n },
        .name = r->name,
        .rank = r->rank,
        .seed = r->seed,
        .kept = cp_member_kept(s),
        .first = !s->started
    };
    s->started = 1;
    if (r->fold > 0) {
        ts_hold_out_fold(r->fold, s->models.restarts, o->fold);
        o->own.hold_out = o->fold;
        o->own.held_share = 1.0 / s->models.restarts;
        o->own.held_from = (double)(r->fold - 1) / s->models.restarts;
    }
}

int cp_member_begin(void *ctx, uint32_t k, struct ts_run **ret, struct ts_err *err)
{
    struct cp_group *s = ctx;
    struct cp_member *o = &s->one[k];
    int rc;
    *ret = &o->run;
    o->model.place.at_once = s->all.n > 1 ? s->all.n : 0;
    o->model.place.in = s->all.in;
    o->mc = (struct ts_model_conf){ .rank = o->own.rank,
                                    .precision = s->args->precision,
                                    .stop = &tool_stop };
    rc = ts_model_formats(s->args->format, &o->mc.formats, err);
    if (asprintf(&o->dir, "%s/%s", s->partial, o->model.name) < 0) {
        o->dir = NULL;
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", s->named);
    }
    o->mc.dir = o->dir;
    o->report = cp_run_report(s->cmd, &o->own, &s->engine, s->path);
    o->report.be = ts_engine_model(&s->engine, k);
    /* with folds, a model is reported as one event, or as a number in the table */
    if (s->models.folds)
        o->report.json = o->report.details = 0;
    o->report.model = &o->model;
    /* only the first engine of the run prints notes about how the tensor is read */
    o->report.noted = !s->all.is_new || k > 0;
    o->report.beside = o->model.place.beside = k != s->all.lead;
    o->report.lead = &cp_member_lead(s)->report;
    o->report.headed_by = s->all.n > 1 ? &s->headed : NULL;
    if (rc == 0 && s->args->models_from != NULL)
        rc = find_state(s, o, err);
    if (rc == 0 && o->own.from == NULL && cp_starts_given(s->args))
        rc = ts_fail(err, TS_EARG,
                     "%s: its models started from factors in the memory of a program, and %s has "
                     "no checkpoint: continue with that program",
                     s->named, o->model.name);
    if (rc == 0 && o->own.from == NULL && tstream_cp_init_is_file(&o->own))
        rc = cp_starts_model(&o->own, &o->start, err);
    if (rc == 0 && o->start != NULL)
        rc = cp_starts_names(&o->own, o->start, s->engine.tensor, err);
    rc = check_state(o, rc, err);
    return rc == 0 ? cp_run_begin(&o->run, &o->report, &o->mc, o->start, err) : rc;
}

void cp_member_close(void *ctx, uint32_t k)
{
    struct cp_group *s = ctx;
    struct cp_member *o = &s->one[k];
    o->own.from = NULL;
    ts_resume_close(&o->state);
    ts_model_close(o->start);
    o->start = NULL;
    free(o->dir);
    o->dir = NULL;
}
