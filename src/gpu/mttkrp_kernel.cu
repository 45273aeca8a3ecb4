#define _Static_assert static_assert /* layout.h is C */
#include "gpu/mttkrp_kernel.h"

#include <cuda_runtime.h>

#include "format/block_codec.h"

/* A warp takes this many consecutive blocks; a thread block takes a partition. */
enum { WARPS = 8, WARP_BLOCKS = TS_PARTITION_BLOCKS / WARPS };
#define ALL_LANES 0xffffffffu

/* ------------------------------------------------------------------ decoding */

/* Position p of a block in an array of shared memory. The threads of a warp form groups of `LPR`
 * lanes that read at a distance of 8 LPR positions: four words between them keep groups apart in the
 * banks. */
template <int LPR> struct spread {
    static constexpr uint32_t group = 8 * LPR, n_groups = 32 / LPR, words = 256 + 4 * n_groups;
    static __device__ uint32_t at(uint32_t p) { return p + p / group * 4; }
};

/* Entry e of a stream that waits in shared memory to be picked up by position: lanes read about 8
 * entries apart, which this spreads over the banks. */
static __device__ inline uint32_t staged(uint32_t e)
{
    return e ^ (e >> 5 & 7);
}

static __device__ inline uint32_t below(uint32_t width)
{
    return (uint32_t)((UINT64_C(1) << width) - 1);
}

/* `width` bits from bit `at`. Reads the word behind too: TS_SHARD_SLACK allows it. */
static __device__ inline uint32_t bits(const uint32_t *word, uint32_t at, uint32_t mask)
{
    const uint32_t *w = word + (at >> 5);
    return __funnelshift_r(__ldg(w), __ldg(w + 1), at) & mask;
}

/* Sum of x over the lanes before this one. */
static __device__ inline uint32_t scan_before(uint32_t x, uint32_t lane)
{
    uint32_t sum = x;
#pragma unroll
    for (uint32_t d = 1; d < 32; d <<= 1) {
        const uint32_t y = __shfl_up_sync(ALL_LANES, sum, d);
        sum += lane >= d ? y : 0;
    }
    return sum - x;
}

/* What the lanes of a warp know of a block: lane s of stream s, lane l of the flags of level l. */
struct block_map {
    const uint32_t *word, *side;
    uint32_t n;
    uint32_t desc;         /* of stream `lane` */
    uint32_t n_and_start;  /* entries | first word << 16 */
    uint32_t base, side_bit; /* its base; where its exceptions start in the side bits */
    uint32_t kind, count;  /* of the flags of level `lane` */
    uint32_t n_set;        /* how many are set, the first nonzero of levels 1.. included */
    uint32_t flag_bit;     /* where their positions start in the side bits */
    uint32_t bitmaps;      /* bit l: level l has a bitmap */
    uint32_t bitmap_word;
};

