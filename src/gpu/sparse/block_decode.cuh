/* SPDX-License-Identifier: BSD-3-Clause */
/* block_decode.cuh - a warp decodes one packed block (format/blocks/block_codec.h) into shared
 * memory.
 *
 * The packed words may be in device memory or in shared memory (block_fetch.cuh).
 *
 * A block has streams of packed numbers, and flags: a flag of a level marks a nonzero whose index
 * at this level, or at a level above, differs from the one before (block_codec.h). First the lanes
 * find all parts of the block at once: each lane one stream and the flags of one level (map_block).
 * Then all lanes together unpack one stream after another. Then flags are turned into indices: a
 * lane has positions 8 lane .. 8 lane + 7. A scan over the lanes counts the flags before these
 * positions, and another scan adds the deltas.
 *
 * Every step does all its loads before its stores. Otherwise the compiler would wait for each load
 * in turn, as it must assume that stores may change the loaded addresses.
 *
 *   owner    shared memory is the caller's, for one warp
 *   threads  all lanes of a warp call together
 *   errors   none: blocks were checked (ts_shard_check)
 */
#ifndef TS_GPU_BLOCK_DECODE_CUH
#define TS_GPU_BLOCK_DECODE_CUH

#include <cuda_runtime.h>

#include "format/blocks/block_codec.h"
#include "gpu/sparse/mttkrp_kernel.h"

#define ALL_LANES 0xffffffffu

/* Maps position p of a block to its place in an array of shared memory. The lanes of a warp form
 * groups of `LPR` lanes, which read 8 LPR positions apart. Four extra words between groups put them
 * into different banks. */
template <int LPR> struct spread {
    static constexpr uint32_t group = 8 * LPR, n_groups = 32 / LPR;
    /* also enough words for the places that struct staged gives */
    static constexpr uint32_t words = 256 + (n_groups > 2 ? 4 * n_groups : 8);
    static constexpr __device__ uint32_t at(uint32_t p) { return p + p / group * 4; }
};

/* Maps entry e of a level's streams to its temporary place, until it is moved to its position.
 * Lanes read about 8 entries apart; an extra word after every 32 entries spreads the reads over the
 * banks. */
struct staged {
    static constexpr __device__ uint32_t at(uint32_t e) { return e + e / 32; }
};

static __device__ inline uint32_t below(uint32_t width)
{
    return (uint32_t)((UINT64_C(1) << width) - 1);
}

/* Returns the bits of packed words from bit `at` on, masked by `mask`. Reads one word more than it
 * needs: TS_SHARD_SLACK readable bytes follow each shard. */
static __device__ inline uint32_t bits(const uint32_t *word, uint32_t at, uint32_t mask)
{
    const uint32_t *w = word + (at >> 5);
    return __funnelshift_r(w[0], w[1], at) & mask;
}

/* Returns the sum of x over the lanes before this one. Only results of lanes below N, a power of
 * two, are valid. */
template <int N = 32> static __device__ inline uint32_t scan_before(uint32_t x, uint32_t lane)
{
    uint32_t sum = x;
#pragma unroll
    for (uint32_t d = 1; d < N; d <<= 1) {
        const uint32_t y = __shfl_up_sync(ALL_LANES, sum, d);
        sum += lane >= d ? y : 0;
    }
    return sum - x;
}

/* Where the parts of a block (flags and streams of packed numbers) are, as each lane of a warp
 * knows it. The descriptions of streams are in shared memory, an array of stream_part that every
 * lane reads. */
struct block_map {
    const uint32_t *word, *side;
    uint32_t n;
    /* kind and count of the flags of level `lane`, as the block stores them */
    uint32_t kind, count;
    uint32_t n_set; /* number of set flags, including the implied one */
    /* first of the bits that store positions of flags of level `lane`, in the block's side bits
     * (block_codec.h) */
    uint32_t flag_bit;
    uint32_t bitmaps; /* bit l: the flags of level l are a bitmap */
    uint32_t bitmap_word;
    uint32_t exceptions; /* bit s: stream s has exceptions */
};

