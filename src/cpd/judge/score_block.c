/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes sums over the nonzeros of a block, such as that of squared residuals, compiled for AVX2
 * and for any processor. */
#include "cpd/judge/score_block.h"

#include <math.h>
#include <string.h>

#define LANES TS_SCORE_LANES
#define PART  static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(LANES * sizeof(double))));
typedef uint64_t ints __attribute__((vector_size(LANES * sizeof(uint64_t))));
typedef double there __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));

/* ---- sums of residuals ---- */

PART void add_lanes(const vec *x, const vec *m, vec sum[4])
{
    const vec r = *x - *m;
    sum[0] += *x;
    sum[1] += *m;
    sum[2] += r * r;
    sum[3] += (vec)((ints)r & (UINT64_MAX >> 1));
}

PART double across(const vec *x)
{
    return ((*x)[0] + (*x)[1]) + ((*x)[2] + (*x)[3]);
}

PART void sum_block(uint32_t n, const double *x, const double *m, struct ts_score_sums *ret)
{
    vec sum[4] = { { 0 }, { 0 }, { 0 }, { 0 } };
    const uint32_t whole = n / LANES * LANES;
    vec last_x = { 0 }, last_m = { 0 };
    for (uint32_t i = 0; i < whole; i += LANES) {
        const vec a = *(const there *)(x + i), b = *(const there *)(m + i);
        add_lanes(&a, &b, sum);
    }
    memcpy(&last_x, x + whole, (n - whole) * sizeof *x);
    memcpy(&last_m, m + whole, (n - whole) * sizeof *m);
    add_lanes(&last_x, &last_m, sum);
    *ret = (struct ts_score_sums){ .n = n,
                                   .weight = n,
                                   .value = across(&sum[0]),
                                   .model = across(&sum[1]),
                                   .squares = across(&sum[2]),
                                   .magnitudes = across(&sum[3]) };
}

PART int reaches(uint32_t n, const double *x, const double *m, double least)
{
    const uint32_t whole = n / LANES * LANES;
    ints found = { 0 };
    int last = 0;
    for (uint32_t i = 0; i < whole; i += LANES) {
        const vec r = *(const there *)(x + i) - *(const there *)(m + i);
        found |= (ints)((vec)((ints)r & (UINT64_MAX >> 1)) >= least);
    }
    for (uint32_t i = whole; i < n; i++)
        last |= fabs(x[i] - m[i]) >= least;
    return last || (found[0] | found[1] | found[2] | found[3]) != 0;
}

/* ---- sums of logarithms ---- */

/* ret := log m, within 1 ulp, for normal positive numbers m = 2^k (1 + f) with 1 + f in sqrt(1/2)
 * .. sqrt(2). With s = f / (2 + f),
 *     log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + R(s^2)),
 * R being the minimax polynomial of FreeBSD's e_log.c, of degree 14 in s. log 2 is the sum of two
 * numbers. The first has so few bits that k times it is exact. */
PART void log_lanes(const vec *m, vec *ret)
{
    const uint64_t half = 0x3fe6a09e00000000; /* bits of sqrt(1/2) */
    const ints bits = (ints)*m - half;
    /* a whole number added to 2^52 appears in the last bits of the sum */
    const vec magic = { 0x1p52, 0x1p52, 0x1p52, 0x1p52 };
    const ints shifted = (bits + (UINT64_C(1024) << 52)) >> 52;
    const vec k = (vec)(shifted | (ints)magic) - 0x1p52 - 1024;
    const vec f = (vec)((bits & ((UINT64_C(1) << 52) - 1)) + half) - 1;
    const vec s = f / (2 + f), z = s * s, w = z * z, square = 0.5 * f * f;
    const vec even = w * (3.999999999940941908e-01 +
                          w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const vec odd = z * (6.666666666666735130e-01 +
                         w * (2.857142874366239149e-01 +
                              w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    *ret = k * 6.93147180369123816490e-01 -
           ((square - (s * (square + (even + odd)) + k * 1.90821492927058770002e-10)) - f);
}

/* sum += x log m. Sets lanes of *bad where x is not a count or m is not a positive normal
 * number. */
PART void add_logs(const vec *x, const vec *m, vec *sum, ints *bad)
{
    const vec whole = (*x + 0x1p52) - 0x1p52;
    vec log;
    *bad |= ~(ints)((*x >= 0) & ((whole == *x) | (*x >= 0x1p52)) & (*m >= 0x1p-1022));
    log_lanes(m, &log);
    *sum += *x * log;
}

PART int sum_logs(uint32_t n, const double *x, const double *m, double *ret)
{
    vec sum = { 0 }, last_x = { 0 }, last_m = { 1, 1, 1, 1 };
    ints bad = { 0 };
    const uint32_t whole = n / LANES * LANES;
    for (uint32_t i = 0; i < whole; i += LANES) {
        const vec a = *(const there *)(x + i), b = *(const there *)(m + i);
        add_logs(&a, &b, &sum, &bad);
    }
    memcpy(&last_x, x + whole, (n - whole) * sizeof *x);
    memcpy(&last_m, m + whole, (n - whole) * sizeof *m);
    add_logs(&last_x, &last_m, &sum, &bad);
    *ret = across(&sum);
    return (bad[0] | bad[1] | bad[2] | bad[3]) == 0;
}

/* ---- the functions for each instruction set ---- */

#ifdef __x86_64__
static __attribute__((target("avx2"))) void
sum_block_avx2(uint32_t n, const double *x, const double *m, struct ts_score_sums *ret)
{
    sum_block(n, x, m, ret);
}

static __attribute__((target("avx2"))) int reaches_avx2(uint32_t n, const double *x,
                                                        const double *m, double least)
{
    return reaches(n, x, m, least);
}

static __attribute__((target("avx2"))) int sum_logs_avx2(uint32_t n, const double *x,
                                                         const double *m, double *ret)
{
    return sum_logs(n, x, m, ret);
}
#endif

void ts_score_block(uint32_t n, const double *x, const double *m, struct ts_score_sums *ret)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        sum_block_avx2(n, x, m, ret);
        return;
    }
#endif
    sum_block(n, x, m, ret);
}

static int sum_logs_any(uint32_t n, const double *x, const double *m, double *ret)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return sum_logs_avx2(n, x, m, ret);
#endif
    return sum_logs(n, x, m, ret);
}

int ts_score_logs(uint32_t n, const double *x, const double *m, double *ret)
{
    double above[TS_BLOCK_NNZ];
    if (sum_logs_any(n, x, m, ret))
        return 1;
    for (uint32_t i = 0; i < n; i++) /* 0 log 0 is 0, so it is computed as 0 log 1 */
        above[i] = x[i] == 0 && m[i] >= 0 && m[i] < 0x1p-1022 ? 1 : m[i];
    return sum_logs_any(n, x, above, ret);
}

int ts_score_reaches(uint32_t n, const double *x, const double *m, double least)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return reaches_avx2(n, x, m, least);
#endif
    return reaches(n, x, m, least);
}
