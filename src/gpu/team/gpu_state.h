/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_state.h - the data of the GPU backend, shared by its files.
 *
 * A backend is a team: one member for each device, which holds a replica of every factor matrix.
 * For a mode, each member has a contiguous range of shards, some of which stay on its device.
 * Member 0 works in the thread that calls the backend, every other member in its own thread. Each
 * of several models has its own memory on every device. Shards, streams and tables are common to
 * all models. A pass serves the requests of some models, all of the same kind: the kernels of all
 * models are launched while a shard is on the device.
 *
 * Several processes (ranks, stream/comm.h) form one team. Each process has the members first_here
 * .. first_here + n_here - 1, and computes itself what the other members do. So all processes have
 * the same ranges, measured times are exchanged before ranges follow from them (gpu_ranks.c),
 * members take no shards of other ranges, and chunks (parts of a range) are published in order.
 * Then every process knows what every member sends, without messages. "Member 0" below is the first
 * member of this process.
 *
 *   gpu_plan.c      sizes, and the shards that stay in the memory that is left
 *   gpu_models.c    the number of models that are computed at once
 *   gpu_multiply.c  models of counts
 *   gpu_observed.c  models of observed cells, and errors
 *   gpu_loss.c      models with other losses
 *   gpu_score.c     scores of a model
 *   gpu_sums.c      sums of shares on the host
 *   gpu_budget.c    the memory of each device, and the part of it for shards
 *   gpu_device.c    a member's streams, events and memory
 *   gpu_layout.c    divides a member's memory
 *   gpu_warm.c      a first launch of every kernel
 *   gpu_update.c    sends the data of row updates to a device
 *   gpu_team.c      the threads: a job for all, barriers, failures
 *   gpu_pass.c      a member's pass over a mode: shards in, kernels launched
 *   gpu_launch.c    launches the kernels of a pass for shards
 *   gpu_early.c     prefetching: shards of the next mode are copied while a pass ends
 *   gpu_rows.c      what a pass does with complete rows: solving, exchanging, adding up
 *   gpu_dense.c     row work outside of a pass: rows in and out, solves, scaling
 *   gpu_keep.c      balancing: moves ranges, and kept shards with them
 *   gpu_ranks.c     several processes: the numbers of members, and common decisions
 *   gpu_log.c       times of copies and kernels
 *   gpu_times.c     from the logs: times of a pass, the trace, the cost of ranges
 *   gpu_cells.h     cells of a dense tensor, instead of shards
 *
 *   owner    gpu_backend.c makes and frees struct ts_gpu
 *   units    bytes; offsets of rows in elements times ld
 *   threads  fields of a member belong to its thread; everything else except the board is read
 *            during jobs and written between jobs
 */
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
    /* Slots for shards if not all shards stay on the device. At most three quarters of them hold
     * prefetched shards: between the last copy of a mode and the first one of the next mode are 1.5
     * ms, in which a link transfers 18 shards of 4 MiB. */
    TS_GPU_SLOTS = 24,
    /* Streams for kernels of streamed shards, as one shard has too few thread blocks to fill a
     * large GPU. While kept shards are computed, a kernel takes half a millisecond, in which the
     * link transfers ten more shards of 4 MiB. */
    TS_GPU_STREAMS = 16,
    /* streams for kept shards, so that one chunk (a part of the range) ends while the next
     * begins */
    TS_GPU_KEPT_STREAMS = 2,
    TS_GPU_LENT = 4,   /* shards being copied from host memory: enough to keep the link busy */
    TS_GPU_CHUNKS = 6, /* most parts into which a member's range is divided for sending */
    /* most models at once: with so many, reading the tensor takes a small part of a pass */
    TS_GPU_MODELS = 32,
};

