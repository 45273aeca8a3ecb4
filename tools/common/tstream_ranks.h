/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_ranks.h - the first and last steps of a command of tstream that several ranks compute
 * together (tool_ranks.h).
 *
 *   owner    the caller owns all arguments
 *   threads  one
 *   errors   0 or a negative ts_code, the same on all ranks
 */
#ifndef TS_TOOLS_TSTREAM_RANKS_H
#define TS_TOOLS_TSTREAM_RANKS_H

#include "tools/common/tool.h"

struct ts_engine;
struct ts_processor;

/* Chooses GPUs for all ranks (processes) or, if the user did not ask for GPUs, CPU cores for all.
 * Fails if a rank's choice differs. */
int tstream_ranks_choose(struct ts_processor *p, struct ts_err *err);

/* Checks that all ranks have the same program, tensor and options (as text). rc: the result of
 * this rank so far. All ranks return the same result. A single process returns rc. */
int tstream_ranks_same(const struct ts_tensor *t, const char *options, int rc, struct ts_err *err);

/* Prints a note that several ranks (processes) compute together. */
void tstream_ranks_note(const struct ts_cmd *cmd, const struct ts_engine *e);

/* Ends a command with the same result on all ranks: that of a rank that failed or was stopped by a
 * signal, if there is one. */
int tstream_ranks_end(int rc, struct ts_err *err);

#endif
