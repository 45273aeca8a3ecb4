#include "tests/run_als.h"

#include <stdlib.h>
#include <string.h>

#include "cpd/model_write.h"
#include "cpu/cpu_backend.h"

static void note_sweep(void *ctx, const struct ts_als_sweep *s)
{
    struct test_als *a = ctx;
    if (s->sweep <= 100)
        a->fit[s->sweep - 1] = s->fit;
    a->last = *s;
}

static void note_mode(void *ctx, const struct ts_als_mode *m)
{
    struct test_als *a = ctx;
    const uint32_t order = a->order;
    if (m->sweep == a->n_modes / order + 1 && m->mode == a->n_modes % order &&
        m->times->n_devices > 0 && m->total_ns >= m->times->device[0].solve_ns)
        a->n_modes++;
}

/* As a backend of several devices has it. The second device computes three times as long as the first;
 * each millisecond is one of rows that travel. */
static int cpu_update(void *be, uint32_t mode, struct ts_feed *feed, const double *w, double *gram,
                      double *inner, struct ts_backend_times *times, struct ts_err *err)
{
    double unused;
    int rc = ts_backend_cpu.mttkrp(be, mode, feed, times, err);
    if (rc == 0)
        rc = ts_backend_cpu.solve(be, mode, w, gram, inner != NULL ? inner : &unused, err);
    *times = (struct ts_backend_times){
        .n_devices = 2,
        .device = { { .number = 0, .kernel_ns = 1000000, .exposed_ns = 1000000 },
                    { .number = 1, .kernel_ns = 3000000, .exposed_ns = 3000000 } },
    };
    return rc;
}

struct parts {
    struct ts_tensor *tensor;
    struct ts_feed *feed;
    void *be;
    struct ts_model *model;
    struct ts_model_out *out;
};

static int get_factors(struct test_als *a, const struct parts *p, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < a->order && rc == 0; m++) {
        a->n_rows[m] = p->tensor->mode[m].disk.n_rows;
        a->factor[m] = malloc(a->n_rows[m] * a->rank * sizeof(double) + 1);
        rc = ts_backend_cpu.get_rows(p->be, m, 0, a->n_rows[m], a->factor[m], err);
    }
    return rc;
}

static int run(const char *path, const struct test_als_conf *c, struct parts *p, struct test_als *a)
{
    struct ts_err *err = &a->err;
    struct ts_backend_conf bc = { .rank = c->rank, .precision = c->precision,
                                  .threads = c->threads, .only_mode = -1 };
    struct ts_feed_conf fc = { .host_bytes = c->host_bytes > 0 ? c->host_bytes : 1 << 30,
                               .only_mode = -1, .avoid = c->avoid };
    struct ts_als_conf ac = { .iters = c->iters, .tol = c->tol, .mode = note_mode,
                              .sweep = note_sweep, .ctx = a };
    struct ts_backend backend = ts_backend_cpu;
    struct ts_model_conf mc = { .dir = c->out, .formats = c->formats, .used_rows = c->used_rows,
                                .rank = c->rank, .threads = c->threads, .precision = c->precision,
                                .backend = &ts_backend_cpu };
    struct ts_feed_stats stats;
    struct ts_als_result result;
    int rc = ts_tensor_open(path, &p->tensor, err);
    bc.tensor = fc.tensor = mc.tensor = p->tensor;
    if (rc == 0)
        rc = ts_feed_new(&fc, &p->feed, err);
    if (rc == 0)
        rc = ts_backend_cpu.open(&bc, &p->be, err);
    if (rc == 0 && c->init != NULL)
        rc = ts_model_open(c->init, &p->model, err);
    if (rc == 0 && c->out != NULL)
        rc = ts_model_begin(&mc, &p->out, err);
    if (rc < 0)
        return rc;
    if (c->one_call)
        backend.update = cpu_update;
    a->order = p->tensor->order;
    ac.init = (struct ts_init_conf){ .tensor = p->tensor, .backend = &backend, .be = p->be,
                                     .rank = c->rank, .threads = c->threads, .seed = c->seed,
                                     .model = p->model };
    ac.feed = p->feed;
    ac.precision = c->precision;
    ts_feed_stats(p->feed, &stats);
    a->n_slots = stats.n_slots;
    rc = ts_als_run(&ac, &result, err);
    if (rc < 0)
        return rc;
    a->rank = c->rank;
    a->sweeps = result.sweeps;
    a->converged = result.converged;
    a->weight = result.weight;
    rc = get_factors(a, p, err);
    return rc == 0 && p->out != NULL ? ts_model_write(p->out, p->be, a->weight, err) : rc;
}

struct test_als test_als_run(const char *path, const struct test_als_conf *conf)
{
    struct test_als a = { 0 };
    struct parts p = { 0 };
    a.rc = run(path, conf, &p, &a);
    ts_model_end(p.out);
    ts_model_close(p.model);
    ts_backend_cpu.close(p.be);
    ts_feed_free(p.feed);
    ts_tensor_close(p.tensor);
    return a;
}

void test_als_free(struct test_als *a)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(a->factor[m]);
    free(a->weight);
    memset(a, 0, sizeof *a);
}
