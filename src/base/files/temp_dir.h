/* SPDX-License-Identifier: BSD-3-Clause */
/* temp_dir.h - a directory with a name of its own, for files that need names for a while. It is
 * removed with all in it, also if a library ends the program (base/files/unfinished.h). A process
 * that is killed leaves it.
 *
 *   owner    the caller, until ts_temp_dir_remove
 *   threads  any thread
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BASE_TEMP_DIR_H
#define TS_BASE_TEMP_DIR_H

#include "base/err.h"

struct ts_temp_dir;

/* Makes PARENT/tstream-XXXXXX, which other users cannot read. */
int ts_temp_dir_new(const char *parent, struct ts_temp_dir **ret, struct ts_err *err);
const char *ts_temp_dir_path(const struct ts_temp_dir *d);
void ts_temp_dir_remove(struct ts_temp_dir *d); /* NULL is fine */

#endif
