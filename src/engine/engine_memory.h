/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_memory.h - divides the memory of a run into its parts. cp keeps to the same numbers that
 * plan prints.
 *
 * Factors come on top of the budget (--host-memory). Other large parts of a run are taken from the
 * budget. The rest is for the feed: shards that stay, and slots for the others
 * (stream/feed/residency.h). Of several models side by side the factors of the largest come on top,
 * and those of the others are taken from the budget, at most half of it: so they take no more
 * memory than one after another.
 *
 *   units    bytes
 *   threads  pure, except that it reads the limits of the machine
 *   errors   TS_ELIMIT with a sentence that names the parts
 */
#ifndef TS_ENGINE_ENGINE_MEMORY_H
#define TS_ENGINE_ENGINE_MEMORY_H

#include "cpd/spec/spec.h"
#include "stream/backend.h"

struct ts_engine_memory {
    uint64_t total_bytes, free_bytes; /* of the machine, as far as this process may use it */
    uint64_t factor_bytes;            /* factor matrices; 0 where they are on GPUs alone */
    uint64_t beside_bytes; /* of these, what the budget pays for: those of further models */
    uint64_t other_bytes;  /* at most: partial rows, Gram matrices, memory for the
                                       * start */
    uint64_t method_bytes; /* part of these that methods take, once they run */
    uint64_t rest_bytes;   /* part of these that is used only when the fit nears 1 */
    uint64_t host_bytes;   /* the budget: given, or chosen */
    uint64_t copy_bytes;   /* of it, for a copy of the state; 0: there is none */
    uint64_t spare_bytes;  /* of it, for what the backend wishes: all shards fit besides */
    uint64_t feed_bytes;   /* of it, for shards */
};

struct ts_engine_memory_conf {
    uint64_t host_bytes; /* the budget; 0: what is free, less a reserve */
    uint64_t own_bytes;  /* factors of the command itself */
    int accelerate;      /* runs keep factors of the sweep before; a state has them, too */
    int copy; /* a copy of the state is wanted; it is made if an eighth of the budget holds it */
    const struct ts_spec *spec; /* NULL: least squares of all cells */
};

/* Plans the memory for the backend that `bc` will open, with one model or several. TS_ELIMIT: there
 * is not enough, or several take too much of the budget. */
int ts_engine_memory_plan(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                          const struct ts_engine_memory_conf *conf, struct ts_engine_memory *ret,
                          struct ts_err *err);

/* Resident memory of this process now; 0 where the kernel does not say. */
uint64_t ts_engine_memory_resident(void);

#endif
