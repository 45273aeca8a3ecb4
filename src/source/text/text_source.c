/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads text with several threads, which take pieces of text in turn, parse them, and put the
 * nonzeros into the sink. Reading, parsing and naming stay in one file, because one lock protects
 * the state of all three. */
#include "source/text/text_source.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/setting.h"
#include "source/binary/binary_kind.h"
#include "source/text/foreign_text.h"
#include "source/text/text_input.h"
#include "source/text/text_kind.h"
#include "source/text/text_order.h"
#include "source/source_threads.h"

struct worker {
    struct ts_source_thread thread;
    struct ts_text_source *source;
    struct ts_batch batch;
    char *text, *side; /* the piece of text; side text (rewritten fields), or NULL */
};

struct ts_text_source {
    struct ts_files_plan plan;
    /* the kind of text of the first file, which all files must have */
    const struct ts_text_kind *kind;
    void *form;
    struct ts_tns_rules rules;
    struct ts_text_input *input;
    struct ts_sink to;
    struct worker *worker; /* array of plan.threads workers */
    uint32_t threads;      /* number of workers in use */

    pthread_mutex_t lock; /* protects the members below and the input */
    /* the first piece of text, in worker[0].text: read to find the order, but not parsed yet */
    struct ts_text_piece pending;
    /* number of lines before `pending` in its file, which all are comments */
    uint64_t pending_lines;
    uint64_t next_number;
    int ended; /* 1: the input has ended, or failed */
    /* 1: the file had only comments so far, so that a header may follow */
    int at_start;
    /* bytes on disk that were read; atomic: progress reads it without the lock */
    uint64_t done_bytes;
    struct file_count *count; /* counts of nonzeros, for each file */

    /* For names (names.h): when all pieces are read, one thread gives names their indices. Then all
     * threads pass the nonzeros that waited for indices to the sink. */
    struct ts_names *names;
    pthread_cond_t read;
    uint32_t reading; /* number of threads that still read */
    enum { NAMES_OPEN, NAMES_ENDING, NAMES_KNOWN, NAMES_BROKEN } names_state;
};

struct file_count {
    int has_header;
    uint64_t header_nnz;
    uint64_t n_read; /* nonzeros read of the file; atomic */
};

static const char *name_of(const struct ts_text_source *s, uint32_t file)
{
    return strcmp(s->plan.paths[file], "-") == 0 ? "standard input" : s->plan.paths[file];
}

const struct ts_tns_rules *ts_text_source_rules(const struct ts_text_source *s)
{
    return &s->rules;
}

const struct ts_text_kind *ts_text_source_kind(const struct ts_text_source *s)
{
    return s->kind;
}

/* ------------------------------------------------------------------ opening the source */

/* Reads the next piece of text. Refuses a binary file among text files. */
static int next_piece(struct ts_text_source *s, char *text, struct ts_text_piece *ret,
                      struct ts_err *err)
{
    int rc = ts_text_input_next(s->input, text, ret, err);
    const struct ts_binary_kind *kind;
    const size_t n = ret->bad_line ? s->plan.piece_bytes - 1 : ret->bytes;
    if (!ret->first || n == 0 || (rc < 0 && !ret->bad_line))
        return rc;
    kind = ts_binary_kind_find((const unsigned char *)text, n);
    if (kind == NULL) {
        const int foreign = ts_foreign_text_check(name_of(s, ret->file), text, n, err);
        ret->bad_line = foreign < 0 ? 0 : ret->bad_line;
        return foreign < 0 ? foreign : rc;
    }
    ret->bad_line = 0;
    return ts_fail(err, TS_EFORMAT,
                   "%s: a %s file, but %s is text; text and binary files do not go into one tensor",
                   name_of(s, ret->file), kind->name, name_of(s, 0));
}

/* Takes the sizes from a header, or compares them with those known. To be called under the lock, or
 * before there are threads. */
