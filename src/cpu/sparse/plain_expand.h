/* SPDX-License-Identifier: BSD-3-Clause */
/* plain_expand.h - expands plain (decoded) blocks to what decoders give (unpack.h). kernel_ISA.c
 * includes it and compiles it for its machine: loops of constant length become vector code. Up to
 * 15 entries past the ends of arrays are read. */
#include <string.h>

#include "cpu/sparse/plain.h"

/* Types for unaligned loads. Copies to aligned memory would be stored in halves and loaded whole,
 * and such a load has to wait. */
typedef uint8_t plain_u8 __attribute__((may_alias));
typedef uint16_t plain_u16 __attribute__((aligned(1), may_alias));
typedef float plain_float __attribute__((aligned(1), may_alias));

/* to[i] = add + from[i], converted by way of int32_t, for which compilers have vector
 * conversions. */
#define PLAIN_WIDEN(name, from_type, to_type)                                                     \
    static inline __attribute__((always_inline)) void name(const char *restrict from, uint32_t n, \
                                                           to_type add, to_type *restrict to)     \
    {                                                                                             \
        for (uint32_t i = 0; i < n; i += 16) {                                                    \
            const from_type *part = (const from_type *)from + i;                                  \
            int32_t wide[16];                                                                     \
            for (uint32_t k = 0; k < 16; k++)                                                     \
                wide[k] = part[k];                                                                \
            for (uint32_t k = 0; k < 16; k++)                                                     \
                to[i + k] = add + (to_type)wide[k];                                               \
        }                                                                                         \
    }
PLAIN_WIDEN(plain_u8_u32, plain_u8, uint32_t)
PLAIN_WIDEN(plain_u16_u32, plain_u16, uint32_t)
PLAIN_WIDEN(plain_u8_u16, plain_u8, uint16_t)
PLAIN_WIDEN(plain_u8_f32, plain_u8, float)
PLAIN_WIDEN(plain_u16_f32, plain_u16, float)
PLAIN_WIDEN(plain_u8_f64, plain_u8, double)
PLAIN_WIDEN(plain_u16_f64, plain_u16, double)
#undef PLAIN_WIDEN

/* Converts float32 to float64. Unlike the other conversions, it reads nothing past the end. */
static inline void plain_f32_f64(const char *restrict from, uint32_t n, double *restrict to)
{
    const plain_float *part = (const plain_float *)from;
    float last[16] = { 0 };
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (uint32_t k = 0; k < 16; k++)
            to[i + k] = part[i + k];
    memcpy(last, from + 4 * (size_t)i, (n - i) * sizeof *last);
    for (uint32_t k = 0; k < 16; k++)
        to[i + k] = last[k];
}

static inline const char *plain_indices(const char *from, uint32_t n, uint32_t bytes, uint32_t *to)
{
    if (bytes == 1)
        plain_u8_u32(from, n, 0, to);
    else if (bytes == 2)
        plain_u16_u32(from, n, 0, to);
    else
        memcpy(to, from, n * sizeof *to);
    return from + (size_t)n * bytes;
}

static inline const char *plain_f32(const struct ts_plain_conf *c, const char *from, uint32_t n,
                                    float *to)
{
    double wide;
    switch (c->value) {
    case TS_PLAIN_CONST:
        for (uint32_t i = 0; i < n; i++)
            to[i] = (float)c->value_base;
        return from;
    case TS_PLAIN_U8:
        plain_u8_f32(from, n, (float)c->value_base, to);
        return from + n;
    case TS_PLAIN_U16:
        plain_u16_f32(from, n, (float)c->value_base, to);
        return from + 2 * n;
    case TS_PLAIN_F32:
        memcpy(to, from, n * sizeof *to);
        return from + 4 * n;
    case TS_PLAIN_F64:
    default:
        for (uint32_t i = 0; i < n; i++) {
            memcpy(&wide, from + 8 * i, sizeof wide);
            to[i] = (float)wide;
        }
        return from + 8 * n;
    }
}

static inline const char *plain_f64(const struct ts_plain_conf *c, const char *from, uint32_t n,
                                    double *to)
{
    switch (c->value) {
    case TS_PLAIN_CONST:
        for (uint32_t i = 0; i < n; i++)
            to[i] = c->value_base;
        return from;
    case TS_PLAIN_U8:
        plain_u8_f64(from, n, c->value_base, to);
        return from + n;
    case TS_PLAIN_U16:
        plain_u16_f64(from, n, c->value_base, to);
        return from + 2 * n;
    case TS_PLAIN_F32:
        plain_f32_f64(from, n, to);
        return from + 4 * n;
    case TS_PLAIN_F64:
    default:
        memcpy(to, from, n * sizeof *to);
        return from + 8 * n;
    }
}

/* Expands the plain (decoded) block at `plain` to *ret, and returns the address of the next
 * block. */
static inline const void *plain_expand(const struct ts_plain_conf *c, const void *plain,
                                       struct ts_unpacked *ret)
{
    const uint32_t leaf = c->order - 1;
    const char *from = plain;
    struct ts_plain_head head;
    memcpy(&head, from, sizeof head);
    from += sizeof head;
    ret->row = head.row;
    ret->n = head.last + 1u;
    ret->n_starts = head.n_starts;
    ret->shared = head.shared;
    ret->n_fibres = head.last_fibre + 1u;
    plain_u8_u16(from, ret->n_starts, 0, ret->start);
    from += ret->n_starts;
    for (uint32_t l = 1; l <= leaf; l++)
        from = plain_indices(from, ret->shared && l < leaf ? ret->n_fibres : ret->n,
                             c->index_bytes[l], ret->idx[l]);
    if (ret->shared)
        from = plain_indices(from, ret->n, 1, ret->idx[0]);
    from = c->as_double ? plain_f64(c, from, ret->n, ret->value.d)
                        : plain_f32(c, from, ret->n, ret->value.f);
    if (!c->weights)
        return from;
    memcpy(ret->weight, from, ret->n * sizeof *ret->weight);
    return from + ret->n * sizeof *ret->weight;
}
