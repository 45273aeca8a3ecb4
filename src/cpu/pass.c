/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads take partitions of the shards that the feed lends, and add the partial rows at the
 * end. */
#include "cpu/pass.h"

#include <assert.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "base/fpmode.h"
#include "base/machine.h"
#include "cpu/gram_rows.h"
#include "cpu/needs.h"
#include "cpu/plain.h"
#include "cpu/share.h"

/* A shard lent by the feed. */
struct loan {
    struct ts_shard_view view;
    uint32_t end;     /* of the partitions to be taken, behind the last */
    atomic_uint left; /* partitions not finished; 0: the loan is free */
};

struct ts_pass {
    const struct ts_tensor *tensor;
    ts_kernel_fn *kernel[2]; /* by the enum ts_precision of products and sums */
    enum ts_precision precision;
    enum ts_isa isa;
    uint32_t rank, stride, threads;
    uint64_t max_partitions;
    void *heads; /* a row for each partition of a mode; with a wide kernel, then its rest */
    uint64_t heads_bytes;
    struct ts_kernel_edge *edge;       /* max_partitions */
    struct ts_kernel_scratch *scratch; /* threads */
    uint64_t scratch_bytes;
    ts_unpack_fn *unpack;
    struct ts_hold_out hold_out; /* from products */
    struct ts_plain *plain;      /* blocks that are kept decoded; or NULL */
    int plain_is_lent;
    struct ts_gram_rows *gram; /* made when it is first needed; or NULL */
    uint32_t *rows;            /* of weighted passes: for each thread rows of a block; or NULL */
    uint32_t n_runs[TS_MAX_ORDER]; /* passes over each mode before this one; at most 1 */
    struct loan *loan;      /* threads + 1: each thread works on one, and one is being divided */
    struct ts_share *share; /* of several ranks; NULL: this process alone */
    struct ts_needs *needs; /* wants to know of rows; or NULL */
};

/* The models whose products are summed in one precision. */
struct part {
    ts_kernel_fn *kernel;
    struct ts_kernel_job job;
    struct ts_kernel_model model[TS_PASS_MAX_MODELS];
};

/* A model whose values at the nonzeros are wanted. */
struct cells {
    const struct ts_weighted *what;
    ts_cells_fn *kernel;
    struct ts_kernel_job job;
};

/* A model whose rows are solved for in the pass. */
struct solved {
    struct ts_gram_rows *gram;
    struct ts_kernel_job job;
};

/* What the threads of one run share. */
struct run {
    struct ts_pass *pass;
    struct ts_feed *feed;
    uint32_t mode;
    struct cells *cells; /* of a weighted pass */
    uint32_t n_cells;
    struct solved *solved; /* of a pass that solves rows */
    uint32_t n_solved;
    int keep;  /* 1: blocks are kept decoded */
    int walks; /* 1: rows are marked */
    uint64_t head_bytes;
    struct part part[2];               /* by the enum ts_precision of products and sums */
    uint64_t begin, end;               /* partitions of this rank */
    const struct ts_pass_model *model; /* whose updates are made ready meanwhile: */
    uint32_t n_models;
    atomic_uint next_model;
    omp_lock_t lock;     /* protects all fields below */
    struct loan *newest; /* the loan whose partitions are being taken */
    uint32_t next;       /* its next partition */
    int rc;              /* 1: there are more shards; 0: none; or the failure */
    struct ts_err *err;
    uint64_t wait_ns;
};

static uint64_t mode_partitions(const struct ts_tensor *t, uint32_t mode)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < t->mode[mode].disk.n_shards; i++)
        n += ts_shard_partitions(&t->mode[mode].shard[i]);
    return n;
}

static uint64_t max_partitions(const struct ts_tensor *t)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        const uint64_t n = mode_partitions(t, m);
        most = n > most ? n : most;
    }
    return most;
}

static int is_wide(enum ts_precision stored, enum ts_precision summed)
{
    return stored == TS_FLOAT32 && summed == TS_FLOAT64;
}

