/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_cp.h - the options of tstream cp, which tstream plan takes as well. */
#ifndef TS_TOOLS_TSTREAM_CP_H
#define TS_TOOLS_TSTREAM_CP_H

#include "api/tools.h"
#include "tools/common/array_opts.h"
#include "tools/cp/tstream_resume.h"

struct cp_args {
    /* The values of the options, a member for each row of base/settings.def, and what several
     * commands have: */
#define SETTING(member, option, letter, kind, ...) TS_VALUE_OF_##kind member;
#define SETTING_IN(...)
#include "base/settings.def"
    struct ts_processor processor;
    struct array_opts array;

    /* What follows from them, by tstream_cp_command: */
    uint32_t rank;                /* of the model; of several models the largest */
    double held_share, held_from; /* of hold_out */
    int poisson;                  /* of loss */
    struct ts_spec spec;          /* of the run and each mode */
    uint32_t n_named;             /* the highest mode that an option names */
    int start_asked;            /* --save-init was given, and is not that of the run that goes on */
    const char *takes_observed; /* why --observed is taken for given; NULL: it is not */
    /* checksum of the tensor that takes_observed was asked of; 0: none was opened for that */
    uint64_t seen_hash;
    int (*work)(const struct ts_cmd *cmd, const void *args, const char *path, struct ts_err *err);

    /* Options are copied for each model and rank. So they own nothing: what --resume opened is
     * tstream_cp_command's. */
    const struct ts_resume *from;             /* NULL: the run begins, or is of several models: */
    const struct ts_models_run *models_from;  /* or NULL */
    const struct cp_start_files *start_files; /* what --init names: cp_starts.h */
    /* of several models in that directory the one to start from; NULL: itself, or the best of
     * them */
    const char *start_name;
};

enum { TSTREAM_ROWS_AUTO, TSTREAM_ROWS_ALL, TSTREAM_ROWS_USED }; /* of --rows */

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

/* Ranks of the first models, in their order, of which so many may be asked for at once: those that
 * leave the same cells out, where cells are. Returns how many. */
#define TSTREAM_MOST_AT_ONCE TS_RUN_AT_ONCE
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

/* Whether ranks of a machine are to share one copy of the factors, if the backend's updates allow
 * it. */
int tstream_cp_may_share(const struct cp_args *args);

int tstream_cp_used_rows(const struct cp_args *args, const struct ts_tensor *t);

/* Whether the tensor that was opened is the one that the options were checked with. */
int tstream_cp_same_tensor(const struct cp_args *args, const struct ts_tensor *t,
                           struct ts_err *err);

/* Whether all ranks have the same program, tensor and options: the same answer on all; `rc` is what
 * came before. One process alone has. */
int tstream_cp_same_ranks(const struct cp_args *args, const struct ts_tensor *t, int rc,
                          struct ts_err *err);

/* The rows of base/settings.def as options, with the sections of --help. */
extern const struct ts_opt tstream_cp_opts[];
extern const char *const tstream_cp_headings[];
extern const unsigned char tstream_cp_section[];
#define TSTREAM_CP_BRIEF "rank iters loss observed nonneg l2 host-memory gpus out resume"
#define TSTREAM_CP_OLD   "out"
extern const struct ts_opt_alias tstream_cp_aliases[];

/* A member of "options" in run.json. Whether it is on, given, and not what it is by default. */
struct ts_json_value;
int tstream_cp_chosen(const struct ts_json_value *option);

/* The number of such a member, as it would be typed: 4294967296 bytes are 4G. */
void tstream_cp_number(const struct ts_json_value *option, char *ret, size_t size);

/* Parses and checks the options into a struct cp_args, and calls `work` with it and the tensor's
 * path: returns the exit status. */
int tstream_cp_command(const struct ts_cmd *cmd, int argc, char **argv,
                       int (*work)(const struct ts_cmd *cmd, const void *args, const char *path,
                                   struct ts_err *err));

#endif
