/* SPDX-License-Identifier: BSD-3-Clause */
/* part.h - NAME.tsh/part: says that of the shards of a tensor only some are here, those that one of
 * several processes reads.
 *
 * All other files are those of the tensor, byte for byte, and so are the shards that are here, at
 * the places that the index gives. Where others would be, modeK.shards has holes. The file is text:
 * the word TSHPART1, the index's checksum, which part of how many, and for each mode its first
 * shard and the one behind its last.
 *
 *   units    shards, from 0; parts from 1
 *   threads  pure, but read
 *   errors   0 or a negative ts_code; the file is untrusted
 */
#ifndef TS_FORMAT_PART_H
#define TS_FORMAT_PART_H

#include "format/tensor.h"

#define TS_PART_NAME  "part"
#define TS_PART_MAGIC "TSHPART1"
#define TS_PART_BYTES 4096u /* the largest size of the file */

/* Fills t->part. Its n stays 0 if the file does not exist: then the tensor is whole. */
int ts_part_read(struct ts_tensor *t, struct ts_err *err);

/* The text of the file. Returns its length. */
size_t ts_part_text(const struct ts_tensor *t, const struct ts_part *part, char ret[TS_PART_BYTES]);

static inline int ts_part_has(const struct ts_tensor *t, uint32_t mode, uint64_t shard)
{
    return t->part.n == 0 || (shard >= t->part.first[mode] && shard < t->part.end[mode]);
}

/* TS_EFORMAT, with a sentence that says what to do, where the shard is not here. */
int ts_part_check(const struct ts_tensor *t, uint32_t mode, uint64_t shard, struct ts_err *err);

#endif
