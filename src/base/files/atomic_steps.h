/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic_steps.h - functions that directories, files and small files of atomic_out.h share.
 *
 *   threads  any thread
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BASE_ATOMIC_STEPS_H
#define TS_BASE_ATOMIC_STEPS_H

#include <sys/stat.h>

#include "base/files/atomic_out.h"

enum ts_atomic_lock { TS_LOCK_FAILED = -1, TS_LOCK_HELD, TS_LOCK_BUSY, TS_LOCK_UNKNOWN };

/* Locks an open file without waiting. UNKNOWN: its file system has no locks. FAILED: errno says
 * why. */
enum ts_atomic_lock ts_atomic_lock(int fd);

/* The text of a lock: "PID HOST", and a second line in a result that replaces another one, from
 * just before the exchange of names until the old result is removed. It tells readers that
 * PATH.partial is the old result, and not a run that could be resumed. */
#define TS_LOCK_HOST_CHARS 65 /* longest host name and a NUL */

struct ts_lock_text {
    long pid;
    char host[TS_LOCK_HOST_CHARS]; /* "": not known */
    int replaces;
};

/* parses the text of a lock; returns 0 if it has another form */
int ts_lock_parse(const char *text, struct ts_lock_text *ret);
void ts_lock_read(int fd, char *text, size_t room); /* "" if it cannot be read */
int ts_lock_write(int fd, int replaces);            /* returns -1 with errno on failure */

/* Whether a file is the lock file of a directory. An empty file counts, since its process may not
 * have written to it yet. */
int ts_lock_is(int dir, const char *name);

/* Whether the text of a directory's lock says that the directory replaces another result. */
int ts_lock_replaces(int dir);

/* Whether the text of a lock names a running process of this host other than this one. */
int ts_lock_names_living(const char *text, long *pid);

/* Fails with TS_EBUSY. text: the text of the lock, or NULL if it is not known. err->sys is EBUSY if
 * another process holds the lock, which ends some day, and EDEADLK if this process holds it. */
int ts_lock_fail_busy(const char *partial, const char *text, struct ts_err *err);

/* Whether the open file still has this name: another process may have renamed or replaced it. */
int ts_atomic_has_name(int fd, int dir, const char *name);

/* Returns the texts a, b and c joined to one text, malloc'ed. */
char *ts_atomic_join(const char *a, const char *b, const char *c);

/* Calls fsync. It is not a failure if the file system does not support it for this file. */
int ts_atomic_fsync(int fd);

/* Syncs the directory of `path`. fd: an open file of the same file system. Fills warn on
 * failure. */
void ts_atomic_sync_parent(const char *path, int fd, struct ts_err *warn);

/* Sets *ret to the final name of a result, malloc'ed: links are followed, slashes at the end
 * removed. *ret NULL: the path is a pipe or device, to be written directly. */
int ts_atomic_name(const char *path, char **ret, struct ts_err *err);

/* Fails with the message for a result that exists and may not be replaced. */
int ts_atomic_exists(const struct ts_atomic_conf *conf, const char *path, const char *noun,
                     struct ts_err *err);

/* Fails with TS_EBUSY, and a message that says what to do, unless this user may rename or remove
 * the file of this name: in a directory with the sticky bit (/tmp) only its owner may. */
int ts_atomic_may_move(const struct ts_atomic_conf *conf, const char *path, struct ts_err *err);

/* Fails with the message that `path` exists, and that this user may not replace or remove it. The
 * message names the owner if that is another user. */
int ts_atomic_not_ours(const struct ts_atomic_conf *conf, const char *path, struct ts_err *err);

/* Calls rename, but fails with EEXIST if `to` exists. */
int ts_atomic_rename_new(const char *from, const char *to);

#endif
