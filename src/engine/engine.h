/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - opens a tensor, a backend and a feed within the memory that is allowed. It is the only
 * place where a run gets its processor.
 *
 *   owner    the engine owns tensor, backend and feed until close
 *   units    bytes
 *   errors   0 or a negative ts_code; on failure nothing is held
 */
#ifndef TS_ENGINE_ENGINE_H
#define TS_ENGINE_ENGINE_H

#include <signal.h>

#include "base/trace.h"
#include "cpd/spec/spec.h"
#include "stream/backend.h"
#include "stream/feed/residency.h"
#include "stream/feed/slabs.h"
#include "engine/processor.h"
#include "engine/engine_memory.h"

struct ts_engine_conf {
    const char *path; /* path of the tensor */
    /* an open tensor, which must stay open; NULL: `path` is opened here */
    const struct ts_tensor *tensor;
    uint32_t rank, threads;
    uint32_t n_models;     /* number of models to be computed at the same time; 0: one */
    const uint32_t *ranks; /* ranks of the n_models models, instead of `rank`; lent for the call */
    int precision;         /* enum ts_precision */
    uint64_t host_bytes;   /* memory budget (--host-memory); 0: the free memory, less a reserve */
    struct ts_processor processor;
    const struct ts_spec *spec; /* NULL: least squares of all cells */
    /* cells of a dense tensor may be unknown (NaN), even without `observed` */
    int unknown;
    /* runs are accelerated (cpd/solver/accelerate.h), which needs memory for a second copy of
     * factors */
    int accelerate;
    uint32_t n_named;     /* the highest mode number, from 1, that the user named; 0: none */
    struct ts_comm *comm; /* ranks (processes) that compute a part each; NULL: this process alone */
    /* bytes of factors that the command holds itself; they count like the backend's factors */
    uint64_t own_bytes;
    int copy;      /* 1: keep a copy of the state, if there is memory for it */
    int only_mode; /* -1, or the only mode whose shards the feed reads */
    int products;  /* 1: only MTTKRPs are needed, and no rows are solved */
    /* bits of enum ts_capability: what the backend must support besides the constraints */
    uint32_t needs;
    /* Called with the number of nonzeros of each finished shard, from any thread; or NULL. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
    struct ts_trace *trace;            /* records reads, copies and kernels; or NULL */

    /* members for tstream plan */
    int dry_run;                    /* 1: only plan which shards stay in memory */
    const struct ts_tensor *sample; /* compute on this sample of the tensor at `path`; or NULL */
    double resident_share;          /* for a sample: share of its bytes that stays in memory */
};

struct ts_engine {
    const struct ts_tensor *tensor;
    struct ts_tensor *own; /* the tensor if the engine opened it; NULL: it is the caller's */
    const struct ts_backend *backend;
    void *be;
    struct ts_feed *feed;
    struct ts_comm *comm; /* ranks (processes) that compute a part each; NULL: this process alone */
    /* number of models that are computed at the same time: the first of the n_models requested
     * ones, at least 1 */
    uint32_t n_models;
    uint32_t threads; /* the number of threads that compute, never 0 */
    struct ts_engine_memory memory;
    struct ts_residency residency; /* with dry_run: shards that the feed would keep */
    /* with dry_run and a dense tensor: slabs that the feed would keep */
    struct ts_slabs_plan slabs;
    uint64_t library_bytes; /* part of the memory budget that GPU libraries took; 0 on the CPU */
    uint32_t n_devices;     /* number of GPUs; 0: CPU */
    int device[TS_MAX_DEVICES];
    /* why the driver of GPUs cannot be used; code 0: it can be used, or there is no driver */
    struct ts_err no_gpu;
};

int ts_engine_open(const struct ts_engine_conf *conf, struct ts_engine *ret, struct ts_err *err);
void ts_engine_close(struct ts_engine *e);

/* Returns the argument `be` of the backend's calls for model k, from 0. */
void *ts_engine_model(const struct ts_engine *e, uint32_t k);

#endif
