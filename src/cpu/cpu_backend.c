/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the CPU backend (stream/backend.h): factors in memory, passes by pass.c, row work by
 * rowsolve.c. */
#include "cpu/cpu_backend.h"

#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/trace.h"
#include "cpu/dense_cells.h"
#include "cpu/dense_product.h"
#include "cpu/dense_rows.h"
#include "cpu/descend.h"
#include "cpu/fmat.h"
#include "cpu/needs.h"
#include "cpu/pass.h"
#include "cpu/plain.h"
#include "cpu/rounds.h"
#include "cpu/rowsolve.h"
#include "cpu/share.h"

/* With as many the tensor's part of a pass is a small one. */
#define MOST_MODELS  32u
#define MOST_COLUMNS 1024u /* of models that are computed together; one may have more */

/* Of a row: columns that kernels sum together. */
#define RUN_BYTES 256u

/* What the models of a backend share: their factors lie side by side in the rows of these matrices. */
struct shared {
    const struct ts_tensor *tensor;
    uint32_t threads;
    struct ts_pass *pass;             /* over shards; NULL: the tensor is dense */
    struct ts_dense_product *dense;   /* of its slabs; NULL: it has shards */
    struct ts_dense_rows *dense_rows; /* NULL: no rows of unknown cells were solved for yet */
    struct ts_hold_out hold_out;      /* from products of slabs */
    struct ts_fmat factor[TS_MAX_ORDER];
    struct ts_fmat rest;      /* of products of the last mode; no data: not kept */
    struct ts_fmat apart;     /* for products of any mode of `own`; no data: there are none */
    struct ts_rounds *rounds; /* NULL: no rows were multiplied yet */
    struct ts_steps *steps;   /* NULL: no rows have descended yet */
    uint32_t own, n_models;
    struct cpu *model;
    struct ts_share *share;       /* of several ranks; NULL: this process alone */
    struct ts_comm *comm;         /* that has the memory of factors that are shared */
    uint32_t updates;             /* other than of least squares */
    int put;                      /* rows of these were put, and others may be putting them still */
    uint64_t *dealt;              /* memory of what they deal */
    struct ts_device_times *told; /* of each rank */
    struct ts_needs *needs;       /* to whom rows go; NULL: to all */
    /* modes of which not all ranks have all rows: the first one, this one */
    uint32_t first_lacks, lacks;
    struct ts_trace *trace; /* or NULL */
};

/* A model: what the engine holds. */
struct cpu {
    struct shared *shared;
    uint32_t rank, col;
    int keeps_rest;
    struct ts_rowsolve *rows; /* one for all models of a rank; the first of them frees it */
    int frees_rows;
    struct ts_fmat factor[TS_MAX_ORDER]; /* views */
    struct ts_fmat product; /* of the mode that was passed over last: its factor, or in `apart` */
    struct ts_rowsolve_ranks ranks[TS_MAX_ORDER]; /* of each mode */
    uint32_t scattered; /* the mode, from 1, whose product lies on several ranks; 0: none */
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

static uint32_t n_models(const struct ts_backend_conf *conf)
{
    return conf->n_models > 0 ? conf->n_models : 1;
}

static uint32_t rank_of(const struct ts_backend_conf *conf, uint32_t k)
{
    return conf->n_models > 0 ? conf->ranks[k] : conf->rank;
}

/* Columns that a model takes beside others: whole lines of a cache. */
static uint32_t columns_of(uint32_t rank, enum ts_precision precision)
{
    const uint32_t line = precision == TS_FLOAT32 ? 16 : 8;
    return (rank + line - 1) / line * line;
}

/* As of one model that has the columns of all. */
static struct ts_backend_conf conf_of_all(const struct ts_backend_conf *conf)
{
    struct ts_backend_conf all = *conf;
    all.n_models = 0;
    all.ranks = NULL;
    if (n_models(conf) == 1) {
        all.rank = rank_of(conf, 0);
        return all;
    }
    all.rank = 0;
    for (uint32_t k = 0; k < conf->n_models; k++)
        all.rank += columns_of(conf->ranks[k], conf->precision);
    return all;
}

/* Whether it has the rank of one before it. */
static int has_rank_of(const struct ts_backend_conf *conf, uint32_t k, uint32_t *ret)
{
    for (*ret = 0; *ret < k; ++*ret)
        if (rank_of(conf, *ret) == rank_of(conf, k))
            return 1;
    return 0;
}

static void cpu_close(void *be)
{
    struct cpu *c = be;
    struct shared *s;
    if (c == NULL)
        return;
    s = c->shared;
    ts_pass_free(s->pass);
    ts_needs_free(s->needs);
    ts_dense_product_free(s->dense);
    ts_dense_rows_free(s->dense_rows);
    ts_rounds_free(s->rounds);
    ts_steps_free(s->steps);
    for (uint32_t k = 0; k < s->n_models; k++)
        if (s->model[k].frees_rows)
            ts_rowsolve_free(s->model[k].rows);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        if (s->factor[m].shared)
            s->comm->ops->unshare(s->comm, s->factor[m].data, s->factor[m].bytes);
        ts_fmat_free(&s->factor[m]);
    }
    ts_fmat_free(&s->rest);
    ts_fmat_free(&s->apart);
    free(s->dealt);
    free(s->told);
    free(s->model);
    free(s);
}

static int open_model(const struct ts_backend_conf *conf, struct shared *s, uint32_t k,
                      uint32_t col, struct ts_err *err)
{
    struct cpu *c = &s->model[k];
    uint32_t same;
    int rc = 0;
    c->shared = s;
    c->rank = rank_of(conf, k);
    c->col = col;
    c->summed = conf->precision;
    c->keeps_rest = conf->precision == TS_FLOAT32 && ts_rest_fits(conf->tensor, c->rank);
    if (has_rank_of(conf, k, &same))
        c->rows = s->model[same].rows;
    else
        rc = ts_rowsolve_new(max_rows(conf->tensor), c->rank, ts_isa_best(), s->threads, &c->rows,
                             err);
    c->frees_rows = rc == 0 && same == k;
    for (uint32_t m = 0; m < conf->tensor->order; m++)
        c->factor[m] = ts_fmat_view(&s->factor[m], col, c->rank);
    return rc;
}

