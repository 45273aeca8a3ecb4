/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream info: prints a decomposition and the record of the run that made it. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/cp/cp_models.h"
#include "tools/cp/tstream_cp.h"
#include "tools/common/tool.h"
#include "tools/common/tool_term.h"
#include "tools/report/report_json.h"
#include "tools/tstream.h"
#include "tools/tstream_operand.h"

#define INDENT 9 /* columns that the names before the values take */
#define FIRST  3 /* number of first and last sweeps shown, if there are many */
#define LAST   17

struct info_args {
    int json, quiet;
};

#define AT(field) offsetof(struct info_args, field)
static const struct ts_opt info_opts[] = {
    TOOL_QUIET_OPT(AT(quiet)),
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "print run.json unchanged, or models.json for several models. Without these files, print "
      "an object with shape, rank and formats" },
    { 0 },
};

struct info {
    const char *path;
    struct ts_model *model;          /* NULL: no factors exist */
    struct ts_json_doc doc;          /* contents of run.json */
    const struct ts_json_value *run; /* NULL: run.json does not exist */
    unsigned formats;                /* bit i: files in the format format_name[i] exist */
};

static const char *const format_name[] = { "ktensor", "npy", "splatt" };

/* ---- words in lines ---- */

static void put_count(struct tool_words *l, double x, const char *unit)
{
    char number[TS_NUM_CHARS], text[TS_NUM_CHARS + 32];
    snprintf(text, sizeof text, "%s %s",
             ts_num_count(number, x >= 0 && x < 1.8e19 ? (uint64_t)x : 0), unit);
    tool_words_put(l, text);
}

/* ---- the record of the run (run.json) ---- */

static void print_shape(struct tool_words *l, const struct ts_json_value *shape)
{
    char text[TS_NUM_CHARS + 8], number[TS_NUM_CHARS];
    for (const struct ts_json_value *v = shape == NULL ? NULL : shape->first; v != NULL;
         v = v->next) {
        snprintf(
            text, sizeof text, "%s%s",
            ts_num_count(number, v->number >= 0 && v->number < 1.8e19 ? (uint64_t)v->number : 0),
            v->next != NULL ? " x" : ",");
        tool_words_put(l, text);
    }
}

/* Prints the names of modes, if any mode has one. */
static void print_names(struct tool_words *l, const struct ts_json_value *names)
{
    int any = 0;
    for (const struct ts_json_value *v = names == NULL ? NULL : names->first; v != NULL;
         v = v->next)
        any |= v->kind == TS_JSON_STRING;
    if (!any)
        return;
    tool_words_start(l, "modes");
    for (const struct ts_json_value *v = names->first; v != NULL; v = v->next)
        tool_words_putf(l, "%s%s", v->kind == TS_JSON_STRING ? v->text : "-",
                        v->next != NULL ? "," : "");
}

static void print_tensor(struct tool_words *l, const struct ts_json_value *t)
{
    char text[64];
    if (t == NULL)
        return;
    tool_words_start(l, "tensor");
    tool_words_put(l, ts_json_text(t, "path", "?"));
    tool_words_start(l, "");
    print_shape(l, ts_json_get(t, "shape"));
    put_count(l, ts_json_number(t, "nnz"), "nonzeros,");
    snprintf(text, sizeof text, "norm %.9g,", ts_json_number(t, "norm"));
    tool_words_put(l, text);
    tool_words_put(l, "checksum");
    tool_words_put(l, ts_json_text(t, "checksum", "?"));
    print_names(l, ts_json_get(t, "modes"));
}

