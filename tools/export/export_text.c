/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects text in memory through a stdio stream, and writes it to a sink (export_sink.h) in
 * pieces. */
#include "tools/export/export_text.h"

#include <stdlib.h>

#define PIECE_BYTES ((size_t)1 << 20)

int export_text_open(struct export_text *t, struct ts_err *err)
{
    t->to = open_memstream(&t->piece, &t->bytes);
    return t->to == NULL ? ts_fail(err, TS_ENOMEM, "out of memory for lines") : 0;
}

static int write_piece(struct export_text *t, struct ts_err *err)
{
    const int failed = ferror(t->to);
    const char *bytes;
    int rc = fclose(t->to) != 0 || failed ? ts_fail(err, TS_ENOMEM, "out of memory for lines") : 0;
    t->to = NULL;
    bytes = t->piece;
    if (rc == 0 && t->sink->gzip && t->bytes > 0) {
        rc = export_sink_pack(t->piece, t->bytes, &t->packed, &t->room, &t->bytes, err);
        bytes = t->packed;
    }
    if (rc == 0)
        rc = export_sink_write(t->sink, bytes, t->bytes, err);
    free(t->piece);
    t->piece = NULL;
    return rc;
}

int export_text_flush(struct export_text *t, struct ts_err *err)
{
    const int rc = write_piece(t, err);
    return rc < 0 ? rc : export_text_open(t, err);
}

int export_text_full(struct export_text *t)
{
    fflush(t->to);
    return t->bytes >= PIECE_BYTES;
}

int export_text_close(struct export_text *t, int rc, struct ts_err *err)
{
    if (t->to != NULL && rc == 0) {
        rc = write_piece(t, err);
    } else if (t->to != NULL) {
        fclose(t->to);
        free(t->piece);
    }
    free(t->packed);
    *t = (struct export_text){ .sink = t->sink };
    return rc;
}