static struct ts_dense_product_conf dense_conf(const struct ts_backend_conf *conf)
{
    return (struct ts_dense_product_conf){ .tensor = conf->tensor,
                                           .rank = rank_of(conf, 0),
                                           .threads = thread_count(conf),
                                           .precision = conf->precision,
                                           .isa = ts_isa_best(),
                                           .spare_bytes = conf->spare_bytes,
                                           .done = conf->done,
                                           .done_ctx = conf->done_ctx };
}

static int open_all(const struct ts_backend_conf *conf, struct shared *s, struct ts_err *err)
{
    const struct ts_tensor *t = conf->tensor;
    const struct ts_backend_conf all = conf_of_all(conf);
    uint32_t col = 0;
    int rc = 0;
    for (uint32_t m = 0; rc == 0 && m < t->order; m++) {
        char what[40];
        snprintf(what, sizeof what, "factor matrix of mode %u", m + 1);
        rc = ts_fmat_new(t->mode[m].disk.n_rows, all.rank, conf->precision, what, &s->factor[m],
                         err);
    }
    if (rc == 0 && ts_backend_keeps_rest(conf))
        rc = ts_fmat_new(t->mode[t->order - 1].disk.n_rows, all.rank, TS_FLOAT32,
                         "what float32 loses of a product", &s->rest, err);
    if (rc == 0 && t->dense != NULL) {
        const struct ts_dense_product_conf dense = dense_conf(conf);
        rc = ts_dense_product_new(&dense, &s->dense, err);
    } else if (rc == 0) {
        rc = ts_pass_new(&all, ts_isa_best(), s->threads, &s->pass, err);
    }
    for (uint32_t k = 0; rc == 0 && k < s->n_models; k++) {
        rc = open_model(conf, s, k, col, err);
        col += columns_of(rank_of(conf, k), conf->precision);
    }
    return rc;
}

static int descends(const struct ts_backend_conf *conf)
{
    return (conf->updates >> TS_ROW_DESCEND & 1) != 0;
}

/* Rows are told of a loss. */
static int multiplies(const struct ts_backend_conf *conf)
{
    return (conf->updates >> TS_ROW_MULTIPLY & 1) != 0 || descends(conf);
}

