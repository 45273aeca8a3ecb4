/* SPDX-License-Identifier: BSD-3-Clause */
/* export_room.h - what a text takes, before it is written, held against what its disk has free.
 *
 *   units    bytes; UINT64_MAX: not known
 *   threads  pure; check prints
 *   errors   TS_EIO where the text cannot fit
 */
#ifndef TS_TOOLS_EXPORT_ROOM_H
#define TS_TOOLS_EXPORT_ROOM_H

#include "tools/export/export_sink.h"

/* The lines of a tensor's nonzeros. At least: an index has no fewer digits than the first row of
 * its shard, in each mode's copy. At most: n lines of line_bytes; names may be of any length. */
struct ts_space export_room_of_rows(const struct ts_tensor *t, uint32_t base, int named,
                                    uint64_t line_bytes);

/* Lines of n known cells of a dense tensor. */
struct ts_space export_room_of_cells(const struct ts_tensor *t, uint64_t n);

/* Lines of draws. */
struct ts_space export_room_of_draws(const struct ts_synth *s);

/* A ktensor text of the planted factors, most of whose entries are 0. */
struct ts_space export_room_of_truth(const struct ts_synth *s);

/* Refuses what cannot fit into the file, and warns of what may not. `text` is before compression.
 * Pipes and devices take anything. `option` names the file. */
int export_room_check(const struct export_sink *sink, const char *option, struct ts_space text,
                      struct ts_err *err);

#endif
