/* SPDX-License-Identifier: BSD-3-Clause */
/* The decoder for AVX-512 (with VPOPCNTDQ: Ice Lake, Zen 4 and later).
 *
 * It unpacks 16 entries at a time. Entry i of a group of 16 starts at bit i * width, so word i *
 * width / 32 and the one after it hold it: two permutations of 16 loaded words and a shift give 16
 * entries. Groups start at whole bytes, 2 * width apart. Differences become indices by prefix sums
 * that restart at absolute entries (block_codec.h), which take four masked shifts and adds for 16
 * nonzeros. */
#include "format/blocks/unpack.h"

#ifdef __x86_64__
#include <immintrin.h>

#include "base/machine/target_avx512.h"
#include "format/blocks/unpack_parse.h"

static inline __m512i iota(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline void add_exceptions(const struct ts_packed *s, const uint8_t *side, uint32_t *out)
{
    for (uint32_t i = 0, high = s->high_bit, pos = s->pos_bit; i < s->n_exc; i++) {
        out[parse_bits(side, pos, 8)] += parse_bits(side, high, s->exc_width) << s->width;
        high += s->exc_width;
        pos += 8;
    }
}

static inline void unpack_stream(const struct ts_packed *s, const uint8_t *side, uint32_t *out)
{
    const __m512i bit = _mm512_mullo_epi32(iota(), _mm512_set1_epi32((int)s->width));
    const __m512i at = _mm512_srli_epi32(bit, 5);
    const __m512i right = _mm512_and_si512(bit, _mm512_set1_epi32(31));
    const __m512i left = _mm512_sub_epi32(_mm512_set1_epi32(32), right);
    const __m512i mask = _mm512_set1_epi32((int)((UINT64_C(1) << s->width) - 1));
    const __m512i base = _mm512_set1_epi32((int)s->base);
    const char *from = (const char *)s->word;
    for (uint32_t i = 0; i < s->n; i += 16, from += 2 * s->width) {
        const __m512i lo = _mm512_permutexvar_epi32(at, _mm512_loadu_si512(from));
        const __m512i hi = _mm512_permutexvar_epi32(at, _mm512_loadu_si512(from + 4));
        const __m512i v =
            _mm512_or_si512(_mm512_srlv_epi32(lo, right), _mm512_sllv_epi32(hi, left));
        _mm512_storeu_si512(out + i, _mm512_add_epi32(_mm512_and_si512(v, mask), base));
    }
    if (s->n_exc > 0)
        add_exceptions(s, side, out);
}

/* Collects the bits of `from` at the positions at which `at` has a 1, and writes them one after
 * another. */
static inline void extract_flags(const struct ts_flags *from, const struct ts_flags *at,
                                 struct ts_flags *ret)
{
    uint64_t word[5] = { 0 };
    uint32_t n = 0;
    for (int k = 0; k < 4; k++) {
        const uint64_t bits = _pext_u64(from->bit[k], at->bit[k]);
        word[n >> 6] |= bits << (n & 63);
        word[(n >> 6) + 1] |= (n & 63) == 0 ? 0 : bits >> (64 - (n & 63));
        n += (uint32_t)__builtin_popcountll(at->bit[k]);
    }
    memcpy(ret->bit, word, sizeof ret->bit);
}

/* Computes the n indices of a level from its two streams. Sets out[i] to the next entry of abs
 * (absolute indices) if restart has bit i, else to out[i - 1] + the next entry of delta
 * (differences). */
static inline void merge(const struct ts_flags *restart, uint32_t n, const uint32_t *abs,
                         const uint32_t *delta, uint32_t *out)
{
    const __m512i zero = _mm512_setzero_si512(), last = _mm512_set1_epi32(15);
    __m512i carry = zero;
    for (uint32_t k = 0; 64 * k < n; k++) {
        const uint32_t end = n < 64 * k + 64 ? n : 64 * k + 64;
        const uint64_t used = end % 64 == 0 ? UINT64_MAX : (UINT64_C(1) << end % 64) - 1;
        /* every entry is absolute, as it is at the leaf level of short fibres */
        if ((~restart->bit[k] & used) == 0) {
            for (uint32_t i = 64 * k; i < end; i += 16, abs += 16)
                _mm512_storeu_si512(out + i, _mm512_loadu_si512(abs));
            carry = _mm512_set1_epi32((int)out[end - 1]);
            continue;
        }
        /* no entry is absolute: prefix sums that begin with the last entry of the 64 before */
        if ((restart->bit[k] & used) == 0) {
            for (uint32_t i = 64 * k; i < end; i += 16, delta += 16) {
                __m512i v = _mm512_loadu_si512(delta);
                v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
                v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
                v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
                v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
                v = _mm512_add_epi32(v, carry);
                carry = _mm512_permutexvar_epi32(last, v);
                _mm512_storeu_si512(out + i, v);
            }
            continue;
        }
        /* Step j adds the entry 2^j positions before, unless a restart (an absolute entry) or the
         * start of the group of 16 entries is in between. */
        const uint64_t go = ~restart->bit[k];
        uint64_t k1 = go & ~UINT64_C(0x0001000100010001), k2 = k1 & k1 << 1, k4 = k2 & k2 << 2;
        uint64_t k8 = k4 & k4 << 4, rest = go;
        for (uint32_t i = 64 * k; i < end; i += 16) {
            const __mmask16 m = (__mmask16)rest, head = (__mmask16)(m & ~(m + 1u));
            __m512i v = _mm512_maskz_expandloadu_epi32(m, delta);
            v = _mm512_mask_expandloadu_epi32(v, (__mmask16)~m, abs);
            v = _mm512_mask_add_epi32(v, (__mmask16)k1, v, _mm512_alignr_epi32(v, zero, 15));
            v = _mm512_mask_add_epi32(v, (__mmask16)k2, v, _mm512_alignr_epi32(v, zero, 14));
            v = _mm512_mask_add_epi32(v, (__mmask16)k4, v, _mm512_alignr_epi32(v, zero, 12));
            v = _mm512_mask_add_epi32(v, (__mmask16)k8, v, _mm512_alignr_epi32(v, zero, 8));
            v = _mm512_mask_add_epi32(v, head, v, carry);
            carry = _mm512_permutexvar_epi32(last, v);
            _mm512_storeu_si512(out + i, v);
            delta += __builtin_popcount(m);
            abs += 16 - __builtin_popcount(m);
            rest >>= 16;
            k1 >>= 16;
            k2 >>= 16;
            k4 >>= 16;
            k8 >>= 16;
        }
    }
}

/* Gives each nonzero the entry of its node, a group of nonzeros that starts at a flag. Sets out[i]
 * to in[c - 1], c the number of flags up to and including i; or to c - 1 if in is NULL. */
static inline void spread(const struct ts_flags *flags, uint32_t n, const uint32_t *in,
                          uint32_t *out)
{
    /* Masks of bits 1..i. Bit 0 is counted in `base`, so a window of 16 entries is enough. */
    const __m512i upto =
        _mm512_sub_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(2), iota()), _mm512_set1_epi32(2));
    uint32_t before = 0;
    for (uint32_t i = 0; i < n; i += 16) {
        const uint32_t f = (uint32_t)(flags->bit[i >> 6] >> (i & 63)) & 0xFFFF;
        const uint32_t base = before + (f & 1) - 1;
        const __m512i at = _mm512_popcnt_epi32(_mm512_and_si512(_mm512_set1_epi32((int)f), upto));
        const __m512i v = in == NULL ? _mm512_add_epi32(at, _mm512_set1_epi32((int)base))
                                     : _mm512_permutexvar_epi32(at, _mm512_loadu_si512(in + base));
        _mm512_storeu_si512(out + i, v);
        before += (uint32_t)__builtin_popcount(f);
    }
}

