/* SPDX-License-Identifier: BSD-3-Clause */
/* export_text.h - writes text to a sink with stdio, in pieces that are compressed if the sink is
 * gzip.
 *
 *   owner    the caller owns the sink and the struct, zeroed but for `sink`; close accepts one that
 *            was never opened
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_EXPORT_TEXT_H
#define TS_TOOLS_EXPORT_TEXT_H

#include <stdio.h>

#include "tools/export/export_sink.h"

struct export_text {
    struct export_sink *sink;
    FILE *to; /* the piece of text that is being made; NULL: none */
    char *piece, *packed;
    size_t bytes, room;
};

int export_text_open(struct export_text *t, struct ts_err *err); /* begins the first piece */
int export_text_flush(struct export_text *t,
                      struct ts_err *err);   /* writes the piece and begins another */
int export_text_full(struct export_text *t); /* whether the current piece has a MiB or more */

/* If rc is 0, writes the text that is still in memory. Frees the stream. Returns rc, or the failure
 * of the last write. */
int export_text_close(struct export_text *t, int rc, struct ts_err *err);

#endif
