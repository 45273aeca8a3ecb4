/* SPDX-License-Identifier: BSD-3-Clause */
/* Saves states of a run. When the run ends, the state is written at once. While the run computes, a
 * thread writes the state from a copy of the factors, if there is memory for a copy. */
#include "cpd/state/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/files/atomic_out.h"
#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/machine/thread.h"
#include "cpd/solver/accelerate.h"
#include "cpd/solver/best.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* bytes of a buffer for float64 rows from the backend */
/* most bytes of a section of a state besides its contents */
#define SECTION_BYTES 48
#define SHARE         100 /* a run spends at most 1 / SHARE of its time on saving */

struct ts_checkpoint {
    struct ts_checkpoint_conf conf;
    /* the state to be written; each call sets the members that the caller passes */
    struct ts_state state;
    struct ts_state_past *past;
    struct ts_disk_figures *figures;
    uint32_t n_past, past_room;
    /* start_ns: start of this process; run_ns: run time of the earlier processes of this run */
    uint64_t start_ns, run_ns;
    uint64_t due_ns;
    int saved; /* 1: a state is on disk, whose sweep and mode are saved_sweep and saved_mode */
    uint32_t saved_sweep, saved_mode;
    int ended; /* 1: all sweeps are done, but their state is not on disk yet */
    /* data of the extrapolation between sweeps (accelerate.h), a part of the state at the end; or
     * NULL */
    struct ts_accelerate *accelerate;
    struct ts_best *best; /* the best factors (best.h), for the state at the end; or NULL */
    /* moments of the method (gcp_struct.h), for the state at the end; or NULL */
    void *moments;
    uint64_t moment_bytes;
    double *chunk; /* CHUNK_BYTES of memory while rows are read from the backend, otherwise NULL */
    uint64_t chunk_rows;

    /* the copied factors of the state, which a thread writes to the file */
    char *rows;
    uint64_t rows_bytes, rows_at[TS_MAX_ORDER];
    /* copy of the state's Gram matrices and lambda and, in an accelerated run, of the weights and
     * column norms of the sweep before */
    double *gram;
    struct ts_state_past *past_copy;
    struct ts_disk_figures *figures_copy;
    pthread_t thread;
    int running;
    uint64_t began_ns, pause_ns, cpu_ns; /* cpu_ns: CPU time of the thread that writes */
    atomic_int give_up, finished;
    int rc;
    struct ts_err err;
};

/* ---- sizes of states ---- */

/* Returns the most bytes of factors in a state between two modes. Such a state lacks the factor of
 * the next mode, unless that factor is fixed. */
static uint64_t factor_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             const struct ts_spec *spec)
{
    const uint32_t stays = ts_spec_stays(spec, t->order);
    uint64_t sum = 0, least = UINT64_MAX;
    for (uint32_t m = 0; m < t->order; m++) {
        const uint64_t n = t->mode[m].disk.n_rows * rank * ts_precision_bytes(precision);
        const uint64_t lacking = (stays >> m & 1) != 0 ? 0 : n;
        sum += n;
        least = lacking < least ? lacking : least;
    }
    return sum - least;
}

static uint64_t gram_bytes(uint32_t order, uint32_t rank)
{
    return (((uint64_t)order * rank + 2 * order + 3) * rank + TS_BEST_NUMBERS) * sizeof(double);
}

uint64_t ts_checkpoint_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                             const struct ts_spec *spec, uint64_t method_bytes)
{
    return ts_bigmem_cost(factor_bytes(t, rank, precision, spec)) + method_bytes +
           ts_best_bytes(t, rank, precision, spec) + gram_bytes(t->order, rank) + 3 * CHUNK_BYTES;
}

static void fill_state(struct ts_state *s, const struct ts_tensor *t, uint32_t rank,
                       enum ts_precision precision)
{
    s->order = t->order;
    s->rank = rank;
    s->precision = precision;
    s->tensor_hash = t->hash;
    s->nnz = t->nnz;
    for (uint32_t m = 0; m < t->order; m++) {
        s->dim[m] = t->mode[m].disk.dim;
        s->n_rows[m] = t->mode[m].disk.n_rows;
    }
}

static uint32_t all_modes(uint32_t order)
{
    return (UINT32_C(1) << order) - 1;
}

