/* SPDX-License-Identifier: BSD-3-Clause */
/* What the suites of GPUs share. */
#include "tests/gpu/gpu_rig.h"

#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

struct ts_err err;
const struct ts_backend *rig_be = &ts_backend_gpu;
int rig_n_devices;

static int wrong;
static struct ts_backend cpu; /* with a pass of scores */
static const struct ts_tensor *fed;
static uint32_t n_opened; /* backends since the tensor was made */

/* A nonzero that CPU cores lend. */
struct lent {
    double x, m, weight;
    uint32_t row;
    int there;
};

struct lender {
    struct lent *at; /* TS_PARTITION_NNZ of each partition */
    uint32_t mode;
};

static int take_cells(void *ctx, uint32_t thread, const struct ts_cells *c, struct ts_err *e)
{
    const struct lender *to = ctx;
    struct lent *at = to->at + c->partition * TS_PARTITION_NNZ + c->first;
    (void)thread;
    (void)e;
    for (uint32_t i = 0; i < c->n; i++)
        at[i] = (struct lent){ .x = c->value[i],
                               .m = c->model[i],
                               .weight = c->weight == NULL ? 1 : (double)c->weight[i],
                               .row = c->row[to->mode][i],
                               .there = 1 };
    return 0;
}

static void add_score(struct ts_score_sums *to, const struct lent *c)
{
    to->n++;
    to->weight += c->weight;
    to->value += c->weight * c->x;
    to->model += c->weight * c->m;
    to->squares += c->weight * (c->x - c->m) * (c->x - c->m);
    to->magnitudes += c->weight * fabs(c->x - c->m);
}

/* Sums of scores, which CPU cores have no pass for, in the order of the file. */
static int cpu_scores(const struct ts_request *r, uint32_t mode, struct ts_feed *feed,
                      struct ts_backend_times *times, struct ts_err *e)
{
    const struct ts_tensor *t = fed;
    const uint64_t n = (t->nnz / TS_PARTITION_NNZ + t->mode[mode].disk.n_shards) * TS_PARTITION_NNZ;
    struct lender to = { calloc(n, sizeof *to.at), mode };
    const struct ts_weighted cells = { .take = take_cells, .ctx = &to, .rows = 1u << mode };
    const struct ts_request request = { .be = r->be, .kind = TS_REQUEST_CELLS, .cells = &cells };
    struct ts_scores *s = r->scores;
    const int rc = ts_backend_cpu.pass(&request, 1, mode, feed, times, e);
    for (uint64_t i = 0; i < n; i++) {
        const struct lent *c = &to.at[i];
        if (!c->there)
            continue;
        add_score(&s->all, c);
        if (s->slice != NULL)
            add_score(&s->slice[c->row], c);
        s->counts &= c->x >= 0 && c->x == floor(c->x) && c->m > 0;
        s->logs += s->counts ? c->x * log(c->m) : 0;
    }
    free(to.at);
    return rc;
}

static int cpu_pass(const struct ts_request *requests, uint32_t n, uint32_t mode,
                    struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *e)
{
    return requests->kind == TS_REQUEST_SCORES
               ? cpu_scores(requests, mode, feed, times, e)
               : ts_backend_cpu.pass(requests, n, mode, feed, times, e);
}

static const struct ts_backend *cpu_new(void)
{
    cpu = ts_backend_cpu;
    cpu.pass = cpu_pass;
    return &cpu;
}

Suite *rig_suite(const char *name)
{
    const char *processor = getenv("TS_TEST_PROCESSOR");
    wrong = getenv("TS_TEST_WRONG") != NULL;
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* NCCL is not used without it */
    if (processor != NULL && strcmp(processor, "cpu") == 0)
        rig_be = cpu_new();
    else if (cudaGetDeviceCount(&rig_n_devices) != cudaSuccess || rig_n_devices == 0)
        return NULL;
    return suite_create(name);
}

void rig_add_gpu(Suite *suite, const char *name, const TTest *test, int n)
{
    if (rig_n_devices > 0)
        test_add(suite, name, test, n);
}

/* ---- tensors ---- */

