/* SPDX-License-Identifier: BSD-3-Clause */
/* smooth_within.c - updates rows of a mode whose neighbouring rows should be similar, and which has
 * bounds or an l1 penalty: TS_ROW_SMOOTH_WITHIN of stream/row_update.h.
 *
 * Let M be the MTTKRP, G the product of the other modes' Gram matrices plus l2, D the second
 * differences of neighbouring rows, and mu the weight of the penalty. The factor A moves from its
 * old rows towards the minimum of
 *     1/2 tr(A G A') - tr(A' M) + mu/2 |D A|^2 + l1 sum |A|   with   lower <= A <= upper.
 * Rows of empty slices are unknowns that are only in the term with D, and have no bounds. Columns
 * are computed one after another, as in HALS: with the other columns s given, column a = a_r of A
 * minimises
 *     1/2 a' (G_rr E + mu D' D) a - c' a + l1 |E a|_1,   c = m_r - sum over s of a_s G_sr.
 * curve.h solves this. So the objective never rises from column to column. Rounds over all columns
 * end like those of coordinate descent (stream/row_update.h). A column whose G_rr is 0 does not
 * affect the objective: it becomes 0, or the bound nearest to 0. ADMM, with the solve of smooth.c
 * as one of its steps, was rejected: if mu is large, the eigenvalues of G x I + mu I x D' D are so
 * far apart that it takes hundreds of rounds, and no rho suits both ends.
 *
 *   owner    the caller owns matrices; the backend owns the rows, and M beside them (own_rows).
 *            `bytes` are allocated during a call
 *   threads  one thread calls; init->threads threads compute products of columns, each entry by one
 *            thread
 *   errors   0 or a negative ts_code; TS_ESTOP soon after *init->stop is set, on all ranks, with
 *            the old rows unchanged
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
    /* c, span numbers: the linear term of the column; before, n numbers: the column before its
     * update */
    double *c, *before;
    double *scratch;       /* memory for curve.h */
    unsigned char *is_row; /* span flags: whether the index has a row */
    double rough;
    int stopped; /* 1: the user wants to stop, on this rank (process) or on another */
};

#define OF_SPAN (TS_CURVE_SCRATCH + 2)
#define OF_ROWS 1

static int check(const struct ts_tensor *t, uint32_t mode, uint32_t rank, struct ts_err *err)
{
    return ts_rows_smooth.check(t, mode, rank, err);
}

static uint64_t bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank)
{
    /* a session may compute smooth rows with bounds or without, so it needs memory for both */
    const uint64_t both[] = { ts_row_columns_bytes(t, mode, rank, OF_SPAN, OF_ROWS),
                              ts_rows_smooth.bytes(t, mode, rank) };
    return both[0] > both[1] ? both[0] : both[1];
}

/* c := m_r - sum over the other columns s of a_s G_sr, with columns m_r of the MTTKRP and a_s of
 * the factor */
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
    /* also sets entries at indices without a row: a 0 there, beside other values, would bend the
     * curve */
    for (uint64_t i = 0; i < curve.n; i++)
        curve.x[i] = fmin(fmax(0, curve.lower), curve.upper);
    return 0;
}

/* Updates the columns, in several rounds over all of them. All ranks (processes) finish, or all of
 * them stop. */
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

/* Returns the sum of squared second differences of the columns as they are now. */
static double roughness(const struct within *w)
{
    double sum = 0;
    for (uint32_t r = 0; r < w->columns.rank; r++)
        sum += ts_curve_bends(w->columns.span, w->columns.a + r * w->columns.span, NULL);
    return sum;
}

/* Divides the memory `more` into arrays, and marks indices that have a row. */
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

/* Computes the rows, and the penalty from the rows as the backend stores them: the rounding of
 * large entries may bend more than the curve does. */
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
