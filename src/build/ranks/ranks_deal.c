/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends each record to the rank whose range of records it is in. Each rank sorts the records that
 * it gets, and passes them to `consume`, the next step of the build. */
#include "build/ranks/ranks_deal.h"

#include <stdlib.h>

#include "build/write/mode_writer.h"
#include "build/sort/record_sort.h"

/* Returns the most records that a rank sends in a round. The records of each thread should stay in
 * its cache, and those of a round may fill only a small part of an area. */
static uint64_t most_dealt(const struct ts_dealing *d)
{
    const struct ts_build *b = d->b;
    const uint64_t all = TS_READ_PIECE * b->memory.threads;
    const uint64_t room = b->area_words / d->s->sort.to->words / d->c->n / 32;
    return room < TS_READ_PIECE ? TS_READ_PIECE : room < all ? room : all;
}

static int new_deal(struct ts_dealing *d, struct ts_err *err)
{
    const struct ts_build *b = d->b;
    const uint32_t n = d->c->n, words = d->s->sort.to->words;
    uint64_t from_words = words;
    for (uint32_t i = 0; i < d->s->n_from; i++)
        if (d->s->from[i].layout.words > from_words)
            from_words = d->s->from[i].layout.words;
    /* 3 arrays of converted records: `moved`, and `send` twice, as shared memory has two for each
     * rank */
    d->piece = b->scratch_words / (from_words + 3 * words + 1);
    d->piece = d->piece < most_dealt(d) ? d->piece : most_dealt(d);
    if (d->piece > b->area_words / words / n / 4) /* one rank may get all records of 4 rounds */
        d->piece = b->area_words / words / n / 4;
    if (d->piece == 0 || b->area_words / words < 4 * (uint64_t)n ||
        b->area_words / words < (uint64_t)TS_PARTITION_NNZ * d->s->whole)
        return ts_fail(err, TS_EARG, "too little memory for %u processes", n);
    d->in = b->scratch;
    d->moved = d->in + d->piece * from_words;
    d->send = d->moved + d->piece * words;
    d->to = (uint32_t *)(void *)(d->send + d->piece * words);
    d->split = calloc((uint64_t)n * words, sizeof *d->split);
    d->count = calloc((uint64_t)n * (n + 1), sizeof *d->count);
    d->count_first = ts_build_comm_places(d->c, n, (n + UINT64_C(1)) * sizeof *d->count);
    d->take = calloc(n, sizeof *d->take);
    d->place = calloc((uint64_t)n * b->memory.threads, sizeof *d->place);
    d->send_first = calloc(2 * (n + UINT64_C(1)), sizeof *d->send_first);
    if (d->s->whole)
        d->head = malloc((uint64_t)TS_PARTITION_NNZ * words * sizeof *d->head);
    if (d->split == NULL || d->count == NULL || d->count_first == NULL || d->take == NULL ||
        d->place == NULL || d->send_first == NULL || (d->s->whole && d->head == NULL))
        return ts_build_comm_no_memory(err);
    d->got_first = d->send_first + n + 1;
    return ts_extsort_new(b->tmp, b->memory.threads, b->o->stop, b->work, &d->runs, err);
}

static void free_deal(struct ts_dealing *d)
{
    ts_extsort_free(d->runs);
    free(d->head);
    free(d->split);
    free(d->count);
    free(d->count_first);
    free(d->take);
    free(d->place);
    free(d->send_first);
}

/* Whether the received records can be sorted into the memory of b->spool. The records there were
 * all sent, so they are no longer needed. */
static int can_replace(const struct ts_dealing *d)
{
    const struct ts_spool *s = d->s->from;
    return s->room > 0 && s->n <= s->head_n && ts_extsort_runs(d->runs) == 0 &&
           d->filled <= d->b->rooms.words / d->s->sort.to->words;
}

/* For sorts into whole partitions (TS_PARTITION_NNZ records): the first records of rank r (its
 * head) may belong to a partition that begins on a lower rank. Sets head[r], the number of these
 * records, and owner[r], the rank that gets them. All ranks compute the same values. */
static int plan_heads(struct ts_dealing *d, int taken, uint64_t *head, uint32_t *owner,
                      struct ts_err *err)
{
    const uint32_t n = d->c->n;
    const uint64_t own[2] = { d->total, !taken && can_replace(d) };
    uint64_t *all, at = 0;
    uint32_t last = 0;
    const int rc = ts_build_comm_numbers(&d->b->ranks, 0, own, 2, &all, err);
    d->replaces = rc == 0;
    for (uint32_t r = 0; r < n && rc == 0; r++) {
        const uint64_t rest = at % TS_PARTITION_NNZ, total = all[2 * (uint64_t)r];
        head[r] = rest == 0 ? 0 : TS_PARTITION_NNZ - rest;
        head[r] = head[r] < total ? head[r] : total;
        owner[r] = last;
        last = total > head[r] ? r : last;
        at += total;
        d->replaces &= all[2 * (uint64_t)r + 1] != 0;
    }
    free(all);
    return rc;
}

