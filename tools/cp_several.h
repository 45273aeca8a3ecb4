/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_several.h - tstream cp with several ranks, starts or folds: models side by side, in one directory that appears
 * when all are done (model/model_files.h).
 *
 * The tensor is opened once. As many models as memory allows (engine/engine_memory.h) are computed in
 * the same passes over it (cpd/als_group.h), in turns where that is not all, those of dense tensors one after another. Models that
 * follow others of the same ranks share their engine, so that shards which it holds in memory stay there; for other ranks
 * they are read again.
 *
 * Of several processes (tools/tool_ranks.h) all run this: the one that speaks has the directory, and tells the others which models are
 * done; all take as many at once as the one with least memory can.
 *
 * Of folds (tools/cp_folds.h) models of all ranks without one fold are computed side by side, and those without the next one after
 * them. Where no directory is named, nothing is written.
 *
 *   threads  one
 *   errors   0 or a negative ts_code; models that are done, and the states of those under way, stay for
 *            --resume
 */
#ifndef TS_TOOLS_CP_SEVERAL_H
#define TS_TOOLS_CP_SEVERAL_H

#include "tools/tstream_cp.h"

int cp_several(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
               struct ts_err *err);

#endif
