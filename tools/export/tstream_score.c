/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_score.c - tstream score: computes value, model and residual at a tensor's nonzeros. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/common/array_opts.h"
#include "tools/export/cell_lines.h"
#include "tools/common/common_opts.h"
#include "tools/common/engine_note.h"
#include "tools/export/export_sink.h"
#include "tools/report/model_view.h"
#include "tools/export/ordered_out.h"
#include "tools/common/tool.h"
#include "tools/common/tool_mode.h"
#include "tools/common/tool_ranks.h"
#include "tools/common/tool_term.h"
#include "tools/tstream.h"
#include "tools/common/tstream_ranks.h"

struct score_args {
    const char *out, *mode_text;
    uint64_t host_bytes;
    uint32_t mode, top, threads;
    int by_slice, format, numbers, precision, force, json, quiet;
    struct array_opts array;
    struct ts_processor processor;
};

#define AT(field) offsetof(struct score_args, field)
static const struct ts_opt score_opts[] = {
    { "output", 'o', TS_OPT_STRING, AT(out), NULL, "FILE",
      "file for a line of each nonzero, or for the lines of --top or --by-slice; - is standard "
      "output. It is compressed if its name ends in .gz. It appears when it is complete and on "
      "disk" },
    TOOL_FORCE_FILE_OPT(0, AT(force)),
    { "top", 'n', TS_OPT_U32, AT(top), "0", "N",
      "write only the N nonzeros with the largest residuals, the largest first" },
    { "by-slice", 0, TS_OPT_FLAG, AT(by_slice), NULL, NULL,
      "write a line for each slice of mode K with a cell that counts: number of nonzeros, sums of "
      "values and of the model, RMSE and MAE" },
    { "mode", 'k', TS_OPT_STRING, AT(mode_text), "1", "K|NAME",
      "read the copy that is sorted for mode K, or for the mode of this name. Nonzeros are written in its order" },
    { "format", 'f', TS_OPT_CHOICE, AT(format), "tns", CELL_FORMATS,
      "form of the output. tns: indices and numbers. csv, tsv: tables with names. npy: a NumPy "
      "array (float64) with a row for each line" },
    TOOL_NUMBERS_OPT(AT(numbers)),
    { "precision", 'p', TS_OPT_CHOICE, AT(precision), "float64", "float32|float64",
      "precision of factors and products. float32 takes half the memory and time. Sums are "
      "float64" },
    TOOL_THREADS_OPT(AT(threads)),
    TOOL_HOST_MEMORY_OPT(AT(host_bytes)),
    { "gpus", 'g', TS_OPT_STRING, AT(processor) + offsetof(struct ts_processor, gpus), NULL,
      "N|LIST",
      "compute the sums on GPUs: N GPUs, or a list of GPU numbers such as 0,2. A list needs a "
      "comma: '2,' is GPU 2 alone. The result does not depend on it. Default: CPU cores. Single "
      "nonzeros are always computed there" },
    { "gpu-memory", 0, TS_OPT_SIZE, AT(processor) + offsetof(struct ts_processor, device_bytes),
      NULL, "SIZE",
      "memory of each GPU for the whole command. Shards that do not fit pass through it. "
      "Default: the free memory, less a reserve" },
    ARRAY_OPTS(AT(array)),
    TOOL_QUIET_OPT(AT(quiet)),
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "print one JSON object on standard output. Nonzeros and slices are then written only to "
      "FILE" },
    { 0 },
};

#define LINES_AT_A_TIME 1024u

/* The buffers of a thread for its output on the nonzeros of a partition. */
struct pen {
    struct cell_text text;
    uint64_t index[TS_BLOCK_NNZ * TS_MAX_ORDER];
    double residual[TS_BLOCK_NNZ];
};

struct scoring {
    const struct ts_cmd *cmd;
    const struct score_args *args;
    struct model_view view;
    struct ts_kruskal *model;
    uint32_t threads;
    uint64_t name_bytes;
    int wanted; /* 1: some process writes lines of cells or slices */
    int writes; /* 1: this process writes the lines */
    struct cell_lines lines;
    struct export_sink sink;
    struct ordered_out order;
    struct pen *pen; /* an array with one struct for each thread */
    struct ts_score score;
    const char *backend;
    struct tool_progress progress;
    _Atomic uint64_t done_nnz;
    uint64_t start_ns, ns, bytes_read;
};

