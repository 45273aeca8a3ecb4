/* SPDX-License-Identifier: BSD-3-Clause */
/* mode_names.h - NAME.tsh/modes: reads the names of the modes and of the values, and the first
 * index of the input.
 *
 * The file exists when a mode has a name, or the first index is not 1. It holds the checksum of the
 * index that it belongs to. A program that does not know this file can read the tensor all the
 * same.
 *
 *   owner    names are malloc'ed; the tensor owns those that it read
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_FORMAT_MODE_NAMES_H
#define TS_FORMAT_MODE_NAMES_H

#include <stdint.h>

#include "base/err.h"
#include "format/tensor.h"

#define TS_MODE_NAME_MAX 255u /* most bytes of a name */

/* Reads the names of modes and values into t->name, and the first index into t->base. The index of
 * t must have been read. */
int ts_mode_names_read(struct ts_tensor *t, struct ts_err *err);
void ts_mode_names_free(struct ts_tensor *t);

#endif
