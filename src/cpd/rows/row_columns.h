/* SPDX-License-Identifier: BSD-3-Clause */
/* row_columns.h - the rows of a mode as columns in host memory, for updates of whole columns
 * (row_maker.h).
 *
 *     rc = ts_row_columns_open(task, 0, 0, "rows of a mode", &c, err);
 *     if (rc == 0)
 *         rc = ts_row_columns_get(&c, err);      product in c.m, old rows with weights in c.a
 *     ... columns of c.a change ...
 *     if (rc == 0)
 *         rc = ts_row_columns_put(&c, err);      to the backend, with their Gram matrix
 *     ts_row_columns_close(&c);
 *
 * The update must be one that reads the old rows, so that the backend has both. Until
 * ts_row_columns_put they stay the rows of the mode.
 *
 *   owner    the object owns its memory
 *   threads  one calls; columns are copied by `threads`
 *   errors   0 or a negative ts_code; close is always allowed
 */
#ifndef TS_CPD_ROW_COLUMNS_H
#define TS_CPD_ROW_COLUMNS_H

#include "cpd/rows/row_maker.h"

struct ts_row_columns {
    const struct ts_row_task *task;
    uint32_t rank;
    int threads;
    uint64_t n, first, span; /* rows; index of the first one; indices from it to that of the last */
    uint64_t *index;         /* NULL: row i is index i */
    double *m;               /* rank x n: of the product */
    double *a;               /* rank x span: of the rows, 0 where there is none */
    double *more;            /* of the caller */
    double *chunk;           /* of rows */
    double size;             /* after ts_row_columns_put: sum of the magnitudes */
    void *memory;
    uint64_t bytes;
};

/* Rows that are got and put at once. */
uint64_t ts_row_columns_chunk(uint32_t rank);

/* Memory that ts_row_columns_open takes for a mode, at most. */
uint64_t ts_row_columns_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank,
                              uint64_t of_span, uint64_t of_rows);

/* The place of row i in a column of `a`. */
static inline uint64_t ts_row_columns_place(const struct ts_row_columns *c, uint64_t row)
{
    return c->index == NULL ? row : c->index[row] - c->first;
}

/* `more` gets of_span numbers for each entry of a column of `a`, and of_rows for each row. `what`
 * names the memory in errors. */
int ts_row_columns_open(const struct ts_row_task *task, uint64_t of_span, uint64_t of_rows,
                        const char *what, struct ts_row_columns *ret, struct ts_err *err);
void ts_row_columns_close(struct ts_row_columns *c);

int ts_row_columns_get(struct ts_row_columns *c, struct ts_err *err);
int ts_row_columns_put(struct ts_row_columns *c, struct ts_err *err);

/* TS_ELIMIT where G is not finite. */
int ts_row_columns_check(const struct ts_row_task *task, struct ts_err *err);

/* ret := the identity, rank x rank: by it, `solve` of a backend leaves the product as the rows. */
void ts_row_columns_identity(uint32_t rank, double *ret);

#endif
