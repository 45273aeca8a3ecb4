/* SPDX-License-Identifier: BSD-3-Clause */
/* row_columns.h - copies the rows of a mode to host memory as columns, and back, for updates of
 * whole columns (row_maker.h).
 *
 *     rc = ts_row_columns_open(task, 0, 0, "rows of a mode", &c, err);
 *     if (rc == 0)
 *         rc = ts_row_columns_get(&c, err);      MTTKRP in c.m, old rows with weights in c.a
 *     ... columns of c.a change ...
 *     if (rc == 0)
 *         rc = ts_row_columns_put(&c, err);      to the backend, with their Gram matrix
 *     ts_row_columns_close(&c);
 *
 * The update must be a kind that reads the old rows, so that the backend has MTTKRP and old rows.
 * Until ts_row_columns_put the old rows stay the rows of the mode.
 *
 *   owner    the object owns its memory
 *   threads  one thread calls; `threads` threads copy columns
 *   errors   0 or a negative ts_code; close is always allowed
 */
#ifndef TS_CPD_ROW_COLUMNS_H
#define TS_CPD_ROW_COLUMNS_H

#include "cpd/rows/row_maker.h"

struct ts_row_columns {
    const struct ts_row_task *task;
    uint32_t rank;
    int threads;
    /* n: rows; first: index of the first row; span: number of indices from the first row to the
     * last */
    uint64_t n, first, span;
    uint64_t *index; /* NULL: row i is index i */
    double *m;       /* rank x n: columns of the MTTKRP */
    double *a;       /* rank x span: columns of the factor, 0 for an index without a row */
    double *more;    /* more memory, which the caller asked for in ts_row_columns_open */
    double *chunk;   /* memory for rows that are being copied */
    double size;     /* set by ts_row_columns_put: sum of the magnitudes of all entries */
    void *memory;
    uint64_t bytes;
};

/* Returns the number of rows that are copied at a time. */
uint64_t ts_row_columns_chunk(uint32_t rank);

/* Returns the most bytes that ts_row_columns_open allocates for a mode. of_span, of_rows: numbers
 * of further memory for each entry of a column of the factor, and for each row. */
uint64_t ts_row_columns_bytes(const struct ts_tensor *t, uint32_t mode, uint32_t rank,
                              uint64_t of_span, uint64_t of_rows);

/* Returns the position of row i in a column of `a`. */
static inline uint64_t ts_row_columns_place(const struct ts_row_columns *c, uint64_t row)
{
    return c->index == NULL ? row : c->index[row] - c->first;
}

/* Allocates the arrays of *ret. ret->more gets of_span numbers for each entry of a column of
 * ret->a, and of_rows numbers for each row of the mode. `what` names the memory in errors. */
int ts_row_columns_open(const struct ts_row_task *task, uint64_t of_span, uint64_t of_rows,
                        const char *what, struct ts_row_columns *ret, struct ts_err *err);
void ts_row_columns_close(struct ts_row_columns *c);

int ts_row_columns_get(struct ts_row_columns *c, struct ts_err *err);
int ts_row_columns_put(struct ts_row_columns *c, struct ts_err *err);

/* Returns TS_ELIMIT if the task's product of Gram matrices is not finite. */
int ts_row_columns_check(const struct ts_row_task *task, struct ts_err *err);

/* ret := the identity, rank x rank. With it as the matrix, `solve` of a backend stores the MTTKRP
 * as rows. */
void ts_row_columns_identity(uint32_t rank, double *ret);

#endif
