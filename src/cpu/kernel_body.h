/* kernel_body.h - the MTTKRP of a partition, once for each instruction set and precision.
 *
 * Included by kernel_ISA.c with TS_REAL (float or double), TS_LANES (a power of two), TS_UNPACK (the
 * decoder) and TS_KERNEL_NAME defined. Vectors are those of the compiler (GCC and clang), so that the
 * same text serves every machine. The numbers of vectors in a row and of operands, and strides, are
 * constants after inlining, and TS_UNROLL makes the loops over them straight code.
 */
#define PASTE2(a, b, c) a##_##b##_##c
#define PASTE(a, b, c) PASTE2(a, b, c)
#define LOCAL(name) PASTE(name, TS_REAL, TS_LANES)
#define VEC LOCAL(vec)
#define INLINE static inline __attribute__((always_inline))

typedef TS_REAL VEC __attribute__((vector_size(TS_LANES * sizeof(TS_REAL))));

/* A matrix whose rows are factors of the product, and which row at each position. */
struct LOCAL(operand) {
    const TS_REAL *row; /* the columns in work of row 0 */
    const uint32_t *idx;
    int far;            /* rows are fetched ahead */
};

/* The matrices of a product: `n`, the first with a stride of its own. */
struct LOCAL(operands) {
    struct LOCAL(operand) of[TS_MAX_ORDER];
    uint32_t n;
    uint64_t first_stride, stride;
};

INLINE const VEC *LOCAL(row)(const struct LOCAL(operands) *x, uint32_t o, uint32_t p)
{
    return (const VEC *)(x->of[o].row + x->of[o].idx[p] * (o == 0 ? x->first_stride : x->stride));
}

/* term := the product of the rows at position p */
INLINE void LOCAL(multiply)(const struct LOCAL(operands) *x, uint32_t n_vec, uint32_t p, VEC *term)
{
    const VEC *row = LOCAL(row)(x, 0, p);
    TS_UNROLL
    for (uint32_t v = 0; v < n_vec; v++)
        term[v] = row[v];
    for (uint32_t o = 1; o < x->n; o++) {
        row = LOCAL(row)(x, o, p);
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++)
            term[v] *= row[v];
    }
}

/* Starts loading the rows of a later position, where they are far. */
INLINE void LOCAL(fetch)(const struct LOCAL(operands) *x, uint32_t n_vec, uint32_t p)
{
    for (uint32_t o = 0; o < x->n; o++) {
        const char *row = (const char *)LOCAL(row)(x, o, p + TS_KERNEL_AHEAD);
        if (!x->of[o].far)
            continue;
        for (uint32_t byte = 0; byte < n_vec * sizeof(VEC); byte += 64)
            __builtin_prefetch(row + byte);
    }
}

/* Sums the block's nonzeros over n_vec vectors of columns. sum is the row being summed, dst where
 * it goes, next where the one after it does. Narrow rows are summed in two halves, even and odd
 * positions of the row in this block: one sum would wait for its own last addition. */
INLINE void LOCAL(rows)(const struct ts_unpacked *b, const struct LOCAL(operands) *x, uint32_t n_vec,
                        TS_REAL *restrict sum, TS_REAL *restrict dst, TS_REAL *restrict next)
{
    const TS_REAL *value = (const TS_REAL *)&b->value;
    const int two = n_vec <= 2;
    VEC acc[4], odd[4], term[4];
    uint32_t p = 0;
    TS_UNROLL
    for (uint32_t v = 0; v < n_vec; v++)
        acc[v] = ((const VEC *)sum)[v];
    for (uint32_t s = 0;; s++) {
        const uint32_t end = s < b->n_starts ? b->start[s] : b->n;
        if (two && p + 1 < end) {
            TS_UNROLL
            for (uint32_t v = 0; v < n_vec; v++)
                odd[v] = (VEC){ 0 };
            for (; p + 1 < end; p += 2) {
                LOCAL(fetch)(x, n_vec, p);
                LOCAL(multiply)(x, n_vec, p, term);
                TS_UNROLL
                for (uint32_t v = 0; v < n_vec; v++)
                    acc[v] += term[v] * value[p];
                LOCAL(fetch)(x, n_vec, p + 1);
                LOCAL(multiply)(x, n_vec, p + 1, term);
                TS_UNROLL
                for (uint32_t v = 0; v < n_vec; v++)
                    odd[v] += term[v] * value[p + 1];
            }
            TS_UNROLL
            for (uint32_t v = 0; v < n_vec; v++)
                acc[v] += odd[v];
        }
        for (; p < end; p++) {
            LOCAL(fetch)(x, n_vec, p);
            LOCAL(multiply)(x, n_vec, p, term);
            TS_UNROLL
            for (uint32_t v = 0; v < n_vec; v++)
                acc[v] += term[v] * value[p];
        }
        if (s == b->n_starts)
            break;
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++) {
            ((VEC *)dst)[v] = acc[v];
            acc[v] = (VEC){ 0 };
        }
        dst = next;
        next += x->stride;
    }
    TS_UNROLL
    for (uint32_t v = 0; v < n_vec; v++)
        ((VEC *)sum)[v] = acc[v];
}

/* out(k, :) := the product of the rows of fibre k */
INLINE void LOCAL(products)(uint32_t n, const struct LOCAL(operands) *x, uint32_t n_vec, TS_REAL *out)
{
    VEC term[4];
    for (uint32_t k = 0; k < n; k++, out += n_vec * TS_LANES) {
        LOCAL(fetch)(x, n_vec, k);
        LOCAL(multiply)(x, n_vec, k, term);
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++)
            ((VEC *)out)[v] = term[v];
    }
}

