/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange_way.h - an exchange of data between GPUs and its ways (NCCL, COPY, HOST), for
 * exchange*.c alone.
 *
 *   owner    exchange.c makes and frees struct ts_exchange; its member `way` belongs to the way in
 *            use
 *   threads  as exchange.h says; `aborted` is set once, by any thread
 */
#ifndef TS_GPU_EXCHANGE_WAY_H
#define TS_GPU_EXCHANGE_WAY_H

#include <stdatomic.h>

#include "gpu/exchange/exchange.h"
#include "gpu/team/gpu_types.h"

struct ts_exchange {
    const struct ts_exchange_way *ops;
    void *way;
    uint32_t n; /* ranks, of which this process has first .. first + n_here - 1 */
    uint32_t first, n_here;
    struct ts_comm *comm; /* NULL: all ranks are in this process */
    uint32_t *first_of;   /* first rank of each process, as in struct ts_exchange_conf */
    uint64_t *byte;       /* buffer for offsets in calls of comm, as many as first_of */
    int *device;          /* device of each rank; -1: it belongs to another process */
    ts_gpu_event *done; /* for each rank: recorded after its last gather, on that gather's stream */
    const volatile sig_atomic_t *stop; /* a flag that stops `open` of the way if not 0; or NULL */
    atomic_int aborted;
    atomic_int suspect; /* 1: a failure was noticed that another process may have caused */
    char note[sizeof((struct ts_err *)0)->text];
};

/* A way of exchanging data between ranks. `gather` is called as ts_exchange_gather is, but only if
 * there is more than one rank. */
struct ts_exchange_way {
    enum ts_exchange_kind kind;
    int pushes; /* 1: a gather of a rank writes the other ranks' replicas, not its own */
    int blocks; /* 1: gather returns only when the exchange is done */
    int (*open)(struct ts_exchange *x, struct ts_err *err); /* NULL: there is nothing to open */
    void (*close)(struct ts_exchange *x); /* also called when open failed; may be NULL */
    int (*gather)(struct ts_exchange *x, uint32_t rank, void *const base[],
                  const struct ts_exchange_part part[], ts_gpu_stream stream, struct ts_err *err);
    int (*check)(struct ts_exchange *x, uint32_t rank, struct ts_err *err); /* may be NULL */
    void (*abort)(struct ts_exchange *x); /* called after x->aborted was set; NULL: nothing to do */
};

extern const struct ts_exchange_way ts_exchange_copy, ts_exchange_host, ts_exchange_nccl;

/* The path of an NCCL library that is tried before the one of the machine; NULL: none. */
extern const char *ts_exchange_nccl_file;

/* Returns 0 if this process can use NCCL, otherwise TS_ELIMIT with the reason. */
int ts_exchange_nccl_there(struct ts_err *err);

static inline int ts_exchange_is_here(const struct ts_exchange *x, uint32_t rank)
{
    return rank - x->first < x->n_here;
}

/* Waits between two checks for the end of an operation; since_ns: time of the first check. A gather
 * takes 20 us to some ms, and the shortest sleep about 60 us. */
void ts_exchange_pause(uint64_t since_ns);

/* Writes to err that the exchange was aborted, as all calls after an abort do, and returns the
 * code. */
int ts_exchange_fail_aborted(struct ts_err *err);

#endif