static void print_where(struct tool_words *l, const struct ts_json_value *run)
{
    const struct ts_json_value *gpus = ts_json_get(run, "gpus");
    char text[64];
    tool_words_start(l, "run");
    tool_words_put(l, ts_json_text(run, "start", "?"));
    tool_words_put(l, "to");
    tool_words_put(l, ts_json_text(run, "end", "?"));
    tool_words_start(l, "");
    tool_words_put(l, "by");
    tool_words_put(l, ts_json_text(run, "program", "?"));
    tool_words_put(l, ts_json_text(run, "version", "?"));
    tool_words_put(l, "of commit");
    tool_words_put(l, ts_json_text(run, "commit", "?"));
    tool_words_start(l, "");
    tool_words_put(l, "on");
    tool_words_put(l, ts_json_text(run, "host", "?"));
    tool_words_put(l, "with");
    put_count(l, ts_json_number(run, "threads"),
              ts_json_number(run, "threads") == 1 ? "thread of" : "threads of");
    put_count(l, ts_json_number(run, "cpus"), "CPUs");
    tool_words_put(l, ts_json_text(run, "cpu", ""));
    for (const struct ts_json_value *g = gpus == NULL ? NULL : gpus->first; g != NULL;
         g = g->next) {
        tool_words_start(l, "");
        snprintf(text, sizeof text, "and GPU %.0f", ts_json_number(g, "number"));
        tool_words_put(l, text);
        tool_words_put(l, ts_json_text(g, "name", ""));
    }
}

/* Lists numbers in their order: "8,16". */
static void list_numbers(const struct ts_json_value *list, char *ret, size_t room)
{
    size_t at = 0;
    ret[0] = '\0';
    for (const struct ts_json_value *v = list->first; v != NULL && at < room; v = v->next)
        at += (size_t)snprintf(ret + at, room - at, "%s%.10g", at > 0 ? "," : "", v->number);
}

/* Prints options as a user would type them, without those that are off, not given, or defaults. */
static void print_options(struct tool_words *l, const struct ts_json_value *options)
{
    if (options == NULL || options->n == 0)
        return;
    tool_words_start(l, "options");
    for (const struct ts_json_value *o = options->first; o != NULL; o = o->next) {
        char name[128], value[256];
        if (!tstream_cp_chosen(o))
            continue;
        snprintf(name, sizeof name, "--%s", o->key);
        tool_words_put(l, name);
        if (o->kind == TS_JSON_ARRAY)
            list_numbers(o, value, sizeof value);
        else
            tstream_cp_number(o, value, sizeof value);
        if (o->kind == TS_JSON_NUMBER || o->kind == TS_JSON_ARRAY)
            tool_words_put(l, value);
        else if (o->kind == TS_JSON_STRING)
            tool_words_put(l, o->text);
    }
}

/* Returns the number of sweeps in which the equations of a mode were singular. */
static uint32_t count_singular(const struct ts_json_value *sweeps)
{
    uint32_t n = 0;
    for (const struct ts_json_value *s = sweeps == NULL ? NULL : sweeps->first; s != NULL;
         s = s->next)
        n += ts_json_number(s, "singular_modes") > 0;
    return n;
}

static void print_fit(struct tool_words *l, const struct ts_json_value *run)
{
    const struct ts_json_value *sweeps = ts_json_get(run, "sweeps");
    const double before = ts_json_number(run, "sweeps_before");
    const uint32_t n = sweeps == NULL ? 0 : sweeps->n, singular = count_singular(sweeps);
    const char *ended = ts_json_text(run, "ended", "?"), *unlisted = report_unlisted(run);
    const int good = strcmp(ended, "converged") == 0 || strcmp(ended, "exact") == 0;
    tool_words_start(l, "fit");
    tool_words_putf(l, "%.9f after %u sweep%s,", ts_json_number(run, "fit"), n, tool_plural(n));
    tool_words_paint(l, good ? TOOL_GOOD : TOOL_PAUSED, tool_ended(ended));
    for (const struct ts_json_value *s = n > 0 ? sweeps->first : NULL; s != NULL; s = s->next) {
        const struct ts_json_value *v = ts_json_get(s, "log_likelihood");
        if (s->next == NULL && v != NULL && v->kind == TS_JSON_NUMBER)
            tool_words_putf(l, "(log-likelihood %.9e)", v->number);
    }
    if (singular > 0) {
        char text[64];
        snprintf(text, sizeof text, "singular in %u sweep%s", singular, tool_plural(singular));
        tool_words_paint(l, TOOL_BAD, text);
    }
    if (before > 0)
        tool_words_putf(l, "(resumed after sweep %.0f)", before);
    if (unlisted == NULL)
        return;
    tool_words_start(l, "cells");
    tool_words_put(l, strcmp(unlisted, "zeros") == 0
                          ? "unlisted cells count as zeros"
                          : "unlisted cells are unknown, and not in the fit");
}

