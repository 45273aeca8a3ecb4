/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures sweeps over a sample of a tensor's shards, and the speed of its disk. */
#include "tools/cp/tstream_sample.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "tools/common/tool.h"

/* ---- the sample of shards ---- */

void tstream_sample_free(struct tstream_sample *s)
{
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(s->tensor.mode[m].shard);
    ts_tensor_close(s->array);
    memset(s, 0, sizeof *s);
}

/* Picks `n` shards of a mode, spread evenly. */
static int pick(const struct ts_mode *from, uint64_t n, struct ts_mode *to, uint64_t *nnz)
{
    const uint64_t all = from->disk.n_shards;
    to->shard = malloc((n + 1) * sizeof *to->shard);
    if (to->shard == NULL)
        return -1;
    *nnz = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = n == all ? i : (uint64_t)(((double)i + 0.5) * (double)all / (double)n);
        to->shard[i] = from->shard[at < all ? at : all - 1];
        *nnz += to->shard[i].nnz;
    }
    to->disk.n_shards = n;
    return 0;
}

/* Opens the slices at the beginning of a dense tensor's file as an array; at least one slice. */
static int sample_array(const struct ts_tensor *t, uint64_t bytes, struct tstream_sample *ret,
                        struct ts_err *err)
{
    const struct ts_dense *d = t->dense;
    struct ts_dense_array array = d->array;
    const uint32_t slow = d->layout[0];
    const uint64_t slice = d->cells / array.dim[slow] * d->cell_bytes;
    struct tstream_sample s = { 0 };
    int rc;
    if (bytes / slice < array.dim[slow])
        array.dim[slow] = bytes / slice > 0 ? bytes / slice : 1;
    array.n_outer = d->n_outer;
    rc = ts_dense_open(&array, &s.array, err);
    if (rc == 0 && d->fd >= 0)
        rc = ts_dense_hold(s.array->dense, d->fd, err);
    if (rc < 0) {
        ts_tensor_close(s.array);
        return rc;
    }
    s.tensor = *s.array;
    s.whole = array.dim[slow] == d->array.dim[slow];
    for (uint32_t m = 0; m < t->order; m++)
        s.nnz[m] = s.array->nnz;
    *ret = s;
    /* sums over the sample's cells are stored in the sample, not in the tensor */
    ret->tensor.dense->tensor = &ret->tensor;
    return 0;
}

int tstream_sample_new(const struct ts_tensor *t, uint64_t bytes, struct tstream_sample *ret,
                       struct ts_err *err)
{
    struct tstream_sample s = { .tensor = *t, .whole = 1 };
    uint64_t all = 0;
    int rc = 0;
    if (t->dense != NULL)
        return sample_array(t, bytes, ret, err);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        s.tensor.mode[m].shard = NULL; /* the sample has shard tables of its own */
    for (uint32_t m = 0; m < t->order; m++)
        all += t->mode[m].disk.shards_bytes;
    for (uint32_t m = 0; m < t->order && rc == 0; m++) {
        const uint64_t n_shards = t->mode[m].disk.n_shards;
        uint64_t n =
            bytes >= all ? n_shards : (uint64_t)((double)n_shards * ((double)bytes / (double)all));
        n = n < 2 ? 2 : n;
        n = n > n_shards ? n_shards : n;
        s.whole &= n == n_shards;
        rc = pick(&t->mode[m], n, &s.tensor.mode[m], &s.nnz[m]);
    }
    if (rc < 0) {
        tstream_sample_free(&s);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for a sample of its shards", t->path);
    }
    if ((t->header.flags & TS_TENSOR_DUPLICATES) != 0 && !t->cells_summed) {
        /* If cells hold several nonzeros, a sample of the shards does not give the norm of the
         * cells. This is an upper bound of it, so that no residual is negative. */
        s.tensor.cells_summed = 1;
        s.tensor.listed_norm = t->header.norm;
        s.tensor.header.norm = t->header.norm * sqrt((double)t->nnz);
    }
    *ret = s;
    return 0;
}

/* ---- measured sweeps ---- */

