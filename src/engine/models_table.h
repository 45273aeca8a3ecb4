/* SPDX-License-Identifier: BSD-3-Clause */
/* models_table.h - the table of several models of a tensor: fits by rank and start, how alike the
 * starts of a rank are, and which is the best. docs/outputs.md lists the members of models.json.
 *
 * The best model of a rank is that of the highest fit, with penalties of the lowest objective; of
 * equal ones the first. `score` is the factor match score (model/match.h: greedy, with weights) of
 * a model with the best one of its rank, as tstream compare prints it.
 *
 *   owner    the caller owns the struct, all zero before new or load, and what it points to
 *   units    seconds; percent of core consistencies
 *   threads  one calls
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
    uint32_t fold;       /* that it has not seen, from 1; 0: none */
    uint32_t best_sweep; /* whose factors they are; 0: the last one's */
    uint64_t seed;
    int done;                       /* what follows is known */
    double fit, objective;          /* NaN: there are no penalties */
    double held_out, held_out_loss; /* RMSE or mean loss at held-out cells; NaN: there is none */
    double seconds;                 /* of its sweeps */
    double score;                   /* NaN: not known */
    char ended[40];
};

struct ts_models_rank {
    uint32_t rank;
    uint32_t best;                  /* row */
    double least_fit;               /* of its models */
    double mean_score, least_score; /* of the others with the best; NaN: there are none */
    double consistency, normalised; /* of the best; NaN: not asked for */
    double error, standard_error;   /* of folds: the mean of theirs; NaN: there are none */
};

struct ts_models_table {
    uint32_t n, n_ranks, restarts;
    int folds; /* models of a rank differ in what they have not seen, not in their starts */
    struct ts_models_row *row; /* n: the starts of the first rank, then those of the next one */
    struct ts_models_rank *rank;
};

/* restarts models of each rank, of seed, seed + 1 and so on; none is done. */
int ts_models_table_new(const uint32_t *ranks, uint32_t n_ranks, uint32_t restarts, uint64_t seed,
                        struct ts_models_table *ret, struct ts_err *err);

/* A model of each rank without each of so many folds, all of one seed. */
int ts_models_table_new_folds(const uint32_t *ranks, uint32_t n_ranks, uint32_t folds,
                              uint64_t seed, struct ts_models_table *ret, struct ts_err *err);

/* Whether two rows have not seen the same cells, where cells are held out: models of one pass must
 * be so. */
int ts_models_table_same_cells(const struct ts_models_table *m, uint32_t a, uint32_t b);

/* Error at the held-out cells: the RMSE or, of losses that have none, the mean loss. NaN: there is
 * none. */
double ts_models_table_error(const struct ts_models_row *row);

/* Of rank k, whose folds are all done: error and standard_error. */
void ts_models_table_fold_errors(struct ts_models_table *m, uint32_t k);

void ts_models_table_free(struct ts_models_table *m);

/* What run.json of the model in the directory `dir` says of row i. */
int ts_models_table_read(struct ts_models_table *m, uint32_t i, const struct ts_open_dir *dir,
                         struct ts_err *err);

/* Opens the model of a row afresh. */
typedef int ts_models_open_fn(void *ctx, uint32_t row, struct ts_model **ret, struct ts_err *err);

/* With all rows known: the best of each rank, and the scores. */
int ts_models_table_match(struct ts_models_table *m, ts_models_open_fn *open, void *ctx,
                          uint32_t threads, const volatile sig_atomic_t *stop, struct ts_err *err);

/* Which program made the models, of which tensor, with which options. */
struct ts_models_writer {
    const char *version, *commit, *tensor;
    const struct ts_opt *opts; /* by the names of tstream cp */
    const void *args;          /* of opts */
};

/* models.json, models.tsv and best.rN in the open directory `to`, whose path is `dir`. */
int ts_models_table_write(const struct ts_models_table *m, const struct ts_models_writer *who,
                          const struct ts_tensor *t, int to, const char *dir, struct ts_err *err);

/* The members "models" and "ranks" of an object that is open. */
void ts_models_table_json(const struct ts_models_table *m, struct ts_json *j);

/* The table of models.json in the directory `dir`. */
int ts_models_table_load(const struct ts_open_dir *dir, struct ts_models_table *ret,
                         struct ts_err *err);

/* The same of what was read of the file `path`. */
int ts_models_table_take(const struct ts_json_doc *doc, const char *path,
                         struct ts_models_table *ret, struct ts_err *err);

#endif
