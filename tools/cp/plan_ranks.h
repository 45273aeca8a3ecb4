/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_ranks.h - how a run of several processes divides its work, from the tables of shards alone:
 * for tstream plan.
 *
 * Shares are those of the process that has most, or of the one whose GPU has, which all others wait
 * for: 1 / n where all have the same. On CPU cores a process has a range of partitions, and it is
 * taken that each row inside a shard has as many nonzeros; on GPUs each GPU of all has a range of
 * shards.
 *
 *   units    bytes, seconds; shares are 0 to 1
 *   errors   TS_ENOMEM; TS_ELIMIT: more than TS_MAX_TEAM GPUs
 */
#ifndef TS_TOOLS_PLAN_RANKS_H
#define TS_TOOLS_PLAN_RANKS_H

#include "api/tools.h"

/* The assumed rate of the network into each process. */
#define PLAN_NETWORK_BYTES_PER_S 10e9

struct plan_ranks {
    uint32_t n;       /* processes, */
    uint32_t n_gpus;  /* GPUs of each process; 0: CPU cores compute */
    uint32_t largest; /* the process whose shards take most memory */
    double product_share[TS_MAX_ORDER], row_share[TS_MAX_ORDER];
    uint64_t exchange_bytes[TS_MAX_ORDER]; /* that reach a process, at most; or its machine */

    uint32_t per_host; /* processes on a machine; the last one may have fewer */
    /* bytes of factors that processes of a machine share as one copy; 0: each has its own */
    uint64_t shared_bytes;
};

/* per_host: 0 is 1. */
int plan_ranks_new(const struct ts_tensor *t, uint32_t n, uint32_t per_host, uint32_t n_gpus,
                   struct plan_ranks *ret, struct ts_err *err);

/* A row of a factor of that rank travels as so many bytes, padding included. Where processes of a
 * machine share shared_bytes of factors, rows come to it once, from other machines alone. */
void plan_ranks_rows(const struct ts_tensor *t, uint32_t rank, uint64_t row_bytes,
                     uint64_t shared_bytes, struct plan_ranks *p);

/* Whether those that are told of are several on one machine. */
int plan_ranks_beside(const struct plan_ranks *p);

/* The seconds of the exchange of a mode that are not hidden behind computing. On CPU cores nothing
 * is hidden. */
double plan_ranks_exposed(const struct plan_ranks *p, uint32_t mode, double computing_s);

#endif
