/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_status.c - tstream status: prints the state of a run of tstream cp from another
 * process. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/cp/cp_models.h"
#include "tools/common/tool.h"
#include "tools/common/tool_term.h"
#include "tools/tstream.h"
#include "tools/tstream_operand.h"

#define PARTIAL ".partial"
/* a status file older than this is stale: a running process writes it every second */
#define STALE_SECONDS 60

struct status_args {
    int json, quiet;
};

#define AT(field) offsetof(struct status_args, field)
static const struct ts_opt status_opts[] = {
    TOOL_QUIET_OPT(AT(quiet)),
    { "json", 0, TS_OPT_FLAG, AT(json), NULL, NULL,
      "print one JSON object: that of status.json, with \"found\" (running, writing, stopped, "
      "failed, died, lost, ended), \"alive\" and \"resumable\"" },
    { 0 },
};

/* What a look at the files of a run found. */
struct look {
    const char *out;               /* name of the result: X.cp */
    struct ts_json_doc doc;        /* the status, or run.json */
    struct ts_models_table models; /* the table of several finished models */
    int there;                     /* 1: a run, or a remainder of one, exists */
    int written;                   /* 1: the run has a status (status.json) */
    int recorded;                  /* 1: the result has run.json */
    int held;                      /* 1: a process holds the lock of the run */
    long pid;
    int resumable; /* 1: a state exists, from which the run can be resumed */
    int here;      /* 1: a process on this host wrote the status */
    double age;    /* seconds since the status was written */
};

static void forget(struct look *l)
{
    ts_json_free(&l->doc);
    ts_models_table_free(&l->models);
    *l = (struct look){ 0 };
}

static int exists(const struct ts_open_dir *dir, const char *name)
{
    return faccessat(ts_open_dir_fd(dir), name, F_OK, 0) == 0;
}

/* Converts a time such as "2026-11-22T03:30:00+01:00" to seconds since 1970; 0 on failure. */
static double parse_time(const char *text)
{
    struct tm tm = { 0 };
    int hours, minutes;
    const char *zone = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (zone == NULL || sscanf(zone, "%3d:%2d", &hours, &minutes) != 2)
        return 0;
    return (double)timegm(&tm) - 3600.0 * hours - 60.0 * (*zone == '-' ? -minutes : minutes);
}

/* Callback of ts_run_dirs_read: finds the files of the run. Called again if the run ends
 * meanwhile. */
static int look_once(void *ctx, const struct ts_run_dirs *d, struct ts_err *err)
{
    struct look *l = ctx;
    int rc = 0;
    forget(l);
    /* a directory exists but cannot be opened */
    if (d->no_result.code != 0 || d->no_partial.code != 0) {
        *err = d->no_result.code != 0 ? d->no_result : d->no_partial;
        return err->code;
    }
    l->there = d->partial != NULL && !d->is_left;
    if (l->there) {
        l->held = ts_atomic_dir_held(ts_open_dir_fd(d->partial), &l->pid);
        l->resumable = exists(d->partial, "state.0") || exists(d->partial, "state.1") ||
                       exists(d->partial, "state") || ts_models_kept_in(d->partial);
        rc = ts_json_read_in(d->partial, TS_RUN_STATUS_NAME, &l->doc, err);
        l->written = rc > 0;
    } else if (d->result != NULL && ts_models_there_in(d->result)) {
        rc = ts_models_table_load(d->result, &l->models, err);
    } else if (d->result != NULL) {
        l->resumable = exists(d->result, "state");
        rc = ts_json_read_in(d->result, TS_RUN_RECORD_NAME, &l->doc, err);
        l->recorded = rc > 0;
    }
    return rc < 0 ? rc : 0;
}

static int look_at(const char *operand, struct look *l, struct ts_run_dirs *dirs,
                   struct ts_err *err)
{
    char host[256] = "";
    const int rc = ts_run_dirs_read(operand, look_once, l, dirs, err);
    l->out = dirs->name;
    if (rc == 0 && l->written) {
        gethostname(host, sizeof host - 1);
        l->here = strcmp(ts_json_text(l->doc.value, "host", ""), host) == 0;
        l->age = (double)time(NULL) - parse_time(ts_json_text(l->doc.value, "now", ""));
    }
    return rc;
}