const struct rig_shape rig_shapes[RIG_N_SHAPES] = {
    { 3, 30000, 0, { 9000, 700, 40 }, 0 },                       /* short rows, and long ones */
    { 3, 5 * TS_PARTITION_NNZ - 300, 1, { 30000, 3, 9000 }, 0 }, /* rows that reach over shards */
    { 3, 3 * TS_PARTITION_NNZ, 1, { 20000, 30000, 200 }, 4 },    /* a giant row and many of one */
    { 2, 5000, 0, { 310, 400 }, 0 },
    { 4, 40000, 1, { 51, 2, 116, 900 }, 0 },
    { 5, 30000, 1, { 9, 80, 7, 300, 13 }, 1 },
    { 6, 20000, 0, { 9, 8, 7, 11, 13, 17 }, 0 },
    { 7, 20000, 1, { 5, 6, 7, 3, 9, 4, 5 }, 0 },
    { 8, 20000, 1, { 5, 4, 3, 5, 4, 3, 5, 40 }, 0 },
    { 3, 1, 0, { 1, 1, 1 }, 0 },
};

void rig_first(void)
{
    n_opened = 0;
}

struct rig_disk rig_disk_of(struct test_coo x, const struct test_tsh_conf *conf)
{
    struct rig_disk d = { .top = test_tsh_tmp(), .x = x };
    d.dir = malloc(strlen(d.top) + 8);
    strcat(strcpy(d.dir, d.top), "/t.tsh");
    test_tsh_write(d.dir, &d.x, conf);
    OK(ts_tensor_open(d.dir, &d.tensor, &err));
    rig_first();
    return d;
}

struct rig_disk rig_counts(const struct rig_shape *s)
{
    const struct test_tsh_conf conf = { .kind = TS_VALUE_INT, .shard_partitions = s->partitions };
    return rig_disk_of(test_coo_random(21, s->order, s->dim, s->nnz, 9, s->skew), &conf);
}

struct test_coo rig_coo(const struct rig_shape *s)
{
    return test_coo_random(23, s->order, s->dim, s->nnz, s->order % 2 == 0 ? 5 : 0, s->skew);
}

struct rig_disk rig_values(const struct rig_shape *s, enum rig_weights weights)
{
    const struct test_tsh_conf conf = { .kind = s->order % 2 == 0 ? TS_VALUE_INT : TS_VALUE_F32,
                                        .stretch = s->order == 3 ? 2 : 0,
                                        .shard_partitions = s->partitions };
    struct test_coo x = rig_coo(s);
    if (weights != RIG_NONE)
        test_coo_weigh(&x, 7, weights == RIG_ONES);
    return rig_disk_of(x, &conf);
}

void rig_disk_free(struct rig_disk *d)
{
    ts_tensor_close(d->tensor);
    test_tsh_remove(d->dir);
    test_tsh_remove(d->top);
    free(d->dir);
    free(d->top);
    test_coo_free(&d->x);
}

uint64_t rig_rows(const struct rig_disk *d, uint32_t mode)
{
    return d->tensor->mode[mode].disk.n_rows;
}

uint64_t rig_largest_shard(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        for (uint64_t i = 0; i < t->mode[m].disk.n_shards; i++)
            if (t->mode[m].shard[i].raw_bytes > most)
                most = t->mode[m].shard[i].raw_bytes;
    return most;
}

/* ---- backends ---- */

static const struct ts_backend *backend_of(const struct rig_ask *ask)
{
    return ask->backend != NULL ? ask->backend : rig_be;
}

struct ts_backend_conf rig_conf(const struct ts_tensor *t, const struct rig_ask *ask)
{
    const int on_gpu = backend_of(ask) == &ts_backend_gpu;
    struct ts_backend_conf conf = { .tensor = t,
                                    .rank = ask->rank,
                                    .n_models = ask->n_models,
                                    .ranks = ask->ranks,
                                    .precision = ask->precision,
                                    .threads = on_gpu || ask->backend != NULL ? 2 : ask->members,
                                    .n_devices = on_gpu ? ask->members : 0,
                                    .device_bytes = ask->device_bytes,
                                    .only_mode = -1,
                                    .needs = ask->needs,
                                    .own_rows = ask->own ? (1u << t->order) - 1 : 0,
                                    .exchange = ask->exchange };
    if (!on_gpu && ts_has_capability(ask->needs, TS_CAN_SCORES))
        conf.needs = TS_CAN(CELLS);
    for (uint32_t i = 0; i < conf.n_devices && conf.n_devices > 1 && !ask->one_device; i++)
        conf.device[i] = (int)i % rig_n_devices;
    return conf;
}

