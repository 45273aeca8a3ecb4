/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_state.h - what the GPU backend holds, shared by its files.
 *
 * A backend is a team: one member for each device, which holds a replica of every factor matrix.
 * For a mode, each member has a contiguous range of shards, some of which it keeps. Member 0 works
 * in the thread that calls the backend, every other one in a thread of its own. Of several models
 * each has memory of its own on every device; shards, streams and tables are those of all. A pass
 * is one for some of them, of which the same kind of thing is wanted: all kernels of a shard are
 * launched while it is there.
 *
 * Of several processes (ranks, stream/comm.h) the team is that of all: each has the members first_here .. first_here +
 * n_here - 1, and knows of the others what it can conclude. So all have the same ranges; what is measured is told to
 * all before it decides anything (gpu_ranks.c), members take no shards of others' ranges, and chunks are published in
 * their order. Then every process knows what every member sends, without a word. "Member 0" below is the first here.
 *
 *   gpu_plan.c    sizes, and which shards stay with the memory that is left
 *   gpu_models.c  how many models there may be at once
 *   gpu_multiply.c  models of counts
 *   gpu_observed.c  models of observed cells, and errors
 *   gpu_loss.c    models by other losses
 *   gpu_score.c   scores of a model
 *   gpu_sums.c    sums of shares on the host
 *   gpu_budget.c  the memory of each device, and what of it is left for shards
 *   gpu_device.c  a member's memory and streams
 *   gpu_team.c    the threads: a job for all, barriers, failures
 *   gpu_pass.c    a member's pass over a mode: shards in, kernels launched
 *   gpu_launch.c  what a pass launches for shards
 *   gpu_early.c   prefetching: shards of the next mode are copied while a pass ends
 *   gpu_rows.c    what a pass does with complete rows: solving, exchanging, adding up
 *   gpu_dense.c   row work outside of a pass: rows in and out, solves, scaling
 *   gpu_keep.c    balancing: moves ranges, and kept shards with them
 *   gpu_ranks.c   several processes: who has which members, what they agree on
 *   gpu_log.c     when copies and kernels ran
 *   gpu_times.c   from the logs: times of a pass, the trace, the cost of ranges
 *   gpu_cells.h   what there is instead of shards where the tensor is dense
 *
 *   owner    gpu_backend.c makes and frees it
 *   units    bytes; offsets of rows in elements times ld
 *   threads  a member's own fields: its thread. Everything else but the board: read during jobs,
 *            written between jobs
 */
#ifndef TS_GPU_GPU_STATE_H
#define TS_GPU_GPU_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "format/shard.h"
#include "gpu/descend_kernel.h"
#include "gpu/exchange.h"
#include "gpu/gpu_graph.h"
#include "gpu/gpu_log.h"
#include "gpu/gpu_types.h"
#include "gpu/mttkrp_kernel.h"
#include "stream/backend.h"

enum {
    /* Slots for shards when not all shards stay on the device; at most three quarters of them hold
     * prefetched shards. Between the last copy of a mode and the first of the next, a millisecond
     * and a half pass. In that time a link brings 18 shards of 4 MiB. */
    TS_GPU_SLOTS = 24,
    /* Streams for kernels of streamed shards: one shard has too few shares to fill a large GPU.
     * Beside kept shards a kernel takes half a millisecond, in which the link brings ten more
     * shards of 4 MiB. */
    TS_GPU_STREAMS = 16,
    TS_GPU_KEPT_STREAMS = 2, /* of kept shards: one chunk ends while the next begins */
    TS_GPU_LENT = 4,    /* shards being copied from host memory: enough to keep the link busy */
    TS_GPU_CHUNKS = 6,  /* most parts into which a member's range is divided for sending */
    TS_GPU_MODELS = 32, /* most models at once: with as many the tensor's part of a pass is small */
};

/* What all members know of a mode. */
struct ts_gpu_mode {
    const struct ts_disk_shard *shard;
    uint64_t n_shards, n_rows;
    uint32_t share_blocks;            /* what a thread block takes: ts_mttkrp_share_blocks */
    uint64_t n_shares, *first_share;  /* for each shard: shares before it */
    uint64_t first[TS_MAX_TEAM + 1];  /* member i has the shards first[i] .. first[i + 1] - 1 */
    uint64_t passed[TS_MAX_TEAM + 1]; /* those of the last pass */
    uint64_t version;                 /* of what follows; tables on devices are made from it */
    unsigned char *keep;              /* for each shard: it stays with the member of its range */
    unsigned char *present;           /* for each shard: and that member has it already */
    unsigned char *deal;              /* for each shard: enum ts_deal, for the feed */
    uint64_t deal_first[TS_MAX_DEVICES + 1]; /* and the ranges of members here, for the feed */
    uint64_t *place;    /* for each shard: its offset in that member's `kept` */
    uint32_t *boundary; /* first and last rows of shards, ascending, each once */
    uint64_t n_boundary;
};

