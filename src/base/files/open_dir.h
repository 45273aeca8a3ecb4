/* SPDX-License-Identifier: BSD-3-Clause */
/* open_dir.h - reads files of a directory that another process may replace meanwhile.
 *
 * A result is replaced as a whole (base/files/atomic_out.h): a new directory gets its name, then
 * the files of the old one are removed. A reader that opens the files by their paths, one after
 * another, can mix both. This object opens the directory once and its files through that
 * descriptor, so all files belong to one result. It distinguishes a file that is missing because
 * the directory was replaced from one that never existed.
 *
 *   owner    the caller owns the object until close
 *   threads  read-only after opening: any thread
 *   errors   0 or a negative ts_code; a replacement is TS_EBUSY with sys ESTALE
 *            (ts_open_dir_stale), after which a reader that has used no contents yet may open the
 *            path again
 */
#ifndef TS_BASE_OPEN_DIR_H
#define TS_BASE_OPEN_DIR_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

/* The most attempts of a reader after replacements; several replacements in a row are rare. */
#define TS_OPEN_DIR_TRIES 20

struct ts_open_dir;

/* Opens the directory at a path. TS_EIO with errno in err->sys if it cannot be opened. */
int ts_open_dir_new(const char *path, struct ts_open_dir **ret, struct ts_err *err);

/* Opens the directory NAME, or a link to one, inside an open directory. path: its name in
 * messages. */
int ts_open_dir_inside(const struct ts_open_dir *parent, const char *name, const char *path,
                       struct ts_open_dir **ret, struct ts_err *err);

/* Uses an open directory, whose descriptor stays the caller's. path: its path. */
int ts_open_dir_at(int fd, const char *path, struct ts_open_dir **ret, struct ts_err *err);

/* Opens the directory of d once more, as another object. */
int ts_open_dir_again(const struct ts_open_dir *d, struct ts_open_dir **ret, struct ts_err *err);
void ts_open_dir_close(struct ts_open_dir *d); /* d may be NULL */

const char *ts_open_dir_path(const struct ts_open_dir *d);
int ts_open_dir_fd(const struct ts_open_dir *d); /* not to be closed */

/* Opens a file of the directory for reading, and returns its descriptor or a negative ts_code. A
 * pipe does not block. TS_EIO with errno in err->sys if it cannot be opened. */
int ts_open_dir_file(const struct ts_open_dir *d, const char *name, struct ts_err *err);

/* Like ts_open_dir_file, for a file that may be absent: 1 and *fd, 0 if it does not exist, or a
 * negative ts_code. */
int ts_open_dir_optional(const struct ts_open_dir *d, const char *name, int *fd,
                         struct ts_err *err);

/* Like ts_open_dir_optional, and sets *path to the file's path for messages, to be freed. */
int ts_open_dir_named(const struct ts_open_dir *d, const char *name, int *fd, char **path,
                      struct ts_err *err);

/* Whether the directory's path now leads to another directory, or to none. */
int ts_open_dir_replaced(const struct ts_open_dir *d);

/* Returns the code for a reader that failed with rc: if the directory was replaced, the failure
 * that says so, otherwise rc unchanged. */
int ts_open_dir_explain(const struct ts_open_dir *d, int rc, struct ts_err *err);

/* Fails with the message that PATH was replaced (fail), or tests for this failure (stale). */
int ts_open_dir_fail(const char *path, struct ts_err *err);
int ts_open_dir_stale(int rc, const struct ts_err *err);

/* ---- identifying a file, and opening it again ---- */

/* Identifies a file while it is open. */
struct ts_file_id {
    dev_t dev;
    ino_t ino;
};

/* Sets *ret to the identity of a file, and returns 1. Returns 0 if the file does not exist. */
int ts_file_id_of(const char *path, struct ts_file_id *ret);
int ts_file_id_open(int fd, struct ts_file_id *ret);
int ts_file_id_same(const struct ts_file_id *a, const struct ts_file_id *b);

/* Opens an open file again, with separate position and flags. Its name may have been removed. path,
 * its former name, is used if /proc does not exist. Returns the descriptor, or -1 with errno:
 * ESTALE if another file has that name. */
int ts_file_again(int fd, const char *path, int flags);

/* Whether so many descriptors are in use that descriptors should be closed while they are not
 * needed. */
int ts_file_crowded(int fd);

#endif
