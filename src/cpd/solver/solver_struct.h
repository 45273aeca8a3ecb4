/* SPDX-License-Identifier: BSD-3-Clause */
/* solver_struct.h - struct ts_solver, a decomposition between two products: what its files and its
 * methods (method.h) share.
 *
 *   solver.c          the order of things: modes, sweeps, when to stop
 *   solver_product.c  what is asked of the next product
 *   solver_check.c    what is refused
 *   solver_start.c    what the first sweep starts from
 *   solver_fit.c      what Gram matrices and the last product say of the fit
 *   solver_state.c    states: saved, and gone on from
 *   solver_result.c   figures of a sweep, and the result
 *   solver_group.c    several runs that share their passes
 *
 *   owner    the run owns its matrices
 *   threads  one calls
 */
#ifndef TS_CPD_SOLVER_STRUCT_H
#define TS_CPD_SOLVER_STRUCT_H

#include <math.h>

#include "cpd/solver/solver.h"
#include "cpd/methods/method.h"
#include "stream/fit_sums.h"

#define TS_SOLVER_WANTED 1 /* a product is needed to go on */

/* What the next product is for. */
enum ts_solver_at {
    TS_SOLVER_START, /* the factors are not there yet */
    TS_SOLVER_SIGN,  /* the mode that takes the signs, before the first sweep */
    TS_SOLVER_MODE,  /* a mode of a sweep */
    TS_SOLVER_AGAIN, /* for what the sweep is judged by: the last mode once more */
};

struct ts_solver {
    const struct ts_solver_conf *conf;
    const struct ts_method *method;
    void *own; /* the method's */
    uint32_t order, rank;
    size_t square;              /* rank * rank */
    double *memory;             /* of all that follows */
    double *gram;               /* order x rank x rank */
    double *v, *w;              /* rank x rank: product of Gram matrices, its inverse */
    double *lambda;             /* rank: what the columns of the mode solved last were divided by */
    double *scale;              /* rank: what columns are multiplied with */
    double inner;               /* <X, model> after the last mode, */
    double watched;             /* after another one, where each tells the objective */
    double model, left;         /* |model|^2, |X - model|^2 with its rounding */
    int exact;                  /* nothing but rounding is left of it after the last sweep */
    int wide;                   /* the last mode is summed in float64, its factors being float32 */
    const struct ts_spec *spec; /* ts_spec_plain, unless the run is constrained: */
    int constrained;            /* it asks for more than that */
    int penalty;                /* some mode has one */
    int balanced;               /* columns keep their lengths between modes: they matter */
    double held_best;           /* least error of a sweep on held-out cells, */
    uint64_t held_since;        /* and sweeps after that one */
    /* n_held: nonzeros, or their weights, that are learnt from and that are held out: set by the
     * method's tell */
    double kept, n_held;
    /* of a factor: sum of the magnitudes where l1 is not 0, that of squares of second differences
     * where smooth is not, both as they cost where both are not */
    double size[TS_MAX_ORDER];
    struct ts_best *best;             /* NULL: that of the last sweep is the result */
    struct ts_accelerate *accelerate; /* NULL: sweeps start where the one before ended */
    int pending; /* the last mode is solved; its product is to be summed once more for the fit */
    /* of cells that hold several nonzeros and are not held out, once it is known: -1 before */
    double kept_squares;
    uint32_t last_singular; /* 1 when the mode solved last needed the pseudo-inverse */
    uint64_t slowest_ns;    /* kernel time of each mode's slowest device, over the sweep so far */
    uint64_t start_ns;      /* of the sweep under way, pauses left out */
    struct ts_solver_sweep now;
    struct ts_solver_result result; /* of the sweeps that are over */

    /* the product that is awaited, or was computed last */
    enum ts_solver_at at;
    int sweeping;      /* a sweep is under way, */
    uint32_t mode;     /* at this mode; without one, where the next one begins */
    uint32_t product;  /* the mode of the product */
    uint64_t begun_ns; /* when its inverse was begun */
    struct ts_row_update update;
    struct ts_row_sums sums;
    int singular; /* its Gram product is */
    int solved;   /* it came with its rows and sums */
    struct ts_backend_times times;
};

/* ---- solver_product.c ---- */

/* The update of a mode's rows. */
enum ts_row_kind ts_solver_kind(const struct ts_solver *a, uint32_t mode);

/* The product of the mode is needed, for an update of this kind: that of the mode, or TS_ROW_KEEP
 * where only sums are. TS_SOLVER_WANTED; 0 where nothing is to be computed. */
int ts_solver_begin_product(struct ts_solver *a, uint32_t mode, enum ts_row_kind kind,
                            struct ts_err *err);
void ts_solver_sum_in(const struct ts_solver *a, enum ts_precision precision);

/* What is wanted of the pass that the run waits for; it holds until the next call of
 * ts_solver_next. */
int ts_solver_request(struct ts_solver *a, struct ts_request *ret, struct ts_err *err);

