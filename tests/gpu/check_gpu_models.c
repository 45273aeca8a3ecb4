/* SPDX-License-Identifier: BSD-3-Clause */
/* Several models side by side in the GPU backend: each has the bits that it has alone, whoever else
 * takes part in a pass, whether shards stay on the devices or pass through, for any number of
 * devices; the log tells of each shard that was sent; and as many are at once as a budget has
 * memory for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "tests/gpu/gpu_rig.h"

#define MOST  12
#define MODES 6

/* ---- tensors and models */

static const struct rig_shape shapes[] = {
    { 2, 4000, 0, { 310, 400 }, 1 },
    { 3, 6 * TS_PARTITION_NNZ - 500, 1, { 700, 3, 9000 }, 1 }, /* rows that reach over shards */
    { 4, 40000, 1, { 51, 2, 116, 900 }, 1 },
    { 5, 30000, 1, { 9, 80, 7, 300, 13 }, 1 },
    { 6, 20000, 0, { 9, 8, 7, 11, 13, 17 }, 1 },
};
#define N_SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const struct group {
    uint32_t n, rank[MOST];
} groups[] = {
    { 8, { 16, 16, 16, 16, 16, 16, 16, 16 } },
    { 10, { 5, 5, 5, 5, 5, 5, 5, 5, 5, 5 } },
    { 4, { 1, 3, 8, 17 } },
    { 7, { 20, 32, 20, 16, 16, 100, 32 } },
    { 2, { 1, 1 } },
};
#define N_GROUPS (int)(sizeof groups / sizeof groups[0])

static double *start(const struct rig_disk *d, uint32_t k, uint32_t mode, uint32_t rank)
{
    return rig_numbers(1000 * k + 100 * mode, rig_rows(d, mode), rank);
}

/* Symmetric, with a diagonal that outweighs the rest. */
static double *matrix(uint32_t k, uint32_t rank)
{
    double *g = malloc((size_t)rank * rank * sizeof *g);
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t j = 0; j <= i; j++)
            g[i * rank + j] = g[j * rank + i] =
                i == j ? rank + 1 : ts_unit(ts_mix(77 * k + 1000 * i + j)) - 0.5;
    return g;
}

/* ---- what is wanted of a model, and what came */

struct wish {
    uint32_t rank, k;
    int own;     /* rows come from the old ones, of shares where it is 2 */
    int wide;    /* the last mode is summed in float64 */
    int product; /* that alone */
    double *matrix;
    double *later; /* the matrix, which is there once it is asked for; NULL: it is there before */
    uint32_t asked;
    struct ts_row_update how;
};

struct answer {
    double *rows, *gram, inner, size;
    struct ts_row_sums sums;
};

static struct answer answer_new(const struct rig_disk *d, const struct wish *w, uint32_t mode)
{
    return (struct answer){ .rows = calloc(rig_rows(d, mode) * w->rank, sizeof(double)),
                            .gram = calloc((size_t)w->rank * w->rank, sizeof(double)) };
}

static void answer_free(struct answer *a)
{
    free(a->rows);
    free(a->gram);
}

/* For `ready` of an update. */
static int make_matrix(void *ctx, struct ts_err *unused)
{
    struct wish *w = ctx;
    (void)unused;
    memcpy(w->later, w->matrix, (size_t)w->rank * w->rank * sizeof *w->later);
    w->asked++;
    return 0;
}

static struct ts_request update_of(void *model, struct wish *w, struct answer *a)
{
    w->how = (struct ts_row_update){ .kind = w->own == 2 ? TS_ROW_SIMPLEX
                                             : w->own    ? TS_ROW_COORDINATE
                                                         : TS_ROW_LEAST_SQUARES,
                                     .matrix = w->matrix,
                                     .upper = INFINITY,
                                     .rounds = 3,
                                     .inverse = w->matrix,
                                     .rho = 1.5 };
    if (w->later != NULL) {
        w->how.matrix = w->later;
        w->how.ready = make_matrix;
        w->how.ctx = w;
        w->asked = 0;
        memset(w->later, 0xff, (size_t)w->rank * w->rank * sizeof *w->later);
    }
    a->sums = (struct ts_row_sums){ .gram = a->gram,
                                    .inner = &a->inner,
                                    .size = w->own ? &a->size : NULL };
    return (struct ts_request){ .be = model,
                                .update = w->product ? NULL : &w->how,
                                .sums = w->product ? NULL : &a->sums };
}

