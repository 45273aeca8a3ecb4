/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompositions: makes them from arrays, reads and writes them, and returns their parts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/files/place.h"
#include "base/setting.h"
#include "base/machine/threads.h"
#include "model/kruskal.h"
#include "model/model_files.h"
#include "model/model_write.h"
#include "model/predict.h"
#include "model/strongest.h"

_Static_assert(TS_REAL_FLOAT32 == (int)TS_FLOAT32 && TS_REAL_FLOAT64 == (int)TS_FLOAT64,
               "precisions are those of stream/backend.h");
_Static_assert(TS_FILE_KTENSOR == (int)TS_WRITE_KTENSOR && TS_FILE_NPY == (int)TS_WRITE_NPY &&
                   TS_FILE_SPLATT == (int)TS_WRITE_SPLATT,
               "formats are those of model/model_write.h");

int ts_api_check_shape(uint32_t order, const uint64_t *dim, uint32_t rank, int precision,
                       struct ts_err *err)
{
    if (order < TS_MIN_ORDER || order > TS_MAX_ORDER)
        return ts_fail(err, TS_EARG, "a decomposition has %u to %u modes", TS_MIN_ORDER,
                       TS_MAX_ORDER);
    if (rank == 0 || rank > TS_MAX_RANK)
        return ts_fail(err, TS_EARG, "a rank of %u is not possible: 1 to %u are", rank,
                       TS_MAX_RANK);
    if (precision != TS_REAL_FLOAT32 && precision != TS_REAL_FLOAT64)
        return ts_fail(err, TS_EARG, "the precision must be float32 or float64");
    for (uint32_t m = 0; m < order; m++)
        if (dim[m] == 0 || dim[m] > TS_MAX_DIM)
            return ts_fail(err, TS_EARG,
                           "a size of %llu of " TS_NTH_MODE " is not possible: 1 to 2^40 are",
                           (unsigned long long)dim[m], m + 1);
    return 0;
}

int ts_api_take_weights(struct ts_kruskal *k, const double *weight, struct ts_err *err)
{
    for (uint32_t r = 0; r < k->rank; r++) {
        k->weight[r] = weight[r];
        if (!isfinite(weight[r]))
            return ts_fail(err, TS_EARG, "weight %u is not a finite number", r);
    }
    return 0;
}

/* Copies the factor of a mode. All numbers must be finite in the precision of the decomposition. */
static int take_factor(struct ts_kruskal *k, uint32_t mode, const double *from, struct ts_err *err)
{
    const uint64_t n = k->n_rows[mode] * k->rank;
    for (uint64_t i = 0; i < n; i++) {
        const double x = k->precision == TS_FLOAT32 ? (double)(float)from[i] : from[i];
        if (!isfinite(x))
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE ", row %llu, column %u: %g is not a finite number", mode + 1,
                           (unsigned long long)(i / k->rank), (unsigned)(i % k->rank), from[i]);
        if (k->precision == TS_FLOAT32)
            ((float *)k->factor[mode])[i] = (float)x;
        else
            ((double *)k->factor[mode])[i] = x;
    }
    return 0;
}

ts_cpd *ts_cpd_new(uint32_t order, const uint64_t *dim, uint32_t rank, int precision,
                   const double *weight, const double *const *factor, ts_error *err)
{
    struct ts_kruskal *k = NULL;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = ts_api_check_shape(order, dim, rank, precision, &a.err);
    if (rc == 0)
        rc = ts_kruskal_new(order, rank, precision, dim, dim, &k, &a.err);
    if (rc == 0)
        rc = ts_api_take_weights(k, weight, &a.err);
    for (uint32_t m = 0; m < order && rc == 0; m++)
        rc = take_factor(k, m, factor[m], &a.err);
    if (rc < 0) {
        ts_kruskal_free(k);
        k = NULL;
    }
    ts_api_end(&a, rc, err);
    return k;
}

ts_cpd *ts_cpd_load(const char *path, const volatile int *stop, ts_error *err)
{
    struct ts_kruskal *k = NULL;
    struct ts_model *m = NULL;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = ts_model_open_first(path, TS_MODEL_NPY, &m, &a.err);
    if (rc == 0)
        rc = ts_kruskal_read(m, stop, &k, &a.err);
    ts_model_close(m);
    ts_api_end(&a, rc, err);
    return k;
}

void ts_cpd_free(ts_cpd *c)
{
    ts_kruskal_free(c);
}

int ts_cpd_save(const ts_cpd *c, const char *dir, const ts_save_conf *given, ts_error *err)
{
    ts_save_conf conf;
    struct ts_err warn = { 0 };
    uint32_t threads = 1;
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = TS_API_CONF(&conf, given, &a.err);
    if (conf.formats == 0)
        conf.formats = TS_FILE_KTENSOR;
    if (rc == 0 && conf.formats > (TS_FILE_KTENSOR | TS_FILE_NPY | TS_FILE_SPLATT))
        rc = ts_fail(&a.err, TS_EARG, "formats of files are ktensor, npy and splatt");
    if (rc == 0)
        rc = ts_threads_get(conf.threads, 0, &threads, &a.err);
    if (rc == 0 && conf.history != NULL &&
        (strncmp(conf.history, TS_MODEL_RECORD_BEGINS, strlen(TS_MODEL_RECORD_BEGINS)) != 0 ||
         conf.history[strlen(conf.history) - 1] != '}'))
        rc = ts_fail(&a.err, TS_EARG, "history is no JSON object that begins with the program");
    if (rc == 0) {
        const struct ts_place place = { .path = dir, .suffix = ".partial", .option = TS_SET_OUT };
        rc = ts_place_check(&place, 1, &a.err);
    }
    if (rc == 0) {
        const struct ts_kruskal_files files = { .formats = conf.formats,
                                                .used_rows = conf.held_rows,
                                                .no_labels = conf.no_labels,
                                                .force = conf.replace,
                                                .history = conf.history,
                                                .threads = threads,
                                                .stop = conf.stop };
        rc = ts_kruskal_write(c, dir, &files, &warn, &a.err);
    }
    if (rc == 0)
        ts_api_note(&a, conf.note, conf.ctx, &warn);
    return ts_api_end(&a, rc, err);
}