static int give(struct ts_dealing *d, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    const uint32_t words = d->s->sort.to->words;
    const uint64_t left = d->n_head - d->head_len, take = n < left ? n : left;
    if (take > 0)
        memcpy(d->head + d->head_len * words, rec, take * words * sizeof *rec);
    d->head_len += take;
    d->done += n;
    return n > take ? d->s->sort.consume(d->s->sort.arg, rec + take * words, n - take, err) : 0;
}

/* Returns the memory that is free while sorted records are passed to `consume`. For a copy of one
 * mode, it should stay free while the records are sorted for the next mode. If possible it is in
 * the memory of b->spool, behind the records, with a gap in case this rank then gets more records.
 * Most of it was in use when records were longer, so the kernel need not clear it. Otherwise it is
 * the other memory for stored records, or an area. */
static struct ts_spare spare_of(const struct ts_dealing *d, uint64_t *area)
{
    const struct ts_build *b = d->b;
    const struct ts_spool *from = d->s->from;
    const uint64_t bytes = b->area_words * sizeof *area;
    if (d->s->whole && from->room > 0 && from->n <= from->head_n) {
        const uint64_t used = (from->n + from->n / 8) * from->layout.words;
        const uint64_t left = used < b->rooms.words ? b->rooms.words - used : 0;
        if (ts_mode_writer_packed_bytes(d->total, d->s->sort.to->bits) <= left * sizeof *area)
            return (struct ts_spare){ from->head + used, left * sizeof *area, 1 };
    }
    for (uint32_t i = 0; i < 2 && d->s->whole && b->rooms.words > 0; i++)
        if (!b->rooms.taken[i])
            return (struct ts_spare){ b->rooms.mem[i], b->rooms.words * sizeof *area, 1 };
    return (struct ts_spare){ area, bytes, 0 };
}

/* Sorts the received records into the memory of b->spool. Over all ranks they are the nonzeros of
 * b->spool, in another order of records and fields. So they replace its records, and the copy of
 * the next mode is made from them. Otherwise a rank would use three times the memory of its
 * records, and the kernel would have to clear a third of it. */
static uint64_t *sort_in_place_of_spool(struct ts_dealing *d)
{
    struct ts_build *b = d->b;
    const struct ts_build_spool_sort *s = &d->s->sort;
    struct ts_spool *spool = &b->spool;
    const uint64_t *end = spool->head + d->filled * s->to->words, *packed = b->spare.mem;
    uint8_t field[TS_MAX_ORDER + 1] = { 0 };
    uint64_t *sorted;
    if (b->writing != NULL && packed >= spool->head && packed < end)
        /* packed partitions of the previous mode's copy are still in this memory: waits until they
         * are written */
        ts_mode_writer_wait(b->writing);
    sorted = ts_record_sort(b->area[0], spool->head, d->filled, s->to->words, s->direct_bits,
                            s->to->bits, b->memory.threads, b->o->stop, b->work);
    /* the sort left the result in the area, because there were few records, or they were sorted
     * already */
    if (sorted == b->area[0]) {
        b->area[0] = spool->head;
        spool->head = b->rooms.mem[spool->room - 1] = sorted;
    }
    spool->n = d->filled;
    spool->layout = *s->to;
    spool->head_n = b->rooms.words / s->to->words;
    for (uint32_t k = 0; k <= b->order; k++)
        for (uint32_t f = 0; f <= b->order; f++)
            if (s->source[f] == b->field[k])
                field[k] = (uint8_t)f;
    memcpy(b->field, field, sizeof field);
    return sorted;
}

/* Sorts the records that this rank has received, and passes them to `consume`. */
static int give_all(struct ts_dealing *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    const struct ts_extsort_area area = ts_deal_area(d);
    const int in_memory = ts_extsort_runs(d->runs) == 0;
    uint64_t *rec = NULL, n = d->filled;
    int rc = 0;
    if (d->replaces) {
        rec = sort_in_place_of_spool(d);
    } else {
        rc = ts_extsort_end(d->runs, &area, err);
        /* the report counts runs of the input, but not those of sorts for a mode, as with one
         * process */
        if (!d->s->whole)
            b->report->n_runs += ts_extsort_runs(d->runs);
        if (rc == 0)
            rc = ts_extsort_next(d->runs, &rec, &n, err);
    }
    if (rc == 0)
        rc = ts_build_check_stop(b, err);
    b->spare = spare_of(d, ts_build_other_area(b, rec));
    if (!in_memory && !b->spare.stays)
        b->spare.bytes = 0;
    while (rc == 0 && n > 0) {
        rc = give(d, rec, n, err);
        if (rc == 0 && !in_memory)
            rc = ts_build_tell(b, d->s->sort.what, "nonzeros", (d->total + d->done) / 2, d->total,
                               err);
        if (rc == 0)
            rc = ts_extsort_next(d->runs, &rec, &n, err);
    }
    return rc;
}

/* Sends the head of this rank (its first records, see plan_heads) to its owner. Passes the heads
 * from higher ranks to `consume`, which complete the last partition of this rank. */