/* Shows the progress. Computing threads call it after each shard, which has nnz nonzeros. */
static void count_done(void *ctx, uint64_t nnz)
{
    struct scoring *s = ctx;
    tool_progress_update(&s->progress, atomic_fetch_add(&s->done_nnz, nnz) + nnz);
}

/* ---- lines of cells ---- */

static int pack(const struct scoring *s, struct cell_text *t, struct ts_err *err)
{
    struct cell_text packed = { 0 };
    int rc;
    if (!s->sink.gzip || t->n == 0)
        return 0;
    rc = export_sink_pack(t->at, t->n, &packed.at, &packed.room, &packed.n, err);
    free(t->at);
    *t = packed;
    return rc;
}

/* Looks up the input indices of n cells. */
static int find_indices(const struct scoring *s, uint32_t thread, uint32_t n,
                        const uint32_t *const row[], uint64_t *index, struct ts_err *err)
{
    const uint32_t order = s->lines.order;
    int rc = 0;
    for (uint32_t m = 0; m < order && rc == 0; m++)
        for (uint32_t i = 0; i < n && rc == 0; i++)
            rc = ts_row_index(s->lines.names, thread, m, row[m][i], &index[i * order + m], err);
    return rc;
}

static int put_cells(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err)
{
    struct scoring *s = ctx;
    struct pen *p = &s->pen[thread];
    const double *number[CELL_NUMBERS] = { c->value, c->model, p->residual };
    int rc = find_indices(s, thread, c->n, c->row, p->index, err);
    if (c->first == 0)
        p->text.n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        p->residual[i] = c->value[i] - c->model[i];
    if (rc == 0)
        rc = cell_lines_put(&s->lines, thread, c->n, p->index, number, &p->text, err);
    if (rc == 0 && c->last)
        rc = pack(s, &p->text, err);
    if (rc == 0 && c->last)
        rc = ordered_out_put(&s->order, c->partition, p->text.at, p->text.n, err);
    return rc;
}

/* Writes the lines that are in the text buffer of the first thread, and empties the buffer. */
static int write_text(struct scoring *s, struct ts_err *err)
{
    struct cell_text *t = &s->pen[0].text;
    int rc = pack(s, t, err);
    if (rc == 0)
        rc = export_sink_write(&s->sink, t->at, t->n, err);
    t->n = 0;
    return rc;
}

/* Writes the header. Unknown cells of a dense tensor have no line, so they must be counted first.
 * With --by-slice, the sum of each slice is needed first: a slice of weight 0 has no line. */
static int put_head(struct scoring *s, struct ts_err *err)
{
    static const char *const of_cell[] = { "value", "model", "residual" };
    static const char *const of_slice[] = { "nonzeros", "value", "model", "rmse", "mae" };
    const struct ts_tensor *t = s->view.tensor;
    const char *mode_name[TS_MAX_ORDER];
    const uint64_t cells = ts_nnz(t) - (t->dense == NULL ? 0 : t->dense->n_unknown);
    uint64_t lines = s->args->by_slice ? 0 : cells;
    int rc;
    for (uint64_t i = 0; i < s->score.n_slices; i++)
        lines += s->score.slice[i].weight > 0;
    if (s->args->top > 0 && s->args->top < lines)
        lines = s->args->top;
    for (uint32_t m = 0; m < s->lines.order; m++)
        mode_name[m] = model_view_mode_name(&s->view, s->lines.first_mode + m);
    rc = cell_lines_head(&s->lines, mode_name, s->args->by_slice ? of_slice : of_cell, lines,
                         &s->pen[0].text, err);
    return rc == 0 ? write_text(s, err) : rc;
}

static int put_top(struct scoring *s, struct ts_err *err)
{
    struct pen *p = &s->pen[0];
    int rc = 0;
    for (uint32_t i = 0; i < s->score.n_top && rc == 0; i++) {
        const struct ts_score_cell *c = &s->score.top[i];
        const double *number[CELL_NUMBERS] = { &c->value, &c->model, p->residual };
        const uint32_t *row[TS_MAX_ORDER];
        for (uint32_t m = 0; m < s->lines.order; m++)
            row[m] = &c->row[m];
        p->residual[0] = c->value - c->model;
        rc = find_indices(s, 0, 1, row, p->index, err);
        if (rc == 0)
            rc = cell_lines_put(&s->lines, 0, 1, p->index, number, &p->text, err);
        if (rc == 0 && (i + 1) % LINES_AT_A_TIME == 0)
            rc = write_text(s, err);
    }
    return rc == 0 ? write_text(s, err) : rc;
}

