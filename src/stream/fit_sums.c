/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums errors and a loss over partitions, from the model's value at each nonzero. */
#include "stream/fit_sums.h"

#include <stdlib.h>

#include "format/tensor_kind.h"
#include "stream/loss.h"
#include "stream/loss_functions.h"

#define LANES 8u

/* The sums over a partition's nonzeros, for the request ERRORS or LOSSES. */
struct ts_fit_part {
    union {
        struct {
            struct ts_cell_errors kept, held;
        } errors;
        struct {
            struct ts_cell_losses kept, held;
        } losses;
    };
};

/* Adds a cell with its value and the model's value to all sums, `weight` times. */
static void add_error(struct ts_cell_errors *s, double value, double model, double weight)
{
    s->n += weight;
    s->sum += weight * value;
    s->squares += weight * (value * value);
    s->inner += weight * (value * model);
    s->left += weight * ((value - model) * (value - model));
}

/* Adds cells without weights. It uses LANES independent sums, so that their additions overlap in
 * the processor. mean: added to the model's values. */
static void add_errors(struct ts_cell_errors *s, const struct ts_cells *c, double mean)
{
    double sum[LANES] = { 0 }, squares[LANES] = { 0 }, inner[LANES] = { 0 }, left[LANES] = { 0 };
    uint32_t i = 0;
    for (; i + LANES <= c->n; i += LANES)
        for (uint32_t l = 0; l < LANES; l++) {
            const double x = c->value[i + l], m = c->model[i + l] + mean;
            sum[l] += x;
            squares[l] += x * x;
            inner[l] += x * m;
            left[l] += (x - m) * (x - m);
        }
    for (uint32_t l = 0; l < LANES; l++) {
        s->sum += sum[l];
        s->squares += squares[l];
        s->inner += inner[l];
        s->left += left[l];
    }
    s->n += i;
    for (; i < c->n; i++)
        add_error(s, c->value[i], c->model[i] + mean, 1);
}

static void add_loss(const struct ts_loss_sums *j, struct ts_cell_losses *s, double x, double m,
                     int held)
{
    static const double zero;
    s->n++;
    s->x += x;
    s->loss += j->loss->judge(1, &x, &m, j->at);
    if (!j->observed && !held)
        s->loss -= j->loss->judge(1, &zero, &m, j->at);
    s->reference += ts_loss_reference(j->loss->kind, x, j->at);
}

static int is_held(const struct ts_fit_sums *s, const struct ts_cells *c, uint32_t i)
{
    uint64_t hash = ts_hold_out_begin(&s->hold_out);
    if (s->hold_out.share == 0)
        return 0;
    for (uint32_t m = 0; m < s->order; m++)
        hash = ts_hold_out_add(hash, c->row[m][i]);
    return ts_hold_out_held(&s->hold_out, hash);
}

/* Adds the errors at cells to the sums of their partition: `take` of struct ts_weighted for ERRORS.
 * One thread gets all cells of a partition, so no lock is needed. */
static int sum_errors(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err)
{
    const struct ts_fit_sums *s = ctx;
    const double mean = s->request->errors->mean;
    struct ts_fit_part *part = &s->part[c->partition];
    (void)thread;
    (void)err;
    if (s->hold_out.share == 0 && c->weight == NULL) {
        add_errors(&part->errors.kept, c, mean);
        return 0;
    }
    for (uint32_t i = 0; i < c->n; i++)
        add_error(is_held(s, c, i) ? &part->errors.held : &part->errors.kept, c->value[i],
                  c->model[i] + mean, c->weight == NULL ? 1 : c->weight[i]);
    return 0;
}

static int sum_losses(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err)
{
    const struct ts_fit_sums *s = ctx;
    struct ts_fit_part *part = &s->part[c->partition];
    (void)thread;
    (void)err;
    for (uint32_t i = 0; i < c->n; i++) {
        const int held = is_held(s, c, i);
        add_loss(s->request->losses, held ? &part->losses.held : &part->losses.kept, c->value[i],
                 c->model[i], held);
    }
    return 0;
}

int ts_fit_sums_begin(const struct ts_tensor *t, uint32_t mode, const struct ts_request *request,
                      struct ts_fit_sums *ret, struct ts_err *err)
{
    const int errors = request->kind == TS_REQUEST_ERRORS;
    *ret = (struct ts_fit_sums){ .request = request,
                                 .hold_out =
                                     errors ? request->errors->hold_out : request->losses->hold_out,
                                 .order = t->order,
                                 .n = ts_tensor_partitions(t, mode) };
    ret->part = calloc(ret->n + 1, sizeof *ret->part);
    if (ret->part == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for %s", t->path,
                       errors ? "errors" : "sums of the loss");
    ret->cells = (struct ts_weighted){
        .take = errors ? sum_errors : sum_losses,
        .part = ret->part,
        .part_bytes = sizeof *ret->part,
        .ctx = ret,
        .rows = ret->hold_out.share > 0 ? (UINT32_C(1) << t->order) - 1 : 0,
    };
    return 0;
}

/* Adds the sums at `from` to those at `to`: structs of `bytes` bytes that consist of float64
 * only. */
static void join(void *to, const void *from, size_t bytes)
{
    double *sum = to;
    const double *more = from;
    for (size_t i = 0; i < bytes / sizeof *sum; i++)
        sum[i] += more[i];
}

void ts_fit_sums_end(struct ts_fit_sums *s, int rc)
{
    for (uint64_t k = 0; k < s->n && rc == 0; k++) {
        const struct ts_fit_part *part = &s->part[k];
        if (s->request->kind == TS_REQUEST_ERRORS) {
            join(&s->request->errors->kept, &part->errors.kept, sizeof part->errors.kept);
            join(&s->request->errors->held, &part->errors.held, sizeof part->errors.held);
        } else {
            join(&s->request->losses->kept, &part->losses.kept, sizeof part->losses.kept);
            join(&s->request->losses->held, &part->losses.held, sizeof part->losses.held);
        }
    }
    free(s->part);
    s->part = NULL;
    s->n = 0;
}

uint64_t ts_fit_sums_bytes(const struct ts_tensor *t)
{
    return (ts_tensor_partitions(t, t->order - 1) + 1) * sizeof(struct ts_fit_part);
}