struct alignas(16) stream_part {
    uint32_t desc;
    uint32_t n_and_start; /* number of entries | number of the first word << 16 */
    uint32_t base;
    uint32_t side_bit; /* first of the block's side bits that store the stream's exceptions */
    __device__ uint32_t n() const { return n_and_start & 0xffff; }
    __device__ uint32_t start() const { return n_and_start >> 16; }
    __device__ uint32_t width() const { return desc & 63; }
    __device__ uint32_t high_width() const { return desc >> 6 & 63; }
    __device__ uint32_t n_exc() const { return desc >> 12 & 255; }
};

/* Finds the parts of a block (flags and streams of packed numbers). All lanes work at once, each
 * for one level and for one stream. NL is n_levels, or 0 for any number. */
template <int NL>
static __device__ inline block_map map_block(const uint32_t *word, uint32_t n, uint32_t n_levels,
                                             uint32_t n_codes, uint32_t lane, stream_part *part)
{
    constexpr int LEVEL_LANES = NL == 0 ? 16 : NL <= 2 ? 2 : 4;
    constexpr int STREAM_LANES = NL == 0 ? 32 : NL <= 3 ? 8 : 16;
    const uint32_t n_streams = 2 * n_levels + n_codes, head = (n_levels + 3) / 4;
    const uint32_t implied = lane > 0;
    const uint32_t desc = lane < n_streams ? word[head + lane] : 0;
    block_map m;
    uint32_t f = 0, lists, above, set, n_entries, base_width, n_exc, sizes, before;
    m.word = word;
    m.n = n;
    if (lane < n_levels)
        f = word[lane / 4] >> 8 * (lane % 4) & 255;
    m.kind = f & 7;
    m.count = f >> 3;
    m.bitmaps = __ballot_sync(ALL_LANES, m.kind == TS_FLAGS_BITMAP);
    m.bitmap_word = head + n_streams;
    lists = __ballot_sync(ALL_LANES, m.kind == TS_FLAGS_SET || m.kind == TS_FLAGS_CLEAR);
    m.n_set = m.kind == TS_FLAGS_NONE  ? implied
              : m.kind == TS_FLAGS_ALL ? n - 1 + implied
              : m.kind == TS_FLAGS_SET ? m.count + implied
                                       : n - 1 - m.count + implied;
    if (m.kind == TS_FLAGS_BITMAP) {
        const uint32_t *map = word + m.bitmap_word + 8 * __popc(m.bitmaps & below(lane));
        m.n_set = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            m.n_set += __popc(map[k]);
    }
    if (lane == n_levels)
        m.n_set = n;
    m.flag_bit = 0;
    before = 0; /* side bits of all lists of flag positions, which come before those of streams */
    if (lists != 0) {
        const uint32_t mine = lists >> lane & 1 ? 8 * m.count : 0;
        m.flag_bit = scan_before<LEVEL_LANES>(mine, lane);
        before = __shfl_sync(ALL_LANES, m.flag_bit + mine, LEVEL_LANES - 1);
    }
    /* Stream `lane` belongs to level lane / 2 + 1. above: number of flags set in the level above;
     * set: number of flags set in this level. */
    above = __shfl_sync(ALL_LANES, m.n_set, lane / 2 & 31) + (lane / 2 == 0);
    set = __shfl_sync(ALL_LANES, m.n_set, (lane / 2 + 1) & 31);
    n_entries = lane >= n_streams ? 0 : lane >= 2 * n_levels ? n : lane & 1 ? set - above : above;
    n_exc = desc >> 12 & 255;
    base_width = desc >> 20 & 63;
    m.exceptions = __ballot_sync(ALL_LANES, n_exc > 0);
    /* The words of all streams fit in 13 bits, and their side bits in 18: one scan adds both. */
    sizes =
        (n_entries * (desc & 63) + 31) / 32 << 19 | (base_width + n_exc * (8 + (desc >> 6 & 63)));
    set = scan_before<STREAM_LANES>(sizes, lane);
    /* from here on `above` is the first word of the streams */
    above = m.bitmap_word + 8 * __popc(m.bitmaps);
    m.side = word + above + (__shfl_sync(ALL_LANES, set + sizes, STREAM_LANES - 1) >> 19);
    before += set & 0x7ffff;
    if (lane < n_streams) {
        stream_part mine;
        mine.desc = desc;
        mine.n_and_start = n_entries | (above + (set >> 19)) << 16;
        mine.base = base_width > 0 ? bits(m.side, before, below(base_width)) : 0;
        mine.side_bit = before + base_width;
        part[lane] = mine;
    }
    __syncwarp();
    return m;
}

