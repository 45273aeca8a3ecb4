/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the options of a run against each other, and sets members that follow from them. */
#include "tools/cp/cp_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/cp/cp_constraint.h"
#include "tools/cp/cp_starts.h"
#include "tools/tstream_operand.h"

#define MANY_ROWS 1e6 /* up to so many rows, --rows auto writes all rows even if most are zeros */

int tstream_cp_used_rows(const struct cp_args *args, const struct ts_tensor *t)
{
    double rows = 0, used = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        rows += (double)ts_dim(t, m);
        used += (double)ts_used(t, m);
    }
    return args->rows == TSTREAM_ROWS_AUTO ? rows > MANY_ROWS && 2 * used < rows
                                           : args->rows == TSTREAM_ROWS_USED;
}

int tstream_cp_same_tensor(const struct cp_args *args, const struct ts_tensor *t,
                           struct ts_err *err)
{
    return args->seen_hash != 0 && t->dense == NULL && t->hash != args->seen_hash
               ? ts_open_dir_fail(ts_path(t), err)
               : 0;
}

int tstream_cp_init_is_file(const struct cp_args *args)
{
    return strcmp(args->init, "random") != 0 && !tstream_cp_init_is_nvecs(args);
}

int tstream_cp_init_is_nvecs(const struct cp_args *args)
{
    return strcmp(args->init, "nvecs") == 0;
}

/* Refuses an --init that is neither a word of --init nor an existing file. */
int cp_options_check_init(const struct cp_args *args, struct ts_err *err)
{
    if (args->resume != NULL || !tstream_cp_init_is_file(args) || access(args->init, F_OK) == 0 ||
        errno != ENOENT)
        return 0;
    return ts_fail(
        err, TS_EARG,
        "--init %s: a start is random, nvecs or a file or directory of factors, and none "
        "has this name",
        args->init);
}

/* Whether the option of this name was given. */
static int was_given(const struct ts_cmd *cmd, uint64_t given, const char *name)
{
    uint32_t at = 0;
    while (strcmp(cmd->opts[at].name, name) != 0)
        at++;
    return (given >> at & 1) != 0;
}

/* Sets the rank to that of the model with the starting factors, unless --rank was given. */
int cp_options_take_rank(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args,
                         struct ts_err *err)
{
    struct ts_model *model;
    int rc;
    if (args->from != NULL || !tstream_cp_init_is_file(args) || was_given(cmd, given, "rank"))
        return 0;
    rc = cp_starts_model(args, &model, err);
    if (rc < 0)
        return rc;
    args->ranks = (struct ts_opt_numbers){ .n = 1, .at = { model->rank } };
    ts_model_close(model);
    return 0;
}

/* Sets the default of --tol, which depends on the loss: the violation of a Poisson model and the
 * decrease of a loss have other scales than the change of a fit. */
static void take_tolerance(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args)
{
    if (args->resume != NULL || was_given(cmd, given, "tol"))
        return;
    if (args->poisson)
        args->tol = TSTREAM_POISSON_TOL;
    else if (args->spec.loss != TS_GCP_NONE)
        args->tol = TSTREAM_DESCENT_TOL;
}

static int check_folds(struct cp_args *args, struct ts_err *err)
{
    const int writes = tstream_cp_writes(args);
    const char *other = args->trace != NULL                 ? "--trace"
                        : args->save_init && !writes        ? "--save-init without --output"
                        : args->max_time_ns != 0 && !writes ? "--max-time without --output"
                                                            : NULL;
    if (args->folds == 0)
        return 0;
    if (other != NULL)
        return ts_fail(err, TS_EARG,
                       "--folds computes a model without each fold: it cannot be combined with %s",
                       other);
    if (args->models_from != NULL && args->out != NULL)
        return ts_fail(err, TS_EARG,
                       "folds go on where they are: --output and --resume exclude each other then");
    args->no_output |= !writes;
    return 0;
}

/* Drops --save-init if the run has no output: a resumed run may have the option from its state. If
 * the user typed the option, it stays, and is refused later. */
static void take_start(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args)
{
    args->start_asked = was_given(cmd, given, "save-init");
    args->save_init &= args->start_asked || !args->no_output;
}

static int check_several(const struct cp_args *args, struct ts_err *err)
{
    if (args->no_output)
        return ts_fail(err, TS_EARG,
                       "several models are compared as files: --no-output needs one "
                       "--rank and no --restarts");
    if (args->trace != NULL)
        return ts_fail(err, TS_EARG, "--trace needs one --rank and no --restarts");
    if (args->models_from != NULL && args->out != NULL)
        return ts_fail(err, TS_EARG,
                       "several models go on where they are: --output and --resume exclude each "
                       "other then");
    return 0;
}

