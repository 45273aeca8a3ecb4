/* SPDX-License-Identifier: BSD-3-Clause */
/* backend.h - what the engine needs of a processor. src/cpu and src/gpu each fill one table.
 *
 * A backend holds the factor matrices of all modes: factor[m] has a row per compact row of mode m
 * and `rank` columns, in float32 or float64. The matrix of a mode is also where its MTTKRP is
 * written: it is not an operand of that product, so no second matrix is needed. Only where the
 * update of a mode's rows reads their old values (own_rows) is the product kept apart. A backend of
 * several devices holds all of them on each, and none of it shows here.
 *
 *   owner    the backend owns the factors; matrices that cross this table are float64, row-major,
 *            rank x rank or n_rows x rank, without padding, owned by the caller
 *   threads  one thread calls; a backend uses what threads or streams it likes inside a call
 *   errors   0 or a negative ts_code; after a failure only close is allowed, and after TS_ESTOP
 *            get_rows of modes other than the one that was being computed: they are as they were,
 *            and so is that one where own_rows made place for its product
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

/* Bytes of the rows of a mode, one behind the other, in whole cache lines. */
static inline uint64_t ts_mode_rows_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank,
                                          enum ts_precision precision)
{
    return (t->mode[mode].disk.n_rows * rank * ts_precision_bytes(precision) + 63) / 64 * 64;
}

#define TS_MAX_DEVICES TS_FEED_MAX_CONSUMERS
#define TS_MAX_TEAM    64 /* devices of all ranks together */

struct ts_comm;
struct ts_trace;

