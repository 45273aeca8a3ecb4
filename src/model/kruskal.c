/* SPDX-License-Identifier: BSD-3-Clause */
/* A decomposition in memory: made from a run, a file or arrays, and read by rows. */
#include "model/kruskal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/machine/bigmem.h"
#include "base/setting.h"
#include "base/stop.h"
#include "model/model_files.h"
#include "model/model_write.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* bytes of float64 rows that are read at a time */
/* factors of at least this size are mapped instead of read */
#define MAP_BYTES (UINT64_C(1) << 20)

static uint64_t chunk_rows(uint32_t rank)
{
    return CHUNK_BYTES / (rank * sizeof(double)) + 1;
}

static size_t number_bytes(const struct ts_kruskal *k)
{
    return k->precision == TS_FLOAT32 ? sizeof(float) : sizeof(double);
}

/* Makes a decomposition with sizes and weights, but without factors. */
static int new_empty(uint32_t order, uint32_t rank, enum ts_precision precision,
                     const uint64_t dim[], const uint64_t n_rows[], struct ts_kruskal **ret,
                     struct ts_err *err)
{
    struct ts_kruskal *k = calloc(1, sizeof *k);
    if (k == NULL || (k->weight = calloc(rank, sizeof *k->weight)) == NULL) {
        free(k);
        return ts_fail(err, TS_ENOMEM, "out of memory for a decomposition");
    }
    k->order = order;
    k->rank = rank;
    k->precision = precision;
    for (uint32_t m = 0; m < order; m++) {
        k->dim[m] = dim[m];
        k->n_rows[m] = n_rows[m];
        k->bytes[m] = n_rows[m] * rank * number_bytes(k);
    }
    *ret = k;
    return 0;
}

static int new_factor(struct ts_kruskal *k, uint32_t mode, struct ts_err *err)
{
    char what[64];
    snprintf(what, sizeof what, "factor matrix of " TS_NTH_MODE, mode + 1);
    return ts_bigmem_new(k->bytes[mode], what, &k->factor[mode], err);
}

int ts_kruskal_new(uint32_t order, uint32_t rank, enum ts_precision precision, const uint64_t dim[],
                   const uint64_t n_rows[], struct ts_kruskal **ret, struct ts_err *err)
{
    struct ts_kruskal *k = NULL;
    int rc = new_empty(order, rank, precision, dim, n_rows, &k, err);
    for (uint32_t m = 0; m < order && rc == 0; m++)
        rc = new_factor(k, m, err);
    if (rc == 0)
        *ret = k;
    else
        ts_kruskal_free(k);
    return rc;
}

void ts_kruskal_free(struct ts_kruskal *k)
{
    if (k == NULL)
        return;
    for (uint32_t m = 0; m < k->order; m++) {
        if (k->map[m].memory == NULL)
            ts_bigmem_free(k->factor[m], k->bytes[m]);
        ts_model_unmap(&k->map[m]);
        free(k->index[m]);
    }
    ts_model_names_drop(k->names);
    free(k->weight);
    free(k);
}

/* Stores n rows of float64 as rows row .. row + n - 1 of the decomposition. If it is float32,
 * converting the numbers to float32 does not change them. */
static void store(struct ts_kruskal *k, uint32_t mode, uint64_t row, uint64_t n, const double *rows)
{
    const size_t at = row * k->rank, count = n * k->rank;
    if (k->precision == TS_FLOAT64) {
        memcpy((double *)k->factor[mode] + at, rows, count * sizeof *rows);
        return;
    }
    for (size_t i = 0; i < count; i++)
        ((float *)k->factor[mode])[at + i] = (float)rows[i];
}

/* Stores all rows of all modes in canonical form. raw, rows: memory for chunk_rows rows each. */
static int take_rows(struct ts_kruskal *k, const struct ts_factors *f, const struct ts_canonical *c,
                     double *raw, double *rows, const volatile sig_atomic_t *stop,
                     struct ts_err *err)
{
    const uint64_t chunk = chunk_rows(k->rank);
    int rc = 0;
    for (uint32_t m = 0; m < k->order && rc == 0; m++)
        for (uint64_t row = 0; row < k->n_rows[m] && rc == 0; row += chunk) {
            const uint64_t n = k->n_rows[m] - row < chunk ? k->n_rows[m] - row : chunk;
            rc = f->get_rows(f->from, m, row, n, raw, err);
            if (rc == 0)
                rc = ts_stop_check(stop, err);
            if (rc < 0)
                break;
            ts_canonical_rows(c, m, n, raw, k->precision, rows);
            store(k, m, row, n, rows);
        }
    return rc;
}