/* Finds the parts of a block: all lanes at once, each for one level and for one stream. */
static __device__ inline block_map map_block(const uint32_t *word, uint32_t n, uint32_t n_levels,
                                             uint32_t n_codes, uint32_t lane)
{
    const uint32_t n_streams = 2 * n_levels + n_codes, head = (n_levels + 3) / 4;
    const uint32_t implied = lane > 0;
    block_map m;
    uint32_t f = 0, lists, above, set, n_entries, width, base_width, n_exc, sizes, before;
    m.word = word;
    m.n = n;
    m.desc = lane < n_streams ? __ldg(word + head + lane) : 0;
    if (lane < n_levels)
        f = __ldg(word + lane / 4) >> 8 * (lane % 4) & 255;
    m.kind = f & 7;
    m.count = f >> 3;
    m.bitmaps = __ballot_sync(ALL_LANES, m.kind == TS_FLAGS_BITMAP);
    m.bitmap_word = head + n_streams;
    lists = __ballot_sync(ALL_LANES, m.kind == TS_FLAGS_SET || m.kind == TS_FLAGS_CLEAR);
    m.n_set = m.kind == TS_FLAGS_NONE ? implied
              : m.kind == TS_FLAGS_ALL ? n - 1 + implied
              : m.kind == TS_FLAGS_SET ? m.count + implied
                                       : n - 1 - m.count + implied;
    if (m.kind == TS_FLAGS_BITMAP) {
        const uint32_t *map = word + m.bitmap_word + 8 * __popc(m.bitmaps & below(lane));
        m.n_set = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            m.n_set += __popc(__ldg(map + k));
    }
    if (lane == n_levels)
        m.n_set = n;
    m.flag_bit = 0;
    before = 0; /* bits of all lists */
    if (lists != 0) {
        const uint32_t mine = lists >> lane & 1 ? 8 * m.count : 0;
        m.flag_bit = scan_before(mine, lane);
        before = __shfl_sync(ALL_LANES, m.flag_bit + mine, 31);
    }
    /* stream `lane` belongs to level lane / 2 + 1 */
    above = __shfl_sync(ALL_LANES, m.n_set, lane / 2 & 31) + (lane / 2 == 0);
    set = __shfl_sync(ALL_LANES, m.n_set, (lane / 2 + 1) & 31);
    n_entries = lane >= n_streams ? 0 : lane >= 2 * n_levels ? n : lane & 1 ? set - above : above;
    width = m.desc & 63;
    n_exc = m.desc >> 12 & 255;
    base_width = m.desc >> 20 & 63;
    /* words of all streams take 13 bits at most, side bits 18: one scan for both */
    sizes = (n_entries * width + 31) / 32 << 19 | (base_width + n_exc * (8 + (m.desc >> 6 & 63)));
    set = scan_before(sizes, lane);
    above = m.bitmap_word + 8 * __popc(m.bitmaps); /* the first stream */
    m.n_and_start = n_entries | (above + (set >> 19)) << 16;
    m.side = word + above + (__shfl_sync(ALL_LANES, set + sizes, 31) >> 19);
    m.side_bit = before + (set & 0x7ffff);
    m.base = base_width > 0 ? bits(m.side, m.side_bit, below(base_width)) : 0;
    m.side_bit += base_width;
    return m;
}

/* The flags of a level at positions 8 lane .. 8 lane + 7; `list` is 8 words of shared memory. */
static __device__ inline uint32_t flags_of(const block_map &m, uint32_t level, uint32_t lane,
                                           uint32_t *list)
{
    const uint32_t kind = __shfl_sync(ALL_LANES, m.kind, level);
    const uint32_t first = 8 * lane, valid = first >= m.n ? 0 : below(min(8u, m.n - first));
    const uint32_t implied = level > 0 && lane == 0;
    if (kind == TS_FLAGS_NONE)
        return implied;
    if (kind == TS_FLAGS_ALL)
        return level == 0 && lane == 0 ? valid & ~1u : valid;
    if (kind == TS_FLAGS_BITMAP) {
        const uint32_t *map = m.word + m.bitmap_word + 8 * __popc(m.bitmaps & below(level));
        return __ldg(map + lane / 4) >> 8 * (lane % 4) & 255;
    }
    const uint32_t count = __shfl_sync(ALL_LANES, m.count, level);
    const uint32_t bit = __shfl_sync(ALL_LANES, m.flag_bit, level);
    uint32_t f;
    __syncwarp();
    if (lane < 8)
        list[lane] = 0;
    __syncwarp();
    if (lane < count) {
        const uint32_t p = bits(m.side, bit + 8 * lane, 255);
        atomicOr(list + (p >> 5), 1u << (p & 31)); /* of bits: their order does not matter */
    }
    __syncwarp();
    f = list[lane / 4] >> 8 * (lane % 4) & 255;
    if (kind == TS_FLAGS_SET)
        return f | implied;
    return (level == 0 && lane == 0 ? valid & ~1u : valid) & ~f;
}

