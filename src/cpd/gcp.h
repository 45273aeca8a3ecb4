/* SPDX-License-Identifier: BSD-3-Clause */
/* gcp.h - what can be known of models by other losses (gcp.c) before a run.
 *
 *   threads  any
 *   errors   none
 */
#ifndef TS_CPD_GCP_H
#define TS_CPD_GCP_H

#include "cpd/spec.h"
#include "stream/backend.h"

/* The sign of the logarithm of what values are on average (`mean`: about that), where the loss's model is a logarithm and what is
 * asked of the modes leaves it no such sign; else 0. */
int ts_gcp_beyond(const struct ts_tensor *t, const struct ts_spec *spec, double *mean);

#endif
