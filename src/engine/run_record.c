/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects the data of a run for run.json, and makes its text. */
#include "engine/run_record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/machine/machine.h"
#include "format/arrays/array_name.h"
#include "engine/processor.h"

#define NS 1e-9

int ts_run_record_start(struct ts_run_record *r, const char *path, struct ts_err *err)
{
    r->start = time(NULL);
    r->mean = NAN;
    r->tensor = ts_array_name_real(path);
    if (r->tensor == NULL) /* the tensor was moved since it was opened: keeps the path as given */
        r->tensor = strdup(path);
    return r->tensor != NULL ? 0 : ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
}

static void add(struct ts_run_record *r, const struct ts_run_sweep *s)
{
    if (r->n == r->room) {
        const uint32_t room = 2 * r->room + 64;
        struct ts_run_sweep *more = realloc(r->sweep, room * sizeof *more);
        if (more == NULL) {
            r->out_of_memory = 1;
            return;
        }
        r->sweep = more;
        r->room = room;
    }
    r->sweep[r->n++] = *s;
}

static void take_figures(struct ts_run_sweep *s, const struct ts_disk_figures *f)
{
    s->objective = f->objective;
    s->log_likelihood = f->log_likelihood;
    s->kkt = f->violation;
    s->rmse = f->rmse;
    s->held_out = f->held_out;
    s->held_out_loss = f->held_out_loss;
    s->n_dead = (uint32_t)f->n_dead;
}

void ts_run_record_recall(struct ts_run_record *r, const struct ts_state *from)
{
    for (uint32_t i = 0; i + 1 < from->sweep; i++) {
        struct ts_run_sweep s = { .fit = from->past[i].fit,
                                  .seconds = (double)from->past[i].total_ns * NS,
                                  .past = 1,
                                  .figured = from->figured };
        if (from->figured)
            take_figures(&s, &from->figures[i]);
        add(r, &s);
    }
    r->n_past = r->n;
    if (from->spec.mean)
        memcpy(&r->mean, &from->part[TS_PART_MEAN], sizeof r->mean);
}

void ts_run_record_sweep(struct ts_run_record *r, const struct ts_solver_sweep *s)
{
    const struct ts_run_sweep sweep = { .fit = s->fit,
                                        .seconds = (double)s->total_ns * NS,
                                        .objective = s->objective,
                                        .rmse = s->rmse,
                                        .held_out = s->held_out,
                                        .held_out_loss = s->held_out_loss,
                                        .log_likelihood = s->log_likelihood,
                                        .kkt = s->kkt,
                                        .n_dead = s->n_dead,
                                        .wait_seconds = (double)s->wait_ns * NS,
                                        .copy_seconds = (double)s->copy_ns * NS,
                                        .kernel_seconds = (double)s->kernel_ns * NS,
                                        .solve_seconds = (double)s->solve_ns * NS,
                                        .bytes_read = s->bytes_read,
                                        .n_singular = s->n_singular };
    add(r, &sweep);
    r->mean = s->mean;
}

static void put_tensor(struct ts_json *j, const struct ts_run_record *r)
{
    const struct ts_tensor *t = r->engine->tensor;
    char checksum[17];
    snprintf(checksum, sizeof checksum, "%016" PRIx64, t->hash);
    ts_json_object(j, "tensor");
    ts_json_str(j, "path", r->tensor);
    ts_json_array(j, "shape");
    for (uint32_t m = 0; m < t->order; m++)
        ts_json_u64(j, NULL, t->mode[m].disk.dim);
    ts_json_close(j);
    ts_json_array(j, "modes");
    for (uint32_t m = 0; m < t->order; m++)
        ts_json_str(j, NULL, ts_tensor_mode_name(t, m));
    ts_json_close(j);
    ts_json_u64(j, "base", ts_tensor_base(t));
    ts_json_u64(j, "nnz", t->nnz);
    ts_json_f64(j, "norm", t->header.norm);
    ts_json_str(j, "checksum", checksum);
    ts_json_close(j);
}

/* ret := the name of the CPU, or "" if the system does not provide it. */
static void cpu_name(char *ret, size_t room)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    ret[0] = '\0';
    while (f != NULL && ret[0] == '\0' && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(ret, room, "%s", colon + 1 + strspn(colon + 1, " \t"));
    }
    if (f != NULL)
        fclose(f);
}

