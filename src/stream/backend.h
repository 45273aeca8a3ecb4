/* SPDX-License-Identifier: BSD-3-Clause */
/* backend.h - the table of functions through which the engine uses a processor. src/cpu and src/gpu
 * each fill one.
 *
 * A backend holds the factor matrices of all modes: factor[m] has a row for each slice of mode m
 * that is not empty, and `rank` columns, in float32 or float64. The MTTKRP (product) of a mode is
 * written into the factor of that mode, which is no operand of the product, so no second matrix is
 * needed. If the update of a mode's rows reads their old values, the product has memory of its own
 * (own_rows). A backend of
 * several devices holds all factors on each device; its callers need not know that.
 *
 *   owner    the backend owns the factors; matrices that cross this table are float64, row-major,
 *            rank x rank or n_rows x rank, without padding, owned by the caller
 *   threads  one thread calls; inside a call, a backend may use any threads or streams
 *   errors   0 or a negative ts_code; after a failure only close is allowed. After TS_ESTOP,
 *            get_rows may read the modes that were not being computed, and also the computed one if
 *            own_rows has allocated its product: their rows are unchanged
 *   bits     every result is a function of the tensor's bytes, the factors and the precision alone:
 *            not of the number of threads or devices, of delivery order or of the memory budget
 */
#ifndef TS_STREAM_BACKEND_H
#define TS_STREAM_BACKEND_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/tensor.h"
#include "stream/capability.h"
#include "stream/feed/feed.h"
#include "stream/request.h"

enum ts_precision { TS_FLOAT32 = 0, TS_FLOAT64 = 1 };

static inline uint64_t ts_precision_bytes(enum ts_precision p)
{
    return p == TS_FLOAT32 ? sizeof(float) : sizeof(double);
}

/* Returns the bytes of all rows of a mode's factor, stored without gaps, rounded up to whole cache
 * lines. */
static inline uint64_t ts_mode_rows_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank,
                                          enum ts_precision precision)
{
    return (t->mode[mode].disk.n_rows * rank * ts_precision_bytes(precision) + 63) / 64 * 64;
}

#define TS_MAX_DEVICES TS_FEED_MAX_CONSUMERS
#define TS_MAX_TEAM    64 /* most devices of all ranks together */

struct ts_comm;
struct ts_trace;

