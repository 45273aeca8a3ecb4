/* SPDX-License-Identifier: BSD-3-Clause */
/* dense_held.h - which cells of a dense tensor are held out (hold_out.h), for several consecutive
 * cells.
 *
 * Every index of a dense tensor is used, so row and index are equal. A sparse tensor that lists
 * all cells holds out the same ones.
 *
 *   units    cells, counted from the first of the array
 *   threads  pure
 *   errors   none
 */
#ifndef TS_FORMAT_DENSE_HELD_H
#define TS_FORMAT_DENSE_HELD_H

#include "format/arrays/dense.h"
#include "format/hold_out.h"

/* Sets ret[i] to whether cell first + i is held out, for n cells. */
void ts_dense_held(const struct ts_dense *d, const struct ts_hold_out *h, uint64_t first,
                   uint32_t n, unsigned char *ret);

#endif
