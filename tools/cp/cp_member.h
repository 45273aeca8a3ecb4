/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_member.h - one of several models: its options, state, starting factors and run.
 *
 *   owner    cp_several owns all of it
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_CP_MEMBER_H
#define TS_TOOLS_CP_MEMBER_H

#include "api/tools.h"
#include "tools/cp/cp_run.h"
#include "tools/common/tool_progress.h"
#include "tools/cp/tstream_cp.h"

/* A model that is being computed. */
struct cp_member {
    uint32_t row;                 /* its row in the table of models */
    struct cp_args own;           /* its options; `own.from` is NULL or points to `state` */
    struct ts_resume state;       /* the state from which the model is resumed */
    char fold[TS_HOLD_OUT_CHARS]; /* its option --hold-out, for a run with folds */
    char *dir;
    struct ts_model_conf mc;
    struct cp_report report; /* must not move while the engine is open */
    struct cp_model model;
    /* the run of the model; not under way before the model begins and after it ends */
    struct ts_run run;
    struct ts_model *start; /* given starting factors; NULL: random ones, or factors of the state */
};

struct cp_group {
    const struct ts_cmd *cmd;
    const struct cp_args *args;
    const char *path; /* path of the tensor */
    struct ts_tensor *tensor;
    char *named; /* name of the result: X.cp */
    char *partial;
    /* the run of all models; its member `dir` is NULL on processes that write nothing */
    struct ts_run_several all;
    struct ts_models_table models;
    char **start; /* for each model the file that it starts from, or NULL */
    /* n_done, n_printed: number of models done, and printed; next_row: the first row not printed */
    uint32_t n_done, n_printed, next_row;
    /* number of models whose components are all zero, and of others with some zero components */
    uint32_t n_empty, n_dying;
    int started; /* 1: this process has begun a model */
    uint64_t start_ns;

    struct ts_engine engine;
    int open;

    /* the models that are computed at the same time, with room for TS_RUN_AT_ONCE */
    struct cp_member *one;
    int headed;
};

/* Returns the one of the models computed at the same time on which progress, status and messages
 * report. */
struct cp_member *cp_member_lead(const struct cp_group *s);

/* Whether the run of several models can be resumed even if the current model has saved no state. */
int cp_member_kept(const struct cp_group *s);

/* Makes o the model of a row of the table: sets its names and options. Its files are opened when it
 * begins. */
void cp_member_name(struct cp_group *s, struct cp_member *o, uint32_t row);

/* Begin and close a model, as callbacks of struct ts_run_several. ctx: the struct cp_group; k:
 * number of the model, from 0, among those that are computed at the same time. */
int cp_member_begin(void *ctx, uint32_t k, struct ts_run **ret, struct ts_err *err);
void cp_member_close(void *ctx, uint32_t k);

#endif
