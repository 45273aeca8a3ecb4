/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - opens a tensor, a backend and a feed within the memory that is allowed. It is the only
 * place where a run gets its processor.
 *
 *   owner    the engine owns all three until close
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
    const char *path; /* of the tensor */
    /* the tensor if it is open already, which must stay; NULL: it is opened here */
    const struct ts_tensor *tensor;
    uint32_t rank, threads;
    uint32_t n_models;     /* several models are wanted side by side; 0: one */
    const uint32_t *ranks; /* of them, instead of `rank`; lent for the call */
    int precision;         /* enum ts_precision */
    uint64_t host_bytes;   /* --host-memory; 0: what is free, less a reserve */
    struct ts_processor processor;
    const struct ts_spec *spec; /* NULL: least squares of all cells */
    /* cells of a dense tensor may be unknown (NaN), also where they are not observed ones */
    int unknown;
    int accelerate; /* runs are accelerated (cpd/solver/accelerate.h), which takes second factors */
    uint32_t n_named;     /* the highest mode that is asked for by its number, from 1; 0: none */
    struct ts_comm *comm; /* of the ranks that compute each a part; NULL: this process alone */
    uint64_t own_bytes;   /* factors of the command itself; they count like the backend's */
    int copy;             /* 1: a copy of the state is wanted, where there is memory for it */
    int only_mode;        /* -1, or the only mode that the feed serves */
    int products;         /* products are all that is wanted */
    uint32_t needs;       /* bits of enum ts_capability, beside those that constraints ask for */
    /* Called with the nonzeros of shards that are finished, from any thread; or NULL. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
    struct ts_trace *trace;            /* gets the reads, copies and kernels; or NULL */

    /* for tstream plan */
    int dry_run;                    /* only plan which shards stay in memory */
    const struct ts_tensor *sample; /* compute on this sample of the tensor at `path`; or NULL */
    double resident_share;          /* of a sample: share of its bytes that stays in memory */
};

struct ts_engine {
    const struct ts_tensor *tensor;
    struct ts_tensor *own; /* the tensor if it was opened here; NULL: it is the caller's */
    const struct ts_backend *backend;
    void *be;
    struct ts_feed *feed;
    uint32_t n_models; /* side by side: the first so many of those that were wanted; at least 1 */
    uint32_t threads;  /* the number of threads, never 0 */
    struct ts_engine_memory memory;
    struct ts_residency residency; /* dry_run: what the feed would hold; */
    struct ts_slabs_plan slabs;    /* of a dense tensor this */
    uint64_t library_bytes; /* part of the budget that the libraries of GPUs took; 0 on the CPU */
    uint32_t n_devices;     /* GPUs, 0: CPU */
    int device[TS_MAX_DEVICES];
    struct ts_err no_gpu; /* why the driver of a GPU cannot be used; code 0: it can, or there is
                           * none */
};

int ts_engine_open(const struct ts_engine_conf *conf, struct ts_engine *ret, struct ts_err *err);
void ts_engine_close(struct ts_engine *e);

/* What the calls of the backend want as `be` for model k, from 0. */
void *ts_engine_model(const struct ts_engine *e, uint32_t k);

#endif
