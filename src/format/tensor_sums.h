/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_sums.h - NAME.tsh/sums: checksums of the nonzeros that were read and of the cells
 * (cell_sum.h).
 *
 * Tensors of older versions lack the file and are complete without it. It holds the checksum of the
 * index that it belongs to.
 *
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_FORMAT_TENSOR_SUMS_H
#define TS_FORMAT_TENSOR_SUMS_H

#include <stdint.h>

#include "base/err.h"
#include "format/cell_sum.h"
#include "format/tensor.h"

struct ts_tensor_sums {
    /* checksum of the nonzeros of the input, before nonzeros of one cell were merged */
    struct ts_cell_sum records;
    struct ts_cell_sum cells;
};

/* Makes the bytes of the file `sums` from the checksums s. index_hash: checksum of the tensor's
 * index. */
void ts_tensor_sums_make(const struct ts_tensor_sums *s, uint32_t order, uint64_t index_hash,
                         struct ts_disk_sums *ret);

/* Reads the file `sums`. Returns 1, or 0 if the tensor has no such file; *ret is then zeros. */
int ts_tensor_sums_read(const struct ts_tensor *t, struct ts_tensor_sums *ret, struct ts_err *err);

/* Writes a sum as 32 hexadecimal digits. Returns text. */
#define TS_CELL_SUM_CHARS 33u
char *ts_cell_sum_text(const struct ts_cell_sum *s, char text[TS_CELL_SUM_CHARS]);

#endif
