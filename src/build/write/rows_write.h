/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_write.h - writes modeK.rows: the used indices of a mode, ascending, in chunks that store the
 * gaps between indices (layout.h).
 *
 *   owner    the caller owns the writer, until finish or free
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_ROWS_WRITE_H
#define TS_BUILD_ROWS_WRITE_H

#include <stdint.h>

#include "base/err.h"

struct ts_rows_writer;

/* Creates the file modeK.rows. The string `path` must stay. dim: the size of the mode. */
int ts_rows_write_new(const char *path, uint32_t mode, uint64_t dim, struct ts_rows_writer **ret,
                      struct ts_err *err);
int ts_rows_write_add(struct ts_rows_writer *w, uint64_t index, struct ts_err *err);

/* Completes the file, flushes it to the disk, and frees w, also after a failure. */
int ts_rows_write_finish(struct ts_rows_writer *w, uint64_t *n_rows, uint64_t *bytes,
                         uint64_t *hash, struct ts_err *err);
void ts_rows_write_free(struct ts_rows_writer *w); /* w may be NULL */

#endif
