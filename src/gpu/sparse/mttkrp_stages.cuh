/* SPDX-License-Identifier: BSD-3-Clause */
/* mttkrp_stages.cuh - building blocks of kernels over the nonzeros of packed shards: a warp decodes
 * a block into shared memory, groups of lanes gather factor rows, and partial rows are added in the
 * order of the nonzeros. Numbers such as (1) are the steps in mttkrp_kernel.cu.
 *
 *   owner    memory of a thread block, divided by warp_memory
 *   threads  all lanes of a warp call together; functions with a parameter `share` are called by
 *            all warps of the thread block
 *   errors   none: blocks were checked
 */
#ifndef TS_GPU_MTTKRP_STAGES_CUH
#define TS_GPU_MTTKRP_STAGES_CUH

#include "gpu/sparse/block_decode.cuh"
#include "gpu/sparse/block_fetch.cuh"

/* WARPS: warps of a thread block, which take equal, contiguous parts of its share. CTAS: thread
 * blocks on a multiprocessor. With five, a thread has 96 registers, enough for the rows of 4
 * nonzeros in 2 modes. Six thread blocks (80 registers) and three of 8 warps were slower. */
enum { WARPS = 4, CTAS = 5 };
static_assert(TS_MTTKRP_LEAST_BLOCKS % WARPS == 0 && TS_PARTITION_BLOCKS / WARPS < 32,
              "a lane a block");

/* 16 bytes of a row of a factor or of sums. Loads and conditional stores are written in assembly.
 * Otherwise the compiler makes each store a branch and moves each load behind the branch of the
 * nonzero before. Then only one load at a time is in flight instead of a batch. */
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
    __device__ void load_if(bool yes, const char *p)
    {
        asm volatile("{\n\t.reg .pred q;\n\tsetp.ne.u32 q, %4, 0;\n\t"
                     "@q ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%5];\n\t}"
                     : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3])
                     : "r"((uint32_t)yes), "l"(p));
    }
    __device__ void store(char *p) const
    {
        __stcs((float4 *)p,
               /* a streaming store, since this launch does not read it again */
               make_float4(v[0], v[1], v[2], v[3]));
    }
    __device__ void store_if(bool yes, char *p) const
    {
        asm volatile("{\n\t.reg .pred q;\n\tsetp.ne.u32 q, %0, 0;\n\t"
                     "@q st.v4.f32 [%1], {%2,%3,%4,%5};\n\t}" ::"r"((uint32_t)yes),
                     "l"(p), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
                     : "memory");
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
    __device__ void load_if(bool yes, const char *p)
    {
        asm volatile("{\n\t.reg .pred q;\n\tsetp.ne.u32 q, %2, 0;\n\t"
                     "@q ld.global.nc.v2.f64 {%0,%1}, [%3];\n\t}"
                     : "+d"(v[0]), "+d"(v[1])
                     : "r"((uint32_t)yes), "l"(p));
    }
    __device__ void store(char *p) const { __stcs((double2 *)p, make_double2(v[0], v[1])); }
    __device__ void store_if(bool yes, char *p) const
    {
        asm volatile("{\n\t.reg .pred q;\n\tsetp.ne.u32 q, %0, 0;\n\t"
                     "@q st.v2.f64 [%1], {%2,%3};\n\t}" ::"r"((uint32_t)yes),
                     "l"(p), "d"(v[0]), "d"(v[1])
                     : "memory");
    }
};

/* Loads 16 bytes of a row. If factors are S = float and sums T = double, loads two columns and
 * converts them. */
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

/* Stores the columns x of a row: as T, or as float if `narrow` in a launch with T = double. */
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
                     "l"(p), "f"((float)x.v[0]), "f"((float)x.v[1])
                     : "memory");
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

/* Computes, for nonzeros h .. h + U - 1 of a group of 8, the product of the rows of all factors
 * and, unless VALUES is false, the value. */
