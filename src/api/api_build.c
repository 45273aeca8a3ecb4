/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds a tensor: from files, from arrays that are pushed, or from another tensor. A build may
 * also append to a tensor. All of these stay in one file, because they turn their settings into the
 * same struct request. */
#include <math.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "api/api.h"
#include "base/files/place.h"
#include "base/setting.h"
#include "build/append.h"
#include "build/build.h"
#include "build/room/build_budget.h"
#include "format/kept.h"
#include "format/segments.h"
#include "source/push_source.h"
#include "source/tensor_source.h"
#include "format/tensor_kind.h"
#include "format/walk.h"

#define WEIGHTS_ARE_FLOAT32 "values of cells with weights are float32, not float64"

/* A build that a caller requests, with the caller's functions for progress and notes. */
struct request {
    ts_build_conf conf;
    struct ts_build_options o;
    struct ts_api api; /* locale and errors of the thread that builds */
    uint32_t phase;    /* the current step of the build */
};

/* Between two steps of a build, returns freed memory to the system. The C library would keep it,
 * and it would count as memory outside of the budget. */
static void next_phase(struct request *r, uint32_t phase)
{
    if (r->phase == phase)
        return;
    r->phase = phase;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void show(void *arg, const struct ts_build_step *step)
{
    struct request *r = arg;
    const ts_build_progress p = { .size = sizeof p,
                                  .what = step->what,
                                  .unit = step->unit,
                                  .phase = step->phase,
                                  .n_phases = step->n_phases,
                                  .done = step->done,
                                  .total = step->total };
    next_phase(r, step->phase);
    if (r->conf.progress == NULL)
        return;
    ts_api_out(&r->api);
    r->conf.progress(r->conf.ctx, &p);
    ts_api_in();
}

/* Copies the sizes and names of all modes from the request. */
static int take_modes(struct request *r, struct ts_err *err)
{
    const ts_build_conf *c = &r->conf;
    struct ts_build_options *o = &r->o;
    if (c->order > TS_MAX_ORDER || c->n_labels > TS_MAX_ORDER)
        return ts_fail(err, TS_EARG, "a tensor has at most %u modes", TS_MAX_ORDER);
    o->n_dims = c->dim != NULL ? c->order : 0;
    o->n_names = c->name != NULL ? c->order : 0;
    for (uint32_t m = 0; m < o->n_dims; m++) {
        if (c->dim[m] == 0 || c->dim[m] > TS_MAX_DIM)
            return ts_fail(err, TS_EARG,
                           "a size of %llu of " TS_NTH_MODE " is not possible: 1 to 2^40 are",
                           (unsigned long long)c->dim[m], m + 1);
        o->dim[m] = c->dim[m];
    }
    for (uint32_t m = 0; m < o->n_names; m++) {
        if (c->name[m] == NULL || c->name[m][0] == '\0' || strlen(c->name[m]) > 255 ||
            strchr(c->name[m], '\n') != NULL)
            return ts_fail(err, TS_EARG,
                           "the name of " TS_NTH_MODE " must have 1 to 255 bytes in a line", m + 1);
        o->mode_name[m] = c->name[m];
    }
    for (uint32_t m = 0; m < c->n_labels; m++)
        if (c->label != NULL && c->label[m] != NULL) {
            o->map[m] = c->label[m];
            o->min_order = m + 1;
        }
    return 0;
}

static void tell_note(void *arg, const struct ts_err *warn)
{
    struct request *r = arg;
    ts_api_note(&r->api, r->conf.note, r->conf.ctx, warn);
}

static const enum ts_transform_kind transforms[] = {
    [TS_BUILD_AS_IT_IS] = TS_TRANSFORM_NONE,
    [TS_BUILD_LOG1P] = TS_TRANSFORM_LOG1P,
    [TS_BUILD_BINARY] = TS_TRANSFORM_BINARY,
    [TS_BUILD_SCALE] = TS_TRANSFORM_SCALE,
};

static int take_conf(const ts_build_conf *given, struct request *r, struct ts_err *err)
{
    ts_build_conf *c = &r->conf;
    struct ts_build_options *o = &r->o;
    int rc = TS_API_CONF(c, given, err);
    if (rc < 0)
        return rc;
    rc = TS_API_REFUSE(
        err,
        { c->out == NULL || c->out[0] == '\0', "a build needs the name of the directory to make" },
        { c->duplicates < TS_SUM_DUPLICATES || c->duplicates > TS_REFUSE_DUPLICATES,
          "duplicates can be summed, kept or refused" },
        { c->first_index > 1, "the first index must be 0 or 1" },
        { c->weights && c->float64, WEIGHTS_ARE_FLOAT32 },
        { c->transform < TS_BUILD_AS_IT_IS || c->transform > TS_BUILD_SCALE ||
              (c->transform == TS_BUILD_SCALE && (!isfinite(c->scale) || c->scale == 0)),
          "values become log1p or binary, or are scaled by a finite number other than 0" });
    if (rc < 0)
        return rc;
    *o = (struct ts_build_options){ .out = c->out,
                                    .force = c->replace,
                                    .tmp = c->tmp,
                                    .duplicates = c->duplicates,
                                    .zeros = c->keep_zeros != 0,
                                    .skip_missing = c->skip_missing != 0,
                                    .weights = c->weights != 0,
                                    .value_bytes = c->float64 ? 8 : 4,
                                    .base = c->first_index,
                                    .stop = c->stop,
                                    .progress = show,
                                    .progress_arg = r,
                                    .no_space_check = c->no_space_check,
                                    .expect = c->expect,
                                    .partial_map = c->partial_map != 0,
                                    .told = c->told,
                                    .n_told = c->told == NULL ? 0 : c->n_told,
                                    .transform = { .kind = transforms[c->transform],
                                                   .scale = c->scale },
                                    .note = tell_note,
                                    .note_arg = r };
    r->phase = 0;
    rc = take_modes(r, err);
    return rc == 0
               ? ts_build_budget(c->memory, c->shard_bytes > 0 ? c->shard_bytes : TS_BUILD_SHARD,
                                 c->threads, o, err)
               : rc;
}

/* Sets *ret to the results of a build. segments: number of segments that the tensor has after
 * it. */
static void tell(const struct request *r, const struct ts_api *a,
                 const struct ts_build_report *report, uint32_t segments, ts_build_result *ret)
{
    const ts_build_result result = { .nnz = report->nnz,
                                     .read = report->input_nnz,
                                     .duplicates = report->n_duplicates,
                                     .zeros = report->n_zeros,
                                     .runs = report->n_runs,
                                     .rounded = report->n_rounded,
                                     .missing = report->n_missing,
                                     .segments = segments };
    for (uint32_t i = 0; i < report->n_notes; i++) {
        struct ts_err note;
        (void)ts_fail(&note, TS_EARG, "%s", report->note[i]);
        ts_api_note(a, r->conf.note, r->conf.ctx, &note);
    }
    ts_api_note(a, r->conf.note, r->conf.ctx, &report->rounded);
    ts_api_note(a, r->conf.note, r->conf.ctx, &report->warn);
    ts_api_result(ret, &result, sizeof result);
}

/* ---- tables of text ---- */

struct table {
    struct request r;
    ts_table_conf conf;
    struct ts_table_plan plan;
    char *name[2 * TS_MAX_ORDER]; /* names of the modes that have bins or units */
};

/* Splits "week=7d" into *name, "week", and *rest, "7d". *name := NULL if there is no '='. */
static int divide(const char *item, char **name, const char **rest, struct ts_err *err)
{
    const char *equals = item == NULL ? NULL : strrchr(item, '=');
    *rest = equals == NULL ? item : equals + 1;
    *name = equals == NULL ? NULL : strndup(item, (size_t)(equals - item));
    if (item == NULL || equals == item)
        return ts_fail(err, TS_EARG, "'%s' does not begin with the name of a mode",
                       item == NULL ? "" : item);
    return equals != NULL && *name == NULL ? ts_fail(err, TS_ENOMEM, "out of memory") : 0;
}

static int take_times(struct table *t, struct ts_err *err)
{
    const ts_table_conf *c = &t->conf;
    struct ts_table_plan *plan = &t->plan;
    const char *rest;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < c->n_bins; i++) {
        rc = divide(c->bin[i], &t->name[i], &rest, err);
        if (rc == 0 && t->name[i] == NULL)
            rc = ts_fail(err, TS_EARG, "'%s' is not the width of a bin of a mode, as week=7d is",
                         rest);
        if (rc == 0)
            rc = ts_time_bin_parse(rest, &plan->bin[i], err);
        plan->binned[plan->n_bins++] = t->name[i];
    }
    for (uint32_t i = 0; rc == 0 && i < c->n_units; i++) {
        char **const name = &t->name[TS_MAX_ORDER + i];
        rc = divide(c->time_unit[i], name, &rest, err);
        if (rc == 0)
            rc = ts_time_unit_parse(rest, &plan->unit[i], err);
        plan->timed[plan->n_units++] = *name;
    }
    return rc;
}

