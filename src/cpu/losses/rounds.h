/* SPDX-License-Identifier: BSD-3-Clause */
/* rounds.h - makes multiplicative updates of the rows of a mode, several rounds for one read of the
 * shards.
 *
 * For a mode with factor A and weights w, the update starts from B = A diag(w). Each round updates
 * each row b of B:
 *     phi := sum over the row's nonzeros of g(x, m) p,  m = <p, b>;   b := b .* phi
 * (stream/request.h, MULTIPLY), with x the value of a nonzero, p the product of the other factors'
 * rows, and g its weight. A row depends on its own nonzeros alone, so all rounds of a row are made
 * while its shard is in memory. Threads take partitions of one shard. Rows inside of a partition
 * get all rounds at once. The first and the last row may continue in neighbouring partitions, so
 * their parts (sums over one partition) are added in the order of the file, round by round. A row
 * that continues in another shard gets one round, after all shards were visited; its parts (sums
 * over one shard) are added in the order of the file.
 *
 * With several ranks, each rank takes whole shards (cpu/ranks/share.h). All ranks update rows that
 * continue in another shard.
 *
 *   owner    the object owns its memory, the caller the matrices
 *   units    rows are those of used slices
 *   threads  one thread calls; inside, OpenMP threads
 *   errors   0 or a negative ts_code; on failure the factor is unchanged
 *   bits     depend on the bytes of the shards, the factors and the precision, not on threads or
 *            the order of delivery
 */
#ifndef TS_CPU_ROUNDS_H
#define TS_CPU_ROUNDS_H

#include "cpu/fmat.h"
#include "cpu/sparse/kernel.h"
#include "stream/feed/feed.h"
#include "stream/loss.h"

/* Number of nonzeros whose models are computed before their weights. Their products p of the other
 * factors' rows, and those of fibres, fit a first-level cache. */
#define TS_ROUNDS_CHUNK 128u

/* Decoded nonzeros of a partition, or of a part of one, as arrays over all of them. */
struct ts_flat {
    uint32_t n, row, n_rows; /* row: the row of the first nonzero */
    uint32_t n_fibres;       /* number of fibres, for orders above 3; otherwise n */
    uint32_t *start;         /* n_rows + 1 numbers: where rows begin */
    /* Row indices in the mode at level l of the mode copy, from 1: one for each nonzero or, above
     * the last level and with fibres, one for each fibre. TS_KERNEL_AHEAD more may be read after
     * them. */
    uint32_t *idx[TS_MAX_ORDER];
    /* fibre of each nonzero, with TS_KERNEL_AHEAD more that may be read; NULL for orders up to 3 */
    uint32_t *fibre;
    double *value;
    /* not 0: the nonzero is held out, and has weight 0. NULL: no nonzeros are held out */
    uint8_t *held;
};

/* To be called before a block is appended whose first nonzero is in this row. */
static inline void ts_flat_row(struct ts_flat *f, uint32_t row)
{
    if (f->n_rows == 0)
        f->row = row;
    if (f->n_rows == 0 || row != f->row + f->n_rows - 1)
        f->start[f->n_rows++] = f->n;
}

/* How a call of `rows` (struct ts_rounds_ops) uses the memory `product` of its scratch for p, the
 * products of the other factors' rows. ONCE: p is needed in this call alone. KEEP: p is kept for
 * the next call. THERE: an earlier call has kept p. */
enum ts_rounds_p { TS_P_ONCE, TS_P_KEEP, TS_P_THERE };

struct ts_rounds_job {
    uint32_t order, stride;
    /* factor of the mode at level l, from 1 (0: the mode by which nonzeros are sorted) */
    const void *table[TS_MAX_ORDER];
    int far[TS_MAX_ORDER];
    const struct ts_loss *loss;
    double at; /* the parameter of the loss */
    int zeros; /* 1: the weight at value 0 is subtracted from the weight of a nonzero */
};

