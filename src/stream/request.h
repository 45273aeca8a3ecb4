/* SPDX-License-Identifier: BSD-3-Clause */
/* request.h - describes what a pass over the shards of a mode computes for one model.
 *
 * A caller fills a request. `pass` of a backend (backend.h) takes one request, or several of one
 * kind, each for another model. Memory that a request points to belongs to the caller, and must
 * stay valid until the pass is over.
 *
 *   units    rows and sums as in row_update.h and weighted.h
 *   bits     the result of a model does not depend on the other requests of the pass
 */
#ifndef TS_STREAM_REQUEST_H
#define TS_STREAM_REQUEST_H

#include "stream/capability.h"
#include "stream/row_update.h"
#include "stream/weighted.h"

/* The kinds of requests, each with the capability that it needs.
 *
 *   PRODUCT   the MTTKRP of the mode, X_(mode) * khatri_rao(other factors), into factor[mode] or
 *             the memory that own_rows has allocated. With `update`, which needs AT_ONCE, rows are
 *             updated in the pass, and the sums over rows that `sums` names are computed
 *   ROWS      rows fitted to the observed cells (nonzeros) alone: `update` (kind OBSERVED) computes
 *             factor[mode] row by row, and `size` of `sums` is computed
 *   MULTIPLY  rows of a mode of own_rows are multiplied by factors, as `multiply` says
 *             (row_update.h). Every shard is read twice if `judge` is set and some row continues
 *             from one shard to the next
 *   DESCEND   rows of a mode of own_rows make a step against the gradient, as `descend` says
 *   CELLS     `cells` gets the model's value at each nonzero; this kind and the kinds below do not
 *             change factors
 *   ERRORS    sums of the errors at all nonzeros; the caller sets the sums to zero before
 *   LOSSES    sums of a loss at all nonzeros; the caller sets the sums to zero before
 *   SCORES    sums of residuals at all nonzeros, and for each row of the mode */
#define TS_REQUEST_KINDS(KIND)   \
    KIND(PRODUCT, LEAST_SQUARES) \
    KIND(ROWS, OBSERVED)         \
    KIND(MULTIPLY, MULTIPLY)     \
    KIND(DESCEND, DESCEND)       \
    KIND(CELLS, CELLS)           \
    KIND(ERRORS, ERRORS)         \
    KIND(LOSSES, LOSSES)         \
    KIND(SCORES, SCORES)

enum ts_request_kind {
#define TS_REQUEST_NAME(NAME, capability) TS_REQUEST_##NAME,
    TS_REQUEST_KINDS(TS_REQUEST_NAME)
#undef TS_REQUEST_NAME
        TS_N_REQUEST_KINDS
};

struct ts_request {
    void *be; /* the model: the result of open, or of `model` of the backend */
    enum ts_request_kind kind;
    /* the update of rows, for PRODUCT with an update, and for ROWS */
    const struct ts_row_update *update;
    const struct ts_row_sums *sums; /* NULL if `update` is NULL */
    const struct ts_multiply *multiply;
    struct ts_multiply_sums *multiplied;
    const struct ts_descent *descend;
    const struct ts_weighted *cells;
    struct ts_error_sums *errors;
    struct ts_loss_sums *losses;
    struct ts_scores *scores;
    const char *name; /* name of the request in the trace; backends do not read it */
};

/* Returns the capability that requests of this kind need. */
static inline enum ts_capability ts_request_takes(enum ts_request_kind kind)
{
    static const enum ts_capability takes[] = {
#define TS_REQUEST_TAKES(NAME, capability) TS_CAN_##capability,
        TS_REQUEST_KINDS(TS_REQUEST_TAKES)
#undef TS_REQUEST_TAKES
    };
    _Static_assert(sizeof takes / sizeof takes[0] == TS_N_REQUEST_KINDS, "each kind takes one");
    return takes[kind];
}

#endif