static int open_ranks(struct shared *s, const struct ts_comm *comm, struct ts_err *err)
{
    const uint64_t n = comm == NULL ? 0 : comm->n + UINT64_C(1);
    uint64_t *at;
    if (!ts_comm_many(comm))
        return 0;
    at = s->dealt = calloc(s->n_models * s->tensor->order * 2 * n, sizeof *s->dealt);
    s->told = calloc(n, sizeof *s->told);
    if (s->dealt == NULL || s->told == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", s->tensor->path);
    s->share = ts_pass_share(s->pass);
    for (uint32_t k = 0; k < s->n_models; k++)
        for (uint32_t m = 0; m < s->tensor->order; m++, at += 2 * n)
            s->model[k].ranks[m] = (struct ts_rowsolve_ranks){
                .share = s->share, .group = at, .row = at + n, .mode = m
            };
    return s->n_models > 1 ? ts_share_stage(s->share, err) : 0;
}

/* What there is for shards alone. */
static int check_dense(const struct ts_backend_conf *conf, struct ts_err *err)
{
    const char *path = conf->tensor->path;
    if (conf->tensor->dense == NULL)
        return 0;
    if (multiplies(conf))
        return ts_fail(err, TS_EARG,
                       "%s: a dense tensor is decomposed by least squares: other losses go with "
                       "tensors of nonzeros",
                       path);
    if (ts_comm_many(conf->comm))
        return ts_fail(err, TS_EARG, "%s: a dense tensor is decomposed by one process: start one",
                       path);
    return 0;
}

static int refuse_dense(const struct shared *s, struct ts_err *err)
{
    return ts_fail(err, TS_EARG, "%s: that works nonzero by nonzero, and the tensor is dense",
                   s->tensor->path);
}

static int cpu_open(const struct ts_backend_conf *conf, void **ret, struct ts_err *err)
{
    const struct ts_tensor *t = conf->tensor;
    const uint32_t columns = conf_of_all(conf).rank;
    struct shared *s;
    int rc = check_dense(conf, err);
    if (rc < 0)
        return rc;
    if (columns == 0 || columns > TS_FMAT_MAX_RANK)
        return ts_fail(err, TS_EARG, "rank %u is not between 1 and %u", columns, TS_FMAT_MAX_RANK);
    s = calloc(1, sizeof *s);
    if (s == NULL || (s->model = calloc(n_models(conf), sizeof *s->model)) == NULL) {
        free(s);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    }
    s->tensor = t;
    s->trace = conf->trace;
    s->updates = conf->updates;
    s->threads = thread_count(conf);
    s->n_models = n_models(conf);
    s->model[0].shared = s;
    rc = open_all(conf, s, err);
    if (rc == 0 && multiplies(conf))
        rc = ts_rounds_new(t, columns, conf->precision, ts_isa_best(), s->threads,
                           ts_pass_plain(s->pass), &s->rounds, err);
    if (rc == 0 && descends(conf))
        rc = ts_steps_new(t, columns, s->threads, &s->steps, err);
    if (rc == 0)
        rc = open_ranks(s, conf->comm, err);
    if (rc < 0) {
        cpu_close(&s->model[0]);
        return rc;
    }
    *ret = &s->model[0];
    return 0;
}

/* Updates with which no rank writes rows but those that it updates, nor reads others of the mode's factor. */
#define SHARED_UPDATES                                                             \
    (1u << TS_ROW_LEAST_SQUARES | 1u << TS_ROW_COORDINATE | 1u << TS_ROW_SIMPLEX | \
     1u << TS_ROW_KEEP | 1u << TS_ROW_HELD)

/* Those whose rows may go to the ranks that need them alone: others go to all, each in a way of its own. */
#define SOME_UPDATES (~(1u << TS_ROW_MULTIPLY | 1u << TS_ROW_DESCEND))

static int has_neighbours(const struct ts_comm *comm)
{
    for (uint32_t r = 1; r < comm->n && comm->machine != NULL; r++)
        for (uint32_t other = 0; other < r; other++)
            if (comm->machine[r] == comm->machine[other])
                return 1;
    return 0;
}

static uint64_t cpu_shares(const void *be)
{
    const struct shared *s = ((const struct cpu *)be)->shared;
    uint64_t bytes = 0;
    if (s->n_models > 1 || (s->updates & ~SHARED_UPDATES) != 0)
        return 0;
    for (uint32_t m = 0; m < s->tensor->order; m++)
        bytes += s->factor[m].bytes;
    return bytes;
}

/* Factors of all modes, or where memory for one cannot be had, of none. */
static int share_memory(struct cpu *c, struct ts_comm *comm, struct ts_err *err)
{
    struct shared *s = c->shared;
    const uint32_t order = s->tensor->order;
    void *memory[TS_MAX_ORDER] = { NULL };
    uint32_t n = 0;
    int rc = 0;
    if (comm->ops->share == NULL || !has_neighbours(comm) || cpu_shares(c) == 0)
        return 0;
    for (; n < order; n++) {
        rc = comm->ops->share(comm, s->factor[n].bytes, &memory[n], err);
        if (rc < 0 || memory[n] == NULL)
            break;
    }
    for (uint32_t m = 0; m < n && n < order; m++)
        comm->ops->unshare(comm, memory[m], s->factor[m].bytes);
    for (uint32_t m = 0; m < order && n == order; m++) {
        struct ts_fmat *f = &s->factor[m];
        s->comm = comm;
        ts_fmat_free(f);
        *f = ts_fmat_at(memory[m], c->factor[m].n_rows, c->factor[m].rank, c->factor[m].precision);
        c->factor[m] = ts_fmat_view(f, c->col, c->rank);
    }
    return rc;
}

/* Whether any rows leave their machine, where ranks share memory, or their rank. */
static int rows_travel(const struct ts_comm *comm, int shared)
{
    for (uint32_t r = 1; r < comm->n && shared; r++)
        if (comm->machine[r] != comm->machine[0])
            return 1;
    return !shared;
}

static int cpu_spread(void *be, const struct ts_spread *how, struct ts_err *err)
{
    struct cpu *c = be;
    struct shared *s = c->shared;
    struct ts_comm *comm = s->share == NULL ? NULL : ts_share_comm(s->share);
    struct ts_needs_conf conf = { .tensor = s->tensor,
                                  .share = s->share,
                                  .threads = s->threads,
                                  .skipped = how->skipped,
                                  .always = how->rows_to == TS_ROWS_TO_NEEDING,
                                  .unpack = ts_kernel_unpack(ts_isa_best()) };
    int rc = comm == NULL || s->n_models > 1 || how->own ? 0 : share_memory(c, comm, err);
    if (rc < 0 || comm == NULL || s->n_models > 1 || (s->updates & ~SOME_UPDATES) != 0 ||
        how->rows_to == TS_ROWS_TO_ALL || !rows_travel(comm, s->factor[0].shared))
        return rc;
    conf.shared = s->factor[0].shared;
    conf.row_bytes = (uint32_t)(c->rank * ts_precision_bytes(s->factor[0].precision));
    conf.stride_bytes =
        (uint32_t)(s->factor[0].stride * ts_precision_bytes(s->factor[0].precision));
    rc = ts_share_agree(s->share, ts_needs_new(&conf, &s->needs, err), err);
    if (rc == 0)
        ts_pass_walk(s->pass, s->needs);
    return rc;
}

static int cpu_agree(void *be, int rc, struct ts_err *err)
{
    struct ts_share *share = ((struct cpu *)be)->shared->share;
    return share == NULL ? rc : ts_share_agree(share, rc, err);
}

static int cpu_tell_ranks(void *be, uint32_t mode, struct ts_backend_times *times, int rc,
                          struct ts_err *err)
{
    struct shared *s = ((struct cpu *)be)->shared;
    const struct ts_comm *comm;
    if (s->share == NULL)
        return rc;
    rc = ts_share_agree(s->share, rc, err);
    if (rc < 0)
        return rc;
    comm = ts_share_comm(s->share);
    s->told[comm->rank] = times->device[0];
    s->told[comm->rank].rank = comm->rank;
    s->told[comm->rank].nnz = ts_share_nnz(s->share, mode);
    s->told[comm->rank].share =
        (double)s->told[comm->rank].nnz / (double)(s->tensor->nnz > 0 ? s->tensor->nnz : 1);
    rc = ts_share_gather(s->share, s->told, sizeof *s->told, ts_share_groups(s->share, comm->n),
                         err);
    times->n_ranks = comm->n;
    times->cores = s->told;
    return rc;
}

static int cpu_given_up(void *be)
{
    struct ts_share *share = ((struct cpu *)be)->shared->share;
    return share != NULL && ts_share_poll(share);
}

static int cpu_collect(void *be, uint32_t modes, int rc, struct ts_err *err)
{
    struct cpu *c = be;
    struct shared *s = c->shared;
    int moved = 0;
    modes &= s->first_lacks;
    if (modes == 0)
        return rc;
    rc = ts_share_agree(s->share, rc, err);
    if (rc <= 0 && rc != TS_ESTOP)
        return rc;
    for (uint32_t m = 0; m < s->tensor->order && moved == 0; m++)
        if ((modes >> m & 1) != 0)
            moved = ts_share_rows_to_first(s->share, &c->factor[m], c->ranks[m].row, err);
    s->first_lacks &= ~modes;
    if (ts_share_comm(s->share)->rank == 0)
        s->lacks &= ~modes;
    if (moved == 0 && rc > 0 && s->factor[0].shared)
        moved = ts_share_settle(s->share, err);
    return moved < 0 ? moved : rc;
}

static const char *cpu_link(const void *be)
{
    const struct cpu *c = be;
    return c->factor[0].shared ? "through memory that those of a machine share" : NULL;
}

/* Adds a matrix of all models: what of it is factors, and what is padding. */
static void add_matrix(const struct ts_backend_conf *conf, uint64_t n_rows, uint64_t *factor_bytes,
                       uint64_t *padded)
{
    for (uint32_t k = 0; k < n_models(conf); k++)
        *factor_bytes += n_rows * rank_of(conf, k) * (conf->precision == TS_FLOAT32 ? 4 : 8);
    *padded += ts_fmat_bytes(n_rows, conf_of_all(conf).rank, conf->precision);
}

/* As far as it is known before a run says how it spreads its factors. */
static int may_send_some(const struct ts_backend_conf *conf)
{
    return n_models(conf) == 1 && !conf->products && conf->only_mode < 0 &&
           (conf->updates & ~SOME_UPDATES) == 0;
}

static void cpu_need(const struct ts_backend_conf *conf, uint64_t *factor_bytes,
                     uint64_t *other_bytes)
{
    const struct ts_backend_conf all = conf_of_all(conf);
    const uint32_t threads = thread_count(conf), last = conf->tensor->order - 1;
    uint64_t padded = 0;
    *factor_bytes = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++)
        add_matrix(conf, conf->tensor->mode[m].disk.n_rows, factor_bytes, &padded);
    if (conf->own_rows != 0)
        add_matrix(conf, apart_rows(conf->tensor, conf->own_rows), factor_bytes, &padded);
    *other_bytes =
        sizeof(struct shared) + n_models(conf) * sizeof(struct cpu) + padded - *factor_bytes;
    if (conf->tensor->dense != NULL) {
        const struct ts_dense_product_conf dense = dense_conf(conf);
        *other_bytes += ts_dense_product_bytes(&dense);
        if ((conf->updates >> TS_ROW_OBSERVED & 1) != 0)
            *other_bytes += ts_dense_rows_bytes(conf->tensor, all.rank, conf->precision, threads) +
                            ts_dense_cells_bytes(conf->tensor, all.rank, threads) +
                            2 * (uint64_t)all.rank * all.rank * sizeof(double);
    } else {
        *other_bytes += ts_pass_bytes(&all, threads);
    }
    for (uint32_t k = 0, same; k < n_models(conf); k++) {
        if (has_rank_of(conf, k, &same))
            continue;
        *other_bytes += ts_rowsolve_bytes(max_rows(conf->tensor), rank_of(conf, k), threads);
        if (conf->own_rows != 0)
            *other_bytes += ts_rowsolve_own_bytes(rank_of(conf, k), threads);
    }
    if (multiplies(conf))
        *other_bytes += ts_rounds_bytes(conf->tensor, all.rank, conf->precision, threads);
    if (descends(conf))
        *other_bytes += ts_steps_bytes(conf->tensor, all.rank, threads);
    if (ts_comm_many(conf->comm))
        *other_bytes += ts_share_bytes(conf->tensor, conf->comm->n) +
                        n_models(conf) * conf->tensor->order * 2 * (conf->comm->n + UINT64_C(1)) *
                            sizeof(uint64_t) +
                        (n_models(conf) > 1 ? ts_share_stage_bytes(conf->comm->n) : 0);
    if (ts_comm_many(conf->comm) && may_send_some(conf))
        *other_bytes += ts_needs_bytes(conf->tensor, conf->comm,
                                       (uint32_t)(all.rank * ts_precision_bytes(conf->precision)));
    if (ts_backend_keeps_rest(conf))
        *other_bytes += ts_bigmem_cost(
            ts_fmat_bytes(conf->tensor->mode[last].disk.n_rows, all.rank, TS_FLOAT32));
}