/* A prefetched shard: copied to its slot before the pass over its mode. */
struct ts_gpu_early {
    enum {
        TS_EARLY_NONE,
        TS_EARLY_HERE,
        TS_EARLY_TAKEN
    } state; /* HERE: prefetched; TAKEN: the pass computes on it */
    uint32_t mode;
    uint64_t shard, bytes;
    uint64_t given_ns;           /* when the copy was enqueued */
    ts_gpu_event began, arrived; /* around the copy, with times */
};

struct ts_gpu_slot {
    char *addr;
    ts_gpu_event used; /* the kernel that read it has ended */
    struct ts_gpu_early early;
};

/* Descriptions of the kept shards of a mode on a device, chunk after chunk. */
struct ts_gpu_table {
    struct ts_gpu_shard *entry; /* device; n_shards of the mode */
    uint64_t version;           /* version of the mode that it was made from; 0: never made */
    uint32_t n_chunks;          /* chunks that it was made for */
    uint32_t n[TS_GPU_CHUNKS], n_shares[TS_GPU_CHUNKS]; /* of each chunk */
};

struct ts_gpu;

/* Device memory of which every member has one, as large as the others', and that members gather. */
enum ts_gpu_buffer {
    TS_GPU_FACTOR, /* of the mode of the pass */
    TS_GPU_PRODUCT,
    TS_GPU_APART,
    TS_GPU_ROW_INNER,
    TS_GPU_SHARD_EDGE,
    TS_GPU_ENDS,
    TS_GPU_PARTS
};

/* A model on a device: memory whose size its rank decides on. */
struct ts_gpu_replica {
    char *factor[TS_MAX_ORDER]; /* n_rows x ld */
    double *product;            /* products of the last mode in float64, n_rows x ld; or NULL */
    char *
        phi; /* weighted products, as many rows as `apart`; NULL unless there are models of counts */
    double *judged; /* TS_WEIGH_SUMS of each share: sums of what such a model is judged by */
    double *
        part; /* 2 parts for each unit of the largest mode (observed_kernel.h); NULL unless cells may be unknown */
    uint32_t *edge_row; /* of these parts: their rows */
    double *ends;       /* 2 parts for each shard of the largest mode */
    double *
        place; /* where long rows are solved for, and what says which are taken (observed_long.h), or NULL */
    uint32_t *lock;
    double *
        errors; /* TS_ERRORS_SUMS of each share; NULL unless there are models that are judged by them */
    /* of each share; of each row of the mode that is served, or the largest; 2 of each unit (score_kernel.h). NULL unless scores are
     * wanted, and those of slices */
    struct ts_score_share *score_share;
    struct ts_score_sums *score_slice, *score_part;
    /* of models by other losses (step_kernel.h); NULL unless there may be some */
    double *losses; /* TS_LOSS_SUMS of each share */
    double *group_sum[TS_MAX_ORDER], *closed, *upto, *column, *weight, *cell_part;
    double *of_group; /* of groups of the largest mode */
    char *apart; /* products of modes whose updates read the old rows, apart_rows x ld; or NULL */
    void *edge;  /* 2 rows for each share of the largest mode */
    void *shard_edge; /* ts_edge_count(shards of the largest mode) rows */
    /* one for each row of the largest mode; or inner, then size, of units of rows */
    double *row_inner;
    double *parts;        /* parts of a Gram matrix: ts_dense_scratch elements */
    double *sums;         /* TS_DENSE_SUM_SCRATCH */
    double *gram, *inner; /* ld x ld, then one element for `inner` and one for `size` */
    double *w; /* ld x ld, then the table of columns (descend_kernel.h), then the inverse of ADMM */
    void *host;         /* page-locked, ts_gpu_host_bytes: w, or gram, inner and size */
    double *host_scale; /* behind it: ld factors of columns */
    int scaling;        /* the device reads host_scale until the member's `scaled` */
    struct ts_gpu_graph rest[TS_MAX_ORDER]; /* what follows the product of a mode (gpu_rows.c) */
};

struct ts_gpu_product;

