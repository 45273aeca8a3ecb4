/* SPDX-License-Identifier: BSD-3-Clause */
/* mttkrp_sums.cuh - the sums of an MTTKRP: a warp gathers the factor rows of a decoded block and
 * adds them up.
 *
 *   owner    memory of a thread block, divided by warp_memory
 *   threads  all lanes of a warp call together
 *   errors   none: blocks were checked
 */
#ifndef TS_GPU_MTTKRP_SUMS_CUH
#define TS_GPU_MTTKRP_SUMS_CUH

#include "gpu/sparse/mttkrp_stages.cuh"

/* Adds 8 nonzeros to the sums of their rows. Bit k of f: nonzero k begins a row. */
template <class T, class S, int LPR, int NL, int U, bool FLAGS>
static __device__ inline void add_nonzeros(const ts_gpu_mttkrp &p, const void *const *level,
                                           const char *const *factor, uint64_t column_byte,
                                           uint32_t row_bytes, const uint32_t *index, const T *val,
                                           uint32_t f, run_rows<T> &rows)
{
#pragma unroll
    for (int h = 0; h < 8; h += U) {
        piece<T> term[U];
        products<T, S, LPR, NL, U>(p, level, factor, column_byte, row_bytes, index + h, val + h,
                                   term);
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (FLAGS) {
                const bool begins = f >> (h + u) & 1;
                store_row_if<T, S>(begins, rows.sum, rows.to, p.out_float);
                rows.to = begins ? rows.next : rows.to;
                rows.next += begins ? rows.step : 0;
#pragma unroll
                for (int k = 0; k < piece<T>::N; k++)
                    rows.sum.v[k] = begins ? 0 : rows.sum.v[k];
            }
#pragma unroll
            for (int k = 0; k < piece<T>::N; k++)
                rows.sum.v[k] += term[u].v[k];
        }
    }
}

/* Step (3) of mttkrp_kernel.cu: gathers the factor rows of the group's nonzeros and adds them up.
 * Rows that begin and end among these nonzeros are stored. Returns whether a row begins among them:
 * then mem.head has the sum of the nonzeros before it. */
template <class T, class S, int LPR, int NL, int U>
static __device__ inline bool
sum_nonzeros(const ts_gpu_mttkrp &p, const lane_place<LPR> &at, const warp_memory<T, LPR, NL> &mem,
             const lane_columns<T, S, LPR, NL> &columns, run_rows<T> &rows)
{
    const uint32_t *group_index = mem.index + at.group * (spread<LPR>::group + 4);
    const T *group_val = mem.val + at.group * (spread<LPR>::group + 4);
    bool has = false;
#pragma unroll 1
    for (uint32_t c = 0; c < LPR; c++) {
        const uint32_t f = ((const unsigned char *)mem.flag_word)[at.group * LPR + c];
        has |= f != 0;
        if (__any_sync(ALL_LANES, f != 0))
            add_nonzeros<T, S, LPR, NL, U, true>(p, columns.level, columns.factor, columns.byte,
                                                 columns.row_bytes, group_index + 8 * c,
                                                 group_val + 8 * c, f, rows);
        else
            add_nonzeros<T, S, LPR, NL, U, false>(p, columns.level, columns.factor, columns.byte,
                                                  columns.row_bytes, group_index + 8 * c,
                                                  group_val + 8 * c, f, rows);
    }
    return has;
}

/* Gathers the factor rows of a block for one model and adds them up, steps (3) and (4) of
 * mttkrp_kernel.cu. */
template <class T, class S, int LPR, int NL, int U>
static __device__ inline void
sum_block(const ts_gpu_mttkrp &p, const lane_place<LPR> &at, const warp_memory<T, LPR, NL> &mem,
          const lane_columns<T, S, LPR, NL> &columns, uint32_t row, warp_rows &rows)
{
    char *const row_before =
        columns.active ? columns.out + (uint64_t)row * columns.out_row_bytes : mem.head;
    run_rows<T> run = { {},
                        mem.head,
                        columns.active ? row_before + columns.out_row_bytes : mem.head,
                        columns.active ? columns.out_row_bytes : 0 };
    const bool has = sum_nonzeros<T, S, LPR, NL, U>(p, at, mem, columns, run);
    join_groups(p, at, mem, columns, has, row_before, run.sum.v, rows);
}

#endif
