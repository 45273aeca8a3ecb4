/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_ahead.h - plans a build without its input files, from the number of nonzeros and the sizes
 * of the modes, for this machine or another.
 *
 *   units    bytes
 */
#ifndef TS_TOOLS_PLAN_AHEAD_H
#define TS_TOOLS_PLAN_AHEAD_H

#include "tools/build/build_opts.h"

/* Prints the plan. dims (sizes of modes) and nnz are as the user gave them; NULL and 0: not given.
 * disk: free bytes on the disk; 0: unknown. Returns the exit status. */
int plan_ahead(const struct ts_cmd *cmd, const struct build_opts *opts, const char *dims,
               uint64_t nnz, uint64_t disk);

#endif
