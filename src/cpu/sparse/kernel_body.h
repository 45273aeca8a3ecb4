/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_body.h - the MTTKRP of a partition, once for each instruction set and precision.
 *
 * kernel_ISA.c includes it with these macros defined: TS_REAL (the type of products, float or
 * double), TS_LANES (a power of two), TS_UNPACK (the decoder) and TS_SET_NAME. TS_STORED is defined
 * too if rows are stored in another type: float rows for double products. Such a set has products
 * alone, without the functions of cells_body.h, rounds_body.h and gram_body.h. Vectors are those of
 * the compiler (GCC and clang), so that the same text serves every machine. The numbers of vectors
 * in a row and of operands, and strides, are constants after inlining. TS_UNROLL turns the loops
 * over them into straight code.
 */
#define PASTE2(a, b, c) a##_##b##_##c
#define PASTE(a, b, c)  PASTE2(a, b, c)
#define LOCAL(name)     PASTE(name, TS_REAL, TS_LANES)
#define VEC             LOCAL(vec)
#define INLINE          static inline __attribute__((always_inline))

/* A call that is compiled separately for each value of a flag, or for some values of a number, so
 * that these are constants in it. */
#define BY_FLAG(flag, call) \
    do {                    \
        if (flag) {         \
            (flag) = 1;     \
            call;           \
        } else {            \
            (flag) = 0;     \
            call;           \
        }                   \
    } while (0)
#define CASE_OF(n, value, call) \
    case value:                 \
        (n) = value;            \
        call;                   \
        break

#ifdef TS_STORED
#define NAME(name) LOCAL(PASTE(name, of, TS_STORED))
#define STORED     TS_STORED
#else
#define NAME(name) LOCAL(name)
#define STORED     TS_REAL
#endif
#define SUMS NAME(sums)
#define ROW  NAME(stored)

typedef TS_REAL VEC __attribute__((vector_size(TS_LANES * sizeof(TS_REAL))));
typedef STORED ROW __attribute__((vector_size(TS_LANES * sizeof(STORED))));
typedef double SUMS __attribute__((vector_size(TS_LANES * sizeof(double))));

/* An operand of a product: a factor matrix, and the row index for each position. */
struct NAME(operand) {
    const char *row; /* row 0, from the current column on */
    const uint32_t *idx;
    int far; /* 1: the factor is larger than the caches, so its rows are prefetched */
};

/* All operands of a product. Most members are constants after inlining: the number of matrices for
 * tensors of up to 5 modes, whether any is far (larger than the caches), the strides of narrow
 * rows. */
struct NAME(operands) {
    const struct NAME(operand) * of;
    uint32_t n;
    int far; /* 1: some operand is larger than the caches */
    /* 1: the first operand has products of factor rows for fibres, as TS_REAL, not as STORED */
    int products;
    /* bytes from row to row: of the first operand, and of the others */
    uint64_t first_stride, stride;
};

/* The place where a row of the result is stored, and where its remainder goes (kernel.h). */
struct NAME(target) {
    STORED *row, *rest;
};

INLINE const char *NAME(row)(const struct NAME(operands) * x, uint32_t o, size_t p)
{
    return x->of[o].row + x->of[o].idx[p] * (o == 0 ? x->first_stride : x->stride);
}

/* Converts a stored row to the type of products. Compilers may split the vector although the
 * machine has one instruction for it: then TS_WIDEN is this instruction. */
INLINE VEC NAME(widen)(ROW x)
{
#ifdef TS_WIDEN
    return TS_WIDEN(x);
#else
    return __builtin_convertvector(x, VEC);
#endif
}

/* term := the row product at position p, that is the elementwise product of the operands' rows */
INLINE void NAME(multiply)(const struct NAME(operands) * x, uint32_t n_vec, size_t p, VEC *term)
{
    const char *row = NAME(row)(x, 0, p);
    TS_EACH(v, n_vec)
        term[v] = x->products ? ((const VEC *)row)[v] : NAME(widen)(((const ROW *)row)[v]);
    for (uint32_t o = 1; o < x->n; o++) {
        row = NAME(row)(x, o, p);
        TS_EACH(v, n_vec)
            term[v] *= NAME(widen)(((const ROW *)row)[v]);
    }
}

/* Stores x as vector v of the row `to`. A wide kernel also stores the remainder. */
INLINE void NAME(store)(const VEC *x, const struct NAME(target) * to, uint32_t v)
{
    ROW row = __builtin_convertvector(*x, ROW);
    ((ROW *)to->row)[v] = row;
#ifdef TS_STORED
    ((ROW *)to->rest)[v] = __builtin_convertvector(*x - NAME(widen)(row), ROW);
#endif
}

