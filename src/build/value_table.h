/* SPDX-License-Identifier: BSD-3-Clause */
/* value_table.h - counts the distinct values of a tensor, and chooses a code for them.
 *
 * While there are few distinct values, all are counted. Later only a sample of them is counted,
 * chosen by hash. The more distinct values there are, the smaller is the fraction that is counted.
 * So the counted values and the code depend only on the set of values, not on their order or on how
 * threads divided them.
 *
 *   owner    the caller
 *   units    a value is given by its float32 bits (value_bytes 4; high half zero) or float64 bits
 *            (8)
 *   threads  one table for each thread, merged at the end
 *   errors   0 or TS_ENOMEM
 */
#ifndef TS_BUILD_VALUE_TABLE_H
#define TS_BUILD_VALUE_TABLE_H

#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"
#include "source/batch.h"

/* with more distinct values than these, only a sample of them is counted */
#define TS_VALUE_TABLE_MAX 65536u
#define TS_VALUE_DICT_MAX  4096u

struct ts_value_table;

int ts_value_table_new(uint32_t value_bytes, struct ts_value_table **ret, struct ts_err *err);
void ts_value_table_free(struct ts_value_table *t); /* t may be NULL */
uint64_t ts_value_table_bytes(void);                /* bytes of a table and of its working memory */
uint64_t
/* Returns the bytes of a table. It is one block of memory, so it may be sent to another process. */
ts_value_table_size(void);
void ts_value_table_add(struct ts_value_table *t, uint64_t bits);
void ts_value_table_merge(struct ts_value_table *into, const struct ts_value_table *from);

/* How the values of a tensor are stored as codes. */
struct ts_value_code {
    uint32_t kind, value_bytes, n_dict; /* kind: ts_value_kind */
    uint32_t code_bits;                 /* bits of a code in a record */
    double base, min, max;
    double entropy; /* entropy of the values, in bits per nonzero, each value taken alone */
    int estimated;  /* 1: the entropy is an estimate */
    double dict[TS_VALUE_DICT_MAX];
    /* hash table from the bits of a value to its code + 1 */
    uint64_t slot_bits[4 * TS_VALUE_DICT_MAX];
    uint32_t slot_code[4 * TS_VALUE_DICT_MAX];
};

/* Chooses the code for the values of nnz (> 0) nonzeros. The tensor stores its nonzeros `order`
 * times (once for each mode) and one dictionary, so the size of the dictionary is divided by
 * `order`. */
int ts_value_table_choose(const struct ts_value_table *t, uint64_t nnz, uint32_t order,
                          struct ts_value_code **ret, struct ts_err *err);

/* Returns the code of a value: up to 32 bits, or for F64 the 64 bits of the value. */
uint64_t ts_value_code_of(const struct ts_value_code *c, uint64_t bits);

/* Returns the value of a code. */
double ts_value_code_value(const struct ts_value_code *c, uint64_t code);

#endif
