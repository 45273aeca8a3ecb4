/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums the core of a tensor (core_consistency.h) over its nonzeros, one group of nonzeros after
 * another. */
#include "cpd/judge/core_consistency.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/bigmem.h"
#include "base/machine/machine.h"
#include "base/num.h"
#include "base/setting.h"
#include "base/stop.h"
#include "cpd/rows/symm.h"
#include "format/arrays/dense.h"
#include "format/walk.h"
#include "model/kruskal_sums.h"
#include "stream/feed/slabs.h"

#define LONE_ADDS 65536 /* a loop with fewer additions than this runs on one thread */
#define NO_ROW    UINT64_MAX
#define CELLS     1024 /* cells of a dense tensor that are added at a time */
/* memory for slabs: the parts of a dense tensor that are read at a time */
#define SLAB_BYTES (UINT64_C(64) << 20)

struct core {
    const struct ts_core_conf *conf;
    uint32_t order, rank;
    int threads;
    /* n_rows x rank: the transposed pseudo-inverse, a row per used slice */
    double *inverse[TS_MAX_ORDER];
    size_t inverse_bytes[TS_MAX_ORDER];
    /* modes in the order by which the nonzeros are sorted in the tensor's copy */
    uint8_t level[TS_MAX_ORDER];
    /* for each level (a place in this order of modes), the row that the last added nonzero has in
     * the mode at this level */
    uint64_t at[TS_MAX_ORDER];
    /* for each level l, rank^(order - l) numbers: a part of the core, summed over the current group
     * of nonzeros. These nonzeros agree in all modes before level l */
    double *sum[TS_MAX_ORDER + 1];
    size_t size[TS_MAX_ORDER + 1];
    size_t sum_bytes;
    double *norm; /* order x rank: column norms of the model */
    /* rank: by[r] is the multiplier of column r in the pseudo-inverses of all modes */
    double *by;
    uint32_t n_singular;
};

int ts_core_check(uint32_t order, uint32_t rank, struct ts_err *err)
{
    const double entries = pow(rank, order);
    const double most = floor(pow((double)TS_CORE_ENTRIES, 1.0 / order) * (1 + 1e-12));
    if (entries <= (double)TS_CORE_ENTRIES)
        return 0;
    return ts_fail(err, TS_ELIMIT,
                   "core consistency: a model of rank %u and %u modes has a core of %.3g entries; "
                   "it is computed up to %.3g, which is rank %.0f",
                   rank, order, entries, (double)TS_CORE_ENTRIES, most);
}

/* Returns the number of used slices of a mode. */
static uint64_t used_rows(const struct ts_tensor *t, uint32_t mode)
{
    return t->dense != NULL ? t->mode[mode].disk.dim : t->mode[mode].disk.n_rows;
}

/* ---- pseudo-inverses of the factors ---- */

/* Returns 1 if the model's mode has a row for each used slice of the tensor, and 0 if it has a row
 * for each index or for each index that it lists. -1: its rows fit none of these. */
static int has_used_rows(const struct core *c, uint32_t mode)
{
    const struct ts_kruskal *k = c->conf->model;
    const struct ts_tensor *t = c->conf->tensor;
    if (k->index[mode] != NULL)
        return k->index[mode][k->n_rows[mode] - 1] < t->mode[mode].disk.dim ? 0 : -1;
    if (k->n_rows[mode] == t->mode[mode].disk.dim)
        return 0;
    return k->n_rows[mode] == used_rows(t, mode) ? 1 : -1;
}

/* Sets gram to the Gram matrix of columns that are scaled to norms of about 1: column p of the
 * model times 2^-exponent[p]. Sets c->norm to the norms of the model's columns. */
static int take_gram(struct core *c, uint32_t mode, double *gram, int *exponent, struct ts_err *err)
{
    const int rc = ts_kruskal_gram(c->conf->model, mode, (uint32_t)c->threads, c->conf->stop, gram,
                                   exponent, err);
    for (uint32_t p = 0; p < c->rank && rc == 0; p++)
        c->norm[(size_t)mode * c->rank + p] =
            ldexp(sqrt(gram[(size_t)p * c->rank + p]), exponent[p]);
    return rc;
}

