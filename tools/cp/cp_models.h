/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_models.h - prints the table of several models (engine/models_table.h), and computes core
 * consistencies.
 *
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_CP_MODELS_H
#define TS_TOOLS_CP_MODELS_H

#include "api/tools.h"
#include "tools/common/tool.h"
#include "tools/cp/tstream_cp.h"

/* Checks before the run whether core consistencies can be computed, as --diagnose asks. */
int cp_models_may_diagnose(const struct cp_args *args, const struct ts_tensor *t,
                           struct ts_err *err);

/* Computes the core consistency of the best model of each rank. dir: the directory of the
 * models. */
int cp_models_diagnose(const struct ts_cmd *cmd, struct ts_models_table *m,
                       const struct ts_open_dir *dir, const struct ts_tensor *t, uint32_t threads,
                       struct ts_err *err);

/* The first function prints row i of the table of models, after the names of its columns if `head`
 * is set. The second prints a table with the fits of the models of each rank (components). */
void cp_models_print_row(const struct ts_models_table *m, uint32_t i, int head);
void cp_models_print_ranks(const struct ts_models_table *m);

#endif
