/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_export.c - tstream export: writes the factors of a decomposition as a table with
 * names. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/common_opts.h"
#include "tools/export/export_text.h"
#include "tools/report/model_view.h"
#include "tools/common/tool.h"
#include "tools/common/tool_mode.h"
#include "tools/common/tool_csv.h"
#include "tools/tstream.h"

struct export_args {
    const char *out, *mode_text;
    int format, force, quiet;
    uint32_t components, mode;
};

#define AT(field) offsetof(struct export_args, field)
static const struct ts_opt export_opts[] = {
    { "output", 'o', TS_OPT_STRING, AT(out), NULL, "FILE",
      "file to write. It is compressed if its name ends in .gz. Default: standard output" },
    { "format", 0, TS_OPT_CHOICE, AT(format), "csv", "csv", "comma-separated values" },
    { "components", 'c', TS_OPT_U32, AT(components), "0", "N",
      "number of components, by weight; 0 writes all" },
    { "mode", 'k', TS_OPT_STRING, AT(mode_text), "0", "K|NAME",
      "write only mode K, from 1, or the mode of this name; 0 writes all" },
    TOOL_FORCE_FILE_OPT('f', AT(force)),
    TOOL_QUIET_OPT(AT(quiet)),
    { 0 },
};

struct table {
    struct model_view *view;
    struct export_text text;
    uint32_t mode, components;
    struct tool_csv csv; /* writes to `text` */

    struct ts_names_walk *walk; /* the labels of the mode; NULL: it has none */
    const char *label;          /* the next label of `walk`, of n bytes; NULL after the last one */
    size_t n;
    uint64_t label_index;
    struct tool_progress progress;
};

/* ---- labels of indices ---- */

static void close_labels(struct table *t)
{
    ts_names_walk_close(t->walk);
    t->walk = NULL;
    t->label = NULL;
}

static int next_label(struct table *t, struct ts_err *err)
{
    return ts_names_walk_next(t->walk, &t->label_index, &t->label, &t->n, err);
}

static int open_labels(struct table *t, struct ts_err *err)
{
    int rc = 0;
    if (!model_view_has_labels(t->view, t->mode))
        return 0;
    rc = ts_names_walk_open(t->view->names, t->mode, &t->walk, err);
    return rc == 0 ? next_label(t, err) : rc;
}

/* Sets *ret to the label of an index, malloc'ed, or NULL. Call it with ascending indices. */
static int label_of(struct table *t, uint64_t index, char **ret, struct ts_err *err)
{
    *ret = NULL;
    while (t->label != NULL && t->label_index < index) {
        const int rc = next_label(t, err);
        if (rc < 0)
            return rc;
    }
    if (t->label == NULL || t->label_index > index)
        return 0;
    *ret = ts_label_string(t->label, t->n);
    return *ret != NULL ? 0 : ts_fail(err, TS_ENOMEM, "out of memory for names");
}

/* ---- lines of the table ---- */

static void put_value(struct table *t, double x)
{
    if (t->view->model->item_bytes == 4)
        tool_csv_f32(&t->csv, (float)x);
    else
        tool_csv_f64(&t->csv, x);
}

static int put_rows(void *ctx, uint64_t first, uint64_t n, const uint64_t *index, const double *x,
                    struct ts_err *err)
{
    struct table *t = ctx;
    const uint32_t rank = t->view->model->rank;
    int rc = 0;
    t->csv.to = t->text.to;
    for (uint64_t i = 0; i < n; i++) {
        char *label;
        rc = label_of(t, index[i], &label, err);
        if (rc < 0)
            return rc;
        tool_csv_u64(&t->csv, t->mode + 1);
        tool_csv_text(&t->csv, model_view_mode_name(t->view, t->mode));
        tool_csv_u64(&t->csv, index[i] + model_view_base(t->view));
        tool_csv_text(&t->csv, label);
        free(label);
        for (uint32_t c = 0; c < t->components; c++)
            put_value(t, x[i * rank + t->view->by_weight[c]]);
        tool_csv_end(&t->csv);
    }
    if (export_text_full(&t->text))
        rc = export_text_flush(&t->text, err);
    tool_progress_update(&t->progress, first + n);
    return rc;
}

