/* SPDX-License-Identifier: BSD-3-Clause */
/* gcp.h - what can be known of models by other losses (gcp.c) before a run.
 *
 *   threads  any
 *   errors   none
 */
#ifndef TS_CPD_GCP_H
#define TS_CPD_GCP_H

#include "cpd/spec/spec.h"
#include "stream/backend.h"

/* The entry lost_sign of these methods (method.h), for losses whose model is a logarithm. */
int ts_gcp_lost_sign(const struct ts_tensor *t, const struct ts_spec *spec, double *mean);

#endif