/* Writes the entries of a stream to stage[staged(at + e)], exceptions included. */
static __device__ inline void unpack(const block_map &m, uint32_t stream, uint32_t at,
                                     uint32_t lane, uint32_t *stage)
{
    const uint32_t desc = __shfl_sync(ALL_LANES, m.desc, stream);
    const uint32_t ns = __shfl_sync(ALL_LANES, m.n_and_start, stream);
    const uint32_t base = __shfl_sync(ALL_LANES, m.base, stream);
    const uint32_t side_bit = __shfl_sync(ALL_LANES, m.side_bit, stream);
    const uint32_t n = ns & 0xffff, width = desc & 63, n_exc = desc >> 12 & 255;
    const uint32_t mask = below(width), *word = m.word + (ns >> 16);
    if (n == 0)
        return;
#pragma unroll 4
    for (uint32_t e = lane; e < n; e += 32)
        stage[staged(at + e)] = base + bits(word, e * width, mask);
    if (n_exc > 0) {
        const uint32_t high_width = desc >> 6 & 63, high_mask = below(high_width);
        __syncwarp();
        for (uint32_t i = lane; i < n_exc; i += 32) {
            const uint32_t e = bits(m.side, side_bit + 8 * i, 255);
            const uint32_t high = bits(m.side, side_bit + 8 * n_exc + high_width * i, high_mask);
            stage[staged(at + e)] += high << width;
        }
    }
}

/* Indices of a level, by position, into `index`. f, above: this lane's flags of the level and of the
 * one above it (first nonzero included); c, c_above: how many of them earlier lanes have. Positions
 * from n on repeat the last index. */
template <int LPR>
static __device__ inline void decode_level(const block_map &m, uint32_t level, uint32_t f,
                                           uint32_t above, uint32_t c, uint32_t c_above,
                                           uint32_t lane, uint32_t *index)
{
    const uint32_t n_abs = __shfl_sync(ALL_LANES, m.n_and_start, 2 * level - 2) & 0xffff;
    uint32_t abs = c_above, delta = n_abs + c - c_above, x = 0, idx[8];
    __syncwarp();
    unpack(m, 2 * level - 2, 0, lane, index);
    unpack(m, 2 * level - 1, n_abs, lane, index);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const bool is_abs = above >> k & 1, set = f >> k & 1;
        const uint32_t e = is_abs ? abs : delta;
        uint32_t v = 0;
        if (set)
            v = index[staged(e)];
        abs += is_abs;
        delta += set && !is_abs;
        x = is_abs ? v : x + v;
        idx[k] = x;
    }
    /* lanes without an absolute index continue those before them; lane 0 has one */
    const uint32_t heads = __ballot_sync(ALL_LANES, above != 0);
    const uint32_t distance = lane - (31 - __clz(heads & (ALL_LANES >> (31 - lane))));
    uint32_t sum = x, open = above == 0 ? 8 : __ffs(above) - 1;
#pragma unroll
    for (uint32_t d = 1; d < 32; d <<= 1) {
        const uint32_t y = __shfl_up_sync(ALL_LANES, sum, d);
        sum += distance >= d ? y : 0;
    }
    sum = __shfl_up_sync(ALL_LANES, sum, 1); /* of the lane before: the index it ended with */
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 8; k++)
        idx[k] += k < open && lane > 0 ? sum : 0;
    uint4 *to = (uint4 *)(index + spread<LPR>::at(8 * lane));
    to[0] = make_uint4(idx[0], idx[1], idx[2], idx[3]);
    to[1] = make_uint4(idx[4], idx[5], idx[6], idx[7]);
}

template <class T>
static __device__ inline T value_of(const ts_gpu_mttkrp &p, uint32_t code)
{
    if (p.value_kind == TS_VALUE_INT)
        return (T)(p.value_base + (double)code);
    if (p.value_kind == TS_VALUE_DICT)
        return (T)__ldg(p.dict + code);
    return (T)__uint_as_float(code);
}

