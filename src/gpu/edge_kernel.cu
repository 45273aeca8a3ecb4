#define _Static_assert static_assert /* layout.h is C */
#include "gpu/edge_kernel.h"

#include <cuda_runtime.h>

enum { FOLD = 32 }; /* edges that a warp adds up */

/* Adds FOLD consecutive edges: sums of rows inside them go to `out`, those of the first and last row
 * to `next` (unless there is but one warp). Sums are kept in float64.
 *
 *   launch  one warp per FOLD edges, a lane per column
 *   row     (n) ascending; equal rows follow each other */
template <class T>
__global__ void fold_edges(const T *edge, const uint32_t *row, uint64_t n, T *next,
                           uint32_t *next_row, uint32_t ld, T *out)
{
    const uint64_t chunk = (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x) / 32;
    const uint64_t first = chunk * FOLD, end = min(first + FOLD, n);
    const bool last_level = n <= FOLD;
    if (first >= n)
        return;
    for (uint32_t column = threadIdx.x % 32; column < ld; column += 32) {
        uint32_t current = __ldg(row + first);
        bool to_next = !last_level;
        double sum = 0;
#pragma unroll 8
        for (uint64_t i = first; i < end; i++) {
            const uint32_t r = __ldg(row + i);
            const T x = edge[i * ld + column];
            if (r != current) {
                if (to_next)
                    next[2 * chunk * ld + column] = (T)sum;
                else
                    out[(uint64_t)current * ld + column] = (T)sum;
                to_next = false;
                sum = 0;
                current = r;
            }
            sum += x;
        }
        if (last_level) {
            out[(uint64_t)current * ld + column] = (T)sum;
            continue;
        }
        next[(2 * chunk + !to_next) * ld + column] = (T)sum;
        if (to_next)
            next[(2 * chunk + 1) * ld + column] = 0;
        if (column == 0) {
            next_row[2 * chunk] = __ldg(row + first);
            next_row[2 * chunk + 1] = current;
        }
    }
}

static uint64_t next_edges(uint64_t n)
{
    return 2 * ((n + FOLD - 1) / FOLD);
}

uint64_t ts_edge_count(uint64_t n_partitions)
{
    uint64_t n = 2 * n_partitions, total = n;
    while (n > FOLD) {
        n = next_edges(n);
        total += n;
    }
    return total;
}

template <class T>
static int fold(uint64_t n_partitions, T *edge, uint32_t *row, uint32_t ld, T *out, cudaStream_t s)
{
    for (uint64_t n = 2 * n_partitions;; n = next_edges(n)) {
        const uint64_t warps = (n + FOLD - 1) / FOLD;
        fold_edges<T><<<(unsigned)((warps + 3) / 4), 128, 0, s>>>(edge, row, n, edge + n * ld,
                                                                 row + n, ld, out);
        if (n <= FOLD)
            return cudaGetLastError();
        edge += n * ld;
        row += n;
    }
}

int ts_edge_fold(enum ts_precision precision, uint64_t n_partitions, void *edge,
                   uint32_t *edge_row, uint32_t ld, void *out, void *stream)
{
    cudaStream_t s = (cudaStream_t)stream;
    return precision == TS_FLOAT32 ? fold(n_partitions, (float *)edge, edge_row, ld, (float *)out, s)
                                   : fold(n_partitions, (double *)edge, edge_row, ld, (double *)out, s);
}
