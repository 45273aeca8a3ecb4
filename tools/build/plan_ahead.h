/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_ahead.h - a plan without files: the bounds of a build whose number of nonzeros and sizes are
 * given, for this machine or another.
 *
 *   units    bytes
 */
#ifndef TS_TOOLS_PLAN_AHEAD_H
#define TS_TOOLS_PLAN_AHEAD_H

#include "tools/build/build_opts.h"

/* dims, nnz: as they were given; NULL, 0: they were not. disk: free bytes of the disk, 0: not
 * known. Returns the exit status. */
int plan_ahead(const struct ts_cmd *cmd, const struct build_opts *opts, const char *dims,
               uint64_t nnz, uint64_t disk);

#endif
