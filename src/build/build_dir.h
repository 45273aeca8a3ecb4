/* SPDX-License-Identifier: BSD-3-Clause */
/* build_dir.h - the directory of a tensor that is being built: NAME.tsh.building. It is renamed to
 * NAME.tsh when all its files are on disk (base/files/atomic_out.h). The index is written last, so
 * an unfinished tensor can never be opened.
 *
 *   owner    the caller; paths are relative to the working directory
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_BUILD_DIR_H
#define TS_BUILD_BUILD_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_build_dir;

/* Fails with TS_EBUSY if `path` exists and force is 0, or if another process is building it. With
 * force 1, `path` must be a tensor, with no other files in it. That tensor stays until the new one
 * is complete. */
int ts_build_dir_open(const char *path, int force, struct ts_build_dir **ret, struct ts_err *err);

/* Checks that ts_build_dir_open would succeed now. A command that makes several tensors calls it
 * early for the later ones. */
int ts_build_dir_check(const char *path, int force, struct ts_err *err);

/* Fails with TS_EBUSY if the open directory of a tensor, or a segment in it, has a file that does
 * not belong to a tensor. The message names that file. */
int ts_build_dir_look(int dir, const char *path, struct ts_err *err);

/* For ranks other than 0: opens the directory that rank 0 has made, by its path. These ranks can
 * only write files in it. */
int ts_build_dir_join(const char *path, struct ts_build_dir **ret, struct ts_err *err);

/* Removes the directory unless it was committed. d may be NULL. */
void ts_build_dir_close(struct ts_build_dir *d);

/* The path of a file in the directory, malloc'ed: "index", "mode%u.shards". NULL when out of
 * memory. */
char *ts_build_dir_file(const struct ts_build_dir *d, const char *fmt, unsigned number);

/* Returns the path of the directory during the build. */
const char *ts_build_dir_path(const struct ts_build_dir *d);

/* Writes a file of `bytes` bytes. */
int ts_build_dir_write(const struct ts_build_dir *d, const char *name, const void *data,
                       size_t bytes, struct ts_err *err);

/* Links the files of a complete tensor, whose open directory is `from`, into d, or into its
 * directory `name` if that is not NULL. Copies them if the file system has no hard links. */
int ts_build_dir_take(const struct ts_build_dir *d, const char *name, int from,
                      const char *from_path, struct ts_err *err);

/* Moves the files of the directory `name` in d up into d, and removes `name`. */
int ts_build_dir_raise(const struct ts_build_dir *d, const char *name, struct ts_err *err);

/* Gives the new tensor the owner, group and mode of a complete one, whose open directory is `other`
 * (build_access.h). The directory gets them now, and its files get them at the commit. */
int ts_build_dir_like(struct ts_build_dir *d, int other, const char *path, struct ts_err *err);

/* Flushes the shards of `order` modes to the disk, which takes most of the time of a commit. */
int ts_build_dir_sync(const struct ts_build_dir *d, uint32_t order, struct ts_err *err);

/* Flushes all files to the disk, and renames the directory to NAME.tsh. warn->code is not 0 if
 * something failed after the rename. */
int ts_build_dir_commit(struct ts_build_dir *d, struct ts_err *warn, struct ts_err *err);

#endif
