/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a round of sending records. Each rank groups its next records by the rank they go to. Then
 * all ranks exchange the counts, and the records are sent. */
#include "build/ranks/ranks_deal.h"

/* records that a thread groups at a time, so that they stay in the cache */
#define GROUP_PIECE UINT64_C(1024)
#define TAKE_PIECE  UINT64_C(16384) /* records that a thread copies at a time */

void ts_build_ranks_unshare(struct ts_build *b)
{
    if (b->shared != NULL)
        b->ranks.comm->ops->unshare(b->ranks.comm, b->shared, b->shared_bytes);
    b->shared = NULL;
}

int ts_deal_share(struct ts_dealing *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    struct ts_comm *c = d->c;
    const uint64_t bytes = 2 * c->beside * d->piece * d->s->sort.to->words * sizeof *d->send;
    int rc = 0;
    if (c->ops->share == NULL || c->machine == NULL)
        return 0;
    if (b->shared == NULL || b->shared_bytes < bytes) {
        ts_build_ranks_unshare(b);
        b->shared_bytes = bytes;
        rc = c->ops->share(c, bytes, &b->shared, err);
    }
    d->shared = b->shared;
    return rc;
}

/* Whether `rank` gets records from this rank through shared memory, because it is on this machine,
 * and not by messages. */
static int is_here(const struct ts_dealing *d, uint32_t rank)
{
    return d->shared != NULL && d->c->machine[rank] == d->c->machine[d->c->rank];
}

/* Returns the array that rank number `place` on this machine fills in this round. */
static uint64_t *shared_piece(const struct ts_dealing *d, uint32_t place)
{
    const uint64_t number = 2 * (uint64_t)place + d->round % 2;
    return (uint64_t *)d->shared + number * d->piece * d->s->sort.to->words;
}

static uint64_t *row_of(const struct ts_dealing *d, uint32_t rank)
{
    return d->count + rank * (d->c->n + UINT64_C(1));
}

/* Converts n records and groups them in `send` by the rank they go to. Records for ranks on other
 * machines come first. Sets the row of this rank in `count`. */
static void group(struct ts_dealing *d, const struct ts_record_layout *from, const uint64_t *in,
                  uint64_t n)
{
    const struct ts_record_layout *to = d->s->sort.to;
    const uint32_t threads = d->b->memory.threads, ranks = d->c->n, words = to->words;
    const int alike = ts_deal_is_same(d->s, from);
    const uint64_t *rec = alike ? in : d->moved;
    uint64_t *send = d->shared == NULL ? d->send : shared_piece(d, d->c->place);
    uint64_t *row = row_of(d, d->c->rank), at = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (uint32_t t = 0; t < threads; t++) {
        const uint64_t first = n * t / threads, end = n * (t + 1) / threads;
        uint64_t *count = d->place + (uint64_t)t * ranks;
        memset(count, 0, ranks * sizeof *count);
        for (uint64_t i = first, some; i < end; i += some) {
            some = end - i < GROUP_PIECE ? end - i : GROUP_PIECE;
            if (!alike)
                ts_record_convert(from, in + i * from->words, to, d->s->sort.source,
                                  d->moved + i * words, some);
            ts_ranges_find(&d->ranges, rec + i * words, some, d->to + i, count);
        }
    }
    /* k < ranks: records that go by messages; k >= ranks: through shared memory */
    for (uint32_t k = 0; k < 2 * ranks; k++) {
        const uint32_t r = k % ranks;
        if (is_here(d, r) != (k >= ranks))
            continue;
        row[r] = at;
        for (uint32_t t = 0; t < threads; t++) {
            const uint64_t count = d->place[(uint64_t)t * ranks + r];
            d->place[(uint64_t)t * ranks + r] = at;
            at += count;
        }
        row[r] = at - row[r];
    }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (uint32_t t = 0; t < threads; t++) {
        const uint64_t first = n * t / threads, end = n * (t + 1) / threads;
        ts_ranges_move(&d->ranges, rec + first * words, end - first, d->to + first,
                       d->place + (uint64_t)t * ranks, send);
    }
}

/* Reads and groups the next records of this rank, at most d->piece. */
static int next_piece(struct ts_dealing *d, struct ts_err *err)
{
    const struct ts_build_ranks_sort *s = d->s;
    const uint64_t *in = d->in;
    uint64_t n = 0;
    int rc = 0;
    while (d->spool < s->n_from && d->at == s->from[d->spool].n) {
        d->spool++;
        d->at = 0;
    }
    if (d->spool == s->n_from) {
        memset(row_of(d, d->c->rank), 0, d->c->n * sizeof *d->count);
        return 0;
    }
    n = s->from[d->spool].n - d->at;
    n = n < d->piece ? n : d->piece;
    rc = ts_spool_read(&s->from[d->spool], d->at, n, d->in, &in, err);
    if (rc == 0)
        group(d, &s->from[d->spool].layout, in, n);
    d->at += n;
    return rc;
}

/* Makes space in area[0] for the records of a round. If there may be too little, sorts the records
 * received so far into a run. */
