/* SPDX-License-Identifier: BSD-3-Clause */
/* build_gather.c - gathers the nonzeros of a source, which come in any order, and sorts them by
 * their indices in mode 1, then mode 2, and so on. Each full area (memory for records) is sorted.
 * If one area does not hold all nonzeros, the sorted areas become runs in a file. Nonzeros of one
 * cell are merged. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/setting.h"
#include "build/build_steps.h"
#include "build/ranks/build_ranks.h"

/* Converts all collected records to the layout that holds the largest indices. Returns them as the
 * input of the sort. */
static struct ts_extsort_area settle_collected(struct ts_build *b)
{
    struct ts_collect *c = &b->collect;
    uint64_t *rec = ts_collect_settle(c, ts_build_other_area(b, c->array), b->memory.threads);
    return (struct ts_extsort_area){ &c->layout,
                                     ts_build_key_bits(&c->layout),
                                     { rec, ts_build_other_area(b, rec) },
                                     b->area_words,
                                     c->n };
}

static int new_sort(struct ts_build *b, struct ts_err *err)
{
    return b->runs != NULL
               ? 0
               : ts_extsort_new(b->tmp, b->memory.threads, b->o->stop, b->work, &b->runs, err);
}

static int spill_collected(struct ts_build *b, struct ts_err *err)
{
    struct ts_extsort_area area;
    int rc;
    if (ts_build_comm_many(&b->ranks))
        return ts_build_ranks_keep(b, 0, err);
    area = settle_collected(b);
    rc = new_sort(b, err);
    return rc < 0 ? rc : ts_extsort_add(b->runs, &area, err);
}

int ts_build_gather(struct ts_build *b, const struct ts_source *source, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    ts_build_phase_begin(b, TS_BUILD_READING, 0);
    for (;;) {
        struct ts_err why;
        uint64_t done = 0, total = 0;
        int rc = ts_collect_wait(c, err), stop;
        if (rc <= 0)
            return rc;
        source->progress(source->self, &done, &total);
        stop = ts_build_tell(b, "reading", source->unit, done, total, &why);
        if (stop == 0)
            stop = ts_build_room_watch(b, rc == TS_COLLECT_FULL, done, total, &why);
        if (stop == 0 && rc == TS_COLLECT_FULL)
            stop = spill_collected(b, &why);
        if (stop < 0)
            ts_collect_cancel(c, &why);
        if (rc == TS_COLLECT_FULL)
            ts_collect_resume(c, b->area[0]);
    }
}

/* ------------------------------------------------------------------ merging nonzeros of a cell */

/* Chooses the modes whose slices are numbered by a bitmap, the smallest modes first. The slices of
 * other modes are numbered by a sort, with the same result. */
static void choose_bitmaps(const struct ts_build *b, uint64_t dim[])
{
    uint64_t left = b->memory.bitmap_bytes, size[TS_MAX_ORDER];
    memset(dim, 0, TS_MAX_ORDER * sizeof *dim);
    /* the bitmap of a mode of times begins at bin b->shift[m] */
    for (uint32_t m = 0; m < b->order; m++)
        size[m] = b->dim[m] - b->shift[m];
    for (;;) { /* picks the smallest mode that has no bitmap yet */
        uint32_t best = b->order;
        for (uint32_t m = 0; m < b->order; m++)
            if (dim[m] == 0 && (best == b->order || size[m] < size[best]))
                best = m;
        if (best == b->order || ts_slices_bytes(size[best]) > left)
            return;
        left -= ts_slices_bytes(size[best]);
        dim[best] = size[best];
    }
}

/* Merges the nonzeros of each cell if all records fit in one area. The result stays in the area in
 * which they were sorted. */
static int merge_in_memory(struct ts_build *b, struct ts_err *err)
{
    uint64_t before[TS_RECORD_WORDS], n, n_before;
    int rc = ts_extsort_next(b->runs, &b->spool.mem, &n, err);
    b->spool.layout = b->collect.layout;
    if (rc < 0)
        return rc;
    b->gaps = 1;
    return ts_merge_add(&b->merge, b->spool.mem, n, 1, before, &n_before, &b->spool.n, err);
}

