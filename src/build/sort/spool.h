/* SPDX-License-Identifier: BSD-3-Clause */
/* spool.h - a sequence of records, in memory or in a temporary file, or the first of them in memory
 * and the rest in a file.
 *
 *   owner    the spool owns its file; memory and rooms belong to the caller
 *   units    records of one layout
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_SPOOL_H
#define TS_BUILD_SPOOL_H

#include <stdint.h>

#include "base/err.h"
#include "build/sort/record.h"

/* Memory for the first records of two spools: one that is read, and one that is written. */
struct ts_spool_rooms {
    uint64_t *mem[2], words; /* words: size of each; 0: there is no memory */
    int taken[2];
};

struct ts_spool {
    struct ts_record_layout layout;
    uint64_t n;
    uint64_t *mem; /* NULL: in the file */
    int fd;        /* -1: there is no file */
    const char *tmp;
    /* Rooms for the first records; NULL: there are none. */
    struct ts_spool_rooms *rooms;
    uint32_t room;          /* number of the room of this spool, from 1; 0: it has none */
    uint64_t *head, head_n; /* in the room: the first records, as many as fit */
};

/* Makes an empty spool in a temporary file of directory tmp, which must stay; its first records go
 * into a room, if one is free by then, until it is closed. */
int ts_spool_file(struct ts_spool *s, const struct ts_record_layout *layout, const char *tmp,
                  struct ts_spool_rooms *rooms, struct ts_err *err);

/* Gives the n records at *mem, in memory as large as a room, to an empty spool. In exchange *mem
 * becomes a free room. Returns 1, or 0 if there is no such room; nothing is changed then. */
int ts_spool_adopt(struct ts_spool *s, uint64_t **mem, uint64_t n);
void ts_spool_close(struct ts_spool *s);

int ts_spool_append(struct ts_spool *s, const uint64_t *rec, uint64_t n, struct ts_err *err);

/* Returns records [first, first + n): where they are in memory, or read into buf. */
int ts_spool_read(const struct ts_spool *s, uint64_t first, uint64_t n, uint64_t *buf,
                  const uint64_t **ret, struct ts_err *err);

#endif
