/* kernel_body.h - the MTTKRP of a partition, once for each instruction set and precision.
 *
 * Included by kernel_ISA.c with TS_REAL (float or double), TS_LANES (a power of two), TS_UNPACK (the
 * decoder) and TS_KERNEL_NAME defined. Vectors are those of the compiler (GCC and clang), so that the
 * same text serves every machine; TS_UNROLL makes the loops over the vectors of a row straight
 * code, their counts being constants after inlining.
 */
#define PASTE2(a, b, c) a##_##b##_##c
#define PASTE(a, b, c) PASTE2(a, b, c)
#define LOCAL(name) PASTE(name, TS_REAL, TS_LANES)
#define VEC LOCAL(vec)

typedef TS_REAL VEC __attribute__((vector_size(TS_LANES * sizeof(TS_REAL))));

/* Rows of matrices, of which the nonzero's row is the product. */
struct LOCAL(operand) {
    const TS_REAL *row; /* the columns in work of row 0 */
    uint64_t stride;
    const uint32_t *idx;
};

#define ROW(o, p) ((const VEC *)((o)->row + (o)->idx[p] * (o)->stride))

/* term := the product of the rows at p */
#define TERM(term, op, n_op, p)                                                                    \
    do {                                                                                           \
        const VEC *row_ = ROW(&(op)[0], p);                                                        \
        TS_UNROLL                                                                                  \
        for (uint32_t v = 0; v < n_vec; v++)                                                       \
            (term)[v] = row_[v];                                                                   \
        for (uint32_t o = 1; o < (n_op); o++) {                                                    \
            row_ = ROW(&(op)[o], p);                                                               \
            TS_UNROLL                                                                              \
            for (uint32_t v = 0; v < n_vec; v++)                                                   \
                (term)[v] *= row_[v];                                                              \
        }                                                                                          \
    } while (0)

/* Sums the block's nonzeros over n_vec vectors of columns. sum is the row being summed, dst where
 * it goes, next where the one after it does. */
static inline __attribute__((always_inline)) void LOCAL(rows)(
    const struct ts_unpacked *b, const struct LOCAL(operand) *op, uint32_t n_op, uint32_t n_vec,
    uint64_t stride, TS_REAL *restrict sum, TS_REAL *restrict dst, TS_REAL *restrict next)
{
    const TS_REAL *value = (const TS_REAL *)&b->value;
    VEC acc[4], term[4];
    uint32_t p = 0;
    TS_UNROLL
    for (uint32_t v = 0; v < n_vec; v++)
        acc[v] = ((const VEC *)sum)[v];
    for (uint32_t s = 0; s <= b->n_starts; s++) {
        const uint32_t end = s < b->n_starts ? b->start[s] : b->n;
        for (; p < end; p++) {
            TERM(term, op, n_op, p);
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
        next += stride;
    }
    TS_UNROLL
    for (uint32_t v = 0; v < n_vec; v++)
        ((VEC *)sum)[v] = acc[v];
}

/* out(k, :) := the product of the rows of fibre k */
static inline __attribute__((always_inline)) void LOCAL(products)(
    uint32_t n, const struct LOCAL(operand) *op, uint32_t n_op, uint32_t n_vec, TS_REAL *out)
{
    VEC term[4];
    for (uint32_t k = 0; k < n; k++, out += n_vec * TS_LANES) {
        TERM(term, op, n_op, k);
        TS_UNROLL
        for (uint32_t v = 0; v < n_vec; v++)
            ((VEC *)out)[v] = term[v];
    }
}

/* One block, n_vec vectors of columns from col on. */
static inline __attribute__((always_inline)) void LOCAL(columns)(
    const struct ts_kernel_job *job, const struct ts_unpacked *b, uint32_t n_vec, uint32_t col,
    struct ts_kernel_scratch *scratch, TS_REAL *dst)
{
    const uint32_t leaf = job->order - 1;
    TS_REAL *sum = (TS_REAL *)scratch->sum + col;
    TS_REAL *next = (TS_REAL *)job->out + (b->row + UINT64_C(1)) * job->stride + col;
    struct LOCAL(operand) op[TS_MAX_ORDER];
    dst += col;
    for (uint32_t l = 1; l <= leaf; l++)
        op[l - 1] = (struct LOCAL(operand)){ (const TS_REAL *)job->table[l] + col, job->stride,
                                             b->idx[l] };
    if (b->shared) {
        struct LOCAL(operand) two[2];
        TS_REAL *product = (TS_REAL *)scratch->product;
        two[0] = (struct LOCAL(operand)){ product, n_vec * TS_LANES, b->idx[0] };
        two[1] = op[leaf - 1];
        if (leaf == 3)
            LOCAL(products)(b->n_fibres, op, 2, n_vec, product);
        else
            LOCAL(products)(b->n_fibres, op, leaf - 1, n_vec, product);
        LOCAL(rows)(b, two, 2, n_vec, job->stride, sum, dst, next);
    } else if (leaf == 2) {
        LOCAL(rows)(b, op, 2, n_vec, job->stride, sum, dst, next);
    } else if (leaf == 3) {
        LOCAL(rows)(b, op, 3, n_vec, job->stride, sum, dst, next);
    } else {
        LOCAL(rows)(b, op, leaf, n_vec, job->stride, sum, dst, next);
    }
}

static void LOCAL(block)(const struct ts_kernel_job *job, const struct ts_unpacked *b,
                         struct ts_kernel_scratch *scratch, TS_REAL *dst)
{
    uint32_t col = 0;
    for (; col + 4 * TS_LANES <= job->stride; col += 4 * TS_LANES)
        LOCAL(columns)(job, b, 4, col, scratch, dst);
    switch ((job->stride - col) / TS_LANES) {
    case 3:
        LOCAL(columns)(job, b, 3, col, scratch, dst);
        break;
    case 2:
        LOCAL(columns)(job, b, 2, col, scratch, dst);
        break;
    case 1:
        LOCAL(columns)(job, b, 1, col, scratch, dst);
        break;
    }
}

void TS_KERNEL_NAME(const struct ts_kernel_job *job, const struct ts_disk_shard *entry,
                    const void *raw, uint32_t partition, struct ts_kernel_scratch *scratch,
                    void *head, struct ts_kernel_edge *edge)
{
    const uint32_t first = partition * TS_PARTITION_BLOCKS;
    const uint32_t end = first + TS_PARTITION_BLOCKS < entry->n_blocks
                             ? first + TS_PARTITION_BLOCKS : entry->n_blocks;
    const size_t row_bytes = job->stride * sizeof(TS_REAL);
    TS_REAL *sum = (TS_REAL *)scratch->sum, *dst = head;
    memset(sum, 0, row_bytes);
    for (uint32_t k = first; k < end; k++) {
        const struct ts_block_at at = ts_shard_block(entry, raw, k);
        struct ts_unpacked *b = &scratch->block;
        TS_UNPACK(&job->unpack, &at, b);
        if (k == first)
            edge->first = b->row;
        else if (b->row != edge->last) { /* a row may start at the first nonzero of a block */
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

#undef TERM
#undef ROW
#undef VEC
#undef LOCAL
#undef PASTE
#undef PASTE2
#undef TS_REAL
#undef TS_LANES
#undef TS_KERNEL_NAME
