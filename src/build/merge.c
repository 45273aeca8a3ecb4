/* SPDX-License-Identifier: BSD-3-Clause */
/* Merges the nonzeros of each cell. Counts used slices, values and nodes of fibre trees at the same
 * time, while the records are in the cache. */
#include "build/merge.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "base/stop.h"
#include "build/build.h"

#define WORK_PIECE 65536u /* records after which a thread adds their number to g->work */
#define PIECE      2048u  /* records that are merged and counted while they are in the cache */
#define COLUMN     512u   /* records of which one field at a time is read into a column */

uint64_t ts_merge_bytes(uint32_t threads, uint32_t order)
{
    (void)order; /* struct ts_fibres has the same size for any order */
    return threads * (ts_value_table_bytes() + sizeof(struct ts_fibres));
}

int ts_merge_init(struct ts_merge *g, const struct ts_record_layout *layout, uint32_t order,
                  uint32_t value_bytes, int duplicates, const uint64_t dim[], uint32_t threads,
                  struct ts_err *err)
{
    int rc = 0;
    memset(g, 0, sizeof *g);
    g->layout = *layout;
    g->order = order;
    g->value_bytes = value_bytes;
    g->duplicates = duplicates;
    g->threads = threads;
    g->fibres = malloc(threads * sizeof *g->fibres);
    g->values = calloc(threads, sizeof *g->values);
    g->piece = calloc(threads, sizeof *g->piece);
    g->account = calloc(threads, sizeof *g->account);
    if (g->fibres == NULL || g->values == NULL || g->piece == NULL || g->account == NULL) {
        rc = ts_fail(err, TS_ENOMEM, "out of memory for merging");
        goto fail;
    }
    for (uint32_t t = 0; t < threads && rc == 0; t++) {
        ts_fibres_init(&g->fibres[t], layout, order);
        rc = ts_value_table_new(value_bytes, &g->values[t], err);
    }
    for (uint32_t m = 0; m < order && rc == 0; m++)
        if (dim[m] > 0)
            rc = ts_slices_init(&g->slices[m], dim[m], err);
    if (rc == 0)
        return 0;
fail:
    ts_merge_fini(g);
    return rc;
}

void ts_merge_release(struct ts_merge *g)
{
    for (uint32_t t = 0; g->values != NULL && t < g->threads; t++)
        ts_value_table_free(g->values[t]);
    for (uint32_t m = 0; m < g->order; m++)
        ts_slices_fini(&g->slices[m]);
    free(g->fibres);
    free(g->values);
    g->fibres = NULL;
    g->values = NULL;
}

void ts_merge_fini(struct ts_merge *g)
{
    ts_merge_release(g);
    free(g->piece);
    free(g->account);
    memset(g, 0, sizeof *g);
}

/* ------------------------------------------------------------------ the record of a cell */

static inline int same_cell(const struct ts_merge *g, const uint64_t *a, const uint64_t *b)
{
    const uint32_t end = g->layout.start[g->order], whole = end / 64;
    for (uint32_t w = 0; w < whole; w++)
        if (a[w] != b[w])
            return 0;
    return end % 64 == 0 || (a[whole] ^ b[whole]) >> (64 - end % 64) == 0;
}

/* Adds the index, value and weight of a record to a checksum. */
static void add_record(const struct ts_merge *g, const uint64_t *rec, struct ts_cell_sum *sum)
{
    const uint64_t bits = ts_record_get(&g->layout, rec, g->order);
    uint64_t s = (g->weights ? bits >> 32 : bits) * ts_cell_key(TS_CELL_VALUE);
    if (g->weights)
        s += (bits & UINT32_MAX) * ts_cell_key(TS_CELL_WEIGHT);
    for (uint32_t m = 0; m < g->order; m++)
        s += ts_record_get(&g->layout, rec, m) * ts_cell_key(m);
    ts_cell_sum_add(sum, s);
}

static void add_to(const struct ts_merge *g, const uint64_t *rec, struct ts_merge_sum *s)
{
    const uint64_t bits = ts_record_get(&g->layout, rec, g->order);
    const double value = ts_value_of_bits(g->weights ? bits >> 32 : bits, g->value_bytes);
    s->n++;
    s->values += value;
    s->sizes += fabs(g->weights ? value * (double)ts_weight_of_bits(bits) : value);
    add_record(g, rec, &s->records);
    if (g->weights) {
        const double weight = ts_weight_of_bits(bits);
        s->weights += weight;
        s->products += weight * value; /* a float64 holds the product of two float32 exactly */
    }
}