struct ts_gpu_member {
    struct ts_gpu *gpu; /* the team */
    uint32_t number;    /* in the team */
    int device;
    pthread_t thread;

    /* device memory: `memory` holds all but shards, `store` holds shards */
    char *memory, *store;
    struct ts_gpu_replica *replica; /* of each model */
    uint32_t *edge_row; /* of `edge`, the same for all models; or of the first one's parts */
    uint32_t *shard_row[TS_MAX_ORDER]; /* ts_edge_count(n_shards) row numbers that never change */
    uint32_t *boundary[TS_MAX_ORDER];  /* as in struct ts_gpu_mode */
    double *dict;
    double *stage;        /* TS_GPU_STAGE elements, or the largest factor */
    void *locked;         /* page-locked: `host` and host_scale of all models */
    int scaling;          /* `scaled` is recorded, and the host has not seen it */
    uint64_t cache_bytes; /* second-level cache */
    struct ts_gpu_table table[TS_MAX_ORDER];
    struct ts_gpu_product *product; /* of the pass under way, n_models */

    char *kept;           /* in `store`: shards that stay */
    uint64_t *free_place; /* stack of the places in `kept` that hold no shard */
    uint64_t n_free;
    struct ts_gpu_slot slot[TS_GPU_SLOTS]; /* in `store` */
    uint32_t next_slot, next_stream;

    ts_gpu_stream copy, compute[TS_GPU_STREAMS], keeping[TS_GPU_KEPT_STREAMS], dense, send;
    ts_gpu_event
        joined[TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS]; /* recorded after the work of each stream */
    ts_gpu_event solved[TS_GPU_CHUNKS]; /* rows that can be sent, in the order of publishing */
    ts_gpu_event copied[TS_GPU_LENT];
    ts_gpu_event ready, received, over, scaled;
    struct ts_gpu_log log;
};

/* What the members tell each other during a pass. A chunk is a part of a member's range. It is
 * published once all its shards are taken and the kernels of the member's own shards are enqueued.
 * Mostly the member takes them all; some may be taken by others that have no shards left. */
enum ts_gpu_ready { TS_GPU_NOT_READY, TS_GPU_GETTING_READY, TS_GPU_READY };

struct ts_gpu_board {
    uint32_t n_chunks;    /* chunks of each member */
    unsigned char *taken; /* for each shard of the largest mode: the member that computes it */
    _Atomic uint64_t
        left[TS_MAX_TEAM][TS_GPU_CHUNKS]; /* shards of a chunk that no member has taken yet */
    _Atomic uint32_t n_published[TS_MAX_TEAM];
    _Atomic int any_stolen;
    _Atomic enum ts_gpu_ready ready;            /* whether the matrices of updates are there */
    struct ts_exchange_span *span[TS_MAX_TEAM]; /* memory of the spans above */
    uint64_t n_span[TS_MAX_TEAM];
};

/* What each member sends of a model in the gathers of a pass, in the order of publishing: rows and
 * row_inner of its chunks, then the edges of shards, then rows of shards that it took from
 * others. */
struct ts_gpu_sent {
    struct ts_exchange_part rows[TS_GPU_CHUNKS + 1][TS_MAX_TEAM];
    struct ts_exchange_part inner[TS_GPU_CHUNKS + 1][TS_MAX_TEAM];
    struct ts_exchange_part edges[TS_MAX_TEAM];
};

/* A model: what the engine holds. */
struct ts_gpu_model {
    struct ts_gpu *gpu;
    uint32_t number, rank, ld;
    enum ts_precision summed;    /* of the products in the last mode */
    int keeps_rest;              /* products summed in float64 are kept in float64 */
    struct ts_hold_out hold_out; /* from products */
    struct ts_gpu_sent sent;
};

typedef int (*ts_gpu_job)(struct ts_gpu *g, struct ts_gpu_member *me, void *arg,
                          struct ts_err *err);

struct ts_gpu_team {
    int up, quit;
    uint32_t n_threads; /* threads that were started */
    pthread_mutex_t lock;
    pthread_cond_t go, done;
    uint64_t turn; /* counts jobs */
    uint32_t n_busy;
    pthread_t caller; /* the thread that runs the job, and looks after other processes meanwhile */
    uint64_t polled_ns; /* when it looked last */
    ts_gpu_job job;
    void *arg;
    struct ts_feed *feed;                /* of the job, or NULL; it is told of a failure */
    _Atomic int failed;                  /* code of the first failure */
    struct ts_err err;                   /* and its sentence */
    _Atomic uint32_t n_waiting, barrier; /* members at the barrier; number of barriers passed */
};

