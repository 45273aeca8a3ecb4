/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_several.h - tstream cp with several ranks or starts: one model after another, in one directory that appears
 * when all are done (model/model_files.h).
 *
 * The tensor is opened once. Models of one rank share an engine, so that shards which it holds in memory
 * stay there from one to the next; for another rank they are read again.
 *
 *   threads  one
 *   errors   0 or a negative ts_code; models that are done, and the state of the one under way, stay for
 *            --resume
 */
#ifndef TS_TOOLS_CP_SEVERAL_H
#define TS_TOOLS_CP_SEVERAL_H

#include "tools/tstream_cp.h"

int cp_several(const struct ts_cmd *cmd, const struct cp_args *args, const char *path,
               struct ts_err *err);

#endif
