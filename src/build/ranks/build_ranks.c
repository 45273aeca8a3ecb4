/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the records that each rank has read, and combines the counts of all ranks. */
#include "build/ranks/build_ranks.h"

#include <stdlib.h>
#include <string.h>

/* bytes of a bitmap of used slices that ranks exchange at a time */
#define FOLD_BYTES (UINT64_C(4) << 20)

int ts_build_ranks_writes(const struct ts_build *b)
{
    return !ts_build_comm_many(&b->ranks) || b->ranks.comm->rank == 0;
}

int ts_build_ranks_writes_rows(const struct ts_build *b, uint32_t mode)
{
    return !ts_build_comm_many(&b->ranks) || b->ranks.comm->rank == mode % b->ranks.comm->n;
}

int ts_build_ranks_rows(struct ts_build *b, int rc, struct ts_err *err)
{
    uint64_t told[2 * TS_MAX_ORDER];
    /* sizes and hashes are summed over ranks: they are 0 for a mode whose rows another rank has
     * written */
    for (uint32_t m = 0; m < b->order; m++) {
        told[2 * m] = b->mode[m].rows_bytes;
        told[2 * m + 1] = b->mode[m].rows_hash;
    }
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, told, 2 * b->order, err);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        b->mode[m].rows_bytes = told[2 * m];
        b->mode[m].rows_hash = told[2 * m + 1];
    }
    return rc;
}

/* ------------------------------------------------------------------ what each rank has read */

int ts_build_ranks_keep(struct ts_build *b, int last_time, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    const uint64_t *rec = ts_collect_settle(c, ts_build_other_area(b, c->array), b->memory.threads);
    struct ts_spool *last = b->n_kept > 0 ? &b->kept[b->n_kept - 1] : NULL;
    int rc = 0;
    if (c->n == 0)
        return 0;
    if (last == NULL || memcmp(&last->layout, &c->layout, sizeof c->layout) != 0) {
        struct ts_spool *more = realloc(b->kept, (b->n_kept + UINT64_C(1)) * sizeof *more);
        if (more == NULL)
            return ts_build_comm_no_memory(err);
        b->kept = more;
        last = &more[b->n_kept];
        rc = ts_spool_file(last, &c->layout, b->tmp, &b->rooms, err);
        b->n_kept += rc == 0;
    }
    for (uint32_t i = 0; i < 2 && rc == 0 && last_time; i++)
        if (b->area[i] == rec && ts_spool_adopt(last, &b->area[i], c->n))
            return 0;
    return rc == 0 ? ts_spool_append(last, rec, c->n, err) : rc;
}

void ts_build_ranks_drop(struct ts_build *b)
{
    for (uint32_t i = 0; i < b->n_kept; i++)
        ts_spool_close(&b->kept[i]);
    free(b->kept);
    b->kept = NULL;
    b->n_kept = 0;
}

int ts_build_ranks_read(struct ts_build *b, int rc, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    uint64_t count[4] = { c->n_read, c->n_zeros, c->n_rounded, c->n_missing };
    uint32_t width[TS_RECORD_FIELDS] = { 0 };
    if (!ts_build_comm_many(&b->ranks))
        return rc;
    if (rc == 0 && c->n > 0)
        rc = ts_build_ranks_keep(b, 1, err);
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, count, 4, err);
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_MAX, c->max, b->order, err);
    c->n_read = count[0];
    c->n_zeros = count[1];
    c->n_rounded = count[2];
    /* 0 (not known), because a rank counts lines from the start of its part of the file */
    c->rounded_line = 0;
    c->n_missing = count[3];
    for (uint32_t m = 0; m < b->order; m++)
        width[m] = ts_record_width(c->max[m]);
    width[b->order] = ts_build_value_bits(b);
    if (rc == 0)
        ts_record_layout_set(&c->layout, b->order + 1, width);
    return rc;
}

/* ------------------------------------------------------------------ joining counts of all ranks */

typedef void fold_fn(void *own, const void *other, uint64_t bytes);

/* Combines the data `own` of all ranks by `take`, and copies the result to `own` of all ranks. Rank
 * 0 calls `take` with the data of each other rank, which it receives in `other`. */
