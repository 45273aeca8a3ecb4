/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies the best factors of a run from the backend, and exchanges them with its later factors. */
#include "cpd/solver/best.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"

/* bytes of float64 rows that are copied to or from the backend at a time */
#define CHUNK_BYTES (UINT64_C(1) << 20)

/* Indices in `number` (struct ts_best) of the figures of the best sweep, which a state stores. */
enum { SWEEP, FIT, CHANGE, OBJECTIVE, RMSE, HELD_OUT, HELD_OUT_LOSS, LIKELIHOOD, KKT, DEAD, MEAN };
_Static_assert(MEAN < TS_BEST_NUMBERS, "room for all of them");

struct ts_best {
    struct ts_init_conf init;
    enum ts_precision precision;
    uint32_t order, rank;
    /* TS_BEST_NUMBERS figures of the best sweep, then rank weights, then order x rank column
     * norms */
    double *number;
    char *memory; /* all factors, in the precision of the run */
    uint64_t memory_bytes;
    char *rows[TS_MAX_ORDER];
    /* chunk: rows that are copied from the backend; other: rows of the best factors */
    double *chunk, *other;
    int in_backend;
};

uint64_t ts_best_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                       const struct ts_spec *spec)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < t->order && ts_spec_of(spec)->best; m++)
        sum += ts_mode_rows_bytes(t, m, rank, precision);
    return sum > 0 ? ts_bigmem_cost(sum) : 0;
}