struct ts_backend_conf {
    const struct ts_tensor *tensor;
    uint32_t rank;
    uint32_t n_models;     /* models computed in one pass, if the backend has `model`; 0: one */
    const uint32_t *ranks; /* ranks of the models, instead of `rank`; valid during the call */
    enum ts_precision precision;
    uint32_t threads;           /* most threads of the CPU; 0: all */
    int device[TS_MAX_DEVICES]; /* gpu: numbers of the devices; one may be named twice, for tests */
    uint32_t n_devices;
    /* gpu: bytes of memory to use of each device; 0: all free memory less a reserve */
    uint64_t device_bytes;
    /* most bytes of host memory that `pin` will page-lock; page tables of devices grow with them */
    uint64_t host_bytes;
    uint64_t spare_bytes; /* host memory that may make passes faster (see `wish`); 0: none */
    uint32_t needs;       /* bits of enum ts_capability that the run needs */
    int products;         /* 1: the run computes MTTKRPs only, and updates no rows */
    /* modes (bit m: mode m) whose products get separate memory: own_rows will be called for them */
    uint32_t own_rows;
    int only_mode; /* the only mode with passes (other modes get no memory); -1: all */
    int exchange;  /* gpu: enum ts_exchange_kind (gpu/exchange/exchange.h); 0 chooses */
    /* the processes that divide the work of a pass; NULL: this process alone */
    struct ts_comm *comm;
    const volatile sig_atomic_t *stop; /* gpu: open fails with TS_ESTOP once it is not 0; or NULL */
    /* gets records of copies and kernels with their times; or NULL */
    struct ts_trace *trace;
    /* Called with the number of nonzeros of each shard that a device keeps and that the feed did
     * not lend, from any thread; or NULL. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
};

/* The times of a device in one call of the backend, such as `pass`. Kinds of work that ran at the
 * same time are each counted in full. */
struct ts_device_times {
    int number;    /* number of the device, or -1 for CPU cores */
    uint32_t rank; /* rank of the process that uses it, if times are of several ranks */
    uint64_t nnz;
    uint64_t bytes;       /* bytes of its shards sent by the host */
    uint64_t early_bytes; /* the part of `bytes` that was sent ahead, during the call before */
    uint64_t wait_ns;     /* time in which the device had no shard to compute on */
    uint64_t copy_ns;     /* time of copies from host to device in this call */
    uint64_t kernel_ns;   /* time of MTTKRPs */
    uint64_t solve_ns;    /* time of row updates and Gram matrices */
    uint64_t exchange_ns; /* time of sending rows from device to device */
    uint64_t exposed_ns;  /* the part of exchange_ns in which the device computed nothing */
    uint64_t idle_ns;     /* time without any copy, kernel, solve or exchange */
    /* the part of the mode's predicted cost, 0 to 1, that the device gets in the next pass */
    double share;
};

/* To which ranks the updated rows of a mode are sent: to none, to all, or to those that need
 * them. */
enum ts_rows_to { TS_ROWS_STAY, TS_ROWS_TO_ALL, TS_ROWS_TO_NEEDING };

struct ts_exchanged {
    uint64_t ns;        /* time that this rank waited for other ranks or their rows */
    uint64_t row_bytes; /* bytes of rows that reached ranks, for all ranks together */
    enum ts_rows_to rows_to;
};

/* How factors are distributed over ranks, for `spread`. In such runs, methods use rows between
 * modes only through passes and updates. */
struct ts_spread {
    /* 1: each rank has its own copy of the factors; 0: ranks of a machine may share one */
    int own;
    uint32_t skipped; /* bit m: there is no pass over mode m */
    /* TS_ROWS_TO_ALL: rows go to all ranks. TS_ROWS_TO_NEEDING: rows of updates go to the ranks
     * that need them, wherever that is possible. TS_ROWS_STAY: as TS_ROWS_TO_NEEDING, but only if
     * it is cheaper. */
    enum ts_rows_to rows_to;
};

struct ts_backend_times {
    uint64_t total_ns; /* time of the whole call */
    /* bytes of rows that reached ranks, for all ranks together; for ranks on CPU cores */
    uint64_t row_bytes;
    enum ts_rows_to rows_to;
    /* number of ranks whose times are in `device` or `cores`; 0: `device` has those of this process
     * alone */
    uint32_t n_ranks;
    uint32_t n_devices;
    struct ts_device_times device[TS_MAX_TEAM];
    /* times of n_ranks ranks on CPU cores, instead of `device`; valid until the next call; or
     * NULL */
    const struct ts_device_times *cores;
};

/* Returns the times in t of all devices, or of all ranks on CPU cores, and sets *n to their
 * number. */
static inline const struct ts_device_times *ts_backend_told(const struct ts_backend_times *t,
                                                            uint32_t *n)
{
    *n = t->cores != NULL ? t->n_ranks : t->n_devices;
    return t->cores != NULL ? t->cores : t->device;
}

/* The largest number of entries of the last mode's factor (16 MiB) for which the backend keeps what
 * float32 rounds off the product (see `sum_in`), which improves the fit. With more entries the
 * rounding errors are dropped, because they average out in the sum over all entries. The error that
 * remains is 1e-10 of this sum if rows have equal weight, and more if a few rows have most of the
 * weight. Fits up to 0.9997 do not change. */
#define TS_REST_ENTRIES (UINT64_C(1) << 22)

static inline int ts_rest_fits(const struct ts_tensor *t, uint32_t rank)
{
    return t->mode[t->order - 1].disk.n_rows <= TS_REST_ENTRIES / rank;
}

/* Whether the rounding errors of the product of the last mode are kept (TS_REST_ENTRIES) for at
 * least one model. */
static inline int ts_backend_keeps_rest(const struct ts_backend_conf *conf)
{
    int keeps = conf->n_models == 0 && ts_rest_fits(conf->tensor, conf->rank);
    for (uint32_t k = 0; k < conf->n_models; k++)
        keeps |= ts_rest_fits(conf->tensor, conf->ranks[k]);
    return conf->precision == TS_FLOAT32 && keeps;
}

/* The memory of a device by use, for output to the user. */
struct ts_device_memory {
    int number;            /* number of the device */
    uint64_t factor_bytes; /* factor matrices */
    uint64_t sum_bytes;    /* partial sums of rows, Gram matrices, and tables of shards */
    uint64_t kept_bytes;   /* shards that the device keeps */
    uint64_t slot_bytes;   /* slots (buffers of a shard) through which the other shards pass */
    uint64_t shared_bytes; /* dense tensor: products Y of cells and factors for several modes */
    double shared_part;    /* part of the rows of Y that memory holds, 0 to 1 */
    /* driver, code and libraries (measured or assumed), and what rounding of sizes adds */
    uint64_t driver_bytes;
};

/* A backend is this table alone: callers use it through these functions only, and a backend calls
 * functions of base, format and stream only. So a backend may become a shared object. A table with
 * another version number is rejected. */
#define TS_BACKEND_VERSION 1u

struct ts_backend {
    /* TS_BACKEND_VERSION, which is increased by each change of this header */
    uint32_t version;
    uint32_t bytes; /* sizeof(struct ts_backend) */
    const char *name;
    /* bits of enum ts_capability; functions that belong to a capability are NULL without it */
    uint32_t can;

