/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_note.h - notes on standard error about the engine that a command uses. */
#ifndef TS_TOOLS_ENGINE_NOTE_H
#define TS_TOOLS_ENGINE_NOTE_H

#include "api/tools.h"

/* Prints a note if the CPU computes although a GPU driver is installed. */
void engine_note_processor(const struct ts_cmd *cmd, const struct ts_engine *e);

/* Prints a note if the kernel refused io_uring or O_DIRECT for reads. To be called once. */
void engine_note_feed(const struct ts_cmd *cmd, const struct ts_feed_stats *stats);

#endif
