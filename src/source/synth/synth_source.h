/* SPDX-License-Identifier: BSD-3-Clause */
/* synth_source.h - draws the nonzeros of the generator with several threads, as a source
 * (source.h).
 *
 *   owner    the source owns its threads and batches
 *   units    draws
 *   threads  new, start and free from one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_SYNTH_SOURCE_H
#define TS_SOURCE_SYNTH_SOURCE_H

#include <stdint.h>

#include "base/err.h"
#include "source/source.h"
#include "source/synth/synth.h"

struct ts_synth_source;

/* Returns how many threads, at most `threads`, can each have a batch if all batches may take
 * `bytes` bytes. */
uint32_t ts_synth_source_threads(const struct ts_synth *synth, uint32_t threads, uint64_t bytes);

/* Makes a source. Tables for faster drawing use at most table_bytes. */
int ts_synth_source_new(const struct ts_synth *synth, uint32_t threads, uint64_t table_bytes,
                        struct ts_synth_source **ret, struct ts_err *err);
void ts_synth_source_free(struct ts_synth_source *s); /* waits for the threads; s may be NULL */

struct ts_source ts_synth_source_as_source(struct ts_synth_source *s);

#endif