void *rig_backend_new(const struct ts_backend *backend, const struct ts_backend_conf *conf)
{
    void *be;
    n_opened++;
    OK(backend->open(conf, &be, &err));
    OK(backend->own_rows(be, conf->own_rows, &err));
    return be;
}

struct ts_feed *rig_feed_new(const struct ts_backend *backend, const struct ts_tensor *t, void *be,
                             uint64_t host_bytes)
{
    struct ts_feed_conf conf = { .tensor = t,
                                 .host_bytes = host_bytes,
                                 .only_mode = -1,
                                 .checkers = t->dense == NULL ? 2 : 0,
                                 .pin = backend->pin,
                                 .unpin = backend->unpin,
                                 .pin_bytes = t->dense == NULL ? 1 << 18 : 0,
                                 .pin_ctx = be };
    struct ts_feed *feed;
    fed = t;
    backend->deal(be, &conf.deal);
    OK(ts_feed_new(&conf, &feed, &err));
    return feed;
}

uint32_t rig_members(uint32_t members)
{
    return rig_n_devices > 0 ? members : 1;
}

void rig_put(const struct ts_backend *backend, void *be, uint32_t mode, uint64_t n, double *rows)
{
    const double first = rows[0];
    if (wrong && n_opened == 1)
        rows[0] += 0.25;
    OK(backend->put_rows(be, mode, 0, n, rows, &err));
    rows[0] = first;
}

double *rig_numbers(uint64_t seed, uint64_t n, uint32_t rank)
{
    double *a = malloc(n * rank * sizeof *a);
    for (uint64_t i = 0; i < n * rank; i++)
        a[i] = (float)(ts_unit(ts_mix(seed + i)) - 0.3);
    return a;
}

double rig_signed(const struct rig_ask *ask, uint32_t mode, double u)
{
    (void)ask;
    (void)mode;
    return 1.5 * u - 0.5;
}

struct rig_run rig_open(const struct rig_disk *d, const struct rig_ask *ask, rig_entry *entry)
{
    const struct ts_backend_conf conf = rig_conf(d->tensor, ask);
    struct rig_run r = { .backend = backend_of(ask), .d = d, .ask = ask };
    r.be = rig_backend_new(r.backend, &conf);
    r.feed = rig_feed_new(r.backend, d->tensor, r.be, ask->host_bytes);
    for (uint32_t m = 0; m < d->x.order; m++) {
        const uint64_t n = d->x.dim[m] * ask->rank;
        r.a[m] = malloc(n * sizeof *r.a[m]);
        for (uint64_t i = 0; i < n; i++)
            r.a[m][i] = (float)entry(ask, m, ts_unit(ts_mix(1000003 * m + i)));
        rig_put(r.backend, r.be, m, d->x.dim[m], r.a[m]);
    }
    return r;
}

void rig_close(struct rig_run *r)
{
    ts_feed_free(r->feed);
    r->backend->close(r->be);
    for (uint32_t m = 0; m < r->d->x.order; m++)
        free(r->a[m]);
}

void rig_pass_of(const struct ts_backend *backend, const struct ts_tensor *t, struct ts_feed *feed,
                 const struct ts_request *requests, uint32_t n, uint32_t mode,
                 struct ts_backend_times *times)
{
    uint64_t nnz = 0;
    ts_feed_rewind(feed);
    OK(backend->pass(requests, n, mode, feed, times, &err));
    for (uint32_t i = 0; i < times->n_devices; i++)
        nnz += times->device[i].nnz;
    ck_assert_uint_eq(nnz, t->nnz);
}

void rig_pass(struct rig_run *r, struct ts_request request, uint32_t mode)
{
    struct ts_backend_times times;
    request.be = r->be;
    rig_pass_of(r->backend, r->d->tensor, r->feed, &request, 1, mode, &times);
}