static int take_header(struct ts_text_source *s, const struct ts_tns_header *h, uint32_t file,
                       struct ts_err *err)
{
    struct ts_tns_rules *r = &s->rules;
    if (r->order == 0)
        r->order = h->order;
    if (r->order != h->order)
        return ts_fail(err, TS_EFORMAT, "a header for %u mode%s, expected %u", h->order,
                       ts_num_plural(h->order), r->order);
    if (!h->sized)
        return 0;
    for (uint32_t m = 0; r->fixed && m < h->order; m++)
        if (r->dim[m] != h->dim[m])
            return ts_fail(err, TS_EFORMAT,
                           "the header makes " TS_NTH_MODE " %" PRIu64 " long, but %s "
                           "%" PRIu64,
                           m + 1, h->dim[m], r->fixed_by, r->dim[m]);
    r->fixed = 1;
    if (r->fixed_by == NULL)
        r->fixed_by = "the header";
    memcpy(r->dim, h->dim, sizeof r->dim);
    s->count[file].has_header = 1;
    s->count[file].header_nnz = h->nnz;
    return 0;
}

/* Checks that the line that gives the order has a valid one. Returns 1, or a failure. */
static int check_order(const struct ts_text_source *s, const char *first, uint64_t number,
                       struct ts_err *err)
{
    const struct ts_text_line line = { name_of(s, s->pending.file), number, first,
                                       s->worker[0].text + s->pending.bytes };
    const int rc = ts_text_order_check(&s->plan, &line, s->rules.order, err);
    return rc < 0 ? rc : 1;
}

/* Finds the order from the first line of the pending piece that is no comment: it is a header, or
 * its fields are counted. Returns 1, 0 if there is no such line, or a failure. */
static int order_of_piece(struct ts_text_source *s, struct ts_err *err)
{
    const char *const text = s->worker[0].text, *first, *end;
    struct ts_tns_header h = { 0 };
    struct ts_err why;
    uint64_t line = 0, before = 0;
    uint32_t fields;
    int rc;
    if (s->kind == NULL && s->plan.table != NULL)
        s->kind = &ts_text_table;
    else if (s->kind == NULL)
        s->kind = ts_text_kind_find(text, s->pending.bytes);
    s->rules.base = s->plan.base;
    rc = s->kind->header(s->form, &s->rules, text, s->pending.bytes, &h, &line, &why);
    if (rc < 0)
        return ts_fail(err, rc, "%s:%" PRIu64 ": %s", name_of(s, s->pending.file),
                       s->pending_lines + line, why.text);
    if (rc > 0) {
        s->rules.order = h.order;
        return check_order(s, text, s->pending_lines + line, err);
    }
    fields = s->kind->fields(text + h.bytes, s->pending.bytes - h.bytes, &before);
    if (fields == 0)
        return 0;
    first = text + h.bytes;
    for (uint64_t i = 0; i < before; i++)
        first = (const char *)memchr(first, '\n', s->pending.bytes) + 1;
    end = memchr(first, '\n', (size_t)(text + s->pending.bytes - first));
    line = s->pending_lines + before + 1;
    /* carriage returns would make several lines look like one */
    rc = ts_tns_check_returns(first, end, &why);
    if (rc < 0)
        return ts_fail(err, rc, "%s:%" PRIu64 ": %s", name_of(s, s->pending.file), line, why.text);
    s->rules.order = fields - 1;
    return check_order(s, first, line, err);
}

/* Reads pieces of text until a line gives the order of the tensor. */
static int find_order(struct ts_text_source *s, struct ts_err *err)
{
    for (;;) {
        struct ts_err why;
        const uint32_t file = s->pending.file;
        int rc = next_piece(s, s->worker[0].text, &s->pending, &why);
        if (s->pending.file != file)
            s->pending_lines = 0;
        if (rc < 0 && s->pending.bad_line)
            return ts_fail(err, rc, "%s:%" PRIu64 ": %s", name_of(s, s->pending.file),
                           s->pending_lines + 1, why.text);
        if (rc < 0) {
            if (err != NULL)
                *err = why;
            return rc;
        }
        if (s->pending.bytes == 0)
            return ts_fail(err, TS_EFORMAT, "%s: no nonzeros in it", name_of(s, 0));
        s->at_start = 1;
        rc = order_of_piece(s, err);
        if (rc != 0)
            return rc < 0 ? rc : 0;
        s->pending_lines += ts_text_lines(s->worker[0].text, s->pending.bytes);
    }
}