static uint32_t cpu_most(const struct ts_backend_conf *conf)
{
    uint32_t n = 0, columns = 0;
    if (multiplies(conf) || (conf->updates >> TS_ROW_OBSERVED & 1) != 0)
        return 1; /* rows have products of their own */
    if (conf->tensor->dense != NULL)
        return 1;
    while (n < conf->n_models && n < MOST_MODELS) {
        columns += columns_of(conf->ranks[n], conf->precision);
        if (columns > MOST_COLUMNS)
            break;
        n++;
    }
    return n > 0 ? n : 1;
}

/* Of the largest factor of the first n models. */
static uint64_t largest_bytes(const struct ts_backend_conf *conf, uint32_t n)
{
    struct ts_backend_conf few = *conf;
    few.n_models = n;
    return ts_fmat_bytes(max_rows(conf->tensor), conf_of_all(&few).rank, conf->precision);
}

/* Of a row of them. */
static uint64_t row_bytes(const struct ts_backend_conf *conf, uint32_t n)
{
    struct ts_backend_conf few = *conf;
    few.n_models = n;
    return ts_fmat_bytes(1, conf_of_all(&few).rank, conf->precision);
}

uint32_t ts_cpu_together(const struct ts_backend_conf *conf, uint64_t own_bytes,
                         uint64_t shared_bytes)
{
    const uint32_t most = cpu_most(conf);
    const uint64_t near = shared_bytes / 4;
    uint32_t n = most;
    for (; n > 2; n--)
        if (largest_bytes(conf, n) <= own_bytes ||
            (row_bytes(conf, n) <= RUN_BYTES &&
             (largest_bytes(conf, n) <= near || largest_bytes(conf, 2) > near)))
            break;
    return n;
}

