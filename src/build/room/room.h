/* SPDX-License-Identifier: BSD-3-Clause */
/* room.h - what a command takes of disk and memory, held against what is free there.
 *
 * Bounds below what is free: it fits. At least more than is free: it cannot. Between them nobody
 * knows, and it is said. What is free counts quotas and limits (base/files/disk_free.h,
 * base/machine/machine.h).
 *
 *   owner    the room owns its paths
 *   units    bytes; a high bound of UINT64_MAX: not known
 *   threads  any
 *   errors   TS_EIO, of memory TS_ENOMEM, with a sentence that has the figures
 */
#ifndef TS_BUILD_ROOM_H
#define TS_BUILD_ROOM_H

#include <stdint.h>

#include "base/files/disk_free.h"
#include "base/err.h"

struct ts_space {
    uint64_t low, high;
};

/* Peaks. */
struct ts_need {
    struct ts_space result, tmp; /* of the result, of temporary files */
    struct ts_space both;        /* of both together, on one disk */
    uint64_t file;               /* the largest file, at least */
    struct ts_space memory;
};

struct ts_room {
    const char *what;  /* takes it: "the build" */
    const char *name;  /* of the result, for sentences */
    const char *place; /* the setting that names it; NULL: TS_SET_OUTPUT, "": there is none */
    char *dir, *tmp;   /* where it and temporary files lie; NULL: nobody has looked */
    struct ts_disk_free out, in_tmp;
    uint64_t memory_bytes; /* of the machine or its limits */
};

/* What is free, once: later the command's own files lie there, too. tmp NULL: beside the result. No
 * memory: nothing is known. */
void ts_room_look(const char *use, const char *name, const char *tmp, struct ts_room *ret);
void ts_room_free(struct ts_room *r);

/* Whether result and temporary files lie on one disk. */
int ts_room_is_one_disk(const struct ts_room *r);

/* Refuses what cannot fit. `when` begins the sentence: "nothing was read". */
int ts_room_check(const struct ts_room *r, const struct ts_need *need, const char *when,
                  struct ts_err *err);

/* Whether it may not fit, though it can; then err has the sentence, with `but` in it. */
int ts_room_may_lack(const struct ts_room *r, const struct ts_need *need, const char *but,
                     struct ts_err *err);

#endif
