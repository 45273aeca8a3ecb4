/* SPDX-License-Identifier: BSD-3-Clause */
/* smooth.c - updates rows of a mode whose neighbouring rows should be similar: TS_ROW_SMOOTH of
 * stream/row_update.h. If the mode also has bounds or l1, smooth_within.c does this.
 *
 * Let M be the MTTKRP, G the elementwise product of the other Gram matrices plus l2 on its
 * diagonal, and D the second differences of rows that are neighbours by their index in the input.
 * The factor A minimises
 *     1/2 tr(A G A') - tr(A' M) + mu/2 |D A|^2.
 * Factors have no rows for empty slices. Here such rows are unknowns that are in no other term, so
 * they are on the smoothest curve between the others. They are discarded afterwards. With G = Q
 * diag(g) Q', each column k of B = A Q is the solution of a system of its own,
 *     (g_k E + mu D' D) b_k = (M Q)_k,
 * with E = 1 on the diagonal for indices that have a row. It has five diagonals, and is solved by L
 * diag L' in linear time (smoothing by Whittaker 1923). If g_k is so far below mu that rounding
 * would hide the straight part of b_k, then b_k is computed as a line plus a curve that is 0 at one
 * end. Directions in which G is singular, to rounding, are left out as in least squares. Q and g
 * are exact to a rounding of the largest g. So the column of a component that is vanishing has a
 * relative error of 1e-16 over its share of g, which does not affect the minimum. M is rounded to
 * the precision of factors first, even if the fit asks for more. So in float32 a fit above 0.999
 * may be wrong by 1e-5 and more if the last mode is smooth, and by the root of FLT_EPSILON (3e-4)
 * near 1.
 *
 *   owner    the caller owns matrices; the backend owns rows. `bytes` are allocated during a call
 *   threads  one thread calls; init->threads threads compute columns and rows, each by one thread
 *   errors   0 or a negative ts_code
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/setting.h"
#include "cpd/rows/curve.h"
#include "cpd/rows/row_columns.h"
#include "cpd/rows/symm.h"

#define MOST_INDICES (UINT64_C(1) << 22) /* most indices of a smooth mode */

/* Most indices from one row to the next. Over L indices without a row, the terms that determine the
 * curve are 1e-16 of the sums that contain them at L = 10000, and shrink as 1 / L^4: at 100000 they
 * are lost in rounding. */
#define MOST_GAP UINT64_C(50000)

#define MOST_LANES 4u /* most columns of the factor that are solved at the same time */

struct smooth {
    const struct ts_init_conf *init;
    enum ts_precision precision;
    uint32_t mode, rank, lanes;
    /* n: rows; first: index of the first row; span: number of indices from the first row to the
     * last */
    uint64_t n, first, span;
    uint64_t *index; /* NULL: row i is index i */
    double mu;
    double *z;     /* rank x rank: eigenvectors of G, one in each row */
    double *d;     /* rank: eigenvalues of G; 0 for a direction that is left out */
    double *rough; /* rank: |D b|^2 for each column b of B */
    double *b;     /* rank x n: columns of M Q, which are replaced by columns of B */
    /* for each column that is being solved at the same time: 4 x span numbers, for a struct band */
    double *band;
    /* chunk: rows that are being copied; dot: for each of them, the inner product of the row of the
     * MTTKRP and that of the factor */
    double *chunk, *dot;
};

static uint32_t lanes_of(uint32_t rank)
{
    return rank < MOST_LANES ? rank : MOST_LANES;
}

static uint64_t numbers(uint64_t n_rows, uint64_t span, uint32_t rank)
{
    return n_rows * rank + lanes_of(rank) * 4 * span + 2 * rank +
           ts_row_columns_chunk(rank) * (rank + 1);
}

