/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_predict.c - tstream predict: computes the model's values of cells listed in a text. */
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/export/cell_lines.h"
#include "tools/export/cell_table.h"
#include "tools/common/common_opts.h"
#include "tools/export/export_sink.h"
#include "tools/report/model_view.h"
#include "tools/common/tool.h"
#include "tools/common/tool_term.h"
#include "tools/tstream.h"

/* text that a thread parses at a time; longer lines are refused */
#define PIECE_BYTES ((size_t)512 << 10)

enum { BASE_OF_TENSOR, BASE_0, BASE_1 };
enum { CELLS_TNS, CELLS_CSV, CELLS_TSV };

struct predict_args {
    const char *out;
    uint32_t threads;
    int format, cells, base, numbers, force, json, quiet;
};

#define AT(field) offsetof(struct predict_args, field)
static const struct ts_opt predict_opts[] = {
    TOOL_OUTPUT_FILE_OPT(AT(out)),
    TOOL_FORCE_FILE_OPT(0, AT(force)),
    { "format", 'f', TS_OPT_CHOICE, AT(format), "tns", CELL_FORMATS,
      "form of the output. tns: indices and numbers. csv, tsv: tables with names. npy: a NumPy "
      "array (float64) of the values of the model only, written to FILE" },
    { "cells", 0, TS_OPT_CHOICE, AT(cells), "tns", "tns|csv|tsv",
      "form of CELLS. tns: indices and numbers, separated by blanks. csv, tsv: tables as tshard "
      "export writes them, with names of indices, or numbers if there are none. The first line "
      "may name the modes" },
    { "base", 0, TS_OPT_CHOICE, AT(base), "input", "input|0|1",
      "first index in CELLS and in the output. input: that of the text that the tensor was built "
      "from" },
    TOOL_NUMBERS_OPT(AT(numbers)),
    TOOL_THREADS_OPT(AT(threads)),
    TOOL_QUIET_OPT(AT(quiet)),
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "print one JSON object on standard output. Cells are then written only to FILE" },
    { 0 },
};

/* A piece of the input text, with the buffers for its cells and its output. */
struct piece {
    char *text; /* text of the piece: PIECE_BYTES and padding */
    struct ts_text_piece in;
    struct ts_batch batch;
    /* for each cell of `batch`: value, model value and residual */
    double *value, *model, *residual;
    double *weight; /* for each cell of `batch`: its weight; 1 for lines without a weight */
    struct cell_text out;
    uint64_t unseen; /* number of cells with an index whose row in the model is all zeros */
    uint64_t line;   /* line of a failure, counted in this piece; 0: the failure has no line */
    int rc;
    struct ts_err err;
};

struct predict {
    const struct predict_args *args;
    struct model_view view;
    struct ts_kruskal *model;
    const char *path; /* path of the file with the cells */
    struct ts_text_input *input;
    struct ts_tns_rules rules;
    struct cell_table table; /* parser, if the file with the cells is a table */
    struct cell_lines lines;
    struct export_sink sink;
    int writes; /* 1: lines with the cells and their values are written */
    uint32_t threads;
    struct piece *piece; /* an array with one struct for each thread */
    int begun;           /* 1: the first line of the text was read, so that rules.no_value is set */
    uint64_t n_lines, n_cells, n_unseen, start_ns;
    int weighted; /* 1: in each line, a weight follows the value */
    /* sums over all cells, added in the order of the text so that they do not depend on threads */
    double squares, magnitudes, weights;
    struct tool_progress progress;
};

/* ---- one piece of the text ---- */

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Finds the last field of the line from p to `end`. Returns the number of its fields, without
 * comments. */
static uint32_t last_field(char *p, const char *end, char **from, char **to)
{
    uint32_t n = 0;
    while (p < end) {
        if (is_blank(*p)) {
            p++;
            continue;
        }
        if (*p == '#' || (p[0] == '/' && p[1] == '/'))
            break;
        n++;
        *from = p;
        while (p < end && !is_blank(*p))
            p++;
        *to = p;
    }
    return n;
}

