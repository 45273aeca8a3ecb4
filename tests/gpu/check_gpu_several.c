/* SPDX-License-Identifier: BSD-3-Clause */
/* Several models side by side in passes of all kinds but products (check_gpu_models.c): rows of
 * observed cells, rows that are multiplied, steps and gradients of losses, and sums of errors and
 * of losses. Each model has the bits that it has alone, whoever else takes part, whether shards
 * stay on the devices or pass through, for any number of devices; a pass sends each shard once; and
 * as many models are at once as a budget has memory for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "format/shard.h"
#include "tests/gpu/gpu_rig.h"
#include "tests/support/loss_case.h"

#define MOST    5
#define MODES   4
#define KINDS   2
#define NUMBERS 12

/* ---- tensors */

static const struct shape {
    struct rig_shape of;
    uint32_t room; /* for so many shards, of all members together, in a budget; 0: they stay */
} shapes[] = {
    /* rows that reach over shards; several shards are due at a time, and some stay */
    { { 3, 20 * TS_PARTITION_NNZ - 500, 1, { 700, 3, 9000 }, 1 }, 30 },
    { { 4, 40000, 1, { 51, 2, 116, 900 }, 1 }, 4 },
    { { 2, 4000, 0, { 310, 400 }, 1 }, 0 },
};

/* Whether a row of the mode lies in two shards. */
static int any_spans(const struct rig_disk *d, uint32_t mode)
{
    const struct ts_mode *m = &d->tensor->mode[mode];
    for (uint64_t s = 1; s < m->disk.n_shards; s++)
        if (m->shard[s - 1].row_last == m->shard[s].row_first)
            return 1;
    return 0;
}

/* ---- models */

/* What passes are of: two kinds of one family take turns in a backend. */
static const struct family {
    enum ts_row_kind update;
    int own; /* rows come from the old ones */
    enum ts_request_kind kind[KINDS];
} families[] = {
    { TS_ROW_OBSERVED, 0, { TS_REQUEST_ROWS, TS_REQUEST_ERRORS } },
    { TS_ROW_MULTIPLY, 1, { TS_REQUEST_MULTIPLY, TS_REQUEST_MULTIPLY } },
    { TS_ROW_DESCEND, 1, { TS_REQUEST_DESCEND, TS_REQUEST_LOSSES } },
};
#define N_FAMILIES (int)(sizeof families / sizeof families[0])

/* With one of more columns than a thread block holds of a Gram matrix, beside those of units of
 * other sizes. */
static const uint32_t ranks32[MOST] = { 16, 130, 3, 33, 16 };
static const uint32_t ranks64[MOST] = { 5, 65, 16, 33, 5 };

struct wish {
    const struct family *family;
    enum ts_precision precision;
    uint32_t rank, k;
    uint32_t rounds; /* of rows that are multiplied: as many in all models of a pass */
};

/* Of model k: rows of observed cells. */
static const struct rows_wish {
    double l2, lower, upper, mean, share;
    int by_count;
} rows_wishes[MOST] = {
    { 0.1, -INFINITY, INFINITY, 2.5, 0.2, 1 }, { 0.3, -INFINITY, INFINITY, 0, 0, 0 },
    { 0.2, 0, INFINITY, 0, 0.1, 0 },           { 0.05, -0.125, 0.5, 1.5, 0.3, 1 },
    { 0, -INFINITY, INFINITY, 0.5, 0, 0 },
};

static const double counts_shares[MOST] = { 0, 0.15, 0.3, 0, 0.2 };

/* A loss; what stands for cells that are not listed; rows make a step, or the gradient is
 * wanted. */
static const struct loss_wish {
    enum ts_loss_kind kind;
    int observed, gradient;
    uint32_t n_drawn;
    uint64_t n_cells;
    double share, l2;
} loss_wishes[MOST] = {
    { TS_GCP_HUBER, 0, 0, 300, 0, 0, 0.02 },
    { TS_GCP_BERNOULLI, 0, 0, 64, 0, 0.1, 0 },
    { TS_GCP_POISSON_LOG, 0, 1, 0, 1 << 14, 0.2, 0 },
    { TS_GCP_GAMMA, 1, 0, 0, 0, 0.3, 0.01 },
    { TS_GCP_BERNOULLI_LOGIT, 0, 1, 0, 1 << 12, 0, 0.01 },
};

