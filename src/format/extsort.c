#include "format/extsort.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/record_sort.h"
#include "format/tempfile.h"

#define SAMPLES 2048u      /* of a run, at most */
#define MIN_STEP 16u       /* records between samples, at least */
#define BUFFER_WORDS 65536u /* for converting what is in another layout */

struct run {
    struct ts_record_layout layout;
    uint64_t at, n;   /* byte in the file; records */
    uint64_t step;    /* records between samples */
    uint64_t n_samples;
    uint64_t *sample; /* records 0, step, 2 step, ...; from begin on in the final layout */
    uint64_t done;    /* records already returned */
};

/* A sample as a bound: records before it in its run are at most sample * step. */
struct bound {
    const uint64_t *rec;
    uint32_t run, words; /* words: of rec, for compare_bounds */
    uint64_t count;      /* records of the run before it */
};

struct ts_extsort {
    const char *tmp;
    uint32_t threads, key_bits;
    int fd;
    uint64_t file_bytes, left;
    struct run *run;
    uint32_t n_runs, run_room;
    struct ts_record_layout layout;
    uint64_t *area[2], area_words;
    struct bound *bound; /* all samples, ascending */
    uint64_t n_bounds, next_bound;
    uint64_t *buffer; /* BUFFER_WORDS as stored, then as many converted */
};

static const uint8_t same_fields[TS_RECORD_FIELDS] = { 0, 1, 2,  3,  4,  5,  6,  7, 8,
                                                       9, 10, 11, 12, 13, 14, 15, 16 };

