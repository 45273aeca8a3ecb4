/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of losses. */
#include "stream/loss.h"

#include <math.h>

/* A value that is not a number is not the lesser one. */
static double at_least(double m)
{
    return m < TS_LOSS_LEAST ? TS_LOSS_LEAST : m;
}

static void poisson_weigh(uint32_t n, const double *restrict x, const double *restrict m,
                          double *restrict g)
{
    for (uint32_t i = 0; i < n; i++)
        g[i] = x[i] / at_least(m[i]);
}

static double poisson_judge(uint32_t n, const double *restrict x, const double *restrict m)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * log(at_least(m[i]));
    return sum;
}

const struct ts_loss ts_loss_poisson = { .name = "poisson",
                                         .values = "counts",
                                         .least = 0,
                                         .weigh = poisson_weigh,
                                         .judge = poisson_judge };
