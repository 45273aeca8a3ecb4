/* SPDX-License-Identifier: BSD-3-Clause */
/* build_budget.h - chooses the memory and the threads of a build if the user gave none, and checks
 * those that the user gave.
 *
 *   units    bytes; 0: not given
 *   threads  any; reads the limits of the machine
 *   errors   TS_EARG for impossible requests, TS_ENOMEM where threads cannot be started
 */
#ifndef TS_BUILD_BUILD_BUDGET_H
#define TS_BUILD_BUILD_BUDGET_H

#include "build/build.h"

/* Sets memory, shard_bytes and threads of *o. memory 0: half of the free memory, but at least what
 * shards of shard_bytes need. threads 0: as many as the machine has. */
int ts_build_budget(uint64_t memory, uint64_t shard_bytes, uint32_t threads,
                    struct ts_build_options *o, struct ts_err *err);

#endif