/* Parses the weight at the end of every line and replaces it by blanks, so that lines end with the
 * value. */
static int take_weights(const struct predict *p, struct piece *w)
{
    const uint32_t wanted = p->rules.order + 2;
    char *line = w->text, *const end = w->text + w->in.bytes;
    uint64_t n = 0;
    while (line < end) {
        char *next = memchr(line, '\n', (size_t)(end - line)), *from = line, *to = line;
        const uint32_t fields = last_field(line, next, &from, &to);
        int rc = 0;
        w->line++;
        if (fields > 0 && fields != wanted)
            return ts_fail(&w->err, TS_EFORMAT, "found %u field%s, expected %u", fields,
                           tool_plural(fields), wanted);
        if (fields > 0)
            rc = ts_tns_value(from, to, &w->weight[n], &w->err);
        if (rc == 0 && fields > 0 && !(w->weight[n] >= 0 && isfinite(w->weight[n])))
            rc = ts_fail(&w->err, TS_EFORMAT, "the weight %.*s is not a number of 0 or more",
                         (int)(to - from), from);
        if (rc < 0)
            return rc;
        n += fields > 0;
        memset(from, ' ', (size_t)(to - from));
        line = next + 1;
    }
    w->line = 0;
    return 0;
}

/* Parses the cells of a piece, computes the model's values, and makes the output text. */
static int work_piece(const struct predict *p, uint32_t thread, struct piece *w)
{
    const double *number[CELL_NUMBERS] = { w->value, w->model, w->residual };
    const struct ts_batch *b = &w->batch;
    int rc = 0;
    ts_batch_clear(&w->batch);
    w->out.n = 0;
    w->line = 0;
    if (p->args->cells != CELLS_TNS)
        rc = cell_table_parse(&p->table, &p->rules, w->text, w->in.bytes, &w->batch,
                              p->weighted ? w->weight : NULL, &w->line, &w->err);
    else if (p->weighted)
        rc = take_weights(p, w);
    if (rc == 0 && p->args->cells == CELLS_TNS)
        rc = ts_tns_parse(&p->rules, w->text, w->in.bytes, &w->batch, &w->line, &w->err);
    if (rc < 0)
        return rc;
    w->line = 0;
    /* cannot fail: the rules check indices against the sizes */
    (void)ts_cpd_predict(p->model, b->n, b->index, w->model, NULL);
    w->unseen = ts_cpd_unseen(p->model, b->n, b->index, w->model);
    if (p->rules.no_value)
        number[0] = w->model;
    for (uint64_t i = 0; i < b->n && !p->rules.no_value; i++) {
        w->value[i] = ts_value_of_bits(b->value[i], 8);
        w->residual[i] = w->value[i] - w->model[i];
    }
    if (!p->writes)
        return 0;
    if (p->lines.bare)
        number[0] = w->model;
    rc = cell_lines_put(&p->lines, thread, b->n, b->index, number, &w->out, &w->err);
    if (rc == 0 && p->sink.gzip && w->out.n > 0) {
        struct cell_text packed = { 0 };
        rc = export_sink_pack(w->out.at, w->out.n, &packed.at, &packed.room, &packed.n, &w->err);
        free(w->out.at);
        w->out = packed;
    }
    return rc;
}

/* Writes the output of a piece, and adds its errors to the sums over all cells. Called in the order
 * of the text. */
