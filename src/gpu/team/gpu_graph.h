/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_graph.h - a sequence of kernels that a stream runs repeatedly, launched as one CUDA graph.
 *
 * For a small tensor, the host takes longer to enqueue the kernels after a product, a few
 * microseconds each, than the device takes to run them. So these kernels are recorded once, and
 * then launched together.
 *
 *   owner    the caller owns the graph; a graph of zeros is empty
 *   threads  one at a time
 *   errors   a ts_gpu_error (gpu_types.h)
 * */
#ifndef TS_GPU_GPU_GRAPH_H
#define TS_GPU_GPU_GRAPH_H

#include <stdint.h>

#include "gpu/team/gpu_types.h"

/* The arguments with which kernels were recorded, as far as they may change. A graph with another
 * key is recorded again. */
struct ts_gpu_graph_key {
    uint64_t version; /* version of the set of kept shards */
    const void *out;  /* address of the products */
    int flags;        /* other conditions on which the caller's choice of kernels depends */
};

struct ts_gpu_graph {
    ts_gpu_exec exec; /* the recorded kernels; NULL: there are none */
    struct ts_gpu_graph_key key;
};

/* Launches the graph on the stream. If it is empty or has another key, `enqueue` is called first to
 * record it, and must put only kernels on the stream. */
ts_gpu_error ts_gpu_graph_launch(struct ts_gpu_graph *graph, const struct ts_gpu_graph_key *key,
                                 ts_gpu_stream stream, ts_gpu_error (*enqueue)(void *ctx),
                                 void *ctx);
void ts_gpu_graph_free(struct ts_gpu_graph *graph);

#endif