/* Values by position; zero from n on. `stage`: 256 words of shared memory for the codes. */
template <class T, int LPR>
static __device__ inline void decode_values(const ts_gpu_mttkrp &p, const block_map &m,
                                            uint32_t lane, uint32_t *stage, T *val)
{
    const uint32_t stream = 2 * p.n_levels;
    if (p.value_kind == TS_VALUE_CONST) {
        for (uint32_t e = lane; e < 256; e += 32)
            val[spread<LPR>::at(e)] = e < m.n ? (T)p.value_base : (T)0;
        return;
    }
    if (p.value_kind != TS_VALUE_F64) {
        const uint32_t desc = __shfl_sync(ALL_LANES, m.desc, stream & 31);
        if ((desc >> 12 & 255) == 0) { /* no exceptions: straight to the values */
            const uint32_t base = __shfl_sync(ALL_LANES, m.base, stream & 31);
            const uint32_t ns = __shfl_sync(ALL_LANES, m.n_and_start, stream & 31);
            const uint32_t width = desc & 63, mask = below(width), *word = m.word + (ns >> 16);
#pragma unroll
            for (uint32_t e = lane; e < 256; e += 32)
                val[spread<LPR>::at(e)] =
                    e < m.n ? value_of<T>(p, base + bits(word, e * width, mask)) : (T)0;
            return;
        }
        unpack(m, stream & 31, 0, lane, stage);
        __syncwarp();
        for (uint32_t e = lane; e < 256; e += 32)
            val[spread<LPR>::at(e)] = e < m.n ? value_of<T>(p, stage[staged(e)]) : (T)0;
        __syncwarp();
        return;
    }
    uint32_t hi[8];
    unpack(m, stream & 31, 0, lane, stage);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 8; k++)
        hi[k] = stage[staged(32 * k + lane)];
    __syncwarp();
    unpack(m, (stream + 1) & 31, 0, lane, stage);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const uint32_t e = 32 * k + lane;
        val[spread<LPR>::at(e)] =
            e < m.n ? (T)__hiloint2double((int)hi[k], (int)stage[staged(e)]) : (T)0;
    }
    __syncwarp();
}

/* ------------------------------------------------------------------ the product */

/* 16 bytes of a row. Loads and conditional stores are assembly because the compiler else makes a
 * branch of each store and moves each load behind the branch of the nonzero before: one load under
 * way instead of a batch of them. */
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
        __stcs((float4 *)p, make_float4(v[0], v[1], v[2], v[3])); /* not read again in this launch */
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

/* U entries of an array of shared memory, 4 U bytes aligned, in as few requests as possible. */
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

/* Rows of all nonzeros h .. h + U - 1 of a chunk, multiplied with each other and the value. */
template <class T, int LPR, int NL, int U>
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
                x[l][u] = piece<T>::load(factor[l] + (uint64_t)at[u] * row_bytes);
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
                x[u] = piece<T>::load(f + (uint64_t)at[u] * row_bytes);
#pragma unroll
            for (int u = 0; u < U; u++)
#pragma unroll
                for (int k = 0; k < piece<T>::N; k++)
                    term[u].v[k] *= x[u].v[k];
        }
    }
}

/* A group of lanes on its way through rows: the sum of the row it is in, where that goes once the
 * row ends (the first time to shared memory, because earlier groups may have begun the row), and
 * where the next row goes. */
template <class T> struct run_rows {
    piece<T> sum;
    char *to, *next;
    uint32_t step;
};

