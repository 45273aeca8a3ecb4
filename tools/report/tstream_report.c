/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_report.c - tstream report: writes an HTML page about a decomposition. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/export/export_sink.h"
#include "tools/report/report_models.h"
#include "tools/report/report_template.h"
#include "tools/report_whole.h" /* make generates it from report.html */
#include "tools/report/report_json.h"
#include "tools/common/tool.h"
#include "tools/tstream.h"
#include "tools/tstream_operand.h"

struct report_args {
    uint32_t components, n_top;
    const char *out, *lines;
    int force, json, quiet;
};

#define AT(field) offsetof(struct report_args, field)
static const struct ts_opt report_opts[] = {
    { "output", 'o', TS_OPT_STRING, AT(out), NULL, "FILE.html",
      "file to write; - is standard output. It is compressed if its name ends in .gz. Default: "
      "the name of MODEL with .html in place of .cp, in the current directory" },
    { "components", 'c', TS_OPT_U32, AT(components), "64", "N",
      "number of components, by weight; 0 shows all" },
    { "count", 'n', TS_OPT_U32, AT(n_top), "5", "N",
      "number of strongest indices of each mode that is not drawn as a line" },
    { "lines", 0, TS_OPT_STRING, AT(lines), NULL, "MODES|none",
      "modes, by number or name, that are drawn as lines because their indices are a sequence, such as "
      "time. Default: modes with ascending numbers or dates as names. Modes with other numbers "
      "or without names are also drawn as lines if neighbouring rows are similar" },
    { "force", 'f', TS_OPT_FLAG, AT(force), NULL, NULL,
      "replace an existing page of this program. Other files are never touched" },
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "print the figures as a JSON object, and write no page" },
    TOOL_QUIET_OPT(AT(quiet)),
    { 0 },
};

#define MOST_TOP 100u
/* Most bytes of the lines of a page: a page of 64 components stays below 1 MB. */
#define LINE_BYTES  UINT32_C(400000)
#define POINT_BYTES 11u
#define MOST_POINTS 200u
#define FEW_POINTS  16u

struct text {
    char *at;
    size_t bytes;
};

static int parse_lines(const char *text, const struct model_view *v, struct report_conf *ret,
                       struct ts_err *err)
{
    const struct tool_modes modes = model_view_modes(v);
    ret->lines_given = text != NULL;
    if (text == NULL || strcmp(text, "none") == 0)
        return 0;
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        uint32_t mode;
        if (tool_mode_find(&modes, "lines", at, n, &mode, err) < 0)
            return err->code;
        ret->lines |= UINT32_C(1) << mode;
        at += n;
        if (*at == '\0')
            return 0;
    }
}

static uint32_t points_of_line(uint32_t components, uint32_t order)
{
    const uint32_t n = LINE_BYTES / POINT_BYTES / (components * order);
    return n < FEW_POINTS ? FEW_POINTS : n > MOST_POINTS ? MOST_POINTS : n;
}

/* Returns "X.html" for "dir/X.cp", and "X.best.r8.html" for "dir/X.cp/best.r8". */
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

/* Closes a stream in memory. Fails if memory ran out. */
static int close_text(FILE *f, struct ts_err *err)
{
    const int failed = ferror(f);
    return fclose(f) != 0 || failed ? ts_fail(err, TS_ENOMEM, "out of memory for the page") : 0;
}

static FILE *open_text(struct text *ret, struct ts_err *err)
{
    FILE *f = open_memstream(&ret->at, &ret->bytes);
    if (f == NULL)
        ts_fail(err, TS_ENOMEM, "out of memory for the page");
    return f;
}

static int draw_page(const struct text *figures, struct text *ret, struct ts_err *err)
{
    struct ts_json_doc doc;
    FILE *f;
    int rc = ts_json_of("figures of the page", figures->at, figures->bytes, &doc, err);
    if (rc < 0)
        return rc;
    f = open_text(ret, err);
    if (f != NULL)
        report_template_put(f, report_html, doc.value);
    rc = f == NULL ? err->code : close_text(f, err);
    ts_json_free(&doc);
    return rc;
}

