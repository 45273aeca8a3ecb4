/* SPDX-License-Identifier: BSD-3-Clause */
/* shards_file.h - makes the file of shards of a mode, which several processes write
 * (partition_deal.h).
 *
 *   owner    the caller closes the file
 *   units    bytes
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_SHARDS_FILE_H
#define TS_BUILD_SHARDS_FILE_H

#include "build/ranks/partition_deal.h"

/* Opens the file on all ranks. Rank 0 creates it first, and gives it its final size, so that the
 * ranks can write at the same time. bytes: that size, or 0 if it is not known. */
int ts_shards_file_open(const struct ts_partition_deal_plan *plan, uint64_t bytes, int *fd,
                        struct ts_err *err);

/* Copies `bytes` bytes of this rank's compressed shards from the temporary file `from` to byte `at`
 * of the file `to`. */
int ts_shards_file_copy(const struct ts_partition_deal_plan *plan, int from, int to, uint64_t at,
                        uint64_t bytes, struct ts_err *err);

#endif
