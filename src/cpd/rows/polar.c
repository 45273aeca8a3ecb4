/* SPDX-License-Identifier: BSD-3-Clause */
/* polar.c - updates rows of a mode whose columns must be orthonormal: TS_ROW_POLAR of
 * stream/row_update.h.
 *
 * Let M be the MTTKRP of the mode. With the other factors given, the best A with A' A = I has the
 * largest tr(A' M): it is the polar factor M (M' M)^-1/2 (Schoenemann 1966, the Procrustes
 * problem). So each row of M is multiplied by a rank x rank matrix that is computed from all of M.
 * Directions in which M' M has less than POLAR_NONE of its largest eigenvalue do not determine
 * columns. Such columns are drawn at random, orthogonal to the others. M' M squares the condition
 * number of M: if the columns are not orthonormal because of rounding, they are made orthonormal
 * once more. tr(A' M) is not summed again after that. So if the last mode is orthogonal, a fit near
 * 1 may be wrong by the root of FLT_EPSILON (3e-4) in float32, and by 3e-5 in float64 if M has
 * dependent columns. The fit of the finished run is computed again (engine/run_fit.h).
 *
 *   owner    the caller owns the matrices; the backend owns rows
 *   threads  one thread calls
 *   errors   0 or a negative ts_code
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/setting.h"
#include "cpd/rows/row_columns.h"
#include "cpd/rows/symm.h"

#define POLAR_NONE 1e-13
#define DRAW_SEED  UINT64_C(0x706F6C6172)
#define MOST_DRAWS 8u /* most random columns that are tried to find one column */
/* a random column is used if at least this fraction of its squared length remains after
 * projection */
#define LEAST_LEFT 1e-6

struct polar {
    const struct ts_init_conf *init;
    uint32_t mode, rank;
    /* rank eigenvalues; x, rank numbers of a row or column, follows in the same memory */
    double *d;
    double *x;
    double *v, *w; /* rank x rank each: inverse root of a Gram matrix, and its eigenvectors */
};

/* v := the sum of z z' / sqrt(d) over eigenvectors z of gram whose eigenvalue d is above `share` of
 * the largest. *ret := their number, *sum := the sum of sqrt(d). w gets all eigenvectors. */
static int inverse_root(struct polar *s, const double *gram, double share, double *sum,
                        uint32_t *ret, struct ts_err *err)
{
    const uint32_t rank = s->rank;
    double least = 0;
    int rc = ts_symm_eigen(rank, gram, s->d, s->w, err);
    if (rc < 0)
        return rc;
    for (uint32_t k = 0; k < rank; k++)
        least = fmax(least, share * s->d[k]);
    *ret = 0;
    *sum = 0;
    memset(s->v, 0, (size_t)rank * rank * sizeof *s->v);
    for (uint32_t k = 0; k < rank; k++) {
        const double *z = s->w + (size_t)k * rank;
        if (!(s->d[k] > least) || !isfinite(1 / s->d[k]))
            continue;
        ++*ret;
        *sum += sqrt(s->d[k]);
        for (uint32_t i = 0; i < rank; i++)
            for (uint32_t j = 0; j < rank; j++)
                s->v[(size_t)i * rank + j] += z[i] * z[j] / sqrt(s->d[k]);
    }
    return 0;
}

/* Returns how far gram, which is A' A for the factor A, is from the Gram matrix of orthonormal
 * columns. whole 1: the largest entry of |gram - I|. whole 0: directions may be missing, so it is
 * the largest entry of |gram gram - gram|, which is 0 for a projector. */
static double defect(const struct polar *s, const double *gram, int whole)
{
    double most = 0;
    for (uint32_t i = 0; i < s->rank && whole; i++)
        for (uint32_t j = i; j < s->rank; j++)
            most = fmax(most, fabs(gram[(size_t)i * s->rank + j] - (i == j)));
    if (whole)
        return most;
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t j = i; j < s->rank; j++) {
            double sum = -gram[(size_t)i * s->rank + j];
            for (uint32_t k = 0; k < s->rank; k++)
                sum += gram[(size_t)i * s->rank + k] * gram[(size_t)j * s->rank + k];
            most = fmax(most, fabs(sum));
        }
    return most;
}

static double drawn(const struct polar *s, uint64_t row, uint32_t which)
{
    return ts_init_entry(s->init->seed + DRAW_SEED, s->mode, row, which) - 0.5;
}

/* For the random column u with number `which`, and the factor A: s->x := A' u, and *ret := the
 * squared length of u after its projection onto the columns of A is subtracted. *ret is 0 if too
 * little is left. */
static int project(struct polar *s, uint32_t which, double *chunk, double *ret, struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint64_t n_rows = c->tensor->mode[s->mode].disk.n_rows;
    const uint64_t most = ts_row_columns_chunk(s->rank);
    double square = 0;
    int rc = 0;
    memset(s->x, 0, s->rank * sizeof *s->x);
    for (uint64_t row = 0; row < n_rows && rc == 0; row += most) {
        const uint64_t n = n_rows - row < most ? n_rows - row : most;
        rc = c->backend->get_rows(c->be, s->mode, row, n, chunk, err);
        for (uint64_t i = 0; i < n && rc == 0; i++) {
            const double u = drawn(s, row + i, which);
            square += u * u;
            for (uint32_t r = 0; r < s->rank; r++)
                s->x[r] += u * chunk[i * s->rank + r];
        }
    }
    *ret = square;
    for (uint32_t r = 0; r < s->rank; r++)
        *ret -= s->x[r] * s->x[r];
    if (!(*ret > LEAST_LEFT * square))
        *ret = 0;
    return rc;
}

