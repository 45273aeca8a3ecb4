/* SPDX-License-Identifier: BSD-3-Clause */
/* The MTTKRP of packed shards: a warp decodes a block into shared memory, then groups of lanes
 * gather factor rows and add them up. */
#define _Static_assert static_assert /* layout.h is C */
#include "gpu/mttkrp_kernel.h"

#include <cuda_runtime.h>

#include "gpu/block_decode.cuh"
#include "gpu/block_fetch.cuh"

/* A thread block takes a partition; each of its warps takes this many consecutive blocks. With five
 * thread blocks on a multiprocessor a thread has 96 registers, enough for the rows of 4 nonzeros in
 * 2 modes. Six thread blocks (80 registers) and three of 8 warps were slower. */
enum { WARPS = 4, CTAS = 5, WARP_BLOCKS = TS_PARTITION_BLOCKS / WARPS };

/* 16 bytes of a row. Loads and conditional stores are written in assembly. Otherwise the compiler
 * makes each store a branch and moves each load behind the branch of the nonzero before; then one
 * load is under way at a time instead of a batch. */
template <class T> struct piece;
template <> struct piece<float> {
    static constexpr int N = 4;
    float v[4];
    __device__ static piece load(const char *p)
    {
        piece x;
        asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];"
                     : "=f"(x.v[0]), "=f"(x.v[1]), "=f"(x.v[2]), "=f"(x.v[3])
                     : "l"(p));
        return x;
    }
    __device__ void store(char *p) const
    {
        __stcs((float4 *)p,
               make_float4(v[0], v[1], v[2], v[3])); /* this launch does not read it again */
    }
    __device__ void store_if(bool yes, char *p) const
    {
        asm volatile("{\n\t.reg .pred q;\n\tsetp.ne.u32 q, %0, 0;\n\t"
                     "@q st.v4.f32 [%1], {%2,%3,%4,%5};\n\t}" ::"r"((uint32_t)yes),
                     "l"(p), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]));
    }
};
template <> struct piece<double> {
    static constexpr int N = 2;
    double v[2];
    __device__ static piece load(const char *p)
    {
        piece x;
        asm volatile("ld.global.nc.v2.f64 {%0,%1}, [%2];" : "=d"(x.v[0]), "=d"(x.v[1]) : "l"(p));
        return x;
    }
    __device__ void store(char *p) const { __stcs((double2 *)p, make_double2(v[0], v[1])); }
    __device__ void store_if(bool yes, char *p) const
    {
        asm volatile("{\n\t.reg .pred q;\n\tsetp.ne.u32 q, %0, 0;\n\t"
                     "@q st.v2.f64 [%1], {%2,%3};\n\t}" ::"r"((uint32_t)yes),
                     "l"(p), "d"(v[0]), "d"(v[1]));
    }
};

/* Loads two columns of a row of float as double, for launches where factors are S and sums are
 * T. */
template <class T, class S> static __device__ inline piece<T> load_row(const char *p)
{
    if constexpr (sizeof(T) == sizeof(S)) {
        return piece<T>::load(p);
    } else {
        float x, y;
        asm volatile("ld.global.nc.v2.f32 {%0,%1}, [%2];" : "=f"(x), "=f"(y) : "l"(p));
        return { { x, y } };
    }
}

/* Stores columns of a row in such a launch: as double, or as float when `narrow`. */
template <class T, class S>
static __device__ inline void store_row(const piece<T> &x, char *p, bool narrow)
{
    if constexpr (sizeof(T) == sizeof(S)) {
        x.store(p);
    } else {
        if (narrow)
            __stcs((float2 *)p, make_float2((float)x.v[0], (float)x.v[1]));
        else
            x.store(p);
    }
}

template <class T, class S>
static __device__ inline void store_row_if(bool yes, const piece<T> &x, char *p, bool narrow)
{
    if constexpr (sizeof(T) == sizeof(S)) {
        x.store_if(yes, p);
    } else {
        x.store_if(yes && !narrow, p);
        asm volatile("{\n\t.reg .pred q;\n\tsetp.ne.u32 q, %0, 0;\n\t"
                     "@q st.v2.f32 [%1], {%2,%3};\n\t}" ::"r"((uint32_t)(yes && narrow)),
                     "l"(p), "f"((float)x.v[0]), "f"((float)x.v[1]));
    }
}

