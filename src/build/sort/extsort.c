/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores sorted runs of records in a file. Then returns all records in order: one range of keys
 * after another, each with as many records as memory allows, read from all runs and sorted. */
#include "build/sort/extsort.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/files/sorted_runs.h"
#include "base/stop.h"
#include "base/files/tempfile.h"
#include "build/sort/record_sort.h"

/* most samples of a run, which are records kept in memory to show where its keys are */
#define SAMPLES 2048u
/* most samples of all runs; if there are more, every second sample is dropped */
#define ALL_SAMPLES 65536u
/* most bytes of all samples; beyond that every second sample is dropped, too */
#define ALL_BYTES    (UINT64_C(4) << 20)
#define MIN_STEP     16u    /* fewest records between samples */
#define BUFFER_WORDS 65536u /* words of the buffer for records of another layout */

/* A sorted run of records in the file. */
struct run {
    struct ts_record_layout layout;
    uint64_t at, n; /* offset in the file, in bytes; number of records */
    uint64_t step;  /* number of records from one sample to the next */
    uint64_t n_samples;
    /* samples: records 0, step, 2 step, ...; begin_ranges converts them to the final layout */
    uint64_t *sample;
    uint64_t done; /* number of records of this run that were returned already */

    /* members about the range that is being chosen, as numbers of records in this run */
    uint64_t end;  /* records before this number are certainly in the range */
    uint64_t over; /* records from this number on are certainly not in the range */
    uint64_t cut;  /* number of records below the end of the range that is being tried */
    uint64_t may;  /* upper bound, by the samples, of the number of records below a sample */
};

/* A sample that may become the end of a range. `count` records of its run come before it. */
struct bound {
    const uint64_t *rec;
    uint32_t run, words; /* words: length of rec, for compare_bounds */
    uint64_t count;      /* number of records of the run before the sample */
};

struct ts_extsort {
    struct ts_sorted_runs runs;
    struct run *run; /* array of runs.n runs */
    uint32_t threads;
    _Atomic uint64_t *work;
    uint64_t left;    /* number of records of all runs that were not returned yet */
    uint32_t thinned; /* how often every second sample was dropped */
    uint64_t n_samples;
    struct ts_record_layout layout;
    struct ts_extsort_area area; /* two areas of memory for the records of a range, in `layout` */
    /* all records, sorted, if there are no runs; NULL: there are runs, or the records were
     * returned */
    uint64_t *whole, n_whole;
    struct bound *bound; /* all samples, ascending */
    uint64_t n_bounds, next_bound;
    uint64_t *buffer; /* BUFFER_WORDS words, to convert records while they are read */
};

static const uint8_t same_fields[TS_RECORD_FIELDS] = { 0, 1,  2,  3,  4,  5,  6,  7, 8,
                                                       9, 10, 11, 12, 13, 14, 15, 16 };

