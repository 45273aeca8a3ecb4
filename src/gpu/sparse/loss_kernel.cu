/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes gradients and sums of a loss over packed shards: like the MTTKRP, but each nonzero's
 * term (the product of the other factors' rows) is multiplied by the slope of the loss at the
 * model's value, which also needs the row of the shards' own mode. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/sparse/loss_kernel.h"

#include <cuda_runtime.h>

#include "gpu/sparse/model_walk.cuh"

/* The sums of a lane over cells: their number, the loss, the smallest possible loss, and the values
 * x. */
struct loss_sums : lane_sums<TS_LOSS_SUMS / 2> {
    __device__ __forceinline__ void add_cell(bool counts, double loss, double least, double x)
    {
        v[0] += counts ? 1 : 0;
        v[1] += counts ? loss : 0;
        v[2] += counts ? least : 0;
        v[3] += counts ? x : 0;
    }
};

/* The visitor (model_walk.cuh) of a loss. The slope or value of the loss at a nonzero is computed
 * by only one lane of a group, because that takes long. */
struct loss_visitor {
    typedef ts_gpu_loss wanted;
    typedef sums_apart<loss_sums> sums;
    typedef no_weights weights;
    typedef loss_visitor wide;
    static constexpr bool ROWS = true, SIGNS = true, APART = true;
    static constexpr walk_marks MARKS = MARK_ALL;

    static __device__ __forceinline__ void judge(const wanted &loss, double, double x, double model,
                                                 bool counts, bool is_held, sums &sum)
    {
        const double cell = ts_loss_value(loss.kind, x, model, loss.at);
        const double less = loss.zeros ? ts_loss_value(loss.kind, 0, model, loss.at) : 0;
        const double reference = ts_loss_reference(loss.kind, x, loss.at);
        sum.kept.add_cell(counts, cell - less, reference, x);
        sum.held.add_cell(is_held, cell, reference, x);
    }
    template <class T> static __device__ __forceinline__ T weigh(const wanted &loss, T x, T model)
    {
        double s = ts_loss_slope(loss.kind, (double)x, (double)model, loss.at);
        s -= loss.zeros ? ts_loss_slope(loss.kind, 0, (double)model, loss.at) : 0;
        return (T)s;
    }
    static __device__ __forceinline__ double *to(const wanted &loss) { return loss.sums; }
};

template <class T, int NL, int U>
static cudaError_t launch_levels(const struct ts_gpu_mttkrp *args, const struct ts_gpu_loss *loss,
                                 cudaStream_t s)
{
    return loss->sums != NULL ? visit_shares<loss_visitor, T, NL, U, true>(args, loss, s)
                              : visit_shares<loss_visitor, T, NL, U, false>(args, loss, s);
}

ts_gpu_error ts_loss_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                            const struct ts_gpu_loss *loss, ts_gpu_stream stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (precision == TS_FLOAT64)
        return launch_levels<double, 0, 4>(args, loss, stream);
    return args->n_levels == 2   ? launch_levels<float, 2, 4>(args, loss, stream)
           : args->n_levels == 3 ? launch_levels<float, 3, 2>(args, loss, stream)
                                 : launch_levels<float, 0, 4>(args, loss, stream);
}