static struct ts_hold_out hold_out(double share, uint32_t k)
{
    return (struct ts_hold_out){ .share = share, .seed = 7 + k, .from = 0.125 * k };
}

/* Entries are numbers of float32; some are 0 of rows that are multiplied. */
static void put_start(const struct rig_disk *d, void *model, const struct wish *w, uint32_t mode)
{
    const uint64_t n = rig_rows(d, mode) * w->rank;
    const int counts = w->family->update == TS_ROW_MULTIPLY;
    const int positive = counts || w->family->update == TS_ROW_DESCEND;
    double *a = malloc(n * sizeof *a);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t z = ts_mix(1000003 * w->k + 10007 * mode + i);
        a[i] = (float)(positive ? ts_unit(z) + 0.05 : 1.5 * ts_unit(z) - 0.5);
        a[i] = counts && z % 23 == 0 ? 0 : a[i];
    }
    rig_put(rig_be, model, mode, rig_rows(d, mode), a);
    free(a);
}

/* ---- what is wanted of a model in a pass, and what came */

struct part {
    struct ts_row_update how;
    struct ts_row_sums sums;
    double size, *weight, *column;
    struct ts_multiply multiply;
    struct ts_multiply_sums multiplied;
    struct ts_descent descend;
    void *state[2]; /* the gradient, or moments */
    struct ts_error_sums errors;
    struct ts_loss_sums losses;
    struct ts_request want;
};

struct answer {
    double *rows, number[NUMBERS], *column;
    void *state[2];
};

static uint64_t state_bytes(const struct rig_disk *d, const struct wish *w, uint32_t mode)
{
    return rig_rows(d, mode) * w->rank * ts_precision_bytes(w->precision);
}

/* Moments that are as good as any. */
static void *moment(const struct rig_disk *d, const struct wish *w, uint32_t mode, uint64_t seed)
{
    const uint64_t n = rig_rows(d, mode) * w->rank;
    void *ret = malloc(state_bytes(d, w, mode) + 1);
    for (uint64_t i = 0; i < n; i++) {
        const double x = 0.01 * ts_unit(ts_mix(seed + i));
        if (w->precision == TS_FLOAT32)
            ((float *)ret)[i] = (float)x;
        else
            ((double *)ret)[i] = x;
    }
    return ret;
}

static void want_rows(const struct wish *w, struct part *p)
{
    const struct rows_wish *r = &rows_wishes[w->k];
    p->how = (struct ts_row_update){ .kind = TS_ROW_OBSERVED,
                                     .l2 = r->l2,
                                     .by_count = r->by_count,
                                     .lower = r->lower,
                                     .upper = r->upper,
                                     .mean = r->mean,
                                     .hold_out = hold_out(r->share, w->k) };
    p->sums = (struct ts_row_sums){ .size = w->k % 4 != 3 ? &p->size : NULL };
    p->want.update = &p->how;
    p->want.sums = &p->sums;
}

static void want_errors(const struct wish *w, struct part *p)
{
    const struct rows_wish *r = &rows_wishes[w->k];
    p->errors = (struct ts_error_sums){ .hold_out = hold_out(r->share, w->k + 1), .mean = r->mean };
    p->want.errors = &p->errors;
}

/* The second time without a word on how good it is. */
static void want_multiply(const struct wish *w, uint32_t turn, struct part *p)
{
    p->weight = malloc(w->rank * sizeof *p->weight);
    p->column = calloc(w->rank, sizeof *p->column);
    for (uint32_t r = 0; r < w->rank; r++)
        p->weight[r] = 1 + (r + w->k) % 5;
    p->multiply = (struct ts_multiply){ .loss = &ts_loss_poisson,
                                        .weight = p->weight,
                                        .grow = 0.01 * w->k,
                                        .rounds = w->rounds,
                                        .judge = turn == 0,
                                        .hold_out = hold_out(counts_shares[w->k], w->k) };
    p->multiplied = (struct ts_multiply_sums){ .column = p->column };
    p->want.multiply = &p->multiply;
    p->want.multiplied = &p->multiplied;
}

