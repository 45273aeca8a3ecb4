/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores the batches of nonzeros that the threads of a source give, as records in one array.
 * Batches get their place in the array in the order of their numbers, and threads then pack them at
 * the same time. */
#include "build/collect.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PIECE UINT64_C(256) /* records packed at a time */

int ts_collect_init(struct ts_collect *c, uint32_t order, uint32_t value_bits, uint64_t *array,
                    uint64_t room_words, uint32_t sources, struct ts_err *err)
{
    uint32_t width[TS_RECORD_FIELDS] = { 0 };
    memset(c, 0, sizeof *c);
    c->order = order;
    c->value_bits = value_bits;
    c->array = array;
    c->room_words = room_words;
    c->sources = sources;
    width[order] = value_bits;
    ts_record_layout_set(&c->layout, order + 1, width);
    c->segment_room = 1024;
    c->segment = malloc(c->segment_room * sizeof *c->segment);
    if (c->segment == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a list of batches");
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->moved, NULL);
    pthread_cond_init(&c->wanted, NULL);
    return 0;
}

void ts_collect_fini(struct ts_collect *c)
{
    if (c->segment == NULL)
        return;
    free(c->segment);
    c->segment = NULL;
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->moved);
    pthread_cond_destroy(&c->wanted);
}

/* Returns the layout that can hold this batch and all before it. */
static struct ts_record_layout grown_layout(const struct ts_collect *c, const struct ts_batch *b)
{
    struct ts_record_layout grown = c->layout;
    uint32_t width[TS_RECORD_FIELDS];
    for (uint32_t m = 0; m < c->order; m++) {
        const uint32_t need = ts_record_width(b->max[m]);
        width[m] = need > c->layout.width[m] ? need : c->layout.width[m];
    }
    width[c->order] = c->value_bits;
    if (memcmp(width, c->layout.width, (c->order + 1) * sizeof *width) != 0)
        ts_record_layout_set(&grown, c->order + 1, width);
    return grown;
}

/* Whether n more records of `words` words fit in the array, also after all earlier records are
 * converted to that length. */
static int has_room(const struct ts_collect *c, uint32_t words, uint64_t n)
{
    return c->used_words + n * words <= c->room_words && (c->n + n) * words <= c->room_words;
}

static void note_failure(struct ts_collect *c, const struct ts_err *why)
{
    if (!c->failed)
        c->err = *why;
    c->failed = 1;
    pthread_cond_broadcast(&c->moved);
    pthread_cond_broadcast(&c->wanted);
}

static struct ts_collect_segment *add_segment(struct ts_collect *c, uint64_t n)
{
    struct ts_collect_segment *s;
    if (c->n_segments == c->segment_room) {
        s = realloc(c->segment, 2 * (size_t)c->segment_room * sizeof *s);
        if (s == NULL)
            return NULL;
        c->segment = s;
        c->segment_room *= 2;
    }
    s = &c->segment[c->n_segments++];
    s->at = c->used_words;
    s->first = c->n;
    s->n = n;
    s->layout = c->layout;
    c->used_words += n * c->layout.words;
    c->n += n;
    return s;
}

/* Waits until all batches with lower numbers have places in the array. Returns 0, or -1 after a
 * failure of any thread. */
static int wait_turn(struct ts_collect *c, uint64_t number)
{
    while (number != TS_SINK_ANY && c->turn != number && !c->failed)
        pthread_cond_wait(&c->moved, &c->lock);
    return c->failed ? -1 : 0;
}

/* Makes records of a batch, and adds its nonzeros to the checksum. It handles PIECE nonzeros at a
 * time, which stay in the cache, and in these one field after the other. */
static void pack(const struct ts_batch *b, int weights, const struct ts_record_layout *l,
                 uint64_t *out, struct ts_cell_sum *sum)
{
    const uint32_t order = b->order;
    for (uint64_t first = 0; first < b->n; first += PIECE) {
        const uint32_t n = b->n - first < PIECE ? (uint32_t)(b->n - first) : PIECE;
        const uint64_t *index = b->index + first * order, *value = b->value + first;
        uint64_t rec[PIECE * TS_RECORD_WORDS], column[PIECE], s[PIECE];
        memset(rec, 0, n * l->words * sizeof *rec);
        memset(s, 0, n * sizeof *s);
        for (uint32_t m = 0; m < order; m++) {
            for (uint32_t i = 0; i < n; i++)
                column[i] = index[(uint64_t)i * order + m];
            ts_cell_sum_term(s, column, n, ts_cell_key(m));
            ts_record_put_column(l, rec, n, m, column, 1);
        }
        if (weights)
            ts_cell_sum_weighted(s, value, n);
        else
            ts_cell_sum_term(s, value, n, ts_cell_key(TS_CELL_VALUE));
        ts_cell_sum_mix(s, n, 0, sum);
        ts_record_put_column(l, rec, n, order, value, 1);
        memcpy(out + first * l->words, rec, n * l->words * sizeof *rec);
    }
}

/* Waits until the array has space for the batch, in a layout that holds its indices. While the
 * array is full no batch enters, however small, because records and layout are being changed. The
 * layout grows only when a batch enters: the records of earlier batches might not fit in the array
 * in a longer layout. Returns 0, or -1 after a failure. */
static int enter(struct ts_collect *c, const struct ts_batch *b)
{
    static const struct ts_err no_room = { TS_ENOMEM, 0,
                                           "too little memory for the nonzeros that "
                                           "are read at a time" };
    for (;;) {
        struct ts_record_layout grown;
        while (c->full && !c->failed)
            pthread_cond_wait(&c->moved, &c->lock);
        if (c->failed)
            return -1;
        grown = grown_layout(c, b);
        if (has_room(c, grown.words, b->n)) {
            c->layout = grown;
            for (uint32_t m = 0; m < c->order; m++)
                c->max[m] = b->max[m] > c->max[m] ? b->max[m] : c->max[m];
            return 0;
        }
        if (c->n == 0) {
            note_failure(c, &no_room);
            return -1;
        }
        c->full = 1;
        pthread_cond_signal(&c->wanted);
    }
}

