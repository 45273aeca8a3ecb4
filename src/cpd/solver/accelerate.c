/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores the factors from which the last sweep started. Computes the factors from which the next
 * sweep starts, from the stored factors and the newest ones. */
#include "cpd/solver/accelerate.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"

#define FIRST_STEP 5u /* the first sweep that may start from extrapolated factors */
/* added to k, the number of good sweeps in a row, in the divisor of the step (accelerate.h), so
 * that it grows slower than with Nesterov's 2 */
#define LATE 5
/* bytes of float64 rows that are copied at a time from and to the backend */
#define CHUNK_BYTES (UINT64_C(1) << 20)

struct ts_accelerate {
    struct ts_init_conf init;
    enum ts_precision precision;
    uint32_t order, rank, modes; /* modes: bit m is set if the factor of mode m is stored */
    /* 1: the lengths of the factors' columns matter (ts_spec_lengths) */
    int lengths;
    struct ts_disk_accelerate pace;
    int kept; /* 1: `before`, `lambda` and `norm` are set */
    /* by mode: rows of the factor that the last sweep started from, in the precision of the run */
    void *before[TS_MAX_ORDER];
    uint64_t bytes[TS_MAX_ORDER]; /* by mode: bytes of `before` */
    /* lambda: `rank` weights; norm: order x rank column norms, in the same memory. Both are those
     * of `before` */
    double *lambda;
    double *norm;
    double *chunk; /* memory for rows that are being copied */
    double *scale; /* rank: multipliers of the columns of `before` */
};

static uint64_t row_bytes(uint32_t rank, enum ts_precision precision)
{
    return rank * (precision == TS_FLOAT32 ? sizeof(float) : sizeof(double));
}

/* Returns the modes whose factors are stored (bit m: mode m). Not stored are fixed factors, and the
 * factor of the mode that is solved first, unless its update reads the old rows. */
static uint32_t kept_modes(const struct ts_spec *spec, uint32_t order)
{
    const struct ts_constraint *c = ts_spec_of(spec)->mode;
    uint32_t first = 0, ret = 0;
    while (first + 1 < order && c[first].fixed)
        first++;
    for (uint32_t m = 0; m < order; m++)
        if (!c[m].fixed)
            ret |= UINT32_C(1) << m;
    if (!ts_row_reads_old(ts_spec_row_kind(spec, first)))
        ret &= ~(UINT32_C(1) << first);
    return ret;
}

int ts_accelerate_check(const struct ts_spec *spec, uint32_t order, struct ts_err *err)
{
    return ts_spec_check_beside(spec, order, TS_HAS_ACCELERATE, err);
}

uint64_t ts_accelerate_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             const struct ts_spec *spec)
{
    const uint32_t modes = kept_modes(spec, t->order);
    uint64_t sum = 0;
    for (uint32_t m = 0; m < t->order; m++)
        if ((modes >> m & 1) != 0)
            sum += t->mode[m].disk.n_rows * row_bytes(rank, precision);
    return sum;
}

