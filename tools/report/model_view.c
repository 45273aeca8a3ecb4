/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the tensor that belongs to a decomposition, and the names of its indices. */
#include "tools/report/model_view.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tstream.h>

#include "api/tools.h"
#include "tools/common/tool.h"
#include "tools/common/tool_ranks.h"
#include "tools/tstream_operand.h"

static int is_tensor(const char *name)
{
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == '/')
        n--;
    return (n > 4 && strncmp(name + n - 4, ".tsh", 4) == 0) || ts_tensor_is_array(name);
}

/* Whether the operand "amazon" means amazon.tsh: this directory exists, and no file named amazon
 * does. */
static int names_tensor(const char *name)
{
    char *path = tool_operand(name, ".tsh");
    const int longer = path != NULL && strcmp(path, name) != 0;
    free(path);
    return longer;
}

/* ---- choice of the tensor ---- */

/* Returns a tensor of the working directory for a decomposition: NAME.tsh for NAME.cp, as tstream
 * cp names them, else the only one; NULL if neither exists. */
static char *tensor_here(const char *model)
{
    char *path = tstream_operand_swap(model, "");
    const size_t n = path == NULL ? 0 : strlen(path);
    struct stat st;
    if (n > 3 && strcmp(path + n - 3, ".cp") == 0) {
        char *named;
        path[n - 3] = '\0';
        named = tstream_operand_swap(path, ".tsh");
        free(path);
        if (named != NULL && stat(named, &st) == 0)
            return named;
        path = named;
    }
    free(path);
    return tstream_operand(NULL, ".tsh", "tensor", &path, NULL) == 0 ? path : NULL;
}

static int fits(const struct model_view *v)
{
    if (v->tensor->order != v->model->order)
        return 0;
    for (uint32_t m = 0; m < v->model->order; m++)
        if (v->model->n_rows[m] != ts_dim(v->tensor, m) &&
            v->model->n_rows[m] != ts_used(v->tensor, m))
            return 0;
    return 1;
}

/* Fails if the rows of the model have other names in the tensor. */
static int check_names(const struct model_view *v, struct ts_err *err)
{
    return v->tensor == NULL ? 0
                             : ts_model_names_check(v->model->path, v->model->names, v->tensor,
                                                    UINT32_MAX, &tool_stop, err);
}

static void drop_tensor(struct model_view *v)
{
    ts_tensor_close(v->tensor);
    v->tensor = NULL;
}

/* Opens the tensor that run.json names, if it is unchanged. */
static void try_recorded(struct model_view *v)
{
    const struct ts_json_value *t = ts_json_get(v->run, "tensor");
    const char *path = ts_json_text(t, "path", NULL);
    char checksum[17];
    struct ts_err none;
    struct stat st;
    if (path == NULL || stat(path, &st) != 0 || ts_tensor_open(path, &v->tensor, &none) < 0)
        return;
    snprintf(checksum, sizeof checksum, "%016" PRIx64, v->tensor->hash);
    if (strcmp(checksum, ts_json_text(t, "checksum", "")) != 0 || !fits(v))
        drop_tensor(v);
}

static int find_tensor(struct model_view *v, struct ts_err *err)
{
    char *path = tensor_here(v->model->path);
    int rc = 0;
    if (path != NULL) {
        rc = ts_tensor_open(path, &v->tensor, err);
        free(path);
        if (rc == 0 && !fits(v))
            drop_tensor(v);
        if (rc == 0 && check_names(v, err) < 0) {
            rc = err->code == TS_EARG ? 0 : err->code;
            drop_tensor(v);
        }
    }
    if (rc == 0 && v->tensor == NULL)
        try_recorded(v);
    return rc;
}

/* ---- source of the names ---- */

static int has_labels(const struct ts_model_names *n)
{
    for (uint32_t m = 0; n != NULL && m < n->order; m++)
        if (n->n_labels[m] > 0)
            return 1;
    return 0;
}

/* Chooses the names: those of a tensor that the user named, else the model's own. If the model has
 * no labels, or only those of used rows of the tensor that was found, uses the tensor's. */
static int choose_names(struct model_view *v, int tensor_named, struct ts_err *err)
{
    const struct ts_model_names *own = v->model->names;
    const int tensor_knows_more =
        v->tensor != NULL && (!has_labels(own) || ((own->file->head.flags & TS_LABELS_USED) != 0 &&
                                                   own->tensor.checksum == v->tensor->hash));
    if (v->tensor != NULL && (tensor_named || tensor_knows_more))
        return ts_model_names_of_tensor(v->tensor, &v->names, err);
    v->names = ts_model_names_keep(v->model->names);
    return 0;
}

