/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_folds.h - what tstream cp --folds tells: how well models of some ranks tell cells that nothing
 * was learnt from.
 *
 * The hash of a nonzero's cell and the seed (format/hold_out.h) says in which of K folds it is. Of
 * each rank K models are computed (tools/cp/cp_several.h), each without the nonzeros of one fold;
 * what is told is their error there, its mean over the folds and the standard error of that.
 *
 *   threads  one
 */
#ifndef TS_TOOLS_CP_FOLDS_H
#define TS_TOOLS_CP_FOLDS_H

#include "api/tools.h"

/* Prints the model of row i, which is done: with json, its event. Once all models of its rank are
 * done, prints the line of the rank. */
void cp_folds_print_row(struct ts_models_table *m, uint32_t i, int json);

/* All are done; out: where they are, NULL: nowhere. */
void cp_folds_print_end(const struct ts_models_table *m, const char *out, uint64_t total_ns,
                        int json);

#endif