/* Prefetches the rows of a later position from far operands (those larger than the caches). */
INLINE void NAME(fetch)(const struct NAME(operands) * x, uint32_t n_vec, size_t p)
{
    for (uint32_t o = 0; x->far && o < x->n; o++) {
        const char *row = NAME(row)(x, o, p + TS_KERNEL_AHEAD);
        if (!x->of[o].far)
            continue;
        for (uint32_t byte = 0; byte < n_vec * sizeof(ROW); byte += 64)
            __builtin_prefetch(row + byte);
    }
}

/* Sums the nonzeros of a block over n_vec vectors of columns. sum: sums of the current row over
 * earlier blocks, in float64, because a row of many blocks would lose small terms in float32. dst:
 * the current row of the result; next: the row after it. two: even and odd positions of the row are
 * summed separately, because a single sum of few vectors would wait for its own last addition. */
INLINE void NAME(rows)(const struct ts_unpacked *b, const struct NAME(operands) * x, uint32_t n_vec,
                       int two, SUMS *restrict sum, struct NAME(target) dst,
                       struct NAME(target) next, uint64_t rest_stride)
{
    const TS_REAL *value = (const TS_REAL *)&b->value;
    VEC acc[4], odd[4], term[4];
    size_t p = 0;
    TS_EACH(v, n_vec)
        acc[v] = (VEC){ 0 };
    for (uint32_t s = 0;; s++) {
        const size_t end = s < b->n_starts ? b->start[s] : b->n;
        if (two && p + 1 < end) {
            TS_EACH(v, n_vec)
                odd[v] = (VEC){ 0 };
            for (; p + 1 < end; p += 2) {
                NAME(fetch)(x, n_vec, p);
                NAME(multiply)(x, n_vec, p, term);
                TS_EACH(v, n_vec)
                    acc[v] += term[v] * value[p];
                NAME(fetch)(x, n_vec, p + 1);
                NAME(multiply)(x, n_vec, p + 1, term);
                TS_EACH(v, n_vec)
                    odd[v] += term[v] * value[p + 1];
            }
            TS_EACH(v, n_vec)
                acc[v] += odd[v];
        }
        for (; p < end; p++) {
            NAME(fetch)(x, n_vec, p);
            NAME(multiply)(x, n_vec, p, term);
            TS_EACH(v, n_vec)
                acc[v] += term[v] * value[p];
        }
        if (s == 0) {
            TS_EACH(v, n_vec) {
                sum[v] += __builtin_convertvector(acc[v], SUMS);
                acc[v] = __builtin_convertvector(sum[v], VEC);
            }
        }
        if (s == b->n_starts)
            break;
        TS_EACH(v, n_vec) {
            NAME(store)(&acc[v], &dst, v);
            acc[v] = (VEC){ 0 };
        }
        dst = next;
        next.row += x->stride / sizeof(STORED);
        next.rest += rest_stride;
    }
    if (b->n_starts > 0) {
        TS_EACH(v, n_vec)
            sum[v] = __builtin_convertvector(acc[v], SUMS);
    }
}

/* out(k, :) := the row product of fibre k (the product of the operands' rows for its indices) */
INLINE void NAME(products)(uint32_t n, const struct NAME(operands) * x, uint32_t n_vec,
                           TS_REAL *out)
{
    VEC term[4];
    for (size_t k = 0; k < n; k++, out += n_vec * TS_LANES) {
        NAME(fetch)(x, n_vec, k);
        NAME(multiply)(x, n_vec, k, term);
        TS_EACH(v, n_vec)
            ((VEC *)out)[v] = term[v];
    }
}

/* Returns the place of row `row` of the result, from column col on. */
INLINE struct NAME(target)
    NAME(place)(const struct ts_kernel_job *job, uint64_t row, uint64_t stride, uint32_t col,
                struct ts_kernel_scratch *scratch)
{
    const struct NAME(target) ret = {
        (STORED *)job->out + row * stride + col,
        job->rest == NULL ? (STORED *)scratch->rest + col
                          : (STORED *)job->rest + row * stride + col,
    };
    return ret;
}

/* Calls NAME(rows). The number of operands is a constant if it is small. */
INLINE void NAME(rows_of_n)(const struct ts_unpacked *b, struct NAME(operands) x, uint32_t n_vec,
                            int two, SUMS *restrict sum, struct NAME(target) dst,
                            struct NAME(target) next, uint64_t rest_stride)
{
#define ROWS NAME(rows)(b, &x, n_vec, two, sum, dst, next, rest_stride)
    switch (x.n) {
        CASE_OF(x.n, 2, ROWS);
        CASE_OF(x.n, 3, ROWS);
        CASE_OF(x.n, 4, ROWS);
    default:
        ROWS;
    }
}

