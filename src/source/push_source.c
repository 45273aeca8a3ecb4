/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills batches from arrays that a program gives, and hands them to the sink of the build. */
#include "source/push_source.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "source/batch.h"

#define PIECE UINT64_C(16384) /* nonzeros in a batch */

struct ts_push_source {
    uint32_t value_bytes, n_dims;
    int zeros;   /* 1: zeros are kept */
    int weights; /* 1: nonzeros have weights */
    uint64_t dim[TS_MAX_ORDER];
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t moved;
    struct ts_sink to;
    int started; /* 1: between start and stop of the build */
    int stopped, ended, failed;
    struct ts_err why; /* the failure that ended the source */
    uint64_t given;    /* number of nonzeros given so far; atomic */
    struct ts_batch batch;
};

int ts_push_source_new(uint32_t order, uint32_t value_bytes, int zeros, int weights,
                       uint32_t n_dims, const uint64_t dim[], struct ts_push_source **ret,
                       struct ts_err *err)
{
    struct ts_push_source *s = calloc(1, sizeof *s);
    int rc;
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for nonzeros");
    rc = ts_batch_new(order, PIECE, &s->batch, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    ts_batch_clear(&s->batch);
    s->value_bytes = value_bytes;
    s->zeros = zeros;
    s->weights = weights;
    s->n_dims = n_dims;
    if (n_dims > 0)
        memcpy(s->dim, dim, n_dims * sizeof *dim);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->moved, NULL);
    *ret = s;
    return 0;
}

void ts_push_source_free(struct ts_push_source *s)
{
    if (s == NULL)
        return;
    pthread_cond_destroy(&s->moved);
    pthread_mutex_destroy(&s->lock);
    ts_batch_free(&s->batch);
    free(s);
}

uint32_t ts_push_source_order(const struct ts_push_source *s)
{
    return s->batch.order;
}

static int start(void *self, const struct ts_sink *to, struct ts_err *err)
{
    struct ts_push_source *s = self;
    (void)err;
    pthread_mutex_lock(&s->lock);
    s->to = *to;
    s->started = 1;
    if (s->failed) /* the program reported a failure before the start */
        to->fail(to->self, TS_SINK_ANY, &s->why, NULL, 0, 0);
    if (s->ended) /* the program may have given its last nonzero before the start */
        to->done(to->self);
    pthread_cond_broadcast(&s->moved);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static void stop(void *self)
{
    struct ts_push_source *s = self;
    pthread_mutex_lock(&s->lock);
    s->started = 0;
    s->stopped = 1;
    pthread_cond_broadcast(&s->moved);
    pthread_mutex_unlock(&s->lock);
}

static int check_index(const struct ts_push_source *s, uint64_t nonzero, const uint64_t *index,
                       struct ts_err *err)
{
    for (uint32_t m = 0; m < s->batch.order; m++) {
        if (s->n_dims > 0 && index[m] >= s->dim[m])
            return ts_fail(err, TS_EARG,
                           "nonzero %" PRIu64 ": index %" PRIu64 " of " TS_NTH_MODE
                           " is beyond its size of %" PRIu64 " (indices start at 0)",
                           nonzero, index[m], m + 1, s->dim[m]);
        if (index[m] >= TS_MAX_DIM)
            return ts_fail(err, TS_ELIMIT,
                           "nonzero %" PRIu64 ": index %" PRIu64 " of " TS_NTH_MODE
                           " is beyond 2^40 - 1, the largest",
                           nonzero, index[m], m + 1);
    }
    return 0;
}

static int check_weight(uint64_t nonzero, double weight, struct ts_err *err)
{
    return weight >= 0 && isfinite((float)weight)
               ? 0
               : ts_fail(err, TS_EARG,
                         "nonzero %" PRIu64
                         ": weight %g is not a number of 0 or more that float32 holds",
                         nonzero, weight);
}

/* Adds one nonzero to the batch, which has space for it. Zeros are dropped and counted, unless they
 * are kept. nonzero: its number, for messages. */
static int add_nonzero(struct ts_push_source *s, uint64_t nonzero, const uint64_t *index,
                       double value, double weight, struct ts_err *err)
{
    struct ts_batch *b = &s->batch;
    const double kept = s->value_bytes == 4 ? (double)(float)value : value;
    uint64_t bits;
    int rc = check_index(s, nonzero, index, err);
    if (rc == 0 && s->weights)
        rc = check_weight(nonzero, weight, err);
    if (rc < 0)
        return rc;
    if (!isfinite(kept))
        return ts_fail(err, TS_EARG, "nonzero %" PRIu64 ": value %g %s", nonzero, value,
                       isfinite(value) ? "is beyond the range of float32" : "is not finite");
    for (uint32_t m = 0; m < b->order; m++)
        b->max[m] = index[m] > b->max[m] ? index[m] : b->max[m];
    bits = ts_value_keep(value, s->value_bytes, &b->n_rounded);
    b->n_read++;
    if (bits == 0 && !s->zeros) {
        b->n_zeros++;
        return 0;
    }
    memcpy(b->index + b->n * b->order, index, b->order * sizeof *index);
    if (s->weights)
        bits = ts_weighted_bits(bits, ts_weight_keep(weight, &b->n_rounded));
    b->value[b->n++] = bits;
    return 0;
}

/* Puts the batch into the sink of the build, and empties it. */
static int hand_over(struct ts_push_source *s, struct ts_err *err)
{
    struct ts_err why;
    const int rc = s->to.put(s->to.self, TS_SINK_ANY, &s->batch);
    ts_batch_clear(&s->batch);
    if (rc == 0)
        return 0;
    s->to.why(s->to.self, &why);
    if (err != NULL)
        *err = why;
    return why.code;
}

static int add_locked(struct ts_push_source *s, uint64_t n, const uint64_t *const column[],
                      uint64_t step, const double *value, const double *weight, struct ts_err *err)
{
    const uint32_t order = s->batch.order;
    uint64_t row[TS_MAX_ORDER];
    int rc = 0;
    while (!s->started && !s->stopped)
        pthread_cond_wait(&s->moved, &s->lock);
    if (s->stopped || s->ended || s->failed)
        return ts_fail(err, TS_EARG, "the build takes no more nonzeros: it ended or failed");
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        for (uint32_t m = 0; m < order; m++)
            row[m] = column[m][i * step];
        rc = add_nonzero(s, s->given + i, row, value[i], weight == NULL ? 1 : weight[i], err);
        if (rc == 0 && (s->batch.n == PIECE || s->batch.n_zeros == PIECE))
            rc = hand_over(s, err);
    }
    __atomic_fetch_add(&s->given, n, __ATOMIC_RELAXED);
    return rc;
}

