/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_state.h - the structs that the files of the CPU backend share.
 *
 *   cpu_backend.c  the table of functions of the backend
 *   cpu_open.c     opens and closes the backend
 *   cpu_losses.c   updates rows of Poisson models and of models with other losses
 *   cpu_budget.c   computes memory before the backend is opened
 *   cpu_ranks.c    shares factors between ranks, and sends rows to them
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

/* The updates whose rows are always sent to all ranks (a set of enum ts_row_set). Rows of other
 * updates may be sent only to the ranks that need them. */
#define TS_CPU_TO_ALL TS_ROWS_BY_LOSS

/* Most models of a backend. With so many, reading the tensor is a small part of a pass. */
#define TS_CPU_MOST_MODELS 32u

/* Data that models share: their factors are column ranges of these matrices. Models whose rows
 * follow from a loss or from their own Gram matrices are *apart*: each has a struct ts_cpu_shared
 * of its own, and they share only passes. */
struct ts_cpu_shared {
    const struct ts_tensor *tensor;
    uint32_t threads;
    struct ts_pass *pass;             /* passes over shards; NULL: the tensor is dense */
    struct ts_dense_product *dense;   /* products of a dense tensor; NULL: the tensor has shards */
    struct ts_dense_rows *dense_rows; /* solver for unknown cells; NULL: not used yet */
    /* held-out cells, which count as 0 in products of a dense tensor */
    struct ts_hold_out hold_out;
    struct ts_fmat factor[TS_MAX_ORDER];
    /* the part of the last mode's product that rounding to float32 loses; no data: it is not
     * kept */
    struct ts_fmat rest;
    /* products of the modes whose bits are set in `own`; no data: there are none */
    struct ts_fmat apart;
    struct ts_rounds *rounds; /* makes multiplicative updates; NULL: not used yet */
    struct ts_steps *steps;   /* makes gradient steps; NULL: not used yet */
    uint32_t own, n_models;
    struct ts_cpu *model;
    uint32_t n_apart; /* in the first of several models that are apart: number of these models */
    /* in the first of several models that are apart: data of the other models */
    struct ts_cpu_shared **others;
    /* how several ranks (processes) divide the work; NULL: this process alone */
    struct ts_share *share;
    struct ts_comm *comm;  /* messages between ranks; owns the memory of shared factors; or NULL */
    uint32_t capabilities; /* capabilities that the run needs: bits of enum ts_capability */
    /* 1: this rank has put rows into shared factors, which other ranks may not see yet */
    int put;
    /* memory for `group` and `row` of each model's struct ts_rowsolve_ranks */
    uint64_t *dealt;
    struct ts_device_times *told; /* times of each rank, as they are returned to the caller */
    struct ts_needs *needs;       /* which ranks need which rows; NULL: all rows go to all ranks */
    /* first_lacks: bit m is set if the first rank lacks some rows of mode m; lacks: if this rank
     * does */
    uint32_t first_lacks, lacks;
    struct ts_trace *trace; /* the trace of the run, which records times; or NULL */
};

/* A model. The engine has a pointer to it. */
struct ts_cpu {
    struct ts_cpu_shared *shared;
    uint32_t rank, col;
    int keeps_rest;
    /* all models of the same rank share this object; frees_rows: this model frees it */
    struct ts_rowsolve *rows;
    int frees_rows;
    struct ts_fmat factor[TS_MAX_ORDER]; /* the model's columns of the shared matrices */
    /* the product of the last pass: in the factor of its mode, or in `apart` */
    struct ts_fmat product;
    /* how the rows of each mode are divided among ranks */
    struct ts_rowsolve_ranks ranks[TS_MAX_ORDER];
    /* the mode, from 1, whose product is divided among several ranks; 0: none */
    uint32_t scattered;
    enum ts_precision summed;
};

/* ---- defined in cpu_budget.c */
uint32_t ts_cpu_threads(const struct ts_backend_conf *conf);
uint32_t ts_cpu_models(const struct ts_backend_conf *conf);
uint32_t ts_cpu_rank_of(const struct ts_backend_conf *conf, uint32_t k);
/* Returns the columns that a model takes in a shared matrix: rank, rounded up to whole cache
 * lines. */
