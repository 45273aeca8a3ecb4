#include "format/build.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bigmem.h"
#include "base/clock.h"
#include "format/build_dir.h"
#include "format/build_index.h"
#include "format/collect.h"
#include "format/extsort.h"
#include "format/label_write.h"
#include "format/level_order.h"
#include "format/merge.h"
#include "format/mode_writer.h"
#include "format/record_sort.h"
#include "format/rows_write.h"
#include "format/spool.h"
#include "format/synth_source.h"
#include "format/text_source.h"

#define N_AREAS 3u
#define BITMAP_BYTES (UINT64_C(16) << 20) /* of all modes; larger modes are numbered by a sort */
#define CONVERT_PIECE UINT64_C(32768)     /* records that a thread converts at a time */
#define READ_PIECE UINT64_C(262144)       /* records read from a spool at a time, at most */

struct build {
    const struct ts_build_options *o;
    struct ts_build_report *report;
    char *tmp; /* directory for temporary files */
    uint32_t order, merge_threads;
    struct ts_build_dir *dir;

    void *area_mem;
    size_t area_bytes;
    uint64_t *area[N_AREAS], area_words;

    struct ts_collect collect;
    struct ts_extsort *runs; /* of the input, when it does not fit */
    struct ts_merge merge;
    struct ts_spool spool;   /* all nonzeros, merged */
    int mapped[TS_MAX_ORDER]; /* the field holds compact rows already */
    uint64_t dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    struct ts_value_code *code;
    double sum_of_squares;
    struct ts_disk_mode mode[TS_MAX_ORDER];
    struct ts_disk_shard *shard[TS_MAX_ORDER];
    uint32_t max_raw_bytes;
};

/* Shows how far a step is, and finds out whether the user wants to stop. */
static int tell(const struct build *b, const char *what, const char *unit, uint64_t done,
                uint64_t total, struct ts_err *err)
{
    if (b->o->progress != NULL)
        b->o->progress(b->o->progress_arg, what, unit, done, total);
    if (b->o->stop != NULL && *b->o->stop)
        return ts_fail(err, TS_ESTOP, "%s: stopped; nothing was written", b->o->out);
    return 0;
}

/* ------------------------------------------------------------------ memory */

/* Memory is three equal areas for sorting, but for what buffers, tables and code take. */
static uint64_t choose_area_words(const struct ts_build_options *o)
{
    const uint64_t other = o->memory / 4 < (UINT64_C(64) << 20) ? o->memory / 4 : UINT64_C(64) << 20;
    const uint64_t words = o->area_words > 0 ? o->area_words : (o->memory - other) / N_AREAS / 8;
    return words / 512 * 512;
}

static int new_areas(struct build *b, struct ts_err *err)
{
    int rc;
    b->area_bytes = N_AREAS * b->area_words * 8;
    rc = ts_bigmem_new(b->area_bytes, "sorting", &b->area_mem, err);
    if (rc < 0)
        return rc;
    for (uint32_t k = 0; k < N_AREAS; k++)
        b->area[k] = (uint64_t *)b->area_mem + k * b->area_words;
    return 0;
}

/* The areas but the one that `used` is in (NULL: none); two of them. */
static void other_areas(const struct build *b, const uint64_t *used, uint64_t *ret[2])
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < N_AREAS && n < 2; k++)
        if (b->area[k] != used)
            ret[n++] = b->area[k];
}

/* Threads need some memory each. */
static uint32_t threads_for(const struct build *b, uint64_t bytes_each)
{
    const uint64_t n = b->o->memory / 4 / bytes_each;
    return n < 1 ? 1 : n < b->o->threads ? (uint32_t)n : b->o->threads;
}

/* ------------------------------------------------------------------ reading */

static uint32_t key_bits(const struct ts_record_layout *l)
{
    return l->bits - l->width[l->n_fields - 1];
}

/* Sorts what was collected; returns it. */
static uint64_t *sort_collected(struct build *b)
{
    struct ts_collect *c = &b->collect;
    uint64_t *rest[2], *rec;
    other_areas(b, c->array, rest);
    rec = ts_collect_settle(c, rest[0], b->o->threads);
    other_areas(b, rec, rest);
    return ts_record_sort(rec, rest[0], c->n, c->layout.words, key_bits(&c->layout),
                          c->layout.bits, b->o->threads);
}