/* Returns the flags of a level at positions 8 lane .. 8 lane + 7. list: shared memory for the
 * decoder, 8 words. */
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
        return map[lane / 4] >> 8 * (lane % 4) & 255;
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
        atomicOr(list + (p >> 5), 1u << (p & 31)); /* sets bits, so the order does not matter */
    }
    __syncwarp();
    f = list[lane / 4] >> 8 * (lane % 4) & 255;
    if (kind == TS_FLAGS_SET)
        return f | implied;
    return (level == 0 && lane == 0 ? valid & ~1u : valid) & ~f;
}

/* Unpacks the entries of a stream, 32 ROUNDS at a time, to `to`, the place of entry `lane`. 32
 * entries take `width` words, so all reads of a lane start at the same bit of a word. The last 32
 * entries are read even if the stream has fewer, up to 32 words past its end, which TS_SHARD_SLACK
 * allows. */
template <int ROUNDS, class PLACE>
static __device__ inline void unpack_rounds(const uint32_t *word, const stream_part &s,
                                            uint32_t lane, uint32_t *to)
{
    const uint32_t n = s.n(), width = s.width(), mask = below(width), bit = lane * width;
    const uint32_t *from = word + s.start() + (bit >> 5);
#pragma unroll 1
    for (uint32_t first = 0; first < n; first += 32 * ROUNDS) {
        const uint32_t last = (n - first - 1) / 32;
        uint32_t x[ROUNDS];
#pragma unroll
        for (uint32_t k = 0; k < ROUNDS; k++) {
            const uint32_t *w = from + min(k, last) * width;
            x[k] = s.base + (__funnelshift_r(w[0], w[1], bit) & mask);
        }
#pragma unroll
        for (uint32_t k = 0; k < ROUNDS; k++)
            if (first + 32 * k + lane < n)
                to[PLACE::at(32 * k)] = x[k];
        from += ROUNDS * width;
        to += PLACE::at(32 * ROUNDS);
    }
}

/* Unpacks the entries of a stream without the high parts of exceptions: entry e to
 * to[PLACE::at(e)]. */
template <class PLACE>
static __device__ inline void unpack(const uint32_t *word, const stream_part &s, uint32_t lane,
                                     uint32_t *to)
{
    if (s.n() <= 32)
        unpack_rounds<1, PLACE>(word, s, lane, to);
    else
        unpack_rounds<4, PLACE>(word, s, lane, to);
}

/* Adds the high parts of a stream's exceptions (entries that do not fit its width). Entry 0 of the
 * stream is entry `at` of the array. */
template <class PLACE>
static __device__ inline void add_exceptions(const uint32_t *side, const stream_part &s,
                                             uint32_t at, uint32_t lane, uint32_t *array)
{
    const uint32_t n_exc = s.n_exc(), high_width = s.high_width(), mask = below(high_width);
#pragma unroll 1
    for (uint32_t i = lane; i < n_exc; i += 32) {
        const uint32_t e = bits(side, s.side_bit + 8 * i, 255);
        const uint32_t high = bits(side, s.side_bit + 8 * n_exc + high_width * i, mask);
        array[PLACE::at(at + e)] += high << s.width();
    }
}

/* Whether every nonzero of the block has an absolute index at a level. Then entries are unpacked to
 * their final places, and no deltas are added. */
static __device__ inline bool is_direct(const stream_part &absolute)
{
    return absolute.n() == TS_BLOCK_NNZ;
}

