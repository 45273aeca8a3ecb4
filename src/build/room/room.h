/* SPDX-License-Identifier: BSD-3-Clause */
/* room.h - compares the disk space and memory that a command needs with what is free.
 *
 * If the upper bound is free, the command fits. If the lower bound is not, it is refused. In
 * between a warning is possible. Free space counts quotas and limits (base/files/disk_free.h,
 * base/machine/machine.h).
 *
 *   owner    the room owns its paths
 *   units    bytes; a high bound of UINT64_MAX: not known
 *   threads  any
 *   errors   TS_EIO, for memory TS_ENOMEM, with a message that has the figures
 */
#ifndef TS_BUILD_ROOM_H
#define TS_BUILD_ROOM_H

#include <stdint.h>

#include "base/files/disk_free.h"
#include "base/err.h"

struct ts_space {
    uint64_t low, high;
};

/* The most space that is in use at one time. */
struct ts_need {
    struct ts_space result, tmp; /* space for the result, and for temporary files */
    struct ts_space both;        /* space for both together, if they are on one disk */
    uint64_t file;               /* lower bound of the largest file */
    struct ts_space memory;
};

struct ts_room {
    const char *what; /* the command in messages: "the build" */
    const char *name; /* name of the result in messages */
    /* the setting that names the result; NULL: TS_SET_OUTPUT; "": there is none */
    const char *place;
    /* directories of the result and of temporary files; NULL: ts_room_look was not called */
    char *dir, *tmp;
    struct ts_disk_free out, in_tmp;
    uint64_t memory_bytes; /* memory of the machine, or its limit */
};

/* Finds out the free space and memory. To be called once, because the command's own files take
 * space later. tmp NULL: temporary files are beside the result. Without memory for the paths, dir
 * stays NULL. */
void ts_room_look(const char *use, const char *name, const char *tmp, struct ts_room *ret);
void ts_room_free(struct ts_room *r);

/* Whether the result and the temporary files are on one disk. */
int ts_room_is_one_disk(const struct ts_room *r);

/* Fails if the lower bound of the need is not free. `when` begins the message: "nothing was
 * read". */
int ts_room_check(const struct ts_room *r, const struct ts_need *need, const char *when,
                  struct ts_err *err);

/* Returns 1 if the space may be too small, because only the lower bound of the need is free. Then
 * err has a warning that contains `but`. */
int ts_room_may_lack(const struct ts_room *r, const struct ts_need *need, const char *but,
                     struct ts_err *err);

#endif
