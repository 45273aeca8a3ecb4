/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a whole decomposition, by any method, on CPU cores with a feed, in one call. */
#include "tests/cpd/run_cp.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "model/model_write.h"
#include "cpu/cpu_backend.h"
#include "cpu/dense/dense_scan.h"
#include "format/tensor_kind.h"

static volatile sig_atomic_t stop;
static uint32_t n_products;
static uint32_t modes_until_stop; /* 0: it does not come inside a mode */
static uint32_t steps_until_stop; /* 0: nor inside a column */

static void note_sweep(void *ctx, const struct ts_solver_sweep *s)
{
    struct test_cp *a = ctx;
    if (s->sweep <= 100) {
        a->fit[s->sweep - 1] = s->fit;
        a->objective[s->sweep - 1] = s->objective;
    }
    a->last = *s;
}

/* Two generations lie there, or 0.05 s went by: the thread that saves them has its turn on a
 * machine that is busy with other things, too. */
static void await_states(const char *dir)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    for (int i = 0; i < 50; i++) {
        struct stat st;
        char path[2][4096];
        snprintf(path[0], sizeof path[0], "%s/" TS_STATE_NAME_0, dir);
        snprintf(path[1], sizeof path[1], "%s/" TS_STATE_NAME_1, dir);
        if (stat(path[0], &st) == 0 && stat(path[1], &st) == 0)
            return;
        nanosleep(&moment, NULL);
    }
}

static void note_mode(void *ctx, const struct ts_solver_mode *m)
{
    struct test_cp *a = ctx;
    const uint32_t order = a->order;
    if (m->sweep == a->n_modes / order + 1 && m->mode == a->n_modes % order &&
        m->times->n_devices > 0 && m->total_ns >= m->times->device[0].solve_ns)
        a->each_mode[a->n_modes++ % 100] = m->objective;
    if (a->conf->patient)
        await_states(a->conf->states);
    if (m->sweep == a->conf->stop_sweep && m->mode == a->conf->stop_mode && !a->conf->stop_inside)
        stop = 1;
}

static struct ts_solver_conf *running;

static int note_start(void *ctx, struct ts_err *err)
{
    struct test_cp *a = ctx;
    const struct ts_init_conf *c = &running->init;
    int rc = 0;
    for (uint32_t m = 0; m < a->order && rc == 0 && c->nvecs; m++) {
        const uint64_t n = c->tensor->mode[m].disk.n_rows;
        a->start[m] = malloc(n * c->rank * sizeof(double) + 1);
        rc = ts_backend_cpu.get_rows(c->be, m, 0, n, a->start[m], err);
    }
    return rc;
}

static void note_warning(void *ctx, const struct ts_err *err)
{
    struct test_cp *a = ctx;
    snprintf(a->warning, sizeof a->warning, "%s", err->text);
}

static uint32_t own; /* modes whose rows are updated from the old ones */

/* The user stops: rows of a pass that was begun are of no use, unless they lie beside the old
 * ones. */
static int stop_in(const struct ts_request *r, uint32_t mode, struct ts_err *err)
{
    const int in_place =
        r->kind == TS_REQUEST_ROWS || (r->kind == TS_REQUEST_PRODUCT && (own >> mode & 1) == 0);
    double rows[TS_MAX_RANK];
    for (uint32_t k = 0; k < TS_MAX_RANK; k++)
        rows[k] = 1e30;
    if (in_place)
        ts_backend_cpu.put_rows(r->be, mode, 0, 1, rows, err);
    stop = 1;
    return ts_fail(err, TS_ESTOP, "stopped");
}

static int is_last_pass(void)
{
    n_products++;
    return modes_until_stop > 0 && --modes_until_stop == 0;
}

/* As a backend of several devices has it. The second device computes three times as long as the
 * first; each millisecond is one of rows that travel. */
static int update_rows(const struct ts_request *r, uint32_t mode, struct ts_feed *feed,
                       struct ts_backend_times *times, struct ts_err *err)
{
    const struct ts_request product = { .be = r->be };
    struct ts_row_sums all = *r->sums;
    double unused;
    int rc = ts_backend_cpu.pass(&product, 1, mode, feed, times, err);
    if (all.inner == NULL)
        all.inner = &unused;
    if (rc == 0 && r->update->ready != NULL)
        rc = r->update->ready(r->update->ctx, err);
    if (rc == 0)
        rc = ts_backend_cpu.solve(r->be, mode, r->update, &all, err);
    *times = (struct ts_backend_times){
        .n_devices = 2,
        .device = { { .number = 0, .kernel_ns = 1000000, .exposed_ns = 1000000 },
                    { .number = 1, .kernel_ns = 3000000, .exposed_ns = 3000000 } },
    };
    return rc;
}

