#include "format/text_source.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "format/text_input.h"

struct worker {
    struct ts_text_source *source;
    struct ts_batch batch;
    char *text;
    pthread_t thread;
    int made;
};

struct ts_text_source {
    struct ts_text_plan plan;
    struct ts_tns_rules rules;
    struct ts_text_input *input;
    struct ts_collect *collect;
    struct worker *worker; /* plan.threads */

    pthread_mutex_t lock; /* of what follows, and of the input */
    struct ts_text_piece pending; /* read by open into worker[0].text, not yet parsed */
    uint64_t pending_lines; /* of the same file before it: comments */
    uint64_t next_number;
    int ended; /* the input has, or failed */
    uint64_t done_bytes; /* atomic: progress reads it without the lock */
    uint32_t n_headers;
    uint64_t header_nnz;
};

static const char *name_of(const struct ts_text_source *s, uint32_t file)
{
    return strcmp(s->plan.paths[file], "-") == 0 ? "standard input" : s->plan.paths[file];
}

const struct ts_tns_rules *ts_text_source_rules(const struct ts_text_source *s)
{
    return &s->rules;
}

/* ------------------------------------------------------------------ opening */

/* Takes the sizes of a header, or checks them against those known. Under the lock, or before there
 * are threads. */
static int take_header(struct ts_text_source *s, const struct ts_tns_header *h, struct ts_err *err)
{
    struct ts_tns_rules *r = &s->rules;
    if (r->order == 0)
        r->order = h->order;
    if (r->order != h->order)
        return ts_fail(err, TS_EFORMAT, "a header for %u modes, expected %u", h->order, r->order);
    for (uint32_t m = 0; r->fixed && m < h->order; m++)
        if (r->dim[m] != h->dim[m])
            return ts_fail(err, TS_EFORMAT, "the header makes mode %u %" PRIu64 " long, but %s "
                           "%" PRIu64, m + 1, h->dim[m], r->fixed_by, r->dim[m]);
    r->fixed = 1;
    if (r->fixed_by == NULL)
        r->fixed_by = "the header";
    memcpy(r->dim, h->dim, sizeof r->dim);
    s->n_headers++;
    s->header_nnz += h->nnz;
    return 0;
}

static int check_order(struct ts_text_source *s, struct ts_err *err)
{
    const uint32_t order = s->rules.order;
    const char *name = name_of(s, s->pending.file);
    if (order < TS_MIN_ORDER)
        return ts_fail(err, TS_ELIMIT, "%s: the first line has %u field%s, so a tensor of %u "
                       "mode%s: a decomposition needs at least 2 (each line is an index for each "
                       "mode, then a value, with blanks between)", name, order + 1, order == 0 ? "" : "s", order,
                       order == 1 ? "" : "s");
    if (order > TS_MAX_ORDER)
        return ts_fail(err, TS_ELIMIT, "%s: the first line has %u fields, so a tensor of %u modes; "
                       "at most %u are possible", name, order + 1, order, TS_MAX_ORDER);
    if (s->plan.n_dims > 0 && s->plan.n_dims != order)
        return ts_fail(err, TS_EARG, "--dims has %u sizes, but %s has %u modes", s->plan.n_dims,
                       name, order);
    return 0;
}

/* Reads pieces until one has a line with words. */
static int find_order(struct ts_text_source *s, struct ts_err *err)
{
    const char *text = s->worker[0].text;
    for (;;) {
        struct ts_tns_header h = { 0 };
        struct ts_err why;
        uint64_t line = 0;
        uint32_t fields;
        const uint32_t file = s->pending.file;
        int rc = ts_text_input_next(s->input, s->worker[0].text, &s->pending, err);
        if (rc < 0)
            return rc;
        if (s->pending.bytes == 0)
            return ts_fail(err, TS_EFORMAT, "%s: no nonzeros in it", name_of(s, 0));
        if (s->pending.file != file)
            s->pending_lines = 0;
        rc = s->pending.first ? ts_tns_header(text, s->pending.bytes, &h, &line, &why) : 0;
        if (rc < 0)
            return ts_fail(err, rc, "%s:%" PRIu64 ": %s", name_of(s, s->pending.file), line,
                           why.text);
        fields = ts_tns_fields(text + h.bytes, s->pending.bytes - h.bytes);
        if (rc > 0)
            s->rules.order = h.order;
        else if (fields > 0)
            s->rules.order = fields - 1;
        if (rc > 0 || fields > 0)
            return check_order(s, err);
        for (size_t i = 0; i < s->pending.bytes; i++)
            s->pending_lines += text[i] == '\n';
    }
}

