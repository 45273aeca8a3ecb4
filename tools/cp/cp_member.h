/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_member.h - one of several models: its options, its state, its start and its run.
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

/* A model under way. */
struct cp_member {
    uint32_t row;                 /* of the table */
    struct cp_args own;           /* its from is NULL or the next: */
    struct ts_resume state;       /* that it goes on from */
    char fold[TS_HOLD_OUT_CHARS]; /* its --hold-out, where it is of folds */
    char *dir;
    struct ts_model_conf mc;
    struct cp_report report; /* stays where it is while the engine is open */
    struct cp_model model;
    struct ts_run run;      /* not under way where it is over, or was not begun */
    struct ts_model *start; /* NULL: it is drawn, or a state has it */
};

struct cp_group {
    const struct ts_cmd *cmd;
    const struct cp_args *args;
    const char *path; /* of the tensor */
    struct ts_tensor *tensor;
    char *named; /* X.cp */
    char *partial;
    struct ts_run_several all; /* its dir is NULL where this rank writes nothing */
    struct ts_models_table models;
    char **start;                         /* of each model the file that it starts from, or NULL */
    uint32_t n_done, n_printed, next_row; /* next_row: the first that was not printed */
    /* models of which nothing is left; others in which components died */
    uint32_t n_empty, n_dying;
    int started; /* a model was begun in this process */
    uint64_t start_ns;

    struct ts_engine engine;
    int open;

    struct cp_member *one; /* those computed at once, TS_RUN_AT_ONCE */
    int headed;
};

/* The model that progress and status report on, and at the end the one of a message. */
struct cp_member *cp_member_lead(const struct cp_group *s);

/* Whether there is something to resume, if the model under way has saved nothing. */
int cp_member_kept(const struct cp_group *s);

/* Makes o the model of a row of the table. Its files are opened when it begins. */
void cp_member_name(struct cp_group *s, struct cp_member *o, uint32_t row);

/* ctx: the group; k: the place of the model in it (struct ts_run_several). */
int cp_member_begin(void *ctx, uint32_t k, struct ts_run **ret, struct ts_err *err);
void cp_member_close(void *ctx, uint32_t k);

#endif
