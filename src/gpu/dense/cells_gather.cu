/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that make tables of Khatri-Rao products, and that sum rows of Y and W (the cells times
 * the factors of inner and of outer modes) into the MTTKRP of a mode (cells_kernel.h). */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/dense/cells_kernel.h"

#include <cuda_runtime.h>

enum { GROUP = TS_CELLS_GROUP }; /* threads of a thread block */

/* ---------------------------------------------------------------- tables of Khatri-Rao products */

/* out(q, :) := the elementwise product of the factor rows of row q of the grid, that is of one
 * combination of indices of its modes. Each thread computes one element, or several. */
template <class A>
static __global__ void __launch_bounds__(GROUP)
    products(struct ts_cells_grid g, uint64_t n, double *out)
{
    for (uint64_t at = blockIdx.x * (uint64_t)GROUP + threadIdx.x; at < n;
         at += (uint64_t)gridDim.x * GROUP) {
        const uint32_t r = (uint32_t)(at % g.ld);
        uint64_t q = at / g.ld;
        double x = r < g.rank ? 1 : 0;
        for (uint32_t l = g.n; l-- > 0 && r < g.rank;) {
            x *= (double)((const A *)g.factor[l])[q % g.dim[l] * g.factor_ld + r];
            q /= g.dim[l];
        }
        out[at] = x;
    }
}

