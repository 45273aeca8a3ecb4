/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the options of a library run to its record, its states, and the table of several
 * models. */
#include "api/api_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/version.h"
#include "base/setting.h"
#include "base/setting_kind.h"
#include "cpd/state/run_options.h"
#include "engine/models_table.h"
#include "engine/processor.h"
#include "format/arrays/array_name.h"

#define SECOND_NS 1e9
#define MOST_NS   9e18 /* longest time, in nanoseconds, that is reported */
/* default time between the saving of two states, as in tstream cp */
#define STATES_NS     UINT64_C(300000000000)
#define LEAST_SQUARES "least-squares"
#define MOST_SECONDS  1e9 /* longest time, in seconds, that a setting may have: some thirty years */

/* ---- options, with the names of tstream cp ---- */

/* What a setting that names modes sets: the member at offset `at` of struct ts_constraint, and the
 * kind of its value. OF_RUN: the setting belongs to the whole run. */
struct of_modes {
    enum { OF_RUN, IS_WHETHER, IS_PENALTY, IS_BOUNDS } kind;
    size_t at;
};
#define WHETHER(x, f) IS_WHETHER, offsetof(struct ts_constraint, x)
#define PENALTY(x, f) IS_PENALTY, offsetof(struct ts_constraint, x)
#define BOUNDS(x, f)  IS_BOUNDS, offsetof(struct ts_constraint, x)

#define MODES_CHARS (TS_MAX_ORDER * 64)

/* The values of all options, as in tstream cp. */
struct args {
#define SETTING(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
#define SETTING_IN(...)
#include "base/settings.def"
    struct ts_processor processor;
    struct {
        const char *dims, *dtype;
        int fortran;
    } array; /* options of a dense tensor, which the library gets as part of the tensor's name */
    char loss_text[64], hold_out_text[32], format_text[32];
    /* values, as text, of the settings that name modes */
    char modes_text[TS_N_SETTINGS][MODES_CHARS];
};

struct row {
    struct ts_opt opt;
    struct of_modes modes;
    const char *field; /* the setting's field in tstream.h; NULL: the library lacks this setting */
    enum ts_run_fixed resume;
};