/* Unpacks the entries of levels 1..n_levels into the `index` array of each level. */
template <int LPR>
static __device__ inline void unpack_levels(const block_map &m, const stream_part *part,
                                            uint32_t n_levels, uint32_t lane, uint32_t *index)
{
    uint32_t open = m.exceptions & below(2 * n_levels);
#pragma unroll 1
    for (uint32_t l = 0; l < n_levels; l++) {
        const stream_part absolute = part[2 * l], delta = part[2 * l + 1];
        uint32_t *const to = index + l * spread<LPR>::words;
        if (is_direct(absolute)) {
            unpack_rounds<4, spread<LPR>>(m.word, absolute, lane, to + spread<LPR>::at(lane));
            continue;
        }
        unpack<staged>(m.word, absolute, lane, to + staged::at(lane));
        unpack<staged>(m.word, delta, lane, to + staged::at(absolute.n() + lane));
    }
    if (open == 0)
        return;
    __syncwarp();
#pragma unroll 1
    for (; open != 0; open &= open - 1) {
        const uint32_t stream = __ffs(open) - 1;
        const stream_part absolute = part[stream & ~1u], s = part[stream];
        uint32_t *const to = index + stream / 2 * spread<LPR>::words;
        if (is_direct(absolute))
            add_exceptions<spread<LPR>>(m.side, s, 0, lane, to);
        else
            add_exceptions<staged>(m.side, s, stream & 1 ? absolute.n() : 0, lane, to);
    }
}

/* Turns the unpacked entries of a level (absolute indices and deltas) into indices by position;
 * positions from n on repeat the last index. above, f: this lane's flags of the level above and of
 * this level, with the implied flag of the first nonzero. c_above, c: how many of these flags the
 * lanes before it have. */
template <int LPR>
static __device__ inline void index_level(const stream_part *part, uint32_t level, uint32_t above,
                                          uint32_t f, uint32_t c_above, uint32_t c, uint32_t lane,
                                          uint32_t *index)
{
    const stream_part absolute = part[2 * level - 2];
    uint32_t abs = c_above, delta = absolute.n() + c - c_above, x = 0, idx[8];
    const bool direct = is_direct(absolute);
    index += (level - 1) * spread<LPR>::words;
    if (!direct) {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const bool is_abs = above >> k & 1, set = f >> k & 1;
            const uint32_t e = is_abs ? abs : delta;
            uint32_t v = 0;
            if (set)
                v = index[staged::at(e)];
            abs += is_abs;
            delta += set && !is_abs;
            x = is_abs ? v : x + v;
            idx[k] = x;
        }
    }
    /* lanes without an absolute index continue from the lanes before them; lane 0 has one */
    const uint32_t heads = __ballot_sync(ALL_LANES, above != 0);
    const uint32_t distance = lane - (31 - __clz(heads & (ALL_LANES >> (31 - lane))));
    const uint32_t open = lane == 0 ? 0 : above == 0 ? 8 : __ffs(above) - 1;
    uint32_t sum = x;
#pragma unroll
    for (uint32_t d = 1; d < 32; d <<= 1) {
        const uint32_t y = __shfl_up_sync(ALL_LANES, sum, d);
        sum += distance >= d ? y : 0;
    }
    sum = __shfl_up_sync(ALL_LANES, sum, 1); /* now the last index of the lane before */
    __syncwarp();
    if (!direct) {
        uint4 *to = (uint4 *)(index + spread<LPR>::at(8 * lane));
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            idx[k] += k < open ? sum : 0;
        to[0] = make_uint4(idx[0], idx[1], idx[2], idx[3]);
        to[1] = make_uint4(idx[4], idx[5], idx[6], idx[7]);
    }
}

template <class T> static __device__ inline T value_of(const ts_gpu_mttkrp &p, uint32_t code)
{
    if (p.value_kind == TS_VALUE_INT)
        return (T)(p.value_base + (double)code);
    if (p.value_kind == TS_VALUE_DICT)
        return (T)__ldg(p.dict + code);
    return (T)__uint_as_float(code);
}

