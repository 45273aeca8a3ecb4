/* SPDX-License-Identifier: BSD-3-Clause */
/* model_walk.cuh - a loop over the nonzeros of packed shards that computes the model's value at
 * each. A visitor, a class, adds each nonzero to sums of its share, or returns a multiplier, with
 * which the nonzero's term (the product of the other factors' rows) is added to its row.
 *
 * A visitor V has
 *   wanted       the arguments of a launch in addition to those of an MTTKRP: at least `own`, the
 *                rows of the mode itself, `hold_out` and `level`
 *   sums         a struct of doubles with add_lanes() and add(sums)
 *   weights      no_weights or weights_to, for weights of cells
 *   ROWS         whether the visitor may compute rows
 *   SIGNS        whether signs of entries of `own` count
 *   MARKS        which bits are set for nonzeros before they are visited: enum walk_marks
 *   APART        whether one lane visits each nonzero, since a visit takes long; otherwise each
 *                lane of a group does
 *   judge(wanted, weight, x, model, counts, is_held, sum)  adds a nonzero of value x to sums
 *   weigh(wanted, x, model)                                returns the multiplier of its term
 *   to(wanted)   the address of the sums of share 0
 *   wide         the visitor for rows of more columns than a warp holds
 *
 *   owner    memory of a thread block, divided by warp_memory
 *   threads  all warps of a thread block call together
 *   errors   none: blocks were checked
 */
#ifndef TS_GPU_MODEL_WALK_CUH
#define TS_GPU_MODEL_WALK_CUH

#include "gpu/sparse/held_cells.cuh"
#include "gpu/sparse/own_row.cuh"
#include "gpu/sparse/share_walk.cuh"
#include "gpu/sparse/wide_rows.cuh"

/* Thread blocks on a multiprocessor, with 128 registers a thread. */
enum { MODEL_CTAS = 4 };

/* The bits that are set for the nonzeros of a block before they are visited. */
enum walk_marks {
    MARK_NONE, /* none: all nonzeros count */
    MARK_HELD, /* held-out nonzeros; all others count, also the zeros past the block's end */
    MARK_ALL   /* nonzeros that count, and held-out nonzeros */
};

/* For each lane of a warp, bits for its 8 positions: nonzeros that count (kept), and held-out
 * nonzeros (held). */
template <bool KEPT> struct kept_marks {
};
template <> struct kept_marks<true> {
    unsigned char kept[WARPS][32];
};
template <bool HELD> struct held_marks {
};
template <> struct held_marks<true> {
    unsigned char held[WARPS][32];
};
template <bool KEPT, bool HELD> struct block_marks : kept_marks<KEPT>, held_marks<HELD> {
};

/* N sums of a lane over its nonzeros, of which only the first USED may differ from 0. */
template <int N, int USED = N> struct lane_sums {
    double v[N];

    __device__ __forceinline__ void add_lanes()
    {
#pragma unroll
        for (int k = 0; k < USED; k++)
            v[k] = group_sum<32>(v[k]);
    }
    __device__ __forceinline__ void add(const lane_sums &more)
    {
#pragma unroll
        for (int k = 0; k < USED; k++)
            v[k] += more.v[k];
    }
};

/* Separate sums of cells that are not held out, and of held-out cells. */
template <class SUMS> struct sums_apart {
    SUMS kept, held;

    __device__ __forceinline__ void add_lanes()
    {
        kept.add_lanes();
        held.add_lanes();
    }
    __device__ __forceinline__ void add(const sums_apart &more)
    {
        kept.add(more.kept);
        held.add(more.held);
    }
};

static __device__ inline double weight_at(no_weights, uint32_t)
{
    return 1;
}
static __device__ inline double weight_at(weights_to w, uint32_t place)
{
    return (double)w.at[place];
}

/* Returns the bytes of shared memory for the weights of a thread block. */
template <int LPR> static __host__ __device__ inline uint32_t weights_bytes(no_weights)
{
    return 0;
}
template <int LPR> static __host__ __device__ inline uint32_t weights_bytes(weights_to)
{
    return WARPS * spread<LPR>::words * (uint32_t)sizeof(float);
}

