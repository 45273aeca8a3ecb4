/* SPDX-License-Identifier: BSD-3-Clause */
/* A pass that sums how far a model is off at the nonzeros, those that are held out apart. */
#include <stdlib.h>

#include "cpd/als_impl.h"
#include "format/tensor_kind.h"

#define LANES 8u

/* Of a partition. */
struct ts_als_part {
    struct ts_cell_errors kept, held;
};

uint64_t ts_als_sums_bytes(const struct ts_tensor *t)
{
    return (ts_tensor_partitions(t, t->order - 1) + 1) * sizeof(struct ts_als_part);
}

/* A weight counts a cell so many times. */
static void add(struct ts_cell_errors *s, double value, double model, double weight)
{
    s->n += weight;
    s->sum += weight * value;
    s->squares += weight * (value * value);
    s->inner += weight * (value * model);
    s->left += weight * ((value - model) * (value - model));
}

/* Cells that all count once, in LANES sums that do not wait for each other. */
static void add_all(struct ts_cell_errors *s, const struct ts_cells *c, double mean)
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
        add(s, c->value[i], c->model[i] + mean, 1);
}

/* A partition is one thread's: nobody else writes to its part. */
static int take(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err)
{
    const struct ts_als_summing *s = ctx;
    struct ts_als_part *part = &s->part[c->partition];
    (void)thread;
    (void)err;
    if (s->hold_out->share == 0 && c->weight == NULL) {
        add_all(&part->kept, c, s->mean);
        return 0;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t hash = ts_hold_out_begin(s->hold_out);
        int held = 0;
        if (s->hold_out->share > 0) {
            for (uint32_t m = 0; m < s->order; m++)
                hash = ts_hold_out_add(hash, c->row[m][i]);
            held = ts_hold_out_held(s->hold_out, hash);
        }
        add(held ? &part->held : &part->kept, c->value[i], c->model[i] + s->mean,
            c->weight == NULL ? 1 : c->weight[i]);
    }
    return 0;
}

static void add_sums(struct ts_cell_errors *to, const struct ts_cell_errors *from)
{
    to->n += from->n;
    to->sum += from->sum;
    to->squares += from->squares;
    to->inner += from->inner;
    to->left += from->left;
}

int ts_als_errors_request(struct ts_als *a, double mean, struct ts_als_summing *s,
                          struct ts_request *ret, struct ts_err *err)
{
    const struct ts_tensor *t = a->conf->init.tensor;
    const struct ts_hold_out *hold_out = &a->conf->hold_out;
    *s = (struct ts_als_summing){ .hold_out = hold_out,
                                  .order = t->order,
                                  .mean = mean,
                                  .sums = { .hold_out = *hold_out, .mean = mean } };
    ret->name = "errors";
    if (ts_backend_can(a->conf->init.backend, TS_CAN_ERRORS)) {
        ret->kind = TS_REQUEST_ERRORS;
        ret->errors = &s->sums;
        return 0;
    }
    s->n = ts_tensor_partitions(t, a->product);
    s->part = calloc(s->n + 1, sizeof *s->part);
    if (s->part == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for errors", t->path);
    s->what = (struct ts_weighted){
        .take = take,
        .part = s->part,
        .part_bytes = sizeof *s->part,
        .ctx = s,
        .rows = hold_out->share > 0 ? (UINT32_C(1) << t->order) - 1 : 0,
    };
    ret->kind = TS_REQUEST_CELLS;
    ret->cells = &s->what;
    return 0;
}

void ts_als_errors_end(struct ts_als_summing *s, struct ts_cell_errors *kept,
                       struct ts_cell_errors *held)
{
    for (uint64_t k = 0; k < s->n; k++) {
        add_sums(&s->sums.kept, &s->part[k].kept);
        add_sums(&s->sums.held, &s->part[k].held);
    }
    *kept = s->sums.kept;
    *held = s->sums.held;
    ts_als_errors_free(s);
}

void ts_als_errors_free(struct ts_als_summing *s)
{
    free(s->part);
    s->part = NULL;
}
