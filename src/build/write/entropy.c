/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes log2 of binomial coefficients, also of numbers too large for lgamma. */
#include "build/write/entropy.h"

#include <math.h>

#include "format/tensor.h"

/* From this n on, Stirling's series with one correction term is exact to one or two last bits. */
#define STIRLING_FROM 1024.0

double ts_entropy_log2_choose(double n, double k)
{
    double falling, m;
    if (k <= 0 || k >= n)
        return 0;
    if (k > n - k)
        k = n - k;
    m = n - k;
    if (n < STIRLING_FROM)
        return (lgamma(n + 1) - lgamma(k + 1) - lgamma(m + 1)) / M_LN2;
    /* ln(n! / m!), where m = n - k, by Stirling's series, with the large terms cancelled by hand:
     * lgamma(n + 1) - lgamma(m + 1) loses every digit from about n = 2^50 on. m is at least n / 2,
     * so the series is exact for m, too. */
    falling = k * log(n) - (m + 0.5) * log1p(-k / n) - k + (1 / n - 1 / m) / 12;
    return (falling - lgamma(k + 1)) / M_LN2;
}

double ts_tensor_entropy_bound(const struct ts_tensor *t)
{
    const double nnz = (double)t->nnz;
    double cells = 1;
    if (t->nnz == 0)
        return 0;
    for (uint32_t m = 0; m < t->order; m++)
        cells *= (double)t->mode[m].disk.dim;
    return (ts_entropy_log2_choose(cells, nnz) + nnz * t->header.value_bits) / (8 * nnz);
}
