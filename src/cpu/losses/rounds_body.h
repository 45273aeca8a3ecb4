/* SPDX-License-Identifier: BSD-3-Clause */
/* rounds_body.h - the weighted sums of rows (rounds.h), once for each instruction set and
 * precision. kernel_body.h includes it after cells_body.h.
 *
 * The product p of the other factors' rows at a nonzero is stored in memory, because several rounds
 * of a row use it. While p is computed, so are the model's values of up to TS_ROUNDS_CHUNK
 * nonzeros. Their weights follow, and then the sums. If fibres are long, the row product of each
 * fibre is computed once, as in kernel_body.h.
 */

/* A chunk of `flat`: nonzeros at .. at + n - 1, which are in rows `row` .. row + n_rows - 1. own:
 * the present entries of row `row`. */
struct NAME(chunk) {
    const struct ts_flat *flat;
    uint32_t at, n, row, n_rows;
    const VEC *own;
};

/* Returns where the nonzeros of row k of the chunk end. */
INLINE uint32_t NAME(end_of)(const struct NAME(chunk) * c, uint32_t k)
{
    const uint32_t end = c->flat->start[c->row + k + 1] - c->at;
    return end < c->n ? end : c->n;
}

/* Sets `of` to the operands whose product is p, over n_vec vectors of columns from col on: rows of
 * factors, or row products of fibres, which it computes. */
INLINE struct NAME(operands)
    NAME(operands_of)(const struct ts_rounds_job *job, const struct NAME(chunk) * c, uint32_t n_vec,
                      uint64_t stride, uint32_t col, struct ts_rounds_scratch *scratch,
                      struct NAME(operand) of[TS_MAX_ORDER])
{
    const struct ts_flat *flat = c->flat;
    const uint32_t leaf = job->order - 1, *fibre = flat->fibre == NULL ? NULL : flat->fibre + c->at;
    const uint32_t first = fibre == NULL ? c->at : fibre[0];
    const uint32_t n_fibres = fibre == NULL ? c->n : fibre[c->n - 1] - first + 1;
    const int shares = fibre != NULL && ts_unpack_shares(job->order, c->n, n_fibres);
    struct NAME(operands)
        x = { of, leaf, 0, 0, stride * sizeof(TS_REAL), stride * sizeof(TS_REAL) };
    /* set only because the compiler does not know that orders are at least 2 */
    of[0] = (struct NAME(operand)){ 0 };
    for (uint32_t l = 1; l <= leaf; l++) {
        uint32_t *idx = scratch->idx[l];
        of[l - 1] =
            (struct NAME(operand)){ (const char *)((const TS_REAL *)job->table[l] + col),
                                    flat->idx[l] + (l < leaf ? first : c->at), job->far[l] };
        x.far |= job->far[l];
        if (l == leaf || fibre == NULL || shares)
            continue;
        for (uint32_t i = 0; i < c->n + TS_KERNEL_AHEAD; i++)
            idx[i] = flat->idx[l][fibre[i]];
        of[l - 1].idx = idx;
    }
    if (shares) {
        TS_REAL *product = (TS_REAL *)scratch->fibre;
        x.n = leaf - 1;
        NAME(products_of_n)(n_fibres, x, n_vec, product);
        for (uint32_t i = 0; i < c->n; i++)
            scratch->idx[0][i] = fibre[i] - first;
        of[0] = (struct NAME(operand)){ (const char *)product, scratch->idx[0], 0 };
        of[1] = of[leaf - 1];
        x.n = 2;
        x.first_stride = n_vec * sizeof(VEC);
        x.far = job->far[leaf];
    }
    return x;
}

/* Returns the inner product of p (the product of the other factors' rows) and own (the row of the
 * mode itself), summed over vectors, lane by lane. */
INLINE VEC NAME(dot)(const VEC *p, const VEC *own, uint32_t n_vec)
{
    VEC dot = p[0] * own[0];
    TS_EACH_FROM(v, 1, n_vec)
        dot += p[v] * own[v];
    return dot;
}

/* Computes p, the product of the other factors' rows, at position i. Returns its inner product with
 * own (the row of the mode itself), summed lane by lane. */