/* Chooses the number of threads, at most as many as there is memory for. It depends on the kind of
 * text. */
static void choose_threads(struct ts_text_source *s, uint32_t side)
{
    const uint32_t more = side > 1 ? side - 1 : 0; /* `cost` includes one byte of side text */
    const uint64_t each = (uint64_t)(s->kind->cost + more) * s->plan.piece_bytes;
    const uint64_t n = s->plan.read_bytes / each;
    s->threads = n < 1 ? 1 : n < s->plan.threads ? (uint32_t)n : s->plan.threads;
    for (uint32_t t = s->threads; t < s->plan.threads; t++) {
        free(s->worker[t].text);
        s->worker[t].text = NULL;
    }
}

int ts_text_source_open(const struct ts_files_plan *plan, struct ts_text_source **ret,
                        struct ts_err *err)
{
    struct ts_text_source *s = calloc(1, sizeof *s);
    uint32_t side;
    uint64_t room;
    int rc = 0;
    if (s == NULL) {
        ts_byte_input_close(plan->first);
        return ts_fail(err, TS_ENOMEM, "out of memory for reading text");
    }
    s->plan = *plan;
    s->form = plan->table;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->read, NULL);
    s->rules.base = plan->base;
    s->rules.value_bytes = plan->value_bytes;
    s->rules.zeros = plan->zeros;
    s->rules.skip_missing = plan->skip_missing;
    s->count = calloc(plan->n_paths, sizeof *s->count);
    s->worker = calloc(plan->threads, sizeof *s->worker);
    for (uint32_t t = 0; s->worker != NULL && t < plan->threads; t++)
        s->worker[t].text = calloc(1, plan->piece_bytes + TS_TEXT_PAD);
    for (uint32_t t = 0; t < plan->threads; t++)
        if (s->count == NULL || s->worker == NULL || s->worker[t].text == NULL) {
            rc = ts_fail(err, TS_ENOMEM, "out of memory for reading text");
            goto fail;
        }
    rc = ts_text_input_open(plan->paths, plan->n_paths, plan->piece_bytes, plan->stop, &s->input,
                            err);
    if (rc == 0) {
        ts_text_input_begun(s->input, plan->first);
        s->plan.first = NULL;
        ts_text_input_sample(s->input, plan->share);
        ts_text_input_unpack(s->input, plan->unpack_bytes);
        if (plan->n_parts > 1)
            ts_text_input_part(s->input, plan->part, plan->n_parts);
        rc = find_order(s, err);
    }
    if (rc == 0 && plan->table != NULL)
        rc = ts_text_look_on(plan, err);
    if (rc < 0)
        goto fail;
    if (plan->n_dims > 0) {
        s->rules.fixed = 1;
        s->rules.fixed_by = TS_SET_SIZES;
        memcpy(s->rules.dim, plan->dim, sizeof s->rules.dim);
    }
    room = s->kind->room(&s->rules, plan->piece_bytes);
    side = ts_text_kind_side(s->kind, s->form);
    choose_threads(s, side);
    for (uint32_t t = 0; t < s->threads && rc == 0; t++) {
        s->worker[t].source = s;
        rc = ts_batch_new(s->rules.order, room, &s->worker[t].batch, err);
        if (rc == 0 && side > 0) {
            s->worker[t].side = malloc(side * plan->piece_bytes + TS_TEXT_PAD);
            if (s->worker[t].side == NULL)
                rc = ts_fail(err, TS_ENOMEM, "out of memory for reading text");
        }
    }
    if (rc < 0)
        goto fail;
    *ret = s;
    return 0;
fail:
    ts_text_source_close(s);
    return rc;
}

