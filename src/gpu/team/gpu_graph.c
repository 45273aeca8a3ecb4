/* SPDX-License-Identifier: BSD-3-Clause */
/* Records the work on a stream as a CUDA graph, and launches the graph. */
#include "gpu/team/gpu_graph.h"

#include <cuda_runtime.h>

#include "gpu/team/gpu_fail.h"

void ts_gpu_graph_free(struct ts_gpu_graph *graph)
{
    if (graph->exec != NULL)
        cudaGraphExecDestroy(graph->exec);
    *graph = (struct ts_gpu_graph){ 0 };
}

static int is_of(const struct ts_gpu_graph *graph, const struct ts_gpu_graph_key *key)
{
    return graph->exec != NULL && graph->key.version == key->version &&
           graph->key.out == key->out && graph->key.flags == key->flags;
}

/* Records the kernels that `enqueue` puts on the stream. The capture is relaxed, because other
 * threads use their devices meanwhile. */
static ts_gpu_error record(struct ts_gpu_graph *graph, ts_gpu_stream stream,
                           ts_gpu_error (*enqueue)(void *ctx), void *ctx)
{
    cudaGraph_t made = NULL;
    ts_gpu_error e = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), ended;
    if (e != cudaSuccess)
        return e;
    e = enqueue(ctx);
    ended = cudaStreamEndCapture(stream, &made);
    TRY(e, ended);
    TRY(e, cudaGraphInstantiateWithFlags(&graph->exec, made, 0));
    if (made != NULL)
        cudaGraphDestroy(made);
    return e;
}

ts_gpu_error ts_gpu_graph_launch(struct ts_gpu_graph *graph, const struct ts_gpu_graph_key *key,
                                 ts_gpu_stream stream, ts_gpu_error (*enqueue)(void *ctx),
                                 void *ctx)
{
    if (!is_of(graph, key)) {
        ts_gpu_error e;
        ts_gpu_graph_free(graph);
        e = record(graph, stream, enqueue, ctx);
        if (e != cudaSuccess)
            return e;
        graph->key = *key;
    }
    return cudaGraphLaunch(graph->exec, stream);
}
