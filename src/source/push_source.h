/* SPDX-License-Identifier: BSD-3-Clause */
/* push_source.h - passes nonzeros that a program gives, array by array, to a build in another
 * thread, as a source (source.h).
 *
 *   owner    the source owns a batch; arrays belong to the caller, who may free them after the call
 *   units    indices from 0: one array, n x order, row-major, or an array for each mode (columns)
 *   threads  start and stop from the building thread; add and end from the program's threads, whose
 *            calls of add run one after another
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_PUSH_SOURCE_H
#define TS_SOURCE_PUSH_SOURCE_H

#include <stdint.h>

#include "base/err.h"
#include "source/source.h"

struct ts_push_source;

/* Makes a source. n_dims is 0, or the order; then indices must be below dim[]. zeros 1: zeros are
 * kept. weights 1: nonzeros have weights, and value_bytes is 4. */
int ts_push_source_new(uint32_t order, uint32_t value_bytes, int zeros, int weights,
                       uint32_t n_dims, const uint64_t dim[], struct ts_push_source **ret,
                       struct ts_err *err);
void ts_push_source_free(struct ts_push_source *s); /* to be called after stop; s may be NULL */
uint32_t ts_push_source_order(const struct ts_push_source *s);

/* Returns the source for a build. After its start nonzeros go to the sink, and after its stop they
 * are dropped. stop waits for calls of add that are running. */
struct ts_source ts_push_source_as_source(struct ts_push_source *s);

/* Gives n nonzeros, and their weights (NULL: all are 1). Waits while the build sorts or has not
 * started. Returns TS_EARG for an invalid index, value or weight, or the failure of the build.
 * After a failure no more nonzeros are accepted. */
int ts_push_source_add(struct ts_push_source *s, uint64_t n, const uint64_t *index,
                       const double *value, const double *weight, struct ts_err *err);

/* Like ts_push_source_add, with an array of n indices for each mode. */
int ts_push_source_add_columns(struct ts_push_source *s, uint64_t n, const uint64_t *const column[],
                               const double *value, const double *weight, struct ts_err *err);

/* Says that no more nonzeros follow. Until then the build waits. */
void ts_push_source_end(struct ts_push_source *s);

/* Ends the build with this failure instead of a tensor. */
void ts_push_source_fail(struct ts_push_source *s, const struct ts_err *why);

#endif
