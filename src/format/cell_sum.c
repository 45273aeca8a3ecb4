/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of hashes, as loops that compilers vectorise: once for any machine and once for AVX-512,
 * which multiplies 64 bits in one instruction. */
#include "format/cell_sum.h"

#include <string.h>

#include "base/machine/isa.h"
#include "format/shard.h"
#include "format/blocks/unpack.h"

#define INLINE static inline __attribute__((always_inline))
#define PIECE  TS_BLOCK_NNZ

/* ------------------------------------------------------------------ the loops */

INLINE void term_64(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key)
{
    for (uint32_t i = 0; i < n; i++)
        s[i] += x[i] * key;
}

INLINE void term_32(uint64_t *s, const uint32_t *x, uint32_t n, uint64_t key)
{
    for (uint32_t i = 0; i < n; i++)
        s[i] += x[i] * key;
}

INLINE void term_weighted(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key,
                          uint64_t weight_key)
{
    for (uint32_t i = 0; i < n; i++)
        s[i] += (x[i] >> 32) * key + (x[i] & UINT32_MAX) * weight_key;
}

INLINE void mix(const uint64_t *s, uint32_t n, uint64_t more, struct ts_cell_sum *sum)
{
    const uint64_t first = ts_mix(101) | 1, second = ts_mix(102) | 1;
    uint64_t word0 = 0, word1 = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t a = s[i] + more, x = (a ^ a >> 32) * first, x2 = x ^ x >> 29;
        const uint64_t y = x2 * second;
        word0 += x2;
        word1 += y ^ y >> 32;
    }
    sum->n += n;
    sum->word[0] += word0;
    sum->word[1] += word1;
}

/* The keys of the levels of a copy, and of its codes. */
struct keys {
    uint32_t order, n_codes;
    uint64_t level[TS_MAX_ORDER], code[2];
};

/* The cells of a decoded block. Its codes lie where their values would, bit for bit. */
INLINE void add_unpacked(const struct keys *k, const struct ts_unpacked *u, struct ts_cell_sum *sum)
{
    const uint32_t n = u->n, leaf = k->order - 1;
    uint64_t s[TS_BLOCK_NNZ], fibre[TS_BLOCK_NNZ];
    uint32_t code[TS_BLOCK_NNZ];
    for (uint32_t r = 0, p = 0; r <= u->n_starts; r++) {
        const uint64_t row = (uint64_t)(u->row + r) * k->level[0];
        for (const uint32_t end = r < u->n_starts ? u->start[r] : n; p < end; p++)
            s[p] = row;
    }
    if (u->shared) {
        memset(fibre, 0, u->n_fibres * sizeof *fibre);
        for (uint32_t l = 1; l < leaf; l++)
            term_32(fibre, u->idx[l], u->n_fibres, k->level[l]);
        for (uint32_t p = 0; p < n; p++)
            s[p] += fibre[u->idx[0][p]];
    } else {
        for (uint32_t l = 1; l < leaf; l++)
            term_32(s, u->idx[l], n, k->level[l]);
    }
    term_32(s, u->idx[leaf], n, k->level[leaf]);
    if (k->n_codes > 0) {
        memcpy(code, u->value.f, n * sizeof *code);
        term_32(s, code, n, k->code[0]);
    }
    if (k->n_codes > 1) {
        memcpy(code, u->weight, n * sizeof *code);
        term_32(s, code, n, k->code[1]);
    }
    mix(s, n, 0, sum);
}

typedef void term_fn(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key);
typedef void weighted_fn(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key,
                         uint64_t weight_key);
typedef void mix_fn(const uint64_t *s, uint32_t n, uint64_t more, struct ts_cell_sum *sum);
typedef void unpacked_fn(const struct keys *k, const struct ts_unpacked *u,
                         struct ts_cell_sum *sum);

/* The functions of one kind of machine. */
#define FUNCTIONS(machine)                                                                   \
    static void term_##machine(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key)     \
    {                                                                                        \
        term_64(s, x, n, key);                                                               \
    }                                                                                        \
    static void weighted_##machine(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key, \
                                   uint64_t weight_key)                                      \
    {                                                                                        \
        term_weighted(s, x, n, key, weight_key);                                             \
    }                                                                                        \
    static void mix_##machine(const uint64_t *s, uint32_t n, uint64_t more,                  \
                              struct ts_cell_sum *sum)                                       \
    {                                                                                        \
        mix(s, n, more, sum);                                                                \
    }                                                                                        \
    static void unpacked_##machine(const struct keys *k, const struct ts_unpacked *u,        \
                                   struct ts_cell_sum *sum)                                  \
    {                                                                                        \
        add_unpacked(k, u, sum);                                                             \
    }

FUNCTIONS(any)

#ifdef __x86_64__
#include "base/machine/target_avx512.h"
FUNCTIONS(avx512)
#include "base/machine/target_pop.h"
#else
#define term_avx512     term_any
#define weighted_avx512 weighted_any
#define mix_avx512      mix_any
#define unpacked_avx512 unpacked_any
#endif

static inline int wide(void)
{
    return ts_isa_here(TS_ISA_AVX512);
}

/* ------------------------------------------------------------------ columns and rows */

void ts_cell_sum_term(uint64_t *s, const uint64_t *x, uint32_t n, uint64_t key)
{
    (wide() ? term_avx512 : term_any)(s, x, n, key);
}

void ts_cell_sum_weighted(uint64_t *s, const uint64_t *x, uint32_t n)
{
    (wide() ? weighted_avx512 : weighted_any)(s, x, n, ts_cell_key(TS_CELL_VALUE),
                                              ts_cell_key(TS_CELL_WEIGHT));
}

void ts_cell_sum_mix(const uint64_t *s, uint32_t n, uint64_t more, struct ts_cell_sum *sum)
{
    (wide() ? mix_avx512 : mix_any)(s, n, more, sum);
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

/* ------------------------------------------------------------------ a shard */

/* Whether the tables say where blocks lie, one behind the other, as many as there are. */
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
    /* with these, a decoder gives the codes themselves */
    const struct ts_unpack_conf conf = {
        .order = order, .n_codes = n_codes, .value_kind = TS_VALUE_F32, .weights = n_codes > 1
    };
    ts_unpack_fn *unpack = wide()                     ? ts_unpack_avx512
                           : ts_isa_here(TS_ISA_AVX2) ? ts_unpack_avx2
                                                      : ts_unpack_portable;
    struct keys k = { .order = order,
                      .n_codes = n_codes,
                      .code = { ts_cell_key(TS_CELL_VALUE), ts_cell_key(TS_CELL_WEIGHT) } };
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
        unpack(&conf, &at, &u);
        if (wide())
            unpacked_avx512(&k, &u, sum);
        else
            unpacked_any(&k, &u, sum);
    }
    return 0;
}
