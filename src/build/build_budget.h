/* SPDX-License-Identifier: BSD-3-Clause */
/* build_budget.h - the memory and the threads that a build gets where the user leaves them open, and
 * whether what he asks for can be had.
 *
 *   units    bytes; 0: not said
 *   threads  any; looks at the machine
 *   errors   TS_EARG for what makes no sense, TS_ENOMEM where threads cannot be started
 */
#ifndef TS_BUILD_BUILD_BUDGET_H
#define TS_BUILD_BUILD_BUDGET_H

#include "build/build.h"

/* Fills memory, shard_bytes and threads of *o. memory 0: half of what is free, as much as shards of this
 * size need; threads 0: all. */
int ts_build_budget(uint64_t memory, uint64_t shard_bytes, uint32_t threads,
                    struct ts_build_options *o, struct ts_err *err);

#endif
