/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes X.cp.partial/status.json once a second. */
#include "engine/run_status.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/atomic_out.h"
#include "base/c_locale.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/machine/thread.h"
#include "format/arrays/array_name.h"

#define SECOND_NS UINT64_C(1000000000)

static void put_time(struct ts_json *j, const char *key, time_t t)
{
    if (t == 0)
        ts_json_str(j, key, NULL);
    else
        ts_json_time(j, key, t);
}

static void put_seconds(struct ts_json *j, const char *key, int known, uint64_t ns)
{
    if (known)
        ts_json_f64(j, key, (double)ns * 1e-9);
    else
        ts_json_str(j, key, NULL);
}

static void put_count(struct ts_json *j, const char *key, uint32_t n)
{
    if (n > 0)
        ts_json_u64(j, key, n);
    else
        ts_json_str(j, key, NULL);
}

/* Writes the last sweeps as members of status.json. The caller holds the lock. */
static void put_sweeps(struct ts_json *j, const struct ts_run_status *s)
{
    const uint32_t first =
        s->n_sweeps > TS_RUN_STATUS_SWEEPS ? s->n_sweeps - TS_RUN_STATUS_SWEEPS : 0;
    ts_json_array(j, "sweeps");
    for (uint32_t i = first; i < s->n_sweeps; i++) {
        ts_json_object(j, NULL);
        ts_json_u64(j, "sweep", s->past[i % TS_RUN_STATUS_SWEEPS].sweep);
        ts_json_f64(j, "fit", s->past[i % TS_RUN_STATUS_SWEEPS].fit);
        ts_json_f64(j, "log_likelihood", s->past[i % TS_RUN_STATUS_SWEEPS].log_likelihood);
        ts_json_f64(j, "seconds", s->past[i % TS_RUN_STATUS_SWEEPS].seconds);
        ts_json_close(j);
    }
    ts_json_close(j);
}

/* Writes all members of status.json. The caller holds the lock. */
static void put_all(struct ts_json *j, const struct ts_run_status *s)
{
    struct ts_run_figures f = { 0 };
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    s->figures(s->ctx, &f);
    ts_json_str(j, "state", s->state);
    ts_json_str(j, "sentence", s->sentence);
    ts_json_u64(j, "pid", (uint64_t)getpid());
    ts_json_str(j, "host", host);
    put_time(j, "start", s->start);
    put_time(j, "now", time(NULL));
    ts_json_str(j, "tensor", s->tensor_path);
    ts_json_str(j, "out", s->out);
    put_count(j, "model", s->model);
    put_count(j, "models", s->n_models);
    put_count(j, "side_by_side", s->at_once);
    ts_json_u64(j, "sweep", s->sweep);
    ts_json_u64(j, "iters", s->iters);
    ts_json_u64(j, "mode", s->mode);
    ts_json_u64(j, "order", s->order);
    ts_json_u64(j, "done_nnz", f.done);
    ts_json_u64(j, "sweep_nnz", f.total);
    ts_json_f64(j, "nnz_per_s", f.per_s);
    put_seconds(j, "sweep_left_seconds", f.known, f.left_ns);
    put_seconds(j, "run_left_seconds", f.known, f.run_left_ns);
    put_time(j, "saved", s->saved);
    put_sweeps(j, s);
    ts_json_options(j, s->opts, s->args);
}

/* Writes the file status.json. The caller holds the lock. A full disk does not end the run. */
static void put(struct ts_run_status *s)
{
    struct ts_json j;
    struct ts_err err;
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    int failed;
    if (f == NULL)
        return;
    ts_json_open(&j, f);
    put_all(&j, s);
    ts_json_seal(&j, &text, &bytes);
    ts_json_close(&j);
    failed = ferror(f);
    if (fclose(f) == 0 && !failed)
        (void)ts_atomic_put(s->dir, s->partial, TS_RUN_STATUS_NAME, text, bytes, TS_ATOMIC_FAST,
                            &err);
    free(text);
}

