/* SPDX-License-Identifier: BSD-3-Clause */
/* The names in a directory: finds the files that tstream wrote, and removes them. */
#include "base/files/atomic_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/atomic_steps.h"
#include "base/files/fd.h"

int ts_atomic_walk(int dir, int (*f)(void *ctx, int dir, const char *name), void *ctx)
{
    const int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    int rc = 0, saved;
    if (names == NULL) {
        saved = errno;
        ts_fd_close(fd);
        errno = saved;
        return -1;
    }
    for (;;) {
        errno = 0;
        e = readdir(names);
        if (e == NULL && errno != 0)
            rc = -1;
        if (e == NULL)
            break;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = f(ctx, dir, e->d_name);
        if (rc != 0)
            break;
    }
    saved = errno;
    closedir(names);
    errno = saved;
    return rc;
}

static enum ts_atomic_kind kind_of(const struct ts_atomic_conf *conf, int dir, const char *name,
                                   int whole)
{
    if (strcmp(name, TS_ATOMIC_LOCK) == 0)
        return ts_lock_is(dir, name) ? TS_ATOMIC_OURS : TS_ATOMIC_FOREIGN;
    return conf->kind(dir, name, whole);
}

static int is_foreign(enum ts_atomic_kind kind)
{
    return kind == TS_ATOMIC_FOREIGN || kind == TS_ATOMIC_UNMARKED;
}

static int note_kind(void *ctx, int dir, const char *name)
{
    struct ts_atomic_names *s = ctx;
    enum ts_atomic_kind kind;
    struct stat st;
    for (int tries = 0;; tries++) {
        errno = 0;
        kind = kind_of(s->conf, dir, name, s->whole);
        s->unread = errno == ELOOP || errno == ENXIO ? 0 : errno; /* links, sockets: never ours */
        if (!is_foreign(kind))
            break;
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
            return 0; /* removed meanwhile, by a process that has just committed */
        if (s->unread != ENOENT || tries == 100) /* another process removed it and made a
                                                  * new one */
            break;
    }
    if (kind == TS_ATOMIC_FOREIGN && s->unread == ENOENT)
        s->unread = 0; /* the file exists; conf->kind looked for a second file, which is missing */
    s->has_files = 1;
    s->fixed |= faccessat(dir, name, X_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0 &&
                fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
                faccessat(dir, name, W_OK, AT_EACCESS) != 0;
    s->has_state |= kind == TS_ATOMIC_STATE;
    s->unmarked = kind == TS_ATOMIC_UNMARKED;
    if (is_foreign(kind))
        snprintf(s->foreign, sizeof s->foreign, "%s", name);
    return is_foreign(kind);
}

int ts_atomic_look(const struct ts_atomic_conf *conf, const char *path, int dir, int whole,
                   struct ts_atomic_names *s, struct ts_err *err)
{
    *s = (struct ts_atomic_names){ .conf = conf, .whole = whole };
    if (ts_atomic_walk(dir, note_kind, s) < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be read", path);
    if (s->foreign[0] == '\0')
        return 0;
    errno = s->unread;
    if (errno != 0)
        return ts_fail_errno(err, TS_EIO, "%s/%s: cannot be read", path, s->foreign);
    if (s->unmarked)
        return ts_fail(
            err, TS_EBUSY,
            "%s holds %s, and neither a record of a run nor a mark shows that this "
            "program wrote it (copies and what C or Python saved with 0.2.0 have none), "
            "so it is not replaced: move it elsewhere, or name another directory with %s",
            path, s->foreign, conf->place);
    return ts_fail(err, TS_EBUSY,
                   "%s holds %s, which is not a file of a %s, so it is not replaced: move that "
                   "elsewhere, or name another directory with %s",
                   path, s->foreign, conf->what, conf->place);
}

struct clearing {
    const struct ts_atomic_conf *conf;
    int whole, states; /* whole: the directory was a result; states 1: states are removed too */
    int inside;        /* 1: the names are those of a directory inside the result */
};

static void clear_inside(const struct clearing *c, int dir, const char *name);

static int clear_name(void *ctx, int dir, const char *name)
{
    const struct clearing *c = ctx;
    enum ts_atomic_kind kind;
    if (strcmp(name, TS_ATOMIC_LOCK) == 0 && !c->inside)
        return 0; /* the lock file is removed last */
    kind = kind_of(c->conf, dir, name, c->whole);
    if ((kind == TS_ATOMIC_OURS || (kind == TS_ATOMIC_STATE && c->states)) &&
        unlinkat(dir, name, 0) != 0 && errno == EISDIR && !c->inside)
        clear_inside(c, dir, name);
    return 0;
}

/* Removes a directory that tstream wrote, with the files in it that tstream wrote. */
static void clear_inside(const struct clearing *c, int dir, const char *name)
{
    struct clearing inside = { c->conf, c->whole, 1, 1 };
    const int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)ts_atomic_walk(fd, clear_name, &inside);
    close(fd);
    unlinkat(dir, name, AT_REMOVEDIR); /* fails if files are left in it */
}

void ts_atomic_clear(const struct ts_atomic_conf *conf, int dir, int states)
{
    struct clearing c = { conf, 0, states, 0 };
    (void)ts_atomic_walk(dir, clear_name, &c);
}