/* One block, n_vec vectors of columns from col on. */
INLINE void LOCAL(columns)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                           uint32_t n_vec, uint64_t stride, uint32_t col,
                           struct ts_kernel_scratch *scratch, TS_REAL *dst)
{
    const uint32_t leaf = job->order - 1;
    TS_REAL *sum = (TS_REAL *)scratch->sum + col;
    TS_REAL *next = (TS_REAL *)job->out + (b->row + UINT64_C(1)) * stride + col;
    struct LOCAL(operands) x = { .n = leaf, .first_stride = stride, .stride = stride };
    dst += col;
    for (uint32_t l = 1; l <= leaf; l++)
        x.of[l - 1] = (struct LOCAL(operand)){ (const TS_REAL *)job->table[l] + col, b->idx[l],
                                               job->far[l] };
    if (b->shared) {
        TS_REAL *product = (TS_REAL *)scratch->product;
        x.n = leaf - 1;
        if (x.n == 2) {
            x.n = 2;
            LOCAL(products)(b->n_fibres, &x, n_vec, product);
        } else {
            LOCAL(products)(b->n_fibres, &x, n_vec, product);
        }
        x.of[0] = (struct LOCAL(operand)){ product, b->idx[0], 0 };
        x.of[1] = x.of[leaf - 1];
        x.n = 2;
        x.first_stride = n_vec * TS_LANES;
        LOCAL(rows)(b, &x, n_vec, sum, dst, next);
    } else if (leaf == 2) {
        x.n = 2;
        LOCAL(rows)(b, &x, n_vec, sum, dst, next);
    } else {
        LOCAL(rows)(b, &x, n_vec, sum, dst, next);
    }
}

static void LOCAL(block)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                         struct ts_kernel_scratch *scratch, TS_REAL *dst)
{
    uint32_t col = 0;
    switch (job->stride / TS_LANES) {
    case 1:
        LOCAL(columns)(job, b, 1, TS_LANES, 0, scratch, dst);
        return;
    case 2:
        LOCAL(columns)(job, b, 2, 2 * TS_LANES, 0, scratch, dst);
        return;
    case 3:
        LOCAL(columns)(job, b, 3, 3 * TS_LANES, 0, scratch, dst);
        return;
    case 4:
        LOCAL(columns)(job, b, 4, 4 * TS_LANES, 0, scratch, dst);
        return;
    }
    for (; col + 4 * TS_LANES <= job->stride; col += 4 * TS_LANES)
        LOCAL(columns)(job, b, 4, job->stride, col, scratch, dst);
    for (; col < job->stride; col += TS_LANES)
        LOCAL(columns)(job, b, 1, job->stride, col, scratch, dst);
}

/* The first indices of the next block behind those of this one, for fetching ahead. The last block of a
 * mode copy is its own next one, and may be shorter than what is fetched: the two places overlap. */
static void LOCAL(append)(const struct ts_kernel_job *job, const struct ts_unpacked *next,
                          struct ts_unpacked *b)
{
    const uint32_t leaf = job->order - 1;
    for (uint32_t l = 1; l <= leaf; l++)
        if (job->far[l])
            memmove(b->idx[l] + (b->shared && l < leaf ? b->n_fibres : b->n), next->idx[l],
                    TS_KERNEL_AHEAD * sizeof(uint32_t));
}

void TS_KERNEL_NAME(const struct ts_kernel_job *job, const struct ts_disk_shard *entry,
                    const void *raw, uint32_t partition, struct ts_kernel_scratch *scratch,
                    void *head, struct ts_kernel_edge *edge)
{
    const uint32_t first = partition * TS_PARTITION_BLOCKS;
    const uint32_t end = first + TS_PARTITION_BLOCKS < entry->n_blocks
                             ? first + TS_PARTITION_BLOCKS : entry->n_blocks;
    const size_t row_bytes = job->stride * sizeof(TS_REAL);
    struct ts_unpacked *b = &scratch->block[0], *next = &scratch->block[1], *t;
    TS_REAL *sum = (TS_REAL *)scratch->sum, *dst = head;
    struct ts_block_at at = ts_shard_block(entry, raw, first);
    memset(sum, 0, row_bytes);
    TS_UNPACK(&job->unpack, &at, b);
    edge->first = edge->last = b->row;
    for (uint32_t k = first; k < end; k++, t = b, b = next, next = t) {
        if (k + 1 < end) {
            at = ts_shard_block(entry, raw, k + 1);
            TS_UNPACK(&job->unpack, &at, next);
        }
        LOCAL(append)(job, k + 1 < end ? next : b, b);
        if (b->row != edge->last) { /* a row may start at the first nonzero of a block */
            memcpy(dst, sum, row_bytes);
            memset(sum, 0, row_bytes);
            dst = (TS_REAL *)job->out + (uint64_t)b->row * job->stride;
        }
        LOCAL(block)(job, b, scratch, dst);
        edge->last = b->row + b->n_starts;
        if (b->n_starts > 0)
            dst = (TS_REAL *)job->out + (uint64_t)edge->last * job->stride;
    }
    memcpy(dst, sum, row_bytes);
}

#undef INLINE
#undef VEC
#undef LOCAL
#undef PASTE
#undef PASTE2
#undef TS_REAL
#undef TS_LANES
#undef TS_KERNEL_NAME
