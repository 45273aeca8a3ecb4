/* SPDX-License-Identifier: BSD-3-Clause */
/* solver_struct.h - struct ts_solver, a decomposition that waits for its next product (MTTKRP), for
 * the files of the solver and the methods (method.h).
 *
 *   solver.c          goes from mode to mode and sweep to sweep, and stops
 *   solver_product.c  the request for the next product
 *   solver_check.c    refuses impossible runs
 *   solver_start.c    the factors before the first sweep
 *   solver_fit.c      the fit from Gram matrices and the last product
 *   solver_state.c    saves states, and resumes from them
 *   solver_result.c   figures of a sweep, and the result
 *   solver_group.c    several runs that share their passes
 *
 *   owner    the run owns its matrices
 *   threads  one thread calls
 */
#ifndef TS_CPD_SOLVER_STRUCT_H
#define TS_CPD_SOLVER_STRUCT_H

#include <math.h>

#include "cpd/solver/solver.h"
#include "cpd/methods/method.h"
#include "stream/fit_sums.h"

#define TS_SOLVER_WANTED 1 /* returned if a product is needed to continue */

/* The purpose of the next product (MTTKRP). */
enum ts_solver_at {
    TS_SOLVER_START, /* the factors are not computed yet */
    /* a mode that is solved before the first sweep, for its signs (solver_start.c) */
    TS_SOLVER_SIGN,
    TS_SOLVER_MODE,  /* a mode of a sweep */
    TS_SOLVER_AGAIN, /* the last mode once more, for the fit or loss of the sweep */
};

struct ts_solver {
    const struct ts_solver_conf *conf;
    const struct ts_method *method;
    void *own; /* data of the method: a struct that the method defines */
    uint32_t order, rank;
    size_t square;  /* rank * rank */
    double *memory; /* the block of all matrices and vectors below */
    double *gram;   /* order x rank x rank: Gram matrices of the factors */
    /* v: elementwise product of Gram matrices; w: its inverse; each rank x rank */
    double *v, *w;
    /* rank: the divisors of the columns of the mode that was solved last, which are the weights */
    double *lambda;
    double *scale; /* rank: numbers by which the columns of a factor are multiplied */
    double inner;  /* <X, model> after the last mode, X being the tensor */
    /* <X, model> after another mode than the last, if each mode reports the objective */
    double watched;
    double model, left; /* |model|^2; and |X - model|^2, which includes rounding errors */
    double fit_norm;    /* |X| in the last fit, which leaves out held-out cells */
    int exact;          /* 1: after the last sweep, |X - model| was nothing but rounding errors */
    int wide; /* 1: factors are float32, but the last mode's MTTKRP is summed in float64 */
    const struct ts_spec *spec; /* ts_spec_plain, unless the run has constraints */
    int constrained;            /* 1: the specification is not ts_spec_plain */
    /* components of given starting factors that are zero in some mode */
    uint32_t n_dead_start;
    int penalty;         /* 1: some mode has a penalty */
    int balanced;        /* 1: lengths of columns matter, so they are kept between modes */
    double held_best;    /* the least error at held-out cells of all sweeps so far */
    uint64_t held_since; /* number of sweeps since the one with the error held_best */
    /* Number of fitted nonzeros, and number of held-out ones, or the sums of their weights. Set by
     * the function `tell` of the method. */
    double kept, n_held;
    /* Weighted sum of squares of the nonzeros that are fitted. NAN: not computed. */
    double kept_sum;
    /* For each factor, the sum that its penalty needs. With l1, this is the sum of magnitudes. With
     * smooth, it is the sum of squared second differences. With both, it is the sum of both
     * penalties, with their weights. */
    double size[TS_MAX_ORDER];
    struct ts_best *best;             /* NULL: the result is the model of the last sweep */
    struct ts_accelerate *accelerate; /* NULL: each sweep starts from the end of the one before */
    /* 1: the last mode is solved, and its MTTKRP is to be summed once more for the fit */
    int pending;
    /* Sum of squares of the cells that hold several nonzeros and are not held out. -1: not computed
     * yet. */
    double kept_squares;
    uint32_t last_singular; /* 1: the mode that was solved last needed the pseudo-inverse */
    /* sum over the modes of this sweep so far of the slowest device's kernel time */
    uint64_t slowest_ns;
    uint64_t start_ns; /* time at which the current sweep began, moved forward by pauses */
    struct ts_solver_sweep now;
    struct ts_solver_result result; /* figures of the sweeps that are over */

