/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - tensor, backend and feed put together within the memory that is allowed: the
 * one place where a run gets its processor.
 *
 *   owner    the engine owns all three until close
 *   units    bytes
 *   errors   0 or a negative ts_code; on failure nothing is held
 */
#ifndef TS_ENGINE_ENGINE_H
#define TS_ENGINE_ENGINE_H

#include <signal.h>

#include "base/trace.h"
#include "stream/backend.h"
#include "stream/residency.h"
#include "engine/processor.h"
#include "engine/engine_memory.h"

struct ts_engine_conf {
    const char *path; /* of the tensor */
    const struct ts_tensor
        *tensor; /* the same where it is open already, which must stay; NULL: it is opened here */
    uint32_t rank, threads;
    int precision;       /* enum ts_precision */
    uint64_t host_bytes; /* --host-memory; 0: what is free, less a reserve */
    struct ts_processor processor;
    uint64_t
        own_bytes; /* that the command takes for factors of its own: they count like the backend's */
    int copy;      /* of the state is wanted, where there is memory for it */
    int only_mode; /* of the feed: -1, or the mode that is passed over again and again */
    /* Told the nonzeros of shards that were worked through, from any thread; NULL: nobody asks. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
    struct ts_trace *trace; /* reads, copies and kernels are told to it; NULL: nobody asks */

    /* for tstream plan */
    int without_feed; /* only plan which shards stay in memory */
    const struct ts_tensor
        *sample;           /* this one, not that of `path`, which it is a sample of; or NULL */
    double resident_share; /* of a sample: of the bytes of its shards, what stays in memory */
};

struct ts_engine {
    const struct ts_tensor *tensor;
    struct ts_tensor *own; /* the same, to be closed; NULL: it is the caller's */
    const struct ts_backend *backend;
    void *be;
    struct ts_feed *feed;
    uint32_t threads; /* in numbers, never 0 */
    struct ts_engine_memory memory;
    struct ts_residency residency; /* without_feed: what the feed would hold */
    uint64_t library_bytes; /* of the budget, what the libraries of GPUs took; 0 on the CPU */
    uint32_t n_devices;     /* GPUs, 0: CPU */
    int device[TS_MAX_DEVICES];
    struct ts_err no_gpu; /* why a GPU's driver that is there is of no use; code 0: no such thing */
};

int ts_engine_open(const struct ts_engine_conf *conf, struct ts_engine *ret, struct ts_err *err);
void ts_engine_close(struct ts_engine *e);

#endif
