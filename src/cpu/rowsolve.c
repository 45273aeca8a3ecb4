#include "cpu/rowsolve.h"

#include <omp.h>
#include <string.h>

#include "base/bigmem.h"
#include "cpu/rowblock.h"

#define MAX_GROUPS 64u
#define MIN_GROUPS 4u
#define GROUPS_BYTES (UINT64_C(16) << 20) /* for partial Gram matrices, unless that leaves few */
#define GROUP_ROWS (8 * TS_ROWBLOCK_ROWS) /* at least, but for the last */

/* How the memory of a run is divided; counts of float64. */
struct layout {
    uint32_t padded;
    uint64_t groups, square;
    uint64_t group_size;  /* a Gram matrix and 8 partial sums */
    uint64_t buffer_size; /* m and a of a thread */
    uint64_t all;
};

static struct layout lay_out(uint64_t n_rows, uint32_t rank, uint32_t threads)
{
    const uint64_t wanted = (n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
    struct layout l = { .padded = (rank + 7) / 8 * 8 };
    uint64_t most;
    l.square = (uint64_t)l.padded * l.padded;
    most = GROUPS_BYTES / (l.square * sizeof(double));
    most = most < MIN_GROUPS ? MIN_GROUPS : most > MAX_GROUPS ? MAX_GROUPS : most;
    l.groups = wanted < most ? wanted : most;
    l.group_size = l.square + 8;
    l.buffer_size = 2 * (uint64_t)TS_ROWBLOCK_ROWS * l.padded;
    l.all = l.square + l.groups * l.group_size + threads * l.buffer_size;
    return l;
}

uint64_t ts_rowsolve_bytes(uint64_t max_rows, uint32_t rank, uint32_t threads)
{
    return ts_bigmem_cost(lay_out(max_rows, rank, threads).all * sizeof(double));
}

/* gram and inner: the groups' sums, in order; the lower triangle mirrors the upper. */
static void add_groups(const struct layout *l, const double *part, uint32_t rank, double *gram,
                       double *inner)
{
    double sums[8] = { 0 };
    memset(gram, 0, (uint64_t)rank * rank * sizeof *gram);
    for (uint64_t g = 0; g < l->groups; g++, part += l->group_size) {
        for (uint32_t p = 0; p < rank; p++)
            for (uint32_t q = p; q < rank; q++)
                gram[p * rank + q] += part[p * l->padded + q];
        for (uint32_t i = 0; i < 8; i++)
            sums[i] += part[l->square + i];
    }
    for (uint32_t p = 0; p < rank; p++)
        for (uint32_t q = 0; q < p; q++)
            gram[p * rank + q] = gram[q * rank + p];
    if (inner != NULL)
        *inner = ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
                 ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

int ts_rowsolve_run(struct ts_fmat *f, const double *w, enum ts_isa isa, uint32_t threads,
                    double *gram, double *inner, struct ts_err *err)
{
    const struct ts_rowblock_ops *ops = ts_rowblock_get(isa);
    const struct layout l = lay_out(f->n_rows, f->rank, threads);
    const uint64_t n_blocks = (f->n_rows + TS_ROWBLOCK_ROWS - 1) / TS_ROWBLOCK_ROWS;
    double *padded_w, *part, *buffers;
    void *memory;
    const int rc = ts_bigmem_new(l.all * sizeof(double), "partial Gram matrices", &memory, err);
    if (rc < 0)
        return rc;
    padded_w = memory;
    part = padded_w + l.square;
    buffers = part + l.groups * l.group_size;
    for (uint32_t p = 0; w != NULL && p < f->rank; p++)
        memcpy(padded_w + p * l.padded, w + p * f->rank, f->rank * sizeof *w);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (l.groups > 1)
    for (uint64_t g = 0; g < l.groups; g++) {
        double *m = buffers + (uint64_t)omp_get_thread_num() * l.buffer_size;
        double *own = part + g * l.group_size;
        const struct ts_rowblock block = {
            .w = w == NULL ? NULL : padded_w, .m = m, .a = m + l.buffer_size / 2, .gram = own,
            .inner = own + l.square, .padded = l.padded,
        };
        for (uint64_t b = n_blocks * g / l.groups; b < n_blocks * (g + 1) / l.groups; b++) {
            const uint64_t row = b * TS_ROWBLOCK_ROWS, left = f->n_rows - row;
            ops->solve(f, row, left < TS_ROWBLOCK_ROWS ? (uint32_t)left : TS_ROWBLOCK_ROWS, &block);
        }
    }
    add_groups(&l, part, f->rank, gram, inner);
    ts_bigmem_free(memory, l.all * sizeof(double));
    return 0;
}

void ts_rowsolve_scale(struct ts_fmat *f, const double *s, enum ts_isa isa, uint32_t threads)
{
    const struct ts_rowblock_ops *ops = ts_rowblock_get(isa);
    const uint64_t n_chunks = (f->n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
    _Alignas(64) double padded[TS_FMAT_MAX_STRIDE];
    for (uint32_t r = 0; r < f->stride; r++)
        padded[r] = r < f->rank ? s[r] : 0;
#pragma omp parallel for num_threads(threads) if (n_chunks > 1)
    for (uint64_t c = 0; c < n_chunks; c++) {
        const uint64_t row = c * GROUP_ROWS, left = f->n_rows - row;
        ops->scale(f, row, left < GROUP_ROWS ? left : GROUP_ROWS, padded);
    }
}
