/* SPDX-License-Identifier: BSD-3-Clause */
/* share_walk.cuh - the loop of a thread block over the nonzeros of its share: block after block,
 * and in a block 8 nonzeros of each group of lanes at a time. The caller passes the work as
 * functions, which are inlined.
 *
 *   owner    memory of a thread block, divided by warp_memory
 *   threads  all warps of a thread block call together
 *   errors   none: blocks were checked
 */
#ifndef TS_GPU_SHARE_WALK_CUH
#define TS_GPU_SHARE_WALK_CUH

#include <type_traits>

#include "gpu/sparse/mttkrp_stages.cuh"

/* A type that tells the function called for some nonzeros whether rows may begin among them. */
template <bool FLAGS> using rows_begin = std::integral_constant<bool, FLAGS>;

/* A decoded block. */
struct walked_block {
    uint32_t n; /* number of nonzeros */
    uint32_t first_row;
    decoded d;
};

template <class T, int LPR, int NL> struct share_walk {
    const ts_gpu_mttkrp &p;
    const lane_place<LPR> at;
    const uint32_t n_levels;
    const warp_memory<T, LPR, NL> mem;
    const ts_gpu_shard shard;
    const uint32_t share; /* number of this share (the thread block's nonzeros) in its shard */
    warp_blocks blocks;
    warp_rows rows;

    __device__ __forceinline__ share_walk(const ts_gpu_mttkrp &args, uint4 *shared,
                                          uint32_t n_models)
        : p(args), n_levels(NL > 0 ? NL : args.n_levels), mem(shared, n_levels, n_models, at),
          shard(shard_of_block(args)), share(blockIdx.x - shard.first_cta)
    {
        const uint32_t warp_share = p.share_blocks / WARPS;
        blocks.first = share * p.share_blocks + at.warp * warp_share;
        blocks.end = min(blocks.first + warp_share, shard.n_blocks);
    }

    /* Returns the number of this share (the thread block's nonzeros) in its mode. */
    __device__ __forceinline__ uint64_t number() const { return shard.first_share + share; }

    /* Prepares the warp for its first block, and clears its carried rows (sums of the row that the
     * block before ended in), one for each of n_models models. */
    __device__ __forceinline__ void start(uint32_t n_models)
    {
        rows = start_warp(shard, at, mem, n_models, blocks);
    }

    /* Calls visit(block) for each block of the warp, once it is decoded. */
    template <class WEIGHTS, class VISIT>
    __device__ __forceinline__ void each_block(WEIGHTS weights, VISIT &&visit)
    {
#pragma unroll 1
        for (uint32_t b = blocks.first; b < blocks.end; b++) {
            walked_block block;
            block.n = b + 1 < shard.n_blocks ? TS_BLOCK_NNZ
                                             : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
            block.d = take_block(p, shard, at, mem, blocks, b, weights);
            block.first_row = __shfl_sync(ALL_LANES, blocks.lane_row, b - blocks.first);
            visit(block);
        }
    }

    /* Stores in shared memory the flags that say which of a block's nonzeros begin a row. Returns
     * the row before the first one that begins among the nonzeros of the group (of lanes). */
    __device__ __forceinline__ uint32_t place(const walked_block &block)
    {
        return place_rows(at, mem, block.first_row, block.d, rows);
    }

    /* Calls visit(rows_begin, place, byte, f) for each 8 nonzeros of the group (of lanes). They are
     * at `place` of mem.index and mem.val, and at positions 8 byte .. 8 byte + 7 of the block. Bit
     * k of f: nonzero k begins a row. Returns whether a row begins among the group's nonzeros. */
    template <class VISIT> __device__ __forceinline__ bool each_eight(VISIT &&visit) const
    {
        const uint32_t first = at.group * (spread<LPR>::group + 4);
        bool has = false;
#pragma unroll 1
        for (uint32_t c = 0; c < LPR; c++) {
            const uint32_t byte = at.group * LPR + c;
            const uint32_t f = ((const unsigned char *)mem.flag_word)[byte];
            has |= f != 0;
            if (__any_sync(ALL_LANES, f != 0))
                visit(rows_begin<true>(), first + 8 * c, byte, f);
            else
                visit(rows_begin<false>(), first + 8 * c, byte, f);
        }
        return has;
    }

    /* Calls `sum(run)`, which adds the nonzeros of the group (of lanes) to their rows and returns
     * whether a row begins among them; then adds the partial sums of rows that several groups
     * share. row: the row before the first one that begins among these nonzeros. */
    template <class S, class SUM>
    __device__ __forceinline__ void sum_rows(const lane_columns<T, S, LPR, NL> &columns,
                                             uint32_t row, SUM &&sum)
    {
        char *const row_before =
            columns.active ? columns.out + (uint64_t)row * columns.out_row_bytes : mem.head;
        run_rows<T> run = { {},
                            mem.head,
                            columns.active ? row_before + columns.out_row_bytes : mem.head,
                            columns.active ? columns.out_row_bytes : 0 };
        const bool has = sum(run);
        join_groups(p, at, mem, columns, has, row_before, run.sum.v, rows);
    }

    /* Stores which rows the warp has summed, for the sums of the share's first and last row. After
     * the call all warps may read them. */
    __device__ __forceinline__ void end_warp() const
    {
        if (at.lane == 0) {
            mem.span[at.warp].state = blocks.first >= blocks.end ? 0 : rows.any ? 2 : 1;
            mem.span[at.warp].row_last = rows.last_row;
        }
        __syncthreads();
    }

    /* Adds and stores the sums of the warps' first and last rows. The sums of the thread block's
     * own first and last row go to p.edge. */
    template <class S = T> __device__ __forceinline__ void end_rows() const
    {
        end_warp();
        store_edges<T, S, LPR>(p, p.out, p.edge, shard, share, mem.all_ends, mem.span);
    }

    /* Adds the sums of lanes, then those of warps in their order. of_warp: memory for the sums of
     * each warp. Returns true in the thread that has the total. */
    template <class SUM> __device__ __forceinline__ bool end_sums(SUM &sum, SUM *of_warp) const
    {
        sum.add_lanes();
        if (at.lane == 0)
            of_warp[at.warp] = sum;
        __syncthreads();
        if (threadIdx.x != 0)
            return false;
        for (int k = 1; k < WARPS; k++)
            sum.add(of_warp[k]);
        return true;
    }
};