static int end_piece(struct predict *p, struct piece *w, struct ts_err *err)
{
    if (w->rc < 0) {
        *err = w->err;
        return w->line == 0 ? w->rc
                            : ts_fail(err, w->rc, "%s: line %" PRIu64 ": %s",
                                      strcmp(p->path, "-") == 0 ? "standard input" : p->path,
                                      p->n_lines + w->line, w->err.text);
    }
    p->n_lines += w->batch.n_lines;
    p->n_cells += w->batch.n;
    p->n_unseen += w->unseen;
    for (uint64_t i = 0; i < w->batch.n && !p->rules.no_value; i++) {
        const double weight = p->weighted ? w->weight[i] : 1;
        p->squares += weight * w->residual[i] * w->residual[i];
        p->magnitudes += weight * fabs(w->residual[i]);
        p->weights += weight;
    }
    return p->writes ? export_sink_write(&p->sink, w->out.at, w->out.n, err) : 0;
}

/* ---- all pieces of the text ---- */

/* Finds out from the first line that is not empty whether lines have values and weights. */
static int begin(struct predict *p, const struct piece *w, struct ts_err *err)
{
    const int is_table = p->args->cells != CELLS_TNS;
    static const char *const name[] = { "value", "model", "residual" };
    const uint32_t order = p->rules.order;
    const char *mode_name[TS_MAX_ORDER];
    struct cell_text head = { 0 };
    uint32_t n = is_table ? 0 : ts_tns_fields(w->text, w->in.bytes, NULL);
    char *line = w->text;
    int rc = is_table ? cell_table_first(&p->table, w->text, w->in.bytes, &n, &line, err) : 0;
    if (rc < 0)
        return rc;
    for (uint32_t m = 0; m < order; m++)
        mode_name[m] = model_view_mode_name(&p->view, m);
    if (is_table && n > 0 && cell_table_is_head(&p->table, line, order, mode_name))
        /* blanks the header, which also says how many columns there are */
        memset(line, ' ', strcspn(line, "\n"));
    p->begun = n > 0 || w->in.bytes == 0;
    p->weighted = n == order + 2; /* as in lines that tshard export writes for cells with weights */
    /* The parser refuses any other number of fields, with the number of the line. */
    p->rules.no_value = n != order + 1 && !p->weighted;
    p->lines.n_numbers = p->rules.no_value || p->lines.bare ? 1 : 3;
    if (!p->begun || !p->writes)
        return 0;
    rc = cell_lines_head(&p->lines, mode_name, p->rules.no_value ? name + 1 : name, 0, &head, err);
    if (rc == 0 && p->sink.gzip && head.n > 0) {
        struct cell_text packed = { 0 };
        rc = export_sink_pack(head.at, head.n, &packed.at, &packed.room, &packed.n, err);
        free(head.at);
        head = packed;
    }
    if (rc == 0)
        rc = export_sink_write(&p->sink, head.at, head.n, err);
    free(head.at);
    return rc;
}

/* Reads up to one piece for each thread. Returns the number of pieces; *rc is the result of the
 * read after them. */
static uint32_t read_pieces(struct predict *p, int *rc, struct ts_err *err)
{
    uint32_t n = 0;
    for (; n < p->threads; n++) {
        struct piece *w = &p->piece[n];
        *rc = ts_text_input_next(p->input, w->text, &w->in, err);
        if (*rc < 0 && w->in.bad_line) { /* it is reported after the pieces that were read */
            w->rc = *rc;
            w->err = *err;
            w->line = 1;
            return n + 1;
        }
        if (*rc == 0 && !p->begun)
            *rc = begin(p, w, err);
        if (*rc < 0 || w->in.bytes == 0)
            break;
        w->rc = 0;
    }
    return n;
}

static int run_pieces(struct predict *p, struct ts_err *err)
{
    uint32_t n;
    int rc = 0, read = 0;
    tool_progress_start(&p->progress, "cells", "bytes", ts_text_input_total(p->input));
    do {
        struct ts_err why;
        n = read_pieces(p, &read, &why);
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 1) if (n > 1)
        for (uint32_t i = 0; i < n; i++)
            if (p->piece[i].rc == 0)
                p->piece[i].rc = work_piece(p, (uint32_t)omp_get_thread_num(), &p->piece[i]);
        for (uint32_t i = 0; i < n && rc == 0; i++)
            rc = end_piece(p, &p->piece[i], err);
        if (rc == 0 && read < 0) {
            *err = why;
            rc = read;
        }
        if (rc == 0)
            rc = ts_stop_check(&tool_stop, err);
        if (n > 0)
            tool_progress_update(&p->progress, p->piece[n - 1].in.done_bytes);
    } while (rc == 0 && n == p->threads);
    tool_progress_end(&p->progress);
    return rc;
}

