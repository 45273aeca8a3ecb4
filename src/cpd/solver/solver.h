/* SPDX-License-Identifier: BSD-3-Clause */
/* solver.h - computes the CP decomposition of a tensor, by any method (method.h). These are the
 * equations of least squares.
 *
 * A sweep replaces the factor matrices one after another. With M the MTTKRP of mode n and V the
 * elementwise product of the other modes' Gram matrices, A_n := M pinv(V). Each column is then
 * divided by a power of two near its 2-norm. After the last mode N, fit = 1 - |X - model| / |X|
 * with
 *     |X - model|^2 = |X|^2 + lambda' (elementwise product of all Gram matrices) lambda
 *                     - 2 sum(M .* A_N diag(lambda)).
 * The backend computes MTTKRPs and stores factors. Gram matrices, inverses and fit are computed
 * here in float64.
 *
 * The fit is exact to 1e-6, or to 0.001 (1 - fit) if that is more. There are exceptions: fits above
 * 0.9997 (TS_REST_ENTRIES in stream/backend.h), a last mode that is smooth or orthogonal (smooth.c,
 * polar.c), Poisson models, and held-out cells. They have a fit_error in the result, so that
 * engine/run_fit.h can correct the fit. Another exception are tensors whose largest value is below
 * 1e-28: there rounding errors of float32 products are below the range of float32. Near a fit of 1
 * the three terms of |X - model|^2 cancel, and float32 sums would not be exact enough. So, whenever
 * 1 - fit is small compared with rounding errors, the last mode's product is computed in float64
 * from the same rows. The first time, the rows of the last mode are computed again too. If V is
 * singular, its pseudo-inverse in float32 leaves out directions below float32's epsilon: there M
 * has nothing but rounding errors.
 *
 * With constraints (constraint.h) rows are updated from their old values, multiplied by the weights
 * of the mode solved last. All else is as without constraints. If the last mode has a constraint,
 * its product is summed once more for the fit, in float64, while its factor stays. If the first
 * mode that is solved must be nonnegative, another mode must take the signs of negative values. So
 * the last mode that may have negative entries, if one exists, is solved once before the first
 * sweep, without its l1 penalty.
 *
 * If unlisted cells are unknown (constraint.h, observed), each row is solved for with its own Gram
 * matrix, during the pass, and a pass after the last mode sums the errors: fit = 1 - |x - model| /
 * |x| over the listed cells that are not held out.
 *
 * A run may be accelerated (accelerate.h). Then a sweep does not start from the factors with which
 * the sweep before ended. Fits are still those of the factors at the end of a sweep, but they may
 * fall from one sweep to the next.
 *
 *   owner    the caller owns tensor, backend and feed; factors stay in the backend afterwards
 *   threads  one thread calls; the backend uses its own
 *   errors   0 or a negative ts_code; after a failure the factors are of no use
 *   bits     results do not depend on threads, memory, order of delivery, or interruptions of the
 *            run
 *   stop     once the user wants to stop, the current mode is given up, the state at its beginning
 *            is saved, and the run returns TS_ESTOP
 */
#ifndef TS_CPD_SOLVER_H
#define TS_CPD_SOLVER_H

#include <stdint.h>

#include "base/trace.h"
#include "cpd/state/checkpoint.h"
#include "cpd/spec/spec.h"
#include "cpd/solver/init.h"
#include "cpd/rows/symm.h"
#include "model/canonical.h"
#include "stream/backend.h"