static int fold(struct ts_build *b, void *own, void *other, uint64_t bytes, fold_fn *take,
                struct ts_err *err)
{
    struct ts_comm *c = b->ranks.comm;
    uint64_t *none = ts_build_comm_places(c, c->n + 1, 0),
             *some = ts_build_comm_places(c, 0, bytes);
    int rc = ts_build_comm_agree(
        &b->ranks, none == NULL || some == NULL ? ts_build_comm_no_memory(err) : 0, err);
    for (uint32_t r = 1; r < c->n && rc == 0; r++) {
        if (c->rank == 0) { /* `some`: offsets at which rank 0 receives the bytes of rank r */
            for (uint32_t q = 0; q <= c->n; q++)
                some[q] = q > r ? bytes : 0;
            rc = ts_build_comm_deal(&b->ranks, own, none, other, some, err);
            take(own, other, bytes);
        } else {
            rc = ts_build_comm_deal(&b->ranks, own, c->rank == r ? some : none, other, none, err);
        }
    }
    free(none);
    free(some);
    return rc == 0 ? ts_build_comm_tell(&b->ranks, rc, own, bytes, err) : rc;
}

static void take_fibres(void *own, const void *other, uint64_t bytes)
{
    (void)bytes;
    ts_fibres_merge(own, other);
}

static void take_values(void *own, const void *other, uint64_t bytes)
{
    (void)bytes;
    ts_value_table_merge(own, other);
}

/* Combines the bitmaps of used slices of all ranks by OR. To divide the work equally, each rank
 * combines the bits of one range of words, and then all ranks gather all ranges. */
static int fold_bits(struct ts_build *b, uint64_t *bits, uint64_t n_words, uint64_t *others,
                     uint64_t *part, uint64_t *got, struct ts_err *err)
{
    struct ts_comm *c = b->ranks.comm;
    const uint64_t first = n_words * c->rank / c->n;
    const uint64_t n_own = n_words * (c->rank + UINT64_C(1)) / c->n - first;
    int rc;
    for (uint32_t r = 0; r <= c->n; r++) {
        part[r] = n_words * r / c->n * sizeof *bits;
        got[r] = r * n_own * sizeof *bits;
    }
    rc = ts_build_comm_deal(&b->ranks, bits, part, others, got, err);
    for (uint32_t r = 0; r < c->n && rc == 0; r++)
        for (uint64_t i = 0; i < n_own; i++)
            bits[first + i] |= others[r * n_own + i];
    return rc == 0 ? ts_build_comm_gather(&b->ranks, bits, part, err) : rc;
}

static int fold_slices(struct ts_build *b, struct ts_err *err)
{
    const uint32_t n = b->ranks.comm->n;
    const uint64_t most = FOLD_BYTES / sizeof(uint64_t);
    uint64_t *others = malloc((most + n) * sizeof *others);
    uint64_t *part = malloc(2 * (n + UINT64_C(1)) * sizeof *part);
    int rc = ts_build_comm_agree(
        &b->ranks, others == NULL || part == NULL ? ts_build_comm_no_memory(err) : 0, err);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        struct ts_slices *s = &b->merge.slices[m];
        const uint64_t all = (s->dim + 63) / 64;
        for (uint64_t at = 0; at < all && rc == 0; at += most)
            rc = fold_bits(b, s->bitmap + at, all - at < most ? all - at : most, others, part,
                           part + n + 1, err);
        if (rc == 0)
            ts_slices_count(s);
    }
    free(others);
    free(part);
    return rc;
}

int ts_build_ranks_count(struct ts_build *b, int rc, struct ts_err *err)
{
    struct ts_merge *g = &b->merge;
    uint64_t count[5] = { g->nnz, g->n_duplicates, g->n_zeros, b->report->n_runs,
                          g->account[0].n_rounded };
    struct ts_value_table *values = NULL;
    struct ts_fibres *fibres = NULL;
    if (!ts_build_comm_many(&b->ranks))
        return rc;
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, count, 5, err);
    if (rc < 0)
        return rc;
    g->nnz = count[0];
    g->n_duplicates = count[1];
    g->n_zeros = count[2];
    b->report->n_runs = count[3];
    g->account[0].n_rounded = count[4];
    fibres = malloc(sizeof *fibres);
    rc = fibres == NULL ? ts_build_comm_no_memory(err)
                        : ts_value_table_new(b->o->value_bytes, &values, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    if (rc == 0)
        rc = fold_slices(b, err);
    if (rc == 0)
        rc = fold(b, &g->fibres[0], fibres, sizeof *fibres, take_fibres, err);
    if (rc == 0)
        rc = fold(b, g->values[0], values, ts_value_table_size(), take_values, err);
    ts_value_table_free(values);
    free(fibres);
    return rc;
}
