/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the CPU backend: for models that share matrices, and for models with separate
 * matrices. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/setting.h"
#include "cpu/cpu_backend.h"
#include "cpu/cpu_state.h"
#include "cpu/dense/dense_rows.h"
#include "cpu/losses/descend.h"
#include "cpu/losses/rounds.h"
#include "format/arrays/dense.h"

static void close_shared(struct ts_cpu_shared *s)
{
    if (s == NULL)
        return;
    for (uint32_t k = 1; k < s->n_apart; k++)
        close_shared(s->others[k - 1]);
    free(s->others);
    ts_pass_free(s->pass);
    ts_needs_free(s->needs);
    ts_dense_product_free(s->dense);
    ts_dense_rows_free(s->dense_rows);
    ts_rounds_free(s->rounds);
    ts_steps_free(s->steps);
    for (uint32_t k = 0; k < s->n_models && s->model != NULL; k++)
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

void ts_cpu_close(void *be)
{
    struct ts_cpu *c = be;
    if (c != NULL)
        close_shared(c->shared);
}

static int open_model(const struct ts_backend_conf *conf, struct ts_cpu_shared *s, uint32_t k,
                      uint32_t col, struct ts_err *err)
{
    struct ts_cpu *c = &s->model[k];
    uint32_t same;
    int rc = 0;
    c->shared = s;
    c->rank = ts_cpu_rank_of(conf, k);
    c->col = col;
    c->summed = conf->precision;
    c->keeps_rest = conf->precision == TS_FLOAT32 && ts_rest_fits(conf->tensor, c->rank);
    if (ts_cpu_has_rank_of(conf, k, &same))
        c->rows = s->model[same].rows;
    else
        rc = ts_rowsolve_new(ts_most_rows(conf->tensor, TS_ALL_MODES), c->rank, ts_isa_best(),
                             s->threads, &c->rows, err);
    c->frees_rows = rc == 0 && same == k;
    for (uint32_t m = 0; m < conf->tensor->order; m++)
        c->factor[m] = ts_fmat_view(&s->factor[m], col, c->rank);
    return rc;
}

static int open_all(const struct ts_backend_conf *conf, struct ts_cpu_shared *s, struct ts_err *err)
{
    const struct ts_tensor *t = conf->tensor;
    const struct ts_backend_conf all = ts_cpu_conf_of_all(conf);
    uint32_t col = 0;
    int rc = 0;
    for (uint32_t m = 0; rc == 0 && m < t->order; m++) {
        char what[64];
        snprintf(what, sizeof what, "factor matrix of " TS_NTH_MODE, m + 1);
        rc = ts_fmat_new(t->mode[m].disk.n_rows, all.rank, conf->precision, what, &s->factor[m],
                         err);
    }
    if (rc == 0 && ts_backend_keeps_rest(conf))
        rc = ts_fmat_new(t->mode[t->order - 1].disk.n_rows, all.rank, TS_FLOAT32,
                         "what float32 loses of a product", &s->rest, err);
    if (rc == 0 && t->dense != NULL) {
        const struct ts_dense_product_conf dense = ts_cpu_dense_conf(conf);
        rc = ts_dense_product_new(&dense, &s->dense, err);
    } else if (rc == 0) {
        rc = ts_pass_new(&all, ts_isa_best(), s->threads, &s->pass, err);
    }
    for (uint32_t k = 0; rc == 0 && k < s->n_models; k++) {
        rc = open_model(conf, s, k, col, err);
        col += ts_cpu_columns_of(ts_cpu_rank_of(conf, k), conf->precision);
    }
    return rc;
}

/* Refuses a run with a dense tensor if its loss is not least squares, or if it has several
 * ranks. */
static int check_dense(const struct ts_backend_conf *conf, struct ts_err *err)
{
    const char *path = conf->tensor->path;
    if (conf->tensor->dense == NULL)
        return 0;
    if (ts_cpu_multiplies(conf))
        return ts_fail(err, TS_EARG, TS_DENSE_BY_SQUARES, path);
    if (ts_comm_many(conf->comm))
        return ts_fail(err, TS_EARG, "%s: a dense tensor is decomposed by one process: start one",
                       path);
    return 0;
}

/* Opens the objects of a model that make passes over the tensor and update rows. plain: a store of
 * decoded blocks that the pass borrows; NULL: the pass has its own. */
static int open_work(const struct ts_backend_conf *conf, struct ts_cpu_shared *s,
                     struct ts_plain *plain, struct ts_err *err)
{
    const struct ts_tensor *t = conf->tensor;
    const uint32_t columns = ts_cpu_conf_of_all(conf).rank;
    int rc = open_all(conf, s, err);
    /* lends the first model's store of decoded blocks, for passes without the first model */
    if (rc == 0 && plain != NULL)
        ts_pass_lend_plain(s->pass, plain);
    if (rc == 0 && ts_cpu_multiplies(conf))
        rc = ts_rounds_new(t, columns, conf->precision, ts_isa_best(), s->threads,
                           ts_pass_plain(s->pass), &s->rounds, err);
    if (rc == 0 && ts_cpu_descends(conf))
        rc = ts_steps_new(t, columns, s->threads, &s->steps, err);
    return rc == 0 ? ts_cpu_ranks_open(s, conf->comm, err) : rc;
}

static int open_shared(const struct ts_backend_conf *conf, struct ts_plain *plain,
                       struct ts_cpu_shared **ret, struct ts_err *err)
{
    const uint32_t columns = ts_cpu_conf_of_all(conf).rank;
    struct ts_cpu_shared *s;
    int rc;
    if (columns == 0 || columns > TS_FMAT_MAX_RANK)
        return ts_fail(err, TS_EARG, "rank %u is not between 1 and %u", columns, TS_FMAT_MAX_RANK);
    s = calloc(1, sizeof *s);
    if (s == NULL || (s->model = calloc(ts_cpu_models(conf), sizeof *s->model)) == NULL) {
        free(s);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    }
    s->tensor = conf->tensor;
    s->trace = conf->trace;
    s->capabilities = conf->needs;
    s->threads = ts_cpu_threads(conf);
    s->n_models = ts_cpu_models(conf);
    s->n_apart = 1;
    s->model[0].shared = s;
    rc = open_work(conf, s, plain, err);
    if (rc < 0) {
        close_shared(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static int open_apart(const struct ts_backend_conf *conf, struct ts_cpu_shared *first,
                      struct ts_err *err)
{
    int rc = 0;
    first->others = calloc(conf->n_models, sizeof(struct ts_cpu_shared *));
    if (first->others == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    while (rc == 0 && first->n_apart < conf->n_models) {
        const struct ts_backend_conf one = ts_cpu_conf_apart(conf, first->n_apart);
        rc = open_shared(&one, ts_pass_plain(first->pass), &first->others[first->n_apart - 1], err);
        first->n_apart += rc == 0;
    }
    return rc;
}

int ts_cpu_open(const struct ts_backend_conf *conf, void **ret, struct ts_err *err)
{
    const int apart = ts_cpu_are_apart(conf);
    const struct ts_backend_conf first = apart ? ts_cpu_conf_apart(conf, 0) : *conf;
    struct ts_cpu_shared *s;
    int rc = check_dense(conf, err);
    if (rc == 0)
        rc = open_shared(&first, NULL, &s, err);
    if (rc == 0 && apart) {
        rc = open_apart(conf, s, err);
        if (rc < 0)
            close_shared(s);
    }
    if (rc == 0)
        *ret = &s->model[0];
    return rc;
}
