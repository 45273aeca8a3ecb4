/* SPDX-License-Identifier: BSD-3-Clause */
/* request.h - what a pass over the shards of a mode is to compute for one model.
 *
 * A caller fills a request, and `pass` of a backend (backend.h) takes one, or several of one kind,
 * each of another model. What a request points to is the caller's, and stays until the pass is
 * over.
 *
 *   units    rows and sums as row_update.h and weighted.h have them
 *   bits     what a model gets does not depend on the requests beside its own
 */
#ifndef TS_STREAM_REQUEST_H
#define TS_STREAM_REQUEST_H

#include "stream/capability.h"
#include "stream/row_update.h"
#include "stream/weighted.h"

/* The kinds, and the capability that each takes.
 *
 *   PRODUCT   factor[mode], or what own_rows has made, := X_(mode) * khatri_rao(other factors).
 *             With `update`, which takes the capability AT_ONCE, the update of the rows, too, and
 *             `sums`
 *   ROWS      factor[mode] := A, row by row as `update`, of the kind observed, says; and of the sums
 *             `size`
 *   MULTIPLY  rows of a mode of own_rows are multiplied as `multiply` says (row_update.h). Every
 *             shard is taken a second time where `judge` is set and rows go on from one shard to
 *             the next
 *   DESCEND   rows of a mode of own_rows descend, as `descend` says
 *   CELLS     `cells` is lent the model's value at each nonzero; factors stay as they are, as in
 *             those that follow
 *   ERRORS    sums of the errors at all nonzeros; the caller sets the sums to zeros before
 *   LOSSES    sums of a loss at all nonzeros, likewise zeros before
 *   SCORES    sums of residuals at all nonzeros, and of rows of the mode */
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
    void *be; /* the model: what open returned, or `model` of the backend */
    enum ts_request_kind kind;
    const struct ts_row_update *update; /* of a product, where its rows are updated, and of rows */
    const struct ts_row_sums *sums;     /* NULL where `update` is */
    const struct ts_multiply *multiply;
    struct ts_multiply_sums *multiplied;
    const struct ts_descent *descend;
    const struct ts_weighted *cells;
    struct ts_error_sums *errors;
    struct ts_loss_sums *losses;
    struct ts_scores *scores;
    const char *name; /* for a trace; the backend does not look at it */
};

/* The capability that requests of this kind take. */
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