static void want_descend(const struct rig_disk *d, const struct wish *w, uint32_t mode,
                         struct part *p)
{
    const struct loss_wish *l = &loss_wishes[w->k];
    const struct ts_loss *loss = ts_loss_of(l->kind);
    p->descend = (struct ts_descent){ .loss = loss,
                                      .at = test_loss_number((int)l->kind),
                                      .observed = l->observed,
                                      .hold_out = hold_out(l->share, w->k),
                                      .n_drawn = l->n_drawn,
                                      .n_cells = l->n_cells,
                                      .seed = 5 + w->k,
                                      .draw = 3,
                                      .l2 = l->l2,
                                      .lower = loss->lower,
                                      .upper = INFINITY,
                                      .rate = 0.01,
                                      .step = 1 + w->k };
    for (int i = 0; i < 2; i++)
        p->state[i] = moment(d, w, mode, 100 * w->k + 10 * mode + (uint64_t)i);
    if (l->gradient)
        p->descend.gradient = p->state[0];
    else
        memcpy(p->descend.moment, p->state, sizeof p->state);
    p->want.descend = &p->descend;
}

static void want_losses(const struct wish *w, struct part *p)
{
    const struct loss_wish *l = &loss_wishes[w->k];
    p->losses = (struct ts_loss_sums){ .loss = ts_loss_of(l->kind),
                                       .at = test_loss_number((int)l->kind),
                                       .observed = l->observed,
                                       .hold_out = hold_out(l->share, w->k + 1) };
    p->want.losses = &p->losses;
}

/* p stays where it is until part_end. */
static void part_begin(const struct rig_disk *d, const struct wish *w, uint32_t mode, uint32_t turn,
                       void *model, struct part *p)
{
    const enum ts_request_kind kind = w->family->kind[turn];
    *p = (struct part){ .size = NAN };
    if (kind == TS_REQUEST_ROWS)
        want_rows(w, p);
    else if (kind == TS_REQUEST_ERRORS)
        want_errors(w, p);
    else if (kind == TS_REQUEST_MULTIPLY)
        want_multiply(w, turn, p);
    else if (kind == TS_REQUEST_DESCEND)
        want_descend(d, w, mode, p);
    else
        want_losses(w, p);
    p->want.be = model;
    p->want.kind = kind;
}

static void add_errors(const struct ts_cell_errors *e, double *ret)
{
    memcpy(ret, (const double[]){ e->n, e->sum, e->squares, e->inner, e->left },
           5 * sizeof(double));
}

static void add_losses(const struct ts_cell_losses *l, double *ret)
{
    memcpy(ret, (const double[]){ l->n, l->loss, l->reference, l->x }, 4 * sizeof(double));
}

/* Takes what the pass gave of a model, and its rows. */
static struct answer part_end(const struct rig_disk *d, const struct wish *w, uint32_t mode,
                              struct part *p)
{
    const struct ts_multiply_sums *m = &p->multiplied;
    struct answer a = { .rows = malloc(rig_rows(d, mode) * w->rank * sizeof *a.rows),
                        .column = p->column,
                        .state = { p->state[0], p->state[1] } };
    OK(rig_be->get_rows(p->want.be, mode, 0, rig_rows(d, mode), a.rows, &err));
    if (p->want.kind == TS_REQUEST_ROWS && p->sums.size != NULL)
        a.number[0] = p->size;
    if (p->want.kind == TS_REQUEST_ERRORS) {
        add_errors(&p->errors.kept, a.number);
        add_errors(&p->errors.held, a.number + 5);
        ck_assert_double_eq(a.number[0] + a.number[5], (double)d->x.nnz);
    }
    if (p->want.kind == TS_REQUEST_MULTIPLY)
        memcpy(a.number,
               (const double[]){ m->kkt, m->loss, m->inner, m->held_n, m->held_loss, m->held_model,
                                 m->held_squares },
               7 * sizeof(double));
    if (p->want.kind == TS_REQUEST_LOSSES) {
        add_losses(&p->losses.kept, a.number);
        add_losses(&p->losses.held, a.number + 4);
        ck_assert_double_eq(a.number[0] + a.number[4], (double)d->x.nnz);
    }
    free(p->weight);
    return a;
}