INLINE void NAME(products_of_n)(uint32_t n, struct NAME(operands) x, uint32_t n_vec, TS_REAL *out)
{
    switch (x.n) {
        CASE_OF(x.n, 2, NAME(products)(n, &x, n_vec, out));
        CASE_OF(x.n, 3, NAME(products)(n, &x, n_vec, out));
    default:
        NAME(products)(n, &x, n_vec, out);
    }
}

/* Sums one block over n_vec vectors of columns from col on. */
INLINE void NAME(columns)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                          uint32_t n_vec, int two, uint64_t stride, uint32_t col,
                          struct ts_kernel_scratch *scratch, struct NAME(target) dst)
{
    const uint32_t leaf = job->order - 1;
    const uint64_t row_bytes = stride * sizeof(STORED),
                   rest_stride = job->rest == NULL ? 0 : stride;
    SUMS *sum = (SUMS *)(scratch->sum + col);
    struct NAME(target) next = NAME(place)(job, b->row + UINT64_C(1), stride, col, scratch);
    struct NAME(operand) of[TS_MAX_ORDER];
    struct NAME(operands) x = { of, leaf, 0, 0, row_bytes, row_bytes };
    dst.row += col;
    dst.rest += col;
    for (uint32_t l = 1; l <= leaf; l++) {
        of[l - 1] = (struct NAME(operand)){ (const char *)((const STORED *)job->table[l] + col),
                                            b->idx[l], job->far[l] };
        x.far |= job->far[l];
    }
    if (b->shared) {
        TS_REAL *product = (TS_REAL *)scratch->product;
        x.n = leaf - 1;
        BY_FLAG(x.far, NAME(products_of_n)(b->n_fibres, x, n_vec, product));
        of[0] = (struct NAME(operand)){ (const char *)product, b->idx[0], 0 };
        of[1] = of[leaf - 1];
        x.n = 2;
        x.products = 1;
        x.first_stride = n_vec * sizeof(VEC);
        x.far = job->far[leaf];
        BY_FLAG(x.far, ROWS);
    } else {
        BY_FLAG(x.far, NAME(rows_of_n)(b, x, n_vec, two, sum, dst, next, rest_stride));
    }
}

/* A function for each compiled width of rows (number of vectors). These are not inlined, so that no
 * function becomes too large for the compiler. */
#define COLUMNS(name, n_vec, two, stride)                                           \
    static __attribute__((noinline)) void NAME(name)(                               \
        const struct ts_kernel_job *job, const struct ts_unpacked *b, uint32_t col, \
        struct ts_kernel_scratch *scratch, struct NAME(target) dst)                 \
    {                                                                               \
        NAME(columns)(job, b, n_vec, two, stride, col, scratch, dst);               \
    }
COLUMNS(columns_1, 1, 1, TS_LANES)
COLUMNS(columns_2, 2, 1, 2 * TS_LANES)
COLUMNS(columns_3, 3, 0, 3 * TS_LANES)
COLUMNS(columns_4, 4, 0, 4 * TS_LANES)
COLUMNS(columns_3_of, 3, 0, job->stride)
COLUMNS(columns_4_of, 4, 0, job->stride)
COLUMNS(halves_1_of, 1, 1, job->stride)
COLUMNS(halves_2_of, 2, 1, job->stride)
COLUMNS(halves_3_of, 3, 1, job->stride)
COLUMNS(halves_4_of, 4, 1, job->stride)
#undef COLUMNS

/* Whether vector v of a row's n vectors is summed in halves (even and odd positions apart) if rows
 * have the columns of one model alone. The bits of a column depend on this alone. */
INLINE int NAME(in_halves)(uint32_t v, uint32_t n)
{
    return n <= 2 || (n > 4 && v >= n / 4 * 4);
}

/* Divides the columns of all models into runs of vectors. A run that is summed in halves (even and
 * odd positions apart) may have columns of several models. */
static uint32_t NAME(plan)(const struct ts_kernel_job *job, struct ts_kernel_run *run)
{
    uint32_t n_runs = 0;
    for (uint32_t k = 0; k < job->n_models; k++) {
        const uint32_t n = (job->model[k].stride + TS_LANES - 1) / TS_LANES;
        for (uint32_t v = 0; v < n; v++) {
            const uint32_t col = job->model[k].col + v * TS_LANES;
            const int two = NAME(in_halves)(v, n);
            struct ts_kernel_run *last = &run[n_runs > 0 ? n_runs - 1 : 0];
            if (n_runs > 0 && last->n_vec < 4 && last->two == two && (two || v % 4 != 0) &&
                (uint32_t)last->col + last->n_vec * (uint32_t)TS_LANES == col)
                last->n_vec++;
            else
                run[n_runs++] = (struct ts_kernel_run){ (uint16_t)col, 1, (uint8_t)two };
        }
    }
    return n_runs;
}

