/* SPDX-License-Identifier: BSD-3-Clause */
/* build_number.c - turns indices into compact rows (numbers of used slices, without gaps), and
 * values into codes. A bitmap numbers the used slices of a mode or, if the mode is too large, a
 * sort. If some slices are empty, the used indices are written to modeK.rows. Then the records are
 * shortened, because rows and codes need fewer bits than indices and values. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "build/build_steps.h"
#include "build/ranks/build_ranks.h"
#include "build/write/rows_write.h"

/* ------------------------------------------------------------------ numbering the used slices */

static int end_rows(struct ts_build *b, uint32_t m, struct ts_rows_writer *w, struct ts_err *err)
{
    return ts_rows_write_finish(w, &b->n_rows[m], &b->mode[m].rows_bytes, &b->mode[m].rows_hash,
                                err);
}

/* Writes modeK.rows from the bitmap of a mode, if some slice of it is empty. */
static int write_rows(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_slices *s = &b->merge.slices[m];
    struct ts_rows_writer *w = NULL;
    uint64_t row = 0;
    char *path;
    int rc;
    b->n_rows[m] = s->n_rows;
    if (s->n_rows == b->dim[m] - b->shift[m] || !ts_build_ranks_writes_rows(b, m))
        return 0;
    path = ts_build_dir_file(b->dir, "mode%u.rows", m + 1);
    rc = path == NULL ? ts_no_memory(err, b->o->out)
                      : ts_rows_write_new(path, m, b->dim[m] - b->shift[m], &w, err);
    for (uint64_t word = 0; word < (s->dim + 63) / 64 && rc == 0; word++)
        for (uint64_t bits = s->bitmap[word]; bits != 0 && rc == 0; bits &= bits - 1) {
            const uint64_t index = s->first + 64 * word + (uint64_t)__builtin_ctzll(bits);
            if (ts_slices_row(s, index) != row++)
                rc = ts_fail(err, TS_EIO,
                             "%s: index %" PRIu64 " of " TS_NTH_MODE
                             " has another row than its file says: "
                             "this is a bug in tstream, please report it; nothing was written",
                             b->o->out, index, m + 1);
            else
                rc = ts_rows_write_add(w, index - b->shift[m], err);
        }
    if (rc == 0)
        rc = end_rows(b, m, w, err);
    else
        ts_rows_write_free(w);
    free(path);
    return rc;
}

#define WORK_PIECE 65536u /* after this many records a thread adds to b->work */

/* State of numbering the slices of a mode too large for a bitmap, from records sorted by that
 * mode. */
struct numbering {
    struct ts_build *b;
    uint32_t mode;
    /* layouts of records: `sorted` has the index of the mode as its first field, by which records
     * are sorted; `numbered` has the row instead */
    struct ts_record_layout sorted, numbered;
    /* for each field of `numbered`, its field in `sorted` */
    uint8_t source[TS_RECORD_FIELDS];
    struct ts_rows_writer *rows;
    int any;
    uint64_t index, row;
    /* checksums over the cells: `in` with indices of the mode, numbered_cells with rows */
    struct ts_cell_sum in, numbered_cells;
    uint8_t field[TS_RECORD_FIELDS]; /* for each field of `sorted`, its field in b->spool */
    struct ts_spool out;
};

/* Adds a record to both checksums: to g->in with its index, and to g->numbered_cells with its
 * row. */
static void add_cell(struct numbering *g, const uint64_t *rec)
{
    const struct ts_record_layout *l = &g->sorted;
    const uint64_t key = ts_cell_key(g->mode), index = g->index - g->b->shift[g->mode];
    const uint64_t bits = ts_record_get(l, rec, l->n_fields - 1);
    uint64_t s = (g->b->o->weights ? bits >> 32 : bits) * ts_cell_key(TS_CELL_VALUE);
    if (g->b->o->weights)
        s += (bits & UINT32_MAX) * ts_cell_key(TS_CELL_WEIGHT);
    for (uint32_t f = 1; f + 1 < l->n_fields; f++) {
        const uint32_t m = g->field[f];
        const uint64_t less = g->b->mapped[m] ? 0 : g->b->shift[m];
        s += (ts_record_get(l, rec, f) - less) * ts_cell_key(m);
    }
    ts_cell_sum_add(&g->in, s + index * key);
    ts_cell_sum_add(&g->numbered_cells, s + g->row * key);
}

