/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums the errors of a model at the nonzeros of packed shards. The model's value at a nonzero is
 * the dot product of its term (the elementwise product of the other factors' rows, as in the
 * MTTKRP) and the row of the shard's own mode. */
#define _Static_assert static_assert /* format/layout.h, a C header, uses it */
#include "gpu/sparse/errors_kernel.h"

#include <cuda_runtime.h>

#include "gpu/sparse/model_walk.cuh"

/* The sums of a lane over cells: their number, x, x^2, x m and (x - m)^2, where x is the value of a
 * cell and m that of the model. */
struct cell_sums : lane_sums<TS_ERRORS_SUMS / 2> {
    /* Adds a cell that counts `weight` times. A weight of 1 gives the same bits as no weight. */
    __device__ __forceinline__ void add_cell(bool counts, double weight, double x, double model)
    {
        const double off = x - model;
        v[0] += counts ? weight : 0;
        v[1] += counts ? weight * x : 0;
        v[2] += counts ? weight * x * x : 0;
        v[3] += counts ? weight * x * model : 0;
        v[4] += counts ? weight * off * off : 0;
    }
};

template <class WEIGHTS> struct errors_visitor {
    typedef ts_gpu_errors wanted;
    typedef sums_apart<cell_sums> sums;
    typedef WEIGHTS weights;
    typedef errors_visitor wide;
    static constexpr bool ROWS = false, SIGNS = true, APART = false;
    static constexpr walk_marks MARKS = MARK_ALL;

    static __device__ __forceinline__ void judge(const wanted &e, double weight, double x,
                                                 double model, bool counts, bool is_held, sums &sum)
    {
        sum.kept.add_cell(counts, weight, x, model + e.mean);
        sum.held.add_cell(is_held, weight, x, model + e.mean);
    }
    static __device__ __forceinline__ double *to(const wanted &e) { return e.sums; }
};

ts_gpu_error ts_errors_launch(enum ts_precision precision, const struct ts_gpu_mttkrp *args,
                              const struct ts_gpu_errors *what, ts_gpu_stream stream)
{
    typedef errors_visitor<no_weights> plain;
    /* for cells with weights: always launched with NL 0 (any number of levels), which gives less
     * code and the same order of additions */
    typedef errors_visitor<weights_to> weighted;
    if (args->n_shares == 0)
        return cudaSuccess;
    if (args->weights)
        return precision == TS_FLOAT64
                   ? visit_shares<weighted, double, 0, 4, true>(args, what, stream)
               : args->n_levels == 3
                   ? visit_shares<weighted, float, 0, 2, true>(args, what, stream)
                   : visit_shares<weighted, float, 0, 4, true>(args, what, stream);
    if (precision == TS_FLOAT64)
        return visit_shares<plain, double, 0, 4, true>(args, what, stream);
    return args->n_levels == 2   ? visit_shares<plain, float, 2, 4, true>(args, what, stream)
           : args->n_levels == 3 ? visit_shares<plain, float, 3, 2, true>(args, what, stream)
                                 : visit_shares<plain, float, 0, 4, true>(args, what, stream);
}
