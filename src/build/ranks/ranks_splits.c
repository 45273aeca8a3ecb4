/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the records with which the ranges of the ranks begin. Each rank gets the records of its
 * range. */
#include <stdlib.h>

#include "build/ranks/ranks_deal.h"
#include "build/sort/record_sort.h"

/* number of samples that a rank takes on average */
#define SAMPLES     1024u
#define ALL_SAMPLES 32768u /* most samples in total */

/* Sets all bits of a record from `bits` on to zero. */
static void clear_rest(uint64_t *rec, uint32_t words, uint32_t bits)
{
    for (uint32_t w = 0; w < words; w++)
        if (64 * w + 64 > bits)
            rec[w] &= 64 * w >= bits ? 0 : ~(UINT64_MAX >> (bits - 64 * w));
}

/* Reads record number `at` of those that this rank has stored, and keeps only the bits that decide
 * its range. */
static int read_sample(struct ts_dealing *d, uint64_t at, uint64_t *to, struct ts_err *err)
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

/* Returns 1 if the records of this rank are in memory and already in the order that the sort will
 * give. */
static int are_sorted(const struct ts_dealing *d, struct ts_err *err)
{
    const struct ts_build_ranks_sort *s = d->s;
    const uint64_t *rec;
    if (!ts_deal_keeps_order(s) || s->n_from != 1 || s->from->n > s->from->head_n ||
        s->from->n > d->b->area_words / s->sort.to->words ||
        ts_spool_read(s->from, 0, s->from->n, NULL, &rec, err) < 0)
        return 0;
    return ts_record_is_sorted(rec, s->from->n, s->from->layout.words, d->b->memory.threads);
}

/* Sets *taken to 1 if no record has to be sent. That is so if the records of each rank are sorted,
 * and come after those of lower ranks. No key may be on two ranks, and no rank may have far more
 * records than the average. */
static int take_parts(struct ts_dealing *d, int *taken, struct ts_err *err)
{
    const uint32_t words = d->s->sort.to->words, each = 2 + 2 * words, n = d->c->n;
    const uint64_t own = ts_deal_own(d->s);
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

/* Chooses the splits (first records of ranges) by samples. Every step-th record of each rank is a
 * sample. The sorted samples of all ranks are divided into equal parts, so that the ranges have
 * about equally many records. */
static int take_samples(struct ts_dealing *d, struct ts_err *err)
{
    struct ts_build *b = d->b;
    struct ts_comm *c = d->c;
    const struct ts_record_layout *l = d->s->sort.to;
    const uint64_t own = ts_deal_own(d->s), bytes = l->words * sizeof(uint64_t);
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
                            b->memory.threads, NULL, b->work);
    for (uint32_t r = 1; r < c->n && n > 0; r++)
        memcpy(d->split + (uint64_t)(r - 1) * l->words, sorted + n * r / c->n * l->words, bytes);
    return 0;
}

int ts_deal_splits(struct ts_dealing *d, int *taken, struct ts_err *err)
{
    uint64_t least[2] = { d->piece, UINT64_MAX - ts_deal_own(d->s) };
    int rc = ts_build_comm_join(&d->b->ranks, 0, TS_JOIN_MIN, least, 2, err);
    d->piece = least[0] < UINT64_MAX - least[1] ? least[0] : UINT64_MAX - least[1];
    /* the most records of a round are at least 1, also if no rank has a record */
    d->piece += d->piece == 0;
    if (rc == 0)
        rc = take_parts(d, taken, err);
    if (rc == 0 && !*taken)
        rc = take_samples(d, err);
    ts_ranges_set(&d->ranges, d->split, d->c->n, d->s->sort.to->words);
    return rc;
}
