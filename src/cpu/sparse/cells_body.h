/* SPDX-License-Identifier: BSD-3-Clause */
/* cells_body.h - computes the model's values at the nonzeros of a partition, once for each
 * instruction set and precision. kernel_body.h includes it. Unlike the MTTKRP, these functions also
 * read the rows of the mode itself.
 *
 * A value is the sum over columns of the product of the rows of all modes. The columns of a
 * position are first added to FOLD sums, in vectors. A loop over all positions of the block then
 * adds the FOLD sums. So no position waits for the sum across its own vector.
 */
#if TS_LANES >= 4
#define FOLD 4
#else
#define FOLD TS_LANES
#endif
#define FOLDED NAME(folded)

typedef TS_REAL FOLDED __attribute__((vector_size(FOLD * sizeof(TS_REAL))));

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TS_HAS_SHUFFLE
#endif
#endif

/* Adds the lanes of a vector to FOLD lanes: repeatedly one half to the other. */
INLINE FOLDED NAME(fold)(VEC x)
{
#if TS_LANES <= 4
    return x;
#elif defined(TS_HAS_SHUFFLE) && TS_LANES == 8
    return __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
#elif defined(TS_HAS_SHUFFLE) && TS_LANES == 16
    typedef TS_REAL half __attribute__((vector_size(8 * sizeof(TS_REAL))));
    const half y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                   __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(y, y, 0, 1, 2, 3) + __builtin_shufflevector(y, y, 4, 5, 6, 7);
#else
    FOLDED sum[TS_LANES / FOLD];
    memcpy(sum, &x, sizeof sum);
    for (uint32_t n = TS_LANES / FOLD / 2; n > 0; n /= 2)
        for (uint32_t i = 0; i < n; i++)
            sum[i] += sum[i + n];
    return sum[0];
#endif
}

#if defined(TS_HAS_SHUFFLE) && TS_LANES == 16
#define FOLDS 4u

/* Adds the lanes of each of four vectors to FOLD lanes, as NAME(fold) does, and returns these one
 * after the other in a vector. This takes fewer instructions than four calls. */
INLINE VEC NAME(fold_all)(const VEC *x)
{
    VEC two[2];
    TS_EACH(i, 2) {
        const VEC a = x[2 * i], b = x[2 * i + 1];
        two[i] =
            __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
            __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                    31);
    }
    return __builtin_shufflevector(two[0], two[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25,
                                   26, 27) +
           __builtin_shufflevector(two[0], two[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28,
                                   29, 30, 31);
}
#endif

/* Returns the row product (of the other factors' rows) at position p times `own` (the row of the
 * mode itself), summed over vectors, lane by lane. */
INLINE VEC NAME(dot_at)(const struct NAME(operands) * x, uint32_t n_vec, size_t p, const VEC *own)
{
    VEC term[4], dot;
    NAME(fetch)(x, n_vec, p);
    NAME(multiply)(x, n_vec, p, term);
    dot = term[0] * own[0];
    TS_EACH_FROM(v, 1, n_vec)
        dot += term[v] * own[v];
    return dot;
}

/* Computes FOLD partial sums of the model's value at each position, over n_vec vectors of columns.
 * own: the columns of the mode's row at the beginning of the block. more: adds to sums of earlier
 * columns. */
INLINE void NAME(dots)(const struct ts_unpacked *b, const struct NAME(operands) * x, uint32_t n_vec,
                       const char *own, uint64_t own_stride, int more, FOLDED *restrict sum)
{
    VEC a[4];
    size_t p = 0;
    for (uint32_t s = 0;; s++, own += own_stride) {
        const size_t end = s < b->n_starts ? b->start[s] : b->n;
        TS_EACH(v, n_vec)
            a[v] = ((const VEC *)own)[v];
#ifdef FOLDS
        for (VEC dot[FOLDS], before; p + FOLDS <= end; p += FOLDS) {
            TS_EACH(f, FOLDS)
                dot[f] = NAME(dot_at)(x, n_vec, p + f, a);
            dot[0] = NAME(fold_all)(dot);
            if (more) {
                memcpy(&before, sum + p, sizeof before);
                dot[0] = before + dot[0];
            }
            memcpy(sum + p, dot, sizeof *dot);
        }
#endif
        for (; p < end; p++) {
            const FOLDED dot = NAME(fold)(NAME(dot_at)(x, n_vec, p, a));
            sum[p] = more ? sum[p] + dot : dot;
        }
        if (s == b->n_starts)
            break;
    }
}

INLINE void NAME(dots_of_n)(const struct ts_unpacked *b, struct NAME(operands) x, uint32_t n_vec,
                            const char *own, uint64_t own_stride, int more, FOLDED *restrict sum)
{
#define DOTS NAME(dots)(b, &x, n_vec, own, own_stride, more, sum)
    switch (x.n) {
        CASE_OF(x.n, 1, DOTS);
        CASE_OF(x.n, 2, DOTS);
        CASE_OF(x.n, 3, DOTS);
    default:
        DOTS;
    }
#undef DOTS
}

/* Computes FOLD partial sums of the model's values in one block, over n_vec vectors of columns from
 * col on. */
INLINE void NAME(dot_columns)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                              uint32_t n_vec, uint64_t stride, uint32_t col,
                              struct ts_kernel_scratch *scratch)
{
    const uint64_t row_bytes = stride * sizeof(TS_REAL);
    const char *own = (const char *)((const TS_REAL *)job->table[0] + b->row * stride + col);
    FOLDED *sum = (FOLDED *)scratch->fold;
    struct NAME(operand) of[TS_MAX_ORDER] = { { NULL, NULL, 0 } };
    struct NAME(operands) x = NAME(gather)(job, b, n_vec, row_bytes, col, scratch, of);
    BY_FLAG(x.far, NAME(dots_of_n)(b, x, n_vec, own, row_bytes, col > 0, sum));
}