INLINE VEC NAME(term_dot)(const struct NAME(operands) * x, uint32_t n_vec, size_t i, const VEC *own,
                          VEC *restrict p)
{
    VEC term[4];
    NAME(fetch)(x, n_vec, i);
    NAME(multiply)(x, n_vec, i, term);
    TS_EACH(v, n_vec)
        p[i * n_vec + v] = term[v];
    return NAME(dot)(term, own, n_vec);
}

/* Computes p (the product of the other factors' rows) of all nonzeros of a chunk, and their inner
 * products with the rows of the mode itself as FOLD partial sums (cells_body.h). Rows have n_vec
 * vectors. */
INLINE void NAME(term_dots)(const struct NAME(chunk) * c, const struct NAME(operands) * x,
                            uint32_t n_vec, VEC *restrict p, FOLDED *restrict sum)
{
    size_t i = 0;
    for (uint32_t k = 0; k < c->n_rows; k++) {
        const size_t end = NAME(end_of)(c, k);
        VEC own[4];
        TS_EACH(v, n_vec)
            own[v] = c->own[(size_t)k * n_vec + v];
#ifdef FOLDS
        for (VEC dot[FOLDS]; i + FOLDS <= end; i += FOLDS) {
            TS_EACH(f, FOLDS)
                dot[f] = NAME(term_dot)(x, n_vec, i + f, own, p);
            dot[0] = NAME(fold_all)(dot);
            memcpy(sum + i, dot, sizeof *dot);
        }
#endif
        for (; i < end; i++)
            sum[i] = NAME(fold)(NAME(term_dot)(x, n_vec, i, own, p));
    }
}

/* Computes the inner products of p and the rows of the mode itself as FOLD partial sums, if p (the
 * products of the other factors' rows) is in memory already. */
INLINE void NAME(dots_of_p)(const struct NAME(chunk) * c, uint32_t n_vec, const VEC *restrict p,
                            FOLDED *restrict sum)
{
    size_t i = 0;
    for (uint32_t k = 0; k < c->n_rows; k++) {
        const size_t end = NAME(end_of)(c, k);
        const VEC *own = c->own + (size_t)k * n_vec;
#ifdef FOLDS
        for (VEC dot[FOLDS]; i + FOLDS <= end; i += FOLDS) {
            TS_EACH(f, FOLDS)
                dot[f] = NAME(dot)(p + (i + f) * n_vec, own, n_vec);
            dot[0] = NAME(fold_all)(dot);
            memcpy(sum + i, dot, sizeof *dot);
        }
#endif
        for (; i < end; i++)
            sum[i] = NAME(fold)(NAME(dot)(p + i * n_vec, own, n_vec));
    }
}

/* Computes n_vec vectors of columns, from col on, of p (the products of the other factors'
 * rows). */
INLINE void NAME(terms)(const struct ts_rounds_job *job, const struct NAME(chunk) * c,
                        uint32_t n_vec, uint32_t col, struct ts_rounds_scratch *scratch,
                        VEC *restrict p)
{
    struct NAME(operand) of[TS_MAX_ORDER];
    const struct NAME(operands) x = NAME(operands_of)(job, c, n_vec, job->stride, col, scratch, of);
    VEC term[4];
    p += col / TS_LANES;
    for (size_t i = 0; i < c->n; i++, p += job->stride / TS_LANES) {
        NAME(fetch)(&x, n_vec, i);
        NAME(multiply)(&x, n_vec, i, term);
        TS_EACH(v, n_vec)
            p[v] = term[v];
    }
}

INLINE void NAME(term_dots_of_n)(const struct NAME(chunk) * c, struct NAME(operands) x,
                                 uint32_t n_vec, VEC *restrict p, FOLDED *restrict sum)
{
    switch (x.n) {
        CASE_OF(x.n, 2, NAME(term_dots)(c, &x, n_vec, p, sum));
        CASE_OF(x.n, 3, NAME(term_dots)(c, &x, n_vec, p, sum));
    default:
        NAME(term_dots)(c, &x, n_vec, p, sum);
    }
}

