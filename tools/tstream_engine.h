/* tstream_engine.h - tensor, backend and feed put together within the memory that is allowed: the
 * one place where a command gets its processor.
 *
 *   owner    the engine owns all three until close
 *   units    bytes
 *   errors   0 or a negative ts_code; on failure nothing is held
 */
#ifndef TS_TOOLS_TSTREAM_ENGINE_H
#define TS_TOOLS_TSTREAM_ENGINE_H

#include "base/opt.h"
#include "base/trace.h"
#include "stream/backend.h"
#include "tools/tstream_gpu.h"

struct tstream_engine_conf {
    const char *path; /* of the tensor */
    uint32_t rank, threads;
    int precision;       /* enum ts_precision */
    uint64_t host_bytes; /* --host-memory; 0: what is free, less a reserve */
    struct tstream_processor processor;
    int only_mode;       /* of the feed: -1, or the mode that is passed over again and again */
    /* Told the nonzeros of shards that were worked through, from any thread; NULL: nobody asks. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    struct ts_trace *trace; /* reads, copies and kernels are told to it; NULL: nobody asks */
};

struct tstream_engine {
    struct ts_tensor *tensor;
    const struct ts_backend *backend;
    void *be;
    struct ts_feed *feed;
    uint32_t threads;      /* in numbers, never 0 */
    uint64_t host_bytes;   /* the budget: given, or chosen */
    uint64_t factor_bytes; /* of the backend, beside the budget */
    uint64_t library_bytes; /* of the budget, what the libraries of GPUs took; 0 on the CPU */
    uint32_t n_devices;     /* GPUs, 0: CPU */
    int device[TS_MAX_DEVICES];
    struct ts_err no_gpu; /* why a GPU's driver that is there is of no use; code 0: no such thing */
};

int tstream_engine_open(const struct tstream_engine_conf *conf, struct tstream_engine *ret,
                        struct ts_err *err);
void tstream_engine_close(struct tstream_engine *e);

/* Says on standard error that the CPU computes though there is a GPU's driver. */
void tstream_engine_note_processor(const struct ts_cmd *cmd, const struct tstream_engine *e);

/* Says once what the kernel refused, on standard error. */
void tstream_engine_note(const struct ts_cmd *cmd, const struct ts_feed_stats *stats);

#endif
