/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds over the columns of a mode, each solved with the others as they are. */
#include "cpd/smooth_within.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "base/stop.h"
#include "cpd/curve.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* of float64 rows from and to the backend */

struct within {
    const struct ts_init_conf *init;
    const struct ts_row_update *how;
    enum ts_precision precision;
    uint32_t mode, rank;
    int threads;
    uint64_t n, first, span; /* rows; the first one's index; indices from it to the last one's */
    uint64_t *index;         /* NULL: row i is index i */
    double *m;               /* rank x n: columns of M; before it is there, the old rows' */
    double *a;               /* rank x span: those of A, with entries of empty slices */
    double *c, *before;      /* span; n: of a column, what it is solved for, and how it was */
    double *scratch;         /* of curve.h */
    double *chunk;           /* of rows */
    unsigned char *is_row;   /* span */
    double rough;
    int stopped; /* here, or on another rank */
};

static uint64_t chunk_rows(uint32_t rank)
{
    return CHUNK_BYTES / (rank * sizeof(double));
}

static uint64_t numbers(uint64_t n_rows, uint64_t span, uint32_t rank)
{
    return (n_rows + span) * rank + n_rows + (TS_CURVE_SCRATCH + 2) * span +
           chunk_rows(rank) * rank;
}

uint64_t ts_smooth_within_bytes(uint64_t n_rows, uint64_t dim, uint32_t rank)
{
    return ts_bigmem_cost(8 * numbers(n_rows, dim, rank));
}

static uint64_t place(const struct within *w, uint64_t row)
{
    return w->index == NULL ? row : w->index[row] - w->first;
}

/* The backend's rows to columns. The old ones: to a, weighted, and to m as they are. Then those of M, to m; the backend gets the old
 * ones back, which are its rows until all columns are solved: a stop on the way leaves them as they were. */
static int take_columns(struct within *w, int old, struct ts_err *err)
{
    const struct ts_init_conf *c = w->init;
    const uint64_t most = chunk_rows(w->rank);
    int rc = 0;
    for (uint64_t row = 0; row < w->n && rc == 0; row += most) {
        const uint64_t n = w->n - row < most ? w->n - row : most;
        rc = c->backend->get_rows(c->be, w->mode, row, n, w->chunk, err);
#pragma omp parallel for num_threads(w->threads) if (n > 1024)
        for (uint32_t r = 0; r < w->rank; r++) {
            const double weight = w->how->weight == NULL ? 1 : w->how->weight[r];
            for (uint64_t i = 0; i < n && rc == 0; i++) {
                double *of_m = &w->m[r * w->n + row + i], *x = &w->chunk[i * w->rank + r];
                const double was = *of_m;
                *of_m = *x;
                if (old)
                    w->a[r * w->span + place(w, row + i)] = weight * *x;
                else
                    *x = was;
            }
        }
        if (rc == 0 && !old)
            rc = c->backend->put_rows(c->be, w->mode, row, n, w->chunk, err);
    }
    return rc;
}

/* Rows := M, which is beside them: coordinate descent with the identity, from rows of zeros. It leaves it to the backend to have
 * all rows where get_rows finds them. The Gram matrix of M is of no use, and that of the old rows stays. */
