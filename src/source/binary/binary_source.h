/* SPDX-License-Identifier: BSD-3-Clause */
/* binary_source.h - reads nonzeros from binary files (binary_kind.h) with many threads, as a source
 * (source.h).
 *
 * Threads take pieces, each with the same number of nonzeros, in turn. From an uncompressed file
 * each thread reads its piece itself, or its piece of each array if modes and values are separate
 * arrays. Pipes and compressed files are read in order, and cannot hold separate arrays.
 *
 *   owner    the source owns its threads, buffers and files
 *   units    nonzeros; positions in messages are bytes from the start of the (unpacked) file
 *   threads  open, start, stop and close from one
 *   errors   0 or a negative ts_code; failures in threads are reported to the sink, which keeps the
 *            first in the order of the files
 */
#ifndef TS_SOURCE_BINARY_SOURCE_H
#define TS_SOURCE_BINARY_SOURCE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "source/files_plan.h"
#include "source/source.h"

struct ts_binary_source;

/* Reads the header of the first file, and checks the headers of those other files that are regular
 * files. */
int ts_binary_source_open(const struct ts_files_plan *plan, struct ts_binary_source **ret,
                          struct ts_err *err);
/* to be called after stop; s may be NULL */
void ts_binary_source_close(struct ts_binary_source *s);

uint32_t ts_binary_source_order(const struct ts_binary_source *s);
const uint64_t *ts_binary_source_dims(const struct ts_binary_source *s);

/* Searches the files of a plan (whose `first` is NULL) for the first two nonzeros at these indices,
 * with one thread. *n: number of entries in ret. */
struct ts_binary_found {
    uint32_t file;
    uint64_t nonzero, byte; /* number of the nonzero in its file, from 1; its position in bytes */
};
int ts_binary_source_find(const struct ts_files_plan *plan, const uint64_t *index,
                          struct ts_binary_found ret[2], uint32_t *n, struct ts_err *err);

struct ts_source ts_binary_source_as_source(struct ts_binary_source *s);

#endif
