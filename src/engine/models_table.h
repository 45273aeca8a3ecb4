/* SPDX-License-Identifier: BSD-3-Clause */
/* models_table.h - the table of several models of a tensor: fits by rank and start, similarity of
 * the models of a rank from different starts, and the best model. docs/outputs.md lists the members
 * of models.json.
 *
 * The best model of a rank has the highest fit or, with penalties, the lowest objective. Among
 * equal models it is the first. `score` is the factor match score (model/match.h: greedy, with
 * weights) of a model and the best model of its rank, as tstream compare prints it.
 *
 *   owner    the caller owns the struct, all zero before new or load, and what it points to
 *   units    seconds; percent for core consistencies
 *   threads  one thread calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_ENGINE_MODELS_TABLE_H
#define TS_ENGINE_MODELS_TABLE_H

#include <signal.h>
#include <stdint.h>

#include "base/json.h"
#include "base/json_read.h"
#include "format/tensor.h"
#include "model/model_files.h"
#include "model/model_read.h"

struct ts_models_row {
    char name[TS_MODELS_NAME_CHARS];
    uint32_t rank, n_dead, n_sweeps;
    uint32_t fold;       /* the fold that was held out, from 1; 0: no fold was */
    uint32_t best_sweep; /* the sweep whose factors the model has; 0: the last sweep */
    uint64_t seed;
    int done;              /* 1: the model is computed, and the members below are set */
    double fit, objective; /* objective: NaN if there are no penalties */
    /* error at held-out cells as RMSE, and as mean loss; NaN if there are none */
    double held_out, held_out_loss;
    double seconds; /* time of the model's sweeps */
    /* factor match score of this model and the best one of its rank; NaN: not computed yet */
    double score;
    char ended[40];
};

struct ts_models_rank {
    uint32_t rank;
    uint32_t best;    /* row, in the table, of the best model of this rank */
    double least_fit; /* the least fit of the models of this rank */
    /* factor match scores of the other models of this rank with the best one: the mean and the
     * lowest; NaN if there are none */
    double mean_score, least_score;
    double consistency, normalised; /* core consistencies of the best model; NaN if not asked for */
    /* with folds: mean and standard error of the models' errors at held-out cells; NaN if there are
     * none */
    double error, standard_error;
};

struct ts_models_table {
    uint32_t n, n_ranks, restarts;
    /* 1: models of a rank differ in the cells that were held out, not in their starting factors */
    int folds;
    /* n rows: the models of the first rank, then those of the next rank */
    struct ts_models_row *row;
    struct ts_models_rank *rank;
};

/* Makes a table with `restarts` models of each rank and the seeds seed, seed + 1 and so on. No
 * model is done. */
int ts_models_table_new(const uint32_t *ranks, uint32_t n_ranks, uint32_t restarts, uint64_t seed,
                        struct ts_models_table *ret, struct ts_err *err);

/* Makes a table with `folds` models of each rank. Each holds out another fold, and all have the
 * same seed. */
int ts_models_table_new_folds(const uint32_t *ranks, uint32_t n_ranks, uint32_t folds,
                              uint64_t seed, struct ts_models_table *ret, struct ts_err *err);

/* Whether two rows have the same held-out cells, if cells are held out. Models that share passes
 * must have the same ones. */
int ts_models_table_same_cells(const struct ts_models_table *m, uint32_t a, uint32_t b);

/* Returns the error of a model at its held-out cells: the RMSE, or the mean loss with losses that
 * have no RMSE. NaN if there are none. */
double ts_models_table_error(const struct ts_models_row *row);

/* Sets error and standard_error of rank number k of the table, whose folds must all be done. */
void ts_models_table_fold_errors(struct ts_models_table *m, uint32_t k);

void ts_models_table_free(struct ts_models_table *m);

/* Sets row i from the file run.json of its model, which is in the directory `dir`. */
int ts_models_table_read(struct ts_models_table *m, uint32_t i, const struct ts_open_dir *dir,
                         struct ts_err *err);

/* Opens the model of a row again, so that its factors can be read from the first row. */
typedef int ts_models_open_fn(void *ctx, uint32_t row, struct ts_model **ret, struct ts_err *err);

/* Sets the best model of each rank, and the factor match scores. All rows must be done. */
int ts_models_table_match(struct ts_models_table *m, ts_models_open_fn *open, void *ctx,
                          uint32_t threads, const volatile sig_atomic_t *stop, struct ts_err *err);

/* What the written files say about the run: program, tensor and options. */
struct ts_models_writer {
    const char *version, *commit, *tensor;
    const struct ts_opt *opts; /* the options, with the names of tstream cp */
    const void *args;          /* the struct that opts refer to */
};

/* Writes models.json, models.tsv and, for each rank R, the link best.rR to the open directory `to`,
 * whose path is `dir`. */
int ts_models_table_write(const struct ts_models_table *m, const struct ts_models_writer *who,
                          const struct ts_tensor *t, int to, const char *dir, struct ts_err *err);

/* Writes the table as the members "models" and "ranks" of an open JSON object. */
void ts_models_table_json(const struct ts_models_table *m, struct ts_json *j);

/* Reads the table from models.json in the directory `dir`. */
int ts_models_table_load(const struct ts_open_dir *dir, struct ts_models_table *ret,
                         struct ts_err *err);

/* Reads the table from doc, the parsed file `path`. */
int ts_models_table_take(const struct ts_json_doc *doc, const char *path,
                         struct ts_models_table *ret, struct ts_err *err);

#endif