static int settle(struct within *w, double *identity, struct ts_err *err)
{
    const struct ts_init_conf *c = w->init;
    double *zeros = calloc((size_t)w->rank * (w->rank + 1), sizeof *zeros);
    const struct ts_row_update how = { .kind = TS_ROW_COORDINATE,
                                       .matrix = identity,
                                       .weight = zeros,
                                       .lower = -INFINITY,
                                       .upper = INFINITY,
                                       .rounds = 1 };
    int rc;
    if (zeros == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for the weights of columns");
    for (uint32_t i = 0; i < w->rank; i++)
        for (uint32_t j = 0; j < w->rank; j++)
            identity[(size_t)i * w->rank + j] = i == j;
    rc = c->backend->solve(c->be, w->mode, &how, &(struct ts_row_sums){ .gram = zeros + w->rank },
                           err);
    free(zeros);
    return rc;
}

/* c := m_r - sum over the other columns s of a_s G_sr */
static void multiply_others(const struct within *w, uint32_t r)
{
    const double *g = w->how->matrix + (size_t)r * w->rank;
#pragma omp parallel for schedule(static) num_threads(w->threads) if (w->n * w->rank > 65536)
    for (uint64_t row = 0; row < w->n; row++) {
        const uint64_t at = place(w, row);
        double sum = w->m[r * w->n + row];
        for (uint32_t s = 0; s < w->rank; s++)
            sum -= s == r ? 0 : w->a[s * w->span + at] * g[s];
        w->c[at] = sum;
    }
}

static int gives_up(void *ctx)
{
    struct within *w = ctx;
    const struct ts_init_conf *c = w->init;
    w->stopped = w->stopped || ts_stop_asked(c->stop) ||
                 (ts_backend_can(c->backend, TS_CAN_RANKS) &&
                  (ts_stop_asked(c->own_stop) || c->backend->given_up(c->be)));
    return w->stopped;
}

static struct ts_curve curve_of(struct within *w, uint32_t r)
{
    return (struct ts_curve){ .n = w->span,
                              .is_row = w->index == NULL ? NULL : w->is_row,
                              .g = w->how->matrix[(size_t)r * w->rank + r],
                              .mu = w->init->spec->mode[w->mode].smooth,
                              .l1 = w->how->l1,
                              .lower = w->how->lower,
                              .upper = w->how->upper,
                              .c = w->c,
                              .x = w->a + r * w->span,
                              .scratch = w->scratch,
                              .gives_up = gives_up,
                              .ctx = w };
}

static double solve_column(struct within *w, uint32_t r)
{
    const struct ts_curve curve = curve_of(w, r);
    if (curve.g > 0 && isfinite(1 / curve.g)) {
        multiply_others(w, r);
        return ts_curve_solve(&curve);
    }
    for (uint64_t i = 0; i < w->span; i++) /* not where there is no row alone: that would bend */
        curve.x[i] = fmin(fmax(0, curve.lower), curve.upper);
    return 0;
}

/* All ranks get through, or none does. */
static int solve_columns(struct within *w, struct ts_err *err)
{
    const struct ts_init_conf *c = w->init;
    const double tol = TS_ROW_TOL(w->how->rounds);
    int rc;
    for (uint32_t r = 0; r < w->rank; r++) {
        const struct ts_curve curve = curve_of(w, r);
        ts_curve_begin(&curve);
    }
    for (uint32_t round = 0; round < w->how->rounds && !w->stopped; round++) {
        double moved = 0, size = 0;
        w->rough = 0;
        for (uint32_t r = 0; r < w->rank && !gives_up(w); r++) {
            const double *a = w->a + r * w->span;
            for (uint64_t row = 0; row < w->n; row++)
                w->before[row] = a[place(w, row)];
            w->rough += solve_column(w, r);
            for (uint64_t row = 0; row < w->n; row++) {
                const double now = a[place(w, row)], way = now - w->before[row];
                moved += way * way;
                size += now * now;
            }
        }
        if (moved <= tol * tol * size)
            break;
    }
    rc = w->stopped ? ts_fail(err, TS_ESTOP, "stopped") : 0;
    return ts_backend_can(c->backend, TS_CAN_RANKS) ? c->backend->agree(c->be, rc, err) : rc;
}

/* |D A|^2 of the columns as they are now. */
static double roughness(const struct within *w)
{
    double sum = 0;
    for (uint32_t r = 0; r < w->rank; r++)
        sum += ts_curve_bends(w->span, w->a + r * w->span, NULL);
    return sum;
}

/* Rows of A to the backend, as it is going to hold them. Returns the sum of their magnitudes in *size; where rounding changes
 * rows, w->rough is theirs: what large entries lose can bend more than the curve does. */
static int put_columns(struct within *w, double *size, struct ts_err *err)
{
    const struct ts_init_conf *c = w->init;
    const uint64_t most = chunk_rows(w->rank);
    int rc = 0;
    *size = 0;
    for (uint64_t row = 0; row < w->n && rc == 0; row += most) {
        const uint64_t n = w->n - row < most ? w->n - row : most;
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t r = 0; r < w->rank; r++) {
                double *x = w->a + r * w->span + place(w, row + i);
                const double held = w->precision == TS_FLOAT32 ? (float)*x : *x;
                w->chunk[i * w->rank + r] = *x = held;
                *size += fabs(held);
            }
        rc = c->backend->put_rows(c->be, w->mode, row, n, w->chunk, err);
    }
    if (w->precision == TS_FLOAT32)
        w->rough = roughness(w);
    return rc;
}

