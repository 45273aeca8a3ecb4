/* SPDX-License-Identifier: BSD-3-Clause */
/* als_impl.h - a run of ALS between two products: what als.c, als_fit.c and als_state.c share.
 *
 *   als.c        the order of things: modes, sweeps, when to stop
 *   als_fit.c    the fit and what else a sweep is judged by
 *   als_state.c  states: saved, and gone on from
 *   apr.c        modes of a Poisson model
 *   als_group.c  several runs that share their passes
 *
 *   owner    the run owns its matrices
 *   threads  one calls
 */
#ifndef TS_CPD_ALS_IMPL_H
#define TS_CPD_ALS_IMPL_H

#include "cpd/als.h"
#include "cpd/observed.h"

/* What the next product is for. */
enum ts_als_at {
    TS_ALS_START, /* the factors are not there yet */
    TS_ALS_SIGN,  /* the mode that takes the signs, before the first sweep */
    TS_ALS_MODE,  /* a mode of a sweep */
    TS_ALS_AGAIN, /* the last mode once more, in float64 */
};

struct ts_als {
    const struct ts_als_conf *conf;
    uint32_t order, rank;
    size_t square;      /* rank * rank */
    double *memory;     /* of all that follows */
    double *gram;       /* order x rank x rank */
    double *v, *w;      /* rank x rank: product of Gram matrices, its inverse */
    double *lambda;     /* rank: what the columns of the mode solved last were divided by */
    double *scale;      /* rank: what columns are multiplied with */
    double inner;       /* <X, model> after the last mode */
    double model, left; /* |model|^2, |X - model|^2 with its rounding */
    int exact;          /* nothing but rounding is left of it after the last sweep */
    int wide;           /* the last mode is summed in float64, its factors being float32 */
    const struct ts_constraint *constraint; /* of each mode; NULL: none */
    int penalty;                            /* some mode has one */
    int balanced;                       /* columns keep their lengths between modes: they matter */
    int observed;                       /* cells that are not listed are unknown, in every mode */
    struct ts_observed_sums kept, held; /* after the last mode, then */
    double held_best;                   /* least error of a sweep on held-out cells, */
    uint64_t held_since;                /* and sweeps after that one */
    double size
        [TS_MAX_ORDER]; /* of a factor: sum of the magnitudes where l1 is not 0, that of squares of second
                                * differences where smooth is not */
    struct ts_accelerate *accelerate; /* NULL: sweeps start where the one before ended */
    int poisson;                      /* rows are multiplied (apr.h) */
    double kkt, loss; /* so far in the sweep, or of the last; after the last mode that was solved */
    struct ts_multiply_sums multiplied; /* by the product that was computed last */
    int pending; /* the last mode is solved; its product is to be summed once more for the fit */
    uint32_t last_singular; /* 1 when the mode solved last needed the pseudo-inverse */
    uint64_t slowest_ns;    /* kernel time of each mode's slowest device, over the sweep so far */
    uint64_t start_ns;      /* of the sweep under way, pauses left out */
    struct ts_als_sweep now;
    struct ts_als_result result; /* of the sweeps that are over */

    /* the product that is awaited, or was computed last */
    enum ts_als_at at;
    int sweeping;      /* a sweep is under way, */
    uint32_t mode;     /* at this mode; without one, where the next one begins */
    uint32_t product;  /* the mode of the product */
    uint64_t begun_ns; /* when its inverse was begun */
    struct ts_row_update how;
    struct ts_row_sums sums;
    int singular; /* its Gram product is */
    struct ts_backend_times times;
};

/* v := elementwise product of the Gram matrices of all modes but `skip` */
void ts_als_multiply_grams(struct ts_als *a, uint32_t skip);
void ts_als_sum_in(const struct ts_als *a, enum ts_precision precision);
void ts_als_take_result(const struct ts_als *a, uint32_t sweep, double fit, double change,
                        struct ts_als_result *ret);

/* ---- als_fit.c ---- */

/* The fit after the last mode of a sweep. */
double ts_als_fit_now(struct ts_als *a);
int ts_als_fit_is_rounded(const struct ts_als *a);
int ts_als_fit_nothing_left(const struct ts_als *a);
int ts_als_fit_float32_will_do(const struct ts_als *a, double margin);
double ts_als_fit_objective(const struct ts_als *a);
uint32_t ts_als_fit_count_dead(const struct ts_als *a);

/* ---- als_state.c ---- */

void ts_als_state_count_read(struct ts_als *a);

/* At the beginning of `mode` of `sweep`. */
struct ts_state ts_als_state_at(struct ts_als *a, uint32_t sweep, uint32_t mode, unsigned flags);
void ts_als_state_save(struct ts_als *a, uint32_t sweep, uint32_t mode);

/* What the modes before `mode` of a sweep did. */
void ts_als_state_begin_sweep(struct ts_als *a, uint32_t sweep, uint32_t mode);

/* Factors and the rest, from conf->from. */
int ts_als_state_restore(struct ts_als *a, struct ts_err *err);

/* The results as they were after the last whole sweep of a state. */
void ts_als_state_recall(struct ts_als *a, struct ts_als_result *ret);

#endif
