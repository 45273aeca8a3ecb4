/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the norm, the least and the greatest value and the hash of the cells of a dense tensor,
 * and whether all cells are finite. Cells are read in chunks, whose sums are added in order. */
#include "cpu/dense/dense_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "cpu/pass_loop.h"
#include "format/arrays/array_index.h"

#define LONE_CELLS 131072u /* a tensor of fewer cells is scanned by one thread */
#define CHUNK      TS_ARRAY_CHUNK
#define PIECE      512u
#define LANES      8u

struct chunk {
    double squares, least, most;
    uint64_t hash, n_unknown; /* n_unknown: number of cells that are NaN */
    /* number of the first infinite cell, and of the first NaN; CHUNK: there is none */
    uint64_t bad, unknown;
};

static void scan_piece(const double *x, uint32_t n, uint64_t at, double lane[LANES],
                       struct chunk *c)
{
    for (uint32_t i = 0; i < n; i++) {
        const double known = x[i] == x[i] ? x[i] : 0;
        lane[i % LANES] += known * known;
        c->least = x[i] < c->least ? x[i] : c->least;
        c->most = x[i] > c->most ? x[i] : c->most;
    }
    for (uint32_t i = 0; i < n; i++)
        c->n_unknown += x[i] != x[i];
    for (uint32_t i = 0; i < n && c->n_unknown > 0 && c->unknown == CHUNK; i++)
        c->unknown = isnan(x[i]) ? at + i : CHUNK;
    for (uint32_t i = 0; i < n && c->bad == CHUNK; i++)
        c->bad = isinf(x[i]) ? at + i : CHUNK;
}

static struct chunk scan_chunk(const struct ts_dense *d, const void *cells, uint64_t first,
                               uint64_t n)
{
    struct chunk c = { .least = INFINITY, .most = -INFINITY, .bad = CHUNK, .unknown = CHUNK };
    double lane[LANES] = { 0 }, x[PIECE];
    for (uint64_t at = 0; at < n; at += PIECE) {
        const uint32_t k = n - at < PIECE ? (uint32_t)(n - at) : PIECE;
        ts_dense_get_f64(d, cells, first + at, k, x);
        scan_piece(x, k, at, lane, &c);
    }
    for (uint32_t i = 0; i < LANES; i++)
        c.squares += lane[i];
    c.hash = ts_array_index_sum((const char *)cells + first * d->cell_bytes, n * d->cell_bytes);
    return c;
}

static int refuse_cell(const struct ts_tensor *t, uint64_t cell, struct ts_err *err)
{
    char text[TS_DENSE_INDEX_CHARS];
    ts_dense_index_text(t->dense, cell, text);
    return ts_fail(
        err, TS_EFORMAT,
        "%s: cell %s (counted from 0) is infinite: cells of a dense tensor must be finite, "
        "or NaN where they are unknown",
        t->path, text);
}

struct sums {
    const struct ts_tensor *tensor;
    uint32_t threads;
    struct chunk *chunk; /* chunks of a slab */
    double squares, least, most;
    uint64_t n_unknown, unknown; /* number of NaN cells, and the first of them */
    XXH3_state_t *hash;
};

