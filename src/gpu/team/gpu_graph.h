/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_graph.h - kernels that a stream runs again and again, launched as one.
 *
 * Where a tensor is small the host takes longer to enqueue what follows a product, a few
 * microseconds a kernel, than the device takes to run it. So these kernels are recorded once,
 * and then launched together.
 *
 *   owner    whoever holds the graph; a graph of zeros is empty
 *   threads  one at a time
 *   errors   a ts_gpu_error (gpu_types.h)
 * */
#ifndef TS_GPU_GPU_GRAPH_H
#define TS_GPU_GPU_GRAPH_H

#include <stdint.h>

#include "gpu/team/gpu_types.h"

/* The arguments that kernels were recorded with, as far as they may change. */
struct ts_gpu_graph_key {
    uint64_t version; /* of the shards that stay */
    const void *out;  /* where products are */
    int flags;        /* whatever else the caller's choice of kernels depends on */
};

struct ts_gpu_graph {
    ts_gpu_exec exec; /* NULL: empty */
    struct ts_gpu_graph_key key;
};

/* Launches the graph on the stream. An empty one, or one of another key, is recorded first:
 * `enqueue` is called, and puts on the stream kernels alone. */
ts_gpu_error ts_gpu_graph_launch(struct ts_gpu_graph *graph, const struct ts_gpu_graph_key *key,
                                 ts_gpu_stream stream, ts_gpu_error (*enqueue)(void *ctx),
                                 void *ctx);
void ts_gpu_graph_free(struct ts_gpu_graph *graph);

#endif
