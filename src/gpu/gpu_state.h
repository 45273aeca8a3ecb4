/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_state.h - what the GPU backend holds, shared by its files.
 *
 * A backend is a team: one member for each device, which holds a replica of every factor matrix.
 * For a mode, each member has a contiguous range of shards, some of which it keeps. Member 0 works
 * in the thread that calls the backend, every other one in a thread of its own.
 *
 *   gpu_plan.c    sizes, and what the memory left for shards is spent on
 *   gpu_device.c  a member's memory and streams
 *   gpu_team.c    the threads: a job for all, barriers, failures
 *   gpu_pass.c    a member's pass over a mode: shards in, kernels launched
 *   gpu_early.c   shards of the next mode, copied while one ends
 *   gpu_rows.c    what a pass does with complete rows: solving, exchanging, adding up
 *   gpu_dense.c   rows put and fetched, solved and scaled outside of a pass
 *   gpu_keep.c    ranges that move, and kept shards with them
 *   gpu_log.c     when copies and kernels ran
 *   gpu_times.c   what that makes of a pass: times, a trace, the cost of ranges
 *
 *   owner    gpu_backend.c makes and frees it
 *   units    bytes; offsets of rows in elements times ld
 *   threads  a member's own fields: its thread. The rest: read in jobs, written between them, but for
 *            the board
 * */
#ifndef TS_GPU_GPU_STATE_H
#define TS_GPU_GPU_STATE_H

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdatomic.h>

#include "format/shard.h"
#include "gpu/exchange.h"
#include "gpu/gpu_log.h"
#include "gpu/mttkrp_kernel.h"
#include "stream/backend.h"

enum {
    /* Shards under way when not all stay on the device, three quarters of them at most for the next
     * mode: from the last copy of a mode to the next's first a millisecond and a half pass, in which a
     * link brings 18 of 4 MiB. */
    TS_GPU_SLOTS = 24,
    /* of kernels: a shard has too few partitions to fill a large GPU alone, and beside kept ones it
     * takes half a millisecond, in which ten more of 4 MiB come over the link */
    TS_GPU_STREAMS = 16,
    TS_GPU_KEPT_STREAMS = 2, /* of kept shards: the end of one chunk overlaps with the next */
    TS_GPU_LENT = 4,   /* shards on their way from host memory: enough to keep the link at work */
    TS_GPU_CHUNKS = 6, /* most parts of a member's range that are sent on their own */
};

/* A mode, the same for all members. */
struct ts_gpu_mode {
    const struct ts_disk_shard *shard;
    uint64_t n_shards, n_rows, n_partitions;
    uint64_t *first_partition;          /* n_shards: partitions before each */
    uint64_t first[TS_MAX_DEVICES + 1]; /* member i has the shards first[i] .. first[i + 1] - 1 */
    uint64_t version;                   /* of what follows: tables on devices are made from it */
    unsigned char *keep;                /* n_shards: it stays with the member of its range */
    unsigned char *present;             /* n_shards: and is there */
    uint64_t *place;                    /* n_shards: where, in that member's `kept` */
    uint32_t *boundary;                 /* first and last rows of shards, ascending, each once */
    uint64_t n_boundary;
};

/* A shard that was copied to its slot before the pass over its mode. */
struct ts_gpu_early {
    enum {
        TS_EARLY_NONE,
        TS_EARLY_HERE,
        TS_EARLY_TAKEN
    } state; /* taken: the pass computes on it */
    uint32_t mode;
    uint64_t shard, bytes;
    uint64_t given_ns;          /* when the copy was enqueued */
    cudaEvent_t began, arrived; /* the copy, with times */
};

struct ts_gpu_slot {
    char *addr;
    cudaEvent_t used; /* the kernel that read it has ended */
    struct ts_gpu_early early;
};

/* Descriptions of the kept shards of a mode on a device, chunk after chunk. */
struct ts_gpu_table {
    struct ts_gpu_shard *entry; /* device; n_shards of the mode */
    uint64_t version;           /* of the mode when it was made; 0: never */
    uint32_t n[TS_GPU_CHUNKS], n_partitions[TS_GPU_CHUNKS]; /* of each chunk */
};

struct ts_gpu;

struct ts_gpu_member {
    struct ts_gpu *gpu; /* whose member it is */
    uint32_t number;    /* in the team */
    int device;
    pthread_t thread;

