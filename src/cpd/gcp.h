/* SPDX-License-Identifier: BSD-3-Clause */
/* gcp.h - what models by other losses (gcp.c) take.
 *
 *   threads  any
 *   errors   none
 */
#ifndef TS_CPD_GCP_H
#define TS_CPD_GCP_H

#include "cpd/constraint.h"
#include "stream/backend.h"

struct ts_init_conf;

/* Memory of the moments, and of what steps of L-BFGS-B take besides: 0 where the constraints (may be NULL) ask for no such loss. */
uint64_t ts_gcp_bytes(const struct ts_tensor *t, uint32_t rank, enum ts_precision precision,
                      const struct ts_constraint *c);

/* Columns that are drawn for a mode: about four cells for each nonzero, 64 to ts_descent_most. */
uint32_t ts_gcp_drawn(const struct ts_tensor *t, uint32_t mode, uint32_t rank);

/* Whether such a loss, the constraint of `c`, leaves random factors as they were drawn. */
int ts_gcp_start_is_drawn(const struct ts_init_conf *c);

/* The sign of the logarithm of what values are on average (`mean`: about that), where the loss's model is a logarithm and what is
 * asked of the modes leaves it no such sign; else 0. */
int ts_gcp_beyond(const struct ts_tensor *t, const struct ts_constraint *constraint, double *mean);

/* Of L-BFGS-B (lbfgsb.c), beside the moments. */
uint64_t ts_lbfgsb_bytes(const struct ts_tensor *t, uint32_t rank);

/* Cells that stand for those that are not listed: a power of four, at least 4 for each nonzero. */
uint64_t ts_lbfgsb_cells(const struct ts_tensor *t);

#endif