int ts_best_new(const struct ts_init_conf *init, enum ts_precision precision, struct ts_best **ret,
                struct ts_err *err)
{
    struct ts_best *b = calloc(1, sizeof *b);
    char *at;
    int rc;
    if (b == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    b->init = *init;
    b->precision = precision;
    b->order = init->tensor->order;
    b->rank = init->rank;
    b->number = calloc(TS_BEST_NUMBERS + (b->order + (size_t)1) * b->rank, sizeof *b->number);
    b->chunk = malloc(2 * CHUNK_BYTES);
    b->memory_bytes = 1;
    for (uint32_t m = 0; m < b->order; m++)
        b->memory_bytes += ts_mode_rows_bytes(init->tensor, m, b->rank, precision);
    rc = b->number == NULL || b->chunk == NULL
             ? ts_fail(err, TS_ENOMEM, "out of memory for rows of factors")
             : ts_bigmem_new(b->memory_bytes, "the best factors", (void **)&b->memory, err);
    if (rc < 0) {
        ts_best_free(b);
        return rc;
    }
    memset(b->memory, 0, b->memory_bytes);
    b->other = b->chunk + CHUNK_BYTES / sizeof *b->chunk;
    at = b->memory;
    for (uint32_t m = 0; m < b->order; m++) {
        b->rows[m] = at;
        at += ts_mode_rows_bytes(init->tensor, m, b->rank, precision);
    }
    *ret = b;
    return 0;
}

void ts_best_free(struct ts_best *b)
{
    if (b == NULL)
        return;
    if (b->memory != NULL)
        ts_bigmem_free(b->memory, b->memory_bytes);
    free(b->number);
    free(b->chunk);
    free(b);
}

/* ret := n numbers of the copied factors, from `at` on, as float64. */
static void from_copy(const struct ts_best *b, const char *at, uint64_t n, double *ret)
{
    for (uint64_t i = 0; i < n && b->precision == TS_FLOAT32; i++)
        ret[i] = (double)((const float *)(const void *)at)[i];
    if (b->precision == TS_FLOAT64)
        memcpy(ret, at, n * sizeof *ret);
}

static void to_copy(const struct ts_best *b, const double *from, uint64_t n, char *at)
{
    for (uint64_t i = 0; i < n && b->precision == TS_FLOAT32; i++)
        ((float *)(void *)at)[i] = (float)from[i];
    if (b->precision == TS_FLOAT64)
        memcpy(at, from, n * sizeof *from);
}

/* Copies the rows of the backend into the copy of the best factors. both: also copies the rows of
 * that copy into the backend. */
static int move_rows(struct ts_best *b, int both, struct ts_err *err)
{
    const struct ts_init_conf *c = &b->init;
    const uint64_t step = CHUNK_BYTES / (b->rank * sizeof(double));
    int rc = 0;
    for (uint32_t m = 0; m < b->order; m++) {
        const uint64_t n_rows = c->tensor->mode[m].disk.n_rows;
        for (uint64_t row = 0; row < n_rows && rc == 0; row += step) {
            const uint64_t n = n_rows - row < step ? n_rows - row : step;
            char *at = b->rows[m] + row * b->rank * ts_precision_bytes(b->precision);
            from_copy(b, at, n * b->rank, b->other);
            rc = c->backend->get_rows(c->be, m, row, n, b->chunk, err);
            if (rc == 0 && both)
                rc = c->backend->put_rows(c->be, m, row, n, b->other, err);
            if (rc == 0)
                to_copy(b, b->chunk, n * b->rank, at);
        }
    }
    return rc;
}

int ts_best_take(struct ts_best *b, const struct ts_solver_sweep *s, const double *lambda,
                 const double *gram, struct ts_err *err)
{
    double *x = b->number, *norm = x + TS_BEST_NUMBERS + b->rank;
    x[SWEEP] = s->sweep;
    x[FIT] = s->fit;
    x[CHANGE] = s->change;
    x[OBJECTIVE] = s->objective;
    x[RMSE] = s->rmse;
    x[HELD_OUT] = s->held_out;
    x[HELD_OUT_LOSS] = s->held_out_loss;
    x[LIKELIHOOD] = s->log_likelihood;
    x[KKT] = s->kkt;
    x[DEAD] = s->n_dead;
    x[MEAN] = s->mean;
    memcpy(x + TS_BEST_NUMBERS, lambda, b->rank * sizeof *lambda);
    for (uint32_t m = 0; m < b->order; m++)
        for (uint32_t r = 0; r < b->rank; r++)
            norm[m * (size_t)b->rank + r] = sqrt(gram[((size_t)m * b->rank + r) * b->rank + r]);
    return move_rows(b, 0, err);
}

uint32_t ts_best_sweep(const struct ts_best *b)
{
    return (uint32_t)b->number[SWEEP];
}

void ts_best_tell(const struct ts_best *b, struct ts_solver_result *ret)
{
    const double *x = b->number;
    ret->best_sweep = ts_best_sweep(b);
    ret->fit = x[FIT];
    ret->objective = x[OBJECTIVE];
    ret->rmse = x[RMSE];
    ret->held_out = x[HELD_OUT];
    ret->held_out_loss = x[HELD_OUT_LOSS];
    ret->log_likelihood = x[LIKELIHOOD];
    ret->kkt = x[KKT];
    ret->n_dead = (uint32_t)x[DEAD];
    ret->mean = x[MEAN];
}

const double *ts_best_lambda(const struct ts_best *b)
{
    return b->number + TS_BEST_NUMBERS;
}

const double *ts_best_norm(const struct ts_best *b)
{
    return b->number + TS_BEST_NUMBERS + b->rank;
}

int ts_best_swap(struct ts_best *b, int in_backend, struct ts_err *err)
{
    int rc = 0;
    if (!b->in_backend == !in_backend)
        return 0;
    rc = move_rows(b, 1, err);
    b->in_backend = in_backend;
    return rc;
}

void ts_best_save(const struct ts_best *b, struct ts_state *s)
{
    s->best = b->number;
    for (uint32_t m = 0; m < b->order; m++)
        s->moment[TS_MOMENT_BEST][m] = b->rows[m];
}

int ts_best_restore(struct ts_best *b, const struct ts_state_file *f, struct ts_err *err)
{
    int rc = 0;
    memcpy(b->number, ts_state_get(f)->best,
           (TS_BEST_NUMBERS + (b->order + (size_t)1) * b->rank) * sizeof *b->number);
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        rc = ts_state_moment(f, TS_MOMENT_BEST, m, b->rows[m], err);
    return rc;
}