static int spill_collected(struct build *b, struct ts_err *err)
{
    uint64_t *rec = sort_collected(b);
    int rc = 0;
    if (b->runs == NULL)
        rc = ts_extsort_new(b->tmp, b->o->threads, &b->runs, err);
    if (rc == 0)
        rc = ts_extsort_spill(b->runs, &b->collect.layout, rec, b->collect.n, err);
    return rc;
}

/* Serves the sources until they end. `position` tells how far they are. */
static int collect_all(struct build *b,
                       void (*position)(const void *source, uint64_t *done, uint64_t *total),
                       const void *source, const char *unit, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    for (;;) {
        struct ts_err why;
        uint64_t done = 0, total = 0;
        int rc = ts_collect_wait(c, err), stop;
        if (rc <= 0)
            return rc;
        position(source, &done, &total);
        stop = tell(b, "reading", unit, done, total, &why);
        if (stop == 0 && rc == TS_COLLECT_FULL)
            stop = spill_collected(b, &why);
        if (stop < 0)
            ts_collect_cancel(c, &why);
        if (rc == TS_COLLECT_FULL)
            ts_collect_resume(c, b->area[0]);
    }
}

/* ------------------------------------------------------------------ merging */

/* Modes small enough for a bitmap; the rule looks at the shape alone. */
static void choose_bitmaps(const struct build *b, uint64_t dim[])
{
    uint64_t left = BITMAP_BYTES;
    memset(dim, 0, TS_MAX_ORDER * sizeof *dim);
    for (;;) { /* the smallest of those left */
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

static int merge_runs(struct build *b, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    uint64_t *area[2] = { b->area[0], b->area[1] }, total = 0, done = 0;
    int rc = c->n > 0 ? spill_collected(b, err) : 0;
    if (rc == 0)
        rc = ts_spool_file(&b->spool, &c->layout, b->tmp, err);
    if (rc == 0)
        rc = ts_extsort_begin(b->runs, &c->layout, key_bits(&c->layout), area, b->area_words, err);
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
        if (rc == 0)
            rc = ts_spool_append(&b->spool, rec, kept, err);
        if (rc == 0)
            rc = tell(b, "merging", "nonzeros", done, total, err);
    }
    b->report->n_runs = ts_extsort_runs(b->runs);
    ts_extsort_free(b->runs);
    b->runs = NULL;
    return rc;
}

/* From what was collected to all nonzeros, each once, in the order of the modes. */
static int merge_collected(struct build *b, struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    uint64_t dim[TS_MAX_ORDER];
    int rc;
    choose_bitmaps(b, dim);
    rc = ts_merge_init(&b->merge, &c->layout, b->order, b->o->value_bytes, b->o->duplicates, dim,
                       b->merge_threads, err);
    if (rc < 0)
        return rc;
    if (b->runs != NULL) {
        rc = merge_runs(b, err);
    } else {
        uint64_t n_before, kept;
        uint64_t before[TS_RECORD_WORDS];
        b->spool.mem = sort_collected(b);
        b->spool.layout = c->layout;
        rc = ts_merge_add(&b->merge, b->spool.mem, c->n, 1, before, &n_before, &kept, err);
        b->spool.n = kept;
    }
    if (rc < 0)
        return rc;
    ts_merge_finish(&b->merge);
    if (b->merge.nnz == 0)
        return ts_fail(err, TS_EFORMAT, "no nonzeros to build %s from: %" PRIu64 " read, %" PRIu64
                       " of them zero", b->o->out, c->n_read, c->n_zeros + b->merge.n_zeros);
    if (b->merge.nnz > TS_MAX_NNZ)
        return ts_fail(err, TS_ELIMIT, "%" PRIu64 " nonzeros; at most 2^40 are possible",
                       b->merge.nnz);
    return 0;
}

/* ------------------------------------------------------------------ sorting the whole */

/* Takes the next n records, which it may overwrite. */
typedef int consume_fn(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err);

static void convert_parallel(const struct build *b, const struct ts_record_layout *from,
                             const uint64_t *in, const struct ts_record_layout *to,
                             const uint8_t source[], uint64_t *out, uint64_t n)
{
#pragma omp parallel for num_threads(b->o->threads) schedule(dynamic, 1)
    for (uint64_t first = 0; first < n; first += CONVERT_PIECE) {
        const uint64_t count = n - first < CONVERT_PIECE ? n - first : CONVERT_PIECE;
        ts_record_convert(from, in + first * from->words, to, source, out + first * to->words,
                          count);
    }
}

/* Sorts the spool's file through runs. */
static int sort_file(struct build *b, const struct ts_record_layout *to, const uint8_t source[],
                     uint32_t direct_bits, consume_fn *consume, void *arg, const char *what,
                     struct ts_err *err)
{
    const struct ts_record_layout *from = &b->spool.layout;
    const uint64_t room = b->area_words / to->words;
    uint64_t piece = b->area_words / from->words, filled = 0;
    struct ts_extsort *runs = NULL;
    int rc = ts_extsort_new(b->tmp, b->o->threads, &runs, err);
    piece = piece < READ_PIECE ? piece : READ_PIECE;
    piece = piece < room ? piece : room;
    for (uint64_t at = 0; at < b->spool.n && rc == 0;) {
        const uint64_t left = b->spool.n - at;
        const uint64_t n = left < piece ? left : piece;
        const uint64_t *in;
        if (filled + n > room) {
            uint64_t *sorted = ts_record_sort(b->area[0], b->area[1], filled, to->words,
                                              direct_bits, to->bits, b->o->threads);
            rc = ts_extsort_spill(runs, to, sorted, filled, err);
            filled = 0;
            continue;
        }
        rc = ts_spool_read(&b->spool, at, n, b->area[2], &in, err);
        if (rc < 0)
            break;
        convert_parallel(b, from, in, to, source, b->area[0] + filled * to->words, n);
        filled += n;
        at += n;
        rc = tell(b, what, "nonzeros", at / 2, b->spool.n, err);
    }
    if (rc == 0) {
        uint64_t *sorted = ts_record_sort(b->area[0], b->area[1], filled, to->words, direct_bits,
                                          to->bits, b->o->threads);
        if (ts_extsort_runs(runs) == 0) {
            rc = consume(arg, sorted, filled, err);
            ts_extsort_free(runs);
            return rc;
        }
        rc = ts_extsort_spill(runs, to, sorted, filled, err);
    }
    if (rc == 0)
        rc = ts_extsort_begin(runs, to, direct_bits, b->area, b->area_words, err);
    for (uint64_t done = 0; rc == 0;) {
        uint64_t *rec, n;
        rc = ts_extsort_next(runs, &rec, &n, err);
        if (rc < 0 || n == 0)
            break;
        done += n;
        rc = consume(arg, rec, n, err);
        if (rc == 0)
            rc = tell(b, what, "nonzeros", (b->spool.n + done) / 2, b->spool.n, err);
    }
    ts_extsort_free(runs);
    return rc;
}

/* Gives all nonzeros, as records of `to` (whose field f is the spool's field source[f]), sorted, to
 * `consume`. The first direct_bits mostly decide. */
static int sort_spool(struct build *b, const struct ts_record_layout *to, const uint8_t source[],
                      uint32_t direct_bits, consume_fn *consume, void *arg, const char *what,
                      struct ts_err *err)
{
    const struct ts_record_move move = { &b->spool.layout, to, b->spool.mem, source };
    uint64_t *area[2], *sorted;
    int same_order = 1, rc = tell(b, what, "nonzeros", 0, b->spool.n, err);
    for (uint32_t f = 0; f < to->n_fields; f++)
        same_order &= source[f] == f;
    if (rc < 0)
        return rc;
    if (b->spool.mem == NULL)
        return sort_file(b, to, source, direct_bits, consume, arg, what, err);
    other_areas(b, b->spool.mem, area);
    sorted = area[0];
    if (same_order) { /* mostly sorted already */
        convert_parallel(b, &b->spool.layout, b->spool.mem, to, source, area[0], b->spool.n);
        sorted = ts_record_sort(area[0], area[1], b->spool.n, to->words, direct_bits, to->bits,
                                b->o->threads);
    } else {
        ts_record_sort_moved(&move, b->spool.n, area[0], area[1], direct_bits, to->bits,
                             b->o->threads);
    }
    return consume(arg, sorted, b->spool.n, err);
}

/* ------------------------------------------------------------------ compact rows */

static int end_rows(struct build *b, uint32_t m, struct ts_rows_writer *w, struct ts_err *err)
{
    return ts_rows_write_finish(w, &b->n_rows[m], &b->mode[m].rows_bytes, &b->mode[m].rows_hash,
                                err);
}

/* Writes modeK.rows from the bitmap, when a slice is empty. */
static int write_rows(struct build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_slices *s = &b->merge.slices[m];
    struct ts_rows_writer *w = NULL;
    char *path;
    int rc;
    b->n_rows[m] = s->n_rows;
    if (s->n_rows == b->dim[m])
        return 0;
    path = ts_build_dir_file(b->dir, "mode%u.rows", m + 1);
    rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out)
                      : ts_rows_write_new(path, m, b->dim[m], &w, err);
    for (uint64_t word = 0; word < (s->dim + 63) / 64 && rc == 0; word++)
        for (uint64_t bits = s->bitmap[word]; bits != 0 && rc == 0; bits &= bits - 1)
            rc = ts_rows_write_add(w, 64 * word + (uint64_t)__builtin_ctzll(bits), err);
    if (rc == 0)
        rc = end_rows(b, m, w, err);
    else
        ts_rows_write_free(w);
    free(path);
    return rc;
}

