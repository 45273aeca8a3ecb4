/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic_out.h - results that appear whole or not at all: a directory, a file, or one small file of
 * a directory that others read meanwhile.
 *
 * A result is written next to its final place, under its name with a suffix (NAME.building,
 * NAME.partial), and renamed when all of it is on disk. Data is fsynced before the rename, the
 * directory and its parent after it. So after a power cut either the old or the new result exists.
 * The rename also replaces an old result (RENAME_EXCHANGE). If the file system cannot do that, two
 * renames are used. Between them no result exists, but never a part of one.
 *
 *   links    are followed first (base/files/out_name.h); a pipe or a device is written directly
 *   lock     keeps a second process out. In a directory, a file `lock` with the process and the
 *            host is locked; otherwise the file itself. The lock ends with its process, and the
 *            next process removes the files of a dead one. On file systems without locks (ENOLCK,
 *            ENOSYS, EOPNOTSUPP: some NFS and Lustre) a running process of the same host keeps
 *            others out; between hosts, the process that starts last gets the place, and the commit
 *            of an earlier one fails
 *   clearing removes only files that the function `kind` calls ours (written by tstream). If a
 *            directory holds another file, opening fails with a message that names the file. An
 *            unfinished directory without a lock is checked like a complete one
 *   files    are replaced only when this program wrote them (base/files/written.h); the same holds
 *            for NAME.partial. An empty file counts as ours
 *   rights   opening fails if this user could not rename or clear the old result at the end
 *   after    the rename there are no failures, as the result is in place. If a later step does not
 *            succeed (syncing the parent, removing the old result), *warn has a message and a code
 *            other than 0
 *
 *   owner    the caller that opened it; close takes NULL and half-made ones, and removes what was
 *            not committed
 *   threads  one thread at a time
 *   errors   0 or a negative ts_code. TS_EBUSY: the result exists and may not be replaced, or
 *            another process writes it. A failure to open leaves nothing behind
 */
#ifndef TS_BASE_ATOMIC_OUT_H
#define TS_BASE_ATOMIC_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

#define TS_ATOMIC_LOCK "lock" /* name of the lock file in an unfinished directory */

enum ts_atomic_kind {
    TS_ATOMIC_FOREIGN = 0, /* not written by us: never touched */
    TS_ATOMIC_OURS,        /* removed when the result is replaced or was not finished */
    /* a later run resumes from it: a new run fails, and an end without commit keeps it */
    TS_ATOMIC_STATE,
    /* it may be an output of ours, but no attribute (written.h) proves it: not touched */
    TS_ATOMIC_UNMARKED,
};

/* How a result is written and put in place. */
struct ts_atomic_conf {
    const char *path;   /* path of the result, as the user gave it; copied */
    const char *suffix; /* added to the path until the commit: ".building" or ".partial" */
    /* "tensor" or "decomposition", for messages. Strings from here on must stay valid */
    const char *what;
    const char *place; /* for messages: the setting that chooses another place */
    int force;         /* an existing result may be replaced, and the state of a run dropped */
    int resume;        /* an existing result may be replaced; its state is kept */
    int resumable;     /* the command has --resume, which messages mention */
    /* For a result that is a directory: returns the kind of a file in it, or of a directory, all of
     * whose files must be ours. Such a directory is cleared as a whole, one level deep. It is not
     * called for the lock. whole: the directory is a complete result, so the contents of files are
     * checked, not only their names. Otherwise it is unfinished, and files may end at any byte. */
    enum ts_atomic_kind (*kind)(int dir, const char *name, int whole);
    /* For a result that is a file: whether its first n bytes are those of an output of this kind.
     * sure: they must be a signature, as for a file without a mark, which an earlier version may
     * have written. Otherwise they only need to look similar, as the file system keeps no marks.
     * NULL: no file counts as ours by its bytes */
    int (*looks)(const char *head, size_t n, int sure);
};

/* ---- a directory that appears whole ---- */

