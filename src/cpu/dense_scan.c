/* SPDX-License-Identifier: BSD-3-Clause */
/* Norm, range, hash and finiteness of the cells of a dense tensor: in chunks, whose sums are added in order. */
#include "cpu/dense_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "stream/slabs.h"

#define CHUNK 16384u /* cells */
#define PIECE 512u
#define LANES 8u

struct chunk {
    double squares, least, most;
    uint64_t hash, bad; /* bad: the first cell that is not finite; CHUNK: none */
};

static void scan_piece(const double *x, uint32_t n, uint64_t at, double lane[LANES],
                       struct chunk *c)
{
    for (uint32_t i = 0; i < n; i++) {
        lane[i % LANES] += x[i] * x[i];
        c->least = x[i] < c->least ? x[i] : c->least;
        c->most = x[i] > c->most ? x[i] : c->most;
    }
    for (uint32_t i = 0; i < n && c->bad == CHUNK; i++)
        if (!isfinite(x[i]))
            c->bad = at + i;
}

static struct chunk scan_chunk(const struct ts_dense *d, const void *cells, uint64_t first,
                               uint64_t n)
{
    struct chunk c = { .least = INFINITY, .most = -INFINITY, .bad = CHUNK };
    double lane[LANES] = { 0 }, x[PIECE];
    for (uint64_t at = 0; at < n; at += PIECE) {
        const uint32_t k = n - at < PIECE ? (uint32_t)(n - at) : PIECE;
        ts_dense_get_f64(d, cells, first + at, k, x);
        scan_piece(x, k, at, lane, &c);
    }
    for (uint32_t i = 0; i < LANES; i++)
        c.squares += lane[i];
    c.hash = XXH3_64bits((const char *)cells + first * d->cell_bytes, n * d->cell_bytes);
    return c;
}

static int refuse_cell(const struct ts_tensor *t, const struct ts_slab_view *v, uint64_t at,
                       struct ts_err *err)
{
    const struct ts_dense *d = t->dense;
    uint64_t index[TS_DENSE_MAX_ORDER];
    char text[TS_DENSE_MAX_ORDER * 24] = "";
    double x;
    ts_dense_get_f64(d, v->cells, at, 1, &x);
    ts_dense_index(d, v->part.row * d->inner + v->part.col + at, index);
    for (uint32_t m = 0; m < t->order; m++) {
        const size_t end = strlen(text);
        snprintf(text + end, sizeof text - end, "%s%" PRIu64, m == 0 ? "" : ", ", index[m]);
    }
    return ts_fail(err, TS_EFORMAT,
                   "%s: cell [%s] (counted from 0) is %s: all cells of a dense tensor must be "
                   "finite; where cells are unknown, build a tensor of those that are known",
                   t->path, text, isnan(x) ? "NaN" : "infinite");
}

struct sums {
    double squares, least, most;
    XXH3_state_t *hash;
};

static int scan_slab(const struct ts_tensor *t, const struct ts_slab_view *v, uint32_t threads,
                     struct chunk *chunk, struct sums *s, struct ts_err *err)
{
    const uint64_t cells = v->part.rows * v->part.cols, n = (cells + CHUNK - 1) / CHUNK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint64_t i = 0; i < n; i++)
        chunk[i] = scan_chunk(t->dense, v->cells, i * CHUNK,
                              cells - i * CHUNK < CHUNK ? cells - i * CHUNK : CHUNK);
    for (uint64_t i = 0; i < n; i++) {
        if (chunk[i].bad < CHUNK)
            return refuse_cell(t, v, i * CHUNK + chunk[i].bad, err);
        s->squares += chunk[i].squares;
        s->least = chunk[i].least < s->least ? chunk[i].least : s->least;
        s->most = chunk[i].most > s->most ? chunk[i].most : s->most;
        XXH3_64bits_update(s->hash, &chunk[i].hash, sizeof chunk[i].hash);
    }
    return 0;
}

static int scan_all(const struct ts_tensor *t, struct ts_feed *feed, uint32_t threads,
                    struct chunk *chunk, struct sums *s, struct ts_err *err)
{
    struct ts_slabs *slabs = ts_feed_slabs(feed);
    struct ts_slab_view v;
    int rc;
    ts_slabs_rewind(slabs);
    while ((rc = ts_slabs_next(slabs, &v, err)) > 0) {
        rc = scan_slab(t, &v, threads, chunk, s, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

int ts_dense_scan(const struct ts_tensor *t, struct ts_feed *feed, uint32_t threads,
                  struct ts_err *err)
{
    const struct ts_dense *d = t->dense;
    const uint64_t shape[3] = { t->order, d->array.type, (uint64_t)d->array.fortran };
    struct sums s = { .least = INFINITY, .most = -INFINITY };
    struct chunk *chunk;
    int rc = 0;
    if (d->scanned)
        return 0;
    s.hash = XXH3_createState();
    chunk = malloc((ts_dense_most_bytes(d) / d->cell_bytes / CHUNK + 1) * sizeof *chunk);
    if (s.hash == NULL || chunk == NULL || XXH3_64bits_reset(s.hash) != XXH_OK)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", t->path);
    if (rc == 0) {
        XXH3_64bits_update(s.hash, shape, sizeof shape);
        XXH3_64bits_update(s.hash, d->array.dim, t->order * sizeof *d->array.dim);
        rc = scan_all(t, feed, threads, chunk, &s, err);
    }
    if (rc == 0 && !isfinite(s.squares))
        rc = ts_fail(err, TS_ELIMIT, "%s: the squares of its values leave the range of float64",
                     t->path);
    if (rc == 0) {
        struct ts_tensor *own = d->tensor;
        own->header.norm = sqrt(s.squares);
        own->header.value_min = s.least;
        own->header.value_max = s.most;
        own->hash = XXH3_64bits_digest(s.hash);
        t->dense->scanned = 1;
    }
    XXH3_freeState(s.hash);
    free(chunk);
    return rc;
}