static int put_batch(void *self, uint64_t number, const struct ts_batch *b)
{
    struct ts_collect *c = self;
    static const struct ts_err no_memory = { TS_ENOMEM, 0, "out of memory for a list of batches" };
    struct ts_record_layout layout;
    const struct ts_collect_segment *s;
    struct ts_cell_sum records = { 0 };
    uint64_t *out;
    pthread_mutex_lock(&c->lock);
    if (wait_turn(c, number) < 0)
        goto failed;
    if (enter(c, b) < 0)
        goto failed;
    s = add_segment(c, b->n);
    if (s == NULL) {
        note_failure(c, &no_memory);
        goto failed;
    }
    out = c->array + s->at;
    layout = s->layout;
    c->n_read += b->n_read;
    c->n_zeros += b->n_zeros;
    if (b->rounded_line > 0 && c->rounded_line == 0) {
        c->rounded_line = (b->file == c->file ? c->n_lines : 0) + b->rounded_line;
        c->rounded_file = b->file;
    }
    c->n_rounded += b->n_rounded;
    c->n_missing += b->n_missing;
    c->n_lines = (b->file == c->file ? c->n_lines : 0) + b->n_lines;
    c->file = b->file;
    c->packing++;
    if (number != TS_SINK_ANY) {
        c->turn++;
        pthread_cond_broadcast(&c->moved);
    }
    pthread_mutex_unlock(&c->lock);
    pack(b, c->weights, &layout, out, &records);
    pthread_mutex_lock(&c->lock);
    ts_cell_sum_join(&c->records, &records);
    c->packing--;
    if (c->packing == 0)
        pthread_cond_signal(&c->wanted);
    pthread_mutex_unlock(&c->lock);
    return 0;
failed:
    pthread_mutex_unlock(&c->lock);
    return -1;
}

static void done(void *self)
{
    struct ts_collect *c = self;
    pthread_mutex_lock(&c->lock);
    c->sources--;
    pthread_cond_signal(&c->wanted);
    pthread_mutex_unlock(&c->lock);
}

static void fail_batch(void *self, uint64_t number, const struct ts_err *why, const char *name,
                       uint32_t file, uint64_t line)
{
    struct ts_collect *c = self;
    struct ts_err placed = *why;
    pthread_mutex_lock(&c->lock);
    if (wait_turn(c, number) == 0) {
        if (name != NULL)
            ts_fail(&placed, why->code, "%s:%llu: %s", name,
                    (unsigned long long)(line + (file == c->file ? c->n_lines : 0)), why->text);
        note_failure(c, &placed);
    }
    pthread_mutex_unlock(&c->lock);
}

static void tell_why(void *self, struct ts_err *ret)
{
    struct ts_collect *c = self;
    pthread_mutex_lock(&c->lock);
    *ret = c->err;
    pthread_mutex_unlock(&c->lock);
}

struct ts_sink ts_collect_sink(struct ts_collect *c)
{
    return (struct ts_sink){
        .self = c, .put = put_batch, .done = done, .fail = fail_batch, .why = tell_why
    };
}

void ts_collect_cancel(struct ts_collect *c, const struct ts_err *why)
{
    pthread_mutex_lock(&c->lock);
    note_failure(c, why);
    pthread_mutex_unlock(&c->lock);
}

int ts_collect_wait(struct ts_collect *c, struct ts_err *err)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&c->lock);
    while (rc == 0 && (c->packing > 0 || !(c->sources == 0 || (c->full && !c->failed))))
        rc = pthread_cond_timedwait(&c->wanted, &c->lock, &until);
    if (rc != 0)
        rc = TS_COLLECT_BUSY;
    else if (c->failed)
        rc = c->err.code;
    else
        rc = c->full ? TS_COLLECT_FULL : 0;
    if (rc < 0 && err != NULL)
        *err = c->err;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

uint64_t *ts_collect_settle(struct ts_collect *c, uint64_t *scratch, uint32_t threads)
{
    static const uint8_t same[TS_RECORD_FIELDS] = { 0, 1,  2,  3,  4,  5,  6,  7, 8,
                                                    9, 10, 11, 12, 13, 14, 15, 16 };
    int differ = 0, longer = 0;
    uint64_t *to;
    for (uint32_t i = 0; i < c->n_segments; i++) {
        const struct ts_record_layout *l = &c->segment[i].layout;
        differ |= memcmp(l, &c->layout, sizeof *l) != 0;
        longer |= l->words != c->layout.words;
    }
    if (!differ)
        return c->array;
    to = longer ? scratch : c->array; /* records that keep their length are converted in place */
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (uint32_t i = 0; i < c->n_segments; i++) {
        const struct ts_collect_segment *s = &c->segment[i];
        if (longer || memcmp(&s->layout, &c->layout, sizeof s->layout) != 0)
            ts_record_convert(&s->layout, c->array + s->at, &c->layout, same,
                              to + s->first * c->layout.words, s->n);
    }
    c->array = to;
    return to;
}

void ts_collect_again(struct ts_collect *c, uint32_t sources)
{
    pthread_mutex_lock(&c->lock);
    c->sources = sources;
    pthread_mutex_unlock(&c->lock);
}

void ts_collect_resume(struct ts_collect *c, uint64_t *array)
{
    pthread_mutex_lock(&c->lock);
    c->array = array;
    c->used_words = c->n = 0;
    c->n_segments = 0;
    c->full = 0;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
}