/* The data of a mode, common to all members (GPUs). */
struct ts_gpu_mode {
    const struct ts_disk_shard *shard;
    uint64_t n_shards, n_rows;
    uint32_t share_blocks; /* blocks of nonzeros in a share (one thread block) */
    /* first_share: for each shard the number of shares before it */
    uint64_t n_shares, *first_share;
    uint64_t first[TS_MAX_TEAM + 1];  /* member i has the shards first[i] .. first[i + 1] - 1 */
    uint64_t passed[TS_MAX_TEAM + 1]; /* ranges of members, as `first`, in the last pass */
    /* version of the fields below; tables on devices record the version that they were made from */
    uint64_t version;
    unsigned char *keep;    /* for each shard: 1 if it stays on its member's device */
    unsigned char *present; /* for each shard: 1 if it stays, and was already copied */
    /* for each shard: an enum ts_deal, which says whether the feed lends it */
    unsigned char *deal;
    /* ranges of members (GPUs) of this process, for the feed */
    uint64_t deal_first[TS_MAX_DEVICES + 1];
    /* for each shard that stays: offset of its memory in `kept` of its member (GPU) */
    uint64_t *place;
    uint32_t *boundary; /* first and last rows of shards, ascending, each once */
    uint64_t n_boundary;
};

/* A prefetched shard: copied to its slot before the pass over its mode. */
struct ts_gpu_early {
    enum {
        TS_EARLY_NONE,
        TS_EARLY_HERE,
        TS_EARLY_TAKEN
    } state; /* HERE: the shard is prefetched; TAKEN: the pass computes on it */
    uint32_t mode;
    uint64_t shard, bytes;
    uint64_t given_ns;           /* time at which the copy was enqueued */
    ts_gpu_event began, arrived; /* timing events before and after the copy */
};

struct ts_gpu_slot {
    char *addr;
    ts_gpu_event used; /* recorded after the kernel that reads the slot */
    struct ts_gpu_early early;
};

/* A device's table of the kept shards of a mode, chunk by chunk (parts of the member's range). */
struct ts_gpu_table {
    /* in device memory: descriptions of the kept shards; room for n_shards of the mode */
    struct ts_gpu_shard *entry;
    /* version of the struct ts_gpu_mode that the table was made from; 0: never made */
    uint64_t version;
    uint32_t n_chunks; /* number of chunks for which the table was made */
    /* for each chunk (part of the range): number of its kept shards, and of their shares (thread
     * blocks) */
    uint32_t n[TS_GPU_CHUNKS], n_shares[TS_GPU_CHUNKS];
};

struct ts_gpu;

/* Device buffers that every member (GPU) has in the same size. A gather brings new parts of them to
 * all members. */
enum ts_gpu_buffer {
    TS_GPU_FACTOR, /* the factor of the mode of the pass */
    TS_GPU_PRODUCT,
    TS_GPU_APART,
    TS_GPU_ROW_INNER,
    TS_GPU_SHARD_EDGE,
    TS_GPU_ENDS,
    TS_GPU_PARTS
};

/* The memory of a model on a device, whose size depends on the rank. */
struct ts_gpu_replica {
    char *factor[TS_MAX_ORDER]; /* the factor of each mode, n_rows x ld */
    double *product;            /* products of the last mode in float64, n_rows x ld; or NULL */
    /* weighted products of models of counts (multiply_kernel.h), as many rows as `apart`; or
     * NULL */
    char *phi;
    double *judged; /* TS_WEIGH_SUMS sums for each share (thread block), for models of counts */
    /* partial sums of rows, 2 for each unit (a warp's nonzeros) of the largest mode
     * (observed_kernel.h); NULL unless the run may have models of observed cells */
    double *part;
    uint32_t *edge_row; /* row numbers of the partial sums in `part` */
    double *ends;       /* partial sums of rows, 2 for each shard of the largest mode */
    /* memory for the systems of equations of rows with many columns (observed_long.h), with a lock
     * for each system; or NULL */
    double *place;
    uint32_t *lock;
    /* TS_ERRORS_SUMS sums for each share (thread block); NULL unless the run may have models of
     * observed cells, or held-out cells */
    double *errors;
    /* sums of residuals (score_kernel.h): for each share (thread block); for each row of the only
     * mode, or of the largest one; and 2 for each unit (a fourth of a share). NULL unless the run
     * needs scores, or scores of slices */
    struct ts_score_share *score_share;
    struct ts_score_sums *score_slice, *score_part;
    /* the fields below are for models with losses other than least squares and Poisson
     * (step_kernel.h); NULL unless the run may have such models */
    double *losses; /* TS_LOSS_SUMS sums for each share (thread block) */
    double *group_sum[TS_MAX_ORDER], *closed, *upto, *column, *weight, *cell_part;
    /* for each group of rows of the largest mode, the sum that ts_step_values computes */
    double *of_group;
    char *apart; /* products of modes whose updates read the old rows, apart_rows x ld; or NULL */
    /* partial sums of rows (edge_kernel.h): 2 for each share (thread block) of the largest mode */
    void *edge;
    /* partial sums of first and last rows of shards (edge_kernel.h): ts_edge_count(shards of the
     * largest mode) rows */
    void *shard_edge;
    /* parts of the sums `inner` and `size` over rows (struct ts_row_sums): for each row of the
     * largest mode, its part of one of them; or, for units of 32 rows, those of `inner` of all
     * units, then those of `size` */
    double *row_inner;
    double *parts; /* parts of a Gram matrix: ts_dense_scratch elements */
    double *sums;  /* TS_DENSE_SUM_SCRATCH elements, for ts_dense_sum */
    /* gram: ld x ld; inner: one element for `inner` and one for `size` (struct ts_row_sums) */
    double *gram, *inner;
    /* data of a row update: matrix (ld x ld), table of columns, inverse for ADMM */
    double *w;
    void *host;         /* page-locked, ts_gpu_host_bytes: copy of w, or of gram, inner and size */
    double *host_scale; /* after `host`: ld scales of columns */
    int scaling;        /* 1: the device may read host_scale until the member's event `scaled` */
    /* for each mode: a graph of the kernels that follow the product (gpu_finish.c) */
    struct ts_gpu_graph rest[TS_MAX_ORDER];
};

