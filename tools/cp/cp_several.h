/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_several.h - tstream cp with several ranks, starts or folds: models side by side, in one
 * directory that appears when all are done (model/model_files.h).
 *
 * The tensor is opened once. src/engine/run_several.h says which models are computed at once; those
 * of a dense tensor are computed one after another.
 *
 * Of several processes (tools/common/tool_ranks.h) all run this: the one that speaks has the
 * directory, and tells the others which models are done; all take as many at once as the one with
 * least memory can.
 *
 * Of folds (tools/cp/cp_folds.h) models of all ranks without one fold are computed side by side,
 * and those without the next one after them. Where no directory is named, nothing is written.
 *
 *   threads  one
 *   errors   0 or a negative ts_code; models that are done, and the states of those under way, stay
 *            for --resume
 */
#ifndef TS_TOOLS_CP_SEVERAL_H
#define TS_TOOLS_CP_SEVERAL_H

#include "tools/cp/tstream_cp.h"

int cp_several(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
               struct ts_err *err);

#endif