static int take_table(const ts_table_conf *given, struct table *t, struct ts_err *err)
{
    ts_table_conf *c = &t->conf;
    struct ts_table_plan *plan = &t->plan;
    struct ts_build_options *o = &t->r.o;
    int rc = TS_API_CONF(c, given, err);
    if (rc < 0)
        return rc;
    if (c->n_columns > TS_MAX_ORDER || c->n_text > TS_MAX_ORDER || c->n_bins > TS_MAX_ORDER ||
        c->n_units > TS_MAX_ORDER)
        return ts_fail(err, TS_EARG, "a tensor has at most %u modes", TS_MAX_ORDER);
    if (c->header < 0 || c->header > TS_HEADER_NONE)
        return ts_fail(err, TS_EARG, "a header is found out, or there is one, or none");
    if (c->separator != NULL && strlen(c->separator) != 1)
        return ts_fail(err, TS_EARG, TS_SET_SEPARATOR ": one character is wanted, not '%s'",
                       c->separator);
    if (c->weights != NULL && o->value_bytes == 8)
        return ts_fail(err, TS_EARG, WEIGHTS_ARE_FLOAT32);
    plan->separator = c->separator == NULL ? ',' : c->separator[0];
    plan->header = c->header;
    plan->decimal_comma = c->decimal_comma != 0;
    plan->no_quotes = c->no_quotes != 0;
    plan->value = c->value;
    plan->weight = c->weights;
    plan->n_modes = o->n_names;
    memcpy(plan->mode, o->mode_name, sizeof plan->mode);
    for (uint32_t i = 0; i < c->n_columns; i++)
        plan->column[plan->n_columns++] = c->column[i];
    for (uint32_t i = 0; i < c->n_text; i++)
        plan->text[plan->n_text++] = c->text[i];
    o->weights = c->weights != NULL;
    o->sorted_names = c->sorted_names != 0;
    o->table = plan;
    return take_times(t, err);
}