static void answer_free(struct answer *a)
{
    free(a->rows);
    free(a->column);
    free(a->state[0]);
    free(a->state[1]);
}

static void check_same(const char *what, const double *got, const double *want, uint64_t n,
                       const struct wish *w, uint32_t mode)
{
    for (uint64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            ck_abort_msg("model %u of rank %u, mode %u: %s %llu is %.17g, alone %.17g", w->k,
                         w->rank, mode, what, (unsigned long long)i, got[i], want[i]);
}

static void check_answer(const struct rig_disk *d, const struct wish *w, uint32_t mode,
                         uint32_t turn, const struct answer *got, const struct answer *want)
{
    check_same(turn == 0 ? "number" : "second number", got->number, want->number, NUMBERS, w, mode);
    check_same("entry", got->rows, want->rows, rig_rows(d, mode) * w->rank, w, mode);
    if (want->column != NULL)
        check_same("sum of column", got->column, want->column, w->rank, w, mode);
    for (int i = 0; i < 2 && want->state[i] != NULL; i++)
        ck_assert_msg(memcmp(got->state[i], want->state[i], state_bytes(d, w, mode)) == 0,
                      "model %u of rank %u, mode %u: another state %d", w->k, w->rank, mode, i);
}

/* ---- backends */

static struct rig_ask ask_of(const struct family *f, uint32_t members, enum ts_precision precision)
{
    return (struct rig_ask){ .members = members,
                             .precision = precision,
                             .needs = 1u << f->update,
                             .own = f->own,
                             .host_bytes = RIG_HOST_BYTES };
}

/* The answers of a model that is alone on one GPU, from the call that there is for one. */
static void alone(const struct rig_disk *d, const struct wish *w, struct answer ret[MODES][KINDS])
{
    struct rig_ask ask = ask_of(w->family, 1, w->precision);
    struct ts_backend_conf conf;
    struct ts_backend_times times;
    struct ts_feed *feed;
    void *be;
    ask.rank = w->rank;
    conf = rig_conf(d->tensor, &ask);
    be = rig_backend_new(rig_be, &conf);
    feed = rig_feed_new(rig_be, d->tensor, be, ask.host_bytes);
    for (uint32_t m = 0; m < d->tensor->order; m++)
        put_start(d, be, w, m);
    for (uint32_t m = 0; m < d->tensor->order; m++)
        for (uint32_t turn = 0; turn < KINDS; turn++) {
            struct part p;
            part_begin(d, w, m, turn, be, &p);
            rig_pass_of(rig_be, d->tensor, feed, &p.want, 1, m, &times);
            ret[m][turn] = part_end(d, w, m, &p);
            put_start(d, be, w, m);
        }
    ts_feed_free(feed);
    rig_be->close(be);
}

struct several {
    const struct rig_disk *d;
    const struct rig_ask *ask;
    const struct wish *wish;
    struct answer (*want)[MODES][KINDS];
    struct ts_feed *feed;
    struct ts_feed_deal deal;
    void *model[MOST];
    int seen[MODES]; /* there was a pass over the mode: what stays is there */
};

/* Bytes of the shards of a mode, or of those that do not stay. */
static uint64_t shard_bytes(const struct several *s, uint32_t mode, int streamed)
{
    const struct ts_mode *m = &s->d->tensor->mode[mode];
    const unsigned char *keep = s->deal.keep[mode];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < m->disk.n_shards; i++)
        if (!streamed || keep == NULL || keep[i] != TS_DEAL_KEEP)
            sum += m->shard[i].raw_bytes + TS_SHARD_SLACK;
    return sum;
}

/* Each shard was computed once for all models, and sent once, or twice where rows are judged that
 * lie in several. */
static void check_times(struct several *s, uint32_t mode, uint32_t turn,
                        const struct ts_backend_times *times)
{
    const enum ts_request_kind kind = s->wish->family->kind[turn];
    const uint64_t all = shard_bytes(s, mode, 0), streamed = shard_bytes(s, mode, 1);
    const uint64_t more = kind == TS_REQUEST_MULTIPLY && turn == 0 && any_spans(s->d, mode);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < times->n_devices; i++)
        bytes += times->device[i].bytes;
    if (rig_n_devices == 0)
        ck_assert_uint_eq(bytes, 0);
    else if (s->ask->members == 1)
        ck_assert_uint_eq(bytes, (s->seen[mode] ? streamed : all) + more * streamed);
    else /* what stays may move from one to another */
        ck_assert_uint_le(bytes, (1 + more) * all);
    s->seen[mode] = 1;
}

