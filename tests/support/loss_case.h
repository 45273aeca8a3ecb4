/* SPDX-License-Identifier: BSD-3-Clause */
/* loss_case.h - what tests try losses with, made of what their rows in stream/losses.def say: a
 * loss that is added is tried as it is.
 *
 *   threads  any
 *   errors   none
 */
#ifndef TS_TESTS_LOSS_CASE_H
#define TS_TESTS_LOSS_CASE_H

#include "stream/loss.h"
#include "stream/loss_functions.h"

/* A number that the loss takes: three fifths of the one that its sentence offers where it takes
 * that, too; else 0. */
double test_loss_number(int kind);

/* A value that the loss is for, of a number in [0, 1): a number from -1 to 2 where values may be
 * negative, else a count up to 3, a number above 0, or 0 or 1. float32 has it exactly. */
double test_loss_value(int kind, double u);

/* The kinds that may have unlisted cells of value 0. Returns how many; ret has room for
 * TS_N_GCP. */
int test_loss_with_zeros(int *ret);

/* Whether the second derivative by m jumps at some model, so that central differences are off there
 * by some h. */
int test_loss_bends(int kind, double at);

/* The name as --loss takes it, in memory that the next call writes to. */
const char *test_loss_name(int kind, double at);

#endif