static inline void fill(uint32_t value, uint32_t n, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i += 16)
        _mm512_storeu_si512(out + i, _mm512_set1_epi32((int)value));
}

static void list_starts(const struct parse *p, struct ts_unpacked *ret)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < 4; k++)
        for (uint64_t bits = p->flags[0].bit[k] & (k == 0 ? ~UINT64_C(1) : UINT64_MAX); bits != 0;
             bits &= bits - 1)
            ret->start[n++] = (uint16_t)(64 * k + (uint32_t)__builtin_ctzll(bits));
}

/* Returns the indices of the nodes of level l (groups of nonzeros that agree down to this level):
 * one for each flag of the level. */
static inline const uint32_t *level_nodes(const struct parse *p, uint32_t l, uint32_t *abs,
                                          uint32_t *delta, uint32_t *out)
{
    const struct ts_packed *sa = &p->stream[2 * l - 2], *sd = sa + 1;
    struct ts_flags restart;
    unpack_stream(sa, p->side, sd->n == 0 ? out : abs);
    if (sd->n == 0)
        return out;
    unpack_stream(sd, p->side, delta);
    extract_flags(&p->flags[l - 1], &p->flags[l], &restart);
    merge(&restart, p->n_set[l], abs, delta, out);
    return out;
}

static void fill_values(const struct ts_unpack_conf *conf, const struct parse *p,
                        struct ts_unpacked *ret, uint32_t *code0, uint32_t *code1)
{
    const struct ts_packed *s = &p->stream[2 * (conf->order - 1)];
    const __m512d base = _mm512_set1_pd(conf->value_base);
    const __m512 small_base = _mm512_set1_ps((float)conf->value_base);
    if (conf->n_codes > 0)
        unpack_stream(s, p->side, code0);
    if (conf->n_codes > 1)
        unpack_stream(s + 1, p->side, code1);
    if (conf->weights)
        memcpy(ret->weight, code1, ret->n * sizeof *ret->weight);
    if (conf->value_kind == TS_VALUE_F32 && !conf->as_double) {
        memcpy(ret->value.f, code0, sizeof(float) * TS_BLOCK_NNZ);
        return;
    }
    if (conf->small && !conf->as_double) {
        for (uint32_t i = 0; i < ret->n; i += 16)
            _mm512_storeu_ps(
                ret->value.f + i,
                _mm512_add_ps(small_base, _mm512_cvtepu32_ps(_mm512_loadu_si512(code0 + i))));
        return;
    }
    for (uint32_t i = 0; i < ret->n; i += 8) {
        const __m256i c = _mm256_loadu_si256((const __m256i *)(code0 + i));
        __m512d v = base;
        switch (conf->value_kind) {
        case TS_VALUE_INT:
            v = _mm512_add_pd(base, _mm512_cvtepu32_pd(c));
            break;
        case TS_VALUE_DICT: /* entries after the last nonzero are not valid codes */
            v = _mm512_mask_i32gather_pd(
                base, (__mmask8)(ret->n - i >= 8 ? 255 : (1 << (ret->n - i)) - 1), c, conf->dict,
                8);
            break;
        case TS_VALUE_F32:
            v = _mm512_cvtps_pd(_mm256_castsi256_ps(c));
            break;
        case TS_VALUE_F64:
            v = _mm512_castsi512_pd(_mm512_or_si512(
                _mm512_slli_epi64(_mm512_cvtepu32_epi64(c), 32),
                _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(code1 + i)))));
            break;
        }
        if (conf->as_double)
            _mm512_storeu_pd(ret->value.d + i, v);
        else
            _mm256_storeu_ps(ret->value.f + i, _mm512_cvtpd_ps(v));
    }
}