static uint32_t cpu_together(const struct ts_backend_conf *conf)
{
    return ts_cpu_together(conf, ts_machine_cache_bytes(), ts_machine_shared_cache_bytes());
}

static void *cpu_model(void *be, uint32_t k)
{
    struct cpu *c = be;
    return &c->shared->model[k];
}

static uint64_t cpu_wish(const struct ts_backend_conf *conf)
{
    uint64_t sum = 0;
    if (conf->tensor->dense != NULL) {
        const struct ts_dense_product_conf dense = dense_conf(conf);
        return ts_dense_product_wish(&dense);
    }
    for (uint32_t m = 0; m < conf->tensor->order; m++) {
        const struct ts_mode *mode = &conf->tensor->mode[m];
        uint64_t begin = 0, end = UINT64_MAX;
        if (ts_comm_many(conf->comm))
            ts_share_range_of(mode->shard, mode->disk.n_shards, conf->comm->n, conf->comm->rank,
                              &begin, &end);
        if (conf->only_mode < 0 || m == (uint32_t)conf->only_mode)
            sum += ts_plain_bytes_of(conf->tensor, m, begin, end);
    }
    return sum;
}

/* Shards of which other ranks compute all partitions are not wanted here. */
static void cpu_deal(void *be, struct ts_feed_deal *ret)
{
    const struct shared *s = ((const struct cpu *)be)->shared;
    for (uint32_t m = 0; s->share != NULL && m < s->tensor->order; m++)
        ret->keep[m] = ts_share_deal(s->share, m);
}

/* The factor is to be another one. */
static void note_change(struct cpu *c, uint32_t mode)
{
    if (c->shared->dense != NULL)
        ts_dense_product_changed(c->shared->dense, mode);
}

/* Before a factor that is shared changes, or after all ranks were to read it: all are done with what they did. */
static int settle(struct shared *s, const struct ts_fmat *f, struct ts_err *err)
{
    s->put = 0;
    return f->shared ? ts_share_settle(s->share, err) : 0;
}

static int settle_put(struct shared *s, struct ts_err *err)
{
    return s->put ? settle(s, &s->factor[0], err) : 0;
}

static int cpu_put_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                        struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    assert((c->shared->lacks >> mode & 1) == 0);
    note_change(c, mode);
    c->factor[mode].rest = NULL;
    c->shared->put |= c->factor[mode].shared;
    ts_fmat_put(&c->factor[mode], row, n, rows, c->shared->threads);
    return 0;
}

static int cpu_get_rows(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                        struct ts_err *err)
{
    struct cpu *c = be;
    (void)err;
    assert((c->shared->lacks >> mode & 1) == 0);
    ts_fmat_get(&c->factor[mode], row, n, rows, c->shared->threads);
    return 0;
}

/* Where the product goes, and how it is summed. */
static struct ts_pass_model prepare_product(struct cpu *c, uint32_t mode)
{
    const struct shared *s = c->shared;
    const int last = mode + 1 == s->tensor->order;
    const enum ts_precision summed = last ? c->summed : c->factor[mode].precision;
    float *rest = summed != c->factor[mode].precision && c->keeps_rest
                      ? (float *)s->rest.data + c->col
                      : NULL;
    c->product = c->factor[mode];
    if ((s->own >> mode & 1) != 0)
        c->product = ts_fmat_view(&s->apart, c->col, c->rank);
    else
        c->factor[mode].rest = rest;
    c->product.n_rows = c->factor[mode].n_rows;
    c->product.rest = rest;
    return (struct ts_pass_model){ .col = c->col, .out = &c->product, .summed = summed };
}

/* Rows of a mode, which are where its pass left them, to the ranks that have their groups, until all get all, or what they need
 * of an update: in solve or gram. */
static int deal_rows(struct cpu *c, uint32_t mode, struct ts_fmat *rows, int some,
                     struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_rowsolve_ranks *ranks = &c->ranks[mode];
    uint64_t moved_ns;
    int rc;
    c->scattered = mode + 1;
    ranks->here = 0;
    ranks->needs = some ? c->shared->needs : NULL;
    ts_rowsolve_deal(c->rows, rows->n_rows, ranks);
    rc = ts_share_move_rows(c->shared->share, rows, ranks->row, err);
    if (rc == 0)
        rc = settle(c->shared, rows, err);
    moved_ns = ts_clock_ns() - start;
    if (rc == 0 && times != NULL) {
        times->total_ns += moved_ns;
        times->device[0].exchange_ns += moved_ns;
        times->device[0].exposed_ns += moved_ns;
    }
    return rc;
}

/* The product of a dense tensor, and what the update of its rows needs. */
static int multiply_dense(const struct ts_update *of, uint32_t mode, struct ts_feed *feed,
                          struct ts_backend_times *times, struct ts_err *err)
{
    struct cpu *c = of->be;
    struct shared *s = c->shared;
    const struct ts_pass_model model = prepare_product(c, mode);
    int rc;
    note_change(c, mode);
    ts_dense_product_learn(s->dense, &s->hold_out, 0);
    rc = ts_dense_product_run(s->dense, mode, s->factor, &c->product, model.summed, feed, times,
                              err);
    return rc == 0 && of->how != NULL && of->how->ready != NULL ? of->how->ready(of->how->ctx, err)
                                                                : rc;
}

