/* SPDX-License-Identifier: BSD-3-Clause */
/* gram_tiles.cuh - the Gram matrix of one row in the registers of a warp, by tensor cores.
 *
 * S, the Gram matrix, has 8 C columns. Lane L is at (g, t) = (L / 4, L % 4). p is the elementwise
 * product of the other factors' rows at a nonzero. For 8 nonzeros the lane loads neighbouring
 * columns C g .. C g + C - 1 of p at nonzeros t and t + 4. These registers serve as left and right
 * operands, if column C g + c counts as column g of tile c. So the accumulator of tiles (a, b)
 * holds entries (C g + a, C (2 t + e) + b) of S. Only tiles with a >= b are computed: for each even
 * a and each b up to a, the tiles (a, b) and (a + 1, b) as a pair, and the tile (a + 1, a + 1).
 *
 *   owner    all in registers
 *   threads  all 32 lanes of a warp take part
 */
#ifndef TS_GPU_GRAM_TILES_CUH
#define TS_GPU_GRAM_TILES_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "gpu/rows/tensor_core.cuh"

/* The numbers of single tiles and of pairs of tiles of the Gram matrix S that a warp sums, and the
 * tiles (a, b) of each of them. */
template <int C> struct gram_shape {
    static constexpr int tiles = (C + 1) / 2, pairs = C == 4 ? 4 : C / 2;
    __host__ __device__ static constexpr int tile(int i) { return C == 1 ? 0 : 2 * i + 1; }
    __host__ __device__ static constexpr int upper(int i) { return C == 4 && i < 3 ? 2 : 0; }
    __host__ __device__ static constexpr int beside(int i) { return C == 4 && i < 3 ? i : 0; }
};

/* The place in the Gram matrix S, row <= column, of value k of a lane, in a pair of tiles (a, b)
 * and (a + 1, b) or in the tile (a, b). counts: false for the half of a tile (b, b) that repeats
 * the other half. */
struct gram_place {
    int row, column;
    bool counts;
};

template <int C>
static __host__ __device__ inline gram_place place_of(int a, int b, int k, uint32_t lane)
{
    const int g = (int)lane / 4, t = (int)lane % 4, tile = a + k / 2;
    const int row = C * g + tile, column = C * (2 * t + k % 2) + b;
    return { row < column ? row : column, row < column ? column : row, tile != b || row <= column };
}

/* The Gram matrix, the right side and the count of one row. COUNT: the type of `count`, an integer
 * if each cell counts once, or double for weights. */
template <int C, class COUNT = uint32_t> struct gram_sum {
    typedef gram_shape<C> shape;
    double tile[shape::tiles][2], pair[shape::pairs > 0 ? shape::pairs : 1][4];
    /* the right side: in lane 4 g + t, t < 4, sums over nonzeros t, t + 4, ...; the total is the
     * sum over t */
    double m[C];
    /* number of nonzeros, the same in all lanes; with weights, the sum of those of nonzeros t, t +
     * 4, ... (t: lane % 4) */
    COUNT count;

    __device__ inline void clear()
    {
#pragma unroll
        for (int i = 0; i < shape::tiles; i++)
            tile[i][0] = tile[i][1] = 0;
#pragma unroll
        for (int i = 0; i < shape::pairs; i++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                pair[i][k] = 0;
#pragma unroll
        for (int c = 0; c < C; c++)
            m[c] = 0;
        count = 0;
    }

    /* Adds 8 nonzeros to the sums of the row: the products p at nonzero t = lane % 4 in `near`, and
     * at t + 4 in `far`. */
    __device__ inline void add(const double (&near)[C], const double (&far)[C])
    {
#pragma unroll
        for (int i = 0; i < shape::pairs; i++) {
            const int a = shape::upper(i), b = shape::beside(i);
            const double upper[2] = { near[a], far[a] }, lower[2] = { near[a + 1], far[a + 1] };
            const double right[2] = { near[b], far[b] };
            multiply_add_pair(pair[i], upper, lower, right);
        }
#pragma unroll
        for (int i = 0; i < shape::tiles; i++) {
            const int a = shape::tile(i);
            multiply_add(tile[i], near[a], near[a]);
            multiply_add(tile[i], far[a], far[a]);
        }
    }

    /* s[a][b][e] := entry (C g + a, C (2 t + e) + b) of the Gram matrix S, for a >= b, in lane 4 g
     * + t, t < 4. */
    __device__ inline void tiles(double (&s)[C][C][2]) const
    {
#pragma unroll
        for (int k = 0; k < 2; k++) {
#pragma unroll
            for (int i = 0; i < shape::tiles; i++)
                s[shape::tile(i)][shape::tile(i)][k] = tile[i][k];
#pragma unroll
            for (int i = 0; i < shape::pairs; i++) {
                s[shape::upper(i)][shape::beside(i)][k] = pair[i][k];
                s[shape::upper(i) + 1][shape::beside(i)][k] = pair[i][2 + k];
            }
        }
    }

    /* Calls f(place, value) for each entry of the upper triangle of S that the lane holds. */
    template <class F> __device__ inline void each(uint32_t lane, const F &f) const
    {
#pragma unroll
        for (int i = 0; i < shape::tiles; i++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const gram_place at = place_of<C>(shape::tile(i), shape::tile(i), k, lane);
                if (at.counts)
                    f(at, tile[i][k]);
            }
#pragma unroll
        for (int i = 0; i < shape::pairs; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const gram_place at = place_of<C>(shape::upper(i), shape::beside(i), k, lane);
                if (at.counts)
                    f(at, pair[i][k]);
            }
    }
};

#endif