/* Returns the settings of an append that the caller chose (settings other than 0), as bits of enum
 * ts_kept_id. Other settings are those of the tensor. */
static uint64_t said_of(const ts_build_conf *c)
{
    const struct {
        enum ts_kept_id id;
        int said;
    } rows[] = { { TS_KEPT_VALUES, c->float64 != 0 },
                 { TS_KEPT_ZEROS, c->keep_zeros != 0 },
                 { TS_KEPT_DUPLICATES, c->duplicates != TS_SUM_DUPLICATES },
                 { TS_KEPT_TRANSFORM, c->transform != TS_BUILD_AS_IT_IS },
                 { TS_KEPT_MISSING, c->skip_missing != 0 },
                 { TS_KEPT_TEXT_BASE, c->first_index != 0 },
                 { TS_KEPT_PARTIAL_MAP, c->partial_map != 0 },
                 { TS_KEPT_MODE_NAME, c->name != NULL } };
    uint64_t said = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        said |= rows[i].said ? UINT64_C(1) << rows[i].id : 0;
    return said;
}

static uint64_t said_of_table(const ts_table_conf *c)
{
    const struct {
        enum ts_kept_id id;
        int said;
    } rows[] = { { TS_KEPT_SEPARATOR, c->separator != NULL },
                 { TS_KEPT_HEADER, c->header != 0 },
                 { TS_KEPT_COLUMN, c->n_columns > 0 },
                 { TS_KEPT_VALUE, c->value != NULL },
                 { TS_KEPT_WEIGHTS, c->weights != NULL },
                 { TS_KEPT_FIELD, c->n_text > 0 },
                 { TS_KEPT_BIN, c->n_bins > 0 },
                 { TS_KEPT_TIME_UNIT, c->n_units > 0 },
                 { TS_KEPT_NAMES, c->sorted_names != 0 },
                 { TS_KEPT_DECIMAL, c->decimal_comma != 0 },
                 { TS_KEPT_QUOTE, c->no_quotes != 0 } };
    uint64_t said = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        said |= rows[i].said ? UINT64_C(1) << rows[i].id : 0;
    return said;
}

