/* SPDX-License-Identifier: BSD-3-Clause */
/* tsh_writer.h - writes a small tensor directory straight from docs/format.md, for the tests of
 * the readers: plain, in memory, sharing nothing with the builder but the block codec.
 *
 *   errors   none: it asserts
 */
#ifndef TS_TESTS_TSH_WRITER_H
#define TS_TESTS_TSH_WRITER_H

#include <stdint.h>

#include "tests/support/support.h"

struct test_tsh_conf {
    uint32_t kind;             /* enum ts_value_kind; must suit the values of the tensor */
    uint32_t shard_partitions; /* of every shard but the last of a mode; 0: all in one */
    uint32_t stretch; /* s > 0: row i is index s * i + (0..s-1) of a mode with empty slices */
    int lz4;          /* pack shards that shrink */
    /* every index i of mode K (from 1) is named "K/i"; n > 1: n - 1 lines that nobody counts come
     * behind them; -1: the last line has no end */
    int labels;
};

/* Index in the input of compact row `row` of mode `mode`, as the writer chooses it. */
uint64_t test_tsh_index(const struct test_tsh_conf *conf, uint32_t mode, uint64_t row);

/* Makes the directory dir (must not exist), with weights where x has them. x is reordered. */
void test_tsh_write(const char *dir, struct test_coo *x, const struct test_tsh_conf *conf);

/* Removes a directory of plain files; none there is fine. */
void test_tsh_remove(const char *dir);

/* A fresh directory under $TMPDIR or /tmp; freed by the caller. */
char *test_tsh_tmp(void);

#endif
