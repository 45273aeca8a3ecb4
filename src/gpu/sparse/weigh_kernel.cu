/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes weighted products of packed shards: like the MTTKRP, but each nonzero's term is
 * multiplied by a weight that depends on the model's value, which also needs the row of the shards'
 * own mode. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/sparse/weigh_kernel.h"

#include <cuda_runtime.h>

#include "gpu/sparse/model_walk.cuh"
#include "stream/loss_functions.h"

/* The sums of a lane that evaluate the fit of a model (weigh_kernel.h). HELD: some nonzeros may be
 * held out. */
template <bool HELD> struct judgement : lane_sums<TS_WEIGH_SUMS, HELD ? TS_WEIGH_SUMS : 2> {
    __device__ __forceinline__ void add_cell(bool held, double x, double model)
    {
        double(&v)[TS_WEIGH_SUMS] = this->v;
        const double at = x * log(fmax(model, TS_LOSS_LEAST));
        v[0] += HELD && held ? 0 : at;
        v[1] += HELD && held ? 0 : x * model;
        if constexpr (HELD) {
            v[2] += held ? 1 : 0;
            v[3] += held ? at : 0;
            v[4] += held ? model : 0;
            v[5] += held ? x * x : 0;
        }
    }
};

/* The visitor (model_walk.cuh) of weighted products. With HELD, nonzeros that are held out count as
 * zeros in the products. Their errors are summed separately. */
template <bool HELD> struct weigh_visitor {
    typedef ts_gpu_weigh wanted;
    typedef judgement<HELD> sums;
    typedef no_weights weights;
    typedef weigh_visitor<true> wide; /* the visitor for long rows serves both values of HELD */
    static constexpr bool ROWS = true, SIGNS = false, APART = false;
    static constexpr walk_marks MARKS = HELD ? MARK_HELD : MARK_NONE;

    static __device__ __forceinline__ void judge(const wanted &, double, double x, double model,
                                                 bool, bool is_held, sums &sum)
    {
        sum.add_cell(is_held, x, model);
    }
    template <class T> static __device__ __forceinline__ T weigh(const wanted &, T x, T model)
    {
        const T least = (T)TS_LOSS_LEAST;
        return x / (model > least ? model : least);
    }
    static __device__ __forceinline__ double *to(const wanted &w) { return w.judged; }
};

template <class T, int NL, int U, bool HELD>
static cudaError_t launch_levels(const struct ts_gpu_mttkrp *args, const struct ts_gpu_weigh *w,
                                 cudaStream_t s)
{
    return w->judged != NULL ? visit_shares<weigh_visitor<HELD>, T, NL, U, true>(args, w, s)
                             : visit_shares<weigh_visitor<HELD>, T, NL, U, false>(args, w, s);
}

ts_gpu_error ts_weigh_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                             const struct ts_gpu_weigh *weigh, ts_gpu_stream stream)
{
    if (args->n_shares == 0)
        return cudaSuccess;
    if (weigh->hold_out.share > 0)
        return precision == TS_FLOAT64 ? launch_levels<double, 0, 4, true>(args, weigh, stream)
               : args->n_levels == 2   ? launch_levels<float, 2, 4, true>(args, weigh, stream)
                                       : launch_levels<float, 0, 4, true>(args, weigh, stream);
    if (precision == TS_FLOAT64)
        return launch_levels<double, 0, 4, false>(args, weigh, stream);
    return args->n_levels == 2   ? launch_levels<float, 2, 4, false>(args, weigh, stream)
           : args->n_levels == 3 ? launch_levels<float, 3, 2, false>(args, weigh, stream)
                                 : launch_levels<float, 0, 4, false>(args, weigh, stream);
}