/* Returns the value of a cell: the sum of its nonzeros or, with weights, their weighted mean. If
 * all weights are 0, it is the mean without weights. */
static double value_of(const struct ts_merge *g, const struct ts_merge_sum *s)
{
    return !g->weights      ? s->values
           : s->weights > 0 ? s->products / s->weights
                            : s->values / (double)s->n;
}

#define CELL_CHARS 512u /* bytes of 16 indices of 13 digits, each with separators */

/* Writes the indices of a cell as "3, 1, 4", counted as in the input, and returns buf. */
static char *name_cell(const struct ts_merge *g, const uint64_t *rec, char *buf, size_t room)
{
    size_t n = 0;
    for (uint32_t m = 0; m < g->order; m++) {
        n += (size_t)snprintf(buf + n, room - n, "%s" TS_NTH_INDEX, m > 0 ? ", " : "",
                              ts_record_get(&g->layout, rec, m) + 1);
        if (n >= room)
            break;
    }
    return buf;
}

/* Makes the record of a cell from its indices (in *cell), its value `sum` and its weight. Returns
 * 1; 0 if the value is a zero that must be dropped; or a failure. */
static int make_record(const struct ts_merge *g, const uint64_t *cell, double sum, double weight,
                       uint64_t *out, uint64_t *n_rounded, struct ts_err *err)
{
    uint64_t bits = ts_value_keep(sum, g->value_bytes, n_rounded);
    const uint32_t words = g->layout.words;
    const int zero = bits == 0;
    uint64_t rec[TS_RECORD_WORDS] = { 0 };
    char name[CELL_CHARS];
    if (!isfinite(ts_value_of_bits(bits, g->value_bytes)))
        return ts_fail(err, TS_EFORMAT,
                       "the sum of the values at (%s), " TS_NTH_COUNTED ", is %g, beyond the "
                       "range of float%u",
                       name_cell(g, cell, name, sizeof name), sum, 8 * g->value_bytes);
    if (!isfinite((float)weight))
        return ts_fail(err, TS_EFORMAT,
                       "the sum of the weights at (%s), " TS_NTH_COUNTED
                       ", is %g, beyond the range of float32",
                       name_cell(g, cell, name, sizeof name), weight);
    for (uint32_t m = 0; m < g->order; m++)
        ts_record_put(&g->layout, rec, m, ts_record_get(&g->layout, cell, m));
    if (g->weights)
        bits = ts_weighted_bits(bits, (float)weight);
    ts_record_put(&g->layout, rec, g->order, bits);
    memcpy(out, rec, words * sizeof *rec);
    return !zero || g->zeros;
}

/* Like make_record, but first computes the value from the sums over the cell's nonzeros, and
 * transforms it. */
static int make_transformed(const struct ts_merge *g, const uint64_t *cell,
                            const struct ts_merge_sum *sum, uint64_t *out, uint64_t *n_rounded,
                            struct ts_err *err)
{
    const struct ts_transform *t = &g->transform;
    const double value = value_of(g, sum);
    double x = value;
    char name[CELL_CHARS];
    if (t->kind == TS_TRANSFORM_LOG1P)
        x = log1p(value);
    else if (t->kind == TS_TRANSFORM_BINARY)
        x = value != 0;
    else if (t->kind == TS_TRANSFORM_SCALE)
        x = value * t->scale;
    if (t->kind == TS_TRANSFORM_NONE)
        return make_record(g, cell, value, sum->weights, out, n_rounded, err);
    if (!isfinite(x) ||
        !isfinite(ts_value_of_bits(ts_value_to_bits(x, g->value_bytes), g->value_bytes)))
        return ts_fail(err, TS_EFORMAT,
                       "the value at (%s), " TS_NTH_COUNTED ", is %g, of which " TS_SET_TRANSFORM
                       " makes what float%u does not hold",
                       name_cell(g, cell, name, sizeof name), value, 8 * g->value_bytes);
    return make_record(g, cell, x, sum->weights, out, n_rounded, err);
}

/* Makes the record of a cell from the sums over its nonzeros, and adds both to the checksums in *a.
 * Returns 1; 0 if the value is a zero that must be dropped; or a failure. */