/* ---- opening the model, its record and its tensor ---- */

/* Reads history.json, if it exists. A damaged file is ignored, and *fault says why. */
static int read_history(struct model_view *v, struct ts_err *fault, struct ts_err *err)
{
    const int rc = ts_json_read_in(v->model->dir, TS_MODEL_HISTORY, &v->record, err);
    if (rc != TS_EFORMAT || ts_open_dir_stale(rc, err))
        return rc;
    *fault = *err;
    return 0;
}

/* Reads run.json, else history.json, if one exists. Fails if run.json is damaged. */
static int read_record(struct model_view *v, struct ts_err *fault, struct ts_err *err)
{
    int rc = 0;
    fault->code = 0;
    if (v->model->dir != NULL)
        rc = ts_json_read_in(v->model->dir, TS_RUN_RECORD_NAME, &v->record, err);
    v->run = rc > 0 ? v->record.value : NULL;
    if (rc == 0 && v->model->dir != NULL)
        rc = read_history(v, fault, err);
    v->history = rc > 0 ? v->record.value : NULL;
    return rc < 0 ? rc : 0;
}

double model_view_sweep_number(const struct ts_json_value *sweep, const char *key)
{
    static const char *const other[][2] = { { "kernel_seconds", "product_seconds" },
                                            { "singular_modes", "n_singular" } };
    const struct ts_json_value *found = ts_json_get(sweep, key);
    for (size_t i = 0; i < sizeof other / sizeof *other && found == NULL; i++)
        if (strcmp(key, other[i][0]) == 0)
            found = ts_json_get(sweep, other[i][1]);
    return found != NULL && found->kind == TS_JSON_NUMBER ? found->number : NAN;
}