void ts_unpack_avx512(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                      struct ts_unpacked *ret)
{
    const uint32_t leaf = conf->order - 1, n = at->nnz;
    uint32_t abs[TS_BLOCK_NNZ + TS_UNPACK_SLACK], delta[TS_BLOCK_NNZ + TS_UNPACK_SLACK];
    uint32_t node[TS_BLOCK_NNZ + TS_UNPACK_SLACK];
    struct parse p;
    parse_block(conf, at, &p);
    ret->n = n;
    ret->row = at->row;
    ret->n_starts = p.n_set[0] - 1;
    list_starts(&p, ret);
    ret->n_fibres = p.n_set[leaf - 1];
    ret->shared = ts_unpack_shares(conf->order, n, ret->n_fibres);
    for (uint32_t l = 1; l < leaf; l++) {
        const uint32_t n_out = ret->shared ? ret->n_fibres : n;
        struct ts_flags flags = p.flags[l];
        if (p.n_set[l] == n_out) {
            level_nodes(&p, l, abs, delta, ret->idx[l]);
            continue;
        }
        level_nodes(&p, l, abs, delta, node);
        if (p.n_set[l] == 1) {
            fill(node[0], n_out, ret->idx[l]);
            continue;
        }
        if (ret->shared)
            extract_flags(&p.flags[l], &p.flags[leaf - 1], &flags);
        spread(&flags, n_out, node, ret->idx[l]);
    }
    level_nodes(&p, leaf, abs, delta, ret->idx[leaf]);
    if (ret->shared)
        spread(&p.flags[leaf - 1], n, NULL, ret->idx[0]);
    fill_values(conf, &p, ret, abs, delta);
}

#include "base/machine/target_pop.h"
#else

void ts_unpack_avx512(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                      struct ts_unpacked *ret)
{
    ts_unpack_portable(conf, at, ret);
}
#endif