static double reciprocal(double x)
{
    return x > 0 ? 1 / x : 0;
}

/* ret := the pseudo-inverse of the Gram matrix of columns of norm 1, its rows divided by the norms
 * of the model's columns. The factor times ret is a transposed pseudo-inverse. gram is
 * overwritten. */
static int invert(struct core *c, uint32_t mode, double *gram, double *ret, struct ts_err *err)
{
    const double *norm = c->norm + (size_t)mode * c->rank;
    const uint32_t rank = c->rank;
    double own[TS_MAX_RANK];
    int singular, rc;
    for (uint32_t p = 0; p < rank; p++)
        own[p] = reciprocal(sqrt(gram[(size_t)p * rank + p]));
    for (uint32_t p = 0; p < rank; p++)
        for (uint32_t q = 0; q < rank; q++)
            gram[(size_t)p * rank + q] *= own[p] * own[q];
    rc = ts_symm_pinv(rank, gram, TS_SYMM_CUT, c->conf->stop, ret, &singular, err);
    c->n_singular += rc == 0 && singular;
    for (uint32_t p = 0; p < rank; p++)
        for (uint32_t q = 0; q < rank; q++)
            ret[(size_t)p * rank + q] *= reciprocal(norm[p]);
    return rc;
}

static int fill_inverse(struct core *c, uint32_t mode, const double *w, struct ts_err *err)
{
    const struct ts_tensor *t = c->conf->tensor;
    const uint64_t n_rows = used_rows(t, mode);
    const uint32_t rank = c->rank;
    const int used = has_used_rows(c, mode);
    double *row = malloc((size_t)c->threads * rank * sizeof *row);
    uint64_t *index = NULL;
    int rc = row == NULL                ? ts_fail(err, TS_ENOMEM, "out of memory for rows")
             : used || t->dense != NULL ? 0
                                        : ts_tensor_rows(t, mode, &index, err);
    if (rc == 0) {
#pragma omp parallel for num_threads(c->threads) if (n_rows * rank * rank > LONE_ADDS)
        for (uint64_t i = 0; i < n_rows; i++) {
            double *x = row + (size_t)omp_get_thread_num() * rank;
            double *to = c->inverse[mode] + i * rank;
            ts_kruskal_rows(c->conf->model, mode, index == NULL ? i : index[i], 1, x);
            memset(to, 0, rank * sizeof *to);
            for (uint32_t p = 0; p < rank; p++)
                for (uint32_t q = 0; q < rank; q++)
                    to[q] += x[p] * w[(size_t)p * rank + q];
        }
    }
    free(index);
    free(row);
    return rc;
}

static int check_shape(const struct core *c, struct ts_err *err)
{
    const struct ts_kruskal *k = c->conf->model;
    const struct ts_tensor *t = c->conf->tensor;
    if (k->order != t->order)
        return ts_fail(err, TS_EARG, "the model has %u modes, the tensor %u", k->order, t->order);
    for (uint32_t m = 0; m < t->order; m++)
        if (has_used_rows(c, m) < 0)
            return ts_fail(err, TS_EARG,
                           TS_NTH_MODE " of the model has %" PRIu64
                                       " row%s, of the tensor %" PRIu64,
                           m + 1, k->n_rows[m], ts_num_plural(k->n_rows[m]), t->mode[m].disk.dim);
    return ts_core_check(k->order, k->rank, err);
}

/* Sets c->by, the multipliers of the columns of all pseudo-inverses. The weight of component r,
 * times its column norms, is shared equally among N modes: each column of the model gets the N-th
 * root of this product as length. So each column of a pseudo-inverse is multiplied by 1 / that
 * root. */