    /* purpose of the product that is needed next, or was computed last */
    enum ts_solver_at at;
    int sweeping;      /* 1: a sweep has begun; `mode` is its current mode */
    uint32_t mode;     /* the current mode, or the one at which the next sweep begins */
    uint32_t product;  /* mode of the next product, or of the last one */
    uint64_t begun_ns; /* time at which the preparation of the product began */
    struct ts_row_update update;
    struct ts_row_sums sums;
    int singular; /* 1: the elementwise product of Gram matrices is singular in this mode */
    int solved;   /* 1: the pass also computed the mode's rows, and the sums over them */
    struct ts_backend_times times;
};

/* ---- solver_product.c: the next product (MTTKRP) ---- */

/* Returns the kind of update for the rows of a mode. */
enum ts_row_kind ts_solver_kind(const struct ts_solver *a, uint32_t mode);

/* Begins the product of a mode. kind: the mode's kind of row update, or TS_ROW_KEEP if sums alone
 * are needed. Returns TS_SOLVER_WANTED, or 0 if nothing is to be computed. */
int ts_solver_begin_product(struct ts_solver *a, uint32_t mode, enum ts_row_kind kind,
                            struct ts_err *err);

/* Begins another pass over the last mode, whose rows stay, for the sums of the fit. Returns what
 * ts_solver_begin_product returns. */
int ts_solver_pass_again(struct ts_solver *a, struct ts_err *err);
void ts_solver_sum_in(const struct ts_solver *a, enum ts_precision precision);

/* Fills the request for the pass that the run waits for. It is valid until the next call of
 * ts_solver_next. */
int ts_solver_request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err);

/* Fills a request for the sums of errors, in a pass over mode a->product. The model of a cell is
 * computed from factors that include the weights, plus the mean. Held-out cells are summed
 * separately. *sums must stay valid until the pass is over. */
void ts_solver_request_errors(const struct ts_solver *a, double mean, struct ts_error_sums *sums,
                              struct ts_request *ret);

/* Makes a pass over mode a->product, for this run alone. */
int ts_solver_pass(struct ts_solver *a, const struct ts_request *request, struct ts_err *err);

/* Whether the run reports the objective after each mode, which takes one more sum. */
int ts_solver_watches(const struct ts_solver *a);

/* Adds a span of time, from `start` to now, to the trace, in its row for modes. Returns now. */
uint64_t ts_solver_trace(const struct ts_solver *a, const char *what, uint64_t start,
                         uint32_t mode);

static inline double ts_solver_largest_value(const struct ts_disk_header *h)
{
    return fmax(fabs(h->value_min), fabs(h->value_max));
}

/* ---- solver_check.c: checks before a run ---- */

/* Refuses runs that are not possible. Method and constraints of the run must be set. */
int ts_solver_check(struct ts_solver *a, struct ts_err *err);

/* To be called after `tell` of the method. Returns TS_EARG if cells are to be held out and none is
 * left, or none is held out. */
int ts_solver_check_cells(const struct ts_solver *a, struct ts_err *err);

/* ---- solver_result.c: figures of a sweep, result of a run ---- */

/* Sets the method's figures in a->now. Returns 0 if one should be finite and is not. */
int ts_solver_tell(struct ts_solver *a);
void ts_solver_take_result(const struct ts_solver *a, uint32_t sweep, double fit, double change,
                           struct ts_solver_result *ret);

/* ---- solver_start.c: starting factors ---- */

