/* SPDX-License-Identifier: BSD-3-Clause */
/* Inverts symmetric matrices by Cholesky, or by all eigenvectors: Householder's tridiagonal form,
 * then implicit QL. */
#include "cpd/rows/symm.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/fpmode.h"
#include "base/stop.h"

#include "cpd/rows/symm_cholesky_body.h"
#include "cpd/rows/symm_eigen_body.h"

uint64_t ts_symm_bytes(uint32_t n)
{
    return (2 * (uint64_t)n + 4) * padded(n) * sizeof(double);
}

/* ---- the functions for each instruction set ---- */

/* Functions of symm_cholesky_body.h and symm_eigen_body.h for one instruction set: the whole
 * inverse, and the steps of it that threads share. */
struct parts {
    int (*inverse)(uint32_t n, const double *v, double cut, double *l, double *li, double *ret);
    int (*cholesky)(uint32_t n, const double *v, uint32_t first, uint32_t begin, uint32_t end,
                    double *l);
    void (*invert)(uint32_t n, const double *l, uint32_t begin, uint32_t end, double *ret);
    void (*square)(uint32_t n, const double *li, uint32_t begin, uint32_t end, double *ret);
    void (*pseudo)(uint32_t n, const double *v, double cut, const volatile sig_atomic_t *stop,
                   double *work, double *ret);
};

#define PARTS(SET, HOW)                                                                          \
    HOW static int inverse_##SET(uint32_t n, const double *v, double cut, double *l, double *li, \
                                 double *ret)                                                    \
    {                                                                                            \
        return inverse(n, v, cut, l, li, ret);                                                   \
    }                                                                                            \
    HOW static int cholesky_##SET(uint32_t n, const double *v, uint32_t first, uint32_t begin,   \
                                  uint32_t end, double *l)                                       \
    {                                                                                            \
        return cholesky(n, v, first, begin, end, l);                                             \
    }                                                                                            \
    HOW static void invert_##SET(uint32_t n, const double *l, uint32_t begin, uint32_t end,      \
                                 double *ret)                                                    \
    {                                                                                            \
        invert_lower(n, l, begin, end, ret);                                                     \
    }                                                                                            \
    HOW static void square_##SET(uint32_t n, const double *li, uint32_t begin, uint32_t end,     \
                                 double *ret)                                                    \
    {                                                                                            \
        square_lower(n, li, begin, end, ret);                                                    \
    }                                                                                            \
    HOW static void pseudo_##SET(uint32_t n, const double *v, double cut,                        \
                                 const volatile sig_atomic_t *stop, double *work, double *ret)   \
    {                                                                                            \
        pseudo(n, v, cut, stop, work, ret);                                                      \
    }                                                                                            \
    static const struct parts parts_##SET = { inverse_##SET, cholesky_##SET, invert_##SET,       \
                                              square_##SET, pseudo_##SET };

PARTS(portable, )
#ifdef __x86_64__
PARTS(avx2, __attribute__((target("avx2"))))
#endif

/* a matrix of fewer rows than this is inverted by one thread */
#define LONE_ROWS 256u
/* rows of a matrix that a thread takes at a time: this many rows of the inverse of l fit into a
 * cache */
#define ROWS_AT_A_TIME 16u

static uint32_t less(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Computes the inverse with several threads, which divide its rows. The bits do not depend on which
 * thread computes a row. */
static int inverse_by(int threads, const struct parts *set, uint32_t n, const double *v, double cut,
                      double *l, double *li, double *ret)
{
    const uint32_t pieces = (n + ROWS_AT_A_TIME - 1) / ROWS_AT_A_TIME;
    int well = 1;
#pragma omp parallel num_threads(threads)
    {
        const uint64_t mode = ts_fpmode_flush();
        int go = 1;
        for (uint32_t first = 0; first < n && go; first += 4) {
#pragma omp single
            well = set->cholesky(n, v, first, first, less(first + 4, n), l);
            go = well;
            if (go) {
#pragma omp for schedule(static)
                for (uint32_t k = first / ROWS_AT_A_TIME; k < pieces; k++) {
                    const uint32_t at = k * ROWS_AT_A_TIME;
                    set->cholesky(n, v, first, at > first + 4 ? at : less(first + 4, n),
                                  less(at + ROWS_AT_A_TIME, n), l);
                }
            }
        }
        if (go) {
#pragma omp for schedule(dynamic)
            for (uint32_t k = 0; k < pieces; k++)
                set->invert(n, l, k * ROWS_AT_A_TIME, less((k + 1) * ROWS_AT_A_TIME, n), li);
#pragma omp for schedule(dynamic)
            for (uint32_t k = 0; k < pieces; k++)
                set->square(n, li, k * ROWS_AT_A_TIME, less((k + 1) * ROWS_AT_A_TIME, n), ret);
        }
        ts_fpmode_restore(mode);
    }
    return well && is_well(n, v, cut, ret);
}

/* ret := the inverse of v or, if Cholesky fails, the pseudo-inverse. */
static int invert_by(const struct parts *set, uint32_t n, const double *v, double cut,
                     uint32_t threads, const volatile sig_atomic_t *stop, double *ret,
                     int *singular, struct ts_err *err)
{
    const int most = n < LONE_ROWS ? 1 : threads > 0 ? (int)threads : omp_get_max_threads();
    double *work = malloc(ts_symm_bytes(n));
    uint64_t mode;
    int well;
    if (work == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a %u x %u matrix", n, n);
    mode = ts_fpmode_flush();
    well = most > 1 ? inverse_by(most, set, n, v, cut, work, work + (size_t)n * n, ret)
                    : set->inverse(n, v, cut, work, work + (size_t)n * n, ret);
    if (!well)
        set->pseudo(n, v, cut, stop, work, ret);
    ts_fpmode_restore(mode);
    if (singular != NULL)
        *singular = !well;
    free(work);
    return well ? 0 : ts_stop_check(stop, err);
}

int ts_symm_pinv_by(uint32_t threads, uint32_t n, const double *v, double cut,
                    const volatile sig_atomic_t *stop, double *ret, int *singular,
                    struct ts_err *err)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return invert_by(&parts_avx2, n, v, cut, threads, stop, ret, singular, err);
#endif
    return invert_by(&parts_portable, n, v, cut, threads, stop, ret, singular, err);
}

int ts_symm_pinv(uint32_t n, const double *v, double cut, const volatile sig_atomic_t *stop,
                 double *ret, int *singular, struct ts_err *err)
{
    return ts_symm_pinv_by(1, n, v, cut, stop, ret, singular, err);
}

int ts_symm_eigen(uint32_t n, const double *v, double *d, double *z, struct ts_err *err)
{
    double *work = malloc(ts_symm_bytes(n));
    struct eigen g = eigen_in(n, NULL, work);
    uint64_t mode;
    double by;
    if (work == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a %u x %u matrix", n, n);
    mode = ts_fpmode_flush();
    by = solve_eigen(&g, v, largest((size_t)n * n, v));
    for (uint32_t k = 0; k < n; k++) {
        d[k] = g.d[k] / by;
        memcpy(z + (size_t)k * n, g.z + (size_t)k * g.ld, n * sizeof *z);
    }
    ts_fpmode_restore(mode);
    free(work);
    return 0;
}

int ts_symm_pinv_portable(uint32_t n, const double *v, double cut,
                          const volatile sig_atomic_t *stop, double *ret, int *singular,
                          struct ts_err *err)
{
    return invert_by(&parts_portable, n, v, cut, 1, stop, ret, singular, err);
}