uint32_t ts_cpd_order(const ts_cpd *c)
{
    return c->order;
}

uint32_t ts_cpd_rank(const ts_cpd *c)
{
    return c->rank;
}

int ts_cpd_precision(const ts_cpd *c)
{
    return (int)c->precision;
}

uint64_t ts_cpd_dim(const ts_cpd *c, uint32_t mode)
{
    return mode < c->order ? c->dim[mode] : 0;
}

const double *ts_cpd_weights(const ts_cpd *c)
{
    return c->weight;
}

uint64_t ts_cpd_held(const ts_cpd *c, uint32_t mode)
{
    return mode < c->order ? c->n_rows[mode] : 0;
}

const void *ts_cpd_factor(const ts_cpd *c, uint32_t mode)
{
    return mode < c->order ? c->factor[mode] : NULL;
}

const uint64_t *ts_cpd_index(const ts_cpd *c, uint32_t mode)
{
    return mode < c->order ? c->index[mode] : NULL;
}

static int check_mode(const ts_cpd *c, uint32_t mode, struct ts_err *err)
{
    return mode < c->order
               ? 0
               : ts_fail(err, TS_EARG, "there is no " TS_NTH_MODE ", only %u", mode + 1, c->order);
}

int ts_cpd_rows(const ts_cpd *c, uint32_t mode, uint64_t first, uint64_t n, double *ret,
                ts_error *err)
{
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = check_mode(c, mode, &a.err);
    if (rc == 0 && (first > c->dim[mode] || n > c->dim[mode] - first))
        rc = ts_fail(&a.err, TS_EARG, "rows %llu to %llu of " TS_NTH_MODE ": there are %llu",
                     (unsigned long long)first, (unsigned long long)(first + n), mode + 1,
                     (unsigned long long)c->dim[mode]);
    if (rc == 0)
        ts_kruskal_rows(c, mode, first, n, ret);
    return ts_api_end(&a, rc, err);
}

static void find_top(const ts_cpd *c, uint32_t mode, uint32_t component, struct ts_strongest *s)
{
    const size_t rank = c->rank;
    for (uint64_t row = 0; row < c->n_rows[mode]; row++) {
        const double x = c->precision == TS_FLOAT32
                             ? (double)((const float *)c->factor[mode])[row * rank + component]
                             : ((const double *)c->factor[mode])[row * rank + component];
        ts_strongest_add(s, x, c->index[mode] == NULL ? row : c->index[mode][row]);
    }
    ts_strongest_sort(s);
}

int ts_cpd_top(const ts_cpd *c, uint32_t mode, uint32_t component, uint32_t n, uint64_t *index,
               double *value, uint32_t *found, ts_error *err)
{
    struct ts_strongest s = { 0 };
    struct ts_api a;
    int rc;
    ts_api_begin(&a);
    rc = check_mode(c, mode, &a.err);
    if (rc == 0 && component >= c->rank)
        rc = ts_fail(&a.err, TS_EARG, "there is no " TS_NTH_COMPONENT ", only %u", component + 1,
                     c->rank);
    if (rc == 0 && ts_strongest_new(&s, n < c->n_rows[mode] ? n : (uint32_t)c->n_rows[mode]) < 0)
        rc = ts_fail(&a.err, TS_ENOMEM, "out of memory for %u entries", n);
    if (rc == 0) {
        find_top(c, mode, component, &s);
        for (uint32_t i = 0; i < s.n; i++) {
            index[i] = s.at[i].index;
            value[i] = s.at[i].value;
        }
        *found = s.n;
    }
    ts_strongest_free(&s);
    return ts_api_end(&a, rc, err);
}

int ts_cpd_predict(const ts_cpd *c, uint64_t n, const uint64_t *index, double *ret, ts_error *err)
{
    uint32_t mode = 0;
    uint64_t cell;
    struct ts_api a;
    int rc = 0;
    ts_api_begin(&a);
    cell = ts_predict_beyond(c, n, index, &mode);
    if (cell < n)
        rc = ts_fail(&a.err, TS_EARG, "cell %llu: index %llu of " TS_NTH_MODE ": there are %llu",
                     (unsigned long long)cell, (unsigned long long)index[cell * c->order + mode],
                     mode + 1, (unsigned long long)c->dim[mode]);
    else
        ts_predict(c, n, index, ret);
    return ts_api_end(&a, rc, err);
}

uint64_t ts_cpd_unseen(const ts_cpd *c, uint64_t n, const uint64_t *index, const double *value)
{
    return ts_predict_unseen(c, n, index, value);
}