struct ts_gpu_product;

struct ts_gpu_member {
    struct ts_gpu *gpu; /* the team */
    uint32_t number;    /* number of the member in the team */
    int device;
    pthread_t thread;

    /* device memory: `memory` holds all but shards, `store` holds shards */
    char *memory, *store;
    struct ts_gpu_replica *replica; /* the memory of each model */
    /* row numbers of the partial sums in `edge`, or in `part` of the first model */
    uint32_t *edge_row;
    /* ts_edge_count(n_shards) numbers: first and last rows of shards, which never change */
    uint32_t *shard_row[TS_MAX_ORDER];
    /* in device memory: a copy of `boundary` of struct ts_gpu_mode */
    uint32_t *boundary[TS_MAX_ORDER];
    double *dict;
    double *stage; /* g->stage elements: rows that are being converted to or from float64 */
    void *locked;  /* page-locked memory: `host` and host_scale of all models */
    /* 1: the event `scaled` is recorded, and the host has not yet seen that it has ended */
    int scaling;
    uint64_t cache_bytes; /* bytes of the second-level cache */
    struct ts_gpu_table table[TS_MAX_ORDER];
    struct ts_gpu_product *product; /* n_models products of the current pass */

    char *kept;           /* in `store`: memory for kept shards */
    uint64_t *free_place; /* stack of the offsets in `kept` of free memory for one shard each */
    uint64_t n_free;
    struct ts_gpu_slot slot[TS_GPU_SLOTS]; /* in `store` */
    uint32_t next_slot, next_stream;

    ts_gpu_stream copy, compute[TS_GPU_STREAMS], keeping[TS_GPU_KEPT_STREAMS], dense, send;
    /* for each stream of `compute` and `keeping`: recorded after its work */
    ts_gpu_event joined[TS_GPU_STREAMS + TS_GPU_KEPT_STREAMS];
    /* for each chunk, in the order of publishing: recorded when its rows can be sent */
    ts_gpu_event solved[TS_GPU_CHUNKS];
    ts_gpu_event copied[TS_GPU_LENT];
    ts_gpu_event ready, received, over, scaled;
    struct ts_gpu_log log;
};

/* The board: data that members (GPUs) exchange during a pass. A chunk is a part of a member's
 * range. It is published after all its shards were taken and the kernels of the member's own shards
 * were enqueued. Usually the member takes all shards of its chunks, but other members that have no
 * shards left may take some. */
enum ts_gpu_ready { TS_GPU_NOT_READY, TS_GPU_GETTING_READY, TS_GPU_READY };

