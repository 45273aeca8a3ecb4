/* SPDX-License-Identifier: BSD-3-Clause */
/* solver.h - the CP decomposition of a tensor, by any method (method.h). Here are the equations of
 * least squares.
 *
 * A sweep replaces the factor matrices one after another: with M the MTTKRP of mode n and V the
 * elementwise product of the other modes' Gram matrices,  A_n := M pinv(V),  then its columns are
 * divided by the power of two next to their 2-norm. After the last mode  fit = 1 - |X - model| /
 * |X|,  with
 *     |X - model|^2 = |X|^2 + lambda' (elementwise product of all Gram matrices) lambda
 *                     - 2 sum(M .* A_N diag(lambda)).
 * MTTKRPs and factors are the backend's; Gram matrices, inverses and fit are float64 and here.
 *
 * The fit is that of the factors: to 1e-6, or to 0.001 (1 - fit) where that is more (but see
 * TS_REST_ENTRIES of stream/backend.h for fits above 0.9997, and smooth.c and polar.c for last
 * modes of theirs; and where the largest value is below 1e-28, what float32 products lose is below
 * its range). In float32 the sum would not allow that near a fit of 1, where the three terms
 * cancel. So, whenever 1 - fit is small against what rounding can do, the last mode's product is
 * computed in float64 from the same rows; the first time the last mode is done again. Where V is
 * singular, directions of less than float32's epsilon are left out of its pseudo-inverse in
 * float32: M has nothing but rounding to say on them.
 *
 * With constraints (constraint.h) rows are updated from their old values, to which the weights of
 * the mode solved last are put back; the rest is the same. Where the last mode has one, its product
 * is summed once more for the fit, in float64, while its factor stays. Where the first mode that is
 * solved must not be negative and others may be, the last of those is solved once, without its l1,
 * before the first sweep: it takes the signs.
 *
 * Where cells that are not listed are unknown (constraint.h, observed), each row is solved for with
 * a Gram matrix of its own, in the pass itself, and a pass after the last mode sums the errors: fit
 * = 1 - |x - model| / |x| over the listed cells that are not held out.
 *
 * A run may be accelerated (accelerate.h): then sweeps start from other factors than the sweep
 * before ended with. Fits are of the factors that a sweep ends with as ever, but may be less than
 * before.
 *
 *   owner    the caller owns tensor, backend and feed; factors stay in the backend afterwards
 *   threads  one calls; the backend uses its own
 *   errors   0 or a negative ts_code; after a failure the factors are of no use
 *   bits     results do not depend on threads, memory or order of delivery, nor on whether the run
 *            was interrupted between
 *   stop     once the user wants to stop, the mode under way is given up, the state at its
 *            beginning is saved, and TS_ESTOP is the answer
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
    uint32_t sweep;     /* from 1 */
    double fit, change; /* change of the fit; in the first sweep the fit itself */
    /* 1/2 |X - model|^2 with penalties (constraint.h); NaN where there are none */
    double objective;
    double held_out_loss; /* of a model that descends (gcp.h): mean of held-out cells; NaN: none */
    /* observed: of listed cells, those held out apart; NaN: there are none */
    double rmse, held_out;
    double mean; /* that is subtracted from these cells; NaN: none is */
    /* of a Poisson model (apr.c), whose objective is -log_likelihood; else NaN */
    double log_likelihood, kkt;
    uint32_t n_dead; /* components that are zero in some mode */
    uint64_t total_ns;
    uint64_t wait_ns, copy_ns, kernel_ns; /* of the MTTKRPs: the mean over the backend's devices */
    uint64_t solve_ns;                    /* inverses, row solves, Gram matrices, scaling */
    uint64_t exposed_ns; /* rows went from device to device and nothing computed: a mean, too */
    /* kernel times of each mode's slowest device, summed, over the sum of means */
    double imbalance;
    uint64_t bytes_read;
    uint32_t n_singular; /* modes whose Gram product needed the pseudo-inverse */
};

struct ts_solver_mode {
    uint32_t sweep, mode; /* from 1, from 0 */
    uint64_t total_ns;
    const struct ts_backend_times *times; /* device by device; lent for the call */
    /* what is minimised, penalties with it; NaN: it was not asked for, or nothing was solved */
    double objective;
};