static int check(const struct ts_tensor *t, uint32_t mode, uint32_t rank, struct ts_err *err)
{
    uint64_t *index = NULL;
    int rc;
    (void)rank;
    if (t->mode[mode].disk.dim > MOST_INDICES)
        return ts_fail(err, TS_EARG,
                       TS_NTH_MODE " has %" PRIu64 " indices, and neighbours are compared in modes "
                                   "of up to %" PRIu64
                                   ": build the tensor with coarser bins of time",
                       mode + 1, t->mode[mode].disk.dim, MOST_INDICES);
    rc = ts_tensor_rows(t, mode, &index, err);
    for (uint64_t i = 1; rc == 0 && index != NULL && i < t->mode[mode].disk.n_rows; i++)
        if (index[i] - index[i - 1] > MOST_GAP)
            rc = ts_fail(err, TS_EARG,
                         TS_NTH_MODE " has no nonzero between indices " TS_NTH_INDEX
                                     " and " TS_NTH_INDEX
                                     ", and neighbours are compared over gaps of up to %" PRIu64
                                     ": build the tensor with coarser bins of time",
                         mode + 1, index[i - 1] + 1, index[i] + 1, MOST_GAP);
    free(index);
    return rc;
}

static uint64_t bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank)
{
    const struct ts_disk_mode *disk = &t->mode[mode].disk;
    return ts_bigmem_cost(8 * numbers(disk->n_rows, disk->dim, rank)) +
           (disk->rows_bytes > 0 ? 8 * disk->n_rows : 0);
}

/* d, z := eigenvalues and eigenvectors of G. d is 0 for directions that are only rounding: those
 * whose eigenvalue is small against what G has on its diagonal there. Errors of the MTTKRP are
 * proportional to the lengths of columns. *singular: whether there are such directions. */
static int take_directions(struct smooth *s, const double *g, int *singular, struct ts_err *err)
{
    const double cut = s->precision == TS_FLOAT32 ? FLT_EPSILON : TS_SYMM_CUT;
    const int rc = ts_symm_eigen(s->rank, g, s->d, s->z, err);
    *singular = 0;
    for (uint32_t k = 0; k < s->rank && rc == 0; k++) {
        const double *z = s->z + (size_t)k * s->rank;
        double size = 0;
        for (uint32_t r = 0; r < s->rank; r++)
            size += z[r] * z[r] * g[(size_t)r * s->rank + r];
        if (s->d[k] > cut * size && isfinite(1 / s->d[k]))
            continue;
        s->d[k] = 0;
        *singular = 1;
    }
    return rc;
}

/* Multiplies the MTTKRP by the identity, so that the backend stores it as rows of the factor, which
 * get_rows returns. */
static int settle(struct smooth *s, double *gram, struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const struct ts_row_update update = { .kind = TS_ROW_LEAST_SQUARES, .matrix = s->z };
    ts_row_columns_identity(s->rank, s->z);
    return c->backend->solve(c->be, s->mode, &update, &(struct ts_row_sums){ .gram = gram }, err);
}

/* b := the columns of M Q, with the MTTKRP M and the eigenvectors Q of G */
static int turn(struct smooth *s, struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint64_t most = ts_row_columns_chunk(s->rank);
    const int threads = c->threads > 0 ? (int)c->threads : omp_get_max_threads();
    int rc = 0;
    for (uint64_t row = 0; row < s->n && rc == 0; row += most) {
        const uint64_t n = s->n - row < most ? s->n - row : most;
        rc = c->backend->get_rows(c->be, s->mode, row, n, s->chunk, err);
        if (rc < 0)
            break;
#pragma omp parallel for num_threads(threads)
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < s->rank; k++) {
                const double *m = s->chunk + i * s->rank, *z = s->z + (size_t)k * s->rank;
                double sum = 0;
                for (uint32_t r = 0; r < s->rank; r++)
                    sum += m[r] * z[r];
                s->b[k * s->n + row + i] = sum;
            }
    }
    return rc;
}

static uint64_t place(const struct smooth *s, uint64_t row)
{
    return s->index == NULL ? row : s->index[row] - s->first;
}

