/* SPDX-License-Identifier: BSD-3-Clause */
/* room.h - compares the disk space and memory that a command needs with the free space and memory.
 *
 * If the upper bound of the need is free, the command has enough. If the lower bound is not free,
 * ts_room_check fails. If only the lower bound is free, ts_room_may_lack warns. Free space respects
 * quotas and limits (base/files/disk_free.h, base/machine/machine.h).
 *
 *   owner    the room owns its paths
 *   units    bytes; high UINT64_MAX: not known
 *   threads  any
 *   errors   TS_EIO, or TS_ENOMEM in a warning about memory, with a message that has the numbers
 */
#ifndef TS_BUILD_ROOM_H
#define TS_BUILD_ROOM_H

#include <stdint.h>

#include "base/files/disk_free.h"
#include "base/err.h"

/* A lower and an upper bound of a number of bytes or nonzeros. */
struct ts_space {
    uint64_t low, high;
};

/* The most space and memory that a command uses at one time. */
struct ts_need {
    struct ts_space result, tmp; /* disk space of the result, and of temporary files */
    struct ts_space both;        /* disk space of both, if they are on one disk */
    uint64_t file;               /* lower bound of the largest file */
    struct ts_space memory;
};

/* The free space and memory for a command. */
struct ts_room {
    const char *what; /* the command as messages name it: "the build" */
    const char *name; /* name of the result (a tensor or file) in messages */
    /* the setting that names the result; NULL: TS_SET_OUTPUT; "": no setting does */
    const char *place;
    /* directories of the result and of temporary files; NULL: ts_room_look was not called */
    char *dir, *tmp;
    struct ts_disk_free out, in_tmp;
    uint64_t memory_bytes; /* free memory of the machine, within its limits */
};

/* Reads the free space and memory. To be called before the command writes files, because they take
 * space. tmp NULL: temporary files are in the directory of the result. If memory for the paths is
 * missing, ret->dir is NULL. */
void ts_room_look(const char *use, const char *name, const char *tmp, struct ts_room *ret);
void ts_room_free(struct ts_room *r);

/* Whether the result and the temporary files are on one disk. */
int ts_room_is_one_disk(const struct ts_room *r);

/* Fails if the lower bound of the need is not free. when: says in the message how far the command
 * came, as in "nothing was read". */
int ts_room_check(const struct ts_room *r, const struct ts_need *need, const char *when,
                  struct ts_err *err);

/* Returns 1 if space or memory may be too small, because only the lower bound of the need is free.
 * Then *err has a warning. but: text before the warning. */
int ts_room_may_lack(const struct ts_room *r, const struct ts_need *need, const char *but,
                     struct ts_err *err);

#endif
