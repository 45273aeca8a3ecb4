/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic_out.h - results that appear whole or not at all: a directory, a file, or one small file of a
 * directory that others read meanwhile.
 *
 * A result is written beside its place, under its name with a suffix (NAME.building, NAME.partial), and
 * renamed when everything in it is on disk: data are fsynced before the rename, the directory and its
 * parent after it, so that a power cut leaves the old or the new one. What was there before goes in the
 * same step (RENAME_EXCHANGE), or, where the file system cannot do that, in two: then for a moment there
 * is none, and never a part of one.
 *
 *   links    are followed first (base/out_name.h); what is a pipe or a device is written as it is
 *   lock     a second process is refused: of a directory a file `lock` in it is locked, which holds process
 *            and host; of a file the file itself. The lock goes with its process, and what a dead one
 *            left is cleared by the next. Where there are no locks (ENOLCK, ENOSYS, EOPNOTSUPP: some NFS
 *            and Lustre), a process of this host that lives is refused by its number; else who starts
 *            last has it, and one that was there before is refused when it commits
 *   clearing removes files that the hook `kind` calls ours, and nothing else: a directory that holds
 *            another file is refused by that file's name, before the work
 *   after    the rename nothing is a failure any more: the result is in place. What could not be done
 *            then (the parent on disk, the old one removed) is a sentence in *warn, whose code is not 0
 *
 *   owner    whoever opened; close takes NULL and half-made ones, and removes what was not committed
 *   threads  one at a time
 *   errors   0 or a negative ts_code. TS_EBUSY: it exists and may not be replaced, or another process
 *            writes it. A refusal leaves nothing behind
 */
#ifndef TS_BASE_ATOMIC_OUT_H
#define TS_BASE_ATOMIC_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

#define TS_ATOMIC_LOCK "lock" /* the file in a directory that is being written */

enum ts_atomic_kind {
    TS_ATOMIC_FOREIGN = 0, /* not written by us: never touched */
    TS_ATOMIC_OURS,        /* removed when what it belongs to is replaced or was not finished */
    TS_ATOMIC_STATE,       /* what a later run goes on from: a plain new run is refused, and an end
                            * without commit leaves it */
};

struct ts_atomic_conf {
    const char *path;   /* as the user gave it; copied */
    const char *suffix; /* ".building", ".partial" */
    const char *what; /* "tensor", "decomposition": for sentences. Strings from here on must stay */
    const char *place; /* the option that names another place: "--out" */
    int force;         /* what is there may be replaced, a state dropped */
    int resume;        /* what is there may be replaced, a state is kept */
    int resumable;     /* the command has --resume: the sentences name it */
    /* Of a directory: what a file in it is; the lock is not asked for. whole: the directory is a result,
     * so that names prove nothing and contents must be right; else it is unfinished, and files may be cut
     * short at any byte. */
    enum ts_atomic_kind (*kind)(int dir, const char *name, int whole);
};

/* ---- a directory ---- */

struct ts_atomic_dir;

/* Refuses what can be refused, makes PATH.suffix, locks it, and clears it of what a dead process left. */
int ts_atomic_dir_open(const struct ts_atomic_conf *conf, struct ts_atomic_dir **ret,
                       struct ts_err *err);
void ts_atomic_dir_close(struct ts_atomic_dir *d);

const char *ts_atomic_dir_path(const struct ts_atomic_dir *d);    /* what it will be */
const char *ts_atomic_dir_partial(const struct ts_atomic_dir *d); /* where files are written */
int ts_atomic_dir_fd(const struct ts_atomic_dir *d);              /* of partial; not to be closed */
uint64_t ts_atomic_dir_free(const struct ts_atomic_dir *d); /* bytes of its file system at opening;
                                                             * UINT64_MAX: not known */

/* A new file in it, and its end: flushed to the disk. *path is for sentences, to be freed. */
int ts_atomic_dir_create(struct ts_atomic_dir *d, const char *name, FILE **ret, char **path,
                         struct ts_err *err);
int ts_atomic_dir_finish(FILE *file, const char *path, struct ts_err *err);

/* Every file of it on disk, and the directory in its place. */
int ts_atomic_dir_commit(struct ts_atomic_dir *d, struct ts_err *warn, struct ts_err *err);

/* Whether a process writes to the directory `partial` now: 1 and its number (0: not known), or 0. Where
 * there are no locks, only of this host. */
int ts_atomic_dir_held(const char *partial, long *pid);

/* The first bytes of a regular file of a directory, for `kind`: how many, at most `room`; -1 when it is
 * none or cannot be read. Does not wait for whoever writes to a pipe. */
long ts_atomic_head(int dir, const char *name, void *buf, size_t room);

/* ---- a file ---- */

struct ts_atomic_file;

/* kind and resumable are not looked at. */
int ts_atomic_file_open(const struct ts_atomic_conf *conf, struct ts_atomic_file **ret,
                        struct ts_err *err);
void ts_atomic_file_close(struct ts_atomic_file *f);

const char *ts_atomic_file_path(const struct ts_atomic_file *f);
int ts_atomic_file_fd(const struct ts_atomic_file *f); /* to write to; not to be closed */
int ts_atomic_file_commit(struct ts_atomic_file *f, struct ts_err *warn, struct ts_err *err);

/* ---- a file of a directory that is replaced as a whole, many times ---- */

enum ts_atomic_sync {
    TS_ATOMIC_FAST,    /* whole for every reader, but not after a power cut: a status */
    TS_ATOMIC_DURABLE, /* data on disk before, the directory after the rename: a checkpoint */
};

/* NAME of the directory `dir` (`where` is its path, for sentences) := these bytes. */
int ts_atomic_put(int dir, const char *where, const char *name, const void *data, size_t bytes,
                  enum ts_atomic_sync sync, struct ts_err *err);

/* The same in steps, for what is too large to lie in memory: a new file NAME.new to write to, and its
 * end, which closes fd. rc < 0: the writing failed; the file is removed and rc returned. */
int ts_atomic_put_begin(int dir, const char *where, const char *name, int *fd, struct ts_err *err);
int ts_atomic_put_end(int dir, const char *where, const char *name, int fd, int rc,
                      enum ts_atomic_sync sync, struct ts_err *err);

#endif