/* Products, and what updates of their rows need. some: rows of the updates need not go to all ranks. */
static int multiply_all(const struct ts_update *of, uint32_t n, uint32_t mode, int some,
                        struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_pass_model model[TS_PASS_MAX_MODELS];
    struct shared *s = ((struct cpu *)of[0].be)->shared;
    int rc;
    assert(n > 0 && n <= TS_PASS_MAX_MODELS);
    if (s->dense != NULL)
        return multiply_dense(of, mode, feed, times, err);
    for (uint32_t k = 0; k < n; k++) {
        model[k] = prepare_product(of[k].be, mode);
        model[k].how = of[k].how;
    }
    rc = settle_put(s, err);
    if (rc == 0)
        rc = ts_pass_run(s->pass, mode, s->factor, n, model, feed, times, err);
    for (uint32_t k = 0; k < n && rc == 0 && s->share != NULL; k++) {
        struct cpu *c = of[k].be;
        rc = deal_rows(c, mode, &c->product, some, times, err);
    }
    return rc;
}

static uint64_t cpu_row_bytes(uint32_t rank, enum ts_precision precision)
{
    return ts_fmat_bytes(1, rank, precision);
}

static struct ts_exchanged cpu_exchanged(void *be)
{
    struct shared *s = ((struct cpu *)be)->shared;
    return s->share == NULL ? (struct ts_exchanged){ 0 } : ts_share_noted(s->share);
}

/* Rows that went in a call that has passes and updates in one. Returns the time that was noted. */
static uint64_t tell_rows(void *be, struct ts_backend_times *times)
{
    const struct ts_exchanged e = cpu_exchanged(be);
    times->row_bytes = e.row_bytes;
    times->rows_to = e.row_bytes > 0 ? e.rows_to : TS_ROWS_STAY;
    return e.ns;
}

static int cpu_mttkrp(void *be, uint32_t mode, struct ts_feed *feed, struct ts_backend_times *times,
                      struct ts_err *err)
{
    return multiply_all(&(struct ts_update){ .be = be }, 1, mode, 0, feed, times, err);
}

static int cpu_weighted_of(void *const *be, const struct ts_weighted *const *what, uint32_t n,
                           uint32_t mode, struct ts_feed *feed, struct ts_backend_times *times,
                           struct ts_err *err)
{
    struct ts_pass_cells model[TS_PASS_MAX_MODELS];
    struct shared *s = ((struct cpu *)be[0])->shared;
    assert(n > 0 && n <= TS_PASS_MAX_MODELS);
    if (s->dense != NULL)
        return ts_dense_cells_run(s->tensor, s->factor[0].rank, s->threads, s->factor, what[0],
                                  feed, times, err);
    for (uint32_t k = 0; k < n; k++)
        model[k] = (struct ts_pass_cells){ ((struct cpu *)be[k])->factor, what[k] };
    return ts_pass_cells(s->pass, mode, n, model, feed, times, err);
}

static int cpu_weighted(void *be, uint32_t mode, struct ts_feed *feed,
                        const struct ts_weighted *what, struct ts_backend_times *times,
                        struct ts_err *err)
{
    return cpu_weighted_of(&be, &what, 1, mode, feed, times, err);
}

/* The elementwise product of the Gram matrices of the other modes' factors; one: room for a matrix. */
static int gram_product(struct cpu *c, uint32_t mode, double *ret, double *one, struct ts_err *err)
{
    const size_t n = (size_t)c->rank * c->rank;
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        ret[i] = 1;
    for (uint32_t m = 0; m < c->shared->tensor->order && rc == 0; m++) {
        if (m == mode)
            continue;
        rc = ts_rowsolve_run(c->rows, &c->factor[m], NULL, NULL,
                             &(struct ts_row_sums){ .gram = one }, NULL, err);
        for (size_t i = 0; i < n && rc == 0; i++)
            ret[i] *= one[i];
    }
    return rc;
}

/* Of a dense tensor, whose product is where unknown cells and those that are held out count 0. */
static int complete_dense(struct cpu *c, uint32_t mode, struct ts_feed *feed,
                          const struct ts_row_update *how, const struct ts_row_sums *sums,
                          struct ts_backend_times *times, struct ts_err *err)
{
    struct shared *s = c->shared;
    const uint64_t start = ts_clock_ns();
    double *gram = malloc(2 * sizeof *gram * c->rank * c->rank);
    uint64_t then;
    int rc = gram == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", s->tensor->path) : 0;
    if (rc == 0 && s->dense_rows == NULL)
        rc = ts_dense_rows_new(s->tensor, c->rank, s->factor[0].precision, ts_isa_best(),
                               s->threads, &s->dense_rows, err);
    if (rc == 0)
        rc = gram_product(c, mode, gram, gram + (size_t)c->rank * c->rank, err);
    note_change(c, mode);
    ts_dense_product_learn(s->dense, &how->hold_out, how->mean);
    if (rc == 0)
        rc = ts_dense_product_run(s->dense, mode, s->factor, &c->factor[mode], TS_FLOAT64, feed,
                                  times, err);
    then = ts_clock_ns();
    if (rc == 0)
        rc = ts_dense_rows_run(s->dense_rows, mode, s->factor, ts_dense_product_sums(s->dense),
                               gram, how, sums->size, feed, err);
    free(gram);
    if (rc == 0 && times != NULL) {
        times->total_ns = ts_clock_ns() - start;
        times->device[0].solve_ns = ts_clock_ns() - then;
    }
    return rc;
}

static int cpu_complete(void *be, uint32_t mode, struct ts_feed *feed,
                        const struct ts_row_update *how, const struct ts_row_sums *sums,
                        struct ts_backend_times *times, struct ts_err *err)
{
    struct cpu *c = be;
    struct shared *s = c->shared;
    int rc;
    if (s->n_models > 1)
        return ts_fail(err, TS_EARG, "models of observed cells are computed one at a time");
    c->factor[mode].rest = NULL;
    if (s->dense != NULL)
        return complete_dense(c, mode, feed, how, sums, times, err);
    rc = ts_pass_complete(s->pass, mode, s->factor, how, sums->size, feed, times, err);
    return rc == 0 && s->share != NULL ? deal_rows(c, mode, &c->factor[mode], 1, times, err) : rc;
}

