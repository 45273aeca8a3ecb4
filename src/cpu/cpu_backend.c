#include "cpu/cpu_backend.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/fmat.h"
#include "cpu/pass.h"
#include "cpu/rowsolve.h"

struct cpu {
    const struct ts_tensor *tensor;
    uint32_t threads;
    struct ts_pass *pass;
    struct ts_fmat factor[TS_MAX_ORDER];
};

static uint32_t thread_count(const struct ts_backend_conf *conf)
{
    return conf->threads > 0 ? conf->threads : (uint32_t)omp_get_num_procs();
}

static void cpu_close(void *be)
{
    struct cpu *c = be;
    if (c == NULL)
        return;
    ts_pass_free(c->pass);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        ts_fmat_free(&c->factor[m]);
    free(c);
}

static int cpu_open(const struct ts_backend_conf *conf, void **ret, struct ts_err *err)
{
    const struct ts_tensor *t = conf->tensor;
    struct cpu *c;
    int rc = 0;
    if (conf->rank == 0 || conf->rank > TS_FMAT_MAX_RANK)
        return ts_fail(err, TS_EARG, "rank %u is not between 1 and %u", conf->rank,
                       TS_FMAT_MAX_RANK);
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    c->tensor = t;
    c->threads = thread_count(conf);
    for (uint32_t m = 0; rc == 0 && m < t->order; m++) {
        char what[40];
        snprintf(what, sizeof what, "factor matrix of mode %u", m + 1);
        rc = ts_fmat_new(t->mode[m].disk.n_rows, conf->rank, conf->precision, what, &c->factor[m],
                         err);
    }
    if (rc == 0)
        rc = ts_pass_new(conf, NULL, c->threads, &c->pass, err);
    if (rc < 0) {
        cpu_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

static void cpu_need(const struct ts_backend_conf *conf, uint64_t *factor_bytes,
                     uint64_t *other_bytes)
{
    const uint32_t threads = thread_count(conf);
    uint64_t max_rows = 0, padded = 0;
    *factor_bytes = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++) {
        const uint64_t n_rows = conf->tensor->mode[m].disk.n_rows;
        *factor_bytes += n_rows * conf->rank * (conf->precision == TS_FLOAT32 ? 4 : 8);
        padded += ts_fmat_bytes(n_rows, conf->rank, conf->precision);
        max_rows = n_rows > max_rows ? n_rows : max_rows;
    }
    *other_bytes = sizeof(struct cpu) + padded - *factor_bytes + ts_pass_bytes(conf, threads) +
                   ts_rowsolve_bytes(max_rows, conf->rank, threads);
}

static int cpu_put_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                        struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    ts_fmat_put(&c->factor[mode], row, n, rows, c->threads);
    return 0;
}

static int cpu_get_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                        struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    ts_fmat_get(&c->factor[mode], row, n, rows, c->threads);
    return 0;
}

static int cpu_mttkrp(void *be, uint32_t mode, struct ts_feed *feed,
                      struct ts_backend_times *times, struct ts_err *err)
{
    struct cpu *c = be;
    return ts_pass_run(c->pass, mode, c->factor, feed, times, err);
}

static int cpu_solve(void *be, uint32_t mode, const double *w, double *gram, double *inner,
                     struct ts_err *err)
{
    struct cpu *c = be;
    return ts_rowsolve_run(&c->factor[mode], w, ts_isa_best(), c->threads, gram, inner, err);
}

static int cpu_scale(void *be, uint32_t mode, const double *s, struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    ts_rowsolve_scale(&c->factor[mode], s, ts_isa_best(), c->threads);
    return 0;
}

static int cpu_gram(void *be, uint32_t mode, double *gram, struct ts_err *err)
{
    struct cpu *c = be;
    return ts_rowsolve_run(&c->factor[mode], NULL, ts_isa_best(), c->threads, gram, NULL,
                           err);
}

const struct ts_backend ts_backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .need = cpu_need,
    .put_rows = cpu_put_rows,
    .get_rows = cpu_get_rows,
    .mttkrp = cpu_mttkrp,
    .solve = cpu_solve,
    .scale = cpu_scale,
    .gram = cpu_gram,
};