/* Numbering the slices of a mode too large for a bitmap: the records come sorted by it. */
struct numbering {
    struct build *b;
    uint32_t mode;
    struct ts_record_layout sorted, numbered; /* sorted: the mode's field first */
    uint8_t source[TS_RECORD_FIELDS];         /* of numbered, in sorted */
    struct ts_rows_writer *rows;
    int any;
    uint64_t index, row;
    struct ts_spool out;
};

static int number_records(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    struct numbering *g = arg;
    const struct ts_record_layout *l = &g->sorted;
    /* rows are not larger than indices: they take their place, and the field then shrinks */
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *r = rec + i * l->words, copy[TS_RECORD_WORDS] = { 0 };
        const uint64_t index = ts_record_get(l, r, 0);
        if (!g->any || index != g->index) {
            const int rc = ts_rows_write_add(g->rows, index, err);
            if (rc < 0)
                return rc;
            g->row += (uint64_t)g->any;
            g->index = index;
            g->any = 1;
        }
        for (uint32_t f = 1; f < l->n_fields; f++)
            ts_record_put(l, copy, f, ts_record_get(l, r, f));
        ts_record_put(l, copy, 0, g->row);
        memcpy(r, copy, l->words * sizeof *r);
    }
    if (g->out.mem != NULL) {
        convert_parallel(g->b, l, rec, &g->numbered, g->source, g->out.mem, n);
        g->out.n = n;
        return 0;
    }
    for (uint64_t first = 0, count; first < n; first += count) {
        const uint64_t fit = g->b->area_words / g->numbered.words;
        int rc;
        count = n - first < READ_PIECE ? n - first : READ_PIECE;
        count = count < fit ? count : fit;
        convert_parallel(g->b, l, rec + first * l->words, &g->numbered, g->source, g->b->area[2],
                         count);
        rc = ts_spool_append(&g->out, g->b->area[2], count, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Replaces the indices of a huge mode by compact rows, and writes modeK.rows. */
static int number_mode(struct build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_record_layout *l = &b->spool.layout;
    struct numbering g = { .b = b, .mode = m };
    uint32_t width[TS_RECORD_FIELDS], n = 1;
    uint8_t source[TS_RECORD_FIELDS] = { (uint8_t)m };
    char *path = ts_build_dir_file(b->dir, "mode%u.rows", m + 1);
    int rc;
    width[0] = l->width[m];
    for (uint32_t f = 0; f < l->n_fields; f++)
        if (f != m) {
            source[n] = (uint8_t)f;
            width[n++] = l->width[f];
        }
    ts_record_layout_set(&g.sorted, n, width);
    memcpy(width, l->width, sizeof width);
    width[m] = width[m] < ts_record_width(b->spool.n) ? width[m] : ts_record_width(b->spool.n);
    ts_record_layout_set(&g.numbered, n, width);
    for (uint32_t f = 0; f < n; f++)
        g.source[source[f]] = (uint8_t)f;
    g.out.fd = -1;
    if (path == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out);
    if (b->spool.mem != NULL) {
        g.out.mem = b->spool.mem; /* once sorted elsewhere, its own place is free */
        g.out.layout = g.numbered;
        rc = 0;
    } else {
        rc = ts_spool_file(&g.out, &g.numbered, b->tmp, err);
    }
    if (rc == 0)
        rc = ts_rows_write_new(path, m, b->dim[m], &g.rows, err);
    if (rc == 0)
        rc = sort_spool(b, &g.sorted, source, g.sorted.bits, number_records, &g, "numbering", err);
    if (rc == 0) {
        rc = end_rows(b, m, g.rows, err);
        g.rows = NULL;
    }
    if (rc < 0) {
        ts_rows_write_free(g.rows);
        if (g.out.mem == NULL)
            ts_spool_close(&g.out);
    } else {
        if (b->spool.mem == NULL)
            ts_spool_close(&b->spool);
        b->spool = g.out;
        b->mapped[m] = 1;
    }
    free(path);
    return rc;
}

/* A mode without empty slices needs no file: possible for a huge one, too. */
static int drop_full_rows(struct build *b, uint32_t m)
{
    char *path;
    if (b->n_rows[m] != b->dim[m] || b->mode[m].rows_bytes == 0)
        return 0;
    path = ts_build_dir_file(b->dir, "mode%u.rows", m + 1);
    if (path == NULL)
        return -1;
    remove(path);
    free(path);
    b->mode[m].rows_bytes = b->mode[m].rows_hash = 0;
    return 0;
}

/* The same for records of one word, a field after another over a piece that stays in the cache: most
 * fields are then a vector loop. */
static void compact_words(const struct build *b, const struct ts_record_layout *to,
                          const uint64_t *in, uint64_t *out, uint64_t n)
{
    enum { PIECE = 512 };
    const struct ts_record_layout *from = &b->spool.layout;
    uint64_t sum[PIECE];
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint32_t count = n - first < PIECE ? (uint32_t)(n - first) : PIECE;
        memset(sum, 0, sizeof sum);
        for (uint32_t f = 0; f <= b->order; f++) {
            const uint32_t left = from->start[f], right = 64 - from->width[f];
            const uint32_t place = 64 - to->start[f] - to->width[f];
            const struct ts_slices *s = &b->merge.slices[f < b->order ? f : 0];
            if (to->width[f] == 0)
                continue;
            if (f == b->order && b->code->kind == TS_VALUE_INT && b->code->value_bytes == 4) {
                for (uint32_t i = 0; i < count; i++) {
                    const uint32_t bits = (uint32_t)(in[first + i] << left >> right);
                    float x;
                    memcpy(&x, &bits, sizeof x);
                    sum[i] |= (uint64_t)(int64_t)((double)x - b->code->base) << place;
                }
            } else if (f == b->order) {
                for (uint32_t i = 0; i < count; i++)
                    sum[i] |= ts_value_code_of(b->code, in[first + i] << left >> right) << place;
            } else if (b->mapped[f] || b->n_rows[f] == b->dim[f]) {
                for (uint32_t i = 0; i < count; i++)
                    sum[i] |= in[first + i] << left >> right << place;
            } else {
                for (uint32_t i = 0; i < count; i++)
                    sum[i] |= ts_slices_row(s, in[first + i] << left >> right) << place;
            }
        }
        memcpy(out + first, sum, count * sizeof *sum);
    }
}

static void compact_records(const struct build *b, const struct ts_record_layout *to,
                            const uint64_t *in, uint64_t *out, uint64_t n)
{
    const struct ts_record_layout *from = &b->spool.layout;
    if (from->words == 1 && to->words == 1) {
        compact_words(b, to, in, out, n);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t *r = in + i * from->words;
        uint64_t rec[TS_RECORD_WORDS] = { 0 };
        for (uint32_t m = 0; m < b->order; m++) {
            uint64_t row = ts_record_get(from, r, m);
            if (!b->mapped[m] && b->n_rows[m] != b->dim[m])
                row = ts_slices_row(&b->merge.slices[m], row);
            ts_record_put(to, rec, m, row);
        }
        ts_record_put(to, rec, b->order,
                      ts_value_code_of(b->code, ts_record_get(from, r, b->order)));
        for (uint32_t w = 0; w < to->words; w++)
            out[i * to->words + w] = rec[w];
    }
}

static void compact_parallel(const struct build *b, const struct ts_record_layout *to,
                             const uint64_t *in, uint64_t *out, uint64_t n)
{
#pragma omp parallel for num_threads(b->o->threads) schedule(dynamic, 1)
    for (uint64_t first = 0; first < n; first += CONVERT_PIECE) {
        const uint64_t count = n - first < CONVERT_PIECE ? n - first : CONVERT_PIECE;
        compact_records(b, to, in + first * b->spool.layout.words, out + first * to->words, count);
    }
}

/* From indices and values to compact rows and codes. */
static int compact(struct build *b, struct ts_err *err)
{
    uint32_t width[TS_RECORD_FIELDS];
    struct ts_record_layout to;
    struct ts_spool out = { .fd = -1 };
    uint64_t *area[2];
    int rc = 0;
    for (uint32_t m = 0; m < b->order; m++)
        width[m] = ts_record_width(b->n_rows[m] - 1);
    width[b->order] = b->code->code_bits;
    ts_record_layout_set(&to, b->order + 1, width);
    if (b->spool.mem != NULL) {
        const uint64_t used = b->spool.n * to.words;
        other_areas(b, b->spool.mem, area);
        compact_parallel(b, &to, b->spool.mem, area[0], b->spool.n);
        b->area[0] = area[0];
        b->area[1] = b->spool.mem;
        /* memory touched before is cheaper than new memory, which the kernel clears */
        b->area[2] = 2 * used <= b->spool.n * b->spool.layout.words ? b->area[1] + used : area[1];
        b->spool.mem = area[0];
        b->spool.layout = to;
        return 0;
    }
    rc = ts_spool_file(&out, &to, b->tmp, err);
    for (uint64_t at = 0, n; at < b->spool.n && rc == 0; at += n) {
        const uint64_t *in;
        n = b->area_words / b->spool.layout.words;
        n = n < READ_PIECE ? n : READ_PIECE;
        n = n < b->spool.n - at ? n : b->spool.n - at;
        rc = ts_spool_read(&b->spool, at, n, b->area[0], &in, err);
        if (rc < 0)
            break;
        compact_parallel(b, &to, in, b->area[1], n);
        rc = ts_spool_append(&out, b->area[1], n, err);
        if (rc == 0)
            rc = tell(b, "numbering", "nonzeros", at + n, b->spool.n, err);
    }
    ts_spool_close(&b->spool);
    b->spool = out;
    return rc;
}

static int number_all(struct build *b, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        rc = b->merge.slices[m].bitmap != NULL ? write_rows(b, m, err) : number_mode(b, m, err);
        if (rc == 0 && drop_full_rows(b, m) < 0)
            rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out);
        if (rc == 0 && b->n_rows[m] >= UINT64_C(1) << 32)
            rc = ts_fail(err, TS_ELIMIT, "mode %u has %" PRIu64 " used slices; at most 2^32 - 1 = "
                         "4294967295 are possible", m + 1, b->n_rows[m]);
    }
    if (rc == 0)
        rc = ts_value_table_choose(b->merge.values[0], b->merge.nnz, b->order, &b->code, err);
    return rc < 0 ? rc : compact(b, err);
}

