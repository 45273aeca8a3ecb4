/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the kernel for an instruction set, a precision and a row stride. */
#include "cpu/sparse/kernel.h"

#include <string.h>

#include "cpu/sparse/kernel_isa.h"

/* Returns the kernels for an instruction set and a precision, or NULL if this machine or build has
 * none. */
static const struct ts_kernel_set *find_set(enum ts_isa isa, enum ts_precision stored,
                                            enum ts_precision summed, uint32_t stride)
{
    const int kind = summed == TS_FLOAT32 ? 0 : stored == TS_FLOAT64 ? 1 : 2;
    static const struct ts_kernel_set *const portable[] = { &ts_kernels_portable_f32,
                                                            &ts_kernels_portable_f64,
                                                            &ts_kernels_portable_wide };
#ifdef __x86_64__
    static const struct ts_kernel_set *const avx2[] = { &ts_kernels_avx2_f32, &ts_kernels_avx2_f64,
                                                        &ts_kernels_avx2_wide };
    static const struct ts_kernel_set *const avx512[] = { &ts_kernels_avx512_f32,
                                                          &ts_kernels_avx512_f64,
                                                          &ts_kernels_avx512_wide };
#endif
    if (!ts_isa_here(isa))
        return NULL;
#ifdef __x86_64__
    if (isa == TS_ISA_AVX512)
        return kind == 0 && stride < 16 ? &ts_kernels_avx512_narrow : avx512[kind];
    if (isa == TS_ISA_AVX2)
        return avx2[kind];
#endif
    (void)stride;
    return portable[kind];
}

ts_kernel_fn *ts_kernel_get(enum ts_isa isa, enum ts_precision stored, enum ts_precision summed,
                            uint32_t stride)
{
    const struct ts_kernel_set *set = find_set(isa, stored, summed, stride);
    return set == NULL ? NULL : set->products;
}

ts_cells_fn *ts_cells_get(enum ts_isa isa, enum ts_precision precision, uint32_t stride)
{
    const struct ts_kernel_set *set = find_set(isa, precision, precision, stride);
    return set == NULL ? NULL : set->cells;
}

const struct ts_rounds_ops *ts_rounds_get(enum ts_isa isa, enum ts_precision precision,
                                          uint32_t stride)
{
    const struct ts_kernel_set *set = find_set(isa, precision, precision, stride);
    return set == NULL ? NULL : set->rounds;
}

const struct ts_gram_ops *ts_gram_get(enum ts_isa isa, enum ts_precision precision, uint32_t stride)
{
    const struct ts_kernel_set *set = find_set(isa, precision, precision, stride);
    return set == NULL ? NULL : set->gram;
}

void ts_gram_straighten(const struct ts_gram *g, uint32_t turned)
{
    double block[TS_GRAM_TURNED / 2 + 1][TS_GRAM_TURNED];
    for (uint32_t first = 0; turned > 0 && first < g->rank; first += turned) {
        double *s = g->s + (size_t)first * g->stride + first;
        for (uint32_t d = 0; d <= turned / 2; d++)
            memcpy(block[d], s + (size_t)d * g->stride, turned * sizeof *s);
        for (uint32_t d = 0; d <= turned / 2; d++)
            for (uint32_t j = 0; j < turned; j++) {
                const uint32_t other = (j + d) % turned, i = j < other ? j : other;
                s[(size_t)i * g->stride + j + other - i] = block[d][j];
            }
    }
}

void ts_kernel_rows(const struct ts_unpacked *b, uint32_t l, uint32_t leaf, uint32_t *to)
{
    if (l == 0) {
        uint32_t p = 0;
        for (uint32_t s = 0; s <= b->n_starts; s++)
            for (const uint32_t end = s < b->n_starts ? b->start[s] : b->n; p < end; p++)
                to[p] = b->row + s;
    } else if (b->shared && l < leaf) {
        for (uint32_t p = 0; p < b->n; p++)
            to[p] = b->idx[l][b->idx[0][p]];
    } else {
        memcpy(to, b->idx[l], b->n * sizeof *to);
    }
}

void ts_kernel_hash(const struct ts_hold_out *h, uint32_t order, const uint8_t *level,
                    const struct ts_unpacked *b, uint64_t *hash)
{
    uint32_t row[TS_BLOCK_NNZ];
    for (uint32_t p = 0; p < b->n; p++)
        hash[p] = ts_hold_out_begin(h);
    for (uint32_t m = 0; m < order; m++) {
        uint32_t l = 0;
        while (level[l] != m)
            l++;
        ts_kernel_rows(b, l, order - 1, row);
        for (uint32_t p = 0; p < b->n; p++)
            hash[p] = ts_hold_out_add(hash[p], row[p]);
    }
}

void ts_kernel_hold_out(const struct ts_kernel_job *job, struct ts_unpacked *b)
{
    uint64_t hash[TS_BLOCK_NNZ];
    ts_kernel_hash(&job->hold_out, job->order, job->level, b, hash);
    for (uint32_t p = 0; p < b->n; p++)
        if (!ts_hold_out_held(&job->hold_out, hash[p]))
            continue;
        else if (job->unpack.as_double)
            b->value.d[p] = 0;
        else
            b->value.f[p] = 0;
}

void ts_kernel_values(const struct ts_tensor *t, enum ts_precision precision,
                      struct ts_unpack_conf *ret)
{
    const struct ts_disk_header *h = &t->header;
    ret->order = t->order;
    ret->n_codes = ts_header_codes(h);
    ret->value_kind = h->value_kind;
    ret->weights = ts_tensor_weighted(t);
    ret->as_double = precision == TS_FLOAT64;
    /* float32 holds integers up to 2^24 exactly, and therefore the sum of two integers up to half
     * of that */
    ret->small =
        h->value_kind == TS_VALUE_INT && h->value_base >= -0x1p23 && h->value_max <= 0x1p23;
    ret->value_base = h->value_base;
    ret->dict = t->dict;
}

ts_unpack_fn *ts_kernel_unpack(enum ts_isa isa)
{
#ifdef __x86_64__
    if (isa == TS_ISA_AVX512)
        return ts_unpack_avx512;
    if (isa == TS_ISA_AVX2)
        return ts_unpack_avx2;
#endif
    (void)isa;
    return ts_unpack_portable;
}