static void share_weights(struct core *c)
{
    for (uint32_t r = 0; r < c->rank; r++) {
        double log_sum = log(fabs(c->conf->model->weight[r]));
        for (uint32_t m = 0; m < c->order; m++)
            log_sum += log(c->norm[(size_t)m * c->rank + r]);
        c->by[r] = isfinite(log_sum) ? exp(-log_sum / c->order) : 0;
    }
}

static void scale_inverse(struct core *c, uint32_t mode)
{
    const uint64_t n_rows = used_rows(c->conf->tensor, mode);
    for (uint64_t i = 0; i < n_rows; i++)
        for (uint32_t r = 0; r < c->rank; r++) {
            const int flip = mode == 0 && c->conf->model->weight[r] < 0;
            c->inverse[mode][i * c->rank + r] *= flip ? -c->by[r] : c->by[r];
        }
}

static int make_inverses(struct core *c, struct ts_err *err)
{
    const size_t square = (size_t)c->rank * c->rank;
    double *gram = malloc(2 * square * sizeof *gram), *w = gram + square;
    int exponent[TS_MAX_RANK];
    int rc = gram == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for Gram matrices") : 0;
    for (uint32_t m = 0; m < c->order && rc == 0; m++) {
        rc = take_gram(c, m, gram, exponent, err);
        if (rc == 0)
            rc = invert(c, m, gram, w, err);
        if (rc == 0)
            rc = fill_inverse(c, m, w, err);
        if (rc == 0)
            rc = ts_stop_check(c->conf->stop, err);
    }
    free(gram);
    if (rc < 0)
        return rc;
    share_weights(c);
    for (uint32_t m = 0; m < c->order; m++)
        scale_inverse(c, m);
    return 0;
}

/* ---- the core of the tensor ---- */

/* sum[l] += the outer product of sum[l + 1] and the pseudo-inverse's row at level l. Then sum[l +
 * 1] := 0. (struct core explains levels.) */
static void fold(struct core *c, uint32_t l)
{
    const double *row = c->inverse[c->level[l]] + c->at[l] * c->rank;
    double *to = c->sum[l], *from = c->sum[l + 1];
    const size_t n = c->size[l + 1];
#pragma omp parallel for num_threads(c->threads) if (n * c->rank > LONE_ADDS)
    for (uint32_t r = 0; r < c->rank; r++) {
        double *restrict part = to + r * n;
        for (size_t i = 0; i < n; i++)
            part[i] += row[r] * from[i];
    }
    memset(from, 0, n * sizeof *from);
}

/* Adds n nonzeros in the order of the tensor's copy. index: for each nonzero and mode, the number
 * of its slice among the used slices. */
static int add_nonzeros(void *ctx, uint32_t thread, uint64_t n, const uint64_t *index,
                        const double *value, struct ts_err *err)
{
    struct core *c = ctx;
    const uint32_t leaf = c->order - 1;
    double *restrict sum = c->sum[leaf];
    (void)thread;
    for (uint64_t i = 0; i < n; i++, index += c->order) {
        const double *row = c->inverse[c->level[leaf]] + index[c->level[leaf]] * c->rank;
        uint32_t first = 0; /* first level at which the nonzero before had another row */
        while (first < leaf && c->at[first] == index[c->level[first]])
            first++;
        if (first < leaf) {
            for (uint32_t l = leaf; l-- > first && c->at[l] != NO_ROW;)
                fold(c, l);
            for (uint32_t l = first; l < leaf; l++)
                c->at[l] = index[c->level[l]];
        }
        for (uint32_t r = 0; r < c->rank; r++)
            sum[r] += value[i] * row[r];
    }
    if (c->conf->done != NULL)
        c->conf->done(c->conf->done_ctx, n);
    return ts_stop_check(c->conf->stop, err);
}

/* Chooses the mode of the tensor's copy to read: the one with the fewest slices. Each slice costs
 * an addition of a whole core. */
static uint32_t choose_mode(const struct ts_tensor *t)
{
    uint32_t mode = 0;
    for (uint32_t m = 1; m < t->order; m++)
        if (t->mode[m].disk.n_rows < t->mode[mode].disk.n_rows)
            mode = m;
    return mode;
}