/* Sets the address of a warp's weights, in `memory` of the thread block. */
template <int LPR> static __device__ inline void place_weights(no_weights &, char *, uint32_t) {}

template <int LPR>
static __device__ inline void place_weights(weights_to &w, char *memory, uint32_t warp)
{
    w.at = (float *)memory + warp * spread<LPR>::words;
}

/* Returns a bit for each of the lane's 8 positions: 1 if it is in the block. */
static __device__ inline uint32_t there_of_lane(uint32_t n, uint32_t lane)
{
    return 8 * lane >= n ? 0 : below(min(8u, n - 8 * lane));
}

/* Returns a bit for each of the lane's 8 positions: 1 if its nonzero is held out. */
template <class WANTED, class T, int LPR, int NL>
static __device__ inline uint32_t
held_of_lane(const WANTED &what, const share_walk<T, LPR, NL> &walk, const walked_block &block)
{
    return there_of_lane(block.n, walk.at.lane) &
           held_cells<T, LPR, NL>(what.hold_out, what.level, walk.n_levels + 1, walk.mem,
                                  walk.at.lane, block.first_row, block.d);
}

/* ------------------------------------------------------------------ work on 8 nonzeros */

/* Adds the lanes' parts m[k] of the model's values at 8 nonzeros over a group of lanes, like
 * group_sum. The lane gets the sums of nonzeros first .. first + N - 1, in ret. In groups of more
 * than 8 lanes, several lanes get the same nonzero. */