/* The mean of a sum over nonzeros; NaN if all their weights are 0. */
static double mean_of(const struct ts_score_sums *x, double sum)
{
    return x->weight > 0 ? sum / x->weight : NAN;
}

static int put_slices(struct scoring *s, struct ts_err *err)
{
    struct pen *p = &s->pen[0];
    int rc = put_head(s, err);
    for (uint64_t i = 0; i < s->score.n_slices && rc == 0; i++) {
        const struct ts_score_sums *x = &s->score.slice[i];
        const double n = (double)x->n, rmse = sqrt(mean_of(x, x->squares));
        const double mae = mean_of(x, x->magnitudes);
        const double *number[CELL_NUMBERS] = { &n, &x->value, &x->model, &rmse, &mae };
        rc = ts_row_index(s->lines.names, 0, s->args->mode - 1, i, p->index, err);
        if (rc == 0 && x->weight > 0)
            rc = cell_lines_put(&s->lines, 0, 1, p->index, number, &p->text, err);
        if (rc == 0 && (i + 1) % LINES_AT_A_TIME == 0)
            rc = write_text(s, err);
        rc = rc == 0 ? ts_stop_check(&tool_stop, err) : rc;
    }
    return rc == 0 ? write_text(s, err) : rc;
}

/* ---- opening the tensor, the model and the output ---- */

static const char *tmp_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    return tmp != NULL && *tmp != '\0' ? tmp : ".";
}

static int open_names(struct scoring *s, struct ts_err *err)
{
    struct ts_row_names_conf conf = { .tensor = s->view.tensor,
                                      .labels =
                                          cell_lines_show_labels(&s->lines) && !s->args->numbers,
                                      .threads = s->threads,
                                      .tmp = tmp_dir(),
                                      .stop = &tool_stop };
    struct ts_machine machine;
    ts_machine_get(&machine);
    conf.bytes = machine.free_bytes / 8;
    if (conf.bytes < ts_row_names_least(&conf))
        conf.bytes = ts_row_names_least(&conf);
    if (conf.bytes > ts_row_names_most(&conf))
        conf.bytes = ts_row_names_most(&conf);
    s->name_bytes = conf.bytes;
    return ts_row_names_open(&conf, &s->lines.names, err);
}

static int open_lines(struct scoring *s, struct ts_err *err)
{
    const struct score_args *args = s->args;
    const struct ts_tensor *t = s->view.tensor;
    int rc;
    s->wanted = args->out != NULL || (!args->json && (args->top > 0 || args->by_slice));
    s->writes = s->wanted && tool_ranks_speaks();
    if (!s->writes)
        return 0;
    s->lines =
        (struct cell_lines){ .order = args->by_slice ? 1 : ts_order(t),
                             .first_mode = args->by_slice ? args->mode - 1 : 0,
                             .format = (enum cell_format)args->format,
                             .screen = export_sink_is_screen(args->out, args->format == CELL_TNS),
                             .base = ts_first_index(t),
                             .narrow = !args->by_slice && ts_value_bytes(t) == 4,
                             .n_numbers = args->by_slice ? 5 : 3 };
    s->pen = calloc(s->threads, sizeof *s->pen);
    rc = s->pen == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for lines") : 0;
    if (rc == 0 && args->out != NULL)
        rc = tool_outside(args->out, ts_path(t), err);
    if (rc == 0)
        rc = export_sink_open(args->out, args->force, "--output", &s->sink, err);
    if (rc == 0)
        rc = open_names(s, err);
    if (rc == 0)
        rc = ordered_out_open(&s->order, &s->sink, tmp_dir(),
                              ts_tensor_partitions(t, args->mode - 1), err);
    return rc;
}

static void close_all(struct scoring *s)
{
    ts_score_free(&s->score);
    ordered_out_close(&s->order);
    for (uint32_t i = 0; i < s->threads && s->pen != NULL; i++)
        free(s->pen[i].text.at);
    free(s->pen);
    ts_row_names_close(s->lines.names);
    export_sink_close(&s->sink);
    ts_kruskal_free(s->model);
    model_view_close(&s->view);
}

/* ---- the pass over the tensor ---- */