static int cpu_own_rows(void *be, uint32_t modes, struct ts_err *err)
{
    struct cpu *c = be;
    struct shared *s = c->shared;
    const uint64_t n = apart_rows(s->tensor, modes);
    int rc = 0;
    s->own = 0;
    if (n > s->apart.n_rows) {
        ts_fmat_free(&s->apart);
        rc = ts_fmat_new(n, s->factor[0].rank, s->factor[0].precision, "products beside factors",
                         &s->apart, err);
    }
    if (rc == 0 && modes != 0)
        rc = ts_rowsolve_own(c->rows, err);
    if (rc == 0)
        s->own = modes;
    return rc;
}

static void cpu_hold_out(void *be, const struct ts_hold_out *h)
{
    struct cpu *c = be;
    c->shared->hold_out = *h;
    if (c->shared->pass != NULL)
        ts_pass_hold_out(c->shared->pass, h);
}

static void cpu_sum_in(void *be, enum ts_precision summed)
{
    struct cpu *c = be;
    c->summed = summed;
}

/* Rows of the mode have gone to all ranks, or to some. */
static void note_lacks(struct shared *s, uint32_t mode, const struct ts_rowsolve_ranks *ranks)
{
    const uint32_t bit = UINT32_C(1) << mode;
    if (ranks == NULL || ranks->here)
        return;
    s->lacks = ranks->some ? s->lacks | bit : s->lacks & ~bit;
    s->first_lacks = ranks->some ? s->first_lacks | bit : s->first_lacks & ~bit;
}

static int cpu_solve(void *be, uint32_t mode, const struct ts_row_update *how,
                     const struct ts_row_sums *sums, struct ts_err *err)
{
    struct cpu *c = be;
    struct ts_rowsolve_ranks *ranks = c->shared->share == NULL ? NULL : &c->ranks[mode];
    const int rc =
        ts_rowsolve_run(c->rows, &c->factor[mode], ts_row_reads_old(how->kind) ? &c->product : NULL,
                        how, sums, ranks, err);
    note_lacks(c->shared, mode, ranks);
    note_change(c, mode);
    c->factor[mode].rest = NULL;
    c->scattered = 0;
    return rc;
}

static int cpu_update_of(const struct ts_update *of, uint32_t n, uint32_t mode,
                         struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    struct ts_trace *trace = ((const struct cpu *)of[0].be)->shared->trace;
    const uint64_t start = ts_clock_ns();
    struct ts_device_times *d = &times->device[0];
    int rc = multiply_all(of, n, mode, 1, feed, times, err);
    const uint64_t then = ts_clock_ns();
    uint64_t exchanged_ns, now;
    (void)cpu_exchanged(of[0].be); /* what came before is not of these rows */
    for (uint32_t k = 0; k < n && rc == 0; k++)
        if (of[k].how != NULL)
            rc = cpu_solve(of[k].be, mode, of[k].how, of[k].sums, err);
    if (rc < 0)
        return rc;
    now = ts_clock_ns();
    exchanged_ns = tell_rows(of[0].be, times);
    d->solve_ns = now - then - exchanged_ns;
    d->exchange_ns += exchanged_ns;
    d->exposed_ns += exchanged_ns;
    times->total_ns = now - start;
    ts_trace_add(trace, TS_TRACE_MODES, "product", start, then, mode, TS_TRACE_NO_SHARD, 0);
    ts_trace_add(trace, TS_TRACE_MODES, "rows", then, now, mode, TS_TRACE_NO_SHARD, 0);
    return 0;
}

static int cpu_update(void *be, uint32_t mode, struct ts_feed *feed,
                      const struct ts_row_update *how, const struct ts_row_sums *sums,
                      struct ts_backend_times *times, struct ts_err *err)
{
    return cpu_update_of(&(struct ts_update){ be, how, sums }, 1, mode, feed, times, err);
}

static int cpu_multiply(void *be, uint32_t mode, struct ts_feed *feed,
                        const struct ts_multiply *how, struct ts_multiply_sums *ret,
                        struct ts_backend_times *times, struct ts_err *err)
{
    struct cpu *c = be;
    struct shared *s = c->shared;
    int rc = 0;
    if (s->dense != NULL)
        return refuse_dense(s, err);
    if (s->n_models > 1)
        return ts_fail(err, TS_EARG, "rows are multiplied of one model at a time");
    assert(s->share == NULL || ts_share_is_whole(s->share));
    if (s->rounds == NULL)
        rc = ts_rounds_new(s->tensor, c->rank, s->factor[0].precision, ts_isa_best(), s->threads,
                           ts_pass_plain(s->pass), &s->rounds, err);
    if (rc < 0)
        return rc;
    c->product = ts_fmat_view(&s->apart, c->col, c->rank);
    c->product.n_rows = c->factor[mode].n_rows;
    c->factor[mode].rest = NULL;
    rc = ts_rounds_run(s->rounds, s->share, mode, s->factor, &c->product, feed, how, ret, times,
                       err);
    if (rc == 0 && s->share != NULL && feed != NULL) { /* gram, which comes next, is divided */
        ts_rowsolve_deal(c->rows, c->product.n_rows, &c->ranks[mode]);
        c->ranks[mode].here = 1;
        c->scattered = mode + 1;
    }
    if (times != NULL)
        (void)tell_rows(c, times);
    return rc;
}

