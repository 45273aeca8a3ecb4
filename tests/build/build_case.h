/* SPDX-License-Identifier: BSD-3-Clause */
/* build_case.h - a folder to build tensors in, and what they must hold: for the tests of builds.
 *
 *   owner    list_free frees what list_new, list_draw and list_merge made
 *   errors   none: it asserts
 */
#ifndef TS_TESTS_BUILD_CASE_H
#define TS_TESTS_BUILD_CASE_H

#include <stdint.h>

#include "base/err.h"
#include "build/build.h"

/* The folder, and in it an input and two tensors. */
extern char *tmp, text[4096], out[4096], other[4096];
extern struct ts_build_report report;
extern struct ts_err err;

void setup(void);
void teardown(void);

/* Small memory and shards, two threads. */
struct ts_build_options options(const char *to);
int build(const struct ts_build_options *o); /* from `text` */

void write_text(const char *lines); /* to `text` */
void write_large(void);             /* 2^18 draws in three modes */
int exists(const char *path, const char *end);

/* Nonzeros, any order. */
struct list {
    uint32_t order;
    uint64_t n;
    uint64_t *index; /* n x order */
    double *value;
    uint64_t *perm; /* ascending; NULL until list_sort */
};

struct list list_new(uint32_t order, uint64_t n);
void list_free(struct list *l);
void list_sort(struct list *l);

/* n draws, most of them small indices so that cells repeat; whole values -3..3, zero included. */
struct list list_draw(uint64_t seed, uint32_t order, const uint64_t *dim, uint64_t n);

/* Writes the draws to `text` in the order of `key`: 0 as they are. */
void list_write(const struct list *l, uint64_t key);

/* What the draws come to: sorted, merged, without zeros. */
struct list list_merge(struct list *l);

/* Every copy of the tensor holds `want`. */
void assert_holds(const char *path, const struct list *want);
void assert_holds_large(const char *path); /* what write_large wrote */

/* The files of `out` and `other` are the same. */
void assert_same_bytes(uint32_t order);

#endif
