/* SPDX-License-Identifier: BSD-3-Clause */
/* held_cells.cuh - finds the held-out nonzeros of a decoded block (format/hold_out.h).
 *
 *   threads  all lanes of a warp call together
 *   errors   none
 */
#ifndef TS_GPU_HELD_CELLS_CUH
#define TS_GPU_HELD_CELLS_CUH

#include "format/hold_out.h"
#include "gpu/sparse/mttkrp_stages.cuh"

/* Returns 8 bits: bit k is set if the nonzero at position 8 lane + k is held out. Bits of positions
 * past the block's end are arbitrary. level: the level of each mode in the mode copy, 0 for the
 * mode of rows. first_row: the first row of the block. */
template <class T, int LPR, int NL>
static __device__ inline uint32_t held_cells(const struct ts_hold_out &h, const uint8_t *level,
                                             uint32_t order, const warp_memory<T, LPR, NL> &mem,
                                             uint32_t lane, uint32_t first_row, const decoded &d)
{
    uint32_t held = 0;
#pragma unroll 1
    for (uint32_t k = 0; k < 8; k++) {
        const uint32_t row = first_row + d.rows_before + __popc(d.row_flags & below(k + 1));
        const uint32_t place = spread<LPR>::at(8 * lane + k);
        uint64_t hash = ts_hold_out_begin(&h);
        for (uint32_t m = 0; m < order; m++) {
            const uint32_t l = level[m];
            hash = ts_hold_out_add(hash,
                                   l == 0 ? row : mem.index[(l - 1) * spread<LPR>::words + place]);
        }
        held |= (uint32_t)ts_hold_out_held(&h, hash) << k;
    }
    return held;
}

/* Sets the values of held-out nonzeros to 0 in shared memory. All lanes see that after the next
 * barrier of the warp. */
template <class T, int LPR, int NL>
static __device__ inline void clear_held(const struct ts_hold_out &h, const uint8_t *level,
                                         uint32_t order, const warp_memory<T, LPR, NL> &mem,
                                         uint32_t lane, uint32_t first_row, const decoded &d)
{
    const uint32_t held = held_cells<T, LPR, NL>(h, level, order, mem, lane, first_row, d);
#pragma unroll
    for (uint32_t k = 0; k < 8; k++)
        if (held >> k & 1)
            mem.val[spread<LPR>::at(8 * lane + k)] = 0;
}

#endif
