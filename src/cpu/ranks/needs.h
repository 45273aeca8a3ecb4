/* SPDX-License-Identifier: BSD-3-Clause */
/* needs.h - sends rows of factors only to the ranks (processes) that need them.
 *
 * A rank needs the rows of a mode that occur in its nonzeros, in the copies of all modes. The first
 * pass over each copy marks these rows, one bit for each. If ranks of a machine share factors, the
 * machine needs a row if one of its ranks does. After a pass over each copy, the rank that updates
 * a row is told which ranks need it. From then on, rows of a mode are packed for each of these
 * ranks, if that is cheaper than sending all rows to all ranks. The rule is the same on all ranks.
 * It compares, for each mode, the bytes that each rank would send and receive:
 *
 *     the most that a rank receives of all rows  >
 *         the most, over ranks, of  max(sent, received) + w (sent + received)  for needed rows
 *
 * Packed and unpacked bytes include the padding of rows. w is max(10 / 6 / threads, 1 / 4): a
 * thread packs 6 GB/s (measured, for rows of 64 to 128 bytes), and all threads of a rank 40 GB/s,
 * while 10 GB/s are sent. If all rows are sent, they are sent with their padding, without packing.
 * If a rank has marked so many rows of a mode that the rule cannot hold, it stops marking.
 *
 *   owner    the object owns bits and buffers; the factor owns rows
 *   units    rows of a mode; ranges of ranks begin at multiples of 64 rows, like groups
 *            (cpu/rows/rowsolve.h)
 *   threads  one calls, inside `threads` OpenMP threads; ts_needs_walk: any, at the same time
 *   errors   0 or a negative ts_code, the same on all ranks, except for ts_needs_new
 *   bits     rows arrive unchanged
 */
#ifndef TS_CPU_NEEDS_H
#define TS_CPU_NEEDS_H

#include "cpu/ranks/share.h"

struct ts_needs;

struct ts_needs_conf {
    const struct ts_tensor *tensor;
    struct ts_share *share;
    uint32_t threads;
    /* bytes of a row of the factor, without padding and with it */
    uint32_t row_bytes, stride_bytes;
    int shared;       /* 1: ranks of a machine share one copy of the factors */
    uint32_t skipped; /* bit m: there is no pass over mode m */
    /* 1: send rows only to the ranks that need them, even if sending all rows is cheaper */
    int always;
    ts_unpack_fn *unpack;
};

int ts_needs_new(const struct ts_needs_conf *conf, struct ts_needs **ret, struct ts_err *err);
void ts_needs_free(struct ts_needs *n); /* n may be NULL */

/* Returns an upper bound of the memory on one rank. It has a small error, because the rows that a
 * rank updates are known only up to a shard. */
uint64_t ts_needs_bytes(const struct ts_tensor *t, const struct ts_comm *comm, uint32_t row_bytes);

/* ts_needs_walks returns whether the pass over `mode` that begins must call ts_needs_walk for each
 * of its partitions. ts_needs_walk marks the rows that the nonzeros of a partition need. buffer:
 * memory of the thread for a decoded block. */
int ts_needs_walks(const struct ts_needs *n, uint32_t mode);
void ts_needs_walk(struct ts_needs *n, uint32_t mode, const struct ts_kernel_input *in,
                   struct ts_unpacked *buffer);
/* Records that the first pass over `mode` is complete. To be called on all ranks. */
void ts_needs_walked(struct ts_needs *n, uint32_t mode);

/* Sends rows of the factor of `mode` to all ranks, or to those that need them. Rank r has rows
 * row[r] .. row[r + 1] - 1, which must be the same in each call. *some := 1 if some rank did not
 * get all rows. Collective. */
int ts_needs_send(struct ts_needs *n, uint32_t mode, struct ts_fmat *f, const uint64_t *row,
                  int *some, struct ts_err *err);

/* For a mode of which some rank lacks rows. Returns n_words words with a bit for each row of the
 * mode, which is 1 if this rank receives the row. */
const uint64_t *ts_needs_got(const struct ts_needs *n, uint32_t mode, uint64_t *n_words);

#endif