struct ts_solver_sweep {
    uint32_t sweep; /* number of the sweep, from 1 */
    /* change of the fit against the sweep before; in the first sweep the fit itself */
    double fit, change;
    /* 1/2 |X - model|^2 with penalties (constraint.h); NaN if there are no penalties */
    double objective;
    /* mean loss at held-out cells, with a loss other than least squares; NaN if there are none */
    double held_out_loss;
    /* with `observed`: error at listed cells that are not held out, and at held-out cells; NaN if
     * there are none */
    double rmse, held_out;
    double mean; /* the mean that is subtracted from observed cells; NaN if no mean is subtracted */
    /* figures of a Poisson model (apr.c), otherwise NaN. Its objective is -log_likelihood; kkt is
     * the violation of the Karush-Kuhn-Tucker conditions */
    double log_likelihood, kkt;
    uint32_t n_dead; /* number of components that are zero in some mode */
    uint64_t total_ns;
    /* times of the sweep's MTTKRPs: means over the backend's devices */
    uint64_t wait_ns, copy_ns, kernel_ns;
    uint64_t solve_ns; /* time of inverses, row solves, Gram matrices and scaling */
    /* mean time in which rows were sent from device to device while nothing was computed */
    uint64_t exposed_ns;
    /* sum over the modes of the kernel time of the slowest device, divided by the sum over the
     * modes of the mean kernel time */
    double imbalance;
    uint64_t bytes_read;
    /* number of modes whose product of Gram matrices needed the pseudo-inverse */
    uint32_t n_singular;
};

struct ts_solver_mode {
    uint32_t sweep, mode; /* the sweep from 1, the mode from 0 */
    uint64_t total_ns;
    const struct ts_backend_times *times; /* times of each device; lent for the call */
    /* the objective with penalties; NaN if the caller did not ask for it, or nothing was solved */
    double objective;
};

struct ts_solver_conf {
    /* tensor, backend, rank, starting factors and specification; its stop flag is for the whole
     * run */
    struct ts_init_conf init;
    struct ts_feed *feed; /* reads the shards of all modes */
    /* precision of the backend; its range must include all values of the tensor */
    enum ts_precision precision;
    uint32_t iters;
    /* if *enough is not 0, the run ends after the current sweep, as if it were the last one; or
     * NULL */
    const int *enough;
    uint32_t inner; /* for a Poisson model (apr.c): multiplicative updates of a row in a sweep */
    /* The tolerance: the run has converged when a sweep changes the fit by less. Poisson models
     * compare the violation `kkt` with it. For models by a loss of losses.def see gcp.c. */
    double tol;
    /* with `observed`: cells whose errors are reported, and that are not fitted */
    struct ts_hold_out hold_out;
    /* The run ends after this many sweeps without a new least error at held-out cells. 0: never.
     * It is not 0 if `best` of the specification is set: then the result is the model with the
     * least error. */
    uint32_t patience;
    /* 1: extrapolate between sweeps (accelerate.h), with memory for ts_accelerate_bytes */
    int accelerate;
    /* 1: compute a starting factor for the first mode, even if no sweep needs it */
    int whole_start;
    /* called when the backend holds the starting factors, so that the caller can save them; or
     * NULL */
    int (*started)(void *ctx, struct ts_err *err);
    void (*mode)(void *ctx, const struct ts_solver_mode *m); /* called after each mode; or NULL */
    /* called after each sweep; or NULL */
    void (*sweep)(void *ctx, const struct ts_solver_sweep *s);
    void *ctx;
    /* 1: each mode reports the objective, which takes one more sum; for least squares alone */
    int each_mode;
    /* 1: with several ranks (processes), each mode reports the times of all of them, which takes
     * two more short messages. All ranks must set the same value */
    int all_ranks;
    struct ts_trace *trace; /* records what each mode did when; or NULL */
    /* records finished sweeps, and saves states; or NULL */
    struct ts_checkpoint *checkpoint;
    /* the state to resume from; NULL: the run starts with `init` */
    const struct ts_state_file *from;
};

/* The rows of a result's factors, which are in the backend. ts_solver_rows is a ts_get_rows_fn for
 * this struct. */
struct ts_solver_rows {
    const struct ts_backend *backend;
    void *be;
    uint32_t rank; /* columns of the backend's factors */
    int mean;      /* 1: one more column follows, for the component that is the subtracted mean */
    /* the column for the mean is all -1 in this mode, and all 1 in the others */
    uint32_t minus_mode;
};

int ts_solver_rows(void *rows, uint32_t mode, uint64_t row, uint64_t n, double *ret,
                   struct ts_err *err);

