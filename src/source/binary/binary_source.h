/* SPDX-License-Identifier: BSD-3-Clause */
/* binary_source.h - binary files (binary_kind.h) decoded by many threads, as a source of nonzeros.
 *
 * Threads take pieces of so many nonzeros in turn. From a file on disk each reads its own: in one
 * place, or in one for each mode and one for the values where those are arrays. What comes through
 * a pipe, or is packed, is read in turn, and can only be nonzero behind nonzero.
 *
 *   owner    the source owns its threads, buffers and files
 *   units    nonzeros; positions in sentences are bytes from the start of the (unpacked) file
 *   threads  open, start, stop and close from one
 *   errors   0 or a negative ts_code; what goes wrong in a thread goes to the sink, the first in
 *            the order of the files
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
void ts_binary_source_close(struct ts_binary_source *s); /* after stop; NULL is fine */

uint32_t ts_binary_source_order(const struct ts_binary_source *s);
const uint64_t *ts_binary_source_dims(const struct ts_binary_source *s);

/* Reads the files of a plan (without `first`) by itself, for the first two nonzeros at these
 * indices. *n says how many there are in ret. */
struct ts_binary_found {
    uint32_t file;
    uint64_t nonzero, byte; /* nonzero: from 1 */
};
int ts_binary_source_find(const struct ts_files_plan *plan, const uint64_t *index,
                          struct ts_binary_found ret[2], uint32_t *n, struct ts_err *err);

struct ts_source ts_binary_source_as_source(struct ts_binary_source *s);

#endif
