/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads decompositions from files into the form that a run holds in memory. */
#include <stdlib.h>

#include "api/api_run.h"

/* Copies the rows of a mode to `to`, in its precision. The numbers had that precision before they
 * were written as text. */
static void copy_rows(const struct ts_kruskal *from, struct ts_kruskal *to, uint32_t mode,
                      double *row)
{
    const uint32_t rank = from->rank;
    for (uint64_t i = 0; i < to->n_rows[mode]; i++) {
        ts_kruskal_rows(from, mode, to->index[mode] == NULL ? i : to->index[mode][i], 1, row);
        for (uint32_t r = 0; r < rank; r++)
            if (to->precision == TS_FLOAT32)
                ((float *)to->factor[mode])[i * rank + r] = (float)row[r];
            else
                ((double *)to->factor[mode])[i * rank + r] = row[r];
    }
}

/* Converts a model that was read from files to the rows and the precision of a decomposition of the
 * tensor. */
static int hold_alike(const struct ts_tensor *t, enum ts_precision precision,
                      struct ts_kruskal **at, struct ts_err *err)
{
    struct ts_kruskal *was = *at, *is = NULL;
    uint64_t n_rows[TS_MAX_ORDER];
    int same = was->precision == precision, rc;
    double *row = malloc(was->rank * sizeof *row);
    for (uint32_t m = 0; m < t->order; m++) {
        n_rows[m] = t->mode[m].disk.n_rows;
        same &= n_rows[m] == was->n_rows[m];
    }
    rc = row == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for a decomposition")
         : same      ? 0
                     : ts_kruskal_new(t->order, was->rank, precision, was->dim, n_rows, &is, err);
    for (uint32_t m = 0; m < t->order && is != NULL && rc == 0; m++) {
        rc = ts_tensor_rows(t, m, &is->index[m], err);
        if (rc == 0)
            copy_rows(was, is, m, row);
    }
    if (rc == 0 && is != NULL) {
        memcpy(is->weight, was->weight, was->rank * sizeof *was->weight);
        ts_kruskal_free(was);
        *at = is;
    } else {
        ts_kruskal_free(is);
    }
    free(row);
    return rc;
}

int ts_api_run_load(const struct ts_tensor *t, const char *dir, int npy,
                    enum ts_precision precision, const volatile int *stop, struct ts_kruskal **ret,
                    struct ts_err *err)
{
    struct ts_model *model = NULL;
    struct ts_kruskal *k = NULL;
    int rc =
        npy ? ts_model_open_first(dir, TS_MODEL_NPY, &model, err) : ts_model_open(dir, &model, err);
    if (rc == 0 && model->order != t->order)
        rc = ts_fail(err, TS_EFORMAT, "%s: the model has %u modes, %s has %u", dir, model->order,
                     t->path, t->order);
    if (rc == 0)
        rc = ts_kruskal_read(model, stop, &k, err);
    ts_model_close(model);
    for (uint32_t m = 0; m < t->order && rc == 0; m++) {
        k->dim[m] = t->mode[m].disk.dim;
        if (k->n_rows[m] == k->dim[m]) {
            free(k->index[m]);
            k->index[m] = NULL;
        }
    }
    if (rc == 0 && !npy)
        rc = hold_alike(t, precision, &k, err);
    if (rc == 0) { /* uses the names of the tensor, which all models of it share */
        ts_model_names_drop(k->names);
        k->names = NULL;
        rc = ts_model_names_of_tensor(t, &k->names, err);
    }
    if (rc == 0)
        *ret = k;
    else
        ts_kruskal_free(k);
    return rc;
}