static int sum_nonzeros(struct core *c, struct ts_err *err)
{
    /* `rows` stays NULL, so each nonzero comes with row numbers of used slices, not with indices */
    const struct ts_walk walk = { .tensor = c->conf->tensor, .mode = choose_mode(c->conf->tensor) };
    for (uint32_t l = 0; l < c->order; l++)
        c->level[l] = (uint8_t)walk.tensor->mode[walk.mode].disk.level[l];
    return ts_walk_all(&walk, 1, add_nonzeros, c, c->conf->stop, err);
}

/* Adds the cells of a slab, a part of a dense tensor, as nonzeros in the order of the array. */
static int add_slab(struct core *c, const struct ts_slab_view *v, struct ts_err *err)
{
    const struct ts_dense *d = c->conf->tensor->dense;
    const uint64_t first = v->part.row * d->inner + v->part.col, n = v->part.rows * v->part.cols;
    uint64_t index[CELLS * TS_DENSE_MAX_ORDER];
    double value[CELLS];
    int rc = 0;
    for (uint64_t at = 0; at < n && rc == 0; at += CELLS) {
        const uint64_t some = n - at < CELLS ? n - at : CELLS;
        ts_dense_get_f64(d, v->cells, at, some, value);
        for (uint64_t i = 0; i < some; i++) {
            uint64_t *of = index + i * c->order;
            char text[TS_DENSE_INDEX_CHARS];
            ts_dense_index(d, first + at + i, of);
            if (!isnan(value[i]))
                continue;
            ts_dense_index_text(d, first + at + i, text);
            return ts_fail(err, TS_EARG,
                           "%s: cell %s (counted from 0) is NaN: a core consistency here is of "
                           "arrays whose cells are all known",
                           d->array.path, text);
        }
        rc = add_nonzeros(c, 0, some, index, value, err);
    }
    return rc;
}

static int sum_cells(struct core *c, struct ts_err *err)
{
    const struct ts_tensor *t = c->conf->tensor;
    const struct ts_slabs_conf conf = { .tensor = t,
                                        .host_bytes = SLAB_BYTES,
                                        .stop = c->conf->stop };
    struct ts_slabs *slabs = NULL;
    struct ts_slab_view v;
    int rc = ts_slabs_new(&conf, &slabs, err);
    for (uint32_t l = 0; l < c->order; l++)
        c->level[l] = (uint8_t)t->dense->layout[l];
    while (rc == 0 && (rc = ts_slabs_next(slabs, &v, err)) > 0)
        rc = add_slab(c, &v, err);
    ts_slabs_free(slabs);
    return rc;
}

static int sum_core(struct core *c, struct ts_err *err)
{
    int rc;
    for (uint32_t l = 0; l < c->order; l++)
        c->at[l] = NO_ROW;
    rc = c->conf->tensor->dense != NULL ? sum_cells(c, err) : sum_nonzeros(c, err);
    for (uint32_t l = c->order - 1; rc == 0 && l-- > 0 && c->at[l] != NO_ROW;)
        fold(c, l);
    return rc;
}

/* Returns how many times column r of a mode is longer in the model than after share_weights. The
 * weights of the model count in the first mode. */
static double as_given(const struct core *c, uint32_t mode, uint32_t r)
{
    const double weight = mode == 0 ? fabs(c->conf->model->weight[r]) : 1;
    return c->norm[(size_t)mode * c->rank + r] * weight * c->by[r];
}

/* Returns entry i of the core for the model's factors as given, computed from the core for factors
 * that share the weights equally. */
static double given_entry(const struct core *c, size_t i)
{
    double g = c->sum[0][i];
    for (uint32_t l = 0; l < c->order; l++) {
        const double scale = as_given(c, c->level[l], (uint32_t)(i / c->size[l + 1] % c->rank));
        g = scale > 0 ? g / scale : 0;
    }
    return g;
}