void rig_get(struct rig_run *r, uint32_t mode, double *rows)
{
    OK(r->backend->get_rows(r->be, mode, 0, r->d->x.dim[mode], rows, &err));
}

void rig_check_refused(const struct rig_disk *d, struct rig_ask ask, struct ts_request request,
                       const char *says)
{
    const struct ts_backend_conf conf = rig_conf(d->tensor, &ask);
    struct ts_backend_times times;
    struct ts_feed *feed;
    OK(rig_be->open(&conf, &request.be, &err));
    feed = rig_feed_new(rig_be, d->tensor, request.be, ask.host_bytes);
    ck_assert_int_eq(rig_be->pass(&request, 1, 0, feed, &times, &err), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, says));
    ts_feed_free(feed);
    rig_be->close(request.be);
}

/* ---- the obvious loop ---- */

int rig_is_held(const struct rig_run *r, uint64_t i)
{
    const struct ts_hold_out *h = &r->ask->hold_out;
    uint64_t hash = ts_hold_out_begin(h);
    for (uint32_t m = 0; m < r->d->x.order; m++)
        hash = ts_hold_out_add(hash, r->d->x.idx[m][i]);
    return h->share > 0 && ts_hold_out_held(h, hash);
}

void rig_products(const struct rig_run *r, uint64_t i, uint32_t but, double *p)
{
    for (uint32_t k = 0; k < r->ask->rank; k++) {
        p[k] = 1;
        for (uint32_t m = 0; m < r->d->x.order; m++)
            p[k] *= m == but ? 1 : r->a[m][(size_t)r->d->x.idx[m][i] * r->ask->rank + k];
    }
}

void rig_near(const char *what, double got, double want, double scale, double tolerance)
{
    ck_assert_msg(fabs(got - want) <= tolerance * scale, "%s: %.17g, not %.17g of %g", what, got,
                  want, scale);
}

void rig_check_errors(const struct rig_run *r, double mean, double tolerance,
                      const struct ts_error_sums *got)
{
    const struct test_coo *c = &r->d->x;
    struct ts_cell_errors want[2] = { { 0 } };
    double *p = malloc(r->ask->rank * sizeof *p);
    for (uint64_t i = 0; i < c->nnz; i++) {
        struct ts_cell_errors *w = &want[rig_is_held(r, i)];
        const double x = c->val[i], weight = c->weight == NULL ? 1 : (double)c->weight[i];
        double m = mean;
        rig_products(r, i, c->order, p);
        for (uint32_t k = 0; k < r->ask->rank; k++)
            m += p[k];
        w->n += weight;
        w->sum += weight * x;
        w->squares += weight * x * x;
        w->inner += weight * x * m;
        w->left += weight * (x - m) * (x - m);
    }
    free(p);
    for (int k = 0; k < 2; k++) {
        const struct ts_cell_errors *g = k == 0 ? &got->kept : &got->held, *w = &want[k];
        const double scale = w->squares + w->left;
        rig_near("count", g->n, w->n, w->n, c->weight == NULL ? 0 : 1e-12);
        rig_near("sum of values", g->sum, w->sum, fmin(w->sum, scale), tolerance);
        rig_near("sum of squares", g->squares, w->squares, w->squares, tolerance);
        rig_near("inner product", g->inner, w->inner, scale, tolerance);
        rig_near("squares of errors", g->left, w->left, scale, tolerance);
    }
}

/* ---- budgets ---- */

/* What the first device takes without shards, where memory is no matter. */
static uint64_t taken_by(struct ts_backend_conf conf)
{
    struct ts_device_memory memory[TS_MAX_DEVICES];
    void *be;
    conf.device_bytes = 0;
    OK(rig_be->open(&conf, &be, &err));
    rig_be->memory(be, memory);
    rig_be->close(be);
    return memory[0].factor_bytes + memory[0].sum_bytes + memory[0].driver_bytes;
}