    /* device memory: one allocation for all but shards, one for shards */
    char *work, *store;
    char *factor[TS_MAX_ORDER]; /* n_rows x ld */
    double *product;            /* n_rows of the last mode x ld, summed in float64; or NULL */
    void *edge;                 /* 2 rows a partition, of the largest mode */
    uint32_t *edge_row;
    void *shard_edge;                  /* ts_edge_count(shards of the largest mode) rows */
    uint32_t *shard_row[TS_MAX_ORDER]; /* ts_edge_count(n_shards) of rows that never change */
    uint32_t *boundary[TS_MAX_ORDER];  /* as in struct ts_gpu_mode */
    double *row_inner;                 /* by row, of the largest mode */
    double *dict;
    double *parts;        /* of a Gram matrix: ts_dense_scratch */
    double *sums;         /* TS_DENSE_SUM_SCRATCH */
    double *gram, *inner; /* ld x ld, and 1 behind it */
    double *w;            /* ld x ld */
    double *stage;        /* stage_rows x rank */
    void *host;           /* page-locked: w, or gram and inner */
    struct ts_gpu_table table[TS_MAX_ORDER];

    char *kept;           /* in `store`: shards that stay */
    uint64_t *free_place; /* stack of places in it that hold none */
    uint64_t n_free;
    struct ts_gpu_slot slot[TS_GPU_SLOTS]; /* in `store` */
    uint32_t next_slot, next_stream;

    cudaStream_t copy, compute[TS_GPU_STREAMS], keeping[TS_GPU_KEPT_STREAMS], dense, send;
    cudaEvent_t
        joined[TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS]; /* what a stream was given has ended */
    cudaEvent_t solved[TS_GPU_CHUNKS]; /* rows that can be sent, by order of publishing */
    cudaEvent_t copied[TS_GPU_LENT];
    cudaEvent_t ready, received, over;
    struct ts_gpu_log log;
};

/* What the members tell each other in a pass. A chunk is a part of a member's range; it is
 * published once all its shards were taken (mostly by the member, some by others that had nothing
 * left) and the member's own of them are under way. */
struct ts_gpu_board {
    uint32_t n_chunks;    /* of each member */
    unsigned char *taken; /* by shard: the member that computes it; largest mode */
    _Atomic uint64_t
        left[TS_MAX_DEVICES][TS_GPU_CHUNKS]; /* shards of a chunk that nobody took yet */
    _Atomic uint32_t n_published[TS_MAX_DEVICES];
    /* What each member has for the gathers, in the order it published; then of shards' edges and of
     * shards it took from others. Of rows, and of row_inner. */
    struct ts_exchange_part rows[TS_GPU_CHUNKS + 1][TS_MAX_DEVICES];
    struct ts_exchange_part inner[TS_GPU_CHUNKS + 1][TS_MAX_DEVICES];
    struct ts_exchange_part edges[TS_MAX_DEVICES];
    _Atomic int any_stolen;
    struct ts_exchange_span *span[TS_MAX_DEVICES]; /* memory of the above */
    uint64_t n_span[TS_MAX_DEVICES];
};

typedef int (*ts_gpu_job)(struct ts_gpu *g, struct ts_gpu_member *me, void *arg,
                          struct ts_err *err);

struct ts_gpu_team {
    int up, quit;
    uint32_t n_threads; /* started */
    pthread_mutex_t lock;
    pthread_cond_t go, done;
    uint64_t turn; /* counts jobs */
    uint32_t n_busy;
    ts_gpu_job job;
    void *arg;
    struct ts_feed *feed;                /* of the job, or NULL: told of a failure */
    _Atomic int failed;                  /* code of the first failure */
    struct ts_err err;                   /* and its sentence */
    _Atomic uint32_t n_waiting, barrier; /* at the barrier; barriers passed */
};

struct ts_gpu {
    const struct ts_tensor *tensor;
    enum ts_precision precision, summed; /* of factors; of products in the last mode */
    int keeps_rest;             /* a product summed in float64 is kept so, whatever the precision */
    uint32_t rank, ld, element; /* element: bytes */
    int only_mode;
    struct ts_trace *trace;
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    uint64_t stage_rows;
    struct ts_gpu_mode mode[TS_MAX_ORDER];