static void put_start(const struct rig_disk *d, void *model, const struct wish *w, uint32_t mode)
{
    double *rows = start(d, w->k, mode, w->rank);
    rig_put(rig_be, model, mode, rig_rows(d, mode), rows);
    free(rows);
}

static void get(const struct rig_disk *d, void *model, uint32_t mode, double *rows)
{
    OK(rig_be->get_rows(model, mode, 0, rig_rows(d, mode), rows, &err));
}

static void check_same(const char *what, const double *got, const double *want, uint64_t n,
                       const struct wish *w, uint32_t mode)
{
    for (uint64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            ck_abort_msg("model %u of rank %u, mode %u: %s %llu is %.17g, alone %.17g", w->k,
                         w->rank, mode, what, (unsigned long long)i, got[i], want[i]);
}

/* ---- backends */

static struct rig_ask ask_of(uint32_t members, enum ts_precision precision, int own)
{
    return (struct rig_ask){
        .members = members, .precision = precision, .own = own, .host_bytes = RIG_HOST_BYTES
    };
}

static struct rig_ask several(struct rig_ask ask, const struct group *g)
{
    ask.n_models = g->n;
    ask.ranks = g->rank;
    return ask;
}

/* The answers of all modes of a model that is alone on one GPU. */
static void alone(const struct rig_disk *d, enum ts_precision precision, struct wish *w,
                  struct answer ret[MODES])
{
    struct rig_ask ask = ask_of(1, precision, w->own);
    struct ts_backend_conf conf;
    struct ts_backend_times times;
    struct ts_feed *feed;
    void *be;
    ask.rank = w->rank;
    conf = rig_conf(d->tensor, &ask);
    be = rig_backend_new(rig_be, &conf);
    rig_be->sum_in(be, w->wide ? TS_FLOAT64 : precision);
    feed = rig_feed_new(rig_be, d->tensor, be, ask.host_bytes);
    for (uint32_t m = 0; m < d->tensor->order; m++)
        put_start(d, be, w, m);
    for (uint32_t m = 0; m < d->tensor->order; m++) {
        struct ts_request u;
        ret[m] = answer_new(d, w, m);
        u = update_of(be, w, &ret[m]);
        rig_pass_of(rig_be, d->tensor, feed, &u, 1, m, &times);
        get(d, be, m, ret[m].rows);
        put_start(d, be, w, m);
    }
    ts_feed_free(feed);
    rig_be->close(be);
}

/* Who takes part: all in the first sweep, then some, at least one. */
static uint32_t who(uint32_t sweep, uint32_t mode, uint32_t n)
{
    const uint32_t all = (1u << n) - 1;
    const uint32_t some = (uint32_t)ts_mix(10 * sweep + mode) & all;
    return sweep == 0 || some == 0 ? all : some;
}

static void one_pass(const struct rig_disk *d, struct ts_feed *feed, void *const *model,
                     const struct group *g, struct wish *wish, uint32_t sweep, uint32_t mode,
                     struct answer (*want)[MODES])
{
    const uint32_t in = who(sweep, mode, g->n);
    const uint64_t n_rows = rig_rows(d, mode);
    struct ts_request update[MOST];
    struct answer got[MOST];
    struct ts_backend_times times;
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n; k++) {
        got[k] = answer_new(d, &wish[k], mode);
        if ((in >> k & 1) != 0)
            update[n++] = update_of(model[k], &wish[k], &got[k]);
    }
    rig_pass_of(rig_be, d->tensor, feed, update, n, mode, &times);
    for (uint32_t k = 0; k < g->n; k++) {
        const struct wish *w = &wish[k];
        const struct answer *a = &want[k][mode];
        double *before = start(d, w->k, mode, w->rank), *now = got[k].rows;
        get(d, model[k], mode, now);
        if ((in >> k & 1) == 0) {
            check_same("a row that was to stay, entry", now, before, n_rows * w->rank, w, mode);
        } else {
            check_same("entry", now, a->rows, n_rows * w->rank, w, mode);
            check_same("Gram entry", got[k].gram, a->gram, (uint64_t)w->rank * w->rank, w, mode);
            check_same("inner product", &got[k].inner, &a->inner, 1, w, mode);
            check_same("size", &got[k].size, &a->size, 1, w, mode);
            if (w->later != NULL && !w->product)
                ck_assert_uint_eq(w->asked, 1);
        }
        put_start(d, model[k], w, mode);
        free(before);
        answer_free(&got[k]);
    }
}

