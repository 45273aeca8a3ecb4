/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the copy of the nonzeros for one mode into records, and sorts them some slices at a time or
 * through runs. */
#include "build/sort/reorder.h"

#include <inttypes.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "build/sort/extsort.h"
#include "build/sort/record_sort.h"
#include "format/shard.h"

/* least words of an area of memory for records, except in tests */
#define LEAST_WORDS (UINT64_C(1) << 16)

struct reorder {
    const struct ts_reorder_conf *conf;
    const struct ts_tensor *t;
    const struct ts_mode *m; /* the mode whose copy is read */
    struct ts_record_layout layout;
    uint32_t key_bits;
    uint64_t *area[2], area_words;
    /* numbers of records: the most in an area, those now in area[0], those read so far */
    uint64_t room, held, read;
    int whole_slices; /* 1: each slice fits in an area */
    /* sorted runs of records in a file, if some slice does not fit in an area */
    struct ts_extsort *runs;
    void **raw; /* for each thread, memory for a shard */
};

int ts_reorder_sorted(const struct ts_tensor *t, const uint8_t by[])
{
    return memcmp(t->mode[by[0]].disk.level, by, t->order) == 0;
}

static void choose_layout(const struct ts_tensor *t, const uint8_t by[], struct ts_record_layout *l)
{
    uint32_t width[TS_RECORD_FIELDS];
    for (uint32_t f = 0; f < t->order; f++)
        width[f] = ts_record_width(t->mode[by[f]].disk.n_rows - 1);
    width[t->order] = 32 * ts_header_codes(&t->header);
    if (t->header.value_kind == TS_VALUE_DICT && !ts_tensor_weighted(t))
        width[t->order] = ts_record_width(t->header.n_dict - 1);
    if (t->header.value_kind == TS_VALUE_INT &&
        !ts_tensor_weighted(t)) /* put_block checks that each value fits */
        width[t->order] = ts_record_width((uint32_t)(t->header.value_max - t->header.value_base));
    ts_record_layout_set(l, t->order + 1, width);
}

static uint64_t sort_bytes(uint32_t threads)
{
    return threads * TS_RECORD_SORT_THREAD_BYTES + TS_RECORD_SORT_BYTES + TS_EXTSORT_BYTES;
}

/* Returns the memory for reading shards. Decompression with LZ4 needs twice the size of the
 * shard. */
static uint64_t read_bytes(const struct ts_tensor *t, uint32_t threads)
{
    return 2 * (uint64_t)threads * ts_tensor_raw_bytes(t);
}

uint64_t ts_reorder_least(const struct ts_tensor *t, uint32_t threads)
{
    return sort_bytes(threads) + read_bytes(t, threads) + 2 * LEAST_WORDS * sizeof(uint64_t);
}

uint64_t ts_reorder_most(const struct ts_tensor *t, uint32_t threads)
{
    struct ts_record_layout l;
    uint8_t by[TS_MAX_ORDER];
    for (uint32_t m = 0; m < t->order; m++)
        by[m] = (uint8_t)m;
    choose_layout(t, by, &l);
    return ts_reorder_least(t, threads) + 2 * t->nnz * l.words * sizeof(uint64_t);
}

/* ------------------------------------------------------------------ passing records to fn */

static int give(struct reorder *r, const uint64_t *rec, uint64_t n, struct ts_err *err)
{
    /* a sort that was stopped leaves undefined records */
    const int rc = ts_stop_check(r->conf->stop, err);
    return rc < 0 || n == 0 ? rc : r->conf->fn(r->conf->arg, &r->layout, rec, n, err);
}

