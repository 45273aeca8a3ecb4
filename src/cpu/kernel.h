/* kernel.h - the MTTKRP of one partition, in versions for several instruction sets.
 *
 * out(row, :) += value * prod_{l >= 1} table[l](index_l, :) over the nonzeros of a partition, which
 * are sorted by row: a row is summed in registers and written once. The sums of a partition are a
 * function of its bytes and the tables alone. Its first row may have begun in the partition before,
 * so that row's sum goes to `head`; every other row is stored to `out`, the last one too, though it
 * may go on in the next partition: whoever calls adds the heads there, in file order (pass.h).
 *
 *   owner    the caller owns everything; scratch belongs to one thread
 *   units    rows of tables and out are `stride` elements of the job's precision
 *   threads  any thread: no two partitions store to the same row of out
 *   errors   none: shards were checked when they were first read
 */
#ifndef TS_CPU_KERNEL_H
#define TS_CPU_KERNEL_H

#include <stdint.h>

#include "cpu/fmat.h"
#include "cpu/isa.h"
#include "cpu/unpack.h"
#include "format/shard.h"

/* Positions between the row in work and the one whose loading starts, where rows are far: 24 of 128
 * bytes cover a miss of the second-level cache. */
#define TS_KERNEL_AHEAD 24u

/* One MTTKRP. */
struct ts_kernel_job {
    struct ts_unpack_conf unpack;
    uint32_t order, stride;
    const void *table[TS_MAX_ORDER]; /* factor of the mode at level l; table[0] is not used */
    int far[TS_MAX_ORDER];           /* that factor is larger than a core's caches */
    void *out;                       /* factor of the mode at level 0 */
};

/* What a thread needs while it works. */
struct ts_kernel_scratch {
    /* products of fibres, up to 256 bytes of columns at once */
    _Alignas(64) char product[TS_BLOCK_NNZ * 256];
    _Alignas(64) double sum[TS_FMAT_MAX_STRIDE]; /* of the row in work; also used as float */
    struct ts_unpacked block[2]; /* the one in work, and the one after it */
};

/* The rows of a partition: its head holds the sum of row `first`, and row `last` may go on. */
struct ts_kernel_edge {
    uint32_t first, last;
};

typedef void ts_kernel_fn(const struct ts_kernel_job *job, const struct ts_disk_shard *entry,
                          const void *raw, uint32_t partition, struct ts_kernel_scratch *scratch,
                          void *head, struct ts_kernel_edge *edge);

/* How the values of a tensor are to be read. */
void ts_kernel_values(const struct ts_tensor *t, enum ts_precision precision,
                      struct ts_unpack_conf *ret);

/* The kernel of an instruction set for rows of `stride` elements (fmat.h), or NULL when this machine
 * or build has none. */
ts_kernel_fn *ts_kernel_get(enum ts_isa isa, enum ts_precision precision, uint32_t stride);

#endif
