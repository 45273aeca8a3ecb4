/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_state.h - what the files of the CPU backend share.
 *
 *   cpu_backend.c  the backend table: factors, products, rows
 *   cpu_open.c     opens and closes it
 *   cpu_losses.c   rows of counts and by other losses
 *   cpu_budget.c   what it takes, from what it is asked for alone
 *   cpu_ranks.c    several ranks: shared memory, to whom rows go
 *
 *   owner    cpu_backend.c makes and frees it
 *   units    bytes; rows; columns
 *   threads  one thread calls the backend
 */
#ifndef TS_CPU_CPU_STATE_H
#define TS_CPU_CPU_STATE_H

#include "cpu/dense/dense_product.h"
#include "cpu/extent.h"
#include "cpu/fmat.h"
#include "cpu/ranks/needs.h"
#include "cpu/sparse/pass.h"
#include "cpu/rows/rowsolve.h"
#include "cpu/ranks/share.h"
#include "stream/backend.h"

/* Rows of these updates go to all ranks, each in a way of its own; those of others may go to the
 * ranks that need them alone. */
#define TS_CPU_TO_ALL TS_ROWS_BY_LOSS

/* Most models of a backend: with as many the tensor's part of a pass is a small one. */
#define TS_CPU_MOST_MODELS 32u

/* What the models of a backend share: their factors lie side by side in the rows of these matrices.
 * Models whose rows are made nonzero by nonzero are *apart*: each has all of this of its own, and
 * they share passes. */
struct ts_cpu_shared {
    const struct ts_tensor *tensor;
    uint32_t threads;
    struct ts_pass *pass;             /* over shards; NULL: the tensor is dense */
    struct ts_dense_product *dense;   /* of its slabs; NULL: it has shards */
    struct ts_dense_rows *dense_rows; /* NULL: no rows of unknown cells were solved for yet */
    struct ts_hold_out hold_out;      /* from products of slabs */
    struct ts_fmat factor[TS_MAX_ORDER];
    struct ts_fmat rest;      /* of products of the last mode; no data: not kept */
    struct ts_fmat apart;     /* for products of any mode of `own`; no data: there are none */
    struct ts_rounds *rounds; /* NULL: no rows were multiplied yet */
    struct ts_steps *steps;   /* NULL: no rows have descended yet */
    uint32_t own, n_models;
    struct ts_cpu *model;
    uint32_t n_apart;              /* of the first of those that are apart: how many there are, */
    struct ts_cpu_shared **others; /* and from the second on which */
    struct ts_share *share;        /* of several ranks; NULL: this process alone */
    struct ts_comm *comm;          /* that has the memory of factors that are shared */
    uint32_t capabilities;         /* that the run needs: bits of enum ts_capability */
    int put;                      /* rows of these were put, and others may be putting them still */
    uint64_t *dealt;              /* memory of what they deal */
    struct ts_device_times *told; /* of each rank */
    struct ts_needs *needs;       /* to whom rows go; NULL: to all */
    /* modes of which not all ranks have all rows: the first one, this one */
    uint32_t first_lacks, lacks;
    struct ts_trace *trace; /* or NULL */
};

/* A model: what the engine holds. */
struct ts_cpu {
    struct ts_cpu_shared *shared;
    uint32_t rank, col;
    int keeps_rest;
    struct ts_rowsolve *rows; /* one for all models of a rank; the first of them frees it */
    int frees_rows;
    struct ts_fmat factor[TS_MAX_ORDER]; /* views */
    struct ts_fmat product; /* of the mode that was passed over last: its factor, or in `apart` */
    struct ts_rowsolve_ranks ranks[TS_MAX_ORDER]; /* of each mode */
    uint32_t scattered; /* the mode, from 1, whose product lies on several ranks; 0: none */
    enum ts_precision summed;
};