int ts_extsort_new(const char *tmp, uint32_t threads, struct ts_extsort **ret, struct ts_err *err)
{
    struct ts_extsort *x = calloc(1, sizeof *x);
    if (x == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for sorting");
    x->tmp = tmp;
    x->threads = threads;
    x->fd = -1;
    *ret = x;
    return 0;
}

void ts_extsort_free(struct ts_extsort *x)
{
    if (x == NULL)
        return;
    for (uint32_t r = 0; r < x->n_runs; r++)
        free(x->run[r].sample);
    free(x->run);
    free(x->bound);
    free(x->buffer);
    if (x->fd >= 0)
        close(x->fd);
    free(x);
}

uint64_t ts_extsort_runs(const struct ts_extsort *x)
{
    return x->n_runs;
}

int ts_extsort_spill(struct ts_extsort *x, const struct ts_record_layout *layout,
                     const uint64_t *rec, uint64_t n, struct ts_err *err)
{
    const uint32_t words = layout->words;
    struct run r = { .layout = *layout, .n = n, .at = x->file_bytes };
    int rc;
    if (n == 0)
        return 0;
    if (x->fd < 0) {
        rc = ts_tempfile_new(x->tmp, &x->fd, err);
        if (rc < 0)
            return rc;
    }
    if (x->n_runs == x->run_room) {
        const uint32_t room = 2 * x->run_room + 16;
        struct run *more = realloc(x->run, room * sizeof *more);
        if (more == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for a list of sorted runs");
        x->run = more;
        x->run_room = room;
    }
    r.step = (n + SAMPLES - 1) / SAMPLES;
    r.step = r.step < MIN_STEP ? MIN_STEP : r.step;
    r.n_samples = (n + r.step - 1) / r.step;
    r.sample = malloc(r.n_samples * words * sizeof *rec);
    if (r.sample == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for samples of a sorted run");
    for (uint64_t i = 0; i < r.n_samples; i++)
        memcpy(r.sample + i * words, rec + i * r.step * words, words * sizeof *rec);
    x->run[x->n_runs++] = r;
    x->left += n;
    x->file_bytes += n * words * sizeof *rec;
    return ts_tempfile_write(x->fd, x->tmp, rec, n * words * sizeof *rec, r.at, err);
}

/* Equal samples of a run stay in its order, on which choose_bound relies and qsort need not keep. */
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

/* Samples in the layout that ranges will have. */
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

int ts_extsort_begin(struct ts_extsort *x, const struct ts_record_layout *layout,
                     uint32_t key_bits, uint64_t *const area[2], uint64_t area_words,
                     struct ts_err *err)
{
    uint64_t n = 0;
    x->layout = *layout;
    x->key_bits = key_bits;
    x->area[0] = area[0];
    x->area[1] = area[1];
    x->area_words = area_words;
    x->buffer = malloc((1 + TS_RECORD_WORDS) * BUFFER_WORDS * sizeof *x->buffer);
    for (uint32_t r = 0; r < x->n_runs; r++)
        n += x->run[r].n_samples;
    x->bound = malloc(n * sizeof *x->bound + 1);
    if (x->bound == NULL || x->buffer == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for samples of sorted runs");
    for (uint32_t r = 0; r < x->n_runs; r++) {
        struct run *run = &x->run[r];
        if (convert_samples(x, run) < 0)
            return ts_fail(err, TS_ENOMEM, "out of memory for samples of sorted runs");
        for (uint64_t i = 0; i < run->n_samples; i++)
            x->bound[x->n_bounds++] = (struct bound){ run->sample + i * layout->words, r,
                                                      layout->words, i * run->step };
    }
    qsort(x->bound, x->n_bounds, sizeof *x->bound, compare_bounds);
    return 0;
}

/* ------------------------------------------------------------------ reading runs */

/* Reads records [first, first + n) of a run to `to`, in the final layout. */
static int read_run(struct ts_extsort *x, const struct run *r, uint64_t first, uint64_t n,
                    uint64_t *to, struct ts_err *err)
{
    const uint32_t words = r->layout.words;
    const uint64_t piece = BUFFER_WORDS / words;
    if (memcmp(&r->layout, &x->layout, sizeof r->layout) == 0)
        return ts_tempfile_read(x->fd, x->tmp, to, n * words * sizeof *to,
                                r->at + first * words * sizeof *to, err);
    while (n > 0) {
        const uint64_t take = n < piece ? n : piece;
        const int rc = ts_tempfile_read(x->fd, x->tmp, x->buffer, take * words * sizeof *to,
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

/* Records of the run below the bound (`or_equal`: and those equal to it), from its samples and then
 * by bisection in the file. */
static int count_below(struct ts_extsort *x, const struct run *r, const uint64_t *bound,
                       int or_equal, uint64_t *ret, struct ts_err *err)
{
    const uint32_t words = x->layout.words;
    uint64_t rec[TS_RECORD_WORDS], low = 0, high = r->n_samples;
    while (low < high) { /* samples below */
        const uint64_t mid = (low + high) / 2;
        if (ts_record_compare(r->sample + mid * words, bound, words) < or_equal)
            low = mid + 1;
        else
            high = mid;
    }
    high = low * r->step < r->n ? low * r->step : r->n;
    low = low == 0 ? 0 : (low - 1) * r->step;
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

/* The largest bound that surely leaves no more than `room` records below it; NULL when none does. */
static const uint64_t *choose_bound(struct ts_extsort *x, uint64_t room)
{
    const uint64_t *best = NULL;
    uint64_t sum = 0, at;
    uint64_t *last = calloc(x->n_runs, sizeof *last); /* records that each run may add */
    if (last == NULL)
        return NULL;
    for (at = x->next_bound; at < x->n_bounds; at++) {
        const struct bound *b = &x->bound[at];
        const struct run *r = &x->run[b->run];
        /* below bound `at` lie at most the steps that the samples before it start */
        if (sum <= room && (best == NULL || at == 0 ||
                            ts_record_compare(x->bound[at - 1].rec, b->rec, x->layout.words) != 0))
            best = b->rec;
        if (sum > room)
            break;
        {
            uint64_t upto = b->count + r->step < r->n ? b->count + r->step : r->n;
            upto = upto > r->done ? upto - r->done : 0;
            sum += upto - last[b->run];
            last[b->run] = upto;
        }
    }
    free(last);
    return best;
}

/* Loads what every run has below the bound. Returns the records, or a failure. */
static int64_t load_below(struct ts_extsort *x, const uint64_t *bound, uint64_t room,
                          struct ts_err *err)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < x->n_runs; i++) {
        struct run *r = &x->run[i];
        uint64_t end = r->n;
        int rc = bound == NULL ? 0 : count_below(x, r, bound, 0, &end, err);
        if (rc < 0)
            return rc;
        if (end <= r->done)
            continue;
        if (n + end - r->done > room)
            end = r->done + (room - n); /* never: the bound was chosen so */
        rc = read_run(x, r, r->done, end - r->done, x->area[0] + n * x->layout.words, err);
        if (rc < 0)
            return rc;
        n += end - r->done;
        r->done = end;
    }
    return (int64_t)n;
}

/* The bounds do not help: too many records between two samples, or all the same. Loads some of the
 * smallest record alone: equal records need no order. */
static int64_t load_smallest(struct ts_extsort *x, uint64_t room, struct ts_err *err)
{
    const uint32_t words = x->layout.words;
    uint64_t rec[TS_RECORD_WORDS], least[TS_RECORD_WORDS], n = 0;
    int any = 0, rc;
    for (uint32_t i = 0; i < x->n_runs; i++) {
        struct run *r = &x->run[i];
        if (r->done == r->n)
            continue;
        rc = read_run(x, r, r->done, 1, rec, err);
        if (rc < 0)
            return rc;
        if (!any || ts_record_compare(rec, least, words) < 0)
            memcpy(least, rec, sizeof least);
        any = 1;
    }
    for (uint32_t i = 0; i < x->n_runs && n < room && any; i++) {
        struct run *r = &x->run[i];
        uint64_t end;
        rc = count_below(x, r, least, 1, &end, err);
        if (rc < 0)
            return rc;
        if (end <= r->done)
            continue;
        end = end - r->done > room - n ? r->done + (room - n) : end;
        rc = read_run(x, r, r->done, end - r->done, x->area[0] + n * words, err);
        if (rc < 0)
            return rc;
        n += end - r->done;
        r->done = end;
    }
    return (int64_t)n;
}

int ts_extsort_next(struct ts_extsort *x, uint64_t **rec, uint64_t *n, struct ts_err *err)
{
    const uint32_t words = x->layout.words;
    const uint64_t room = x->area_words / words;
    int64_t got = 0;
    *n = 0;
    if (x->left == 0)
        return 0;
    while (x->next_bound < x->n_bounds) { /* those whose records are out already */
        const struct bound *b = &x->bound[x->next_bound];
        const struct run *r = &x->run[b->run];
        if ((b->count + r->step < r->n ? b->count + r->step : r->n) > r->done)
            break;
        x->next_bound++;
    }
    if (x->left <= room) {
        got = load_below(x, NULL, room, err);
    } else {
        const uint64_t *bound = choose_bound(x, room);
        got = bound == NULL ? 0 : load_below(x, bound, room, err);
        if (got == 0)
            got = load_smallest(x, room, err);
    }
    if (got < 0)
        return (int)got;
    x->left -= (uint64_t)got;
    *rec = ts_record_sort(x->area[0], x->area[1], (uint64_t)got, words, x->key_bits,
                          x->layout.bits, x->threads);
    *n = (uint64_t)got;
    return 0;
}

int ts_extsort_at_end(const struct ts_extsort *x)
{
    return x->left == 0;
}
