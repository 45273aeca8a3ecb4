/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes congruences, singular values and cancellation from Gram matrices. */
#include "tools/report/report_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the cosine of columns a and b of a mode; 0 if one of them is zero. */
static double cosine(const struct report_mode *m, uint32_t n, uint32_t a, uint32_t b)
{
    const double aa = m->gram[(size_t)a * n + a], bb = m->gram[(size_t)b * n + b];
    const double norms = sqrt(aa) * sqrt(bb);
    return norms > 0 ? m->gram[(size_t)a * n + b] / norms : 0;
}

/* For each two components, multiplies the cosines of their columns in all modes but `without`. */
static void multiply_cosines(const struct report_scan *s, uint32_t without, double *ret)
{
    const uint32_t n = s->components;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            double x = 1;
            for (uint32_t m = 0; m < s->order; m++)
                if (m != without)
                    x *= cosine(&s->mode[m], n, a, b);
            ret[(size_t)a * n + b] = x;
        }
}

static double rest_of(const double *v, uint32_t n)
{
    double sum = 0;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++)
            sum += v[(size_t)a * n + b] * v[(size_t)a * n + b];
    return sum;
}

/* Applies a Jacobi rotation that makes v(p, q) zero. */
static void rotate(double *v, uint32_t n, uint32_t p, uint32_t q)
{
    const double apq = v[(size_t)p * n + q];
    const double theta = (v[(size_t)q * n + q] - v[(size_t)p * n + p]) / (2 * apq);
    const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    for (uint32_t i = 0; i < n; i++) {
        const double x = v[(size_t)i * n + p], y = v[(size_t)i * n + q];
        v[(size_t)i * n + p] = c * x - s * y;
        v[(size_t)i * n + q] = s * x + c * y;
    }
    for (uint32_t i = 0; i < n; i++) {
        const double x = v[(size_t)p * n + i], y = v[(size_t)q * n + i];
        v[(size_t)p * n + i] = c * x - s * y;
        v[(size_t)q * n + i] = s * x + c * y;
    }
}

static int largest_first(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : -(x > y);
}

/* Computes the singular values of a symmetric matrix with ones on its diagonal, largest first. v is
 * overwritten. */
static void singular_values(double *v, uint32_t n, double *ret)
{
    for (int sweep = 0; sweep < 60 && rest_of(v, n) > 1e-30 * n; sweep++)
        for (uint32_t p = 0; p < n; p++)
            for (uint32_t q = p + 1; q < n; q++)
                if (fabs(v[(size_t)p * n + q]) > 1e-18)
                    rotate(v, n, p, q);
    for (uint32_t i = 0; i < n; i++)
        ret[i] = fabs(v[(size_t)i * n + i]);
    qsort(ret, n, sizeof *ret, largest_first);
}

static double cancelling(const struct report_scan *s, const double *weight)
{
    const uint32_t n = s->components;
    double squares = 0, sum = 0;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            double x = weight[a] * weight[b];
            for (uint32_t m = 0; m < s->order; m++)
                x *= s->mode[m].gram[(size_t)a * n + b];
            sum += x;
            squares += a == b ? x : 0;
        }
    return sum > 0 ? squares / sum : squares > 0 ? INFINITY : 1;
}

int report_figures_new(const struct report_scan *s, const double *weight,
                       struct report_figures *ret, struct ts_err *err)
{
    const uint32_t n = s->components;
    double *v = malloc((size_t)n * n * sizeof *v);
    memset(ret, 0, sizeof *ret);
    ret->n = n;
    ret->order = s->order;
    ret->congruence = malloc((size_t)n * n * sizeof *ret->congruence);
    if (n <= REPORT_MOST_SOLVED)
        ret->singular = malloc((size_t)s->order * n * sizeof *ret->singular);
    if (v == NULL || ret->congruence == NULL ||
        (n <= REPORT_MOST_SOLVED && ret->singular == NULL)) {
        free(v);
        return ts_fail(err, TS_ENOMEM, "out of memory for %u components", n);
    }
    multiply_cosines(s, s->order, ret->congruence);
    for (uint32_t m = 0; m < s->order && ret->singular != NULL; m++) {
        multiply_cosines(s, m, v);
        singular_values(v, n, ret->singular + (size_t)m * n);
    }
    ret->cancelling = cancelling(s, weight);
    free(v);
    return 0;
}

void report_figures_free(struct report_figures *f)
{
    free(f->congruence);
    free(f->singular);
}
