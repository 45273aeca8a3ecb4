/* SPDX-License-Identifier: BSD-3-Clause */
/* value_table.h - counts the values of a tensor and chooses the codes that stand for them.
 *
 * Distinct values are counted: all of them while they are few, later only a share, chosen by their
 * hash, that gets smaller. What is kept depends only on the set of values, not on their order or on
 * how threads divided them, and so does every choice made from it.
 *
 *   owner    the caller
 *   units    a value is its float32 bits (high half zero) or float64 bits, by value_bytes (4 or 8)
 *   threads  one table a thread, merged at the end
 *   errors   0 or TS_ENOMEM
 */
#ifndef TS_BUILD_VALUE_TABLE_H
#define TS_BUILD_VALUE_TABLE_H

#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"
#include "source/batch.h"

#define TS_VALUE_TABLE_MAX 65536u /* distinct values counted exactly */
#define TS_VALUE_DICT_MAX  4096u

struct ts_value_table;

int ts_value_table_new(uint32_t value_bytes, struct ts_value_table **ret, struct ts_err *err);
void ts_value_table_free(struct ts_value_table *t); /* NULL is fine */
uint64_t ts_value_table_bytes(void); /* memory of a table, including its working memory */
uint64_t
/* size of a table, which is one block of memory that may be sent to another process */
ts_value_table_size(void);
void ts_value_table_add(struct ts_value_table *t, uint64_t bits);
void ts_value_table_merge(struct ts_value_table *into, const struct ts_value_table *from);

/* How values are coded. */
struct ts_value_code {
    uint32_t kind, value_bytes, n_dict; /* kind: ts_value_kind */
    uint32_t code_bits;                 /* bits of a code in a record */
    double base, min, max;
    double entropy; /* bits per nonzero, order 0 */
    int estimated;  /* 1: the entropy is an estimate */
    double dict[TS_VALUE_DICT_MAX];
    uint64_t slot_bits[4 * TS_VALUE_DICT_MAX]; /* hash table from bits to code + 1 */
    uint32_t slot_code[4 * TS_VALUE_DICT_MAX];
};

/* Chooses the code, from the values of nnz (> 0) nonzeros of a tensor of `order` copies. */
int ts_value_table_choose(const struct ts_value_table *t, uint64_t nnz, uint32_t order,
                          struct ts_value_code **ret, struct ts_err *err);

/* The code of a value: up to 32 bits; for F64 all 64 bits of the value. */
uint64_t ts_value_code_of(const struct ts_value_code *c, uint64_t bits);

/* The value of a code. */
double ts_value_code_value(const struct ts_value_code *c, uint64_t code);

#endif