/* Whether the run seems to be under way, as seen from this machine. */
static int alive(const struct look *l)
{
    if (l->held)
        return 1;
    return l->written && !l->here && l->age < STALE_SECONDS &&
           strcmp(ts_json_text(l->doc.value, "state", ""), "running") == 0;
}

static const char *state_of(const struct look *l)
{
    const char *said = l->written ? ts_json_text(l->doc.value, "state", "") : "";
    if (!l->there)
        return "ended";
    if (strcmp(said, "running") != 0 && l->written)
        return strcmp(said, "stopped") == 0 ? "stopped" : "failed";
    if (alive(l))
        return l->written ? "running" : "writing";
    return l->written && !l->here ? "lost" : "died";
}

/* ---- text for the terminal ---- */

static const char *ago(char *buf, double seconds)
{
    if (seconds < 2)
        return "just now";
    ts_num_seconds(buf, seconds);
    return strcat(buf, " ago");
}

static const char *plain(const struct ts_json_value *v, const char *key, char buf[200])
{
    return tool_plain(ts_json_text(v, key, "?"), buf, 200);
}

static void print_sweep(const struct ts_json_value *v, int running)
{
    const double total = ts_json_number(v, "sweep_nnz"), now = ts_json_number(v, "done_nnz");
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], rank[200], seed[200];
    if (ts_json_number(v, "models") > 0)
        printf("  model   %.0f of %.0f, rank %s, seed %s\n", ts_json_number(v, "model"),
               ts_json_number(v, "models"), plain(ts_json_get(v, "options"), "rank", rank),
               plain(ts_json_get(v, "options"), "seed", seed));
    if (ts_json_number(v, "side_by_side") > 1)
        printf("  beside  %.0f more, computed in the same passes\n",
               ts_json_number(v, "side_by_side") - 1);
    printf("  at      sweep %.0f of %.0f, mode %.0f of %.0f", ts_json_number(v, "sweep"),
           ts_json_number(v, "iters"), ts_json_number(v, "mode"), ts_json_number(v, "order"));
    /* no percentage in the search for a step length, whose number of passes is unknown */
    if (total > 0 && now <= total)
        printf(", %.0f %% of the sweep", 100 * now / total);
    printf("\n");
    if (!running)
        return;
    printf("  rate    %s nonzeros/s\n", ts_num_short(a, ts_json_number(v, "nnz_per_s")));
    if (ts_json_get(v, "run_left_seconds") != NULL &&
        ts_json_get(v, "run_left_seconds")->kind == TS_JSON_NUMBER)
        printf("  left    %s of the sweep, at most %s of the run\n",
               ts_num_seconds(a, ts_json_number(v, "sweep_left_seconds")),
               ts_num_seconds(b, ts_json_number(v, "run_left_seconds")));
}

static const struct ts_json_value *last_of(const struct ts_json_value *array)
{
    const struct ts_json_value *last = array == NULL ? NULL : array->first;
    while (last != NULL && last->next != NULL)
        last = last->next;
    return last;
}

/* Prints the log-likelihood after the last sweep of a Poisson model. */
static void print_likelihood(const struct ts_json_value *sweep)
{
    const struct ts_json_value *v = sweep == NULL ? NULL : ts_json_get(sweep, "log_likelihood");
    if (v != NULL && v->kind == TS_JSON_NUMBER)
        printf("  log-likelihood %.9e\n", v->number);
}

static void print_fit(const struct ts_json_value *v)
{
    const struct ts_json_value *sweeps = ts_json_get(v, "sweeps"), *last = NULL, *before = NULL;
    for (const struct ts_json_value *s = sweeps == NULL ? NULL : sweeps->first; s != NULL;
         s = s->next) {
        before = last;
        last = s;
    }
    if (last == NULL)
        return;
    printf("  fit     %.9f after sweep %.0f", ts_json_number(last, "fit"),
           ts_json_number(last, "sweep"));
    if (before != NULL)
        printf(", change %.2e", ts_json_number(last, "fit") - ts_json_number(before, "fit"));
    printf("\n");
    print_likelihood(last);
}