/* ------------------------------------------------------------------ the copies */

static int give_to_writer(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    return ts_mode_writer_add(arg, rec, n, err);
}

static int write_mode(struct build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_record_layout *l = &b->spool.layout;
    struct ts_mode_writer_plan plan = {
        .order = b->order,
        .threads = b->o->threads,
        .shard_bytes = b->o->shard_bytes,
        .code = b->code,
        .want_norm = m == 0,
    };
    uint32_t width[TS_RECORD_FIELDS], direct;
    uint8_t source[TS_RECORD_FIELDS] = { 0 };
    struct ts_disk_mode *disk = &b->mode[m];
    struct ts_mode_writer *w = NULL;
    struct ts_mode_written written;
    char what[32], *path = ts_build_dir_file(b->dir, "mode%u.shards", m + 1);
    int rc;
    if (path == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out);
    snprintf(what, sizeof what, "packing mode %u", m + 1);
    memcpy(source, disk->level, b->order);
    source[b->order] = (uint8_t)b->order;
    for (uint32_t f = 0; f <= b->order; f++)
        width[f] = l->width[source[f]];
    ts_record_layout_set(&plan.layout, b->order + 1, width);
    plan.path = path;
    direct = key_bits(&plan.layout);
    rc = ts_mode_writer_new(&plan, &w, err);
    if (rc == 0)
        rc = sort_spool(b, &plan.layout, source, direct, give_to_writer, w, what, err);
    if (rc == 0)
        rc = ts_mode_writer_finish(w, &written, err);
    if (rc == 0) {
        disk->n_shards = written.n_shards;
        disk->shards_bytes = written.file_bytes;
        disk->largest_slice = written.largest_slice;
        b->shard[m] = written.shard;
        b->sum_of_squares += written.sum_of_squares;
        if (written.max_raw_bytes > b->max_raw_bytes)
            b->max_raw_bytes = written.max_raw_bytes;
    }
    ts_mode_writer_free(w);
    free(path);
    return rc;
}

