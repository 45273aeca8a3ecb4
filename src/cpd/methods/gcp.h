/* SPDX-License-Identifier: BSD-3-Clause */
/* gcp.h - checks models by losses other than least squares (gcp.c) before a run starts.
 *
 *   threads  any thread
 *   errors   none
 */
#ifndef TS_CPD_GCP_H
#define TS_CPD_GCP_H

#include "cpd/spec/spec.h"
#include "stream/backend.h"

/* The function lost_sign of struct ts_method, for losses whose model is a logarithm. Returns the
 * sign of the logarithm of the average value, if the constraints exclude models of this sign, and
 * sets *mean to about that average. Otherwise returns 0. */
int ts_gcp_lost_sign(const struct ts_tensor *t, const struct ts_spec *spec, double *mean);

#endif
