/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_several.h - tstream cp with several ranks, starts or folds: several models, in one directory
 * that appears when all are done (model/model_files.h).
 *
 * The tensor is opened once. src/engine/run_several.h says which models are computed at the same
 * time. Models of a dense tensor are computed one after another.
 *
 * If several processes work together (tools/common/tool_ranks.h), all of them call this. Rank 0
 * has the directory, and tells the others which models are done. The process with the least memory
 * decides how many models are computed at the same time.
 *
 * With folds (tools/cp/cp_folds.h), a fold is held out, and the models of all ranks are computed
 * together. Then the next fold is held out. Without a directory, nothing is written.
 *
 *   threads  one
 *   errors   0 or a negative ts_code; finished models, and states of unfinished ones, stay for
 *            --resume
 */
#ifndef TS_TOOLS_CP_SEVERAL_H
#define TS_TOOLS_CP_SEVERAL_H

#include "tools/cp/tstream_cp.h"

int cp_several(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
               struct ts_err *err);

#endif
