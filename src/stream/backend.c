/* SPDX-License-Identifier: BSD-3-Clause */
/* From what is wanted of a model to the call that gives it. */
#include "stream/backend.h"

int ts_backend_pass(const struct ts_backend *b, const struct ts_wanted *w, uint32_t mode,
                    struct ts_feed *feed, struct ts_backend_times *times, struct ts_err *err)
{
    ts_feed_rewind(feed);
    switch (w->kind) {
    case TS_WANT_ROWS:
        return b->complete(w->be, mode, feed, w->how, w->sums, times, err);
    case TS_WANT_MULTIPLY:
        return b->multiply(w->be, mode, feed, w->multiply, w->multiplied, times, err);
    case TS_WANT_DESCEND:
        return b->descend(w->be, mode, feed, w->descend, NULL, times, err);
    case TS_WANT_CELLS:
        return b->weighted(w->be, mode, feed, w->cells, times, err);
    case TS_WANT_ERRORS:
        return b->errors(w->be, mode, feed, w->errors, times, err);
    case TS_WANT_LOSSES:
        return b->losses(w->be, mode, feed, w->losses, times, err);
    case TS_WANT_SCORES:
        return b->scores(w->be, mode, feed, w->scores, times, err);
    default:
        return w->how == NULL ? b->mttkrp(w->be, mode, feed, times, err)
                              : b->update(w->be, mode, feed, w->how, w->sums, times, err);
    }
}