/* Adds 8 nonzeros; bit k of f says that nonzero k begins a row. */
template <class T, int LPR, int NL, int U, bool FLAGS>
static __device__ inline void add_nonzeros(const ts_gpu_mttkrp &p, const char *const *factor,
                                           uint64_t column_byte, uint32_t row_bytes,
                                           const uint32_t *index, const T *val, uint32_t f,
                                           run_rows<T> &rows)
{
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> term[U];
        products<T, LPR, NL, U>(p, factor, column_byte, row_bytes, index + h, val + h, term);
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (FLAGS) {
                const bool begins = f >> (h + u) & 1;
                rows.sum.store_if(begins, rows.to);
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

/* The shared memory of a thread block: per warp the indices of each level, the values, 8 words of
 * flags and 16 bytes for each lane; per warp two rows, the first and the last of its nonzeros. */
template <class T, int LPR> struct shared_size {
    static constexpr uint32_t row_bytes = LPR * 16;
    static __host__ __device__ uint32_t warp_bytes(uint32_t n_levels)
    {
        return spread<LPR>::words * (4 * n_levels + (uint32_t)sizeof(T)) + 32 + 32 * 16;
    }
    static __host__ __device__ uint32_t bytes(uint32_t n_levels)
    {
        return WARPS * (warp_bytes(n_levels) + 2 * row_bytes + 16);
    }
};

/* What a warp has found of its range of nonzeros, for the sum over the thread block. */
struct warp_span {
    uint32_t row_first, row_last;
    uint32_t state; /* 0: nothing, 1: one row, its sum in the second slot; 2: first and last row */
    uint32_t unused;
};

template <class T> static __device__ inline T shfl_up(T x, int d)
{
    return __shfl_up_sync(ALL_LANES, x, d);
}

/* out(i, r) = sum over the nonzeros of row i of  value * prod_l factor[l](i_l, r)
 *
 *   launch  grid (partitions of the launch, ceil(ld / (LPR * 16 bytes))), 8 warps a thread block:
 *           a warp takes 8 blocks of the partition, one after another
 *   out     only rows that begin and end inside the partition are stored: no other thread block
 *           has a nonzero of them, and one group of lanes of this one
 *   edge    (2 x partitions of the mode copy, ld) sums of the partition's first and last row
 *
 * The lanes of a warp decode a block together, each the flags and indices of 8 positions, into shared
 * memory. Then groups of LPR lanes walk over 8 LPR nonzeros each, a lane holding 16 bytes of the row,
 * so that a row is read by neighbouring lanes in one request. What groups hold of rows that they
 * share is added by a scan over the groups, in the order of the nonzeros. */
template <class T, int LPR, int NL, int U, int CTAS>
__global__ void __launch_bounds__(32 * WARPS, CTAS) mttkrp_packed(const __grid_constant__ ts_gpu_mttkrp p)
{
    extern __shared__ uint4 shared[];
    typedef shared_size<T, LPR> size;
    constexpr int N = piece<T>::N;
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t group = lane / LPR, member = lane % LPR, n_levels = NL > 0 ? NL : p.n_levels;
    char *const mine = (char *)shared + warp * size::warp_bytes(n_levels);
    T *const val = (T *)mine;
    uint32_t *const index = (uint32_t *)(val + spread<LPR>::words);
    uint32_t *const flag_word = index + n_levels * spread<LPR>::words;
    char *const my_head = (char *)(flag_word + 8) + 16 * lane;
    T *const ends = (T *)((char *)shared + WARPS * size::warp_bytes(n_levels));
    T *const my_ends = ends + warp * 2 * LPR * N;
    warp_span *const span = (warp_span *)((char *)ends + WARPS * 2 * size::row_bytes);
    const uint32_t row_bytes = p.ld * (uint32_t)sizeof(T);
    const uint32_t column = (blockIdx.y * LPR + member) * N;
    const bool active = column < p.ld;
    const uint64_t column_byte = active ? column * sizeof(T) : 0;

    ts_gpu_shard shard = p.one;
    if (p.n_many > 0) {
        uint32_t lo = 0, hi = p.n_many; /* the last with first_cta <= blockIdx.x */
        while (hi - lo > 1) {
            const uint32_t mid = (lo + hi) / 2;
            if (__ldg(&p.many[mid].first_cta) <= blockIdx.x)
                lo = mid;
            else
                hi = mid;
        }
        shard = p.many[lo];
    }
    const uint32_t partition = blockIdx.x - shard.first_cta;
    const uint32_t first_block = partition * TS_PARTITION_BLOCKS + warp * WARP_BLOCKS;
    const uint32_t end_block = min(first_block + WARP_BLOCKS, shard.n_blocks);
    const uint32_t *const block_word = shard.raw, *const block_row = shard.raw + shard.n_blocks + 1;
    char *const out = (char *)p.out + column_byte;

    const char *factor[NL > 0 ? NL : 1];
#pragma unroll
    for (int l = 0; l < NL; l++)
        factor[l] = (const char *)p.factor[l] + column_byte;

    T carry[N]; /* sum of the row that the last block ended in */
    bool any = false; /* a row ended inside this warp's range */
    uint32_t last_row = 0, word = 0, next_row = 0;
#pragma unroll
    for (int k = 0; k < N; k++)
        carry[k] = 0;
    if (first_block < end_block) {
        word = __ldg(block_word + first_block);
        next_row = shard.row_first + __ldg(block_row + first_block);
        last_row = next_row;
        if (lane == 0)
            span[warp].row_first = next_row;
    }
    for (uint32_t b = first_block; b < end_block; b++) {
        const uint32_t n = b + 1 < shard.n_blocks ? TS_BLOCK_NNZ
                                                  : shard.nnz - (shard.n_blocks - 1) * TS_BLOCK_NNZ;
        const uint32_t *const block = shard.raw + word;
        const uint32_t first_row = next_row;
        /* the next block, so that it waits in L2 (a block takes a dozen lines) */
        if (b + 1 < end_block) {
            word = __ldg(block_word + b + 1);
            next_row = shard.row_first + __ldg(block_row + b + 1);
            const char *ahead = (const char *)(shard.raw + word) + 128 * lane;
            if (lane < 14 && ahead < (const char *)(shard.raw + __ldg(block_word + shard.n_blocks)))
                asm volatile("prefetch.global.L2 [%0];" ::"l"(ahead));
        }

        __syncwarp();
        const block_map m = map_block(block, n, n_levels, p.n_codes, lane);
        decode_values<T, LPR>(p, m, lane, index, val);
        uint32_t flags = flags_of(m, 0, lane, flag_word), count = scan_before(__popc(flags), lane);
        /* the flag of a block's first nonzero is not stored: the row before settles it */
        const uint32_t new_row = first_row != last_row;
        const uint32_t row_flags = lane == 0 ? flags | new_row : flags;
        uint32_t row = first_row + count - (lane == 0 ? new_row : 0);
        flags |= lane == 0;
        count += lane > 0;
        last_row = __shfl_sync(ALL_LANES, first_row + count - 1 + __popc(flags) - (lane == 0), 31);
        for (uint32_t l = 1; l <= n_levels; l++) {
            uint32_t below_flags, below_count;
            if (l < n_levels) {
                below_flags = flags_of(m, l, lane, flag_word);
                below_count = scan_before(__popc(below_flags), lane);
            } else {
                below_flags = 8 * lane >= n ? 0 : below(min(8u, n - 8 * lane));
                below_count = min(8 * lane, n);
            }
            decode_level<LPR>(m, l, below_flags, flags, below_count, count, lane,
                              index + (l - 1) * spread<LPR>::words);
            flags = below_flags;
            count = below_count;
        }
        __syncwarp();
        ((unsigned char *)flag_word)[lane] = (unsigned char)row_flags;
        __syncwarp();

        row = __shfl_sync(ALL_LANES, row, group * LPR);
        char *const row_before = active ? out + (uint64_t)row * row_bytes : my_head;
        run_rows<T> rows = { {}, my_head, active ? row_before + row_bytes : my_head,
                             active ? row_bytes : 0 };
        bool has = false;
        const uint32_t *group_index = index + group * (spread<LPR>::group + 4);
        const T *group_val = val + group * (spread<LPR>::group + 4);
#pragma unroll 1
        for (uint32_t c = 0; c < LPR; c++) {
            const uint32_t f = ((const unsigned char *)flag_word)[group * LPR + c];
            has |= f != 0;
            if (__any_sync(ALL_LANES, f != 0))
                add_nonzeros<T, LPR, NL, U, true>(p, factor, column_byte, row_bytes,
                                                  group_index + 8 * c, group_val + 8 * c, f, rows);
            else
                add_nonzeros<T, LPR, NL, U, false>(p, factor, column_byte, row_bytes,
                                                   group_index + 8 * c, group_val + 8 * c, f, rows);
        }
        asm volatile("" ::: "memory"); /* my_head was written behind the compiler's back */
        T(&acc)[N] = rows.sum.v;
        T head[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            head[k] = ((T *)my_head)[k];

        /* Rows that reach over groups: an inclusive scan of what each group leaves open. */
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
                done.store(row_before);
            }
        }
        any |= heads != 0;
#pragma unroll
        for (int k = 0; k < N; k++)
            carry[k] = __shfl_sync(ALL_LANES, acc[k], 32 - LPR + member);
    }

    if (group == 0) {
#pragma unroll
        for (int k = 0; k < N; k++)
            my_ends[(LPR + member) * N + k] = carry[k];
    }
    if (lane == 0) {
        span[warp].state = first_block >= end_block ? 0 : any ? 2 : 1;
        span[warp].row_last = last_row;
    }
    __syncthreads();

    /* The warps' first and last rows, one thread a column. */
    const uint32_t at = threadIdx.x, full_column = blockIdx.y * LPR * N + at;
    if (at < LPR * N && full_column < p.ld) {
        T *const edge = (T *)p.edge + 2 * (shard.first_partition + partition) * p.ld + full_column;
        T *const to = (T *)p.out + full_column;
        T sum = 0;
        uint32_t current = span[0].row_first;
        bool first = true;
        for (int w = 0; w < WARPS && span[w].state != 0; w++) {
            const T *e = ends + w * 2 * LPR * N + at;
            for (int half = 0; half < 2; half++) {
                const uint32_t r = half == 0 ? span[w].row_first : span[w].row_last;
                if (half == 0 && span[w].state == 1)
                    continue;
                if (r != current) {
                    if (first)
                        edge[0] = sum;
                    else
                        to[(uint64_t)current * p.ld] = sum;
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
}

/* ------------------------------------------------------------------ edges */

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

uint64_t ts_mttkrp_edges(uint64_t n_partitions)
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

int ts_mttkrp_fold(enum ts_precision precision, uint64_t n_partitions, void *edge,
                   uint32_t *edge_row, uint32_t ld, void *out, void *stream)
{
    cudaStream_t s = (cudaStream_t)stream;
    return precision == TS_FLOAT32 ? fold(n_partitions, (float *)edge, edge_row, ld, (float *)out, s)
                                   : fold(n_partitions, (double *)edge, edge_row, ld, (double *)out, s);
}

/* ------------------------------------------------------------------ launching */

template <class T, int LPR, int NL, int U, int CTAS>
static int launch(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    const uint32_t bytes = shared_size<T, LPR>::bytes(args->n_levels);
    const uint32_t columns = LPR * piece<T>::N;
    auto kernel = mttkrp_packed<T, LPR, NL, U, CTAS>;
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

template <class T, int NL, int U, int CTAS>
static int launch_rank(const struct ts_gpu_mttkrp *args, cudaStream_t stream)
{
    const uint32_t pieces = args->ld / piece<T>::N;
    if (pieces <= 2)
        return launch<T, 2, NL, U, CTAS>(args, stream);
    if (pieces <= 4)
        return launch<T, 4, NL, U, CTAS>(args, stream);
    if (pieces <= 8)
        return launch<T, 8, NL, U, CTAS>(args, stream);
    if (pieces <= 16)
        return launch<T, 16, NL, U, CTAS>(args, stream);
    return launch<T, 32, NL, U, CTAS>(args, stream);
}

int ts_mttkrp_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args, void *stream)
{
    cudaStream_t s = (cudaStream_t)stream;
    if (args->n_partitions == 0)
        return 0;
    if (precision == TS_FLOAT64)
        return launch_rank<double, 0, 4, 3>(args, s);
    switch (args->n_levels) {
    case 2:
        return launch_rank<float, 2, 4, 3>(args, s);
    case 3:
        return launch_rank<float, 3, 2, 3>(args, s);
    case 4:
        return launch_rank<float, 4, 2, 3>(args, s);
    default:
        return launch_rank<float, 0, 4, 3>(args, s);
    }
}