/* Who takes part: all in the first sweep, then some, at least one. */
static uint32_t who(uint32_t sweep, uint32_t mode, uint32_t turn)
{
    const uint32_t all = (1u << MOST) - 1;
    const uint32_t some = (uint32_t)ts_mix(100 * sweep + 10 * mode + turn) & all;
    return sweep == 0 || some == 0 ? all : some;
}

static void check_stays(const struct several *s, uint32_t k, uint32_t mode, const double *before)
{
    const uint64_t n_rows = rig_rows(s->d, mode);
    const struct wish *w = &s->wish[k];
    double *now = malloc(n_rows * w->rank * sizeof *now);
    OK(rig_be->get_rows(s->model[k], mode, 0, n_rows, now, &err));
    check_same("a row that was to stay, entry", now, before, n_rows * w->rank, w, mode);
    free(now);
}

static void one_pass(struct several *s, uint32_t sweep, uint32_t mode, uint32_t turn)
{
    const uint32_t in = who(sweep, mode, turn);
    struct part part[MOST];
    struct ts_request want[MOST];
    double *before[MOST] = { NULL };
    struct ts_backend_times times;
    uint32_t n = 0;
    for (uint32_t k = 0; k < MOST; k++) {
        if ((in >> k & 1) != 0) {
            part_begin(s->d, &s->wish[k], mode, turn, s->model[k], &part[k]);
            want[n++] = part[k].want;
            continue;
        }
        before[k] = malloc(rig_rows(s->d, mode) * s->wish[k].rank * sizeof(double));
        OK(rig_be->get_rows(s->model[k], mode, 0, rig_rows(s->d, mode), before[k], &err));
    }
    rig_pass_of(rig_be, s->d->tensor, s->feed, want, n, mode, &times);
    check_times(s, mode, turn, &times);
    for (uint32_t k = 0; k < MOST; k++) {
        struct answer got;
        if ((in >> k & 1) == 0) {
            check_stays(s, k, mode, before[k]);
            free(before[k]);
            continue;
        }
        got = part_end(s->d, &s->wish[k], mode, &part[k]);
        check_answer(s->d, &s->wish[k], mode, turn, &got, &s->want[k][mode][turn]);
        put_start(s->d, s->model[k], &s->wish[k], mode);
        answer_free(&got);
    }
}

/* What is asked for so many models. */
static struct rig_ask several(struct rig_ask ask, uint32_t n, const uint32_t *rank)
{
    ask.n_models = n;
    ask.ranks = rank;
    return ask;
}

/* Three sweeps: shards that stay are there from the second on. */
static void together(const struct rig_disk *d, const struct rig_ask *ask, const struct wish *wish,
                     struct answer (*want)[MODES][KINDS])
{
    const struct ts_backend_conf conf = rig_conf(d->tensor, ask);
    struct several s = { .d = d, .ask = ask, .wish = wish, .want = want };
    uint64_t streamed = 0;
    void *be = rig_backend_new(rig_be, &conf);
    s.feed = rig_feed_new(rig_be, d->tensor, be, ask->host_bytes);
    rig_be->deal(be, &s.deal);
    for (uint32_t k = 0; k < MOST; k++) {
        s.model[k] = rig_be->model(be, k);
        OK(rig_be->own_rows(s.model[k], conf.own_rows, &err));
        for (uint32_t m = 0; m < d->tensor->order; m++)
            put_start(d, s.model[k], &wish[k], m);
    }
    for (uint32_t m = 0; m < d->tensor->order; m++)
        streamed += shard_bytes(&s, m, 1);
    ck_assert(rig_n_devices == 0 || (streamed > 0) == (ask->device_bytes > 0));
    for (uint32_t sweep = 0; sweep < 3; sweep++)
        for (uint32_t m = 0; m < d->tensor->order; m++)
            for (uint32_t turn = 0; turn < KINDS; turn++)
                one_pass(&s, sweep, m, turn);
    ts_feed_free(s.feed);
    rig_be->close(be);
}