struct ts_backend_conf {
    const struct ts_tensor *tensor;
    uint32_t rank;
    uint32_t n_models;     /* several models side by side, for a backend that has `model`; 0: one */
    const uint32_t *ranks; /* of them, instead of `rank`; lent for the call */
    enum ts_precision precision;
    uint32_t threads;           /* 0: all */
    int device[TS_MAX_DEVICES]; /* gpu: numbers of the devices; one may be named twice, for tests */
    uint32_t n_devices;
    uint64_t device_bytes; /* gpu: memory budget of each device; 0: what is free, less a reserve */
    uint64_t host_bytes;   /* most memory that `pin` will lock: devices need tables for it */
    uint64_t spare_bytes;  /* part of what `wish` asks for that there is; 0: none */
    uint32_t needs;        /* bits of enum ts_capability that the run needs */
    int products;          /* products are all that is wanted: nothing is solved with them */
    uint32_t own_rows;     /* modes (bit m: mode m) that own_rows will be called for */
    int only_mode;         /* -1, or the only mode that is used: no memory for shards of others */
    int exchange;          /* gpu: enum ts_exchange_kind (gpu/exchange/exchange.h); 0 chooses */
    struct ts_comm *comm;  /* of the ranks that compute each a part; NULL: this process alone */
    const volatile sig_atomic_t *stop; /* gpu: open fails with TS_ESTOP once it is not 0; or NULL */
    struct ts_trace *trace;            /* gets the copies and kernels; or NULL */
    /* Called with the nonzeros of shards that a device has kept, so that they did not come from the
     * feed; from any thread; or NULL. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
};

/* Where a device's time went in one call. Work that ran at the same time is counted in each. */
struct ts_device_times {
    int number;    /* of the device; -1: CPU cores */
    uint32_t rank; /* that computes with it, where several ranks are told of */
    uint64_t nnz;
    uint64_t bytes;       /* bytes of its shards sent by the host */
    uint64_t early_bytes; /* of these, prefetched during the call before */
    uint64_t wait_ns;     /* no shard was ready */
    uint64_t copy_ns;     /* host to device, in this call */
    uint64_t kernel_ns;   /* the product */
    uint64_t solve_ns;    /* rows and Gram matrix */
    uint64_t exchange_ns; /* rows from device to device */
    uint64_t exposed_ns;  /* part of it during which nothing computed */
    uint64_t idle_ns;     /* no copy, kernel, solve or exchange ran */
    double share;         /* share of the mode's predicted cost that it gets next, 0 to 1 */
};

/* To which ranks the rows of a mode went. */
enum ts_rows_to { TS_ROWS_STAY, TS_ROWS_TO_ALL, TS_ROWS_TO_NEEDING };

struct ts_exchanged {
    uint64_t ns;        /* that a rank waited for others or their rows */
    uint64_t row_bytes; /* of rows that reached ranks, all of them together */
    enum ts_rows_to rows_to;
};

/* How ranks have the factors, for runs in which no method reads or writes rows of factors between
 * modes but by passes and updates. */
struct ts_spread {
    int own;          /* ranks of a machine have a copy each */
    uint32_t skipped; /* bit m: there is no pass over mode m */
    /* TS_ROWS_TO_ALL: rows go to all. TS_ROWS_TO_NEEDING: those of updates to those who need them,
     * wherever that is possible. TS_ROWS_STAY: the same where it is cheaper. */
    enum ts_rows_to rows_to;
};

struct ts_backend_times {
    uint64_t total_ns;  /* of the call */
    uint64_t row_bytes; /* as in struct ts_exchanged, of ranks on CPU cores */
    enum ts_rows_to rows_to;
    uint32_t n_ranks; /* 0: times are of this process; else of the devices of so many */
    uint32_t n_devices;
    struct ts_device_times device[TS_MAX_TEAM];
    /* of n_ranks on CPU cores, lent until the next call, instead of `device`; or NULL */
    const struct ts_device_times *cores;
};

/* Of all devices that are told of. */
static inline const struct ts_device_times *ts_backend_told(const struct ts_backend_times *t,
                                                            uint32_t *n)
{
    *n = t->cores != NULL ? t->n_ranks : t->n_devices;
    return t->cores != NULL ? t->cores : t->device;
}

/* Largest number of entries of the last mode's factor for which the part of its product that
 * float32 loses is kept: 16 MiB. With more entries it is lost. The errors of so many roundings
 * average out in the sum over all entries: to 1e-10 of it where rows have equal weight, to more
 * where a few rows have most. Fits up to 0.9997 do not change. */
#define TS_REST_ENTRIES (UINT64_C(1) << 22)

static inline int ts_rest_fits(const struct ts_tensor *t, uint32_t rank)
{
    return t->mode[t->order - 1].disk.n_rows <= TS_REST_ENTRIES / rank;
}

/* Whether any of the models keeps it. */
static inline int ts_backend_keeps_rest(const struct ts_backend_conf *conf)
{
    int keeps = conf->n_models == 0 && ts_rest_fits(conf->tensor, conf->rank);
    for (uint32_t k = 0; k < conf->n_models; k++)
        keeps |= ts_rest_fits(conf->tensor, conf->ranks[k]);
    return conf->precision == TS_FLOAT32 && keeps;
}

/* What the memory of a device is used for, to be shown to the user. */
struct ts_device_memory {
    int number;            /* of the device */
    uint64_t factor_bytes; /* factor matrices */
    uint64_t sum_bytes;    /* partial rows, Gram matrices and tables of shards */
    uint64_t kept_bytes;   /* shards that stay */
    uint64_t slot_bytes;   /* all slots for others */
    uint64_t shared_bytes; /* of a dense tensor: products that several modes share */
    double shared_part;    /* of its rows that these are of: 0 to 1 */
    uint64_t driver_bytes; /* driver, code and libraries, measured or assumed; rounding */
};

/* A backend is this table alone: what is not in it, a caller cannot ask for, and what a backend
 * calls of others is in base, format and stream. So a backend may become a shared object, which has
 * the table of its version or is refused. */
#define TS_BACKEND_VERSION 1u

struct ts_backend {
    /* TS_BACKEND_VERSION; the next one with each change of what this header shows */
    uint32_t version;
    uint32_t bytes; /* sizeof(struct ts_backend) */
    const char *name;
    /* bits of enum ts_capability; calls that a capability names are NULL without it */
    uint32_t can;