static int write_modes(struct build *b, struct ts_err *err)
{
    double fibres[TS_MAX_ORDER];
    int rc = 0;
    for (uint32_t m = 0; m < b->order; m++)
        fibres[m] = ts_fibres_estimate(&b->merge.fibres[0], m);
    for (uint32_t m = 0; m < b->order; m++)
        ts_level_order(b->order, m, b->merge.nnz, b->n_rows, fibres, b->mode[m].level);
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        rc = write_mode(b, m, err);
    return rc;
}

static int write_labels(struct build *b, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        struct ts_disk_mode *disk = &b->mode[m];
        char *path;
        if (b->o->map[m] == NULL)
            continue;
        path = ts_build_dir_file(b->dir, "mode%u.labels", m + 1);
        rc = path == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", b->o->out)
                          : ts_label_write(b->o->map[m], path, m, &disk->n_labels,
                                           &disk->labels_bytes, &disk->labels_hash, err);
        free(path);
    }
    return rc;
}

static int write_index(struct build *b, struct ts_err *err)
{
    const struct ts_value_code *c = b->code;
    struct ts_disk_header h = {
        .order = b->order,
        .nnz = b->merge.nnz,
        .norm = sqrt(b->sum_of_squares),
        .value_base = c->base,
        .value_bits = c->entropy,
        .value_min = c->min,
        .value_max = c->max,
        .value_kind = c->kind,
        .value_bytes = c->value_bytes,
        .n_dict = c->n_dict,
        .max_shard_bytes = b->max_raw_bytes,
        .input_nnz = b->collect.n_read,
        .n_duplicates = b->merge.n_duplicates,
        .n_zeros = b->collect.n_zeros + b->merge.n_zeros,
    };
    if (b->o->duplicates == TS_DUPLICATES_KEEP) { /* kept, not merged */
        h.flags |= h.n_duplicates > 0 ? TS_TENSOR_DUPLICATES : 0;
        h.n_duplicates = 0;
    }
    h.flags |= c->estimated ? TS_TENSOR_VALUE_BITS_ESTIMATED : 0;
    for (uint32_t m = 0; m < b->order; m++) {
        b->mode[m].dim = b->dim[m];
        b->mode[m].n_rows = b->n_rows[m];
    }
    return ts_build_index_write(b->dir, &h, b->mode, c->dict, b->shard, err);
}

