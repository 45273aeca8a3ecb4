/* SPDX-License-Identifier: BSD-3-Clause */
/* ordered_out.h - pieces that many threads make in any order, written in the order of their
 * numbers.
 *
 * A piece whose turn has come is written at once; one that is early goes to a temporary file, and
 * is copied from there when its turn comes. So memory is the same for any order, and nobody waits
 * for another.
 *
 *   owner    the caller owns the sink
 *   units    bytes; pieces from 0
 *   threads  put from any; open and close from one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_ORDERED_OUT_H
#define TS_TOOLS_ORDERED_OUT_H

#include <pthread.h>

#include "tools/export/export_sink.h"

struct ordered_out {
    struct export_sink *sink;
    const char *dir; /* for the temporary file */
    pthread_mutex_t lock;
    uint64_t n, next; /* pieces; the first that was not written */
    struct {
        uint64_t at;
        size_t bytes;
        int there;
    } * early; /* for each piece that was finished early: its place in the temporary file */
    int fd;    /* -1: no piece was early yet */
    uint64_t end;
    char *buffer;
};

int ordered_out_open(struct ordered_out *o, struct export_sink *sink, const char *dir,
                     uint64_t n_pieces, struct ts_err *err);
void ordered_out_close(struct ordered_out *o); /* one of zeros is fine */

/* Each piece once. */
int ordered_out_put(struct ordered_out *o, uint64_t piece, const char *bytes, size_t n,
                    struct ts_err *err);

#endif
