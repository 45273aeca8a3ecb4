/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_gather.h - what members send each other in a pass, for gpu_gather.c, gpu_rows.c and
 * gpu_finish.c.
 *
 * Each member has spans of rows that it computed; the board has them, of all members. A part is the
 * spans of one member in one gather.
 *
 *   owner    spans: the board
 *   units    rows; bytes from the beginning of a buffer
 *   threads  the member's
 *   errors   0 or a negative ts_code, or a ts_gpu_error (gpu_types.h)
 */
#ifndef TS_GPU_GPU_GATHER_H
#define TS_GPU_GPU_GATHER_H

#include "gpu/pass/gpu_pass.h"

/* ---- gpu_gather.c */
/* The rows of shards first..last that the member sends for a model. 0: there are none. */
int ts_gpu_gather_rows_of(const struct ts_gpu_product *r, uint64_t first, uint64_t last,
                          uint64_t *row, uint64_t *n);
/* A pass that judges rows has no products. */
int ts_gpu_gather_sends_edges(const struct ts_gpu_product *r);
/* The next range of consecutive shards that a member computes, at or after *first and below end.
 * 0: there is none. */
int ts_gpu_gather_next_run(const struct ts_gpu_pass *p, uint32_t number, uint64_t *first,
                           uint64_t *last, uint64_t end);
/* Each row has its own inner product, or of observed cells its size; those of updates that read
 * the old rows are of units. */
int ts_gpu_gather_with_inner(const struct ts_gpu_product *r);
/* A part that member i sends; its spans follow. */
void ts_gpu_gather_open(struct ts_gpu_pass *p, uint32_t i, struct ts_exchange_part *part);
void ts_gpu_gather_add(struct ts_gpu_pass *p, uint32_t i, struct ts_exchange_part *part,
                       uint64_t offset, uint64_t bytes);
/* Bytes of a row that members send each other: the new ones, or where these come from the old ones,
 * products. */
uint64_t ts_gpu_gather_row_bytes(const struct ts_gpu_product *r);
/* Makes the spans of row_inner that belong to the spans of rows, of a member. */
void ts_gpu_gather_inner(struct ts_gpu_product *r, uint32_t number, uint32_t k);
/* Gathers a buffer of a model: each member sends its part of it to all others. Gathers of all
 * models that follow each other have one mark, which the first begins: of thirty-two models
 * there would be more marks than the log holds, and its owner would wait for them. */
int ts_gpu_gather_buffer(struct ts_gpu_product *r, enum ts_gpu_buffer buffer,
                         const struct ts_exchange_part *part, struct ts_err *err);
/* Ends the mark of the gathers since the last call, if there were any. */
int ts_gpu_gather_end(struct ts_gpu_pass *p, struct ts_err *err);
int ts_gpu_gather_rows(struct ts_gpu_pass *p, uint32_t k, struct ts_err *err);
/* The edges of all shards that a member computes. */
void ts_gpu_gather_edges(struct ts_gpu_product *r, uint32_t number);

/* ---- gpu_rows.c */
ts_gpu_error ts_gpu_rows_solve(struct ts_gpu_product *r, uint64_t row, const uint32_t *list,
                               uint64_t n);
/* Makes `dense` wait for all work that the member's other streams have been given so far. */
ts_gpu_error ts_gpu_rows_join(struct ts_gpu_pass *p);
/* Enqueues the gathers whose parts all members here have published, in the same order on all
 * members. Those of other processes are waited for by the gathers themselves. */
int ts_gpu_rows_send(struct ts_gpu_pass *p, struct ts_err *err);

#endif