static int number_records(void *arg, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    struct numbering *g = arg;
    const struct ts_record_layout *l = &g->sorted;
    /* A row is never larger than its index, so it is stored in the field of the index. The field
     * gets narrower later. */
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *r = rec + i * l->words, copy[TS_RECORD_WORDS] = { 0 };
        const uint64_t index = ts_record_get(l, r, 0);
        if (!g->any || index != g->index) {
            const int rc = ts_rows_write_add(g->rows, index - g->b->shift[g->mode], err);
            if (rc < 0)
                return rc;
            g->row += (uint64_t)g->any;
            g->index = index;
            g->any = 1;
        }
        add_cell(g, r);
        for (uint32_t f = 1; f < l->n_fields; f++)
            ts_record_put(l, copy, f, ts_record_get(l, r, f));
        ts_record_put(l, copy, 0, g->row);
        memcpy(r, copy, l->words * sizeof *r);
        if ((i + 1) % WORK_PIECE == 0)
            ts_build_work_add(g->b, WORK_PIECE);
    }
    if (g->out.mem != NULL) {
        ts_build_spool_convert(g->b, l, rec, &g->numbered, g->source,
                               g->out.mem + g->out.n * g->numbered.words, n);
        g->out.n += n;
        return 0;
    }
    for (uint64_t first = 0, count; first < n; first += count) {
        const uint64_t fit = g->b->scratch_words / g->numbered.words;
        int rc;
        count = n - first < TS_READ_PIECE ? n - first : TS_READ_PIECE;
        count = count < fit ? count : fit;
        ts_build_spool_convert(g->b, l, rec + first * l->words, &g->numbered, g->source,
                               g->b->scratch, count);
        rc = ts_spool_append(&g->out, g->b->scratch, count, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Replaces the indices of a mode that is too large for a bitmap by compact rows, and writes
 * modeK.rows. */
static int number_mode(struct ts_build *b, uint32_t m, struct ts_err *err)
{
    const struct ts_record_layout *l = &b->spool.layout;
    struct numbering g = { .b = b, .mode = m };
    uint32_t width[TS_RECORD_FIELDS], n = 1;
    uint8_t source[TS_RECORD_FIELDS] = { (uint8_t)m };
    struct ts_build_spool_sort sort = { .to = &g.sorted,
                                        .source = source,
                                        .overwrites = 1,
                                        .consume = number_records,
                                        .arg = &g,
                                        .what = "numbering" };
    char *path = ts_build_dir_file(b->dir, "mode%u.rows", m + 1);
    int rc;
    width[0] = l->width[m];
    for (uint32_t f = 0; f < l->n_fields; f++)
        if (f != m) {
            source[n] = (uint8_t)f;
            width[n++] = l->width[f];
        }
    ts_record_layout_set(&g.sorted, n, width);
    memcpy(g.field, source, sizeof g.field);
    sort.direct_bits = g.sorted.bits;
    memcpy(width, l->width, sizeof width);
    width[m] = width[m] < ts_record_width(b->spool.n) ? width[m] : ts_record_width(b->spool.n);
    ts_record_layout_set(&g.numbered, n, width);
    for (uint32_t f = 0; f < n; f++)
        g.source[source[f]] = (uint8_t)f;
    g.out.fd = -1;
    if (path == NULL)
        return ts_no_memory(err, b->o->out);
    ts_build_spool_close_gaps(b);
    if (b->spool.mem != NULL) {
        /* this memory gets the result, because the sort first moves the records out of it */
        g.out.mem = b->spool.mem;
        g.out.layout = g.numbered;
        rc = 0;
    } else {
        rc = ts_spool_file(&g.out, &g.numbered, b->tmp, &b->rooms, err);
    }
    if (rc == 0)
        rc = ts_rows_write_new(path, m, b->dim[m] - b->shift[m], &g.rows, err);
    if (rc == 0)
        rc = ts_build_spool_sort(b, &sort, err);
    if (rc == 0)
        rc = ts_build_sums_passed(b, &g.in, &g.numbered_cells, err);
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

/* Removes modeK.rows of a mode without empty slices. Such a file exists only if the mode was
 * numbered by a sort. */
static int drop_full_rows(struct ts_build *b, uint32_t m)
{
    char *path;
    if (b->n_rows[m] != b->dim[m] || b->mode[m].rows_bytes == 0)
        return 0;
    if (ts_build_ranks_writes(b)) {
        path = ts_build_dir_file(b->dir, "mode%u.rows", m + 1);
        if (path == NULL)
            return -1;
        remove(path);
        free(path);
    }
    b->mode[m].rows_bytes = b->mode[m].rows_hash = 0;
    return 0;
}

/* ------------------------------------------------------------------ shortening the records */

/* records converted at a time, so that the columns of their fields stay in the cache */
#define PIECE 512u

/* Returns the code that replaces a value in the records, from the bits with which it was read. The
 * bits of a weight stay. */
static uint64_t code_of(const struct ts_build *b, uint64_t bits)
{
    return b->o->weights ? ts_value_code_of(b->code, bits >> 32) << 32 | (uint32_t)bits
                         : ts_value_code_of(b->code, bits);
}

/* Returns the bits with which a value was read, from the code that replaces it. */
static uint64_t bits_of_code(const struct ts_build *b, uint64_t code)
{
    const uint64_t value = b->o->weights ? code >> 32 : code;
    const uint64_t bits =
        ts_value_to_bits(ts_value_code_value(b->code, value), b->code->value_bytes);
    return b->o->weights ? bits << 32 | (uint32_t)code : bits;
}

/* Checksums over the cells of records that were shortened: `in` from the records before, `out` from
 * those after. */
struct passed {
    struct ts_cell_sum in, out;
};

static void join_passed(struct passed *to, const struct passed *more)
{
    ts_cell_sum_join(&to->in, &more->in);
    ts_cell_sum_join(&to->out, &more->out);
}

/* Whether the records still hold indices of mode m that differ from its compact rows. */
static int is_renamed(const struct ts_build *b, uint32_t m)
{
    return !b->mapped[m] && b->n_rows[m] != b->dim[m];
}

/* Replaces a column of n values by their codes. For checksums, adds to in[i] the value that code i
 * stands for, and to out[i] the code. */
static void compact_values(const struct ts_build *b, uint64_t *column, uint32_t n, uint64_t *in,
                           uint64_t *out)
{
    const uint32_t kind = b->code->kind;
    const int plain = kind == TS_VALUE_F32 || kind == TS_VALUE_F64;
    const uint64_t key = ts_cell_key(TS_CELL_VALUE);
    uint64_t back[PIECE];
    if (kind == TS_VALUE_INT && b->code->value_bytes == 4 && !b->o->weights) {
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t bits = (uint32_t)column[i];
            float x;
            memcpy(&x, &bits, sizeof x);
            column[i] = (uint64_t)(int64_t)((double)x - b->code->base);
            x = (float)((double)(int64_t)column[i] + b->code->base);
            back[i] = 0;
            memcpy(&back[i], &x, sizeof x);
        }
    } else {
        for (uint32_t i = 0; i < n && !plain; i++)
            column[i] = code_of(b, column[i]);
        for (uint32_t i = 0; i < n && !plain; i++)
            back[i] = bits_of_code(b, column[i]);
    }
    if (b->o->weights) {
        ts_cell_sum_weighted(in, plain ? column : back, n);
        ts_cell_sum_weighted(out, column, n);
    } else {
        ts_cell_sum_term(in, plain ? column : back, n, key);
        /* a 64-bit value makes two 32-bit codes: the high half and the low one */
        if (kind == TS_VALUE_F64)
            ts_cell_sum_weighted(out, column, n);
        else
            ts_cell_sum_term(out, column, n, key);
    }
}

/* Converts records to the layout with rows and codes. It converts PIECE records at a time, one
 * field after the other, so that most fields need only a loop that is vectorized. */
static void compact_records(const struct ts_build *b, const struct ts_record_layout *to,
                            const uint64_t *in, uint64_t *out, uint64_t n, struct passed *ret)
{
    const struct ts_record_layout *from = &b->spool.layout;
    uint64_t shift = 0;
    for (uint32_t m = 0; m < b->order; m++)
        shift -= b->mapped[m] ? 0 : b->shift[m] * ts_cell_key(m);
    for (uint64_t first = 0; first < n; first += PIECE) {
        const uint32_t count = n - first < PIECE ? (uint32_t)(n - first) : PIECE;
        const uint64_t *piece = in + first * from->words;
        uint64_t column[PIECE], rec[PIECE * TS_RECORD_WORDS], found[PIECE], became[PIECE];
        memset(rec, 0, count * to->words * sizeof *rec);
        memset(found, 0, count * sizeof *found);
        /* a field that does not change adds the same term to both checksums */
        for (uint32_t m = 0; m < b->order; m++) {
            if (is_renamed(b, m))
                continue;
            ts_record_column(from, piece, count, m, column);
            ts_cell_sum_term(found, column, count, ts_cell_key(m));
            ts_record_put_column(to, rec, count, m, column, 1);
        }
        memcpy(became, found, count * sizeof *became);
        for (uint32_t m = 0; m < b->order; m++) {
            if (!is_renamed(b, m))
                continue;
            ts_record_column(from, piece, count, m, column);
            ts_cell_sum_term(found, column, count, ts_cell_key(m));
            ts_slices_rows(&b->merge.slices[m], column, count);
            ts_cell_sum_term(became, column, count, ts_cell_key(m));
            ts_record_put_column(to, rec, count, m, column, 1);
        }
        ts_record_column(from, piece, count, b->order, column);
        compact_values(b, column, count, found, became);
        ts_record_put_column(to, rec, count, b->order, column, 1);
        memcpy(out + first * to->words, rec, count * to->words * sizeof *rec);
        ts_cell_sum_mix(found, count, shift, &ret->in);
        ts_cell_sum_mix(became, count, 0, &ret->out);
    }
}

static void compact_parallel(const struct ts_build *b, const struct ts_record_layout *to,
                             const uint64_t *in, uint64_t *out, uint64_t n, struct passed *ret)
{
#pragma omp parallel num_threads(b->memory.threads)
    {
        struct passed own = { 0 };
#pragma omp for schedule(dynamic, 1)
        for (uint64_t first = 0; first < n; first += TS_CONVERT_PIECE) {
            const uint64_t count = n - first < TS_CONVERT_PIECE ? n - first : TS_CONVERT_PIECE;
            compact_records(b, to, in + first * b->spool.layout.words, out + first * to->words,
                            count, &own);
            ts_build_work_add(b, count);
        }
#pragma omp critical(ts_build_passed)
        join_passed(ret, &own);
    }
}

/* Shortens the records of b->spool, which are in an area: converts them into the other area,
 * without the gaps that merging left. */
static void compact_memory(struct ts_build *b, const struct ts_record_layout *to,
                           struct passed *passed)
{
    const uint64_t used = b->spool.n * to->words, *in = b->spool.mem;
    const uint64_t touched = b->collect.n * b->spool.layout.words;
    uint64_t *out = ts_build_other_area(b, in), at = 0;
    for (uint32_t t = 0; t < b->memory.merge_threads && b->gaps; t++) {
        const struct ts_merge_piece *p = &b->merge.piece[t];
        compact_parallel(b, to, in + p->first * b->spool.layout.words, out + at * to->words, p->n,
                         passed);
        at += p->n;
    }
    if (!b->gaps)
        compact_parallel(b, to, in, out, b->spool.n, passed);
    b->gaps = 0;
    b->spool.mem = out;
    b->spool.layout = *to;
    /* Later sorts put their result in the first `used` words of the other area. The words after
     * these that were in use become scratch memory, since the kernel need not clear their pages
     * again. So b->scratch points into that area from here on. */
    if (used + b->scratch_words <= touched) {
        b->scratch = ts_build_other_area(b, out) + used;
        b->scratch_words = touched - used;
    }
}

/* Whether the records of b->spool are in one of b->rooms (memory as large as an area, for stored
 * records), and the shortened records fit in an area. */
static int is_in_room(const struct ts_build *b, const struct ts_record_layout *to)
{
    return b->spool.room > 0 && b->spool.n <= b->spool.head_n &&
           b->spool.n <= b->area_words / to->words;
}

/* Shortens all records of b->spool at once into area[0]. The new spool keeps that memory, and the
 * memory of the old spool becomes the area. */
static int compact_room(struct ts_build *b, struct ts_spool *out, struct passed *passed,
                        struct ts_err *err)
{
    const uint64_t n = b->spool.n;
    compact_parallel(b, &out->layout, b->spool.head, b->area[0], n, passed);
    ts_spool_close(&b->spool);
    return ts_spool_adopt(out, &b->area[0], n) ? 0 : ts_spool_append(out, b->area[0], n, err);
}

static int compact(struct ts_build *b, struct ts_err *err)
{
    uint32_t width[TS_RECORD_FIELDS];
    struct ts_record_layout to;
    struct ts_spool out = { .fd = -1 };
    struct passed passed = { 0 };
    int rc = 0;
    for (uint32_t m = 0; m < b->order; m++)
        width[m] = ts_record_width(b->n_rows[m] - 1);
    width[b->order] = b->code->code_bits + (b->o->weights ? 32 : 0);
    ts_record_layout_set(&to, b->order + 1, width);
    if (b->spool.mem != NULL) {
        compact_memory(b, &to, &passed);
        return ts_build_sums_passed(b, &passed.in, &passed.out, err);
    }
    rc = ts_spool_file(&out, &to, b->tmp, &b->rooms, err);
    if (rc == 0 && is_in_room(b, &to))
        rc = compact_room(b, &out, &passed, err);
    for (uint64_t at = 0, n; at < b->spool.n && rc == 0; at += n) {
        const uint64_t *in;
        n = b->area_words / b->spool.layout.words;
        n = n < TS_READ_PIECE ? n : TS_READ_PIECE;
        n = n < b->spool.n - at ? n : b->spool.n - at;
        rc = ts_spool_read(&b->spool, at, n, b->area[0], &in, err);
        if (rc < 0)
            break;
        compact_parallel(b, &to, in, b->area[1], n, &passed);
        rc = ts_spool_append(&out, b->area[1], n, err);
        if (rc == 0)
            rc = ts_build_tell(b, "numbering", "nonzeros", at + n, b->spool.n, err);
    }
    ts_spool_close(&b->spool);
    b->spool = out;
    return rc == 0 ? ts_build_sums_passed(b, &passed.in, &passed.out, err) : rc;
}

/* Returns by how much b->work grows while slices are numbered and records shortened. For each
 * record, a sort of a mode too large for a bitmap adds 2, or 4 if it goes through runs. Numbering
 * and shortening add 1 each. */
static uint64_t numbering_work(const struct ts_build *b)
{
    const uint64_t each = b->spool.mem != NULL ? 3 : 5;
    uint64_t n_sorts = 0;
    for (uint32_t m = 0; m < b->order; m++)
        n_sorts += b->merge.slices[m].bitmap == NULL;
    return (n_sorts * each + 1) * b->spool.n;
}

int ts_build_number(struct ts_build *b, struct ts_err *err)
{
    int rc;
    ts_build_phase_begin(b, TS_BUILD_NUMBERING, numbering_work(b));
    rc = ts_build_tell(b, "numbering", "nonzeros", 0, b->spool.n, err);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        rc = b->merge.slices[m].bitmap != NULL ? write_rows(b, m, err) : number_mode(b, m, err);
        if (rc == 0 && drop_full_rows(b, m) < 0)
            rc = ts_no_memory(err, b->o->out);
        if (rc == 0 && b->n_rows[m] >= UINT64_C(1) << 32)
            rc = ts_fail(err, TS_ELIMIT,
                         TS_NTH_MODE " has %" PRIu64 " used slices; at most 2^32 - 1 = "
                                     "4294967295 are possible",
                         m + 1, b->n_rows[m]);
    }
    if (rc == 0)
        rc = ts_value_table_choose(b->merge.values[0], b->merge.nnz, b->order, &b->code, err);
    if (rc == 0)
        rc = compact(b, err);
    rc = ts_build_ranks_rows(b, rc, err);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        b->dim[m] -= b->shift[m];
        if (b->shift[m] > 0 && drop_full_rows(b, m) < 0)
            rc = ts_no_memory(err, b->o->out);
    }
    return rc;
}
