/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges data by copies: each rank writes its spans (ranges of the buffer with its new data)
 * into the other ranks' replicas of the buffer. */
#include <cuda_runtime.h>

#include "gpu/exchange/exchange_way.h"
#include "gpu/team/gpu_fail.h"

/* The driver copies directly if peer access is enabled (by exchange.c), otherwise through its own
 * page-locked host memory. Rank r starts with the replica of rank r + 1, so that the ranks do not
 * all write to one GPU at the same time. */
static int copy_gather(struct ts_exchange *x, uint32_t rank, void *const base[],
                       const struct ts_exchange_part part[], ts_gpu_stream stream,
                       struct ts_err *err)
{
    const struct ts_exchange_part *own = &part[rank];
    for (uint32_t k = 1; k < x->n; k++) {
        const uint32_t to = (rank + k) % x->n;
        for (uint32_t i = 0; i < own->n; i++) {
            const struct ts_exchange_span *s = &own->span[i];
            ts_gpu_error e;
            if (s->bytes == 0)
                continue;
            e = cudaMemcpyPeerAsync((char *)base[to] + s->offset, x->device[to],
                                    (const char *)base[rank] + s->offset, x->device[rank], s->bytes,
                                    stream);
            if (e != cudaSuccess)
                return ts_gpu_fail(err, e, "copying from GPU to GPU");
        }
    }
    return 0;
}

const struct ts_exchange_way ts_exchange_copy = {
    .kind = TS_EXCHANGE_COPY,
    .pushes = 1,
    .gather = copy_gather,
};
