/* SPDX-License-Identifier: BSD-3-Clause */
/* gcp_struct.h - defines struct ts_gcp, the data shared by the methods that descend by the gradient
 * of a loss, gcp_adam.c and lbfgsb.c. It is the first member of the struct with a method's own data
 * (`own` of struct ts_solver).
 *
 *   owner    the run (method.h); ts_gcp_make allocates moments, ts_gcp_end frees them
 *   threads  one thread calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_GCP_STRUCT_H
#define TS_CPD_GCP_STRUCT_H

#include "cpd/methods/gcp.h"
#include "cpd/solver/solver_struct.h"

struct ts_gcp {
    /* arguments of the next pass that computes a gradient or makes a step */
    struct ts_descent descent;
    struct ts_loss_sums sums; /* sums of the pass that computes the loss */
    void *memory;             /* the block that holds all moments */
    uint64_t memory_bytes;
    /* by moment (as those of Adam) and mode: a matrix of the factor's size; there are
     * ts_spec_moments moments */
    void *moment[TS_MOMENTS_MOST][TS_MAX_ORDER];
    /* rate: step length of Adam, or of lbfgsb.c; before: the objective of the previous sweep, NaN
     * if there was none */
    double rate, before;
    struct ts_cell_losses kept, held; /* losses at fitted and at held-out cells */
    double least;       /* the sum of the least losses of cells that hold several nonzeros */
    int has_least;      /* 1: `least` was computed */
    double zeros;       /* estimated sum over all cells of the loss f(0, m), m being the model */
    double first, last; /* the objective after the first sweep and after the latest one */
    uint32_t idle;      /* number of latest sweeps in a row in which the objective hardly fell */
};

/* Returns the bytes of n moments: matrices of a factor's size, for all modes together. */
uint64_t ts_gcp_moments_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                              uint32_t n);

/* Whether the run starts from random factors as they were drawn. With some losses they are scaled
 * first. */
int ts_gcp_start_is_drawn(const struct ts_init_conf *c);

int ts_gcp_check(const struct ts_solver *a, struct ts_err *err);

/* Allocates the moments, all zero. */
int ts_gcp_make(struct ts_solver *a, struct ts_err *err);
void ts_gcp_end(struct ts_solver *a);

/* Like ts_gcp_make. It also scales random factors to the size of the tensor's values. */
int ts_gcp_start(struct ts_solver *a, struct ts_err *err);

/* Returns the arguments of a pass over a mode, with its loss, l2, bounds and held-out cells. The
 * caller sets the members that say how a step is made, and how unlisted cells are sampled. */
struct ts_descent ts_gcp_descent(const struct ts_solver *a, uint32_t mode);

/* Returns the root mean square of the entries of a factor. */
double ts_gcp_size(const struct ts_solver *a, uint32_t mode);

/* Fills the request for the pass over a->product. If a->at is TS_SOLVER_AGAIN, the pass sums the
 * loss, and samples unlisted cells as `descent` says. Otherwise it computes a gradient or makes a
 * step, as `descent` says. */
int ts_gcp_request(struct ts_solver *a, const struct ts_descent *descent, struct ts_request *ret,
                   struct ts_err *err);

/* To be called after the pass that sums the loss: sets `kept`, `held` and `zeros` of struct ts_gcp
 * from the sums of the pass. */
int ts_gcp_sum_up(struct ts_solver *a, struct ts_err *err);

/* Return the objective, and the share of the deviance that the model explains. Both are computed
 * from the sums `kept` and `zeros` of struct ts_gcp. */
double ts_gcp_objective(const struct ts_solver *a);
double ts_gcp_fit(const struct ts_solver *a);
int ts_gcp_tell(struct ts_solver *a);

/* Records the objective of a finished sweep, and whether it fell by at least the tolerance times
 * its whole fall since the first sweep. */
void ts_gcp_note(struct ts_solver *a, double now);

/* Whether the run is over, because the objective hardly fell in several sweeps in a row. With a
 * tolerance of 0 this never ends a run. */
int ts_gcp_settled(const struct ts_solver *a, double change);

/* Saves the moments, the rate and the objective `before` to a state. */
void ts_gcp_save(const struct ts_solver *a, struct ts_state *s);
int ts_gcp_restore(struct ts_solver *a, const struct ts_state *s, struct ts_err *err);

#endif
