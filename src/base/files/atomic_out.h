/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic_out.h - results that appear whole or not at all: a directory, a file, or one small file of
 * a directory that others read meanwhile.
 *
 * A result is written beside its final place, under its name with a suffix (NAME.building,
 * NAME.partial), and renamed when all of it is on disk. Data is fsynced before the rename, the
 * directory and its parent after it, so after a power cut there is either the old or the new
 * result. The rename also replaces an old result (RENAME_EXCHANGE). Where the file system cannot do
 * that, it takes two renames; between them there is no result, but never a part of one.
 *
 *   links    are followed first (base/files/out_name.h); a pipe or a device is written directly
 *   lock     keeps a second process out. For a directory a file `lock` in it is locked, which holds
 *            the process and the host; for a file, the file itself. The lock ends with its process,
 *            and the next process clears what a dead one left. On file systems without locks
 *            (ENOLCK, ENOSYS, EOPNOTSUPP: some NFS and Lustre) a running process of the same host
 *            keeps others out; between hosts the process that starts last gets the place, and an
 *            earlier one is refused when it commits
 *   clearing removes only files that the hook `kind` calls ours. A directory that holds another
 *            file is refused before the work, in a sentence that names the file. An unfinished
 *            directory without a lock is judged like a complete one
 *   files    are replaced only when this program wrote them (base/files/written.h); the same holds
 *            for NAME.partial. An empty file counts as ours
 *   rights   what this user cannot rename or clear at the end is refused before the work
 *   after    the rename there are no failures: the result is in place. If a later step does not
 *            succeed (syncing the parent, removing the old result), *warn has a sentence and a code
 *            other than 0
 *
 *   owner    the caller that opened it; close takes NULL and half-made ones, and removes what was
 *            not committed
 *   threads  one at a time
 *   errors   0 or a negative ts_code. TS_EBUSY: the result exists and may not be replaced, or
 *            another process writes it. A refusal leaves nothing behind
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
    TS_ATOMIC_OURS,        /* removed when the result is replaced or was not finished */
    TS_ATOMIC_STATE,       /* a later run goes on from it: a new run is refused, and an end without
                            * commit keeps it */
    /* it may be an output of ours, but has no mark that shows it: not touched */
    TS_ATOMIC_UNMARKED,
};

struct ts_atomic_conf {
    const char *path;   /* as the user gave it; copied */
    const char *suffix; /* ".building", ".partial" */
    const char *what; /* "tensor", "decomposition": for sentences. Strings from here on must stay */
    const char *place; /* the setting for another place, in messages: TS_SET_OUT */
    int force;         /* an existing result may be replaced, and a state dropped */
    int resume;        /* an existing result may be replaced; its state is kept */
    int resumable;     /* the command has --resume: the sentences name it */
    /* For a directory: says what a file in it is, or a directory, of which all must be ours then:
     * it is cleared as a whole, one level deep. It is not called for the lock. whole: the directory
     * is a complete result, so a name proves nothing and the contents must be right. Otherwise it
     * is unfinished, and files may end at any byte. */
    enum ts_atomic_kind (*kind)(int dir, const char *name, int whole);
    /* For a file: whether its first n bytes are those of an output of this kind. sure: they must be
     * a signature, for a file without a mark may be one of an earlier version. Otherwise a likeness
     * is enough: the file system keeps no marks. NULL: neither */
    int (*looks)(const char *head, size_t n, int sure);
};

/* ---- a directory ---- */

struct ts_atomic_dir;

/* Checks everything that can be checked first, makes PATH.suffix, locks it, and clears what a dead
 * process left in it. */
int ts_atomic_dir_open(const struct ts_atomic_conf *conf, struct ts_atomic_dir **ret,
                       struct ts_err *err);
void ts_atomic_dir_close(struct ts_atomic_dir *d);

/* the path where files are written */
const char *ts_atomic_dir_partial(const struct ts_atomic_dir *d);
int ts_atomic_dir_fd(const struct ts_atomic_dir *d); /* descriptor of `partial`; not to be closed */
uint64_t ts_atomic_dir_free(const struct ts_atomic_dir *d); /* bytes of its file system at opening;
                                                             * UINT64_MAX: not known */

/* Makes a new file in the directory, and finishes it: the data is flushed to disk. *path is for
 * sentences and is to be freed. */
int ts_atomic_dir_create(struct ts_atomic_dir *d, const char *name, FILE **ret, char **path,
                         struct ts_err *err);
int ts_atomic_dir_finish(FILE *file, const char *path, struct ts_err *err);

/* Syncs every file, then puts the directory in its place. */
int ts_atomic_dir_commit(struct ts_atomic_dir *d, struct ts_err *warn, struct ts_err *err);

/* Whether a process writes to the open directory PATH.partial now: 1 and its number (0: not known),
 * or 0. On file systems without locks only processes of this host are seen. */
int ts_atomic_dir_held(int partial, long *pid);

/* Whether the directory PATH is a result that was put in the place of another, which now has the
 * name PATH.partial and was not removed, because the process was killed: no run goes on from what
 * is there. */
int ts_atomic_dir_replaced(const char *path);
/* like ts_atomic_dir_replaced, for PATH as an open directory */
int ts_atomic_dir_replaces(int dir);

/* Reads the first bytes of a regular file of a directory, for `kind`: returns how many, at most
 * `room`; -1 when it is not a regular file or cannot be read. Never waits for the writer of a
 * pipe. */
long ts_atomic_head(int dir, const char *name, void *buf, size_t room);

/* ---- a file ---- */

struct ts_atomic_file;

/* conf->kind and conf->resumable are not used. A path that leads to what is written directly is
 * opened to append. */
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

/* Writes `bytes` as the file NAME of the directory `dir` (`where` is its path, for sentences). */
int ts_atomic_put(int dir, const char *where, const char *name, const void *data, size_t bytes,
                  enum ts_atomic_sync sync, struct ts_err *err);

/* The same in steps, for data too large to hold in memory: begin opens a new file NAME.new to
 * write to; end closes fd and renames. rc < 0: the writing failed; the file is removed and rc
 * returned. */
int ts_atomic_put_begin(int dir, const char *where, const char *name, int *fd, struct ts_err *err);
int ts_atomic_put_end(int dir, const char *where, const char *name, int fd, int rc,
                      enum ts_atomic_sync sync, struct ts_err *err);

#endif