struct ts_atomic_dir;

/* Checks before the work, as far as possible, that the result can get its name at the end. Then
 * makes PATH.suffix, locks it, and removes the files that a dead process left in it. */
int ts_atomic_dir_open(const struct ts_atomic_conf *conf, struct ts_atomic_dir **ret,
                       struct ts_err *err);
void ts_atomic_dir_close(struct ts_atomic_dir *d);

/* returns the path of the directory to write files in */
const char *ts_atomic_dir_partial(const struct ts_atomic_dir *d);
int ts_atomic_dir_fd(const struct ts_atomic_dir *d); /* descriptor of `partial`; not to be closed */
uint64_t ts_atomic_dir_free(const struct ts_atomic_dir *d); /* free bytes of its file system when it
                                                             * was opened; UINT64_MAX: not known */

/* create opens a new file in the directory, to write to. *path is for messages, and to be freed.
 * finish flushes the data of the file to disk, and closes it. */
int ts_atomic_dir_create(struct ts_atomic_dir *d, const char *name, FILE **ret, char **path,
                         struct ts_err *err);
int ts_atomic_dir_finish(FILE *file, const char *path, struct ts_err *err);

/* Syncs every file of the directory, then gives the directory its final name. */
int ts_atomic_dir_commit(struct ts_atomic_dir *d, struct ts_err *warn, struct ts_err *err);

/* Whether a process is writing to the open directory PATH.partial. Returns 1 and the process's
 * number (0: not known), or 0. On file systems without locks, only processes of this host are
 * seen. */
int ts_atomic_dir_held(int partial, long *pid);

/* Whether the directory PATH is a result that replaced another one, which is now PATH.partial and
 * was not removed because the process was killed. No run resumes from such a PATH.partial. */
int ts_atomic_dir_replaced(const char *path);
/* Whether the open directory `dir` is a result that replaced another one, which was not removed. */
int ts_atomic_dir_replaces(int dir);

/* Reads the first bytes of a regular file of a directory, for `kind`: returns their number, at most
 * `room`, or -1 if it is not a regular file or cannot be read. Never waits for the writer of a
 * pipe. */
long ts_atomic_head(int dir, const char *name, void *buf, size_t room);

/* ---- a file that appears whole ---- */

struct ts_atomic_file;

/* Opens a file to be written. conf->kind and conf->resumable are not used. If the path leads to a
 * pipe or device, it is opened to append. */
int ts_atomic_file_open(const struct ts_atomic_conf *conf, struct ts_atomic_file **ret,
                        struct ts_err *err);
void ts_atomic_file_close(struct ts_atomic_file *f);

const char *ts_atomic_file_path(const struct ts_atomic_file *f);
int ts_atomic_file_fd(const struct ts_atomic_file *f); /* to be written to; not to be closed */
int ts_atomic_file_commit(struct ts_atomic_file *f, struct ts_err *warn, struct ts_err *err);

/* ---- a file of a directory that is replaced as a whole, many times ---- */

enum ts_atomic_sync {
    TS_ATOMIC_FAST, /* whole for every reader, but perhaps not after a power cut; for a status */
    /* data is synced before and the directory after the rename; for a checkpoint */
    TS_ATOMIC_DURABLE,
};

/* Writes data as the file NAME of the directory `dir`, whose path `where` is for messages. */
int ts_atomic_put(int dir, const char *where, const char *name, const void *data, size_t bytes,
                  enum ts_atomic_sync sync, struct ts_err *err);

/* Like ts_atomic_put, but in steps, for data too large for memory: begin opens a new file NAME.new
 * to write to, end closes fd and renames the file. If writing failed (rc < 0), end removes the file
 * and returns rc. */
int ts_atomic_put_begin(int dir, const char *where, const char *name, int *fd, struct ts_err *err);
int ts_atomic_put_end(int dir, const char *where, const char *name, int fd, int rc,
                      enum ts_atomic_sync sync, struct ts_err *err);

#endif
