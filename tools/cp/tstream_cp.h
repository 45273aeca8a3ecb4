/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_cp.h - the options of tstream cp and tstream plan. */
#ifndef TS_TOOLS_TSTREAM_CP_H
#define TS_TOOLS_TSTREAM_CP_H

#include "api/tools.h"
#include "tools/common/array_opts.h"
#include "tools/cp/tstream_resume.h"

struct cp_args {
    /* The values of the options: a member for each row of base/settings.def, and groups of options
     * that several commands share. */
#define SETTING(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
#define SETTING_IN(...)
#include "base/settings.def"
    struct ts_processor processor;
    struct array_opts array;

    /* Members that tstream_cp_command derives from the options. */
    uint32_t rank; /* rank of the model; with several models the largest rank */
    /* held_share: fraction of nonzeros held out, those whose hash, scaled to [0, 1), is from
     * held_from to held_from + held_share */
    double held_share, held_from;
    int poisson;         /* 1: `loss` is poisson */
    struct ts_spec spec; /* constraints of the whole run and of each mode */
    uint32_t n_named;    /* the highest mode number, from 1, that an option names */
    /* 1: the user typed --save-init; the option of a resumed run does not count */
    int start_asked;
    const char *takes_observed; /* why --observed is implied; NULL: it is not */
    /* checksum of the tensor opened for takes_observed; 0: none was opened */
    uint64_t seen_hash;
    int (*work)(const struct ts_cmd *cmd, const void *args, const char *path, struct ts_err *err);

    /* Options are copied for each model and rank, so they own nothing: tstream_cp_command owns
     * what --resume opened. */
    const struct ts_resume *from; /* state of the resumed run; NULL: a new run, or several models */
    const struct ts_models_run *models_from; /* resumed run of several models; or NULL */
    /* the file or directory that --init names (cp_starts.h) */
    const struct cp_start_files *start_files;
    /* name of the model with starting factors in a directory of several models; NULL: --init names
     * one model, or the best one is meant */
    const char *start_name;
};

enum { TSTREAM_ROWS_AUTO, TSTREAM_ROWS_ALL, TSTREAM_ROWS_USED }; /* values of --rows */

#define TSTREAM_POISSON_TOL 1e-4 /* default of --tol for --loss poisson */
#define TSTREAM_DESCENT_TOL 1e-4

/* Return the number of models that are computed for each rank, and of all models. */
static inline uint32_t tstream_cp_each(const struct cp_args *args)
{
    return args->folds > 0 ? args->folds : args->restarts;
}

static inline uint32_t tstream_cp_models(const struct cp_args *args)
{
    return args->ranks.n * tstream_cp_each(args);
}

/* Sets ret to the ranks of the first models, in their order, that may be computed at the same time:
 * at most `most`, and if cells are held out, only models that hold out the same ones. Returns their
 * number. */
#define TSTREAM_MOST_AT_ONCE TS_RUN_AT_ONCE
static inline uint32_t tstream_cp_first(const struct cp_args *args, uint32_t *ret, uint32_t most)
{
    const uint32_t each = args->folds > 0 || args->hold_out != NULL ? 1 : args->restarts;
    uint32_t n = 0;
    for (; n < args->ranks.n * each && n < most; n++)
        ret[n] = args->ranks.at[n / each];
    return n;
}

/* Whether a directory of results is written. With folds, it is only if the user named one. */
static inline int tstream_cp_writes(const struct cp_args *args)
{
    return args->folds == 0 || args->out != NULL || args->models_from != NULL;
}

struct ts_tensor;
/* Whether the value of --init is the name of a file; and whether it is "nvecs". */
int tstream_cp_init_is_file(const struct cp_args *args);
int tstream_cp_init_is_nvecs(const struct cp_args *args);

/* Whether processes on a machine are to share one copy of the factors, if the backend's updates
 * allow it. */
int tstream_cp_may_share(const struct cp_args *args);

/* Whether the result has only rows of used slices. */
int tstream_cp_used_rows(const struct cp_args *args, const struct ts_tensor *t);

/* Checks that the opened tensor is the one that the options were checked with. */
int tstream_cp_same_tensor(const struct cp_args *args, const struct ts_tensor *t,
                           struct ts_err *err);

/* Checks that all ranks (processes) have the same program, tensor and options; returns the same
 * result on all ranks. rc: result of the steps before. A single process returns rc. */
int tstream_cp_same_ranks(const struct cp_args *args, const struct ts_tensor *t, int rc,
                          struct ts_err *err);

/* The rows of base/settings.def as options, with the sections of --help. */
extern const struct ts_opt tstream_cp_opts[];
extern const char *const tstream_cp_headings[];
extern const unsigned char tstream_cp_section[];
#define TSTREAM_CP_BRIEF "rank iters loss observed nonneg l2 host-memory gpus out resume"
#define TSTREAM_CP_OLD   "out"
extern const struct ts_opt_alias tstream_cp_aliases[];

/* Whether the option in a member of "options" in run.json is on or given, and is not the
 * default. */
struct ts_json_value;
int tstream_cp_chosen(const struct ts_json_value *option);

/* Writes the number of a member of "options" as a user would type it: 4294967296 bytes are 4G. */
void tstream_cp_number(const struct ts_json_value *option, char *ret, size_t size);

/* Parses and checks the options into a struct cp_args, and calls `work` with it and the tensor's
 * path. Returns the exit status. */
int tstream_cp_command(const struct ts_cmd *cmd, int argc, char **argv,
                       int (*work)(const struct ts_cmd *cmd, const void *args, const char *path,
                                   struct ts_err *err));

#endif