template <int LPR> struct shares_of_eight {
    /* N: nonzeros whose sums a lane gets; same: lanes that get the same nonzero */
    static constexpr int N = LPR < 8 ? 8 / LPR : 1, same = LPR > 8 ? LPR / 8 : 1;

    static __device__ inline uint32_t first(uint32_t member)
    {
        return LPR < 8 ? member * N : member / same;
    }
    template <class T>
    static __device__ inline void add(const T (&m)[8], uint32_t member, T (&ret)[N])
    {
        T x[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            x[k] = m[k];
#pragma unroll
        for (int d = LPR / 2, half = 4; d > 0; d /= 2, half /= 2)
            if (half > 0) {
#pragma unroll
                for (int k = 0; k < half; k++) {
                    const bool upper = (member & d) != 0;
                    const T other = upper ? x[k] : x[half + k];
                    x[k] = (upper ? x[half + k] : x[k]) + __shfl_xor_sync(ALL_LANES, other, d);
                }
            } else {
                x[0] += __shfl_xor_sync(ALL_LANES, x[0], d);
            }
#pragma unroll
        for (int k = 0; k < N; k++)
            ret[k] = x[k];
    }
};

/* The loop that calls a visitor V for each nonzero. SUM: V adds the nonzeros to sums; otherwise it
 * computes rows. U nonzeros are loaded at a time. */
template <class V, class T, int LPR, int NL, int U, bool SUM> struct model_walk {
    typedef typename V::wanted wanted;
    typedef typename V::sums sums;
    typedef typename V::weights weights;
    typedef share_walk<T, LPR, NL> walk;
    typedef lane_columns<T, T, LPR, NL> columns;
    static constexpr bool MARKS_KEPT = V::MARKS == MARK_ALL,
                          MARKS_HELD = SUM && V::MARKS != MARK_NONE,
                          CLEARS_HELD = V::MARKS == MARK_HELD && !SUM;
    typedef block_marks<MARKS_KEPT, MARKS_HELD> marks;

    /* Every lane of a group computes the terms of all nonzeros, but lane `member` adds only every
     * LPR-th nonzero to sums. Bit k of kept and held: nonzero k counts, or is held out. */
    template <bool FLAGS>
    static __device__ __forceinline__ void
    visit_together(const ts_gpu_mttkrp &p, const wanted &what, const columns &own_columns,
                   uint32_t member, const uint32_t *index, const T *val, weights of_cells,
                   uint32_t place, uint32_t f, uint32_t kept, uint32_t held, own_row<T> &own,
                   run_rows<T> &rows, sums &sum)
    {
#pragma unroll
        for (int h = 0; h < 8; h += U) {
            piece<T> term[U];
            alignas(16) T value[U];
            T m[U];
            products<T, T, LPR, NL, U, false>(p, own_columns.level, own_columns.factor,
                                              own_columns.byte, own_columns.row_bytes, index + h,
                                              val + h, term);
            load_shared<U>(val + h, value);
            models<T, LPR, U, FLAGS, V::SIGNS>(term, f >> h, own, m);
            if constexpr (SUM) {
#pragma unroll
                for (int from = 0; from < U; from += LPR) {
                    double x = 0, at = 0;
                    uint32_t which = 31;
#pragma unroll
                    for (int u = from; u < U && u < from + LPR; u++) {
                        x = (int)member == u - from ? (double)value[u] : x;
                        at = (int)member == u - from ? (double)m[u] : at;
                        which = (int)member == u - from ? h + u : which;
                    }
                    V::judge(what, weight_at(of_cells, place + (which & 7)), x, at,
                             kept >> which & 1, held >> which & 1, sum);
                }
            } else {
#pragma unroll
                for (int u = 0; u < U; u++)
                    add_term<T, FLAGS>(rows, f >> (h + u) & 1, V::weigh(what, value[u], m[u]),
                                       term[u]);
            }
        }
    }

    /* Each nonzero is visited by one lane of the group, or by several lanes in groups of more than
     * 8. */
    template <bool FLAGS>
    static __device__ __forceinline__ void
    visit_apart(const ts_gpu_mttkrp &p, const wanted &what, const columns &own_columns,
                uint32_t member, const uint32_t *index, const T *val, uint32_t f, uint32_t kept,
                uint32_t held, own_row<T> &own, run_rows<T> &rows, sums &sum)
    {
        typedef shares_of_eight<LPR> shares;
        const uint32_t first = shares::first(member);
        piece<T> term[8];
        T m[8], at[shares::N], counts[shares::N];
#pragma unroll
        for (int h = 0; h < 8; h += U) {
            piece<T> some[U];
            T part[U];
            products<T, T, LPR, NL, U, false>(p, own_columns.level, own_columns.factor,
                                              own_columns.byte, own_columns.row_bytes, index + h,
                                              val + h, some);
#pragma unroll
            for (int u = 0; u < U; u++)
                term[h + u] = some[u];
            parts_of_models<T, U, FLAGS, V::SIGNS>(some, f >> h, own, part);
#pragma unroll
            for (int u = 0; u < U; u++)
                m[h + u] = part[u];
        }
        shares::add(m, member, at);
#pragma unroll
        for (int k = 0; k < shares::N; k++) {
            const T x = val[first + k];
            const bool is_kept = kept >> (first + k) & 1;
            if constexpr (SUM) {
                const bool is_held = held >> (first + k) & 1;
                if ((is_kept || is_held) && member % shares::same == 0)
                    V::judge(what, 1, (double)x, (double)at[k], is_kept, is_held, sum);
            } else {
                const T g = V::weigh(what, x, at[k]);
                counts[k] = is_kept ? g : (T)0;
            }
        }
        if constexpr (!SUM)
#pragma unroll
            for (int u = 0; u < 8; u++)
                add_term<T, FLAGS>(rows, f >> u & 1,
                                   __shfl_sync(ALL_LANES, counts[u % shares::N],
                                               u / shares::N * shares::same, LPR),
                                   term[u]);
    }

    /* ------------------------------------------------------------------ nonzeros of a block */

    static __device__ __forceinline__ void mark(const wanted &what, const walk &w,
                                                const walked_block &block, marks &to)
    {
        const uint32_t warp = w.at.warp, lane = w.at.lane;
        if constexpr (MARKS_KEPT) {
            const uint32_t held = what.hold_out.share > 0 ? held_of_lane(what, w, block) : 0;
            to.kept[warp][lane] = (unsigned char)(there_of_lane(block.n, lane) & ~held);
            if constexpr (MARKS_HELD)
                to.held[warp][lane] = (unsigned char)held;
        } else if constexpr (MARKS_HELD) {
            to.held[warp][lane] = (unsigned char)held_of_lane(what, w, block);
        } else if constexpr (CLEARS_HELD) {
            clear_held(what.hold_out, what.level, w.n_levels + 1, w.mem, lane, block.first_row,
                       block.d);
        }
    }

    /* Visits the nonzeros of a block that a group of lanes has. row: the row before the first one
     * that begins among them. */
    static __device__ __forceinline__ void visit_block(const wanted &what, walk &w,
                                                       const columns &own_columns, weights of_cells,
                                                       const marks &marked, uint32_t row, sums &sum)
    {
        const uint32_t warp = w.at.warp;
        const auto visit = [&](run_rows<T> &rows) {
            /* `own` is constructed after `rows`: if it came first, more registers would be
             * spilled. */
            own_row<T> own((const char *)what.own + own_columns.byte, own_columns.active, row,
                           own_columns.row_bytes);
            return w.each_eight([&](auto begins, uint32_t place, uint32_t byte, uint32_t f) {
                constexpr bool FLAGS = decltype(begins)::value;
                uint32_t kept = 255, held = 0;
                if constexpr (MARKS_KEPT)
                    kept = marked.kept[warp][byte];
                if constexpr (MARKS_HELD)
                    held = marked.held[warp][byte];
                if constexpr (V::APART)
                    visit_apart<FLAGS>(w.p, what, own_columns, w.at.member, w.mem.index + place,
                                       w.mem.val + place, f, kept, held, own, rows, sum);
                else
                    visit_together<FLAGS>(w.p, what, own_columns, w.at.member, w.mem.index + place,
                                          w.mem.val + place, of_cells, place, f, kept, held, own,
                                          rows, sum);
            });
        };
        if constexpr (SUM) {
            run_rows<T> none = {};
            (void)visit(none);
        } else {
            w.sum_rows(own_columns, row, visit);
        }
        if constexpr (MARKS_KEPT || MARKS_HELD)
            __syncwarp(); /* the next block overwrites the marks */
    }

    /* For rows of more columns than a warp holds: each lane visits its 8 positions. Without SUM,
     * the multiplier of each nonzero's term overwrites its value. */
    static __device__ __forceinline__ void visit_lane(const wanted &what, const walk &w,
                                                      weights of_cells, const T *model,
                                                      uint32_t there, uint32_t held, sums &sum)
    {
#pragma unroll 1
        for (uint32_t k = 0; k < 8 && (there >> k & 1) != 0; k++) {
            const uint32_t place = spread<32>::at(8 * w.at.lane + k);
            const T x = w.mem.val[place], m = model[place];
            const bool is_held = held >> k & 1;
            if constexpr (SUM)
                V::judge(what, weight_at(of_cells, place), (double)x, (double)m, !is_held, is_held,
                         sum);
            else
                w.mem.val[place] = is_held ? (T)0 : V::weigh(what, x, m);
        }
        __syncwarp();
    }
};

/* ------------------------------------------------------------------ nonzeros of a thread block */

/* Adds the sums of a thread block's lanes and warps, and stores them for its share. */
template <class V, class T, int LPR, int NL>
static __device__ __forceinline__ void store_sums(const typename V::wanted &what,
                                                  const share_walk<T, LPR, NL> &walk,
                                                  typename V::sums &sum, typename V::sums *of_warp)
{
    if (walk.end_sums(sum, of_warp))
        ((typename V::sums *)V::to(what))[walk.number()] = sum;
}

/* out(i, r) = sum over the nonzeros of row i of weigh(x, model) * prod_l factor[l](i_l, r),
 * computed like mttkrp_packed. The visitor's function weigh takes the nonzero's value and the
 * model's. With SUM, computes the sums of each share instead.
 *
 *   launch  grid (shares of the launch), 4 warps a thread block, which have all columns */
template <class V, class T, int LPR, int NL, int U, bool SUM>
__global__ void __launch_bounds__(32 * WARPS, MODEL_CTAS)
    visit_packed(const __grid_constant__ ts_gpu_mttkrp p,
                 const __grid_constant__ typename V::wanted what)
{
    typedef model_walk<V, T, LPR, NL, U, SUM> model;
    extern __shared__ uint4 shared[];
    __shared__ typename V::sums of_warp[SUM ? WARPS : 1];
    __shared__ typename model::marks marks;
    typename V::weights weights;
    typename V::sums sum = {};
    share_walk<T, LPR, NL> walk(p, shared, 1);
    const lane_columns<T, T, LPR, NL> columns(p, other_models<false>(), walk.at, 0);
    place_weights<LPR>(weights, (char *)shared + shared_size<T, LPR, NL>::bytes(walk.n_levels, 1),
                       walk.at.warp);
    walk.start(1);
    walk.each_block(weights, [&](const walked_block &block) {
        model::mark(what, walk, block, marks);
        model::visit_block(what, walk, columns, weights, marks, walk.place(block), sum);
    });
    if constexpr (SUM)
        store_sums<V>(what, walk, sum, of_warp);
    else
        walk.end_rows();
}

/* Computes rows or sums of shares, as visit_packed does, for rows of more columns than a warp
 * holds.
 *
 *   launch  grid (shares of the launch, summers_of(ld), or 1 with SUM), 4 warps a thread block */
template <class V, class T, bool SUM>
__global__ void __launch_bounds__(32 * WARPS, MODEL_CTAS)
    visit_wide(const __grid_constant__ ts_gpu_mttkrp p,
               const __grid_constant__ typename V::wanted what)
{
    typedef model_walk<V, T, 32, 0, 4, SUM> model;
    constexpr uint32_t MODELS = V::ROWS ? PIECES : 1;
    extern __shared__ uint4 shared[];
    __shared__ typename V::sums of_warp[SUM ? WARPS : 1];
    typename V::weights weights;
    typename V::sums sum = {};
    share_walk<T, 32, 0> walk(p, shared, MODELS);
    char *const models = (char *)shared + shared_size<T, 32, 0>::bytes(p.n_levels, MODELS);
    const block_models<T> at(models, walk.at.warp);
    const summed_pieces pieces = V::ROWS ? pieces_of_block<T>(p.ld) : summed_pieces{ 0, 1 };
    place_weights<32>(weights, models + WARPS * block_models<T>::bytes(), walk.at.warp);
    walk.start(pieces.n);
    walk.each_block(weights, [&](const walked_block &block) {
        const uint32_t there = there_of_lane(block.n, walk.at.lane);
        const uint32_t held = what.hold_out.share > 0 ? held_of_lane(what, walk, block) : 0;
        const uint32_t row = walk.place(block);
        tell_models<T, V::SIGNS>(p, what.own, walk.at, walk.mem, row, at.at);
        model::visit_lane(what, walk, weights, at.at, there, held, sum);
        if constexpr (!SUM)
            sum_pieces(p, walk.at, walk.mem, pieces, row, walk.rows);
    });
    if constexpr (SUM)
        store_sums<V>(what, walk, sum, of_warp);
    else
        end_pieces(p, walk.shard, walk.share, walk.at, walk.mem, pieces, walk.blocks, walk.rows);
}

/* ------------------------------------------------------------------ launches of kernels */

template <class V, class T, int NL, int U, bool SUM>
static inline cudaError_t visit_shares(const struct ts_gpu_mttkrp *args,
                                       const typename V::wanted *what, cudaStream_t stream)
{
    return launch_lanes<T, 2>(
        args->ld,
        [&](auto lanes) {
            constexpr int LPR = decltype(lanes)::value;
            const uint32_t bytes = shared_size<T, LPR, NL>::bytes(args->n_levels, 1) +
                                   weights_bytes<LPR>(typename V::weights());
            return launch_shares(visit_packed<V, T, LPR, NL, U, SUM>, dim3(args->n_shares), bytes,
                                 args, what, stream);
        },
        [&]() {
            typedef typename V::wide W;
            const uint32_t bytes =
                shared_size<T, 32, 0>::bytes(args->n_levels, W::ROWS ? PIECES : 1) +
                WARPS * block_models<T>::bytes() + weights_bytes<32>(typename W::weights());
            return launch_shares(visit_wide<W, T, SUM>,
                                 dim3(args->n_shares, SUM ? 1 : summers_of<T>(args->ld)), bytes,
                                 args, what, stream);
        });
}

#endif