/* Three sweeps: shards that stay are there from the second on. */
static void together(const struct rig_disk *d, const struct rig_ask *ask, const struct group *g,
                     struct wish *wish, struct answer (*want)[MODES])
{
    const struct rig_ask all = several(*ask, g);
    const struct ts_backend_conf conf = rig_conf(d->tensor, &all);
    struct ts_feed *feed;
    void *be = rig_backend_new(rig_be, &conf), *model[MOST];
    feed = rig_feed_new(rig_be, d->tensor, be, ask->host_bytes);
    for (uint32_t k = 0; k < g->n; k++) {
        model[k] = rig_be->model(be, k);
        OK(rig_be->own_rows(model[k], conf.own_rows, &err));
        rig_be->sum_in(model[k], wish[k].wide ? TS_FLOAT64 : ask->precision);
        for (uint32_t m = 0; m < d->tensor->order; m++)
            put_start(d, model[k], &wish[k], m);
    }
    ck_assert_ptr_eq(model[0], be);
    for (uint32_t sweep = 0; sweep < 3; sweep++)
        for (uint32_t m = 0; m < d->tensor->order; m++)
            one_pass(d, feed, model, g, wish, sweep, m, want);
    ts_feed_free(feed);
    rig_be->close(be);
}

static uint64_t budget(const struct rig_disk *d, const struct rig_ask *ask, const struct group *g,
                       uint32_t shards)
{
    const struct rig_ask all = several(*ask, g);
    return rig_budget(d, &all, shards);
}

/* ---- tests */

static void check_group(const struct rig_shape *s, const struct group *g,
                        enum ts_precision precision, int own)
{
    struct rig_disk d = rig_counts(s);
    struct wish wish[MOST];
    struct answer want[MOST][MODES];
    for (uint32_t k = 0; k < g->n; k++) {
        wish[k] = (struct wish){ .rank = g->rank[k], .k = k, .own = own };
        wish[k].wide = precision == TS_FLOAT32 && k % 3 == 1;
        wish[k].product = !own && k % 4 == 3;
        wish[k].matrix = matrix(k, g->rank[k]);
        wish[k].later = k % 2 && !own ? matrix(k, g->rank[k]) : NULL;
        alone(&d, precision, &wish[k], want[k]);
    }
    for (uint32_t members = 1; members < 4; members += 2) {
        struct rig_ask ask = ask_of(members, precision, own);
        together(&d, &ask, g, wish, want);
        if (d.tensor->mode[0].disk.n_shards > 1) { /* from host memory, then from disk */
            ask.device_bytes = budget(&d, &ask, g, 4);
            together(&d, &ask, g, wish, want);
            ask.host_bytes = RIG_FEW_BYTES;
            together(&d, &ask, g, wish, want);
        }
    }
    for (uint32_t k = 0; k < g->n; k++) {
        for (uint32_t m = 0; m < d.tensor->order; m++)
            answer_free(&want[k][m]);
        free(wish[k].matrix);
        free(wish[k].later);
    }
    rig_disk_free(&d);
}

START_TEST(each_has_the_bits_that_it_has_alone)
{
    check_group(&shapes[_i / N_GROUPS], &groups[_i % N_GROUPS], TS_FLOAT32, 0);
}
END_TEST

START_TEST(in_float64_too)
{
    check_group(&shapes[_i], &groups[(_i + 2) % N_GROUPS], TS_FLOAT64, 0);
}
END_TEST

START_TEST(rows_from_old_ones_too)
{
    check_group(&shapes[1 + _i / 2], &groups[_i % 2 ? 3 : 0], _i % 2 ? TS_FLOAT64 : TS_FLOAT32, 1);
}
END_TEST

