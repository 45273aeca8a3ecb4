/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_ranks.h - how a run of several processes divides its work, from the tables of shards alone: for tstream plan.
 *
 * Shares are those of the process that has most, 1 / n where all have the same. Of rows inside a shard it is taken that each
 * has as many nonzeros.
 *
 *   units    bytes; shares are 0 to 1
 *   errors   TS_ENOMEM
 */
#ifndef TS_TOOLS_PLAN_RANKS_H
#define TS_TOOLS_PLAN_RANKS_H

#include "api/tools.h"

/* What a network is taken to carry, into each process. */
#define PLAN_NETWORK_BYTES_PER_S 10e9

struct plan_ranks {
    uint32_t n;
    uint32_t largest; /* the process whose shards take most memory */
    double product_share[TS_MAX_ORDER], row_share[TS_MAX_ORDER];
    uint64_t exchange_bytes[TS_MAX_ORDER]; /* that reach a process, at most */
};

int plan_ranks_new(const struct ts_tensor *t, uint32_t n, uint32_t rank,
                   enum ts_precision precision, struct plan_ranks *ret, struct ts_err *err);

#endif