int ts_extsort_new(const char *tmp, uint32_t threads, const volatile sig_atomic_t *stop,
                   _Atomic uint64_t *work, struct ts_extsort **ret, struct ts_err *err)
{
    struct ts_extsort *x = calloc(1, sizeof *x);
    if (x == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for sorting");
    x->runs = (struct ts_sorted_runs){ tmp, "a list of sorted runs", stop, .fd = -1 };
    x->threads = threads;
    x->work = work;
    *ret = x;
    return 0;
}

uint64_t ts_extsort_bytes(const struct ts_extsort *x)
{
    return x->runs.bytes;
}

void ts_extsort_free(struct ts_extsort *x)
{
    if (x == NULL)
        return;
    for (uint32_t r = 0; r < x->runs.n; r++)
        free(x->run[r].sample);
    free(x->bound);
    free(x->buffer);
    ts_sorted_runs_close(&x->runs);
    free(x);
}

uint64_t ts_extsort_runs(const struct ts_extsort *x)
{
    return x->runs.n;
}

/* Drops every second sample, so that any number of runs needs little memory. The step between
 * samples doubles. */
static void thin_samples(struct ts_extsort *x)
{
    x->n_samples = 0;
    x->thinned++;
    for (uint32_t i = 0; i < x->runs.n; i++) {
        struct run *r = &x->run[i];
        const uint32_t words = r->layout.words;
        uint64_t *less;
        r->step *= 2;
        r->n_samples = (r->n_samples + 1) / 2;
        for (uint64_t k = 1; k < r->n_samples; k++)
            memcpy(r->sample + k * words, r->sample + 2 * k * words, words * sizeof *r->sample);
        less = realloc(r->sample, r->n_samples * words * sizeof *r->sample);
        r->sample = less != NULL ? less : r->sample;
        x->n_samples += r->n_samples;
    }
}

int ts_extsort_spill(struct ts_extsort *x, const struct ts_record_layout *layout,
                     const uint64_t *rec, uint64_t n, struct ts_err *err)
{
    const uint32_t words = layout->words;
    struct run r = { .layout = *layout, .n = n, .at = x->runs.bytes };
    const int rc = n == 0 ? 0 : ts_sorted_runs_room(&x->runs, sizeof r, err);
    if (rc < 0 || n == 0)
        return rc;
    x->run = x->runs.list;
    r.step = (n + SAMPLES - 1) / SAMPLES;
    r.step = (r.step < MIN_STEP ? MIN_STEP : r.step) << x->thinned;
    r.n_samples = (n + r.step - 1) / r.step;
    r.sample = malloc(r.n_samples * words * sizeof *rec);
    if (r.sample == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for samples of a sorted run");
    for (uint64_t i = 0; i < r.n_samples; i++)
        memcpy(r.sample + i * words, rec + i * r.step * words, words * sizeof *rec);
    x->run[x->runs.n++] = r;
    x->n_samples += r.n_samples;
    if ((x->n_samples > ALL_SAMPLES ||
         x->n_samples * (words * sizeof *rec + sizeof *x->bound) > ALL_BYTES) &&
        x->n_samples > x->runs.n)
        thin_samples(x);
    x->left += n;
    return ts_sorted_runs_append(&x->runs, rec, n * words * sizeof *rec, err);
}

static uint64_t *sort_area(const struct ts_extsort *x, const struct ts_extsort_area *a)
{
    return ts_record_sort(a->mem[0], a->mem[1], a->n, a->layout->words, a->key_bits,
                          a->layout->bits, x->threads, x->runs.stop, x->work);
}

int ts_extsort_add(struct ts_extsort *x, const struct ts_extsort_area *a, struct ts_err *err)
{
    const uint64_t *sorted = sort_area(x, a);
    /* a sort that was stopped leaves undefined records, which must not be stored */
    const int rc = ts_stop_check(x->runs.stop, err);
    return rc < 0 ? rc : ts_extsort_spill(x, a->layout, sorted, a->n, err);
}

/* Compares bounds (samples) for qsort. Equal samples of one run keep their order. choose_bounds
 * needs that, and qsort alone does not guarantee it. */
static int compare_bounds(const void *pa, const void *pb)
{
    const struct bound *a = pa, *b = pb;
    const int order = ts_record_compare(a->rec, b->rec, a->words);
    if (order != 0)
        return order;
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    return a->count < b->count ? -1 : a->count > b->count;
}

/* Converts the samples of a run to x->layout. */
static int convert_samples(struct ts_extsort *x, struct run *r)
{
    uint64_t *more;
    if (memcmp(&r->layout, &x->layout, sizeof r->layout) == 0)
        return 0;
    more = malloc(r->n_samples * x->layout.words * sizeof *more);
    if (more == NULL)
        return -1;
    ts_record_convert(&r->layout, r->sample, &x->layout, same_fields, more, r->n_samples);
    free(r->sample);
    r->sample = more;
    return 0;
}

/* Prepares the reading of ranges of records. To be called when all records are in runs. */
static int begin_ranges(struct ts_extsort *x, const struct ts_extsort_area *a, struct ts_err *err)
{
    x->layout = *a->layout;
    x->area = *a;
    x->area.layout = &x->layout;
    x->buffer = malloc(BUFFER_WORDS * sizeof *x->buffer);
    x->bound = malloc(x->n_samples * sizeof *x->bound + 1);
    if (x->bound == NULL || x->buffer == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for samples of sorted runs");
    for (uint32_t r = 0; r < x->runs.n; r++) {
        struct run *run = &x->run[r];
        if (convert_samples(x, run) < 0)
            return ts_fail(err, TS_ENOMEM, "out of memory for samples of sorted runs");
        for (uint64_t i = 0; i < run->n_samples; i++)
            x->bound[x->n_bounds++] = (struct bound){ run->sample + i * x->layout.words, r,
                                                      x->layout.words, i * run->step };
    }
    qsort(x->bound, x->n_bounds, sizeof *x->bound, compare_bounds);
    return 0;
}

int ts_extsort_end(struct ts_extsort *x, const struct ts_extsort_area *a, struct ts_err *err)
{
    int rc;
    if (x->runs.n == 0) {
        x->whole = sort_area(x, a);
        x->n_whole = a->n;
        return ts_stop_check(x->runs.stop, err);
    }
    rc = ts_extsort_add(x, a, err);
    return rc < 0 ? rc : begin_ranges(x, a, err);
}

/* ------------------------------------------------------------------ reading runs */

/* Reads records [first, first + n) of a run into `to`, converted to x->layout. */
static int read_run(struct ts_extsort *x, const struct run *r, uint64_t first, uint64_t n,
                    uint64_t *to, struct ts_err *err)
{
    const uint32_t words = r->layout.words;
    const uint64_t piece = BUFFER_WORDS / words;
    if (memcmp(&r->layout, &x->layout, sizeof r->layout) == 0)
        return ts_tempfile_read(x->runs.fd, x->runs.tmp, to, n * words * sizeof *to,
                                r->at + first * words * sizeof *to, err);
    while (n > 0) {
        const uint64_t take = n < piece ? n : piece;
        const int rc =
            ts_tempfile_read(x->runs.fd, x->runs.tmp, x->buffer, take * words * sizeof *to,
                             r->at + first * words * sizeof *to, err);
        if (rc < 0)
            return rc;
        ts_record_convert(&r->layout, x->buffer, &x->layout, same_fields, to, take);
        to += take * x->layout.words;
        first += take;
        n -= take;
    }
    return 0;
}

/* Sets *ret to the number of records of a run that are below the bound, or with or_equal 1 not
 * above it. The number must be in r->end .. r->over. Uses the samples first, and then bisection in
 * the file. */
static int count_below(struct ts_extsort *x, const struct run *r, const uint64_t *bound,
                       int or_equal, uint64_t *ret, struct ts_err *err)
{
    const uint32_t words = x->layout.words;
    uint64_t rec[TS_RECORD_WORDS], low = 0, high = r->n_samples;
    while (low < high) { /* bisection among the samples of the run */
        const uint64_t mid = (low + high) / 2;
        if (ts_record_compare(r->sample + mid * words, bound, words) < or_equal)
            low = mid + 1;
        else
            high = mid;
    }
    high = low * r->step < r->over ? low * r->step : r->over;
    low = low == 0 ? 0 : (low - 1) * r->step;
    low = low < r->end ? r->end : low;
    while (low < high) {
        const uint64_t mid = (low + high) / 2;
        const int rc = read_run(x, r, mid, 1, rec, err);
        if (rc < 0)
            return rc;
        if (ts_record_compare(rec, bound, words) < or_equal)
            low = mid + 1;
        else
            high = mid;
    }
    *ret = low;
    return 0;
}

/* ------------------------------------------------------------------ choosing a range */

/* Chooses two bounds for the end of the next range from the samples alone. Either may be NULL.
 * *sure: the largest bound for which at most `room` records are certainly below it. With many runs
 * that makes a small range, because each run may have up to a step more than its samples show.
 * *likely: a larger bound, for which each run is assumed to have half a step more. */
static void choose_bounds(struct ts_extsort *x, uint64_t room, const uint64_t **sure,
                          const uint64_t **likely)
{
    /* sum: upper bound of the records below the bound; half: half of the last step of each run */
    uint64_t sum = 0, half = 0;
    *sure = *likely = NULL;
    for (uint32_t i = 0; i < x->runs.n; i++)
        x->run[i].may = 0;
    for (uint64_t at = x->next_bound; at < x->n_bounds && sum - half <= room / 4 * 3; at++) {
        const struct bound *b = &x->bound[at];
        struct run *r = &x->run[b->run];
        uint64_t upto = b->count + r->step < r->n ? b->count + r->step : r->n;
        /* the records below bound `at` are at most the steps of the samples before it */
        if (at == 0 || ts_record_compare(x->bound[at - 1].rec, b->rec, x->layout.words) != 0) {
            *sure = sum <= room ? b->rec : *sure;
            *likely = b->rec;
        }
        upto = upto > r->done ? upto - r->done : 0;
        if (r->may == 0)
            half += (upto < r->step ? upto : r->step) / 2;
        sum += upto - r->may;
        r->may = upto;
    }
}

/* Counts the records below the bound, and sets `end` or `over` of each run from that. Returns 1 if
 * at most `room` records are below it, with *n their number; 0 if there are more; or a failure. */
static int try_bound(struct ts_extsort *x, const uint64_t *bound, int or_equal, uint64_t room,
                     uint64_t *n, struct ts_err *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < x->runs.n; i++) {
        struct run *r = &x->run[i];
        const int rc = count_below(x, r, bound, or_equal, &r->cut, err);
        if (rc < 0)
            return rc;
        sum += r->cut - r->done;
    }
    for (uint32_t i = 0; i < x->runs.n; i++) {
        struct run *r = &x->run[i];
        if (sum <= room)
            r->end = r->cut;
        else
            r->over = r->cut;
    }
    if (sum > room)
        return 0;
    *n = sum;
    return 1;
}

/* Reads a random undecided record: one that is neither certainly in the range that is being chosen
 * nor certainly outside of it. */
static int draw_bound(struct ts_extsort *x, uint64_t *rec, struct ts_err *err)
{
    const struct run *r = x->run;
    uint64_t open = 0, k;
    for (uint32_t i = 0; i < x->runs.n; i++)
        open += x->run[i].over - x->run[i].end;
    /* there are undecided records, since those before `end` fit in memory and those before `over`
     * do not */
    assert(open > 0);
    for (k = ts_mix(x->left + open) % open; k >= r->over - r->end; r++)
        k -= r->over - r->end;
    return read_run(x, r, r->end + k, 1, rec, err);
}

/* Adds records that are neither certainly in the range nor certainly outside, until the range has
 * `room` records. They are all equal, so it does not matter which. Returns the number of records in
 * the range. */
static uint64_t take_equal(struct ts_extsort *x, uint64_t room, uint64_t n)
{
    for (uint32_t i = 0; i < x->runs.n; i++) {
        struct run *r = &x->run[i];
        const uint64_t open = r->over - r->end, take = open < room - n ? open : room - n;
        r->end += take;
        n += take;
    }
    return n;
}

/* Chooses where the next range ends in each run. The range gets *n records: at most `room`, and at
 * least half of that, because a small range needs as many reads as a large one. If the bounds from
 * the samples give too few, it tries random records as bounds, as quickselect does. */
static int choose_range(struct ts_extsort *x, uint64_t room, uint64_t *n, struct ts_err *err)
{
    const uint64_t *guess[2];
    uint64_t rec[TS_RECORD_WORDS];
    int rc;
    *n = 0;
    choose_bounds(x, room, &guess[0], &guess[1]);
    for (uint32_t i = 0; i < x->runs.n; i++) {
        x->run[i].end = x->run[i].done;
        x->run[i].over = x->run[i].n;
    }
    for (int i = 0; i < 2 && *n < (room + 1) / 2; i++) {
        rc = guess[i] == NULL ? 0 : try_bound(x, guess[i], 0, room, n, err);
        if (rc < 0)
            return rc;
    }
    while (*n < (room + 1) / 2) {
        rc = draw_bound(x, rec, err);
        if (rc == 0)
            rc = try_bound(x, rec, 0, room, n, err);
        if (rc < 0)
            return rc;
        if (rc == 0) /* too many: `rec` and larger records are now outside the range */
            continue;
        rc = try_bound(x, rec, 1, room, n, err);
        if (rc < 0)
            return rc;
        if (rc == 0) { /* all records that are still undecided equal `rec` */
            *n = take_equal(x, room, *n);
            return 0;
        }
    }
    return 0;
}

/* Reads the records of the range from all runs into area[0]. */
static int load_range(struct ts_extsort *x, struct ts_err *err)
{
    uint64_t *to = x->area.mem[0];
    for (uint32_t i = 0; i < x->runs.n; i++) {
        struct run *r = &x->run[i];
        const uint64_t n = r->end - r->done;
        int rc = ts_stop_check(x->runs.stop, err);
        if (rc == 0 && n > 0)
            rc = read_run(x, r, r->done, n, to, err);
        if (rc < 0)
            return rc;
        to += n * x->layout.words;
        r->done = r->end;
    }
    return 0;
}

int ts_extsort_next(struct ts_extsort *x, uint64_t **rec, uint64_t *n, struct ts_err *err)
{
    uint64_t got = x->left, room;
    int rc = 0;
    *n = x->n_whole;
    *rec = x->whole;
    x->whole = NULL;
    x->n_whole = 0;
    if (x->left == 0)
        return 0;
    while (x->next_bound < x->n_bounds) { /* skips samples below which all records were returned */
        const struct bound *b = &x->bound[x->next_bound];
        const struct run *r = &x->run[b->run];
        if ((b->count + r->step < r->n ? b->count + r->step : r->n) > r->done)
            break;
        x->next_bound++;
    }
    room = x->area.words / x->layout.words;
    if (x->left > room)
        rc = choose_range(x, room, &got, err);
    else
        for (uint32_t i = 0; i < x->runs.n; i++)
            x->run[i].end = x->run[i].n;
    if (rc == 0)
        rc = load_range(x, err);
    if (rc < 0)
        return rc;
    x->left -= got;
    x->area.n = *n = got;
    *rec = sort_area(x, &x->area);
    return ts_stop_check(x->runs.stop, err);
}

int ts_extsort_at_end(const struct ts_extsort *x)
{
    return x->left == 0;
}