START_TEST(rows_of_shares_too)
{
    check_group(&shapes[1 + _i], &groups[3], _i % 2 ? TS_FLOAT64 : TS_FLOAT32, 2);
}
END_TEST

/* ---- what the log tells of copies */

/* Half of the slots that there is memory for are more than two, so that several shards are due at a
 * time. */
static const struct rig_shape many = { 3, 40 * TS_PARTITION_NNZ - 500, 1, { 700, 60, 9000 }, 1 };
#define MANY   64 /* shards of a mode, and more */
#define N_SENT 30 /* shards that there is memory for */

struct sent {
    uint64_t n[3][MANY], bytes;
};

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text;
    long n;
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    n = ftell(f);
    text = calloc((size_t)n + 1, 1);
    rewind(f);
    ck_assert_uint_eq(fread(text, 1, (size_t)n, f), (size_t)n);
    fclose(f);
    return text;
}

/* The copies in a trace. */
static void count_copies(const struct rig_disk *d, const char *path, struct sent *ret)
{
    static const char what[] = "\"name\":\"copy\",\"ts\":";
    char *text = read_text(path);
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += sizeof what - 1) {
        const char *args = strstr(at, "\"args\":");
        unsigned long long shard, bytes;
        unsigned mode;
        ck_assert_ptr_nonnull(args);
        ck_assert_int_eq(sscanf(args, "\"args\":{\"mode\":%u,\"shard\":%llu,\"bytes\":%llu}", &mode,
                                &shard, &bytes),
                         3);
        ck_assert_uint_le(mode, 3);
        ck_assert_uint_lt(shard, d->tensor->mode[mode - 1].disk.n_shards);
        ck_assert_uint_ge(bytes, d->tensor->mode[mode - 1].shard[shard].raw_bytes);
        ret->n[mode - 1][shard]++;
        ret->bytes += bytes;
    }
    free(text);
}

/* Sweeps of products. ret: what was sent, as the times of passes say and, of one member, from what
 * stays with it. */
static void send_sweeps(const struct rig_disk *d, const struct rig_ask *ask, struct ts_trace *trace,
                        struct sent *ret)
{
    struct ts_backend_conf conf = rig_conf(d->tensor, ask);
    struct ts_request update[MOST] = { 0 };
    struct ts_backend_times times;
    struct ts_feed_deal deal = { 0 };
    struct ts_feed *feed;
    void *be;
    conf.trace = trace;
    OK(rig_be->open(&conf, &be, &err));
    feed = rig_feed_new(rig_be, d->tensor, be, ask->host_bytes);
    rig_be->deal(be, &deal);
    for (uint32_t k = 0; k < conf.n_models; k++)
        update[k].be = rig_be->model(be, k);
    for (uint32_t pass = 0; pass < 9; pass++) {
        const uint32_t mode = pass % 3;
        ck_assert_uint_le(d->tensor->mode[mode].disk.n_shards, MANY);
        OK(rig_be->pass(update, conf.n_models, mode, feed, &times, &err));
        for (uint32_t i = 0; i < times.n_devices; i++)
            ret->bytes += times.device[i].bytes;
        for (uint64_t i = 0; i < d->tensor->mode[mode].disk.n_shards; i++)
            ret->n[mode][i] +=
                pass < 3 || deal.keep[mode] == NULL || deal.keep[mode][i] != TS_DEAL_KEEP;
    }
    ts_feed_free(feed);
    rig_be->close(be);
}

