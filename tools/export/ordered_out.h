/* SPDX-License-Identifier: BSD-3-Clause */
/* ordered_out.h - writes pieces of output, which many threads make in any order, in the order of
 * their numbers.
 *
 * The next piece in order is written at once. An early piece goes to a temporary file, and is
 * copied from there when its turn comes. So memory does not depend on the order, and no thread
 * waits for another.
 *
 *   owner    the caller owns the sink
 *   units    bytes; pieces from 0
 *   threads  any thread may call put; one thread opens and closes
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_ORDERED_OUT_H
#define TS_TOOLS_ORDERED_OUT_H

#include <pthread.h>

#include "tools/export/export_sink.h"

struct ordered_out {
    struct export_sink *sink;
    const char *dir; /* directory of the temporary file */
    pthread_mutex_t lock;
    uint64_t n, next; /* number of pieces; the first piece not written */
    struct {
        uint64_t at;
        size_t bytes;
        int there;
    } * early; /* for each piece that was finished early: its place in the temporary file */
    int fd;    /* temporary file; -1: no piece was early so far */
    uint64_t end;
    char *buffer;
};

int ordered_out_open(struct ordered_out *o, struct export_sink *sink, const char *dir,
                     uint64_t n_pieces, struct ts_err *err);
void ordered_out_close(struct ordered_out *o); /* accepts a struct of zeros */

/* Writes a piece. Call it once for each piece. */
int ordered_out_put(struct ordered_out *o, uint64_t piece, const char *bytes, size_t n,
                    struct ts_err *err);

#endif