/* Bytes of the heads of the mode with most partitions, or of the last mode with their rests. */
static uint64_t heads_bytes(const struct ts_backend_conf *conf)
{
    const uint64_t one = ts_fmat_bytes(1, conf->rank, conf->precision);
    const uint64_t plain = one * max_partitions(conf->tensor);
    const uint64_t wide = 2 * one * mode_partitions(conf->tensor, conf->tensor->order - 1);
    return conf->precision == TS_FLOAT32 && wide > plain ? wide : plain;
}

uint64_t ts_pass_bytes(const struct ts_backend_conf *conf, uint32_t threads)
{
    const uint64_t n = max_partitions(conf->tensor);
    return sizeof(struct ts_pass) + ts_bigmem_cost(heads_bytes(conf)) +
           n * sizeof(struct ts_kernel_edge) +
           ts_bigmem_cost(threads * sizeof(struct ts_kernel_scratch)) +
           (threads + 1) * sizeof(struct loan) + ts_plain_own_bytes(conf->tensor) +
           (ts_has_capability(conf->needs, TS_CAN_OBSERVED)
                ? ts_gram_rows_bytes(n, conf->rank, conf->precision, threads)
                : 0);
}

int ts_pass_new(const struct ts_backend_conf *conf, enum ts_isa isa, uint32_t threads,
                struct ts_pass **ret, struct ts_err *err)
{
    struct ts_pass *p = calloc(1, sizeof *p);
    int rc = 0;
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    p->isa = isa;
    p->tensor = conf->tensor;
    p->precision = conf->precision;
    p->rank = conf->rank;
    p->stride = ts_fmat_stride(conf->rank, conf->precision);
    p->unpack = ts_kernel_unpack(isa);
    for (enum ts_precision summed = p->precision; summed <= TS_FLOAT64; summed++)
        p->kernel[summed] = ts_kernel_get(isa, p->precision, summed, p->stride);
    p->threads = threads;
    p->max_partitions = max_partitions(conf->tensor);
    p->heads_bytes = heads_bytes(conf);
    p->scratch_bytes = threads * sizeof *p->scratch;
    p->edge = calloc(p->max_partitions + 1, sizeof *p->edge);
    p->loan = calloc(threads + 1, sizeof *p->loan);
    if (p->edge == NULL || p->loan == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    if (rc == 0)
        rc = ts_bigmem_new(p->heads_bytes, "partial rows", &p->heads, err);
    if (rc == 0)
        rc = ts_bigmem_new(p->scratch_bytes, "buffers of threads", (void **)&p->scratch, err);
    if (rc == 0 &&
        ts_comm_many(
            conf->comm)) /* rows of a shard that take several rounds together need it whole */
        rc = ts_share_new(conf->tensor, conf->comm, (conf->needs & TS_ROWS_BY_LOSS) != 0, &p->share,
                          err);
    if (rc < 0) {
        ts_pass_free(p);
        return rc;
    }
    if (conf->spare_bytes > 0) /* without this memory the results are the same, but slower */
        (void)ts_plain_new(conf->tensor, conf->spare_bytes, &p->plain, NULL);
    *ret = p;
    return 0;
}

struct ts_share *ts_pass_share(const struct ts_pass *p)
{
    return p->share;
}

struct ts_plain *ts_pass_plain(const struct ts_pass *p)
{
    return p->plain;
}

void ts_pass_lend_plain(struct ts_pass *p, struct ts_plain *plain)
{
    p->plain = plain;
    p->plain_is_lent = 1;
}

void ts_pass_walk(struct ts_pass *p, struct ts_needs *needs)
{
    p->needs = needs;
}

void ts_pass_free(struct ts_pass *p)
{
    if (p == NULL)
        return;
    if (p->scratch != NULL)
        ts_bigmem_free(p->scratch, p->scratch_bytes);
    if (p->heads != NULL)
        ts_bigmem_free(p->heads, p->heads_bytes);
    if (!p->plain_is_lent)
        ts_plain_free(p->plain);
    ts_gram_rows_free(p->gram);
    ts_share_free(p->share);
    free(p->rows);
    free(p->edge);
    free(p->loan);
    free(p);
}

/* Borrows another shard. The caller holds the lock; the other threads wait for this shard too. */
static void borrow(struct run *r)
{
    struct loan *l = r->pass->loan;
    uint64_t first;
    while (atomic_load(&l->left) > 0) /* one of threads + 1 is free: others hold one each */
        l++;
    r->rc = r->pass->share != NULL && ts_share_poll(r->pass->share)
                ? ts_fail(r->err, TS_ESTOP, "another rank has stopped")
                : ts_feed_next(r->feed, r->mode, 0, &l->view, r->err);
    r->newest = NULL;
    if (r->rc <= 0)
        return;
    first = l->view.first_partition;
    l->end = ts_shard_partitions(l->view.entry);
    if (r->end - first < l->end)
        l->end = (uint32_t)(r->end - first);
    r->next = r->begin > first ? (uint32_t)(r->begin - first) : 0;
    atomic_store(&l->left, l->end - r->next);
    r->newest = l;
}

/* The next partition to work on, or NULL at the end. */
static struct loan *take(struct run *r, uint32_t *ret)
{
    const uint64_t begin = ts_clock_ns();
    struct loan *l = NULL;
    omp_set_lock(&r->lock);
    if (r->rc > 0 && (r->newest == NULL || r->next == r->newest->end))
        borrow(r);
    if (r->rc > 0) {
        l = r->newest;
        *ret = r->next++;
    }
    r->wait_ns += ts_clock_ns() - begin;
    omp_unset_lock(&r->lock);
    return l;
}

/* The plain blocks of a partition, made now where they are to be kept; or NULL. They are made in
 * the second pass over a mode: with only one pass they would cost more than they save. */
static const void *plain_of(const struct run *r, const struct ts_shard_view *view, uint32_t k,
                            struct ts_kernel_scratch *scratch)
{
    const struct ts_pass *p = r->pass;
    const uint64_t at = view->first_partition + k;
    const void *plain = p->plain == NULL ? NULL : ts_plain_get(p->plain, r->mode, at);
    if (plain != NULL || !r->keep)
        return plain;
    return ts_plain_add(p->plain, r->mode, at, view->entry, view->raw, k, p->unpack,
                        &scratch->block[0]);
}

/* ---- weighted passes ---- */

/* A partition on its way to whoever takes its cells. */
struct taking {
    const struct run *run;
    const struct ts_weighted *what;
    struct ts_cells cells;
    uint32_t thread;
    uint32_t *rows; /* TS_MAX_ORDER x TS_BLOCK_NNZ */
    struct ts_err err;
};

static int give_cells(void *ctx, const struct ts_unpacked *b, const double *cell, int last)
{
    struct taking *t = ctx;
    const struct run *r = t->run;
    const struct ts_tensor *tensor = r->pass->tensor;
    int rc;
    for (uint32_t l = 0; l < tensor->order; l++) {
        const uint32_t m = tensor->mode[r->mode].disk.level[l];
        uint32_t *to = t->rows + m * TS_BLOCK_NNZ;
        if ((t->what->rows >> m & 1) == 0)
            continue;
        ts_kernel_rows(b, l, tensor->order - 1, to);
        t->cells.row[m] = to;
    }
    t->cells.n = b->n;
    t->cells.value = b->value.d;
    t->cells.weight = ts_tensor_weighted(tensor) ? b->weight : NULL;
    t->cells.model = cell;
    t->cells.last = last;
    rc = t->what->take(t->what->ctx, t->thread, &t->cells, &t->err);
    t->cells.first += b->n;
    return rc;
}

/* No thread takes another partition then. */
static void end_early(struct run *r, int rc, const struct ts_err *err)
{
    omp_set_lock(&r->lock);
    if (r->rc >= 0 && r->err != NULL)
        *r->err = *err;
    if (r->rc >= 0)
        r->rc = rc;
    omp_unset_lock(&r->lock);
}

static void work_cells(struct run *r, const struct ts_kernel_input *in, uint64_t partition,
                       struct ts_kernel_scratch *scratch)
{
    const uint32_t thread = (uint32_t)omp_get_thread_num();
    struct taking t = { 0 };
    int rc = 0;
    for (uint32_t k = 0; k < r->n_cells && rc == 0; k++) {
        t = (struct taking){ .run = r,
                             .what = r->cells[k].what,
                             .cells = { .partition = partition },
                             .thread = thread,
                             .rows = r->pass->rows + (size_t)thread * TS_MAX_ORDER * TS_BLOCK_NNZ };
        rc = r->cells[k].kernel(&r->cells[k].job, in, scratch, give_cells, &t);
    }
    if (rc < 0)
        end_early(r, rc, &t.err);
}

/* ---- both ---- */

/* What updates of rows need, which takes one thread: beside the products it costs the others nothing where they
 * have fewer partitions than there are threads. */
static void make_ready(struct run *r)
{
    uint32_t k;
    while ((k = atomic_fetch_add(&r->next_model, 1)) < r->n_models) {
        const struct ts_row_update *how = r->model[k].how;
        struct ts_err err;
        const int rc = how == NULL || how->ready == NULL ? 0 : how->ready(how->ctx, &err);
        if (rc < 0)
            end_early(r, rc, &err);
    }
}

static void work(struct run *r, struct ts_kernel_scratch *scratch)
{
    struct ts_pass *p = r->pass;
    struct loan *l;
    uint32_t k;
    make_ready(r);
    while ((l = take(r, &k)) != NULL) {
        const uint64_t at = l->view.first_partition + k;
        const struct ts_kernel_input in = { l->view.entry, l->view.raw, k,
                                            plain_of(r, &l->view, k, scratch) };
        const uint64_t mode = ts_fpmode_flush();
        if (r->walks)
            ts_needs_walk(p->needs, r->mode, &in, &scratch->block[0]);
        if (r->n_cells > 0)
            work_cells(r, &in, at, scratch);
        for (uint32_t i = 0; i < r->n_solved; i++)
            ts_gram_rows_take(r->solved[i].gram, (uint32_t)omp_get_thread_num(), &r->solved[i].job,
                              &in, scratch, at);
        for (int i = 0; i < 2; i++)
            if (r->part[i].job.n_models > 0)
                r->part[i].kernel(&r->part[i].job, &in, scratch,
                                  (char *)p->heads + at * r->head_bytes, &p->edge[at]);
        ts_fpmode_restore(mode);
        const struct ts_shard_view view = l->view; /* a finished loan may be in use again at once */
        if (atomic_fetch_sub(&l->left, 1) == 1)
            ts_feed_done(r->feed, &view);
    }
}

/* Adds the heads to the rows of a model. The partition where a row starts has stored its first part in
 * `out`; the heads of the partitions after it follow. */
static void add_heads(const struct run *r, uint64_t n_partitions, const struct ts_pass_model *m,
                      double *sum)
{
    const struct ts_pass *p = r->pass;
    const uint32_t rank = m->out->rank;
    const uint64_t mode = ts_fpmode_flush();
    const int wide = is_wide(p->precision, m->summed);
    const uint64_t at = m->col * (p->precision == TS_FLOAT32 ? sizeof(float) : sizeof(double));
    for (uint64_t k = r->begin; k < r->end; k++) {
        const uint32_t row = p->edge[k].first;
        const int goes_on = k > 0 && p->edge[k - 1].last == row;
        const char *head = (const char *)p->heads + k * r->head_bytes + at;
        if (!goes_on)
            memset(sum, 0, rank * sizeof *sum);
        else if (p->edge[k - 1].first != row)
            ts_fmat_get(m->out, row, 1, sum, 1);
        for (uint32_t c = 0; c < rank; c++) {
            sum[c] +=
                p->precision == TS_FLOAT32 ? ((const float *)head)[c] : ((const double *)head)[c];
            if (wide)
                sum[c] += ((const float *)head)[p->stride + c];
        }
        if (k + 1 == n_partitions || p->edge[k].last != row || p->edge[k + 1].first != row)
            ts_fmat_put(m->out, row, 1, sum, 1);
    }
    ts_fpmode_restore(mode);
}

/* From this size on, a matrix counts as larger than the second-level cache. */
static uint64_t far_bytes(void)
{
    return 3 * ts_machine_cache_bytes() / 2;
}

/* What a model alone has in row 0 of a matrix of all columns. */
static void *row_of_all(void *row, uint32_t col, size_t size)
{
    return row == NULL ? NULL : (char *)row - col * size;
}

static void fill_job(const struct ts_pass *p, uint32_t mode, enum ts_precision summed,
                     const struct ts_fmat *factor, const struct ts_pass_model *model,
                     struct ts_kernel_job *job)
{
    const struct ts_tensor *t = p->tensor;
    const size_t size = p->precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
    memset(job, 0, sizeof *job);
    job->order = t->order;
    job->stride = model->out->stride;
    job->columns = model->out->width;
    job->out = row_of_all(model->out->data, model->col, size);
    for (uint32_t l = 1; l < t->order; l++) {
        const struct ts_fmat *f = &factor[t->mode[mode].disk.level[l]];
        job->table[l] = f->data;
        job->far[l] = f->bytes > far_bytes();
    }
    ts_kernel_values(t, summed, &job->unpack);
    ts_plain_conf(t, mode, summed == TS_FLOAT64, &job->plain);
}

void ts_pass_hold_out(struct ts_pass *pass, const struct ts_hold_out *h)
{
    pass->hold_out = *h;
}

/* Each model becomes one of the part that sums as it wants. */
static void fill_parts(struct run *r, const struct ts_fmat *factor, uint32_t n,
                       const struct ts_pass_model *model)
{
    const struct ts_pass *p = r->pass;
    for (uint32_t i = 0; i < n; i++) {
        const struct ts_pass_model *m = &model[i];
        struct part *part = &r->part[m->summed];
        assert(!is_wide(p->precision, m->summed) || r->mode + 1 == p->tensor->order);
        if (part->job.n_models == 0) {
            part->kernel = p->kernel[m->summed];
            fill_job(p, r->mode, m->summed, factor, m, &part->job);
            part->job.model = part->model;
            part->job.hold_out = p->hold_out;
            part->job.level = p->tensor->mode[r->mode].disk.level;
        }
        if (m->out->rest != NULL) /* others with none have no use for theirs */
            part->job.rest = row_of_all(m->out->rest, m->col, sizeof(float));
        part->model[part->job.n_models++] = (struct ts_kernel_model){ m->col, m->out->width };
    }
    r->head_bytes = (r->part[TS_FLOAT64].job.n_models > 0 && p->precision == TS_FLOAT32 ? 2 : 1) *
                    ts_fmat_bytes(1, p->rank, p->precision);
}

/* Products as rows of all columns. Models that are not passed over have there what all ranks have alike. */
static struct ts_fmat rows_of_all(const struct ts_pass *p, uint32_t n,
                                  const struct ts_pass_model *model)
{
    const size_t size = p->precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
    struct ts_fmat whole = ts_fmat_view(model[0].out, 0, model[0].out->rank);
    whole.data = row_of_all(whole.data, model[0].col, size);
    whole.rest = NULL;
    whole.width = whole.stride;
    for (uint32_t i = 0; i < n; i++)
        if (model[i].out->rest != NULL)
            whole.rest = row_of_all(model[i].out->rest, model[i].col, sizeof(float));
    return whole;
}

static void run_threads(struct run *r)
{
    struct ts_pass *p = r->pass;
    r->keep = p->plain != NULL && p->n_runs[r->mode] > 0;
    p->n_runs[r->mode] = 1;
    r->walks = p->needs != NULL && ts_needs_walks(p->needs, r->mode);
    omp_init_lock(&r->lock);
#pragma omp parallel num_threads(p->threads)
    work(r, &p->scratch[omp_get_thread_num()]);
    omp_destroy_lock(&r->lock);
    for (uint32_t i = 0; i <= p->threads; i++) /* of a pass that ended early */
        if (atomic_exchange(&p->loan[i].left, 0) > 0)
            ts_feed_done(r->feed, &p->loan[i].view);
}

/* All ranks are through with it. */
static void end_walk(const struct run *r)
{
    if (r->pass->needs != NULL)
        ts_needs_walked(r->pass->needs, r->mode);
}

static void tell_times(const struct run *r, uint64_t all_ns, uint64_t exchange_ns,
                       struct ts_backend_times *times)
{
    const uint64_t wait_ns = r->wait_ns / r->pass->threads;
    *times = (struct ts_backend_times){
        .total_ns = all_ns,
        .n_devices = 1,
        .device[0] = { .number = -1,
                       .nnz = r->pass->tensor->nnz,
                       .wait_ns = wait_ns,
                       .kernel_ns = all_ns - wait_ns - exchange_ns,
                       .exchange_ns = exchange_ns,
                       .exposed_ns = exchange_ns,
                       .share = 1 },
    };
}

int ts_pass_run(struct ts_pass *p, uint32_t mode, const struct ts_fmat *factor, uint32_t n,
                const struct ts_pass_model *model, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t begin = ts_clock_ns();
    struct run r = {
        .pass = p, .feed = feed, .mode = mode, .model = model, .n_models = n, .rc = 1, .err = err
    };
    uint64_t computed, exchanged;
    struct ts_fmat whole;
    assert(n > 0 && n <= TS_PASS_MAX_MODELS);
    fill_parts(&r, factor, n, model);
    r.end = mode_partitions(p->tensor, mode);
    if (p->share != NULL)
        ts_share_range(p->share, mode, &r.begin, &r.end);
    run_threads(&r);
    computed = ts_clock_ns();
    if (p->share != NULL) {
        whole = rows_of_all(p, n, model);
        r.rc = ts_share_heads(p->share, mode, r.rc, p->edge, p->heads, r.head_bytes, &whole,
                              &r.begin, &r.end, err);
    }
    if (r.rc < 0)
        return r.rc;
    end_walk(&r);
    exchanged = p->share != NULL ? ts_clock_ns() : computed;
    for (uint32_t i = 0; i < n; i++)
        add_heads(&r, mode_partitions(p->tensor, mode), &model[i], p->scratch[0].sum);
    if (times != NULL)
        tell_times(&r, ts_clock_ns() - begin, exchanged - computed, times);
    return 0;
}

/* Values are float64. A model has the kernel that it has alone, which adds columns in another order than that of wider rows. */
static void fill_cells(const struct ts_pass *p, uint32_t mode, const struct ts_pass_cells *model,
                       struct cells *ret)
{
    struct ts_fmat own = ts_fmat_view(&model->factor[mode], 0, model->factor[mode].rank);
    const struct ts_pass_model all = { .out = &own };
    ret->what = model->what;
    ret->kernel = ts_cells_get(p->isa, p->precision, own.width);
    fill_job(p, mode, TS_FLOAT64, model->factor, &all, &ret->job);
    ret->job.table[0] = own.data;
}

static int gather_parts(const struct run *r, uint32_t n, const struct ts_pass_cells *model,
                        struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++)
        if (model[k].what->part != NULL)
            rc = ts_share_gather_parts(r->pass->share, r->mode, model[k].what->part,
                                       model[k].what->part_bytes, err);
    return rc;
}

