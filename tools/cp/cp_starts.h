/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_starts.h - which models of a run start from --init FILE, and whether they can.
 *
 * What --init names is opened once, by tstream_cp_command: all starts of a run are of one result,
 * also where another process replaces that meanwhile.
 *
 *   owner    the caller, of starts: until cp_starts_free
 *   threads  one calls
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_CP_STARTS_H
#define TS_TOOLS_CP_STARTS_H

#include "api/tools.h"
#include "tools/cp/tstream_cp.h"

/* A directory, or a file; both NULL: a pipe, no file, or one that cannot be opened. */
struct cp_start_files {
    struct ts_open_dir *dir;
    struct ts_model *file;
};

/* Opens what args->init names, where that is a file. */
void cp_starts_open(const struct cp_args *args, struct cp_start_files *ret);
void cp_starts_close(struct cp_start_files *f);

/* Opens the model to start from, each time from its beginning. */
int cp_starts_model(const struct cp_args *args, struct ts_model **ret, struct ts_err *err);

/* A start that the run reads twice, because --save-init writes it. */
struct cp_given {
    const struct cp_args *args;
    const struct ts_cmd *cmd; /* prints a note if the start no longer exists; NULL: no note */
};
struct ts_run_given cp_starts_given_by(struct cp_given *g);

/* The start that is written beside the result, if *saves. The caller closes the model that is
 * opened for it. stays: a resumed run writes where its state lies. */
int cp_starts_written(const struct cp_args *args, const struct ts_tensor *t, int stays,
                      struct ts_init_conf *ret, int *saves, struct ts_err *err);

/* Whether a run was begun by a program that gave models in its memory as starts. Models without a
 * saved state cannot be started again. */
int cp_starts_given(const struct cp_args *args);

/* *ret := for each of several models the file that it starts from, or NULL. TS_EARG where none
 * starts from what --init names, or --fix keeps factors that one has not. *ret is set on failure,
 * too. */
int cp_starts_find(const struct cp_args *args, const struct ts_models_table *models, char ***ret,
                   struct ts_err *err);
void cp_starts_free(char **start, uint32_t n); /* NULL is fine */

/* start_name of the options of one of these models. */
const char *cp_starts_name(const struct cp_args *args, const struct ts_models_row *row);

/* Whether the models, of one or of several, can start as --init says: what a run refuses when it
 * comes to them. */
int cp_starts_check(const struct cp_args *args, const struct ts_tensor *t, struct ts_err *err);

#endif