/* Loads U entries of an array in shared memory, aligned to 4 U bytes, in as few requests as
 * possible. */
template <int U, class T> static __device__ inline void load_shared(const T *from, T (&to)[U])
{
    if constexpr (U * sizeof(T) % 16 == 0) {
#pragma unroll
        for (int i = 0; i < (int)(U * sizeof(T) / 16); i++)
            ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    } else {
#pragma unroll
        for (int i = 0; i < (int)(U * sizeof(T) / 8); i++)
            ((uint2 *)to)[i] = ((const uint2 *)from)[i];
    }
}

/* For nonzeros h .. h + U - 1 of a chunk of 8: the product of the value and the rows of all
 * factors. */
template <class T, class S, int LPR, int NL, int U>
static __device__ inline void products(const ts_gpu_mttkrp &p, const char *const *factor,
                                       uint64_t column_byte, uint32_t row_bytes,
                                       const uint32_t *index, const T *val, piece<T> (&term)[U])
{
    alignas(16) uint32_t at[U];
    alignas(16) T value[U];
    load_shared<U>(val, value);
    if constexpr (NL > 0) {
        piece<T> x[NL][U];
#pragma unroll
        for (int l = 0; l < NL; l++) {
            load_shared<U>(index + l * spread<LPR>::words, at);
#pragma unroll
            for (int u = 0; u < U; u++)
                x[l][u] = load_row<T, S>(factor[l] + (uint64_t)at[u] * row_bytes);
        }
#pragma unroll
        for (int u = 0; u < U; u++) {
            const T v = value[u];
#pragma unroll
            for (int k = 0; k < piece<T>::N; k++) {
                T t = v * x[0][u].v[k];
#pragma unroll
                for (int l = 1; l < NL; l++)
                    t *= x[l][u].v[k];
                term[u].v[k] = t;
            }
        }
    } else {
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
            for (int k = 0; k < piece<T>::N; k++)
                term[u].v[k] = value[u];
        for (uint32_t l = 0; l < p.n_levels; l++) {
            const char *f = (const char *)p.factor[l] + column_byte;
            piece<T> x[U];
            load_shared<U>(index + l * spread<LPR>::words, at);
#pragma unroll
            for (int u = 0; u < U; u++)
                x[u] = load_row<T, S>(f + (uint64_t)at[u] * row_bytes);
#pragma unroll
            for (int u = 0; u < U; u++)
#pragma unroll
                for (int k = 0; k < piece<T>::N; k++)
                    term[u].v[k] *= x[u].v[k];
        }
    }
}

/* What a group of lanes knows while it walks over rows: the sum of its current row; where that sum
 * goes when the row ends (for the group's first row to shared memory, because earlier groups may
 * have begun it); and where the next row goes. */
template <class T> struct run_rows {
    piece<T> sum;
    char *to, *next;
    uint32_t step;
};

/* Adds 8 nonzeros. Bit k of f: nonzero k begins a row. */
template <class T, class S, int LPR, int NL, int U, bool FLAGS>
static __device__ inline void
add_nonzeros(const ts_gpu_mttkrp &p, const char *const *factor, uint64_t column_byte,
             uint32_t row_bytes, const uint32_t *index, const T *val, uint32_t f, run_rows<T> &rows)
{
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> term[U];
        products<T, S, LPR, NL, U>(p, factor, column_byte, row_bytes, index + h, val + h, term);
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (FLAGS) {
                const bool begins = f >> (h + u) & 1;
                store_row_if<T, S>(begins, rows.sum, rows.to, p.out_float);
                rows.to = begins ? rows.next : rows.to;
                rows.next += begins ? rows.step : 0;
#pragma unroll
                for (int k = 0; k < piece<T>::N; k++)
                    rows.sum.v[k] = begins ? 0 : rows.sum.v[k];
            }
#pragma unroll
            for (int k = 0; k < piece<T>::N; k++)
                rows.sum.v[k] += term[u].v[k];
        }
    }
}

