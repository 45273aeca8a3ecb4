/* SPDX-License-Identifier: BSD-3-Clause */
/* smooth_within.c - rows of a mode whose neighbours are to be alike, and which have bounds or an l1
 * besides: TS_ROW_SMOOTH_WITHIN of stream/row_update.h.
 *
 * With M, G, D and mu of smooth.c, A goes from its old rows towards the least of
 *     1/2 tr(A G A') - tr(A' M) + mu/2 |D A|^2 + l1 sum |A|   with   lower <= A <= upper,
 * rows of empty slices being unknowns without a product, bounds and magnitude. Columns come one
 * after another, as by HALS: with the others as they are, column r has the least of
 *     1/2 a' (G_rr E + mu D' D) a - c' a + l1 |E a|_1,   c = m_r - sum over the others s of a_s
 *     G_sr,
 * towards which curve.h goes. So the sum never rises, from column to column. Rounds over all
 * columns are those of coordinate descent, and end as they do (stream/row_update.h). A column of
 * which G_rr is 0 does not matter: it becomes 0, or the bound next to it. ADMM with smooth.c's
 * solve as one of its steps was not taken: the eigenvalues of G x I + mu I x D' D lie so far apart
 * where mu is large that rounds by the hundred are needed, and no rho is right for both ends.
 *
 *   owner    the caller owns matrices; rows are the backend's, M beside them (own_rows).
 *            `bytes` are taken for the time of a call
 *   threads  one calls; products of columns are spread over init->threads, each entry computed by
 *            itself
 *   errors   0 or a negative ts_code; TS_ESTOP soon after *init->stop is set, on all ranks, with
 *            the rows as they were
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "cpd/rows/curve.h"
#include "cpd/rows/row_columns.h"

struct within {
    struct ts_row_columns columns;
    const struct ts_row_update *update;
    double *c, *before;    /* span; n: of a column, what it is solved for, and how it was */
    double *scratch;       /* of curve.h */
    unsigned char *is_row; /* span */
    double rough;
    int stopped; /* the user wants to stop, on this rank or on another */
};

#define OF_SPAN (TS_CURVE_SCRATCH + 2)
#define OF_ROWS 1

static int check(const struct ts_tensor *t, uint32_t mode, uint32_t rank, struct ts_err *err)
{
    return ts_rows_smooth.check(t, mode, rank, err);
}

static uint64_t bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank)
{
    /* a session that is opened for both kinds of rows of a mode computes either */
    const uint64_t both[] = { ts_row_columns_bytes(t, mode, rank, OF_SPAN, OF_ROWS),
                              ts_rows_smooth.bytes(t, mode, rank) };
    return both[0] > both[1] ? both[0] : both[1];
}

/* c := m_r - sum over the other columns s of a_s G_sr */
static void multiply_others(const struct within *w, uint32_t r)
{
    const struct ts_row_columns *k = &w->columns;
    const double *g = w->update->matrix + (size_t)r * k->rank;
#pragma omp parallel for schedule(static) num_threads(k->threads) if (k->n * k->rank > 65536)
    for (uint64_t row = 0; row < k->n; row++) {
        const uint64_t at = ts_row_columns_place(k, row);
        double sum = k->m[r * k->n + row];
        for (uint32_t s = 0; s < k->rank; s++)
            sum -= s == r ? 0 : k->a[s * k->span + at] * g[s];
        w->c[at] = sum;
    }
}

static int gives_up(void *ctx)
{
    struct within *w = ctx;
    const struct ts_init_conf *c = w->columns.task->init;
    w->stopped = w->stopped || ts_stop_asked(c->stop) ||
                 (ts_backend_can(c->backend, TS_CAN_RANKS) &&
                  (ts_stop_asked(c->own_stop) || c->backend->given_up(c->be)));
    return w->stopped;
}

static struct ts_curve curve_of(struct within *w, uint32_t r)
{
    const struct ts_row_columns *k = &w->columns;
    return (struct ts_curve){ .n = k->span,
                              .is_row = k->index == NULL ? NULL : w->is_row,
                              .g = w->update->matrix[(size_t)r * k->rank + r],
                              .mu = k->task->init->spec->mode[k->task->mode].smooth,
                              .l1 = w->update->l1,
                              .lower = w->update->lower,
                              .upper = w->update->upper,
                              .c = w->c,
                              .x = k->a + r * k->span,
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
    /* not where there is no row alone: that would bend */
    for (uint64_t i = 0; i < curve.n; i++)
        curve.x[i] = fmin(fmax(0, curve.lower), curve.upper);
    return 0;
}

/* All ranks get through, or none does. */
static int solve_columns(struct within *w, struct ts_err *err)
{
    const struct ts_row_columns *k = &w->columns;
    const struct ts_init_conf *c = k->task->init;
    const double tol = TS_ROW_TOL(w->update->rounds);
    int rc;
    for (uint32_t r = 0; r < k->rank; r++) {
        const struct ts_curve curve = curve_of(w, r);
        ts_curve_begin(&curve);
    }
    for (uint32_t round = 0; round < w->update->rounds && !w->stopped; round++) {
        double moved = 0, size = 0;
        w->rough = 0;
        for (uint32_t r = 0; r < k->rank && !gives_up(w); r++) {
            const double *a = k->a + r * k->span;
            for (uint64_t row = 0; row < k->n; row++)
                w->before[row] = a[ts_row_columns_place(k, row)];
            w->rough += solve_column(w, r);
            for (uint64_t row = 0; row < k->n; row++) {
                const double now = a[ts_row_columns_place(k, row)], way = now - w->before[row];
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
    for (uint32_t r = 0; r < w->columns.rank; r++)
        sum += ts_curve_bends(w->columns.span, w->columns.a + r * w->columns.span, NULL);
    return sum;
}

/* Divides memory; which rows there are. */
static void lay_out(struct within *w)
{
    const struct ts_row_columns *k = &w->columns;
    w->c = k->more;
    w->before = w->c + k->span;
    w->scratch = w->before + k->n;
    w->is_row = (unsigned char *)(w->scratch + TS_CURVE_SCRATCH * k->span);
    memset(w->c, 0, k->span * sizeof *w->c);
    memset(w->is_row, 0, k->span);
    for (uint64_t row = 0; row < k->n; row++)
        w->is_row[ts_row_columns_place(k, row)] = 1;
}

/* What large entries lose by rounding can bend more than the curve does, so the penalty is that of
 * the rows as they are held. */
static int make(const struct ts_row_task *task, struct ts_err *err)
{
    const struct ts_constraint *mode = &task->init->spec->mode[task->mode];
    struct within w = { .update = task->update };
    int rc = ts_row_columns_open(task, OF_SPAN, OF_ROWS, "rows of a mode that is smooth",
                                 &w.columns, err);
    if (rc == 0) {
        lay_out(&w);
        rc = ts_row_columns_get(&w.columns, err);
    }
    if (rc == 0)
        rc = solve_columns(&w, err);
    if (rc == 0) {
        rc = ts_row_columns_put(&w.columns, err);
        if (task->precision == TS_FLOAT32)
            w.rough = roughness(&w);
        *task->size =
            mode->l1 > 0 ? mode->l1 * w.columns.size + 0.5 * mode->smooth * w.rough : w.rough;
    }
    ts_row_columns_close(&w.columns);
    return rc;
}

const struct ts_row_maker ts_rows_smooth_within = {
    .check = check,
    .bytes = bytes,
    .make = make,
};