/* phi += the sum over n nonzeros of g p (weight times product of the other factors' rows), for
 * n_some of n_vec vectors of columns. */
INLINE void NAME(sum_weighted)(const VEC *restrict p, const TS_REAL *restrict g, uint32_t n,
                               uint32_t n_vec, uint32_t n_some, SUMS *restrict phi)
{
    VEC sum[4] = { { 0 } };
    uint32_t i = 0;
    if (n_some <= 2 && n > 1) {
        VEC odd[2] = { { 0 }, { 0 } };
        for (; i + 1 < n; i += 2, p += 2 * n_vec) {
            TS_EACH(v, n_some) {
                sum[v] += p[v] * g[i];
                odd[v] += p[n_vec + v] * g[i + 1];
            }
        }
        TS_EACH(v, n_some)
            sum[v] += odd[v];
    }
    for (; i < n; i++, p += n_vec) {
        TS_EACH(v, n_some)
            sum[v] += p[v] * g[i];
    }
    TS_EACH(v, n_some)
        phi[v] += __builtin_convertvector(sum[v], SUMS);
}

INLINE void NAME(sum_rows)(const struct NAME(chunk) * c, const VEC *restrict p,
                           const TS_REAL *restrict g, uint32_t n_vec, SUMS *restrict phi)
{
    for (uint32_t k = 0, i = 0, end; k < c->n_rows; k++, i = end, phi += n_vec) {
        uint32_t v = 0;
        end = NAME(end_of)(c, k);
        if (n_vec <= 4) {
            NAME(sum_weighted)(p + (size_t)i * n_vec, g + i, end - i, n_vec, n_vec, phi);
            continue;
        }
        for (; v + 4 <= n_vec; v += 4)
            NAME(sum_weighted)(p + (size_t)i * n_vec + v, g + i, end - i, n_vec, 4, phi + v);
        for (; v < n_vec; v++)
            NAME(sum_weighted)(p + (size_t)i * n_vec + v, g + i, end - i, n_vec, 1, phi + v);
    }
}

/* For each compiled width of rows (number of vectors), a function which computes the FOLD partial
 * sums of a chunk's model values, and one which adds to phi, the weighted sums of rows. */
#define WIDTH(n)                                                                 \
    static __attribute__((noinline)) void NAME(models_##n)(                      \
        const struct ts_rounds_job *job, const struct NAME(chunk) * c, int held, \
        struct ts_rounds_scratch *scratch, VEC *p, FOLDED *sum)                  \
    {                                                                            \
        struct NAME(operand) of[TS_MAX_ORDER];                                   \
        struct NAME(operands) x;                                                 \
        if (held) {                                                              \
            NAME(dots_of_p)(c, n, p, sum);                                       \
            return;                                                              \
        }                                                                        \
        x = NAME(operands_of)(job, c, n, n * TS_LANES, 0, scratch, of);          \
        BY_FLAG(x.far, NAME(term_dots_of_n)(c, x, n, p, sum));                   \
    }                                                                            \
    static __attribute__((noinline)) void NAME(sums_##n)(                        \
        const struct NAME(chunk) * c, const VEC *p, const TS_REAL *g, SUMS *phi) \
    {                                                                            \
        NAME(sum_rows)(c, p, g, n, phi);                                         \
    }
WIDTH(1)
WIDTH(2)
WIDTH(4)
#undef WIDTH

static void NAME(models_of)(const struct ts_rounds_job *job, const struct NAME(chunk) * c, int held,
                            struct ts_rounds_scratch *scratch, VEC *p, FOLDED *sum)
{
    uint32_t col = 0;
    for (; !held && col + 4 * TS_LANES <= job->stride; col += 4 * TS_LANES)
        NAME(terms)(job, c, 4, col, scratch, p);
    for (; !held && col < job->stride; col += TS_LANES)
        NAME(terms)(job, c, 1, col, scratch, p);
    NAME(dots_of_p)(c, job->stride / TS_LANES, p, sum);
}