struct ts_gpu_board {
    uint32_t n_chunks; /* number of chunks of each member (GPU) */
    /* for each shard of the largest mode: the member (GPU) that computes it */
    unsigned char *taken;
    /* shards of a chunk that no member (GPU) has taken yet */
    _Atomic uint64_t left[TS_MAX_TEAM][TS_GPU_CHUNKS];
    _Atomic uint32_t n_published[TS_MAX_TEAM];
    _Atomic int any_stolen;
    _Atomic enum ts_gpu_ready ready;            /* whether the matrices of updates are computed */
    struct ts_exchange_span *span[TS_MAX_TEAM]; /* memory for the spans of struct ts_gpu_sent */
    uint64_t n_span[TS_MAX_TEAM];
};

/* The spans of a model that each member (GPU) sends in the gathers of a pass: rows and row_inner of
 * its chunks in the order of publishing, then edge rows (partial sums) of shards, then rows of
 * shards that it took from others. */
struct ts_gpu_sent {
    struct ts_exchange_part rows[TS_GPU_CHUNKS + 1][TS_MAX_TEAM];
    struct ts_exchange_part inner[TS_GPU_CHUNKS + 1][TS_MAX_TEAM];
    struct ts_exchange_part edges[TS_MAX_TEAM];
};

/* A model. The backend's functions get its address as the argument `be`. */
struct ts_gpu_model {
    struct ts_gpu *gpu;
    uint32_t number, rank, ld;
    enum ts_precision summed;    /* precision of the products of the last mode */
    int keeps_rest;              /* 1: products that are summed in float64 are stored in float64 */
    struct ts_hold_out hold_out; /* held-out nonzeros, which products count as zeros */
    struct ts_gpu_sent sent;
};

typedef int (*ts_gpu_job)(struct ts_gpu *g, struct ts_gpu_member *me, void *arg,
                          struct ts_err *err);

struct ts_gpu_team {
    int up, quit;
    uint32_t n_threads; /* number of threads that were started */
    pthread_mutex_t lock;
    pthread_cond_t go, done;
    uint64_t turn; /* number of the current job */
    uint32_t n_busy;
    pthread_t caller;   /* the thread that runs the job, and polls for other processes meanwhile */
    uint64_t polled_ns; /* time of the caller's last poll */
    ts_gpu_job job;
    void *arg;
    struct ts_feed *feed; /* the feed of the job, to which failures are passed; or NULL */
    _Atomic int failed;   /* code of the first failure */
    struct ts_err err;    /* the message of the first failure */
    /* members (GPUs) at the barrier; number of barriers passed */
    _Atomic uint32_t n_waiting, barrier;
};

struct ts_gpu_cells;

struct ts_gpu {
    const struct ts_tensor *tensor;
    struct ts_gpu_cells *cells;  /* the cells of a dense tensor, which has no shards; or NULL */
    enum ts_precision precision; /* precision of the factors */
    uint32_t element;            /* bytes of an element of a factor */
    uint32_t n_models;
    struct ts_gpu_model *model;
    uint64_t apart_rows; /* rows of the largest mode whose update may read the old rows; or 0 */
    int multiplies;      /* 1: the run may have models of counts */
    int observes;        /* 1: the run may have models of observed cells */
    int holds_out;       /* 1: the run may have models that count held-out cells as zeros */
    int descends;        /* 1: the run may have models that need gradients of a loss */
    int scores, slices;  /* 1: the run may need sums of residuals, and those of slices */
    uint32_t own;        /* modes (bit m: mode m) whose product is stored apart from the factor */
    int only_mode;
    struct ts_trace *trace;
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    uint64_t stage;        /* elements of each member's `stage` */
    uint64_t device_bytes; /* the budget of each device; 0: none was given */
    struct ts_gpu_mode mode[TS_MAX_ORDER];

    uint32_t n_members; /* members of the team, including those of other processes */
    uint32_t first_here, n_here;
    /* n_members members (GPUs); those of other processes have only a number and a list of free
     * places for shards */
    struct ts_gpu_member *member;
    struct ts_gpu_card *card; /* description of each GPU; NULL: this process alone */
    /* comm->n + 1 numbers: process p has the members (GPUs) first_of[p] .. first_of[p + 1] - 1 */
    uint32_t *first_of;
    struct ts_comm *comm; /* messages between processes; NULL: this process alone */
    /* 1: only a plan, in which members (GPUs) of other processes do not exist and nothing is
     * computed */
    int is_plan;
    int ended;      /* 1: processes have agreed on a failure and make no more collective calls */
    char link[200]; /* how rows are sent, for output; "": there is one member (GPU) */
    struct ts_gpu_team team;
    struct ts_exchange *exchange; /* exchange between members; NULL: there is one (GPU) */
    struct ts_gpu_board board;