static int make_cell(const struct ts_merge *g, const uint64_t *cell, const struct ts_merge_sum *sum,
                     uint64_t *out, struct ts_merge_account *a, struct ts_err *err)
{
    const int rc = make_transformed(g, cell, sum, out, &a->n_rounded, err);
    const uint64_t bits = rc > 0 ? ts_record_get(&g->layout, out, g->order) : 0;
    const double value = ts_value_of_bits(g->weights ? bits >> 32 : bits, g->value_bytes);
    const double made = g->weights ? value * (double)ts_weight_of_bits(bits) : value;
    if (rc < 0)
        return rc;
    ts_cell_sum_join(&a->gone, &sum->records);
    a->value_gone += g->weights ? sum->products : sum->values;
    a->value_made += made;
    a->value_size += sum->sizes;
    a->roundable += g->weights ? sum->weights : 1;
    if (rc > 0)
        add_record(g, out, &a->made);
    return rc;
}

static int refuse_duplicate(const struct ts_merge *g, const uint64_t *rec, struct ts_err *err)
{
    char name[CELL_CHARS];
    return ts_fail(err, TS_EFORMAT,
                   "there is more than one nonzero at (%s), " TS_NTH_COUNTED
                   ", and " TS_SET_NO_DUPLICATES " forbids it",
                   name_cell(g, rec, name, sizeof name));
}

static void remember_refused(struct ts_merge *g, const uint64_t *rec)
{
    g->refused = 1;
    for (uint32_t m = 0; m < g->order; m++)
        g->refused_index[m] = ts_record_get(&g->layout, rec, m);
}

/* ------------------------------------------------------------------ the records of one thread */

static void count_kept(struct ts_merge *g, uint32_t thread, const uint64_t *rec, uint64_t n)
{
    const struct ts_record_layout *l = &g->layout;
    struct ts_merge_account *a = &g->account[thread];
    uint64_t column[COLUMN], s[COLUMN], shift = 0;
    for (uint32_t m = 0; m < g->order; m++)
        shift -= g->shift[m] * ts_cell_key(m);
    if (g->order > 2)
        ts_fibres_add(&g->fibres[thread], rec, n);
    for (uint64_t first = 0; first < n; first += COLUMN) {
        const uint64_t *from = rec + first * l->words;
        const uint32_t count = n - first < COLUMN ? (uint32_t)(n - first) : COLUMN;
        memset(s, 0, count * sizeof *s);
        for (uint32_t m = 0; m < g->order; m++) {
            ts_record_column(l, from, count, m, column);
            ts_cell_sum_term(s, column, count, ts_cell_key(m));
            if (g->slices[m].bitmap == NULL)
                continue;
            for (uint32_t i = 0; i < count; i++)
                ts_slices_mark(&g->slices[m], column[i]);
        }
        ts_record_column(l, from, count, g->order, column);
        if (g->weights)
            ts_cell_sum_weighted(s, column, count);
        else
            ts_cell_sum_term(s, column, count, ts_cell_key(TS_CELL_VALUE));
        ts_cell_sum_mix(s, count, 0, &a->kept);
        if (shift != 0)
            ts_cell_sum_mix(s, count, shift, &a->cells);
        for (uint32_t i = 0; i < count; i++)
            ts_value_table_add(g->values[thread], g->weights ? column[i] >> 32 : column[i]);
    }
}

/* The range of records that one thread merges, and its counts. */
struct share {
    uint64_t first, n, kept, n_duplicates, n_zeros;
    int rc;
    /* a record of a cell that has several nonzeros, if --duplicates error forbids that; or NULL */
    const uint64_t *refused;
    struct ts_err err;
};

/* Merges the nonzeros of each cell in the range [first, first + n) of `all`, and moves the records
 * that remain to the front of the range. No cell has records both inside and outside the range. */