static int merge_runs(struct ts_build *b, struct ts_err *err)
{
    const struct ts_collect *c = &b->collect;
    const uint64_t total = c->n_read - c->n_zeros;
    uint64_t done = 0;
    int rc = ts_spool_file(&b->spool, &c->layout, b->tmp, &b->rooms, err);
    while (rc == 0) {
        uint64_t *rec, before[TS_RECORD_WORDS], n, n_before, kept;
        rc = ts_extsort_next(b->runs, &rec, &n, err);
        if (rc < 0 || n == 0)
            break;
        done += n;
        rc = ts_merge_add(&b->merge, rec, n, ts_extsort_at_end(b->runs), before, &n_before, &kept,
                          err);
        if (rc == 0 && n_before > 0)
            rc = ts_spool_append(&b->spool, before, 1, err);
        for (uint32_t t = 0; t < b->memory.merge_threads && rc == 0; t++)
            rc = ts_spool_append(&b->spool, rec + b->merge.piece[t].first * c->layout.words,
                                 b->merge.piece[t].n, err);
        if (rc == 0)
            rc = ts_build_tell(b, "merging", "nonzeros", done, total, err);
    }
    return rc;
}

/* Sorts and merges all cells, if there is one process. */
static int merge_alone(struct ts_build *b, struct ts_err *err)
{
    const struct ts_extsort_area area = settle_collected(b);
    int rc = new_sort(b, err);
    if (rc == 0)
        rc = ts_extsort_end(b->runs, &area, err);
    if (rc == 0) {
        b->report->n_runs = ts_extsort_runs(b->runs);
        rc = b->report->n_runs > 0 ? merge_runs(b, err) : merge_in_memory(b, err);
    }
    ts_extsort_free(b->runs);
    b->runs = NULL;
    return rc;
}

/* Lets the spool (the list of all merged records) keep the area that holds them, if all are in it
 * and the other area is free. Returns whether it does. */
static int stays(struct ts_build *b, uint64_t *rec, uint64_t kept)
{
    const uint32_t words = b->collect.layout.words, area = b->area[1] == rec;
    uint64_t at = 0;
    if (b->spare.bytes == 0 || rec != ts_build_other_area(b, b->spare.mem) ||
        !ts_spool_adopt(&b->spool, &b->area[area], kept))
        return 0;
    for (uint32_t t = 0; t < b->memory.merge_threads; t++) {
        const struct ts_merge_piece *p = &b->merge.piece[t];
        if (p->first != at)
            memmove(rec + at * words, rec + p->first * words, p->n * words * sizeof *rec);
        at += p->n;
    }
    return 1;
}

/* Merges the nonzeros of each cell among the next n sorted records, and appends the result to
 * b->spool, the list of all merged records. n 0: all records were passed. */
static int merge_records(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    struct ts_build *b = arg;
    const uint32_t words = b->collect.layout.words;
    uint64_t before[TS_RECORD_WORDS], n_before, kept;
    int rc = ts_merge_add(&b->merge, rec, n, n == 0, before, &n_before, &kept, err);
    if (rc == 0 && n_before == 0 && kept > 0 && b->spool.n == 0 && stays(b, rec, kept))
        return 0;
    if (rc == 0 && n_before > 0)
        rc = ts_spool_append(&b->spool, before, 1, err);
    for (uint32_t t = 0; t < b->memory.merge_threads && rc == 0 && kept > 0; t++)
        rc = ts_spool_append(&b->spool, rec + b->merge.piece[t].first * words, b->merge.piece[t].n,
                             err);
    return rc;
}