/* The shared memory of a thread block. For each warp: the values; the indices of each level; 16
 * bytes for each lane (first a stream_part, then the end of the row that its group began in); 8
 * words of flags; the next block. Then for each warp two rows: the first and the last of its
 * nonzeros. Unpacking may read up to 32 words past a block; these two rows are as long as that. */
template <class T, int LPR, int NL> struct shared_size {
    static constexpr uint32_t row_bytes = LPR * 16;
    static __host__ __device__ uint32_t warp_bytes(uint32_t n_levels)
    {
        return spread<LPR>::words * (4 * n_levels + (uint32_t)sizeof(T)) + 32 * 16 + 32 +
               4 * fetched<NL>::words;
    }
    static __host__ __device__ uint32_t bytes(uint32_t n_levels)
    {
        return WARPS * (warp_bytes(n_levels) + 2 * row_bytes + 16);
    }
};

/* What a warp knows of its nonzeros, for the sum over the thread block. */
struct warp_span {
    uint32_t row_first, row_last;
    uint32_t state; /* 0: empty; 1: one row, sum in the second slot; 2: two rows */
    uint32_t unused;
};

template <class T> static __device__ inline T shfl_up(T x, int d)
{
    return __shfl_up_sync(ALL_LANES, x, d);
}

/* The shard whose partition this thread block takes. */
static __device__ inline ts_gpu_shard shard_of_block(const ts_gpu_mttkrp &p)
{
    ts_gpu_shard shard = p.one;
    if (p.n_many > 0) {
        uint32_t lo = 0, hi = p.n_many; /* find the last one with first_cta <= blockIdx.x */
        while (hi - lo > 1) {
            const uint32_t mid = (lo + hi) / 2;
            if (__ldg(&p.many[mid].first_cta) <= blockIdx.x)
                lo = mid;
            else
                hi = mid;
        }
        shard = p.many[lo];
    }
    return shard;
}

/* Adds partial rows of the groups of a warp. acc is the partial sum of the row that a group ends
 * in: it becomes an inclusive scan over the groups, which restarts at groups where a row begins
 * (heads). Then the scanned sum of the group before is added to head, the row that a group begins
 * in. */
template <class T, int LPR>
static __device__ inline void add_open_rows(uint32_t heads, uint32_t group, uint32_t lane,
                                            T (&acc)[piece<T>::N], T (&head)[piece<T>::N])
{
    constexpr int N = piece<T>::N;
    const uint32_t up_to = heads & (ALL_LANES >> (31 - lane));
    const int distance = up_to == 0 ? 32 : (int)group - (31 - __clz(up_to)) / LPR;
#pragma unroll
    for (int d = 1; d < 32 / LPR; d <<= 1) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const T y = shfl_up(acc[k], d * LPR);
            if (distance >= d && (int)group >= d)
                acc[k] = y + acc[k];
        }
    }
    if (32 > LPR) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const T y = shfl_up(acc[k], LPR % 32);
            if (group > 0)
                head[k] = y + head[k];
        }
    }
}

/* Adds the warps' first and last rows in the order of the nonzeros, one thread per column. The
 * partition's own first and last row go to `edge`, other rows to `out`. */