/* The first WARM_UP sweeps are not counted if more follow. The first reads shards, and the second
 * stores decoded blocks in memory. All later sweeps do the same work. */
enum { MOST_SWEEPS = 32, WARM_UP = 2 };

struct pace {
    const struct tstream_sample *sample;
    const struct ts_tensor *whole;
    uint64_t until_ns;
    sig_atomic_t stop; /* set when enough was measured, or when the user stops the command */
    double product_s[TS_MAX_ORDER][MOST_SWEEPS], rows_s[TS_MAX_ORDER][MOST_SWEEPS];
    double again_s[MOST_SWEEPS];
    double first_s;
    /* The sweep whose last mode was reported. A second report of that mode is the pass that
     * measures the fit. */
    uint32_t judged;
    uint64_t sent_bytes, sent_ns;
    uint32_t n; /* number of sweeps done, including the first */
};

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* Returns the time that the slowest device spent on the product. It is derived from the time of the
 * whole pass, because solving rows may overlap with the product. */
static double product_seconds(const struct ts_solver_mode *m)
{
    const struct ts_backend_times *t = m->times;
    double most = 0;
    for (uint32_t i = 0; i < t->n_devices; i++) {
        const struct ts_device_times *d = &t->device[i];
        const double work = seconds(d->kernel_ns > d->copy_ns ? d->kernel_ns : d->copy_ns);
        double product = seconds(t->total_ns) - seconds(d->solve_ns + d->exposed_ns);
        product = product > work ? product : work;
        most = product > most ? product : most;
    }
    return most < seconds(m->total_ns) ? most : seconds(m->total_ns);
}

static void take_mode(void *ctx, const struct ts_solver_mode *m)
{
    struct pace *p = ctx;
    const double more_rows = (double)p->whole->mode[m->mode].disk.n_rows /
                             (double)p->sample->tensor.mode[m->mode].disk.n_rows;
    const double product = product_seconds(m), rest = (seconds(m->total_ns) - product) * more_rows;
    const uint64_t in_sample = p->sample->nnz[m->mode];
    const double times = in_sample > 0 ? (double)p->whole->nnz / (double)in_sample : 1;
    for (uint32_t i = 0; i < m->times->n_devices; i++) {
        p->sent_bytes += m->times->device[i].bytes;
        p->sent_ns += m->times->device[i].copy_ns;
    }
    const int last = m->mode + 1 == p->whole->order, again = last && p->judged == m->sweep;
    p->judged = last ? m->sweep : p->judged;
    if (m->sweep == 1) {
        p->first_s += product * times + rest;
    } else if (m->sweep <= WARM_UP + MOST_SWEEPS) {
        const uint32_t at = m->sweep <= WARM_UP ? 0 : m->sweep - WARM_UP - 1;
        if (again) {
            p->again_s[at] += product * times + rest;
        } else {
            p->product_s[m->mode][at] = product * times;
            p->rows_s[m->mode][at] = rest;
            p->again_s[at] = 0;
        }
    }
    if (tool_stop != 0)
        p->stop = tool_stop;
}

static void take_sweep(void *ctx, const struct ts_solver_sweep *s)
{
    struct pace *p = ctx;
    p->n = s->sweep;
    if (s->sweep > WARM_UP && ts_clock_ns() >= p->until_ns)
        p->stop = 1;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, uint32_t n)
{
    qsort(x, n, sizeof *x, by_size);
    return n == 0 ? 0 : (x[(n - 1) / 2] + x[n / 2]) / 2;
}

static void sum_up(struct pace *p, struct tstream_pace *ret)
{
    /* sweeps after the first WARM_UP ones; fewer if an exact fit ended the run early */
    const uint32_t after = p->n > WARM_UP ? p->n - WARM_UP : p->n > 1;
    const uint32_t n = after < MOST_SWEEPS ? after : MOST_SWEEPS;
    memset(ret, 0, sizeof *ret);
    ret->n_sweeps = n;
    for (uint32_t m = 0; m < p->whole->order; m++) {
        ret->product_s[m] = median(p->product_s[m], n);
        ret->rows_s[m] = median(p->rows_s[m], n);
        ret->sweep_s += ret->product_s[m] + ret->rows_s[m];
    }
    ret->again_s = median(p->again_s, n);
    ret->sweep_s += ret->again_s;
    ret->first_s = p->first_s > ret->sweep_s ? p->first_s : ret->sweep_s;
    ret->link_bytes_per_s = p->sent_ns > 0 ? (double)p->sent_bytes / seconds(p->sent_ns) : 0;
}

