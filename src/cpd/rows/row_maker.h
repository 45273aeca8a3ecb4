/* SPDX-License-Identifier: BSD-3-Clause */
/* row_maker.h - row updates that cpd makes of the product itself: a table.
 *
 * stream/row_update.h lists the updates. Those that no backend makes have an entry here. The method
 * asks for the product of the mode alone, and then calls `make`, which computes rows by calls of
 * the backend: row_columns.h brings product and rows to host memory.
 *
 *   owner    the caller owns what a task points to
 *   threads  one calls; `make` may use task->init->threads
 *   errors   0 or a negative ts_code; after a failure the rows are of no use
 */
#ifndef TS_CPD_ROW_MAKER_H
#define TS_CPD_ROW_MAKER_H

#include "cpd/solver/init.h"

/* What is made: the rows of a mode, of its product. */
struct ts_row_task {
    const struct ts_init_conf *init; /* tensor, backend, rank, threads, specification */
    enum ts_precision precision;     /* of the rows that the backend holds */
    uint32_t mode;
    /* Its matrix is G, the elementwise product of the other Gram matrices with l2 on the diagonal.
     * Its bounds, l1, rounds and weights of the old rows are those of the mode. */
    const struct ts_row_update *update;
    double *gram, *scratch;         /* rank x rank: G, which may be overwritten; free memory */
    const struct ts_row_sums *sums; /* `gram` and, unless it is NULL, `inner` are to be set */
    double *size;  /* of a mode with a penalty: what a state has as its `size` (state.h) */
    int *singular; /* to be set to 1 where G had directions that were left out */
};

struct ts_row_maker {
    /* TS_EARG where rows of a mode cannot be such. NULL: all can. */
    int (*check)(const struct ts_tensor *t, uint32_t mode, uint32_t rank, struct ts_err *err);
    /* Memory that `make` takes. NULL: none. */
    uint64_t (*bytes)(const struct ts_tensor *t, uint32_t mode, uint32_t rank);
    /* The backend has the product, beside the old rows if the update reads them. */
    int (*make)(const struct ts_row_task *task, struct ts_err *err);
};

/* The table. MAKER(NAME, name): the file that computes TS_ROW_NAME defines ts_rows_name. */
#define TS_ROW_MAKERS(MAKER) \
    MAKER(POLAR, polar)      \
    MAKER(SMOOTH, smooth)    \
    MAKER(SMOOTH_WITHIN, smooth_within)

#define TS_ROW_MAKER_DECLARE(NAME, name) extern const struct ts_row_maker ts_rows_##name;
TS_ROW_MAKERS(TS_ROW_MAKER_DECLARE)

/* NULL: a backend makes such rows. */
const struct ts_row_maker *ts_row_maker_of(enum ts_row_kind kind);

/* TS_EARG where rows of a mode cannot be what the specification asks for. */
int ts_row_makers_check(const struct ts_tensor *t, uint32_t rank, const struct ts_spec *spec,
                        struct ts_err *err);

/* Memory for the rows of any mode. spec may be NULL. */
uint64_t ts_row_makers_bytes(const struct ts_tensor *t, uint32_t rank, const struct ts_spec *spec);

#endif
