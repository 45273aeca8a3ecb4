/* SPDX-License-Identifier: BSD-3-Clause */
/* export_room.h - estimates the size of a text before it is written, and compares it with the free
 * space of its disk.
 *
 *   units    bytes; UINT64_MAX: unknown
 *   threads  the estimates are pure; export_room_check prints
 *   errors   TS_EIO if the text cannot fit
 */
#ifndef TS_TOOLS_EXPORT_ROOM_H
#define TS_TOOLS_EXPORT_ROOM_H

#include "tools/export/export_sink.h"

/* Bounds the bytes of the lines of a tensor's nonzeros. Lower bound: an index has at least as many
 * digits as the first row of its shard, in each mode's copy. Upper bound: line_bytes for each
 * nonzero. named: 1 if lines have names, which may have any length. */
struct ts_space export_room_of_rows(const struct ts_tensor *t, uint32_t base, int named,
                                    uint64_t line_bytes);

/* Bounds the bytes of the lines of n known cells of a dense tensor. */
struct ts_space export_room_of_cells(const struct ts_tensor *t, uint64_t n);

/* Bounds the bytes of the lines of a generated tensor. */
struct ts_space export_room_of_draws(const struct ts_synth *s);

/* Bounds the bytes of a ktensor text of the planted factors, most of whose entries are 0. */
struct ts_space export_room_of_truth(const struct ts_synth *s);

/* Fails if the text cannot fit into the file, and warns if it may not. text: size before
 * compression. Pipes and devices are not checked. option: the option that names the file. */
int export_room_check(const struct export_sink *sink, const char *option, struct ts_space text,
                      struct ts_err *err);

#endif
