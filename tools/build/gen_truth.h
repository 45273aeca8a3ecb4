/* SPDX-License-Identifier: BSD-3-Clause */
/* gen_truth.h - writes the factors that tshard gen --planted used, as a ktensor file.
 *
 *   owner    the caller owns the open sink, and commits it
 *   units    memory: 24 bytes for each planted entry of the largest factor
 *   errors   TS_ELIMIT if memory_bytes is less than these entries take
 */
#ifndef TS_TOOLS_GEN_TRUTH_H
#define TS_TOOLS_GEN_TRUTH_H

#include "api/tools.h"
#include "tools/export/export_sink.h"

/* Writes the factors that the generator s plants. Columns have norm 1, and weights are the norms of
 * the components. */
int gen_truth_write(const struct ts_synth *s, uint64_t memory_bytes, struct export_sink *sink,
                    struct ts_err *err);

#endif
