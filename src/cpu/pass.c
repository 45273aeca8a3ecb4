#include "cpu/pass.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bigmem.h"
#include "base/clock.h"

/* A shard on loan. */
struct loan {
    struct ts_shard_view view;
    uint32_t n_partitions;
    atomic_uint left; /* partitions not finished; 0: the loan is free */
};

struct ts_pass {
    const struct ts_tensor *tensor;
    ts_kernel_fn *kernel;
    enum ts_precision precision;
    uint32_t rank, stride, threads;
    uint64_t max_partitions;
    void *heads; /* max_partitions x stride */
    uint64_t heads_bytes;
    struct ts_kernel_edge *edge; /* max_partitions */
    struct ts_kernel_scratch *scratch; /* threads */
    uint64_t scratch_bytes;
    struct loan *loan; /* threads + 1: each thread works in one, and one is being taken from */
};

/* What the threads of one run share. */
struct run {
    struct ts_pass *pass;
    struct ts_feed *feed;
    uint32_t mode;
    struct ts_kernel_job job;
    omp_lock_t lock;     /* of all below */
    struct loan *newest; /* partitions are taken from it */
    uint32_t next;       /* the next of them */
    int rc;              /* 1 while there are more shards; 0; or what failed */
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

uint64_t ts_pass_bytes(const struct ts_backend_conf *conf, uint32_t threads)
{
    const uint64_t n = max_partitions(conf->tensor);
    return sizeof(struct ts_pass) +
           ts_bigmem_cost(ts_fmat_bytes(n, conf->rank, conf->precision)) +
           n * sizeof(struct ts_kernel_edge) +
           ts_bigmem_cost(threads * sizeof(struct ts_kernel_scratch)) +
           (threads + 1) * sizeof(struct loan);
}

int ts_pass_new(const struct ts_backend_conf *conf, ts_kernel_fn *kernel, uint32_t threads,
                struct ts_pass **ret, struct ts_err *err)
{
    struct ts_pass *p = calloc(1, sizeof *p);
    int rc = 0;
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    p->tensor = conf->tensor;
        p->precision = conf->precision;
    p->rank = conf->rank;
    p->stride = ts_fmat_stride(conf->rank, conf->precision);
    p->kernel = kernel != NULL ? kernel : ts_kernel_get(ts_isa_best(), p->precision, p->stride);
    p->threads = threads;
    p->max_partitions = max_partitions(conf->tensor);
    p->heads_bytes = ts_fmat_bytes(p->max_partitions, conf->rank, conf->precision);
    p->scratch_bytes = threads * sizeof *p->scratch;
    p->edge = calloc(p->max_partitions + 1, sizeof *p->edge);
    p->loan = calloc(threads + 1, sizeof *p->loan);
    if (p->edge == NULL || p->loan == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->tensor->path);
    if (rc == 0)
        rc = ts_bigmem_new(p->heads_bytes, "partial rows", &p->heads, err);
    if (rc == 0)
        rc = ts_bigmem_new(p->scratch_bytes, "buffers of threads", (void **)&p->scratch, err);
    if (rc < 0) {
        ts_pass_free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void ts_pass_free(struct ts_pass *p)
{
    if (p == NULL)
        return;
    if (p->scratch != NULL)
        ts_bigmem_free(p->scratch, p->scratch_bytes);
    if (p->heads != NULL)
        ts_bigmem_free(p->heads, p->heads_bytes);
    free(p->edge);
    free(p->loan);
    free(p);
}

/* Borrows another shard. The caller holds the lock: the other threads have nothing to do either. */
static void borrow(struct run *r)
{
    struct loan *l = r->pass->loan;
    while (atomic_load(&l->left) > 0) /* one of threads + 1 is free: others hold one each */
        l++;
    r->rc = ts_feed_next(r->feed, r->mode, 0, &l->view, r->err);
    r->newest = NULL;
    if (r->rc <= 0)
        return;
    l->n_partitions = ts_shard_partitions(l->view.entry);
    atomic_store(&l->left, l->n_partitions);
    r->newest = l;
    r->next = 0;
}

/* The next partition to work on, or NULL at the end. */
static struct loan *take(struct run *r, uint32_t *ret)
{
    const uint64_t begin = ts_clock_ns();
    struct loan *l = NULL;
    omp_set_lock(&r->lock);
    if (r->rc > 0 && (r->newest == NULL || r->next == r->newest->n_partitions))
        borrow(r);
    if (r->rc > 0) {
        l = r->newest;
        *ret = r->next++;
    }
    r->wait_ns += ts_clock_ns() - begin;
    omp_unset_lock(&r->lock);
    return l;
}

static void work(struct run *r, struct ts_kernel_scratch *scratch)
{
    struct ts_pass *p = r->pass;
    const uint64_t head_bytes = ts_fmat_bytes(1, p->rank, p->precision);
    struct loan *l;
    uint32_t k;
    while ((l = take(r, &k)) != NULL) {
        const uint64_t at = l->view.first_partition + k;
        p->kernel(&r->job, l->view.entry, l->view.raw, k, scratch,
                  (char *)p->heads + at * head_bytes, &p->edge[at]);
        const struct ts_shard_view view = l->view; /* a finished loan may be in use again at once */
        if (atomic_fetch_sub(&l->left, 1) == 1)
            ts_feed_done(r->feed, &view);
    }
}

/* Adds the heads to their rows. A row's plain sum, when it has one, is that of the partition where
 * it starts; heads of the partitions after it follow. */
static void add_heads(struct ts_pass *p, uint64_t n_partitions, struct ts_fmat *out, double *sum)
{
    const uint32_t rank = p->rank;
    for (uint64_t k = 0; k < n_partitions; k++) {
        const uint32_t row = p->edge[k].first;
        const int goes_on = k > 0 && p->edge[k - 1].last == row;
        double head;
        if (!goes_on)
            memset(sum, 0, rank * sizeof *sum);
        else if (p->edge[k - 1].first != row)
            ts_fmat_get(out, row, 1, sum, 1);
        for (uint32_t r = 0; r < rank; r++) {
            head = p->precision == TS_FLOAT32 ? ((float *)p->heads)[k * p->stride + r]
                                              : ((double *)p->heads)[k * p->stride + r];
            sum[r] += head;
        }
        if (k + 1 == n_partitions || p->edge[k].last != row || p->edge[k + 1].first != row)
            ts_fmat_put(out, row, 1, sum, 1);
    }
}

/* From this size on, a matrix is taken to lie beyond the second-level cache. */
static uint64_t far_bytes(void)
{
    long bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return 3 * (bytes > 0 ? (uint64_t)bytes : UINT64_C(1) << 20) / 2;
}

static void fill_job(const struct ts_pass *p, uint32_t mode, struct ts_fmat *factor,
                     struct ts_kernel_job *job)
{
    const struct ts_tensor *t = p->tensor;
    memset(job, 0, sizeof *job);
    job->order = t->order;
    job->stride = p->stride;
    job->out = factor[mode].data;
    for (uint32_t l = 1; l < t->order; l++) {
        const struct ts_fmat *f = &factor[t->mode[mode].disk.level[l]];
        job->table[l] = f->data;
        job->far[l] = f->bytes > far_bytes();
    }
    ts_kernel_values(t, p->precision, &job->unpack);
}

int ts_pass_run(struct ts_pass *p, uint32_t mode, struct ts_fmat *factor, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err)
{
    const uint64_t begin = ts_clock_ns();
    struct run r = { .pass = p, .feed = feed, .mode = mode, .rc = 1, .err = err };
    fill_job(p, mode, factor, &r.job);
    omp_init_lock(&r.lock);
#pragma omp parallel num_threads(p->threads)
    work(&r, &p->scratch[omp_get_thread_num()]);
    omp_destroy_lock(&r.lock);
    if (r.rc < 0)
        return r.rc;
    add_heads(p, mode_partitions(p->tensor, mode), &factor[mode], p->scratch[0].sum);
    if (times != NULL) {
        const uint64_t all_ns = ts_clock_ns() - begin, wait_ns = r.wait_ns / p->threads;
        *times = (struct ts_backend_times){
            .total_ns = all_ns,
            .n_devices = 1,
            .device[0] = { .number = -1, .nnz = p->tensor->nnz, .wait_ns = wait_ns,
                           .kernel_ns = all_ns - wait_ns, .share = 1 },
        };
    }
    return 0;
}