/* Rewrites the header with the number of cells, which is known at the end. */
static int count_cells(const struct predict *p, struct ts_err *err)
{
    struct cell_text head = { 0 };
    int rc = 0;
    if (p->lines.format != CELL_NPY || !p->writes)
        return 0;
    rc = cell_lines_head(&p->lines, NULL, NULL, p->n_cells, &head, err);
    if (rc == 0 && pwrite(p->sink.fd, head.at, head.n, 0) != (ssize_t)head.n)
        rc = ts_fail_errno(err, TS_EIO, "%s: writing", p->args->out);
    free(head.at);
    return rc;
}

/* ---- opening the files ---- */

static int open_pieces(struct predict *p, struct ts_err *err)
{
    /* most cells of a piece, because an index takes at least a digit and a blank */
    const uint64_t room = PIECE_BYTES / 2 / p->rules.order + 1;
    int rc = 0;
    p->piece = calloc(p->threads, sizeof *p->piece);
    for (uint32_t i = 0; i < p->threads && p->piece != NULL && rc == 0; i++) {
        struct piece *w = &p->piece[i];
        w->text = malloc(PIECE_BYTES + TS_TEXT_PAD);
        w->value = malloc(4 * room * sizeof *w->value);
        if (w->text == NULL || w->value == NULL)
            rc = TS_ENOMEM;
        else
            rc = ts_batch_new(p->rules.order, room, &w->batch, NULL);
        if (rc == 0) {
            w->model = w->value + room;
            w->residual = w->model + room;
            w->weight = w->residual + room;
            memset(w->text + PIECE_BYTES, 0, TS_TEXT_PAD);
        }
    }
    return p->piece == NULL || rc < 0 ? ts_fail(err, TS_ENOMEM, "out of memory for cells") : 0;
}

static void close_pieces(struct predict *p)
{
    for (uint32_t i = 0; i < p->threads && p->piece != NULL; i++) {
        free(p->piece[i].text);
        free(p->piece[i].value);
        free(p->piece[i].out.at);
        ts_batch_free(&p->piece[i].batch);
    }
    free(p->piece);
}

/* Opens the table of index names by which cells are parsed: those of the tensor, else the model's
 * own. Without a tensor, the labels of the output come from this table, too. */
static int open_table(struct predict *p, struct ts_err *err)
{
    struct ts_model_names *names = NULL;
    const int shows = !p->args->numbers && cell_lines_show_labels(&p->lines);
    int rc = 0;
    if (p->args->cells == CELLS_TNS && (p->view.tensor != NULL || !shows))
        return 0;
    if (p->view.tensor != NULL)
        rc = ts_model_names_of_tensor(p->view.tensor, &names, err);
    else
        names = ts_model_names_keep(p->view.names);
    if (rc == 0)
        rc = cell_table_open(names, p->args->cells == CELLS_CSV ? ',' : '\t', &p->table, err);
    ts_model_names_drop(names);
    if (shows)
        p->lines.table = &p->table;
    return rc;
}

