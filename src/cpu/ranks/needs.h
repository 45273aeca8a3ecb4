/* SPDX-License-Identifier: BSD-3-Clause */
/* needs.h - rows of factors that travel to those ranks alone that need them.
 *
 * A rank needs of a mode the rows that its nonzeros have, in the copies of all modes. They are
 * marked, a bit a row, while the first pass over each copy has its shards; ranks that share factors
 * on one machine need what one of them does. Once all copies were walked, whoever updates a row is
 * told who needs it, and from then on a mode's rows are packed for each of these, where that is
 * cheaper than to send all rows to all. The rule, by mode and the same on all ranks, from what each
 * of them would send and get:
 *
 *     the most that a rank gets, of all rows  >  the most, over ranks, of  max(sent, got) + w (sent
 *     + got),  of rows needed
 *
 * in bytes, those that are packed and unpacked with the padding of their rows: w = max(10 / 6 /
 * threads, 1 / 4) says that a thread packs 6 GB/s (measured, of rows of 64 to 128 bytes), and all
 * threads of a rank 40, while 10 GB/s travel. All rows travel with their padding, from their place
 * to their place, and are not packed. Where a rank has marked so many rows of a mode that the rule
 * cannot hold any more, it marks no more of them.
 *
 *   owner    the object owns bits and buffers; rows are the factor's
 *   units    rows of a mode; ranges of ranks begin at multiples of 64 rows, as groups do
 *            (cpu/rows/rowsolve.h)
 *   threads  one calls, inside `threads` OpenMP threads; ts_needs_walk: any, at once
 *   errors   0 or a negative ts_code, the same on all ranks, but of new
 *   bits     rows arrive as they are
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
    int shared;       /* ranks of a machine share one copy of the factors */
    uint32_t skipped; /* bit m: there is no pass over mode m */
    int always;       /* send rows to those ranks that need them, even if all to all is cheaper */
    ts_unpack_fn *unpack;
};

int ts_needs_new(const struct ts_needs_conf *conf, struct ts_needs **ret, struct ts_err *err);
void ts_needs_free(struct ts_needs *n); /* n may be NULL */

/* An upper bound of its memory on one rank, with a small error: which rows a rank updates is known
 * only up to a shard. */
uint64_t ts_needs_bytes(const struct ts_tensor *t, const struct ts_comm *comm, uint32_t row_bytes);

/* ts_needs_walks tells whether the pass over `mode` that begins must walk its partitions. If so,
 * ts_needs_walk walks partition k of a shard. buffer: memory of the thread. */
int ts_needs_walks(const struct ts_needs *n, uint32_t mode);
void ts_needs_walk(struct ts_needs *n, uint32_t mode, const struct ts_kernel_input *in,
                   struct ts_unpacked *buffer);
/* to be called on all ranks after the pass */
void ts_needs_walked(struct ts_needs *n, uint32_t mode);

/* Sends the factor of `mode`. Rank r has rows row[r] .. row[r + 1] - 1, which must be the same in
 * each call. They go to all ranks, or to those that need them. *some: some rank did not get all
 * rows. Collective. */
int ts_needs_send(struct ts_needs *n, uint32_t mode, struct ts_fmat *f, const uint64_t *row,
                  int *some, struct ts_err *err);

/* For a mode of which some rank lacks rows: a bit for each row that this rank gets, in n_words
 * words. */
const uint64_t *ts_needs_got(const struct ts_needs *n, uint32_t mode, uint64_t *n_words);

#endif
