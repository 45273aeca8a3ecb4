/* SPDX-License-Identifier: BSD-3-Clause */
/* push_source.h - nonzeros that a program gives, array by array, to a build that another thread runs.
 *
 *   owner    the source owns a batch; arrays that are given are the caller's, and free again at once
 *   units    indices from 0, n x order, row-major
 *   threads  start and stop from the one that builds, add and end from the ones that give: adds of several
 *            come one after another
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_PUSH_SOURCE_H
#define TS_SOURCE_PUSH_SOURCE_H

#include <stdint.h>

#include "base/err.h"
#include "source/source.h"

struct ts_push_source;

/* n_dims: 0, or the order; then dim[] bounds the indices. */
int ts_push_source_new(uint32_t order, uint32_t value_bytes, uint32_t n_dims, const uint64_t dim[],
                       struct ts_push_source **ret, struct ts_err *err);
void ts_push_source_free(struct ts_push_source *s); /* after stop; NULL is fine */
uint32_t ts_push_source_order(const struct ts_push_source *s);

/* From its start on nonzeros go to the sink, and after its stop nowhere: that waits for those that are
 * being given. */
struct ts_source ts_push_source_as_source(struct ts_push_source *s);

/* Gives n nonzeros; waits for the build where it sorts, or has not started. TS_EARG for what is no
 * nonzero; the build's failure where it failed. After a failure nothing more is taken. */
int ts_push_source_add(struct ts_push_source *s, uint64_t n, const uint64_t *index,
                       const double *value, struct ts_err *err);

/* There are no more. Without it the build waits. */
void ts_push_source_end(struct ts_push_source *s);

/* What is being given is not to become a tensor: the build fails so. */
void ts_push_source_fail(struct ts_push_source *s, const struct ts_err *why);

#endif
