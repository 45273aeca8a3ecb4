/* SPDX-License-Identifier: BSD-3-Clause */
/* part_write.h - copies a part of a tensor (format/part.h) to a directory of its own.
 *
 *   owner    the caller owns the tensor
 *   units    bytes
 *   threads  one
 *   errors   0 or a negative ts_code: what cannot be read or written, a shard whose checksum is
 *            wrong. TS_EBUSY: OUT exists. On failure nothing is left
 */
#ifndef TS_BUILD_PART_WRITE_H
#define TS_BUILD_PART_WRITE_H

#include <signal.h>

#include "format/part.h"

struct ts_part_conf {
    const struct ts_tensor *tensor; /* whole, or a part that has these shards */
    struct ts_part part;            /* wanted */
    const char *out;
    int force;                               /* replaces a tensor that is there */
    int no_space_check;                      /* starts however little is free */
    const volatile sig_atomic_t *stop;       /* NULL, or not 0 when the user wants to stop */
    void (*done)(void *ctx, uint64_t bytes); /* so many of shards are copied in all; or NULL */
    void *ctx;
};

/* *bytes: of the shards that were copied. warn->code is not 0 when something failed after the
 * directory was in its place. */
int ts_part_write(const struct ts_part_conf *conf, uint64_t *bytes, struct ts_err *warn,
                  struct ts_err *err);

/* What that will be. */
uint64_t ts_part_shard_bytes(const struct ts_tensor *t, const struct ts_part *part);

#endif