struct ts_solver_result {
    uint32_t rank;  /* rank of the model: one more than was asked for, if a mean is subtracted */
    double *weight; /* `rank` weights, not sorted, for columns of norm 1; freed by the caller */
    /* order x rank: column norms of the factors, or TS_AS_IT_IS (model/canonical.h). Part of the
     * memory of `weight` */
    double *norm;
    struct ts_solver_rows rows;
    uint32_t best_sweep; /* with patience: the sweep that the model is from; 0: the last sweep */
    double mean;         /* the mean that is subtracted, as in struct ts_solver_sweep */
    double fit;
    double fit_norm;            /* |X| of the fit: without held-out cells */
    double fit_error;           /* about how far rounding moves the fit; 0: not noticeably */
    double objective;           /* of the last sweep, as in struct ts_solver_sweep */
    double log_likelihood, kkt; /* of the last sweep, as in struct ts_solver_sweep */
    double rmse, held_out, held_out_loss; /* of the last sweep, as in struct ts_solver_sweep */
    int overfits; /* 1: the run ended because the error at held-out cells did not fall (patience) */
    uint32_t n_dead;
    /* at most this many of the n_dead components were zero in given starting factors */
    uint32_t n_dead_start;
    int constrained; /* 1: some mode has a constraint */
    uint32_t sweeps;
    int converged; /* 1: the run met the tolerance `tol` */
    /* 1: the run ended because |X - model| is nothing but rounding errors; `converged` is 0 then */
    int exact;
    /* 1, with `exact`: the rounding errors are those of float32 (TS_REST_ENTRIES), so 1 - fit may
     * be 1e-3 */
    int rounded;
};

/* Returns the most bytes that a run takes besides backend and feed. They are for Gram matrices,
 * their products and inverses, and starting factors. A start of singular vectors takes no more than
 * a random one. */
static inline uint64_t ts_solver_bytes(const struct ts_tensor *t, uint32_t rank)
{
    return 8 * ((t->order + 2) * (uint64_t)rank * rank + 2 * (uint64_t)rank) + ts_symm_bytes(rank) +
           ts_init_bytes(t, rank);
}

/* Returns TS_EARG if conf->from is not a state of this run, or is a state of its end. Reads
 * init.tensor, init.rank, init.spec, precision, accelerate and iters of conf alone. ts_solver_run
 * makes the same check. */
int ts_solver_check_from(const struct ts_solver_conf *conf, struct ts_err *err);

int ts_solver_run(const struct ts_solver_conf *conf, struct ts_solver_result *ret,
                  struct ts_err *err);

/* ---- a run, product by product ----
 *
 *     rc = ts_solver_new(&conf, &a, err);
 *     while (rc == 0 && (rc = ts_solver_next(a, err)) > 0)
 *         rc = ts_solver_multiply(a, err);
 *     if (rc == 0)
 *         rc = ts_solver_result(a, &result, err);
 *     ts_solver_free(a);
 *
 * ts_solver_fail is called if a product failed. The conf must stay valid until ts_solver_free. */
struct ts_solver;

int ts_solver_new(const struct ts_solver_conf *conf, struct ts_solver **ret, struct ts_err *err);
void ts_solver_free(struct ts_solver *a); /* a may be NULL */

/* Continues until the next product is needed, and returns 1. Returns 0 at the end of the run. */
int ts_solver_next(struct ts_solver *a, struct ts_err *err);

/* Computes the product that ts_solver_next asked for. */
int ts_solver_multiply(struct ts_solver *a, struct ts_err *err);

/* Tells the run that its product failed, or will not be computed, with the error rc. If rc is
 * TS_ESTOP, the state is saved. Only ts_solver_free is allowed afterwards. */
void ts_solver_fail(struct ts_solver *a, int rc);

/* Sets *ret to the result, at the end of the run. */
int ts_solver_result(const struct ts_solver *a, struct ts_solver_result *ret, struct ts_err *err);

#endif
