/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_ranks.h - estimates how a run of several processes divides its work, from the tables of
 * shards, for tstream plan.
 *
 * A share is a fraction of the work: that of the process (or GPU) with the most work, for which
 * all others wait; 1 / n if all have the same. On CPU cores a process has a range of partitions,
 * assuming that all rows of a shard have equally many nonzeros. With GPUs, each GPU has a range of
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
    uint32_t n;       /* number of processes */
    uint32_t n_gpus;  /* GPUs of each process; 0: CPU cores compute */
    uint32_t largest; /* the process whose shards take most memory */
    double product_share[TS_MAX_ORDER], row_share[TS_MAX_ORDER];
    /* most bytes of rows of factors, and of sums for Gram matrices, that a process (if factors are
     * shared, its machine) receives for each mode */
    uint64_t exchange_bytes[TS_MAX_ORDER];

    uint32_t per_host; /* processes on a machine; the last one may have fewer */
    /* bytes of factors that processes of a machine share as one copy; 0: each has its own */
    uint64_t shared_bytes;
};

/* Computes the processes' shares of the work. per_host 0 counts as 1. */
int plan_ranks_new(const struct ts_tensor *t, uint32_t n, uint32_t per_host, uint32_t n_gpus,
                   struct plan_ranks *ret, struct ts_err *err);

/* Computes the bytes that processes exchange. row_bytes: bytes of a row of a factor when sent,
 * including padding. If processes of a machine share shared_bytes of factors, the machine receives
 * each row once, and only from other machines. */
void plan_ranks_rows(const struct ts_tensor *t, uint32_t rank, uint64_t row_bytes,
                     uint64_t shared_bytes, struct plan_ranks *p);

/* Whether several of the processes are on one machine. */
int plan_ranks_beside(const struct plan_ranks *p);

/* Returns the seconds of the exchange of a mode that are not hidden behind computing. On CPU cores
 * nothing is hidden. */
double plan_ranks_exposed(const struct plan_ranks *p, uint32_t mode, double computing_s);

#endif