/* Refuses settings of an append that follow from the tensor. */
static int check_append(const ts_build_conf *c, struct ts_err *err)
{
    return TS_API_REFUSE(
        err, { c->replace != 0, "an append replaces nothing" },
        { c->dim != NULL,
          "an append takes no sizes: they follow from the tensor and what it gets" },
        { c->n_told > 0, "an append takes no columns of a table: the tensor keeps them" });
}

int ts_append_files(const ts_build_conf *conf, const ts_table_conf *table, uint32_t n_paths,
                    const char *const *path, ts_build_result *ret, ts_error *err)
{
    struct ts_append_report appended;
    struct ts_build_report report;
    struct table t;
    struct request *r = &t.r;
    struct ts_append_conf a = {
        .build = &r->o, .plan = &t.plan, .paths = path, .n_paths = n_paths
    };
    struct ts_err *why = &r->api.err;
    int rc;
    memset(&t, 0, sizeof t);
    ts_api_begin(&r->api);
    rc = take_conf(conf, r, why);
    if (rc == 0)
        rc = check_append(&r->conf, why);
    if (rc == 0 && r->conf.n_labels > 0)
        rc = ts_fail(why, TS_EARG, "labels are appended by a builder");
    if (rc == 0 && table != NULL)
        rc = take_table(table, &t, why);
    if (rc == 0 && n_paths == 0)
        rc = ts_fail(why, TS_EARG, "there is no file to append to %s", r->conf.out);
    if (rc == 0) {
        a.path = r->conf.out;
        a.said = said_of(&r->conf) | (table == NULL ? 0 : said_of_table(&t.conf));
        a.repeat = r->conf.repeat;
        a.time = (uint64_t)time(NULL);
        if (table == NULL)
            t.plan.separator = ',';
        rc = ts_append_paths(&a, &report, &appended, why);
    }
    if (rc == 0) {
        report.warn = appended.warn;
        tell(r, &r->api, &report, appended.n_segments, ret);
    }
    for (uint32_t i = 0; i < 2 * TS_MAX_ORDER; i++)
        free(t.name[i]);
    return ts_api_end(&r->api, rc, err);
}

int ts_undo(const char *path, ts_build_result *ret, ts_error *err)
{
    const struct ts_build_options o = { .out = path };
    struct ts_append_report report;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = ts_append_undo(path, &o, &report, &a.err);
    if (rc == 0) {
        const ts_build_result result = { .nnz = report.segment.nnz, .segments = report.n_segments };
        ts_api_result(ret, &result, sizeof result);
    }
    return ts_api_end(&a, rc, err);
}

int ts_compact(const ts_build_conf *conf, ts_build_result *ret, ts_error *err)
{
    struct ts_append_report report;
    struct request r;
    int rc;
    ts_api_begin(&r.api);
    rc = take_conf(conf, &r, &r.api.err);
    if (rc == 0) {
        r.o.shard_bytes = r.conf.shard_bytes; /* 0: as large as those of the tensor */
        rc = ts_append_compact(r.conf.out, &r.o, &report, &r.api.err);
    }
    if (rc == 0) {
        const ts_build_result result = { .segments = 1, .runs = 0 };
        ts_api_note(&r.api, r.conf.note, r.conf.ctx, &report.warn);
        ts_api_result(ret, &result, sizeof result);
    }
    return ts_api_end(&r.api, rc, err);
}

int ts_built_with(const ts_tensor *t, const char *key, uint32_t mode, size_t room, char *ret,
                  ts_error *err)
{
    struct ts_kept kept;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = t->dense != NULL ? 0 : ts_kept_read(t, &kept, &a.err);
    if (rc == 1) {
        const char *text = NULL;
        for (uint32_t id = 0; id < TS_N_KEPT; id++)
            if (strcmp(ts_kept_key((enum ts_kept_id)id), key) == 0 &&
                mode < ts_kept_count(&kept, (enum ts_kept_id)id))
                text = kept.text[id][mode];
        rc = text != NULL;
        if (rc == 1)
            snprintf(ret, room, "%s", text);
        ts_kept_free(&kept);
    }
    return ts_api_end(&a, rc, err);
}