static void fail_locked(struct ts_push_source *s, const struct ts_err *why)
{
    if (s->failed || s->ended || s->stopped)
        return;
    s->failed = 1;
    s->why = *why;
    if (s->started)
        s->to.fail(s->to.self, TS_SINK_ANY, why, NULL, 0, 0);
}

void ts_push_source_fail(struct ts_push_source *s, const struct ts_err *why)
{
    pthread_mutex_lock(&s->lock);
    fail_locked(s, why);
    pthread_mutex_unlock(&s->lock);
}

static int add(struct ts_push_source *s, uint64_t n, const uint64_t *const column[], uint64_t step,
               const double *value, const double *weight, struct ts_err *err)
{
    struct ts_err why = { 0 };
    int rc;
    pthread_mutex_lock(&s->lock);
    rc = add_locked(s, n, column, step, value, weight, &why);
    if (rc < 0)
        fail_locked(s, &why);
    pthread_mutex_unlock(&s->lock);
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

int ts_push_source_add(struct ts_push_source *s, uint64_t n, const uint64_t *index,
                       const double *value, const double *weight, struct ts_err *err)
{
    const uint64_t *column[TS_MAX_ORDER];
    for (uint32_t m = 0; m < s->batch.order; m++)
        column[m] = n > 0 ? index + m : NULL;
    return add(s, n, column, s->batch.order, value, weight, err);
}

int ts_push_source_add_columns(struct ts_push_source *s, uint64_t n, const uint64_t *const column[],
                               const double *value, const double *weight, struct ts_err *err)
{
    return add(s, n, column, 1, value, weight, err);
}

void ts_push_source_end(struct ts_push_source *s)
{
    pthread_mutex_lock(&s->lock);
    if (!s->ended && s->started) {
        if (!s->failed)
            /* a failure is not reported here, because the build reports it */
            (void)hand_over(s, NULL);
        s->to.done(s->to.self);
    }
    s->ended = 1;
    pthread_mutex_unlock(&s->lock);
}

static void progress(const void *self, uint64_t *done, uint64_t *total)
{
    const struct ts_push_source *s = self;
    *done = __atomic_load_n(&s->given, __ATOMIC_RELAXED);
    *total = 0;
}

struct ts_source ts_push_source_as_source(struct ts_push_source *s)
{
    return (struct ts_source){
        .self = s,
        .unit = "nonzeros",
        .threads = 1,
        .start = start,
        .stop = stop,
        .progress = progress,
    };
}
