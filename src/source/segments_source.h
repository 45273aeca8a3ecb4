/* SPDX-License-Identifier: BSD-3-Clause */
/* segments_source.h - the nonzeros of all segments of a tensor, as a source: one segment after the
 * other, each as tensor_source.h reads it.
 *
 *   owner    the segments are the caller's and must stay
 *   threads  new and free from one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_SEGMENTS_SOURCE_H
#define TS_SOURCE_SEGMENTS_SOURCE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "format/segments.h"
#include "source/source.h"

struct ts_segments_source_conf {
    const struct ts_segments *segments;
    uint64_t nnz; /* nonzeros of all segments, for progress */
    uint32_t threads;
    /* memory for reading; reading fails if a segment needs more */
    uint64_t bytes;
    const char *tmp;                   /* directory for temporary files */
    const volatile sig_atomic_t *stop; /* may be NULL */
};

struct ts_segments_source;
int ts_segments_source_new(const struct ts_segments_source_conf *conf,
                           struct ts_segments_source **ret, struct ts_err *err);
void ts_segments_source_free(
    struct ts_segments_source *s); /* waits for the threads; s may be NULL */

struct ts_source ts_segments_source_as_source(struct ts_segments_source *s);

#endif
