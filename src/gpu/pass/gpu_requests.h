/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_requests.h - what each kind of request (stream/request.h) does on GPUs: calls of the
 * backend's table, and what a pass enqueues for them.
 *
 *   owner    models are the backend's; what a request points to is the caller's
 *   threads  calls with a ts_gpu_member or a ts_gpu_product: the member's; the others: those
 *            that call the backend
 *   errors   0 or a negative ts_code, or a ts_gpu_error (gpu_types.h)
 * */
#ifndef TS_GPU_GPU_REQUESTS_H
#define TS_GPU_GPU_REQUESTS_H

#include "gpu/pass/gpu_pass.h"

/* ---- gpu_dense.c: what the backend's table says, of the same names */
int ts_gpu_dense_put(void *be, uint32_t mode, uint64_t row, uint64_t n, const double *rows,
                     struct ts_err *err);
int ts_gpu_dense_get(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                     struct ts_err *err);
int ts_gpu_dense_solve(void *be, uint32_t mode, const struct ts_row_update *update,
                       const struct ts_row_sums *sums, struct ts_err *err);
int ts_gpu_dense_scale(void *be, uint32_t mode, const double *s, struct ts_err *err);
int ts_gpu_dense_gram(void *be, uint32_t mode, double *gram, struct ts_err *err);
/* Enqueues an update that reads the old rows, on units of the member's replica. wide: the products
 * are those in float64. */
ts_gpu_error ts_gpu_dense_own(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              uint32_t mode, const struct ts_row_update *update,
                              const struct ts_row_sums *sums, int wide, uint64_t first_unit,
                              uint64_t n_units);
/* On member 0, once all parts are there. sum_up enqueues the Gram matrix and the sums that are
 * asked for, and their copy to the model's `host`; the other function reads them there, once
 * `dense` has ended. how: NULL, or the update that was done. */
ts_gpu_error ts_gpu_dense_sum_up(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                 uint32_t mode, const struct ts_row_update *update,
                                 const struct ts_row_sums *sums);
void ts_gpu_dense_copy_out(const struct ts_gpu_model *of, const struct ts_row_update *update,
                           const struct ts_row_sums *sums);

/* ---- gpu_multiply.c */
/* Enqueues what becomes of a launch's shards, edges and rows included. */
ts_gpu_error ts_gpu_multiply_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
/* Multiplies the rows that lie in several shards, once their products are there. */
ts_gpu_error ts_gpu_multiply_spans(const struct ts_gpu_product *r);
/* Functions of struct ts_backend with the same names, for n models. */
int ts_gpu_multiply(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                    struct ts_backend_times *times, struct ts_err *err);

/* ---- gpu_observed.c */
/* Whether a pass solves for rows with Gram matrices of their own. */
static inline int ts_gpu_solves_observed(const struct ts_gpu_product *r)
{
    return r->pass->ask->kind == TS_REQUEST_ROWS;
}
uint64_t ts_gpu_observed_part_bytes(const struct ts_gpu_model *of);
/* Whether Gram matrices of rows lie in device memory, and for how many at a time there is some. */
int ts_gpu_observed_long(const struct ts_gpu_model *of);
uint32_t ts_gpu_observed_places(const struct ts_gpu_model *of);
/* Enqueues the rows of a launch's shards, and those that their parts are added up to. */
ts_gpu_error ts_gpu_observed_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
ts_gpu_error ts_gpu_observed_fold(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Enqueues the rows that lie in several shards, all parts being there, and on member 0 what
 * `size` is, to the model's `host`. */
ts_gpu_error ts_gpu_observed_finish(const struct ts_gpu_product *r);
void ts_gpu_observed_copy_out(const struct ts_gpu_product *r);
/* Enqueues the solution of the rows of the mode, part e being that of row row[e], of as many as
 * are even; of a dense tensor. */
ts_gpu_error ts_gpu_observed_solve(const struct ts_gpu_product *r, const double *part,
                                   const uint32_t *row);
/* The same of row 0 of a model, for the first time. */
ts_gpu_error ts_gpu_observed_solve_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                        const double *part, const uint32_t *row);
/* Enqueues the errors at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_errors_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Runs these kernels on a shard, for the first time; the row that they leave does not matter. */
ts_gpu_error ts_gpu_observed_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                  const struct ts_gpu_mttkrp *args);
ts_gpu_error ts_gpu_errors_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const struct ts_gpu_mttkrp *args);
/* Requests ROWS and ERRORS of n models (stream/request.h); of a dense tensor there is one. */
int ts_gpu_observed_complete(const struct ts_request *of, uint32_t n, uint32_t mode,
                             struct ts_feed *feed, struct ts_backend_times *times,
                             struct ts_err *err);
int ts_gpu_observed_errors(const struct ts_request *of, uint32_t n, uint32_t mode,
                           struct ts_feed *feed, struct ts_backend_times *times,
                           struct ts_err *err);

/* ---- gpu_loss.c */
/* Enqueues the gradients, or the sums of the loss, at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_gradient_launch(const struct ts_gpu_product *r,
                                    const struct ts_gpu_mttkrp *args, ts_gpu_stream stream);
ts_gpu_error ts_gpu_losses_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Runs the kernels of models by other losses, for the first time; the row that they leave does
 * not matter. */
ts_gpu_error ts_gpu_loss_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                              const struct ts_gpu_mttkrp *args);
/* Requests DESCEND and LOSSES of n models (stream/request.h); and `zeros` of the backend's
 * table. */
int ts_gpu_descend(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                   struct ts_backend_times *times, struct ts_err *err);
int ts_gpu_losses(const struct ts_request *of, uint32_t n, uint32_t mode, struct ts_feed *feed,
                  struct ts_backend_times *times, struct ts_err *err);
int ts_gpu_descend_zeros(void *be, uint32_t mode, const struct ts_descent *update, double *zeros,
                         struct ts_err *err);

/* ---- gpu_score.c */
/* Enqueues the sums of residuals at the nonzeros of a launch's shards. */
ts_gpu_error ts_gpu_scores_launch(const struct ts_gpu_product *r, const struct ts_gpu_mttkrp *args,
                                  ts_gpu_stream stream);
/* Runs this kernel on a shard, for the first time. */
ts_gpu_error ts_gpu_scores_warm(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const struct ts_gpu_mttkrp *args);
/* Rows whose sums there is device memory for. */
uint64_t ts_gpu_scores_rows(const struct ts_gpu *g);
/* Host memory that a pass over the copy of a mode takes. */
uint64_t ts_gpu_scores_host_bytes(const struct ts_mode *mode, int slices);
/* A request SCORES (stream/request.h). */
int ts_gpu_scores(struct ts_gpu_model *of, uint32_t mode, struct ts_feed *feed,
                  struct ts_scores *scores, struct ts_backend_times *times, struct ts_err *err);

#endif
