#include "cpd/symm.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"

#define MAX_SWEEPS 60 /* Jacobi needs about 10; a bound in case of NaN */

/* Four running sums: the compiler may vectorise, the order of additions is fixed. */
static double dot(uint32_t n, const double *a, const double *b)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n; i++)
        s0 += a[i] * b[i];
    return (s0 + s1) + (s2 + s3);
}

/* Largest row sum of magnitudes: the 1-norm of a symmetric matrix. */
static double norm1(uint32_t n, const double *a)
{
    double most = 0;
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;
        for (uint32_t j = 0; j < n; j++)
            sum += fabs(a[(size_t)i * n + j]);
        most = sum > most || isnan(sum) ? sum : most;
    }
    return most;
}

/* l := lower Cholesky factor of v; 0 when v is not positive definite. */
static int cholesky(uint32_t n, const double *v, double *l)
{
    for (uint32_t i = 0; i < n; i++) {
        double *li = l + (size_t)i * n;
        for (uint32_t j = 0; j <= i; j++) {
            const double *lj = l + (size_t)j * n;
            const double s = v[(size_t)i * n + j] - dot(j, li, lj);
            if (i != j)
                li[j] = s / lj[j];
            else if (s > 0 && isfinite(s))
                li[i] = sqrt(s);
            else
                return 0;
        }
    }
    return 1;
}

/* Rows of ret := columns of the inverse of the lower triangular l: row j starts at its diagonal. */
static void invert_lower(uint32_t n, const double *l, double *ret)
{
    for (uint32_t j = 0; j < n; j++) {
        double *x = ret + (size_t)j * n;
        memset(x, 0, n * sizeof *x);
        x[j] = 1 / l[(size_t)j * n + j];
        for (uint32_t i = j + 1; i < n; i++)
            x[i] = -dot(i - j, l + (size_t)i * n + j, x + j) / l[(size_t)i * n + i];
    }
}

/* Inverse by Cholesky; 0 when v is not positive definite or too badly conditioned. */
static int inverse(uint32_t n, const double *v, double *l, double *li, double *ret)
{
    if (!cholesky(n, v, l))
        return 0;
    invert_lower(n, l, li);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++)
            ret[(size_t)i * n + j] = ret[(size_t)j * n + i] =
                dot(n - i, li + (size_t)i * n + i, li + (size_t)j * n + i);
    return norm1(n, v) * norm1(n, ret) < 1 / TS_SYMM_RCOND; /* false for NaN */
}

static void rotate(uint32_t n, double c, double s, double *a, double *b)
{
    for (uint32_t i = 0; i < n; i++) {
        const double x = a[i], y = b[i];
        a[i] = c * x - s * y;
        b[i] = s * x + c * y;
    }
}

/* One-sided Jacobi (Hestenes 1958; Demmel and Veselic, SIAM J. Matrix Anal. 13, 1992): rotates pairs
 * of rows of g until all are orthogonal, with the same rotations on q. g = q v stays true, so the
 * row norms of g end as the singular values of v. A minute at the largest rank: after each row, some
 * milliseconds there, it looks whether it is to stop, and then g and q are half done. */
static void orthogonalise(uint32_t n, const volatile sig_atomic_t *stop, double *g, double *q)
{
    const double tiny = norm1(n, g) * DBL_EPSILON * 1e-3;
    int rotated = 1;
    for (int sweep = 0; sweep < MAX_SWEEPS && rotated && !ts_stop_asked(stop); sweep++) {
        rotated = 0;
        for (uint32_t i = 0; i < n && !ts_stop_asked(stop); i++)
            for (uint32_t j = i + 1; j < n; j++) {
                double *gi = g + (size_t)i * n, *gj = g + (size_t)j * n;
                const double a = dot(n, gi, gi), b = dot(n, gj, gj), d = dot(n, gi, gj);
                double zeta, t, c;
                if (!(fabs(d) > 1e-15 * sqrt(a) * sqrt(b)) || sqrt(a) <= tiny || sqrt(b) <= tiny)
                    continue;
                zeta = (b - a) / (2 * d);
                t = copysign(1 / (fabs(zeta) + hypot(1, zeta)), zeta);
                c = 1 / hypot(1, t);
                rotate(n, c, c * t, gi, gj);
                rotate(n, c, c * t, q + (size_t)i * n, q + (size_t)j * n);
                rotated = 1;
            }
    }
}

/* ret := sum over singular values s above the cut of  q_s g_s' / s^2, unless it is to stop */
static void pseudo(uint32_t n, const double *v, const volatile sig_atomic_t *stop, double *g,
                   double *q, double *ret)
{
    double most = 0;
    memcpy(g, v, (size_t)n * n * sizeof *g);
    memset(q, 0, (size_t)n * n * sizeof *q);
    memset(ret, 0, (size_t)n * n * sizeof *ret);
    for (uint32_t i = 0; i < n; i++)
        q[(size_t)i * n + i] = 1;
    orthogonalise(n, stop, g, q);
    for (uint32_t i = 0; i < n; i++)
        most = fmax(most, sqrt(dot(n, g + (size_t)i * n, g + (size_t)i * n)));
    for (uint32_t k = 0; k < n && !ts_stop_asked(stop); k++) {
        const double *gk = g + (size_t)k * n, *qk = q + (size_t)k * n;
        const double s = sqrt(dot(n, gk, gk));
        if (!(s > TS_SYMM_CUT * most))
            continue;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                ret[(size_t)i * n + j] += qk[i] / s * (gk[j] / s);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++) {
            const double mean = 0.5 * (ret[(size_t)i * n + j] + ret[(size_t)j * n + i]);
            ret[(size_t)i * n + j] = ret[(size_t)j * n + i] = mean;
        }
}

int ts_symm_pinv(uint32_t n, const double *v, const volatile sig_atomic_t *stop, double *ret,
                 int *singular, struct ts_err *err)
{
    double *work = malloc((size_t)2 * n * n * sizeof *work);
    int well;
    if (work == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a %u x %u matrix", n, n);
    well = inverse(n, v, work, work + (size_t)n * n, ret);
    if (!well)
        pseudo(n, v, stop, work, work + (size_t)n * n, ret);
    if (singular != NULL)
        *singular = !well;
    free(work);
    return well ? 0 : ts_stop_check(stop, err);
}