static int compute(struct scoring *s, const struct ts_engine *e, struct ts_err *err)
{
    const struct score_args *args = s->args;
    const int all = s->writes && args->top == 0 && !args->by_slice;
    const struct ts_score_conf conf = { .tensor = e->tensor,
                                        .backend = e->backend,
                                        .be = e->be,
                                        .feed = e->feed,
                                        .model = s->model,
                                        .mode = args->mode - 1,
                                        .threads = e->threads,
                                        .top = s->wanted ? args->top : 0,
                                        .slices = s->wanted && args->by_slice,
                                        .take = all ? put_cells : NULL,
                                        .ctx = s,
                                        .unseen = 1,
                                        .rows = all ? (1u << ts_order(e->tensor)) - 1 : 0,
                                        .comm = tool_ranks(),
                                        .stop = &tool_stop };
    struct ts_feed_stats stats;
    int rc;
    tool_progress_start(&s->progress, "scores", "nonzeros", ts_nnz(e->tensor) / tool_ranks_count());
    rc = ts_score_run(&conf, &s->score, err);
    tool_progress_end(&s->progress);
    if (rc < 0)
        return rc;
    ts_feed_stats(e->feed, &stats);
    engine_note_feed(s->cmd, &stats);
    if (s->score.unseen != TS_SCORE_UNKNOWN)
        model_view_note_unseen(s->cmd, s->score.unseen, s->score.all.n,
                               e->tensor->dense != NULL ? "cells" : "nonzeros");
    s->bytes_read = stats.bytes_read;
    return 0;
}

/* Checks that all ranks (processes) have the same options and the same model. */
static int same_ranks(const struct scoring *s, int rc, struct ts_err *err)
{
    const struct score_args *args = s->args;
    char text[512];
    uint64_t weights = 0;
    for (uint32_t r = 0; r < s->model->rank; r++) {
        uint64_t bits;
        memcpy(&bits, &s->model->weight[r], sizeof bits);
        weights = ts_mix(weights ^ bits);
    }
    snprintf(text, sizeof text, "%u %u %d %d %d %u %016" PRIx64 " %016" PRIx64 " %.400s",
             args->mode, args->top, args->by_slice, s->wanted, args->precision, s->model->rank,
             weights, ts_model_sign(s->view.model), s->view.model->path);
    return tstream_ranks_same(s->view.tensor, text, rc, err);
}

/* Whether the user requested GPUs. */
static int on_gpus(const struct score_args *args)
{
    return ts_processor_gpus(&args->processor) > 0;
}

/* The capabilities that the backend needs: lines are computed on CPU cores, and sums also on
 * GPUs. */
static uint32_t needs_of(const struct score_args *args)
{
    return !on_gpus(args) ? TS_CAN(CELLS) : TS_CAN(SCORES) | (args->by_slice ? TS_CAN(SLICES) : 0);
}

static int open_and_compute(struct scoring *s, struct ts_err *err)
{
    const struct score_args *args = s->args;
    const struct ts_tensor *t = s->view.tensor;
    struct ts_engine_conf ec = {
        .path = ts_path(t),
        .tensor = t,
        .rank = s->model->rank,
        .threads = s->threads,
        .precision = args->precision,
        .host_bytes = args->host_bytes,
        .processor = on_gpus(args) ? args->processor : (struct ts_processor){ .cpu = 1 },
        .needs = needs_of(args),
        .only_mode = (int)args->mode - 1,
        .comm = tool_ranks(),
        .unknown = 1,
        .own_bytes = ts_score_bytes(t, args->mode - 1, s->model->rank, s->threads,
                                    tool_ranks_count(), args->top, args->by_slice) +
                     s->name_bytes,
        .stop = &tool_stop,
        .done = count_done,
        .done_ctx = s
    };
    struct ts_engine e = { 0 };
    int rc;
    if (on_gpus(args) && t->dense != NULL)
        return ts_fail(err, TS_EARG, "%s: scores of a dense tensor are computed on CPU cores only",
                       ts_path(t));
    for (uint32_t m = 0; m < s->model->order; m++)
        ec.own_bytes += s->model->map[m].memory == NULL ? s->model->bytes[m] : 0;
    rc = ts_engine_open(&ec, &e, err);
    rc = same_ranks(s, rc, err);
    if (rc == 0) {
        tstream_ranks_note(s->cmd, &e);
        s->backend = e.backend->name;
        rc = s->writes && !s->args->by_slice ? put_head(s, err) : 0;
    }
    if (rc == 0)
        rc = compute(s, &e, err);
    ts_engine_close(&e);
    return rc;
}

/* ---- the printed report ---- */

