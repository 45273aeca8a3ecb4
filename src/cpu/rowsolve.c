#include "cpu/rowsolve.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"

#define BLOCK_ROWS 64u /* converted to float64 at once: 16 KB at rank 32 */
#define MAX_GROUPS 64u
#define MIN_GROUPS 4u
#define GROUPS_BYTES (UINT64_C(16) << 20) /* for partial Gram matrices, unless that leaves few */

static uint64_t group_count(uint64_t n_rows, uint32_t rank)
{
    const uint64_t gram_bytes = (uint64_t)rank * rank * sizeof(double);
    uint64_t n = (n_rows + 8 * BLOCK_ROWS - 1) / (8 * BLOCK_ROWS), most = GROUPS_BYTES / gram_bytes;
    most = most < MIN_GROUPS ? MIN_GROUPS : most > MAX_GROUPS ? MAX_GROUPS : most;
    return n < most ? n : most;
}

uint64_t ts_rowsolve_bytes(uint64_t max_rows, uint32_t rank, uint32_t threads)
{
    const uint64_t doubles = group_count(max_rows, rank) * ((uint64_t)rank * rank + 1) +
                             2 * (uint64_t)threads * BLOCK_ROWS * rank;
    return ts_bigmem_cost(doubles * sizeof(double));
}

/* One block of n rows: m holds M and a gets A, both n x rank. */
static void solve_block(struct ts_fmat *f, uint64_t row, uint32_t n, const double *w, double *m,
                        double *a, double *gram, double *inner)
{
    const uint32_t rank = f->rank;
    ts_fmat_get(f, row, n, m, 1);
    if (w != NULL) {
        memset(a, 0, (size_t)n * rank * sizeof *a);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < rank; k++)
                for (uint32_t r = 0; r < rank; r++)
                    a[i * rank + r] += m[i * rank + k] * w[k * rank + r];
        ts_fmat_put(f, row, n, a, 1);
        ts_fmat_get(f, row, n, a, 1);
    } else {
        memcpy(a, m, (size_t)n * rank * sizeof *a);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < rank; k++)
            for (uint32_t r = k; r < rank; r++)
                gram[k * rank + r] += a[i * rank + k] * a[i * rank + r];
    for (uint32_t i = 0; i < n * rank; i++)
        *inner += m[i] * a[i];
}

int ts_rowsolve_run(struct ts_fmat *f, const double *w, uint32_t threads, double *gram,
                    double *inner, struct ts_err *err)
{
    const uint32_t rank = f->rank;
    const uint64_t n_groups = group_count(f->n_rows, rank), square = (uint64_t)rank * rank;
    const uint64_t n_blocks = (f->n_rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const uint64_t bytes = (n_groups * (square + 1) + 2 * (uint64_t)threads * BLOCK_ROWS * rank) *
                           sizeof(double);
    double *part, *buffers, total = 0;
    void *memory;
    const int rc = ts_bigmem_new(bytes, "partial Gram matrices", &memory, err);
    if (rc < 0)
        return rc;
    part = memory;
    buffers = part + n_groups * (square + 1);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (uint64_t g = 0; g < n_groups; g++) {
        double *m = buffers + (uint64_t)omp_get_thread_num() * 2 * BLOCK_ROWS * rank;
        double *own = part + g * (square + 1);
        for (uint64_t b = n_blocks * g / n_groups; b < n_blocks * (g + 1) / n_groups; b++) {
            const uint64_t row = b * BLOCK_ROWS, left = f->n_rows - row;
            solve_block(f, row, left < BLOCK_ROWS ? (uint32_t)left : BLOCK_ROWS, w, m,
                        m + BLOCK_ROWS * rank, own, own + square);
        }
    }
    memset(gram, 0, square * sizeof *gram);
    for (uint64_t g = 0; g < n_groups; g++) {
        for (uint64_t i = 0; i < square; i++)
            gram[i] += part[g * (square + 1) + i];
        total += part[g * (square + 1) + square];
    }
    for (uint32_t k = 0; k < rank; k++)
        for (uint32_t r = 0; r < k; r++)
            gram[k * rank + r] = gram[r * rank + k];
    if (inner != NULL)
        *inner = total;
    ts_bigmem_free(memory, bytes);
    return 0;
}