void ts_text_source_close(struct ts_text_source *s)
{
    if (s == NULL)
        return;
    for (uint32_t t = 0; s->worker != NULL && t < s->plan.threads; t++) {
        free(s->worker[t].text);
        free(s->worker[t].side);
        ts_batch_free(&s->worker[t].batch);
    }
    free(s->worker);
    free(s->count);
    ts_text_input_close(s->input);
    ts_byte_input_close(s->plan.first);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->read);
    free(s);
}

/* ------------------------------------------------------------------ the parsing threads */

static void take_own(struct worker *w, const struct ts_text_piece *piece, size_t *skip)
{
    if (piece->own <= *skip)
        return;
    w->batch.n_lines += ts_text_lines(w->text + *skip, piece->own - *skip);
    *skip = piece->own;
}

/* Takes the next piece from the input. Returns 1, 0 at the end, or a failure, which has the number
 * *number. */
static int take_piece(struct ts_text_source *s, struct worker *w, struct ts_text_piece *piece,
                      struct ts_tns_rules *rules, size_t *skip, uint64_t *line, uint64_t *number,
                      struct ts_err *err)
{
    struct ts_tns_header h = { 0 };
    int rc = 0;
    *skip = 0;
    *line = 0;
    w->batch.n_lines = 0;
    if (s->ended)
        return 0;
    *number = s->next_number++;
    if (s->pending.bytes > 0) {
        *piece = s->pending;
        s->pending.bytes = 0;
        w->batch.n_lines = s->pending_lines;
        if (w != &s->worker[0]) {
            char *text = w->text;
            w->text = s->worker[0].text;
            s->worker[0].text = text;
        }
    } else {
        rc = next_piece(s, w->text, piece, err);
        s->at_start |= piece->first;
        s->rules.base = piece->first ? s->plan.base : s->rules.base;
        *line = rc < 0 && piece->bad_line ? 1 : 0;
    }
    s->ended = rc < 0 || piece->bytes == 0;
    if (s->ended)
        return rc;
    __atomic_store_n(&s->done_bytes, piece->done_bytes, __ATOMIC_RELAXED);
    if (s->at_start) {
        rc = s->kind->header(s->form, &s->rules, w->text, piece->bytes, &h, line, err);
        if (rc > 0)
            rc = take_header(s, &h, piece->file, err);
        *line = rc < 0 ? *line + w->batch.n_lines : 0;
        s->ended = rc < 0;
        s->at_start =
            rc == 0 && s->kind->fields(w->text + h.bytes, piece->bytes - h.bytes, NULL) == 0;
        *skip = h.bytes;
        w->batch.n_lines += h.lines;
    }
    if (rc >= 0 && s->plan.n_parts > 1) {
        take_own(w, piece, skip);
        if (!s->at_start)
            ts_text_input_past(s->input);
    }
    *rules = s->rules;
    return rc < 0 ? rc : 1;
}

/* A piece of text that a thread parses, and its position. */
struct job {
    struct worker *w;
    struct ts_text_piece piece;
    struct ts_tns_rules rules;
    /* bytes at the start of the piece that are not parsed: a header, or lines of another process */
    size_t skip;
    uint64_t number, line, before;
};

static int parse_job(struct job *j, struct ts_err *err)
{
    struct worker *w = j->w;
    const struct ts_text_source *s = w->source;
    const size_t end = j->piece.own_end;
    const int rc = end <= j->skip ? 0
                                  : s->kind->parse(s->form, w->side, &j->rules, w->text + j->skip,
                                                   end - j->skip, &w->batch, &j->line, err);
    if (rc == 0 && s->plan.n_parts > 1) {
        const size_t seen = end > j->skip ? end : j->skip;
        w->batch.n_lines += ts_text_lines(w->text + seen, j->piece.bytes - seen);
    }
    return rc;
}

/* Returns the number of a line in its file. `line` counts from the first byte that was read, as
 * lines may have been skipped. */
static uint64_t line_of(struct ts_text_source *s, const struct ts_text_piece *piece, uint64_t line)
{
    if (line > 0 && piece->skipped) {
        pthread_mutex_lock(&s->lock);
        line += ts_text_input_lines_skipped(s->input, piece->file);
        pthread_mutex_unlock(&s->lock);
    }
    return line;
}

