/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel.h - the MTTKRP of one partition, in versions for several instruction sets.
 *
 * out(row, :) += value * prod_{l >= 1} table[l](index_l, :) over the nonzeros of a partition. They
 * are sorted by row, so a row is summed in registers and written once. The sums depend only on the
 * bytes of the partition and on the tables. The first row may have begun in the partition before,
 * so its sum goes to `head`. All other rows are stored to `out`. The last one may go on in the next
 * partition: the caller adds the heads to their rows, in file order (pass.h).
 *
 * A *wide* kernel reads rows of float, and multiplies and sums in double. It stores a sum in two
 * parts: as float to `out`, and what the float loses, again as float, to `rest` (for a head, after
 * it). That is 48 bits.
 *
 *   owner    the caller owns everything; scratch belongs to one thread
 *   units    rows of tables and out are `stride` elements of the job's precision
 *   threads  any thread: no two partitions store to the same row of out
 *   errors   none: shards were checked when they were first read
 */
#ifndef TS_CPU_KERNEL_H
#define TS_CPU_KERNEL_H

#include <stdint.h>

#include "cpu/fmat.h"
#include "base/machine/isa.h"
#include "cpu/sparse/plain.h"
#include "format/blocks/unpack.h"
#include "format/hold_out.h"
#include "format/shard.h"

/* How many positions ahead a row is fetched, for factors outside of the caches: 24 rows of 128
 * bytes cover the time of a miss of the second-level cache. */
#define TS_KERNEL_AHEAD 24u

/* The columns of a model in rows that several models share. Each column of the result has the bits
 * that it has in matrices of this model alone, whose stride is given. */
struct ts_kernel_model {
    uint32_t col, stride; /* col: a multiple of 64 bytes */
};

/* Vectors of columns that are summed together. */
struct ts_kernel_run {
    uint16_t col;
    uint8_t n_vec;
    uint8_t two; /* summed in two halves */
};

/* The arguments of one MTTKRP. */
struct ts_kernel_job {
    struct ts_unpack_conf unpack;
    struct ts_plain_conf plain;
    uint32_t order, stride;
    uint32_t columns; /* columns of a row that are summed for a cell */
    /* number of models whose columns are computed; other columns stay as they are */
    uint32_t n_models;
    const struct ts_kernel_model *model; /* n_models models, sorted by column */
    /* factor of the mode at level l; table[0] is used for cells alone */
    const void *table[TS_MAX_ORDER];
    int far[TS_MAX_ORDER]; /* the factor at this level is larger than a core's caches */
    void *out;             /* factor of the mode at level 0 */
    float *rest; /* for a wide kernel: the part that float32 loses in `out`; NULL: not needed */
    struct ts_hold_out hold_out; /* these nonzeros count as zeros */
    const uint8_t *level;        /* the mode at each level */
};

/* The memory of a thread. */
struct ts_kernel_scratch {
    /* Products of fibres, up to 256 bytes of columns at once. */
    _Alignas(64) char product[TS_BLOCK_NNZ * 256];
    _Alignas(64) double sum[TS_FMAT_MAX_STRIDE]; /* sums of the current row over earlier blocks */
    _Alignas(64) float rest[TS_FMAT_MAX_STRIDE]; /* memory for a rest that is not needed */
    struct ts_unpacked block[2];                 /* the current block, and the one after it */
    /* sums over columns, for cells */
    _Alignas(64) double fold[4 * (TS_BLOCK_NNZ + TS_UNPACK_SLACK)];
    double cell[TS_BLOCK_NNZ + TS_UNPACK_SLACK];
    struct ts_kernel_run run[TS_FMAT_MAX_STRIDE / 2]; /* runs of the job's columns */
    uint32_t n_runs;
};

/* The rows of a partition. Its head holds the sum of row `first`, and row `last` may continue in
 * the next one. */
struct ts_kernel_edge {
    uint32_t first, last;
};

/* The place of a partition's nonzeros. */
struct ts_kernel_input {
    const struct ts_disk_shard *entry;
    const void *raw;
    uint32_t partition; /* number of the partition in the shard */
    const void *plain;  /* decoded blocks of the partition, used instead; or NULL */
};

typedef void ts_kernel_fn(const struct ts_kernel_job *job, const struct ts_kernel_input *in,
                          struct ts_kernel_scratch *scratch, void *head,
                          struct ts_kernel_edge *edge);

/* Computes the model's values at the nonzeros of a partition. `give` is called for each block, in
 * order. It gets the decoded block, with values as float64, and cell[p], the sum over all columns
 * of the products of all factors' rows at position p. If `give` returns not 0, the kernel ends and
 * returns it. */
typedef int ts_cells_give(void *ctx, const struct ts_unpacked *b, const double *cell, int last);
typedef int ts_cells_fn(const struct ts_kernel_job *job, const struct ts_kernel_input *in,
                        struct ts_kernel_scratch *scratch, ts_cells_give *give, void *ctx);