/* Rows that are multiplied or descend lie beside the old ones until all are there: the run stops
 * before the pass. */
static int cpu_pass(const struct ts_request *r, uint32_t n, uint32_t mode, struct ts_feed *feed,
                    struct ts_backend_times *times, struct ts_err *err)
{
    const int before = r->kind == TS_REQUEST_MULTIPLY || r->kind == TS_REQUEST_DESCEND;
    int rc;
    if (r->kind == TS_REQUEST_PRODUCT && r->update != NULL)
        return update_rows(r, mode, feed, times, err);
    if (before && is_last_pass())
        return stop_in(r, mode, err);
    rc = ts_backend_cpu.pass(r, n, mode, feed, times, err);
    return !before && is_last_pass() && rc == 0 ? stop_in(r, mode, err) : rc;
}

static int cpu_given_up(void *be)
{
    if (steps_until_stop > 0 && --steps_until_stop == 0)
        stop = 1;
    return ts_backend_cpu.given_up(be);
}

struct parts {
    struct ts_tensor *tensor;
    struct ts_feed *feed;
    void *be;
    struct ts_model *model;
    struct ts_model_out *out;
    struct ts_checkpoint *checkpoint;
    struct ts_state_file *from;
    int states; /* the directory; 0: none */
};

/* As they are written: columns of norm 1 (or 0), in the precision of the run. */
static int get_factors(struct test_cp *a, const struct parts *p, struct ts_solver_result *result,
                       enum ts_precision precision, struct ts_err *err)
{
    const double *norm = result->norm;
    int rc = 0;
    for (uint32_t m = 0; m < a->order && rc == 0; m++) {
        a->n_rows[m] = p->tensor->mode[m].disk.n_rows;
        a->factor[m] = malloc(a->n_rows[m] * a->rank * sizeof(double) + 1);
        rc = ts_solver_rows(&result->rows, m, 0, a->n_rows[m], a->factor[m], err);
        for (uint64_t i = 0; i < a->n_rows[m] * a->rank; i++) {
            const double length = norm[m * a->rank + i % a->rank];
            a->factor[m][i] *= 1 / (length > 0 ? length : 1);
            if (precision == TS_FLOAT32)
                a->factor[m][i] = (float)a->factor[m][i];
        }
    }
    return rc;
}

