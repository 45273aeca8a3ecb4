/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel.h - computes the MTTKRP of one partition, in versions for several instruction sets.
 *
 * out(row, :) += value * prod_{l >= 1} table[l](index_l, :) over the nonzeros of a partition. They
 * are sorted by row, so a row is summed in registers and written once. The sums depend only on the
 * bytes of the partition and on the tables. The first row may have begun in the partition before,
 * so its sum goes to `head`. All other rows are stored to `out`. The last row may continue in the
 * next partition: the caller adds the heads to their rows, in file order (pass.h).
 *
 * A *wide* kernel reads rows of float, and multiplies and sums in double. It stores a sum of 48
 * bits in two parts: as float in `out`, and the remainder, again as float, in `rest`. The head of a
 * wide kernel is followed by its rest.
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

/* Number of positions by which a row is fetched ahead, if factors are larger than the caches.
 * Fetching 24 rows of 128 bytes takes as long as a miss of the second-level cache. */
#define TS_KERNEL_AHEAD 24u

/* The columns of one model in rows of several models. Each column of the result has the bits that
 * it would have in a matrix of this model alone, whose stride is `stride`. */
struct ts_kernel_model {
    uint32_t col, stride; /* col: first column of the model, at a multiple of 64 bytes */
};

/* A run: adjacent vectors of columns that are summed together. */
struct ts_kernel_run {
    uint16_t col;
    uint8_t n_vec;
    uint8_t two; /* 1: nonzeros at even and at odd positions are summed separately */
};

/* The arguments of one MTTKRP. */
struct ts_kernel_job {
    struct ts_unpack_conf unpack;
    struct ts_plain_conf plain;
    uint32_t order, stride;
    uint32_t columns; /* number of columns over which the model's value at a cell is summed */
    /* number of models whose columns are computed; other columns stay as they are */
    uint32_t n_models;
    const struct ts_kernel_model *model; /* n_models models, sorted by column */
    /* factor of the mode at level l (0: the mode by which nonzeros are sorted); table[0] is read
     * only by kernels that compute values of the model */
    const void *table[TS_MAX_ORDER];
    int far[TS_MAX_ORDER];       /* the factor at this level is larger than the caches of a core */
    void *out;                   /* result: matrix of the mode by which nonzeros are sorted */
    float *rest;                 /* for a wide kernel: remainders of `out`; NULL: not needed */
    struct ts_hold_out hold_out; /* nonzeros that count as zeros */
    const uint8_t *level;        /* the mode at each level; level 0 is the mode of `out` */
};

/* Memory that a kernel needs in one thread. */
struct ts_kernel_scratch {
    /* products of factor rows for fibres, for up to 256 bytes of columns at a time */
    _Alignas(64) char product[TS_BLOCK_NNZ * 256];
    /* sums of the current row over the blocks before this one */
    _Alignas(64) double sum[TS_FMAT_MAX_STRIDE];
    /* gets remainders of sums if the job has no `rest` */
    _Alignas(64) float rest[TS_FMAT_MAX_STRIDE];
    struct ts_unpacked block[2]; /* the current block, and the one after it */
    /* for each position FOLD partial sums of the model's value (cells_body.h) */
    _Alignas(64) double fold[4 * (TS_BLOCK_NNZ + TS_UNPACK_SLACK)];
    double cell[TS_BLOCK_NNZ + TS_UNPACK_SLACK];
    struct ts_kernel_run run[TS_FMAT_MAX_STRIDE / 2]; /* runs of the job's columns */
    uint32_t n_runs;
};

/* The first and last row of a partition. The sum of row `first` goes to `head` of ts_kernel_fn, and
 * row `last` may continue in the next partition. */
struct ts_kernel_edge {
    uint32_t first, last;
};

/* A partition as the input of a kernel: packed or decoded blocks of nonzeros. */
struct ts_kernel_input {
    const struct ts_disk_shard *entry;
    const void *raw;
    uint32_t partition; /* number of the partition in the shard */
    const void *plain;  /* decoded blocks of the partition, used instead of `raw`; or NULL */
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

/* Returns the function that computes the model's values at nonzeros, for an instruction set, or
 * NULL if this machine or build has none. Products are in the precision of the rows. */
ts_cells_fn *ts_cells_get(enum ts_isa isa, enum ts_precision precision, uint32_t stride);

/* ---- rows with their own Gram matrix ----
 *
 * For a row, with value x of a nonzero, and p the product of the other factors' rows at this
 * nonzero: S = sum of p p', m = sum of x p. */
struct ts_gram {
    uint32_t rank, stride; /* stride: elements between rows of factors, and between rows of S */
    double *s;             /* S: upper triangle; entries below the diagonal are not used */
    double *m;
    int more; /* 1: new sums are added to s and m; 0: they overwrite s and m */
};

/* Called for each block of a partition, in order, after its row products (of the other factors'
 * rows) were computed. It may change the block's values. */
typedef void ts_gram_take(void *ctx, struct ts_unpacked *b);

#define TS_GRAM_TURNED 16u /* the largest value of `turned` for any instruction set */

struct ts_gram_ops {
    /* Computes the row products at all positions of each block of a partition. product:
     * TS_BLOCK_NNZ rows of `stride` in the precision of the factors, 64 bytes aligned. */
    void (*pass)(const struct ts_kernel_job *job, const struct ts_kernel_input *in,
                 struct ts_kernel_scratch *scratch, void *product, ts_gram_take *take, void *ctx);