struct ts_gpu_cells;

struct ts_gpu {
    const struct ts_tensor *tensor;
    struct ts_gpu_cells *cells;  /* of a dense tensor, which has no shards; or NULL */
    enum ts_precision precision; /* of the factors */
    uint32_t element;            /* of them: bytes */
    uint32_t n_models;
    struct ts_gpu_model *model;
    uint64_t apart_rows; /* of the largest mode whose update may read the old rows; or 0 */
    int multiplies;      /* there may be models of counts */
    int observes;        /* there may be models of observed cells */
    int holds_out;       /* and models to which held-out cells are zeros */
    int descends;        /* there may be models by other losses */
    int scores, slices;  /* sums of residuals may be wanted, and those of slices */
    uint32_t own;        /* modes (bit m: mode m) whose product is kept apart */
    int only_mode;
    struct ts_trace *trace;
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    uint64_t stage;        /* elements of each member's */
    uint64_t device_bytes; /* the budget of each device; 0: none was given */
    struct ts_gpu_mode mode[TS_MAX_ORDER];

    uint32_t n_members; /* of the team, those of other processes included */
    uint32_t first_here, n_here;
    struct ts_gpu_member *member; /* n_members; of other processes: number and free places */
    struct ts_gpu_card *card;     /* of each member; NULL: this process alone */
    uint32_t *first_of;   /* comm->n + 1 numbers: process p has the members first_of[p] .. */
    struct ts_comm *comm; /* NULL: this process alone */
    int is_plan;          /* members that are not here do not exist: nothing is computed */
    int ended;            /* processes have agreed on a failure: they meet no more */
    char link[200];       /* by what rows travel; "": there is one member */
    struct ts_gpu_team team;
    struct ts_exchange *exchange; /* NULL: one member */
    struct ts_gpu_board board;

    uint64_t slot_bytes;
    uint64_t place_bytes, n_places;     /* of each member, for kept shards; one member: 0 */
    uint64_t store_bytes;               /* all slots and places */
    uint64_t driver_bytes[TS_MAX_TEAM]; /* of each member here: not allocated by us */
    uint32_t n_slots;
};

/* What processes know of each other's devices. */
struct ts_gpu_card {
    unsigned char uuid[16];
    char name[72];
    char machine[128]; /* the same for all processes of a machine, as NCCL sees it */
};

static inline int ts_gpu_is_here(const struct ts_gpu *g, uint32_t member)
{
    return member - g->first_here < g->n_here;
}

static inline struct ts_gpu_member *ts_gpu_first(struct ts_gpu *g)
{
    return &g->member[g->first_here];
}

/* The member's number among those here: that of its consumer of the feed, and of its lanes. */
static inline uint32_t ts_gpu_here(const struct ts_gpu_member *me)
{
    return me->number - me->gpu->first_here;
}

/* Whether a member may compute shards of others' ranges. */
static inline int ts_gpu_helps(const struct ts_gpu *g)
{
    return g->comm == NULL && !g->is_plan;
}

/* Bytes that a shard takes on the device. */
static inline uint64_t ts_gpu_place(const struct ts_disk_shard *s)
{
    return ((uint64_t)s->raw_bytes + TS_SHARD_SLACK + 255) / 256 * 256;
}

/* Thread blocks that a shard takes. */
static inline uint32_t ts_gpu_shares(const struct ts_gpu_mode *m, uint64_t shard)
{
    return ts_mttkrp_shares(m->shard[shard].n_blocks, m->share_blocks);
}

static inline uint64_t ts_gpu_row_bytes(const struct ts_gpu_model *of)
{
    return (uint64_t)of->ld * of->gpu->element;
}

/* Bytes of an edge row: its elements are float64 when products are summed in float64 (wide), else
 * of the precision. */
static inline uint64_t ts_gpu_edge_bytes(const struct ts_gpu_model *of, int wide)
{
    return (uint64_t)of->ld * (wide ? 8 : of->gpu->element);
}

/* What is sent of a model to a member before a pass, or comes back: a matrix, the table of columns
 * and, with updates that read the old rows (own), a second matrix; or a matrix and two sums. */
static inline uint64_t ts_gpu_host_bytes(uint32_t ld, int own)
{
    return 8 * ((uint64_t)ld * (own ? 2 : 1) + TS_DESCEND_TABLE) * ld;
}

/* All page-locked memory of a model on a device: that, and a row of scales. */
static inline uint64_t ts_gpu_locked_bytes(uint32_t ld, int own)
{
    return ts_gpu_host_bytes(ld, own) + 8 * (uint64_t)ld;
}