    /* Returns the highest rank that the backend supports for conf's tensor, needs and precision. */
    uint32_t (*most_rank)(const struct ts_backend_conf *conf);
    int (*open)(const struct ts_backend_conf *conf, void **ret, struct ts_err *err);
    void (*close)(void *be); /* be may be NULL */

    /* Sets the bytes of host memory that `open` allocates: for factors, and for all else. The
     * memory of the feed is not included. */
    void (*need)(const struct ts_backend_conf *conf, uint64_t *factor_bytes, uint64_t *other_bytes);

    /* Returns the bytes of host memory in addition to `need` that would make passes after the first
     * one faster, if all shards are in memory. The bits of results do not depend on them. */
    uint64_t (*wish)(const struct ts_backend_conf *conf);

    /* Returns the bytes of host memory that a pass of CELLS (weighted.h) takes while it lasts. 0:
     * they are part of `need`, or the backend lacks CELLS. */
    uint64_t (*cells_bytes)(const struct ts_tensor *t, uint32_t rank, uint32_t threads);

    /* Returns how rows are sent between devices and ranks, for example "by NCCL". NULL: there is
     * one device, or MPI sends the rows. */
    const char *(*link)(const void *be);

    /* Returns the bytes of a row of a factor when it is sent, with its padding. */
    uint64_t (*row_bytes)(uint32_t rank, enum ts_precision precision);

    /* Sets the memory of each device of an open backend, and returns their number. NULL without
     * TS_CAN_OWN_MEMORY. */
    uint32_t (*memory)(const void *be, struct ts_device_memory ret[TS_MAX_DEVICES]);

    /* Sets in *ret, for struct ts_feed_conf, which device gets which shards, and which shards a
     * device keeps. The arrays belong to the backend, and are valid until its next call. */
    void (*deal)(void *be, struct ts_feed_deal *ret);

    /* `pin` and `unpin` of struct ts_feed_conf, which page-lock memory and undo it, with the
     * backend as context. NULL without TS_CAN_OWN_MEMORY: shards may be in any memory. A backend
     * may read such memory between calls. unpin waits for that, so the feed must be freed before
     * the backend. */
    int (*pin)(void *ctx, void *addr, size_t bytes, struct ts_err *err);
    void (*unpin)(void *ctx, void *addr);

    /* Copy rows row .. row+n-1 of factor[mode] from (put_rows) or to (get_rows) an array of `n x
     * rank` float64. */
    int (*put_rows)(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                    struct ts_err *err);
    int (*get_rows)(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err);

    /* Allocates memory, separate from the factor, for the products of these modes (bit m: mode m),
     * for updates that read the old rows. Returns TS_EARG if `open` had to reserve this memory, but
     * own_rows of its conf had no mode as large. */
    int (*own_rows)(void *be, uint32_t modes, struct ts_err *err);

    /* Sets the precision of products and sums of the last mode, which give the fit, in later calls.
     * At first it is that of the factors. With factors in float32, TS_FLOAT64 keeps 48 bits of the
     * product until it is solved, or 24 if 48 take too much memory (ts_backend_keeps_rest). It
     * applies to products with an update whose `sums` ask for `inner` (struct ts_row_sums), and to
     * products without an update. */
    void (*sum_in)(void *be, enum ts_precision summed);

    /* Makes the nonzeros that h holds out count as zeros in later passes. h->share 0: no nonzero is
     * held out. NULL without TS_CAN_HELD_OUT. */
    void (*hold_out)(void *be, const struct ts_hold_out *h);

    /* Computes n requests (request.h) of one kind, each of another model, in a pass over `mode`. It
     * takes every shard from the feed once for all requests, or twice if a request reads shards
     * twice. The caller has rewound the feed. times may be NULL only on CPU cores, for a single
     * request of a product without an update. */
    int (*pass)(const struct ts_request *requests, uint32_t n, uint32_t mode, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err);