int ts_pass_cells(struct ts_pass *p, uint32_t mode, uint32_t n, const struct ts_pass_cells *model,
                  struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t begin = ts_clock_ns();
    struct run r = { .pass = p, .feed = feed, .mode = mode, .rc = 1, .err = err };
    uint64_t computed;
    if (p->rows == NULL)
        p->rows = malloc(p->threads * (size_t)TS_MAX_ORDER * TS_BLOCK_NNZ * sizeof *p->rows);
    r.cells = calloc(n, sizeof *r.cells);
    if (p->rows == NULL || r.cells == NULL) {
        free(r.cells);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", p->tensor->path);
    }
    for (r.n_cells = 0; r.n_cells < n; r.n_cells++)
        fill_cells(p, mode, &model[r.n_cells], &r.cells[r.n_cells]);
    r.end = mode_partitions(p->tensor, mode);
    if (p->share != NULL)
        ts_share_range(p->share, mode, &r.begin, &r.end);
    run_threads(&r);
    free(r.cells);
    computed = ts_clock_ns();
    if (p->share != NULL)
        r.rc = ts_share_agree(p->share, r.rc, err);
    if (r.rc == 0 && p->share != NULL)
        r.rc = gather_parts(&r, n, model, err);
    if (r.rc < 0)
        return r.rc;
    end_walk(&r);
    if (times != NULL)
        tell_times(&r, ts_clock_ns() - begin, p->share == NULL ? 0 : ts_clock_ns() - computed,
                   times);
    return 0;
}