/* Parses a piece of text again, because the dictionaries of names were emptied meanwhile
 * (ts_names_turn). */
static int parse_again(void *arg, struct ts_err *err)
{
    struct job *j = arg;
    ts_batch_clear(&j->w->batch);
    j->w->batch.n_lines = j->before;
    j->w->batch.file = j->piece.file;
    return parse_job(j, err);
}

/* Replaces the names of a batch by their indices. If some are not known before the end, writes the
 * batch to the file of waiting nonzeros, and empties it. */
static int give_names(struct job *j, uint64_t generation, struct ts_err *err)
{
    struct worker *w = j->w;
    struct ts_text_source *s = w->source;
    int64_t wait;
    int rc = ts_names_turn(s->names, j->number, generation, &w->batch, w->text + j->skip, w->side,
                           parse_again, j, &wait, err);
    j->line = 0; /* 0: a failure here is not about a line of text */
    if (rc < 0 || wait < 0)
        return rc;
    rc = ts_names_wait(s->names, &w->batch, wait, err);
    w->batch.n_read -= w->batch.n;
    w->batch.n = 0;
    for (uint32_t m = 0; m < w->batch.order; m++)
        if (ts_table_mode_field(s->plan.table, m) == TS_TABLE_NAME)
            w->batch.max[m] = 0;
    return rc;
}

/* Reads and parses the next piece of text. Returns 1, 0 at the end, or a failure that was reported
 * to the sink. */
static int read_piece(struct worker *w)
{
    struct ts_text_source *s = w->source;
    struct job j = { .w = w };
    uint64_t generation = 0, n_read;
    struct ts_err why;
    int rc;
    ts_batch_clear(&w->batch);
    pthread_mutex_lock(&s->lock);
    rc = take_piece(s, w, &j.piece, &j.rules, &j.skip, &j.line, &j.number, &why);
    pthread_mutex_unlock(&s->lock);
    if (rc < 0) {
        s->to.fail(s->to.self, j.number, &why, j.line > 0 ? name_of(s, j.piece.file) : NULL,
                   j.piece.file, line_of(s, &j.piece, j.line));
        return rc;
    }
    if (rc == 0)
        return 0;
    w->batch.file = j.piece.file;
    j.before = w->batch.n_lines;
    if (s->names != NULL)
        generation = ts_names_enter(s->names);
    rc = parse_job(&j, &why);
    if (s->names != NULL) {
        ts_names_leave(s->names);
        if (rc < 0)
            ts_names_fail(s->names, j.number);
    }
    n_read = w->batch.n_read - w->batch.n_made + w->batch.n_missing;
    if (rc == 0 && s->names != NULL)
        rc = give_names(&j, generation, &why);
    if (rc < 0) {
        s->to.fail(s->to.self, j.number, &why, j.line > 0 ? name_of(s, j.piece.file) : NULL,
                   j.piece.file, j.line > 0 ? line_of(s, &j.piece, j.before + j.line) : j.before);
        return rc;
    }
    __atomic_fetch_add(&s->count[j.piece.file].n_read, n_read, __ATOMIC_RELAXED);
    return s->to.put(s->to.self, j.number, &w->batch) < 0 ? -1 : 1;
}

/* Called when no thread reads any more. One thread gives all names their indices, while the others
 * wait. Returns whether that succeeded. */
static int end_names(struct ts_text_source *s)
{
    struct ts_err why;
    int known;
    pthread_mutex_lock(&s->lock);
    while (s->names_state == NAMES_ENDING || (s->names_state == NAMES_OPEN && s->reading > 0))
        pthread_cond_wait(&s->read, &s->lock);
    if (s->names_state == NAMES_OPEN) {
        s->names_state = NAMES_ENDING;
        pthread_mutex_unlock(&s->lock);
        known = ts_names_end(s->names, &why) == 0;
        if (!known)
            s->to.fail(s->to.self, TS_SINK_ANY, &why, NULL, 0, 0);
        pthread_mutex_lock(&s->lock);
        s->names_state = known ? NAMES_KNOWN : NAMES_BROKEN;
        pthread_cond_broadcast(&s->read);
    }
    known = s->names_state == NAMES_KNOWN;
    pthread_mutex_unlock(&s->lock);
    return known;
}