/* ------------------------------------------------------------------ launches of kernels */

/* Launches a kernel of WARPS warps with `bytes` of dynamic shared memory. Kernels also have some
 * hundred bytes of static shared memory. */
template <class WHAT>
static inline cudaError_t launch_shares(void (*kernel)(const ts_gpu_mttkrp, const WHAT), dim3 grid,
                                        uint32_t bytes, const ts_gpu_mttkrp *args, const WHAT *what,
                                        cudaStream_t stream)
{
    const cudaError_t rc =
        bytes <= 46 * 1024
            ? cudaSuccess
            : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (rc == cudaSuccess)
        kernel<<<grid, 32 * WARPS, bytes, stream>>>(*args, *what);
    return rc == cudaSuccess ? cudaGetLastError() : rc;
}

/* Calls launch(LPR) for the number of lanes, at least LEAST, that hold a row of ld elements, or
 * wide() if a warp cannot hold a row. */
template <class T, int LEAST, class LAUNCH, class WIDE>
static inline cudaError_t launch_lanes(uint32_t ld, LAUNCH &&launch, WIDE &&wide)
{
    const uint32_t pieces = ld / piece<T>::N;
    if constexpr (LEAST > 32) {
        return wide();
    } else {
        return pieces <= LEAST ? launch(std::integral_constant<int, LEAST>())
                               : launch_lanes<T, 2 * LEAST>(ld, launch, wide);
    }
}

/* Calls launch(LPR), like launch_lanes, but if a warp cannot hold a row, its columns are divided
 * among thread blocks (the second dimension of grid_of), with 32 lanes a group. */
template <class T, int LEAST, class LAUNCH>
static inline cudaError_t launch_pieces(uint32_t ld, LAUNCH &&launch)
{
    return launch_lanes<T, LEAST>(ld, launch,
                                  [&]() { return launch(std::integral_constant<int, 32>()); });
}

template <class T, int LPR> static inline dim3 grid_of(const ts_gpu_mttkrp *args)
{
    const uint32_t columns = LPR * piece<T>::N;
    return dim3(args->n_shares, (args->ld + columns - 1) / columns);
}

#endif
