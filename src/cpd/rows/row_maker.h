/* SPDX-License-Identifier: BSD-3-Clause */
/* row_maker.h - a table of row updates that cpd computes itself from the MTTKRP of a mode.
 *
 * stream/row_update.h lists all updates. Those that no backend computes have an entry here. The
 * method asks the backend for the MTTKRP of the mode alone, and then calls `make`. It computes the
 * rows by calls of the backend: row_columns.h copies MTTKRP and rows to host memory.
 *
 *   owner    the caller owns what a task points to
 *   threads  one thread calls; `make` may use task->init->threads
 *   errors   0 or a negative ts_code; after a failure the rows are of no use
 */
#ifndef TS_CPD_ROW_MAKER_H
#define TS_CPD_ROW_MAKER_H

#include "cpd/solver/init.h"

/* The arguments of one row update, which computes the rows of a mode from its MTTKRP. */
struct ts_row_task {
    const struct ts_init_conf *init; /* tensor, backend, rank, threads, specification */
    enum ts_precision precision;     /* precision of the rows in the backend */
    uint32_t mode;
    /* update->matrix is G: the elementwise product of the other modes' Gram matrices, plus l2 on
     * the diagonal. Bounds, l1, rounds and weights of the old rows are those of the mode. */
    const struct ts_row_update *update;
    /* rank x rank each: G, which may be overwritten, and free memory */
    double *gram, *scratch;
    const struct ts_row_sums *sums; /* `make` sets `gram` and, unless it is NULL, `inner` */
    /* for a mode with a penalty: `make` sets it to the sum over the factor that the penalty
     * needs */
    double *size;
    int *singular; /* `make` sets it to 1 if it left out directions in which G is singular */
};

struct ts_row_maker {
    /* Returns TS_EARG if a mode cannot have rows that are computed in this way. NULL: every mode
     * can. */
    int (*check)(const struct ts_tensor *t, uint32_t mode, uint32_t rank, struct ts_err *err);
    /* Returns the bytes that `make` allocates. NULL: none. */
    uint64_t (*bytes)(const struct ts_tensor *t, uint32_t mode, uint32_t rank);
    /* Computes the rows. The backend has the MTTKRP, and the old rows too if the update reads
     * them. */
    int (*make)(const struct ts_row_task *task, struct ts_err *err);
};

/* The table. MAKER(NAME, name): the file that computes TS_ROW_NAME defines ts_rows_name. */
#define TS_ROW_MAKERS(MAKER) \
    MAKER(POLAR, polar)      \
    MAKER(SMOOTH, smooth)    \
    MAKER(SMOOTH_WITHIN, smooth_within)

#define TS_ROW_MAKER_DECLARE(NAME, name) extern const struct ts_row_maker ts_rows_##name;
TS_ROW_MAKERS(TS_ROW_MAKER_DECLARE)

/* Returns the entry of the table for a kind of row update, or NULL if a backend computes it. */
const struct ts_row_maker *ts_row_maker_of(enum ts_row_kind kind);

/* Returns TS_EARG if some mode cannot have the rows that the specification asks for. */
int ts_row_makers_check(const struct ts_tensor *t, uint32_t rank, const struct ts_spec *spec,
                        struct ts_err *err);

/* Returns the bytes that the row makers allocate: the most that any mode takes. spec may be
 * NULL. */
uint64_t ts_row_makers_bytes(const struct ts_tensor *t, uint32_t rank, const struct ts_spec *spec);

#endif
