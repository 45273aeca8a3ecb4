/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes a shard, checks the order of its nonzeros, and adds up hashes of its cells. */
#include "tools/build/verify_sum.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "api/tools.h"

/* Relative tolerance for the norm, which is summed in another order than the builder's. The
 * rounding error of each order is at most nnz roundings, in practice their square root: 1e-10 for
 * the 2^40 nonzeros of the largest tensor. A larger error of a value is found here, a smaller one
 * by the hash of its shard. */
#define NORM_TOLERANCE 1e-10

/* Compares the positions of nonzeros a and b, level by level (mode by mode, in the order of the
 * copy). Returns -1, 0 or 1. */
static int compare(const uint32_t *a, const uint32_t *b, uint32_t order)
{
    for (uint32_t l = 0; l < order; l++)
        if (a[l] != b[l])
            return a[l] < b[l] ? -1 : 1;
    return 0;
}

static void copy_indices(const struct ts_block *b, uint32_t p, uint32_t order, uint32_t *ret)
{
    for (uint32_t l = 0; l < order; l++)
        ret[l] = b->level[l][p];
}

/* Returns the bits of a value in the precision of the tensor, in which it was read. */
static uint64_t bits_of(const struct ts_tensor *t, double value)
{
    const float narrow = (float)value;
    uint64_t bits = 0;
    if (t->header.value_bytes == 4)
        memcpy(&bits, &narrow, sizeof narrow);
    else
        memcpy(&bits, &value, sizeof value);
    return bits;
}

static void add_cells(const struct ts_tensor *t, uint32_t mode, const struct ts_block *b,
                      const double *value, uint64_t *const rows[], struct verify_sum *s)
{
    const uint8_t *level = t->mode[mode].disk.level;
    uint64_t sum[TS_BLOCK_NNZ] = { 0 }, x[TS_BLOCK_NNZ];
    for (uint32_t l = 0; l < t->order; l++) {
        const uint64_t *list = rows[level[l]];
        for (uint32_t p = 0; p < b->n; p++)
            x[p] = list == NULL ? b->level[l][p] : list[b->level[l][p]];
        ts_cell_sum_term(sum, x, b->n, ts_cell_key(level[l]));
    }
    for (uint32_t p = 0; p < b->n; p++)
        x[p] = bits_of(t, value[p]);
    ts_cell_sum_term(sum, x, b->n, ts_cell_key(TS_CELL_VALUE));
    if (ts_tensor_weighted(t)) {
        for (uint32_t p = 0; p < b->n; p++)
            x[p] = b->code[1][p];
        ts_cell_sum_term(sum, x, b->n, ts_cell_key(TS_CELL_WEIGHT));
    }
    ts_cell_sum_mix(sum, b->n, 0, &s->cells);
}

static void add_values(const double *value, uint32_t n, struct verify_sum *s)
{
    double squares = 0;
    for (uint32_t p = 0; p < n; p++) {
        squares += value[p] * value[p];
        s->min = value[p] < s->min ? value[p] : s->min;
        s->max = value[p] > s->max ? value[p] : s->max;
    }
    s->squares += squares;
}

/* Updates the numbers of nonzeros in the first, the last and the fullest row. */
static void add_runs(const struct ts_block *b, struct verify_sum *s)
{
    for (uint32_t p = 0; p < b->n; p++) {
        if (b->level[0][p] != s->row_last)
            s->last_run = 0;
        s->row_last = b->level[0][p];
        s->last_run++;
        if (s->row_last == s->row_first)
            s->first_run = s->last_run;
        s->longest_run = s->last_run > s->longest_run ? s->last_run : s->longest_run;
    }
}

static int add_block(const struct ts_tensor *t, uint32_t mode, const struct ts_block *b,
                     uint64_t *const rows[], struct verify_sum *s, struct ts_err *err)
{
    const int least = (t->header.flags & TS_TENSOR_DUPLICATES) != 0 ? 0 : 1;
    const uint32_t n_codes = ts_header_codes(&t->header);
    uint32_t now[TS_MAX_ORDER];
    double value[TS_BLOCK_NNZ];
    if (ts_tensor_weighted(t) && !ts_block_weights(b))
        return ts_fail(err, TS_EFORMAT, "a weight is negative or not finite");
    for (uint32_t p = 0; p < b->n; p++) {
        value[p] =
            ts_tensor_value(t, n_codes > 0 ? b->code[0][p] : 0, n_codes > 1 ? b->code[1][p] : 0);
        if (!isfinite(value[p]))
            return ts_fail(err, TS_EFORMAT, "nonzero %" PRIu64 " is not finite", s->nnz + p);
        copy_indices(b, p, t->order, now);
        if (s->nnz + p == 0)
            memcpy(s->first, now, sizeof now);
        else if (compare(now, s->last, t->order) < least)
            return ts_fail(err, TS_EFORMAT,
                           "nonzero %" PRIu64 " does not come behind the one before", s->nnz + p);
        memcpy(s->last, now, sizeof now);
    }
    add_cells(t, mode, b, value, rows, s);
    add_values(value, b->n, s);
    add_runs(b, s);
    s->nnz += b->n;
    return 0;
}