    /* The highest rank that it has for a tensor, with these needs and this precision. */
    uint32_t (*most_rank)(const struct ts_backend_conf *conf);
    int (*open)(const struct ts_backend_conf *conf, void **ret, struct ts_err *err);
    void (*close)(void *be); /* NULL is fine */

    /* Bytes of host memory that open will take besides a feed, factors apart and included. */
    void (*need)(const struct ts_backend_conf *conf, uint64_t *factor_bytes, uint64_t *other_bytes);

    /* Bytes of host memory with which calls after the first would be faster, once all shards lie in
     * memory. The bits of results do not depend on them. */
    uint64_t (*wish)(const struct ts_backend_conf *conf);

    /* Bytes of host memory that a pass of cells (weighted.h) takes while it lasts; 0: what `need`
     * says has them, or CELLS is lacking. */
    uint64_t (*cells_bytes)(const struct ts_tensor *t, uint32_t rank, uint32_t threads);

    /* By what rows get from device to device, and from rank to rank: "by NCCL", say; NULL: there is
     * one device, or rows travel as MPI has it. */
    const char *(*link)(const void *be);

    /* Of a row of a factor, as it travels: with its padding. */
    uint64_t (*row_bytes)(uint32_t rank, enum ts_precision precision);

    /* For each device, once open; returns their number. NULL without TS_CAN_OWN_MEMORY. */
    uint32_t (*memory)(const void *be, struct ts_device_memory ret[TS_MAX_DEVICES]);

    /* Which shards go to which device, and which stay there, for struct ts_feed_conf; the arrays
     * are the backend's and hold until its next call. */
    void (*deal)(void *be, struct ts_feed_deal *ret);

    /* For struct ts_feed_conf, with the backend as context; NULL without TS_CAN_OWN_MEMORY: shards
     * may be in any memory. A backend may still read such memory between calls. unpin waits for
     * that, so the feed must be freed before the backend. */
    int (*pin)(void *ctx, void *addr, size_t bytes, struct ts_err *err);
    void (*unpin)(void *ctx, void *addr);

    /* Rows row .. row+n-1 of factor[mode], from and to `n x rank` float64. */
    int (*put_rows)(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                    struct ts_err *err);
    int (*get_rows)(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err);

    /* Makes place for products of these modes (bit m: mode m) beside their factors, for updates
     * that read the old rows. TS_EARG where memory had to be set aside by open, and own_rows of its
     * conf had no mode as large. */
    int (*own_rows)(void *be, uint32_t modes, struct ts_err *err);

    /* How later calls multiply and sum in the last mode, whose product gives the fit: at first in
     * the precision of the factors. TS_FLOAT64 with factors in float32 keeps the product to 48 bits
     * until it is solved for, or to 24 where that takes too much memory (ts_backend_keeps_rest). It
     * holds for products whose sums have `inner`, and for products without an update. */
    void (*sum_in)(void *be, enum ts_precision summed);

    /* In passes that come, nonzeros that are held out count as zeros; share 0: none is. NULL
     * without TS_CAN_HELD_OUT. */
    void (*hold_out)(void *be, const struct ts_hold_out *h);

    /* What n requests ask for (request.h), each of another model, all of one kind, taking every
     * shard of `mode` from feed: once for all of them, or a second time where a request says so.
     * The caller has rewound the feed. times: NULL only on CPU cores, for one request of a product
     * alone. */
    int (*pass)(const struct ts_request *requests, uint32_t n, uint32_t mode, struct ts_feed *feed,
                struct ts_backend_times *times, struct ts_err *err);

