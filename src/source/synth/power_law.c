/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes ranks drawn from a power law: by a vectorised estimate, and by pow() where the estimate
 * is not certain. */
#include "source/synth/power_law.h"

#include <math.h>
#include <string.h>

/* The estimate is within 2^-45 of the true power: its logarithm in base 2, at most 41, has a
 * relative error of 2^-51, and the polynomials have 2^-49. pow() is within 2^-52. This margin is
 * far wider, and pow() is still called for at most two of 10^4 draws for n up to 5 million. */
#define MARGIN 0x1p-36

void ts_power_law_init(struct ts_power_law *p, double a, uint64_t n)
{
    const double top = (double)n + 1;
    p->a = a;
    p->n = n;
    p->is_exp = fabs(a - 1) < 1e-9;
    p->slope = p->is_exp ? log(top) : pow(top, 1 - a) - 1;
    p->exponent = p->is_exp ? 1 : 1 / (1 - a);
}

static uint64_t cut(const struct ts_power_law *p, double y)
{
    const uint64_t k = y < 1 ? 0 : (uint64_t)(int64_t)y - 1;
    return k < p->n ? k : p->n - 1;
}

uint64_t ts_power_law_rank(const struct ts_power_law *p, double x)
{
    return cut(p, p->is_exp ? exp(x * p->slope) : pow(1 + x * p->slope, p->exponent));
}

/* Sets v[i] to scale * log2(v[i]), for v[i] > 0 and normal. This loop has no branch and no call, so
 * that compilers vectorise it, and is inlined once for each instruction set. */
static inline __attribute__((always_inline)) void estimate_log(double *v, uint32_t n, double scale)
{
    for (uint32_t i = 0; i < n; i++) {
        /* v[i] = 2^e m with a whole e and with m in [sqrt(1/2), sqrt(2)) */
        const uint64_t half = UINT64_C(0x3fe6a09e667f3bcd);
        uint64_t bits, exponent;
        double m, e, s, z, sum;
        memcpy(&bits, &v[i], 8);
        exponent = (bits - half) >> 52; /* the exponent, in 12 bits, as it may be negative */
        bits -= exponent << 52;
        memcpy(&m, &bits, 8);
        bits = UINT64_C(0x4338000000000000) + ((exponent ^ 0x800) - 0x800);
        memcpy(&e, &bits,
               8); /* the bits of 1.5 * 2^52 + the exponent: converts an integer to a double */
        e -= 0x1.8p52;
        /* ln m = 2 atanh s, as a series in s; |s| <= 0.1716, so the first term left out is below
         * 2^-52 of ln m */
        s = (m - 1) / (m + 1);
        z = s * s;
        sum = 1.0 / 19;
        sum = sum * z + 1.0 / 17;
        sum = sum * z + 1.0 / 15;
        sum = sum * z + 1.0 / 13;
        sum = sum * z + 1.0 / 11;
        sum = sum * z + 1.0 / 9;
        sum = sum * z + 1.0 / 7;
        sum = sum * z + 1.0 / 5;
        sum = sum * z + 1.0 / 3;
        sum = sum * z + 1.0;
        v[i] = (e + 2.8853900817779268 * s * sum) * scale;
    }
}

/* Sets v[i] to 2^v[i], for |v[i]| below 1000. */
static inline __attribute__((always_inline)) void estimate_exp(double *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        /* adding 1.5 * 2^52 rounds v[i] to a whole number, which is then in the low bits */
        const double shifted = v[i] + 0x1.8p52;
        const double f = (v[i] - (shifted - 0x1.8p52)) * 0.69314718055994531;
        double sum = 1.0 / 479001600;
        uint64_t whole, bits;
        sum = sum * f + 1.0 / 39916800;
        sum = sum * f + 1.0 / 3628800;
        sum = sum * f + 1.0 / 362880;
        sum = sum * f + 1.0 / 40320;
        sum = sum * f + 1.0 / 5040;
        sum = sum * f + 1.0 / 720;
        sum = sum * f + 1.0 / 120;
        sum = sum * f + 1.0 / 24;
        sum = sum * f + 1.0 / 6;
        sum = sum * f + 1.0 / 2;
        sum = sum * f + 1.0;
        sum = sum * f + 1.0;
        memcpy(&whole, &shifted, 8);
        memcpy(&bits, &sum, 8);
        bits += whole << 52;
        memcpy(&v[i], &bits, 8);
    }
}

static inline __attribute__((always_inline)) void estimate(const struct ts_power_law *p, double *v,
                                                           uint32_t n)
{
    if (!p->is_exp)
        estimate_log(v, n, p->exponent);
    estimate_exp(v, n);
}

static void estimate_plain(const struct ts_power_law *p, double *v, uint32_t n)
{
    estimate(p, v, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void estimate_avx2(const struct ts_power_law *p,
                                                              double *v, uint32_t n)
{
    estimate(p, v, n);
}
#endif

void ts_power_law_ranks(const struct ts_power_law *p, const double *x, uint32_t count,
                        uint64_t *rank)
{
    double y[TS_POWER_LAW_PIECE];
    if (p->is_exp)
        for (uint32_t i = 0; i < count; i++)
            y[i] = x[i] * p->slope * 1.4426950408889634;
    else
        for (uint32_t i = 0; i < count; i++)
            /* computed as in ts_power_law_rank, so that both round alike */
            y[i] = 1 + x[i] * p->slope;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        estimate_avx2(p, y, count);
    else
#endif
        estimate_plain(p, y, count);
    for (uint32_t i = 0; i < count; i++) {
        const double margin = y[i] * MARGIN;
        const uint64_t k = cut(p, y[i] - margin);
        /* pow() also decides if the estimate is out of range or not a number */
        rank[i] = y[i] < 0x1p50 && k == cut(p, y[i] + margin) ? k : ts_power_law_rank(p, x[i]);
    }
}