static void merge_share(struct ts_merge *g, uint32_t thread, uint64_t *all, struct share *s)
{
    const uint32_t words = g->layout.words;
    uint64_t *rec = all + s->first * words, in = 0, out = 0, counted = 0, told = 0;
    while (in < s->n) {
        uint64_t next = in + 1;
        while (next < s->n && same_cell(g, rec + in * words, rec + next * words))
            next++;
        if (g->transform.kind != TS_TRANSFORM_NONE &&
            (next - in == 1 || g->duplicates == TS_DUPLICATES_KEEP)) {
            s->n_duplicates += next - in - 1;
            for (uint64_t i = in; i < next; i++) {
                const uint64_t *at = rec + i * words;
                struct ts_merge_sum one = { 0 };
                add_to(g, at, &one);
                s->rc = make_cell(g, at, &one, rec + out * words, &g->account[thread], &s->err);
                if (s->rc < 0)
                    return;
                s->n_zeros += s->rc == 0;
                out += (uint64_t)s->rc;
            }
        } else if (next - in == 1 || g->duplicates == TS_DUPLICATES_KEEP) {
            s->n_duplicates += next - in - 1;
            /* word by word, not by memcpy, because source and destination may overlap */
            if (out != in)
                for (uint64_t i = 0; i < (next - in) * words; i++)
                    rec[out * words + i] = rec[in * words + i];
            out += next - in;
        } else {
            struct ts_merge_sum sum = { 0 };
            if (g->duplicates == TS_DUPLICATES_ERROR) {
                s->rc = refuse_duplicate(g, rec + in * words, &s->err);
                s->refused = rec + in * words;
                return;
            }
            for (uint64_t i = in; i < next; i++)
                add_to(g, rec + i * words, &sum);
            s->rc = make_cell(g, rec + in * words, &sum, rec + out * words, &g->account[thread],
                              &s->err);
            if (s->rc < 0)
                return;
            s->n_duplicates += next - in - 1;
            s->n_zeros += s->rc == 0;
            out += (uint64_t)s->rc;
        }
        in = next;
        if (g->work != NULL && in - told >= WORK_PIECE) {
            atomic_fetch_add_explicit(g->work, in - told, memory_order_relaxed);
            told = in;
        }
        if (out - counted >= PIECE) {
            count_kept(g, thread, rec + counted * words, out - counted);
            counted = out;
            if (ts_stop_asked(g->stop))
                break;
        }
    }
    count_kept(g, thread, rec + counted * words, out - counted);
    s->kept = out;
    s->rc = 0;
}

