/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_gather.h - the exchange of rows between members (GPUs) in a pass, for gpu_gather.c,
 * gpu_rows.c and gpu_finish.c.
 *
 * Each member has spans of rows that it computed. The board (data that members share in a pass,
 * gpu_state.h) holds the spans of all members. A part consists of the spans of one member in one
 * gather.
 *
 *   owner    the board owns the spans
 *   units    rows; bytes from the beginning of a buffer
 *   threads  the thread of the member
 *   errors   0 or a negative ts_code, or a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_GPU_GATHER_H
#define TS_GPU_GPU_GATHER_H

#include "gpu/pass/gpu_pass.h"

/* ---- defined in gpu_gather.c */
/* Finds the rows of shards first..last that the member (GPU) sends for a model. Returns 0 if there
 * are none. */
int ts_gpu_gather_rows_of(const struct ts_gpu_product *r, uint64_t first, uint64_t last,
                          uint64_t *row, uint64_t *n);
/* Whether edge rows of shards (partial sums of rows that shards share) are sent. Passes that only
 * add up sums, and passes of MULTIPLY without rounds, send none. */
int ts_gpu_gather_sends_edges(const struct ts_gpu_product *r);
/* Finds the next range of consecutive shards that a member (GPU) computes, at or after *first and
 * before end. Returns 0 if there is none. */
int ts_gpu_gather_next_run(const struct ts_gpu_pass *p, uint32_t number, uint64_t *first,
                           uint64_t *last, uint64_t end);
/* Whether row_inner has a number for each row, which is sent with it. The number is the inner
 * product of the new row and its product (MTTKRP) or, for observed cells, the row's part of `size`
 * (struct ts_row_sums). Updates that read the old rows have such numbers for units of 32 rows
 * instead. */
int ts_gpu_gather_with_inner(const struct ts_gpu_product *r);
/* Starts a part (the spans of one gather) that member i sends. Its spans are added by
 * ts_gpu_gather_add. */
void ts_gpu_gather_open(struct ts_gpu_pass *p, uint32_t i, struct ts_exchange_part *part);
void ts_gpu_gather_add(struct ts_gpu_pass *p, uint32_t i, struct ts_exchange_part *part,
                       uint64_t offset, uint64_t bytes);
/* Returns the bytes of a row that members (GPUs) send: of a new row or, for updates that read the
 * old rows, of a product. */
uint64_t ts_gpu_gather_row_bytes(const struct ts_gpu_product *r);
/* Makes the spans of row_inner for the rows in the k-th part (the spans of the k-th gather) of a
 * member (GPU). */
void ts_gpu_gather_inner(struct ts_gpu_product *r, uint32_t number, uint32_t k);
/* Gathers a buffer of a model: each member (GPU) sends its part of it to all others. The log times
 * consecutive gathers of all models as one piece of work (one mark), which the first gather starts.
 * Separate marks for 32 models would exceed the log's capacity, and the member would wait. */
int ts_gpu_gather_buffer(struct ts_gpu_product *r, enum ts_gpu_buffer buffer,
                         const struct ts_exchange_part *part, struct ts_err *err);
/* Ends the timing (log mark) of the gathers since the last call, if there were any. */
int ts_gpu_gather_end(struct ts_gpu_pass *p, struct ts_err *err);
int ts_gpu_gather_rows(struct ts_gpu_pass *p, uint32_t k, struct ts_err *err);
/* Makes the spans of the edge rows (partial sums) of all shards that a member (GPU) computes. */
void ts_gpu_gather_edges(struct ts_gpu_product *r, uint32_t number);

/* ---- defined in gpu_rows.c */
ts_gpu_error ts_gpu_rows_solve(struct ts_gpu_product *r, uint64_t row, const uint32_t *list,
                               uint64_t n);
/* Makes the stream `dense` wait for all work enqueued so far on the member's `compute` streams. */
ts_gpu_error ts_gpu_rows_join(struct ts_gpu_pass *p);
/* Enqueues the gathers whose parts (spans to be sent) all members (GPUs) of this process have
 * published, in the same order on all members. The gathers themselves wait for members of other
 * processes. */
int ts_gpu_rows_send(struct ts_gpu_pass *p, struct ts_err *err);

#endif
