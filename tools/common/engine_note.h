/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_note.h - what a command says of the engine that it got, on standard error. */
#ifndef TS_TOOLS_ENGINE_NOTE_H
#define TS_TOOLS_ENGINE_NOTE_H

#include "api/tools.h"

/* Prints a note if the CPU computes although a GPU driver is installed. */
void engine_note_processor(const struct ts_cmd *cmd, const struct ts_engine *e);

/* Once, what the kernel refused. */
void engine_note_feed(const struct ts_cmd *cmd, const struct ts_feed_stats *stats);

#endif