/* Memory of a thread for weighted sums of rows. */
struct ts_rounds_scratch {
    /* p (products of the other factors' rows) for `most` nonzeros; `most` is at least
     * TS_ROUNDS_CHUNK */
    void *product;
    uint32_t most;
    double judged, inner;
    /* sums over held-out nonzeros: their number, the loss, the model's value m, and the squared
     * value x^2 */
    double held_n, held_judged, held_model, held_squares;
    _Alignas(64) double fold[4 * TS_ROUNDS_CHUNK];
    double model[TS_ROUNDS_CHUNK], weight[TS_ROUNDS_CHUNK], less[TS_ROUNDS_CHUNK];
    double zero[TS_ROUNDS_CHUNK]; /* a value of 0 for each nonzero of a chunk */
    /* for a chunk: products of factor rows for fibres, for up to 256 bytes of columns at a time,
     * and row indices of operands */
    _Alignas(64) char fibre[TS_ROUNDS_CHUNK * 256];
    uint32_t idx[TS_MAX_ORDER][TS_ROUNDS_CHUNK + TS_KERNEL_AHEAD];
};

struct ts_rounds_ops {
    /* Computes n_rows rows of `flat` from `row` on; own: these rows of B (the factor times its
     * weights) or of the factor. Sets phi to their weighted sums of p (one stride each, aligned to
     * 64 bytes). If phi is NULL, adds to judged and inner instead. Several rows together have at
     * most TS_ROUNDS_CHUNK nonzeros. p (the products of the other factors' rows) can be kept for at
     * most `most` nonzeros. */
    void (*rows)(const struct ts_rounds_job *job, const struct ts_flat *flat, uint32_t row,
                 uint32_t n_rows, const void *own, enum ts_rounds_p of_p,
                 struct ts_rounds_scratch *scratch, double *phi);

    /* Sets the row b of n entries, whose signs are ignored, to b .* phi, with phi its weighted sum.
     * last: entries with a phi above 1 get a sign that marks them. Returns the largest |min(b, 1 -
     * phi)| before the update. */
    double (*multiply)(void *b, const double *restrict phi, uint32_t n, int last);

    /* Appends a plain (decoded) block (plain.h) to `flat`. Returns the address of the next one. */
    const void *(*append)(const struct ts_plain_conf *c, const void *plain, struct ts_flat *flat);
};

const struct ts_rounds_ops *ts_rounds_get(enum ts_isa isa, enum ts_precision precision,
                                          uint32_t stride);

struct ts_rounds;
struct ts_share;

/* plain: the store of decoded blocks, which passes use from the second one over a mode on. It is
 * lent, or NULL. */
int ts_rounds_new(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                  enum ts_isa isa, uint32_t threads, struct ts_plain *plain, struct ts_rounds **ret,
                  struct ts_err *err);
void ts_rounds_free(struct ts_rounds *r); /* r may be NULL */
uint64_t ts_rounds_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                         uint32_t threads);

/* One of several models in a call. Each model has an object `r` of its own. */
struct ts_rounds_of {
    struct ts_rounds *r;
    struct ts_share *share; /* how ranks divide the work; NULL: there is one rank */
    struct ts_fmat *factor; /* factors of all modes */
    /* memory for the new rows of the mode, or for B (the factor times its weights) */
    struct ts_fmat *apart;
    const struct ts_multiply *multiply;
    struct ts_multiply_sums *ret;
    const struct ts_descent *descend;
};

/* Sets apart to the sum of g p over the nonzeros of each row (g: slope of the loss; p: product of
 * the other factors' rows), with the loss, its parameter, observed and hold_out of `descend`. The
 * factor does not change. n models (n > 0) share one pass over the shards. *wait_ns: time spent
 * waiting for shards; *exchange_ns: for other ranks. With several ranks, each has the rows of
 * ts_share_rows. */
int ts_rounds_gradient(const struct ts_rounds_of *model, uint32_t n, uint32_t mode,
                       struct ts_feed *feed, uint64_t *wait_ns, uint64_t *exchange_ns,
                       struct ts_err *err);

/* Updates the factor of `mode` by `multiply`, on all ranks. n models (n > 0) share the passes: each
 * shard is read once for all of them, or twice. apart: memory for B (the factor times its weights).
 * feed NULL: no round is made; columns are only multiplied by their weights and divided by their
 * sums. */
int ts_rounds_run(const struct ts_rounds_of *model, uint32_t n, uint32_t mode, struct ts_feed *feed,
                  struct ts_backend_times *times, struct ts_err *err);

#endif
