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
    const struct ts_tensor *tensor; /* the whole tensor, or a part of it that has these shards */
    struct ts_part part;            /* wanted */
    const char *out;
    int force;                               /* replaces an existing tensor */
    int no_space_check;                      /* starts even if too little of the disk is free */
    const volatile sig_atomic_t *stop;       /* NULL, or not 0 when the user wants to stop */
    void (*done)(void *ctx, uint64_t bytes); /* bytes of shards copied so far; may be NULL */
    void *ctx;
};

/* Copies the part. *bytes: bytes of the shards that were copied. warn->code is not 0 if something
 * failed after the directory was in place, which then stays. */
int ts_part_write(const struct ts_part_conf *conf, uint64_t *bytes, struct ts_err *warn,
                  struct ts_err *err);

/* The bytes that ts_part_write will copy. */
uint64_t ts_part_shard_bytes(const struct ts_tensor *t, const struct ts_part *part);

#endif
