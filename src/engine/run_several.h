/* SPDX-License-Identifier: BSD-3-Clause */
/* run_several.h - several models of a tensor, computed side by side until all are done.
 *
 * The table has a row for each model. The models of rows that are not done come next. As many of
 * these models as the engine has memory for share their passes (cpd/solver/solver_group.h). The
 * engine stays open for models of the same ranks, so that shards in its memory stay there. The
 * first unfinished model of those side by side is the leading one: progress and status.json
 * describe it.
 *
 * A front end (a program, or the library) opens engines, and begins and ends each run
 * (engine/run.h).
 *
 *   owner    the caller owns the struct, the table and the runs
 *   threads  one thread calls
 *   errors   0 or a negative ts_code. After a failure all runs have ended; saved states stay
 *   bits     those of each model alone
 */
#ifndef TS_ENGINE_RUN_SEVERAL_H
#define TS_ENGINE_RUN_SEVERAL_H

#include "base/files/atomic_out.h"
#include "engine/models_run.h"
#include "engine/models_table.h"
#include "engine/run.h"

#define TS_RUN_AT_ONCE 64u /* most models that are computed at the same time */

/* The functions of the front end. Model k, from 0, is one of the models that are computed at the
 * same time, in row[k] of the table. */
struct ts_run_several_front {
    void (*chosen)(void *ctx); /* called after the choice of the next models; or NULL */
    /* Closes the open engine, and opens one for as many models as possible: the first of n models
     * with these ranks. Sets *room to their number. */
    int (*open)(void *ctx, const uint32_t *ranks, uint32_t n, uint32_t *room, struct ts_err *err);
    int (*begin)(void *ctx, uint32_t k, struct ts_run **ret, struct ts_err *err);
    /* Model k has made all its sweeps (rc 0), or ends early because of the error rc. Must call
     * ts_run_end, and mark the row as done if the model succeeded. */
    int (*end)(void *ctx, uint32_t k, int rc, struct ts_err *err);
    /* model k leads from now on: progress and status.json describe it; at_once: number of models
     * that are computed at the same time, 0 if it is computed alone */
    void (*lead)(void *ctx, uint32_t k, uint32_t at_once);
    /* All models under way end early because of the error rc. saved: one of them has a state on
     * disk. */
    void (*failing)(void *ctx, int rc, int saved, struct ts_err *err);
    /* frees what model k holds, even if it was not begun; or NULL */
    void (*close)(void *ctx, uint32_t k);
    void *ctx;
};

struct ts_run_several {
    const struct ts_tensor *tensor;
    struct ts_models_table *table;
    /* 1: cells are held out; models computed at the same time leave out the same cells */
    int holds_out;
    /* 1: the message of a failure names one model: the one that failed, or else the leading one */
    int tells_one;
    const volatile sig_atomic_t *stop;
    struct ts_run_several_front front;

    /* The directory of all models until they are done; NULL: nothing is written. */
    struct ts_atomic_dir *dir;
    struct ts_open_dir *in; /* `dir` as an open directory, for reading */

    /* private members follow. n: number of models that are computed at the same time; lead: the one
     * of them that progress and status.json describe; row: their rows in the table */
    uint32_t n, lead;
    uint32_t row[TS_RUN_AT_ONCE];
    struct ts_run *run[TS_RUN_AT_ONCE];  /* the runs of these models; NULL: not begun */
    uint32_t open_ranks[TS_RUN_AT_ONCE]; /* ranks of the models that the engine was opened for */
    uint32_t room; /* number of models that the open engine has memory for; 0: no engine is open */
    int is_new;    /* 1: the engine was opened for the models that are computed now */
};

/* Opens the directory of all models, and writes their options to it. from: the run to be resumed,
 * or NULL. */
int ts_run_several_open(struct ts_run_several *s, const char *out, int force,
                        const struct ts_models_run *from, const char *options, uint64_t bytes,
                        struct ts_err *err);

/* Whether an earlier run has finished the model of a row. */
int ts_run_several_has(const struct ts_run_several *s, uint32_t row);

/* Marks a row of the table as done. If models are written, the table reads the row's figures from
 * the files. */
int ts_run_several_take(struct ts_run_several *s, uint32_t row, struct ts_err *err);

/* Computes all models that are not done. */
int ts_run_several_all(struct ts_run_several *s, struct ts_err *err);

void ts_run_several_close(struct ts_run_several *s); /* closes the directory of the models */

#endif