/* A request for the sums of errors over the product's mode, with the weights inside the factors, m
 * being what they give and the mean; cells that are held out apart. *sums stays where it is until
 * the pass is over. */
void ts_solver_request_errors(const struct ts_solver *a, double mean, struct ts_error_sums *sums,
                              struct ts_request *ret);

/* A pass over the product's mode, of this run alone. */
int ts_solver_pass(struct ts_solver *a, const struct ts_request *request, struct ts_err *err);

/* The run tells the objective after each mode, which takes a sum. */
int ts_solver_watches(const struct ts_solver *a);

/* From `start` to now, on the trace's lane of modes. Returns now. */
uint64_t ts_solver_trace(const struct ts_solver *a, const char *what, uint64_t start,
                         uint32_t mode);

static inline double ts_solver_largest_value(const struct ts_disk_header *h)
{
    return fmax(fabs(h->value_min), fabs(h->value_max));
}

/* ---- solver_check.c ---- */

/* Everything that can be refused is; the run knows its method and its constraints. */
int ts_solver_check(struct ts_solver *a, struct ts_err *err);

/* After the method told of a sweep: TS_EARG where cells are held out and none is left, or none is
 * held out. */
int ts_solver_check_cells(const struct ts_solver *a, struct ts_err *err);

/* ---- solver_result.c ---- */

/* The method's numbers in a->now; 0 where one is not finite that should be. */
int ts_solver_tell(struct ts_solver *a);
void ts_solver_take_result(const struct ts_solver *a, uint32_t sweep, double fit, double change,
                           struct ts_solver_result *ret);

/* ---- solver_start.c ---- */

/* TS_SOLVER_WANTED where a mode is solved before the first sweep. */
int ts_solver_start(struct ts_solver *a, struct ts_err *err);

/* ---- least_squares.c ---- */

/* a->update: bounds and l2 of the product's mode. */
void ts_solver_limit_rows(struct ts_solver *a);

/* The columns of the product's mode get lengths near 1, and the weights the rest. */
int ts_solver_norm(struct ts_solver *a, struct ts_err *err);

/* ---- solver_fit.c ---- */

/* v := elementwise product of the Gram matrices of all modes but `skip` */
void ts_solver_multiply_grams(struct ts_solver *a, uint32_t skip);

/* x(i, j) *= scale[i] * scale[j], of rank x rank */
void ts_solver_scale_both(const struct ts_solver *a, double *x);

/* Of the squares of a factor's entries. */
double ts_solver_fit_trace(const struct ts_solver *a, uint32_t mode);

/* |model|^2; a->v is overwritten. */
double ts_solver_fit_model_square(struct ts_solver *a);

/* The fit after the last mode of a sweep. */
double ts_solver_fit_now(struct ts_solver *a);

/* The same where |X|^2 is this. */
double ts_solver_fit_of(struct ts_solver *a, double square);
int ts_solver_fit_is_rounded(const struct ts_solver *a);
/* The same, where cells are held out: the squares of the others, each nonzero squared alone, are
 * `listed`. */
int ts_solver_fit_of_kept(struct ts_solver *a, double listed, double *ret, struct ts_err *err);
int ts_solver_fit_nothing_left(const struct ts_solver *a);
/* Why the fit of the sweep is not finite: TS_ELIMIT. */
int ts_solver_not_finite(const struct ts_solver *a, struct ts_err *err);
int ts_solver_fit_check(const struct ts_solver *a,
                        struct ts_err *err); /* TS_EFORMAT: the residual's square is below 0 */
int ts_solver_fit_float32_will_do(const struct ts_solver *a, double margin);
double ts_solver_fit_objective(const struct ts_solver *a);

/* 1 - sqrt(2 F) / norm of the tensor, F being what is minimised: without a penalty the fit. */
double ts_solver_fit_with_penalty(const struct ts_solver *a);

/* What is minimised after the mode that was just solved, inner being <X, model>; a->v is
 * overwritten. NaN in the first sweep before modes whose penalties are sums of their own. */
double ts_solver_fit_watched(struct ts_solver *a, double inner);
uint32_t ts_solver_fit_count_dead(const struct ts_solver *a);

/* ---- solver_state.c ---- */

void ts_solver_state_count_read(struct ts_solver *a);

/* At the beginning of `mode` of `sweep`. */
struct ts_state ts_solver_state_at(struct ts_solver *a, uint32_t sweep, uint32_t mode,
                                   unsigned flags);
void ts_solver_state_save(struct ts_solver *a, uint32_t sweep, uint32_t mode);

/* What the modes before `mode` of a sweep did. */
void ts_solver_state_begin_sweep(struct ts_solver *a, uint32_t sweep, uint32_t mode);

/* Factors and the rest, from conf->from. */
int ts_solver_state_restore(struct ts_solver *a, struct ts_err *err);

/* The results as they were after the last whole sweep of a state. */
void ts_solver_state_recall(struct ts_solver *a, struct ts_solver_result *ret);

#endif
