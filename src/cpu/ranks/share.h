/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - which part of a mode's product is computed by which rank, on CPU cores, and what
 * travels between them.
 *
 * A rank computes a range of the mode copy's partitions, and has the rows that end in it. A row
 * that is cut is folded by the last rank that has a part of it, from the others' heads, in the
 * order of the file: the sums are those of one process. Ranges are of equal predicted cost, of
 * nonzeros and rows (stream/balance.h).
 *
 *   owner    the share owns its tables; the caller matrices, heads and edges
 *   threads  one thread calls, but poll: any, one at a time
 *   errors   0 or a negative ts_code, the same on all ranks
 */
#ifndef TS_CPU_SHARE_H
#define TS_CPU_SHARE_H

#include "cpu/ranks/share_cut.h"
#include "stream/comm.h"

struct ts_share;

/* Allocates buffers for matrices that lie side by side in the rows of one (cpu/fmat.h). Only the
 * columns of one matrix are sent, packed in these buffers. */
int ts_share_stage(struct ts_share *s, struct ts_err *err);
uint64_t ts_share_stage_bytes(uint32_t n_ranks);

/* whole: ranks compute whole shards. Their ranges end at the shard ends nearest to those of equal
 * cost, among the shards that ts_share_shards_of returns. */
int ts_share_new(const struct ts_tensor *t, struct ts_comm *comm, int whole, struct ts_share **ret,
                 struct ts_err *err);
void ts_share_free(struct ts_share *s); /* s may be NULL */
uint64_t ts_share_bytes(const struct ts_tensor *t, uint32_t n_ranks);

struct ts_comm *ts_share_comm(const struct ts_share *s);

/* The n + 1 partitions at which the ranges of ranks begin, and the last one ends. */
const uint64_t *ts_share_cuts(const struct ts_share *s, uint32_t mode);

/* The number of partitions that all ranks have together. */
uint64_t ts_share_partitions(const struct ts_share *s, uint32_t mode);

/* The partitions of this rank: begin .. end - 1. ts_share_deal has an enum ts_deal
 * (stream/feed/feed.h) for each shard, by which shards of other ranks are left out. */
void ts_share_range(const struct ts_share *s, uint32_t mode, uint64_t *begin, uint64_t *end);
uint64_t ts_share_nnz(const struct ts_share *s, uint32_t mode); /* nonzeros of its range */
const unsigned char *ts_share_deal(const struct ts_share *s, uint32_t mode);

/* Notes the time of an exchange from `since` until now, waiting included; the bytes of rows sent to
 * all ranks together, and whether they went to all ranks or to those that need them
 * (cpu/ranks/needs.h). Returns what was noted since the last call that asked for it. */
void ts_share_note(struct ts_share *s, uint64_t since_ns);
void ts_share_note_rows(struct ts_share *s, uint64_t bytes, enum ts_rows_to to);
struct ts_exchanged ts_share_noted(struct ts_share *s);

/* Whether another rank has given up (struct ts_comm_ops). It is checked only every few
 * milliseconds. */
int ts_share_poll(struct ts_share *s);

/* To be called when this rank's range is computed, or has failed with rc. Gives all edges to all
 * ranks, and sends the heads of rows that are cut, and their first parts, to the rank that folds
 * them. Sets begin and end to the partitions to be folded here. out: whole rows, of all models. */
int ts_share_heads(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                   void *heads, uint64_t head_bytes, struct ts_fmat *out, uint64_t *begin,
                   uint64_t *end, struct ts_err *err);

/* Like ts_share_heads, for parts that are not rows. Each partition has two, side by side: one of
 * its first row, and one of its last row (unused if there is only one row). The parts of a row that
 * is cut go to the rank that folds it. begin and end: the parts to be folded here. Part i belongs
 * to partition i / 2, and to its last row if i is odd. */
int ts_share_ends(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                  void *parts, uint64_t part_bytes, uint64_t *begin, uint64_t *end,
                  struct ts_err *err);

/* For ranges of whole shards. To be called when this rank's range is computed, or has failed with
 * rc. Sets the rows that ranks have. A row that continues in a shard of another rank belongs to the
 * last of these ranks. */
int ts_share_shards(struct ts_share *s, uint32_t mode, int rc, struct ts_err *err);
int ts_share_is_whole(const struct ts_share *s);

/* For ranges of whole shards: rank r has shards first[r] .. first[r + 1] - 1. Valid until the next
 * call. */
const uint64_t *ts_share_first_shards(struct ts_share *s, uint32_t mode);

/* To be called when this rank's part is computed, or has failed with rc. Returns the failure of any
 * rank. */
int ts_share_agree(struct ts_share *s, int rc, struct ts_err *err);

/* Gives an array with `bytes` for each partition of the mode to all ranks, from the ranks that
 * computed them. */
int ts_share_gather_parts(struct ts_share *s, uint32_t mode, void *array, uint64_t bytes,
                          struct ts_err *err);

/* Sets *x to the largest *x of all ranks. */
int ts_share_largest(struct ts_share *s, double *x, struct ts_err *err);

/* Sends elements first[r] .. first[r + 1] - 1 of `bytes` each from rank r to rank 0. */
int ts_share_to_first(struct ts_share *s, void *array, uint64_t bytes, const uint64_t *first,
                      struct ts_err *err);

/* Divides n groups of work evenly among ranks. Valid until the next call. */
const uint64_t *ts_share_groups(struct ts_share *s, uint64_t n);

/* ---- matrices that ranks of a machine share (struct ts_fmat, `shared`): rows of them travel
 * between machines alone ---- */

/* Waits until all ranks of the machine have come to this point, and see what this rank has
 * written. */
int ts_share_settle(struct ts_share *s, struct ts_err *err);

/* The rows that ranks then have of the product: first[r] .. first[r + 1] - 1 for rank r. Sends them
 * to the ranks that want them: rank r gets rows wanted[r] .. wanted[r + 1] - 1. */
const uint64_t *ts_share_rows(const struct ts_share *s);
int ts_share_move_rows(struct ts_share *s, struct ts_fmat *product, const uint64_t *wanted,
                       struct ts_err *err);

/* Gives rows wanted[r] .. wanted[r + 1] - 1 of rank r's factor to all ranks. If machines share the
 * factor, one rank of each other machine receives the rows of rank r, each time another one. */
int ts_share_gather_rows(struct ts_share *s, struct ts_fmat *f, const uint64_t *wanted,
                         struct ts_err *err);

/* Gives these rows of all ranks to rank 0 or, if it is shared, to its machine. */
int ts_share_rows_to_first(struct ts_share *s, struct ts_fmat *f, const uint64_t *wanted,
                           struct ts_err *err);

/* The rank that receives rows of `from` for `to`. If the matrix is shared, it is a rank of the
 * machine of `to`, or `from` itself if this is its machine, too. */
uint32_t ts_share_receiver(const struct ts_share *s, int shared, uint32_t from, uint32_t to);

/* Like ts_share_gather_rows, for an array of elements of `bytes` each. */
int ts_share_gather(struct ts_share *s, void *array, uint64_t bytes, const uint64_t *first,
                    struct ts_err *err);

#endif
