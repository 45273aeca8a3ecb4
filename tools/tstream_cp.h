/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_cp.h - the options of tstream cp, which tstream plan takes as well. */
#ifndef TS_TOOLS_TSTREAM_CP_H
#define TS_TOOLS_TSTREAM_CP_H

#include "api/tools.h"
#include "tools/array_opts.h"
#include "tools/tstream_resume.h"

struct cp_args {
    uint32_t
        rank; /* of the model; where there are several, the largest. Set by tstream_cp_command */
    struct ts_opt_numbers ranks;
    uint32_t restarts, iters, inner, threads;
    uint32_t processes, per_host; /* --ranks, --ranks-per-host; 0: not said */
    double tol;
    uint64_t seed, host_bytes;
    int precision, rows, details, json, no_output, save_init, force, quiet, diagnose, accelerate,
        observed, mean, l2_scale;
    const char *loss;
    int optimizer;
    const char *takes_observed; /* why --observed is taken for given; NULL: it is not. By tstream_cp_command */
    uint64_t seen_hash; /* checksum of the tensor that takes_observed was asked of; 0: none was opened for that */
    int (*work)(const struct ts_cmd *cmd, const void *args, const char *path, struct ts_err *err);
    int start_asked; /* --save-init was given, and is not that of the run that goes on; by tstream_cp_command */
    int poisson; /* of loss; by tstream_cp_command */
    uint32_t patience, folds;
    double held_share, held_from; /* of hold_out, by tstream_cp_command */
    struct ts_processor processor;
    const char *nonneg, *l1, *l2, *simplex, *bounds, *orthogonal, *smooth, *fix, *hold_out;
    struct ts_constraint constraint[TS_MAX_ORDER]; /* of each mode; by tstream_cp_command */
    uint32_t n_named;                              /* the highest mode that an option names */
    const char *init, *out, *format, *trace, *resume;
    uint64_t checkpoint_ns, max_time_ns;
    struct array_opts array;
    /* Options are copied for each model and rank. So they own nothing: what --resume opened is tstream_cp_command's. */
    const struct ts_resume *from; /* NULL: the run begins, or is of several models: */
    const struct ts_models_run *models_from; /* or NULL */
    const struct cp_start_files *start_files; /* what --init names: cp_starts.h */
    const char *start_name; /* of several models in that directory the one to start from; NULL: itself, or the best of them */
};

enum { TSTREAM_ROWS_AUTO, TSTREAM_ROWS_ALL, TSTREAM_ROWS_USED }; /* of --rows */

#define CP_FOLDS_MOST 20u

#define TSTREAM_POISSON_TOL 1e-4 /* where --tol is not given; and of losses that descend: */
#define TSTREAM_DESCENT_TOL 1e-4

/* How many models of each rank are wanted, and how many at all. */
static inline uint32_t tstream_cp_each(const struct cp_args *args)
{
    return args->folds > 0 ? args->folds : args->restarts;
}

static inline uint32_t tstream_cp_models(const struct cp_args *args)
{
    return args->ranks.n * tstream_cp_each(args);
}

/* Ranks of the first models, in their order, of which so many may be asked for at once: those that leave the same cells out, where
 * cells are. Returns how many. */
#define TSTREAM_MOST_AT_ONCE 64u
static inline uint32_t tstream_cp_first(const struct cp_args *args, uint32_t *ret, uint32_t most)
{
    const uint32_t each = args->folds > 0 || args->hold_out != NULL ? 1 : args->restarts;
    uint32_t n = 0;
    for (; n < args->ranks.n * each && n < most; n++)
        ret[n] = args->ranks.at[n / each];
    return n;
}

/* Whether a directory of results is written: of folds where one was named. */
static inline int tstream_cp_writes(const struct cp_args *args)
{
    return args->folds == 0 || args->out != NULL || args->models_from != NULL;
}

/* Whether rows of used slices alone are written. */
struct ts_tensor;
/* What --init says. */
int tstream_cp_init_is_file(const struct cp_args *args);
int tstream_cp_init_is_nvecs(const struct cp_args *args);

/* Whether ranks of a machine are to share one copy of the factors, if the backend's updates allow it. */
int tstream_cp_may_share(const struct cp_args *args);

int tstream_cp_used_rows(const struct cp_args *args, const struct ts_tensor *t);

/* Whether the tensor that was opened is the one that the options were checked with. */
int tstream_cp_same_tensor(const struct cp_args *args, const struct ts_tensor *t,
                           struct ts_err *err);

/* Whether all ranks have the same program, tensor and options: the same answer on all; `rc` is what came before. One
 * process alone has. */
int tstream_cp_same_ranks(const struct cp_args *args, const struct ts_tensor *t, int rc,
                          struct ts_err *err);

extern const struct ts_opt tstream_cp_opts[];

/* Parses and checks the options into a struct cp_args, and calls `work` with it and the tensor's path:
 * returns the exit status. */
int tstream_cp_command(const struct ts_cmd *cmd, int argc, char **argv,
                       int (*work)(const struct ts_cmd *cmd, const void *args, const char *path,
                                   struct ts_err *err));

#endif