template <class T, class S, int LPR>
static __device__ inline void store_edges(const ts_gpu_mttkrp &p, const ts_gpu_shard &shard,
                                          uint32_t partition, const T *ends, const warp_span *span)
{
    constexpr int N = piece<T>::N;
    static_assert(LPR * N <= 32 * WARPS, "a thread a column");
    const uint32_t at = threadIdx.x, full_column = blockIdx.y * LPR * N + at;
    if (at >= LPR * N || full_column >= p.ld)
        return;
    T *const edge = (T *)p.edge + 2 * (shard.first_partition + partition) * p.ld + full_column;
    const bool narrow = sizeof(T) > sizeof(S) && p.out_float;
    T sum = 0;
    uint32_t current = span[0].row_first;
    bool first = true;
#pragma unroll 1
    for (int w = 0; w < WARPS && span[w].state != 0; w++) {
        const T *e = ends + w * 2 * LPR * N + at;
        for (int half = 0; half < 2; half++) {
            const uint32_t r = half == 0 ? span[w].row_first : span[w].row_last;
            if (half == 0 && span[w].state == 1)
                continue;
            if (r != current) {
                const uint64_t to = (uint64_t)current * p.ld + full_column;
                if (first)
                    edge[0] = sum;
                else if (narrow)
                    ((float *)p.out)[to] = (float)sum;
                else
                    ((T *)p.out)[to] = sum;
                first = false;
                sum = 0;
                current = r;
            }
            sum += e[half * LPR * N];
        }
    }
    edge[first ? 0 : p.ld] = sum;
    if (first)
        edge[p.ld] = 0;
    if (full_column == 0) {
        uint32_t *edge_row = p.edge_row + 2 * (shard.first_partition + partition);
        edge_row[0] = span[0].row_first;
        edge_row[1] = current;
    }
}

/* out(i, r) = sum over the nonzeros of row i of  value * prod_l factor[l](i_l, r)
 *
 *   launch  grid (partitions of the launch, ceil(ld / (LPR * 16 bytes))), 4 warps a thread block:
 *           a warp takes 16 blocks of the partition, one after another
 *   out     only rows that begin and end inside the partition are stored: no other thread block has
 *           a nonzero of such a row, and one group of lanes stores it
 *   edge    (2 x partitions of the mode copy, ld) sums of the partition's first and last row
 *
 * For each block a warp (1) decodes the block staged in shared memory, 8 positions per lane, (2)
 * starts the copy of the next block into the same buffer, (3) gathers factor rows. Groups of LPR
 * lanes walk over 8 LPR nonzeros each. A lane holds 16 bytes of the row, so that neighbouring lanes
 * read a row in one request. The partial sums of rows that groups share are added by a scan over
 * the groups, in the order of the nonzeros. A block too large for the buffer is read from device
 * memory.
 *
 * T is the type of products and sums, S that of the stored factors. With S float and T double,
 * `edge` has sums in double, and so has `out` unless p.out_float. */
