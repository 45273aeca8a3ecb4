/* SPDX-License-Identifier: BSD-3-Clause */
/* out_name.h - the final name of an output that is renamed into place at the end.
 *
 * A rename replaces a name, not the file that the name leads to. It would turn a symbolic link into
 * a file, and /dev/stdout into a file of that name; it fails on a link to a directory when the work
 * is done. So links are followed first.
 *
 *   owner    *ret is to be freed
 *   threads  any thread
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BASE_OUT_NAME_H
#define TS_BASE_OUT_NAME_H

#include "base/err.h"

/* Sets *ret to the name to rename to: `path`, or the file or directory that a link leads to. *ret
 * is NULL if the path is to be opened and written directly: a pipe, a device, /dev/stdout. */
int ts_out_name(const char *path, char **ret, struct ts_err *err);

#endif