static const char *cell_of(const struct ts_json_value *sweep, const char *key, char *buf)
{
    const struct ts_json_value *v = ts_json_get(sweep, key);
    if (v == NULL || v->kind != TS_JSON_NUMBER)
        return "";
    snprintf(buf, TS_NUM_CHARS, "%.3f", v->number);
    return buf;
}

static int has_number(const struct ts_json_value *sweep, const char *key)
{
    const struct ts_json_value *v = ts_json_get(sweep, key);
    return v != NULL && v->kind == TS_JSON_NUMBER;
}

/* Writes the RMSE at held-out cells, or the mean loss at them; "" if no cells were held out. */
static void put_held_out(char *ret, const struct ts_json_value *sweep)
{
    const char *key = has_number(sweep, "held_out_rmse") ? "held_out_rmse" : "held_out_loss";
    *ret = '\0';
    if (has_number(sweep, key))
        snprintf(ret, TS_NUM_CHARS, "%.6g", ts_json_number(sweep, key));
}

static void print_sweep(const struct tool_column *c, uint32_t n, uint32_t shown,
                        const struct ts_json_value *s, double before)
{
    static const char *const key[] = { "seconds", "wait_seconds", "copy_seconds", "kernel_seconds",
                                       "solve_seconds" };
    const struct ts_json_value *bytes = ts_json_get(s, "bytes_read");
    const double fit = ts_json_number(s, "fit");
    char text[3][TS_NUM_CHARS], time[5][TS_NUM_CHARS], read[TS_NUM_CHARS] = "", held[TS_NUM_CHARS];
    const char *cell[11] = { text[0], text[1], text[2], held };
    snprintf(text[0], TS_NUM_CHARS, "%.0f", ts_json_number(s, "sweep"));
    snprintf(text[1], TS_NUM_CHARS, "%.9f", fit);
    snprintf(text[2], TS_NUM_CHARS, "%.2e", fit - before);
    for (int i = 0; i < 5; i++)
        cell[4 + i] = cell_of(s, key[i], time[i]);
    if (bytes != NULL && bytes->number >= 0 && bytes->number < 1.8e19)
        ts_num_bytes(read, (uint64_t)bytes->number);
    put_held_out(held, s);
    cell[9] = read;
    cell[10] = ts_json_number(s, "singular_modes") > 0 ? "singular" : "";
    tool_table_row(c, n, shown, cell);
}

static void print_sweeps(const struct ts_json_value *sweeps)
{
    struct tool_column c[] = {
        { .name = "sweep", .width = 5 },
        { .name = "fit", .width = 12 },
        { .name = "change", .width = 9 },
        { .name = "held out", .width = 9, .drop = TOOL_ABSENT },
        { .name = "seconds", .width = 9 },
        { .name = "wait", .width = 8, .drop = 2 },
        { .name = "copy", .width = 8, .drop = 5 },
        { .name = "kernel", .width = 8, .drop = 2 },
        { .name = "solve", .width = 8, .drop = 2 },
        { .name = "read", .width = 8, .drop = 4 },
        { .name = "", .width = 8, .drop = 1 },
    };
    const uint32_t n = sizeof c / sizeof *c;
    uint32_t i = 0, shown;
    double fit = 0;
    if (sweeps == NULL || sweeps->n == 0)
        return;
    for (const struct ts_json_value *s = sweeps->first; s != NULL; s = s->next)
        if (has_number(s, "held_out_rmse") || has_number(s, "held_out_loss"))
            c[3].drop = 0;
    shown = tool_table_fit(c, n, tool_columns());
    tool_table_head(c, n, shown);
    for (const struct ts_json_value *s = sweeps->first; s != NULL; s = s->next, i++) {
        if (i < FIRST || i + LAST >= sweeps->n)
            print_sweep(c, n, shown, s, fit);
        else if (i == FIRST)
            printf("  ...\n");
        fit = ts_json_number(s, "fit");
    }
}

/* ---- the files of factors ---- */