    uint32_t n_members;
    struct ts_gpu_member member[TS_MAX_DEVICES];
    struct ts_gpu_team team;
    struct ts_exchange *exchange; /* NULL: one member */
    struct ts_gpu_board board;

    uint64_t slot_bytes;
    uint64_t place_bytes, n_places; /* for kept shards of each member; one member packs them: 0 */
    uint64_t store_bytes;           /* all slots and places */
    uint64_t driver_bytes[TS_MAX_DEVICES]; /* of each member: what is no allocation of ours */
    uint32_t n_slots;
};

/* Bytes that a shard takes on the device. */
static inline uint64_t ts_gpu_place(const struct ts_disk_shard *s)
{
    return ((uint64_t)s->raw_bytes + TS_SHARD_SLACK + 255) / 256 * 256;
}

static inline uint64_t ts_gpu_row_bytes(const struct ts_gpu *g)
{
    return (uint64_t)g->ld * g->element;
}

/* Rows of edges of a pass whose products are summed in float64 (wide), or in the precision. */
static inline uint64_t ts_gpu_edge_bytes(const struct ts_gpu *g, int wide)
{
    return (uint64_t)g->ld * (wide ? 8 : g->element);
}

static inline int ts_gpu_served(const struct ts_gpu *g, uint32_t mode)
{
    return g->only_mode < 0 || (uint32_t)g->only_mode == mode;
}

/* First shard of chunk c (up to n_chunks: the end) of a member's range. */
static inline uint64_t ts_gpu_chunk(const struct ts_gpu *g, const struct ts_gpu_mode *m,
                                    uint32_t member, uint32_t c)
{
    const uint64_t n = m->first[member + 1] - m->first[member];
    return m->first[member] + n * c / g->board.n_chunks;
}

/* ---- gpu_plan.c */
int ts_gpu_plan_new(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err);
void ts_gpu_plan_free(struct ts_gpu *g);
uint32_t ts_gpu_plan_stride(uint32_t rank, uint32_t element);
uint64_t ts_gpu_plan_factors(const struct ts_gpu *g);
uint64_t ts_gpu_plan_largest(const struct ts_gpu *g); /* place of the largest shard */
/* Chooses what stays, slots and store_bytes, for `left` bytes on each device, two shards at
 * least. */
int ts_gpu_plan_shards(struct ts_gpu *g, uint64_t left, struct ts_err *err);

/* ---- gpu_device.c; the calling thread's device becomes the member's */
uint64_t ts_gpu_device_work_bytes(const struct ts_gpu *g); /* factors included */
int ts_gpu_device_open(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err);
/* Runs every kernel once on nothing, so that its code is loaded and counted. A ts_gpu_job. */
int ts_gpu_device_warm(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err);
int ts_gpu_device_store(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err);
void ts_gpu_device_close(struct ts_gpu_member *me);
/* Sends `rows` x rank as rows x ld to me->w, on the dense stream, by a kernel that reads host memory: a
 * copy would wait for those of shards. */
cudaError_t ts_gpu_device_send_w(const struct ts_gpu *g, struct ts_gpu_member *me,
                                 const double *from, uint32_t rows);

/* ---- gpu_team.c */
int ts_gpu_team_open(struct ts_gpu *g, struct ts_err *err);
void ts_gpu_team_close(struct ts_gpu *g);
/* Every member does the job; feed: what they take shards from, or NULL. The first failure, if
 * any. */
int ts_gpu_team_run(struct ts_gpu *g, ts_gpu_job job, void *arg, struct ts_feed *feed,
                    struct ts_err *err);
/* All members are here; or one failed, and its code. */
int ts_gpu_team_barrier(struct ts_gpu *g, struct ts_err *err);
/* Waits for the device, looking out for failures of others. */
int ts_gpu_team_wait(struct ts_gpu *g, struct ts_gpu_member *me, cudaEvent_t event,
                     struct ts_err *err);
/* Between looks at something: yields at first, then sleeps. *n counts them, from 0. */
void ts_gpu_team_pause(uint32_t *n);
int ts_gpu_team_failed(struct ts_gpu *g, struct ts_err *err); /* 0, or the first failure */