/* Builds from files that are parts of one table. table NULL: builds from text and binary files. */
static int build_paths(const ts_build_conf *conf, const ts_table_conf *table, uint32_t n_paths,
                       const char *const *path, ts_build_result *ret, ts_error *err)
{
    struct ts_build_report report;
    struct table t;
    struct request *r = &t.r;
    struct ts_err *why = &r->api.err;
    int rc;
    memset(&t, 0, sizeof t);
    ts_api_begin(&r->api);
    rc = take_conf(conf, r, why);
    if (rc == 0 && table != NULL)
        rc = take_table(table, &t, why);
    else if (rc == 0 && r->o.weights)
        rc = ts_fail(
            why, TS_EARG,
            "weights are given to a builder with its arrays; a column of a table has them by " TS_SET_WEIGHTS);
    if (rc == 0 && n_paths == 0)
        rc = ts_fail(why, TS_EARG, "there is no file to build %s from", conf->out);
    if (rc == 0)
        rc = ts_build_paths(&r->o, path, n_paths, &report, why);
    if (rc == 0)
        tell(r, &r->api, &report, 1, ret);
    for (uint32_t i = 0; i < 2 * TS_MAX_ORDER; i++)
        free(t.name[i]);
    return ts_api_end(&r->api, rc, err);
}

int ts_build_files(const ts_build_conf *conf, uint32_t n_paths, const char *const *path,
                   ts_build_result *ret, ts_error *err)
{
    return build_paths(conf, NULL, n_paths, path, ret, err);
}

int ts_build_table(const ts_build_conf *conf, const ts_table_conf *table, uint32_t n_paths,
                   const char *const *path, ts_build_result *ret, ts_error *err)
{
    return build_paths(conf, table, n_paths, path, ret, err);
}

/* ---- arrays that are pushed ---- */

struct ts_builder {
    struct request request;
    struct ts_push_source *source;
    struct ts_build_report report;
    pthread_t thread;
    pthread_mutex_t lock; /* protects joined and rc */
    int joined, rc;       /* rc: result of the build */
    int appends;          /* 1: the tensor exists, and the build appends to it */
    uint32_t segments;    /* number of segments that the tensor has after the build */
};

static int append(struct ts_builder *b, const struct ts_source *source)
{
    struct request *r = &b->request;
    const struct ts_append_conf conf = { .path = r->conf.out,
                                         .build = &r->o,
                                         .said = said_of(&r->conf),
                                         .repeat = r->conf.repeat,
                                         .time = (uint64_t)time(NULL) };
    struct ts_append_report report;
    const int rc = ts_append_source(&conf, ts_push_source_order(b->source), source, &b->report,
                                    &report, &r->api.err);
    if (rc == 0) {
        b->segments = report.n_segments;
        b->report.warn = report.warn;
    }
    return rc;
}

static void *build(void *arg)
{
    struct ts_builder *b = arg;
    const struct ts_source source = ts_push_source_as_source(b->source);
    ts_api_begin(&b->request.api);
    b->segments = 1;
    b->rc = b->appends ? append(b, &source)
                       : ts_build_source(&b->request.o, ts_push_source_order(b->source), &source,
                                         &b->report, &b->request.api.err);
    ts_api_out(&b->request.api);
    return NULL;
}

/* Ends the input of the build, waits for it, and returns its result. */
static int join(struct ts_builder *b)
{
    pthread_mutex_lock(&b->lock);
    if (!b->joined) {
        ts_push_source_end(b->source);
        pthread_join(b->thread, NULL);
        b->joined = 1;
    }
    pthread_mutex_unlock(&b->lock);
    return b->rc;
}

/* Takes the precision of values, and whether cells may be zero and have weights, from the tensor
 * that is appended to. */