/* Decodes the values of a full block without exceptions: converts each code and stores the value at
 * its final place. */
template <class T, int LPR>
static __device__ inline void full_values(const ts_gpu_mttkrp &p, const uint32_t *word,
                                          const stream_part &s, uint32_t lane, T *val)
{
    const uint32_t width = s.width(), mask = below(width), bit = lane * width;
    const uint32_t *from = word + s.start() + (bit >> 5);
    const double most = 1 << 30;
    uint32_t code[8];
#pragma unroll
    for (uint32_t k = 0; k < 8; k++)
        code[k] = s.base + (__funnelshift_r(from[k * width], from[k * width + 1], bit) & mask);
    val += spread<LPR>::at(lane);
    /* small integers are converted without float64, as a multiprocessor has few units for
     * conversions to float64 */
    if (p.value_kind == TS_VALUE_INT && p.value_base > -most && p.value_base < most &&
        (uint64_t)s.base + mask < 1 << 30) {
        const int base = (int)p.value_base;
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            val[spread<LPR>::at(32 * k)] = (T)(base + (int)code[k]);
    } else {
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            val[spread<LPR>::at(32 * k)] = value_of<T>(p, code[k]);
    }
}

/* Unpacks stream s, the codes of values or of weights: entry e to stage[staged::at(e)]. */
static __device__ inline void stage_codes(const block_map &m, const stream_part &s, uint32_t lane,
                                          uint32_t *stage)
{
    __syncwarp();
    unpack<staged>(m.word, s, lane, stage + staged::at(lane));
    __syncwarp();
    add_exceptions<staged>(m.side, s, 0, lane, stage);
    __syncwarp();
}

/* Decodes the values of a block's n nonzeros, by position. Positions from n on become zero.
 * `stage`: spread::words words of shared memory for codes. */
template <class T, int LPR>
static __device__ inline void decode_values(const ts_gpu_mttkrp &p, const block_map &m,
                                            const stream_part *part, uint32_t lane, uint32_t *stage,
                                            T *val)
{
    const uint32_t stream = 2 * p.n_levels;
    if (p.value_kind == TS_VALUE_CONST) {
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            val[spread<LPR>::at(32 * k + lane)] = 32 * k + lane < m.n ? (T)p.value_base : (T)0;
        return;
    }
    if (p.value_kind != TS_VALUE_F64) {
        const stream_part s = part[stream];
        if (s.n_exc() == 0 && m.n == TS_BLOCK_NNZ) {
            full_values<T, LPR>(p, m.word, s, lane, val);
            return;
        }
        stage_codes(m, s, lane, stage);
#pragma unroll 1
        for (uint32_t e = lane; e < 256; e += 32)
            val[spread<LPR>::at(e)] = e < m.n ? value_of<T>(p, stage[staged::at(e)]) : (T)0;
        __syncwarp();
        return;
    }
    uint32_t hi[8];
    stage_codes(m, part[stream], lane, stage);
#pragma unroll
    for (uint32_t k = 0; k < 8; k++)
        hi[k] = stage[staged::at(32 * k + lane)];
    stage_codes(m, part[stream + 1], lane, stage);
#pragma unroll
    for (uint32_t k = 0; k < 8; k++) {
        const uint32_t e = 32 * k + lane;
        val[spread<LPR>::at(e)] =
            e < m.n ? (T)__hiloint2double((int)hi[k], (int)stage[staged::at(e)]) : (T)0;
    }
    __syncwarp();
}

/* The destination of the weights of a block's cells: none in kernels in which every cell counts
 * once, otherwise an array of spread::words. Weights are the codes of the second stream of codes
 * (ts_header_codes). */
struct no_weights {
};
struct weights_to {
    float *at;
};

template <int LPR>
static __device__ inline void decode_weights(const block_map &, const stream_part *, uint32_t,
                                             uint32_t, no_weights)
{
}

/* Decodes the weights of a block's n cells, by position. Positions from n on become zero. While
 * decoding, the array of weights holds their codes. */