/* Sets args->rank to the largest rank, and checks the number of models. */
static int check_models(struct cp_args *args, struct ts_err *err)
{
    args->rank = 0;
    for (uint32_t i = 0; i < args->ranks.n; i++)
        if (args->ranks.at[i] > args->rank)
            args->rank = args->ranks.at[i];
    if (args->from != NULL && tstream_cp_models(args) > 1)
        return ts_fail(err, TS_EARG, "%s: a checkpoint is of one model, but several are requested",
                       args->from->dir);
    return tstream_cp_models(args) > 1 && args->folds == 0 ? check_several(args, err) : 0;
}

/* Whether no option excludes --observed, so that it can be added to the options. */
int cp_options_may_observe(const struct cp_args *args)
{
    return !args->observed && args->l1 == NULL && args->smooth == NULL && args->simplex == NULL &&
           args->orthogonal == NULL && !args->accelerate;
}

/* Sets args->observed where it follows from the tensor. Held-out cells of a dense tensor are
 * unknown to the model, like NaN cells, because a dense tensor lists all its cells. Weights of
 * cells also require it. A tensor that cannot be opened is refused later. */
static void take_observed(struct cp_args *args, const char *name)
{
    int loss = TS_GCP_NONE;
    const int poisson = strcmp(args->loss, "poisson") == 0;
    struct ts_tensor *t;
    struct ts_err err;
    char *path;
    double at;
    args->observed |= (args->hold_out != NULL || args->folds > 0) &&
                      strcmp(args->loss, "least-squares") == 0 && ts_tensor_is_array(name);
    if (!cp_options_may_observe(args) || ts_tensor_is_array(name) ||
        tstream_operand(name[0] != '\0' ? name : NULL, ".tsh", "tensor", &path, &err) < 0)
        return;
    if (!poisson && strcmp(args->loss, "least-squares") != 0 &&
        ts_loss_parse(args->loss, &loss, &at, &err) < 0)
        loss = TS_GCP_NONE;
    if (ts_tensor_open(path, &t, &err) == 0) {
        args->seen_hash = t->hash;
        args->observed = ts_spec_takes_observed(t, loss, poisson);
        if (args->observed && loss == TS_GCP_NONE)
            args->takes_observed = "its cells have weights";
        ts_tensor_close(t);
    }
    free(path);
}

/* If the failure rc is that of a dense tensor whose loss is not supported, replaces its message by
 * one about the loss. */
static int by_squares_alone(const struct cp_args *args, const char *name, int rc,
                            struct ts_err *err)
{
    struct ts_err other;
    double at;
    int loss;
    if (strcmp(args->loss, "least-squares") == 0 || !ts_tensor_is_array(name) ||
        (strcmp(args->loss, "poisson") != 0 && ts_loss_parse(args->loss, &loss, &at, &other) < 0))
        return rc;
    return ts_fail(err, TS_EARG, TS_DENSE_BY_SQUARES, name);
}

/* Checks the options of a run of the tensor `name`, typed or from a file, and sets members that
 * follow from them. */
int cp_options_check(const struct ts_cmd *cmd, uint64_t given, struct cp_args *args,
                     const char *name, struct ts_err *err)
{
    int rc;
    take_observed(args, name);
    rc = cp_constraint_parse(args, err);
    if (rc < 0)
        return by_squares_alone(args, name, rc, err);
    take_tolerance(cmd, given, args);
    rc = cp_constraint_check(args, err);
    if (rc < 0)
        return by_squares_alone(args, name, rc, err);
    if (rc == 0 && args->hold_out != NULL)
        rc = ts_hold_out_part(args->hold_out, &args->held_share, &args->held_from, err);
    if (rc == 0)
        rc = check_folds(args, err);
    if (rc == 0 && args->resume == NULL && !args->poisson && was_given(cmd, given, "inner"))
        rc = ts_fail(err, TS_EARG, "--inner needs --loss poisson");
    if (rc == 0)
        rc = check_models(args, err);
    if (rc < 0)
        return rc;
    take_start(cmd, given, args);
    if (args->save_init && args->no_output)
        return ts_fail(err, TS_EARG, "--save-init and --no-output exclude each other");
    return 0;
}