/* ---- gpu_pass.c */
struct ts_gpu_request {
    uint32_t mode;
    struct ts_feed *feed;
    const double *w;      /* NULL: the product alone */
    double *gram, *inner; /* inner may be NULL */
};

/* The whole of it, from the thread that calls the backend. */
int ts_gpu_pass_run(struct ts_gpu *g, const struct ts_gpu_request *request,
                    struct ts_backend_times *times, struct ts_err *err);

/* ---- gpu_rows.c */
struct ts_gpu_pass { /* of a member */
    struct ts_gpu *g;
    struct ts_gpu_member *me;
    const struct ts_gpu_request *ask;
    const struct ts_gpu_mode *mode;
    struct ts_gpu_mttkrp args;
    int wide;                     /* rows of float32 are multiplied and summed in float64 */
    uint32_t unjoined;            /* bit i: compute[i] has work that `dense` does not wait for */
    uint32_t published;           /* bit c: chunk c is */
    uint32_t n_published, n_sent; /* chunks published; gathers of chunks enqueued */
    uint32_t n_exchanges;         /* groups of gathers enqueued: the same for all members */
    uint64_t nnz, kept_nnz;       /* computed; of that, of shards that were here before */
    uint64_t bytes, early_bytes;  /* of shards that came from the host; of these, before the pass */
    uint64_t wait_ns, n_filled;   /* for shards; shards kept from now on */
};

/* Looks for chunks that can be solved, published or sent. */
int ts_gpu_rows_advance(struct ts_gpu_pass *p, struct ts_err *err);
/* Everything of the member is launched: the rest of the pass, to its end on the device. */
int ts_gpu_rows_finish(struct ts_gpu_pass *p, struct ts_err *err);

/* ---- gpu_early.c */
/* Slots, one after the other, that shards of the next mode may take; at least one is left, which with
 * those behind it comes first in the pass. */
static inline uint32_t ts_gpu_early_most(const struct ts_gpu *g)
{
    return g->n_slots * 3 / 4;
}
/* Enqueues copies of shards that the next pass is expected to begin with, all of this one's being
 * enqueued, and has told the log of those that came so for this one. */
cudaError_t ts_gpu_early_send(struct ts_gpu_pass *p);
int ts_gpu_early_any(const struct ts_gpu_pass *p); /* some of the mode are here */
/* The slot that holds the shard since before the pass, which now computes on it; NULL: none does. */
struct ts_gpu_slot *ts_gpu_early_take(struct ts_gpu_pass *p, uint64_t shard);

/* ---- gpu_times.c */
/* After a pass that began at start_ns, pass[i] being member i's: fills times->device, total_ns being
 * there, and range_ns[i] with what the range of member i costs it. Tells the trace. */
void ts_gpu_times_collect(struct ts_gpu *g, const struct ts_gpu_pass *pass, uint64_t start_ns,
                          struct ts_backend_times *times, uint64_t *range_ns);

/* ---- gpu_dense.c: what the backend's table says, of the same names */
int ts_gpu_dense_put(struct ts_gpu *g, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                     struct ts_err *err);
int ts_gpu_dense_get(struct ts_gpu *g, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                     struct ts_err *err);
int ts_gpu_dense_solve(struct ts_gpu *g, uint32_t mode, const double *w, double *gram,
                       double *inner, struct ts_err *err);
int ts_gpu_dense_scale(struct ts_gpu *g, uint32_t mode, const double *s, struct ts_err *err);
int ts_gpu_dense_gram(struct ts_gpu *g, uint32_t mode, double *gram, struct ts_err *err);
/* On member 0, all parts being there: Gram matrix and (inner != 0) the sum of row_inner, on their
 * way to me->host; and from there, once `dense` has ended. */
cudaError_t ts_gpu_dense_sum_up(const struct ts_gpu *g, struct ts_gpu_member *me, uint32_t mode,
                                int inner);
void ts_gpu_dense_copy_out(const struct ts_gpu *g, double *gram, double *inner);

/* ---- gpu_keep.c */
/* After a pass over `mode` in which member i was at work for busy_ns[i]: moves ranges, with the
 * shards that are kept, and tells the feed. share[i]: of the cost, what member i gets next. */
int ts_gpu_keep_balance(struct ts_gpu *g, uint32_t mode, const uint64_t *busy_ns,
                        struct ts_feed *feed, double *share, struct ts_err *err);

#endif