ts_gpu_error ts_cells_products(const struct ts_cells_grid *g, double *out, ts_gpu_stream stream)
{
    uint64_t n = g->ld;
    for (uint32_t l = 0; l < g->n; l++)
        n *= g->dim[l];
    if (g->precision == TS_FLOAT32)
        products<float><<<ts_cells_blocks(n), GROUP, 0, stream>>>(*g, n, out);
    else
        products<double><<<ts_cells_blocks(n), GROUP, 0, stream>>>(*g, n, out);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(GROUP)
    add(double2 *to, const double2 *from, uint64_t n, uint64_t apart, uint64_t n_parts, int fresh)
{
    for (uint64_t i = blockIdx.x * (uint64_t)GROUP + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * GROUP) {
        double2 sum = fresh ? make_double2(0, 0) : to[i];
#pragma unroll 4
        for (uint64_t k = 0; k < n_parts; k++) {
            const double2 x = from[k * apart + i];
            sum.x += x.x;
            sum.y += x.y;
        }
        to[i] = sum;
    }
}

ts_gpu_error ts_cells_add(double *to, const double *from, uint64_t elements, uint64_t apart,
                          uint64_t n, int fresh, ts_gpu_stream stream)
{
    if (elements > 0)
        add<<<ts_cells_blocks(elements / 2), GROUP, 0, stream>>>(
            (double2 *)to, (const double2 *)from, elements / 2, apart / 2, n, fresh);
    return cudaGetLastError();
}

/* Adds W (the cells times the outer factors) of steps, which are ranges of rows, to W of shares,
 * which are groups of chunks of rows. Each thread adds one pair of neighbouring elements, or
 * several pairs. */
static __global__ void __launch_bounds__(GROUP)
    add_shares(struct ts_cells_shares s, const double2 *from, uint64_t n, uint64_t apart)
{
    double2 *const sums = (double2 *)s.sum, *const to = (double2 *)s.to;
    for (uint64_t i = blockIdx.x * (uint64_t)GROUP + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * GROUP) {
        double2 all = to == NULL || s.fresh ? make_double2(0, 0) : to[i];
        bool changed = false;
        for (uint32_t k = 0; k < s.n; k++) {
            double2 *const at = sums + k * (s.sum_apart / 2) + i;
            double2 sum = s.part[k].begins ? make_double2(0, 0) : *at;
#pragma unroll 4
            for (uint64_t p = s.part[k].first; p < s.part[k].end; p++) {
                const double2 x = from[p * apart + i];
                sum.x += x.x;
                sum.y += x.y;
            }
            if (to == NULL || !s.part[k].ends) {
                *at = sum;
                continue;
            }
            all.x += sum.x;
            all.y += sum.y;
            changed = true;
        }
        if (changed)
            to[i] = all;
    }
}

ts_gpu_error ts_cells_add_shares(const struct ts_cells_shares *s, const double *from,
                                 uint64_t elements, uint64_t apart, ts_gpu_stream stream)
{
    if (elements > 0 && s->n > 0)
        add_shares<<<ts_cells_blocks(elements / 2), GROUP, 0, stream>>>(*s, (const double2 *)from,
                                                                        elements / 2, apart / 2);
    return cudaGetLastError();
}

/* ------------------------------------------------------------------ sums of rows of Y and W */

/* Returns `sum` plus one column of n rows of z (Y or W, the cells times inner or outer factors),
 * each times `upper` and an entry of the fastest other factor. `upper` is the product of the
 * entries of all slower other factors, whose indices are the same for these rows. */
template <class A>
static __device__ inline double add_rows(const double *z, uint64_t step, const A *fast,
                                         uint32_t fast_step, double upper, uint64_t n, double sum)
{
    constexpr int AHEAD = 8;
    for (; n >= AHEAD; n -= AHEAD) {
        double x[AHEAD], f[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            x[k] = z[k * step];
            f[k] = fast != NULL ? (double)fast[(uint64_t)k * fast_step] : 1;
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            sum += x[k] * (upper * f[k]);
        z += AHEAD * step;
        fast = fast != NULL ? fast + (uint64_t)AHEAD * fast_step : NULL;
    }
    for (; n > 0; n--) {
        sum += *z * (upper * (fast != NULL ? (double)*fast : 1));
        z += step;
        fast = fast != NULL ? fast + fast_step : NULL;
    }
    return sum;
}

/* Each thread computes one element of `part`, the partial sums of the MTTKRP: for a step (a range
 * of rows of Y or W), a slot (an index of the mode) and a column. It sums over the rows of the step
 * that have this index. */
template <class A>
static __global__ void __launch_bounds__(GROUP)
    gather(struct ts_cells_target t, const double *z, uint64_t z_row, uint64_t step, uint64_t n,
           double *part)
{
    const uint64_t at = blockIdx.x * (uint64_t)GROUP + threadIdx.x;
    const uint32_t ld = t.others.ld, r = (uint32_t)(at % ld);
    const uint64_t slot = at / ld % t.slots, s = at / ld / t.slots;
    const uint32_t n_upper = t.others.n > 0 ? t.others.n - 1 : 0;
    const uint64_t fast_dim = t.others.n > 0 ? t.others.dim[n_upper] : UINT64_MAX;
    /* distance in rows of z (Y or W) between two indices of the fastest other mode */
    const uint64_t stride = t.after > 1 ? 1 : t.dim;
    double sum = 0;
    if (s >= n)
        return;
    if (r < t.others.rank) {
        const uint64_t first = ts_cells_first(&t.cut, step + s),
                       end = ts_cells_end(&t.cut, step + s);
        const uint64_t i = ts_cells_index_of(t.dim, t.after, t.slots, first, slot);
        uint64_t o = ts_cells_other(t.dim, t.after, first, i);
        const uint64_t o_end = ts_cells_other(t.dim, t.after, end, i);
        while (o < o_end) {
            const uint64_t turn = fast_dim - o % fast_dim, left = o_end - o;
            const uint64_t k = turn < left ? turn : left;
            const uint64_t p = ts_cells_row(t.dim, t.after, o, i);
            uint64_t q = o / fast_dim;
            const A *fast = NULL;
            double upper = 1;
            for (uint32_t l = n_upper; l-- > 0;) {
                upper *=
                    (double)((const A *)
                                 t.others.factor[l])[q % t.others.dim[l] * t.others.factor_ld + r];
                q /= t.others.dim[l];
            }
            if (t.others.n > 0)
                fast = (const A *)t.others.factor[n_upper] + o % fast_dim * t.others.factor_ld + r;
            sum = add_rows(z + (p - z_row) * ld + r, stride * ld, fast, t.others.factor_ld, upper,
                           k, sum);
            o += k;
        }
    }
    part[at] = sum;
}

static cudaError_t check_grid(uint64_t blocks)
{
    return blocks > INT32_MAX ? cudaErrorInvalidConfiguration : cudaSuccess;
}

ts_gpu_error ts_cells_gather(const struct ts_cells_target *t, const double *z, uint64_t z_row,
                             uint64_t step, uint64_t n, double *part, ts_gpu_stream stream)
{
    const uint64_t blocks = ts_cells_ceil_div(n * t->slots * t->others.ld, GROUP);
    const cudaError_t e = check_grid(blocks);
    if (e != cudaSuccess || blocks == 0)
        return e;
    if (t->others.precision == TS_FLOAT32)
        gather<float><<<(uint32_t)blocks, GROUP, 0, stream>>>(*t, z, z_row, step, n, part);
    else
        gather<double><<<(uint32_t)blocks, GROUP, 0, stream>>>(*t, z, z_row, step, n, part);
    return cudaGetLastError();
}

/* Adds the MTTKRP's sums over steps (ranges of rows of Y or W) to acc, its sums over shares (groups
 * of chunks). Each thread computes one element of acc, for the shares from first_share on. */
static __global__ void __launch_bounds__(GROUP)
    fold(struct ts_cells_target t, const double *part, uint64_t step, uint64_t n,
         uint32_t first_share, uint64_t elements, double *acc)
{
    const uint64_t at = blockIdx.x * (uint64_t)GROUP + threadIdx.x;
    const uint32_t ld = t.others.ld, r = (uint32_t)(at % ld);
    const uint64_t slot = at / ld % t.share_slots, k = first_share + at / ld / t.share_slots;
    const uint64_t size = (uint64_t)t.slots * ld;
    double sum;
    if (at >= elements)
        return;
    acc += first_share * t.share_slots * ld;
    const uint64_t row = ts_cells_first(&t.cut, t.share[k]);
    const uint64_t i = ts_cells_index_of(t.dim, t.after, t.share_slots, row, slot);
    const uint64_t from = t.share[k] > step ? t.share[k] : step;
    const uint64_t end = t.share[k + 1] < step + n ? t.share[k + 1] : step + n;
    sum = acc[at];
    if (t.slots == t.dim) {
        part += i * ld + r;
#pragma unroll 4
        for (uint64_t s = from; s < end; s++)
            sum += part[(s - step) * size];
    } else {
        for (uint64_t s = from; s < end; s++) {
            const uint64_t j =
                ts_cells_slot_of(t.dim, t.after, t.slots, ts_cells_first(&t.cut, s), i);
            if (j < t.slots)
                sum += part[(s - step) * size + j * ld + r];
        }
    }
    acc[at] = sum;
}

ts_gpu_error ts_cells_fold(const struct ts_cells_target *t, const double *part, uint64_t step,
                           uint64_t n, double *acc, ts_gpu_stream stream)
{
    uint32_t first = 0, last = t->n_shares;
    uint64_t elements, blocks;
    cudaError_t e;
    while (first + 1 < t->n_shares && t->share[first + 1] <= step)
        first++;
    while (last > first + 1 && t->share[last - 1] >= step + n)
        last--;
    elements = (last - first) * t->share_slots * t->others.ld;
    blocks = ts_cells_ceil_div(elements, GROUP);
    e = check_grid(blocks);
    if (e == cudaSuccess && n > 0)
        fold<<<(uint32_t)blocks, GROUP, 0, stream>>>(*t, part, step, n, first, elements, acc);
    return e == cudaSuccess ? cudaGetLastError() : e;
}

/* Returns column r of row i of the mode's MTTKRP: acc, its sums over shares (groups of chunks of
 * rows), added in the order of the shares. */
static __device__ inline double add_up_shares(const struct ts_cells_target &t, const double *acc,
                                              uint64_t i, uint32_t r)
{
    double sum = 0;
    for (uint32_t k = 0; k < t.n_shares; k++) {
        const uint64_t row = ts_cells_first(&t.cut, t.share[k]);
        const uint64_t j = ts_cells_slot_of(t.dim, t.after, t.share_slots, row, i);
        if (j < t.share_slots)
            sum += acc[(k * t.share_slots + j) * t.others.ld + r];
    }
    return sum;
}

template <class A>
static __global__ void __launch_bounds__(GROUP)
    finish(struct ts_cells_target t, const double *acc, uint64_t n, uint32_t out_ld, A *out)
{
    for (uint64_t at = blockIdx.x * (uint64_t)GROUP + threadIdx.x; at < n;
         at += (uint64_t)gridDim.x * GROUP) {
        const uint32_t r = (uint32_t)(at % out_ld);
        const uint64_t i = at / out_ld;
        out[at] = (A)(r < t.others.rank ? add_up_shares(t, acc, i, r) : 0.0);
    }
}

ts_gpu_error ts_cells_finish(const struct ts_cells_target *t, const double *acc,
                             enum ts_precision precision, uint32_t out_ld, void *out,
                             ts_gpu_stream stream)
{
    const uint64_t n = t->dim * out_ld;
    if (precision == TS_FLOAT32)
        finish<<<ts_cells_blocks(n), GROUP, 0, stream>>>(*t, acc, n, out_ld, (float *)out);
    else
        finish<<<ts_cells_blocks(n), GROUP, 0, stream>>>(*t, acc, n, out_ld, (double *)out);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(GROUP)
    part_columns(struct ts_cells_target t, const double *acc, uint64_t n, uint64_t first,
                 uint64_t size, double *part)
{
    for (uint64_t at = blockIdx.x * (uint64_t)GROUP + threadIdx.x; at < n;
         at += (uint64_t)gridDim.x * GROUP) {
        const uint32_t r = (uint32_t)(at % t.others.rank);
        const uint64_t i = at / t.others.rank;
        part[i * size + first + r] = add_up_shares(t, acc, i, r);
    }
}

ts_gpu_error ts_cells_part(const struct ts_cells_target *t, const double *acc, uint64_t first,
                           uint64_t size, double *part, ts_gpu_stream stream)
{
    const uint64_t n = t->dim * t->others.rank;
    part_columns<<<ts_cells_blocks(n), GROUP, 0, stream>>>(*t, acc, n, first, size, part);
    return cudaGetLastError();
}
