/* SPDX-License-Identifier: BSD-3-Clause */
/* gen_truth.h - the factors that tshard gen --planted was made of, as a ktensor file.
 *
 *   owner    the caller owns the sink, open; nothing of it is committed here
 *   units    memory: 24 bytes for each planted entry of the largest factor
 *   errors   TS_ELIMIT where memory_bytes do not hold that
 */
#ifndef TS_TOOLS_GEN_TRUTH_H
#define TS_TOOLS_GEN_TRUTH_H

#include "api/tools.h"
#include "tools/export/export_sink.h"

/* s is initialised. Columns have norm 1, and weights are the norms of components. */
int gen_truth_write(const struct ts_synth *s, uint64_t memory_bytes, struct export_sink *sink,
                    struct ts_err *err);

#endif