static int open_names(struct predict *p, struct ts_err *err)
{
    const char *tmp = getenv("TMPDIR");
    struct ts_row_names_conf conf = { .tensor = p->view.tensor,
                                      .labels = 1,
                                      .threads = p->threads,
                                      .tmp = tmp != NULL && *tmp != '\0' ? tmp : ".",
                                      .stop = &tool_stop };
    struct ts_machine machine;
    if (p->view.tensor == NULL || p->args->numbers || !cell_lines_show_labels(&p->lines))
        return 0;
    ts_machine_get(&machine);
    conf.bytes = machine.free_bytes / 4;
    if (conf.bytes < ts_row_names_least(&conf))
        conf.bytes = ts_row_names_least(&conf);
    if (conf.bytes > ts_row_names_most(&conf))
        conf.bytes = ts_row_names_most(&conf);
    return ts_row_names_open(&conf, &p->lines.names, err);
}

static void set_rules(struct predict *p)
{
    const uint32_t base =
        p->args->base == BASE_OF_TENSOR ? model_view_base(&p->view) : (uint32_t)p->args->base - 1;
    p->rules = (struct ts_tns_rules){ .order = p->model->order,
                                      .base = base,
                                      .value_bytes = 8,
                                      .fixed = 1,
                                      .fixed_by = "the model",
                                      .numbers = 1,
                                      .skip_missing = -1,
                                      .zeros = 1 };
    memcpy(p->rules.dim, p->model->dim, p->model->order * sizeof *p->rules.dim);
    p->lines = (struct cell_lines){ .order = p->model->order,
                                    .format = (enum cell_format)p->args->format,
                                    .screen = export_sink_is_screen(p->args->out,
                                                                    p->args->format == CELL_TNS),
                                    .base = base,
                                    .bare = p->args->format == CELL_NPY };
}

static int open_all(struct predict *p, struct ts_err *err)
{
    int rc = model_view_kruskal(&p->view, &p->model, err);
    if (rc < 0)
        return rc;
    set_rules(p);
    p->writes = p->args->out != NULL || !p->args->json;
    if (p->args->out != NULL && p->view.tensor != NULL)
        rc = tool_outside(p->args->out, p->view.tensor->path, err);
    if (rc == 0)
        rc = tool_reads(p->path, err);
    if (rc == 0)
        rc = ts_text_input_open(&p->path, 1, PIECE_BYTES, &tool_stop, &p->input, err);
    if (rc == 0)
        rc = open_table(p, err);
    if (rc == 0)
        rc = open_pieces(p, err);
    if (rc == 0)
        rc = open_names(p, err);
    return rc == 0 ? export_sink_open(p->args->out, p->args->force, "--output", &p->sink, err) : rc;
}

/* ---- the printed report ---- */

static double mean(const struct predict *p, double sum)
{
    if (p->rules.no_value || p->n_cells == 0)
        return NAN;
    /* as tstream score reports a mean over cells whose weights are all 0 */
    return p->weights > 0 ? sum / p->weights : 0;
}

static int report(const struct predict *p, struct ts_err *err)
{
    const uint64_t ns = ts_clock_ns() - p->start_ns;
    const double rmse = sqrt(mean(p, p->squares)), mae = mean(p, p->magnitudes);
    char n[TS_NUM_CHARS], time[TS_NUM_CHARS];
    struct tool_json j;
    if (p->args->json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "event", "predict");
        tool_json_str(&j, "model", p->view.model->path);
        tool_json_str(&j, "output", p->args->out);
        tool_json_u64(&j, "cells", p->n_cells);
        tool_json_f64(&j, "rmse", rmse);
        tool_json_f64(&j, "mae", mae);
        tool_json_u64(&j, "unseen_cells", p->n_unseen);
        tool_json_f64(&j, "seconds", (double)ns * 1e-9);
        tool_json_close(&j);
    } else if (p->args->out != NULL) {
        printf("%s cell%s", ts_num_count(n, p->n_cells), tool_plural(p->n_cells));
        if (isfinite(rmse))
            printf(": RMSE %.6g, MAE %.6g", rmse, mae);
        printf(", %s\n", ts_num_duration(time, ns));
    }
    return tool_flushed(err);
}