/* Whether the product of a mode lies beside its factor. */
static inline int ts_gpu_owns(const struct ts_gpu *g, uint32_t mode)
{
    return (g->own >> mode & 1) != 0;
}

static inline int ts_gpu_served(const struct ts_gpu *g, uint32_t mode)
{
    return g->only_mode < 0 || (uint32_t)g->only_mode == mode;
}

/* First shard of chunk c of a member's range; for c = n_chunks, the end of the range. */
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
uint64_t ts_gpu_plan_factors(const struct ts_gpu *g); /* bytes of those of all models */
uint64_t ts_gpu_plan_largest(const struct ts_gpu *g); /* bytes of the place for the largest shard */
uint64_t ts_gpu_plan_all(const struct ts_gpu *g);     /* of the places for all */
/* Chooses the shards that stay, the number of slots and store_bytes, for `left` bytes on each
 * device. `left` holds at least two shards. */
int ts_gpu_plan_shards(struct ts_gpu *g, uint64_t left, struct ts_err *err);

/* ---- gpu_device.c; the calling thread's device becomes the member's */
uint64_t ts_gpu_device_work_bytes(const struct ts_gpu *g); /* factors included */
int ts_gpu_device_open(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err);
/* Runs every kernel once on no data, so that its code is loaded and its memory counted. A
 * ts_gpu_job. */
int ts_gpu_device_warm(struct ts_gpu *g, struct ts_gpu_member *me, void *arg, struct ts_err *err);
int ts_gpu_device_store(struct ts_gpu *g, struct ts_gpu_member *me, struct ts_err *err);
void ts_gpu_device_close(struct ts_gpu_member *me);

/* Sends what an update of a model's rows needs to its `w`: its matrix, and where it reads the old
 * rows the table of columns behind that, and its inverse. */
ts_gpu_error ts_gpu_device_send_update(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                       const struct ts_row_update *how);

/* ---- gpu_team.c */
int ts_gpu_team_open(struct ts_gpu *g, struct ts_err *err);
void ts_gpu_team_close(struct ts_gpu *g);
/* Runs the job on every member. feed: where the job takes shards from, or NULL. Returns the first
 * failure, or 0. */
int ts_gpu_team_run(struct ts_gpu *g, ts_gpu_job job, void *arg, struct ts_feed *feed,
                    struct ts_err *err);
/* Waits for all members here. Returns 0, or the code of the first failure. */
int ts_gpu_team_barrier(struct ts_gpu *g, struct ts_err *err);
/* Waits for an event of the device. Returns early when another member fails. */
int ts_gpu_team_wait(struct ts_gpu *g, struct ts_gpu_member *me, ts_gpu_event event,
                     struct ts_err *err);
/* Waits between two checks: yields at first, then sleeps. *n counts the waits, from 0. */
void ts_gpu_team_pause(uint32_t *n);
/* 0, or the first failure. During a pass the thread that runs it looks for other processes, too, that have given up: TS_ESTOP
 * then. */
int ts_gpu_team_failed(struct ts_gpu *g, struct ts_err *err);

/* ---- gpu_pass.c */
struct ts_gpu_request {
    uint32_t mode;
    struct ts_feed *feed;
    enum ts_request_kind kind;   /* of all: of TS_REQUEST_DESCEND the gradients over nonzeros */
    uint32_t n;                  /* models */
    const struct ts_request *of; /* each, a struct ts_gpu_model, and what is wanted of it */
    int multiplies;              /* of TS_REQUEST_MULTIPLY: rows have their rounds in this pass, */
    int judges;                  /* and are judged after them, where that is wanted */
};

/* Whether a pass sums over nonzeros, and makes no rows. */
static inline int ts_gpu_only_sums(const struct ts_gpu_request *ask)
{
    return ask->kind == TS_REQUEST_ERRORS || ask->kind == TS_REQUEST_LOSSES ||
           ask->kind == TS_REQUEST_SCORES;
}

/* level[m]: that of mode m in the copy of `mode`. */
static inline void ts_gpu_find_levels(const struct ts_gpu *g, uint32_t mode, uint8_t *level)
{
    for (uint32_t l = 0; l < g->tensor->order; l++)
        level[g->tensor->mode[mode].disk.level[l]] = (uint8_t)l;
}

/* A whole pass; to be called from the thread that calls the backend. */
int ts_gpu_pass_run(struct ts_gpu *g, const struct ts_gpu_request *request,
                    struct ts_backend_times *times, struct ts_err *err);