template <int LPR>
static __device__ inline void decode_weights(const block_map &m, const stream_part *part,
                                             uint32_t stream, uint32_t lane, weights_to to)
{
    uint32_t code[8];
    stage_codes(m, part[stream], lane, (uint32_t *)to.at);
#pragma unroll
    for (uint32_t k = 0; k < 8; k++)
        code[k] = ((const uint32_t *)to.at)[staged::at(32 * k + lane)];
    __syncwarp();
#pragma unroll
    for (uint32_t k = 0; k < 8; k++)
        to.at[spread<LPR>::at(32 * k + lane)] =
            32 * k + lane < m.n ? __uint_as_float(code[k]) : 0.0f;
    __syncwarp();
}

/* The rows of a decoded block, in addition to its arrays in shared memory. */
struct decoded {
    uint32_t row_flags;   /* bit k: a row begins at position 8 lane + k */
    uint32_t rows_before; /* rows that begin before position 8 lane */
    uint32_t n_rows;      /* rows that begin in the block after its first nonzero */
};

/* Decodes the block at `word`: values to val, indices of level l to index + (l - 1) *
 * spread::words, and weights to `to` if it has an array. part and list: shared memory for the
 * decoder, of 32 entries and 8 words. */
template <class T, int LPR, int NL, class WEIGHTS = no_weights>
static __device__ inline decoded
decode_block(const ts_gpu_mttkrp &p, const uint32_t *word, uint32_t n, uint32_t lane,
             stream_part *part, uint32_t *list, uint32_t *index, T *val, WEIGHTS weights = {})
{
    const uint32_t n_levels = NL > 0 ? NL : p.n_levels;
    const block_map m = map_block<NL>(word, n, n_levels, p.n_codes, lane, part);
    const uint32_t leaf_flags = 8 * lane >= n ? 0 : below(min(8u, n - 8 * lane));
    const uint32_t leaf_count = min(8 * lane, n);
    decoded ret;
    decode_values<T, LPR>(p, m, part, lane, index, val);
    decode_weights<LPR>(m, part, 2 * n_levels + 1, lane, weights);
    unpack_levels<LPR>(m, part, n_levels, lane, index);
    ret.row_flags = flags_of(m, 0, lane, list);
    ret.n_rows = __shfl_sync(ALL_LANES, m.n_set, 0);
    if constexpr (NL > 0 && NL <= 4) {
        /* the counts of flags before a lane are at most 248 and fit in a byte: one scan serves four
         * levels */
        uint32_t flags[NL + 1], count[NL + 1], sum;
        flags[0] = ret.row_flags;
        sum = __popc(flags[0]);
#pragma unroll
        for (int l = 1; l < NL; l++) {
            flags[l] = flags_of(m, l, lane, list);
            sum += __popc(flags[l]) << 8 * l;
        }
        sum = scan_before(sum, lane);
#pragma unroll
        for (int l = 0; l < NL; l++)
            count[l] = sum >> 8 * l & 255;
        ret.rows_before = count[0];
        flags[0] |= lane == 0;
        count[0] += lane > 0;
        flags[NL] = leaf_flags;
        count[NL] = leaf_count;
        __syncwarp();
#pragma unroll
        for (int l = 0; l < NL; l++)
            index_level<LPR>(part, l + 1, flags[l], flags[l + 1], count[l], count[l + 1], lane,
                             index);
    } else {
        uint32_t above = ret.row_flags | (lane == 0), f, c_above, c;
        ret.rows_before = scan_before(__popc(ret.row_flags), lane);
        c_above = ret.rows_before + (lane > 0);
#pragma unroll 1
        for (uint32_t l = 1; l <= n_levels; l++) {
            f = l < n_levels ? flags_of(m, l, lane, list) : leaf_flags;
            c = l < n_levels ? scan_before(__popc(f), lane) : leaf_count;
            __syncwarp();
            index_level<LPR>(part, l, above, f, c_above, c, lane, index);
            above = f;
            c_above = c;
        }
    }
    return ret;
}

#endif
