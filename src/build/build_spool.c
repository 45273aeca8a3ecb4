/* SPDX-License-Identifier: BSD-3-Clause */
/* build_spool.c - sorts the spool (all nonzeros of a build) in another order. If the spool is in
 * memory, the sort uses the two areas; otherwise it reads the file of the spool and makes sorted
 * runs. */
#include <string.h>

#include "build/build_steps.h"
#include "build/sort/record_sort.h"

/* Most records for each thread in one call of `consume`, as whole partitions. Packing them takes
 * some tenths of a second, so the wait for the last thread after each call does not matter. */
#define GIVE_PIECE (UINT64_C(256) * TS_PARTITION_NNZ)

void ts_build_spool_convert(const struct ts_build *b, const struct ts_record_layout *from,
                            const uint64_t *in, const struct ts_record_layout *to,
                            const uint8_t source[], uint64_t *out, uint64_t n)
{
#pragma omp parallel for num_threads(b->memory.threads) schedule(dynamic, 1)
    for (uint64_t first = 0; first < n; first += TS_CONVERT_PIECE) {
        const uint64_t count = n - first < TS_CONVERT_PIECE ? n - first : TS_CONVERT_PIECE;
        ts_record_convert(from, in + first * from->words, to, source, out + first * to->words,
                          count);
    }
}

void ts_build_spool_close_gaps(struct ts_build *b)
{
    uint64_t *to = ts_build_other_area(b, b->spool.mem), at = 0;
    const uint32_t words = b->spool.layout.words;
    if (!b->gaps)
        return;
    for (uint32_t t = 0; t < b->memory.merge_threads; t++) {
        const struct ts_merge_piece *p = &b->merge.piece[t];
        const uint64_t *from = b->spool.mem + p->first * words;
#pragma omp parallel for num_threads(b->memory.threads) schedule(static)
        for (uint64_t first = 0; first < p->n; first += TS_CONVERT_PIECE) {
            const uint64_t n = p->n - first < TS_CONVERT_PIECE ? p->n - first : TS_CONVERT_PIECE;
            memcpy(to + (at + first) * words, from + first * words, n * words * sizeof *to);
        }
        at += p->n;
    }
    b->spool.mem = to;
    b->gaps = 0;
}

/* Reads the records from the file of b->spool, converts them, and adds them to the sort. */
static int add_file(struct ts_build *b, const struct ts_build_spool_sort *s,
                    struct ts_extsort *sort, struct ts_err *err)
{
    const struct ts_record_layout *from = &b->spool.layout, *to = s->to;
    const uint64_t room = b->area_words / to->words;
    struct ts_extsort_area area = {
        to, s->direct_bits, { b->area[0], b->area[1] }, b->area_words, 0
    };
    uint64_t piece = b->scratch_words / from->words;
    int rc = 0;
    piece = piece < TS_READ_PIECE ? piece : TS_READ_PIECE;
    piece = piece < room ? piece : room;
    for (uint64_t at = 0, n; at < b->spool.n && rc == 0; at += n) {
        const uint64_t *in;
        n = b->spool.n - at < piece ? b->spool.n - at : piece;
        if (area.n + n > room) {
            rc = ts_extsort_add(sort, &area, err);
            area.n = 0;
        }
        if (rc == 0)
            rc = ts_spool_read(&b->spool, at, n, b->scratch, &in, err);
        if (rc < 0)
            break;
        ts_build_spool_convert(b, from, in, to, s->source, area.mem[0] + area.n * to->words, n);
        area.n += n;
        rc = ts_build_tell(b, s->what, "nonzeros", (at + n) / 2, b->spool.n, err);
    }
    return rc < 0 ? rc : ts_extsort_end(sort, &area, err);
}

/* Sorts the records in the file of b->spool, through sorted runs. */
static int sort_file(struct ts_build *b, const struct ts_build_spool_sort *s, struct ts_err *err)
{
    struct ts_extsort *sort = NULL;
    int rc = ts_extsort_new(b->tmp, b->memory.threads, b->o->stop, b->work, &sort, err);
    if (rc == 0)
        rc = add_file(b, s, sort, err);
    for (uint64_t done = 0; rc == 0;) {
        uint64_t *rec, n;
        rc = ts_extsort_next(sort, &rec, &n, err);
        if (rc < 0 || n == 0)
            break;
        done += n;
        rc = s->consume(s->arg, rec, n, err);
        if (rc == 0)
            rc = ts_build_tell(b, s->what, "nonzeros", (b->spool.n + done) / 2, b->spool.n, err);
    }
    ts_extsort_free(sort);
    return rc;
}

/* Passes all records, which were sorted in memory, to `consume`, some in each call, so that between
 * calls the user sees progress and can stop. */
static int give_pieces(struct ts_build *b, const struct ts_build_spool_sort *s, uint64_t *rec,
                       struct ts_err *err)
{
    const uint64_t piece = b->memory.threads * GIVE_PIECE;
    int rc = 0;
    for (uint64_t at = 0, n; at < b->spool.n && rc == 0; at += n) {
        n = b->spool.n - at < piece ? b->spool.n - at : piece;
        rc = s->consume(s->arg, rec + at * s->to->words, n, err);
        if (rc == 0)
            rc = ts_build_tell(b, s->what, "nonzeros", at + n, b->spool.n, err);
    }
    return rc;
}

int ts_build_spool_sort(struct ts_build *b, const struct ts_build_spool_sort *s, struct ts_err *err)
{
    const struct ts_record_layout *from = &b->spool.layout, *to = s->to;
    const struct ts_record_move move = { from, to, b->spool.mem, s->source };
    uint64_t *sorted;
    int same = memcmp(from, to, sizeof *to) == 0;
    int rc = ts_build_tell(b, s->what, "nonzeros", 0, b->spool.n, err);
    for (uint32_t f = 0; f < to->n_fields; f++)
        same &= s->source[f] == f;
    if (rc < 0)
        return rc;
    if (b->spool.mem == NULL)
        return sort_file(b, s, err);
    if (same && !s->overwrites &&
        ts_record_is_sorted(b->spool.mem, b->spool.n, to->words, b->memory.threads))
        return give_pieces(b, s, b->spool.mem, err);
    sorted = ts_build_other_area(b, b->spool.mem);
    ts_record_sort_moved(&move, b->spool.n, sorted, b->scratch, b->scratch_words, s->direct_bits,
                         to->bits, b->memory.threads, b->o->stop, b->work);
    rc = ts_build_check_stop(b, err);
    return rc == 0 ? give_pieces(b, s, sorted, err) : rc;
}
