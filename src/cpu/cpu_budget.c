/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes, before the CPU backend is opened, its memory and how many models one pass computes. */
#include <omp.h>

#include "base/machine/bigmem.h"
#include "base/machine/machine.h"
#include "cpu/cpu_backend.h"
#include "cpu/cpu_state.h"
#include "cpu/dense/dense_cells.h"
#include "cpu/dense/dense_rows.h"
#include "cpu/losses/descend.h"
#include "cpu/ranks/needs.h"
#include "cpu/sparse/plain.h"
#include "cpu/losses/rounds.h"

#define MOST_COLUMNS 1024u /* most columns of all models in one pass, unless one model has more */

/* most bytes of adjacent columns of a factor row that kernels sum together */
#define RUN_BYTES 256u

uint32_t ts_cpu_threads(const struct ts_backend_conf *conf)
{
    return conf->threads > 0 ? conf->threads : (uint32_t)omp_get_num_procs();
}

uint32_t ts_cpu_models(const struct ts_backend_conf *conf)
{
    return conf->n_models > 0 ? conf->n_models : 1;
}

uint32_t ts_cpu_rank_of(const struct ts_backend_conf *conf, uint32_t k)
{
    return conf->n_models > 0 ? conf->ranks[k] : conf->rank;
}

uint32_t ts_cpu_columns_of(uint32_t rank, enum ts_precision precision)
{
    const uint32_t line = precision == TS_FLOAT32 ? 16 : 8;
    return (rank + line - 1) / line * line;
}

struct ts_backend_conf ts_cpu_conf_of_all(const struct ts_backend_conf *conf)
{
    struct ts_backend_conf all = *conf;
    all.n_models = 0;
    all.ranks = NULL;
    if (ts_cpu_models(conf) == 1) {
        all.rank = ts_cpu_rank_of(conf, 0);
        return all;
    }
    all.rank = 0;
    for (uint32_t k = 0; k < conf->n_models; k++)
        all.rank += ts_cpu_columns_of(conf->ranks[k], conf->precision);
    return all;
}

int ts_cpu_has_rank_of(const struct ts_backend_conf *conf, uint32_t k, uint32_t *ret)
{
    for (*ret = 0; *ret < k; ++*ret)
        if (ts_cpu_rank_of(conf, *ret) == ts_cpu_rank_of(conf, k))
            return 1;
    return 0;
}

struct ts_dense_product_conf ts_cpu_dense_conf(const struct ts_backend_conf *conf)
{
    return (struct ts_dense_product_conf){ .tensor = conf->tensor,
                                           .rank = ts_cpu_rank_of(conf, 0),
                                           .threads = ts_cpu_threads(conf),
                                           .precision = conf->precision,
                                           .isa = ts_isa_best(),
                                           .spare_bytes = conf->spare_bytes,
                                           .done = conf->done,
                                           .done_ctx = conf->done_ctx };
}

int ts_cpu_descends(const struct ts_backend_conf *conf)
{
    return ts_has_capability(conf->needs, TS_CAN_DESCEND);
}

int ts_cpu_multiplies(const struct ts_backend_conf *conf)
{
    return (conf->needs & TS_ROWS_BY_LOSS) != 0;
}

int ts_cpu_are_apart(const struct ts_backend_conf *conf)
{
    const uint32_t nonzero_by_nonzero = TS_ROWS_BY_GRAMS | TS_ROWS_BY_LOSS;
    return ts_cpu_models(conf) > 1 && (conf->needs & nonzero_by_nonzero) != 0;
}

struct ts_backend_conf ts_cpu_conf_apart(const struct ts_backend_conf *conf, uint32_t k)
{
    struct ts_backend_conf one = *conf;
    one.rank = ts_cpu_rank_of(conf, k);
    one.n_models = 0;
    one.ranks = NULL;
    /* all models use one store of decoded blocks, that of the first */
    one.spare_bytes = k == 0 ? conf->spare_bytes : 0;
    return one;
}

/* Adds the bytes of a matrix of n_rows rows and the columns of all models: without padding to
 * *factor_bytes, with padding to *padded. */
static void add_matrix(const struct ts_backend_conf *conf, uint64_t n_rows, uint64_t *factor_bytes,
                       uint64_t *padded)
{
    for (uint32_t k = 0; k < ts_cpu_models(conf); k++)
        *factor_bytes += n_rows * ts_cpu_rank_of(conf, k) * (conf->precision == TS_FLOAT32 ? 4 : 8);
    *padded += ts_fmat_bytes(n_rows, ts_cpu_conf_of_all(conf).rank, conf->precision);
}

/* Whether updated rows may be sent to some ranks only, as far as this is known before the backend's
 * `spread` is called. It needs a single model whose updates allow it. */
static int may_send_some(const struct ts_backend_conf *conf)
{
    return ts_cpu_models(conf) == 1 && !conf->products && conf->only_mode < 0 &&
           (conf->needs & TS_CPU_TO_ALL) == 0;
}

/* Adds up the memory of models in shared matrices. apart: 1 if conf is one of several models with
 * separate matrices. */
