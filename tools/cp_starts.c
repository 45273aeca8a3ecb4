/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the file that each of several models starts from. */
#include "tools/cp_starts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cp_starts_given(const struct cp_args *args)
{
    return args->models_from != NULL && strcmp(args->init, "given") == 0;
}

static int out_of_memory(struct ts_err *err)
{
    return ts_fail(err, TS_ENOMEM, "out of memory for starts of models");
}

/* The one of this rank and seed in a directory of several. */
static int find_named(const char *dir, const struct ts_models_row *row, char **ret,
                      struct ts_err *err)
{
    if (asprintf(ret, "%s/%s", dir, row->name) < 0) {
        *ret = NULL;
        return out_of_memory(err);
    }
    if (access(*ret, F_OK) == 0)
        return 0;
    free(*ret);
    *ret = NULL;
    return 0;
}

/* The first of the rank that the only model has; of folds all of it, which are of one seed. */
static int find_only(const char *path, const struct ts_models_table *models, char **start,
                     struct ts_err *err)
{
    struct ts_model *model;
    uint32_t i = 0;
    int rc = ts_model_open(path, &model, err);
    if (rc < 0)
        return rc;
    while (i < models->n && models->row[i].rank != model->rank)
        i++;
    ts_model_close(model);
    for (uint32_t end = models->folds ? i + models->restarts : i + 1; i < end && i < models->n; i++)
        if ((start[i] = strdup(path)) == NULL)
            return out_of_memory(err);
    return 0;
}

int cp_starts_find(const struct cp_args *args, const struct ts_models_table *models, char ***ret,
                   struct ts_err *err)
{
    char **start = calloc(models->n, sizeof *start);
    uint32_t n = 0, missing = models->n;
    int rc = 0;
    *ret = start;
    if (start == NULL)
        return out_of_memory(err);
    if (!tstream_cp_init_is_file(args) || cp_starts_given(args))
        return 0;
    if (ts_models_there(args->init))
        for (uint32_t i = 0; i < models->n && rc == 0; i++)
            rc = find_named(args->init, &models->row[i], &start[i], err);
    else
        rc = find_only(args->init, models, start, err);
    for (uint32_t i = models->n; i-- > 0;) {
        n += start[i] != NULL;
        missing = start[i] == NULL ? i : missing;
    }
    if (rc < 0)
        return rc;
    if (n == 0)
        return ts_fail(err, TS_EARG,
                       "%s: none of the models starts from it, as it has no model of their rank%s",
                       args->init, ts_models_there(args->init) ? " and seed" : "");
    if (missing < models->n && args->fix != NULL)
        return ts_fail(err, TS_EARG,
                       "%s: --fix keeps factors of it, and it has none for model %s of %u",
                       args->init, models->row[missing].name, models->n);
    return 0;
}

void cp_starts_free(char **start, uint32_t n)
{
    for (uint32_t i = 0; i < n && start != NULL; i++)
        free(start[i]);
    free(start);
}

/* path: the file that the model starts from, or NULL. */
static int check_one(const struct cp_args *args, const struct ts_tensor *t, const char *path,
                     uint32_t rank, struct ts_err *err)
{
    struct ts_init_conf conf = { .tensor = t,
                                 .rank = rank,
                                 .nvecs = tstream_cp_init_is_nvecs(args),
                                 .constraint = args->constraint };
    int rc = path != NULL ? ts_model_open(path, &conf.model, err) : 0;
    if (rc == 0)
        rc = ts_init_check(&conf, err);
    ts_model_close(conf.model);
    return rc;
}

int cp_starts_check(const struct cp_args *args, const struct ts_tensor *t, struct ts_err *err)
{
    struct ts_models_table models = { 0 };
    char **start = NULL;
    int rc;
    if (args->from != NULL || args->models_from != NULL)
        return 0; /* of a run that goes on they were checked */
    if (tstream_cp_models(args) == 1)
        return check_one(args, t, tstream_cp_init_is_file(args) ? args->init : NULL, args->rank,
                         err);
    rc = args->folds > 0 ? ts_models_table_new_folds(args->ranks.at, args->ranks.n, args->folds,
                                                     args->seed, &models, err)
                         : ts_models_table_new(args->ranks.at, args->ranks.n, args->restarts,
                                               args->seed, &models, err);
    if (rc == 0)
        rc = cp_starts_find(args, &models, &start, err);
    for (uint32_t i = 0; i < models.n && rc == 0; i++)
        rc = check_one(args, t, start[i], models.row[i].rank, err);
    cp_starts_free(start, models.n);
    ts_models_table_free(&models);
    return rc;
}
