/* SPDX-License-Identifier: BSD-3-Clause */
/* export_dense.h - exports the known cells of a dense tensor as lines of text, including zeros, in
 * the order of the array.
 *
 *   owner    the caller owns tensor and sink
 *   units    one cell per line; indices from `base`
 *   errors   0 or a negative ts_code: TS_EFORMAT if a cell is infinite; failures of reading and
 *            writing
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

/* Reads all cells of the array, and sets *known to the number of known cells. */
int export_dense_count(const struct export_dense *e, uint64_t *known, struct ts_err *err);

/* Writes a line for each known cell. Needs memory for a few slabs (parts of the array). */
int export_dense_write(const struct export_dense *e, struct ts_err *err);

#endif
