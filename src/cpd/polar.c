/* SPDX-License-Identifier: BSD-3-Clause */
/* The nearest orthonormal columns, by the Gram matrix of the product. */
#include "cpd/polar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpd/symm.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* of float64 rows from and to the backend */
#define DRAW_SEED   UINT64_C(0x706F6C6172)
#define MOST_DRAWS  8u   /* for a column */
#define LEAST_LEFT  1e-6 /* of a drawn column's square, once the others are taken off */

struct polar {
    const struct ts_init_conf *init;
    uint32_t mode, rank;
    double *d; /* rank: eigenvalues; and behind them rank: of one row or column */
    double *x;
    double *v, *w; /* rank x rank */
};

/* v := sum of z z' / sqrt(d) over eigenvectors of `of` whose d is above `least`. Returns how many they are; w has them all. */
static int inverse_root(struct polar *s, const double *of, double share, double *sum, uint32_t *ret,
                        struct ts_err *err)
{
    const uint32_t rank = s->rank;
    double least = 0;
    int rc = ts_symm_eigen(rank, of, s->d, s->w, err);
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

/* How far from 0 or 1 the eigenvalues are that the Gram matrix has: |gram gram - gram|, which is 0 for a projector;
 * where all are to be 1, |gram - I|. */
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

/* What is left of the square of drawn column `which` beside the columns of A: x := A' of it. */
static int project(struct polar *s, uint32_t which, double *chunk, double *ret, struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint64_t n_rows = c->tensor->mode[s->mode].disk.n_rows;
    const uint64_t most = CHUNK_BYTES / (s->rank * sizeof(double));
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

/* A += e z', e being what is left of the drawn column, of length 1 */
static int add_column(struct polar *s, uint32_t which, double left, const double *z, double *chunk,
                      struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint64_t n_rows = c->tensor->mode[s->mode].disk.n_rows;
    const uint64_t most = CHUNK_BYTES / (s->rank * sizeof(double));
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

/* Columns in all directions that A has none in: those of small eigenvalues of its Gram matrix. */
static int complete(struct polar *s, double *gram, struct ts_err *err)
{
    uint32_t which = 0;
    double *chunk = malloc(CHUNK_BYTES);
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

static int run(struct polar *s, enum ts_precision precision, const struct ts_row_sums *sums,
               int *singular, struct ts_err *err)
{
    const struct ts_backend *backend = s->init->backend;
    const double rounding = precision == TS_FLOAT32 ? 1e-6 : 1e-12;
    const struct ts_row_update how = { .kind = TS_ROW_LEAST_SQUARES, .matrix = s->v };
    double all, unused;
    uint32_t kept, again;
    int rc = backend->gram(s->init->be, s->mode, sums->gram, err);
    for (size_t i = 0; i < (size_t)s->rank * s->rank && rc == 0; i++)
        if (!isfinite(sums->gram[i])) { /* which the fit will show */
            memcpy(s->v, sums->gram, (size_t)s->rank * s->rank * sizeof *s->v);
            return backend->solve(s->init->be, s->mode, &how, sums, err);
        }
    if (rc == 0)
        rc = inverse_root(s, sums->gram, TS_POLAR_NONE, &all, &kept, err);
    if (rc == 0)
        rc = backend->solve(s->init->be, s->mode, &how, sums, err);
    if (rc == 0 && defect(s, sums->gram, kept == s->rank) > rounding) {
        const struct ts_row_sums rest = { .gram = sums->gram };
        rc = inverse_root(s, sums->gram, 0.5, &unused, &again, err);
        if (rc == 0)
            rc = backend->solve(s->init->be, s->mode, &how, &rest, err);
        if (sums->inner != NULL) /* M is gone, but tr(A' M) is the sum of M's singular values */
            *sums->inner = all;
    }
    *singular = rc == 0 && kept < s->rank;
    return *singular ? complete(s, sums->gram, err) : rc;
}

int ts_polar_solve(const struct ts_init_conf *init, enum ts_precision precision, uint32_t mode,
                   double *scratch, const struct ts_row_sums *sums, int *singular,
                   struct ts_err *err)
{
    struct polar s = { .init = init, .mode = mode, .rank = init->rank, .v = scratch };
    int rc;
    s.w = s.v + (size_t)s.rank * s.rank;
    s.d = malloc(2 * s.rank * sizeof *s.d);
    if (s.d == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %u columns", s.rank);
    s.x = s.d + s.rank;
    rc = run(&s, precision, sums, singular, err);
    free(s.d);
    return rc;
}