template <class T, class S, int LPR, int NL, int U>
__global__ void __launch_bounds__(32 * WARPS, CTAS)
    mttkrp_packed(const __grid_constant__ ts_gpu_mttkrp p)
{
    extern __shared__ uint4 shared[];
    typedef shared_size<T, LPR, NL> size;
    constexpr int N = piece<T>::N;
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t group = lane / LPR, member = lane % LPR, n_levels = NL > 0 ? NL : p.n_levels;
    char *const mine = (char *)shared + warp * size::warp_bytes(n_levels);
    T *const val = (T *)mine;
    uint32_t *const index = (uint32_t *)(val + spread<LPR>::words);
    stream_part *const part = (stream_part *)(index + n_levels * spread<LPR>::words);
    char *const my_head = (char *)(part + lane); /* `part` is not in use then */
    uint32_t *const flag_word = (uint32_t *)(part + 32), *const ahead = flag_word + 8;
    T *const ends = (T *)((char *)shared + WARPS * size::warp_bytes(n_levels));
    T *const my_ends = ends + warp * 2 * LPR * N;
    warp_span *const span = (warp_span *)((char *)ends + WARPS * 2 * size::row_bytes);
    const bool narrow = sizeof(T) > sizeof(S) && p.out_float;
    const uint32_t row_bytes = p.ld * (uint32_t)sizeof(S), out_element = narrow ? 4 : sizeof(T);
    const uint32_t out_row_bytes = p.ld * out_element;
    const uint32_t column = (blockIdx.y * LPR + member) * N;
    const bool active = column < p.ld;
    const uint64_t column_byte = active ? column * sizeof(S) : 0;

    const ts_gpu_shard shard = shard_of_block(p);
    const uint32_t partition = blockIdx.x - shard.first_cta;
    const uint32_t first_block = partition * TS_PARTITION_BLOCKS + warp * WARP_BLOCKS;
    const uint32_t end_block = min(first_block + WARP_BLOCKS, shard.n_blocks);
    const uint32_t *const block_word = shard.raw, *const block_row = shard.raw + shard.n_blocks + 1;
    char *const out = (char *)p.out + (active ? column * out_element : 0);

    const char *factor[NL > 0 ? NL : 1];
#pragma unroll
    for (int l = 0; l < NL; l++) {
        factor[l] = (const char *)p.factor[l] + column_byte;
        asm volatile("" : "+l"(factor[l])); /* or each load computes it anew */
    }

    T *const carry = my_ends + (LPR + member) * N;
    bool any = false;                                   /* a row has ended in this warp */
    uint32_t last_row = 0, lane_word = 0, lane_row = 0; /* where block first_block + lane is */
    if (group == 0) {
#pragma unroll
        for (int k = 0; k < N; k++)
            carry[k] = 0;
    }
    if (first_block < end_block) {
        lane_word = __ldg(block_word + min(first_block + lane, end_block));
        lane_row = shard.row_first + __ldg(block_row + min(first_block + lane, end_block - 1));
        last_row = __shfl_sync(ALL_LANES, lane_row, 0);
        if (lane == 0)
            span[warp].row_first = last_row;
        const uint32_t word = __shfl_sync(ALL_LANES, lane_word, 0);
        const uint32_t end = __shfl_sync(ALL_LANES, lane_word, 1);
        fetch<NL>(block_range(shard.raw, word, end), lane, ahead);
    }
#pragma unroll 1
    for (uint32_t b = first_block; b < end_block; b++) {
        const uint32_t n =
            b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
        const uint32_t i = b - first_block, first_row = __shfl_sync(ALL_LANES, lane_row, i);
        const uint32_t word = __shfl_sync(ALL_LANES, lane_word, i);
        const uint32_t end = __shfl_sync(ALL_LANES, lane_word, i + 1);
        const block_range range(shard.raw, word, end);
        decoded d;
        if (fetched<NL>::words > 0)
            wait_for_fetched();
        __syncwarp();
        if (fetched<NL>::words > 0 && range.bytes <= 4 * fetched<NL>::words)
            d = decode_block<T, LPR, NL>(p, ahead + range.skip, n, lane, part, flag_word, index,
                                         val);
        else
            d = decode_block<T, LPR, NL>(p, shard.raw + word, n, lane, part, flag_word, index, val);
        __syncwarp();
        if (b + 1 < end_block) {
            const uint32_t next_end = __shfl_sync(ALL_LANES, lane_word, i + 2);
            fetch<NL>(block_range(shard.raw, end, next_end), lane, ahead);
        }
        /* A block does not store the flag of its first nonzero: it begins a row if its row is not
         * the last row of the block before. */
        const uint32_t new_row = lane == 0 && first_row != last_row;
        uint32_t row = first_row + d.rows_before - new_row;
        last_row = first_row + d.n_rows;
        ((unsigned char *)flag_word)[lane] = (unsigned char)(d.row_flags | new_row);
        __syncwarp();

        row = __shfl_sync(ALL_LANES, row, group * LPR);
        char *const row_before = active ? out + (uint64_t)row * out_row_bytes : my_head;
        run_rows<T> rows = {
            {}, my_head, active ? row_before + out_row_bytes : my_head, active ? out_row_bytes : 0
        };
        bool has = false;
        const uint32_t *group_index = index + group * (spread<LPR>::group + 4);
        const T *group_val = val + group * (spread<LPR>::group + 4);
#pragma unroll 1
        for (uint32_t c = 0; c < LPR; c++) {
            const uint32_t f = ((const unsigned char *)flag_word)[group * LPR + c];
            has |= f != 0;
            if (__any_sync(ALL_LANES, f != 0))
                add_nonzeros<T, S, LPR, NL, U, true>(p, factor, column_byte, row_bytes,
                                                     group_index + 8 * c, group_val + 8 * c, f,
                                                     rows);
            else
                add_nonzeros<T, S, LPR, NL, U, false>(p, factor, column_byte, row_bytes,
                                                      group_index + 8 * c, group_val + 8 * c, f,
                                                      rows);
        }
        asm volatile("" ::: "memory"); /* the compiler does not know that my_head was written */
        T(&acc)[N] = rows.sum.v;
        T head[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            head[k] = narrow ? (T)((float *)my_head)[k] : ((T *)my_head)[k];

        /* Rows that several groups share: an inclusive scan of the groups' partial sums. */
        const uint32_t heads = __ballot_sync(ALL_LANES, has);
        if (group == 0) {
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (has)
                    head[k] += carry[k];
                else
                    acc[k] += carry[k];
            }
        }
        add_open_rows<T, LPR>(heads, group, lane, acc, head);
        if (has) {
            const bool first_of_warp = !any && (heads & below(group * LPR)) == 0;
            piece<T> done;
#pragma unroll
            for (int k = 0; k < N; k++)
                done.v[k] = head[k];
            if (first_of_warp) {
#pragma unroll
                for (int k = 0; k < N; k++)
                    my_ends[member * N + k] = head[k];
            } else if (active) {
                store_row<T, S>(done, row_before, p.out_float);
            }
        }
        any |= heads != 0;
        __syncwarp();
        if (group == 32 / LPR - 1) {
#pragma unroll
            for (int k = 0; k < N; k++)
                carry[k] = acc[k];
        }
    }

    if (lane == 0) {
        span[warp].state = first_block >= end_block ? 0 : any ? 2 : 1;
        span[warp].row_last = last_row;
    }
    __syncthreads();

    store_edges<T, S, LPR>(p, shard, partition, ends, span);
}