static void print_way_on(const struct look *l)
{
    char buf[200];
    if (l->resumable)
        printf("  go on   tstream cp --resume %s\n", tool_plain(l->out, buf, sizeof buf));
    else
        printf("  go on   nothing of it was saved: start it again\n");
}

static void print_written(const struct look *l)
{
    const struct ts_json_value *v = l->doc.value;
    const char *state = state_of(l);
    const int running = strcmp(state, "running") == 0;
    char a[200], b[200], c[TS_NUM_CHARS + 8];
    printf("%s: %s", tool_plain(l->out, a, sizeof a),
           tool_paint(running || strcmp(state, "stopped") == 0 ? TOOL_PAUSED : TOOL_BAD));
    printf("%s%s\n",
           running                        ? "running"
           : strcmp(state, "died") == 0   ? "died: its process is gone"
           : strcmp(state, "lost") == 0   ? "not heard of: it ran on another host"
           : strcmp(state, "failed") == 0 ? "failed"
                                          : "stopped",
           tool_paint_end());
    if (strcmp(state, "failed") == 0)
        printf("  why     %s\n", plain(v, "sentence", a));
    printf("  where   process %.0f on %s\n", ts_json_number(v, "pid"), plain(v, "host", a));
    printf("  since   %s\n", plain(v, "start", a));
    printf("  seen    %s, %s\n", plain(v, "now", b), ago(c, l->age));
    printf("  tensor  %s\n", plain(v, "tensor", a));
    print_sweep(v, running);
    print_fit(v);
    if (ts_json_text(v, "saved", NULL) != NULL)
        printf("  saved   %s\n", plain(v, "saved", a));
    if (!running)
        print_way_on(l);
}

/* Prints the table of several finished models. */
static void print_models(const struct look *l, int json)
{
    const uint32_t n = l->models.n;
    char a[200];
    struct tool_json j;
    if (json) {
        tool_json_open(&j, stdout);
        tool_json_str(&j, "state", "ended");
        tool_json_str(&j, "out", l->out);
        tool_json_u64(&j, "models", n);
        tool_json_str(&j, "found", "ended");
        tool_json_bool(&j, "alive", 0);
        tool_json_bool(&j, "resumable", 0);
        tool_json_close(&j);
        return;
    }
    printf("%s: ended (%s%u models%s)\n", tool_plain(l->out, a, sizeof a), tool_paint(TOOL_GOOD), n,
           tool_paint_end());
    printf("  more    tstream info %s\n", tool_plain(l->out, a, sizeof a));
}

static void print_record_json(const struct look *l)
{
    const struct ts_json_value *run = l->doc.value;
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "state", "ended");
    tool_json_str(&j, "out", l->out);
    tool_json_str(&j, "ended", ts_json_text(run, "ended", NULL));
    tool_json_f64(&j, "fit", ts_json_number(run, "fit"));
    tool_json_str(&j, "end", ts_json_text(run, "end", NULL));
    tool_json_str(&j, "found", "ended");
    tool_json_bool(&j, "alive", 0);
    tool_json_bool(&j, "resumable", l->resumable);
    tool_json_close(&j);
}