static void print_words(const struct scoring *s)
{
    const struct ts_score_sums *x = &s->score.all;
    char a[TS_NUM_CHARS], time[TS_NUM_CHARS];
    struct tool_words w = { .indent = 15, .columns = tool_columns() };
    tool_words_start(&w, s->view.tensor->dense != NULL ? "cells" : "nonzeros");
    if (x->weight == 0) {
        tool_words_putf(&w, "%s, all of weight 0: there is no error, and no mean, %s",
                        ts_num_count(a, x->n), ts_num_duration(time, s->ns));
        tool_words_end(&w);
        return;
    }
    tool_words_putf(&w, "%s: RMSE %.6g, MAE %.6g, %s", ts_num_count(a, x->n),
                    sqrt(mean_of(x, x->squares)), mean_of(x, x->magnitudes),
                    ts_num_duration(time, s->ns));
    tool_words_start(&w, "mean");
    tool_words_putf(&w, "of values %.6g, of the model there %.6g", mean_of(x, x->value),
                    mean_of(x, x->model));
    if (isfinite(s->score.gaussian) || isfinite(s->score.poisson))
        tool_words_start(&w, "log-likelihood");
    if (isfinite(s->score.gaussian))
        tool_words_putf(&w, "Gaussian %.9g%s", s->score.gaussian,
                        isfinite(s->score.poisson) ? "," : "");
    if (isfinite(s->score.poisson))
        tool_words_putf(&w, "Poisson %.9g", s->score.poisson);
    tool_words_end(&w);
}

static int report(const struct scoring *s, struct ts_err *err)
{
    const struct ts_score_sums *x = &s->score.all;
    struct tool_json j;
    if (!s->args->json) {
        if (!s->writes || s->sink.file != NULL)
            print_words(s);
        return tool_flushed(err);
    }
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "score");
    tool_json_str(&j, "model", s->view.model->path);
    tool_json_str(&j, "tensor", ts_path(s->view.tensor));
    tool_json_str(&j, "output", s->args->out);
    tool_json_str(&j, "backend", s->backend);
    tool_json_u64(&j, "mode", s->args->mode);
    tool_json_u64(&j, "nnz", x->n);
    if (s->score.unseen == TS_SCORE_UNKNOWN)
        tool_json_f64(&j, "unseen_cells", NAN);
    else
        tool_json_u64(&j, "unseen_cells", s->score.unseen);
    tool_json_f64(&j, "rmse", sqrt(mean_of(x, x->squares)));
    tool_json_f64(&j, "mae", mean_of(x, x->magnitudes));
    tool_json_f64(&j, "mean_value", mean_of(x, x->value));
    tool_json_f64(&j, "mean_model", mean_of(x, x->model));
    tool_json_f64(&j, "gaussian_log_likelihood", s->score.gaussian);
    tool_json_f64(&j, "poisson_log_likelihood", s->score.poisson);
    tool_json_f64(&j, "seconds", (double)s->ns * 1e-9);
    tool_json_f64(&j, "pass_seconds", (double)s->score.times.total_ns * 1e-9);
    tool_json_f64(&j, "wait_seconds", (double)s->score.times.device[0].wait_ns * 1e-9);
    tool_json_f64(&j, "kernel_seconds", (double)s->score.times.device[0].kernel_ns * 1e-9);
    tool_json_u64(&j, "bytes_read", s->bytes_read);
    tool_json_close(&j);
    return tool_flushed(err);
}

static int work(struct scoring *s, struct ts_err *err)
{
    const struct score_args *args = s->args;
    struct ts_err warn = { 0 };
    int rc = 0;
    rc = model_view_kruskal(&s->view, &s->model, err);
    if (rc == 0)
        rc = open_lines(s, err);
    if (rc == 0)
        rc = open_and_compute(s, err);
    if (rc == 0 && s->writes && args->top > 0)
        rc = put_top(s, err);
    if (rc == 0 && s->writes && args->by_slice)
        rc = put_slices(s, err);
    if (rc == 0 && s->writes)
        rc = export_sink_commit(&s->sink, &warn, err);
    tool_warn(s->cmd, &warn);
    if (rc == 0 && s->sink.file != NULL)
        tool_in_place(args->out);
    s->ns = ts_clock_ns() - s->start_ns;
    return rc == 0 ? report(s, err) : rc;
}

/* Parses --mode with the mode names of the model, whose tensor may be another. */
static int take_mode(const struct scoring *s, struct score_args *args, struct ts_err *err)
{
    const struct tool_modes modes = model_view_modes(&s->view);
    return tool_mode_option(&modes, ts_path(s->view.tensor), args->mode_text, 0, &args->mode, err);
}

