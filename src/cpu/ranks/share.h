/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - divides the MTTKRP of a mode among ranks (processes) on CPU cores, and sends data
 * between them.
 *
 * A rank computes a range of the partitions of a mode copy, and has the rows that end in it. A row
 * is *cut* if it has nonzeros in the ranges of several ranks. The last of these ranks *folds* it:
 * it adds the heads of the others (sums of first rows of partitions) in the order of the file, so
 * sums are those of a single process. Ranges have equal predicted cost, computed from nonzeros and
 * rows (stream/balance.h).
 *
 *   owner    the share owns its tables; the caller owns matrices, heads and edges (struct
 *            ts_kernel_edge)
 *   threads  one thread calls; ts_share_poll: any, one at a time
 *   errors   0 or a negative ts_code, the same on all ranks
 */
#ifndef TS_CPU_SHARE_H
#define TS_CPU_SHARE_H

#include "cpu/ranks/share_cut.h"
#include "stream/comm.h"

struct ts_share;

/* Allocates a buffer that is needed if matrices are views (cpu/fmat.h): then only the columns of
 * one view are sent, packed in this buffer. */
int ts_share_stage(struct ts_share *s, struct ts_err *err);
uint64_t ts_share_stage_bytes(uint32_t n_ranks);

/* whole: ranks compute whole shards. Their ranges end at the ends of shards that are nearest to
 * ranges of equal cost, among the shards that ts_share_shards_of returns. */
int ts_share_new(const struct ts_tensor *t, struct ts_comm *comm, int whole, struct ts_share **ret,
                 struct ts_err *err);
void ts_share_free(struct ts_share *s); /* s may be NULL */
uint64_t ts_share_bytes(const struct ts_tensor *t, uint32_t n_ranks);

struct ts_comm *ts_share_comm(const struct ts_share *s);

/* Returns n + 1 partitions, for n ranks: the first one of each rank, and the end of the last
 * range. */
const uint64_t *ts_share_cuts(const struct ts_share *s, uint32_t mode);

/* Returns the number of partitions that all ranks have together. */
uint64_t ts_share_partitions(const struct ts_share *s, uint32_t mode);

/* Sets begin and end: the partitions of this rank are begin .. end - 1. ts_share_deal returns an
 * enum ts_deal (stream/feed/feed.h) for each shard. It marks shards that only other ranks
 * compute. */
void ts_share_range(const struct ts_share *s, uint32_t mode, uint64_t *begin, uint64_t *end);
uint64_t ts_share_nnz(const struct ts_share *s, uint32_t mode); /* nonzeros of this rank's range */
const unsigned char *ts_share_deal(const struct ts_share *s, uint32_t mode);

/* ts_share_note adds the time from since_ns until now, waiting included, to the exchange time.
 * ts_share_note_rows adds the bytes of rows that were sent to all ranks together, and records
 * whether rows went to all ranks, or to those that need them (cpu/ranks/needs.h). ts_share_noted
 * returns these figures since its last call. */
void ts_share_note(struct ts_share *s, uint64_t since_ns);
void ts_share_note_rows(struct ts_share *s, uint64_t bytes, enum ts_rows_to to);
struct ts_exchanged ts_share_noted(struct ts_share *s);

/* Whether another rank has given up (struct ts_comm_ops). It is checked only every few
 * milliseconds. */
int ts_share_poll(struct ts_share *s);

/* To be called after this rank has computed its range, or has failed with rc. Gathers all edges
 * (first and last rows of partitions) on all ranks. Sends heads and first parts of cut rows to the
 * rank that folds (adds up) them. Sets begin and end to the partitions whose heads are added here.
 * out: the product, whose rows have the columns of all models. */
int ts_share_heads(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                   void *heads, uint64_t head_bytes, struct ts_fmat *out, uint64_t *begin,
                   uint64_t *end, struct ts_err *err);

