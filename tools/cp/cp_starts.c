/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the files with the starting factors of the models of a run. */
#include "tools/cp/cp_starts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/tool.h"

static int is_pipe(const struct cp_args *args)
{
    struct stat st;
    return stat(args->init, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Opens the files with starting factors. A failure is ignored here, because it occurs again, with a
 * message, when the factors are needed. */
void cp_starts_open(const struct cp_args *args, struct cp_start_files *ret)
{
    struct ts_err why;
    if (!tstream_cp_init_is_file(args) || cp_starts_given(args) || is_pipe(args))
        return;
    if (ts_open_dir_new(args->init, &ret->dir, &why) == TS_EIO && why.sys == ENOTDIR)
        (void)ts_model_open(args->init, &ret->file, &why);
}

void cp_starts_close(struct cp_start_files *f)
{
    ts_open_dir_close(f->dir);
    ts_model_close(f->file);
}

int cp_starts_model(const struct cp_args *args, struct ts_model **ret, struct ts_err *err)
{
    const struct cp_start_files *f = args->start_files;
    if (f != NULL && f->dir != NULL)
        return ts_model_open_inside(f->dir, args->start_name, ret, err);
    if (f != NULL && f->file != NULL)
        return ts_model_open_again(f->file, TS_MODEL_KTENSOR, ret, err);
    return ts_model_open(args->init, ret, err);
}

/* ---- starting factors that are written beside the result ---- */

static int open_again(void *ctx, const struct ts_resume *from, struct ts_model **ret,
                      struct ts_err *err)
{
    const struct cp_args *args = ((const struct cp_given *)ctx)->args;
    const int pipe = is_pipe(args);
    if (from != NULL && (pipe || access(args->init, F_OK) != 0)) {
        ts_fail(err, TS_EARG,
                "%s: the run did not save its start, and %s, which it was given, is not there as a "
                "file; leave --save-init out",
                from->dir, args->init);
        return 0;
    }
    if (pipe)
        return ts_fail(err, TS_EARG,
                       "--init %s: a pipe is read once, and --save-init reads the start twice: "
                       "name a file",
                       args->init);
    return cp_starts_model(args, ret, err) < 0 ? err->code : 1;
}

/* Notes that starting factors no longer exist. Returns a failure if the user asked to save them. */
static int note_lost(void *ctx, struct ts_err *err)
{
    const struct cp_given *g = ctx;
    if (g->args->start_asked)
        return err->code;
    if (g->cmd != NULL)
        tool_note(g->cmd,
                  "%s: the start that --save-init wrote is gone, and cannot be written again: "
                  "the result has none",
                  g->args->from->dir);
    return 0;
}

struct ts_run_given cp_starts_given_by(struct cp_given *g)
{
    return (struct ts_run_given){ .is_given =
                                      g->args->from == NULL && tstream_cp_init_is_file(g->args),
                                  .open = open_again,
                                  .lost = note_lost,
                                  .ctx = g };
}

int cp_starts_written(const struct cp_args *args, const struct ts_tensor *t, int stays,
                      struct ts_init_conf *ret, int *saves, struct ts_err *err)
{
    struct cp_given given = { .args = args };
    const struct ts_run_start_conf conf = { .init = { .tensor = t,
                                                      .rank = args->rank,
                                                      .seed = args->seed,
                                                      .nvecs = tstream_cp_init_is_nvecs(args),
                                                      .spec = &args->spec,
                                                      .stop = &tool_stop },
                                            .from = args->from,
                                            .stays = stays,
                                            .save = args->save_init,
                                            .given = cp_starts_given_by(&given) };
    return ts_run_start_find(&conf, ret, saves, err);
}

/* ---- starting factors of several models ---- */

/* Whether --init names a directory of several models. */
static int is_several(const struct cp_args *args)
{
    return args->start_files != NULL && args->start_files->dir != NULL &&
           ts_models_there_in(args->start_files->dir);
}

int cp_starts_given(const struct cp_args *args)
{
    return args->models_from != NULL && strcmp(args->init, "given") == 0;
}

static int out_of_memory(struct ts_err *err)
{
    return ts_fail(err, TS_ENOMEM, "out of memory for starts of models");
}

/* Finds the model with this rank and seed in a directory of several models. */
static int find_named(const struct cp_args *args, const struct ts_models_row *row, char **ret,
                      struct ts_err *err)
{
    *ret = NULL;
    if (faccessat(ts_open_dir_fd(args->start_files->dir), row->name, F_OK, 0) != 0)
        return 0;
    if (asprintf(ret, "%s/%s", args->init, row->name) >= 0)
        return 0;
    *ret = NULL;
    return out_of_memory(err);
}

/* Assigns the file with starting factors to the first model that has its rank; with folds, to all
 * models of that rank, which share one seed. */
static int find_only(const struct cp_args *args, const struct ts_models_table *models, char **start,
                     struct ts_err *err)
{
    struct ts_model *model;
    uint32_t i = 0;
    int rc = cp_starts_model(args, &model, err);
    if (rc < 0)
        return rc;
    while (i < models->n && models->row[i].rank != model->rank)
        i++;
    ts_model_close(model);
    for (uint32_t end = models->folds ? i + models->restarts : i + 1; i < end && i < models->n; i++)
        if ((start[i] = strdup(args->init)) == NULL)
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
    if (is_several(args))
        for (uint32_t i = 0; i < models->n && rc == 0; i++)
            rc = find_named(args, &models->row[i], &start[i], err);
    else
        rc = find_only(args, models, start, err);
    if (rc == 0 && args->start_files != NULL && args->start_files->dir != NULL &&
        /* if the directory was replaced after it was opened, files of some models may be gone */
        ts_open_dir_replaced(args->start_files->dir))
        rc = ts_open_dir_fail(args->init, err);
    for (uint32_t i = models->n; i-- > 0;) {
        n += start[i] != NULL;
        missing = start[i] == NULL ? i : missing;
    }
    if (rc < 0)
        return rc;
    if (n == 0)
        return ts_fail(err, TS_EARG,
                       "%s: none of the models starts from it, as it has no model of their rank%s",
                       args->init, is_several(args) ? " and seed" : "");
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

int cp_starts_names(const struct cp_args *args, const struct ts_model *start,
                    const struct ts_tensor *t, struct ts_err *err)
{
    uint32_t fixed = 0;
    for (uint32_t m = 0; m < t->order; m++)
        fixed |= (uint32_t)(args->spec.mode[m].fixed != 0) << m;
    return ts_model_names_check(start->path, start->names, t, fixed != 0 ? fixed : UINT32_MAX,
                                &tool_stop, err);
}

/* Checks that a model with this many components can start. starts: 1 if a file gives its starting
 * factors. */
static int check_one(const struct cp_args *args, const struct ts_tensor *t, int starts,
                     uint32_t rank, struct ts_err *err)
{
    struct ts_init_conf conf = {
        .tensor = t, .rank = rank, .nvecs = tstream_cp_init_is_nvecs(args), .spec = &args->spec
    };
    int rc = starts ? cp_starts_model(args, &conf.model, err) : 0;
    if (rc == 0)
        rc = ts_init_check(&conf, err);
    if (rc == 0 && starts)
        rc = cp_starts_names(args, conf.model, t, err);
    ts_model_close(conf.model);
    return rc;
}

const char *cp_starts_name(const struct cp_args *args, const struct ts_models_row *row)
{
    return is_several(args) ? row->name : NULL;
}

int cp_starts_check(const struct cp_args *args, const struct ts_tensor *t, struct ts_err *err)
{
    struct ts_models_table models = { 0 };
    char **start = NULL;
    int rc;
    if (args->from != NULL || args->models_from != NULL)
        return 0; /* a resumed run checked the starting factors when it began */
    if (tstream_cp_models(args) == 1)
        return check_one(args, t, tstream_cp_init_is_file(args), args->rank, err);
    rc = args->folds > 0 ? ts_models_table_new_folds(args->ranks.at, args->ranks.n, args->folds,
                                                     args->seed, &models, err)
                         : ts_models_table_new(args->ranks.at, args->ranks.n, args->restarts,
                                               args->seed, &models, err);
    if (rc == 0)
        rc = cp_starts_find(args, &models, &start, err);
    for (uint32_t i = 0; i < models.n && rc == 0; i++) {
        struct cp_args own = *args;
        own.start_name = cp_starts_name(args, &models.row[i]);
        rc = check_one(&own, t, start[i] != NULL, models.row[i].rank, err);
    }
    cp_starts_free(start, models.n);
    ts_models_table_free(&models);
    return rc;
}
