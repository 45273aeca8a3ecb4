/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds up hashes of cells, with the loops of cell_sum_body.h for each instruction set. */
#include "format/cell_sum.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "format/cell_sum_loops.h"
#include "format/shard.h"

#define INLINE static inline __attribute__((always_inline))
#define PIECE  TS_BLOCK_NNZ

/* ------------------------------------------------------------------ loops by instruction set */

/* Loads 32 bits (an index, code or weight) from an address of any alignment and type. */
INLINE uint64_t load_32(const uint32_t *at)
{
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

#define TS_SUM_NAME(x) x##_any
#define TS_LANES       1
#define TS_VECTOR      uint64_t
#define LOAD(p)        (*(p))
#define STORE(p, x)    (*(p) = (x))
#define SET(x)         ((uint64_t)(x))
#define WIDEN(p)       load_32(p)
#define ADD(x, y)      ((x) + (y))
#define XOR(x, y)      ((x) ^ (y))
#define RIGHT(x, n)    ((x) >> (n))
#define TIMES(x, y)    ((x) * (y))
#define LOW(x)         ((x)&UINT32_MAX)
#define LEFT_32(x)     ((x) << 32)
#include "format/cell_sum_body.h"

#ifdef __x86_64__
#include "base/machine/target_avx2.h"

INLINE __m256i times_256(__m256i x, __m256i y)
{
    const __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), y),
                                           _mm256_mul_epu32(x, _mm256_srli_epi64(y, 32)));
    return _mm256_add_epi64(_mm256_mul_epu32(x, y), _mm256_slli_epi64(cross, 32));
}

#define TS_SUM_NAME(x)  x##_avx2
#define TS_LANES        4
#define TS_VECTOR       __m256i
#define LOAD(p)         _mm256_loadu_si256((const void *)(p))
#define STORE(p, x)     _mm256_storeu_si256((void *)(p), x)
#define SET(x)          _mm256_set1_epi64x((long long)(x))
#define WIDEN(p)        _mm256_cvtepu32_epi64(_mm_loadu_si128((const void *)(p)))
#define ADD(x, y)       _mm256_add_epi64(x, y)
#define XOR(x, y)       _mm256_xor_si256(x, y)
#define RIGHT(x, n)     _mm256_srli_epi64(x, n)
#define TIMES(x, y)     times_256(x, y)
#define LOW_TIMES(x, y) _mm256_mul_epu32(x, y)
#define LEFT_32(x)      _mm256_slli_epi64(x, 32)
#include "format/cell_sum_body.h"

#include "base/machine/target_pop.h"
#include "base/machine/target_avx512.h"

#define TS_SUM_NAME(x)  x##_avx512
#define TS_LANES        8
#define TS_VECTOR       __m512i
#define LOAD(p)         _mm512_loadu_si512(p)
#define STORE(p, x)     _mm512_storeu_si512(p, x)
#define SET(x)          _mm512_set1_epi64((long long)(x))
#define WIDEN(p)        _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)(p)))
#define ADD(x, y)       _mm512_add_epi64(x, y)
#define XOR(x, y)       _mm512_xor_si512(x, y)
#define RIGHT(x, n)     _mm512_srli_epi64(x, n)
#define TIMES(x, y)     _mm512_mullo_epi64(x, y)
#define LOW_TIMES(x, y) _mm512_mul_epu32(x, y)
#define LEFT_32(x)      _mm512_slli_epi64(x, 32)
#include "format/cell_sum_body.h"

#include "base/machine/target_pop.h"
#endif

const struct ts_cell_sum_loops ts_cell_sum_loops[TS_N_ISA] = {
    [TS_ISA_PORTABLE] = { term_any, weighted_any, mix_any, unpacked_any, ts_unpack_portable },
#ifdef __x86_64__
    [TS_ISA_AVX2] = { term_avx2, weighted_avx2, mix_avx2, unpacked_avx2, ts_unpack_avx2 },
    [TS_ISA_AVX512] = { term_avx512, weighted_avx512, mix_avx512, unpacked_avx512,
                        ts_unpack_avx512 },
#endif
};

