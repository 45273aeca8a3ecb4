/* SPDX-License-Identifier: BSD-3-Clause */
/* unpack_scalar.h - the decoder without vector instructions other than unpack_neon.h.
 * unpack_portable.c and unpack_avx2.c include it and compile it for their machines. Code branches
 * only on the kinds of streams and flags; loops over entries have no branches that depend on
 * data. */
#include "format/blocks/unpack_parse.h"

#ifdef __aarch64__
#include "format/blocks/unpack_neon.h"
#else
/* Sets out[i] to the base of the stream plus its entry i. */
static inline void unpack_entries(const struct ts_packed *s, uint32_t *out)
{
    const uint8_t *bytes = (const uint8_t *)s->word;
    for (uint32_t i = 0, bit = 0; i < s->n; i++, bit += s->width)
        out[i] = s->base + parse_bits(bytes, bit, s->width);
}
#endif

static inline uint32_t flag_at(const struct ts_flags *f, uint32_t p)
{
    return (uint32_t)(f->bit[p >> 6] >> (p & 63)) & 1;
}

static inline void unpack_stream(const struct ts_packed *s, const uint8_t *side, uint32_t *out)
{
    unpack_entries(s, out);
    for (uint32_t i = 0; i < s->n_exc; i++)
        out[parse_bits(side, s->pos_bit + 8 * i, 8)] +=
            parse_bits(side, s->high_bit + i * s->exc_width, s->exc_width) << s->width;
}

/* Computes the indices at level l of the nonzeros at which `keep` has a 1, and writes them to out
 * one after another. */
static inline void unpack_level(const struct parse *p, uint32_t l, uint32_t n,
                                const struct ts_flags *keep, uint32_t *out)
{
    uint32_t abs[TS_BLOCK_NNZ + 1], delta[TS_BLOCK_NNZ + 1];
    uint32_t index = 0, ia = 0, id = 0, kept = 0;
    unpack_stream(&p->stream[2 * l - 2], p->side, abs);
    unpack_stream(&p->stream[2 * l - 1], p->side, delta);
    /* the loop reads one entry after the last, but does not use it */
    abs[p->stream[2 * l - 2].n] = delta[p->stream[2 * l - 1].n] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t restart = flag_at(&p->flags[l - 1], i);
        const uint32_t step = flag_at(&p->flags[l], i) & ~restart;
        const uint32_t next = index + (delta[id] & (0 - step));
        index = restart ? abs[ia] : next;
        ia += restart;
        id += step;
        out[kept] = index;
        kept += flag_at(keep, i);
    }
}

static inline double code_value(const struct ts_unpack_conf *conf, uint32_t code0, uint32_t code1)
{
    const uint64_t bits = (uint64_t)code0 << 32 | code1;
    double v = conf->value_base;
    float f;
    switch (conf->value_kind) {
    case TS_VALUE_INT:
        v += code0;
        break;
    case TS_VALUE_DICT:
        v = conf->dict[code0];
        break;
    case TS_VALUE_F32:
        memcpy(&f, &code0, sizeof f);
        v = f;
        break;
    case TS_VALUE_F64:
        memcpy(&v, &bits, sizeof v);
        break;
    }
    return v;
}

static inline void unpack_scalar(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                                 struct ts_unpacked *ret)
{
    const uint32_t leaf = conf->order - 1, n = at->nnz;
    uint32_t code[2][TS_BLOCK_NNZ];
    const struct ts_flags *keep;
    struct parse p;
    parse_block(conf, at, &p);
    ret->n = n;
    ret->row = at->row;
    ret->n_starts = 0;
    for (uint32_t i = 1; i < n; i++) {
        ret->start[ret->n_starts] = (uint16_t)i;
        ret->n_starts += flag_at(&p.flags[0], i);
    }
    ret->n_fibres = p.n_set[leaf - 1];
    ret->shared = ts_unpack_shares(conf->order, n, ret->n_fibres);
    keep = &p.flags[ret->shared ? leaf - 1 : leaf];
    for (uint32_t l = 1; l < leaf; l++)
        unpack_level(&p, l, n, keep, ret->idx[l]);
    unpack_level(&p, leaf, n, &p.flags[leaf], ret->idx[leaf]);
    for (uint32_t i = 0, fibre = UINT32_MAX; i < n && ret->shared; i++) {
        fibre += flag_at(&p.flags[leaf - 1], i);
        ret->idx[0][i] = fibre;
    }
    for (uint32_t c = 0; c < conf->n_codes; c++)
        unpack_stream(&p.stream[2 * leaf + c], p.side, code[c]);
    if (conf->weights)
        memcpy(ret->weight, code[1], n * sizeof *ret->weight);
    for (uint32_t i = 0; i < n; i++) {
        const double v = code_value(conf, conf->n_codes > 0 ? code[0][i] : 0,
                                    conf->n_codes > 1 ? code[1][i] : 0);
        if (conf->as_double)
            ret->value.d[i] = v;
        else
            ret->value.f[i] = (float)v;
    }
}
