/* SPDX-License-Identifier: BSD-3-Clause */
/* reader_pread.c - reads without io_uring, by a few threads that call pread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine/thread.h"
#include "stream/feed/reader_engine.h"

/* number of threads; each takes whole jobs, so the kernel sees large reads */
#define THREADS 4u

struct ts_reader_pread {
    struct ts_reader_files *files;
    pthread_mutex_t lock;
    pthread_cond_t kicked;
    uint64_t kicks;
    int stop;
    pthread_t thread[THREADS];
    uint32_t n_threads;
};

static int read_job(struct ts_reader_files *f, const struct ts_read_job *job, struct ts_err *err)
{
    uint64_t at = 0;
    while (at < job->bytes) {
        const uint64_t left = job->bytes - at;
        const int direct = atomic_load(&f->direct);
        const ssize_t n =
            pread(f->fd[job->file], (char *)job->addr + at,
                  left < TS_READ_BYTES ? left : TS_READ_BYTES, (off_t)(job->offset + at));
        if (n > 0)
            at += (uint64_t)n;
        if (n >= 0 && at + job->spare >= job->bytes) /* all bytes that exist were read */
            return 0;
        if (n > 0)
            continue;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && direct) {
            ts_reader_drop_direct(f); /* only the first thread that calls this changes something */
            continue;
        }
        return ts_reader_fail(f, job->file, job->offset + at, n == 0 ? 0 : -errno, err);
    }
    return 0;
}

static void *read_jobs(void *arg)
{
    struct ts_reader_pread *p = arg;
    const struct ts_reader_conf *conf = &p->files->conf;
    struct ts_read_job job;
    struct ts_err err;
    for (;;) {
        uint64_t kicks;
        int stop, rc;
        pthread_mutex_lock(&p->lock);
        kicks = p->kicks;
        stop = p->stop;
        pthread_mutex_unlock(&p->lock);
        if (stop)
            return NULL;
        if (conf->next(conf->ctx, &job) == 1) {
            rc = read_job(p->files, &job, &err);
            conf->done(conf->ctx, &job, rc, &err);
            continue;
        }
        pthread_mutex_lock(&p->lock);
        while (!p->stop && p->kicks == kicks)
            pthread_cond_wait(&p->kicked, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
}

int ts_reader_pread_new(struct ts_reader_files *f, struct ts_reader_pread **ret, struct ts_err *err)
{
    struct ts_reader_pread *p = calloc(1, sizeof *p);
    int rc = 0;
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a reader");
    p->files = f;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->kicked, NULL);
    for (; p->n_threads < THREADS && rc == 0; p->n_threads += rc == 0)
        rc = ts_thread_new(&p->thread[p->n_threads], read_jobs, p);
    if (p->n_threads == 0) {
        ts_reader_pread_free(p);
        errno = rc;
        return ts_fail_errno(err, TS_ENOMEM, "no thread can be started to read shards");
    }
    *ret = p;
    return 0;
}

void ts_reader_pread_free(struct ts_reader_pread *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->kicked);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->kicked);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void ts_reader_pread_kick(struct ts_reader_pread *p)
{
    pthread_mutex_lock(&p->lock);
    p->kicks++;
    pthread_cond_broadcast(&p->kicked);
    pthread_mutex_unlock(&p->lock);
}
