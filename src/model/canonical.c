/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts a decomposition into canonical form (canonical.h): sorts the components by weight and
 * chooses their signs. Rows are converted as they are read. */
#include "model/canonical.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (UINT64_C(1) << 20) /* bytes of float64 rows that are read at a time */

struct ts_factors ts_factors_of(const struct ts_tensor *t, uint32_t rank,
                                const struct ts_backend *backend, void *be)
{
    struct ts_factors f = {
        .order = t->order, .rank = rank, .get_rows = backend->get_rows, .from = be
    };
    for (uint32_t m = 0; m < t->order; m++)
        f.n_rows[m] = t->mode[m].disk.n_rows;
    return f;
}

/* Fills from[] and weight[] so that the weights are in descending order. Equal weights stay in the
 * order of their columns. */
static void sort_weights(struct ts_canonical *c, const double *weight)
{
    for (uint32_t r = 0; r < c->rank; r++) {
        uint32_t at = r;
        for (; at > 0 && c->weight[at - 1] < weight[r]; at--) {
            c->weight[at] = c->weight[at - 1];
            c->from[at] = c->from[at - 1];
        }
        c->weight[at] = weight[r];
        c->from[at] = r;
    }
}

/* Sets the signs of a mode in *c: for each column, the sign of its entry of largest magnitude. raw:
 * memory for `chunk` rows; most: memory for one row. */
static int find_signs(const struct ts_factors *f, struct ts_canonical *c, uint32_t mode,
                      uint64_t chunk, double *raw, double *most, struct ts_err *err)
{
    const uint32_t rank = c->rank;
    const uint64_t n_rows = f->n_rows[mode];
    double *sign = c->scale + (size_t)mode * rank;
    memset(most, 0, rank * sizeof *most);
    for (uint32_t r = 0; r < rank; r++)
        sign[r] = 1;
    for (uint64_t row = 0; row < n_rows; row += chunk) {
        const uint64_t n = n_rows - row < chunk ? n_rows - row : chunk;
        const int rc = f->get_rows(f->from, mode, row, n, raw, err);
        if (rc < 0)
            return rc;
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t r = 0; r < rank; r++) {
                const double x = raw[i * rank + c->from[r]];
                if (fabs(x) > most[r]) {
                    most[r] = fabs(x);
                    sign[r] = x < 0 ? -1 : 1;
                }
            }
    }
    return 0;
}

/* Makes the entry of largest magnitude of each column positive, by flipping signs in pairs of
 * modes. If a component has an odd number of such entries that are negative, the last one stays
 * negative. */
static int fix_signs(const struct ts_factors *f, const double *norm, struct ts_canonical *c,
                     struct ts_err *err)
{
    const uint32_t order = f->order, rank = c->rank;
    const uint64_t chunk = CHUNK_BYTES / (rank * sizeof(double)) + 1;
    double *raw = malloc((chunk + 1) * rank * sizeof *raw);
    int rc = raw == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for rows of factors") : 0;
    for (uint32_t m = 0; m < order && rc == 0; m++)
        if (norm[(size_t)m * rank] == TS_AS_IT_IS)
            for (uint32_t r = 0; r < rank; r++)
                c->scale[(size_t)m * rank + r] = 1;
        else
            rc = find_signs(f, c, m, chunk, raw, raw + chunk * rank, err);
    free(raw);
    for (uint32_t r = 0; r < rank && rc == 0; r++) {
        uint32_t negative = 0, last = 0;
        for (uint32_t m = 0; m < order; m++)
            if (c->scale[(size_t)m * rank + r] < 0) {
                negative++;
                last = m;
            }
        if (negative % 2 == 1)
            c->scale[(size_t)last * rank + r] = 1;
    }
    return rc;
}

static void fix_norms(const struct ts_factors *f, struct ts_canonical *c, const double *norm)
{
    const uint32_t rank = c->rank;
    for (uint32_t m = 0; m < f->order; m++)
        for (uint32_t r = 0; r < rank; r++) {
            const double length = norm[(size_t)m * rank + c->from[r]];
            double *scale = c->scale + (size_t)m * rank + r;
            /* if the squares of all entries of a column underflow, its norm and the weight become
             * 0 */
            if (length != TS_AS_IT_IS)
                *scale = length > 0 ? *scale / length : 0;
        }
}

static void keep_all(const struct ts_factors *f, struct ts_canonical *c, const double *weight)
{
    memcpy(c->weight, weight, c->rank * sizeof *weight);
    for (uint32_t r = 0; r < c->rank; r++)
        c->from[r] = r;
    for (size_t i = 0; i < (size_t)f->order * c->rank; i++)
        c->scale[i] = 1;
}

int ts_canonical_new(const struct ts_factors *f, const double *weight, const double *norm,
                     struct ts_canonical *ret, struct ts_err *err)
{
    const size_t rank = f->rank;
    struct ts_canonical c = { .rank = f->rank,
                              .from = calloc(rank, sizeof *c.from),
                              .weight = calloc(rank, sizeof *c.weight),
                              .scale = calloc(f->order * rank, sizeof *c.scale) };
    int rc = c.from == NULL || c.weight == NULL || c.scale == NULL
                 ? ts_fail(err, TS_ENOMEM, "out of memory for %u weights", f->rank)
                 : 0;
    if (rc == 0 && norm == NULL) {
        keep_all(f, &c, weight);
    } else if (rc == 0) {
        sort_weights(&c, weight);
        rc = fix_signs(f, norm, &c, err);
        fix_norms(f, &c, norm);
    }
    if (rc == 0)
        *ret = c;
    else
        ts_canonical_free(&c);
    return rc;
}

void ts_canonical_free(struct ts_canonical *c)
{
    free(c->from);
    free(c->weight);
    free(c->scale);
    memset(c, 0, sizeof *c);
}

void ts_canonical_rows(const struct ts_canonical *c, uint32_t mode, uint64_t n, const double *raw,
                       enum ts_precision precision, double *rows)
{
    const uint32_t rank = c->rank;
    const double *scale = c->scale + (size_t)mode * rank;
    const int narrow = precision == TS_FLOAT32;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < rank; r++) { /* adding 0 turns negative zeros into positive ones */
            const double x = raw[i * rank + c->from[r]] * scale[r] + 0.0;
            rows[i * rank + r] = narrow ? (float)x : x;
        }
}
