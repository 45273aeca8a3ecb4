/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums the squares (or losses) of the cells of each shard separately, then joins cells whose
 * nonzeros continue in the next shard. */
#include "stream/cells_norm.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "format/blocks/block_codec.h"
#include "format/part.h"
#include "stream/loss_functions.h"

#define MOST_BYTES (UINT64_C(64) << 20) /* most bytes of memory if the caller sets no limit */

struct cell {
    /* row of the cell in each mode; entries from the order of the tensor on are 0 */
    uint32_t row[TS_MAX_ORDER];
    double value;
};

/* The result of a shard: its first and last cell, whose other nonzeros may be in the shards before
 * and after it, and the sums over the cells between these two. */
struct piece {
    uint64_t n; /* number of cells of the shard; 1: first and last are one cell */
    double kept, held;
    struct cell first, last;
};

struct job {
    const struct ts_cells_conf *conf;
    struct piece *piece; /* the result of each shard of the first mode */
    uint64_t next, end;  /* next: first shard not taken by a thread (atomic); end: after the last */
    int rc;              /* the result of the first thread that failed; atomic */
    struct ts_err err;
    pthread_mutex_t lock; /* protects err */
};

/* Adds the square or the least loss of a complete cell to *kept, or to *held if the cell is held
 * out. */
static void end_cell(const struct ts_cells_conf *c, const struct cell *x, double *kept,
                     double *held)
{
    const double size =
        c->loss == NULL ? x->value * x->value : ts_loss_reference(c->loss->kind, x->value, c->at);
    uint64_t hash;
    if (c->hold_out != NULL && c->hold_out->share > 0) {
        hash = ts_hold_out_begin(c->hold_out);
        for (uint32_t m = 0; m < c->tensor->order; m++)
            hash = ts_hold_out_add(hash, x->row[m]);
        if (ts_hold_out_held(c->hold_out, hash)) {
            *held += size;
            return;
        }
    }
    *kept += size;
}

/* Adds nonzero p of a block to the last cell of its shard so far, or starts a new cell with it. */
static void add_nonzero(const struct ts_cells_conf *c, const struct ts_block *b, uint32_t p,
                        struct piece *s)
{
    const struct ts_tensor *t = c->tensor;
    const uint32_t n_codes = ts_header_codes(&t->header);
    const double value =
        ts_tensor_value(t, n_codes > 0 ? b->code[0][p] : 0, n_codes > 1 ? b->code[1][p] : 0);
    struct cell now = { .value = value };
    for (uint32_t l = 0; l < t->order; l++)
        now.row[t->mode[0].disk.level[l]] = b->level[l][p];
    if (s->n > 0 && memcmp(now.row, s->last.row, sizeof now.row) == 0) {
        s->last.value += value;
        return;
    }
    if (s->n == 1)
        s->first = s->last;
    else if (s->n > 1)
        end_cell(c, &s->last, &s->kept, &s->held);
    s->last = now;
    s->n++;
}

static int sum_shard(const struct ts_cells_conf *c, uint64_t shard, void *raw, struct piece *ret,
                     struct ts_err *err)
{
    const struct ts_tensor *t = c->tensor;
    struct ts_block block;
    int rc = ts_stop_check(c->stop, err);
    if (rc == 0)
        rc = ts_tensor_read_shard(t, 0, shard, raw, err);
    for (uint32_t b = 0; b < t->mode[0].shard[shard].n_blocks && rc == 0; b++) {
        rc = ts_tensor_block(t, 0, shard, raw, b, &block, err);
        for (uint32_t p = 0; p < block.n && rc == 0; p++)
            add_nonzero(c, &block, p, ret);
    }
    if (ret->n == 1)
        ret->first = ret->last;
    return rc;
}

/* Sums shard after shard in one thread, until none is left. */
static void sum_shards(struct job *j)
{
    void *raw = aligned_alloc(TS_PAGE, ts_tensor_raw_bytes(j->conf->tensor));
    struct ts_err err = { 0 };
    int rc = raw == NULL
                 ? ts_fail(&err, TS_ENOMEM, "%s: no memory for a shard", j->conf->tensor->path)
                 : 0;
    while (rc == 0 && __atomic_load_n(&j->rc, __ATOMIC_RELAXED) == 0) {
        const uint64_t shard = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED);
        if (shard >= j->end)
            break;
        rc = sum_shard(j->conf, shard, raw, &j->piece[shard], &err);
    }
    free(raw);
    if (rc == 0)
        return;
    pthread_mutex_lock(&j->lock);
    if (j->rc == 0) {
        j->err = err;
        __atomic_store_n(&j->rc, rc, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&j->lock);
}

/* Returns how many shards may be in memory at the same time. */
static uint64_t room(const struct ts_cells_conf *c)
{
    const uint64_t pieces = c->tensor->mode[0].disk.n_shards * sizeof(struct piece);
    const uint64_t bytes = c->bytes > 0 && c->bytes < MOST_BYTES ? c->bytes : MOST_BYTES;
    const uint64_t n = bytes < pieces ? 0 : (bytes - pieces) / ts_tensor_raw_bytes(c->tensor);
    return n > 0 ? n : 1;
}

/* Computes the results of shards first .. end - 1 into piece[], with several threads. */
static int sum_range(const struct ts_cells_conf *c, uint64_t first, uint64_t end,
                     struct piece *piece, struct ts_err *err)
{
    struct job j = { .conf = c, .piece = piece, .next = first, .end = end };
    uint64_t n = c->threads > 1 ? c->threads : 1;
    n = n < end - first ? n : end - first;
    n = n < room(c) ? n : room(c);
    pthread_mutex_init(&j.lock, NULL);
#pragma omp parallel num_threads(n > 0 ? (int)n : 1)
    sum_shards(&j);
    pthread_mutex_destroy(&j.lock);
    if (j.rc < 0 && err != NULL)
        *err = j.err;
    return j.rc;
}