int ts_accelerate_new(const struct ts_init_conf *init, enum ts_precision precision,
                      struct ts_accelerate **ret, struct ts_err *err)
{
    struct ts_accelerate *a = calloc(1, sizeof *a);
    int rc = 0;
    if (a == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    a->init = *init;
    a->precision = precision;
    a->order = init->tensor->order;
    a->rank = init->rank;
    a->modes = kept_modes(init->spec, a->order);
    a->lengths = ts_spec_lengths(init->spec, a->order);
    /* 1: no extrapolation is due, because the first sweep begins with the starting factors */
    a->pace.taken = 1;
    a->pace.gain[0] = a->pace.gain[1] = INFINITY;
    a->lambda = calloc((a->order + 2) * (size_t)a->rank, sizeof *a->lambda);
    a->chunk = malloc(CHUNK_BYTES);
    if (a->lambda == NULL || a->chunk == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for rows of factors");
    for (uint32_t m = 0; m < a->order && rc == 0; m++) {
        const uint64_t bytes = init->tensor->mode[m].disk.n_rows * row_bytes(a->rank, precision);
        if ((a->modes >> m & 1) == 0)
            continue;
        rc = ts_bigmem_new(bytes, "the factors of the sweep before", &a->before[m], err);
        a->bytes[m] = rc == 0 ? bytes : 0;
    }
    if (rc < 0) {
        ts_accelerate_free(a);
        return rc;
    }
    a->norm = a->lambda + a->rank;
    a->scale = a->norm + (size_t)a->order * a->rank;
    *ret = a;
    return 0;
}

void ts_accelerate_free(struct ts_accelerate *a)
{
    if (a == NULL)
        return;
    for (uint32_t m = 0; m < a->order; m++)
        ts_bigmem_free(a->before[m], a->bytes[m]);
    free(a->lambda);
    free(a->chunk);
    free(a);
}

void ts_accelerate_fit(struct ts_accelerate *a, uint32_t sweep, double fit)
{
    struct ts_disk_accelerate *p = &a->pace;
    p->taken = 0;
    p->gain[1] = p->gain[0];
    p->gain[0] = sweep > 1 ? fabs(fit - p->best) : INFINITY;
    if (p->step > 0 && fit < p->best) {
        p->step = -1;
        p->streak = 0;
        return;
    }
    p->best = fit;
    p->streak++;
    p->step = sweep < FIRST_STEP ? 0 : (double)(p->streak - 1) / (double)(p->streak + LATE);
}

int ts_accelerate_fell(const struct ts_accelerate *a)
{
    return a != NULL && a->pace.step < 0;
}

int ts_accelerate_settled(const struct ts_accelerate *a, double tol)
{
    const struct ts_disk_accelerate *p = &a->pace;
    return p->step >= 0 && p->gain[0] < tol && p->gain[1] < tol;
}

/* ---- rows of factors ---- */

/* Changes an extrapolated row so that it meets the constraints of its mode. */
static void meet(const struct ts_constraint *c, uint32_t rank, double *row)
{
    const double lower = c->nonneg || c->simplex ? fmax(c->bounded ? c->lower : 0, 0)
                         : c->bounded            ? c->lower
                                                 : -INFINITY;
    const double upper = c->bounded ? c->upper : INFINITY;
    double sum = 0;
    for (uint32_t r = 0; r < rank; r++) {
        row[r] = row[r] > lower ? row[r] : lower;
        row[r] = row[r] < upper ? row[r] : upper;
        sum += row[r];
    }
    for (uint32_t r = 0; r < rank && c->simplex && sum > 0; r++)
        row[r] /= sum;
}

/* Computes n rows from which the next sweep starts. On entry, rows has the factor after the last
 * sweep, and `before`, from element `at` on, the factor before it. On return, `before` has the
 * factor after the last sweep. */
static void mix(const struct ts_accelerate *a, uint32_t mode, uint64_t at, double *rows, uint64_t n)
{
    const struct ts_init_conf *c = &a->init;
    const int threads = c->threads > 0 ? (int)c->threads : omp_get_max_threads();
    const double step = a->kept ? a->pace.step : 0;
    const uint32_t rank = a->rank;
#pragma omp parallel for num_threads(threads)
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t r = 0; r < rank; r++) {
            const uint64_t k = i * rank + r;
            const double now = rows[k];
            double was;
            if (a->precision == TS_FLOAT32) {
                was = ((const float *)a->before[mode])[at + k];
                ((float *)a->before[mode])[at + k] = (float)now;
            } else {
                was = ((const double *)a->before[mode])[at + k];
                ((double *)a->before[mode])[at + k] = now;
            }
            rows[k] = step > 0 ? now + step * (now - a->scale[r] * was) : now;
        }
        if (step > 0 && c->spec != NULL)
            meet(&c->spec->mode[mode], rank, rows + i * rank);
    }
}