static int cpu_descend(void *be, uint32_t mode, struct ts_feed *feed, const struct ts_descent *how,
                       double *zeros, struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct cpu *c = be;
    struct shared *s = c->shared;
    uint64_t wait_ns = 0, exchange_ns = 0, dealt_ns, then;
    int rc = 0;
    if (s->dense != NULL)
        return refuse_dense(s, err);
    if (s->n_models > 1)
        return ts_fail(err, TS_EARG, "rows descend of one model at a time");
    assert(s->share == NULL || ts_share_is_whole(s->share));
    if (s->rounds == NULL)
        rc = ts_rounds_new(s->tensor, c->rank, s->factor[0].precision, ts_isa_best(), s->threads,
                           ts_pass_plain(s->pass), &s->rounds, err);
    if (rc == 0 && s->steps == NULL)
        rc = ts_steps_new(s->tensor, c->rank, s->threads, &s->steps, err);
    if (rc == 0 && feed == NULL)
        return ts_steps_zeros(s->steps, s->share, mode, s->factor, how, zeros, err);
    c->product = ts_fmat_view(&s->apart, c->col, c->rank);
    c->product.n_rows = c->factor[mode].n_rows;
    c->factor[mode].rest = NULL;
    if (rc == 0)
        rc = ts_rounds_gradient(s->rounds, s->share, mode, s->factor, &c->product, feed, how,
                                &wait_ns, &exchange_ns, err);
    then = ts_clock_ns();
    if (rc == 0 && s->share != NULL)
        rc = deal_rows(c, mode, &c->product, 0, NULL, err);
    c->ranks[mode].here = how->gradient != NULL; /* the factors stay as they are */
    dealt_ns = ts_clock_ns() - then;
    if (rc == 0)
        rc = ts_steps_make(s->steps, s->share, c->ranks[mode].row, mode, s->factor, &c->product,
                           how, err);
    *times =
        (struct ts_backend_times){ .total_ns = ts_clock_ns() - start,
                                   .n_devices = 1,
                                   .device[0] = { .number = -1,
                                                  .nnz = s->tensor->nnz,
                                                  .wait_ns = wait_ns,
                                                  .kernel_ns = then - start - wait_ns - exchange_ns,
                                                  .solve_ns = ts_clock_ns() - then - dealt_ns,
                                                  .exchange_ns = exchange_ns + dealt_ns,
                                                  .exposed_ns = exchange_ns + dealt_ns,
                                                  .share = 1 } };
    return rc;
}

/* Rows that this rank has updated, and those that it got. */
static void scale_some(struct cpu *c, uint32_t mode, const double *s)
{
    const uint32_t me = ts_share_comm(c->shared->share)->rank;
    const uint64_t *row = c->ranks[mode].row;
    uint64_t n_words;
    const uint64_t *got = ts_needs_got(c->shared->needs, mode, &n_words);
    ts_rowsolve_scale_some(c->rows, &c->factor[mode], s, row[me], row[me + 1], got, n_words);
}

static int cpu_scale(void *be, uint32_t mode, const double *s, struct ts_err *err)
{
    struct cpu *c = be;
    struct ts_fmat *f = &c->factor[mode];
    const int rc = settle_put(c->shared, err);
    if (rc < 0)
        return rc;
    note_change(c, mode);
    if ((c->shared->lacks >> mode & 1) != 0)
        scale_some(c, mode, s);
    else if (f->shared)
        ts_rowsolve_scale(c->rows, f, s, c->shared->comm->place, c->shared->comm->beside);
    else
        ts_rowsolve_scale(c->rows, f, s, 0, 1);
    return settle(c->shared, f, err);
}

static int cpu_gram(void *be, uint32_t mode, double *gram, struct ts_err *err)
{
    struct cpu *c = be;
    struct ts_rowsolve_ranks *ranks = c->scattered == mode + 1 ? &c->ranks[mode] : NULL;
    int rc = settle_put(c->shared, err);
    assert(ranks != NULL || (c->shared->lacks >> mode & 1) == 0);
    if (rc == 0)
        rc = ts_rowsolve_run(c->rows, &c->factor[mode], NULL, NULL,
                             &(struct ts_row_sums){ .gram = gram }, ranks, err);
    note_lacks(c->shared, mode, ranks);
    return rc == 0 ? settle(c->shared, &c->factor[mode], err) : rc;
}

const struct ts_backend ts_backend_cpu = {
    .name = "cpu",
    .updates = 1u << TS_ROW_LEAST_SQUARES | 1u << TS_ROW_COORDINATE | 1u << TS_ROW_KEEP |
               1u << TS_ROW_SIMPLEX | 1u << TS_ROW_POLAR | 1u << TS_ROW_SMOOTH |
               1u << TS_ROW_SMOOTH_WITHIN | 1u << TS_ROW_OBSERVED | 1u << TS_ROW_MULTIPLY |
               1u << TS_ROW_DESCEND | 1u << TS_ROW_HELD | 1u << TS_ROW_SCORES | 1u << TS_ROW_SLICES,
    .means = 1,
    .weights = 1,
    .open = cpu_open,
    .close = cpu_close,
    .link = cpu_link,
    .row_bytes = cpu_row_bytes,
    .spread = cpu_spread,
    .shares = cpu_shares,
    .collect = cpu_collect,
    .agree = cpu_agree,
    .given_up = cpu_given_up,
    .tell_ranks = cpu_tell_ranks,
    .need = cpu_need,
    .wish = cpu_wish,
    .deal = cpu_deal,
    .put_rows = cpu_put_rows,
    .get_rows = cpu_get_rows,
    .own_rows = cpu_own_rows,
    .sum_in = cpu_sum_in,
    .hold_out = cpu_hold_out,
    .mttkrp = cpu_mttkrp,
    .model = cpu_model,
    .most = cpu_most,
    .together = cpu_together,
    .solve = cpu_solve,
    .update = cpu_update,
    .update_of = cpu_update_of,
    .exchanged = cpu_exchanged,
    .complete = cpu_complete,
    .weighted = cpu_weighted,
    .weighted_of = cpu_weighted_of,
    .multiply = cpu_multiply,
    .descend = cpu_descend,
    .scale = cpu_scale,
    .gram = cpu_gram,
};