static int find_figures(struct model_view *v, const struct report_conf *conf, struct text *ret,
                        struct ts_err *err)
{
    FILE *f = NULL;
    struct report_scan scan = { 0 };
    struct report_figures figures = { 0 };
    struct ts_models_table models = { 0 };
    const struct report_parts page = {
        .view = v, .scan = &scan, .figures = &figures, .models = &models
    };
    double *weight = malloc(conf->components * sizeof *weight);
    int rc;
    v->shows = 1;
    rc = weight == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", v->model->path)
                        : report_scan_new(v, conf, &scan, err);
    if (rc == 0)
        rc = report_models_find(v->model, &models, err);
    for (uint32_t c = 0; c < conf->components && rc == 0; c++)
        weight[c] = v->model->weight[v->by_weight[c]];
    if (rc == 0)
        rc = report_figures_new(&scan, weight, &figures, err);
    if (rc == 0 && (f = open_text(ret, err)) == NULL)
        rc = err->code;
    if (rc == 0) {
        report_json_put(f, &page);
        rc = close_text(f, err);
    }
    ts_models_table_free(&models);
    report_figures_free(&figures);
    report_scan_free(&scan);
    free(weight);
    return rc;
}

static int put_page(const struct ts_cmd *cmd, const struct report_args *args, const char *out,
                    struct model_view *v, const struct report_conf *conf, struct ts_err *err)
{
    struct export_sink sink = { .fd = -1 };
    struct text figures = { 0 }, page = { 0 };
    char a[TS_NUM_CHARS], plain[4096];
    int rc = export_sink_open(out, args->force, "--output", &sink, err);
    if (rc == 0)
        rc = find_figures(v, conf, &figures, err);
    if (rc == 0)
        rc = draw_page(&figures, &page, err);
    if (rc == 0)
        rc = write_page(cmd, &sink, page.at, page.bytes, err);
    if (rc == 0 && sink.file != NULL) {
        tool_in_place(out);
        if (!args->quiet)
            printf("%s: %u component%s, %s\n", tool_plain(out, plain, sizeof plain),
                   conf->components, tool_plural(conf->components), ts_num_bytes(a, page.bytes));
        rc = tool_flushed(err);
    }
    export_sink_close(&sink);
    free(figures.at);
    free(page.at);
    return rc;
}

static int print_figures(struct model_view *v, const struct report_conf *conf, struct ts_err *err)
{
    struct text figures = { 0 };
    int rc = find_figures(v, conf, &figures, err);
    if (rc == 0) {
        fwrite(figures.at, 1, figures.bytes, stdout);
        rc = tool_flushed(err);
    }
    free(figures.at);
    return rc;
}

static int report(const struct ts_cmd *cmd, const struct report_args *args, struct model_view *v,
                  struct ts_err *err)
{
    struct report_conf conf = { .n_top = args->n_top };
    char *out = NULL;
    int rc = parse_lines(args->lines, v, &conf, err);
    conf.components = model_view_components(v, args->components);
    conf.n_points = points_of_line(conf.components, v->model->order);
    if (rc < 0)
        return rc;
    if (args->json)
        return print_figures(v, &conf, err);
    out = args->out != NULL ? strdup(args->out) : default_out(v->model->path);
    rc = out == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", v->model->path)
                     : put_page(cmd, args, out, v, &conf, err);
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
    if (status < 0 && args.json && args.out != NULL)
        status =
            tool_usage(cmd, "--json prints the figures and writes no page: leave out --output");
    if (status < 0) {
        int rc;
        tool_catch_signals();
        rc = model_view_open(cmd, n_operands, operand, &view, &err);
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
    .operands = "[MODEL] [TENSOR.tsh]",
    .max_operands = 2,
    .summary = "write an HTML report about a decomposition",
    .text =
        "Writes one HTML file that loads nothing and runs no script. Components come first, each "
        "as a card with the strongest indices by name, and a line plot for modes that are "
        "sequences. Then come the ranks of several models, the fit, diagnostics with a sentence "
        "on how to read each, and the tensor and the run. --json prints the figures of the page "
        "instead.\n\n"
        "MODEL and TENSOR.tsh are found as in tstream top. Without run.json, as with factors "
        "of other programs, the part about the run is missing. Factors are read once. Memory "
        "does not grow with their rows, except for 8 bytes a row in factors of used slices. With "
        "up to 64 components the file is smaller than 1 MB.",
    .examples = "tstream report amazon.cp\n  write amazon.html\n"
                "tstream report other.ktensor --lines 3 -o - > page.html\n"
                "  a report on a model of another program, whose third mode is time\n",
    .opts = report_opts,
    .run = run_report,
};