static int take_kind(struct request *r, struct ts_err *err)
{
    struct ts_build_options *o = &r->o;
    struct ts_segments *s = NULL;
    struct ts_tensor *t = NULL;
    int rc = check_append(&r->conf, err);
    if (rc == 0)
        rc = ts_segments_open(r->conf.out, &s, err);
    if (rc == 0)
        rc = ts_segments_tensor(s, s->n - 1, &t, err);
    if (rc == 0)
        rc = TS_API_REFUSE(
            err,
            { r->conf.float64 != 0 && t->header.value_bytes != 8,
              "the values of the tensor are float32, but the appended values are float64" },
            { r->conf.keep_zeros != 0 && (t->header.flags & TS_TENSOR_ZEROS) == 0,
              "the tensor keeps no zeros, so an append cannot keep zeros" },
            { r->conf.weights != 0 && !ts_tensor_weighted(t),
              "the cells of the tensor have no weights, but the appended cells have" },
            { r->conf.order != 0 && r->conf.order != t->order,
              "the tensor has another number of modes than what is appended" });
    if (rc == 0) {
        r->conf.order = t->order;
        o->value_bytes = t->header.value_bytes;
        o->zeros = (t->header.flags & TS_TENSOR_ZEROS) != 0;
        o->weights = ts_tensor_weighted(t);
    }
    ts_tensor_close(t);
    ts_segments_close(s);
    return rc;
}

/* Starts the build in a thread of its own. copies: 1 if the nonzeros are those of another tensor.
 * The new tensor then gets no file `options`: how they were read is unknown. */
static int start(struct ts_builder *b, const ts_build_conf *conf, int copies, struct ts_err *err)
{
    struct ts_build_options *o = &b->request.o;
    int rc = take_conf(conf, &b->request, err);
    o->keeps_nothing = copies;
    if (rc == 0 && b->appends)
        rc = take_kind(&b->request, err);
    if (rc == 0 && b->request.conf.order < TS_MIN_ORDER)
        rc = ts_fail(err, TS_EARG, "a tensor has %u to %u modes", TS_MIN_ORDER, TS_MAX_ORDER);
    if (rc == 0 && o->min_order > b->request.conf.order)
        rc = ts_fail(err, TS_EARG, "labels of " TS_NTH_MODE ", and there are %u modes",
                     o->min_order, b->request.conf.order);
    if (rc == 0)
        rc = ts_push_source_new(b->request.conf.order, o->value_bytes, o->zeros, o->weights,
                                o->n_dims, o->dim, &b->source, err);
    if (rc < 0)
        return rc;
    errno = pthread_create(&b->thread, NULL, build, b);
    return errno != 0 ? ts_fail_errno(err, TS_ENOMEM, "cannot start a thread")
                      : pthread_mutex_init(&b->lock, NULL);
}

static int new_builder(const ts_build_conf *conf, int copies, int appends, struct ts_builder **ret,
                       struct ts_err *err)
{
    struct ts_builder *b = calloc(1, sizeof *b);
    int rc = b == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for a build") : 0;
    if (rc == 0) {
        b->appends = appends;
        rc = start(b, conf, copies, err);
    }
    if (rc == 0) {
        *ret = b;
    } else if (b != NULL) {
        ts_push_source_free(b->source);
        free(b);
    }
    return rc;
}

ts_builder *ts_builder_new(const ts_build_conf *conf, ts_error *err)
{
    struct ts_builder *b = NULL;
    struct ts_api a;
    ts_api_begin(&a);
    ts_api_end(&a, new_builder(conf, 0, 0, &b, &a.err), err);
    return b;
}

ts_builder *ts_builder_append(const ts_build_conf *conf, ts_error *err)
{
    struct ts_builder *b = NULL;
    struct ts_api a;
    ts_api_begin(&a);
    ts_api_end(&a, new_builder(conf, 0, 1, &b, &a.err), err);
    return b;
}

/* Adds n nonzeros. Their indices are in `rows`, one row for each nonzero, or in `column`, one array
 * for each mode. weighted: 1 if the nonzeros have weights, even if `weight` is NULL. */
static int add(ts_builder *b, uint64_t n, const uint64_t *rows, const uint64_t *const *column,
               const double *value, const double *weight, int weighted, ts_error *err)
{
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    if (weighted && !b->request.o.weights)
        return ts_api_end(
            &a, ts_fail(&a.err, TS_EARG, "the builder was made without weights, and takes none"),
            err);
    rc = column != NULL ? ts_push_source_add_columns(b->source, n, column, value, weight, &a.err)
                        : ts_push_source_add(b->source, n, rows, value, weight, &a.err);
    if (rc < 0 && join(b) < 0) { /* the build has failed, and reports the cause */
        rc = b->rc;
        a.err = b->request.api.err;
    }
    return ts_api_end(&a, rc, err);
}