int ts_kruskal_take(const struct ts_tensor *t, const struct ts_factors *f,
                    enum ts_precision precision, const double *weight, const double *norm,
                    const volatile sig_atomic_t *stop, struct ts_kruskal **ret, struct ts_err *err)
{
    const size_t chunk = chunk_rows(f->rank) * f->rank;
    struct ts_kruskal *k = NULL;
    struct ts_canonical c = { 0 };
    uint64_t dim[TS_MAX_ORDER];
    double *raw;
    int rc;
    for (uint32_t m = 0; m < f->order; m++)
        dim[m] = t->mode[m].disk.dim;
    rc = ts_kruskal_new(f->order, f->rank, precision, dim, f->n_rows, &k, err);
    for (uint32_t m = 0; m < f->order && rc == 0; m++)
        rc = ts_tensor_rows(t, m, &k->index[m], err);
    if (rc == 0)
        rc = ts_model_names_of_tensor(t, &k->names, err);
    if (rc == 0)
        rc = ts_canonical_new(f, weight, norm, &c, err);
    raw = rc == 0 ? malloc(2 * chunk * sizeof *raw) : NULL;
    if (rc == 0 && raw == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for rows of factors");
    if (rc == 0) {
        memcpy(k->weight, c.weight, f->rank * sizeof *c.weight);
        rc = take_rows(k, f, &c, raw, raw + chunk, stop, err);
    }
    free(raw);
    ts_canonical_free(&c);
    if (rc == 0)
        *ret = k;
    else
        ts_kruskal_free(k);
    return rc;
}

/* Sets the size of a mode whose rows have a list of indices: from the names of the model, or else
 * from the last index. */
static int size_of_indices(struct ts_kruskal *k, const struct ts_model *m, uint32_t mode,
                           struct ts_err *err)
{
    const uint64_t least = k->index[mode][k->n_rows[mode] - 1] + 1;
    k->dim[mode] = m->names != NULL ? m->names->dim[mode] : least;
    return least <= k->dim[mode]
               ? 0
               : ts_fail(err, TS_EFORMAT,
                         "%s/" TS_LABELS_FILE ": it says that " TS_NTH_MODE " has %" PRIu64
                         " %s, and a row is of index " TS_NTH("%" PRIu64),
                         m->path, mode + 1, k->dim[mode], k->dim[mode] == 1 ? "index" : "indices",
                         least);
}

/* Reads the rows of a mode from a model. rows: memory for a chunk of rows. A large .npy file is
 * mapped after its numbers were checked. */
static int read_mode(struct ts_kruskal *k, struct ts_model *m, uint32_t mode, double *rows,
                     const volatile sig_atomic_t *stop, struct ts_err *err)
{
    const uint64_t chunk = chunk_rows(m->rank);
    int rc = ts_model_index(m, mode, &k->index[mode], err);
    if (rc == 0 && k->index[mode] != NULL)
        rc = size_of_indices(k, m, mode, err);
    if (rc == 0)
        rc = ts_model_rows(m, mode, 0, rows, err); /* opens the file of the mode */
    if (rc == 0 && k->bytes[mode] >= MAP_BYTES && m->item_bytes == number_bytes(k))
        rc = ts_model_map(m, &k->map[mode], err);
    if (rc == 0 && k->map[mode].memory != NULL)
        k->factor[mode] = (char *)k->map[mode].memory + k->map[mode].at;
    else if (rc == 0)
        rc = new_factor(k, mode, err);
    for (uint64_t row = 0; row < k->n_rows[mode] && rc == 0; row += chunk) {
        const uint64_t n = k->n_rows[mode] - row < chunk ? k->n_rows[mode] - row : chunk;
        rc = ts_model_rows(m, mode, n, rows, err);
        if (rc == 0 && k->map[mode].memory == NULL)
            store(k, mode, row, n, rows);
        if (rc == 0)
            rc = ts_stop_check(stop, err);
    }
    return rc;
}

int ts_kruskal_read(struct ts_model *m, const volatile sig_atomic_t *stop, struct ts_kruskal **ret,
                    struct ts_err *err)
{
    const enum ts_precision precision = ts_model_is_float32(m) ? TS_FLOAT32 : TS_FLOAT64;
    struct ts_kruskal *k = NULL;
    double *rows = malloc(chunk_rows(m->rank) * m->rank * sizeof *rows);
    int rc = rows == NULL ? ts_no_memory(err, m->path)
                          : new_empty(m->order, m->rank, precision, m->n_rows, m->n_rows, &k, err);
    for (uint32_t mode = 0; mode < m->order && rc == 0; mode++)
        rc = read_mode(k, m, mode, rows, stop, err);
    free(rows);
    if (rc == 0) {
        memcpy(k->weight, m->weight, k->rank * sizeof *k->weight);
        k->names = ts_model_names_keep(m->names);
        *ret = k;
    } else {
        ts_kruskal_free(k);
    }
    return rc;
}

int ts_kruskal_held(void *kruskal, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err)
{
    const struct ts_kruskal *k = kruskal;
    const size_t at = row * k->rank, count = n * k->rank;
    (void)err;
    if (k->precision == TS_FLOAT64)
        memcpy(rows, (const double *)k->factor[mode] + at, count * sizeof *rows);
    else
        for (size_t i = 0; i < count; i++)
            rows[i] = ((const float *)k->factor[mode])[at + i];
    return 0;
}

uint64_t ts_kruskal_find(const struct ts_kruskal *k, uint32_t mode, uint64_t index)
{
    /* number of indices of the mode that have no row */
    const uint64_t absent = k->dim[mode] - k->n_rows[mode];
    uint64_t low = index > absent ? index - absent : 0, high = k->n_rows[mode];
    if (k->index[mode] == NULL)
        return index < high ? index : high;
    high = index < high ? index : high;
    low = low < high ? low : high;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (k->index[mode][middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void ts_kruskal_rows(const struct ts_kruskal *k, uint32_t mode, uint64_t first, uint64_t n,
                     double *rows)
{
    const uint64_t *index = k->index[mode];
    const uint64_t begin = ts_kruskal_find(k, mode, first);
    const uint64_t end = ts_kruskal_find(k, mode, first + n);
    if (end - begin < n)
        memset(rows, 0, n * k->rank * sizeof *rows);
    if (index == NULL) {
        (void)ts_kruskal_held((void *)(uintptr_t)k, mode, begin, end - begin, rows, NULL);
        return;
    }
    for (uint64_t row = begin; row < end; row++)
        (void)ts_kruskal_held((void *)(uintptr_t)k, mode, row, 1,
                              rows + (index[row] - first) * k->rank, NULL);
}

/* ---- reading the decomposition as a struct ts_model ---- */

struct from_memory {
    const struct ts_kruskal *kruskal;
    int every;
};

static int memory_rows(void *from, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                       struct ts_err *err)
{
    const struct from_memory *f = from;
    if (!f->every)
        return ts_kruskal_held((void *)(uintptr_t)f->kruskal, mode, row, n, rows, err);
    ts_kruskal_rows(f->kruskal, mode, row, n, rows);
    return 0;
}

static const uint64_t *memory_index(void *from, uint32_t mode)
{
    const struct from_memory *f = from;
    return f->every ? NULL : f->kruskal->index[mode];
}

int ts_kruskal_model(const struct ts_kruskal *k, int every, struct ts_model **ret,
                     struct ts_err *err)
{
    struct from_memory *f = malloc(sizeof *f);
    const struct ts_model_memory in = { .order = k->order,
                                        .rank = k->rank,
                                        .n_rows = every ? k->dim : k->n_rows,
                                        .weight = k->weight,
                                        .get_rows = memory_rows,
                                        .index = memory_index,
                                        .close = free,
                                        .from = f };
    int rc;
    if (f == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a decomposition");
    *f = (struct from_memory){ k, every };
    rc = ts_model_open_memory(&in, ret, err);
    if (rc < 0)
        free(f);
    return rc;
}

/* Writes the history of the model's run, a JSON object from the caller, to a file of the result. */
static int add_history(struct ts_model_out *out, const char *object, struct ts_err *err)
{
    size_t n;
    char *text;
    int rc;
    if (object == NULL)
        return 0;
    text = ts_json_sealed(object, &n);
    if (text == NULL)
        return ts_no_memory(err, TS_MODEL_HISTORY);
    rc = ts_model_add(out, TS_MODEL_HISTORY, text, n, err);
    free(text);
    return rc;
}

int ts_kruskal_write(const struct ts_kruskal *k, const char *dir,
                     const struct ts_kruskal_files *files, struct ts_err *warn, struct ts_err *err)
{
    struct ts_model_conf conf = { .dir = dir,
                                  .formats = files->formats,
                                  .used_rows = files->used_rows,
                                  .shape = { .order = k->order },
                                  .rank = k->rank,
                                  .threads = files->threads,
                                  .force = files->force,
                                  .precision = k->precision,
                                  .names = k->names,
                                  .no_labels = files->no_labels,
                                  .stop = files->stop };
    struct ts_model_out *out = NULL;
    int rc;
    for (uint32_t m = 0; m < k->order; m++) {
        conf.shape.dim[m] = k->dim[m];
        conf.shape.n_rows[m] = k->n_rows[m];
        conf.shape.index[m] = k->index[m];
    }
    rc = ts_model_begin(&conf, &out, err);
    if (rc == 0)
        rc = add_history(out, files->history, err);
    if (rc == 0)
        rc = ts_model_write(out, ts_kruskal_held, (void *)(uintptr_t)k, k->weight, NULL, warn, err);
    ts_model_end(out);
    return rc;
}
