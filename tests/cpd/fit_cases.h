/* SPDX-License-Identifier: BSD-3-Clause */
/* fit_cases.h - small tensors that fits are checked on, cell by cell, easy ones and awkward ones.
 *
 *   owner    a case owns its cells, until test_fit_case_free
 *   units    dim[0] varies slowest
 *   errors   none: it asserts
 */
#ifndef TS_TESTS_FIT_CASES_H
#define TS_TESTS_FIT_CASES_H

#include <stdint.h>

#define TEST_FIT_MOST_ORDER 8u

struct test_fit_case {
    const char *kind;   /* what it is, for a table */
    uint32_t order;     /* 2 to 6 where it is made here */
    uint32_t true_rank; /* of what it was made from, noise apart; 0: of no low rank */
    int exact;          /* 1: it has that rank, to rounding */
    uint64_t dim[TEST_FIT_MOST_ORDER], n_cells, nnz;
    double scale; /* its values were multiplied with this */
    double *cell;
};

/* Tensor `number` of a sequence without end: the kind goes round, all else is drawn from `seed`.
 * single 1: values are those of float32. */
struct test_fit_case test_fit_case_make(uint64_t seed, uint32_t number, int single);
void test_fit_case_free(struct test_fit_case *c);

/* The index of a cell in a mode. */
uint64_t test_fit_case_index(const struct test_fit_case *c, uint64_t cell, uint32_t mode);

/* Its nonzeros as sptensor text, all digits, sizes in the head. */
void test_fit_case_write(const struct test_fit_case *c, const char *path);

/* 1 - |X - M| / |X|, cell by cell in long double. The model: weight (rank), factor[m] (dim[m] x
 * rank). */
double test_fit_case_fit(const struct test_fit_case *c, uint32_t rank, const double *weight,
                         double *const factor[]);

#endif
