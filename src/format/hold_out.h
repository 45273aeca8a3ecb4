/* SPDX-License-Identifier: BSD-3-Clause */
/* hold_out.h - which nonzeros are held out: a fraction of them, chosen by a hash of their rows and
 * a seed.
 *
 * Nothing is stored: whether a nonzero is held out is a function of the tensor, its cell and the
 * seed. So passes over any mode, in any order and by any thread, hold out the same nonzeros, and
 * `tshard split` writes the same ones.
 *
 *   units    rows are compact ones, in the order of the modes
 *   threads  pure
 *   errors   none
 */
#ifndef TS_FORMAT_HOLD_OUT_H
#define TS_FORMAT_HOLD_OUT_H

#include <stdint.h>

#include "base/anywhere.h"
#include "base/rng.h"

struct ts_hold_out {
    double share; /* fraction held out, in [0, 1); 0: none */
    uint64_t seed;
    /* A nonzero is held out if its hash, scaled to [0, 1), is at least `from` and below from +
     * share. */
    double from;
};

/* These functions compute the hash of a cell. `begin` starts it, `add` adds the cell's rows in the
 * order of the modes, and `held` returns whether the cell is held out. */
TS_ANYWHERE static inline uint64_t ts_hold_out_begin(const struct ts_hold_out *h)
{
    return ts_mix(h->seed);
}

TS_ANYWHERE static inline uint64_t ts_hold_out_add(uint64_t hash, uint64_t row)
{
    return ts_mix(hash ^ row);
}

TS_ANYWHERE static inline int ts_hold_out_held(const struct ts_hold_out *h, uint64_t hash)
{
    const double at = ts_unit(hash);
    return at >= h->from && at < h->from + h->share;
}

/* Whether a and b hold out the same nonzeros of any tensor. */
static inline int ts_hold_out_same(const struct ts_hold_out *a, const struct ts_hold_out *b)
{
    return a->share == b->share && (a->share == 0 || (a->seed == b->seed && a->from == b->from));
}

#endif