static void conclude(const struct core *c, struct ts_core *ret)
{
    double left = 0, all = 0, given_left = 0, given_all = 0;
    /* distance in memory between entries (r, r, ...) and (r + 1, r + 1, ...) of the core */
    size_t diagonal = 0;
    for (uint32_t l = 1; l <= c->order; l++)
        diagonal += c->size[l];
    for (size_t i = 0; i < c->size[0]; i++) {
        const double want = i % diagonal == 0 ? 1 : 0;
        const double g = c->sum[0][i], given = given_entry(c, i);
        left += (g - want) * (g - want);
        all += g * g;
        given_left += (given - want) * (given - want);
        given_all += given * given;
    }
    ret->given = 100 * (1 - given_left / c->rank);
    ret->given_normalised = given_all == 0 ? 0 : 100 * (1 - given_left / given_all);
    ret->consistency = 100 * (1 - left / c->rank);
    ret->normalised = all == 0 ? 0 : 100 * (1 - left / all);
    ret->n_singular = c->n_singular;
}

/* ---- memory for the core and the pseudo-inverses ---- */

static int check_memory(const struct core *c, struct ts_err *err)
{
    struct ts_machine machine;
    uint64_t bytes = c->sum_bytes;
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS];
    for (uint32_t m = 0; m < c->order; m++)
        bytes += c->inverse_bytes[m];
    ts_machine_get(&machine);
    return bytes <= machine.free_bytes
               ? 0
               : ts_fail(err, TS_ELIMIT, "core consistency takes %s of memory, and %s are free",
                         ts_num_bytes(a, bytes), ts_num_bytes(b, machine.free_bytes));
}

static int core_new(struct core *c, struct ts_err *err)
{
    size_t entries = 0;
    int rc;
    for (uint32_t l = c->order + 1; l-- > 0;) {
        c->size[l] = l == c->order ? 1 : c->size[l + 1] * c->rank;
        entries += l < c->order ? c->size[l] : 0;
    }
    c->sum_bytes = entries * sizeof(double);
    for (uint32_t m = 0; m < c->order; m++)
        c->inverse_bytes[m] = used_rows(c->conf->tensor, m) * c->rank * sizeof(double);
    rc = check_memory(c, err);
    if (rc == 0)
        rc = ts_bigmem_new(c->sum_bytes, "a core", (void **)&c->sum[0], err);
    for (uint32_t l = 1; l < c->order && rc == 0; l++)
        c->sum[l] = c->sum[l - 1] + c->size[l - 1];
    for (uint32_t m = 0; m < c->order && rc == 0; m++)
        rc = ts_bigmem_new(c->inverse_bytes[m], "a pseudo-inverse", (void **)&c->inverse[m], err);
    if (rc == 0) {
        c->norm = calloc((c->order + 1) * (size_t)c->rank, sizeof *c->norm);
        if (c->norm == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for norms");
        c->by = c->norm + c->order * (size_t)c->rank;
    }
    return rc;
}

int ts_core_run(const struct ts_core_conf *conf, struct ts_core *ret, struct ts_err *err)
{
    struct core c = { .conf = conf,
                      .order = conf->model->order,
                      .rank = conf->model->rank,
                      .threads = conf->threads > 0 ? (int)conf->threads : omp_get_max_threads() };
    int rc = check_shape(&c, err);
    if (rc == 0)
        rc = core_new(&c, err);
    if (rc == 0)
        rc = make_inverses(&c, err);
    if (rc == 0)
        rc = sum_core(&c, err);
    if (rc == 0) {
        conclude(&c, ret);
        if (!isfinite(ret->consistency + ret->normalised + ret->given + ret->given_normalised))
            rc = ts_fail(err, TS_ELIMIT,
                         "core consistency: the model's components leave the range of float64");
    }
    for (uint32_t m = 0; m < c.order; m++)
        ts_bigmem_free(c.inverse[m], c.inverse_bytes[m]);
    ts_bigmem_free(c.sum[0], c.sum_bytes);
    free(c.norm);
    return rc;
}
