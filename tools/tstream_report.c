/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_report.c - tstream report: a page about a decomposition, for a browser. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/export_sink.h"
#include "tools/report_models.h"
#include "tools/report_page.h"
#include "tools/tool.h"
#include "tools/tstream.h"
#include "tools/tstream_operand.h"

struct report_args {
    uint32_t components, n_top;
    const char *out, *lines;
    int force, quiet;
};

#define AT(field) offsetof(struct report_args, field)
static const struct ts_opt report_opts[] = {
    { "output", 'o', TS_OPT_STRING, AT(out), NULL, "FILE.html",
      "the page; - for standard output, compressed when it ends in .gz. Default: the name of FACTORS with "
      ".html instead of .cp, in the current directory" },
    { "components", 'c', TS_OPT_U32, AT(components), "64", "N",
      "components shown, those of largest weight first; 0 shows all" },
    { "count", 'n', TS_OPT_U32, AT(n_top), "5", "N", "strongest indices of each mode" },
    { "lines", 0, TS_OPT_STRING, AT(lines), NULL, "K,K...|none",
      "modes, from 1, that are drawn as lines because their indices are a sequence, such as time. Default: "
      "those whose names ascend as numbers or dates do, or whose neighbouring rows are alike" },
    { "force", 'f', TS_OPT_FLAG, AT(force), NULL, NULL, "replace an existing page that this program wrote. Other files are never touched" },
    TOOL_QUIET_OPT(AT(quiet)),
    { 0 },
};

#define MOST_TOP 100u
/* Of all lines together, so that a page of 64 components stays below 1 MB. */
#define LINE_BYTES  UINT32_C(400000)
#define POINT_BYTES 11u
#define MOST_POINTS 200u
#define FEW_POINTS  16u

static int parse_lines(const char *text, uint32_t order, struct report_conf *ret,
                       struct ts_err *err)
{
    const char *at = text;
    ret->lines_given = text != NULL;
    if (text == NULL || strcmp(text, "none") == 0)
        return 0;
    for (;; at++) {
        char *end;
        const unsigned long k = strtoul(at, &end, 10);
        if (end == at || *at == '-' || k < 1 || k > order || (*end != ',' && *end != '\0'))
            return ts_fail(err, TS_EARG,
                           "--lines %s: expected modes from 1 to %" PRIu32 " like 1,3, or none",
                           text, order);
        ret->lines |= UINT32_C(1) << (k - 1);
        at = end;
        if (*at == '\0')
            return 0;
    }
}

static uint32_t points_of_line(uint32_t components, uint32_t order)
{
    const uint32_t n = LINE_BYTES / POINT_BYTES / (components * order);
    return n < FEW_POINTS ? FEW_POINTS : n > MOST_POINTS ? MOST_POINTS : n;
}

/* "dir/X.cp" -> "X.html", "dir/X.cp/best.r8" -> "X.best.r8.html" */
static char *default_out(const char *model)
{
    char *several = report_models_of(model), *last = NULL, *out = NULL;
    char *name = tstream_operand_swap(several != NULL ? several : model, "");
    const size_t n = name == NULL ? 0 : strlen(name);
    if (n > 3 && strcmp(name + n - 3, ".cp") == 0)
        name[n - 3] = '\0';
    if (several != NULL)
        last = tstream_operand_swap(model, "");
    if (name != NULL && (several == NULL || last != NULL) &&
        asprintf(&out, "%s%s%s.html", name, last != NULL ? "." : "", last != NULL ? last : "") < 0)
        out = NULL;
    free(last);
    free(name);
    free(several);
    return out;
}

static int write_page(const struct ts_cmd *cmd, struct export_sink *sink, const char *page,
                      size_t bytes, struct ts_err *err)
{
    struct ts_err warn = { 0 };
    char *packed = NULL;
    size_t room = 0;
    int rc = 0;
    if (sink->gzip) {
        rc = export_sink_pack(page, bytes, &packed, &room, &bytes, err);
        page = packed;
    }
    if (rc == 0)
        rc = export_sink_write(sink, page, bytes, err);
    if (rc == 0)
        rc = export_sink_commit(sink, &warn, err);
    tool_warn(cmd, &warn);
    free(packed);
    return rc;
}