static int begin_rows(const struct ts_pass_rows *of, uint32_t mode, struct solved *ret,
                      struct ts_err *err)
{
    struct ts_pass *p = of->pass;
    const struct ts_pass_model all = { .out = &of->factor[mode] };
    int rc = 0;
    if (p->gram == NULL)
        rc = ts_gram_rows_new(p->max_partitions, p->tensor->order, p->rank, p->precision, p->isa,
                              p->threads, &p->gram, err);
    if (rc < 0)
        return rc;
    fill_job(p, mode, p->precision, of->factor, &all, &ret->job);
    ret->gram = p->gram;
    ts_gram_rows_begin(p->gram, of->how, p->tensor->mode[mode].disk.level,
                       ts_tensor_weighted(p->tensor), &of->factor[mode]);
    return 0;
}

/* The rows at the ends of partitions, and those that another rank needs. */
static int end_rows(struct run *r, const struct ts_pass_rows *of, uint64_t *exchange_ns)
{
    struct ts_pass *p = of->pass;
    uint64_t ns = 0;
    if (p->share != NULL)
        r->rc = ts_gram_rows_end_shared(p->gram, p->share, r->mode, r->rc, of->size, &ns, r->err);
    if (r->rc == 0 && p->share == NULL)
        ts_gram_rows_end(p->gram, r->end, of->size);
    *exchange_ns += ns;
    return r->rc;
}

