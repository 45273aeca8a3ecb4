/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpd/observed.h"

#include <stdlib.h>

#include "format/shard.h"

/* Of a partition. */
struct part {
    struct ts_observed_sums kept, held;
};

struct sums {
    const struct ts_hold_out *hold_out;
    uint32_t order;
    struct part *part;
};

static void add(struct ts_observed_sums *s, double value, double model)
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

static void add_sums(struct ts_observed_sums *to, const struct ts_observed_sums *from)
{
    to->n += from->n;
    to->squares += from->squares;
    to->left += from->left;
}

int ts_observed_errors(const struct ts_backend *backend, void *be, const struct ts_tensor *t,
                       uint32_t mode, struct ts_feed *feed, const struct ts_hold_out *hold_out,
                       struct ts_observed_sums *kept, struct ts_observed_sums *held,
                       struct ts_backend_times *times, struct ts_err *err)
{
    struct sums s = { .hold_out = hold_out, .order = t->order };
    const struct ts_weighted what = {
        .take = take,
        .ctx = &s,
        .rows = hold_out->share > 0 ? (UINT32_C(1) << t->order) - 1 : 0,
    };
    uint64_t n = 0;
    int rc;
    for (uint64_t k = 0; k < t->mode[mode].disk.n_shards; k++)
        n += ts_shard_partitions(&t->mode[mode].shard[k]);
    s.part = calloc(n + 1, sizeof *s.part);
    rc = s.part == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory for errors", t->path)
                        : backend->weighted(be, mode, feed, &what, times, err);
    *kept = *held = (struct ts_observed_sums){ 0 };
    for (uint64_t k = 0; k < n && rc == 0; k++) {
        add_sums(kept, &s.part[k].kept);
        add_sums(held, &s.part[k].held);
    }
    free(s.part);
    return rc;
}
