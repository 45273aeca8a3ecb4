/* SPDX-License-Identifier: BSD-3-Clause */
/* export_dense.h - the known cells of a dense tensor as lines of text, zeros included, in the order
 * of the array.
 *
 *   owner    the caller owns tensor and sink
 *   units    cells, one a line; indices from `base`
 *   errors   0 or a negative ts_code: TS_EFORMAT where a cell is infinite, and what reading and
 *            writing find
 */
#ifndef TS_TOOLS_EXPORT_DENSE_H
#define TS_TOOLS_EXPORT_DENSE_H

#include "tools/export/export_sink.h"

struct export_dense {
    const struct ts_tensor *tensor;
    struct export_sink *sink;
    char separator;
    uint32_t base, threads;
};

/* Looks at all cells once: how many are known. */
int export_dense_count(const struct export_dense *e, uint64_t *known, struct ts_err *err);

/* Memory: some slabs. */
int export_dense_write(const struct export_dense *e, struct ts_err *err);

#endif
