/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_ranks.h - what commands of tstream that several ranks compute together (tool_ranks.h) do
 * before and after.
 *
 *   owner    the caller owns all
 *   threads  one
 *   errors   0 or a negative ts_code, the same on all ranks
 */
#ifndef TS_TOOLS_TSTREAM_RANKS_H
#define TS_TOOLS_TSTREAM_RANKS_H

#include "tools/common/tool.h"

struct ts_engine;
struct ts_processor;

/* Ranks with GPUs, or all on CPU cores where none were asked for; one that differs is refused. */
int tstream_ranks_choose(struct ts_processor *p, struct ts_err *err);

/* Whether all ranks have the same program and tensor, and these options, as text: the same answer
 * on all; `rc` is what came before. One process alone has. */
int tstream_ranks_same(const struct ts_tensor *t, const char *options, int rc, struct ts_err *err);

/* Says that they compute together. */
void tstream_ranks_note(const struct ts_cmd *cmd, const struct ts_engine *e);

/* What a command ended with, rc, is told by all; a stop by the signal that all are to get. */
int tstream_ranks_end(int rc, struct ts_err *err);

#endif
