/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes X.cp.partial/status.json, again and again. */
#include "tools/status_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/tool_watch.h"

void status_file_time(time_t t, char text[32])
{
    struct tm local;
    char zone[8] = "";
    text[0] = '\0';
    if (localtime_r(&t, &local) == NULL || strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &local) == 0 ||
        strftime(zone, sizeof zone, "%z", &local) != 5)
        return;
    snprintf(text + strlen(text), 32 - strlen(text), "%.3s:%s", zone, zone + 3);
}

static void put_time(struct tool_json *j, const char *key, time_t t)
{
    char text[32];
    status_file_time(t, text);
    tool_json_str(j, key, t == 0 ? NULL : text);
}

static void put_seconds(struct tool_json *j, const char *key, int known, uint64_t ns)
{
    if (known)
        tool_json_f64(j, key, (double)ns * 1e-9);
    else
        tool_json_str(j, key, NULL);
}

static void put_count(struct tool_json *j, const char *key, uint32_t n)
{
    if (n > 0)
        tool_json_u64(j, key, n);
    else
        tool_json_str(j, key, NULL);
}

/* With the lock held. */
static void put_sweeps(struct tool_json *j, const struct status_file *s)
{
    const uint32_t first = s->n_sweeps > STATUS_FILE_SWEEPS ? s->n_sweeps - STATUS_FILE_SWEEPS : 0;
    tool_json_array(j, "sweeps");
    for (uint32_t i = first; i < s->n_sweeps; i++) {
        tool_json_object(j, NULL);
        tool_json_u64(j, "sweep", s->past[i % STATUS_FILE_SWEEPS].sweep);
        tool_json_f64(j, "fit", s->past[i % STATUS_FILE_SWEEPS].fit);
        tool_json_f64(j, "seconds", s->past[i % STATUS_FILE_SWEEPS].seconds);
        tool_json_close(j);
    }
    tool_json_close(j);
}

/* With the lock held. */
static void put_all(struct tool_json *j, const struct status_file *s)
{
    struct tool_progress_figures f;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    tool_progress_get(s->progress, &f);
    tool_json_str(j, "state", s->state);
    tool_json_str(j, "sentence", s->sentence);
    tool_json_u64(j, "pid", (uint64_t)getpid());
    tool_json_str(j, "host", host);
    put_time(j, "start", s->start);
    put_time(j, "now", time(NULL));
    tool_json_str(j, "tensor", s->tensor_path);
    tool_json_str(j, "out", s->out);
    put_count(j, "model", s->model);
    put_count(j, "models", s->n_models);
    tool_json_u64(j, "sweep", s->sweep);
    tool_json_u64(j, "iters", s->iters);
    tool_json_u64(j, "mode", s->mode);
    tool_json_u64(j, "order", s->order);
    tool_json_u64(j, "done_nnz", f.done);
    tool_json_u64(j, "sweep_nnz", f.total);
    tool_json_f64(j, "nnz_per_s", f.per_s);
    put_seconds(j, "sweep_left_seconds", f.known, f.left_ns);
    put_seconds(j, "run_left_seconds", f.known, f.whole_ns);
    put_time(j, "saved", s->saved);
    put_sweeps(j, s);
    tool_json_options(j, s->cmd, s->args);
}

/* With the lock held. A full disk is no reason to end a run. */
static void put(struct status_file *s)
{
    struct tool_json j;
    struct ts_err err;
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    int failed;
    if (f == NULL)
        return;
    tool_json_open(&j, f);
    put_all(&j, s);
    tool_json_close(&j);
    failed = ferror(f);
    if (fclose(f) == 0 && !failed)
        (void)ts_atomic_put(s->dir, s->partial, STATUS_FILE_NAME, text, bytes, TS_ATOMIC_FAST,
                            &err);
    free(text);
}

static void tick(void *ctx)
{
    struct status_file *s = ctx;
    pthread_mutex_lock(&s->lock);
    put(s);
    pthread_mutex_unlock(&s->lock);
}

static int open_dir(struct status_file *s)
{
    s->dir = s->partial == NULL ? -1 : open(s->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->dir >= 0;
}

void status_file_start(struct status_file *s, uint32_t sweep)
{
    pthread_mutex_init(&s->lock, NULL);
    s->state = "running";
    s->start = time(NULL);
    s->sweep = sweep;
    s->mode = 1;
    s->tensor_path = realpath(s->tensor, NULL);
    if (!open_dir(s))
        return;
    tick(s);
    tool_watch_call(tick, s);
}

void status_file_mode(struct status_file *s, uint32_t mode)
{
    if (s->state == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->mode = mode;
    pthread_mutex_unlock(&s->lock);
}

void status_file_sweep(struct status_file *s, uint32_t sweep, double fit, double seconds)
{
    const uint32_t at = s->n_sweeps % STATUS_FILE_SWEEPS;
    if (s->state == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->past[at].sweep = sweep;
    s->past[at].fit = fit;
    s->past[at].seconds = seconds;
    s->n_sweeps++;
    if (sweep < s->iters) {
        s->sweep = sweep + 1;
        s->mode = 1;
    }
    pthread_mutex_unlock(&s->lock);
}

void status_file_saved(struct status_file *s)
{
    if (s->state == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->saved = time(NULL);
    pthread_mutex_unlock(&s->lock);
}

static void stop(struct status_file *s)
{
    if (s->dir < 0)
        return;
    tool_watch_call(NULL, NULL);
    close(s->dir);
    s->dir = -1;
}

void status_file_remove(struct status_file *s)
{
    if (s->state == NULL)
        return;
    if (s->dir >= 0) {
        tool_watch_call(NULL, NULL);
        (void)unlinkat(s->dir, STATUS_FILE_NAME, 0);
    }
    stop(s);
}

void status_file_end(struct status_file *s, const char *state, const char *sentence)
{
    if (s->state == NULL)
        return;
    stop(s);
    if (state != NULL && open_dir(s)) {
        pthread_mutex_lock(&s->lock);
        s->state = state;
        s->sentence = sentence;
        s->told = 1;
        put(s);
        pthread_mutex_unlock(&s->lock);
        close(s->dir);
    }
    s->state = NULL;
    free(s->tensor_path);
    s->tensor_path = NULL;
    pthread_mutex_destroy(&s->lock);
}