static int run_score(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct score_args args;
    struct scoring s = { .cmd = cmd, .args = &args, .sink = { .fd = -1 }, .order = { .fd = -1 } };
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand), *name = NULL;
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0 && tool_threads_check(args.threads, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && args.top > 0 && args.by_slice)
        status = tool_usage(cmd, "--top and --by-slice cannot be given together");
    if (status < 0 && tool_ranks() != NULL && args.out != NULL && args.top == 0 && !args.by_slice)
        status =
            tool_usage(cmd, "several processes compute sums, and write no line of every nonzero: "
                            "--output needs --top, --by-slice or a single process");
    if (status < 0 && ts_processor_check(&args.processor, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && on_gpus(&args) && (args.top > 0 || (args.out != NULL && !args.by_slice)))
        status = tool_usage(
            cmd,
            "GPUs compute sums, of all nonzeros and of slices: --top, and --output without --by-slice, "
            "go without --gpus and --gpu-memory");
    if (status < 0 && on_gpus(&args) && tool_ranks() != NULL)
        status = tool_usage(cmd, "several processes compute scores on CPU cores: leave out --gpus");
    if (status < 0 && args.json && args.out != NULL && strcmp(args.out, "-") == 0)
        status =
            tool_usage(cmd, "--json and --output - both print on standard output: name a file");
    if (status < 0 && array_opts_name(&args.array, operand[1], &name, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0) {
        int rc;
        operand[1] = name;
        s.start_ns = ts_clock_ns();
        tool_catch_signals();
        rc = ts_threads_get(args.threads, 0, &s.threads, &err);
        if (rc == 0)
            rc = model_view_open(cmd, n_operands, operand, &s.view, &err);
        if (rc == 0 && s.view.tensor == NULL)
            rc = ts_fail(&err, TS_EARG, "%s: name the tensor that it is to be compared with",
                         s.view.model->path);
        if (rc == 0)
            rc = take_mode(&s, &args, &err);
        if (rc == 0)
            rc = work(&s, &err);
        rc = tstream_ranks_end(rc, &err);
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
        if (rc == 0 && tool_ranks_speaks())
            export_sink_note_table(cmd, args.out, args.format != CELL_TNS);
        close_all(&s);
    }
    free(name);
    free(operand);
    return status;
}

const struct ts_cmd tstream_score = {
    .program = "tstream",
    .name = "score",
    .operands = "MODEL TENSOR.tsh",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "compare a model with the nonzeros of a tensor",
    .text =
        "Prints how far the values of the model are from the nonzeros: the root mean square "
        "(RMSE) and the mean magnitude (MAE) of the residuals (value - model), and "
        "log-likelihoods. With --output it writes indices, value, model and residual of each "
        "nonzero. --top writes only the largest residuals, and --by-slice the sums of each slice "
        "of a mode. Unlisted cells are ignored; tstream fit treats them as zeros. A cell's "
        "weight (tshard build --weights) multiplies its terms in all sums.\n\n"
        "The Gaussian log-likelihood assumes residuals with their own variance. The Poisson "
        "log-likelihood is for counts where the model is positive. It is the sum of value "
        "log(model) over the nonzeros, less the sum of the model over all cells. Terms that do "
        "not depend on the model are left out.\n\n"
        "TENSOR may be a dense tensor (tstream cp --help). Then all known cells are compared, in "
        "the order of the array, with indices from 0.\n\n"
        "MODEL is any model that tstream fit takes; .npy files are mapped. The sums are computed "
        "on CPU cores, or on GPUs with --gpus. Shards that do not fit in memory are streamed. "
        "The bits do not depend on threads, GPUs or memory. Sums of GPUs and CPU cores differ by "
        "rounding. Several processes of an MPI launcher compute the sums together on CPU cores, "
        "with the same bits; they cannot write single nonzeros.",
    .examples =
        "tstream score amazon.cp amazon.tsh\n  how large is the error of the model?\n"
        "tstream score amazon.cp amazon.tsh --top 100 --format csv\n  list the hundred largest residuals, by name\n"
        "tstream score amazon.cp amazon.tsh --by-slice --mode 3 -f csv\n  which words does the model fit well?\n"
        "tstream score amazon.cp amazon.tsh --gpus 1 --precision float32\n  compute the sums on a GPU\n"
        "tstream score amazon.cp amazon.tsh -o scores.npy --format npy\n  write all residuals for NumPy\n",
    .opts = score_opts,
    .run = run_score,
};
