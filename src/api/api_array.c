/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens dense tensors whose cells are in the caller's memory. */
#include <math.h>

#include "api/api.h"
#include "base/machine/threads.h"
#include "cpu/dense/dense_scan.h"
#include "format/arrays/array_labels.h"
#include "format/arrays/dense.h"

static int take_array(const ts_array_conf *conf, struct ts_dense_array *ret, struct ts_err *err)
{
    if (conf->cells == NULL || conf->dim == NULL || conf->type == NULL)
        return ts_fail(err, TS_EARG, "an array has cells, sizes and a type");
    ret->path = conf->name != NULL ? conf->name : "array";
    ret->memory = conf->cells;
    ret->swapped = conf->swapped != 0;
    ret->fortran = conf->fortran != 0;
    ret->order = conf->order;
    if (!ts_cell_named(conf->type, &ret->type))
        return ts_fail(err, TS_EARG,
                       "%s: cells of type %s are not possible: float32, float64 and whole numbers "
                       "from int8 to uint64 are",
                       ret->path, conf->type);
    for (uint32_t m = 0; m < conf->order && m < TS_DENSE_MAX_ORDER; m++)
        ret->dim[m] = conf->dim[m];
    return 0;
}

static int take_names(const ts_array_conf *conf, struct ts_tensor *t, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; rc == 0 && m < conf->order; m++) {
        if (conf->mode_name != NULL)
            rc = ts_array_mode_name(t, m, conf->mode_name[m], err);
        if (rc == 0 && conf->label != NULL && conf->label[m] != NULL)
            rc = ts_array_labels_give(t, m, conf->label[m], err);
    }
    return rc;
}

/* Computes the norm of a dense tensor, and checks that all cells are finite. */
static int scan(const struct ts_tensor *t, struct ts_err *err)
{
    uint32_t threads = 1;
    const int rc = ts_threads_get(0, 0, &threads, err);
    return rc == 0 ? ts_dense_scan_alone(t, threads, NULL, err) : rc;
}

ts_tensor *ts_open_array(const ts_array_conf *given, ts_error *err)
{
    struct ts_dense_array array = { 0 };
    struct ts_tensor *t = NULL;
    ts_array_conf conf;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    memset(&conf, 0, sizeof conf);
    rc = TS_API_CONF(&conf, given, &a.err);
    if (rc == 0)
        rc = take_array(&conf, &array, &a.err);
    if (rc == 0)
        rc = ts_dense_open(&array, &t, &a.err);
    if (rc == 0)
        rc = take_names(&conf, t, &a.err);
    if (rc == 0)
        rc = scan(t, &a.err);
    if (rc < 0) {
        ts_tensor_close(t);
        t = NULL;
    }
    ts_api_end(&a, rc, err);
    return t;
}
