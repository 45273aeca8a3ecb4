/* SPDX-License-Identifier: BSD-3-Clause */
/* out_name.h - where an output goes that appears whole or not at all, by a rename at the end.
 *
 * A rename replaces a name, not what it leads to: a symbolic link would turn into a file, /dev/stdout
 * of a shell's redirection into a file of the same name, and a link to a directory refuses to be
 * replaced when the work is done. So links are followed first.
 *
 *   owner    *ret is to be freed
 *   threads  any
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BASE_OUT_NAME_H
#define TS_BASE_OUT_NAME_H

#include "base/err.h"

/* The name to rename to: `path`, or that of the file or directory that a link leads to. NULL when it is
 * to be opened and written to as it is: a pipe, a device, /dev/stdout. */
int ts_out_name(const char *path, char **ret, struct ts_err *err);

#endif