    /* Of a mode whose rows are multiplied, without a round: columns are multiplied with the weights
     * and divided by their sums. */
    int (*divide_columns)(void *be, uint32_t mode, const struct ts_multiply *multiply,
                          struct ts_multiply_sums *ret, struct ts_err *err);

    /* Of a mode whose rows descend: *zeros gets the estimate of the sum over all cells of the loss
     * of value 0 there. Nothing changes. */
    int (*zeros)(void *be, uint32_t mode, const struct ts_descent *descent, double *zeros,
                 struct ts_err *err);

    /* With M the product that the pass before this call computed: factor[mode] := A, row by row as
     * `multiply` says; and the sums of it. */
    int (*solve)(void *be, uint32_t mode, const struct ts_row_update *update,
                 const struct ts_row_sums *sums, struct ts_err *err);

    /* factor[mode](:, r) *= s[r] */
    int (*scale)(void *be, uint32_t mode, const double *s, struct ts_err *err);

    /* gram := factor[mode]' factor[mode] */
    int (*gram)(void *be, uint32_t mode, double *gram, struct ts_err *err);

    /* Several models in one pass. What open returns is the first of them; `model` gives the k-th,
     * from 0, which stays until close and is the `be` of the calls above, open, close, need and
     * wish apart. All models have the same own_rows. Each has the bits that it has alone. */
    void *(*model)(void *be, uint32_t k);

    /* How many of conf's models, from the first on, there may be at once, whatever memory they
     * take. */
    uint32_t (*most)(const struct ts_backend_conf *conf);

    /* How many of them take the least time for each, where all shards stay in memory: at least one,
     * at most `most`. */
    uint32_t (*together)(const struct ts_backend_conf *conf);

    /* Of a dense tensor with unknown cells: in how many groups the columns of what is summed for
     * each row come, each with passes of its own over the cells; 0: such a model takes the passes
     * of a product (ts_dense_passes). */
    uint32_t (*groups)(const void *be);

    /* ---- with TS_CAN_RANKS; NULL without it: all ranks have all rows, and none waits for others
     * before the next pass ---- */

    /* Since the last call: what solve and gram exchanged with other ranks. */
    struct ts_exchanged (*exchanged)(void *be);

    /* Ranks of a machine get one copy of the factors, all zeros, where several are on one, unless
     * each is to have its own, and rows go to those ranks that need them: each where updates allow
     * it. Rows are put then by all ranks alike, before the first pass alone, and got before the
     * first update or, by the first rank, after `collect`. Collective. */
    int (*spread)(void *be, const struct ts_spread *spread, struct ts_err *err);

    /* Bytes of the factors that there is one copy of then; 0: updates do not allow it. */
    uint64_t (*shares)(const void *be);

    /* The first rank gets all rows of `modes` that it lacks, where any rank wishes it, by rc 1, or
     * stops. rc: 1, 0 or what the caller's own work ended with; returns the same of all ranks, as
     * agree does (stream/comm.h). Collective, also by ranks that have failed; without a message to
     * others where none lacks rows. */
    int (*collect)(void *be, uint32_t modes, int rc, struct ts_err *err);

    /* What work of the caller's own between two calls, which the next one needs of all ranks, ended
     * with; returns the same of all ranks, as agree does (stream/comm.h). given_up: whether another
     * rank has, so that such work is of no use and agree comes next. */
    int (*agree)(void *be, int rc, struct ts_err *err);
    int (*given_up)(void *be);

    /* Adds to the times of a call over `mode` those of all ranks. rc: what the caller's own work
     * since then ended with; returns as agree does. Collective, also by ranks that have failed. */
    int (*tell_ranks)(void *be, uint32_t mode, struct ts_backend_times *times, int rc,
                      struct ts_err *err);
};

/* Whether it has the capability. */
static inline int ts_backend_can(const struct ts_backend *b, enum ts_capability one)
{
    return ts_has_capability(b->can, one);
}

#endif