/* Of 8 models, whose shards are launched together, and of one. */
START_TEST(each_copy_is_told_of)
{
    struct group g = groups[0];
    struct rig_disk d = rig_counts(&many);
    struct rig_ask ask = ask_of(1 + _i / 2 % 2, TS_FLOAT32, 0);
    struct sent want = { 0 }, got = { 0 };
    struct ts_err warn = { 0 };
    struct ts_trace *trace;
    char path[4096];
    g.n = _i % 2 == 0 ? g.n : 1;
    ask = several(ask, &g);
    ask.host_bytes = _i < 4 ? RIG_HOST_BYTES : 3 << 20;
    snprintf(path, sizeof path, "%s/trace.json", d.top);
    (void)rig_budget(&d, &ask, N_SENT); /* so that the process has a context */
    ask.device_bytes = rig_budget(&d, &ask, N_SENT);
    OK(ts_trace_open(path, 0, &trace, &err));
    send_sweeps(&d, &ask, trace, &want);
    OK(ts_trace_close(trace, &warn, &err));
    count_copies(&d, path, &got);
    ck_assert_uint_gt(want.bytes, 0);
    ck_assert_uint_eq(got.bytes, want.bytes);
    for (uint32_t m = 0; m < 3 && ask.members == 1; m++)
        for (uint64_t i = 0; i < d.tensor->mode[m].disk.n_shards; i++)
            ck_assert_msg(got.n[m][i] == want.n[m][i], "mode %u, shard %llu: %llu, not %llu", m,
                          (unsigned long long)i, (unsigned long long)got.n[m][i],
                          (unsigned long long)want.n[m][i]);
    unlink(path);
    rig_disk_free(&d);
}
END_TEST

/* A tensor of 4 shards in each mode, small ones beside the factors of a model. */
static const struct rig_shape tall = { 3, 60000, 1, { 60000, 3, 60000 }, 1 };
#define ALL 14 /* shards, and one */

START_TEST(as_many_as_there_is_memory_for)
{
    const struct group *g = &groups[0];
    struct rig_disk d = rig_counts(&tall);
    const struct rig_ask ask = ask_of(1, TS_FLOAT32, 0), all = several(ask, g);
    struct ts_backend_conf conf = rig_conf(d.tensor, &all);
    struct group few = *g;
    void *be;
    ck_assert_uint_eq(rig_be->most(&conf), 8);
    few.n = 1;
    (void)budget(&d, &ask, &few, 2); /* a context */
    for (few.n = 2; few.n < g->n; few.n++) {
        conf.device_bytes = budget(&d, &ask, &few, ALL);
        conf.n_models = g->n;
        ck_assert_uint_eq(rig_be->most(&conf), few.n);
        conf.n_models = few.n;
        OK(rig_be->open(&conf, &be, &err));
        rig_be->close(be);
        conf.n_models = few.n + 1;
        ck_assert_int_eq(rig_be->open(&conf, &be, &err), TS_ELIMIT);
    }
    conf.n_models = g->n;
    conf.device_bytes = 1;
    ck_assert_uint_eq(rig_be->most(&conf), 1);
    rig_disk_free(&d);
}
END_TEST

/* The engine opens with as many, and each model is there. */
START_TEST(the_engine_has_as_many)
{
    const struct group *g = &groups[0];
    struct rig_disk d = rig_counts(&tall);
    const struct rig_ask ask = ask_of(1, TS_FLOAT32, 0);
    struct group few = *g;
    few.n = 3;
    for (int tight = 0; tight < 2; tight++) {
        struct ts_engine_conf conf = { .path = d.dir,
                                       .n_models = g->n,
                                       .ranks = g->rank,
                                       .only_mode = -1,
                                       .processor = { .gpus = "1" } };
        struct ts_engine engine;
        if (tight)
            conf.processor.device_bytes = budget(&d, &ask, &few, ALL) + (1 << 20);
        OK(ts_engine_open(&conf, &engine, &err));
        if (tight)
            ck_assert_msg(engine.n_models >= 1 && engine.n_models <= 3, "%u", engine.n_models);
        else
            ck_assert_uint_eq(engine.n_models, 8);
        ck_assert_ptr_ne(ts_engine_model(&engine, engine.n_models - 1), NULL);
        ts_engine_close(&engine);
    }
    rig_disk_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_models");
    if (suite == NULL)
        return 77;
    test_add(suite, "alone", each_has_the_bits_that_it_has_alone, N_SHAPES * N_GROUPS);
    test_add(suite, "float64", in_float64_too, N_SHAPES);
    test_add(suite, "old rows", rows_from_old_ones_too, 6);
    test_add(suite, "shares", rows_of_shares_too, 2);
    rig_add_gpu(suite, "copies", each_copy_is_told_of, 8);
    rig_add_gpu(suite, "memory", as_many_as_there_is_memory_for, 1);
    rig_add_gpu(suite, "engine", the_engine_has_as_many, 1);
    return test_run_suite(suite, CK_NOFORK);
}