    /* For a mode with the update MULTIPLY: multiplies the columns of its factor by the weights in
     * `multiply`, and divides each by the sum of its entries. No shard is read. */
    int (*divide_columns)(void *be, uint32_t mode, const struct ts_multiply *multiply,
                          struct ts_multiply_sums *ret, struct ts_err *err);

    /* For a mode with the update DESCEND: sets *zeros to the estimate of the loss that the model
     * would have if all cells were 0. Factors are not changed. */
    int (*zeros)(void *be, uint32_t mode, const struct ts_descent *descent, double *zeros,
                 struct ts_err *err);

    /* Updates the rows of factor[mode] as `update` says, with the product of the last pass, and
     * computes the sums over rows that `sums` asks for. */
    int (*solve)(void *be, uint32_t mode, const struct ts_row_update *update,
                 const struct ts_row_sums *sums, struct ts_err *err);

    /* Multiplies each column r of factor[mode] by s[r]. */
    int (*scale)(void *be, uint32_t mode, const double *s, struct ts_err *err);

    /* Sets gram to the Gram matrix of the mode: factor[mode]' factor[mode]. */
    int (*gram)(void *be, uint32_t mode, double *gram, struct ts_err *err);

    /* Returns model k, from 0, of several models in one pass; model 0 is the result of `open`. It
     * is valid until `close`, and serves as the `be` of the functions above, except for open,
     * close, need and wish. own_rows applies to all models. Each model has the same bits as if it
     * were computed alone. */
    void *(*model)(void *be, uint32_t k);

    /* Returns how many of conf's models, counted from the first one, fit in one pass if memory does
     * not matter. */
    uint32_t (*most)(const struct ts_backend_conf *conf);

    /* Returns the number of conf's models in one pass that takes the least time per model, if all
     * shards stay in memory: at least one, at most `most`. */
    uint32_t (*together)(const struct ts_backend_conf *conf);

    /* For a dense tensor with unknown cells: returns the number of groups of columns in which the
     * Gram matrix of each row is summed. Each group needs passes of its own over the cells. 0: the
     * rows take as many passes as a product (ts_dense_passes). */
    uint32_t (*groups)(const void *be);

    /* ---- functions with TS_CAN_RANKS. In a backend without it they are NULL: each rank has all
     * rows, and no rank waits for others before the next pass ---- */

    /* Returns time and bytes of the exchange with other ranks by `solve` and `gram` since the last
     * call. */
    struct ts_exchanged (*exchanged)(void *be);

    /* Spreads the factors over ranks. The ranks of a machine share one copy of the factors, all
     * zeros at first, unless each is to have its own. Rows go only to the ranks that need them.
     * Memory is shared, and rows are sent so, as far as the updates of the modes allow it.
     * Afterwards, all ranks must put the same rows, and only before the first pass. Rows may be
     * read before the first update or, by the first rank, after `collect`. Collective. */
    int (*spread)(void *be, const struct ts_spread *spread, struct ts_err *err);

    /* Returns the bytes of factors that ranks of a machine would share after `spread`; 0: the
     * updates of the modes do not allow sharing. */
    uint64_t (*shares)(const void *be);

    /* Sends to the first rank all rows of `modes` (bit m: mode m) that it lacks, if some rank
     * passes rc 1 or stops the run. rc: 1, 0 or the error of the caller's own work. All ranks get
     * the same result, as with `agree` (stream/comm.h). Collective, also for ranks that have
     * failed. No message is sent if no rank lacks rows. */
    int (*collect)(void *be, uint32_t modes, int rc, struct ts_err *err);

    /* Makes all ranks agree on a result, like `agree` of stream/comm.h. rc: the result of the
     * caller's own work since the last call. To be called if the next call needs this work of all
     * ranks. given_up returns whether another rank has failed: then the work is useless, and the
     * caller must call `agree`. */
    int (*agree)(void *be, int rc, struct ts_err *err);
    int (*given_up)(void *be);

    /* Collects the times of all ranks for a call over `mode` in *times. rc: the result of the
     * caller's own work since that call. Returns as `agree` does. Collective, also for ranks that
     * have failed. */
    int (*tell_ranks)(void *be, uint32_t mode, struct ts_backend_times *times, int rc,
                      struct ts_err *err);
};

/* Whether the backend has the capability `one`. */
static inline int ts_backend_can(const struct ts_backend *b, enum ts_capability one)
{
    return ts_has_capability(b->can, one);
}

#endif