#define COLUMNS(name, n_vec, stride)                                                            \
    static __attribute__((noinline)) void NAME(name)(const struct ts_kernel_job *job,           \
                                                     const struct ts_unpacked *b, uint32_t col, \
                                                     struct ts_kernel_scratch *scratch)         \
    {                                                                                           \
        NAME(dot_columns)(job, b, n_vec, stride, col, scratch);                                 \
    }
COLUMNS(dots_1, 1, TS_LANES)
COLUMNS(dots_2, 2, 2 * TS_LANES)
COLUMNS(dots_3, 3, 3 * TS_LANES)
COLUMNS(dots_4, 4, 4 * TS_LANES)
COLUMNS(dots_1_of, 1, job->stride)
COLUMNS(dots_2_of, 2, job->stride)
COLUMNS(dots_3_of, 3, job->stride)
COLUMNS(dots_4_of, 4, job->stride)
#undef COLUMNS

static void NAME(dot_block)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                            struct ts_kernel_scratch *scratch)
{
    const TS_REAL *sum = (const TS_REAL *)scratch->fold;
    /* 1: rows contain columns of other models too; this changes no sum */
    const int beside = job->columns != job->stride;
    uint32_t col = 0;
    switch (job->columns / TS_LANES) {
    case 1:
        (beside ? NAME(dots_1_of) : NAME(dots_1))(job, b, 0, scratch);
        break;
    case 2:
        (beside ? NAME(dots_2_of) : NAME(dots_2))(job, b, 0, scratch);
        break;
    case 3:
        (beside ? NAME(dots_3_of) : NAME(dots_3))(job, b, 0, scratch);
        break;
    case 4:
        (beside ? NAME(dots_4_of) : NAME(dots_4))(job, b, 0, scratch);
        break;
    default:
        for (; col + 4 * TS_LANES <= job->columns; col += 4 * TS_LANES)
            NAME(dots_4_of)(job, b, col, scratch);
        for (; col < job->columns; col += TS_LANES)
            NAME(dots_1_of)(job, b, col, scratch);
    }
    for (size_t p = 0; p < b->n; p++)
#if FOLD == 4
        scratch->cell[p] =
            (double)((sum[4 * p] + sum[4 * p + 1]) + (sum[4 * p + 2] + sum[4 * p + 3]));
#else
        scratch->cell[p] = (double)(sum[2 * p] + sum[2 * p + 1]);
#endif
}

static int NAME(cells_of_partition)(const struct ts_kernel_job *job,
                                    const struct ts_kernel_input *in,
                                    struct ts_kernel_scratch *scratch, ts_cells_give *give,
                                    void *ctx)
{
    const uint32_t first = in->partition * TS_PARTITION_BLOCKS;
    const uint32_t n_blocks = in->entry->n_blocks;
    const uint32_t end =
        first + TS_PARTITION_BLOCKS < n_blocks ? first + TS_PARTITION_BLOCKS : n_blocks;
    struct ts_unpacked *b = &scratch->block[0], *next = &scratch->block[1], *t;
    const void *plain = in->plain;
    int rc = 0;
    NAME(load)(job, in, first, &plain, b);
    for (uint32_t k = first; k < end && rc == 0; k++, t = b, b = next, next = t) {
        if (k + 1 < end)
            NAME(load)(job, in, k + 1, &plain, next);
        NAME(append)(job, k + 1 < end ? next : b, b);
        NAME(dot_block)(job, b, scratch);
        rc = give(ctx, b, scratch->cell, k + 1 == end);
    }
    return rc;
}
