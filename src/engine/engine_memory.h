/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_memory.h - what a run takes of the machine's memory, part by part: what cp obeys and refuses by
 * is what plan prints.
 *
 * Factors come on top of the budget (--host-memory); what else a run takes comes out of it where it is
 * much; the rest is the feed's, for shards that stay and slots for the others (stream/residency.h).
 *
 *   units    bytes
 *   threads  pure but for looking at the machine
 *   errors   TS_ELIMIT with a sentence that names the parts
 */
#ifndef TS_ENGINE_ENGINE_MEMORY_H
#define TS_ENGINE_ENGINE_MEMORY_H

#include "stream/backend.h"

struct ts_engine_memory {
    uint64_t total_bytes, free_bytes; /* of the machine, as far as this process may use it */
    uint64_t factor_bytes;            /* factor matrices; 0 where they are on GPUs alone */
    uint64_t other_bytes;             /* at most: partial rows, Gram matrices, what a start takes */
    uint64_t rest_bytes;              /* of these, what is touched only when the fit nears 1 */
    uint64_t host_bytes;              /* the budget: given, or chosen */
    uint64_t copy_bytes;              /* of it, for a copy of the state; 0: there is none */
    uint64_t spare_bytes; /* of it, for what the backend wishes: all shards fit besides */
    uint64_t feed_bytes;  /* of it, for shards */
};

/* For the backend that `bc` is going to be opened with. host_bytes: --host-memory; 0: what is free, less
 * a reserve. own_bytes: what the command takes for factors of its own. copy: one of the state is wanted, and
 * made when an eighth of the budget holds it. */
int ts_engine_memory_plan(const struct ts_backend *backend, const struct ts_backend_conf *bc,
                          uint64_t host_bytes, uint64_t own_bytes, int copy,
                          struct ts_engine_memory *ret, struct ts_err *err);

/* Of this process, resident now; 0 where the kernel does not say. */
uint64_t ts_engine_memory_resident(void);

#endif