static int predict(const struct ts_cmd *cmd, struct predict *p, struct ts_err *err)
{
    struct ts_err warn = { 0 };
    int rc = open_all(p, err);
    if (rc == 0)
        rc = run_pieces(p, err);
    if (rc == 0)
        rc = count_cells(p, err);
    if (rc == 0)
        rc = export_sink_commit(&p->sink, &warn, err);
    export_sink_close(&p->sink);
    tool_warn(cmd, &warn);
    if (rc == 0 && p->args->out != NULL)
        tool_in_place(p->args->out);
    if (rc == 0)
        model_view_note_unseen(cmd, p->n_unseen, p->n_cells, "cells");
    return rc == 0 ? report(p, err) : rc;
}

static void close_all(struct predict *p)
{
    close_pieces(p);
    cell_table_close(&p->table);
    ts_row_names_close(p->lines.names);
    ts_text_input_close(p->input);
    ts_kruskal_free(p->model);
    model_view_close(&p->view);
}

static int run_predict(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct predict_args args;
    struct predict p = { .args = &args, .sink = { .fd = -1 } };
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && tool_threads_check(args.threads, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && args.out != NULL && strcmp(args.out, "-") == 0)
        args.out = NULL;
    if (status < 0 && args.format == CELL_NPY &&
        (args.out == NULL ||
         (strlen(args.out) > 3 && strcmp(args.out + strlen(args.out) - 3, ".gz") == 0)))
        status = tool_usage(cmd, "--format npy needs --output FILE, which is not compressed: the "
                                 "number of cells stands at its start");
    if (status < 0) {
        char *which[2] = { operand[0], n_operands > 2 ? operand[2] : NULL };
        int rc;
        p.start_ns = ts_clock_ns();
        p.path = operand[1];
        tool_catch_signals();
        rc = ts_threads_get(args.threads, 0, &p.threads, &err);
        if (rc == 0)
            rc = model_view_open(cmd, n_operands - 1, which, &p.view, &err);
        if (rc == 0)
            rc = predict(cmd, &p, &err);
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
        if (rc == 0)
            export_sink_note_table(cmd, args.out, args.format != CELL_TNS);
        close_all(&p);
    }
    free(operand);
    return status;
}

const struct ts_cmd tstream_predict = {
    .program = "tstream",
    .name = "predict",
    .operands = "MODEL CELLS|- [TENSOR.tsh]",
    .min_operands = 2,
    .max_operands = 3,
    .summary = "compute the values of a model at given cells",
    .text =
        "Writes a line for each line of CELLS, in the same order: the indices of the cell and "
        "the value of the model, in float64. If a line of CELLS has a value, the output has this "
        "value, the value of the model, and the residual (value - model). The command then also "
        "prints the root mean square (RMSE) and the mean magnitude (MAE) of the residuals. A "
        "weight after the value, as tshard export writes it, counts as in tstream score and is "
        "not written. A note counts cells with an index whose row in the model is all zeros, "
        "such as an index that was never seen. There the 0 of the model is not a prediction.\n\n"
        "CELLS is text, which may be compressed, or - for standard input. Each line has an index "
        "for each mode, and optionally a value (which may be 0) and its weight, separated by "
        "blanks. A # starts a comment. With --cells csv or tsv it is a table of names. Text of "
        "any length needs only a few buffers. A model in .npy files (tstream cp --format npy) is "
        "mapped and can be larger than memory.\n\n"
        "MODEL is any model that tstream fit takes. Names of indices are those of TENSOR.tsh. Without "
        "it, the tensor is found as in tstream top, and a model without one has its own names. TENSOR.tsh "
        "is refused if an index has another name in the model.",
    .examples =
        "tstream predict amazon.cp cells.tns\n  print the values of the model at some cells\n"
        "tstream predict amazon.cp test.tns.gz --json\n  compute the error at unseen values\n"
        "tstream predict amazon.cp cells.tns --format csv -o values.csv\n  write a table with names\n",
    .opts = predict_opts,
    .run = run_predict,
};