int tstream_sample_pace(const struct ts_engine_conf *conf, const struct tstream_sample *s,
                        const struct ts_tensor *whole, double resident_share, uint64_t seed,
                        uint32_t inner, double length, struct tstream_pace *ret, struct ts_err *err)
{
    struct ts_engine_conf ec = *conf;
    struct ts_engine e;
    struct ts_solver_result result = { 0 };
    struct pace *p = calloc(1, sizeof *p);
    int rc;
    if (p == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", whole->path);
    p->sample = s;
    p->whole = whole;
    ec.sample = &s->tensor;
    ec.resident_share = resident_share;
    ec.dry_run = 0;
    rc = ts_engine_open(&ec, &e, err);
    if (rc == 0) {
        const struct ts_solver_conf run = {
            .init = { .tensor = e.tensor,
                      .backend = e.backend,
                      .be = e.be,
                      .rank = conf->rank,
                      .threads = e.threads,
                      .seed = seed,
                      .spec = conf->spec,
                      .stop = &p->stop },
            .feed = e.feed,
            .precision = conf->precision,
            .iters = MOST_SWEEPS + WARM_UP,
            .inner = inner,
            .mode = take_mode,
            .sweep = take_sweep,
            .ctx = p,
            /* nothing is held out of the sample: every sweep counts as the best */
            .patience = ts_spec_of(conf->spec)->best ? UINT32_MAX : 0,
        };
        p->until_ns = ts_clock_ns() + (uint64_t)(length * 1e9);
        rc = ts_solver_run(&run, &result, err);
        free(result.weight);
        ts_engine_close(&e);
        if (rc == TS_ESTOP && tool_stop == 0)
            rc = 0; /* stopped because enough was measured */
    }
    if (rc == 0)
        sum_up(p, ret);
    free(p);
    return rc;
}

/* ---- the speed of the disk ---- */

enum { READ_BUFFERS = 32 };
#define READ_BYTES (UINT64_C(1) << 20)
#define READ_NS    UINT64_C(500000000)

struct disk {
    const struct tstream_sample *sample;
    pthread_mutex_t lock;
    pthread_cond_t change;
    char *memory;
    uint32_t free_buffer[READ_BUFFERS], n_free;
    uint32_t mode;
    uint64_t shard, at; /* position of the next read in the shard */
    uint64_t start_ns;  /* time of the first read; 0: none yet */
    uint64_t bytes;     /* bytes read */
    int rc;
    struct ts_err err;
};

static int in_time(const struct disk *d)
{
    return d->rc == 0 && tool_stop == 0 &&
           (d->start_ns == 0 || ts_clock_ns() < d->start_ns + READ_NS);
}

/* Returns the offset in its file at which the last whole page of the array ends. */
static uint64_t array_end(const struct ts_dense *a)
{
    return (a->array.offset + a->cells * a->cell_bytes) / TS_PAGE * TS_PAGE;
}

static int more_shards(struct disk *d)
{
    const struct ts_tensor *t = &d->sample->tensor;
    if (t->dense != NULL)
        return in_time(d) && d->at < array_end(t->dense);
    while (d->mode < t->order && d->shard == t->mode[d->mode].disk.n_shards) {
        d->mode++;
        d->shard = 0;
    }
    return in_time(d) && d->mode < t->order;
}

static int next_read(void *ctx, struct ts_read_job *job)
{
    struct disk *d = ctx;
    int there;
    pthread_mutex_lock(&d->lock);
    there = d->n_free > 0 && more_shards(d);
    if (there && d->sample->tensor.dense != NULL) {
        const uint64_t left = array_end(d->sample->tensor.dense) - d->at;
        const uint32_t buffer = d->free_buffer[--d->n_free];
        d->start_ns = d->start_ns == 0 ? ts_clock_ns() : d->start_ns;
        *job = (struct ts_read_job){ .offset = d->at,
                                     .bytes = left < READ_BYTES ? left : READ_BYTES,
                                     .addr = d->memory + buffer * READ_BYTES,
                                     .tag = buffer };
        d->at += job->bytes;
    } else if (there) {
        const struct ts_disk_shard *s = &d->sample->tensor.mode[d->mode].shard[d->shard];
        const uint64_t all = (s->stored_bytes + (uint64_t)TS_PAGE - 1) / TS_PAGE * TS_PAGE;
        const uint32_t buffer = d->free_buffer[--d->n_free];
        d->start_ns = d->start_ns == 0 ? ts_clock_ns() : d->start_ns;
        *job = (struct ts_read_job){ .file = d->mode,
                                     .offset = s->offset + d->at,
                                     .bytes = all - d->at < READ_BYTES ? all - d->at : READ_BYTES,
                                     .addr = d->memory + buffer * READ_BYTES,
                                     .tag = buffer };
        d->at += job->bytes;
        if (d->at == all) {
            d->at = 0;
            d->shard++;
        }
        /* the time for measuring is over: no more reads */
    } else
        pthread_cond_signal(&d->change);
    pthread_mutex_unlock(&d->lock);
    return there;
}

static void read_done(void *ctx, const struct ts_read_job *job, int rc, const struct ts_err *err)
{
    struct disk *d = ctx;
    pthread_mutex_lock(&d->lock);
    d->free_buffer[d->n_free++] = (uint32_t)job->tag;
    if (rc == 0)
        d->bytes += job->bytes;
    else if (d->rc == 0) {
        d->rc = rc;
        d->err = *err;
    }
    pthread_cond_signal(&d->change);
    pthread_mutex_unlock(&d->lock);
}

/* Waits until no read is left. Calls ts_reader_kick after each read, so that the reader begins
 * the next ones. */
static void read_all(struct disk *d, struct ts_reader *reader)
{
    pthread_mutex_lock(&d->lock);
    while (more_shards(d) || d->n_free < READ_BUFFERS) {
        pthread_cond_wait(&d->change, &d->lock);
        pthread_mutex_unlock(&d->lock);
        ts_reader_kick(reader);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
}

int tstream_sample_disk(const struct tstream_sample *s, double *ret, struct ts_err *err)
{
    const char *path[TS_MAX_ORDER];
    int fd[TS_MAX_ORDER];
    struct disk d = { .sample = s,
                      .n_free = READ_BUFFERS,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .change = PTHREAD_COND_INITIALIZER };
    struct ts_reader_conf conf = { .n_files = s->tensor.order,
                                   .path = path,
                                   .fd = fd,
                                   .buffer_bytes = READ_BYTES,
                                   .n_buffers = READ_BUFFERS,
                                   .next = next_read,
                                   .done = read_done,
                                   .ctx = &d };
    struct ts_reader *reader;
    int rc = ts_bigmem_new(READ_BUFFERS * READ_BYTES, "buffers", (void **)&d.memory, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < READ_BUFFERS; i++)
        d.free_buffer[i] = i;
    for (uint32_t m = 0; m < s->tensor.order; m++) {
        path[m] = s->tensor.mode[m].shards_path;
        fd[m] = s->tensor.mode[m].shards_fd;
    }
    if (s->tensor.dense != NULL) {
        conf.n_files = 1;
        path[0] = s->tensor.dense->array.file;
        fd[0] = s->tensor.dense->fd;
        d.at = s->tensor.dense->array.offset / TS_PAGE * TS_PAGE;
    }
    conf.buffers = d.memory;
    rc = ts_reader_new(&conf, &reader, err);
    if (rc == 0) {
        read_all(&d, reader);
        *ret = d.bytes == 0 ? 0 : (double)d.bytes / seconds(ts_clock_ns() - d.start_ns);
        ts_reader_free(reader);
        rc = d.rc;
        if (rc < 0)
            *err = d.err;
    }
    ts_bigmem_free(d.memory, READ_BUFFERS * READ_BYTES);
    return rc;
}
