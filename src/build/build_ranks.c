/* SPDX-License-Identifier: BSD-3-Clause */
/* What several ranks that build together tell each other, and how records come to the rank whose range they are in. */
#include "build/build_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "build/mode_writer.h"
#include "build/ranges.h"
#include "build/record_sort.h"

#define GROUP_PIECE UINT64_C(1024)      /* records that stay in the cache */
#define SAMPLES     1024u               /* of all records, for each rank; */
#define ALL_SAMPLES 32768u              /* but no more than these */
#define TAKE_PIECE  UINT64_C(16384)     /* that a thread copies at a time */
#define FOLD_BYTES  (UINT64_C(4) << 20) /* of a set of used slices that travel at a time */

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
    for (uint32_t m = 0; m < b->order; m++) { /* 0 and 0 where it has written none */
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

/* ------------------------------------------------------------------ reading */

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
    uint64_t count[2] = { c->n_read, c->n_zeros };
    uint32_t width[TS_RECORD_FIELDS] = { 0 };
    if (!ts_build_comm_many(&b->ranks))
        return rc;
    if (rc == 0 && c->n > 0)
        rc = ts_build_ranks_keep(b, 1, err);
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, count, 2, err);
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_MAX, c->max, b->order, err);
    c->n_read = count[0];
    c->n_zeros = count[1];
    for (uint32_t m = 0; m < b->order; m++)
        width[m] = ts_record_width(c->max[m]);
    width[b->order] = ts_build_value_bits(b);
    if (rc == 0)
        ts_record_layout_set(&c->layout, b->order + 1, width);
    return rc;
}

/* ------------------------------------------------------------------ counts */

typedef void fold_fn(void *own, const void *other, uint64_t bytes);