struct ts_gpu_pass;
/* Enqueues the edges between shares of shards that all lie here, the team having one member. */
ts_gpu_error ts_gpu_pass_fold(const struct ts_gpu_pass *p);

/* ---- gpu_rows.c */
struct ts_gpu_product { /* of a model, in a member's pass */
    struct ts_gpu_pass *pass;
    struct ts_gpu_model *of;
    struct ts_gpu_replica *my;
    const struct ts_request *want;
    const struct ts_row_update *how; /* of a product and of rows; NULL: only the product */
    const struct ts_row_sums *sums;  /* NULL where `how` is */
    uint32_t rounds;                 /* of rows that are multiplied, in this pass */
    struct ts_gpu_mttkrp args;       /* but for the shards */
    int wide;                        /* factors in float32, products and sums in float64 */
    int apart;                       /* products are kept apart: ts_gpu_owns */
    enum ts_gpu_buffer out;          /* where the products are */
    uint64_t out_bytes;              /* of a row of them */
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
    struct ts_gpu_slot *slot; /* NULL: it stays on the device from now on */
    uint32_t stream;          /* of `compute` */
};

struct ts_gpu_pass { /* a member's pass */
    struct ts_gpu *g;
    struct ts_gpu_member *me;
    const struct ts_gpu_request *ask;
    const struct ts_gpu_mode *mode;
    uint32_t n;                     /* products */
    struct ts_gpu_product *product; /* the member's */
    int alone;    /* the mode has one shard, the team one member: no edges between shards */
    int as_graph; /* what follows the product is launched as one, edges between shares included */
    int updating; /* the device has what the updates take */
    uint32_t unjoined;            /* bit i: `dense` does not wait for compute[i] yet */
    uint32_t published;           /* bit c: chunk c is published */
    uint32_t n_published, n_sent; /* chunks published; gathers of chunks enqueued */
    uint32_t n_exchanges;         /* groups of gathers enqueued: the same for all members */
    int exchanging;               /* a group has begun and not ended */
    uint64_t exchanged_bytes;     /* that this member sends in it */
    uint64_t nnz, kept_nnz;       /* nonzeros computed; of these, in kept shards */
    uint64_t bytes, early_bytes;  /* bytes of shards from the host; of these, prefetched */
    uint64_t wait_ns, n_filled;   /* waiting for shards; shards newly kept */
    struct ts_gpu_due due[TS_GPU_STREAMS]; /* not launched yet */
    uint32_t n_due;
    ts_gpu_event batch_ended; /* recorded after the shards launched last; NULL: none were */
};

/* What members of other processes send in this pass; `p` is that of a member here, whose products are known. Not to be called
 * during a job. */
void ts_gpu_rows_expect(struct ts_gpu_pass *p);
/* Sends the device what the updates of rows take, once. The first member that comes here makes that ready. To be called when
 * the device has something to compute meanwhile, and before rows are solved. */
int ts_gpu_rows_prepare(struct ts_gpu_pass *p, struct ts_err *err);
/* Solves, publishes and sends the chunks that are ready for it. */
int ts_gpu_rows_advance(struct ts_gpu_pass *p, struct ts_err *err);
/* Called when all kernels of the member's shards are enqueued: does the rest of the pass and waits
 * for its end. */
int ts_gpu_rows_finish(struct ts_gpu_pass *p, struct ts_err *err);
/* Once all members have enqueued their part of a gather: makes `dense` wait for what the others
 * send. */
int ts_gpu_rows_receive(struct ts_gpu_pass *p, struct ts_err *err);

/* ---- gpu_launch.c */
/* The products of all models. */
ts_gpu_error ts_gpu_launch_products(const struct ts_gpu_pass *p, const struct ts_gpu_shards *s,
                                    ts_gpu_stream stream);
/* The products of all models and what follows them, for all shards that are due, each on its stream. A model comes after the
 * other for all of them: at any time most kernels read the same factors, which stay in the second-level cache. */
ts_gpu_error ts_gpu_launch_due(const struct ts_gpu_pass *p);
/* After them: the rows that shares have in common. */
ts_gpu_error ts_gpu_fold_shards(const struct ts_gpu_pass *p, const struct ts_gpu_shards *s,
                                ts_gpu_stream stream);

/* ---- gpu_early.c */
/* Most slots that prefetched shards may take, one after the other. At least one slot is left: the
 * pass starts with it and the slots after it. */
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