/* Returns the number of records in area[0] before the last slice, which may be incomplete. */
static uint64_t whole_slices(const struct reorder *r)
{
    const uint32_t words = r->layout.words;
    const uint64_t last = ts_record_get(&r->layout, r->area[0] + (r->held - 1) * words, 0);
    uint64_t low = 0, high = r->held;
    while (low < high) {
        const uint64_t mid = (low + high) / 2;
        if (ts_record_get(&r->layout, r->area[0] + mid * words, 0) < last)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Sorts the complete slices in area[0] and passes their records to fn. last 1: all slices are
 * complete, because all nonzeros were read. */
static int give_slices(struct reorder *r, int last, struct ts_err *err)
{
    const uint32_t words = r->layout.words;
    const uint64_t n = last ? r->held : whole_slices(r), left = r->held - n;
    int rc;
    if (n == 0 && !last)
        return ts_fail(err, TS_EFORMAT,
                       "%s: a slice has more than the %" PRIu64 " nonzeros that the index says",
                       r->m->shards_path, r->m->disk.largest_slice);
    rc = give(r,
              ts_record_sort(r->area[0], r->area[1], n, words, r->key_bits, r->layout.bits,
                             r->conf->threads, r->conf->stop, NULL),
              n, err);
    memmove(r->area[0], r->area[0] + n * words, left * words * sizeof *r->area[0]);
    r->held = left;
    return rc;
}

/* Sorts the records of area[0] and moves them to a run. last 1: all records were read, so it passes
 * all of them to fn, in order. */
static int drain_to_runs(struct reorder *r, int last, struct ts_err *err)
{
    const struct ts_extsort_area area = {
        &r->layout, r->key_bits, { r->area[0], r->area[1] }, r->area_words, r->held
    };
    int rc = r->runs != NULL ? 0
                             : ts_extsort_new(r->conf->tmp, r->conf->threads, r->conf->stop, NULL,
                                              &r->runs, err);
    if (rc == 0)
        rc = last ? ts_extsort_end(r->runs, &area, err) : ts_extsort_add(r->runs, &area, err);
    r->held = 0;
    if (r->conf->progress != NULL)
        r->conf->progress(r->conf->arg, r->read);
    while (rc == 0 && last) {
        uint64_t *rec, n;
        rc = ts_extsort_next(r->runs, &rec, &n, err);
        if (rc < 0 || n == 0)
            break;
        rc = give(r, rec, n, err);
    }
    return rc;
}

/* Makes space in area[0]. last 1: all nonzeros were read, so it passes all records to fn. */
static int drain(struct reorder *r, int last, struct ts_err *err)
{
    return r->whole_slices ? give_slices(r, last, err) : drain_to_runs(r, last, err);
}

/* ------------------------------------------------------------------ reading shards */

/* Converts the nonzeros of a block to records. */
static int put_block(const struct reorder *r, const struct ts_block *b, uint64_t *rec,
                     struct ts_err *err)
{
    const uint32_t order = r->t->order, n_codes = ts_header_codes(&r->t->header);
    const uint32_t width = r->layout.width[order];
    uint64_t column[TS_BLOCK_NNZ], most = 0;
    uint32_t level_of[TS_MAX_ORDER];
    for (uint32_t l = 0; l < order; l++)
        level_of[r->m->disk.level[l]] = l;
    memset(rec, 0, (size_t)b->n * r->layout.words * sizeof *rec);
    for (uint32_t f = 0; f < order; f++) {
        const uint32_t *row = b->level[level_of[r->conf->by[f]]];
        for (uint32_t p = 0; p < b->n; p++)
            column[p] = row[p];
        ts_record_put_column(&r->layout, rec, b->n, f, column, 1);
    }
    if (n_codes == 0)
        return 0;
    for (uint32_t p = 0; p < b->n; p++) {
        column[p] = n_codes == 2 ? (uint64_t)b->code[0][p] << 32 | b->code[1][p] : b->code[0][p];
        most |= column[p];
    }
    if (width < 64 && most >> width != 0)
        return ts_fail(err, TS_EFORMAT, "%s: a value is beyond the largest one that the index says",
                       r->m->shards_path);
    ts_record_put_column(&r->layout, rec, b->n, order, column, 1);
    return 0;
}

/* The failure of the first shard or block, by its number, that any thread could not read. */
struct failure {
    int rc;
    uint64_t shard;
    struct ts_err err;
};

static void note_failure(struct failure *f, int rc, uint64_t shard, const struct ts_err *err)
{
#pragma omp critical(reorder_failure)
    if (f->rc == 0 || shard < f->shard) {
        f->err = *err;
        f->shard = shard;
        f->rc = rc;
    }
}

static int take_failure(const struct failure *f, struct ts_err *err)
{
    if (f->rc < 0 && err != NULL)
        *err = f->err;
    return f->rc;
}

/* Reads shards [first, first + n), each by a thread of its own. */
static int read_shards(struct reorder *r, uint64_t first, uint32_t n, struct ts_err *err)
{
    struct failure f = { 0 };
#pragma omp parallel for schedule(static, 1) num_threads(r->conf->threads)
    for (uint32_t i = 0; i < n; i++) {
        struct ts_err why;
        const int rc = ts_tensor_read_shard(r->t, r->conf->by[0], first + i, r->raw[i], &why);
        if (rc < 0)
            note_failure(&f, rc, first + i, &why);
    }
    return take_failure(&f, err);
}

/* Appends the records of blocks [b, b + n) of a shard to area[0]. */
static int take_blocks(struct reorder *r, uint64_t shard, const void *raw, uint32_t b, uint32_t n,
                       struct ts_err *err)
{
    uint64_t *to = r->area[0] + r->held * r->layout.words;
    struct failure f = { 0 };
#pragma omp parallel for schedule(dynamic, 8) num_threads(r->conf->threads)
    for (uint32_t i = 0; i < n; i++) {
        struct ts_block block;
        struct ts_err why;
        int rc = ts_tensor_block(r->t, r->conf->by[0], shard, raw, b + i, &block, &why);
        if (rc == 0)
            rc = put_block(r, &block, to + (uint64_t)i * TS_BLOCK_NNZ * r->layout.words, &why);
        if (rc < 0)
            note_failure(&f, rc, b + i, &why);
    }
    return take_failure(&f, err);
}

static int take_shard(struct reorder *r, uint64_t shard, const void *raw, struct ts_err *err)
{
    const struct ts_disk_shard *s = &r->m->shard[shard];
    int rc = 0;
    for (uint32_t b = 0, n; b < s->n_blocks && rc == 0; b += n) {
        uint64_t nnz = (r->room - r->held) / TS_BLOCK_NNZ * TS_BLOCK_NNZ;
        const uint64_t left = s->nnz - (uint64_t)b * TS_BLOCK_NNZ;
        nnz = nnz < left ? nnz : left;
        n = (uint32_t)((nnz + TS_BLOCK_NNZ - 1) / TS_BLOCK_NNZ);
        rc = n == 0 ? drain(r, 0, err) : take_blocks(r, shard, raw, b, n, err);
        if (n > 0) {
            r->held += nnz;
            r->read += nnz;
        }
    }
    return rc;
}

static int take_all(struct reorder *r, struct ts_err *err)
{
    const uint64_t n_shards = r->m->disk.n_shards;
    int rc = 0;
    for (uint64_t first = 0; first < n_shards && rc == 0; first += r->conf->threads) {
        const uint64_t left = n_shards - first;
        const uint32_t n = left < r->conf->threads ? (uint32_t)left : r->conf->threads;
        rc = ts_stop_check(r->conf->stop, err);
        if (rc == 0)
            rc = read_shards(r, first, n, err);
        for (uint32_t i = 0; i < n && rc == 0; i++)
            rc = take_shard(r, first + i, r->raw[i], err);
    }
    return rc == 0 ? drain(r, 1, err) : rc;
}

/* ------------------------------------------------------------------ sorting a whole tensor */

static int get_memory(struct reorder *r, struct ts_err *err)
{
    const uint32_t words = r->layout.words;
    const uint64_t fixed = sort_bytes(r->conf->threads) + read_bytes(r->t, r->conf->threads);
    const uint64_t all = (r->t->nnz + TS_BLOCK_NNZ) * words;
    uint64_t area = r->conf->memory > fixed ? (r->conf->memory - fixed) / 16 : 0;
    area = area < LEAST_WORDS ? LEAST_WORDS : area;
    area = area < all ? area : all;
    if (r->conf->area_words > 0)
        area = r->conf->area_words;
    r->area_words = area;
    r->room = area / words;
    /* area[0] must hold the largest slice, and a block with the start of the next slice */
    r->whole_slices = r->t->nnz + TS_BLOCK_NNZ <= r->room ||
                      r->m->disk.largest_slice + 2 * (uint64_t)TS_BLOCK_NNZ <= r->room;
    r->area[0] = malloc(area * sizeof *r->area[0]);
    r->area[1] = malloc(area * sizeof *r->area[1]);
    r->raw = calloc(r->conf->threads, sizeof *r->raw);
    for (uint32_t i = 0; r->raw != NULL && i < r->conf->threads; i++) {
        r->raw[i] = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(r->t));
        if (r->raw[i] == NULL)
            return ts_fail(err, TS_ENOMEM, "no memory for a shard of %" PRIu32 " bytes",
                           r->t->header.max_shard_bytes);
    }
    return r->area[0] == NULL || r->area[1] == NULL || r->raw == NULL
               ? ts_fail(err, TS_ENOMEM, "no memory for two areas of %" PRIu64 " bytes to sort in",
                         area * (uint64_t)sizeof *r->area[0])
               : 0;
}

int ts_reorder(const struct ts_reorder_conf *conf, struct ts_err *err)
{
    struct reorder r = { .conf = conf, .t = conf->tensor, .m = &conf->tensor->mode[conf->by[0]] };
    int rc;
    choose_layout(r.t, conf->by, &r.layout);
    r.key_bits = r.layout.bits - r.layout.width[r.layout.n_fields - 1];
    rc = get_memory(&r, err);
    if (rc == 0)
        rc = take_all(&r, err);
    ts_extsort_free(r.runs);
    free(r.area[0]);
    free(r.area[1]);
    for (uint32_t i = 0; r.raw != NULL && i < conf->threads; i++)
        free(r.raw[i]);
    free(r.raw);
    return rc;
}

void ts_reorder_block(const struct ts_record_layout *layout, const uint64_t *rec, uint32_t n,
                      struct ts_block *ret)
{
    const uint32_t order = layout->n_fields - 1;
    uint64_t column[TS_BLOCK_NNZ];
    ret->n = n;
    for (uint32_t f = 0; f < order; f++) {
        ts_record_column(layout, rec, n, f, column);
        for (uint32_t p = 0; p < n; p++)
            ret->level[f][p] = (uint32_t)column[p];
    }
    ts_record_column(layout, rec, n, order, column);
    for (uint32_t p = 0; p < n; p++) {
        ret->code[0][p] = (uint32_t)(layout->width[order] > 32 ? column[p] >> 32 : column[p]);
        ret->code[1][p] = (uint32_t)column[p];
    }
}