/* Rank 0 takes what the others have into its own, and tells all what came of it. */
static int fold(struct ts_build *b, void *own, void *other, uint64_t bytes, fold_fn *take,
                struct ts_err *err)
{
    struct ts_comm *c = b->ranks.comm;
    uint64_t *none = ts_build_comm_places(c, c->n + 1, 0),
             *some = ts_build_comm_places(c, 0, bytes);
    int rc = ts_build_comm_agree(
        &b->ranks, none == NULL || some == NULL ? ts_build_comm_no_memory(err) : 0, err);
    for (uint32_t r = 1; r < c->n && rc == 0; r++) {
        if (c->rank == 0) { /* some: what rank r sends */
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

/* Each rank puts a part of the bits together, and all get all parts: no rank has more to do than another. */
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
    uint64_t count[4] = { g->nnz, g->n_duplicates, g->n_zeros, b->report->n_runs };
    struct ts_value_table *values = NULL;
    struct ts_fibres *fibres = NULL;
    if (!ts_build_comm_many(&b->ranks))
        return rc;
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, count, 4, err);
    if (rc < 0)
        return rc;
    g->nnz = count[0];
    g->n_duplicates = count[1];
    g->n_zeros = count[2];
    b->report->n_runs = count[3];
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

/* ------------------------------------------------------------------ dealing records */

/* What this rank takes from one of its machine: records that lie there, and go behind `before` others. */
struct take {
    const uint64_t *from;
    uint64_t before, n;
};

struct deal {
    struct ts_build *b;
    const struct ts_build_ranks_sort *s;
    struct ts_comm *c;
    uint32_t spool;              /* that is being read, */
    uint64_t at;                 /* from here on */
    uint64_t piece;              /* most records dealt at a time by a rank */
    uint64_t *in, *moved, *send; /* that many, of the two layouts */
    void *shared;                /* of the ranks of this machine: two of `send` for each; or NULL */
    uint64_t round;              /* rounds so far */
    uint32_t *to;                /* the rank of each of `moved` */
    uint64_t *split;             /* n - 1 records: where ranges begin */
    struct ts_ranges ranges;
    uint64_t *count,
        *count_first; /* n x (n + 1): records that go from a rank to each in this round, and whether it has failed */
    uint64_t *place;   /* threads x n */
    struct take *take; /* n */
    uint64_t *send_first, *got_first;
    struct ts_extsort *runs;
    uint64_t filled, done, total; /* records of this rank: in the area; given to consume; all */

    /* for whole partitions */
    uint64_t *head, n_head, head_len; /* this rank's first records, which go to a lower one */
    int replaces; /* 1: what is sorted takes the place of the spool, on all ranks */
};

static uint64_t n_own(const struct ts_build_ranks_sort *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_from; i++)
        n += s->from[i].n;
    return n;
}

/* Most records that a rank deals at a time: so many for each thread, whose part so stays in its cache, as long as a round leaves most of an
 * area to those that have come. */
static uint64_t most_dealt(const struct deal *d)
{
    const struct ts_build *b = d->b;
    const uint64_t all = TS_READ_PIECE * b->memory.threads;
    const uint64_t room = b->area_words / d->s->sort.to->words / d->c->n / 32;
    return room < TS_READ_PIECE ? TS_READ_PIECE : room < all ? room : all;
}

static int new_deal(struct deal *d, struct ts_err *err)
{
    const struct ts_build *b = d->b;
    const uint32_t n = d->c->n, words = d->s->sort.to->words;
    uint64_t from_words = words;
    for (uint32_t i = 0; i < d->s->n_from; i++)
        if (d->s->from[i].layout.words > from_words)
            from_words = d->s->from[i].layout.words;
    d->piece =
        b->scratch_words / (from_words + 3 * words + 1); /* twice `send`, where it is shared */
    d->piece = d->piece < most_dealt(d) ? d->piece : most_dealt(d);
    if (d->piece > b->area_words / words / n /
                       4) /* all may come to one rank, several times before it spills */
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
    return ts_extsort_new(b->tmp, b->memory.threads, b->o->stop, &d->runs, err);
}

static void free_deal(struct deal *d)
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

/* ---- where ranges begin ---- */

/* Sets all bits of a record from `bits` on to zero. */
static void clear_rest(uint64_t *rec, uint32_t words, uint32_t bits)
{
    for (uint32_t w = 0; w < words; w++)
        if (64 * w + 64 > bits)
            rec[w] &= 64 * w >= bits ? 0 : ~(UINT64_MAX >> (bits - 64 * w));
}

/* Reads record `at` of all spools together, in the order of the ranges. */
static int read_sample(struct deal *d, uint64_t at, uint64_t *to, struct ts_err *err)
{
    const struct ts_build_ranks_sort *s = d->s;
    const uint64_t *rec;
    uint64_t buffer[TS_RECORD_WORDS];
    uint32_t i = 0;
    int rc;
    for (; at >= s->from[i].n; i++)
        at -= s->from[i].n;
    rc = ts_spool_read(&s->from[i], at, 1, buffer, &rec, err);
    if (rc < 0)
        return rc;
    ts_record_convert(&s->from[i].layout, rec, s->sort.to, s->sort.source, to, 1);
    clear_rest(to, s->sort.to->words, s->sort.direct_bits);
    return 0;
}

/* Whether converting keeps the order of the fields, and so that of the records. */
static int keeps_order(const struct ts_build_ranks_sort *s)
{
    for (uint32_t f = 0; f < s->sort.to->n_fields; f++)
        if (s->sort.source[f] != f)
            return 0;
    return 1;
}

/* Whether this rank's records are sorted, which is looked at where they lie in memory. */
static int are_sorted(const struct deal *d, struct ts_err *err)
{
    const struct ts_build_ranks_sort *s = d->s;
    const uint64_t *rec;
    if (!keeps_order(s) || s->n_from != 1 || s->from->n > s->from->head_n ||
        s->from->n > d->b->area_words / s->sort.to->words ||
        ts_spool_read(s->from, 0, s->from->n, NULL, &rec, err) < 0)
        return 0;
    return ts_record_is_sorted(rec, s->from->n, s->from->layout.words, d->b->memory.threads);
}

/* Records that are sorted are not dealt, but stay where they are: a rank's range begins with its first one, if ranks have about as
 * many each and no key is in two of them. *taken: they do. */
static int take_parts(struct deal *d, int *taken, struct ts_err *err)
{
    const uint32_t words = d->s->sort.to->words, each = 2 + 2 * words, n = d->c->n;
    const uint64_t own = n_own(d->s);
    uint64_t v[2 + 2 * TS_RECORD_WORDS] = { own, own > 0 && are_sorted(d, err) }, *all, sum = 0;
    int rc = v[1] != 0 ? read_sample(d, 0, v + 2, err) : 0;
    if (rc == 0 && v[1] != 0)
        rc = read_sample(d, own - 1, v + 2 + words, err);
    rc = ts_build_comm_numbers(&d->b->ranks, rc, v, each, &all, err);
    for (uint32_t r = 0; r < n && rc == 0; r++)
        sum += all[(uint64_t)r * each];
    *taken = rc == 0;
    for (uint32_t r = 0; r < n && *taken; r++) {
        const uint64_t *part = all + (uint64_t)r * each;
        *taken = part[1] != 0 && part[0] <= sum / n + sum / n / 4 &&
                 (r == 0 || ts_record_compare(part - words, part + 2, words) < 0);
    }
    free(all);
    return rc;
}

/* Every rank takes each step-th of its records; sorted together they tell where ranges of about as many records begin. */
static int take_samples(struct deal *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    struct ts_comm *c = d->c;
    const struct ts_record_layout *l = d->s->sort.to;
    const uint64_t own = n_own(d->s), bytes = l->words * sizeof(uint64_t);
    uint64_t most = (uint64_t)SAMPLES * c->n, sum = own, step, n = 0, first = 0, *all = NULL;
    const uint64_t *sorted;
    int rc;
    most = most < ALL_SAMPLES ? most : ALL_SAMPLES;
    most = most < b->area_words / l->words / 2 ? most : b->area_words / l->words / 2;
    rc = ts_build_comm_join(&b->ranks, 0, TS_JOIN_MIN, &most, 1, err);
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, &sum, 1, err);
    if (rc < 0)
        return rc;
    step = sum / most + 1;
    n = own > step / 2 ? (own - step / 2 - 1) / step + 1 : 0;
    rc = ts_build_comm_numbers(&b->ranks, 0, &n, 1, &all, err);
    for (uint32_t r = 0; rc == 0 && r < c->n; r++) {
        d->got_first[r + 1] = d->got_first[r] + all[r] * bytes;
        first += r < c->rank ? all[r] : 0;
    }
    free(all);
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = read_sample(d, step / 2 + i * step, b->area[0] + (first + i) * l->words, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    if (rc == 0)
        rc = ts_build_comm_gather(&b->ranks, b->area[0], d->got_first, err);
    if (rc < 0)
        return rc;
    n = d->got_first[c->n] / bytes;
    sorted = ts_record_sort(b->area[0], b->area[1], n, l->words, d->s->sort.direct_bits, l->bits,
                            b->memory.threads, NULL);
    for (uint32_t r = 1; r < c->n && n > 0; r++)
        memcpy(d->split + (uint64_t)(r - 1) * l->words, sorted + n * r / c->n * l->words, bytes);
    return 0;
}

static int choose_splits(struct deal *d, int *taken, struct ts_err *err)
{
    uint64_t least[2] = { d->piece, UINT64_MAX - n_own(d->s) };
    int rc = ts_build_comm_join(&d->b->ranks, 0, TS_JOIN_MIN, least, 2, err);
    d->piece = least[0] < UINT64_MAX - least[1] ? least[0] : UINT64_MAX - least[1];
    d->piece += d->piece == 0; /* no rank has any */
    if (rc == 0)
        rc = take_parts(d, taken, err);
    if (rc == 0 && !*taken)
        rc = take_samples(d, err);
    ts_ranges_set(&d->ranges, d->split, d->c->n, d->s->sort.to->words);
    return rc;
}

/* ---- a round ---- */

/* Whether converting would copy. */
static int is_same(const struct ts_build_ranks_sort *s, const struct ts_record_layout *from)
{
    return keeps_order(s) && memcmp(from, s->sort.to, sizeof *from) == 0;
}

void ts_build_ranks_unshare(struct ts_build *b)
{
    if (b->shared != NULL)
        b->ranks.comm->ops->unshare(b->ranks.comm, b->shared, b->shared_bytes);
    b->shared = NULL;
}

/* Ranks of a machine put records where the others of it get them from; no message has to carry them. Two pieces of each, as one is
 * still read while the next is put there. The memory stays for later sorts, if it is large enough for them, which all ranks find alike. */
static int share_memory(struct deal *d, struct ts_err *err)
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

/* Whether that rank takes its records from the memory that is shared. */
static int is_here(const struct deal *d, uint32_t rank)
{
    return d->shared != NULL && d->c->machine[rank] == d->c->machine[d->c->rank];
}

/* Where the rank of that place on this machine puts its records in this round. */
static uint64_t *shared_piece(const struct deal *d, uint32_t place)
{
    const uint64_t number = 2 * (uint64_t)place + d->round % 2;
    return (uint64_t *)d->shared + number * d->piece * d->s->sort.to->words;
}

static uint64_t *row_of(const struct deal *d, uint32_t rank)
{
    return d->count + rank * (d->c->n + UINT64_C(1));
}

/* Converts n records and sorts them by the rank they go to, those on other machines first: `send`, and this rank's row of `count`. */
static void group(struct deal *d, const struct ts_record_layout *from, const uint64_t *in,
                  uint64_t n)
{
    const struct ts_record_layout *to = d->s->sort.to;
    const uint32_t threads = d->b->memory.threads, ranks = d->c->n, words = to->words;
    const int alike = is_same(d->s, from);
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
    for (uint32_t k = 0; k < 2 * ranks; k++) { /* first what messages carry */
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

/* Reads the next piece of this rank's records and groups it. */
static int next_piece(struct deal *d, struct ts_err *err)
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

/* Makes room for whatever may come. */
static int make_room(struct deal *d, struct ts_err *err)
{
    const struct ts_build *b = d->b;
    const struct ts_record_layout *l = d->s->sort.to;
    const uint64_t *sorted;
    int rc;
    if (d->filled + d->piece * d->c->n <= b->area_words / l->words)
        return 0;
    sorted = ts_record_sort(b->area[0], b->area[1], d->filled, l->words, d->s->sort.direct_bits,
                            l->bits, b->memory.threads, b->o->stop);
    rc = ts_build_check_stop(b, err);
    if (rc == 0)
        rc = ts_extsort_spill(d->runs, l, sorted, d->filled, err);
    d->filled = 0;
    return rc;
}

/* Where what messages carry begins, in bytes, from the counts of all. Returns the records of all ranks. */
static uint64_t place_messages(struct deal *d)
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

/* Where that rank of this machine, at that place of it, has put what this one takes. */
static struct take find_take(const struct deal *d, uint32_t rank, uint32_t place, uint64_t before)
{
    const uint64_t *row = row_of(d, rank);
    uint64_t at = 0;
    for (uint32_t r = 0; r < d->c->n; r++)
        at += !is_here(d, r) || r < d->c->rank ? row[r] : 0;
    return (struct take){ shared_piece(d, place) + at * d->s->sort.to->words, before,
                          row[d->c->rank] };
}

/* Copies records first .. end - 1 of all that are taken. */
static void copy_taken(const struct deal *d, uint32_t n_takes, uint64_t *to, uint64_t first,
                       uint64_t end)
{
    const uint32_t words = d->s->sort.to->words;
    for (uint32_t k = 0; k < n_takes; k++) {
        const struct take *t = &d->take[k];
        const uint64_t begin = first > t->before ? first : t->before;
        const uint64_t stop = end < t->before + t->n ? end : t->before + t->n;
        if (begin < stop)
            memcpy(to + begin * words, t->from + (begin - t->before) * words,
                   (stop - begin) * words * sizeof *to);
    }
}

/* Copies what the ranks of this machine have for this one behind what has come, with all threads. */
static void take_shared(struct deal *d)
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

/* Tells all ranks what each has for each, and whether one has failed, for which they then agree. */
static int tell_counts(struct deal *d, int rc, struct ts_err *err)
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

/* One round: every rank deals a piece, unless one has failed, which rc of the round before may tell. *more: some rank had records.
 * The others may go on to the next round while this one still takes what they have put down, and not to the one behind that. */
static int deal_round(struct deal *d, int rc, int *more, struct ts_err *err)
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

/* ---- what came ---- */

/* Whether all that came can be sorted to where the spool lies, which has been dealt. */
static int can_replace(const struct deal *d)
{
    const struct ts_spool *s = d->s->from;
    return s->room > 0 && s->n <= s->head_n && ts_extsort_runs(d->runs) == 0 &&
           d->filled <= d->b->rooms.words / d->s->sort.to->words;
}

/* Whole partitions: the records before the first one that begins in this rank's range belong to a lower rank. All ranks
 * find the same: head[r], and in owner[r] who gets it. */
static int plan_heads(struct deal *d, int taken, uint64_t *head, uint32_t *owner,
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

static int give(struct deal *d, uint64_t *rec, uint64_t n, struct ts_err *err)
{
    const uint32_t words = d->s->sort.to->words;
    const uint64_t left = d->n_head - d->head_len, take = n < left ? n : left;
    if (take > 0)
        memcpy(d->head + d->head_len * words, rec, take * words * sizeof *rec);
    d->head_len += take;
    d->done += n;
    return n > take ? d->s->sort.consume(d->s->sort.arg, rec + take * words, n - take, err) : 0;
}

/* What is free while records are given: of a mode's copy memory that stays when the next copy is sorted, if there is some. It is behind the
 * spool in its room, with a gap, as the next copy may come there and be larger; most of it was in use already when records were longer, so that
 * the kernel need not clear it. Else it is the other room. */
static struct ts_spare spare_of(const struct deal *d, uint64_t *area)
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

/* Sorts what came to where the spool was: all ranks' records together are those of the spools, in another order and with the fields of
 * this copy, and so the next copy comes of them. No rank has three times the memory of its records in use, then, of which the kernel would have
 * to clear a third first. */
static uint64_t *sort_in_place_of_spool(struct deal *d)
{
    struct ts_build *b = d->b;
    const struct ts_build_spool_sort *s = &d->s->sort;
    struct ts_spool *spool = &b->spool;
    const uint64_t *end = spool->head + d->filled * s->to->words, *packed = b->spare.mem;
    uint8_t field[TS_MAX_ORDER + 1] = { 0 };
    uint64_t *sorted;
    if (b->writing != NULL && packed >= spool->head && packed < end)
        ts_mode_writer_wait(b->writing); /* the copy before lies there yet */
    sorted = ts_record_sort(b->area[0], spool->head, d->filled, s->to->words, s->direct_bits,
                            s->to->bits, b->memory.threads, b->o->stop);
    if (sorted == b->area[0]) { /* it was sorted already, or is short */
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

/* Sorts what came to this rank, and gives it. */
static int give_all(struct deal *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    const struct ts_build_spool_sort *s = &d->s->sort;
    uint64_t *sorted =
        d->replaces ? sort_in_place_of_spool(d)
                    : ts_record_sort(b->area[0], b->area[1], d->filled, s->to->words,
                                     s->direct_bits, s->to->bits, b->memory.threads, b->o->stop);
    int rc = ts_build_check_stop(b, err);
    const int in_memory = ts_extsort_runs(d->runs) == 0;
    b->spare = spare_of(d, ts_build_other_area(b, sorted));
    if (!in_memory && !b->spare.stays)
        b->spare.bytes = 0;
    if (rc == 0 && in_memory)
        return d->filled == 0 ? 0 : give(d, sorted, d->filled, err);
    if (rc == 0)
        rc = ts_extsort_spill(d->runs, s->to, sorted, d->filled, err);
    if (!d->s->whole) /* those of the input are told, as by one process */
        b->report->n_runs += ts_extsort_runs(d->runs);
    if (rc == 0)
        rc = ts_extsort_begin(d->runs, s->to, s->direct_bits, b->area, b->area_words, err);
    while (rc == 0) {
        uint64_t *rec, n;
        rc = ts_extsort_next(d->runs, &rec, &n, err);
        if (rc < 0 || n == 0)
            break;
        rc = give(d, rec, n, err);
        if (rc == 0)
            rc = ts_build_tell(b, s->what, "nonzeros", (d->total + d->done) / 2, d->total, err);
    }
    return rc;
}

/* Sends this rank's head, and gives those of higher ranks that end its last partition. */
static int give_heads(struct deal *d, int rc, const uint64_t *head, const uint32_t *owner,
                      struct ts_err *err)
{
    struct ts_comm *c = d->c;
    const uint32_t words = d->s->sort.to->words;
    const uint64_t bytes = words * sizeof(uint64_t);
    uint64_t *got = ts_build_other_area(d->b, d->b->spare.mem), n; /* all of it was given */
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

/* What was kept has been dealt: its memory, which the kernel has cleared already, becomes the area to sort into, and its
 * room is for what is given. */
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

/* Gives this rank what it has, which is in order already, and in a room: a part of the tensor stays there, as it is needed again,
 * and what was read becomes one of the areas. */
static int give_own(struct deal *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    const struct ts_build_ranks_sort *s = d->s;
    const struct ts_record_layout *from = &s->from->layout, *to = s->sort.to;
    uint64_t *rec = s->from->head;
    if (s->from != b->kept) {
        b->spare = spare_of(d, b->area[0]);
    } else if (from->words == to->words) {
        if (!is_same(s, from)) /* in place: of a rank whose indices are all small */
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

/* Deals all records, a piece at a time. */
static int deal_rounds(struct deal *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    const uint64_t own = n_own(d->s);
    uint64_t dealt = 0;
    int rc = share_memory(d, err), more = 1;
    if (rc < 0) /* of all ranks */
        return rc;
    while (more) {
        rc = deal_round(d, rc, &more, err);
        dealt += d->piece;
        if (rc == 0 && more)
            rc = ts_build_tell(b, d->s->sort.what, "nonzeros", (dealt < own ? dealt : own) / 2, own,
                               err);
    }
    if (rc == 0 && d->s->from == b->kept)
        reuse_room(b);
    return rc;
}

static int give_sorted(struct deal *d, int taken, struct ts_err *err)
{
    return taken ? give_own(d, err) : give_all(d, err);
}

static int deal_all(struct deal *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    uint64_t *head = NULL;
    uint32_t *owner = NULL;
    int taken = 0, rc = choose_splits(d, &taken, err);
    if (rc == 0 && taken)
        d->total = n_own(d->s);
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
    struct deal d = { .b = b, .s = s, .c = b->ranks.comm };
    if (rc == 0)
        rc = new_deal(&d, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    if (rc == 0)
        rc = deal_all(&d, err);
    free_deal(&d);
    return rc;
}