/* Records that a thread has stopped reading, or could not be started. Wakes the threads that wait
 * until none reads. */
static void stop_reading(struct ts_text_source *s, int failed)
{
    pthread_mutex_lock(&s->lock);
    s->reading--;
    if (failed && s->names_state == NAMES_OPEN)
        s->names_state = NAMES_BROKEN;
    pthread_cond_broadcast(&s->read);
    pthread_mutex_unlock(&s->lock);
}

/* Passes the nonzeros that waited for indices to the sink. */
static void bring_waiting(struct worker *w)
{
    struct ts_text_source *s = w->source;
    for (;;) {
        struct ts_err why;
        const int rc = ts_names_next(s->names, w->text, s->plan.piece_bytes, &w->batch, &why);
        if (rc < 0)
            s->to.fail(s->to.self, TS_SINK_ANY, &why, NULL, 0, 0);
        if (rc < 0 || w->batch.n == 0 || s->to.put(s->to.self, TS_SINK_ANY, &w->batch) < 0)
            break;
    }
}

static void *read_and_put(void *arg)
{
    struct worker *w = arg;
    struct ts_text_source *s = w->source;
    int rc;
    do
        rc = read_piece(w);
    while (rc > 0);
    stop_reading(s, rc < 0);
    if (s->names != NULL && end_names(s))
        bring_waiting(w);
    s->to.done(s->to.self);
    return NULL;
}

void ts_text_source_names(struct ts_text_source *s, struct ts_names *names)
{
    s->names = names;
    ts_table_names(s->plan.table, names);
}

static int start(void *self, const struct ts_sink *to, struct ts_err *err)
{
    struct ts_text_source *s = self;
    int n;
    s->to = *to;
    s->reading = s->threads;
    n = ts_source_threads_start(s->worker, sizeof *s->worker, s->threads, read_and_put, to, err);
    for (int t = n < 0 ? 0 : n; t < (int)s->threads; t++)
        stop_reading(s, 0);
    return n < 0 ? n : 0;
}

static void stop(void *self)
{
    struct ts_text_source *s = self;
    ts_source_threads_stop(s->worker, sizeof *s->worker, s->threads);
}

static int check_headers(const void *self, struct ts_err *err)
{
    const struct ts_text_source *s = self;
    for (uint32_t f = 0; f < s->plan.n_paths; f++) {
        const struct file_count *c = &s->count[f];
        const int sampled = s->plan.share > 0 && s->plan.share < 1;
        if (c->has_header && (sampled ? c->header_nnz < c->n_read : c->header_nnz != c->n_read))
            return ts_fail(err, TS_EFORMAT,
                           "%s: found %" PRIu64 " nonzero%s, but its header says "
                           "%" PRIu64,
                           name_of(s, f), c->n_read, ts_num_plural(c->n_read), c->header_nnz);
    }
    return 0;
}

uint64_t ts_text_source_count(const struct ts_text_source *s, uint32_t file)
{
    return __atomic_load_n(&s->count[file].n_read, __ATOMIC_RELAXED);
}

void ts_text_source_set_count(struct ts_text_source *s, uint32_t file, uint64_t n)
{
    s->count[file].n_read = n;
}

static void progress(const void *self, uint64_t *done, uint64_t *total)
{
    const struct ts_text_source *s = self;
    *done = __atomic_load_n(&s->done_bytes, __ATOMIC_RELAXED);
    *total = ts_text_input_total(s->input);
}

struct ts_source ts_text_source_as_source(struct ts_text_source *s)
{
    return (struct ts_source){
        .self = s,
        .unit = "bytes",
        .threads = s->threads,
        .start = start,
        .stop = stop,
        .check = check_headers,
        .progress = progress,
    };
}