static int open_states(const struct test_cp_conf *c, struct parts *p, struct test_cp *a)
{
    struct ts_checkpoint_conf cc = { .where = c->states,
                                     .tensor = p->tensor,
                                     .backend = &ts_backend_cpu,
                                     .be = p->be,
                                     .rank = c->rank,
                                     .precision = c->precision,
                                     .spec = c->spec,
                                     .accelerate = c->accelerate,
                                     .every_ns = c->every_ns,
                                     .copy = c->copy,
                                     .share = 1,
                                     .warn = note_warning,
                                     .ctx = a };
    int rc = c->from == NULL ? 0 : ts_state_open(c->from, &p->from, &a->err);
    if (rc < 0 || c->states == NULL)
        return rc;
    p->states = open(c->states, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cc.dir = p->states;
    cc.from = p->from == NULL ? NULL : ts_state_get(p->from);
    return ts_checkpoint_new(&cc, &p->checkpoint, &a->err);
}

static int run(const char *path, const struct test_cp_conf *c, struct parts *p, struct test_cp *a)
{
    struct ts_err *err = &a->err;
    struct ts_backend_conf bc = {
        .rank = c->rank, .precision = c->precision, .threads = c->threads, .only_mode = -1
    };
    struct ts_feed_conf fc = { .host_bytes = c->host_bytes > 0 ? c->host_bytes : 1 << 30,
                               .only_mode = -1,
                               .avoid = c->avoid };
    struct ts_solver_conf ac = { .iters = c->iters,
                                 .inner = c->inner,
                                 .tol = c->tol,
                                 .accelerate = c->accelerate,
                                 .whole_start = c->nvecs,
                                 .started = note_start,
                                 .mode = note_mode,
                                 .each_mode = c->each_mode,
                                 .sweep = note_sweep,
                                 .ctx = a };
    struct ts_backend backend = ts_backend_cpu;
    struct ts_model_conf mc = { .dir = c->out,
                                .formats = c->formats,
                                .force = 1,
                                .used_rows = c->used_rows,
                                .rank = c->rank,
                                .threads = c->threads,
                                .precision = c->precision };
    struct ts_feed_stats stats;
    struct ts_solver_result result;
    int rc = ts_tensor_open_any(path, &p->tensor, err);
    bc.tensor = fc.tensor = p->tensor;
    if (rc == 0)
        mc.shape = ts_model_shape_of(p->tensor);
    if (rc == 0)
        rc = ts_feed_new(&fc, &p->feed, err);
    if (rc == 0 && p->tensor->dense != NULL)
        rc = ts_dense_scan(p->tensor, p->feed, c->threads, err);
    if (rc == 0)
        rc = ts_backend_cpu.open(&bc, &p->be, err);
    if (rc == 0 && c->init != NULL)
        rc = ts_model_open(c->init, &p->model, err);
    if (rc == 0 && c->out != NULL)
        rc = ts_model_begin(&mc, &p->out, err);
    if (rc == 0)
        rc = open_states(c, p, a);
    if (rc < 0)
        return rc;
    if (!c->one_call)
        backend.can &= ~TS_CAN(AT_ONCE);
    backend.pass = cpu_pass;
    backend.given_up = cpu_given_up;
    a->order = p->tensor->order;
    ac.init = (struct ts_init_conf){ .tensor = p->tensor,
                                     .backend = &backend,
                                     .be = p->be,
                                     .rank = c->rank,
                                     .threads = c->threads,
                                     .seed = c->seed,
                                     .model = p->model,
                                     .nvecs = c->nvecs,
                                     .spec = c->spec,
                                     .stop = &stop };
    own = ts_spec_own(c->spec, p->tensor->order);
    ac.checkpoint = p->checkpoint;
    ac.from = p->from;
    ac.feed = p->feed;
    ac.precision = c->precision;
    ac.hold_out = c->hold_out;
    ac.patience = c->patience;
    ts_feed_stats(p->feed, &stats);
    a->n_slots = stats.n_slots;
    stop = 0;
    n_products = 0;
    modes_until_stop = c->stop_inside ? (c->stop_sweep - 1) * p->tensor->order + c->stop_mode + 1
                                      : c->stop_product;
    steps_until_stop = c->stop_step;
    if (p->from != NULL && c->stop_inside)
        modes_until_stop -=
            (ts_state_get(p->from)->sweep - 1) * p->tensor->order + ts_state_get(p->from)->mode;
    running = &ac;
    rc = ts_solver_run(&ac, &result, err);
    a->n_products = n_products;
    if (p->checkpoint != NULL &&
        !ts_checkpoint_last(p->checkpoint, &a->saved_sweep, &a->saved_mode))
        a->saved_sweep = a->saved_mode = 0;
    if (rc < 0)
        return rc;
    a->rank = result.rank;
    a->sweeps = result.sweeps;
    a->converged = result.converged;
    a->overfits = result.overfits;
    a->best_sweep = result.best_sweep;
    a->weight = result.weight;
    a->norm = result.norm;
    rc = get_factors(a, p, &result, c->precision, err);
    return rc == 0 && p->out != NULL
               ? ts_model_write(p->out, ts_solver_rows, &result.rows, result.weight, result.norm,
                                &(struct ts_err){ 0 }, err)
               : rc;
}

struct test_cp test_cp_run(const char *path, const struct test_cp_conf *conf)
{
    struct test_cp a = { .conf = conf };
    struct parts p = { 0 };
    a.rc = run(path, conf, &p, &a);
    ts_checkpoint_free(p.checkpoint);
    ts_state_close(p.from);
    if (p.states > 0)
        close(p.states);
    ts_model_end(p.out);
    ts_model_close(p.model);
    ts_backend_cpu.close(p.be);
    ts_feed_free(p.feed);
    ts_tensor_close(p.tensor);
    return a;
}

void test_cp_free(struct test_cp *a)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        free(a->factor[m]);
        free(a->start[m]);
    }
    free(a->weight);
    memset(a, 0, sizeof *a);
}