uint64_t rig_budget(const struct rig_disk *d, const struct rig_ask *ask, uint32_t shards)
{
    const uint64_t most = rig_largest_shard(d->tensor) + 4096;
    return rig_n_devices == 0 ? 0 : taken_by(rig_conf(d->tensor, ask)) + shards * most;
}

static int opens_with(const struct ts_backend_conf *conf, uint64_t device_bytes, const char *says)
{
    struct ts_backend_conf now = *conf;
    void *be;
    int rc;
    now.device_bytes = device_bytes;
    rc = rig_be->open(&now, &be, &err);
    if (rc == 0) {
        rig_be->close(be);
        return 1;
    }
    ck_assert_int_eq(rc, TS_ELIMIT);
    ck_assert_msg(strstr(err.text, says) != NULL, "%s", err.text);
    return 0;
}

uint64_t rig_least_budget(const struct ts_backend_conf *conf, const char *says)
{
    uint64_t step = 1 << 20, low, high; /* low does not open, high does */
    if (rig_n_devices == 0)
        return step;
    low = high = taken_by(*conf);
    while (!opens_with(conf, high, says)) {
        low = high;
        high += step;
        step *= 2;
        ck_assert_uint_lt(high, UINT64_C(1) << 36);
    }
    while (low == high) {
        low = high > step ? high - step : 1;
        if (low > 1 && opens_with(conf, low, says))
            high = low;
        step *= 2;
    }
    while (high - low > 64 << 10) {
        const uint64_t middle = low + (high - low) / 2;
        if (opens_with(conf, middle, says))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* ---- bits ---- */

void rig_keep(struct rig_bits *b, const char *what, const void *from, size_t bytes)
{
    ck_assert_uint_lt(b->n, RIG_PARTS);
    b->bytes = realloc(b->bytes, b->n_bytes + bytes + 1);
    memcpy(b->bytes + b->n_bytes, from, bytes);
    b->part[b->n].what = what;
    b->part[b->n].at = b->n_bytes;
    b->part[b->n++].bytes = bytes;
    b->n_bytes += bytes;
}

void rig_bits_free(struct rig_bits *b)
{
    free(b->bytes);
    *b = (struct rig_bits){ 0 };
}

void rig_same(const struct rig_bits *got, const struct rig_bits *want)
{
    ck_assert_uint_gt(want->n_bytes, 0);
    ck_assert_uint_eq(got->n, want->n);
    for (uint32_t k = 0; k < want->n; k++) {
        ck_assert_uint_eq(got->part[k].bytes, want->part[k].bytes);
        ck_assert_msg(memcmp(got->bytes + got->part[k].at, want->bytes + want->part[k].at,
                             want->part[k].bytes) == 0,
                      "part %u, %s: other bits", k, want->part[k].what);
    }
}

static void check_once(const struct rig_disk *d, const struct rig_ask *ask, rig_compute *compute,
                       const struct rig_bits *want)
{
    struct rig_bits got = { 0 };
    compute(d, ask, &got);
    rig_same(&got, want);
    rig_bits_free(&got);
}

void rig_check_bits(const struct rig_disk *d, struct rig_ask ask, rig_compute *compute)
{
    struct rig_bits want = { 0 };
    compute(d, &ask, &want);
    for (ask.members = 1; ask.members < 4; ask.members++) {
        ask.host_bytes = RIG_HOST_BYTES;
        ask.device_bytes = 0;
        check_once(d, &ask, compute, &want);
        if (d->tensor->mode[0].disk.n_shards == 1)
            continue;
        ask.device_bytes = rig_budget(d, &ask, 4);
        check_once(d, &ask, compute, &want);
        ask.host_bytes = RIG_FEW_BYTES;
        check_once(d, &ask, compute, &want);
    }
    rig_bits_free(&want);
}

void rig_check_ones(const struct rig_shape *shape, const struct rig_ask *ask, rig_compute *compute)
{
    struct rig_bits want = { 0 };
    struct rig_disk d = rig_values(shape, RIG_NONE);
    compute(&d, ask, &want);
    rig_disk_free(&d);
    d = rig_values(shape, RIG_ONES);
    n_opened = 1;
    check_once(&d, ask, compute, &want);
    rig_disk_free(&d);
    rig_bits_free(&want);
}