static int sort_components(struct model_view *v, struct ts_err *err)
{
    const uint32_t rank = v->model->rank;
    const double *weight = v->model->weight;
    v->by_weight = calloc(rank, sizeof *v->by_weight);
    if (v->by_weight == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", v->model->path);
    for (uint32_t r = 0; r < rank; r++) {
        uint32_t at = r;
        for (; at > 0 && fabs(weight[v->by_weight[at - 1]]) < fabs(weight[r]); at--)
            v->by_weight[at] = v->by_weight[at - 1];
        v->by_weight[at] = r;
    }
    return 0;
}

/* Opens the model and its record from one directory. If the directory is replaced in between,
 * opens both again. */
static int open_recorded(const char *path, struct model_view *v, struct ts_err *fault,
                         struct ts_err *err)
{
    int rc = ts_model_open(path, &v->model, err);
    if (rc == 0)
        rc = read_record(v, fault, err);
    for (int tries = 1; ts_open_dir_stale(rc, err) && tries < TS_OPEN_DIR_TRIES; tries++) {
        ts_model_close(v->model);
        v->model = NULL;
        rc = ts_model_open(path, &v->model, err);
        if (rc == 0)
            rc = read_record(v, fault, err);
    }
    return rc;
}

static int open_model(const struct ts_cmd *cmd, const char *model, const char *tensor,
                      struct model_view *v, struct ts_err *err)
{
    struct ts_err fault = { 0 };
    char *path = NULL;
    int rc = 0;
    if (model == NULL && tensor != NULL)
        path = tstream_operand_swap(tensor, ".cp");
    else
        rc = tstream_operand(model, ".cp", "decomposition", &path, err);
    if (rc == 0)
        rc = path == NULL ? ts_fail(err, TS_ENOMEM, "out of memory")
                          : open_recorded(path, v, &fault, err);
    if (rc == 0 && fault.code != 0 && tool_ranks_speaks())
        tool_note(cmd, "%s; the history of the run is left out", fault.text);
    free(path);
    return rc;
}

static int check_orders(const struct model_view *v, struct ts_err *err)
{
    return v->tensor == NULL || v->tensor->order == v->model->order
               ? 0
               : ts_fail(err, TS_EARG, "%s: the model has %u modes, the tensor %s has %u",
                         v->model->path, v->model->order, v->tensor->path, v->tensor->order);
}

static int open_tensor(const char *name, struct model_view *v, struct ts_err *err)
{
    char *path = tool_operand(name, ".tsh");
    const int rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", name)
                                : ts_tensor_open_any(path, &v->tensor, err);
    free(path);
    return rc;
}

int model_view_open(const struct ts_cmd *cmd, uint32_t n_operands, char *const *operand,
                    struct model_view *ret, struct ts_err *err)
{
    const char *tensor = NULL, *model = NULL;
    struct model_view v = { 0 };
    struct stat st;
    int rc;
    for (uint32_t i = 0; i < n_operands; i++) {
        const int second = i > 0 && model != NULL && names_tensor(operand[i]);
        const char **which = second || is_tensor(operand[i]) ? &tensor : &model;
        if (*which != NULL && stat(operand[i], &st) != 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot open", operand[i]);
        if (*which != NULL)
            return ts_fail(err, TS_EARG, "%s and %s: one decomposition and one tensor are wanted",
                           *which, operand[i]);
        *which = operand[i];
    }
    rc = open_model(cmd, model, tensor, &v, err);
    if (rc == 0)
        rc = sort_components(&v, err);
    if (rc == 0)
        rc = tensor == NULL ? find_tensor(&v, err) : open_tensor(tensor, &v, err);
    if (rc == 0)
        rc = check_orders(&v, err);
    if (rc == 0 && tensor != NULL)
        rc = check_names(&v, err);
    if (rc == 0)
        rc = choose_names(&v, tensor != NULL, err);
    if (rc == 0)
        rc = tool_reads_model(v.model->path, err);
    if (rc == 0 && v.tensor != NULL)
        rc = tool_reads(ts_path(v.tensor), err);
    if (rc < 0)
        model_view_close(&v);
    else
        *ret = v;
    return rc;
}

void model_view_close(struct model_view *v)
{
    free(v->by_weight);
    ts_model_names_drop(v->names);
    ts_tensor_close(v->tensor);
    ts_json_free(&v->record);
    ts_model_close(v->model);
    *v = (struct model_view){ 0 };
}

uint32_t model_view_components(const struct model_view *v, uint32_t n)
{
    return n > 0 && n < v->model->rank ? n : v->model->rank;
}

struct tool_modes model_view_modes(const struct model_view *v)
{
    struct tool_modes ret = { .order = v->model->order };
    for (uint32_t m = 0; m < ret.order; m++)
        ret.name[m] = model_view_mode_name(v, m);
    return ret;
}

const char *model_view_mode_name(const struct model_view *v, uint32_t mode)
{
    const struct ts_json_value *names = ts_json_get(ts_json_get(v->run, "tensor"), "modes");
    const struct ts_json_value *name = names == NULL ? NULL : names->first;
    if (v->names != NULL && v->names->name[mode] != NULL)
        return v->names->name[mode];
    for (uint32_t m = 0; m < mode && name != NULL; m++)
        name = name->next;
    return name == NULL || name->kind != TS_JSON_STRING ? NULL : name->text;
}

uint32_t model_view_base(const struct model_view *v)
{
    const struct ts_json_value *base = ts_json_get(ts_json_get(v->run, "tensor"), "base");
    if (v->names != NULL)
        return v->names->base;
    return base != NULL && base->kind == TS_JSON_NUMBER && base->number == 0 ? 0 : 1;
}

/* ---- rows of the factors ---- */

uint64_t model_view_dim(const struct model_view *v, uint32_t mode)
{
    return v->tensor != NULL  ? ts_dim(v->tensor, mode)
           : v->names != NULL ? v->names->dim[mode]
                              : v->model->n_rows[mode];
}

/* Sets *ret to the index of each row in the input, or to NULL if row i is index i. */
static int map_rows(const struct model_view *v, uint32_t mode, uint64_t **ret, struct ts_err *err)
{
    const uint64_t rows = v->model->n_rows[mode];
    *ret = NULL;
    if (v->tensor == NULL)
        return ts_model_index(v->model, mode, ret, err);
    if (rows == ts_dim(v->tensor, mode))
        return 0;
    if (rows == ts_used(v->tensor, mode))
        return ts_tensor_rows(v->tensor, mode, ret, err);
    return ts_fail(err, TS_EARG,
                   "%s: mode %u has %" PRIu64 " row%s, but the tensor %s has %" PRIu64 " %s there",
                   v->model->path, mode + 1, rows, tool_plural(rows), v->tensor->path,
                   ts_dim(v->tensor, mode), ts_dim(v->tensor, mode) == 1 ? "index" : "indices");
}

/* Sets the size and used indices of a mode from the tensor, if the model's files lack them. */
static int size_mode(const struct model_view *v, struct ts_kruskal *k, uint32_t mode,
                     struct ts_err *err)
{
    const uint64_t dim = v->tensor->mode[mode].disk.dim;
    int rc = 0;
    if (k->index[mode] == NULL && k->n_rows[mode] != dim)
        rc = map_rows(v, mode, &k->index[mode], err);
    else if (k->dim[mode] > dim)
        rc =
            ts_fail(err, TS_EARG,
                    "%s: mode %u has index %" PRIu64 ", but the tensor %s has %" PRIu64 " %s there",
                    v->model->path, mode + 1, k->dim[mode], v->tensor->path, dim,
                    dim == 1 ? "index" : "indices");
    k->dim[mode] = dim;
    return rc;
}

int model_view_kruskal(const struct model_view *v, struct ts_kruskal **ret, struct ts_err *err)
{
    struct ts_kruskal *k = NULL;
    struct ts_model *m = NULL;
    int rc = ts_model_open_again(v->model, TS_MODEL_NPY, &m, err);
    if (rc == 0)
        rc = ts_kruskal_read(m, &tool_stop, &k, err);
    ts_model_close(m);
    for (uint32_t mode = 0; rc == 0 && v->tensor != NULL && mode < k->order; mode++)
        rc = size_mode(v, k, mode, err);
    if (rc == 0)
        *ret = k;
    else
        ts_kruskal_free(k);
    return rc;
}

int model_view_walk(struct model_view *v, uint32_t mode, model_view_fn *fn, void *ctx,
                    struct ts_err *err)
{
    const uint32_t rank = v->model->rank;
    const uint64_t rows = v->model->n_rows[mode], step = 16384 / rank + 1;
    double *x = malloc(step * rank * sizeof *x);
    uint64_t *index = malloc(step * sizeof *index), *map = NULL;
    struct tool_progress progress = { 0 };
    int rc = x == NULL || index == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows")
                                        : map_rows(v, mode, &map, err);
    if (v->shows)
        tool_progress_start(&progress, "reading factors", "rows", rows);
    for (uint64_t row = 0; row < rows && rc == 0; row += step) {
        const uint64_t n = rows - row < step ? rows - row : step;
        rc = ts_model_rows(v->model, mode, n, x, err);
        if (v->shows)
            tool_progress_update(&progress, row + n);
        for (uint64_t i = 0; i < n; i++)
            index[i] = map == NULL ? row + i : map[row + i];
        if (rc == 0)
            rc = fn(ctx, row, n, index, x, err);
        if (ts_stop_asked(&tool_stop) && rc == 0)
            rc = ts_fail(err, TS_ESTOP, "stopped");
    }
    if (v->shows)
        tool_progress_end(&progress);
    free(map);
    free(index);
    free(x);
    return rc;
}

/* ---- names of modes, and labels of indices ---- */

int model_view_has_labels(const struct model_view *v, uint32_t mode)
{
    return v->names != NULL && v->names->n_labels[mode] > 0;
}

static int by_index(const void *a, const void *b)
{
    const struct ts_strong *const *x = a, *const *y = b;
    return (*x)->index < (*y)->index ? -1 : (*x)->index > (*y)->index;
}

int model_view_labels(const struct model_view *v, uint32_t mode, struct ts_strongest *list,
                      uint32_t n, struct ts_err *err)
{
    size_t total = 0, k = 0;
    struct ts_strong **entry;
    uint64_t *index;
    char **label;
    int rc = 0;
    if (!model_view_has_labels(v, mode))
        return 0;
    for (uint32_t c = 0; c < n; c++)
        total += list[c].n;
    entry = malloc((total + 1) * sizeof *entry);
    index = malloc((total + 1) * sizeof *index);
    label = calloc(total + 1, sizeof *label);
    if (entry == NULL || index == NULL || label == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for names");
    for (uint32_t c = 0; c < n && rc == 0; c++)
        for (uint32_t i = 0; i < list[c].n; i++)
            entry[k++] = &list[c].at[i];
    if (rc == 0) {
        qsort(entry, total, sizeof *entry, by_index);
        for (size_t i = 0; i < total; i++)
            index[i] = entry[i]->index;
        rc = ts_model_names_labels(v->names, mode, total, index, label, err);
    }
    for (size_t i = 0; i < total && rc == 0; i++)
        entry[i]->label = label[i];
    free(entry);
    free(index);
    free(label);
    return rc;
}

void model_view_note_unseen(const struct ts_cmd *cmd, uint64_t unseen, uint64_t n, const char *what)
{
    if (unseen > 0)
        tool_note(cmd,
                  "%" PRIu64 " of %" PRIu64
                  " %s have an index whose row in the model is zeros, as one that was never seen "
                  "has: the model's 0 there is no prediction",
                  unseen, n, what);
}
