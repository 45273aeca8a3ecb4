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

/* Of matrices side by side in the rows of one (cpu/fmat.h) only the columns that are meant travel,
 * packed: after ts_share_stage, which makes room for it. */
int ts_share_stage(struct ts_share *s, struct ts_err *err);
uint64_t ts_share_stage_bytes(uint32_t n_ranks);

/* whole: a rank computes whole shards, the nearest to those ranges; they are among those that
 * ts_share_shards_of tells. */
int ts_share_new(const struct ts_tensor *t, struct ts_comm *comm, int whole, struct ts_share **ret,
                 struct ts_err *err);
void ts_share_free(struct ts_share *s); /* NULL is fine */
uint64_t ts_share_bytes(const struct ts_tensor *t, uint32_t n_ranks);

struct ts_comm *ts_share_comm(const struct ts_share *s);

/* Those where the ranks' ranges begin, and the end: n + 1. */
const uint64_t *ts_share_cuts(const struct ts_share *s, uint32_t mode);

/* Partitions of all ranks, */
uint64_t ts_share_partitions(const struct ts_share *s, uint32_t mode);

/* of this one; and for each shard an enum ts_deal (stream/feed/feed.h): those of others are
 * left. */
void ts_share_range(const struct ts_share *s, uint32_t mode, uint64_t *begin, uint64_t *end);
uint64_t ts_share_nnz(const struct ts_share *s, uint32_t mode); /* nonzeros of its range */
const unsigned char *ts_share_deal(const struct ts_share *s, uint32_t mode);

/* Time that goes into exchange, waiting for others included: from `since` on until now; rows of so
 * many bytes, to all ranks together, which went to those who need them (cpu/ranks/needs.h) or to
 * all; and what was noted since the last time that anybody asked. */
void ts_share_note(struct ts_share *s, uint64_t since_ns);
void ts_share_note_rows(struct ts_share *s, uint64_t bytes, enum ts_rows_to to);
struct ts_exchanged ts_share_noted(struct ts_share *s);

/* Whether another rank has given up (struct ts_comm_ops); looks at most every so many
 * milliseconds. */
int ts_share_poll(struct ts_share *s);

/* After this rank's range was computed, or failed with rc: gives all ranks all edges, brings the
 * heads of rows that are cut and their first parts to where they are folded, and sets begin and end
 * to the partitions to be folded here. out: whole rows, of all models. */
int ts_share_heads(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                   void *heads, uint64_t head_bytes, struct ts_fmat *out, uint64_t *begin,
                   uint64_t *end, struct ts_err *err);

/* The same of parts that are not rows: two of each partition, side by side, of its first row and of
 * its last one (not used where they are one). Those of a row that is cut come to the rank that
 * folds it. begin and end: the parts to be folded here, part i being of partition i / 2, of its
 * last row where i is odd. */
int ts_share_ends(struct ts_share *s, uint32_t mode, int rc, struct ts_kernel_edge *edge,
                  void *parts, uint64_t part_bytes, uint64_t *begin, uint64_t *end,
                  struct ts_err *err);

/* After this rank's range was computed, or failed with rc, where ranges are whole shards: sets the
 * rows that ranks have. A row that goes on in a shard of another rank is that of the last one. */
int ts_share_shards(struct ts_share *s, uint32_t mode, int rc, struct ts_err *err);
int ts_share_is_whole(const struct ts_share *s);

/* Shards of this rank, where ranges are whole ones: first[r] .. first[r + 1] - 1 are rank r's.
 * Valid until the next call. */
const uint64_t *ts_share_first_shards(struct ts_share *s, uint32_t mode);

/* After this rank's part was computed, or failed with rc: what it failed with, anywhere. */
int ts_share_agree(struct ts_share *s, int rc, struct ts_err *err);

/* All ranks get all of an array that has `bytes` for each partition of the mode. */
int ts_share_gather_parts(struct ts_share *s, uint32_t mode, void *array, uint64_t bytes,
                          struct ts_err *err);

/* *x := the largest that any rank has. */
int ts_share_largest(struct ts_share *s, double *x, struct ts_err *err);

/* Elements first[r] .. first[r + 1] - 1, of `bytes` each, of rank r go to rank 0. */
int ts_share_to_first(struct ts_share *s, void *array, uint64_t bytes, const uint64_t *first,
                      struct ts_err *err);

/* n groups of work, dealt evenly; valid until the next call. */
const uint64_t *ts_share_groups(struct ts_share *s, uint64_t n);

/* ---- matrices that ranks of a machine share (struct ts_fmat, `shared`): rows of them travel
 * between machines alone ---- */

/* What this rank has written all ranks of its machine see, and all have come so far. */
int ts_share_settle(struct ts_share *s, struct ts_err *err);

/* Then rank r has rows first[r] .. first[r + 1] - 1 of the product. Brings them to where they are
 * wanted: on rank r rows wanted[r] .. wanted[r + 1] - 1. */
const uint64_t *ts_share_rows(const struct ts_share *s);
int ts_share_move_rows(struct ts_share *s, struct ts_fmat *product, const uint64_t *wanted,
                       struct ts_err *err);

/* All ranks get rows wanted[r] .. wanted[r + 1] - 1 of rank r's factor; of one that is shared one
 * rank of each other machine receives what rank r has, which is another one for the next rank. */
int ts_share_gather_rows(struct ts_share *s, struct ts_fmat *f, const uint64_t *wanted,
                         struct ts_err *err);

/* Rank 0, or its machine, gets the same rows of all. */
int ts_share_rows_to_first(struct ts_share *s, struct ts_fmat *f, const uint64_t *wanted,
                           struct ts_err *err);

/* The rank that gets what `from` has and `to` needs: of a matrix that is shared one of its machine,
 * as above, or, where that is the machine of `from`, `from` itself. */
uint32_t ts_share_receiver(const struct ts_share *s, int shared, uint32_t from, uint32_t to);

/* The same as ts_share_gather_rows of an array of elements of `bytes` each. */
int ts_share_gather(struct ts_share *s, void *array, uint64_t bytes, const uint64_t *first,
                    struct ts_err *err);

#endif