int verify_sum_shard(const struct ts_tensor *t, uint32_t mode, uint64_t shard, const void *raw,
                     uint64_t *const rows[], struct verify_sum *ret, struct ts_err *err)
{
    const struct ts_mode *m = &t->mode[mode];
    const struct ts_disk_shard *entry = &m->shard[shard];
    struct verify_sum s = { .min = INFINITY, .max = -INFINITY };
    struct ts_block_parts parts;
    struct ts_block block;
    struct ts_err why;
    memset(s.first, 0, sizeof s.first);
    s.row_first = s.row_last = entry->row_first;
    for (uint32_t b = 0; b < entry->n_blocks; b++) {
        int rc = ts_shard_decode(entry, raw, b, t->order, ts_header_codes(&t->header), &parts,
                                 &block, &why);
        if (rc == 0)
            rc = ts_block_check_padding(ts_shard_block(entry, raw, b).word, &parts, &why);
        if (rc == 0)
            rc = add_block(t, mode, &block, rows, &s, &why);
        if (rc < 0)
            return ts_fail(err, TS_EFORMAT, "%s: shard %" PRIu64 ", block %" PRIu32 ": %s",
                           m->shards_path, shard, b, why.text);
    }
    *ret = s;
    return 0;
}

int verify_sum_append(const struct ts_tensor *t, uint32_t mode, uint64_t shard,
                      struct verify_sum *sum, const struct verify_sum *next, struct ts_err *err)
{
    const int least = (t->header.flags & TS_TENSOR_DUPLICATES) != 0 ? 0 : 1;
    const int shared = next->row_first == sum->row_last; /* whether a row spans both shards */
    const uint64_t run = sum->last_run + next->first_run;
    if (compare(next->first, sum->last, t->order) < least)
        return ts_fail(err, TS_EFORMAT, "%s: shard %" PRIu64 " does not come behind the one before",
                       t->mode[mode].shards_path, shard);
    sum->nnz += next->nnz;
    ts_cell_sum_join(&sum->cells, &next->cells);
    sum->squares += next->squares;
    sum->min = next->min < sum->min ? next->min : sum->min;
    sum->max = next->max > sum->max ? next->max : sum->max;
    if (next->longest_run > sum->longest_run)
        sum->longest_run = next->longest_run;
    if (shared && run > sum->longest_run)
        sum->longest_run = run;
    sum->last_run = shared && next->row_last == next->row_first ? run : next->last_run;
    memcpy(sum->last, next->last, sizeof sum->last);
    sum->row_last = next->row_last;
    return 0;
}

int verify_sum_header(const struct ts_tensor *t, struct ts_err *err)
{
    const struct ts_disk_header *h = &t->header;
    const uint64_t gone = h->n_duplicates + h->n_zeros;
    const int has_base = h->value_kind == TS_VALUE_CONST || h->value_kind == TS_VALUE_INT;
    if (!has_base && h->value_base != 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s/index: value_base is %.17g, expected 0 for values of kind %" PRIu32,
                       t->path, h->value_base, h->value_kind);
    if (h->value_kind == TS_VALUE_F32 && h->value_bytes != 4)
        return ts_fail(err, TS_EFORMAT, "%s/index: float32 values of %" PRIu32 " bytes, expected 4",
                       t->path, h->value_bytes);
    if (gone < h->n_zeros || h->input_nnz < gone || h->input_nnz - gone != h->nnz)
        return ts_fail(err, TS_EFORMAT,
                       "%s/index: of %" PRIu64 " nonzeros read, %" PRIu64
                       " were merged and %" PRIu64 " were zero, but %" PRIu64 " are left",
                       t->path, h->input_nnz, h->n_duplicates, h->n_zeros, h->nnz);
    return 0;
}

int verify_sum_check(const struct ts_tensor *t, uint32_t mode, const struct verify_sum *sum,
                     struct ts_err *err)
{
    const struct ts_disk_header *h = &t->header;
    const char *path = t->mode[mode].shards_path;
    const double norm = sqrt(sum->squares);
    if (sum->nnz != t->nnz)
        return ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " nonzero%s, expected %" PRIu64, path,
                       sum->nnz, ts_num_plural(sum->nnz), t->nnz);
    if (sum->longest_run != t->mode[mode].disk.largest_slice)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the largest slice has %" PRIu64 " nonzero%s, expected %" PRIu64, path,
                       sum->longest_run, ts_num_plural(sum->longest_run),
                       t->mode[mode].disk.largest_slice);
    if (sum->min != h->value_min || sum->max != h->value_max)
        return ts_fail(err, TS_EFORMAT, "%s: values from %.17g to %.17g, expected %.17g to %.17g",
                       path, sum->min, sum->max, h->value_min, h->value_max);
    if (!(fabs(norm - h->norm) <= NORM_TOLERANCE * h->norm))
        return ts_fail(err, TS_EFORMAT, "%s: the norm is %.17g, expected %.17g", path, norm,
                       h->norm);
    return 0;
}