    uint64_t slot_bytes;
    /* size and number of each member's places, for one kept shard each; 0 if there is one member
     * (GPU) */
    uint64_t place_bytes, n_places;
    uint64_t store_bytes; /* bytes of all slots and of all places for kept shards */
    /* for each member (GPU) of this process: memory that the driver takes */
    uint64_t driver_bytes[TS_MAX_TEAM];
    uint32_t n_slots;
};

/* The description of a device that processes exchange. */
struct ts_gpu_card {
    unsigned char uuid[16];
    char name[72];
    char machine[128]; /* name of the machine, as NCCL distinguishes machines */
};

static inline int ts_gpu_is_here(const struct ts_gpu *g, uint32_t member)
{
    return member - g->first_here < g->n_here;
}

static inline struct ts_gpu_member *ts_gpu_first(struct ts_gpu *g)
{
    return &g->member[g->first_here];
}

/* Returns the member's number in this process, which is also the number of its consumer of the feed
 * and of its lanes in the trace. */
static inline uint32_t ts_gpu_here(const struct ts_gpu_member *me)
{
    return me->number - me->gpu->first_here;
}

/* Whether members (GPUs) may compute shards of other members' ranges. */
static inline int ts_gpu_helps(const struct ts_gpu *g)
{
    return g->comm == NULL && !g->is_plan;
}

/* Returns the bytes that a shard takes on a device. */
static inline uint64_t ts_gpu_place(const struct ts_disk_shard *s)
{
    return ((uint64_t)s->raw_bytes + TS_SHARD_SLACK + 255) / 256 * 256;
}

/* Returns the number of shares of a shard. A share is computed by one thread block. */
static inline uint32_t ts_gpu_shares(const struct ts_gpu_mode *m, uint64_t shard)
{
    return ts_mttkrp_shares(m->shard[shard].n_blocks, m->share_blocks);
}

static inline uint64_t ts_gpu_row_bytes(const struct ts_gpu_model *of)
{
    return (uint64_t)of->ld * of->gpu->element;
}

/* Returns the bytes of an edge row (a partial sum of a row, edge_kernel.h). Its elements are
 * float64 if products are summed in float64 (wide), otherwise they have the precision of
 * factors. */
static inline uint64_t ts_gpu_edge_bytes(const struct ts_gpu_model *of, int wide)
{
    return (uint64_t)of->ld * (wide ? 8 : of->gpu->element);
}

/* Returns the bytes of a model's page-locked memory `host`. Before a pass it holds the data of an
 * update: a matrix, the table of columns and, with updates that read the old rows (own), a second
 * matrix. After the pass it holds a matrix and two sums. */
static inline uint64_t ts_gpu_host_bytes(uint32_t ld, int own)
{
    return 8 * ((uint64_t)ld * (own ? 2 : 1) + TS_DESCEND_TABLE) * ld;
}

/* Returns the bytes of all page-locked memory of a model on a device: `host` and a row of
 * scales. */
static inline uint64_t ts_gpu_locked_bytes(uint32_t ld, int own)
{
    return ts_gpu_host_bytes(ld, own) + 8 * (uint64_t)ld;
}

/* Whether the product of a mode is stored apart from its factor. */
static inline int ts_gpu_owns(const struct ts_gpu *g, uint32_t mode)
{
    return (g->own >> mode & 1) != 0;
}

static inline int ts_gpu_served(const struct ts_gpu *g, uint32_t mode)
{
    return g->only_mode < 0 || (uint32_t)g->only_mode == mode;
}

/* Returns the first shard of chunk c, a part of a member's range; for c = n_chunks, the end of the
 * range. */
static inline uint64_t ts_gpu_chunk(const struct ts_gpu *g, const struct ts_gpu_mode *m,
                                    uint32_t member, uint32_t c)
{
    const uint64_t n = m->first[member + 1] - m->first[member];
    return m->first[member] + n * c / g->board.n_chunks;
}

#endif