/* Memory with which one column is solved: three diagonals of the matrix, and the unknowns x. Each
 * has an entry for every index. */
struct band {
    double *diagonal, *one, *two, *x;
};

static struct band band_of(double *memory, uint64_t n)
{
    return (struct band){ memory, memory + n, memory + 2 * n, memory + 3 * n };
}

/* x := (d P + mu D' D)^-1 x, with the second differences D, and the diagonal matrix P that is 1 for
 * indices with a row. Entries before `from` are taken as 0, and x is solved for the others. */
static void eliminate(const struct smooth *s, double d, uint64_t from, const struct band *band)
{
    const uint64_t n = s->span;
    memset(band->diagonal, 0, n * sizeof *band->diagonal);
    for (uint64_t row = 0; row < s->n; row++)
        band->diagonal[place(s, row)] = d;
    for (uint64_t i = from; i < n; i++) {
        double of[3];
        ts_curve_differences(n, i, of);
        band->diagonal[i] += s->mu * of[0];
        band->one[i] = i > from ? s->mu * of[1] : 0;
        band->two[i] = i > from + 1 ? s->mu * of[2] : 0;
    }
    ts_curve_eliminate(n - from, DBL_EPSILON * s->mu * DBL_EPSILON, DBL_EPSILON * (s->mu + d),
                       band->diagonal + from, band->one + from, band->two + from, band->x + from);
}

/* Returns entry i of a line over all indices, from -1 at the first to 1 at the last. */
static double line(const struct smooth *s, uint64_t i)
{
    return 2 * (double)i / (double)(s->span - 1) - 1;
}

/* x := the curve z that solves (d P + mu D' D) z = P (b + c_0 + c_1 line), and is 0 at the first
 * two indices. P is 1 for indices with a row, D has the second differences. b may be NULL, which is
 * 0. sum[0] := the sum of z over rows, sum[1] := that of z times line. */
static void solve_held(const struct smooth *s, double d, const double *b, const double c[2],
                       const struct band *band, double sum[2])
{
    double *x = band->x;
    memset(x, 0, s->span * sizeof *x);
    for (uint64_t row = 0; row < s->n; row++) {
        const uint64_t i = place(s, row);
        x[i] = (b == NULL ? 0 : b[row]) + c[0] + c[1] * line(s, i);
    }
    x[0] = x[1] = 0;
    eliminate(s, d, 2, band);
    sum[0] = sum[1] = 0;
    for (uint64_t row = 0; row < s->n; row++) {
        const uint64_t i = place(s, row);
        sum[0] += x[i];
        sum[1] += x[i] * line(s, i);
    }
}

/* x := (d P + mu D' D)^-1 b, for d far below mu. P is 1 for indices with a row, D has the second
 * differences, and L has two columns: 1, and line(). If d is small, the straight part of x costs
 * little, and would be lost in rounding. So x is the sum of a line L y and a curve z that is 0 at
 * the first two indices. With A the inverse of the matrix without these two indices,
 *   z = A (b - d P L y)   and   L' P (L - d A P L) y = L' (b - d P A b) / d.
 * Returns |D x|^2. */
static double solve_on_a_line(const struct smooth *s, double d, const double *b,
                              const struct band *band)
{
    const double none[2] = { 0, 0 }, of[2][2] = { { d, 0 }, { 0, d } };
    double m[2][2], right[2], y[2], bends, scale;
    solve_held(s, d, b, none, band, right);
    right[0] *= -d;
    right[1] *= -d;
    for (int k = 0; k < 2; k++)
        solve_held(s, d, NULL, of[k], band, m[k]);
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2; l++)
            m[k][l] = -m[k][l];
    for (uint64_t row = 0; row < s->n; row++) {
        const double t = line(s, place(s, row));
        right[0] += b[row];
        right[1] += b[row] * t;
        m[0][0] += 1;
        m[0][1] += t;
        m[1][0] += t;
        m[1][1] += t * t;
    }
    scale = d * (m[0][0] * m[1][1] - m[0][1] * m[1][0]);
    y[0] = (m[1][1] * right[0] - m[1][0] * right[1]) / scale;
    y[1] = (m[0][0] * right[1] - m[0][1] * right[0]) / scale;
    solve_held(s, d, b, (const double[]){ -d * y[0], -d * y[1] }, band, right);
    bends = ts_curve_bends(s->span, band->x, NULL);
    for (uint64_t i = 0; i < s->span; i++)
        band->x[i] += y[0] + y[1] * line(s, i);
    return bends;
}