/* Divides the shards among the ranks: rank r sums the shards first[r] .. first[r + 1] - 1, all of
 * which it has on disk. If all ranks have the whole tensor, each gets an equal number. Returns
 * TS_EFORMAT if no rank has some shard. */
static int divide(const struct ts_cells_conf *c, uint64_t *first, uint64_t *have,
                  struct ts_err *err)
{
    const struct ts_tensor *t = c->tensor;
    const uint64_t n = t->mode[0].disk.n_shards;
    struct ts_comm *comm = c->comm;
    uint64_t at = 0;
    int rc, whole = 1;
    for (uint32_t r = 0; r <= comm->n; r++)
        first[r] = r * 2 * sizeof *have;
    have[2 * comm->rank] = t->part.n > 0 ? t->part.first[0] : 0;
    have[2 * comm->rank + 1] = t->part.n > 0 ? t->part.end[0] : n;
    rc = comm->ops->gather(comm, have, first, err);
    /* whole: each rank has all shards of this mode on disk, also if it has only a part of the
     * tensor */
    for (uint32_t r = 0; r < comm->n && rc == 0; r++)
        whole &= have[2 * r] == 0 && have[2 * r + 1] == n;
    for (uint32_t r = 0; r < comm->n && rc == 0; r++) {
        const uint64_t want = whole ? n * (r + 1) / comm->n : have[2 * r + 1];
        first[r] = at;
        if (have[2 * r] <= at && want > at)
            at = want;
    }
    first[comm->n] = at;
    return rc < 0 || at == n
               ? rc
               : ts_fail(err, TS_EFORMAT,
                         "%s: shard %" PRIu64 " of mode 1 is in no part that is here, and the norm "
                         "of its cells, which hold several nonzeros, takes all",
                         t->path, at);
}

/* Sums the cells of this rank's shards, and gathers the results of all shards on all ranks. */
static int sum_by_ranks(const struct ts_cells_conf *c, struct piece *piece, struct ts_err *err)
{
    struct ts_comm *comm = c->comm;
    uint64_t *first = calloc(3 * ((size_t)comm->n + 1), sizeof *first), *have;
    int rc =
        first == NULL || piece == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for norms") : 0;
    rc = comm->ops->agree(comm, rc, err);
    if (rc < 0) {
        free(first);
        return rc;
    }
    have = first + comm->n + 1;
    rc = divide(c, first, have, err);
    if (rc == 0)
        rc = sum_range(c, first[comm->rank], first[comm->rank + 1], piece, err);
    rc = comm->ops->agree(comm, rc, err);
    for (uint32_t r = 0; r <= comm->n; r++)
        first[r] *= sizeof *piece;
    if (rc == 0)
        rc = comm->ops->gather(comm, piece, first, err);
    free(first);
    return rc;
}

/* Returns the sums over all shards from their results, added in the order of the file. */
static struct ts_cells_squares join(const struct ts_cells_conf *c, const struct piece *piece)
{
    const uint64_t n = c->tensor->mode[0].disk.n_shards;
    struct ts_cells_squares ret = { 0 };
    /* the last cell so far, of which the next shard may have more nonzeros */
    struct cell open = { .value = 0 };
    for (uint64_t i = 0; i < n; i++) {
        const struct piece *p = &piece[i];
        const int goes_on = ret.n > 0 && memcmp(open.row, p->first.row, sizeof open.row) == 0;
        if (goes_on) {
            open.value += p->first.value;
        } else {
            if (ret.n > 0)
                end_cell(c, &open, &ret.kept, &ret.held);
            open = p->first;
        }
        ret.n += p->n - (uint64_t)goes_on;
        if (p->n > 1) {
            end_cell(c, &open, &ret.kept, &ret.held);
            open = p->last;
        }
        ret.kept += p->kept;
        ret.held += p->held;
    }
    end_cell(c, &open, &ret.kept, &ret.held);
    return ret;
}

int ts_cells_squares(const struct ts_cells_conf *conf, struct ts_cells_squares *ret,
                     struct ts_err *err)
{
    const uint64_t n = conf->tensor->mode[0].disk.n_shards;
    struct piece *piece = calloc(n, sizeof *piece);
    struct ts_cells_squares sums;
    int rc;
    if (ts_comm_many(conf->comm) && conf->comm->ops != NULL)
        rc = sum_by_ranks(conf, piece, err);
    else if (piece == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory for norms");
    else
        rc = sum_range(conf, 0, n, piece, err);
    if (rc == 0) {
        sums = join(conf, piece);
        if (!isfinite(sums.kept + sums.held))
            rc = ts_fail(err, TS_ELIMIT, "%s: the squares of its cells leave the range of float64",
                         conf->tensor->path);
        else
            *ret = sums;
    }
    free(piece);
    return rc;
}

int ts_cells_norm(const struct ts_cells_conf *conf, struct ts_err *err)
{
    /* several sessions of a program may use one tensor at the same time */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    /* only the norm of the tensor changes, once after it was opened; the rest of it is constant */
    struct ts_tensor *t = (struct ts_tensor *)conf->tensor;
    struct ts_cells_squares sums;
    int rc = 0;
    if ((t->header.flags & TS_TENSOR_DUPLICATES) == 0)
        return 0;
    pthread_mutex_lock(&lock);
    if (!t->cells_summed)
        rc = ts_cells_squares(conf, &sums, err);
    if (rc == 0 && !t->cells_summed) {
        t->listed_norm = t->header.norm;
        t->header.norm = sqrt(sums.kept + sums.held);
        t->cells_summed = 1;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}
