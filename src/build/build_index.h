/* SPDX-License-Identifier: BSD-3-Clause */
/* build_index.h - writes NAME.tsh/index at the end of a build.
 *
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_BUILD_INDEX_H
#define TS_BUILD_BUILD_INDEX_H

#include "base/err.h"
#include "build/build_dir.h"
#include "format/layout.h"

/* Writes the index of a tensor. It sets magic, version, block sizes and index_bytes of the header;
 * the caller sets the other fields. *ret_hash is the checksum of the index. dict has header->n_dict
 * values, and shard[m] has mode[m].n_shards entries. */
int ts_build_index_write(const struct ts_build_dir *dir, struct ts_disk_header *header,
                         const struct ts_disk_mode mode[], const double *dict,
                         struct ts_disk_shard *const shard[], uint64_t *ret_hash,
                         struct ts_err *err);

#endif
