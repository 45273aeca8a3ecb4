/* SPDX-License-Identifier: BSD-3-Clause */
/* build_dir.h - the directory of a tensor in the making: NAME.tsh.building, renamed to NAME.tsh when
 * everything in it is on disk (base/atomic_out.h). The index is written last, so nothing unfinished ever
 * opens.
 *
 *   owner    the caller; paths are of the process' working directory
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_BUILD_DIR_H
#define TS_BUILD_BUILD_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_build_dir;

/* TS_EBUSY when `path` exists and must not be replaced (force 0), or is being built by another. With
 * force, what exists must be a tensor and nothing else, and stays until the new one is whole. */
int ts_build_dir_open(const char *path, int force, struct ts_build_dir **ret, struct ts_err *err);

/* Removes what was not committed. NULL is fine. */
void ts_build_dir_close(struct ts_build_dir *d);

/* Path of a file in it, malloc'ed: "index", "mode%u.shards". NULL when out of memory. */
char *ts_build_dir_file(const struct ts_build_dir *d, const char *fmt, unsigned number);

const char *ts_build_dir_path(const struct ts_build_dir *d); /* of the directory while building */

/* Makes a file of `bytes` at data. */
int ts_build_dir_write(const struct ts_build_dir *d, const char *name, const void *data,
                       size_t bytes, struct ts_err *err);

/* Waits until the shards of `order` modes are on disk: most of what a commit takes. */
int ts_build_dir_sync(const struct ts_build_dir *d, uint32_t order, struct ts_err *err);

/* Waits until all files are on disk, and puts the directory in its place. warn->code is not 0 when
 * something failed after that. */
int ts_build_dir_commit(struct ts_build_dir *d, struct ts_err *warn, struct ts_err *err);

#endif