/* Begins the first sweep. Returns TS_SOLVER_WANTED if a mode is solved before it. */
int ts_solver_start(struct ts_solver *a, struct ts_err *err);

/* ---- least_squares.c: functions that other methods use too ---- */

/* Sets the bounds and l2 of mode a->product in a->update. */
void ts_solver_limit_rows(struct ts_solver *a);

/* Scales the columns of mode a->product to lengths near 1, and moves the lengths to the weights. */
int ts_solver_norm(struct ts_solver *a, struct ts_err *err);

/* ---- solver_fit.c: the fit ---- */

/* Sets a->v to the elementwise product of the Gram matrices of all modes but `skip`. */
void ts_solver_multiply_grams(struct ts_solver *a, uint32_t skip);

/* x(i, j) *= scale[i] * scale[j], for x of rank x rank */
void ts_solver_scale_both(const struct ts_solver *a, double *x);

/* Returns the sum of squares of a factor's entries. */
double ts_solver_fit_trace(const struct ts_solver *a, uint32_t mode);

/* Returns |model|^2. Overwrites a->v. */
double ts_solver_fit_model_square(struct ts_solver *a);

/* Returns the fit after the last mode of a sweep. */
double ts_solver_fit_now(struct ts_solver *a);

/* Returns the fit after the last mode of a sweep, with |X|^2 = square. */
double ts_solver_fit_of(struct ts_solver *a, double square);
int ts_solver_fit_is_rounded(const struct ts_solver *a);
/* Returns about how far rounding moves `fit`, the fit of the last sweep or of the best one; 0: not
 * noticeably. */
double ts_solver_fit_error(const struct ts_solver *a, double fit);
/* Sets *ret to the fit of a model with held-out cells. listed: the sum of squares of the other
 * nonzeros, each squared by itself even if a cell has several. */
int ts_solver_fit_of_kept(struct ts_solver *a, double listed, double *ret, struct ts_err *err);
int ts_solver_fit_nothing_left(const struct ts_solver *a);
/* Fails with TS_ELIMIT. The message has the reason why the fit of the sweep is not finite. */
int ts_solver_not_finite(const struct ts_solver *a, struct ts_err *err);
/* Returns TS_EFORMAT if the square of the residual is negative by more than rounding. */
int ts_solver_fit_check(const struct ts_solver *a, struct ts_err *err);
int ts_solver_fit_float32_will_do(const struct ts_solver *a, double margin);
double ts_solver_fit_objective(const struct ts_solver *a);

/* Returns 1 - sqrt(2 F) / |X| with the objective F. Without penalties this is the fit. */
double ts_solver_fit_with_penalty(const struct ts_solver *a);

/* Returns the objective after the mode that was just solved. inner: the inner product of tensor and
 * model. Overwrites a->v. In the first sweep it is NaN until all modes were solved whose penalty
 * needs a sum over the factor. */
double ts_solver_fit_watched(struct ts_solver *a, double inner);
uint32_t ts_solver_fit_count_dead(const struct ts_solver *a);

/* ---- solver_state.c: saving a run, and resuming it ---- */

void ts_solver_state_count_read(struct ts_solver *a);

/* Returns the state at the beginning of `mode` of `sweep`. */
struct ts_state ts_solver_state_at(struct ts_solver *a, uint32_t sweep, uint32_t mode,
                                   unsigned flags);
void ts_solver_state_save(struct ts_solver *a, uint32_t sweep, uint32_t mode);

/* Begins a sweep at `mode`, and sets its figures of the modes before it from the state. */
void ts_solver_state_begin_sweep(struct ts_solver *a, uint32_t sweep, uint32_t mode);

/* Reads factors and all other data from conf->from. */
int ts_solver_state_restore(struct ts_solver *a, struct ts_err *err);

/* Sets *ret to the results after the last whole sweep of a state. */
void ts_solver_state_recall(struct ts_solver *a, struct ts_solver_result *ret);

#endif