static int find_formats(struct info *f, struct ts_err *err)
{
    static const char *const file[] = { "model.ktensor", "weights.npy", "lambda.mat" };
    int rc = 0, fd;
    for (unsigned i = 0; i < 3 && rc >= 0 && f->model->dir != NULL; i++) {
        rc = ts_open_dir_optional(f->model->dir, file[i], &fd, err);
        if (rc > 0) {
            f->formats |= 1u << i;
            close(fd);
        }
    }
    if (f->formats == 0) /* the model is a single file */
        f->formats = 1;
    return rc < 0 ? rc : 0;
}

static void print_model(struct tool_words *l, const struct info *f)
{
    char text[TS_NUM_CHARS + 32], number[TS_NUM_CHARS];
    if (f->model == NULL)
        return;
    tool_words_start(l, "factors");
    snprintf(text, sizeof text, "rank %u,", f->model->rank);
    tool_words_put(l, text);
    for (uint32_t m = 0; m < f->model->order; m++) {
        snprintf(text, sizeof text, "%s%s", ts_num_count(number, f->model->n_rows[m]),
                 m + 1 < f->model->order ? " x" : " rows,");
        tool_words_put(l, text);
    }
    tool_words_put(l, "as");
    for (unsigned i = 0; i < 3; i++)
        if (f->formats >> i & 1)
            tool_words_put(l, format_name[i]);
}

static void print_json(const struct info *f)
{
    struct tool_json j;
    if (f->run != NULL) {
        tool_json_raw(f->doc.raw, f->doc.bytes);
        return;
    }
    tool_json_open(&j, stdout);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < f->model->order; m++)
        tool_json_u64(&j, NULL, f->model->n_rows[m]);
    tool_json_close(&j);
    tool_json_u64(&j, "rank", f->model->rank);
    tool_json_array(&j, "formats");
    for (unsigned i = 0; i < 3; i++)
        if (f->formats >> i & 1)
            tool_json_str(&j, NULL, format_name[i]);
    tool_json_close(&j);
    tool_json_close(&j);
}

static void print_text(const struct info *f)
{
    struct tool_words l = { .columns = tool_columns() };
    tool_words_put(&l, f->path);
    l.indent = INDENT;
    print_model(&l, f);
    if (f->run != NULL) {
        print_fit(&l, f->run);
        print_tensor(&l, ts_json_get(f->run, "tensor"));
        print_where(&l, f->run);
        print_options(&l, ts_json_get(f->run, "options"));
    }
    tool_words_end(&l);
    print_sweeps(ts_json_get(f->run, "sweeps"));
}

/* Opens the record and the factors, both in one directory. One of the two is enough. */
static int open_info(struct info *f, struct ts_err *err)
{
    struct ts_open_dir *dir = NULL; /* directory of run.json, if there is no model */
    struct ts_err why;
    const int model = ts_model_open(f->path, &f->model, &why);
    int there = 0, rc = 0;
    if (model < 0)
        there = ts_open_dir_new(f->path, &dir, err) == 0;
    else if (f->model->dir != NULL)
        there = 1;
    if (there)
        rc = ts_json_read_in(dir != NULL ? dir : f->model->dir, TS_RUN_RECORD_NAME, &f->doc, err);
    ts_open_dir_close(dir);
    if (rc < 0)
        return rc;
    if (rc > 0)
        f->run = f->doc.value;
    /* several models may have taken the path of this one meanwhile */
    if (model == 0 && strcmp(f->model->path, f->path) != 0)
        return ts_open_dir_fail(f->path, err);
    if (model == 0)
        return find_formats(f, err);
    if (f->run != NULL && model != TS_ENOMEM && !ts_open_dir_stale(model, &why))
        return 0;
    *err = why;
    return model;
}

