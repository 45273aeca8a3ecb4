/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_state.h - what the GPU backend holds, shared by its files.
 *
 * A backend is a team: one member for each device, which holds a replica of every factor matrix.
 * For a mode, each member has a contiguous range of shards, some of which it keeps. Member 0
 * works in the thread that calls the backend, every other one in a thread of its own. Of several
 * models each has memory of its own on every device; shards, streams and tables are those of
 * all. A pass is one for some of them, of which the same kind of thing is wanted: all kernels of
 * a shard are launched while it is there.
 *
 * Of several processes (ranks, stream/comm.h) the team is that of all: each has the members
 * first_here .. first_here + n_here - 1, and knows of the others what it can conclude. So all
 * have the same ranges; what is measured is told to all before it decides anything
 * (gpu_ranks.c), members take no shards of others' ranges, and chunks are published in their
 * order. Then every process knows what every member sends, without a word. "Member 0" below is
 * the first here.
 *
 *   gpu_plan.c    sizes, and which shards stay with the memory that is left
 *   gpu_models.c  how many models there may be at once
 *   gpu_multiply.c  models of counts
 *   gpu_observed.c  models of observed cells, and errors
 *   gpu_loss.c    models by other losses
 *   gpu_score.c   scores of a model
 *   gpu_sums.c    sums of shares on the host
 *   gpu_budget.c  the memory of each device, and what of it is left for shards
 *   gpu_device.c  a member's streams, events and memory
 *   gpu_layout.c  how that memory is divided
 *   gpu_warm.c    a first run of every kernel
 *   gpu_update.c  what an update of rows takes of the host
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
 * */
#ifndef TS_GPU_GPU_STATE_H
#define TS_GPU_GPU_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "format/shard.h"
#include "gpu/rows/descend_kernel.h"
#include "gpu/exchange/exchange.h"
#include "gpu/team/gpu_graph.h"
#include "gpu/team/gpu_log.h"
#include "gpu/team/gpu_types.h"
#include "gpu/sparse/mttkrp_kernel.h"
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
    /* weighted products, as many rows as `apart`; NULL unless there are models of counts */
    char *phi;
    double *judged; /* TS_WEIGH_SUMS of each share: sums of what such a model is judged by */
    /* 2 parts for each unit of the largest mode (observed_kernel.h); NULL unless cells may be
     * unknown */
    double *part;
    uint32_t *edge_row; /* of these parts: their rows */
    double *ends;       /* 2 parts for each shard of the largest mode */
    /* where long rows are solved for, and what says which are taken (observed_long.h), or NULL */
    double *place;
    uint32_t *lock;
    /* TS_ERRORS_SUMS of each share; NULL unless there are models that are judged by them */
    double *errors;
    /* of each share; of each row of the mode that is served, or the largest; 2 of each unit
     * (score_kernel.h). NULL unless scores are wanted, and those of slices */
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
    struct ts_gpu_product *product; /* n_models: products of the pass under way */

    char *kept;           /* in `store`: shards that stay */
    uint64_t *free_place; /* stack of the places in `kept` that hold no shard */
    uint64_t n_free;
    struct ts_gpu_slot slot[TS_GPU_SLOTS]; /* in `store` */
    uint32_t next_slot, next_stream;

    ts_gpu_stream copy, compute[TS_GPU_STREAMS], keeping[TS_GPU_KEPT_STREAMS], dense, send;
    /* recorded after the work of each stream */
    ts_gpu_event joined[TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS];
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
    /* shards of a chunk that no member has taken yet */
    _Atomic uint64_t left[TS_MAX_TEAM][TS_GPU_CHUNKS];
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

#endif