static void put_machine(struct ts_json *j, const struct ts_engine *e)
{
    struct ts_machine machine;
    char name[256];
    if (gethostname(name, sizeof name) != 0)
        name[0] = '\0';
    name[sizeof name - 1] = '\0';
    ts_json_str(j, "host", name);
    ts_machine_get(&machine);
    cpu_name(name, sizeof name);
    ts_json_str(j, "cpu", name[0] != '\0' ? name : NULL);
    ts_json_u64(j, "cpus", machine.cpus);
    ts_json_u64(j, "threads", e->threads);
    ts_json_array(j, "gpus");
    for (uint32_t i = 0; i < e->n_devices; i++) {
        ts_json_object(j, NULL);
        ts_json_i64(j, "number", e->device[i]);
        ts_processor_name(e->device[i], name, sizeof name);
        ts_json_str(j, "name", name[0] != '\0' ? name : NULL);
        ts_json_close(j);
    }
    ts_json_close(j);
}

static void put_sweeps(struct ts_json *j, const struct ts_run_record *r)
{
    ts_json_u64(j, "sweeps_before", r->n_past);
    ts_json_array(j, "sweeps");
    for (uint32_t i = 0; i < r->n; i++) {
        const struct ts_run_sweep *s = &r->sweep[i];
        ts_json_object(j, NULL);
        ts_json_u64(j, "sweep", i + 1);
        ts_json_f64(j, "fit", s->fit);
        ts_json_f64(j, "seconds", s->seconds);
        if (!s->past || s->figured) {
            ts_json_f64(j, "objective", s->objective);
            ts_json_f64(j, "log_likelihood", s->log_likelihood);
            ts_json_f64(j, "violation", s->kkt);
            ts_json_f64(j, "rmse", s->rmse);
            ts_json_f64(j, "held_out_rmse", s->held_out);
            ts_json_f64(j, "held_out_loss", s->held_out_loss);
            ts_json_u64(j, "dead_components", s->n_dead);
        }
        if (!s->past) {
            ts_json_f64(j, "wait_seconds", s->wait_seconds);
            ts_json_f64(j, "copy_seconds", s->copy_seconds);
            ts_json_f64(j, "kernel_seconds", s->kernel_seconds);
            ts_json_f64(j, "solve_seconds", s->solve_seconds);
            ts_json_u64(j, "bytes_read", s->bytes_read);
            ts_json_u64(j, "singular_modes", s->n_singular);
        }
        ts_json_close(j);
    }
    ts_json_close(j);
}

/* Writes the result of the saved model. For a stopped run, the fit is that of the last complete
 * sweep. */
static void put_result(struct ts_json *j, const struct ts_run_record *r,
                       const struct ts_solver_result *result)
{
    const int best = result != NULL && result->best_sweep > 0;
    ts_json_f64(j, "fit", result != NULL ? result->fit : r->n > 0 ? r->sweep[r->n - 1].fit : NAN);
    ts_json_f64(j, "mean", r->mean);
    ts_json_f64(j, "best_sweep", best ? result->best_sweep : NAN);
    ts_json_f64(j, "held_out_rmse", result != NULL ? result->held_out : NAN);
    ts_json_f64(j, "held_out_loss", result != NULL ? result->held_out_loss : NAN);
}

int ts_run_record_end(const struct ts_run_record *r, const char *ended,
                      const struct ts_solver_result *result, char **ret, size_t *bytes,
                      struct ts_err *err)
{
    struct ts_json j;
    char *text = NULL;
    size_t n = 0;
    FILE *f = r->out_of_memory ? NULL : open_memstream(&text, &n);
    int failed;
    if (f == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", TS_RUN_RECORD_NAME);
    ts_json_open(&j, f);
    ts_json_str(&j, "program", "tstream");
    ts_json_str(&j, "version", r->who.version);
    ts_json_str(&j, "commit", r->who.commit);
    ts_json_str(&j, "interface", r->who.interface);
    put_tensor(&j, r);
    ts_json_options(&j, r->who.opts, r->who.args);
    put_machine(&j, r->engine);
    ts_json_time(&j, "start", r->start);
    ts_json_time(&j, "end", time(NULL));
    put_sweeps(&j, r);
    ts_json_str(&j, "ended", ended);
    put_result(&j, r, result);
    ts_json_seal(&j, &text, &n);
    ts_json_close(&j);
    failed = ferror(f);
    if (fclose(f) != 0 || failed || text == NULL) {
        free(text);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", TS_RUN_RECORD_NAME);
    }
    *ret = text;
    *bytes = n;
    return 0;
}

void ts_run_record_free(struct ts_run_record *r)
{
    free(r->tensor);
    free(r->sweep);
    r->tensor = NULL;
    r->sweep = NULL;
}
