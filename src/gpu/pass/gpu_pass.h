/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_pass.h - a pass over a mode: its requests, the state of each member, and its steps.
 *
 *   owner    ts_gpu_pass_run owns the structs; memory that a request points to belongs to the
 *            caller
 *   units    nanoseconds, bytes, nonzeros
 *   threads  ts_gpu_pass_run from the thread that calls the backend; the others from the member's
 *            thread
 *   errors   0 or a negative ts_code, or a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_GPU_PASS_H
#define TS_GPU_GPU_PASS_H

#include "gpu/team/gpu_state.h"

/* ---- defined in gpu_pass.c */
struct ts_gpu_request {
    uint32_t mode;
    struct ts_feed *feed;
    /* kind of all requests; TS_REQUEST_DESCEND: gradients over nonzeros */
    enum ts_request_kind kind;
    uint32_t n; /* number of models */
    /* the requests, one for each model; `be` is a struct ts_gpu_model */
    const struct ts_request *of;
    int multiplies; /* for TS_REQUEST_MULTIPLY, 1 if this pass multiplies rows in rounds */
    /* for TS_REQUEST_MULTIPLY, 1 if models that ask for it are evaluated after their rounds */
    int judges;
};

/* Whether a pass only sums over nonzeros, and computes no rows. */
static inline int ts_gpu_only_sums(const struct ts_gpu_request *ask)
{
    return ask->kind == TS_REQUEST_ERRORS || ask->kind == TS_REQUEST_LOSSES ||
           ask->kind == TS_REQUEST_SCORES;
}

/* level[m] := the level of mode m in the shards of `mode`; level 0 is the mode by which their
 * nonzeros are sorted. */
static inline void ts_gpu_find_levels(const struct ts_gpu *g, uint32_t mode, uint8_t *level)
{
    for (uint32_t l = 0; l < g->tensor->order; l++)
        level[g->tensor->mode[mode].disk.level[l]] = (uint8_t)l;
}

/* Makes a whole pass over a mode on all members (GPUs) of this process. To be called from the
 * thread that calls the backend. */
int ts_gpu_pass_run(struct ts_gpu *g, const struct ts_gpu_request *request,
                    struct ts_backend_times *times, struct ts_err *err);

struct ts_gpu_pass;

struct ts_gpu_product { /* the work of a member's pass on one model */
    struct ts_gpu_pass *pass;
    struct ts_gpu_model *of;
    struct ts_gpu_replica *my;
    const struct ts_request *want;
    /* the update to be made after the product; NULL: only the product is computed */
    const struct ts_row_update *update;
    /* sums of the new rows to be computed; NULL if `update` is NULL */
    const struct ts_row_sums *sums;
    uint32_t rounds;           /* rounds of rows that are multiplied in this pass */
    struct ts_gpu_mttkrp args; /* arguments of kernels, except the shards */
    int wide;                  /* 1: factors are float32, products and sums are float64 */
    int apart;                 /* 1: products are stored apart from the factor (ts_gpu_owns) */
    enum ts_gpu_buffer out;    /* the buffer of the products */
    uint64_t out_bytes;        /* bytes of a row in this buffer */
};

/* The shards of a launch: one, or `n_many` of a table on the device. */
struct ts_gpu_shards {
    struct ts_gpu_shard one;
    const struct ts_gpu_shard *many;
    uint32_t n_many, n_shares;
};

/* A streamed shard whose kernels are to be launched; its stream waits for the copy. */
struct ts_gpu_due {
    struct ts_gpu_shards shards;
    struct ts_gpu_slot *slot; /* slot of the shard; NULL: the shard stays on the device */
    uint32_t stream;          /* number of its stream in `compute` */
};

struct ts_gpu_pass { /* a member's pass */
    struct ts_gpu *g;
    struct ts_gpu_member *me;
    const struct ts_gpu_request *ask;
    const struct ts_gpu_mode *mode;
    uint32_t n;                     /* number of products */
    struct ts_gpu_product *product; /* the products of the member (GPU) */
    int alone; /* 1: the mode has one shard and the team one member, so no shards share rows */
    /* 1: the kernels after the product are launched as one graph, including those that add edge
     * rows (partial sums of rows) */
    int as_graph;
    int updating;      /* 1: the data for the updates was sent to the device */
    uint32_t unjoined; /* bit i: the stream `dense` does not wait for compute[i] yet */
    /* bit c: the other members (GPUs) know that the rows of chunk c can be gathered */
    uint32_t published;
    /* n_published: number of chunks whose rows can be gathered; n_sent: of those whose gathers are
     * enqueued */
    uint32_t n_published, n_sent;
    /* groups of gathers enqueued so far, the same for all members (GPUs) */
    uint32_t n_exchanges;
    int exchanging;           /* 1: a group of gathers has begun and not ended */
    uint64_t exchanged_bytes; /* bytes that this member (GPU) sends in the current group */
    uint64_t nnz, kept_nnz;   /* nonzeros that were computed, and those of them in kept shards */
    /* bytes of shards sent by the host, and the part of them that was prefetched */
    uint64_t bytes, early_bytes;
    uint64_t wait_ns, n_filled; /* time of waiting for shards; number of newly kept shards */
    struct ts_gpu_due due[TS_GPU_STREAMS]; /* shards whose kernels are not launched yet */
    uint32_t n_due;
    /* recorded after the kernels of the shards launched last; NULL: none were */
    ts_gpu_event batch_ended;
};