/* Writes the line with the names of the columns, and the weights as a line of mode 0. */
static void put_head(struct table *t)
{
    t->csv.to = t->text.to;
    fputs("mode,mode_name,index,label", t->csv.to);
    for (uint32_t c = 0; c < t->components; c++)
        fprintf(t->csv.to, ",component_%" PRIu32, c + 1);
    fputs("\n0,weight,,", t->csv.to);
    t->csv.comma = 1;
    for (uint32_t c = 0; c < t->components; c++)
        tool_csv_f64(&t->csv, t->view->model->weight[t->view->by_weight[c]]);
    tool_csv_end(&t->csv);
}

static int put_table(struct table *t, const struct export_args *args, struct ts_err *err)
{
    const uint32_t order = t->view->model->order;
    const uint32_t first = args->mode > 0 ? args->mode - 1 : 0;
    const uint32_t last = args->mode > 0 ? first : order - 1;
    int rc = export_text_open(&t->text, err);
    if (rc == 0)
        put_head(t);
    for (t->mode = first; t->mode <= last && rc == 0; t->mode++) {
        char what[TOOL_PROGRESS_CHARS];
        snprintf(what, sizeof what, "mode %" PRIu32 "/%" PRIu32, t->mode + 1, order);
        tool_progress_start(&t->progress, what, "rows", t->view->model->n_rows[t->mode]);
        rc = open_labels(t, err);
        if (rc == 0)
            rc = model_view_walk(t->view, t->mode, put_rows, t, err);
        tool_progress_end(&t->progress);
        close_labels(t);
    }
    return export_text_close(&t->text, rc, err);
}

static int export_all(const struct ts_cmd *cmd, struct export_args *args, struct model_view *v,
                      struct ts_err *err)
{
    struct export_sink sink = { .fd = -1 };
    struct table t = { .view = v, .text = { .sink = &sink } };
    struct ts_err warn = { 0 };
    int rc;
    const struct tool_modes modes = model_view_modes(v);
    rc = tool_mode_option(&modes, v->model->path, args->mode_text, 1, &args->mode, err);
    if (rc < 0)
        return rc;
    t.components = model_view_components(v, args->components);
    rc = args->out != NULL && v->tensor != NULL ? tool_outside(args->out, v->tensor->path, err) : 0;
    if (rc == 0)
        rc = export_sink_open(args->out, args->force, "--output", &sink, err);
    if (rc == 0)
        rc = put_table(&t, args, err);
    if (rc == 0)
        rc = export_sink_commit(&sink, &warn, err);
    export_sink_close(&sink);
    tool_warn(cmd, &warn);
    close_labels(&t);
    return rc;
}

static int run_export(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct export_args args;
    struct model_view view = { 0 };
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0) {
        int rc;
        tool_catch_signals();
        rc = model_view_open(cmd, n_operands, operand, &view, &err);
        if (rc == 0)
            rc = export_all(cmd, &args, &view, &err);
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
        model_view_close(&view);
    }
    free(operand);
    return status;
}

const struct ts_cmd tstream_export = {
    .program = "tstream",
    .name = "export",
    .operands = "[MODEL] [TENSOR.tsh]",
    .max_operands = 2,
    .summary = "write the factors of a decomposition as a table with names",
    .text =
        "Writes one table of comma-separated values, with a line for each row of each factor. "
        "The columns are mode (from 1), mode_name, index (from 1, or from 0 if that of the input "
        "was 0), label, and component_1, component_2 and so on by weight. The line after the "
        "column names has the weights, as mode 0. A missing name is empty. Values have enough "
        "digits to read back the same bits.\n\n"
        "MODEL and TENSOR.tsh are found as in tstream top.",
    .examples =
        "tstream export amazon.cp -o amazon.csv\n  write factors with names, for a spreadsheet or pandas\n"
        "tstream export amazon.cp --mode 3 --components 5\n  write five components of the third mode\n",
    .opts = export_opts,
    .run = run_export,
};