static int visit(void *ctx, const struct ts_loan *loan, struct ts_err *err)
{
    struct sums *s = ctx;
    struct chunk *chunk = s->chunk;
    const struct ts_tensor *t = s->tensor;
    const struct ts_slab_view *v = &loan->slab;
    const uint64_t cells = v->part.rows * v->part.cols, n = (cells + CHUNK - 1) / CHUNK;
    const uint64_t base = v->part.row * t->dense->inner + v->part.col;
#pragma omp parallel for num_threads(s->threads) schedule(static) if (cells > LONE_CELLS)
    for (uint64_t i = 0; i < n; i++)
        chunk[i] = scan_chunk(t->dense, v->cells, i * CHUNK,
                              cells - i * CHUNK < CHUNK ? cells - i * CHUNK : CHUNK);
    for (uint64_t i = 0; i < n; i++) {
        if (chunk[i].bad < CHUNK)
            return refuse_cell(t, base + i * CHUNK + chunk[i].bad, err);
        if (s->n_unknown == 0)
            s->unknown = base + i * CHUNK + chunk[i].unknown;
        s->n_unknown += chunk[i].n_unknown;
        s->squares += chunk[i].squares;
        s->least = chunk[i].least < s->least ? chunk[i].least : s->least;
        s->most = chunk[i].most > s->most ? chunk[i].most : s->most;
        XXH3_64bits_update(s->hash, &chunk[i].hash, sizeof chunk[i].hash);
        if (t->dense->summing)
            t->dense->sum[ts_array_index_first(t->dense, v->number) + i] = chunk[i].hash;
    }
    return 0;
}

int ts_dense_scan(const struct ts_tensor *t, struct ts_feed *feed, uint32_t threads,
                  struct ts_err *err)
{
    const struct ts_dense *d = t->dense;
    const uint64_t shape[3] = { t->order, d->array.type, (uint64_t)d->array.fortran };
    struct sums s = { .tensor = t, .threads = threads, .least = INFINITY, .most = -INFINITY };
    struct ts_loan loan;
    struct ts_pass_loop loop = {
        .feed = feed, .loan = &loan, .shard = visit, .ctx = &s, .err = err
    };
    int rc = 0;
    if (d->scanned)
        return 0;
    s.hash = XXH3_createState();
    s.chunk = malloc((ts_dense_most_bytes(d) / d->cell_bytes / CHUNK + 1) * sizeof *s.chunk);
    if (s.hash == NULL || s.chunk == NULL || XXH3_64bits_reset(s.hash) != XXH_OK)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    if (rc == 0) {
        XXH3_64bits_update(s.hash, shape, sizeof shape);
        XXH3_64bits_update(s.hash, d->array.dim, t->order * sizeof *d->array.dim);
        rc = ts_pass_loop_run(&loop);
    }
    if (rc == 0 && s.n_unknown == d->cells)
        rc = ts_fail(err, TS_EFORMAT, "%s: all its cells are NaN", t->path);
    if (rc == 0 && !isfinite(s.squares))
        rc = ts_fail(err, TS_ELIMIT, "%s: the squares of its values leave the range of float64",
                     t->path);
    if (rc == 0) {
        struct ts_tensor *own = d->tensor;
        own->header.norm = sqrt(s.squares);
        own->header.value_min = s.least;
        own->header.value_max = s.most;
        own->hash = XXH3_64bits_digest(s.hash);
        t->dense->n_unknown = s.n_unknown;
        t->dense->first_unknown = s.unknown;
        t->dense->scanned = 1;
    }
    XXH3_freeState(s.hash);
    free(s.chunk);
    return rc;
}

int ts_dense_scan_alone(const struct ts_tensor *t, uint32_t threads,
                        const volatile sig_atomic_t *stop, struct ts_err *err)
{
    const struct ts_feed_conf conf = { .tensor = t,
                                       .host_bytes = 10 * (ts_dense_most_bytes(t->dense) + TS_PAGE),
                                       .only_mode = -1,
                                       .stop = stop };
    struct ts_feed *feed = NULL;
    int rc = t->dense->scanned ? 0 : ts_feed_new(&conf, &feed, err);
    if (rc == 0)
        rc = ts_dense_scan(t, feed, threads, err);
    ts_feed_free(feed);
    return rc;
}

int ts_dense_scan_sums(const struct ts_tensor *t, uint32_t threads,
                       const volatile sig_atomic_t *stop, struct ts_err *err)
{
    int rc;
    t->dense->scanned = 0;
    t->dense->summing = 1;
    rc = ts_dense_scan_alone(t, threads, stop, err);
    t->dense->summing = 0;
    return rc;
}