/* ---- tests */

/* Of one device, and of two. */
static void check_teams(const struct shape *shape, const struct rig_disk *d,
                        const struct wish *wish, struct answer (*want)[MODES][KINDS])
{
    const uint32_t room = shape->room;
    uint32_t rank[MOST];
    for (uint32_t k = 0; k < MOST; k++)
        rank[k] = wish[k].rank;
    for (uint32_t members = 1; members < 3; members++) {
        struct rig_ask ask = several(ask_of(wish->family, members, wish->precision), MOST, rank);
        together(d, &ask, wish, want);
        if (room == 0)
            continue;
        ask.device_bytes = rig_budget(d, &ask, room / members < 4 ? 4 : room / members);
        together(d, &ask, wish, want); /* from host memory, then from disk */
        ask.host_bytes = RIG_FEW_BYTES;
        together(d, &ask, wish, want);
    }
}

/* A family, a shape and a precision; models begin with others. */
static const struct {
    int shape;
    enum ts_precision precision;
} cases[] = { { 0, TS_FLOAT32 }, { 0, TS_FLOAT64 }, { 1, TS_FLOAT32 }, { 2, TS_FLOAT64 } };
#define N_CASES (int)(sizeof cases / sizeof cases[0])

START_TEST(each_has_the_bits_that_it_has_alone)
{
    const int c = _i % N_CASES;
    const struct shape *shape = &shapes[cases[c].shape];
    const uint32_t *rank = cases[c].precision == TS_FLOAT32 ? ranks32 : ranks64;
    static struct answer want[MOST][MODES][KINDS];
    struct rig_disk d = rig_counts(&shape->of);
    struct wish wish[MOST];
    for (uint32_t k = 0; k < MOST; k++) {
        wish[k] = (struct wish){ .family = &families[_i / N_CASES],
                                 .precision = cases[c].precision,
                                 .rank = rank[(k + (uint32_t)c) % MOST],
                                 .k = k,
                                 .rounds = c % 2 == 0 ? 1 : 4 };
        alone(&d, &wish[k], want[k]);
    }
    check_teams(shape, &d, wish, want);
    for (uint32_t k = 0; k < MOST; k++)
        for (uint32_t m = 0; m < d.tensor->order; m++)
            for (uint32_t turn = 0; turn < KINDS; turn++)
                answer_free(&want[k][m][turn]);
    rig_disk_free(&d);
}
END_TEST

/* A tensor of 4 shards in each mode, small ones beside what a model takes. */
static const struct rig_shape tall = { 3, 60000, 1, { 60000, 3, 60000 }, 1 };
#define ALL 14 /* shards, and one */

START_TEST(as_many_as_there_is_memory_for)
{
    static const uint32_t rank[MOST] = { 16, 16, 16, 16, 16 };
    const struct rig_ask one = ask_of(&families[_i], 1, TS_FLOAT32);
    struct rig_ask ask = several(one, MOST, rank);
    struct rig_disk d = rig_counts(&tall);
    struct ts_backend_conf conf = rig_conf(d.tensor, &ask);
    void *be;
    ck_assert_uint_eq(rig_be->most(&conf), MOST);
    ask.n_models = 1;
    (void)rig_budget(&d, &ask, 2); /* a context */
    for (ask.n_models = 1; ask.n_models < MOST; ask.n_models++) {
        conf.device_bytes = rig_budget(&d, &ask, ALL);
        conf.n_models = MOST;
        ck_assert_uint_eq(rig_be->most(&conf), ask.n_models);
        conf.n_models = ask.n_models;
        OK(rig_be->open(&conf, &be, &err));
        rig_be->close(be);
        conf.n_models = ask.n_models + 1;
        ck_assert_int_eq(rig_be->open(&conf, &be, &err), TS_ELIMIT);
    }
    rig_disk_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_several");
    if (suite == NULL)
        return 77;
    test_add(suite, "alone", each_has_the_bits_that_it_has_alone, N_FAMILIES * N_CASES);
    rig_add_gpu(suite, "memory", as_many_as_there_is_memory_for, N_FAMILIES);
    return test_run_suite(suite, CK_NOFORK);
}