    /* Adds the nonzeros at n positions `at` of the block to the Gram matrix S and the right side
     * m. */
    void (*add)(const struct ts_gram *g, const void *product, const struct ts_unpacked *b,
                const uint16_t *at, uint32_t n);

    /* Solves S a = m. s has S, with `diagonal` on its diagonal, and is overwritten. If what remains
     * of a diagonal entry, after the columns before it, is at most `cut` of the entry, then this
     * entry of a is 0. */
    void (*solve)(const struct ts_gram *g, double *restrict s, const double *restrict diagonal,
                  double cut, double *restrict a);

    /* Multiplies n rows elementwise: out(k, :) := left[k] .* right[k], in the precision of the
     * factors. Rows are aligned to 64 bytes. out may be the rows of left. */
    void (*multiply)(uint32_t stride, const void *const *left, const void *const *right, uint32_t n,
                     void *out);

    /* `add` leaves the diagonal blocks of S of this size in rotated order (ts_gram_straighten). 0:
     * it leaves none. */
    uint32_t turned;

    /* ---- rows of few nonzeros: with P the n row products of a row, and x its values, K = P P'
     * ----
     *
     * k := the upper triangle of K in tiles of TS_GRAM_SIDE x TS_GRAM_SIDE, by tile column p: first
     * the tiles of p = 0, then (0, 1), (1, 1), then (0, 2) and so on. In a tile, column j follows
     * column j - 1; a tile on the diagonal stores only j + 1 entries of column j. Entries beyond n
     * are zeros. m := x. */
    void (*cross)(uint32_t stride, const void *product, const struct ts_unpacked *b,
                  const uint16_t *at, uint32_t n, double *k, double *m);

    /* out := P' y (P: the row products of a row's nonzeros), in the precision of the products;
     * entries of y are `step` apart. Returns the sum of squares of out. */
    double (*combine)(uint32_t stride, const void *product, const uint16_t *at, uint32_t n,
                      const double *y, uint32_t step, void *out);
};

#define TS_GRAM_SIDE  4u
#define TS_GRAM_TILE  (TS_GRAM_SIDE * TS_GRAM_SIDE)
#define TS_GRAM_SHORT 64u /* most nonzeros of a short row, a multiple of TS_GRAM_SIDE */

/* Restores the order of diagonal blocks after `add`. With T = turned: the block at (T v, T v) of s
 * has x(j) x((j + d) % T) in row d, column j, for d = 0 .. T / 2. Sets the upper triangle of the
 * block. */
void ts_gram_straighten(const struct ts_gram *g, uint32_t turned);

const struct ts_gram_ops *ts_gram_get(enum ts_isa isa, enum ts_precision precision,
                                      uint32_t stride);

/* to := for each position of a block, the row number in the mode at level l. */
void ts_kernel_rows(const struct ts_unpacked *b, uint32_t l, uint32_t leaf, uint32_t *to);

/* hash := for each nonzero of a block, the number that decides whether it is held out
 * (format/hold_out.h). level: the mode at each level. */
void ts_kernel_hash(const struct ts_hold_out *h, uint32_t order, const uint8_t *level,
                    const struct ts_unpacked *b, uint64_t *hash);

/* Sets the values of held-out nonzeros in a block to 0. */
void ts_kernel_hold_out(const struct ts_kernel_job *job, struct ts_unpacked *b);

/* Sets the members of *ret that say how values of the tensor are decoded. */
void ts_kernel_values(const struct ts_tensor *t, enum ts_precision precision,
                      struct ts_unpack_conf *ret);

/* Returns the kernel of an instruction set for rows of `stride` elements (fmat.h), or NULL if this
 * machine or build has none. Rows are stored in one precision; products and sums are in the same or
 * a higher one. */
ts_kernel_fn *ts_kernel_get(enum ts_isa isa, enum ts_precision stored, enum ts_precision summed,
                            uint32_t stride);

/* Returns the decoder for the kernels of an instruction set. */
ts_unpack_fn *ts_kernel_unpack(enum ts_isa isa);

#endif
