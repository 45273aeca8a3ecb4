/* SPDX-License-Identifier: BSD-3-Clause */
/* part_write.h - copies a part of a tensor (format/part.h) to a directory of its own.
 *
 *   owner    the caller owns the tensor
 *   units    bytes
 *   threads  one
 *   errors   0 or a negative ts_code: a file cannot be read or written, or a shard has a wrong
 *            checksum. TS_EBUSY: `out` exists. On failure `out` is removed
 */
#ifndef TS_BUILD_PART_WRITE_H
#define TS_BUILD_PART_WRITE_H

#include <signal.h>

#include "format/part.h"

struct ts_part_conf {
    const struct ts_tensor *tensor; /* the tensor, or a part of it that has the shards of `part` */
    struct ts_part part;            /* the part to be copied */
    const char *out;
    int force; /* 1: replaces a tensor that exists at `out` */
    /* 1: starts even if the disk has too little free space */
    int no_space_check;
    const volatile sig_atomic_t *stop; /* ends copying when it is set; may be NULL */
    /* called with the bytes of shards that were copied so far; or NULL */
    void (*done)(void *ctx, uint64_t bytes);
    void *ctx;
};

/* Copies the part. *bytes: total size of the shards that were copied. warn->code is not 0 if
 * something failed after the new directory had its name. The directory then stays. */
int ts_part_write(const struct ts_part_conf *conf, uint64_t *bytes, struct ts_err *warn,
                  struct ts_err *err);

/* Returns the bytes of shards that ts_part_write will copy. */
uint64_t ts_part_shard_bytes(const struct ts_tensor *t, const struct ts_part *part);

#endif