/* rows := n rows of the factor `before`, from element `at` on */
static void recall(const struct ts_accelerate *a, uint32_t mode, uint64_t at, double *rows,
                   uint64_t n)
{
    for (uint64_t k = 0; k < n * a->rank; k++)
        rows[k] = a->precision == TS_FLOAT32 ? ((const float *)a->before[mode])[at + k]
                                             : ((const double *)a->before[mode])[at + k];
}

static int step_mode(struct ts_accelerate *a, uint32_t mode, double *gram, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->init;
    const uint64_t n_rows = c->tensor->mode[mode].disk.n_rows;
    const uint64_t most = CHUNK_BYTES / (a->rank * sizeof(double));
    const int changed = a->kept && a->pace.step != 0;
    double *norm = a->norm + (size_t)mode * a->rank;
    int rc = 0;
    for (uint32_t r = 0; r < a->rank && a->pace.step >= 0; r++) {
        const double now = sqrt(gram[(size_t)r * a->rank + r]);
        if (a->lengths)
            a->scale[r] = now > 0 ? 1 : 0; /* a column that became 0 stays 0 */
        else
            a->scale[r] = norm[r] > 0 ? now / norm[r] : 1;
        norm[r] = now;
    }
    for (uint64_t row = 0; row < n_rows && rc == 0; row += most) {
        const uint64_t n = n_rows - row < most ? n_rows - row : most;
        if (a->pace.step < 0)
            recall(a, mode, row * a->rank, a->chunk, n);
        else
            rc = c->backend->get_rows(c->be, mode, row, n, a->chunk, err);
        if (rc == 0 && a->pace.step >= 0)
            mix(a, mode, row * a->rank, a->chunk, n);
        if (rc == 0 && changed)
            rc = c->backend->put_rows(c->be, mode, row, n, a->chunk, err);
    }
    return rc == 0 && changed ? c->backend->gram(c->be, mode, gram, err) : rc;
}

int ts_accelerate_step(struct ts_accelerate *a, double *gram, double *lambda, struct ts_err *err)
{
    const size_t square = (size_t)a->rank * a->rank;
    int rc = 0;
    if (a->pace.taken)
        return 0;
    for (uint32_t m = 0; m < a->order && rc == 0; m++)
        if ((a->modes >> m & 1) != 0)
            rc = step_mode(a, m, gram + m * square, err);
    if (rc < 0)
        return rc;
    if (a->pace.step < 0)
        memcpy(lambda, a->lambda, a->rank * sizeof *lambda);
    else
        memcpy(a->lambda, lambda, a->rank * sizeof *lambda);
    a->pace.taken = 1;
    a->kept = 1;
    return 0;
}

/* ---- the extrapolation in the state of a run ---- */

void ts_accelerate_tell(const struct ts_accelerate *a, struct ts_state *s)
{
    s->pace = a->pace;
    s->before = a->lambda;
    s->kept = a->kept ? a->modes : 0;
    for (uint32_t m = 0; m < a->order; m++)
        s->before_rows[m] = a->before[m];
}

int ts_accelerate_restore(struct ts_accelerate *a, const struct ts_state_file *f,
                          struct ts_err *err)
{
    const struct ts_state *s = ts_state_get(f);
    int rc = 0;
    if (s->kept != 0 && s->kept != a->modes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: factors of the sweep before are missing (the file is damaged)",
                       ts_state_path(f));
    a->pace = s->pace;
    a->kept = s->kept != 0;
    memcpy(a->lambda, s->before, (a->order + 1) * (size_t)a->rank * sizeof *a->lambda);
    for (uint32_t m = 0; m < a->order && rc == 0; m++)
        if ((s->kept >> m & 1) != 0)
            rc = ts_state_before(f, m, a->before[m], err);
    return rc;
}