/* The factor A += e z', with z a direction that A lacks, and e a random column minus its projection
 * onto the columns of A, scaled to length 1. */
static int add_column(struct polar *s, uint32_t which, double left, const double *z, double *chunk,
                      struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint64_t n_rows = c->tensor->mode[s->mode].disk.n_rows;
    const uint64_t most = ts_row_columns_chunk(s->rank);
    int rc = 0;
    for (uint64_t row = 0; row < n_rows && rc == 0; row += most) {
        const uint64_t n = n_rows - row < most ? n_rows - row : most;
        rc = c->backend->get_rows(c->be, s->mode, row, n, chunk, err);
        for (uint64_t i = 0; i < n && rc == 0; i++) {
            double e = drawn(s, row + i, which), *a = chunk + i * s->rank;
            for (uint32_t r = 0; r < s->rank; r++)
                e -= a[r] * s->x[r];
            for (uint32_t r = 0; r < s->rank; r++)
                a[r] += e / sqrt(left) * z[r];
        }
        if (rc == 0)
            rc = c->backend->put_rows(c->be, s->mode, row, n, chunk, err);
    }
    return rc;
}

/* Completes the factor A, so that its columns are orthonormal. An eigenvector of A' A with a small
 * eigenvalue is a direction that A lacks. Each direction gets a random column, orthogonal to the
 * others. */
static int complete(struct polar *s, double *gram, struct ts_err *err)
{
    uint32_t which = 0;
    double *chunk = malloc(ts_row_columns_chunk(s->rank) * s->rank * sizeof *chunk);
    int rc = chunk == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows of factors")
                           : ts_symm_eigen(s->rank, gram, s->d, s->w, err);
    for (uint32_t k = 0; k < s->rank && rc == 0; k++) {
        const uint32_t end = which + MOST_DRAWS;
        double left = 0;
        if (s->d[k] > 0.5)
            continue;
        while (which < end && left == 0 && rc == 0)
            rc = project(s, which++, chunk, &left, err);
        if (rc == 0 && left > 0)
            rc = add_column(s, which - 1, left, s->w + (size_t)k * s->rank, chunk, err);
    }
    free(chunk);
    return rc == 0 ? s->init->backend->gram(s->init->be, s->mode, gram, err) : rc;
}

static int solve(struct polar *s, enum ts_precision precision, const struct ts_row_sums *sums,
                 int *singular, struct ts_err *err)
{
    const struct ts_backend *backend = s->init->backend;
    const double rounding = precision == TS_FLOAT32 ? 1e-6 : 1e-12;
    const struct ts_row_update update = { .kind = TS_ROW_LEAST_SQUARES, .matrix = s->v };
    double all, unused;
    uint32_t kept, again;
    int rc = backend->gram(s->init->be, s->mode, sums->gram, err);
    for (size_t i = 0; i < (size_t)s->rank * s->rank && rc == 0; i++)
        /* the solver reports numbers that are not finite: the fit will not be finite either */
        if (!isfinite(sums->gram[i])) {
            memcpy(s->v, sums->gram, (size_t)s->rank * s->rank * sizeof *s->v);
            return backend->solve(s->init->be, s->mode, &update, sums, err);
        }
    if (rc == 0)
        rc = inverse_root(s, sums->gram, POLAR_NONE, &all, &kept, err);
    if (rc == 0)
        rc = backend->solve(s->init->be, s->mode, &update, sums, err);
    if (rc == 0 && defect(s, sums->gram, kept == s->rank) > rounding) {
        const struct ts_row_sums rest = { .gram = sums->gram };
        rc = inverse_root(s, sums->gram, 0.5, &unused, &again, err);
        if (rc == 0)
            rc = backend->solve(s->init->be, s->mode, &update, &rest, err);
        /* M is overwritten, but tr(A' M) is the sum of its singular values */
        if (sums->inner != NULL)
            *sums->inner = all;
    }
    *singular = rc == 0 && kept < s->rank;
    return *singular ? complete(s, sums->gram, err) : rc;
}

static int make(const struct ts_row_task *task, struct ts_err *err)
{
    const uint32_t rank = task->init->rank;
    struct polar s = {
        .init = task->init, .mode = task->mode, .rank = rank, .v = task->gram, .w = task->scratch
    };
    int rc;
    s.d = malloc(2 * rank * sizeof *s.d);
    if (s.d == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u columns", rank);
    s.x = s.d + rank;
    rc = solve(&s, task->precision, task->sums, task->singular, err);
    free(s.d);
    return rc;
}

static int check(const struct ts_tensor *t, uint32_t mode, uint32_t rank, struct ts_err *err)
{
    const uint64_t n_rows = t->mode[mode].disk.n_rows;
    return n_rows >= rank
               ? 0
               : ts_fail(err, TS_EARG,
                         TS_NTH_MODE " has %" PRIu64 " used %s, so no more of its columns can be "
                                     "orthogonal, and the rank is %u",
                         mode + 1, n_rows, n_rows == 1 ? "index" : "indices", rank);
}

const struct ts_row_maker ts_rows_polar = {
    .check = check,
    .make = make,
};
