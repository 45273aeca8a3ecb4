/* SPDX-License-Identifier: BSD-3-Clause */
/* run_cp.h - a whole decomposition in one call, for tests. */
#ifndef TS_TESTS_RUN_CP_H
#define TS_TESTS_RUN_CP_H

#include "cpd/solver/solver.h"

struct test_cp_conf {
    uint32_t rank, iters, threads;
    uint32_t inner; /* rounds of a Poisson model */
    double tol;
    uint64_t seed;
    enum ts_precision precision;
    uint64_t host_bytes; /* 0: 1 GiB */
    unsigned avoid;      /* of the feed */
    const char *init;    /* NULL: random; else a model */
    int nvecs;           /* singular vectors instead, of all modes */
    const char *out;     /* NULL, or where factors are written */
    unsigned formats;
    int used_rows;
    const struct ts_spec *spec;  /* NULL: least squares of all cells */
    struct ts_hold_out hold_out; /* of observed cells */
    uint32_t patience;
    int accelerate;
    int each_mode; /* modes tell what is minimised */
    int one_call;  /* product and rows in one call, with the times of two devices (see test_cp) */
    const char *states; /* NULL, or a directory for states */
    uint64_t every_ns;  /* how often one is saved there; 0: only when it is stopped */
    int patient;      /* each mode waits a moment while fewer than two were saved beside the run */
    int copy;         /* of a copy */
    const char *from; /* NULL, or the state to go on from */
    /* stop_mode: the user's wish to stop comes after this mode (sweep from 1, */
    uint32_t stop_sweep, stop_mode;
    int stop_inside;       /* mode from 0), or in the middle of it. stop_sweep 0: never */
    uint32_t stop_product; /* or in the middle of this product, from 1; 0: never */
    uint32_t stop_step;    /* or in this step to a column that is smooth within bounds, from 1 */
};

struct test_cp {
    const struct test_cp_conf *conf; /* while it runs */
    int rc;                          /* of the run; the rest is empty when it is not 0 */
    struct ts_err err;
    uint32_t order, rank, sweeps;
    int converged, overfits;
    uint32_t best_sweep;
    double fit[100]; /* after each sweep */
    double objective[100];
    double each_mode[100]; /* what is minimised, after each mode */
    uint32_t n_modes; /* modes that were told of, in order; those out of order are not counted */
    struct ts_solver_sweep last; /* sweep */
    uint64_t n_rows[TS_MAX_ORDER];
    double *factor[TS_MAX_ORDER]; /* n_rows x rank, as the backend holds them */
    double *start[TS_MAX_ORDER];  /* with nvecs: what the backend held then */
    double *weight;
    double *norm;                     /* order x rank: of columns as they were held */
    uint32_t n_products;              /* MTTKRPs */
    uint32_t saved_sweep, saved_mode; /* of the last state on disk; 0 and 0: none */
    char warning[1024];               /* of the last one that could not be saved */
    uint64_t n_slots;                 /* of the feed: 0 when everything stayed in memory */
};

struct test_cp test_cp_run(const char *tensor, const struct test_cp_conf *conf);
void test_cp_free(struct test_cp *a);

#endif
