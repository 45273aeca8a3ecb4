/* SPDX-License-Identifier: BSD-3-Clause */
/* tile_solve.cuh - a warp solves S a = m for a row in its registers, with S in the accumulators of
 * tensor cores.
 *
 * S consists of C x C tiles of 8 x 8; the order of its columns does not matter. Lane L is at (g, t)
 * = (L / 4, L % 4), and has entries (g, 2 t) and (g, 2 t + 1) of the tiles (a, b), a >= b. Each
 * tile (p, p) on the diagonal in turn is inverted and eliminated, for all b > p and c >= b,
 *
 *     U_bp = -S_bp S_pp^-1,   S_cb += U_cp S_bp'
 *
 * where the registers of a tile X serve as left operand X and as right operand X': column 2 t + e
 * counts as column t of half e of the operand. The right side is a tile of one row, m', in lanes
 * with g = 0.
 *
 *   owner    all in registers
 *   units    least: a diagonal entry of at most this counts as rounding, and its unknown becomes 0
 *   threads  all 32 lanes of a warp take part
 */
#ifndef TS_GPU_TILE_SOLVE_CUH
#define TS_GPU_TILE_SOLVE_CUH

#include <cfloat>
#include <cuda_runtime.h>
#include <stdint.h>

#include "gpu/rows/tensor_core.cuh"

/* Returns 1 / x for a normal x, exact except for the last bit or two. It has no branch for other x,
 * after which the lanes would have to converge. */
static __device__ inline double reciprocal(double x)
{
    double r, e;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x)); /* exact to 20 bits */
    e = fma(-x, r, 1.0);
    e = fma(e, e, e);
    return fma(r, e, r);
}

/* Applies the sweep operator to row k of the symmetric tile d, where k - E is even. */
template <int E>
static __device__ inline void sweep_row(double (&d)[2], double least, int k, uint32_t lane)
{
    const int g = (int)lane / 4, t = (int)lane % 4;
    const bool row = g == k, column = t == k / 2;
    const double counts = d[E] > least ? d[E] : 0.0;
    const double pivot = __shfl_sync(0xffffffff, counts, 4 * k + k / 2);
    const double beside = __shfl_sync(0xffffffff, d[E], 4 * g + k / 2);
    double above[2];
    above[0] = __shfl_sync(0xffffffff, d[0], 4 * k + t);
    above[1] = __shfl_sync(0xffffffff, d[1], 4 * k + t);
    const double by = pivot > 0 ? reciprocal(pivot) : 0.0;
    const double f = row ? by : -by * beside;
    above[E] = column ? -1.0 : above[E];
    d[0] = row || (column && E == 0) ? 0.0 : d[0];
    d[1] = row || (column && E == 1) ? 0.0 : d[1];
    d[0] = fma(f, above[0], d[0]);
    d[1] = fma(f, above[1], d[1]);
}

/* d := -d^-1 for symmetric d, by the sweep operator for each row. least: the limit for entry (g,
 * g), in the lane that has it. It is a loop, not unrolled, since a warp waits for instructions that
 * it executes for the first time. */
static __device__ inline void invert_tile(double (&d)[2], double least, uint32_t lane)
{
#pragma unroll 1
    for (int k = 0; k < 8; k += 2) {
        sweep_row<0>(d, least, k, lane);
        sweep_row<1>(d, least, k + 1, lane);
    }
}

/* d += x y', for tiles of 8 x 8 */
static __device__ inline void add_tiles(double (&d)[2], const double (&x)[2], const double (&y)[2])
{
    multiply_add(d, x[0], y[0]);
    multiply_add(d, x[1], y[1]);
}

/* Solves S a = m, with the Gram matrix S in s: replaces the right side m, in r, by -a. In a lane
 * (g, t) = (lane / 4, lane % 4) with g = 0, r[c][e] belongs to column 2 t + e of tile c; r is 0 in
 * other lanes. turned[c]: the result for column g, in all lanes. least[c]: the limit for entry (g,
 * g) of tile (c, c). */
template <int C>
static __device__ inline void solve_tiles(double (&s)[C][C][2], double (&r)[C][2],
                                          const double (&least)[C], double (&turned)[C],
                                          uint32_t lane)
{
#pragma unroll
    for (int p = 0; p < C; p++) {
        double u[C][2], w[2] = { 0, 0 };
        invert_tile(s[p][p], least[p], lane);
#pragma unroll
        for (int b = p + 1; b < C; b++) {
            u[b][0] = u[b][1] = 0;
            add_tiles(u[b], s[b][p], s[p][p]);
        }
        add_tiles(w, r[p], s[p][p]);
#pragma unroll
        for (int b = p + 1; b < C; b++) {
#pragma unroll
            for (int c = b; c < C; c++)
                add_tiles(s[c][b], u[c], s[b][p]);
            add_tiles(r[b], w, s[b][p]);
        }
        r[p][0] = w[0];
        r[p][1] = w[1];
#pragma unroll
        for (int b = p + 1; b < C; b++) {
            s[b][p][0] = u[b][0];
            s[b][p][1] = u[b][1];
        }
    }
#pragma unroll
    for (int p = C - 1; p >= 0; p--) {
        double x[2] = { 0, 0 };
#pragma unroll
        for (int b = p + 1; b < C; b++) {
            x[0] += s[b][p][0] * turned[b];
            x[1] += s[b][p][1] * turned[b];
        }
#pragma unroll
        for (int d = 4; d < 32 && p + 1 < C; d *= 2) {
            x[0] += __shfl_xor_sync(0xffffffff, x[0], d);
            x[1] += __shfl_xor_sync(0xffffffff, x[1], d);
        }
        r[p][0] += x[0];
        r[p][1] += x[1];
        x[0] = __shfl_sync(0xffffffff, r[p][0], lane / 8);
        x[1] = __shfl_sync(0xffffffff, r[p][1], lane / 8);
        turned[p] = lane / 4 % 2 == 0 ? x[0] : x[1];
    }
}

/* Sums each x[v], v < 8, over the lanes (g, t) = (lane / 4, lane % 4) with the same t. Returns the
 * sum of x[g] in lane (g, t). */
static __device__ inline double sum_of_groups(const double (&x)[8], uint32_t lane)
{
    double four[4], two[2];
#pragma unroll
    for (int v = 0; v < 4; v++) {
        const double mine = lane & 16 ? x[4 + v] : x[v], other = lane & 16 ? x[v] : x[4 + v];
        four[v] = mine + __shfl_xor_sync(0xffffffff, other, 16);
    }
#pragma unroll
    for (int v = 0; v < 2; v++) {
        const double mine = lane & 8 ? four[2 + v] : four[v],
                     other = lane & 8 ? four[v] : four[2 + v];
        two[v] = mine + __shfl_xor_sync(0xffffffff, other, 8);
    }
    const double mine = lane & 4 ? two[1] : two[0], other = lane & 4 ? two[0] : two[1];
    return mine + __shfl_xor_sync(0xffffffff, other, 4);
}

#endif
