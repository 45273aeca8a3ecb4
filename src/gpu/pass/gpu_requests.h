/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_requests.h - each kind of request (stream/request.h) on GPUs: functions for the backend's
 * table, and functions that enqueue its kernels in a pass.
 *
 *   owner    the backend owns models; the caller owns memory that a request points to
 *   threads  functions with a ts_gpu_member or a ts_gpu_product are called by the member's thread,
 *            the others by the thread that calls the backend
 *   errors   0 or a negative ts_code, or a ts_gpu_error (gpu_types.h)
 * */
#ifndef TS_GPU_GPU_REQUESTS_H
#define TS_GPU_GPU_REQUESTS_H

#include "gpu/pass/gpu_pass.h"

/* ---- gpu_dense.c: functions of the backend's table with the same names */
int ts_gpu_dense_put(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                     struct ts_err *err);
int ts_gpu_dense_get(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                     struct ts_err *err);
int ts_gpu_dense_solve(void *be, uint32_t mode, const struct ts_row_update *update,
                       const struct ts_row_sums *sums, struct ts_err *err);
int ts_gpu_dense_scale(void *be, uint32_t mode, const double *s, struct ts_err *err);
int ts_gpu_dense_gram(void *be, uint32_t mode, double *gram, struct ts_err *err);
/* Enqueues an update that reads the old rows, for units (32 rows each) of the member's replica.
 * wide: products are in float64. */
ts_gpu_error ts_gpu_dense_own(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              uint32_t mode, const struct ts_row_update *update,
                              const struct ts_row_sums *sums, int wide, uint64_t first_unit,
                              uint64_t n_units);
/* Called for member 0, once all parts of the Gram matrix have arrived. sum_up enqueues the Gram
 * matrix and the requested sums, and their copy to the model's `host`; copy_out reads them there,
 * once the work on the stream `dense` has ended. update: the update that was made, or NULL. */
ts_gpu_error ts_gpu_dense_sum_up(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                 uint32_t mode, const struct ts_row_update *update,
                                 const struct ts_row_sums *sums);
void ts_gpu_dense_copy_out(const struct ts_gpu_model *of, const struct ts_row_update *update,
                           const struct ts_row_sums *sums);

/* ---- defined in gpu_multiply.c */
/* Enqueues the rounds of multiplicative updates for a launch's shards: weighted products, sums of
 * edge rows (partial sums of rows), and new rows. */
ts_gpu_error ts_gpu_multiply_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
/* Multiplies the rows that several shards share, once their products have arrived. */
ts_gpu_error ts_gpu_multiply_spans(const struct ts_gpu_product *r);
/* Answers requests MULTIPLY for n models (stream/request.h). feed NULL: only divides the columns by
 * their sums, as divide_columns of the backend's table. */
int ts_gpu_multiply(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                    struct ts_backend_times *times, struct ts_err *err);

/* ---- defined in gpu_observed.c */
/* Whether a pass solves for rows of observed cells, each with its own Gram matrix. */
static inline int ts_gpu_solves_observed(const struct ts_gpu_product *r)
{
    return r->pass->ask->kind == TS_REQUEST_ROWS;
}
uint64_t ts_gpu_observed_part_bytes(const struct ts_gpu_model *of);
/* Whether Gram matrices of rows are in device memory (long rows), and the number of places (memory
 * for one of these matrices each). */
int ts_gpu_observed_long(const struct ts_gpu_model *of);
uint32_t ts_gpu_observed_places(const struct ts_gpu_model *of);
/* Enqueue the kernels that solve for rows of a launch's shards (launch), and those that add partial
 * sums of rows inside the shards (fold). */
ts_gpu_error ts_gpu_observed_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
ts_gpu_error ts_gpu_observed_fold(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Enqueues the solves for the rows that several shards share, once all parts (partial sums) have
 * arrived, and on member 0 the copy of `size` (struct ts_row_sums) to the model's memory `host`. */
ts_gpu_error ts_gpu_observed_finish(const struct ts_gpu_product *r);
void ts_gpu_observed_copy_out(const struct ts_gpu_product *r);
/* For a dense tensor: enqueues the solution of all rows of the mode. Part e (Gram matrix, right
 * side and count of a row) belongs to row row[e], for an even number of parts. */
ts_gpu_error ts_gpu_observed_solve(const struct ts_gpu_product *r, const double *part,
                                   const uint32_t *row);
/* Launches the kernel of ts_gpu_observed_solve once, for row 0 of a model, so that its code is
 * loaded. */
ts_gpu_error ts_gpu_observed_solve_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                        const double *part, const uint32_t *row);
/* Enqueues the errors at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_errors_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Launch the kernels for models of observed cells, and for errors, once on a shard, so that their
 * code is loaded. The row that they compute is not used. */
ts_gpu_error ts_gpu_observed_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                  const struct ts_gpu_mttkrp *args);
ts_gpu_error ts_gpu_errors_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const struct ts_gpu_mttkrp *args);
/* Answer requests ROWS and ERRORS for n models (stream/request.h); one model if the tensor is
 * dense. */
int ts_gpu_observed_complete(const struct ts_request *of, uint32_t n, uint32_t mode,
                             struct ts_feed *feed, struct ts_backend_times *times,
                             struct ts_err *err);
int ts_gpu_observed_errors(const struct ts_request *of, uint32_t n, uint32_t mode,
                           struct ts_feed *feed, struct ts_backend_times *times,
                           struct ts_err *err);

/* ---- defined in gpu_loss.c */
/* Enqueue the gradients, or the sums of the loss, at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_gradient_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
ts_gpu_error ts_gpu_losses_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Launches the kernels of DESCEND and LOSSES once, so that their code is loaded. The row that they
 * compute is not used. */
ts_gpu_error ts_gpu_loss_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              const struct ts_gpu_mttkrp *args);
/* Answer requests DESCEND and LOSSES for n models (stream/request.h), and calls of `zeros` in the
 * backend's table of functions. */
int ts_gpu_descend(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                   struct ts_backend_times *times, struct ts_err *err);
int ts_gpu_losses(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                  struct ts_backend_times *times, struct ts_err *err);
int ts_gpu_descend_zeros(void *be, uint32_t mode, const struct ts_descent *update, double *zeros,
                         struct ts_err *err);

/* ---- defined in gpu_score.c */
/* Enqueues the sums of residuals at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_scores_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Launches the kernel for sums of residuals once on a shard, so that its code is loaded. */
ts_gpu_error ts_gpu_scores_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const struct ts_gpu_mttkrp *args);
/* Returns the number of rows for whose sums of residuals a device has memory. */
uint64_t ts_gpu_scores_rows(const struct ts_gpu *g);
/* Returns the bytes of host memory that a pass for scores over a mode takes. */
uint64_t ts_gpu_scores_host_bytes(const struct ts_mode *mode, int slices);
/* Answers a request SCORES (stream/request.h) for one model. */
int ts_gpu_scores(struct ts_gpu_model *of, uint32_t mode, struct ts_feed *feed,
                  struct ts_scores *scores, struct ts_backend_times *times, struct ts_err *err);

#endif