int ts_builder_add(ts_builder *b, uint64_t n, const uint64_t *index, const double *value,
                   ts_error *err)
{
    return add(b, n, index, NULL, value, NULL, 0, err);
}

int ts_builder_add_weighted(ts_builder *b, uint64_t n, const uint64_t *index, const double *value,
                            const double *weight, ts_error *err)
{
    return add(b, n, index, NULL, value, weight, 1, err);
}

int ts_builder_add_columns(ts_builder *b, uint64_t n, const uint64_t *const *index,
                           const double *value, const double *weight, ts_error *err)
{
    return add(b, n, NULL, index, value, weight, weight != NULL, err);
}

int ts_builder_finish(ts_builder *b, ts_build_result *ret, ts_error *err)
{
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = join(b);
    if (rc == 0)
        tell(&b->request, &a, &b->report, b->segments, ret);
    else
        a.err = b->request.api.err;
    return ts_api_end(&a, rc, err);
}

void ts_builder_free(ts_builder *b)
{
    struct ts_err gone = { .code = TS_ESTOP, .text = "given up" };
    if (b == NULL)
        return;
    if (!b->joined)
        ts_push_source_fail(b->source, &gone);
    (void)join(b);
    ts_push_source_free(b->source);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- building from a copy of another tensor ---- */

static int push(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index, const double *value,
                struct ts_err *err)
{
    (void)thread;
    return ts_push_source_add(ctx, n, index, value, NULL, err);
}

/* Copies the settings of a build from `given`. Settings that are 0 there are those of tensor t. */
static int copy_conf(const ts_build_conf *given, const ts_tensor *t, ts_build_conf *conf,
                     uint64_t dim[], const char *name[], struct ts_err *err)
{
    int named = 0;
    const int rc = TS_API_CONF(conf, given, err);
    if (rc < 0)
        return rc;
    if (conf->order != 0 && conf->order != t->order)
        return ts_fail(err, TS_EARG, "%s has %u modes, asked for are %u", t->path, t->order,
                       conf->order);
    conf->size = sizeof *conf;
    conf->keep_zeros |= (t->header.flags & TS_TENSOR_ZEROS) != 0;
    conf->expect = conf->expect > 0 ? conf->expect : t->nnz;
    conf->order = t->order;
    for (uint32_t m = 0; m < t->order; m++) {
        dim[m] = t->mode[m].disk.dim;
        name[m] = ts_tensor_mode_name(t, m);
        named += name[m] != NULL;
    }
    if (conf->dim == NULL)
        conf->dim = dim;
    if (conf->name == NULL && named == (int)t->order)
        conf->name = name;
    return 0;
}

int ts_build_copy(const ts_build_conf *given, const ts_tensor *t, ts_build_result *ret,
                  ts_error *err)
{
    uint64_t dim[TS_MAX_ORDER];
    const char *name[TS_MAX_ORDER];
    ts_build_conf conf;
    struct ts_walk w = { 0 };
    struct ts_builder *b = NULL;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = copy_conf(given, t, &conf, dim, name, &a.err);
    if (rc == 0) {
        const struct ts_place place[] = {
            { .path = t->path },
            { .path = conf.out, .suffix = TS_BUILDING_SUFFIX, .option = TS_SET_OUTPUT }
        };
        rc = ts_place_check(place, 2, &a.err);
    }
    if (rc == 0)
        rc = ts_tensor_is_unweighted(t, "a copy with other settings", &a.err);
    if (rc == 0 && conf.weights)
        rc = ts_fail(&a.err, TS_EARG, "%s: its cells have no weights, and a copy gets none",
                     t->path);
    if (rc == 0)
        rc = ts_walk_open(t, 0, &w, &a.err);
    if (rc == 0)
        rc = new_builder(&conf, 1, 0, &b, &a.err);
    if (rc == 0) {
        rc = ts_walk_all(&w, 1, push, b->source, conf.stop, &a.err);
        if (rc < 0) { /* some nonzeros were not read, so the result must not get its name */
            ts_push_source_fail(b->source, &a.err);
            if (join(b) < 0) {
                rc = b->rc;
                a.err = b->request.api.err;
            }
        }
    }
    ts_walk_close(&w);
    if (rc < 0) {
        ts_builder_free(b);
        return ts_api_end(&a, rc, err);
    }
    ts_api_end(&a, 0, NULL);
    rc = ts_builder_finish(b, ret, err);
    ts_builder_free(b);
    return rc;
}

/* ---- building from a part of another tensor ---- */

static int keep_indices(const ts_select_conf *c, const ts_tensor *t, uint32_t mode,
                        struct ts_pick *pick, struct ts_err *err)
{
    const uint64_t n = c->n_keep != NULL ? c->n_keep[mode] : 0, *index = c->keep[mode];
    struct ts_pick_range *range = calloc(n + 1, sizeof *range);
    int rc = range == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for indices") : 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        if (index[i] >= t->mode[mode].disk.dim)
            rc = ts_fail(err, TS_EARG, "index %llu of " TS_NTH_MODE " is beyond its size of %llu",
                         (unsigned long long)index[i], mode + 1,
                         (unsigned long long)t->mode[mode].disk.dim);
        range[i] = (struct ts_pick_range){ index[i], index[i] };
    }
    if (rc == 0)
        rc = ts_pick_ranges(pick, t, mode, range, n, err);
    free(range);
    return rc;
}