/* ---- gpu_times.c */
/* To be called after a pass that began at start_ns; pass[i] is member i's, of those here. Fills times->device
 * (total_ns must be set) and range_ns[i], the cost of member i's range. Adds the spans to the
 * trace. */
void ts_gpu_times_collect(struct ts_gpu *g, const struct ts_gpu_pass *pass, uint64_t start_ns,
                          struct ts_backend_times *times, uint64_t *range_ns);

/* ---- gpu_dense.c: what the backend's table says, of the same names */
int ts_gpu_dense_put(struct ts_gpu_model *of, uint32_t mode, uint64_t row, uint64_t n,
                     const double *rows, struct ts_err *err);
int ts_gpu_dense_get(struct ts_gpu_model *of, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                     struct ts_err *err);
int ts_gpu_dense_solve(struct ts_gpu_model *of, uint32_t mode, const struct ts_row_update *how,
                       const struct ts_row_sums *sums, struct ts_err *err);
int ts_gpu_dense_scale(struct ts_gpu_model *of, uint32_t mode, const double *s, struct ts_err *err);
int ts_gpu_dense_gram(struct ts_gpu_model *of, uint32_t mode, double *gram, struct ts_err *err);
/* Enqueues an update that reads the old rows, on units of the member's replica. wide: the products
 * are those in float64. */
ts_gpu_error ts_gpu_dense_own(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              uint32_t mode, const struct ts_row_update *how,
                              const struct ts_row_sums *sums, int wide, uint64_t first_unit,
                              uint64_t n_units);
/* On member 0, once all parts are there. sum_up enqueues the Gram matrix and the sums that are
 * asked for, and their copy to the model's `host`; the other function reads them there, once
 * `dense` has ended. how: NULL, or the update that was done. */
ts_gpu_error ts_gpu_dense_sum_up(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                 uint32_t mode, const struct ts_row_update *how,
                                 const struct ts_row_sums *sums);
void ts_gpu_dense_copy_out(const struct ts_gpu_model *of, const struct ts_row_update *how,
                           const struct ts_row_sums *sums);

/* ---- gpu_multiply.c */
/* Enqueues what becomes of a launch's shards, edges and rows included. */
ts_gpu_error ts_gpu_multiply_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
/* Multiplies the rows that lie in several shards, once their products are there. */
ts_gpu_error ts_gpu_multiply_spans(const struct ts_gpu_product *r);
/* What the backend's table says, of the same name, of n models. */
int ts_gpu_multiply(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                    struct ts_backend_times *times, struct ts_err *err);

/* ---- gpu_observed.c */
/* Whether a pass solves for rows with Gram matrices of their own. */
static inline int ts_gpu_solves_observed(const struct ts_gpu_product *r)
{
    return r->pass->ask->kind == TS_REQUEST_ROWS;
}
uint64_t ts_gpu_observed_part_bytes(const struct ts_gpu_model *of);
/* Whether Gram matrices of rows lie in device memory, and for how many at a time there is some. */
int ts_gpu_observed_long(const struct ts_gpu_model *of);
uint32_t ts_gpu_observed_places(const struct ts_gpu_model *of);
/* Enqueues the rows of a launch's shards, and those that their parts are added up to. */
ts_gpu_error ts_gpu_observed_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
ts_gpu_error ts_gpu_observed_fold(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Enqueues the rows that lie in several shards, all parts being there, and on member 0 what `size` is, to the model's `host`. */
ts_gpu_error ts_gpu_observed_finish(const struct ts_gpu_product *r);
void ts_gpu_observed_copy_out(const struct ts_gpu_product *r);
/* Enqueues the solution of the rows of the mode, part e being that of row row[e], of as many as are even; of a dense tensor. */
ts_gpu_error ts_gpu_observed_solve(const struct ts_gpu_product *r, const double *part,
                                   const uint32_t *row);
/* The same of row 0 of a model, for the first time. */
ts_gpu_error ts_gpu_observed_solve_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                        const double *part, const uint32_t *row);
/* Enqueues the errors at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_errors_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Runs these kernels on a shard, for the first time; the row that they leave does not matter. */
ts_gpu_error ts_gpu_observed_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                  const struct ts_gpu_mttkrp *args);
ts_gpu_error ts_gpu_errors_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const struct ts_gpu_mttkrp *args);
/* Requests ROWS and ERRORS of n models (stream/request.h); of a dense tensor there is one. */
int ts_gpu_observed_complete(const struct ts_request *of, uint32_t n, uint32_t mode,
                             struct ts_feed *feed, struct ts_backend_times *times,
                             struct ts_err *err);
