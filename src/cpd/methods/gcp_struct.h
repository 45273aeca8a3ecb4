/* SPDX-License-Identifier: BSD-3-Clause */
/* gcp_struct.h - struct ts_gcp: what the methods that descend by a loss, gcp_adam.c and lbfgsb.c,
 * share. It is the first member of their `own`.
 *
 *   owner    the run (method.h); moments are in memory of `make`, until `end`
 *   threads  one calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_GCP_STRUCT_H
#define TS_CPD_GCP_STRUCT_H

#include "cpd/methods/gcp.h"
#include "cpd/solver/solver_struct.h"

struct ts_gcp {
    struct ts_descent descent; /* of the pass that is wanted */
    struct ts_loss_sums sums;  /* of the pass that sums the loss */
    void *memory;              /* of the moments */
    uint64_t memory_bytes;
    void *moment[TS_MOMENTS_MOST][TS_MAX_ORDER]; /* as many as ts_spec_moments says */
    double rate, before; /* before: the objective of the sweep before; NaN: there was none */
    struct ts_cell_losses kept, held;
    double zeros;       /* estimate over all cells of f(0, m) */
    double first, last; /* the objective after the first sweep, and after the last one; */
    uint32_t idle;      /* and in how many, up to that, it hardly fell */
};

/* Bytes of n moments of all modes. */
uint64_t ts_gcp_moments_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                              uint32_t n);

/* Whether the loss leaves random factors as they were drawn. */
int ts_gcp_start_is_drawn(const struct ts_init_conf *c);

int ts_gcp_check(const struct ts_solver *a, struct ts_err *err);

/* Moments of zeros. */
int ts_gcp_make(struct ts_solver *a, struct ts_err *err);
void ts_gcp_end(struct ts_solver *a);

/* The same, and random factors of the size that the values ask for. */
int ts_gcp_start(struct ts_solver *a, struct ts_err *err);

/* Loss, l2, bounds and hold-out of a mode; nothing of steps, draws and cells. */
struct ts_descent ts_gcp_descent(const struct ts_solver *a, uint32_t mode);

/* Root mean square of the entries of a factor. */
double ts_gcp_size(const struct ts_solver *a, uint32_t mode);

/* What is wanted of the pass over a->product: the sums of the loss where a->at is TS_SOLVER_AGAIN,
 * else what `descent` says, whose cells stand for zeros there, too. */
int ts_gcp_request(struct ts_solver *a, const struct ts_descent *descent, struct ts_request *ret,
                   struct ts_err *err);

/* After the pass that sums: kept, held and zeros. */
int ts_gcp_sum_up(struct ts_solver *a, struct ts_err *err);

/* What is minimised, of these sums, and the share of the deviance that is explained. */
double ts_gcp_objective(const struct ts_solver *a);
double ts_gcp_fit(const struct ts_solver *a);
int ts_gcp_tell(struct ts_solver *a);

/* A sweep ended with this objective: whether it fell there by the tolerance, of all that it has
 * fallen since the first one. */
void ts_gcp_note(struct ts_solver *a, double now);

/* It has not in so many sweeps that the run is over. A tolerance of 0 is never met. */
int ts_gcp_settled(const struct ts_solver *a, double change);

/* Moments, rate and `before`. */
void ts_gcp_save(const struct ts_solver *a, struct ts_state *s);
int ts_gcp_restore(struct ts_solver *a, const struct ts_state *s, struct ts_err *err);

#endif
