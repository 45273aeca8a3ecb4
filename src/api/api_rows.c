/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a decomposition of some of the rows of another decomposition. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/setting.h"
#include "model/kruskal.h"

static int check_rows(uint32_t order, const uint64_t *dim, const uint64_t *n_rows,
                      const uint64_t *const *index, struct ts_err *err)
{
    for (uint32_t m = 0; m < order; m++)
        if (n_rows[m] > dim[m] || (index[m] == NULL && n_rows[m] != dim[m]))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE ": %" PRIu64 " row%s not match a size of %" PRIu64, m + 1,
                           n_rows[m], n_rows[m] == 1 ? " does" : "s do", dim[m]);
    return 0;
}

static int take_index(struct ts_kruskal *k, uint32_t mode, const uint64_t *from, struct ts_err *err)
{
    const uint64_t n = k->n_rows[mode];
    if (from == NULL)
        return 0;
    for (uint64_t i = 0; i < n; i++)
        if (from[i] >= k->dim[mode] || (i > 0 && from[i] <= from[i - 1]))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE ", row %" PRIu64
                                       ": indices must ascend and be below %" PRIu64,
                           mode + 1, i, k->dim[mode]);
    k->index[mode] = malloc((n > 0 ? n : 1) * sizeof *from);
    if (k->index[mode] == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %" PRIu64 " indices", n);
    memcpy(k->index[mode], from, n * sizeof *from);
    return 0;
}

static int take_rows(struct ts_kruskal *k, uint32_t mode, const void *from, struct ts_err *err)
{
    const size_t n = k->n_rows[mode] * k->rank;
    const int narrow = k->precision == TS_FLOAT32;
    for (size_t i = 0; i < n; i++) {
        const double x = narrow ? (double)((const float *)from)[i] : ((const double *)from)[i];
        if (!isfinite(x))
            return ts_fail(err, TS_EARG, TS_NTH_MODE ", row %zu: %g is not a finite number",
                           mode + 1, i / k->rank, x);
    }
    memcpy(k->factor[mode], from, n * (narrow ? sizeof(float) : sizeof(double)));
    return 0;
}

ts_cpd *ts_cpd_new_rows(uint32_t order, const uint64_t *dim, const uint64_t *n_rows,
                        const uint64_t *const *index, uint32_t rank, int precision,
                        const double *weight, const void *const *factor, ts_error *err)
{
    struct ts_kruskal *k = NULL;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = ts_api_check_shape(order, dim, rank, precision, &a.err);
    if (rc == 0)
        rc = check_rows(order, dim, n_rows, index, &a.err);
    if (rc == 0)
        rc = ts_kruskal_new(order, rank, precision, dim, n_rows, &k, &a.err);
    if (rc == 0)
        rc = ts_api_take_weights(k, weight, &a.err);
    for (uint32_t m = 0; m < order && rc == 0; m++) {
        rc = take_index(k, m, index[m], &a.err);
        if (rc == 0)
            rc = take_rows(k, m, factor[m], &a.err);
    }
    if (rc < 0) {
        ts_kruskal_free(k);
        k = NULL;
    }
    ts_api_end(&a, rc, err);
    return k;
}
