/* SPDX-License-Identifier: BSD-3-Clause */
/* Returns names and labels of tensors and decompositions, for indices in any order. */
#include <stdlib.h>

#include "api/api.h"
#include "base/setting.h"
#include "format/tensor.h"
#include "model/kruskal.h"

/* ---- labels of tensors: files are read in ascending order of indices ---- */

struct wanted {
    uint64_t index, at;
};

static int by_index(const void *x, const void *y)
{
    const struct wanted *a = x, *b = y;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Type of a function that reads the labels of n indices in ascending order, from a tensor or a
 * decomposition. */
typedef int read_fn(const void *from, uint32_t mode, uint64_t n, const uint64_t *index, char **ret,
                    struct ts_err *err);

static int read_tensor(const void *from, uint32_t mode, uint64_t n, const uint64_t *index,
                       char **ret, struct ts_err *err)
{
    return ts_tensor_labels(from, mode, n, index, ret, err);
}

static int read_names(const void *from, uint32_t mode, uint64_t n, const uint64_t *index,
                      char **ret, struct ts_err *err)
{
    return from == NULL ? 0 : ts_model_names_labels(from, mode, n, index, ret, err);
}

/* Gives each of n requested indices its own copy of the label that was read for it. An index may be
 * requested twice. */
static int give_labels(const struct wanted *w, uint64_t n, const uint64_t *sorted,
                       char *const *label, char **ret, struct ts_err *err)
{
    int rc = 0;
    memset(ret, 0, n * sizeof *ret);
    for (uint64_t i = 0, from = 0; i < n && rc == 0; i++) {
        from += sorted[from] != w[i].index;
        if (label[from] != NULL && (ret[w[i].at] = strdup(label[from])) == NULL)
            rc = ts_fail(err, TS_ENOMEM, "out of memory for labels");
    }
    if (rc < 0)
        ts_labels_free(n, ret);
    return rc;
}

static int get_labels(read_fn *read, const void *from, uint32_t mode, uint64_t n,
                      const uint64_t *index, char **ret, struct ts_err *err)
{
    struct wanted *w = malloc((n + 1) * sizeof *w);
    uint64_t *sorted = malloc((n + 1) * sizeof *sorted), k = 0;
    char **label = calloc(n + 1, sizeof *label);
    int rc = w == NULL || sorted == NULL || label == NULL
                 ? ts_fail(err, TS_ENOMEM, "out of memory for labels")
                 : 0;
    for (uint64_t i = 0; i < n && rc == 0; i++)
        w[i] = (struct wanted){ index[i], i };
    if (rc == 0) {
        qsort(w, n, sizeof *w, by_index);
        for (uint64_t i = 0; i < n; i++)
            if (k == 0 || sorted[k - 1] != w[i].index)
                sorted[k++] = w[i].index;
        rc = read(from, mode, k, sorted, label, err);
    }
    if (rc == 0)
        rc = give_labels(w, n, sorted, label, ret, err);
    for (uint64_t i = 0; i < k; i++)
        free(label[i]);
    free(label);
    free(sorted);
    free(w);
    return rc;
}

int ts_labels(const ts_tensor *t, uint32_t mode, uint64_t n, const uint64_t *index, char **ret,
              ts_error *err)
{
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = mode < t->order ? get_labels(read_tensor, t, mode, n, index, ret, &a.err)
                         : ts_fail(&a.err, TS_EARG, "%s: there is no " TS_NTH_MODE ", only %u",
                                   t->path, mode + 1, t->order);
    return ts_api_end(&a, rc, err);
}

void ts_labels_free(uint64_t n, char **label)
{
    for (uint64_t i = 0; i < n; i++) {
        free(label[i]);
        label[i] = NULL;
    }
}

/* ---- names and labels of decompositions ---- */

const char *ts_cpd_name(const ts_cpd *c, uint32_t mode)
{
    return c->names != NULL && mode <= c->order ? c->names->name[mode] : NULL;
}

uint32_t ts_cpd_first_index(const ts_cpd *c)
{
    return c->names != NULL ? c->names->base : 1;
}

uint64_t ts_cpd_labelled(const ts_cpd *c, uint32_t mode)
{
    return c->names != NULL && mode < c->order ? c->names->n_labels[mode] : 0;
}

int ts_cpd_labels(const ts_cpd *c, uint32_t mode, uint64_t n, const uint64_t *index, char **ret,
                  ts_error *err)
{
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = mode < c->order
             ? get_labels(read_names, c->names, mode, n, index, ret, &a.err)
             : ts_fail(&a.err, TS_EARG, "there is no " TS_NTH_MODE ", only %u", mode + 1, c->order);
    return ts_api_end(&a, rc, err);
}

void ts_cpd_tensor(const ts_cpd *c, ts_cpd_origin *ret)
{
    ts_cpd_origin origin = { .known = 0 };
    if (c->names != NULL && c->names->tensor.known) {
        const struct ts_model_tensor *t = &c->names->tensor;
        origin = (ts_cpd_origin){ .known = 1,
                                  .segments = t->segments,
                                  .nnz = t->nnz,
                                  .checksum = t->checksum,
                                  .has_sum = t->has_sum,
                                  .sum = { t->cell[0], t->cell[1] } };
    }
    origin.float32 = c->names != NULL && c->names->float32;
    ts_api_result(ret, &origin, sizeof origin);
}

/* ---- names from a caller of the library ---- */

static int take_origin(const ts_cpd_origin *given, struct ts_model_tensor *ret, struct ts_err *err)
{
    ts_cpd_origin o;
    const int rc = TS_API_CONF(&o, given, err);
    if (rc < 0 || !o.known)
        return rc;
    *ret = (struct ts_model_tensor){ .known = 1,
                                     .nnz = o.nnz,
                                     .checksum = o.checksum,
                                     .has_sum = o.has_sum != 0,
                                     .cell = { o.sum[0], o.sum[1] },
                                     .segments = o.segments > 0 ? o.segments : 1 };
    if (!o.has_sum)
        ret->cell[0] = ret->cell[1] = 0;
    return 0;
}

/* Shares the names of another decomposition, which must have the same sizes. */
static int share_names(const ts_cpd *c, const ts_cpd *from, struct ts_model_names **ret,
                       struct ts_err *err)
{
    int same = c->order == from->order;
    for (uint32_t m = 0; m < c->order && same; m++)
        same = c->dim[m] == from->dim[m];
    *ret = same ? ts_model_names_keep(from->names) : NULL;
    return same ? 0
                : ts_fail(err, TS_EARG, "names of a decomposition of other sizes cannot be taken");
}

int ts_cpd_set_names(ts_cpd *c, const ts_cpd_names *given, ts_error *err)
{
    struct ts_model_names *names = NULL;
    ts_cpd_names n;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = TS_API_CONF(&n, given, &a.err);
    if (rc == 0 && n.from != NULL) {
        rc = share_names(c, n.from, &names, &a.err);
    } else if (rc == 0) {
        struct ts_model_names_conf conf = { .order = c->order,
                                            .base = n.first_index > 0,
                                            .dim = c->dim,
                                            .name = n.name,
                                            .n_labels = n.n_labels,
                                            .label = n.label,
                                            .index = n.index };
        rc = take_origin(n.tensor, &conf.tensor, &a.err);
        if (rc == 0)
            rc = ts_model_names_new(&conf, &names, &a.err);
    }
    if (rc == 0) {
        ts_model_names_drop(c->names);
        c->names = names;
    }
    return ts_api_end(&a, rc, err);
}
