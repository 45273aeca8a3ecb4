/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of the cells that are listed, others being unknown: rows with a Gram matrix of their own, in the pass itself,
 * and a pass after the last mode that sums the errors, those of cells that are held out apart.
 *
 *   bits     sums are made by partition and added in the order of the file: they do not depend on threads
 */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cpd/method.h"
#include "format/shard.h"

/* Of nonzeros x and the model m there. */
struct errors {
    double n, squares, left; /* how many, of x^2, of (x - m)^2 */
};

struct observed {
    struct errors kept, held; /* after the last mode */
};

/* ---- errors ---- */

/* Of a partition. */
struct part {
    struct errors kept, held;
};

struct sums {
    const struct ts_hold_out *hold_out;
    uint32_t order;
    struct part *part;
};

static void add(struct errors *s, double value, double model)
{
    s->n++;
    s->squares += value * value;
    s->left += (value - model) * (value - model);
}

/* A partition is one thread's: nobody else writes to its part. */
static int take(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *err)
{
    const struct sums *s = ctx;
    struct part *part = &s->part[c->partition];
    (void)thread;
    (void)err;
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t hash = ts_hold_out_begin(s->hold_out);
        int held = 0;
        if (s->hold_out->share > 0) {
            for (uint32_t m = 0; m < s->order; m++)
                hash = ts_hold_out_add(hash, c->row[m][i]);
            held = ts_hold_out_held(s->hold_out, hash);
        }
        add(held ? &part->held : &part->kept, c->value[i], c->model[i]);
    }
    return 0;
}

static void add_sums(struct errors *to, const struct errors *from)
{
    to->n += from->n;
    to->squares += from->squares;
    to->left += from->left;
}

/* A weighted pass over the product's mode, with the weights inside the factors. */
static int sum_errors(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const struct ts_tensor *t = c->tensor;
    const struct ts_hold_out *hold_out = &a->conf->hold_out;
    struct observed *own = a->own;
    struct sums s = { .hold_out = hold_out, .order = t->order };
    struct ts_weighted what = {
        .take = take,
        .part_bytes = sizeof *s.part,
        .ctx = &s,
        .rows = hold_out->share > 0 ? (UINT32_C(1) << t->order) - 1 : 0,
    };
    uint64_t n = 0;
    int rc;
    for (uint64_t k = 0; k < t->mode[a->product].disk.n_shards; k++)
        n += ts_shard_partitions(&t->mode[a->product].shard[k]);
    what.part = s.part = calloc(n + 1, sizeof *s.part);
    rc = s.part == NULL
             ? ts_fail(err, TS_ENOMEM, "%s: out of memory for errors", t->path)
             : c->backend->weighted(c->be, a->product, a->conf->feed, &what, &a->times, err);
    own->kept = own->held = (struct errors){ 0 };
    for (uint64_t k = 0; k < n && rc == 0; k++) {
        add_sums(&own->kept, &s.part[k].kept);
        add_sums(&own->held, &s.part[k].held);
    }
    free(s.part);
    return rc;
}

/* ---- modes ---- */

static int begin(struct ts_als *a, struct ts_err *err)
{
    (void)err;
    ts_als_limit_rows(a);
    a->how.by_count = a->constraint[a->product].by_count;
    a->how.hold_out = a->conf->hold_out;
    a->sums.size = &a->size[a->product];
    return 0;
}

static int pass(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    const uint64_t begun_ns = ts_clock_ns();
    const int errors = a->at == TS_ALS_AGAIN;
    const int rc = errors ? sum_errors(a, err)
                          : c->backend->complete(c->be, a->product, a->conf->feed, &a->how,
                                                 &a->sums, &a->times, err);
    ts_als_trace(a, errors ? "errors" : "rows", begun_ns, a->product);
    return rc;
}

/* They are there, but for their Gram matrix. */
static int rows(struct ts_als *a, struct ts_err *err)
{
    const struct ts_init_conf *c = &a->conf->init;
    return a->at == TS_ALS_AGAIN ? 0 : c->backend->gram(c->be, a->product, a->sums.gram, err);
}

/* ---- a sweep ---- */

static int judge(struct ts_als *a, struct ts_err *err)
{
    a->pending = 1;
    return ts_als_begin_product(a, a->order - 1, TS_ROW_KEEP, err);
}

static int judged(struct ts_als *a, struct ts_err *err)
{
    const struct observed *own = a->own;
    (void)err;
    a->pending = 0;
    a->model = 0;
    a->left = own->kept.left;
    a->now.fit = own->kept.squares > 0 ? 1 - sqrt(own->kept.left / own->kept.squares)
                 : own->kept.left == 0 ? 1
                                       : -INFINITY;
    return 0;
}

static int exact(const struct ts_als *a)
{
    return a->left == 0;
}

static int tell(struct ts_als *a)
{
    const struct observed *own = a->own;
    if (own->kept.n > 0)
        a->now.rmse = sqrt(own->kept.left / own->kept.n);
    if (own->held.n > 0)
        a->now.held_out = sqrt(own->held.left / own->held.n);
    return 1;
}

static double objective(const struct ts_als *a)
{
    double sum = 0.5 * a->left;
    for (uint32_t m = 0; m < a->order; m++) {
        const struct ts_constraint *c = &a->constraint[m];
        sum += 0.5 * c->l2 * (c->fixed ? ts_als_fit_trace(a, m) : a->size[m]);
    }
    return a->penalty ? sum : NAN;
}

static int is_asked(const struct ts_constraint *c)
{
    return c[0].observed;
}

const struct ts_method ts_observed = {
    .name = "observed",
    .own_bytes = sizeof(struct observed),
    .fit_apart = 1,
    .holds_out = 1,
    .is_asked = is_asked,
    .begin = begin,
    .pass = pass,
    .rows = rows,
    .norm = ts_als_norm,
    .judge = judge,
    .judged = judged,
    .exact = exact,
    .tell = tell,
    .objective = objective,
};