/* scratch->model := the model's values at the nonzeros of a chunk. */
static void NAME(models)(const struct ts_rounds_job *job, const struct NAME(chunk) * c, int held,
                         VEC *p, struct ts_rounds_scratch *scratch)
{
    const TS_REAL *sum = (const TS_REAL *)scratch->fold;
    FOLDED *fold = (FOLDED *)scratch->fold;
    switch (job->stride / TS_LANES) {
    case 1:
        NAME(models_1)(job, c, held, scratch, p, fold);
        break;
    case 2:
        NAME(models_2)(job, c, held, scratch, p, fold);
        break;
    case 4:
        NAME(models_4)(job, c, held, scratch, p, fold);
        break;
    default:
        NAME(models_of)(job, c, held, scratch, p, fold);
    }
    for (uint32_t i = 0; i < c->n; i++)
#if FOLD == 4
        scratch->model[i] =
            (double)((sum[4 * i] + sum[4 * i + 1]) + (sum[4 * i + 2] + sum[4 * i + 3]));
#else
        scratch->model[i] = (double)(sum[2 * i] + sum[2 * i + 1]);
#endif
}

static void NAME(add_weighted)(const struct NAME(chunk) * c, const VEC *p, const TS_REAL *g,
                               uint32_t n_vec, SUMS *phi)
{
    switch (n_vec) {
    case 1:
        NAME(sums_1)(c, p, g, phi);
        break;
    case 2:
        NAME(sums_2)(c, p, g, phi);
        break;
    case 4:
        NAME(sums_4)(c, p, g, phi);
        break;
    default:
        NAME(sum_rows)(c, p, g, n_vec, phi);
    }
}

/* The function `weigh` of a loss, compiled for vectors of this instruction set. */
static void NAME(slopes)(const struct ts_loss *loss, uint32_t n, const double *restrict x,
                         const double *restrict m, double at, double *restrict g)
{
    switch ((enum ts_loss_kind)loss->kind) {
#define SLOPES(KIND, name)                            \
    case KIND:                                        \
        for (uint32_t i = 0; i < n; i++)              \
            g[i] = ts_##name##_slope(x[i], m[i], at); \
        break;
        SLOPES(TS_LOSS_NO_KIND, poisson)
#define LOSS(KIND, name, ...) SLOPES(TS_GCP_##KIND, name)
#include "stream/losses.def"
#undef SLOPES
    }
}

/* g := the weights of the nonzeros, from the model's values. */
static void NAME(weigh)(const struct ts_rounds_job *job, const struct NAME(chunk) * c,
                        struct ts_rounds_scratch *scratch, TS_REAL *g)
{
    const struct ts_flat *flat = c->flat;
    NAME(slopes)(job->loss, c->n, flat->value + c->at, scratch->model, job->at, scratch->weight);
    if (job->zeros) {
        NAME(slopes)(job->loss, c->n, scratch->zero, scratch->model, job->at, scratch->less);
        for (uint32_t i = 0; i < c->n; i++)
            scratch->weight[i] -= scratch->less[i];
    }
    for (uint32_t i = 0; flat->held != NULL && i < c->n; i++)
        scratch->weight[i] = flat->held[c->at + i] ? 0 : scratch->weight[i];
    for (uint32_t i = 0; i < c->n; i++)
        g[i] = (TS_REAL)scratch->weight[i];
}

/* Adds to the sums the losses at nonzeros from .. end - 1 of the chunk, which are in one row. */
static void NAME(judge)(const struct ts_rounds_job *job, const struct NAME(chunk) * c,
                        uint32_t from, uint32_t end, struct ts_rounds_scratch *scratch)
{
    const struct ts_flat *flat = c->flat;
    const double *value = flat->value + c->at;
    if (flat->held == NULL) {
        scratch->judged +=
            job->loss->judge(end - from, value + from, scratch->model + from, job->at);
        for (uint32_t i = from; i < end; i++)
            scratch->inner += value[i] * scratch->model[i];
        return;
    }
    for (uint32_t i = from; i < end; i++) {
        const double *x = value + i, *model = scratch->model + i;
        const double judged = job->loss->judge(1, x, model, job->at);
        if (flat->held[c->at + i]) {
            scratch->held_n++;
            scratch->held_judged += judged;
            scratch->held_model += *model;
            scratch->held_squares += *x * *x;
        } else {
            scratch->judged += judged;
            scratch->inner += *x * *model;
        }
    }
}