#define SETTING(member, option, letter, kind_, def_, arg_, section, resume_, keyword, field_, ...) \
    { .opt = { .name = option,                                                                     \
               .type = TS_OPT_OF_##kind_,                                                          \
               .at = offsetof(struct args, member),                                                \
               .def = def_,                                                                        \
               .arg = arg_ },                                                                      \
      .modes = { TS_MODES_OF_##kind_ },                                                            \
      .field = field_,                                                                             \
      .resume = TS_RUN_##resume_ },
#define LOSS_NAMES ts_loss_names
static const struct row rows[] = {
#include "base/settings.def"
};

/* The order of options in run.json of all versions. Other settings follow these. */
static const char *const record_first[] = {
    "rank",       "loss",       "optimizer", "inner",       "iters",     "tol",     "seed",
    "init",       "save-init",  "nonneg",    "l1",          "l2",        "simplex", "bounds",
    "fix",        "orthogonal", "smooth",    "accelerate",  "observed",  "mean",    "l2-scale",
    "hold-out",   "patience",   "threads",   "host-memory", "precision", "out",     "format",
    "rows",       "checkpoint", "resume",    "max-time",    "force",     "cpu",     "gpus",
    "gpu-memory", "trace",      "restarts",  NULL,
};

/* The order of options in the states of runs. Other settings follow these. */
static const char *const state_first[] = {
    "rank",      "seed",       "init",   "precision",  "iters",      "tol",
    "format",    "nonneg",     "fix",    "simplex",    "l1",         "l2",
    "bounds",    "orthogonal", "smooth", "restarts",   "accelerate", "observed",
    "l2-scale",  "patience",   "mean",   "save-init",  "loss",       "inner",
    "optimizer", "hold-out",   "rows",   "checkpoint", NULL,
};

/* ret := the options that run.json has, of one model or of several. */
static void options_of_record(int several, struct ts_opt ret[TS_N_SETTINGS + 1])
{
    uint32_t n = 0, at;
    for (uint32_t i = 0; (at = ts_setting_row(record_first, i)) != TS_NO_SETTING; i++)
        if (rows[at].field != NULL && (several || rows[at].resume != TS_RUN_OF_SEVERAL))
            ret[n++] = rows[at].opt;
    ret[n] = (struct ts_opt){ 0 };
}

/* ret := the value of an option that sets a constraint of modes, as text; "" if no mode has the
 * constraint. */
static void modes_text(const struct ts_constraint *constraint, uint32_t order,
                       const struct of_modes *modes, char ret[MODES_CHARS])
{
    size_t n = 0;
    ret[0] = '\0';
    for (uint32_t m = 0; m < order; m++) {
        const void *at = (const char *)&constraint[m] + modes->at;
        if (modes->kind == IS_PENALTY ? *(const double *)at == 0 : *(const int *)at == 0)
            continue;
        n += (size_t)snprintf(ret + n, MODES_CHARS - n, "%s%u", n > 0 ? "," : "", m + 1);
        if (modes->kind == IS_PENALTY)
            n += (size_t)snprintf(ret + n, MODES_CHARS - n, "=%.17g", *(const double *)at);
        if (modes->kind == IS_BOUNDS)
            n += (size_t)snprintf(ret + n, MODES_CHARS - n, "=%.17g:%.17g", constraint[m].lower,
                                  constraint[m].upper);
    }
}

static void loss_text(const ts_cp_conf *run, char ret[64])
{
    if (run->loss > TS_LOSS_POISSON)
        ts_loss_text(ts_api_gcp(run->loss), run->loss_at, 17, ret, 64);
    else
        snprintf(ret, 64, "%s", run->loss == TS_LOSS_POISSON ? "poisson" : LEAST_SQUARES);
}

static void format_text(const ts_cp_conf *run, char ret[32])
{
    static const char *const formats[] = { "ktensor", "npy", "splatt" };
    size_t n = 0;
    for (unsigned f = 0; f < 3; f++)
        if ((run->formats >> f & 1) != 0)
            n += (size_t)snprintf(ret + n, 32 - n, "%s%s", n > 0 ? "," : "", formats[f]);
}

/* Sets the values of all options. Members of *a point to texts in *a, so it must not move. */
static void take_args(struct args *a, const ts_session_conf *session, const struct ts_tensor *t,
                      const ts_cp_conf *run, const struct ts_spec *spec)
{
    /* sets the members from rows of settings.def; other members follow below */
#define SET(member, ...) __VA_OPT__(a->member = __VA_ARGS__;)
#define SETTING(member, option, letter, kind, def, arg, section, resume, keyword, field, value, \
                help)                                                                           \
    SET(member, value)
#include "base/settings.def"
    a->ranks = (struct ts_opt_numbers){ .n = 1, .at = { session->rank } };
    loss_text(run, a->loss_text);
    a->loss = a->loss_text;
    format_text(run, a->format_text);
    a->format = a->format_text;
    snprintf(a->hold_out_text, sizeof a->hold_out_text, "%.17g", run->hold_out);
    a->hold_out = run->hold_out > 0 ? a->hold_out_text : NULL;
    for (uint32_t i = 0; i < TS_N_SETTINGS; i++) {
        const char **to = (const char **)((char *)a + rows[i].opt.at);
        if (rows[i].modes.kind == OF_RUN)
            continue;
        modes_text(spec->mode, t->order, &rows[i].modes, a->modes_text[i]);
        *to = a->modes_text[i][0] != '\0' ? a->modes_text[i] : NULL;
    }
}

/* ---- the options that a state records ---- */

uint64_t ts_api_every_ns(const ts_cp_conf *conf)
{
    const double every_s = conf->checkpoint_seconds;
    return every_s == 0  ? STATES_NS
           : every_s < 0 ? 0
                         : 1 + (uint64_t)(SECOND_NS * fmin(every_s, MOST_SECONDS));
}

/* Whether a state records the option. Some options are recorded only if the run uses them. */
static int is_said(const struct row *row, const struct args *a, int several)
{
    const void *at = (const char *)a + row->opt.at;
    const char *name = row->opt.name;
    if (row->resume == TS_RUN_OF_SEVERAL)
        return several;
    if (strcmp(name, "save-init") == 0)
        /* older versions may have recorded it as on or off for runs of several models */
        return a->save_init || several;
    if (strcmp(name, "l2-scale") == 0)
        return a->observed;
    if (strcmp(name, "patience") == 0)
        return a->observed || a->patience > 0;
    if (strcmp(name, "loss") == 0)
        return strcmp(a->loss, LEAST_SQUARES) != 0;
    if (strcmp(name, "inner") == 0)
        return strcmp(a->loss, "poisson") == 0;
    if (strcmp(name, "optimizer") == 0)
        return a->optimizer != TS_OPTIMIZER_ADAM;
    return row->opt.type == TS_OPT_FLAG ? *(const int *)at != 0
           : row->opt.type == TS_OPT_STRING || row->opt.type == TS_OPT_MODES
               ? *(const char *const *)at != NULL
               : 1;
}

static void remember(const struct row *row, const struct args *a, FILE *to)
{
    char text[4096]; /* enough for 64 ranks of 4 digits, and for modes_text */
    ts_opt_text(&row->opt, a, text, sizeof text);
    if (row->opt.type == TS_OPT_DURATION)
        snprintf(
            text, sizeof text, "%llums",
            (unsigned long long)(*(const uint64_t *)((const char *)a + row->opt.at) / 1000000u));
    fprintf(to, "%s=%s%c", row->opt.name, text, 0);
}

int ts_api_options_text(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_spec *spec, const uint32_t *ranks,
                        uint32_t n_ranks, uint32_t restarts, char **ret, uint64_t *bytes,
                        struct ts_err *err)
{
    char *real = ts_array_name_real(t->path), *text = NULL;
    struct args *a = calloc(1, sizeof *a);
    size_t n = 0;
    uint32_t at;
    FILE *to = a != NULL ? open_memstream(&text, &n) : NULL;
    if (to != NULL) {
        take_args(a, session, t, conf, spec);
        if (a->l2 == NULL && spec->observed && spec->loss == TS_GCP_NONE)
            /* otherwise tstream cp would use its own default of l2 to resume the run */
            a->l2 = "0";
        a->ranks.n = 0;
        for (uint32_t i = 0; i < n_ranks && i < TS_OPT_NUMBERS_MAX; i++)
            a->ranks.at[a->ranks.n++] = ranks[i];
        a->restarts = restarts;
        fprintf(to, "tensor=%s%c", real != NULL ? real : t->path, 0);
        for (uint32_t i = 0; (at = ts_setting_row(state_first, i)) != TS_NO_SETTING; i++)
            if (rows[at].field != NULL && rows[at].resume != TS_RUN_NOT_KEPT &&
                is_said(&rows[at], a, restarts > 0))
                remember(&rows[at], a, to);
    }
    free(real);
    free(a);
    if (to == NULL || fclose(to) != 0) {
        free(text);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    }
    *ret = text;
    *bytes = n;
    return 0;
}

int ts_api_record_lacks(const struct ts_state *s, const char *dir, struct ts_err *err)
{
    struct args *a = calloc(1, sizeof *a);
    int rc = a == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", dir) : 0;
    for (uint32_t i = 0; i < TS_N_SETTINGS && rc == 0; i++) {
        const struct row *row = &rows[i];
        const char *value = ts_state_option(s, row->opt.name);
        char usual[4096];
        if (row->field != NULL || value == NULL ||
            (row->resume != TS_RUN_SAME_TEXT && row->resume != TS_RUN_SAME_VALUE))
            continue;
        if (row->opt.def != NULL)
            /* this cannot fail: the test check_options parses all defaults */
            (void)ts_opt_set(&row->opt, a, row->opt.def, NULL);
        ts_opt_text(&row->opt, a, usual, sizeof usual);
        if (strcmp(value, usual) != 0)
            rc = ts_fail(err, TS_EARG, "%s: the run has %s %s, which only tstream cp continues",
                         dir, row->opt.name, value);
    }
    free(a);
    return rc;
}

/* ---- the table of several models ---- */

int ts_api_models_write(const struct ts_tensor *t, const ts_session_conf *session,
                        const ts_cp_conf *conf, const struct ts_spec *spec,
                        const struct ts_models_table *table, const struct ts_atomic_dir *dir,
                        int resumed, struct ts_err *err)
{
    struct args *a = calloc(1, sizeof *a);
    struct ts_opt opts[TS_N_SETTINGS + 1];
    const struct ts_models_writer who = { .version = ts_library_version(),
                                          .commit = ts_version_commit(),
                                          .tensor = t->path,
                                          .opts = opts,
                                          .args = a };
    int rc;
    if (a == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    options_of_record(1, opts);
    take_args(a, session, t, conf, spec);
    a->resume = resumed ? conf->out : NULL;
    a->restarts = table->restarts;
    a->ranks.n = 0;
    for (uint32_t k = 0; k < table->n_ranks && k < TS_OPT_NUMBERS_MAX; k++)
        a->ranks.at[a->ranks.n++] = table->rank[k].rank;
    rc = ts_models_table_write(table, &who, t, ts_atomic_dir_fd(dir), ts_atomic_dir_partial(dir),
                               err);
    free(a);
    return rc;
}

/* ---- the record of one run ---- */

struct ts_api_record {
    struct ts_opt opts[TS_N_SETTINGS + 1];
    struct args args;
};

int ts_api_record_new(const struct ts_tensor *t, const ts_session_conf *session,
                      const ts_cp_conf *conf, const struct ts_spec *spec, const char *out,
                      int resumed, struct ts_api_record **ret, struct ts_err *err)
{
    struct ts_api_record *r = calloc(1, sizeof *r);
    if (r == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", out);
    options_of_record(0, r->opts);
    take_args(&r->args, session, t, conf, spec);
    r->args.out = out;
    r->args.resume = resumed ? out : NULL;
    *ret = r;
    return 0;
}

struct ts_run_who ts_api_record_who(const struct ts_api_record *r)
{
    return (struct ts_run_who){ .interface = "library",
                                .version = ts_library_version(),
                                .commit = ts_version_commit(),
                                .opts = r != NULL ? r->opts : NULL,
                                .args = r != NULL ? &r->args : NULL };
}

void ts_api_record_free(struct ts_api_record *r)
{
    free(r);
}
