/* SPDX-License-Identifier: BSD-3-Clause */
/* tempfile.h - a temporary file without a name, which disappears when its process ends in any way.
 *
 *   owner    the caller closes the descriptor
 *   errors   0 or TS_EIO with a message that names the directory
 */
#ifndef TS_BASE_TEMPFILE_H
#define TS_BASE_TEMPFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

int ts_tempfile_new(const char *dir, int *ret, struct ts_err *err);

/* Write or read all bytes at an offset. dir: the directory, for messages. */
int ts_tempfile_write(int fd, const char *dir, const void *data, size_t bytes, uint64_t at,
                      struct ts_err *err);
int ts_tempfile_read(int fd, const char *dir, void *data, size_t bytes, uint64_t at,
                     struct ts_err *err);

#endif