/* Like ts_share_heads, for parts (partial sums of a row) that are not rows of a matrix. Each
 * partition has two parts side by side: for its first row, and for its last row (unused if there is
 * only one row). The parts of a cut row (a row of several ranks) are sent to the rank that folds it
 * (adds them up). begin and end: the parts to be added here. Part i belongs to partition i / 2, and
 * to its last row if i is odd. */
int ts_share_ends(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                  void *parts, uint64_t part_bytes, uint64_t *begin, uint64_t *end,
                  struct ts_err *err);

/* For ranges of whole shards. To be called after this rank has computed its range, or has failed
 * with rc. Sets the rows of each rank (ts_share_rows). A row that continues in a shard of another
 * rank belongs to the last of these ranks. */
int ts_share_shards(struct ts_share *s, uint32_t mode, int rc, struct ts_err *err);
int ts_share_is_whole(const struct ts_share *s);

/* For ranges of whole shards: rank r has shards first[r] .. first[r + 1] - 1. Valid until the next
 * call. */
const uint64_t *ts_share_first_shards(struct ts_share *s, uint32_t mode);

/* To be called after this rank has done its part, or has failed with rc. Returns the failure of any
 * rank. */
int ts_share_agree(struct ts_share *s, int rc, struct ts_err *err);

/* Sends an array with `bytes` for each partition of the mode to all ranks. Each rank has computed
 * its partitions. */
int ts_share_gather_parts(struct ts_share *s, uint32_t mode, void *array, uint64_t bytes,
                          struct ts_err *err);

/* Sets *x to the largest *x of all ranks. */
int ts_share_largest(struct ts_share *s, double *x, struct ts_err *err);

/* Sends elements first[r] .. first[r + 1] - 1 of `bytes` each from rank r to rank 0. */
int ts_share_to_first(struct ts_share *s, void *array, uint64_t bytes, const uint64_t *first,
                      struct ts_err *err);

/* Divides n groups of work evenly among ranks. Returns an array first: rank r gets groups first[r]
 * .. first[r + 1] - 1. Valid until the next call. */
const uint64_t *ts_share_groups(struct ts_share *s, uint64_t n);

/* ---- matrices that the ranks of a machine share (struct ts_fmat, `shared`): their rows are sent
 * only between machines ---- */

/* Waits until all ranks of the machine have called this, so that they see what this rank has
 * written. */
int ts_share_settle(struct ts_share *s, struct ts_err *err);

/* ts_share_rows returns the rows of the product that each rank has after ts_share_heads: first[r]
 * .. first[r + 1] - 1 for rank r. ts_share_move_rows sends them to the ranks that want them: rank r
 * gets rows wanted[r] .. wanted[r + 1] - 1. */
const uint64_t *ts_share_rows(const struct ts_share *s);
int ts_share_move_rows(struct ts_share *s, struct ts_fmat *product, const uint64_t *wanted,
                       struct ts_err *err);

/* Sends rows wanted[r] .. wanted[r + 1] - 1 of each rank r to all ranks. If ranks of a machine
 * share the factor, one rank of each other machine receives the rows of rank r; the receivers
 * alternate. */
int ts_share_gather_rows(struct ts_share *s, struct ts_fmat *f, const uint64_t *wanted,
                         struct ts_err *err);

/* Sends rows wanted[r] .. wanted[r + 1] - 1 of each rank r to rank 0 or, if ranks share the factor,
 * to its machine. */
int ts_share_rows_to_first(struct ts_share *s, struct ts_fmat *f, const uint64_t *wanted,
                           struct ts_err *err);

/* Returns the rank that receives rows of `from` for `to`. If ranks of a machine share the matrix,
 * it is a rank on the machine of `to`, or `from` itself if it is on that machine. */
uint32_t ts_share_receiver(const struct ts_share *s, int shared, uint32_t from, uint32_t to);

/* Like ts_share_gather_rows, for an array of elements of `bytes` each. */
int ts_share_gather(struct ts_share *s, void *array, uint64_t bytes, const uint64_t *first,
                    struct ts_err *err);

#endif
