/* SPDX-License-Identifier: BSD-3-Clause */
/* part.h - NAME.tsh/part: lists the shards of a partial copy of a tensor, which has only those
 * that one of several processes reads.
 *
 * The shards of the part, at the positions that the index gives, and all other files equal those
 * of the tensor, byte for byte. modeK.shards has holes in place of other shards. The file is text:
 * the word TSHPART1, the checksum of the index, the number of the part and of all parts, and for
 * each mode the first shard and the one after the last.
 *
 *   units    shards, from 0; parts from 1
 *   threads  pure, except ts_part_read
 *   errors   0 or a negative ts_code; the file is untrusted
 */
#ifndef TS_FORMAT_PART_H
#define TS_FORMAT_PART_H

#include "format/tensor.h"

#define TS_PART_NAME  "part"
#define TS_PART_MAGIC "TSHPART1"
#define TS_PART_BYTES 4096u /* the largest size of the file `part` */

/* Reads the file `part` into t->part. Without it, t->part.n stays 0: the tensor is complete. */
int ts_part_read(struct ts_tensor *t, struct ts_err *err);

/* Writes the text of the file `part` to ret. Returns its length. */
size_t ts_part_text(const struct ts_tensor *t, const struct ts_part *part, char ret[TS_PART_BYTES]);

static inline int ts_part_has(const struct ts_tensor *t, uint32_t mode, uint64_t shard)
{
    return t->part.n == 0 || (shard >= t->part.first[mode] && shard < t->part.end[mode]);
}

/* Returns 0 if this machine has the shard, or TS_EFORMAT with a message that says what to do. */
int ts_part_check(const struct ts_tensor *t, uint32_t mode, uint64_t shard, struct ts_err *err);

#endif