/* ------------------------------------------------------------------ the whole */

/* Everything after the source ended. */
static int finish(struct build *b, uint64_t start_ns, struct ts_err *err)
{
    struct ts_build_report *r = b->report;
    uint64_t t0 = ts_clock_ns(), t1;
    int rc;
    r->read_ns = t0 - start_ns;
    rc = merge_collected(b, err);
    if (rc == 0)
        rc = number_all(b, err);
    t1 = ts_clock_ns();
    r->merge_ns = t1 - t0;
    if (rc == 0)
        rc = write_modes(b, err);
    if (rc == 0)
        rc = write_labels(b, err);
    if (rc == 0)
        rc = write_index(b, err);
    t0 = ts_clock_ns();
    r->pack_ns = t0 - t1;
    if (rc == 0)
        rc = tell(b, "writing", "", 0, 0, err);
    if (rc == 0)
        rc = ts_build_dir_commit(b->dir, err);
    r->sync_ns = ts_clock_ns() - t0;
    r->order = b->order;
    r->nnz = b->merge.nnz;
    r->input_nnz = b->collect.n_read;
    r->n_duplicates = b->merge.n_duplicates;
    r->n_zeros = b->collect.n_zeros + b->merge.n_zeros;
    memcpy(r->dim, b->dim, sizeof r->dim);
    memcpy(r->n_rows, b->n_rows, sizeof r->n_rows);
    return rc;
}

