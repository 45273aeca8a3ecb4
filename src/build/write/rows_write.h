/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_write.h - writes modeK.rows: the used indices of a mode, ascending, a gap-coded chunk at a
 * time (layout.h).
 *
 *   owner    the caller; finish or free ends it
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_ROWS_WRITE_H
#define TS_BUILD_ROWS_WRITE_H

#include <stdint.h>

#include "base/err.h"

struct ts_rows_writer;

/* path must stay. n_rows may be unknown (0) until finish. */
int ts_rows_write_new(const char *path, uint32_t mode, uint64_t dim, struct ts_rows_writer **ret,
                      struct ts_err *err);
int ts_rows_write_add(struct ts_rows_writer *w, uint64_t index, struct ts_err *err);

/* Completes the file and syncs it; frees w in any case. */
int ts_rows_write_finish(struct ts_rows_writer *w, uint64_t *n_rows, uint64_t *bytes,
                         uint64_t *hash, struct ts_err *err);
void ts_rows_write_free(struct ts_rows_writer *w); /* NULL is fine */

#endif