static int make_page(const struct report_page *p, char **ret, size_t *bytes, struct ts_err *err)
{
    FILE *f = open_memstream(ret, bytes);
    int failed;
    if (f == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the page");
    report_page_put(f, p);
    failed = ferror(f);
    return fclose(f) != 0 || failed ? ts_fail(err, TS_ENOMEM, "out of memory for the page") : 0;
}

static int make_report(struct model_view *v, const struct report_conf *conf, char **ret,
                       size_t *bytes, struct ts_err *err)
{
    struct report_scan scan = { 0 };
    struct report_figures figures = { 0 };
    struct ts_models_table models = { 0 };
    const struct report_page page = {
        .view = v, .scan = &scan, .figures = &figures, .models = &models
    };
    double *weight = malloc(conf->components * sizeof *weight);
    int rc = weight == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", v->model->path)
                            : report_scan_new(v, conf, &scan, err);
    if (rc == 0)
        rc = report_models_find(v->model, &models, err);
    for (uint32_t c = 0; c < conf->components && rc == 0; c++)
        weight[c] = v->model->weight[v->by_weight[c]];
    if (rc == 0)
        rc = report_figures_new(&scan, weight, &figures, err);
    if (rc == 0)
        rc = make_page(&page, ret, bytes, err);
    ts_models_table_free(&models);
    report_figures_free(&figures);
    report_scan_free(&scan);
    free(weight);
    return rc;
}

static int report(const struct ts_cmd *cmd, const struct report_args *args, struct model_view *v,
                  struct ts_err *err)
{
    struct report_conf conf = { .n_top = args->n_top };
    struct export_sink sink = { .fd = -1 };
    char *out = args->out != NULL ? strdup(args->out) : default_out(v->model->path), *page = NULL;
    char a[TS_NUM_CHARS], plain[4096];
    size_t bytes = 0;
    int rc = parse_lines(args->lines, v->model->order, &conf, err);
    conf.components = model_view_components(v, args->components);
    conf.n_points = points_of_line(conf.components, v->model->order);
    if (rc == 0 && out == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", v->model->path);
    if (rc == 0)
        rc = export_sink_open(out, args->force, "--output", &sink, err);
    if (rc == 0)
        rc = make_report(v, &conf, &page, &bytes, err);
    if (rc == 0)
        rc = write_page(cmd, &sink, page, bytes, err);
    if (rc == 0 && sink.file != NULL) {
        tool_in_place(out);
        printf("%s: %u component%s, %s\n", tool_plain(out, plain, sizeof plain), conf.components,
               tool_plural(conf.components), ts_num_bytes(a, bytes));
        rc = tool_flushed(err);
    }
    export_sink_close(&sink);
    free(page);
    free(out);
    return rc;
}

static int run_report(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct report_args args;
    struct model_view view = { 0 };
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && (args.n_top == 0 || args.n_top > MOST_TOP))
        status = tool_usage(cmd, "--count must be 1 to %u", MOST_TOP);
    if (status < 0) {
        int rc;
        tool_catch_signals();
        rc = model_view_open(n_operands, operand, &view, &err);
        if (rc == 0)
            rc = report(cmd, &args, &view, &err);
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
        model_view_close(&view);
    }
    free(operand);
    return status;
}

const struct ts_cmd tstream_report = {
    .program = "tstream",
    .name = "report",
    .operands = "[FACTORS] [TENSOR.tsh]",
    .max_operands = 2,
    .summary = "write a page about a decomposition, for a browser",
    .text =
        "Writes one HTML file that fetches nothing and runs no script: the run and the tensor, the fit by sweep, where "
        "the time went, weights, correlation of components, sorted singular values of the equations of each mode, what "
        "to be wary of, and for each component the strongest indices by name, with a line for modes that are sequences.\n\n"
        "FACTORS and TENSOR.tsh are found as tstream top finds them. What run.json says is left out where there is "
        "none, as of factors of other programs. Factors are read once, and memory does not grow with their rows, but for 8 bytes each where they are those of used slices alone. With 64 "
        "components or fewer the file is smaller than 1 MB.",
    .examples = "tstream report amazon.cp\n  makes amazon.html\n"
                "tstream report other.ktensor --lines 3 -o - > page.html\n"
                "  of another program's model, whose third mode is time\n",
    .opts = report_opts,
    .run = run_report,
};