static int init(struct build *b, const struct ts_build_options *o, struct ts_build_report *report,
                struct ts_err *err)
{
    const char *slash = strrchr(o->out, '/');
    memset(b, 0, sizeof *b);
    memset(report, 0, sizeof *report);
    b->o = o;
    b->report = report;
    b->spool.fd = -1;
    b->tmp = o->tmp != NULL  ? strdup(o->tmp)
             : slash == NULL ? strdup(".")
                             : strndup(o->out, (size_t)(slash - o->out) + 1);
    b->area_words = choose_area_words(o);
    b->merge_threads = threads_for(b, UINT64_C(8) << 20);
    if (b->tmp == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", o->out);
    return ts_build_dir_open(o->out, o->force, &b->dir, err);
}

static void fini(struct build *b)
{
    ts_collect_fini(&b->collect);
    ts_extsort_free(b->runs);
    ts_merge_fini(&b->merge);
    ts_spool_close(&b->spool);
    for (uint32_t m = 0; m < b->order; m++)
        free(b->shard[m]);
    free(b->code);
    free(b->tmp);
    ts_bigmem_free(b->area_mem, b->area_bytes);
    ts_build_dir_close(b->dir);
}

static void text_position(const void *source, uint64_t *done, uint64_t *total)
{
    ts_text_source_progress(source, done, total);
}

static int read_text(struct build *b, struct ts_text_source *s, uint32_t threads,
                     struct ts_err *err)
{
    int rc = new_areas(b, err);
    if (rc == 0)
        rc = ts_collect_init(&b->collect, b->order, 8 * b->o->value_bytes, b->area[0],
                             b->area_words, threads, err);
    if (rc == 0)
        rc = ts_text_source_start(s, &b->collect, err);
    if (rc == 0)
        rc = collect_all(b, text_position, s, "bytes", err);
    ts_text_source_stop(s);
    if (rc == 0)
        rc = ts_text_source_check(s, b->collect.n_read, err);
    return rc;
}

int ts_build_text(const struct ts_build_options *o, const char *const paths[], uint32_t n_paths,
                  struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_text_source *s = NULL;
    struct ts_text_plan plan = { .paths = paths, .n_paths = n_paths, .base = o->base,
                                 .value_bytes = o->value_bytes, .n_dims = o->n_dims };
    struct build b;
    int rc = init(&b, o, ret, err);
    memcpy(plan.dim, o->dim, sizeof plan.dim);
    plan.threads = threads_for(&b, UINT64_C(1) << 20);
    plan.piece_bytes = (size_t)512 << 10;
    /* what a piece holds must fit an area, and all threads' pieces a share of the memory */
    while ((plan.piece_bytes > 64 << 10 && plan.piece_bytes * 16 * plan.threads > o->memory) ||
           plan.piece_bytes / 2 > b.area_words)
        plan.piece_bytes /= 2;
    if (rc == 0)
        rc = ts_text_source_open(&plan, &s, err);
    if (rc == 0) {
        b.order = ts_text_source_rules(s)->order;
        rc = read_text(&b, s, plan.threads, err);
    }
    for (uint32_t m = 0; m < b.order && rc == 0; m++) {
        const struct ts_tns_rules *r = ts_text_source_rules(s);
        b.dim[m] = r->fixed ? r->dim[m] : b.collect.max[m] + 1;
    }
    ts_text_source_close(s);
    if (rc == 0)
        rc = finish(&b, start, err);
    fini(&b);
    return rc;
}

static void synth_position(const void *source, uint64_t *done, uint64_t *total)
{
    ts_synth_source_progress(source, done, total);
}

int ts_build_synth(const struct ts_build_options *o, const struct ts_synth *synth,
                   struct ts_build_report *ret, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    struct ts_synth_source *s = NULL;
    struct build b;
    uint32_t threads;
    int rc = init(&b, o, ret, err);
    b.order = synth->order;
    threads = threads_for(&b, UINT64_C(1) << 20);
    if (rc == 0)
        rc = new_areas(&b, err);
    if (rc == 0)
        rc = ts_collect_init(&b.collect, b.order, 8 * o->value_bytes, b.area[0], b.area_words,
                             threads, err);
    if (rc == 0)
        rc = ts_synth_source_new(synth, threads, &s, err);
    if (rc == 0)
        rc = ts_synth_source_start(s, &b.collect, err);
    if (rc == 0)
        rc = collect_all(&b, synth_position, s, "nonzeros", err);
    ts_synth_source_free(s);
    memcpy(b.dim, synth->dim, sizeof b.dim);
    if (rc == 0)
        rc = finish(&b, start, err);
    fini(&b);
    return rc;
}