/* Prints the table of several models. */
static int print_models(const char *path, int json, struct ts_err *err)
{
    struct ts_json_doc doc = { 0 };
    struct ts_models_table m = { 0 };
    struct ts_open_dir *dir = NULL;
    char *name;
    int rc;
    if (asprintf(&name, "%s/" TS_MODELS_JSON, path) < 0)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    rc = ts_open_dir_new(path, &dir, err);
    if (rc == 0)
        rc = ts_json_read_in(dir, TS_MODELS_JSON, &doc, err);
    if (rc == 0) /* the table existed before, so the directory was replaced meanwhile */
        rc = ts_open_dir_fail(path, err);
    ts_open_dir_close(dir);
    rc = rc > 0 ? 0 : rc;
    if (rc == 0 && !json)
        rc = ts_models_table_take(&doc, name, &m, err);
    if (rc == 0 && json) {
        tool_json_raw(doc.raw, doc.bytes);
    } else if (rc == 0) {
        struct tool_words l = { .columns = tool_columns() };
        tool_words_put(&l, path);
        l.indent = INDENT;
        tool_words_start(&l, "tensor");
        tool_words_put(&l, ts_json_text(ts_json_get(doc.value, "tensor"), "path", "?"));
        print_options(&l, ts_json_get(doc.value, "options"));
        tool_words_end(&l);
        for (uint32_t i = 0; i < m.n; i++)
            cp_models_print_row(&m, i, i == 0);
        printf("\n");
        cp_models_print_ranks(&m);
    }
    ts_models_table_free(&m);
    ts_json_free(&doc);
    free(name);
    return rc;
}

/* Returns X.cp.partial, malloc'ed, if a stopped run left that and no X.cp; else NULL. */
static char *stopped_run(const char *path)
{
    size_t end = strlen(path);
    struct stat st;
    char *partial;
    while (end > 1 && path[end - 1] == '/')
        end--;
    if (lstat(path, &st) == 0 || errno != ENOENT ||
        asprintf(&partial, "%.*s.partial", (int)end, path) < 0)
        return NULL;
    if (stat(partial, &st) == 0 && S_ISDIR(st.st_mode))
        return partial;
    free(partial);
    return NULL;
}

/* Prints one model or several. Fails before printing if the directory was replaced in between. */
static int show(struct info *f, int json, struct ts_err *err)
{
    int rc;
    if (ts_models_there(f->path))
        return print_models(f->path, json, err);
    if (ts_models_kept(f->path))
        return ts_models_there(f->path)
                   ? ts_open_dir_fail(f->path, err)
                   : ts_fail(err, TS_EARG,
                             "%s: not all of its models are done; tstream status tells where the "
                             "run is",
                             f->path);
    rc = open_info(f, err);
    if (rc == 0)
        (json ? print_json : print_text)(f);
    return rc;
}

static int run_info(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct info_args args;
    struct info f = { 0 };
    struct ts_err err;
    char *operand[argc + 1], *path; /* path: the directory that is shown */
    uint32_t n;
    int rc, status = tool_parse(cmd, argc, argv, &args, &n, operand, NULL);
    if (status >= 0)
        return status;
    path = n > 0 ? stopped_run(operand[0]) : NULL;
    if (path == NULL &&
        tstream_operand(n > 0 ? operand[0] : NULL, ".cp", "decomposition", &path, &err) < 0)
        return tool_fail(cmd, &err);
    f.path = path;
    rc = show(&f, args.json, &err);
    for (int tries = 1; ts_open_dir_stale(rc, &err) && tries < TS_OPEN_DIR_TRIES; tries++) {
        ts_model_close(f.model);
        ts_json_free(&f.doc);
        f = (struct info){ .path = f.path };
        rc = show(&f, args.json, &err);
    }
    if (rc == 0)
        rc = tool_flushed(&err);
    ts_model_close(f.model);
    ts_json_free(&f.doc);
    free(path);
    return rc < 0 ? tool_fail(cmd, &err) : 0;
}

const struct ts_cmd tstream_info = {
    .program = "tstream",
    .name = "info",
    .operands = "[MODEL.cp]",
    .max_operands = 1,
    .summary = "describe a decomposition and the run that made it",
    .text =
        "Shows rank, rows and formats of the factors, and the record of the run in run.json. The "
        "record has the fit and why the run ended, the tensor, program, machine, all options, "
        "and the fit and seconds of each sweep. The checksum of the tensor is that of its index: "
        "equal checksums mean equal tensors.\n\n"
        "For factors without run.json, also of other programs, it shows what the files contain. "
        "If a stopped run left only MODEL.cp.partial, it shows that. For several models "
        "(tstream cp --restarts) it shows their table, models.json. MODEL.cp/best.r8 names one "
        "of them. Without MODEL.cp it takes the only .cp in the current directory.",
    .examples = "tstream info amazon.cp\n  which options made this result?\n"
                "tstream info amazon.cp --json\n  the same for programs\n",
    .opts = info_opts,
    .run = run_info,
};