static int merge_all(struct ts_merge *g, uint64_t *rec, uint64_t n, uint64_t *kept,
                     struct ts_err *err)
{
    const uint32_t words = g->layout.words, threads = g->threads;
    struct share *share = calloc(threads, sizeof *share);
    uint64_t at = 0, out = 0;
    int rc = 0;
    if (share == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for merging");
    for (uint32_t t = 0; t < threads; t++) {
        uint64_t end = n * (t + 1) / threads;
        end = end < at ? at : end;
        while (end > at && end < n && same_cell(g, rec + (end - 1) * words, rec + end * words))
            end++;
        share[t].first = at;
        share[t].n = end - at;
        at = end;
    }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (uint32_t t = 0; t < threads; t++)
        merge_share(g, t, rec, &share[t]);
    for (uint32_t t = 0; t < threads && rc == 0; t++) {
        const struct share *s = &share[t];
        rc = s->rc;
        if (rc < 0 && err != NULL)
            *err = s->err;
        if (s->refused != NULL)
            remember_refused(g, s->refused);
        g->piece[t].first = s->first;
        g->piece[t].n = rc == 0 ? s->kept : 0;
        out += s->kept;
        g->n_duplicates += s->n_duplicates;
        g->n_zeros += s->n_zeros;
    }
    free(share);
    g->nnz += out;
    *kept = out;
    return rc;
}

/* ------------------------------------------------------------------ a cell split over two calls */

/* Adds the first records that belong to the open cell, which is the last cell of the previous call.
 * Returns their number. */
static uint64_t continue_cell(struct ts_merge *g, const uint64_t *rec, uint64_t n)
{
    uint64_t i = 0;
    while (g->open && i < n && same_cell(g, g->cell, rec + i * g->layout.words)) {
        add_to(g, rec + i * g->layout.words, &g->sum);
        i++;
    }
    return i;
}

/* Ends the open cell (the last cell of the previous call), to which no further record belongs. Its
 * record goes to `before`, unless it is a zero to be dropped. */
static int close_cell(struct ts_merge *g, uint64_t *before, uint64_t *n_before, struct ts_err *err)
{
    int rc;
    if (!g->open)
        return 0;
    g->open = 0;
    if (g->sum.n > 1 && g->duplicates == TS_DUPLICATES_ERROR) {
        remember_refused(g, g->cell);
        return refuse_duplicate(g, g->cell, err);
    }
    rc = make_cell(g, g->cell, &g->sum, before, &g->account[0], err);
    if (rc < 0)
        return rc;
    g->n_duplicates += g->sum.n - 1;
    g->n_zeros += rc == 0;
    *n_before = (uint64_t)rc;
    g->nnz += (uint64_t)rc;
    if (rc > 0)
        count_kept(g, 0, before, 1);
    return 0;
}

/* Keeps the sums of the last cell for the next call, which may have more records of that cell: it
 * becomes the open cell. Returns the number of records before it. */
static uint64_t open_cell(struct ts_merge *g, const uint64_t *rec, uint64_t n)
{
    const uint32_t words = g->layout.words;
    uint64_t first = n;
    if (n == 0)
        return 0;
    memcpy(g->cell, rec + (n - 1) * words, words * sizeof *rec);
    while (first > 0 && same_cell(g, g->cell, rec + (first - 1) * words))
        first--;
    g->open = 1;
    g->sum = (struct ts_merge_sum){ 0 };
    for (uint64_t i = first; i < n; i++)
        add_to(g, rec + i * words, &g->sum);
    return first;
}

int ts_merge_add(struct ts_merge *g, uint64_t *rec, uint64_t n, int last, uint64_t *before,
                 uint64_t *n_before, uint64_t *kept, struct ts_err *err)
{
    const uint32_t words = g->layout.words;
    uint64_t taken, left;
    int rc;
    *n_before = *kept = 0;
    if (g->duplicates == TS_DUPLICATES_KEEP) { /* nothing is merged, only counted */
        g->n_duplicates += n > 0 && g->open && same_cell(g, g->cell, rec);
        if (n > 0)
            memcpy(g->cell, rec + (n - 1) * words, words * sizeof *rec);
        g->open |= n > 0;
        return merge_all(g, rec, n, kept, err);
    }
    memset(g->piece, 0, g->threads * sizeof *g->piece);
    taken = continue_cell(g, rec, n);
    if (taken == n && !last)
        return 0;
    rc = close_cell(g, before, n_before, err);
    if (rc < 0)
        return rc;
    left = n - taken;
    if (!last)
        left = open_cell(g, rec + taken * words, left);
    rc = merge_all(g, rec + taken * words, left, kept, err);
    for (uint32_t t = 0; t < g->threads; t++)
        g->piece[t].first += taken;
    return rc;
}

static void add_account(struct ts_merge_account *a, const struct ts_merge_account *more)
{
    ts_cell_sum_join(&a->gone, &more->gone);
    ts_cell_sum_join(&a->made, &more->made);
    ts_cell_sum_join(&a->kept, &more->kept);
    ts_cell_sum_join(&a->cells, &more->cells);
    a->n_rounded += more->n_rounded;
    a->value_gone += more->value_gone;
    a->value_made += more->value_made;
    a->value_size += more->value_size;
    a->roundable += more->roundable;
}

static int is_shifted(const struct ts_merge *g)
{
    uint64_t any = 0;
    for (uint32_t m = 0; m < g->order; m++)
        any |= g->shift[m];
    return any != 0;
}

int ts_merge_check(const struct ts_merge *g, const struct ts_cell_sum *records, struct ts_err *err)
{
    const struct ts_merge_account *a = &g->account[0];
    /* The largest difference between the sums of values before and after merging that rounding can
     * make. Each merged value and weight is rounded once to its type, and each addition is rounded.
     * A value that was rounded to 0 was below FLT_MIN, so the difference is below FLT_MIN times the
     * weight of its cell. */
    const double most =
        ((g->value_bytes == 4 ? 0x1p-22 : 0) + (double)a->gone.n * 0x1p-51) * a->value_size +
        a->roundable * FLT_MIN;
    struct ts_cell_sum want = *records;
    ts_cell_sum_part(&want, &a->gone);
    ts_cell_sum_join(&want, &a->made);
    if (!ts_cell_sum_same(&want, &a->kept))
        return ts_fail(
            err, TS_EIO,
            "%" PRIu64 " cells leave the merge with the sum %016" PRIx64 "%016" PRIx64
            ", and the nonzeros read make %" PRIu64 " with the sum %016" PRIx64 "%016" PRIx64,
            a->kept.n, a->kept.word[1], a->kept.word[0], want.n, want.word[1], want.word[0]);
    if (g->transform.kind == TS_TRANSFORM_NONE && isfinite(a->value_size) &&
        !(fabs(a->value_gone - a->value_made) <= most))
        return ts_fail(
            err, TS_EIO,
            "values of merged cells add up to %.17g, and those of their nonzeros to %.17g",
            a->value_made, a->value_gone);
    return 0;
}

void ts_merge_finish(struct ts_merge *g)
{
    for (uint32_t t = 1; t < g->threads; t++) {
        ts_fibres_merge(&g->fibres[0], &g->fibres[t]);
        ts_value_table_merge(g->values[0], g->values[t]);
        ts_value_table_free(g->values[t]);
        g->values[t] = NULL;
        add_account(&g->account[0], &g->account[t]);
    }
    if (!is_shifted(g))
        g->account[0].cells = g->account[0].kept;
    for (uint32_t m = 0; m < g->order; m++)
        if (g->slices[m].bitmap != NULL)
            ts_slices_count(&g->slices[m]);
}