static int take_pick(const ts_select_conf *given, const ts_tensor *t,
                     const volatile sig_atomic_t *stop, struct ts_pick *pick, struct ts_err *err)
{
    ts_select_conf c;
    int rc = TS_API_CONF(&c, given, err);
    if (rc < 0)
        return rc;
    rc = TS_API_REFUSE(err,
                       { !(c.hold_out >= 0 && c.hold_out < 1),
                         "hold_out is a share of the nonzeros, from 0 to less than 1" },
                       { c.held && c.hold_out == 0, "nothing is held out with a hold_out of 0" });
    if (rc < 0)
        return rc;
    if (c.sum_modes >> t->order != 0)
        return ts_fail(err, TS_EARG, "sum_modes has modes that %s has not", t->path);
    pick->hold_out = (struct ts_hold_out){ .share = c.hold_out, .seed = c.seed };
    pick->side = c.held ? TS_PICK_HELD : c.hold_out > 0 ? TS_PICK_KEPT : TS_PICK_ALL;
    pick->left_out = c.sum_modes;
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        if (c.keep != NULL && c.keep[m] != NULL)
            rc = keep_indices(&c, t, m, pick, err);
    for (uint32_t m = 0; m < t->order && rc == 0; m++)
        if (c.at_least != NULL && c.at_least[m] > 1)
            rc = ts_pick_at_least(pick, t, m, c.at_least[m], stop, err);
    return rc;
}

int ts_build_select(const ts_build_conf *conf, const ts_tensor *t, const ts_select_conf *select,
                    ts_build_result *ret, ts_error *err)
{
    struct ts_build_report report;
    struct ts_pick pick = { .left_out = 0 };
    struct request r;
    int rc;
    ts_api_begin(&r.api);
    rc = take_conf(conf, &r, &r.api.err);
    if (rc == 0)
        rc = take_pick(select, t, r.o.stop, &pick, &r.api.err);
    if (rc == 0) {
        const uint32_t flags = t->header.flags;
        const int keep = (flags & TS_TENSOR_DUPLICATES) != 0 && pick.left_out == 0;
        r.o.value_bytes = t->header.value_bytes;
        r.o.zeros = (flags & TS_TENSOR_ZEROS) != 0;
        r.o.weights = ts_tensor_weighted(t);
        /* a split in Python writes two tensors, so messages must not advise the option that sets
         * the place of one */
        r.o.place = pick.side == TS_PICK_ALL ? NULL : "";
        r.o.duplicates = keep ? TS_DUPLICATES_KEEP : TS_DUPLICATES_SUM;
        rc = ts_build_tensor(&r.o, t, &pick, &report, &r.api.err);
    }
    ts_pick_free(&pick);
    if (rc == 0)
        tell(&r, &r.api, &report, 1, ret);
    return ts_api_end(&r.api, rc, err);
}