/* Sums a block for several models, one run (adjacent vectors of columns) after another. */
static void NAME(block_of_runs)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                                struct ts_kernel_scratch *scratch, struct NAME(target) dst)
{
    for (uint32_t i = 0; i < scratch->n_runs; i++) {
        const struct ts_kernel_run *r = &scratch->run[i];
        switch (r->two ? r->n_vec : r->n_vec + 4) {
        case 1:
            NAME(halves_1_of)(job, b, r->col, scratch, dst);
            break;
        case 2:
            NAME(halves_2_of)(job, b, r->col, scratch, dst);
            break;
        case 3:
            NAME(halves_3_of)(job, b, r->col, scratch, dst);
            break;
        case 4:
            NAME(halves_4_of)(job, b, r->col, scratch, dst);
            break;
        case 7:
            NAME(columns_3_of)(job, b, r->col, scratch, dst);
            break;
        default:
            NAME(columns_4_of)(job, b, r->col, scratch, dst);
        }
    }
}

static void NAME(block)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                        struct ts_kernel_scratch *scratch, struct NAME(target) dst)
{
    uint32_t col = 0;
    if (job->n_models > 1 || job->model[0].stride != job->stride) {
        NAME(block_of_runs)(job, b, scratch, dst);
        return;
    }
    switch (job->stride / TS_LANES) {
    case 1:
        NAME(columns_1)(job, b, 0, scratch, dst);
        return;
    case 2:
        NAME(columns_2)(job, b, 0, scratch, dst);
        return;
    case 3:
        NAME(columns_3)(job, b, 0, scratch, dst);
        return;
    case 4:
        NAME(columns_4)(job, b, 0, scratch, dst);
        return;
    }
    for (; col + 4 * TS_LANES <= job->stride; col += 4 * TS_LANES)
        NAME(columns_4_of)(job, b, col, scratch, dst);
    for (; col < job->stride; col += TS_LANES)
        NAME(halves_1_of)(job, b, col, scratch, dst);
}

/* Appends the first indices of the next block to those of this one, for prefetching. The last block
 * of a mode copy is its own next block. It may be shorter than what is prefetched, and then source
 * and destination overlap. */
static void NAME(append)(const struct ts_kernel_job *job, const struct ts_unpacked *next,
                         struct ts_unpacked *b)
{
    const uint32_t leaf = job->order - 1;
    for (uint32_t l = 1; l <= leaf; l++)
        if (job->far[l])
            memmove(b->idx[l] + (b->shared && l < leaf ? b->n_fibres : b->n), next->idx[l],
                    TS_KERNEL_AHEAD * sizeof(uint32_t));
}

/* Stores the sum of the current row to dst, and clears it. */
static void NAME(end_row)(struct ts_kernel_scratch *scratch, struct NAME(target) dst)
{
    SUMS *sum = (SUMS *)scratch->sum;
    for (uint32_t i = 0; i < scratch->n_runs; i++) {
        const uint32_t first = scratch->run[i].col / TS_LANES;
        for (uint32_t v = first; v < first + scratch->run[i].n_vec; v++) {
            const VEC x = __builtin_convertvector(sum[v], VEC);
            NAME(store)(&x, &dst, v);
            sum[v] = (SUMS){ 0 };
        }
    }
}

/* Decodes block k of the shard. If *plain is not NULL, it is the address of the block in plain
 * (decoded) form, and becomes that of the next one, which is prefetched: the processor does not
 * recognize plain blocks as a stream, because many rows are read between them. */
INLINE void NAME(load)(const struct ts_kernel_job *job, const struct ts_kernel_input *in,
                       uint32_t k, const void **plain, struct ts_unpacked *ret)
{
    if (*plain != NULL) {
        const uintptr_t begin = (uintptr_t)*plain;
        uintptr_t next;
        *plain = plain_expand(&job->plain, *plain, ret);
        next = (uintptr_t)*plain;
        /* the next block is assumed to be as long as this one */
        for (uintptr_t byte = next; byte < next + (next - begin); byte += 64)
            __builtin_prefetch((const void *)byte, 0, 2);
    } else {
        const struct ts_block_at at = ts_shard_block(in->entry, in->raw, k);
        TS_UNPACK(&job->unpack, &at, ret);
    }
}