struct ts_solver_conf {
    /* tensor, backend, rank, start, specification; its stop flag holds for all of it */
    struct ts_init_conf init;
    struct ts_feed *feed;        /* of all modes */
    enum ts_precision precision; /* of the backend: the range that values must keep */
    uint32_t iters;
    uint32_t inner; /* rounds of a row in a sweep, of a Poisson model (apr.c) */
    /* done when the fit changes by less; of a Poisson model, when the violation is less; of one
     * that descends as gcp.c says */
    double tol;
    /* observed: cells that errors are told of, and nothing is learnt from */
    struct ts_hold_out hold_out;
    /* ends when their error was not the least for so many sweeps; 0: never. Not 0 where the
     * specification has best: the result is the model that had the least */
    uint32_t patience;
    int accelerate;  /* fewer sweeps (accelerate.h), with memory for ts_accelerate_bytes */
    int whole_start; /* the start has the factor of the first mode even where no sweep needs it */
    int (*started)(
        void *ctx,
        struct ts_err *err); /* the backend holds the start, as ts_init_save wants it; NULL: none */
    void (*mode)(void *ctx, const struct ts_solver_mode *m);   /* after each; NULL: none */
    void (*sweep)(void *ctx, const struct ts_solver_sweep *s); /* after each; NULL: none */
    void *ctx;
    int each_mode; /* modes tell the objective: a sum more for each, of alternating least squares */
    /* where there are several, modes tell of each: two short messages more for each; alike in all
     * of them */
    int all_ranks;
    struct ts_trace *trace;           /* what each mode did when; NULL: nobody asks */
    struct ts_checkpoint *checkpoint; /* is told where the run is; NULL: nobody asks */
    const struct ts_state_file *from; /* goes on there; NULL: starts with `init` */
};

/* Rows of the factors of a result, in the backend: ts_solver_rows is a ts_get_rows_fn of it. */
struct ts_solver_rows {
    const struct ts_backend *backend;
    void *be;
    uint32_t rank;       /* of the backend's */
    int mean;            /* a column follows, of a component that is the mean: */
    uint32_t minus_mode; /* of -1 in this mode, else of 1 */
};

int ts_solver_rows(void *rows, uint32_t mode, uint64_t row, uint64_t n, double *ret,
                   struct ts_err *err);

struct ts_solver_result {
    uint32_t rank;  /* of the model: one more than was asked for, where a mean is subtracted */
    double *weight; /* rank of them, not sorted, for columns of norm 1; to be freed */
    /* order x rank: of the columns of the factors, or TS_AS_IT_IS (model/canonical.h); in the
     * memory of `weight` */
    double *norm;
    struct ts_solver_rows rows;
    uint32_t best_sweep; /* whose model it is, with patience; 0: the last one's */
    double mean;         /* as in struct ts_solver_sweep */
    double fit;
    double objective;                     /* of the last sweep, as in struct ts_solver_sweep */
    double log_likelihood, kkt;           /* likewise */
    double rmse, held_out, held_out_loss; /* likewise */
    int overfits; /* it ended because the error on held-out cells did not fall (patience) */
    uint32_t n_dead;
    int constrained; /* some mode has a constraint */
    uint32_t sweeps;
    int converged; /* as tol says */
    int exact;   /* it did, since nothing but rounding is left of |X - model|; not converged then */
    int rounded; /* exact, and that rounding was float32's (TS_REST_ENTRIES): 1 - fit may be 1e-3 */
};

/* Most memory that a run takes beside backend and feed: Gram matrices, their products and inverses,
 * and what a start takes (one of singular vectors no more than a random one). */
static inline uint64_t ts_solver_bytes(const struct ts_tensor *t, uint32_t rank)
{
    return 8 * ((t->order + 2) * (uint64_t)rank * rank + 2 * (uint64_t)rank) + ts_symm_bytes(rank) +
           ts_init_bytes(t, rank);
}

/* Whether conf->from is a state of this run, at a place that lies before its end: TS_EARG where it
 * is not. Of conf, init.tensor, init.rank, init.spec, precision, accelerate and iters are looked
 * at; ts_solver_run asks this, too. */
int ts_solver_check_from(const struct ts_solver_conf *conf, struct ts_err *err);

int ts_solver_run(const struct ts_solver_conf *conf, struct ts_solver_result *ret,
                  struct ts_err *err);

/* ---- the same, from product to product ----
 *
 *     rc = ts_solver_new(&conf, &a, err);
 *     while (rc == 0 && (rc = ts_solver_next(a, err)) > 0)
 *         rc = ts_solver_multiply(a, err);
 *     if (rc == 0)
 *         rc = ts_solver_result(a, &result, err);
 *     ts_solver_free(a);
 *
 * with ts_solver_fail where the product failed. The conf must stay. */
struct ts_solver;

int ts_solver_new(const struct ts_solver_conf *conf, struct ts_solver **ret, struct ts_err *err);
void ts_solver_free(struct ts_solver *a); /* NULL is fine */

/* Goes on to where it needs a product: 1; or to its end: 0. */
int ts_solver_next(struct ts_solver *a, struct ts_err *err);

/* Computes that product. */
int ts_solver_multiply(struct ts_solver *a, struct ts_err *err);

/* It was not computed, or is not to be, because of rc: where that is TS_ESTOP, the state is saved.
 * Then only free is allowed. */
void ts_solver_fail(struct ts_solver *a, int rc);

/* At the end. */
int ts_solver_result(const struct ts_solver *a, struct ts_solver_result *ret, struct ts_err *err);

#endif