int ts_text_source_open(const struct ts_text_plan *plan, struct ts_text_source **ret,
                        struct ts_err *err)
{
    struct ts_text_source *s = calloc(1, sizeof *s);
    uint64_t room;
    int rc = 0;
    if (s == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for reading text");
    s->plan = *plan;
    pthread_mutex_init(&s->lock, NULL);
    s->rules.base = plan->base;
    s->rules.value_bytes = plan->value_bytes;
    s->worker = calloc(plan->threads, sizeof *s->worker);
    for (uint32_t t = 0; s->worker != NULL && t < plan->threads; t++)
        s->worker[t].text = calloc(1, plan->piece_bytes + TS_TEXT_PAD);
    for (uint32_t t = 0; t < plan->threads; t++)
        if (s->worker == NULL || s->worker[t].text == NULL) {
            rc = ts_fail(err, TS_ENOMEM, "out of memory for reading text");
            goto fail;
        }
    rc = ts_text_input_open(plan->paths, plan->n_paths, plan->piece_bytes, &s->input, err);
    if (rc == 0)
        rc = find_order(s, err);
    if (rc < 0)
        goto fail;
    if (plan->n_dims > 0) {
        s->rules.fixed = 1;
        s->rules.fixed_by = "--dims";
        memcpy(s->rules.dim, plan->dim, sizeof s->rules.dim);
    }
    room = plan->piece_bytes / (2 * (s->rules.order + 1)) + 1;
    for (uint32_t t = 0; t < plan->threads && rc == 0; t++) {
        s->worker[t].source = s;
        rc = ts_batch_new(s->rules.order, room, &s->worker[t].batch, err);
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
        ts_batch_free(&s->worker[t].batch);
    }
    free(s->worker);
    ts_text_input_close(s->input);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ------------------------------------------------------------------ the threads */

/* Takes the next piece. Returns 1 with a piece, 0 at the end, negative after a failure, of which
 * *number tells the place. */
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
        rc = ts_text_input_next(s->input, w->text, piece, err);
    }
    s->ended = rc < 0 || piece->bytes == 0;
    if (s->ended)
        return rc;
    __atomic_store_n(&s->done_bytes, piece->done_bytes, __ATOMIC_RELAXED);
    if (piece->first) {
        rc = ts_tns_header(w->text, piece->bytes, &h, line, err);
        if (rc > 0)
            rc = take_header(s, &h, err);
        s->ended = rc < 0;
        *skip = h.bytes;
        w->batch.n_lines += h.lines;
    }
    *rules = s->rules;
    return rc < 0 ? rc : 1;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct ts_text_source *s = w->source;
    for (;;) {
        struct ts_text_piece piece = { 0 };
        struct ts_tns_rules rules;
        struct ts_err why;
        uint64_t number = 0, line, before;
        size_t skip;
        int rc;
        ts_batch_clear(&w->batch);
        pthread_mutex_lock(&s->lock);
        rc = take_piece(s, w, &piece, &rules, &skip, &line, &number, &why);
        pthread_mutex_unlock(&s->lock);
        if (rc < 0) {
            ts_collect_fail(s->collect, number, &why, line > 0 ? name_of(s, piece.file) : NULL,
                            piece.file, line);
            break;
        }
        if (rc == 0)
            break;
        w->batch.file = piece.file;
        before = w->batch.n_lines;
        rc = ts_tns_parse(&rules, w->text + skip, piece.bytes - skip, &w->batch, &line, &why);
        if (rc < 0) {
            ts_collect_fail(s->collect, number, &why, name_of(s, piece.file), piece.file,
                            before + line);
            break;
        }
        if (ts_collect_put(s->collect, number, &w->batch) < 0)
            break;
    }
    ts_collect_done(s->collect);
    return NULL;
}

int ts_text_source_start(struct ts_text_source *s, struct ts_collect *c, struct ts_err *err)
{
    s->collect = c;
    for (uint32_t t = 0; t < s->plan.threads; t++) {
        struct worker *w = &s->worker[t];
        errno = pthread_create(&w->thread, NULL, work, w);
        w->made = errno == 0;
        if (!w->made) {
            const struct ts_err none = { TS_ENOMEM, errno, "cannot start a thread" };
            for (uint32_t k = t; k < s->plan.threads; k++)
                ts_collect_done(c);
            if (t > 0)
                return 0; /* fewer do the work as well */
            return ts_fail(err, none.code, "%s", none.text);
        }
    }
    return 0;
}

void ts_text_source_stop(struct ts_text_source *s)
{
    for (uint32_t t = 0; t < s->plan.threads; t++) {
        if (s->worker[t].made)
            pthread_join(s->worker[t].thread, NULL);
        s->worker[t].made = 0;
    }
}

int ts_text_source_check(const struct ts_text_source *s, uint64_t n_read, struct ts_err *err)
{
    if (s->n_headers == s->plan.n_paths && s->header_nnz != n_read)
        return ts_fail(err, TS_EFORMAT, "%s: found %" PRIu64 " nonzeros, but its header says "
                       "%" PRIu64, name_of(s, 0), n_read, s->header_nnz);
    return 0;
}

void ts_text_source_progress(const struct ts_text_source *s, uint64_t *done, uint64_t *total)
{
    *done = __atomic_load_n(&s->done_bytes, __ATOMIC_RELAXED);
    *total = ts_text_input_total(s->input);
}
