/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_memory.h - divides the memory of a run into its parts. `tstream cp` and `tstream plan` use
 * the same numbers.
 *
 * Factors are not part of the budget (--host-memory). Other large arrays of a run are part of it.
 * What they leave of the budget is for the feed: shards that stay in memory, and slots (buffers)
 * for the other shards (stream/feed/residency.h). With several models side by side, the factors of
 * the largest model are outside of the budget. The factors of the others are inside, and take at
 * most half of it. So several models take no more memory side by side than one after another.
 *
 *   units    bytes
 *   threads  any thread; pure functions, except that it reads the limits of the machine
 *   errors   TS_ELIMIT with a sentence that names the parts
 */
#ifndef TS_ENGINE_ENGINE_MEMORY_H
#define TS_ENGINE_ENGINE_MEMORY_H

#include "cpd/spec/spec.h"
#include "stream/backend.h"

struct ts_engine_memory {
    /* memory of the machine that this process may use: in total, and free now */
    uint64_t total_bytes, free_bytes;
    uint64_t factor_bytes; /* factor matrices in main memory; 0 if GPUs hold them */
    /* the part of factor_bytes that is in the budget: factors of further models */
    uint64_t beside_bytes;
    /* upper bound for partial rows, Gram matrices, and the computation of starting factors */
    uint64_t other_bytes;
    /* the part of other_bytes that methods (cpd/methods) allocate once they run */
    uint64_t method_bytes;
    uint64_t rest_bytes; /* the part of other_bytes that is used only when the fit is close to 1 */
    uint64_t host_bytes; /* the budget: set by the user, or the default */
    uint64_t copy_bytes; /* part of the budget for a copy of the state; 0: there is no copy */
    /* part of the budget for memory that the backend can use (`wish` of struct ts_backend), if all
     * shards fit too */
    uint64_t spare_bytes;
    uint64_t feed_bytes; /* part of the budget for the feed, that is for shards */
};

struct ts_engine_memory_conf {
    uint64_t host_bytes; /* the memory budget; 0: the free memory less a reserve */
    uint64_t own_bytes;  /* bytes of factors that the command itself holds */
    /* 1: runs keep the factors of the previous sweep, and their states contain them */
    int accelerate;
    /* 1: a copy of the state is wanted; it is made if it fits into an eighth of the budget */
    int copy;
    const struct ts_spec *spec; /* NULL: least squares of all cells */
};

/* Plans the memory for the backend that `bc` will open, with one model or several. Returns
 * TS_ELIMIT if the memory is too small, or if several models take too much of the budget. */
int ts_engine_memory_plan(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                          const struct ts_engine_memory_conf *conf, struct ts_engine_memory *ret,
                          struct ts_err *err);

/* Returns the resident memory of this process; 0 if the kernel does not report it. */
uint64_t ts_engine_memory_resident(void);

#endif