/* ------------------------------------------------------------------ launching */

template <class T, class S, int LPR, int NL, int U>
static cudaError_t launch(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LPR, NL>::bytes(args->n_levels);
    const uint32_t columns = LPR * piece<T>::N;
    auto kernel = mttkrp_packed<T, S, LPR, NL, U>;
    const dim3 grid(args->n_partitions, (args->ld + columns - 1) / columns);
    if (bytes > 48 * 1024) {
        const cudaError_t rc =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (rc != cudaSuccess)
            return rc;
    }
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(*args);
    return cudaGetLastError();
}

template <class T, class S, int NL, int U>
static cudaError_t launch_rank(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (pieces <= 2)
        return launch<T, S, 2, NL, U>(args, stream);
    if (pieces <= 4)
        return launch<T, S, 4, NL, U>(args, stream);
    if (pieces <= 8)
        return launch<T, S, 8, NL, U>(args, stream);
    if (pieces <= 16)
        return launch<T, S, 16, NL, U>(args, stream);
    return launch<T, S, 32, NL, U>(args, stream);
}

cudaError_t ts_mttkrp_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                             cudaStream_t stream)
{
    const cudaStream_t s = stream;
    if (args->n_partitions == 0)
        return cudaSuccess;
    if (precision == TS_FLOAT64)
        return args->n_levels == 2 ? launch_rank<double, double, 2, 4>(args, s)
                                   : launch_rank<double, double, 0, 4>(args, s);
    switch (args->n_levels) {
    case 2:
        return launch_rank<float, float, 2, 4>(args, s);
    case 3:
        return launch_rank<float, float, 3, 2>(args, s);
    case 4:
        return launch_rank<float, float, 4, 2>(args, s);
    default:
        return launch_rank<float, float, 0, 4>(args, s);
    }
}

cudaError_t ts_mttkrp_launch_wide(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    const cudaStream_t s = stream;
    if (args->n_partitions == 0)
        return cudaSuccess;
    return args->n_levels == 2 ? launch_rank<double, float, 2, 4>(args, s)
                               : launch_rank<double, float, 0, 4>(args, s);
}

int ts_mttkrp_least_arch(void)
{
#ifdef __CUDA_ARCH_LIST__
    static const int arch[] = { __CUDA_ARCH_LIST__ }; /* what nvcc compiled for, ascending */
    return arch[0];
#else
    return 800;
#endif
}