/* With several ranks: sorts and merges the nonzeros of the range of cells that this rank has. */
static int merge_ranks(struct ts_build *b, struct ts_err *err)
{
    const struct ts_record_layout *l = &b->collect.layout;
    uint8_t same[TS_RECORD_FIELDS];
    const struct ts_build_ranks_sort s = { .sort = { .to = l,
                                                     .source = same,
                                                     .direct_bits = ts_build_key_bits(l),
                                                     .consume = merge_records,
                                                     .arg = b,
                                                     .what = "merging" },
                                           .from = b->kept,
                                           .n_from = b->n_kept };
    int rc = 0;
    for (uint32_t f = 0; f < TS_RECORD_FIELDS; f++)
        same[f] = (uint8_t)f;
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        if (b->merge.slices[m].bitmap == NULL)
            rc = ts_fail(err, TS_EARG,
                         "%s: " TS_NTH_MODE " has %" PRIu64
                         " indices, more than several processes number "
                         "within this memory: give them more with " TS_SET_MEMORY
                         ", or build it with one process",
                         b->o->out, m + 1, b->dim[m] - b->shift[m]);
    if (rc == 0)
        rc = ts_spool_file(&b->spool, l, b->tmp, &b->rooms, err);
    rc = ts_build_ranks_sort(b, rc, &s, err);
    if (rc == 0)
        rc = merge_records(b, b->area[0], 0, err);
    ts_build_ranks_drop(b);
    return rc;
}

/* Fails with a message that says why the input has no nonzero. */
static int nothing_left(const struct ts_build *b, struct ts_err *err)
{
    const uint64_t n_missing = b->collect.n_missing;
    char left_out[80] = "";
    if (n_missing > 0)
        snprintf(left_out, sizeof left_out, "%" PRIu64 " line%s with a missing field left out",
                 n_missing, ts_num_plural(n_missing));
    if (b->collect.n_read == 0 && n_missing > 0)
        return ts_fail(err, TS_EFORMAT, "no nonzeros to build %s from: %s", b->o->out, left_out);
    return ts_fail(err, TS_EFORMAT,
                   "no nonzeros to build %s from: %" PRIu64 " read, %" PRIu64 " of them zero%s%s%s",
                   b->o->out, b->collect.n_read, b->collect.n_zeros + b->merge.n_zeros,
                   n_missing > 0 ? ", " : "", left_out,
                   b->paths != NULL && b->collect.n_zeros == b->collect.n_read
                       ? " (if the last column is no value, as in lists of events, " TS_SET_COLUMNS
                         " names the columns of modes, and " TS_SET_VALUE " none counts lines)"
                       : "");
}

int ts_build_gather_merge(struct ts_build *b, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    uint64_t dim[TS_MAX_ORDER];
    int rc;
    /* If there are sorted runs, the last run must still be sorted. The count of work grows by 2 for
     * each record that is sorted, and by 1 for each that is merged. */
    ts_build_phase_begin(b, TS_BUILD_MERGING,
                         3 * (c->n_read - c->n_zeros) + (b->runs != NULL ? 2 * c->n : 0));
    rc = ts_build_tell(b, "merging", "nonzeros", 0, c->n_read - c->n_zeros, err);
    if (rc < 0)
        return rc;
    choose_bitmaps(b, dim);
    rc = ts_merge_init(&b->merge, &c->layout, b->order, b->o->value_bytes, b->o->duplicates, dim,
                       b->memory.merge_threads, err);
    if (rc < 0)
        return rc;
    b->merge.stop = b->o->stop;
    b->merge.work = b->work;
    b->merge.transform = b->o->transform;
    b->merge.zeros = b->o->zeros;
    b->merge.weights = b->o->weights;
    memcpy(b->merge.shift, b->shift, sizeof b->merge.shift);
    for (uint32_t m = 0; m < b->order; m++)
        b->merge.slices[m].first = b->shift[m];
    rc = ts_build_comm_many(&b->ranks) ? merge_ranks(b, err) : merge_alone(b, err);
    if (rc == 0)
        rc = ts_build_check_stop(b, err);
    if (rc == 0)
        ts_merge_finish(&b->merge);
    rc = ts_build_sums_merged(b, rc, err);
    rc = ts_build_ranks_count(b, rc, err);
    if (rc < 0)
        return rc;
    if (b->merge.nnz == 0)
        return nothing_left(b, err);
    if (b->merge.nnz > TS_MAX_NNZ)
        return ts_fail(err, TS_ELIMIT, "%" PRIu64 " nonzeros; at most 2^40 are possible",
                       b->merge.nnz);
    return 0;
}