uint32_t ts_cpu_columns_of(uint32_t rank, enum ts_precision precision);
/* Returns the conf of a single model that has the columns of all models of conf. */
struct ts_backend_conf ts_cpu_conf_of_all(const struct ts_backend_conf *conf);
/* Whether an earlier model has the same rank as model k; *ret is its number. */
int ts_cpu_has_rank_of(const struct ts_backend_conf *conf, uint32_t k, uint32_t *ret);
struct ts_dense_product_conf ts_cpu_dense_conf(const struct ts_backend_conf *conf);
int ts_cpu_descends(const struct ts_backend_conf *conf);
/* Whether the run has updates of rows that follow from a loss. */
int ts_cpu_multiplies(const struct ts_backend_conf *conf);
/* Whether there are several models, and each has matrices of its own. */
int ts_cpu_are_apart(const struct ts_backend_conf *conf);
/* Returns the conf of model k alone, for models that are apart (with matrices of their own). */
struct ts_backend_conf ts_cpu_conf_apart(const struct ts_backend_conf *conf, uint32_t k);
void ts_cpu_need(const struct ts_backend_conf *conf, uint64_t *factor_bytes, uint64_t *other_bytes);
uint32_t ts_cpu_most(const struct ts_backend_conf *conf);
uint32_t ts_cpu_together_here(const struct ts_backend_conf *conf);
uint64_t ts_cpu_wish(const struct ts_backend_conf *conf);
uint64_t ts_cpu_row_bytes(uint32_t rank, enum ts_precision precision);

/* ---- cpu_open.c: functions of struct ts_backend, with the same names as in that struct */
int ts_cpu_open(const struct ts_backend_conf *conf, void **ret, struct ts_err *err);
void ts_cpu_close(void *be);

/* ---- cpu_losses.c: functions of struct ts_backend, and requests of n models that are apart, or of
 * one model */
int ts_cpu_divide_columns(void *be, uint32_t mode, const struct ts_multiply *multiply,
                          struct ts_multiply_sums *ret, struct ts_err *err);
int ts_cpu_zeros(void *be, uint32_t mode, const struct ts_descent *descent, double *zeros,
                 struct ts_err *err);
int ts_cpu_multiply_all(const struct ts_request *w, uint32_t n, uint32_t mode, struct ts_feed *feed,
                        struct ts_backend_times *times, struct ts_err *err);
int ts_cpu_descend_all(const struct ts_request *w, uint32_t n, uint32_t mode, struct ts_feed *feed,
                       struct ts_backend_times *times, struct ts_err *err);

/* ---- defined in cpu_ranks.c */
int ts_cpu_ranks_open(struct ts_cpu_shared *s, const struct ts_comm *comm, struct ts_err *err);
uint64_t ts_cpu_shares(const void *be);
int ts_cpu_spread(void *be, const struct ts_spread *spread, struct ts_err *err);
int ts_cpu_agree(void *be, int rc, struct ts_err *err);
int ts_cpu_tell_ranks(void *be, uint32_t mode, struct ts_backend_times *times, int rc,
                      struct ts_err *err);
int ts_cpu_given_up(void *be);
int ts_cpu_collect(void *be, uint32_t modes, int rc, struct ts_err *err);
const char *ts_cpu_link(const void *be);
/* Sets which shards the feed lends to this rank (`deal` of struct ts_backend). Shards whose
 * partitions are all computed by other ranks are left out. */
void ts_cpu_deal(void *be, struct ts_feed_deal *ret);
/* Waits until all ranks have finished their work with a factor that they share. To be called before
 * it changes, and after all ranks have read it. */
int ts_cpu_settle(struct ts_cpu_shared *s, const struct ts_fmat *f, struct ts_err *err);
int ts_cpu_settle_put(struct ts_cpu_shared *s, struct ts_err *err);
/* Sends the rows of a mode from the ranks whose passes computed them to the ranks that update these
 * rows. Later, the backend's `solve` or `gram` sends all rows, or those that are needed, to all
 * ranks. */
int ts_cpu_deal_rows(struct ts_cpu *c, uint32_t mode, struct ts_fmat *rows, int some,
                     struct ts_backend_times *times, struct ts_err *err);
struct ts_exchanged ts_cpu_exchanged(void *be);
/* Sets times->row_bytes to the bytes of rows that were sent in a call with passes and updates.
 * Returns the time that sending took. */
uint64_t ts_cpu_tell_rows(void *be, struct ts_backend_times *times);
/* Records that rows of the mode were sent to all ranks, or to some of them only. */
void ts_cpu_note_lacks(struct ts_cpu_shared *s, uint32_t mode,
                       const struct ts_rowsolve_ranks *ranks);
/* Scales the columns of the rows that this rank has updated, and of those that it received. */
void ts_cpu_scale_some(struct ts_cpu *c, uint32_t mode, const double *s);

#endif
