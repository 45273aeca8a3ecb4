/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects and writes run.json, the record of a run of tstream cp. */
#include "tools/tstream_record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/tool.h"
#include "tools/tool_version.h"

int tstream_record_start(struct tstream_record *r, const char *path, struct ts_err *err)
{
    r->start = time(NULL);
    r->tensor = realpath(path, NULL);
    if (r->tensor == NULL) /* moved away meanwhile: as it was named */
        r->tensor = strdup(path);
    return r->tensor != NULL ? 0 : ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
}

void tstream_record_sweep(struct tstream_record *r, const struct tstream_record_sweep *s)
{
    if (r->n == r->room) {
        const uint32_t room = 2 * r->room + 64;
        struct tstream_record_sweep *more = realloc(r->sweep, room * sizeof *more);
        if (more == NULL) {
            r->out_of_memory = 1;
            return;
        }
        r->sweep = more;
        r->room = room;
    }
    r->sweep[r->n++] = *s;
}

void tstream_record_past(struct tstream_record *r, double fit, double seconds)
{
    const struct tstream_record_sweep s = { .fit = fit, .seconds = seconds, .past = 1 };
    tstream_record_sweep(r, &s);
    r->n_past = r->n;
}

/* "2026-11-22T03:30:00+01:00" */
static void put_time(struct tool_json *j, const char *key, time_t t)
{
    struct tm local;
    char text[64] = "", zone[8];
    if (localtime_r(&t, &local) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local) > 0 &&
        strftime(zone, sizeof zone, "%z", &local) == 5)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.3s:%s", zone, zone + 3);
    tool_json_str(j, key, text);
}

static void put_tensor(struct tool_json *j, const struct tstream_record *r)
{
    const struct ts_tensor *t = r->engine->tensor;
    char checksum[17];
    snprintf(checksum, sizeof checksum, "%016" PRIx64, t->hash);
    tool_json_object(j, "tensor");
    tool_json_str(j, "path", r->tensor);
    tool_json_array(j, "shape");
    for (uint32_t m = 0; m < t->order; m++)
        tool_json_u64(j, NULL, ts_dim(t, m));
    tool_json_close(j);
    tool_json_array(j, "modes");
    for (uint32_t m = 0; m < t->order; m++)
        tool_json_str(j, NULL, ts_name(t, m));
    tool_json_close(j);
    tool_json_u64(j, "base", ts_first_index(t));
    tool_json_u64(j, "nnz", t->nnz);
    tool_json_f64(j, "norm", t->header.norm);
    tool_json_str(j, "checksum", checksum);
    tool_json_close(j);
}

/* The name of the CPU, "" when the system does not say. */
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

static void put_machine(struct tool_json *j, const struct ts_engine *e)
{
    struct ts_machine machine;
    char name[256];
    if (gethostname(name, sizeof name) != 0)
        name[0] = '\0';
    name[sizeof name - 1] = '\0';
    tool_json_str(j, "host", name);
    ts_machine_get(&machine);
    cpu_name(name, sizeof name);
    tool_json_str(j, "cpu", name[0] != '\0' ? name : NULL);
    tool_json_u64(j, "cpus", machine.cpus);
    tool_json_u64(j, "threads", e->threads);
    tool_json_array(j, "gpus");
    for (uint32_t i = 0; i < e->n_devices; i++) {
        tool_json_object(j, NULL);
        tool_json_i64(j, "number", e->device[i]);
        ts_processor_name(e->device[i], name, sizeof name);
        tool_json_str(j, "name", name[0] != '\0' ? name : NULL);
        tool_json_close(j);
    }
    tool_json_close(j);
}

static void put_sweeps(struct tool_json *j, const struct tstream_record *r)
{
    tool_json_u64(j, "sweeps_before", r->n_past);
    tool_json_array(j, "sweeps");
    for (uint32_t i = 0; i < r->n; i++) {
        const struct tstream_record_sweep *s = &r->sweep[i];
        tool_json_object(j, NULL);
        tool_json_u64(j, "sweep", i + 1);
        tool_json_f64(j, "fit", s->fit);
        tool_json_f64(j, "seconds", s->seconds);
        if (!s->past) {
            tool_json_f64(j, "objective", s->objective);
            tool_json_u64(j, "dead_components", s->n_dead);
            tool_json_f64(j, "wait_seconds", s->wait_seconds);
            tool_json_f64(j, "copy_seconds", s->copy_seconds);
            tool_json_f64(j, "kernel_seconds", s->kernel_seconds);
            tool_json_f64(j, "solve_seconds", s->solve_seconds);
            tool_json_u64(j, "bytes_read", s->bytes_read);
            tool_json_u64(j, "singular_modes", s->n_singular);
        }
        tool_json_close(j);
    }
    tool_json_close(j);
}

int tstream_record_end(const struct tstream_record *r, const char *ended, double fit, char **ret,
                       size_t *bytes, struct ts_err *err)
{
    struct tool_json j;
    char *text = NULL;
    size_t n = 0;
    FILE *f = r->out_of_memory ? NULL : open_memstream(&text, &n);
    int failed;
    if (f == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", TSTREAM_RECORD_NAME);
    tool_json_open(&j, f);
    tool_json_str(&j, "program", "tstream");
    tool_json_str(&j, "version", tool_version());
    tool_json_str(&j, "commit", tool_commit());
    put_tensor(&j, r);
    tool_json_options(&j, r->cmd, r->args);
    put_machine(&j, r->engine);
    put_time(&j, "start", r->start);
    put_time(&j, "end", time(NULL));
    put_sweeps(&j, r);
    tool_json_str(&j, "ended", ended);
    tool_json_f64(&j, "fit", fit);
    tool_json_close(&j);
    failed = ferror(f);
    if (fclose(f) != 0 || failed || text == NULL) {
        free(text);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", TSTREAM_RECORD_NAME);
    }
    *ret = text;
    *bytes = n;
    return 0;
}

void tstream_record_free(struct tstream_record *r)
{
    free(r->tensor);
    free(r->sweep);
    r->tensor = NULL;
    r->sweep = NULL;
}
