/* SPDX-License-Identifier: BSD-3-Clause */
/* capability.h - what a backend can do, and what a run needs of it, both as bits of one list.
 *
 * The first capabilities are the row updates of row_update.h, with the same numbers. Those of the
 * list below follow. A backend states its bits once (`can` of struct ts_backend). A run adds up
 * what it needs, and ts_backend_check compares the two. Code that can compute a result with or
 * without a capability calls ts_backend_can to choose. It does not test whether functions of the
 * backend are NULL.
 *
 *   threads  any
 *   errors   TS_EARG
 */
#ifndef TS_STREAM_CAPABILITY_H
#define TS_STREAM_CAPABILITY_H

#include "stream/row_update.h"

/* The name of each capability, and the message for a run that needs a capability which its backend
 * lacks.
 *
 *   HELD_OUT      held-out nonzeros count as zeros in products of least squares and in rows with
 *                 the update MULTIPLY (`hold_out`)
 *   SCORES        a pass that sums residuals of the model at all nonzeros
 *   SLICES        the pass SCORES also sums the residuals in each slice of the mode
 *   AT_ONCE       a product and the update of its rows in one pass; without AT_ONCE, the caller
 *                 calls `solve` after the pass
 *   CELLS         a pass that lends the model's value at each nonzero (weighted.h)
 *   ERRORS        a pass that sums the model's errors at nonzeros; all backends have it
 *   LOSSES        a pass that sums a loss at nonzeros; all backends have it
 *   MEANS         the update of observed cells subtracts a mean from the values
 *   WEIGHTS       weights of cells in the update of observed cells, in CELLS and in ERRORS
 *   RANKS         processes compute together: `spread`, `shares`, `collect`, `agree`, `given_up`,
 *                 `tell_ranks`, `exchanged`
 *   OWN_MEMORY    devices have memory of their own: the functions `memory`, `pin` and `unpin` */
#define TS_CAPABILITIES(CAPABILITY)                                                      \
    CAPABILITY(HELD_OUT, "these constraints are computed on CPU cores only")             \
    CAPABILITY(SCORES, "sums of residuals are computed on CPU cores only")               \
    CAPABILITY(SLICES, "sums of residuals by index are computed on CPU cores only")      \
    CAPABILITY(AT_ONCE, "products are not computed together with the rows made of them") \
    CAPABILITY(CELLS, "values of the model at nonzeros, and the largest residuals, are " \
                      "computed on CPU cores only")                                      \
    CAPABILITY(ERRORS, "errors at cells are computed on CPU cores only")                 \
    CAPABILITY(LOSSES, "sums of this loss are computed on CPU cores only")               \
    CAPABILITY(MEANS, "the mean of observed cells is subtracted on CPU cores only")      \
    CAPABILITY(WEIGHTS, "cells have weights, which are computed with on CPU cores only") \
    CAPABILITY(RANKS, "these calls are those of processes on CPU cores")                 \
    CAPABILITY(OWN_MEMORY, "GPUs are needed")

enum ts_capability {
#define TS_CAPABILITY_OF_ROWS(NAME, ...) TS_CAN_##NAME,
    TS_ROW_KINDS(TS_CAPABILITY_OF_ROWS)
#undef TS_CAPABILITY_OF_ROWS
#define TS_CAPABILITY_NAME(NAME, sentence) TS_CAN_##NAME,
        TS_CAPABILITIES(TS_CAPABILITY_NAME)
#undef TS_CAPABILITY_NAME
            TS_N_CAPABILITIES
};

_Static_assert(TS_N_CAPABILITIES <= 32, "capabilities are bits of a uint32_t");
_Static_assert((int)TS_CAN_HELD_OUT == (int)TS_N_ROW_KINDS, "row updates come first");

/* The bit of a capability by its name: TS_CAN(CELLS). */
#define TS_CAN(NAME) (UINT32_C(1) << TS_CAN_##NAME)

struct ts_backend;
struct ts_tensor;

static inline int ts_has_capability(uint32_t bits, enum ts_capability one)
{
    return (bits >> one & 1) != 0;
}

/* Returns TS_EARG if the backend lacks a capability in `needs` (bits). The message is that of the
 * first capability that it lacks. */
int ts_backend_check(const struct ts_backend *b, uint32_t needs, struct ts_err *err);

#endif
