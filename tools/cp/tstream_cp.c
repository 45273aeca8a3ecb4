/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_cp.c - tstream cp: computes a CP decomposition. */
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/common/processor_opts.h"
#include "tools/common/tool.h"
#include "tools/common/tool_ranks.h"
#include "tools/tstream.h"
#include "tools/cp/tstream_cp.h"
#include "tools/tstream_operand.h"
#include "tools/common/tstream_ranks.h"
#include "tools/cp/cp_constraint.h"
#include "tools/cp/cp_mode_names.h"
#include "tools/cp/cp_options.h"
#include "tools/cp/cp_report.h"
#include "tools/cp/cp_run.h"
#include "tools/cp/cp_several.h"
#include "tools/cp/cp_starts.h"
#include "tools/cp/tstream_times.h"

/* Texts of options that tables of other commands use as well. */
#define LOSS_NAMES ts_loss_names
#define HELP_LOSS  ts_loss_help

#define SETTING(member, option, letter, kind, def, arg, section, resume, keyword, field, value, \
                help)                                                                           \
    { option, letter, TS_OPT_OF_##kind, offsetof(struct cp_args, member), def, arg, help },
const struct ts_opt tstream_cp_opts[] = {
#include "base/settings.def"
    { 0 },
};

/* The sections of base/settings.def, in the order of --help. */
enum { MODEL, CONSTRAINTS, MISSING, LOSSES, RUN, DEVICES, OUTPUT, INPUT };
const char *const tstream_cp_headings[] = {
    [MODEL] = "Model",
    [CONSTRAINTS] = "Constraints",
    [MISSING] = "Missing cells",
    [LOSSES] = "Counts and losses",
    [RUN] = "Run and checkpoint",
    [DEVICES] = "Memory and devices",
    [OUTPUT] = "Output",
    [INPUT] = "Raw dense input",
    NULL,
};

#define SETTING(member, option, letter, kind, def, arg, section, ...) section,
const unsigned char tstream_cp_section[] = {
#include "base/settings.def"
};

#define SETTING(...)
#define SETTING_ALIAS(option, keyword) { keyword, option },
const struct ts_opt_alias tstream_cp_aliases[] = {
#include "base/settings.def"
    { NULL, NULL },
};

/* Returns the option of a member of run.json; NULL: an option of another version. */
static const struct ts_opt *option_of(const struct ts_json_value *member)
{
    for (const struct ts_opt *o = tstream_cp_opts; o->name != NULL && member->key != NULL; o++)
        if (strcmp(o->name, member->key) == 0)
            return o;
    return NULL;
}

int tstream_cp_chosen(const struct ts_json_value *option)
{
    static const struct ts_cmd cp = { .opts = tstream_cp_opts };
    const struct ts_opt *o = option_of(option);
    struct cp_args args;
    char text[64];
    if (option->key == NULL || option->kind == TS_JSON_NULL ||
        (option->kind == TS_JSON_BOOL && option->number == 0))
        return 0;
    if (o == NULL || strcmp(o->name, "rank") == 0)
        return 1;
    ts_opt_defaults(&cp, &args);
    ts_opt_text(o, &args, text, sizeof text);
    if (option->kind == TS_JSON_NUMBER)
        return text[0] == '\0' || strtod(text, NULL) != option->number;
    return option->kind != TS_JSON_STRING || strcmp(text, option->text) != 0;
}

void tstream_cp_number(const struct ts_json_value *option, char *ret, size_t size)
{
    static const char unit[] = "TGMK";
    const struct ts_opt *o = option_of(option);
    if (o != NULL && o->type == TS_OPT_SIZE && option->number >= 1024 && option->number < 0x1p63) {
        const uint64_t bytes = (uint64_t)option->number;
        for (unsigned i = 0; i < 4; i++)
            if (bytes % (UINT64_C(1) << (40 - 10 * i)) == 0) {
                snprintf(ret, size, "%" PRIu64 "%c", bytes >> (40 - 10 * i), unit[i]);
                return;
            }
    }
    snprintf(ret, size, "%.10g", option->number);
}

/* Adds the value of an option to `sum`, a hash of options. Returns the new hash. */
static uint64_t mix_option(uint64_t sum, const char *name, const struct cp_args *args)
{
    char text[4096];
    uint32_t at = 0;
    while (strcmp(tstream_cp_opts[at].name, name) != 0)
        at++;
    ts_opt_text(&tstream_cp_opts[at], args, text, sizeof text);
    for (const char *c = text; *c != '\0'; c++)
        sum = ts_mix(sum ^ (unsigned char)*c);
    return sum;
}

/* Checks that all ranks (processes) have the same tensor and options, so that all of them begin or
 * none. */
int tstream_cp_same_ranks(const struct cp_args *args, const struct ts_tensor *t, int rc,
                          struct ts_err *err)
{
    uint64_t ranks = args->restarts + ((uint64_t)args->folds << 32);
    char text[512], constraint[160];
    for (uint32_t i = 0; i < args->ranks.n; i++)
        ranks = ts_mix(ranks ^ args->ranks.at[i]);
#define SETTING(...)
#define SETTING_OF_METHOD(member, option, ...) ranks = mix_option(ranks, option, args);
#include "base/settings.def"
    snprintf(text, sizeof text,
             "%016" PRIx64 " %u %a %" PRIu64 " %d %d %d %d %d %a %a %u %u %.200s", ranks,
             args->iters, args->tol, args->seed, (int)args->precision, args->accelerate,
             args->details, args->json, args->observed, args->held_share, args->held_from,
             args->patience, args->inner, args->init);
    if (rc == 0)
        rc = tstream_cp_same_tensor(args, t, err);
    rc = tstream_ranks_same(t, text, rc, err);
    for (uint32_t m = 0; rc == 0 && m < t->order && tool_ranks() != NULL; m++) {
        ts_spec_text(&args->spec, m, constraint, sizeof constraint);
        rc = tool_ranks_same("constraints", constraint, err);
    }
    return rc;
}

/* Makes all ranks (processes) end alike if rank 0 fails to write the common result, or is stopped
 * while it writes. */
static int end_together(struct cp_report *r, int rc, struct ts_err *err)
{
    struct ts_err all;
    int ret;
    if (tool_ranks() == NULL)
        return rc;
    if (rc < 0)
        all = *err;
    else if (r->stopped)
        ts_fail(&all, TS_ESTOP, "stopped");
    ret = tool_ranks_agree(r->stopped ? TS_ESTOP : rc, &all);
    if (r->stopped)
        return rc;
    if (ret == TS_ESTOP) {
        tool_ranks_stopped();
        return 0;
    }
    if (ret < 0)
        *err = all;
    return ret;
}

static int owns_factors(void)
{
    const char *own = getenv("TSTREAM_OWN_FACTORS");
    return own != NULL && strcmp(own, "1") == 0;
}

/* Whether ranks (processes) on a machine may share one copy of the factors. Row updates by get_rows
 * and put_rows, which every rank makes, need a copy for each rank. */
int tstream_cp_may_share(const struct cp_args *args)
{
    return !owns_factors() && !args->accelerate && !tstream_cp_init_is_nvecs(args) &&
           !args->spec.best && tstream_cp_models(args) == 1;
}

/* Returns which ranks (processes) receive rows of factors: TSTREAM_ROWS_TO in the environment. */
static enum ts_rows_to rows_to(void)
{
    const char *to = getenv("TSTREAM_ROWS_TO");
    if (to != NULL && strcmp(to, "all") == 0)
        return TS_ROWS_TO_ALL;
    return to != NULL && strcmp(to, "needing") == 0 ? TS_ROWS_TO_NEEDING : TS_ROWS_STAY;
}

/* Gives ranks (processes) on a machine one copy of the factors, and sends rows only to ranks that
 * need them. Row updates by get_rows and put_rows need a copy and all rows on every rank. A start
 * of singular vectors needs a copy, and all rows before the first sweep. */
static int spread_factors(const struct cp_args *args, const struct ts_engine *e, struct ts_err *err)
{
    struct ts_spread how = { .skipped = ts_spec_skipped(&args->spec, e->tensor->order) };
    char text[16];
    int rc;
    if (tool_ranks() == NULL || !ts_backend_can(e->backend, TS_CAN_RANKS))
        return 0;
    how.own = owns_factors();
    how.rows_to = rows_to();
    snprintf(text, sizeof text, "%d", how.own);
    rc = tool_ranks_same("TSTREAM_OWN_FACTORS", text, err);
    snprintf(text, sizeof text, "%d", (int)how.rows_to);
    if (rc == 0)
        rc = tool_ranks_same("TSTREAM_ROWS_TO", text, err);
    if (rc < 0 || args->accelerate || args->spec.best)
        return rc;
    how.own |= !tstream_cp_may_share(args);
    return e->backend->spread(e->be, &how, err);
}

/* Prints a note that the table of several models does not include the new result of one of them. */
static void note_table(const struct ts_cmd *cmd, const char *model)
{
    char *real = realpath(model, NULL), *dir = real != NULL ? dirname(real) : NULL;
    if (dir != NULL && tool_ranks_speaks() && ts_models_there(dir))
        tool_note(cmd,
                  "%s is one of several models: " TS_MODELS_TSV ", " TS_MODELS_JSON
                  " and the links to the best ones beside it are those of before",
                  model);
    free(real);
}

/* Registers inputs and output, so that the output replaces no input. here: 1 if the output is the
 * directory of the resumed run. */
static int check_places(const struct cp_args *args, const char *tensor, const char *out, int here,
                        struct ts_err *err)
{
    char *state = NULL;
    int rc = tool_reads(tensor, err);
    if (rc == 0 && args->from == NULL && tstream_cp_init_is_file(args))
        rc = tool_reads(args->init, err);
    if (rc == 0 && args->from != NULL && !here) {
        rc = asprintf(&state, "%s.partial", args->from->dir) < 0
                 ? ts_fail(err, TS_ENOMEM, "%s: out of memory", out)
                 : tool_reads(args->from->dir, err);
        if (rc == 0)
            rc = tool_reads(state, err);
        free(state);
    }
    return rc == 0 && !args->no_output ? tool_writes(out, ".partial", "--output", err) : rc;
}

/* Computes one model. Checks everything that can fail before it computes. */
static int run_one(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
                   struct ts_err *err)
{
    struct ts_engine e = { 0 };
    struct cp_report r = cp_run_report(cmd, args, &e, path);
    struct ts_engine_conf ec = cp_run_engine(args, path, &r);
    struct ts_model_conf mc = {
        .rank = args->rank, .force = args->force, .precision = args->precision, .stop = &tool_stop
    };
    struct ts_model *model = NULL;
    char *named = args->out != NULL    ? strdup(args->out)
                  : args->from != NULL ? strdup(args->from->dir)
                                       : tstream_operand_swap(path, ".cp");
    const uint64_t start_ns = ts_clock_ns();
    int here, rc = named == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", path)
                                 : ts_model_formats(args->format, &mc.formats, err);
    mc.dir = named;
    here = rc == 0 && args->from != NULL && strcmp(named, args->from->dir) == 0;
    mc.resume = here && !args->from->of_result;
    mc.force |= here && args->from->of_result; /* old states must not stay beside new ones */
    if (args->from != NULL)
        r.sweeps_done = ts_state_get(args->from->file)->sweep - 1;
    if (args->from != NULL && args->from->damaged.code != 0)
        tool_note(cmd, "%s; going on from the state before it", args->from->damaged.text);
    if (args->max_time_ns > 0)
        tool_stop_after(args->max_time_ns);
    if (rc == 0 && args->out != NULL)
        rc = tool_outside(args->out, path, err);
    if (rc == 0)
        rc = check_places(args, path, named, here, err);
    if (rc == 0 && !args->no_output)
        rc = ts_model_place(&mc, err);
    if (rc == 0 && args->from == NULL && tstream_cp_init_is_file(args))
        rc = cp_starts_model(args, &model, err);
    if (rc == 0)
        rc = tstream_trace_open(args->trace, args->force, path, &r.trace, err);
    ec.trace = r.trace;
    if (rc == 0)
        rc = ts_engine_open(&ec, &e, err);
    if (rc == 0 && model != NULL)
        rc = cp_starts_names(args, model, e.tensor, err);
    rc = tstream_cp_same_ranks(args, e.tensor, rc, err);
    if (rc == 0 && args->from != NULL && tool_ranks() != NULL) {
        char sign[20];
        snprintf(sign, sizeof sign, "%016" PRIx64, ts_state_sign(args->from->file));
        rc = tool_ranks_same("state to go on from", sign, err);
    }
    if (rc == 0 && model != NULL && tool_ranks() != NULL) {
        char sign[20];
        snprintf(sign, sizeof sign, "%016" PRIx64, ts_model_sign(model));
        rc = tool_ranks_same("model to start from", sign, err);
    }
    if (rc == 0)
        rc = spread_factors(args, &e, err);
    if (rc == 0) {
        tstream_ranks_note(cmd, &e);
        cp_run_note(cmd, args, &e);
        rc = cp_run(&r, &mc, model, err);
        rc = end_together(&r, rc, err);
        if (rc == 0 && !r.stopped && here && args->from->of_result && !args->no_output)
            note_table(cmd, named);
    } else {
        rc = cp_run_unopened(&r, here ? args->from->file : NULL, args->no_output ? NULL : named,
                             start_ns, rc, err);
    }
    ts_engine_close(&e);
    rc = tstream_trace_close(cmd, r.trace, rc, err);
    ts_model_close(model);
    free(named);
    return rc;
}

static int run_models(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
                      struct ts_err *err)
{
    return tstream_cp_models(args) > 1 ? cp_several(cmd, args, path, err)
                                       : run_one(cmd, args, path, err);
}

/* Runs as one of several ranks (processes): all compute, rank 0 writes. */
static int run_rank(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
                    struct ts_err *err)
{
    struct cp_args own = *args;
    const int rc = tstream_ranks_choose(&own.processor, err);
    if (rc < 0)
        return rc;
    if (!tool_ranks_speaks()) {
        own.no_output = 1;
        own.trace = NULL;
    }
    return run_models(cmd, &own, path, err);
}

static int prepare(const struct ts_cmd *cmd, const void *parsed, const char *path,
                   struct ts_err *err)
{
    const struct cp_args *args = parsed;
    if (args->processes > 0 && args->processes != tool_ranks_count())
        return ts_fail(err, TS_EARG,
                       "--ranks %u: started as %u process%s; mpirun -n %u or srun -n %u starts so "
                       "many, where tstream was built with their MPI",
                       args->processes, tool_ranks_count(), tool_ranks_count() == 1 ? "" : "es",
                       args->processes, args->processes);
    if (args->per_host > 0 && tool_ranks() != NULL && tool_ranks()->beside > args->per_host)
        return ts_fail(
            err, TS_EARG,
            "--ranks-per-host %u: %u processes are on this machine; --map-by ppr:%u:node "
            "of mpirun or --ntasks-per-node=%u of srun places them so",
            args->per_host, tool_ranks()->beside, args->per_host, args->per_host);
    if (tool_ranks() != NULL)
        return run_rank(cmd, args, path, err);
    return run_models(cmd, args, path, err);
}

/* The run that --resume names, after it was opened. */
struct resumed {
    struct ts_resume one;
    struct ts_models_run several;
};

/* Opens what --resume names: a run of several models, or of one. */
static int open_resume(struct resumed *r, struct cp_args *args, struct ts_err *err)
{
    int rc = ts_models_run_open(args->resume, &r->several, err);
    if (rc == 0 && r->several.dir != NULL)
        args->models_from = &r->several;
    else if (rc == 0)
        rc = ts_resume_open(args->resume, &r->one, err);
    if (rc == 0 && args->models_from == NULL)
        args->from = &r->one;
    return rc;
}

static void close_resume(struct resumed *r)
{
    ts_resume_close(&r->one);
    ts_models_run_close(&r->several);
}

/* Returns the options of a resumed run. *file: the name of the file that has them. */
static const struct ts_state *recorded(const struct cp_args *args, const char **file)
{
    *file = args->models_from != NULL ? args->models_from->path : ts_state_path(args->from->file);
    return args->models_from != NULL ? &args->models_from->options : ts_state_get(args->from->file);
}

/* Runs the command, again with --observed if a dense tensor has NaN cells. They are found when
 * a run reads all cells, which it does first. */
static int work_observed(const struct ts_cmd *cmd, const void *parsed, const char *path,
                         struct ts_err *err)
{
    const struct cp_args *args = parsed;
    struct cp_args own = *args;
    struct ts_tensor *t = NULL;
    struct ts_err other;
    uint64_t unknown;
    uint32_t threads;
    int rc, found;
    if (args->takes_observed != NULL)
        tool_note(cmd, "%s: %s, so --observed is taken for given", path, args->takes_observed);
    rc = args->work(cmd, args, path, err);
    if (rc != TS_EARG || !cp_options_may_observe(args) ||
        strcmp(args->loss, "least-squares") != 0 || !ts_tensor_is_array(path))
        return rc;
    found = ts_tensor_open_array(path, &t, &other) == 0 &&
            ts_threads_get(args->threads, 0, &threads, &other) == 0 &&
            ts_dense_scan_alone(t, threads, &tool_stop, &other) == 0 &&
            ts_spec_takes_observed(t, TS_GCP_NONE, 0);
    unknown = found ? t->dense->n_unknown : 0;
    ts_tensor_close(t);
    own.observed = 1;
    if (!found || cp_constraint_parse(&own, &other) < 0)
        return rc;
    tool_note(cmd, "%s: %" PRIu64 " cell%s unknown (NaN), so --observed is taken for given", path,
              unknown, unknown == 1 ? " is" : "s are");
    return args->work(cmd, &own, path, err);
}

/* Checks the recorded options of a resumed run alone, as if typed. Then sets all options that were
 * not typed to the recorded ones. */
static int take_recorded(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args,
                         const char *name, struct ts_err *err)
{
    struct cp_args alone = { .from = args->from, .models_from = args->models_from };
    const char *file;
    const struct ts_state *s = recorded(args, &file);
    struct ts_err why;
    int rc;
    ts_opt_defaults(cmd, &alone);
    alone.resume = args->resume;
    rc = tstream_resume_all(file, s, cmd, &alone, err);
    if (rc < 0)
        return rc;
    rc = cp_options_check(cmd, 0, &alone, name, &why);
    if (rc == 0)
        rc = ts_spec_check(&alone.spec, TS_MAX_ORDER, &why);
    if (rc < 0)
        return ts_fail(err, TS_EFORMAT, "%s: its options cannot be of a run: %s", file, why.text);
    if (args->from != NULL && cp_constraint_same(file, &alone, s, err) < 0)
        return err->code;
    if (args->models_from != NULL && args->models_from->unsealed)
        tool_note(cmd, TS_MODELS_RUN_UNSEALED, file);
    return tstream_resume_options(
        file, args->models_from != NULL ? args->models_from->dir : args->from->dir, s,
        args->models_from != NULL, cmd, given, args, err);
}

int tstream_cp_command(const struct ts_cmd *cmd, int argc, char **argv,
                       int (*work)(const struct ts_cmd *cmd, const void *args, const char *path,
                                   struct ts_err *err))
{
    struct cp_start_files start = { 0 };
    struct cp_args args = { 0 };
    struct resumed resumed = { 0 };
    struct cp_mode_names named = { 0 };
    struct ts_err err;
    uint32_t n_operands;
    uint64_t given;
    char **operand = calloc((size_t)argc + 1, sizeof *operand);
    const char *tensor = NULL, *file;
    char *name = NULL;
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, &given);
    if (status < 0 && args.resume != NULL && open_resume(&resumed, &args, &err) < 0)
        status = tool_fail(cmd, &err);
    if (status < 0 && n_operands > 0)
        tensor = operand[0];
    else if (status < 0 && args.resume != NULL)
        tensor = tstream_resume_tensor(recorded(&args, &file));
    if (status < 0 && array_opts_name(&args.array, tensor != NULL ? tensor : "", &name, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && cp_mode_names_take(&args, name, &named, &err) < 0)
        status = err.code == TS_EARG ? tool_usage(cmd, "%s", err.text) : tool_fail(cmd, &err);
    if (status < 0 && args.resume != NULL && take_recorded(cmd, given, &args, name, &err) < 0)
        status = tool_fail(cmd, &err);
    if (status < 0) {
        cp_starts_open(&args, &start);
        args.start_files = &start;
    }
    if (status < 0 && (cp_options_check_init(&args, &err) < 0 ||
                       cp_options_take_rank(cmd, given, &args, &err) < 0))
        status = tool_fail(cmd, &err);
    if (status < 0 && args.array.dims != NULL && n_operands == 0)
        status = tool_usage(cmd, "--dims needs the name of a file");
    if (status < 0 && cp_options_check(cmd, given, &args, name, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && work != prepare && args.per_host > 0 && args.processes == 0)
        status = tool_usage(cmd, "--ranks-per-host says how many of --ranks are on a machine, and "
                                 "--ranks is not given");
    if (status < 0 && tool_threads_check(args.threads, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    if (status < 0 && ts_processor_check(&args.processor, &err) < 0)
        status = tool_usage(cmd, "%s", err.text);
    args.work = work;
    if (status < 0)
        status = tstream_operand_work(cmd, tensor != NULL ? name : NULL, &args, work_observed);
    cp_mode_names_free(&named);
    free(name);
    cp_starts_close(&start);
    close_resume(&resumed);
    free(operand);
    return status;
}

static int run_cp(const struct ts_cmd *cmd, int argc, char **argv)
{
    return tstream_cp_command(cmd, argc, argv, prepare);
}

const struct ts_cmd tstream_cp = {
    .program = "tstream",
    .name = "cp",
    .operands = "[TENSOR.tsh]",
    .max_operands = 1,
    .summary = "decompose a tensor into rank-one components (CP-ALS)",
    .text =
        "Fits a sum of rank-one tensors to a sparse tensor by alternating least squares. Unlisted "
        "cells are zeros, or unknown with --observed. Shards that do not fit in --host-memory are "
        "streamed from disk while the computation runs. If all shards fit, CPU cores use the "
        "remaining memory for decoded shards, which saves time.\n\n"
        "TENSOR can also be a dense tensor of 2 to 8 modes. A NumPy file (data.npy), a contiguous "
        "HDF5 dataset (file.h5:/path) or a raw file of cells (--dims, --dtype) is read in place. "
        "Text of Tensor Toolbox (\"tensor\") is held in memory. All cells of a dense tensor count "
        "as nonzeros in the output. NaN cells are unknown. A tensor with NaN cells or weights "
        "implies --observed.\n\n"
        "Without an operand, cp takes the only .tsh in the current directory. For each sweep it "
        "prints the fit (1 - |X - model| / |X|; 1 is exact), the change of the fit, seconds, "
        "nonzeros per second (counted in each mode) and bytes read. Then it prints the time for "
        "waiting for shards, copying them to a device, computing products and solving for rows. "
        "With several GPUs these are means. A terminal shows as many columns as fit; otherwise "
        "lines have 80 columns.\n\n"
        "With --loss poisson a sweep prints the log-likelihood, without the part that does not "
        "depend on the model. It also prints the violation of the optimality conditions, which is "
        "0 at an optimum. With other losses the fit is the explained share of the deviance, (C - "
        "F) / (C - S), and the objective is the loss. F is the loss of the model, C is the loss "
        "of the best constant model, and S is the loss of a model that equals the tensor.\n\n"
        "--details, --json and --trace print more. The \"mode\" event of --json has an array "
        "\"devices\" with an entry for each GPU or the CPU (where \"gpu\" is null). An entry has "
        "the device's nonzeros, the bytes sent to it, and its seconds for each kind of work. "
        "\"early_bytes\" were sent during the mode before. \"share\" is the device's part of this "
        "mode in the next sweep. \"imbalance\" is the kernel time of the slowest device over the "
        "mean. \"exposed_seconds\" is the time of exchanging rows between devices while no device "
        "computes.\n\n"
        "Factors have columns of norm 1, sorted by weight, with fixed signs. Two columns of a "
        "component can change their signs together. With such changes, the entry of largest "
        "magnitude in each column is made positive where possible. The bits do not depend on the "
        "number of threads or GPUs or on the memory budget.\n\n"
        "On a terminal, a line shows the sweep, the mode, the finished share of the sweep, the "
        "time left for the sweep and for the run, and nonzeros per second. The time for the run "
        "is an upper limit, because a run ends early when the fit hardly changes. Without a "
        "terminal, such a line appears on standard error every minute and on SIGUSR1.\n\n"
        "Several ranks (--rank 8,16) or starts (--restarts 5) are computed side by side: each "
        "pass over the tensor serves all of them. Models of a dense tensor, and starts with "
        "different held-out cells, are computed one after another. If not all models fit in "
        "memory, they are computed in groups. On CPU cores, the factors of a group may take half "
        "of --host-memory, without those of its largest model. On GPUs, a group must fit in GPU "
        "memory.\n\n"
        "The result directory then has a directory for each model, such as r8.s1, with the same "
        "bytes as a run of its own. best.r8 is a link to the best model of rank 8: highest fit, "
        "or lowest objective with penalties. models.tsv and models.json compare fits, and show "
        "how similar the starts of a rank are. The column score is the factor match score of a "
        "model with the best model of its rank; 1 means the same components. The directory "
        "appears when all models are done. --resume keeps finished models and continues the "
        "others.\n\n"
        "With MPI support, mpirun or srun can start several processes, on one machine or many. "
        "They compute together on all their CPU cores, or with --gpus 1 on a GPU each, with the "
        "same bits. Each process reads and computes a part of every mode. The first process "
        "prints and writes.\n\n"
        "SIGINT, SIGTERM, SIGHUP and --max-time stop the run within a mode. The run "
        "writes a checkpoint to DIR.partial and prints how to continue. After a signal, cp then "
        "dies by that signal; a second signal ends cp at once. With --checkpoint a power failure costs "
        "only the work since the last checkpoint. The last checkpoint stays in DIR as \"state\" "
        "when the run ends.",
    .examples =
        "tstream cp amazon.tsh --rank 32\n  decompose a tensor into 32 components\n"
        "tstream cp amazon.tsh --host-memory 4G --format npy --output result\n  use 4 GiB for shards, and write NumPy files to result/\n"
        "tstream cp crimes.tsh --loss poisson --rank 10\n  model counts\n"
        "tstream cp links.tsh --loss bernoulli --rank 16 --iters 300\n  model which links exist\n"
        "tstream cp ratings.tsh --observed --l2 0.3 --hold-out 10% --patience 3\n  complete ratings, until the error at a held-out tenth stops falling\n"
        "tstream cp amazon.tsh --observed --rank 2,4,8 --folds 5\n  find the rank that predicts held-out cells best\n"
        "tstream cp --rank 8,16,32 --restarts 5 --diagnose\n  compare five starts of each of three ranks\n"
        "tstream cp --gpus 4 --details --trace cp.json\n  use four GPUs and record a timeline\n",
    .opts = tstream_cp_opts,
    .headings = tstream_cp_headings,
    .section = tstream_cp_section,
    .brief = TSTREAM_CP_BRIEF,
    .old_names = TSTREAM_CP_OLD,
    .aliases = tstream_cp_aliases,
    .run = run_cp,
};