int ts_pass_complete(uint32_t mode, uint32_t n, const struct ts_pass_rows *model,
                     struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t begin = ts_clock_ns();
    struct ts_pass *p = model[0].pass;
    struct run r = { .pass = p, .feed = feed, .mode = mode, .rc = 1, .err = err };
    uint64_t exchange_ns = 0;
    int rc = 0;
    assert(n > 0);
    r.solved = calloc(n, sizeof *r.solved);
    if (r.solved == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", p->tensor->path);
    for (r.n_solved = 0; r.n_solved < n && rc == 0; r.n_solved++)
        rc = begin_rows(&model[r.n_solved], mode, &r.solved[r.n_solved], err);
    r.end = mode_partitions(p->tensor, mode);
    if (rc == 0 && p->share != NULL)
        ts_share_range(p->share, mode, &r.begin, &r.end);
    if (rc == 0) {
        run_threads(&r);
        for (uint32_t k = 0; k < n && (k == 0 || r.rc == 0); k++)
            rc = end_rows(&r, &model[k], &exchange_ns);
    }
    free(r.solved);
    if (rc < 0)
        return rc;
    end_walk(&r);
    if (times != NULL)
        tell_times(&r, ts_clock_ns() - begin, exchange_ns, times);
    return 0;
}
