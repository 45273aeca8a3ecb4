/* SPDX-License-Identifier: BSD-3-Clause */
/* wide_rows.cuh - rows of more columns than a warp holds, split into pieces: the model's value at
 * the nonzeros of a block, and sums of rows with a multiplier for each nonzero.
 *
 * A piece is the part of a row that a warp holds, 16 bytes a lane. A warp computes the model's
 * values (models) of a block piece by piece in shared memory, and replaces them by the multipliers
 * of the nonzeros. Then it adds the nonzeros' terms (products of the other factors' rows) like an
 * MTTKRP, in the pieces that its thread block sums; each piece has its own first and last row. Rows
 * of more than PIECES pieces are summed by several thread blocks, each of which computes the
 * models. The order of all sums is the same in every thread block.
 *
 *   owner    shared memory is the caller's: shared_size<T, 32, 0> with PIECES models, then
 *            block_models
 *   threads  all lanes of a warp call together
 *   errors   none: blocks were checked
 */
#ifndef TS_GPU_WIDE_ROWS_CUH
#define TS_GPU_WIDE_ROWS_CUH

#include "gpu/sparse/mttkrp_sums.cuh"
#include "gpu/sparse/own_row.cuh"

enum { PIECES = 4 }; /* most pieces of a row that a thread block sums */

template <class T> static __host__ __device__ inline uint32_t pieces_of(uint32_t ld)
{
    return (ld + 32 * piece<T>::N - 1) / (32 * piece<T>::N);
}

/* Returns the number of thread blocks that sum the rows of a share. */
template <class T> static inline uint32_t summers_of(uint32_t ld)
{
    return (pieces_of<T>(ld) + PIECES - 1) / PIECES;
}

/* The model's values at the positions of a warp's block. */
template <class T> struct block_models {
    T *at;

    static __host__ __device__ uint32_t bytes() { return spread<32>::words * (uint32_t)sizeof(T); }
    __device__ block_models(char *shared, uint32_t warp) { at = (T *)(shared + warp * bytes()); }
};

/* Adds what one piece of the columns contributes to the model's values at 8 nonzeros. begin: it is
 * the first piece. Bit k of f: nonzero k begins a row. */
template <class T, bool SIGNS, bool FLAGS>
static __device__ inline void
tell_piece(const ts_gpu_mttkrp &p, const lane_columns<T, T, 32, 0> &columns, const uint32_t *index,
           uint32_t f, uint32_t lane, bool begin, own_row<T> &own, T *to)
{
    constexpr int U = 4;
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> term[U];
        T m[U];
        products<T, T, 32, 0, U, false>(p, columns.level, columns.factor, columns.byte,
                                        columns.row_bytes, index + h, (const T *)NULL, term);
        models<T, 32, U, FLAGS, SIGNS>(term, f >> h, own, m);
        if (lane == 0)
#pragma unroll
            for (int u = 0; u < U; u++)
                to[h + u] = begin ? m[u] : to[h + u] + m[u];
    }
}

/* to[position] := the model's value at each nonzero of a block. rows: n_rows x ld, the factor of
 * the shards' own mode, whose signs count with SIGNS; row: the row before the first one that begins
 * in the block. After the call all lanes may read `to`. */
template <class T, bool SIGNS>
static __device__ inline void tell_models(const ts_gpu_mttkrp &p, const void *rows,
                                          const lane_place<32> &at,
                                          const warp_memory<T, 32, 0> &mem, uint32_t row, T *to)
{
#pragma unroll 1
    for (uint32_t k = 0; k < pieces_of<T>(p.ld); k++) {
        const lane_columns<T, T, 32, 0> columns(p, other_models<false>(), at, 0, k);
        own_row<T> own((const char *)rows + columns.byte, columns.active, row, columns.row_bytes);
#pragma unroll 1
        for (uint32_t c = 0; c < 32; c++) {
            const uint32_t f = ((const unsigned char *)mem.flag_word)[c];
            if (f != 0)
                tell_piece<T, SIGNS, true>(p, columns, mem.index + 8 * c, f, at.lane, k == 0, own,
                                           to + 8 * c);
            else
                tell_piece<T, SIGNS, false>(p, columns, mem.index + 8 * c, f, at.lane, k == 0, own,
                                            to + 8 * c);
        }
    }
    __syncwarp();
}

/* The pieces (ranges of columns) of rows that a thread block sums. */
struct summed_pieces {
    uint32_t first, n;
};

template <class T> static __device__ inline summed_pieces pieces_of_block(uint32_t ld)
{
    summed_pieces s;
    s.first = blockIdx.y * PIECES;
    s.n = min((uint32_t)PIECES, pieces_of<T>(ld) - s.first);
    return s;
}

/* Adds the terms (products of the other factors' rows) of a block's nonzeros to their rows. Each is
 * multiplied by the number that has replaced the nonzero's value. */
template <class T>
static __device__ inline void sum_pieces(const ts_gpu_mttkrp &p, const lane_place<32> &at,
                                         const warp_memory<T, 32, 0> &mem,
                                         const summed_pieces &pieces, uint32_t row, warp_rows &rows)
{
    const bool any = rows.any;
#pragma unroll 1
    for (uint32_t k = 0; k < pieces.n; k++) {
        const lane_columns<T, T, 32, 0> columns(p, other_models<false>(), at, 0, pieces.first + k);
        rows.any = any;
        sum_block<T, T, 32, 0, 4>(p, at, mem.of_model(k), columns, row, rows);
    }
}

/* Stores the sums of the first and the last row of a share (one thread block's nonzeros). All
 * threads of the thread block call, once its warps are done. */
template <class T>
static __device__ inline void
end_pieces(const ts_gpu_mttkrp &p, const ts_gpu_shard &shard, uint32_t share,
           const lane_place<32> &at, const warp_memory<T, 32, 0> &mem, const summed_pieces &pieces,
           const warp_blocks &blocks, const warp_rows &rows)
{
    if (at.lane == 0) {
        mem.span[at.warp].state = blocks.first >= blocks.end ? 0 : rows.any ? 2 : 1;
        mem.span[at.warp].row_last = rows.last_row;
    }
    __syncthreads();
    for (uint32_t k = 0; k < pieces.n; k++)
        store_edges<T, T, 32>(p, p.out, p.edge, shard, share, mem.of_model(k).all_ends, mem.span,
                              pieces.first + k);
}

#endif
