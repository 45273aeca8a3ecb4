/* block_decode.cuh - a warp takes one packed block (format/block_codec.h) apart, into shared memory.
 *
 * The block is read as it lies in device memory. Every lane finds one stream and one level of flags
 * (block_map), then the lanes unpack a stream together, and each holds the 8 positions 8 lane ..
 * 8 lane + 7 while flags become indices: ranks of flags are scans of counts, deltas are summed by a
 * scan over the lanes.
 *
 *   owner    shared memory is the caller's, for one warp
 *   threads  all lanes of a warp call together
 *   errors   none: blocks were checked (ts_shard_check)
 */
#ifndef TS_GPU_BLOCK_DECODE_CUH
#define TS_GPU_BLOCK_DECODE_CUH

#include <cuda_runtime.h>

#include "format/block_codec.h"
#include "gpu/mttkrp_kernel.h"

#define ALL_LANES 0xffffffffu

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

#endif
