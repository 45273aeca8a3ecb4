/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the files and chooses how they are read: by io_uring, or by threads that call pread. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/open_dir.h"
#include "stream/feed/reader_engine.h"

struct ts_reader {
    struct ts_reader_files files;
    const char **path; /* n_files paths */
    /* the two ways to read, of which exactly one of uring and pread is not NULL */
    struct ts_reader_uring *uring;
    struct ts_reader_pread *pread;
};

void ts_reader_note(struct ts_reader_files *f, const char *fmt, ...)
{
    va_list ap;
    size_t at;
    pthread_mutex_lock(&f->lock);
    at = strlen(f->fallback);
    if (at > 0 && at + 2 < sizeof f->fallback) {
        strcpy(f->fallback + at, "; ");
        at += 2;
    }
    va_start(ap, fmt);
    vsnprintf(f->fallback + at, sizeof f->fallback - at, fmt, ap);
    va_end(ap);
    pthread_mutex_unlock(&f->lock);
}

/* Makes later reads of all files go through the page cache. A thread that finds `direct` 0 repeats
 * its read, and fails if that read fails too. So `direct` becomes 0 only after all files are open
 * without O_DIRECT. */
int ts_reader_drop_direct(struct ts_reader_files *f)
{
    int was;
    pthread_mutex_lock(&f->lock);
    was = atomic_load(&f->direct);
    for (uint32_t i = 0; was && i < f->conf.n_files; i++)
        fcntl(f->fd[i], F_SETFL, fcntl(f->fd[i], F_GETFL) & ~O_DIRECT);
    atomic_store(&f->direct, 0);
    pthread_mutex_unlock(&f->lock);
    if (!was)
        return 0;
    ts_reader_note(f, "%s: O_DIRECT is refused there, reading through the page cache",
                   f->conf.path[0]);
    return 1;
}

int ts_reader_fail(const struct ts_reader_files *f, uint32_t file, uint64_t offset, int64_t got,
                   struct ts_err *err)
{
    const char *path = f->conf.path[file];
    if (got >= 0)
        return ts_fail(err, TS_EFORMAT, "%s: the file ends at byte %" PRIu64 ", inside a shard",
                       path, offset + (uint64_t)got);
    errno = (int)-got;
    return ts_fail_errno(err, TS_EIO, "%s: byte %" PRIu64 ": cannot be read", path, offset);
}

/* Opens file i with `flags`: the file of the caller's descriptor if there is one, otherwise by its
 * path. */
static int open_one(const struct ts_reader_conf *c, uint32_t i, int flags)
{
    return c->fd != NULL && c->fd[i] >= 0 ? ts_file_again(c->fd[i], c->path[i], flags)
                                          : open(c->path[i], flags);
}

static int open_files(struct ts_reader_files *f, struct ts_err *err)
{
    const int want = O_RDONLY | O_CLOEXEC;
    int direct = (f->conf.avoid & TS_AVOID_DIRECT) == 0;
    for (uint32_t i = 0; i < f->conf.n_files; i++) {
        const char *path = f->conf.path[i];
        f->fd[i] = direct ? open_one(&f->conf, i, want | O_DIRECT) : -1;
        if (f->fd[i] < 0 && direct && errno == EINVAL) {
            atomic_store(&f->direct, 1);
            ts_reader_drop_direct(f);
            direct = 0;
        }
        if (f->fd[i] < 0)
            f->fd[i] = open_one(&f->conf, i, want);
        if (f->fd[i] < 0 && errno == ESTALE)
            return ts_open_dir_fail(path, err);
        if (f->fd[i] < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot be opened", path);
    }
    atomic_store(&f->direct, direct);
    return 0;
}

int ts_reader_new(const struct ts_reader_conf *conf, struct ts_reader **ret, struct ts_err *err)
{
    struct ts_reader *r = calloc(1, sizeof *r);
    int rc = 0;
    if (r == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a reader");
    r->files.conf = *conf;
    pthread_mutex_init(&r->files.lock, NULL);
    r->files.fd = malloc((conf->n_files + 1) * sizeof *r->files.fd);
    r->path = malloc((conf->n_files + 1) * sizeof *r->path);
    r->files.conf.path = r->path;
    for (uint32_t i = 0; r->files.fd != NULL && i < conf->n_files; i++)
        r->files.fd[i] = -1;
    for (uint32_t i = 0; r->path != NULL && i < conf->n_files; i++)
        r->path[i] = conf->path[i];
    rc = r->files.fd == NULL || r->path == NULL
             ? ts_fail(err, TS_ENOMEM, "out of memory for a reader")
             : open_files(&r->files, err);
    r->files.conf.fd = NULL;
    if (rc == 0 && (conf->avoid & TS_AVOID_URING) == 0)
        rc = ts_reader_uring_new(&r->files, &r->uring, err);
    if (rc == TS_ELIMIT)
        rc = 0;
    if (rc == 0 && r->uring == NULL)
        rc = ts_reader_pread_new(&r->files, &r->pread, err);
    if (rc == 0)
        *ret = r;
    else
        ts_reader_free(r);
    return rc;
}

void ts_reader_free(struct ts_reader *r)
{
    if (r == NULL)
        return;
    ts_reader_uring_free(r->uring);
    ts_reader_pread_free(r->pread);
    for (uint32_t i = 0; r->files.fd != NULL && i < r->files.conf.n_files; i++)
        if (r->files.fd[i] >= 0)
            close(r->files.fd[i]);
    free(r->files.fd);
    free(r->path);
    pthread_mutex_destroy(&r->files.lock);
    free(r);
}

void ts_reader_kick(struct ts_reader *r)
{
    if (r->uring != NULL)
        ts_reader_uring_kick(r->uring);
    else
        ts_reader_pread_kick(r->pread);
}

void ts_reader_facts(struct ts_reader *r, struct ts_reader_facts *ret)
{
    ret->direct = atomic_load(&r->files.direct);
    ret->uring = r->uring != NULL;
    ret->registered = r->uring != NULL && ts_reader_uring_registered(r->uring);
    pthread_mutex_lock(&r->files.lock);
    ret->fallback = r->files.fallback[0] == '\0' ? NULL : r->files.fallback;
    pthread_mutex_unlock(&r->files.lock);
}