static void NAME(take_rows)(const struct ts_rounds_job *job, const struct ts_flat *flat,
                            uint32_t row, uint32_t n_rows, const void *own, enum ts_rounds_p of_p,
                            struct ts_rounds_scratch *scratch, double *phi)
{
    const uint32_t n_vec = job->stride / TS_LANES, begin = flat->start[row];
    const uint32_t n = flat->start[row + n_rows] - begin;
    struct NAME(chunk) c = { .flat = flat, .row = row, .n_rows = n_rows, .own = own };
    TS_REAL g[TS_ROUNDS_CHUNK];
    if (phi != NULL)
        memset(phi, 0, (size_t)n_rows * job->stride * sizeof *phi);
    for (uint32_t done = 0; done < n; done += c.n) {
        VEC *p = (VEC *)scratch->product + (of_p != TS_P_ONCE ? (size_t)done * n_vec : 0);
        c.at = begin + done;
        c.n = n - done < TS_ROUNDS_CHUNK ? n - done : TS_ROUNDS_CHUNK;
        NAME(models)(job, &c, of_p == TS_P_THERE, p, scratch);
        if (phi != NULL) {
            NAME(weigh)(job, &c, scratch, g);
            NAME(add_weighted)(&c, p, g, n_vec, (SUMS *)phi);
        } else {
            for (uint32_t k = 0, from = 0, end; k < n_rows; k++, from = end)
                NAME(judge)(job, &c, from, end = NAME(end_of)(&c, k), scratch);
        }
    }
}

/* row := row .* phi, with n entries: `multiply` of struct ts_rounds_ops. */
static double NAME(multiply_row)(void *row, const double *restrict phi, uint32_t n, int last)
{
    TS_REAL *to = row;
    double most = 0;
    for (uint32_t c = 0; c < n; c++) {
        const double b = fabs((double)to[c]), new = b *phi[c];
        const double less = fabs(b < 1 - phi[c] ? b : 1 - phi[c]);
        most = less > most ? less : most;
        to[c] = (TS_REAL)(last && phi[c] > 1 ? -new : new);
    }
    return most;
}

/* Expands a plain (decoded) block like plain_expand, and appends it to f. The next block is
 * prefetched, as in NAME(load). */
static const void *NAME(append_plain)(const struct ts_plain_conf *c, const void *plain,
                                      struct ts_flat *f)
{
    const uint32_t leaf = c->order - 1;
    const char *from = plain;
    struct ts_plain_head head;
    uint32_t n, n_fibres;
    uintptr_t next;
    memcpy(&head, from, sizeof head);
    from += sizeof head;
    n = head.last + 1u;
    n_fibres = head.shared ? head.last_fibre + 1u : n;
    ts_flat_row(f, head.row);
    plain_u8_u32(from, head.n_starts, f->n, f->start + f->n_rows);
    f->n_rows += head.n_starts;
    from += head.n_starts;
    for (uint32_t l = 1; l < leaf; l++)
        from = plain_indices(from, n_fibres, c->index_bytes[l], f->idx[l] + f->n_fibres);
    from = plain_indices(from, n, c->index_bytes[leaf], f->idx[leaf] + f->n);
    if (head.shared) {
        plain_u8_u32(from, n, f->n_fibres, f->fibre + f->n);
        from += n;
    } else {
        for (uint32_t p = 0; f->fibre != NULL && p < n; p++)
            f->fibre[f->n + p] = f->n_fibres + p;
    }
    from = plain_f64(c, from, n, f->value + f->n);
    from += c->weights ? n * sizeof(float) : 0;
    f->n += n;
    f->n_fibres += n_fibres;
    next = (uintptr_t)from;
    for (uintptr_t byte = next; byte < next + (next - (uintptr_t)plain); byte += 64)
        /* the next block is assumed to be as long as this one */
        __builtin_prefetch((const void *)byte, 0, 2);
    return from;
}

static const struct ts_rounds_ops NAME(rounds_ops) = { NAME(take_rows), NAME(multiply_row),
                                                       NAME(append_plain) };