static void need_together(const struct ts_backend_conf *conf, int apart, uint64_t *factor_bytes,
                          uint64_t *other_bytes)
{
    const struct ts_backend_conf all = ts_cpu_conf_of_all(conf);
    const uint32_t threads = ts_cpu_threads(conf), last = conf->tensor->order - 1;
    uint64_t padded = 0;
    *factor_bytes = 0;
    for (uint32_t m = 0; m < conf->tensor->order; m++)
        add_matrix(conf, conf->tensor->mode[m].disk.n_rows, factor_bytes, &padded);
    if (conf->own_rows != 0)
        add_matrix(conf, ts_most_rows(conf->tensor, conf->own_rows), factor_bytes, &padded);
    *other_bytes = sizeof(struct ts_cpu_shared) + ts_cpu_models(conf) * sizeof(struct ts_cpu) +
                   padded - *factor_bytes;
    if (conf->tensor->dense != NULL) {
        const struct ts_dense_product_conf dense = ts_cpu_dense_conf(conf);
        *other_bytes += ts_dense_product_bytes(&dense);
        if (ts_has_capability(conf->needs, TS_CAN_OBSERVED))
            *other_bytes += ts_dense_rows_bytes(conf->tensor, all.rank, conf->precision, threads) +
                            ts_dense_cells_bytes(conf->tensor, all.rank, threads) +
                            2 * (uint64_t)all.rank * all.rank * sizeof(double);
    } else {
        *other_bytes += ts_pass_bytes(&all, threads);
    }
    for (uint32_t k = 0, same; k < ts_cpu_models(conf); k++) {
        if (ts_cpu_has_rank_of(conf, k, &same))
            continue;
        *other_bytes += ts_rowsolve_bytes(ts_most_rows(conf->tensor, TS_ALL_MODES),
                                          ts_cpu_rank_of(conf, k), threads);
        if (conf->own_rows != 0)
            *other_bytes += ts_rowsolve_own_bytes(ts_cpu_rank_of(conf, k), threads);
    }
    if (ts_cpu_multiplies(conf))
        *other_bytes += ts_rounds_bytes(conf->tensor, all.rank, conf->precision, threads);
    if (ts_cpu_descends(conf))
        *other_bytes += ts_steps_bytes(conf->tensor, all.rank, threads);
    if (ts_comm_many(conf->comm))
        *other_bytes += ts_share_bytes(conf->tensor, conf->comm->n) +
                        ts_cpu_models(conf) * conf->tensor->order * 2 *
                            (conf->comm->n + UINT64_C(1)) * sizeof(uint64_t) +
                        (ts_cpu_models(conf) > 1 ? ts_share_stage_bytes(conf->comm->n) : 0);
    if (ts_comm_many(conf->comm) && !apart && may_send_some(conf))
        *other_bytes += ts_needs_bytes(conf->tensor, conf->comm,
                                       (uint32_t)(all.rank * ts_precision_bytes(conf->precision)));
    if (ts_backend_keeps_rest(conf))
        *other_bytes += ts_bigmem_cost(
            ts_fmat_bytes(conf->tensor->mode[last].disk.n_rows, all.rank, TS_FLOAT32));
}

void ts_cpu_need(const struct ts_backend_conf *conf, uint64_t *factor_bytes, uint64_t *other_bytes)
{
    uint64_t factors, others;
    if (!ts_cpu_are_apart(conf)) {
        need_together(conf, 0, factor_bytes, other_bytes);
        return;
    }
    *factor_bytes = *other_bytes = 0;
    for (uint32_t k = 0; k < conf->n_models; k++) {
        const struct ts_backend_conf one = ts_cpu_conf_apart(conf, k);
        need_together(&one, 1, &factors, &others);
        *factor_bytes += factors;
        *other_bytes += others;
    }
}

uint32_t ts_cpu_most(const struct ts_backend_conf *conf)
{
    uint32_t n = 0, columns = 0;
    if (conf->tensor->dense != NULL)
        return 1;
    while (n < conf->n_models && n < TS_CPU_MOST_MODELS) {
        columns += ts_cpu_columns_of(conf->ranks[n], conf->precision);
        if (columns > MOST_COLUMNS)
            break;
        n++;
    }
    return n > 0 ? n : 1;
}

/* Returns the bytes of the largest factor of the first n models together. */
static uint64_t largest_bytes(const struct ts_backend_conf *conf, uint32_t n)
{
    struct ts_backend_conf few = *conf;
    few.n_models = n;
    return ts_fmat_bytes(ts_most_rows(conf->tensor, TS_ALL_MODES), ts_cpu_conf_of_all(&few).rank,
                         conf->precision);
}

/* Returns the bytes of a row of the first n models together. */
static uint64_t row_bytes(const struct ts_backend_conf *conf, uint32_t n)
{
    struct ts_backend_conf few = *conf;
    few.n_models = n;
    return ts_fmat_bytes(1, ts_cpu_conf_of_all(&few).rank, conf->precision);
}

/* Returns the most models of a pass if they have separate matrices: several passes would save no
 * time, and read the shards again. */
uint32_t ts_cpu_together(const struct ts_backend_conf *conf, uint64_t own_bytes,
                         uint64_t shared_bytes)
{
    const uint32_t most = ts_cpu_most(conf);
    const uint64_t near = shared_bytes / 4;
    uint32_t n = most;
    if (ts_cpu_are_apart(conf))
        return most;
    for (; n > 2; n--)
        if (largest_bytes(conf, n) <= own_bytes ||
            (row_bytes(conf, n) <= RUN_BYTES &&
             (largest_bytes(conf, n) <= near || largest_bytes(conf, 2) > near)))
            break;
    return n;
}

uint32_t ts_cpu_together_here(const struct ts_backend_conf *conf)
{
    return ts_cpu_together(conf, ts_machine_cache_bytes(), ts_machine_shared_cache_bytes());
}

uint64_t ts_cpu_wish(const struct ts_backend_conf *conf)
{
    uint64_t sum = 0;
    if (conf->tensor->dense != NULL) {
        const struct ts_dense_product_conf dense = ts_cpu_dense_conf(conf);
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

uint64_t ts_cpu_row_bytes(uint32_t rank, enum ts_precision precision)
{
    return ts_fmat_bytes(1, rank, precision);
}