/* ---- cpu_budget.c */
uint32_t ts_cpu_threads(const struct ts_backend_conf *conf);
uint32_t ts_cpu_models(const struct ts_backend_conf *conf);
uint32_t ts_cpu_rank_of(const struct ts_backend_conf *conf, uint32_t k);
/* Columns that a model takes beside others: whole lines of a cache. */
uint32_t ts_cpu_columns_of(uint32_t rank, enum ts_precision precision);
/* As of one model that has the columns of all. */
struct ts_backend_conf ts_cpu_conf_of_all(const struct ts_backend_conf *conf);
/* Whether it has the rank of one before it. */
int ts_cpu_has_rank_of(const struct ts_backend_conf *conf, uint32_t k, uint32_t *ret);
struct ts_dense_product_conf ts_cpu_dense_conf(const struct ts_backend_conf *conf);
int ts_cpu_descends(const struct ts_backend_conf *conf);
/* Rows are told of a loss. */
int ts_cpu_multiplies(const struct ts_backend_conf *conf);
/* There are several models, and each has matrices of its own. */
int ts_cpu_are_apart(const struct ts_backend_conf *conf);
/* Of model k of those that are apart, alone. */
struct ts_backend_conf ts_cpu_conf_apart(const struct ts_backend_conf *conf, uint32_t k);
void ts_cpu_need(const struct ts_backend_conf *conf, uint64_t *factor_bytes, uint64_t *other_bytes);
uint32_t ts_cpu_most(const struct ts_backend_conf *conf);
uint32_t ts_cpu_together_here(const struct ts_backend_conf *conf);
uint64_t ts_cpu_wish(const struct ts_backend_conf *conf);
uint64_t ts_cpu_row_bytes(uint32_t rank, enum ts_precision precision);

/* ---- cpu_open.c: what the backend's table says, of the same names */
int ts_cpu_open(const struct ts_backend_conf *conf, void **ret, struct ts_err *err);
void ts_cpu_close(void *be);

/* ---- cpu_losses.c: the same; and requests of n models that are apart, or of one */
int ts_cpu_divide_columns(void *be, uint32_t mode, const struct ts_multiply *multiply,
                          struct ts_multiply_sums *ret, struct ts_err *err);
int ts_cpu_zeros(void *be, uint32_t mode, const struct ts_descent *descent, double *zeros,
                 struct ts_err *err);
int ts_cpu_multiply_all(const struct ts_request *w, uint32_t n, uint32_t mode, struct ts_feed *feed,
                        struct ts_backend_times *times, struct ts_err *err);
int ts_cpu_descend_all(const struct ts_request *w, uint32_t n, uint32_t mode, struct ts_feed *feed,
                       struct ts_backend_times *times, struct ts_err *err);

/* ---- cpu_ranks.c */
int ts_cpu_ranks_open(struct ts_cpu_shared *s, const struct ts_comm *comm, struct ts_err *err);
uint64_t ts_cpu_shares(const void *be);
int ts_cpu_spread(void *be, const struct ts_spread *spread, struct ts_err *err);
int ts_cpu_agree(void *be, int rc, struct ts_err *err);
int ts_cpu_tell_ranks(void *be, uint32_t mode, struct ts_backend_times *times, int rc,
                      struct ts_err *err);
int ts_cpu_given_up(void *be);
int ts_cpu_collect(void *be, uint32_t modes, int rc, struct ts_err *err);
const char *ts_cpu_link(const void *be);
/* Shards of which other ranks compute all partitions are not wanted here. */
void ts_cpu_deal(void *be, struct ts_feed_deal *ret);
/* Before a factor that is shared changes, or after all ranks were to read it: all are done with
 * what they did. */
int ts_cpu_settle(struct ts_cpu_shared *s, const struct ts_fmat *f, struct ts_err *err);
int ts_cpu_settle_put(struct ts_cpu_shared *s, struct ts_err *err);
/* Rows of a mode, which are where its pass left them, to the ranks that have their groups, until
 * all get all, or what they need of an update: in solve or gram. */
int ts_cpu_deal_rows(struct ts_cpu *c, uint32_t mode, struct ts_fmat *rows, int some,
                     struct ts_backend_times *times, struct ts_err *err);
struct ts_exchanged ts_cpu_exchanged(void *be);
/* Rows that went in a call that has passes and updates in one. Returns the time that was noted. */
uint64_t ts_cpu_tell_rows(void *be, struct ts_backend_times *times);
/* Rows of the mode have gone to all ranks, or to some. */
void ts_cpu_note_lacks(struct ts_cpu_shared *s, uint32_t mode,
                       const struct ts_rowsolve_ranks *ranks);
/* Rows that this rank has updated, and those that it got. */
void ts_cpu_scale_some(struct ts_cpu *c, uint32_t mode, const double *s);

#endif