static int give_heads(struct ts_dealing *d, int rc, const uint64_t *head, const uint32_t *owner,
                      struct ts_err *err)
{
    struct ts_comm *c = d->c;
    const uint32_t words = d->s->sort.to->words;
    const uint64_t bytes = words * sizeof(uint64_t);
    /* the area is free, because its records were passed to `consume` */
    uint64_t *got = ts_build_other_area(d->b, d->b->spare.mem), n;
    for (uint32_t r = 0; r < c->n; r++) {
        const int to = r == owner[c->rank] && head[c->rank] > 0;
        const int from = owner[r] == c->rank && r != c->rank;
        d->send_first[r + 1] = d->send_first[r] + (to ? head[c->rank] * bytes : 0);
        d->got_first[r + 1] = d->got_first[r] + (from ? head[r] * bytes : 0);
    }
    rc = ts_build_comm_agree(&d->b->ranks, rc, err);
    if (rc == 0)
        rc = ts_build_comm_deal(&d->b->ranks, d->head, d->send_first, got, d->got_first, err);
    n = d->got_first[c->n] / bytes;
    return rc == 0 && n > 0 ? d->s->sort.consume(d->s->sort.arg, got, n, err) : rc;
}

/* To be called when the records of b->kept are no longer needed there. Their memory becomes
 * area[1], because the kernel need not clear it again; the old area[1] becomes memory for stored
 * records. Then frees b->kept. */
static void reuse_room(struct ts_build *b)
{
    const uint32_t room = b->n_kept > 0 ? b->kept[0].room : 0;
    if (room > 0) {
        uint64_t *const area = b->area[1];
        b->area[1] = b->rooms.mem[room - 1];
        b->rooms.mem[room - 1] = area;
    }
    ts_build_ranks_drop(b);
}

/* Passes the records of this rank, which are already sorted over all ranks, to `consume`. b->spool
 * does not change, because later mode copies need it. Records of b->kept are converted first, in
 * place or into an area. */
static int give_own(struct ts_dealing *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    const struct ts_build_ranks_sort *s = d->s;
    const struct ts_record_layout *from = &s->from->layout, *to = s->sort.to;
    uint64_t *rec = s->from->head;
    if (s->from != b->kept) {
        b->spare = spare_of(d, b->area[0]);
    } else if (from->words == to->words) {
        /* records of both layouts have the same length, so they are converted in place */
        if (!ts_deal_is_same(s, from))
            ts_build_spool_convert(b, from, rec, to, s->sort.source, s->from->head, d->total);
        reuse_room(b);
        rec = b->area[1];
        b->spare = spare_of(d, b->area[0]);
    } else {
        ts_build_spool_convert(b, from, rec, to, s->sort.source, b->area[0], d->total);
        ts_build_ranks_drop(b);
        rec = b->area[0];
        b->spare = spare_of(d, b->area[1]);
    }
    return give(d, rec, d->total, err);
}

/* Sends all records of all ranks, in rounds in which each rank sends at most d->piece records. */
static int deal_rounds(struct ts_dealing *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    const uint64_t own = ts_deal_own(d->s);
    uint64_t dealt = 0;
    int rc = ts_deal_share(d, err), more = 1;
    if (rc < 0) /* all ranks fail together */
        return rc;
    while (more) {
        rc = ts_deal_round(d, rc, &more, err);
        dealt += d->piece;
        if (rc == 0 && more)
            rc = ts_build_tell(b, d->s->sort.what, "nonzeros", (dealt < own ? dealt : own) / 2, own,
                               err);
    }
    if (rc == 0 && d->s->from == b->kept)
        reuse_room(b);
    return rc;
}

static int give_sorted(struct ts_dealing *d, int taken, struct ts_err *err)
{
    return taken ? give_own(d, err) : give_all(d, err);
}

static int deal_all(struct ts_dealing *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    uint64_t *head = NULL;
    uint32_t *owner = NULL;
    int taken = 0, rc = ts_deal_splits(d, &taken, err);
    if (rc == 0 && taken)
        d->total = ts_deal_own(d->s);
    else if (rc == 0)
        rc = deal_rounds(d, err);
    if (rc < 0 || !d->s->whole)
        return rc == 0 ? give_sorted(d, taken, err) : rc;
    head = calloc(d->c->n, sizeof *head);
    owner = calloc(d->c->n, sizeof *owner);
    rc = ts_build_comm_agree(&b->ranks,
                             head == NULL || owner == NULL ? ts_build_comm_no_memory(err) : 0, err);
    if (rc == 0)
        rc = plan_heads(d, taken, head, owner, err);
    if (rc == 0) {
        d->n_head = head[d->c->rank];
        rc = give_sorted(d, taken, err);
        rc = give_heads(d, rc, head, owner, err);
    }
    free(head);
    free(owner);
    return rc;
}

int ts_build_ranks_sort(struct ts_build *b, int rc, const struct ts_build_ranks_sort *s,
                        struct ts_err *err)
{
    struct ts_dealing d = { .b = b, .s = s, .c = b->ranks.comm };
    if (rc == 0)
        rc = new_deal(&d, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    if (rc == 0)
        rc = deal_all(&d, err);
    free_deal(&d);
    return rc;
}