static void *write_always(void *arg)
{
    struct ts_run_status *s = arg;
    const locale_t before = ts_c_locale_enter();
    uint64_t due = ts_clock_ns() + SECOND_NS;
    pthread_mutex_lock(&s->lock);
    while (!s->ends) {
        const struct timespec until = { .tv_sec = (time_t)(due / SECOND_NS),
                                        .tv_nsec = (long)(due % SECOND_NS) };
        if (pthread_cond_timedwait(&s->wake, &s->lock, &until) == 0)
            continue;
        put(s);
        due = ts_clock_ns() + SECOND_NS;
    }
    pthread_mutex_unlock(&s->lock);
    ts_c_locale_leave(before);
    return NULL;
}

static void start_thread(struct ts_run_status *s)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    /* CLOCK_MONOTONIC is the clock of ts_clock_ns */
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    s->ends = 0;
    s->writes = ts_thread_new(&s->thread, write_always, s) == 0;
    if (!s->writes)
        pthread_cond_destroy(&s->wake);
}

static void end_thread(struct ts_run_status *s)
{
    if (!s->writes)
        return;
    pthread_mutex_lock(&s->lock);
    s->ends = 1;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->wake);
    s->writes = 0;
}

static int keep_dir(struct ts_run_status *s, int dir, struct ts_file_id *which)
{
    s->dir = dir;
    if (s->dir >= 0 && !ts_file_id_open(s->dir, which)) {
        close(s->dir);
        s->dir = -1;
    }
    return s->dir >= 0;
}

void ts_run_status_start(struct ts_run_status *s, uint32_t sweep)
{
    pthread_mutex_init(&s->lock, NULL);
    s->state = "running";
    s->start = time(NULL);
    s->sweep = sweep;
    s->mode = 1;
    s->tensor_path = ts_array_name_real(s->tensor);
    /* remembers the identity of the directory, so that another one that gets its name later is not
     * changed */
    if (!keep_dir(s,
                  s->partial == NULL ? -1 : openat(s->in, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                  &s->own))
        return;
    put(s);
    start_thread(s);
}

void ts_run_status_mode(struct ts_run_status *s, uint32_t mode)
{
    if (s->state == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->mode = mode;
    pthread_mutex_unlock(&s->lock);
}

void ts_run_status_sweep(struct ts_run_status *s, uint32_t sweep, double fit, double log_likelihood,
                         double seconds)
{
    const uint32_t at = s->n_sweeps % TS_RUN_STATUS_SWEEPS;
    if (s->state == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->past[at].sweep = sweep;
    s->past[at].fit = fit;
    s->past[at].log_likelihood = log_likelihood;
    s->past[at].seconds = seconds;
    s->n_sweeps++;
    if (sweep < s->iters) {
        s->sweep = sweep + 1;
        s->mode = 1;
    }
    pthread_mutex_unlock(&s->lock);
}

void ts_run_status_at_once(struct ts_run_status *s, uint32_t n)
{
    if (s->state == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->at_once = n;
    pthread_mutex_unlock(&s->lock);
}

void ts_run_status_saved(struct ts_run_status *s)
{
    if (s->state == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->saved = time(NULL);
    pthread_mutex_unlock(&s->lock);
}

static void stop(struct ts_run_status *s)
{
    end_thread(s);
    if (s->dir < 0)
        return;
    close(s->dir);
    s->dir = -1;
}

void ts_run_status_remove(struct ts_run_status *s)
{
    if (s->state == NULL)
        return;
    end_thread(s);
    if (s->dir >= 0)
        (void)unlinkat(s->dir, TS_RUN_STATUS_NAME, 0);
    stop(s);
}

void ts_run_status_end(struct ts_run_status *s, const char *state, const char *sentence)
{
    struct ts_file_id now;
    if (s->state == NULL)
        return;
    stop(s);
    if (state != NULL && s->partial != NULL &&
        keep_dir(s, open(s->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &now)) {
        pthread_mutex_lock(&s->lock);
        s->state = state;
        s->sentence = sentence;
        s->told = 1;
        if (ts_file_id_same(&now, &s->own))
            put(s);
        pthread_mutex_unlock(&s->lock);
        close(s->dir);
    }
    s->state = NULL;
    free(s->tensor_path);
    s->tensor_path = NULL;
    pthread_mutex_destroy(&s->lock);
}