/* The kernel of cells for an instruction set, chosen as in ts_kernel_get. Products are in the
 * precision of the rows. */
ts_cells_fn *ts_cells_get(enum ts_isa isa, enum ts_precision precision, uint32_t stride);

/* ---- rows with a Gram matrix of their own ----
 *
 * With p the product of the other factors' rows at a nonzero x of a row: S = sum of p p', m = sum
 * of x p. */
struct ts_gram {
    uint32_t rank, stride; /* of a row of S, too */
    double *s;             /* upper triangle; the entries left of it are unused */
    double *m;
    int more; /* s and m have sums, to which the new ones are added; 0: they are overwritten */
};

/* Called for each block of a partition, in order, when its products are computed. It may change the
 * block's values. */
typedef void ts_gram_take(void *ctx, struct ts_unpacked *b);

#define TS_GRAM_TURNED 16u /* the largest `turned` */

struct ts_gram_ops {
    /* Computes the products of each block of a partition. product: TS_BLOCK_NNZ rows of `stride` in
     * the precision of the factors, 64 bytes aligned. */
    void (*pass)(const struct ts_kernel_job *job, const struct ts_kernel_input *in,
                 struct ts_kernel_scratch *scratch, void *product, ts_gram_take *take, void *ctx);

    /* Adds the nonzeros at n positions of the block. */
    void (*add)(const struct ts_gram *g, const void *product, const struct ts_unpacked *b,
                const uint16_t *at, uint32_t n);

    /* Solves S a = m, where S is s, which is overwritten, with this diagonal. If the rest of a
     * diagonal entry, after the columns before it, is at most `cut` of the entry, then that entry
     * of a is 0. */
    void (*solve)(const struct ts_gram *g, double *restrict s, const double *restrict diagonal,
                  double cut, double *restrict a);

    /* Multiplies n rows entry by entry: out(k, :) := left[k] .* right[k], in the precision of the
     * factors, each row 64 bytes aligned. out may be the rows of left. */
    void (*multiply)(uint32_t stride, const void *const *left, const void *const *right, uint32_t n,
                     void *out);

    /* `add` leaves blocks of this size at the diagonal turned (ts_gram_straighten). 0: none. */
    uint32_t turned;

    /* ---- rows of few nonzeros: with P the n products of a row, and x its values, K = P P' ----
     *
     * k := the upper triangle of K in tiles of TS_GRAM_SIDE x TS_GRAM_SIDE, the tiles (0, p), ...
     * (p, p) behind those of all smaller p. Of a tile column j lies behind column j - 1; at the
     * diagonal it has its j + 1 entries alone. Zeros beyond n; m := x. */
    void (*cross)(uint32_t stride, const void *product, const struct ts_unpacked *b,
                  const uint16_t *at, uint32_t n, double *k, double *m);

    /* out := P' y, with entries of y `step` apart, in the precision of the products; returns the
     * sum of its squares. */
    double (*combine)(uint32_t stride, const void *product, const uint16_t *at, uint32_t n,
                      const double *y, uint32_t step, void *out);
};

#define TS_GRAM_SIDE  4u
#define TS_GRAM_TILE  (TS_GRAM_SIDE * TS_GRAM_SIDE)
#define TS_GRAM_SHORT 64u /* most nonzeros of a short row, a multiple of TS_GRAM_SIDE */

/* With T = turned: the block at (T v, T v) of s has x(j) x((j + d) % T) in row d, column j, for d =
 * 0 .. T / 2, and gets its upper triangle. */
void ts_gram_straighten(const struct ts_gram *g, uint32_t turned);

const struct ts_gram_ops *ts_gram_get(enum ts_isa isa, enum ts_precision precision,
                                      uint32_t stride);

/* Rows of the mode at level l, of each position of a block. */
void ts_kernel_rows(const struct ts_unpacked *b, uint32_t l, uint32_t leaf, uint32_t *to);

/* What decides whether each nonzero of a block is held out (format/hold_out.h). level: the mode at
 * each level. */
void ts_kernel_hash(const struct ts_hold_out *h, uint32_t order, const uint8_t *level,
                    const struct ts_unpacked *b, uint64_t *hash);

/* The values of nonzeros of a block that are held out := 0. */
void ts_kernel_hold_out(const struct ts_kernel_job *job, struct ts_unpacked *b);

/* How the values of a tensor are to be read. */
void ts_kernel_values(const struct ts_tensor *t, enum ts_precision precision,
                      struct ts_unpack_conf *ret);

/* The kernel of an instruction set for rows of `stride` elements (fmat.h). Rows are stored in one
 * precision; products and sums are in the same or a higher one. NULL when this machine or build has
 * none. */
ts_kernel_fn *ts_kernel_get(enum ts_isa isa, enum ts_precision stored, enum ts_precision summed,
                            uint32_t stride);

/* The decoder that its kernels use. */
ts_unpack_fn *ts_kernel_unpack(enum ts_isa isa);

#endif