/* ---- defined in gpu_product.c */
/* Fills *r for one model from its request. */
void ts_gpu_product_fill(struct ts_gpu_pass *p, const struct ts_request *u,
                         struct ts_gpu_product *r);

/* ---- defined in gpu_fetch.c, gpu_kept.c */
/* Enqueues the kernels of all shards that the member (GPU) takes: prefetched, kept and streamed
 * ones. */
int ts_gpu_fetch_all(struct ts_gpu_pass *p, struct ts_err *err);
/* Enqueues the kernels of the shards that stay on the device. */
int ts_gpu_kept_take(struct ts_gpu_pass *p, struct ts_err *err);
/* Enqueues the sums of edge rows (partial sums of rows) inside all kept shards, if the team has one
 * member. */
ts_gpu_error ts_gpu_kept_fold(const struct ts_gpu_pass *p);
/* Returns the description of a shard at `addr` on the device, for kernels. */
static inline struct ts_gpu_shard ts_gpu_describe(const struct ts_gpu_mode *m, uint64_t shard,
                                                  const void *addr)
{
    const struct ts_disk_shard *s = &m->shard[shard];
    const struct ts_gpu_shard d = {
        .raw = addr,
        .first_share = m->first_share[shard],
        .n_blocks = s->n_blocks,
        .nnz = s->nnz,
        .row_first = s->row_first,
        .number = (uint32_t)shard,
    };
    return d;
}
/* Makes a stream wait for the scaling of factors, if that may still be running. */
ts_gpu_error ts_gpu_wait_for_scaling(const struct ts_gpu_member *me, ts_gpu_stream stream);

/* ---- defined in gpu_rows.c, gpu_finish.c, gpu_gather.c */
/* Prepares for the rows that members (GPUs) of other processes send in this pass. `p` is the pass
 * of a member here, whose products are known. Not to be called during a job. */
void ts_gpu_rows_expect(struct ts_gpu_pass *p);
/* Sends the data for the updates of rows to the device, once in a pass. The first member that calls
 * it makes the data ready. To be called when the device has other work, and before rows are
 * solved. */
int ts_gpu_rows_prepare(struct ts_gpu_pass *p, struct ts_err *err);
/* For each chunk (part of the member's range) whose shards are all taken, solves for the rows,
 * tells the other members (GPUs) that they can be gathered, and sends them. */
int ts_gpu_rows_advance(struct ts_gpu_pass *p, struct ts_err *err);
/* Enqueues the end of the pass (solves for rows that shards share, the last gathers, the Gram
 * matrix), and waits for it. To be called after all kernels of the member's shards were
 * enqueued. */
int ts_gpu_rows_finish(struct ts_gpu_pass *p, struct ts_err *err);
/* Called after the member's gathers: makes the stream `dense` wait for the data of all other
 * members (GPUs). */
int ts_gpu_rows_receive(struct ts_gpu_pass *p, struct ts_err *err);

/* ---- defined in gpu_launch.c */
/* Launches the products, or other requests, of all models for some shards on one stream. */
ts_gpu_error ts_gpu_launch_products(const struct ts_gpu_pass *p, const struct ts_gpu_shards *s,
                                    ts_gpu_stream stream);
/* Launches the products of all models, then the sums of ts_gpu_fold_shards, for all due shards
 * (copied, but not computed yet), each on its stream. Models come one after another, so that most
 * kernels at a time read the same factors, which stay in the second-level cache. */
ts_gpu_error ts_gpu_launch_due(const struct ts_gpu_pass *p);
/* Launches, after the products, the sums of rows that several thread blocks of a shard have in
 * common. */
ts_gpu_error ts_gpu_fold_shards(const struct ts_gpu_pass *p, const struct ts_gpu_shards *s,
                                ts_gpu_stream stream);

/* ---- defined in gpu_early.c */
/* Returns the most slots that prefetched shards may take. They take consecutive slots, and at least
 * one slot is left, with which the next pass starts its own copies. */
static inline uint32_t ts_gpu_early_most(const struct ts_gpu *g)
{
    return g->n_slots * 3 / 4;
}
/* Call after this pass's last copy is enqueued. Logs the copies that were prefetched for this pass,
 * then prefetches the shards that the next pass should start with. */
ts_gpu_error ts_gpu_early_send(struct ts_gpu_pass *p);
int ts_gpu_early_any(const struct ts_gpu_pass *p); /* whether shards of the mode are prefetched */
/* Takes a prefetched shard for this pass and returns its slot; NULL: it is not prefetched. */
struct ts_gpu_slot *ts_gpu_early_take(struct ts_gpu_pass *p, uint64_t shard);

/* ---- defined in gpu_times.c */
/* To be called after a pass that began at start_ns; pass[i] is the pass of member i of this
 * process. Fills times->device (total_ns must be set) and range_ns[i], the cost of member i's
 * range. Adds the spans to the trace. */
void ts_gpu_times_collect(struct ts_gpu *g, const struct ts_gpu_pass *pass, uint64_t start_ns,
                          struct ts_backend_times *times, uint64_t *range_ns);

#endif
