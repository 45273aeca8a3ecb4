/* SPDX-License-Identifier: BSD-3-Clause */
/* run_several.h - several models of a tensor, computed side by side until all are done.
 *
 * The next models are those rows of the table that are not done. As many of them as the engine has
 * room for share their passes (cpd/solver/solver_group.h). The engine stays open for models of the
 * same ranks, so that shards in its memory stay there. The first model under way leads: progress
 * and status describe it.
 *
 * A front end opens engines, and begins and ends each run (engine/run.h).
 *
 *   owner    the caller owns the struct, the table and the runs
 *   threads  one
 *   errors   0 or a negative ts_code. After a failure no run is under way; saved states stay
 *   bits     those of each model alone
 */
#ifndef TS_ENGINE_RUN_SEVERAL_H
#define TS_ENGINE_RUN_SEVERAL_H

#include "base/files/atomic_out.h"
#include "engine/models_run.h"
#include "engine/models_table.h"
#include "engine/run.h"

#define TS_RUN_AT_ONCE 64u /* models at most */

/* What the front end does. Model k is the k-th of those side by side: row[k] of the table. */
struct ts_run_several_front {
    void (*chosen)(void *ctx); /* the next models are chosen; or NULL */
    /* Closes the open engine, and opens one for the first *room of these ranks. */
    int (*open)(void *ctx, const uint32_t *ranks, uint32_t n, uint32_t *room, struct ts_err *err);
    int (*begin)(void *ctx, uint32_t k, struct ts_run **ret, struct ts_err *err);
    /* Model k has made its sweeps (rc 0), or ends early because of rc: calls ts_run_end. Of a model
     * that succeeds the row is done. */
    int (*end)(void *ctx, uint32_t k, int rc, struct ts_err *err);
    void (*lead)(void *ctx, uint32_t k, uint32_t at_once); /* at_once: as for ts_run_lead */
    /* All that are under way end early because of rc. saved: one of them has a state on disk. */
    void (*failing)(void *ctx, int rc, int saved, struct ts_err *err);
    void (*close)(void *ctx, uint32_t k); /* also of models that were not begun; or NULL */
    void *ctx;
};

struct ts_run_several {
    const struct ts_tensor *tensor;
    struct ts_models_table *table;
    int holds_out; /* cells are held out: models side by side leave out the same ones */
    int tells_one; /* the sentence of a failure is that of the model that failed, or leads */
    const volatile sig_atomic_t *stop;
    struct ts_run_several_front front;

    /* Where models are kept until all are done; NULL: nowhere. */
    struct ts_atomic_dir *dir;
    struct ts_open_dir *in; /* the same, to read what is in it */

    /* its own: the models side by side */
    uint32_t n, lead;
    uint32_t row[TS_RUN_AT_ONCE];
    struct ts_run *run[TS_RUN_AT_ONCE];  /* NULL: not begun */
    uint32_t open_ranks[TS_RUN_AT_ONCE]; /* of the engine that is open, */
    uint32_t room;                       /* with room for so many; 0: none is open */
    int is_new;                          /* it was opened for the models side by side */
};

/* Opens the directory of all, and writes their options to it. from: the resumed run, or NULL. */
int ts_run_several_open(struct ts_run_several *s, const char *out, int force,
                        const struct ts_models_run *from, const char *options, uint64_t bytes,
                        struct ts_err *err);

/* Whether an earlier run has finished the model of a row. */
int ts_run_several_has(const struct ts_run_several *s, uint32_t row);

/* The row is done. Where models are kept, the table takes its figures from there. */
int ts_run_several_take(struct ts_run_several *s, uint32_t row, struct ts_err *err);

/* All models that are not done. */
int ts_run_several_all(struct ts_run_several *s, struct ts_err *err);

void ts_run_several_close(struct ts_run_several *s); /* the directory */

#endif
