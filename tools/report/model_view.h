/* SPDX-License-Identifier: BSD-3-Clause */
/* model_view.h - opens a decomposition together with its tensor, for commands that show factors
 * with names.
 *
 * Names are those of a tensor named by the user, else the model's own (its file `labels`), else
 * those of the tensor found.
 *
 * The tensor is the one named by the user; else the one in the working directory with the name of
 * the decomposition, or the only one there; else the one that run.json names, if it has the same
 * checksum. A tensor that was not named and does not fit is ignored. A tensor fits if it has the
 * sizes of the model, and no index whose label differs from that in the model. A named tensor with
 * such an index is refused.
 *
 *   owner    the view owns model and tensor until model_view_close
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
    struct ts_tensor *tensor;     /* NULL: none */
    struct ts_model_names *names; /* NULL: none */
    struct ts_json_doc record; /* run.json or history.json; its value is NULL if neither exists */
    const struct ts_json_value *run; /* the value of run.json, or NULL */
    /* the record with the numbers of sweeps: `run`, or the value of history.json for a model saved
     * without a run; NULL if neither exists */
    const struct ts_json_value *history;
    uint32_t *by_weight; /* components, largest weight first */
    int shows;           /* 1: model_view_walk shows its progress */
};

/* Opens the operands, in any order: one that ends with .tsh is the tensor. Both may be missing.
 * Prints a note if history.json is damaged, and continues without it. */
int model_view_open(const struct ts_cmd *cmd, uint32_t n_operands, char *const *operand,
                    struct model_view *ret, struct ts_err *err);
void model_view_close(struct model_view *v);

/* Returns the number of components shown: the n heaviest, or all if n is 0. */
uint32_t model_view_components(const struct model_view *v, uint32_t n);

/* Returns the size of a mode: that of the tensor, else that in the names, else the number of rows
 * of the factor. */
uint64_t model_view_dim(const struct model_view *v, uint32_t mode);

/* A number of a sweep of `history`, by its name in run.json. NAN if it does not exist. */
double model_view_sweep_number(const struct ts_json_value *sweep, const char *key);

/* Returns the name of a mode, from the names of the model, else from run.json; NULL: no name. */
const char *model_view_mode_name(const struct model_view *v, uint32_t mode);

/* Returns the names of the modes, for options that name modes. The view owns them. */
struct tool_modes model_view_modes(const struct model_view *v);

/* Returns the first index, 0 or 1, in the numbering of the input: from the tensor, else from
 * run.json, else 1. All output counts from it. */
uint32_t model_view_base(const struct model_view *v);

/* Sets *ret to the decomposition in memory; large .npy factors are mapped. It has the sizes of the
 * tensor and, if it only has rows for used slices, their indices. */
int model_view_kruskal(const struct model_view *v, struct ts_kruskal **ret, struct ts_err *err);

/* Calls fn with the rows of a mode, piece by piece: n rows of `rank` numbers, x, the first of
 * which is row `first`; index[i] is the ascending index of row first + i. Call it once per mode,
 * in ascending order. */
typedef int model_view_fn(void *ctx, uint64_t first, uint64_t n, const uint64_t *index,
                          const double *x, struct ts_err *err);
int model_view_walk(struct model_view *v, uint32_t mode, model_view_fn *fn, void *ctx,
                    struct ts_err *err);

/* The first function says whether a mode has labels. The second adds the label of its index to each
 * entry of n lists. */
int model_view_has_labels(const struct model_view *v, uint32_t mode);
int model_view_labels(const struct model_view *v, uint32_t mode, struct ts_strongest *list,
                      uint32_t n, struct ts_err *err);

/* Prints a note on standard error if `unseen` is not 0: this many of n cells have an index whose
 * row is zeros in the model. */
void model_view_note_unseen(const struct ts_cmd *cmd, uint64_t unseen, uint64_t n,
                            const char *what);

#endif
