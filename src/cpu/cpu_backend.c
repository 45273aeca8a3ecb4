/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the CPU backend (stream/backend.h): factors in memory, passes by pass.c, row work by
 * rowsolve.c. */
#include "cpu/cpu_backend.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bigmem.h"
#include "cpu/fmat.h"
#include "cpu/pass.h"
#include "cpu/plain.h"
#include "cpu/rowsolve.h"

struct cpu {
    const struct ts_tensor *tensor;
    uint32_t threads;
    struct ts_pass *pass;
    struct ts_rowsolve *rows;
    struct ts_fmat factor[TS_MAX_ORDER];
    struct ts_fmat rest;    /* of products of the last mode; no data: not kept */
    struct ts_fmat apart;   /* for products of any mode of `own`; no data: there are none */
    struct ts_fmat product; /* of the mode that was passed over last: its factor, or in `apart` */
    uint32_t own;
    enum ts_precision summed;
};

static uint32_t thread_count(const struct ts_backend_conf *conf)
{
    return conf->threads > 0 ? conf->threads : (uint32_t)omp_get_num_procs();
}

static uint64_t max_rows(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        most = t->mode[m].disk.n_rows > most ? t->mode[m].disk.n_rows : most;
    return most;
}

/* Most rows of the modes that are kept apart. */
static uint64_t apart_rows(const struct ts_tensor *t, uint32_t modes)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++)
        if ((modes >> m & 1) != 0 && t->mode[m].disk.n_rows > most)
            most = t->mode[m].disk.n_rows;
    return most;
}

static void cpu_close(void *be)
{
    struct cpu *c = be;
    if (c == NULL)
        return;
    ts_pass_free(c->pass);
    ts_rowsolve_free(c->rows);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        ts_fmat_free(&c->factor[m]);
    ts_fmat_free(&c->rest);
    ts_fmat_free(&c->apart);
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
    c->summed = conf->precision;
    for (uint32_t m = 0; rc == 0 && m < t->order; m++) {
        char what[40];
        snprintf(what, sizeof what, "factor matrix of mode %u", m + 1);
        rc = ts_fmat_new(t->mode[m].disk.n_rows, conf->rank, conf->precision, what, &c->factor[m],
                         err);
    }
    if (rc == 0 && ts_backend_keeps_rest(conf))
        rc = ts_fmat_new(t->mode[t->order - 1].disk.n_rows, conf->rank, TS_FLOAT32,
                         "what float32 loses of a product", &c->rest, err);
    if (rc == 0)
        rc = ts_pass_new(conf, ts_isa_best(), c->threads, &c->pass, err);
    if (rc == 0)
        rc = ts_rowsolve_new(max_rows(t), conf->rank, ts_isa_best(), c->threads, &c->rows, err);
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
    const uint32_t threads = thread_count(conf), last = conf->tensor->order - 1;
    uint64_t padded = 0;
    *factor_bytes = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++) {
        const uint64_t n_rows = conf->tensor->mode[m].disk.n_rows;
        *factor_bytes += n_rows * conf->rank * (conf->precision == TS_FLOAT32 ? 4 : 8);
        padded += ts_fmat_bytes(n_rows, conf->rank, conf->precision);
    }
    if (conf->own_rows != 0) {
        const uint64_t n_rows = apart_rows(conf->tensor, conf->own_rows);
        *factor_bytes += n_rows * conf->rank * (conf->precision == TS_FLOAT32 ? 4 : 8);
        padded += ts_fmat_bytes(n_rows, conf->rank, conf->precision);
    }
    *other_bytes = sizeof(struct cpu) + padded - *factor_bytes + ts_pass_bytes(conf, threads) +
                   ts_rowsolve_bytes(max_rows(conf->tensor), conf->rank, threads);
    if (conf->own_rows != 0)
        *other_bytes += ts_rowsolve_own_bytes(conf->rank, threads);
    if (ts_backend_keeps_rest(conf))
        *other_bytes += ts_bigmem_cost(
            ts_fmat_bytes(conf->tensor->mode[last].disk.n_rows, conf->rank, TS_FLOAT32));
}

static uint64_t cpu_wish(const struct ts_backend_conf *conf)
{
    return ts_plain_bytes(conf->tensor, conf->only_mode);
}

static int cpu_put_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                        struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    c->factor[mode].rest = NULL;
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

static int cpu_mttkrp(void *be, uint32_t mode, struct ts_feed *feed, struct ts_backend_times *times,
                      struct ts_err *err)
{
    struct cpu *c = be;
    const int last = mode + 1 == c->tensor->order;
    const enum ts_precision summed = last ? c->summed : c->factor[mode].precision;
    const int apart = (c->own >> mode & 1) != 0;
    c->product = c->factor[mode];
    c->product.rest = summed != c->product.precision ? c->rest.data : NULL;
    if (apart)
        c->product.data = c->apart.data;
    else
        c->factor[mode].rest = c->product.rest;
    return ts_pass_run(c->pass, mode, summed, c->factor, &c->product, feed, times, err);
}

static int cpu_own_rows(void *be, uint32_t modes, struct ts_err *err)
{
    struct cpu *c = be;
    const struct ts_fmat *f = &c->factor[0];
    const uint64_t n = apart_rows(c->tensor, modes);
    int rc = 0;
    c->own = 0;
    if (n > c->apart.n_rows) {
        ts_fmat_free(&c->apart);
        rc = ts_fmat_new(n, f->rank, f->precision, "products beside factors", &c->apart, err);
    }
    if (rc == 0 && modes != 0)
        rc = ts_rowsolve_own(c->rows, err);
    if (rc == 0)
        c->own = modes;
    return rc;
}

static void cpu_sum_in(void *be, enum ts_precision summed)
{
    struct cpu *c = be;
    c->summed = summed;
}

static int cpu_solve(void *be, uint32_t mode, const struct ts_row_update *how,
                     const struct ts_row_sums *sums, struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    if (ts_row_reads_old(how->kind))
        ts_rowsolve_run(c->rows, &c->factor[mode], &c->product, how, sums);
    else
        ts_rowsolve_run(c->rows, &c->factor[mode], NULL, how, sums);
    c->factor[mode].rest = NULL;
    return 0;
}

static int cpu_scale(void *be, uint32_t mode, const double *s, struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    ts_rowsolve_scale(c->rows, &c->factor[mode], s);
    return 0;
}

static int cpu_gram(void *be, uint32_t mode, double *gram, struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    ts_rowsolve_run(c->rows, &c->factor[mode], NULL, NULL, &(struct ts_row_sums){ .gram = gram });
    return 0;
}

const struct ts_backend ts_backend_cpu = {
    .name = "cpu",
    .updates = 1u << TS_ROW_LEAST_SQUARES | 1u << TS_ROW_COORDINATE | 1u << TS_ROW_KEEP |
               1u << TS_ROW_SIMPLEX,
    .open = cpu_open,
    .close = cpu_close,
    .need = cpu_need,
    .wish = cpu_wish,
    .put_rows = cpu_put_rows,
    .get_rows = cpu_get_rows,
    .own_rows = cpu_own_rows,
    .sum_in = cpu_sum_in,
    .mttkrp = cpu_mttkrp,
    .solve = cpu_solve,
    .scale = cpu_scale,
    .gram = cpu_gram,
};
