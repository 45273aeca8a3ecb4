/* kernel_body.h - the MTTKRP of a partition, once for each instruction set and precision.
 *
 * Included by kernel_ISA.c with TS_REAL (float or double), TS_LANES (a power of two) and
 * TS_KERNEL_NAME defined. Vectors are those of the compiler (GCC and clang), so that the same text
 * serves every machine; TS_UNROLL makes the loops over the vectors of a row straight code, their
 * counts being constants after inlining.
 */
#define PASTE(a, b) a##_##b
#define EXPAND(a, b) PASTE(a, b)
#define LOCAL(name) EXPAND(name, TS_REAL)

typedef TS_REAL LOCAL(vec) __attribute__((vector_size(TS_LANES * sizeof(TS_REAL))));
#define VEC LOCAL(vec)

/* Sums the block's nonzeros over columns col .. col + n_vec vectors. sum is the row being summed,
 * dst where it goes. */
static inline __attribute__((always_inline)) void LOCAL(columns)(
    const struct ts_kernel_job *job, const struct ts_unpacked *b, uint32_t order, uint32_t n_vec,
    uint32_t col, TS_REAL *restrict sum, TS_REAL *restrict dst)
{
    const uint64_t stride = job->stride;
    const TS_REAL *value = (const TS_REAL *)&b->value;
    TS_REAL *next = (TS_REAL *)job->out + (b->row + UINT64_C(1)) * stride + col;
    VEC acc[4];
    uint32_t p = 0;
    TS_UNROLL
    for (uint32_t v = 0; v < n_vec; v++)
        acc[v] = ((const VEC *)(sum + col))[v];
    dst += col;
    for (uint32_t s = 0; s <= b->n_starts; s++) {
        const uint32_t end = s < b->n_starts ? b->start[s] : b->n;
        for (; p < end; p++) {
            VEC term[4];
            TS_UNROLL
            for (uint32_t v = 0; v < n_vec; v++)
                term[v] = ((const VEC *)((const TS_REAL *)job->table[1] + b->idx[1][p] * stride +
                                         col))[v];
            for (uint32_t l = 2; l < order; l++) {
                const VEC *row = (const VEC *)((const TS_REAL *)job->table[l] +
                                               b->idx[l][p] * stride + col);
                TS_UNROLL
                for (uint32_t v = 0; v < n_vec; v++)
                    term[v] *= row[v];
            }
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
        ((VEC *)(sum + col))[v] = acc[v];
}

static void LOCAL(block)(const struct ts_kernel_job *job, const struct ts_unpacked *b, TS_REAL *sum,
                         TS_REAL *dst)
{
    uint32_t col = 0;
    for (; col + 4 * TS_LANES <= job->stride; col += 4 * TS_LANES)
        LOCAL(columns)(job, b, job->order, 4, col, sum, dst);
    for (; col < job->stride; col += TS_LANES)
        LOCAL(columns)(job, b, job->order, 1, col, sum, dst);
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
        ts_unpack_block(&job->unpack, &at, b);
        if (k == first)
            edge->first = b->row;
        else if (b->row != edge->last) { /* a row may start at the first nonzero of a block */
            memcpy(dst, sum, row_bytes);
            memset(sum, 0, row_bytes);
            dst = (TS_REAL *)job->out + (uint64_t)b->row * job->stride;
        }
        LOCAL(block)(job, b, sum, dst);
        edge->last = b->row + b->n_starts;
        if (b->n_starts > 0)
            dst = (TS_REAL *)job->out + (uint64_t)edge->last * job->stride;
    }
    memcpy(dst, sum, row_bytes);
}

#undef VEC
#undef LOCAL
#undef EXPAND
#undef PASTE