/* Whether d is far below mu: a line of length 1 costs less than any curve of length 1 that is 0 at
 * one end, which costs at least (1.875 / n)^4 mu. */
static int is_cheap(const struct smooth *s, double d)
{
    const double n = (double)s->span;
    return s->span > 2 && d * n * n * n * n < 12 * s->mu;
}

/* Replaces column k of s->b by the solution of its system. memory: room for a struct band. */
static void solve_column(const struct smooth *s, uint32_t k, double *memory)
{
    const struct band band = band_of(memory, s->span);
    double *b = s->b + k * s->n;
    if (is_cheap(s, s->d[k])) {
        s->rough[k] = solve_on_a_line(s, s->d[k], b, &band);
    } else {
        memset(band.x, 0, s->span * sizeof *band.x);
        for (uint64_t row = 0; row < s->n; row++)
            band.x[place(s, row)] = b[row];
        eliminate(s, s->d[k], 0, &band);
        s->rough[k] = ts_curve_bends(s->span, band.x, NULL);
    }
    for (uint64_t row = 0; row < s->n; row++)
        b[row] = band.x[place(s, row)];
}

static void solve_columns(const struct smooth *s)
{
    const int threads = s->init->threads > 0 ? (int)s->init->threads : omp_get_max_threads();
    const int lanes = threads < (int)s->lanes ? threads : (int)s->lanes;
#pragma omp parallel for schedule(dynamic, 1) num_threads(lanes)
    for (uint32_t k = 0; k < s->rank; k++) {
        if (s->d[k] > 0) {
            solve_column(s, k, s->band + (uint64_t)omp_get_thread_num() * 4 * s->span);
        } else {
            memset(s->b + k * s->n, 0, s->n * sizeof *s->b);
            s->rough[k] = 0;
        }
    }
}

/* Replaces m, a row of the MTTKRP, by the same row of the new factor A, rounded to the precision of
 * the backend. Returns the inner product of both rows. */
static double turn_back(const struct smooth *s, uint64_t row, double *m)
{
    double a[TS_MAX_RANK] = { 0 }, sum = 0;
    for (uint32_t k = 0; k < s->rank; k++) {
        const double x = s->b[k * s->n + row], *z = s->z + (size_t)k * s->rank;
        for (uint32_t r = 0; r < s->rank; r++)
            a[r] += x * z[r];
    }
    for (uint32_t r = 0; r < s->rank; r++) {
        a[r] = s->precision == TS_FLOAT32 ? (float)a[r] : a[r];
        sum += m[r] * a[r];
        m[r] = a[r];
    }
    return sum;
}

/* Returns the squared length of the second difference of rows i, i - 1 and i - 2. */
static double bend_of(const double *const row[3], uint32_t rank)
{
    double sum = 0;
    for (uint32_t r = 0; r < rank; r++) {
        const double bend = row[0][r] - 2 * row[1][r] + row[2][r];
        sum += bend * bend;
    }
    return sum;
}

/* Copies the rows of A to the backend. *inner (or NULL) := the inner product of the MTTKRP and A.
 * If every index has a row and the backend rounds, *rough := the sum of squared second differences
 * of the rounded rows: the rounding of large entries may bend more than the curve does. */