uint64_t ts_checkpoint_disk(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                            const struct ts_spec *spec, int accelerate)
{
    const uint64_t before =
        accelerate ? ts_accelerate_bytes(t, rank, precision, spec) + t->order * SECTION_BYTES : 0;
    struct ts_state s = { .sweep = 1, .constrained = ts_spec_any(spec, t->order) };
    fill_state(&s, t, rank, precision);
    if (s.constrained)
        s.spec = *spec;
    s.factors = all_modes(s.order);
    s.accelerated = accelerate;
    return ts_state_bytes(&s) + before;
}

/* ---- rows of factors, for the function that writes a state ---- */

/* Reads rows of a factor from the backend (a ts_state_rows_fn). */
static int live_rows(void *ctx, uint32_t mode, uint64_t row, uint64_t n, void *ret,
                     struct ts_err *err)
{
    struct ts_checkpoint *c = ctx;
    const struct ts_checkpoint_conf *f = &c->conf;
    float *to = ret;
    if (f->precision == TS_FLOAT64)
        return f->backend->get_rows(f->be, mode, row, n, ret, err);
    if (c->chunk == NULL && (c->chunk = malloc(CHUNK_BYTES)) == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for rows of factors");
    for (uint64_t done = 0; done < n; done += c->chunk_rows) {
        const uint64_t k = n - done < c->chunk_rows ? n - done : c->chunk_rows;
        const int rc = f->backend->get_rows(f->be, mode, row + done, k, c->chunk, err);
        if (rc < 0)
            return rc;
        for (uint64_t i = 0; i < k * f->rank; i++)
            to[done * f->rank + i] = (float)c->chunk[i];
    }
    return 0;
}

/* Frees the buffer for rows, so that several models, which save one after another, hold one buffer
 * at a time. */
static void end_live_rows(struct ts_checkpoint *c)
{
    free(c->chunk);
    c->chunk = NULL;
}

/* Reads rows of a factor from the copy (a ts_state_rows_fn). */
static int copied_rows(void *ctx, uint32_t mode, uint64_t row, uint64_t n, void *ret,
                       struct ts_err *err)
{
    const struct ts_checkpoint *c = ctx;
    const uint64_t row_bytes = c->conf.rank * ts_precision_bytes(c->conf.precision);
    (void)err;
    memcpy(ret, c->rows + c->rows_at[mode] + row * row_bytes, n * row_bytes);
    return 0;
}

/* ---- writing a state ---- */

/* Fills c->state with the members that the caller set in s, and the other members from c. */
static void complete(struct ts_checkpoint *c, const struct ts_state *s)
{
    struct ts_state *to = &c->state;
    to->sweep = s->sweep;
    to->mode = s->mode;
    to->flags = s->flags;
    to->gram = s->gram;
    to->lambda = s->lambda;
    memcpy(to->part, s->part, sizeof to->part);
    memcpy(to->size, s->size, sizeof to->size);
    to->pace = s->pace;
    to->before = s->before;
    to->best = s->best;
    to->kept = s->kept;
    memcpy(to->before_rows, s->before_rows, sizeof to->before_rows);
    memcpy(to->moment, s->moment, sizeof to->moment);
    to->past = c->past;
    to->figures = c->figures;
    to->factors = all_modes(to->order);
    if ((s->flags & TS_STATE_ENDED) == 0)
        to->factors &= ~(UINT32_C(1) << s->mode) | ts_spec_stays(&to->spec, to->order);
    to->saved_s = (uint64_t)time(NULL);
    to->run_ns = c->run_ns + ts_clock_ns() - c->start_ns;
}

/* Writes the state to a file. During a run two file names alternate; the state of the end has a
 * third name. */
static int write_state(struct ts_checkpoint *c, ts_state_rows_fn *rows, struct ts_err *err)
{
    const struct ts_state *s = &c->state;
    const char *name = (s->flags & TS_STATE_ENDED) != 0 ? TS_STATE_NAME
                       : s->serial % 2 == 0             ? TS_STATE_NAME_0
                                                        : TS_STATE_NAME_1;
    int fd, rc = ts_atomic_put_begin(c->conf.dir, c->conf.where, name, &fd, err);
    if (rc < 0)
        return rc;
    rc = ts_state_write(s, rows, c, &c->give_up, fd, c->conf.where, err);
    return ts_atomic_put_end(c->conf.dir, c->conf.where, name, fd, rc, TS_ATOMIC_DURABLE, err);
}

static int write_live(struct ts_checkpoint *c, struct ts_err *err)
{
    const int rc = write_state(c, live_rows, err);
    end_live_rows(c);
    return rc;
}

/* Records that a state was written (rc 0), or warns that writing it failed. */
static void note(struct ts_checkpoint *c, int rc, const struct ts_err *err)
{
    if (rc == 0) {
        c->saved = 1;
        c->saved_sweep = c->state.sweep;
        c->saved_mode = c->state.mode;
        c->state.serial++;
        if (c->conf.saved != NULL)
            c->conf.saved(c->conf.ctx);
    } else if (rc != TS_ESTOP && c->conf.warn != NULL) {
        struct ts_err warn;
        ts_fail(&warn, rc, "%s; %s", err->text,
                c->saved ? "the state before it stays" : "no state is saved so far");
        c->conf.warn(c->conf.ctx, &warn);
    }
}

/* ---- the thread that writes the copy of a state ---- */

static void *write_copy(void *arg)
{
    struct ts_checkpoint *c = arg;
    c->rc = write_state(c, copied_rows, &c->err);
    c->cpu_ns = ts_clock_thread_ns();
    atomic_store(&c->finished, 1);
    return NULL;
}

static void set_due(struct ts_checkpoint *c)
{
    const uint64_t cost_ns = c->pause_ns + c->cpu_ns;
    const uint64_t share = c->conf.share > 0 ? c->conf.share : SHARE;
    const uint64_t wait_ns =
        cost_ns > c->conf.every_ns / share ? cost_ns * share : c->conf.every_ns;
    c->due_ns = c->began_ns + wait_ns;
}

/* Waits until the thread that writes the copy has ended, if it is running. */
static void join(struct ts_checkpoint *c)
{
    if (!c->running)
        return;
    pthread_join(c->thread, NULL);
    c->running = 0;
    note(c, c->rc, &c->err);
    set_due(c);
}

static void give_up(struct ts_checkpoint *c)
{
    atomic_store(&c->give_up, 1);
    join(c);
    atomic_store(&c->give_up, 0);
}

/* Copies the Gram matrices and norms of the state, because the run changes its own while the thread
 * writes. */
static int copy_squares(struct ts_checkpoint *c, struct ts_err *err)
{
    struct ts_state *s = &c->state;
    const size_t n = (size_t)s->order * s->rank * s->rank;
    if (c->gram == NULL)
        c->gram = malloc(gram_bytes(s->order, s->rank));
    if (c->gram == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a copy of the state");
    memcpy(c->gram, s->gram, n * sizeof *c->gram);
    memcpy(c->gram + n, s->lambda, s->rank * sizeof *c->gram);
    s->gram = c->gram;
    s->lambda = c->gram + n;
    if (s->accelerated) {
        memcpy(c->gram + n + s->rank, s->before,
               (s->order + 1) * (size_t)s->rank * sizeof *c->gram);
        s->before = c->gram + n + s->rank;
    }
    if (s->spec.best) {
        double *to = c->gram + n + (s->order + (size_t)2) * s->rank;
        memcpy(to, s->best, (TS_BEST_NUMBERS + (s->order + (size_t)1) * s->rank) * sizeof *c->gram);
        s->best = to;
    }
    return 0;
}

static int copy_past(struct ts_checkpoint *c, struct ts_err *err)
{
    free(c->past_copy);
    free(c->figures_copy);
    c->past_copy = malloc(c->n_past * sizeof *c->past + 1);
    c->figures_copy = malloc(c->n_past * sizeof *c->figures + 1);
    if (c->past_copy == NULL || c->figures_copy == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a copy of the state");
    memcpy(c->past_copy, c->past, c->n_past * sizeof *c->past);
    memcpy(c->figures_copy, c->figures, c->n_past * sizeof *c->figures);
    c->state.past = c->past_copy;
    c->state.figures = c->figures_copy;
    return 0;
}

/* Returns the bytes of all moments: the matrices that a state holds besides the factors. */
static uint64_t moment_bytes(const struct ts_state *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < TS_MOMENTS_MOST; i++)
        for (uint32_t m = 0; m < s->order && ts_spec_has_moment(&s->spec, i); m++)
            n += s->n_rows[m];
    return n * s->rank * ts_precision_bytes(s->precision);
}

static int make_copy(struct ts_checkpoint *c, struct ts_err *err)
{
    struct ts_state *s = &c->state;
    const uint64_t row_bytes = s->rank * ts_precision_bytes(s->precision);
    const uint64_t bytes =
        factor_bytes(c->conf.tensor, s->rank, s->precision, &s->spec) + moment_bytes(s) +
        (s->accelerated ? ts_accelerate_bytes(c->conf.tensor, s->rank, s->precision, &s->spec) : 0);
    uint64_t at = 0;
    int rc = 0;
    if (c->rows == NULL) {
        rc = ts_bigmem_new(bytes, "a copy of the factors", (void **)&c->rows, err);
        c->rows_bytes = rc == 0 ? bytes : 0;
    }
    if (rc == 0)
        rc = copy_squares(c, err);
    if (rc == 0)
        rc = copy_past(c, err);
    for (uint32_t m = 0; m < s->order && rc == 0; m++) {
        if ((s->factors >> m & 1) == 0)
            continue;
        c->rows_at[m] = at;
        rc = live_rows(c, m, 0, s->n_rows[m], c->rows + at, err);
        at += s->n_rows[m] * row_bytes;
    }
    end_live_rows(c);
    for (uint32_t m = 0; m < s->order && rc == 0; m++) {
        if ((s->kept >> m & 1) == 0)
            continue;
        memcpy(c->rows + at, s->before_rows[m], s->n_rows[m] * row_bytes);
        s->before_rows[m] = c->rows + at;
        at += s->n_rows[m] * row_bytes;
    }
    for (uint32_t i = 0; i < TS_MOMENTS_MOST; i++)
        for (uint32_t m = 0; m < s->order && rc == 0 && ts_spec_has_moment(&s->spec, i); m++) {
            memcpy(c->rows + at, s->moment[i][m], s->n_rows[m] * row_bytes);
            s->moment[i][m] = c->rows + at;
            at += s->n_rows[m] * row_bytes;
        }
    return rc;
}

/* ---- functions of checkpoint.h ---- */

static const struct ts_disk_figures no_figures = { .objective = NAN,
                                                   .log_likelihood = NAN,
                                                   .violation = NAN,
                                                   .rmse = NAN,
                                                   .held_out = NAN,
                                                   .held_out_loss = NAN };

int ts_checkpoint_new(const struct ts_checkpoint_conf *conf, struct ts_checkpoint **ret,
                      struct ts_err *err)
{
    struct ts_checkpoint *c = calloc(1, sizeof *c);
    const struct ts_state *from = conf->from;
    if (c == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory");
    c->conf = *conf;
    fill_state(&c->state, conf->tensor, conf->rank, conf->precision);
    c->state.constrained = ts_spec_any(conf->spec, c->state.order);
    if (c->state.constrained)
        c->state.spec = *conf->spec;
    c->state.figured = c->state.constrained;
    c->state.accelerated = conf->accelerate;
    c->state.serial = 1;
    c->start_ns = ts_clock_ns();
    c->due_ns = c->start_ns + conf->every_ns;
    c->chunk_rows = CHUNK_BYTES / (conf->rank * sizeof(double));
    c->state.options = malloc(conf->options_bytes + 1);
    c->state.options_bytes = conf->options_bytes;
    if (from != NULL) {
        c->n_past = c->past_room = from->sweep - 1;
        c->run_ns = from->run_ns;
        c->state.serial = from->serial + 1;
        c->saved = conf->from_here;
        c->saved_sweep = from->sweep;
        c->saved_mode = from->mode;
    }
    c->past = malloc(c->past_room * sizeof *c->past + 1);
    c->figures = malloc(c->past_room * sizeof *c->figures + 1);
    if (c->past == NULL || c->figures == NULL || c->state.options == NULL) {
        ts_checkpoint_free(c);
        return ts_fail(err, TS_ENOMEM, "out of memory");
    }
    if (c->n_past > 0)
        memcpy(c->past, from->past, c->n_past * sizeof *c->past);
    for (uint32_t i = 0; i < c->n_past; i++)
        c->figures[i] = from->figured ? from->figures[i] : no_figures;
    if (conf->options_bytes > 0)
        memcpy(c->state.options, conf->options, conf->options_bytes);
    *ret = c;
    return 0;
}

void ts_checkpoint_free(struct ts_checkpoint *c)
{
    if (c == NULL)
        return;
    join(c); /* a run that failed is resumed from the state that the thread writes */
    ts_bigmem_free(c->rows, c->rows_bytes);
    free(c->gram);
    free(c->past);
    free(c->past_copy);
    free(c->figures);
    free(c->figures_copy);
    free(c->state.options);
    ts_accelerate_free(c->accelerate);
    ts_best_free(c->best);
    ts_bigmem_free(c->moments, c->moment_bytes);
    free(c);
}

int ts_checkpoint_sweep(struct ts_checkpoint *c, double fit, uint64_t total_ns,
                        const struct ts_disk_figures *figures, struct ts_err *err)
{
    if (c->n_past == c->past_room) {
        const uint32_t room = 2 * c->past_room + 64;
        struct ts_state_past *more = realloc(c->past, room * sizeof *more);
        struct ts_disk_figures *more_figures = realloc(c->figures, room * sizeof *more_figures);
        if (more != NULL)
            c->past = more;
        if (more_figures != NULL)
            c->figures = more_figures;
        if (more == NULL || more_figures == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for the fits of %u sweeps", room);
        c->past_room = room;
    }
    c->figures[c->n_past] = *figures;
    c->past[c->n_past++] = (struct ts_state_past){ .fit = fit, .total_ns = total_ns };
    return 0;
}

int ts_checkpoint_due(struct ts_checkpoint *c)
{
    if (c->running && atomic_load(&c->finished))
        join(c);
    return !c->running && c->conf.every_ns > 0 && ts_clock_ns() >= c->due_ns;
}

void ts_checkpoint_take(struct ts_checkpoint *c, struct ts_state *s, uint64_t since_ns)
{
    struct ts_err err;
    int rc;
    c->began_ns = since_ns;
    c->cpu_ns = 0;
    complete(c, s);
    rc = c->conf.copy ? make_copy(c, &err) : write_live(c, &err);
    if (rc == 0 && c->conf.copy) {
        atomic_store(&c->finished, 0);
        c->running = ts_thread_new(&c->thread, write_copy, c) == 0;
        if (!c->running)
            rc = write_state(c, copied_rows, &err);
    }
    c->pause_ns = ts_clock_ns() - c->began_ns;
    if (c->running)
        return;
    note(c, rc, &err);
    set_due(c);
}

void ts_checkpoint_save(struct ts_checkpoint *c, struct ts_state *s)
{
    struct ts_err err;
    give_up(c); /* stops the thread: the state that it writes is older than this one */
    complete(c, s);
    note(c, write_live(c, &err), &err);
}

void ts_checkpoint_end(struct ts_checkpoint *c, struct ts_state *s)
{
    struct ts_err err;
    int rc;
    give_up(c);
    complete(c, s);
    rc = copy_squares(c, &err);
    if (rc == 0) {
        c->ended = 1;
        if (c->conf.every_ns > 0)
            ts_checkpoint_rescue(c);
    } else {
        note(c, rc, &err);
    }
}

void ts_checkpoint_keep(struct ts_checkpoint *c, struct ts_accelerate *a)
{
    c->accelerate = a;
}

void ts_checkpoint_keep_best(struct ts_checkpoint *c, struct ts_best *b)
{
    c->best = b;
}

void ts_checkpoint_keep_moments(struct ts_checkpoint *c, void *memory, uint64_t bytes)
{
    c->moments = memory;
    c->moment_bytes = bytes;
}

void ts_checkpoint_rescue(struct ts_checkpoint *c)
{
    struct ts_err err;
    int rc;
    if (!c->ended)
        return;
    rc = c->best != NULL ? ts_best_swap(c->best, 0, &err) : 0;
    if (rc == 0)
        rc = write_live(c, &err);
    c->ended = rc != 0;
    note(c, rc, &err);
}

int ts_checkpoint_last(const struct ts_checkpoint *c, uint32_t *sweep, uint32_t *mode)
{
    *sweep = c->saved_sweep;
    *mode = c->saved_mode;
    return c->saved;
}
