/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_starts.h - finds the models of a run that start from --init FILE, and checks that they can.
 *
 * tstream_cp_command opens FILE once, so all starts of a run come from one result, even if another
 * process replaces it meanwhile.
 *
 *   owner    the caller owns starts, until cp_starts_free
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_CP_STARTS_H
#define TS_TOOLS_CP_STARTS_H

#include "api/tools.h"
#include "tools/cp/tstream_cp.h"

/* What --init names: a directory or a file. Both NULL: a pipe, no file, or one that cannot be
 * opened. */
struct cp_start_files {
    struct ts_open_dir *dir;
    struct ts_model *file;
};

/* Opens the file or directory that args->init names, if it is not one of the words of --init. */
void cp_starts_open(const struct cp_args *args, struct cp_start_files *ret);
void cp_starts_close(struct cp_start_files *f);

/* Opens the model whose factors the run starts from. Each call reads it from its beginning. */
int cp_starts_model(const struct cp_args *args, struct ts_model **ret, struct ts_err *err);

/* Starting factors that the run reads twice, because --save-init writes them. */
struct cp_given {
    const struct cp_args *args;
    const struct ts_cmd *cmd; /* prints a note if the factors no longer exist; NULL: no note */
};
struct ts_run_given cp_starts_given_by(struct cp_given *g);

/* Sets *saves to 1 if starting factors are written beside the result, and *ret to the configuration
 * of these factors, whose open model the caller closes. stays: 1 for a resumed run that writes to
 * the directory of its state. */
int cp_starts_written(const struct cp_args *args, const struct ts_tensor *t, int stays,
                      struct ts_init_conf *ret, int *saves, struct ts_err *err);

/* Whether the run was begun through the library, with models in memory as starting factors. Models
 * that have no saved state cannot be started again. */
int cp_starts_given(const struct cp_args *args);

/* Sets *ret to an array with the file that each of several models starts from, or NULL. TS_EARG if
 * no model starts from --init, or if --fix keeps factors and a model has no starting factors. *ret
 * is set on failure as well. */
int cp_starts_find(const struct cp_args *args, const struct ts_models_table *models, char ***ret,
                   struct ts_err *err);
void cp_starts_free(char **start, uint32_t n); /* NULL is fine */

/* Returns the name of the model that gives the starting factors for this row of the table, if
 * --init names a directory of several models; else NULL. */
const char *cp_starts_name(const struct cp_args *args, const struct ts_models_row *row);

/* Fails if rows of the starting factors have other names in the tensor. With --fix, only the rows
 * of fixed modes are compared. */
int cp_starts_names(const struct cp_args *args, const struct ts_model *start,
                    const struct ts_tensor *t, struct ts_err *err);

/* Checks that the model or models can start as --init says, before the work. */
int cp_starts_check(const struct cp_args *args, const struct ts_tensor *t, struct ts_err *err);

#endif