int ts_gpu_observed_errors(const struct ts_request *of, uint32_t n, uint32_t mode,
                           struct ts_feed *feed, struct ts_backend_times *times,
                           struct ts_err *err);

/* ---- gpu_loss.c */
/* Enqueues the gradients, or the sums of the loss, at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_gradient_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
ts_gpu_error ts_gpu_losses_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Runs the kernels of models by other losses, for the first time; the row that they leave does not matter. */
ts_gpu_error ts_gpu_loss_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              const struct ts_gpu_mttkrp *args);
/* Requests DESCEND and LOSSES of n models (stream/request.h); and `zeros` of the backend's table. */
int ts_gpu_descend(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                   struct ts_backend_times *times, struct ts_err *err);
int ts_gpu_losses(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                  struct ts_backend_times *times, struct ts_err *err);
int ts_gpu_descend_zeros(const struct ts_gpu_model *of, uint32_t mode, const struct ts_descent *how,
                         double *zeros, struct ts_err *err);

/* ---- gpu_score.c */
/* Enqueues the sums of residuals at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_scores_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Runs this kernel on a shard, for the first time. */
ts_gpu_error ts_gpu_scores_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const struct ts_gpu_mttkrp *args);
/* Rows whose sums there is device memory for. */
uint64_t ts_gpu_scores_rows(const struct ts_gpu *g);
/* Host memory that a pass over the copy of a mode takes. */
uint64_t ts_gpu_scores_host_bytes(const struct ts_mode *mode, int slices);
/* A request SCORES (stream/request.h). */
int ts_gpu_scores(struct ts_gpu_model *of, uint32_t mode, struct ts_feed *feed,
                  struct ts_scores *scores, struct ts_backend_times *times, struct ts_err *err);

/* ---- gpu_models.c: what the backend's table says, of the same name */
uint32_t ts_gpu_models_most(const struct ts_backend_conf *conf);

/* ---- gpu_ranks.c: all processes call these alike; this process alone goes through them with nothing to do */
/* Numbers the members: this process's are those of conf. */
int ts_gpu_ranks_join(struct ts_gpu *g, const struct ts_backend_conf *conf, struct ts_err *err);
void ts_gpu_ranks_leave(struct ts_gpu *g);
/* Two members have one GPU, which NCCL refuses. Of processes with an NCCL_HOSTID each it sees two GPUs, and so do we:
 * that is how one GPU tests what NCCL does over a network. */
int ts_gpu_ranks_share(const struct ts_gpu *g);
/* What a step of opening ended with: the same for all. TS_ELIMIT may be followed by another try. */
int ts_gpu_ranks_settle(struct ts_gpu *g, int rc, struct ts_err *err);
/* What a pass, or what follows it, ended with; where it failed, no pass may follow. */
int ts_gpu_ranks_end(struct ts_gpu *g, int rc, struct ts_err *err);
/* *x := the least that any has. */
int ts_gpu_ranks_least(struct ts_gpu *g, uint64_t *x, struct ts_err *err);
/* The elements first[i] .. first[i + 1] - 1 of an array, of `bytes` each, are member i's. All get all. */
int ts_gpu_ranks_gather(struct ts_gpu *g, void *array, uint64_t bytes, const uint64_t *first,
                        struct ts_err *err);
/* The same of what has `bytes` bytes for each share of the pass over a mode that was the last one: a process has those of the
 * ranges of its members. */
int ts_gpu_ranks_shares(struct ts_gpu *g, uint32_t mode, double *array, uint64_t bytes,
                        struct ts_err *err);
/* Times and costs of ranges of all members, of which those here are known. */
int ts_gpu_ranks_times(struct ts_gpu *g, struct ts_backend_times *times, uint64_t *range_ns,
                       struct ts_err *err);
/* Says in g->link by what rows travel. */
void ts_gpu_ranks_link(struct ts_gpu *g);

/* ---- gpu_keep.c */
/* The ranges of members here, for the feed, whose shards are all: n_here + 1 numbers. */
const uint64_t *ts_gpu_keep_ranges(struct ts_gpu *g, uint32_t mode);
/* To be called after a pass over `mode` in which member i worked for busy_ns[i]. Moves ranges
 * and their kept shards, and tells the feed. share[i]: the share of the cost that member i gets
 * next. Between processes kept shards alone move. */
int ts_gpu_keep_balance(struct ts_gpu *g, uint32_t mode, const uint64_t *busy_ns,
                        struct ts_feed *feed, double *share, struct ts_err *err);

#endif