static int run(struct within *w, double *scratch, const struct ts_row_sums *sums, double *penalty,
               struct ts_err *err)
{
    const struct ts_init_conf *c = w->init;
    const struct ts_constraint *of = &c->spec->mode[w->mode];
    const struct ts_row_update keep = { .kind = TS_ROW_KEEP };
    double size;
    int rc = take_columns(w, 1, err);
    if (rc == 0)
        rc = settle(w, scratch, err);
    if (rc == 0)
        rc = take_columns(w, 0, err);
    if (rc == 0)
        rc = solve_columns(w, err);
    if (rc < 0)
        return rc;
    rc = put_columns(w, &size, err);
    *penalty = of->l1 > 0 ? of->l1 * size + 0.5 * of->smooth * w->rough : w->rough;
    return rc == 0 ? c->backend->solve(
                         c->be, w->mode, &keep,
                         &(struct ts_row_sums){ .gram = sums->gram, .inner = sums->inner }, err)
                   : rc;
}

/* Divides memory; which rows there are. */
static void lay_out(struct within *w, double *memory)
{
    w->m = memory;
    w->a = w->m + w->n * w->rank;
    w->c = w->a + w->span * w->rank;
    w->before = w->c + w->span;
    w->scratch = w->before + w->n;
    w->chunk = w->scratch + TS_CURVE_SCRATCH * w->span;
    w->is_row = (unsigned char *)(w->chunk + chunk_rows(w->rank) * w->rank);
    memset(w->a, 0, w->span * w->rank * sizeof *w->a);
    memset(w->c, 0, w->span * sizeof *w->c);
    memset(w->is_row, 0, w->span);
    for (uint64_t row = 0; row < w->n; row++)
        w->is_row[place(w, row)] = 1;
}

int ts_smooth_within_solve(const struct ts_init_conf *init, enum ts_precision precision,
                           uint32_t mode, const struct ts_row_update *how, double *scratch,
                           const struct ts_row_sums *sums, double *penalty, struct ts_err *err)
{
    const struct ts_disk_mode *disk = &init->tensor->mode[mode].disk;
    struct within w = { .init = init,
                        .how = how,
                        .precision = precision,
                        .mode = mode,
                        .rank = init->rank,
                        .threads = init->threads > 0 ? (int)init->threads : omp_get_max_threads(),
                        .n = disk->n_rows,
                        .span = disk->n_rows };
    void *memory = NULL;
    uint64_t bytes = 0;
    int rc;
    for (size_t i = 0; i < (size_t)w.rank * w.rank; i++)
        if (!isfinite(how->matrix[i]))
            return ts_fail(err, TS_ELIMIT,
                           "factors are not finite: the values leave the range of the precision; "
                           "scale them so that the largest is near 1");
    rc = ts_tensor_rows(init->tensor, mode, &w.index, err);
    if (rc == 0 && w.index != NULL && w.n > 0) {
        w.first = w.index[0];
        w.span = w.index[w.n - 1] - w.first + 1;
    }
    if (rc == 0) {
        bytes = 8 * numbers(w.n, w.span, w.rank);
        rc = ts_bigmem_new(bytes, "rows of a mode that is smooth", &memory, err);
    }
    if (rc == 0) {
        lay_out(&w, memory);
        rc = run(&w, scratch, sums, penalty, err);
    }
    ts_bigmem_free(memory, bytes);
    free(w.index);
    return rc;
}
