/* SPDX-License-Identifier: BSD-3-Clause */
/* build_gather.c - gathers the nonzeros of a source, which come in any order, and sorts them in
 * the order of the modes: one area at a time, in sorted runs when one area does not hold all.
 * Nonzeros of one cell are merged. */
#include <inttypes.h>
#include <string.h>

#include "build/build_impl.h"
#include "build/record_sort.h"

/* Sorts the collected records and returns the array that has them. */
static uint64_t *sort_collected(struct ts_build *b)
{
    struct ts_collect *c = &b->collect;
    uint64_t *rec = ts_collect_settle(c, ts_build_other_area(b, c->array), b->memory.threads);
    return ts_record_sort(rec, ts_build_other_area(b, rec), c->n, c->layout.words,
                          ts_build_key_bits(&c->layout), c->layout.bits, b->memory.threads,
                          b->o->stop);
}

static int spill_collected(struct ts_build *b, struct ts_err *err)
{
    uint64_t *rec = sort_collected(b);
    int rc = 0;
    if (b->runs == NULL)
        rc = ts_extsort_new(b->tmp, b->memory.threads, b->o->stop, &b->runs, err);
    if (rc == 0)
        rc = ts_extsort_spill(b->runs, &b->collect.layout, rec, b->collect.n, err);
    return rc;
}

int ts_build_gather(struct ts_build *b, const struct ts_source *source, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    b->phase = TS_BUILD_READING;
    for (;;) {
        struct ts_err why;
        uint64_t done = 0, total = 0;
        int rc = ts_collect_wait(c, err), stop;
        if (rc <= 0)
            return rc;
        source->progress(source->self, &done, &total);
        stop = ts_build_tell(b, "reading", source->unit, done, total, &why);
        if (stop == 0 && rc == TS_COLLECT_FULL)
            stop = spill_collected(b, &why);
        if (stop < 0)
            ts_collect_cancel(c, &why);
        if (rc == TS_COLLECT_FULL)
            ts_collect_resume(c, b->area[0]);
    }
}

/* ------------------------------------------------------------------ merging */

/* Chooses the modes that get a bitmap, the smallest first. The others are numbered by a sort, with
 * the same result. */
static void choose_bitmaps(const struct ts_build *b, uint64_t dim[])
{
    uint64_t left = b->memory.bitmap_bytes;
    memset(dim, 0, TS_MAX_ORDER * sizeof *dim);
    for (;;) { /* takes the smallest mode of those left */
        uint32_t best = b->order;
        for (uint32_t m = 0; m < b->order; m++)
            if (dim[m] == 0 && (best == b->order || b->dim[m] < b->dim[best]))
                best = m;
        if (best == b->order || ts_slices_bytes(b->dim[best]) > left)
            return;
        left -= ts_slices_bytes(b->dim[best]);
        dim[best] = b->dim[best];
    }
}

static int merge_runs(struct ts_build *b, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    uint64_t total = 0, done = 0;
    int rc = c->n > 0 ? spill_collected(b, err) : 0;
    if (rc == 0)
        rc = ts_spool_file(&b->spool, &c->layout, b->tmp, err);
    if (rc == 0)
        rc = ts_extsort_begin(b->runs, &c->layout, ts_build_key_bits(&c->layout), b->area,
                              b->area_words, err);
    total = c->n_read - c->n_zeros;
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
    b->report->n_runs = ts_extsort_runs(b->runs);
    ts_extsort_free(b->runs);
    b->runs = NULL;
    return rc;
}

int ts_build_gather_merge(struct ts_build *b, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    uint64_t dim[TS_MAX_ORDER];
    int rc;
    b->phase = TS_BUILD_MERGING;
    rc = ts_build_tell(b, "merging", "nonzeros", 0, c->n_read - c->n_zeros, err);
    if (rc < 0)
        return rc;
    choose_bitmaps(b, dim);
    rc = ts_merge_init(&b->merge, &c->layout, b->order, b->o->value_bytes, b->o->duplicates, dim,
                       b->memory.merge_threads, err);
    if (rc < 0)
        return rc;
    b->merge.stop = b->o->stop;
    b->merge.transform = b->o->transform;
    b->merge.zeros = b->o->zeros;
    if (b->runs != NULL) {
        rc = merge_runs(b, err);
    } else {
        uint64_t n_before, kept;
        uint64_t before[TS_RECORD_WORDS];
        b->spool.mem = sort_collected(b);
        b->spool.layout = c->layout;
        rc = ts_build_check_stop(b, err);
        if (rc < 0)
            return rc;
        rc = ts_merge_add(&b->merge, b->spool.mem, c->n, 1, before, &n_before, &kept, err);
        b->spool.n = kept;
        b->gaps = 1;
    }
    if (rc == 0)
        rc = ts_build_check_stop(b, err);
    if (rc < 0)
        return rc;
    ts_merge_finish(&b->merge);
    if (b->merge.nnz == 0)
        return ts_fail(err, TS_EFORMAT,
                       "no nonzeros to build %s from: %" PRIu64 " read, %" PRIu64 " of them zero",
                       b->o->out, c->n_read, c->n_zeros + b->merge.n_zeros);
    if (b->merge.nnz > TS_MAX_NNZ)
        return ts_fail(err, TS_ELIMIT, "%" PRIu64 " nonzeros; at most 2^40 are possible",
                       b->merge.nnz);
    return 0;
}