/* Decodes a block like NAME(load), and sets the values of held-out nonzeros to zero. */
INLINE void NAME(load_kept)(const struct ts_kernel_job *job, const struct ts_kernel_input *in,
                            uint32_t k, const void **plain, struct ts_unpacked *ret)
{
    NAME(load)(job, in, k, plain, ret);
    if (job->hold_out.share > 0)
        ts_kernel_hold_out(job, ret);
}

static void NAME(partition)(const struct ts_kernel_job *job, const struct ts_kernel_input *in,
                            struct ts_kernel_scratch *scratch, void *head,
                            struct ts_kernel_edge *edge)
{
    const uint32_t first = in->partition * TS_PARTITION_BLOCKS;
    const uint32_t n_blocks = in->entry->n_blocks;
    const uint32_t end =
        first + TS_PARTITION_BLOCKS < n_blocks ? first + TS_PARTITION_BLOCKS : n_blocks;
    struct ts_unpacked *b = &scratch->block[0], *next = &scratch->block[1], *t;
    struct NAME(target) dst = { head, (STORED *)head + job->stride };
    const void *plain = in->plain;
    scratch->n_runs = NAME(plan)(job, scratch->run);
    memset(scratch->sum, 0, job->stride * sizeof *scratch->sum);
    NAME(load_kept)(job, in, first, &plain, b);
    edge->first = edge->last = b->row;
    for (uint32_t k = first; k < end; k++, t = b, b = next, next = t) {
        if (k + 1 < end)
            NAME(load_kept)(job, in, k + 1, &plain, next);
        NAME(append)(job, k + 1 < end ? next : b, b);
        if (b->row != edge->last) { /* a row may start at the first nonzero of a block */
            NAME(end_row)(scratch, dst);
            dst = NAME(place)(job, b->row, job->stride, 0, scratch);
        }
        NAME(block)(job, b, scratch, dst);
        edge->last = b->row + b->n_starts;
        if (b->n_starts > 0)
            dst = NAME(place)(job, edge->last, job->stride, 0, scratch);
    }
    NAME(end_row)(scratch, dst);
}

#ifndef TS_STORED
/* Sets `of` to the operands of a block's products, over n_vec vectors of columns from col on: the
 * factors of all levels but the first. If fibres are shared, their row products are computed, and
 * replace the levels between the first and the last. */
INLINE struct NAME(operands)
    NAME(gather)(const struct ts_kernel_job *job, const struct ts_unpacked *b, uint32_t n_vec,
                 uint64_t row_bytes, uint32_t col, struct ts_kernel_scratch *scratch,
                 struct NAME(operand) of[TS_MAX_ORDER])
{
    const uint32_t leaf = job->order - 1;
    struct NAME(operands) x = { of, leaf, 0, 0, row_bytes, row_bytes };
    for (uint32_t l = 1; l <= leaf; l++) {
        of[l - 1] = (struct NAME(operand)){ (const char *)((const TS_REAL *)job->table[l] + col),
                                            b->idx[l], job->far[l] };
        x.far |= job->far[l];
    }
    if (b->shared) {
        TS_REAL *product = (TS_REAL *)scratch->product;
        x.n = leaf - 1;
        NAME(products_of_n)(b->n_fibres, x, n_vec, product);
        of[0] = (struct NAME(operand)){ (const char *)product, b->idx[0], 0 };
        of[1] = of[leaf - 1];
        x.n = 2;
        x.first_stride = n_vec * sizeof(VEC);
        x.far = job->far[leaf];
    }
    return x;
}

#include "cpu/sparse/cells_body.h"
#include "cpu/losses/rounds_body.h"
#include "cpu/sparse/short_body.h"
#include "cpu/sparse/gram_body.h"
#endif

const struct ts_kernel_set TS_SET_NAME = {
    .products = NAME(partition),
#ifndef TS_STORED
    .cells = NAME(cells_of_partition),
    .gram = &NAME(gram_ops),
    .rounds = &NAME(rounds_ops),
#endif
};

#undef FOLD
#undef FOLDED
#undef FOLDS
#undef TS_HAS_SHUFFLE

#undef BY_FLAG
#undef CASE_OF
#undef ROWS
#undef INLINE
#undef VEC
#undef ROW
#undef SUMS
#undef STORED
#undef NAME
#undef LOCAL
#undef PASTE
#undef PASTE2
#undef TS_REAL
#undef TS_STORED
#undef TS_WIDEN
#undef TS_TURN
#undef TS_LANES
#undef TS_SET_NAME
