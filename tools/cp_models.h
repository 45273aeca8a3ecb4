/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_models.h - the table of several models of a tensor: fits by rank and start, how alike the starts of a
 * rank are, and which is the best. docs/outputs.md lists the members of models.json.
 *
 * The best model of a rank is that of the highest fit, with penalties of the lowest objective; of equal ones the
 * first. `score` is the factor match score (model/match.h: greedy, with weights) of a model with the best one of
 * its rank, as tstream compare prints it.
 *
 *   owner    the caller owns the struct, all zero before cp_models_new, and what it points to
 *   units    seconds; percent of core consistencies
 *   threads  one calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_CP_MODELS_H
#define TS_TOOLS_CP_MODELS_H

#include "api/tools.h"
#include "tools/tool.h"
#include "tools/tstream_cp.h"

struct cp_models_row {
    char name[TS_MODELS_NAME_CHARS];
    uint32_t rank, n_dead, n_sweeps;
    uint64_t seed;
    int done;              /* what follows is known */
    double fit, objective; /* NaN: there are no penalties */
    double held_out;       /* RMSE at held-out cells; NaN: there are none */
    double seconds;        /* of its sweeps */
    double score;          /* NaN: not known */
    char ended[40];
};

struct cp_models_rank {
    uint32_t rank;
    uint32_t best;                  /* row */
    double least_fit;               /* of its models */
    double mean_score, least_score; /* of the others with the best; NaN: there are none */
    double consistency, normalised; /* of the best; NaN: not asked for */
};

struct cp_models {
    uint32_t n, n_ranks, restarts;
    struct cp_models_row *row; /* n: the starts of the first rank, then those of the next one */
    struct cp_models_rank *rank;
};

int cp_models_new(const struct cp_args *args, struct cp_models *ret, struct ts_err *err);
void cp_models_free(struct cp_models *m);

/* What run.json of the model in the directory `dir` says of row i. */
int cp_models_read(struct cp_models *m, uint32_t i, const char *dir, struct ts_err *err);

/* With all rows read: the best of each rank, and the scores of models in `dir`. */
int cp_models_match(struct cp_models *m, const char *dir, uint32_t threads, struct ts_err *err);

/* The core consistency of the best of each rank. */
int cp_models_diagnose(const struct ts_cmd *cmd, struct cp_models *m, const char *dir,
                       const struct ts_tensor *t, uint32_t threads, struct ts_err *err);

/* models.json, models.tsv and best.rN in the open directory `to`, whose path is `dir`. */
int cp_models_write(const struct cp_models *m, const struct ts_cmd *cmd, const void *args,
                    const char *tensor, const struct ts_tensor *t, int to, const char *dir,
                    struct ts_err *err);

/* For people: a line of the table, with its head before the first one; and the ranks. */
void cp_models_print_row(const struct cp_models *m, uint32_t i, int head);
void cp_models_print_ranks(const struct cp_models *m);

/* The members "models" and "ranks" of an object that is open. */
void cp_models_json(const struct cp_models *m, struct tool_json *j);

/* The table of models.json in the directory `dir`. */
int cp_models_load(const char *dir, struct cp_models *ret, struct ts_err *err);

#endif