template <class T, class S, int LPR, int NL, int U, bool VALUES = true>
static __device__ inline void products(const ts_gpu_mttkrp &p, const void *const *level,
                                       const char *const *factor, uint64_t column_byte,
                                       uint32_t row_bytes, const uint32_t *index, const T *val,
                                       piece<T> (&term)[U])
{
    alignas(16) uint32_t at[U];
    alignas(16) T value[U];
    if constexpr (VALUES)
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
#pragma unroll
            for (int k = 0; k < piece<T>::N; k++) {
                T t = VALUES ? value[u] * x[0][u].v[k] : x[0][u].v[k];
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
                term[u].v[k] = VALUES ? value[u] : 1;
        for (uint32_t l = 0; l < p.n_levels; l++) {
            const char *f = (const char *)level[l] + column_byte;
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

/* The state of a group of lanes in its loop over rows: the sum of its current row, the address to
 * store the sum at when the row ends (for the group's first row in shared memory, as earlier groups
 * may have begun it), and the address of the next row. */
template <class T> struct run_rows {
    piece<T> sum;
    char *to, *next;
    uint32_t step;
};

/* The shared memory of a thread block. Each warp has the values of a block; its indices of each
 * level; 16 bytes for each lane (first a stream_part, then the end of the row that its group began
 * in); 8 words of flags; and the next block. Then each model and warp has two rows, for the first
 * and last row of its nonzeros. These rows are at least 32 words long, because unpacking may read
 * that many words past a block. */
template <class T, int LPR, int NL> struct shared_size {
    static constexpr uint32_t row_bytes = LPR * 16;
    static __host__ __device__ uint32_t warp_bytes(uint32_t n_levels)
    {
        return spread<LPR>::words * (4 * n_levels + (uint32_t)sizeof(T)) + 32 * 16 + 32 +
               4 * fetched<NL>::words;
    }
    static __host__ __device__ uint32_t bytes(uint32_t n_levels, uint32_t n_models,
                                              uint32_t warps = WARPS)
    {
        return warps * (warp_bytes(n_levels) + n_models * 2 * row_bytes + 16);
    }
};

/* The other models of a launch that has several (MANY). */
template <bool MANY> struct other_models {
};
template <> struct other_models<true> {
    ts_gpu_beside at[TS_MTTKRP_MODELS - 1];
};

/* The first and last row of a warp's nonzeros, whose sums are added up over the thread block. */
struct warp_span {
    uint32_t row_first, row_last;
    /* 0: no rows; 1: one row, whose sum is in the second slot; 2: at least two rows */
    uint32_t state;
    uint32_t unused;
};

template <class T> static __device__ inline T shfl_up(T x, int d)
{
    return __shfl_up_sync(ALL_LANES, x, d);
}

/* Returns the shard that contains share `share` (one thread block's nonzeros) of the launch. */
static __device__ inline ts_gpu_shard shard_of_share(const ts_gpu_mttkrp &p, uint32_t share)
{
    ts_gpu_shard shard = p.one;
    if (p.n_many > 0) {
        uint32_t lo = 0, hi = p.n_many; /* finds the last shard with first_cta <= share */
        while (hi - lo > 1) {
            const uint32_t mid = (lo + hi) / 2;
            if (__ldg(&p.many[mid].first_cta) <= share)
                lo = mid;
            else
                hi = mid;
        }
        shard = p.many[lo];
    }
    return shard;
}

/* Returns the shard of this thread block's share. */
static __device__ inline ts_gpu_shard shard_of_block(const ts_gpu_mttkrp &p)
{
    return shard_of_share(p, blockIdx.x);
}

/* Adds the partial rows of the groups of a warp. acc, the partial sum of the row that a group ends
 * in, becomes an inclusive scan over the groups, which restarts at groups in which a row begins
 * (heads). Then the scanned sum of the group before is added to head, the sum of the row that
 * continues from that group. */
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

/* Adds the warps' first and last rows in the order of the nonzeros. One thread adds one column of
 * piece `number` (a range of columns) of the rows. The sums of the first and the last row of the
 * thread block go to `edge`, other rows to `out`. */
template <class T, class S, int LPR>
static __device__ inline void store_edges(const ts_gpu_mttkrp &p, void *out, void *edges,
                                          const ts_gpu_shard &shard, uint32_t share, const T *ends,
                                          const warp_span *span, uint32_t number = blockIdx.y)
{
    constexpr int N = piece<T>::N;
    static_assert(LPR * N <= 32 * WARPS, "a thread a column");
    const uint32_t at = threadIdx.x, full_column = number * LPR * N + at;
    if (at >= LPR * N || full_column >= p.ld)
        return;
    T *const edge = (T *)edges + 2 * (shard.first_share + share) * p.ld + full_column;
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
                    ((float *)out)[to] = (float)sum;
                else
                    ((T *)out)[to] = sum;
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
        uint32_t *edge_row = p.edge_row + 2 * (shard.first_share + share);
        edge_row[0] = span[0].row_first;
        edge_row[1] = current;
    }
}

/* ------------------------------------------------------------------ the stages of a warp */

/* The position of a lane: its warp, its group, and its number in the group. Groups of LPR lanes
 * take 8 LPR nonzeros each, and a lane holds 16 bytes of a row. */
template <int LPR> struct lane_place {
    uint32_t lane, warp, group, member;
    __device__ lane_place()
    {
        lane = threadIdx.x & 31;
        warp = threadIdx.x >> 5;
        group = lane / LPR;
        member = lane % LPR;
    }
};

/* A warp's part of the shared memory (shared_size). */
template <class T, int LPR, int NL> struct warp_memory {
    T *val;
    uint32_t *index;
    stream_part *part;
    /* the lane's 16 bytes of the row that its group began in; it uses the memory of `part` */
    char *head;
    uint32_t *flag_word, *ahead;
    /* sums of the first and last rows of the nonzeros of all warps, and of this warp */
    T *all_ends, *ends;
    /* the lane's 16 bytes of the sum of the row that the block before ended in */
    T *carry;
    warp_span *span; /* for each warp: its first and last row */
    __device__ warp_memory(uint4 *shared, uint32_t n_levels, uint32_t n_models,
                           const lane_place<LPR> &at, uint32_t warps = WARPS)
    {
        typedef shared_size<T, LPR, NL> size;
        constexpr int N = piece<T>::N;
        val = (T *)((char *)shared + at.warp * size::warp_bytes(n_levels));
        index = (uint32_t *)(val + spread<LPR>::words);
        part = (stream_part *)(index + n_levels * spread<LPR>::words);
        head = (char *)(part + at.lane);
        flag_word = (uint32_t *)(part + 32);
        ahead = flag_word + 8;
        all_ends = (T *)((char *)shared + warps * size::warp_bytes(n_levels));
        ends = all_ends + at.warp * 2 * LPR * N;
        carry = ends + (LPR + at.member) * N;
        span = (warp_span *)((char *)all_ends + n_models * warps * 2 * size::row_bytes);
    }
    /* Returns the same memory with the pointers to first, last and carried rows moved to those of
     * model k. */
    __device__ warp_memory of_model(uint32_t k) const
    {
        constexpr int N = piece<T>::N;
        warp_memory ret = *this;
        ret.all_ends += k * WARPS * 2 * LPR * N;
        ret.ends += k * WARPS * 2 * LPR * N;
        ret.carry += k * WARPS * 2 * LPR * N;
        return ret;
    }
};

/* The columns that a lane computes, in piece `number` (a range of columns) of the rows. A lane past
 * the last column loads those of the first lane and stores nothing. */
template <class T, class S, int LPR, int NL> struct lane_columns {
    /* narrow: `out` is float and sums are double; active: the lane has columns */
    bool narrow, active;
    uint32_t row_bytes, out_row_bytes;
    uint64_t byte; /* offset of the lane's columns in a row of a factor */
    char *out;
    const void *const *level; /* if NL is 0: the addresses of the factors */
    const char *factor[NL > 0 ? NL : 1];
    template <bool MANY>
    __device__ lane_columns(const ts_gpu_mttkrp &p, const other_models<MANY> &others,
                            const lane_place<LPR> &at, uint32_t k, uint32_t number = blockIdx.y)
    {
        const void *const *from = p.factor;
        char *to = (char *)p.out;
        if constexpr (MANY) {
            from = k == 0 ? p.factor : others.at[k - 1].factor;
            to = (char *)(k == 0 ? p.out : others.at[k - 1].out);
        }
        level = NL > 0 ? nullptr : from;
        const uint32_t column = (number * LPR + at.member) * piece<T>::N;
        narrow = sizeof(T) > sizeof(S) && p.out_float;
        const uint32_t out_element = narrow ? 4 : sizeof(T);
        active = column < p.ld;
        row_bytes = p.ld * (uint32_t)sizeof(S);
        out_row_bytes = p.ld * out_element;
        byte = active ? column * sizeof(S) : 0;
        out = to + (active ? column * out_element : 0);
#pragma unroll
        for (int l = 0; l < NL; l++) {
            factor[l] = (const char *)from[l] + byte;
            /* keeps the address in a register: the compiler would compute it again for each load */
            asm volatile("" : "+l"(factor[l]));
        }
    }
};

/* The blocks first .. end - 1 of a warp. Each lane knows where one of these blocks begins. */
struct warp_blocks {
    uint32_t first, end;
    uint32_t lane_word, lane_row; /* first word and first row of block first + lane */
};

/* The state of a warp between two blocks. */
struct warp_rows {
    uint32_t last_row; /* the last row of the block before */
    bool any;          /* a row has ended in this warp */
};

/* Prepares a warp for its first block: clears the carried row (the sum of the row that the block
 * before ended in), and starts the copy of the first block. */
template <class T, int LPR, int NL>
static __device__ inline warp_rows start_warp(const ts_gpu_shard &shard, const lane_place<LPR> &at,
                                              const warp_memory<T, LPR, NL> &mem, uint32_t n_models,
                                              warp_blocks &blocks)
{
    const uint32_t *const block_word = shard.raw, *const block_row = shard.raw + shard.n_blocks + 1;
    warp_rows rows = { 0, false };
    blocks.lane_word = blocks.lane_row = 0;
    for (uint32_t model = 0; model < n_models && at.group == 0; model++) {
        T *const carry = mem.of_model(model).carry;
#pragma unroll
        for (int k = 0; k < piece<T>::N; k++)
            carry[k] = 0;
    }
    if (blocks.first >= blocks.end)
        return rows;
    blocks.lane_word = __ldg(block_word + min(blocks.first + at.lane, blocks.end));
    blocks.lane_row =
        shard.row_first + __ldg(block_row + min(blocks.first + at.lane, blocks.end - 1));
    rows.last_row = __shfl_sync(ALL_LANES, blocks.lane_row, 0);
    if (at.lane == 0)
        mem.span[at.warp].row_first = rows.last_row;
    const uint32_t word = __shfl_sync(ALL_LANES, blocks.lane_word, 0);
    const uint32_t end = __shfl_sync(ALL_LANES, blocks.lane_word, 1);
    fetch<NL>(block_range(shard.raw, word, end), at.lane, mem.ahead);
    return rows;
}

/* Steps (1) and (2) of mttkrp_kernel.cu: decodes block b, from shared memory if it fits there, and
 * starts the copy of the next block. UNROLLED: the number of levels for which decoding is unrolled,
 * by default NL. 0 is a loop over any number of levels, which is less code. */
template <int UNROLLED = -1, class T, int LPR, int NL, class WEIGHTS = no_weights>
static __device__ inline decoded
take_block(const ts_gpu_mttkrp &p, const ts_gpu_shard &shard, const lane_place<LPR> &at,
           const warp_memory<T, LPR, NL> &mem, const warp_blocks &blocks, uint32_t b,
           WEIGHTS weights = {})
{
    constexpr int LEVELS = UNROLLED < 0 ? NL : UNROLLED;
    const uint32_t n =
        b + 1 < shard.n_blocks ? TS_BLOCK_NNZ : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
    const uint32_t i = b - blocks.first;
    const uint32_t word = __shfl_sync(ALL_LANES, blocks.lane_word, i);
    const uint32_t end = __shfl_sync(ALL_LANES, blocks.lane_word, i + 1);
    const block_range range(shard.raw, word, end);
    decoded d;
    if (fetched<NL>::words > 0)
        wait_for_fetched();
    __syncwarp();
    if (fetched<NL>::words > 0 && range.bytes <= 4 * fetched<NL>::words)
        d = decode_block<T, LPR, LEVELS>(p, mem.ahead + range.skip, n, at.lane, mem.part,
                                         mem.flag_word, mem.index, mem.val, weights);
    else
        d = decode_block<T, LPR, LEVELS>(p, shard.raw + word, n, at.lane, mem.part, mem.flag_word,
                                         mem.index, mem.val, weights);
    __syncwarp();
    if (b + 1 < blocks.end) {
        const uint32_t next_end = __shfl_sync(ALL_LANES, blocks.lane_word, i + 2);
        fetch<NL>(block_range(shard.raw, end, next_end), at.lane, mem.ahead);
    }
    return d;
}

/* Stores in shared memory the flags that say which of the block's nonzeros begin a row. Returns the
 * row before the first one that begins among the nonzeros of the group (of lanes). The flag of a
 * block's first nonzero is not stored: it is set if the nonzero's row differs from the last row of
 * the block before. */
template <class T, int LPR, int NL>
static __device__ inline uint32_t place_rows(const lane_place<LPR> &at,
                                             const warp_memory<T, LPR, NL> &mem, uint32_t first_row,
                                             const decoded &d, warp_rows &rows)
{
    const uint32_t new_row = at.lane == 0 && first_row != rows.last_row;
    const uint32_t row = first_row + d.rows_before - new_row;
    rows.last_row = first_row + d.n_rows;
    ((unsigned char *)mem.flag_word)[at.lane] = (unsigned char)(d.row_flags | new_row);
    __syncwarp();
    return __shfl_sync(ALL_LANES, row, at.group * LPR);
}

/* Step (4) of mttkrp_kernel.cu: adds the partial sums of rows that several groups share, by an
 * inclusive scan. The sum of the warp's first row goes to mem.ends, that of the block's last row to
 * mem.carry, and other sums to `row_before`. */
template <class T, class S, int LPR, int NL>
static __device__ inline void join_groups(const ts_gpu_mttkrp &p, const lane_place<LPR> &at,
                                          const warp_memory<T, LPR, NL> &mem,
                                          const lane_columns<T, S, LPR, NL> &columns, bool has,
                                          char *row_before, T (&acc)[piece<T>::N], warp_rows &rows)
{
    constexpr int N = piece<T>::N;
    T head[N];
#pragma unroll
    for (int k = 0; k < N; k++)
        head[k] = columns.narrow ? (T)((float *)mem.head)[k] : ((T *)mem.head)[k];

    const uint32_t heads = __ballot_sync(ALL_LANES, has);
    if (at.group == 0) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (has)
                head[k] += mem.carry[k];
            else
                acc[k] += mem.carry[k];
        }
    }
    add_open_rows<T, LPR>(heads, at.group, at.lane, acc, head);
    if (has) {
        const bool first_of_warp = !rows.any && (heads & below(at.group * LPR)) == 0;
        piece<T> done;
#pragma unroll
        for (int k = 0; k < N; k++)
            done.v[k] = head[k];
        if (first_of_warp) {
#pragma unroll
            for (int k = 0; k < N; k++)
                mem.ends[at.member * N + k] = head[k];
        } else if (columns.active) {
            store_row<T, S>(done, row_before, p.out_float);
        }
    }
    rows.any |= heads != 0;
    __syncwarp();
    if (at.group == 32 / LPR - 1) {
#pragma unroll
        for (int k = 0; k < N; k++)
            mem.carry[k] = acc[k];
    }
}

#endif