static int make_room(struct ts_dealing *d, struct ts_err *err)
{
    const struct ts_extsort_area area = ts_deal_area(d);
    int rc;
    if (d->filled + d->piece * d->c->n <= area.words / area.layout->words)
        return 0;
    rc = ts_build_check_stop(d->b, err);
    if (rc == 0)
        rc = ts_extsort_add(d->runs, &area, err);
    d->filled = 0;
    return rc;
}

/* Computes the offsets, in bytes, of the records that are sent and received by messages. Returns
 * the number of records that all ranks send in this round. */
static uint64_t place_messages(struct ts_dealing *d)
{
    const uint32_t n = d->c->n, own = d->c->rank;
    const uint64_t bytes = d->s->sort.to->words * sizeof *d->send;
    uint64_t any = 0;
    for (uint32_t r = 0; r < n; r++) {
        const uint64_t *row = row_of(d, r);
        const uint64_t sent = is_here(d, r) ? 0 : row_of(d, own)[r];
        const uint64_t got = is_here(d, r) ? 0 : row[own];
        d->send_first[r + 1] = d->send_first[r] + sent * bytes;
        d->got_first[r + 1] = d->got_first[r] + got * bytes;
        for (uint32_t q = 0; q < n; q++)
            any += row[q];
    }
    return any;
}

/* Returns where in shared memory `rank`, which is number `place` on this machine, has put its
 * records for this rank. before: the number of records that are copied before these. */
static struct ts_dealing_take find_take(const struct ts_dealing *d, uint32_t rank, uint32_t place,
                                        uint64_t before)
{
    const uint64_t *row = row_of(d, rank);
    uint64_t at = 0;
    for (uint32_t r = 0; r < d->c->n; r++)
        at += !is_here(d, r) || r < d->c->rank ? row[r] : 0;
    return (struct ts_dealing_take){ shared_piece(d, place) + at * d->s->sort.to->words, before,
                                     row[d->c->rank] };
}

/* The first n_takes entries of d->take are ranges of records, which form one sequence. Copies
 * records first .. end - 1 of the sequence to their places in the array `to`. */
static void copy_taken(const struct ts_dealing *d, uint32_t n_takes, uint64_t *to, uint64_t first,
                       uint64_t end)
{
    const uint32_t words = d->s->sort.to->words;
    for (uint32_t k = 0; k < n_takes; k++) {
        const struct ts_dealing_take *t = &d->take[k];
        const uint64_t begin = first > t->before ? first : t->before;
        const uint64_t stop = end < t->before + t->n ? end : t->before + t->n;
        if (begin < stop)
            memcpy(to + begin * words, t->from + (begin - t->before) * words,
                   (stop - begin) * words * sizeof *to);
    }
}

/* Copies the records that ranks on this machine send to this rank to area[0], after the records
 * there, with all threads. */
static void take_shared(struct ts_dealing *d)
{
    uint64_t *to = d->b->area[0] + d->filled * d->s->sort.to->words, n = 0;
    uint32_t n_takes = 0;
    for (uint32_t r = 0; r < d->c->n; r++)
        if (is_here(d, r)) {
            d->take[n_takes] = find_take(d, r, n_takes, n);
            n += d->take[n_takes++].n;
        }
#pragma omp parallel for num_threads(d->b->memory.threads) schedule(static)
    for (uint64_t at = 0; at < n; at += TAKE_PIECE)
        copy_taken(d, n_takes, to, at, n - at < TAKE_PIECE ? n : at + TAKE_PIECE);
    d->filled += n;
    d->total += n;
}

/* Gathers d->count on all ranks: the number of records that each rank sends to each rank, and
 * whether a rank has failed. If a rank has failed, the ranks agree on the failure. */
static int tell_counts(struct ts_dealing *d, int rc, struct ts_err *err)
{
    const uint32_t n = d->c->n;
    uint64_t failed = 0;
    int told;
    row_of(d, d->c->rank)[n] = rc < 0;
    told = ts_build_comm_gather(&d->b->ranks, d->count, d->count_first, err);
    if (told < 0)
        return told;
    for (uint32_t r = 0; r < n; r++)
        failed |= row_of(d, r)[n];
    return failed == 0 ? 0 : ts_build_comm_agree(&d->b->ranks, rc, err);
}

int ts_deal_round(struct ts_dealing *d, int rc, int *more, struct ts_err *err)
{
    struct ts_comm *c = d->c;
    const uint32_t n = c->n, words = d->s->sort.to->words;
    uint64_t any, got;
    if (rc == 0)
        rc = next_piece(d, err);
    if (rc == 0)
        rc = make_room(d, err);
    *more = 0;
    rc = tell_counts(d, rc, err);
    if (rc < 0)
        return rc;
    any = place_messages(d);
    *more = any > 0;
    if (any > 0 && (d->shared == NULL || c->beside < n))
        rc = ts_build_comm_deal(
            &d->b->ranks, d->shared == NULL ? d->send : shared_piece(d, c->place), d->send_first,
            d->b->area[0] + d->filled * words, d->got_first, err);
    if (rc < 0)
        return rc;
    got = d->got_first[n] / (words * sizeof *d->send);
    d->filled += got;
    d->total += got;
    if (d->shared != NULL)
        take_shared(d);
    d->round++;
    return 0;
}
