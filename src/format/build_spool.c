/* build_spool.c - all nonzeros of a build in another order: sorted in the areas when they are in
 * memory, else from the spool's file through sorted runs. */
#include "format/build_impl.h"
#include "format/record_sort.h"

void ts_build_spool_convert(const struct ts_build *b, const struct ts_record_layout *from,
                            const uint64_t *in, const struct ts_record_layout *to,
                            const uint8_t source[], uint64_t *out, uint64_t n)
{
#pragma omp parallel for num_threads(b->o->threads) schedule(dynamic, 1)
    for (uint64_t first = 0; first < n; first += TS_CONVERT_PIECE) {
        const uint64_t count = n - first < TS_CONVERT_PIECE ? n - first : TS_CONVERT_PIECE;
        ts_record_convert(from, in + first * from->words, to, source, out + first * to->words,
                          count);
    }
}

/* Sorts the spool's file through runs. */
static int sort_file(struct ts_build *b, const struct ts_record_layout *to, const uint8_t source[],
                     uint32_t direct_bits, ts_build_spool_fn *consume, void *arg,
                     const char *what, struct ts_err *err)
{
    const struct ts_record_layout *from = &b->spool.layout;
    const uint64_t room = b->area_words / to->words;
    uint64_t piece = b->area_words / from->words, filled = 0;
    struct ts_extsort *runs = NULL;
    int rc = ts_extsort_new(b->tmp, b->o->threads, &runs, err);
    piece = piece < TS_READ_PIECE ? piece : TS_READ_PIECE;
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
        ts_build_spool_convert(b, from, in, to, source, b->area[0] + filled * to->words, n);
        filled += n;
        at += n;
        rc = ts_build_tell(b, what, "nonzeros", at / 2, b->spool.n, err);
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
            rc = ts_build_tell(b, what, "nonzeros", (b->spool.n + done) / 2, b->spool.n, err);
    }
    ts_extsort_free(runs);
    return rc;
}

int ts_build_spool_sort(struct ts_build *b, const struct ts_record_layout *to,
                        const uint8_t source[], uint32_t direct_bits, ts_build_spool_fn *consume,
                        void *arg, const char *what, struct ts_err *err)
{
    const struct ts_record_move move = { &b->spool.layout, to, b->spool.mem, source };
    uint64_t *area[2], *sorted;
    int same_order = 1, rc = ts_build_tell(b, what, "nonzeros", 0, b->spool.n, err);
    for (uint32_t f = 0; f < to->n_fields; f++)
        same_order &= source[f] == f;
    if (rc < 0)
        return rc;
    if (b->spool.mem == NULL)
        return sort_file(b, to, source, direct_bits, consume, arg, what, err);
    ts_build_other_areas(b, b->spool.mem, area);
    sorted = area[0];
    if (same_order) { /* mostly sorted already */
        ts_build_spool_convert(b, &b->spool.layout, b->spool.mem, to, source, area[0], b->spool.n);
        sorted = ts_record_sort(area[0], area[1], b->spool.n, to->words, direct_bits, to->bits,
                                b->o->threads);
    } else {
        ts_record_sort_moved(&move, b->spool.n, area[0], area[1], direct_bits, to->bits,
                             b->o->threads);
    }
    return consume(arg, sorted, b->spool.n, err);
}
