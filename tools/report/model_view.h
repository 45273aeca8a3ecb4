/* SPDX-License-Identifier: BSD-3-Clause */
/* model_view.h - a decomposition together with the tensor that it is of: what commands need that
 * show factors with names.
 *
 * Names are those of the tensor that was named, else the model's own (its file `labels`), else
 * those of the tensor that was found.
 *
 * The tensor is the one that was named; else that of the current directory which is named like the
 * decomposition, or the only one; else the one of run.json beside the factors, where it is still
 * there with the same checksum. One that was not named and does not fit counts as none.
 *
 *   owner    the view owns both until model_view_close
 *   units    modes, rows and indices from 0
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_MODEL_VIEW_H
#define TS_TOOLS_MODEL_VIEW_H

#include "api/tools.h"
#include "tools/common/tool_mode.h"

struct model_view {
    struct ts_model *model;
    struct ts_tensor *tensor;        /* NULL: none */
    struct ts_model_names *names;    /* NULL: none */
    struct ts_json_doc record;       /* run.json or history.json; value NULL: neither exists */
    const struct ts_json_value *run; /* its value, or NULL */
    /* `run`, or history.json of a model that a program saved without a run; NULL: neither exists */
    const struct ts_json_value *history;
    uint32_t *by_weight; /* rank components, largest weight first */
};

/* Operands in any order: what ends with .tsh is the tensor. Both may be missing. */
int model_view_open(uint32_t n_operands, char *const *operand, struct model_view *ret,
                    struct ts_err *err);
void model_view_close(struct model_view *v);

/* The heaviest components: n, or all for 0. */
uint32_t model_view_components(const struct model_view *v, uint32_t n);

/* Size of a mode: that of the tensor, else what the names say, else rows. */
uint64_t model_view_dim(const struct model_view *v, uint32_t mode);

/* A number of a sweep of `history`, by its name in run.json. NAN if it does not exist. */
double model_view_sweep_number(const struct ts_json_value *sweep, const char *key);

/* The name of a mode: from the names of the model, else from run.json. NULL if it has no name. */
const char *model_view_mode_name(const struct model_view *v, uint32_t mode);

/* These names, for options that name modes. They are the view's. */
struct tool_modes model_view_modes(const struct model_view *v);

/* The first index, 0 or 1, as the input of the tensor counted: as it says, else run.json; 1 when
 * nobody said. What people and programs are shown counts so. */
uint32_t model_view_base(const struct model_view *v);

/* The decomposition in memory, its factors mapped where they are large .npy files; with the sizes
 * of the tensor, and the indices of its used slices where it has rows for those alone. */
int model_view_kruskal(const struct model_view *v, struct ts_kruskal **ret, struct ts_err *err);

/* The rows of a mode, piece by piece: n rows of `rank` numbers; index[i] of row first + i, in
 * ascending order. Modes in ascending order, each once. */
typedef int model_view_fn(void *ctx, uint64_t first, uint64_t n, const uint64_t *index,
                          const double *x, struct ts_err *err);
int model_view_walk(struct model_view *v, uint32_t mode, model_view_fn *fn, void *ctx,
                    struct ts_err *err);

/* Whether there are labels of a mode, and those of all entries of n lists. */
int model_view_has_labels(const struct model_view *v, uint32_t mode);
int model_view_labels(const struct model_view *v, uint32_t mode, struct ts_strongest *list,
                      uint32_t n, struct ts_err *err);

/* Says on standard error, where `unseen` is not 0, how many of n cells have an index with a row of
 * zeros in the model. */
void model_view_note_unseen(const struct ts_cmd *cmd, uint64_t unseen, uint64_t n,
                            const char *what);

#endif
