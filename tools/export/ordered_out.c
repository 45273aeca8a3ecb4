/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes pieces in order; early pieces wait in a temporary file. */
#include "tools/export/ordered_out.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 18)

int ordered_out_open(struct ordered_out *o, struct export_sink *sink, const char *dir,
                     uint64_t n_pieces, struct ts_err *err)
{
    *o = (struct ordered_out){ .sink = sink, .dir = dir, .n = n_pieces, .fd = -1 };
    o->early = calloc(n_pieces + 1, sizeof *o->early);
    o->buffer = malloc(BUFFER_BYTES);
    if (o->early == NULL || o->buffer == NULL) {
        free(o->early);
        free(o->buffer);
        *o = (struct ordered_out){ .fd = -1 };
        return ts_fail(err, TS_ENOMEM, "out of memory for lines");
    }
    pthread_mutex_init(&o->lock, NULL);
    return 0;
}

void ordered_out_close(struct ordered_out *o)
{
    if (o->early == NULL)
        return;
    if (o->fd >= 0)
        close(o->fd);
    pthread_mutex_destroy(&o->lock);
    free(o->early);
    free(o->buffer);
    *o = (struct ordered_out){ .fd = -1 };
}

static int keep(struct ordered_out *o, uint64_t piece, const char *bytes, size_t n,
                struct ts_err *err)
{
    int rc = o->fd >= 0 ? 0 : ts_tempfile_new(o->dir, &o->fd, err);
    if (rc == 0)
        rc = ts_tempfile_write(o->fd, o->dir, bytes, n, o->end, err);
    o->early[piece].at = o->end;
    o->early[piece].bytes = n;
    o->early[piece].there = 1;
    o->end += n;
    return rc;
}

/* Copies the pieces that are next in order from the temporary file, where they were early. */
static int copy_early(struct ordered_out *o, struct ts_err *err)
{
    int rc = 0;
    for (; rc == 0 && o->next < o->n && o->early[o->next].there; o->next++) {
        uint64_t at = o->early[o->next].at;
        size_t left = o->early[o->next].bytes;
        while (left > 0 && rc == 0) {
            const size_t n = left < BUFFER_BYTES ? left : BUFFER_BYTES;
            rc = ts_tempfile_read(o->fd, o->dir, o->buffer, n, at, err);
            if (rc == 0)
                rc = export_sink_write(o->sink, o->buffer, n, err);
            at += n;
            left -= n;
        }
    }
    return rc;
}

int ordered_out_put(struct ordered_out *o, uint64_t piece, const char *bytes, size_t n,
                    struct ts_err *err)
{
    int rc;
    pthread_mutex_lock(&o->lock);
    if (piece == o->next) {
        rc = export_sink_write(o->sink, bytes, n, err);
        o->next++;
        if (rc == 0)
            rc = copy_early(o, err);
    } else {
        rc = keep(o, piece, bytes, n, err);
    }
    pthread_mutex_unlock(&o->lock);
    return rc;
}
