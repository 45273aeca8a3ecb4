/* SPDX-License-Identifier: BSD-3-Clause */
/* constraint_case.h - constraints of all modes by name, for tests, and what updates of rows are
 * tried with. slow_cp.h computes the same decompositions in an obvious way.
 *
 *   owner    plain values
 *   threads  any
 *   errors   none
 */
#ifndef TS_TESTS_CONSTRAINT_CASE_H
#define TS_TESTS_CONSTRAINT_CASE_H

#include "cpd/spec/spec.h"

/* The cases of the table by kind: the update of rows that they are for. */
enum test_constraint_kind { TEST_DESCEND, TEST_BOUNDS, TEST_COLUMNS };
enum { TEST_DESCENDS = 6, TEST_BOUNDED = 5, TEST_COLUMNED = 10 }; /* cases of each kind */

/* Sets *spec to case number i, from 0, of a kind, for a tensor of this order. Returns its name. */
const char *test_constraints(enum test_constraint_kind kind, int i, uint32_t order,
                             struct ts_spec *spec);

/* A number in [-1/2, 1/2) that depends on `at` alone. */
double test_draw(uint64_t at);

/* The Gram matrix of `rows` rows of numbers in [0, 1), rank x rank. Fewer rows than rank make it
 * singular, and no rows make it 0. Column 2 of the rows is zero. */
void test_make_gram(uint32_t rank, uint32_t rows, double *g);

#endif
