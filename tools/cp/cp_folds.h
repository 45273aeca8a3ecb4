/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_folds.h - prints the cross-validation of tstream cp --folds: how well models of several ranks
 * predict held-out cells.
 *
 * A hash of its cell and the seed (format/hold_out.h) puts each nonzero into one of K folds. For
 * each rank, K models are computed (tools/cp/cp_several.h), each without the nonzeros of one fold.
 * The report has their errors on that fold, the mean over the folds and its standard error.
 *
 *   threads  one
 */
#ifndef TS_TOOLS_CP_FOLDS_H
#define TS_TOOLS_CP_FOLDS_H

#include "api/tools.h"

/* Prints row i of the table of models, whose model is finished: as a JSON event if json is set.
 * After the last model of a rank (number of components), prints the line of that rank. */
void cp_folds_print_row(struct ts_models_table *m, uint32_t i, int json);

/* Prints the end of a run whose models are all done. out: the directory of the models; NULL:
 * nothing is written. */
void cp_folds_print_end(const struct ts_models_table *m, const char *out, uint64_t total_ns,
                        int json);

#endif