static inline const struct ts_cell_sum_loops *here(void)
{
    return &ts_cell_sum_loops[ts_isa_best()];
}

/* ------------------------------------------------------------------ sums of columns and rows */

void ts_cell_sum_term(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key)
{
    here()->term(s, x, n, key);
}

void ts_cell_sum_weighted(uint64_t *s, const uint64_t *x, uint32_t n)
{
    here()->weighted(s, x, n, ts_cell_key(TS_CELL_VALUE), ts_cell_key(TS_CELL_WEIGHT));
}

void ts_cell_sum_mix(const uint64_t *s, uint32_t n, uint64_t more, struct ts_cell_sum *sum)
{
    here()->mix(s, n, more, sum);
}

INLINE void rows(uint32_t order, const uint64_t key[], const uint64_t *index, uint32_t n,
                 uint64_t *s)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (uint32_t m = 0; m < order; m++)
            sum += index[(uint64_t)i * order + m] * key[m];
        s[i] = sum;
    }
}

void ts_cell_sum_rows(uint32_t order, const uint64_t *index, const uint64_t *value, uint64_t n,
                      int weights, struct ts_cell_sum *sum)
{
    uint64_t key[TS_MAX_ORDER], s[PIECE];
    for (uint32_t m = 0; m < order; m++)
        key[m] = ts_cell_key(m);
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint32_t count = n - first < PIECE ? (uint32_t)(n - first) : PIECE;
        const uint64_t *at = index + first * order;
        if (order == 3)
            rows(3, key, at, count, s);
        else if (order == 4)
            rows(4, key, at, count, s);
        else
            rows(order, key, at, count, s);
        if (weights)
            ts_cell_sum_weighted(s, value + first, count);
        else
            ts_cell_sum_term(s, value + first, count, ts_cell_key(TS_CELL_VALUE));
        ts_cell_sum_mix(s, count, 0, sum);
    }
}

/* ------------------------------------------------------------------ sum of a shard */

/* Checks the tables of a shard: the first block starts after the tables, blocks do not overlap, and
 * the last one ends with the shard. */
static int has_blocks(const struct ts_disk_shard *shard, const uint32_t *word)
{
    uint32_t at = 2 * shard->n_blocks + 1;
    int good = word[0] == at && word[shard->n_blocks] == shard->raw_bytes / 4;
    for (uint32_t b = 0; b < shard->n_blocks; b++)
        good &= word[b + 1] >= word[b];
    return good;
}

int ts_cell_sum_shard(const struct ts_disk_shard *shard, const void *raw, uint32_t order,
                      uint32_t n_codes, const uint8_t level[], struct ts_cell_sum *sum,
                      struct ts_err *err)
{
    /* With the value kind F32 the decoder returns the codes unchanged, as bits of values. */
    const struct ts_unpack_conf conf = {
        .order = order, .n_codes = n_codes, .value_kind = TS_VALUE_F32, .weights = n_codes > 1
    };
    const struct ts_cell_sum_loops *with = here();
    struct ts_cell_sum_keys k = { .order = order,
                                  .n_codes = n_codes,
                                  .code = { ts_cell_key(TS_CELL_VALUE),
                                            ts_cell_key(TS_CELL_WEIGHT) } };
    struct ts_block_parts parts;
    struct ts_unpacked u;
    for (uint32_t l = 0; l < order; l++)
        k.level[l] = ts_cell_key(level[l]);
    if (!has_blocks(shard, raw))
        return ts_fail(err, TS_EFORMAT, "its blocks do not lie one behind the other");
    for (uint32_t b = 0; b < shard->n_blocks; b++) {
        const struct ts_block_at at = ts_shard_block(shard, raw, b);
        const int rc = ts_block_parse(at.word, at.n_words, order, at.nnz, n_codes, &parts, err);
        if (rc < 0)
            return rc;
        with->unpack(&conf, &at, &u);
        with->unpacked(&k, &u, sum);
    }
    return 0;
}
