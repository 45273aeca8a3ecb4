/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_threads.h - ranks that are threads of one process, for tests: each calls with a comm of its
 * own.
 *
 *   owner    the caller owns the group, which outlives the calls of all ranks
 *   threads  n threads, rank r uses ranks[r] alone
 */
#ifndef TS_TESTS_COMM_THREADS_H
#define TS_TESTS_COMM_THREADS_H

#include "stream/comm.h"

#define TEST_COMM_MOST 16u

struct test_comm_group;

struct test_comm {
    struct ts_comm comm; /* first: a comm is one of these */
    /* its own work ends with `fails_with` before so many calls of agree, from 1; 0: it does not */
    uint32_t fails_at;
    int fails_with;
    /* so many calls that move bytes, from 1, and all after it fail; the same for all ranks; 0: none
     * does */
    uint32_t breaks_at;
    uint32_t n_agreed, n_moved; /* such calls so far */
    int broken;
    struct test_comm_group *group;
    const void *buffer;
    const uint64_t *first; /* of deal */
    int rc;
    struct ts_err err, answer; /* answer: what agree has given once it was no 0 */
};

struct test_comm_group *test_comm_new(uint32_t n, struct test_comm *ranks);

/* As if on so many machines, to which ranks went in turn; on one each before this is called. */
void test_comm_place(struct test_comm_group *g, uint32_t n_machines);
void test_comm_free(struct test_comm_group *g);

#endif