static int finish(const struct smooth *s, double *inner, double *rough, struct ts_err *err)
{
    const struct ts_init_conf *c = s->init;
    const uint64_t most = ts_row_columns_chunk(s->rank);
    const int threads = c->threads > 0 ? (int)c->threads : omp_get_max_threads();
    const int rounded = s->precision == TS_FLOAT32 && s->index == NULL;
    double sum = 0, bends = 0, last[2][TS_MAX_RANK];
    int rc = 0;
    for (uint64_t row = 0; row < s->n && rc == 0; row += most) {
        const uint64_t n = s->n - row < most ? s->n - row : most;
        rc = c->backend->get_rows(c->be, s->mode, row, n, s->chunk, err);
        if (rc < 0)
            break;
#pragma omp parallel for num_threads(threads)
        for (uint64_t i = 0; i < n; i++)
            s->dot[i] = turn_back(s, row + i, s->chunk + i * s->rank);
        for (uint64_t i = 0; i < n; i++)
            sum += s->dot[i];
        for (uint64_t i = 0; rounded && i < n; i++) {
            const double *now = s->chunk + i * s->rank;
            if (row + i >= 2)
                bends += bend_of((const double *const[]){ now, last[1], last[0] }, s->rank);
            memcpy(last[0], last[1], s->rank * sizeof *now);
            memcpy(last[1], now, s->rank * sizeof *now);
        }
        rc = c->backend->put_rows(c->be, s->mode, row, n, s->chunk, err);
    }
    if (inner != NULL)
        *inner = sum;
    if (rounded)
        *rough = bends;
    return rc;
}

static int solve(struct smooth *s, const double *g, const struct ts_row_sums *sums, double *rough,
                 int *singular, struct ts_err *err)
{
    int rc = settle(s, sums->gram, err);
    if (rc == 0)
        rc = take_directions(s, g, singular, err);
    if (rc == 0)
        rc = turn(s, err);
    if (rc < 0)
        return rc;
    solve_columns(s);
    *rough = 0;
    for (uint32_t k = 0; k < s->rank; k++)
        *rough += s->rough[k];
    rc = finish(s, sums->inner, rough, err);
    return rc == 0 ? s->init->backend->gram(s->init->be, s->mode, sums->gram, err) : rc;
}

static int make(const struct ts_row_task *task, struct ts_err *err)
{
    const struct ts_init_conf *init = task->init;
    const struct ts_disk_mode *disk = &init->tensor->mode[task->mode].disk;
    struct smooth s = { .init = init,
                        .precision = task->precision,
                        .mode = task->mode,
                        .rank = init->rank,
                        .lanes = lanes_of(init->rank),
                        .n = disk->n_rows,
                        .span = disk->n_rows,
                        .mu = init->spec->mode[task->mode].smooth,
                        .z = task->scratch };
    void *memory = NULL;
    uint64_t n_bytes = 0;
    int rc;
    rc = ts_row_columns_check(task, err);
    if (rc == 0)
        rc = ts_tensor_rows(init->tensor, task->mode, &s.index, err);
    if (rc == 0 && s.index != NULL && s.n > 0) {
        s.first = s.index[0];
        s.span = s.index[s.n - 1] - s.first + 1;
    }
    if (rc == 0) {
        n_bytes = 8 * numbers(s.n, s.span, s.rank);
        rc = ts_bigmem_new(n_bytes, "rows of a mode that is smooth", &memory, err);
    }
    if (rc == 0) {
        s.b = memory;
        s.band = s.b + s.n * s.rank;
        s.d = s.band + s.lanes * 4 * s.span;
        s.rough = s.d + s.rank;
        s.chunk = s.rough + s.rank;
        s.dot = s.chunk + ts_row_columns_chunk(s.rank) * s.rank;
        rc = solve(&s, task->gram, task->sums, task->size, task->singular, err);
    }
    ts_bigmem_free(memory, n_bytes);
    free(s.index);
    return rc;
}

const struct ts_row_maker ts_rows_smooth = {
    .check = check,
    .bytes = bytes,
    .make = make,
};