/* Prints a finished run from its record. */
static int print_ended(const struct look *l, int json, struct ts_err *err)
{
    const struct ts_json_value *run = l->doc.value, *sweeps;
    const char *ended;
    char a[200], b[200];
    int good;
    if (l->models.n > 0) {
        print_models(l, json);
        return 0;
    }
    if (!l->recorded)
        return ts_fail(err, TS_EIO,
                       "%s: there is no run of tstream cp, neither under way nor ended", l->out);
    if (json) {
        print_record_json(l);
        return 0;
    }
    sweeps = ts_json_get(run, "sweeps");
    ended = ts_json_text(run, "ended", "?");
    good = strcmp(ended, "converged") == 0 || strcmp(ended, "exact") == 0;
    printf("%s: ended (%s%s%s)\n", tool_plain(l->out, a, sizeof a),
           tool_paint(good ? TOOL_GOOD : TOOL_PAUSED), tool_plain(tool_ended(ended), b, sizeof b),
           tool_paint_end());
    printf("  since   %s\n", plain(run, "start", a));
    printf("  until   %s\n", plain(run, "end", a));
    printf("  fit     %.9f after %u sweep%s\n", ts_json_number(run, "fit"),
           sweeps == NULL ? 0 : sweeps->n, tool_plural(sweeps == NULL ? 0 : sweeps->n));
    print_likelihood(last_of(sweeps));
    printf("  more    tstream info %s\n", tool_plain(l->out, a, sizeof a));
    return 0;
}

/* Prints status.json, with three members added: found, alive and resumable. */
static void print_json(const struct look *l)
{
    const char *text = l->doc.raw;
    size_t n = l->doc.bytes;
    while (n > 0 && text[n - 1] != '}')
        n--;
    n -= n > 0; /* without the last brace, which is printed after the members that are added */
    if (!l->written)
        printf("{\"pid\":%ld", l->pid);
    else
        tool_json_raw(text, n);
    printf(",\"found\":\"%s\",\"alive\":%s,\"resumable\":%s}\n", state_of(l),
           alive(l) ? "true" : "false", l->resumable ? "true" : "false");
}

static int print_partial(const struct look *l, int json)
{
    char a[200];
    if (json)
        print_json(l);
    else if (l->written)
        print_written(l);
    else if (l->held)
        printf("%s: process %ld writes its result, or is about to start\n",
               tool_plain(l->out, a, sizeof a), l->pid);
    else {
        printf("%s: died while it wrote its result, or before its first sweep\n",
               tool_plain(l->out, a, sizeof a));
        print_way_on(l);
    }
    return 0;
}

/* ---- the command ---- */

static int find(const char *operand, char **ret, struct ts_err *err)
{
    if (operand == NULL && tstream_operand(NULL, ".cp" PARTIAL, "run", ret, err) == 0)
        return 0;
    return tstream_operand(operand, ".cp", "run", ret, err);
}

static int run_status(const struct ts_cmd *cmd, int argc, char **argv)
{
    struct status_args args;
    struct look l = { 0 };
    struct ts_run_dirs dirs = { 0 };
    struct ts_err err;
    uint32_t n_operands;
    char **operand = calloc((size_t)argc + 1, sizeof *operand), *name = NULL;
    int status = tool_parse(cmd, argc, argv, &args, &n_operands, operand, NULL);
    if (status < 0) {
        int rc = find(n_operands > 0 ? operand[0] : NULL, &name, &err);
        if (rc == 0)
            rc = look_at(name, &l, &dirs, &err);
        if (rc == 0)
            rc = l.there ? print_partial(&l, args.json) : print_ended(&l, args.json, &err);
        status = rc < 0 ? tool_fail(cmd, &err) : 0;
    }
    forget(&l);
    ts_run_dirs_close(&dirs);
    free(name);
    free(operand);
    return status;
}

const struct ts_cmd tstream_status = {
    .program = "tstream",
    .name = "status",
    .operands = "[MODEL.cp]",
    .max_operands = 1,
    .summary = "report how far a run of tstream cp is",
    .text =
        "Reads MODEL.cp.partial/status.json, which a run replaces every second. It prints process "
        "and host, sweep, mode, rate, fit and time left. It also reports whether the process is "
        "still alive. If the run has died or was stopped, it prints how to continue. If the run "
        "has ended, it prints what run.json says.\n\n"
        "Without an operand it takes the only run of the current directory: an active one, "
        "otherwise a finished one. On file systems with locks it knows if a process on another "
        "host has died. Otherwise a status that is a minute old counts as lost.",
    .examples = "tstream status amazon.cp\n  show the progress of a run\n"
                "watch tstream status\n  show it every two seconds\n",
    .opts = status_opts,
    .run = run_status,
};
